//! The rules of a source's life: what follows from what happened, and when.
//!
//! [`Machine`] has no clock and no thread of its own: it is told the time with every event, so its tests need no waiting.

use std::fmt;
use std::time::Duration;

use crate::ring::{FrameRing, Keep};

/// What a source is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Being opened for the first time.
    Opening,
    /// Giving frames.
    Streaming,
    /// Open, but no frame has come for half of the time after which it is reopened; or a call hangs.
    Stalled,
    /// Closed after a failure: waiting to be opened again, or being opened.
    Reconnecting,
    /// Over: stopped, at its end, or failed in a way that trying again cannot mend.
    Ended,
}

impl State {
    /// The lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            State::Opening => "opening",
            State::Streaming => "streaming",
            State::Stalled => "stalled",
            State::Reconnecting => "reconnecting",
            State::Ended => "ended",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Pauses between attempts: each twice the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The first pause.
    pub first: Duration,
    /// The longest.
    pub most: Duration,
    /// Each pause is varied by up to this fraction of itself, 0 to 1, so that sources that failed together do not retry
    /// together.
    pub jitter: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { first: Duration::from_millis(250), most: Duration::from_secs(5), jitter: 0.25 }
    }
}

/// How a source is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// What happens when frames come faster than they are used.
    pub keep: Keep,
    /// Frames that may wait.
    pub capacity: usize,
    /// Whether a failure leads to a new attempt (cameras) or is the end (files).
    pub retry: bool,
    /// Without a frame for this long it is closed and opened again, if `retry` is on; else it is only called stalled.
    pub stall: Duration,
    /// How long opening may take.
    pub open_within: Duration,
    /// Pauses between attempts.
    pub backoff: Backoff,
}

impl Default for Plan {
    /// A live camera.
    fn default() -> Self {
        Plan {
            keep: Keep::Latest,
            capacity: FrameRing::CAPACITY,
            retry: true,
            stall: Duration::from_secs(5),
            open_within: Duration::from_secs(10),
            backoff: Backoff::default(),
        }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It was opened.
    Opened,
    /// It could not be opened, or failed while open. `permanent`: trying again cannot help.
    Failed {
        /// See [`ErrorKind::is_permanent`](crate::ErrorKind::is_permanent).
        permanent: bool,
    },
    /// A frame came, good or damaged: it lives.
    Frame,
    /// No frame came, but only since its user has all its buffers.
    Busy,
    /// No frame came while we waited.
    Nothing,
    /// There will be no more frames.
    End,
    /// A pause is over.
    Paused,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open it.
    Open,
    /// Wait for a frame, at most this long.
    Next(Duration),
    /// Close it, then pause this long.
    Pause(Duration),
    /// Close it for good.
    Finish,
}

/// The rules of a source's life, without clock or thread.
#[derive(Clone, Debug)]
pub struct Machine {
    plan: Plan,
    state: State,
    /// Failures in a row.
    attempts: u32,
    opened: Duration,
    last_frame: Duration,
    random: u64,
}

impl Machine {
    /// The longest single wait for a frame: how soon a stop is noticed.
    pub const SLICE: Duration = Duration::from_millis(100);

    /// A machine that is about to open its source. `seed` varies the pauses.
    pub fn new(plan: Plan, seed: u64) -> Machine {
        Machine {
            plan,
            state: State::Opening,
            attempts: 0,
            opened: Duration::ZERO,
            last_frame: Duration::ZERO,
            // Seeds that differ in a bit only must not begin alike (the finaliser of splitmix64).
            random: mix(seed) | 1,
        }
    }

    /// What the source is doing.
    pub fn state(&self) -> State {
        self.state
    }

    /// Failures since it last worked.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// What follows from `event` at time `now`. The first action is [`Action::Open`], without an event.
    pub fn on(&mut self, event: Event, now: Duration) -> Action {
        match event {
            _ if self.state == State::Ended => Action::Finish,
            Event::Opened => {
                self.state = State::Streaming;
                (self.opened, self.last_frame) = (now, now);
                self.next(now)
            }
            Event::Frame | Event::Busy => {
                self.state = State::Streaming;
                self.last_frame = now;
                // One that keeps failing just after it was opened must not be retried at the shortest pause for ever.
                if now.saturating_sub(self.opened) >= self.plan.backoff.most {
                    self.attempts = 0;
                }
                self.next(now)
            }
            Event::Nothing => {
                let silent = now.saturating_sub(self.last_frame);
                // What cannot be opened anew may only be waited for: a pipe that pauses is no failure.
                if silent >= self.plan.stall && self.plan.retry {
                    return self.on(Event::Failed { permanent: false }, now);
                }
                if silent * 2 >= self.plan.stall {
                    self.state = State::Stalled;
                }
                self.next(now)
            }
            Event::Failed { permanent } if permanent || !self.plan.retry => {
                self.state = State::Ended;
                Action::Finish
            }
            Event::Failed { .. } => {
                self.state = State::Reconnecting;
                let pause = self.pause();
                self.attempts = self.attempts.saturating_add(1);
                Action::Pause(pause)
            }
            Event::Paused => Action::Open,
            Event::End => {
                self.state = State::Ended;
                Action::Finish
            }
        }
    }

