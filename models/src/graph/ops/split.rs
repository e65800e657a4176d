use super::from_node::{Built, case, ints, node, t};
use super::indexing::{Dims, check_integers, dim, integer};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, Result};
use saltica_tensor::{Shape, View, ViewMut, f16};

/// x cut along an axis, [ONNX Split](https://onnx.ai/onnx/operators/onnx__Split.html).
///
/// Inputs: x, any dtype; from opset 13 sizes, i64 `[outputs]` (optional). Without sizes the parts are equal; from opset 18
/// the last one may be smaller.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// The axis; negative ones count from the end.
    pub axis: i64,
    /// Sizes given as an attribute (before opset 13).
    pub sizes: Option<Vec<i64>>,
    /// How many parts.
    pub parts: usize,
    /// Whether the last of equal parts may be smaller (opset 18).
    pub uneven: bool,
}

impl Split {
    fn sizes(&self, x: &Shape, given: Option<View<'_>>) -> Result<Vec<usize>> {
        let axis = Shape::axis(self.axis, x.rank())?;
        let d = x[axis];
        let sizes: Vec<usize> = match (&self.sizes, given) {
            (Some(s), _) => s.iter().map(|&s| dim(s, "split")).collect::<Result<_>>()?,
            (None, Some(view)) => {
                check_integers(view.dtype(), "split")?;
                if view.shape().elements() != self.parts {
                    return Err(Error::shape(format!(
                        "split is {}, {} numbers expected",
                        view.shape(),
                        self.parts
                    )));
                }
                (0..self.parts).map(|i| dim(integer(&view, i), "split")).collect::<Result<_>>()?
            }
            (None, None) => {
                let size = d.div_ceil(self.parts);
                if !self.uneven && size * self.parts != d {
                    return Err(Error::shape(format!(
                        "dimension {axis} of {x} cannot be cut in {} equal parts",
                        self.parts
                    )));
                }
                (0..self.parts).map(|i| size.min(d.saturating_sub(size.saturating_mul(i)))).collect()
            }
        };
        let sum = sizes.iter().try_fold(0usize, |sum, &s| sum.checked_add(s));
        if sizes.len() != self.parts || sum != Some(d) {
            return Err(Error::shape(format!(
                "split {sizes:?} does not cut dimension {axis} of {x} into {} parts",
                self.parts
            )));
        }
        Ok(sizes)
    }
}

impl Operator for Split {
    fn parse(node: &NodeInfo) -> Result<Self> {
        let sizes = if node.opset < 13 { node.ints("split")? } else { None };
        let parts = match if node.opset >= 18 { node.int("num_outputs")? } else { None } {
            Some(n) if n != node.outputs.len() as i64 => {
                return Err(Error::shape(format!(
                    "num_outputs is {n}, {} outputs found",
                    node.outputs.len()
                )));
            }
            _ => node.outputs.len(),
        };
        if parts == 0 {
            return Err(Error::shape("a Split has no outputs, at least one expected"));
        }
        Ok(Split { axis: node.int("axis")?.unwrap_or(0), sizes, parts, uneven: node.opset >= 18 })
    }

    fn name(&self) -> &str {
        "Split"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let given = inputs.get(1).copied().flatten();
        let given = given.map(|f| f.known("split")).transpose()?.map(|t| t.view());
        let sizes = self.sizes(&x.shape, given)?;
        let axis = Shape::axis(self.axis, x.shape.rank())?;
        let mut dims = Dims::of(&x.shape)?;
        sizes
            .into_iter()
            .map(|size| {
                dims[axis] = size;
                Ok(OutFact { dtype: x.dtype, shape: dims.shape()? })
            })
            .collect()
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        let axis = Shape::axis(self.axis, x.shape().rank())?;
        let mut at = 0;
        for y in outputs {
            let len = y.shape()[axis];
            y.copy_from(&x.sliced(axis, at, len, 1)?);
            at += len;
        }
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let split = |opset, axis| node("Split", opset, vec![("axis", Attr::Int(axis))]);
        let n: Vec<i64> = (0..12).collect();
        let h: Vec<f16> = (0..6).map(|i| f16::from_f32(i as f32)).collect();
        let build = || -> Built<Vec<Case>> {
            // Each as numpy.split gives it.
            Ok(vec![
                case(
                    "opset 11, sizes as attribute",
                    node("Split", 11, vec![("axis", Attr::Int(1)), ("split", ints(&[1, 3]))]),
                    vec![t(&[1, 4, 1, 1], &[1f32, 2., 3., 4.])],
                    vec![t(&[1, 1, 1, 1], &[1f32]), t(&[1, 3, 1, 1], &[2f32, 3., 4.])],
                )?,
                case(
                    "opset 11, equal parts along -2",
                    split(11, -2),
                    vec![t(&[2, 2, 3], &n)],
                    vec![t(&[2, 1, 3], &[0i64, 1, 2, 6, 7, 8]), t(&[2, 1, 3], &[3i64, 4, 5, 9, 10, 11])],
                )?,
                case(
                    "opset 13, sizes as input, one empty, axis 2",
                    split(13, 2),
                    vec![t(&[1, 2, 3], &h), t(&[3], &[2i64, 0, 1])],
                    vec![
                        t(&[1, 2, 2], &[h[0], h[1], h[3], h[4]]),
                        t(&[1, 2, 0], &h[..0]),
                        t(&[1, 2, 1], &[h[2], h[5]]),
                    ],
                )?,
                case(
                    "opset 18, num_outputs, last smaller, axis -1",
                    node("Split", 18, vec![("axis", Attr::Int(-1)), ("num_outputs", Attr::Int(3))]),
                    vec![t(&[7], &[0u8, 1, 2, 3, 4, 5, 6])],
                    vec![t(&[3], &[0u8, 1, 2]), t(&[3], &[3u8, 4, 5]), t(&[1], &[6u8])],
                )?,
                case(
                    "axis 4 of rank 5, default sizes",
                    split(13, 4),
                    vec![t(&[1, 1, 2, 1, 2], &[1i32, 2, 3, 4])],
                    vec![t(&[1, 1, 2, 1, 1], &[1i32, 3]), t(&[1, 1, 2, 1, 1], &[2i32, 4])],
                )?,
                case(
                    "default axis, axis 0",
                    node("Split", 13, vec![]),
                    vec![t(&[2, 2], &[1f32, 2., 3., 4.])],
                    vec![t(&[1, 2], &[1f32, 2.]), t(&[1, 2], &[3f32, 4.])],
                )?,
                case(
                    "axis 3",
                    split(13, 3),
                    vec![t(&[1, 1, 2, 3], &n[..6]), t(&[2], &[1i64, 2])],
                    vec![t(&[1, 1, 2, 1], &[0i64, 3]), t(&[1, 1, 2, 2], &[1i64, 2, 4, 5])],
                )?,
            ])
        };
        super::built(build)
    }
}
