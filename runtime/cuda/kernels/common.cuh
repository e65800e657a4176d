// What all kernels share: instructions as functions, half conversion, activations, requantization.
#pragma once
#include "params.cuh"

#define KERNEL extern "C" __global__ void
#define DEV static __device__ __forceinline__

// ---- ordering against the kernel launched before (sm_90+, only when launched with the attribute) ----

DEV void wait_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

DEV void let_next_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#define INFINITY_F32 __int_as_float(0x7f800000)

// ---- half ----

DEV f32 h2f(u16 h) {
    f32 f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}

DEV u16 f2h(f32 f) {
    u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}

// lo in the low half.
DEV u32 f2h2(f32 lo, f32 hi) {
    u32 r;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
#else
    r = (u32)f2h(lo) | ((u32)f2h(hi) << 16);
#endif
    return r;
}

DEV f32 h2lo(u32 v) { return h2f((u16)(v & 0xffffu)); }
DEV f32 h2hi(u32 v) { return h2f((u16)(v >> 16)); }

// ---- f32 operations that must not be contracted or approximated ----

DEV f32 mul_rn(f32 a, f32 b) {
    f32 r;
    asm("mul.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
DEV f32 add_rn(f32 a, f32 b) {
    f32 r;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
DEV f32 div_rn(f32 a, f32 b) {
    f32 r;
    asm("div.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
DEV f32 i2f_rn(i32 a) {
    f32 r;
    asm("cvt.rn.f32.s32 %0, %1;" : "=f"(r) : "r"(a));
    return r;
}
DEV i32 f2i_rni(f32 a) {
    i32 r;
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(r) : "f"(a));
    return r;
}
DEV f32 ex2_approx(f32 a) {
    f32 r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}
DEV f32 rcp_approx(f32 a) {
    f32 r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}

// v / s rounded to nearest without a division for each v; y is 1/s rounded to nearest. The first correction by the exact
// remainder makes the quotient one of the two f32 around the true one, the second makes it the nearest (Markstein's theorem).
// v is limited first: beyond, the quotient of any s of `divides_fast` saturates every 8-bit type anyway. NaN gives the lower limit,
// as quantize() wants.
DEV f32 div_by(f32 v, f32 s, f32 y) {
    v = fminf(fmaxf(v, -1e24f), 1e24f);
    f32 q = mul_rn(v, y);
    q = fmaf(fmaf(-s, q, v), y, q);
    return fmaf(fmaf(-s, q, v), y, q);
}

// ---- activations ----

DEV f32 at_least(f32 x, f32 lo) { return x < lo ? lo : x; }  // x if it is NaN
DEV f32 unit(f32 x) { return x < 0.f ? 0.f : (x > 1.f ? 1.f : x); }

DEV f32 sigmoid_fast(f32 x) { return rcp_approx(1.f + ex2_approx(-1.4426950408889634f * x)); }
DEV f32 sigmoid_exact(f32 x) { return div_rn(1.f, add_rn(1.f, expf(-x))); }

// Errors near 1e-6: for results that are rounded to half.
DEV f32 act_fast(f32 x, i32 act, f32 a, f32 b) {
    switch (act) {
        case ACT_RELU: return at_least(x, 0.f);
        case ACT_LEAKY: return x >= 0.f ? x : a * x;
        case ACT_CLIP: { f32 y = at_least(x, a); return y > b ? b : y; }
        case ACT_SIGMOID: return sigmoid_fast(x);
        case ACT_SILU: return x * sigmoid_fast(x);
        case ACT_HARDSIGMOID: return unit(a * x + b);
        case ACT_HARDSWISH: return x * unit(x * (1.f / 6.f) + 0.5f);
        case ACT_TANH: return 1.f - 2.f * rcp_approx(1.f + ex2_approx(2.8853900817779268f * x));
        default: return x;
    }
}

// Each operation rounded on its own, as Activation::apply does it.
DEV f32 act_exact(f32 x, i32 act, f32 a, f32 b) {
    switch (act) {
        case ACT_RELU: return at_least(x, 0.f);
        case ACT_LEAKY: return x >= 0.f ? x : mul_rn(a, x);
        case ACT_CLIP: { f32 y = at_least(x, a); return y > b ? b : y; }
        case ACT_SIGMOID: return sigmoid_exact(x);
        case ACT_SILU: return mul_rn(x, sigmoid_exact(x));
        case ACT_HARDSIGMOID: return unit(add_rn(mul_rn(a, x), b));
        case ACT_HARDSWISH: return mul_rn(x, unit(add_rn(div_rn(x, 6.f), 0.5f)));
        case ACT_TANH: return tanhf(x);
        default: return x;
    }
}

// Activations of many numbers in registers: what is decided once, outside of the loops over them.
struct Act {
    i32 kind;
    f32 a, b;
    // ACT_SIGMOID, ACT_TANH: s = sigmoid(slope * x), y = gain * s + shift.
    f32 slope, gain, shift;

    DEV Act make(i32 kind, f32 a, f32 b) {
        const bool tanh = kind == ACT_TANH;
        return Act{kind, a, b, tanh ? 2.f : 1.f, tanh ? 2.f : 1.f, tanh ? -1.f : 0.f};
    }

    template <int N>
    __device__ __forceinline__ void run(f32 (&v)[N]) const {
        if (kind == ACT_NONE) return;
        if (kind == ACT_SILU) {
#pragma unroll
            for (int i = 0; i < N; i++) v[i] *= sigmoid_fast(v[i]);
        } else if (kind == ACT_RELU) {
#pragma unroll
            for (int i = 0; i < N; i++) v[i] = at_least(v[i], 0.f);
        } else if (kind == ACT_LEAKY) {
#pragma unroll
            for (int i = 0; i < N; i++) v[i] = v[i] >= 0.f ? v[i] : mul_rn(a, v[i]);
        } else if (kind == ACT_CLIP) {
#pragma unroll
            for (int i = 0; i < N; i++) {
                const f32 x = at_least(v[i], a);
                v[i] = x > b ? b : x;
            }
        } else if (kind == ACT_HARDSWISH || kind == ACT_HARDSIGMOID) {
            const bool swish = kind == ACT_HARDSWISH;
            const f32 sixth = div_rn(1.f, 6.f);
#pragma unroll
            for (int i = 0; i < N; i++) {
                const f32 s = unit(swish ? add_rn(div_by(v[i], 6.f, sixth), 0.5f) : add_rn(mul_rn(a, v[i]), b));
                v[i] = swish ? mul_rn(v[i], s) : s;
            }
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) v[i] = gain * sigmoid_fast(slope * v[i]) + shift;
        }
    }
};

// ---- requantization ----

DEV bool divides_fast(f32 s) { return s > 1e-12f && s < 1e12f; }

// quantize() of graph/ops/quantize.rs behind its division: half to even, plus zero, saturated; NaN gives the smallest number.
DEV i32 round_to(f32 v, i32 zero, i32 lo, i32 hi) {
    f32 limited = fminf(fmaxf(v, (f32)(lo - zero)), (f32)(hi - zero));
    return f2i_rni(limited) + zero;
}
DEV i32 quantize(f32 v, f32 s, i32 zero, i32 lo, i32 hi) { return round_to(div_rn(v, s), zero, lo, hi); }

// quantize() of many numbers with one scale, and the table behind it if there is one: bytes, without a division each.
//
// v times the rounded reciprocal is within 2^-23 of v / scale, relatively, and what is kept is at most 383: unless that product lies
// within 1e-4 of a half, both round to the same number. The rare others get the division. A power of two has an exact reciprocal.
struct Quantizer {
    f32 scale, inverse, low, high;
    i32 zero, lo, hi;
    bool sure, exact;

    DEV Quantizer make(const ConvParams& p) {
        Quantizer q;
        q.scale = p.q_scale;
        q.inverse = div_rn(1.f, q.scale);
        q.zero = p.q_zero;
        q.lo = p.out_dtype == DT_I8 ? -128 : 0;
        q.hi = q.lo + 255;
        q.low = (f32)(q.lo - q.zero);
        q.high = (f32)(q.hi - q.zero);
        q.sure = divides_fast(q.scale);
        q.exact = q.sure && (__float_as_uint(q.scale) & 0x7fffffu) == 0;
        return q;
    }

    template <int N>
    __device__ __forceinline__ void run(const f32 (&v)[N], u32 (&byte)[N], const unsigned char* table) const {
        // Adding 1.5 * 2^23 leaves the sum's last bit worth 1: the addition rounds, half to even.
        const f32 magic = 12582912.f;
        f32 worst = 0.f;
#pragma unroll
        for (int k = 0; k < N; k++) {
            const f32 q = fminf(fmaxf(mul_rn(v[k], inverse), low), high), t = add_rn(q, magic);
            worst = fmaxf(worst, fabsf(add_rn(q, -add_rn(t, -magic))));
            byte[k] = (__float_as_uint(t) - 0x4b400000u + (u32)zero) & 255u;
        }
        if (!exact && (worst > 0.4999f || !sure)) {
#pragma unroll
            for (int k = 0; k < N; k++) byte[k] = (u32)quantize(v[k], scale, zero, lo, hi) & 255u;
        }
        if (table) {
#pragma unroll
            for (int k = 0; k < N; k++) byte[k] = table[byte[k]];
        }
    }
};

// ---- shared memory, asynchronous copies, tensor cores ----

DEV u32 smem_addr(const void* p) {
    u64 a;
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(a) : "l"(p));
    return (u32)a;
}

#if __CUDA_ARCH__ >= 800
// `bytes` of 16 are read, the others are zero.
DEV void copy16_async(u32 dst, u64 src, u32 bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes));
}
// The same through the first-level cache: for what neighbouring blocks read too. Measured: it helps the patches of conv3 (most where
// a pixel's piece is 32 bytes) and costs the implicit GEMM's pixels and all weights 10 %.
DEV void copy16_cached(u32 dst, u64 src, u32 bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes));
}
DEV void copy8_async(u32 dst, u64 src, u32 bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(dst), "l"(src), "r"(bytes));
}
DEV void copy4_async(u32 dst, u64 src, u32 bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(dst), "l"(src), "r"(bytes));
}
DEV void commit_async() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
DEV void wait_async() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

