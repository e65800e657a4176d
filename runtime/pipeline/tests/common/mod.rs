//! A model that reads the number in each picture, and sources that write it.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)] // shared by tests that use parts of it

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use saltica_pipeline::frame::{Frame, FrameFormat, Pool, SourceId, monotonic};
use saltica_pipeline::ring::{Bell, Keep};
use saltica_pipeline::sink::metrics::{PipelineMetrics, Registry};
use saltica_pipeline::sink::{Feed, Flow, FrameResult, Object, Sink, SinkPlan, Sinks, Track};
use saltica_pipeline::source::sim::{FrameBuf, Sim, SimSpec, read_index};
use saltica_pipeline::source::{Backoff, Next, Opened, Plan, Source, Supervisor};
use saltica_pipeline::stage::{Decode, Follow, Infer, Model, Prepare};
use saltica_pipeline::{Error, ErrorKind, Result};
use saltica_tensor::PixelFormat;
use saltica_vision::Detections;

/// The first number of a source's frames, so that no two sources share one.
pub fn first_number(source: u32) -> u64 {
    u64::from(source) * 1_000_000
}

/// Gives `count` simulated frames, each with its number in its pixels and as its sequence.
#[derive(Debug)]
pub struct Numbered {
    sim: Sim,
    format: FrameFormat,
    pool: Arc<Pool>,
    next: u64,
    left: u64,
    /// Time between frames; none: as fast as they are used.
    period: Option<Duration>,
}

impl Numbered {
    pub fn new(source: u32, count: u64, period: Option<Duration>) -> Numbered {
        let spec = SimSpec::parse(&format!("sim:street?seed={source}&size=160x96&objects=1")).unwrap();
        let format = FrameFormat::packed(PixelFormat::Rgb8, 160, 96).unwrap();
        let pool = Pool::new(12);
        // All buffers are made now, not when the twelfth frame happens to be out.
        let all: Vec<_> = (0..12).map(|_| pool.take(format.needed(0), Duration::ZERO).unwrap()).collect();
        drop(all);
        Numbered {
            sim: Sim::open(&spec).unwrap(),
            format,
            pool,
            next: first_number(source),
            left: count,
            period,
        }
    }
}

impl Source for Numbered {
    fn open(&mut self, _: Duration) -> Result<Opened> {
        Ok(Opened { format: Some(self.format), fps: None, note: String::new() })
    }

    fn next(&mut self, wait: Duration) -> Result<Next> {
        if self.left == 0 {
            return Ok(Next::End);
        }
        if let Some(period) = self.period {
            std::thread::sleep(period);
        }
        let Some(mut lease) = self.pool.take(self.format.needed(0), wait) else { return Ok(Next::Busy) };
        let mut buf = FrameBuf { width: 0, height: 0, rgb: std::mem::take(lease.bytes_mut()) };
        self.sim.frame(self.next, &mut buf).map(|_| ())?;
        *lease.bytes_mut() = buf.rgb;
        let mut frame = Frame::owned(self.format, lease, monotonic())?;
        frame.sequence = self.next;
        self.next += 1;
        self.left -= 1;
        Ok(Next::Frame(frame))
    }

    fn close(&mut self) {}
}

/// A file-like plan: every frame counts, an end is the end.
pub fn every_frame() -> Plan {
    Plan {
        keep: Keep::All,
        capacity: 2,
        retry: false,
        stall: Duration::from_secs(60),
        open_within: Duration::from_secs(60),
        backoff: Backoff::default(),
    }
}

/// A camera-like plan that still ends.
pub fn latest() -> Plan {
    Plan { keep: Keep::Latest, ..every_frame() }
}

pub fn supervise(sources: Vec<Box<dyn Source>>, plan: Plan, bell: &Arc<Bell>) -> Vec<Supervisor> {
    let start = |(n, source)| {
        Supervisor::start(source, SourceId(n as u32), format!("test {n}"), plan, Arc::clone(bell)).unwrap()
    };
    sources.into_iter().enumerate().map(start).collect()
}

/// Input and output of a batch: the numbers read from its pictures.
pub struct Numbers {
    pub input: Vec<u64>,
    pub output: Vec<u64>,
}

/// A model whose input is the picture's number, whose output is that number plus one.
pub struct Reader {
    pub each: Duration,
    pub fail: fn(&[u64]) -> bool,
    pub largest: Arc<AtomicUsize>,
    said: Arc<AtomicU64>,
}

impl Reader {
    pub fn new(each: Duration) -> Reader {
        Reader { each, fail: |_| false, largest: Arc::default(), said: Arc::new(AtomicU64::new(0)) }
    }

