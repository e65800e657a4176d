//! Convolutions of 8-bit numbers: bit for bit what `QuantConv` defines.

use super::conv::{activation, base, families, finished, fits, is_aligned, set_x, set_y, sizes};
use super::elementwise::Arg;
use super::layout::{nhwc, rows_packed, unit};
use super::tiles::Tiled;
use super::{Lowering, blocks, constant, input, int, output, unsupported};
use crate::Result;
use crate::launch::{DeviceKernel, Launch, Ptr};
use crate::params::{self, dtype_code};
use crate::weights::Recipe;
use saltica_core::StepDesc;
use saltica_models::graph::ops::window::Window;
use saltica_models::graph::ops::{QuantConv, QuantOutput};
use saltica_tensor::{DType, Tensor};
use std::mem::offset_of;

fn bytes_of<T: bytemuck::Pod>(numbers: &[T]) -> Recipe {
    Recipe::Bytes(bytemuck::cast_slice(numbers).to_vec())
}

/// Sums over each output channel's weights.
fn sums(weights: &Tensor, channels: usize, minus: i32) -> Vec<i32> {
    let view = weights.view();
    let per = weights.shape().elements() / channels.max(1);
    (0..channels).map(|o| (0..per).map(|i| view.at_f64(o * per + i) as i32 - minus).sum()).collect()
}

