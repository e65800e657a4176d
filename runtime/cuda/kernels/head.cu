// From a detector's last maps to the boxes that survive: decode, threshold, compaction, non-maximum suppression.
#include "common.cuh"

DEV void push(u64 list, u64 counts, i32 image, i32 capacity, const Candidate& c) {
    const u32 at = atomicAdd((u32*)counts + image, 1);
    if (at < (u32)capacity) ((Candidate*)list)[(i64)image * capacity + at] = c;
}

DEV bool finite(f32 v) { return v - v == 0.f; }

// 32 warps take 32 cells of one image, a warp a cell: lane l holds bins 2l and 2l + 1 of its four sides (16 bins, DFL: the mean
// of the bins' numbers under softmax) and every 32nd class. Results pass through shared memory so that y's rows are written
// in runs of 32 cells.
KERNEL __launch_bounds__(1024, 1) yolo_head(const __grid_constant__ YoloHeadParams p) {
    extern __shared__ __align__(16) f32 tile[];   // [4 + classes][33]
    let_next_start();
    wait_previous();
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const i32 blocks = (p.cells + 31) / 32, image = blockIdx.x / blocks, cell0 = (blockIdx.x - image * blocks) * 32;
    const i32 q = warp, cell = cell0 + q;
    if (cell < p.cells) {
        i32 scale = 0, at = cell;
#pragma unroll
        for (int s = 0; s < 3; s++)
            if (scale == s && s + 1 < p.scales && at >= p.width[s] * p.height[s]) at -= p.width[s] * p.height[s], scale++;
        i32 w = p.width[0], h = p.height[0], box_pix = p.box_pix[0], score_pix = p.score_pix[0];
        f32 step = p.step[0];
        u64 boxes = p.boxes[0], scores = p.scores[0];
#pragma unroll
        for (int s = 1; s < 4; s++)
            if (scale == s) w = p.width[s], h = p.height[s], box_pix = p.box_pix[s], score_pix = p.score_pix[s], step = p.step[s], boxes = p.boxes[s], scores = p.scores[s];
        const i64 pixel = (i64)image * w * h + at;
        f32 side[4];
        if (p.bins == 16) {
            const i64 b = pixel * box_pix + lane * 2;
            const f32 v0 = load_f32(boxes, b, p.t), v1 = load_f32(boxes, b + 1, p.t);
            f32 top = fmaxf(v0, v1);
#pragma unroll
            for (int d = 1; d < 8; d <<= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
            const f32 e0 = expf(v0 - top), e1 = expf(v1 - top);
            const f32 k = (f32)((lane & 7) * 2);
            f32 sum = e0 + e1, mean = e0 * k + e1 * (k + 1.f);
#pragma unroll
            for (int d = 1; d < 8; d <<= 1) {
                sum += __shfl_xor_sync(0xffffffffu, sum, d);
                mean += __shfl_xor_sync(0xffffffffu, mean, d);
            }
            const f32 dist = div_rn(mean, sum);
#pragma unroll
            for (int s = 0; s < 4; s++) side[s] = __shfl_sync(0xffffffffu, dist, s * 8);
        } else {
#pragma unroll
            for (int s = 0; s < 4; s++) side[s] = load_f32(boxes, pixel * box_pix + s, p.t);
        }
        const i32 ay = at / w, ax = at - ay * w;
        const f32 cx = (f32)ax + 0.5f, cy = (f32)ay + 0.5f;
        const f32 x1 = cx - side[0], y1 = cy - side[1], x2 = cx + side[2], y2 = cy + side[3];
        const f32 mx = (x1 + x2) * 0.5f * step, my = (y1 + y2) * 0.5f * step, bw = (x2 - x1) * step, bh = (y2 - y1) * step;
        if (p.y && lane == 0) {
            tile[q] = p.ltrb ? x1 * step : mx;
            tile[33 + q] = p.ltrb ? y1 * step : my;
            tile[66 + q] = p.ltrb ? x2 * step : bw;
            tile[99 + q] = p.ltrb ? y2 * step : bh;
        }
        Candidate c{mx - bw * 0.5f, my - bh * 0.5f, mx + bw * 0.5f, my + bh * 0.5f, 0.f, 0, (u32)cell, 0.f};
        if (p.ltrb) c.x1 = x1 * step, c.y1 = y1 * step, c.x2 = x2 * step, c.y2 = y2 * step;
        const bool sound = finite(c.x1) && finite(c.y1) && finite(c.x2) && finite(c.y2);
        f32 best = -1.f;
        i32 which = -1;
        for (i32 k = lane; k < p.classes; k += 32) {
            const f32 s = sigmoid_exact(load_f32(scores, pixel * score_pix + k, p.t));
            if (p.y) tile[(4 + k) * 33 + q] = s;
            if (p.candidates && p.all && s > p.conf && sound) {
                c.score = s;
                c.cls = k;
                push(p.candidates, p.counts, image, p.capacity, c);
            }
            if (s > best) best = s, which = k;
        }
        if (p.candidates && !p.all) {
#pragma unroll
            for (int d = 16; d; d >>= 1) {
                const f32 s = __shfl_xor_sync(0xffffffffu, best, d);
                const i32 k = __shfl_xor_sync(0xffffffffu, which, d);
                if (k >= 0 && (which < 0 || s > best || (s == best && k < which))) best = s, which = k;
            }
            if (lane == 0 && which >= 0 && best > p.conf && sound) {
                c.score = best;
                c.cls = which;
                push(p.candidates, p.counts, image, p.capacity, c);
            }
        }
    }
    if (!p.y) return;
    __syncthreads();
    for (i32 i = threadIdx.x; i < (4 + p.classes) * 32; i += 1024) {
        const i32 ch = i >> 5, q = i & 31;
        if (cell0 + q < p.cells) store_f32(p.y, (i64)image * p.y_img + (i64)ch * p.y_ch + (i64)(cell0 + q) * p.y_cell, p.ty, tile[ch * 33 + q]);
    }
}

KERNEL __launch_bounds__(128) detect(const __grid_constant__ DetectParams p) {
    let_next_start();
    wait_previous();
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (i64)p.batch * p.cells) return;
    const i32 image = i / p.cells, cell = i - (i64)image * p.cells;
    const i64 at = (i64)image * p.x_img + (i64)cell * p.x_cell;
    auto value = [&](i32 channel) { return load_f32(p.x, at + (i64)channel * p.x_ch, p.t); };
    const f32 object = p.objectness >= 0 ? value(p.objectness) : 1.f;
    // A score is at most the objectness.
    if (!(object > p.conf)) return;
    Candidate c;
    bool have = false, sound = false;
    auto box = [&]() {
        const f32 b0 = value(0), b1 = value(1), b2 = value(2), b3 = value(3);
        if (p.corners) c.x1 = b0, c.y1 = b1, c.x2 = b2, c.y2 = b3;
        else c.x1 = add_rn(b0, -b2 * 0.5f), c.y1 = add_rn(b1, -b3 * 0.5f), c.x2 = add_rn(b0, b2 * 0.5f), c.y2 = add_rn(b1, b3 * 0.5f);
        c.index = cell;
        c.angle = 0.f;
        have = true;
        sound = finite(c.x1) && finite(c.y1) && finite(c.x2) && finite(c.y2);
    };
    f32 best = p.conf;
    i32 which = -1;
    for (i32 k = 0; k < p.classes; k++) {
        f32 s = value(p.first + k);
        if (p.objectness >= 0) s = mul_rn(s, object);
        if (!(s > (p.all ? p.conf : best))) continue;
        if (!p.all) {
            best = s;
            which = k;
            continue;
        }
        if (p.classes_wanted && !load<u8>(p.classes_wanted, k)) continue;
        if (!have) box();
        c.score = s;
        c.cls = k;
        if (sound && finite(s)) push(p.candidates, p.counts, image, p.capacity, c);
    }
    if (which < 0 || (p.classes_wanted && !load<u8>(p.classes_wanted, which))) return;
    box();
    c.score = best;
    c.cls = which;
    if (sound && finite(best)) push(p.candidates, p.counts, image, p.capacity, c);
}

