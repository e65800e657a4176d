//! The tracker of the vision crate, one for each source.

use std::time::Duration;

use saltica_vision::track::{Observation, TrackParams, TrackState, Tracker};

use super::Follow;
use crate::frame::SourceId;
use crate::sink::{Object, Track};
use crate::{Error, ErrorKind, Result};

/// Follows the objects of each source by itself. A source whose clock goes back (a file from its start, a camera that was
/// plugged in again) is followed anew; numbers of its tracks go on, so that none is given twice.
#[derive(Debug)]
pub struct Trackers {
    all: Vec<Tracker>,
    shown: f32,
}

impl From<&Object> for Observation {
    fn from(o: &Object) -> Observation {
        Observation { class: o.class_id, score: o.score, bbox: o.bbox }
    }
}

impl Trackers {
    /// For so many sources. A model is best asked for objects of scores down to 0.1, since a faint one may carry a track on;
    /// those below `shown` that belong to no confirmed track are taken out of the result.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for a parameter out of range.
    pub fn new(sources: usize, params: TrackParams, shown: f32) -> Result<Trackers> {
        let tracker =
            Tracker::new(params).map_err(|e| Error::new(ErrorKind::Value, format!("tracking: {e}")))?;
        Ok(Trackers { all: vec![tracker; sources], shown })
    }
}

impl Follow for Trackers {
    fn follow(&mut self, source: SourceId, captured: Duration, objects: &mut Vec<Object>) {
        if let Some(tracker) = self.all.get_mut(source.0 as usize) {
            if tracker.update(objects.iter(), captured).is_err() {
                // A clock that went back, or an object whose numbers are none: it is told, but not followed.
                tracker.reset();
                let sound = objects.iter().filter(|o| is_sound(o));
                if let Err(e) = tracker.update(sound, captured) {
                    log::debug!("{source}: objects are not followed: {e}");
                }
                // The places of the sound ones are others, where some are not: tracks are told from the next frame on.
            } else {
                for t in tracker.tracks().iter().filter(|t| t.state == TrackState::Confirmed) {
                    if let Some(object) = t.observation.and_then(|k| objects.get_mut(k)) {
                        let (right, down) = t.velocity;
                        object.track = Some(Track { id: t.id, velocity: [right, down] });
                    }
                }
            }
        }
        objects.retain(|o| o.track.is_some() || o.score >= self.shown);
    }
}

fn is_sound(o: &Object) -> bool {
    o.bbox.iter().all(|v| v.is_finite()) && (0.0..=1.0).contains(&o.score)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(k: u32, score: f32) -> Vec<Object> {
        let x = 10.0 * k as f32;
        vec![Object::new(0, score, [x, 20.0, x + 40.0, 100.0])]
    }

    #[test]
    fn each_source_is_followed_by_itself_and_velocity_is_told() {
        let mut trackers = Trackers::new(2, TrackParams::default(), 0.25).unwrap();
        let ms = Duration::from_millis;
        for k in 0..20 {
            let mut objects = seen(k, 0.9);
            trackers.follow(SourceId(0), ms(40 * u64::from(k)), &mut objects);
            if k >= 10 {
                let track = objects[0].track.unwrap();
                assert_eq!(track.id, 1);
                // 10 pixels in 40 ms.
                assert!(
                    (track.velocity[0] - 250.0).abs() < 25.0 && track.velocity[1].abs() < 5.0,
                    "{track:?}"
                );
            }
        }
        let mut first = seen(0, 0.9);
        trackers.follow(SourceId(1), ms(0), &mut first);
        assert!(first.iter().all(|o| o.track.is_none_or(|t| t.id == 1)), "{first:?}");
        // A faint object goes on where it carries a track, and goes where it does not.
        let mut faint = seen(20, 0.15);
        trackers.follow(SourceId(0), ms(800), &mut faint);
        assert_eq!(faint[0].track.map(|t| t.id), Some(1));
        let mut alone = vec![Object::new(0, 0.15, [500.0, 20.0, 540.0, 100.0])];
        trackers.follow(SourceId(0), ms(840), &mut alone);
        assert!(alone.is_empty());
    }

    #[test]
    fn a_clock_that_goes_back_begins_anew_with_new_numbers() {
        let mut trackers = Trackers::new(1, TrackParams::default(), 0.0).unwrap();
        let mut last = None;
        for start in [5000, 0] {
            for k in 0..10 {
                let mut objects = seen(k, 0.9);
                trackers.follow(SourceId(0), Duration::from_millis(start + 40 * u64::from(k)), &mut objects);
                assert_eq!(objects.len(), 1);
                last = objects[0].track.map(|t| t.id).or(last);
            }
        }
        assert_eq!(last, Some(2));
        // Of a source that nobody announced, and with numbers that are none: no panic, no track.
        let mut bad = vec![Object::new(0, 0.5, [f32::NAN; 4])];
        trackers.follow(SourceId(0), Duration::from_secs(9), &mut bad);
        trackers.follow(SourceId(7), Duration::from_secs(9), &mut bad);
        assert!(bad[0].track.is_none());
    }
}
