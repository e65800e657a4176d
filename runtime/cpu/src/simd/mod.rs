//! Vectors of f32 as one trait, so that each kernel is written once and compiled for every instruction set.
//!
//! Invariants (the reason this module may use `unsafe`):
//! * A value of a [`Simd`] type exists only where the processor has its instructions: it is made by [`dispatch`] from an
//!   [`Isa`], or by [`Simd::assume`] under its contract. That makes the arithmetic methods safe to call.
//! * Loads and stores are unaligned and touch exactly the lanes they name; the caller vouches for the addresses.
//!
//! Everything is `#[inline(always)]`, so that it melts into the one function per instruction set that carries the
//! `target_feature` attribute: [`Simd::vectorize`].

use crate::isa::{Isa, IsaKind};

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;
pub(crate) use scalar::Scalar;

/// Work that is written for any vector type.
pub(crate) trait Kernel {
    /// What it returns.
    type Out;
    /// The work; implementations are `#[inline(always)]`.
    fn run<S: Simd>(self, s: S) -> Self::Out;
}

/// A vector of `LANES` f32 and what can be done with it. `LANES` divides 16.
pub(crate) trait Simd: Copy + Send + Sync + 'static {
    /// Number of lanes.
    const LANES: usize;
    /// The vector.
    type F: Copy;

    /// # Safety
    /// The processor must have the instructions.
    unsafe fn assume() -> Self;
    /// Runs `k` inside a function compiled for these instructions.
    fn vectorize<K: Kernel>(self, k: K) -> K::Out;

    /// All lanes `x`.
    fn splat(self, x: f32) -> Self::F;
    /// Loads all lanes.
    ///
    /// # Safety
    /// `p` must be readable for `LANES` floats.
    unsafe fn load(self, p: *const f32) -> Self::F;
    /// Loads the first `n` lanes, zero in the others.
    ///
    /// # Safety
    /// `p` must be readable for `n <= LANES` floats.
    unsafe fn load_n(self, p: *const f32, n: usize) -> Self::F;
    /// Stores all lanes.
    ///
    /// # Safety
    /// `p` must be writable for `LANES` floats.
    unsafe fn store(self, p: *mut f32, v: Self::F);
    /// Stores the first `n` lanes.
    ///
    /// # Safety
    /// `p` must be writable for `n <= LANES` floats.
    unsafe fn store_n(self, p: *mut f32, v: Self::F, n: usize);

    /// Loads i32 numbers, rounded to the nearest f32, ties to even.
    ///
    /// # Safety
    /// `p` must be readable for `LANES` numbers.
    unsafe fn load_i32(self, p: *const i32) -> Self::F;
    /// Loads bytes as numbers 0..=255.
    ///
    /// # Safety
    /// `p` must be readable for `LANES` bytes.
    unsafe fn load_u8(self, p: *const u8) -> Self::F;
    /// Stores whole numbers in -128..=255 as bytes (two's complement).
    ///
    /// # Safety
    /// `p` must be writable for `LANES` bytes.
    unsafe fn store_u8(self, p: *mut u8, v: Self::F);

    /// a + b
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// a - b
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// a * b
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// a / b
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// The smaller; `b` if either is NaN.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// The larger; `b` if either is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// a * b + c, with one rounding where the processor has it.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// c - a * b, likewise.
    fn fnma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// To the nearest integer, ties to even.
    fn round(self, a: Self::F) -> Self::F;
    /// The largest integer not above.
    fn floor(self, a: Self::F) -> Self::F;
    /// The square root.
    fn sqrt(self, a: Self::F) -> Self::F;
    /// a * 2^n for integral n in -126..=127.
    fn scale2(self, a: Self::F, n: Self::F) -> Self::F;
    /// 1 / a to within 1 ulp, for 2^-125 < |a| < 2^125.
    fn recip(self, a: Self::F) -> Self::F;
    /// |a|
    fn abs(self, a: Self::F) -> Self::F;
    /// The sum of all lanes, in an order of the instruction set's own.
    fn sum(self, a: Self::F) -> f32;
    /// The largest lane; NaN lanes may be lost.
    fn largest(self, a: Self::F) -> f32;
    /// Per lane: `x` where a < b, else `y` (also for NaN).
    fn where_lt(self, a: Self::F, b: Self::F, x: Self::F, y: Self::F) -> Self::F;
}

/// Runs `k` compiled for `isa`.
#[inline]
pub(crate) fn dispatch<K: Kernel>(isa: Isa, k: K) -> K::Out {
    match isa.kind() {
        // SAFETY: an Isa of this kind exists only if the processor has the instructions.
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx512 => unsafe { Avx512::assume() }.vectorize(k),
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        IsaKind::Avx2 => unsafe { Avx2::assume() }.vectorize(k),
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        IsaKind::Neon => unsafe { Neon::assume() }.vectorize(k),
        // SAFETY: nothing is needed.
        _ => unsafe { Scalar::assume() }.vectorize(k),
    }
}
