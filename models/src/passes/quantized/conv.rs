//! Convolutions of dequantized values with dequantized weights become convolutions of 8-bit numbers.

use super::params::Params;
use crate::Result;
use crate::graph::ops::{ByteTable, Lookup, QuantConv, QuantOutput, Table};
use crate::graph::{Activation, Conv, Op, Residual, ValueId};
use crate::passes::edit::Editor;
use crate::passes::{Report, activation};
use saltica_tensor::{DType, Tensor};

/// Makes a [`QuantConv`] of each Conv whose x and weights are dequantized (x with one scale, constant weights with one or
/// one an output channel), with the activation and the QuantizeLinear behind it.
pub(super) fn quantize(edit: &mut Editor<'_>, report: &mut Report) -> Result<()> {
    let mut made = 0;
    for i in 0..edit.len() {
        let Some(found) = Quantized::of(edit, i) else { continue };
        let (last, output) = epilogue(edit, i);
        let Ok(op) = QuantConv::new(
            found.op.window,
            found.op.group,
            found.x.zero_point,
            found.w_zero,
            found.x.scale,
            &found.w_scale,
            output,
        ) else {
            continue;
        };
        let op = op.with_float_bias(found.float_bias);
        let name = edit.node(i).map(|n| n.name.clone()).unwrap_or_default();
        edit.set_node(last, Op::QuantConv(op), vec![Some(found.source), Some(found.weights), found.bias]);
        edit.rename_node(last, name);
        made += 1;
    }
    report.add("quantized convolutions", made);
    Ok(())
}

/// What a quantized convolution is made of.
struct Quantized {
    op: Conv,
    source: ValueId,
    x: Params,
    weights: ValueId,
    w_scale: Vec<f32>,
    w_zero: Vec<i32>,
    /// i32, at the scale of the products.
    bias: Option<ValueId>,
    float_bias: Vec<f32>,
}

impl Quantized {
    fn of(edit: &Editor<'_>, i: usize) -> Option<Self> {
        let node = edit.node(i)?;
        let Op::Conv(op) = &node.op else { return None };
        if op.activation != Activation::None || op.residual != Residual::None {
            return None;
        }
        let (source, x) = dequantized_input(edit, node.inputs.first().copied().flatten()?)?;
        let w = Stored::of(edit, node.inputs.get(1).copied().flatten()?)?;
        let weights = edit.value(w.source).constant.as_ref()?;
        let channels = *weights.shape().first()?;
        if !matches!(weights.dtype(), DType::I8 | DType::U8) || !w.fits(0, weights) {
            return None;
        }
        let (bias, float_bias) = match node.inputs.get(2).copied().flatten() {
            None => (None, Vec::new()),
            Some(id) => bias(edit, id, channels, x.scale, &w.scale)?,
        };
        Some(Quantized {
            op: op.clone(),
            source,
            x,
            weights: w.source,
            w_scale: w.scale,
            w_zero: w.zero,
            bias,
            float_bias,
        })
    }
}

/// The 8-bit value behind DequantizeLinear with one f32 scale.
fn dequantized_input(edit: &Editor<'_>, id: ValueId) -> Option<(ValueId, Params)> {
    let (_, node) = edit.maker(id).filter(|(_, n)| n.op.name() == "DequantizeLinear")?;
    let source = node.inputs.first().copied().flatten()?;
    let scale = edit.constant(node.inputs.get(1).copied().flatten())?;
    let x = Params::of(edit, node)?;
    let made = |id| edit.maker(id).and_then(|(_, n)| Params::of(edit, n)?.dtype);
    let dtype = x.dtype.or_else(|| made(source)).or(edit.value(source).dtype)?;
    let usable = scale.dtype() == DType::F32
        && edit.value(source).constant.is_none()
        && matches!(dtype, DType::I8 | DType::U8);
    usable.then_some((source, x))
}

/// A constant behind DequantizeLinear.
struct Stored {
    source: ValueId,
    scale: Vec<f32>,
    zero: Vec<i32>,
    axis: i64,
}

impl Stored {
    fn of(edit: &Editor<'_>, id: ValueId) -> Option<Self> {
        let (_, node) = edit.maker(id)?;
        let Op::DequantizeLinear(op) = &node.op else { return None };
        let source = node.inputs.first().copied().flatten()?;
        edit.value(source).constant.as_ref()?;
        let scale = edit.constant(node.inputs.get(1).copied().flatten())?;
        let zero = match node.inputs.get(2).copied().flatten() {
            None => vec![0],
            id => edit.constant(id)?.to_i64_vec().into_iter().map(|z| z as i32).collect(),
        };
        let scales = scale.to_f32_vec();
        let usable = scale.dtype() == DType::F32 && scales.iter().all(|s| s.is_finite());
        usable.then_some(Stored { source, scale: scales, zero, axis: op.axis })
    }

