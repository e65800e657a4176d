//! What is told about one frame: the one definition that every sink reads.
//!
//! As JSON it is record `result` (see [`FrameResult`]); keys that it shares with record `frame` of `runtime/app/SCHEMA.md`
//! mean the same.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use saltica_tensor::Pixels;
use saltica_vision::{Detections, Keypoint, Labels, OrientedBox};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::frame::{Frame, FrameFormat, FrameInfo, SourceId, monotonic};

/// Version of the record: raised when a field changes its meaning or goes, not when one is added.
pub const SCHEMA: u32 = 1;

/// The result of one frame. Filled in place and reused ([`Recycler`]), so that a steady pipeline allocates nothing for it.
///
/// Serialized it is the record `result`:
///
/// | key | meaning |
/// |---|---|
/// | `schema`, `type` | [`SCHEMA`] and `"result"` |
/// | `source_id`, `source`, `frame_id` | whose frame, and which |
/// | `sequence` | the driver's number of the frame, where it has one: its gaps are lost frames |
/// | `width`, `height` | of the frame, pixels |
/// | `captured_ms` | capture time on `CLOCK_MONOTONIC`, milliseconds |
/// | `captured_unix_ms` | the same moment on the wall clock, milliseconds since 1970 |
/// | `frame_age_ms` | from capture to the result |
/// | `batch` | frames that the model looked at together |
/// | `detections` | objects, best first: `class_id`, `class`, `score`, `box`, `oriented`, `keypoints`, `track_id`, `velocity` |
/// | `dropped`, `capped` | candidates that were not finite, or too many |
/// | `time_ms` | `wait`, `preprocess`, `infer`, `postprocess` |
#[derive(Clone, Debug, Default)]
pub struct FrameResult {
    /// Whose frame.
    pub source: SourceId,
    /// What messages call the source; no secrets in it.
    pub source_name: Arc<str>,
    /// Number of the frame within its source.
    pub frame: u64,
    /// The driver's own number of the frame, where there is one; else as `frame`.
    pub sequence: u64,
    /// Pixels in a row of the frame.
    pub width: usize,
    /// Rows of the frame.
    pub height: usize,
    /// When it was captured, on `CLOCK_MONOTONIC`.
    pub captured: Duration,
    /// From capture to the result.
    pub age: Duration,
    /// Frames that the model looked at together with this one, itself included.
    pub batch: usize,
    /// Objects, best first.
    pub objects: Vec<Object>,
    /// Keypoints of all objects ([`Object::keypoints`]).
    pub keypoints: Vec<Keypoint>,
    /// Names of the classes.
    pub labels: Option<Labels>,
    /// Candidates dropped because a number of theirs was not finite.
    pub dropped: usize,
    /// Candidates left out because there were too many.
    pub capped: usize,
    /// Where the time went.
    pub times: StageTimes,
    /// Copies of the frame's pixel data made on the way to the model.
    pub copies: u32,
    /// The picture, if a sink wanted it.
    pub picture: Picture,
}

/// Where a frame's time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// From capture to the start of the preprocessing.
    pub wait: Duration,
    /// From pixels to the model's input.
    pub preprocess: Duration,
    /// The model's run, of the whole batch.
    pub infer: Duration,
    /// From the model's output to the result: boxes in the picture, tracks, and the copy of a picture that a sink wants.
    pub postprocess: Duration,
}

/// One object. Coordinates are pixels of the frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Object {
    /// Class number, from 0.
    pub class_id: u32,
    /// Confidence, 0 to 1.
    pub score: f32,
    /// Left, top, right, bottom.
    pub bbox: [f32; 4],
    /// The turned box, of models that find such.
    pub oriented: Option<OrientedBox>,
    /// First and number of its points in [`FrameResult::keypoints`].
    pub keypoints: (u32, u32),
    /// Whose track it belongs to, if it is tracked.
    pub track: Option<Track>,
}

impl Object {
    /// An untracked upright box.
    pub fn new(class_id: u32, score: f32, bbox: [f32; 4]) -> Object {
        Object { class_id, score, bbox, oriented: None, keypoints: (0, 0), track: None }
    }
}

