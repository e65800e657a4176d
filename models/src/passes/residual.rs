//! Residual sums become part of the convolution that makes one of their operands.

use super::Report;
use super::edit::Editor;
use crate::graph::{Activation, Op, OutFact, Residual, ValueId};

/// Fuses Add(conv(x), y) where both operands have the same shape and nobody else reads the convolution; then the
/// activation of a sum that had none before, act(conv(x) + y).
pub(crate) fn fuse(edit: &mut Editor<'_>, facts: &[Option<OutFact>], report: &mut Report) {
    let (mut sums, mut activations) = (0, 0);
    for i in 0..edit.len() {
        let Some(node) = edit.node(i) else { continue };
        if node.op.name() != "Add" {
            continue;
        }
        let &[Some(a), Some(b)] = node.inputs.as_slice() else { continue };
        let equal = facts
            .get(a.index())
            .is_some_and(|fa| fa.is_some_and(|fa| facts.get(b.index()).copied().flatten() == Some(fa)));
        if !equal || a == b {
            continue;
        }
        // Of two convolutions the later one is fused: its operand is there already.
        let made = |id: ValueId| fusible(edit, id, i);
        let (conv, other) = match (made(a), made(b)) {
            (Some(ca), Some(cb)) if ca > cb => (ca, b),
            (_, Some(cb)) => (cb, a),
            (Some(ca), None) => (ca, b),
            (None, None) => continue,
        };
        let Some(node) = edit.node(conv) else { continue };
        let Op::Conv(op) = &node.op else { continue };
        let mut op = op.clone();
        op.residual = match op.activation {
            Activation::None => Residual::BeforeActivation,
            _ => Residual::AfterActivation,
        };
        let mut inputs = node.inputs.clone();
        let name = node.name.clone();
        inputs.resize(3, None);
        inputs.push(Some(other));
        edit.set_node(i, Op::Conv(op.clone()), inputs.clone());
        edit.rename_node(i, name.clone());
        sums += 1;

        if op.activation != Activation::None {
            continue;
        }
        let Some(&Some(out)) = edit.node(i).and_then(|n| n.outputs.first()) else { continue };
        let Some(reader) = edit.sole_reader(out) else { continue };
        let Some(activation) = edit.node(reader).and_then(|n| super::activation::of(n, edit)) else {
            continue;
        };
        op.activation = activation;
        edit.set_node(reader, Op::Conv(op), inputs);
        edit.rename_node(reader, name);
        activations += 1;
    }
    report.add("residual", sums);
    report.add("convolution + activation", activations);
}

/// The convolution that makes a value for node `reader` alone, with its place for a residual free.
fn fusible(edit: &Editor<'_>, id: ValueId, reader: usize) -> Option<usize> {
    let (i, node) = edit.maker(id)?;
    let Op::Conv(op) = &node.op else { return None };
    (op.residual == Residual::None && edit.sole_reader(id) == Some(reader)).then_some(i)
}
