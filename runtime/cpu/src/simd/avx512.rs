use super::{Kernel, Simd};
use std::arch::x86_64::*;

#[inline(always)]
fn mask(n: usize) -> __mmask16 {
    ((1u32 << n.min(16)) - 1) as __mmask16
}

/// AVX-512: sixteen lanes.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

/// One method whose body is intrinsics of this instruction set.
macro_rules! op {
    ($($name:ident($($a:ident),*) = $e:expr;)*) => {$(
        #[inline(always)]
        fn $name(self, $($a: Self::F),*) -> Self::F {
            // SAFETY: `self` exists, so the processor has the instructions.
            unsafe { $e }
        }
    )*};
}

impl Simd for Avx512 {
    const LANES: usize = 16;
    type F = __m512;

    #[inline(always)]
    unsafe fn assume() -> Self {
        Avx512(())
    }

    #[inline(always)]
    fn vectorize<K: Kernel>(self, k: K) -> K::Out {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")]
        fn go<K: Kernel>(s: Avx512, k: K) -> K::Out {
            k.run(s)
        }
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe { go(self, k) }
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> Self::F {
        // SAFETY: the caller vouches for the address.
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn load_n(self, p: *const f32, n: usize) -> Self::F {
        // SAFETY: masked lanes are not touched; the caller vouches for the others.
        unsafe { _mm512_maskz_loadu_ps(mask(n), p) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: Self::F) {
        // SAFETY: the caller vouches for the address.
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn store_n(self, p: *mut f32, v: Self::F, n: usize) {
        // SAFETY: masked lanes are not touched; the caller vouches for the others.
        unsafe { _mm512_mask_storeu_ps(p, mask(n), v) }
    }

    #[inline(always)]
    unsafe fn load_i32(self, p: *const i32) -> Self::F {
        // SAFETY: the caller vouches for the address.
        unsafe { _mm512_cvtepi32_ps(_mm512_loadu_si512(p.cast())) }
    }
    #[inline(always)]
    unsafe fn load_u8(self, p: *const u8) -> Self::F {
        // SAFETY: the caller vouches for the address.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn store_u8(self, p: *mut u8, v: Self::F) {
        // SAFETY: the caller vouches for the address.
        unsafe { _mm_storeu_si128(p.cast(), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v))) }
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe { _mm512_reduce_add_ps(a) }
    }
    #[inline(always)]
    fn largest(self, a: Self::F) -> f32 {
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe { _mm512_reduce_max_ps(a) }
    }

    op! {
        add(a, b) = _mm512_add_ps(a, b);
        sub(a, b) = _mm512_sub_ps(a, b);
        mul(a, b) = _mm512_mul_ps(a, b);
        div(a, b) = _mm512_div_ps(a, b);
        floor(a) = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(a);
        sqrt(a) = _mm512_sqrt_ps(a);
        min(a, b) = _mm512_min_ps(a, b);
        max(a, b) = _mm512_max_ps(a, b);
        fma(a, b, c) = _mm512_fmadd_ps(a, b, c);
        fnma(a, b, c) = _mm512_fnmadd_ps(a, b, c);
        round(a) = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a);
        scale2(a, n) = _mm512_scalef_ps(a, n);
        recip(a) = {
            // One Newton step doubles the 14 good bits.
            let r = _mm512_rcp14_ps(a);
            _mm512_fmadd_ps(r, _mm512_fnmadd_ps(a, r, _mm512_set1_ps(1.0)), r)
        };
        abs(a) = _mm512_abs_ps(a);
        where_lt(a, b, x, y) = _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), y, x);
    }
}
