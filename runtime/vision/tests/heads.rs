//! Heads: every layout decoded as an independent reading of its definition does, in every memory layout; recognition
//! from metadata, shapes and flags; broken values.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use half::f16;
use proptest::prelude::*;
use saltica_tensor::{DType, Geometry, Layout, Shape, View};
use saltica_vision::{DecodeParams, Detections, ErrorKind, Head, Labels, ModelSpec, OutputInfo, heads};
use serde_json::Value;

/// The splitmix64 output number `i` of a seed, top 24 bits, as a fraction.
fn fraction(seed: u64, i: u64) -> f64 {
    let mut z = seed.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 40) as f64 / f64::from(1 << 24)
}

struct Out {
    name: String,
    dims: Vec<usize>,
    data: Vec<f32>,
}

fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn sizes(v: &Value) -> Vec<usize> {
    numbers(v).into_iter().map(|v| v as usize).collect()
}

/// A tensor by the recipe of tests/data/make_heads.py.
fn tensor(recipe: &Value) -> Out {
    let dims = sizes(&recipe["dims"]);
    let axis = recipe["axis"].as_u64().unwrap() as usize;
    let per: Vec<[f64; 3]> = recipe["channels"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|c| {
            let c = numbers(c);
            vec![[c[1], c[2], c[3]]; c[0] as usize]
        })
        .collect();
    let inner: usize = dims[axis + 1..].iter().product();
    let data = (0..dims.iter().product::<usize>())
        .map(|i| {
            let [lo, hi, p] = per[i / inner % dims[axis]];
            let u = fraction(recipe["seed"].as_u64().unwrap(), i as u64);
            (lo + (hi - lo) * (0..p as usize).fold(1.0, |v, _| v * u)) as f32
        })
        .collect();
    Out { name: recipe["name"].as_str().unwrap().into(), dims, data }
}

fn infos(outputs: &[Out]) -> Vec<OutputInfo<'_>> {
    outputs.iter().map(|o| OutputInfo { name: &o.name, dtype: DType::F32, dims: &o.dims }).collect()
}

fn row_major(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims).unwrap())
}

fn views(outputs: &[Out]) -> Vec<View<'_>> {
    outputs.iter().map(|o| View::of_slice(&o.data, row_major(&o.dims)).unwrap()).collect()
}

struct Case {
    name: String,
    head: Head,
    outputs: Vec<Out>,
    geometry: Geometry,
    params: DecodeParams,
    expected: Vec<Value>,
}

fn cases() -> Vec<Case> {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/heads.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let pair = |v: &Value| (sizes(v)[0], sizes(v)[1]);
    let input = pair(&all["input"]);
    let cases: Vec<Case> = all["cases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| {
            let name: String = c["name"].as_str().unwrap().into();
            let outputs: Vec<Out> = c["outputs"].as_array().unwrap().iter().map(tensor).collect();
            let spec = ModelSpec {
                head: Some(c["head"].as_str().unwrap().into()),
                keypoints: c.get("keypoints").map(pair),
                ..ModelSpec::default()
            };
            let head =
                Head::recognise(spec, input, &infos(&outputs)).unwrap_or_else(|e| panic!("{name}: {e}"));
            let geometry =
                Geometry::new(pair(&all["source"]), input, head.spec().input_spec().resize).unwrap();
            let params = DecodeParams {
                conf: c.get("conf").unwrap_or(&all["conf"]).as_f64().unwrap() as f32,
                iou: all["iou"].as_f64().unwrap() as f32,
                max_det: c.get("max_det").map_or(300, |v| v.as_u64().unwrap() as usize),
                ..DecodeParams::default()
            };
            Case {
                name,
                head,
                outputs,
                geometry,
                params,
                expected: c["expected"].as_array().unwrap().clone(),
            }
        })
        .collect();
    assert_eq!(cases.len(), 17);
    cases
}

