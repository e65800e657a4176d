//! The convolution microkernels: a tile of output pixels times 16-channel blocks, accumulated in registers.
//!
//! Invariants (the reason this file may use `unsafe`):
//! * a [`TileFn`] is compiled for one instruction set and listed only under it ([`rows`]);
//! * the caller of a [`TileFn`] vouches for the addresses in its [`Tile`], as documented there.

use crate::isa::IsaKind;
#[cfg(target_arch = "aarch64")]
use crate::simd::Neon;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Kernel, Scalar, Simd};

/// Output channels of one packed block of weights.
pub(crate) const BLOCK: usize = 16;
/// Most pixels in a tile, over all kernels.
pub(crate) const MAX_PIXELS: usize = 28;
/// Most blocks in a tile, over all kernels.
pub(crate) const MAX_BLOCKS: usize = 2;

/// What one call of a microkernel works on. For output pixel `m` and channel `o` it computes
/// `bias[o] + sum(w[t][c][o] * x[t][m][c])` over taps `t` and input channels `c`, in this order.
pub(crate) struct Tile {
    /// Taps of the window.
    pub(crate) taps: usize,
    /// Input channels of a tap.
    pub(crate) ic: usize,
    /// For each tap, where each pixel's input channels start (before `offs` is added): `MR` addresses, `ptr_step` from one
    /// tap to the next. Each plus its offset must be readable for `ic` floats.
    pub(crate) ptrs: *const *const f32,
    /// Addresses from one tap's to the next tap's (0: all taps share them).
    pub(crate) ptr_step: usize,
    /// For each tap, floats added to its addresses.
    pub(crate) offs: *const isize,
    /// Entries from one tap's offset to the next's (0: all taps share it).
    pub(crate) off_step: usize,
    /// Weights `[taps][ic][BLOCK]` of the first block.
    pub(crate) w: *const f32,
    /// Floats from one block's weights to the next's.
    pub(crate) w_block: usize,
    /// Bias, `BLOCK` a block.
    pub(crate) bias: *const f32,
    /// Result, `[MR][blocks * BLOCK]` floats.
    pub(crate) out: *mut f32,
}

/// A microkernel.
///
/// # Safety
/// The processor must have the instructions of the list it comes from, and the addresses must be as [`Tile`] says.
pub(crate) type TileFn = unsafe fn(&Tile);

/// One microkernel of the table.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// Output pixels of its tile.
    pub(crate) pixels: usize,
    /// Blocks of output channels of its tile.
    pub(crate) blocks: usize,
    /// Reads each pixel's channels as one run of floats.
    pub(crate) run: TileFn,
    /// Reads each pixel's inputs at any offsets: `taps` counts (tap, channel) pairs, `ic` is 1 and `ptr_step` 0.
    pub(crate) scattered: TileFn,
}

struct Go<'a, const MR: usize, const NV: usize, const SCATTERED: bool>(&'a Tile);

impl<const MR: usize, const NV: usize, const SCATTERED: bool> Kernel for Go<'_, MR, NV, SCATTERED> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let t = self.0;
        let per_block = BLOCK / S::LANES;
        // SAFETY: the addresses are as `Tile` says (the contract of `TileFn`); NV vectors are NV / per_block blocks.
        unsafe {
            let mut acc = [[s.splat(0.0); NV]; MR];
            let mut w = t.w;
            let w_at = |j: usize| (j / per_block) * t.w_block + (j % per_block) * S::LANES;
            for j in 0..NV {
                let b = s.load(t.bias.add(j * S::LANES));
                for m in 0..MR {
                    acc[m][j] = b;
                }
            }
            if SCATTERED {
                let mut p = [std::ptr::null::<f32>(); MR];
                for m in 0..MR {
                    p[m] = *t.ptrs.add(m);
                }
                for k in 0..t.taps {
                    let off = *t.offs.add(k);
                    let mut wv = [s.splat(0.0); NV];
                    for j in 0..NV {
                        wv[j] = s.load(w.add(w_at(j)));
                    }
                    for m in 0..MR {
                        let x = s.splat(*p[m].offset(off));
                        for j in 0..NV {
                            acc[m][j] = s.fma(x, wv[j], acc[m][j]);
                        }
                    }
                    w = w.add(BLOCK);
                }
            } else {
                for k in 0..t.taps {
                    let off = *t.offs.add(k * t.off_step);
                    let mut p = [std::ptr::null::<f32>(); MR];
                    for m in 0..MR {
                        p[m] = (*t.ptrs.add(k * t.ptr_step + m)).offset(off);
                    }
                    for c in 0..t.ic {
                        let mut wv = [s.splat(0.0); NV];
                        for j in 0..NV {
                            wv[j] = s.load(w.add(w_at(j)));
                        }
                        for m in 0..MR {
                            let x = s.splat(*p[m].add(c));
                            for j in 0..NV {
                                acc[m][j] = s.fma(x, wv[j], acc[m][j]);
                            }
                        }
                        w = w.add(BLOCK);
                    }
                }
            }
            for m in 0..MR {
                for j in 0..NV {
                    s.store(t.out.add((m * NV + j) * S::LANES), acc[m][j]);
                }
            }
        }
    }
}

