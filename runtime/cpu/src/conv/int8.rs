//! Convolution of 8-bit numbers, exact, with the arithmetic that [`QuantConv`] defines.
//!
//! The kernels multiply unsigned inputs with signed weights, so signed inputs have their sign bit flipped (which adds 128)
//! and unsigned weights have 128 taken away; zero points move along. With x' and w' the shifted numbers,
//! sum((x' - zx)(w' - zw)) = sum(x' w') - zx sum(w') - zw sum(x') + n zx zw over the n taps and channels, padding being zx.
//! All but the first and third terms are constants of a channel and go into its bias.
//!
//! Four neighbouring inputs meet four weights at a time. In most layers they are channels of a pixel. A stem has too few
//! channels for that: there they are the columns of a window's row in one plane, rows padded with weights of zero, which an
//! image whose planes lie one after another has as runs.
//!
//! Invariants (the reason this file may use `unsafe`): as in `direct`, with a row of zero points in place of the zeros; where
//! a window's inputs do not lie as the weights do, it is first gathered into the worker's own scratch; rows that are longer
//! than the window's are read in place only if they end before the input does.

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
use saltica_models::graph::ops::{ConvInteger, QuantConv, window::Window};
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
    finish: Finish,
    kernel: Kind,
}

/// What becomes of the sums.
enum Finish {
    /// x's zero point is known, the sums leave through an epilogue.
    Known(i32, Requantize),
    /// x's zero point comes with x, the sums leave as they are.
    Later,
}

/// A convolution of 8-bit numbers to i32 whose zero point of x comes with each run, as [`ConvInteger`] defines it.
pub struct PackedConvInteger(PackedQuantConv);

enum Kind {
    Dense(Dense),
    Depthwise(IntDepthwise),
}

struct Dense {
    /// `[group][blocks][quads][BLOCK][4]`.
    weights: AlignedBytes,
    /// Groups of four inputs in a whole window.
    quads: usize,
    /// Bytes of a window's row in one plane, padded to a multiple of four, if that is the order of the weights:
    /// `[rows][in][columns]`. Else they lie as `[rows][columns][in]`.
    planes: Option<usize>,
    /// `[group][blocks][BLOCK]`; x's zero point, if it is known, worked in.
    bias: Vec<i32>,
    /// What each step of x's zero point takes from a sum, in the same order.
    per_zero: Vec<i32>,
    /// The weights' zero points in the same order; empty if all are zero.
    w_zero: Vec<i32>,
}

/// An op's weights, checked.
struct Weights<'a> {
    bytes: &'a [u8],
    o: usize,
    ic: usize,
    /// The op's window with the weights' kernel.
    window: Window,
    /// Taken away from unsigned weights.
    shift: i32,
}

impl<'a> Weights<'a> {
    fn new(window: &Window, group: usize, x_dtype: DType, weights: &'a Tensor) -> Result<Self> {
        let bytes = |d: DType| matches!(d, DType::I8 | DType::U8);
        let &[o, ic, kh, kw] = weights.shape().dims() else {
            return Err(Error::shape(format!("weights are {}, rank 4 expected", weights.shape())));
        };
        if !bytes(x_dtype) || !bytes(weights.dtype()) {
            return Err(Error::unsupported(format!(
                "x is {x_dtype}, weights {}, 8-bit numbers expected",
                weights.dtype()
            )));
        }
        let named = window.kernel;
        if group == 0
            || o == 0
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
        let window = Window { kernel: [kh, kw], ..*window };
        let shift = if weights.dtype() == DType::U8 { 128 } else { 0 };
        Ok(Weights { bytes: weights.bytes(), o, ic, window, shift })
    }

    /// The weight of output `o`, input `c` of its group, tap `t`, as a signed number.
    fn at(&self, o: usize, c: usize, t: usize) -> i8 {
        let [kh, kw] = self.window.kernel;
        self.bytes[(o * self.ic + c) * kh * kw + t].wrapping_sub(self.shift as u8) as i8
    }
}

