//! A result's picture with its boxes, labels and trails drawn into it.

use std::collections::HashMap;
use std::time::Duration;

use image::imageops::{FilterType, resize, thumbnail};
use image::{ExtendedColorType, ImageEncoder, RgbImage, codecs::jpeg::JpegEncoder};
use saltica_tensor::Pixels;
use saltica_vision::draw::{Annotator, Mark, color};
use saltica_vision::{Image, Keypoint, OrientedBox};

use super::FrameResult;
use crate::frame::SourceId;
use crate::{Error, ErrorKind, Result};

/// Draws results into their pictures. Remembers where tracks came from.
pub struct Annotated {
    annotator: Annotator,
    trails: HashMap<(SourceId, u64), Trail>,
}

struct Trail {
    points: Vec<(f32, f32)>,
    seen: Duration,
}

impl std::fmt::Debug for Annotated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Annotated({} trails)", self.trails.len())
    }
}

impl Annotated {
    /// Points of a trail.
    const TRAIL: usize = 32;
    /// A track not seen for this long has no trail any more.
    const FORGET: Duration = Duration::from_secs(2);

    /// An annotator without trails yet.
    ///
    /// # Errors
    /// [`ErrorKind::Image`] when the built-in font cannot be read.
    pub fn new() -> Result<Annotated> {
        Ok(Annotated { annotator: Annotator::new().map_err(from_vision)?, trails: HashMap::new() })
    }

    /// The picture of a result, at most `widest` pixels wide, with everything drawn into it. None if it has no picture.
    pub fn draw(&mut self, result: &FrameResult, widest: usize) -> Option<Image> {
        self.follow(result);
        let mut picture = scaled(&result.picture.pixels()?, widest)?;
        let scale = picture.width() as f32 / result.width.max(1) as f32;
        let scaled = |(x, y): (f32, f32)| (x * scale, y * scale);
        struct Part {
            text: String,
            points: Vec<Keypoint>,
            trail: Vec<(f32, f32)>,
        }
        let parts: Vec<Part> = result
            .objects
            .iter()
            .map(|o| {
                let label = result.label(o.class_id);
                let text = match o.track {
                    Some(t) => format!("{label} #{} {:.2}", t.id, o.score),
                    None => format!("{label} {:.2}", o.score),
                };
                let points = result.keypoints(o).iter();
                let points =
                    points.map(|k| Keypoint { x: k.x * scale, y: k.y * scale, score: k.score }).collect();
                let trail = o.track.and_then(|t| self.trails.get(&(result.source, t.id)));
                let trail = trail.map(|t| t.points.iter().map(|p| scaled(*p)).collect()).unwrap_or_default();
                Part { text, points, trail }
            })
            .collect();
        let marks: Vec<Mark<'_>> = result
            .objects
            .iter()
            .zip(&parts)
            .map(|(o, part)| Mark {
                bbox: o.bbox.map(|v| v * scale),
                oriented: o.oriented.map(|b| OrientedBox {
                    center: scaled(b.center),
                    size: scaled(b.size),
                    angle: b.angle,
                }),
                color: color(o.class_id),
                text: &part.text,
                keypoints: &part.points,
                trail: &part.trail,
            })
            .collect();
        self.annotator.marks(&mut picture, &marks);
        Some(picture)
    }

    fn follow(&mut self, result: &FrameResult) {
        for o in &result.objects {
            let Some(track) = o.track else { continue };
            let trail = self
                .trails
                .entry((result.source, track.id))
                .or_insert_with(|| Trail { points: Vec::with_capacity(Self::TRAIL), seen: Duration::ZERO });
            if trail.points.len() == Self::TRAIL {
                trail.points.remove(0);
            }
            // The foot of the box stays on the ground where the middle would jump with the box's height.
            trail.points.push(((o.bbox[0] + o.bbox[2]) / 2.0, o.bbox[3]));
            trail.seen = result.captured;
        }
        let (source, now) = (result.source, result.captured);
        self.trails.retain(|(s, _), t| *s != source || now.saturating_sub(t.seen) < Self::FORGET);
    }
}

