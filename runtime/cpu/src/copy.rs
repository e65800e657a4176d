//! Copies between any two layouts of one shape, for every dtype: concatenation, slices, transpositions.
//!
//! Invariants (the reason this file may use `unsafe`):
//! * offsets come from a `Walk` over the views' own shape and strides, so they are those of the views' elements;
//! * tasks write disjoint rows or blocks.

use crate::pool::Pool;
use crate::ptr::Shared;
use crate::walk::{Walk, split};
use crate::{Error, Result};
use saltica_tensor::{DType, Element, MAX_RANK, Shape, View, ViewMut};

/// Side of the blocks in which a transposition reads and writes.
const BLOCK: usize = 16;

/// y = x, broadcast to y's shape; one dtype. Errors if shapes or dtypes do not fit.
pub fn copy(pool: &Pool, x: &View<'_>, y: &mut ViewMut<'_>) -> Result<()> {
    let layout = x.layout().broadcast_to(y.shape())?;
    let (shape, to) = (*y.shape(), *y.layout());
    if x.dtype() != y.dtype() {
        return Err(Error::shape(format!("x is {}, y {}", x.dtype(), y.dtype())));
    }
    // SAFETY: both views' elements.
    unsafe { copy_raw(pool, x.dtype(), &shape, address(x), layout.strides(), address_mut(y), to.strides()) }
}

