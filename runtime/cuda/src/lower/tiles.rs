//! Convolutions as tiles of a matrix product: which tile and split, by a model of what each costs.

use super::{Lowering, Target, blocks, int};
use crate::Result;
use crate::catalogue::{Variant, variants};
use crate::launch::{DeviceKernel, Launch, Ptr};
use crate::params;
use std::mem::offset_of;

/// What decides in which order a kernel adds up: results are the same bits for the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Order {
    family: &'static str,
    step: usize,
    parts: usize,
    splits: usize,
}

impl Order {
    fn of(v: &Variant, splits: usize) -> Order {
        // Kernels of one part that are no patch kernels add up one product after the other, whatever their step.
        let plain = v.parts == 1 && !is_patch(v) && !v.family().starts_with("conv_stem");
        let family = match v.family() {
            "conv1_f16" => "conv_f16",
            family => family,
        };
        Order { family, step: if plain { 0 } else { v.tile[2] }, parts: v.parts, splits }
    }
}

/// Whether a kernel tiles the picture in patches of rows of 8 pixels.
fn is_patch(v: &Variant) -> bool {
    v.family().starts_with("conv3")
}

/// Whether a kernel keeps all channels of a pixel at once and goes over the pixels as one long matrix.
fn is_stream(v: &Variant) -> bool {
    v.family().starts_with("conv1")
}

/// What it costs by the model, the kernel, and how many blocks share each sum.
type Way = (f64, &'static Variant, usize);

/// A convolution as the tiled kernels see it.
pub(super) struct Tiled<'a> {
    /// Kernel families that can do it.
    pub(super) families: &'a [&'a str],
    pub(super) params: params::Conv,
    /// Whether the order of sums has no say (integers).
    pub(super) exact: bool,
    /// Whether the output begins at a multiple of 16 bytes.
    pub(super) aligned: bool,
}

