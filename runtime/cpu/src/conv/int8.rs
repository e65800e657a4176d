//! Convolution of 8-bit numbers, exact, with the arithmetic that [`QuantConv`] defines.
//!
//! The kernels multiply unsigned inputs with signed weights, so signed inputs have their sign bit flipped (which adds 128)
//! and unsigned weights have 128 taken away; zero points move along. With x' and w' the shifted numbers,
//! sum((x' - zx)(w' - zw)) = sum(x' w') - zx sum(w') - zw sum(x') + n zx zw over the n taps and channels, padding being zx.
//! All but the first and third terms are constants of a channel and go into its bias.
//!
//! Invariants (the reason this file may use `unsafe`): as in `direct`, with a row of zero points in place of the zeros; and
//! where channels do not come in runs of a multiple of four, each pixel's window is first gathered into the worker's own
//! scratch.

use super::int_depthwise::IntDepthwise;
use super::int_finish::{IntFinish, Requantize};
use super::int_kernel::{IntRow, IntTile, int_pick, int_rows, int_tile_pixels};
use super::kernel::{BLOCK, MAX_BLOCKS, MAX_PIXELS};
use super::pixels::Pixels;
use super::{Geometry, strides};
use crate::copy::{address, address_mut};
use crate::isa::Isa;
use crate::pool::Pool;
use crate::ptr::Shared;
use crate::simd::{Kernel, Simd, dispatch};
use crate::{Error, Result};
use saltica_models::graph::ops::{QuantConv, window::Window};
use saltica_tensor::storage::AlignedBytes;
use saltica_tensor::{DType, Layout, Tensor, View, ViewMut};

const TASKS_PER_THREAD: usize = 6;
/// Weights that a task works with at a time, as for floats.
const WEIGHT_BUDGET: usize = 512 << 10;

/// An 8-bit convolution whose weights lie in the order its kernel reads them.
pub struct PackedQuantConv {
    isa: Isa,
    window: Window,
    group: usize,
    /// Channels of a group: in, out.
    channels: [usize; 2],
    x_dtype: DType,
    y_dtype: DType,
    /// Zero point of x after the shift.
    x_zero: i32,
    how: Requantize,
    kernel: Kind,
}

enum Kind {
    Dense(Dense),
    Depthwise(IntDepthwise),
}

struct Dense {
    /// `[group][blocks][quads][BLOCK][4]`, then `in` bytes that are x's zero point as it is stored.
    weights: AlignedBytes,
    /// Groups of four inputs in a whole window.
    quads: usize,
    /// `[group][blocks][BLOCK]`, zero points worked in.
    bias: Vec<i32>,
    /// The weights' zero points in the same order; empty if all are zero.
    w_zero: Vec<i32>,
}

