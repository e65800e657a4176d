use super::elementwise::floats;
use super::literal::*;
use super::pool::inside;
use super::window::{AutoPad, Window};
use super::{Case, Fact, Op, Operator, OutFact, Tolerance, required};
use crate::graph::Activation;
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{DType, Element, Shape, Tensor, View, ViewMut};

/// Where a fused residual is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residual {
    /// There is none.
    None,
    /// act(conv(x) + residual).
    BeforeActivation,
    /// act(conv(x)) + residual.
    AfterActivation,
}

/// 2-D convolution, [ONNX Conv](https://onnx.ai/onnx/operators/onnx__Conv.html), with a fused epilogue.
///
/// Inputs: x `[N,C,H,W]`, weights `[O,C/group,kh,kw]`, bias `[O]` (optional), residual `[N,O,OH,OW]` (only if `residual` is
/// set; always input 3). All f32, or all f16. Sums are f64, rounded to f32 before the epilogue.
#[derive(Clone, Debug, PartialEq)]
pub struct Conv {
    /// Kernel, stride, dilation, padding; the kernel is 0x0 if the file leaves it to the weights.
    pub window: Window,
    /// Groups the channels are split into.
    pub group: usize,
    /// Fused activation.
    pub activation: Activation,
    /// Fused residual.
    pub residual: Residual,
}

impl Conv {
    /// The window with the kernel size of these weights filled in. Errors if the file says another.
    pub fn window_for(&self, weights: &Shape) -> Result<Window> {
        let &[_, _, kh, kw] = weights.dims() else {
            return Err(Error::shape(format!("weights are {weights}, rank 4 expected (2-D convolution)")));
        };
        if self.window.kernel != [0, 0] && self.window.kernel != [kh, kw] {
            return Err(Error::shape(format!(
                "kernel_shape {:?} disagrees with weights {weights}",
                self.window.kernel
            )));
        }
        Ok(Window { kernel: [kh, kw], ..self.window })
    }
}

/// Output columns that are summed together.
const TILE: usize = 64;

impl Conv {
    fn convolve<T: Element>(
        &self,
        x: &View<'_>,
        w: &View<'_>,
        bias: Option<View<'_>>,
        residual: Option<View<'_>>,
        y: &mut ViewMut<'_>,
    ) -> Result<()> {
        let window = self.window_for(w.shape())?;
        let (h, width) = (x.shape()[2], x.shape()[3]);
        let pads = window.pads_for([h, width]);
        let (in_c, per_group) = (w.shape()[1], (w.shape()[0] / self.group).max(1));
        let [sy, sx] = window.stride;
        let out = *y.shape();
        for index in Shape::new(&out[..3])?.indices() {
            let [n, o, oy, ..] = index;
            let first = o / per_group * in_c;
            let b = bias.map_or(0.0, |b| b.get::<T>(&[o]).to_f64());
            for from in (0..out[3]).step_by(TILE) {
                let count = TILE.min(out[3] - from);
                // Products of two f32 are exact in f64 and the sum is rounded once, so the order does not matter.
                let mut sums = [b; TILE];
                for ky in 0..window.kernel[0] {
                    let iy = (oy * sy + ky * window.dilation[0]).wrapping_sub(pads[0]);
                    if iy >= h {
                        continue;
                    }
                    for kx in 0..window.kernel[1] {
                        let shift = kx * window.dilation[1];
                        let range = inside(out[3], sx, shift, pads[1], width);
                        let (start, end) = (range.start.max(from), range.end.min(from + count));
                        if start >= end {
                            continue;
                        }
                        let ix = start * sx + shift - pads[1];
                        let sums = &mut sums[start - from..end - from];
                        for c in 0..in_c {
                            let k = w.get::<T>(&[o, c, ky, kx]).to_f64();
                            match x.row::<T>(&[n, first + c, iy, 0]) {
                                Some(row) if sx == 1 => {
                                    sums.iter_mut().zip(&row[ix..]).for_each(|(s, v)| *s += k * v.to_f64());
                                }
                                Some(row) => {
                                    let row = row[ix..].iter().step_by(sx);
                                    sums.iter_mut().zip(row).for_each(|(s, v)| *s += k * v.to_f64());
                                }
                                None => {
                                    for (i, s) in sums.iter_mut().enumerate() {
                                        *s += k * x.get::<T>(&[n, first + c, iy, ix + i * sx]).to_f64();
                                    }
                                }
                            }
                        }
                    }
                }
                for (j, &sum) in sums[..count].iter().enumerate() {
                    let at = [n, o, oy, from + j];
                    let r = residual.map_or(0.0, |r| r.get::<T>(&at).to_f64() as f32);
                    let mut v = sum as f32;
                    if self.residual == Residual::BeforeActivation {
                        v += r;
                    }
                    v = self.activation.apply(v);
                    if self.residual == Residual::AfterActivation {
                        v += r;
                    }
                    y.set(&at, T::from_f64(v as f64));
                }
            }
        }
        Ok(())
    }
}

