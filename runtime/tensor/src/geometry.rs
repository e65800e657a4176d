//! How a picture is placed into a model's input, as one value that the forward pass and the way back share.

use crate::{Error, ErrorKind, Pixels, Result};
use std::fmt;

/// How a picture of another size gets into the model's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResizeMode {
    /// Keep the aspect ratio, centre, pad the rest (Ultralytics). An odd pixel of padding goes right and below.
    Letterbox,
    /// Keep the aspect ratio, place at the top left, pad right and below (YOLOX).
    LetterboxTopLeft,
    /// Scale each axis on its own until the input is full.
    Stretch,
    /// Keep the aspect ratio, cover the input, cut what sticks out evenly (classification).
    Crop,
}

impl ResizeMode {
    /// Every mode.
    pub const ALL: [ResizeMode; 4] =
        [ResizeMode::Letterbox, ResizeMode::LetterboxTopLeft, ResizeMode::Stretch, ResizeMode::Crop];

    /// The name used in model descriptions and messages.
    pub const fn name(self) -> &'static str {
        match self {
            ResizeMode::Letterbox => "letterbox",
            ResizeMode::LetterboxTopLeft => "letterbox-top-left",
            ResizeMode::Stretch => "stretch",
            ResizeMode::Crop => "crop",
        }
    }
}

impl fmt::Display for ResizeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The placement of a source picture in a model input: `model = source * scale + offset`, per axis, in continuous
/// coordinates (pixel `i` covers `i..i+1`). Made once a frame size; used by the resize and by the way back.
///
/// For the letterbox modes `scale` is the ratio asked for, the same on both axes, as in the code that trained and
/// evaluated the models; rounding the resized size to whole pixels makes the picture itself up to one model pixel
/// smaller or larger at its far edge. Stretch and crop use the ratio of the resized size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Geometry {
    mode: ResizeMode,
    source: (usize, usize),
    target: (usize, usize),
    resized: (usize, usize),
    offset: (isize, isize),
    scale: (f64, f64),
}

impl Geometry {
    /// The placement of a `source` (width, height) picture in a `target` (width, height) input. Errors when a side is 0
    /// or beyond [`Pixels::MAX_SIDE`].
    ///
    /// Rounding follows the training code the models come from: `Letterbox` rounds the resized size half to even and
    /// the left and top padding as `round(rest / 2 - 0.1)`, `LetterboxTopLeft` truncates the resized size.
    pub fn new(source: (usize, usize), target: (usize, usize), mode: ResizeMode) -> Result<Self> {
        for (what, (w, h)) in [("picture", source), ("model input", target)] {
            if !(1..=Pixels::MAX_SIDE).contains(&w) || !(1..=Pixels::MAX_SIDE).contains(&h) {
                return Err(Error::new(
                    ErrorKind::Size,
                    format!("a {what} of {w}x{h} found, sides of 1 to {} are possible", Pixels::MAX_SIDE),
                ));
            }
        }
        let ratio = (target.0 as f64 / source.0 as f64, target.1 as f64 / source.1 as f64);
        let fit = ratio.0.min(ratio.1);
        let (resized, offset) = match mode {
            ResizeMode::Letterbox => {
                let side = |s: usize, t: usize| ((s as f64 * fit).round_ties_even() as usize).clamp(1, t);
                let resized = (side(source.0, target.0), side(source.1, target.1));
                let pad = |t: usize, r: usize| ((t - r) as f64 / 2.0 - 0.1).round_ties_even() as isize;
                (resized, (pad(target.0, resized.0), pad(target.1, resized.1)))
            }
            ResizeMode::LetterboxTopLeft => {
                let side = |s: usize, t: usize| ((s as f64 * fit) as usize).clamp(1, t);
                ((side(source.0, target.0), side(source.1, target.1)), (0, 0))
            }
            ResizeMode::Stretch => (target, (0, 0)),
            ResizeMode::Crop => {
                let cover = ratio.0.max(ratio.1);
                let side = |s: usize, t: usize| ((s as f64 * cover).round_ties_even() as usize).max(t);
                let resized = (side(source.0, target.0), side(source.1, target.1));
                let cut = |r: usize, t: usize| -(((r - t) / 2) as isize);
                (resized, (cut(resized.0, target.0), cut(resized.1, target.1)))
            }
        };
        let scale = match mode {
            ResizeMode::Letterbox | ResizeMode::LetterboxTopLeft => (fit, fit),
            _ => (resized.0 as f64 / source.0 as f64, resized.1 as f64 / source.1 as f64),
        };
        Ok(Geometry { mode, source, target, resized, offset, scale })
    }