/// What tracking knows of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Track {
    /// Stays the same while the object is followed.
    pub id: u64,
    /// Of the box's middle, pixels per second to the right and down.
    pub velocity: [f32; 2],
}

impl FrameResult {
    /// Takes over whose frame it is, its size, its capture time and its copies; forgets everything else.
    pub fn reset(&mut self, of: &FrameInfo) {
        self.clear();
        (self.source, self.frame, self.sequence) = (of.source, of.id, of.sequence);
        (self.width, self.height) = (of.width, of.height);
        (self.captured, self.copies) = (of.captured, of.copies);
    }

    /// Forgets objects, times and the picture, but not the memory they lay in.
    pub fn clear(&mut self) {
        self.objects.clear();
        self.keypoints.clear();
        (self.dropped, self.capped, self.batch, self.copies) = (0, 0, 0, 0);
        (self.age, self.times) = (Duration::ZERO, StageTimes::default());
        self.picture.clear();
    }

    /// Takes over what a head found, untracked.
    pub fn set_detections(&mut self, found: &Detections) {
        self.objects.clear();
        self.keypoints.clear();
        for d in found.items() {
            let points = found.keypoints(d);
            let keypoints = (self.keypoints.len() as u32, points.len() as u32);
            self.keypoints.extend_from_slice(points);
            self.objects.push(Object {
                class_id: d.class,
                score: d.score,
                bbox: d.bbox,
                oriented: d.oriented,
                keypoints,
                track: None,
            });
        }
        (self.dropped, self.capped) = (found.dropped(), found.capped());
    }

    /// A class's name, or `class N`.
    pub fn label(&self, class_id: u32) -> Cow<'_, str> {
        match &self.labels {
            Some(l) => l.name(class_id),
            None => Cow::Owned(format!("class {class_id}")),
        }
    }

    /// The points of an object of this result.
    pub fn keypoints(&self, of: &Object) -> &[Keypoint] {
        let (first, count) = (of.keypoints.0 as usize, of.keypoints.1 as usize);
        self.keypoints.get(first..first.saturating_add(count)).unwrap_or(&[])
    }

    /// The capture time on the wall clock, as far as the clocks of now tell: since 1970.
    pub fn captured_unix(&self) -> Duration {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (wall + self.captured).saturating_sub(monotonic())
    }
}

fn milliseconds(d: Duration) -> f64 {
    // To the microsecond: what the clocks are good for, and short to print.
    d.as_micros() as f64 / 1e3
}

impl Serialize for FrameResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut s = serializer.serialize_struct("result", 16)?;
        s.serialize_field("schema", &SCHEMA)?;
        s.serialize_field("type", "result")?;
        s.serialize_field("source_id", &self.source.0)?;
        s.serialize_field("source", &*self.source_name)?;
        s.serialize_field("frame_id", &self.frame)?;
        s.serialize_field("sequence", &self.sequence)?;
        s.serialize_field("width", &self.width)?;
        s.serialize_field("height", &self.height)?;
        s.serialize_field("captured_ms", &milliseconds(self.captured))?;
        s.serialize_field("captured_unix_ms", &milliseconds(self.captured_unix()))?;
        s.serialize_field("frame_age_ms", &milliseconds(self.age))?;
        s.serialize_field("batch", &self.batch)?;
        s.serialize_field("detections", &Objects(self))?;
        s.serialize_field("dropped", &self.dropped)?;
        s.serialize_field("capped", &self.capped)?;
        s.serialize_field("time_ms", &self.times)?;
        s.end()
    }
}

impl Serialize for StageTimes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut s = serializer.serialize_struct("time_ms", 4)?;
        s.serialize_field("wait", &milliseconds(self.wait))?;
        s.serialize_field("preprocess", &milliseconds(self.preprocess))?;
        s.serialize_field("infer", &milliseconds(self.infer))?;
        s.serialize_field("postprocess", &milliseconds(self.postprocess))?;
        s.end()
    }
}

struct Objects<'a>(&'a FrameResult);

impl Serialize for Objects<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.objects.iter().map(|o| ObjectRecord(self.0, o)))
    }
}

struct ObjectRecord<'a>(&'a FrameResult, &'a Object);

