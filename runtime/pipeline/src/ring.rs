//! The few frames between a source and whoever works on them.
//!
//! Latest wins: when the ring is full the oldest frame makes room, is counted, and its buffer goes back to the driver at
//! once. With [`Keep::All`] the source waits instead (files do). Nothing is allocated after a ring is made.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::frame::{Frame, lock};
use crate::lane::Lane;

/// What happens when frames come faster than they are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The oldest waiting frame is dropped and counted.
    Latest,
    /// The source waits; nothing is dropped.
    All,
}

/// What became of something that was put into a queue, such as a frame into a ring.
#[derive(Debug)]
pub enum Pushed<T = Frame> {
    /// It waits there.
    Kept,
    /// It does, and the oldest one, which this is, made room.
    Replaced(T),
    /// There was no room within the time given ([`Keep::All`]): it is handed back.
    Full(T),
    /// The queue is closed: it is handed back.
    Closed(T),
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
    frames: Lane<Frame>,
    keep: Keep,
    pushed: AtomicU64,
    replaced: AtomicU64,
    bell: Arc<Bell>,
}

impl FrameRing {
    /// Frames a ring holds unless asked otherwise.
    pub const CAPACITY: usize = 2;

    /// A ring of `capacity` frames (1 to 64), which rings `bell` for each frame and when it closes.
    pub fn new(capacity: usize, keep: Keep, bell: Arc<Bell>) -> Arc<FrameRing> {
        let (pushed, replaced) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(FrameRing { frames: Lane::new(capacity.clamp(1, 64)), keep, pushed, replaced, bell })
    }

    /// Puts a frame in. With [`Keep::All`] waits for room, at most `wait`. One that made room is handed back, to be given back
    /// to its driver.
    pub fn push(&self, frame: Frame, wait: Duration) -> Pushed {
        let pushed = self.frames.push(frame, self.keep, wait);
        match &pushed {
            Pushed::Kept => {}
            Pushed::Replaced(_) => {
                self.replaced.fetch_add(1, Ordering::Relaxed);
            }
            Pushed::Full(_) | Pushed::Closed(_) => return pushed,
        }
        self.pushed.fetch_add(1, Ordering::Relaxed);
        self.bell.ring();
        pushed
    }

    /// The oldest waiting frame, at once.
    pub fn try_pop(&self) -> Option<Frame> {
        self.frames.pop(Duration::ZERO)
    }

    /// The oldest waiting frame; waits at most `wait` for one. None when none came or the ring is closed and empty.
    pub fn pop(&self, wait: Duration) -> Option<Frame> {
        self.frames.pop(wait)
    }

    /// When the oldest waiting frame was captured.
    pub fn oldest(&self) -> Option<Duration> {
        self.frames.oldest(|f| f.captured)
    }

    /// Waiting frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frames it holds at most.
    pub fn capacity(&self) -> usize {
        self.frames.room()
    }

    /// What happens when it is full.
    pub fn keep(&self) -> Keep {
        self.keep
    }

    /// Takes no more frames; those that wait can still be taken out.
    pub fn close(&self) {
        self.frames.close();
        self.bell.ring();
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.frames.is_closed()
    }

    /// Gives all waiting frames back without use. Returns how many.
    pub fn clear(&self) -> usize {
        self.frames.clear()
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
            assert_eq!(matches!(pushed, Pushed::Replaced(_)), id >= 2, "{id}");
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
