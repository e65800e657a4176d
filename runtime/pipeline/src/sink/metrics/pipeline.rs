//! What the pipeline, its sources and its sinks count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Counter, Gauge, Histogram, Registry, Scrape, build, process};
use crate::Result;
use crate::frame::SourceId;
use crate::sink::{FrameResult, Reports, SinkReport, SinkState, SourceReport, StageReport};
use crate::source::{DropReason, State};

/// Upper bounds of times, in seconds: 1, 2, 5 and so on from half a millisecond to 10 s.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.033, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 10.0];

const STATES: [State; 5] =
    [State::Opening, State::Streaming, State::Stalled, State::Reconnecting, State::Ended];

/// What results say, counted. Counting allocates nothing and waits for nobody.
#[derive(Debug)]
pub struct PipelineMetrics {
    registry: Arc<Registry>,
    names: Vec<Arc<str>>,
    sources: Vec<SourceNumbers>,
    wait: Histogram,
    preprocess: Histogram,
    infer: Histogram,
    postprocess: Histogram,
    batch: Histogram,
}

/// What the results of one source say.
#[derive(Debug)]
pub struct SourceNumbers {
    results: Counter,
    detections: Counter,
    copies: Counter,
    age: Histogram,
    last_age: Gauge,
    last_batch: Gauge,
    /// Capture time of the last result, nanoseconds of the monotonic clock.
    last: AtomicU64,
}

impl SourceNumbers {
    /// Results so far.
    pub fn results(&self) -> u64 {
        self.results.get()
    }

    /// Age of the last result.
    pub fn last_age(&self) -> Duration {
        Duration::from_secs_f64(self.last_age.get().max(0.0))
    }

    /// Batch size of the last result.
    pub fn last_batch(&self) -> usize {
        self.last_batch.get() as usize
    }

    /// Capture time of the last result on the monotonic clock; zero if there was none.
    pub fn last_captured(&self) -> Duration {
        Duration::from_nanos(self.last.load(Ordering::Relaxed))
    }
}

impl PipelineMetrics {
    /// Registers the numbers of these sources, by place; each name is what messages call one.
    ///
    /// # Errors
    /// [`ErrorKind::Value`](crate::ErrorKind::Value) when a name is taken by another kind of metric.
    pub fn new(registry: &Arc<Registry>, sources: &[String]) -> Result<Arc<PipelineMetrics>> {
        let source = |(id, name): (usize, &String)| -> Result<SourceNumbers> {
            let id = id.to_string();
            let labels = [("source_id", id.as_str()), ("source", name.as_str())];
            Ok(SourceNumbers {
                results: registry.counter("saltica_results_total", "Frames with a result.", &labels)?,
                detections: registry.counter("saltica_detections_total", "Objects found.", &labels)?,
                copies: registry.counter(
                    "saltica_pixel_copies_total",
                    "Copies of pixel data on the way to the model; divide by saltica_results_total.",
                    &labels,
                )?,
                age: registry.histogram(
                    "saltica_frame_age_seconds",
                    "Age of frames when their result was ready, from capture.",
                    &labels,
                    &SECONDS,
                )?,
                last_age: registry.gauge(
                    "saltica_last_frame_age_seconds",
                    "Age of the last frame when its result was ready.",
                    &labels,
                )?,
                last_batch: registry.gauge(
                    "saltica_last_batch_size",
                    "Frames in the batch of the last result.",
                    &labels,
                )?,
                last: AtomicU64::new(0),
            })
        };
        let stage = |name| {
            let help = "Time of a frame in each stage; infer is that of its whole batch.";
            registry.histogram("saltica_stage_seconds", help, &[("stage", name)], &SECONDS)
        };
        Ok(Arc::new(PipelineMetrics {
            registry: Arc::clone(registry),
            names: sources.iter().map(|s| s.as_str().into()).collect(),
            sources: sources.iter().enumerate().map(source).collect::<Result<_>>()?,
            wait: stage("wait")?,
            preprocess: stage("preprocess")?,
            infer: stage("infer")?,
            postprocess: stage("postprocess")?,
            batch: registry.histogram(
                "saltica_batch_size",
                "Frames in the batch that a frame was part of.",
                &[],
                &[1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0],
            )?,
        }))
    }