fn check(case: &Case, found: &Detections, tolerance: f64) {
    let name = &case.name;
    assert_eq!(found.len(), case.expected.len(), "{name}");
    assert_eq!(found.dropped(), 0, "{name}");
    for (i, (d, want)) in found.items().iter().zip(&case.expected).enumerate() {
        let at = format!("{name}, object {i}");
        let close = |a: f32, b: f64, tolerance: f64| {
            assert!((f64::from(a) - b).abs() <= tolerance, "{at}: {a}, {b} expected in {want}");
        };
        assert_eq!(u64::from(d.class), want["class"].as_u64().unwrap(), "{at}");
        close(d.score, want["score"].as_f64().unwrap(), 1e-5);
        if let Some(b) = want.get("bbox") {
            d.bbox.iter().zip(numbers(b)).for_each(|(a, b)| close(*a, b, tolerance));
        }
        if let Some(t) = want.get("turned") {
            let o = d.oriented.unwrap();
            // Height by area: the axes are scaled alike but for rounding.
            [o.center.0, o.center.1, o.size.0, o.size.1, o.angle]
                .iter()
                .zip(numbers(t))
                .enumerate()
                .for_each(|(k, (a, b))| close(*a, b, if k == 3 { 0.02 * b } else { tolerance }));
        }
        if let Some(k) = want.get("keypoints") {
            let (points, k) = (found.keypoints(d), k.as_array().unwrap());
            assert_eq!(points.len(), k.len(), "{at}");
            for (p, k) in points.iter().zip(k) {
                [p.x, p.y, p.score].iter().zip(numbers(k)).for_each(|(a, b)| close(*a, b, tolerance));
            }
        }
        if let Some(m) = want.get("mask") {
            let (mask, m) = (found.mask(d).unwrap(), sizes(m));
            let (mut count, mut xs, mut ys) = (0usize, 0usize, 0usize);
            for y in 0..case.geometry.source().1 {
                for x in 0..case.geometry.source().0 {
                    if mask.contains(x, y) {
                        (count, xs, ys) = (count + 1, xs + x, ys + y);
                    }
                }
            }
            // m[3] pixels lie so near the border that f32 and f64 may differ.
            assert!(count.abs_diff(m[0]) <= m[3], "{at}: {count} pixels inside, {m:?} expected");
            assert!(
                xs.abs_diff(m[1]) <= 150 * m[3] && ys.abs_diff(m[2]) <= 90 * m[3],
                "{at}: {xs} {ys}, {m:?} expected"
            );
            assert_eq!(mask.area(), count, "{at}");
            let mut pixels = vec![7; 3];
            let (_, _, w, h) = mask.rasterize(&mut pixels);
            assert_eq!((pixels.len(), pixels.iter().filter(|&&p| p == 1).count()), (w * h, count), "{at}");
        }
    }
}

/// Expected values made by tests/data/make_heads.py.
#[test]
fn every_head_reads_what_its_definition_says() {
    let mut out = Detections::new();
    for case in cases() {
        case.head.decode(&views(&case.outputs), 0, &case.params, &case.geometry, &mut out).unwrap();
        check(&case, &out, 2e-3);
    }
}

/// The same values with other strides: second picture of a batch of two, dims in any order in memory, gaps.
#[test]
fn memory_layout_changes_nothing() {
    for case in cases() {
        for turn in 0..6 {
            let stored: Vec<(Vec<f32>, Layout)> = case
                .outputs
                .iter()
                .map(|o| {
                    let mut dims = o.dims.clone();
                    dims[0] = 2;
                    let rank = dims.len();
                    // Innermost dim in memory first.
                    let mut order: Vec<usize> = (0..rank).collect();
                    order.rotate_left(turn % rank);
                    if turn >= 3 {
                        order.reverse();
                    }
                    let mut strides = vec![0; rank];
                    let mut step = 1 + turn % 2;
                    for &d in &order {
                        strides[d] = step;
                        step *= dims[d];
                        step += turn % 3;
                    }
                    let layout = Layout::strided(Shape::new(&dims).unwrap(), &strides).unwrap();
                    let mut data = vec![f32::NAN; layout.span()];
                    for (i, index) in Shape::new(&o.dims).unwrap().indices().enumerate() {
                        let mut at = index;
                        at[0] = 1;
                        data[layout.offset(&at)] = o.data[i];
                    }
                    (data, layout)
                })
                .collect();
            let views: Vec<View<'_>> = stored.iter().map(|(d, l)| View::of_slice(d, *l).unwrap()).collect();
            let mut out = Detections::new();
            case.head.decode(&views, 1, &case.params, &case.geometry, &mut out).unwrap();
            check(&case, &out, 2e-3);
        }
    }
}

