use super::elementwise::{Number, floats, numbers, permuted};
use super::literal::*;
use super::window::Window;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{DType, Element, Shape, View, ViewMut};
use std::ops::Range;

/// What a pooling makes of the pixels in its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// The largest; padding never wins.
    Max,
    /// The mean of the pixels inside the input.
    Average,
    /// The mean with padding counted as zeros (`count_include_pad`); what a partial window of `ceil_mode` has beyond the
    /// padding does not count.
    AverageWithPadding,
}

/// 2-D pooling, [MaxPool](https://onnx.ai/onnx/operators/onnx__MaxPool.html) without indices and
/// [AveragePool](https://onnx.ai/onnx/operators/onnx__AveragePool.html).
///
/// Input: x `[N,C,H,W]`, floats (f16 averages are computed in f32 or wider and rounded once), for Max also i8 and u8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// What is made of a window.
    pub kind: PoolKind,
    /// Kernel, stride, dilation, padding.
    pub window: Window,
}

/// The part of the outputs `0..outputs` for which kernel element `k` (offset by dilation and padding) lies inside the input:
/// all o with 0 <= o * stride + shift - pad < input.
pub(super) fn inside(outputs: usize, stride: usize, shift: usize, pad: usize, input: usize) -> Range<usize> {
    let first = pad.saturating_sub(shift).div_ceil(stride);
    let end = (input + pad).saturating_sub(shift).div_ceil(stride).min(outputs);
    first..end.max(first)
}

impl Pool {
    fn max<T: Number>(&self, x: &View<'_>, y: &mut ViewMut<'_>, lowest: T) -> Result<()> {
        let Window { kernel, stride, dilation, .. } = self.window;
        let (h, w) = (x.shape()[2], x.shape()[3]);
        let pads = self.window.pads_for([h, w]);
        let (oh, ow) = (y.shape()[2], y.shape()[3]);
        let at = |o: usize, k: usize, axis: usize| {
            (o * stride[axis] + k * dilation[axis]).wrapping_sub(pads[axis])
        };
        let better = |best: &mut T, v: T| {
            if v > *best {
                *best = v;
            }
        };
        if y.shape()[1] > 1 && y.layout().strides()[1] == 1 && x.layout().strides()[1] == 1 {
            // Channels are neighbours: one run of them at a time.
            let order = [0, 2, 3, 1];
            let x = permuted(x, &order)?;
            let mut y = y.permuted(&order)?;
            for index in Shape::new(&[x.shape()[0], oh, ow])?.indices() {
                let [n, oy, ox, ..] = index;
                let Some(best) = y.row_mut::<T>(&[n, oy, ox, 0]) else { continue };
                best.fill(lowest);
                for iy in (0..kernel[0]).map(|ky| at(oy, ky, 0)).filter(|&iy| iy < h) {
                    for ix in (0..kernel[1]).map(|kx| at(ox, kx, 1)).filter(|&ix| ix < w) {
                        let from = x.row::<T>(&[n, iy, ix, 0]).unwrap_or_default();
                        best.iter_mut().zip(from).for_each(|(b, &v)| better(b, v));
                    }
                }
            }
            return Ok(());
        }
        for index in Shape::new(&[y.shape()[0], y.shape()[1], oh])?.indices() {
            let [n, c, oy, ..] = index;
            let lines = (0..kernel[0]).map(|ky| at(oy, ky, 0)).filter(|&iy| iy < h);
            if let Some(best) = y.row_mut::<T>(&index)
                && (h * w == 0 || x.row::<T>(&[n, c, 0, 0]).is_some())
            {
                best.fill(lowest);
                for iy in lines {
                    let from = x.row::<T>(&[n, c, iy, 0]).unwrap_or_default();
                    for kx in 0..kernel[1] {
                        let range = inside(ow, stride[1], kx * dilation[1], pads[1], w);
                        if range.is_empty() {
                            continue;
                        }
                        let from = &from[at(range.start, kx, 1)..];
                        if stride[1] == 1 {
                            best[range].iter_mut().zip(from).for_each(|(b, &v)| better(b, v));
                        } else {
                            let from = from.iter().step_by(stride[1]);
                            best[range].iter_mut().zip(from).for_each(|(b, &v)| better(b, v));
                        }
                    }
                }
                continue;
            }
            for ox in 0..ow {
                let mut best = lowest;
                for iy in lines.clone() {
                    for ix in (0..kernel[1]).map(|kx| at(ox, kx, 1)).filter(|&ix| ix < w) {
                        better(&mut best, x.get(&[n, c, iy, ix]));
                    }
                }
                y.set(&[n, c, oy, ox], best);
            }
        }
        Ok(())
    }

