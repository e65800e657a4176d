//! Softmax along one axis, f32, any strides.
//!
//! Invariants (the reason this file may use `unsafe`):
//! * offsets come from a `Walk` over the views' own shape (without the axis) and strides, plus multiples of the axis'
//!   strides below its size, so they are those of the views' elements;
//! * tasks write disjoint lines.

use crate::act::exp;
use crate::elementwise::{all_f32, each_vector, load, store};
use crate::isa::Isa;
use crate::pool::Pool;
use crate::ptr::Shared;
use crate::simd::{Kernel, Simd, dispatch};
use crate::walk::{Walk, split};
use crate::{Error, Result};
use saltica_tensor::{MAX_RANK, Shape, View, ViewMut};

/// y = exp(x - max) / sum(exp(x - max)) along `axis`. Errors if shapes or dtypes do not fit.
pub fn softmax(isa: Isa, pool: &Pool, axis: usize, x: &View<'_>, y: &mut ViewMut<'_>) -> Result<()> {
    all_f32(&[x.dtype(), y.dtype()])?;
    let rank = x.shape().rank();
    if x.shape() != y.shape() || axis >= rank {
        return Err(Error::shape(format!("x is {}, y {}, axis {axis}", x.shape(), y.shape())));
    }
    let mut dims = [1; MAX_RANK];
    dims[..rank].copy_from_slice(x.shape());
    let n = dims[axis];
    dims[axis] = 1;
    let others = Shape::new(&dims[..rank])?;
    let walk = Walk::new(&others, [y.layout().strides(), x.layout().strides()]);
    let job = Job {
        n,
        x: Shared(x.as_ptr::<f32>().cast_mut()),
        y: Shared(y.as_mut_ptr::<f32>()),
        steps: [y.layout().strides()[axis], x.layout().strides()[axis]],
        lines: walk.steps(),
    };
    let (rows, row) = (walk.rows(), walk.row());
    if rows * row * n == 0 {
        return Ok(());
    }
    let (tasks, parts) = split(rows * row * n, rows, row, pool.threads());
    let pieces = rows * parts;
    pool.run(tasks, &|task, _| {
        for piece in task * pieces / tasks..(task + 1) * pieces / tasks {
            let (r, part) = (piece / parts, piece % parts);
            walk.each_row(r..r + 1, |at| {
                let lines = [part * row / parts, (part + 1) * row / parts];
                dispatch(isa, Lines { job: &job, at, lines });
            });
        }
    })
}

struct Job {
    n: usize,
    x: Shared<f32>,
    y: Shared<f32>,
    /// From one element of the axis to the next: y, x.
    steps: [usize; 2],
    /// From one line to the next: y, x.
    lines: [usize; 2],
}

struct Lines<'a> {
    job: &'a Job,
    at: [usize; 2],
    lines: [usize; 2],
}

impl Kernel for Lines<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Job { n, x, y, steps, lines } = *self.job;
        let count = self.lines[1] - self.lines[0];
        let y = y.at(self.at[0] + self.lines[0] * lines[0]);
        let x = x.at(self.at[1] + self.lines[0] * lines[1]).cast_const();
        // SAFETY: element i of line l is at l * lines + i * steps.
        unsafe {
            if steps == [1, 1] {
                for l in 0..count {
                    line(s, n, x.add(l * lines[1]), y.add(l * lines[0]));
                }
            } else if lines == [1, 1] {
                each_vector::<S>(
                    count,
                    #[inline(always)]
                    |l, lanes| {
                        columns(s, n, x.add(l), steps[1], y.add(l), steps[0], lanes);
                    },
                );
            } else {
                for l in 0..count {
                    strided(s, n, x.add(l * lines[1]), steps[1], y.add(l * lines[0]), steps[0]);
                }
            }
        }
    }
}

