//! Sums, maxima, softmax, normalisation, top-k.

use super::dims::{Walk, signed};
use super::elementwise::{Arg, spare};
use super::{Lowering, blocks, constant, int, output, unsupported};
use crate::Result;
use crate::launch::{DeviceKernel, Launch, Ptr};
use crate::params::{self, dtype_code};
use saltica_core::StepDesc;
use saltica_models::graph::ops::{ArgExtreme, GroupNorm, LayerNorm, Reduce, ReduceKind, Softmax, TopK};
use saltica_tensor::{DType, Shape};
use std::mem::offset_of;

/// Axis of a step's first input.
fn axis_of(step: &StepDesc<'_>, axis: i64, rank: usize) -> Result<usize> {
    Shape::axis(axis, rank).map_err(|e| unsupported(step, &e.to_string()))
}

/// The launch that folds the dims that are `gone`.
fn folding(step: &StepDesc<'_>, kind: i32, last: bool, gone: &[bool], x: &Arg) -> Result<DeviceKernel> {
    let (ty, y, _) = output(step)?;
    let shape = x.layout.shape();
    let kept: Vec<usize> = (0..shape.rank()).filter(|&d| !gone[d]).collect();
    // The output with the dims that are kept, whether or not it has ones in the others' places.
    let dims: Vec<usize> = kept.iter().map(|&d| shape[d]).collect();
    let kept_shape = Shape::new(&dims).map_err(|e| unsupported(step, &e.to_string()))?;
    let y_layout = y
        .reshaped(kept_shape)
        .ok_or_else(|| unsupported(step, "the output cannot be seen without its ones"))?;
    let strides = signed(x.layout.strides());
    let x_kept: Vec<i64> = kept.iter().map(|&d| strides[d]).collect();
    let outer = Walk::new(&dims, &[x_kept, signed(y_layout.strides())]).merged(1);
    let lost: Vec<usize> = (0..shape.rank()).filter(|&d| gone[d]).collect();
    let inner_dims: Vec<usize> = lost.iter().map(|&d| shape[d]).collect();
    let inner = Walk::new(&inner_dims, &[lost.iter().map(|&d| strides[d]).collect()]).merged(0);
    let p = params::Reduce {
        outer: outer.six()?,
        sx: outer.six_strides(0)?,
        sy: outer.six_strides(1)?,
        inner: inner.six()?,
        si: inner.six_strides(0)?,
        count: int(outer.count())?,
        inner_count: int(inner.count())?,
        kind,
        tx: dtype_code(x.dtype),
        ty: dtype_code(ty),
        last: i32::from(last),
        ..Default::default()
    };
    // A warp an output, eight a block.
    let launch = Launch::new("reduce", "reduce", [blocks(outer.count(), 8)?, 1, 1], 256, &p)
        .at(offset_of!(params::Reduce, x), x.ptr.clone())
        .at(offset_of!(params::Reduce, y), Ptr::Output(0, 0));
    let mut launches: Vec<Launch> = spare(&Arg::output(step)?)?.into_iter().collect();
    launches.push(launch);
    Ok(DeviceKernel::new(format!("reduce {}", x.dtype), launches))
}

pub(super) fn reduce(low: &Lowering, op: &Reduce, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let kind = match op.kind {
        ReduceKind::Sum => 0,
        ReduceKind::Mean => 1,
        ReduceKind::Max => 2,
        ReduceKind::Min => 3,
        ReduceKind::Prod => 4,
        ReduceKind::L1 => 5,
        ReduceKind::L2 => 6,
        ReduceKind::SumSquare => 7,
        ReduceKind::LogSum => 8,
        ReduceKind::LogSumExp => 9,
    };
    let x = Arg::input(low, step, 0)?;
    let rank = x.layout.shape().rank();
    let axes: Vec<i64> = match step.inputs.get(1).and_then(Option::as_ref) {
        Some(_) => constant(step, 1).ok_or_else(|| unsupported(step, "the axes are computed"))?.to_i64_vec(),
        None => op.axes.clone().unwrap_or_default(),
    };
    let mut gone = vec![axes.is_empty() && !op.noop_with_empty_axes; rank];
    for axis in axes {
        gone[axis_of(step, axis, rank)?] = true;
    }
    folding(step, kind, false, &gone, &x)
}

pub(super) fn global_pool(low: &Lowering, max: bool, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let x = Arg::input(low, step, 0)?;
    let gone: Vec<bool> = (0..x.layout.shape().rank()).map(|d| d >= 2).collect();
    folding(step, if max { 2 } else { 1 }, false, &gone, &x)
}

pub(super) fn arg_extreme(low: &Lowering, op: &ArgExtreme, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let x = Arg::input(low, step, 0)?;
    let rank = x.layout.shape().rank();
    let mut gone = vec![false; rank];
    gone[axis_of(step, op.axis, rank)?] = true;
    folding(step, if op.largest { 10 } else { 11 }, op.last, &gone, &x)
}