    /// Whether there is one scale, or one for each element of `axis` of the constant.
    fn fits(&self, axis: usize, constant: &Tensor) -> bool {
        let shape = constant.shape();
        let along = saltica_tensor::Shape::axis(self.axis, shape.rank()).is_ok_and(|a| a == axis);
        let fits = |n: usize| n == 1 || (along && shape.get(axis) == Some(&n));
        fits(self.scale.len()) && fits(self.zero.len())
    }
}

/// The bias: as stored if its scale is that of the products, else as floats.
#[allow(clippy::type_complexity)]
fn bias(
    edit: &Editor<'_>,
    id: ValueId,
    channels: usize,
    x_scale: f32,
    w_scale: &[f32],
) -> Option<(Option<ValueId>, Vec<f32>)> {
    if let Some(floats) = edit.constant(Some(id)) {
        let usable = floats.dtype() == DType::F32 && floats.shape().dims() == [channels];
        return usable.then(|| (None, floats.to_f32_vec()));
    }
    let stored = Stored::of(edit, id)?;
    let numbers = edit.value(stored.source).constant.as_ref()?;
    if numbers.dtype() != DType::I32 || numbers.shape().dims() != [channels] || !stored.fits(0, numbers) {
        return None;
    }
    let at = |list: &[f32], o: usize| if list.len() == 1 { list[0] } else { list[o] };
    // The quantizer that wrote the file may have rounded the product of the scales in another way: one unit in the last
    // place is below what adding the bias in floats would lose.
    let same = |o: usize| {
        let product = x_scale * at(w_scale, o);
        (product - at(&stored.scale, o)).abs() <= product.abs() * f32::EPSILON
    };
    if stored.zero.iter().all(|&z| z == 0) && (0..channels).all(same) {
        return Some((Some(stored.source), Vec::new()));
    }
    let numbers = numbers.as_slice::<i32>().ok()?;
    let zero = |o: usize| if stored.zero.len() == 1 { stored.zero[0] } else { stored.zero[o] };
    let floats =
        (0..channels).map(|o| numbers[o].wrapping_sub(zero(o)) as f32 * at(&stored.scale, o)).collect();
    Some((None, floats))
}

/// The activation and QuantizeLinear behind convolution `i` that belong to it alone: the last node of them, and the output.
fn epilogue(edit: &Editor<'_>, i: usize) -> (usize, QuantOutput) {
    let next = |i: usize| {
        let &[Some(out)] = edit.node(i)?.outputs.as_slice() else { return None };
        let reader = edit.sole_reader(out)?;
        let node = edit.node(reader)?;
        (node.inputs.first() == Some(&Some(out))).then_some((reader, node))
    };
    let (mut last, mut fused) = (i, Activation::None);
    if let Some((reader, node)) = next(i)
        && let Some(activation) = activation::of(node, edit)
    {
        (last, fused) = (reader, activation);
    }
    if let Some((reader, node)) = next(last).filter(|(_, n)| n.op.name() == "QuantizeLinear")
        && edit.constant(node.inputs.get(1).copied().flatten()).is_some_and(|s| s.dtype() == DType::F32)
        && let Some(Params { scale, zero_point: zero, dtype: Some(dtype) }) = Params::of(edit, node)
    {
        return (reader, QuantOutput::Quantized { dtype, scale, zero, activation: fused, table: None });
    }
    (last, QuantOutput::Float { activation: fused })
}

/// Composes a table with the convolution or the table before it, if nobody else reads that.
pub(super) fn absorb_tables(edit: &mut Editor<'_>, report: &mut Report) -> Result<()> {
    let mut absorbed = 0;
    for i in edit.order() {
        let Some(node) = edit.node(i) else { continue };
        let Op::Lookup(Lookup { table }) = &node.op else { continue };
        let Some(&Some(x)) = node.inputs.first() else { continue };
        let Some((_, before)) = edit.maker(x).filter(|_| edit.sole_reader(x) == Some(i)) else { continue };
        let (inputs, name) = (before.inputs.clone(), before.name.clone());
        let op = match (&before.op, table) {
            (Op::Lookup(Lookup { table: Table::Bytes(first) }), Table::Bytes(second)) => {
                Op::Lookup(Lookup { table: Table::Bytes(composed(Some(first), second)?) })
            }
            (Op::QuantConv(conv), Table::Bytes(second)) => {
                let QuantOutput::Quantized { dtype, scale, zero, activation, table } = conv.output() else {
                    continue;
                };
                let table = Some(composed(table.as_ref(), second)?);
                Op::QuantConv(conv.clone().with_output(QuantOutput::Quantized {
                    dtype: *dtype,
                    scale: *scale,
                    zero: *zero,
                    activation: *activation,
                    table,
                })?)
            }
            _ => continue,
        };
        edit.set_node(i, op, inputs);
        edit.rename_node(i, name);
        absorbed += 1;
    }
    report.add("tables in convolutions", absorbed);
    Ok(())
}

fn composed(first: Option<&ByteTable>, second: &ByteTable) -> Result<ByteTable> {
    let after = |b: u8| second.bytes()[first.map_or(b, |t| t.bytes()[b as usize]) as usize];
    ByteTable::new(second.dtype(), std::array::from_fn(|b| after(b as u8)))
}
