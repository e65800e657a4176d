//! Pooling and resizing.

use super::dims::{Walk, signed};
use super::elementwise::{Arg, PIECE, grouped, spare, strided};
use super::layout::nhwc;
use super::{Lowering, blocks, constant, int, unsupported};
use crate::Result;
use crate::launch::{DeviceKernel, Launch};
use crate::params::{self, dtype_code};
use crate::weights::Recipe;
use saltica_core::StepDesc;
use saltica_models::graph::ops::{AxisResize, Pool, PoolKind, Resize};
use saltica_tensor::DType;
use std::mem::offset_of;

pub(super) fn pool(low: &Lowering, op: &Pool, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (x, y) = (Arg::input(low, step, 0)?, Arg::output(step)?);
    let (&[n, c, h, w], &[_, _, oh, ow]) = (x.layout.shape().dims(), y.layout.shape().dims()) else {
        return Err(unsupported(step, "four dims expected"));
    };
    if step.outputs.len() > 1 || !matches!(x.dtype, DType::F32 | DType::F16 | DType::I8 | DType::U8) {
        return Err(unsupported(
            step,
            "positions as a second output, or a dtype other than f32, f16, i8 and u8",
        ));
    }
    let window = op.window;
    let pads = window.pads_for([h, w]);
    let (sx, sy) = (x.layout.strides(), y.layout.strides());
    // A dim of size 1 has no stride of its own.
    let y_pix = if ow > 1 { sy[3] } else { sy[2] };
    if oh > 1 && sy[2] != ow * y_pix {
        return Err(unsupported(step, "rows of the output that do not follow each other"));
    }
    let mut p = params::Pool {
        batch: int(n)?,
        h: int(h)?,
        w: int(w)?,
        c: int(c)?,
        oh: int(oh)?,
        ow: int(ow)?,
        kh: int(window.kernel[0])?,
        kw: int(window.kernel[1])?,
        sy: int(window.stride[0])?,
        sx: int(window.stride[1])?,
        py: int(pads[0])?,
        px: int(pads[1])?,
        dy: int(window.dilation[0])?,
        dx: int(window.dilation[1])?,
        x_img: int(sx[0])?,
        x_ch: int(sx[1])?,
        x_row: int(sx[2])?,
        x_pix: int(sx[3])?,
        y_img: int(sy[0])?,
        y_ch: int(sy[1])?,
        y_pix: int(y_pix)?,
        mode: match op.kind {
            PoolKind::Max => 0,
            PoolKind::Average => 1,
            PoolKind::AverageWithPadding => 2,
        },
        pad_h: int(h + pads[0] + pads[2])?,
        pad_w: int(w + pads[1] + pads[3])?,
        ..Default::default()
    };
    let mut launches: Vec<Launch> = spare(&y)?.into_iter().collect();
    let name = x.dtype.name();
    // Sixteen bytes of channels a thread, where both sides are aligned for them.
    let lanes = 16 / x.dtype.size();
    let aligned = |a: &Arg| {
        let strides = nhwc(&a.layout).map(|s| [s.image, s.row, s.pixel]);
        a.offset.is_multiple_of(16) && strides.is_some_and(|s| s.iter().all(|s| s.is_multiple_of(lanes)))
    };
    let vector = op.kind == PoolKind::Max && c.is_multiple_of(lanes) && aligned(&x) && aligned(&y);
    let (kernel, work) = if vector {
        if let (Some(x), Some(y)) = (nhwc(&x.layout), nhwc(&y.layout)) {
            (p.x_img, p.x_row, p.x_pix, p.x_ch) = (int(x.image)?, int(x.row)?, int(x.pixel)?, 1);
            (p.y_img, p.y_pix, p.y_ch) = (int(y.image)?, int(y.pixel)?, 1);
        }
        (format!("max_pool_{name}"), n * oh * ow * c / lanes)
    } else {
        (format!("pool_any_{name}"), n * oh * ow * c)
    };
    launches.push(
        Launch::new("pool", kernel.clone(), [blocks(work, 256)?, 1, 1], 256, &p)
            .at(offset_of!(params::Pool, x), x.ptr.clone())
            .at(offset_of!(params::Pool, y), y.ptr.clone()),
    );
    Ok(DeviceKernel::new(kernel.replace('_', " "), launches))
}

/// Four taps of one output position: source indices and weights, as kernels read them.
fn taps(at: [usize; 4], weights: [f32; 4]) -> impl Iterator<Item = u8> {
    let at = at.into_iter().flat_map(|a| (a as i32).to_le_bytes());
    at.chain(weights.into_iter().flat_map(f32::to_le_bytes))
}

/// The table of an axis for nearest or linear sampling, and how many taps of each entry count.
fn table(op: &Resize, axis: &AxisResize) -> Option<(Vec<u8>, i32)> {
    let nearest: Option<Vec<usize>> = (0..axis.output).map(|o| op.nearest_source(axis, o)).collect();
    if let Some(sources) = nearest {
        return Some((
            sources.into_iter().flat_map(|s| taps([s, 0, 0, 0], [1.0, 0.0, 0.0, 0.0])).collect(),
            1,
        ));
    }
    let linear: Option<Vec<_>> = (0..axis.output).map(|o| op.linear_source(axis, o)).collect();
    let bytes =
        linear?.into_iter().flat_map(|([a, b], v)| taps([a, b, 0, 0], [1.0 - v, v, 0.0, 0.0])).collect();
    Some((bytes, 2))
}

