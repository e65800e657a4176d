//! Max and average pooling: vectors over channels where they are neighbours, a run of columns at a time. Max pooling goes
//! down the columns first, then across, so that a large window costs what its sides add up to.
//!
//! Invariants (the reason this file may use `unsafe`):
//! * a run of columns is computed by the blocked kernel only if all its windows lie inside the image's width, with rows
//!   outside the image skipped; other columns go one by one with the pixels outside the image skipped;
//! * tasks write disjoint output rows (or channels, for pooling over all pixels).

mod bytes;

use crate::copy::{address, address_mut};
use crate::elementwise::{each_vector, load, store};
use crate::isa::Isa;
use crate::pool::Pool as Threads;
use crate::ptr::Shared;
use crate::simd::{Kernel, Simd, dispatch};
use crate::{Error, Result};
use saltica_models::graph::ops::{Pool, PoolKind};
use saltica_tensor::{DType, View, ViewMut};

/// Output columns computed at a time where their input columns fit into registers.
const COLUMNS: usize = 8;
/// Input columns whose largest numbers are kept at a time, else.
const WIDE: usize = 128;

/// Whether [`pool`] takes numbers of this dtype.
pub fn has_pool(op: &Pool, dtype: DType) -> bool {
    dtype == DType::F32 || (op.kind == PoolKind::Max && matches!(dtype, DType::I8 | DType::U8))
}

/// y = the op on x, f32 (max also i8 and u8), any strides; channels-last is fast. Errors if shapes or dtypes do not fit.
pub fn pool(isa: Isa, threads: &Threads, op: &Pool, x: &View<'_>, y: &mut ViewMut<'_>) -> Result<()> {
    if !has_pool(op, x.dtype()) || x.dtype() != y.dtype() {
        return Err(Error::unsupported(format!("{:?} pooling of {} to {}", op.kind, x.dtype(), y.dtype())));
    }
    let &[n, c, h, w] = x.shape().dims() else {
        return Err(Error::shape(format!("x is {}, rank 4 expected", x.shape())));
    };
    let [oh, ow] = op.window.output([h, w])?;
    if y.shape().dims() != [n, c, oh, ow] {
        return Err(Error::shape(format!("y is {}, {:?} expected", y.shape(), [n, c, oh, ow])));
    }
    if y.shape().elements() == 0 {
        return Ok(());
    }
    let four = |s: &[usize]| [s[0], s[1], s[2], s[3]];
    let job = Job {
        op,
        size: [h, w],
        out: [oh, ow],
        channels: c,
        pads: op.window.pads_for([h, w]),
        xs: four(x.layout().strides()),
        ys: four(y.layout().strides()),
    };
    let (from, to) = (address(x), address_mut(y));
    let (rows, dtype) = (n * oh, x.dtype());
    let tasks = if threads.threads() == 1 { 1 } else { (threads.threads() * 4).min(rows) };
    threads.run(tasks, &|task, _| {
        let (job, rows) = (&job, [task * rows / tasks, (task + 1) * rows / tasks]);
        match dtype {
            DType::F32 => dispatch(isa, Rows { job, x: Shared(from.0.cast()), y: Shared(to.0.cast()), rows }),
            DType::I8 => dispatch(
                isa,
                bytes::Rows::<i8> { job, x: Shared(from.0.cast()), y: Shared(to.0.cast()), rows },
            ),
            _ => dispatch(isa, bytes::Rows::<u8> { job, x: from, y: to, rows }),
        }
    })
}

struct Job<'a> {
    op: &'a Pool,
    size: [usize; 2],
    out: [usize; 2],
    channels: usize,
    pads: [usize; 4],
    xs: [usize; 4],
    ys: [usize; 4],
}

struct Rows<'a> {
    job: &'a Job<'a>,
    x: Shared<f32>,
    y: Shared<f32>,
    rows: [usize; 2],
}

