use super::window::{AutoPad, Window};
use super::{Case, Fact, Op, Operator, OutFact, Tolerance, required};
use crate::graph::Activation;
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{DType, Shape, Tensor, View, ViewMut};

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
/// set; always input 3). All f32, or all f16 (computed in f32, rounded once).
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
        let x = required(inputs, 0, "x")?;
        let w = required(inputs, 1, "weights")?;
        let bias = inputs.get(2).copied().flatten();
        let residual = inputs.get(3).copied().flatten();
        let window = self.window_for(w.shape())?;
        let (h, width) = (x.shape()[2], x.shape()[3]);
        let pads = window.pads_for([h, width]);
        let (in_c, per_group) = (w.shape()[1], w.shape()[0] / self.group);
        let y = &mut outputs[0];
        for index in y.shape().indices() {
            let [n, o, oy, ox, ..] = index;
            let first = o / per_group * in_c;
            let mut sum = 0f64;
            for ky in 0..window.kernel[0] {
                let iy = (oy * window.stride[0] + ky * window.dilation[0]).wrapping_sub(pads[0]);
                for kx in 0..window.kernel[1] {
                    let ix = (ox * window.stride[1] + kx * window.dilation[1]).wrapping_sub(pads[1]);
                    if iy < h && ix < width {
                        for c in 0..in_c {
                            sum += x.get_f64(&[n, first + c, iy, ix]) * w.get_f64(&[o, c, ky, kx]);
                        }
                    }
                }
            }
            let mut v = (sum + bias.map_or(0.0, |b| b.get_f64(&[o]))) as f32;
            let r = residual.map_or(0.0, |r| r.get_f64(&index) as f32);
            if self.residual == Residual::BeforeActivation {
                v += r;
            }
            v = self.activation.apply(v);
            if self.residual == Residual::AfterActivation {
                v += r;
            }
            y.set_f64(&index, v as f64);
        }
        Ok(())
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
        super::built(build)
    }
}
