//! Convolutions: which kernel and tile, how weights are packed.

use super::layout::{Nhwc, nhwc, owns_spare, rows_packed, unit};
use super::{Lowering, Target, blocks, constant, input, int, output, unsupported};
use crate::Result;
use crate::catalogue::{Variant, variants};
use crate::launch::{DeviceKernel, Launch, Ptr};
use crate::params::{self, dtype_code};
use crate::weights::Recipe;
use saltica_core::StepDesc;
use saltica_models::graph::ops::ConvTranspose;
use saltica_models::graph::ops::window::{AutoPad, Window};
use saltica_models::graph::{Activation, Conv, Residual};
use saltica_tensor::{DType, Layout, Tensor};
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
        && fits(&x.layout, dtype, s.cin, lanes)
    {
        set_x(&mut p, xs)?;
        p.groups = int(op.group)?;
        let channels = s.cout.next_multiple_of(8);
        let w = low.constant(Recipe::Taps { weights: weights.clone(), dtype, channels, minus: 0 });
        let work = s.batch * s.output[0] * s.output[1] * s.cout.div_ceil(lanes);
        let kernel = format!("conv_dw_{}", dtype.name());
        let launch = Launch::new("conv_dw", kernel, [blocks(work, 256)?, 1, 1], 256, &p);
        return Ok(DeviceKernel::new(format!("conv depthwise {dtype}"), vec![finish(launch, w)]));
    }

    // Tensor cores, or in f32 the tiled plain kernel.
    let step_unit = unit(dtype, s.cin);
    let small = s.cin <= 4 && dtype == DType::F16;
    if op.group == 1
        && window.kernel.iter().all(|&k| k <= 16)
        && let Some(xs) = nhwc(&x.layout).filter(|xs| is_aligned(x.offset, *xs, dtype, step_unit))
        && fits(&x.layout, dtype, s.cin, step_unit)
        && (!small || xs.pixel == 4)
    {
        set_x(&mut p, xs)?;
        let channels = s.cin.next_multiple_of(step_unit);
        p.cin = int(channels)?;
        let k = window.kernel[0] * window.kernel[1] * channels;
        let row = k.next_multiple_of(if dtype == DType::F16 { 8 } else { 4 });
        // Spare channels of the output are zeros times its pixels: they must hold finite numbers for the next reader.
        let rows = spare_rows(y, y_dtype, s.cout);
        p.cout = int(rows)?;
        let w = low.constant(Recipe::Ohwi { weights: weights.clone(), dtype, rows, channels, row, minus: 0 });
        let name = if dtype == DType::F16 { "f16" } else { "f32" };
        let families = families(&window, small, residual.is_some(), name);
        let families: Vec<&str> = families.iter().map(String::as_str).collect();
        return Tiled { families: &families, params: p, exact: false, aligned }
            .kernel(low, &|l| finish(l, w.clone()))
            .ok_or_else(|| unsupported(step, &format!("no kernel of {}", families.join(", "))))?;
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
    Ok(DeviceKernel::new(format!("conv direct {dtype}"), vec![finish(launch, w)]))
}

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
    let family = if x.dtype == DType::F16 { "conv_f16" } else { "conv_f32" };
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
    Ok(kernel)
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
    Ok(DeviceKernel::new(format!("transposed direct {}", x.dtype), vec![launch]))
}

/// Kernel families for a window.
pub(super) fn families(window: &Window, small: bool, residual: bool, dtype: &str) -> Vec<String> {
    let square =
        |k: usize, s: usize| window.kernel == [k; 2] && window.stride == [s; 2] && window.dilation == [1; 2];
    match (dtype, small) {
        ("f32", _) => vec!["conv_f32".into()],
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
pub(super) fn fits(x: &Layout, dtype: DType, channels: usize, unit: usize) -> bool {
    channels.is_multiple_of(unit) || owns_spare(x, dtype)
}

/// Channels to write: the spare ones too, where the value owns them.
pub(super) fn spare_rows(y: &Layout, dtype: DType, cout: usize) -> usize {
    match nhwc(y) {
        Some(s) if owns_spare(y, dtype) && cout > 4 => s.pixel,
        _ => cout,
    }
}

/// What decides in which order a kernel adds up: results are the same bits for the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Order {
    family: &'static str,
    step: usize,
    parts: usize,
    splits: usize,
}

impl Order {
    fn of(v: &Variant, splits: usize) -> Order {
        // Kernels of one part that are no patch kernels add up one product after the other, whatever their step.
        let plain = v.parts == 1 && !is_patch(v) && !v.family().starts_with("conv_stem");
        let family = match v.family() {
            "conv1_f16" => "conv_f16",
            family => family,
        };
        Order { family, step: if plain { 0 } else { v.tile[2] }, parts: v.parts, splits }
    }
}

/// Whether a kernel tiles the picture in patches of rows of 8 pixels.
fn is_patch(v: &Variant) -> bool {
    v.family().starts_with("conv3")
}

/// Whether a kernel keeps all channels of a pixel at once and goes over the pixels as one long matrix.
fn is_stream(v: &Variant) -> bool {
    v.family().starts_with("conv1")
}

/// A convolution as the tiled kernels see it.
pub(super) struct Tiled<'a> {
    /// Kernel families that can do it.
    pub(super) families: &'a [&'a str],
    pub(super) params: params::Conv,
    /// Whether the order of sums has no say (integers).
    pub(super) exact: bool,
    /// Whether the output begins at a multiple of 16 bytes.
    pub(super) aligned: bool,
}

