//! Objects followed from frame to frame.
//!
//! After ByteTrack (Zhang et al., ECCV 2022): a Kalman filter predicts where each track is now; observations of high
//! score are assigned to tracks by the overlap of boxes, then those of low score to what is left, since a hidden object
//! scores low before it is lost; what nobody claims begins a track. Each assignment is the best as a whole.
//!
//! Unlike there, everything runs on the time of the frames: predictions, and how long a track may stay out of sight.
//! Ids count from 1 and are never given twice.
//!
//! ```
//! use saltica_vision::track::{Observation, TrackParams, Tracker};
//! use std::time::Duration;
//! let mut tracker = Tracker::new(TrackParams::default())?;
//! for frame in 0..4u64 {
//!     let x = 10.0 * frame as f32;
//!     let seen = Observation { class: 0, score: 0.9, bbox: [x, 20.0, x + 40.0, 100.0] };
//!     let tracks = tracker.update([seen], Duration::from_millis(40 * frame))?;
//!     assert_eq!(tracks.len(), 1);
//!     assert_eq!(tracks[0].id, 1);
//! }
//! # Ok::<(), saltica_vision::Error>(())
//! ```

mod assign;
mod kalman;
pub mod metrics;
mod params;

use crate::{Detection, Error, ErrorKind, Result};
use assign::Matcher;
use kalman::{Motion, Noise};
pub use params::TrackParams;
use std::time::Duration;

/// What a detector saw: the input of a tracker. Made from a [`Detection`] by `into()`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Class number.
    pub class: u32,
    /// 0..=1.
    pub score: f32,
    /// Left, top, right, bottom in pixels.
    pub bbox: [f32; 4],
}

impl From<&Detection> for Observation {
    fn from(d: &Detection) -> Self {
        Observation { class: d.class, score: d.score, bbox: d.bbox }
    }
}

/// Where a track is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrackState {
    /// Seen lately for the first time; may be a false alarm.
    Tentative,
    /// Seen at this update.
    Confirmed,
    /// Confirmed, but not seen at this update: its box is predicted.
    Lost,
}

/// One object over time.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Track {
    /// Unique within the tracker, from 1.
    pub id: u64,
    /// Class of its observations.
    pub class: u32,
    /// Score of the last observation.
    pub score: f32,
    /// Left, top, right, bottom in pixels at the time of the update: observed and smoothed, or predicted. Not clipped.
    pub bbox: [f32; 4],
    /// Pixels per second to the right and down.
    pub velocity: (f32, f32),
    /// Time since it was first seen.
    pub age: Duration,
    /// Time since it was last seen: zero when it was seen at this update.
    pub unseen: Duration,
    /// Where it is in its life.
    pub state: TrackState,
    /// Which observation of this update it is (position in the input), if any: the way to masks and keypoints.
    pub observation: Option<usize>,
}

/// What the tracker remembers of a track beside what it shows.
#[derive(Clone, Copy, Debug)]
struct Memory {
    motion: Motion,
    first: Duration,
    last: Duration,
    confirmed: bool,
    /// Whether it was seen at the update before.
    fresh: bool,
    /// The predicted box, and by how much it may be off.
    bbox: [f32; 4],
    slack: (f32, f32),
}

/// Follows the objects of one camera.
#[derive(Clone, Debug)]
pub struct Tracker {
    params: TrackParams,
    noise: Noise,
    now: Option<Duration>,
    next: u64,
    tracks: Vec<Track>,
    memory: Vec<Memory>,
    seen: Vec<Observation>,
    /// Positions in `seen`, best first.
    order: Vec<u32>,
    high: Vec<u32>,
    low: Vec<u32>,
    rows: Vec<u32>,
    matcher: Matcher,
    pairs: Vec<(usize, usize)>,
}

impl Tracker {
    /// A tracker that has seen nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Track`] for a parameter out of range.
    pub fn new(params: TrackParams) -> Result<Tracker> {
        params.check()?;
        Ok(Tracker {
            noise: params.noise(),
            params,
            now: None,
            next: 1,
            tracks: Vec::new(),
            memory: Vec::new(),
            seen: Vec::new(),
            order: Vec::new(),
            high: Vec::new(),
            low: Vec::new(),
            rows: Vec::new(),
            matcher: Matcher::default(),
            pairs: Vec::new(),
        })
    }

