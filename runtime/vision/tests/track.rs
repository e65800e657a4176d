//! Tracks: their life in time, properties that hold for any input, and metrics beside TrackEval's.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests

use proptest::prelude::*;
use saltica_vision::ErrorKind;
use saltica_vision::track::metrics::{Actual, Followed, Scorer};
use saltica_vision::track::{Observation, Track, TrackParams, TrackState, Tracker};
use std::time::Duration;

fn tracker() -> Tracker {
    Tracker::new(TrackParams::default()).unwrap()
}

fn ms(v: u64) -> Duration {
    Duration::from_millis(v)
}

fn seen(score: f32, x: f32, y: f32) -> Observation {
    Observation { class: 0, score, bbox: [x, y, x + 40.0, y + 80.0] }
}

#[test]
fn a_track_is_tentative_then_confirmed_then_lost_then_gone_by_the_clock() {
    // The same story at 100, 30 and 5 frames per second.
    for period in [10u64, 33, 200] {
        let mut t = tracker();
        let state = |t: &[Track]| t.first().map(|t| t.state);
        let mut now = 0;
        let first = t.update([seen(0.7, 10.0, 10.0)], ms(now)).unwrap();
        assert_eq!(state(first), Some(TrackState::Tentative));
        while now < 1000 {
            now += period;
            let tracks = t.update([seen(0.7, 10.0, 10.0)], ms(now)).unwrap();
            let want = if now >= 60 { TrackState::Confirmed } else { TrackState::Tentative };
            assert_eq!(state(tracks), Some(want), "{period} {now}");
            assert_eq!((tracks[0].age, tracks[0].unseen), (ms(now), ms(0)));
        }
        let last = now;
        loop {
            now += period;
            let tracks = t.update([] as [Observation; 0], ms(now)).unwrap();
            if tracks.is_empty() {
                break;
            }
            assert_eq!(state(tracks), Some(TrackState::Lost), "{period} {now}");
            assert_eq!(tracks[0].unseen, ms(now - last));
            assert_eq!(tracks[0].observation, None);
            assert!(now - last <= 4000, "{period} {now}");
        }
        assert!(now - last > 4000, "{period} {now}");
    }
}

#[test]
fn a_false_alarm_never_shows_as_confirmed() {
    let mut t = tracker();
    for k in 0..50u64 {
        // Something else each time, 300 ms apart.
        let o = seen(0.7, 50.0 * (k % 9) as f32, 200.0 * (k % 2) as f32);
        let tracks = t.update([o], ms(300 * k)).unwrap();
        assert!(tracks.iter().all(|t| t.state == TrackState::Tentative), "{tracks:?}");
    }
}

#[test]
fn crossing_objects_keep_their_ids_at_any_frame_rate() {
    for (period, lost) in [(33u64, 0), (200, 0), (200, 30)] {
        let mut t = tracker();
        let mut dice = 9u32;
        let mut ids = Vec::new();
        for k in 0..(6000 / period) {
            dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if k > 2 && (dice >> 16) % 100 < lost {
                continue;
            }
            let s = (k * period) as f32 * 1e-3;
            // 100 pixels per second each way; they pass each other 20 pixels apart after 3 s.
            let pair = [seen(0.7, 100.0 * s, 100.0), seen(0.7, 600.0 - 100.0 * s, 120.0)];
            let tracks = t.update(pair, ms(k * period)).unwrap();
            let by = |n: usize| tracks.iter().find(|t| t.observation == Some(n)).map(|t| t.id);
            ids.push([by(0), by(1)]);
            if s > 2.0 {
                let velocity = tracks.iter().find(|t| t.observation == Some(0)).unwrap().velocity;
                assert!((velocity.0 - 100.0).abs() < 12.0 && velocity.1.abs() < 6.0, "{s} {velocity:?}");
            }
        }
        assert!(ids.iter().all(|i| *i == [Some(1), Some(2)]), "{period} {lost}: {ids:?}");
    }
}

#[test]
fn a_hidden_object_comes_back_under_its_id() {
    let mut t = tracker();
    for k in 0..90u64 {
        let x = 3.0 * k as f32;
        // It grows faint, vanishes for a second and comes back.
        let score = match k {
            0..=29 => 0.9,
            30..=35 => 0.3,
            36..=65 => 0.0,
            _ => 0.9,
        };
        let o = (score > 0.0).then_some(Observation { class: 2, score, bbox: [x, 50.0, x + 120.0, 110.0] });
        let tracks = t.update(o, ms(33 * k)).unwrap();
        assert_eq!(tracks.len(), 1, "{k}");
        assert_eq!((tracks[0].id, tracks[0].class), (1, 2));
        assert_eq!(tracks[0].state == TrackState::Lost, (36..=65).contains(&k), "{k}");
    }
}