/// Values that f16 holds exactly give the same objects from f16 as from f32.
#[test]
fn half_precision_outputs_are_read() {
    for mut case in cases() {
        let halves: Vec<Vec<f16>> =
            case.outputs.iter().map(|o| o.data.iter().map(|&v| f16::from_f32(v)).collect()).collect();
        for (o, h) in case.outputs.iter_mut().zip(&halves) {
            o.data = h.iter().map(|v| v.to_f32()).collect();
        }
        let (mut a, mut b) = (Detections::new(), Detections::new());
        case.head.decode(&views(&case.outputs), 0, &case.params, &case.geometry, &mut a).unwrap();
        let narrow: Vec<View<'_>> = halves
            .iter()
            .zip(&case.outputs)
            .map(|(h, o)| View::of_slice(h, row_major(&o.dims)).unwrap())
            .collect();
        case.head.decode(&narrow, 0, &case.params, &case.geometry, &mut b).unwrap();
        assert!(a.items().len() > 2 && a.items() == b.items(), "{}", case.name);
    }
}

#[test]
fn parameters_do_what_they_say() {
    let all = cases();
    let case = &all[0];
    let run = |params: &DecodeParams| {
        let mut out = Detections::new();
        case.head.decode(&views(&case.outputs), 0, params, &case.geometry, &mut out).unwrap();
        out
    };
    let base = run(&case.params);
    let some = run(&DecodeParams { classes: vec![1, 3], ..case.params.clone() });
    let want: Vec<_> = base.items().iter().filter(|d| d.class == 1 || d.class == 3).copied().collect();
    assert_eq!(some.items(), want);
    let few = run(&DecodeParams { max_det: 4, ..case.params.clone() });
    assert_eq!(few.items(), &base.items()[..4]);
    let none = run(&DecodeParams { conf: 1.0, ..case.params.clone() });
    assert!(none.is_empty());
    assert!(run(&DecodeParams { max_det: 0, ..case.params.clone() }).is_empty());
    let every = run(&DecodeParams { iou: 1.0, ..case.params.clone() });
    assert!(every.len() > base.len());
    let agnostic = run(&DecodeParams { agnostic: true, ..case.params.clone() });
    assert!(agnostic.len() < base.len());
    let many = run(&DecodeParams { multi_label: true, iou: 1.0, ..case.params.clone() });
    let scores = &case.outputs[0].data[4 * 126..];
    assert_eq!(many.len(), scores.iter().filter(|&&s| s > case.params.conf).count());
    let out = run(&DecodeParams { clip: false, ..case.params.clone() });
    let (w, h) = (case.geometry.source().0 as f32, case.geometry.source().1 as f32);
    assert!(out.items().iter().any(|d| d.bbox[0] < 0.0 || d.bbox[2] > w));
    for (o, b) in out.items().iter().zip(base.items()) {
        let clipped = [
            o.bbox[0].clamp(0.0, w),
            o.bbox[1].clamp(0.0, h),
            o.bbox[2].clamp(0.0, w),
            o.bbox[3].clamp(0.0, h),
        ];
        assert_eq!(clipped, b.bbox);
    }
    let capped = run(&DecodeParams { iou: 1.0, max_candidates: 10, ..case.params.clone() });
    assert_eq!(capped.items(), &every.items()[..10]);
    assert_eq!(capped.capped(), every.len() - 10);
}