impl PackedQuantConv {
    /// Packs weights `[O, C/group, kh, kw]` (i8 or u8) and a bias `[O]` (i32) for inputs of `x_dtype`. Errors if they do not
    /// fit the op.
    pub fn new(
        isa: Isa,
        op: &QuantConv,
        x_dtype: DType,
        weights: &Tensor,
        bias: Option<&Tensor>,
    ) -> Result<Self> {
        let bytes = |d: DType| matches!(d, DType::I8 | DType::U8);
        let &[o, ic, kh, kw] = weights.shape().dims() else {
            return Err(Error::shape(format!("weights are {}, rank 4 expected", weights.shape())));
        };
        let group = op.group();
        if !bytes(x_dtype) || !bytes(weights.dtype()) {
            return Err(Error::unsupported(format!(
                "x is {x_dtype}, weights {}, 8-bit numbers expected",
                weights.dtype()
            )));
        }
        let window = Window { kernel: [kh, kw], ..*op.window() };
        let named = op.window().kernel;
        if o == 0
            || ic == 0
            || kh * kw == 0
            || !o.is_multiple_of(group)
            || (named != [0, 0] && named != [kh, kw])
        {
            return Err(Error::shape(format!(
                "weights {} do not fit group {group} and kernel {named:?}",
                weights.shape()
            )));
        }
        let bias = bias.map(|b| b.as_slice::<i32>()).transpose()?;
        if let Some(b) = bias
            && b.len() != o
        {
            return Err(Error::shape(format!("bias has {} elements, {o} expected", b.len())));
        }
        let (oc, taps) = (o / group, kh * kw);
        let blocks = oc.div_ceil(BLOCK);
        // The shifts of the module's page.
        let (flip, x_shift) = if x_dtype == DType::I8 { (0x80u8, 128) } else { (0, 0) };
        let w_shift = if weights.dtype() == DType::U8 { 128 } else { 0 };
        let x_zero = op.x_zero() + x_shift;
        let raw = weights.bytes();
        let w_at = |o: usize, c: usize, t: usize| {
            let byte = raw[(o * ic + c) * taps + t];
            if w_shift == 0 { byte as i8 } else { byte.wrapping_sub(128) as i8 }
        };
        let bias_at = |o: usize| bias.map_or(0, |b| b[o]);
        let how = Requantize::new(op, group, oc)?;
        let kernel = if ic == 1 && oc == 1 && group > 1 {
            let blocks = o.div_ceil(BLOCK);
            let (mut w, mut b) = (vec![0; blocks * taps * BLOCK], vec![0; blocks * BLOCK]);
            for o in 0..o {
                b[o] = bias_at(o);
                for t in 0..taps {
                    w[(o / BLOCK * taps + t) * BLOCK + o % BLOCK] =
                        w_at(o, 0, t) as i32 - (op.w_zero(o) - w_shift);
                }
            }
            Kind::Depthwise(IntDepthwise { channels: o, weights: w, bias: b, zero: x_zero, flip })
        } else {
            let quads = (taps * ic).div_ceil(4);
            let block = quads * BLOCK * 4;
            let len = block.checked_mul(group * blocks).and_then(|n| n.checked_add(ic));
            let len = len.ok_or_else(|| Error::shape("weights are more than memory can hold"))?;
            let mut packed = AlignedBytes::zeroed(len)?;
            let mut b = vec![0i32; group * blocks * BLOCK];
            let mut zeros = vec![0i32; group * blocks * BLOCK];
            for o in 0..o {
                let (g, o_in) = (o / oc, o % oc);
                let at = (g * blocks + o_in / BLOCK) * block + o_in % BLOCK * 4;
                let mut sum = 0i32;
                for t in 0..taps {
                    for c in 0..ic {
                        let w = w_at(o, c, t);
                        sum = sum.wrapping_add(w as i32);
                        let k = t * ic + c;
                        packed.as_mut_slice()[at + k / 4 * BLOCK * 4 + k % 4] = w as u8;
                    }
                }
                let w_zero = op.w_zero(o) - w_shift;
                let n = (taps * ic) as i32;
                b[g * blocks * BLOCK + o_in] = bias_at(o)
                    .wrapping_sub(x_zero.wrapping_mul(sum))
                    .wrapping_add(n.wrapping_mul(x_zero).wrapping_mul(w_zero));
                zeros[g * blocks * BLOCK + o_in] = w_zero;
            }
            packed.as_mut_slice()[group * blocks * block..].fill(op.x_zero() as u8);
            if zeros.iter().all(|&z| z == 0) {
                zeros.clear();
            }
            Kind::Dense(Dense { weights: packed, quads, bias: b, w_zero: zeros })
        };
        let y_dtype = how.gives(op);
        // A depthwise op's parameters lie in one line, as if it were one group.
        let how = if matches!(kernel, Kind::Depthwise(_)) { Requantize::new(op, 1, o)? } else { how };
        Ok(PackedQuantConv { isa, window, group, channels: [ic, oc], x_dtype, y_dtype, x_zero, how, kernel })
    }

    /// The table row that runs, for profiles: `conv int8 avx512+dot 14x32` (pixels by channels of a tile).
    pub fn label(&self) -> String {
        if matches!(self.kernel, Kind::Depthwise(_)) {
            return format!("depthwise int8 {}", self.isa.kind().name());
        }
        let (rows, blocks) = (int_rows(self.isa), self.channels[1].div_ceil(BLOCK));
        let row = int_pick(rows, blocks, int_tile_pixels(rows, blocks));
        format!("conv int8 {} {}x{}", self.isa, row.pixels, row.blocks * BLOCK)
    }

