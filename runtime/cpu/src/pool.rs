//! A small thread pool for kernels: one parallel loop at a time, no allocation per loop.
//!
//! Invariants (the reason this file may use `unsafe`):
//! * `Shared::job` is written only by the holder of `Pool::gate` while `state` is closed and no worker is inside, and
//!   read only by workers that entered while it was open;
//! * the caller of [`Pool::run`] does not return before it has closed the job and every worker has left, so the borrowed
//!   closure outlives every use of it.

use crate::{Error, ErrorKind, Result};
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};

/// The loop body: task index and worker index (0 is the caller; below [`Pool::threads`]).
type Body<'a> = dyn Fn(usize, usize) + Sync + 'a;

#[derive(Clone, Copy)]
struct Job {
    body: *const Body<'static>,
    tasks: usize,
    chunk: usize,
}

/// Set in `Shared::state` while workers may enter; the other bits count the workers inside.
const OPEN: u32 = 1 << 31;
/// Spins (each a pause instruction) a worker waits for the next job before it sleeps: from, to.
const SPINS: (u32, u32) = (64, 4096);

#[repr(align(128))] // two cache lines: the adjacent-line prefetcher pairs them
struct Padded<T>(T);

struct Shared {
    job: UnsafeCell<Job>,
    state: Padded<AtomicU32>,
    /// Grows by one with each job, so that a worker knows whether it has seen it.
    epoch: Padded<AtomicU32>,
    /// Next task to claim.
    next: Padded<AtomicUsize>,
    panicked: AtomicBool,
    stop: AtomicBool,
    /// Which workers sleep; index 0 is worker 1.
    asleep: Vec<AtomicBool>,
}

// SAFETY: `job` follows the protocol in the module's invariants; the body it points to is Sync.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer is only used between the caller's open and close.
unsafe impl Send for Shared {}

thread_local! {
    /// Whether this thread is inside a pool's loop: nested loops run in place.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Threads that run one parallel loop at a time; the caller takes part.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<(Thread, Option<JoinHandle<()>>)>,
    gate: Mutex<()>,
}

