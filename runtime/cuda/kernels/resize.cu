// Sampling between pixels: Resize of two axes, GridSample.
#include "common.cuh"

KERNEL __launch_bounds__(256, 2) resize(const __grid_constant__ ResizeParams p) {
    let_next_start();
    wait_previous();
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (u32)(p.batch * p.channels * p.oh * p.ow)) return;
    // Channels innermost where they are neighbours in y.
    i32 n, c, oy, ox;
    u32 rest = i;
    if (p.y_ch == 1) {
        c = rest % p.channels;
        rest /= p.channels;
        ox = rest % p.ow;
        rest /= p.ow;
        oy = rest % p.oh;
        n = rest / p.oh;
    } else {
        ox = rest % p.ow;
        rest /= p.ow;
        oy = rest % p.oh;
        rest /= p.oh;
        c = rest % p.channels;
        n = rest / p.channels;
    }
    const Tap4& ty = ((const Tap4*)p.rows)[oy];
    const Tap4& tx = ((const Tap4*)p.cols)[ox];
    const i64 from = (i64)n * p.x_img + (i64)c * p.x_ch;
    f32 sum = 0.f;
    for (i32 a = 0; a < p.taps; a++) {
        const f32 wy = ty.w[a];
        if (wy == 0.f) continue;
        f32 line = 0.f;
        for (i32 b = 0; b < p.taps; b++) {
            const f32 wx = tx.w[b];
            if (wx == 0.f) continue;
            line += wx * load_f32(p.x, from + (i64)ty.at[a] * p.x_row + (i64)tx.at[b] * p.x_pix, p.tx);
        }
        sum += wy * line;
    }
    store_f32(p.y, (i64)n * p.y_img + (i64)c * p.y_ch + (i64)oy * p.y_row + (i64)ox * p.y_pix, p.ty, sum);
}

// Where a position outside comes to lie: `fold` of graph/ops/grid_sample.rs.
DEV f32 folded(const GridSampleParams& p, f32 v, i32 size) {
    if (p.outside == 0) return v;
    if (p.outside == 1) return fminf(fmaxf(v, 0.f), (f32)size - 1.f);
    const f32 low = p.align_corners ? 0.f : -0.5f, high = p.align_corners ? (f32)size - 1.f : (f32)size - 0.5f;
    if (v >= low && v <= high) return v;
    const f32 range = high - low;
    if (range <= 0.f) return 0.f;
    const f32 away = v < low ? low - v : v - high;
    const f32 flips = floorf(div_rn(away, range)), rest = fmodf(away, range);
    return (v < low) == (fmodf(flips, 2.f) == 0.f) ? low + rest : high - rest;
}

// The pixels along one axis that a value is made of, and their weights; at < 0: outside, counts for nothing. Every product and sum
// rounds on its own, as on the CPU: the cubic weights cancel.
struct Taps { i32 at[4]; f32 w[4]; };

DEV Taps taps_of(const GridSampleParams& p, f32 v, i32 size) {
    if (v != v) v = -1.f;
    v = p.align_corners ? mul_rn(div_rn(add_rn(v, 1.f), 2.f), (f32)size - 1.f) : div_rn(add_rn(mul_rn(add_rn(v, 1.f), (f32)size), -1.f), 2.f);
    if (p.mode != 2) v = folded(p, v, size);
    const f32 first = floorf(v), t = add_rn(v, -first);
    Taps r;
    f32 from = first;
    if (p.mode == 1) {
        from = rintf(v);
        r.w[0] = 1.f;
        r.w[1] = r.w[2] = r.w[3] = 0.f;
    } else if (p.mode == 0) {
        r.w[0] = add_rn(1.f, -t);
        r.w[1] = t;
        r.w[2] = r.w[3] = 0.f;
    } else {
        const f32 a = -0.75f;
        auto near = [&](f32 d) { return add_rn(mul_rn(mul_rn(add_rn(mul_rn(a + 2.f, d), -(a + 3.f)), d), d), 1.f); };
        auto far = [&](f32 d) { return add_rn(mul_rn(add_rn(mul_rn(add_rn(mul_rn(a, d), -5.f * a), d), 8.f * a), d), -4.f * a); };
        from = first - 1.f;
        r.w[0] = far(add_rn(t, 1.f));
        r.w[1] = near(t);
        r.w[2] = near(add_rn(1.f, -t));
        r.w[3] = far(add_rn(2.f, -t));
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        f32 at = from + (f32)k;
        const bool used = k < (p.mode == 1 ? 1 : p.mode == 0 ? 2 : 4);
        // Folding a whole number gives one up to rounding.
        if (p.outside != 0) at = fminf(fmaxf(rintf(folded(p, at, size)), 0.f), (f32)size - 1.f);
        r.at[k] = used && at >= 0.f && at < (f32)size ? (i32)at : -1;
    }
    return r;
}

KERNEL __launch_bounds__(256, 4) grid_sample(const __grid_constant__ GridSampleParams p) {
    let_next_start();
    wait_previous();
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (u32)(p.batch * p.channels * p.oh * p.ow)) return;
    const i32 ox = i % p.ow, oy = i / p.ow % p.oh, c = i / (p.ow * p.oh) % p.channels, n = i / (p.ow * p.oh) / p.channels;
    const i64 g = (i64)n * p.g_img + (i64)oy * p.g_row + (i64)ox * p.g_pix;
    const Taps across = taps_of(p, load_f32(p.grid, g, p.t), p.w), down = taps_of(p, load_f32(p.grid, g + p.g_xy, p.t), p.h);
    const i64 base = (i64)n * p.x_img + (i64)c * p.x_ch;
    f32 sum = 0.f;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        if (down.at[j] < 0) continue;
        f32 line = 0.f;
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (across.at[k] >= 0) line = add_rn(line, mul_rn(load_f32(p.x, base + (i64)down.at[j] * p.x_row + (i64)across.at[k] * p.x_pix, p.t), across.w[k]));
        sum = add_rn(sum, mul_rn(line, down.w[j]));
    }
    store_f32(p.y, (i64)n * p.y_img + (i64)c * p.y_ch + (i64)oy * p.y_row + (i64)ox * p.y_pix, p.t, sum);
}
