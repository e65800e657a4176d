//! How long the model takes for each number of frames, as measured.
//!
//! Measured once when the model is loaded, then corrected by every run. A run says two things: how fast the device is now
//! (clocks, heat, other work), which holds for every size, and how this size differs from the first measurement. The first
//! is the median of the last ratios of measured to expected time, so that less than half of them being outliers changes
//! nothing; the second moves slowly and within bounds.

use std::time::Duration;

use crate::{Error, ErrorKind, Result};

/// The largest batch that is ever planned.
pub const MAX_BATCH: usize = 64;
/// Ratios remembered.
const WINDOW: usize = 31;
/// Which of the sorted ratios stands for a slow run: two slower ones are outliers.
const SLOW: usize = WINDOW - 3;
/// A size is worth its larger batches only if they raise the rate by more than this part.
const GAIN: f64 = 0.0025;

/// Run times of one model on one device, in nanoseconds, by number of frames.
#[derive(Clone, Debug)]
pub struct RunTimes {
    most: usize,
    /// Frames that the model really runs for each number of frames: models of fixed sizes are padded.
    padded: [u8; MAX_BATCH + 1],
    /// First measurement.
    base: [f64; MAX_BATCH + 1],
    /// Correction by size.
    own: [f64; MAX_BATCH + 1],
    ratios: [f64; WINDOW],
    seen: usize,
    times: [u64; MAX_BATCH + 1],
}

impl RunTimes {
    /// Run times from a first measurement: `(frames, time)` at the sizes that were measured, at least one. `sizes` are
    /// those the model can run; none for a model that runs any size up to `most`.
    pub fn new(sizes: &[usize], most: usize, measured: &[(usize, Duration)]) -> Result<RunTimes> {
        let bad = |what: String| Err(Error::new(ErrorKind::Value, what));
        let most = sizes.iter().copied().max().unwrap_or(most);
        if most == 0 || most > MAX_BATCH {
            return bad(format!("a largest batch of {most}: 1 to {MAX_BATCH} expected"));
        }
        if sizes.contains(&0) {
            return bad("a batch of 0 frames among the model's sizes: 1 or more expected".into());
        }
        let mut points: Vec<(usize, f64)> =
            measured.iter().map(|&(b, t)| (b, t.as_nanos().max(1) as f64)).collect();
        points.sort_by_key(|p| p.0);
        points.dedup_by_key(|p| p.0);
        if points.is_empty() || points[0].0 == 0 {
            return bad(
                "no run time was measured: the time of one batch of 1 or more frames is needed".into()
            );
        }
        let mut curve = RunTimes {
            most,
            padded: [0; MAX_BATCH + 1],
            base: [0.0; MAX_BATCH + 1],
            own: [1.0; MAX_BATCH + 1],
            ratios: [1.0; WINDOW],
            seen: 0,
            times: [0; MAX_BATCH + 1],
        };
        for b in 1..=most {
            let runs = sizes.iter().copied().filter(|&s| s >= b).min().unwrap_or(b);
            curve.padded[b] = runs as u8;
            curve.base[b] = between(&points, runs);
        }
        curve.settle();
        Ok(curve)
    }

    /// The largest batch the model can run.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Nanoseconds that a run of `b` frames is expected to take at most, but for outliers; 0 for no frame.
    pub fn nanos(&self, b: usize) -> u64 {
        self.times[b.min(self.most)]
    }

    /// [`Self::nanos`] by number of frames, from 0 to [`Self::most`].
    pub fn table(&self) -> &[u64] {
        &self.times[..=self.most]
    }

    /// A run of `b` frames took `took`.
    pub fn observe(&mut self, b: usize, took: Duration) {
        if b == 0 || b > self.most {
            return;
        }
        let ratio = (took.as_nanos().max(1) as f64 / self.base[b]).clamp(1e-3, 1e3);
        self.ratios[self.seen % WINDOW] = ratio;
        self.seen += 1;
        let sorted = self.sorted();
        let own = (ratio / sorted[WINDOW / 2]).clamp(0.5, 2.0);
        for other in 1..=self.most {
            if self.padded[other] == self.padded[b] {
                self.own[other] += 0.1 * (own - self.own[other]);
            }
        }
        self.settle();
    }

    /// The size from which larger batches no longer raise the rate `b / t(b)`, `limit` at most.
    pub fn knee(&self, limit: usize) -> usize {
        let limit = limit.clamp(1, self.most);
        let rate = |b: usize| b as f64 / self.times[b] as f64;
        let top = (1..=limit).map(rate).fold(0.0, f64::max);
        (1..=limit).find(|&b| rate(b) >= top * (1.0 - GAIN)).unwrap_or(1)
    }

