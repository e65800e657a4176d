use super::cast::dtype_attribute;
use super::from_node::{Built, case, node, t};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, Result};
use saltica_tensor::{DType, View, ViewMut};

/// Ones on a diagonal, zeros elsewhere, [ONNX EyeLike](https://onnx.ai/onnx/operators/onnx__EyeLike.html).
///
/// Inputs: x of rank 2, of which only shape and dtype count.
#[derive(Clone, Debug, PartialEq)]
pub struct EyeLike {
    /// The result's dtype; absent means x's.
    pub dtype: Option<DType>,
    /// How far the diagonal lies above the main one.
    pub k: i64,
}

impl Operator for EyeLike {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(EyeLike { dtype: dtype_attribute(node, "dtype")?, k: node.int("k")?.unwrap_or(0) })
    }

    fn name(&self) -> &str {
        "EyeLike"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        if x.shape.rank() != 2 {
            return Err(Error::shape(format!("x is {}, rank 2 expected", x.shape)));
        }
        Ok(vec![OutFact { dtype: self.dtype.unwrap_or(x.dtype), shape: x.shape }])
    }

    fn run(&self, _: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let y = &mut outputs[0];
        for at in y.shape().indices() {
            let on = at[1] as i64 - at[0] as i64 == self.k;
            y.set_f64(&at, on.into());
        }
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let build = || -> Built<Vec<Case>> {
            // numpy.eye
            Ok(vec![
                case(
                    "same dtype",
                    node("EyeLike", 9, vec![]),
                    vec![t(&[2, 2], &[7i64; 4])],
                    vec![t(&[2, 2], &[1i64, 0, 0, 1])],
                )?,
                case(
                    "k 1, f32",
                    node("EyeLike", 9, vec![("dtype", Attr::Int(1)), ("k", Attr::Int(1))]),
                    vec![t(&[2, 3], &[0u8; 6])],
                    vec![t(&[2, 3], &[0f32, 1., 0., 0., 0., 1.])],
                )?,
            ])
        };
        super::built(build)
    }
}
