//! Mean average precision against pycocotools on the same boxes.
//!
//! The expected numbers are the output of `tests/reference/coco_map.py` (pycocotools 2.0.11, numpy 2.4.6). The boxes come
//! from one generator written in both languages, so nothing but numbers needs to be recorded. They hold crowds, equal
//! scores, objects whose area is not their box's, categories without objects or without detections, and more than a
//! hundred detections of one category in one image.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use proptest::prelude::*;
use saltica::eval::{Annotation, Category, Dataset, Detection, ImageInfo, Metrics, evaluate};

/// Knuth's MMIX linear congruential generator, its upper 31 bits.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    fn f(&mut self, n: u64) -> f64 {
        self.below(n) as f64
    }
}

fn made_up(r: &mut Random) -> Dataset {
    const CATEGORIES: [i64; 7] = [90, 1, 2, 5, 9, 77, 44];
    let mut images: Vec<ImageInfo> = (0..60)
        .map(|i| ImageInfo { id: 7 * (60 - i) + 3, file_name: format!("{i}.jpg"), width: None, height: None })
        .collect();
    let mut annotations = Vec::new();
    for image in &images {
        for _ in 0..r.below(8) {
            let category_id = CATEGORIES[r.below(5) as usize];
            let (least, span) = [(4.0, 36), (30.0, 90), (90.0, 310)][r.below(3) as usize];
            let w = least + r.f(span * 10) / 10.0;
            let h = least + r.f(span * 10) / 10.0;
            let x = r.f(4000) / 10.0;
            let y = r.f(3000) / 10.0;
            let area = if r.below(2) == 1 { w * h * 0.5 } else { w * h };
            let crowd = r.below(12) == 0;
            annotations.push(Annotation { image_id: image.id, category_id, bbox: [x, y, w, h], area, crowd });
        }
    }
    let categories = CATEGORIES.iter().map(|&id| Category { id, name: format!("c{id}") }).collect();
    images.reverse();
    Dataset { images, categories, annotations, warnings: vec![] }
}

/// Boxes near the marked ones and boxes anywhere. `images` in the order of the annotation file.
fn jitter(r: &mut Random, data: &Dataset, images: &[i64]) -> Vec<Detection> {
    let mut out = Vec::new();
    for a in &data.annotations {
        let [x, y, w, h] = a.bbox;
        for _ in 0..r.below(4) {
            let [dx, dy, dw, dh] = std::array::from_fn(|_| (r.f(41) - 20.0) / 200.0);
            let mut category_id = a.category_id;
            if r.below(10) == 0 {
                category_id = data.categories[r.below(data.categories.len() as u64) as usize].id;
            }
            if category_id != data.categories[4].id {
                let bbox = [x + dx * w, y + dy * h, w * (1.0 + dw), h * (1.0 + dh)];
                out.push(Detection { image_id: a.image_id, category_id, bbox, score: r.f(20) / 20.0 });
            }
        }
    }
    for &image_id in images {
        for _ in 0..r.below(4) {
            let category_id = data.categories[r.below(4) as usize].id;
            let bbox = [r.f(400) + 0.5, r.f(300) + 0.25, r.f(150) + 1.0, r.f(150) + 1.0];
            out.push(Detection { image_id, category_id, bbox, score: r.f(20) / 20.0 });
        }
    }
    let a = &data.annotations[0];
    for i in 0..130 {
        let [x, y, w, h] = a.bbox;
        let bbox = [x + i as f64, y, w, h];
        out.push(Detection { image_id: a.image_id, category_id: a.category_id, bbox, score: r.f(40) / 40.0 });
    }
    out
}

fn numbers(m: &Metrics) -> [Option<f64>; 12] {
    [
        m.ap,
        m.ap50,
        m.ap75,
        m.ap_small,
        m.ap_medium,
        m.ap_large,
        m.ar1,
        m.ar10,
        m.ar100,
        m.ar_small,
        m.ar_medium,
        m.ar_large,
    ]
}

fn assert_close(found: &[Option<f64>], expected: &[f64], what: &str) {
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        // pycocotools writes -1 for "nothing to find".
        assert!((f.unwrap_or(-1.0) - e).abs() < 1e-9, "{what}, number {i}: {f:?}, pycocotools says {e}");
    }
}

fn check(m: &Metrics, stats: [f64; 12], classes: &[(i64, [f64; 4])]) {
    assert_close(&numbers(m), &stats, "all");
    for (id, expected) in classes {
        let c = m.classes.iter().find(|c| c.category_id == *id).unwrap();
        assert_close(&[c.ap, c.ap50, c.ap75, c.ar100], expected, &c.name);
    }
}

