//! Slices, pads, tiles, gathers and scatters.

use super::dims::{MOST, Walk, signed};
use super::elementwise::{Arg, copy, fill, spare, strided};
use super::{Lowering, blocks, int, unsupported};
use crate::Result;
use crate::launch::{DeviceKernel, Launch, Ptr};
use crate::params::{self, dtype_code};
use saltica_core::StepDesc;
use saltica_models::graph::ops::{
    AxisRange, Gather, GatherElements, GatherNd, GridSample, Outside, Pad, PadMode, Reduction, Sampling,
    ScatterElements, ScatterNd, Slice, Split,
};
use saltica_tensor::{DType, Layout, Shape, View};
use std::mem::offset_of;

/// A pointer some elements further.
fn moved(ptr: &Ptr, elements: usize, dtype: DType) -> Ptr {
    let bytes = elements * dtype.size();
    match ptr {
        Ptr::Input(i, at) => Ptr::Input(*i, at + bytes),
        Ptr::Output(i, at) => Ptr::Output(*i, at + bytes),
        Ptr::Weights(w, at) => Ptr::Weights(w.clone(), at + bytes),
        Ptr::Scratch(at) => Ptr::Scratch(at + bytes),
        Ptr::Counters => Ptr::Counters,
    }
}

/// A part of an operand.
fn part(a: &Arg, layout: Layout, offset: usize) -> Arg {
    Arg {
        ptr: moved(&a.ptr, offset, a.dtype),
        dtype: a.dtype,
        layout,
        offset: a.offset + offset * a.dtype.size(),
        owned: false,
    }
}

/// The constant at input `i`, if there is an input; an error if it is computed.
fn known<'a>(step: &StepDesc<'a>, i: usize) -> Result<Option<View<'a>>> {
    match step.inputs.get(i).and_then(Option::as_ref) {
        None => Ok(None),
        Some(o) => match o.constant {
            Some(t) => Ok(Some(t.view())),
            None => Err(unsupported(step, &format!("input {i} is computed"))),
        },
    }
}

/// Padding: the output filled with the value, the input copied inside.
pub(super) fn pad(low: &Lowering, op: &Pad, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (x, y) = (Arg::input(low, step, 0)?, Arg::output(step)?);
    let shape = *x.layout.shape();
    let rank = shape.rank();
    let pads =
        op.resolve(rank, known(step, 1)?, known(step, 3)?).map_err(|e| unsupported(step, &e.to_string()))?;
    if op.mode != PadMode::Constant || pads[..rank].iter().flatten().any(|p| *p < 0) {
        return Err(unsupported(step, "padding by a constant that cuts nothing expected"));
    }
    let value = known(step, 2)?.map_or(f64::from(op.value), |v| v.at_f64(0));
    let (mut inside, mut offset) = (y.layout, 0);
    for d in 0..rank {
        let (next, more) = inside
            .sliced(d, pads[d][0] as usize, shape[d], 1)
            .map_err(|e| unsupported(step, &e.to_string()))?;
        inside = next;
        offset += more;
    }
    let bits = match y.dtype {
        DType::F32 => u64::from((value as f32).to_bits()),
        DType::F16 => u64::from(saltica_tensor::f16::from_f64(value).to_bits()),
        DType::I8 => u64::from(value as i8 as u8),
        DType::U8 | DType::Bool => u64::from(value as u8),
        DType::I32 => u64::from(value as i32 as u32),
        DType::I64 => value as i64 as u64,
        DType::F64 => value.to_bits(),
    };
    // The whole of a dense output is filled in one go; a part of a wider buffer must not be touched around it.
    let mut launches: Vec<Launch> = spare(&y)?.into_iter().collect();
    if y.layout.span() != y.layout.shape().elements() {
        return Err(unsupported(step, "an output that lies in a wider buffer"));
    }
    launches.push(fill(y.ptr.clone(), y.layout.span(), y.dtype.size(), bits)?);
    launches.extend(copy(&x, &part(&y, inside, offset))?);
    Ok(DeviceKernel::new(format!("pad {}", y.dtype), launches))
}

