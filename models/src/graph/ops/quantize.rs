use super::elementwise::{map, memory_order, permuted, rows};
use super::literal::*;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use half::f16;
use saltica_tensor::{DType, Element, Shape, View, ViewMut};

/// Smallest and largest number of an 8-bit type. Errors on other types.
pub(super) fn byte_range(dtype: DType) -> Result<(i32, i32)> {
    match dtype {
        DType::I8 => Ok((i8::MIN as i32, i8::MAX as i32)),
        DType::U8 => Ok((0, u8::MAX as i32)),
        other => Err(Error::shape(format!("{other} found where i8 or u8 is expected"))),
    }
}

/// v as a number of lo..=hi: v / scale (true division in f32), rounded half to even, plus zero, saturated. NaN gives lo.
///
/// This is QuantizeLinear's arithmetic and that of every op that gives 8-bit numbers.
#[inline]
pub fn quantize(v: f32, scale: f32, zero: i32, lo: i32, hi: i32) -> i32 {
    round_to(v / scale, zero, lo, hi)
}

/// v rounded half to even, plus zero, saturated to lo..=hi. NaN gives lo.
#[inline]
pub(super) fn round_to(v: f32, zero: i32, lo: i32, hi: i32) -> i32 {
    // Bounds are whole numbers, so limiting first changes nothing but keeps the sum in range; `max` takes lo over NaN.
    let limited = v.max((lo - zero) as f32).min((hi - zero) as f32);
    limited.round_ties_even() as i32 + zero
}

/// Checks a scale and a zero point against x: both of one element, or both `[x.shape[axis]]`.
pub(super) fn check_parameters(
    x: &Shape,
    axis: i64,
    scale: &Fact<'_>,
    zero: Option<&Fact<'_>>,
) -> Result<()> {
    if scale.shape.elements() != 1 || scale.shape.rank() > 1 {
        let per_axis = Shape::axis(axis, x.rank()).is_ok_and(|a| scale.shape.dims() == [x[a]]);
        if !per_axis {
            return Err(Error::shape(format!(
                "scale is {}, one number or one per element of axis {axis} of {x} expected \
                 (blocked quantization is not supported)",
                scale.shape
            )));
        }
    }
    if let Some(zero) = zero
        && zero.shape.elements() != scale.shape.elements()
    {
        return Err(Error::shape(format!("scale is {} and zero point {}", scale.shape, zero.shape)));
    }
    Ok(())
}

/// y = f(parameter index, x) where the parameter index counts along `axis`, or is always 0 without one.
pub(super) fn map_along<A: Element, B: Element>(
    x: &View<'_>,
    y: &mut ViewMut<'_>,
    axis: Option<usize>,
    f: impl Fn(usize, A) -> B,
) -> Result<()> {
    let Some(axis) = axis else { return map(x, y, |v| f(0, v)) };
    if x.shape().elements() == 0 {
        return Ok(());
    }
    let rank = x.shape().rank();
    let order = memory_order(y.layout());
    let x = permuted(x, &order[..rank])?;
    let mut y = y.permuted(&order[..rank])?;
    let axis = order[..rank].iter().position(|&d| d == axis).unwrap_or(0);
    let last = axis + 1 == rank;
    for mut index in rows(y.shape())? {
        if let (Some(x), Some(y)) = (x.row::<A>(&index), y.row_mut::<B>(&index)) {
            if last {
                y.iter_mut().zip(x).enumerate().for_each(|(i, (y, &x))| *y = f(i, x));
            } else {
                y.iter_mut().zip(x).for_each(|(y, &x)| *y = f(index[axis], x));
            }
            continue;
        }
        for i in 0..y.shape()[rank - 1] {
            index[rank - 1] = i;
            y.set(&index, f(index[axis], x.get(&index)));
        }
    }
    Ok(())
}

