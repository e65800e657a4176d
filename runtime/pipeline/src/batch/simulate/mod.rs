//! The batcher and its rivals on the same arrivals, in virtual time.
//!
//! A [`Trace`] holds the arrivals, a [`Machine`] the true run times; [`play`] puts a [`Policy`] between them and counts the
//! frames that were answered in time. [`rivals`] has the rules of other servers, [`optimum`] the most that any schedule
//! could have answered, the future known.

pub mod compare;
pub mod optimum;
pub mod rivals;
mod trace;

use std::time::Duration;

use crate::batch::{Batcher, Decision, Ticket};
use crate::clock::Time;
pub use trace::{Arrivals, Random, Trace};

/// Something that decides which frames are run together, and when.
pub trait Policy {
    /// A frame is there.
    fn offer(&mut self, now: Time, frame: Ticket);

    /// What to do now; asked only while nothing runs.
    fn decide(&mut self, now: Time) -> Decision;

    /// The frames to run, after [`Decision::Launch`].
    fn batch(&self) -> &[Ticket];

    /// The run has ended.
    fn finished(&mut self, now: Time, took: Duration);
}

impl Policy for Batcher {
    fn offer(&mut self, now: Time, frame: Ticket) {
        Batcher::offer(self, now, frame.source, frame.id, frame.captured);
        while self.shed().is_some() {}
    }

    fn decide(&mut self, now: Time) -> Decision {
        Batcher::decide(self, now)
    }

    fn batch(&self) -> &[Ticket] {
        Batcher::batch(self)
    }

    fn finished(&mut self, _: Time, took: Duration) {
        Batcher::finished(self, Some(took));
    }
}

/// The true run time of every batch size: `times[b]` for `b` frames, from 1.
#[derive(Clone, Debug)]
pub struct Machine {
    times: Vec<Duration>,
}

impl Machine {
    /// A machine that was measured at some sizes, `(frames, seconds)` in growing order; straight lines between.
    /// Sizes below the first take as long as the first.
    pub fn measured(points: &[(usize, f64)]) -> Machine {
        let most = points.last().map_or(0, |p| p.0);
        let times = (0..=most).map(|b| Duration::from_secs_f64(if b == 0 { 0.0 } else { line(points, b) }));
        Machine { times: times.collect() }
    }

    /// The same machine, `factor` times as slow.
    pub fn slowed(&self, factor: f64) -> Machine {
        Machine { times: self.times.iter().map(|t| t.mul_f64(factor)).collect() }
    }

    /// The largest batch it can run.
    pub fn most(&self) -> usize {
        self.times.len() - 1
    }

    /// Run time of `b` frames.
    pub fn time(&self, b: usize) -> Duration {
        self.times[b]
    }

    /// The size with the largest rate `b / t(b)` among those that can be sustained within `objective`, with that rate in
    /// frames a second. Sustained: a frame that comes just after a launch waits for that run and is answered by the next,
    /// so two runs must fit.
    pub fn capacity(&self, objective: Duration) -> (usize, f64) {
        let fits = (1..=self.most()).filter(|&b| b == 1 || self.time(b) * 2 <= objective);
        let rated = fits.map(|b| (b, b as f64 / self.time(b).as_secs_f64()));
        rated.fold((1, 0.0), |best, next| if next.1 > best.1 * 1.000_001 { next } else { best })
    }
}

fn line(points: &[(usize, f64)], b: usize) -> f64 {
    let above = points.iter().position(|p| p.0 >= b).unwrap_or(points.len() - 1);
    if above == 0 || points[above].0 == b {
        return points[above].1;
    }
    let ((x0, y0), (x1, y1)) = (points[above - 1], points[above]);
    y0 + (y1 - y0) * (b - x0) as f64 / (x1 - x0) as f64
}

/// What came of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Frames that came.
    pub came: usize,
    /// Frames answered within their deadline.
    pub in_time: usize,
    /// Frames answered too late.
    pub late: usize,
    /// From capture to answer, of every answered frame, in growing order.
    pub ages: Vec<Duration>,
    /// Runs of the model.
    pub runs: usize,
}

impl Outcome {
    /// Frames that were never answered.
    pub fn dropped(&self) -> usize {
        self.came - self.in_time - self.late
    }

    /// Frames answered in time, as a part of those that came.
    pub fn goodput(&self) -> f64 {
        self.in_time as f64 / self.came.max(1) as f64
    }

    /// The age that `part` of the answered frames do not exceed.
    pub fn age(&self, part: f64) -> Duration {
        let last = self.ages.len().saturating_sub(1);
        self.ages.get((last as f64 * part).round() as usize).copied().unwrap_or_default()
    }
}

/// Plays `trace` to `policy` on `machine`; `each` sees every frame that is answered, with the time of its answer.
pub fn play(
    trace: &Trace,
    machine: &Machine,
    policy: &mut dyn Policy,
    mut each: impl FnMut(&Ticket, Time),
) -> Outcome {
    let mut outcome = Outcome { came: trace.frames.len(), ..Outcome::default() };
    let mut coming = trace.frames.iter().peekable();
    let mut now = Time::ZERO;
    let mut running: Option<(Time, Duration)> = None;
    loop {
        while let Some(frame) = coming.next_if(|f| f.captured <= now) {
            policy.offer(now, *frame);
        }
        if let Some((until, took)) = running
            && until <= now
        {
            for frame in policy.batch() {
                each(frame, now);
                if now <= frame.deadline {
                    outcome.in_time += 1;
                } else {
                    outcome.late += 1;
                }
                outcome.ages.push(now.since(frame.captured));
            }
            outcome.runs += 1;
            policy.finished(now, took);
            running = None;
        }
        let mut wake = Time::NEVER;
        if running.is_none() {
            match policy.decide(now) {
                Decision::Launch => {
                    let took = machine.time(policy.batch().len());
                    running = Some((now + took, took));
                }
                Decision::Wait(until) => wake = until.max(now + Duration::from_nanos(1)),
            }
        }
        if let Some((until, _)) = running {
            wake = until;
        }
        let next = coming.peek().map_or(Time::NEVER, |f| f.captured).min(wake);
        if next == Time::NEVER {
            break;
        }
        now = next;
    }
    outcome.ages.sort_unstable();
    outcome
}
