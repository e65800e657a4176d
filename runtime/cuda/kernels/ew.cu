// Elementwise functions with broadcasting, any dtype. Floats are computed in f32 and rounded once (f64 in f64), integers exactly
// in 64 bits, wrapping. A thread an element.
#include "common.cuh"

// sin(x + quarter * pi / 2) by Taylor's series around the nearest multiple of pi / 2, in f64: to the last digits for |x| below 1e8 or so. The
// compiler's own sin() keeps a table in local memory for larger ones.
DEV f64 sine(f64 x, i32 quarter) {
    const f64 k = rint(x * 0.63661977236758134);
    const f64 r = fma(-k, 6.123233995736766e-17, fma(-k, 1.5707963267948966, x)), s = r * r;
    const i32 turn = ((i32)((i64)k & 3) + quarter) & 3;
    f64 sum = 0.0;
    if (turn & 1) {
        // 1 - s/2! + s^2/4! - ...
#pragma unroll
        for (int n = 16; n >= 2; n -= 2) sum = 1.0 - s / (f64)(n * (n - 1)) * (n == 16 ? 1.0 : sum);
    } else {
#pragma unroll
        for (int n = 17; n >= 3; n -= 2) sum = 1.0 - s / (f64)(n * (n - 1)) * (n == 17 ? 1.0 : sum);
        sum *= r;
    }
    return turn & 2 ? -sum : sum;
}

DEV f32 softplus(f32 x) { return fmaxf(x, 0.f) + log1pf(expf(-fabsf(x))); }

