// Parameter structs of every kernel: what the host passes, by value, as the kernel's only argument.
//
// Layout is C's: 8-byte fields first, then 4-byte ones, no hidden padding (each struct's size is a multiple of 8).
// u64 fields are device addresses unless a comment says otherwise; 0 means "not there" where that is allowed.
// Strides and offsets count elements of the tensor they belong to, never bytes.
#pragma once

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;
typedef float f32;
typedef double f64;

// Element types, numbered like saltica_tensor::DType.
#define DT_F32 0
#define DT_F16 1
#define DT_F64 2
#define DT_I8 3
#define DT_U8 4
#define DT_I32 5
#define DT_I64 6
#define DT_BOOL 7

// Activations (models/src/graph/activation.rs); a and b are the numbers of `act_a`, `act_b`.
#define ACT_NONE 0
#define ACT_RELU 1
#define ACT_LEAKY 2        // a = slope
#define ACT_CLIP 3         // a = lo, b = hi
#define ACT_SIGMOID 4
#define ACT_SILU 5
#define ACT_HARDSIGMOID 6  // a = alpha, b = beta
#define ACT_HARDSWISH 7
#define ACT_TANH 8

// Where a residual is added.
#define RES_NONE 0
#define RES_BEFORE 1  // act(conv + residual)
#define RES_AFTER 2   // act(conv) + residual

// Convolution: conv_f16_*, conv_i8_*, conv_f32_*, conv_direct_*, conv_dw_*. 256 bytes.
struct ConvParams {
    u64 x;      // first element of the input view (image 0, pixel 0, first channel read)
    u64 w;      // weights, OHWI: [cout][kh*kw][cin] (see README: packing)
    u64 bias;   // f16/f32 kernels: f32[cout] or 0. int8 kernels: i32[cout] or 0, zero-point correction folded in
    u64 res;    // residual, same dtype as y (f16/f32 kernels only), or 0
    u64 y;      // first element of the output view
    u64 ws;     // split-K partial sums (f32 or i32), or 0 when splits == 1
    u64 sem;    // u32[tiles], zeroed once by the host; every launch leaves it zero. 0 when splits == 1
    u64 mul;    // int8: f32[cout], m[o] of QuantConv
    u64 fbias;  // int8: f32[cout] float bias, or 0
    u64 table;  // int8: u8[256] applied to the quantized byte, or 0
    u64 pad;    // int8: 16 bytes, each the x zero point (what lies outside the picture), 16-byte aligned
    u64 x2;     // two-source kernels (conv_*_cat_*): channels cin1..cin come from here, or 0
    i32 batch, h, wd, cin;       // input picture; cin = channels a pixel contributes (padded, see README)
    i32 oh, ow, cout, groups;    // output picture; groups: conv_direct_* only, else 1
    i32 kh, kw, sy, sx;          // kernel, stride
    i32 py, px, dy, dx;          // padding before (top, left), dilation
    i32 x_img, x_row, x_pix, x_ch;  // strides of x. x_ch: conv_direct_* only, else 1
    i32 y_img, y_pix;            // strides of y: pixel (oy, ox) is at (oy*ow + ox) * y_pix; channels are contiguous
    i32 r_img, r_pix;            // strides of res, the same rule
    i32 x2_img, x2_row, x2_pix, cin1;  // strides of x2; the channels of x
    i32 up;                      // 1: x is half as high and wide as the picture (h, wd) and read upsampled (nearest)
    i32 act;
    f32 act_a, act_b;
    i32 res_mode;
    i32 out_dtype;               // f16 kernels: DT_F16 or DT_F32; int8: DT_I8, DT_U8, DT_F16, DT_F32
    i32 splits;                  // split-K count = grid.y
    i32 x_xor;                   // int8: 0x80808080 when x is u8 (read as x - 128), else 0
    f32 q_scale;                 // int8 with 8-bit output: one step of the output
    i32 q_zero;                  // int8 with 8-bit output: its zero point
    i32 x_zero, w_zero;          // conv_direct_i8 only: zero points (of the stored numbers)
};

// Up to six dims, slowest first; unused ones are 1. Strides belong to the dims of the same place; 0 repeats.
struct Dims { i32 n[6]; };
struct Strides { i32 s[6]; };

