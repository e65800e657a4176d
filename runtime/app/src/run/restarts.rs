//! A budget of restarts: what dies again and again is not mended by restarting it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How often the pipeline was rebuilt.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    lately: VecDeque<Instant>,
    /// Since the program began.
    pub(super) all: u64,
}

impl Restarts {
    /// Whether there may be another one: at most `most` within any `window`.
    pub(super) fn take(&mut self, now: Instant, most: usize, window: Duration) -> bool {
        self.lately.retain(|at| now.saturating_duration_since(*at) <= window);
        if self.lately.len() >= most {
            return false;
        }
        self.lately.push_back(now);
        self.all += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_have_a_budget_that_comes_back() {
        let (start, minute) = (Instant::now(), Duration::from_secs(60));
        let at = |minutes: u32| start + minute * minutes;
        let mut restarts = Restarts::default();
        let mut take = |minutes| restarts.take(at(minutes), 3, minute * 10);
        assert_eq!([0, 4, 8, 9, 10].map(&mut take), [true, true, true, false, false]);
        // The first one is more than ten minutes ago.
        assert_eq!([11, 12, 15].map(&mut take), [true, false, true]);
        assert_eq!(restarts.all, 5);
        assert!(!Restarts::default().take(start, 0, minute));
    }
}