DEV f32 unary_f32(i32 op, f32 x, f32 p0, f32 p1) {
    switch (op) {
        case EW_RELU: return at_least(x, 0.f);
        case EW_SIGMOID: return sigmoid_exact(x);
        case EW_SILU: return mul_rn(x, sigmoid_exact(x));
        case EW_TANH: return tanhf(x);
        case EW_EXP: return expf(x);
        case EW_LOG: return logf(x);
        case EW_SQRT: return sqrtf(x);
        case EW_ERF: return erff(x);
        case EW_FLOOR: return floorf(x);
        case EW_CEIL: return ceilf(x);
        case EW_ROUND: return rintf(x);
        case EW_COS: return (f32)sine((f64)x, 1);
        case EW_SIN: return (f32)sine((f64)x, 0);
        case EW_NEG: return -x;
        case EW_ABS: return fabsf(x);
        case EW_RECIPROCAL: return div_rn(1.f, x);
        case EW_SIGN: return x > 0.f ? 1.f : x < 0.f ? -1.f : x;
        case EW_SOFTPLUS: return softplus(x);
        case EW_LEAKY: return x >= 0.f ? x : mul_rn(p0, x);
        case EW_HARDSIGMOID: return unit(add_rn(mul_rn(p0, x), p1));
        case EW_HARDSWISH: return mul_rn(x, unit(add_rn(div_rn(x, 6.f), 0.5f)));
        case EW_ELU: return x >= 0.f ? x : p0 * expm1f(x);
        case EW_MISH: return x * tanhf(softplus(x));
        case EW_GELU: return 0.5f * x * (1.f + erff(x * 0.70710678118654752f));
        case EW_GELU_TANH: return 0.5f * x * (1.f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
        case EW_CLIP: { const f32 y = at_least(x, p0); return y > p1 ? p1 : y; }
        default: return x;
    }
}

DEV f64 unary_f64(i32 op, f64 x, f64 p0, f64 p1) {
    const f64 plus = op == EW_SOFTPLUS || op == EW_MISH ? fmax(x, 0.0) + log1p(exp(-fabs(x))) : 0.0;
    switch (op) {
        case EW_RELU: return x < 0.0 ? 0.0 : x;
        case EW_SIGMOID: return 1.0 / (1.0 + exp(-x));
        case EW_SILU: return x * (1.0 / (1.0 + exp(-x)));
        case EW_TANH: return tanh(x);
        case EW_EXP: return exp(x);
        case EW_LOG: return log(x);
        case EW_SQRT: return sqrt(x);
        case EW_ERF: return erf(x);
        case EW_FLOOR: return floor(x);
        case EW_CEIL: return ceil(x);
        case EW_ROUND: return rint(x);
        case EW_COS: return sine(x, 1);
        case EW_SIN: return sine(x, 0);
        case EW_NEG: return -x;
        case EW_ABS: return fabs(x);
        case EW_RECIPROCAL: return 1.0 / x;
        case EW_SIGN: return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x;
        case EW_SOFTPLUS: return plus;
        case EW_LEAKY: return x >= 0.0 ? x : p0 * x;
        case EW_HARDSIGMOID: return fmin(fmax(p0 * x + p1, 0.0), 1.0);
        case EW_HARDSWISH: return x * fmin(fmax(x / 6.0 + 0.5, 0.0), 1.0);
        case EW_ELU: return x >= 0.0 ? x : p0 * expm1(x);
        case EW_MISH: return x * tanh(plus);
        case EW_GELU: return 0.5 * x * (1.0 + erf(x * 0.70710678118654752));
        case EW_GELU_TANH: return 0.5 * x * (1.0 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
        case EW_CLIP: { const f64 y = x < p0 ? p0 : x; return y > p1 ? p1 : y; }
        default: return x;
    }
}

DEV i64 unary_i64(i32 op, i64 x, f32 p0, f32 p1) {
    switch (op) {
        case EW_RELU: return x < 0 ? 0 : x;
        case EW_NEG: return -x;
        case EW_ABS: return x < 0 ? -x : x;
        case EW_SIGN: return (x > 0) - (x < 0);
        case EW_NOT: return x == 0;
        case EW_CLIP: { const i64 y = (f64)x < (f64)p0 ? (i64)p0 : x; return (f64)y > (f64)p1 ? (i64)p1 : y; }
        default: return x;
    }
}

template <class F>
DEV F binary_float(i32 op, F a, F b);
template <>
__device__ __forceinline__ f32 binary_float<f32>(i32 op, f32 a, f32 b) {
    switch (op) {
        case EW_ADD: return add_rn(a, b);
        case EW_SUB: return add_rn(a, -b);
        case EW_MUL: return mul_rn(a, b);
        case EW_DIV: return div_rn(a, b);
        case EW_POW: return b == 2.f ? mul_rn(a, a) : powf(a, b);
        case EW_MOD: { f32 r = fmodf(a, b); return r != 0.f && (r < 0.f) != (b < 0.f) ? r + b : r; }
        case EW_FMOD: return fmodf(a, b);
        case EW_PRELU: return a < 0.f ? mul_rn(a, b) : a;
        case EW_MIN: return a != a || b != b ? a + b : fminf(a, b);
        case EW_MAX: return a != a || b != b ? a + b : fmaxf(a, b);
        default: return a;
    }
}
template <>
__device__ __forceinline__ f64 binary_float<f64>(i32 op, f64 a, f64 b) {
    switch (op) {
        case EW_ADD: return a + b;
        case EW_SUB: return a - b;
        case EW_MUL: return a * b;
        case EW_DIV: return a / b;
        case EW_POW: return b == 2.0 ? a * a : pow(a, b);
        case EW_MOD: { f64 r = fmod(a, b); return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r; }
        case EW_FMOD: return fmod(a, b);
        case EW_PRELU: return a < 0.0 ? a * b : a;
        case EW_MIN: return a != a || b != b ? a + b : fmin(a, b);
        case EW_MAX: return a != a || b != b ? a + b : fmax(a, b);
        default: return a;
    }
}

DEV i64 power(i64 base, i64 exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    u64 result = 1, square = (u64)base;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result *= square;
        square *= square;
    }
    return (i64)result;
}

DEV i64 binary_i64(i32 op, i64 a, i64 b) {
    switch (op) {
        case EW_ADD: return a + b;
        case EW_SUB: return a - b;
        case EW_MUL: return a * b;
        case EW_DIV: return b == 0 ? 0 : b == -1 ? -a : a / b;
        case EW_POW: return power(a, b);
        case EW_MOD: {
            if (b == 0 || b == -1) return 0;
            const i64 r = a % b;
            return r != 0 && (r < 0) != (b < 0) ? r + b : r;
        }
        case EW_FMOD: return b == 0 || b == -1 ? 0 : a % b;
        case EW_PRELU: return a < 0 ? a * b : a;
        case EW_MIN: return a < b ? a : b;
        case EW_MAX: return a > b ? a : b;
        default: return a;
    }
}

template <class N>
DEV bool compare(i32 op, N a, N b) {
    switch (op) {
        case EW_EQUAL: return a == b;
        case EW_LESS: return a < b;
        case EW_LESS_EQUAL: return a <= b;
        case EW_GREATER: return a > b;
        default: return a >= b;
    }
}

KERNEL __launch_bounds__(256) ew(const __grid_constant__ EwParams p) {
    let_next_start();
    wait_previous();
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (u32)p.count) return;
    i64 ia = 0, ib = 0, ic = 0, iy = 0;
    u32 rest = i;
#pragma unroll
    for (int d = 5; d >= 0; d--) {
        if (p.dims.n[d] == 1) continue;
        const u32 q = rest / (u32)p.dims.n[d], r = rest - q * (u32)p.dims.n[d];
        ia += (i64)r * p.sa.s[d];
        ib += (i64)r * p.sb.s[d];
        ic += (i64)r * p.sc.s[d];
        iy += (i64)r * p.sy.s[d];
        rest = q;
    }
    const i32 op = p.op;
    if (op == EW_WHERE) {
        const bool yes = load<u8>(p.a, ia) != 0;
        if (is_int(p.ty)) store_i64(p.y, iy, p.ty, yes ? load_i64(p.b, ib, p.tb) : load_i64(p.c, ic, p.tc));
        else store_f64(p.y, iy, p.ty, yes ? load_f64(p.b, ib, p.tb) : load_f64(p.c, ic, p.tc));
        return;
    }
    if (op == EW_LOOKUP) {
        store<u8>(p.y, iy, load<u8>(p.c, load<u8>(p.a, ia)));
        return;
    }
    if (op == EW_QUANTIZE) {
        const i32 lo = p.ty == DT_I8 ? -128 : 0;
        const i32 zero = p.c ? (i32)load_i64(p.c, ic, p.tc) : 0;
        store<u8>(p.y, iy, (u8)quantize(load_f32(p.a, ia, p.ta), load_f32(p.b, ib, p.tb), zero, lo, lo + 255));
        return;
    }
    if (op == EW_DEQUANTIZE) {
        const i32 zero = p.c ? (i32)load_i64(p.c, ic, p.tc) : 0;
        const i32 v = (i32)((u32)load_i64(p.a, ia, p.ta) - (u32)zero);
        store_f32(p.y, iy, p.ty, mul_rn(i2f_rn(v), load_f32(p.b, ib, p.tb)));
        return;
    }
    if (op == EW_AFFINE) {
        store_f32(p.y, iy, p.ty, add_rn(mul_rn(load_f32(p.a, ia, p.ta), load_f32(p.b, ib, p.tb)), load_f32(p.c, ic, p.tc)));
        return;
    }
    if (op >= EW_AND && op <= EW_XOR) {
        const bool a = load<u8>(p.a, ia) != 0, b = load<u8>(p.b, ib) != 0;
        store<u8>(p.y, iy, op == EW_AND ? a && b : op == EW_OR ? a || b : a != b);
        return;
    }
    if (op >= EW_EQUAL && op <= EW_GREATER_EQUAL) {
        const bool r = is_int(p.ta) ? compare(op, load_i64(p.a, ia, p.ta), load_i64(p.b, ib, p.tb))
                                    : compare(op, load_f64(p.a, ia, p.ta), load_f64(p.b, ib, p.tb));
        store<u8>(p.y, iy, r);
        return;
    }
    if (op == EW_ISNAN || op == EW_ISINF) {
        const f64 v = load_f64(p.a, ia, p.ta);
        const bool inf = v - v != v - v && v == v;
        store<u8>(p.y, iy, op == EW_ISNAN ? v != v : inf && (v < 0.0 ? p.p0 != 0.f : p.p1 != 0.f));
        return;
    }
    const bool mixed = op == EW_POW && (!is_int(p.ta) || !is_int(p.tb)) && (p.ta != p.tb || p.ta == DT_F64);
    if (is_int(p.ta) && !mixed) {
        const i64 a = load_i64(p.a, ia, p.ta);
        i64 r;
        if (op < EW_ADD) r = unary_i64(op, a, p.p0, p.p1);
        else if (op < EW_WHERE) r = binary_i64(op, a, load_i64(p.b, ib, p.tb));
        else {
            const i64 lo = p.b ? load_i64(p.b, ib, p.tb) : a, hi = p.c ? load_i64(p.c, ic, p.tc) : 0x7fffffffffffffffll;
            r = a < lo ? lo : a;
            r = r > hi ? hi : r;
        }
        store_i64(p.y, iy, p.ty, r);
    } else if (p.ta == DT_F64 || mixed) {
        const f64 a = load_f64(p.a, ia, p.ta);
        f64 r;
        if (op < EW_ADD) r = unary_f64(op, a, p.p0, p.p1);
        else if (op < EW_WHERE) r = binary_float<f64>(op, a, load_f64(p.b, ib, p.tb));
        else {
            r = a;
            if (p.b) { const f64 lo = load_f64(p.b, ib, p.tb); r = r < lo ? lo : r; }
            if (p.c) { const f64 hi = load_f64(p.c, ic, p.tc); r = r > hi ? hi : r; }
        }
        store_f64(p.y, iy, p.ty, r);
    } else {
        const f32 a = load_f32(p.a, ia, p.ta);
        f32 r;
        if (op < EW_ADD) r = unary_f32(op, a, p.p0, p.p1);
        else if (op < EW_WHERE) r = binary_float<f32>(op, a, load_f32(p.b, ib, p.tb));
        else {
            r = a;
            if (p.b) r = at_least(r, load_f32(p.b, ib, p.tb));
            if (p.c) { const f32 hi = load_f32(p.c, ic, p.tc); r = r > hi ? hi : r; }
        }
        store_f32(p.y, iy, p.ty, r);
    }
}

