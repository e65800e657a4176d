//! What a plan's launches read and write, byte by byte, without a device: nothing is read before it was written, and nothing
//! is written over a value that is still to be read. A GPU's arena begins as not-a-numbers for the same purpose; this finds
//! the same faults on any machine.

use crate::launch::{DeviceKernel, Launch, Ptr};
use crate::params;
use saltica_core::plan::{PlanOutput, Schedule};
use saltica_tensor::{DType, Layout, Slot, Source, StepIo};
use std::mem::offset_of;

/// Elements of `size` bytes at an address, over dims with strides in elements.
struct Region {
    at: usize,
    size: usize,
    dims: Vec<i64>,
    strides: Vec<i64>,
}

impl Region {
    fn new(at: usize, size: usize, walk: &[(i32, i32)]) -> Region {
        let (dims, strides) = walk.iter().map(|&(d, s)| (i64::from(d), i64::from(s))).unzip();
        Region { at, size, dims, strides }
    }

    fn of_layout(at: usize, dtype: DType, layout: &Layout) -> Region {
        let dims = layout.shape().iter().map(|&d| d as i64).collect();
        Region { at, size: dtype.size(), dims, strides: layout.strides().iter().map(|&s| s as i64).collect() }
    }

    /// Each run of bytes that lie together.
    fn runs(&self, see: &mut dyn FnMut(std::ops::Range<usize>)) {
        let mut order: Vec<usize> = (0..self.dims.len()).filter(|&d| self.dims[d] != 1).collect();
        if self.dims.contains(&0) {
            return;
        }
        order.sort_by_key(|&d| self.strides[d].unsigned_abs());
        let mut run = 1;
        while let Some(&d) = order.first()
            && self.strides[d] == run
        {
            run *= self.dims[d];
            order.remove(0);
        }
        self.walk(&order, 0, run, see);
    }

    fn walk(&self, order: &[usize], from: i64, run: i64, see: &mut dyn FnMut(std::ops::Range<usize>)) {
        match order.split_last() {
            None => {
                let begin = (self.at as i64 + from * self.size as i64) as usize;
                see(begin..begin + run as usize * self.size);
            }
            Some((&d, rest)) => {
                // A stride of 0 repeats.
                let n = if self.strides[d] == 0 { 1 } else { self.dims[d] };
                (0..n).for_each(|i| self.walk(rest, from + i * self.strides[d], run, see));
            }
        }
    }
}

fn size_of_code(code: i32) -> usize {
    DType::ALL.into_iter().find(|d| params::dtype_code(*d) == code).unwrap().size()
}

/// Size of the elements that a kernel's name speaks of.
fn size_in(kernel: &str) -> usize {
    match () {
        () if kernel.contains("f16") => 2,
        () if kernel.contains("i8") || kernel.contains("u8") => 1,
        () => 4,
    }
}

struct Launched<'a> {
    launch: &'a Launch,
    io: &'a StepIo,
    scratch: usize,
}

