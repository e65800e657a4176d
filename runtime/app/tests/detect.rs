//! `saltica detect` from outside, on a model built in code.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::models::{colour_detector, flat, write};
use common::schema::Schema;
use common::{saltica, stderr, stdout};
use serde_json::Value;
use std::path::{Path, PathBuf};

const RED: [u8; 3] = [255, 0, 0];
const BLUE: [u8; 3] = [0, 0, 255];

/// A model and a folder of pictures: a.png red, b.png blue, c.png black, notes.txt.
fn scene() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let model = write(&colour_detector(), &dir.path().join("colour.onnx"));
    let pictures = dir.path().join("pictures");
    flat(&pictures.join("a.png"), 64, RED);
    flat(&pictures.join("b.png"), 64, BLUE);
    flat(&pictures.join("c.png"), 64, [0; 3]);
    std::fs::write(pictures.join("notes.txt"), "x").unwrap();
    (dir, model, pictures)
}

fn args(model: &Path, rest: &[&str]) -> Vec<String> {
    let mut all = vec!["detect".to_owned(), "--model".to_owned(), model.display().to_string()];
    all.extend(rest.iter().map(|s| (*s).to_owned()));
    all
}

fn of_type<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|r| r["type"] == kind).collect()
}

#[test]
fn records_say_what_is_where() {
    let (_dir, model, pictures) = scene();
    let o = saltica(args(&model, &[pictures.to_str().unwrap(), "--json"]));
    assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
    let records = Schema::load().check(&stdout(&o));
    let frames = of_type(&records, "frame");
    assert_eq!(frames.len(), 3);
    let red = &frames[0];
    assert_eq!((&red["source_id"], &red["frame_id"], &red["width"]), (&0.into(), &0.into(), &64.into()));
    assert!(red["path"].as_str().unwrap().ends_with("a.png"));
    let found = red["detections"].as_array().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0]["class"], &found[0]["class_id"]), (&"red".into(), &0.into()));
    assert!((found[0]["score"].as_f64().unwrap() - 1.0).abs() < 1e-4);
    // The model's box in its 32 pixels, twice as large in a picture of 64.
    let sides: Vec<f64> = found[0]["box"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    for (v, e) in sides.iter().zip([16.0, 24.0, 48.0, 40.0]) {
        assert!((v - e).abs() < 1e-3, "{sides:?}");
    }
    assert_eq!(frames[1]["detections"][0]["class"], "blue");
    assert_eq!((&frames[1]["frame_id"], frames[2]["detections"].as_array().unwrap().len()), (&1.into(), 0));
    let last = records.last().unwrap();
    assert_eq!(last["type"], "summary");
    assert_eq!(
        (&last["frames"], &last["failed"], &last["skipped"], &last["detections"]),
        (&3.into(), &0.into(), &1.into(), &2.into())
    );
}

#[test]
fn people_get_a_table() {
    let (_dir, model, pictures) = scene();
    let o = saltica(args(&model, &[pictures.join("a.png").to_str().unwrap()]));
    let text = stdout(&o);
    assert!(text.contains("a.png") && text.contains("red") && text.contains("1.000"), "{text}");
    assert!(!text.contains('\x1b'));
    assert_eq!(stderr(&o), "", "no progress bar in a pipe");
}

