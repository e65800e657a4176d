// From a camera's or a decoder's picture to the model's input: pixel format, letterbox, normalisation, layout, in one pass.
//
// Integer arithmetic as in runtime/vision (resize.rs, yuv.rs), so that both give the same bytes. A block makes `band` rows of the
// input: it brings the source rows they need to shared memory, 16 bytes at a time and each once (a camera's buffer may be
// memory that the GPU does not cache), and samples there.
#include "common.cuh"

struct Rgb { i32 c[3]; };

DEV i32 limited(i32 v) { return v < 0 ? 0 : v > 255 ? 255 : v; }

DEV Rgb from_yuv(const PreprocessParams& p, i32 y, i32 u, i32 v) {
    i32 l = y - p.floor;
    l = (l < 0 ? 0 : l) * p.luma + (1 << 12);
    u -= 128;
    v -= 128;
    return Rgb{{limited((l + v * p.red_v) >> 13), limited((l + u * p.green_u + v * p.green_v) >> 13), limited((l + u * p.blue_u) >> 13)}};
}

// Pixel x of a source row that lies in shared memory: luma (or packed pixels) at `row`, chroma at `chroma`, V of I420 at `chroma2`.
DEV Rgb pixel(const PreprocessParams& p, const u8* row, const u8* chroma, const u8* chroma2, i32 x) {
    switch (p.format) {
        case PIC_RGB: return Rgb{{row[3 * x], row[3 * x + 1], row[3 * x + 2]}};
        case PIC_BGR: return Rgb{{row[3 * x + 2], row[3 * x + 1], row[3 * x]}};
        case PIC_GRAY: return Rgb{{row[x], row[x], row[x]}};
        case PIC_YUYV: { const u8* q = row + (x >> 1) * 4; return from_yuv(p, q[(x & 1) * 2], q[1], q[3]); }
        case PIC_UYVY: { const u8* q = row + (x >> 1) * 4; return from_yuv(p, q[(x & 1) * 2 + 1], q[0], q[2]); }
        case PIC_NV12: { const u8* q = chroma + (x >> 1) * 2; return from_yuv(p, row[x], q[0], q[1]); }
        case PIC_NV21: { const u8* q = chroma + (x >> 1) * 2; return from_yuv(p, row[x], q[1], q[0]); }
        default: return from_yuv(p, row[x], chroma[x >> 1], chroma2[x >> 1]);
    }
}

DEV void bring(u8* to, u64 from, i32 bytes) {
    if ((from & 15) == 0) {
        for (i32 i = threadIdx.x * 16; i + 16 <= bytes; i += blockDim.x * 16) *(Vec4*)(to + i) = *(const Vec4*)(from + i);
        for (i32 i = (bytes & ~15) + threadIdx.x; i < bytes; i += blockDim.x) to[i] = load<u8>(from, i);
    } else if ((from & 3) == 0) {
        for (i32 i = threadIdx.x * 4; i + 4 <= bytes; i += blockDim.x * 4) *(u32*)(to + i) = *(const u32*)(from + i);
        for (i32 i = (bytes & ~3) + threadIdx.x; i < bytes; i += blockDim.x) to[i] = load<u8>(from, i);
    } else {
        for (i32 i = threadIdx.x; i < bytes; i += blockDim.x) to[i] = load<u8>(from, i);
    }
}