impl Launched<'_> {
    fn params<P: bytemuck::Pod>(&self) -> P {
        bytemuck::pod_read_unaligned(&bytemuck::cast_slice::<u64, u8>(&self.launch.params)[..size_of::<P>()])
    }

    /// Where an address points, if it is to the arena or the scratch behind it.
    fn at(&self, field: usize) -> Option<usize> {
        match &self.launch.pointers.iter().find(|(word, _)| *word == field / 8)?.1 {
            Ptr::Input(i, bytes) => match &self.io.inputs[*i] {
                Source::Arena(slot) => Some(slot.offset + bytes),
                _ => panic!("{}: input {i} is not in the arena", self.launch.kernel),
            },
            Ptr::Output(i, bytes) => Some(self.io.outputs[*i].offset + bytes),
            Ptr::Scratch(bytes) => Some(self.scratch + bytes),
            Ptr::Weights(..) | Ptr::Counters => None,
        }
    }

    /// What is read and what is written.
    fn regions(&self) -> [Vec<Region>; 2] {
        let kernel = self.launch.kernel.as_str();
        let region = |field: usize, size: usize, walk: &[(i32, i32)]| {
            self.at(field).map(|at| Region::new(at, size, walk)).into_iter().collect::<Vec<_>>()
        };
        let zip = |dims: [i32; 6], strides: [i32; 6]| dims.into_iter().zip(strides).collect::<Vec<_>>();
        let whole_input = || match &self.io.inputs[0] {
            Source::Arena(s) => vec![Region::of_layout(s.offset, s.dtype, &s.layout)],
            _ => Vec::new(),
        };
        match self.launch.unit {
            unit if unit.starts_with("conv") => {
                let p: params::Conv = self.params();
                let (size, out) = (size_in(kernel), size_of_code(p.out_dtype));
                let pixels = p.oh * p.ow;
                let x = [(p.batch, p.x_img), (p.h, p.x_row), (p.wd, p.x_pix), (p.cin, p.x_ch)];
                let res = [(p.batch, p.r_img), (pixels, p.r_pix), (p.cout, 1)];
                let y = [(p.batch, p.y_img), (pixels, p.y_pix), (p.cout, 1)];
                let mut reads = region(offset_of!(params::Conv, x), size, &x);
                reads.extend(region(offset_of!(params::Conv, res), out, &res));
                [reads, region(offset_of!(params::Conv, y), out, &y)]
            }
            "ew" => {
                let p: params::Ew = self.params();
                let fields = [
                    (offset_of!(params::Ew, a), p.ta, p.sa),
                    (offset_of!(params::Ew, b), p.tb, p.sb),
                    (offset_of!(params::Ew, c), p.tc, p.sc),
                ];
                let reads =
                    fields.into_iter().flat_map(|(f, t, s)| region(f, size_of_code(t), &zip(p.dims, s)));
                let y = region(offset_of!(params::Ew, y), size_of_code(p.ty), &zip(p.dims, p.sy));
                [reads.collect(), y]
            }
            "move" if kernel.starts_with("copy") => {
                let p: params::Copy = self.params();
                let size = kernel.trim_start_matches("copy_b").parse().unwrap();
                [
                    region(offset_of!(params::Copy, x), size, &zip(p.dims, p.sx)),
                    region(offset_of!(params::Copy, y), size, &zip(p.dims, p.sy)),
                ]
            }
            "move" if kernel == "fill" => {
                let p: params::Fill = self.params();
                [Vec::new(), region(offset_of!(params::Fill, y), p.size as usize, &[(p.count, 1)])]
            }
            "move" if kernel.starts_with("transpose") || kernel == "planes_to_pixels" => {
                let p: params::Transpose = self.params();
                let x = [(p.batch, p.x_batch), (p.rows, p.x_row), (p.cols, 1)];
                let y = [(p.batch, p.y_batch), (p.cols, p.y_row), (p.fill_rows, 1)];
                [
                    region(offset_of!(params::Transpose, x), size_of_code(p.tx), &x),
                    region(offset_of!(params::Transpose, y), size_of_code(p.ty), &y),
                ]
            }
            "move" => {
                let p: params::Gather = self.params();
                let size = kernel.rsplit_once("_b").unwrap().1.parse().unwrap();
                let mut reads =
                    region(offset_of!(params::Gather, indices), size_of_code(p.ti), &zip(p.dims, p.si));
                let other = region(offset_of!(params::Gather, y), size, &zip(p.dims, p.sy));
                if kernel.starts_with("scatter") {
                    reads.extend(other);
                    return [reads, Vec::new()];
                }
                [reads, other]
            }
            "reduce" if kernel == "reduce" => {
                let p: params::Reduce = self.params();
                let x = [zip(p.outer, p.sx), zip(p.inner, p.si)].concat();
                [
                    region(offset_of!(params::Reduce, x), size_of_code(p.tx), &x),
                    region(offset_of!(params::Reduce, y), size_of_code(p.ty), &zip(p.outer, p.sy)),
                ]
            }
            "reduce" if kernel.starts_with("softmax") => {
                let p: params::Softmax = self.params();
                let walk = |s, n| [zip(p.outer, s), vec![(p.n, n)]].concat();
                [
                    region(offset_of!(params::Softmax, x), size_of_code(p.tx), &walk(p.sx, p.x_n)),
                    region(offset_of!(params::Softmax, y), size_of_code(p.ty), &walk(p.sy, p.y_n)),
                ]
            }
            "reduce" if kernel == "normalize" => {
                let p: params::Norm = self.params();
                let walk = |o, i| [zip(p.outer, o), zip(p.inner, i)].concat();
                [
                    region(offset_of!(params::Norm, x), size_of_code(p.tx), &walk(p.xo, p.xi)),
                    region(offset_of!(params::Norm, y), size_of_code(p.ty), &walk(p.yo, p.yi)),
                ]
            }
            "reduce" => {
                let p: params::TopK = self.params();
                let size = size_of_code(p.tx);
                let mut writes =
                    region(offset_of!(params::TopK, values), size, &[(p.rows, p.v_row), (p.k, p.v_n)]);
                writes.extend(region(
                    offset_of!(params::TopK, indices),
                    8,
                    &[(p.rows, p.i_row), (p.k, p.i_n)],
                ));
                [region(offset_of!(params::TopK, x), size, &[(p.rows, p.x_row), (p.n, p.x_n)]), writes]
            }
            "matmul" => {
                let p: params::Matmul = self.params();
                let batch0 = self.launch.grid[2] as i32 / p.batch1;
                let a = [(batch0, p.a_b0), (p.batch1, p.a_b1), (p.m, p.a_row), (p.k, p.a_col)];
                let b = [(batch0, p.b_b0), (p.batch1, p.b_b1), (p.k, p.b_row), (p.n, p.b_col)];
                let c = [(batch0, p.c_b0), (p.batch1, p.c_b1), (p.m, p.c_row), (p.n, p.c_col)];
                let mut reads = region(offset_of!(params::Matmul, a), size_of_code(p.ta), &a);
                reads.extend(region(offset_of!(params::Matmul, b), size_of_code(p.tb), &b));
                [reads, region(offset_of!(params::Matmul, c), size_of_code(p.tc), &c)]
            }
            "resize" if kernel == "grid_sample" => {
                let p: params::GridSample = self.params();
                let y = [(p.batch, p.y_img), (p.channels, p.y_ch), (p.oh, p.y_row), (p.ow, p.y_pix)];
                [whole_input(), region(offset_of!(params::GridSample, y), size_of_code(p.t), &y)]
            }
            "resize" => {
                let p: params::Resize = self.params();
                let y = [(p.batch, p.y_img), (p.channels, p.y_ch), (p.oh, p.y_row), (p.ow, p.y_pix)];
                [whole_input(), region(offset_of!(params::Resize, y), size_of_code(p.ty), &y)]
            }
            "pool" => {
                let p: params::Pool = self.params();
                let size = size_in(kernel);
                let x = [(p.batch, p.x_img), (p.h, p.x_row), (p.w, p.x_pix), (p.c, p.x_ch)];
                let y = [(p.batch, p.y_img), (p.oh * p.ow, p.y_pix), (p.c, p.y_ch)];
                [region(offset_of!(params::Pool, x), size, &x), region(offset_of!(params::Pool, y), size, &y)]
            }
            other => panic!("{kernel} of {other} is not known here"),
        }
    }
}

