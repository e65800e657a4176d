use super::elementwise::{Number, map, numbers};
use super::literal::*;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{DType, View, ViewMut};

/// min(max(x, lo), hi), [ONNX Clip](https://onnx.ai/onnx/operators/onnx__Clip.html). NaN stays NaN.
///
/// Inputs: x, lo (optional scalar), hi (optional scalar), all of one dtype. Before opset 11 the bounds are attributes;
/// an input's bound counts where both are there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clip {
    /// Lower bound, if the node gives it as an attribute.
    pub lo: Option<f32>,
    /// Upper bound, if the node gives it as an attribute.
    pub hi: Option<f32>,
}

impl Clip {
    fn clip<T: Number>(
        &self,
        x: &View<'_>,
        lo: Option<View<'_>>,
        hi: Option<View<'_>>,
        y: &mut ViewMut<'_>,
    ) -> Result<()> {
        let bound = |input: Option<View<'_>>, attribute: Option<f32>| {
            input.map(|v| v.at::<T>(0)).or(attribute.map(|v| T::from_f64(v as f64)))
        };
        // With lo > hi every element is hi, as the formula says. A NaN bound limits nothing.
        let above = |v: T, lo: T| if v < lo { lo } else { v };
        let below = |v: T, hi: T| if v > hi { hi } else { v };
        match (bound(lo, self.lo), bound(hi, self.hi)) {
            (Some(lo), Some(hi)) => map(x, y, |v: T| below(above(v, lo), hi)),
            (Some(lo), None) => map(x, y, |v: T| above(v, lo)),
            (None, Some(hi)) => map(x, y, |v: T| below(v, hi)),
            (None, None) => map(x, y, |v: T| v),
        }
    }
}

impl Operator for Clip {
    fn parse(node: &NodeInfo) -> Result<Self> {
        if node.opset < 11 {
            return Ok(Clip { lo: node.float("min")?, hi: node.float("max")? });
        }
        Ok(Clip { lo: None, hi: None })
    }

