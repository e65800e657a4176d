// Convolution in f32 without tensor cores: implicit GEMM, BM pixels x BN channels by 256 threads. The sum goes up in the order
// (ky, kx, channel), one fused multiply-add each, so it is the same whatever the tile.
#include "common.cuh"

template <int BM, int BN>
DEV void conv(const ConvParams& p) {
    constexpr int BK = 16, TM = BM / 16, TN = BN / 16;
    constexpr int A_N = BM * BK / 4 / 256, B_N = (BN * BK / 4 + 255) / 256;
    __shared__ __align__(16) f32 as[2][BK][BM + 4], bs[2][BK][BN + 4];
    const u32 tid = threadIdx.x, tx = tid & 15, ty = tid >> 4;
    const u32 tiles_n = (u32)(p.cout + BN - 1) / BN;
    const u32 m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
    const u32 pixels = (u32)p.oh * p.ow, total = (u32)p.batch * pixels;
    const i32 k_all = p.kh * p.kw * p.cin;
    let_next_start();
    // Piece of 4 channels `seg` of rows row, row + 64, ...
    const u32 seg = tid & 3, row = tid >> 2;
    i32 off[A_N], base_y[A_N], base_x[A_N];
#pragma unroll
    for (int i = 0; i < A_N; i++) {
        const u32 m = m0 + row + i * 64, n = m / pixels, at = m - n * pixels;
        const i32 oy = at / (u32)p.ow, ox = at - (u32)oy * p.ow;
        base_y[i] = m < total ? oy * p.sy - p.py : -(1 << 28);
        base_x[i] = ox * p.sx - p.px;
        off[i] = (i32)n * p.x_img + (oy * p.sy - p.py) * p.x_row + base_x[i] * p.x_pix;
    }
    i32 c = seg * 4, ky = 0, kx = 0;
    auto settle = [&]() {
        while (c >= p.cin) {
            c -= p.cin;
            if (++kx == p.kw) {
                kx = 0;
                ky++;
            }
        }
    };
    settle();
    Vec4 ra[A_N], rb[B_N];
    i32 k = 0;
    auto fetch = [&]() {
        const i32 dy = ky * p.dy, dx = kx * p.dx, shift = dy * p.x_row + dx * p.x_pix + c;
#pragma unroll
        for (int i = 0; i < A_N; i++) {
            const bool ok = ky < p.kh && (u32)(base_y[i] + dy) < (u32)p.h && (u32)(base_x[i] + dx) < (u32)p.wd;
            ra[i] = Vec4{{0, 0, 0, 0}};
            if (ok) ra[i] = *(const Vec4*)(p.x + (i64)(off[i] + shift) * 4);
        }
#pragma unroll
        for (int i = 0; i < B_N; i++) {
            const u32 n = n0 + row + i * 64;
            rb[i] = Vec4{{0, 0, 0, 0}};
            if (row + i * 64 < BN && n < (u32)p.cout && k + (i32)seg * 4 < k_all) rb[i] = *(const Vec4*)(p.w + ((i64)n * k_all + k + seg * 4) * 4);
        }
        k += BK;
        c += BK;
        settle();
    };
    auto put = [&](u32 s) {
#pragma unroll
        for (int i = 0; i < A_N; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) as[s][seg * 4 + e][row + i * 64] = __uint_as_float(ra[i].v[e]);
#pragma unroll
        for (int i = 0; i < B_N; i++)
            if (row + i * 64 < BN) {
#pragma unroll
                for (int e = 0; e < 4; e++) bs[s][seg * 4 + e][row + i * 64] = __uint_as_float(rb[i].v[e]);
            }
    };
    f32 acc[TM][TN];
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) acc[i][j] = 0.f;
    wait_previous();
    const i32 steps = (k_all + BK - 1) / BK;
    fetch();
    for (i32 step = 0; step < steps; step++) {
        const u32 s = step & 1;
        put(s);
        __syncthreads();
        if (step + 1 < steps) fetch();
#pragma unroll
        for (int kk = 0; kk < BK; kk++) {
            f32 a[TM], b[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4) {
                const Vec4 v = *(const Vec4*)&as[s][kk][ty * TM + i];
#pragma unroll
                for (int e = 0; e < 4; e++) a[i + e] = __uint_as_float(v.v[e]);
            }
#pragma unroll
            for (int j = 0; j < TN; j++) b[j] = bs[s][kk][tx + j * 16];
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++) acc[i][j] = fmaf(a[i], b[j], acc[i][j]);
        }
    }
#pragma unroll 1
    for (int i = 0; i < TM; i++) {
        const u32 m = m0 + ty * TM + i;
        if (m < total) {
            const u32 n = m / pixels, at = m - n * pixels;
            const i64 to = (i64)n * p.y_img + (i64)at * p.y_pix, res = (i64)n * p.r_img + (i64)at * p.r_pix;
#pragma unroll
            for (int j = 0; j < TN; j++) {
                const u32 o = n0 + tx + j * 16;
                if (o >= (u32)p.cout) continue;
                f32 v = acc[0][j];
                if (p.bias) v += load<f32>(p.bias, o);
                if (p.res_mode == RES_BEFORE) v += load<f32>(p.res, res + o);
                v = act_exact(v, p.act, p.act_a, p.act_b);
                if (p.res_mode == RES_AFTER) v += load<f32>(p.res, res + o);
                store_f32(p.y, to + o, p.out_dtype, v);
            }
        }
        // The rows move through the first place, so that registers are named by constants.
#pragma unroll
        for (int e = 1; e < TM; e++)
#pragma unroll
            for (int j = 0; j < TN; j++) acc[e - 1][j] = acc[e][j];
    }
}

#define CONV_F32(NAME, BM, BN) \
    KERNEL __launch_bounds__(256, 2) NAME(const __grid_constant__ ConvParams p) { conv<BM, BN>(p); }
CONV_F32(conv_f32_64x16x16_k1_s2, 64, 16)
CONV_F32(conv_f32_64x32x16_k1_s2, 64, 32)
CONV_F32(conv_f32_64x64x16_k1_s2, 64, 64)
CONV_F32(conv_f32_128x64x16_k1_s2, 128, 64)
