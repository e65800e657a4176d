//! When the next frames will come.
//!
//! A camera's frames come at regular distances, so its next ones are known; what comes without a rule is not predicted.
//! Over all streams, the rate tells whether the device can keep up, and how often frames come close together tells whether
//! a moment's wait brings another.

use std::time::Duration;

use crate::clock::Time;

/// Distances remembered of each stream.
const GAPS: usize = 16;
/// Distances needed before a stream counts as regular.
const ENOUGH: usize = 4;
/// Frames over which the common rate is averaged.
const AVERAGED: f64 = 200.0;
/// Common distances remembered.
const COMMON: usize = 32;

/// A frame that is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// When it will be there, in nanoseconds.
    pub at: u64,
    /// When it will be due.
    pub due: u64,
}

#[derive(Clone, Debug)]
struct Stream {
    last: u64,
    /// From capture to arrival, at the last frame.
    lag: u64,
    gaps: [u64; GAPS],
    seen: usize,
    /// Median distance, if the stream is regular.
    period: Option<u64>,
    objective: u64,
}

/// What is known about the arrivals of all streams.
#[derive(Clone, Debug)]
pub struct ArrivalModel {
    streams: Vec<Stream>,
    last: u64,
    count: f64,
    /// Mean distance of frames of any stream.
    mean: f64,
    common: [u64; COMMON],
    seen: usize,
}

impl ArrivalModel {
    /// Nothing known yet of streams whose frames are due so long after their capture.
    pub fn new(objectives: &[Duration]) -> ArrivalModel {
        let stream = |objective: &Duration| Stream {
            last: 0,
            lag: 0,
            gaps: [0; GAPS],
            seen: 0,
            period: None,
            objective: u64::try_from(objective.as_nanos()).unwrap_or(u64::MAX),
        };
        ArrivalModel {
            streams: objectives.iter().map(stream).collect(),
            last: 0,
            count: 0.0,
            mean: 0.0,
            common: [u64::MAX; COMMON],
            seen: 0,
        }
    }

    /// A frame of `source`, taken at `captured`, is there.
    pub fn arrived(&mut self, source: u32, captured: Time, now: Time) {
        let now = now.nanos();
        if let Some(stream) = self.streams.get_mut(source as usize) {
            stream.lag = now.saturating_sub(captured.nanos());
            if stream.last != 0 {
                stream.gaps[stream.seen % GAPS] = now.saturating_sub(stream.last).max(1);
                stream.seen += 1;
                stream.period = regular(&stream.gaps, stream.seen);
            }
            stream.last = now.max(1);
        }
        if self.last != 0 {
            let gap = now.saturating_sub(self.last);
            self.common[self.seen % COMMON] = gap;
            self.seen += 1;
            self.count = (self.count + 1.0).min(AVERAGED);
            self.mean += (gap as f64 - self.mean) / self.count;
        }
        self.last = now.max(1);
    }

    /// Frames a second, of all streams; 0 while unknown.
    pub fn rate(&self) -> f64 {
        if self.mean > 0.0 { 1e9 / self.mean } else { 0.0 }
    }

    /// When the last frame came.
    pub fn last(&self) -> Time {
        Time::from_nanos(self.last)
    }

    /// Whether at least a quarter of the last frames came within `span` of the one before.
    pub fn close_together(&self, span: Duration) -> bool {
        let span = span.as_nanos() as u64;
        self.common.iter().filter(|&&gap| gap <= span).count() * 4 >= COMMON
    }

    /// Writes the frames expected after `now` and until `until`, in the order in which they come, as far as `out` reaches;
    /// returns how many.
    pub fn expected(&self, now: Time, until: Time, out: &mut [Expected]) -> usize {
        let (now, until) = (now.nanos(), until.nanos());
        let mut found = 0;
        // Round by round, so that a full `out` cuts all streams off at about the same time.
        for round in 0.. {
            let before = found;
            for stream in &self.streams {
                let Some(period) = stream.period else { continue };
                let mut at = stream.last + period;
                if at <= now {
                    let overdue = now - at;
                    // Somewhat late: it will come any moment. Later: it was lost, and the next one counts.
                    at = if overdue > period / 4 {
                        at + period * (overdue / period + 1)
                    } else {
                        now + period / 16
                    };
                }
                at = at.saturating_add(period.saturating_mul(round));
                if at <= until && found < out.len() {
                    out[found] = Expected { at, due: at.saturating_add(stream.objective) - stream.lag };
                    found += 1;
                }
            }
            if found == before {
                break;
            }
        }
        out[..found].sort_unstable_by_key(|e| e.at);
        found
    }
}

/// The median of the distances, if the middle half of them differs by less than 30 % of it.
fn regular(gaps: &[u64; GAPS], seen: usize) -> Option<u64> {
    let n = seen.min(GAPS);
    if n < ENOUGH {
        return None;
    }
    let mut sorted = *gaps;
    let sorted = &mut sorted[..n];
    sorted.sort_unstable();
    let (low, middle, high) = (sorted[n / 4], sorted[n / 2], sorted[n * 3 / 4]);
    ((high - low) * 10 < middle * 3).then_some(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(t: u64) -> Time {
        Time::from_nanos(t * 1_000_000)
    }

    #[test]
    fn cameras_are_foreseen_and_chance_is_not() {
        let mut model = ArrivalModel::new(&[Duration::from_millis(100); 2]);
        for n in 0..20u64 {
            // 30 ms apart, 4 ms on the way; the other stream has no rule.
            model.arrived(0, ms(100 + n * 30 - 4), ms(100 + n * 30));
            model.arrived(1, ms(100 + n * 30), ms(101 + n * 30 + (n * n * 7919) % 29));
        }
        let mut out = [Expected { at: 0, due: 0 }; 8];
        let found = model.expected(ms(671), ms(760), &mut out);
        let times: Vec<_> = out[..found].iter().map(|e| (e.at / 1_000_000, e.due / 1_000_000)).collect();
        assert_eq!(times, [(700, 796), (730, 826), (760, 856)]);
        assert!((model.rate() - 2.0 / 0.03).abs() < 10.0, "{}", model.rate());
        // A frame that failed to come is not waited for.
        let found = model.expected(ms(720), ms(760), &mut out);
        assert_eq!(out[..found].iter().map(|e| e.at / 1_000_000).collect::<Vec<_>>(), [730, 760]);
    }
}