    /// The mode this was made with.
    pub fn mode(&self) -> ResizeMode {
        self.mode
    }

    /// Width and height of the source picture in pixels.
    pub fn source(&self) -> (usize, usize) {
        self.source
    }

    /// Width and height of the model input in pixels.
    pub fn target(&self) -> (usize, usize) {
        self.target
    }

    /// Width and height of the whole source picture after scaling (larger than the target for [`ResizeMode::Crop`]).
    pub fn resized(&self) -> (usize, usize) {
        self.resized
    }

    /// Where the scaled picture's top left corner lies in the model input; negative when it is cut off.
    pub fn offset(&self) -> (isize, isize) {
        self.offset
    }

    /// Model pixels per source pixel, per axis.
    pub fn scale(&self) -> (f64, f64) {
        self.scale
    }

    /// Source pixels -> model pixels.
    pub fn forward(&self, (x, y): (f32, f32)) -> (f32, f32) {
        (
            (x as f64 * self.scale.0 + self.offset.0 as f64) as f32,
            (y as f64 * self.scale.1 + self.offset.1 as f64) as f32,
        )
    }

    /// Model pixels -> source pixels, not clipped.
    pub fn inverse(&self, (x, y): (f32, f32)) -> (f32, f32) {
        (
            ((x as f64 - self.offset.0 as f64) / self.scale.0) as f32,
            ((y as f64 - self.offset.1 as f64) / self.scale.1) as f32,
        )
    }

    /// Moves a point of the source into the picture. NaN becomes 0.
    pub fn clip(&self, (x, y): (f32, f32)) -> (f32, f32) {
        (x.max(0.0).min(self.source.0 as f32), y.max(0.0).min(self.source.1 as f32))
    }

    /// A box `[x1, y1, x2, y2]` in model pixels -> source pixels, clipped to the picture. A box outside the picture
    /// becomes an empty box on its border; no box is dropped.
    pub fn inverse_box(&self, b: [f32; 4]) -> [f32; 4] {
        let (x1, y1) = self.clip(self.inverse((b[0], b[1])));
        let (x2, y2) = self.clip(self.inverse((b[2], b[3])));
        [x1, y1, x2, y2]
    }

    /// A box in source pixels -> model pixels, not clipped.
    pub fn forward_box(&self, b: [f32; 4]) -> [f32; 4] {
        let (x1, y1) = self.forward((b[0], b[1]));
        let (x2, y2) = self.forward((b[2], b[3]));
        [x1, y1, x2, y2]
    }
}

