//! One source on a thread of its own, as a state machine.
//!
//! [`Machine`] decides, [`Supervisor`] does: calls the source, moves frames into the ring, sleeps. A driver call that never returns
//! blocks that thread only: [`Supervisor::status`] says so (it compares the time with when the call began), and
//! [`Supervisor::stop`] leaves such a thread behind after a moment.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::machine::{Action, Event, Machine, Plan, State};
use super::{Counters, DropReason, Next, Opened, Snapshot, Source};
use crate::frame::{Frame, SourceId, lock, monotonic};
use crate::ring::{Bell, FrameRing, Pushed};
use crate::{Error, ErrorKind, Result};

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

impl Shared {
    fn status(&self) -> Status {
        let mut status = lock(&self.status).clone();
        let overdue = Duration::from_nanos(self.overdue.load(Ordering::Relaxed));
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
}

/// Tells how a source is, also when its [`Supervisor`] is elsewhere.
#[derive(Clone, Debug)]
pub struct Watch(Arc<Shared>);

impl Watch {
    /// Whose frames these are.
    pub fn id(&self) -> SourceId {
        self.0.id
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What it is doing now. A call that takes much longer than it was allowed to is reported as [`State::Stalled`].
    pub fn status(&self) -> Status {
        self.0.status()
    }

    /// What it counted so far. Frames that the ring replaced are among the drops.
    pub fn counters(&self) -> Snapshot {
        self.0.counters.snapshot()
    }
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

    /// What it is doing now ([`Watch::status`]).
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Looks at it from elsewhere.
    pub fn watch(&self) -> Watch {
        Watch(Arc::clone(&self.shared))
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
