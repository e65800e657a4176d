//! Convolutions: which kernel, how weights are packed.

use super::elementwise::{Arg, spare};
use super::layout::{Nhwc, nhwc, rows_packed, spare_to, unit};
use super::tiles::Tiled;
use super::{Lowering, blocks, constant, input, int, output, unsupported};
use crate::Result;
use crate::launch::{DeviceKernel, Launch, Ptr};
use crate::params::{self, dtype_code};
use crate::weights::Recipe;
use saltica_core::{Operand, StepDesc};
use saltica_models::graph::ops::window::{AutoPad, Window};
use saltica_models::graph::{Activation, Conv, Residual};
use saltica_tensor::DType;
use std::mem::offset_of;

/// The activation as kernels know it.
pub(super) fn activation(a: Activation) -> (i32, f32, f32) {
    match a {
        Activation::None => (0, 0.0, 0.0),
        Activation::Relu => (1, 0.0, 0.0),
        Activation::LeakyRelu(slope) => (2, slope, 0.0),
        Activation::Clip(lo, hi) => (3, lo, hi),
        Activation::Sigmoid => (4, 0.0, 0.0),
        Activation::Silu => (5, 0.0, 0.0),
        Activation::HardSigmoid(alpha, beta) => (6, alpha, beta),
        Activation::HardSwish => (7, 0.0, 0.0),
        Activation::Tanh => (8, 0.0, 0.0),
    }
}

/// The sizes of a convolution.
pub(super) struct Sizes {
    pub(super) batch: usize,
    pub(super) cin: usize,
    pub(super) input: [usize; 2],
    pub(super) cout: usize,
    pub(super) output: [usize; 2],
}

pub(super) fn sizes(step: &StepDesc<'_>) -> Result<Sizes> {
    let (x, (_, y, _)) = (input(step, 0)?, output(step)?);
    match (x.layout.shape().dims(), y.shape().dims()) {
        (&[batch, cin, h, w], &[_, cout, oh, ow]) => {
            Ok(Sizes { batch, cin, input: [h, w], cout, output: [oh, ow] })
        }
        _ => Err(unsupported(step, "four dims expected")),
    }
}

pub(super) fn base(s: &Sizes, window: &Window) -> Result<params::Conv> {
    let pads = window.pads_for(s.input);
    Ok(params::Conv {
        batch: int(s.batch)?,
        h: int(s.input[0])?,
        wd: int(s.input[1])?,
        cin: int(s.cin)?,
        oh: int(s.output[0])?,
        ow: int(s.output[1])?,
        cout: int(s.cout)?,
        groups: 1,
        kh: int(window.kernel[0])?,
        kw: int(window.kernel[1])?,
        sy: int(window.stride[0])?,
        sx: int(window.stride[1])?,
        py: int(pads[0])?,
        px: int(pads[1])?,
        dy: int(window.dilation[0])?,
        dx: int(window.dilation[1])?,
        x_ch: 1,
        splits: 1,
        ..Default::default()
    })
}

pub(super) fn set_x(p: &mut params::Conv, x: Nhwc) -> Result<()> {
    (p.x_img, p.x_row, p.x_pix) = (int(x.image)?, int(x.row)?, int(x.pixel)?);
    Ok(())
}

pub(super) fn set_y(p: &mut params::Conv, y: Nhwc) -> Result<()> {
    (p.y_img, p.y_pix) = (int(y.image)?, int(y.pixel)?);
    Ok(())
}

/// Whether all that steps from pixel to pixel keeps 16-byte loads aligned.
pub(super) fn is_aligned(offset: usize, x: Nhwc, dtype: DType, unit: usize) -> bool {
    let bytes = unit * dtype.size();
    offset.is_multiple_of(bytes) && [x.pixel, x.row, x.image].iter().all(|s| s.is_multiple_of(unit))
}

