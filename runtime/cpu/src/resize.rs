//! Resizing images: nearest for every dtype, bilinear for f32, any strides; channels-last is fast.
//!
//! Where each output row and column comes from is a table, made from the op's coordinate rule when a plan is made.
//!
//! Invariants (the reason this file may use `unsafe`):
//! * every index in a table is checked against the input's size when the kernel runs;
//! * tasks write disjoint output rows.

use crate::copy::{address, address_mut};
use crate::elementwise::{all_f32, each_vector, load, store};
use crate::isa::Isa;
use crate::pool::Pool;
use crate::ptr::Shared;
use crate::simd::{Kernel, Simd, dispatch};
use crate::{Error, Result};
use saltica_tensor::{View, ViewMut};

/// Two input rows (or columns) and the weight of the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tap {
    /// The input positions.
    pub from: [usize; 2],
    /// Weight of the second, 0..=1; the first has the rest.
    pub weight: f32,
}

struct Sizes {
    n: usize,
    c: usize,
    oh: usize,
    ow: usize,
    x: [usize; 4],
    y: [usize; 4],
}

fn sizes(x: &View<'_>, y: &ViewMut<'_>, rows: usize, columns: usize) -> Result<Sizes> {
    let (&[n, c, _, _], &[yn, yc, oh, ow]) = (x.shape().dims(), y.shape().dims()) else {
        return Err(Error::shape(format!("x is {}, y {}, rank 4 expected", x.shape(), y.shape())));
    };
    if (n, c) != (yn, yc) || (oh, ow) != (rows, columns) {
        return Err(Error::shape(format!(
            "x is {}, y {}, the tables have {rows} rows and {columns} columns",
            x.shape(),
            y.shape()
        )));
    }
    let four = |s: &[usize]| [s[0], s[1], s[2], s[3]];
    Ok(Sizes { n, c, oh, ow, x: four(x.layout().strides()), y: four(y.layout().strides()) })
}

/// Runs `f(row)` for every output row of every image.
fn each_row(pool: &Pool, s: &Sizes, f: &(dyn Fn(usize) + Sync)) -> Result<()> {
    let rows = s.n * s.oh;
    let light = rows * s.ow * s.c < 16 << 10;
    let tasks = if pool.threads() == 1 || light { 1 } else { (pool.threads() * 4).min(rows) };
    pool.run(tasks.min(rows), &|task, _| {
        (task * rows / tasks..(task + 1) * rows / tasks).for_each(f);
    })
}

/// `y[n, c, i, j] = x[n, c, rows[i], columns[j]]`, any dtype. Errors if shapes or dtypes do not fit or a table leaves x.
pub fn nearest(
    pool: &Pool,
    x: &View<'_>,
    rows: &[usize],
    columns: &[usize],
    y: &mut ViewMut<'_>,
) -> Result<()> {
    let s = sizes(x, y, rows.len(), columns.len())?;
    if x.dtype() != y.dtype() {
        return Err(Error::shape(format!("x is {}, y {}", x.dtype(), y.dtype())));
    }
    if rows.iter().any(|&i| i >= x.shape()[2]) || columns.iter().any(|&j| j >= x.shape()[3]) {
        return Err(Error::shape(format!("a table leaves x {}", x.shape())));
    }
    let (from, to) = (address(x), address_mut(y));
    // SAFETY: the tables were checked; numbers of one size copy alike.
    unsafe {
        match x.dtype().size() {
            1 => nearest_of::<u8>(pool, &s, Shared(from.0), Shared(to.0), rows, columns),
            2 => nearest_of::<u16>(pool, &s, Shared(from.0.cast()), Shared(to.0.cast()), rows, columns),
            4 => nearest_of::<u32>(pool, &s, Shared(from.0.cast()), Shared(to.0.cast()), rows, columns),
            _ => nearest_of::<u64>(pool, &s, Shared(from.0.cast()), Shared(to.0.cast()), rows, columns),
        }
    }
}

