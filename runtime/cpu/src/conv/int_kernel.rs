//! The 8-bit convolution microkernels: u8 inputs times i8 weights, summed exactly in i32.
//!
//! Packed weights lie as `[taps * channels / 4][BLOCK][4]`: four neighbouring inputs meet four weights of each of sixteen
//! output channels.
//!
//! Invariants (the reason this file may use `unsafe`):
//! * an [`IntTileFn`] is compiled for one instruction set and listed only under it ([`int_rows`]);
//! * the caller of an [`IntTileFn`] vouches for the addresses in its [`IntTile`], as documented there.

use super::kernel::BLOCK;
use crate::isa::{Isa, IsaKind};

/// What one call of a microkernel works on. For output pixel `m` and channel `o` it computes
/// `bias[o] + sum(w[t][c][o] * x[t][m][c])`, wrapping, over taps `t` and input channels `c`, where x is the input byte, its
/// sign bit flipped if the input is signed.
pub(crate) struct IntTile {
    /// Taps of the window.
    pub(super) taps: usize,
    /// Groups of four input channels in a tap.
    pub(super) quads: usize,
    /// For each tap, where each pixel's channels start (before `offs` is added): `MR` addresses, `ptr_step` from one tap to
    /// the next. Each plus its offset must be readable for `4 * quads` bytes.
    pub(super) ptrs: *const *const u8,
    /// Addresses from one tap's to the next tap's (0: all taps share them).
    pub(super) ptr_step: usize,
    /// For each tap, bytes added to its addresses.
    pub(super) offs: *const isize,
    /// Entries from one tap's offset to the next's (0: all taps share it).
    pub(super) off_step: usize,
    /// 0x80808080 for signed inputs, else 0.
    pub(super) flip: u32,
    /// Weights of the first block.
    pub(super) w: *const i8,
    /// Bytes from one block's weights to the next's.
    pub(super) w_block: usize,
    /// Bias, `BLOCK` a block.
    pub(super) bias: *const i32,
    /// Result, `[MR][blocks * BLOCK]` numbers.
    pub(super) out: *mut i32,
}

/// A microkernel.
///
/// # Safety
/// The processor must have the instructions of the list it comes from, and the addresses must be as [`IntTile`] says.
pub(crate) type IntTileFn = unsafe fn(&IntTile);

/// One microkernel of the table.
#[derive(Clone, Copy)]
pub(crate) struct IntRow {
    /// Output pixels of its tile.
    pub(crate) pixels: usize,
    /// Blocks of output channels of its tile.
    pub(crate) blocks: usize,
    /// The kernel.
    pub(crate) run: IntTileFn,
}

/// Four inputs times four weights of each of a block's channels, added to accumulators.
///
/// # Safety
/// All methods need the processor to have the instructions; addresses are as [`IntTile`] says.
trait Dot {
    /// An accumulator; a block takes `VECTORS` of them.
    type Acc: Copy;
    type X: Copy;
    type W: Copy;
    const VECTORS: usize;
    unsafe fn zero() -> Self::Acc;
    /// Four inputs.
    unsafe fn input(bytes: u32) -> Self::X;
    /// The weights that accumulator `v` of the block at `p` meets.
    unsafe fn weight(p: *const i8, v: usize) -> Self::W;
    unsafe fn dot(acc: Self::Acc, x: Self::X, w: Self::W) -> Self::Acc;
    /// Writes a block's sums plus bias.
    unsafe fn store(acc: &[Self::Acc], bias: *const i32, out: *mut i32);
}

/// # Safety
/// As [`IntTileFn`].
#[inline(always)]
unsafe fn tile<D: Dot, const MR: usize, const NV: usize>(t: &IntTile) {
    // SAFETY: the caller vouches for the instructions and the addresses.
    unsafe {
        let mut acc = [[D::zero(); NV]; MR];
        let mut w = t.w;
        for k in 0..t.taps {
            let off = *t.offs.add(k * t.off_step);
            let mut p = [std::ptr::null::<u8>(); MR];
            for m in 0..MR {
                p[m] = (*t.ptrs.add(k * t.ptr_step + m)).offset(off);
            }
            for q in 0..t.quads {
                let mut wv = [D::weight(w, 0); NV];
                for j in 0..NV {
                    wv[j] = D::weight(w.add(j / D::VECTORS * t.w_block), j % D::VECTORS);
                }
                for m in 0..MR {
                    let x = D::input(p[m].add(4 * q).cast::<u32>().read_unaligned() ^ t.flip);
                    for j in 0..NV {
                        acc[m][j] = D::dot(acc[m][j], x, wv[j]);
                    }
                }
                w = w.add(4 * BLOCK);
            }
        }
        let blocks = NV / D::VECTORS;
        for m in 0..MR {
            for b in 0..blocks {
                let part = &acc[m][b * D::VECTORS..(b + 1) * D::VECTORS];
                D::store(part, t.bias.add(b * BLOCK), t.out.add((m * blocks + b) * BLOCK));
            }
        }
    }
}

