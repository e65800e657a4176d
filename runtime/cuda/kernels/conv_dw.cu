// Depthwise convolution, NHWC: a thread makes 8 channels (f32: 4) of one output pixel.
#include "common.cuh"

// Where this thread's output is; false if there is none.
template <int V>
DEV bool where(const ConvParams& p, i32& image, i32& oy, i32& ox, i32& c) {
    const i32 groups = (p.cout + V - 1) / V;
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (i64)p.batch * p.oh * p.ow * groups) return false;
    const i32 pixel = i / groups;
    c = (i32)(i - (i64)pixel * groups) * V;
    image = pixel / (p.oh * p.ow);
    const i32 at = pixel - image * p.oh * p.ow;
    oy = at / p.ow;
    ox = at - oy * p.ow;
    return true;
}

template <bool HALF, int V>
DEV void depthwise(const ConvParams& p) {
    constexpr int BYTES = HALF ? 2 : 4;
    let_next_start();
    i32 image, oy, ox, c;
    const bool live = where<V>(p, image, oy, ox, c);
    wait_previous();
    if (!live) return;
    f32 v[V];
#pragma unroll
    for (int k = 0; k < V; k++) v[k] = 0.f;
    const i32 padded = (p.cout + 7) / 8 * 8;
    const u64 from = p.x + ((i64)image * p.x_img + c) * BYTES;
    const u64 weights = p.w + (u64)c * BYTES;
    for (i32 ky = 0; ky < p.kh; ky++) {
        const i32 iy = oy * p.sy - p.py + ky * p.dy;
        if ((u32)iy >= (u32)p.h) continue;
        for (i32 kx = 0; kx < p.kw; kx++) {
            const i32 ix = ox * p.sx - p.px + kx * p.dx;
            if ((u32)ix >= (u32)p.wd) continue;
            const Vec4 x = *(const Vec4*)(from + (i64)(iy * p.x_row + ix * p.x_pix) * BYTES);
            const Vec4 w = *(const Vec4*)(weights + (u64)((ky * p.kw + kx) * padded) * BYTES);
            if (HALF) {
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    v[(2 * k) % V] = fmaf(h2lo(x.v[k]), h2lo(w.v[k]), v[(2 * k) % V]);
                    v[(2 * k + 1) % V] = fmaf(h2hi(x.v[k]), h2hi(w.v[k]), v[(2 * k + 1) % V]);
                }
            } else {
#pragma unroll
                for (int k = 0; k < 4; k++) v[k] = fmaf(__uint_as_float(x.v[k]), __uint_as_float(w.v[k]), v[k]);
            }
        }
    }
    const i64 pixel = oy * p.ow + ox;
    const i32 count = p.cout - c < V ? p.cout - c : V;
    const i64 res = (i64)image * p.r_img + pixel * p.r_pix + c, to = (i64)image * p.y_img + pixel * p.y_pix + c;
#pragma unroll
    for (int k = 0; k < V; k++) {
        if (k >= count) break;
        if (p.bias) v[k] += load<f32>(p.bias, c + k);
        if (p.res_mode == RES_BEFORE) v[k] += load_f32(p.res, res + k, p.out_dtype);
    }
    if (HALF) {
        Act::make(p.act, p.act_a, p.act_b).run(v);
    } else {
#pragma unroll 1
        for (int k = 0; k < V; k++) {
            const f32 done = act_exact(v[0], p.act, p.act_a, p.act_b);
#pragma unroll
            for (int e = 1; e < V; e++) v[e - 1] = v[e];
            v[V - 1] = done;
        }
    }
#pragma unroll
    for (int k = 0; k < V; k++) {
        if (k >= count) break;
        if (p.res_mode == RES_AFTER) v[k] += load_f32(p.res, res + k, p.out_dtype);
    }
    const i32 size = p.out_dtype == DT_F16 ? 2 : 4;
    if (count == V && V == 8 && size == 2 && ((p.y | (u64)p.y_pix * 2 | (u64)p.y_img * 2) & 15) == 0) {
        *(Vec4*)(p.y + to * 2) = Vec4{{f2h2(v[0], v[1]), f2h2(v[2 % V], v[3 % V]), f2h2(v[4 % V], v[5 % V]), f2h2(v[6 % V], v[7 % V])}};
    } else {
#pragma unroll
        for (int k = 0; k < V; k++) {
            if (k >= count) break;
            if (size == 2) store<u16>(p.y, to + k, f2h(v[k]));
            else store<f32>(p.y, to + k, v[k]);
        }
    }
}
KERNEL __launch_bounds__(256) conv_dw_f16(const __grid_constant__ ConvParams p) { depthwise<true, 8>(p); }
KERNEL __launch_bounds__(256, 2) conv_dw_f32(const __grid_constant__ ConvParams p) { depthwise<false, 4>(p); }

