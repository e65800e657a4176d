// 3 x 3 convolution, stride 1 or 2, on tensor cores with the picture's patch kept in shared memory.
//
// An implicit GEMM copies each pixel nine times. Here a block brings the patch under its TH x 8 output pixels to shared memory once
// for every CB bytes of channels (a chunk) and multiplies it with nine taps' weights, which go by a kernel row (three taps) at
// a time. Rows of 8 pixels keep ldmatrix at consecutive places (stride 2: a patch row has its even pixels first, then the
// odd ones); a pixel's bytes are padded by 16, so that the eight it reads at once are in different banks and every address is a
// constant away from one a thread computes once. BUFS = 2 patches let the next chunk arrive during this one; 1 is for cin of one chunk.
#pragma once
#include "conv_epilogue.cuh"

#if __CUDA_ARCH__ >= 800

template <class T, int S, int TH, int BN, int CB, int WM, int WN, int STAGES, int BUFS>
struct Conv3 {
    typedef typename T::Acc Acc;
    static constexpr int THREADS = 32 * WM * WN, BM = TH * 8, TM = BM / WM, TN = BN / WN;
    static constexpr int PW = S == 1 ? 10 : 17, PIXELS = ((TH - 1) * S + 3) * PW, PITCH = CB + 16, SEGS = CB / 16;
    static constexpr int A_BYTES = PIXELS * PITCH, B_ROWS = 3 * BN, B_BYTES = B_ROWS * PITCH;
    static constexpr int A_N = (PIXELS * SEGS + THREADS - 1) / THREADS, B_N = (B_ROWS * SEGS + THREADS - 1) / THREADS;
    typedef Epilogue<T, BM, BN, TM, TN, THREADS> End;
    static constexpr int HEADER = End::CONSTS + BM * 8;
    static constexpr int PIPE = BUFS * A_BYTES + STAGES * B_BYTES;
    static constexpr int SHARED = HEADER + (PIPE > End::STAGED ? PIPE : End::STAGED);
    static_assert(TM % 16 == 0 && TN % 8 == 0 && SHARED <= 163 * 1024 && A_N <= 32, "tile");

