//! Shape rules and reference kernels on inputs that nobody meant: any shapes, dtypes and values, on every op.

// A test may panic, also in its helpers.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use saltica_models::graph::{Case, Fact, Op};
use saltica_tensor::{DType, Shape, Tensor, ViewMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

static CASES: LazyLock<Vec<Case>> = LazyLock::new(Op::cases);

/// What happens to an input of a case.
#[derive(Clone, Debug)]
enum Change {
    Keep,
    Absent,
    /// Another shape, filled with numbers from the list.
    Other(DType, Vec<usize>, Vec<i64>),
    /// The same shape and dtype, other numbers.
    Values(Vec<i64>),
    /// A shape of any size; no value is known.
    Huge(DType, Vec<usize>),
    /// The same, but the value is unknown.
    Unknown,
}

fn dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(DType::ALL.to_vec())
}

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![4 => -4..6i64, 1 => prop::sample::select(vec![i64::MIN, i64::MAX, -1 << 40, 1 << 40, 1 << 62])]
}

fn change() -> impl Strategy<Value = Change> {
    let values = || prop::collection::vec(number(), 1..12);
    let huge = prop_oneof![0..5usize, Just(1 << 20), Just(1 << 40), Just(usize::MAX)];
    prop_oneof![
        6 => Just(Change::Keep),
        1 => Just(Change::Absent),
        2 => (dtype(), prop::collection::vec(0..4usize, 0..6), values())
            .prop_map(|(d, shape, v)| Change::Other(d, shape, v)),
        4 => values().prop_map(Change::Values),
        1 => (dtype(), prop::collection::vec(huge, 0..8)).prop_map(|(d, shape)| Change::Huge(d, shape)),
        1 => Just(Change::Unknown),
    ]
}

fn filled(dtype: DType, shape: Shape, numbers: &[i64]) -> Tensor {
    let list: Vec<i64> = numbers.iter().copied().cycle().take(shape.elements()).collect();
    Tensor::from_slice(&shape, &list).unwrap().cast(dtype).unwrap()
}

/// Largest result that is really computed.
const MAX_ELEMENTS: usize = 1 << 14;

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_input_makes_an_op_panic(which in any::<prop::sample::Index>(), changes in prop::collection::vec(change(), 6)) {
        let case = which.get(&CASES);
        let mut tensors: Vec<Option<Tensor>> = Vec::new();
        let mut known = Vec::new();
        let mut shapes = Vec::new();
        for (input, change) in case.inputs.iter().zip(&changes) {
            let (tensor, shape) = match (change, input) {
                (Change::Absent, _) | (Change::Keep | Change::Values(_) | Change::Unknown, None) => (None, None),
                (Change::Keep | Change::Unknown, Some(t)) => (Some(t.clone()), None),
                (Change::Values(v), Some(t)) => (Some(filled(t.dtype(), *t.shape(), v)), None),
                (Change::Other(d, dims, v), _) => (Some(filled(*d, Shape::new(dims).unwrap(), v)), None),
                (Change::Huge(d, dims), _) => (None, Shape::new(dims).ok().map(|s| (*d, s))),
            };
            known.push(!matches!(change, Change::Unknown));
            tensors.push(tensor);
            shapes.push(shape);
        }
        let facts: Vec<_> = tensors
            .iter()
            .zip(&shapes)
            .zip(&known)
            .map(|((t, shape), &known)| match (t, shape) {
                (Some(t), _) => Some(Fact { value: known.then_some(t), ..Fact::of(t) }),
                (None, Some((dtype, shape))) => Some(Fact { dtype: *dtype, shape: *shape, value: None }),
                (None, None) => None,
            })
            .collect();
        let answer = catch_unwind(AssertUnwindSafe(|| compute(case, &tensors, &shapes, &facts)));
        prop_assert!(answer.is_ok(), "{} / {}: {facts:?}", case.op.name(), case.name);
    }
}

/// Infers, and if all values are there and the result is small, runs.
fn compute(
    case: &Case,
    tensors: &[Option<Tensor>],
    shapes: &[Option<(DType, Shape)>],
    facts: &[Option<Fact<'_>>],
) {
    // An error is an answer; a panic is not.
    let Ok(outs) = case.op.infer(facts) else { return };
    let complete = shapes.iter().all(Option::is_none);
    if complete && outs.iter().all(|o| o.shape.elements() <= MAX_ELEMENTS) {
        let views: Vec<_> = tensors.iter().map(|t| t.as_ref().map(Tensor::view)).collect();
        let mut results: Vec<Tensor> =
            outs.iter().map(|o| Tensor::zeros(o.dtype, o.shape).unwrap()).collect();
        let mut outputs: Vec<ViewMut<'_>> = results.iter_mut().map(|t| t.view_mut().unwrap()).collect();
        let _ = case.op.run(&views, &mut outputs);
    }
}
