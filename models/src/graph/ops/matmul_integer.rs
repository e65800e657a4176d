use super::conv_integer::{check_zero, zero_at};
use super::literal::*;
use super::matmul::{int_products, matmul_shape};
use super::quantize::byte_range;
use super::{Case, Fact, Operator, OutFact, required};
use crate::Result;
use crate::graph::attrs::NodeInfo;
use saltica_tensor::{DType, View, ViewMut};

/// Matrix product of 8-bit numbers to i32, [ONNX MatMulInteger](https://onnx.ai/onnx/operators/onnx__MatMulInteger.html).
///
/// Inputs: a, b (i8 or u8 each), a's zero point (optional, scalar or one a row), b's zero point (optional, scalar or one a
/// column). Shapes as in MatMul; sums wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatMulInteger;

impl Operator for MatMulInteger {
    fn parse(_: &NodeInfo) -> Result<Self> {
        Ok(MatMulInteger)
    }

    fn name(&self) -> &str {
        "MatMulInteger"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let (a, b) = (required(inputs, 0, "a")?, required(inputs, 1, "b")?);
        byte_range(a.dtype)?;
        byte_range(b.dtype)?;
        let shape = matmul_shape(&a.shape, &b.shape)?;
        let rows = if a.shape.rank() > 1 { a.shape[a.shape.rank() - 2] } else { 1 };
        let columns = if b.shape.rank() > 1 { b.shape[b.shape.rank() - 1] } else { 1 };
        check_zero(inputs.get(2).copied().flatten(), a.dtype, rows, "a's zero point")?;
        check_zero(inputs.get(3).copied().flatten(), b.dtype, columns, "b's zero point")?;
        Ok(vec![OutFact { dtype: DType::I32, shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let (a, b) = (&required(inputs, 0, "a")?, &required(inputs, 1, "b")?);
        let zero = |i: usize| inputs.get(i).copied().flatten();
        let (za, zb) = (zero(2), zero(3));
        let y = &mut outputs[0];
        let za = |i| zero_at(za.as_ref(), i) as i64;
        let zb = |j| zero_at(zb.as_ref(), j) as i64;
        int_products(a, b, za, zb, |at, _, sum| y.set(at, sum as i32))
    }

    #[rustfmt::skip] // tables of numbers
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("plain", node("MatMulInteger", 10, 2, vec![]), vec![u8s(&[2, 3], &[86, 182, 233, 211, 95,
                235]), u8s(&[3, 2], &[65, 31, 111, 23, 173, 252])], vec![i32s(&[2, 2], &[66101, 65568, 64915,
                67946])], EXACT),
            case("zero points", node("MatMulInteger", 10, 4, vec![]), vec![u8s(&[2, 3], &[27, 29, 45, 45, 136,
                147]), i8s(&[3, 2], &[115, -14, 109, 64, 90, -80]), u8s(&[], &[12]), i8s(&[], &[-3])],
                vec![i32s(&[2, 2], &[6743, -1567, 30337, -2450])], EXACT),
            case("zero points per column", node("MatMulInteger", 10, 4, vec![]), vec![u8s(&[2, 3], &[116, 234,
                192, 55, 216, 196]), u8s(&[3, 2], &[37, 17, 66, 121, 39, 8]), u8s(&[], &[12]), u8s(&[2], &[3,
                4])], vec![i32s(&[2, 2], &[24002, 28046, 20938, 25163])], EXACT),
            case("batches", node("MatMulInteger", 10, 3, vec![]), vec![u8s(&[2, 2, 3], &[28, 80, 99, 79, 114,
                184, 63, 116, 186, 14, 240, 254]), i8s(&[3, 2], &[-54, 99, -64, 106, 40, -65]), u8s(&[],
                &[128])], vec![i32s(&[2, 2, 2], &[7312, -13103, 5782, -9975, 6598, -11477, 4028, -7604])],
                EXACT),
            case("i8", node("MatMulInteger", 10, 3, vec![]), vec![i8s(&[2, 3], &[-113, -28, 62, -70, 3, -97]),
                i8s(&[3, 2], &[-20, -120, 124, 0, 87, -97]), i8s(&[], &[4])], vec![i32s(&[2, 2], &[3418, 8414,
                -7431, 18677])], EXACT),
            // numpy.
            case("zero points per row", node("MatMulInteger", 10, 3, vec![]), vec![u8s(&[2, 3], &[42, 45, 145,
                220, 155, 123]), u8s(&[3, 2], &[241, 47, 42, 171, 218, 68]), u8s(&[2], &[5, 6])],
                vec![i32s(&[2, 2], &[41117, 18099, 83338, 43493])], EXACT),
        ]
    }
}