// Steps 2 to 5 of QuantConv for channel o, and the store.
DEV void requantize(const ConvParams& p, i32 acc, i32 o, i64 to) {
    if (p.out_dtype == DT_I32) {
        store<i32>(p.y, to, acc);
        return;
    }
    f32 r = mul_rn(i2f_rn(acc), load<f32>(p.mul, o));
    if (p.fbias) r = add_rn(r, load<f32>(p.fbias, o));
    r = act_exact(r, p.act, p.act_a, p.act_b);
    if (p.out_dtype == DT_F32) store<f32>(p.y, to, r);
    else if (p.out_dtype == DT_F16) store<u16>(p.y, to, f2h(r));
    else {
        const i32 lo = p.out_dtype == DT_I8 ? -128 : 0;
        u32 byte = (u32)quantize(r, p.q_scale, p.q_zero, lo, lo + 255) & 255u;
        if (p.table) byte = load<u8>(p.table, byte);
        store<u8>(p.y, to, (u8)byte);
    }
}

KERNEL __launch_bounds__(256) conv_dw_i8(const __grid_constant__ ConvParams p) {
    let_next_start();
    i32 image, oy, ox, c;
    const bool live = where<8>(p, image, oy, ox, c);
    wait_previous();
    if (!live) return;
    i32 acc[8];
#pragma unroll
    for (int k = 0; k < 8; k++) acc[k] = 0;
    const i32 padded = (p.cout + 7) / 8 * 8;
    const u64 from = p.x + (i64)image * p.x_img + c;
    const bool byte_x = p.x_xor != 0;
    for (i32 ky = 0; ky < p.kh; ky++) {
        const i32 iy = oy * p.sy - p.py + ky * p.dy;
        if ((u32)iy >= (u32)p.h) continue;
        for (i32 kx = 0; kx < p.kw; kx++) {
            const i32 ix = ox * p.sx - p.px + kx * p.dx;
            if ((u32)ix >= (u32)p.wd) continue;
            const u64 x = *(const u64*)(from + (i64)(iy * p.x_row + ix * p.x_pix));
            const u64 w = *(const u64*)(p.w + (i64)(ky * p.kw + kx) * padded + c);
#pragma unroll
            for (int k = 0; k < 8; k++) {
                const i32 xb = byte_x ? (i32)(x >> (8 * k) & 255) : (i32)(i8)(x >> (8 * k));
                acc[k] += (xb - p.x_zero) * ((i32)(i8)(w >> (8 * k)) - p.w_zero);
            }
        }
    }
    const i64 pixel = oy * p.ow + ox, to = (i64)image * p.y_img + pixel * p.y_pix + c;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        if (c + k >= p.cout) break;
        const i32 bias = p.bias ? load<i32>(p.bias, c + k) : 0;
        requantize(p, (i32)((u32)acc[k] + (u32)bias), c + k, to + k);
    }
}

// ---- any convolution, a thread an output: groups, odd strides, odd channel counts ----

template <bool TRANSPOSED>
DEV bool direct_place(const ConvParams& p, i32& image, i32& oy, i32& ox, i32& o) {
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (i64)p.batch * p.oh * p.ow * p.cout) return false;
    const i32 pixel = i / p.cout;
    o = (i32)(i - (i64)pixel * p.cout);
    image = pixel / (p.oh * p.ow);
    const i32 at = pixel - image * p.oh * p.ow;
    oy = at / p.ow;
    ox = at - oy * p.ow;
    return true;
}

// The input coordinate that kernel element k of output o meets; false if none. A transposed convolution meets it where o + pad - k *
// dilation is a multiple of the stride.
template <bool TRANSPOSED>
DEV bool meets(i32 o, i32 k, i32 stride, i32 pad, i32 dilation, i32 size, i32& at) {
    if (!TRANSPOSED) {
        at = o * stride - pad + k * dilation;
        return (u32)at < (u32)size;
    }
    const i32 v = o + pad - k * dilation;
    if (v < 0 || v % stride) return false;
    at = v / stride;
    return at < size;
}

