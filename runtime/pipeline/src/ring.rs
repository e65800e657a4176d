//! The few frames between a source and whoever works on them.
//!
//! Latest wins: when the ring is full the oldest frame makes room, is counted, and its buffer goes back to the driver at
//! once. With [`Keep::All`] the source waits instead (files do). Nothing is allocated after a ring is made.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::frame::{Frame, lock};

/// What happens when frames come faster than they are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The oldest waiting frame is dropped and counted.
    Latest,
    /// The source waits; nothing is dropped.
    All,
}

/// What a ring's [`Ring::push`](FrameRing::push) did.
#[derive(Debug)]
pub enum Pushed {
    /// The frame waits in the ring.
    Kept,
    /// It does, and the oldest one made room.
    Replaced,
    /// There was no room within the time given ([`Keep::All`]): the frame is handed back.
    Full(Frame),
    /// The ring is closed: the frame is handed back.
    Closed(Frame),
}

/// Wakes a thread that waits on several rings at once.
#[derive(Debug, Default)]
pub struct Bell {
    rung: Mutex<u64>,
    waiting: Condvar,
}

impl Bell {
    /// A bell that has never rung.
    pub fn new() -> Arc<Bell> {
        Arc::new(Bell::default())
    }

    /// Wakes whoever waits.
    pub fn ring(&self) {
        *lock(&self.rung) += 1;
        self.waiting.notify_all();
    }

    /// How often it rang; to be read before looking into the rings.
    pub fn count(&self) -> u64 {
        *lock(&self.rung)
    }

    /// Waits until it rang since `seen`, at most `wait`. Returns the new count.
    pub fn wait(&self, seen: u64, wait: Duration) -> u64 {
        let deadline = Instant::now() + wait;
        let mut rung = lock(&self.rung);
        while *rung == seen {
            let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|d| !d.is_zero()) else {
                break;
            };
            rung = self.waiting.wait_timeout(rung, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *rung
    }
}

/// A bounded queue of frames between one source's thread and its users.
#[derive(Debug)]
pub struct FrameRing {
    inner: Mutex<Inner>,
    changed: Condvar,
    capacity: usize,
    keep: Keep,
    pushed: AtomicU64,
    replaced: AtomicU64,
    bell: Arc<Bell>,
}

#[derive(Debug)]
struct Inner {
    frames: VecDeque<Frame>,
    closed: bool,
}

impl FrameRing {
    /// Frames a ring holds unless asked otherwise.
    pub const CAPACITY: usize = 2;

    /// A ring of `capacity` frames (1 to 64), which rings `bell` for each frame and when it closes.
    pub fn new(capacity: usize, keep: Keep, bell: Arc<Bell>) -> Arc<FrameRing> {
        let capacity = capacity.clamp(1, 64);
        Arc::new(FrameRing {
            inner: Mutex::new(Inner { frames: VecDeque::with_capacity(capacity), closed: false }),
            changed: Condvar::new(),
            capacity,
            keep,
            pushed: AtomicU64::new(0),
            replaced: AtomicU64::new(0),
            bell,
        })
    }

    /// Puts a frame in. With [`Keep::All`] waits for room, at most `wait`.
    pub fn push(&self, frame: Frame, wait: Duration) -> Pushed {
        let mut inner = lock(&self.inner);
        let mut old = None;
        if inner.closed {
            return Pushed::Closed(frame);
        }
        if inner.frames.len() >= self.capacity {
            match self.keep {
                Keep::Latest => old = inner.frames.pop_front(),
                Keep::All => {
                    let deadline = Instant::now() + wait;
                    while inner.frames.len() >= self.capacity && !inner.closed {
                        let left = deadline.checked_duration_since(Instant::now()).filter(|d| !d.is_zero());
                        let Some(left) = left else { return Pushed::Full(frame) };
                        inner =
                            self.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
                    }
                    if inner.closed {
                        return Pushed::Closed(frame);
                    }
                }
            }
        }
        inner.frames.push_back(frame);
        drop(inner);
        self.pushed.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_all();
        self.bell.ring();
        // Given back outside the lock: queueing a driver's buffer is a system call.
        match old.map(drop) {
            None => Pushed::Kept,
            Some(()) => {
                self.replaced.fetch_add(1, Ordering::Relaxed);
                Pushed::Replaced
            }
        }
    }

    /// The oldest waiting frame, at once.
    pub fn try_pop(&self) -> Option<Frame> {
        let frame = lock(&self.inner).frames.pop_front();
        if frame.is_some() {
            self.changed.notify_all();
        }
        frame
    }

