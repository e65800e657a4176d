//! What is told while it runs, and at the end.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use saltica_pipeline::sink::{SinkReport, SinkState, SourceReport};
use saltica_pipeline::source::{DropReason, State};
use saltica_pipeline::stage::{Fate, Fates};
use serde::Serialize;

use super::tally::{Recent, Tally, Told};
use crate::report::{Align, Style, Table, number};

/// What became of a source's frames.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Frames that the source gave, and those it lost before.
    pub(super) produced: u64,
    /// Frames with a result.
    pub(super) answered: u64,
    /// The others, by reason.
    pub(super) dropped: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// From what a source and the stages counted.
    pub(super) fn new(source: &SourceReport, fates: Option<&Fates>) -> Counts {
        let s = &source.counters;
        let mut dropped = BTreeMap::new();
        let mut drop = |reason: &'static str, n: u64| {
            if n > 0 {
                *dropped.entry(reason).or_insert(0) += n;
            }
        };
        // Those two were put into the ring first, and so are counted among the frames.
        let within = s.dropped(DropReason::Replaced) + s.dropped(DropReason::Stopped);
        for (reason, n) in s.drops() {
            drop(reason.name(), n);
        }
        let mut answered = 0;
        for fate in Fate::ALL {
            let n = fates.map_or(0, |f| f.of(fate));
            match fate {
                Fate::Answered => answered = n,
                _ => drop(fate.name(), n),
            }
        }
        // What had no time to reach the ring when it was stopped is counted as dropped alone.
        let told = answered + dropped.values().sum::<u64>();
        let produced = (s.frames + s.all_dropped()).saturating_sub(within).max(told);
        Counts { produced, answered, dropped }
    }

    /// Adds another pipeline's counts.
    pub(super) fn add(&mut self, other: &Counts) {
        self.produced += other.produced;
        self.answered += other.answered;
        for (reason, n) in &other.dropped {
            *self.dropped.entry(reason).or_insert(0) += n;
        }
    }

    fn drops(&self) -> String {
        let all: Vec<String> = self.dropped.iter().map(|(reason, n)| format!("{n} {reason}")).collect();
        all.join(", ")
    }
}

/// A source now.
#[derive(Clone, Debug)]
pub(super) struct Now {
    /// Its name.
    pub(super) name: String,
    /// What it is doing.
    pub(super) state: State,
    /// Why.
    pub(super) reason: Option<String>,
    /// What became of its frames so far.
    pub(super) counts: Counts,
}

/// Makes rates of what was counted at two moments.
#[derive(Debug)]
pub(super) struct Rates {
    at: Instant,
    before: BTreeMap<String, (u64, u64)>,
}

impl Default for Rates {
    fn default() -> Rates {
        Rates { at: Instant::now(), before: BTreeMap::new() }
    }
}

impl Rates {
    /// A line for each source: frames a second in and out, ages, drops, since the last call.
    pub(super) fn lines(&mut self, sources: &[Now], tally: &Tally) -> Vec<String> {
        let seconds = self.at.elapsed().as_secs_f64().max(1e-3);
        self.at = Instant::now();
        let mut lines = Vec::new();
        for s in sources {
            let now = (s.counts.produced, s.counts.answered);
            let before = self.before.insert(s.name.clone(), now).unwrap_or_default();
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
            let Recent { results, p50, p95 } = tally.recent(&s.name);
            let mut line = format!(
                "{}: {}, {:.1} fps in, {:.1} out",
                s.name,
                s.state,
                rate(now.0, before.0),
                rate(now.1, before.1)
            );
            if results > 0 {
                let _ = write!(line, ", age p50 {} p95 {} ms", ms(p50), ms(p95));
            }
            if !s.counts.dropped.is_empty() {
                let _ = write!(line, ", dropped {}", s.counts.drops());
            }
            if let Some(reason) = s.reason.as_ref().filter(|_| s.state != State::Streaming) {
                let _ = write!(line, " ({reason})");
            }
            lines.push(line);
        }
        lines
    }
}

fn ms(d: Duration) -> String {
    number(d.as_secs_f64() * 1e3, 1)
}

/// Record `run`: what became of everything.
#[derive(Debug, Serialize)]
pub struct RunRecord {
    /// What ran.
    pub model: String,
    /// How long.
    pub seconds: f64,
    /// Times the pipeline was rebuilt after a stage died or hung.
    pub restarts: u64,
    /// Times the configuration was read again.
    pub reloads: u64,
    /// From the signal or the last frame to the end.
    pub stop_ms: f64,
    /// Threads that did not end in time and were left behind.
    pub hung: Vec<String>,
    /// Each source.
    pub sources: Vec<SourceRecord>,
    /// Each sink that was asked for; those that a change of the configuration replaced have rows of their own.
    pub sinks: Vec<SinkRecord>,
}

/// What became of the results that a sink was given.
#[derive(Debug, Serialize)]
pub struct SinkRecord {
    /// Its name, without passwords.
    pub sink: String,
    /// Results that it took.
    pub taken: u64,
    /// Results that newer ones replaced before it came to them.
    pub dropped: u64,
    /// Results that it could not take.
    pub failed: u64,
    /// Results that it took and that never arrived.
    pub lost: u64,
    /// What is or was wrong with it.
    pub error: Option<String>,
}