    /// Frames a second that can be answered for long when `arriving` frames a second come and each is due `objective`
    /// after its capture, with batches up to `limit`. A batch of `b` needs `b` frames that are no older than the objective
    /// less its run time.
    pub fn sustained(&self, arriving: f64, objective: Duration, limit: usize) -> f64 {
        let span = objective.as_nanos() as f64 / 1e9;
        let mut best = 1e9 / self.times[1] as f64;
        for b in 2..=limit.min(self.most) {
            let run = self.times[b] as f64 / 1e9;
            if b as f64 <= arriving * (span - run) {
                best = best.max(b as f64 / run);
            }
        }
        best
    }

    fn sorted(&self) -> [f64; WINDOW] {
        let mut sorted = self.ratios;
        if self.seen < WINDOW {
            // Until the window is full, the oldest places repeat what is known.
            let known = self.seen.max(1);
            for k in self.seen..WINDOW {
                sorted[k] = self.ratios[k % known];
            }
        }
        sorted.sort_unstable_by(f64::total_cmp);
        sorted
    }

    /// Makes the table anew; a larger batch never takes less time.
    fn settle(&mut self) {
        let sorted = self.sorted();
        let slow = sorted[SLOW].min(sorted[WINDOW / 2] * 1.5);
        let mut longest = 0;
        for b in 1..=self.most {
            longest = longest.max((self.base[b] * self.own[b] * slow).ceil() as u64);
            self.times[b] = longest;
        }
    }
}

/// The line through the measured points, continued in proportion beyond the last and level before the first.
fn between(points: &[(usize, f64)], b: usize) -> f64 {
    let above = points.iter().position(|p| p.0 >= b);
    match above {
        Some(0) => points[0].1,
        Some(k) => {
            let ((x0, y0), (x1, y1)) = (points[k - 1], points[k]);
            y0 + (y1 - y0) * (b - x0) as f64 / (x1 - x0) as f64
        }
        None => {
            let (x, y) = points[points.len() - 1];
            y * b as f64 / x as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(t: f64) -> Duration {
        Duration::from_secs_f64(t / 1e3)
    }

    fn orin() -> RunTimes {
        let points = [(1, 1.82), (2, 2.91), (4, 4.99), (8, 9.19), (16, 16.87)].map(|(b, t)| (b, ms(t)));
        RunTimes::new(&[], 16, &points).unwrap()
    }

    #[test]
    fn lines_between_what_was_measured() {
        let curve = orin();
        assert_eq!(curve.nanos(1), 1_820_000);
        assert_eq!(curve.nanos(3), 3_950_000);
        assert_eq!(curve.nanos(16), 16_870_000);
        assert_eq!(curve.nanos(12), 13_030_000);
        // 16 frames: 948 frames a second, 15: 944 (0.4 % less).
        assert_eq!(curve.knee(64), 16);
        assert_eq!(curve.knee(4), 4);
    }

    #[test]
    fn batches_that_gain_nothing_are_not_made() {
        let flat: Vec<_> = (1..=8).map(|b| (b, ms(20.0 * b as f64))).collect();
        assert_eq!(RunTimes::new(&[], 8, &flat).unwrap().knee(8), 1);
    }

    #[test]
    fn fixed_sizes_are_padded() {
        let curve = RunTimes::new(&[1, 4], 0, &[(1, ms(2.0)), (4, ms(4.0))]).unwrap();
        assert_eq!(curve.most(), 4);
        assert_eq!(curve.table(), [0, 2_000_000, 4_000_000, 4_000_000, 4_000_000]);
    }

    #[test]
    fn outliers_change_nothing_and_a_slower_device_is_followed() {
        let mut curve = orin();
        for n in 0..200 {
            let b = [1, 4, 16][n % 3];
            let real = [1.82, 4.99, 16.87][n % 3];
            // Every twentieth run is interrupted.
            curve.observe(b, ms(if n % 20 == 7 { real * 10.0 } else { real }));
        }
        for (b, real) in [(1, 1.82), (4, 4.99), (8, 9.19), (16, 16.87)] {
            let off = curve.nanos(b) as f64 / (real * 1e6);
            assert!((0.95..1.2).contains(&off), "{b}: {off}");
        }
        for _ in 0..40 {
            curve.observe(4, ms(4.99 * 1.6));
        }
        // The size that was not run has followed.
        let off = curve.nanos(16) as f64 / (16.87e6 * 1.6);
        assert!((0.95..1.2).contains(&off), "{off}");
    }

    #[test]
    fn nothing_measured_is_an_error() {
        assert_eq!(RunTimes::new(&[], 4, &[]).unwrap_err().kind(), ErrorKind::Value);
        assert!(RunTimes::new(&[], 0, &[(1, ms(1.0))]).is_err());
        assert!(RunTimes::new(&[0], 4, &[(1, ms(1.0))]).is_err());
        assert!(RunTimes::new(&[], 65, &[(1, ms(1.0))]).is_err());
    }
}