impl Dense {
    /// Packs the weights; `w_zero` gives an output's zero point after the shift. The bias is 0.
    fn new(raw: &Weights<'_>, group: usize, w_zero: impl Fn(usize) -> i32) -> Result<Dense> {
        let &Weights { o, ic, window, .. } = raw;
        let [kh, kw] = window.kernel;
        let (oc, taps) = (o / group, kh * kw);
        let blocks = oc.div_ceil(BLOCK);
        let planes = (ic <= 4 && kw >= 3 && window.dilation[1] == 1).then_some(kw.next_multiple_of(4));
        let inputs = planes.map_or(taps * ic, |row| kh * ic * row);
        let quads = inputs.div_ceil(4);
        let block = quads * BLOCK * 4;
        let len = block.checked_mul(group * blocks);
        let len = len.ok_or_else(|| Error::shape("weights are more than memory can hold"))?;
        let mut packed = AlignedBytes::zeroed(len)?;
        let (mut per_zero, mut zeros) =
            (vec![0i32; group * blocks * BLOCK], vec![0i32; group * blocks * BLOCK]);
        for o in 0..o {
            let (g, o_in) = (o / oc, o % oc);
            let at = (g * blocks + o_in / BLOCK) * block + o_in % BLOCK * 4;
            let mut sum = 0i32;
            for t in 0..taps {
                for c in 0..ic {
                    let w = raw.at(o, c, t);
                    sum = sum.wrapping_add(w as i32);
                    let k = planes.map_or(t * ic + c, |row| (t / kw * ic + c) * row + t % kw);
                    packed.as_mut_slice()[at + k / 4 * BLOCK * 4 + k % 4] = w as u8;
                }
            }
            let place = g * blocks * BLOCK + o_in;
            zeros[place] = w_zero(o);
            per_zero[place] = sum.wrapping_sub(((taps * ic) as i32).wrapping_mul(w_zero(o)));
        }
        if zeros.iter().all(|&z| z == 0) {
            zeros.clear();
        }
        let bias = vec![0; group * blocks * BLOCK];
        Ok(Dense { weights: packed, quads, planes, bias, per_zero, w_zero: zeros })
    }
}

impl PackedConvInteger {
    /// Packs weights `[O, C/group, kh, kw]` (i8 or u8) with zero points (none, one, or `[O]`) for inputs of `x_dtype`. Errors
    /// if they do not fit the op.
    pub fn new(
        isa: Isa,
        op: &ConvInteger,
        x_dtype: DType,
        weights: &Tensor,
        zeros: Option<&Tensor>,
    ) -> Result<Self> {
        let raw = Weights::new(&op.window, op.group, x_dtype, weights)?;
        let Weights { o, ic, window, .. } = raw;
        let zeros: Vec<i32> = match zeros {
            None => vec![0; o],
            Some(z) if z.shape().elements() == 1 || z.shape().elements() == o => (0..o)
                .map(|i| z.get_f64(if z.shape().elements() == 1 { 0 } else { i }).unwrap_or(0.0) as i32)
                .collect(),
            Some(z) => return Err(Error::shape(format!("zero points are {}, 1 or {o} expected", z.shape()))),
        };
        let dense = Dense::new(&raw, op.group, |o| zeros[o] - raw.shift)?;
        Ok(PackedConvInteger(PackedQuantConv {
            isa,
            window,
            group: op.group,
            channels: [ic, o / op.group],
            x_dtype,
            y_dtype: DType::I32,
            finish: Finish::Later,
            kernel: Kind::Dense(dense),
        }))
    }

    /// The table row that runs, as [`PackedQuantConv::label`].
    pub fn label(&self) -> String {
        self.0.label()
    }

    /// Bytes of packed weights and parameters.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Bytes of scratch that [`Self::run`] needs for an input of this layout on this many threads.
    pub fn scratch_bytes(&self, x: &Layout, threads: usize) -> usize {
        self.0.scratch_bytes(x, threads)
    }