/// NaN and infinity anywhere: dropped and counted, nothing else changes, no panic.
#[test]
fn broken_values_are_dropped_and_counted() {
    for case in cases() {
        let mut seen_drop = false;
        for seed in 0..40u64 {
            let mut outputs: Vec<Out> = case
                .outputs
                .iter()
                .map(|o| Out { name: o.name.clone(), dims: o.dims.clone(), data: o.data.clone() })
                .collect();
            for o in &mut outputs {
                let n = o.data.len();
                for i in 0..1 + n / 20 {
                    let at = (fraction(seed, i as u64) * n as f64) as usize;
                    let which = (fraction(seed + 1000, i as u64) * 5.0) as usize;
                    o.data[at] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -1e30][which];
                }
            }
            for multi_label in [false, true] {
                let mut out = Detections::new();
                let params = DecodeParams { multi_label, ..case.params.clone() };
                case.head.decode(&views(&outputs), 0, &params, &case.geometry, &mut out).unwrap();
                seen_drop |= out.dropped() > 0;
                for d in out.items() {
                    assert!(
                        d.score.is_finite() && d.bbox.iter().all(|v| v.is_finite()),
                        "{} {d:?}",
                        case.name
                    );
                    let (w, h) = case.geometry.source();
                    assert!(
                        d.bbox[0] >= 0.0
                            && d.bbox[2] <= w as f32
                            && d.bbox[1] >= 0.0
                            && d.bbox[3] <= h as f32
                    );
                    assert!(out.keypoints(d).iter().all(|k| k.x.is_finite() && k.y.is_finite()));
                    out.mask(d).map(|m| m.area());
                }
                assert!(out.items().windows(2).all(|w| w[0].score >= w[1].score));
            }
        }
        assert!(seen_drop, "{}", case.name);
        // All NaN: nothing found.
        let all: Vec<Out> = case
            .outputs
            .iter()
            .map(|o| Out { name: o.name.clone(), dims: o.dims.clone(), data: vec![f32::NAN; o.data.len()] })
            .collect();
        let mut out = Detections::new();
        case.head.decode(&views(&all), 0, &case.params, &case.geometry, &mut out).unwrap();
        assert!(out.is_empty() && out.dropped() > 0, "{}", case.name);
    }
}

// ------------------------------------------------------------------ recognition

fn recognise(
    spec: ModelSpec,
    input: (usize, usize),
    outputs: &[(&str, &[usize])],
) -> saltica_vision::Result<Head> {
    let infos: Vec<OutputInfo<'_>> =
        outputs.iter().map(|(name, dims)| OutputInfo { name, dtype: DType::F32, dims }).collect();
    Head::recognise(spec, input, &infos)
}

fn names(n: usize) -> String {
    let all: Vec<String> = (0..n).map(|i| format!("{i}: 'n{i}'")).collect();
    format!("{{{}}}", all.join(", "))
}

fn ultralytics(task: &str, n: usize, more: &[(&str, &str)]) -> ModelSpec {
    let names = names(n);
    let mut pairs =
        vec![("author", "Ultralytics"), ("task", task), ("names", names.as_str()), ("stride", "32")];
    pairs.extend_from_slice(more);
    ModelSpec::from_metadata(pairs).unwrap()
}