    /// Takes in what was seen at `time` (since any fixed moment) and returns all tracks alive, by id: those seen now are
    /// tentative or confirmed, the others tentative or lost. The order of the observations makes no difference.
    ///
    /// An observation with an empty box is passed over. After the first frames nothing is allocated while each object overlaps with its own track alone, or two tracks
    /// and two observations with each other; larger tangles allocate in the assignment.
    ///
    /// # Errors
    /// [`ErrorKind::Track`] when `time` lies before that of the last update, and for an observation whose box is not
    /// finite or whose score is not within 0..=1. The tracker is then as it was before.
    pub fn update<O: Into<Observation>>(
        &mut self,
        seen: impl IntoIterator<Item = O>,
        time: Duration,
    ) -> Result<&[Track]> {
        let before = self.now.unwrap_or(time);
        let Some(dt) = time.checked_sub(before) else {
            return Err(Error::new(
                ErrorKind::Track,
                format!(
                    "a frame of {:.3} s comes after one of {:.3} s: give frames in the order of their times, or reset \
                     the tracker when its clock starts anew",
                    time.as_secs_f64(),
                    before.as_secs_f64()
                ),
            ));
        };
        self.seen.clear();
        self.seen.extend(seen.into_iter().map(Into::into));
        for (k, o) in self.seen.iter().enumerate() {
            check(k, o)?;
        }
        self.now = Some(time);
        self.predict(dt, time);
        self.sort();
        let p = &self.params;
        let (overlap, overlap_low, overlap_tentative) = (p.overlap, p.overlap_low, p.overlap_tentative);
        self.associate(overlap, false, time, |m| m.confirmed);
        self.associate(overlap_low, true, time, |m| m.confirmed && m.fresh);
        self.associate(overlap_tentative, false, time, |m| !m.confirmed);
        self.begin(time);
        self.show(dt, time);
        Ok(&self.tracks)
    }

    /// The tracks of the last update.
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// Forgets all tracks and the time. Ids go on, so that none is given twice.
    pub fn reset(&mut self) {
        self.tracks.clear();
        self.memory.clear();
        self.now = None;
    }

    /// Moves all tracks to `time` and drops those whose time is over.
    fn predict(&mut self, dt: Duration, time: Duration) {
        let p = &self.params;
        let mut kept = 0;
        for k in 0..self.tracks.len() {
            let mut m = self.memory[k];
            let patience = if m.confirmed { p.lost_for } else { p.tentative_for };
            // One that was seen at the last update is always looked for, however long ago that was.
            if time.saturating_sub(m.last) > patience && !m.fresh {
                continue;
            }
            m.motion.predict(dt.as_secs_f64(), &self.noise);
            m.bbox = m.motion.bbox();
            let (x, y) = m.motion.deviation();
            let half = ((m.bbox[2] - m.bbox[0]) * 0.5, (m.bbox[3] - m.bbox[1]) * 0.5);
            m.slack = ((p.slack * x).min(half.0), (p.slack * y).min(half.1));
            self.tracks[kept] = Track { observation: None, ..self.tracks[k] };
            self.memory[kept] = m;
            kept += 1;
        }
        self.tracks.truncate(kept);
        self.memory.truncate(kept);
    }

