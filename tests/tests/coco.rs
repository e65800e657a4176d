//! Mean average precision of the test models on 138 COCO photos.
//!
//! The figures expected are onnxruntime 1.32's with pycocotools, the same thresholds and OpenCV's letterbox.

use libtest_mimic::Trial;
use saltica::eval::{Dataset, Detection, class_categories, evaluate, locate_images};
use saltica::{Detections, Detector, Image};
use saltica_tests::{Result, gunzipped, trial};
use std::path::Path;
use std::process::ExitCode;

struct Case {
    model: &'static str,
    conf: f32,
    iou: f32,
    /// Whether a box counts for each class above the threshold, and whether it is clipped to the picture.
    labels: Labels,
    clip: bool,
    map: f64,
    tolerance: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Labels {
    All,
    Best,
}

const YOLOX: Case = Case {
    model: "models/yolox_nano.onnx",
    conf: 0.01,
    iou: 0.65,
    labels: Labels::All,
    clip: false,
    map: 0.340,
    tolerance: 0.005,
};

const FASTEST: Case = Case {
    model: "models/fastestdet_352.onnx",
    conf: 0.05,
    iou: 0.45,
    labels: Labels::Best,
    map: 0.190,
    ..YOLOX
};

#[allow(clippy::approx_constant, reason = "0.318 is a precision, not 1/pi")]
const CASES: [Case; 7] = [
    YOLOX,
    Case { model: "models/yolox_nano_fp16.onnx", ..YOLOX },
    Case { model: "models/yolox_nano_int8_qdq.onnx", map: 0.318, tolerance: 0.01, ..YOLOX },
    Case { model: "models/yolox_nano_int8_qdq_sym.onnx", map: 0.276, tolerance: 0.01, ..YOLOX },
    FASTEST,
    // onnxruntime 1.32 with boxes clipped to the picture: 0.2050.
    Case { clip: true, map: 0.205, ..FASTEST },
    Case {
        model: "models-restricted/yolov8n_dequantized_fp32_640.onnx.gz",
        iou: 0.7,
        clip: true,
        map: 0.423,
        ..YOLOX
    },
];

fn main() -> ExitCode {
    saltica_tests::suite(trials)
}

fn trials(shared: &Path) -> Result<Vec<Trial>> {
    let data = shared.join("data");
    let trials = CASES.into_iter().map(|case| {
        let data = data.clone();
        let name = if case.clip { "clipped" } else { "as they are" };
        trial(format!("{}, boxes {name}", case.model), move || {
            let map = mean_average_precision(&data, &case)?;
            println!("{}: {map:.4}", case.model);
            if (map - case.map).abs() <= case.tolerance {
                return Ok(());
            }
            Err(format!("mAP {map:.4}, {} +- {} expected", case.map, case.tolerance).into())
        })
    });
    Ok(trials.collect())
}

fn mean_average_precision(data: &Path, case: &Case) -> Result<f64> {
    let model = gunzipped(&data.join(case.model))?;
    let detector = Detector::builder().conf(case.conf).iou(case.iou).max_det(100).clip(case.clip);
    let mut detector = detector.multi_label(case.labels == Labels::All).load(model.path())?;
    let dataset = Dataset::read(&data.join("images/coco_val_gt.json"))?;
    let files = locate_images(&dataset, &data.join("images"))?;
    let labels = detector.head().labels().map(|l| l.names().to_vec()).unwrap_or_default();
    let categories = class_categories(&dataset, 80, &labels)?;
    let mut found = Detections::new();
    let mut all = Vec::new();
    for (image, file) in dataset.images.iter().zip(files) {
        let picture = Image::open(file.ok_or_else(|| format!("{} is missing", image.file_name))?)?;
        detector.detect_into(&picture, &mut found)?;
        all.extend(found.items().iter().filter_map(|d| {
            let [left, top, right, bottom] = d.bbox.map(f64::from);
            Some(Detection {
                image_id: image.id,
                category_id: categories[d.class as usize]?,
                bbox: [left, top, right - left, bottom - top],
                score: f64::from(d.score),
            })
        }));
    }
    assert_eq!(dataset.images.len(), 138);
    evaluate(&dataset, &all)?.ap.ok_or_else(|| "no objects".into())
}
