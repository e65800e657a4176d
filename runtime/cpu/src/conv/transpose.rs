//! Transposed convolution as one ordinary convolution for each remainder of an output position by the stride: the outputs of
//! a phase are met by every stride-th row and column of the kernel, and written to every stride-th place.

use super::PackedConv;
use crate::pool::Pool;
use crate::{Error, Isa, Result};
use saltica_models::graph::Activation;
use saltica_models::graph::ops::window::{AutoPad, Window};
use saltica_models::graph::ops::{Conv, ConvTranspose, Residual};
use saltica_tensor::{Layout, Tensor, View, ViewMut};

/// A transposed convolution whose weights lie in the order its kernels read them, for one size of input and output.
pub struct PackedConvTranspose {
    stride: [usize; 2],
    phases: Vec<Phase>,
}

struct Phase {
    /// First row and column of the output.
    at: [usize; 2],
    /// Rows and columns of the output.
    size: [usize; 2],
    conv: PackedConv,
}

/// The part of an axis that a phase covers.
struct Part {
    /// First tap of the kernel; the others follow in steps of the stride.
    first: usize,
    taps: usize,
    /// Padding before and after the input.
    pads: [usize; 2],
    /// Outputs.
    size: usize,
}

/// The part of phase `q` of an axis with these sizes; `None` if no ordinary convolution computes it.
fn part(q: usize, stride: usize, kernel: usize, pad: usize, input: usize, output: usize) -> Option<Part> {
    // Output q + stride * o is reached from input o + shift - t by tap first + stride * t.
    let first = (q + pad) % stride;
    let shift = (q + pad - first) / stride;
    let taps = kernel.checked_sub(first)?.div_ceil(stride);
    let before = taps.checked_sub(1)?.checked_sub(shift)?;
    let size = output.checked_sub(q)?.div_ceil(stride);
    let after = (size + taps - 1).checked_sub(input + before)?;
    Some(Part { first, taps, pads: [before, after], size })
}

impl PackedConvTranspose {
    /// Packs weights `[C, O/group, kh, kw]` and a bias `[O]`, both f32, for inputs and outputs of these heights and widths;
    /// `None` if the op is dilated, its padding is not explicit, or a phase is no ordinary convolution. Errors if the weights
    /// do not fit the op.
    pub fn new(
        isa: Isa,
        op: &ConvTranspose,
        weights: &Tensor,
        bias: Option<&Tensor>,
        input: [usize; 2],
        output: [usize; 2],
    ) -> Result<Option<Self>> {
        let &[c, per_group, kh, kw] = weights.shape().dims() else {
            return Err(Error::shape(format!("weights are {}, rank 4 expected", weights.shape())));
        };
        let window = &op.window;
        if op.group == 0 || !c.is_multiple_of(op.group) || window.stride.contains(&0) {
            return Err(Error::shape(format!("weights {} do not fit group {}", weights.shape(), op.group)));
        }
        let plain =
            window.dilation == [1, 1] && window.auto_pad == AutoPad::Explicit && op.output_shape.is_none();
        if !plain {
            return Ok(None);
        }
        let (in_c, w) = (c / op.group, weights.as_slice::<f32>()?);
        let mut phases = Vec::new();
        for qy in 0..window.stride[0].min(output[0]) {
            for qx in 0..window.stride[1].min(output[1]) {
                let axis = |i: usize, q: usize, k: usize| {
                    part(q, window.stride[i], k, window.pads[i], input[i], output[i])
                };
                let (Some(y), Some(x)) = (axis(0, qy, kh), axis(1, qx, kw)) else { return Ok(None) };
                let mut turned = Vec::with_capacity(c * per_group * y.taps * x.taps);
                for o in 0..op.group * per_group {
                    for ci in 0..in_c {
                        let plane = ((o / per_group * in_c + ci) * per_group + o % per_group) * kh * kw;
                        for ty in (0..y.taps).rev() {
                            for tx in (0..x.taps).rev() {
                                let ky = y.first + window.stride[0] * ty;
                                turned.push(w[plane + ky * kw + x.first + window.stride[1] * tx]);
                            }
                        }
                    }
                }
                let turned = Tensor::from_slice(&[op.group * per_group, in_c, y.taps, x.taps], &turned)?;
                let conv = Conv {
                    window: Window {
                        kernel: [y.taps, x.taps],
                        stride: [1, 1],
                        dilation: [1, 1],
                        pads: [y.pads[0], x.pads[0], y.pads[1], x.pads[1]],
                        auto_pad: AutoPad::Explicit,
                        ceil_mode: false,
                    },
                    group: op.group,
                    activation: Activation::None,
                    residual: Residual::None,
                };
                let conv = PackedConv::new(isa, &conv, &turned, bias)?;
                phases.push(Phase { at: [qy, qx], size: [y.size, x.size], conv });
            }
        }
        Ok(Some(PackedConvTranspose { stride: window.stride, phases }))
    }