impl SinkRecord {
    /// Of a sink that is over.
    pub(super) fn new(r: SinkReport) -> SinkRecord {
        // A reader that went away is no error.
        let error = r.reason.filter(|_| r.broken || r.state != SinkState::Ended);
        SinkRecord { sink: r.name, taken: r.taken, dropped: r.dropped, failed: r.failed, lost: r.lost, error }
    }

    /// Whether results did not get where they were wanted.
    pub(super) fn is_short(&self) -> bool {
        self.failed + self.lost > 0 || self.error.is_some()
    }
}

/// What became of a source's frames.
#[derive(Debug, Serialize)]
pub struct SourceRecord {
    /// Its name.
    pub source: String,
    /// What it was doing at last.
    pub state: &'static str,
    /// Why it was not well at last.
    pub error: Option<String>,
    /// Frames that it gave, and those it lost before.
    pub produced: u64,
    /// Frames with a result.
    pub answered: u64,
    /// The others, by reason.
    pub dropped: Vec<DropRecord>,
    /// Objects found.
    pub objects: u64,
    /// Ages of the results.
    pub age_ms: Option<Quantiles>,
    /// What is left of them without preprocessing, inference and postprocessing.
    pub overhead_ms: Option<Quantiles>,
    /// Mean of the batch sizes.
    pub batch: Option<f64>,
    /// Copies of pixel data, for each result.
    pub copies_per_frame: Option<f64>,
}

/// Frames dropped for one reason.
#[derive(Debug, Serialize)]
pub struct DropRecord {
    /// Why.
    pub reason: &'static str,
    /// How many.
    pub frames: u64,
}

/// Quantiles in milliseconds, up to 9 % too long.
#[derive(Debug, Serialize)]
pub struct Quantiles {
    /// Half are not above this.
    pub p50: f64,
    /// 95 % are not above this.
    pub p95: f64,
    /// 99 % are not above this.
    pub p99: f64,
}

impl SourceRecord {
    /// Of a source and what its results said.
    pub(super) fn new(now: &Now, tally: &Tally) -> SourceRecord {
        let quantiles = |h: &saltica_pipeline::stage::Histogram| {
            let of = |part| h.quantile(part).as_secs_f64() * 1e3;
            (h.count() > 0).then(|| Quantiles { p50: of(0.5), p95: of(0.95), p99: of(0.99) })
        };
        let told = |t: &Told| {
            let n = t.ages.count();
            let each = |sum: u64| (n > 0).then(|| sum as f64 / n as f64);
            (quantiles(&t.ages), quantiles(&t.overhead), each(t.batches), each(t.copies), t.objects)
        };
        let (age_ms, overhead_ms, batch, copies_per_frame, objects) =
            tally.look(&now.name, told).unwrap_or_default();
        let dropped = now.counts.dropped.iter().map(|(reason, n)| DropRecord { reason, frames: *n });
        SourceRecord {
            source: now.name.clone(),
            state: now.state.name(),
            error: now.reason.clone(),
            produced: now.counts.produced,
            answered: now.counts.answered,
            dropped: dropped.collect(),
            objects,
            age_ms,
            overhead_ms,
            batch,
            copies_per_frame,
        }
    }
}

impl RunRecord {
    /// As a table for a person.
    pub fn text(&self, style: Style) -> String {
        let mut table = Table::new(&[
            ("source", Align::Left),
            ("produced", Align::Right),
            ("answered", Align::Right),
            ("objects", Align::Right),
            ("age p50", Align::Right),
            ("p95", Align::Right),
            ("p99 ms", Align::Right),
            ("batch", Align::Right),
            ("copies", Align::Right),
            ("dropped", Align::Left),
        ]);
        for s in &self.sources {
            let age = |of: fn(&Quantiles) -> f64| number(s.age_ms.as_ref().map(of), 1);
            let drops: Vec<String> = s.dropped.iter().map(|d| format!("{} {}", d.frames, d.reason)).collect();
            table.row([
                s.source.clone(),
                s.produced.to_string(),
                s.answered.to_string(),
                s.objects.to_string(),
                age(|q| q.p50),
                age(|q| q.p95),
                age(|q| q.p99),
                number(s.batch, 2),
                number(s.copies_per_frame, 2),
                if drops.is_empty() { "-".to_owned() } else { drops.join(", ") },
            ]);
        }
        let answered: u64 = self.sources.iter().map(|s| s.answered).sum();
        let mut out = table.render(style);
        let rate = answered as f64 / self.seconds.max(1e-3);
        let _ = writeln!(
            out,
            "{answered} {} in {:.1} s, {rate:.1} a second",
            if answered == 1 { "result" } else { "results" },
            self.seconds
        );
        for s in &self.sources {
            if let Some(error) = &s.error {
                let _ = writeln!(out, "{}: {error}", s.source);
            }
        }
        for s in self.sinks.iter().filter(|s| s.is_short() || s.dropped > 0) {
            let _ = write!(out, "{}: {} results taken", s.sink, s.taken);
            for (n, what) in [(s.dropped, "dropped"), (s.failed, "failed"), (s.lost, "lost")] {
                if n > 0 {
                    let _ = write!(out, ", {n} {what}");
                }
            }
            let _ = writeln!(out, "{}", s.error.as_ref().map_or_else(String::new, |e| format!(": {e}")));
        }
        if !self.hung.is_empty() {
            let _ = writeln!(out, "left behind, as they did not end in time: {}", self.hung.join(", "));
        }
        out
    }
}
