//! Activations: recognised where exporters spell them out, and fused into the convolution before them.

use super::Report;
use super::edit::Editor;
use crate::graph::ops::{Clip, Unary};
use crate::graph::{Activation, Node, Op, Residual, ValueId};

/// The activation a node applies to its first input, if it is one that fuses.
pub(crate) fn of(node: &Node, edit: &Editor<'_>) -> Option<Activation> {
    match &node.op {
        Op::Unary(op) => op.as_activation(),
        Op::Clip(op) => {
            let (lo, hi) = clip_bounds(op, node, edit)?;
            Some(Activation::Clip(lo, hi))
        }
        _ => None,
    }
}

/// The bounds of a Clip whose bounds are constants; infinite where there is none.
fn clip_bounds(op: &Clip, node: &Node, edit: &Editor<'_>) -> Option<(f32, f32)> {
    let bound = |k: usize, none: f32| match node.inputs.get(k).copied().flatten() {
        None => Some(none),
        id => {
            let t = edit.constant(id)?;
            (t.shape().elements() == 1 && t.dtype().is_float()).then(|| t.view().at_f64(0) as f32)
        }
    };
    Some((bound(1, op.lo.unwrap_or(f32::NEG_INFINITY))?, bound(2, op.hi.unwrap_or(f32::INFINITY))?))
}

/// Fuses an activation into the convolution before it, if nobody else reads the convolution.
pub(crate) fn fuse(edit: &mut Editor<'_>, report: &mut Report) {
    let mut fused = 0;
    for i in 0..edit.len() {
        let Some(node) = edit.node(i) else { continue };
        let Some(activation) = of(node, edit) else { continue };
        let Some(&Some(x)) = node.inputs.first() else { continue };
        if edit.sole_reader(x) != Some(i) {
            continue;
        }
        let Some((_, conv)) = edit.maker(x) else { continue };
        let Op::Conv(op) = &conv.op else { continue };
        if op.activation != Activation::None || op.residual != Residual::None {
            continue;
        }
        let mut op = op.clone();
        op.activation = activation;
        let (inputs, name) = (conv.inputs.clone(), conv.name.clone());
        edit.set_node(i, Op::Conv(op), inputs);
        edit.rename_node(i, name);
        fused += 1;
    }
    report.add("convolution + activation", fused);
}

/// Replaces the spelled-out forms of SiLU, HardSwish, Mish and Gelu by one op each. They are products of a value with a
/// function of it; the order of the factors does not matter.
pub(crate) fn recognise(edit: &mut Editor<'_>, report: &mut Report) {
    let mut counts = [0; 4];
    for i in 0..edit.len() {
        let Some(node) = edit.node(i) else { continue };
        if !matches!(node.op.name(), "Mul" | "Div") {
            continue;
        }
        let Some((x, unary)) = product(edit, i) else { continue };
        let at = match unary {
            Unary::Silu => 0,
            Unary::HardSwish => 1,
            Unary::Mish => 2,
            _ => 3,
        };
        edit.set_node(i, Op::Unary(unary), vec![Some(x)]);
        counts[at] += 1;
    }
    for (name, n) in ["silu fused", "hardswish fused", "mish fused", "gelu fused"].into_iter().zip(counts) {
        report.add(name, n);
    }
}

/// The factors of a product: constants multiplied together, and the rest.
#[derive(Default)]
struct Product {
    constant: f64,
    values: Vec<ValueId>,
}

/// Collects the factors of node `i` through products that are read here only.
fn factors(edit: &Editor<'_>, i: usize, depth: usize, product: &mut Product) -> Option<()> {
    let node = edit.node(i)?;
    let &[Some(a), Some(b)] = node.inputs.as_slice() else { return None };
    for (k, id) in [a, b].into_iter().enumerate() {
        let divisor = k == 1 && node.op.name() == "Div";
        if let Some(c) = scalar(edit, id) {
            product.constant *= if divisor { 1.0 / c } else { c };
        } else if divisor {
            return None;
        } else {
            let inner = edit
                .maker(id)
                .filter(|(_, n)| matches!(n.op.name(), "Mul" | "Div") && edit.sole_reader(id) == Some(i));
            match inner {
                Some((j, _)) if depth < 3 => {
                    let mut below = Product { constant: 1.0, values: Vec::new() };
                    if factors(edit, j, depth + 1, &mut below).is_some() {
                        product.constant *= below.constant;
                        product.values.extend(below.values);
                    } else {
                        product.values.push(id);
                    }
                }
                _ => product.values.push(id),
            }
        }
    }
    Some(())
}

fn product(edit: &Editor<'_>, i: usize) -> Option<(ValueId, Unary)> {
    let mut found = Product { constant: 1.0, values: Vec::new() };
    factors(edit, i, 0, &mut found)?;
    let &[a, b] = found.values.as_slice() else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(x, f)| Some((x, times(edit, x, f, found.constant)?)))
}

/// Which activation x * f(x) * constant is, `f` being the value of f(x).
fn times(edit: &Editor<'_>, x: ValueId, f: ValueId, constant: f64) -> Option<Unary> {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs();
    let (_, node) = edit.maker(f)?;
    let input = node.inputs.first().copied().flatten()?;
    match &node.op {
        Op::Unary(Unary::Sigmoid) if input == x && constant == 1.0 => Some(Unary::Silu),
        Op::Unary(Unary::HardSigmoid(alpha, beta)) => {
            (input == x && constant == 1.0 && near(f64::from(*alpha), 1.0 / 6.0) && *beta == 0.5)
                .then_some(Unary::HardSwish)
        }
        Op::Unary(Unary::Tanh) if constant == 1.0 => {
            let (_, inner) = edit.maker(input)?;
            let same = inner.inputs.first() == Some(&Some(x));
            (same && inner.op == Op::Unary(Unary::Softplus)).then_some(Unary::Mish)
        }
        // x * clip(x + 3, 0, 6) / 6
        Op::Clip(clip) if near(constant, 1.0 / 6.0) => {
            let three = sum(edit, input).is_some_and(|(v, c)| v == x && c == 3.0);
            (three && clip_bounds(clip, node, edit) == Some((0.0, 6.0))).then_some(Unary::HardSwish)
        }
        // x * (1 + erf(x / sqrt 2)) / 2
        _ if constant == 0.5 => {
            let (erf, one) = sum(edit, f)?;
            let (_, erf) = edit.maker(erf).filter(|(_, n)| n.op == Op::Unary(Unary::Erf))?;
            let (j, _) = edit.maker(erf.inputs.first().copied().flatten()?)?;
            let mut inner = Product { constant: 1.0, values: Vec::new() };
            factors(edit, j, 3, &mut inner)?;
            let scaled = inner.values == [x] && near(inner.constant, std::f64::consts::FRAC_1_SQRT_2);
            (one == 1.0 && scaled).then_some(Unary::Gelu)
        }
        _ => None,
    }
}

/// A value that is another plus a constant number.
fn sum(edit: &Editor<'_>, id: ValueId) -> Option<(ValueId, f64)> {
    let (_, node) = edit.maker(id).filter(|(_, n)| n.op.name() == "Add")?;
    let &[Some(a), Some(b)] = node.inputs.as_slice() else { return None };
    scalar(edit, b).map(|c| (a, c)).or_else(|| scalar(edit, a).map(|c| (b, c)))
}

/// A float constant of rank 0: it leaves the shape of what it meets alone.
fn scalar(edit: &Editor<'_>, id: ValueId) -> Option<f64> {
    let t = edit.constant(Some(id))?;
    (t.shape().rank() == 0 && t.dtype().is_float()).then(|| t.view().at_f64(0))
}
