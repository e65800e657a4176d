//! Nodes that hand on what they are given.

use crate::graph::ops::Interpolation;
use crate::graph::{Fact, Node, Op, OutFact, ValueId};
use saltica_tensor::Tensor;

/// The input that a node's first output equals element by element, dtype and shape included, if the facts prove it.
pub(crate) fn settled(node: &Node, inputs: &[Option<Fact<'_>>], out: &[OutFact]) -> Option<ValueId> {
    let out = out.first()?;
    let same = |f: &Fact<'_>| f.dtype == out.dtype && f.shape == out.shape;
    if node.op.name() == "Concat" {
        // Of several, only one may hold anything.
        let full: Vec<usize> = (0..inputs.len())
            .filter(|&i| inputs[i].is_some_and(|f| f.shape.elements() > 0 || inputs.len() == 1))
            .collect();
        let &[only] = full.as_slice() else { return None };
        return if inputs[only].as_ref().is_some_and(same) { node.inputs[only] } else { None };
    }
    let x = inputs.first().copied().flatten().filter(same)?;
    let value = |i: usize| inputs.get(i).copied().flatten().and_then(|f| f.value);
    let nothing = match node.op.name() {
        "Identity" | "Dropout" | "Cast" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Expand"
        | "Tile" | "Split" => true,
        "Slice" => forwards(node, inputs.get(4).copied().flatten()),
        _ => match &node.op {
            // Dims of size 1 may go anywhere.
            Op::Transpose(op) => {
                let perm = op.perm_for(x.shape.rank());
                let moved: Vec<_> =
                    perm[..x.shape.rank()].iter().copied().filter(|&d| x.shape[d] != 1).collect();
                moved.is_sorted()
            }
            Op::Resize(op) if matches!(op.mode, Interpolation::Nearest(_) | Interpolation::Linear) => {
                let view = |i: usize| value(i).map(Tensor::view);
                let given = |i: usize| node.inputs.get(i).is_none_or(Option::is_none) || value(i).is_some();
                let [scales, sizes] = [op.scales_input, op.scales_input + 1];
                given(scales)
                    && given(sizes)
                    && op
                        .resolve(&x.shape, view(scales), view(sizes))
                        .is_ok_and(|axes| axes.iter().all(|a| a.scale == 1.0 && a.input == a.output))
            }
            Op::Pad(op) => {
                let view = |i: usize| value(i).map(Tensor::view);
                (op.pads.is_some() || view(1).is_some())
                    && op
                        .resolve(x.shape.rank(), view(1), view(3))
                        .is_ok_and(|pads| pads.iter().all(|p| *p == [0, 0]))
            }
            _ => false,
        },
    };
    if nothing { node.inputs[0] } else { None }
}

/// Whether every step of a Slice is known to be positive, so that equal shapes mean equal elements.
fn forwards(node: &Node, steps: Option<Fact<'_>>) -> bool {
    match node.inputs.get(4).copied().flatten() {
        None => true,
        Some(_) => {
            steps.and_then(|f| f.value).is_some_and(|t: &Tensor| t.to_i64_vec().iter().all(|&s| s > 0))
        }
    }
}
