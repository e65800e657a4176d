//! Per-channel scales and offsets behind a convolution become part of its weights and bias.

use super::Report;
use super::edit::Editor;
use crate::Result;
use crate::graph::ops::BatchNorm;
use crate::graph::{Activation, Op, Residual, ValueId};
use saltica_tensor::Tensor;

/// y = scale * x + offset, one pair for each channel (or one for all).
struct Affine {
    scale: Vec<f64>,
    offset: Vec<f64>,
}

/// Folds BatchNormalization, and Mul, Div, Add and Sub by constants of one number or one a channel, into the convolution
/// before them. The products are taken in f64 and rounded once.
pub(crate) fn fold(edit: &mut Editor<'_>, report: &mut Report) -> Result<()> {
    let (mut norms, mut others) = (0, 0);
    for i in 0..edit.len() {
        let Some(node) = edit.node(i) else { continue };
        let Some((x, affine)) = affine(edit, i) else { continue };
        let is_norm = node.op.name() == "BatchNormalization";
        if fold_into(edit, x, i, &affine)? {
            *(if is_norm { &mut norms } else { &mut others }) += 1;
        }
    }
    report.add("batchnorm folded", norms);
    report.add("channel scales folded", others);
    Ok(())
}

/// What node `i` does to its input, if it is a per-channel affine map of one value that is no constant.
fn affine(edit: &Editor<'_>, i: usize) -> Option<(ValueId, Affine)> {
    let node = edit.node(i)?;
    if let Op::BatchNorm(norm) = &node.op {
        let per_channel = |k: usize| {
            edit.constant(node.inputs.get(k).copied().flatten())
                .map(|t| (0..t.shape().elements()).map(|j| t.view().at_f64(j)).collect::<Vec<_>>())
        };
        let (gamma, beta, mean, var) = (per_channel(1)?, per_channel(2)?, per_channel(3)?, per_channel(4)?);
        if [&beta, &mean, &var].iter().any(|v| v.len() != gamma.len())
            || node.outputs[1..].iter().any(Option::is_some)
        {
            return None;
        }
        let line = |c| BatchNorm::line(gamma[c], beta[c], mean[c], var[c], norm.epsilon);
        let (scale, offset): (Vec<f64>, Vec<f64>) = (0..gamma.len()).map(line).unzip();
        let finite = scale.iter().chain(&offset).all(|v| v.is_finite());
        return finite.then_some((node.inputs.first().copied().flatten()?, Affine { scale, offset }));
    }
    let name = node.op.name();
    if !matches!(name, "Mul" | "Div" | "Add" | "Sub") {
        return None;
    }
    let &[Some(a), Some(b)] = node.inputs.as_slice() else { return None };
    let (x, c, constant_first) = match (edit.constant(Some(a)), edit.constant(Some(b))) {
        (None, Some(c)) => (a, c, false),
        (Some(c), None) => (b, c, true),
        _ => return None,
    };
    let c = channels(c)?;
    let zeros = vec![0.0; c.len()];
    let ones = vec![1.0; c.len()];
    let affine = match (name, constant_first) {
        ("Mul", _) => Affine { scale: c, offset: zeros },
        ("Div", false) => Affine { scale: c.iter().map(|c| 1.0 / c).collect(), offset: zeros },
        ("Add", _) => Affine { scale: ones, offset: c },
        ("Sub", false) => Affine { scale: ones, offset: c.iter().map(|c| -c).collect() },
        ("Sub", true) => Affine { scale: vec![-1.0; c.len()], offset: c },
        _ => return None,
    };
    let finite = affine.scale.iter().chain(&affine.offset).all(|v| v.is_finite());
    finite.then_some((x, affine))
}

/// A constant that gives each channel of a rank-4 value one number: a scalar, Cx1x1 or 1xCx1x1.
fn channels(c: &Tensor) -> Option<Vec<f64>> {
    let fits = match c.shape().dims() {
        dims if c.shape().elements() == 1 => dims.len() <= 4,
        &[_, 1, 1] | &[1, _, 1, 1] => true,
        _ => false,
    };
    let floats = c.dtype().is_float() && c.shape().elements() > 0;
    (fits && floats).then(|| (0..c.shape().elements()).map(|i| c.view().at_f64(i)).collect())
}

/// Where output channel `o`'s weights lie in a weight tensor.
enum Order {
    /// Outermost: [O, ...].
    First,
    /// [C, O/group, ...] in `group` blocks of C: a transposed convolution.
    Second(usize),
}

fn fold_into(edit: &mut Editor<'_>, x: ValueId, i: usize, affine: &Affine) -> Result<bool> {
    if edit.sole_reader(x) != Some(i) {
        return Ok(false);
    }
    let Some((_, node)) = edit.maker(x) else { return Ok(false) };
    let order = match &node.op {
        Op::Conv(op) if op.activation == Activation::None && op.residual == Residual::None => Order::First,
        Op::ConvTranspose(op) => Order::Second(op.group),
        _ => return Ok(false),
    };
    let bias = node.inputs.get(2).copied().flatten();
    let Some(w) = edit.constant(node.inputs.get(1).copied().flatten()) else { return Ok(false) };
    let old_bias = edit.constant(bias);
    if (bias.is_some() && old_bias.is_none()) || w.shape().rank() != 4 || !w.dtype().is_float() {
        return Ok(false);
    }
    let out_c = match order {
        Order::First => w.shape()[0],
        Order::Second(group) => w.shape()[1] * group,
    };
    if (affine.scale.len() != out_c && affine.scale.len() != 1)
        || old_bias.is_some_and(|b| b.shape().elements() != out_c)
    {
        return Ok(false);
    }
    let at = |v: &[f64], o: usize| if v.len() == 1 { v[0] } else { v[o] };
    let per_in = w.shape()[2] * w.shape()[3];
    let (w0, w1) = (w.shape()[0], w.shape()[1]);
    let channel = |j: usize| match order {
        Order::First => j / (w1 * per_in),
        // Input channel c belongs to group c / (C / group).
        Order::Second(group) => (j / (w1 * per_in)) / (w0 / group.max(1)).max(1) * w1 + j / per_in % w1,
    };
    let mut weights = Tensor::zeros(w.dtype(), *w.shape())?;
    let from = w.view();
    let mut to = weights.view_mut()?;
    for j in 0..w.shape().elements() {
        to.put_f64(j, from.at_f64(j) * at(&affine.scale, channel(j)));
    }
    let mut new_bias = Tensor::zeros(w.dtype(), saltica_tensor::Shape::new(&[out_c])?)?;
    let mut to = new_bias.view_mut()?;
    for o in 0..out_c {
        let b = old_bias.map_or(0.0, |b| b.view().at_f64(o));
        to.put_f64(o, b * at(&affine.scale, o) + at(&affine.offset, o));
    }
    let (op, name) = (node.op.clone(), node.name.clone());
    let mut inputs = node.inputs.clone();
    inputs.resize(3, None);
    inputs[1] = Some(edit.add_constant(&format!("{name}.weight.folded"), weights)?);
    inputs[2] = Some(edit.add_constant(&format!("{name}.bias.folded"), new_bias)?);
    edit.set_node(i, op, inputs);
    edit.rename_node(i, name);
    Ok(true)
}
