//! The epilogue: residual, activation and the store to where the output's layout says.
//!
//! Invariants (the reason this file may use `unsafe`): the caller vouches that the addresses in [`Finish`] are those of the
//! tile's own output elements and of the residual elements with the same indices.

use crate::act::{Pointwise, with_activation};
use crate::simd::{Kernel, Simd};
use saltica_models::graph::Activation;
use saltica_models::graph::ops::Residual;

/// Floats in the largest row this epilogue handles.
pub(crate) const MAX_ROW: usize = 64;

/// A tile's results on their way out.
pub(crate) struct Finish<'a> {
    /// Results, a row of `row` floats for each pixel.
    pub(crate) tile: &'a [f32],
    /// Floats from one row to the next.
    pub(crate) row: usize,
    /// Channels that count in each row.
    pub(crate) channels: usize,
    /// Where each pixel's outputs are.
    pub(crate) y: &'a [*mut f32],
    /// Floats from there to the tile's first channel.
    pub(crate) y_first: usize,
    /// Floats from one channel of the output to the next.
    pub(crate) y_channel: usize,
    /// Where each pixel's residuals are; ignored without a residual.
    pub(crate) r: &'a [*const f32],
    /// Floats from there to the tile's first channel.
    pub(crate) r_first: usize,
    /// Floats from one channel of the residual to the next.
    pub(crate) r_channel: usize,
    /// Activation.
    pub(crate) activation: Activation,
    /// Where the residual is added.
    pub(crate) residual: Residual,
}

struct Store<'a>(&'a Finish<'a>);

impl Kernel for Store<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        self.0.rows(s);
    }
}

impl Finish<'_> {
    /// Writes the rows out. A function of its own, so that the loops over all activations exist once for each
    /// instruction set.
    ///
    /// # Safety
    /// The addresses are as the module says.
    #[inline(never)]
    pub(crate) unsafe fn store<S: Simd>(&self, s: S) {
        s.vectorize(Store(self));
    }

    #[inline(always)]
    fn rows<S: Simd>(&self, s: S) {
        with_activation!(self.activation, f => {
            if self.y_channel != 1 || (self.residual != Residual::None && self.r_channel != 1) {
                self.scattered(s, f);
            } else if self.channels == self.row && self.residual == Residual::None {
                self.whole(s, f);
            } else {
                for m in 0..self.y.len() {
                    let row = &self.tile[m * self.row..][..self.row];
                    let r = self.r[m].wrapping_add(self.r_first);
                    // SAFETY: the row's outputs and residuals are runs of `channels` floats.
                    unsafe { self.line::<S, _>(s, f, row, r, self.y[m].wrapping_add(self.y_first)) };
                }
            }
        })
    }

    /// Whole rows without a residual, which is what most tiles are: vectors of two rows at a time, so that the latency of
    /// one hides behind the other's.
    #[inline(always)]
    fn whole<S: Simd, P: Pointwise>(&self, s: S, f: P) {
        let mut m = 0;
        while m < self.y.len() {
            let two = m + 1 < self.y.len();
            let next = if two { m + 1 } else { m };
            let (a, b) = (&self.tile[m * self.row..][..self.row], &self.tile[next * self.row..][..self.row]);
            let ya = self.y[m].wrapping_add(self.y_first);
            let yb = self.y[next].wrapping_add(self.y_first);
            let mut c = 0;
            while c < self.row {
                // SAFETY: a row is a whole number of vectors; the outputs are runs of `channels == row` floats.
                unsafe {
                    let va = f.eval(s, s.load(a.as_ptr().add(c)));
                    let vb = f.eval(s, s.load(b.as_ptr().add(c)));
                    s.store(ya.add(c), va);
                    s.store(yb.add(c), vb);
                }
                c += S::LANES;
            }
            m += 2;
        }
    }

    /// Rows whose outputs or residuals are no runs.
    #[inline(always)]
    fn scattered<S: Simd, P: Pointwise>(&self, s: S, f: P) {
        for m in 0..self.y.len() {
            let row = &self.tile[m * self.row..][..self.row];
            let (mut r, mut out) = ([0f32; MAX_ROW], [0f32; MAX_ROW]);
            if self.residual != Residual::None {
                for c in 0..self.channels {
                    // SAFETY: an element of the residual.
                    r[c] = unsafe { *self.r[m].add(self.r_first + c * self.r_channel) };
                }
            }
            // SAFETY: both arrays hold the row.
            unsafe { self.line::<S, _>(s, f, row, r.as_ptr(), out.as_mut_ptr()) };
            for c in 0..self.channels {
                // SAFETY: an element of the output.
                unsafe { *self.y[m].add(self.y_first + c * self.y_channel) = out[c] };
            }
        }
    }

    /// # Safety
    /// `r` (if there is a residual) and `y` must be valid for `channels` floats.
    #[inline(always)]
    unsafe fn line<S: Simd, P: Pointwise>(&self, s: S, f: P, row: &[f32], r: *const f32, y: *mut f32) {
        let whole = self.channels / S::LANES * S::LANES;
        // SAFETY: `c` and the count stay inside the row's `channels`.
        unsafe {
            let mut c = 0;
            while c < whole {
                let v = s.load(row.as_ptr().add(c));
                let v = match self.residual {
                    Residual::None => f.eval(s, v),
                    Residual::BeforeActivation => f.eval(s, s.add(v, s.load(r.add(c)))),
                    Residual::AfterActivation => s.add(f.eval(s, v), s.load(r.add(c))),
                };
                s.store(y.add(c), v);
                c += S::LANES;
            }
            let n = self.channels - whole;
            if n > 0 {
                let v = s.load_n(row.as_ptr().add(c), n);
                let v = match self.residual {
                    Residual::None => f.eval(s, v),
                    Residual::BeforeActivation => f.eval(s, s.add(v, s.load_n(r.add(c), n))),
                    Residual::AfterActivation => s.add(f.eval(s, v), s.load_n(r.add(c), n)),
                };
                s.store_n(y.add(c), v, n);
            }
        }
    }
}