/// # Safety
/// The sizes are those of the elements at `from` and `to`, the tables stay inside.
unsafe fn nearest_of<T: Copy>(
    pool: &Pool,
    s: &Sizes,
    from: Shared<T>,
    to: Shared<T>,
    rows: &[usize],
    columns: &[usize],
) -> Result<()> {
    let runs = (s.x[1] == 1 && s.y[1] == 1) || s.c == 1;
    each_row(pool, s, &|row| {
        let (n, i) = (row / s.oh, row % s.oh);
        let x = from.at(n * s.x[0] + rows[i] * s.x[2]);
        let y = to.at(n * s.y[0] + i * s.y[2]);
        // SAFETY: offsets of elements, by the caller's contract.
        unsafe {
            if runs {
                for (j, &column) in columns.iter().enumerate() {
                    std::ptr::copy_nonoverlapping(x.add(column * s.x[3]), y.add(j * s.y[3]), s.c);
                }
            } else {
                for c in 0..s.c {
                    let (x, y) = (x.add(c * s.x[1]), y.add(c * s.y[1]));
                    for (j, &column) in columns.iter().enumerate() {
                        *y.add(j * s.y[3]) = *x.add(column * s.x[3]);
                    }
                }
            }
        }
    })
}

/// Bilinear: each output pixel mixes two rows and two columns, f32. Errors if shapes or dtypes do not fit or a table leaves
/// x.
pub fn bilinear(
    isa: Isa,
    pool: &Pool,
    x: &View<'_>,
    rows: &[Tap],
    columns: &[Tap],
    y: &mut ViewMut<'_>,
) -> Result<()> {
    let s = sizes(x, y, rows.len(), columns.len())?;
    all_f32(&[x.dtype(), y.dtype()])?;
    let outside = |taps: &[Tap], size: usize| taps.iter().any(|t| t.from.iter().any(|&i| i >= size));
    if outside(rows, x.shape()[2]) || outside(columns, x.shape()[3]) {
        return Err(Error::shape(format!("a table leaves x {}", x.shape())));
    }
    let (from, to) = (Shared(x.as_ptr::<f32>().cast_mut()), Shared(y.as_mut_ptr::<f32>()));
    each_row(pool, &s, &|row| {
        let (n, i) = (row / s.oh, row % s.oh);
        let tap = rows[i];
        let line = Line {
            s: &s,
            x: tap.from.map(|r| from.at(n * s.x[0] + r * s.x[2]).cast_const()),
            y: to.at(n * s.y[0] + i * s.y[2]),
            weight: tap.weight,
            columns,
        };
        dispatch(isa, line);
    })
}

struct Line<'a> {
    s: &'a Sizes,
    x: [*const f32; 2],
    y: *mut f32,
    weight: f32,
    columns: &'a [Tap],
}

