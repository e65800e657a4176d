use super::from_node::{Built, case, node, t, text};
use super::indexing::{Dims, check_integers, integer_at, wrap};
use super::number::Number;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{MAX_RANK, View, ViewMut, by_dtype, f16};

/// What happens where an update meets an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// It is replaced; of several updates the last one stays.
    None,
    /// Sum.
    Add,
    /// Product.
    Mul,
    /// The smaller (opset 18).
    Min,
    /// The larger (opset 18).
    Max,
}

impl Reduction {
    /// Reads the attribute `reduction`.
    pub(super) fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(match node.string("reduction")?.as_deref() {
            None | Some("none") => Reduction::None,
            Some("add") => Reduction::Add,
            Some("mul") => Reduction::Mul,
            Some("min") => Reduction::Min,
            Some("max") => Reduction::Max,
            Some(other) => {
                return Err(Error::unsupported(format!(
                    "reduction is {other}; none, add, mul, min and max are supported"
                )));
            }
        })
    }

    /// What the element becomes.
    pub(super) fn apply<T: Number>(self, old: T, update: T) -> T {
        match self {
            Reduction::None => update,
            Reduction::Add => old.plus(update),
            Reduction::Mul => old.times(update),
            Reduction::Min => old.least(update),
            Reduction::Max => old.greatest(update),
        }
    }
}

/// Slices written by index tuples, [ONNX ScatterND](https://onnx.ai/onnx/operators/onnx__ScatterND.html).
///
/// Inputs: x, any dtype; indices, i64 `[..., tuple length]`, negative ones count from the end; updates of x's dtype, shaped as
/// the indices without the last dim and the dims of x that no tuple reaches. Updates are applied in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct ScatterNd {
    /// What happens where an update meets an element.
    pub reduction: Reduction,
}

impl Operator for ScatterNd {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(ScatterNd { reduction: Reduction::parse(node)? })
    }

    fn name(&self) -> &str {
        "ScatterND"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let indices = required(inputs, 1, "indices")?;
        let updates = required(inputs, 2, "updates")?;
        check_integers(indices.dtype, "indices")?;
        let misfit = || Error::shape(format!("indices {} do not fit {}", indices.shape, x.shape));
        let (&tuple, outer) = indices.shape.split_last().ok_or_else(misfit)?;
        let mut dims = Dims::of(outer)?;
        dims.extend(x.shape.get(tuple..).ok_or_else(misfit)?)?;
        if dims[..] != updates.shape[..] || updates.dtype != x.dtype {
            return Err(Error::shape(format!(
                "updates are {} {}, {} {:?} expected",
                updates.dtype,
                updates.shape,
                x.dtype,
                &dims[..]
            )));
        }
        Ok(vec![OutFact { dtype: x.dtype, shape: x.shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        let indices = required(inputs, 1, "indices")?;
        let updates = required(inputs, 2, "updates")?;
        let y = &mut outputs[0];
        y.copy_from(&x);
        by_dtype!(x.dtype(), T => self.scatter::<T>(&indices, &updates, y))
    }

    fn cases() -> Vec<Case> {
        let scatter = |how: &str| node("ScatterND", 18, vec![("reduction", text(how))]);
        let x = [1f32, 2., 3., 4., 5., 6., 7., 8.];
        let h = [1f32, 2., 9.].map(f16::from_f32);
        let pairs = |how: &str, expected: [i32; 3]| {
            case(
                &format!("{how}, twice at one place"),
                scatter(how),
                vec![t(&[3], &[5i32, -4, 7]), t(&[3, 1], &[1i64, 1, -1]), t(&[3], &[3i32, -2, 10])],
                vec![t(&[3], &expected)],
            )
        };
        let build = || -> Built<Vec<Case>> {
            Ok(vec![
                // The ONNX text's example 1.
                case(
                    "elements",
                    node("ScatterND", 11, vec![]),
                    vec![t(&[8], &x), t(&[4, 1], &[4i64, 3, 1, 7]), t(&[4], &[9f32, 10., 11., 12.])],
                    vec![t(&[8], &[1f32, 11., 3., 10., 9., 6., 7., 12.])],
                )?,
                // By hand from here on.
                case(
                    "rows, negative",
                    node("ScatterND", 16, vec![]),
                    vec![t(&[2, 2, 2], &x), t(&[1, 2], &[1i64, -2]), t(&[1, 2], &[-1f32, -2.])],
                    vec![t(&[2, 2, 2], &[1f32, 2., 3., 4., -1., -2., 7., 8.])],
                )?,
                pairs("none", [5, -2, 10])?,
                pairs("add", [5, -3, 17])?,
                pairs("mul", [5, 24, 70])?,
                pairs("min", [5, -4, 7])?,
                pairs("max", [5, 3, 10])?,
                case(
                    "f16",
                    scatter("none"),
                    vec![t(&[2], &h[..2]), t(&[1, 1], &[0i64]), t(&[1], &h[2..])],
                    vec![t(&[2], &[h[2], h[1]])],
                )?,
                case(
                    "nothing to write",
                    scatter("none"),
                    vec![t(&[2], &[i64::MAX, 1]), t(&[0, 1], &[0i64; 0]), t(&[0], &[0i64; 0])],
                    vec![t(&[2], &[i64::MAX, 1])],
                )?,
            ])
        };
        super::built(build)
    }
}

impl ScatterNd {
    fn scatter<T: Number>(&self, indices: &View<'_>, updates: &View<'_>, y: &mut ViewMut<'_>) -> Result<()> {
        let outer = indices.shape().rank() - 1;
        let tuple = indices.shape()[outer];
        for from in updates.shape().indices() {
            let mut at = from;
            let mut to = [0; MAX_RANK];
            for k in 0..tuple {
                at[outer] = k;
                to[k] = wrap(integer_at(indices, &at), y.shape()[k])?;
            }
            for d in tuple..y.shape().rank() {
                to[d] = from[outer + d - tuple];
            }
            y.set(&to, self.reduction.apply(y.get::<T>(&to), updates.get::<T>(&from)));
        }
        Ok(())
    }
}
