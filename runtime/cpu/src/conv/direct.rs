//! Convolution as an implicit matrix product: for each tap of the window, each output pixel's input channels are read where
//! they are; padding reads a row of zeros.
//!
//! Invariants (the reason this file may use `unsafe`):
//! * a tile whose pixels all see the whole window inside the image addresses `base + offset of the tap`; any other tile has
//!   a table of addresses, one for each tap and pixel, each inside the image or on the zeros;
//! * tasks write disjoint output elements: each owns a range of pixels times a range of channels;
//! * each worker uses its own part of the scratch block.

use super::finish::{Finish, MAX_ROW};
use super::kernel::{BLOCK, MAX_BLOCKS, MAX_PIXELS, Row, Tile, pick, rows, tile_pixels};
use super::pixels::Pixels;
use super::{Epilogue, Floats, Geometry, Io};
use crate::isa::Isa;
use crate::pool::Pool;
use crate::ptr::Shared;
use crate::simd::{Kernel, Simd, dispatch};
use crate::{Error, Result};
use saltica_models::graph::ops::Residual;
use saltica_tensor::Layout;

/// Weights that a task works with at a time: they should stay in the second-level cache beside the activations.
const WEIGHT_BUDGET: usize = 512 << 10;
/// Tasks for each thread, so that a late thread does not hold up the others for long.
const TASKS_PER_THREAD: usize = 6;

pub(super) struct Direct {
    isa: Isa,
    group: usize,
    /// Channels of a group: in, out.
    channels: [usize; 2],
    taps: usize,
    /// `[group][blocks][taps][in][BLOCK]`, then zeros for `in` channels.
    weights: Floats,
    /// `[group][blocks][BLOCK]`.
    bias: Floats,
}

impl Direct {
    pub(super) fn pack(
        isa: Isa,
        group: usize,
        channels: [usize; 2],
        taps: usize,
        w: &[f32],
        bias: Option<&[f32]>,
    ) -> Result<Self> {
        let [ic, oc] = channels;
        let blocks = oc.div_ceil(BLOCK);
        let block = taps * ic * BLOCK;
        let too_large = || Error::shape("weights are more than memory can hold");
        let len = block
            .checked_mul(blocks)
            .and_then(|n| n.checked_mul(group))
            .and_then(|n| n.checked_add(ic))
            .ok_or_else(too_large)?;
        let mut weights = Floats::zeroed(len)?;
        let mut packed_bias = Floats::zeroed(group * blocks * BLOCK)?;
        let to = weights.get_mut();
        for o in 0..group * oc {
            let (g, o_in) = (o / oc, o % oc);
            let at = (g * blocks + o_in / BLOCK) * block + o_in % BLOCK;
            for c in 0..ic {
                for t in 0..taps {
                    to[at + (t * ic + c) * BLOCK] = w[(o * ic + c) * taps + t];
                }
            }
            if let Some(b) = bias {
                packed_bias.get_mut()[(g * blocks + o_in / BLOCK) * BLOCK + o_in % BLOCK] = b[o];
            }
        }
        Ok(Direct { isa, group, channels, taps, weights, bias: packed_bias })
    }

    pub(super) fn label(&self) -> String {
        let rows = rows(self.isa.kind());
        let high = tile_pixels(rows, self.channels[1].div_ceil(BLOCK));
        let row = pick(rows, self.channels[1].div_ceil(BLOCK), high);
        format!("conv {} {}x{}", self.isa.kind().name(), row.pixels, row.blocks * BLOCK)
    }

    pub(super) fn bytes(&self) -> usize {
        self.weights.bytes() + self.bias.bytes()
    }

    /// Whether an input with this channel stride is read element by element rather than in runs.
    fn scattered(&self, channel_stride: usize) -> bool {
        channel_stride != 1 && self.channels[0] > 1
    }

    pub(super) fn scratch_bytes(&self, x: &Layout, threads: usize) -> usize {
        let scattered = x.strides().get(1).is_some_and(|&s| self.scattered(s));
        let plan = Scratch::plan(self.taps, self.channels[0], scattered);
        plan.shared + plan.worker * threads + 64
    }

