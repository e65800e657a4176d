use super::{Kernel, Simd};

const N: usize = 4;

/// Plain Rust on groups of four, which any compiler can turn into what vectors the target's baseline has.
#[derive(Clone, Copy)]
pub(crate) struct Scalar(());

#[inline(always)]
fn map(f: impl Fn(usize) -> f32) -> [f32; N] {
    [f(0), f(1), f(2), f(3)]
}

impl Simd for Scalar {
    const LANES: usize = N;
    type F = [f32; N];

    #[inline(always)]
    unsafe fn assume() -> Self {
        Scalar(())
    }
    #[inline(always)]
    fn vectorize<K: Kernel>(self, k: K) -> K::Out {
        k.run(self)
    }
    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; N]
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> Self::F {
        // SAFETY: the caller vouches for LANES floats.
        unsafe { p.cast::<[f32; N]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_n(self, p: *const f32, n: usize) -> Self::F {
        // SAFETY: the caller vouches for the first n floats.
        map(|i| if i < n { unsafe { *p.add(i) } } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: Self::F) {
        // SAFETY: the caller vouches for LANES floats.
        unsafe { p.cast::<[f32; N]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn store_n(self, p: *mut f32, v: Self::F, n: usize) {
        for i in 0..n.min(N) {
            // SAFETY: the caller vouches for the first n floats.
            unsafe { *p.add(i) = v[i] }
        }
    }
    #[inline(always)]
    unsafe fn load_i32(self, p: *const i32) -> Self::F {
        // SAFETY: the caller vouches for LANES numbers.
        map(|i| unsafe { *p.add(i) } as f32)
    }
    #[inline(always)]
    unsafe fn load_u8(self, p: *const u8) -> Self::F {
        // SAFETY: the caller vouches for LANES bytes.
        map(|i| unsafe { *p.add(i) } as f32)
    }
    #[inline(always)]
    unsafe fn store_u8(self, p: *mut u8, v: Self::F) {
        for i in 0..N {
            // SAFETY: the caller vouches for LANES bytes.
            unsafe { *p.add(i) = v[i] as i32 as u8 };
        }
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        map(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        map(|i| a[i] - b[i])
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        map(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        map(|i| a[i] / b[i])
    }
    #[inline(always)]
    fn floor(self, a: Self::F) -> Self::F {
        map(|i| a[i].floor())
    }
    #[inline(always)]
    fn sqrt(self, a: Self::F) -> Self::F {
        map(|i| a[i].sqrt())
    }
    #[inline(always)]
    fn sum(self, a: Self::F) -> f32 {
        (a[0] + a[2]) + (a[1] + a[3])
    }
    #[inline(always)]
    fn largest(self, a: Self::F) -> f32 {
        a[0].max(a[1]).max(a[2].max(a[3]))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        map(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        map(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        map(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    fn fnma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        map(|i| c[i] - a[i] * b[i])
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        // Adding and taking away 1.5 * 2^23 rounds to an integer in the current mode; larger numbers are integers.
        const M: f32 = 12582912.0;
        map(|i| if a[i].abs() < 4194304.0 { (a[i] + M) - M } else { a[i] })
    }
    #[inline(always)]
    fn scale2(self, a: Self::F, n: Self::F) -> Self::F {
        map(|i| a[i] * f32::from_bits(((n[i] as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    fn recip(self, a: Self::F) -> Self::F {
        map(|i| 1.0 / a[i])
    }
    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        map(|i| a[i].abs())
    }
    #[inline(always)]
    fn where_lt(self, a: Self::F, b: Self::F, x: Self::F, y: Self::F) -> Self::F {
        map(|i| if a[i] < b[i] { x[i] } else { y[i] })
    }
}