#[test]
fn metadata_and_shapes_name_the_head() {
    let (big, out) = ((640, 640), "output0");
    let is = |head: saltica_vision::Result<Head>, name: &str, text: &str| {
        let head = head.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((head.name(), head.to_string().as_str()), (name, text));
    };
    let none = ModelSpec::default;
    is(
        recognise(ultralytics("detect", 80, &[]), big, &[(out, &[1, 84, 8400])]),
        "yolov8",
        "yolov8 boxes [1,84,8400], 80 classes, 3 strides",
    );
    is(
        recognise(none(), big, &[(out, &[1, 84, 8400])]),
        "yolov8",
        "yolov8 boxes [1,84,8400], 80 classes, 3 strides",
    );
    is(
        recognise(none(), (640, 384), &[(out, &[4, 5, 5040])]),
        "yolov8",
        "yolov8 boxes [1,5,5040], 1 class, 3 strides",
    );
    is(
        recognise(ultralytics("detect", 80, &[]), big, &[(out, &[1, 8400, 84])]),
        "yolov8",
        "yolov8 boxes [1,8400,84], 80 classes, 3 strides",
    );
    is(
        recognise(
            ultralytics("segment", 80, &[]),
            big,
            &[(out, &[1, 116, 8400]), ("output1", &[1, 32, 160, 160])],
        ),
        "yolov8-segment",
        "yolov8 boxes and masks [1,116,8400], 80 classes, 3 strides, prototypes [1,32,160,160]",
    );
    is(
        recognise(none(), big, &[(out, &[1, 116, 8400]), ("output1", &[1, 32, 160, 160])]),
        "yolov8-segment",
        "yolov8 boxes and masks [1,116,8400], 80 classes, 3 strides, prototypes [1,32,160,160]",
    );
    is(
        recognise(ultralytics("pose", 1, &[("kpt_shape", "[17, 3]")]), big, &[(out, &[1, 56, 8400])]),
        "yolov8-pose",
        "yolov8 poses [1,56,8400], 1 class, 3 strides, 17 keypoints of 3 values",
    );
    is(
        recognise(ultralytics("obb", 15, &[]), (1024, 1024), &[(out, &[1, 20, 21504])]),
        "yolov8-obb",
        "yolov8 oriented boxes [1,20,21504], 15 classes, 3 strides",
    );
    is(
        recognise(ultralytics("classify", 1000, &[]), (224, 224), &[(out, &[1, 1000])]),
        "classify",
        "class probabilities [1,1000]",
    );
    is(
        recognise(ultralytics("detect", 80, &[("end2end", "True")]), big, &[(out, &[1, 300, 6])]),
        "end2end",
        "end-to-end boxes [1,300,6], no suppression needed",
    );
    is(
        recognise(ultralytics("detect", 80, &[("args", "{'nms': True}")]), big, &[(out, &[1, 300, 6])]),
        "end2end",
        "end-to-end boxes [1,300,6], no suppression needed",
    );
    is(
        recognise(none(), big, &[(out, &[1, 300, 6])]),
        "end2end",
        "end-to-end boxes [1,300,6], no suppression needed",
    );
    is(
        recognise(ultralytics("detect", 80, &[("head", "RTDETRDecoder")]), big, &[(out, &[1, 300, 6])]),
        "rtdetr",
        "rtdetr queries [1,300,6] with score and class, no suppression needed",
    );
    is(
        recognise(none(), big, &[(out, &[1, 300, 84])]),
        "rtdetr",
        "rtdetr queries [1,300,84], 80 classes, no suppression needed",
    );
    // YOLOv5 writes names and stride only.
    let v5 = ModelSpec::from_metadata([("stride", "32"), ("names", names(80).as_str())]).unwrap();
    is(
        recognise(v5, big, &[(out, &[1, 25200, 85])]),
        "yolov5",
        "yolov5 boxes [1,25200,85], 80 classes, 3 strides",
    );
    is(
        recognise(none(), big, &[(out, &[1, 25200, 85])]),
        "yolov5",
        "yolov5 boxes [1,25200,85], 80 classes, 3 strides",
    );
    is(
        recognise(none(), (352, 352), &[("758", &[1, 85, 22, 22])]),
        "fastestdet",
        "fastestdet map [1,85,22,22], 80 classes",
    );
    let libre = ModelSpec::from_metadata([
        ("libreyolo_version", "1.6.0"),
        ("model_family", "yolox"),
        ("task", "detect"),
        ("names", names(80).as_str()),
    ])
    .unwrap();
    is(
        recognise(libre, (416, 416), &[("output", &[1, 3549, 85])]),
        "yolox-decoded",
        "yolox decoded boxes [1,3549,85], 80 classes, 3 strides",
    );
    let mut known = heads::defaults("yolox").unwrap();
    known.head = Some("yolox".into());
    is(
        recognise(known, (416, 416), &[("output", &[1, 3549, 85])]),
        "yolox",
        "yolox raw grids [1,3549,85], 80 classes, 3 strides",
    );
    let faces: Vec<(String, Vec<usize>)> = [("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)]
        .iter()
        .flat_map(|(n, c)| [8, 16, 32].map(|s| (format!("{n}_{s}"), vec![1, (320 / s) * (320 / s), *c])))
        .collect();
    let faces: Vec<(&str, &[usize])> = faces.iter().map(|(n, d)| (n.as_str(), d.as_slice())).collect();
    is(recognise(none(), (320, 320), &faces), "yunet", "yunet faces with 5 points, 2100 cells, 3 strides");
}

#[test]
fn what_can_be_read_in_two_ways_is_never_guessed() {
    let fails = |r: saltica_vision::Result<Head>, want: &[&str]| {
        let e = r.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Head);
        want.iter().for_each(|w| assert!(e.to_string().contains(w), "{e}\nlacks {w}"));
    };
    let none = ModelSpec::default;
    let labels = |n: usize| ModelSpec::from_metadata([("names", names(n).as_str())]).unwrap();
    let yolox: &[(&str, &[usize])] = &[("output", &[1, 3549, 85])];
    fails(
        recognise(none(), (416, 416), yolox),
        &["--head", "\"yolox\"", "\"yolox-decoded\"", "\"yolov8\"", "in 3 ways"],
    );
    // The class list rules out the YOLOv8 reading, not the other two.
    fails(
        recognise(labels(80), (416, 416), yolox),
        &["--head", "one of \"yolox\", \"yolox-decoded\"", "in 2 ways"],
    );
    fails(
        recognise(none(), (640, 640), &[("output0", &[1, 56, 8400])]),
        &["\"yolov8\", \"yolov8-pose\"", "--head"],
    );
    fails(
        recognise(none(), (224, 224), &[("prob", &[1, 1000])]),
        &["\"classify\", \"classify-logits\"", "--head"],
    );
    // 81 names are right for the YOLOv8 reading only.
    assert_eq!(recognise(labels(81), (416, 416), yolox).unwrap().name(), "yolov8");

    fails(
        recognise(labels(79), (640, 640), &[("output0", &[1, 84, 8400])]),
        &["79 class names", "80 classes", "--labels"],
    );
    fails(
        recognise(ultralytics("segment", 80, &[]), (640, 640), &[("a", &[1, 84, 8400])]),
        &["no head fits", "\"segment\"", "--head", "--spec"],
    );
    fails(recognise(none(), (640, 640), &[("a", &[1, 7])]), &["--head"]);
    fails(
        recognise(none(), (640, 640), &[("a", &[1, 10, 7, 3, 2])]),
        &["no head fits", "a [1, 10, 7, 3, 2]"],
    );
    fails(recognise(none(), (640, 640), &[("a", &[1, 0, 7])]), &["a has the shape [1, 0, 7]"]);
    fails(recognise(none(), (640, 640), &[("a", &[])]), &["shape []"]);
    fails(recognise(none(), (640, 640), &[]), &["no head fits"]);
    let mut wrong = ModelSpec { head: Some("yolov5".into()), ..none() };
    fails(
        recognise(wrong.clone(), (640, 640), &[("a", &[1, 25200, 5])]),
        &["\"yolov5\" does not fit", "5 found", "--head"],
    );
    wrong.head = Some("yunet".into());
    fails(recognise(wrong.clone(), (640, 640), &[("a", &[1, 25200, 5])]), &["no output cls_8"]);
    wrong.head = Some("yolo5".into());
    fails(
        recognise(wrong, (640, 640), &[("a", &[1, 25200, 5])]),
        &["no head \"yolo5\"", "did you mean \"yolov5\"?"],
    );
}

#[test]
fn a_described_model_needs_no_usual_strides() {
    let mut spec = ModelSpec::parse("head = 'yolox'\nstrides = [4, 64]", None).unwrap();
    let cells = 24 * 16 + 2;
    let head = recognise(spec.clone(), (96, 64), &[("o", &[1, cells, 7])]).unwrap();
    assert_eq!(head.to_string(), "yolox raw grids [1,386,7], 2 classes, 2 strides");
    spec.strides = None;
    let e = recognise(spec, (96, 64), &[("o", &[1, cells, 7])]).unwrap_err();
    assert!(e.to_string().contains("`strides`"), "{e}");
}

#[test]
fn tensors_of_another_shape_are_refused_at_decode() {
    let all = cases();
    let case = &all[0];
    let mut out = Detections::new();
    let small = [0f32; 9 * 125];
    let run = |view: View<'_>, index, geometry: &Geometry, out: &mut Detections| {
        case.head.decode(&[view], index, &case.params, geometry, out).unwrap_err().to_string()
    };
    let e = run(View::of_slice(&small, row_major(&[1, 9, 125])).unwrap(), 0, &case.geometry, &mut out);
    assert!(e.contains("1x9x125") && e.contains("9, 126"), "{e}");
    let good = || View::of_slice(&case.outputs[0].data, row_major(&case.outputs[0].dims)).unwrap();
    assert!(run(good(), 1, &case.geometry, &mut out).contains("more than 1"));
    let other = Geometry::new((10, 10), (64, 64), case.geometry.mode()).unwrap();
    assert!(run(good(), 0, &other, &mut out).contains("(96, 64)"));
    let integers = vec![0i64; 9 * 126];
    let e = run(View::of_slice(&integers, row_major(&[1, 9, 126])).unwrap(), 0, &case.geometry, &mut out);
    assert!(e.contains("i64"), "{e}");
    let e = case.head.decode(&[], 0, &case.params, &case.geometry, &mut out).unwrap_err().to_string();
    assert!(e.contains("0 outputs found, 1 expected"), "{e}");
}