/// Plain Rust.
struct ScalarDot;

impl Dot for ScalarDot {
    type Acc = [i32; BLOCK];
    type X = [i32; 4];
    type W = [i8; 4 * BLOCK];
    const VECTORS: usize = 1;
    #[inline(always)]
    unsafe fn zero() -> Self::Acc {
        [0; BLOCK]
    }
    #[inline(always)]
    unsafe fn input(bytes: u32) -> Self::X {
        bytes.to_le_bytes().map(i32::from)
    }
    #[inline(always)]
    unsafe fn weight(p: *const i8, _: usize) -> Self::W {
        // SAFETY: a block's weights of four inputs.
        unsafe { p.cast::<Self::W>().read() }
    }
    #[inline(always)]
    unsafe fn dot(mut acc: Self::Acc, x: Self::X, w: Self::W) -> Self::Acc {
        for o in 0..BLOCK {
            for i in 0..4 {
                acc[o] = acc[o].wrapping_add(x[i] * w[4 * o + i] as i32);
            }
        }
        acc
    }
    #[inline(always)]
    unsafe fn store(acc: &[Self::Acc], bias: *const i32, out: *mut i32) {
        for o in 0..BLOCK {
            // SAFETY: a block of bias and of results.
            unsafe { *out.add(o) = acc[0][o].wrapping_add(*bias.add(o)) };
        }
    }
}

