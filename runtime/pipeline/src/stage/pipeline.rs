//! Starting, watching and stopping all stages.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::health::{Fates, Histogram, Pulse};
use super::lane::Lane;
use super::memory::read_memory;
use super::model::{Answer, Follow, Model, Sink};
use super::workers::{BatchWorker, DecodeWorker, InferWorker, Job, Outlet, Shared, serve};
use crate::batch::{Batcher, BatcherConfig, MAX_BATCH, MemoryState, RunTimes, Shedding};
use crate::clock::{Clock, RealClock};
use crate::frame::lock;
use crate::ring::Bell;
use crate::source::Supervisor;
use crate::{Error, ErrorKind, Result};

/// Objects of a frame for whose tracks there is room from the start.
const TRACKS: usize = 64;

/// How a pipeline is run.
pub struct PipelineConfig {
    /// Objectives and limits. `bytes` and `most` are narrowed by what the model says.
    pub batch: BatcherConfig,
    /// Answers that may wait for each sink.
    pub sink_room: usize,
    /// Asked once a second what the system's memory looks like; [`read_memory`] unless a test knows better.
    pub memory: Box<dyn FnMut() -> Option<MemoryState> + Send>,
}

impl PipelineConfig {
    /// Defaults around `batch`.
    pub fn new(batch: BatcherConfig) -> PipelineConfig {
        PipelineConfig { batch, sink_room: 32, memory: Box::new(read_memory) }
    }
}

/// What a sink got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkCounts {
    /// Its name.
    pub name: String,
    /// Answers it took.
    pub delivered: u64,
    /// Answers that were replaced by newer ones before it came to them.
    pub missed: u64,
    /// Answers it failed to take.
    pub failed: u64,
}

/// How stopping went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Stages, sinks and sources whose threads did not end in time and were left behind.
    pub hung: Vec<String>,
}

impl Stopped {
    /// Whether every thread ended.
    pub fn clean(&self) -> bool {
        self.hung.is_empty()
    }
}

/// Which threads still run.
#[derive(Default)]
struct Roll {
    running: Mutex<Vec<(String, Arc<AtomicBool>)>>,
    changed: Condvar,
}

impl Roll {
    /// Starts a thread that is on the roll until it ends, in whatever way.
    fn start(self: &Arc<Self>, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        struct Off(Arc<AtomicBool>, Arc<Roll>);
        impl Drop for Off {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
                drop(lock(&self.1.running));
                self.1.changed.notify_all();
            }
        }
        let ended = Arc::new(AtomicBool::new(false));
        let off = Off(Arc::clone(&ended), Arc::clone(self));
        let run = move || {
            let _off = off;
            work();
        };
        // The kernel keeps 15 bytes of a thread's name.
        let short: String = name.chars().take(15).collect();
        std::thread::Builder::new()
            .name(short)
            .spawn(run)
            .map_err(|e| Error::new(ErrorKind::Io, format!("no thread for stage {name}: {e}")))?;
        lock(&self.running).push((name.to_string(), ended));
        Ok(())
    }

    /// Waits until all have ended, at most until `deadline`; names of those that have not.
    fn wait(&self, deadline: Instant) -> Vec<String> {
        let mut running = lock(&self.running);
        loop {
            running.retain(|(_, ended)| !ended.load(Ordering::Acquire));
            let left = deadline.checked_duration_since(Instant::now()).filter(|d| !d.is_zero());
            match left {
                Some(left) if !running.is_empty() => {
                    running =
                        self.changed.wait_timeout(running, left).unwrap_or_else(PoisonError::into_inner).0;
                }
                _ => return running.iter().map(|(name, _)| name.clone()).collect(),
            }
        }
    }
}

/// A running pipeline. Dropping it stops it.
pub struct Pipeline {
    shared: Arc<Shared>,
    sources: Vec<Supervisor>,
    outlets: Vec<Arc<Outlet>>,
    pulses: Vec<Arc<Pulse>>,
    roll: Arc<Roll>,
}

impl Pipeline {
    /// How long [`Pipeline::stop`] waits for threads to end.
    pub const STOP_WITHIN: Duration = Duration::from_millis(1500);

