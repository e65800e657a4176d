// The first convolution of a detector: K x K (3 or 6), stride 2, over a picture of 3 channels and a spare one.
//
// So few channels waste most of an implicit GEMM's copies. Here a block brings the patch under its TH x 16 output pixels to shared
// memory once, and each thread reads its fragments from there: a 32-bit word is half a pixel (f16) or a whole one (int8). K is
// ordered (ky, kx padded to 4 or 8, channel); the weights of the padding are zero.
#pragma once
#include "conv_epilogue.cuh"

#if __CUDA_ARCH__ >= 800

template <class T, int K, int BN, int TH>
struct Stem {
    typedef typename T::Acc Acc;
    static constexpr int THREADS = 128, TW = 16;
    static constexpr int KP = K <= 4 ? 4 : 8;               // kx padded
    static constexpr int PIXEL = 4 * T::BYTES;              // bytes
    static constexpr int KYP = T::QUANT && K == 3 ? 4 : K;  // int8 takes two ky at a time
    static constexpr int PW = 2 * (TW - 1) + KP, PH = 2 * (TH - 1) + KYP;
    static constexpr int STEPS = T::QUANT ? (K == 3 ? 2 : K) : K * KP / 4;
    static constexpr int CONSTS = Epilogue<T, 16, BN, 16, BN, THREADS>::CONSTS;
    static constexpr int OUT_PITCH = BN * T::BYTES + 16;
    static constexpr int PATCH = (PH * PW * PIXEL + 15) / 16 * 16;
    static constexpr int SHARED = CONSTS + PATCH + 4 * 16 * OUT_PITCH;

    // Place of a word of step `s`: second = the half of the fragment with the higher k.
    DEV void place(int s, int second, u32 t, u32& ky, u32& kx) {
        if (T::QUANT) {
            ky = K == 3 ? 2 * s + second : s;
            kx = K == 3 ? t : t + 4 * second;
        } else {
            ky = s / (KP / 4);
            kx = s % (KP / 4) * 4 + 2 * second + (t >> 1);
        }
    }