/// # Safety
/// As [`IntTileFn`].
unsafe fn scalar<const MR: usize, const NV: usize>(t: &IntTile) {
    // SAFETY: the caller's.
    unsafe { tile::<ScalarDot, MR, NV>(t) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{BLOCK, Dot, IntTile, tile};
    use std::arch::x86_64::*;

    /// AVX-512 VNNI: one instruction for a block.
    struct Vnni;

    impl Dot for Vnni {
        type Acc = __m512i;
        type X = __m512i;
        type W = __m512i;
        const VECTORS: usize = 1;
        #[inline(always)]
        unsafe fn zero() -> Self::Acc {
            // SAFETY: the caller has the instructions.
            unsafe { _mm512_setzero_si512() }
        }
        #[inline(always)]
        unsafe fn input(bytes: u32) -> Self::X {
            // SAFETY: as above.
            unsafe { _mm512_set1_epi32(bytes as i32) }
        }
        #[inline(always)]
        unsafe fn weight(p: *const i8, _: usize) -> Self::W {
            // SAFETY: 64 bytes of weights.
            unsafe { _mm512_loadu_si512(p.cast()) }
        }
        #[inline(always)]
        unsafe fn dot(acc: Self::Acc, x: Self::X, w: Self::W) -> Self::Acc {
            // SAFETY: the caller has the instructions.
            unsafe { _mm512_dpbusd_epi32(acc, x, w) }
        }
        #[inline(always)]
        unsafe fn store(acc: &[Self::Acc], bias: *const i32, out: *mut i32) {
            // SAFETY: a block of bias and of results.
            unsafe {
                _mm512_storeu_si512(out.cast(), _mm512_add_epi32(acc[0], _mm512_loadu_si512(bias.cast())))
            }
        }
    }

    /// AVX2: bytes widened to 16 bits, because the 8-bit multiply-add saturates. An accumulator has four channels, each in
    /// two halves.
    struct Wide;

    impl Dot for Wide {
        type Acc = __m256i;
        type X = __m256i;
        type W = __m256i;
        const VECTORS: usize = 4;
        #[inline(always)]
        unsafe fn zero() -> Self::Acc {
            // SAFETY: the caller has the instructions.
            unsafe { _mm256_setzero_si256() }
        }
        #[inline(always)]
        unsafe fn input(bytes: u32) -> Self::X {
            // SAFETY: as above.
            unsafe { _mm256_cvtepu8_epi16(_mm_set1_epi32(bytes as i32)) }
        }
        #[inline(always)]
        unsafe fn weight(p: *const i8, v: usize) -> Self::W {
            // SAFETY: 16 of the 64 bytes of weights.
            unsafe { _mm256_cvtepi8_epi16(_mm_loadu_si128(p.add(16 * v).cast())) }
        }
        #[inline(always)]
        unsafe fn dot(acc: Self::Acc, x: Self::X, w: Self::W) -> Self::Acc {
            // SAFETY: the caller has the instructions.
            unsafe { _mm256_add_epi32(acc, _mm256_madd_epi16(x, w)) }
        }
        #[inline(always)]
        unsafe fn store(acc: &[Self::Acc], bias: *const i32, out: *mut i32) {
            for h in 0..2 {
                // SAFETY: half a block of bias and of results.
                unsafe {
                    // Halves meet; the 64-bit lanes come out in the order 0, 2, 1, 3.
                    let sums = _mm256_hadd_epi32(acc[2 * h], acc[2 * h + 1]);
                    let sums = _mm256_permute4x64_epi64::<0b11_01_10_00>(sums);
                    let b = _mm256_loadu_si256(bias.add(h * BLOCK / 2).cast());
                    _mm256_storeu_si256(out.add(h * BLOCK / 2).cast(), _mm256_add_epi32(sums, b));
                }
            }
        }
    }

    /// # Safety
    /// As [`super::IntTileFn`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
    pub(super) unsafe fn vnni<const MR: usize, const NV: usize>(t: &IntTile) {
        // SAFETY: the caller's.
        unsafe { tile::<Vnni, MR, NV>(t) }
    }

    /// # Safety
    /// As [`super::IntTileFn`].
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn avx2<const MR: usize, const NV: usize>(t: &IntTile) {
        // SAFETY: the caller's.
        unsafe { tile::<Wide, MR, NV>(t) }
    }
}

macro_rules! int_rows {
    ($f:ident, $vectors:literal: $($pixels:literal x $blocks:literal),*) => {
        &[$(IntRow { pixels: $pixels, blocks: $blocks, run: $f::<$pixels, { $blocks * $vectors }> }),*]
    };
}

/// The microkernels of an instruction set; for every block count there is one of a single pixel.
pub(crate) fn int_rows(isa: Isa) -> &'static [IntRow] {
    match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx512 if isa.has_dot() => {
            use x86::vnni;
            int_rows!(vnni, 1: 14 x 2, 8 x 2, 4 x 2, 1 x 2, 28 x 1, 14 x 1, 8 x 1, 4 x 1, 1 x 1)
        }
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx512 | IsaKind::Avx2 => {
            use x86::avx2;
            int_rows!(avx2, 4: 3 x 1, 2 x 1, 1 x 1)
        }
        _ => int_rows!(scalar, 1: 2 x 1, 1 x 1),
    }
}

/// Whether the microkernels of an instruction set use its 8-bit dot products.
pub(crate) fn is_dot(isa: Isa) -> bool {
    isa.kind() == IsaKind::Avx512 && isa.has_dot()
}

/// Pixels to a tile when a group has this many blocks.
pub(super) fn int_tile_pixels(rows: &'static [IntRow], blocks: usize) -> usize {
    let unit = rows.iter().map(|r| r.blocks).filter(|&b| b <= blocks).max().unwrap_or(1);
    rows.iter().filter(|r| r.blocks == unit).map(|r| r.pixels).max().unwrap_or(1)
}

/// The kernel for what is left: the most blocks that fit, the smallest tile that holds `count` pixels.
#[inline(always)]
pub(super) fn int_pick(rows: &'static [IntRow], blocks: usize, count: usize) -> &'static IntRow {
    let fits = |r: &IntRow| r.blocks <= blocks && r.pixels >= count;
    let mut best = &rows[0];
    for r in rows {
        let better = r.blocks > best.blocks || (r.blocks == best.blocks && r.pixels < best.pixels);
        if fits(r) && (better || !fits(best)) {
            best = r;
        }
    }
    best
}