impl Serialize for ObjectRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ObjectRecord(result, o) = self;
        let mut s = serializer.serialize_struct("object", 8)?;
        s.serialize_field("class_id", &o.class_id)?;
        s.serialize_field("class", &result.label(o.class_id))?;
        s.serialize_field("score", &o.score)?;
        s.serialize_field("box", &o.bbox)?;
        s.serialize_field("oriented", &o.oriented.map(Oriented))?;
        s.serialize_field("keypoints", &Points(result.keypoints(o)))?;
        s.serialize_field("track_id", &o.track.map(|t| t.id))?;
        s.serialize_field("velocity", &o.track.map(|t| t.velocity))?;
        s.end()
    }
}

struct Oriented(OrientedBox);

impl Serialize for Oriented {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut s = serializer.serialize_struct("oriented", 3)?;
        s.serialize_field("center", &self.0.center)?;
        s.serialize_field("size", &self.0.size)?;
        s.serialize_field("angle", &self.0.angle)?;
        s.end()
    }
}

struct Points<'a>(&'a [Keypoint]);

impl Serialize for Points<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|k| Point { x: k.x, y: k.y, score: k.score }))
    }
}

#[derive(Serialize)]
struct Point {
    x: f32,
    y: f32,
    score: f32,
}

/// A copy of a frame's pixels in their own format: cheaper than a conversion, and the frame goes back to its driver at once.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    format: Option<FrameFormat>,
    bytes: Vec<u8>,
}

impl Picture {
    /// Copies the frame's pixels, without the gaps between rows.
    pub fn copy(&mut self, frame: &Frame) {
        self.format = None;
        let (f, pixels) = (frame.format(), frame.pixels());
        let Ok(mut packed) = FrameFormat::packed(f.pixel, f.width, f.height) else { return };
        packed.colorimetry = f.colorimetry;
        self.bytes.clear();
        self.bytes.reserve(packed.needed(0));
        for p in 0..f.pixel.planes() {
            for y in 0..f.pixel.plane_rows(p, f.height) {
                self.bytes.extend_from_slice(pixels.plane_row(p, y));
            }
        }
        self.format = Some(packed);
    }

    /// No picture; the memory is kept for the next one.
    pub fn clear(&mut self) {
        self.format = None;
    }

    /// The pixels, if there is a picture.
    pub fn pixels(&self) -> Option<Pixels<'_>> {
        let f = self.format?;
        let mut planes: [(&[u8], usize); 3] = [(&[], 0); 3];
        for (layout, plane) in f.planes.iter().zip(&mut planes).take(f.pixel.planes()) {
            *plane = (self.bytes.get(layout.offset..)?, layout.stride);
        }
        let pixels = Pixels::planar(&planes[..f.pixel.planes()], f.width, f.height, f.pixel).ok()?;
        Some(pixels.with_colorimetry(f.colorimetry))
    }
}

/// Results that go round: each is filled again as soon as no sink holds it any more.
#[derive(Debug, Default)]
pub struct Recycler(Vec<Arc<FrameResult>>);

impl Recycler {
    /// Objects for which each result has room from the start.
    const OBJECTS: usize = 64;

    /// `most` results, all made now; if more are held at once, the ones beyond are allocated and not reused.
    pub fn new(most: usize) -> Recycler {
        let new = || FrameResult { objects: Vec::with_capacity(Self::OBJECTS), ..FrameResult::default() };
        Recycler((0..most).map(|_| Arc::new(new())).collect())
    }

