//! Depthwise convolution (one filter for each channel): vectors over channels, a run of output columns in registers.
//!
//! Invariants (the reason this file may use `unsafe`):
//! * a run of columns is computed by the blocked kernel only if all its windows lie inside the image's width, with rows
//!   outside the image skipped; other columns go one by one with the taps outside the image skipped;
//! * tasks write disjoint output rows.

use super::finish::{Finish, MAX_ROW};
use super::{Epilogue, Floats, Geometry, Io};
use crate::Result;
use crate::isa::Isa;
use crate::pool::Pool;
use crate::simd::{Kernel, Simd, dispatch};
use saltica_models::graph::ops::Residual;

/// Output columns computed at a time.
const COLUMNS: usize = 8;
/// Channels of a vector group are padded to this in the packed weights.
const BLOCK: usize = 16;
const TASKS_PER_THREAD: usize = 6;

pub(super) struct Depthwise {
    isa: Isa,
    channels: usize,
    /// `[blocks][taps][BLOCK]`.
    weights: Floats,
    /// `[blocks][BLOCK]`.
    bias: Floats,
}

impl Depthwise {
    pub(super) fn pack(
        isa: Isa,
        channels: usize,
        taps: usize,
        w: &[f32],
        bias: Option<&[f32]>,
    ) -> Result<Self> {
        let padded = channels.next_multiple_of(BLOCK);
        let mut weights = Floats::zeroed(padded * taps)?;
        let mut packed_bias = Floats::zeroed(padded)?;
        for c in 0..channels {
            for t in 0..taps {
                weights.get_mut()[(c / BLOCK * taps + t) * BLOCK + c % BLOCK] = w[c * taps + t];
            }
        }
        if let Some(b) = bias {
            packed_bias.get_mut()[..channels].copy_from_slice(b);
        }
        Ok(Depthwise { isa, channels, weights, bias: packed_bias })
    }

    pub(super) fn label(&self) -> String {
        format!("depthwise {} {COLUMNS} columns", self.isa.kind().name())
    }

    pub(super) fn bytes(&self) -> usize {
        self.weights.bytes() + self.bias.bytes()
    }

    /// # Safety
    /// The addresses in `io` are those of the elements that `g` describes.
    pub(super) unsafe fn run(&self, pool: &Pool, g: &Geometry, io: Io, epilogue: Epilogue) -> Result<()> {
        let rows = g.n * g.oh;
        let chunks = if pool.threads() == 1 { 1 } else { (pool.threads() * TASKS_PER_THREAD).min(rows) };
        pool.run(chunks, &|task, _| {
            let rows = [task * rows / chunks, (task + 1) * rows / chunks];
            dispatch(self.isa, Rows { conv: self, g, io, epilogue, rows });
        })
    }
}

/// One task: a range of output rows, counted over the batch.
struct Rows<'a> {
    conv: &'a Depthwise,
    g: &'a Geometry,
    io: Io,
    epilogue: Epilogue,
    rows: [usize; 2],
}

/// One output row and the taps that reach the image from it.
struct Line {
    x: *const f32,
    y: *mut f32,
    r: *const f32,
    /// First input row of the window; may be negative.
    iy: isize,
    /// Rows of the kernel inside the image.
    ky: [usize; 2],
}

