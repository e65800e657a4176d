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

DEV f32 mirrored(f32 v, f32 lo, f32 hi) {
    const f32 range = hi - lo;
    if (range <= 0.f) return 0.f;
    v = fabsf(v - lo);
    const f32 over = floorf(v / range), part = v - over * range;
    return fmodf(over, 2.f) == 0.f ? lo + part : hi - part;
}

struct Sampler {
    const GridSampleParams& p;
    i64 base;
    __device__ __forceinline__ f32 pixel(f32 fy, f32 fx) const {
        i32 y, x;
        if (p.outside == 2) {
            const f32 lo = p.align_corners ? 0.f : -0.5f;
            fy = mirrored(fy, lo, p.align_corners ? (f32)(p.h - 1) : (f32)p.h - 0.5f);
            fx = mirrored(fx, lo, p.align_corners ? (f32)(p.w - 1) : (f32)p.w - 0.5f);
        }
        if (p.outside == 0 && (fy < 0.f || fx < 0.f || fy > (f32)(p.h - 1) || fx > (f32)(p.w - 1))) return 0.f;
        // Folding a whole number gives one up to rounding.
        y = (i32)fminf(fmaxf(rintf(fy), 0.f), (f32)(p.h - 1));
        x = (i32)fminf(fmaxf(rintf(fx), 0.f), (f32)(p.w - 1));
        return load_f32(p.x, base + (i64)y * p.x_row + (i64)x * p.x_pix, p.t);
    }
};

KERNEL __launch_bounds__(256) grid_sample(const __grid_constant__ GridSampleParams p) {
    let_next_start();
    wait_previous();
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (u32)(p.batch * p.channels * p.oh * p.ow)) return;
    const i32 ox = i % p.ow, oy = i / p.ow % p.oh, c = i / (p.ow * p.oh) % p.channels, n = i / (p.ow * p.oh) / p.channels;
    const i64 g = (i64)n * p.g_img + (i64)oy * p.g_row + (i64)ox * p.g_pix;
    f32 gx = load_f32(p.grid, g, p.t), gy = load_f32(p.grid, g + p.g_xy, p.t);
    if (gx != gx) gx = -1.f;
    if (gy != gy) gy = -1.f;
    auto position = [&](f32 v, i32 size) {
        return p.align_corners ? (v + 1.f) / 2.f * (f32)(size - 1) : ((v + 1.f) * (f32)size - 1.f) / 2.f;
    };
    f32 x = position(gx, p.w), y = position(gy, p.h);
    const f32 lo = p.align_corners ? 0.f : -0.5f;
    const f32 hx = p.align_corners ? (f32)(p.w - 1) : (f32)p.w - 0.5f, hy = p.align_corners ? (f32)(p.h - 1) : (f32)p.h - 0.5f;
    if (p.mode == 2) {
        // Cubic folds its sixteen pixels, not the position.
    } else if (p.outside == 1) {
        x = fminf(fmaxf(x, 0.f), (f32)(p.w - 1));
        y = fminf(fmaxf(y, 0.f), (f32)(p.h - 1));
    } else if (p.outside == 2) {
        x = mirrored(x, lo, hx);
        y = mirrored(y, lo, hy);
    }
    const Sampler s{p, (i64)n * p.x_img + (i64)c * p.x_ch};
    f32 r;
    if (p.mode == 1) {
        r = s.pixel(rintf(y), rintf(x));
    } else if (p.mode == 0) {
        const f32 x0 = floorf(x), y0 = floorf(y), dx = x - x0, dy = y - y0;
        r = (1.f - dy) * ((1.f - dx) * s.pixel(y0, x0) + dx * s.pixel(y0, x0 + 1.f)) +
            dy * ((1.f - dx) * s.pixel(y0 + 1.f, x0) + dx * s.pixel(y0 + 1.f, x0 + 1.f));
    } else {
        const f32 x0 = floorf(x), y0 = floorf(y), a = -0.75f;
        auto weight = [&](f32 d) {
            d = fabsf(d);
            return d <= 1.f ? ((a + 2.f) * d - (a + 3.f)) * d * d + 1.f : ((a * d - 5.f * a) * d + 8.f * a) * d - 4.f * a;
        };
        r = 0.f;
        for (i32 j = -1; j <= 2; j++) {
            f32 line = 0.f;
            for (i32 k = -1; k <= 2; k++) line += weight(x - x0 - (f32)k) * s.pixel(y0 + (f32)j, x0 + (f32)k);
            r += weight(y - y0 - (f32)j) * line;
        }
    }
    store_f32(p.y, (i64)n * p.y_img + (i64)c * p.y_ch + (i64)oy * p.y_row + (i64)ox * p.y_pix, p.t, r);
}