/// Bytes of a value's own elements.
fn elements(slot: &Slot, see: &mut dyn FnMut(std::ops::Range<usize>)) {
    Region::of_layout(slot.offset, slot.dtype, &slot.layout).runs(see);
}

/// Faults of a schedule: what its launches read that nobody wrote, what they overwrite that somebody will read, and
/// elements of outputs that they leave out.
pub(super) fn faults(schedule: &Schedule<DeviceKernel>) -> Vec<String> {
    const INPUT: u32 = 1;
    const LARGE: usize = 1 << 18;
    let arena = schedule.report.arena_bytes;
    let scratch = arena.next_multiple_of(256);
    let everything = scratch + schedule.report.scratch_bytes;
    // For each byte the last step that reads it as an element of a value before it is written as one: by step, backwards.
    let mut needed = vec![vec![false; arena]];
    let mut now = vec![false; arena];
    for output in &schedule.outputs {
        if let PlanOutput::Arena(slot) = output {
            elements(slot, &mut |r| now[r].fill(true));
        }
    }
    for step in schedule.steps.iter().rev() {
        needed.push(now.clone());
        for slot in &step.io.outputs {
            elements(slot, &mut |r| now[r].fill(false));
        }
        for source in &step.io.inputs {
            if let Source::Arena(slot) = source {
                elements(slot, &mut |r| now[r].fill(true));
            }
        }
    }
    // The step that wrote each byte last; 0: none.
    let mut writer = vec![0; everything];
    for slot in &schedule.inputs {
        elements(slot, &mut |r| writer[r].fill(INPUT));
    }
    let mut faults = Vec::new();
    for (s, step) in schedule.steps.iter().enumerate() {
        let (me, needed) = (s as u32 + INPUT + 1, &needed[schedule.steps.len() - s]);
        let mut own = vec![false; everything];
        for slot in &step.io.outputs {
            elements(slot, &mut |r| own[r].fill(true));
        }
        // What lies between a value's pixels must have been written with it or later.
        let mut born = vec![0; everything];
        for source in &step.io.inputs {
            if let Source::Arena(slot) = source {
                let mut first = u32::MAX;
                elements(slot, &mut |r| first = first.min(writer[r].iter().copied().min().unwrap_or(first)));
                let all = slot.layout.span() * slot.dtype.size();
                let channels = slot.layout.shape().get(1).copied().unwrap_or(0);
                let spare = slot.layout.pixel_stride().map_or(0, |pixel| pixel.saturating_sub(channels));
                let end = (slot.offset + all + spare * slot.dtype.size()).min(everything);
                born[slot.offset..end].iter_mut().for_each(|b| *b = first.max(*b));
            }
        }
        writer[arena..].fill(0);
        let before = writer.clone();
        // Of large graphs the way that runs, of small ones all.
        let ways = std::iter::once(&step.kernel).chain(&step.kernel.variants);
        let some = if everything < LARGE { usize::MAX } else { 1 };
        for (n, kernel) in ways.take(some).enumerate() {
            let mut fault = |what: String| {
                faults.push(format!("step '{}' ({}): {what}", step.name, kernel.label));
            };
            let mut written = before.clone();
            for launch in &kernel.launches {
                let [reads, writes] = Launched { launch, io: &step.io, scratch }.regions();
                let name = &launch.kernel;
                let mut said = false;
                for region in reads {
                    region.runs(&mut |r| {
                        let stale = |b: usize| written.get(b).is_none_or(|&w| w == 0 || w < born[b]);
                        if let Some(b) = r.clone().find(|&b| stale(b)).filter(|_| !said) {
                            fault(format!("{name} reads byte {b} that was not written"));
                            said = true;
                        }
                    });
                }
                for region in writes {
                    region.runs(&mut |r| {
                        let over = |b: usize| b >= everything || b < arena && needed[b] && !own[b];
                        if let Some(b) = r.clone().find(|&b| over(b)).filter(|_| !said) {
                            fault(format!("{name} overwrites byte {b}"));
                            said = true;
                        }
                        let end = r.end.min(everything);
                        written[r.start.min(end)..end].fill(me);
                    });
                }
            }
            let mut left_out = None;
            for slot in &step.io.outputs {
                elements(slot, &mut |r| left_out = left_out.or(r.clone().find(|&b| written[b] != me)));
            }
            if let Some(b) = left_out {
                fault(format!("byte {b} of its output is not written"));
            }
            if n == 0 {
                writer = written;
            }
        }
    }
    faults
}
