//! Annotated pictures: boxes, labels, scores, keypoints, masks and oriented boxes, drawn into the picture.
//!
//! Lines and text grow with the picture, so that a label reads the same on a thumbnail and on a 50-megapixel photo shown
//! at the same size. Boxes are drawn first and labels last, the best object on top; a label makes way for those of better
//! objects where there is room.

mod canvas;
mod text;

use crate::{Detection, Detections, Image, Keypoint, OrientedBox, Result};
use canvas::Canvas;
use std::borrow::Cow;
use text::Text;

/// Pairs of COCO's 17 person keypoints that belong together.
const LIMBS: [(usize, usize); 18] = [
    (15, 13),
    (13, 11),
    (16, 14),
    (14, 12),
    (11, 12),
    (5, 11),
    (6, 12),
    (5, 6),
    (5, 7),
    (6, 8),
    (7, 9),
    (8, 10),
    (1, 2),
    (0, 1),
    (0, 2),
    (1, 3),
    (2, 4),
    (3, 5),
];

/// How sure a keypoint must be to be drawn.
const VISIBLE: f32 = 0.5;

/// One object to be drawn, wherever it comes from: for results that are no [`Detections`], such as tracks.
#[derive(Clone, Copy, Debug)]
pub struct Mark<'a> {
    /// Left, top, right, bottom in pixels.
    pub bbox: [f32; 4],
    /// The turned box, drawn in place of the upright one.
    pub oriented: Option<OrientedBox>,
    /// Colour of the box and its label's plate.
    pub color: [u8; 3],
    /// The label; no plate if empty.
    pub text: &'a str,
    /// Points of a pose.
    pub keypoints: &'a [Keypoint],
    /// Where it was, oldest first: a line through these points.
    pub trail: &'a [(f32, f32)],
}

/// Line width and text height for a picture.
struct Pen {
    line: f32,
    size: f32,
}

impl Pen {
    fn of(picture: &Image) -> Pen {
        let side = ((picture.width() * picture.height()) as f32).sqrt();
        Pen { line: (side / 250.0).round().max(1.0), size: (side / 36.0).clamp(11.0, 400.0) }
    }
}

/// Draws results into pictures. Made once; holds the font.
pub struct Annotator {
    text: Text,
}

impl Annotator {
    /// With the built-in font (DejaVu Sans Mono).
    pub fn new() -> Result<Self> {
        Ok(Annotator { text: Text::new()? })
    }

