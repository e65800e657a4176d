use super::from_node::{Built, case, node, t};
use super::indexing::{Dims, Ints, dim};
use super::{Case, Fact, Operator, OutFact, required};
use crate::Result;
use crate::graph::attrs::NodeInfo;
use saltica_tensor::{Bool, View, ViewMut, f16};

/// The input repeated to a broadcast shape, [ONNX Expand](https://onnx.ai/onnx/operators/onnx__Expand.html).
///
/// Inputs: x, any dtype; shape, i64. The result's shape is numpy's broadcast of both.
#[derive(Clone, Debug, PartialEq)]
pub struct Expand;

impl Operator for Expand {
    fn parse(_: &NodeInfo) -> Result<Self> {
        Ok(Expand)
    }

    fn name(&self) -> &str {
        "Expand"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let mut dims = Dims::default();
        for &d in Ints::known(&required(inputs, 1, "shape")?, "shape")?.iter() {
            dims.push(dim(d, "the shape")?)?;
        }
        Ok(vec![OutFact { dtype: x.dtype, shape: x.shape.broadcast(&dims.shape()?)? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let y = &mut outputs[0];
        y.copy_from(&required(inputs, 0, "x")?.broadcast_to(y.shape())?);
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let expand = || node("Expand", 13, vec![]);
        let h = [0.5f32, 1.5].map(f16::from_f32);
        let yes = Bool::from(true);
        let build = || -> Built<Vec<Case>> {
            // x * numpy.ones(shape)
            Ok(vec![
                case(
                    "both sides broadcast",
                    expand(),
                    vec![t(&[3, 1], &[1i64, 2, 1 << 60]), t(&[3], &[2i64, 1, 2])],
                    vec![t(&[2, 3, 2], &[1i64, 1, 2, 2, 1 << 60, 1 << 60, 1, 1, 2, 2, 1 << 60, 1 << 60])],
                )?,
                case("same", expand(), vec![t(&[2], &h), t(&[1], &[1i64])], vec![t(&[2], &h)])?,
                case(
                    "scalar",
                    expand(),
                    vec![t(&[], &[yes]), t(&[2], &[1i64, 3])],
                    vec![t(&[1, 3], &[yes; 3])],
                )?,
                case(
                    "to nothing",
                    expand(),
                    vec![t(&[1, 2], &[1u8, 2]), t(&[2], &[0i64, 2])],
                    vec![t(&[0, 2], &[0u8; 0])],
                )?,
                case(
                    "to rank 5",
                    expand(),
                    vec![t(&[2, 1], &[1f32, 2.]), t(&[5], &[1i64, 2, 1, 2, 1])],
                    vec![t(&[1, 2, 1, 2, 1], &[1f32, 2., 1., 2.])],
                )?,
            ])
        };
        super::built(build)
    }
}