impl Kernel for Rows<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let g = self.g;
        // Columns whose whole window is inside the image.
        let reach = (g.kernel[1] - 1) * g.dilation[1];
        let first = g.pads[1].div_ceil(g.stride[1]).min(g.ow);
        let last = if g.w + g.pads[1] > reach {
            ((g.w + g.pads[1] - reach - 1) / g.stride[1] + 1).min(g.ow)
        } else {
            0
        };
        let last = last.max(first);
        for row in self.rows[0]..self.rows[1] {
            let (n, oy) = (row / g.oh, row % g.oh);
            let iy = (oy * g.stride[0]) as isize - g.pads[0] as isize;
            let d = g.dilation[0] as isize;
            let inside = |ky: usize| ((iy + ky as isize * d) as usize) < g.h;
            let top = (0..g.kernel[0]).find(|&ky| inside(ky)).unwrap_or(0);
            let count = (top..g.kernel[0]).take_while(|&ky| inside(ky)).count();
            let line = Line {
                x: self.io.x.0.wrapping_add(n * g.x[0]).cast_const(),
                y: self.io.y.0.wrapping_add(n * g.y[0] + oy * g.y[2]),
                r: self.io.r.0.wrapping_add(n * g.r[0] + oy * g.r[2]).cast_const(),
                iy,
                ky: [top, top + count],
            };
            let mut c = 0;
            while c < self.conv.channels {
                let lanes = S::LANES.min(self.conv.channels - c);
                let mut ox = 0;
                while ox < g.ow {
                    // SAFETY: inside first..last windows are inside the image's width; the task owns the row.
                    unsafe {
                        if ox >= first
                            && ox < last
                            && last - first >= COLUMNS
                            && lanes == S::LANES
                            && g.x[1] == 1
                        {
                            // The last run begins early enough to be whole: a few columns are computed twice.
                            ox = ox.min(last - COLUMNS);
                            match (g.kernel[1], g.stride[1], g.dilation[1]) {
                                (3, 1, 1) => self.run_columns::<S, 3, 1, 10>(s, &line, c, ox),
                                (3, 2, 1) => self.run_columns::<S, 3, 2, 17>(s, &line, c, ox),
                                (5, 1, 1) => self.run_columns::<S, 5, 1, 12>(s, &line, c, ox),
                                (5, 2, 1) => self.run_columns::<S, 5, 2, 19>(s, &line, c, ox),
                                _ => self.any_columns::<S>(s, &line, c, ox),
                            }
                            ox += COLUMNS;
                        } else {
                            self.one::<S>(s, &line, c, lanes, ox);
                            ox += 1;
                        }
                    }
                }
                c += lanes;
            }
        }
    }
}

