// Kernels that make few numbers of many: reductions, softmax, normalisation, top-k.
#include "common.cuh"

DEV f32 warp_sum(f32 v) {
#pragma unroll
    for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}
DEV f32 warp_max(f32 v) {
#pragma unroll
    for (int d = 16; d; d >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
    return v;
}

DEV i64 place(const Dims& n, const Strides& s, u32 i) {
    i64 at;
    locate(n, i, s, at);
    return at;
}

// An order of the values of any float as integers: NaN first, both zeros the same.
DEV i64 order_of(f64 v) {
    if (v != v) return (i64)0x8000000000000000ull;
    const i64 bits = __double_as_longlong(v + 0.0);
    return bits < 0 ? bits ^ 0x7fffffffffffffffll : bits;
}

// A warp for each output. Floats are summed by 32 lanes and then over the lanes, always in the same order: in f32, f64 stays f64.
KERNEL __launch_bounds__(256) reduce(const __grid_constant__ ReduceParams p) {
    let_next_start();
    wait_previous();
    const u32 o = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x & 31;
    if (o >= (u32)p.count) return;
    i64 ix, iy;
    locate(p.outer, o, p.sx, p.sy, ix, iy);
    const u32 n = p.inner_count;
    const i32 kind = p.kind;
    if (kind == REDUCE_ARGMAX || kind == REDUCE_ARGMIN) {
        const bool ints = is_int(p.tx), most = kind == REDUCE_ARGMAX;
        i64 best = 0;
        i32 at = -1;
        bool good = false;
        for (u32 i = lane; i < n; i += 32) {
            const i64 e = ix + (i64)i * p.si.s[5];
            i64 key;
            bool number = true;
            if (ints) key = load_i64(p.x, e, p.tx);
            else {
                const f64 v = load_f64(p.x, e, p.tx);
                number = v == v;
                key = order_of(v);
            }
            const bool better = number != good ? number : most ? key > best : key < best;
            const bool equal = number == good && key == best;
            if (at < 0 || better || (equal && p.last)) best = key, at = i, good = number;
        }
#pragma unroll
        for (int d = 16; d; d >>= 1) {
            const i64 key = __shfl_xor_sync(0xffffffffu, best, d);
            const i32 other = __shfl_xor_sync(0xffffffffu, at, d);
            const bool number = __shfl_xor_sync(0xffffffffu, (i32)good, d) != 0;
            const bool better = number != good ? number : most ? key > best : key < best;
            const bool equal = number == good && key == best;
            if (other >= 0 && (at < 0 || better || (equal && (p.last ? other > at : other < at)))) best = key, at = other, good = number;
        }
        if (lane == 0) store<i64>(p.y, iy, at < 0 ? 0 : at);
        return;
    }
    if (is_int(p.tx) && kind != REDUCE_L2 && kind != REDUCE_LOGSUM && kind != REDUCE_LOGSUMEXP) {
        const i64 low = p.tx == DT_I8 ? -128 : p.tx == DT_I32 ? -2147483648ll : p.tx == DT_I64 ? (i64)0x8000000000000000ull : 0;
        const i64 high = p.tx == DT_I8 ? 127 : p.tx == DT_U8 ? 255 : p.tx == DT_I32 ? 2147483647ll : p.tx == DT_BOOL ? 1 : 0x7fffffffffffffffll;
        i64 r = kind == REDUCE_PROD ? 1 : kind == REDUCE_MAX ? low : kind == REDUCE_MIN ? high : 0;
        for (u32 i = lane; i < n; i += 32) {
            const i64 v = load_i64(p.x, ix + place(p.inner, p.si, i), p.tx);
            r = kind == REDUCE_PROD ? r * v : kind == REDUCE_MAX ? (v > r ? v : r) : kind == REDUCE_MIN ? (v < r ? v : r)
                : kind == REDUCE_L1 ? r + (v < 0 ? -v : v) : kind == REDUCE_SUMSQUARE ? r + v * v : r + v;
        }
#pragma unroll
        for (int d = 16; d; d >>= 1) {
            const i64 v = __shfl_xor_sync(0xffffffffu, r, d);
            r = kind == REDUCE_PROD ? r * v : kind == REDUCE_MAX ? (v > r ? v : r) : kind == REDUCE_MIN ? (v < r ? v : r) : r + v;
        }
        if (kind == REDUCE_MEAN) r = n ? r / (i64)n : 0;
        if (lane == 0) store_i64(p.y, iy, p.ty, r);
        return;
    }
    const bool wide = p.tx == DT_F64 || is_int(p.tx);
    const f64 inf = __longlong_as_double(0x7ff0000000000000ll);
    f64 shift = 0.0;
    if (kind == REDUCE_LOGSUMEXP) {
        shift = -inf;
        for (u32 i = lane; i < n; i += 32) shift = fmax(shift, load_f64(p.x, ix + place(p.inner, p.si, i), p.tx));
#pragma unroll
        for (int d = 16; d; d >>= 1) shift = fmax(shift, __shfl_xor_sync(0xffffffffu, shift, d));
    }
    f64 r = kind == REDUCE_PROD ? 1.0 : kind == REDUCE_MAX ? -inf : kind == REDUCE_MIN ? inf : 0.0;
    f32 sum = 0.f, prod = 1.f;
    for (u32 i = lane; i < n; i += 32) {
        const i64 e = ix + place(p.inner, p.si, i);
        if (kind == REDUCE_MAX || kind == REDUCE_MIN) {
            const f64 v = wide ? load_f64(p.x, e, p.tx) : (f64)load_f32(p.x, e, p.tx);
            if (v != v || (r == r && (kind == REDUCE_MAX ? v > r : v < r))) r = v;
        } else if (wide) {
            const f64 v = load_f64(p.x, e, p.tx);
            if (kind == REDUCE_PROD) r *= v;
            else r += kind == REDUCE_L1 ? fabs(v) : kind == REDUCE_L2 || kind == REDUCE_SUMSQUARE ? v * v : kind == REDUCE_LOGSUMEXP ? exp(v - shift) : v;
        } else {
            const f32 v = load_f32(p.x, e, p.tx);
            prod *= v;
            sum += kind == REDUCE_L1 ? fabsf(v) : kind == REDUCE_L2 || kind == REDUCE_SUMSQUARE ? v * v : kind == REDUCE_LOGSUMEXP ? expf(v - (f32)shift) : v;
        }
    }
    if (!wide && kind != REDUCE_MAX && kind != REDUCE_MIN) r = kind == REDUCE_PROD ? (f64)prod : (f64)sum;
#pragma unroll
    for (int d = 16; d; d >>= 1) {
        const f64 v = __shfl_xor_sync(0xffffffffu, r, d);
        if (kind == REDUCE_MAX || kind == REDUCE_MIN) {
            if (v != v || (r == r && (kind == REDUCE_MAX ? v > r : v < r))) r = v;
        } else if (kind == REDUCE_PROD) {
            r *= v;
        } else {
            r += v;
        }
    }
    if (lane) return;
    if (kind == REDUCE_MEAN) r /= (f64)n;
    if (kind == REDUCE_L2) r = sqrt(r);
    if (kind == REDUCE_LOGSUM) r = log(r);
    if (kind == REDUCE_LOGSUMEXP) r = shift - shift == 0.0 ? shift + log(r) : shift;
    store_f64(p.y, iy, p.ty, r);
}

// softmax_warp: a warp for each line (short lines); softmax_block: 256 threads for each.
template <bool BLOCK>
DEV void softmax(const SoftmaxParams& p) {
    __shared__ f32 parts[8];
    let_next_start();
    wait_previous();
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const u32 line = BLOCK ? blockIdx.x : blockIdx.x * 8 + warp;
    u32 lines = 1;
#pragma unroll
    for (int d = 0; d < 6; d++) lines *= p.outer.n[d];
    if (line >= lines) return;
    i64 ix, iy;
    locate(p.outer, line, p.sx, p.sy, ix, iy);
    const i32 first = BLOCK ? threadIdx.x : lane, step = BLOCK ? 256 : 32;
    auto all = [&](f32 v, bool sum) {
        v = sum ? warp_sum(v) : warp_max(v);
        if (!BLOCK) return v;
        __syncthreads();
        if (lane == 0) parts[warp] = v;
        __syncthreads();
        f32 r = parts[0];
        for (int k = 1; k < 8; k++) r = sum ? r + parts[k] : fmaxf(r, parts[k]);
        return r;
    };
    f32 top = -INFINITY_F32;
    for (i32 i = first; i < p.n; i += step) top = fmaxf(top, load_f32(p.x, ix + (i64)i * p.x_n, p.tx));
    top = all(top, false);
    f32 sum = 0.f;
    for (i32 i = first; i < p.n; i += step) sum += expf(load_f32(p.x, ix + (i64)i * p.x_n, p.tx) - top);
    sum = all(sum, true);
    const f32 scale = div_rn(1.f, sum), log_sum = logf(sum);
    for (i32 i = first; i < p.n; i += step) {
        const f32 v = load_f32(p.x, ix + (i64)i * p.x_n, p.tx);
        store_f32(p.y, iy + (i64)i * p.y_n, p.ty, p.log ? (v - top) - log_sum : expf(v - top) * scale);
    }
}
KERNEL __launch_bounds__(256) softmax_warp(const __grid_constant__ SoftmaxParams p) { softmax<false>(p); }
KERNEL __launch_bounds__(256) softmax_block(const __grid_constant__ SoftmaxParams p) { softmax<true>(p); }

// A thread for each line, for short lines whose neighbours lie side by side (the last of the outer dims has stride 1): a warp then
// reads and writes runs.
KERNEL __launch_bounds__(256) softmax_lines(const __grid_constant__ SoftmaxParams p) {
    let_next_start();
    wait_previous();
    const u32 line = blockIdx.x * blockDim.x + threadIdx.x;
    u32 lines = 1;
#pragma unroll
    for (int d = 0; d < 6; d++) lines *= p.outer.n[d];
    if (line >= lines) return;
    i64 ix, iy;
    locate(p.outer, line, p.sx, p.sy, ix, iy);
    constexpr int KEPT = 16;
    f32 v[KEPT];
    f32 top = -INFINITY_F32;
#pragma unroll
    for (int i = 0; i < KEPT; i++)
        if (i < p.n) top = fmaxf(top, v[i] = load_f32(p.x, ix + (i64)i * p.x_n, p.tx));
    for (i32 i = KEPT; i < p.n; i++) top = fmaxf(top, load_f32(p.x, ix + (i64)i * p.x_n, p.tx));
    f32 sum = 0.f;
#pragma unroll
    for (int i = 0; i < KEPT; i++)
        if (i < p.n) sum += expf(v[i] - top);
    for (i32 i = KEPT; i < p.n; i++) sum += expf(load_f32(p.x, ix + (i64)i * p.x_n, p.tx) - top);
    const f32 scale = div_rn(1.f, sum), log_sum = logf(sum);
    auto out = [&](i32 i, f32 x) { store_f32(p.y, iy + (i64)i * p.y_n, p.ty, p.log ? (x - top) - log_sum : expf(x - top) * scale); };
#pragma unroll
    for (int i = 0; i < KEPT; i++)
        if (i < p.n) out(i, v[i]);
    for (i32 i = KEPT; i < p.n; i++) out(i, load_f32(p.x, ix + (i64)i * p.x_n, p.tx));
}

DEV void normalized(const NormParams& p) {
    __shared__ f32 parts[8];
    let_next_start();
    wait_previous();
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const i64 xo = place(p.outer, p.xo, blockIdx.x), yo = place(p.outer, p.yo, blockIdx.x), so = place(p.outer, p.so, blockIdx.x);
    auto all = [&](f32 v) {
        v = warp_sum(v);
        __syncthreads();
        if (lane == 0) parts[warp] = v;
        __syncthreads();
        f32 r = 0.f;
        for (int k = 0; k < 8; k++) r += parts[k];
        return r;
    };
    const u32 n = p.inner_count;
    // Numbers are taken less the first, so that a large offset common to all costs no digits.
    const f32 pivot = load_f32(p.x, xo, p.tx);
    f32 sum = 0.f;
    for (u32 i = threadIdx.x; i < n; i += 256) sum += load_f32(p.x, xo + place(p.inner, p.xi, i), p.tx) - pivot;
    const f32 mean = all(sum) / (f32)n;
    f32 squares = 0.f;
    for (u32 i = threadIdx.x; i < n; i += 256) {
        const f32 d = load_f32(p.x, xo + place(p.inner, p.xi, i), p.tx) - pivot - mean;
        squares += d * d;
    }
    const f32 scale = div_rn(1.f, sqrtf(all(squares) / (f32)n + p.epsilon));
    for (u32 i = threadIdx.x; i < n; i += 256) {
        const i64 si = so + place(p.inner, p.si, i);
        f32 v = (load_f32(p.x, xo + place(p.inner, p.xi, i), p.tx) - pivot - mean) * scale * load_f32(p.scale, si, p.ts);
        if (p.bias) v += load_f32(p.bias, si, p.ts);
        store_f32(p.y, yo + place(p.inner, p.yi, i), p.ty, v);
    }
}
KERNEL __launch_bounds__(256) normalize(const __grid_constant__ NormParams p) { normalized(p); }

// The order of top_k as unsigned numbers: smaller comes first; NaN after every number.
DEV u32 rank_of(const TopKParams& p, i64 at) {
    u32 key;
    if (is_int(p.tx)) {
        key = (u32)(i32)load_i64(p.x, at, p.tx) ^ 0x80000000u;
        return p.smallest ? key : ~key;
    }
    const f32 v = load_f32(p.x, at, p.tx) + 0.f;
    if (v != v) return 0xffffffffu;
    const u32 bits = __float_as_uint(v);
    key = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return p.smallest ? key : ~key;
}

// A block of 1024 threads for each row. The rank of the k-th is found eight bits at a time from histograms, what is better than it
// and the first of its equals are collected and sorted by (rank, index) in shared memory (8 bytes for each of `sorted`
// places, the power of two from k on).
KERNEL __launch_bounds__(1024) top_k(const __grid_constant__ TopKParams p) {
    extern __shared__ __align__(16) unsigned char shared[];
    u64* best = (u64*)shared;
    __shared__ u32 histogram[256], scan[32];
    __shared__ u32 prefix, left, taken;
    let_next_start();
    wait_previous();
    const u32 tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const i64 row = (i64)blockIdx.x * p.x_row;
    u32 sorted = 1;
    while (sorted < (u32)p.k) sorted <<= 1;
    if (tid == 0) prefix = 0, left = p.k, taken = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        if (tid < 256) histogram[tid] = 0;
        __syncthreads();
        const u32 mask = shift == 24 ? 0u : 0xffffffffu << (shift + 8), want = prefix;
        for (i32 i = tid; i < p.n; i += 1024) {
            const u32 r = rank_of(p, row + (i64)i * p.x_n);
            if ((r & mask) == want) atomicAdd(&histogram[r >> shift & 255], 1);
        }
        __syncthreads();
        if (warp == 0) {
            // Eight digits a lane; the lane in whose range the wanted one falls looks closer.
            u32 mine = 0;
#pragma unroll
            for (int k = 0; k < 8; k++) mine += histogram[lane * 8 + k];
            u32 upto = mine;
#pragma unroll
            for (int d = 1; d < 32; d <<= 1) {
                const u32 v = __shfl_up_sync(0xffffffffu, upto, d);
                if (lane >= d) upto += v;
            }
            const u32 rest = left;
            __syncwarp();
            if (upto >= rest && upto - mine < rest) {
                u32 digit = lane * 8, more = rest - (upto - mine);
                while (histogram[digit] < more) more -= histogram[digit++];
                left = more;
                prefix = want | digit << shift;
            }
        }
        __syncthreads();
    }
    // `prefix` is the rank of the last one taken, `left` how many of that rank are.
    const u32 cut = prefix, equals = left;
    u32 seen = 0;
    for (i32 first = 0; first < p.n; first += 1024) {
        const i32 i = first + tid;
        const u32 r = i < p.n ? rank_of(p, row + (i64)i * p.x_n) : 0xffffffffu;
        const bool equal = i < p.n && r == cut;
        // How many equals lie before this one: in earlier rounds, earlier warps, earlier lanes.
        const u32 ballot = __ballot_sync(0xffffffffu, equal);
        if (lane == 0) scan[warp] = __popc(ballot);
        __syncthreads();
        u32 before = seen, all = seen;
        for (u32 w = 0; w < 32; w++) {
            if (w < warp) before += scan[w];
            all += scan[w];
        }
        before += __popc(ballot & ((1u << lane) - 1));
        seen = all;
        if (i < p.n && (r < cut || (equal && before < equals))) best[atomicAdd(&taken, 1)] = (u64)r << 32 | (u32)i;
        __syncthreads();
    }
    for (u32 i = p.k + tid; i < sorted; i += 1024) best[i] = ~0ull;
    __syncthreads();
    for (u32 size = 2; size <= sorted; size <<= 1)
        for (u32 stride = size >> 1; stride; stride >>= 1) {
            for (u32 t = tid; t < sorted / 2; t += 1024) {
                const u32 i = 2 * t - (t & (stride - 1)), j = i + stride;
                const u64 a = best[i], b = best[j];
                if ((a > b) == ((i & size) == 0)) best[i] = b, best[j] = a;
            }
            __syncthreads();
        }
    for (i32 i = tid; i < p.k; i += 1024) {
        const u32 at = (u32)best[i];
        const i64 from = row + (i64)at * p.x_n, to = (i64)blockIdx.x * p.v_row + (i64)i * p.v_n;
        if (p.tx == DT_F32 || p.tx == DT_I32) store<u32>(p.values, to, load<u32>(p.x, from));
        else if (p.tx == DT_F16) store<u16>(p.values, to, load<u16>(p.x, from));
        else store<u8>(p.values, to, load<u8>(p.x, from));
        if (p.indices) store<i64>(p.indices, (i64)blockIdx.x * p.i_row + (i64)i * p.i_n, (i64)at);
    }
}