impl Tiled<'_> {
    /// Rows, columns and length of the sums for so many pictures.
    fn size(&self, batch: usize) -> [usize; 3] {
        let p = &self.params;
        let n = |v: i32| v.max(0) as usize;
        [batch * n(p.oh) * n(p.ow), n(p.cout), n(p.kh) * n(p.kw) * n(p.cin)]
    }

    /// Whether a variant takes these sizes, of one picture or of all.
    fn takes(&self, v: &Variant, one: bool) -> bool {
        let p = &self.params;
        let one_chunk = is_stream(v) || is_patch(v) && v.name.ends_with("_one");
        let rows = p.wd * p.x_pix;
        // Pictures that follow each other without gaps, as one matrix.
        let one_matrix = p.x_row == rows
            && (one || p.batch == 1 || p.x_img == p.h * rows && p.y_img == p.oh * p.ow * p.y_pix);
        let chunk = if v.family().ends_with("i8") { 16 } else { 8 };
        let whole = self.aligned && [p.y_pix, p.cout].iter().all(|n| n % chunk == 0) && p.res_mode == 0;
        // Floats of the other width are not among what streaming kernels write.
        let same_width = p.out_dtype != 0 && (chunk == 8 || p.out_dtype != 1);
        (!one_chunk || p.cin as usize <= v.tile[2]) && (!is_stream(v) || one_matrix && whole && same_width)
    }

    /// Ways to do it, best first by the model.
    fn ways(&self, low: &Lowering) -> Vec<Way> {
        self.ways_for(low, self.params.batch.max(1) as usize, false)
    }

    /// Ways to do so many such pictures, best first by the model; with `one`, wherever the pictures of this batch lie: what is
    /// the same for every batch.
    fn ways_for(&self, low: &Lowering, batch: usize, one: bool) -> Vec<Way> {
        let size = self.size(batch);
        let mut ways = Vec::new();
        let fits = |v: &&Variant| v.shared <= low.target.shared;
        let can = |v: &&Variant| self.families.contains(&v.family()) && self.takes(v, one);
        for v in variants().iter().filter(fits).filter(can) {
            for splits in [1, 2, 3, 4, 6, 8] {
                if splits == 1 || v.parts > 1 && splits * 2 <= size[2].div_ceil(v.tile[2]) {
                    ways.push((cost(low.target, v, size, splits), v, splits));
                }
            }
        }
        ways.sort_by(|a, b| a.0.total_cmp(&b.0));
        ways
    }

    /// What the tuner knows it by, for so many pictures.
    fn signature(&self, batch: usize) -> String {
        let p = &self.params;
        format!(
            "{} {batch}x{}x{}x{} k{}x{} s{}x{} d{}x{} to {}x{}x{} up{} act{} res{} out{}",
            self.families[0],
            p.h,
            p.wd,
            p.cin,
            p.kh,
            p.kw,
            p.sy,
            p.sx,
            p.dy,
            p.dx,
            p.oh,
            p.ow,
            p.cout,
            p.up,
            p.act,
            p.res_mode,
            p.out_dtype
        )
    }

    /// What each order of sums costs a batch of many pictures, by the model, against the best order.
    fn of_many(&self, low: &Lowering) -> Vec<(Order, f64)> {
        const MANY: usize = 32;
        let mut orders: Vec<(Order, f64)> = Vec::new();
        let ways = self.ways_for(low, MANY, true);
        let best = ways.first().map_or(1.0, |w| w.0);
        for (cost, v, splits) in ways {
            let order = Order::of(v, splits);
            if !orders.iter().any(|(known, _)| *known == order) {
                orders.push((order, cost / best));
            }
        }
        orders
    }

    /// The launch, with the other tiles that may be tried. The order of sums is chosen without regard to the batch, so that
    /// the numbers do not depend on it: the one whose cost for one picture times its cost for many, each against the best
    /// there is, is least. The tile is chosen for the batch.
    pub(super) fn kernel(
        &self,
        low: &Lowering,
        finish: &dyn Fn(Launch) -> Launch,
    ) -> Option<Result<DeviceKernel>> {
        // The tuner tries those that could be best by the model.
        const TRIED: usize = 20;
        let batch = self.params.batch.max(1) as usize;
        let of_many = self.of_many(low);
        // Integers add up to the same in any order.
        let handicap = |v: &Variant, splits: usize| {
            let known = of_many.iter().find(|(order, _)| *order == Order::of(v, splits));
            if self.exact { 1.0 } else { known.map_or(1.0, |(_, cost)| *cost) }
        };
        let tuned_first = |mut ways: Vec<Way>, batch: usize| {
            if let Some(label) = low.tuned.get(&self.signature(batch)) {
                // Stable: what was measured goes first, the rest stays in the model's order.
                ways.sort_by_key(|(_, v, splits)| label_of(v, *splits) != label);
            }
            ways
        };
        let mut one = self.ways_for(low, 1, true);
        one.iter_mut().for_each(|(cost, v, splits)| *cost *= handicap(v, *splits));
        one.sort_by(|a, b| a.0.total_cmp(&b.0));
        let one = tuned_first(one, 1);
        let order = one.first().map(|(_, v, splits)| Order::of(v, *splits))?;
        let ways = if batch == 1 { one } else { tuned_first(self.ways(low), batch) };
        let same = |v: &Variant, splits: usize| self.exact || Order::of(v, splits) == order;
        let make = |(_, v, splits): &Way| {
            let mut made = self.launch(low, v, *splits, finish)?;
            made.handicap = handicap(v, *splits);
            Ok(made)
        };
        let mut made = ways.iter().filter(|(_, v, splits)| same(v, *splits)).take(TRIED).map(make);
        let mut best = match made.next()? {
            Ok(best) => best,
            Err(e) => return Some(Err(e)),
        };
        best.variants = made.flatten().collect();
        if batch == 1 {
            // For one picture the tuner may choose another order, if it is so much faster that many pictures may lose.
            let others = ways.iter().filter(|(_, v, splits)| !same(v, *splits)).take(TRIED);
            best.variants.extend(others.filter_map(|way| make(way).ok()));
        }
        best.signature = Some(self.signature(batch));
        Some(Ok(best))
    }

    fn launch(
        &self,
        low: &Lowering,
        v: &Variant,
        splits: usize,
        finish: &dyn Fn(Launch) -> Launch,
    ) -> Result<DeviceKernel> {
        let mut p = self.params;
        let n = |v: i32| v.max(0) as usize;
        let [m, columns, _] = self.size(n(p.batch));
        let [bm, bn, _] = v.tile;
        let across = columns.div_ceil(bn);
        p.splits = int(splits)?;
        // Patch kernels tile the picture, not the list of its pixels.
        let patches = |rows: usize, wide: usize| n(p.batch) * n(p.oh).div_ceil(rows) * n(p.ow).div_ceil(wide);
        let (tiles, grid) = if is_patch(v) {
            let tiles = patches(bm / 8, 8) * across;
            (tiles, [blocks(tiles, 1)?, 1, 1])
        } else if is_stream(v) {
            // As many blocks as the device holds at once; each goes over several tiles.
            let held =
                (resident(v, low.target.arch) * low.target.multiprocessors as usize).div_ceil(across).max(1);
            (m.div_ceil(bm), [blocks(m.div_ceil(bm).min(held), 1)?, blocks(across, 1)?, 1])
        } else if v.family().starts_with("conv_stem") {
            let tiles = patches(bm / 16, 16);
            (tiles, [blocks(tiles, 1)?, blocks(across, 1)?, 1])
        } else {
            let tiles = m.div_ceil(bm) * across;
            (tiles, [blocks(tiles, 1)?, splits as u32, 1])
        };
        let mut launch = finish(Launch::new(v.unit, v.name, grid, v.threads, &p).shared(v.shared));
        let mut scratch = 0;
        if splits > 1 {
            launch = launch
                .at(offset_of!(params::Conv, ws), Ptr::Scratch(0))
                .at(offset_of!(params::Conv, sem), Ptr::Counters);
            launch.counters = tiles;
            scratch = splits * tiles * bm * bn * 4;
        }
        let mut kernel = DeviceKernel::new(label_of(v, splits), vec![launch]);
        kernel.scratch = scratch;
        Ok(kernel)
    }
}