    /// Computes y (i32) from x and its zero point, any strides; channels-last is fast. Errors if shapes or dtypes do not fit,
    /// the zero point is none of x's numbers, or the scratch is smaller than [`Self::scratch_bytes`] says.
    pub fn run(
        &self,
        pool: &Pool,
        x: &View<'_>,
        zero: i32,
        y: &mut ViewMut<'_>,
        scratch: &mut [u8],
    ) -> Result<()> {
        let signed = self.0.x_dtype == DType::I8;
        if !(if signed { -128..128 } else { 0..256 }).contains(&zero) {
            return Err(Error::shape(format!("a zero point of {zero} for {}", self.0.x_dtype)));
        }
        self.0.run_with(pool, x, if signed { zero + 128 } else { zero }, y, scratch)
    }
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
        let (group, raw) = (op.group(), Weights::new(op.window(), op.group(), x_dtype, weights)?);
        let Weights { o, ic, window, .. } = raw;
        let bias = bias.map(|b| b.as_slice::<i32>()).transpose()?;
        if let Some(b) = bias
            && b.len() != o
        {
            return Err(Error::shape(format!("bias has {} elements, {o} expected", b.len())));
        }
        let (oc, taps) = (o / group, window.kernel[0] * window.kernel[1]);
        let (flip, x_shift) = if x_dtype == DType::I8 { (0x80u8, 128) } else { (0, 0) };
        let x_zero = op.x_zero() + x_shift;
        let bias_at = |o: usize| bias.map_or(0, |b| b[o]);
        let w_zero = |o: usize| op.w_zero(o) - raw.shift;
        let how = Requantize::new(op, group, oc)?;
        let y_dtype = how.gives(op);
        if ic == 1 && oc == 1 && group > 1 {
            let blocks = o.div_ceil(BLOCK);
            let (mut w, mut b) = (vec![0; blocks * taps * BLOCK], vec![0; blocks * BLOCK]);
            for o in 0..o {
                b[o] = bias_at(o);
                for t in 0..taps {
                    w[(o / BLOCK * taps + t) * BLOCK + o % BLOCK] = raw.at(o, 0, t) as i32 - w_zero(o);
                }
            }
            let kernel =
                Kind::Depthwise(IntDepthwise { channels: o, weights: w, bias: b, zero: x_zero, flip });
            // A depthwise op's parameters lie in one line, as if it were one group.
            let finish = Finish::Known(x_zero, Requantize::new(op, 1, o)?);
            return Ok(PackedQuantConv {
                isa,
                window,
                group,
                channels: [ic, oc],
                x_dtype,
                y_dtype,
                finish,
                kernel,
            });
        }
        let mut dense = Dense::new(&raw, group, w_zero)?;
        for o in 0..o {
            let at = o / oc * oc.div_ceil(BLOCK) * BLOCK + o % oc;
            dense.bias[at] = bias_at(o).wrapping_sub(x_zero.wrapping_mul(dense.per_zero[at]));
        }
        dense.per_zero = Vec::new();
        let (finish, kernel) = (Finish::Known(x_zero, how), Kind::Dense(dense));
        Ok(PackedQuantConv { isa, window, group, channels: [ic, oc], x_dtype, y_dtype, finish, kernel })
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
        (if let Finish::Known(_, how) = &self.finish { how.bytes() } else { 0 })
            + match &self.kernel {
                Kind::Dense(d) => d.weights.len() + 4 * (d.bias.len() + d.per_zero.len() + d.w_zero.len()),
                Kind::Depthwise(d) => 4 * (d.weights.len() + d.bias.len()),
            }
    }

    /// Whether windows are gathered: always, or (planes) where they cannot be read in place.
    fn gathers(&self, dense: &Dense, channel_stride: usize) -> bool {
        dense.planes.is_some() || channel_stride != 1 || !self.channels[0].is_multiple_of(4)
    }

    fn worker_bytes(&self, dense: &Dense, gathers: bool) -> usize {
        let taps = self.window.kernel[0] * self.window.kernel[1];
        let bytes =
            if gathers { dense.quads * 4 * MAX_PIXELS } else { taps * MAX_PIXELS * size_of::<*const u8>() };
        bytes.next_multiple_of(64)
    }

    /// Offsets of taps or rows, then a pixel of zero points, then the bias of a run.
    fn shared_bytes(&self, dense: &Dense) -> [usize; 3] {
        let [kh, kw] = self.window.kernel;
        let ic = self.channels[0];
        [kh * kw.max(ic) * size_of::<isize>(), ic, dense.per_zero.len() * size_of::<i32>()]
            .map(|n| n.next_multiple_of(64))
    }

    /// Bytes of scratch that [`Self::run`] needs for an input of this layout on this many threads.
    pub fn scratch_bytes(&self, x: &Layout, threads: usize) -> usize {
        match &self.kernel {
            Kind::Dense(d) => {
                let gathers = x.strides().get(1).is_none_or(|&s| self.gathers(d, s));
                self.shared_bytes(d).iter().sum::<usize>() + self.worker_bytes(d, gathers) * threads + 64
            }
            Kind::Depthwise(_) => 0,
        }
    }

    /// Computes y from x, any strides; channels-last is fast. Errors if shapes or dtypes do not fit, or the scratch is
    /// smaller than [`Self::scratch_bytes`] says.
    pub fn run(&self, pool: &Pool, x: &View<'_>, y: &mut ViewMut<'_>, scratch: &mut [u8]) -> Result<()> {
        let Finish::Known(zero, _) = self.finish else {
            return Err(Error::unsupported("the zero point of x is not known"));
        };
        self.run_with(pool, x, zero, y, scratch)
    }

    /// `zero` is x's zero point after the shift.
    fn run_with(
        &self,
        pool: &Pool,
        x: &View<'_>,
        zero: i32,
        y: &mut ViewMut<'_>,
        scratch: &mut [u8],
    ) -> Result<()> {
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
            match (&self.kernel, &self.finish) {
                (Kind::Dense(d), _) => {
                    let end = from.at(x.layout().span()).cast_const();
                    self.dense(pool, d, &g, (from, end, zero), to, scratch)
                }
                (Kind::Depthwise(d), Finish::Known(_, how)) => d.run(self.isa, pool, &g, from, to, how),
                _ => Err(Error::unsupported("a depthwise convolution without an epilogue")),
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
        (x, end, zero): (Shared<u8>, *const u8, i32),
        y: Shared<u8>,
        scratch: &mut [u8],
    ) -> Result<()> {
        let rows = int_rows(self.isa);
        let gathers = self.gathers(dense, g.x[1]);
        let start = scratch.as_mut_ptr();
        let base = start.wrapping_add(start.align_offset(64));
        let offsets: Shared<isize> = Shared(base.cast());
        let [table, pixel, biases] = self.shared_bytes(dense);
        // Taps, or a plane's rows.
        let inner = if dense.planes.is_some() { self.channels[0] } else { g.kernel[1] };
        for t in 0..g.kernel[0] * inner {
            let (ky, i) = (t / inner, t % inner);
            let step = if dense.planes.is_some() { g.x[1] } else { g.dilation[1] * g.x[3] };
            // SAFETY: inside the shared part of the scratch.
            unsafe { *offsets.at(t) = (ky * g.dilation[0] * g.x[2] + i * step) as isize };
        }
        let outside = if self.x_dtype == DType::I8 { zero - 128 } else { zero } as u8;
        let padding = base.wrapping_add(table);
        // SAFETY: inside the shared part of the scratch.
        unsafe { std::slice::from_raw_parts_mut(padding, self.channels[0]) }.fill(outside);
        let bias = if dense.per_zero.is_empty() {
            dense.bias.as_ptr()
        } else {
            let bias: *mut i32 = padding.wrapping_add(pixel).cast();
            for (i, &per) in dense.per_zero.iter().enumerate() {
                // SAFETY: inside the shared part of the scratch, which has a number for each.
                unsafe { *bias.add(i) = zero.wrapping_mul(per).wrapping_neg() };
            }
            bias.cast_const()
        };
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
            end: Shared(end.cast_mut()),
            outside,
            padding: Shared(padding),
            bias: Shared(bias.cast_mut()),
            own: Shared(base.wrapping_add(table + pixel + biases)),
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
    /// Behind the last byte of x.
    end: Shared<u8>,
    /// x's zero point as it is stored, once and as a pixel.
    outside: u8,
    padding: Shared<u8>,
    bias: Shared<i32>,
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
        let padding = self.job.padding.0.cast_const();
        let flip = if conv.x_dtype == DType::I8 { 0x8080_8080u32 } else { 0 };
        let size = conv.y_dtype.size();
        // How far a window's rows reach where they are read in place.
        let in_place = dense.planes.filter(|_| g.x[3] == 1 && dense.w_zero.is_empty());
        let reach = in_place.map(|row| (g.kernel[0] - 1) * g.dilation[0] * g.x[2] + (ic - 1) * g.x[1] + row);
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
                out: std::ptr::null_mut(),
            };
            let whole = |reach| px.inside && px.x.iter().all(|p| p.wrapping_add(reach) <= self.job.end.0);
            if let Some(row) = in_place
                && reach.is_some_and(whole)
            {
                tile.taps = g.kernel[0] * ic;
                tile.quads = row / 4;
            } else if self.job.gathers {
                // SAFETY: the worker's own scratch holds a window for each of MAX_PIXELS pixels.
                unsafe { self.gather(&px, own) };
                for m in 0..MAX_PIXELS {
                    px.x[m] = own.wrapping_add(if m < count { m } else { 0 } * dense.quads * 4);
                }
                tile.ptrs = px.x.as_ptr();
                tile.taps = 1;
                tile.quads = dense.quads;
                tile.offs = &zero_offset;
                tile.off_step = 0;
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
                // Taken again for each tile: reading the sums to finish one ends the pointer's right to write.
                tile.out = sums.as_mut_ptr();
                tile.w = weights[packed * block..].as_ptr().cast();
                tile.bias = self.job.bias.at(packed * BLOCK).cast_const();
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
                let (channels, y_first) = (width.min(oc - b * BLOCK), (self.group * oc + b * BLOCK) * g.y[1]);
                // SAFETY: the elements are this task's own.
                unsafe {
                    match &conv.finish {
                        Finish::Known(_, how) => IntFinish {
                            how,
                            channel: packed * BLOCK,
                            tile: &sums,
                            row: width,
                            channels,
                            y: &px.y[..count],
                            y_first,
                            y_channel: g.y[1],
                        }
                        .store(s),
                        Finish::Later => {
                            for (m, y) in px.y[..count].iter().enumerate() {
                                let y = y.cast::<i32>().add(y_first);
                                for (c, &sum) in sums[m * width..][..channels].iter().enumerate() {
                                    *y.add(c * g.y[1]) = sum;
                                }
                            }
                        }
                    }
                }
                b += row.blocks;
            }
            at += count;
        }
    }
}

