//! Class-aware greedy non-maximum suppression with a total order.

use crate::detection::OrientedBox;
use std::cmp::Ordering;

/// A box that passed the threshold, in model pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) score: f32,
    pub(crate) class: u32,
    /// Position in the head's output; breaks ties and finds keypoints and masks again.
    pub(crate) index: u32,
    /// Left, top, right, bottom; before rotation for oriented boxes.
    pub(crate) bbox: [f32; 4],
    /// Radians; 0 for upright boxes.
    pub(crate) angle: f32,
}

impl Candidate {
    /// Best first: score, then class, then position. Total because scores are finite and a head gives each pair of
    /// class and position once.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        other
            .score
            .total_cmp(&self.score)
            .then(self.class.cmp(&other.class))
            .then(self.index.cmp(&other.index))
    }

    fn oriented(&self) -> OrientedBox {
        let [x1, y1, x2, y2] = self.bbox;
        OrientedBox {
            center: ((x1 + x2) / 2.0, (y1 + y2) / 2.0),
            size: (x2 - x1, y2 - y1),
            angle: self.angle,
        }
    }
}

/// Which overlap counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlap {
    /// Upright boxes.
    Upright,
    /// Boxes turned by their angles.
    Oriented,
    /// The model has done the suppression itself.
    None,
}

/// Buffers of [`suppress`].
#[derive(Debug, Default)]
pub(crate) struct NmsScratch {
    /// Per class: the last box kept (+1), or 0.
    last: Vec<u32>,
    /// Per kept box: the one of its class kept before it (+1), or 0.
    before: Vec<u32>,
}

/// Intersection over union of two upright boxes; 0 where the union is empty.
pub fn iou(a: &[f32; 4], b: &[f32; 4]) -> f32 {
    let w = (a[2].min(b[2]) - a[0].max(b[0])).max(0.0);
    let h = (a[3].min(b[3]) - a[1].max(b[1])).max(0.0);
    let both = w * h;
    let area = |r: &[f32; 4]| (r[2] - r[0]).max(0.0) * (r[3] - r[1]).max(0.0);
    let union = area(a) + area(b) - both;
    if union > 0.0 { both / union } else { 0.0 }
}

/// Intersection over union of two oriented boxes, exact: the one box is clipped by the sides of the other
/// (Sutherland and Hodgman 1974) and the area taken by the shoelace formula.
pub fn oriented_iou(a: &OrientedBox, b: &OrientedBox) -> f32 {
    let area = |r: &OrientedBox| f64::from(r.size.0.max(0.0)) * f64::from(r.size.1.max(0.0));
    let (area_a, area_b) = (area(a), area(b));
    if area_a <= 0.0 || area_b <= 0.0 {
        return 0.0;
    }
    // In b's own frame b is upright and centred, so its sides are four half-planes.
    let (sin, cos) = f64::from(b.angle).sin_cos();
    let (half_w, half_h) = (f64::from(b.size.0) / 2.0, f64::from(b.size.1) / 2.0);
    let (sin_a, cos_a) = f64::from(a.angle).sin_cos();
    let (aw, ah) = (f64::from(a.size.0) / 2.0, f64::from(a.size.1) / 2.0);
    let (dx, dy) =
        (f64::from(a.center.0) - f64::from(b.center.0), f64::from(a.center.1) - f64::from(b.center.1));
    // Clipping by four lines adds at most one corner each.
    let mut polygon = [(0.0f64, 0.0f64); 8];
    for (p, (u, v)) in polygon.iter_mut().zip([(-aw, -ah), (aw, -ah), (aw, ah), (-aw, ah)]) {
        let (x, y) = (dx + u * cos_a - v * sin_a, dy + u * sin_a + v * cos_a);
        *p = (x * cos + y * sin, y * cos - x * sin);
    }
    let mut n = 4;
    for side in 0..4 {
        // Distance to the inside of one side; negative is outside.
        let inside = |p: (f64, f64)| match side {
            0 => half_w - p.0,
            1 => half_w + p.0,
            2 => half_h - p.1,
            _ => half_h + p.1,
        };
        let mut cut = [(0.0, 0.0); 8];
        let mut m = 0;
        for i in 0..n {
            let (p, q) = (polygon[i], polygon[(i + 1) % n]);
            let (dp, dq) = (inside(p), inside(q));
            let mut push = |point| {
                if m < cut.len() {
                    cut[m] = point;
                    m += 1;
                }
            };
            if dp >= 0.0 {
                push(p);
            }
            if (dp > 0.0 && dq < 0.0) || (dp < 0.0 && dq > 0.0) {
                let t = dp / (dp - dq);
                push((p.0 + (q.0 - p.0) * t, p.1 + (q.1 - p.1) * t));
            }
        }
        (polygon, n) = (cut, m);
        if n == 0 {
            return 0.0;
        }
    }
    let twice: f64 = (0..n)
        .map(|i| {
            let (p, q) = (polygon[i], polygon[(i + 1) % n]);
            p.0 * q.1 - q.0 * p.1
        })
        .sum();
    let both = (twice.abs() / 2.0).min(area_a).min(area_b);
    (both / (area_a + area_b - both)) as f32
}

