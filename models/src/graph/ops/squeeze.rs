use super::from_node::{Built, case, ints, node, t};
use super::indexing::{Dims, Ints, axis_set};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{Bool, Shape, View, ViewMut};

/// Dims of size 1 removed, [ONNX Squeeze](https://onnx.ai/onnx/operators/onnx__Squeeze.html).
///
/// Inputs: x, any dtype; from opset 13 axes, i64 `[n]` (optional). Without axes every dim of size 1 goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Squeeze {
    /// Axes given as an attribute (before opset 13).
    pub axes: Option<Vec<i64>>,
}

impl Squeeze {
    fn output(&self, x: &Shape, given: Option<Ints>) -> Result<Shape> {
        let axes = match (&self.axes, given) {
            (Some(axes), _) => Some(axis_set(axes, x.rank())?),
            (None, Some(axes)) => Some(axis_set(&axes, x.rank())?),
            (None, None) => None,
        };
        let mut dims = Dims::default();
        for (i, &d) in x.iter().enumerate() {
            match axes {
                Some(set) if set[i] && d != 1 => {
                    return Err(Error::shape(format!("axis {i} of {x} is squeezed, size 1 expected")));
                }
                Some(set) if set[i] => {}
                None if d == 1 => {}
                _ => dims.push(d)?,
            }
        }
        dims.shape()
    }
}

impl Operator for Squeeze {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(Squeeze { axes: if node.opset < 13 { node.ints("axes")? } else { None } })
    }

    fn name(&self) -> &str {
        "Squeeze"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let given = inputs.get(1).copied().flatten().map(|f| Ints::known(&f, "axes")).transpose()?;
        Ok(vec![OutFact { dtype: x.dtype, shape: self.output(&x.shape, given)? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        outputs[0].copy_flat(&required(inputs, 0, "x")?);
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let n = [3i64, 1 << 60];
        let yes = [Bool::from(true)];
        let build = || -> Built<Vec<Case>> {
            Ok(vec![
                case(
                    "opset 11 attribute",
                    node("Squeeze", 11, vec![("axes", ints(&[0, -1]))]),
                    vec![t(&[1, 2, 1, 1], &n)],
                    vec![t(&[2, 1], &n)],
                )?,
                case(
                    "opset 11, all",
                    node("Squeeze", 11, vec![]),
                    vec![t(&[1, 2, 1], &n)],
                    vec![t(&[2], &n)],
                )?,
                case(
                    "opset 13 input",
                    node("Squeeze", 13, vec![]),
                    vec![t(&[1, 1, 1], &yes), t(&[2], &[1i64, -1])],
                    vec![t(&[1], &yes)],
                )?,
                case(
                    "opset 13, all, to a scalar",
                    node("Squeeze", 13, vec![]),
                    vec![t(&[1, 1], &n[..1])],
                    vec![t(&[], &n[..1])],
                )?,
                case(
                    "empty",
                    node("Squeeze", 13, vec![]),
                    vec![t(&[1, 0], &[0u8; 0]), t(&[1], &[0i64])],
                    vec![t(&[0], &[0u8; 0])],
                )?,
            ])
        };
        super::built(build)
    }
}
