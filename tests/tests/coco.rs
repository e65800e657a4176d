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
    map: f64,
    tolerance: f64,
}

const fn case(model: &'static str, conf: f32, iou: f32, map: f64, tolerance: f64) -> Case {
    Case { model, conf, iou, map, tolerance }
}

const CASES: [Case; 6] = [
    case("models/yolox_nano.onnx", 0.01, 0.65, 0.340, 0.005),
    case("models/yolox_nano_fp16.onnx", 0.01, 0.65, 0.340, 0.005),
    case("models/yolox_nano_int8_qdq.onnx", 0.01, 0.65, 0.318, 0.01),
    case("models/yolox_nano_int8_qdq_sym.onnx", 0.01, 0.65, 0.276, 0.01),
    case("models/fastestdet_352.onnx", 0.05, 0.45, 0.190, 0.005),
    case("models-restricted/yolov8n_dequantized_fp32_640.onnx.gz", 0.01, 0.7, 0.423, 0.005),
];

fn main() -> ExitCode {
    saltica_tests::suite(trials)
}

fn trials(shared: &Path) -> Result<Vec<Trial>> {
    let data = shared.join("data");
    let trials = CASES.into_iter().map(|case| {
        let data = data.clone();
        trial(case.model, move || {
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
    let mut detector = Detector::builder().conf(case.conf).iou(case.iou).max_det(100).load(model.path())?;
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
