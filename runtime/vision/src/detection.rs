//! What a head finds in one picture.

use crate::nms::{Candidate, NmsScratch};
use saltica_tensor::Geometry;

/// One object. Coordinates are source pixels, clipped to the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detection {
    /// Class number, from 0.
    pub class: u32,
    /// 0..1.
    pub score: f32,
    /// Left, top, right, bottom. For an oriented box: the upright box around it.
    pub bbox: [f32; 4],
    /// The oriented box, if the model finds such.
    pub oriented: Option<OrientedBox>,
    /// Where its keypoints lie in [`Detections::all_keypoints`]: first and count.
    pub(crate) keypoints: (u32, u32),
    /// Which of [`Detections::masks`] is its mask.
    pub(crate) mask: Option<u32>,
}

/// A box turned by an angle, in source pixels; not clipped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OrientedBox {
    /// Centre.
    pub center: (f32, f32),
    /// Size along the box's own axes.
    pub size: (f32, f32),
    /// From the x axis to the box's width axis, radians, clockwise as seen (y points down).
    pub angle: f32,
}

impl OrientedBox {
    /// The four corners, in order around the box.
    pub fn corners(&self) -> [(f32, f32); 4] {
        let (sin, cos) = self.angle.sin_cos();
        let (hw, hh) = (self.size.0 / 2.0, self.size.1 / 2.0);
        [(-hw, -hh), (hw, -hh), (hw, hh), (-hw, hh)]
            .map(|(u, v)| (self.center.0 + u * cos - v * sin, self.center.1 + u * sin + v * cos))
    }
}

/// A point of a pose or a face, in source pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keypoint {
    /// Column.
    pub x: f32,
    /// Row.
    pub y: f32,
    /// How sure the model is that the point is visible, 0..1 (1 if the model does not say).
    pub score: f32,
}

/// The outline of an object as logits at the model's mask resolution, cropped to its box; positive is inside.
/// [`Self::contains`] reads it at any source pixel.
#[derive(Clone, Debug, PartialEq)]
pub struct Mask {
    pub(crate) geometry: Geometry,
    /// Mask cells per model pixel, per axis.
    pub(crate) cells: (f32, f32),
    /// First cell, and number of cells, of the crop.
    pub(crate) origin: (usize, usize),
    pub(crate) size: (usize, usize),
    pub(crate) bbox: [f32; 4],
    pub(crate) logits: Vec<f32>,
}

impl Mask {
    /// The logit at a point of the source picture, bilinear between cell centres; negative infinity outside the box.
    pub fn logit(&self, x: f32, y: f32) -> f32 {
        let [x1, y1, x2, y2] = self.bbox;
        if !(x >= x1 && x < x2 && y >= y1 && y < y2) || self.size.0 == 0 || self.size.1 == 0 {
            return f32::NEG_INFINITY;
        }
        let (mx, my) = self.geometry.forward((x, y));
        let axis = |p: f32, cells: f32, origin: usize, size: usize| {
            let p = (p * cells - 0.5 - origin as f32).clamp(0.0, (size - 1) as f32);
            let i = (p as usize).min(size.saturating_sub(2));
            (i, (i + 1).min(size - 1), p - i as f32)
        };
        let (x0, x1, fx) = axis(mx, self.cells.0, self.origin.0, self.size.0);
        let (y0, y1, fy) = axis(my, self.cells.1, self.origin.1, self.size.1);
        let at = |x: usize, y: usize| self.logits[y * self.size.0 + x];
        let above = at(x0, y0) * (1.0 - fx) + at(x1, y0) * fx;
        let below = at(x0, y1) * (1.0 - fx) + at(x1, y1) * fx;
        above * (1.0 - fy) + below * fy
    }

    /// The mask as one byte a pixel, 1 inside, for the whole pixels its box touches: replaces what `out` holds and
    /// returns the column, row, width and height of that window of the source picture.
    pub fn rasterize(&self, out: &mut Vec<u8>) -> (usize, usize, usize, usize) {
        let [x1, y1, x2, y2] = self.bbox;
        let (left, top) = (x1.floor() as usize, y1.floor() as usize);
        let (right, bottom) = ((x2.ceil() as usize).max(left), (y2.ceil() as usize).max(top));
        out.clear();
        for y in top..bottom {
            out.extend((left..right).map(|x| u8::from(self.contains(x, y))));
        }
        (left, top, right - left, bottom - top)
    }

    /// Whether the source pixel at column `x`, row `y` belongs to the object (judged at its centre).
    pub fn contains(&self, x: usize, y: usize) -> bool {
        self.logit(x as f32 + 0.5, y as f32 + 0.5) > 0.0
    }

    /// Number of source pixels inside.
    pub fn area(&self) -> usize {
        let [x1, y1, x2, y2] = self.bbox;
        let rows = y1.floor() as usize..y2.ceil() as usize;
        rows.map(|y| (x1.floor() as usize..x2.ceil() as usize).filter(|&x| self.contains(x, y)).count()).sum()
    }
}

/// What a head found in one picture, best first. Made once and reused: after the first pictures, decoding into it
/// allocates nothing.
#[derive(Debug, Default)]
pub struct Detections {
    pub(crate) items: Vec<Detection>,
    pub(crate) keypoints: Vec<Keypoint>,
    pub(crate) masks: Vec<Mask>,
    pub(crate) masks_used: usize,
    pub(crate) dropped: usize,
    pub(crate) capped: usize,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) scratch: NmsScratch,
    pub(crate) values: Vec<f32>,
}

impl Detections {
    /// Nothing found yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The objects, best score first (classes by score for a classifier).
    pub fn items(&self) -> &[Detection] {
        &self.items
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The keypoints of an object of this result (empty if the model has none).
    pub fn keypoints(&self, of: &Detection) -> &[Keypoint] {
        let (first, count) = of.keypoints;
        self.keypoints.get(first as usize..first as usize + count as usize).unwrap_or(&[])
    }

    /// The mask of an object of this result.
    pub fn mask(&self, of: &Detection) -> Option<&Mask> {
        self.masks.get(of.mask? as usize)
    }

    /// Candidates dropped because a score or a coordinate was NaN or infinite.
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// Candidates above the threshold that were left out because there were more than `max_candidates`.
    pub fn capped(&self) -> usize {
        self.capped
    }

    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.keypoints.clear();
        self.masks_used = 0;
        self.dropped = 0;
        self.capped = 0;
        self.candidates.clear();
    }

    /// Adds a mask, reusing the buffers of an earlier result; `fill` writes the logits.
    pub(crate) fn push_mask(
        &mut self,
        geometry: Geometry,
        cells: (f32, f32),
        origin: (usize, usize),
        size: (usize, usize),
        bbox: [f32; 4],
        fill: impl FnOnce(&mut [f32]),
    ) -> u32 {
        if self.masks_used == self.masks.len() {
            self.masks.push(Mask { geometry, cells, origin, size, bbox, logits: Vec::new() });
        }
        let mask = &mut self.masks[self.masks_used];
        (mask.geometry, mask.cells, mask.origin, mask.size, mask.bbox) =
            (geometry, cells, origin, size, bbox);
        mask.logits.clear();
        mask.logits.resize(size.0 * size.1, 0.0);
        fill(&mut mask.logits);
        self.masks_used += 1;
        self.masks_used as u32 - 1
    }
}