#[test]
fn thresholds_and_classes_are_obeyed() {
    let (dir, model, _) = scene();
    let mixed = flat(&dir.path().join("mixed.png"), 32, [255, 0, 128]);
    let found = |flags: &[&str]| {
        let o = saltica(args(&model, &[&[mixed.to_str().unwrap(), "--json"], flags].concat()));
        assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
        let records = Schema::load().check(&stdout(&o));
        let names = records[0]["detections"].as_array().unwrap().iter();
        names.map(|d| d["class"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(&[]), ["red", "blue"]);
    assert_eq!(found(&["--conf", "0.6"]), ["red"]);
    assert_eq!(found(&["--classes", "blue"]), ["blue"]);
    assert_eq!(found(&["--classes", "0,1"]), ["red", "blue"]);
    assert_eq!(found(&["--max-det", "1"]), ["red"]);
    assert_eq!(found(&["--backend", "reference", "--threads", "1"]), ["red", "blue"]);
}

#[test]
fn annotated_pictures_are_saved_beside_no_input() {
    let (dir, model, pictures) = scene();
    let out = dir.path().join("out/deep");
    let o = saltica(args(&model, &[pictures.to_str().unwrap(), "--save", out.to_str().unwrap(), "--json"]));
    assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
    let records = Schema::load().check(&stdout(&o));
    let saved = records[0]["saved"].as_str().unwrap();
    let (drawn, plain) =
        (saltica::Image::open(saved).unwrap(), saltica::Image::open(pictures.join("a.png")).unwrap());
    assert_eq!((drawn.width(), drawn.height()), (64, 64));
    assert_ne!(drawn.data(), plain.data());
    // Nothing was found in the black one, so nothing is drawn.
    let black = saltica::Image::open(out.join("c.png")).unwrap();
    assert!(black.data().iter().all(|&b| b == 0));
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 3);

    let before = std::fs::read(pictures.join("a.png")).unwrap();
    let o = saltica(args(&model, &[pictures.to_str().unwrap(), "--save", pictures.to_str().unwrap()]));
    assert_eq!(o.status.code(), Some(2));
    assert!(stderr(&o).contains("would overwrite the input"), "{}", stderr(&o));
    assert_eq!(std::fs::read(pictures.join("a.png")).unwrap(), before);
}

#[test]
fn a_broken_picture_fails_alone() {
    let (_dir, model, pictures) = scene();
    std::fs::write(pictures.join("aa.png"), b"\x89PNG\r\n\x1a\n broken").unwrap();
    let o = saltica(args(&model, &[pictures.to_str().unwrap(), "--json"]));
    assert_eq!(o.status.code(), Some(1));
    let records = Schema::load().check(&stdout(&o));
    let errors = of_type(&records, "error");
    assert_eq!((errors.len(), of_type(&records, "frame").len()), (1, 3));
    assert_eq!(errors[0]["frame_id"], 1);
    assert!(errors[0]["error"].as_str().unwrap().contains("aa.png"));
    assert!(stderr(&o).contains("aa.png"));
}

#[test]
fn what_all_depends_on_ends_with_2_and_says_why() {
    let (dir, model, pictures) = scene();
    let a = pictures.join("a.png");
    let a = a.to_str().unwrap();
    std::fs::write(dir.path().join("broken.onnx"), b"not a model").unwrap();
    let fails = |model: &Path, rest: &[&str], part: &str| {
        let o = saltica(args(model, rest));
        assert_eq!(o.status.code(), Some(2), "{rest:?}: {}", stderr(&o));
        assert!(stdout(&o).is_empty());
        assert!(stderr(&o).contains(part), "{rest:?}: {part} is not in {}", stderr(&o));
    };
    fails(&dir.path().join("none.onnx"), &[a], "none.onnx");
    fails(&dir.path().join("broken.onnx"), &[a], "broken.onnx");
    fails(&model, &["/no/such.jpg"], "/no/such.jpg");
    fails(&model, &[a, "--classes", "green"], "red, blue");
    fails(&model, &[a, "--classes", "2"], "0 to 1");
    fails(&model, &[a, "--head", "yolovx"], "did you mean");
    fails(&model, &[a, "--conf", "7"], "0 to 1");
    fails(&model, &[a, "--imgsz", "64"], "64 was asked for");
    fails(&model, &[a, "--labels", "coco80"], "--labels");
    fails(&model, &[a, "--memory-limit", "10"], "the limit is 10");
}

#[test]
fn a_description_beside_the_model_counts_and_flags_come_first() {
    let (dir, model, pictures) = scene();
    std::fs::write(dir.path().join("colour.toml"), "labels = ['rouge', 'bleu']\nconf = 0.9\ncolor = 'bgr'\n")
        .unwrap();
    let class = |rest: &[&str]| {
        let picture = pictures.join("a.png");
        let all = [&[picture.to_str().unwrap(), "--json"], rest].concat();
        let o = saltica(args(&model, &all));
        assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
        Schema::load().check(&stdout(&o))[0]["detections"][0]["class"].as_str().unwrap().to_owned()
    };
    // With blue first, the model takes red for blue.
    assert_eq!(class(&[]), "bleu");
    std::fs::write(dir.path().join("other.toml"), "color = 'rgb'\nlabels = ['r', 'b']\n").unwrap();
    assert_eq!(class(&["--spec", dir.path().join("other.toml").to_str().unwrap()]), "r");
}