    /// Starts all stages. `sources` are numbered from 0 in this order and ring `bell`.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] when sources, objectives and model do not fit together, [`ErrorKind::Io`] when no thread can be had.
    pub fn start<B: Send + 'static>(
        config: PipelineConfig,
        bell: Arc<Bell>,
        sources: Vec<Supervisor>,
        model: Model<B>,
        follow: Option<Box<dyn Follow>>,
        sinks: Vec<Box<dyn Sink>>,
    ) -> Result<Pipeline> {
        let PipelineConfig { mut batch, sink_room, memory } = config;
        if batch.streams.len() != sources.len() {
            return Err(Error::new(
                ErrorKind::Value,
                format!(
                    "{} objectives for {} sources: one for each expected",
                    batch.streams.len(),
                    sources.len()
                ),
            ));
        }
        if let Some((place, source)) = sources.iter().enumerate().find(|(p, s)| s.id().0 as usize != *p) {
            return Err(Error::new(
                ErrorKind::Value,
                format!("{} is numbered {}, {place} expected: its place", source.name(), source.id().0),
            ));
        }
        if model.batches.len() < 2 {
            return Err(Error::new(
                ErrorKind::Value,
                format!("tensors for {} batches, 2 or more expected", model.batches.len()),
            ));
        }
        batch.bytes = model.bytes;
        batch.most = batch.most.min(model.most);
        let curve = RunTimes::new(&model.sizes, model.most, &model.measured)?;
        let batcher = Batcher::new(&batch, vec![curve])?;

        let now = RealClock.now();
        let jobs = model.batches.len();
        let lane = || Arc::new(Lane::new(jobs));
        let (free, ready, done) = (lane(), lane(), lane());
        for tensors in model.batches {
            drop(free.try_push(Job::new(tensors)));
        }
        let shared = Arc::new(Shared {
            batcher: Mutex::new(batcher),
            fates: sources.iter().map(|_| Fates::default()).collect(),
            ages: Histogram::default(),
            stop: AtomicBool::new(false),
            pending: AtomicUsize::new(0),
            busy_until: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            bell,
        });
        let outlet = |sink: &dyn Sink| {
            Arc::new(Outlet {
                name: sink.name().to_string(),
                lane: Lane::new(sink_room),
                delivered: AtomicU64::new(0),
                missed: AtomicU64::new(0),
                failed: AtomicU64::new(0),
                pulse: Pulse::new(format!("sink {}", sink.name()), now),
            })
        };
        let outlets: Vec<Arc<Outlet>> = sinks.iter().map(|s| outlet(s.as_ref())).collect();
        let pulses: Vec<Arc<Pulse>> =
            ["batch", "infer", "decode"].map(|name| Arc::new(Pulse::new(name, now))).into();
        // Each sink holds what waits for it and the one it works on.
        let answers = sinks.len() * (sink_room + 1) + MAX_BATCH;
        let batch_worker = BatchWorker {
            shared: Arc::clone(&shared),
            rings: sources.iter().map(|s| Arc::clone(s.ring())).collect(),
            held: sources.iter().map(|_| Vec::with_capacity(batch.waiting + 2)).collect(),
            prepare: model.prepare,
            free: Arc::clone(&free),
            out: Arc::clone(&ready),
            just_in_time: batch.shedding != Shedding::KeepAll,
            pictures: sinks.iter().any(|s| s.wants_pictures()),
            memory,
            pulse: Arc::clone(&pulses[0]),
        };
        let infer_worker = InferWorker {
            shared: Arc::clone(&shared),
            infer: model.infer,
            from: ready,
            out: Arc::clone(&done),
            pulse: Arc::clone(&pulses[1]),
        };
        let decode_worker = DecodeWorker {
            shared: Arc::clone(&shared),
            decode: model.decode,
            follow,
            from: done,
            free,
            sinks: outlets.clone(),
            answers: (0..answers)
                .map(|_| Arc::new(Answer { tracks: Vec::with_capacity(TRACKS), ..Answer::default() }))
                .collect(),
            pulse: Arc::clone(&pulses[2]),
        };
        let roll = Arc::new(Roll::default());
        // Dropped, and so stopped, if a thread cannot be had.
        let pipeline = Pipeline { shared, sources, outlets, pulses, roll };
        for (sink, outlet) in sinks.into_iter().zip(&pipeline.outlets) {
            let outlet = Arc::clone(outlet);
            let name = outlet.pulse.name().to_string();
            pipeline.roll.start(&name, move || serve(sink, &outlet))?;
        }
        pipeline.roll.start("decode", move || decode_worker.run())?;
        pipeline.roll.start("infer", move || infer_worker.run())?;
        pipeline.roll.start("batch", move || batch_worker.run())?;
        Ok(pipeline)
    }

    /// The sources, in order.
    pub fn sources(&self) -> &[Supervisor] {
        &self.sources
    }

    /// What became of the frames of a source.
    pub fn fates(&self, source: usize) -> Option<&Fates> {
        self.shared.fates.get(source)
    }

    /// From capture to result, of all answers.
    pub fn ages(&self) -> &Histogram {
        &self.shared.ages
    }

    /// Signs of life of all stages and sinks.
    pub fn pulses(&self) -> impl Iterator<Item = &Pulse> {
        self.pulses.iter().map(|p| &**p).chain(self.outlets.iter().map(|o| &o.pulse))
    }

    /// What each sink got.
    pub fn sinks(&self) -> Vec<SinkCounts> {
        let counts = |o: &Arc<Outlet>| SinkCounts {
            name: o.name.clone(),
            delivered: o.delivered.load(Ordering::Relaxed),
            missed: o.missed.load(Ordering::Relaxed),
            failed: o.failed.load(Ordering::Relaxed),
        };
        self.outlets.iter().map(counts).collect()
    }

    /// Looks into the batcher: its cap, its curve, the rate it keeps. Short, as the stages wait for it.
    pub fn batcher<R>(&self, look: impl FnOnce(&Batcher) -> R) -> R {
        look(&lock(&self.shared.batcher))
    }

    /// Waits, at most for `wait`, until all sources have ended and everything of theirs is answered and delivered; whether it is.
    pub fn wait(&self, wait: Duration) -> bool {
        self.roll.wait(Instant::now() + wait).is_empty()
    }

    /// Stops the sources, answers what is on its way, gives up what waits, lets the sinks finish: in under two seconds, also
    /// when a source, the model or a sink hangs; those are left behind and named.
    pub fn stop(mut self) -> Stopped {
        self.halt()
    }

    fn halt(&mut self) -> Stopped {
        let deadline = Instant::now() + Self::STOP_WITHIN;
        self.sources.iter().for_each(Supervisor::request_stop);
        self.shared.stop.store(true, Ordering::Release);
        self.shared.bell.ring();
        let mut hung = self.roll.wait(deadline);
        for source in self.sources.drain(..) {
            while !source.is_finished() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(2));
            }
            if source.is_finished() {
                source.stop();
            } else {
                hung.push(source.name().to_string());
                // Its thread sits in a driver: waiting for it is what dropping would do.
                std::mem::forget(source);
            }
        }
        Stopped { hung }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        if !self.sources.is_empty() {
            self.halt();
        }
    }
}
