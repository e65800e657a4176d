// Implicit-GEMM convolution on tensor cores, f16 and int8 from one template.
//
// A block makes BM output pixels x BN output channels. K, the sum over (ky, kx, channel), goes by in steps of BKB bytes:
// cp.async brings the pixels' and the weights' next bytes into one of STAGES buffers while the tensor cores work on another.
// A fragment of m16n8k16 f16 and one of m16n8k32 s8 are the same bytes in the same registers, so only the instruction, the
// type of the sum and the epilogue differ; everything before counts bytes.
//
// The WM x WN x WK warps split the tile's rows, its columns and each step's bytes. WK > 1 shortens the chain of dependent
// steps where there are few pixels; its partial sums are added in the epilogue in a fixed order.
#pragma once
#include "conv_epilogue.cuh"

#if __CUDA_ARCH__ >= 800

// Where 16-byte piece `seg` of row `row` lies, so that the eight rows ldmatrix reads at once are in eight different banks.
template <int BKB>
DEV u32 swizzled(u32 row, u32 seg) {
    constexpr u32 SEGS = BKB / 16;
    u32 s;
    if (SEGS >= 8) s = seg ^ (row & 7);
    else if (SEGS == 4) s = seg ^ ((row >> 1) & 3);
    else s = seg ^ ((row >> 2) & 1);
    return row * BKB + (s << 4);
}

template <class T, int BM, int BN, int BKB, int WM, int WN, int WK, int STAGES, int SEG, bool CAT>
struct Conv {
    typedef typename T::Acc Acc;
    static constexpr int THREADS = 32 * WM * WN * WK;
    static constexpr int BK = BKB / T::BYTES;
    static constexpr int TM = BM / WM, TN = BN / WN;       // a warp's tile
    static constexpr int SUBS = BKB / 32 / WK;             // mma steps a warp makes in one K step
    static constexpr int A_SEGS = BKB / SEG, B_SEGS = BKB / 16;
    static constexpr int A_ROWS = THREADS / A_SEGS, B_ROWS = THREADS / B_SEGS;  // rows loaded in one go
    static constexpr int A_N = (BM + A_ROWS - 1) / A_ROWS, B_N = (BN + B_ROWS - 1) / B_ROWS;
    typedef Epilogue<T, BM, BN, BM / WM, BN / WN, THREADS> End;
    static constexpr int CONSTS = End::CONSTS;
    static constexpr int HEADER = CONSTS + BM * 16;        // bias and the like, then the table of rows
    static constexpr int PIPE = STAGES * (BM + BN) * BKB;
    static constexpr int PITCH = BN + 8;                   // of staged sums, in numbers
    static constexpr int STAGED = WK > 1 ? WK * BM * PITCH * 4 : End::STAGED;
    static constexpr int SHARED = HEADER + (PIPE > STAGED ? PIPE : STAGED);

    static_assert(TM % 16 == 0 && TN % 8 == 0 && BKB % (32 * WK) == 0 && THREADS % A_SEGS == 0 && BN <= THREADS, "tile");
    static_assert(SHARED <= 163 * 1024, "shared memory of compute capability 8.7");

