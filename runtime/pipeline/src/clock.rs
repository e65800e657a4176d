//! Points in time, and the clocks that tell them.
//!
//! Times are nanoseconds of `CLOCK_MONOTONIC`, the clock that camera drivers stamp frames with, so a frame's age is a
//! subtraction. What decides about time takes it from a [`Clock`] or as an argument, never from the system: under a
//! [`VirtualClock`] hours pass in milliseconds and every run is the same.

use std::fmt;
use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::frame::monotonic;

/// A point in time: nanoseconds since a clock's own zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The clock's zero.
    pub const ZERO: Time = Time(0);
    /// Later than any time a clock tells.
    pub const NEVER: Time = Time(u64::MAX);

    /// The time `nanos` nanoseconds after the clock's zero.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the clock's zero.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl From<Duration> for Time {
    /// The time `since_zero` after the clock's zero.
    fn from(since_zero: Duration) -> Time {
        Time::ZERO + since_zero
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    /// Saturates at [`Time::NEVER`].
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    /// Saturates at [`Time::ZERO`].
    fn sub(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000 / 1000)
    }
}

/// What tells the time.
pub trait Clock: Send + Sync {
    /// The present.
    fn now(&self) -> Time;

    /// Returns at `until`, or at once if that is past.
    fn sleep_until(&self, until: Time);
}

/// The system's `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Time {
        Time::ZERO + monotonic()
    }

    fn sleep_until(&self, until: Time) {
        let span = until.since(self.now());
        if !span.is_zero() {
            std::thread::sleep(span);
        }
    }
}

/// A clock that stands still until it is told to move. Sleeping moves it.
#[derive(Debug, Default)]
pub struct VirtualClock(AtomicU64);

impl VirtualClock {
    /// A clock that shows `now`.
    pub fn new(now: Time) -> VirtualClock {
        VirtualClock(AtomicU64::new(now.0))
    }

    /// Moves to `to`; never backwards.
    pub fn advance_to(&self, to: Time) {
        self.0.fetch_max(to.0, Ordering::AcqRel);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Time {
        Time(self.0.load(Ordering::Acquire))
    }

    fn sleep_until(&self, until: Time) {
        self.advance_to(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_clock_is_the_one_of_the_system() {
        let (before, std_before) = (RealClock.now(), std::time::Instant::now());
        RealClock.sleep_until(before + Duration::from_millis(20));
        let (after, std_passed) = (RealClock.now(), std_before.elapsed());
        assert!(after.since(before) >= Duration::from_millis(20));
        // Read inside the other pair's readings, or the other way about: the two differ by what lies between.
        let passed = after.since(before);
        assert!(passed.abs_diff(std_passed) < Duration::from_millis(500), "{passed:?} {std_passed:?}");
    }

    #[test]
    fn the_virtual_clock_never_goes_back() {
        let clock = VirtualClock::new(Time::from_nanos(5));
        clock.sleep_until(Time::from_nanos(50));
        clock.advance_to(Time::from_nanos(20));
        assert_eq!(clock.now(), Time::from_nanos(50));
        assert_eq!(clock.now() - Duration::from_secs(1), Time::ZERO);
        assert_eq!(Time::NEVER + Duration::from_secs(1), Time::NEVER);
        assert_eq!(Time::from_nanos(1_500_002_000).to_string(), "1.500002 s");
    }
}
