use super::from_node::{Built, case, node, t};
use super::number::Number;
use super::{Case, Fact, Operator, OutFact, required};
use crate::Result;
use crate::graph::attrs::NodeInfo;
use saltica_tensor::{Bool, DType, Shape, View, ViewMut, by_dtype};

/// Where the elements are that are not zero, [ONNX NonZero](https://onnx.ai/onnx/operators/onnx__NonZero.html).
///
/// Inputs: x, any dtype; its value decides the result's shape. Result: i64 `[rank of x, count]`, one column for each found
/// element, in row-major order. NaN is not zero.
#[derive(Clone, Debug, PartialEq)]
pub struct NonZero;

fn is_set<T: Number>(v: T) -> bool {
    v != T::from_f64(0.0)
}

impl Operator for NonZero {
    fn parse(_: &NodeInfo) -> Result<Self> {
        Ok(NonZero)
    }

    fn name(&self) -> &str {
        "NonZero"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?.known("x")?.view();
        let n = x.shape().elements();
        let count = by_dtype!(x.dtype(), T => (0..n).filter(|&i| is_set(x.at::<T>(i))).count());
        Ok(vec![OutFact { dtype: DType::I64, shape: Shape::new(&[x.shape().rank(), count])? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        let y = &mut outputs[0];
        let mut column = 0;
        by_dtype!(x.dtype(), T => for at in x.shape().indices() {
            if is_set(x.get::<T>(&at)) {
                for (d, &i) in at.iter().enumerate().take(x.shape().rank()) {
                    y.set(&[d, column], i as i64);
                }
                column += 1;
            }
        });
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let non_zero = || node("NonZero", 13, vec![]);
        let b = |v: &[u8]| v.iter().map(|&v| Bool::from(v != 0)).collect::<Vec<_>>();
        let build = || -> Built<Vec<Case>> {
            // numpy.nonzero
            Ok(vec![
                case(
                    "bool, rank 2",
                    node("NonZero", 9, vec![]),
                    vec![t(&[2, 2], &b(&[1, 0, 1, 1]))],
                    vec![t(&[2, 3], &[0i64, 1, 1, 0, 0, 1])],
                )?,
                case(
                    "f32 with -0 and NaN",
                    non_zero(),
                    vec![t(&[4], &[-0f32, f32::NAN, 0., -1.])],
                    vec![t(&[1, 2], &[1i64, 3])],
                )?,
                case("none", non_zero(), vec![t(&[1, 2], &[0i64, 0])], vec![t(&[2, 0], &[0i64; 0])])?,
                case("empty", non_zero(), vec![t(&[0], &[0u8; 0])], vec![t(&[1, 0], &[0i64; 0])])?,
                case("scalar", non_zero(), vec![t(&[], &[5i32])], vec![t(&[0, 1], &[0i64; 0])])?,
            ])
        };
        super::built(build)
    }
}