impl Operator for Conv {
    fn parse(node: &NodeInfo) -> Result<Self> {
        let group = node.int("group")?.unwrap_or(1);
        if !(1..=1 << 24).contains(&group) {
            return Err(Error::unsupported(format!("group is {group}, a positive number expected")));
        }
        Ok(Conv {
            window: Window::parse(node)?,
            group: group as usize,
            activation: Activation::None,
            residual: Residual::None,
        })
    }

    fn name(&self) -> &str {
        "Conv"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let w = required(inputs, 1, "weights")?;
        let &[n, c, h, width] = x.shape.dims() else {
            return Err(Error::shape(format!("x is {}, rank 4 expected (2-D convolution)", x.shape)));
        };
        let window = self.window_for(&w.shape)?;
        let (out_c, in_c) = (w.shape[0], w.shape[1]);
        if in_c * self.group != c || !out_c.is_multiple_of(self.group) {
            return Err(Error::shape(format!(
                "{c} input channels and weights {} do not fit group {}",
                w.shape, self.group
            )));
        }
        if x.dtype != w.dtype || !matches!(x.dtype, DType::F32 | DType::F16) {
            return Err(Error::shape(format!(
                "x is {} and weights are {}, both f32 or f16 expected",
                x.dtype, w.dtype
            )));
        }
        if let Some(b) = inputs.get(2).copied().flatten()
            && (b.shape.dims() != [out_c] || b.dtype != x.dtype)
        {
            return Err(Error::shape(format!(
                "bias is {} {}, {} [{out_c}] expected",
                b.dtype, b.shape, x.dtype
            )));
        }
        let [oh, ow] = window.output([h, width])?;
        let shape = Shape::new(&[n, out_c, oh, ow])?;
        if self.residual != Residual::None {
            let r = required(inputs, 3, "residual")?;
            if r.shape != shape || r.dtype != x.dtype {
                return Err(Error::shape(format!("residual is {}, {shape} expected", r.shape)));
            }
        }
        Ok(vec![OutFact { dtype: x.dtype, shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = &required(inputs, 0, "x")?;
        let w = &required(inputs, 1, "weights")?;
        let bias = inputs.get(2).copied().flatten();
        let residual = inputs.get(3).copied().flatten();
        let y = &mut outputs[0];
        floats!(x.dtype(), T => self.convolve::<T>(x, w, bias, residual, y), {
            Err(Error::shape("f32 or f16 expected"))
        })
    }

    fn cases() -> Vec<Case> {
        let plain = |window: Window| Conv {
            window,
            group: 1,
            activation: Activation::None,
            residual: Residual::None,
        };
        let window = Window {
            kernel: [3, 3],
            stride: [1, 1],
            dilation: [1, 1],
            pads: [1; 4],
            auto_pad: AutoPad::Explicit,
            ceil_mode: false,
        };
        let tensor = |dims: &[usize], data: &[f32]| Tensor::from_slice(dims, data);
        let ramp: Vec<f32> = (0..25).map(|i| i as f32).collect();
        let build = || -> std::result::Result<Vec<Case>, saltica_tensor::Error> {
            Ok(vec![
                Case {
                    // The ONNX text's `test_basic_conv_with_padding`.
                    name: "3x3 ones, padding 1".into(),
                    op: Op::Conv(plain(window)),
                    inputs: vec![
                        Some(tensor(&[1, 1, 5, 5], &ramp)?),
                        Some(tensor(&[1, 1, 3, 3], &[1.0; 9])?),
                    ],
                    expected: vec![tensor(
                        &[1, 1, 5, 5],
                        &[
                            12., 21., 27., 33., 24., 33., 54., 63., 72., 51., 63., 99., 108., 117., 81., 93.,
                            144., 153., 162., 111., 72., 111., 117., 123., 84.,
                        ],
                    )?],
                    tolerance: Tolerance::Exact,
                },
                Case {
                    // By hand: two depthwise 1x1 channels, bias, residual after relu.
                    name: "depthwise 1x1, bias, relu, residual after".into(),
                    op: Op::Conv(Conv {
                        window: Window { kernel: [1, 1], pads: [0; 4], ..window },
                        group: 2,
                        activation: Activation::Relu,
                        residual: Residual::AfterActivation,
                    }),
                    inputs: vec![
                        Some(tensor(&[1, 2, 1, 2], &[1., -2., 3., 4.])?),
                        Some(tensor(&[2, 1, 1, 1], &[2., -1.])?),
                        Some(tensor(&[2], &[0.5, 3.5])?),
                        Some(tensor(&[1, 2, 1, 2], &[10., 20., 30., 40.])?),
                    ],
                    expected: vec![tensor(&[1, 2, 1, 2], &[12.5, 20., 30.5, 40.])?],
                    tolerance: Tolerance::Exact,
                },
            ])
        };
        let mut cases = super::built(build);
        cases.extend(peer_cases());
        cases
    }
}

#[rustfmt::skip] // tables of numbers
fn peer_cases() -> Vec<Case> {
    // Expected values: onnxruntime 1.32, where nothing else is said.
    vec![
            case("3x3 padding 1, bias", node("Conv", 11, 3, vec![ints("kernel_shape", &[3, 3]), ints("pads",
                &[1, 1, 1, 1]), ints("strides", &[1, 1]), ints("dilations", &[1, 1]), int("group", 1)]),
                vec![f32s(&[1, 3, 5, 5], &[0.5, 1.59, 1.1, -1.1, -0.8, 1.49, -1.98, 1.28, 1.19, -0.13, -0.79,
                -0.89, -0.98, -0.22, 0.02, 0.21, 1.98, 1.17, 0.49, 1.96, -1.14, -1.36, 0.45, -1.82, -1.86,
                0.06, -0.14, 1.67, 0.52, 0.06, -0.01, -1.01, -1.95, -1.23, 0.77, -1.2, -0.52, -1.99, 1.32,
                -1.38, -0.93, 1.52, 0.04, 1.39, 0.56, 0.97, -1.63, 0.16, 0.03, 1.49, -0.55, 0.39, -1.76,
                -0.45, -0.71, -1.4, 1.27, -0.48, 1.91, 0.36, 0.42, 0.55, 0.71, -1.4, -0.24, -1.04, -0.39,
                -1.61, 1.87, -1.14, 0.69, -0.8, 1.5, 0.65, -1.47]), f32s(&[2, 3, 3, 3], &[1.38, 1.78, 1.62,
                0.28, -1.42, -1.23, 1.71, 0.21, -1.28, 1.54, 0.57, 0.28, -0.49, -0.36, -1.04, -1.85, 1.5,
                -0.13, 0.19, -0.71, 1.01, -1.9, -0.51, -1.88, -1.51, 1.87, 0.63, -0.29, 0.09, 1.49, -0.62,
                0.36, 0.73, -0.58, 0.08, 1.06, 1.64, -1.4, 1.73, -1.98, 1.01, 1.24, -1.45, -0.32, 1.26, -1.94,
                0.51, 1.17, 0.05, 0.9, -1.09, -1.21, -0.55, -1.28]), f32s(&[2], &[-0.62, 1.79])],
                vec![f32s(&[1, 2, 5, 5], &[-2.4687, 1.7855002, -7.6033998, 14.8652, 4.3759007, 3.6979995,
                12.225899, -7.6427994, -1.2638998, -8.496501, -3.5194998, 2.974701, 1.4179002, 6.9893003,
                -3.4522996, -2.8017, -14.964699, -5.4234996, -3.4287996, -11.2914, 8.991099, 0.26879984,
                12.161001, 6.2092013, 8.264699, -2.0069997, 6.7327, 1.2652999, 0.17769957, -1.1190999,
                -2.9748998, 0.3207003, -1.4534001, 10.579201, 6.6475, 0.39969933, 8.2154, 3.5746999, 10.6769,
                -13.2914, 0.7340003, 0.33850002, -1.1383998, -3.0742993, 6.2372003, 6.7523, -5.1417, 12.7204,
                7.7783003, -0.27550006])], CLOSE),
            case("3x3 stride 2, end padding", node("Conv", 11, 2, vec![ints("pads", &[0, 0, 1, 1]),
                ints("strides", &[2, 2])]), vec![f32s(&[1, 2, 6, 6], &[0.29, -0.64, -0.91, 1.81, -0.22, 1.92,
                0.06, 0.08, 1.59, 0.97, 0.32, -0.29, 1.51, -0.35, 1.69, -1.73, -0.28, 0.08, 1.8, -1., 1.22,
                0.71, 0.87, 0.52, 1.89, -0.67, -0.41, -1.19, -1.8, -1.15, 1.66, 1.36, -1.55, 0.42, -0.08,
                0.38, 0.64, -0.77, 1.85, -0.14, 0.51, 0.54, -1.26, -1.75, -0.35, 1.06, 1.26, 0.92, -1.55,
                1.65, 1.21, 1.51, 0.09, 1.66, -1.81, -1.88, -1.92, -0.99, -1.01, -1.25, 0.27, -1.84, 0.36,
                -1.34, 0.71, -1.92, -0.76, 1.75, 0.15, 1.25, 0.63, 0.44]), f32s(&[2, 2, 3, 3], &[-1.23, 0.3,
                -1.84, 1.21, 1.84, 1.42, -1.8, -0.65, -0.73, -1.55, 0.51, 1.19, -0.75, 1.45, 1.19, -1.48,
                1.07, 1.53, -1.21, 0.29, 0.55, 0.44, -1.62, 0.64, 0.53, 1.3, 1.21, -0.69, 0.89, 1.47, 1.57,
                -1.35, -1.89, 0.6, -1.14, 0.25])], vec![f32s(&[1, 2, 3, 3], &[4.5977, 5.4466004, 2.6691003,
                -6.455701, 1.6849993, 2.9123, 2.8962004, 4.2962003, 0.55720013, 2.3975, -6.8403, 0.4156998,
                11.819699, -3.9061005, 1.5853, -10.3054, -5.2925997, -0.6099])], CLOSE),
            case("6x6 stride 2 padding 2", node("Conv", 11, 2, vec![ints("pads", &[2, 2, 2, 2]),
                ints("strides", &[2, 2])]), vec![f32s(&[1, 1, 8, 8], &[1.78, -0.48, -0.99, -0.17, 0.63, -1.6,
                -0.48, -1.47, 0.65, 1.32, -0.49, -0.51, 0.16, -1.14, -1.01, -0.68, -0.17, -1.67, 1.01, 0.32,
                -0.8, -1.69, 1.05, -1.48, -1.47, -1.48, -1.67, 1.63, -0.92, -0.77, 1.33, 0.48, -1.25, -0.26,
                1.54, -0.5, 0.84, -1.61, 0.91, 1.11, 1.3, 0.7, -0.52, -1.74, 0.08, 1.03, -1.24, -0.94, 0.14,
                0.99, 1.59, -1.5, -1.26, 1.2, 0.58, 0.88, 1.99, 1.76, 1.37, 1.11, -0.42, 0.56, -1.26, 1.04]),
                f32s(&[2, 1, 6, 6], &[1.03, 0.89, -0.22, -0.49, -0.32, -1.87, 1.38, 0.17, -0.45, 0.19, 0.89,
                -0.47, 1.32, 1.68, -0.45, -1.45, 1.04, 1.97, -1.41, 0.85, 1.3, 1.68, -1.51, -1.63, 1.95,
                -1.53, -1.29, 0.3, -0.21, 1., -1.24, 1.66, -1.13, 1.08, -1.73, -0.11, -1.87, -0.74, -0.75,
                0.88, -0.18, -1.77, 1.98, 1.55, 1.67, -1.01, -0.42, -1.09, -1.5, -1.87, 0.01, -1.51, -1.29,
                1.44, -0.06, -1.27, 0.68, -0.94, 0.11, -0.87, 0.06, 0.51, 0.14, -0.42, 1.16, 1.49, -1.28,
                -1.45, -1.55, 1.92, 1.77, -1.08])], vec![f32s(&[1, 2, 4, 4], &[5.763, 4.2512, 1.1680001,
                -5.0535994, 0.9755003, -5.6185, 6.211001, 6.6164994, 1.5478996, -12.798301, 26.162401,
                -10.565001, -0.38650006, 8.9511, -1.7804999, -0.6537005, -1.5875001, -0.5542008, 6.4573994,
                6.6654, 0.96680003, -1.4759002, 5.6133003, 2.1258998, -4.0356007, -9.7911, -4.0614, 2.1125,
                -1.9253004, 7.5983, -14.005901, -3.649])], CLOSE),
            case("dilation 6", node("Conv", 11, 2, vec![ints("pads", &[6, 6, 6, 6]), ints("dilations", &[6,
                6])]), vec![f32s(&[1, 1, 7, 7], &[1.88, -1.17, 0.03, -0.01, 1.66, -1.84, -0.74, 0.4, -1.73,
                -1.05, -0.14, 1.52, 1.04, 1.32, 1.04, 0.83, 1.4, 0.73, 0.94, -0.79, -1.33, 1.03, -1.34, 1.68,
                0.39, -0.68, 1.75, -1.38, 0.06, -1.63, 1.86, 0.3, 1.21, -0.87, 1.21, 0.81, 0.57, 1.8, -0.27,
                -0.34, 0.77, 1.34, -0.66, 0.68, -1.16, 0.21, 1.08, -1.74, 0.91]), f32s(&[1, 1, 3, 3], &[-1.94,
                1.83, -0.13, -0.36, 0.88, 0.09, 0.92, -1.66, 0.25])], vec![f32s(&[1, 1, 7, 7], &[2.9109,
                -2.1584, 1.9519999, -0.35739997, -0.33200014, 1.2691998, -3.4458, 0.4708, -1.5224,
                -0.92399997, -0.1232, 1.3376, 0.91519994, 1.0175999, 0.7954999, 0.73039997, 1.232, 0.6424,
                0.8272, -0.6952, -1.5448, 0.7822, -1.1792, 1.4784, 0.3432, -0.5984, 1.54, -1.5852, 0.16170001,
                -1.4344, 1.6368, 0.264, 1.0648, -0.7656, 1.0432, 0.8334, 0.50159997, 1.584, -0.23760001,
                -0.2992, 0.67759997, 0.88760006, 3.0377002, -1.5426999, -0.9659, 0.1665, 3.9882002,
                -4.8984003, -3.963])], CLOSE),
            case("groups of 2", node("Conv", 11, 2, vec![int("group", 2), ints("pads", &[0, 0, 1, 1])]),
                vec![f32s(&[2, 4, 3, 3], &[0.23, 1.73, -1.84, -0.19, 0.52, 0.2, -1.7, 0.37, -1.11, -1.22,
                1.51, -1.21, -0.18, 1., 0.83, 0.21, 1.23, -0.14, 0.48, 1.28, 0.71, 0.57, -0.38, 0.23, -0.42,
                0.98, -0.48, -0.13, 1.02, 0.01, -0.65, 1.31, -0.48, 1.38, 1.14, -0.21, 0.85, -1.86, -0.44,
                1.44, 0.32, 0.23, 0.66, 0.71, 0.33, -0.32, -1.27, -0.83, -0.83, -0.28, 2., -0.59, -0.21,
                -0.51, 0.33, 1.79, 1.56, -0.49, -0.93, 1.54, -0.02, 0.74, -1.71, 1.47, -0.75, -0.02, -1.21,
                -0.32, 1.31, 1.31, -0.11, 1.07]), f32s(&[4, 2, 2, 2], &[-0.17, -0.51, 0.18, -1.19, -0.73,
                0.83, 1.08, -1.77, 0.93, 1.27, -0.22, -1.75, 0.73, -1.02, 0.57, -0.49, 0.55, -0.97, -0.09,
                0.1, 0.52, -1.19, 1.85, -0.84, -0.78, -0.97, -1.73, -0.31, 1.09, 0.84, -1.22, -1.45])],
                vec![f32s(&[2, 4, 3, 3], &[-1.3949001, -1.9958, 2.1285002, -1.9681001, 2.7322001, -0.9909,
                0.9679, -0.5109, 0.29090002, -1.4805999, 1.3075002, -2.1654, -1.4242, 3.2518, 0.9563,
                -2.2124002, -0.02490001, -1.1345, -4.6512, 3.4176998, -0.513, 0.51640004, 2.9694998,
                -0.46839997, -1.8206002, 1.8473, -0.3732, -2.8757002, -0.8829999, -0.35519996, -2.5979002,
                -1.5349001, 0.384, 1.8388, 0.7674, 0.14549999, -0.5388, -3.2797, 2.8821, -1.0261002, 2.1037,
                -1.9905, -0.2179, -0.559, 0.3162, -1.7225999, -3.9815998, 0.07429993, -0.19579998, -2.2582,
                1.3106, 1.299, 1.4462999, -0.06539998, -1.9165001, -2.3495998, 3.1325, 2.9759, -5.0705,
                3.6616, 0.08329989, 0.7352, -0.38410002, 2.0548003, -4.1212997, -5.501, -1.9369, -2.1842,
                1.8796, 0.6332999, 1.8604001, 2.5001001])], CLOSE),
            case("depthwise 5x5", node("Conv", 11, 2, vec![int("group", 3), ints("pads", &[2, 2, 2, 2])]),
                vec![f32s(&[1, 3, 4, 4], &[-0.71, 1.07, -0.05, 1.69, 0.63, 0.48, 1.07, 1., -0.62, -0.97,
                -0.25, -0.04, -1.43, -0.23, 0.56, -1.46, -1.45, -1.31, -0.87, 1.85, -1.9, -1.27, -1.34, -0.1,
                -1.94, -0.17, -1.35, -0.92, 1.17, -1.26, 0.47, -0.37, -0.33, 1.27, -1.36, 1.7, 1.57, 0.67,
                -1.8, 0.65, 0.4, 1.09, -1.14, 1.81, 1.54, -1.54, -0.74, -1.87]), f32s(&[3, 1, 5, 5], &[1.32,
                1.66, 1.96, 0.45, 0.66, 0.71, 0.28, 1.81, 0.43, -0.66, 0.05, -1.93, 0.9, 0.78, -0.32, 1.41,
                1.02, -0.65, -1.69, -1.47, -1.26, -0.78, -0.21, 1.71, -0.89, 1.59, 0.72, 1.41, -0.39, -1.99,
                1.15, -1.02, -1.43, 1.2, 0.75, -1.15, -0.93, 1.76, -0.93, 0.81, -1.48, 1.26, -1.53, 0.06,
                -1.86, 0.2, 1.39, -1.66, -0.9, 1.06, 0.43, -0.75, 0.52, -0.18, 1.45, -0.83, 1.03, 0.54, 0.96,
                -0.49, 0.9, 0.79, -0.45, -1.89, 1.85, 0.85, -1.18, 0.92, -0.89, -0.12, 1.44, -0.21, -0.85,
                -0.78, -1.69])], vec![f32s(&[1, 3, 4, 4], &[-3.8880002, -0.8988001, -0.3131001, 4.2148,
                1.6254003, 4.2318, -0.9867001, 1.2264003, -1.0422003, 2.8889003, 5.8873005, 8.6861,
                -0.8628998, 4.5745997, 2.7317002, 1.1324002, 5.2272005, -1.1693997, 5.3348, 5.5325003,
                1.7596995, 6.7414, 6.9361987, 0.23980033, -6.7040005, 1.9714994, -7.4820995, 2.8034, 5.6523,
                -6.5677, -6.0193, -0.2673003, -2.9673004, 1.9907992, -3.6809998, 2.8656, -2.9179003, 9.8019,
                5.0261, 0.8158001, -1.4721005, 6.5277004, -0.6457, -2.4993, 0.7553998, -0.69459987, 5.069,
                -0.25449985])], CLOSE),
            case("patches of 2x2", node("Conv", 11, 2, vec![ints("strides", &[2, 2]), ints("kernel_shape",
                &[2, 2])]), vec![f32s(&[1, 3, 4, 4], &[-1.12, -0.92, -1.31, -1.75, -0.14, -1.14, 0.96, 1.69,
                -0.91, 0.29, 0.03, -1.7, -1.5, 1.54, -0.1, 1.22, -1.73, 0.38, 1.46, 1.47, -1.98, 0.09, -0.52,
                1.04, -1.71, -0.94, 1.25, -0.12, -0.19, 1.87, -0.72, -1.83, -0.43, -1.39, -1.67, 0.27, 1.81,
                0.32, 0.59, -0.71, 0.28, 1.01, 0.36, 1.21, 0.2, -1.21, 0.33, -0.04]), f32s(&[2, 3, 2, 2],
                &[-1.34, 0.48, 1.27, -1.46, 0.18, 0.93, -0.39, -0.92, -0.51, 0.17, 0.75, 0.24, -1.57, 1.27,
                1.7, -1.59, -1., -1.31, 1.4, 1.64, -1.82, -0.67, -1.23, -0.12])], vec![f32s(&[1, 2, 2, 2],
                &[4.6945, 1.7127998, -5.7346, -0.4265999, 0.22160026, -1.4110005, 1.2534999, -11.284901])],
                CLOSE),
            case("same upper", node("Conv", 11, 2, vec![ints("strides", &[2, 2]), string("auto_pad",
                "SAME_UPPER")]), vec![f32s(&[1, 1, 5, 4], &[1.69, -1.72, -1.31, -0.05, 0.1, 0.98, -0.25,
                -1.44, -0.59, 1.93, 1., -1.53, 1.23, -0.76, 1.13, -1.95, 1.49, -1.35, -0.18, 0.65]), f32s(&[1,
                1, 3, 2], &[0.03, -1.34, -1.44, -0.86, -1.79, -1.13])], vec![f32s(&[1, 1, 3, 2], &[-2.2408004,
                4.0041, -3.4633, 1.9787002, 0.07069993, 2.3471003])], CLOSE),
            case("same lower, opset 9", node("Conv", 9, 2, vec![string("auto_pad", "SAME_LOWER")]),
                vec![f32s(&[1, 1, 5, 4], &[-1.48, -0.14, -0.57, 0.35, -0.88, -1.86, -0.68, 1.02, -0.98, -0.38,
                1.02, -0.37, 1.55, 1.67, -0.76, 0.94, -0.99, -1.44, -0.25, 0.41]), f32s(&[1, 1, 2, 2], &[1.74,
                -1.42, 0.85, -0.1])], vec![f32s(&[1, 1, 5, 4], &[0.148, -1.244, -0.062000003, -0.5195, 2.1896,
                -2.9384, -0.9472001, -2.1688, 1.3476, 0.3149997, -2.6958, -1.7275999, 1.2366, -0.015100062,
                -0.61409986, 1.5602, -2.102, -0.3718999, 2.7859998, -2.9106998])], CLOSE),
            case("valid", node("Conv", 11, 2, vec![string("auto_pad", "VALID")]), vec![f32s(&[1, 1, 4, 4],
                &[-1.47, 1.89, 0.78, -1.48, 1.62, -1.59, -1.63, -0.67, 1.75, -1.87, 1.67, 0.45, -1.73, 0.27,
                -0.16, 0.26]), f32s(&[1, 1, 3, 3], &[0.95, 0.71, 1.99, -1.37, 1.25, -0.36, 1.13, 1.57,
                1.97])], vec![f32s(&[1, 1, 2, 2], &[0.20899987, 1.1814002, -10.016, 1.0523998])], CLOSE),
            case("uneven pads", node("Conv", 11, 2, vec![ints("pads", &[1, 2, 0, 1])]), vec![f32s(&[1, 1, 3,
                4], &[-0.94, -0.19, 1.77, 1.78, -0.51, 1.76, -0.38, -0.5, 1.03, -0.12, -0.21, -0.46]),
                f32s(&[1, 1, 3, 3], &[-0.27, -1.44, -1.76, 1.02, 0.26, 0.69, 1.21, -1.08, -1.06])],
                vec![f32s(&[1, 1, 2, 5], &[-0.10800004, -1.6902999, -1.9020001, 4.5646, 2.3483999, 0.21070015,
                1.7845999, -1.3141, -3.7096996, -3.316])], CLOSE),
            case("a row longer than a tile", node("Conv", 11, 2, vec![ints("pads", &[0, 1, 0, 1])]),
                vec![f32s(&[1, 1, 1, 70], &[-0.9, -0.8, 1., -0.5, -0.7, 0.5, -1.3, -1.6, 0.8, 1., -0.8, 0.5,
                -1.9, -0.4, 0.3, -1., -0.6, 0.4, 0.4, -1.4, 0.8, -1.7, 1.9, -1.2, -1., -1.2, 2., -0.9, 0.4,
                2., 1.8, -1.8, 0.1, 0.4, 0.8, -0.7, -0.7, -2., -1.9, 0.2, -1.7, -1.2, -0.7, -1.7, -1.9, 1.7,
                -0.3, -1.2, 0.8, -2., -1., 1.8, 1.6, 0.5, -1.6, -0.7, -1.9, -1.1, -1.9, -1.5, 0.5, -1.6, -1.4,
                1.6, -0.7, -0.7, -1.7, 1.2, 0.7, 0.2]), f32s(&[1, 1, 1, 3], &[0.5, -1.6, -1.])],
                vec![f32s(&[1, 1, 1, 70], &[2.24, -0.1699999, -1.5, 2., 0.37, 0.14999998, 3.9299998,
                1.1100001, -3.0800002, -0.40000004, 1.2800001, 0.6999999, 3.69, -0.60999995, 0.32, 2.35,
                0.060000032, -1.34, 0.9599999, 1.6400001, -0.27999997, 1.2200001, -2.6899998, 3.8700001, 2.2,
                -0.5799999, -2.9, 2.04, -3.0900002, -4.8, -0.07999992, 3.6799998, -1.4599999, -1.3900001,
                -0.38000005, 2.22, 2.77, 4.75, 1.8399999, 0.43000007, 4.02, 1.77, 2.22, 4.27, 0.49,
                -3.3700001, 2.5300002, 0.9700001, 0.119999886, 4.6000004, -1.1999999, -4.98, -2.1600003, 1.6,
                3.5100002, 2.22, 3.79, 2.71, 3.99, 0.95000005, 0.05000007, 4.21, -0.15999997, -2.5600002,
                2.6200001, 2.47, 1.1700001, -3.47, -0.71999997, 0.029999971])], CLOSE),
            // In f32, rounded once.
            case("f16", node("Conv", 11, 3, vec![]), vec![f16s(&[1, 2, 3, 3], &[0.33, 1.81, 1.27, 0.56, 0.08,
                -1.94, 1.56, -1.73, -1.48, 0.77, 1.25, 1.15, -0.19, -1.29, -1.86, 1.41, 1.91, -1.02]),
                f16s(&[2, 2, 2, 2], &[1.46, -0.39, -0.75, 0.02, -1.97, -0.23, -1.2, 0.85, 0.01, 1.48, 1.59,
                -0.73, -0.88, 1.76, 0.02, -1.61]), f16s(&[2], &[-1.82, 1.96])], vec![f16s(&[1, 2, 2, 2],
                &[-5.137, -2.531, -1.636, 0.1309, 9.07, 9.3, 0.676, -3.041])], CLOSE_F16),
    ]
}
