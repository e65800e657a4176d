//! A kernel launch before addresses are known.

use crate::weights::Weights;
use saltica_core::Compiled;
use std::sync::Arc;

/// What an address in a launch's parameters stands for.
#[derive(Clone)]
pub(crate) enum Ptr {
    /// The step's input, and bytes from its first element.
    Input(usize, usize),
    /// The step's output, and bytes from its first element.
    Output(usize, usize),
    /// Constants on the device, and bytes from their start.
    Weights(Arc<Weights>, usize),
    /// Bytes from the start of the step's scratch block.
    Scratch(usize),
    /// Counters that are zero before and after each launch.
    Counters,
}

/// One kernel launch of a step.
#[derive(Clone)]
pub(crate) struct Launch {
    /// Name of the kernel in its unit.
    pub(crate) kernel: String,
    /// The file of `kernels/` it is in, without `.cu`.
    pub(crate) unit: &'static str,
    /// Blocks.
    pub(crate) grid: [u32; 3],
    /// Threads a block.
    pub(crate) block: u32,
    /// Bytes of dynamic shared memory.
    pub(crate) shared: u32,
    /// The parameter struct; addresses are filled in when the plan is loaded.
    pub(crate) params: Vec<u64>,
    /// Which words of `params` are addresses, and of what.
    pub(crate) pointers: Vec<(usize, Ptr)>,
    /// How many [`Ptr::Counters`] it uses.
    pub(crate) counters: usize,
}

impl Launch {
    pub(crate) fn new<P: bytemuck::Pod>(
        unit: &'static str,
        kernel: impl Into<String>,
        grid: [u32; 3],
        block: u32,
        params: &P,
    ) -> Launch {
        let bytes = bytemuck::bytes_of(params);
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Launch {
            kernel: kernel.into(),
            unit,
            grid,
            block,
            shared: 0,
            params: words,
            pointers: Vec::new(),
            counters: 0,
        }
    }

    pub(crate) fn shared(mut self, bytes: u32) -> Launch {
        self.shared = bytes;
        self
    }

    /// The address at this byte offset of the struct.
    pub(crate) fn at(mut self, offset: usize, ptr: Ptr) -> Launch {
        self.pointers.push((offset / 8, ptr));
        self
    }

    /// As [`Self::at`], if there is one.
    pub(crate) fn maybe(self, offset: usize, ptr: Option<Ptr>) -> Launch {
        match ptr {
            Some(ptr) => self.at(offset, ptr),
            None => self,
        }
    }
}

/// A step ready to run on the GPU: some launches in a row.
#[derive(Clone)]
pub(crate) struct DeviceKernel {
    pub(crate) label: String,
    pub(crate) launches: Vec<Launch>,
    pub(crate) scratch: usize,
    /// Other ways to do the same, for the tuner.
    pub(crate) variants: Vec<DeviceKernel>,
    /// What the tuner knows it by, if it has variants.
    pub(crate) signature: Option<String>,
    /// What the tuner multiplies its time by before it compares: what the way would cost plans that must add up in the same
    /// order as this one.
    pub(crate) handicap: f64,
}

impl DeviceKernel {
    pub(crate) fn new(label: impl Into<String>, launches: Vec<Launch>) -> DeviceKernel {
        DeviceKernel {
            label: label.into(),
            launches,
            scratch: 0,
            variants: Vec::new(),
            signature: None,
            handicap: 1.0,
        }
    }

    /// With pointers replaced, in its variants too.
    pub(crate) fn redirected(mut self, to: &dyn Fn(&Ptr) -> Option<Ptr>) -> DeviceKernel {
        for (_, ptr) in self.launches.iter_mut().flat_map(|l| &mut l.pointers) {
            if let Some(new) = to(ptr) {
                *ptr = new;
            }
        }
        self.variants = self.variants.into_iter().map(|v| v.redirected(to)).collect();
        self
    }

    /// Between other launches, in its variants too.
    pub(crate) fn between(mut self, before: &[Launch], after: &[Launch], scratch: usize) -> DeviceKernel {
        self.launches = [before, &self.launches, after].concat();
        self.scratch = self.scratch.max(scratch);
        self.variants = self.variants.into_iter().map(|v| v.between(before, after, scratch)).collect();
        self
    }

    /// Every block of constants its launches read.
    pub(crate) fn weights(&self) -> impl Iterator<Item = &Arc<Weights>> {
        let pointers = self.launches.iter().flat_map(|l| &l.pointers);
        pointers.filter_map(|(_, p)| if let Ptr::Weights(w, _) = p { Some(w) } else { None })
    }
}

impl Compiled for DeviceKernel {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn scratch_bytes(&self) -> usize {
        self.scratch.max(self.variants.iter().map(|v| v.scratch).max().unwrap_or(0))
    }

    fn weight_bytes(&self) -> usize {
        self.weights().map(|w| w.len()).sum()
    }

    fn reads(&self, _input: usize) -> bool {
        // Constants are on the device, in the order the kernels want.
        false
    }
}
