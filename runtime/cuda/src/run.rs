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

/// A way to do a step, for the tuner.
pub(crate) struct Way {
    label: String,
    handicap: f64,
    launches: Vec<Ready>,
}

/// Host memory of an input.
enum Staging {
    Host(HostBuffer),
    Managed(ManagedBuffer),
}

impl Staging {
    /// The address that kernels read it at, if they do.
    fn address(&self) -> Option<u64> {
        match self {
            Staging::Host(host) => host.mapped(),
            Staging::Managed(managed) => Some(managed.address()),
        }
    }

    /// Its bytes, once all work that reads them is over.
    fn bytes(&self) -> Result<&[u8]> {
        match self {
            Staging::Host(host) => Ok(host.bytes()),
            Staging::Managed(managed) => managed.bytes(),
        }
    }
}

struct Input {
    slot: Slot,
    bytes: usize,
    staging: Staging,
}

impl Input {
    /// Whether it is copied into the arena before each run; else kernels read it where the host wrote it.
    fn is_copied(&self) -> bool {
        self.staging.address().is_none()
    }
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
    /// Inputs that are read in place and whose bytes in the arena no step writes: what follows the steps finds them there.
    lasting: InPlace,
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
    pub(crate) fn with_ways(
        gpu: Arc<Gpu>,
        schedule: Schedule<DeviceKernel>,
        all: bool,
    ) -> Result<(DeviceRun, Vec<Vec<Way>>)> {
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
                let staging = match gpu.placement.input {
                    InputPath::Copied => {
                        Staging::Host(HostBuffer::new(&gpu.device, HostKind::Pinned, bytes)?)
                    }
                    InputPath::Mapped => {
                        Staging::Host(HostBuffer::new(&gpu.device, HostKind::Mapped, bytes)?)
                    }
                    InputPath::Managed => Staging::Managed(ManagedBuffer::new(&gpu.device, bytes)?),
                };
                Ok(Input { slot, bytes, staging })
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
            inputs: inputs.iter().map(|i| i.staging.address()).collect(),
            in_place: InPlace::of(&inputs),
        };
        let mut ready = Vec::with_capacity(steps.len());
        let mut ways = Vec::new();
        for step in &steps {
            if all {
                let mut of_step = Vec::new();
                if !step.kernel.variants.is_empty() {
                    for kernel in std::iter::once(&step.kernel).chain(&step.kernel.variants) {
                        let launches = kernel.launches.iter().map(|l| addresses.resolve(&gpu, l, &step.io));
                        of_step.push(Way {
                            label: kernel.label.clone(),
                            handicap: kernel.handicap,
                            launches: launches.collect::<Result<Vec<_>>>()?,
                        });
                    }
                }
                ways.push(of_step);
            }
            let launches = step.kernel.launches.iter();
            let made = launches.map(|l| addresses.resolve(&gpu, l, &step.io)).collect::<Result<Vec<_>>>();
            ready.push(made.map_err(|e| Error::new(e.kind(), format!("step '{}': {e}", step.name)))?);
            addresses.in_place.written(&step.io);
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
            lasting: addresses.in_place,
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
        for input in self.inputs.iter().filter(|i| i.is_copied()) {
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

    /// Measures every way of each step that has several: the step, label of the best, time of the first and of the best.
    pub(crate) fn tune(&self, ways: &[Vec<Way>]) -> Result<Vec<(usize, String, [Duration; 2])>> {
        const REPEATS: usize = 24;
        let events = [Event::new(&self.gpu.device)?, Event::new(&self.gpu.device)?];
        let mut found = Vec::new();
        for (i, ways) in ways.iter().enumerate().filter(|(_, w)| w.len() > 1) {
            let mut best: Option<(f64, Duration, &str)> = None;
            let mut first = Duration::ZERO;
            for (n, Way { label, handicap, launches }) in ways.iter().enumerate() {
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
                let score = each.as_secs_f64() * handicap;
                if best.is_none_or(|(least, ..)| score < least) {
                    best = Some((score, each, label));
                }
            }
            if let Some((_, took, label)) = best {
                found.push((i, label.to_owned(), [first, took]));
            }
        }
        Ok(found)
    }

    fn finish(&mut self) -> saltica_core::Result<()> {
        self.download_outputs()?;
        self.stream.synchronize()?;
        let Self { tail, arena, inputs, lasting, .. } = self;
        tail.run(|slot| Ok(fetch(arena, inputs, lasting, slot)?))
    }
}

/// Starts one launch.
fn start(l: &Ready, stream: &Stream) -> Result<()> {
    // SAFETY: the argument was made for this kernel by the lowering; its addresses live as long as the run, which outlives
    // its stream's work.
    unsafe { l.function.launch(l.grid, l.block, l.shared, &l.argument, stream) }
}

/// A value, now: from the arena, or from where the host wrote it if it is (a view of) one of these inputs.
fn fetch(arena: &DeviceBuffer, inputs: &[Input], in_place: &InPlace, slot: &Slot) -> Result<Tensor> {
    let len = slot.layout.span() * slot.dtype.size();
    // Words, so that the bytes are aligned for every dtype.
    let mut words = vec![0u64; len.div_ceil(8)];
    let bytes = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..len];
    match in_place.find(slot) {
        Some((input, at)) => bytes.copy_from_slice(&inputs[input].staging.bytes()?[at..at + len]),
        None => arena.read(slot.offset, bytes)?,
    }
    match view(bytes, slot.dtype, slot.layout).map(|v| v.to_tensor()) {
        Some(Ok(tensor)) => Ok(tensor),
        _ => Err(Error::new(
            ErrorKind::Driver,
            format!("{} {} cannot be read back", slot.dtype, slot.layout.shape()),
        )),
    }
}

/// Inputs that are read where the host wrote them, and the bytes of the arena that stand for them.
#[derive(Clone, Debug, Default)]
struct InPlace(Vec<(usize, Slot)>);

impl InPlace {
    fn of(inputs: &[Input]) -> InPlace {
        let read = inputs.iter().enumerate().filter(|(_, i)| !i.is_copied());
        InPlace(read.map(|(n, i)| (n, i.slot)).collect())
    }

