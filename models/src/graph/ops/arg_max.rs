use super::from_node::{Built, case, node, t};
use super::indexing::Dims;
use super::number::Number;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, Result};
use saltica_tensor::{DType, Shape, View, ViewMut, by_dtype, f16};

/// Where the largest or smallest along an axis is, [ONNX ArgMax](https://onnx.ai/onnx/operators/onnx__ArgMax.html) and
/// [ArgMin](https://onnx.ai/onnx/operators/onnx__ArgMin.html).
///
/// Inputs: x, any dtype. Result: i64. NaN wins only where there is nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgExtreme {
    /// Whether the largest is looked for, else the smallest.
    pub largest: bool,
    /// The axis; negative ones count from the end.
    pub axis: i64,
    /// Whether the axis stays as a dim of size 1.
    pub keep_dims: bool,
    /// Which of several equals is taken (opset 12).
    pub last: bool,
}

impl Operator for ArgExtreme {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(ArgExtreme {
            largest: node.op_type == "ArgMax",
            axis: node.int("axis")?.unwrap_or(0),
            keep_dims: node.int("keepdims")?.unwrap_or(1) != 0,
            last: node.int("select_last_index")?.unwrap_or(0) != 0,
        })
    }

    fn name(&self) -> &str {
        if self.largest { "ArgMax" } else { "ArgMin" }
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let axis = Shape::axis(self.axis, x.shape.rank())?;
        if x.shape[axis] == 0 {
            return Err(Error::shape(format!("axis {axis} of {} is empty and has no extreme", x.shape)));
        }
        let mut dims = Dims::of(&x.shape[..axis])?;
        if self.keep_dims {
            dims.push(1)?;
        }
        dims.extend(&x.shape[axis + 1..])?;
        Ok(vec![OutFact { dtype: DType::I64, shape: dims.shape()? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        let axis = Shape::axis(self.axis, x.shape().rank())?;
        by_dtype!(x.dtype(), T => self.search::<T>(&x, axis, &mut outputs[0]));
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let arg = |op: &str, axis, keep, last| {
            node(
                op,
                13,
                vec![
                    ("axis", Attr::Int(axis)),
                    ("keepdims", Attr::Int(keep)),
                    ("select_last_index", Attr::Int(last)),
                ],
            )
        };
        let x = || t(&[2, 3], &[1f32, 7., 7., -3., -3., -5.]);
        let h = [1f32, 3., 2., 0.].map(f16::from_f32);
        let build = || -> Built<Vec<Case>> {
            Ok(vec![
                // numpy.argmax and argmin
                case("default", node("ArgMax", 9, vec![]), vec![x()], vec![t(&[1, 3], &[0i64, 0, 0])])?,
                case("axis -1, keepdims 0", arg("ArgMax", -1, 0, 0), vec![x()], vec![t(&[2], &[1i64, 0])])?,
                case(
                    "axis 1, last of equals",
                    arg("ArgMax", 1, 1, 1),
                    vec![x()],
                    vec![t(&[2, 1], &[2i64, 1])],
                )?,
                case("ArgMin axis 1", arg("ArgMin", 1, 0, 0), vec![x()], vec![t(&[2], &[0i64, 2])])?,
                case(
                    "axis 1 of NCHW, f16",
                    arg("ArgMax", 1, 0, 0),
                    vec![t(&[1, 2, 1, 2], &h)],
                    vec![t(&[1, 1, 2], &[1i64, 0])],
                )?,
                // By this op's description.
                case(
                    "NaN never wins",
                    arg("ArgMin", 0, 0, 0),
                    vec![t(&[4], &[f32::NAN, 2., f32::NAN, 1.])],
                    vec![t(&[], &[3i64])],
                )?,
                case(
                    "i64 that f64 cannot tell apart",
                    arg("ArgMax", 0, 1, 0),
                    vec![t(&[2], &[1i64 << 53, (1 << 53) + 1])],
                    vec![t(&[1], &[1i64])],
                )?,
                case(
                    "empty",
                    arg("ArgMax", 1, 0, 0),
                    vec![t(&[0, 2], &[0u8; 0])],
                    vec![t(&[0], &[0i64; 0])],
                )?,
            ])
        };
        super::built(build)
    }
}

impl ArgExtreme {
    fn search<T: Number>(&self, x: &View<'_>, axis: usize, y: &mut ViewMut<'_>) {
        let rank = |v: T| match v.sort_key() {
            _ if v.is_nan() => i64::MIN,
            key if self.largest => key,
            key => !key,
        };
        for to in y.shape().indices() {
            let mut from = to;
            if !self.keep_dims {
                from[axis + 1..].copy_from_slice(&to[axis..to.len() - 1]);
            }
            from[axis] = 0;
            let (mut best, mut at) = (rank(x.get::<T>(&from)), 0);
            for i in 1..x.shape()[axis] {
                from[axis] = i;
                let r = rank(x.get::<T>(&from));
                if r > best || (self.last && r == best) {
                    (best, at) = (r, i);
                }
            }
            y.set(&to, at as i64);
        }
    }
}
