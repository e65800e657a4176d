//! `saltica infer`, `inspect`, `bench` and `eval` from outside, on models built in code.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::models::{colour_detector, flat, two_inputs, write};
use common::schema::Schema;
use common::{saltica, stderr, stdout};
use saltica::{Tensor, npy};

fn records(args: &[&str]) -> Vec<serde_json::Value> {
    let o = saltica(args.iter().chain(&["--json"]));
    assert_eq!(o.status.code(), Some(0), "{args:?}: {}", stderr(&o));
    Schema::load().check(&stdout(&o))
}

#[test]
fn infer_writes_every_output() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let model = write(&two_inputs(), &dir.path().join("m.onnx")).display().to_string();
    npy::write(at("x.npy").as_ref(), &Tensor::from_slice(&[3], &[1f32, 2., 3.]).unwrap()).unwrap();
    npy::write(at("z.npy").as_ref(), &Tensor::from_slice(&[3], &[10f32, 20., 30.]).unwrap()).unwrap();
    let (x, z) = (format!("x={}", at("x.npy")), format!("z={}", at("z.npy")));
    let r = &records(&["infer", &model, "--input", &x, "--input", &z, "-o", &at("out")])[0];
    assert_eq!(r["tensors"][0]["name"], "y");
    assert_eq!(r["tensors"][0]["shape"], serde_json::json!([3]));
    let y = npy::read(r["tensors"][0]["file"].as_str().unwrap().as_ref()).unwrap();
    let s = npy::read(r["tensors"][1]["file"].as_str().unwrap().as_ref()).unwrap();
    assert_eq!(y.as_slice::<f32>().unwrap(), [11., 22., 33.]);
    assert_eq!(s.as_slice::<f32>().unwrap(), [1., 4., 9.]);

    let text = stdout(&saltica(["infer", &model, "--input", &x, "--input", &z, "-o", &at("out")]));
    assert!(text.contains("f32") && text.contains("y.npy"), "{text}");

    for (inputs, part) in [
        (vec![&x], "input 'z' must be given exactly once"),
        (vec![&x, &x, &z], "exactly once"),
        (vec![&model], "NAME=FILE.npy"),
    ] {
        let mut all = vec!["infer", &model, "-o", "/tmp"];
        inputs.iter().for_each(|i| all.extend(["--input", i.as_str()]));
        let o = saltica(&all);
        assert_eq!(o.status.code(), Some(2));
        assert!(stderr(&o).contains(part), "{part}: {}", stderr(&o));
    }
    npy::write(at("d.npy").as_ref(), &Tensor::from_slice(&[3], &[1f64; 3]).unwrap()).unwrap();
    let o = saltica(["infer", &model, "-o", "/tmp", "--input", &format!("x={}", at("d.npy")), "--input", &z]);
    assert_eq!(o.status.code(), Some(2));
    assert!(stderr(&o).contains("f64"), "{}", stderr(&o));
}

#[test]
fn infer_all_writes_the_values_on_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let model = write(&colour_detector(), &dir.path().join("m.onnx")).display().to_string();
    npy::write(at("x.npy").as_ref(), &Tensor::from_slice(&[1, 3, 32, 32], &[0.5f32; 3072]).unwrap()).unwrap();
    let r = &records(&["infer", &model, "--input", &at("x.npy"), "-o", &at("out"), "--all"])[0];
    let tensors = r["tensors"].as_array().unwrap();
    let find = |name: &str| {
        tensors.iter().find(|t| t["name"] == name).unwrap_or_else(|| panic!("{name}: {tensors:?}"))
    };
    let mean = npy::read(find("mean")["file"].as_str().unwrap().as_ref()).unwrap();
    assert_eq!(mean.shape().dims(), [1, 3, 1, 1]);
    mean.as_slice::<f32>().unwrap().iter().for_each(|v| assert!((v - 0.5).abs() < 1e-6));
    assert!(find("/head/conv:0")["file"].as_str().unwrap().ends_with("head_conv_0.npy"));
    assert_eq!(find("/head/conv:0")["output"], false);
    assert_eq!(tensors.last().unwrap()["name"], "output0");
    assert_eq!(tensors.last().unwrap()["output"], true);
}

#[test]
fn inspect_shows_head_and_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let model = write(&colour_detector(), &dir.path().join("m.onnx")).display().to_string();
    let r = &records(&["inspect", &model])[0];
    assert_eq!(r["head"]["name"], "yolov8");
    assert_eq!(r["head"]["labels"], serde_json::json!(["red", "blue"]));
    assert_eq!(r["inputs"][0]["shape"], serde_json::json!(["batch", "3", "32", "32"]));
    let plans = r["plans"].as_array().unwrap();
    assert_eq!(plans.len(), 8, "batch 1 to 8");
    for (i, p) in plans.iter().enumerate() {
        assert_eq!(p["batch"], i + 1);
        let (arena, bound) = (p["arena_bytes"].as_u64().unwrap(), p["lower_bound_bytes"].as_u64().unwrap());
        assert!(arena >= bound && bound >= (i as u64 + 1) * 3 * 32 * 32 * 4, "{p}");
    }
    let text = stdout(&saltica(["inspect", &model]));
    for part in ["yolov8", "red, blue", "lower bound", "weights", "Conv"] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    assert_eq!(records(&["inspect", &model, "--batch", "3"])[0]["plans"].as_array().unwrap().len(), 1);
}

