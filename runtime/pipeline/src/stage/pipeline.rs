//! Starting, watching and stopping all stages.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use saltica_vision::Detections;

use super::health::{Fates, Histogram, Pulse};
use super::lane::Lane;
use super::memory::read_memory;
use super::model::{Follow, Model};
use super::monitor::Monitor;
use super::roll::{Failure, Roll};
use super::workers::{Answers, BatchWorker, Came, DecodeWorker, InferWorker, Job, Shared};
use crate::batch::{Batcher, BatcherConfig, MemoryState, RunTimes, Shedding};
use crate::clock::{Clock, RealClock};
use crate::frame::lock;
use crate::ring::Bell;
use crate::sink::metrics::{self, PipelineMetrics};
use crate::sink::web::{Preview, Site};
use crate::sink::{Feed, Health, HealthReport, Reports, SinkReport, Sinks};
use crate::source::Supervisor;
use crate::{Error, ErrorKind, Result};

/// How a pipeline is run.
pub struct PipelineConfig {
    /// Objectives and limits. `bytes` and `most` are narrowed by what the model says.
    pub batch: BatcherConfig,
    /// How long a stage, a sink or a source's frames may hang until [`Pipeline::health`] says so.
    pub patience: Duration,
    /// Asked once a second what the system's memory looks like; [`read_memory`] unless a test knows better.
    pub memory: Box<dyn FnMut() -> Option<MemoryState> + Send>,
}

impl PipelineConfig {
    /// Defaults around `batch`.
    pub fn new(batch: BatcherConfig) -> PipelineConfig {
        PipelineConfig { batch, patience: Health::PATIENCE, memory: Box::new(read_memory) }
    }
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

/// A running pipeline. Dropping it stops it.
pub struct Pipeline {
    shared: Arc<Shared>,
    sources: Vec<Supervisor>,
    sinks: Arc<Sinks>,
    numbers: Arc<PipelineMetrics>,
    monitor: Arc<Monitor>,
    health: Arc<Health>,
    roll: Arc<Roll>,
}

impl Pipeline {
    /// How long [`Pipeline::stop`] waits for threads to end.
    pub const STOP_WITHIN: Duration = Duration::from_millis(1500);
    /// The part of it in which what is on its way is answered; the rest is the sinks'.
    const ANSWER_WITHIN: Duration = Duration::from_millis(900);