#[test]
fn labels_name_classes() {
    let head = recognise(ultralytics("detect", 80, &[]), (640, 640), &[("o", &[1, 84, 8400])]).unwrap();
    assert_eq!(
        (head.label(3).as_ref(), head.label(90).as_ref(), head.classes()),
        ("n3", "class 90", Some(80))
    );
    let head = recognise(ModelSpec::default(), (640, 640), &[("o", &[1, 84, 8400])]).unwrap();
    assert_eq!(head.label(3), "class 3");
    let coco = Labels::coco80();
    assert_eq!(
        (coco.len(), coco.find("Person"), coco.find("79"), coco.find("80")),
        (80, Some(0), Some(79), None)
    );
    assert_eq!(coco.name(79), "toothbrush");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]
    /// Any shapes, any names: an answer or an error, and what is recognised can be decoded.
    #[test]
    fn no_shape_panics(
        dims in prop::collection::vec(prop::collection::vec(0usize..40, 0..6), 0..4),
        input in (1usize..200, 1usize..200), head in 0usize..17, n in 0usize..8,
    ) {
        let mut spec = ModelSpec { head: heads::NAMES.get(head).map(|h| (*h).to_string()), ..ModelSpec::default() };
        if n > 0 {
            spec.labels = Some(Labels::new(vec!["x".into(); n]).unwrap());
        }
        let outputs: Vec<Out> = dims.iter().enumerate()
            .map(|(i, d)| Out { name: format!("o{i}"), dims: d.clone(), data: (0..d.iter().product::<usize>()).map(|k| fraction(k as u64, 3) as f32).collect() })
            .collect();
        if let Ok(head) = Head::recognise(spec, input, &infos(&outputs)) {
            let geometry = Geometry::new((33, 21), input, head.spec().input_spec().resize).unwrap();
            let mut out = Detections::new();
            head.decode(&views(&outputs), 0, &head.params(), &geometry, &mut out).unwrap();
            prop_assert!(out.items().iter().all(|d| d.bbox.iter().all(|v| v.is_finite())));
        }
    }
}
