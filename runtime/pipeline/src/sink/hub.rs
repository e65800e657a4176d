//! Runs sinks: each on a thread of its own behind a bounded queue.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Demand, Flow, FrameResult, Sink, SinkReport, SinkState};
use crate::frame::{SourceId, lock, monotonic};
use crate::lane::Lane;
use crate::ring::{Keep, Pushed};
use crate::{Error, ErrorKind, Result};

/// How a sink is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkPlan {
    /// Results that may wait before it, 1 to 1024.
    pub queue: usize,
    /// What happens when that many wait. [`Keep::All`] makes the pipeline wait, for files that are to be converted whole;
    /// at most [`SinkPlan::PATIENCE`] at a time, so that a dead sink still ends nothing.
    pub keep: Keep,
}

impl SinkPlan {
    /// How long the pipeline waits for room before a sink with [`Keep::All`]; then the oldest result is dropped.
    pub const PATIENCE: Duration = Duration::from_secs(10);
}

impl Default for SinkPlan {
    fn default() -> Self {
        SinkPlan { queue: 8, keep: Keep::Latest }
    }
}

/// How it is.
#[derive(Debug)]
struct Status {
    state: SinkState,
    reason: Option<String>,
    broken: bool,
}

#[derive(Debug)]
struct Shared {
    name: String,
    plan: SinkPlan,
    queue: Lane<Arc<FrameResult>>,
    status: Mutex<Status>,
    ended: Condvar,
    taken: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
    lost: AtomicU64,
    /// Set when the queue takes nothing any more, so that sending does not lock.
    over: AtomicBool,
    /// When the call in progress began (nanoseconds of the monotonic clock), 0 outside of calls.
    called: AtomicU64,
    demand: Option<Arc<dyn Demand>>,
}