impl Tiled<'_> {
    /// Rows, columns and length of the sums for so many pictures.
    fn size(&self, batch: usize) -> [usize; 3] {
        let p = &self.params;
        let n = |v: i32| v.max(0) as usize;
        [batch * n(p.oh) * n(p.ow), n(p.cout), n(p.kh) * n(p.kw) * n(p.cin)]
    }

    /// Whether a variant takes these sizes.
    fn takes(&self, v: &Variant) -> bool {
        let p = &self.params;
        let one_chunk = is_stream(v) || is_patch(v) && v.name.ends_with("_one");
        let rows = p.wd * p.x_pix;
        // Pictures that follow each other without gaps, as one matrix.
        let one_matrix =
            p.x_row == rows && (p.batch == 1 || p.x_img == p.h * rows && p.y_img == p.oh * p.ow * p.y_pix);
        let chunk = if v.family().ends_with("i8") { 16 } else { 8 };
        let whole = self.aligned && [p.y_pix, p.cout].iter().all(|n| n % chunk == 0) && p.res_mode == 0;
        // Floats of the other width are not among what streaming kernels write.
        let same_width = p.out_dtype != 0 && (chunk == 8 || p.out_dtype != 1);
        (!one_chunk || p.cin as usize <= v.tile[2]) && (!is_stream(v) || one_matrix && whole && same_width)
    }

    /// Ways to do it, best first by the model, for so many pictures.
    fn ways(&self, low: &Lowering, batch: usize) -> Vec<(f64, &'static Variant, usize)> {
        let size = self.size(batch);
        let mut ways = Vec::new();
        for v in variants().iter().filter(|v| self.families.contains(&v.family()) && self.takes(v)) {
            for splits in [1, 2, 3, 4, 6, 8] {
                if splits == 1 || v.parts > 1 && splits * 2 <= size[2].div_ceil(v.tile[2]) {
                    ways.push((cost(low.target, v, size, splits), v, splits));
                }
            }
        }
        ways.sort_by(|a, b| a.0.total_cmp(&b.0));
        ways
    }

    /// What the tuner knows it by, for so many pictures.
    fn signature(&self, batch: usize) -> String {
        let p = &self.params;
        format!(
            "{} {batch}x{}x{}x{} k{}x{} s{}x{} d{}x{} to {}x{}x{} up{} act{} res{} out{}",
            self.families[0],
            p.h,
            p.wd,
            p.cin,
            p.kh,
            p.kw,
            p.sy,
            p.sx,
            p.dy,
            p.dx,
            p.oh,
            p.ow,
            p.cout,
            p.up,
            p.act,
            p.res_mode,
            p.out_dtype
        )
    }

    /// The launch, with the other tiles that may be tried. The order of sums is chosen for one picture, so that the numbers
    /// do not depend on the batch; the tile is chosen for the batch.
    pub(super) fn kernel(
        &self,
        low: &Lowering,
        finish: &dyn Fn(Launch) -> Launch,
    ) -> Option<Result<DeviceKernel>> {
        // The tuner tries those that could be best by the model.
        const TRIED: usize = 20;
        let batch = self.params.batch.max(1) as usize;
        let tuned_first = |batch: usize| {
            let mut ways = self.ways(low, batch);
            if let Some(label) = low.tuned.get(&self.signature(batch)) {
                // Stable: what was measured goes first, the rest stays in the model's order.
                ways.sort_by_key(|(_, v, splits)| label_of(v, *splits) != label);
            }
            ways
        };
        let order = tuned_first(1).first().map(|(_, v, splits)| Order::of(v, *splits))?;
        let ways = tuned_first(batch);
        let same = |v: &Variant, splits: usize| self.exact || Order::of(v, splits) == order;
        let mut made = ways
            .iter()
            .filter(|(_, v, splits)| same(v, *splits))
            .take(TRIED)
            .map(|(_, v, splits)| self.launch(low, v, *splits, finish));
        let mut best = match made.next()? {
            Ok(best) => best,
            Err(e) => return Some(Err(e)),
        };
        best.variants = made.flatten().collect();
        if batch == 1 {
            // For one picture the tuner may choose another order.
            let others = ways.iter().filter(|(_, v, splits)| !same(v, *splits)).take(TRIED);
            best.variants
                .extend(others.filter_map(|(_, v, splits)| self.launch(low, v, *splits, finish).ok()));
        }
        best.signature = Some(self.signature(batch));
        Some(Ok(best))
    }

    fn launch(
        &self,
        low: &Lowering,
        v: &Variant,
        splits: usize,
        finish: &dyn Fn(Launch) -> Launch,
    ) -> Result<DeviceKernel> {
        let mut p = self.params;
        let n = |v: i32| v.max(0) as usize;
        let [m, columns, _] = self.size(n(p.batch));
        let [bm, bn, _] = v.tile;
        let across = columns.div_ceil(bn);
        p.splits = int(splits)?;
        // Patch kernels tile the picture, not the list of its pixels.
        let patches = |rows: usize, wide: usize| n(p.batch) * n(p.oh).div_ceil(rows) * n(p.ow).div_ceil(wide);
        let (tiles, grid) = if is_patch(v) {
            let tiles = patches(bm / 8, 8) * across;
            (tiles, [blocks(tiles, 1)?, 1, 1])
        } else if is_stream(v) {
            // As many blocks as the device holds at once; each goes over several tiles.
            let held =
                (resident(v, low.target.arch) * low.target.multiprocessors as usize).div_ceil(across).max(1);
            (m.div_ceil(bm), [blocks(m.div_ceil(bm).min(held), 1)?, blocks(across, 1)?, 1])
        } else if v.family().starts_with("conv_stem") {
            let tiles = patches(bm / 16, 16);
            (tiles, [blocks(tiles, 1)?, blocks(across, 1)?, 1])
        } else {
            let tiles = m.div_ceil(bm) * across;
            (tiles, [blocks(tiles, 1)?, splits as u32, 1])
        };
        let mut launch = finish(Launch::new(v.unit, v.name, grid, v.threads, &p).shared(v.shared));
        let mut scratch = 0;
        if splits > 1 {
            launch = launch
                .at(offset_of!(params::Conv, ws), Ptr::Scratch(0))
                .at(offset_of!(params::Conv, sem), Ptr::Counters);
            launch.counters = tiles;
            scratch = splits * tiles * bm * bn * 4;
        }
        let mut kernel = DeviceKernel::new(label_of(v, splits), vec![launch]);
        kernel.scratch = scratch;
        Ok(kernel)
    }
}

