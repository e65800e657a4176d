//! A bounded queue between two threads whose room is allocated once. (The standard library's channels allocate as they go.)

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::frame::lock;

/// The queue. Items that do not fit are handed back, never dropped in silence.
#[derive(Debug)]
pub struct Lane<T> {
    inner: Mutex<Inner<T>>,
    changed: Condvar,
    room: usize,
}

#[derive(Debug)]
struct Inner<T> {
    items: VecDeque<T>,
    closed: bool,
}

impl<T> Lane<T> {
    /// A queue for `room` items, at least one.
    pub fn new(room: usize) -> Lane<T> {
        let room = room.max(1);
        let inner = Mutex::new(Inner { items: VecDeque::with_capacity(room), closed: false });
        Lane { inner, changed: Condvar::new(), room }
    }

    /// Puts `item` in, at once. An error is the item: there is no room, or the lane is closed.
    pub fn try_push(&self, item: T) -> Result<(), T> {
        let mut inner = lock(&self.inner);
        if inner.closed || inner.items.len() >= self.room {
            return Err(item);
        }
        inner.items.push_back(item);
        drop(inner);
        self.changed.notify_all();
        Ok(())
    }

    /// The oldest item; waits at most `wait` for one. None when none came, or the lane is closed and empty.
    pub fn pop(&self, wait: Duration) -> Option<T> {
        let deadline = Instant::now() + wait;
        let mut inner = lock(&self.inner);
        loop {
            if let Some(item) = inner.items.pop_front() {
                drop(inner);
                self.changed.notify_all();
                return Some(item);
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

    /// Items that wait.
    pub fn len(&self) -> usize {
        lock(&self.inner).items.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes nothing more; what waits can still be taken out.
    pub fn close(&self) {
        lock(&self.inner).closed = true;
        self.changed.notify_all();
    }

    /// Whether it is closed and empty: nothing will come any more.
    pub fn is_over(&self) -> bool {
        let inner = lock(&self.inner);
        inner.closed && inner.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_does_not_fit_comes_back() {
        let lane = Lane::new(2);
        assert_eq!((lane.try_push(1), lane.try_push(2), lane.try_push(3)), (Ok(()), Ok(()), Err(3)));
        assert_eq!(lane.pop(Duration::ZERO), Some(1));
        assert_eq!(lane.try_push(4), Ok(()));
        lane.close();
        assert_eq!(lane.try_push(5), Err(5));
        assert!(!lane.is_over());
        assert_eq!([lane.pop(Duration::ZERO), lane.pop(Duration::ZERO)], [Some(2), Some(4)]);
        assert!(lane.is_over());
        // Closed: nobody waits.
        assert_eq!(lane.pop(Duration::from_secs(3600)), None);
    }

    #[test]
    fn an_item_wakes_who_waits() {
        let lane = Arc::new(Lane::new(1));
        let other = Arc::clone(&lane);
        let waiting = std::thread::spawn(move || other.pop(Duration::from_secs(60)));
        lane.try_push(7).unwrap();
        assert_eq!(waiting.join().unwrap(), Some(7));
    }
}
