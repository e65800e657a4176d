//! Real models' recorded outputs and real photos. Needs the shared test data: `SALTICA_SHARED`, else `../shared` beside
//! the workspace. Without it these tests say so and pass, except with `CI=true`.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use saltica_tensor::{DType, Layout, Shape, View, ViewMut};
use saltica_vision::{DecodeParams, Detections, Head, Image, ModelSpec, OutputInfo, Preprocessor, iou, spec};
use std::path::{Path, PathBuf};

fn shared() -> Option<PathBuf> {
    let found = match std::env::var_os("SALTICA_SHARED") {
        Some(p) => Some(PathBuf::from(p)),
        None => {
            Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|a| a.join("shared")).find(|p| p.is_dir())
        }
    };
    let found = found.map(|p| p.join("data")).filter(|p| p.is_dir());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none_or(|v| v != "true"), "the shared test data is missing");
        println!("ignored: no shared data");
    }
    found
}

/// A little-endian f32 array of a .npy file, version 1.
fn npy(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(&bytes[..7], b"\x93NUMPY\x01");
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert!(String::from_utf8_lossy(&bytes[10..start]).contains("'<f4'"));
    bytes[start..].chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn yolox() -> (ModelSpec, Head) {
    let spec = spec::known_model("695e750a5d5754bb5a8d5325643b59282191a7e7a564e435a415fd3c578eab14").unwrap();
    let outputs = [OutputInfo { name: "output", dtype: DType::F32, dims: &[1, 3549, 85] }];
    (spec.clone(), Head::recognise(spec, (416, 416), &outputs).unwrap())
}

#[test]
fn a_photo_becomes_the_golden_input() {
    let Some(data) = shared() else { return };
    let photo = Image::open(data.join("images/photos/peds_0.jpg")).unwrap();
    let golden = Image::open(data.join("golden/peds_0_letterbox416.png")).unwrap();
    let mut p = Preprocessor::new(yolox().0.input_spec(), (416, 416), DType::F32).unwrap();
    let mut out = vec![0f32; 3 * 416 * 416];
    let layout = Layout::contiguous(Shape::new(&[1, 3, 416, 416]).unwrap());
    p.run(&photo.pixels(), &mut ViewMut::of_slice(&mut out, layout).unwrap(), 0).unwrap();
    let (mut worst, mut sum) = (0f32, 0f64);
    for (i, rgb) in golden.data().chunks_exact(3).enumerate() {
        for c in 0..3 {
            let d = (out[c * 416 * 416 + i] - f32::from(rgb[2 - c])).abs();
            worst = worst.max(d);
            sum += f64::from(d);
        }
    }
    // The golden picture was decoded by libjpeg-turbo, whose inverse transform and chroma interpolation round otherwise:
    // the two decodes of this photo differ by up to 4 levels (mean 0.175) before any resize, and the resize adds nothing
    // (OpenCV's own resize of our decode has the same worst and mean difference, 4 and 0.0966).
    assert!(worst <= 4.0 && sum / out.len() as f64 <= 0.1, "worst {worst}, mean {}", sum / out.len() as f64);
}

#[test]
fn a_recorded_output_becomes_the_golden_objects() {
    let Some(data) = shared() else { return };
    let raw = npy(&data.join("golden/yolox_nano_peds_0_output.npy"));
    let photo = Image::open(data.join("images/photos/peds_0.jpg")).unwrap();
    let (spec, head) = yolox();
    let geometry =
        saltica_tensor::Geometry::new((photo.width(), photo.height()), (416, 416), spec.input_spec().resize)
            .unwrap();
    let view = View::of_slice(&raw, Layout::contiguous(Shape::new(&[1, 3549, 85]).unwrap())).unwrap();
    let mut found = Detections::new();
    let params = DecodeParams { conf: 0.35, iou: 0.45, ..head.params() };
    head.decode(&[view], 0, &params, &geometry, &mut found).unwrap();
    let text = std::fs::read_to_string(data.join("golden/photo_detections.json")).unwrap();
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let want = all["detections"]["yolox_nano"]["peds_0.jpg"].as_array().unwrap();
    assert_eq!(found.len(), want.len());
    // Darknet's spelling of the class names, in COCO's order.
    let names = std::fs::read_to_string(data.join("images/coco_classes.txt")).unwrap();
    let names: Vec<&str> = names.lines().map(str::trim).collect();
    for w in want {
        let b: Vec<f32> = w["xyxy"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect();
        let best = found
            .items()
            .iter()
            .filter(|d| Some(names[d.class as usize]) == w["cls"].as_str())
            .max_by(|x, y| {
                iou(&x.bbox, &[b[0], b[1], b[2], b[3]]).total_cmp(&iou(&y.bbox, &[b[0], b[1], b[2], b[3]]))
            })
            .unwrap();
        let shared = iou(&best.bbox, &[b[0], b[1], b[2], b[3]]);
        // The golden boxes are rounded to a tenth of a pixel, the scores to four digits.
        assert!(shared >= 0.98, "{best:?} and {w}: IoU {shared}");
        assert!((f64::from(best.score) - w["score"].as_f64().unwrap()).abs() <= 1e-4, "{best:?} and {w}");
    }
}

#[test]
fn known_files_are_recognised_by_their_content() {
    let Some(data) = shared() else { return };
    let mut count = 0;
    for entry in std::fs::read_dir(data.join("models")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "onnx") {
            let sum = spec::sha256_hex(&std::fs::read(&path).unwrap());
            assert!(spec::known_model(&sum).is_some(), "{}", path.display());
            count += 1;
        }
    }
    assert!(count >= 8, "{count} models found");
}
