use super::conv_integer::{check_zero, parse_group, zero_at};
use super::literal::*;
use super::quantize::{byte_range, round_to};
use super::window::Window;
use super::{Case, Fact, Operator, OutFact, int_conv, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{DType, View, ViewMut};

/// 2-D convolution of 8-bit numbers to 8-bit numbers,
/// [ONNX QLinearConv](https://onnx.ai/onnx/operators/onnx__QLinearConv.html).
///
/// Inputs: x `[N,C,H,W]`, x_scale, x_zero, w `[O,C/group,kh,kw]`, w_scale, w_zero, y_scale, y_zero, bias (i32 `[O]`,
/// optional); w's scale and zero point are scalars or `[O]`. As in ONNX Runtime, the i32 sum is converted to f32, multiplied
/// with x_scale * w_scale / y_scale, rounded half to even, moved by y_zero and saturated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QLinearConv {
    /// Kernel, stride, dilation, padding; the kernel is 0x0 if the file leaves it to the weights.
    pub window: Window,
    /// Groups the channels are split into.
    pub group: usize,
}

/// Checks a scale: f32 (or f16, opset 21) with one element or `many`.
pub(super) fn check_scale(scale: Fact<'_>, many: usize, what: &str) -> Result<()> {
    let n = scale.shape.elements();
    if matches!(scale.dtype, DType::F32 | DType::F16) && scale.shape.rank() <= 1 && (n == 1 || n == many) {
        return Ok(());
    }
    Err(Error::shape(format!(
        "{what} is {} {}, f32 or f16, scalar or [{many}] expected",
        scale.dtype, scale.shape
    )))
}

/// Entry `i` of a scale that has one element for all or one for each.
pub(super) fn scale_at(scale: &View<'_>, i: usize) -> f32 {
    scale.at_f64(if scale.shape().elements() == 1 { 0 } else { i }) as f32
}

