//! A plan loaded on the GPU: one arena, all launches recorded once, replayed as a graph.
//!
//! Invariant (the reason this file may use `unsafe`): every address in a launch lies in this run's arena, in a block of
//! constants it holds, or in mapped memory of its inputs; all of them live as long as the run, which waits for its stream
//! before it gives any of them up or lends host memory out.

use crate::driver::{DeviceBuffer, Event, Function, Graph, HostBuffer, HostKind, ManagedBuffer, Stream};
use crate::gpu::Gpu;
use crate::launch::{DeviceKernel, Launch, Ptr};
use crate::placement::InputPath;
use crate::weights::Weights;
use crate::{Error, ErrorKind, Result};
use saltica_core::plan::{PlanOutput, Schedule, StepFact, Tail, ValueSlot};
use saltica_core::{Profile, Run, no_port};
use saltica_tensor::{DType, Layout, Slot, Source, StepIo, Tensor, View, ViewMut, by_dtype};
use std::sync::Arc;
use std::time::Duration;

/// A launch with its addresses.
pub(crate) struct Ready {
    function: Function,
    grid: [u32; 3],
    block: u32,
    shared: u32,
    argument: Vec<u64>,
}

/// Host memory of an input.
enum Staging {
    Host(HostBuffer),
    Managed(ManagedBuffer),
}

struct Input {
    slot: Slot,
    bytes: usize,
    staging: Staging,
    /// Whether it is copied into the arena before each run.
    copied: bool,
}

struct Output {
    slot: Slot,
    bytes: usize,
    /// Bytes from the start of the host block of all outputs.
    at: usize,
}

/// A schedule of device kernels with its memory.
pub(crate) struct DeviceRun {
    // Dropped in this order: what uses memory before the memory.
    graph: Option<Graph>,
    steps: Vec<Vec<Ready>>,
    facts: Vec<StepFact>,
    inputs: Vec<Input>,
    outputs: Vec<PlanOutput>,
    host_outputs: Vec<Option<Output>>,
    staged: HostBuffer,
    tail: Tail,
    values: Vec<ValueSlot>,
    events: Vec<Event>,
    arena: DeviceBuffer,
    _weights: Vec<Arc<Weights>>,
    stream: Stream,
    gpu: Arc<Gpu>,
}

/// Bytes that blocks of constants and the counters are aligned to.
const ALIGN: usize = 256;

impl DeviceRun {
    /// Allocates, uploads constants that are not on the device yet, resolves every address and records the graph.
    pub(crate) fn new(gpu: Arc<Gpu>, schedule: Schedule<DeviceKernel>) -> Result<DeviceRun> {
        Ok(Self::with_ways(gpu, schedule, false)?.0)
    }

