use super::from_node::{Built, case, node, t};
use super::number::{Number, Wide};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, ErrorKind, Result};
use saltica_tensor::{Element, Shape, Tensor, View, ViewMut, by_dtype};

/// Numbers from start up to (without) limit, [ONNX Range](https://onnx.ai/onnx/operators/onnx__Range.html).
///
/// Inputs: start, limit, delta; each one number, all of one dtype. Result `[max(ceil((limit - start) / delta), 0)]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Range;

fn number(tensor: &Tensor) -> Wide {
    by_dtype!(tensor.dtype(), T => tensor.view().at::<T>(0).to_wide())
}

/// How many numbers there are. Errors on a delta of 0 and on what is no number.
fn count(start: Wide, limit: Wide, delta: Wide) -> Result<usize> {
    let n = match (start, limit, delta) {
        (Wide::Int(start), Wide::Int(limit), Wide::Int(delta)) if delta != 0 => {
            let (distance, delta) = (i128::from(limit) - i128::from(start), i128::from(delta));
            let n = if (distance > 0) == (delta > 0) {
                distance.unsigned_abs().div_ceil(delta.unsigned_abs())
            } else {
                0
            };
            usize::try_from(n).ok()
        }
        (Wide::Float(start), Wide::Float(limit), Wide::Float(delta)) => {
            let n = ((limit - start) / delta).ceil();
            (n.is_finite() && delta != 0.0 && n < Shape::MAX_ELEMENTS as f64).then_some(n.max(0.0) as usize)
        }
        _ => None,
    };
    n.ok_or_else(|| {
        Error::new(ErrorKind::Value, format!("no range goes from {start:?} to {limit:?} by {delta:?}"))
    })
}

impl Operator for Range {
    fn parse(_: &NodeInfo) -> Result<Self> {
        Ok(Range)
    }

    fn name(&self) -> &str {
        "Range"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let mut numbers = [Wide::Int(0); 3];
        let dtype = required(inputs, 0, "start")?.dtype;
        for (i, what) in ["start", "limit", "delta"].into_iter().enumerate() {
            let fact = required(inputs, i, what)?;
            if fact.shape.elements() != 1 || fact.dtype != dtype {
                return Err(Error::shape(format!(
                    "{what} is {} {}, one number of {dtype} expected",
                    fact.dtype, fact.shape
                )));
            }
            numbers[i] = number(fact.known(what)?);
        }
        let n = count(numbers[0], numbers[1], numbers[2])?;
        Ok(vec![OutFact { dtype, shape: Shape::new(&[n])? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let (start, delta) = (required(inputs, 0, "start")?, required(inputs, 2, "delta")?);
        let y = &mut outputs[0];
        by_dtype!(y.dtype(), T => {
            let (start, delta) = (start.at::<T>(0), delta.at::<T>(0));
            for i in 0..y.shape()[0] {
                let v = match (start.to_wide(), delta.to_wide()) {
                    (Wide::Int(s), Wide::Int(d)) => Wide::Int(s.wrapping_add(d.wrapping_mul(i as i64))),
                    _ => Wide::Float(start.to_f64() + delta.to_f64() * i as f64),
                };
                y.put(i, T::from_wide(v));
            }
        });
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let range = || node("Range", 11, vec![]);
        let s = |v: i64| t(&[], &[v]);
        let build = || -> Built<Vec<Case>> {
            // numpy.arange
            Ok(vec![
                case("up", range(), vec![s(0), s(5), s(2)], vec![t(&[3], &[0i64, 2, 4])])?,
                case("down", range(), vec![s(10), s(4), s(-3)], vec![t(&[2], &[10i64, 7])])?,
                case("nothing", range(), vec![s(3), s(1), s(1)], vec![t(&[0], &[0i64; 0])])?,
                case(
                    "over all of i64",
                    range(),
                    vec![s(i64::MIN), s(i64::MAX), s(i64::MAX)],
                    vec![t(&[3], &[i64::MIN, -1, i64::MAX - 1])],
                )?,
                case(
                    "f32, one-element lists",
                    range(),
                    vec![t(&[1], &[1f32]), t(&[1], &[2.5f32]), t(&[1], &[0.5f32])],
                    vec![t(&[3], &[1f32, 1.5, 2.0])],
                )?,
                case(
                    "i32",
                    range(),
                    vec![t(&[], &[-1i32]), t(&[], &[2i32]), t(&[], &[1i32])],
                    vec![t(&[3], &[-1i32, 0, 1])],
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
    fn endless_ranges_are_refused() {
        let int = |a, b, c| count(Wide::Int(a), Wide::Int(b), Wide::Int(c));
        let float = |a, b, c| count(Wide::Float(a), Wide::Float(b), Wide::Float(c));
        assert!(int(0, 1, 0).is_err());
        assert!(float(0.0, 1.0, 0.0).is_err());
        assert!(float(0.0, f64::INFINITY, 1.0).is_err());
        assert!(float(0.0, f64::NAN, 1.0).is_err());
        assert!(float(0.0, 1.0, 1e-300).is_err());
        // More elements than a shape may have is refused by the shape.
        assert!(Shape::new(&[int(i64::MIN, i64::MAX, 1).unwrap()]).is_err());
    }
}
