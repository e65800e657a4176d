// Runs the kernels on the CPU: each CUDA thread is a fibre, a barrier is where fibres wait for each other. For checking what kernels
// compute where there is no GPU; it says nothing about speed, and copies that are asynchronous on a GPU are done at once.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define __CUDA_ARCH__ 870
#define __global__
#define __device__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static

struct Index { unsigned x, y, z; };
static Index threadIdx, blockIdx, blockDim, gridDim;

typedef void (*Body)(const void* params);

struct Fibre {
    void* sp;
    char* stack;
    int state;  // 0 runs, 1 waits for its warp, 2 waits for its block, 3 is done
};
static const int MOST = 1024;
static const size_t STACK = 96 * 1024;
static Fibre fibres[MOST];
static unsigned char lanes[MOST][64];
static void* scheduler_sp;
static int current;
static Body the_body;
static const void* the_params;
alignas(128) static unsigned char emu_shared[232 * 1024];

extern "C" void emu_switch(void** from, void* to);
asm(R"(
.text
.type emu_switch,@function
emu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

static void emu_wait(int state) {
    const int me = current;
    fibres[me].state = state;
    emu_switch(&fibres[me].sp, scheduler_sp);
    threadIdx.x = (unsigned)me;
}

static void emu_entry() {
    threadIdx.x = (unsigned)current;
    the_body(the_params);
    fibres[current].state = 3;
    emu_switch(&fibres[current].sp, scheduler_sp);
    abort();
}

static void emu_block(int threads) {
    for (int t = 0; t < threads; t++) {
        if (!fibres[t].stack) fibres[t].stack = (char*)aligned_alloc(64, STACK);
        void** sp = (void**)(fibres[t].stack + STACK - 64);
        *--sp = nullptr;                // where emu_entry would return to
        *--sp = (void*)emu_entry;
        for (int r = 0; r < 6; r++) *--sp = nullptr;
        fibres[t].sp = sp;
        fibres[t].state = 0;
    }
    for (;;) {
        bool ran = false;
        for (int t = 0; t < threads; t++)
            while (fibres[t].state == 0) {
                current = t;
                threadIdx.x = (unsigned)t;
                emu_switch(&scheduler_sp, fibres[t].sp);
                ran = true;
            }
        bool warps = false, all = true, live = false;
        for (int w = 0; w * 32 < threads; w++) {
            int waiting = 0, others = 0;
            for (int t = w * 32; t < threads && t < w * 32 + 32; t++) {
                if (fibres[t].state == 1) waiting++;
                if (fibres[t].state == 2) others++;
                if (fibres[t].state != 3) live = true;
            }
            if (waiting && others) {
                fprintf(stderr, "emulate: a warp waits for itself while part of it waits for the block\n");
                abort();
            }
            if (waiting) {
                for (int t = w * 32; t < threads && t < w * 32 + 32; t++)
                    if (fibres[t].state == 1) fibres[t].state = 0;
                warps = true;
            }
        }
        if (!live) return;
        if (warps) continue;
        for (int t = 0; t < threads; t++) all = all && fibres[t].state >= 2;
        if (!all && !ran) {
            fprintf(stderr, "emulate: nobody can go on\n");
            abort();
        }
        for (int t = 0; t < threads; t++)
            if (fibres[t].state == 2) fibres[t].state = 0;
    }
}

static void emu_launch(Body body, const void* params, unsigned gx, unsigned gy, unsigned gz, unsigned threads) {
    the_body = body;
    the_params = params;
    gridDim = Index{gx, gy, gz};
    blockDim = Index{threads, 1, 1};
    threadIdx = Index{0, 0, 0};
    for (unsigned z = 0; z < gz; z++)
        for (unsigned y = 0; y < gy; y++)
            for (unsigned x = 0; x < gx; x++) {
                blockIdx = Index{x, y, z};
                memset(emu_shared, 0xa5, sizeof emu_shared);  // nothing may rely on what lies there
                emu_block((int)threads);
            }
}

#define __syncthreads() emu_wait(2)
#define __threadfence() ((void)0)
static inline void __syncwarp() { emu_wait(1); }

template <class T>
static T emu_exchange(T v, int from) {
    memcpy(lanes[current], &v, sizeof v);
    emu_wait(1);
    T r;
    memcpy(&r, lanes[(current & ~31) + from], sizeof r);
    emu_wait(1);
    return r;
}
template <class T>
static T __shfl_sync(unsigned, T v, int lane) { return emu_exchange(v, lane & 31); }
template <class T>
static T __shfl_xor_sync(unsigned, T v, int mask) { return emu_exchange(v, (current & 31) ^ mask); }
template <class T>
static T __shfl_up_sync(unsigned, T v, int by) { return emu_exchange(v, (current & 31) >= by ? (current & 31) - by : current & 31); }
static unsigned __ballot_sync(unsigned, bool p) {
    const unsigned char b = p;
    memcpy(lanes[current], &b, 1);
    emu_wait(1);
    unsigned r = 0;
    for (int l = 0; l < 32; l++)
        if (fibres[(current & ~31) + l].state != 3 && lanes[(current & ~31) + l][0]) r |= 1u << l;
    emu_wait(1);
    return r;
}
static bool __any_sync(unsigned m, bool p) { return __ballot_sync(m, p) != 0; }
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __ffs(unsigned v) { return __builtin_ffs((int)v); }
template <class T>
static T atomicAdd(T* p, T v) { T old = *p; *p = old + v; return old; }
template <class T, class U>
static T atomicAdd(T* p, U v) { T old = *p; *p = old + (T)v; return old; }
static unsigned atomicOr(unsigned* p, unsigned v) { unsigned old = *p; *p = old | v; return old; }
template <class A, class B>
static A emu_bits(B v) { A a; static_assert(sizeof a == sizeof v, ""); memcpy(&a, &v, sizeof a); return a; }
#define __uint_as_float(v) emu_bits<float>((unsigned)(v))
#define __int_as_float(v) emu_bits<float>((int)(v))
#define __float_as_uint(v) emu_bits<unsigned>((float)(v))
#define __double_as_longlong(v) emu_bits<long long>((double)(v))
#define __longlong_as_double(v) emu_bits<double>((long long)(v))

// ---- what common.cuh has as instructions ----

typedef _Float16 emu_half;

static inline float h2f(unsigned short h) { return (float)emu_bits<emu_half>(h); }
static inline unsigned short f2h(float f) { return emu_bits<unsigned short>((emu_half)f); }
static inline unsigned f2h2(float lo, float hi) { return (unsigned)f2h(lo) | (unsigned)f2h(hi) << 16; }
static inline void wait_previous() {}
static inline void let_next_start() {}
static inline float mul_rn(float a, float b) { return a * b; }
static inline float add_rn(float a, float b) { return a + b; }
static inline float div_rn(float a, float b) { return a / b; }
static inline float i2f_rn(int a) { return (float)a; }
static inline int f2i_rni(float a) { return (int)nearbyintf(a); }
static inline float ex2_approx(float a) { return exp2f(a); }
static inline float rcp_approx(float a) { return 1.f / a; }
// Shared memory lies in one 4 GiB range of the address space, so its low halves are addresses enough.
static inline unsigned smem_addr(const void* p) { return (unsigned)(uintptr_t)p; }
static inline char* emu_at(unsigned a) { return (char*)(((uintptr_t)emu_shared & ~(uintptr_t)0xffffffffu) | a); }
static inline void emu_copy(unsigned dst, unsigned long long src, unsigned bytes, unsigned size) {
    if ((dst % size) || (bytes && src % size)) {
        fprintf(stderr, "emulate: a copy of %u bytes is not aligned\n", size);
        abort();
    }
    memset(emu_at(dst), 0, size);
    if (bytes) memcpy(emu_at(dst), (const void*)src, bytes);
}
static inline void copy16_async(unsigned d, unsigned long long s, unsigned b) { emu_copy(d, s, b, 16); }
static inline void copy16_cached(unsigned d, unsigned long long s, unsigned b) { emu_copy(d, s, b, 16); }
static inline void copy8_async(unsigned d, unsigned long long s, unsigned b) { emu_copy(d, s, b, 8); }
static inline void copy4_async(unsigned d, unsigned long long s, unsigned b) { emu_copy(d, s, b, 4); }
static inline void commit_async() {}
template <int N>
static inline void wait_async() {}

static void ldmatrix4(unsigned (&r)[4], unsigned addr) {
    memcpy(lanes[current], &addr, 4);
    emu_wait(1);
    const int base = current & ~31, lane = current & 31;
    for (int m = 0; m < 4; m++) {
        unsigned row;
        memcpy(&row, lanes[base + m * 8 + lane / 4], 4);
        if (row % 16) {
            fprintf(stderr, "emulate: ldmatrix row is not aligned\n");
            abort();
        }
        memcpy(&r[m], emu_at(row) + lane % 4 * 4, 4);
    }
    emu_wait(1);
}

// Fragments of m16n8: A rows g and g + 8, 4 bytes at t and t + 4 words of a 32-byte row; B column g; D columns 2t, 2t + 1.
template <class Acc, class Dot>
static void emu_mma(Acc (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, Dot dot) {
    unsigned mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    memcpy(lanes[current], mine, 24);
    emu_wait(1);
    const int base = current & ~31, g = (current & 31) >> 2, t = current & 3;
    auto word = [&](int lane, int k) { unsigned w; memcpy(&w, lanes[base + lane] + k * 4, 4); return w; };
    for (int k = 0; k < 4; k++) {
        const int row = g, high = k >> 1, col = t * 2 + (k & 1);
        for (int half = 0; half < 2; half++)
            for (int q = 0; q < 4; q++) d[k] = dot(d[k], word(row * 4 + q, half * 2 + high), word(col * 4 + q, 4 + half));
    }
    emu_wait(1);
}
static void mma_f16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    emu_mma(d, a, b0, b1, [](float s, unsigned x, unsigned y) {
        return s + h2f((unsigned short)x) * h2f((unsigned short)y) + h2f((unsigned short)(x >> 16)) * h2f((unsigned short)(y >> 16));
    });
}
static void mma_s8(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    emu_mma(d, a, b0, b1, [](int s, unsigned x, unsigned y) {
        for (int e = 0; e < 4; e++) s += (int)(signed char)(x >> (8 * e)) * (int)(signed char)(y >> (8 * e));
        return s;
    });
}

// ---- max of packed numbers (pool.cu), wmma (conv72.cu) ----

template <class E, int N>
static unsigned emu_max(unsigned a, unsigned b) {
    E x[N], y[N];
    memcpy(x, &a, 4);
    memcpy(y, &b, 4);
    for (int i = 0; i < N; i++) x[i] = !(x[i] == x[i]) ? y[i] : !(y[i] == y[i]) ? x[i] : x[i] > y[i] ? x[i] : y[i];
    memcpy(&a, x, 4);
    return a;
}

// Fragments of wmma are opaque, so they may hold where the tile lies instead of its numbers.
template <class Acc, class E>
struct EmuWmma {
    static void load(unsigned (&r)[8], unsigned addr, unsigned stride) { r[0] = addr; r[1] = stride; }
    static void load(unsigned (&r)[2], unsigned addr, unsigned stride) { r[0] = addr; r[1] = stride; }
    // Lane l holds elements 8l .. 8l + 7 of the 16 x 16 sums, row by row.
    template <int N>
    static void mma(Acc (&d)[8], const unsigned (&a)[N], const unsigned (&b)[N]) {
        const int lane = current & 31;
        for (int e = 0; e < 8; e++) {
            const int row = (lane * 8 + e) / 16, col = (lane * 8 + e) % 16;
            for (int k = 0; k < 16; k++) {
                E x, y;
                memcpy(&x, emu_at(a[0]) + (row * a[1] + k) * sizeof(E), sizeof(E));
                memcpy(&y, emu_at(b[0]) + (col * b[1] + k) * sizeof(E), sizeof(E));
                d[e] += (Acc)x * (Acc)y;
            }
        }
    }
    static void put(unsigned addr, const Acc (&d)[8], unsigned stride) {
        const int lane = current & 31;
        for (int e = 0; e < 8; e++) memcpy(emu_at(addr) + ((lane * 8 + e) / 16 * stride + (lane * 8 + e) % 16) * 4, &d[e], 4);
    }
};
