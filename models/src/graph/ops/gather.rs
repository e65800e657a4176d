use super::from_node::{Built, case, node, t};
use super::indexing::{Dims, check_integers, integer, integer_at, wrap};
use super::{Case, Fact, Operator, OutFact, required};
use crate::Result;
use crate::graph::attrs::{Attr, NodeInfo};
use saltica_tensor::{Element, Shape, View, ViewMut, by_dtype, f16};

/// Slices picked by index along an axis, [ONNX Gather](https://onnx.ai/onnx/operators/onnx__Gather.html).
///
/// Inputs: x, any dtype; indices, i64 or i32, negative ones count from the end. The result's shape is x's with the axis
/// replaced by the shape of the indices.
#[derive(Clone, Debug, PartialEq)]
pub struct Gather {
    /// The axis; negative ones count from the end.
    pub axis: i64,
}

impl Operator for Gather {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(Gather { axis: node.int("axis")?.unwrap_or(0) })
    }

    fn name(&self) -> &str {
        "Gather"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let indices = required(inputs, 1, "indices")?;
        check_integers(indices.dtype, "indices")?;
        let axis = Shape::axis(self.axis, x.shape.rank())?;
        let mut dims = Dims::of(&x.shape[..axis])?;
        dims.extend(&indices.shape)?;
        dims.extend(&x.shape[axis + 1..])?;
        Ok(vec![OutFact { dtype: x.dtype, shape: dims.shape()? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        let indices = required(inputs, 1, "indices")?;
        let axis = Shape::axis(self.axis, x.shape().rank())?;
        by_dtype!(x.dtype(), T => gather::<T>(&x, &indices, axis, &mut outputs[0]))
    }

    fn cases() -> Vec<Case> {
        let gather = |axis| node("Gather", 13, vec![("axis", Attr::Int(axis))]);
        let n: Vec<i64> = (0..24).map(|i| i + (1 << 60)).collect();
        let at = |list: &[usize]| list.iter().map(|&i| n[i]).collect::<Vec<_>>();
        let h = [1.5f32, 2.5, 3.5, 4.5].map(f16::from_f32);
        let build = || -> Built<Vec<Case>> {
            // Each as numpy.take(x, indices, axis) gives it.
            Ok(vec![
                case(
                    "axis 0, a dimension of a shape",
                    node("Gather", 11, vec![]),
                    vec![t(&[4], &[1i64, 3, 640, 480]), t(&[], &[2i64])],
                    vec![t(&[], &[640i64])],
                )?,
                case(
                    "axis 1, negative and repeated",
                    gather(1),
                    vec![t(&[2, 3, 4], &n), t(&[3], &[-1i64, 0, 2])],
                    vec![t(
                        &[2, 3, 4],
                        &at(&[
                            8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11, 20, 21, 22, 23, 12, 13, 14, 15, 20, 21,
                            22, 23,
                        ]),
                    )],
                )?,
                case(
                    "axis 2, 2-D i32 indices",
                    gather(2),
                    vec![t(&[2, 3, 4], &n), t(&[1, 2], &[3i32, -4])],
                    vec![t(&[2, 3, 1, 2], &at(&[3, 0, 7, 4, 11, 8, 15, 12, 19, 16, 23, 20]))],
                )?,
                case(
                    "axis 3",
                    gather(3),
                    vec![t(&[1, 2, 1, 2], &h), t(&[1], &[1i64])],
                    vec![t(&[1, 2, 1, 1], &[h[1], h[3]])],
                )?,
                case(
                    "axis 4 of rank 5, scalar index",
                    gather(4),
                    vec![t(&[1, 1, 1, 2, 2], &[1u8, 2, 3, 4]), t(&[], &[0i64])],
                    vec![t(&[1, 1, 1, 2], &[1u8, 3])],
                )?,
                case(
                    "axis -1",
                    gather(-1),
                    vec![t(&[2, 2], &[1f32, 2., 3., 4.]), t(&[3], &[1i64, 1, 0])],
                    vec![t(&[2, 3], &[2f32, 2., 1., 4., 4., 3.])],
                )?,
                case(
                    "no indices",
                    gather(0),
                    vec![t(&[2, 2], &[1f32, 2., 3., 4.]), t(&[0], &[0i64; 0])],
                    vec![t(&[0, 2], &[0f32; 0])],
                )?,
            ])
        };
        super::built(build)
    }
}

fn gather<T: Element>(x: &View<'_>, indices: &View<'_>, axis: usize, y: &mut ViewMut<'_>) -> Result<()> {
    let (dim, picks) = (x.shape()[axis], indices.shape().elements());
    let inner: usize = x.shape()[axis + 1..].iter().product();
    if let (Some(x), Some(y)) = (x.as_slice::<T>(), y.as_mut_slice::<T>()) {
        if y.is_empty() {
            return Ok(());
        }
        for i in 0..picks {
            let from = wrap(integer(indices, i), dim)?;
            for (x, y) in x.chunks_exact(dim * inner).zip(y.chunks_exact_mut(picks * inner)) {
                y[i * inner..(i + 1) * inner].copy_from_slice(&x[from * inner..(from + 1) * inner]);
            }
        }
        return Ok(());
    }
    let rank = indices.shape().rank();
    for to in y.shape().indices() {
        let mut from = to;
        from[axis] = wrap(integer_at(indices, &to[axis..axis + rank]), dim)?;
        for d in axis + 1..x.shape().rank() {
            from[d] = to[d + rank - 1];
        }
        y.set::<T>(&to, x.get::<T>(&from));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::graph::Op;

    #[test]
    fn an_index_outside_is_an_error() {
        let x = t(&[2, 2], &[1f32, 2., 3., 4.]).unwrap();
        for bad in [2i64, -3, i64::MIN, i64::MAX] {
            let index = t(&[1], &[bad]).unwrap();
            let e = Op::Gather(Gather { axis: 1 }).evaluate(&[Some(&x), Some(&index)]).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Value, "{e}");
        }
    }
}
