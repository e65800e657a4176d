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

// Up to six dims with strides: generic kernels. Dims in [0, rank), slowest first; unused ones are 1.
struct Dims { i32 n[6]; };
struct Strides { i32 s[6]; };

// ew: elementwise with broadcasting (strides of 0). 176 bytes.
struct EwParams {
    u64 a, b, c, y;            // operands (b, c: 0 if the op has fewer), output
    u64 count;                 // elements of y
    struct Dims dims;
    struct Strides sa, sb, sc, sy;
    i32 ta, tb, tc, ty;        // dtypes
    i32 op;                    // EW_*
    i32 _pad;
    f32 p0, p1;                // numbers of the op (slope, lo, hi, ...)
};

// copy_b1 _b2 _b4 _b8 _b16: strided to strided, by element size. b16: groups of 16 bytes, all addresses aligned. 88 bytes
struct CopyParams {
    u64 x, y;
    u64 count;
    struct Dims dims;
    struct Strides sx, sy;
};

// transpose_b1 _b2 _b4: batches of 2-D transposes through shared memory: y[b][c][r] = x[b][r][c]. 56 bytes.
struct TransposeParams {
    u64 x, y;
    i32 batch, rows, cols;
    i32 x_batch, x_row;        // x strides: x[b*x_batch + r*x_row + c]
    i32 y_batch, y_row;        // y strides: y[b*y_batch + c*y_row + r]
    i32 fill_rows;             // y's rows are written up to this length (>= rows) with zeros behind: channel padding
    i32 _pad[2];
};

// cast: contiguous, dtype to dtype by the rules of graph/ops/cast.rs. 32 bytes.
struct CastParams {
    u64 x, y, count;
    i32 tx, ty;
};

// fill: y[i] = value (raw bits, `size` bytes a piece). 32 bytes.
struct FillParams {
    u64 y, count, bits;
    i32 size, _pad;
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

// softmax: along `n` elements with stride; outer index = (o, i). 80 bytes.
struct SoftmaxParams {
    u64 x, y;
    i32 outer, n, inner;
    i32 x_outer, x_n, x_inner, y_outer, y_n, y_inner;
    i32 tx, ty, log;
    i32 _pad[4];
};

// matmul_f16_*: c[b] = a[b] x b[b]; matmul_any: the same for any dtype, SIMT. 152 bytes.
struct MatmulParams {
    u64 a, b, c, bias;
    i32 m, n, k;
    i32 batch0, batch1;          // two batch dims; grid.z = batch0 * batch1
    i32 a_b0, a_b1, a_row, a_col;
    i32 b_b0, b_b1, b_row, b_col;
    i32 c_b0, c_b1, c_row, c_col;
    f32 alpha, beta;             // alpha * a x b + beta * bias (bias[row*bias_row + col*bias_col])
    i32 bias_row, bias_col;
    i32 ta, tb, tc, tbias;       // dtypes
    i32 a_zero, b_zero;          // integer products
    i32 _pad;
};

