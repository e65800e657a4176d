//! Pictures at a rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Demand;
use crate::frame::SourceId;

/// When the next one is due, in nanoseconds of the monotonic clock; 0 before the first.
#[derive(Debug, Default)]
pub(crate) struct Due(AtomicU64);

impl Due {
    /// Whether one captured then is due, a period after the last one that was; if so, the next one is due a period later.
    pub(crate) fn is(&self, captured: Duration, period: Duration) -> bool {
        let (period, now) = (period.as_nanos() as u64, captured.as_nanos() as u64);
        let at = self.0.load(Ordering::Relaxed);
        // A clock that went back (a new camera, a file from its start) begins anew.
        if now < at && at - now <= period {
            return false;
        }
        // Keeps the rate when frames come a little late, without catching up after a pause.
        let late = at > 0 && now.checked_sub(at).is_some_and(|late| late < period);
        self.0.store(if late { at + period } else { now + period }, Ordering::Relaxed);
        true
    }
}

/// Asking for a picture and taking it are counted apart, since a result may carry a picture that another sink asked for, and
/// may be dropped on the way.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// To be asked for.
    pub(crate) asked: Due,
    /// To be taken.
    pub(crate) taken: Due,
}

/// Limits a sink's pictures: of each source the next one only when a period has passed since the last one.
#[derive(Debug)]
pub(crate) struct Paced {
    period: Duration,
    sources: Vec<Turns>,
}

impl Paced {
    /// Sources that are told apart; the ones beyond share their places.
    const SOURCES: usize = 64;

    /// At most one picture a period and source; all of them if it is zero.
    pub(crate) fn new(period: Duration) -> Arc<Paced> {
        Arc::new(Paced { period, sources: (0..Self::SOURCES).map(|_| Turns::default()).collect() })
    }

    fn turns(&self, source: SourceId) -> &Turns {
        &self.sources[source.0 as usize % Self::SOURCES]
    }

    /// Whether the sink is to take the picture of a frame captured then.
    pub(crate) fn takes(&self, source: SourceId, captured: Duration) -> bool {
        self.turns(source).taken.is(captured, self.period)
    }
}

impl Demand for Paced {
    fn wants(&self, source: SourceId, captured: Duration) -> bool {
        self.turns(source).asked.is(captured, self.period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_asked_for_at_a_rate() {
        let ms = Duration::from_millis;
        let paced = Paced::new(ms(100));
        let at: Vec<u64> =
            (0..20).map(|i| 1000 + i * 33).filter(|t| paced.wants(SourceId(1), ms(*t))).collect();
        assert_eq!(at, [1000, 1132, 1231, 1330, 1429, 1528, 1627]);
        assert!(paced.wants(SourceId(2), ms(1001)), "each source by itself");
        let all = Paced::new(Duration::ZERO);
        assert!([0, 0, 1, 1].iter().all(|t| all.wants(SourceId(0), ms(*t))));
        // A clock that goes back does not stop them.
        assert!(paced.wants(SourceId(1), ms(3)) && !paced.wants(SourceId(1), ms(40)));
        assert!(paced.wants(SourceId(1), ms(103)));
    }
}