pub(super) fn conv(low: &Lowering, op: &Conv, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let s = sizes(step)?;
    let x = input(step, 0)?;
    let (y_dtype, y, y_at) = output(step)?;
    let aligned = y_at.is_multiple_of(16);
    let Some(weights) = constant(step, 1) else {
        return Err(unsupported(step, "the weights are computed"));
    };
    let bias = match step.inputs.get(2).and_then(Option::as_ref) {
        None => None,
        Some(b) => Some(b.constant.ok_or_else(|| unsupported(step, "the bias is computed"))?),
    };
    if !matches!(x.dtype, DType::F16 | DType::F32) {
        return Err(unsupported(step, "f16 or f32 expected"));
    }
    let window = op.window_for(weights.shape()).map_err(|e| unsupported(step, &e.to_string()))?;
    let mut p = base(&s, &window)?;
    (p.act, p.act_a, p.act_b) = activation(op.activation);
    p.out_dtype = dtype_code(y_dtype);
    let residual = step.inputs.get(3).and_then(Option::as_ref);
    if let Some(r) = residual {
        let r = rows_packed(&r.layout)
            .ok_or_else(|| unsupported(step, "the residual's channels are not innermost"))?;
        (p.r_img, p.r_pix) = (int(r.image)?, int(r.pixel)?);
        p.res_mode = match op.residual {
            Residual::None => 0,
            Residual::BeforeActivation => 1,
            Residual::AfterActivation => 2,
        };
    }
    let out = rows_packed(y).ok_or_else(|| unsupported(step, "the output's channels are not innermost"))?;
    set_y(&mut p, out)?;
    let bias = bias.map(|b| {
        let len = s.cout.next_multiple_of(8);
        low.constant(Recipe::Numbers { numbers: b.clone(), dtype: DType::F32, len })
    });
    let finish = |launch: Launch, w: Ptr| {
        launch
            .at(offset_of!(params::Conv, x), Ptr::Input(0, 0))
            .at(offset_of!(params::Conv, w), w)
            .maybe(offset_of!(params::Conv, bias), bias.clone())
            .maybe(offset_of!(params::Conv, res), residual.map(|_| Ptr::Input(3, 0)))
            .at(offset_of!(params::Conv, y), Ptr::Output(0, 0))
    };
    let dtype = x.dtype;

    // Depthwise.
    let depthwise = op.group == s.cin && op.group == s.cout && s.cin > 1;
    let lanes = if dtype == DType::F16 { 8 } else { 4 };
    if depthwise
        && let Some(xs) = nhwc(&x.layout).filter(|xs| is_aligned(x.offset, *xs, dtype, lanes))
        && fits(x, s.cin, lanes)
    {
        set_x(&mut p, xs)?;
        p.groups = int(op.group)?;
        let channels = s.cout.next_multiple_of(8);
        let w = low.constant(Recipe::Taps { weights: weights.clone(), dtype, channels, minus: 0 });
        let work = s.batch * s.output[0] * s.output[1] * s.cout.div_ceil(lanes);
        let kernel = format!("conv_dw_{}", dtype.name());
        let launch = Launch::new("conv_dw", kernel, [blocks(work, 256)?, 1, 1], 256, &p);
        return finished(step, format!("conv depthwise {dtype}"), finish(launch, w));
    }

    // Tensor cores, or in f32 the tiled plain kernel.
    let step_unit = unit(dtype, s.cin);
    let small = s.cin <= 4 && dtype == DType::F16;
    if op.group == 1
        && window.kernel.iter().all(|&k| k <= 16)
        && let Some(xs) = nhwc(&x.layout).filter(|xs| is_aligned(x.offset, *xs, dtype, step_unit))
        && fits(x, s.cin, step_unit)
        && (!small || xs.pixel == 4 && !low.target.is_volta())
    {
        set_x(&mut p, xs)?;
        let channels = s.cin.next_multiple_of(step_unit);
        p.cin = int(channels)?;
        let k = window.kernel[0] * window.kernel[1] * channels;
        let row = k.next_multiple_of(if dtype == DType::F16 { 8 } else { 4 });
        // Spare channels of the output are zeros times its pixels: they must hold finite numbers for the next reader. A
        // residual is added to them too, so it must have as many.
        let wide = Arg::output(step)?.spare_to().unwrap_or(s.cout);
        let has = |r: &Operand<'_>| wide == s.cout || spare_to(&r.layout, r.dtype, r.owned) == Some(wide);
        let rows = if residual.is_none_or(has) { wide } else { s.cout };
        p.cout = int(rows)?;
        let w = low.constant(Recipe::Ohwi { weights: weights.clone(), dtype, rows, channels, row, minus: 0 });
        let name = if dtype == DType::F16 { "f16" } else { "f32" };
        let families = families(low, &window, small, residual.is_some(), name);
        let families: Vec<&str> = families.iter().map(String::as_str).collect();
        let kernel = Tiled { families: &families, params: p, exact: false, aligned }
            .kernel(low, &|l| finish(l, w.clone()))
            .ok_or_else(|| unsupported(step, &format!("no kernel of {}", families.join(", "))))??;
        return if rows == wide { Ok(kernel) } else { after_spare(step, kernel) };
    }

    // Anything else: one thread an output.
    let strides = x.layout.strides();
    (p.x_img, p.x_ch, p.x_row, p.x_pix) =
        (int(strides[0])?, int(strides[1])?, int(strides[2])?, int(strides[3])?);
    p.groups = int(op.group)?;
    let taps = window.kernel[0] * window.kernel[1];
    let channels = s.cin / op.group.max(1);
    let w = low.constant(Recipe::Ohwi {
        weights: weights.clone(),
        dtype,
        rows: s.cout,
        channels,
        row: taps * channels,
        minus: 0,
    });
    let work = s.batch * s.output[0] * s.output[1] * s.cout;
    let kernel = format!("conv_direct_{}", dtype.name());
    let launch = Launch::new("conv_dw", kernel, [blocks(work, 256)?, 1, 1], 256, &p);
    finished(step, format!("conv direct {dtype}"), finish(launch, w))
}

