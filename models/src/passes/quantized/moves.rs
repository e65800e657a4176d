//! Data movement happens on the quantized values: moving numbers and dequantizing them commute, and so does taking a
//! maximum, because dequantizing keeps the order.

use super::params::Params;
use crate::Result;
use crate::graph::ops::Interpolation;
use crate::graph::{Node, Op, ValueId};
use crate::passes::Report;
use crate::passes::edit::Editor;

/// Moves DequantizeLinear behind ops that only move values (or take maxima), moves QuantizeLinear before a Concat of
/// dequantized values, and cancels quantizing what was dequantized with the same scale and zero point.
pub(super) fn into_integers(edit: &mut Editor<'_>, report: &mut Report) -> Result<()> {
    let mut moved = 0;
    for i in 0..edit.len() {
        let Some(node) = edit.node(i) else { continue };
        moved += usize::from(match node.op.name() {
            "QuantizeLinear" => cancel(edit, i) || quantize_parts(edit, i)?,
            "Concat" => move_in(edit, i, usize::MAX)?,
            _ if moves_only(node) => move_in(edit, i, 1)?,
            _ => false,
        });
    }
    report.add("moved into int8", moved);
    Ok(())
}

/// Whether each element of a node's outputs is an element of its first input (or the largest of some).
pub(super) fn moves_only(node: &Node) -> bool {
    match node.op.name() {
        "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Transpose" | "Slice" | "Split" => true,
        "MaxPool" => node.outputs.iter().skip(1).all(Option::is_none),
        _ => match &node.op {
            Op::Resize(op) => matches!(op.mode, Interpolation::Nearest(_)),
            _ => false,
        },
    }
}

/// A value made by DequantizeLinear with one scale: its source, and the node to copy.
struct Dequantized {
    source: ValueId,
    params: Params,
    op: Op,
    inputs: Vec<Option<ValueId>>,
}

impl Dequantized {
    fn of(edit: &Editor<'_>, id: Option<ValueId>) -> Option<Self> {
        let (_, node) = edit.maker(id?).filter(|(_, n)| n.op.name() == "DequantizeLinear")?;
        let source = node.inputs.first().copied().flatten()?;
        // Constants are weights, which stay as they are stored.
        edit.value(source).constant.is_none().then_some(())?;
        let params = Params::of(edit, node)?;
        Some(Dequantized { source, params, op: node.op.clone(), inputs: node.inputs.clone() })
    }
}

/// Q(DQ(q)) with one scale and zero point is q: q is at most 255 steps from the zero point, so the product with the scale
/// divided by it rounds back to the same step.
fn cancel(edit: &mut Editor<'_>, i: usize) -> bool {
    let equal = || {
        let node = edit.node(i)?;
        let out = node.outputs.first().copied().flatten()?;
        let x = Dequantized::of(edit, node.inputs.first().copied().flatten())?;
        (x.params == Params::of(edit, node)?).then_some((out, x.source))
    };
    equal().is_some_and(|(out, q)| edit.replace(out, q))
}

/// op(DQ(q), ...) becomes DQ(op(q, ...)); `count` is the number of inputs that are moved. All of them must be dequantized
/// with one scale and zero point, from one dtype: several of a dtype that is not known might differ.
fn move_in(edit: &mut Editor<'_>, i: usize, count: usize) -> Result<bool> {
    let Some(node) = edit.node(i) else { return Ok(false) };
    let moved = node.inputs.iter().take(count);
    let parts: Option<Vec<_>> = moved.map(|id| Dequantized::of(edit, *id)).collect();
    let Some(parts) = parts.filter(|p| p.windows(2).all(|w| w[0].params == w[1].params)) else {
        return Ok(false);
    };
    let Some(first) = parts.first().filter(|p| parts.len() == 1 || p.params.dtype.is_some()) else {
        return Ok(false);
    };
    let mut inputs = node.inputs.clone();
    for (input, part) in inputs.iter_mut().zip(&parts) {
        *input = Some(part.source);
    }
    let (op, outputs) = (node.op.clone(), node.outputs.clone());
    edit.set_node(i, op, inputs);
    let mut quantized = Vec::with_capacity(outputs.len());
    for out in &outputs {
        quantized.push(match out {
            Some(out) => Some(edit.add_value(&format!("{}.quantized", edit.value(*out).name))?),
            None => None,
        });
    }
    edit.set_outputs(i, quantized.clone());
    for (out, q) in outputs.into_iter().zip(quantized) {
        let (Some(out), Some(q)) = (out, q) else { continue };
        let mut inputs = first.inputs.clone();
        inputs[0] = Some(q);
        let name = edit.value(out).name.clone();
        edit.insert_after(i, Node { name, op: first.op.clone(), inputs, outputs: vec![Some(out)] });
    }
    Ok(true)
}

/// Q(Concat(DQ(a), DQ(b))) becomes Concat(Q(DQ(a)), Q(DQ(b))), where what has the right scale already is taken as it is.
fn quantize_parts(edit: &mut Editor<'_>, i: usize) -> Result<bool> {
    let plan = || {
        let quantize = edit.node(i)?;
        let params = Params::of(edit, quantize)?;
        let x = quantize.inputs.first().copied().flatten()?;
        let (_, concat) = edit.maker(x).filter(|(_, n)| n.op.name() == "Concat")?;
        (edit.sole_reader(x) == Some(i)).then_some(())?;
        let parts: Vec<_> =
            concat.inputs.iter().map(|id| Dequantized::of(edit, *id)).collect::<Option<_>>()?;
        Some((
            quantize.op.clone(),
            quantize.inputs.clone(),
            concat.op.clone(),
            concat.inputs.clone(),
            params,
            parts,
        ))
    };
    let Some((quantize, template, concat, floats, params, parts)) = plan() else { return Ok(false) };
    let mut inputs = Vec::with_capacity(parts.len());
    for (float, part) in floats.into_iter().zip(parts) {
        inputs.push(Some(if part.params == params {
            part.source
        } else {
            let mut args = template.clone();
            args[0] = float;
            let name = format!("{}.requantized", edit.value(part.source).name);
            edit.insert_op(i, quantize.clone(), args, &name)?
        }));
    }
    edit.set_node(i, concat, inputs);
    Ok(true)
}