/// The axis that parameters vary along, if they do.
pub(super) fn parameter_axis(x: &Shape, axis: i64, scale: &View<'_>) -> Result<Option<usize>> {
    Ok(if scale.shape().elements() == 1 { None } else { Some(Shape::axis(axis, x.rank())?) })
}

/// Reads what QuantizeLinear and DequantizeLinear share: the axis. Errors on blocks.
pub(super) fn parse_axis(node: &NodeInfo) -> Result<i64> {
    if node.int("block_size")?.unwrap_or(0) != 0 {
        return Err(Error::unsupported("blocked quantization (block_size) is not supported"));
    }
    Ok(node.int("axis")?.unwrap_or(1))
}

/// Floats to 8-bit numbers, [ONNX QuantizeLinear](https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html); the
/// arithmetic is [`quantize`]'s.
///
/// Inputs: x (f32, f16 or i32), scale, zero point (optional); one of each, or one for each element of the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantizeLinear {
    /// Axis of per-axis parameters, counted from the end if negative.
    pub axis: i64,
    /// Output type if there is no zero point to say it.
    pub dtype: DType,
}

impl QuantizeLinear {
    fn apply<A: Element, B: Element>(
        &self,
        inputs: &[Option<View<'_>>],
        y: &mut ViewMut<'_>,
        real: impl Fn(A) -> f32,
        byte: impl Fn(i32) -> B,
    ) -> Result<()> {
        let (x, scale) = (&required(inputs, 0, "x")?, &required(inputs, 1, "scale")?);
        let zero = inputs.get(2).copied().flatten();
        let (lo, hi) = byte_range(y.dtype())?;
        let parameters = |i: usize| (scale.at_f64(i) as f32, zero.as_ref().map_or(0, |z| z.at_f64(i) as i32));
        match parameter_axis(x.shape(), self.axis, scale)? {
            None => {
                let (scale, zero) = parameters(0);
                map(x, y, |v: A| byte(quantize(real(v), scale, zero, lo, hi)))
            }
            axis => map_along(x, y, axis, |i, v: A| {
                let (scale, zero) = parameters(i);
                byte(quantize(real(v), scale, zero, lo, hi))
            }),
        }
    }

    fn from<A: Element>(
        &self,
        inputs: &[Option<View<'_>>],
        y: &mut ViewMut<'_>,
        real: impl Fn(A) -> f32,
    ) -> Result<()> {
        match y.dtype() {
            DType::I8 => self.apply(inputs, y, real, |v| v as i8),
            _ => self.apply(inputs, y, real, |v| v as u8),
        }
    }
}

impl Operator for QuantizeLinear {
    fn parse(node: &NodeInfo) -> Result<Self> {
        // These two speak of 8-bit floats and of the precision of wider ones.
        node.ignore("saturate");
        node.ignore("precision");
        let dtype = match node.int("output_dtype")?.unwrap_or(0) {
            0 | 2 => DType::U8,
            3 => DType::I8,
            other => {
                return Err(Error::unsupported(format!(
                    "output_dtype is {other}, 2 (uint8) or 3 (int8) expected"
                )));
            }
        };
        Ok(QuantizeLinear { axis: parse_axis(node)?, dtype })
    }

    fn name(&self) -> &str {
        "QuantizeLinear"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let (x, scale) = (required(inputs, 0, "x")?, required(inputs, 1, "scale")?);
        let zero = inputs.get(2).copied().flatten();
        if !matches!(x.dtype, DType::F32 | DType::F16 | DType::I32) {
            return Err(Error::shape(format!("x is {}, f32, f16 or i32 expected", x.dtype)));
        }
        if !matches!(scale.dtype, DType::F32 | DType::F16) {
            return Err(Error::shape(format!("scale is {}, f32 or f16 expected", scale.dtype)));
        }
        check_parameters(&x.shape, self.axis, &scale, zero.as_ref())?;
        let dtype = zero.map_or(self.dtype, |z| z.dtype);
        byte_range(dtype)?;
        Ok(vec![OutFact { dtype, shape: x.shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let y = &mut outputs[0];
        match required(inputs, 0, "x")?.dtype() {
            DType::F16 => self.from(inputs, y, f16::to_f32),
            DType::I32 => self.from(inputs, y, |v: i32| v as f32),
            _ => self.from(inputs, y, |v: f32| v),
        }
    }

    #[rustfmt::skip] // tables of numbers
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("halves to even, uint8", node("QuantizeLinear", 13, 3, vec![]), vec![f32s(&[2, 4],
                &[-1.0e+09, -3., -0.75, -0.25, 0.25, 0.75, 2.2, 1.0e+09]), f32s(&[], &[0.5]), u8s(&[], &[0])],
                vec![u8s(&[2, 4], &[0, 0, 0, 0, 0, 2, 4, 255])], EXACT),
            case("zero point, uint8", node("QuantizeLinear", 10, 3, vec![]), vec![f32s(&[2, 4], &[-1.0e+09,
                -3., -0.75, -0.25, 0.25, 0.75, 2.2, 1.0e+09]), f32s(&[], &[0.25]), u8s(&[], &[100])],
                vec![u8s(&[2, 4], &[0, 88, 97, 99, 101, 103, 109, 255])], EXACT),
            case("per axis, uint8", node("QuantizeLinear", 13, 3, vec![int("axis", 1)]), vec![f32s(&[2, 3, 2],
                &[0.5, 1.59, 1.1, -1.1, -0.8, 1.49, -1.98, 1.28, 1.19, -0.13, -0.79, -0.89]), f32s(&[3],
                &[0.1, 0.2, 0.05]), u8s(&[3], &[1, 2, 3])], vec![u8s(&[2, 3, 2], &[6, 17, 8, 0, 0, 33, 0, 14,
                8, 1, 0, 0])], EXACT),
            case("per last axis, uint8", node("QuantizeLinear", 19, 3, vec![int("axis", -1)]), vec![f32s(&[2,
                3], &[-0.98, -0.22, 0.02, 0.21, 1.98, 1.17]), f32s(&[3], &[0.1, 0.2, 0.05]), u8s(&[3], &[1, 2,
                3])], vec![u8s(&[2, 3], &[0, 1, 3, 3, 12, 26])], EXACT),
            case("per first axis, uint8", node("QuantizeLinear", 21, 3, vec![int("axis", 0)]), vec![f32s(&[2,
                3], &[0.49, 1.96, -1.14, -1.36, 0.45, -1.82]), f32s(&[2], &[0.1, 0.2]), u8s(&[2], &[9, 8])],
                vec![u8s(&[2, 3], &[14, 29, 0, 1, 10, 0])], EXACT),
            case("halves to even, int8", node("QuantizeLinear", 13, 3, vec![]), vec![f32s(&[2, 4], &[-1.0e+09,
                -3., -0.75, -0.25, 0.25, 0.75, 2.2, 1.0e+09]), f32s(&[], &[0.5]), i8s(&[], &[0])],
                vec![i8s(&[2, 4], &[-128, -6, -2, 0, 0, 2, 4, 127])], EXACT),
            case("zero point, int8", node("QuantizeLinear", 10, 3, vec![]), vec![f32s(&[2, 4], &[-1.0e+09,
                -3., -0.75, -0.25, 0.25, 0.75, 2.2, 1.0e+09]), f32s(&[], &[0.25]), i8s(&[], &[100])],
                vec![i8s(&[2, 4], &[-128, 88, 97, 99, 101, 103, 109, 127])], EXACT),
            case("per axis, int8", node("QuantizeLinear", 13, 3, vec![int("axis", 1)]), vec![f32s(&[2, 3, 2],
                &[-1.86, 0.06, -0.14, 1.67, 0.52, 0.06, -0.01, -1.01, -1.95, -1.23, 0.77, -1.2]), f32s(&[3],
                &[0.1, 0.2, 0.05]), i8s(&[3], &[1, 2, 3])], vec![i8s(&[2, 3, 2], &[-18, 2, 1, 10, 13, 4, 1,
                -9, -8, -4, 18, -21])], EXACT),
            case("per last axis, int8", node("QuantizeLinear", 19, 3, vec![int("axis", -1)]), vec![f32s(&[2,
                3], &[-0.52, -1.99, 1.32, -1.38, -0.93, 1.52]), f32s(&[3], &[0.1, 0.2, 0.05]), i8s(&[3], &[1,
                2, 3])], vec![i8s(&[2, 3], &[-4, -8, 29, -13, -3, 33])], EXACT),
            case("per first axis, int8", node("QuantizeLinear", 21, 3, vec![int("axis", 0)]), vec![f32s(&[2,
                3], &[0.04, 1.39, 0.56, 0.97, -1.63, 0.16]), f32s(&[2], &[0.1, 0.2]), i8s(&[2], &[9, 8])],
                vec![i8s(&[2, 3], &[9, 23, 15, 13, 0, 9])], EXACT),
            case("no zero point", node("QuantizeLinear", 13, 2, vec![]), vec![f32s(&[2, 4], &[-1.0e+09, -3.,
                -0.75, -0.25, 0.25, 0.75, 2.2, 1.0e+09]), f32s(&[], &[0.5])], vec![u8s(&[2, 4], &[0, 0, 0, 0,
                0, 2, 4, 255])], EXACT),
            // onnx reference.
            case("output_dtype of opset 21", node("QuantizeLinear", 21, 2, vec![int("output_dtype", 3)]),
                vec![f32s(&[2, 4], &[-1.0e+09, -3., -0.75, -0.25, 0.25, 0.75, 2.2, 1.0e+09]), f32s(&[],
                &[0.5])], vec![i8s(&[2, 4], &[-128, -6, -2, 0, 0, 2, 4, 127])], EXACT),
            case("scale of one element", node("QuantizeLinear", 13, 3, vec![]), vec![f32s(&[3], &[0.03, 1.49,
                -0.55]), f32s(&[1], &[0.1]), u8s(&[1], &[7])], vec![u8s(&[3], &[7, 22, 1])], EXACT),
            // onnx reference.
            case("i32", node("QuantizeLinear", 19, 3, vec![]), vec![i32s(&[5], &[86, 59, -235, -265, 96]),
                f32s(&[], &[0.5]), i8s(&[], &[3])], vec![i8s(&[5], &[127, 121, -128, -128, 127])], EXACT),
            case("no elements", node("QuantizeLinear", 13, 3, vec![]), vec![f32s(&[0, 2], &[]), f32s(&[],
                &[1.]), u8s(&[], &[0])], vec![u8s(&[0, 2], &[])], EXACT),
            case("f16", node("QuantizeLinear", 19, 3, vec![]), vec![f16s(&[5], &[-0.71, -1.4, 1.27, -0.48,
                1.91]), f16s(&[], &[0.125]), i8s(&[], &[3])], vec![i8s(&[5], &[-3, -8, 13, -1, 18])], EXACT),
            case("infinities", node("QuantizeLinear", 13, 3, vec![]), vec![f32s(&[2], &[f32::INFINITY,
                f32::NEG_INFINITY]), f32s(&[], &[0.1]), i8s(&[], &[5])], vec![i8s(&[2], &[127, -128])],
                EXACT),
            // Quotients near halves: a product with the reciprocal would round some the other way.
            case("true division", node("QuantizeLinear", 13, 3, vec![]), vec![f32s(&[12], &[0.05, 0.15, 0.25,
                0.35, 0.45000002, 0.55, 0.65000004, 0.75, 0.85, 0.95, 1.0500001, 1.15]), f32s(&[], &[0.1]),
                u8s(&[], &[0])], vec![u8s(&[12], &[0, 2, 2, 4, 4, 6, 7, 8, 8, 10, 11, 12])], EXACT),
        ]
    }
}