pub(super) fn conv(low: &Lowering, op: &QuantConv, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (s, x) = (sizes(step)?, input(step, 0)?);
    let (y_dtype, y, y_at) = output(step)?;
    let Some(weights) = constant(step, 1) else {
        return Err(unsupported(step, "the weights are computed"));
    };
    let bias = match step.inputs.get(2).and_then(Option::as_ref) {
        None => None,
        Some(b) => Some(b.constant.ok_or_else(|| unsupported(step, "the bias is computed"))?),
    };
    // Weights as i8: u8 ones with a zero point of 128 are i8 ones with 0.
    let first = op.w_zero(0);
    let even = (0..s.cout).all(|o| op.w_zero(o) == first);
    let minus = match (weights.dtype(), first, even) {
        (DType::I8, 0, true) => 0,
        (DType::U8, 128, true) => 128,
        _ => return Err(unsupported(step, "weights with a zero point")),
    };
    // A file may leave the kernel's size to the weights.
    let &[_, _, kh, kw] = weights.shape().dims() else {
        return Err(unsupported(step, "four dims of weights expected"));
    };
    let window = Window { kernel: [kh, kw], ..*op.window() };
    let mut p = base(&s, &window)?;
    let rows = Arg::output(step)?.spare_to().unwrap_or(s.cout);
    set_y(
        &mut p,
        rows_packed(y).ok_or_else(|| unsupported(step, "the output's channels are not innermost"))?,
    )?;
    // Padding is x's zero point; u8 numbers are read less 128.
    let unsigned = x.dtype == DType::U8;
    let zero = op.x_zero() - if unsigned { 128 } else { 0 };
    p.x_xor = if unsigned { 0x8080_8080_u32 as i32 } else { 0 };
    p.x_zero = op.x_zero();
    p.out_dtype = dtype_code(y_dtype);
    let (act, table) = match op.output() {
        QuantOutput::Float { activation } => (*activation, None),
        QuantOutput::Quantized { scale, zero, activation, table, .. } => {
            (p.q_scale, p.q_zero) = (*scale, *zero);
            (*activation, table.as_ref())
        }
    };
    (p.act, p.act_a, p.act_b) = activation(act);
    let padded = |v: Vec<f32>| {
        let mut v = v;
        v.resize(rows.next_multiple_of(8), 0.0);
        v
    };
    let multiplier = low.constant(bytes_of(&padded((0..s.cout).map(|o| op.multiplier(o)).collect())));
    let float_bias = (!op.float_bias().is_empty()).then(|| {
        let of = |o: usize| op.float_bias()[if op.float_bias().len() == 1 { 0 } else { o }];
        low.constant(bytes_of(&padded((0..s.cout).map(of).collect())))
    });
    // Tiled kernels multiply the stored numbers: the zero point's share of each sum is taken off with the bias. The plain
    // ones take zero points off one by one.
    let own = |o: usize| bias.map_or(0, |b| b.view().at_f64(o) as i32);
    let mut plain: Vec<i32> = (0..s.cout).map(own).collect();
    let mut folded: Vec<i32> = sums(weights, s.cout, minus)
        .into_iter()
        .zip(&plain)
        .map(|(sum, b)| b.wrapping_sub(zero.wrapping_mul(sum)))
        .collect();
    folded.resize(rows.next_multiple_of(8), 0);
    plain.resize(rows.next_multiple_of(8), 0);
    let (folded, plain) = (low.constant(bytes_of(&folded)), low.constant(bytes_of(&plain)));
    let outside = low.constant(Recipe::Bytes(vec![op.x_zero() as u8; 16]));
    let table = table.map(|t| low.constant(Recipe::Bytes(t.bytes().to_vec())));
    let finish = |launch: Launch, w: Ptr, bias: Ptr| {
        launch
            .at(offset_of!(params::Conv, x), Ptr::Input(0, 0))
            .at(offset_of!(params::Conv, w), w)
            .at(offset_of!(params::Conv, bias), bias)
            .at(offset_of!(params::Conv, mul), multiplier.clone())
            .maybe(offset_of!(params::Conv, fbias), float_bias.clone())
            .maybe(offset_of!(params::Conv, table), table.clone())
            .at(offset_of!(params::Conv, pad), outside.clone())
            .at(offset_of!(params::Conv, y), Ptr::Output(0, 0))
    };

    let depthwise = op.group() == s.cin && op.group() == s.cout && s.cin > 1;
    if depthwise
        && let Some(xs) = nhwc(&x.layout).filter(|xs| is_aligned(x.offset, *xs, x.dtype, 8))
        && fits(x, s.cin, 8)
    {
        set_x(&mut p, xs)?;
        p.groups = int(op.group())?;
        let channels = s.cout.next_multiple_of(8);
        let w = low.constant(Recipe::Taps { weights: weights.clone(), dtype: DType::I8, channels, minus });
        let work = s.batch * s.output[0] * s.output[1] * s.cout.div_ceil(8);
        let launch = Launch::new("conv_dw", "conv_dw_i8", [blocks(work, 256)?, 1, 1], 256, &p);
        return finished(step, format!("conv depthwise {}", x.dtype), finish(launch, w, plain));
    }

    let step_unit = unit(x.dtype, s.cin);
    let small = s.cin <= 4;
    if op.group() == 1
        && window.kernel.iter().all(|&k| k <= 16)
        && let Some(xs) = nhwc(&x.layout).filter(|xs| is_aligned(x.offset, *xs, x.dtype, step_unit))
        && fits(x, s.cin, step_unit)
        && (!small || xs.pixel == 4 && !low.target.is_volta())
    {
        set_x(&mut p, xs)?;
        let channels = s.cin.next_multiple_of(step_unit);
        p.cin = int(channels)?;
        p.cout = int(rows)?;
        let k = window.kernel[0] * window.kernel[1] * channels;
        let row = k.next_multiple_of(16);
        let w = low.constant(Recipe::Ohwi {
            weights: weights.clone(),
            dtype: DType::I8,
            rows,
            channels,
            row,
            minus,
        });
        let families = families(low, &window, small, false, "i8");
        let families: Vec<&str> = families.iter().map(String::as_str).collect();
        return Tiled { families: &families, params: p, exact: true, aligned: y_at.is_multiple_of(16) }
            .kernel(low, &|l| finish(l, w.clone(), folded.clone()))
            .ok_or_else(|| unsupported(step, &format!("no kernel of {}", families.join(", "))))?;
    }

    let strides = x.layout.strides();
    (p.x_img, p.x_ch, p.x_row, p.x_pix) =
        (int(strides[0])?, int(strides[1])?, int(strides[2])?, int(strides[3])?);
    p.groups = int(op.group())?;
    let taps = window.kernel[0] * window.kernel[1];
    let channels = s.cin / op.group().max(1);
    let w = low.constant(Recipe::Ohwi {
        weights: weights.clone(),
        dtype: DType::I8,
        rows: s.cout,
        channels,
        row: taps * channels,
        minus,
    });
    let work = s.batch * s.output[0] * s.output[1] * s.cout;
    let launch = Launch::new("conv_dw", "conv_direct_i8", [blocks(work, 256)?, 1, 1], 256, &p);
    finished(step, format!("conv direct {}", x.dtype), finish(launch, w, plain))
}