/// # Safety
/// As [`TileFn`].
unsafe fn entry<S: Simd, const MR: usize, const NV: usize, const SCATTERED: bool>(t: &Tile) {
    // SAFETY: the caller vouches for the instructions.
    unsafe { S::assume() }.vectorize(Go::<MR, NV, SCATTERED>(t));
}

macro_rules! rows {
    ($isa:ident, $lanes:literal: $($pixels:literal x $blocks:literal),*) => {
        &[$(Row {
            pixels: $pixels,
            blocks: $blocks,
            run: entry::<$isa, $pixels, { $blocks * BLOCK / $lanes }, false>,
            scattered: entry::<$isa, $pixels, { $blocks * BLOCK / $lanes }, true>,
        }),*]
    };
}

/// The microkernels of an instruction set: more blocks first, then more pixels first; for every block count there is one
/// of a single pixel.
pub(crate) fn rows(isa: IsaKind) -> &'static [Row] {
    match isa {
        // 32 registers of 16 lanes: 14 x 2 or 28 x 1 accumulators, 2 weights, 1 input.
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx512 => {
            rows!(Avx512, 16: 14 x 2, 8 x 2, 4 x 2, 2 x 2, 1 x 2, 28 x 1, 14 x 1, 8 x 1, 4 x 1, 1 x 1)
        }
        // 16 registers of 8 lanes: 6 x 2 accumulators, 2 weights, 1 input.
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx2 => rows!(Avx2, 8: 6 x 1, 4 x 1, 2 x 1, 1 x 1),
        // 32 registers of 4 lanes: 6 x 4 accumulators, 4 weights, 1 input.
        #[cfg(target_arch = "aarch64")]
        IsaKind::Neon => rows!(Neon, 4: 6 x 1, 4 x 1, 2 x 1, 1 x 1),
        _ => rows!(Scalar, 4: 2 x 1, 1 x 1),
    }
}

/// Pixels to a tile when a group has this many blocks: as many as the kernels with the most blocks that fit can take.
pub(crate) fn tile_pixels(rows: &'static [Row], blocks: usize) -> usize {
    let unit = rows.iter().map(|r| r.blocks).filter(|&b| b <= blocks).max().unwrap_or(1);
    rows.iter().filter(|r| r.blocks == unit).map(|r| r.pixels).max().unwrap_or(1)
}

/// The kernel for what is left: the most blocks that fit, the smallest tile that holds `count` pixels.
#[inline(always)]
pub(crate) fn pick(rows: &'static [Row], blocks: usize, count: usize) -> &'static Row {
    let fits = |r: &Row| r.blocks <= blocks && r.pixels >= count;
    let mut best = &rows[0];
    for r in rows {
        let better = r.blocks > best.blocks || (r.blocks == best.blocks && r.pixels < best.pixels);
        if fits(r) && (better || !fits(best)) {
            best = r;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_can_do_any_tile() {
        for kind in IsaKind::ALL {
            let rows = rows(kind);
            assert!(rows.iter().all(|r| r.pixels <= MAX_PIXELS && r.blocks <= MAX_BLOCKS));
            assert!(rows.iter().any(|r| r.blocks == 1), "a last single block");
            for r in rows {
                assert!(rows.iter().any(|s| s.blocks == r.blocks && s.pixels == 1), "a last single pixel");
            }
        }
    }
}