pub(super) fn softmax(low: &Lowering, op: &Softmax, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (x, y) = (Arg::input(low, step, 0)?, Arg::output(step)?);
    let shape = *x.layout.shape();
    let axis = axis_of(step, op.axis, shape.rank())?;
    if op.flatten && axis + 1 != shape.rank() {
        return Err(unsupported(step, "a softmax over several dims at once (opset 12 or older)"));
    }
    let others: Vec<usize> = (0..shape.rank()).filter(|&d| d != axis).collect();
    let pick = |s: &[usize]| others.iter().map(|&d| s[d] as i64).collect::<Vec<_>>();
    let dims: Vec<usize> = others.iter().map(|&d| shape[d]).collect();
    let outer = Walk::new(&dims, &[pick(x.layout.strides()), pick(y.layout.strides())]).merged(1);
    let p = params::Softmax {
        outer: outer.six()?,
        sx: outer.six_strides(0)?,
        sy: outer.six_strides(1)?,
        n: int(shape[axis])?,
        x_n: int(x.layout.strides()[axis])?,
        y_n: int(y.layout.strides()[axis])?,
        tx: dtype_code(x.dtype),
        ty: dtype_code(y.dtype),
        log: i32::from(op.log),
        ..Default::default()
    };
    // A thread a line where lines are short and lie side by side, a warp, or a block where they are long.
    const SHORT: usize = 32;
    let neighbours = (0..2).all(|i| outer.strides[i].last() == Some(&1));
    let (kernel, lines) = match shape[axis] {
        n if n <= SHORT && neighbours => ("softmax_lines", 256),
        n if n <= 1024 => ("softmax_warp", 8),
        _ => ("softmax_block", 1),
    };
    let mut launches: Vec<Launch> = spare(&y)?.into_iter().collect();
    launches.push(
        Launch::new("reduce", kernel, [blocks(outer.count(), lines)?, 1, 1], 256, &p)
            .at(offset_of!(params::Softmax, x), x.ptr.clone())
            .at(offset_of!(params::Softmax, y), y.ptr.clone()),
    );
    Ok(DeviceKernel::new(format!("softmax {}", x.dtype), launches))
}

/// Mean and variance over `inner`, for each of the others; scale and bias by `affine`, strides a dim of x.
fn norm(
    step: &StepDesc<'_>,
    [x, y, scale]: [&Arg; 3],
    bias: Option<&Arg>,
    inner: &[bool],
    affine: &[usize],
    epsilon: f32,
    dims: &[usize],
    strides: [&[usize]; 2],
) -> Result<DeviceKernel> {
    let part = |want: bool| {
        let of: Vec<usize> = (0..dims.len()).filter(|&d| inner[d] == want).collect();
        let pick = |s: &[usize]| of.iter().map(|&d| s[d] as i64).collect::<Vec<_>>();
        let sizes: Vec<usize> = of.iter().map(|&d| dims[d]).collect();
        Walk::new(&sizes, &[pick(strides[0]), pick(strides[1]), pick(affine)]).merged(1)
    };
    if bias.is_some_and(|b| b.dtype != scale.dtype) {
        return Err(unsupported(step, "scale and bias of different dtypes"));
    }
    let (outer, inner) = (part(false), part(true));
    let p = params::Norm {
        outer: outer.six()?,
        inner: inner.six()?,
        xo: outer.six_strides(0)?,
        xi: inner.six_strides(0)?,
        yo: outer.six_strides(1)?,
        yi: inner.six_strides(1)?,
        so: outer.six_strides(2)?,
        si: inner.six_strides(2)?,
        count: int(outer.count())?,
        inner_count: int(inner.count())?,
        epsilon,
        tx: dtype_code(x.dtype),
        ty: dtype_code(y.dtype),
        ts: dtype_code(scale.dtype),
        ..Default::default()
    };
    let mut launches: Vec<Launch> = spare(y)?.into_iter().collect();
    launches.push(
        Launch::new("reduce", "normalize", [blocks(outer.count(), 1)?, 1, 1], 256, &p)
            .at(offset_of!(params::Norm, x), x.ptr.clone())
            .at(offset_of!(params::Norm, y), y.ptr.clone())
            .at(offset_of!(params::Norm, scale), scale.ptr.clone())
            .maybe(offset_of!(params::Norm, bias), bias.map(|b| b.ptr.clone())),
    );
    Ok(DeviceKernel::new(format!("norm {}", x.dtype), launches))
}