DEV void ldmatrix4(u32 (&r)[4], u32 addr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(addr));
}
DEV void mma_f16(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEV void mma_s8(i32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

struct alignas(16) Vec4 { u32 v[4]; };

// Written by another block of this launch: past the first-level cache.
DEV Vec4 load_l2(u64 addr) {
    Vec4 r;
    asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(r.v[0]), "=r"(r.v[1]), "=r"(r.v[2]), "=r"(r.v[3]) : "l"(addr));
    return r;
}

template <class T>
DEV T load(u64 base, i64 index) { return ((const T*)base)[index]; }
template <class T>
DEV void store(u64 base, i64 index, T v) { ((T*)base)[index] = v; }

// ---- elements of any dtype ----

DEV bool is_int(i32 t) { return t >= DT_I8; }

DEV f32 load_f32(u64 base, i64 i, i32 t) {
    switch (t) {
        case DT_F32: return load<f32>(base, i);
        case DT_F16: return h2f(load<u16>(base, i));
        case DT_F64: return (f32)load<f64>(base, i);
        case DT_I8: return (f32)load<i8>(base, i);
        case DT_I32: return (f32)load<i32>(base, i);
        case DT_I64: return (f32)load<i64>(base, i);
        default: return (f32)load<u8>(base, i);
    }
}
DEV f64 load_f64(u64 base, i64 i, i32 t) {
    switch (t) {
        case DT_F64: return load<f64>(base, i);
        case DT_I32: return (f64)load<i32>(base, i);
        case DT_I64: return (f64)load<i64>(base, i);
        default: return (f64)load_f32(base, i, t);
    }
}
DEV i64 load_i64(u64 base, i64 i, i32 t) {
    switch (t) {
        case DT_I64: return load<i64>(base, i);
        case DT_I32: return load<i32>(base, i);
        case DT_I8: return load<i8>(base, i);
        default: return load<u8>(base, i);
    }
}
DEV void store_i64(u64 base, i64 i, i32 t, i64 v) {
    switch (t) {
        case DT_I64: store<i64>(base, i, v); break;
        case DT_I32: store<i32>(base, i, (i32)v); break;
        case DT_F32: store<f32>(base, i, (f32)v); break;
        case DT_F16: {
            // Past 65519 every integer rounds to infinity; below, f32 is exact.
            const i64 cut = v > 70000 ? 70000 : v < -70000 ? -70000 : v;
            store<u16>(base, i, f2h((f32)cut));
            break;
        }
        case DT_F64: store<f64>(base, i, (f64)v); break;
        case DT_BOOL: store<u8>(base, i, v != 0); break;
        default: store<u8>(base, i, (u8)v); break;
    }
}
// Floats to integers: toward zero, saturated, NaN is 0. To bool: whether it is not zero.
DEV void store_f64(u64 base, i64 i, i32 t, f64 v) {
    switch (t) {
        case DT_F32: store<f32>(base, i, (f32)v); break;
        case DT_F16: {
            u16 h;
            asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(v));
            store<u16>(base, i, h);
            break;
        }
        case DT_F64: store<f64>(base, i, v); break;
        case DT_BOOL: store<u8>(base, i, !(v == 0.0)); break;
        default: {
            const f64 lo = t == DT_I8 ? -128.0 : t == DT_U8 ? 0.0 : t == DT_I32 ? -2147483648.0 : -9223372036854775808.0;
            const f64 hi = t == DT_I8 ? 127.0 : t == DT_U8 ? 255.0 : t == DT_I32 ? 2147483647.0 : 9223372036854775807.0;
            i64 n;
            if (!(v == v)) n = 0;
            else if (v <= lo) n = (i64)lo;
            else if (v >= hi) n = t == DT_I64 ? 0x7fffffffffffffffll : (i64)hi;
            else n = (i64)v;
            store_i64(base, i, t, n);
        }
    }
}
DEV void store_f32(u64 base, i64 i, i32 t, f32 v) {
    if (t == DT_F32) store<f32>(base, i, v);
    else if (t == DT_F16) store<u16>(base, i, f2h(v));
    else store_f64(base, i, t, (f64)v);
}

// The offsets, by up to three sets of strides, of element `i` of a tensor of `dims`.
DEV void locate(const Dims& dims, u32 i, const Strides& a, i64& ia) {
    ia = 0;
#pragma unroll
    for (int d = 5; d >= 0; d--) {
        if (dims.n[d] == 1) continue;
        const u32 q = i / (u32)dims.n[d], r = i - q * (u32)dims.n[d];
        ia += (i64)r * a.s[d];
        i = q;
    }
}
DEV void locate(const Dims& dims, u32 i, const Strides& a, const Strides& b, i64& ia, i64& ib) {
    ia = ib = 0;
#pragma unroll
    for (int d = 5; d >= 0; d--) {
        if (dims.n[d] == 1) continue;
        const u32 q = i / (u32)dims.n[d], r = i - q * (u32)dims.n[d];
        ia += (i64)r * a.s[d];
        ib += (i64)r * b.s[d];
        i = q;
    }
}