    fn average<T: Element>(&self, x: &View<'_>, y: &mut ViewMut<'_>) {
        let Window { kernel, stride, dilation, .. } = self.window;
        let size = [x.shape()[2], x.shape()[3]];
        let pads = self.window.pads_for(size);
        // Kernel elements that lie in the input, and those that lie in the input or its padding.
        let counts = |o: usize, axis: usize| {
            let at = move |k: usize| o * stride[axis] + k * dilation[axis];
            let inside = (0..kernel[axis]).filter(|&k| at(k).wrapping_sub(pads[axis]) < size[axis]).count();
            let padded =
                (0..kernel[axis]).filter(|&k| at(k) < size[axis] + pads[axis] + pads[axis + 2]).count();
            if self.kind == PoolKind::AverageWithPadding { padded } else { inside }
        };
        for index in y.shape().indices() {
            let [n, c, oy, ox, ..] = index;
            let mut sum = 0f64;
            for ky in 0..kernel[0] {
                let iy = (oy * stride[0] + ky * dilation[0]).wrapping_sub(pads[0]);
                for kx in 0..kernel[1] {
                    let ix = (ox * stride[1] + kx * dilation[1]).wrapping_sub(pads[1]);
                    if iy < size[0] && ix < size[1] {
                        sum += x.get::<T>(&[n, c, iy, ix]).to_f64();
                    }
                }
            }
            y.set(&index, T::from_f64(sum / (counts(oy, 0) * counts(ox, 1)) as f64));
        }
    }
}

impl Operator for Pool {
    fn parse(node: &NodeInfo) -> Result<Self> {
        let window = Window::parse(node)?;
        if window.kernel == [0, 0] {
            return Err(Error::unsupported("kernel_shape is missing"));
        }
        let kind = if node.op_type == "MaxPool" {
            if node.has_output(1) {
                return Err(Error::unsupported("output Indices of MaxPool is not supported"));
            }
            node.ignore("storage_order");
            PoolKind::Max
        } else if node.int("count_include_pad")?.unwrap_or(0) != 0 {
            PoolKind::AverageWithPadding
        } else {
            PoolKind::Average
        };
        Ok(Pool { kind, window })
    }