// Halves (or floats) in the same dense order everywhere, 16 bytes a thread, `count` a multiple of 8 (4): the adds and products
// that no convolution took in. Only EW_ADD, EW_SUB, EW_MUL, EW_RELU, EW_SILU, EW_SIGMOID, EW_MAX.
template <bool HALF>
DEV void ew_dense(const EwParams& p) {
    let_next_start();
    wait_previous();
    constexpr int N = HALF ? 8 : 4;
    const u32 i = (blockIdx.x * blockDim.x + threadIdx.x) * N;
    if (i >= (u32)p.count) return;
    const u64 at = (u64)i * (HALF ? 2 : 4);
    const Vec4 a = *(const Vec4*)(p.a + at);
    Vec4 b = a;
    if (p.op >= EW_ADD) b = *(const Vec4*)(p.b + at);
    Vec4 y;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        f32 x[2], z[2], r[2];
        x[0] = HALF ? h2lo(a.v[k]) : __uint_as_float(a.v[k]);
        x[1] = HALF ? h2hi(a.v[k]) : 0.f;
        z[0] = HALF ? h2lo(b.v[k]) : __uint_as_float(b.v[k]);
        z[1] = HALF ? h2hi(b.v[k]) : 0.f;
#pragma unroll
        for (int e = 0; e < (HALF ? 2 : 1); e++) {
            switch (p.op) {
                case EW_ADD: r[e] = add_rn(x[e], z[e]); break;
                case EW_SUB: r[e] = add_rn(x[e], -z[e]); break;
                case EW_MUL: r[e] = mul_rn(x[e], z[e]); break;
                case EW_MAX: r[e] = fmaxf(x[e], z[e]); break;
                case EW_RELU: r[e] = at_least(x[e], 0.f); break;
                case EW_SILU: r[e] = HALF ? x[e] * sigmoid_fast(x[e]) : mul_rn(x[e], sigmoid_exact(x[e])); break;
                default: r[e] = HALF ? sigmoid_fast(x[e]) : sigmoid_exact(x[e]); break;
            }
        }
        y.v[k] = HALF ? f2h2(r[0], r[1]) : __float_as_uint(r[0]);
    }
    *(Vec4*)(p.y + at) = y;
}
KERNEL __launch_bounds__(256) ew_dense_f16(const __grid_constant__ EwParams p) { ew_dense<true>(p); }
KERNEL __launch_bounds__(256) ew_dense_f32(const __grid_constant__ EwParams p) { ew_dense<false>(p); }

