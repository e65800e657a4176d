use super::from_node::{Built, case, node, t};
use super::indexing::single;
use super::number::Number;
use super::{Case, Fact, Operator, OutFact, required};
use crate::Result;
use crate::graph::attrs::{Attr, NodeInfo};
use saltica_tensor::{Shape, View, ViewMut, by_dtype};

/// Running sums along an axis, [ONNX CumSum](https://onnx.ai/onnx/operators/onnx__CumSum.html).
///
/// Inputs: x, any number dtype; axis, one i64 or i32, negative ones count from the end. Sums are made in x's dtype, in
/// order.
#[derive(Clone, Debug, PartialEq)]
pub struct CumSum {
    /// Whether an element's own value is left out of its sum.
    pub exclusive: bool,
    /// Whether sums run from the end.
    pub reverse: bool,
}

impl Operator for CumSum {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(CumSum {
            exclusive: node.int("exclusive")?.unwrap_or(0) != 0,
            reverse: node.int("reverse")?.unwrap_or(0) != 0,
        })
    }

    fn name(&self) -> &str {
        "CumSum"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        required(inputs, 1, "axis")?;
        Ok(vec![OutFact { dtype: x.dtype, shape: x.shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        let axis = Shape::axis(single(&required(inputs, 1, "axis")?, "axis")?, x.shape().rank())?;
        by_dtype!(x.dtype(), T => self.sum::<T>(&x, axis, &mut outputs[0]));
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let sum = |exclusive, reverse| {
            node("CumSum", 14, vec![("exclusive", Attr::Int(exclusive)), ("reverse", Attr::Int(reverse))])
        };
        let x = || t(&[5], &[1f32, 2., 3., 4., 5.]);
        let axis = |a: i64| t(&[], &[a]);
        let build = || -> Built<Vec<Case>> {
            Ok(vec![
                // The ONNX text's node tests.
                case(
                    "plain",
                    node("CumSum", 11, vec![]),
                    vec![x(), axis(0)],
                    vec![t(&[5], &[1f32, 3., 6., 10., 15.])],
                )?,
                case("exclusive", sum(1, 0), vec![x(), axis(0)], vec![t(&[5], &[0f32, 1., 3., 6., 10.])])?,
                case("reverse", sum(0, 1), vec![x(), axis(0)], vec![t(&[5], &[15f32, 14., 12., 9., 5.])])?,
                case(
                    "reverse exclusive",
                    sum(1, 1),
                    vec![x(), axis(0)],
                    vec![t(&[5], &[14f32, 12., 9., 5., 0.])],
                )?,
                // numpy.cumsum
                case(
                    "axis -2 as a list, i64 beyond 2^53",
                    sum(0, 0),
                    vec![t(&[1, 2, 2], &[1i64 << 53, 1, 1, 2]), t(&[1], &[-2i32])],
                    vec![t(&[1, 2, 2], &[1i64 << 53, 1, (1 << 53) + 1, 3])],
                )?,
                case(
                    "empty",
                    sum(0, 0),
                    vec![t(&[2, 0], &[0i32; 0]), axis(1)],
                    vec![t(&[2, 0], &[0i32; 0])],
                )?,
            ])
        };
        super::built(build)
    }
}

impl CumSum {
    fn sum<T: Number>(&self, x: &View<'_>, axis: usize, y: &mut ViewMut<'_>) {
        let n = x.shape()[axis];
        // Running from the end is a matter of which neighbour an element builds on.
        let place = |i: usize| if self.reverse { n - 1 - i } else { i };
        for mut at in y.shape().indices() {
            if at[axis] != 0 {
                continue;
            }
            let mut sum = T::from_f64(0.0);
            for i in 0..n {
                at[axis] = place(i);
                let v = x.get::<T>(&at);
                let with = sum.plus(v);
                y.set(&at, if self.exclusive { sum } else { with });
                sum = with;
            }
        }
    }
}