    fn name(&self) -> &str {
        if self.kind == PoolKind::Max { "MaxPool" } else { "AveragePool" }
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let &[n, c, h, w] = x.shape.dims() else {
            return Err(Error::shape(format!("x is {}, rank 4 expected (2-D pooling)", x.shape)));
        };
        let bytes = matches!(x.dtype, DType::I8 | DType::U8) && self.kind == PoolKind::Max;
        if !x.dtype.is_float() && !bytes {
            return Err(Error::shape(format!("{} does not take {}", self.name(), x.dtype)));
        }
        let [oh, ow] = self.window.output([h, w])?;
        Ok(vec![OutFact { dtype: x.dtype, shape: Shape::new(&[n, c, oh, ow])? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = &required(inputs, 0, "x")?;
        let y = &mut outputs[0];
        let refused = || Err(Error::shape(format!("{} does not take {}", self.name(), x.dtype())));
        match self.kind {
            // Saturating makes "minus infinity" the smallest integer.
            PoolKind::Max => numbers!(x.dtype(), T => {
                self.max::<T>(x, y, T::from_f64(f64::NEG_INFINITY))
            }, refused()),
            PoolKind::Average | PoolKind::AverageWithPadding => floats!(x.dtype(), T => {
                self.average::<T>(x, y);
                Ok(())
            }, refused()),
        }
    }

    #[rustfmt::skip] // tables of numbers
    #[allow(clippy::approx_constant)] // they only look alike
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("5x5 padding 2", node("MaxPool", 12, 1, vec![ints("kernel_shape", &[5, 5]), ints("pads", &[2,
                2, 2, 2]), ints("strides", &[1, 1]), ints("dilations", &[1, 1]), int("ceil_mode", 0)]),
                vec![f32s(&[1, 1, 6, 5], &[0.42, 0.55, 0.71, -1.4, -0.24, -1.04, -0.39, -1.61, 1.87, -1.14,
                0.69, -0.8, 1.5, 0.65, -1.47, 1.38, 1.78, 1.62, 0.28, -1.42, -1.23, 1.71, 0.21, -1.28, 1.54,
                0.57, 0.28, -0.49, -0.36, -1.04])], vec![f32s(&[1, 1, 6, 5], &[1.5, 1.87, 1.87, 1.87, 1.87,
                1.78, 1.87, 1.87, 1.87, 1.87, 1.78, 1.87, 1.87, 1.87, 1.87, 1.78, 1.87, 1.87, 1.87, 1.87,
                1.78, 1.78, 1.78, 1.78, 1.62, 1.78, 1.78, 1.78, 1.78, 1.62])], EXACT),
            case("3x3 stride 2 padding 1", node("MaxPool", 12, 1, vec![ints("kernel_shape", &[3, 3]),
                ints("pads", &[1, 1, 1, 1]), ints("strides", &[2, 2])]), vec![f32s(&[1, 2, 5, 6], &[0.5, 1.59,
                1.1, -1.1, -0.8, 1.49, -1.98, 1.28, 1.19, -0.13, -0.79, -0.89, -0.98, -0.22, 0.02, 0.21, 1.98,
                1.17, 0.49, 1.96, -1.14, -1.36, 0.45, -1.82, -1.86, 0.06, -0.14, 1.67, 0.52, 0.06, -0.01,
                -1.01, -1.95, -1.23, 0.77, -1.2, -0.52, -1.99, 1.32, -1.38, -0.93, 1.52, 0.04, 1.39, 0.56,
                0.97, -1.63, 0.16, 0.03, 1.49, -0.55, 0.39, -1.76, -0.45, -0.71, -1.4, 1.27, -0.48, 1.91,
                0.36])], vec![f32s(&[1, 2, 3, 3], &[1.59, 1.59, 1.49, 1.96, 1.96, 1.98, 1.96, 1.96, 1.67,
                -0.01, 1.32, 1.52, 1.49, 1.49, 1.52, 1.49, 1.49, 1.91])], EXACT),
            case("3x3 stride 2 end padding", node("MaxPool", 12, 1, vec![ints("kernel_shape", &[3, 3]),
                ints("pads", &[0, 0, 1, 1]), ints("strides", &[2, 2])]), vec![f32s(&[1, 2, 5, 6], &[0.5, 1.59,
                1.1, -1.1, -0.8, 1.49, -1.98, 1.28, 1.19, -0.13, -0.79, -0.89, -0.98, -0.22, 0.02, 0.21, 1.98,
                1.17, 0.49, 1.96, -1.14, -1.36, 0.45, -1.82, -1.86, 0.06, -0.14, 1.67, 0.52, 0.06, -0.01,
                -1.01, -1.95, -1.23, 0.77, -1.2, -0.52, -1.99, 1.32, -1.38, -0.93, 1.52, 0.04, 1.39, 0.56,
                0.97, -1.63, 0.16, 0.03, 1.49, -0.55, 0.39, -1.76, -0.45, -0.71, -1.4, 1.27, -0.48, 1.91,
                0.36])], vec![f32s(&[1, 2, 2, 3], &[1.59, 1.98, 1.98, 1.96, 1.98, 1.98, 1.39, 1.32, 1.52,
                1.49, 1.91, 1.91])], EXACT),
            case("2x2 stride 2, opset 9", node("MaxPool", 9, 1, vec![ints("kernel_shape", &[2, 2]),
                ints("strides", &[2, 2])]), vec![f32s(&[1, 2, 5, 6], &[0.5, 1.59, 1.1, -1.1, -0.8, 1.49,
                -1.98, 1.28, 1.19, -0.13, -0.79, -0.89, -0.98, -0.22, 0.02, 0.21, 1.98, 1.17, 0.49, 1.96,
                -1.14, -1.36, 0.45, -1.82, -1.86, 0.06, -0.14, 1.67, 0.52, 0.06, -0.01, -1.01, -1.95, -1.23,
                0.77, -1.2, -0.52, -1.99, 1.32, -1.38, -0.93, 1.52, 0.04, 1.39, 0.56, 0.97, -1.63, 0.16, 0.03,
                1.49, -0.55, 0.39, -1.76, -0.45, -0.71, -1.4, 1.27, -0.48, 1.91, 0.36])], vec![f32s(&[1, 2, 2,
                3], &[1.59, 1.19, 1.49, 1.96, 0.21, 1.98, -0.01, 1.32, 1.52, 1.49, 0.97, 0.16])], EXACT),
            case("3x3 stride 2 ceil", node("MaxPool", 12, 1, vec![ints("kernel_shape", &[3, 3]),
                ints("strides", &[2, 2]), int("ceil_mode", 1)]), vec![f32s(&[1, 1, 6, 5], &[-1.85, 1.5, -0.13,
                0.19, -0.71, 1.01, -1.9, -0.51, -1.88, -1.51, 1.87, 0.63, -0.29, 0.09, 1.49, -0.62, 0.36,
                0.73, -0.58, 0.08, 1.06, 1.64, -1.4, 1.73, -1.98, 1.01, 1.24, -1.45, -0.32, 1.26])],
                vec![f32s(&[1, 1, 3, 2], &[1.87, 1.49, 1.87, 1.73, 1.64, 1.73])], EXACT),
            case("2x2 stride 2 ceil padding", node("MaxPool", 12, 1, vec![ints("kernel_shape", &[2, 2]),
                ints("strides", &[2, 2]), ints("pads", &[1, 1, 1, 1]), int("ceil_mode", 1)]), vec![f32s(&[1,
                1, 5, 5], &[-1.94, 0.51, 1.17, 0.05, 0.9, -1.09, -1.21, -0.55, -1.28, -0.62, 1.79, 0.29,
                -0.64, -0.91, 1.81, -0.22, 1.92, 0.06, 0.08, 1.59, 0.97, 0.32, -0.29, 1.51, -0.35])],
                vec![f32s(&[1, 1, 3, 3], &[-1.94, 1.17, 0.9, 1.79, 0.29, 1.81, 0.97, 1.92, 1.59])], EXACT),
            case("9x9 padding 4", node("MaxPool", 12, 1, vec![ints("kernel_shape", &[9, 9]), ints("pads", &[4,
                4, 4, 4])]), vec![f32s(&[1, 1, 4, 3], &[1.69, -1.73, -0.28, 0.08, 1.8, -1., 1.22, 0.71, 0.87,
                0.52, 1.89, -0.67])], vec![f32s(&[1, 1, 4, 3], &[1.89, 1.89, 1.89, 1.89, 1.89, 1.89, 1.89,
                1.89, 1.89, 1.89, 1.89, 1.89])], EXACT),
            case("13x13 padding 6", node("MaxPool", 12, 1, vec![ints("kernel_shape", &[13, 13]), ints("pads",
                &[6, 6, 6, 6])]), vec![f32s(&[1, 1, 4, 3], &[-0.41, -1.19, -1.8, -1.15, 1.66, 1.36, -1.55,
                0.42, -0.08, 0.38, 0.64, -0.77])], vec![f32s(&[1, 1, 4, 3], &[1.66, 1.66, 1.66, 1.66, 1.66,
                1.66, 1.66, 1.66, 1.66, 1.66, 1.66, 1.66])], EXACT),
            // onnx reference.
            case("dilated", node("MaxPool", 12, 1, vec![ints("kernel_shape", &[3, 2]), ints("dilations", &[2,
                3]), ints("pads", &[1, 2, 0, 1])]), vec![f32s(&[1, 1, 7, 7], &[1.85, -0.14, 0.51, 0.54, -1.26,
                -1.75, -0.35, 1.06, 1.26, 0.92, -1.55, 1.65, 1.21, 1.51, 0.09, 1.66, -1.81, -1.88, -1.92,
                -0.99, -1.01, -1.25, 0.27, -1.84, 0.36, -1.34, 0.71, -1.92, -0.76, 1.75, 0.15, 1.25, 0.63,
                0.44, -1.23, 0.3, -1.84, 1.21, 1.84, 1.42, -1.8, -0.65, -0.73, -1.55, 0.51, 1.19, -0.75, 1.45,
                1.19])], vec![f32s(&[1, 1, 4, 7], &[1.26, 0.92, 1.06, 1.65, 1.21, 1.51, 1.65, 1.75, 0.51,
                1.85, 1.75, 0.51, 1.25, 0.63, 1.26, 1.21, 1.84, 1.65, 1.21, 1.84, 1.65, 1.75, 0.51, 1.25,
                1.75, 1.45, 1.25, 0.63])], EXACT),
            case("same upper", node("MaxPool", 12, 1, vec![ints("kernel_shape", &[3, 3]), ints("strides", &[2,
                2]), string("auto_pad", "SAME_UPPER")]), vec![f32s(&[1, 2, 5, 6], &[0.5, 1.59, 1.1, -1.1,
                -0.8, 1.49, -1.98, 1.28, 1.19, -0.13, -0.79, -0.89, -0.98, -0.22, 0.02, 0.21, 1.98, 1.17,
                0.49, 1.96, -1.14, -1.36, 0.45, -1.82, -1.86, 0.06, -0.14, 1.67, 0.52, 0.06, -0.01, -1.01,
                -1.95, -1.23, 0.77, -1.2, -0.52, -1.99, 1.32, -1.38, -0.93, 1.52, 0.04, 1.39, 0.56, 0.97,
                -1.63, 0.16, 0.03, 1.49, -0.55, 0.39, -1.76, -0.45, -0.71, -1.4, 1.27, -0.48, 1.91, 0.36])],
                vec![f32s(&[1, 2, 3, 3], &[1.59, 1.19, 1.49, 1.96, 1.98, 1.98, 1.96, 1.67, 0.52, 1.32, 1.32,
                1.52, 1.49, 1.32, 1.52, 1.49, 1.91, 1.91])], EXACT),
            case("same lower", node("MaxPool", 12, 1, vec![ints("kernel_shape", &[2, 2]), ints("strides", &[1,
                1]), string("auto_pad", "SAME_LOWER")]), vec![f32s(&[1, 2, 5, 6], &[0.5, 1.59, 1.1, -1.1,
                -0.8, 1.49, -1.98, 1.28, 1.19, -0.13, -0.79, -0.89, -0.98, -0.22, 0.02, 0.21, 1.98, 1.17,
                0.49, 1.96, -1.14, -1.36, 0.45, -1.82, -1.86, 0.06, -0.14, 1.67, 0.52, 0.06, -0.01, -1.01,
                -1.95, -1.23, 0.77, -1.2, -0.52, -1.99, 1.32, -1.38, -0.93, 1.52, 0.04, 1.39, 0.56, 0.97,
                -1.63, 0.16, 0.03, 1.49, -0.55, 0.39, -1.76, -0.45, -0.71, -1.4, 1.27, -0.48, 1.91, 0.36])],
                vec![f32s(&[1, 2, 5, 6], &[0.5, 1.59, 1.59, 1.1, -0.8, 1.49, 0.5, 1.59, 1.59, 1.19, -0.13,
                1.49, -0.98, 1.28, 1.28, 1.19, 1.98, 1.98, 0.49, 1.96, 1.96, 0.21, 1.98, 1.98, 0.49, 1.96,
                1.96, 1.67, 1.67, 0.52, -0.01, -0.01, -1.01, -1.23, 0.77, 0.77, -0.01, -0.01, 1.32, 1.32,
                0.77, 1.52, 0.04, 1.39, 1.39, 1.32, 0.97, 1.52, 0.04, 1.49, 1.49, 0.97, 0.97, 0.16, 0.03,
                1.49, 1.49, 1.27, 1.91, 1.91])], EXACT),
            case("valid", node("MaxPool", 12, 1, vec![ints("kernel_shape", &[2, 3]), string("auto_pad",
                "VALID"), ints("strides", &[2, 1])]), vec![f32s(&[1, 2, 5, 6], &[0.5, 1.59, 1.1, -1.1, -0.8,
                1.49, -1.98, 1.28, 1.19, -0.13, -0.79, -0.89, -0.98, -0.22, 0.02, 0.21, 1.98, 1.17, 0.49,
                1.96, -1.14, -1.36, 0.45, -1.82, -1.86, 0.06, -0.14, 1.67, 0.52, 0.06, -0.01, -1.01, -1.95,
                -1.23, 0.77, -1.2, -0.52, -1.99, 1.32, -1.38, -0.93, 1.52, 0.04, 1.39, 0.56, 0.97, -1.63,
                0.16, 0.03, 1.49, -0.55, 0.39, -1.76, -0.45, -0.71, -1.4, 1.27, -0.48, 1.91, 0.36])],
                vec![f32s(&[1, 2, 2, 4], &[1.59, 1.59, 1.19, 1.49, 1.96, 1.96, 1.98, 1.98, 1.32, 1.32, 1.32,
                1.52, 1.49, 1.49, 0.97, 0.97])], EXACT),
            case("f16", node("MaxPool", 12, 1, vec![ints("kernel_shape", &[2, 2])]), vec![f16s(&[1, 1, 4, 4],
                &[-1.48, 1.07, 1.53, -1.21, 0.29, 0.55, 0.44, -1.62, 0.64, 0.53, 1.3, 1.21, -0.69, 0.89, 1.47,
                1.57])], vec![f16s(&[1, 1, 3, 3], &[1.07, 1.53, 1.53, 0.64, 1.3, 1.3, 0.89, 1.47, 1.57])],
                EXACT),
            case("u8", node("MaxPool", 12, 1, vec![ints("kernel_shape", &[2, 2]), ints("pads", &[1, 1, 1,
                1])]), vec![u8s(&[1, 1, 4, 4], &[1, 1, 3, 0, 4, 6, 6, 2, 1, 5, 6, 9, 8, 3, 1, 2])],
                vec![u8s(&[1, 1, 5, 5], &[1, 1, 3, 3, 0, 4, 6, 6, 6, 2, 4, 6, 6, 9, 9, 8, 8, 6, 9, 9, 8, 8, 3,
                2, 2])], EXACT),
            case("i8 with padding", node("MaxPool", 12, 1, vec![ints("kernel_shape", &[2, 2]), ints("pads",
                &[1, 1, 1, 1])]), vec![i8s(&[1, 1, 3, 3], &[-56, -77, -50, -67, -70, -95, -70, -81, -57])],
                vec![i8s(&[1, 1, 4, 4], &[-56, -56, -50, -50, -56, -56, -50, -50, -67, -67, -57, -57, -70,
                -70, -57, -57])], EXACT),
            case("all negative with padding", node("MaxPool", 12, 1, vec![ints("kernel_shape", &[3, 3]),
                ints("pads", &[1, 1, 1, 1])]), vec![f32s(&[1, 2, 3, 3], &[-1.65, -2.3200002, -1.49, -1.51,
                -1.16, -2.1399999, -2.01, -1.6800001, -1.17, -2.67, -2.01, -1.3199999, -1.8, -2.69, -2.05,
                -2.48, -2.47, -2.48])], vec![f32s(&[1, 2, 3, 3], &[-1.16, -1.16, -1.16, -1.16, -1.16, -1.16,
                -1.16, -1.16, -1.16, -1.8, -1.3199999, -1.3199999, -1.8, -1.3199999, -1.3199999, -1.8, -1.8,
                -2.05])], EXACT),
            case("batch of 2, storage_order", node("MaxPool", 12, 1, vec![ints("kernel_shape", &[2, 2]),
                int("storage_order", 0)]), vec![f32s(&[2, 1, 3, 3], &[-1.67, 1.63, -0.92, -0.77, 1.33, 0.48,
                -1.25, -0.26, 1.54, -0.5, 0.84, -1.61, 0.91, 1.11, 1.3, 0.7, -0.52, -1.74])], vec![f32s(&[2,
                1, 2, 2], &[1.63, 1.63, 1.33, 1.54, 1.11, 1.3, 1.11, 1.3])], EXACT),
            case("average 2x2", node("AveragePool", 11, 1, vec![ints("kernel_shape", &[2, 2]), ints("strides",
                &[1, 1]), ints("pads", &[0, 0, 0, 0]), int("ceil_mode", 0)]), vec![f32s(&[1, 2, 5, 6], &[0.5,
                1.59, 1.1, -1.1, -0.8, 1.49, -1.98, 1.28, 1.19, -0.13, -0.79, -0.89, -0.98, -0.22, 0.02, 0.21,
                1.98, 1.17, 0.49, 1.96, -1.14, -1.36, 0.45, -1.82, -1.86, 0.06, -0.14, 1.67, 0.52, 0.06,
                -0.01, -1.01, -1.95, -1.23, 0.77, -1.2, -0.52, -1.99, 1.32, -1.38, -0.93, 1.52, 0.04, 1.39,
                0.56, 0.97, -1.63, 0.16, 0.03, 1.49, -0.55, 0.39, -1.76, -0.45, -0.71, -1.4, 1.27, -0.48,
                1.91, 0.36])], vec![f32s(&[1, 2, 4, 5], &[0.34749997, 1.29, 0.265, -0.70500004, -0.2475,
                -0.47500002, 0.5675, 0.32250002, 0.31750003, 0.3675, 0.3125, 0.155, -0.5675, 0.32000002,
                0.445, 0.1625, 0.185, -0.2425, 0.32, -0.19750004, -0.8825, -0.9075, -0.81000006, -0.69250005,
                0.039999977, -0.27, 0.32000002, 0.36750004, -0.74249995, -0.22, 0.7375, 0.7225, 0.3425,
                -0.50749993, -0.91999996, -0.1475, 0.2025, 0.1575, 0.014999993, 0.015000001])], CLOSE),
            case("average 3x3 stride 2 padding", node("AveragePool", 9, 1, vec![ints("kernel_shape", &[3, 3]),
                ints("strides", &[2, 2]), ints("pads", &[1, 1, 1, 1])]), vec![f32s(&[1, 2, 5, 6], &[0.5, 1.59,
                1.1, -1.1, -0.8, 1.49, -1.98, 1.28, 1.19, -0.13, -0.79, -0.89, -0.98, -0.22, 0.02, 0.21, 1.98,
                1.17, 0.49, 1.96, -1.14, -1.36, 0.45, -1.82, -1.86, 0.06, -0.14, 1.67, 0.52, 0.06, -0.01,
                -1.01, -1.95, -1.23, 0.77, -1.2, -0.52, -1.99, 1.32, -1.38, -0.93, 1.52, 0.04, 1.39, 0.56,
                0.97, -1.63, 0.16, 0.03, 1.49, -0.55, 0.39, -1.76, -0.45, -0.71, -1.4, 1.27, -0.48, 1.91,
                0.36])], vec![f32s(&[1, 2, 3, 3], &[0.34749997, 0.655, -0.37000003, 0.09166666, 0.20111114,
                -0.1311111, 0.1625, 0.175, -0.08000002, -0.8825, -1.0400001, -0.4083334, 0.07333333,
                0.24444447, -0.3455555, -0.1475, 0.120000005, -0.0050000004])], CLOSE),
            case("average count_include_pad", node("AveragePool", 11, 1, vec![ints("kernel_shape", &[3, 3]),
                ints("strides", &[2, 2]), ints("pads", &[1, 1, 1, 1]), int("count_include_pad", 1)]),
                vec![f32s(&[1, 2, 5, 6], &[0.5, 1.59, 1.1, -1.1, -0.8, 1.49, -1.98, 1.28, 1.19, -0.13, -0.79,
                -0.89, -0.98, -0.22, 0.02, 0.21, 1.98, 1.17, 0.49, 1.96, -1.14, -1.36, 0.45, -1.82, -1.86,
                0.06, -0.14, 1.67, 0.52, 0.06, -0.01, -1.01, -1.95, -1.23, 0.77, -1.2, -0.52, -1.99, 1.32,
                -1.38, -0.93, 1.52, 0.04, 1.39, 0.56, 0.97, -1.63, 0.16, 0.03, 1.49, -0.55, 0.39, -1.76,
                -0.45, -0.71, -1.4, 1.27, -0.48, 1.91, 0.36])], vec![f32s(&[1, 2, 3, 3], &[0.15444443,
                0.43666664, -0.2466667, 0.061111107, 0.20111114, -0.1311111, 0.07222222, 0.11666666,
                -0.05333335, -0.39222223, -0.6933334, -0.27222225, 0.04888889, 0.24444447, -0.3455555,
                -0.06555555, 0.080000006, -0.0033333334])], CLOSE),
            case("average ceil", node("AveragePool", 11, 1, vec![ints("kernel_shape", &[3, 3]),
                ints("strides", &[2, 2]), int("ceil_mode", 1)]), vec![f32s(&[1, 1, 6, 5], &[0.08, 1.03, -1.24,
                -0.94, 0.14, 0.99, 1.59, -1.5, -1.26, 1.2, 0.58, 0.88, 1.99, 1.76, 1.37, 1.11, -0.42, 0.56,
                -1.26, 1.04, 1.03, 0.89, -0.22, -0.49, -0.32, -1.87, 1.38, 0.17, -0.45, 0.19])],
                vec![f32s(&[1, 1, 3, 2], &[0.4888889, 0.16888888, 0.7111111, 0.4922222, 0.23, -0.18666667])],
                CLOSE),
            case("average ceil and count_include_pad", node("AveragePool", 19, 1, vec![ints("kernel_shape",
                &[3, 3]), ints("strides", &[2, 2]), ints("pads", &[1, 1, 1, 1]), int("ceil_mode", 1),
                int("count_include_pad", 1)]), vec![f32s(&[1, 1, 6, 5], &[0.89, -0.47, 1.32, 1.68, -0.45,
                -1.45, 1.04, 1.97, -1.41, 0.85, 1.3, 1.68, -1.51, -1.63, 1.95, -1.53, -1.29, 0.3, -0.21, 1.,
                -1.24, 1.66, -1.13, 1.08, -1.73, -0.11, -1.87, -0.74, -0.75, 0.88])], vec![f32s(&[1, 1, 4, 3],
                &[0.0011110968, 0.4588889, 0.07444445, -0.027777804, -0.11777777, 0.06111111, -0.48666668,
                -0.32777774, 0.03000001, -0.33, -0.56, 0.021666666])], CLOSE),
            case("average same upper", node("AveragePool", 19, 1, vec![ints("kernel_shape", &[3, 3]),
                ints("strides", &[2, 2]), string("auto_pad", "SAME_UPPER")]), vec![f32s(&[1, 2, 5, 6], &[0.5,
                1.59, 1.1, -1.1, -0.8, 1.49, -1.98, 1.28, 1.19, -0.13, -0.79, -0.89, -0.98, -0.22, 0.02, 0.21,
                1.98, 1.17, 0.49, 1.96, -1.14, -1.36, 0.45, -1.82, -1.86, 0.06, -0.14, 1.67, 0.52, 0.06,
                -0.01, -1.01, -1.95, -1.23, 0.77, -1.2, -0.52, -1.99, 1.32, -1.38, -0.93, 1.52, 0.04, 1.39,
                0.56, 0.97, -1.63, 0.16, 0.03, 1.49, -0.55, 0.39, -1.76, -0.45, -0.71, -1.4, 1.27, -0.48,
                1.91, 0.36])], vec![f32s(&[1, 2, 3, 3], &[0.61333334, -0.08833333, -0.2475, 0.06888889,
                0.04777778, 0.01666663, -0.10499999, -1.9868216e-08, -0.19750004, -0.6933333, -0.56666666,
                0.03999996, 0.19666666, -0.3344444, -0.515, 0.021666666, 0.12999998, 0.014999986])], CLOSE),
            case("average dilated", node("AveragePool", 19, 1, vec![ints("kernel_shape", &[3, 2]),
                ints("dilations", &[2, 3]), ints("pads", &[1, 1, 0, 1])]), vec![f32s(&[1, 1, 7, 7], &[-0.18,
                -1.77, 1.98, 1.55, 1.67, -1.01, -0.42, -1.09, -1.5, -1.87, 0.01, -1.51, -1.29, 1.44, -0.06,
                -1.27, 0.68, -0.94, 0.11, -0.87, 0.06, 0.51, 0.14, -0.42, 1.16, 1.49, -1.28, -1.45, -1.55,
                1.92, 1.77, -1.08, 1.88, -1.17, 0.03, -0.01, 1.66, -1.84, -0.74, 0.4, -1.73, -1.05, -0.14,
                1.52, 1.04, 1.32, 1.04, 0.83, 1.4])], vec![f32s(&[1, 1, 4, 6], &[-1.145, 0.14749998,
                -0.34499997, -1.2149999, 0.29000002, -0.00999999, 1.4766668, -0.3766667, 0.42333332,
                0.23000003, -0.13333334, 1.2199999, -1.3766667, -0.02666668, 0.113333344, -1.4050001,
                -0.10499998, 0.12666668, 1.1633333, -0.4083334, 0.8666666, 0.38, 0.13166666, 1.01])], CLOSE),
            case("average dilated count_include_pad", node("AveragePool", 19, 1, vec![ints("kernel_shape",
                &[3, 2]), ints("dilations", &[2, 3]), ints("pads", &[1, 1, 0, 1]), int("count_include_pad",
                1)]), vec![f32s(&[1, 1, 7, 7], &[0.73, 0.94, -0.79, -1.33, 1.03, -1.34, 1.68, 0.39, -0.68,
                1.75, -1.38, 0.06, -1.63, 1.86, 0.3, 1.21, -0.87, 1.21, 0.81, 0.57, 1.8, -0.27, -0.34, 0.77,
                1.34, -0.66, 0.68, -1.16, 0.21, 1.08, -1.74, 0.91, -1.94, 1.83, -0.13, -0.36, 0.88, 0.09,
                0.92, -1.66, 0.25, 0.23, 1.73, -1.84, -0.19, 0.52, 0.2, -1.7, 0.37])], vec![f32s(&[1, 1, 4,
                6], &[0.42, 0.01333334, -0.27, 0.26166666, 0.110000014, -0.1, -0.56666666, 0.33833334,
                0.5216667, -0.39000002, 0.69, -0.01666669, 0.43499997, 0.10666668, -0.4, 0.31833333,
                0.3016667, -0.37666667, -0.4666667, 0.81333333, -0.080000035, -0.35, 0.78, -0.15500002])],
                CLOSE),
            // In f64, rounded once (numpy).
            case("average f16", node("AveragePool", 11, 1, vec![ints("kernel_shape", &[2, 2]), ints("strides",
                &[2, 2])]), vec![f16s(&[1, 1, 2, 4], &[-1.11, -1.22, 1.51, -1.21, -0.18, 1., 0.83, 0.21])],
                vec![f16s(&[1, 1, 1, 2], &[-0.3774, 0.335])], EXACT),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inside_is_what_the_definition_says() {
        for (outputs, stride, shift, pad, input) in (0..6usize).flat_map(|o| {
            (1..4usize).flat_map(move |s| {
                (0..5usize).flat_map(move |k| {
                    (0..4usize).flat_map(move |p| (0..6usize).map(move |i| (o, s, k, p, i)))
                })
            })
        }) {
            let want: Vec<usize> =
                (0..outputs).filter(|o| (pad..input + pad).contains(&(o * stride + shift))).collect();
            let got: Vec<usize> = inside(outputs, stride, shift, pad, input).collect();
            assert_eq!(got, want, "{outputs} {stride} {shift} {pad} {input}");
        }
    }
}
