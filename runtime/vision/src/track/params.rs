//! What a tracker goes by.

use super::kalman::Noise;
use crate::{Error, ErrorKind, Result};
use std::time::Duration;

/// What a tracker goes by. All spans are times, so that a camera's frame rate and dropped frames change nothing.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TrackParams {
    /// Observations of at least this score may begin a track or bring back a lost one, 0..=1.
    pub high: f32,
    /// Observations of at least this score (and below [`Self::high`]) only carry on a track that was seen at the last
    /// update, 0..=1. Anything below is ignored.
    pub low: f32,
    /// Observations of at least this score begin a track, when no other claims them, 0..=1.
    pub begin: f32,
    /// Observations of at least this score confirm a track at once.
    pub sure: f32,
    /// Least overlap (IoU) of a track's predicted box with a high observation, 0..1.
    pub overlap: f32,
    /// Least overlap with a low observation, 0..1.
    pub overlap_low: f32,
    /// Least overlap of a track that is not confirmed yet, 0..1.
    pub overlap_tentative: f32,
    /// Before overlaps are taken, boxes grow on all sides by this many standard deviations of the predicted centre, at
    /// most by half their size: at low frame rates a small object leaves its own box between two frames.
    pub slack: f32,
    /// A track is confirmed when it is seen again this long after it was first seen (or later).
    pub confirm_after: Duration,
    /// A track that is not confirmed ends when it has not been seen for longer than this.
    pub tentative_for: Duration,
    /// A confirmed track ends when it has not been seen for longer than this.
    pub lost_for: Duration,
    /// Whether an observation may carry on a track of another class; the track then takes its class.
    pub across_classes: bool,
    /// Standard deviation of an observed coordinate, in sizes of the box (the square root of its area).
    pub noise_position: f32,
    /// How much larger that is for an observation of score 0; in proportion between.
    pub noise_doubt: f32,
    /// The time in which the velocity of a lost track fades to 37 %.
    pub coast_for: Duration,
    /// Standard deviation of the velocity of what has just been seen first, in sizes per second.
    pub noise_velocity: f32,
    /// How much a velocity wanders: standard deviation of its change over one second, in sizes per second.
    pub noise_acceleration: f32,
}

impl Default for TrackParams {
    fn default() -> Self {
        TrackParams {
            high: 0.5,
            low: 0.1,
            begin: 0.6,
            sure: 0.8,
            overlap: 0.1,
            overlap_low: 0.5,
            overlap_tentative: 0.3,
            slack: 1.0,
            confirm_after: Duration::from_millis(60),
            tentative_for: Duration::from_millis(250),
            lost_for: Duration::from_secs(4),
            across_classes: false,
            noise_position: 0.05,
            noise_doubt: 2.0,
            coast_for: Duration::from_millis(500),
            noise_velocity: 1.0,
            noise_acceleration: 1.0,
        }
    }
}

impl TrackParams {
    /// # Errors
    /// [`ErrorKind::Track`] for a value out of range, with its name.
    pub(super) fn check(&self) -> Result<()> {
        let fractions = [
            ("high", self.high, 0.0, 1.0),
            ("low", self.low, 0.0, 1.0),
            ("begin", self.begin, 0.0, 1.0),
            ("sure", self.sure, 0.0, f32::INFINITY),
            ("overlap", self.overlap, 0.0, 0.999),
            ("overlap_low", self.overlap_low, 0.0, 0.999),
            ("overlap_tentative", self.overlap_tentative, 0.0, 0.999),
            ("slack", self.slack, 0.0, 100.0),
            ("noise_position", self.noise_position, 1e-4, 10.0),
            ("noise_doubt", self.noise_doubt, 0.0, 1e3),
            ("noise_velocity", self.noise_velocity, 0.0, 1e4),
            ("noise_acceleration", self.noise_acceleration, 0.0, 1e4),
        ];
        for (name, value, lo, hi) in fractions {
            if !(lo..=hi).contains(&value) {
                return Err(Error::new(
                    ErrorKind::Track,
                    format!("{name} is {value}: give a number from {lo} to {hi}"),
                ));
            }
        }
        if self.low > self.high || self.begin < self.high {
            return Err(Error::new(
                ErrorKind::Track,
                format!(
                    "low is {}, high is {}, begin is {}: give low <= high <= begin",
                    self.low, self.high, self.begin
                ),
            ));
        }
        Ok(())
    }

    pub(super) fn noise(&self) -> Noise {
        Noise {
            measured: f64::from(self.noise_position),
            doubt: f64::from(self.noise_doubt),
            coast: self.coast_for.as_secs_f64().max(1e-3),
            speed: f64::from(self.noise_velocity),
            drift: f64::from(self.noise_acceleration),
            growth: f64::from(self.noise_acceleration) * 0.3,
        }
    }
}