    static __device__ __forceinline__ void run(const ConvParams& p, unsigned char* shared) {
        const u32 tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
        const u32 wk = warp / (WM * WN), wm = warp % WM, wn = warp / WM % WN;
        const u32 header = smem_addr(shared), pipe = header + HEADER;
        const u32 tiles_n = (u32)(p.cout + BN - 1) / BN;
        const u32 tile_m = blockIdx.x / tiles_n, tile_n = blockIdx.x % tiles_n;
        const u32 pixels = (u32)p.oh * p.ow, total = (u32)p.batch * pixels;
        const u32 m0 = tile_m * BM, n0 = tile_n * BN;

        // This block's K steps.
        i32 row_k = p.kh * p.kw * p.cin;
        if (SEG != 16) row_k = (row_k + 16 / T::BYTES - 1) / (16 / T::BYTES) * (16 / T::BYTES);
        const i32 steps = (row_k + BK - 1) / BK;
        const i32 per = (steps + p.splits - 1) / p.splits;
        const i32 first = (i32)blockIdx.y * per;
        i32 count = steps - first;
        count = count < per ? count : per;
        count = count < 0 ? 0 : count;

        // Weights: rows of B that this thread loads.
        const u32 b_seg = tid % B_SEGS, b_row = tid / B_SEGS;
        i32 b_k = first * BK + b_seg * (16 / T::BYTES);
        u64 b_ptr = p.w + ((i64)(n0 + b_row) * row_k + b_k) * T::BYTES;
        const i64 b_go = (i64)B_ROWS * row_k * T::BYTES;
        u32 b_ok = 0;
#pragma unroll
        for (int i = 0; i < B_N; i++) {
            const u32 r = b_row + i * B_ROWS;
            if (r < BN && n0 + r < (u32)p.cout) b_ok |= 1u << i;
        }
        auto load_b = [&](u32 stage) {
            const u32 base = pipe + stage * (BM + BN) * BKB + BM * BKB;
            const bool inside = b_k < row_k;
            u64 src = b_ptr;
#pragma unroll
            for (int i = 0; i < B_N; i++) {
                const u32 r = b_row + i * B_ROWS;
                if (BN % B_ROWS == 0 || r < BN)
                    copy16_async(base + swizzled<BKB>(r, b_seg), src, inside && (b_ok >> i & 1) ? 16 : 0);
                src += b_go;
            }
            b_k += BK;
            b_ptr += BKB;
        };

        // Weights and the other constants do not come from the kernel before, so they need not wait for it.
#pragma unroll
        for (int s = 0; s < STAGES - 1; s++)
            if (s < count) load_b(s);
        End::load_constants(p, header, n0);

        // The table of rows: where each output pixel reads from (the offset of its first tap; which ky, low half, and kx, high
        // half, stay inside the picture) and where it goes. One thread finds out what several need.
        struct alignas(8) RowIn { i32 offset; u32 mask; };   // two sources: offset in the first and in the second
        RowIn* rows_in = (RowIn*)(shared + CONSTS);
        RowOut* rows_out = (RowOut*)(shared + CONSTS + BM * 8);
        // Pixels of a 1x1 convolution of dense pictures are one row after the other: nothing to divide.
        const bool dense = !CAT && p.kh * p.kw == 1 && p.sy * p.sx == 1 && (p.py | p.px) == 0 && p.x_row == p.ow * p.x_pix && p.x_img == (i32)pixels * p.x_pix &&
                           p.y_img == (i32)pixels * p.y_pix && (p.res_mode == RES_NONE || p.r_img == (i32)pixels * p.r_pix);
        for (u32 r = tid; r < BM; r += THREADS) {
            const u32 m = m0 + r;
            if (dense) {
                rows_in[r] = RowIn{(i32)m * p.x_pix, m < total ? 0x10001u : 0};
                rows_out[r] = RowOut{m < total ? (i32)m * p.y_pix : -1, (i32)m * p.r_pix};
                continue;
            }
            const u32 n = m / pixels, pixel = m - n * pixels;
            const i32 oy = pixel / (u32)p.ow, ox = pixel - (u32)oy * p.ow;
            RowIn in;
            if (CAT) {
                in.offset = (i32)n * p.x_img + (oy >> p.up) * p.x_row + (ox >> p.up) * p.x_pix;
                in.mask = (u32)((i32)n * p.x2_img + oy * p.x2_row + ox * p.x2_pix);
            } else {
                const i32 iy = oy * p.sy - p.py, ix = ox * p.sx - p.px;
                in.offset = (i32)n * p.x_img + iy * p.x_row + ix * p.x_pix;
                u32 mask = 0;
                for (i32 k = 0; k < p.kh; k++) mask |= (u32)((u32)(iy + k * p.dy) < (u32)p.h) << k;
                for (i32 k = 0; k < p.kw; k++) mask |= (u32)((u32)(ix + k * p.dx) < (u32)p.wd) << (k + 16);
                in.mask = m < total ? mask : 0;
            }
            rows_in[r] = in;
            rows_out[r] = RowOut{m < total ? (i32)n * p.y_img + (i32)pixel * p.y_pix : -1, (i32)n * p.r_img + (i32)pixel * p.r_pix};
        }
        __syncthreads();
        const u32 a_seg = tid % A_SEGS, a_row = tid / A_SEGS;
        i32 a_off[A_N];
        u32 a_mask[A_N], a_live = 0;
#pragma unroll
        for (int i = 0; i < A_N; i++) {
            const u32 r = a_row + i * A_ROWS;
            if (BM % A_ROWS != 0 && r >= BM) break;
            const RowIn in = rows_in[r];
            a_off[i] = in.offset;
            a_mask[i] = in.mask;
            if (m0 + r < total) a_live |= 1u << i;
        }
        // Place in K of this thread's piece.
        i32 a_c = first * BK + a_seg * (SEG / T::BYTES), ky = 0, kx = 0;
        if (!CAT) {
            const i32 tap = a_c / p.cin;
            a_c -= tap * p.cin;
            ky = tap / p.kw;
            kx = tap - ky * p.kw;
        }
        auto load_a = [&](u32 stage) {
            const u32 base = pipe + stage * (BM + BN) * BKB;
            i32 offset;
            u32 want;
            bool second = false;
            if (CAT) {
                second = a_c >= p.cin1;
                offset = second ? a_c - p.cin1 : a_c;
                want = a_c < p.cin;
            } else {
                offset = ky * p.dy * p.x_row + kx * p.dx * p.x_pix + a_c;
                want = ky < p.kh ? (1u << ky | 0x10000u << kx) : 0x80008000u;
            }
#pragma unroll
            for (int i = 0; i < A_N; i++) {
                const u32 r = a_row + i * A_ROWS;
                if (BM % A_ROWS != 0 && r >= BM) break;
                bool ok;
                u64 src;
                if (CAT) {
                    ok = want && (a_live >> i & 1);
                    src = (second ? p.x2 : p.x) + (i64)((second ? (i32)a_mask[i] : a_off[i]) + offset) * T::BYTES;
                } else {
                    ok = (a_mask[i] & want) == want;
                    src = p.x + (i64)(a_off[i] + offset) * T::BYTES;
                }
                u32 bytes = SEG;
                if (T::QUANT) src = ok ? src : p.pad;
                else bytes = ok ? SEG : 0;
                if (SEG == 16) copy16_async(base + swizzled<BKB>(r, a_seg), src, bytes);
                else if (SEG == 8) copy8_async(base + swizzled<BKB>(r, a_seg >> 1) + (a_seg & 1) * 8, src, bytes);
                else copy4_async(base + swizzled<BKB>(r, a_seg >> 2) + (a_seg & 3) * 4, src, bytes);
            }
            a_c += BK;
            if (!CAT) {
                while (a_c >= p.cin) {
                    a_c -= p.cin;
                    if (++kx == p.kw) {
                        kx = 0;
                        ky++;
                    }
                }
            }
        };

        wait_previous();
#pragma unroll
        for (int s = 0; s < STAGES - 1; s++) {
            if (s < count) load_a(s);
            commit_async();
        }

        Acc acc[TM / 16][TN / 8][4];
#pragma unroll
        for (int i = 0; i < TM / 16; i++)
#pragma unroll
            for (int j = 0; j < TN / 8; j++)
#pragma unroll
                for (int k = 0; k < 4; k++) acc[i][j][k] = 0;

        const u32 fa_row = wm * TM + (lane & 15), fa_seg = lane >> 4;
        const u32 fb_row = wn * TN + (lane & 7) + (lane >> 4 << 3), fb_seg = lane >> 3 & 1;
        u32 read = 0, write = STAGES - 1;
        for (i32 step = 0; step < count; step++) {
            wait_async<STAGES - 2>();
            __syncthreads();
            if (step + STAGES - 1 < count) {
                load_b(write);
                load_a(write);
            }
            commit_async();
            const u32 a_base = pipe + read * (BM + BN) * BKB, b_base = a_base + BM * BKB;
#pragma unroll
            for (int sub = 0; sub < SUBS; sub++) {
                const u32 seg = (wk * SUBS + sub) * 2;
                u32 a[TM / 16][4], b[(TN + 15) / 16][4];
#pragma unroll
                for (int i = 0; i < TM / 16; i++) {
                    ldmatrix4(a[i], a_base + swizzled<BKB>(fa_row + i * 16, seg + fa_seg));
                    if (T::QUANT) {
#pragma unroll
                        for (int k = 0; k < 4; k++) a[i][k] ^= (u32)p.x_xor;
                    }
                }
#pragma unroll
                for (int j = 0; j < (TN + 15) / 16; j++) ldmatrix4(b[j], b_base + swizzled<BKB>(fb_row + j * 16, seg + fb_seg));
#pragma unroll
                for (int i = 0; i < TM / 16; i++)
#pragma unroll
                    for (int j = 0; j < TN / 8; j++) T::mma(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
            }
            read = read + 1 == STAGES ? 0 : read + 1;
            write = write + 1 == STAGES ? 0 : write + 1;
        }
        let_next_start();
        wait_async<0>();
        __syncthreads();

        if (WK == 1) {
            End::run(p, shared, shared + HEADER, rows_out, acc, n0, wm * TM, wn * TN);
            return;
        }

        // Sums to shared memory, so that each thread can take neighbouring channels of one pixel.
        Acc* staged = (Acc*)(shared + HEADER);
        {
            Acc* mine = staged + wk * (BM * PITCH);
#pragma unroll
            for (int i = 0; i < TM / 16; i++)
#pragma unroll
                for (int j = 0; j < TN / 8; j++) {
                    const u32 at = (wm * TM + i * 16 + (lane >> 2)) * PITCH + wn * TN + j * 8 + (lane & 3) * 2;
                    struct alignas(8) Two { Acc v[2]; };
                    *(Two*)(mine + at) = Two{{acc[i][j][0], acc[i][j][1]}};
                    *(Two*)(mine + at + 8 * PITCH) = Two{{acc[i][j][2], acc[i][j][3]}};
                }
        }
        __syncthreads();
        auto sums = [&](u32 row, u32 col, Acc (&v)[4]) {
            struct alignas(16) Four { Acc v[4]; };
            Four f = *(const Four*)(staged + row * PITCH + col);
#pragma unroll
            for (int s = 1; s < WK; s++) {
                const Four g = *(const Four*)(staged + s * BM * PITCH + row * PITCH + col);
#pragma unroll
                for (int k = 0; k < 4; k++) f.v[k] += g.v[k];
            }
#pragma unroll
            for (int k = 0; k < 4; k++) v[k] = f.v[k];
        };

        const u32 tiles = gridDim.x;
        if (p.splits > 1) {
            const u64 mine = p.ws + ((i64)blockIdx.y * tiles + blockIdx.x) * (BM * BN * 4);
            for (u32 i = tid; i < BM * BN / 4; i += THREADS) {
                struct alignas(16) Four { Acc v[4]; } f;
                sums(i / (BN / 4), i % (BN / 4) * 4, f.v);
                *(Four*)(mine + (u64)i * 16) = f;
            }
            __threadfence();
            __syncthreads();
            u32* flag = (u32*)rows_in;  // no longer needed
            if (tid == 0) {
                u32* sem = (u32*)p.sem + blockIdx.x;
                const u32 arrived = atomicAdd(sem, 1);
                const bool last = arrived + 1 == (u32)p.splits;
                if (last) *sem = 0;
                *flag = last;
            }
            __syncthreads();
            if (*flag == 0) return;
            __threadfence();
        }

        constexpr int V = T::VEC;
        for (u32 i = tid; i < BM * BN / V; i += THREADS) {
            const u32 row = i / (BN / V), col = i % (BN / V) * V;
            const u32 n = n0 + col;
            const RowOut to = rows_out[row];
            if (to.y < 0 || n >= (u32)p.cout) continue;
            Acc v[V];
            if (p.splits > 1) {
                u64 from = p.ws + (i64)blockIdx.x * (BM * BN * 4) + (row * BN + col) * 4;
#pragma unroll
                for (int k = 0; k < V; k++) v[k] = 0;
                for (i32 s = 0; s < p.splits; s++) {
#pragma unroll
                    for (int k = 0; k < V; k += 4) {
                        const Vec4 g = load_l2(from + k * 4);
#pragma unroll
                        for (int e = 0; e < 4; e++) {
                            if (T::QUANT) v[k + e] += (Acc)(i32)g.v[e];
                            else v[k + e] += (Acc)__uint_as_float(g.v[e]);
                        }
                    }
                    from += (u64)tiles * (BM * BN * 4);
                }
            } else {
#pragma unroll
                for (int k = 0; k < V; k += 4) {
                    Acc four[4];
                    sums(row, col + k, four);
#pragma unroll
                    for (int e = 0; e < 4; e++) v[k + e] = four[e];
                }
            }
            const u32 live = (u32)p.cout - n < V ? (u32)p.cout - n : V;
            finish(p, shared, v, col, (i64)to.y + n, (i64)to.res + n, live);
        }
    }

    // Bias, residual, activation, rounding and the store of up to V channels of one pixel.
    static __device__ __forceinline__ void finish(const ConvParams& p, const unsigned char* shared, Acc (&v)[T::VEC], u32 col, i64 at, i64 res_at, u32 live) {
        constexpr int V = T::VEC;
        const f32* head = (const f32*)shared;
        f32 r[V];
        if (T::QUANT) {
            const i32* bias = (const i32*)shared;
#pragma unroll
            for (int k = 0; k < V; k++) {
                r[k] = mul_rn(i2f_rn((i32)v[k] + bias[col + k]), head[BN + col + k]);
            }
            if (p.fbias) {
#pragma unroll
                for (int k = 0; k < V; k++) r[k] = add_rn(r[k], head[2 * BN + col + k]);
            }
            Act::make(p.act, p.act_a, p.act_b).run(r);
            if (p.out_dtype == DT_I8 || p.out_dtype == DT_U8) {
                u32 byte[V], packed[V / 4];
                Quantizer::make(p).run(r, byte, p.table ? shared + BN * 12 : nullptr);
#pragma unroll
                for (int k = 0; k < V; k += 4) packed[k / 4] = byte[k] | byte[k + 1] << 8 | byte[k + 2] << 16 | byte[k + 3] << 24;
                if (live == V && ((p.y | (u64)p.y_pix | (u64)p.y_img) & 15) == 0) {
                    *(Vec4*)(p.y + at) = Vec4{{packed[0], packed[1], packed[V > 8 ? 2 : 0], packed[V > 8 ? 3 : 0]}};
                } else {
#pragma unroll
                    for (int k = 0; k < V; k++)
                        if (k < live) store<u8>(p.y, at + k, (u8)(packed[k / 4] >> (k % 4 * 8)));
                }
                return;
            }
        } else {
#pragma unroll
            for (int k = 0; k < V; k++) r[k] = (f32)v[k] + head[col + k];
            if (p.res_mode == RES_BEFORE) add_residual(p, r, res_at, live);
            Act::make(p.act, p.act_a, p.act_b).run(r);
            if (p.res_mode == RES_AFTER) add_residual(p, r, res_at, live);
        }
        if (p.out_dtype == DT_F16) {
            const bool whole = live == V && ((p.y | (u64)p.y_pix * 2 | (u64)p.y_img * 2) & 15) == 0;
            if (whole) {
#pragma unroll
                for (int k = 0; k < V; k += 8)
                    *(Vec4*)(p.y + (at + k) * 2) = Vec4{{f2h2(r[k], r[k + 1]), f2h2(r[k + 2], r[k + 3]), f2h2(r[k + 4], r[k + 5]), f2h2(r[k + 6], r[k + 7])}};
            } else {
#pragma unroll
                for (int k = 0; k < V; k++)
                    if (k < live) store<u16>(p.y, at + k, f2h(r[k]));
            }
        } else {
            const bool whole = live == V && ((p.y | (u64)p.y_pix * 4 | (u64)p.y_img * 4) & 15) == 0;
            if (whole) {
#pragma unroll
                for (int k = 0; k < V; k += 4)
                    *(Vec4*)(p.y + (at + k) * 4) = Vec4{{__float_as_uint(r[k]), __float_as_uint(r[k + 1]), __float_as_uint(r[k + 2]), __float_as_uint(r[k + 3])}};
            } else {
#pragma unroll
                for (int k = 0; k < V; k++)
                    if (k < live) store<f32>(p.y, at + k, r[k]);
            }
        }
    }

    static __device__ __forceinline__ void add_residual(const ConvParams& p, f32 (&r)[T::VEC], i64 at, u32 live) {
        if (p.out_dtype == DT_F16) {
            if (live == T::VEC && ((p.res | (u64)p.r_pix * 2 | (u64)p.r_img * 2) & 15) == 0) {
#pragma unroll
                for (int k = 0; k < T::VEC; k += 8) {
                    const Vec4 g = *(const Vec4*)(p.res + (at + k) * 2);
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        r[k + 2 * e] += h2lo(g.v[e]);
                        r[k + 2 * e + 1] += h2hi(g.v[e]);
                    }
                }
            } else {
#pragma unroll
                for (int k = 0; k < T::VEC; k++)
                    if (k < live) r[k] += h2f(load<u16>(p.res, at + k));
            }
        } else {
#pragma unroll
            for (int k = 0; k < T::VEC; k++)
                if (k < live) r[k] += load<f32>(p.res, at + k);
        }
    }
};

#define CONV(NAME, T, BM, BN, BKB, WM, WN, WK, STAGES, SEG, CAT, MINB)                                           \
    extern "C" __global__ void __launch_bounds__(32 * WM * WN * WK, MINB) NAME(const __grid_constant__ ConvParams p) { \
        extern __shared__ __align__(128) unsigned char shared[];                                                   \
        Conv<T, BM, BN, BKB, WM, WN, WK, STAGES, SEG, CAT>::run(p, shared);                                       \
    }

#endif
