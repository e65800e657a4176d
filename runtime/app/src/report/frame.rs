//! What `detect` tells of one picture.

use crate::bench::{FrameTime, milliseconds};
use saltica_vision::track::{Track, TrackState};
use saltica_vision::{Detections, Head, Mask};
use serde::Serialize;
use std::time::Duration;

/// Where a picture comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrameId {
    /// Place of the source among the arguments, from 0.
    pub source_id: usize,
    /// The source as typed.
    pub source: String,
    /// Place of the picture in its source, from 0.
    pub frame_id: usize,
    /// The picture's file.
    pub path: String,
}

/// Record `frame`: the objects of one picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FrameRecord {
    /// Where the picture comes from.
    #[serde(flatten)]
    pub id: FrameId,
    /// Width in pixels, upright.
    pub width: usize,
    /// Height in pixels, upright.
    pub height: usize,
    /// Objects, best first.
    pub detections: Vec<Object>,
    /// Candidates dropped because a number of theirs was not finite.
    pub dropped: usize,
    /// Candidates left out because there were too many.
    pub capped: usize,
    /// Where the time went.
    pub time_ms: Times,
    /// The annotated picture, if one was written.
    pub saved: Option<String>,
}

/// Record `error`: a picture that could not be looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ErrorRecord {
    /// Where the picture comes from.
    #[serde(flatten)]
    pub id: FrameId,
    /// What went wrong.
    pub error: String,
}

/// Record `summary`: the last one of `detect`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SummaryRecord {
    /// Pictures looked at.
    pub frames: usize,
    /// Pictures that could not be looked at.
    pub failed: usize,
    /// Other files of the folders and patterns given.
    pub skipped: usize,
    /// Objects found.
    pub detections: usize,
}

/// Milliseconds of each stage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// Reading and decoding the file.
    pub decode: f64,
    /// From decoded pixels to the model's input.
    pub preprocess: f64,
    /// The model.
    pub infer: f64,
    /// From the model's output to boxes in the picture.
    pub postprocess: f64,
}

impl Times {
    /// Of a picture that took `decode` to read.
    pub fn new(decode: Duration, rest: &FrameTime) -> Self {
        Times {
            decode: milliseconds(decode),
            preprocess: milliseconds(rest.preprocess),
            infer: milliseconds(rest.infer),
            postprocess: milliseconds(rest.postprocess),
        }
    }
}

/// One object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Object {
    /// Class number, from 0.
    pub class_id: u32,
    /// Class name.
    pub class: String,
    /// Confidence, 0 to 1.
    pub score: f32,
    /// Left, top, right, bottom.
    #[serde(rename = "box")]
    pub bbox: [f32; 4],
    /// The turned box, of models that find such.
    pub oriented: Option<Oriented>,
    /// Points, of models that find such.
    pub keypoints: Vec<Point>,
    /// The object's pixels, of models that find such.
    pub mask: Option<Runs>,
    /// The track it belongs to, with `--track`.
    pub track: Option<Followed>,
}

/// An object over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Followed {
    /// The same for one object in all pictures of a source, never given twice.
    pub id: u64,
    /// Seen long enough not to be a false alarm.
    pub confirmed: bool,
    /// Seconds since it was first seen.
    pub age: f64,
    /// Pixels per second to the right and down.
    pub velocity: [f32; 2],
    /// Left, top, right, bottom, smoothed over time; not clipped.
    #[serde(rename = "box")]
    pub bbox: [f32; 4],
}

impl From<&Track> for Followed {
    fn from(t: &Track) -> Self {
        Followed {
            id: t.id,
            confirmed: t.state == TrackState::Confirmed,
            age: t.age.as_secs_f64(),
            velocity: t.velocity.into(),
            bbox: t.bbox,
        }
    }
}

/// A box turned by an angle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Oriented {
    /// x and y.
    pub center: [f32; 2],
    /// Size along the box's own axes.
    pub size: [f32; 2],
    /// From the x axis to the box's width axis, radians, clockwise as seen.
    pub angle: f32,
}

/// A point and how sure the model is that it is visible.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Column.
    pub x: f32,
    /// Row.
    pub y: f32,
    /// 0 to 1.
    pub score: f32,
}