    /// Draws `found` into `picture`; `label` names a class (usually [`crate::Head::label`]).
    pub fn draw<'a>(&self, picture: &mut Image, found: &Detections, label: impl Fn(u32) -> Cow<'a, str>) {
        let pen = Pen::of(picture);
        let mut canvas = Canvas::new(picture);
        // Weak ones first, so that strong ones lie on top.
        for d in found.items().iter().rev() {
            if let Some(mask) = found.mask(d) {
                canvas.blend(d.bbox, color(d.class), 0.45, |x, y| mask.contains(x, y));
            }
        }
        for d in found.items().iter().rev() {
            self.outline(&mut canvas, d.bbox, d.oriented, color(d.class), &pen);
            self.points(&mut canvas, found.keypoints(d), &pen);
        }
        let text = |d: &Detection| format!("{} {:.2}", label(d.class), d.score);
        self.plates(&mut canvas, found.items().iter().map(|d| (d.bbox, color(d.class), text(d))), &pen);
    }

    /// Draws `marks` into `picture`, the first one on top.
    pub fn marks(&self, picture: &mut Image, marks: &[Mark<'_>]) {
        let pen = Pen::of(picture);
        let mut canvas = Canvas::new(picture);
        for m in marks.iter().rev() {
            m.trail.windows(2).for_each(|w| canvas.segment(w[0], w[1], pen.line, m.color));
        }
        for m in marks.iter().rev() {
            self.outline(&mut canvas, m.bbox, m.oriented, m.color, &pen);
            self.points(&mut canvas, m.keypoints, &pen);
        }
        let labelled = marks.iter().filter(|m| !m.text.is_empty());
        self.plates(&mut canvas, labelled.map(|m| (m.bbox, m.color, m.text.to_owned())), &pen);
    }

    /// Labels, the first one on top and in its usual place.
    fn plates(
        &self,
        canvas: &mut Canvas<'_>,
        labels: impl Iterator<Item = ([f32; 4], [u8; 3], String)>,
        pen: &Pen,
    ) {
        let mut plates: Vec<Plate> = Vec::new();
        for (bbox, c, text) in labels {
            let plate = self.place(canvas, bbox, c, text, pen, &plates);
            plates.push(plate);
        }
        for plate in plates.iter().rev() {
            canvas.fill(plate.sides, plate.color);
            let ink = if luminance(plate.color) > 140.0 { [0; 3] } else { [255; 3] };
            let [x, y, ..] = plate.sides;
            self.text.draw(canvas, &plate.text, (x + plate.pad, y + plate.pad / 2.0), plate.size, ink);
        }
    }

    fn outline(
        &self,
        canvas: &mut Canvas<'_>,
        bbox: [f32; 4],
        oriented: Option<OrientedBox>,
        c: [u8; 3],
        pen: &Pen,
    ) {
        match oriented {
            Some(turned) => {
                let k = turned.corners();
                (0..4).for_each(|i| canvas.segment(k[i], k[(i + 1) % 4], pen.line, c));
            }
            None => canvas.frame(bbox, pen.line as usize, c),
        }
    }

    fn points(&self, canvas: &mut Canvas<'_>, points: &[Keypoint], pen: &Pen) {
        let line = pen.line;
        if points.len() == 17 {
            for (i, &(a, b)) in LIMBS.iter().enumerate() {
                let (a, b) = (points[a], points[b]);
                if a.score > VISIBLE && b.score > VISIBLE {
                    canvas.segment((a.x, a.y), (b.x, b.y), line, color(i as u32 + 3));
                }
            }
        }
        for (i, p) in points.iter().enumerate().filter(|(_, p)| p.score > VISIBLE) {
            canvas.disc((p.x, p.y), line * 1.5 + 1.0, [255; 3]);
            canvas.disc((p.x, p.y), line * 1.5, color(i as u32 + 3));
        }
    }

    /// The label on a filled plate, always inside the picture: above the box from its left edge on, unless that covers a
    /// plate of `others` and another place does not: above it up to its right edge, below it, inside its top or bottom.
    fn place(
        &self,
        canvas: &Canvas<'_>,
        bbox: [f32; 4],
        color: [u8; 3],
        text: String,
        pen: &Pen,
        others: &[Plate],
    ) -> Plate {
        let Pen { line, size } = *pen;
        let pad = (size * 0.2).ceil();
        let (pw, ph) = (canvas.width() as f32, canvas.height() as f32);
        let (mut size, mut width) = (size, self.text.width(&text, size));
        if width + 2.0 * pad > pw {
            // A label wider than the picture shrinks, down to what can still be read.
            size = (size * (pw - 2.0 * pad) / width).max(8.0);
            width = self.text.width(&text, size);
        }
        let (w, h) = ((width + 2.0 * pad).ceil(), (size + pad).ceil());
        let half = line / 2.0;
        let [left, top, right, bottom] = bbox;
        let at = |x: f32, y: f32| {
            let (x, y) = (x.min(pw - w).max(0.0).floor(), y.min(ph - h).max(0.0).floor());
            [x, y, x + w, y + h]
        };
        let (from_left, to_right) = (left - half, right + half - w);
        let (above, inside) = (top - half - h, top + half);
        let (below, inside_below) = (bottom + half, bottom - half - h);
        let fits = |y: f32| y >= 0.0 && y + h <= ph;
        let places = [
            (from_left, above),
            (to_right, above),
            (from_left, below),
            (to_right, below),
            (from_left, inside),
            (from_left, inside_below),
        ];
        let free = |r: &[f32; 4]| {
            !others.iter().any(|o| {
                let o = o.sides;
                r[0] < o[2] && o[0] < r[2] && r[1] < o[3] && o[1] < r[3]
            })
        };
        let possible = places.into_iter().filter(|p| fits(p.1)).map(|(x, y)| at(x, y));
        let usual = if above >= 0.0 { at(from_left, above) } else { at(from_left, inside) };
        let sides = if free(&usual) { usual } else { possible.into_iter().find(free).unwrap_or(usual) };
        Plate { sides, text, size, pad, color }
    }
}