impl Job<'_> {
    /// The part of the kernel that lies inside the image for output `o` of an axis, and where it starts.
    fn inside(&self, o: usize, axis: usize) -> (usize, usize, isize) {
        let win = &self.op.window;
        let at = (o * win.stride[axis]) as isize - self.pads[axis] as isize;
        let inside = |k: usize| ((at + (k * win.dilation[axis]) as isize) as usize) < self.size[axis];
        let first = (0..win.kernel[axis]).find(|&k| inside(k)).unwrap_or(0);
        let count = (first..win.kernel[axis]).take_while(|&k| inside(k)).count();
        (first, first + count, at)
    }

    /// The input columns (first, end) that output columns `ox..ox + count` see.
    fn columns(&self, ox: usize, count: usize) -> (usize, usize) {
        let win = &self.op.window;
        let first = (ox * win.stride[1]) as isize - self.pads[1] as isize;
        let last = first + ((count - 1) * win.stride[1] + self.reach()) as isize;
        (first.max(0) as usize, ((last + 1).max(0) as usize).min(self.size[1]))
    }

    /// Columns from a window's first to its last.
    fn reach(&self) -> usize {
        (self.op.window.kernel[1] - 1) * self.op.window.dilation[1]
    }

    /// Output columns whose windows see at most [`WIDE`] input columns; 0 if even one sees more.
    fn most_columns(&self) -> usize {
        WIDE.checked_sub(self.reach() + 1).map_or(0, |room| room / self.op.window.stride[1] + 1)
    }

    /// Pixels that count in an average.
    fn counted(&self, o: usize, axis: usize) -> usize {
        let win = &self.op.window;
        if self.op.kind == PoolKind::AverageWithPadding {
            let end = self.size[axis] + self.pads[axis] + self.pads[axis + 2];
            (0..win.kernel[axis]).filter(|k| o * win.stride[axis] + k * win.dilation[axis] < end).count()
        } else {
            let (first, end, _) = self.inside(o, axis);
            end - first
        }
    }
}

impl Kernel for Rows<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let job = self.job;
        let win = &job.op.window;
        let max = job.op.kind == PoolKind::Max;
        // Columns whose whole window is inside the image.
        let reach = job.reach();
        let first = job.pads[1].div_ceil(win.stride[1]);
        let end = match (job.size[1] + job.pads[1]).checked_sub(reach + 1) {
            Some(room) => (room / win.stride[1] + 1).min(job.out[1]),
            None => 0,
        };
        let runs = job.xs[1] == 1 && job.ys[1] == 1;
        let most = job.most_columns();
        let mut columns = [s.splat(0.0); WIDE];
        for row in self.rows[0]..self.rows[1] {
            let (n, oy) = (row / job.out[0], row % job.out[0]);
            let x = self.x.at(n * job.xs[0]).cast_const();
            let y = self.y.at(n * job.ys[0] + oy * job.ys[2]);
            let mut ox = 0;
            while ox < job.out[1] {
                // SAFETY: the addresses are those of the image's and the output's elements.
                unsafe {
                    if max && runs && win.dilation[1] == 1 && ox >= first && ox + COLUMNS <= end {
                        let done = match (win.kernel[1], win.stride[1]) {
                            (5, 1) => self.run_columns::<S, 5, 1>(s, x, y, oy, ox),
                            (3, 1) => self.run_columns::<S, 3, 1>(s, x, y, oy, ox),
                            (2, 2) => self.run_columns::<S, 2, 2>(s, x, y, oy, ox),
                            (3, 2) => self.run_columns::<S, 3, 2>(s, x, y, oy, ox),
                            _ => false,
                        };
                        if done {
                            ox += COLUMNS;
                            continue;
                        }
                    }
                    if runs && max && most > 0 {
                        let edge = if ox < first { first.min(job.out[1]) } else { job.out[1] };
                        let count = most.min(edge - ox);
                        self.separable::<S>(s, &mut columns, x, y, (oy, ox, count));
                        ox += count;
                        continue;
                    }
                    if runs {
                        self.pixel::<S>(s, x, y, oy, ox);
                    } else {
                        self.scattered(x, y, oy, ox);
                    }
                }
                ox += 1;
            }
        }
    }
}