// Rows of neighbouring elements, eight a thread: dims 4 and 5 are rows and their length (a multiple of 8), strides of dim 4 lead from
// row to row, everything aligned to 16 bytes. Operands and result are f16 or f32, each for itself: the casts, sums and
// sigmoids that lie between a convolution and a slice of a model's output.
KERNEL __launch_bounds__(256) ew_rows(const __grid_constant__ EwParams p) {
    let_next_start();
    wait_previous();
    const u32 pieces = (u32)p.dims.n[5] / 8, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (u32)p.dims.n[4] * pieces) return;
    const u32 row = i / pieces;
    const i64 at = (i64)(i - row * pieces) * 8;
    auto get = [&](u64 base, i64 e, i32 t, f32 (&v)[8]) {
        if (t == DT_F16) {
            const Vec4 q = *(const Vec4*)(base + e * 2);
#pragma unroll
            for (int k = 0; k < 4; k++) v[2 * k] = h2lo(q.v[k]), v[2 * k + 1] = h2hi(q.v[k]);
        } else {
            const Vec4 q = *(const Vec4*)(base + e * 4), r = *(const Vec4*)(base + e * 4 + 16);
#pragma unroll
            for (int k = 0; k < 4; k++) v[k] = __uint_as_float(q.v[k]), v[k + 4] = __uint_as_float(r.v[k]);
        }
    };
    f32 x[8], z[8];
    get(p.a, (i64)row * p.sa.s[4] + at, p.ta, x);
    if (p.op >= EW_ADD) get(p.b, (i64)row * p.sb.s[4] + at, p.tb, z);
    const bool exact = p.ty == DT_F32;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        switch (p.op) {
            case EW_ADD: x[k] = add_rn(x[k], z[k]); break;
            case EW_SUB: x[k] = add_rn(x[k], -z[k]); break;
            case EW_MUL: x[k] = mul_rn(x[k], z[k]); break;
            case EW_RELU: x[k] = at_least(x[k], 0.f); break;
            case EW_SIGMOID: x[k] = exact ? sigmoid_exact(x[k]) : sigmoid_fast(x[k]); break;
            case EW_SILU: x[k] = exact ? mul_rn(x[k], sigmoid_exact(x[k])) : x[k] * sigmoid_fast(x[k]); break;
            default: break;
        }
    }
    const i64 to = (i64)row * p.sy.s[4] + at;
    if (p.ty == DT_F16) {
        *(Vec4*)(p.y + to * 2) = Vec4{{f2h2(x[0], x[1]), f2h2(x[2], x[3]), f2h2(x[4], x[5]), f2h2(x[6], x[7])}};
    } else {
        *(Vec4*)(p.y + to * 4) = Vec4{{__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3])}};
        *(Vec4*)(p.y + to * 4 + 16) = Vec4{{__float_as_uint(x[4]), __float_as_uint(x[5]), __float_as_uint(x[6]), __float_as_uint(x[7])}};
    }
}