    /// As [`Self::new`]; with `all`, also every way of each step, by label, for the tuner.
    #[allow(clippy::type_complexity)]
    pub(crate) fn with_ways(
        gpu: Arc<Gpu>,
        schedule: Schedule<DeviceKernel>,
        all: bool,
    ) -> Result<(DeviceRun, Vec<Vec<(String, Vec<Ready>)>>)> {
        let facts = StepFact::of(&schedule);
        let Schedule { steps, inputs, outputs, tail, values, report } = schedule;
        gpu.device.bind()?;
        let stream = Stream::new(&gpu.device, true)?;
        let weights: Vec<Arc<Weights>> = steps.iter().flat_map(|s| s.kernel.weights().cloned()).collect();
        gpu.upload(&weights, &stream)?;

        let scratch = report.arena_bytes.next_multiple_of(ALIGN);
        let counters_at = (scratch + report.scratch_bytes).next_multiple_of(ALIGN);
        let everyone = steps.iter().flat_map(|s| std::iter::once(&s.kernel).chain(&s.kernel.variants));
        let counters = everyone.flat_map(|k| &k.launches).map(|l| l.counters).max().unwrap_or(0);
        let arena = DeviceBuffer::new(&gpu.device, counters_at + counters * 4)?;
        // Not-a-numbers everywhere: what is read before it was written shows. The counters begin at zero.
        arena.fill(0xFF, 0, counters_at, &stream)?;
        arena.fill(0, counters_at, counters * 4, &stream)?;

        let inputs = inputs
            .into_iter()
            .map(|slot| {
                let bytes = slot.layout.span() * slot.dtype.size();
                let (staging, copied) = match gpu.placement.input {
                    InputPath::Copied => {
                        (Staging::Host(HostBuffer::new(&gpu.device, HostKind::Pinned, bytes)?), true)
                    }
                    InputPath::Mapped => {
                        (Staging::Host(HostBuffer::new(&gpu.device, HostKind::Mapped, bytes)?), false)
                    }
                    InputPath::Managed => (Staging::Managed(ManagedBuffer::new(&gpu.device, bytes)?), false),
                };
                Ok(Input { slot, bytes, staging, copied })
            })
            .collect::<Result<Vec<_>>>()?;
        let mut staged = 0;
        let host_outputs: Vec<Option<Output>> = outputs
            .iter()
            .map(|o| match o {
                PlanOutput::Arena(slot) => {
                    let bytes = slot.layout.span() * slot.dtype.size();
                    let at = staged;
                    staged += bytes.next_multiple_of(64);
                    Some(Output { slot: *slot, bytes, at })
                }
                PlanOutput::Tail(_) => None,
            })
            .collect();
        let staged = HostBuffer::new(&gpu.device, HostKind::Pinned, staged)?;

        let mut addresses = Addresses {
            arena: arena.address(),
            scratch: arena.address() + scratch as u64,
            counters: arena.address() + counters_at as u64,
            in_place: in_place(&inputs),
        };
        let mut ready = Vec::with_capacity(steps.len());
        let mut ways = Vec::new();
        for step in &steps {
            if all {
                let mut of_step = Vec::new();
                if !step.kernel.variants.is_empty() {
                    for kernel in std::iter::once(&step.kernel).chain(&step.kernel.variants) {
                        let launches = kernel.launches.iter().map(|l| addresses.resolve(&gpu, l, &step.io));
                        of_step.push((kernel.label.clone(), launches.collect::<Result<Vec<_>>>()?));
                    }
                }
                ways.push(of_step);
            }
            let launches = step.kernel.launches.iter();
            let made = launches.map(|l| addresses.resolve(&gpu, l, &step.io)).collect::<Result<Vec<_>>>();
            ready.push(made.map_err(|e| Error::new(e.kind(), format!("step '{}': {e}", step.name)))?);
            addresses.written(&step.io);
        }
        stream.synchronize()?;
        let mut run = DeviceRun {
            graph: None,
            steps: ready,
            facts,
            inputs,
            outputs,
            host_outputs,
            staged,
            tail,
            values,
            events: Vec::new(),
            arena,
            _weights: weights,
            stream,
            gpu,
        };
        run.record()?;
        Ok((run, ways))
    }

    /// Records all launches as a graph.
    fn record(&mut self) -> Result<()> {
        let (steps, stream) = (&self.steps, &self.stream);
        if steps.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let mut graph = stream.capture(|| steps.iter().flatten().try_for_each(|l| start(l, stream)))?;
        graph.upload(stream)?;
        stream.synchronize()?;
        self.graph = Some(graph);
        Ok(())
    }

    fn upload_inputs(&self) -> Result<()> {
        for input in self.inputs.iter().filter(|i| i.copied) {
            if let Staging::Host(host) = &input.staging {
                self.arena.upload(input.slot.offset, host, 0, input.bytes, &self.stream)?;
            }
        }
        Ok(())
    }

    fn download_outputs(&mut self) -> Result<()> {
        for output in self.host_outputs.iter().flatten() {
            self.arena.download(
                output.slot.offset,
                &mut self.staged,
                output.at,
                output.bytes,
                &self.stream,
            )?;
        }
        Ok(())
    }

    fn launch_step(&self, i: usize) -> Result<()> {
        self.steps[i].iter().try_for_each(|l| start(l, &self.stream))
    }

    /// Measures every way of each step that has several; signature, label of the fastest, its time and that of the first.
    pub(crate) fn tune(
        &self,
        ways: &[Vec<(String, Vec<Ready>)>],
    ) -> Result<Vec<(usize, String, [Duration; 2])>> {
        const REPEATS: usize = 24;
        let events = [Event::new(&self.gpu.device)?, Event::new(&self.gpu.device)?];
        let mut found = Vec::new();
        for (i, ways) in ways.iter().enumerate().filter(|(_, w)| w.len() > 1) {
            let mut best: Option<(Duration, &str)> = None;
            let mut first = Duration::ZERO;
            for (n, (label, launches)) in ways.iter().enumerate() {
                let mut graph = self.stream.capture(|| {
                    (0..REPEATS).try_for_each(|_| launches.iter().try_for_each(|l| start(l, &self.stream)))
                })?;
                let mut least = Duration::MAX;
                for _ in 0..3 {
                    events[0].record(&self.stream)?;
                    graph.launch(&self.stream)?;
                    events[1].record(&self.stream)?;
                    events[1].synchronize()?;
                    least = least.min(events[1].since(&events[0])?);
                }
                let each = least / REPEATS as u32;
                if n == 0 {
                    first = each;
                }
                if best.is_none_or(|(t, _)| each < t) {
                    best = Some((each, label));
                }
            }
            if let Some((took, label)) = best {
                found.push((i, label.to_owned(), [first, took]));
            }
        }
        Ok(found)
    }