    /// The model and what hands its answer on: the track of each result's first object is the number that was read from its
    /// picture.
    pub fn model(&self, most: usize) -> (Model<Numbers>, Box<dyn Follow>) {
        let numbers = || Numbers { input: vec![u64::MAX; most], output: vec![u64::MAX; most] };
        let times = (1..=most).map(|b| (b, self.each.max(Duration::from_micros(1)) * (3 + b as u32) / 4));
        let model = Model {
            sizes: Vec::new(),
            most,
            bytes: (0..=most as u64).map(|b| b << 20).collect(),
            measured: times.collect(),
            batches: (0..3).map(|_| numbers()).collect(),
            prepare: Box::new(ReadIndex),
            infer: Box::new(AddOne { each: self.each, fail: self.fail, largest: Arc::clone(&self.largest) }),
            decode: Box::new(Say(Arc::clone(&self.said))),
        };
        (model, Box::new(Repeat(Arc::clone(&self.said))))
    }
}

struct ReadIndex;

impl Prepare<Numbers> for ReadIndex {
    fn prepare(&mut self, frame: &Frame, batch: &mut Numbers, index: usize) -> Result<()> {
        let FrameFormat { width, height, .. } = *frame.format();
        let number = read_index(frame.block(0), width, height);
        batch.input[index] =
            number.ok_or_else(|| Error::new(ErrorKind::Image, "no number in the picture"))?;
        Ok(())
    }
}

struct AddOne {
    each: Duration,
    fail: fn(&[u64]) -> bool,
    largest: Arc<AtomicUsize>,
}

impl Infer<Numbers> for AddOne {
    fn infer(&mut self, batch: &mut Numbers, part: Range<usize>) -> Result<()> {
        self.largest.fetch_max(part.len(), Ordering::Relaxed);
        if !self.each.is_zero() {
            std::thread::sleep(self.each * (3 + part.len() as u32) / 4);
        }
        if (self.fail)(&batch.input[part.clone()]) {
            return Err(Error::new(ErrorKind::Image, "this batch fails"));
        }
        for k in part {
            batch.output[k] = batch.input[k] + 1;
        }
        Ok(())
    }
}

struct Say(Arc<AtomicU64>);

impl Decode<Numbers> for Say {
    fn decode(&mut self, batch: &mut Numbers, index: usize, _: &mut Detections) -> Result<()> {
        // Poisoned, so that a picture that was not run cannot pass.
        let number = std::mem::replace(&mut batch.output[index], u64::MAX);
        self.0.store(number.wrapping_sub(1), Ordering::Relaxed);
        Ok(())
    }
}

struct Repeat(Arc<AtomicU64>);

impl Follow for Repeat {
    fn follow(&mut self, _: SourceId, _: Duration, objects: &mut Vec<Object>) {
        let track = Track { id: self.0.load(Ordering::Relaxed), velocity: [0.0; 2] };
        objects.push(Object { track: Some(track), ..Object::new(0, 1.0, [0.0; 4]) });
    }
}

/// What came out of a pipeline: source, id, sequence, number read, batch.
pub type Seen = Arc<Mutex<Vec<(u32, u64, u64, u64, usize)>>>;

/// Notes every result.
pub struct Notes(pub Seen);

impl Sink for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    fn accept(&mut self, r: &FrameResult) -> Result<Flow> {
        let read = r.objects[0].track.unwrap().id;
        self.0.lock().unwrap().push((r.source.0, r.frame, r.sequence, read, r.batch));
        Ok(Flow::More)
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A queue of so many results that drops its oldest.
pub fn room(queue: usize) -> SinkPlan {
    SinkPlan { queue, keep: Keep::Latest }
}

/// A queue that drops nothing: the pipeline waits for it.
pub fn whole() -> SinkPlan {
    SinkPlan { queue: 64, keep: Keep::All }
}

/// What gives the results of so many sources to these sinks.
pub fn feed(sources: usize, sinks: Vec<(Box<dyn Sink>, SinkPlan)>) -> Feed {
    let names: Vec<String> = (0..sources).map(|n| format!("test {n}")).collect();
    let numbers = PipelineMetrics::new(&Registry::new(), &names).unwrap();
    Feed::new(Arc::new(Sinks::start(sinks).unwrap()), numbers, None)
}

/// The same for one sink that notes everything.
pub fn noted(sources: usize, seen: &Seen, plan: SinkPlan) -> Feed {
    feed(sources, vec![(Box::new(Notes(Arc::clone(seen))), plan)])
}

/// A door that stays shut until it is opened.
#[derive(Debug, Default)]
pub struct Door(Mutex<bool>, Condvar);

impl Door {
    pub fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    pub fn wait(&self) {
        let open = self.0.lock().unwrap();
        drop(self.1.wait_while(open, |open| !*open).unwrap());
    }
}

/// Waits until `done`; a test that hangs fails after a minute.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("waited a minute for: {what}");
}