/// A mask as COCO's run lengths without compression: pixels column by column, the count of those outside first, then of
/// those inside, and so on in turn. pycocotools' `frPyObjects` reads it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Runs {
    /// Height and width of the picture.
    pub size: [usize; 2],
    /// Lengths of the runs.
    pub counts: Vec<usize>,
}

impl Runs {
    /// Run lengths of what `inside(x, y)` says, which is asked only within `bbox`.
    pub fn of(width: usize, height: usize, bbox: [f32; 4], inside: impl Fn(usize, usize) -> bool) -> Runs {
        let edge =
            |v: f32, up: bool, end: usize| (if up { v.ceil() } else { v.floor() }.max(0.0) as usize).min(end);
        let (left, right) = (edge(bbox[0], false, width), edge(bbox[2], true, width));
        let (top, bottom) = (edge(bbox[1], false, height), edge(bbox[3], true, height));
        let mut counts = vec![0];
        let mut push = |is_inside: bool, n: usize| {
            if n == 0 {
                return;
            }
            // Even places count pixels outside.
            if (counts.len() % 2 == 0) != is_inside {
                counts.push(0);
            }
            if let Some(last) = counts.last_mut() {
                *last += n;
            }
        };
        push(false, left * height);
        for x in left..right {
            push(false, top);
            for y in top..bottom {
                push(inside(x, y), 1);
            }
            push(false, height - bottom.max(top));
        }
        push(false, (width - right.max(left)) * height);
        Runs { size: [height, width], counts }
    }

    fn of_mask(mask: &Mask, bbox: [f32; 4], width: usize, height: usize) -> Runs {
        Self::of(width, height, bbox, |x, y| mask.contains(x, y))
    }
}

/// Objects of a picture of `width` x `height` pixels.
pub fn objects(found: &Detections, head: &Head, width: usize, height: usize) -> Vec<Object> {
    let object = |d: &saltica_vision::Detection| Object {
        class_id: d.class,
        class: head.label(d.class).into_owned(),
        score: d.score,
        bbox: d.bbox,
        oriented: d.oriented.map(|o| Oriented {
            center: o.center.into(),
            size: o.size.into(),
            angle: o.angle,
        }),
        keypoints: found.keypoints(d).iter().map(|k| Point { x: k.x, y: k.y, score: k.score }).collect(),
        mask: found.mask(d).map(|m| Runs::of_mask(m, d.bbox, width, height)),
        track: None,
    };
    found.items().iter().map(object).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn runs_go_column_by_column_from_outside() {
        // pycocotools 2.0.11: mask.encode of the same pixels, decoded to counts.
        let r = Runs::of(3, 2, [1.0, 0.0, 3.0, 2.0], |x, y| (x, y) != (2, 1));
        assert_eq!((r.size, r.counts), ([2, 3], vec![2, 3, 1]));
        assert_eq!(Runs::of(2, 2, [0.0, 0.0, 2.0, 2.0], |_, _| true).counts, [0, 4]);
        assert_eq!(Runs::of(2, 2, [0.0, 0.0, 0.0, 0.0], |_, _| true).counts, [4]);
    }

    proptest! {
        #[test]
        fn runs_add_up_and_say_what_was_said(w in 1usize..9, h in 1usize..9, b in prop::array::uniform4(-2f32..12.0), bits in any::<u64>()) {
            let inside = |x: usize, y: usize| bits >> ((x * h + y) % 64) & 1 == 1;
            let r = Runs::of(w, h, b, inside);
            prop_assert_eq!(r.counts.iter().sum::<usize>(), w * h);
            prop_assert!(r.counts.iter().skip(1).all(|&c| c > 0));
            let mut pixels = r.counts.iter().enumerate().flat_map(|(i, &n)| std::iter::repeat_n(i % 2 == 1, n));
            for x in 0..w {
                for y in 0..h {
                    let (fx, fy) = (x as f32, y as f32);
                    let boxed = fx >= b[0].floor() && fx < b[2].ceil() && fy >= b[1].floor() && fy < b[3].ceil();
                    prop_assert_eq!(pixels.next(), Some(boxed && inside(x, y)));
                }
            }
        }
    }
}