    /// Bytes of packed weights and parameters.
    pub fn bytes(&self) -> usize {
        self.how.bytes()
            + match &self.kernel {
                Kind::Dense(d) => d.weights.len() + 4 * (d.bias.len() + d.w_zero.len()),
                Kind::Depthwise(d) => 4 * (d.weights.len() + d.bias.len()),
            }
    }

    fn gathers(&self, channel_stride: usize) -> bool {
        channel_stride != 1 || !self.channels[0].is_multiple_of(4)
    }

    fn worker_bytes(&self, dense: &Dense, gathers: bool) -> usize {
        let taps = self.window.kernel[0] * self.window.kernel[1];
        let bytes =
            if gathers { dense.quads * 4 * MAX_PIXELS } else { taps * MAX_PIXELS * size_of::<*const u8>() };
        bytes.next_multiple_of(64)
    }

    fn shared_bytes(&self) -> usize {
        (self.window.kernel[0] * self.window.kernel[1] * size_of::<isize>()).next_multiple_of(64)
    }

    /// Bytes of scratch that [`Self::run`] needs for an input of this layout on this many threads.
    pub fn scratch_bytes(&self, x: &Layout, threads: usize) -> usize {
        match &self.kernel {
            Kind::Dense(d) => {
                let gathers = x.strides().get(1).is_none_or(|&s| self.gathers(s));
                self.shared_bytes() + self.worker_bytes(d, gathers) * threads + 64
            }
            Kind::Depthwise(_) => 0,
        }
    }

    /// Computes y from x, any strides; channels-last is fast. Errors if shapes or dtypes do not fit, or the scratch is
    /// smaller than [`Self::scratch_bytes`] says.
    pub fn run(&self, pool: &Pool, x: &View<'_>, y: &mut ViewMut<'_>, scratch: &mut [u8]) -> Result<()> {
        let [ic, oc] = self.channels;
        let &[n, c, h, w] = x.shape().dims() else {
            return Err(Error::shape(format!("x is {}, rank 4 expected", x.shape())));
        };
        if c != ic * self.group || x.dtype() != self.x_dtype {
            return Err(Error::shape(format!(
                "x is {} with {c} channels, {} with {} expected",
                x.dtype(),
                self.x_dtype,
                ic * self.group
            )));
        }
        let [oh, ow] = self.window.output([h, w])?;
        let want = [n, oc * self.group, oh, ow];
        if y.shape().dims() != want || y.dtype() != self.y_dtype {
            return Err(Error::shape(format!(
                "y is {} {}, {} {want:?} expected",
                y.dtype(),
                y.shape(),
                self.y_dtype
            )));
        }
        let need = self.scratch_bytes(x.layout(), pool.threads());
        if scratch.len() < need {
            return Err(Error::shape(format!("{} bytes of scratch found, {need} expected", scratch.len())));
        }
        if n * oh * ow == 0 {
            return Ok(());
        }
        let pads = self.window.pads_for([h, w]);
        let g = Geometry {
            n,
            h,
            w,
            oh,
            ow,
            kernel: self.window.kernel,
            stride: self.window.stride,
            dilation: self.window.dilation,
            pads: [pads[0], pads[1]],
            x: strides(x.layout()),
            y: strides(y.layout()),
            r: [0; 4],
        };
        let (from, to) = (address(x), address_mut(y));
        // SAFETY: shapes and dtypes were checked, so the addresses are those of the views' elements.
        unsafe {
            match &self.kernel {
                Kind::Dense(d) => self.dense(pool, d, &g, from, to, scratch),
                Kind::Depthwise(d) => d.run(self.isa, pool, &g, from, to, &self.how),
            }
        }
    }