KERNEL __launch_bounds__(256, 4) preprocess(const __grid_constant__ PreprocessParams p) {
    extern __shared__ __align__(16) u8 shared[];
    let_next_start();
    wait_previous();
    const i32 size = p.ty == DT_F32 ? 4 : p.ty == DT_F16 ? 2 : 1;
    u8* table = shared;
    bring(table, p.table, 768 * size);
    const i32 packed = p.format == PIC_RGB || p.format == PIC_BGR ? 3 : p.format == PIC_YUYV || p.format == PIC_UYVY ? 2 : 1;
    const i32 even = (p.width + 1) / 2 * 2;
    const i32 bytes0 = (packed == 2 ? even : p.width) * packed;
    const i32 bytes1 = p.format == PIC_NV12 || p.format == PIC_NV21 ? even : p.format == PIC_I420 ? even / 2 : 0;
    const i32 bytes2 = p.format == PIC_I420 ? even / 2 : 0;
    const i32 pitch0 = (bytes0 + 15) & ~15, pitch1 = (bytes1 + 15) & ~15, pitch2 = (bytes2 + 15) & ~15, pitch = pitch0 + pitch1 + pitch2;
    u8* rows = shared + ((768 * size + 15) & ~15);
    const i32 first = blockIdx.x * p.band;

    // Rows go up, so a source row needed again is one of the last two brought.
    i32 slots = 0, last = -1, before = -1;
    for (i32 r = 0; r < p.band; r++) {
        const i32 line = first + r - p.top;
        if (first + r >= p.th || line < 0 || line >= p.win_h) continue;
        const Tap tap = ((const Tap*)p.lines)[line];
        for (i32 h = 0; h < 2; h++) {
            const i32 want = (i32)tap.at + h < p.height ? (i32)tap.at + h : p.height - 1;
            if ((h ? tap.weights >> 16 : tap.weights & 0xffffu) == 0 || want == last || want == before) continue;
            u8* to = rows + slots * pitch;
            bring(to, p.plane0 + (i64)want * p.stride0, bytes0);
            if (bytes1) bring(to + pitch0, p.plane1 + (i64)(want >> 1) * p.stride1, bytes1);
            if (bytes2) bring(to + pitch0 + pitch1, p.plane2 + (i64)(want >> 1) * p.stride2, bytes2);
            before = last;
            last = want;
            slots++;
        }
    }
    __syncthreads();

    const Rgb nothing = {{p.pad, p.pad, p.pad}};
    slots = 0;
    last = before = -1;
    for (i32 r = 0; r < p.band; r++) {
        const i32 oy = first + r, line = oy - p.top;
        if (oy >= p.th) break;
        const bool inside = line >= 0 && line < p.win_h;
        const u8* row[2] = {rows, rows};
        i32 wy[2] = {0, 0};
        if (inside) {
            const Tap tap = ((const Tap*)p.lines)[line];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const i32 want = (i32)tap.at + h < p.height ? (i32)tap.at + h : p.height - 1;
                wy[h] = h ? tap.weights >> 16 : tap.weights & 0xffffu;
                if (wy[h] == 0) continue;
                if (want != last && want != before) {
                    before = last;
                    last = want;
                    slots++;
                }
                row[h] = rows + (want == last ? slots - 1 : slots - 2) * pitch;
            }
        }
        for (i32 ox = threadIdx.x; ox < p.tw; ox += blockDim.x) {
            const i32 x = ox - p.left;
            Rgb out = nothing;
            if (inside && x >= 0 && x < p.win_w) {
                const Tap tap = ((const Tap*)p.cols)[x];
                const i32 w0 = tap.weights & 0xffffu, w1 = tap.weights >> 16;
                const i32 x0 = tap.at, x1 = x0 + 1 < p.width ? x0 + 1 : x0;
                i32 part[2][3] = {{0, 0, 0}, {0, 0, 0}};
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    if (wy[h] == 0) continue;
                    const u8* chroma = row[h] + pitch0;
                    const Rgb a = pixel(p, row[h], chroma, chroma + pitch1, x0), b = pixel(p, row[h], chroma, chroma + pitch1, x1);
#pragma unroll
                    for (int c = 0; c < 3; c++) part[h][c] = (((a.c[c] * w0 + b.c[c] * w1) >> 4) * wy[h]) >> 16;
                }
#pragma unroll
                for (int c = 0; c < 3; c++) out.c[c] = (part[0][c] + part[1][c] + 2) >> 2;
            }
            const i32 b0 = p.bgr ? out.c[2] : out.c[0], b1 = out.c[1], b2 = p.bgr ? out.c[0] : out.c[2];
            const i64 to = (i64)oy * p.y_row + (i64)ox * p.y_pix;
            if (size == 2) {
                const u16* t = (const u16*)table;
                const u16 v0 = t[b0], v1 = t[256 + b1], v2 = t[512 + b2];
                if (p.channels == 4 && p.y_ch == 1 && ((p.y | (u64)p.y_row * 2 | (u64)p.y_pix * 2) & 7) == 0) {
                    struct alignas(8) Two { u32 v[2]; };
                    *(Two*)(p.y + to * 2) = Two{{(u32)v0 | (u32)v1 << 16, (u32)v2}};
                    continue;
                }
                store<u16>(p.y, to, v0);
                store<u16>(p.y, to + p.y_ch, v1);
                store<u16>(p.y, to + 2 * p.y_ch, v2);
                if (p.channels == 4) store<u16>(p.y, to + 3 * p.y_ch, 0);
            } else if (size == 4) {
                const u32* t = (const u32*)table;
                store<u32>(p.y, to, t[b0]);
                store<u32>(p.y, to + p.y_ch, t[256 + b1]);
                store<u32>(p.y, to + 2 * p.y_ch, t[512 + b2]);
                if (p.channels == 4) store<u32>(p.y, to + 3 * p.y_ch, 0);
            } else {
                const u8 v0 = table[b0], v1 = table[256 + b1], v2 = table[512 + b2];
                if (p.channels == 4 && p.y_ch == 1 && ((p.y | (u64)p.y_row | (u64)p.y_pix) & 3) == 0) {
                    store<u32>(p.y + to, 0, (u32)v0 | (u32)v1 << 8 | (u32)v2 << 16);
                    continue;
                }
                store<u8>(p.y, to, v0);
                store<u8>(p.y, to + p.y_ch, v1);
                store<u8>(p.y, to + 2 * p.y_ch, v2);
                if (p.channels == 4) store<u8>(p.y, to + 3 * p.y_ch, 0);
            }
        }
    }
}
