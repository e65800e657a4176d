//! From matched boxes to precision over recall, and to the numbers people compare.

use super::matching::{AREAS, Cell, MAX_DETECTIONS, Matches, Outcome, descending, iou_thresholds};
use super::{Annotation, Dataset, Detection};
use crate::{Error, ErrorKind, Result};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Recalls 0.00, 0.01, ... 1.00 at which precision is read.
const RECALL_POINTS: usize = 101;
/// How many boxes per image and category count for the three recalls.
const DETECTION_LIMITS: [usize; 3] = [1, 10, MAX_DETECTIONS];
/// Places of IoU 0.50 and 0.75 among the thresholds.
const AT_50: usize = 0;
const AT_75: usize = 5;

/// COCO's twelve numbers and each class's own. A number is absent where no object could have been found (pycocotools
/// prints -1 there).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metrics {
    /// Mean average precision over IoU 0.50 to 0.95, the number called mAP.
    pub ap: Option<f64>,
    /// Mean average precision at IoU 0.50.
    pub ap50: Option<f64>,
    /// Mean average precision at IoU 0.75.
    pub ap75: Option<f64>,
    /// `ap` of objects up to 32x32 pixels.
    pub ap_small: Option<f64>,
    /// `ap` of objects from 32x32 to 96x96 pixels.
    pub ap_medium: Option<f64>,
    /// `ap` of objects from 96x96 pixels on.
    pub ap_large: Option<f64>,
    /// Mean recall with the best box per image and class.
    pub ar1: Option<f64>,
    /// Mean recall with the best 10.
    pub ar10: Option<f64>,
    /// Mean recall with the best 100.
    pub ar100: Option<f64>,
    /// `ar100` of small objects.
    pub ar_small: Option<f64>,
    /// `ar100` of medium objects.
    pub ar_medium: Option<f64>,
    /// `ar100` of large objects.
    pub ar_large: Option<f64>,
    /// Each category in the data set's order.
    pub classes: Vec<ClassMetrics>,
}

/// One category's numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassMetrics {
    /// COCO's category id.
    pub category_id: i64,
    /// Name.
    pub name: String,
    /// Marked objects, crowds left out.
    pub objects: usize,
    /// Found boxes, before the limit of 100 per image.
    pub detections: usize,
    /// Average precision over IoU 0.50 to 0.95.
    pub ap: Option<f64>,
    /// Average precision at IoU 0.50.
    pub ap50: Option<f64>,
    /// Average precision at IoU 0.75.
    pub ap75: Option<f64>,
    /// Recall over IoU 0.50 to 0.95 with the best 100 boxes per image.
    pub ar100: Option<f64>,
}

/// Precision and recall of one category, area range and detection limit: by threshold.
struct Curve {
    /// Precision at each recall point.
    precision: Vec<[f64; RECALL_POINTS]>,
    /// The largest recall.
    recall: Vec<f64>,
}

/// Compares found boxes with the ground truth.
///
/// Images and categories are the data set's; equal scores keep the order of image ids, then of `detections`. One known
/// slip of pycocotools is not repeated: it takes an object with annotation id 0 for unfound.
///
/// # Errors
/// A detection of an image or category that the data set does not list, or with a number that is not finite.
pub fn evaluate(dataset: &Dataset, detections: &[Detection]) -> Result<Metrics> {
    let category_at: HashMap<i64, usize> =
        dataset.categories.iter().enumerate().map(|(i, c)| (c.id, i)).collect();
    let images: std::collections::HashSet<i64> = dataset.images.iter().map(|i| i.id).collect();

    // By category, then by ascending image id.
    type Boxes<'a> = (Vec<&'a Annotation>, Vec<&'a Detection>);
    let mut cells: Vec<BTreeMap<i64, Boxes<'_>>> = Vec::new();
    cells.resize_with(dataset.categories.len(), BTreeMap::new);
    for a in &dataset.annotations {
        if let Some(&k) = category_at.get(&a.category_id) {
            cells[k].entry(a.image_id).or_default().0.push(a);
        }
    }
    for (i, d) in detections.iter().enumerate() {
        let bad = |what: String| Err(Error::new(ErrorKind::Format, format!("detection {i}: {what}")));
        let Some(&k) = category_at.get(&d.category_id) else {
            return bad(format!("category id {} is not in the annotation file", d.category_id));
        };
        if !images.contains(&d.image_id) {
            return bad(format!("image id {} is not in the annotation file", d.image_id));
        }
        if !d.score.is_finite() || d.bbox.iter().any(|v| !v.is_finite()) {
            return bad(format!("score {} and box {:?} must be finite", d.score, d.bbox));
        }
        cells[k].entry(d.image_id).or_default().1.push(d);
    }

    // curves[k][a] with 100 boxes, recalls[k][limit] for all areas.
    let mut curves: Vec<Vec<Option<Curve>>> = Vec::new();
    let mut limited: Vec<Vec<Option<Curve>>> = Vec::new();
    let mut classes = Vec::new();
    for (category, by_image) in dataset.categories.iter().zip(cells) {
        let objects = by_image.values().flat_map(|(o, _)| o).filter(|o| !o.crowd).count();
        let found = by_image.values().map(|(_, d)| d.len()).sum();
        let cells: Vec<Cell<'_>> = by_image.into_values().map(|(o, d)| Cell::new(o, d)).collect();
        let scores: Vec<Vec<f64>> = cells.iter().map(|c| c.scores().collect()).collect();
        let matched = |area| cells.iter().map(|c| c.matches(area)).collect::<Vec<_>>();

        let all = matched(AREAS[0]);
        let by_limit: Vec<_> = DETECTION_LIMITS.iter().map(|&n| curve(&scores, &all, n)).collect();
        let by_area: Vec<_> =
            AREAS.iter().map(|&area| curve(&scores, &matched(area), MAX_DETECTIONS)).collect();

        let own = std::slice::from_ref(&by_area);
        classes.push(ClassMetrics {
            category_id: category.id,
            name: category.name.clone(),
            objects,
            detections: found,
            ap: mean_precision(own, 0, None),
            ap50: mean_precision(own, 0, Some(AT_50)),
            ap75: mean_precision(own, 0, Some(AT_75)),
            ar100: mean_recall(own, 0),
        });
        curves.push(by_area);
        limited.push(by_limit);
    }
    Ok(Metrics {
        ap: mean_precision(&curves, 0, None),
        ap50: mean_precision(&curves, 0, Some(AT_50)),
        ap75: mean_precision(&curves, 0, Some(AT_75)),
        ap_small: mean_precision(&curves, 1, None),
        ap_medium: mean_precision(&curves, 2, None),
        ap_large: mean_precision(&curves, 3, None),
        ar1: mean_recall(&limited, 0),
        ar10: mean_recall(&limited, 1),
        ar100: mean_recall(&limited, 2),
        ar_small: mean_recall(&curves, 1),
        ar_medium: mean_recall(&curves, 2),
        ar_large: mean_recall(&curves, 3),
        classes,
    })
}

