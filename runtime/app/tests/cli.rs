//! The program from outside: what it prints, where, and how it ends.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::schema::Schema;
use common::{command, command_that_heeds_signals, saltica, stderr, stdout};
use std::io::{Read, Write};
use std::process::Stdio;

const TRUTH: &str = r#"{"images": [{"id": 5, "file_name": "a.jpg"}],
    "categories": [{"id": 3, "name": "cat"}, {"id": 1, "name": "dog"}],
    "annotations": [{"image_id": 5, "category_id": 3, "bbox": [0, 0, 50, 50]},
                    {"image_id": 5, "category_id": 99, "bbox": [0, 0, 50, 50]}]}"#;
const FOUND: &str = r#"[{"image_id": 5, "category_id": 3, "bbox": [0, 0, 50, 40], "score": 0.9}]"#;

/// A folder with a ground truth and detections.
fn eval_files() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("gt.json"), TRUTH).unwrap();
    std::fs::write(dir.path().join("dt.json"), FOUND).unwrap();
    dir
}

fn eval_args(dir: &tempfile::TempDir) -> [String; 5] {
    let at = |name: &str| dir.path().join(name).display().to_string();
    ["eval".into(), "--coco".into(), at("gt.json"), "--detections".into(), at("dt.json")]
}

#[test]
fn doctor_tells_people_and_machines() {
    let o = saltica(["doctor"]);
    assert_eq!(o.status.code(), Some(0));
    let text = stdout(&o);
    for part in ["cpu", "features", "cores", "memory", "gpu", env!("CARGO_PKG_VERSION")] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    assert!(!text.contains('\x1b'), "colours in a pipe");

    let o = saltica(["doctor", "--json"]);
    let records = Schema::load().check(&stdout(&o));
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["version"], env!("CARGO_PKG_VERSION"));
    assert!(records[0]["cpu"]["threads"].as_u64().unwrap() >= 1);
}

#[test]
fn eval_scores_detections_of_any_program() {
    let dir = eval_files();
    let o = saltica(eval_args(&dir));
    assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
    // IoU 0.8: found at 0.50 to 0.80, that is 7 of 10 thresholds.
    assert!(stdout(&o).contains("0.7000"), "{}", stdout(&o));
    assert!(
        stderr(&o).contains("warning: ") && stderr(&o).contains("categories that the file does not list")
    );

    let o = saltica(eval_args(&dir).iter().map(String::as_str).chain(["--json"]));
    let records = Schema::load().check(&stdout(&o));
    let close = |v: &serde_json::Value, e: f64| assert!((v.as_f64().unwrap() - e).abs() < 1e-9, "{v}");
    close(&records[0]["ap"], 0.7);
    close(&records[0]["ap50"], 1.0);
    close(&records[0]["ap75"], 1.0);
    assert_eq!(records[0]["ap_large"], serde_json::Value::Null);
    assert_eq!(records[0]["classes"][0]["name"], "cat");
    assert_eq!(records[0]["classes"][1]["ap"], serde_json::Value::Null);
}

#[test]
fn what_cannot_be_loaded_ends_with_2_and_is_named() {
    let dir = eval_files();
    std::fs::write(dir.path().join("dt.json"), "{").unwrap();
    let o = saltica(eval_args(&dir));
    assert_eq!(o.status.code(), Some(2));
    assert!(stdout(&o).is_empty());
    assert!(stderr(&o).starts_with("error: ") || stderr(&o).contains("\nerror: "), "{}", stderr(&o));
    assert!(stderr(&o).contains("dt.json is not a COCO results file"), "{}", stderr(&o));

    std::fs::remove_file(dir.path().join("gt.json")).unwrap();
    let o = saltica(eval_args(&dir));
    assert_eq!(o.status.code(), Some(2));
    assert!(stderr(&o).contains("gt.json: No such file"), "{}", stderr(&o));
}

#[test]
fn wrong_usage_ends_with_2_and_help_with_0() {
    for args in [&[][..], &["fly"], &["doctor", "--loud"], &["eval"]] {
        let o = saltica(args);
        assert_eq!(o.status.code(), Some(2), "{args:?}");
        assert!(stdout(&o).is_empty(), "{args:?}");
    }
    assert!(stderr(&saltica(["docto"])).contains("doctor"), "suggests what was meant");
    let help = saltica(["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(stdout(&help).contains("Exit codes:"));
    assert_eq!(saltica(["--version"]).status.code(), Some(0));
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let dir = eval_files();
    let doctor = ["doctor".to_owned()].to_vec();
    for args in [doctor, eval_args(&dir).to_vec()] {
        for json in [false, true] {
            let mut c = command();
            c.args(&args).stdout(Stdio::piped()).stderr(Stdio::piped());
            if json {
                c.arg("--json");
            }
            // Closed before the first byte is written, as with `| head -0`.
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let o = c.stdout(writer).output().unwrap();
            assert_eq!(o.status.code(), Some(0), "{args:?}");
            assert!(!stderr(&o).contains("error") && !stderr(&o).contains("panic"), "{}", stderr(&o));
        }
    }
}

#[test]
fn an_interrupt_ends_it_as_shells_expect() {
    let dir = eval_files();
    // A pipe as annotation file keeps the program waiting.
    let fifo = dir.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut child = command_that_heeds_signals()
        .args(["eval", "--coco"])
        .arg(&fifo)
        .arg("--detections")
        .arg(dir.path().join("dt.json"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Opening succeeds once the program reads, that is after its handler is set.
    let mut writer = std::fs::File::options().write(true).open(&fifo).unwrap();
    writer.write_all(b"{").unwrap();
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}

#[test]
fn eval_does_not_write_over_what_it_reads() {
    let dir = eval_files();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (truth, model, folder) = (at("gt.json"), at("model.onnx"), dir.path().display().to_string());
    std::fs::write(&model, "kept").unwrap();
    std::fs::write(at("photo.jpg"), "kept").unwrap();
    for target in [&truth, &model, &at("photo.jpg")] {
        let o = saltica(["eval", "--coco", &truth, "--model", &model, &folder, "--save-detections", target]);
        assert_eq!(o.status.code(), Some(2), "{}", stderr(&o));
        assert!(stderr(&o).contains("would overwrite the input"), "{}", stderr(&o));
    }
    assert_eq!(std::fs::read_to_string(&truth).unwrap(), TRUTH);
    assert_eq!(std::fs::read_to_string(&model).unwrap(), "kept");
}
