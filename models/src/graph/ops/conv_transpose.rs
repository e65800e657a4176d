use super::elementwise::floats;
use super::literal::*;
use super::window::{AutoPad, Window};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{Element, Shape, View, ViewMut};

/// 2-D transposed convolution, [ONNX ConvTranspose](https://onnx.ai/onnx/operators/onnx__ConvTranspose.html).
///
/// Inputs: x `[N,C,H,W]`, weights `[C,O/group,kh,kw]`, bias `[O]` (optional). One float type; summed in f64 and rounded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvTranspose {
    /// Kernel, stride, dilation, padding; the kernel is 0x0 if the file leaves it to the weights.
    pub window: Window,
    /// Groups the channels are split into.
    pub group: usize,
    /// Rows and columns added at the end of the output.
    pub output_padding: [usize; 2],
    /// Output height and width, if the file demands them; the padding follows then.
    pub output_shape: Option<[usize; 2]>,
}

/// Output columns that are summed together.
const TILE: usize = 64;

impl ConvTranspose {
    fn window_for(&self, weights: &Shape) -> Result<Window> {
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

    /// The padding at the top and at the left for weights of this shape and an input of this height and width.
    pub fn pads_before(&self, weights: &Shape, input: [usize; 2]) -> Result<[usize; 2]> {
        Ok(self.geometry(&self.window_for(weights)?, input)?.1)
    }

    /// Output height and width, and the padding at the top and at the left.
    fn geometry(&self, window: &Window, input: [usize; 2]) -> Result<([usize; 2], [usize; 2])> {
        let (mut out, mut pads) = ([0; 2], [0; 2]);
        for i in 0..2 {
            // The largest sides are 2^15 and inputs are bounded by the shape's element limit, but their product is not.
            let whole = input[i]
                .checked_sub(1)
                .and_then(|n| n.checked_mul(window.stride[i]))
                .and_then(|n| n.checked_add(self.output_padding[i] + window.reach()[i]))
                .ok_or_else(|| Error::shape(format!("an input of {input:?} cannot be spread")))?;
            let same = matches!(window.auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
            let wanted =
                self.output_shape.map(|s| s[i]).or(same.then(|| input[i].saturating_mul(window.stride[i])));
            if let Some(wanted) = wanted {
                // An output larger than all that is spread ends in zeros, as ONNX Runtime has it.
                let total = whole.saturating_sub(wanted);
                let small = total / 2;
                pads[i] = if window.auto_pad == AutoPad::SameUpper { small } else { total - small };
                out[i] = wanted;
            } else {
                let explicit = window.pads_for(input);
                pads[i] = explicit[i];
                out[i] = whole.checked_sub(explicit[i] + explicit[i + 2]).ok_or_else(|| {
                    Error::shape(format!("padding {explicit:?} leaves nothing of an output side of {whole}"))
                })?;
            }
        }
        Ok((out, pads))
    }

    fn convolve<T: Element>(
        &self,
        x: &View<'_>,
        w: &View<'_>,
        bias: Option<View<'_>>,
        y: &mut ViewMut<'_>,
    ) -> Result<()> {
        let window = self.window_for(w.shape())?;
        let (c, h, width) = (x.shape()[1], x.shape()[2], x.shape()[3]);
        let (_, pads) = self.geometry(&window, [h, width])?;
        let (in_c, per_group) = (c / self.group, w.shape()[1]);
        let [sy, sx] = window.stride;
        let out = *y.shape();
        for index in Shape::new(&out[..3])?.indices() {
            let [n, o, oy, ..] = index;
            let first = o / per_group.max(1) * in_c;
            let b = bias.map_or(0.0, |b| b.get::<T>(&[o]).to_f64());
            for from in (0..out[3]).step_by(TILE) {
                let count = TILE.min(out[3] - from);
                let mut sums = [b; TILE];
                for ky in 0..window.kernel[0] {
                    // Row iy reaches oy = iy * stride + ky * dilation - pad.
                    let reach = (oy + pads[0]).checked_sub(ky * window.dilation[0]);
                    let Some(iy) =
                        reach.filter(|r| r.is_multiple_of(sy)).map(|r| r / sy).filter(|&iy| iy < h)
                    else {
                        continue;
                    };
                    for kx in 0..window.kernel[1] {
                        let shift = kx * window.dilation[1];
                        // The columns ix whose ix * stride + shift - pad lies in from..from + count.
                        let first_ix = (from + pads[1]).saturating_sub(shift).div_ceil(sx);
                        let end_ix = (from + count + pads[1]).saturating_sub(shift).div_ceil(sx).min(width);
                        for ci in 0..in_c {
                            let weight = w.get::<T>(&[first + ci, o % per_group, ky, kx]).to_f64();
                            let row = x.row::<T>(&[n, first + ci, iy, 0]);
                            for ix in first_ix..end_ix {
                                let v = row.map_or_else(|| x.get::<T>(&[n, first + ci, iy, ix]), |r| r[ix]);
                                sums[ix * sx + shift - pads[1] - from] += weight * v.to_f64();
                            }
                        }
                    }
                }
                for j in 0..count {
                    y.set(&[n, o, oy, from + j], T::from_f64(sums[j]));
                }
            }
        }
        Ok(())
    }
}

impl Operator for ConvTranspose {
    fn parse(node: &NodeInfo) -> Result<Self> {
        let group = node.int("group")?.unwrap_or(1);
        if !(1..=1 << 24).contains(&group) {
            return Err(Error::unsupported(format!("group is {group}, a positive number expected")));
        }
        let pair = |name: &str| -> Result<Option<[usize; 2]>> {
            match node.ints(name)?.as_deref() {
                None => Ok(None),
                Some(&[h, w]) if (0..1 << 24).contains(&h) && (0..1 << 24).contains(&w) => {
                    Ok(Some([h as usize, w as usize]))
                }
                Some(other) => Err(Error::unsupported(format!(
                    "{name} is {other:?}, two numbers from 0 to 2^24 expected (2-D)"
                ))),
            }
        };
        Ok(ConvTranspose {
            window: Window::parse(node)?,
            group: group as usize,
            output_padding: pair("output_padding")?.unwrap_or([0; 2]),
            output_shape: pair("output_shape")?,
        })
    }

    fn name(&self) -> &str {
        "ConvTranspose"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let w = required(inputs, 1, "weights")?;
        let &[n, c, h, width] = x.shape.dims() else {
            return Err(Error::shape(format!("x is {}, rank 4 expected (2-D convolution)", x.shape)));
        };
        let window = self.window_for(&w.shape)?;
        if w.shape[0] != c || !c.is_multiple_of(self.group) {
            return Err(Error::shape(format!(
                "{c} input channels and weights {} do not fit group {}",
                w.shape, self.group
            )));
        }
        if x.dtype != w.dtype || !x.dtype.is_float() {
            return Err(Error::shape(format!(
                "x is {} and weights are {}, one float type expected",
                x.dtype, w.dtype
            )));
        }
        let out_c = w.shape[1]
            .checked_mul(self.group)
            .ok_or_else(|| Error::shape(format!("weights {} do not fit group {}", w.shape, self.group)))?;
        if let Some(b) = inputs.get(2).copied().flatten()
            && (b.shape.dims() != [out_c] || b.dtype != x.dtype)
        {
            return Err(Error::shape(format!(
                "bias is {} {}, {} [{out_c}] expected",
                b.dtype, b.shape, x.dtype
            )));
        }
        let ([oh, ow], _) = self.geometry(&window, [h, width])?;
        Ok(vec![OutFact { dtype: x.dtype, shape: Shape::new(&[n, out_c, oh, ow])? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = &required(inputs, 0, "x")?;
        let w = &required(inputs, 1, "weights")?;
        let bias = inputs.get(2).copied().flatten();
        let y = &mut outputs[0];
        floats!(x.dtype(), T => self.convolve::<T>(x, w, bias, y), Err(Error::shape("floats expected")))
    }

    #[rustfmt::skip] // tables of numbers
    #[allow(clippy::approx_constant)] // they only look alike
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("2x2 stride 2, as in exports", node("ConvTranspose", 11, 3, vec![ints("kernel_shape", &[2,
                2]), ints("strides", &[2, 2]), ints("pads", &[0, 0, 0, 0]), ints("dilations", &[1, 1]),
                int("group", 1)]), vec![f32s(&[1, 3, 2, 3], &[-0.84, 0.49, 1.51, -1.57, -0.08, -1.91, 1.38,
                1.11, -1.82, 0.98, 0.77, -1.49, 0.1, 0.76, -0.66, 0.02, 1.9, 0.54]), f32s(&[3, 2, 2, 2],
                &[0.01, -1.74, -1.52, 1.4, 0.97, 1.34, 0.31, 0.3, 0.12, 0.94, -0.68, -0.01, -0.12, 0.65,
                -1.14, -1.9, -1.65, -1.28, 1.43, 0.87, 1., -0.22, -1.59, -0.14]), f32s(&[2], &[1.45, 0.04])],
                vec![f32s(&[1, 2, 4, 6], &[1.4422001, 4.0808, 0.33410013, 0.66800004, 2.3357, -2.0434, 1.9314,
                0.34720004, 1.0372, 2.7861, -0.5513997, 3.008, 1.5189, 5.0774, -1.5933998, -0.11899984,
                0.36110008, 2.6816, 3.1985998, -0.74039984, 3.7649999, 2.9833002, 6.1386003, -0.7393, -0.8404,
                -0.21060002, 1.1421, 1.2509, 1.0630999, 1.0256001, -1.9526, -2.848, -2.2819, -2.0284,
                3.6323001, 4.0434, -1.5805001, -1.4312001, 1.77, 0.015299974, -1.0939, -3.6067, -1.5957001,
                -2.2958, -3.8836, -1.713, 0.28789997, 2.2224])], CLOSE),
            case("3x3 stride 1", node("ConvTranspose", 11, 2, vec![]), vec![f32s(&[1, 1, 3, 3], &[0.53, -0.5,
                -1.4, 0.51, -0.06, -0.62, -0.97, 0.78, -0.73]), f32s(&[1, 2, 3, 3], &[0.3, -0.96, 1.01, -0.5,
                -0.09, 1.71, 0.87, 0.95, -0.64, 1.36, -0.46, 1.95, 1.58, 0.64, 1.33, 0.18, 0.93, -1.5])],
                vec![f32s(&[1, 2, 5, 5], &[0.159, -0.6588, 0.59529996, 0.839, -1.4139999, -0.11199999,
                -0.30529994, 2.0379999, -0.19440001, -3.0202, -0.08490002, 1.2177999, -2.7922, 0.43180007,
                -0.90150005, 0.9287, 0.12960002, -2.2867, 0.8489, -0.8515001, -0.8439, -0.24290007,
                0.72669995, -1.1926999, 0.4672, 0.7208, -0.9238, -0.64050007, -0.33100003, -2.73, 1.5309999,
                -0.767, -1.6482, -1.3928, -3.071, -0.418, 2.1415, -5.0948005, 0.8282, -0.14810014, -1.4408001,
                1.0751, -2.8767, 0.08359995, -0.04090005, -0.1746, -0.76170003, 2.049, -1.8489, 1.095])],
                CLOSE),
            case("3x3 stride 2, padding, output padding", node("ConvTranspose", 11, 3, vec![ints("strides",
                &[2, 2]), ints("pads", &[1, 1, 1, 1]), ints("output_padding", &[1, 1])]), vec![f32s(&[1, 2, 3,
                3], &[1.95, 1.2, -1.43, -1.03, 0.3, 1.05, -1.4, 1.84, -0.62, 1.98, 1.01, -0.06, -0.55, -1.61,
                -1.65, 0.52, 1.09, 1.63]), f32s(&[2, 1, 3, 3], &[-0.54, 1.75, -0.81, 1.76, 1.68, -1.38, 1.44,
                0.81, 0.81, 1.36, 0.15, 0.03, -0.53, 1.46, 1.6, -1.36, 1.09, -0.9]), f32s(&[1], &[-1.26])],
                vec![f32s(&[1, 1, 6, 6], &[4.9068003, 0.7937, 2.2306, -3.7849998, -3.7499998, 0.61739993,
                0.59270024, -2.6418998, 1.0964, -6.2768993, -0.8937001, -3.2642999, -3.7933998, 0.66269994,
                -3.1066, -1.5275002, -1.9050002, -5.349, -5.0657997, 2.6607003, 0.61160004, 5.2818995,
                -3.0485, 1.6266, -2.8528, 4.1646996, 3.4226, -4.0102997, 0.0782001, 2.2036, -1.8271999,
                -1.6947997, 1.4185002, -3.8602, 0.014500022, -3.2292])], CLOSE),
            case("groups", node("ConvTranspose", 11, 3, vec![int("group", 2), ints("strides", &[2, 2])]),
                vec![f32s(&[1, 4, 2, 2], &[-1.21, 0.29, -0.88, -1.03, -1.61, -0.7, 1.1, -1.91, -0.07, 0.41,
                -1.8, -0.82, 1.63, 1.98, 1.4, -1.32]), f32s(&[4, 1, 2, 2], &[1.06, -0.2, -1.32, -0.08, 1.69,
                1.51, -0.43, -1.75, 1.6, 1.95, 0.05, -1.1, 0.18, 0.79, -0.07, -0.59]), f32s(&[2], &[-1.01,
                -0.81])], vec![f32s(&[1, 2, 4, 4], &[-5.0135, -3.1991, -1.8856001, -2.125, 1.2795002, 1.9043,
                -1.0918, 0.1918, -0.08379984, 0.827, -5.3296995, -3.6880999, -0.3214, -2.8646002, 1.1709001,
                2.4149, -0.6286, 0.34120005, 0.20240003, 1.5537002, -0.9276, -1.6947, -0.9281, -2.4292,
                -3.4379997, -3.214, -2.3596, -3.4518, -0.998, 0.34400004, -0.7586, 0.87079996])], CLOSE),
            case("dilation", node("ConvTranspose", 11, 2, vec![ints("dilations", &[2, 2])]), vec![f32s(&[1, 1,
                3, 3], &[-1.8, -0.98, 1.81, -1.97, 0.91, 1.16, -0.38, 0.38, -1.12]), f32s(&[1, 1, 2, 2],
                &[0.67, 0.83, 0.94, -0.03])], vec![f32s(&[1, 1, 5, 5], &[-1.206, -0.65660006, -0.28129995,
                -0.8134, 1.5022999, -1.3199, 0.6097, -0.8579, 0.7553, 0.96279997, -1.9466, -0.66660005,
                0.6896, 0.3448, -0.9839, -1.8518, 0.8554, 1.1495, -0.0273, -0.034799997, -0.3572, 0.3572,
                -1.0414001, -0.011399999, 0.0336])], CLOSE),
            case("output_shape", node("ConvTranspose", 11, 2, vec![ints("strides", &[3, 2]),
                ints("output_shape", &[8, 6])]), vec![f32s(&[1, 1, 3, 3], &[1.88, 1.47, 0.29, 0.73, -0.9,
                1.77, 0.58, 1.58, -0.85]), f32s(&[1, 2, 3, 3], &[1.93, -1.58, 0.12, -1.56, -1.24, 1.06, -1.74,
                -0.47, -1.23, 1.4, -1.67, -0.65, 1.42, 0.75, 0.81, 1.96, -1.91, 0.66])], vec![f32s(&[1, 2, 8,
                6], &[-2.3312001, -0.30040014, -1.8228, 1.1058, -0.35959998, 0.3074, -0.8836, -4.8702,
                -0.6909, -2.3127, -0.1363, -0.3567, -1.1534001, -1.6493999, 1.422, 3.3080997, -2.7966,
                0.21239999, -0.9052, 2.1778, 1.1159999, -3.7152, -2.1948, 1.8761998, -0.3431, 0.66809994,
                0.42299998, -1.9727999, -0.8319, -2.1771, -0.9164, 3.1190002, -2.4964, -1.4509, 1.343, -0.102,
                -0.71919996, -1.8499999, -1.9592, 3.0008, 1.054, -0.90099996, -0.2726, -3.4626002, -0.7426,
                -0.46439993, 0.3995, 1.0455, 1.41, 3.6102, 1.1025, 1.6025, 0.2175, 0.2349, -3.5908, 4.122,
                -2.8077, 1.5386, -0.5539, 0.1914, -1.2191, -1.7344999, 1.5029999, 3.063, -2.9559, -1.1504999,
                0.5475, -0.68669987, -0.67499995, 1.7843999, 1.3275, 1.4337, -1.3943, -1.2821999, 1.719,
                2.8752003, -3.3806999, 1.1682, -0.9686, 1.8350002, -2.6386, -2.217, 1.4195, 0.5525, 0.435,
                2.7134, 1.1850001, 0.07280004, -0.63750005, -0.68850005, -1.1078, 3.4796002, -3.0178,
                -0.62320006, 1.6235, -0.56100005])], CLOSE),
            case("same upper", node("ConvTranspose", 11, 2, vec![ints("strides", &[2, 2]), string("auto_pad",
                "SAME_UPPER")]), vec![f32s(&[1, 1, 3, 3], &[0.98, 0.99, 0.86, -1.71, -1.66, 1.09, 0.45, -0.95,
                -1.96]), f32s(&[1, 1, 3, 3], &[0.13, -1.64, 0.99, -0.64, 1.23, -1.62, -0.02, -1.6, 1.12])],
                vec![f32s(&[1, 1, 6, 6], &[0.1274, -1.6072, 1.0989, -1.6236, 1.0919, -1.4104, -0.6272, 1.2054,
                -2.2212, 1.2177, -2.1542, 1.0578, -0.2419, 1.2363999, -0.83089995, 1.1384, -0.41009986,
                -3.1636, 1.0944, -2.1033, 3.8326, -2.0418, 1.9915999, 1.3407, 0.0927, 1.9980001, -1.56,
                4.2139997, -3.0763001, 1.4704, -0.288, 0.5535, -0.12099999, -1.1685, 2.7934, -2.4108])],
                CLOSE),
            case("same lower", node("ConvTranspose", 11, 2, vec![ints("strides", &[2, 2]), string("auto_pad",
                "SAME_LOWER")]), vec![f32s(&[1, 1, 3, 3], &[0.24, -1.06, 1.85, 0.73, -0.65, 1.42, -0.48, 1.77,
                -0.81]), f32s(&[1, 1, 3, 3], &[1.94, -1.75, 0.94, -0.83, -0.3, 0.54, -1.82, -1.11, -1.58])],
                vec![f32s(&[1, 1, 6, 6], &[-0.072000004, 1.0094, 0.318, -2.1079, -0.555, 0.9990001, -1.5439,
                0.97519994, 2.3140998, 0.45159984, -4.5385, -1.5882001, -0.21900001, 0.9337, 0.19500001,
                -1.5295999, -0.426, 0.7668, 0.029699922, 3.0121999, -2.376, -1.4650002, -0.15869999,
                -3.0049999, 0.14400001, -1.7283, -0.531, 1.6281, 0.24300002, -0.4374, 0.5328, -2.463, -1.9647,
                -1.3224001, 0.8991, 1.2798])], CLOSE),
            case("uneven pads", node("ConvTranspose", 11, 2, vec![ints("strides", &[3, 2]), ints("pads", &[1,
                2, 1, 0])]), vec![f32s(&[1, 1, 3, 3], &[0.96, -1.12, -0.01, -0.69, -1.06, 1.74, 0.03, 0.6,
                0.82]), f32s(&[1, 1, 3, 3], &[1.28, -0.95, -1.69, -0.13, -1.32, -1.92, 1.68, 0.51, -0.34])],
                vec![f32s(&[1, 1, 7, 5], &[-1.6976, 1.4784001, 2.1517, 0.0132, 0.019199999, -2.208, -0.5712,
                0.36400002, -0.0050999997, 0.0034, -0.19069982, 1.007, 4.0186, -1.653, -2.9406002, 1.4626,
                1.3992, 1.8089999, -2.2968001, -3.3408, -1.5461998, -0.54059994, 3.2835999, 0.8874, -0.5916,
                0.7173, -0.57, 0.035599947, -0.779, -1.3858, -0.1356, -0.79200006, -1.2586001, -1.0824001,
                -1.5744])], CLOSE),
            case("stride beyond the kernel", node("ConvTranspose", 11, 2, vec![ints("strides", &[3, 3])]),
                vec![f32s(&[1, 1, 2, 2], &[-1.45, 1.04, 0.13, -1.3]), f32s(&[1, 1, 1, 1], &[1.93])],
                vec![f32s(&[1, 1, 4, 4], &[-2.7985, 0., 0., 2.0071998, 0., 0., 0., 0., 0., 0., 0., 0.,
                0.25089997, 0., 0., -2.5089998])], CLOSE),
            case("batch of 2, opset 9", node("ConvTranspose", 9, 2, vec![]), vec![f32s(&[2, 1, 2, 2], &[1.8,
                1.71, 1.31, 0.13, -0.8, 0.61, -1.39, 0.47]), f32s(&[1, 1, 2, 2], &[-1.74, -1.95, 0.86,
                -0.63])], vec![f32s(&[2, 1, 3, 3], &[-3.132, -6.4854, -3.3345, -0.7313999, -2.4441, -1.3308,
                1.1266, -0.71349996, -0.08189999, 1.3920001, 0.4986, -1.1895001, 1.7306001, 2.9213,
                -1.3008001, -1.1954, 1.2799001, -0.2961])], CLOSE),
        ]
    }
}