/// Sorts the candidates, best first, and keeps each one that overlaps no better kept one of its class (of any class if
/// `agnostic`) by more than `limit`, up to `max` of them.
pub(crate) fn suppress(
    candidates: &mut Vec<Candidate>,
    scratch: &mut NmsScratch,
    overlap: Overlap,
    limit: f32,
    agnostic: bool,
    max: usize,
) {
    candidates.sort_unstable_by(Candidate::order);
    if overlap == Overlap::None {
        candidates.truncate(max);
        return;
    }
    let NmsScratch { last, before } = scratch;
    last.clear();
    before.clear();
    let mut kept = 0;
    for i in 0..candidates.len() {
        if kept == max {
            break;
        }
        let c = candidates[i];
        let class = if agnostic { 0 } else { c.class as usize };
        if class >= last.len() {
            last.resize(class + 1, 0);
        }
        let mut at = last[class];
        let free = loop {
            let Some(k) = (at as usize).checked_sub(1) else { break true };
            let better = &candidates[k];
            let shared = match overlap {
                Overlap::Oriented => oriented_iou(&c.oriented(), &better.oriented()),
                _ => iou(&c.bbox, &better.bbox),
            };
            if shared > limit {
                break false;
            }
            at = before[k];
        };
        if free {
            candidates[kept] = c;
            before.push(last[class]);
            kept += 1;
            last[class] = kept as u32;
        }
    }
    candidates.truncate(kept);
}