/// `1920x1080 -> 640x360 at (0, 140) of 640x640 (letterbox)`.
impl fmt::Display for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (s, r, t, o) = (self.source, self.resized, self.target, self.offset);
        write!(
            f,
            "{}x{} -> {}x{} at ({}, {}) of {}x{} ({})",
            s.0, s.1, r.0, r.1, o.0, o.1, t.0, t.1, self.mode
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rounding_follows_the_training_code() {
        // (source, target, resized, offset) by the letterbox of ultralytics 8.4 (auto=False) and by YOLOX's preproc.
        let centred = [
            ((1920, 1080), (640, 640), (640, 360), (0, 140)),
            ((500, 375), (640, 640), (640, 480), (0, 80)),
            ((427, 640), (640, 640), (427, 640), (106, 0)),
            ((333, 500), (416, 416), (277, 416), (69, 0)),
            ((5000, 3), (640, 640), (640, 1), (0, 319)),
            ((1, 2000), (640, 640), (1, 640), (319, 0)),
            // 3 * 1.5 = 4.5 rounds to the even 4
            ((6, 3), (9, 9), (9, 4), (0, 2)),
        ];
        for (s, t, resized, offset) in centred {
            let g = Geometry::new(s, t, ResizeMode::Letterbox).unwrap();
            assert_eq!((g.resized(), g.offset()), (resized, offset), "{g}");
        }
        for (s, t, resized) in [
            ((333, 500), (416, 416), (277, 416)),
            ((1000, 750), (416, 416), (416, 312)),
            ((7, 9), (32, 32), (24, 32)),
        ] {
            let g = Geometry::new(s, t, ResizeMode::LetterboxTopLeft).unwrap();
            assert_eq!((g.resized(), g.offset()), (resized, (0, 0)), "{g}");
        }
        let g = Geometry::new((640, 427), (224, 224), ResizeMode::Crop).unwrap();
        assert_eq!((g.resized(), g.offset()), ((336, 224), (-56, 0)));
    }

    #[test]
    fn a_box_outside_is_clipped_not_dropped() {
        let g = Geometry::new((100, 50), (64, 64), ResizeMode::Letterbox).unwrap();
        assert_eq!(g.inverse_box([-10.0, -10.0, -5.0, 80.0]), [0.0, 0.0, 0.0, 50.0]);
        assert_eq!(
            g.inverse_box([f32::NAN, f32::NEG_INFINITY, f32::INFINITY, 32.0]),
            [0.0, 0.0, 100.0, 25.0]
        );
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (s, t) in [((0, 5), (6, 6)), ((5, 5), (0, 6)), ((70_000, 5), (6, 6))] {
            assert!(Geometry::new(s, t, ResizeMode::Stretch).is_err());
        }
    }

    fn check(s: (usize, usize), t: (usize, usize), mode: ResizeMode) {
        let g = Geometry::new(s, t, mode).unwrap();
        let (r, o) = (g.resized(), g.offset());
        assert!(r.0 >= 1 && r.1 >= 1, "{g}");
        match mode {
            ResizeMode::Crop => assert!(
                r.0 >= t.0 && r.1 >= t.1 && o.0 <= 0 && o.1 <= 0 && r.0 as isize + o.0 >= t.0 as isize,
                "{g}"
            ),
            _ => {
                assert!(o.0 >= 0 && o.1 >= 0, "{g}");
                assert!(o.0 as usize + r.0 <= t.0 && o.1 as usize + r.1 <= t.1, "{g}");
                // The padding on the two sides differs by one pixel at most.
                if mode == ResizeMode::Letterbox {
                    assert!(
                        (t.0 - r.0) as isize - 2 * o.0 <= 1 && (t.1 - r.1) as isize - 2 * o.1 <= 1,
                        "{g}"
                    );
                }
            }
        }
        // The corners of the picture land on the corners of its scaled self, up to the rounding of its size ...
        let far = g.forward((s.0 as f32, s.1 as f32));
        let off = match mode {
            ResizeMode::Letterbox => 0.51,
            ResizeMode::LetterboxTopLeft => 1.01,
            _ => 0.01,
        };
        // (a picture so flat that it would vanish keeps one pixel)
        assert!((far.0 - (r.0 as isize + o.0) as f32).abs() < off || r.0 == 1, "{g}: {far:?}");
        assert!((far.1 - (r.1 as isize + o.1) as f32).abs() < off || r.1 == 1, "{g}: {far:?}");
        // ... and every point finds its way back.
        for fx in [0.0, 0.1, 0.5, 0.77, 1.0] {
            for fy in [0.0, 0.3, 0.5, 1.0] {
                let p = (s.0 as f32 * fx, s.1 as f32 * fy);
                let q = g.inverse(g.forward(p));
                assert!((p.0 - q.0).abs() < 0.5 && (p.1 - q.1).abs() < 0.5, "{g}: {p:?} came back as {q:?}");
            }
        }
    }

    #[test]
    fn every_edge_size_finds_its_way_back() {
        let sizes = [1, 2, 3, 31, 32, 33, 319, 320, 321, 415, 639, 640, 641, 1079, 1080, 1999, 2000];
        for mode in ResizeMode::ALL {
            for &w in &sizes {
                for &h in &sizes {
                    for t in [(1, 1), (32, 32), (416, 416), (640, 640), (640, 384), (2000, 1)] {
                        check((w, h), t, mode);
                    }
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn inverse_undoes_forward(w in 1usize..=2000, h in 1usize..=2000, tw in 1usize..=2000, th in 1usize..=2000, m in 0usize..4) {
            check((w, h), (tw, th), ResizeMode::ALL[m]);
        }
    }
}
