//! Nodes that hand on what they are given.

use crate::graph::{Fact, Node, OutFact, ValueId};
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
    inputs.first().copied().flatten().filter(same)?;
    let nothing = match node.op.name() {
        "Identity" | "Dropout" | "Cast" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Expand"
        | "Tile" | "Split" => true,
        "Slice" => forwards(node, inputs.get(4).copied().flatten()),
        _ => false,
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
