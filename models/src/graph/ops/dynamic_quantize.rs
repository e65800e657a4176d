use super::elementwise::map;
use super::literal::*;
use super::quantize::{quantize, round_to};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{DType, Shape, View, ViewMut};

/// f32 numbers to u8 ones with a range found at run time,
/// [ONNX DynamicQuantizeLinear](https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html).
///
/// Outputs: y (u8), scale (f32 scalar), zero point (u8 scalar). The range is x's, widened to hold 0; where it is nothing but
/// 0 the scale is 1. NaN has no say in the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicQuantizeLinear;

impl Operator for DynamicQuantizeLinear {
    fn parse(_: &NodeInfo) -> Result<Self> {
        Ok(DynamicQuantizeLinear)
    }

    fn name(&self) -> &str {
        "DynamicQuantizeLinear"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        if x.dtype != DType::F32 {
            return Err(Error::shape(format!("x is {}, f32 expected", x.dtype)));
        }
        let scalar = |dtype| OutFact { dtype, shape: Shape::scalar() };
        Ok(vec![OutFact { dtype: DType::U8, shape: x.shape }, scalar(DType::F32), scalar(DType::U8)])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = &required(inputs, 0, "x")?;
        let (mut lo, mut hi) = (0f32, 0f32);
        let mut widen = |v: f32| (lo, hi) = (lo.min(v), hi.max(v));
        match x.as_slice::<f32>() {
            Some(all) => all.iter().for_each(|&v| widen(v)),
            None => x.shape().indices().for_each(|at| widen(x.get(&at))),
        }
        let scale = if hi == lo { 1.0 } else { (hi - lo) / 255.0 };
        let zero = round_to(0.0 - lo / scale, 0, 0, 255);
        map(x, &mut outputs[0], |v: f32| quantize(v, scale, zero, 0, 255) as u8)?;
        if let Some(out) = outputs.get_mut(1) {
            out.set(&[], scale);
        }
        if let Some(out) = outputs.get_mut(2) {
            out.set(&[], zero as u8);
        }
        Ok(())
    }

    #[rustfmt::skip] // tables of numbers
    #[allow(clippy::approx_constant)] // they only look alike
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("mixed signs", node("DynamicQuantizeLinear", 11, 1, vec![]), vec![f32s(&[2, 3], &[-1.5, 0.,
                3.2, 0.1, 0.25, -0.7])], vec![u8s(&[2, 3], &[0, 81, 255, 86, 95, 43]), f32s(&[],
                &[0.018431371]), u8s(&[], &[81])], EXACT),
            case("positive", node("DynamicQuantizeLinear", 11, 1, vec![]), vec![f32s(&[3], &[1., 2., 3.5])],
                vec![u8s(&[3], &[73, 146, 255]), f32s(&[], &[0.01372549]), u8s(&[], &[0])], EXACT),
            case("negative", node("DynamicQuantizeLinear", 11, 1, vec![]), vec![f32s(&[3], &[-1., -2.5,
                -3.])], vec![u8s(&[3], &[170, 43, 0]), f32s(&[], &[0.011764706]), u8s(&[], &[255])], EXACT),
            case("zeros", node("DynamicQuantizeLinear", 11, 1, vec![]), vec![f32s(&[2], &[0., 0.])],
                vec![u8s(&[2], &[0, 0]), f32s(&[], &[1.]), u8s(&[], &[0])], EXACT),
            case("one number", node("DynamicQuantizeLinear", 11, 1, vec![]), vec![f32s(&[1], &[0.3])],
                vec![u8s(&[1], &[255]), f32s(&[], &[0.0011764707]), u8s(&[], &[0])], EXACT),
            case("images", node("DynamicQuantizeLinear", 11, 1, vec![]), vec![f32s(&[1, 2, 3, 3], &[0.65,
                -1.47, 1.38, 1.78, 1.62, 0.28, -1.42, -1.23, 1.71, 0.21, -1.28, 1.54, 0.57, 0.28, -0.49,
                -0.36, -1.04, -1.85])], vec![u8s(&[1, 2, 3, 3], &[176, 27, 227, 255, 244, 150, 30, 44, 250,
                145, 40, 238, 170, 150, 96, 105, 57, 0]), f32s(&[], &[0.014235294]), u8s(&[], &[130])],
                EXACT),
        ]
    }
}