impl Work<'_> {
    /// Copies each pixel's window into `patch`, in the order of the weights, with the zero point outside the image. What meets
    /// no weight gets the byte that counts as 0 in a sum of inputs.
    ///
    /// # Safety
    /// `patch` is writable for a window of each pixel, padded to whole quads.
    #[inline(always)]
    unsafe fn gather(&self, px: &Pixels<u8, u8>, patch: *mut u8) {
        let Job { conv, dense, g, outside, .. } = *self.job;
        let (ic, [kh, kw]) = (conv.channels[0], g.kernel);
        let nothing = if conv.x_dtype == DType::I8 { 0x80 } else { 0 };
        for m in 0..px.count {
            let window = patch.wrapping_add(m * dense.quads * 4);
            // SAFETY: the pixel's window.
            unsafe { std::slice::from_raw_parts_mut(window, dense.quads * 4) }.fill(nothing);
            for (ky, kx) in (0..kh).flat_map(|ky| (0..kw).map(move |kx| (ky, kx))) {
                let (dy, dx) = ((ky * g.dilation[0]) as isize, (kx * g.dilation[1]) as isize);
                let from = px.x[m].wrapping_offset(dy * g.x[2] as isize + dx * g.x[3] as isize);
                let sees = px.inside || px.sees(g, m, dy, dx);
                let (to, step) = match dense.planes {
                    Some(row) => (window.wrapping_add(ky * ic * row + kx), row),
                    None => (window.wrapping_add((ky * kw + kx) * ic), 1),
                };
                // SAFETY: `ic` bytes of the window; the pixel is inside the image where it is read.
                unsafe {
                    if sees && step == 1 && g.x[1] == 1 {
                        std::ptr::copy_nonoverlapping(from, to, ic);
                        continue;
                    }
                    for c in 0..ic {
                        *to.add(c * step) = if sees { *from.add(c * g.x[1]) } else { outside };
                    }
                }
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
