// Pooling, NHWC: one window, and the chain of three max pools of YOLO's SPPF in one pass.
#include "common.cuh"

// Elements of 4 bytes at a time: the operations of one 32-bit word.
struct MaxF16 {
    static constexpr int N = 2;
    static constexpr u32 LOWEST = 0xfc00fc00u;
    DEV u32 best(u32 a, u32 b) {
#if __CUDA_ARCH__ >= 800
        u32 r;
        asm("max.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
        return r;
#else
        return f2h2(fmaxf(h2lo(a), h2lo(b)), fmaxf(h2hi(a), h2hi(b)));
#endif
    }
};
struct MaxF32 {
    static constexpr int N = 1;
    static constexpr u32 LOWEST = 0xff800000u;
    DEV u32 best(u32 a, u32 b) { return __float_as_uint(fmaxf(__uint_as_float(a), __uint_as_float(b))); }
};
struct MaxI8 {
    static constexpr int N = 4;
    static constexpr u32 LOWEST = 0x80808080u;
    DEV u32 best(u32 a, u32 b) {
        u32 r;
        asm("vmax4.s32.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(0));
        return r;
    }
};
struct MaxU8 {
    static constexpr int N = 4;
    static constexpr u32 LOWEST = 0;
    DEV u32 best(u32 a, u32 b) {
        u32 r;
        asm("vmax4.u32.u32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(0));
        return r;
    }
};

// y1 = pool(x), y2 = pool(y1), y3 = pool(y2), each K x K, stride 1, padded by K / 2. A block keeps one picture's plane of 2 words
// (8 bytes of channels) in shared memory and filters it along rows, then along columns, three times over.
template <class T, int K>
DEV void sppf(const SppfParams& p) {
    extern __shared__ __align__(16) unsigned char shared[];
    struct alignas(8) Pair { u32 a, b; };
    constexpr int BYTES = 4 / T::N;
    const i32 pixels = p.h * p.w;
    Pair* plane = (Pair*)shared;
    Pair* rows = plane + pixels;
    const i32 groups = p.c / (2 * T::N);
    const i32 image = blockIdx.x / groups, channel = (blockIdx.x - image * groups) * 2 * T::N;
    const u64 from = p.x + ((i64)image * p.x_img + channel) * BYTES;
    let_next_start();
    wait_previous();
    for (i32 i = threadIdx.x; i < pixels; i += blockDim.x) plane[i] = *(const Pair*)(from + (i64)i * p.x_pix * BYTES);
    __syncthreads();
    for (i32 pass = 0; pass < 3; pass++) {
        for (i32 i = threadIdx.x; i < pixels; i += blockDim.x) {
            const i32 x = i % p.w;
            Pair m = plane[i];
#pragma unroll
            for (int d = 1; d <= K / 2; d++) {
                if (x >= d) m = Pair{T::best(m.a, plane[i - d].a), T::best(m.b, plane[i - d].b)};
                if (x + d < p.w) m = Pair{T::best(m.a, plane[i + d].a), T::best(m.b, plane[i + d].b)};
            }
            rows[i] = m;
        }
        __syncthreads();
        const u64 to = (pass == 0 ? p.y1 : pass == 1 ? p.y2 : p.y3) + ((i64)image * p.y_img + channel) * BYTES;
        for (i32 i = threadIdx.x; i < pixels; i += blockDim.x) {
            const i32 y = i / p.w;
            Pair m = rows[i];
#pragma unroll
            for (int d = 1; d <= K / 2; d++) {
                if (y >= d) m = Pair{T::best(m.a, rows[i - d * p.w].a), T::best(m.b, rows[i - d * p.w].b)};
                if (y + d < p.h) m = Pair{T::best(m.a, rows[i + d * p.w].a), T::best(m.b, rows[i + d * p.w].b)};
            }
            // NaN lost against every number above, and where all are NaN the answer is the smallest.
            m = Pair{T::best(m.a, T::LOWEST), T::best(m.b, T::LOWEST)};
            plane[i] = m;
            *(Pair*)(to + (i64)i * p.y_pix * BYTES) = m;
        }
        __syncthreads();
    }
}

#define SPPF(NAME, T, K) \
    KERNEL __launch_bounds__(256) NAME(const __grid_constant__ SppfParams p) { sppf<T, K>(p); }
SPPF(sppf_f16_k5, MaxF16, 5)
SPPF(sppf_f32_k5, MaxF32, 5)
SPPF(sppf_i8_k5, MaxI8, 5)
SPPF(sppf_u8_k5, MaxU8, 5)

// One window. A thread makes W words (of channels) of one output pixel.
template <class T, int W>
DEV void max_pool(const PoolParams& p) {
    constexpr int BYTES = 4 / T::N;
    wait_previous();
    const i32 groups = p.c / (W * T::N);
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (i64)p.batch * p.oh * p.ow * groups) return;
    const i32 group = i % groups, pixel = i / groups;
    const i32 image = pixel / (p.oh * p.ow), at = pixel - image * p.oh * p.ow, oy = at / p.ow, ox = at - oy * p.ow;
    struct alignas(W * 4) Words { u32 v[W]; };
    Words m;
#pragma unroll
    for (int k = 0; k < W; k++) m.v[k] = T::LOWEST;
    const u64 from = p.x + ((i64)image * p.x_img + group * (W * T::N)) * BYTES;
    for (i32 ky = 0; ky < p.kh; ky++) {
        const i32 iy = oy * p.sy + ky * p.dy - p.py;
        if ((u32)iy >= (u32)p.h) continue;
        for (i32 kx = 0; kx < p.kw; kx++) {
            const i32 ix = ox * p.sx + kx * p.dx - p.px;
            if ((u32)ix >= (u32)p.w) continue;
            const Words v = *(const Words*)(from + ((i64)iy * p.x_row + (i64)ix * p.x_pix) * BYTES);
#pragma unroll
            for (int k = 0; k < W; k++) m.v[k] = T::best(m.v[k], v.v[k]);
        }
    }
    *(Words*)(p.y + ((i64)image * p.y_img + (i64)at * p.y_pix + group * (W * T::N)) * BYTES) = m;
}

#define MAX_POOL(NAME, T, W) \
    KERNEL __launch_bounds__(256) NAME(const __grid_constant__ PoolParams p) { max_pool<T, W>(p); }
MAX_POOL(max_pool_f16, MaxF16, 4)
MAX_POOL(max_pool_f32, MaxF32, 4)
MAX_POOL(max_pool_i8, MaxI8, 4)
MAX_POOL(max_pool_u8, MaxU8, 4)

// Any channel count and stride, a thread an element; sums in f32.
template <class T>
__device__ __forceinline__ f32 element(u64 base, i64 i);
template <> __device__ __forceinline__ f32 element<f32>(u64 base, i64 i) { return load<f32>(base, i); }
template <> __device__ __forceinline__ f32 element<u16>(u64 base, i64 i) { return h2f(load<u16>(base, i)); }
template <> __device__ __forceinline__ f32 element<i8>(u64 base, i64 i) { return (f32)load<i8>(base, i); }
template <> __device__ __forceinline__ f32 element<u8>(u64 base, i64 i) { return (f32)load<u8>(base, i); }
template <class T>
__device__ __forceinline__ T rounded(f32 v) { return (T)v; }
template <> __device__ __forceinline__ u16 rounded<u16>(f32 v) { return f2h(v); }

template <class T>
DEV void pool_any(const PoolParams& p, f32 lowest) {
    wait_previous();
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (i64)p.batch * p.oh * p.ow * p.c) return;
    const i32 c = i % p.c, pixel = i / p.c;
    const i32 image = pixel / (p.oh * p.ow), at = pixel - image * p.oh * p.ow, oy = at / p.ow, ox = at - oy * p.ow;
    f32 best = lowest, sum = 0.f;
    i32 inside_y = 0, inside_x = 0, padded_y = 0, padded_x = 0;
    for (i32 ky = 0; ky < p.kh; ky++) {
        const i32 y = oy * p.sy + ky * p.dy;
        padded_y += y < p.pad_h;
        inside_y += (u32)(y - p.py) < (u32)p.h;
    }
    for (i32 kx = 0; kx < p.kw; kx++) {
        const i32 x = ox * p.sx + kx * p.dx;
        padded_x += x < p.pad_w;
        inside_x += (u32)(x - p.px) < (u32)p.w;
    }
    for (i32 ky = 0; ky < p.kh; ky++) {
        const i32 iy = oy * p.sy + ky * p.dy - p.py;
        if ((u32)iy >= (u32)p.h) continue;
        for (i32 kx = 0; kx < p.kw; kx++) {
            const i32 ix = ox * p.sx + kx * p.dx - p.px;
            if ((u32)ix >= (u32)p.w) continue;
            const f32 v = element<T>(p.x, (i64)image * p.x_img + (i64)iy * p.x_row + (i64)ix * p.x_pix + (i64)c * p.x_ch);
            if (v > best) best = v;
            sum += v;
        }
    }
    if (p.mode == 1) best = div_rn(sum, (f32)(inside_y * inside_x));
    if (p.mode == 2) best = div_rn(sum, (f32)(padded_y * padded_x));
    store<T>(p.y, (i64)image * p.y_img + (i64)at * p.y_pix + (i64)c * p.y_ch, rounded<T>(best));
}
KERNEL pool_any_f32(const __grid_constant__ PoolParams p) { pool_any<f32>(p, -INFINITY_F32); }
KERNEL pool_any_f16(const __grid_constant__ PoolParams p) { pool_any<u16>(p, -INFINITY_F32); }
KERNEL pool_any_i8(const __grid_constant__ PoolParams p) { pool_any<i8>(p, -128.f); }
KERNEL pool_any_u8(const __grid_constant__ PoolParams p) { pool_any<u8>(p, 0.f); }
