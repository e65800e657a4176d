use super::conv_integer::{check_zero, zero_at};
use super::literal::*;
use super::matmul::{int_products, matmul_shape};
use super::qlinear_conv::{check_scale, scale_at};
use super::quantize::{byte_range, round_to};
use super::{Case, Fact, Operator, OutFact, required};
use crate::Result;
use crate::graph::attrs::NodeInfo;
use saltica_tensor::{DType, View, ViewMut};

/// Matrix product of 8-bit numbers to 8-bit numbers,
/// [ONNX QLinearMatMul](https://onnx.ai/onnx/operators/onnx__QLinearMatMul.html).
///
/// Inputs: a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero; a's and y's parameters are scalars, b's are scalars or
/// one a column. Shapes as in MatMul, arithmetic as in [`super::QLinearConv`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QLinearMatMul;

impl Operator for QLinearMatMul {
    fn parse(_: &NodeInfo) -> Result<Self> {
        Ok(QLinearMatMul)
    }

    fn name(&self) -> &str {
        "QLinearMatMul"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let (a, b) = (required(inputs, 0, "a")?, required(inputs, 3, "b")?);
        let y_zero = required(inputs, 7, "y's zero point")?;
        byte_range(a.dtype)?;
        byte_range(b.dtype)?;
        byte_range(y_zero.dtype)?;
        let shape = matmul_shape(&a.shape, &b.shape)?;
        let columns = if b.shape.rank() > 1 { b.shape[b.shape.rank() - 1] } else { 1 };
        check_scale(required(inputs, 1, "a's scale")?, 1, "a's scale")?;
        check_scale(required(inputs, 4, "b's scale")?, columns, "b's scale")?;
        check_scale(required(inputs, 6, "y's scale")?, 1, "y's scale")?;
        check_zero(Some(required(inputs, 2, "a's zero point")?), a.dtype, 1, "a's zero point")?;
        check_zero(Some(required(inputs, 5, "b's zero point")?), b.dtype, columns, "b's zero point")?;
        check_zero(Some(y_zero), y_zero.dtype, 1, "y's zero point")?;
        Ok(vec![OutFact { dtype: y_zero.dtype, shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let (a, b) = (&required(inputs, 0, "a")?, &required(inputs, 3, "b")?);
        let (a_scale, b_scale) = (required(inputs, 1, "a's scale")?, required(inputs, 4, "b's scale")?);
        let (a_zero, b_zero) = (required(inputs, 2, "a's zero")?, required(inputs, 5, "b's zero")?);
        let (y_scale, y_zero) = (required(inputs, 6, "y's scale")?, required(inputs, 7, "y's zero")?);
        let y = &mut outputs[0];
        let (lo, hi) = byte_range(y.dtype())?;
        let (a_zero, y_zero) = (zero_at(Some(&a_zero), 0), zero_at(Some(&y_zero), 0));
        let (a_scale, y_scale) = (scale_at(&a_scale, 0), scale_at(&y_scale, 0));
        let zero = |j| zero_at(Some(&b_zero), j) as i64;
        int_products(
            a,
            b,
            |_| a_zero as i64,
            zero,
            |at, j, sum| {
                let factor = a_scale * scale_at(&b_scale, j) / y_scale;
                let v = round_to(sum as i32 as f32 * factor, y_zero, lo, hi);
                if y.dtype() == DType::I8 { y.set(at, v as i8) } else { y.set(at, v as u8) }
            },
        )
    }

    #[rustfmt::skip] // tables of numbers
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("u8", node("QLinearMatMul", 10, 8, vec![]), vec![u8s(&[2, 4], &[66, 134, 199, 72, 210, 132,
                180, 160]), f32s(&[], &[0.0066]), u8s(&[], &[113]), u8s(&[4, 3], &[123, 137, 254, 101, 241,
                202, 46, 223, 98, 45, 64, 34]), f32s(&[], &[0.00705]), u8s(&[], &[114]), f32s(&[], &[0.0107]),
                u8s(&[], &[118])], vec![u8s(&[2, 3], &[102, 175, 106, 87, 160, 163])], EXACT),
            case("i8 weights per column", node("QLinearMatMul", 10, 8, vec![]), vec![u8s(&[2, 4], &[86, 28,
                139, 250, 246, 241, 62, 59]), f32s(&[], &[0.02]), u8s(&[], &[113]), i8s(&[4, 3], &[45, 120,
                83, -75, 60, 1, -15, -1, 11, 106, 74, -118]), f32s(&[3], &[0.01, 0.02, 0.03]), i8s(&[3], &[0,
                0, 0]), f32s(&[], &[0.4]), u8s(&[], &[118])], vec![u8s(&[2, 3], &[128, 120, 91, 114, 138,
                143])], EXACT),
            case("batches, i8", node("QLinearMatMul", 10, 8, vec![]), vec![i8s(&[2, 2, 4], &[67, -48, -42, 25,
                123, -112, 3, -68, 105, -9, 90, 97, -103, 66, 74, 84]), f32s(&[], &[0.02]), i8s(&[], &[3]),
                i8s(&[4, 3], &[124, 66, 85, 53, -53, 89, 51, 46, 121, 60, -42, -51]), f32s(&[], &[0.02]),
                i8s(&[], &[0]), f32s(&[], &[0.4]), i8s(&[], &[-8])], vec![i8s(&[2, 2, 3], &[-4, -4, -14, -3,
                9, -4, 14, -1, 5, -9, -18, -7])], EXACT),
            case("u8 weights, zero points per column", node("QLinearMatMul", 10, 8, vec![]), vec![u8s(&[2, 4],
                &[83, 42, 20, 193, 200, 42, 100, 235]), f32s(&[], &[0.02]), u8s(&[], &[3]), u8s(&[4, 2],
                &[214, 152, 248, 84, 216, 239, 151, 39]), f32s(&[2], &[0.02, 0.01]), u8s(&[2], &[100, 120]),
                f32s(&[], &[0.4]), u8s(&[], &[120])], vec![u8s(&[2, 2], &[147, 114, 171, 119])], EXACT),
        ]
    }
}
