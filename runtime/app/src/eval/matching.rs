//! Which found box is which marked object: the greedy matching of one image and category.

use super::{Annotation, Detection};

/// The ten overlaps at which a box counts as found, 0.50 to 0.95. Computed as numpy's `linspace` does, bit for bit.
pub(super) fn iou_thresholds() -> [f64; 10] {
    let step = (0.95 - 0.5) / 9.0;
    let mut t: [f64; 10] = std::array::from_fn(|i| i as f64 * step + 0.5);
    t[9] = 0.95;
    t
}

/// COCO's object sizes in square pixels, both ends included: all, small, medium, large.
pub(super) const AREAS: [[f64; 2]; 4] =
    [[0.0, 1e10], [0.0, 32.0 * 32.0], [32.0 * 32.0, 96.0 * 96.0], [96.0 * 96.0, 1e10]];

/// Most boxes of one category that count in one image.
pub(super) const MAX_DETECTIONS: usize = 100;

/// What became of the boxes of one image and category, for one range of areas.
#[derive(Clone, Debug, Default)]
pub(super) struct Matches {
    /// Objects that count (neither crowds nor out of the range).
    pub positives: usize,
    /// `outcomes[t][d]` for threshold `t` and the `d`-th best box.
    pub outcomes: Vec<Vec<Outcome>>,
}

/// What one found box counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is an object that counts.
    True,
    /// It is none.
    False,
    /// It counts neither way: in a crowd, or out of the range of areas.
    Ignored,
}

/// One image's objects and found boxes of one category, and how they overlap.
pub(super) struct Cell<'a> {
    objects: Vec<&'a Annotation>,
    found: Vec<&'a Detection>,
    /// Row a found box, column an object.
    ious: Vec<f64>,
}

impl<'a> Cell<'a> {
    /// Sorts the boxes best first (equal scores keep their order) and keeps the best hundred.
    pub(super) fn new(objects: Vec<&'a Annotation>, mut found: Vec<&'a Detection>) -> Self {
        found.sort_by(|a, b| descending(a.score, b.score));
        found.truncate(MAX_DETECTIONS);
        let ious =
            found.iter().flat_map(|d| objects.iter().map(|o| overlap(&d.bbox, &o.bbox, o.crowd))).collect();
        Cell { objects, found, ious }
    }

    /// Scores, best first.
    pub(super) fn scores(&self) -> impl Iterator<Item = f64> {
        self.found.iter().map(|d| d.score)
    }

    /// Matches within a range of areas.
    pub(super) fn matches(&self, [low, high]: [f64; 2]) -> Matches {
        let outside = |area: f64| area < low || area > high;
        let ignored: Vec<bool> = self.objects.iter().map(|o| o.crowd || outside(o.area)).collect();
        // Objects that count come first, so that a box takes an ignored one only if no other fits.
        let mut order: Vec<usize> = (0..self.objects.len()).collect();
        order.sort_by_key(|&o| ignored[o]);

        let outcomes = iou_thresholds()
            .iter()
            .map(|&threshold| {
                let mut taken = vec![false; self.objects.len()];
                self.found
                    .iter()
                    .enumerate()
                    .map(|(d, found)| match self.best(d, threshold, &order, &ignored, &taken) {
                        Some(o) => {
                            taken[o] = true;
                            if ignored[o] { Outcome::Ignored } else { Outcome::True }
                        }
                        None if outside(found.bbox[2] * found.bbox[3]) => Outcome::Ignored,
                        None => Outcome::False,
                    })
                    .collect()
            })
            .collect();
        Matches { positives: ignored.iter().filter(|&&i| !i).count(), outcomes }
    }

    /// The free object that box `d` overlaps most, at least by `threshold`; of equals the last. A crowd is never used up.
    fn best(
        &self,
        d: usize,
        threshold: f64,
        order: &[usize],
        ignored: &[bool],
        taken: &[bool],
    ) -> Option<usize> {
        let mut least = threshold.min(1.0 - 1e-10);
        let mut best = None;
        for &o in order {
            if taken[o] && !self.objects[o].crowd {
                continue;
            }
            if ignored[o] && best.is_some_and(|b: usize| !ignored[b]) {
                break;
            }
            let iou = self.ious[d * self.objects.len() + o];
            if iou >= least {
                (least, best) = (iou, Some(o));
            }
        }
        best
    }
}

/// Larger scores first; for finite scores (-0 equals 0).
pub(super) fn descending(a: f64, b: f64) -> std::cmp::Ordering {
    b.partial_cmp(&a).unwrap_or(std::cmp::Ordering::Equal)
}

/// Intersection over union of two boxes (x, y, width, height); over the first box's own area where the second is a crowd.
fn overlap(found: &[f64; 4], object: &[f64; 4], crowd: bool) -> f64 {
    let w = (found[0] + found[2]).min(object[0] + object[2]) - found[0].max(object[0]);
    let h = (found[1] + found[3]).min(object[1] + object[3]) - found[1].max(object[1]);
    if w <= 0.0 || h <= 0.0 {
        return 0.0;
    }
    let common = w * h;
    let area = found[2] * found[3];
    common / if crowd { area } else { area + object[2] * object[3] - common }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(bbox: [f64; 4], crowd: bool) -> Annotation {
        Annotation { image_id: 1, category_id: 1, bbox, area: bbox[2] * bbox[3], crowd }
    }

    fn found(bbox: [f64; 4], score: f64) -> Detection {
        Detection { image_id: 1, category_id: 1, bbox, score }
    }

    #[test]
    fn thresholds_are_numpys() {
        // numpy 2.4: list(numpy.linspace(.5, .95, 10)).
        let numpys = [0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.8999999999999999, 0.95];
        assert_eq!(iou_thresholds(), numpys);
    }

    #[test]
    fn overlap_by_hand() {
        assert_eq!(overlap(&[0., 0., 2., 2.], &[1., 1., 2., 2.], false), 1.0 / 7.0);
        assert_eq!(overlap(&[0., 0., 2., 2.], &[1., 1., 2., 2.], true), 0.25);
        assert_eq!(overlap(&[0., 0., 1., 1.], &[1., 0., 1., 1.], false), 0.0);
        assert_eq!(overlap(&[0., 0., 0., 0.], &[0., 0., 0., 0.], false), 0.0);
    }

    #[test]
    fn a_crowd_takes_any_number_and_an_object_only_one() {
        let objects = [object([0., 0., 40., 40.], false), object([100., 0., 80., 80.], true)];
        let boxes = [
            found([0., 0., 40., 40.], 0.9),
            found([0., 0., 40., 40.], 0.8),
            found([100., 0., 40., 40.], 0.7),
            found([140., 40., 40., 40.], 0.6),
        ];
        let m = Cell::new(objects.iter().collect(), boxes.iter().collect()).matches(AREAS[0]);
        assert_eq!(m.positives, 1);
        assert_eq!(m.outcomes[0], [Outcome::True, Outcome::False, Outcome::Ignored, Outcome::Ignored]);
    }

    #[test]
    fn only_the_best_hundred_count() {
        let boxes: Vec<_> = (0..150).map(|i| found([0., 0., 1., 1.], i as f64)).collect();
        let cell = Cell::new(vec![], boxes.iter().collect());
        let scores: Vec<f64> = cell.scores().collect();
        assert_eq!((scores.len(), scores[0], scores[99]), (100, 149.0, 50.0));
    }
}
