//! A bounded queue between threads whose room is allocated once. (The standard library's channels allocate as they go.)

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::frame::lock;
use crate::ring::{Keep, Pushed};

/// The queue. What does not fit is handed back, never dropped in silence.
#[derive(Debug)]
pub(crate) struct Lane<T> {
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
    pub(crate) fn new(room: usize) -> Lane<T> {
        let room = room.max(1);
        let inner = Mutex::new(Inner { items: VecDeque::with_capacity(room), closed: false });
        Lane { inner, changed: Condvar::new(), room }
    }

    /// Puts `item` in. Where there is no room, in place of the oldest ([`Keep::Latest`]), or when there is some, waiting at most
    /// `wait` for it ([`Keep::All`]).
    pub(crate) fn push(&self, item: T, keep: Keep, wait: Duration) -> Pushed<T> {
        let mut inner = lock(&self.inner);
        if inner.items.len() >= self.room && keep == Keep::All {
            let full = |inner: &Inner<T>| inner.items.len() >= self.room && !inner.closed;
            inner = self.wait_while(inner, wait, full);
            if full(&inner) {
                return Pushed::Full(item);
            }
        }
        if inner.closed {
            return Pushed::Closed(item);
        }
        let oldest = if inner.items.len() >= self.room { inner.items.pop_front() } else { None };
        inner.items.push_back(item);
        drop(inner);
        self.changed.notify_all();
        oldest.map_or(Pushed::Kept, Pushed::Replaced)
    }

    /// Puts `item` in, at once. An error is the item: there is no room, or the lane is closed.
    pub(crate) fn try_push(&self, item: T) -> Result<(), T> {
        match self.push(item, Keep::All, Duration::ZERO) {
            Pushed::Kept | Pushed::Replaced(_) => Ok(()),
            Pushed::Full(item) | Pushed::Closed(item) => Err(item),
        }
    }

    /// The oldest item; waits at most `wait` for one. None when none came, or the lane is closed and empty.
    pub(crate) fn pop(&self, wait: Duration) -> Option<T> {
        let inner = lock(&self.inner);
        let mut inner = self.wait_while(inner, wait, |inner| inner.items.is_empty() && !inner.closed);
        let item = inner.items.pop_front();
        drop(inner);
        if item.is_some() {
            self.changed.notify_all();
        }
        item
    }

    fn wait_while<'a>(
        &self,
        mut inner: MutexGuard<'a, Inner<T>>,
        wait: Duration,
        is: impl Fn(&Inner<T>) -> bool,
    ) -> MutexGuard<'a, Inner<T>> {
        // Not asked for the time where nothing is waited for.
        if wait.is_zero() || !is(&inner) {
            return inner;
        }
        let deadline = Instant::now() + wait;
        while is(&inner) {
            let left = deadline.checked_duration_since(Instant::now()).filter(|d| !d.is_zero());
            let Some(left) = left else { break };
            inner = self.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        inner
    }

    /// Asks something of the oldest item.
    pub(crate) fn oldest<R>(&self, ask: impl FnOnce(&T) -> R) -> Option<R> {
        lock(&self.inner).items.front().map(ask)
    }

    /// Items that wait.
    pub(crate) fn len(&self) -> usize {
        lock(&self.inner).items.len()
    }

    /// Most items that may wait.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Takes nothing more; what waits can still be taken out.
    pub(crate) fn close(&self) {
        lock(&self.inner).closed = true;
        self.changed.notify_all();
    }

    /// Whether it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.inner).closed
    }

    /// Whether it is closed and empty: nothing will come any more.
    pub(crate) fn is_over(&self) -> bool {
        let inner = lock(&self.inner);
        inner.closed && inner.items.is_empty()
    }

    /// Lets go of what waits. Returns how many.
    pub(crate) fn clear(&self) -> usize {
        let mut dropped = 0;
        // One by one, so that nothing is let go of under the lock.
        while let Some(item) = self.pop(Duration::ZERO) {
            drop(item);
            dropped += 1;
        }
        dropped
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
        assert!(matches!(lane.push(6, Keep::All, Duration::from_millis(1)), Pushed::Full(6)));
        assert!(matches!(lane.push(7, Keep::Latest, Duration::ZERO), Pushed::Replaced(2)));
        lane.close();
        assert_eq!(lane.try_push(5), Err(5));
        assert!(matches!(lane.push(5, Keep::Latest, Duration::ZERO), Pushed::Closed(5)));
        assert!(!lane.is_over());
        assert_eq!([lane.pop(Duration::ZERO), lane.pop(Duration::ZERO)], [Some(4), Some(7)]);
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
