use super::literal::*;
use super::lookup::ByteTable;
use super::quantize::{byte_range, quantize};
use super::window::{AutoPad, Window};
use super::{Case, Fact, Op, Operator, OutFact, int_conv, required};
use crate::graph::Activation;
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{DType, View, ViewMut};

/// What a quantized convolution gives.
#[derive(Clone, Debug, PartialEq)]
pub enum QuantOutput {
    /// f32 numbers.
    Float {
        /// Applied to the sum.
        activation: Activation,
    },
    /// 8-bit numbers.
    Quantized {
        /// I8 or U8.
        dtype: DType,
        /// Real value of one step.
        scale: f32,
        /// The number that stands for 0.0.
        zero: i32,
        /// Applied in f32 before the rounding.
        activation: Activation,
        /// Applied to the rounded number's byte; its type is the output's then.
        table: Option<ByteTable>,
    },
}

/// 2-D convolution of 8-bit numbers, as it comes out of DequantizeLinear -> Conv -> QuantizeLinear. No ONNX op.
///
/// Inputs: x `[N,C,H,W]` (i8 or u8), w `[O,C/group,kh,kw]` (i8 or u8), bias `[O]` (i32, optional; its scale is
/// x_scale * w_scale). Output `[N,O,OH,OW]`.
///
/// # Arithmetic
///
/// This is the one definition that every CPU kernel and every GPU kernel agrees with bit for bit (activations other than
/// None, Relu, LeakyRelu, Clip, HardSigmoid and HardSwish go through exp or tanh and are exempt: fusion makes tables of
/// them). For output channel o:
///
/// 1. `acc` = sum of (x - x_zero) * (w - w_zero\[o\]) + bias\[o\], in i32, wrapping. Padding is x_zero, so it adds nothing.
/// 2. `r` = f32(acc) * m\[o\], where f32() rounds half to even and m\[o\] = x_scale * w_scale\[o\] rounded to f32 once.
/// 3. `r` = r + float_bias\[o\], if there is one: an addition of its own, never fused with the multiplication before.
/// 4. `r` = activation(r), each of its operations rounded to f32 on its own.
/// 5. A float output is r. For a quantized one: `q` = r / scale (an f32 division, not a multiplication with the
///    reciprocal), rounded half to even, plus zero, saturated to the dtype ([`quantize`]; NaN gives the smallest number),
///    and if there is a table: the table's entry for q's byte.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantConv {
    window: Window,
    group: usize,
    x_zero: i32,
    w_zero: Vec<i32>,
    multiplier: Vec<f32>,
    float_bias: Vec<f32>,
    output: QuantOutput,
}

impl QuantConv {
    /// A convolution without float bias. `w_zero` and `w_scale` have one entry, or one for each output channel.
    ///
    /// Errors if they are empty or their lengths contradict each other, if a zero point is outside -128..=255, or if the
    /// output is neither of an 8-bit type nor its zero point one of that type's numbers.
    pub fn new(
        window: Window,
        group: usize,
        x_zero: i32,
        w_zero: Vec<i32>,
        x_scale: f32,
        w_scale: &[f32],
        output: QuantOutput,
    ) -> Result<Self> {
        let (zeros, scales) = (w_zero.len(), w_scale.len());
        if zeros == 0 || scales == 0 || (zeros != scales && zeros != 1 && scales != 1) {
            return Err(Error::shape(format!("{scales} weight scales and {zeros} weight zero points")));
        }
        if group == 0 {
            return Err(Error::shape("group is 0, a positive number expected"));
        }
        if let Some(zero) = w_zero.iter().chain([&x_zero]).find(|z| !(-128..=255).contains(*z)) {
            return Err(Error::shape(format!("zero point {zero} is outside -128..=255")));
        }
        if let QuantOutput::Quantized { dtype, zero, .. } = &output {
            let (lo, hi) = byte_range(*dtype)?;
            if !(lo..=hi).contains(zero) {
                return Err(Error::shape(format!("zero point {zero} is no {dtype} number")));
            }
        }
        let multiplier = w_scale.iter().map(|s| x_scale * s).collect();
        Ok(QuantConv { window, group, x_zero, w_zero, multiplier, float_bias: Vec::new(), output })
    }

    /// The same with a float bias, one number for each output channel; empty: none.
    pub fn with_float_bias(self, float_bias: Vec<f32>) -> Self {
        QuantConv { float_bias, ..self }
    }