    /// A result that nobody else holds, as `fill` leaves it. `fill` finds an old result in it, which it must overwrite
    /// ([`FrameResult::reset`]).
    pub fn fill(&mut self, fill: impl FnOnce(&mut FrameResult)) -> Arc<FrameResult> {
        // The first free one: as few as possible have grown to the size of a picture.
        for result in &mut self.0 {
            if let Some(free) = Arc::get_mut(result) {
                fill(free);
                return Arc::clone(result);
            }
        }
        let mut new = FrameResult::default();
        fill(&mut new);
        Arc::new(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Pool;
    use saltica_tensor::PixelFormat;

    pub(crate) fn frame(width: usize, height: usize, pixel: PixelFormat) -> Frame {
        let format = FrameFormat::packed(pixel, width, height).unwrap();
        let mut lease = Pool::new(1).take(format.needed(0), Duration::ZERO).unwrap();
        for (i, b) in lease.bytes_mut().iter_mut().enumerate() {
            *b = i as u8;
        }
        let mut frame = Frame::owned(format, lease, Duration::from_millis(1500)).unwrap();
        (frame.id, frame.source, frame.sequence) = (7, SourceId(2), 19);
        frame
    }

    #[test]
    fn the_record_has_the_keys_of_the_schema() {
        let mut r = FrameResult::default();
        r.reset(&frame(64, 48, PixelFormat::Rgb8).info());
        r.source_name = "front \"door\"".into();
        r.labels = Some(Labels::new(vec!["person".into(), "car".into()]).unwrap());
        r.age = Duration::from_micros(12_345);
        r.batch = 3;
        r.times.infer = Duration::from_millis(8);
        r.objects.push(Object {
            track: Some(Track { id: 12, velocity: [3.5, -1.0] }),
            ..Object::new(1, 0.75, [1.0, 2.5, 30.0, 40.0])
        });
        r.objects.push(Object::new(9, 0.5, [0.0; 4]));
        let json: serde_json::Value = serde_json::to_value(&r).unwrap();
        let mut want = serde_json::json!({
            "schema": 1, "type": "result", "source_id": 2, "source": "front \"door\"", "frame_id": 7,
            "sequence": 19,
            "width": 64, "height": 48, "captured_ms": 1500.0, "frame_age_ms": 12.345, "batch": 3,
            "detections": [
                {"class_id": 1, "class": "car", "score": 0.75, "box": [1.0, 2.5, 30.0, 40.0], "oriented": null,
                 "keypoints": [], "track_id": 12, "velocity": [3.5, -1.0]},
                {"class_id": 9, "class": "class 9", "score": 0.5, "box": [0.0, 0.0, 0.0, 0.0], "oriented": null,
                 "keypoints": [], "track_id": null, "velocity": null}
            ],
            "dropped": 0, "capped": 0,
            "time_ms": {"wait": 0.0, "preprocess": 0.0, "infer": 8.0, "postprocess": 0.0}
        });
        // Captured 1.5 s after the machine started, that is before now and after 2020.
        let unix = json["captured_unix_ms"].as_f64().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() * 1e3;
        assert!(unix <= now && unix > 1.577e12, "{unix}");
        want["captured_unix_ms"] = json["captured_unix_ms"].clone();
        assert_eq!(json, want);
        // One line, and its first keys are the ones that tell records apart.
        let line = serde_json::to_string(&r).unwrap();
        assert!(line.starts_with("{\"schema\":1,\"type\":\"result\",") && !line.contains('\n'));
    }

    #[test]
    fn a_picture_is_the_frame_without_gaps() {
        for pixel in PixelFormat::ALL {
            let f = frame(7, 5, pixel);
            let mut p = Picture::default();
            assert!(p.pixels().is_none());
            p.copy(&f);
            let (got, want) = (p.pixels().unwrap(), f.pixels());
            for plane in 0..pixel.planes() {
                for y in 0..pixel.plane_rows(plane, 5) {
                    assert_eq!(got.plane_row(plane, y), want.plane_row(plane, y), "{pixel} {plane} {y}");
                }
            }
            p.clear();
            assert!(p.pixels().is_none());
        }
    }

    #[test]
    fn results_are_reused_when_nobody_holds_them() {
        let mut all = Recycler::new(2);
        let a = all.fill(|r| r.frame = 1);
        let b = all.fill(|r| r.frame = 2);
        // Both are held: the third is not one that goes round.
        let c = all.fill(|r| r.frame = 3);
        assert_eq!([a.frame, b.frame, c.frame], [1, 2, 3]);
        let address = Arc::as_ptr(&a);
        drop(a);
        let d = all.fill(|r| {
            assert_eq!(r.frame, 1);
            r.frame = 4;
        });
        assert_eq!((Arc::as_ptr(&d), d.frame), (address, 4));
        assert_eq!([b.frame, c.frame], [2, 3]);
    }
}
