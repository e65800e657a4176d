// Matrix products: f16 on tensor cores for any strides, and any dtype without.
#include "common.cuh"

DEV void batches(const MatmulParams& p, i64& a, i64& b, i64& c) {
    const i32 z = blockIdx.z, b0 = z / p.batch1, b1 = z - b0 * p.batch1;
    a = (i64)b0 * p.a_b0 + (i64)b1 * p.a_b1;
    b = (i64)b0 * p.b_b0 + (i64)b1 * p.b_b1;
    c = (i64)b0 * p.c_b0 + (i64)b1 * p.c_b1;
}

DEV void finish(const MatmulParams& p, f32 sum, i32 row, i32 col, i64 at) {
    f32 v = p.alpha * sum;
    if (p.bias) v += p.beta * load_f32(p.bias, (i64)row * p.bias_row + (i64)col * p.bias_col, p.tbias);
    if (p.act) v = act_exact(v, p.act, p.act_a, p.act_b);
    store_f32(p.c, at + (i64)row * p.c_row + (i64)col * p.c_col, p.tc, v);
}

#if __CUDA_ARCH__ >= 800
// 64 x 64 by four warps of 32 x 32, K in steps of 32. Operands of any strides go through registers: 16 bytes at a time where K
// (or the row) is contiguous and aligned, else element by element.
KERNEL __launch_bounds__(128) matmul_f16_64x64(const __grid_constant__ MatmulParams p) {
    constexpr int PITCH = 40;  // halves: 80 bytes, an odd multiple of 16
    __shared__ __align__(16) u16 as[2][64 * PITCH], bs[2][64 * PITCH];
    let_next_start();
    wait_previous();
    i64 a0, b0, c0;
    batches(p, a0, b0, c0);
    const u32 tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, wm = warp & 1, wn = warp >> 1;
    const i32 m0 = blockIdx.y * 64, n0 = blockIdx.x * 64;
    const bool a_fast = p.a_col == 1 && (p.a_row & 7) == 0 && ((p.a + (u64)a0 * 2) & 15) == 0;
    const bool b_fast = p.b_row == 1 && (p.b_col & 7) == 0 && ((p.b + (u64)b0 * 2) & 15) == 0;   // k contiguous
    const bool b_wide = p.b_col == 1 && (p.b_row & 7) == 0 && ((p.b + (u64)b0 * 2) & 15) == 0;   // n contiguous
    const bool a_wide = p.a_row == 1 && (p.a_col & 7) == 0 && ((p.a + (u64)a0 * 2) & 15) == 0;   // m contiguous
    Vec4 ra[2], rb[2];
    // Two pieces of 8 halves each. Along k: rows tid/4 and + 32, k piece tid%4; along the row: k tid/8 and + 16, rows piece tid%8.
    auto fetch = [&](u64 base, i64 off, i32 first, i32 limit, i32 row_s, i32 k_s, bool fast, bool wide, i32 k0, Vec4 (&r)[2]) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            u16 v[8];
            const bool along = !wide || fast;
            const i32 row = along ? first + (i32)(tid >> 2) + h * 32 : first + (i32)(tid & 7) * 8;
            const i32 k = along ? k0 + (i32)(tid & 3) * 8 : k0 + (i32)(tid >> 3) + h * 16;
            const u64 at = base + (u64)(off + (i64)row * row_s + (i64)k * k_s) * 2;
            if (along ? fast && row < limit && k + 8 <= p.k : row + 8 <= limit && k < p.k) {
                r[h] = *(const Vec4*)at;
                continue;
            }
#pragma unroll
            for (int e = 0; e < 8; e++) {
                const i32 rr = along ? row : row + e, kk = along ? k + e : k;
                v[e] = rr < limit && kk < p.k ? load<u16>(base, off + (i64)rr * row_s + (i64)kk * k_s) : (u16)0;
            }
#pragma unroll
            for (int e = 0; e < 4; e++) r[h].v[e] = (u32)v[2 * e] | (u32)v[2 * e + 1] << 16;
        }
    };
    auto put = [&](u16* to, const Vec4 (&r)[2], bool along) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (along) {
                *(Vec4*)(to + ((tid >> 2) + h * 32) * PITCH + (tid & 3) * 8) = r[h];
            } else {
#pragma unroll
                for (int e = 0; e < 8; e++) to[((tid & 7) * 8 + e) * PITCH + (tid >> 3) + h * 16] = (u16)(r[h].v[e / 2] >> (e % 2 * 16));
            }
        }
    };
    const bool a_along = !a_wide || a_fast, b_along = !b_wide || b_fast;
    f32 acc[2][4][4];
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int k = 0; k < 4; k++) acc[i][j][k] = 0.f;
    const i32 steps = (p.k + 31) / 32;
    auto get = [&](i32 step) {
        fetch(p.a, a0, m0, p.m, p.a_row, p.a_col, a_fast, a_wide, step * 32, ra);
        fetch(p.b, b0, n0, p.n, p.b_col, p.b_row, b_fast, b_wide, step * 32, rb);
    };
    get(0);
    for (i32 step = 0; step < steps; step++) {
        const u32 s = step & 1;
        put(as[s], ra, a_along);
        put(bs[s], rb, b_along);
        __syncthreads();
        if (step + 1 < steps) get(step + 1);
        const u32 pa = smem_addr(as[s]) + ((wm * 32 + (lane & 15)) * PITCH + (lane >> 4) * 8) * 2;
        const u32 pb = smem_addr(bs[s]) + ((wn * 32 + (lane & 7) + (lane >> 4 << 3)) * PITCH + (lane >> 3 & 1) * 8) * 2;
#pragma unroll
        for (int sub = 0; sub < 2; sub++) {
            u32 a[2][4], b[2][4];
#pragma unroll
            for (int i = 0; i < 2; i++) ldmatrix4(a[i], pa + i * 16 * PITCH * 2 + sub * 32);
#pragma unroll
            for (int j = 0; j < 2; j++) ldmatrix4(b[j], pb + j * 16 * PITCH * 2 + sub * 32);
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) mma_f16(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const i32 row = m0 + wm * 32 + i * 16 + (lane >> 2) + (k >> 1) * 8, col = n0 + wn * 32 + j * 8 + (lane & 3) * 2 + (k & 1);
                if (row < p.m && col < p.n) finish(p, acc[i][j][k], row, col, c0);
            }
}
#endif

