use super::from_node::{Built, case, node, t, text};
use super::gather_elements::check_beside;
use super::indexing::{check_integers, integer_at, wrap};
use super::number::Number;
use super::scatter_nd::Reduction;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, Result};
use saltica_tensor::{Shape, View, ViewMut, by_dtype};

/// Single elements written along an axis,
/// [ONNX ScatterElements](https://onnx.ai/onnx/operators/onnx__ScatterElements.html) (Scatter in opset 9 and 10):
/// `y[i, indices[i, j, k], k] = updates[i, j, k]` for axis 1.
///
/// Inputs: x, any dtype; indices, i64 or i32 of the same rank and nowhere larger than x except along the axis, negative
/// ones count from the end; updates, of x's dtype and the shape of the indices. Updates are applied in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct ScatterElements {
    /// The axis; negative ones count from the end.
    pub axis: i64,
    /// What happens where an update meets an element.
    pub reduction: Reduction,
}

impl Operator for ScatterElements {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(ScatterElements { axis: node.int("axis")?.unwrap_or(0), reduction: Reduction::parse(node)? })
    }

    fn name(&self) -> &str {
        "ScatterElements"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let indices = required(inputs, 1, "indices")?;
        let updates = required(inputs, 2, "updates")?;
        check_integers(indices.dtype, "indices")?;
        check_beside(&indices.shape, &x.shape, Shape::axis(self.axis, x.shape.rank())?)?;
        if updates.shape != indices.shape || updates.dtype != x.dtype {
            return Err(Error::shape(format!(
                "updates are {} {}, {} {} expected",
                updates.dtype, updates.shape, x.dtype, indices.shape
            )));
        }
        Ok(vec![OutFact { dtype: x.dtype, shape: x.shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        let indices = required(inputs, 1, "indices")?;
        let updates = required(inputs, 2, "updates")?;
        let axis = Shape::axis(self.axis, x.shape().rank())?;
        let y = &mut outputs[0];
        y.copy_from(&x);
        by_dtype!(x.dtype(), T => self.scatter::<T>(&indices, &updates, axis, y))
    }

    fn cases() -> Vec<Case> {
        let along = |axis| node("ScatterElements", 13, vec![("axis", Attr::Int(axis))]);
        let five = || t(&[1, 5], &[1f32, 2., 3., 4., 5.]);
        let twice = |how: &str, expected: [f32; 5]| {
            case(
                &format!("{how}, twice at one place"),
                node("ScatterElements", 18, vec![("axis", Attr::Int(1)), ("reduction", text(how))]),
                vec![five(), t(&[1, 2], &[1i64, 1]), t(&[1, 2], &[1.5f32, 4.0])],
                vec![t(&[1, 5], &expected)],
            )
        };
        let build = || -> Built<Vec<Case>> {
            Ok(vec![
                // The ONNX text's examples.
                case(
                    "axis 0, as Scatter of opset 9",
                    node("Scatter", 9, vec![]),
                    vec![
                        t(&[3, 3], &[0f32; 9]),
                        t(&[2, 3], &[1i64, 0, 2, 0, 2, 1]),
                        t(&[2, 3], &[1.0f32, 1.1, 1.2, 2.0, 2.1, 2.2]),
                    ],
                    vec![t(&[3, 3], &[2.0f32, 1.1, 0., 1., 0., 2.2, 0., 2.1, 1.2])],
                )?,
                case(
                    "axis 1",
                    along(1),
                    vec![five(), t(&[1, 2], &[1i64, 3]), t(&[1, 2], &[1.1f32, 2.1])],
                    vec![t(&[1, 5], &[1f32, 1.1, 3., 2.1, 5.])],
                )?,
                // By hand from here on.
                case(
                    "axis -1, negative i32 index, i64 values",
                    along(-1),
                    vec![t(&[3], &[1i64, 2, 3]), t(&[1], &[-1i32]), t(&[1], &[i64::MAX])],
                    vec![t(&[3], &[1i64, 2, i64::MAX])],
                )?,
                twice("none", [1., 4., 3., 4., 5.])?,
                twice("add", [1., 7.5, 3., 4., 5.])?,
                twice("mul", [1., 12., 3., 4., 5.])?,
                twice("min", [1., 1.5, 3., 4., 5.])?,
                twice("max", [1., 4., 3., 4., 5.])?,
                case(
                    "nothing to write",
                    along(0),
                    vec![t(&[2], &[1u8, 2]), t(&[0], &[0i64; 0]), t(&[0], &[0u8; 0])],
                    vec![t(&[2], &[1u8, 2])],
                )?,
            ])
        };
        super::built(build)
    }
}

impl ScatterElements {
    fn scatter<T: Number>(
        &self,
        indices: &View<'_>,
        updates: &View<'_>,
        axis: usize,
        y: &mut ViewMut<'_>,
    ) -> Result<()> {
        for from in updates.shape().indices() {
            let mut to = from;
            to[axis] = wrap(integer_at(indices, &from), y.shape()[axis])?;
            y.set(&to, self.reduction.apply(y.get::<T>(&to), updates.get::<T>(&from)));
        }
        Ok(())
    }
}