impl Operator for QLinearConv {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(QLinearConv { window: Window::parse(node)?, group: parse_group(node)? })
    }

    fn name(&self) -> &str {
        "QLinearConv"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let (x, w) = (required(inputs, 0, "x")?, required(inputs, 3, "weights")?);
        let y_zero = required(inputs, 7, "y's zero point")?;
        let (_, shape) = int_conv::shape((x.dtype, &x.shape), (w.dtype, &w.shape), &self.window, self.group)?;
        check_scale(required(inputs, 1, "x's scale")?, 1, "x's scale")?;
        check_scale(required(inputs, 4, "the weights' scale")?, shape[1], "the weights' scale")?;
        check_scale(required(inputs, 6, "y's scale")?, 1, "y's scale")?;
        check_zero(Some(required(inputs, 2, "x's zero point")?), x.dtype, 1, "x's zero point")?;
        let w_zero = required(inputs, 5, "the weights' zero point")?;
        check_zero(Some(w_zero), w.dtype, shape[1], "the weights' zero point")?;
        check_zero(Some(y_zero), y_zero.dtype, 1, "y's zero point")?;
        byte_range(y_zero.dtype)?;
        if let Some(b) = inputs.get(8).copied().flatten()
            && (b.dtype != DType::I32 || b.shape.dims() != [shape[1]])
        {
            return Err(Error::shape(format!(
                "bias is {} {}, i32 [{}] expected",
                b.dtype, b.shape, shape[1]
            )));
        }
        Ok(vec![OutFact { dtype: y_zero.dtype, shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let (x, w) = (&required(inputs, 0, "x")?, &required(inputs, 3, "weights")?);
        let (x_scale, w_scale) = (required(inputs, 1, "x's scale")?, required(inputs, 4, "w's scale")?);
        let (x_zero, w_zero) = (required(inputs, 2, "x's zero")?, required(inputs, 5, "w's zero")?);
        let (y_scale, y_zero) = (required(inputs, 6, "y's scale")?, required(inputs, 7, "y's zero")?);
        let bias = inputs.get(8).copied().flatten();
        let y = &mut outputs[0];
        let (lo, hi) = byte_range(y.dtype())?;
        let (x_zero, y_zero) = (zero_at(Some(&x_zero), 0), zero_at(Some(&y_zero), 0));
        let (x_scale, y_scale) = (scale_at(&x_scale, 0), scale_at(&y_scale, 0));
        let zero = |o| zero_at(Some(&w_zero), o);
        int_conv::accumulate(x, w, &self.window, self.group, x_zero, zero, |at, sum| {
            let acc = sum.wrapping_add(bias.map_or(0, |b| b.get(&[at[1]])));
            let factor = x_scale * scale_at(&w_scale, at[1]) / y_scale;
            let v = round_to(acc as f32 * factor, y_zero, lo, hi);
            if y.dtype() == DType::I8 { y.set(at, v as i8) } else { y.set(at, v as u8) }
        })
    }

    #[rustfmt::skip] // tables of numbers
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("u8, i8 weights", node("QLinearConv", 10, 8, vec![ints("kernel_shape", &[3, 3]), ints("pads",
                &[1, 1, 1, 1])]), vec![u8s(&[1, 2, 4, 4], &[67, 155, 203, 24, 116, 169, 13, 161, 233, 210,
                175, 205, 92, 83, 21, 184, 80, 222, 119, 228, 35, 41, 88, 6, 125, 166, 169, 54, 42, 144, 162,
                241]), f32s(&[], &[0.02]), u8s(&[], &[128]), i8s(&[2, 2, 3, 3], &[101, -31, -87, -64, 97, -12,
                126, 40, 24, -103, 23, -31, 87, -94, -79, 41, 46, 84, 6, -32, -50, -33, 41, 10, -53, -73, 53,
                -65, -75, -44, 90, -11, 24, -108, -40, 64]), f32s(&[], &[0.01]), i8s(&[], &[0]), f32s(&[],
                &[0.1]), u8s(&[], &[120])], vec![u8s(&[1, 2, 4, 4], &[80, 79, 107, 29, 157, 172, 119, 200,
                117, 122, 167, 118, 104, 103, 81, 122, 124, 122, 167, 128, 116, 73, 46, 100, 160, 179, 190,
                139, 101, 85, 109, 137])], EXACT),
            case("per channel, bias", node("QLinearConv", 10, 9, vec![]), vec![u8s(&[1, 2, 3, 3], &[197, 148,
                224, 76, 42, 19, 51, 195, 231, 33, 128, 34, 216, 33, 163, 20, 188, 232]), f32s(&[], &[0.02]),
                u8s(&[], &[100]), i8s(&[3, 2, 2, 2], &[59, -60, 87, -50, 64, 85, -4, 30, 90, -81, -123, -17,
                -82, 98, 93, -32, -49, 53, -12, -104, 41, 58, -111, 70]), f32s(&[3], &[0.01, 0.02, 0.005]),
                i8s(&[3], &[0, 0, 0]), f32s(&[], &[0.15]), u8s(&[], &[128]), i32s(&[3], &[203, 1955, 2101])],
                vec![u8s(&[1, 3, 2, 2], &[127, 119, 125, 139, 213, 95, 82, 141, 120, 144, 133, 119])], EXACT),
            case("u8 weights with a zero point", node("QLinearConv", 10, 8, vec![]), vec![u8s(&[1, 1, 3, 3],
                &[172, 85, 94, 185, 16, 59, 132, 241, 193]), f32s(&[], &[0.03]), u8s(&[], &[5]), u8s(&[2, 1,
                2, 2], &[208, 48, 71, 68, 191, 137, 54, 191]), f32s(&[], &[0.02]), u8s(&[], &[99]), f32s(&[],
                &[0.2]), u8s(&[], &[40])], vec![u8s(&[1, 2, 2, 2], &[66, 47, 65, 0, 74, 86, 139, 69])],
                EXACT),
            case("groups, stride", node("QLinearConv", 10, 8, vec![int("group", 2), ints("strides", &[2,
                2])]), vec![u8s(&[1, 2, 4, 4], &[163, 229, 143, 32, 227, 47, 14, 204, 115, 164, 33, 184, 103,
                255, 162, 240, 202, 215, 22, 198, 154, 101, 79, 164, 50, 47, 223, 194, 151, 193, 82, 184]),
                f32s(&[], &[0.03]), u8s(&[], &[5]), i8s(&[2, 1, 2, 2], &[-76, -15, -91, -32, -41, -21, -7,
                -120]), f32s(&[], &[0.02]), i8s(&[], &[0]), f32s(&[], &[0.2]), u8s(&[], &[40])], vec![u8s(&[1,
                2, 2, 2], &[0, 0, 0, 0, 0, 0, 0, 0])], EXACT),
            case("i8", node("QLinearConv", 10, 8, vec![]), vec![i8s(&[1, 1, 3, 3], &[-41, 88, -18, 10, -102,
                -29, 120, 12, -123]), f32s(&[], &[0.03]), i8s(&[], &[5]), i8s(&[1, 1, 2, 2], &[56, 69, -31,
                -120]), f32s(&[], &[0.02]), i8s(&[], &[0]), f32s(&[], &[0.2]), i8s(&[], &[-40])],
                vec![i8s(&[1, 1, 2, 2], &[8, -9, -75, -20])], EXACT),
            case("saturates", node("QLinearConv", 10, 8, vec![]), vec![u8s(&[1, 1, 3, 3], &[212, 64, 235, 93,
                99, 203, 35, 7, 194]), f32s(&[], &[0.5]), u8s(&[], &[128]), i8s(&[1, 1, 2, 2], &[109, 126,
                -96, -91]), f32s(&[], &[0.5]), i8s(&[], &[0]), f32s(&[], &[0.1]), u8s(&[], &[128])],
                vec![u8s(&[1, 1, 2, 2], &[255, 255, 255, 255])], EXACT),
        ]
    }
}
