use super::from_node::{Built, case, node, t};
use super::indexing::{Dims, check_integers, integer_at, wrap};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, Result};
use saltica_tensor::{Bool, Element, MAX_RANK, View, ViewMut, by_dtype};

/// Slices picked by index tuples, [ONNX GatherND](https://onnx.ai/onnx/operators/onnx__GatherND.html).
///
/// Inputs: x, any dtype; indices, i64 `[batch dims of x, ..., tuple length]`; a tuple names a position in x after the batch
/// dims, negative ones count from the end. The result is `[indices without the last dim, dims of x that no tuple reaches]`.
#[derive(Clone, Debug, PartialEq)]
pub struct GatherNd {
    /// Leading dims that x and the indices share.
    pub batch_dims: usize,
}

impl Operator for GatherNd {
    fn parse(node: &NodeInfo) -> Result<Self> {
        let batch_dims = node.int("batch_dims")?.unwrap_or(0);
        let batch_dims = usize::try_from(batch_dims).ok().filter(|&b| b < MAX_RANK);
        Ok(GatherNd { batch_dims: batch_dims.ok_or_else(|| Error::unsupported("batch_dims out of range"))? })
    }

    fn name(&self) -> &str {
        "GatherND"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let indices = required(inputs, 1, "indices")?;
        check_integers(indices.dtype, "indices")?;
        let b = self.batch_dims;
        let misfit =
            || Error::shape(format!("indices {} do not fit {} with {b} batch dims", indices.shape, x.shape));
        let (&tuple, outer) = indices.shape.split_last().ok_or_else(misfit)?;
        let reach = tuple.checked_add(b).filter(|&r| r <= x.shape.rank()).ok_or_else(misfit)?;
        if outer.len() < b || outer[..b] != x.shape[..b] {
            return Err(misfit());
        }
        let mut dims = Dims::of(outer)?;
        dims.extend(&x.shape[reach..])?;
        Ok(vec![OutFact { dtype: x.dtype, shape: dims.shape()? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        let indices = required(inputs, 1, "indices")?;
        by_dtype!(x.dtype(), T => gather_nd::<T>(&x, &indices, self.batch_dims, &mut outputs[0]))
    }

    fn cases() -> Vec<Case> {
        let gather = |batch| node("GatherND", 13, vec![("batch_dims", Attr::Int(batch))]);
        let x = [0i32, 1, 2, 3, 4, 5, 6, 7];
        let build = || -> Built<Vec<Case>> {
            Ok(vec![
                // The ONNX text's examples 1 to 5.
                case(
                    "elements",
                    node("GatherND", 11, vec![]),
                    vec![t(&[2, 2], &x[..4]), t(&[2, 2], &[0i64, 0, 1, 1])],
                    vec![t(&[2], &[0i32, 3])],
                )?,
                case(
                    "rows",
                    gather(0),
                    vec![t(&[2, 2], &x[..4]), t(&[2, 1], &[1i64, 0])],
                    vec![t(&[2, 2], &[2i32, 3, 0, 1])],
                )?,
                case(
                    "rows of rank 3",
                    gather(0),
                    vec![t(&[2, 2, 2], &x), t(&[2, 2], &[0i64, 1, 1, 0])],
                    vec![t(&[2, 2], &[2i32, 3, 4, 5])],
                )?,
                case(
                    "higher-rank indices",
                    gather(0),
                    vec![t(&[2, 2, 2], &x), t(&[2, 1, 2], &[0i64, 1, 1, 0])],
                    vec![t(&[2, 1, 2], &[2i32, 3, 4, 5])],
                )?,
                case(
                    "one batch dim",
                    gather(1),
                    vec![t(&[2, 2, 2], &x), t(&[2, 1], &[1i64, 0])],
                    vec![t(&[2, 2], &[2i32, 3, 4, 5])],
                )?,
                // By hand.
                case(
                    "negative, bool",
                    gather(0),
                    vec![
                        t(&[3], &[Bool::from(true), Bool::from(false), Bool::from(false)]),
                        t(&[2, 1], &[-3i64, -1]),
                    ],
                    vec![t(&[2], &[Bool::from(true), Bool::from(false)])],
                )?,
                case(
                    "no tuples",
                    gather(0),
                    vec![t(&[2, 2], &x[..4]), t(&[0, 1], &[0i64; 0])],
                    vec![t(&[0, 2], &[0i32; 0])],
                )?,
            ])
        };
        super::built(build)
    }
}

fn gather_nd<T: Element>(x: &View<'_>, indices: &View<'_>, batch: usize, y: &mut ViewMut<'_>) -> Result<()> {
    let outer = indices.shape().rank() - 1;
    let tuple = indices.shape()[outer];
    for to in y.shape().indices() {
        let mut at = to;
        let mut from = to;
        for k in 0..tuple {
            at[outer] = k;
            from[batch + k] = wrap(integer_at(indices, &at), x.shape()[batch + k])?;
        }
        for d in batch + tuple..x.shape().rank() {
            from[d] = to[outer + d - batch - tuple];
        }
        y.set::<T>(&to, x.get::<T>(&from));
    }
    Ok(())
}