pub(super) fn layer_norm(low: &Lowering, op: &LayerNorm, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    if step.outputs.len() > 1 {
        return Err(unsupported(step, "mean and deviation as outputs"));
    }
    let (x, y, scale) = (Arg::input(low, step, 0)?, Arg::output(step)?, Arg::input(low, step, 1)?);
    let bias =
        step.inputs.get(2).is_some_and(Option::is_some).then(|| Arg::input(low, step, 2)).transpose()?;
    let shape = *x.layout.shape();
    let axis = axis_of(step, op.axis, shape.rank())?;
    let inner: Vec<bool> = (0..shape.rank()).map(|d| d >= axis).collect();
    let wide = scale.layout.broadcast_to(&shape).map_err(|e| unsupported(step, &e.to_string()))?;
    if let Some(bias) = &bias
        && bias.layout.broadcast_to(&shape).map_or(true, |b| b.strides() != wide.strides())
    {
        return Err(unsupported(step, "scale and bias of different shapes"));
    }
    let strides = [x.layout.strides(), y.layout.strides()];
    norm(step, [&x, &y, &scale], bias.as_ref(), &inner, wide.strides(), op.epsilon, &shape, strides)
}

pub(super) fn group_norm(low: &Lowering, op: &GroupNorm, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (x, y) = (Arg::input(low, step, 0)?, Arg::output(step)?);
    let (scale, bias) = (Arg::input(low, step, 1)?, Arg::input(low, step, 2)?);
    let shape = *x.layout.shape();
    let channels = *shape.get(1).ok_or_else(|| unsupported(step, "channels expected"))?;
    let groups = op.groups.unwrap_or(channels).max(1);
    if channels % groups != 0 || op.per_group && groups != channels {
        return Err(unsupported(step, "scale and bias by group"));
    }
    // Channels as two dims: group, and channel in the group.
    let split = |s: &[usize]| {
        let mut out = vec![s[0], s[1] * (channels / groups), s[1]];
        out.extend(&s[2..]);
        out
    };
    let mut dims = vec![shape[0], groups, channels / groups];
    dims.extend(&shape[2..]);
    let inner: Vec<bool> = (0..dims.len()).map(|d| d >= 2).collect();
    let mut affine = vec![0; dims.len()];
    (affine[1], affine[2]) = (channels / groups, 1);
    let (sx, sy) = (split(x.layout.strides()), split(y.layout.strides()));
    norm(step, [&x, &y, &scale], Some(&bias), &inner, &affine, op.epsilon, &dims, [&sx, &sy])
}

pub(super) fn top_k(low: &Lowering, op: &TopK, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    const MOST: usize = 8192;
    let (x, y) = (Arg::input(low, step, 0)?, Arg::output(step)?);
    let shape = *x.layout.shape();
    let axis = axis_of(step, op.axis, shape.rank())?;
    let k = y.layout.shape()[axis];
    if k > MOST || !matches!(x.dtype, DType::F32 | DType::F16 | DType::I32 | DType::I8 | DType::U8) {
        return Err(unsupported(step, &format!("at most {MOST} of f32, f16, i32, i8 or u8")));
    }
    let others: Vec<usize> = (0..shape.rank()).filter(|&d| d != axis).collect();
    let dims: Vec<usize> = others.iter().map(|&d| shape[d]).collect();
    let pick = |s: &[usize]| others.iter().map(|&d| s[d] as i64).collect::<Vec<_>>();
    let indices = step.outputs.get(1).map(|(_, l)| *l).unwrap_or(y.layout);
    let walk =
        Walk::new(&dims, &[pick(x.layout.strides()), pick(y.layout.strides()), pick(indices.strides())])
            .merged(0);
    if walk.dims.len() > 1 {
        return Err(unsupported(step, "rows that do not lie at equal distances"));
    }
    let row = |i: usize| walk.strides[i].first().copied().unwrap_or(0);
    let p = params::TopK {
        rows: int(walk.count())?,
        n: int(shape[axis])?,
        k: int(k)?,
        x_row: int(row(0) as usize)?,
        x_n: int(x.layout.strides()[axis])?,
        v_row: int(row(1) as usize)?,
        v_n: int(y.layout.strides()[axis])?,
        i_row: int(row(2) as usize)?,
        i_n: int(indices.strides()[axis])?,
        tx: dtype_code(x.dtype),
        smallest: i32::from(!op.largest),
        ..Default::default()
    };
    // Eight bytes for each place of the sort: the power of two from k on.
    let shared = (k.next_power_of_two() * 8) as u32;
    if shared > low.target.shared {
        return Err(unsupported(step, &format!("{k} of a row: the device has no shared memory for so many")));
    }
    let launch = Launch::new("reduce", "top_k", [blocks(walk.count(), 1)?, 1, 1], 1024, &p)
        .shared(shared)
        .at(offset_of!(params::TopK, x), x.ptr.clone())
        .at(offset_of!(params::TopK, values), y.ptr.clone())
        .maybe(offset_of!(params::TopK, indices), step.outputs.get(1).map(|_| Ptr::Output(1, 0)));
    Ok(DeviceKernel::new(format!("top-k {}", x.dtype), vec![launch]))
}
