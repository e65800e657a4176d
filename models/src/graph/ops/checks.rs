//! What holds for every op, checked on the cases of all of them.

use super::{Case, Op, compare};
use crate::Result;
use saltica_tensor::{Bool, DType, Layout, Shape, Tensor, View, ViewMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Ways to lay a tensor out in memory.
#[derive(Clone, Copy, Debug)]
enum Way {
    RowMajor,
    /// The first dim is the innermost one.
    ColumnMajor,
    /// Dim 1 is the innermost one, with a gap behind each run of it: a channel range of a wider NHWC buffer.
    ChannelsLast,
    /// Row-major with a gap behind each element.
    Sparse,
}

const WAYS: [Way; 4] = [Way::RowMajor, Way::ColumnMajor, Way::ChannelsLast, Way::Sparse];

fn layout(shape: &Shape, way: Way) -> Layout {
    let rank = shape.rank();
    // Dims from the innermost to the outermost, and the innermost stride and gap.
    let (order, first, gap): (Vec<usize>, usize, usize) = match way {
        Way::RowMajor => ((0..rank).rev().collect(), 1, 0),
        Way::ColumnMajor => ((0..rank).collect(), 1, 0),
        Way::ChannelsLast if rank >= 3 => ([1].into_iter().chain((2..rank).rev()).chain([0]).collect(), 1, 3),
        Way::ChannelsLast => ((0..rank).rev().collect(), 1, 3),
        Way::Sparse => ((0..rank).rev().collect(), 2, 0),
    };
    let mut strides = vec![0; rank];
    let mut next = first;
    for (i, d) in order.into_iter().enumerate() {
        strides[d] = next;
        next = next * shape[d].max(1) + if i == 0 { gap } else { 0 };
    }
    Layout::strided(*shape, &strides).unwrap()
}

macro_rules! typed {
    ($dtype:expr, $t:ident => $e:expr) => {
        super::elementwise::numbers!($dtype, $t => $e, {
            type $t = Bool;
            $e
        })
    };
}

/// A flat buffer that holds the tensor in this layout.
fn laid_out(t: &Tensor, layout: &Layout) -> Tensor {
    let size = t.dtype().size();
    let mut bytes = vec![0u8; layout.span() * size];
    for (i, index) in t.shape().indices().enumerate() {
        let o = layout.offset(&index) * size;
        bytes[o..o + size].copy_from_slice(&t.bytes()[i * size..(i + 1) * size]);
    }
    Tensor::from_bytes(t.dtype(), Shape::new(&[layout.span()]).unwrap(), &bytes).unwrap()
}

fn run_laid_out(case: &Case, ins: Way, outs: Way) -> std::result::Result<(), String> {
    let facts: Vec<_> = case.inputs.iter().map(|t| t.as_ref().map(super::Fact::of)).collect();
    let out_facts = case.op.infer(&facts).map_err(|e| e.to_string())?;
    let buffers: Vec<_> = case
        .inputs
        .iter()
        .map(|t| t.as_ref().map(|t| (laid_out(t, &layout(t.shape(), ins)), layout(t.shape(), ins))))
        .collect();
    let views: Vec<Option<View<'_>>> =
        buffers.iter().map(|b| b.as_ref().map(|(t, l)| t.view().with_layout(0, *l).unwrap())).collect();
    let mut results: Vec<_> = out_facts
        .iter()
        .map(|o| {
            let l = layout(&o.shape, outs);
            // A pattern that no expectation holds, so that an element nobody wrote is seen.
            let junk = vec![0x5au8; l.span() * o.dtype.size()];
            (Tensor::from_bytes(o.dtype, Shape::new(&[l.span()]).unwrap(), &junk).unwrap(), l)
        })
        .collect();
    let mut targets: Vec<ViewMut<'_>> = results
        .iter_mut()
        .map(|(t, l)| typed!(t.dtype(), T => ViewMut::of_slice(t.as_mut_slice::<T>().unwrap(), *l).unwrap()))
        .collect();
    case.op.run(&views, &mut targets).map_err(|e| e.to_string())?;
    drop(targets);
    results
        .iter()
        .zip(&case.expected)
        .try_for_each(|((t, l), want)| compare(&t.view().with_layout(0, *l).unwrap(), want, case.tolerance))
}

#[test]
fn reference_kernels_work_on_any_strides() {
    let mut failures = Vec::new();
    for case in Op::cases() {
        for (ins, outs) in WAYS.iter().flat_map(|&i| WAYS.map(|o| (i, o))) {
            let outcome = catch_unwind(AssertUnwindSafe(|| run_laid_out(&case, ins, outs)));
            if let Err(e) = outcome.unwrap_or_else(|_| Err("panic".into())) {
                failures.push(format!("{} / {}, {ins:?} to {outs:?}: {e}", case.op.name(), case.name));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// Knuth's 64-bit linear congruential generator: the same numbers on each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// A tensor that a damaged file might hold in place of this one.
fn damaged(t: Option<&Tensor>, random: &mut Random) -> Option<Tensor> {
    let extremes = [0.0, 1.0, -1.0, 2.0, -3.0, 7.0, 300.0, -129.0, 1e10, -1e300, f64::NAN, f64::INFINITY];
    let mut dims: Vec<usize> = t.map_or(vec![2], |t| t.shape().to_vec());
    let mut dtype = t.map_or(DType::F32, Tensor::dtype);
    match random.below(6) {
        0 => return None,
        1 => dtype = DType::ALL[random.below(DType::ALL.len())],
        2 if !dims.is_empty() => {
            let d = random.below(dims.len());
            dims[d] = [0, 1, 2, 3, 5][random.below(5)];
        }
        3 if !dims.is_empty() => drop(dims.remove(random.below(dims.len()))),
        4 if dims.len() < 8 => dims.insert(random.below(dims.len() + 1), [0, 1, 2][random.below(3)]),
        _ => {}
    }
    let shape = Shape::new(&dims).ok()?;
    let mut out = Tensor::zeros(dtype, shape).ok()?;
    let mut view = out.view_mut().ok()?;
    for i in 0..shape.elements() {
        view.put_f64(i, extremes[random.below(extremes.len())]);
    }
    Some(out)
}

#[test]
fn damaged_inputs_are_errors_and_never_panics() {
    let mut random = Random(1);
    let mut failures = Vec::new();
    for case in Op::cases() {
        for _ in 0..40 {
            let mut inputs = case.inputs.clone();
            if inputs.is_empty() {
                continue;
            }
            for _ in 0..=random.below(2) {
                let i = random.below(inputs.len());
                inputs[i] = damaged(inputs[i].as_ref(), &mut random);
            }
            if random.below(8) == 0 {
                inputs.pop();
            }
            let refs: Vec<_> = inputs.iter().map(Option::as_ref).collect();
            let facts: Vec<_> = inputs.iter().map(|t| t.as_ref().map(super::Fact::of)).collect();
            let outcome = catch_unwind(AssertUnwindSafe(|| -> Result<()> {
                let outs = case.op.infer(&facts)?;
                // Large results are the plan's to refuse.
                if outs.iter().all(|o| o.shape.elements() <= 1 << 16) {
                    case.op.evaluate(&refs)?;
                }
                Ok(())
            }));
            if outcome.is_err() {
                failures.push(format!("{} / {}: {inputs:?}", case.op.name(), case.name));
            }
        }
    }
    assert!(failures.is_empty(), "{} panics:\n{}", failures.len(), failures.join("\n"));
}