#[test]
fn low_scores_carry_on_but_never_begin() {
    let mut t = tracker();
    for k in 0..30u64 {
        assert!(t.update([seen(0.45, 10.0, 10.0)], ms(33 * k)).unwrap().is_empty());
    }
}

#[test]
fn classes_keep_apart_unless_told_otherwise() {
    let other = Observation { class: 3, ..seen(0.9, 10.0, 10.0) };
    let mut t = tracker();
    t.update([seen(0.9, 10.0, 10.0)], ms(0)).unwrap();
    let ids: Vec<u64> = t.update([other], ms(33)).unwrap().iter().map(|t| t.id).collect();
    assert_eq!(ids, [1, 2]);
    let mut across = TrackParams::default();
    across.across_classes = true;
    let mut t = Tracker::new(across).unwrap();
    t.update([seen(0.9, 10.0, 10.0)], ms(0)).unwrap();
    let tracks = t.update([other], ms(33)).unwrap();
    assert_eq!((tracks.len(), tracks[0].id, tracks[0].class), (1, 1, 3));
}

#[test]
fn what_cannot_be_followed_is_an_error_and_changes_nothing() {
    let mut t = tracker();
    t.update([seen(0.9, 10.0, 10.0)], ms(500)).unwrap();
    let e = t.update([seen(0.9, 10.0, 10.0)], ms(499)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Track);
    assert!(e.to_string().contains("0.499 s") && e.to_string().contains("0.500 s"), "{e}");
    let good = seen(0.9, 10.0, 10.0);
    for bad in [
        Observation { bbox: [0.0, f32::NAN, 4.0, 5.0], ..good },
        Observation { bbox: [0.0, 0.0, f32::INFINITY, 5.0], ..good },
        Observation { score: f32::NAN, ..good },
        Observation { score: 1.5, ..good },
    ] {
        let e = t.update([good, bad], ms(533)).unwrap_err();
        assert!(e.kind() == ErrorKind::Track && e.to_string().contains("observation 1"), "{e}");
    }
    // Two frames of the same time are no harm, nor is a box that clipping has left empty.
    t.update([Observation { bbox: [0.0, 0.0, 0.0, 5.0], ..good }], ms(500)).unwrap();
    t.update([good], ms(500)).unwrap();
    let tracks = t.update([good], ms(700)).unwrap();
    assert_eq!((tracks.len(), tracks[0].id, tracks[0].age), (1, 1, ms(200)));
    t.reset();
    assert_eq!(t.update([good], ms(3)).unwrap()[0].id, 2);
    for (name, params) in [
        ("overlap", {
            let mut p = TrackParams::default();
            p.overlap = f32::NAN;
            p
        }),
        ("begin", {
            let mut p = TrackParams::default();
            p.begin = 0.3;
            p
        }),
        ("noise_position", {
            let mut p = TrackParams::default();
            p.noise_position = 0.0;
            p
        }),
    ] {
        let e = Tracker::new(params).unwrap_err();
        assert!(e.kind() == ErrorKind::Track && e.to_string().contains(name), "{e}");
    }
}

/// Frames of up to nine observations at random times.
fn story() -> impl Strategy<Value = Vec<(u64, Vec<Observation>)>> {
    let one = (0..3u32, 0.0..1.0f32, 0.0..300.0f32, 0.0..200.0f32, 5.0..90.0f32, 5.0..90.0f32);
    let one =
        one.prop_map(|(class, score, x, y, w, h)| Observation { class, score, bbox: [x, y, x + w, y + h] });
    prop::collection::vec((0..700u64, prop::collection::vec(one, 0..10)), 1..30)
}