    fn next(&self, now: Duration) -> Action {
        let silent = now.saturating_sub(self.last_frame);
        let until = match self.plan.stall {
            stall if silent * 2 < stall => stall / 2,
            stall if silent < stall => stall,
            // Waited for without end.
            _ => return Action::Next(Self::SLICE),
        };
        Action::Next(until.saturating_sub(silent).clamp(Duration::from_millis(1), Self::SLICE))
    }

    fn pause(&mut self) -> Duration {
        let b = self.plan.backoff;
        let plain = b.first.saturating_mul(1 << self.attempts.min(20)).min(b.most);
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let unit = (self.random >> 11) as f64 / (1u64 << 53) as f64;
        plain.mul_f64(1.0 + b.jitter.clamp(0.0, 1.0) * (2.0 * unit - 1.0))
    }
}

fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn machine() -> Machine {
        let mut m = Machine::new(Plan::default(), 7);
        assert_eq!(m.on(Event::Opened, ms(0)), Action::Next(Machine::SLICE));
        m
    }

    #[test]
    fn silence_is_seen_before_it_ends_a_stream() {
        let mut m = machine();
        assert_eq!(m.on(Event::Nothing, ms(2400)), Action::Next(ms(100)));
        assert_eq!(m.state(), State::Streaming);
        assert_eq!(m.on(Event::Nothing, ms(2499)), Action::Next(ms(1)));
        assert_eq!(m.on(Event::Nothing, ms(2500)), Action::Next(ms(100)));
        assert_eq!(m.state(), State::Stalled);
        m.on(Event::Frame, ms(4999));
        assert_eq!(m.state(), State::Streaming);
        m.on(Event::Busy, ms(9000));
        assert_eq!(m.on(Event::Nothing, ms(13_950)), Action::Next(ms(50)));
        assert!(matches!(m.on(Event::Nothing, ms(14_000)), Action::Pause(_)));
        assert_eq!((m.state(), m.attempts()), (State::Reconnecting, 1));
    }

    /// Gone at 5 s, back at 15 s: it is found within one pause.
    #[test]
    fn pauses_double_up_to_the_longest_and_vary() {
        let mut m = machine();
        let mut now = ms(5000);
        let (mut action, mut pauses) = (m.on(Event::Failed { permanent: false }, now), Vec::new());
        while let Action::Pause(p) = action {
            pauses.push(p.as_secs_f64());
            now += p;
            assert_eq!(m.on(Event::Paused, now), Action::Open);
            if now >= ms(15_000) {
                action = m.on(Event::Opened, now);
            } else {
                action = m.on(Event::Failed { permanent: false }, now);
            }
        }
        let plain = [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0];
        assert!(pauses.len() >= 5 && now < ms(15_000 + 6250), "{pauses:?}");
        for (p, want) in pauses.iter().zip(plain) {
            assert!((p / want - 1.0).abs() <= 0.25, "{pauses:?}");
        }
        assert!(pauses.iter().zip(plain).any(|(p, want)| (p / want - 1.0).abs() > 0.02), "{pauses:?}");
        // Sources that failed together do not retry together.
        let first = |seed: u64| match Machine::new(Plan::default(), seed)
            .on(Event::Failed { permanent: false }, now)
        {
            Action::Pause(p) => p,
            other => panic!("{other:?}"),
        };
        assert_ne!(first(3), first(5));
    }

    #[test]
    fn one_that_keeps_failing_just_after_opening_is_not_retried_ever_faster() {
        let mut m = machine();
        let mut now = ms(0);
        let mut last = Duration::ZERO;
        for _ in 0..8 {
            m.on(Event::Frame, now);
            now += ms(10);
            let Action::Pause(p) = m.on(Event::Failed { permanent: false }, now) else { panic!("a pause") };
            now += p;
            last = p;
            m.on(Event::Paused, now);
            m.on(Event::Opened, now);
        }
        assert!(last > ms(3700), "{last:?}");
        // Once it has worked for a while its past is forgotten.
        now += ms(5000);
        m.on(Event::Frame, now);
        assert!(matches!(m.on(Event::Failed { permanent: false }, now), Action::Pause(p) if p < ms(320)));
    }

    #[test]
    fn what_cannot_be_mended_ends_it() {
        let mut m = machine();
        assert_eq!(m.on(Event::Failed { permanent: true }, ms(1)), Action::Finish);
        assert_eq!(m.state(), State::Ended);
        assert_eq!(m.on(Event::Frame, ms(2)), Action::Finish);
        let mut m = Machine::new(Plan { retry: false, ..Plan::default() }, 1);
        assert_eq!(m.on(Event::Failed { permanent: false }, ms(1)), Action::Finish);
        let mut m = machine();
        assert_eq!((m.on(Event::End, ms(1)), m.state()), (Action::Finish, State::Ended));
        // Silence is no failure of a stream that is not opened anew: it is waited for, visibly.
        let mut m = Machine::new(Plan { retry: false, ..Plan::default() }, 1);
        m.on(Event::Opened, ms(0));
        assert_eq!(m.on(Event::Nothing, ms(3_600_000)), Action::Next(Machine::SLICE));
        assert_eq!(m.state(), State::Stalled);
        m.on(Event::Frame, ms(3_600_001));
        assert_eq!(m.state(), State::Streaming);
    }
}