// Operations of `ew`. x, y, z are the operands a, b, c; p0, p1 the numbers of the params.
#define EW_COPY 0        // x, converted to y's dtype by the rules of Cast
#define EW_RELU 1
#define EW_SIGMOID 2
#define EW_SILU 3
#define EW_TANH 4
#define EW_EXP 5
#define EW_LOG 6
#define EW_SQRT 7
#define EW_ERF 8
#define EW_FLOOR 9
#define EW_CEIL 10
#define EW_ROUND 11
#define EW_COS 12
#define EW_SIN 13
#define EW_NEG 14
#define EW_ABS 15
#define EW_NOT 16
#define EW_RECIPROCAL 17
#define EW_SIGN 18
#define EW_SOFTPLUS 19
#define EW_LEAKY 20      // p0 = slope
#define EW_HARDSIGMOID 21  // p0 = alpha, p1 = beta
#define EW_HARDSWISH 22
#define EW_ELU 23        // p0 = alpha
#define EW_MISH 24
#define EW_GELU 25
#define EW_GELU_TANH 26
#define EW_ISNAN 27
#define EW_ISINF 28      // p0 != 0: negative ones, p1 != 0: positive ones
#define EW_CLIP 29       // p0 = lo, p1 = hi
#define EW_LOOKUP 30     // x is 8-bit; c = u8[256], y[i] = c[x's byte]
#define EW_ADD 40
#define EW_SUB 41
#define EW_MUL 42
#define EW_DIV 43
#define EW_POW 44
#define EW_MOD 45
#define EW_FMOD 46
#define EW_AND 47
#define EW_OR 48
#define EW_XOR 49
#define EW_EQUAL 50
#define EW_LESS 51
#define EW_LESS_EQUAL 52
#define EW_GREATER 53
#define EW_GREATER_EQUAL 54
#define EW_PRELU 55
#define EW_MIN 56
#define EW_MAX 57
#define EW_WHERE 70      // x (bool) ? y : z
#define EW_CLIP3 71      // min(max(x, y), z)
#define EW_AFFINE 72     // x * y + z, products and sums in f32
#define EW_QUANTIZE 73   // x / y, half to even, + z, saturated (y: f32 scale, z: zero point or absent)
#define EW_DEQUANTIZE 74 // (x - z) * y

// ew: elementwise with broadcasting. 184 bytes.
struct EwParams {
    u64 a, b, c, y;            // operands (0 if the op has fewer), output
    struct Dims dims;          // of y
    struct Strides sa, sb, sc, sy;
    i32 ta, tb, tc, ty;        // dtypes
    i32 op;                    // EW_*
    i32 count;                 // elements of y
    f32 p0, p1;
};

// copy_b1 _b2 _b4 _b8 _b16: strided to strided, by element size (b16: eight halves, four floats, ... as one). 96 bytes.
struct CopyParams {
    u64 x, y;
    struct Dims dims;
    struct Strides sx, sy;
    i32 count, _pad;
};

// transpose_b1 _b2 _b4: batches of 2-D transposes, y[b][c][r] = x[b][r][c]. 64 bytes.
struct TransposeParams {
    u64 x, y;
    i32 batch, rows, cols;
    i32 x_batch, x_row;        // x[b*x_batch + r*x_row + c]
    i32 y_batch, y_row;        // y[b*y_batch + c*y_row + r]
    i32 fill_rows;             // y's rows are written up to this length (>= rows) with zeros behind: channel padding
    i32 tx, ty;                // transpose_cast only: dtypes (f32, f16, i8, u8)
    i32 _pad[2];
};

// fill: `count` elements of `size` bytes (1, 2, 4, 8) set to the low bytes of `bits` (a number, no address). 32 bytes.
struct FillParams {
    u64 y, bits;
    i32 count, size;
    i32 _pad[2];
};

// softmax: lines of n elements; other dims by `outer` (their product is the grid). 112 bytes.
struct SoftmaxParams {
    u64 x, y;
    struct Dims outer;
    struct Strides sx, sy;
    i32 n, x_n, y_n;           // length and strides of a line
    i32 tx, ty, log;           // log != 0: LogSoftmax
};

#define REDUCE_SUM 0
#define REDUCE_MEAN 1
#define REDUCE_MAX 2
#define REDUCE_MIN 3
#define REDUCE_PROD 4
#define REDUCE_L1 5
#define REDUCE_L2 6
#define REDUCE_SUMSQUARE 7
#define REDUCE_LOGSUM 8
#define REDUCE_LOGSUMEXP 9
#define REDUCE_ARGMAX 10  // y is i64; inner must be one dim (dims 0..4 are 1)
#define REDUCE_ARGMIN 11