    /// The same with another output: what fusion of the ops behind it makes. Errors as [`Self::new`] does.
    pub fn with_output(self, output: QuantOutput) -> Result<Self> {
        if let QuantOutput::Quantized { dtype, zero, .. } = &output {
            let (lo, hi) = byte_range(*dtype)?;
            if !(lo..=hi).contains(zero) {
                return Err(Error::shape(format!("zero point {zero} is no {dtype} number")));
            }
        }
        Ok(QuantConv { output, ..self })
    }

    /// Kernel, stride, dilation, padding; the kernel is 0x0 if the weights alone say it.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Groups the channels are split into.
    pub fn group(&self) -> usize {
        self.group
    }

    /// The number of x that stands for 0.0; padding is it too.
    pub fn x_zero(&self) -> i32 {
        self.x_zero
    }

    /// The number of w that stands for 0.0 in output channel `o`.
    pub fn w_zero(&self, o: usize) -> i32 {
        pick(&self.w_zero, o).unwrap_or(0)
    }

    /// Whether 0 stands for 0.0 in all of w.
    pub fn is_w_symmetric(&self) -> bool {
        self.w_zero.iter().all(|&z| z == 0)
    }

    /// m\[o\] of the definition: the real value of one step of the sum of output channel `o`.
    pub fn multiplier(&self, o: usize) -> f32 {
        pick(&self.multiplier, o).unwrap_or(0.0)
    }

    /// The float bias, one number for each output channel or none at all.
    pub fn float_bias(&self) -> &[f32] {
        &self.float_bias
    }

    /// What comes out.
    pub fn output(&self) -> &QuantOutput {
        &self.output
    }

    /// Steps 2 to 4 of the definition.
    #[inline]
    pub fn real(&self, acc: i32, o: usize) -> f32 {
        let mut r = acc as f32 * self.multiplier(o);
        if let Some(b) = self.float_bias.get(o) {
            r += b;
        }
        match &self.output {
            QuantOutput::Float { activation } | QuantOutput::Quantized { activation, .. } => {
                activation.apply(r)
            }
        }
    }

    fn check_channels(&self, channels: usize) -> Result<()> {
        let fits = |len: usize| len == 1 || len == channels;
        if fits(self.w_zero.len())
            && fits(self.multiplier.len())
            && (self.float_bias.is_empty() || self.float_bias.len() == channels)
        {
            return Ok(());
        }
        Err(Error::shape(format!(
            "{channels} output channels, {} weight scales, {} weight zero points, {} float biases",
            self.multiplier.len(),
            self.w_zero.len(),
            self.float_bias.len()
        )))
    }
}

/// Entry `o` of a list that has one entry for all, or one for each.
fn pick<T: Copy>(list: &[T], o: usize) -> Option<T> {
    if list.len() == 1 { list.first().copied() } else { list.get(o).copied() }
}

impl Operator for QuantConv {
    fn parse(_: &NodeInfo) -> Result<Self> {
        Err(Error::unsupported("QuantConv is made by passes and read from no file"))
    }