    /// # Safety
    /// The addresses are those of the elements that `g` describes, and the scratch has the bytes asked for.
    unsafe fn dense(
        &self,
        pool: &Pool,
        dense: &Dense,
        g: &Geometry,
        x: Shared<u8>,
        y: Shared<u8>,
        scratch: &mut [u8],
    ) -> Result<()> {
        let rows = int_rows(self.isa);
        let gathers = self.gathers(g.x[1]);
        let start = scratch.as_mut_ptr();
        let base = start.wrapping_add(start.align_offset(64));
        let offsets: Shared<isize> = Shared(base.cast());
        for t in 0..g.kernel[0] * g.kernel[1] {
            let (ky, kx) = (t / g.kernel[1], t % g.kernel[1]);
            let tap = ky * g.dilation[0] * g.x[2] + kx * g.dilation[1] * g.x[3];
            // SAFETY: inside the shared part of the scratch.
            unsafe { *offsets.at(t) = if gathers { 0 } else { tap as isize } };
        }
        let blocks = self.channels[1].div_ceil(BLOCK);
        let unit = rows.iter().map(|r| r.blocks).max().unwrap_or(1);
        let pixels = g.n * g.oh * g.ow;
        let high = int_tile_pixels(rows, blocks);
        let tiles = pixels.div_ceil(high);
        let want = if pool.threads() == 1 { 1 } else { pool.threads() * TASKS_PER_THREAD };
        let panels = blocks.div_ceil(unit);
        let weight_bytes = blocks * dense.quads * BLOCK * 4;
        let pieces =
            weight_bytes.div_ceil(WEIGHT_BUDGET).max(want.div_ceil(tiles * self.group)).clamp(1, panels);
        let chunks = want.div_ceil(pieces * self.group).clamp(1, tiles);
        let job = Job {
            conv: self,
            dense,
            g,
            x,
            y,
            rows,
            high,
            gathers,
            offsets,
            own: Shared(base.wrapping_add(self.shared_bytes())),
            worker: self.worker_bytes(dense, gathers),
        };
        pool.run(self.group * pieces * chunks, &|task, worker| {
            let (piece, chunk) = (task / chunks, task % chunks);
            let (group, piece) = (piece / pieces, piece % pieces);
            let panel = |i: usize| (i * panels / pieces * unit).min(blocks);
            let tile = |i: usize| (i * tiles / chunks * high).min(pixels);
            let work = Work {
                job: &job,
                group,
                blocks: [panel(piece), panel(piece + 1)],
                pixels: [tile(chunk), tile(chunk + 1)],
                worker,
            };
            dispatch(self.isa, work);
        })
    }
}

struct Job<'a> {
    conv: &'a PackedQuantConv,
    dense: &'a Dense,
    g: &'a Geometry,
    x: Shared<u8>,
    y: Shared<u8>,
    rows: &'static [IntRow],
    high: usize,
    gathers: bool,
    offsets: Shared<isize>,
    /// What each worker has for itself.
    own: Shared<u8>,
    worker: usize,
}

/// One task: a range of pixels times a range of blocks of one group.
struct Work<'a> {
    job: &'a Job<'a>,
    group: usize,
    blocks: [usize; 2],
    pixels: [usize; 2],
    worker: usize,
}

