// Convolution on the tensor cores of compute capability 7.2 (Xavier): wmma, copies through registers. The same parameters,
// packing and results as conv_f16 and conv_i8; cin in units of 8 (f16) and 16 (int8), no two-source form. Runs on later ones too.
#include "common.cuh"

struct Half72 {
    typedef f32 Acc;
    static constexpr int BYTES = 2, FRAG = 8;
    static constexpr bool QUANT = false;
    DEV void load_a(u32 (&r)[8], u32 addr, u32 stride) {
        asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
                     : "r"(addr), "r"(stride));
    }
    DEV void load_b(u32 (&r)[8], u32 addr, u32 stride) {
        asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
                     : "r"(addr), "r"(stride));
    }
    DEV void mma(f32 (&d)[8], const u32 (&a)[8], const u32 (&b)[8]) {
        asm volatile(
            "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11,%12,%13,%14,%15}, "
            "{%16,%17,%18,%19,%20,%21,%22,%23}, {%0,%1,%2,%3,%4,%5,%6,%7};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "r"(b[0]), "r"(b[1]), "r"(b[2]),
              "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]));
    }
    DEV void put(u32 addr, const f32 (&d)[8], u32 stride) {
        asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%0], {%1,%2,%3,%4,%5,%6,%7,%8}, %9;" ::"r"(addr), "f"(d[0]), "f"(d[1]),
                     "f"(d[2]), "f"(d[3]), "f"(d[4]), "f"(d[5]), "f"(d[6]), "f"(d[7]), "r"(stride)
                     : "memory");
    }
};

struct Int72 {
    typedef i32 Acc;
    static constexpr int BYTES = 1, FRAG = 2;
    static constexpr bool QUANT = true;
    DEV void load_a(u32 (&r)[2], u32 addr, u32 stride) {
        asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.s8 {%0,%1}, [%2], %3;" : "=r"(r[0]), "=r"(r[1]) : "r"(addr), "r"(stride));
    }
    DEV void load_b(u32 (&r)[2], u32 addr, u32 stride) {
        asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.s8 {%0,%1}, [%2], %3;" : "=r"(r[0]), "=r"(r[1]) : "r"(addr), "r"(stride));
    }
    DEV void mma(i32 (&d)[8], const u32 (&a)[2], const u32 (&b)[2]) {
        asm volatile(
            "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9}, {%10,%11}, {%0,%1,%2,%3,%4,%5,%6,%7};"
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7])
            : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
    }
    DEV void put(u32 addr, const i32 (&d)[8], u32 stride) {
        asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.shared.s32 [%0], {%1,%2,%3,%4,%5,%6,%7,%8}, %9;" ::"r"(addr), "r"(d[0]), "r"(d[1]),
                     "r"(d[2]), "r"(d[3]), "r"(d[4]), "r"(d[5]), "r"(d[6]), "r"(d[7]), "r"(stride)
                     : "memory");
    }
};

