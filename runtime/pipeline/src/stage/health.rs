//! Signs of life of every stage, and what became of every frame.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Time;

/// A stage's last sign of life. A stage that has nothing to do gives one too, several times a second.
#[derive(Debug)]
pub struct Pulse {
    name: String,
    last: AtomicU64,
    done: AtomicU64,
}

impl Pulse {
    pub(super) fn new(name: impl Into<String>, now: Time) -> Pulse {
        Pulse { name: name.into(), last: AtomicU64::new(now.nanos()), done: AtomicU64::new(0) }
    }

    pub(super) fn beat(&self, now: Time) {
        self.last.fetch_max(now.nanos(), Ordering::Relaxed);
    }

    pub(super) fn worked(&self, now: Time) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.beat(now);
    }

    /// The stage's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long ago its last sign of life was.
    pub fn silent(&self, now: Time) -> Duration {
        now.since(Time::from_nanos(self.last.load(Ordering::Relaxed)))
    }

    /// Pieces of work it has completed: batches, or answers for a sink.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

/// What became of a frame that left its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fate {
    /// It was answered.
    Answered,
    /// No run could still answer it in time.
    Late,
    /// Answering it would have made more frames late.
    Overload,
    /// A newer frame of its stream took its place.
    Replaced,
    /// Its stream's rate was lowered, or is above what was asked for.
    Rate,
    /// It was no newer than the one before.
    OutOfOrder,
    /// The model failed on its batch.
    Failed,
    /// It waited when the pipeline was stopped.
    Stopped,
}

impl Fate {
    /// All of them, in order.
    pub const ALL: [Fate; 8] = [
        Fate::Answered,
        Fate::Late,
        Fate::Overload,
        Fate::Replaced,
        Fate::Rate,
        Fate::OutOfOrder,
        Fate::Failed,
        Fate::Stopped,
    ];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Fate::Answered => "answered",
            Fate::Late => "late",
            Fate::Overload => "overload",
            Fate::Replaced => "replaced",
            Fate::Rate => "rate",
            Fate::OutOfOrder => "out_of_order",
            Fate::Failed => "failed",
            Fate::Stopped => "stopped",
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Counts of frames by what became of them, for one source.
#[derive(Debug, Default)]
pub struct Fates([AtomicU64; Fate::ALL.len()]);

impl Fates {
    pub(super) fn count(&self, fate: Fate) {
        self.0[fate as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Frames with this fate so far.
    pub fn of(&self, fate: Fate) -> u64 {
        self.0[fate as usize].load(Ordering::Relaxed)
    }

    /// Frames with any fate so far.
    pub fn total(&self) -> u64 {
        Fate::ALL.iter().map(|f| self.of(*f)).sum()
    }
}

/// Buckets in each doubling of a duration.
const FINE: u32 = 8;
const BUCKETS: usize = 40 * FINE as usize;

/// Durations by size, in steps of an eighth of a doubling (9 %); 1 microsecond to 12 days.
#[derive(Debug)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    total_nanos: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: [const { AtomicU64::new(0) }; BUCKETS], total_nanos: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Adds a duration.
    pub fn record(&self, span: Duration) {
        let micros = span.as_secs_f64() * 1e6;
        let bucket = (micros.max(1.0).log2() * f64::from(FINE)) as usize;
        self.counts[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        self.total_nanos.fetch_add(span.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Durations recorded.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|c| c.load(Ordering::Relaxed)).sum()
    }

    /// Sum of all of them.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.total_nanos.load(Ordering::Relaxed))
    }

    /// A duration that `part` (0..1) of them do not exceed, up to 9 % too long; zero if none was recorded.
    pub fn quantile(&self, part: f64) -> Duration {
        let rank = (self.count() as f64 * part).ceil() as u64;
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count.load(Ordering::Relaxed);
            if below >= rank.max(1) {
                return Duration::from_secs_f64(
                    (f64::from(bucket as u32 + 1) / f64::from(FINE)).exp2() * 1e-6,
                );
            }
        }
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_at_most_a_bucket_too_long() {
        let ages = Histogram::default();
        assert_eq!(ages.quantile(0.5), Duration::ZERO);
        for ms in 1..=1000 {
            ages.record(Duration::from_millis(ms));
        }
        for (part, exact) in [(0.5, 0.5), (0.95, 0.95), (1.0, 1.0)] {
            let off = ages.quantile(part).as_secs_f64() / exact;
            assert!((1.0..1.1).contains(&off), "{part}: {off}");
        }
        assert_eq!((ages.count(), ages.total()), (1000, Duration::from_micros(500_500_000)));
    }
}