impl Kernel for Work<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Job { conv, dense, g, rows, .. } = self.job;
        let [ic, oc] = conv.channels;
        let taps = g.kernel[0] * g.kernel[1];
        let blocks = oc.div_ceil(BLOCK);
        let block = dense.quads * BLOCK * 4;
        let own = self.job.own.at(self.worker * self.job.worker);
        let weights = dense.weights.as_slice();
        let padding = weights[conv.group * blocks * block..].as_ptr();
        let flip = if conv.x_dtype == DType::I8 { 0x8080_8080u32 } else { 0 };
        let size = if conv.how.gives_floats() { 4 } else { 1 };
        // Output strides in bytes for the addresses, in elements within a row.
        let in_bytes = Geometry { y: g.y.map(|s| s * size), ..**g };
        let x = self.job.x.at(self.group * ic * g.x[1]).cast_const();
        let mut sums = [0i32; MAX_PIXELS * MAX_BLOCKS * BLOCK];
        let mut px = Pixels::<u8, u8>::new();
        let zero_offset = 0isize;
        let mut at = self.pixels[0];
        let mut yx = [at / (g.oh * g.ow), at / g.ow % g.oh, at % g.ow];
        while at < self.pixels[1] {
            let count = self.job.high.min(self.pixels[1] - at);
            px.locate(&in_bytes, (x, self.job.y.0, std::ptr::null()), count, &mut yx);
            let mut tile = IntTile {
                taps,
                quads: ic / 4,
                ptrs: px.x.as_ptr(),
                ptr_step: 0,
                offs: self.job.offsets.0,
                off_step: 1,
                flip,
                w: std::ptr::null(),
                w_block: block,
                bias: std::ptr::null(),
                out: sums.as_mut_ptr(),
            };
            if self.job.gathers {
                // SAFETY: the worker's own scratch holds a window for each of MAX_PIXELS pixels.
                unsafe { self.gather(&px, own) };
                for m in 0..MAX_PIXELS {
                    px.x[m] = own.wrapping_add(if m < count { m } else { 0 } * dense.quads * 4);
                }
                tile.taps = 1;
                tile.quads = dense.quads;
            } else if !px.inside {
                let table = own.cast::<*const u8>();
                // SAFETY: the worker's own scratch holds taps * MAX_PIXELS addresses.
                unsafe { px.address(g, padding, table) };
                tile.ptrs = table;
                tile.ptr_step = MAX_PIXELS;
                tile.offs = &zero_offset;
                tile.off_step = 0;
            }
            let mut inputs = [0i32; MAX_PIXELS];
            if !dense.w_zero.is_empty() {
                // SAFETY: what the kernel reads.
                inputs = unsafe { input_sums(&tile, count) };
            }
            let mut b = self.blocks[0];
            while b < self.blocks[1] {
                let row = int_pick(rows, self.blocks[1] - b, count);
                let packed = self.group * blocks + b;
                tile.w = weights[packed * block..].as_ptr().cast();
                tile.bias = dense.bias[packed * BLOCK..].as_ptr();
                // SAFETY: the list is that of the instruction set this runs on; the addresses are inside the image, the
                // padding or the scratch, weights and bias hold `row.blocks` blocks from here, `sums` the largest tile.
                unsafe { (row.run)(&tile) };
                let width = row.blocks * BLOCK;
                if !dense.w_zero.is_empty() {
                    let zeros = &dense.w_zero[packed * BLOCK..][..width];
                    for m in 0..count {
                        for (sum, z) in sums[m * width..][..width].iter_mut().zip(zeros) {
                            *sum = sum.wrapping_sub(z.wrapping_mul(inputs[m]));
                        }
                    }
                }
                let finish = IntFinish {
                    how: &conv.how,
                    channel: packed * BLOCK,
                    tile: &sums,
                    row: width,
                    channels: width.min(oc - b * BLOCK),
                    y: &px.y[..count],
                    y_first: (self.group * oc + b * BLOCK) * g.y[1],
                    y_channel: g.y[1],
                };
                // SAFETY: the elements are this task's own.
                unsafe { finish.store(s) };
                b += row.blocks;
            }
            at += count;
        }
    }
}

impl Work<'_> {
    /// Copies each pixel's window into `patch` as `[pixels][taps][in]`, rows padded to a multiple of four bytes, with the
    /// zero point outside the image.
    ///
    /// # Safety
    /// `patch` is writable for that many bytes.
    #[inline(always)]
    unsafe fn gather(&self, px: &Pixels<u8, u8>, patch: *mut u8) {
        let Job { conv, dense, g, .. } = self.job;
        let ic = conv.channels[0];
        let outside = if conv.x_dtype == DType::I8 { conv.x_zero - 128 } else { conv.x_zero } as u8;
        for m in 0..px.count {
            let row = patch.wrapping_add(m * dense.quads * 4);
            for ky in 0..g.kernel[0] {
                for kx in 0..g.kernel[1] {
                    let (dy, dx) = ((ky * g.dilation[0]) as isize, (kx * g.dilation[1]) as isize);
                    let to = row.wrapping_add((ky * g.kernel[1] + kx) * ic);
                    let from = px.x[m].wrapping_offset(dy * g.x[2] as isize + dx * g.x[3] as isize);
                    // SAFETY: `ic` bytes of the row; the pixel is inside the image where it is read.
                    unsafe {
                        if !px.sees(g, m, dy, dx) {
                            std::slice::from_raw_parts_mut(to, ic).fill(outside);
                        } else if g.x[1] == 1 {
                            std::ptr::copy_nonoverlapping(from, to, ic);
                        } else {
                            for c in 0..ic {
                                *to.add(c) = *from.add(c * g.x[1]);
                            }
                        }
                    }
                }
            }
            // What follows meets weights of zero, but counts in the sum of inputs.
            let len = g.kernel[0] * g.kernel[1] * ic;
            let flip = if conv.x_dtype == DType::I8 { 0x80 } else { 0 };
            for i in len..dense.quads * 4 {
                // SAFETY: at most three bytes at the row's end.
                unsafe { *row.add(i) = flip };
            }
        }
    }
}

