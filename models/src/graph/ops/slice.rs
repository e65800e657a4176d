use super::from_node::{Built, case, ints, node, t};
use super::indexing::{Dims, Ints};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, ErrorKind, Result};
use saltica_tensor::{Bool, Element, MAX_RANK, Shape, View, ViewMut, by_dtype, f16};

/// A range with a step along some axes, [ONNX Slice](https://onnx.ai/onnx/operators/onnx__Slice.html).
///
/// Inputs: x, any dtype; starts, ends, axes (optional), steps (optional), each i64 or i32 `[n]`. Before opset 10 these are
/// attributes and x is the only input.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// The ranges, if they are attributes.
    pub ranges: Option<SliceRanges>,
}

/// Ranges of a [`Slice`] before opset 10 (step 1).
#[derive(Clone, Debug, PartialEq)]
pub struct SliceRanges {
    /// First index of each range.
    pub starts: Vec<i64>,
    /// One past the last index of each range.
    pub ends: Vec<i64>,
    /// The axes; absent means the first ones in order.
    pub axes: Option<Vec<i64>>,
}

/// What a slice takes of one axis: `len` elements, the `i`-th at `start + i * step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisRange {
    /// First index.
    pub start: usize,
    /// Elements.
    pub len: usize,
    /// Step, negative to run backwards.
    pub step: i64,
}

impl AxisRange {
    /// Clamps a range as ONNX says: negative ends count from the end, then both are brought inside the dimension.
    fn new(start: i64, end: i64, step: i64, dim: usize) -> Result<Self> {
        let d = dim as i64;
        let (low, high) = match step {
            0 => return Err(Error::new(ErrorKind::Value, "a step is 0, any other number expected")),
            1.. => (0, d),
            _ => (-1, d - 1),
        };
        let clamp = |v: i64| if v < 0 { v.saturating_add(d) } else { v }.clamp(low, high);
        // An end of -1 that was -d-1 or less means "through the first element" when running backwards.
        let (start, end) = (clamp(start).max(0), clamp(end));
        let distance = if step > 0 { end - start } else { start - end };
        if dim == 0 || distance <= 0 {
            return Ok(AxisRange { start: 0, len: 0, step });
        }
        let len = (distance as u64).div_ceil(step.unsigned_abs()) as usize;
        Ok(AxisRange { start: start as usize, len, step })
    }
}

impl Slice {
    /// The ranges of all axes of x; the first `rank` entries count. The views are those of inputs 1 to 4.
    pub fn resolve(&self, x: &Shape, given: [Option<View<'_>>; 4]) -> Result<[AxisRange; MAX_RANK]> {
        let list = |i: usize, what: &str| given[i].map(|v| Ints::read(&v, what)).transpose();
        let missing = |what: &str| Error::new(ErrorKind::Malformed, format!("input {what} is missing"));
        let (starts, ends, axes, steps) = match &self.ranges {
            Some(r) => (
                Ints::new(&r.starts, "starts")?,
                Ints::new(&r.ends, "ends")?,
                r.axes.as_ref().map(|a| Ints::new(a, "axes")).transpose()?,
                None,
            ),
            None => (
                list(0, "starts")?.ok_or_else(|| missing("starts"))?,
                list(1, "ends")?.ok_or_else(|| missing("ends"))?,
                list(2, "axes")?,
                list(3, "steps")?,
            ),
        };
        let n = starts.len();
        if ends.len() != n
            || axes.is_some_and(|a| a.len() != n)
            || steps.is_some_and(|s| s.len() != n)
            || n > x.rank()
        {
            return Err(Error::shape(format!(
                "starts, ends, axes and steps have {n}, {}, {:?} and {:?} entries, one for each sliced axis of {x} \
                 expected",
                ends.len(),
                axes.map(|a| a.len()),
                steps.map(|s| s.len())
            )));
        }
        let mut ranges = [AxisRange { start: 0, len: 1, step: 1 }; MAX_RANK];
        for (r, &d) in ranges.iter_mut().zip(x.iter()) {
            r.len = d;
        }
        let mut seen = [false; MAX_RANK];
        for i in 0..n {
            let axis = axes.map_or(Ok(i), |a| Shape::axis(a[i], x.rank()))?;
            if std::mem::replace(&mut seen[axis], true) {
                return Err(Error::shape(format!("axis {axis} is sliced twice")));
            }
            ranges[axis] = AxisRange::new(starts[i], ends[i], steps.map_or(1, |s| s[i]), x[axis])?;
        }
        Ok(ranges)
    }
}

impl Operator for Slice {
    fn parse(node: &NodeInfo) -> Result<Self> {
        if node.opset >= 10 {
            return Ok(Slice { ranges: None });
        }
        let list = |name: &str| {
            node.ints(name)?
                .ok_or_else(|| Error::new(ErrorKind::Malformed, format!("attribute {name} is missing")))
        };
        Ok(Slice {
            ranges: Some(SliceRanges {
                starts: list("starts")?,
                ends: list("ends")?,
                axes: node.ints("axes")?,
            }),
        })
    }