/// A way's name, in profiles and in what the tuner keeps.
fn label_of(v: &Variant, splits: usize) -> String {
    let split = if splits > 1 { format!(" split {splits}") } else { String::new() };
    format!("{} {}{split}", v.family(), v.shape())
}

/// The order of a way's sums, by its label.
#[cfg(test)]
pub(super) fn order_of(label: &str) -> Option<String> {
    [1, 2, 3, 4, 6, 8].into_iter().find_map(|splits| {
        let v = variants().iter().find(|v| label_of(v, splits) == label)?;
        Some(format!("{:?}", Order::of(v, splits)))
    })
}

/// Blocks that one multiprocessor holds at once, by shared memory and threads (CUDA C programming guide, technical
/// specifications per compute capability).
fn resident(v: &Variant, arch: u32) -> usize {
    let (shared, threads) = match arch {
        70..75 => (96, 2048),
        75..80 => (64, 1024),
        86 | 89 | 120.. => (100, 1536),
        87 => (164, 1536),
        90..120 => (228, 2048),
        _ => (164, 2048),
    };
    // Each block takes 1 KB more for itself.
    ((shared << 10) / (v.shared as usize + 1024)).min(threads / v.threads as usize).clamp(1, 32)
}

/// A rough time, in cycles of a multiprocessor: waves of blocks, each with its steps, a start and an end. The tuner measures;
/// this only has to put good ones first.
fn cost(target: Target, v: &Variant, [m, n, k]: [usize; 3], splits: usize) -> f64 {
    let [bm, bn, bk] = v.tile;
    let tiles = m.div_ceil(bm) * n.div_ceil(bn) * splits;
    let resident = resident(v, target.arch);
    let busy = tiles.div_ceil(target.multiprocessors.max(1) as usize) as f64;
    // A patch kernel's step is three taps of a chunk of channels.
    let (step, traffic) = match () {
        () if is_patch(v) => (bk * 3, bm as f64 * 0.6 * bk as f64 + (3 * bn * bk) as f64),
        () if v.family().starts_with("conv_stem") => (k, (bm * 8) as f64),
        () if is_stream(v) => (k, (bm * k) as f64),
        () => (bk, ((bm + bn) * bk) as f64),
    };
    let steps = (k.div_ceil(step) as f64 / splits as f64).ceil();
    // A step costs the tile's products (1024 a cycle and multiprocessor) or its bytes (64 a cycle), but no less than its
    // latency, which residents hide.
    let products = (bm * bn * step) as f64 / 1024.0;
    let work = products.max(traffic * 2.0 / 64.0) * steps;
    let start = if is_stream(v) { 500.0 } else { 900.0 };
    let latency = 60.0 / v.parts as f64 * steps + start + if splits > 1 { 800.0 } else { 0.0 };
    let waves = (busy / resident as f64).ceil();
    (busy * work + (bm * bn) as f64 / 32.0 * busy).max(waves * latency)
}
