use super::from_node::{Built, case, node, t};
use super::indexing::{Dims, Ints, dim};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, Result};
use saltica_tensor::{Bool, Shape, Tensor, View, ViewMut};

/// One value everywhere, [ONNX ConstantOfShape](https://onnx.ai/onnx/operators/onnx__ConstantOfShape.html).
///
/// Inputs: shape, i64.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstantOfShape {
    /// The value, a scalar; its dtype is the result's.
    pub value: Tensor,
}

impl Operator for ConstantOfShape {
    fn parse(node: &NodeInfo) -> Result<Self> {
        let value = match node.tensor("value")? {
            None => Tensor::scalar(0f32)?,
            Some(v) if v.shape().elements() == 1 => v.reshaped(Shape::scalar())?,
            Some(v) => return Err(Error::shape(format!("value is {}, one number expected", v.shape()))),
        };
        Ok(ConstantOfShape { value })
    }

    fn name(&self) -> &str {
        "ConstantOfShape"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let mut dims = Dims::default();
        for &d in Ints::known(&required(inputs, 0, "shape")?, "shape")?.iter() {
            dims.push(dim(d, "the shape")?)?;
        }
        Ok(vec![OutFact { dtype: self.value.dtype(), shape: dims.shape()? }])
    }

    fn run(&self, _: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let y = &mut outputs[0];
        y.copy_from(&self.value.view().broadcast_to(y.shape())?);
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let of = |value: Tensor| node("ConstantOfShape", 9, vec![("value", Attr::Tensor(value))]);
        let yes = Bool::from(true);
        let build = || -> Built<Vec<Case>> {
            Ok(vec![
                case(
                    "default is 0 of f32",
                    node("ConstantOfShape", 9, vec![]),
                    vec![t(&[2], &[1i64, 2])],
                    vec![t(&[1, 2], &[0f32; 2])],
                )?,
                case("f32", of(t(&[1], &[1.5f32])?), vec![t(&[1], &[3i64])], vec![t(&[3], &[1.5f32; 3])])?,
                case("i64", of(t(&[1], &[-7i64])?), vec![t(&[1], &[2i64])], vec![t(&[2], &[-7i64; 2])])?,
                case("bool", of(t(&[1], &[yes])?), vec![t(&[2], &[1i64, 1])], vec![t(&[1, 1], &[yes])])?,
                case("scalar", of(t(&[], &[4u8])?), vec![t(&[0], &[0i64; 0])], vec![t(&[], &[4u8])])?,
                case("empty", of(t(&[1], &[4u8])?), vec![t(&[2], &[2i64, 0])], vec![t(&[2, 0], &[0u8; 0])])?,
            ])
        };
        super::built(build)
    }
}