/// The picture as RGB, at most `widest` pixels wide.
pub(crate) fn scaled(pixels: &Pixels<'_>, widest: usize) -> Option<Image> {
    let full = Image::from_pixels(pixels);
    if full.width() <= widest || widest == 0 {
        return Some(full);
    }
    let (w, h) = (full.width(), full.height());
    let (to_w, to_h) = (widest as u32, ((h * widest).div_ceil(w)).max(1) as u32);
    let full = RgbImage::from_raw(w as u32, h as u32, full.into_data())?;
    // Area averages where much goes, a triangle filter where little does.
    let small = if w >= 2 * widest {
        thumbnail(&full, to_w, to_h)
    } else {
        resize(&full, to_w, to_h, FilterType::Triangle)
    };
    Image::from_rgb(to_w as usize, to_h as usize, small.into_raw()).ok()
}

/// Appends a picture as JPEG to `out`.
pub(crate) fn jpeg(picture: &Image, quality: u8, out: &mut Vec<u8>) -> Result<()> {
    let (w, h) = (picture.width() as u32, picture.height() as u32);
    JpegEncoder::new_with_quality(out, quality.clamp(1, 100))
        .write_image(picture.data(), w, h, ExtendedColorType::Rgb8)
        .map_err(|e| Error::new(ErrorKind::Image, format!("a picture that cannot be encoded: {e}")))
}

pub(crate) fn from_vision(e: saltica_vision::Error) -> Error {
    Error::new(ErrorKind::Image, e.to_string())
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Object, Track};
    use super::*;
    use crate::frame::{Frame, FrameFormat, Pool};
    use saltica_tensor::PixelFormat;

    pub(in crate::sink) fn gray(width: usize, height: usize) -> FrameResult {
        let format = FrameFormat::packed(PixelFormat::Rgb8, width, height).unwrap();
        let mut lease = Pool::new(1).take(width * height * 3, Duration::ZERO).unwrap();
        lease.bytes_mut().fill(90);
        let frame = Frame::owned(format, lease, Duration::from_secs(1)).unwrap();
        let mut r = FrameResult::default();
        r.reset(&frame.info());
        r.picture.copy(&frame);
        r
    }

    #[test]
    fn boxes_shrink_with_the_picture() {
        let mut r = gray(1280, 640);
        r.objects.push(Object::new(0, 0.9, [200.0, 240.0, 400.0, 520.0]));
        let p = Annotated::new().unwrap().draw(&r, 320).unwrap();
        assert_eq!((p.width(), p.height()), (320, 160));
        assert_eq!(p.pixel(75, 129), Some(color(0)), "bottom edge");
        assert_eq!(p.pixel(50, 100), Some(color(0)), "left edge");
        assert_eq!(p.pixel(75, 100), Some([90; 3]), "inside");
        let p = Annotated::new().unwrap().draw(&r, 0).unwrap();
        assert_eq!((p.width(), p.height(), p.pixel(300, 519)), (1280, 640, Some(color(0))));
        r.picture.clear();
        assert!(Annotated::new().unwrap().draw(&r, 320).is_none());
    }

    #[test]
    fn trails_follow_tracks_and_are_forgotten() {
        let mut a = Annotated::new().unwrap();
        let mut r = gray(320, 320);
        for i in 0..100 {
            r.captured = Duration::from_millis(1000 + i * 100);
            r.objects.clear();
            let x = i as f32;
            let track = Some(Track { id: i % 2, velocity: [0.0; 2] });
            r.objects.push(Object { track, ..Object::new(0, 0.9, [x, 100.0, x + 20.0, 200.5]) });
            a.draw(&r, 0);
        }
        assert_eq!(a.trails.len(), 2);
        assert!(a.trails.values().all(|t| t.points.len() == Annotated::TRAIL));
        // The newest box is right of the trail, which is on the ground it came along.
        let p = a.draw(&r, 0).unwrap();
        assert_eq!(p.pixel(80, 200), Some(color(0)));
        r.objects.clear();
        r.captured += Duration::from_secs(3);
        a.draw(&r, 0);
        assert!(a.trails.is_empty());
    }
}
