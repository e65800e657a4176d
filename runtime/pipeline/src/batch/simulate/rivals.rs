//! The batching rules of other servers, written anew from their documentation, at their best.
//!
//! Each decides at the moment the machine is free, knows the queue, and sheds as the batcher does: a frame that can no
//! longer be answered in time is dropped before a run. Each is tuned per trace: [`Rival::grid`] lists the settings to try.

use std::time::Duration;

use super::{Machine, Policy};
use crate::batch::{Decision, Queue, Ticket};
use crate::clock::Time;

/// A rule, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// One frame a run.
    One,
    /// A batch of `size`, or what is there once the oldest has waited `timeout` (the stream muxer of DeepStream).
    Fixed {
        /// Frames of a full batch.
        size: usize,
        /// Longest wait for a full batch.
        timeout: Duration,
    },
    /// The largest preferred size that the queue can fill; once the oldest has waited `delay`, what is there (the dynamic
    /// batcher of Triton).
    Preferred {
        /// Sizes that run at once, in growing order.
        sizes: &'static [usize],
        /// Most frames of a run.
        most: usize,
        /// Longest wait for a preferred size.
        delay: Duration,
    },
    /// A largest size that grows by `more` after a run in time and shrinks by the factor `less` after one that was late
    /// (Clipper), with a longest wait.
    Adaptive {
        /// Added after a run in time.
        more: f64,
        /// Factor after a run that was late.
        less: f64,
        /// Longest wait for a full batch.
        delay: Duration,
    },
}

/// A [`Rule`] at work.
#[derive(Debug)]
pub struct Rival {
    rule: Rule,
    /// Whether a frame is dropped that the chosen batch would answer too late, not only one that no batch could answer.
    strict: bool,
    times: Vec<Duration>,
    queue: Queue,
    batch: Vec<Ticket>,
    size: f64,
}

impl Rival {
    /// `rule` on `machine`; `strict` sheds what the chosen batch would answer too late.
    pub fn new(rule: Rule, strict: bool, machine: &Machine) -> Rival {
        let times = (0..=machine.most()).map(|b| machine.time(b)).collect();
        Rival { rule, strict, times, queue: Queue::new(4096), batch: Vec::new(), size: 1.0 }
    }

    /// The settings to try for frames due after `objective`: name of the rule, rule, strictness.
    pub fn grid(machine: &Machine, objective: Duration) -> Vec<(&'static str, Rule, bool)> {
        let waits = [0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8].map(|part| objective.mul_f64(part));
        let sizes = [2, 3, 4, 6, 8, 12, 16, 24, 32].map(|s: usize| s.min(machine.most()));
        let preferred: [&'static [usize]; 8] =
            [&[2], &[4], &[8], &[16], &[4, 8], &[2, 4, 8], &[8, 16], &[4, 8, 16, 32]];
        let mut rules = vec![("batch 1", Rule::One)];
        for wait in waits {
            rules.extend(sizes.map(|size| ("fixed", Rule::Fixed { size, timeout: wait })));
            for sizes in preferred {
                for most in [8, 16, machine.most()] {
                    if sizes.iter().all(|&s| s <= most && most <= machine.most()) {
                        rules.push(("preferred", Rule::Preferred { sizes, most, delay: wait }));
                    }
                }
            }
            for more in [0.25, 1.0, 2.0] {
                rules.extend(
                    [0.5, 0.75, 0.9].map(|less| ("aimd", Rule::Adaptive { more, less, delay: wait })),
                );
            }
        }
        rules.dedup();
        rules.into_iter().flat_map(|(name, rule)| [(name, rule.clone(), false), (name, rule, true)]).collect()
    }

    /// How many of the waiting frames the rule would run now, or until when it waits.
    fn choose(&self, now: Time) -> Result<usize, Time> {
        let waiting = self.queue.len();
        let Some(oldest) = self.queue.first() else { return Err(Time::NEVER) };
        let most = self.times.len() - 1;
        let waited = |longest: Duration| {
            let until = oldest.captured + longest;
            if now >= until { Ok(()) } else { Err(until) }
        };
        match self.rule {
            Rule::One => Ok(1),
            Rule::Fixed { size, timeout } => {
                if waiting < size {
                    waited(timeout)?;
                }
                Ok(waiting.min(size))
            }
            Rule::Preferred { sizes, most, delay } => {
                if let Some(&size) = sizes.iter().rev().find(|&&s| s <= waiting) {
                    return Ok(size);
                }
                waited(delay)?;
                Ok(waiting.min(most))
            }
            Rule::Adaptive { delay, .. } => {
                let size = (self.size as usize).clamp(1, most);
                if waiting < size {
                    waited(delay)?;
                }
                Ok(waiting.min(size))
            }
        }
    }

    /// Drops what is due before `by`.
    fn shed(&mut self, by: Time) -> bool {
        let before = self.queue.len();
        while self.queue.first().is_some_and(|f| f.deadline < by) {
            self.queue.pop();
        }
        self.queue.len() < before
    }
}

impl Policy for Rival {
    fn offer(&mut self, _: Time, frame: Ticket) {
        self.queue.push(frame);
    }

    fn decide(&mut self, now: Time) -> Decision {
        self.shed(now + self.times[1]);
        loop {
            match self.choose(now) {
                Err(until) => return Decision::Wait(until),
                Ok(size) => {
                    if self.strict && self.shed(now + self.times[size]) {
                        if let Rule::Adaptive { less, .. } = self.rule {
                            self.size = (self.size * less).max(1.0);
                        }
                        continue;
                    }
                    self.batch.clear();
                    self.batch.extend((0..size).filter_map(|_| self.queue.pop()));
                    return Decision::Launch;
                }
            }
        }
    }

    fn batch(&self) -> &[Ticket] {
        &self.batch
    }

    fn finished(&mut self, now: Time, _: Duration) {
        if let Rule::Adaptive { more, less, .. } = self.rule {
            let late = self.batch.iter().any(|f| f.deadline < now);
            let most = (self.times.len() - 1) as f64;
            self.size = if late { (self.size * less).max(1.0) } else { (self.size + more).min(most) };
        }
    }
}