    /// The input that a value is, or is a view of, and bytes from that input's first element.
    fn find(&self, slot: &Slot) -> Option<(usize, usize)> {
        let end = |s: &Slot| s.offset + s.layout.span() * s.dtype.size();
        let inside = |i: &Slot| slot.offset >= i.offset && end(slot) <= end(i);
        self.0.iter().find(|(_, i)| inside(i)).map(|(n, i)| (*n, slot.offset - i.offset))
    }

    /// A step has written its outputs: inputs whose bytes of the arena they take are dead.
    fn written(&mut self, io: &StepIo) {
        let range = |s: &Slot| s.offset..s.offset + s.layout.span() * s.dtype.size();
        for out in io.outputs.iter().map(range) {
            self.0.retain(|(_, input)| {
                let input = range(input);
                out.end <= input.start || input.end <= out.start
            });
        }
    }
}

/// What the pointers of launches stand for.
struct Addresses {
    arena: u64,
    scratch: u64,
    counters: u64,
    /// Addresses of inputs, if kernels read them where the host wrote them.
    inputs: Vec<Option<u64>>,
    in_place: InPlace,
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
        let in_place = self.in_place.find(slot).and_then(|(n, at)| Some(self.inputs[n]? + at as u64));
        in_place.unwrap_or(self.arena + slot.offset as u64)
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
        let (first, none) = (InPlace::of(&self.inputs), InPlace::default());
        for ready in 0..=self.steps.len() {
            if ready > 0 {
                self.launch_step(ready - 1)?;
            }
            self.stream.synchronize()?;
            for value in self.values.iter().filter(|v| v.ready == ready) {
                // Complete before any step: an input, or a view of one.
                let in_place = if ready == 0 { &first } else { &none };
                see(&value.name, &fetch(&self.arena, &self.inputs, in_place, &value.slot)?.view())?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use saltica_tensor::Shape;

    fn slot(offset: usize, elements: usize) -> Slot {
        let layout = Layout::contiguous(Shape::new(&[elements]).unwrap());
        Slot { offset, dtype: DType::F32, layout }
    }

    #[test]
    fn inputs_are_found_in_place_until_their_bytes_are_taken() {
        let mut in_place = InPlace(vec![(0, slot(0, 16)), (2, slot(128, 4))]);
        assert_eq!(in_place.find(&slot(0, 16)), Some((0, 0)));
        // A view begins further on; what reaches past the input is another value.
        assert_eq!(in_place.find(&slot(132, 2)), Some((2, 4)));
        assert_eq!(in_place.find(&slot(132, 4)), None);
        assert_eq!(in_place.find(&slot(64, 4)), None);
        in_place.written(&StepIo { inputs: Vec::new(), outputs: vec![slot(32, 20)], scratch: None });
        assert_eq!(in_place.find(&slot(0, 16)), None);
        assert_eq!(in_place.find(&slot(128, 4)), Some((2, 0)));
    }
}