proptest! {
    #[test]
    fn ids_are_unique_and_nothing_comes_from_nothing(story in story()) {
        let mut t = tracker();
        let (mut now, mut known, mut last) = (0, std::collections::BTreeMap::new(), std::collections::BTreeSet::new());
        for (dt, seen) in &story {
            now += dt;
            let tracks = t.update(seen.iter().copied(), ms(now)).unwrap();
            prop_assert!(tracks.is_sorted_by(|a, b| a.id < b.id));
            let ids: std::collections::BTreeSet<u64> = tracks.iter().map(|t| t.id).collect();
            let mut used = std::collections::BTreeSet::new();
            for t in tracks {
                // An id seen before is either alive or gone for ever, and keeps its class.
                prop_assert!(last.contains(&t.id) || !known.contains_key(&t.id));
                prop_assert_eq!(*known.entry(t.id).or_insert(t.class), t.class);
                prop_assert!(t.bbox.iter().all(|v| v.is_finite()) && t.bbox[2] > t.bbox[0] && t.bbox[3] > t.bbox[1]);
                prop_assert!(t.unseen.is_zero() == t.observation.is_some() || *dt == 0);
                if let Some(k) = t.observation {
                    prop_assert!(used.insert(k), "one observation, one track");
                    prop_assert!(seen[k].score >= 0.1 && seen[k].class == t.class && seen[k].score == t.score);
                } else {
                    prop_assert!(last.contains(&t.id), "a new track was seen");
                    prop_assert!(t.unseen <= ms(4000));
                }
            }
            last = ids;
        }
    }

    #[test]
    fn order_and_repetition_change_nothing(story in story(), turn in 0..9usize) {
        let (mut a, mut b, mut c) = (tracker(), tracker(), tracker());
        let mut now = 0;
        for (dt, seen) in &story {
            now += dt;
            let mut turned = seen.clone();
            turned.reverse();
            if !turned.is_empty() {
                let n = turned.len();
                turned.rotate_left(turn % n);
            }
            let x = a.update(seen.iter().copied(), ms(now)).unwrap();
            prop_assert_eq!(x, b.update(seen.iter().copied(), ms(now)).unwrap());
            let y = c.update(turned.iter().copied(), ms(now)).unwrap();
            prop_assert_eq!(x.len(), y.len());
            for (p, q) in x.iter().zip(y) {
                let mut same = *p;
                same.observation = q.observation;
                prop_assert_eq!(same, *q);
                prop_assert_eq!(p.observation.map(|k| seen[k]), q.observation.map(|k| turned[k]));
            }
        }
    }
}

/// Five objects, some to be ignored, and tracks of them that err, skip frames and swap identities.
fn sequence() -> Scorer {
    let mut scorer = Scorer::new();
    let bbox = |x: i64, y: i64, w: i64, h: i64| [x, y, x + w, y + h].map(|v| v as f32);
    for t in 0..40i64 {
        let place = |k: i64| (100 * k + 3 * t * if k % 2 == 0 { 1 } else { -1 }, 50 + 2 * k * t / 3);
        let (mut actual, mut followed) = (Vec::new(), Vec::new());
        for k in (0..5).filter(|k| (t + 3 * k) % 17 != 0) {
            let (x, y) = place(k);
            let ignore = k == 4 && t >= 30;
            actual.push(Actual { id: k as u64, class: (k % 2) as u32, bbox: bbox(x, y, 40, 60), ignore });
        }
        for k in (0..5).filter(|k| (2 * t + 5 * k) % 11 != 0) {
            let ((x, y), e) = (place(k), (t * 7 + k * 3) % 13);
            let id = match k {
                0 | 2 if t >= 20 => 2 - k,
                1 if t >= 28 => 9,
                _ => k,
            };
            let bbox = bbox(x + e, y - e / 2, 40, 55);
            followed.push(Followed { id: id as u64, class: (k % 2) as u32, bbox });
        }
        if t % 6 == 0 {
            followed.push(Followed {
                id: (20 + t / 12) as u64,
                class: 0,
                bbox: [600.0, 300.0, 640.0, 360.0],
            });
        }
        scorer.add(&actual, &followed);
    }
    scorer
}

/// Expected values: trackeval 1.3.0 (HOTA, CLEAR and Identity, `eval_sequence`) on the same sequence, read by
/// `tests/bench/tracking.py`'s `evaluate`.
#[test]
fn metrics_are_those_of_trackeval() {
    let s = sequence().scores();
    let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
    assert!(close(s.idf1, 0.5207756232686981), "{s:?}");
    assert!(close(s.hota, 0.4115899200666263), "{s:?}");
    assert!(close(s.det_a, 0.5053840635547794), "{s:?}");
    assert!(close(s.ass_a, 0.33525537390776994), "{s:?}");
    assert!(close(s.mota, 0.39664804469273746), "{s:?}");
    assert_eq!((s.switches, s.misses, s.false_positives), (3, 51, 54));
}

#[test]
fn the_truth_followed_perfectly_scores_one_and_nothing_scores_nothing() {
    let mut scorer = Scorer::new();
    for sequence in 0..2 {
        for t in 0..10 {
            let x = 10.0 * t as f32;
            let b = [x, 0.0, x + 30.0, 30.0];
            let actual = [Actual { id: 1, class: 0, bbox: b, ignore: false }];
            // Another id in the other sequence is no switch.
            scorer.add(&actual, &[Followed { id: 5 + sequence, class: 0, bbox: b }]);
        }
        scorer.next_sequence();
    }
    let s = scorer.scores();
    for v in [s.mota, s.idf1, s.idp, s.idr, s.hota, s.det_a, s.ass_a] {
        assert!((v - 1.0).abs() < 1e-12, "{s:?}");
    }
    let s = Scorer::new().scores();
    assert_eq!((s.idf1, s.hota, s.objects), (0.0, 0.0, 0));
}
