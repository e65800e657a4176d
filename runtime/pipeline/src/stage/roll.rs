//! Which stages run, and which one failed.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::frame::lock;
use crate::sink::describe;
use crate::{Error, ErrorKind, Result};

/// A stage whose thread ended before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which.
    pub stage: String,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stage {} failed: {}", self.stage, self.reason)
    }
}

/// A stage's loop.
pub(super) trait Stage: Send + 'static {
    /// Works until nothing more will come.
    fn run(&mut self);

    /// Runs after that, also when it panicked: closes its lanes and counts what it held.
    fn end(&mut self);
}

/// The threads of all stages.
#[derive(Debug, Default)]
pub(super) struct Roll {
    threads: Mutex<Threads>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Threads {
    running: Vec<&'static str>,
    failed: Option<Failure>,
}

impl Roll {
    /// Starts a thread that is on the roll until it ends, in whatever way; `failed` is called if that is a panic.
    pub(super) fn start(
        self: &Arc<Self>,
        name: &'static str,
        mut stage: impl Stage,
        failed: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        let roll = Arc::clone(self);
        let run = move || {
            let caught = |part: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(part)).err();
            let cause = caught(&mut || stage.run());
            if let Some(cause) = &cause {
                let reason =
                    format!("{}: a mistake of the program, please report it", describe(cause.as_ref()));
                let failure = Failure { stage: name.to_owned(), reason };
                log::error!("{failure}");
                // The first one; others may follow from it.
                lock(&roll.threads).failed.get_or_insert(failure);
                failed();
            }
            drop(caught(&mut || stage.end()));
            // What the stage holds is let go before it counts as ended.
            drop(catch_unwind(AssertUnwindSafe(|| drop(stage))));
            lock(&roll.threads).running.retain(|n| *n != name);
            roll.changed.notify_all();
        };
        lock(&self.threads).running.push(name);
        std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop).map_err(|e| {
            lock(&self.threads).running.retain(|n| *n != name);
            Error::new(ErrorKind::Io, format!("no thread for stage {name}: {e}"))
        })
    }

    /// Waits until all have ended, at most until `deadline`; names of those that have not.
    pub(super) fn wait(&self, deadline: Instant) -> Vec<&'static str> {
        let mut threads = lock(&self.threads);
        loop {
            let left = deadline.checked_duration_since(Instant::now()).filter(|d| !d.is_zero());
            match left {
                Some(left) if !threads.running.is_empty() => {
                    threads =
                        self.changed.wait_timeout(threads, left).unwrap_or_else(PoisonError::into_inner).0;
                }
                _ => return threads.running.clone(),
            }
        }
    }

    /// Whether a stage's thread runs.
    pub(super) fn runs(&self, name: &str) -> bool {
        lock(&self.threads).running.contains(&name)
    }

    /// The stage that failed first.
    pub(super) fn failure(&self) -> Option<Failure> {
        lock(&self.threads).failed.clone()
    }
}