    /// Splits the observations by score, each part in an order that does not depend on the input's.
    fn sort(&mut self) {
        self.order.clear();
        let seen = &self.seen;
        // A box that clipping has left empty overlaps with nothing.
        let full = |k: &u32| {
            let [x0, y0, x1, y1] = seen[*k as usize].bbox;
            x1 > x0 && y1 > y0
        };
        self.order.extend((0..seen.len() as u32).filter(full));
        self.order.sort_unstable_by(|a, b| {
            let (p, q) = (&seen[*a as usize], &seen[*b as usize]);
            let boxes = p.bbox.iter().zip(&q.bbox).map(|(v, w)| v.total_cmp(w));
            let boxes = boxes.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then);
            q.score.total_cmp(&p.score).then(p.class.cmp(&q.class)).then(boxes).then(a.cmp(b))
        });
        let (high, low) = (self.params.high, self.params.low);
        let score = |k: &&u32| seen[**k as usize].score;
        self.high.clear();
        self.high.extend(self.order.iter().filter(|k| score(k) >= high));
        self.low.clear();
        self.low.extend(self.order.iter().filter(|k| (low..high).contains(&score(k))));
    }

    /// Assigns observations that are left over to tracks that are and that `who` lets in.
    fn associate(&mut self, overlap: f32, low: bool, time: Duration, who: impl Fn(&Memory) -> bool) {
        let left = if low { &mut self.low } else { &mut self.high };
        self.rows.clear();
        self.rows
            .extend((0..self.tracks.len() as u32).filter(|k| {
                self.tracks[*k as usize].observation.is_none() && who(&self.memory[*k as usize])
            }));
        self.matcher.clear();
        for (row, k) in self.rows.iter().enumerate() {
            let (track, m) = (&self.tracks[*k as usize], &self.memory[*k as usize]);
            for (col, o) in left.iter().enumerate() {
                let o = &self.seen[*o as usize];
                if self.params.across_classes || o.class == track.class {
                    let iou = grown_iou(&m.bbox, &o.bbox, m.slack);
                    if iou > overlap {
                        self.matcher.allow(row, col, f64::from(iou - overlap));
                    }
                }
            }
        }
        self.matcher.solve(self.rows.len(), left.len(), &mut self.pairs);
        for (row, col) in &self.pairs {
            let k = self.rows[*row] as usize;
            let at = std::mem::replace(&mut left[*col], u32::MAX) as usize;
            let o = &self.seen[at];
            let (track, m) = (&mut self.tracks[k], &mut self.memory[k]);
            m.motion.correct(o.bbox, o.score, &self.noise);
            m.last = time;
            m.confirmed |=
                time.saturating_sub(m.first) >= self.params.confirm_after || o.score >= self.params.sure;
            (track.class, track.score, track.observation) = (o.class, o.score, Some(at));
        }
        left.retain(|k| *k != u32::MAX);
    }

    /// Begins tracks from what nobody claimed.
    fn begin(&mut self, time: Duration) {
        for at in &self.high {
            let o = &self.seen[*at as usize];
            if o.score < self.params.begin {
                continue;
            }
            self.memory.push(Memory {
                motion: Motion::new(o.bbox, &self.noise),
                first: time,
                last: time,
                confirmed: self.params.confirm_after.is_zero() || o.score >= self.params.sure,
                fresh: true,
                bbox: o.bbox,
                slack: (0.0, 0.0),
            });
            self.tracks.push(Track {
                id: self.next,
                class: o.class,
                score: o.score,
                bbox: o.bbox,
                velocity: (0.0, 0.0),
                age: Duration::ZERO,
                unseen: Duration::ZERO,
                state: TrackState::Tentative,
                observation: Some(*at as usize),
            });
            self.next += 1;
        }
    }

    fn show(&mut self, dt: Duration, time: Duration) {
        for (track, m) in self.tracks.iter_mut().zip(&mut self.memory) {
            m.fresh = track.observation.is_some();
            if !m.fresh {
                m.motion.fade(dt.as_secs_f64(), &self.noise);
            }
            track.bbox = m.motion.bbox();
            track.velocity = m.motion.velocity();
            track.age = time.saturating_sub(m.first);
            track.unseen = time.saturating_sub(m.last);
            track.state = match (m.confirmed, m.fresh) {
                (false, _) => TrackState::Tentative,
                (true, true) => TrackState::Confirmed,
                (true, false) => TrackState::Lost,
            };
        }
    }
}

fn check(k: usize, o: &Observation) -> Result<()> {
    if o.bbox.iter().all(|v| v.abs() < 1e7) && (0.0..=1.0).contains(&o.score) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Track,
        format!(
            "observation {k} has the box {:?} and the score {}: give finite sides in pixels and a score within 0..=1",
            o.bbox, o.score
        ),
    ))
}

/// Intersection over union of two boxes that both grow by `slack` on all sides.
fn grown_iou(a: &[f32; 4], b: &[f32; 4], slack: (f32, f32)) -> f32 {
    let grow = |v: &[f32; 4]| [v[0] - slack.0, v[1] - slack.1, v[2] + slack.0, v[3] + slack.1];
    crate::iou(&grow(a), &grow(b))
}
