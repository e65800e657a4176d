//! How large a batch memory allows: smaller at once when memory runs short, larger again only after it has been calm.
//!
//! On boards whose CPU and GPU share memory, anything may take it: what was free at the start says little. Two signs are
//! watched: how long tasks stood still for lack of memory (pressure stall information,
//! <https://docs.kernel.org/accounting/psi.html>), and what the kernel says could be had without swapping (`MemAvailable`).

use std::time::Duration;

use crate::clock::Time;

/// An observation of the system's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryState {
    /// Part of the last ten seconds in which some task waited for memory, 0..100 (`some avg10`); 0 where unknown.
    pub stalled: f32,
    /// Bytes that can be had without swapping (`MemAvailable`).
    pub available: u64,
}

/// When to give way, and when to take back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryLimits {
    /// Stalled percentage from which batches shrink.
    pub stalled: f32,
    /// Bytes that are left to others: with less available, batches shrink.
    pub reserve: u64,
    /// Batches grow again after memory was calm for so long: stalled less than a quarter of the limit, and half as much
    /// again as the reserve available beside what the larger batch takes.
    pub calm: Duration,
}

impl Default for MemoryLimits {
    fn default() -> MemoryLimits {
        MemoryLimits { stalled: 10.0, reserve: 128 << 20, calm: Duration::from_secs(10) }
    }
}

/// The largest batch that memory allows.
#[derive(Clone, Debug)]
pub struct MemoryGovernor {
    limits: MemoryLimits,
    /// Bytes a run of `b` frames takes, by `b`.
    bytes: Vec<u64>,
    limit: usize,
    calm_since: Option<Time>,
    changed: Option<Time>,
}

impl MemoryGovernor {
    /// Starts at the largest size of which `bytes[b]`, what a run of `b` frames takes, is within `budget`; at 1 if none is.
    pub fn new(limits: MemoryLimits, bytes: &[u64], budget: u64) -> MemoryGovernor {
        let fits = (1..bytes.len()).rev().find(|&b| bytes[b] <= budget).unwrap_or(1);
        MemoryGovernor {
            limits,
            bytes: bytes.get(..=fits).unwrap_or(&[0, 0]).to_vec(),
            limit: fits,
            calm_since: None,
            changed: None,
        }
    }

    /// The largest batch allowed now.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// What the system's memory looks like at `now`; says whether the limit changed.
    pub fn observe(&mut self, now: Time, state: MemoryState) -> bool {
        let MemoryLimits { stalled, reserve, calm } = self.limits;
        let before = self.limit;
        if state.stalled >= stalled || state.available < reserve {
            self.calm_since = None;
            // The average needs time to show what the last step brought.
            let settled = self.changed.is_none_or(|t| now.since(t) >= Duration::from_secs(1));
            if settled && self.limit > 1 {
                self.limit = (self.limit / 2).max(1);
            }
        } else if state.stalled < stalled / 4.0 && self.limit + 1 < self.bytes.len() {
            let since = *self.calm_since.get_or_insert(now);
            let next = (self.limit + (self.limit / 2).max(1)).min(self.bytes.len() - 1);
            let more = self.bytes[next].saturating_sub(self.bytes[self.limit]);
            if now.since(since) >= calm && state.available >= reserve + reserve / 2 + more {
                self.limit = next;
                self.calm_since = Some(now);
            }
        } else {
            self.calm_since = None;
        }
        if self.limit != before {
            self.changed = Some(now);
        }
        self.limit != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn at(seconds: f64) -> Time {
        Time::from_nanos((seconds * 1e9) as u64)
    }

    fn governor() -> MemoryGovernor {
        let bytes: Vec<u64> = (0..=16).map(|b| b * 10 * MIB).collect();
        MemoryGovernor::new(MemoryLimits::default(), &bytes, 85 * MIB)
    }

    const CALM: MemoryState = MemoryState { stalled: 0.0, available: 1024 * MIB };
    const TIGHT: MemoryState = MemoryState { stalled: 40.0, available: 1024 * MIB };

    #[test]
    fn the_budget_bounds_the_batch() {
        assert_eq!(governor().limit(), 8);
        assert_eq!(MemoryGovernor::new(MemoryLimits::default(), &[0, 50], 10).limit(), 1);
        assert_eq!(MemoryGovernor::new(MemoryLimits::default(), &[], 10).limit(), 1);
    }

    #[test]
    fn pressure_halves_and_calm_grows_back() {
        let mut g = governor();
        assert!(g.observe(at(0.0), TIGHT));
        assert_eq!(g.limit(), 4);
        assert!(!g.observe(at(0.5), TIGHT), "the average has not settled");
        g.observe(at(1.0), TIGHT);
        g.observe(at(2.0), MemoryState { stalled: 0.0, available: 100 * MIB });
        assert_eq!(g.limit(), 1);
        let mut grown = Vec::new();
        for second in 3..120 {
            if g.observe(at(f64::from(second)), CALM) {
                grown.push((second, g.limit()));
            }
        }
        assert_eq!(grown, [(13, 2), (23, 3), (33, 4), (43, 6), (53, 8)]);
    }

    #[test]
    fn it_does_not_swing() {
        let mut g = governor();
        g.observe(at(0.0), TIGHT);
        // Neither short nor calm: nothing moves, however long.
        for second in 1..100 {
            assert!(!g.observe(at(f64::from(second)), MemoryState { stalled: 5.0, available: 1024 * MIB }));
        }
        // Calm, but the larger batch would eat into the reserve.
        for second in 100..200 {
            assert!(!g.observe(at(f64::from(second)), MemoryState { stalled: 0.0, available: 200 * MIB }));
        }
        assert_eq!(g.limit(), 4);
    }
}