/// The sum of each pixel's (shifted) inputs.
///
/// # Safety
/// The addresses are as [`IntTile`] says.
unsafe fn input_sums(t: &IntTile, count: usize) -> [i32; MAX_PIXELS] {
    let mut sums = [0i32; MAX_PIXELS];
    let flip = t.flip as u8;
    for k in 0..t.taps {
        for (m, sum) in sums.iter_mut().enumerate().take(count) {
            // SAFETY: the caller vouches for the addresses.
            unsafe {
                let p = (*t.ptrs.add(k * t.ptr_step + m)).offset(*t.offs.add(k * t.off_step));
                for c in 0..4 * t.quads {
                    *sum = sum.wrapping_add((*p.add(c) ^ flip) as i32);
                }
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::layouts;
    use proptest::prelude::*;
    use saltica_models::graph::Activation;
    use saltica_models::graph::ops::window::AutoPad;
    use saltica_models::graph::ops::{ByteTable, Operator, QuantOutput};
    use saltica_tensor::Shape;

    fn bytes(seed: u64, len: usize) -> Vec<u8> {
        crate::testing::noise(seed, len).into_iter().map(|v| (v * 127.9 + 128.0) as u8).collect()
    }

    /// Bytes at the places of a layout, in a buffer of exactly its span.
    fn spread_bytes(values: &[u8], layout: &Layout) -> Vec<u8> {
        let mut out = vec![0xAA; layout.span()];
        for (i, index) in layout.shape().indices().enumerate() {
            out[layout.offset(&index)] = values[i];
        }
        out
    }

    fn view<'a>(dtype: DType, data: &'a [u8], layout: Layout) -> View<'a> {
        if dtype == DType::I8 {
            View::of_slice::<i8>(bytemuck::cast_slice(data), layout).unwrap()
        } else {
            View::of_slice::<u8>(data, layout).unwrap()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        #[test]
        fn sums_and_bytes_are_exact_on_every_isa(
            channels in prop_oneof![
                (1usize..40, 1usize..40).prop_map(|(c, o)| (1usize, c, o)),
                (1usize..10, 1usize..5).prop_map(|(c, o)| (1usize, c * 4, o * 16)),
                (2usize..40).prop_map(|c| (c, 1, 1)),
                (2usize..4, 1usize..9, 1usize..9),
            ],
            kernel in prop_oneof![Just([1usize, 1]), Just([3, 3]), [1usize..5, 1..5]],
            stride in [1usize..3, 1..3], dilation in [1usize..3, 1..3], pads in [0usize..3, 0..3, 0..3, 0..3],
            size in [1usize..3, 1..10, 1..14],
            signs in any::<[bool; 3]>(), zeros in [0i32..256, 0..256, 0..256], asymmetric in any::<bool>(),
            output in 0usize..4, act in 0usize..5, extras in any::<[bool; 2]>(), seeds in any::<[u64; 2]>(),
        ) {
            let (group, ic, oc) = channels;
            let window = Window { kernel, stride, dilation, pads, auto_pad: AutoPad::Explicit, ceil_mode: false };
            let Ok([oh, ow]) = window.output([size[1], size[2]]) else { return Ok(()) };
            let dtype = |signed: bool| if signed { DType::I8 } else { DType::U8 };
            let zero = |i: usize| if signs[i] { zeros[i] - 128 } else { zeros[i] };
            let o = group * oc;
            let scales: Vec<f32> = (0..o).map(|i| 0.001 + 0.0003 * (i % 7) as f32).collect();
            let w_zero = if asymmetric { (0..o as i32).map(|i| (zero(1) + i).rem_euclid(128)).collect() }
                else { vec![if signs[1] { 0 } else { 128 }] };
            let activation = [Activation::None, Activation::Relu, Activation::LeakyRelu(0.1), Activation::HardSwish,
                Activation::Clip(-1.0, 6.0)][act];
            let table = ByteTable::new(DType::U8, std::array::from_fn(|i| (i * 7) as u8)).unwrap();
            let output = match output {
                0 => QuantOutput::Float { activation },
                i => QuantOutput::Quantized {
                    dtype: dtype(signs[2]), scale: 0.037, zero: zero(2), activation,
                    table: (i == 3).then_some(table),
                },
            };
            let mut op = QuantConv::new(window, group, zero(0), w_zero, 0.02, &scales, output).unwrap();
            if extras[1] {
                op = op.with_float_bias(crate::testing::noise(5, o));
            }
            let xs_shape = Shape::new(&[size[0], group * ic, size[1], size[2]]).unwrap();
            let w_shape = Shape::new(&[o, ic, kernel[0], kernel[1]]).unwrap();
            let y_shape = Shape::new(&[size[0], o, oh, ow]).unwrap();
            let layout = |shape: Shape, seed: u64| if seed.is_multiple_of(3) { layouts(shape, seed) }
                else { Layout::channels_last(shape, shape[1] + (seed % 4) as usize).unwrap() };
            let (lx, ly) = (layout(xs_shape, seeds[0]), layout(y_shape, seeds[1]));
            let xs = spread_bytes(&bytes(1, xs_shape.elements()), &lx);
            let x = view(dtype(signs[0]), &xs, lx);
            let w = Tensor::from_bytes(dtype(signs[1]), w_shape, &bytes(2, w_shape.elements())).unwrap();
            let bias: Vec<i32> = (0..o as i32).map(|i| i * 331 - 2000).collect();
            let bias = extras[0].then(|| Tensor::from_slice(&[o], &bias).unwrap());

            let y_dtype = op.infer(&[
                Some(saltica_models::graph::Fact { dtype: x.dtype(), shape: xs_shape, value: None }),
                Some(saltica_models::graph::Fact::of(&w)),
            ]).unwrap()[0].dtype;
            let run = |f: &mut dyn FnMut(&mut ViewMut<'_>)| -> Vec<u8> {
                if y_dtype == DType::F32 {
                    let mut y = vec![0f32; ly.span()];
                    f(&mut ViewMut::of_slice(&mut y, ly).unwrap());
                    bytemuck::cast_slice(&y).to_vec()
                } else {
                    let mut y = vec![0u8; ly.span()];
                    if y_dtype == DType::I8 {
                        f(&mut ViewMut::of_slice::<i8>(bytemuck::cast_slice_mut(&mut y), ly).unwrap());
                    } else {
                        f(&mut ViewMut::of_slice(&mut y, ly).unwrap());
                    }
                    y
                }
            };
            let want = run(&mut |y| {
                op.run(&[Some(x), Some(w.view()), bias.as_ref().map(|b| b.view())], std::slice::from_mut(&mut y.reborrow()))
                    .unwrap()
            });
            for isa in Isa::available() {
                let packed = PackedQuantConv::new(isa, &op, x.dtype(), &w, bias.as_ref()).unwrap();
                for threads in [1, 3] {
                    let pool = Pool::new(threads).unwrap();
                    let mut scratch = vec![0; packed.scratch_bytes(&lx, threads)];
                    let got = run(&mut |y| packed.run(&pool, &x, y, &mut scratch).unwrap());
                    // Sums of zeros may differ in the sign of zero only where the definition leaves it open: nowhere.
                    prop_assert!(got == want, "{} with {} threads", isa, threads);
                }
            }
        }
    }
}
