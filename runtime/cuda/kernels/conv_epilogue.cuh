// The end of a convolution on tensor cores: bias, residual, activation, rounding, stores.
#pragma once
#include "common.cuh"

#if __CUDA_ARCH__ >= 800

struct F16 {
    typedef f32 Acc;
    static constexpr int BYTES = 2;
    static constexpr bool QUANT = false;
    static constexpr int VEC = 8;  // channels a thread writes at a time
    DEV void mma(f32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_f16(d, a, b0, b1); }
};

struct I8 {
    typedef i32 Acc;
    static constexpr int BYTES = 1;
    static constexpr bool QUANT = true;
    static constexpr int VEC = 16;
    DEV void mma(i32 (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_s8(d, a, b0, b1); }
};

// Where an output pixel goes, in elements of y and of the residual; y < 0: there is no such pixel.
struct alignas(8) RowOut { i32 y, res; };

// For a block's tile of BM pixels x BN channels, of which a warp has TM x TN in the fragments of m16n8.
template <class T, int BM, int BN, int TM, int TN, int THREADS>
struct Epilogue {
    typedef typename T::Acc Acc;
    // Shared memory begins with what each channel needs: bias; for int8 also the multiplier, the float bias and the table.
    static constexpr int CONSTS = T::QUANT ? (BN * 12 + 256 + 127) / 128 * 128 : (BN * 4 + 127) / 128 * 128;
    static constexpr int OUT_PITCH = BN * T::BYTES + 16;
    static constexpr int STAGED = BM * OUT_PITCH;
    static_assert(BN <= THREADS, "one thread a channel");

    DEV void load_constants(const ConvParams& p, u32 header, u32 n0) {
        const u32 tid = threadIdx.x;
        if (tid < BN) {
            const u32 n = n0 + tid;
            const u32 ok = n < (u32)p.cout ? 4 : 0;
            copy4_async(header + tid * 4, p.bias + n * 4, p.bias ? ok : 0);
            if (T::QUANT) {
                copy4_async(header + (BN + tid) * 4, p.mul + n * 4, ok);
                copy4_async(header + (2 * BN + tid) * 4, p.fbias + n * 4, p.fbias ? ok : 0);
            }
        }
        if (T::QUANT && p.table && tid < 16) copy16_async(header + BN * 12 + tid * 16, p.table + tid * 16, 16);
    }