    /// # Safety
    /// The addresses in `io` are those of the elements that `g` describes, and the scratch has the bytes asked for.
    pub(super) unsafe fn run(
        &self,
        pool: &Pool,
        g: &Geometry,
        io: Io,
        epilogue: Epilogue,
        scratch: &mut [u8],
    ) -> Result<()> {
        let rows = rows(self.isa.kind());
        let scattered = self.scattered(g.x[1]);
        let scratch = Scratch::lay_out(scratch, self.taps, self.channels[0], scattered);
        // SAFETY: the shared part of the scratch holds these tables; no task runs yet.
        unsafe { self.write_offsets(g, &scratch, scattered) };

        let blocks = self.channels[1].div_ceil(BLOCK);
        let unit = rows.iter().map(|r| r.blocks).max().unwrap_or(1);
        let pixels = g.n * g.oh * g.ow;
        let high = tile_pixels(rows, blocks);
        let tiles = pixels.div_ceil(high);
        let want = if pool.threads() == 1 { 1 } else { pool.threads() * TASKS_PER_THREAD };
        // A piece is a range of blocks small enough for the cache, and small enough to have work for all.
        let panels = blocks.div_ceil(unit);
        let weight_bytes = blocks * self.taps * self.channels[0] * BLOCK * 4;
        let pieces =
            weight_bytes.div_ceil(WEIGHT_BUDGET).max(want.div_ceil(tiles * self.group)).clamp(1, panels);
        let chunks = want.div_ceil(pieces * self.group).clamp(1, tiles);
        let job = Job { conv: self, g, io, epilogue, scratch, rows, high, scattered };
        pool.run(self.group * pieces * chunks, &|task, worker| {
            let (piece, chunk) = (task / chunks, task % chunks);
            let (group, piece) = (piece / pieces, piece % pieces);
            let from_panel = |i: usize| (i * panels / pieces * unit).min(blocks);
            let from_tile = |i: usize| (i * tiles / chunks * high).min(pixels);
            let work = Work {
                job: &job,
                group,
                blocks: [from_panel(piece), from_panel(piece + 1)],
                pixels: [from_tile(chunk), from_tile(chunk + 1)],
                worker,
            };
            dispatch(self.isa, work);
        })
    }

    /// # Safety
    /// The shared part of the scratch must be free to write.
    unsafe fn write_offsets(&self, g: &Geometry, scratch: &Scratch, scattered: bool) {
        let ic = self.channels[0];
        for t in 0..self.taps {
            let (ky, kx) = (t / g.kernel[1], t % g.kernel[1]);
            let tap = ky * g.dilation[0] * g.x[2] + kx * g.dilation[1] * g.x[3];
            let of_tap = if scattered { ic } else { 1 };
            for c in 0..of_tap {
                let k = t * of_tap + c;
                // SAFETY: k is below the table's length.
                unsafe {
                    *scratch.offsets.0.add(k) = (tap + c * g.x[1]) as isize;
                    if scattered {
                        *scratch.patch_offsets.0.add(k) = (k * MAX_PIXELS) as isize;
                    }
                }
            }
        }
    }
}

/// How the scratch block is divided.
#[derive(Clone, Copy)]
struct Scratch {
    /// Offset of each tap (or of each tap and channel) from a pixel's base.
    offsets: Shared<isize>,
    /// The same within a gathered patch.
    patch_offsets: Shared<isize>,
    /// What each worker has for itself.
    own: Shared<u8>,
    worker: usize,
}

struct ScratchPlan {
    shared: usize,
    worker: usize,
    table: usize,
}

impl Scratch {
    fn plan(taps: usize, ic: usize, scattered: bool) -> ScratchPlan {
        let up = |bytes: usize| bytes.next_multiple_of(64);
        if scattered {
            let table = up(taps * ic * size_of::<isize>());
            ScratchPlan { shared: 2 * table, worker: up(taps * ic * MAX_PIXELS * 4), table }
        } else {
            let table = up(taps * size_of::<isize>());
            ScratchPlan { shared: table, worker: up(taps * MAX_PIXELS * size_of::<*const f32>()), table }
        }
    }

    fn lay_out(scratch: &mut [u8], taps: usize, ic: usize, scattered: bool) -> Scratch {
        let plan = Self::plan(taps, ic, scattered);
        let start = scratch.as_mut_ptr();
        let base = start.wrapping_add(start.align_offset(64));
        Scratch {
            offsets: Shared(base.cast()),
            patch_offsets: Shared(base.wrapping_add(plan.table).cast()),
            own: Shared(base.wrapping_add(plan.shared)),
            worker: plan.worker,
        }
    }
}

