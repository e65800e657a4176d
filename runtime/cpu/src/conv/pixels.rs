//! Where the pixels of a tile are in memory, for any element type.
//!
//! Invariant (the reason this file may use `unsafe`): the caller vouches for the table that [`Pixels::address`] fills.

use super::Geometry;
use super::kernel::MAX_PIXELS;

/// A run of output pixels in the order N, H, W: where each one's window, output and residual are.
pub(super) struct Pixels<X, Y> {
    pub(super) count: usize,
    /// Whether each sees the whole window inside the image.
    pub(super) inside: bool,
    /// Top left of each window; may lie outside the image. Past `count` it repeats the first.
    pub(super) x: [*const X; MAX_PIXELS],
    pub(super) iy: [isize; MAX_PIXELS],
    pub(super) ix: [isize; MAX_PIXELS],
    pub(super) y: [*mut Y; MAX_PIXELS],
    pub(super) r: [*const Y; MAX_PIXELS],
}

impl<X, Y> Pixels<X, Y> {
    pub(super) fn new() -> Self {
        Pixels {
            count: 0,
            inside: false,
            x: [std::ptr::null(); MAX_PIXELS],
            iy: [0; MAX_PIXELS],
            ix: [0; MAX_PIXELS],
            y: [std::ptr::null_mut(); MAX_PIXELS],
            r: [std::ptr::null(); MAX_PIXELS],
        }
    }

    /// Fills in where the next `count` pixels are and moves `yx` (image, row, column) past them. `x`, `y` and the residual
    /// (null: none) are the first elements.
    #[inline(always)]
    pub(super) fn locate(
        &mut self,
        g: &Geometry,
        (x, y, r): (*const X, *mut Y, *const Y),
        count: usize,
        yx: &mut [usize; 3],
    ) {
        let reach = [0, 1].map(|i| (g.kernel[i] - 1) * g.dilation[i]);
        self.count = count;
        self.inside = true;
        let [mut n, mut oy, mut ox] = *yx;
        let mut m = 0;
        while m < count {
            // A run of pixels of one output row.
            let run = (g.ow - ox).min(count - m);
            let iy = (oy * g.stride[0]) as isize - g.pads[0] as isize;
            let ix = (ox * g.stride[1]) as isize - g.pads[1] as isize;
            let last = ix + ((run - 1) * g.stride[1]) as isize;
            self.inside &=
                iy >= 0 && iy as usize + reach[0] < g.h && ix >= 0 && last as usize + reach[1] < g.w;
            let x = x.wrapping_add(n * g.x[0]).wrapping_offset(iy * g.x[2] as isize + ix * g.x[3] as isize);
            let y = y.wrapping_add(n * g.y[0] + oy * g.y[2] + ox * g.y[3]);
            let (x_step, y_step) = (g.stride[1] * g.x[3], g.y[3]);
            for i in 0..run {
                self.x[m + i] = x.wrapping_add(i * x_step);
                self.y[m + i] = y.wrapping_add(i * y_step);
                self.iy[m + i] = iy;
                self.ix[m + i] = ix + (i * g.stride[1]) as isize;
            }
            if !r.is_null() {
                let r = r.wrapping_add(n * g.r[0] + oy * g.r[2] + ox * g.r[3]);
                for i in 0..run {
                    self.r[m + i] = r.wrapping_add(i * g.r[3]);
                }
            }
            m += run;
            ox += run;
            if ox == g.ow {
                ox = 0;
                oy += 1;
                if oy == g.oh {
                    oy = 0;
                    n += 1;
                }
            }
        }
        *yx = [n, oy, ox];
        // Kernels whose tile is taller than what is left repeat the first pixel.
        let first = self.x[0];
        self.x[count..].fill(first);
    }

    /// Whether the tap at (dy, dx) of pixel `m` lies inside the image.
    #[inline(always)]
    pub(super) fn sees(&self, g: &Geometry, m: usize, dy: isize, dx: isize) -> bool {
        ((self.iy[m] + dy) as usize) < g.h && ((self.ix[m] + dx) as usize) < g.w
    }

    /// Writes the address of each tap and pixel: inside the image, or the padding's.
    ///
    /// # Safety
    /// `table` is writable for `taps * MAX_PIXELS` addresses.
    #[inline(always)]
    pub(super) unsafe fn address(&self, g: &Geometry, padding: *const X, table: *mut *const X) {
        for ky in 0..g.kernel[0] {
            for kx in 0..g.kernel[1] {
                let (dy, dx) = ((ky * g.dilation[0]) as isize, (kx * g.dilation[1]) as isize);
                let off = dy * g.x[2] as isize + dx * g.x[3] as isize;
                // SAFETY: the tap's part of the table.
                let part = unsafe { table.add((ky * g.kernel[1] + kx) * MAX_PIXELS) };
                for m in 0..MAX_PIXELS {
                    let i = if m < self.count { m } else { 0 };
                    let p = if self.sees(g, i, dy, dx) { self.x[i].wrapping_offset(off) } else { padding };
                    // SAFETY: m < MAX_PIXELS.
                    unsafe { *part.add(m) = p };
                }
            }
        }
    }
}
