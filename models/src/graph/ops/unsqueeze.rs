use super::from_node::{Built, case, ints, node, t};
use super::indexing::{Dims, Ints, axis_set};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, ErrorKind, Result};
use saltica_tensor::{MAX_RANK, Shape, View, ViewMut};

/// Dims of size 1 put in, [ONNX Unsqueeze](https://onnx.ai/onnx/operators/onnx__Unsqueeze.html).
///
/// Inputs: x, any dtype; from opset 13 axes, i64 `[n]`. Axes count in the result's rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsqueeze {
    /// Axes given as an attribute (before opset 13).
    pub axes: Option<Vec<i64>>,
}

impl Unsqueeze {
    fn output(&self, x: &Shape, axes: &[i64]) -> Result<Shape> {
        let rank = x.rank() + axes.len();
        if rank > MAX_RANK {
            return Err(Error::shape(format!("the result has rank {rank}, at most {MAX_RANK} is supported")));
        }
        let new = axis_set(axes, rank)?;
        let mut old = x.iter();
        let mut dims = Dims::default();
        for &new in &new[..rank] {
            dims.push(if new { 1 } else { old.next().copied().unwrap_or(1) })?;
        }
        dims.shape()
    }
}

impl Operator for Unsqueeze {
    fn parse(node: &NodeInfo) -> Result<Self> {
        if node.opset >= 13 {
            return Ok(Unsqueeze { axes: None });
        }
        let axes = node.ints("axes")?;
        let missing = || Error::new(ErrorKind::Malformed, "attribute axes is missing (Unsqueeze needs it)");
        Ok(Unsqueeze { axes: Some(axes.ok_or_else(missing)?) })
    }

    fn name(&self) -> &str {
        "Unsqueeze"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let shape = match &self.axes {
            Some(axes) => self.output(&x.shape, axes)?,
            None => self.output(&x.shape, &Ints::known(&required(inputs, 1, "axes")?, "axes")?)?,
        };
        Ok(vec![OutFact { dtype: x.dtype, shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        outputs[0].copy_flat(&required(inputs, 0, "x")?);
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let n = [3i64, 1 << 60];
        let build = || -> Built<Vec<Case>> {
            Ok(vec![
                case(
                    "opset 11, axes 0 (the only value seen)",
                    node("Unsqueeze", 11, vec![("axes", ints(&[0]))]),
                    vec![t(&[], &n[..1])],
                    vec![t(&[1], &n[..1])],
                )?,
                case(
                    "opset 11, two axes out of order",
                    node("Unsqueeze", 11, vec![("axes", ints(&[3, 1]))]),
                    vec![t(&[2, 1], &n)],
                    vec![t(&[2, 1, 1, 1], &n)],
                )?,
                case(
                    "opset 13, negative",
                    node("Unsqueeze", 13, vec![]),
                    vec![t(&[2], &n), t(&[2], &[-1i64, 0])],
                    vec![t(&[1, 2, 1], &n)],
                )?,
                case(
                    "empty, axis as a scalar",
                    node("Unsqueeze", 13, vec![]),
                    vec![t(&[0], &[0u8; 0]), t(&[], &[1i64])],
                    vec![t(&[0, 1], &[0u8; 0])],
                )?,
            ])
        };
        super::built(build)
    }
}