    fn name(&self) -> &str {
        "Clip"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        if x.dtype == DType::Bool {
            return Err(Error::shape("Clip does not take bool"));
        }
        for (i, what) in [(1, "min"), (2, "max")] {
            if let Some(bound) = inputs.get(i).copied().flatten()
                && (bound.shape.elements() != 1 || bound.dtype != x.dtype)
            {
                return Err(Error::shape(format!(
                    "{what} is {} {}, a scalar of {} expected",
                    bound.dtype, bound.shape, x.dtype
                )));
            }
        }
        Ok(vec![OutFact { dtype: x.dtype, shape: x.shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = &required(inputs, 0, "x")?;
        let (lo, hi) = (inputs.get(1).copied().flatten(), inputs.get(2).copied().flatten());
        let y = &mut outputs[0];
        numbers!(x.dtype(), T => self.clip::<T>(x, lo, hi, y), Err(Error::shape("Clip does not take bool")))
    }

    #[rustfmt::skip] // tables of numbers
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("both bounds", node("Clip", 13, 3, vec![]), vec![f32s(&[2, 4], &[2.66, 4.2, 6.19, 4.78, 4.42,
                2.06, 3.58, 1.96]), f32s(&[], &[0.]), f32s(&[], &[6.])], vec![f32s(&[2, 4], &[2.66, 4.2, 6.,
                4.78, 4.42, 2.06, 3.58, 1.96])], CLOSE),
            case("lower only", node("Clip", 11, 2, vec![]), vec![f32s(&[2, 4], &[2.66, 4.2, 6.19, 4.78, 4.42,
                2.06, 3.58, 1.96]), f32s(&[], &[-1.])], vec![f32s(&[2, 4], &[2.66, 4.2, 6.19, 4.78, 4.42,
                2.06, 3.58, 1.96])], CLOSE),
            case("lower only, upper absent", node("Clip", 13, 3, vec![]), vec![f32s(&[2, 4], &[2.66, 4.2,
                6.19, 4.78, 4.42, 2.06, 3.58, 1.96]), f32s(&[], &[-1.]), None], vec![f32s(&[2, 4], &[2.66,
                4.2, 6.19, 4.78, 4.42, 2.06, 3.58, 1.96])], CLOSE),
            case("upper only", node("Clip", 13, 3, vec![]), vec![f32s(&[2, 4], &[2.66, 4.2, 6.19, 4.78, 4.42,
                2.06, 3.58, 1.96]), None, f32s(&[], &[1.5])], vec![f32s(&[2, 4], &[1.5, 1.5, 1.5, 1.5, 1.5,
                1.5, 1.5, 1.5])], CLOSE),
            case("no bounds", node("Clip", 13, 1, vec![]), vec![f32s(&[2, 4], &[2.66, 4.2, 6.19, 4.78, 4.42,
                2.06, 3.58, 1.96])], vec![f32s(&[2, 4], &[2.66, 4.2, 6.19, 4.78, 4.42, 2.06, 3.58, 1.96])],
                CLOSE),
            case("attributes of opset 9", node("Clip", 9, 1, vec![float("min", 0.), float("max", 6.)]),
                vec![f32s(&[2, 4], &[2.66, 4.2, 6.19, 4.78, 4.42, 2.06, 3.58, 1.96])], vec![f32s(&[2, 4],
                &[2.66, 4.2, 6., 4.78, 4.42, 2.06, 3.58, 1.96])], CLOSE),
            case("one attribute of opset 10", node("Clip", 10, 1, vec![float("max", 1.5)]), vec![f32s(&[2, 4],
                &[2.66, 4.2, 6.19, 4.78, 4.42, 2.06, 3.58, 1.96])], vec![f32s(&[2, 4], &[1.5, 1.5, 1.5, 1.5,
                1.5, 1.5, 1.5, 1.5])], CLOSE),
            case("no attributes of opset 9", node("Clip", 9, 1, vec![]), vec![f32s(&[2, 4], &[2.66, 4.2, 6.19,
                4.78, 4.42, 2.06, 3.58, 1.96])], vec![f32s(&[2, 4], &[2.66, 4.2, 6.19, 4.78, 4.42, 2.06, 3.58,
                1.96])], CLOSE),
            case("i64", node("Clip", 12, 3, vec![]), vec![i64s(&[6], &[-6, 5, 8, -2, -1, -1]), i64s(&[],
                &[-2]), i64s(&[], &[3])], vec![i64s(&[6], &[-2, 3, 3, -2, -1, -1])], EXACT),
            case("i32", node("Clip", 12, 3, vec![]), vec![i32s(&[6], &[-8, 5, 7, 0, -8, -3]), i32s(&[],
                &[-2]), i32s(&[], &[3])], vec![i32s(&[6], &[-2, 3, 3, 0, -2, -2])], EXACT),
            case("u8", node("Clip", 12, 3, vec![]), vec![u8s(&[6], &[1, 8, 8, 3, 3, 8]), u8s(&[], &[2]),
                u8s(&[], &[4])], vec![u8s(&[6], &[2, 4, 4, 3, 3, 4])], EXACT),
            case("i8", node("Clip", 12, 3, vec![]), vec![i8s(&[6], &[-8, 5, 9, -1, 5, 4]), i8s(&[], &[2]),
                i8s(&[], &[4])], vec![i8s(&[6], &[2, 4, 4, 2, 4, 4])], EXACT),
            case("f16", node("Clip", 13, 3, vec![]), vec![f16s(&[6], &[-1.86, -0.44, 1.44, 0.32, 0.23, 0.66]),
                f16s(&[], &[-0.5]), f16s(&[], &[0.75])], vec![f16s(&[6], &[-0.5, -0.44, 0.75, 0.32, 0.23,
                0.66])], EXACT),
            case("no elements", node("Clip", 13, 2, vec![]), vec![f32s(&[0, 2], &[]), f32s(&[], &[0.])],
                vec![f32s(&[0, 2], &[])], CLOSE),
            // onnx reference.
            case("bounds that cross", node("Clip", 13, 3, vec![]), vec![f32s(&[3], &[-3., 0., 3.]), f32s(&[],
                &[2.]), f32s(&[], &[1.])], vec![f32s(&[3], &[1., 1., 1.])], CLOSE),
        ]
    }
}