    /// Counts a result.
    pub fn observe(&self, r: &FrameResult) {
        if let Some(s) = self.sources.get(r.source.0 as usize) {
            s.results.add(1);
            s.detections.add(r.objects.len() as u64);
            s.copies.add(u64::from(r.copies));
            s.age.observe(r.age.as_secs_f64());
            s.last_age.set(r.age.as_secs_f64());
            s.last_batch.set(r.batch as f64);
            s.last.store(r.captured.as_nanos() as u64, Ordering::Relaxed);
        }
        self.wait.observe(r.times.wait.as_secs_f64());
        self.preprocess.observe(r.times.preprocess.as_secs_f64());
        self.infer.observe(r.times.infer.as_secs_f64());
        self.postprocess.observe(r.times.postprocess.as_secs_f64());
        self.batch.observe(r.batch as f64);
    }

    /// Where the numbers are registered.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Sources that are counted.
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    /// A source's name; empty if there is no such source.
    pub fn name(&self, id: SourceId) -> Arc<str> {
        self.names.get(id.0 as usize).cloned().unwrap_or_default()
    }

    /// The numbers of one source.
    pub fn source(&self, id: SourceId) -> Option<&SourceNumbers> {
        self.sources.get(id.0 as usize)
    }

    /// Results of all sources.
    pub fn results(&self) -> u64 {
        self.sources.iter().map(SourceNumbers::results).sum()
    }
}

/// Shows all that `reports` tell, and the process, whenever the numbers are asked for, for as long as somebody holds `reports`.
pub fn report(registry: &Registry, reports: &Arc<dyn Reports>) {
    // Whoever reports may hold the registry.
    let reports = Arc::downgrade(reports);
    registry.on_scrape(move |out| {
        if let Some(reports) = reports.upgrade() {
            sources(out, &reports.sources());
            sinks(out, &reports.sinks());
            stages(out, &reports.stages());
            reports.scrape(out);
        }
        process(out);
        build(out);
    });
}

/// Adds what stages do.
pub fn stages(out: &mut Scrape, reports: &[StageReport]) {
    for r in reports {
        let labels = [("stage", r.name.as_str())];
        let silent = r.silent.as_secs_f64();
        out.gauge("saltica_stage_silent_seconds", "Time since a stage's last sign of life.", &labels, silent);
        let failed = f64::from(u8::from(r.failed.is_some()));
        out.gauge("saltica_stage_failed", "1 where a stage's thread ended before its time.", &labels, failed);
        out.counter("saltica_stage_done_total", "Batches that a stage completed.", &labels, r.done as f64);
    }
}

/// Adds what sources count and do.
pub fn sources(out: &mut Scrape, reports: &[SourceReport]) {
    for r in reports {
        let id = r.id.0.to_string();
        let labels = [("source_id", id.as_str()), ("source", r.name.as_str())];
        let with = |key, value| [labels[0], labels[1], (key, value)];
        for state in STATES {
            let is = f64::from(u8::from(r.status.state == state));
            let help = "What each source is doing: 1 for its state, 0 for the others.";
            out.gauge("saltica_source_state", help, &with("state", state.name()), is);
        }
        let unanswered = r.unanswered.as_secs_f64();
        let help = "For how long frames of a source have come without one being answered.";
        out.gauge("saltica_source_unanswered_seconds", help, &labels, unanswered);
        let c = &r.counters;
        for (name, help, value) in [
            ("saltica_source_frames_total", "Frames that came in.", c.frames),
            ("saltica_source_pixel_copies_total", "Copies of pixel data before a frame came in.", c.copies),
            ("saltica_source_opened_total", "Times a source was opened.", c.opened),
            ("saltica_source_failures_total", "Times that opening or reading failed.", c.failures),
            ("saltica_source_stalls_total", "Times a source gave no frame for too long.", c.stalls),
        ] {
            out.counter(name, help, &labels, value as f64);
        }
        for reason in DropReason::ALL {
            let help = "Frames dropped before they reached the pipeline, by reason.";
            let labels = with("reason", reason.name());
            out.counter("saltica_source_dropped_total", help, &labels, c.dropped(reason) as f64);
        }
    }
}

