//! How a running pipeline is, for whoever shows it.

use std::sync::Arc;
use std::time::Duration;

use super::health::{Fate, Fates, Pulse};
use super::roll::Roll;
use super::workers::Shared;
use crate::clock::{Clock, RealClock};
use crate::frame::lock;
use crate::sink::metrics::Scrape;
use crate::sink::{Reports, SinkReport, Sinks, SourceReport, StageReport};
use crate::source::Watch;

/// Tells about a pipeline's sources, stages, sinks and batches; after its end, how they were then.
pub struct Monitor {
    pub(super) shared: Arc<Shared>,
    pub(super) sources: Vec<Watch>,
    pub(super) sinks: Arc<Sinks>,
    pub(super) pulses: [Arc<Pulse>; 3],
    pub(super) roll: Arc<Roll>,
}

impl Monitor {
    /// What became of the frames of a source, also when the pipeline has been stopped.
    pub fn fates(&self, source: usize) -> Option<&Fates> {
        self.shared.sources.get(source).map(|s| &s.fates)
    }
}

impl Reports for Monitor {
    fn sources(&self) -> Vec<SourceReport> {
        let now = RealClock.now();
        let report = |(watch, came): (&Watch, &super::workers::Came)| SourceReport {
            id: watch.id(),
            name: watch.name().to_owned(),
            status: watch.status(),
            counters: watch.counters(),
            unanswered: came.unanswered(now),
        };
        self.sources.iter().zip(&self.shared.sources).map(report).collect()
    }

    fn sinks(&self) -> Vec<SinkReport> {
        self.sinks.reports()
    }

    fn stages(&self) -> Vec<StageReport> {
        let (now, failure) = (RealClock.now(), self.roll.failure());
        let [_, _, decode] = &self.pulses;
        // One that has come to its end owes no sign of life, nor does one that waits for a sink, which shows as hanging itself.
        let owes = |pulse: &Arc<Pulse>| {
            self.roll.runs(pulse.name()) && !(Arc::ptr_eq(pulse, decode) && self.sinks.waits())
        };
        let report = |pulse: &Arc<Pulse>| StageReport {
            name: pulse.name().to_owned(),
            silent: if owes(pulse) { pulse.silent(now) } else { Duration::ZERO },
            done: pulse.done(),
            failed: failure.as_ref().filter(|f| f.stage == pulse.name()).map(|f| f.reason.clone()),
        };
        self.pulses.iter().map(report).collect()
    }

    fn scrape(&self, out: &mut Scrape) {
        for (watch, came) in self.sources.iter().zip(&self.shared.sources) {
            let id = watch.id().0.to_string();
            for fate in Fate::ALL {
                let labels = [("source_id", id.as_str()), ("source", watch.name()), ("fate", fate.name())];
                let help = "Frames that reached the pipeline, by what became of them.";
                out.counter("saltica_frames_total", help, &labels, came.fates.of(fate) as f64);
            }
        }
        let batcher = lock(&self.shared.batcher);
        let (cap, memory, kept) = (batcher.cap(), batcher.memory_limit(), batcher.kept_rate());
        let (waiting, curve) = (batcher.waiting(), batcher.curve().clone());
        drop(batcher);
        for (name, help, value) in [
            (
                "saltica_batch_cap",
                "The largest batch at present, by model, run times and memory.",
                cap as f64,
            ),
            ("saltica_batch_memory_limit", "The most frames that memory allows in one run.", memory as f64),
            ("saltica_batch_waiting", "Frames that wait to be taken into a batch.", waiting as f64),
            ("saltica_kept_rate", "Part of the frames that is kept where the rate is lowered.", kept),
        ] {
            out.gauge(name, help, &[], value);
        }
        for size in 1..=curve.most() {
            let labels = [("frames", &*size.to_string())];
            let help = "Run time that is expected of a batch, by its size.";
            out.gauge("saltica_run_seconds", help, &labels, curve.nanos(size) as f64 / 1e9);
        }
    }
}