    DEV void run(const ConvParams& p, unsigned char* shared) {
        const u32 tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, wm = warp % WM, wn = warp / WM;
        const u32 tiles_n = (u32)(p.cout + BN - 1) / BN;
        const u32 tiles_x = (u32)(p.ow + 7) / 8, tiles_y = (u32)(p.oh + TH - 1) / TH;
        const u32 spot = blockIdx.x / tiles_n, n0 = (blockIdx.x - spot * tiles_n) * BN;
        const u32 image = spot / (tiles_x * tiles_y), tile = spot - image * tiles_x * tiles_y;
        const u32 oy0 = tile / tiles_x * TH, ox0 = tile % tiles_x * 8;
        const u32 header = smem_addr(shared), a_base = header + HEADER, b_base = a_base + BUFS * A_BYTES;
        constexpr int UNIT = 16 / T::BYTES;
        const i32 chunks = (p.cin * T::BYTES + CB - 1) / CB, steps = chunks * 3;

        // Weights: piece i of this thread is row (kx, n), 16 bytes `seg` of the chunk.
        i32 b_off[B_N];
        u32 b_ok = 0;
#pragma unroll
        for (int i = 0; i < B_N; i++) {
            const u32 item = tid + i * THREADS, row = item / SEGS, seg = item % SEGS, kx = row / BN, n = n0 + row % BN;
            b_off[i] = (i32)(n * 9 + kx) * p.cin + seg * UNIT;
            if (row < B_ROWS && n < (u32)p.cout) b_ok |= 1u << i;
        }
        i32 b_chunk = 0, b_ky = 0;
        auto load_b = [&](u32 stage) {
            const i32 shift = b_ky * 3 * p.cin + b_chunk * (CB / T::BYTES);
#pragma unroll
            for (int i = 0; i < B_N; i++) {
                const u32 item = tid + i * THREADS, row = item / SEGS, seg = item % SEGS;
                if (B_ROWS * SEGS % THREADS != 0 && row >= B_ROWS) break;
                const bool ok = (b_ok >> i & 1) && b_chunk * (CB / T::BYTES) + (i32)seg * UNIT < p.cin;
                copy16_async(b_base + stage * B_BYTES + row * PITCH + seg * 16, p.w + (i64)(b_off[i] + shift) * T::BYTES, ok ? 16 : 0);
            }
            if (++b_ky == 3) {
                b_ky = 0;
                b_chunk++;
            }
        };
        End::load_constants(p, header, n0);
#pragma unroll
        for (int s = 0; s < STAGES - 1; s++)
            if (s < steps) load_b(s);

        // Pixels of the patch.
        i32 a_off[A_N];
        u32 a_ok = 0;
#pragma unroll
        for (int i = 0; i < A_N; i++) {
            const u32 item = tid + i * THREADS, pixel = item / SEGS, seg = item % SEGS, y = pixel / PW, at = pixel - y * PW;
            const u32 x = S == 1 ? at : at < 9 ? 2 * at : 2 * at - 17;
            const i32 iy = (i32)(oy0 * S + y) - p.py, ix = (i32)(ox0 * S + x) - p.px;
            a_off[i] = (i32)image * p.x_img + iy * p.x_row + ix * p.x_pix + (i32)seg * UNIT;
            if (pixel < PIXELS && (u32)iy < (u32)p.h && (u32)ix < (u32)p.wd) a_ok |= 1u << i;
        }
        auto load_a = [&](i32 chunk) {
            const u32 base = a_base + (BUFS == 2 ? (chunk & 1) * A_BYTES : 0);
            const i32 c0 = chunk * (CB / T::BYTES);
#pragma unroll
            for (int i = 0; i < A_N; i++) {
                const u32 item = tid + i * THREADS, pixel = item / SEGS, seg = item % SEGS;
                if (PIXELS * SEGS % THREADS != 0 && pixel >= PIXELS) break;
                const bool ok = (a_ok >> i & 1) && c0 + (i32)seg * UNIT < p.cin;
                const u64 src = p.x + (i64)(a_off[i] + c0) * T::BYTES;
                if (T::QUANT) copy16_cached(base + pixel * PITCH + seg * 16, ok ? src : p.pad, 16);
                else copy16_cached(base + pixel * PITCH + seg * 16, src, ok ? 16 : 0);
            }
        };
        RowOut* rows = (RowOut*)(shared + End::CONSTS);
        for (u32 r = tid; r < BM; r += THREADS) {
            const u32 oy = oy0 + r / 8, ox = ox0 + r % 8;
            const bool inside = oy < (u32)p.oh && ox < (u32)p.ow;
            const i32 pixel = oy * (u32)p.ow + ox;
            rows[r] = RowOut{inside ? (i32)image * p.y_img + pixel * p.y_pix : -1, (i32)image * p.r_img + pixel * p.r_pix};
        }

        wait_previous();
        load_a(0);
        commit_async();
#pragma unroll
        for (int s = 1; s < STAGES - 1; s++) commit_async();

        Acc acc[TM / 16][TN / 8][4];
#pragma unroll
        for (int i = 0; i < TM / 16; i++)
#pragma unroll
            for (int j = 0; j < TN / 8; j++)
#pragma unroll
                for (int k = 0; k < 4; k++) acc[i][j][k] = 0;

        const u32 a_lane = a_base + ((wm * (TM / 8) + (lane >> 3 & 1)) * S * PW + (lane & 7)) * PITCH + (lane >> 4) * 16;
        const u32 b_lane = b_base + (wn * TN + (lane & 7) + (lane >> 4 << 3)) * PITCH + (lane >> 3 & 1) * 16;
        u32 read = 0, write = STAGES - 1;
        i32 ky = 0, chunk = 0;           // of the step that is computed
        i32 ahead = (STAGES - 1) % 3, ahead_chunk = (STAGES - 1) / 3;  // of the step that is loaded
#pragma unroll 1
        for (i32 step = 0; step < steps; step++) {
            wait_async<STAGES - 2>();
            __syncthreads();
            if (step + STAGES - 1 < steps) {
                load_b(write);
                if (ahead == 0) load_a(ahead_chunk);
            }
            commit_async();
            if (++ahead == 3) {
                ahead = 0;
                ahead_chunk++;
            }
            const u32 a_step = a_lane + (BUFS == 2 ? (chunk & 1) * A_BYTES : 0) + ky * PW * PITCH, b_step = b_lane + read * B_BYTES;
#pragma unroll
            for (int kx = 0; kx < 3; kx++)
#pragma unroll
                for (int sub = 0; sub < CB / 32; sub++) {
                    u32 a[TM / 16][4], b[(TN + 15) / 16][4];
#pragma unroll
                    for (int i = 0; i < TM / 16; i++) {
                        ldmatrix4(a[i], a_step + i * 2 * S * PW * PITCH + (S == 1 ? kx : (kx & 1) * 9 + (kx >> 1)) * PITCH + sub * 32);
                        if (T::QUANT) {
#pragma unroll
                            for (int k = 0; k < 4; k++) a[i][k] ^= (u32)p.x_xor;
                        }
                    }
#pragma unroll
                    for (int j = 0; j < (TN + 15) / 16; j++) ldmatrix4(b[j], b_step + j * 16 * PITCH + kx * BN * PITCH + sub * 32);
#pragma unroll
                    for (int i = 0; i < TM / 16; i++)
#pragma unroll
                        for (int j = 0; j < TN / 8; j++) T::mma(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
                }
            if (++ky == 3) {
                ky = 0;
                chunk++;
            }
            read = read + 1 == STAGES ? 0 : read + 1;
            write = write + 1 == STAGES ? 0 : write + 1;
        }
        let_next_start();
        wait_async<0>();
        __syncthreads();
        End::run(p, shared, shared + HEADER, rows, acc, n0, wm * TM, wn * TN);
    }
};

#define CONV3(NAME, T, S, TH, BN, CB, WM, WN, STAGES, BUFS, MINB)                                            \
    extern "C" __global__ void __launch_bounds__(32 * WM * WN, MINB) NAME(const __grid_constant__ ConvParams p) { \
        extern __shared__ __align__(128) unsigned char shared[];                                               \
        Conv3<T, S, TH, BN, CB, WM, WN, STAGES, BUFS>::run(p, shared);                                        \
    }

#endif
