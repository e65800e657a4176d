//! One source on a thread of its own, as a state machine.
//!
//! [`Machine`] decides; it is told what happened and when, and has no clock and no thread of its own, so its tests need no
//! waiting. [`Supervisor`] does: calls the source, moves frames into the ring, sleeps. A driver call that never returns
//! blocks that thread only: [`Supervisor::status`] says so (it compares the time with when the call began), and
//! [`Supervisor::stop`] leaves such a thread behind after a moment.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Counters, DropReason, Next, Opened, Snapshot, Source};
use crate::frame::{Frame, SourceId, lock, monotonic};
use crate::ring::{Bell, FrameRing, Keep, Pushed};
use crate::{Error, ErrorKind, Result};

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
    /// Without a frame for this long it is closed and opened again.
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
        /// See [`ErrorKind::is_permanent`].
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
                if silent >= self.plan.stall {
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
        let until = if silent * 2 < self.plan.stall { self.plan.stall / 2 } else { self.plan.stall };
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

/// What is known about a source now.
#[derive(Clone, Debug)]
pub struct Status {
    /// What it is doing.
    pub state: State,
    /// Since when.
    pub since: Duration,
    /// Why it is not streaming, or what ended it.
    pub reason: Option<String>,
    /// What it said when it was last opened.
    pub opened: Option<Opened>,
    /// Failures since it last worked.
    pub attempts: u32,
    /// When its latest frame came.
    pub last_frame: Option<Duration>,
}

#[derive(Debug)]
struct Shared {
    id: SourceId,
    name: String,
    counters: Counters,
    status: Mutex<Status>,
    stop: AtomicBool,
    woken: Condvar,
    /// When the call in progress should have returned (nanoseconds of the monotonic clock), 0 outside of calls.
    overdue: AtomicU64,
    finished: AtomicBool,
}

/// Runs one source on a thread of its own.
#[derive(Debug)]
pub struct Supervisor {
    shared: Arc<Shared>,
    ring: Arc<FrameRing>,
    thread: Option<JoinHandle<()>>,
}

impl Supervisor {
    /// How long [`Supervisor::stop`] waits for the thread.
    pub const STOP_WITHIN: Duration = Duration::from_millis(1500);

    /// Starts the thread. `name` is what messages call the source (no secrets in it: [`SourceUri`](super::SourceUri)'s
    /// `Display`); `bell` rings for each frame and when the source ends.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when no thread can be had.
    pub fn start(
        source: Box<dyn Source>,
        id: SourceId,
        name: impl Into<String>,
        plan: Plan,
        bell: Arc<Bell>,
    ) -> Result<Supervisor> {
        let ring = FrameRing::new(plan.capacity, plan.keep, bell);
        let shared = Arc::new(Shared {
            id,
            name: name.into(),
            counters: Counters::default(),
            status: Mutex::new(Status {
                state: State::Opening,
                since: monotonic(),
                reason: None,
                opened: None,
                attempts: 0,
                last_frame: None,
            }),
            stop: AtomicBool::new(false),
            woken: Condvar::new(),
            overdue: AtomicU64::new(0),
            finished: AtomicBool::new(false),
        });
        let worker = Worker {
            source,
            machine: Machine::new(plan, monotonic().as_nanos() as u64 ^ u64::from(id.0) << 48),
            plan,
            shared: Arc::clone(&shared),
            ring: Arc::clone(&ring),
            next_id: 0,
            last_sequence: None,
            dropped_since: 0,
        };
        let thread = std::thread::Builder::new()
            .name(format!("source-{}", id.0))
            .spawn(move || worker.run())
            .map_err(|e| Error::new(ErrorKind::Io, format!("no thread for a source: {e}")))?;
        Ok(Supervisor { shared, ring, thread: Some(thread) })
    }

    /// Whose frames these are.
    pub fn id(&self) -> SourceId {
        self.shared.id
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Where its frames wait. Closed when the source has ended.
    pub fn ring(&self) -> &Arc<FrameRing> {
        &self.ring
    }

    /// What it is doing now. A call that takes much longer than it was allowed to is reported as [`State::Stalled`].
    pub fn status(&self) -> Status {
        let mut status = lock(&self.shared.status).clone();
        let overdue = Duration::from_nanos(self.shared.overdue.load(Ordering::Relaxed));
        let now = monotonic();
        if !overdue.is_zero() && now > overdue && status.state != State::Ended {
            let late = (now - overdue).as_secs_f64();
            let call = if matches!(status.state, State::Opening | State::Reconnecting) {
                "opening"
            } else {
                "reading"
            };
            status.state = State::Stalled;
            status.since = overdue;
            status.reason = Some(format!("{call} it has not returned for {late:.1} s longer than allowed"));
        }
        status
    }

    /// What it counted so far. Frames that the ring replaced are among the drops.
    pub fn counters(&self) -> Snapshot {
        self.shared.counters.snapshot()
    }

    /// Whether it is over and its thread gone.
    pub fn is_finished(&self) -> bool {
        self.shared.finished.load(Ordering::Acquire)
    }

    /// Asks it to stop, without waiting.
    pub fn request_stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        // Taken so that the flag cannot be set between the worker's look at it and its sleep.
        drop(lock(&self.shared.status));
        self.shared.woken.notify_all();
        self.ring.close();
    }

    /// Stops it: closes the device, gives waiting frames back. Returns whether the thread ended within
    /// [`Supervisor::STOP_WITHIN`]; one that hangs in the driver is left behind.
    pub fn stop(mut self) -> bool {
        self.halt()
    }

    fn halt(&mut self) -> bool {
        self.request_stop();
        self.shared.counters.drop(DropReason::Stopped, self.ring.clear() as u64);
        let Some(thread) = self.thread.take() else { return true };
        let deadline = Instant::now() + Self::STOP_WITHIN;
        let mut status = lock(&self.shared.status);
        while !self.shared.finished.load(Ordering::Acquire) {
            let left = deadline.checked_duration_since(Instant::now()).filter(|d| !d.is_zero());
            let Some(left) = left else { return false };
            status = self.shared.woken.wait_timeout(status, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(status);
        thread.join().is_ok()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.halt();
    }
}

struct Worker {
    source: Box<dyn Source>,
    machine: Machine,
    plan: Plan,
    shared: Arc<Shared>,
    ring: Arc<FrameRing>,
    next_id: u64,
    last_sequence: Option<u64>,
    dropped_since: u64,
}

impl Worker {
    fn run(mut self) {
        let mut action = Action::Open;
        while !self.stopping() {
            let (event, reason) = match action {
                Action::Open => self.open(),
                Action::Next(wait) => self.next(wait),
                Action::Pause(pause) => {
                    self.close();
                    self.sleep(pause);
                    (Event::Paused, None)
                }
                Action::Finish => break,
            };
            let now = monotonic();
            let before = self.machine.state();
            action = self.machine.on(event, now);
            let silent = event == Event::Nothing && matches!(action, Action::Pause(_) | Action::Finish);
            let reason = if silent {
                self.shared.counters.stalled();
                Some(format!("no frame for {:.1} s", self.plan.stall.as_secs_f64()))
            } else {
                reason
            };
            self.publish(before, event, reason, now);
        }
        self.close();
        let mut status = lock(&self.shared.status);
        if status.state != State::Ended {
            status.reason = Some("stopped".into());
            (status.state, status.since) = (State::Ended, monotonic());
        }
        self.shared.finished.store(true, Ordering::Release);
        drop(status);
        self.shared.woken.notify_all();
        self.ring.close();
    }

    fn stopping(&self) -> bool {
        self.shared.stop.load(Ordering::Acquire)
    }

    /// Makes what happened visible. On the way of a frame only a field changes.
    fn publish(&self, before: State, event: Event, reason: Option<String>, now: Duration) {
        let state = self.machine.state();
        let mut status = lock(&self.shared.status);
        if event == Event::Frame {
            status.last_frame = Some(now);
        }
        status.attempts = self.machine.attempts();
        if state != before {
            (status.state, status.since) = (state, now);
            match &reason {
                Some(why) if state == State::Reconnecting => {
                    log::warn!("{}: {why}; trying again", self.shared.name);
                }
                Some(why) if state == State::Ended => log::error!("{}: {why}", self.shared.name),
                _ => log::info!("{}: {state}", self.shared.name),
            }
        }
        match reason {
            Some(why) => status.reason = Some(why),
            None if state == State::Streaming && status.reason.is_some() => status.reason = None,
            None => {}
        }
    }

    /// Runs a call of the source with its time on record and its panics caught.
    fn call<T>(&mut self, within: Duration, call: impl FnOnce(&mut dyn Source) -> Result<T>) -> Result<T> {
        // A call may overrun a little before it is called a hang.
        let due = monotonic() + within + within / 2 + Duration::from_millis(500);
        self.shared.overdue.store(due.as_nanos() as u64, Ordering::Relaxed);
        let done = catch_unwind(AssertUnwindSafe(|| call(self.source.as_mut())));
        self.shared.overdue.store(0, Ordering::Relaxed);
        done.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Io, "the source's code failed (a bug: please report it)"))
        })
    }

    fn open(&mut self) -> (Event, Option<String>) {
        let within = self.plan.open_within;
        match self.call(within, |s| s.open(within)) {
            Ok(opened) => {
                self.shared.counters.opened();
                (self.last_sequence, self.dropped_since) = (None, 0);
                log::info!("{}: {}", self.shared.name, opened.note);
                lock(&self.shared.status).opened = Some(opened);
                (Event::Opened, None)
            }
            Err(e) => self.failed(&e),
        }
    }

    fn failed(&mut self, e: &Error) -> (Event, Option<String>) {
        self.shared.counters.failed();
        (Event::Failed { permanent: e.kind().is_permanent() }, Some(e.to_string()))
    }

    fn next(&mut self, wait: Duration) -> (Event, Option<String>) {
        match self.call(wait, |s| s.next(wait)) {
            Ok(Next::Frame(frame)) => {
                self.deliver(frame);
                (Event::Frame, None)
            }
            Ok(Next::Dropped(reason)) => {
                self.shared.counters.drop(reason, 1);
                self.dropped_since += 1;
                (Event::Frame, None)
            }
            Ok(Next::Nothing) => (Event::Nothing, None),
            Ok(Next::Busy) => (Event::Busy, None),
            Ok(Next::End) => (Event::End, None),
            Err(e) => self.failed(&e),
        }
    }

    fn deliver(&mut self, mut frame: Frame) {
        frame.source = self.shared.id;
        frame.id = self.next_id;
        self.next_id += 1;
        if let Some(last) = self.last_sequence {
            // What was dropped here had a number too.
            let lost = frame.sequence.saturating_sub(last + 1).saturating_sub(self.dropped_since);
            if lost > 0 {
                self.shared.counters.drop(DropReason::Lost, lost);
            }
        }
        (self.last_sequence, self.dropped_since) = (Some(frame.sequence), 0);
        let copies = frame.copies();
        loop {
            match self.ring.push(frame, Machine::SLICE) {
                Pushed::Kept => self.shared.counters.frame(copies),
                Pushed::Replaced => {
                    self.shared.counters.frame(copies);
                    self.shared.counters.drop(DropReason::Replaced, 1);
                }
                // Waiting for a slow user is no stall of the source.
                Pushed::Full(back) if !self.stopping() => {
                    frame = back;
                    continue;
                }
                Pushed::Full(_) | Pushed::Closed(_) => self.shared.counters.drop(DropReason::Stopped, 1),
            }
            return;
        }
    }

    fn close(&mut self) {
        let within = Duration::from_secs(1);
        let closed = self.call(within, |s| {
            s.close();
            Ok(())
        });
        if let Err(e) = closed {
            log::error!("{}: while closing: {e}", self.shared.name);
        }
    }

    fn sleep(&self, pause: Duration) {
        let deadline = Instant::now() + pause;
        let mut status = lock(&self.shared.status);
        while !self.stopping() {
            let left = deadline.checked_duration_since(Instant::now()).filter(|d| !d.is_zero());
            let Some(left) = left else { return };
            status = self.shared.woken.wait_timeout(status, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
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
    }
}