    DEV void run(const ConvParams& p, unsigned char* shared) {
        const u32 tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, g = lane >> 2, t = lane & 3;
        const u32 tiles_x = (u32)(p.ow + TW - 1) / TW, tiles_y = (u32)(p.oh + TH - 1) / TH;
        const u32 image = blockIdx.x / (tiles_x * tiles_y), tile = blockIdx.x - image * tiles_x * tiles_y;
        const u32 oy0 = tile / tiles_x * TH, ox0 = tile % tiles_x * TW, n0 = blockIdx.y * BN;
        const u32 header = smem_addr(shared), patch = header + CONSTS;
        Epilogue<T, 16, BN, 16, BN, THREADS>::load_constants(p, header, n0);

        // Weights straight into fragments: rows of kh*kw*4 padded to 16 bytes.
        constexpr u32 ROW = (K * K * PIXEL + 15) / 16 * 16;
        const u32 word = T::QUANT ? 0 : (t & 1) * 4;
        u32 b[STEPS][BN / 8][2];
#pragma unroll
        for (int s = 0; s < STEPS; s++)
#pragma unroll
            for (int j = 0; j < BN / 8; j++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    u32 ky, kx;
                    place(s, h, t, ky, kx);
                    const u32 n = n0 + j * 8 + g;
                    b[s][j][h] = kx < K && ky < K && n < (u32)p.cout ? *(const u32*)(p.w + (u64)n * ROW + (ky * K + kx) * PIXEL + word) : 0;
                }

        wait_previous();
        const i32 iy0 = (i32)oy0 * 2 - p.py, ix0 = (i32)ox0 * 2 - p.px;
        const u64 from = p.x + (i64)image * p.x_img * T::BYTES;
        // A thread copies one column of the patch, every LINES-th pixel of it.
        constexpr u32 LINES = THREADS / PW;
        const u32 column = tid % PW, line = tid / PW;
        const i32 ix = ix0 + (i32)column;
        if (line < LINES) {
            const bool across = (u32)ix < (u32)p.wd;
            u32 to = patch + (line * PW + column) * PIXEL;
            i32 offset = (iy0 + (i32)line) * p.x_row + ix * p.x_pix;
#pragma unroll 4
            for (u32 y = line; y < PH; y += LINES) {
                const bool ok = across && (u32)(iy0 + (i32)y) < (u32)p.h;
                const u64 src = from + (i64)offset * T::BYTES;
                if (T::QUANT) copy4_async(to, ok ? src : p.pad, 4);
                else copy8_async(to, src, ok ? 8 : 0);
                to += LINES * PW * PIXEL;
                offset += LINES * p.x_row;
            }
        }
        commit_async();
        let_next_start();
        wait_async<0>();
        __syncthreads();

        const Act act = Act::make(p.act, p.act_a, p.act_b);
        const f32* head = (const f32*)shared;
        f32 bias[BN / 8][2];
        if (!T::QUANT) {
#pragma unroll
            for (int j = 0; j < BN / 8; j++)
#pragma unroll
                for (int k = 0; k < 2; k++) bias[j][k] = head[j * 8 + t * 2 + k];
        }
        unsigned char* staged = shared + CONSTS + PATCH + warp * 16 * OUT_PITCH;
        const bool bytes_out = T::QUANT && (p.out_dtype == DT_I8 || p.out_dtype == DT_U8);
        const bool half_out = p.out_dtype == DT_F16;
        const bool through = T::QUANT ? bytes_out : half_out;
        Quantizer quantizer;
        if (T::QUANT) quantizer = Quantizer::make(p);
        const unsigned char* table = T::QUANT && p.table ? shared + BN * 12 : nullptr;
        constexpr u32 V = 16 / T::BYTES;
        const bool aligned = ((p.y | (u64)p.y_pix * T::BYTES | (u64)p.y_img * T::BYTES) & 15) == 0;

#pragma unroll 1
        for (u32 r = warp; r < TH; r += 4) {
            const u32 oy = oy0 + r;
            if (oy >= (u32)p.oh) break;
            Acc acc[BN / 8][4];
#pragma unroll
            for (int j = 0; j < BN / 8; j++)
#pragma unroll
                for (int k = 0; k < 4; k++) acc[j][k] = 0;
#pragma unroll
            for (int s = 0; s < STEPS; s++) {
                u32 a[4];
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    u32 ky, kx;
                    place(s, h, t, ky, kx);
                    const u32 at = CONSTS + ((r * 2 + ky) * PW + g * 2 + kx) * PIXEL + word;
                    a[h * 2] = *(const u32*)(shared + at);
                    a[h * 2 + 1] = *(const u32*)(shared + at + 16 * PIXEL);
                    if (T::QUANT) {
                        a[h * 2] ^= (u32)p.x_xor;
                        a[h * 2 + 1] ^= (u32)p.x_xor;
                    }
                }
#pragma unroll
                for (int j = 0; j < BN / 8; j++) T::mma(acc[j], a, b[s][j][0], b[s][j][1]);
            }
            f32 v[BN / 2];
#pragma unroll
            for (int j = 0; j < BN / 8; j++)
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    const u32 c = j * 8 + t * 2 + (k & 1);
                    if (T::QUANT) {
                        v[j * 4 + k] = mul_rn(i2f_rn((i32)acc[j][k] + ((const i32*)shared)[c]), head[BN + c]);
                        if (p.fbias) v[j * 4 + k] = add_rn(v[j * 4 + k], head[2 * BN + c]);
                    } else {
                        v[j * 4 + k] = (f32)acc[j][k] + bias[j][k & 1];
                    }
                }
            act.run(v);
            const i64 row_at = (i64)image * p.y_img + (i64)(oy * (u32)p.ow + ox0) * p.y_pix;
            if (!through) {
#pragma unroll
                for (int j = 0; j < BN / 8; j++)
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const u32 px = g + (k & 2) * 4, n = n0 + j * 8 + t * 2 + (k & 1);
                        if (ox0 + px >= (u32)p.ow || n >= (u32)p.cout) continue;
                        const i64 at = row_at + (i64)px * p.y_pix + n;
                        if (T::QUANT && half_out) store<u16>(p.y, at, f2h(v[j * 4 + k]));
                        else store<f32>(p.y, at, v[j * 4 + k]);
                    }
                continue;
            }
            u32 byte[T::QUANT ? BN / 2 : 1];
            if constexpr (T::QUANT) quantizer.run(v, byte, table);
#pragma unroll
            for (int j = 0; j < BN / 8; j++)
#pragma unroll
                for (int k = 0; k < 4; k += 2) {
                    unsigned char* to = staged + (g + k * 4) * OUT_PITCH + (j * 8 + t * 2) * T::BYTES;
                    if constexpr (T::QUANT) *(u16*)to = (u16)(byte[j * 4 + k] | byte[j * 4 + k + 1] << 8);
                    else *(u32*)to = f2h2(v[j * 4 + k], v[j * 4 + k + 1]);
                }
            __syncwarp();
            constexpr u32 PIECES = BN / V;
#pragma unroll
            for (u32 i = 0; i < (16 * PIECES + 31) / 32; i++) {
                const u32 item = i * 32 + lane, px = item / PIECES, c = item % PIECES * V, n = n0 + c;
                if (px >= 16 || ox0 + px >= (u32)p.ow || n >= (u32)p.cout) continue;
                const u64 at = p.y + (row_at + (i64)px * p.y_pix + n) * T::BYTES;
                const unsigned char* src = staged + px * OUT_PITCH + c * T::BYTES;
                if (aligned && n + V <= (u32)p.cout) {
                    *(Vec4*)at = *(const Vec4*)src;
                } else {
#pragma unroll 1
                    for (u32 k = 0; k < V && n + k < (u32)p.cout; k++) {
                        if (T::BYTES == 2) ((u16*)at)[k] = ((const u16*)src)[k];
                        else ((u8*)at)[k] = src[k];
                    }
                }
            }
            __syncwarp();
        }
    }
};

#define STEM(NAME, T, K, BN, TH)                                                          \
    extern "C" __global__ void __launch_bounds__(128) NAME(const __grid_constant__ ConvParams p) { \
        extern __shared__ __align__(128) unsigned char shared[];                          \
        Stem<T, K, BN, TH>::run(p, shared);                                               \
    }

#endif
