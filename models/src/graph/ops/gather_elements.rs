use super::from_node::{Built, case, node, t};
use super::indexing::{check_integers, integer_at, wrap};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, Result};
use saltica_tensor::{Element, Shape, View, ViewMut, by_dtype};

/// Single elements picked along an axis,
/// [ONNX GatherElements](https://onnx.ai/onnx/operators/onnx__GatherElements.html):
/// `y[i, j, k] = x[i, indices[i, j, k], k]` for axis 1.
///
/// Inputs: x, any dtype; indices, i64 or i32 of the same rank and nowhere larger than x except along the axis. Negative
/// indices count from the end.
#[derive(Clone, Debug, PartialEq)]
pub struct GatherElements {
    /// The axis; negative ones count from the end.
    pub axis: i64,
}

/// Errors unless indices of this shape can stand beside x: nowhere larger, except along the axis.
pub(super) fn check_beside(indices: &Shape, x: &Shape, axis: usize) -> Result<()> {
    let fits = indices.rank() == x.rank()
        && indices.iter().zip(x.iter()).enumerate().all(|(i, (&a, &b))| i == axis || a <= b);
    if fits {
        Ok(())
    } else {
        Err(Error::shape(format!("indices {indices} reach outside {x} (axis {axis})")))
    }
}

impl Operator for GatherElements {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(GatherElements { axis: node.int("axis")?.unwrap_or(0) })
    }

    fn name(&self) -> &str {
        "GatherElements"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let indices = required(inputs, 1, "indices")?;
        check_integers(indices.dtype, "indices")?;
        check_beside(&indices.shape, &x.shape, Shape::axis(self.axis, x.shape.rank())?)?;
        Ok(vec![OutFact { dtype: x.dtype, shape: indices.shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        let indices = required(inputs, 1, "indices")?;
        let axis = Shape::axis(self.axis, x.shape().rank())?;
        by_dtype!(x.dtype(), T => gather_elements::<T>(&x, &indices, axis, &mut outputs[0]))
    }

    fn cases() -> Vec<Case> {
        let gather = |axis| node("GatherElements", 13, vec![("axis", Attr::Int(axis))]);
        let x = [1f32, 2., 3., 4., 5., 6., 7., 8., 9.];
        let build = || -> Built<Vec<Case>> {
            Ok(vec![
                // The ONNX text's examples.
                case(
                    "axis 1",
                    gather(1),
                    vec![t(&[2, 2], &[1f32, 2., 3., 4.]), t(&[2, 2], &[0i64, 0, 1, 0])],
                    vec![t(&[2, 2], &[1f32, 1., 4., 3.])],
                )?,
                case(
                    "axis 0, negative indices",
                    node("GatherElements", 11, vec![]),
                    vec![t(&[3, 3], &x), t(&[2, 3], &[-1i64, -2, 0, -2, 0, 0])],
                    vec![t(&[2, 3], &[7f32, 5., 3., 4., 2., 3.])],
                )?,
                // np.take_along_axis; the way RT-DETR picks its boxes.
                case(
                    "axis 2, more indices than the axis is long, i64 beyond 2^53",
                    gather(2),
                    vec![t(&[1, 2, 1], &[(1i64 << 53) + 1, -4]), t(&[1, 2, 2], &[0i32, 0, -1, 0])],
                    vec![t(&[1, 2, 2], &[(1i64 << 53) + 1, (1i64 << 53) + 1, -4, -4])],
                )?,
                case(
                    "axis -2, other dims smaller than x",
                    gather(-2),
                    vec![t(&[3, 3], &[1u8, 2, 3, 4, 5, 6, 7, 8, 9]), t(&[2, 1], &[2i64, 0])],
                    vec![t(&[2, 1], &[7u8, 1])],
                )?,
                case(
                    "empty",
                    gather(0),
                    vec![t(&[3, 3], &x), t(&[0, 3], &[0i64; 0])],
                    vec![t(&[0, 3], &[0f32; 0])],
                )?,
            ])
        };
        super::built(build)
    }
}

fn gather_elements<T: Element>(
    x: &View<'_>,
    indices: &View<'_>,
    axis: usize,
    y: &mut ViewMut<'_>,
) -> Result<()> {
    for to in y.shape().indices() {
        let mut from = to;
        from[axis] = wrap(integer_at(indices, &to), x.shape()[axis])?;
        y.set::<T>(&to, x.get::<T>(&from));
    }
    Ok(())
}