/// A way's name, in profiles and in what the tuner keeps.
fn label_of(v: &Variant, splits: usize) -> String {
    let split = if splits > 1 { format!(" split {splits}") } else { String::new() };
    format!("{} {}{split}", v.family(), v.shape())
}

/// Blocks that one multiprocessor holds at once, by shared memory and threads (CUDA C programming guide, compute
/// capabilities: 8.0 and 8.7 have 164 KB, 8.6 and 8.9 100, 9.0 and later 228; 2048 threads, or 1536 from 8.6 to 8.9).
fn resident(v: &Variant, arch: u32) -> usize {
    let (shared, threads) = match arch {
        86 | 89 => (100, 1536),
        87 => (164, 1536),
        90.. => (228, 2048),
        _ => (164, 2048),
    };
    // Each block takes 1 KB more for itself.
    ((shared << 10) / (v.shared as usize + 1024)).min(threads / v.threads as usize).clamp(1, 32)
}

/// A rough time, in cycles of a multiprocessor: waves of blocks, each with its steps, a start and an end. The tuner measures;
/// this only has to put good ones first.
fn cost(target: Target, v: &Variant, [m, n, k]: [usize; 3], splits: usize) -> f64 {
    let [bm, bn, bk] = v.tile;
    let tiles = m.div_ceil(bm) * n.div_ceil(bn) * splits;
    let resident = resident(v, target.arch);
    let busy = tiles.div_ceil(target.multiprocessors.max(1) as usize) as f64;
    // A patch kernel's step is three taps of a chunk of channels.
    let (step, traffic) = match () {
        () if is_patch(v) => (bk * 3, bm as f64 * 0.6 * bk as f64 + (3 * bn * bk) as f64),
        () if v.family().starts_with("conv_stem") => (k, (bm * 8) as f64),
        () if is_stream(v) => (k, (bm * k) as f64),
        () => (bk, ((bm + bn) * bk) as f64),
    };
    let steps = (k.div_ceil(step) as f64 / splits as f64).ceil();
    // A step costs the tile's products (1024 a cycle and multiprocessor) or its bytes (64 a cycle), but no less than its
    // latency, which residents hide.
    let products = (bm * bn * step) as f64 / 1024.0;
    let work = products.max(traffic * 2.0 / 64.0) * steps;
    let start = if is_stream(v) { 500.0 } else { 900.0 };
    let latency = 60.0 / v.parts as f64 * steps + start + if splits > 1 { 800.0 } else { 0.0 };
    let waves = (busy / resident as f64).ceil();
    (busy * work + (bm * bn) as f64 / 32.0 * busy).max(waves * latency)
}