/// Leaves the best `most` candidates, in no order. Returns how many were left out.
pub(crate) fn cap(candidates: &mut Vec<Candidate>, most: usize) -> usize {
    let over = candidates.len().saturating_sub(most);
    if over > 0 {
        if most > 0 {
            candidates.select_nth_unstable_by(most - 1, Candidate::order);
        }
        candidates.truncate(most);
    }
    over
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate(score: f32, class: u32, index: u32, bbox: [f32; 4]) -> Candidate {
        Candidate { score, class, index, bbox, angle: 0.0 }
    }

    /// The definition, written down: every pair is looked at.
    fn naive(all: &[Candidate], overlap: Overlap, limit: f32, agnostic: bool) -> Vec<Candidate> {
        let mut sorted = all.to_vec();
        sorted.sort_by(Candidate::order);
        let mut alive = vec![true; sorted.len()];
        for i in 0..sorted.len() {
            for j in 0..i {
                let (a, b) = (&sorted[j], &sorted[i]);
                let shared = match overlap {
                    Overlap::Oriented => oriented_iou(&b.oriented(), &a.oriented()),
                    _ => iou(&b.bbox, &a.bbox),
                };
                if alive[j] && (agnostic || a.class == b.class) && shared > limit {
                    alive[i] = false;
                }
            }
        }
        sorted.iter().zip(&alive).filter(|(_, a)| **a).map(|(c, _)| *c).collect()
    }

    #[test]
    fn iou_of_known_boxes() {
        assert_eq!(iou(&[0., 0., 2., 2.], &[1., 0., 3., 2.]), 1.0 / 3.0);
        assert_eq!(iou(&[0., 0., 2., 2.], &[2., 0., 3., 2.]), 0.0);
        assert_eq!(iou(&[1., 1., 1., 1.], &[1., 1., 1., 1.]), 0.0);
        assert_eq!(iou(&[3., 3., 1., 1.], &[0., 0., 5., 5.]), 0.0);
    }

    #[test]
    fn oriented_iou_of_known_boxes() {
        let b = |cx: f32, cy: f32, w: f32, h: f32, a: f32| OrientedBox {
            center: (cx, cy),
            size: (w, h),
            angle: a,
        };
        let close = |a: f32, b: f32| assert!((a - b).abs() < 1e-5, "{a} {b}");
        close(oriented_iou(&b(0., 0., 2., 2., 0.), &b(1., 0., 2., 2., 0.)), 1.0 / 3.0);
        // A quarter turn of a square is the same square.
        close(
            oriented_iou(&b(5., 5., 4., 4., 0.3), &b(5., 5., 4., 4., 0.3 + std::f32::consts::FRAC_PI_2)),
            1.0,
        );
        // An eighth turn leaves a regular octagon of area 8 (sqrt 2 - 1) over a square of area 4 (side 2).
        let octagon = 8.0 * (2f32.sqrt() - 1.0);
        close(
            oriented_iou(&b(0., 0., 2., 2., 0.), &b(0., 0., 2., 2., std::f32::consts::FRAC_PI_4)),
            octagon / (8.0 - octagon),
        );
        // A long box across another: a square of 1 in common.
        close(
            oriented_iou(&b(0., 0., 10., 1., 1.0), &b(0., 0., 10., 1., 1.0 + std::f32::consts::FRAC_PI_2)),
            1.0 / 19.0,
        );
        close(oriented_iou(&b(0., 0., 2., 2., 0.), &b(9., 9., 2., 2., 1.)), 0.0);
        close(oriented_iou(&b(0., 0., 0., 2., 0.), &b(0., 0., 2., 2., 1.)), 0.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn suppression_is_the_naive_one(
            raw in prop::collection::vec((0u8..20, 0u32..4, 0i16..60, 0i16..60, -2i16..30, -2i16..30, -30i16..30), 0..80),
            limit in 0.0f32..1.0, agnostic: bool, oriented: bool, max in 0usize..90,
        ) {
            // Few distinct scores, so that ties are common; negative sizes happen too.
            let all: Vec<Candidate> = raw.iter().enumerate().map(|(i, &(s, c, x, y, w, h, a))| Candidate {
                angle: if oriented { f32::from(a) / 10.0 } else { 0.0 },
                ..candidate(f32::from(s) / 20.0, c, i as u32, [x, y, x + w, y + h].map(f32::from))
            }).collect();
            let overlap = if oriented { Overlap::Oriented } else { Overlap::Upright };
            let mut want = naive(&all, overlap, limit, agnostic);
            want.truncate(max);
            let mut got = all.clone();
            let mut scratch = NmsScratch::default();
            suppress(&mut got, &mut scratch, overlap, limit, agnostic, max);
            prop_assert_eq!(&got, &want);
            // Whatever order they arrive in.
            let mut back: Vec<Candidate> = all.iter().rev().copied().collect();
            suppress(&mut back, &mut scratch, overlap, limit, agnostic, max);
            prop_assert_eq!(&back, &want);
        }

        #[test]
        fn oriented_iou_is_the_sampled_one(
            a in (-8.0f32..8.0, -8.0f32..8.0, 1.0f32..12.0, 1.0f32..12.0, -4.0f32..4.0),
            b in (-8.0f32..8.0, -8.0f32..8.0, 1.0f32..12.0, 1.0f32..12.0, -4.0f32..4.0),
        ) {
            let make = |(cx, cy, w, h, angle): (f32, f32, f32, f32, f32)| OrientedBox { center: (cx, cy), size: (w, h), angle };
            let (a, b) = (make(a), make(b));
            let inside = |r: &OrientedBox, x: f32, y: f32| {
                let (s, c) = r.angle.sin_cos();
                let (dx, dy) = (x - r.center.0, y - r.center.1);
                (dx * c + dy * s).abs() <= r.size.0 / 2.0 && (dy * c - dx * s).abs() <= r.size.1 / 2.0
            };
            let (mut both, mut any) = (0u32, 0u32);
            for i in 0..240 {
                for j in 0..240 {
                    let (x, y) = (-18.0 + i as f32 * 0.15, -18.0 + j as f32 * 0.15);
                    let (p, q) = (inside(&a, x, y), inside(&b, x, y));
                    both += u32::from(p && q);
                    any += u32::from(p || q);
                }
            }
            let sampled = both as f32 / any.max(1) as f32;
            prop_assert!((oriented_iou(&a, &b) - sampled).abs() < 0.05, "{} {}", oriented_iou(&a, &b), sampled);
            prop_assert!((oriented_iou(&a, &b) - oriented_iou(&b, &a)).abs() < 1e-5);
        }

        #[test]
        fn the_cap_keeps_the_best(scores in prop::collection::vec(0u8..50, 0..200), most in 0usize..220) {
            let all: Vec<Candidate> = scores.iter().enumerate().map(|(i, &s)| candidate(f32::from(s), 0, i as u32, [0.0; 4])).collect();
            let mut want = all.clone();
            want.sort_by(Candidate::order);
            want.truncate(most);
            let mut got = all.clone();
            prop_assert_eq!(cap(&mut got, most), all.len().saturating_sub(most));
            got.sort_by(Candidate::order);
            prop_assert_eq!(got, want);
        }
    }
}