// reduce: a warp for each output element. 160 bytes.
struct ReduceParams {
    u64 x, y;
    struct Dims outer;         // kept dims = y's
    struct Strides sx, sy;
    struct Dims inner;         // reduced dims
    struct Strides si;         // their strides in x
    i32 count, inner_count;    // outputs; elements of each
    i32 kind, tx, ty;
    i32 last;                  // arg: the last of equals instead of the first
};

// norm: (x - mean) / sqrt(variance + epsilon) * scale + bias over `inner`, for each `outer`. Layer, group and instance
// normalisation. A block for each outer index. 248 bytes.
struct NormParams {
    u64 x, y, scale, bias;     // bias may be 0
    struct Dims outer, inner;
    struct Strides xo, xi, yo, yi, so, si;  // strides in x, y and in scale (bias has the same)
    i32 count, inner_count;    // product of outer, of inner
    f32 epsilon;
    i32 tx, ty, ts;            // dtypes of x, y, scale and bias (floats)
};

// matmul_f16_64x64, matmul_any: c[b] = alpha * a[b] x b[b] + beta * bias, then act. 152 bytes.
struct MatmulParams {
    u64 a, b, c, bias;           // bias 0: none
    i32 m, n, k;
    i32 batch1;                  // grid.z = batch0 * batch1; batch index z = b0 * batch1 + b1
    i32 a_b0, a_b1, a_row, a_col;
    i32 b_b0, b_b1, b_row, b_col;
    i32 c_b0, c_b1, c_row, c_col;
    i32 bias_row, bias_col;
    f32 alpha, beta;
    i32 ta, tb, tc, tbias;       // dtypes
    i32 a_zero, b_zero;          // integer products: zero points taken off
    i32 act;
    f32 act_a, act_b;
    i32 _pad;
};

// gather_b1 _b2 _b4 _b8 and scatter_b*: Gather, GatherElements, GatherND, ScatterElements, ScatterND. 192 bytes.
// An element at index i of `dims` is, in the indexed tensor, at sum(i * sx) + sum over j < k of index[j] * axis_stride[j], where
// index[j] = indices[sum(i * si) + j * k_stride]. gather: y[i] = x[..]; scatter: x[..] = y[i] (x is written, y holds the updates).
struct GatherParams {
    u64 x, indices, y;
    u64 error;                 // u32, set to 1 where an index is outside (it is clamped then); 0: no report
    struct Dims dims;
    struct Strides sx, si, sy;
    i32 axis_stride[6], axis_size[6];
    i32 k, k_stride;
    i32 ti;                    // DT_I32 or DT_I64
    i32 count;
};

// top_k: a block for each row. 72 bytes.
struct TopKParams {
    u64 x, values, indices;    // indices: i64 or 0
    i32 rows, n, k;            // k <= 8192 and k <= n
    i32 x_row, x_n;            // strides; outputs are [rows][k] with the strides below
    i32 v_row, v_n, i_row, i_n;
    i32 tx;                    // f32, f16, i32, i8, u8
    i32 smallest;
    i32 _pad;
};

// resize: two axes by tables of four taps, the others by strides. 104 bytes.
struct Tap4 { i32 at[4]; f32 w[4]; };   // unused taps: weight 0 and any index inside
struct ResizeParams {
    u64 x, y, rows, cols;      // rows: Tap4[oh], cols: Tap4[ow]
    i32 batch, channels, oh, ow;
    i32 x_img, x_ch, x_row, x_pix, y_img, y_ch, y_row, y_pix;
    i32 tx, ty;                // integers are truncated toward zero
    i32 taps;                  // 1 nearest, 2 linear, 4 cubic: the first so many of each table's entries
    i32 _pad[3];
};

// grid_sample: f32 or f16. 112 bytes.
struct GridSampleParams {
    u64 x, grid, y;
    i32 batch, channels, h, w, oh, ow;
    i32 x_img, x_ch, x_row, x_pix;
    i32 g_img, g_row, g_pix, g_xy;
    i32 y_img, y_ch, y_row, y_pix;
    i32 t;                     // dtype of all three
    i32 mode;                  // 0 linear, 1 nearest, 2 cubic
    i32 outside;               // 0 zeros, 1 border, 2 reflection
    i32 align_corners;
};

// max_pool_*, pool_any_*: NHWC pooling. 112 bytes.
struct PoolParams {
    u64 x, y;
    i32 batch, h, w, c;
    i32 oh, ow, kh, kw;
    i32 sy, sx, py, px;
    i32 dy, dx;
    i32 x_img, x_row, x_pix, x_ch;  // x_ch: pool_any_* only, else 1
    i32 y_img, y_pix, y_ch;    // pixel (oy, ox) at (oy*ow + ox) * y_pix; y_ch as x_ch
    i32 mode;                  // pool_any_*: 0 max, 1 mean of what lies inside, 2 mean with padding counted
    i32 pad_h, pad_w;          // mode 2: h and w plus both pads; what lies past them does not count
};

