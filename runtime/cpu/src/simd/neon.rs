use super::{Kernel, Simd};
use std::arch::aarch64::*;

/// NEON: four lanes.
#[derive(Clone, Copy)]
pub(crate) struct Neon(());

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

impl Simd for Neon {
    const LANES: usize = 4;
    type F = float32x4_t;

    #[inline(always)]
    unsafe fn assume() -> Self {
        Neon(())
    }

    #[inline(always)]
    fn vectorize<K: Kernel>(self, k: K) -> K::Out {
        #[target_feature(enable = "neon")]
        fn go<K: Kernel>(s: Neon, k: K) -> K::Out {
            k.run(s)
        }
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe { go(self, k) }
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe { vdupq_n_f32(x) }
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> Self::F {
        // SAFETY: the caller vouches for the address.
        unsafe { vld1q_f32(p) }
    }
    #[inline(always)]
    unsafe fn load_n(self, p: *const f32, n: usize) -> Self::F {
        let mut lanes = [0f32; 4];
        // SAFETY: the caller vouches for the first n <= 4 floats.
        unsafe {
            std::ptr::copy_nonoverlapping(p, lanes.as_mut_ptr(), n.min(4));
            vld1q_f32(lanes.as_ptr())
        }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: Self::F) {
        // SAFETY: the caller vouches for the address.
        unsafe { vst1q_f32(p, v) }
    }
    #[inline(always)]
    unsafe fn store_n(self, p: *mut f32, v: Self::F, n: usize) {
        let mut lanes = [0f32; 4];
        // SAFETY: the caller vouches for the first n <= 4 floats.
        unsafe {
            vst1q_f32(lanes.as_mut_ptr(), v);
            std::ptr::copy_nonoverlapping(lanes.as_ptr(), p, n.min(4));
        }
    }

    #[inline(always)]
    unsafe fn load_i32(self, p: *const i32) -> Self::F {
        // SAFETY: the caller vouches for the address.
        unsafe { vcvtq_f32_s32(vld1q_s32(p)) }
    }
    #[inline(always)]
    unsafe fn load_u8(self, p: *const u8) -> Self::F {
        // SAFETY: the caller vouches for four bytes.
        let v = unsafe { [*p, *p.add(1), *p.add(2), *p.add(3)].map(f32::from) };
        // SAFETY: four floats of our own.
        unsafe { vld1q_f32(v.as_ptr()) }
    }
    #[inline(always)]
    unsafe fn store_u8(self, p: *mut u8, v: Self::F) {
        let mut lanes = [0i32; 4];
        // SAFETY: the caller vouches for four bytes.
        unsafe {
            vst1q_s32(lanes.as_mut_ptr(), vcvtq_s32_f32(v));
            for i in 0..4 {
                *p.add(i) = lanes[i] as u8;
            }
        }
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe { vaddvq_f32(a) }
    }
    #[inline(always)]
    fn largest(self, a: Self::F) -> f32 {
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe { vmaxnmvq_f32(a) }
    }

    op! {
        add(a, b) = vaddq_f32(a, b);
        sub(a, b) = vsubq_f32(a, b);
        mul(a, b) = vmulq_f32(a, b);
        div(a, b) = vdivq_f32(a, b);
        floor(a) = vrndmq_f32(a);
        sqrt(a) = vsqrtq_f32(a);
        min(a, b) = vbslq_f32(vcltq_f32(a, b), a, b);
        max(a, b) = vbslq_f32(vcgtq_f32(a, b), a, b);
        fma(a, b, c) = vfmaq_f32(c, a, b);
        fnma(a, b, c) = vfmsq_f32(c, a, b);
        round(a) = vrndnq_f32(a);
        scale2(a, n) = {
            let e = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
            vmulq_f32(a, vreinterpretq_f32_s32(vshlq_n_s32::<23>(e)))
        };
        recip(a) = vdivq_f32(vdupq_n_f32(1.0), a);
        abs(a) = vabsq_f32(a);
        where_lt(a, b, x, y) = vbslq_f32(vcltq_f32(a, b), x, y);
    }
}