impl Shared {
    /// `waits` is set while this waits for room.
    fn send(&self, result: &Arc<FrameResult>, waits: &AtomicBool) {
        if self.over.load(Ordering::Acquire) {
            return;
        }
        let mut pushed = match self.queue.try_push(Arc::clone(result)) {
            Err(result) if self.plan.keep == Keep::All => {
                waits.store(true, Ordering::Relaxed);
                let pushed = self.queue.push(result, Keep::All, SinkPlan::PATIENCE);
                waits.store(false, Ordering::Relaxed);
                pushed
            }
            Err(result) => self.queue.push(result, Keep::Latest, Duration::ZERO),
            Ok(()) => return,
        };
        if let Pushed::Full(result) = pushed {
            pushed = self.queue.push(result, Keep::Latest, Duration::ZERO);
        }
        if matches!(pushed, Pushed::Replaced(_)) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the sink is over; whether it is.
    fn wait(&self, deadline: Instant) -> bool {
        let mut status = lock(&self.status);
        while status.state != SinkState::Ended {
            let left = deadline.checked_duration_since(Instant::now()).filter(|d| !d.is_zero());
            let Some(left) = left else { return false };
            status = self.ended.wait_timeout(status, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Takes nothing more, and lets go of what waits.
    fn shut(&self) {
        self.over.store(true, Ordering::Release);
        self.queue.close();
        self.dropped.fetch_add(self.queue.clear() as u64, Ordering::Relaxed);
    }

    fn set(&self, state: SinkState, reason: Option<String>) {
        let mut status = lock(&self.status);
        if status.state != state {
            match (&reason, state) {
                (Some(why), SinkState::Failing) => log::warn!("{}: {why}", self.name),
                (Some(why), SinkState::Ended) => log::error!("{}: {why}", self.name),
                _ => log::info!("{}: {state}", self.name),
            }
        }
        (status.state, status.reason) = (state, reason);
    }

    fn report(&self) -> SinkReport {
        let called = self.called.load(Ordering::Relaxed);
        let busy = if called == 0 { 0 } else { (monotonic().as_nanos() as u64).saturating_sub(called) };
        let status = lock(&self.status);
        SinkReport {
            name: self.name.clone(),
            state: status.state,
            reason: status.reason.clone(),
            taken: self.taken.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            waiting: self.queue.len(),
            busy: Duration::from_nanos(busy),
            broken: status.broken,
        }
    }
}

/// A running set of sinks. Cheap to share: [`Sinks::send`] may be called from any thread.
#[derive(Debug)]
pub struct Sinks {
    all: Vec<Arc<Shared>>,
    waits: AtomicBool,
    threads: Mutex<Vec<(Arc<Shared>, JoinHandle<()>)>>,
}

impl Sinks {
    /// How long an idle sink waits until it is asked to do its chores.
    const CHORES: Duration = Duration::from_millis(500);

    /// Starts a thread for each sink.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when no thread can be had.
    pub fn start(sinks: Vec<(Box<dyn Sink>, SinkPlan)>) -> Result<Sinks> {
        let mut running =
            Sinks { all: Vec::new(), waits: AtomicBool::new(false), threads: Mutex::new(Vec::new()) };
        for (i, (sink, plan)) in sinks.into_iter().enumerate() {
            let plan = SinkPlan { queue: plan.queue.clamp(1, 1024), ..plan };
            let shared = Arc::new(Shared {
                name: sink.name().to_owned(),
                plan,
                queue: Lane::new(plan.queue),
                status: Mutex::new(Status { state: SinkState::Working, reason: None, broken: false }),
                ended: Condvar::new(),
                taken: AtomicU64::new(0),
                dropped: AtomicU64::new(0),
                failed: AtomicU64::new(0),
                lost: AtomicU64::new(0),
                over: AtomicBool::new(false),
                called: AtomicU64::new(0),
                demand: sink.demand(),
            });
            let worker = Worker { sink, shared: Arc::clone(&shared) };
            let thread = std::thread::Builder::new()
                .name(format!("sink-{i}"))
                .spawn(move || worker.run())
                .map_err(|e| Error::new(ErrorKind::Io, format!("no thread for a sink: {e}")))?;
            lock(&running.threads).push((Arc::clone(&shared), thread));
            running.all.push(shared);
        }
        Ok(running)
    }

    /// Whether some sink wants the picture of a frame of this source, captured then.
    pub fn wants_picture(&self, source: SourceId, captured: Duration) -> bool {
        // Each is asked, since each keeps its own rate.
        self.all.iter().fold(false, |wanted, s| {
            let over = s.over.load(Ordering::Relaxed);
            wanted | (!over && s.demand.as_ref().is_some_and(|d| d.wants(source, captured)))
        })
    }

    /// Gives a result to every sink. Waits for none, but for one with [`Keep::All`] whose queue is full. Allocates nothing.
    pub fn send(&self, result: &Arc<FrameResult>) {
        self.all.iter().for_each(|s| s.send(result, &self.waits));
    }

    /// Whether [`Sinks::send`] waits for a sink just now: whoever called it is well, and silent.
    pub fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Results that may be held by sinks at once: what a [`Recycler`](super::Recycler) needs room for.
    pub fn capacity(&self) -> usize {
        self.all.iter().map(|s| s.plan.queue + 1).sum()
    }

    /// What each sink is doing.
    pub fn reports(&self) -> Vec<SinkReport> {
        self.all.iter().map(|s| s.report()).collect()
    }

    /// Whether there are sinks and all of them are over: nobody wants more results.
    pub fn all_ended(&self) -> bool {
        !self.all.is_empty() && self.all.iter().all(|s| lock(&s.status).state == SinkState::Ended)
    }

    /// Nothing more will come: every sink takes what waits and closes. Waits for none.
    pub fn finish(&self) {
        self.all.iter().for_each(|s| s.queue.close());
    }

    /// Waits until every sink is over, at most for this time; whether they are.
    pub fn wait(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        self.all.iter().all(|s| s.wait(deadline))
    }

    /// Lets every sink take what waits and close, all of them within this time. Returns the names of those that did not
    /// get there; their threads are left behind.
    pub fn close(&self, within: Duration) -> Vec<String> {
        let deadline = Instant::now() + within;
        self.finish();
        let mut late = Vec::new();
        for (shared, thread) in lock(&self.threads).drain(..) {
            let ended = shared.wait(deadline);
            // What a hanging sink holds would otherwise be kept for ever.
            shared.shut();
            if ended {
                // The thread is past its last call; nothing of it can hang.
                drop(thread.join());
            } else {
                log::warn!("{}: not closed within {:.1} s", shared.name, within.as_secs_f64());
                late.push(shared.name.clone());
            }
        }
        late
    }
}

impl Drop for Sinks {
    fn drop(&mut self) {
        self.close(Duration::from_secs(1));
    }
}

struct Worker {
    sink: Box<dyn Sink>,
    shared: Arc<Shared>,
}

enum Work {
    Result(Arc<FrameResult>),
    Chores,
    Close,
}

impl Worker {
    fn run(mut self) {
        let mut end: Option<(String, bool)> = None;
        while end.is_none() {
            end = match self.next() {
                Work::Result(result) => self.accept(&result),
                Work::Chores => self.idle(),
                Work::Close => break,
            };
        }
        self.shared.shut();
        let closed = self.call(|s| s.close());
        let end = match (end, closed) {
            (None, Err(e)) => Some((format!("while closing: {e}"), true)),
            (end, _) => end,
        };
        let name = &self.shared.name;
        match &end {
            Some((why, true)) => log::error!("{name}: {why}"),
            Some((why, false)) => log::info!("{name}: {why}"),
            None => log::debug!("{name}: closed"),
        }
        let mut status = lock(&self.shared.status);
        status.broken = end.as_ref().is_some_and(|(_, broken)| *broken);
        (status.state, status.reason) = (SinkState::Ended, end.map(|(why, _)| why));
        drop(status);
        self.shared.ended.notify_all();
    }

    fn next(&self) -> Work {
        match self.shared.queue.pop(Sinks::CHORES) {
            Some(result) => Work::Result(result),
            None if self.shared.queue.is_over() => Work::Close,
            None => Work::Chores,
        }
    }

    /// Runs a call of the sink with its panics caught.
    fn call<T>(&mut self, call: impl FnOnce(&mut dyn Sink) -> Result<T>) -> Result<T> {
        self.shared.called.store(monotonic().as_nanos() as u64, Ordering::Relaxed);
        let done = catch_unwind(AssertUnwindSafe(|| call(self.sink.as_mut())));
        self.shared.called.store(0, Ordering::Relaxed);
        if done.is_ok() {
            self.shared.lost.store(self.sink.lost(), Ordering::Relaxed);
        }
        done.unwrap_or_else(|cause| {
            let text = describe(cause.as_ref());
            Err(Error::new(ErrorKind::Bug, format!("the sink's code failed ({text}): please report it")))
        })
    }

    /// Returns why the sink is over, if it is, and whether that is an error.
    fn accept(&mut self, result: &FrameResult) -> Option<(String, bool)> {
        match self.call(|s| s.accept(result)) {
            Ok(flow) => {
                self.shared.taken.fetch_add(1, Ordering::Relaxed);
                self.worked();
                (flow == Flow::Done).then(|| ("nobody wants more".to_owned(), false))
            }
            Err(e) => {
                self.shared.failed.fetch_add(1, Ordering::Relaxed);
                self.failed(&e)
            }
        }
    }

    fn idle(&mut self) -> Option<(String, bool)> {
        match self.call(|s| s.idle()) {
            Ok(()) => None,
            Err(e) => self.failed(&e),
        }
    }

    fn worked(&self) {
        // Only this thread changes the state of a running sink.
        if lock(&self.shared.status).state != SinkState::Working {
            self.shared.set(SinkState::Working, None);
        }
    }

    fn failed(&self, e: &Error) -> Option<(String, bool)> {
        if e.kind().is_permanent() || e.kind() == ErrorKind::Bug {
            return Some((e.to_string(), true));
        }
        self.shared.set(SinkState::Failing, Some(e.to_string()));
        None
    }
}

pub(crate) fn describe(cause: &(dyn Any + Send)) -> &str {
    cause
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| cause.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A sink that does for each result what it is told through a channel, and tells what it was given.
    struct Told {
        todo: Receiver<Do>,
        told: Sender<String>,
    }

    enum Do {
        Take,
        Break,
        Fail(ErrorKind),
        Panic,
    }

    impl Sink for Told {
        fn name(&self) -> &str {
            "told"
        }
        fn accept(&mut self, result: &FrameResult) -> Result<Flow> {
            self.told.send(format!("got {}", result.frame)).unwrap();
            match self.todo.recv().unwrap_or(Do::Take) {
                Do::Take => Ok(Flow::More),
                Do::Break => Ok(Flow::Done),
                Do::Fail(kind) => Err(Error::new(kind, "it failed")),
                Do::Panic => panic!("on purpose"),
            }
        }
        fn close(&mut self) -> Result<()> {
            self.told.send("closed".into()).unwrap();
            Ok(())
        }
    }

    fn told(plan: SinkPlan) -> (Sinks, Sender<Do>, Receiver<String>) {
        let ((todo, todo_end), (told_end, told)) = (channel(), channel());
        let sink = Told { todo: todo_end, told: told_end };
        (Sinks::start(vec![(Box::new(sink), plan)]).unwrap(), todo, told)
    }

    fn result(frame: u64) -> Arc<FrameResult> {
        Arc::new(FrameResult { frame, ..FrameResult::default() })
    }

    fn wait_for(what: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !what() {
            assert!(Instant::now() < end, "it never happened");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_hanging_sink_drops_its_oldest_results_and_holds_up_nobody() {
        let (sinks, todo, told) = told(SinkPlan { queue: 3, keep: Keep::Latest });
        sinks.send(&result(0));
        assert_eq!(told.recv().unwrap(), "got 0");
        // It hangs in the first one; the others come and go.
        for i in 1..=10 {
            sinks.send(&result(i));
        }
        let r = sinks.reports().remove(0);
        assert_eq!((r.dropped, r.waiting, r.taken), (7, 3, 0));
        for _ in 0..4 {
            todo.send(Do::Take).unwrap();
        }
        assert_eq!([told.recv().unwrap(), told.recv().unwrap()], ["got 8", "got 9"]);
        assert!(sinks.close(Duration::from_secs(60)).is_empty());
        assert_eq!(told.iter().collect::<Vec<_>>(), ["got 10", "closed"]);
        let r = sinks.reports().remove(0);
        assert_eq!((r.taken, r.dropped, r.state, r.broken), (4, 7, SinkState::Ended, false));
        // Sending to what is closed is nothing.
        sinks.send(&result(11));
        assert_eq!(sinks.reports()[0].waiting, 0);
    }

    #[test]
    fn closing_leaves_a_hanging_sink_behind() {
        let (sinks, todo, told) = told(SinkPlan { queue: 3, keep: Keep::Latest });
        let held = result(0);
        sinks.send(&held);
        assert_eq!(told.recv().unwrap(), "got 0");
        sinks.send(&result(1));
        assert_eq!(sinks.close(Duration::from_millis(20)), ["told"]);
        assert_eq!(sinks.reports()[0].dropped, 1);
        drop((todo, sinks));
        // It goes on by itself later and lets go.
        assert_eq!(told.recv().unwrap(), "closed");
        wait_for(|| Arc::strong_count(&held) == 1);
    }

    #[test]
    fn errors_are_counted_and_only_permanent_ones_end_a_sink() {
        let (sinks, todo, told) = told(SinkPlan::default());
        todo.send(Do::Fail(ErrorKind::Io)).unwrap();
        sinks.send(&result(0));
        wait_for(|| sinks.reports()[0].state == SinkState::Failing);
        assert_eq!(sinks.reports()[0].reason.as_deref(), Some("it failed"));
        todo.send(Do::Take).unwrap();
        sinks.send(&result(1));
        wait_for(|| sinks.reports()[0].state == SinkState::Working);
        assert_eq!((sinks.reports()[0].reason.clone(), sinks.all_ended()), (None, false));
        todo.send(Do::Fail(ErrorKind::Unsupported)).unwrap();
        sinks.send(&result(2));
        wait_for(|| sinks.all_ended());
        let r = sinks.reports().remove(0);
        assert_eq!((r.taken, r.failed, r.broken), (1, 2, true));
        assert_eq!(told.iter().collect::<Vec<_>>(), ["got 0", "got 1", "got 2", "closed"]);
    }

    #[test]
    fn what_a_sink_lost_later_is_reported() {
        struct Forgets(u64);
        impl Sink for Forgets {
            fn name(&self) -> &str {
                "forgets"
            }
            fn accept(&mut self, _: &FrameResult) -> Result<Flow> {
                self.0 += 1;
                Ok(Flow::More)
            }
            fn lost(&self) -> u64 {
                self.0 / 2
            }
            fn close(&mut self) -> Result<()> {
                self.0 *= 2;
                Ok(())
            }
        }
        let sinks = Sinks::start(vec![(Box::new(Forgets(0)) as Box<dyn Sink>, SinkPlan::default())]).unwrap();
        (0..4).for_each(|i| sinks.send(&result(i)));
        wait_for(|| sinks.reports()[0].lost == 2);
        assert!(sinks.close(Duration::from_secs(60)).is_empty());
        assert_eq!((sinks.reports()[0].taken, sinks.reports()[0].lost), (4, 4));
    }

    #[test]
    fn panics_end_only_the_sink() {
        let (sinks, todo, _told) = told(SinkPlan::default());
        todo.send(Do::Panic).unwrap();
        sinks.send(&result(0));
        wait_for(|| sinks.all_ended());
        let r = sinks.reports().remove(0);
        assert!(r.broken && r.reason.as_deref().unwrap().contains("on purpose"), "{r:?}");
    }

    #[test]
    fn a_sink_whose_reader_went_away_ends_without_an_error() {
        let (sinks, todo, _told) = told(SinkPlan::default());
        todo.send(Do::Break).unwrap();
        sinks.send(&result(0));
        wait_for(|| sinks.all_ended());
        assert!(!sinks.reports()[0].broken);
    }

    #[test]
    fn keeping_all_waits_for_the_sink() {
        let (sinks, todo, told) = told(SinkPlan { queue: 1, keep: Keep::All });
        std::thread::scope(|s| {
            s.spawn(|| (0..20).for_each(|i| sinks.send(&result(i))));
            for i in 0..20 {
                assert_eq!(told.recv().unwrap(), format!("got {i}"));
                todo.send(Do::Take).unwrap();
            }
        });
        assert_eq!(sinks.reports()[0].dropped, 0);
    }
}
