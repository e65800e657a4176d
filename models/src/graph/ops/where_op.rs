use super::from_node::{Built, case, node, t};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{Bool, DType, Element, View, ViewMut, by_dtype, f16};

/// Picks from two tensors, [ONNX Where](https://onnx.ai/onnx/operators/onnx__Where.html).
///
/// Inputs: condition, bool; x and y of one dtype. All three broadcast. The result is x where the condition holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Where;

impl Operator for Where {
    fn parse(_: &NodeInfo) -> Result<Self> {
        Ok(Where)
    }

    fn name(&self) -> &str {
        "Where"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let condition = required(inputs, 0, "condition")?;
        let (x, y) = (required(inputs, 1, "x")?, required(inputs, 2, "y")?);
        if condition.dtype != DType::Bool || x.dtype != y.dtype {
            return Err(Error::shape(format!(
                "condition, x and y are {}, {} and {}; bool and twice the same expected",
                condition.dtype, x.dtype, y.dtype
            )));
        }
        let shape = condition.shape.broadcast(&x.shape)?.broadcast(&y.shape)?;
        Ok(vec![OutFact { dtype: x.dtype, shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let to = &mut outputs[0];
        let shape = *to.shape();
        let condition = required(inputs, 0, "condition")?.broadcast_to(&shape)?;
        let x = required(inputs, 1, "x")?.broadcast_to(&shape)?;
        let y = required(inputs, 2, "y")?.broadcast_to(&shape)?;
        by_dtype!(to.dtype(), T => pick::<T>(&condition, &x, &y, to));
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let b = |v: &[u8]| v.iter().map(|&v| Bool::from(v != 0)).collect::<Vec<_>>();
        let pick = || node("Where", 9, vec![]);
        let h = [0.5f32, 1.5].map(f16::from_f32);
        let build = || -> Built<Vec<Case>> {
            // numpy.where
            Ok(vec![
                case(
                    "same shapes, i64 beyond 2^53",
                    pick(),
                    vec![
                        t(&[2, 2], &b(&[1, 0, 1, 1])),
                        t(&[2, 2], &[i64::MAX, 2, 3, 4]),
                        t(&[2, 2], &[9i64, 8, 7, 6]),
                    ],
                    vec![t(&[2, 2], &[i64::MAX, 8, 3, 4])],
                )?,
                case(
                    "all three broadcast",
                    pick(),
                    vec![t(&[2, 1], &b(&[1, 0])), t(&[3], &[1f32, 2., 3.]), t(&[1, 1, 1], &[f32::INFINITY])],
                    vec![t(&[1, 2, 3], &[1f32, 2., 3., f32::INFINITY, f32::INFINITY, f32::INFINITY])],
                )?,
                case(
                    "scalars",
                    pick(),
                    vec![t(&[], &b(&[0])), t(&[], &h[..1]), t(&[], &h[1..])],
                    vec![t(&[], &h[1..])],
                )?,
                case(
                    "empty",
                    pick(),
                    vec![t(&[0, 1], &b(&[])), t(&[2], &[1u8, 2]), t(&[], &[3u8])],
                    vec![t(&[0, 2], &[0u8; 0])],
                )?,
            ])
        };
        super::built(build)
    }
}

fn pick<T: Element>(condition: &View<'_>, x: &View<'_>, y: &View<'_>, to: &mut ViewMut<'_>) {
    for i in to.shape().indices() {
        let from = if condition.get::<Bool>(&i).get() { x } else { y };
        to.set::<T>(&i, from.get::<T>(&i));
    }
}
