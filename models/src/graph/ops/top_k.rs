use super::from_node::{Built, case, node, t};
use super::indexing::{Dims, single};
use super::number::Number;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, ErrorKind, Result};
use saltica_tensor::{DType, MAX_RANK, Shape, View, ViewMut, by_dtype, f16};

/// The k largest (or smallest) along an axis, best first,
/// [ONNX TopK](https://onnx.ai/onnx/operators/onnx__TopK.html).
///
/// Inputs: x, any dtype; from opset 10 k, i64 `[1]`. Outputs: values; indices, i64. Among equals the lowest index comes
/// first; NaN comes after every number, both for largest and for smallest. The result is sorted also where the file does
/// not ask for it.
#[derive(Clone, Debug, PartialEq)]
pub struct TopK {
    /// The axis; negative ones count from the end.
    pub axis: i64,
    /// Whether the largest are wanted (opset 11: or the smallest).
    pub largest: bool,
    /// k, if it is an attribute (before opset 10).
    pub k: Option<i64>,
}

impl Operator for TopK {
    fn parse(node: &NodeInfo) -> Result<Self> {
        let k = if node.opset < 10 {
            let missing = || Error::new(ErrorKind::Malformed, "attribute k is missing (TopK needs it)");
            Some(node.int("k")?.ok_or_else(missing)?)
        } else {
            None
        };
        node.ignore("sorted");
        let largest = node.int("largest")?.unwrap_or(1) != 0;
        Ok(TopK { axis: node.int("axis")?.unwrap_or(-1), largest, k })
    }