/// A slice that places could not say: steps that go backwards.
pub(super) fn slice(low: &Lowering, op: &Slice, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (x, y) = (Arg::input(low, step, 0)?, Arg::output(step)?);
    let given = [known(step, 1)?, known(step, 2)?, known(step, 3)?, known(step, 4)?];
    let ranges = op.resolve(x.layout.shape(), given).map_err(|e| unsupported(step, &e.to_string()))?;
    let strides = signed(x.layout.strides());
    let start: usize = ranges.iter().zip(x.layout.strides()).map(|(r, s)| r.start * s).sum();
    // The step of a single element has no say and may be any number.
    let step_of = |r: &AxisRange| if r.len > 1 { r.step } else { 0 };
    let stepped: Vec<i64> = ranges.iter().zip(&strides).map(|(r, s)| step_of(r) * s).collect();
    let walk = Walk::new(y.layout.shape(), &[stepped, signed(y.layout.strides())]).merged(1);
    let mut launches: Vec<Launch> = spare(&y)?.into_iter().collect();
    launches.push(strided(&walk, x.dtype.size(), &moved(&x.ptr, start, x.dtype), &y.ptr)?);
    Ok(DeviceKernel::new(format!("slice {}", y.dtype), launches))
}

/// Repetition along dims: the output seen with two dims for each, the input repeating in the first.
pub(super) fn tile(low: &Lowering, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (x, y) = (Arg::input(low, step, 0)?, Arg::output(step)?);
    let (mut dims, mut sx, mut sy) = (Vec::new(), Vec::new(), Vec::new());
    for (d, (&n, &m)) in x.layout.shape().iter().zip(y.layout.shape().iter()).enumerate() {
        dims.extend([m / n.max(1), n]);
        sx.extend([0, x.layout.strides()[d] as i64]);
        sy.extend([(y.layout.strides()[d] * n) as i64, y.layout.strides()[d] as i64]);
    }
    let walk = Walk::new(&dims, &[sx, sy]).merged(1);
    let mut launches: Vec<Launch> = spare(&y)?.into_iter().collect();
    launches.push(strided(&walk, x.dtype.size(), &x.ptr, &y.ptr)?);
    Ok(DeviceKernel::new(format!("tile {}", y.dtype), launches))
}

/// One gather or scatter: over `dims`, strides of the indexed tensor, of the indices and of the other one; and the indexed
/// axes as (stride, size).
struct Indexing<'a> {
    dims: &'a [usize],
    indexed: Vec<i64>,
    indices: Vec<i64>,
    other: Vec<i64>,
    axes: Vec<(usize, usize)>,
    k_stride: usize,
}

fn indexing(
    step: &StepDesc<'_>,
    kind: &str,
    how: &Indexing<'_>,
    [indexed, indices, other]: [&Arg; 3],
) -> Result<Launch> {
    if how.axes.len() > MOST || !matches!(indices.dtype, DType::I32 | DType::I64) {
        return Err(unsupported(step, "i32 or i64 indices of at most six axes expected"));
    }
    let walk = Walk::new(how.dims, &[how.indexed.clone(), how.indices.clone(), how.other.clone()]).merged(2);
    let (mut axis_stride, mut axis_size) = ([0; MOST], [1; MOST]);
    for (j, &(stride, size)) in how.axes.iter().enumerate() {
        (axis_stride[j], axis_size[j]) = (int(stride)?, int(size)?);
    }
    let p = params::Gather {
        dims: walk.six()?,
        sx: walk.six_strides(0)?,
        si: walk.six_strides(1)?,
        sy: walk.six_strides(2)?,
        axis_stride,
        axis_size,
        k: int(how.axes.len())?,
        k_stride: int(how.k_stride)?,
        ti: dtype_code(indices.dtype),
        count: int(walk.count())?,
        ..Default::default()
    };
    let size = indexed.dtype.size();
    // A scatter is one block: of several updates of one element the last wins.
    let (grid, threads) =
        if kind == "scatter" { ([1, 1, 1], 1024) } else { ([blocks(walk.count(), 256)?, 1, 1], 256) };
    Ok(Launch::new("move", format!("{kind}_b{size}"), grid, threads, &p)
        .at(offset_of!(params::Gather, x), indexed.ptr.clone())
        .at(offset_of!(params::Gather, indices), indices.ptr.clone())
        .at(offset_of!(params::Gather, y), other.ptr.clone()))
}

fn axis_of(step: &StepDesc<'_>, axis: i64, rank: usize) -> Result<usize> {
    Shape::axis(axis, rank).map_err(|e| unsupported(step, &e.to_string()))
}