/// A label and its place.
struct Plate {
    sides: [f32; 4],
    text: String,
    size: f32,
    pad: f32,
    color: [u8; 3],
}

/// The colour of a class: hues a golden angle apart, so that near class numbers look unlike, in three brightnesses.
pub fn color(class: u32) -> [u8; 3] {
    let hue = (f64::from(class) * 0.618_033_988_749_895 + 0.02).fract() * 6.0;
    let (saturation, value) = [(0.95, 0.95), (0.6, 1.0), (1.0, 0.65)][(class as usize / 8) % 3];
    let channel = |n: f64| {
        let k = (n + hue) % 6.0;
        let v: f64 = value - value * saturation * k.min(4.0 - k).clamp(0.0, 1.0);
        (v * 255.0).round() as u8
    };
    [channel(5.0), channel(3.0), channel(1.0)]
}

/// ITU-R BT.601 luma.
fn luminance([r, g, b]: [u8; 3]) -> f32 {
    0.299 * f32::from(r) + 0.587 * f32::from(g) + 0.114 * f32::from(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(boxes: &[[f32; 4]]) -> Detections {
        let mut out = Detections::new();
        for (i, &bbox) in boxes.iter().enumerate() {
            out.items.push(Detection {
                class: i as u32,
                score: 0.9 - i as f32 * 0.1,
                bbox,
                oriented: None,
                keypoints: (0, 0),
                mask: None,
            });
        }
        out
    }

    fn gray(w: usize, h: usize) -> Image {
        Image::from_rgb(w, h, vec![90; w * h * 3]).unwrap()
    }

    #[test]
    fn a_box_is_a_crisp_frame_of_its_colour() {
        let mut p = gray(320, 320);
        Annotator::new().unwrap().draw(&mut p, &found(&[[100.0, 120.0, 200.0, 260.0]]), |_| "cat".into());
        assert_eq!(p.pixel(150, 259), Some(color(0)), "bottom edge");
        assert_eq!(p.pixel(100, 200), Some(color(0)), "left edge");
        assert_eq!(p.pixel(199, 200), Some(color(0)), "right edge");
        assert_eq!(p.pixel(150, 200), Some([90; 3]), "inside");
        assert_eq!(p.pixel(150, 261), Some([90; 3]), "below");
        // The plate stands above the box, and holds text in another colour.
        let plate: Vec<_> = (106..120)
            .flat_map(|y| (100..160).map(move |x| (x, y)))
            .map(|(x, y)| p.pixel(x, y).unwrap())
            .collect();
        assert!(plate.iter().filter(|&&c| c == color(0)).count() > 100);
        assert!(plate.iter().any(|&c| luminance(c) < 60.0 || luminance(c) > 230.0));
    }

    /// The same objects give the same picture, whichever way they come.
    #[test]
    fn marks_look_like_detections() {
        let a = Annotator::new().unwrap();
        let f = found(&[[30.0, 60.0, 200.0, 260.0], [100.0, 20.0, 300.0, 160.0]]);
        let (mut want, mut got) = (gray(320, 320), gray(320, 320));
        a.draw(&mut want, &f, |c| format!("thing {c}").into());
        let texts: Vec<String> =
            f.items().iter().map(|d| format!("thing {} {:.2}", d.class, d.score)).collect();
        let mark = |(d, text): (&Detection, &'_ String)| (d.bbox, color(d.class), text.clone());
        let parts: Vec<_> = f.items().iter().zip(&texts).map(mark).collect();
        let mut marks: Vec<Mark<'_>> = parts
            .iter()
            .map(|(bbox, color, text)| Mark {
                bbox: *bbox,
                oriented: None,
                color: *color,
                text,
                keypoints: &[],
                trail: &[],
            })
            .collect();
        a.marks(&mut got, &marks);
        assert!(want == got);
        // A trail lies below the boxes, in the object's colour.
        marks[0].trail = &[(10.0, 300.5), (60.0, 300.5), (60.0, 310.0)];
        a.marks(&mut got, &marks);
        assert_eq!(got.pixel(40, 300), Some(color(0)));
        assert_eq!(got.pixel(40, 305), Some([90; 3]));
    }

    #[test]
    fn labels_make_way_for_better_ones() {
        let a = Annotator::new().unwrap();
        let mut p = gray(400, 400);
        let canvas = Canvas::new(&mut p);
        // One box in another, a third over both: their labels would lie on each other.
        let f = found(&[
            [100.0, 120.0, 220.0, 260.0],
            [110.0, 125.0, 200.0, 250.0],
            [104.0, 110.0, 230.0, 290.0],
        ]);
        let mut plates = Vec::new();
        for d in f.items() {
            let plate = a.place(
                &canvas,
                d.bbox,
                color(d.class),
                "person 0.90".into(),
                &Pen { line: 2.0, size: 11.0 },
                &plates,
            );
            plates.push(plate);
        }
        assert_eq!(plates[0].sides[3], 119.0, "the best one is where it always is");
        for (i, one) in plates.iter().enumerate() {
            for other in &plates[..i] {
                assert_eq!(crate::iou(&one.sides, &other.sides), 0.0, "{:?} {:?}", one.sides, other.sides);
            }
        }
        // Without room they stay where they are.
        let mut p = gray(100, 20);
        let canvas = Canvas::new(&mut p);
        let crowd = found(&[[0.0, 0.0, 100.0, 20.0]; 3]);
        let mut plates = Vec::new();
        for d in crowd.items() {
            let plate = a.place(
                &canvas,
                d.bbox,
                color(d.class),
                "person 0.90".into(),
                &Pen { line: 1.0, size: 11.0 },
                &plates,
            );
            plates.push(plate);
        }
        assert_eq!(plates[2].sides, plates[0].sides);
    }

    #[test]
    fn no_picture_or_box_is_too_small_or_too_far() {
        let a = Annotator::new().unwrap();
        for (w, h) in [(1, 1), (1, 500), (500, 1), (7, 3), (64, 64)] {
            let mut p = gray(w, h);
            let (fw, fh) = (w as f32, h as f32);
            let mut f = found(&[
                [0.0, 0.0, fw, fh],
                [fw, fh, fw, fh],
                [0.0, 0.0, 0.0, 0.0],
                [0.2, 0.4, fw - 0.3, fh - 0.1],
            ]);
            f.items[1].oriented = Some(OrientedBox { center: (1e9, -1e9), size: (1e12, 5.0), angle: 1.0 });
            f.items[2].oriented =
                Some(OrientedBox { center: (fw / 2.0, fh / 2.0), size: (0.0, 0.0), angle: 0.0 });
            a.draw(&mut p, &f, |_| "a very long label \u{732b}\u{7} that fits nowhere".into());
        }
    }

    #[test]
    fn neighbouring_classes_look_unlike() {
        for i in 0..80u32 {
            for j in i + 1..(i + 6).min(80) {
                let d: i32 =
                    color(i).iter().zip(color(j)).map(|(a, b)| (i32::from(*a) - i32::from(b)).abs()).sum();
                assert!(d > 60, "{i} {:?} and {j} {:?}", color(i), color(j));
            }
        }
    }
}