#[test]
fn made_up_boxes() {
    let mut r = Random(1);
    let data = made_up(&mut r);
    let order: Vec<i64> = data.images.iter().rev().map(|i| i.id).collect();
    let detections = jitter(&mut r, &data, &order);
    assert_eq!(detections.len(), 470);
    check(
        &evaluate(&data, &detections).unwrap(),
        [
            0.158664804722,
            0.258212611439,
            0.178034800324,
            0.199445589254,
            0.117610248521,
            0.248072806012,
            0.239294372294,
            0.380019480519,
            0.385019480519,
            0.398714285714,
            0.339207108681,
            0.397681818182,
        ],
        &[
            (1, [0.147463190927, 0.243413408570, 0.167056188971, 0.400000000000]),
            (2, [0.312726954752, 0.492129652329, 0.381855596128, 0.565454545455]),
            (5, [0.101252767073, 0.172495703152, 0.092229770582, 0.477500000000]),
            (9, [0.000000000000, 0.000000000000, 0.000000000000, 0.000000000000]),
            (44, [-1.000000000000, -1.000000000000, -1.000000000000, -1.000000000000]),
            (77, [-1.000000000000, -1.000000000000, -1.000000000000, -1.000000000000]),
            (90, [0.231881110856, 0.383024293141, 0.249032445939, 0.482142857143]),
        ],
    );
}

#[test]
fn coco_boxes() {
    let Some(shared) = common::shared() else { return };
    let path = shared.join("data/images/coco_val_gt.json");
    let data = Dataset::read(&path).unwrap();
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let order: Vec<i64> =
        json["images"].as_array().unwrap().iter().map(|i| i["id"].as_i64().unwrap()).collect();
    let detections = jitter(&mut Random(2), &data, &order);
    assert_eq!(detections.len(), 1727);
    check(
        &evaluate(&data, &detections).unwrap(),
        [
            0.355223937941,
            0.564069664532,
            0.418834080661,
            0.394336679835,
            0.401816081979,
            0.397781925579,
            0.335145738364,
            0.488830356371,
            0.494125818773,
            0.512418749030,
            0.517777003300,
            0.491140059188,
        ],
        &[
            (1, [0.316312360807, 0.526087445718, 0.364462293609, 0.488611111111]),
            (2, [0.072674313563, 0.114167188501, 0.071930423532, 0.544444444444]),
            (3, [0.090109819981, 0.136881188119, 0.134041933605, 0.311428571429]),
            (4, [0.110278951365, 0.178217821782, 0.119784299859, 0.560000000000]),
            (5, [0.000000000000, 0.000000000000, 0.000000000000, 0.000000000000]),
        ],
    );
}

#[test]
fn foreign_ids_and_numbers_are_errors() {
    let data = made_up(&mut Random(1));
    let good = Detection { image_id: 10, category_id: 90, bbox: [0.0; 4], score: 0.5 };
    for (bad, part) in [
        (Detection { image_id: 11, ..good.clone() }, "image id 11"),
        (Detection { category_id: 3, ..good.clone() }, "category id 3"),
        (Detection { score: f64::NAN, ..good.clone() }, "finite"),
        (Detection { bbox: [0.0, 0.0, f64::INFINITY, 1.0], ..good.clone() }, "finite"),
    ] {
        let e = evaluate(&data, &[good.clone(), bad]).unwrap_err().to_string();
        assert!(e.contains("detection 1") && e.contains(part), "{e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The marked boxes themselves, crowds aside, are a perfect answer.
    #[test]
    fn the_truth_scores_one(seed in any::<u64>()) {
        let mut data = made_up(&mut Random(seed));
        data.annotations.retain(|a| !a.crowd);
        let truth: Vec<Detection> = data.annotations.iter().map(|a| Detection {
            image_id: a.image_id, category_id: a.category_id, bbox: a.bbox, score: 1.0,
        }).collect();
        let m = evaluate(&data, &truth).unwrap();
        prop_assert!((m.ap.unwrap() - 1.0).abs() < 1e-12, "{:?}", m.ap);
        prop_assert!((m.ar100.unwrap() - 1.0).abs() < 1e-12);
    }

    /// Only the order of scores counts, and detections of worse score never change better ones' precision.
    #[test]
    fn a_monotone_change_of_scores_changes_nothing(seed in any::<u64>()) {
        let mut r = Random(seed);
        let data = made_up(&mut r);
        prop_assume!(!data.annotations.is_empty());
        let order: Vec<i64> = data.images.iter().map(|i| i.id).collect();
        let mut found = jitter(&mut r, &data, &order);
        let before = evaluate(&data, &found).unwrap();
        found.iter_mut().for_each(|d| d.score = d.score.powi(3) * 7.0 - 2.0);
        prop_assert_eq!(&before, &evaluate(&data, &found).unwrap());
        for v in numbers(&before).into_iter().flatten() {
            prop_assert!((0.0..=1.0 + 1e-12).contains(&v), "{}", v);
        }
        prop_assert!(before.ap50 >= before.ap && before.ar1 <= before.ar10 && before.ar10 <= before.ar100);
    }

    /// More boxes below the worst score can only raise the average precision.
    #[test]
    fn worse_boxes_do_no_harm(seed in any::<u64>()) {
        let mut r = Random(seed);
        let data = made_up(&mut r);
        prop_assume!(!data.annotations.is_empty());
        let order: Vec<i64> = data.images.iter().map(|i| i.id).collect();
        let all = jitter(&mut r, &data, &order);
        // Fewer than a hundred per image and category, so that the limit does not come into it.
        let few: Vec<Detection> = all[..all.len() - 130].to_vec();
        let best: Vec<Detection> = few.iter().filter(|d| d.score >= 0.5).cloned().collect();
        prop_assert!(evaluate(&data, &few).unwrap().ap >= evaluate(&data, &best).unwrap().ap);
    }
}
