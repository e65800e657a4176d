//! Sums, means and extremes over axes, f32, any strides.
//!
//! Each result is made by one thread in one order: vectors along a run are folded together at its end, neighbouring results
//! are made side by side.
//!
//! Invariants (the reason this file may use `unsafe`): offsets come from one `Walk` over the dims that stay and one over
//! those that go, with the views' own strides, so that their sums are those of x's elements; tasks write disjoint results.

use crate::elementwise::{all_f32, load, store};
use crate::isa::Isa;
use crate::pool::Pool;
use crate::ptr::Shared;
use crate::simd::{Kernel, Simd, dispatch};
use crate::walk::{Walk, split};
use crate::{Error, Result};
use saltica_tensor::{MAX_RANK, Shape, View, ViewMut};

/// What is made of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The largest; NaN if there is one.
    Max,
    /// The smallest; NaN if there is one.
    Min,
}

/// Vectors along a run that are folded side by side.
const WIDE: usize = 4;
/// Vectors of neighbouring results that are made side by side: what lies a dim apart is read in pieces worth the way.
const ACROSS: usize = 16;
/// Numbers that are folded before they join the rest: a long sum in one go would lose digits.
const BLOCK: usize = 64;

/// y = x folded over the dims that `gone` marks; y has x's other dims, with or without those of size 1 in their place. Errors
/// if shapes or dtypes do not fit.
pub fn reduce(
    isa: Isa,
    pool: &Pool,
    fold: Fold,
    gone: &[bool],
    x: &View<'_>,
    y: &mut ViewMut<'_>,
) -> Result<()> {
    all_f32(&[x.dtype(), y.dtype()])?;
    let rank = x.shape().rank();
    let (mut kept, mut folded) = ([1; MAX_RANK], [1; MAX_RANK]);
    let mut strides = [0; MAX_RANK];
    let keeps = y.shape().rank() == rank;
    let mut d_y = 0;
    let mut fits = gone.len() == rank;
    for d in 0..rank {
        let stays = !gone.get(d).copied().unwrap_or(false);
        (if stays { &mut kept } else { &mut folded })[d] = x.shape()[d];
        if keeps || stays {
            let want = if stays { x.shape()[d] } else { 1 };
            fits &= y.shape().get(d_y) == Some(&want);
            strides[d] = y.layout().strides().get(d_y).copied().unwrap_or(0);
            d_y += 1;
        }
    }
    if !fits || d_y != y.shape().rank() {
        return Err(Error::shape(format!("x is {} folded over {gone:?}, y {}", x.shape(), y.shape())));
    }
    let xs = x.layout().strides();
    let job = Job {
        fold,
        kept: Walk::new(&Shape::new(&kept[..rank])?, [&strides[..rank], xs]),
        folded: Walk::new(&Shape::new(&folded[..rank])?, [xs]),
        x: Shared(x.as_ptr::<f32>().cast_mut()),
        y: Shared(y.as_mut_ptr::<f32>()),
    };
    let (rows, row, count) = (job.kept.rows(), job.kept.row(), job.folded.rows() * job.folded.row());
    if rows * row == 0 {
        return Ok(());
    }
    let (tasks, parts) = split(rows * row * count, rows, row * count, pool.threads());
    let parts = parts.min(row);
    let tasks = tasks.min(rows * parts);
    pool.run(tasks, &|task, _| {
        for piece in task * rows * parts / tasks..(task + 1) * rows * parts / tasks {
            let (r, part) = (piece / parts, piece % parts);
            job.kept.each_row(r..r + 1, |at| {
                dispatch(isa, Row { job: &job, at, range: [part * row / parts, (part + 1) * row / parts] });
            });
        }
    })
}

struct Job {
    fold: Fold,
    /// y, x.
    kept: Walk<2>,
    folded: Walk<1>,
    x: Shared<f32>,
    y: Shared<f32>,
}

struct Row<'a> {
    job: &'a Job,
    at: [usize; 2],
    range: [usize; 2],
}

/// The larger; NaN if either is.
#[inline(always)]
fn larger<S: Simd>(s: S, a: S::F, b: S::F) -> S::F {
    let infinity = s.splat(f32::INFINITY);
    let usual = s.where_lt(b, a, a, b);
    // Where a is infinite or NaN: itself, unless b is infinite or NaN too.
    let rare = s.where_lt(b, infinity, a, s.add(a, b));
    s.where_lt(a, infinity, usual, rare)
}

