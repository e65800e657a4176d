use super::from_node::{Built, case, node, t};
use super::indexing::single;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, Result};
use saltica_tensor::{Element, View, ViewMut, by_dtype};

/// The upper or lower triangle of matrices, zeros elsewhere, [ONNX Trilu](https://onnx.ai/onnx/operators/onnx__Trilu.html).
///
/// Inputs: x, any dtype, rank 2 or more; k, one i64 (default 0): which diagonal bounds the triangle.
#[derive(Clone, Debug, PartialEq)]
pub struct Trilu {
    /// Whether the upper triangle stays.
    pub upper: bool,
}

impl Operator for Trilu {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(Trilu { upper: node.int("upper")?.unwrap_or(1) != 0 })
    }

    fn name(&self) -> &str {
        "Trilu"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        if x.shape.rank() < 2 {
            return Err(Error::shape(format!("x is {}, rank 2 or more expected", x.shape)));
        }
        Ok(vec![OutFact { dtype: x.dtype, shape: x.shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        let k = inputs.get(1).copied().flatten().map_or(Ok(0), |k| single(&k, "k"))?;
        by_dtype!(x.dtype(), T => self.cut::<T>(&x, k, &mut outputs[0]));
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let trilu = |upper| node("Trilu", 14, vec![("upper", Attr::Int(upper))]);
        let x = || t(&[2, 3], &[1i64, 2, 3, 4, 5, 1 << 60]);
        let k = |k: i64| t(&[], &[k]);
        let build = || -> Built<Vec<Case>> {
            // numpy.triu and tril
            Ok(vec![
                case(
                    "upper",
                    node("Trilu", 14, vec![]),
                    vec![x()],
                    vec![t(&[2, 3], &[1i64, 2, 3, 0, 5, 1 << 60])],
                )?,
                case("lower", trilu(0), vec![x(), k(0)], vec![t(&[2, 3], &[1i64, 0, 0, 4, 5, 0])])?,
                case(
                    "upper, k 1",
                    trilu(1),
                    vec![x(), k(1)],
                    vec![t(&[2, 3], &[0i64, 2, 3, 0, 0, 1 << 60])],
                )?,
                case("lower, k -1", trilu(0), vec![x(), k(-1)], vec![t(&[2, 3], &[0i64, 0, 0, 4, 0, 0])])?,
                case("k far out", trilu(0), vec![x(), k(i64::MIN)], vec![t(&[2, 3], &[0i64; 6])])?,
                case(
                    "batch, empty",
                    trilu(1),
                    vec![t(&[2, 0, 3], &[0u8; 0])],
                    vec![t(&[2, 0, 3], &[0u8; 0])],
                )?,
            ])
        };
        super::built(build)
    }
}

impl Trilu {
    fn cut<T: Element>(&self, x: &View<'_>, k: i64, y: &mut ViewMut<'_>) {
        let rank = x.shape().rank();
        for at in y.shape().indices() {
            let diagonal = at[rank - 1] as i64 - at[rank - 2] as i64;
            let stays = if self.upper { diagonal >= k } else { diagonal <= k };
            y.set::<T>(&at, if stays { x.get::<T>(&at) } else { T::from_f64(0.0) });
        }
    }
}
