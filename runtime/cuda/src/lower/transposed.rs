//! Transposed convolutions.

use super::conv::{after_spare, base, finished, is_aligned, set_y, sizes};
use super::layout::{nhwc, rows_packed, unit};
use super::tiles::Tiled;
use super::{Lowering, blocks, constant, input, int, output, unsupported};
use crate::Result;
use crate::launch::{DeviceKernel, Launch, Ptr};
use crate::params::{self, dtype_code};
use crate::weights::Recipe;
use saltica_core::StepDesc;
use saltica_models::graph::ops::ConvTranspose;
use saltica_models::graph::ops::window::Window;
use saltica_tensor::{DType, Tensor};
use std::mem::offset_of;

/// A transposed convolution whose window is its stride: each tap is a 1x1 convolution that writes every `stride`-th pixel.
/// Rows of the input are taken as pictures one row high, so that the output's rows may lie apart.
pub(super) fn transpose(low: &Lowering, op: &ConvTranspose, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (s, x) = (sizes(step)?, input(step, 0)?);
    let (y_dtype, y, _) = output(step)?;
    let Some(weights) = constant(step, 1) else {
        return Err(unsupported(step, "the weights are computed"));
    };
    let &[_, _, kh, kw] = weights.shape().dims() else {
        return Err(unsupported(step, "four dims of weights expected"));
    };
    let tiles = op.window.stride == [kh, kw]
        && op.window.dilation == [1, 1]
        && s.output == [s.input[0] * kh, s.input[1] * kw]
        && op.group == 1
        && matches!(x.dtype, DType::F16 | DType::F32);
    let lanes = unit(x.dtype, s.cin.max(5));
    let (Some(xs), Some(ys)) = (nhwc(&x.layout), nhwc(y)) else {
        return transpose_any(low, op, step, weights);
    };
    let rows_follow = s.batch == 1 || xs.image == s.input[0] * xs.row && ys.image == s.output[0] * ys.row;
    if !tiles || !rows_follow || !s.cin.is_multiple_of(lanes) || !is_aligned(x.offset, xs, x.dtype, lanes) {
        return transpose_any(low, op, step, weights);
    }
    let bias = match step.inputs.get(2).and_then(Option::as_ref) {
        None => None,
        Some(b) => {
            let numbers = b.constant.ok_or_else(|| unsupported(step, "the bias is computed"))?.clone();
            let len = s.cout.next_multiple_of(8);
            Some(low.constant(Recipe::Numbers { numbers, dtype: DType::F32, len }))
        }
    };
    let p = params::Conv {
        batch: int(s.batch * s.input[0])?,
        h: 1,
        wd: int(s.input[1])?,
        cin: int(s.cin)?,
        oh: 1,
        ow: int(s.input[1])?,
        cout: int(s.cout)?,
        groups: 1,
        kh: 1,
        kw: 1,
        sy: 1,
        sx: 1,
        dy: 1,
        dx: 1,
        x_img: int(xs.row)?,
        x_row: int(xs.row)?,
        x_pix: int(xs.pixel)?,
        x_ch: 1,
        y_img: int(kh * ys.row)?,
        y_pix: int(kw * ys.pixel)?,
        out_dtype: dtype_code(y_dtype),
        splits: 1,
        ..Default::default()
    };
    let family = match x.dtype {
        DType::F16 if low.target.is_volta() => "conv72_f16",
        DType::F16 => "conv_f16",
        _ => "conv_f32",
    };
    let mut taps = Vec::new();
    for (ky, kx) in (0..kh).flat_map(|ky| (0..kw).map(move |kx| (ky, kx))) {
        let w = low.constant(Recipe::Tap { weights: weights.clone(), dtype: x.dtype, tap: ky * kw + kx });
        let to = (ky * ys.row + kx * ys.pixel) * y_dtype.size();
        let finish = |launch: Launch| {
            launch
                .at(offset_of!(params::Conv, x), Ptr::Input(0, 0))
                .at(offset_of!(params::Conv, w), w.clone())
                .maybe(offset_of!(params::Conv, bias), bias.clone())
                .at(offset_of!(params::Conv, y), Ptr::Output(0, to))
        };
        let made = Tiled { families: &[family], params: p, exact: false, aligned: false }
            .kernel(low, &finish)
            .ok_or_else(|| unsupported(step, &format!("no kernel of the family {family}")))??;
        taps.push(made);
    }
    let label = taps.first().map_or_else(String::new, |t| format!("transposed {}", t.label));
    let scratch = taps.iter().map(|t| t.scratch).max().unwrap_or(0);
    let mut kernel = DeviceKernel::new(label, taps.into_iter().flat_map(|t| t.launches).collect());
    kernel.scratch = scratch;
    after_spare(step, kernel)
}

/// Any transposed convolution: one thread an output.
fn transpose_any(
    low: &Lowering,
    op: &ConvTranspose,
    step: &StepDesc<'_>,
    weights: &Tensor,
) -> Result<DeviceKernel> {
    let (s, x) = (sizes(step)?, input(step, 0)?);
    let (y_dtype, y, _) = output(step)?;
    let out = rows_packed(y).ok_or_else(|| unsupported(step, "the output's channels are not innermost"))?;
    if x.dtype != y_dtype || !matches!(x.dtype, DType::F16 | DType::F32) {
        return Err(unsupported(step, "f16 or f32 expected"));
    }
    let &[_, _, kh, kw] = weights.shape().dims() else {
        return Err(unsupported(step, "four dims of weights expected"));
    };
    let window = Window { kernel: [kh, kw], ..op.window };
    let mut p = base(&s, &window)?;
    let pads = op.pads_before(weights.shape(), s.input).map_err(|e| unsupported(step, &e.to_string()))?;
    (p.py, p.px) = (int(pads[0])?, int(pads[1])?);
    let strides = x.layout.strides();
    (p.x_img, p.x_ch, p.x_row, p.x_pix) =
        (int(strides[0])?, int(strides[1])?, int(strides[2])?, int(strides[3])?);
    set_y(&mut p, out)?;
    p.groups = int(op.group)?;
    p.out_dtype = dtype_code(y_dtype);
    let bias = match step.inputs.get(2).and_then(Option::as_ref) {
        None => None,
        Some(b) => {
            let numbers = b.constant.ok_or_else(|| unsupported(step, "the bias is computed"))?.clone();
            Some(low.constant(Recipe::Numbers {
                numbers,
                dtype: DType::F32,
                len: s.cout.next_multiple_of(8),
            }))
        }
    };
    let w =
        low.constant(Recipe::Turned { weights: weights.clone(), dtype: x.dtype, groups: op.group.max(1) });
    let work = s.batch * s.output[0] * s.output[1] * s.cout;
    let kernel = format!("conv_transpose_{}", x.dtype.name());
    let launch = Launch::new("conv_dw", kernel, [blocks(work, 256)?, 1, 1], 256, &p)
        .at(offset_of!(params::Conv, x), Ptr::Input(0, 0))
        .at(offset_of!(params::Conv, w), w)
        .maybe(offset_of!(params::Conv, bias), bias)
        .at(offset_of!(params::Conv, y), Ptr::Output(0, 0));
    finished(step, format!("transposed direct {}", x.dtype), launch)
}