impl Kernel for Row<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match self.job.fold {
            Fold::Sum | Fold::Mean => self.fold(
                s,
                0.0,
                1.0,
                #[inline(always)]
                |a, b| s.add(a, b),
            ),
            Fold::Max => self.fold(
                s,
                f32::NEG_INFINITY,
                1.0,
                #[inline(always)]
                |a, b| larger(s, a, b),
            ),
            // The largest of what is turned round.
            Fold::Min => self.fold(
                s,
                f32::NEG_INFINITY,
                -1.0,
                #[inline(always)]
                |a, b| larger(s, a, b),
            ),
        }
    }
}

impl Row<'_> {
    #[inline(always)]
    fn fold<S: Simd>(&self, s: S, from: f32, sign: f32, f: impl Fn(S::F, S::F) -> S::F + Copy) {
        let Job { fold, kept, folded, x, y } = self.job;
        let [y_step, x_step] = kept.steps();
        let [along] = folded.steps();
        let n = folded.row();
        let count = folded.rows() * n;
        let scale = s.splat(if *fold == Fold::Mean { sign / count as f32 } else { sign });
        let sign = s.splat(sign);
        let (start, end) = (self.range[0], self.range[1]);
        let at = |i: usize| (y.at(self.at[0] + i * y_step), x.at(self.at[1] + i * x_step).cast_const());
        // SAFETY: as the module says; `lanes` results or numbers of a run are neighbours.
        unsafe {
            if x_step == 1 && y_step == 1 && end - start > 1 {
                for i in (start..end).step_by(ACROSS * S::LANES) {
                    let lanes: [usize; ACROSS] =
                        std::array::from_fn(|v| (end - i).saturating_sub(v * S::LANES).min(S::LANES));
                    let (mut acc, mut all) = ([s.splat(from); ACROSS], [s.splat(from); ACROSS]);
                    let (y, x) = at(i);
                    let mut held = 0;
                    folded.each_row(
                        0..folded.rows(),
                        #[inline(always)]
                        |[o]| {
                            for k in 0..n {
                                held += 1;
                                if held == BLOCK {
                                    for v in 0..ACROSS {
                                        (all[v], acc[v]) = (f(all[v], acc[v]), s.splat(from));
                                    }
                                    held = 0;
                                }
                                for v in 0..ACROSS {
                                    if lanes[v] > 0 {
                                        let p = x.add(o + k * along + v * S::LANES);
                                        acc[v] = f(acc[v], s.mul(load(s, p, lanes[v]), sign));
                                    }
                                }
                            }
                        },
                    );
                    for v in 0..ACROSS {
                        if lanes[v] > 0 {
                            store(s, y.add(v * S::LANES), s.mul(f(all[v], acc[v]), scale), lanes[v]);
                        }
                    }
                }
                return;
            }
            for i in start..end {
                let (y, x) = at(i);
                // The last one is for single numbers: all its lanes are alike.
                let (mut acc, mut all) = ([s.splat(from); WIDE + 1], [s.splat(from); WIDE + 1]);
                let mut held = 0;
                folded.each_row(
                    0..folded.rows(),
                    #[inline(always)]
                    |[o]| {
                        let mut k = 0;
                        while k < n {
                            held += 1;
                            if held == BLOCK {
                                for v in 0..WIDE + 1 {
                                    (all[v], acc[v]) = (f(all[v], acc[v]), s.splat(from));
                                }
                                held = 0;
                            }
                            if along == 1 && k + WIDE * S::LANES <= n {
                                for v in 0..WIDE {
                                    acc[v] = f(acc[v], s.mul(s.load(x.add(o + k + v * S::LANES)), sign));
                                }
                                k += WIDE * S::LANES;
                            } else if along == 1 && k + S::LANES <= n {
                                acc[0] = f(acc[0], s.mul(s.load(x.add(o + k)), sign));
                                k += S::LANES;
                            } else {
                                acc[WIDE] = f(acc[WIDE], s.mul(s.splat(*x.add(o + k * along)), sign));
                                k += 1;
                            }
                        }
                    },
                );
                let mut vector = s.splat(from);
                for v in 0..WIDE {
                    vector = f(vector, f(all[v], acc[v]));
                }
                let mut lanes = [from; 16];
                s.store(lanes.as_mut_ptr(), vector);
                let mut whole = f(all[WIDE], acc[WIDE]);
                for &lane in &lanes[..S::LANES] {
                    whole = f(whole, s.splat(lane));
                }
                s.store_n(y, s.mul(whole, scale), 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{close, layouts, noise, spread};
    use proptest::prelude::*;
    use saltica_models::graph::ops::{Operator, Reduce, ReduceKind};
    use saltica_tensor::Layout;

    /// Sums (or means) against f64: n numbers added in any order are off by at most (n - 1) u sum|x| (Higham, Accuracy and
    /// Stability, 4.4; u = 2^-24), a mean by one rounding more. Where many are added, the blocks keep it below 8 of these.
    fn near_exact(
        got: &[f32],
        values: &[f32],
        shape: Shape,
        gone: &[bool],
        ly: &Layout,
        mean: bool,
    ) -> std::result::Result<(), TestCaseError> {
        let keeps = ly.shape().rank() == shape.rank();
        let mut exact = vec![(0.0f64, 0.0f64, 0u32); ly.span()];
        for (i, index) in shape.indices().enumerate() {
            let out: Vec<usize> = (0..shape.rank())
                .filter(|&d| keeps || !gone[d])
                .map(|d| if gone[d] { 0 } else { index[d] })
                .collect();
            let (sum, size, n) = &mut exact[ly.offset(&out)];
            (*sum, *size, *n) = (*sum + f64::from(values[i]), *size + f64::from(values[i].abs()), *n + 1);
        }
        for (i, (&g, (sum, size, n))) in got.iter().zip(exact).enumerate() {
            if n == 0 {
                prop_assert!(g.is_nan(), "gap {i} was written: {g}");
                continue;
            }
            let u = 2f64.powi(-24);
            let (want, over) = if mean { (sum / f64::from(n), f64::from(n)) } else { (sum, 1.0) };
            let within =
                (f64::from((n - 1).min(8)) * size / over + if mean { want.abs() } else { 0.0 }) * u * 1.001;
            prop_assert!(
                (f64::from(g) - want).abs() <= within,
                "element {i}: {g} found, {want} expected within {within}: {n} numbers"
            );
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn folds_match_the_reference(
            dims in proptest::collection::vec(1usize..12, 1..5), seeds in any::<[u64; 2]>(), mask in 1u8..16,
            big in any::<bool>(), keep in any::<bool>(), which in 0usize..4, bad in 0usize..4,
        ) {
            let mut dims = dims;
            if big { dims[0] *= 60; }
            let shape = Shape::new(&dims).unwrap();
            let gone: Vec<bool> = (0..dims.len()).map(|d| mask >> d & 1 == 1).collect();
            prop_assume!(gone.contains(&true));
            let axes: Vec<i64> = (0..dims.len()).filter(|&d| gone[d]).map(|d| d as i64).collect();
            let out: Vec<usize> = (0..dims.len()).filter(|&d| keep || !gone[d])
                .map(|d| if gone[d] { 1 } else { dims[d] }).collect();
            let out = Shape::new(&out).unwrap();
            let (lx, ly) = (layouts(shape, seeds[0]), layouts(out, seeds[1]));
            let mut values = noise(7, shape.elements());
            for (i, v) in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].into_iter().enumerate().take(bad) {
                let at = seeds[0] as usize / (i + 1) % values.len();
                if which > 1 { values[at] = v; }
            }
            let xs = spread(&values, &lx);
            let x = View::of_slice(&xs, lx).unwrap();
            let (kind, fold) = [(ReduceKind::Sum, Fold::Sum), (ReduceKind::Mean, Fold::Mean),
                (ReduceKind::Max, Fold::Max), (ReduceKind::Min, Fold::Min)][which];
            let op = Reduce { kind, axes: Some(axes), keepdims: keep, noop_with_empty_axes: false };
            let mut want = vec![f32::NAN; ly.span()];
            op.run(&[Some(x)], &mut [ViewMut::of_slice(&mut want, ly).unwrap()]).unwrap();
            for isa in Isa::available() {
                for threads in [1, 3] {
                    let pool = Pool::new(threads).unwrap();
                    let mut got = vec![f32::NAN; ly.span()];
                    reduce(isa, &pool, fold, &gone, &x, &mut ViewMut::of_slice(&mut got, ly).unwrap()).unwrap();
                    if which > 1 {
                        close(&got, &want, 0.0)?;
                    } else {
                        near_exact(&got, &values, shape, &gone, &ly, which == 1)?;
                    }
                }
            }
        }
    }
}