/// Precision over recall with at most `limit` boxes per image; None if there is nothing to find.
fn curve(scores: &[Vec<f64>], matches: &[Matches], limit: usize) -> Option<Curve> {
    let positives: usize = matches.iter().map(|m| m.positives).sum();
    if positives == 0 {
        return None;
    }
    // All images' boxes, best first; a stable sort, so equal scores stay in image order.
    let mut order: Vec<(usize, usize)> = scores
        .iter()
        .enumerate()
        .flat_map(|(image, s)| (0..s.len().min(limit)).map(move |d| (image, d)))
        .collect();
    order.sort_by(|&(i, d), &(j, e)| descending(scores[i][d], scores[j][e]));

    let thresholds = iou_thresholds().len();
    let mut out = Curve { precision: Vec::with_capacity(thresholds), recall: Vec::with_capacity(thresholds) };
    for t in 0..thresholds {
        let (mut hits, mut misses) = (0usize, 0usize);
        let (mut recall, mut precision) = (Vec::with_capacity(order.len()), Vec::with_capacity(order.len()));
        for &(image, d) in &order {
            match matches[image].outcomes[t][d] {
                Outcome::True => hits += 1,
                Outcome::False => misses += 1,
                Outcome::Ignored => {}
            }
            recall.push(hits as f64 / positives as f64);
            // The epsilon makes an ignored first box 0 rather than 0/0.
            precision.push(hits as f64 / ((misses + hits) as f64 + f64::EPSILON));
        }
        // A lower threshold on the score may never lower precision: take the best of all larger recalls.
        for i in (1..precision.len()).rev() {
            if precision[i] > precision[i - 1] {
                precision[i - 1] = precision[i];
            }
        }
        let mut at = [0.0; RECALL_POINTS];
        for (r, p) in at.iter_mut().enumerate() {
            let wanted = recall_point(r);
            let first = recall.partition_point(|&v| v < wanted);
            *p = precision.get(first).copied().unwrap_or(0.0);
        }
        out.precision.push(at);
        out.recall.push(recall.last().copied().unwrap_or(0.0));
    }
    Some(out)
}

/// The `i`-th of numpy's `linspace(0, 1, 101)`, bit for bit.
fn recall_point(i: usize) -> f64 {
    if i == RECALL_POINTS - 1 { 1.0 } else { i as f64 * (1.0 / (RECALL_POINTS - 1) as f64) }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0usize), |(s, n), v| (s + v, n + 1));
    (n > 0).then(|| sum / n as f64)
}

/// Mean over categories, thresholds (or one of them) and recall points, in column `a` of each category's curves.
fn mean_precision(curves: &[Vec<Option<Curve>>], a: usize, threshold: Option<usize>) -> Option<f64> {
    mean(curves.iter().filter_map(|k| k[a].as_ref()).flat_map(|c| {
        let range = threshold.map_or(0..c.precision.len(), |t| t..t + 1);
        c.precision[range].iter().flatten().copied()
    }))
}

/// Mean over categories and thresholds of the largest recall, in column `a` of each category's curves.
fn mean_recall(curves: &[Vec<Option<Curve>>], a: usize) -> Option<f64> {
    mean(curves.iter().filter_map(|k| k[a].as_ref()).flat_map(|c| c.recall.iter().copied()))
}