/// y = the inputs one after another along `axis`. Errors if shapes or dtypes do not fit.
pub fn concat(pool: &Pool, inputs: &[View<'_>], axis: usize, y: &mut ViewMut<'_>) -> Result<()> {
    let layout = *y.layout();
    let mut start = 0;
    for x in inputs {
        let fits = x.shape().rank() == y.shape().rank()
            && axis < x.shape().rank()
            && x.dtype() == y.dtype()
            && (0..x.shape().rank()).all(|d| d == axis || x.shape()[d] == y.shape()[d]);
        if !fits {
            return Err(Error::shape(format!(
                "{} {} does not fit into {} {} along axis {axis}",
                x.dtype(),
                x.shape(),
                y.dtype(),
                y.shape()
            )));
        }
        let (part, offset) = layout.sliced(axis, start, x.shape()[axis], 1)?;
        let to = address_mut(y);
        // SAFETY: `sliced` has checked that the part lies inside y.
        unsafe {
            let to = Shared(to.0.add(offset * y.dtype().size()));
            copy_raw(pool, x.dtype(), x.shape(), address(x), x.layout().strides(), to, part.strides())?;
        }
        start += x.shape()[axis];
    }
    if inputs.is_empty() || start != y.shape()[axis] {
        return Err(Error::shape(format!("{start} of {} along axis {axis} are given", y.shape())));
    }
    Ok(())
}

/// y = the slices of x that `indices` (a number, or a list; negative ones count from the end) pick along `axis`. Errors if
/// shapes or dtypes do not fit or an index is outside.
pub fn gather(pool: &Pool, axis: usize, x: &View<'_>, indices: &View<'_>, y: &mut ViewMut<'_>) -> Result<()> {
    let (rank, layout) = (x.shape().rank(), *y.layout());
    let scalar = indices.shape().rank() == 0;
    if axis >= rank || indices.shape().rank() > 1 || x.dtype() != y.dtype() {
        return Err(Error::shape(format!(
            "{} {} gathered along axis {axis} by {} into {} {}",
            x.dtype(),
            x.shape(),
            indices.shape(),
            y.dtype(),
            y.shape()
        )));
    }
    // y with an axis of one slice, where a single index has taken it away.
    let (mut dims, mut strides) = ([1; MAX_RANK], [0; MAX_RANK]);
    let mut from = 0;
    for d in 0..rank {
        if scalar && d == axis {
            continue;
        }
        dims[d] = y.shape().get(from).copied().unwrap_or(0);
        strides[d] = layout.strides().get(from).copied().unwrap_or(0);
        from += 1;
    }
    let fits = from == y.shape().rank()
        && dims[axis] == indices.shape().elements()
        && (0..rank).all(|d| d == axis || dims[d] == x.shape()[d]);
    if !fits {
        return Err(Error::shape(format!("y is {}, slices of {} expected", y.shape(), x.shape())));
    }
    let (n, step, count) = (x.shape()[axis], strides[axis], dims[axis]);
    dims[axis] = 1;
    let (slice, size) = (Shape::new(&dims[..rank])?, y.dtype().size());
    let to = address_mut(y);
    for i in 0..count {
        let index = indices.at_f64(i) as i64;
        let at = if index < 0 { index + n as i64 } else { index };
        let at = usize::try_from(at).ok().filter(|&at| at < n);
        let at = at.ok_or_else(|| Error::shape(format!("index {index} is outside of {n}")))?;
        let x_at = Shared(address(x).at(at * x.layout().strides()[axis] * size));
        // SAFETY: one slice of each view, checked above.
        unsafe {
            let y_at = Shared(to.at(i * step * size));
            copy_raw(pool, x.dtype(), &slice, x_at, x.layout().strides(), y_at, &strides[..rank])?;
        }
    }
    Ok(())
}

/// The first element's address, whatever the dtype.
pub(crate) fn address(x: &View<'_>) -> Shared<u8> {
    fn of<T: Element>(x: &View<'_>) -> *mut u8 {
        x.as_ptr::<T>().cast_mut().cast()
    }
    Shared(by_dtype(
        x.dtype(),
        [
            of::<f32>,
            of::<half::f16>,
            of::<f64>,
            of::<i8>,
            of::<u8>,
            of::<i32>,
            of::<i64>,
            of::<saltica_tensor::Bool>,
        ],
    )(x))
}

/// The first element's address, whatever the dtype.
pub(crate) fn address_mut(y: &mut ViewMut<'_>) -> Shared<u8> {
    address(&y.as_view())
}

fn by_dtype<F: Copy>(dtype: DType, of: [F; 8]) -> F {
    match dtype {
        DType::F32 => of[0],
        DType::F16 => of[1],
        DType::F64 => of[2],
        DType::I8 => of[3],
        DType::U8 => of[4],
        DType::I32 => of[5],
        DType::I64 => of[6],
        DType::Bool => of[7],
    }
}

/// # Safety
/// The strides applied to the shape must lead to readable (writable) elements of the dtype, and tell apart those written.
pub(crate) unsafe fn copy_raw(
    pool: &Pool,
    dtype: DType,
    shape: &Shape,
    from: Shared<u8>,
    from_strides: &[usize],
    to: Shared<u8>,
    to_strides: &[usize],
) -> Result<()> {
    let walk = Walk::new(shape, [to_strides, from_strides]);
    // SAFETY: handed on; numbers of one size copy alike.
    unsafe {
        match dtype.size() {
            1 => typed::<u8>(pool, walk, Shared(from.0), Shared(to.0)),
            2 => typed::<u16>(pool, walk, Shared(from.0.cast()), Shared(to.0.cast())),
            4 => typed::<u32>(pool, walk, Shared(from.0.cast()), Shared(to.0.cast())),
            _ => typed::<u64>(pool, walk, Shared(from.0.cast()), Shared(to.0.cast())),
        }
    }
}

/// # Safety
/// As [`copy_raw`].
unsafe fn typed<T: Copy>(pool: &Pool, walk: Walk<2>, from: Shared<T>, to: Shared<T>) -> Result<()> {
    let steps = walk.steps();
    if steps[0] == 1
        && steps[1] != 1
        && walk.row() > 1
        && let Some(run) = walk.run_of(1)
    {
        let mut walk = walk;
        walk.second_last(run);
        // SAFETY: the caller's.
        return unsafe { transpose(pool, &walk, from, to) };
    }
    let (rows, row) = (walk.rows(), walk.row());
    if rows * row == 0 {
        return Ok(());
    }
    let (tasks, parts) = split(rows * row, rows, row, pool.threads());
    let pieces = rows * parts;
    pool.run(tasks, &|task, _| {
        for piece in task * pieces / tasks..(task + 1) * pieces / tasks {
            let (r, part) = (piece / parts, piece % parts);
            // Whole rows in one go; parts of rows one by one.
            if parts == 1 && piece > task * pieces / tasks {
                continue;
            }
            let rows = if parts == 1 { r..(task + 1) * pieces / tasks } else { r..r + 1 };
            let (first, end) = (part * row / parts, (part + 1) * row / parts);
            walk.each_row(rows, |at| {
                let (y, x) = (to.at(at[0] + first * steps[0]), from.at(at[1] + first * steps[1]));
                // SAFETY: elements of the row.
                unsafe { line(x, steps[1], y, steps[0], end - first) };
            });
        }
    })
}

/// # Safety
/// x is readable, y writable at the `n` places.
#[inline(always)]
unsafe fn line<T: Copy>(x: *const T, x_step: usize, y: *mut T, y_step: usize, n: usize) {
    // SAFETY: the caller vouches for the places.
    unsafe {
        match (y_step, x_step) {
            (1, 1) => std::ptr::copy_nonoverlapping(x, y, n),
            (1, 0) => std::slice::from_raw_parts_mut(y, n).fill(*x),
            _ => {
                for i in 0..n {
                    *y.add(i * y_step) = *x.add(i * x_step);
                }
            }
        }
    }
}

/// The last two dims block by block: y has the last as a run, x the last but one.
///
/// # Safety
/// As [`copy_raw`].
unsafe fn transpose<T: Copy>(pool: &Pool, walk: &Walk<2>, from: Shared<T>, to: Shared<T>) -> Result<()> {
    let (outer, columns, [y_column, x_column]) = walk.outer();
    let [y_step, x_step] = walk.steps();
    let n = walk.row();
    let stripes = columns.div_ceil(BLOCK);
    let units = outer.rows() * stripes;
    if units * n == 0 {
        return Ok(());
    }
    let (tasks, _) = split(outer.rows() * columns * n, units, 1, pool.threads());
    pool.run(tasks, &|task, _| {
        for unit in task * units / tasks..(task + 1) * units / tasks {
            let (r, stripe) = (unit / stripes, unit % stripes);
            let (j0, j1) = (stripe * BLOCK, columns.min(stripe * BLOCK + BLOCK));
            outer.each_row(r..r + 1, |at| {
                let (y, x) = (to.at(at[0]), from.at(at[1]));
                for i0 in (0..n).step_by(BLOCK) {
                    let i1 = n.min(i0 + BLOCK);
                    for j in j0..j1 {
                        for i in i0..i1 {
                            // SAFETY: an element of the two dims.
                            unsafe {
                                *y.add(j * y_column + i * y_step) = *x.add(j * x_column + i * x_step);
                            }
                        }
                    }
                }
            });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{layouts, noise, spread};
    use proptest::prelude::*;
    use saltica_tensor::Layout;

    proptest! {
        #[test]
        fn any_layout_is_copied_to_any_other(
            dims in proptest::collection::vec(1usize..12, 0..6), a in any::<u64>(), b in any::<u64>(), big in any::<bool>(),
        ) {
            let mut dims = dims;
            if big && !dims.is_empty() { dims[0] *= 150; }
            let shape = Shape::new(&dims).unwrap();
            prop_assume!(shape.elements() < 2_000_000);
            let (lx, ly) = (layouts(shape, a), layouts(shape, b));
            let xs = spread(&noise(7, shape.elements()), &lx);
            let x = View::of_slice(&xs, lx).unwrap();
            let mut want = vec![f32::NAN; ly.span()];
            ViewMut::of_slice(&mut want, ly).unwrap().copy_from(&x);
            for threads in [1, 3] {
                let pool = Pool::new(threads).unwrap();
                let mut got = vec![f32::NAN; ly.span()];
                copy(&pool, &x, &mut ViewMut::of_slice(&mut got, ly).unwrap()).unwrap();
                prop_assert!(got.iter().zip(&want).all(|(g, w)| g.to_bits() == w.to_bits()));
            }
        }
    }

    proptest! {
        #[test]
        fn slices_are_picked_by_index(
            dims in proptest::collection::vec(1usize..9, 1..5), seeds in any::<[u64; 2]>(), axis in 0usize..5,
            list in proptest::option::of(proptest::collection::vec(any::<i64>(), 1..6)), one in any::<i64>(),
        ) {
            use saltica_models::graph::ops::{Gather, Operator};
            let axis = axis % dims.len();
            let (n, shape) = (dims[axis] as i64, Shape::new(&dims).unwrap());
            let wrap = |i: i64| i.rem_euclid(2 * n) - n;
            let picked: Vec<i64> = list.clone().unwrap_or(vec![one]).into_iter().map(wrap).collect();
            let mut out = dims.clone();
            match list { Some(_) => out[axis] = picked.len(), None => { out.remove(axis); } }
            let out = Shape::new(&out).unwrap();
            let index_shape = if list.is_some() { Shape::new(&[picked.len()]).unwrap() } else { Shape::scalar() };
            let (lx, ly) = (layouts(shape, seeds[0]), layouts(out, seeds[1]));
            let xs = spread(&noise(7, shape.elements()), &lx);
            let (x, indices) = (View::of_slice(&xs, lx).unwrap(),
                View::of_slice(&picked, Layout::contiguous(index_shape)).unwrap());
            let mut want = vec![f32::NAN; ly.span()];
            Gather { axis: axis as i64 }
                .run(&[Some(x), Some(indices)], &mut [ViewMut::of_slice(&mut want, ly).unwrap()]).unwrap();
            let pool = Pool::new(2).unwrap();
            let mut got = vec![f32::NAN; ly.span()];
            let mut y = ViewMut::of_slice(&mut got, ly).unwrap();
            gather(&pool, axis, &x, &indices, &mut y).unwrap();
            let outside = [n];
            let outside = View::of_slice(&outside, Layout::contiguous(Shape::scalar())).unwrap();
            prop_assert!(gather(&pool, axis, &x, &outside, &mut y).is_err());
            prop_assert!(got.iter().zip(&want).all(|(g, w)| g.to_bits() == w.to_bits()));
        }
    }

    #[test]
    fn every_element_size_is_copied() {
        fn check<T: Element>(of: impl Fn(usize) -> T) {
            let shape = Shape::new(&[2, 35, 7, 3]).unwrap();
            let xs: Vec<T> = (0..shape.elements()).map(of).collect();
            let x = View::of_slice(&xs, Layout::contiguous(shape)).unwrap();
            let nhwc = Layout::channels_last(shape, 35).unwrap();
            let mut ys = vec![xs[0]; shape.elements()];
            let pool = Pool::new(2).unwrap();
            let mut y = ViewMut::of_slice(&mut ys, nhwc).unwrap();
            copy(&pool, &x, &mut y).unwrap();
            for i in shape.indices() {
                assert_eq!(y.get::<T>(&i), x.get::<T>(&i));
            }
        }
        check(|i| i as u8);
        check(|i| half::f16::from_f32(i as f32));
        check(|i| i as i32);
        check(|i| i as i64);
    }

    #[test]
    fn parts_are_put_one_after_another() {
        let pool = Pool::new(2).unwrap();
        for axis in 0..3 {
            let dims = |n: usize| {
                let mut d = [3, 4, 5];
                d[axis] = n;
                Shape::new(&d).unwrap()
            };
            let parts: Vec<_> = [2, 1, 3].iter().map(|&n| Layout::contiguous(dims(n))).collect();
            let data: Vec<Vec<f32>> =
                parts.iter().enumerate().map(|(i, l)| noise(i as u64, l.span())).collect();
            let views: Vec<_> =
                parts.iter().zip(&data).map(|(l, d)| View::of_slice(d, *l).unwrap()).collect();
            let whole = Layout::contiguous(dims(6));
            let mut ys = vec![f32::NAN; whole.span()];
            let mut y = ViewMut::of_slice(&mut ys, whole).unwrap();
            concat(&pool, &views, axis, &mut y).unwrap();
            for mut i in whole.shape().indices() {
                let got = y.get::<f32>(&i);
                let part = [0, 0, 1, 2, 2, 2][i[axis]];
                i[axis] -= [0, 2, 3][part];
                assert_eq!(got, views[part].get::<f32>(&i));
            }
            assert!(concat(&pool, &views[..2], axis, &mut y).is_err());
        }
    }
}