#[test]
fn models_without_a_head_are_inspected_and_measured_too() {
    let dir = tempfile::tempdir().unwrap();
    let model = write(&two_inputs(), &dir.path().join("m.onnx")).display().to_string();
    let shapes = ["--shape", "x=1000", "--shape", "z=1000"];
    let r = &records(&[&["inspect", model.as_str()][..], &shapes].concat())[0];
    assert!(r["head"].is_null() && r["head_error"].as_str().unwrap().contains("2 inputs"));
    let r =
        &records(&[&["bench", model.as_str(), "--duration", "0", "--warmup", "0"][..], &shapes].concat())[0];
    assert!(r["head"].is_null() && r["preprocess_ms"].is_null());
    assert_eq!((&r["runs"], &r["input"]), (&1.into(), &serde_json::json!([[1000], [1000]])));

    let o = saltica(["inspect", &model]);
    assert_eq!(o.status.code(), Some(2));
    assert!(stderr(&o).contains("--shape x="), "{}", stderr(&o));
}

#[test]
fn bench_splits_the_stages() {
    let dir = tempfile::tempdir().unwrap();
    let model = write(&colour_detector(), &dir.path().join("m.onnx")).display().to_string();
    let r =
        &records(&["bench", &model, "--batch", "2", "--duration", "0.05", "--warmup", "2", "--profile"])[0];
    assert_eq!((&r["batch"], &r["warmup"]), (&2.into(), &2.into()));
    assert_eq!(r["input"], serde_json::json!([[2, 3, 32, 32]]));
    let n = r["runs"].as_u64().unwrap();
    assert!(n >= 1);
    for stage in ["preprocess_ms", "infer_ms", "postprocess_ms", "total_ms"] {
        assert_eq!(r[stage]["count"], n, "{stage}");
        assert!(r[stage]["min"].as_f64().unwrap() >= 0.0);
    }
    assert!(r["total_ms"]["min"].as_f64() >= r["infer_ms"]["min"].as_f64());
    assert!(r["memory"]["peak_rss_bytes"].as_u64().unwrap() > 1 << 20);
    assert!(r["cold_start_ms"].as_f64() >= r["first_run_ms"].as_f64());
    let share: f64 = r["ops"].as_array().unwrap().iter().map(|o| o["share"].as_f64().unwrap()).sum();
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    assert!(!r["steps"].as_array().unwrap().is_empty());
    assert!(records(&["bench", &model, "--duration", "0"])[0]["ops"].is_null());

    let text = stdout(&saltica(["bench", &model, "--duration", "0", "--profile"]));
    for part in ["preprocess", "postprocess", "p99", "cold start", "share"] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

#[test]
fn eval_runs_a_model_on_pictures_in_sub_folders() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let model = write(&colour_detector(), &dir.path().join("m.onnx")).display().to_string();
    flat(&dir.path().join("pictures/one/red.png"), 64, [255, 0, 0]);
    flat(&dir.path().join("pictures/two/blue.png"), 64, [0, 0, 255]);
    // The categories' order gives class 0 the id 9. The second box is where the model finds it, with an IoU of 1.
    let truth = r#"{"images": [{"id": 1, "file_name": "red.png"}, {"id": 2, "file_name": "blue.png"}],
        "categories": [{"id": 9, "name": "red"}, {"id": 4, "name": "blue"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 9, "bbox": [16, 24, 32, 16]},
                        {"id": 2, "image_id": 2, "category_id": 4, "bbox": [8, 8, 16, 16]},
                        {"id": 3, "image_id": 2, "category_id": 9, "bbox": [0, 0, 9, 9]}]}"#;
    std::fs::write(at("gt.json"), truth).unwrap();
    let base = ["eval", "--model", &model, "--coco", &at("gt.json"), &at("pictures")];
    let r = &records(&[&base[..], &["--save-detections", &at("dt.json")]].concat())[0];
    // Blue: 1. Red: one of two found, so precision is 1 up to a recall of 0.5: 51 of 101 points.
    let close = |v: &serde_json::Value, e: f64| assert!((v.as_f64().unwrap() - e).abs() < 1e-9, "{v} {e}");
    close(&r["ap"], (1.0 + 51.0 / 101.0) / 2.0);
    close(&r["classes"][0]["ap50"], 51.0 / 101.0);
    assert_eq!((&r["images"], &r["objects"], &r["failed"]), (&2.into(), &3.into(), &0.into()));
    close(&r["conf"], f64::from(0.01f32));
    assert_eq!(r["time_ms"]["infer"]["count"], 2);
    let again = &records(&["eval", "--coco", &at("gt.json"), "--detections", &at("dt.json")])[0];
    assert_eq!(again["ap"], r["ap"]);

    std::fs::remove_file(at("pictures/two/blue.png")).unwrap();
    let o = saltica(base);
    assert_eq!(o.status.code(), Some(2));
    assert!(stderr(&o).contains("1 of 2 pictures") && stderr(&o).contains("blue.png"), "{}", stderr(&o));
    let r = &records(&[&base[..], &["--skip-missing"]].concat())[0];
    close(&r["ap"], 1.0);
    assert_eq!(r["images"], 1);

    std::fs::write(at("pictures/two/blue.png"), "broken").unwrap();
    let o = saltica(base.iter().chain(&["--json"]));
    assert_eq!(o.status.code(), Some(1));
    assert_eq!(Schema::load().check(&stdout(&o))[0]["failed"], 1);
}

#[test]
fn every_record_is_made_by_these_tests() {
    // A record that is documented but never checked would rot: extend the tests when this list grows. The last one needs a GPU.
    assert_eq!(
        Schema::load().records(),
        [
            "bench", "dataset", "doctor", "error", "eval", "frame", "infer", "inspect", "model", "pull",
            "result", "run", "sim", "summary", "tune"
        ]
    );
}