    fn name(&self) -> &str {
        "Slice"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let mut given = [None; 4];
        for (i, what) in ["starts", "ends", "axes", "steps"].into_iter().enumerate() {
            if let Some(fact) = inputs.get(i + 1).copied().flatten() {
                given[i] = Some(fact.known(what)?.view());
            }
        }
        let ranges = self.resolve(&x.shape, given)?;
        let mut dims = Dims::of(&x.shape)?;
        for (d, r) in dims.iter_mut().zip(&ranges) {
            *d = r.len;
        }
        Ok(vec![OutFact { dtype: x.dtype, shape: dims.shape()? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let mut x = required(inputs, 0, "x")?;
        let given = [1, 2, 3, 4].map(|i| inputs.get(i).copied().flatten());
        let mut ranges = self.resolve(x.shape(), given)?;
        let y = &mut outputs[0];
        if y.shape().elements() == 0 {
            return Ok(());
        }
        for (axis, r) in ranges.iter_mut().enumerate().take(x.shape().rank()) {
            // A step past the end is never taken; one that fits is at most the dimension.
            let forwards = usize::try_from(r.step).ok();
            if let Some(step) = forwards.or((r.len == 1).then_some(1)) {
                x = x.sliced(axis, r.start, r.len, step)?;
                *r = AxisRange { start: 0, len: r.len, step: 1 };
            }
        }
        if ranges.iter().all(|r| r.step == 1) {
            y.copy_from(&x);
        } else {
            by_dtype!(y.dtype(), T => copy_backwards::<T>(&x, y, &ranges));
        }
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let slice = || node("Slice", 13, vec![]);
        let n: Vec<i64> = (0..24).collect();
        let f: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let h = [0.5f32, 1.5, 2.5, 3.5].map(f16::from_f32);
        let l = |v: &[i64]| t(&[v.len()], v);
        let build = || -> Built<Vec<Case>> {
            // Each as numpy's x[start:end:step] gives it.
            Ok(vec![
                case(
                    "opset 9 attributes",
                    node(
                        "Slice",
                        9,
                        vec![("starts", ints(&[0, -3])), ("ends", ints(&[2, 1000])), ("axes", ints(&[0, 1]))],
                    ),
                    vec![t(&[3, 4], &f)],
                    vec![t(&[2, 3], &[1f32, 2., 3., 5., 6., 7.])],
                )?,
                case(
                    "opset 9 without axes",
                    node("Slice", 9, vec![("starts", ints(&[1])), ("ends", ints(&[-1]))]),
                    vec![t(&[3, 4], &f)],
                    vec![t(&[1, 4], &[4f32, 5., 6., 7.])],
                )?,
                case(
                    "starts and ends only",
                    slice(),
                    vec![t(&[3, 4], &f), l(&[1, 2]), l(&[3, 3])],
                    vec![t(&[2, 1], &[6f32, 10.])],
                )?,
                case(
                    "step 2 (a space-to-depth of YOLOv5 and YOLOX)",
                    slice(),
                    vec![t(&[1, 1, 3, 4], &f), l(&[1]), l(&[i64::MAX]), l(&[3]), l(&[2])],
                    vec![t(&[1, 1, 3, 2], &[1f32, 3., 5., 7., 9., 11.])],
                )?,
                case(
                    "negative steps on two axes",
                    slice(),
                    vec![t(&[2, 3, 4], &n), l(&[-1, 3]), l(&[i64::MIN, 0]), l(&[0, -1]), l(&[-1, -2])],
                    vec![t(&[2, 3, 2], &[15i64, 13, 19, 17, 23, 21, 3, 1, 7, 5, 11, 9])],
                )?,
                case(
                    "i32 ranges, step larger than the dimension",
                    slice(),
                    vec![
                        t(&[4], &h),
                        t(&[1], &[1i32]),
                        t(&[1], &[4i32]),
                        t(&[1], &[0i32]),
                        t(&[1], &[i32::MAX]),
                    ],
                    vec![t(&[1], &h[1..2])],
                )?,
                case(
                    "step of -2^63",
                    slice(),
                    vec![t(&[3, 4], &f), l(&[2]), l(&[i64::MIN]), l(&[0]), l(&[i64::MIN])],
                    vec![t(&[1, 4], &f[8..])],
                )?,
                case(
                    "start past the end is empty",
                    slice(),
                    vec![t(&[3, 4], &f), l(&[1000]), l(&[i64::MAX]), l(&[1])],
                    vec![t(&[3, 0], &[0f32; 0])],
                )?,
                case(
                    "bool, of an empty tensor",
                    slice(),
                    vec![t::<Bool>(&[0, 2], &[]), l(&[-5, 1]), l(&[5, 2]), l(&[0, 1]), l(&[-1, 1])],
                    vec![t::<Bool>(&[0, 1], &[])],
                )?,
            ])
        };
        super::built(build)
    }
}

/// `y[i] = x[start + i * step]`, for steps of either sign.
fn copy_backwards<T: Element>(x: &View<'_>, y: &mut ViewMut<'_>, ranges: &[AxisRange; MAX_RANK]) {
    for to in y.shape().indices() {
        let mut from = to;
        for (i, r) in from.iter_mut().zip(ranges).take(x.shape().rank()) {
            *i = (r.start as i64).wrapping_add((*i as i64).wrapping_mul(r.step)) as usize;
        }
        y.set::<T>(&to, x.get::<T>(&from));
    }
}