/// Kernel families for a window.
pub(super) fn families(
    low: &Lowering,
    window: &Window,
    small: bool,
    residual: bool,
    dtype: &str,
) -> Vec<String> {
    let square =
        |k: usize, s: usize| window.kernel == [k; 2] && window.stride == [s; 2] && window.dilation == [1; 2];
    match (dtype, small) {
        ("f32", _) => vec!["conv_f32".into()],
        // Tensor cores of another kind, one family of kernels for all.
        _ if low.target.is_volta() => vec![format!("conv72_{dtype}")],
        (_, true) if !residual && square(3, 2) => {
            vec![format!("conv_stem3_{dtype}"), format!("conv_{dtype}c4")]
        }
        (_, true) if !residual && square(6, 2) => {
            vec![format!("conv_stem6_{dtype}"), format!("conv_{dtype}c4")]
        }
        (_, true) => vec![format!("conv_{dtype}c4")],
        _ if square(3, 1) && window.pads == [1; 4] && window.auto_pad == AutoPad::Explicit => {
            vec![format!("conv_{dtype}"), format!("conv3_{dtype}")]
        }
        _ if square(3, 2) && window.pads == [1; 4] && window.auto_pad == AutoPad::Explicit => {
            vec![format!("conv_{dtype}"), format!("conv3s2_{dtype}")]
        }
        _ if square(1, 1) && window.pads == [0; 4] && window.auto_pad == AutoPad::Explicit => {
            vec![format!("conv_{dtype}"), format!("conv1_{dtype}")]
        }
        _ => vec![format!("conv_{dtype}")],
    }
}

/// Whether whole vectors of channels may be read from each pixel: there are whole ones, or spare channels of its own.
pub(super) fn fits(x: &Operand<'_>, channels: usize, unit: usize) -> bool {
    channels.is_multiple_of(unit) || spare_to(&x.layout, x.dtype, x.owned).is_some()
}

/// A kernel that writes the output's channels and no spare ones: those are zeroed before it.
pub(super) fn after_spare(step: &StepDesc<'_>, kernel: DeviceKernel) -> Result<DeviceKernel> {
    let zeros: Vec<Launch> = spare(&Arg::output(step)?)?.into_iter().collect();
    Ok(kernel.between(&zeros, &[], 0))
}

/// As [`after_spare`], of one launch.
pub(super) fn finished(step: &StepDesc<'_>, label: String, launch: Launch) -> Result<DeviceKernel> {
    after_spare(step, DeviceKernel::new(label, vec![launch]))
}
