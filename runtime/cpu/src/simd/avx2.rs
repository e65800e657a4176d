use super::{Kernel, Simd};
use std::arch::x86_64::*;

/// Lanes below `n` set.
#[inline(always)]
fn mask(n: usize) -> __m256i {
    static RAMP: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: 8 - n is in 0..=8, so eight of the sixteen numbers are read; the caller holds an `Avx2`.
    unsafe { _mm256_loadu_si256(RAMP.as_ptr().add(8 - n.min(8)).cast()) }
}

/// AVX2 with FMA: eight lanes.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

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

impl Simd for Avx2 {
    const LANES: usize = 8;
    type F = __m256;

    #[inline(always)]
    unsafe fn assume() -> Self {
        Avx2(())
    }

    #[inline(always)]
    fn vectorize<K: Kernel>(self, k: K) -> K::Out {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn go<K: Kernel>(s: Avx2, k: K) -> K::Out {
            k.run(s)
        }
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe { go(self, k) }
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> Self::F {
        // SAFETY: the caller vouches for the address.
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn load_n(self, p: *const f32, n: usize) -> Self::F {
        // SAFETY: masked lanes are not touched; the caller vouches for the others.
        unsafe { _mm256_maskload_ps(p, mask(n)) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: Self::F) {
        // SAFETY: the caller vouches for the address.
        unsafe { _mm256_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn store_n(self, p: *mut f32, v: Self::F, n: usize) {
        // SAFETY: masked lanes are not touched; the caller vouches for the others.
        unsafe { _mm256_maskstore_ps(p, mask(n), v) }
    }

    #[inline(always)]
    unsafe fn load_i32(self, p: *const i32) -> Self::F {
        // SAFETY: the caller vouches for the address.
        unsafe { _mm256_cvtepi32_ps(_mm256_loadu_si256(p.cast())) }
    }
    #[inline(always)]
    unsafe fn load_u8(self, p: *const u8) -> Self::F {
        // SAFETY: the caller vouches for the address.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast()))) }
    }
    #[inline(always)]
    unsafe fn store_u8(self, p: *mut u8, v: Self::F) {
        // SAFETY: the caller vouches for the address.
        unsafe {
            let low = _mm256_and_si256(_mm256_cvtps_epi32(v), _mm256_set1_epi32(255));
            let half = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256::<1>(low));
            _mm_storel_epi64(p.cast(), _mm_packus_epi16(half, half));
        }
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe {
            let h = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let h = _mm_add_ps(h, _mm_movehl_ps(h, h));
            _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)))
        }
    }
    #[inline(always)]
    fn largest(self, a: Self::F) -> f32 {
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe {
            let h = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let h = _mm_max_ps(h, _mm_movehl_ps(h, h));
            _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)))
        }
    }

    op! {
        add(a, b) = _mm256_add_ps(a, b);
        sub(a, b) = _mm256_sub_ps(a, b);
        mul(a, b) = _mm256_mul_ps(a, b);
        div(a, b) = _mm256_div_ps(a, b);
        floor(a) = _mm256_floor_ps(a);
        sqrt(a) = _mm256_sqrt_ps(a);
        min(a, b) = _mm256_min_ps(a, b);
        max(a, b) = _mm256_max_ps(a, b);
        fma(a, b, c) = _mm256_fmadd_ps(a, b, c);
        fnma(a, b, c) = _mm256_fnmadd_ps(a, b, c);
        round(a) = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a);
        scale2(a, n) = {
            let e = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(e)))
        };
        recip(a) = _mm256_div_ps(_mm256_set1_ps(1.0), a);
        abs(a) = _mm256_andnot_ps(_mm256_set1_ps(-0.0), a);
        where_lt(a, b, x, y) = _mm256_blendv_ps(y, x, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b));
    }
}
