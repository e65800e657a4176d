// Kernels that move elements without looking at them: copies, transposes, fills, gathers and scatters.
#include "common.cuh"

template <class T>
DEV void copy(const CopyParams& p) {
    let_next_start();
    wait_previous();
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (u32)p.count) return;
    i64 ix, iy;
    locate(p.dims, i, p.sx, p.sy, ix, iy);
    store<T>(p.y, iy, load<T>(p.x, ix));
}
KERNEL __launch_bounds__(256) copy_b1(const __grid_constant__ CopyParams p) { copy<u8>(p); }
KERNEL __launch_bounds__(256) copy_b2(const __grid_constant__ CopyParams p) { copy<u16>(p); }
KERNEL __launch_bounds__(256) copy_b4(const __grid_constant__ CopyParams p) { copy<u32>(p); }
KERNEL __launch_bounds__(256) copy_b8(const __grid_constant__ CopyParams p) { copy<u64>(p); }
KERNEL __launch_bounds__(256) copy_b16(const __grid_constant__ CopyParams p) { copy<Vec4>(p); }

// A tile of 32 x 32 through shared memory, so that both sides are coalesced.
template <class T>
DEV void transpose(const TransposeParams& p) {
    __shared__ T tile[32][33];
    let_next_start();
    wait_previous();
    const i32 c0 = blockIdx.x * 32, r0 = blockIdx.y * 32, b = blockIdx.z;
    const i32 tx = threadIdx.x & 31, ty = threadIdx.x >> 5;
    for (i32 k = ty; k < 32; k += 8) {
        const i32 r = r0 + k, c = c0 + tx;
        T v = 0;
        if (r < p.rows && c < p.cols) v = load<T>(p.x, (i64)b * p.x_batch + (i64)r * p.x_row + c);
        tile[k][tx] = v;
    }
    __syncthreads();
    for (i32 k = ty; k < 32; k += 8) {
        const i32 c = c0 + k, r = r0 + tx;
        if (c < p.cols && r < p.fill_rows) store<T>(p.y, (i64)b * p.y_batch + (i64)c * p.y_row + r, tile[tx][k]);
    }
}
KERNEL __launch_bounds__(256) transpose_b1(const __grid_constant__ TransposeParams p) { transpose<u8>(p); }
KERNEL __launch_bounds__(256) transpose_b2(const __grid_constant__ TransposeParams p) { transpose<u16>(p); }
KERNEL __launch_bounds__(256) transpose_b4(const __grid_constant__ TransposeParams p) { transpose<u32>(p); }

// The same with a conversion on the way (a model's f32 NCHW input to the f16 NHWC of its first layer, and back).
KERNEL __launch_bounds__(256) transpose_cast(const __grid_constant__ TransposeParams p) {
    __shared__ f32 tile[32][33];
    let_next_start();
    wait_previous();
    const i32 c0 = blockIdx.x * 32, r0 = blockIdx.y * 32, b = blockIdx.z;
    const i32 tx = threadIdx.x & 31, ty = threadIdx.x >> 5;
    for (i32 k = ty; k < 32; k += 8) {
        const i32 r = r0 + k, c = c0 + tx;
        f32 v = 0.f;
        if (r < p.rows && c < p.cols) v = load_f32(p.x, (i64)b * p.x_batch + (i64)r * p.x_row + c, p.tx);
        tile[k][tx] = v;
    }
    __syncthreads();
    for (i32 k = ty; k < 32; k += 8) {
        const i32 c = c0 + k, r = r0 + tx;
        if (c < p.cols && r < p.fill_rows) store_f32(p.y, (i64)b * p.y_batch + (i64)c * p.y_row + r, p.ty, tile[tx][k]);
    }
}

