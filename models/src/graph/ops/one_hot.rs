use super::from_node::{Built, case, node, t};
use super::indexing::Dims;
use super::number::{Number, Wide};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, ErrorKind, Result};
use saltica_tensor::{Element, Shape, View, ViewMut, by_dtype};

/// Numbers turned into rows with one place set, [ONNX OneHot](https://onnx.ai/onnx/operators/onnx__OneHot.html).
///
/// Inputs: indices, any number dtype, negative ones count from the end, those outside set nothing; depth, one number;
/// values, any dtype `[2]`: (off, on). The new axis of size depth stands at `axis` of the result.
#[derive(Clone, Debug, PartialEq)]
pub struct OneHot {
    /// The new axis; negative ones count from the end of the result.
    pub axis: i64,
}

/// A number as an integer; floats truncate as ONNX says.
fn whole(view: &View<'_>, index: &[usize]) -> i64 {
    by_dtype!(view.dtype(), T => i64::from_wide(match view.get::<T>(index).to_wide() {
        Wide::Float(v) if v.is_nan() => Wide::Int(i64::MAX),
        v => v,
    }))
}

impl Operator for OneHot {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(OneHot { axis: node.int("axis")?.unwrap_or(-1) })
    }

    fn name(&self) -> &str {
        "OneHot"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let indices = required(inputs, 0, "indices")?;
        let depth = required(inputs, 1, "depth")?;
        let values = required(inputs, 2, "values")?;
        if depth.shape.elements() != 1 || values.shape.dims() != [2] {
            return Err(Error::shape(format!(
                "depth is {} and values are {}, one number and [2] expected",
                depth.shape, values.shape
            )));
        }
        let depth = whole(&depth.known("depth")?.reshaped(Shape::scalar())?.view(), &[]);
        let depth = usize::try_from(depth)
            .map_err(|_| Error::new(ErrorKind::Value, format!("depth is {depth}, at least 0 expected")))?;
        let axis = Shape::axis(self.axis, indices.shape.rank() + 1)?;
        let mut dims = Dims::of(&indices.shape[..axis])?;
        dims.push(depth)?;
        dims.extend(&indices.shape[axis..])?;
        Ok(vec![OutFact { dtype: values.dtype, shape: dims.shape()? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let (indices, values) = (required(inputs, 0, "indices")?, required(inputs, 2, "values")?);
        let axis = Shape::axis(self.axis, indices.shape().rank() + 1)?;
        by_dtype!(values.dtype(), T => set_places::<T>(&indices, &values, axis, &mut outputs[0]));
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let hot = |axis| node("OneHot", 11, vec![("axis", Attr::Int(axis))]);
        let depth = || t(&[], &[3i64]);
        let values = || t(&[2], &[0f32, 1.]);
        let build = || -> Built<Vec<Case>> {
            // By hand, from the ONNX text's definition.
            Ok(vec![
                case(
                    "last axis; negative and outside",
                    node("OneHot", 9, vec![]),
                    vec![t(&[4], &[0i64, -1, 3, -4]), depth(), values()],
                    vec![t(&[4, 3], &[1f32, 0., 0., 0., 0., 1., 0., 0., 0., 0., 0., 0.])],
                )?,
                case(
                    "axis 0, i64 values",
                    hot(0),
                    vec![t(&[2], &[2i32, 1]), t(&[1], &[3f32]), t(&[2], &[-1i64, 1 << 60])],
                    vec![t(&[3, 2], &[-1i64, -1, -1, 1 << 60, 1 << 60, -1])],
                )?,
                case(
                    "axis -2, float indices",
                    hot(-2),
                    vec![t(&[1, 2], &[0f32, 2.]), depth(), values()],
                    vec![t(&[1, 3, 2], &[1f32, 0., 0., 0., 0., 1.])],
                )?,
                case(
                    "none",
                    hot(-1),
                    vec![t(&[0], &[0i64; 0]), depth(), values()],
                    vec![t(&[0, 3], &[0f32; 0])],
                )?,
            ])
        };
        super::built(build)
    }
}

fn set_places<T: Element>(indices: &View<'_>, values: &View<'_>, axis: usize, y: &mut ViewMut<'_>) {
    let (off, on) = (values.get::<T>(&[0]), values.get::<T>(&[1]));
    let depth = y.shape()[axis] as i64;
    for to in y.shape().indices() {
        let mut at = to;
        at[axis..].rotate_left(1);
        let i = whole(indices, &at);
        let i = if i < 0 { i.wrapping_add(depth) } else { i };
        y.set(&to, if i == to[axis] as i64 { on } else { off });
    }
}