/// Adds what sinks count and do.
pub fn sinks(out: &mut Scrape, reports: &[SinkReport]) {
    for (i, r) in reports.iter().enumerate() {
        let id = i.to_string();
        let labels = [("sink_id", id.as_str()), ("sink", r.name.as_str())];
        for state in SinkState::ALL {
            let is = f64::from(u8::from(r.state == state));
            let help = "What each sink is doing: 1 for its state, 0 for the others.";
            out.gauge("saltica_sink_state", help, &[labels[0], labels[1], ("state", state.name())], is);
        }
        for (name, help, value) in [
            ("saltica_sink_results_total", "Results that a sink took.", r.taken),
            ("saltica_sink_dropped_total", "Results dropped because a sink was too slow.", r.dropped),
            ("saltica_sink_failed_total", "Results that a sink could not take.", r.failed),
            ("saltica_sink_lost_total", "Results that a sink took and that were lost later.", r.lost),
        ] {
            out.counter(name, help, &labels, value as f64);
        }
        let busy = r.busy.as_secs_f64();
        out.gauge(
            "saltica_sink_busy_seconds",
            "How long a sink has been busy with one result.",
            &labels,
            busy,
        );
        out.gauge("saltica_sink_waiting", "Results waiting before a sink.", &labels, r.waiting as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::Object;
    use crate::source::{Counters, Status};

    #[test]
    fn results_sources_and_sinks_are_counted() {
        let registry = Registry::new();
        let m = PipelineMetrics::new(&registry, &["front".into(), "front".into()]).unwrap();
        let mut r = FrameResult { source: SourceId(1), batch: 4, copies: 2, ..FrameResult::default() };
        r.age = Duration::from_millis(40);
        r.captured = Duration::from_secs(9);
        r.times.infer = Duration::from_millis(8);
        r.objects = vec![Object::new(0, 0.5, [0.0; 4]); 3];
        m.observe(&r);
        m.observe(&r);
        // A source that nobody announced still counts among the stages.
        m.observe(&FrameResult { source: SourceId(9), ..r.clone() });
        let s = m.source(SourceId(1)).unwrap();
        assert_eq!((s.results(), s.last_batch(), s.last_captured()), (2, 4, Duration::from_secs(9)));
        assert_eq!((m.results(), m.source(SourceId(0)).unwrap().results()), (2, 0));
        let counters = Counters::default();
        counters.drop(DropReason::Lost, 5);
        let report = SourceReport {
            id: SourceId(1),
            name: "front".into(),
            status: Status {
                state: State::Stalled,
                since: Duration::ZERO,
                reason: None,
                opened: None,
                attempts: 0,
                last_frame: None,
            },
            counters: counters.snapshot(),
            unanswered: Duration::ZERO,
        };
        let sink = SinkReport {
            name: "json:-".into(),
            state: SinkState::Working,
            reason: None,
            taken: 7,
            dropped: 1,
            failed: 0,
            lost: 0,
            waiting: 2,
            busy: Duration::ZERO,
            broken: false,
        };
        registry.on_scrape(move |s| {
            sources(s, std::slice::from_ref(&report));
            sinks(s, std::slice::from_ref(&sink));
        });
        let text = registry.text();
        for line in [
            "saltica_results_total{source_id=\"1\",source=\"front\"} 2",
            "saltica_detections_total{source_id=\"1\",source=\"front\"} 6",
            "saltica_pixel_copies_total{source_id=\"1\",source=\"front\"} 4",
            "saltica_frame_age_seconds_bucket{source_id=\"1\",source=\"front\",le=\"0.05\"} 2",
            "saltica_frame_age_seconds_bucket{source_id=\"1\",source=\"front\",le=\"0.033\"} 0",
            "saltica_stage_seconds_count{stage=\"infer\"} 3",
            "saltica_batch_size_bucket{le=\"3\"} 0",
            "saltica_source_state{source_id=\"1\",source=\"front\",state=\"stalled\"} 1",
            "saltica_source_state{source_id=\"1\",source=\"front\",state=\"streaming\"} 0",
            "saltica_source_dropped_total{source_id=\"1\",source=\"front\",reason=\"lost\"} 5",
            "saltica_sink_results_total{sink_id=\"0\",sink=\"json:-\"} 7",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
    }
}