// A picture of 3 (at most 4) planes to pixels of 4 elements: what the first layer reads. rows = planes, cols = pixels; a thread
// a pixel. y_row counts elements from pixel to pixel.
KERNEL __launch_bounds__(256) planes_to_pixels(const __grid_constant__ TransposeParams p) {
    let_next_start();
    wait_previous();
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    const i32 b = blockIdx.z;
    if (i >= p.cols) return;
    f32 v[4];
#pragma unroll
    for (int c = 0; c < 4; c++) v[c] = c < p.rows ? load_f32(p.x, (i64)b * p.x_batch + (i64)c * p.x_row + i, p.tx) : 0.f;
    const i64 at = (i64)b * p.y_batch + i * p.y_row;
    if (p.ty == DT_F16 && p.fill_rows == 4 && ((p.y | (u64)p.y_batch * 2 | (u64)p.y_row * 2) & 7) == 0) {
        struct alignas(8) Two { u32 v[2]; };
        *(Two*)(p.y + at * 2) = Two{{f2h2(v[0], v[1]), f2h2(v[2], v[3])}};
    } else {
#pragma unroll
        for (int c = 0; c < 4; c++)
            if (c < p.fill_rows) store_f32(p.y, at + c, p.ty, v[c]);
    }
}

KERNEL __launch_bounds__(256) fill(const __grid_constant__ FillParams p) {
    let_next_start();
    wait_previous();
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (u32)p.count) return;
    switch (p.size) {
        case 1: store<u8>(p.y, i, (u8)p.bits); break;
        case 2: store<u16>(p.y, i, (u16)p.bits); break;
        case 4: store<u32>(p.y, i, (u32)p.bits); break;
        default: store<u64>(p.y, i, p.bits); break;
    }
}

// Offset in the indexed tensor of element i, and in the other one.
DEV void indexed(const GatherParams& p, u32 i, i64& ix, i64& iy) {
    i64 ii = 0;
    ix = iy = 0;
#pragma unroll
    for (int d = 5; d >= 0; d--) {
        if (p.dims.n[d] == 1) continue;
        const u32 q = i / (u32)p.dims.n[d], r = i - q * (u32)p.dims.n[d];
        ix += (i64)r * p.sx.s[d];
        ii += (i64)r * p.si.s[d];
        iy += (i64)r * p.sy.s[d];
        i = q;
    }
#pragma unroll
    for (int j = 0; j < 6; j++) {
        if (j >= p.k) break;
        i64 v = load_i64(p.indices, ii + (i64)j * p.k_stride, p.ti);
        const i64 size = p.axis_size[j];
        if (v < 0) v += size;
        if (v < 0 || v >= size) {
            if (p.error) store<u32>(p.error, 0, 1);
            v = v < 0 ? 0 : size - 1;
        }
        ix += v * p.axis_stride[j];
    }
}
template <class T>
DEV void gather(const GatherParams& p) {
    let_next_start();
    wait_previous();
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (u32)p.count) return;
    i64 ix, iy;
    indexed(p, i, ix, iy);
    store<T>(p.y, iy, load<T>(p.x, ix));
}
// One block: of several updates of one element the last must win, so rounds of 1024 go in order, and inside a round each thread
// looks whether a later one has the same target.
template <class T>
DEV void scatter(const GatherParams& p) {
    __shared__ i64 target[1024];
    let_next_start();
    wait_previous();
    for (u32 first = 0; first < (u32)p.count; first += blockDim.x) {
        const u32 i = first + threadIdx.x;
        i64 ix = -1, iy = 0;
        if (i < (u32)p.count) indexed(p, i, ix, iy);
        target[threadIdx.x] = ix;
        __syncthreads();
        bool last = ix >= 0;
        for (u32 k = threadIdx.x + 1; last && k < blockDim.x; k++) last = target[k] != ix;
        if (last) store<T>(p.x, ix, load<T>(p.y, iy));
        __syncthreads();
    }
}
#define INDEXED(SIZE, T)                                                                                     \
    KERNEL __launch_bounds__(256) gather_##SIZE(const __grid_constant__ GatherParams p) { gather<T>(p); }    \
    KERNEL __launch_bounds__(1024) scatter_##SIZE(const __grid_constant__ GatherParams p) { scatter<T>(p); }
INDEXED(b1, u8)
INDEXED(b2, u16)
INDEXED(b4, u32)
INDEXED(b8, u64)