/// A line that is a run.
///
/// # Safety
/// x and y are valid for n floats.
#[inline(always)]
unsafe fn line<S: Simd>(s: S, n: usize, x: *const f32, y: *mut f32) {
    // SAFETY: the caller vouches for n floats.
    unsafe {
        let mut most = s.splat(f32::NEG_INFINITY);
        let mut max = f32::NEG_INFINITY;
        each_vector::<S>(
            n,
            #[inline(always)]
            |i, lanes| {
                if lanes == S::LANES {
                    most = s.max(s.load(x.add(i)), most);
                } else {
                    for k in 0..lanes {
                        max = max.max(*x.add(i + k));
                    }
                }
            },
        );
        max = max.max(s.largest(most));
        let mut sums = s.splat(0.0);
        let mut sum = 0.0;
        each_vector::<S>(
            n,
            #[inline(always)]
            |i, lanes| {
                let e = exp(s, s.sub(load(s, x.add(i), lanes), s.splat(max)));
                store(s, y.add(i), e, lanes);
                if lanes == S::LANES {
                    sums = s.add(sums, e);
                } else {
                    for k in 0..lanes {
                        sum += *y.add(i + k);
                    }
                }
            },
        );
        let scale = s.splat(1.0 / (sum + s.sum(sums)));
        each_vector::<S>(
            n,
            #[inline(always)]
            |i, lanes| {
                store(s, y.add(i), s.mul(load(s, y.add(i), lanes), scale), lanes);
            },
        );
    }
}

/// Up to a vector of neighbouring lines at once.
///
/// # Safety
/// Each of the n elements of the lines is readable (writable) for `lanes` floats.
#[inline(always)]
unsafe fn columns<S: Simd>(s: S, n: usize, x: *const f32, xs: usize, y: *mut f32, ys: usize, lanes: usize) {
    // SAFETY: the caller vouches for the elements.
    unsafe {
        let mut max = s.splat(f32::NEG_INFINITY);
        for i in 0..n {
            max = s.max(load(s, x.add(i * xs), lanes), max);
        }
        let mut sum = s.splat(0.0);
        for i in 0..n {
            let e = exp(s, s.sub(load(s, x.add(i * xs), lanes), max));
            sum = s.add(sum, e);
            store(s, y.add(i * ys), e, lanes);
        }
        let scale = s.div(s.splat(1.0), sum);
        for i in 0..n {
            store(s, y.add(i * ys), s.mul(load(s, y.add(i * ys), lanes), scale), lanes);
        }
    }
}

/// One line of any strides.
///
/// # Safety
/// The n elements are readable (writable).
#[inline(always)]
unsafe fn strided<S: Simd>(s: S, n: usize, x: *const f32, xs: usize, y: *mut f32, ys: usize) {
    // SAFETY: the caller vouches for the elements.
    unsafe {
        let mut max = f32::NEG_INFINITY;
        for i in 0..n {
            max = max.max(*x.add(i * xs));
        }
        let mut sum = 0.0;
        for i in 0..n {
            let mut e = [0f32; 16];
            s.store(e.as_mut_ptr(), exp(s, s.splat(*x.add(i * xs) - max)));
            *y.add(i * ys) = e[0];
            sum += e[0];
        }
        for i in 0..n {
            *y.add(i * ys) *= 1.0 / sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{close, layouts, noise, spread};
    use proptest::prelude::*;
    use saltica_models::graph::ops::{Operator, Softmax};

    proptest! {
        #[test]
        fn softmax_matches_the_reference(
            dims in proptest::collection::vec(1usize..20, 1..5), seeds in any::<[u64; 2]>(), axis in 0usize..5,
            big in any::<bool>(), gain in prop_oneof![Just(1.0f32), Just(30.0), Just(1000.0)],
        ) {
            let mut dims = dims;
            if big { dims[0] *= 40; }
            let axis = axis % dims.len();
            let shape = Shape::new(&dims).unwrap();
            prop_assume!(shape.elements() < 200_000);
            let (lx, ly) = (layouts(shape, seeds[0]), layouts(shape, seeds[1]));
            let values: Vec<_> = noise(7, shape.elements()).into_iter().map(|v| v * gain).collect();
            let xs = spread(&values, &lx);
            let x = View::of_slice(&xs, lx).unwrap();
            let mut want = vec![f32::NAN; ly.span()];
            let op = Softmax { axis: axis as i64, flatten: false, log: false };
            op.run(&[Some(x)], &mut [ViewMut::of_slice(&mut want, ly).unwrap()]).unwrap();
            for isa in Isa::available() {
                let mut one = vec![f32::NAN; ly.span()];
                for threads in [1, 3] {
                    let pool = Pool::new(threads).unwrap();
                    let mut got = vec![f32::NAN; ly.span()];
                    softmax(isa, &pool, axis, &x, &mut ViewMut::of_slice(&mut got, ly).unwrap()).unwrap();
                    close(&got, &want, 2e-6)?;
                    if threads == 1 {
                        one = got;
                    } else {
                        prop_assert!(one.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits()));
                    }
                }
            }
        }
    }
}
