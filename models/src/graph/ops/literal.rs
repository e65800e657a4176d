//! Short words to write cases with. They panic on literals that contradict each other, which is a bug to show.

use super::{Case, Op, Tolerance};
use crate::graph::attrs::{Attr, NodeInfo};
use half::f16;
use saltica_tensor::{Bool, Element, Tensor};

/// A tensor of these dims and numbers.
#[allow(clippy::panic)]
pub(super) fn tensor<T: Element>(dims: &[usize], data: &[T]) -> Option<Tensor> {
    Some(
        Tensor::from_slice(dims, data)
            .unwrap_or_else(|e| panic!("a case's literals contradict each other: {e}")),
    )
}

/// What was built from literals.
#[allow(clippy::panic)]
pub(super) fn literal<T>(built: crate::Result<T>) -> T {
    built.unwrap_or_else(|e| panic!("a case's literals contradict each other: {e}"))
}

/// f32 numbers.
pub(super) fn f32s(dims: &[usize], data: &[f32]) -> Option<Tensor> {
    tensor(dims, data)
}

/// f16 numbers, written as f32.
pub(super) fn f16s(dims: &[usize], data: &[f32]) -> Option<Tensor> {
    tensor(dims, &data.iter().map(|&v| f16::from_f32(v)).collect::<Vec<_>>())
}

/// i64 numbers.
pub(super) fn i64s(dims: &[usize], data: &[i64]) -> Option<Tensor> {
    tensor(dims, data)
}

/// i32 numbers.
pub(super) fn i32s(dims: &[usize], data: &[i32]) -> Option<Tensor> {
    tensor(dims, data)
}

/// i8 numbers.
pub(super) fn i8s(dims: &[usize], data: &[i8]) -> Option<Tensor> {
    tensor(dims, data)
}

/// u8 numbers.
pub(super) fn u8s(dims: &[usize], data: &[u8]) -> Option<Tensor> {
    tensor(dims, data)
}

/// Truth values, written as 0 and 1.
pub(super) fn bools(dims: &[usize], data: &[u8]) -> Option<Tensor> {
    tensor(dims, &data.iter().map(|&v| Bool::from(v != 0)).collect::<Vec<_>>())
}

/// An op read from a node of this type and opset with this many inputs.
#[allow(clippy::panic)]
pub(super) fn node(op_type: &str, opset: u32, inputs: usize, attrs: Vec<(&str, Attr)>) -> Op {
    Op::parse(&NodeInfo::new(op_type, opset, inputs, attrs))
        .unwrap_or_else(|e| panic!("a case's node {op_type} of opset {opset} is wrong: {e}"))
}

/// An int attribute.
pub(super) fn int(name: &str, v: i64) -> (&str, Attr) {
    (name, Attr::Int(v))
}

/// A float attribute.
pub(super) fn float(name: &str, v: f32) -> (&str, Attr) {
    (name, Attr::Float(v))
}

/// An attribute of ints.
pub(super) fn ints<'a>(name: &'a str, v: &[i64]) -> (&'a str, Attr) {
    (name, Attr::Ints(v.to_vec()))
}

/// A text attribute.
pub(super) fn string<'a>(name: &'a str, v: &str) -> (&'a str, Attr) {
    (name, Attr::String(v.to_string()))
}

/// Equal.
pub(super) const EXACT: Tolerance = Tolerance::Exact;
/// A few units in the last place of f32.
pub(super) const CLOSE: Tolerance = Tolerance::Close { absolute: 1e-6, relative: 2e-6 };
/// A unit in the last place of f16.
pub(super) const CLOSE_F16: Tolerance = Tolerance::Close { absolute: 1e-6, relative: 1e-3 };
/// What a peer's f32 means and variances cost.
pub(super) const CLOSE_NORM: Tolerance = Tolerance::Close { absolute: 2e-6, relative: 2e-5 };

/// A case; every tensor is present where there is one.
pub(super) fn case(
    name: &str,
    op: Op,
    inputs: Vec<Option<Tensor>>,
    expected: Vec<Option<Tensor>>,
    tolerance: Tolerance,
) -> Case {
    Case { name: name.to_string(), op, inputs, expected: expected.into_iter().flatten().collect(), tolerance }
}
