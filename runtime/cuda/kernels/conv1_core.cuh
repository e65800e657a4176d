// 1 x 1 convolution of dense pictures with few input channels: bound by memory, so made to keep the memory busy.
//
// Its pixels are one long matrix. A block keeps the weights of its BN channels in shared memory and goes over tiles of BM pixels
// (every gridDim.x-th), with the next STAGES - 1 tiles on their way while it works on one. K bytes of channels at most.
#pragma once
#include "conv_epilogue.cuh"

#if __CUDA_ARCH__ >= 800

template <class T, int BM, int BN, int KB, int WM, int WN, int STAGES>
struct Conv1 {
    typedef typename T::Acc Acc;
    static constexpr int THREADS = 32 * WM * WN, TM = BM / WM, TN = BN / WN;
    static constexpr int PITCH = KB + 16, SEGS = KB / 16, UNIT = 16 / T::BYTES;
    typedef Epilogue<T, BM, BN, TM, TN, THREADS> End;
    static constexpr int A_BYTES = BM * PITCH, A_N = BM * SEGS / THREADS, OUT_PITCH = End::OUT_PITCH;
    static constexpr int SHARED = End::CONSTS + BN * PITCH + STAGES * A_BYTES + BM * OUT_PITCH;
    static_assert(BM * SEGS % THREADS == 0 && KB % 32 == 0 && SHARED <= 163 * 1024, "tile");