    fn name(&self) -> &str {
        "QuantConv"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let (x, w) = (required(inputs, 0, "x")?, required(inputs, 1, "weights")?);
        let (_, shape) = int_conv::shape((x.dtype, &x.shape), (w.dtype, &w.shape), &self.window, self.group)?;
        self.check_channels(w.shape[0])?;
        if let Some(b) = inputs.get(2).copied().flatten()
            && (b.dtype != DType::I32 || b.shape.dims() != [w.shape[0]])
        {
            return Err(Error::shape(format!(
                "bias is {} {}, i32 [{}] expected",
                b.dtype, b.shape, w.shape[0]
            )));
        }
        let dtype = match &self.output {
            QuantOutput::Float { .. } => DType::F32,
            QuantOutput::Quantized { table: Some(table), .. } => table.dtype(),
            QuantOutput::Quantized { dtype, .. } => *dtype,
        };
        Ok(vec![OutFact { dtype, shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let (x, w) = (&required(inputs, 0, "x")?, &required(inputs, 1, "weights")?);
        let bias = inputs.get(2).copied().flatten();
        let y = &mut outputs[0];
        let range = match &self.output {
            QuantOutput::Quantized { dtype, .. } => byte_range(*dtype)?,
            QuantOutput::Float { .. } => (0, 0),
        };
        int_conv::accumulate(
            x,
            w,
            &self.window,
            self.group,
            self.x_zero,
            |o| self.w_zero(o),
            |at, sum| {
                let o = at[1];
                let acc = sum.wrapping_add(bias.map_or(0, |b| b.get(&[o])));
                let r = self.real(acc, o);
                let (table, byte) = match &self.output {
                    QuantOutput::Float { .. } => return y.set(at, r),
                    QuantOutput::Quantized { scale, zero, table, .. } => {
                        (table, quantize(r, *scale, *zero, range.0, range.1) as u8)
                    }
                };
                let byte = table.as_ref().map_or(byte, |t| t.bytes()[byte as usize]);
                if y.dtype() == DType::I8 { y.set(at, byte as i8) } else { y.set(at, byte) }
            },
        )
    }

    #[rustfmt::skip] // tables of numbers
    #[allow(clippy::approx_constant)] // they only look alike
    fn cases() -> Vec<Case> {
        // numpy in i64 and f32, each operation of the definition rounded on its own.
        let conv = |pads, stride, group, x_zero, w_zero, x_scale, w_scale: &[f32], output| {
            let window =
                Window { kernel: [0; 2], stride, dilation: [1; 2], pads, auto_pad: AutoPad::Explicit, ceil_mode: false };
            literal(QuantConv::new(window, group, x_zero, w_zero, x_scale, w_scale, output))
        };
        // Halves bytes below 128 and gives 7 for the others.
        let table = || {
            let bytes = std::array::from_fn(|i| if i < 128 { i as u8 / 2 } else { 7 });
            Some(literal(ByteTable::new(DType::U8, bytes)))
        };
        vec![
            case("u8 input, i8 weights per channel, i32 bias", Op::QuantConv(conv([0, 0, 0, 0], [1, 1], 1,
                128, vec![0], 0.02, &[0.01, 0.02, 0.005], QuantOutput::Quantized { dtype: DType::U8,
                scale: 0.15, zero: 128, activation: Activation::None, table: None })), vec![u8s(&[1, 2, 3, 3],
                &[75, 131, 71, 23, 43, 247, 97, 147, 112, 205, 25, 72, 149, 205, 118, 179, 205, 164]),
                i8s(&[3, 2, 2, 2], &[81, 115, -73, -18, -71, -22, -128, 49, -68, 85, 56, -43, -12, 43, -22,
                -75, -117, 13, 8, 68, -95, -112, 60, 58]), i32s(&[3], &[1792, -2908, 933])], vec![u8s(&[1, 3,
                2, 2], &[135, 125, 101, 120, 94, 75, 103, 152, 135, 146, 135, 136])], EXACT),
            case("i8, padding is the zero point", Op::QuantConv(conv([1, 1, 1, 1], [1, 1], 1, -7, vec![0],
                0.02, &[0.01, 0.02], QuantOutput::Quantized { dtype: DType::I8, scale: 0.2, zero: -5,
                activation: Activation::None, table: None })), vec![i8s(&[1, 2, 3, 3], &[117, 67, -9, -7, -24,
                -114, 56, 9, 5, 110, 59, 117, -107, 115, 16, -26, 14, -119]), i8s(&[2, 2, 3, 3], &[110, 33,
                -118, 105, -13, -98, 33, -111, 12, 66, -110, 74, 23, -46, -72, -126, -78, -56, 96, 3, -78, 62,
                -12, 85, 64, 110, 53, -101, 13, -20, 78, -89, -9, 83, 30, -119]), i32s(&[2], &[1914, -799])],
                vec![i8s(&[1, 2, 3, 3], &[-21, 2, -5, -25, 31, 2, 16, 3, 4, -56, -19, -13, 5, -27, 14, -7, 37,
                -10])], EXACT),
            case("power-of-two scales meet ties", Op::QuantConv(conv([0, 0, 0, 0], [1, 1], 1, 0, vec![0], 0.5,
                &[0.5], QuantOutput::Quantized { dtype: DType::I8, scale: 4., zero: 1,
                activation: Activation::None, table: None })), vec![i8s(&[1, 1, 4, 4], &[45, 39, 36, -22, -25,
                -103, 14, -54, -27, -86, 62, 108, -31, -20, -9, -110]), i8s(&[1, 1, 1, 1], &[3]), None],
                vec![i8s(&[1, 1, 4, 4], &[9, 8, 8, -3, -4, -18, 4, -9, -4, -15, 13, 21, -5, -3, -1, -20])],
                EXACT),
            case("u8 weights with zero points per channel", Op::QuantConv(conv([0, 0, 0, 0], [1, 1], 1, 3,
                vec![100, 120], 0.03, &[0.02], QuantOutput::Quantized { dtype: DType::U8, scale: 0.3,
                zero: 90, activation: Activation::None, table: None })), vec![u8s(&[1, 1, 3, 3], &[193, 225,
                128, 15, 86, 40, 211, 204, 97]), u8s(&[2, 1, 2, 2], &[96, 216, 22, 201, 246, 114, 193, 182]),
                None], vec![u8s(&[1, 2, 2, 2], &[155, 112, 117, 86, 147, 161, 147, 151])], EXACT),
            case("groups, stride 2, relu", Op::QuantConv(conv([0, 0, 0, 0], [2, 2], 2, 128, vec![0], 0.03,
                &[0.02, 0.03], QuantOutput::Quantized { dtype: DType::U8, scale: 0.1, zero: 0,
                activation: Activation::Relu, table: None })), vec![u8s(&[1, 2, 4, 4], &[229, 8, 180, 99, 219,
                220, 73, 148, 126, 142, 212, 170, 193, 173, 64, 149, 97, 107, 28, 46, 87, 74, 162, 74, 63,
                110, 145, 255, 130, 90, 82, 114]), i8s(&[2, 1, 2, 2], &[109, -33, -65, 20, 70, 114, -57, 99]),
                None], vec![u8s(&[1, 2, 2, 2], &[65, 64, 0, 74, 0, 0, 0, 152])], EXACT),
            case("clip", Op::QuantConv(conv([0, 0, 0, 0], [1, 1], 1, 128, vec![0], 0.05, &[0.02],
                QuantOutput::Quantized { dtype: DType::U8, scale: 0.023529412, zero: 0,
                activation: Activation::Clip(0.0, 6.0), table: None })), vec![u8s(&[1, 1, 2, 3], &[218, 96,
                85, 68, 81, 226]), i8s(&[2, 1, 1, 1], &[-49, -2]), None], vec![u8s(&[1, 2, 2, 3], &[0, 67, 90,
                125, 98, 0, 0, 3, 4, 5, 4, 0])], EXACT),
            case("leaky relu, table", Op::QuantConv(conv([0, 0, 0, 0], [1, 1], 1, 128, vec![0], 0.05, &[0.02],
                QuantOutput::Quantized { dtype: DType::I8, scale: 0.2, zero: 3,
                activation: Activation::LeakyRelu(0.1), table: table() })), vec![u8s(&[1, 1, 3, 3], &[239,
                175, 33, 18, 57, 221, 58, 80, 138]), i8s(&[1, 1, 2, 2], &[-2, -109, -78, 126]), None],
                vec![u8s(&[1, 1, 2, 2], &[0, 63, 20, 0])], EXACT),
            case("float output, float bias, hard swish", Op::QuantConv(conv([0, 0, 0, 0], [1, 1], 1, 100,
                vec![0], 0.02, &[0.01, 0.02],
                QuantOutput::Float { activation: Activation::HardSwish }).with_float_bias(vec![0.5, -0.25])),
                vec![u8s(&[1, 2, 2, 2], &[107, 71, 211, 119, 211, 40, 121, 207]), i8s(&[2, 2, 1, 1], &[68, 45,
                -11, 82]), None], vec![f32s(&[1, 2, 2, 2], &[1.2206789, -0.18574943, 1.90494, 1.3545698, 3.36,
                -0.31690463, -0.024389977, 3.1759999])], EXACT),
            case("float output, no activation, both biases", Op::QuantConv(conv([0, 0, 0, 0], [1, 1], 1, 100,
                vec![0], 0.02, &[0.01],
                QuantOutput::Float { activation: Activation::None }).with_float_bias(vec![0.3])),
                vec![u8s(&[1, 1, 2, 2], &[95, 168, 139, 77]), i8s(&[1, 1, 1, 1], &[-77]), i32s(&[1], &[77])],
                vec![f32s(&[1, 1, 2, 2], &[0.39240003, -0.7318, -0.2852, 0.6696])], EXACT),
            case("batch of 2, 1x1", Op::QuantConv(conv([0, 0, 0, 0], [1, 1], 1, 128, vec![0], 0.02, &[0.01,
                0.02], QuantOutput::Quantized { dtype: DType::I8, scale: 0.1, zero: 0,
                activation: Activation::None, table: None })), vec![u8s(&[2, 3, 1, 2], &[136, 81, 132, 180,
                205, 197, 130, 14, 46, 187, 152, 209]), i8s(&[2, 3, 1, 1], &[-3, -15, -66, -113, -92, 46]),
                None], vec![i8s(&[2, 2, 1, 2], &[-10, -10, 9, 15, -1, -12, 34, 45])], EXACT),
        ]
    }
}