struct Job<'a> {
    conv: &'a Direct,
    g: &'a Geometry,
    io: Io,
    epilogue: Epilogue,
    scratch: Scratch,
    rows: &'static [Row],
    /// Pixels of a whole tile.
    high: usize,
    scattered: bool,
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
        let Job { conv, g, epilogue, scratch, rows, high, scattered, .. } = self.job;
        let (ic, taps) = (conv.channels[0], conv.taps);
        let blocks = conv.channels[1].div_ceil(BLOCK);
        let block = taps * ic * BLOCK;
        let own = scratch.own.0.wrapping_add(self.worker * scratch.worker);
        let zeros = conv.weights.get()[conv.group * blocks * block..].as_ptr();
        let mut buffer = [0f32; MAX_PIXELS * MAX_BLOCKS * BLOCK];
        let x = self.job.io.x.at(self.group * ic * g.x[1]);
        let r = if epilogue.residual == Residual::None { std::ptr::null_mut() } else { self.job.io.r.0 };
        let mut px = Pixels::new();
        let zero_offset = 0isize;
        let mut at = self.pixels[0];
        let mut yx = [at / (g.oh * g.ow), at / g.ow % g.oh, at % g.ow];
        while at < self.pixels[1] {
            let count = (*high).min(self.pixels[1] - at);
            px.locate(g, (x, self.job.io.y.0, r), count, &mut yx);
            let mut tile = Tile {
                taps,
                ic,
                ptrs: px.x.as_ptr(),
                ptr_step: 0,
                offs: scratch.offsets.0,
                off_step: 1,
                w: std::ptr::null(),
                w_block: block,
                bias: std::ptr::null(),
                out: std::ptr::null_mut(),
            };
            if *scattered {
                tile.taps = taps * ic;
                tile.ic = 1;
                if !px.inside {
                    let patch = own.cast::<f32>();
                    // SAFETY: the worker's own scratch holds taps * ic * MAX_PIXELS floats.
                    unsafe { self.gather(&px, patch) };
                    for m in 0..MAX_PIXELS {
                        px.x[m] = patch.wrapping_add(if m < count { m } else { 0 });
                    }
                    // Taken again: the writes above ended what the first pointer was good for.
                    tile.ptrs = px.x.as_ptr();
                    tile.offs = scratch.patch_offsets.0;
                }
            } else if !px.inside {
                let table = own.cast::<*const f32>();
                // SAFETY: the worker's own scratch holds taps * MAX_PIXELS addresses.
                unsafe { px.address(g, zeros, table) };
                tile.ptrs = table;
                tile.ptr_step = MAX_PIXELS;
                tile.offs = &zero_offset;
                tile.off_step = 0;
            }
            let mut b = self.blocks[0];
            while b < self.blocks[1] {
                let row = pick(rows, self.blocks[1] - b, count);
                let first = (self.group * blocks + b) * block;
                // Taken again for each tile: reading the buffer to finish one ends the pointer's right to write.
                tile.out = buffer.as_mut_ptr();
                tile.w = conv.weights.get()[first..].as_ptr();
                tile.bias = conv.bias.get()[(self.group * blocks + b) * BLOCK..].as_ptr();
                // SAFETY: the list is that of the instruction set this runs on; the addresses are inside the image or
                // on zeros, the weights and bias hold `row.blocks` blocks from here, the buffer the largest tile.
                unsafe { (if *scattered { row.scattered } else { row.run })(&tile) };
                let channel = self.group * conv.channels[1] + b * BLOCK;
                let finish = Finish {
                    tile: &buffer,
                    row: row.blocks * BLOCK,
                    channels: (row.blocks * BLOCK).min(conv.channels[1] - b * BLOCK),
                    y: &px.y[..count],
                    y_first: channel * g.y[1],
                    y_channel: g.y[1],
                    r: &px.r[..count],
                    r_first: channel * g.r[1],
                    r_channel: g.r[1],
                    activation: epilogue.activation,
                    residual: epilogue.residual,
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
    /// Copies the inputs of each pixel's window into `patch` as `[taps][in][MAX_PIXELS]`, zero outside the image.
    ///
    /// # Safety
    /// `patch` is writable for that many floats.
    #[inline(always)]
    unsafe fn gather(&self, px: &Pixels<f32, f32>, patch: *mut f32) {
        let g = self.job.g;
        let ic = self.job.conv.channels[0];
        for m in 0..px.count {
            for ky in 0..g.kernel[0] {
                for kx in 0..g.kernel[1] {
                    let (dy, dx) = ((ky * g.dilation[0]) as isize, (kx * g.dilation[1]) as isize);
                    let inside = px.sees(g, m, dy, dx);
                    let from = px.x[m].wrapping_offset(dy * g.x[2] as isize + dx * g.x[3] as isize);
                    for c in 0..ic {
                        // SAFETY: the pixel is inside the image.
                        let v = if inside { unsafe { *from.add(c * g.x[1]) } } else { 0.0 };
                        let k = (ky * g.kernel[1] + kx) * ic + c;
                        // SAFETY: k < taps * ic and m < MAX_PIXELS.
                        unsafe { *patch.add(k * MAX_PIXELS + m) = v };
                    }
                }
            }
        }
    }
}

const _: () = assert!(MAX_BLOCKS * BLOCK <= MAX_ROW);
