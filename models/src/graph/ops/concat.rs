use super::from_node::{Built, case, node, t};
use super::indexing::Dims;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, ErrorKind, Result};
use saltica_tensor::{Shape, View, ViewMut, f16};

/// Inputs laid end to end, [ONNX Concat](https://onnx.ai/onnx/operators/onnx__Concat.html).
///
/// Inputs: one or more of the same dtype and rank, equal in all dims but `axis`.
#[derive(Clone, Debug, PartialEq)]
pub struct Concat {
    /// The axis; negative ones count from the end.
    pub axis: i64,
}

impl Operator for Concat {
    fn parse(node: &NodeInfo) -> Result<Self> {
        let axis = node.int("axis")?.ok_or_else(|| {
            Error::new(ErrorKind::Malformed, "attribute axis is missing (Concat needs one)")
        })?;
        Ok(Concat { axis })
    }

    fn name(&self) -> &str {
        "Concat"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let first = required(inputs, 0, "the first part")?;
        let axis = Shape::axis(self.axis, first.shape.rank())?;
        let mut dims = Dims::of(&first.shape)?;
        for i in 1..inputs.len() {
            let part = required(inputs, i, "a part")?;
            let fits = part.dtype == first.dtype
                && part.shape.rank() == first.shape.rank()
                && (0..part.shape.rank()).all(|d| d == axis || part.shape[d] == first.shape[d]);
            if !fits {
                return Err(Error::shape(format!(
                    "input {i} is {} {}, which does not join {} {} along axis {axis}",
                    part.dtype, part.shape, first.dtype, first.shape
                )));
            }
            // Each dimension is below 2^60, so a sum overflows only past any count of inputs that fits in memory.
            dims[axis] = dims[axis].saturating_add(part.shape[axis]);
        }
        Ok(vec![OutFact { dtype: first.dtype, shape: dims.shape()? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let y = &mut outputs[0];
        let axis = Shape::axis(self.axis, y.shape().rank())?;
        let mut at = 0;
        for part in inputs.iter().flatten() {
            let len = part.shape()[axis];
            y.reborrow().sliced(axis, at, len, 1)?.copy_from(part);
            at += len;
        }
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let concat = |axis| node("Concat", 13, vec![("axis", Attr::Int(axis))]);
        let h = |v: &[f32]| v.iter().map(|&v| f16::from_f32(v)).collect::<Vec<_>>();
        let five: Vec<u8> = (0..8).collect();
        let build = || -> Built<Vec<Case>> {
            // Each as numpy.concatenate gives it.
            Ok(vec![
                case(
                    "axis 1",
                    concat(1),
                    vec![t(&[2, 2], &[1f32, 2., 3., 4.]), t(&[2, 1], &[5f32, 6.]), t(&[2, 0], &[0f32; 0])],
                    vec![t(&[2, 3], &[1f32, 2., 5., 3., 4., 6.])],
                )?,
                case(
                    "axis 0, i64 beyond 2^53",
                    concat(0),
                    vec![t(&[1], &[(1i64 << 53) + 1]), t(&[2], &[-1i64, i64::MIN])],
                    vec![t(&[3], &[(1i64 << 53) + 1, -1, i64::MIN])],
                )?,
                case(
                    "axis -1, f16",
                    concat(-1),
                    vec![t(&[1, 2, 1], &h(&[1., 2.])), t(&[1, 2, 2], &h(&[3., 4., 5., 6.]))],
                    vec![t(&[1, 2, 3], &h(&[1., 3., 4., 2., 5., 6.]))],
                )?,
                case("one input", concat(0), vec![t(&[2], &[1i32, 2])], vec![t(&[2], &[1i32, 2])])?,
                case(
                    "axis 2",
                    concat(2),
                    vec![t(&[1, 2, 1, 2], &[1i32, 2, 3, 4]), t(&[1, 2, 1, 2], &[5i32, 6, 7, 8])],
                    vec![t(&[1, 2, 2, 2], &[1i32, 2, 5, 6, 3, 4, 7, 8])],
                )?,
                case(
                    "axis 3",
                    concat(3),
                    vec![t(&[1, 2, 1, 2], &[1i32, 2, 3, 4]), t(&[1, 2, 1, 1], &[5i32, 6])],
                    vec![t(&[1, 2, 1, 3], &[1i32, 2, 5, 3, 4, 6])],
                )?,
                case(
                    "axis 4 of rank 5",
                    concat(4),
                    vec![t(&[1, 1, 2, 2, 1], &five[..4]), t(&[1, 1, 2, 2, 1], &five[4..])],
                    vec![t(&[1, 1, 2, 2, 2], &[0u8, 4, 1, 5, 2, 6, 3, 7])],
                )?,
            ])
        };
        super::built(build)
    }
}