impl Rows<'_> {
    /// A run of columns of a max pooling `KW` wide with stride `SW`: first the largest of each input column, then across.
    /// Returns true.
    ///
    /// # Safety
    /// The windows are inside the image's width; channels are neighbours.
    #[inline(always)]
    unsafe fn run_columns<S: Simd, const KW: usize, const SW: usize>(
        &self,
        s: S,
        x: *const f32,
        y: *mut f32,
        oy: usize,
        ox: usize,
    ) -> bool {
        const WIDEST: usize = (COLUMNS - 1) * 2 + 5;
        let job = self.job;
        let (first, end, iy) = job.inside(oy, 0);
        let x = x.wrapping_add((ox * SW - job.pads[1]) * job.xs[3]);
        each_vector::<S>(
            job.channels,
            #[inline(always)]
            |c, lanes| {
                // SAFETY: rows and columns inside the image, `lanes` channels from c on.
                unsafe {
                    let mut column = [s.splat(f32::NEG_INFINITY); WIDEST];
                    for ky in first..end {
                        let line =
                            x.add((iy + (ky * job.op.window.dilation[0]) as isize) as usize * job.xs[2] + c);
                        for i in 0..(COLUMNS - 1) * SW + KW {
                            column[i] = s.max(load(s, line.add(i * job.xs[3]), lanes), column[i]);
                        }
                    }
                    for o in 0..COLUMNS {
                        let mut best = column[o * SW];
                        for k in 1..KW {
                            best = s.max(column[o * SW + k], best);
                        }
                        store(s, y.add((ox + o) * job.ys[3] + c), best, lanes);
                    }
                }
            },
        );
        true
    }

    /// `count` output columns of a max pooling of any window: first the largest of each input column, then across.
    ///
    /// # Safety
    /// Channels are neighbours; the windows see at most `WIDE` input columns.
    #[inline(always)]
    unsafe fn separable<S: Simd>(
        &self,
        s: S,
        column: &mut [S::F; WIDE],
        x: *const f32,
        y: *mut f32,
        (oy, ox, count): (usize, usize, usize),
    ) {
        let job = self.job;
        let (win, least) = (&job.op.window, s.splat(f32::NEG_INFINITY));
        let (first, end, iy) = job.inside(oy, 0);
        let (left, right) = job.columns(ox, count);
        each_vector::<S>(
            job.channels,
            #[inline(always)]
            |c, lanes| {
                column[..right.saturating_sub(left)].fill(least);
                for ky in first..end {
                    let line =
                        x.wrapping_add((iy + (ky * win.dilation[0]) as isize) as usize * job.xs[2] + c);
                    for ix in left..right {
                        // SAFETY: a row and a column inside the image, `lanes` channels from c on.
                        let v = unsafe { load(s, line.add(ix * job.xs[3]), lanes) };
                        column[ix - left] = s.max(v, column[ix - left]);
                    }
                }
                for o in ox..ox + count {
                    let (from, to, ix) = job.inside(o, 1);
                    let mut best = least;
                    for k in from..to {
                        let at = (ix + (k * win.dilation[1]) as isize) as usize;
                        best = s.max(column[at - left], best);
                    }
                    // SAFETY: the output pixel's channels.
                    unsafe { store(s, y.add(o * job.ys[3] + c), best, lanes) };
                }
            },
        );
    }

    /// One pixel, all its channels.
    ///
    /// # Safety
    /// Channels are neighbours.
    #[inline(always)]
    unsafe fn pixel<S: Simd>(&self, s: S, x: *const f32, y: *mut f32, oy: usize, ox: usize) {
        let job = self.job;
        let d = job.op.window.dilation;
        let ((top, bottom, iy), (left, right, ix)) = (job.inside(oy, 0), job.inside(ox, 1));
        let max = job.op.kind == PoolKind::Max;
        let scale = 1.0 / (job.counted(oy, 0) * job.counted(ox, 1)) as f32;
        each_vector::<S>(
            job.channels,
            #[inline(always)]
            |c, lanes| {
                let mut v = s.splat(if max { f32::NEG_INFINITY } else { 0.0 });
                for ky in top..bottom {
                    for kx in left..right {
                        let at = (iy + (ky * d[0]) as isize) as usize * job.xs[2]
                            + (ix + (kx * d[1]) as isize) as usize * job.xs[3];
                        // SAFETY: inside the image.
                        let p = unsafe { load(s, x.add(at + c), lanes) };
                        v = if max { s.max(p, v) } else { s.add(v, p) };
                    }
                }
                if !max {
                    v = s.mul(v, s.splat(scale));
                }
                // SAFETY: the pixel's channels.
                unsafe { store(s, y.add(ox * job.ys[3] + c), v, lanes) };
            },
        );
    }

    /// One pixel of any strides.
    ///
    /// # Safety
    /// The addresses are the image's and the output's.
    unsafe fn scattered(&self, x: *const f32, y: *mut f32, oy: usize, ox: usize) {
        let job = self.job;
        let d = job.op.window.dilation;
        let ((top, bottom, iy), (left, right, ix)) = (job.inside(oy, 0), job.inside(ox, 1));
        let max = job.op.kind == PoolKind::Max;
        let scale = 1.0 / (job.counted(oy, 0) * job.counted(ox, 1)) as f32;
        for c in 0..job.channels {
            let mut v = if max { f32::NEG_INFINITY } else { 0.0 };
            for ky in top..bottom {
                for kx in left..right {
                    let at = (iy + (ky * d[0]) as isize) as usize * job.xs[2]
                        + (ix + (kx * d[1]) as isize) as usize * job.xs[3]
                        + c * job.xs[1];
                    // SAFETY: inside the image.
                    let p = unsafe { *x.add(at) };
                    v = if !max {
                        v + p
                    } else if p > v {
                        p
                    } else {
                        v
                    };
                }
            }
            // SAFETY: an output element.
            unsafe { *y.add(ox * job.ys[3] + c * job.ys[1]) = if max { v } else { v * scale } };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{close, layouts, noise, spread};
    use proptest::prelude::*;
    use saltica_models::graph::ops::Operator;
    use saltica_models::graph::ops::window::{AutoPad, Window};
    use saltica_tensor::{Element, Layout, Shape};

    fn bytes_match<T: Element>(
        op: &Pool,
        xs: &[T],
        lx: Layout,
        ly: Layout,
    ) -> std::result::Result<(), TestCaseError> {
        let x = View::of_slice(xs, lx).unwrap();
        let mut want = vec![xs[0]; ly.span()];
        op.run(&[Some(x)], &mut [ViewMut::of_slice(&mut want, ly).unwrap()]).unwrap();
        for isa in Isa::available() {
            for threads in [1, 3] {
                let mut got = vec![xs[0]; ly.span()];
                let y = &mut ViewMut::of_slice(&mut got, ly).unwrap();
                pool(isa, &Threads::new(threads).unwrap(), op, &x, y).unwrap();
                prop_assert!(got == want, "{} {}", T::DTYPE, isa);
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn poolings_match_the_reference(
            kind in 0usize..3, kernel in prop_oneof![Just([5usize, 5]), Just([3, 3]), Just([2, 2]), Just([9, 13]), [1usize..6, 1..6]],
            stride in [1usize..4, 1..4], dilation in prop_oneof![3 => Just([1usize, 1]), 1 => [1usize..3, 1..3]],
            pads in [0usize..7, 0..7, 0..7, 0..7], ceil_mode in any::<bool>(),
            dims in [1usize..3, 1..40, 1..30, 1..30], seeds in any::<[u64; 2]>(), wider in [0usize..9, 0..9],
        ) {
            let kind = [PoolKind::Max, PoolKind::Average, PoolKind::AverageWithPadding][kind];
            // ONNX wants padding below the kernel, so that every window sees the image.
            let pads = std::array::from_fn(|i| pads[i].min(kernel[i % 2] - 1));
            let window = Window { kernel, stride, dilation, pads, auto_pad: AutoPad::Explicit, ceil_mode };
            let shape = Shape::new(&dims).unwrap();
            let Ok([oh, ow]) = window.output([dims[2], dims[3]]) else { return Ok(()) };
            let out = Shape::new(&[dims[0], dims[1], oh, ow]).unwrap();
            let layout = |shape: Shape, seed: u64, wider: usize| if seed.is_multiple_of(4) {
                layouts(shape, seed)
            } else {
                Layout::channels_last(shape, shape[1] + wider).unwrap()
            };
            let (lx, ly) = (layout(shape, seeds[0], wider[0]), layout(out, seeds[1], wider[1]));
            let op = Pool { kind, window };
            let xs = spread(&noise(7, shape.elements()), &lx);
            let x = View::of_slice(&xs, lx).unwrap();
            let mut want = vec![f32::NAN; ly.span()];
            op.run(&[Some(x)], &mut [ViewMut::of_slice(&mut want, ly).unwrap()]).unwrap();
            for isa in Isa::available() {
                for threads in [1, 3] {
                    let threads = Threads::new(threads).unwrap();
                    let mut got = vec![f32::NAN; ly.span()];
                    pool(isa, &threads, &op, &x, &mut ViewMut::of_slice(&mut got, ly).unwrap()).unwrap();
                    close(&got, &want, if kind == PoolKind::Max { 0.0 } else { 1e-6 })?;
                }
            }
            if kind == PoolKind::Max {
                let signed: Vec<i8> = xs.iter().map(|v| (v * 127.0) as i8).collect();
                bytes_match(&op, &signed, lx, ly)?;
                let unsigned: Vec<u8> = xs.iter().map(|v| (v * 127.0 + 128.0) as u8).collect();
                bytes_match(&op, &unsigned, lx, ly)?;
            }
        }
    }
}