    DEV void run(const ConvParams& p, unsigned char* shared) {
        const u32 tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, wm = warp % WM, wn = warp / WM, g = lane >> 2, t = lane & 3;
        const u32 header = smem_addr(shared), b_base = header + End::CONSTS, a_base = b_base + BN * PITCH;
        unsigned char* staged = shared + End::CONSTS + BN * PITCH + STAGES * A_BYTES;
        const u32 total = (u32)p.batch * p.oh * p.ow, n0 = blockIdx.y * BN;
        const u32 tiles = (total + BM - 1) / BM;

        End::load_constants(p, header, n0);
        for (u32 i = tid; i < BN * SEGS; i += THREADS) {
            const u32 row = i / SEGS, seg = i % SEGS;
            const bool ok = n0 + row < (u32)p.cout && (i32)seg * UNIT < p.cin;
            copy16_async(b_base + row * PITCH + seg * 16, p.w + ((i64)(n0 + row) * p.cin + seg * UNIT) * T::BYTES, ok ? 16 : 0);
        }
        auto load_a = [&](u32 tile, u32 stage) {
#pragma unroll
            for (int i = 0; i < A_N; i++) {
                const u32 item = tid + i * THREADS, row = item / SEGS, seg = item % SEGS;
                const u32 m = tile * BM + row;
                const bool ok = m < total && (i32)seg * UNIT < p.cin;
                copy16_async(a_base + stage * A_BYTES + row * PITCH + seg * 16, p.x + ((i64)m * p.x_pix + seg * UNIT) * T::BYTES, ok ? 16 : 0);
            }
        };
        wait_previous();
#pragma unroll
        for (int s = 0; s < STAGES - 1; s++) {
            const u32 tile = blockIdx.x + s * gridDim.x;
            if (tile < tiles) load_a(tile, s);
            commit_async();
        }

        const Act act = Act::make(p.act, p.act_a, p.act_b);
        const f32* head = (const f32*)shared;
        Quantizer quantizer;
        if (T::QUANT) quantizer = Quantizer::make(p);
        const unsigned char* table = T::QUANT && p.table ? shared + BN * 12 : nullptr;
        const u32 a_lane = a_base + (wm * TM + (lane & 15)) * PITCH + (lane >> 4) * 16;
        const u32 b_lane = b_base + (wn * TN + (lane & 7) + (lane >> 4 << 3)) * PITCH + (lane >> 3 & 1) * 16;
        u32 read = 0, write = STAGES - 1;
#pragma unroll 1
        for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            wait_async<STAGES - 2>();
            __syncthreads();
            const u32 ahead = tile + (STAGES - 1) * gridDim.x;
            if (ahead < tiles) load_a(ahead, write);
            commit_async();
            Acc acc[TM / 16][TN / 8][4];
#pragma unroll
            for (int i = 0; i < TM / 16; i++)
#pragma unroll
                for (int j = 0; j < TN / 8; j++)
#pragma unroll
                    for (int k = 0; k < 4; k++) acc[i][j][k] = 0;
#pragma unroll
            for (int sub = 0; sub < KB / 32; sub++) {
                u32 a[TM / 16][4], b[(TN + 15) / 16][4];
#pragma unroll
                for (int i = 0; i < TM / 16; i++) {
                    ldmatrix4(a[i], a_lane + read * A_BYTES + i * 16 * PITCH + sub * 32);
                    if (T::QUANT) {
#pragma unroll
                        for (int k = 0; k < 4; k++) a[i][k] ^= (u32)p.x_xor;
                    }
                }
#pragma unroll
                for (int j = 0; j < (TN + 15) / 16; j++) ldmatrix4(b[j], b_lane + j * 16 * PITCH + sub * 32);
#pragma unroll
                for (int i = 0; i < TM / 16; i++)
#pragma unroll
                    for (int j = 0; j < TN / 8; j++) T::mma(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
            }
#pragma unroll
            for (int i = 0; i < TM / 16; i++) {
                f32 v[TN / 2];
#pragma unroll
                for (int j = 0; j < TN / 8; j++) {
                    const u32 col = wn * TN + j * 8 + t * 2;
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        if (T::QUANT) {
                            v[j * 4 + k] = mul_rn(i2f_rn((i32)acc[i][j][k] + ((const i32*)shared)[col + (k & 1)]), head[BN + col + (k & 1)]);
                        } else {
                            v[j * 4 + k] = (f32)acc[i][j][k] + head[col + (k & 1)];
                        }
                    }
                }
                if (T::QUANT && p.fbias) {
#pragma unroll
                    for (int j = 0; j < TN / 8; j++)
#pragma unroll
                        for (int k = 0; k < 4; k++) v[j * 4 + k] = add_rn(v[j * 4 + k], head[2 * BN + wn * TN + j * 8 + t * 2 + (k & 1)]);
                }
                act.run(v);
                u32 byte[T::QUANT ? TN / 2 : 1];
                if constexpr (T::QUANT) quantizer.run(v, byte, table);
#pragma unroll
                for (int j = 0; j < TN / 8; j++)
#pragma unroll
                    for (int k = 0; k < 4; k += 2) {
                        unsigned char* to = staged + (wm * TM + i * 16 + g + k * 4) * OUT_PITCH + (wn * TN + j * 8 + t * 2) * T::BYTES;
                        if constexpr (T::QUANT) *(u16*)to = (u16)(byte[j * 4 + k] | byte[j * 4 + k + 1] << 8);
                        else *(u32*)to = f2h2(v[j * 4 + k], v[j * 4 + k + 1]);
                    }
            }
            __syncthreads();
#pragma unroll
            for (int i = 0; i < (BM * BN * T::BYTES / 16 + THREADS - 1) / THREADS; i++) {
                constexpr u32 PIECES = BN * T::BYTES / 16;
                const u32 item = tid + i * THREADS, row = item / PIECES, piece = item % PIECES, m = tile * BM + row, n = n0 + piece * UNIT;
                if (row < BM && m < total && n < (u32)p.cout)
                    *(Vec4*)(p.y + ((i64)m * p.y_pix + n) * T::BYTES) = *(const Vec4*)(staged + row * OUT_PITCH + piece * 16);
            }
            read = read + 1 == STAGES ? 0 : read + 1;
            write = write + 1 == STAGES ? 0 : write + 1;
        }
        let_next_start();
        wait_async<0>();
    }
};

#define CONV1(NAME, T, BM, BN, KB, WM, WN, STAGES, MINB)                                                         \
    extern "C" __global__ void __launch_bounds__(32 * WM * WN, MINB) NAME(const __grid_constant__ ConvParams p) { \
        extern __shared__ __align__(128) unsigned char shared[];                                               \
        Conv1<T, BM, BN, KB, WM, WN, STAGES>::run(p, shared);                                                  \
    }

#endif