    /// The table rows that run, for profiles.
    pub fn label(&self) -> String {
        let inner = self.phases.first().map(|p| p.conv.label()).unwrap_or_default();
        format!("{} phases of {inner}", self.phases.len())
    }

    /// Bytes of packed weights and bias.
    pub fn bytes(&self) -> usize {
        self.phases.iter().map(|p| p.conv.bytes()).sum()
    }

    /// Bytes of scratch that [`Self::run`] needs for an input of this layout on this many threads.
    pub fn scratch_bytes(&self, x: &Layout, threads: usize) -> usize {
        self.phases.iter().map(|p| p.conv.scratch_bytes(x, threads)).max().unwrap_or(0)
    }

    /// Computes y from x, f32, any strides; channels-last is fast. Errors as [`PackedConv::run`].
    pub fn run(&self, pool: &Pool, x: &View<'_>, y: &mut ViewMut<'_>, scratch: &mut [u8]) -> Result<()> {
        for phase in &self.phases {
            let rows = y.reborrow().sliced(2, phase.at[0], phase.size[0], self.stride[0])?;
            let mut part = rows.sliced(3, phase.at[1], phase.size[1], self.stride[1])?;
            phase.conv.run(pool, x, None, &mut part, scratch)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{close, layouts, noise, spread};
    use proptest::prelude::*;
    use saltica_models::graph::ops::Operator;
    use saltica_tensor::Shape;

    proptest! {
        #[test]
        fn transposed_convolutions_match_the_reference(
            group in 1usize..3, channels in [1usize..9, 1..20], kernel in [1usize..6, 1..6], stride in [1usize..4, 1..4],
            pads in [0usize..3, 0..3, 0..3, 0..3], more in [0usize..2, 0..2], size in [1usize..3, 1..8, 1..9],
            bias in any::<bool>(), seeds in any::<[u64; 2]>(),
        ) {
            let window = Window { kernel, stride, dilation: [1, 1], pads, auto_pad: AutoPad::Explicit, ceil_mode: false };
            let op = ConvTranspose { window, group, output_padding: more, output_shape: None };
            let (c, o) = (group * channels[0], group * channels[1]);
            let x_shape = Shape::new(&[size[0], c, size[1], size[2]]).unwrap();
            let w = Tensor::from_slice(&[c, channels[1], kernel[0], kernel[1]],
                &noise(1, c * channels[1] * kernel[0] * kernel[1])).unwrap();
            let b = bias.then(|| Tensor::from_slice(&[o], &noise(2, o)).unwrap());
            use saltica_models::graph::Fact;
            let x_fact = Fact { dtype: saltica_tensor::DType::F32, shape: x_shape, value: None };
            let Ok(out) = op.infer(&[Some(x_fact), Some(Fact::of(&w))]) else { return Ok(()) };
            let y_shape = out[0].shape;
            prop_assume!(y_shape.elements() > 0);
            let (lx, ly) = (layouts(x_shape, seeds[0]), layouts(y_shape, seeds[1]));
            let xs = spread(&noise(3, x_shape.elements()), &lx);
            let x = View::of_slice(&xs, lx).unwrap();
            let mut want = vec![f32::NAN; ly.span()];
            op.run(&[Some(x), Some(w.view()), b.as_ref().map(|b| b.view())],
                &mut [ViewMut::of_slice(&mut want, ly).unwrap()]).unwrap();
            for isa in Isa::available() {
                let (input, output) = ([size[1], size[2]], [y_shape[2], y_shape[3]]);
                let Some(packed) = PackedConvTranspose::new(isa, &op, &w, b.as_ref(), input, output).unwrap()
                    else { continue };
                let pool = Pool::new(2).unwrap();
                let mut got = vec![f32::NAN; ly.span()];
                let mut scratch = vec![0; packed.scratch_bytes(&lx, 2)];
                packed.run(&pool, &x, &mut ViewMut::of_slice(&mut got, ly).unwrap(), &mut scratch).unwrap();
                close(&got, &want, 1e-5)?;
            }
        }
    }

    #[test]
    fn the_upsampling_of_segmentation_heads_is_taken() {
        let window = Window {
            kernel: [2, 2],
            stride: [2, 2],
            dilation: [1, 1],
            pads: [0; 4],
            auto_pad: AutoPad::Explicit,
            ceil_mode: false,
        };
        let op = ConvTranspose { window, group: 1, output_padding: [0; 2], output_shape: None };
        let w = Tensor::from_slice(&[3, 5, 2, 2], &noise(1, 60)).unwrap();
        for isa in Isa::available() {
            let packed = PackedConvTranspose::new(isa, &op, &w, None, [7, 9], [14, 18]).unwrap();
            assert_eq!(packed.unwrap().phases.len(), 4);
        }
    }
}