    /// The oldest waiting frame; waits at most `wait` for one. None when none came or the ring is closed and empty.
    pub fn pop(&self, wait: Duration) -> Option<Frame> {
        let deadline = Instant::now() + wait;
        let mut inner = lock(&self.inner);
        loop {
            if let Some(frame) = inner.frames.pop_front() {
                drop(inner);
                self.changed.notify_all();
                return Some(frame);
            }
            let left = deadline.checked_duration_since(Instant::now()).filter(|d| !d.is_zero());
            match left {
                Some(left) if !inner.closed => {
                    inner = self.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
                }
                _ => return None,
            }
        }
    }

    /// When the oldest waiting frame was captured.
    pub fn oldest(&self) -> Option<Duration> {
        lock(&self.inner).frames.front().map(|f| f.captured)
    }

    /// Waiting frames.
    pub fn len(&self) -> usize {
        lock(&self.inner).frames.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frames it holds at most.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// What happens when it is full.
    pub fn keep(&self) -> Keep {
        self.keep
    }

    /// Takes no more frames; those that wait can still be taken out.
    pub fn close(&self) {
        lock(&self.inner).closed = true;
        self.changed.notify_all();
        self.bell.ring();
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        lock(&self.inner).closed
    }

    /// Gives all waiting frames back without use. Returns how many.
    pub fn clear(&self) -> usize {
        let mut dropped = 0;
        while let Some(frame) = self.try_pop() {
            drop(frame);
            dropped += 1;
        }
        dropped
    }

    /// Frames that came in so far.
    pub fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::Relaxed)
    }

    /// Frames that made room for newer ones so far.
    pub fn replaced(&self) -> u64 {
        self.replaced.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FrameFormat, Pool};
    use saltica_tensor::PixelFormat;
    use std::thread;

    fn frame(pool: &Arc<Pool>, id: u64) -> Frame {
        let format = FrameFormat::packed(PixelFormat::Gray8, 2, 2).unwrap();
        let lease = pool.take(4, Duration::ZERO).unwrap();
        let mut frame = Frame::owned(format, lease, Duration::from_millis(id)).unwrap();
        frame.id = id;
        frame
    }

    #[test]
    fn the_latest_frames_win_and_the_others_give_their_buffers_back() {
        let pool = Pool::new(8);
        let ring = FrameRing::new(2, Keep::Latest, Bell::new());
        for id in 0..5 {
            let pushed = ring.push(frame(&pool, id), Duration::ZERO);
            assert_eq!(matches!(pushed, Pushed::Replaced), id >= 2, "{id}");
        }
        assert_eq!((ring.pushed(), ring.replaced(), ring.len(), pool.out()), (5, 3, 2, 2));
        assert_eq!(ring.oldest(), Some(Duration::from_millis(3)));
        assert_eq!([ring.try_pop().unwrap().id, ring.try_pop().unwrap().id], [3, 4]);
        assert!(ring.try_pop().is_none() && ring.is_empty());
    }

    #[test]
    fn keeping_all_waits_for_room_and_closing_ends_the_wait() {
        let pool = Pool::new(8);
        let ring = FrameRing::new(1, Keep::All, Bell::new());
        assert!(matches!(ring.push(frame(&pool, 0), Duration::ZERO), Pushed::Kept));
        assert!(matches!(ring.push(frame(&pool, 1), Duration::from_millis(1)), Pushed::Full(f) if f.id == 1));
        let waiting = {
            let (ring, frame) = (Arc::clone(&ring), frame(&pool, 2));
            thread::spawn(move || ring.push(frame, Duration::from_secs(60)))
        };
        assert_eq!(ring.pop(Duration::from_secs(60)).unwrap().id, 0);
        assert!(matches!(waiting.join().unwrap(), Pushed::Kept));
        let waiting = {
            let (ring, frame) = (Arc::clone(&ring), frame(&pool, 3));
            thread::spawn(move || ring.push(frame, Duration::from_secs(60)))
        };
        ring.close();
        assert!(matches!(waiting.join().unwrap(), Pushed::Closed(f) if f.id == 3));
        // What waited is still there.
        assert_eq!(ring.pop(Duration::from_secs(60)).unwrap().id, 2);
        assert!(ring.pop(Duration::from_secs(60)).is_none());
        assert_eq!((ring.replaced(), pool.out()), (0, 0));
    }

    #[test]
    fn one_bell_serves_several_rings() {
        let (pool, bell) = (Pool::new(4), Bell::new());
        let rings = [0, 1].map(|_| FrameRing::new(2, Keep::Latest, Arc::clone(&bell)));
        let seen = bell.count();
        assert_eq!(bell.wait(seen, Duration::from_millis(1)), seen);
        let pusher = {
            let (ring, frame) = (Arc::clone(&rings[1]), frame(&pool, 7));
            thread::spawn(move || drop(ring.push(frame, Duration::ZERO)))
        };
        assert!(bell.wait(seen, Duration::from_secs(60)) > seen);
        pusher.join().unwrap();
        assert_eq!(rings[1].try_pop().unwrap().id, 7);
    }
}