impl Pool {
    /// A pool of `threads` threads, the caller's among them (so 1 starts none). Errors if `threads` is 0 or the operating
    /// system refuses a thread.
    pub fn new(threads: usize) -> Result<Self> {
        if !(1..=1024).contains(&threads) {
            return Err(Error::new(
                ErrorKind::Config,
                format!("{threads} threads asked for, 1 to 1024 expected"),
            ));
        }
        fn idle(_: usize, _: usize) {}
        let shared = Arc::new(Shared {
            job: UnsafeCell::new(Job { body: &idle as &Body<'static>, tasks: 0, chunk: 1 }),
            state: Padded(AtomicU32::new(0)),
            epoch: Padded(AtomicU32::new(0)),
            next: Padded(AtomicUsize::new(0)),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            asleep: (1..threads).map(|_| AtomicBool::new(false)).collect(),
        });
        let mut pool = Pool { shared, workers: Vec::with_capacity(threads - 1), gate: Mutex::new(()) };
        for worker in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let handle = std::thread::Builder::new()
                .name(format!("saltica-{worker}"))
                .spawn(move || shared.work(worker))
                .map_err(|e| Error::new(ErrorKind::Resource, format!("thread {worker} of {threads}: {e}")))?;
            pool.workers.push((handle.thread().clone(), Some(handle)));
        }
        Ok(pool)
    }

    /// Threads this process may run at once: affinity and cgroup quota count.
    pub fn default_threads() -> usize {
        std::thread::available_parallelism().map_or(1, |n| n.get())
    }

    /// Number of threads, the caller's among them.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `body(task, worker)` once for every task in `0..tasks`, on any thread, in any order, and returns when all are
    /// done. `worker` is below [`Self::threads`] and never used by two calls at once. Errors if a task panicked; the others
    /// may then not have run. A loop inside a loop runs on the calling thread.
    pub fn run(&self, tasks: usize, body: &Body<'_>) -> Result<()> {
        if self.workers.is_empty() || tasks <= 1 || INSIDE.get() {
            return alone(tasks, body);
        }
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = &*self.shared;
        let chunk = (tasks / (self.threads() * 8)).max(1);
        // SAFETY: lengthens the closure's lifetime; this function leaves only after `close` has seen every worker out.
        let body: &Body<'static> = unsafe { std::mem::transmute::<&Body<'_>, &Body<'static>>(body) };
        // SAFETY: the gate is ours, the job closed and nobody inside (both since the last close).
        unsafe { *shared.job.get() = Job { body, tasks, chunk } };
        shared.panicked.store(false, Ordering::Relaxed);
        shared.next.0.store(0, Ordering::Relaxed);
        shared.state.0.fetch_or(OPEN, Ordering::Release);
        shared.epoch.0.fetch_add(1, Ordering::SeqCst);
        for ((thread, _), asleep) in self.workers.iter().zip(&shared.asleep) {
            if asleep.load(Ordering::SeqCst) && asleep.swap(false, Ordering::SeqCst) {
                thread.unpark();
            }
        }
        INSIDE.set(true);
        shared.claim(body, tasks, chunk, 0);
        INSIDE.set(false);
        shared.close();
        if shared.panicked.load(Ordering::Relaxed) { Err(task_panicked()) } else { Ok(()) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.epoch.0.fetch_add(1, Ordering::SeqCst);
        for (thread, handle) in &mut self.workers {
            thread.unpark();
            if let Some(handle) = handle.take() {
                // A worker's own panic is caught inside; nothing is left to report here.
                let _ = handle.join();
            }
        }
    }
}

/// The loop on this thread alone.
fn alone(tasks: usize, body: &Body<'_>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(|| (0..tasks).for_each(|t| body(t, 0)))).map_err(|_| task_panicked())
}

fn task_panicked() -> Error {
    Error::new(
        ErrorKind::Panicked,
        "a kernel task panicked (this is a bug; the panic's message is on stderr)",
    )
}

impl Shared {
    /// Runs tasks until none is left. After a panic the rest is skipped.
    fn claim(&self, body: &Body<'_>, tasks: usize, chunk: usize, worker: usize) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let from = self.next.0.fetch_add(chunk, Ordering::Relaxed);
                if from >= tasks {
                    break;
                }
                (from..tasks.min(from + chunk)).for_each(|t| body(t, worker));
            }
        }));
        if outcome.is_err() {
            self.panicked.store(true, Ordering::Relaxed);
            self.next.0.store(tasks, Ordering::Relaxed);
        }
    }

    /// Lets no more workers in and waits until those inside have left.
    fn close(&self) {
        self.state.0.fetch_and(!OPEN, Ordering::AcqRel);
        let mut spins = 0u32;
        while self.state.0.load(Ordering::Acquire) != 0 {
            spins += 1;
            if spins < SPINS.1 {
                std::hint::spin_loop();
            } else {
                // More threads than cores: let the one that is late run.
                std::thread::yield_now();
            }
        }
    }

    fn work(&self, worker: usize) {
        INSIDE.set(true);
        let asleep = &self.asleep[worker - 1];
        let (mut seen, mut limit) = (0u32, SPINS.1);
        loop {
            let mut spins = 0;
            while self.epoch.0.load(Ordering::SeqCst) == seen {
                if spins < limit {
                    spins += 1;
                    std::hint::spin_loop();
                    continue;
                }
                // Waiting longer was in vain, so wait less next time.
                limit = (limit / 2).max(SPINS.0);
                asleep.store(true, Ordering::SeqCst);
                // The flag goes up before this look, the caller's epoch before its look at the flag: one sees the other.
                if self.epoch.0.load(Ordering::SeqCst) == seen {
                    std::thread::park();
                }
                asleep.store(false, Ordering::SeqCst);
                spins = 0;
            }
            if spins > 0 {
                limit = (limit * 2).min(SPINS.1);
            }
            seen = self.epoch.0.load(Ordering::SeqCst);
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            if self.state.0.fetch_add(1, Ordering::AcqRel) & OPEN != 0 {
                // SAFETY: entered while open, so the job is written and stays until we leave.
                let Job { body, tasks, chunk } = unsafe { *self.job.get() };
                // SAFETY: as above; the caller keeps the closure alive until we leave.
                self.claim(unsafe { &*body }, tasks, chunk, worker);
            }
            self.state.0.fetch_sub(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once_whatever_the_thread_count() {
        for threads in 1..=5 {
            let pool = Pool::new(threads).unwrap();
            for tasks in [0usize, 1, 2, 3, 7, 64, 1000] {
                for _ in 0..20 {
                    let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                    pool.run(tasks, &|t, w| {
                        assert!(w < threads);
                        counts[t].fetch_add(1, Ordering::Relaxed);
                    })
                    .unwrap();
                    assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1), "{threads} x {tasks}");
                }
            }
        }
    }

    #[test]
    fn a_panic_is_an_error_and_the_pool_lives_on() {
        let pool = Pool::new(3).unwrap();
        for bad in [0, 17, 99] {
            let e = pool.run(100, &|t, _| assert_ne!(t, bad, "planned")).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Panicked);
            let sum = AtomicUsize::new(0);
            pool.run(100, &|t, _| _ = sum.fetch_add(t, Ordering::Relaxed)).unwrap();
            assert_eq!(sum.into_inner(), 4950);
        }
    }

    #[test]
    fn several_callers_and_nested_loops() {
        let pool = Pool::new(3).unwrap();
        let sum = AtomicUsize::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..50 {
                        pool.run(10, &|_, _| {
                            pool.run(5, &|t, _| _ = sum.fetch_add(t, Ordering::Relaxed)).unwrap();
                        })
                        .unwrap();
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 4 * 50 * 10 * 10);
    }

    #[test]
    fn sleeping_workers_wake_up() {
        let pool = Pool::new(2).unwrap();
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            // Two tasks that wait for each other need two threads.
            let met = AtomicUsize::new(0);
            pool.run(2, &|_, _| {
                met.fetch_add(1, Ordering::SeqCst);
                while met.load(Ordering::SeqCst) < 2 {
                    std::thread::yield_now();
                }
            })
            .unwrap();
        }
    }

    #[test]
    fn thread_counts_are_checked() {
        assert_eq!(Pool::new(0).err().unwrap().kind(), ErrorKind::Config);
        assert!(Pool::default_threads() >= 1);
    }
}
