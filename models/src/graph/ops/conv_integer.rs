use super::literal::*;
use super::window::Window;
use super::{Case, Fact, Operator, OutFact, int_conv, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{DType, View, ViewMut};

/// 2-D convolution of 8-bit numbers to i32, [ONNX ConvInteger](https://onnx.ai/onnx/operators/onnx__ConvInteger.html).
///
/// Inputs: x `[N,C,H,W]`, w `[O,C/group,kh,kw]` (i8 or u8 each), x's zero point (optional scalar), w's zero point
/// (optional scalar or `[O]`). Padding is x's zero point; sums wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvInteger {
    /// Kernel, stride, dilation, padding; the kernel is 0x0 if the file leaves it to the weights.
    pub window: Window,
    /// Groups the channels are split into.
    pub group: usize,
}

/// Reads `group`. Errors if it is not positive.
pub(super) fn parse_group(node: &NodeInfo) -> Result<usize> {
    let group = node.int("group")?.unwrap_or(1);
    if !(1..=1 << 24).contains(&group) {
        return Err(Error::unsupported(format!("group is {group}, a positive number expected")));
    }
    Ok(group as usize)
}

/// Checks an optional zero point: of this dtype, with one element or `many`.
pub(super) fn check_zero(zero: Option<Fact<'_>>, dtype: DType, many: usize, what: &str) -> Result<()> {
    match zero {
        Some(z)
            if z.dtype != dtype
                || z.shape.rank() > 1
                || (z.shape.elements() != 1 && z.shape.elements() != many) =>
        {
            Err(Error::shape(format!(
                "{what} is {} {}, {dtype} scalar or [{many}] expected",
                z.dtype, z.shape
            )))
        }
        _ => Ok(()),
    }
}

/// Entry `i` of an optional parameter that has one element for all or one for each; 0 if it is absent.
pub(super) fn zero_at(zero: Option<&View<'_>>, i: usize) -> i32 {
    zero.map_or(0, |z| z.at_f64(if z.shape().elements() == 1 { 0 } else { i }) as i32)
}