// 32 x 32 by 256 threads of 2 x 2; f32 sums (integers: exact i32, wrapping, zero points taken off).
KERNEL __launch_bounds__(256) matmul_any(const __grid_constant__ MatmulParams p) {
    __shared__ f32 as[32][33], bs[32][33];
    let_next_start();
    wait_previous();
    i64 a0, b0, c0;
    batches(p, a0, b0, c0);
    const i32 tx = threadIdx.x & 15, ty = threadIdx.x >> 4, m0 = blockIdx.y * 32, n0 = blockIdx.x * 32;
    const bool ints = is_int(p.ta);
    f32 acc[2][2] = {{0.f, 0.f}, {0.f, 0.f}};
    i32 exact[2][2] = {{0, 0}, {0, 0}};
    for (i32 k0 = 0; k0 < p.k; k0 += 32) {
        for (u32 e = threadIdx.x; e < 1024; e += 256) {
            // Neighbouring threads along the operand's contiguous side.
            const bool a_k = p.a_col <= p.a_row;
            const i32 ar = a_k ? e >> 5 : e & 31, ak = a_k ? e & 31 : e >> 5;
            const bool b_k = p.b_row < p.b_col;
            const i32 br = b_k ? e >> 5 : e & 31, bk = b_k ? e & 31 : e >> 5;
            f32 a = 0.f, b = 0.f;
            if (m0 + ar < p.m && k0 + ak < p.k) {
                const i64 at = a0 + (i64)(m0 + ar) * p.a_row + (i64)(k0 + ak) * p.a_col;
                a = ints ? (f32)((i32)load_i64(p.a, at, p.ta) - p.a_zero) : load_f32(p.a, at, p.ta);
            }
            if (n0 + br < p.n && k0 + bk < p.k) {
                const i64 at = b0 + (i64)(k0 + bk) * p.b_row + (i64)(n0 + br) * p.b_col;
                b = ints ? (f32)((i32)load_i64(p.b, at, p.tb) - p.b_zero) : load_f32(p.b, at, p.tb);
            }
            as[ar][ak] = a;
            bs[br][bk] = b;
        }
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < 32; k++) {
            const f32 x0 = as[ty][k], x1 = as[ty + 16][k], y0 = bs[tx][k], y1 = bs[tx + 16][k];
            if (ints) {
                // Products of two 8-bit numbers with zero points taken off are exact in f32.
                exact[0][0] += (i32)(x0 * y0);
                exact[0][1] += (i32)(x0 * y1);
                exact[1][0] += (i32)(x1 * y0);
                exact[1][1] += (i32)(x1 * y1);
            } else {
                acc[0][0] = fmaf(x0, y0, acc[0][0]);
                acc[0][1] = fmaf(x0, y1, acc[0][1]);
                acc[1][0] = fmaf(x1, y0, acc[1][0]);
                acc[1][1] = fmaf(x1, y1, acc[1][1]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const i32 row = m0 + ty + i * 16, col = n0 + tx + j * 16;
            if (row >= p.m || col >= p.n) continue;
            if (ints) store_i64(p.c, c0 + (i64)row * p.c_row + (i64)col * p.c_col, p.tc, exact[i][j]);
            else finish(p, acc[i][j], row, col, c0);
        }
}