/// Whole factors by which rows and columns repeat, if each pixel of the output is one of the input and they come in order.
fn repeats(op: &Resize, axes: &[AxisResize], input: [usize; 2], output: [usize; 2]) -> Option<[usize; 2]> {
    let mut factors = [1; 2];
    for d in 0..2 {
        factors[d] = output[d] / input[d].max(1);
        let same = |o: usize| op.nearest_source(&axes[d + 2], o) == Some(o / factors[d]);
        if factors[d] * input[d] != output[d] || !(0..output[d]).all(same) {
            return None;
        }
    }
    Some(factors)
}

/// Pixels repeated, 16 bytes of channels at a time; `None` if the channels are not aligned for that.
fn repeated(x: &Arg, y: &Arg, [down, across]: [usize; 2]) -> Result<Option<DeviceKernel>> {
    let (&[n, c, h, w], [xn, xc, xh, xw]) = (x.layout.shape().dims(), x.layout.strides()) else {
        return Ok(None);
    };
    let [yn, yc, yh, yw] = y.layout.strides() else { return Ok(None) };
    let sx = signed(&[*xn, *xh, 0, *xw, 0, *xc]);
    let sy = signed(&[*yn, yh * down, *yh, yw * across, *yw, *yc]);
    let walk = Walk::new(&[n, h, down, w, across, c], &[sx, sy]).merged(1);
    let (walk, size) = grouped(walk, x.dtype.size(), [x.offset, y.offset]);
    if x.dtype != y.dtype || size != PIECE {
        return Ok(None);
    }
    let mut launches: Vec<Launch> = spare(y)?.into_iter().collect();
    launches.push(strided(&walk, size, &x.ptr, &y.ptr)?);
    Ok(Some(DeviceKernel::new(format!("repeat {}", x.dtype), launches)))
}

pub(super) fn resize(low: &Lowering, op: &Resize, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (x, y) = (Arg::input(low, step, 0)?, Arg::output(step)?);
    let given = |i: usize| match step.inputs.get(i).and_then(Option::as_ref) {
        None => Ok(None),
        Some(_) => constant(step, i)
            .map(|t| Some(t.view()))
            .ok_or_else(|| unsupported(step, "scales or sizes are computed")),
    };
    let axes = op
        .resolve(x.layout.shape(), given(op.scales_input)?, given(op.scales_input + 1)?)
        .map_err(|e| unsupported(step, &e.to_string()))?;
    let same = |a: &AxisResize| a.scale == 1.0;
    if x.layout.shape().rank() != 4 || !same(&axes[0]) || !same(&axes[1]) {
        return Err(unsupported(step, "rows and columns of pictures only"));
    }
    if let (&[_, _, h, w], &[_, _, oh, ow]) = (x.layout.shape().dims(), y.layout.shape().dims())
        && let Some(factors) = repeats(op, &axes, [h, w], [oh, ow])
        && let Some(kernel) = repeated(&x, &y, factors)?
    {
        return Ok(kernel);
    }
    let (Some((rows, row_taps)), Some((cols, col_taps))) = (table(op, &axes[2]), table(op, &axes[3])) else {
        return Err(unsupported(step, "nearest or linear sampling expected"));
    };
    let (&[n, c, oh, ow], sx, sy) = (
        match y.layout.shape().dims() {
            [n, c, h, w] => &[*n, *c, *h, *w],
            _ => return Err(unsupported(step, "four dims expected")),
        },
        x.layout.strides(),
        y.layout.strides(),
    );
    let p = params::Resize {
        batch: int(n)?,
        channels: int(c)?,
        oh: int(oh)?,
        ow: int(ow)?,
        x_img: int(sx[0])?,
        x_ch: int(sx[1])?,
        x_row: int(sx[2])?,
        x_pix: int(sx[3])?,
        y_img: int(sy[0])?,
        y_ch: int(sy[1])?,
        y_row: int(sy[2])?,
        y_pix: int(sy[3])?,
        tx: dtype_code(x.dtype),
        ty: dtype_code(y.dtype),
        taps: row_taps.max(col_taps),
        ..Default::default()
    };
    let mut launches: Vec<Launch> = spare(&y)?.into_iter().collect();
    launches.push(
        Launch::new("resize", "resize", [blocks(n * c * oh * ow, 256)?, 1, 1], 256, &p)
            .at(offset_of!(params::Resize, x), x.ptr.clone())
            .at(offset_of!(params::Resize, y), y.ptr.clone())
            .at(offset_of!(params::Resize, rows), low.constant(Recipe::Bytes(rows)))
            .at(offset_of!(params::Resize, cols), low.constant(Recipe::Bytes(cols))),
    );
    Ok(DeviceKernel::new(format!("resize {}", x.dtype), launches))
}