fn gathered(y: &Arg, launch: Launch) -> Result<DeviceKernel> {
    let mut launches: Vec<Launch> = spare(y)?.into_iter().collect();
    launches.push(launch);
    Ok(DeviceKernel::new(format!("gather {}", y.dtype), launches))
}

pub(super) fn gather(low: &Lowering, op: &Gather, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (x, i, y) = (Arg::input(low, step, 0)?, Arg::input(low, step, 1)?, Arg::output(step)?);
    let (sx, si) = (signed(x.layout.strides()), signed(i.layout.strides()));
    let axis = axis_of(step, op.axis, sx.len())?;
    // y's dims: those before the axis, those of the indices, those behind it.
    let indexed = [&sx[..axis], &vec![0; si.len()], &sx[axis + 1..]].concat();
    let indices = [&vec![0; axis][..], &si, &vec![0; sx.len() - axis - 1]].concat();
    let how = Indexing {
        dims: y.layout.shape(),
        indexed,
        indices,
        other: signed(y.layout.strides()),
        axes: vec![(x.layout.strides()[axis], x.layout.shape()[axis])],
        k_stride: 0,
    };
    gathered(&y, indexing(step, "gather", &how, [&x, &i, &y])?)
}

pub(super) fn gather_elements(
    low: &Lowering,
    op: &GatherElements,
    step: &StepDesc<'_>,
) -> Result<DeviceKernel> {
    let (x, i, y) = (Arg::input(low, step, 0)?, Arg::input(low, step, 1)?, Arg::output(step)?);
    let mut indexed = signed(x.layout.strides());
    let axis = axis_of(step, op.axis, indexed.len())?;
    indexed[axis] = 0;
    let how = Indexing {
        dims: y.layout.shape(),
        indexed,
        indices: signed(i.layout.strides()),
        other: signed(y.layout.strides()),
        axes: vec![(x.layout.strides()[axis], x.layout.shape()[axis])],
        k_stride: 0,
    };
    gathered(&y, indexing(step, "gather", &how, [&x, &i, &y])?)
}

/// Dims and strides of index tuples: batch dims, tuple dims, and what is left of the indexed tensor.
fn tuples<'a>(
    step: &StepDesc<'_>,
    x: &Arg,
    i: &Arg,
    dims: &'a [usize],
    other: &Arg,
    batch: usize,
) -> Result<Indexing<'a>> {
    let (sx, si) = (x.layout.strides(), i.layout.strides());
    let Some((&k, lead)) = i.layout.shape().dims().split_last() else {
        return Err(unsupported(step, "scalar indices"));
    };
    let mut indexed: Vec<i64> = (0..lead.len()).map(|d| if d < batch { sx[d] as i64 } else { 0 }).collect();
    indexed.extend(sx[batch + k..].iter().map(|&s| s as i64));
    let mut indices: Vec<i64> = si[..lead.len()].iter().map(|&s| s as i64).collect();
    indices.resize(indexed.len(), 0);
    Ok(Indexing {
        dims,
        indexed,
        indices,
        other: signed(other.layout.strides()),
        axes: (batch..batch + k).map(|d| (sx[d], x.layout.shape()[d])).collect(),
        k_stride: si[lead.len()],
    })
}

pub(super) fn gather_nd(low: &Lowering, op: &GatherNd, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (x, i, y) = (Arg::input(low, step, 0)?, Arg::input(low, step, 1)?, Arg::output(step)?);
    let how = tuples(step, &x, &i, y.layout.shape(), &y, op.batch_dims)?;
    gathered(&y, indexing(step, "gather", &how, [&x, &i, &y])?)
}

/// The output as a copy of the input, then the updates written into it.
fn scattered(x: &Arg, y: &Arg, updates: Launch) -> Result<DeviceKernel> {
    let mut launches = copy(x, y)?;
    launches.push(updates);
    Ok(DeviceKernel::new(format!("scatter {}", y.dtype), launches))
}