    // The epilogue where no other warp has a share in the sums: straight from the registers, f16 and 8-bit results through
    // shared memory so that they leave 16 bytes at a time.
    DEV void run(const ConvParams& p, const unsigned char* shared, unsigned char* staged, const RowOut* rows, Acc (&acc)[TM / 16][TN / 8][4], u32 n0,
                 u32 row0, u32 col0) {
        const u32 lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
        const f32* head = (const f32*)shared;
        const Act act = Act::make(p.act, p.act_a, p.act_b);
        const bool bytes_out = T::QUANT && (p.out_dtype == DT_I8 || p.out_dtype == DT_U8);
        const bool half_out = p.out_dtype == DT_F16;
        const bool through = T::QUANT ? bytes_out : half_out;
        Quantizer quantizer;
        if (T::QUANT) quantizer = Quantizer::make(p);
        const unsigned char* table = T::QUANT && p.table ? shared + BN * 12 : nullptr;
        // Halves of the residual arrive one i ahead.
        u32 res[2][TN / 4];
        const bool pairs = !T::QUANT && p.res_mode != RES_NONE && half_out && ((p.res | (u64)p.r_pix * 2 | (u64)p.r_img * 2) & 3) == 0 && (p.cout & 1) == 0;
        if (pairs) fetch_residual(p, res[0], rows, row0 + g, n0 + col0 + t * 2);
#pragma unroll
        for (int i = 0; i < TM / 16; i++) {
            // Rows row0 + i*16 + g and + 8; columns col0 + j*8 + 2t and + 1.
            const u32 row = row0 + i * 16 + g;
            if (pairs && i + 1 < TM / 16) fetch_residual(p, res[(i + 1) & 1], rows, row + 16, n0 + col0 + t * 2);
            f32 v[TN / 2];
#pragma unroll
            for (int j = 0; j < TN / 8; j++) {
                const u32 col = col0 + j * 8 + t * 2;
                if (T::QUANT) {
                    const i32* bias = (const i32*)shared;
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const u32 c = col + (k & 1);
                        v[j * 4 + k] = mul_rn(i2f_rn((i32)acc[i][j][k] + bias[c]), head[BN + c]);
                    }
                } else {
                    struct alignas(8) Two { f32 v[2]; };
                    const Two b = *(const Two*)(head + col);
#pragma unroll
                    for (int k = 0; k < 4; k++) v[j * 4 + k] = (f32)acc[i][j][k] + b.v[k & 1];
                }
            }
            if (T::QUANT && p.fbias) {
#pragma unroll
                for (int j = 0; j < TN / 8; j++)
#pragma unroll
                    for (int k = 0; k < 4; k++) v[j * 4 + k] = add_rn(v[j * 4 + k], head[2 * BN + col0 + j * 8 + t * 2 + (k & 1)]);
            }
            // A loop of two so that the residual's code is there once.
#pragma unroll 1
            for (i32 phase = RES_BEFORE; phase <= RES_AFTER; phase++) {
                if (!T::QUANT && p.res_mode == phase) {
                    if (pairs) {
#pragma unroll
                        for (int r = 0; r < 2; r++)
#pragma unroll
                            for (int j = 0; j < TN / 8; j++) {
                                v[j * 4 + r * 2] += h2lo(res[i & 1][r * (TN / 8) + j]);
                                v[j * 4 + r * 2 + 1] += h2hi(res[i & 1][r * (TN / 8) + j]);
                            }
                    } else {
                        add_residual(p, v, rows, row, n0 + col0 + t * 2);
                    }
                }
                if (phase == RES_BEFORE) act.run(v);
            }
            if (through) {
                u32 byte[T::QUANT ? TN / 2 : 1];
                if constexpr (T::QUANT) quantizer.run(v, byte, table);
#pragma unroll
                for (int j = 0; j < TN / 8; j++)
#pragma unroll
                    for (int k = 0; k < 4; k += 2) {
                        unsigned char* to = staged + (row + k * 4) * OUT_PITCH + (col0 + j * 8 + t * 2) * T::BYTES;
                        if constexpr (T::QUANT) *(u16*)to = (u16)(byte[j * 4 + k] | byte[j * 4 + k + 1] << 8);
                        else *(u32*)to = f2h2(v[j * 4 + k], v[j * 4 + k + 1]);
                    }
            } else {
#pragma unroll
                for (int j = 0; j < TN / 8; j++)
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        const i32 to = rows[row + (k & 2) * 4].y;
                        const u32 n = n0 + col0 + j * 8 + t * 2 + (k & 1);
                        if (to < 0 || n >= (u32)p.cout) continue;
                        if (T::QUANT && half_out) store<u16>(p.y, (i64)to + n, f2h(v[j * 4 + k]));
                        else store<f32>(p.y, (i64)to + n, v[j * 4 + k]);
                    }
            }
        }
        if (!through) return;
        __syncthreads();
        constexpr u32 V = 16 / T::BYTES;
        const bool aligned = ((p.y | (u64)p.y_pix * T::BYTES | (u64)p.y_img * T::BYTES) & 15) == 0;
        for (u32 i = threadIdx.x; i < BM * BN / V; i += THREADS) {
            const u32 row = i / (BN / V), col = i % (BN / V) * V, n = n0 + col;
            const i32 to = rows[row].y;
            if (to < 0 || n >= (u32)p.cout) continue;
            const Vec4 four = *(const Vec4*)(staged + row * OUT_PITCH + col * T::BYTES);
            const u64 at = p.y + ((i64)to + n) * T::BYTES;
            if (aligned && n + V <= (u32)p.cout) {
                *(Vec4*)at = four;
            } else {
#pragma unroll 1
                for (u32 k = 0; k < V && n + k < (u32)p.cout; k++) {
                    if (T::BYTES == 2) ((u16*)at)[k] = ((const u16*)(staged + row * OUT_PITCH + col * 2))[k];
                    else ((u8*)at)[k] = (staged + row * OUT_PITCH + col)[k];
                }
            }
        }
    }

    // Pairs of halves: w[r * TN/8 + j] is row + r*8, channels n + j*8 and the next.
    DEV void fetch_residual(const ConvParams& p, u32 (&w)[TN / 4], const RowOut* rows, u32 row, u32 n) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const RowOut at = rows[row + r * 8];
#pragma unroll
            for (int j = 0; j < TN / 8; j++)
                w[r * (TN / 8) + j] = at.y >= 0 && n + j * 8 < (u32)p.cout ? *(const u32*)(p.res + ((i64)at.res + n + j * 8) * 2) : 0;
        }
    }

    // v[j*4 + k]: row + (k >> 1) * 8, channel n + j*8 + (k & 1).
    DEV void add_residual(const ConvParams& p, f32 (&v)[TN / 2], const RowOut* rows, u32 row, u32 n) {
        const bool half = p.out_dtype == DT_F16;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            if (rows[row + r * 8].y < 0) continue;
            const i64 at = (i64)rows[row + r * 8].res + n;
#pragma unroll
            for (int j = 0; j < TN / 8; j++)
#pragma unroll
                for (int k = 0; k < 2; k++) {
                    if (n + j * 8 + k >= (u32)p.cout) continue;
                    const i64 e = at + j * 8 + k;
                    v[j * 4 + r * 2 + k] += half ? h2f(load<u16>(p.res, e)) : load<f32>(p.res, e);
                }
        }
    }
};

#endif
