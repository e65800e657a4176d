use super::from_node::{Built, case, node, t};
use super::indexing::{Dims, Ints, dim};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, Result};
use saltica_tensor::{Bool, Shape, View, ViewMut, f16};

/// Another shape for the same elements, [ONNX Reshape](https://onnx.ai/onnx/operators/onnx__Reshape.html).
///
/// Inputs: x, any dtype; shape, i64 `[rank of the result]`: 0 keeps the dimension of x, -1 is what remains.
#[derive(Clone, Debug, PartialEq)]
pub struct Reshape {
    /// Whether 0 in the shape means an empty dimension (opset 14).
    pub allow_zero: bool,
}

impl Reshape {
    fn output(&self, x: &Shape, wanted: &[i64]) -> Result<Shape> {
        let misfit = |why: &str| Error::shape(format!("{x} cannot be reshaped to {wanted:?}: {why}"));
        let mut dims = Dims::default();
        let mut open = None;
        for (i, &d) in wanted.iter().enumerate() {
            dims.push(match d {
                -1 if open.replace(i).is_some() => return Err(misfit("-1 stands twice")),
                -1 => 1,
                0 if !self.allow_zero => *x.get(i).ok_or_else(|| misfit("0 stands beyond its rank"))?,
                d => dim(d, "the shape")?,
            })?;
        }
        let rest = dims.shape()?.elements();
        if let Some(i) = open {
            if rest == 0 {
                return Err(misfit("-1 cannot be settled beside a dimension of 0"));
            }
            dims[i] = x.elements() / rest;
        }
        let shape = dims.shape()?;
        if shape.elements() != x.elements() {
            return Err(misfit(&format!("{} and {} elements", x.elements(), shape.elements())));
        }
        Ok(shape)
    }
}

impl Operator for Reshape {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(Reshape { allow_zero: node.int("allowzero")?.unwrap_or(0) != 0 })
    }

    fn name(&self) -> &str {
        "Reshape"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let wanted = Ints::known(&required(inputs, 1, "shape")?, "shape")?;
        Ok(vec![OutFact { dtype: x.dtype, shape: self.output(&x.shape, &wanted)? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        outputs[0].copy_flat(&required(inputs, 0, "x")?);
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let reshape = || node("Reshape", 13, vec![]);
        let allow_zero = |v| node("Reshape", 14, vec![("allowzero", Attr::Int(v))]);
        let n: Vec<i64> = (0..24).map(|i| i + (1 << 60)).collect();
        let big = [f16::from_f32(1.5), f16::from_f32(-2.0)];
        let build = || -> Built<Vec<Case>> {
            // Expected shapes by the ONNX text.
            Ok(vec![
                case("-1", reshape(), vec![t(&[2, 3, 4], &n), t(&[2], &[-1i64, 6])], vec![t(&[4, 6], &n)])?,
                case(
                    "0 and -1",
                    reshape(),
                    vec![t(&[2, 3, 4], &n), t(&[4], &[0i64, 0, -1, 1])],
                    vec![t(&[2, 3, 4, 1], &n)],
                )?,
                case(
                    "to a scalar",
                    reshape(),
                    vec![t(&[1, 1], &big[..1]), t(&[0], &[0i64; 0])],
                    vec![t(&[], &big[..1])],
                )?,
                case(
                    "empty, allowzero 1",
                    allow_zero(1),
                    vec![t(&[0, 3], &[0u8; 0]), t(&[3], &[3i64, 0, 7])],
                    vec![t(&[3, 0, 7], &[0u8; 0])],
                )?,
                case(
                    "bool, allowzero 0",
                    allow_zero(0),
                    vec![t(&[2, 1], &[Bool::from(true), Bool::from(false)]), t(&[1], &[0i64])],
                    vec![t(&[2], &[Bool::from(true), Bool::from(false)])],
                )?,
            ])
        };
        super::built(build)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let x = Shape::new(&[2, 3]).unwrap();
        let op = Reshape { allow_zero: false };
        for wanted in [&[-1, -1][..], &[4], &[-1, 4], &[2, 3, 0], &[-2, 3], &[1 << 40, 1 << 40], &[i64::MIN]]
        {
            assert!(op.output(&x, wanted).is_err(), "{wanted:?}");
        }
        assert!(Reshape { allow_zero: true }.output(&x, &[0, -1]).is_err());
    }
}
