//! Max pooling of 8-bit numbers: plain loops over blocks of channels, which the compiler turns into vectors of bytes.
//!
//! Invariants (the reason this file may use `unsafe`): as in the parent.

use super::{Job, WIDE};
use crate::ptr::Shared;
use crate::simd::{Kernel, Simd};

/// Channels of a block.
const BLOCK: usize = 64;

/// Rows of a max pooling of `i8` or `u8`.
pub(super) struct Rows<'a, T> {
    pub(super) job: &'a Job<'a>,
    pub(super) x: Shared<T>,
    pub(super) y: Shared<T>,
    pub(super) rows: [usize; 2],
}

/// 8-bit numbers.
pub(super) trait Byte: Copy + Ord {
    const LEAST: Self;
}

impl Byte for i8 {
    const LEAST: i8 = i8::MIN;
}

impl Byte for u8 {
    const LEAST: u8 = 0;
}

/// best = max(best, x), number by number.
#[inline(always)]
fn raise<T: Byte>(best: &mut [T], x: &[T]) {
    for (b, &x) in best.iter_mut().zip(x) {
        *b = (*b).max(x);
    }
}

impl<T: Byte> Kernel for Rows<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let job = self.job;
        let runs = job.xs[1] == 1 && job.ys[1] == 1;
        let most = job.most_columns();
        let mut column = [[T::LEAST; BLOCK]; WIDE];
        for row in self.rows[0]..self.rows[1] {
            let (n, oy) = (row / job.out[0], row % job.out[0]);
            let x = self.x.at(n * job.xs[0]).cast_const();
            let y = self.y.at(n * job.ys[0] + oy * job.ys[2]);
            let mut c = 0;
            while c < job.channels {
                let lanes = if runs { BLOCK.min(job.channels - c) } else { 1 };
                let (x, y) = (x.wrapping_add(c * job.xs[1]), y.wrapping_add(c * job.ys[1]));
                let mut ox = 0;
                while ox < job.out[1] {
                    let count = most.clamp(1, job.out[1] - ox);
                    // SAFETY: the addresses of `lanes` channels of the image and of the output.
                    unsafe {
                        if most == 0 {
                            self.pixel(x, y, (oy, ox), lanes);
                        } else if lanes == BLOCK {
                            self.separable(&mut column, x, y, (oy, ox, count), BLOCK);
                        } else {
                            self.separable(&mut column, x, y, (oy, ox, count), lanes);
                        }
                    }
                    ox += count;
                }
                c += lanes;
            }
        }
    }
}

impl<T: Byte> Rows<'_, T> {
    /// `count` output columns: first the largest of each input column, then across.
    ///
    /// # Safety
    /// x and y are `lanes` neighbouring channels; the windows see at most `WIDE` input columns.
    #[inline(always)]
    unsafe fn separable(
        &self,
        column: &mut [[T; BLOCK]; WIDE],
        x: *const T,
        y: *mut T,
        (oy, ox, count): (usize, usize, usize),
        lanes: usize,
    ) {
        let (job, win) = (self.job, &self.job.op.window);
        let (first, end, iy) = job.inside(oy, 0);
        let (left, right) = job.columns(ox, count);
        for ix in left..right {
            let best = &mut column[ix - left];
            *best = [T::LEAST; BLOCK];
            for ky in first..end {
                let at = (iy + (ky * win.dilation[0]) as isize) as usize * job.xs[2] + ix * job.xs[3];
                // SAFETY: a pixel inside the image.
                raise(&mut best[..lanes], unsafe { std::slice::from_raw_parts(x.add(at), lanes) });
            }
        }
        for o in ox..ox + count {
            let (from, to, ix) = job.inside(o, 1);
            let mut best = [T::LEAST; BLOCK];
            for k in from..to {
                let at = (ix + (k * win.dilation[1]) as isize) as usize;
                raise(&mut best, &column[at - left]);
            }
            // SAFETY: the output pixel's channels.
            unsafe { std::ptr::copy_nonoverlapping(best.as_ptr(), y.add(o * job.ys[3]), lanes) };
        }
    }

    /// One pixel whose window is wider than `WIDE`.
    ///
    /// # Safety
    /// x and y are `lanes` neighbouring channels.
    unsafe fn pixel(&self, x: *const T, y: *mut T, (oy, ox): (usize, usize), lanes: usize) {
        let (job, d) = (self.job, self.job.op.window.dilation);
        let ((top, bottom, iy), (left, right, ix)) = (job.inside(oy, 0), job.inside(ox, 1));
        let mut best = [T::LEAST; BLOCK];
        for ky in top..bottom {
            for kx in left..right {
                let at = (iy + (ky * d[0]) as isize) as usize * job.xs[2]
                    + (ix + (kx * d[1]) as isize) as usize * job.xs[3];
                // SAFETY: a pixel inside the image.
                raise(&mut best[..lanes], unsafe { std::slice::from_raw_parts(x.add(at), lanes) });
            }
        }
        // SAFETY: the output pixel's channels.
        unsafe { std::ptr::copy_nonoverlapping(best.as_ptr(), y.add(ox * job.ys[3]), lanes) };
    }
}