impl Operator for ConvInteger {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(ConvInteger { window: Window::parse(node)?, group: parse_group(node)? })
    }

    fn name(&self) -> &str {
        "ConvInteger"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let (x, w) = (required(inputs, 0, "x")?, required(inputs, 1, "weights")?);
        let (_, shape) = int_conv::shape((x.dtype, &x.shape), (w.dtype, &w.shape), &self.window, self.group)?;
        check_zero(inputs.get(2).copied().flatten(), x.dtype, 1, "x's zero point")?;
        check_zero(inputs.get(3).copied().flatten(), w.dtype, shape[1], "the weights' zero point")?;
        Ok(vec![OutFact { dtype: DType::I32, shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let (x, w) = (&required(inputs, 0, "x")?, &required(inputs, 1, "weights")?);
        let zero = |i: usize| inputs.get(i).copied().flatten();
        let (x_zero, w_zero) = (zero_at(zero(2).as_ref(), 0), zero(3));
        let y = &mut outputs[0];
        let w_zero = |o| zero_at(w_zero.as_ref(), o);
        int_conv::accumulate(x, w, &self.window, self.group, x_zero, w_zero, |at, sum| y.set(at, sum))
    }

    #[rustfmt::skip] // tables of numbers
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("3x3 padding, zero point", node("ConvInteger", 10, 4, vec![ints("kernel_shape", &[3, 3]),
                ints("pads", &[1, 1, 1, 1]), ints("strides", &[1, 1]), int("group", 1), ints("dilations", &[1,
                1])]), vec![u8s(&[1, 2, 4, 4], &[223, 248, 224, 145, 119, 194, 140, 122, 82, 114, 192, 14, 6,
                184, 95, 205, 7, 232, 31, 106, 247, 27, 168, 186, 109, 20, 134, 110, 223, 174, 88, 14]),
                i8s(&[2, 2, 3, 3], &[23, -57, 47, 93, -38, 103, 4, 7, 67, 74, 104, 127, -90, -23, 110, -50,
                -127, 19, 64, 62, 79, 36, -93, 88, -21, 88, 80, 120, -125, 93, 32, -4, 75, 115, 3, -106]),
                u8s(&[], &[100]), i8s(&[], &[0])], vec![i32s(&[1, 2, 4, 4], &[13604, 22958, 2832, 1886, 2735,
                13094, 20569, -12613, -6774, 5022, 13500, 34413, 9995, -26765, -7105, 9177, 29228, 13448,
                -11295, 7221, 51704, 4486, 41944, -2638, -28717, 77202, 7192, 21399, 12617, 12330, -4419,
                -6599])], EXACT),
            case("1x1", node("ConvInteger", 10, 4, vec![ints("kernel_shape", &[1, 1]), ints("pads", &[0, 0, 0,
                0]), ints("strides", &[1, 1])]), vec![u8s(&[1, 3, 2, 2], &[185, 59, 57, 49, 50, 232, 92, 27,
                45, 101, 88, 79]), i8s(&[2, 3, 1, 1], &[114, 93, 18, 124, -41, -93]), u8s(&[], &[3]), i8s(&[],
                &[0])], vec![i32s(&[1, 2, 2, 2], &[25875, 29445, 15963, 8844, 16735, -11559, -4858, -2348])],
                EXACT),
            case("stride 2", node("ConvInteger", 10, 4, vec![ints("kernel_shape", &[3, 3]), ints("pads", &[1,
                1, 1, 1]), ints("strides", &[2, 2])]), vec![u8s(&[1, 1, 5, 5], &[69, 22, 243, 56, 113, 51,
                250, 40, 131, 243, 133, 230, 229, 196, 190, 147, 148, 212, 109, 242, 224, 95, 105, 182, 236]),
                u8s(&[1, 1, 3, 3], &[24, 17, 63, 110, 41, 132, 138, 243, 190]), u8s(&[], &[7]), u8s(&[],
                &[9])], vec![i32s(&[1, 1, 3, 3], &[58108, 76607, 79561, 103216, 148100, 96841, 26502, 42812,
                28413])], EXACT),
            case("no zero points", node("ConvInteger", 10, 2, vec![]), vec![u8s(&[1, 1, 3, 3], &[64, 201, 206,
                174, 173, 79, 183, 34, 161]), u8s(&[1, 1, 2, 2], &[235, 248, 76, 85])], vec![i32s(&[1, 1, 2,
                2], &[92817, 118186, 100592, 76516])], EXACT),
            case("groups", node("ConvInteger", 10, 3, vec![int("group", 2)]), vec![u8s(&[2, 4, 3, 3], &[158,
                101, 187, 51, 43, 12, 120, 54, 76, 234, 208, 215, 151, 28, 191, 154, 232, 122, 44, 152, 116,
                168, 96, 78, 32, 246, 193, 119, 60, 160, 105, 162, 23, 47, 188, 15, 173, 105, 0, 195, 179,
                208, 229, 186, 215, 28, 235, 233, 177, 205, 189, 224, 227, 133, 208, 234, 76, 11, 43, 7, 111,
                5, 66, 64, 180, 63, 243, 48, 248, 145, 62, 9]), u8s(&[4, 2, 2, 2], &[78, 151, 27, 42, 29, 173,
                22, 5, 116, 79, 145, 240, 219, 137, 164, 207, 111, 168, 55, 156, 60, 48, 194, 147, 96, 10, 60,
                205, 119, 245, 230, 218]), u8s(&[], &[1])], vec![i32s(&[2, 4, 2, 2], &[76463, 82051, 29223,
                48858, 153017, 153433, 148551, 126300, 107901, 98958, 124803, 115960, 122648, 124933, 172234,
                134561, 87991, 73811, 102368, 103196, 208081, 242877, 263872, 250006, 135452, 100852, 68519,
                43716, 148670, 128015, 95531, 99539])], EXACT),
            case("i8 input", node("ConvInteger", 10, 3, vec![]), vec![i8s(&[1, 1, 3, 3], &[-124, -116, 20,
                -42, 87, -47, -89, -100, -51]), i8s(&[1, 1, 2, 2], &[32, -96, 76, -51]), i8s(&[], &[-3])],
                vec![i32s(&[1, 1, 2, 2], &[-578, 3260, -11477, 2180])], EXACT),
            // onnx reference.
            case("weight zero points per channel", node("ConvInteger", 10, 4, vec![]), vec![u8s(&[1, 1, 3, 3],
                &[80, 169, 220, 111, 204, 78, 33, 212, 196]), i8s(&[2, 1, 2, 2], &[64, 97, -1, -78, 21, 18,
                -30, 35]), u8s(&[], &[5]), i8s(&[2], &[3, -4])], vec![i32s(&[1, 2, 2, 2], &[3448, 23505, 8293,
                2702, 10488, 6503, 14373, 8648])], EXACT),
        ]
    }
}