    fn name(&self) -> &str {
        "TopK"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let k = match self.k {
            Some(k) => k,
            None => single(&required(inputs, 1, "k")?.known("k")?.view(), "k")?,
        };
        let axis = Shape::axis(self.axis, x.shape.rank())?;
        let mut dims = Dims::of(&x.shape)?;
        dims[axis] = usize::try_from(k).ok().filter(|&k| k <= x.shape[axis]).ok_or_else(|| {
            Error::new(
                ErrorKind::Value,
                format!("k is {k}, 0 to {} expected (axis {axis} of {})", x.shape[axis], x.shape),
            )
        })?;
        let shape = dims.shape()?;
        Ok(vec![OutFact { dtype: x.dtype, shape }, OutFact { dtype: DType::I64, shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        let rank = x.shape().rank();
        let axis = Shape::axis(self.axis, rank)?;
        // The axis last.
        let mut perm = [0; MAX_RANK];
        for (i, p) in perm.iter_mut().enumerate().take(rank) {
            *p = if i < axis { i } else { i + 1 };
        }
        perm[rank - 1] = axis;
        let perm = &perm[..rank];
        let x = x.permuted(perm)?;
        let (values, rest) = outputs.split_at_mut(1);
        let mut values = values[0].permuted(perm)?;
        let mut indices = rest.first_mut().map(|v| v.permuted(perm)).transpose()?;
        by_dtype!(x.dtype(), T => {
            let outer = Shape::new(&x.shape()[..rank - 1])?;
            for at in outer.indices() {
                let heap = Heap::<'_, '_, T> {
                    values: &mut values,
                    indices: indices.as_mut(),
                    at,
                    last: rank - 1,
                    largest: self.largest,
                    marker: std::marker::PhantomData,
                };
                heap.fill(&x);
            }
        });
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let top = |axis, largest, sorted| {
            node(
                "TopK",
                11,
                vec![
                    ("axis", Attr::Int(axis)),
                    ("largest", Attr::Int(largest)),
                    ("sorted", Attr::Int(sorted)),
                ],
            )
        };
        let k = |k: i64| t(&[1], &[k]);
        let ramp: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let h = [1.5f32, -2.0, 1.5, 3.0].map(f16::from_f32);
        let build = || -> Built<Vec<Case>> {
            Ok(vec![
                // The ONNX text's examples.
                case(
                    "opset 9, k as attribute",
                    node("TopK", 9, vec![("axis", Attr::Int(1)), ("k", Attr::Int(3))]),
                    vec![t(&[3, 4], &ramp)],
                    vec![
                        t(&[3, 3], &[3f32, 2., 1., 7., 6., 5., 11., 10., 9.]),
                        t(&[3, 3], &[3i64, 2, 1, 3, 2, 1, 3, 2, 1]),
                    ],
                )?,
                case(
                    "smallest",
                    top(1, 0, 1),
                    vec![t(&[3, 4], &[0f32, 1., 2., 3., 4., 5., 6., 7., 11., 10., 9., 8.]), k(3)],
                    vec![
                        t(&[3, 3], &[0f32, 1., 2., 4., 5., 6., 8., 9., 10.]),
                        t(&[3, 3], &[0i64, 1, 2, 0, 1, 2, 3, 2, 1]),
                    ],
                )?,
                // By hand from here on.
                case(
                    "ties go to the lowest index, axis -1",
                    top(-1, 1, 1),
                    vec![t(&[1, 6], &[2f32, 5., 2., 5., 2., 5.]), k(5)],
                    vec![t(&[1, 5], &[5f32, 5., 5., 2., 2.]), t(&[1, 5], &[1i64, 3, 5, 0, 2])],
                )?,
                case(
                    "axis 0, f16, opset 10",
                    node("TopK", 10, vec![("axis", Attr::Int(0))]),
                    vec![t(&[2, 2], &h), k(1)],
                    vec![t(&[1, 2], &[h[0], h[3]]), t(&[1, 2], &[0i64, 1])],
                )?,
                case(
                    "NaN is last",
                    top(0, 1, 1),
                    vec![t(&[4], &[f32::NAN, f32::NEG_INFINITY, 1., f32::NAN]), k(3)],
                    vec![t(&[3], &[1f32, f32::NEG_INFINITY, f32::NAN]), t(&[3], &[2i64, 1, 0])],
                )?,
                case(
                    "NaN is last also for smallest, unsorted",
                    top(0, 0, 0),
                    vec![t(&[3], &[f32::NAN, 2., -0.0]), k(3)],
                    vec![t(&[3], &[-0f32, 2., f32::NAN]), t(&[3], &[2i64, 1, 0])],
                )?,
                case(
                    "i64 that f64 cannot tell apart",
                    top(0, 1, 1),
                    vec![t(&[3], &[1i64 << 53, (1 << 53) + 1, i64::MIN]), k(2)],
                    vec![t(&[2], &[(1i64 << 53) + 1, 1 << 53]), t(&[2], &[1i64, 0])],
                )?,
                case(
                    "k of 0",
                    top(1, 1, 1),
                    vec![t(&[2, 2], &[1u8, 2, 3, 4]), k(0)],
                    vec![t(&[2, 0], &[0u8; 0]), t(&[2, 0], &[0i64; 0])],
                )?,
            ])
        };
        super::built(build)
    }
}

/// The best k seen so far of one row, kept as a heap with the worst on top, in the outputs themselves.
struct Heap<'a, 'v, T> {
    values: &'a mut ViewMut<'v>,
    /// Without it ties have no order, and none is visible.
    indices: Option<&'a mut ViewMut<'v>>,
    at: [usize; MAX_RANK],
    last: usize,
    largest: bool,
    marker: std::marker::PhantomData<T>,
}

impl<T: Number> Heap<'_, '_, T> {
    /// A number that is larger for what comes first.
    fn rank(&self, v: T) -> i64 {
        match v.sort_key() {
            _ if v.is_nan() => i64::MIN,
            key if self.largest => key,
            key => !key,
        }
    }

    fn get(&mut self, i: usize) -> (T, i64) {
        self.at[self.last] = i;
        (self.values.get::<T>(&self.at), self.indices.as_ref().map_or(0, |v| v.get::<i64>(&self.at)))
    }

    fn set(&mut self, i: usize, (value, index): (T, i64)) {
        self.at[self.last] = i;
        self.values.set(&self.at, value);
        if let Some(indices) = &mut self.indices {
            indices.set(&self.at, index);
        }
    }

    /// Whether `a` comes before `b`.
    fn before(&self, a: (T, i64), b: (T, i64)) -> bool {
        (self.rank(a.0), std::cmp::Reverse(a.1)) > (self.rank(b.0), std::cmp::Reverse(b.1))
    }

    /// Puts `entry` where it belongs from `i` down, in a heap of `n`.
    fn sift_down(&mut self, mut i: usize, n: usize, entry: (T, i64)) {
        loop {
            let mut child = 2 * i + 1;
            if child >= n {
                break;
            }
            let mut worst = self.get(child);
            if child + 1 < n {
                let right = self.get(child + 1);
                if self.before(worst, right) {
                    (child, worst) = (child + 1, right);
                }
            }
            if !self.before(entry, worst) {
                break;
            }
            self.set(i, worst);
            i = child;
        }
        self.set(i, entry);
    }

    fn fill(mut self, x: &View<'_>) {
        let (n, k) = (x.shape()[self.last], self.values.shape()[self.last]);
        if k == 0 {
            return;
        }
        let mut from = self.at;
        for i in 0..k {
            from[self.last] = i;
            self.set(i, (x.get::<T>(&from), i as i64));
        }
        for i in (0..k / 2).rev() {
            let e = self.get(i);
            self.sift_down(i, k, e);
        }
        let mut top = self.get(0);
        for i in k..n {
            from[self.last] = i;
            let e = (x.get::<T>(&from), i as i64);
            if self.before(e, top) {
                self.sift_down(0, k, e);
                top = self.get(0);
            }
        }
        // The worst of what is left goes behind it.
        for end in (1..k).rev() {
            let (worst, e) = (self.get(0), self.get(end));
            self.sift_down(0, end, e);
            self.set(end, worst);
        }
    }
}