struct alignas(16) Box { f32 x1, y1, x2, y2; };

DEV f32 overlap(const Box& a, const Box& b) {
    const f32 w = fmaxf(add_rn(fminf(a.x2, b.x2), -fmaxf(a.x1, b.x1)), 0.f), h = fmaxf(add_rn(fminf(a.y2, b.y2), -fmaxf(a.y1, b.y1)), 0.f);
    const f32 both = mul_rn(w, h);
    if (both == 0.f) return 0.f;
    const f32 area_a = mul_rn(fmaxf(add_rn(a.x2, -a.x1), 0.f), fmaxf(add_rn(a.y2, -a.y1), 0.f));
    const f32 area_b = mul_rn(fmaxf(add_rn(b.x2, -b.x1), 0.f), fmaxf(add_rn(b.y2, -b.y1), 0.f));
    const f32 all = add_rn(add_rn(area_a, area_b), -both);
    return all > 0.f ? div_rn(both, all) : 0.f;
}
DEV Box box_of(const Candidate& c) { return Box{c.x1, c.y1, c.x2, c.y2}; }

// A block of 1024 threads an image. Shared memory: 8-byte keys and 2-byte places of `capacity` candidates (a power of two), then, for a
// chunk of 512, a matrix of bits (which overlap which) and their boxes and classes.
KERNEL __launch_bounds__(1024, 1) nms(const __grid_constant__ NmsParams p) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ u32 gone[16], kept, fresh;
    let_next_start();
    wait_previous();
    const u32 tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const i32 image = blockIdx.x;
    const u32 found = ((u32*)p.counts)[image];
    const u32 n = found < (u32)p.capacity ? found : p.capacity;
    u32 places = 2;
    while (places < n) places <<= 1;
    u64* key = (u64*)shared;
    u16* slot = (u16*)(shared + (u64)p.capacity * 8);
    u32* bits = (u32*)(shared + (u64)p.capacity * 10);   // [512][16]
    Box* box = (Box*)(bits + 512 * 16);
    u32* group = (u32*)(box + 512);
    Candidate* in = (Candidate*)p.candidates + (i64)image * p.capacity;
    Candidate* sorted = (Candidate*)p.scratch + (i64)image * p.capacity;
    Candidate* out = (Candidate*)p.kept + (i64)image * p.most;
    for (u32 i = tid; i < places; i += 1024) {
        // Scores are finite; greater ones first, then the lower class, then the earlier cell.
        u64 k = ~0ull;
        if (i < n) {
            const u32 b = __float_as_uint(in[i].score);
            const u32 up = b & 0x80000000u ? ~b : b | 0x80000000u;
            k = (u64)(~up) << 32 | (in[i].cls & 0xfffu) << 20 | (in[i].index & 0xfffffu);
        }
        key[i] = k;
        slot[i] = (u16)i;
    }
    if (tid == 0) kept = 0;
    __syncthreads();
    for (u32 size = 2; size <= places; size <<= 1)
        for (u32 stride = size >> 1; stride; stride >>= 1) {
            for (u32 t = tid; t < places / 2; t += 1024) {
                const u32 i = 2 * t - (t & (stride - 1)), j = i + stride;
                const u64 a = key[i], b = key[j];
                if ((a > b) == ((i & size) == 0)) {
                    key[i] = b;
                    key[j] = a;
                    const u16 s = slot[i];
                    slot[i] = slot[j];
                    slot[j] = s;
                }
            }
            __syncthreads();
        }
    for (u32 i = tid; i < n; i += 1024) sorted[i] = in[slot[i]];
    __syncthreads();
    const u32 most = p.most;
    if (p.none) {
        for (u32 i = tid; i < n && i < most; i += 1024) out[i] = sorted[i];
        if (tid == 0) kept = n < most ? n : most;
        __syncthreads();
    } else {
        for (u32 first = 0; first < n; first += 512) {
            const u32 have = kept;
            if (have >= most) break;
            const u32 count = n - first < 512 ? n - first : 512;
            if (tid < 16) gone[tid] = 0;
            if (tid < count) {
                const Candidate c = sorted[first + tid];
                box[tid] = box_of(c);
                group[tid] = p.agnostic ? 0 : c.cls;
            }
            __syncthreads();
            // Against what earlier chunks kept.
            if (have)
                for (u32 i = warp; i < count; i += 32) {
                    const Box mine = box[i];
                    bool hit = false;
                    for (u32 k = lane; k < have && !hit; k += 32) {
                        const Candidate o = out[k];
                        hit = (p.agnostic || o.cls == group[i]) && overlap(mine, box_of(o)) > p.limit;
                    }
                    if (__any_sync(0xffffffffu, hit) && lane == 0) atomicOr(&gone[i >> 5], 1u << (i & 31));
                }
            // Among themselves: bit j of row i says that i, the better one, would remove j. A warp makes 32 bits at a time.
            const u32 words = (count + 31) / 32;
            for (u32 t = warp; t < count * words; t += 32) {
                const u32 i = t / words, w = t - i * words, j = w * 32 + lane;
                bool hit = false;
                if (w * 32 + 31 > i && j > i && j < count && group[i] == group[j]) hit = overlap(box[j], box[i]) > p.limit;
                const u32 word = __ballot_sync(0xffffffffu, hit);
                if (lane == 0) bits[i * 16 + w] = word;
            }
            __syncthreads();
            if (warp == 0) {
                u32 dead = lane < 16 ? gone[lane] : 0, live = 0, total = have;
                // Words past the chunk hold no candidates.
                for (u32 w = 0; w < words && total < most; w++) {
                    u32 open = ~__shfl_sync(0xffffffffu, dead, w);
                    if (w == words - 1 && (count & 31)) open &= (1u << (count & 31)) - 1;
                    while (open && total < most) {
                        const u32 bit = __ffs(open) - 1, i = w * 32 + bit;
                        if (lane == w) live |= 1u << bit;
                        if (lane < words) dead |= bits[i * 16 + lane];
                        open &= ~__shfl_sync(0xffffffffu, dead, w);
                        open &= bit == 31 ? 0u : 0xffffffffu << (bit + 1);
                        total++;
                    }
                }
                __syncwarp();
                if (lane < 16) gone[lane] = live;
                if (lane == 0) fresh = total;
            }
            __syncthreads();
            for (u32 i = tid; i < count; i += 1024) {
                if (!(gone[i >> 5] >> (i & 31) & 1)) continue;
                u32 at = have + __popc(gone[i >> 5] & ((1u << (i & 31)) - 1));
                for (u32 w = 0; w < i >> 5; w++) at += __popc(gone[w]);
                out[at] = sorted[first + i];
            }
            __syncthreads();
            if (tid == 0) kept = fresh;
            __syncthreads();
        }
    }
    if (tid == 0) {
        ((u32*)p.kept_counts)[image * 2] = kept;
        ((u32*)p.kept_counts)[image * 2 + 1] = found;
        ((u32*)p.counts)[image] = 0;
    }
}