    /// Starts all stages. `sources` are numbered from 0 in this order and ring `bell`; `feed` counts the same sources. What they,
    /// the stages and the sinks count is shown where the feed's numbers are registered; the sinks are closed at the end.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] when sources, objectives and model do not fit together, [`ErrorKind::Io`] when no thread can be had.
    pub fn start<B: Send + 'static>(
        config: PipelineConfig,
        bell: Arc<Bell>,
        sources: Vec<Supervisor>,
        model: Model<B>,
        follow: Option<Box<dyn Follow>>,
        feed: Feed,
    ) -> Result<Pipeline> {
        let PipelineConfig { mut batch, patience, memory } = config;
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
        if feed.numbers().sources() != sources.len() {
            return Err(Error::new(
                ErrorKind::Value,
                format!("{} sources counted, {} expected", feed.numbers().sources(), sources.len()),
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
            sources: sources.iter().map(|_| Came::default()).collect(),
            ages: Histogram::default(),
            stop: AtomicBool::new(false),
            pending: AtomicUsize::new(0),
            busy_until: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            bell,
        });
        let pulses = ["batch", "infer", "decode"].map(|name| Arc::new(Pulse::new(name, now)));
        let (sinks, numbers) = (Arc::clone(feed.sinks()), Arc::clone(feed.numbers()));
        let batch_worker = BatchWorker {
            shared: Arc::clone(&shared),
            rings: sources.iter().map(|s| Arc::clone(s.ring())).collect(),
            held: sources.iter().map(|_| Vec::with_capacity(batch.waiting + 2)).collect(),
            prepare: model.prepare,
            free: Arc::clone(&free),
            out: Arc::clone(&ready),
            just_in_time: batch.shedding != Shedding::KeepAll,
            sinks: Arc::clone(&sinks),
            spare: None,
            memory,
            pulse: Arc::clone(&pulses[0]),
        };
        let infer_worker = InferWorker {
            shared: Arc::clone(&shared),
            infer: model.infer,
            from: ready,
            out: Arc::clone(&done),
            job: None,
            pulse: Arc::clone(&pulses[1]),
        };
        let decode_worker = DecodeWorker {
            shared: Arc::clone(&shared),
            answers: Answers { decode: model.decode, follow, feed, found: Detections::new() },
            from: done,
            free,
            job: None,
            pulse: Arc::clone(&pulses[2]),
        };
        let roll = Arc::new(Roll::default());
        let monitor = Arc::new(Monitor {
            shared: Arc::clone(&shared),
            sources: sources.iter().map(Supervisor::watch).collect(),
            sinks: Arc::clone(&sinks),
            pulses,
            roll: Arc::clone(&roll),
        });
        let reports: Arc<dyn Reports> = monitor.clone();
        metrics::report(numbers.registry(), &reports);
        let health = Arc::new(Health::with_patience(patience));
        // Dropped, and so stopped, if a thread cannot be had.
        let pipeline = Pipeline { shared, sources, sinks, numbers, monitor, health, roll };
        let failed = || {
            let shared = Arc::clone(&pipeline.shared);
            move || shared.halt()
        };
        pipeline.roll.start("decode", decode_worker, failed())?;
        pipeline.roll.start("infer", infer_worker, failed())?;
        pipeline.roll.start("batch", batch_worker, failed())?;
        Ok(pipeline)
    }

    /// The sources, in order.
    pub fn sources(&self) -> &[Supervisor] {
        &self.sources
    }

    /// What became of the frames of a source.
    pub fn fates(&self, source: usize) -> Option<&Fates> {
        self.shared.sources.get(source).map(|s| &s.fates)
    }

    /// From capture to result, of all answers.
    pub fn ages(&self) -> &Histogram {
        &self.shared.ages
    }

    /// Signs of life of all stages.
    pub fn pulses(&self) -> impl Iterator<Item = &Pulse> {
        self.monitor.pulses.iter().map(|p| &**p)
    }

    /// What each sink is doing.
    pub fn sinks(&self) -> Vec<SinkReport> {
        self.sinks.reports()
    }

    /// Results of all sources so far: what feeds a watchdog.
    pub fn results(&self) -> u64 {
        self.numbers.results()
    }

    /// The numbers of the results, by source.
    pub fn numbers(&self) -> &Arc<PipelineMetrics> {
        &self.numbers
    }

    /// Tells about sources, stages and sinks, for as long as it is held; it keeps no thread running.
    pub fn monitor(&self) -> &Arc<Monitor> {
        &self.monitor
    }

    /// Takes what else is wrong with the program.
    pub fn parts(&self) -> &Arc<Health> {
        &self.health
    }

    /// How the program is: what `/health` shows.
    pub fn health(&self) -> HealthReport {
        self.health.of(&*self.monitor, self.results())
    }

    /// The stage that failed first, if one did. All others then end as if the pipeline were stopped.
    pub fn failure(&self) -> Option<Failure> {
        self.roll.failure()
    }

    /// The pages about it: metrics, health, and with a preview, whose sink is among the feed's, pictures.
    pub fn site(&self, preview: Option<Arc<Preview>>) -> Arc<Site> {
        Site::new(Arc::clone(&self.numbers), Arc::clone(&self.health), self.monitor.clone(), preview)
    }

    /// Looks into the batcher: its cap, its curve, the rate it keeps. Short, as the stages wait for it.
    pub fn batcher<R>(&self, look: impl FnOnce(&Batcher) -> R) -> R {
        look(&lock(&self.shared.batcher))
    }

    /// Waits, at most for `wait`, until all sources have ended and everything of theirs is answered and delivered, or a stage
    /// [failed](Self::failure) and the others have ended; whether it is so.
    pub fn wait(&self, wait: Duration) -> bool {
        let deadline = Instant::now() + wait;
        self.roll.wait(deadline).is_empty()
            && self.sinks.wait(deadline.saturating_duration_since(Instant::now()))
    }

    /// Stops the sources, answers what is on its way, gives up what waits, lets the sinks finish: in under two seconds, also
    /// when a source, the model or a sink hangs; those are left behind and named.
    pub fn stop(mut self) -> Stopped {
        self.halt()
    }

    fn halt(&mut self) -> Stopped {
        let start = Instant::now();
        let deadline = start + Self::STOP_WITHIN;
        self.sources.iter().for_each(Supervisor::request_stop);
        self.shared.halt();
        let left = || deadline.saturating_duration_since(Instant::now());
        self.roll.wait(start + Self::ANSWER_WITHIN);
        // A stage that waits for a sink goes on when that is closed.
        let late = self.sinks.close(left());
        let mut hung: Vec<String> = self.roll.wait(deadline).into_iter().map(String::from).collect();
        hung.extend(late.into_iter().map(|name| format!("sink {name}")));
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