    fn finish(&mut self) -> saltica_core::Result<()> {
        self.download_outputs()?;
        self.stream.synchronize()?;
        let Self { tail, arena, .. } = self;
        tail.run(|slot| Ok(fetch(arena, slot)?))
    }
}

/// Starts one launch.
fn start(l: &Ready, stream: &Stream) -> Result<()> {
    // SAFETY: the argument was made for this kernel by the lowering; its addresses live as long as the run, which outlives
    // its stream's work.
    unsafe { l.function.launch(l.grid, l.block, l.shared, &l.argument, stream) }
}

/// A value of the arena, now.
fn fetch(arena: &DeviceBuffer, slot: &Slot) -> Result<Tensor> {
    let len = slot.layout.span() * slot.dtype.size();
    // Words, so that the bytes are aligned for every dtype.
    let mut words = vec![0u64; len.div_ceil(8)];
    let bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..len];
    arena.read(slot.offset, bytes)?;
    match view(bytes, slot.dtype, slot.layout).map(|v| v.to_tensor()) {
        Some(Ok(tensor)) => Ok(tensor),
        _ => Err(Error::new(
            ErrorKind::Driver,
            format!("{} {} cannot be read back", slot.dtype, slot.layout.shape()),
        )),
    }
}

/// Addresses of inputs that are read where the host wrote them.
fn in_place(inputs: &[Input]) -> Vec<(Slot, u64)> {
    inputs
        .iter()
        .filter_map(|input| {
            let address = match &input.staging {
                Staging::Host(host) => host.mapped().filter(|_| !input.copied)?,
                Staging::Managed(managed) => managed.address(),
            };
            Some((input.slot, address))
        })
        .collect()
}

/// What the pointers of launches stand for.
struct Addresses {
    arena: u64,
    scratch: u64,
    counters: u64,
    /// Inputs read in place, until a step writes where they would be.
    in_place: Vec<(Slot, u64)>,
}

impl Addresses {
    fn resolve(&self, gpu: &Gpu, l: &Launch, io: &StepIo) -> Result<Ready> {
        let missing = |what: &str| Error::new(ErrorKind::Driver, format!("{}: {what}", l.kernel));
        let mut argument = l.params.clone();
        for (word, ptr) in &l.pointers {
            let address = match ptr {
                Ptr::Input(i, bytes) => match io.inputs.get(*i) {
                    Some(Source::Arena(slot)) => self.of(slot) + *bytes as u64,
                    _ => return Err(missing(&format!("input {i} is not in the arena"))),
                },
                Ptr::Output(i, bytes) => match io.outputs.get(*i) {
                    Some(slot) => self.arena + (slot.offset + bytes) as u64,
                    None => return Err(missing(&format!("there is no output {i}"))),
                },
                Ptr::Weights(weights, bytes) => {
                    weights.address().ok_or_else(|| missing("constants are not on the device"))?
                        + *bytes as u64
                }
                Ptr::Scratch(bytes) => self.scratch + *bytes as u64,
                Ptr::Counters => self.counters,
            };
            *argument.get_mut(*word).ok_or_else(|| missing("a pointer outside its parameters"))? = address;
        }
        let function = gpu.kernels.function(l.unit, &l.kernel, l.shared)?;
        Ok(Ready { function, grid: l.grid, block: l.block, shared: l.shared, argument })
    }

    fn of(&self, slot: &Slot) -> u64 {
        // A view of an input lies within it.
        let inside = |i: &Slot| {
            let end = |s: &Slot| s.offset + s.layout.span() * s.dtype.size();
            slot.offset >= i.offset && end(slot) <= end(i)
        };
        match self.in_place.iter().find(|(input, _)| inside(input)) {
            Some((input, address)) => address + (slot.offset - input.offset) as u64,
            None => self.arena + slot.offset as u64,
        }
    }

