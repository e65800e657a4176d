use super::literal::*;
use super::quantize::{check_parameters, map_along, parameter_axis, parse_axis};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use half::f16;
use saltica_tensor::{DType, Element, View, ViewMut};

/// Quantized numbers to floats, (x - zero) * scale,
/// [ONNX DequantizeLinear](https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html).
///
/// Inputs: x (i8, u8 or i32), scale (f32 or f16, the output's type), zero point (optional, x's type); one of each, or one
/// for each element of the axis. The difference is an i32, the product f32; f16 is rounded from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DequantizeLinear {
    /// Axis of per-axis parameters, counted from the end if negative.
    pub axis: i64,
}

impl DequantizeLinear {
    fn apply<A: Element, B: Element>(
        &self,
        inputs: &[Option<View<'_>>],
        y: &mut ViewMut<'_>,
        integer: impl Fn(A) -> i32,
        float: impl Fn(f32) -> B,
    ) -> Result<()> {
        let (x, scale) = (&required(inputs, 0, "x")?, &required(inputs, 1, "scale")?);
        let zero = inputs.get(2).copied().flatten();
        let axis = parameter_axis(x.shape(), self.axis, scale)?;
        let parameters =
            |i: usize| (scale.at_f64(i) as f32, zero.as_ref().map_or(0, |z| integer(z.at::<A>(i))));
        let real = |v: A, (scale, zero): (f32, i32)| float(integer(v).wrapping_sub(zero) as f32 * scale);
        if axis.is_none() {
            let one = parameters(0);
            return map_along(x, y, None, |_, v: A| real(v, one));
        }
        map_along(x, y, axis, |i, v: A| real(v, parameters(i)))
    }

    fn into<B: Element>(
        &self,
        inputs: &[Option<View<'_>>],
        y: &mut ViewMut<'_>,
        float: impl Fn(f32) -> B,
    ) -> Result<()> {
        match required(inputs, 0, "x")?.dtype() {
            DType::I8 => self.apply(inputs, y, |v: i8| v as i32, float),
            DType::U8 => self.apply(inputs, y, |v: u8| v as i32, float),
            _ => self.apply(inputs, y, |v: i32| v, float),
        }
    }
}

impl Operator for DequantizeLinear {
    fn parse(node: &NodeInfo) -> Result<Self> {
        if node.int("output_dtype")?.unwrap_or(0) != 0 {
            return Err(Error::unsupported("output_dtype of DequantizeLinear is not supported"));
        }
        Ok(DequantizeLinear { axis: parse_axis(node)? })
    }

    fn name(&self) -> &str {
        "DequantizeLinear"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let (x, scale) = (required(inputs, 0, "x")?, required(inputs, 1, "scale")?);
        let zero = inputs.get(2).copied().flatten();
        if !matches!(x.dtype, DType::I8 | DType::U8 | DType::I32) {
            return Err(Error::shape(format!("x is {}, i8, u8 or i32 expected", x.dtype)));
        }
        if !matches!(scale.dtype, DType::F32 | DType::F16) {
            return Err(Error::shape(format!("scale is {}, f32 or f16 expected", scale.dtype)));
        }
        if let Some(zero) = zero
            && zero.dtype != x.dtype
        {
            return Err(Error::shape(format!("x is {} and its zero point {}", x.dtype, zero.dtype)));
        }
        check_parameters(&x.shape, self.axis, &scale, zero.as_ref())?;
        Ok(vec![OutFact { dtype: scale.dtype, shape: x.shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let y = &mut outputs[0];
        match y.dtype() {
            DType::F16 => self.into(inputs, y, f16::from_f32),
            _ => self.into(inputs, y, |v: f32| v),
        }
    }

    #[rustfmt::skip] // tables of numbers
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("uint8", node("DequantizeLinear", 10, 3, vec![]), vec![u8s(&[2, 3], &[0, 0, 5, 7, 100, 255]),
                f32s(&[], &[0.1]), u8s(&[], &[5])], vec![f32s(&[2, 3], &[-0.5, -0.5, 0., 0.2, 9.5, 25.])],
                EXACT),
            case("per axis, uint8", node("DequantizeLinear", 13, 3, vec![]), vec![u8s(&[2, 3], &[0, 0, 5, 7,
                100, 255]), f32s(&[3], &[0.1, 0.2, 0.3]), u8s(&[3], &[1, 2, 3])], vec![f32s(&[2, 3], &[-0.1,
                -0.4, 0.6, 0.6, 19.6, 75.600006])], EXACT),
            case("per axis 0, uint8", node("DequantizeLinear", 19, 3, vec![int("axis", 0)]), vec![u8s(&[2, 3],
                &[0, 0, 5, 7, 100, 255]), f32s(&[2], &[0.1, 0.2]), u8s(&[2], &[1, 2])], vec![f32s(&[2, 3],
                &[-0.1, -0.1, 0.4, 1., 19.6, 50.600002])], EXACT),
            case("no zero point, uint8", node("DequantizeLinear", 13, 2, vec![]), vec![u8s(&[2, 3], &[0, 0, 5,
                7, 100, 255]), f32s(&[], &[0.7])], vec![f32s(&[2, 3], &[0., 0., 3.5, 4.9, 70., 178.5])],
                EXACT),
            case("int8", node("DequantizeLinear", 10, 3, vec![]), vec![i8s(&[2, 3], &[-128, 0, 5, 7, 100,
                127]), f32s(&[], &[0.1]), i8s(&[], &[5])], vec![f32s(&[2, 3], &[-13.3, -0.5, 0., 0.2, 9.5,
                12.2])], EXACT),
            case("per axis, int8", node("DequantizeLinear", 13, 3, vec![]), vec![i8s(&[2, 3], &[-128, 0, 5, 7,
                100, 127]), f32s(&[3], &[0.1, 0.2, 0.3]), i8s(&[3], &[1, 2, 3])], vec![f32s(&[2, 3],
                &[-12.900001, -0.4, 0.6, 0.6, 19.6, 37.2])], EXACT),
            case("per axis 0, int8", node("DequantizeLinear", 19, 3, vec![int("axis", 0)]), vec![i8s(&[2, 3],
                &[-128, 0, 5, 7, 100, 127]), f32s(&[2], &[0.1, 0.2]), i8s(&[2], &[1, 2])], vec![f32s(&[2, 3],
                &[-12.900001, -0.1, 0.4, 1., 19.6, 25.])], EXACT),
            case("no zero point, int8", node("DequantizeLinear", 13, 2, vec![]), vec![i8s(&[2, 3], &[-128, 0,
                5, 7, 100, 127]), f32s(&[], &[0.7])], vec![f32s(&[2, 3], &[-89.6, 0., 3.5, 4.9, 70., 88.9])],
                EXACT),
            case("i32 bias", node("DequantizeLinear", 13, 3, vec![]), vec![i32s(&[4], &[-482617740,
                -462812483, 386511378, -259904226]), f32s(&[], &[0.003]), i32s(&[], &[0])], vec![f32s(&[4],
                &[-1447853.2, -1388437.5, 1159534.1, -779712.7])], EXACT),
            case("i32 per axis", node("DequantizeLinear", 13, 2, vec![int("axis", 0)]), vec![i32s(&[4],
                &[21011, -10858, 27599, 9430]), f32s(&[4], &[0.3024, 0.8812, 0.4799, 0.8056])],
                vec![f32s(&[4], &[6353.726, -9568.069, 13244.76, 7596.808])], EXACT),
            case("f16 scale", node("DequantizeLinear", 19, 3, vec![]), vec![i8s(&[4], &[35, 65, -80, -19]),
                f16s(&[], &[0.3]), i8s(&[], &[-5])], vec![f16s(&[4], &[12., 21., -22.5, -4.2])], EXACT),
            case("weights per channel", node("DequantizeLinear", 13, 3, vec![int("axis", 0)]), vec![i8s(&[2,
                1, 2, 2], &[9, 9, -5, -9, 3, -9, -4, 0]), f32s(&[2], &[0.5, 0.25]), i8s(&[2], &[0, 0])],
                vec![f32s(&[2, 1, 2, 2], &[4.5, 4.5, -2.5, -4.5, 0.75, -2.25, -1., 0.])], EXACT),
            case("no elements", node("DequantizeLinear", 13, 3, vec![]), vec![i8s(&[0, 2], &[]), f32s(&[],
                &[1.]), i8s(&[], &[0])], vec![f32s(&[0, 2], &[])], CLOSE),
        ]
    }
}