impl Kernel for Line<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, v: S) {
        let s = self.s;
        let runs = s.x[1] == 1 && s.y[1] == 1;
        for (j, t) in self.columns.iter().enumerate() {
            // Four corners: rows times columns.
            let w = [
                (1.0 - self.weight) * (1.0 - t.weight),
                (1.0 - self.weight) * t.weight,
                self.weight * (1.0 - t.weight),
                self.weight * t.weight,
            ];
            let corner = |i: usize| self.x[i / 2].wrapping_add(t.from[i % 2] * s.x[3]);
            let y = self.y.wrapping_add(j * s.y[3]);
            // SAFETY: the tables stay inside the image, channels inside the pixel.
            unsafe {
                if runs {
                    each_vector::<S>(s.c, |c, lanes| {
                        let mut sum = v.mul(load(v, corner(0).add(c), lanes), v.splat(w[0]));
                        for i in 1..4 {
                            sum = v.fma(load(v, corner(i).add(c), lanes), v.splat(w[i]), sum);
                        }
                        store(v, y.add(c), sum, lanes);
                    });
                } else {
                    for c in 0..s.c {
                        let at = c * s.x[1];
                        *y.add(c * s.y[1]) = *corner(0).add(at) * w[0]
                            + *corner(1).add(at) * w[1]
                            + *corner(2).add(at) * w[2]
                            + *corner(3).add(at) * w[3];
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{close, layouts, noise, spread};
    use proptest::prelude::*;
    use saltica_tensor::Shape;

    proptest! {
        #[test]
        fn images_are_resized_by_their_tables(
            dims in [1usize..3, 1..40, 1..12, 1..12], out in [1usize..24, 1..24], seeds in any::<[u64; 2]>(),
        ) {
            let shape = Shape::new(&dims).unwrap();
            let oshape = Shape::new(&[dims[0], dims[1], out[0], out[1]]).unwrap();
            let (lx, ly) = (layouts(shape, seeds[0]), layouts(oshape, seeds[1]));
            let xs = spread(&noise(7, shape.elements()), &lx);
            let x = View::of_slice(&xs, lx).unwrap();
            // Half-pixel centres.
            let taps = |size: usize, to: usize| -> Vec<Tap> {
                (0..to)
                    .map(|i| {
                        let at = ((i as f32 + 0.5) * size as f32 / to as f32 - 0.5).clamp(0.0, size as f32 - 1.0);
                        let low = at as usize;
                        Tap { from: [low, (low + 1).min(size - 1)], weight: at - low as f32 }
                    })
                    .collect()
            };
            let (rows, columns) = (taps(dims[2], out[0]), taps(dims[3], out[1]));
            let (near_rows, near_columns): (Vec<_>, Vec<_>) =
                (rows.iter().map(|t| t.from[0]).collect(), columns.iter().map(|t| t.from[1]).collect());
            let (mut near, mut linear) = (vec![f32::NAN; ly.span()], vec![f32::NAN; ly.span()]);
            for i in oshape.indices() {
                let get = |r: usize, c: usize| x.get::<f32>(&[i[0], i[1], r, c]) as f64;
                near[ly.offset(&i)] = get(near_rows[i[2]], near_columns[i[3]]) as f32;
                let (r, c) = (rows[i[2]], columns[i[3]]);
                let mix = |row: usize| {
                    get(row, c.from[0]) * (1.0 - c.weight as f64) + get(row, c.from[1]) * c.weight as f64
                };
                let v = mix(r.from[0]) * (1.0 - r.weight as f64) + mix(r.from[1]) * r.weight as f64;
                linear[ly.offset(&i)] = v as f32;
            }
            for threads in [1, 3] {
                let pool = Pool::new(threads).unwrap();
                let mut got = vec![f32::NAN; ly.span()];
                let mut y = ViewMut::of_slice(&mut got, ly).unwrap();
                nearest(&pool, &x, &near_rows, &near_columns, &mut y).unwrap();
                close(&got, &near, 0.0)?;
                for isa in Isa::available() {
                    let mut got = vec![f32::NAN; ly.span()];
                    let mut y = ViewMut::of_slice(&mut got, ly).unwrap();
                    bilinear(isa, &pool, &x, &rows, &columns, &mut y).unwrap();
                    close(&got, &linear, 5e-7)?;
                }
            }
        }
    }

    #[test]
    fn a_table_that_leaves_the_image_is_an_error() {
        let shape = Shape::new(&[1, 1, 2, 2]).unwrap();
        let xs = [0f32; 4];
        let x = View::of_slice(&xs, saltica_tensor::Layout::contiguous(shape)).unwrap();
        let mut ys = [0f32; 4];
        let mut y = ViewMut::of_slice(&mut ys, saltica_tensor::Layout::contiguous(shape)).unwrap();
        let pool = Pool::new(1).unwrap();
        assert!(nearest(&pool, &x, &[0, 2], &[0, 1], &mut y).is_err());
        assert!(nearest(&pool, &x, &[0], &[0, 1], &mut y).is_err());
        let tap = |i| Tap { from: [i, i], weight: 0.0 };
        assert!(bilinear(Isa::best(), &pool, &x, &[tap(0), tap(0)], &[tap(0), tap(2)], &mut y).is_err());
    }
}