// BM x BN by 2 x 2 warps, 64 bytes of K a step, two buffers.
template <class T, int BM, int BN>
DEV void conv(const ConvParams& p) {
    typedef typename T::Acc Acc;
    constexpr int THREADS = 128, BKB = 64, BK = BKB / T::BYTES, PITCH = BKB + 16, TM = BM / 2, TN = BN / 2;
    constexpr int A_N = BM * 4 / THREADS, B_N = BN * 4 / THREADS;
    constexpr int SUBS = BK / 16, SUM_PITCH = BN + 4;
    constexpr int PIPE = 2 * (BM + BN) * PITCH, SUMS = BM * SUM_PITCH * 4;
    __shared__ __align__(32) unsigned char shared[PIPE > SUMS ? PIPE : SUMS];
    const u32 tid = threadIdx.x, warp = tid >> 5, wm = warp & 1, wn = warp >> 1;
    const u32 tiles_n = (u32)(p.cout + BN - 1) / BN, m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
    const u32 pixels = (u32)p.oh * p.ow, total = (u32)p.batch * pixels;
    const i32 row_k = p.kh * p.kw * p.cin, steps = (row_k + BK - 1) / BK;
    const u32 seg = tid & 3, row = tid >> 2;
    constexpr int UNIT = 16 / T::BYTES;
    i32 off[A_N];
    u32 mask[A_N];
#pragma unroll
    for (int i = 0; i < A_N; i++) {
        const u32 m = m0 + row + i * 32, n = m / pixels, at = m - n * pixels;
        const i32 oy = at / (u32)p.ow, ox = at - (u32)oy * p.ow, iy = oy * p.sy - p.py, ix = ox * p.sx - p.px;
        off[i] = (i32)n * p.x_img + iy * p.x_row + ix * p.x_pix;
        u32 bits = 0;
        for (i32 k = 0; k < p.kh; k++) bits |= (u32)((u32)(iy + k * p.dy) < (u32)p.h) << k;
        for (i32 k = 0; k < p.kw; k++) bits |= (u32)((u32)(ix + k * p.dx) < (u32)p.wd) << (k + 16);
        mask[i] = m < total ? bits : 0;
    }
    i32 c = seg * UNIT, ky = 0, kx = 0, k = seg * UNIT;
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
    auto fetch = [&]() {
        const i32 shift = ky * p.dy * p.x_row + kx * p.dx * p.x_pix + c;
        const u32 want = ky < p.kh ? (1u << ky | 0x10000u << kx) : 0x80008000u;
#pragma unroll
        for (int i = 0; i < A_N; i++) {
            const bool ok = (mask[i] & want) == want;
            Vec4 v{{0, 0, 0, 0}};
            if (ok) v = *(const Vec4*)(p.x + (i64)(off[i] + shift) * T::BYTES);
            else if (T::QUANT) v = *(const Vec4*)p.pad;
            if (T::QUANT) {
#pragma unroll
                for (int e = 0; e < 4; e++) v.v[e] ^= (u32)p.x_xor;
            }
            ra[i] = v;
        }
#pragma unroll
        for (int i = 0; i < B_N; i++) {
            const u32 n = n0 + row + i * 32;
            rb[i] = Vec4{{0, 0, 0, 0}};
            if (n < (u32)p.cout && k < row_k) rb[i] = *(const Vec4*)(p.w + ((i64)n * row_k + k) * T::BYTES);
        }
        k += BK;
        c += BK;
        settle();
    };
    Acc acc[TM / 16][TN / 16][8];
#pragma unroll
    for (int i = 0; i < TM / 16; i++)
#pragma unroll
        for (int j = 0; j < TN / 16; j++)
#pragma unroll
            for (int e = 0; e < 8; e++) acc[i][j][e] = 0;
    const u32 base = smem_addr(shared);
    fetch();
    for (i32 step = 0; step < steps; step++) {
        unsigned char* a = shared + (step & 1) * (BM + BN) * PITCH;
        unsigned char* b = a + BM * PITCH;
#pragma unroll
        for (int i = 0; i < A_N; i++) *(Vec4*)(a + (row + i * 32) * PITCH + seg * 16) = ra[i];
#pragma unroll
        for (int i = 0; i < B_N; i++) *(Vec4*)(b + (row + i * 32) * PITCH + seg * 16) = rb[i];
        __syncthreads();
        if (step + 1 < steps) fetch();
        const u32 pa = base + (step & 1) * (BM + BN) * PITCH, pb = pa + BM * PITCH;
#pragma unroll
        for (int sub = 0; sub < SUBS; sub++) {
            u32 fa[TM / 16][T::FRAG], fb[TN / 16][T::FRAG];
#pragma unroll
            for (int i = 0; i < TM / 16; i++) T::load_a(fa[i], pa + (wm * TM + i * 16) * PITCH + sub * 16 * T::BYTES, PITCH / T::BYTES);
#pragma unroll
            for (int j = 0; j < TN / 16; j++) T::load_b(fb[j], pb + (wn * TN + j * 16) * PITCH + sub * 16 * T::BYTES, PITCH / T::BYTES);
#pragma unroll
            for (int i = 0; i < TM / 16; i++)
#pragma unroll
                for (int j = 0; j < TN / 16; j++) T::mma(acc[i][j], fa[i], fb[j]);
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TM / 16; i++)
#pragma unroll
        for (int j = 0; j < TN / 16; j++) T::put(base + ((wm * TM + i * 16) * SUM_PITCH + wn * TN + j * 16) * 4, acc[i][j], SUM_PITCH);
    __syncthreads();
    const Acc* sums = (const Acc*)shared;
    const i32 lo = p.out_dtype == DT_I8 ? -128 : 0, hi = lo + 255;
    for (u32 i = tid; i < BM * BN; i += THREADS) {
        const u32 r = i / BN, col = i % BN, m = m0 + r, n = n0 + col;
        if (m >= total || n >= (u32)p.cout) continue;
        const u32 image = m / pixels, at = m - image * pixels;
        const i64 to = (i64)image * p.y_img + (i64)at * p.y_pix + n;
        const Acc s = sums[r * SUM_PITCH + col];
        f32 v;
        if (T::QUANT) {
            const i32 sum = (i32)((u32)(i32)s + (u32)(p.bias ? load<i32>(p.bias, n) : 0));
            v = mul_rn(i2f_rn(sum), load<f32>(p.mul, n));
            if (p.fbias) v = add_rn(v, load<f32>(p.fbias, n));
            v = act_exact(v, p.act, p.act_a, p.act_b);
            if (p.out_dtype == DT_I8 || p.out_dtype == DT_U8) {
                u32 byte = (u32)quantize(v, p.q_scale, p.q_zero, lo, hi) & 255u;
                if (p.table) byte = load<u8>(p.table, byte);
                store<u8>(p.y, to, (u8)byte);
                continue;
            }
        } else {
            const f32 res = p.res_mode ? load_f32(p.res, (i64)image * p.r_img + (i64)at * p.r_pix + n, p.out_dtype) : 0.f;
            v = (f32)s + (p.bias ? load<f32>(p.bias, n) : 0.f);
            if (p.res_mode == RES_BEFORE) v += res;
            v = act_fast(v, p.act, p.act_a, p.act_b);
            if (p.res_mode == RES_AFTER) v += res;
        }
        if (p.out_dtype == DT_F16) store<u16>(p.y, to, f2h(v));
        else store<f32>(p.y, to, v);
    }
}

#define CONV72(NAME, T, BM, BN) \
    KERNEL __launch_bounds__(128) NAME(const __grid_constant__ ConvParams p) { conv<T, BM, BN>(p); }
#if __CUDA_ARCH__ >= 720
CONV72(conv72_f16_64x64x32_k1_s2, Half72, 64, 64)
CONV72(conv72_f16_64x32x32_k1_s2, Half72, 64, 32)
CONV72(conv72_i8_64x64x64_k1_s2, Int72, 64, 64)
CONV72(conv72_i8_64x32x64_k1_s2, Int72, 64, 32)
#endif