// sppf_*: three chained k x k stride-1 max pools of one tensor, written as three slices. 64 bytes.
struct SppfParams {
    u64 x, y1, y2, y3;
    i32 batch, h, w, c;
    i32 x_img, x_pix, y_img, y_pix;   // rows are w pixels
};

// preprocess: a picture to one image of a model's input, the arithmetic of runtime/vision bit for bit. 200 bytes.
#define PIC_RGB 0
#define PIC_BGR 1
#define PIC_GRAY 2
#define PIC_YUYV 3
#define PIC_UYVY 4
#define PIC_NV12 5
#define PIC_NV21 6
#define PIC_I420 7
// resize::Tap: first of two neighbouring samples and their weights, of 2048.
struct Tap { u32 at; u32 weights; };  // weights: w0 in the low half, w1 in the high
struct PreprocessParams {
    u64 plane0, plane1, plane2;  // the picture; plane1: NV12/NV21 chroma or I420 U; plane2: I420 V
    u64 cols, lines;             // Tap[win_w], Tap[win_h]
    u64 table;                   // [3][256] of the output's dtype: what byte b of channel c becomes
    u64 y;                       // first element of this image
    i32 format, width, height;   // PIC_*
    i32 stride0, stride1, stride2;   // bytes from row to row of each plane
    i32 tw, th;                  // the model's input
    i32 left, top, win_w, win_h; // the part of it that the picture covers
    i32 pad;                     // byte value around it
    i32 y_ch, y_row, y_pix;      // strides
    i32 channels;                // 3, or 4: a fourth element is written as 0
    i32 ty;                      // f32, f16, u8, i8
    i32 bgr;                     // the model wants blue first
    i32 band;                    // target rows a block makes (1 to 8)
    i32 floor, luma, red_v, green_u, green_v, blue_u;  // yuv::Coefficients
};

// A detection on its way. 32 bytes.
struct Candidate {
    f32 x1, y1, x2, y2, score;
    u32 cls, index;              // class; cell
    f32 angle;
};

// yolo_head: raw maps of up to four scales (boxes of 4 x bins, class scores before the sigmoid) to the model's output
// [N, 4 + classes, cells] and/or to candidates. 232 bytes.
struct YoloHeadParams {
    u64 boxes[4], scores[4];     // NHWC views of each scale
    u64 y;                       // 0: not wanted
    u64 candidates, counts;      // Candidate[batch][capacity], u32[batch] (zero before); 0: not wanted
    i32 width[4], height[4];
    i32 box_pix[4], score_pix[4];    // strides from pixel to pixel; rows and images are dense
    f32 step[4];                 // pixels of the input a cell is wide
    i32 scales, batch, cells, classes;
    i32 bins;                    // 16 (DFL) or 1
    i32 t, ty;                   // dtypes of the maps (f16, f32) and of y
    i32 y_img, y_ch, y_cell;
    i32 capacity;
    f32 conf;                    // candidates: score > conf
    i32 all;                     // every class above conf, not the best alone
    i32 ltrb;                    // y's boxes: 0 centre and size, 1 corners
};

// detect: a decoded output (boxes and scores of each cell) to candidates; a thread a cell. 104 bytes.
struct DetectParams {
    u64 x, candidates, counts;
    u64 classes_wanted;          // u8[classes], 0: all
    i32 batch, cells, classes;
    i32 x_img, x_ch, x_cell;
    i32 t;                       // f16 or f32
    i32 first;                   // channel of the first class
    i32 objectness;              // channel, or -1: none
    i32 corners;                 // boxes are corners, not centre and size
    i32 capacity, all;
    f32 conf;
    i32 _pad[5];
};

// nms: sorts the candidates of each image, best first (score, class, cell), and keeps each that overlaps no better kept one of its
// class by more than `limit`. 72 bytes.
struct NmsParams {
    u64 candidates, counts;      // as above; counts are set back to 0
    u64 kept, kept_counts;       // Candidate[batch][most], u32[batch][2]: kept; found (if above `capacity`, what was lost is
                                 // not the worst: the host must decode itself)
    u64 scratch;                 // Candidate[batch][capacity]
    i32 batch, capacity, most;   // capacity <= 8192
    i32 agnostic, none;          // none: no suppression, the best `most`
    f32 limit;
    i32 _pad[2];
};