template <bool TRANSPOSED>
DEV void direct_float(const ConvParams& p, i32 t) {
    let_next_start();
    wait_previous();
    i32 image, oy, ox, o;
    if (!direct_place<TRANSPOSED>(p, image, oy, ox, o)) return;
    const i32 per = p.cin / p.groups, first = o / (p.cout / p.groups) * per;
    f32 v = 0.f;
    for (i32 ky = 0; ky < p.kh; ky++) {
        i32 iy, ix;
        if (!meets<TRANSPOSED>(oy, ky, p.sy, p.py, p.dy, p.h, iy)) continue;
        for (i32 kx = 0; kx < p.kw; kx++) {
            if (!meets<TRANSPOSED>(ox, kx, p.sx, p.px, p.dx, p.wd, ix)) continue;
            const i64 x = (i64)image * p.x_img + (i64)iy * p.x_row + (i64)ix * p.x_pix + (i64)first * p.x_ch;
            const i64 w = ((i64)o * p.kh * p.kw + ky * p.kw + kx) * per;
            for (i32 c = 0; c < per; c++) v = fmaf(load_f32(p.x, x + (i64)c * p.x_ch, t), load_f32(p.w, w + c, t), v);
        }
    }
    const i64 pixel = oy * p.ow + ox;
    if (p.bias) v += load<f32>(p.bias, o);
    const f32 res = p.res_mode ? load_f32(p.res, (i64)image * p.r_img + pixel * p.r_pix + o, p.out_dtype) : 0.f;
    if (p.res_mode == RES_BEFORE) v += res;
    v = act_exact(v, p.act, p.act_a, p.act_b);
    if (p.res_mode == RES_AFTER) v += res;
    store_f32(p.y, (i64)image * p.y_img + pixel * p.y_pix + o, p.out_dtype, v);
}
KERNEL __launch_bounds__(256, 4) conv_direct_f16(const __grid_constant__ ConvParams p) { direct_float<false>(p, DT_F16); }
KERNEL __launch_bounds__(256) conv_direct_f32(const __grid_constant__ ConvParams p) { direct_float<false>(p, DT_F32); }
KERNEL __launch_bounds__(256) conv_transpose_f16(const __grid_constant__ ConvParams p) { direct_float<true>(p, DT_F16); }
KERNEL __launch_bounds__(256) conv_transpose_f32(const __grid_constant__ ConvParams p) { direct_float<true>(p, DT_F32); }

KERNEL __launch_bounds__(256) conv_direct_i8(const __grid_constant__ ConvParams p) {
    let_next_start();
    wait_previous();
    i32 image, oy, ox, o;
    if (!direct_place<false>(p, image, oy, ox, o)) return;
    const i32 per = p.cin / p.groups, first = o / (p.cout / p.groups) * per;
    const bool byte_x = p.x_xor != 0;
    i32 acc = 0;
    for (i32 ky = 0; ky < p.kh; ky++) {
        const i32 iy = oy * p.sy - p.py + ky * p.dy;
        if ((u32)iy >= (u32)p.h) continue;
        for (i32 kx = 0; kx < p.kw; kx++) {
            const i32 ix = ox * p.sx - p.px + kx * p.dx;
            if ((u32)ix >= (u32)p.wd) continue;
            const i64 x = (i64)image * p.x_img + (i64)iy * p.x_row + (i64)ix * p.x_pix + (i64)first * p.x_ch;
            const i64 w = ((i64)o * p.kh * p.kw + ky * p.kw + kx) * per;
            for (i32 c = 0; c < per; c++) {
                const i64 at = x + (i64)c * p.x_ch;
                const i32 xb = byte_x ? (i32)load<u8>(p.x, at) : (i32)load<i8>(p.x, at);
                acc += (xb - p.x_zero) * ((i32)load<i8>(p.w, w + c) - p.w_zero);
            }
        }
    }
    const i32 bias = p.bias ? load<i32>(p.bias, o) : 0;
    requantize(p, (i32)((u32)acc + (u32)bias), o, (i64)image * p.y_img + (i64)(oy * p.ow + ox) * p.y_pix + o);
}