impl Rows<'_> {
    #[inline(always)]
    fn weights(&self, c: usize) -> *const f32 {
        let taps = self.g.kernel[0] * self.g.kernel[1];
        self.conv.weights.get()[c / BLOCK * taps * BLOCK + c % BLOCK..].as_ptr()
    }

    /// A run of columns of a kernel `KW` wide with stride `SW`: each of the `NX` input vectors of a line is loaded once and
    /// goes to every output it belongs to.
    ///
    /// # Safety
    /// The windows of the columns are inside the image's width and `c + LANES` channels exist.
    #[inline(always)]
    unsafe fn run_columns<S: Simd, const KW: usize, const SW: usize, const NX: usize>(
        &self,
        s: S,
        line: &Line,
        c: usize,
        ox: usize,
    ) {
        let g = self.g;
        let w = self.weights(c);
        // SAFETY: addresses inside the image, the weights and the bias.
        unsafe {
            let mut acc = [s.load(self.conv.bias.get().as_ptr().add(c)); COLUMNS];
            for ky in line.ky[0]..line.ky[1] {
                let iy = (line.iy + (ky * g.dilation[0]) as isize) as usize;
                let x = line.x.add(iy * g.x[2] + (ox * SW - g.pads[1]) * g.x[3] + c);
                let mut wv = [s.splat(0.0); KW];
                for kx in 0..KW {
                    wv[kx] = s.load(w.add((ky * KW + kx) * BLOCK));
                }
                let mut xv = [s.splat(0.0); NX];
                for i in 0..NX {
                    xv[i] = s.load(x.add(i * g.x[3]));
                }
                for kx in 0..KW {
                    for o in 0..COLUMNS {
                        acc[o] = s.fma(xv[o * SW + kx], wv[kx], acc[o]);
                    }
                }
            }
            self.finish(s, line, &acc, c, S::LANES, ox, COLUMNS);
        }
    }

    /// A run of columns of any kernel.
    ///
    /// # Safety
    /// As [`Self::run_columns`].
    #[inline(always)]
    unsafe fn any_columns<S: Simd>(&self, s: S, line: &Line, c: usize, ox: usize) {
        let g = self.g;
        let w = self.weights(c);
        // SAFETY: addresses inside the image, the weights and the bias.
        unsafe {
            let mut acc = [s.load(self.conv.bias.get().as_ptr().add(c)); COLUMNS];
            for ky in line.ky[0]..line.ky[1] {
                let iy = (line.iy + (ky * g.dilation[0]) as isize) as usize;
                for kx in 0..g.kernel[1] {
                    let ix = ox * g.stride[1] + kx * g.dilation[1] - g.pads[1];
                    let x = line.x.add(iy * g.x[2] + ix * g.x[3] + c);
                    let wv = s.load(w.add((ky * g.kernel[1] + kx) * BLOCK));
                    for o in 0..COLUMNS {
                        acc[o] = s.fma(s.load(x.add(o * g.stride[1] * g.x[3])), wv, acc[o]);
                    }
                }
            }
            self.finish(s, line, &acc, c, S::LANES, ox, COLUMNS);
        }
    }

    /// One column, anywhere, of any strides.
    ///
    /// # Safety
    /// `c + lanes` channels and the column exist.
    #[inline(always)]
    unsafe fn one<S: Simd>(&self, s: S, line: &Line, c: usize, lanes: usize, ox: usize) {
        let g = self.g;
        let w = self.weights(c);
        let ix0 = (ox * g.stride[1]) as isize - g.pads[1] as isize;
        // SAFETY: taps outside the image are skipped; weights and bias are padded to whole vectors.
        unsafe {
            let mut acc = s.load(self.conv.bias.get().as_ptr().add(c));
            for ky in line.ky[0]..line.ky[1] {
                let iy = (line.iy + (ky * g.dilation[0]) as isize) as usize;
                for kx in 0..g.kernel[1] {
                    let ix = ix0 + (kx * g.dilation[1]) as isize;
                    if ix as usize >= g.w {
                        continue;
                    }
                    let x = line.x.add(iy * g.x[2] + ix as usize * g.x[3] + c * g.x[1]);
                    let v = if g.x[1] == 1 {
                        s.load_n(x, lanes)
                    } else {
                        let mut gathered = [0f32; BLOCK];
                        for i in 0..lanes {
                            gathered[i] = *x.add(i * g.x[1]);
                        }
                        s.load(gathered.as_ptr())
                    };
                    acc = s.fma(v, s.load(w.add((ky * g.kernel[1] + kx) * BLOCK)), acc);
                }
            }
            self.finish(s, line, &[acc], c, lanes, ox, 1);
        }
    }

    /// # Safety
    /// The outputs are the task's own.
    #[inline(always)]
    unsafe fn finish<S: Simd>(
        &self,
        s: S,
        line: &Line,
        acc: &[S::F],
        c: usize,
        lanes: usize,
        ox: usize,
        columns: usize,
    ) {
        let g = self.g;
        let mut tile = [0f32; COLUMNS * BLOCK];
        let mut y = [std::ptr::null_mut(); COLUMNS];
        let mut r = [std::ptr::null(); COLUMNS];
        for o in 0..columns {
            // SAFETY: the tile holds COLUMNS rows of at least LANES floats.
            unsafe { s.store(tile.as_mut_ptr().add(o * S::LANES), acc[o]) };
            y[o] = line.y.wrapping_add((ox + o) * g.y[3] + c * g.y[1]);
            if self.epilogue.residual != Residual::None {
                r[o] = line.r.wrapping_add((ox + o) * g.r[3] + c * g.r[1]);
            }
        }
        let finish = Finish {
            tile: &tile,
            row: S::LANES,
            channels: lanes,
            y: &y[..columns],
            y_first: 0,
            y_channel: g.y[1],
            r: &r[..columns],
            r_first: 0,
            r_channel: g.r[1],
            activation: self.epilogue.activation,
            residual: self.epilogue.residual,
        };
        // SAFETY: the caller vouches for the elements.
        unsafe { finish.store(s) };
    }
}

const _: () = assert!(BLOCK <= MAX_ROW);