pub(super) fn scatter_nd(low: &Lowering, op: &ScatterNd, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    if op.reduction != Reduction::None {
        return Err(unsupported(step, "updates that are added or compared"));
    }
    let (x, i, u, y) =
        (Arg::input(low, step, 0)?, Arg::input(low, step, 1)?, Arg::input(low, step, 2)?, Arg::output(step)?);
    let how = tuples(step, &y, &i, u.layout.shape(), &u, 0)?;
    scattered(&x, &y, indexing(step, "scatter", &how, [&y, &i, &u])?)
}

pub(super) fn scatter_elements(
    low: &Lowering,
    op: &ScatterElements,
    step: &StepDesc<'_>,
) -> Result<DeviceKernel> {
    if op.reduction != Reduction::None {
        return Err(unsupported(step, "updates that are added or compared"));
    }
    let (x, i, u, y) =
        (Arg::input(low, step, 0)?, Arg::input(low, step, 1)?, Arg::input(low, step, 2)?, Arg::output(step)?);
    let mut indexed = signed(y.layout.strides());
    let axis = axis_of(step, op.axis, indexed.len())?;
    indexed[axis] = 0;
    let how = Indexing {
        dims: u.layout.shape(),
        indexed,
        indices: signed(i.layout.strides()),
        other: signed(u.layout.strides()),
        axes: vec![(y.layout.strides()[axis], y.layout.shape()[axis])],
        k_stride: 0,
    };
    scattered(&x, &y, indexing(step, "scatter", &how, [&y, &i, &u])?)
}

pub(super) fn grid_sample(low: &Lowering, op: &GridSample, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (x, g, y) = (Arg::input(low, step, 0)?, Arg::input(low, step, 1)?, Arg::output(step)?);
    let (&[n, c, h, w], &[_, _, oh, ow]) = (x.layout.shape().dims(), y.layout.shape().dims()) else {
        return Err(unsupported(step, "four dims expected"));
    };
    if x.dtype != g.dtype || !matches!(x.dtype, DType::F32 | DType::F16) {
        return Err(unsupported(step, "f32 or f16 expected"));
    }
    let (sx, sg, sy) = (x.layout.strides(), g.layout.strides(), y.layout.strides());
    let p = params::GridSample {
        batch: int(n)?,
        channels: int(c)?,
        h: int(h)?,
        w: int(w)?,
        oh: int(oh)?,
        ow: int(ow)?,
        x_img: int(sx[0])?,
        x_ch: int(sx[1])?,
        x_row: int(sx[2])?,
        x_pix: int(sx[3])?,
        g_img: int(sg[0])?,
        g_row: int(sg[1])?,
        g_pix: int(sg[2])?,
        g_xy: int(sg[3])?,
        y_img: int(sy[0])?,
        y_ch: int(sy[1])?,
        y_row: int(sy[2])?,
        y_pix: int(sy[3])?,
        t: dtype_code(x.dtype),
        mode: match op.mode {
            Sampling::Linear => 0,
            Sampling::Nearest => 1,
            Sampling::Cubic => 2,
        },
        outside: match op.outside {
            Outside::Zeros => 0,
            Outside::Border => 1,
            Outside::Reflection => 2,
        },
        align_corners: i32::from(op.align_corners),
        ..Default::default()
    };
    let mut launches: Vec<Launch> = spare(&y)?.into_iter().collect();
    launches.push(
        Launch::new("resize", "grid_sample", [blocks(n * c * oh * ow, 256)?, 1, 1], 256, &p)
            .at(offset_of!(params::GridSample, x), x.ptr.clone())
            .at(offset_of!(params::GridSample, grid), g.ptr.clone())
            .at(offset_of!(params::GridSample, y), y.ptr.clone()),
    );
    Ok(DeviceKernel::new(format!("grid sample {}", x.dtype), launches))
}

/// A split that could not be done by places: each part copied out.
pub(super) fn split(low: &Lowering, op: &Split, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let x = Arg::input(low, step, 0)?;
    let axis = axis_of(step, op.axis, x.layout.shape().rank())?;
    let (mut start, mut launches) = (0, Vec::new());
    for o in 0..step.outputs.len() {
        let y = Arg::output_of(step, o)?;
        let len = y.layout.shape()[axis];
        let (from, skipped) =
            x.layout.sliced(axis, start, len, 1).map_err(|e| unsupported(step, &e.to_string()))?;
        launches.extend(copy(&part(&x, from, skipped), &y)?);
        start += len;
    }
    Ok(DeviceKernel::new(format!("split {}", x.dtype), launches))
}