    /// A step has written its outputs: inputs whose bytes they take are dead.
    fn written(&mut self, io: &StepIo) {
        let range = |s: &Slot| s.offset..s.offset + s.layout.span() * s.dtype.size();
        for out in io.outputs.iter().map(range) {
            self.in_place.retain(|(input, _)| {
                let input = range(input);
                out.end <= input.start || input.end <= out.start
            });
        }
    }
}

/// Numbers of a dtype over bytes that are aligned for all of them.
fn view(bytes: &[u8], dtype: DType, layout: Layout) -> Option<View<'_>> {
    by_dtype!(dtype, T => View::of_slice(bytemuck::try_cast_slice::<u8, T>(bytes).ok()?, layout))
}

fn view_mut(bytes: &mut [u8], dtype: DType, layout: Layout) -> Option<ViewMut<'_>> {
    by_dtype!(dtype, T => ViewMut::of_slice(bytemuck::try_cast_slice_mut::<u8, T>(bytes).ok()?, layout))
}

fn unaligned() -> saltica_core::Error {
    Error::new(ErrorKind::Driver, "page-locked memory is not aligned").into()
}

impl Run for DeviceRun {
    fn input_mut(&mut self, i: usize) -> saltica_core::Result<ViewMut<'_>> {
        let count = self.inputs.len();
        // Work that reads it is over: each run waits.
        let input = self.inputs.get_mut(i).ok_or_else(|| no_port("input", i, count))?;
        let bytes = match &mut input.staging {
            Staging::Host(host) => host.bytes_mut(),
            Staging::Managed(managed) => managed.bytes_mut()?,
        };
        view_mut(&mut bytes[..input.bytes], input.slot.dtype, input.slot.layout).ok_or_else(unaligned)
    }

    fn output(&self, i: usize) -> saltica_core::Result<View<'_>> {
        match self.outputs.get(i).ok_or_else(|| no_port("output", i, self.outputs.len()))? {
            PlanOutput::Tail(id) => self.tail.value(*id),
            PlanOutput::Arena(slot) => {
                let place = self.host_outputs.get(i).and_then(Option::as_ref).ok_or_else(unaligned)?;
                let bytes = &self.staged.bytes()[place.at..place.at + place.bytes];
                view(bytes, slot.dtype, slot.layout).ok_or_else(unaligned)
            }
        }
    }

    fn run(&mut self) -> saltica_core::Result<()> {
        self.upload_inputs()?;
        if let Some(graph) = &mut self.graph {
            graph.launch(&self.stream)?;
        }
        self.finish()
    }

    fn run_profiled(&mut self, profile: &mut Profile) -> saltica_core::Result<()> {
        while self.events.len() <= self.steps.len() {
            self.events.push(Event::new(&self.gpu.device)?);
        }
        profile.begin(&self.facts);
        self.upload_inputs()?;
        self.events[0].record(&self.stream)?;
        for i in 0..self.steps.len() {
            self.launch_step(i)?;
            self.events[i + 1].record(&self.stream)?;
        }
        self.finish()?;
        for i in 0..self.steps.len() {
            profile.add(i, self.events[i + 1].since(&self.events[i])?);
        }
        Ok(())
    }

    fn run_observed(
        &mut self,
        see: &mut dyn FnMut(&str, &View<'_>) -> saltica_core::Result<()>,
    ) -> saltica_core::Result<()> {
        self.upload_inputs()?;
        for ready in 0..=self.steps.len() {
            if ready > 0 {
                self.launch_step(ready - 1)?;
            }
            self.stream.synchronize()?;
            for value in self.values.iter().filter(|v| v.ready == ready) {
                see(&value.name, &fetch(&self.arena, &value.slot)?.view())?;
            }
        }
        self.finish()?;
        self.tail.made().try_for_each(|(name, tensor)| see(name, &tensor.view()))
    }

    fn device_time(&mut self, runs: usize) -> saltica_core::Result<Option<Vec<Duration>>> {
        while self.events.len() < 2 {
            self.events.push(Event::new(&self.gpu.device)?);
        }
        let mut times = Vec::with_capacity(runs);
        self.upload_inputs()?;
        if let Some(graph) = &mut self.graph {
            for _ in 0..runs {
                self.events[0].record(&self.stream)?;
                graph.launch(&self.stream)?;
                self.events[1].record(&self.stream)?;
                self.events[1].synchronize()?;
                times.push(self.events[1].since(&self.events[0])?);
            }
        }
        Ok(Some(times))
    }
}

impl Drop for DeviceRun {
    fn drop(&mut self) {
        // All work is over before memory goes.
        if let Err(e) = self.stream.synchronize() {
            log::debug!("{e}");
        }
    }
}
