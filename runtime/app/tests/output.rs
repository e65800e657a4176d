//! What becomes of files and folders that the program writes: when it is stopped, when two of it run, and when their names
//! or what stands in their places are odd.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use common::models::{colour_detector, flat, write};
use common::schema::Schema;
use common::{command, command_that_heeds_signals, stderr, stdout};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Output};

/// A frame that is drawn in a moment.
const SMALL: &str = "sim:empty?size=160x96";
/// More frames than any test waits for.
const LONG: [&str; 4] = ["sim", "sim:empty?size=160x96", "--frames", "1000000"];

fn saltica_in(folder: &Path, args: &[&str]) -> Output {
    command().current_dir(folder).args(args).env("SALTICA_MODELS", folder.join("models")).output().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut all: Vec<String> =
        entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    all.sort();
    all
}

fn mkfifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

/// Waits until so many pictures are in a hidden folder.
fn wait_for(child: &mut Child, hidden: &Path, pictures: usize) {
    while !hidden.join(format!("images/{pictures:08}.jpg")).exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn count(hidden: &Path) -> usize {
    std::fs::read_dir(hidden.join("images")).unwrap().count()
}

#[test]
fn a_data_set_fills_the_folder_that_the_shell_stands_in() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("it's a new one");
    std::fs::create_dir(&here).unwrap();
    let before = here.metadata().unwrap();
    let o = saltica_in(&here, &["sim", SMALL, "--coco", "."]);
    assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
    let after = here.metadata().unwrap();
    assert_eq!((after.ino(), after.mode()), (before.ino(), before.mode()));
    assert_eq!(names(&here), ["annotations.json", "images"]);

    // The command that is told works, there and with a name that a shell must not split.
    let o2 = saltica_in(dir.path(), &["sim", SMALL, "--coco", "b & c"]);
    for (o, folder) in [(&o, here.as_path()), (&o2, dir.path())] {
        let told = stdout(o).lines().last().unwrap().to_owned();
        let rest = told.strip_prefix("saltica ").unwrap();
        let script = format!("{} {rest} --json", env!("CARGO_BIN_EXE_saltica"));
        let said = Command::new("sh").args(["-c", &script]).current_dir(folder).output().unwrap();
        assert_eq!(said.status.code(), Some(0), "{told}: {}", stderr(&said));
        assert_eq!(Schema::load().check(&stdout(&said))[0]["images"], 1);
    }
    let o = saltica_in(&here, &["sim", SMALL, "--coco", "annotations.json"]);
    assert!(stderr(&o).contains("annotations.json is a file, not a folder"), "{}", stderr(&o));
}

#[test]
fn whatever_stops_it_a_data_set_leaves_nothing() {
    for (name, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("empty")).unwrap();
        for (set, hidden) in [("new", ".new.part"), ("empty", "empty/.saltica.part")] {
            let hidden = dir.path().join(hidden);
            let mut child = command_that_heeds_signals()
                .current_dir(dir.path())
                .args(LONG)
                .args(["--coco", set])
                .spawn()
                .unwrap();
            wait_for(&mut child, &hidden, 3);
            signal(&child, name);
            assert_eq!(child.wait().unwrap().code(), Some(code), "{name}");
            assert_eq!(names(dir.path()), ["empty"], "{name}");
            assert!(names(&dir.path().join("empty")).is_empty(), "{name}");
        }
    }
}

#[test]
fn signals_that_are_to_be_ignored_are() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("trap '' INT HUP; exec {} \"$@\"", env!("CARGO_BIN_EXE_saltica"));
    let mut child = Command::new("sh")
        .current_dir(dir.path())
        .args(["-c", &script, "sh"])
        .args(LONG)
        .args(["--coco", "set"])
        .spawn()
        .unwrap();
    let hidden = dir.path().join(".set.part");
    wait_for(&mut child, &hidden, 3);
    for name in ["-INT", "-HUP"] {
        signal(&child, name);
        let then = count(&hidden);
        wait_for(&mut child, &hidden, then + 3);
    }
    signal(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(names(dir.path()).is_empty());
}

#[test]
fn of_two_runs_into_one_folder_the_second_is_told_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = command().current_dir(dir.path()).args(LONG).args(["--coco", "set"]).spawn().unwrap();
    let hidden = dir.path().join(".set.part");
    wait_for(&mut child, &hidden, 1);
    // Of as many frames it would take hours.
    let o = saltica_in(dir.path(), &[&LONG[..], &["--coco", "set"]].concat());
    assert_eq!(o.status.code(), Some(2));
    assert!(stderr(&o).contains("another program is filling set"), "{}", stderr(&o));
    let then = count(&hidden);
    wait_for(&mut child, &hidden, then + 1);

    // What a killed run leaves is in nobody's way.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(hidden.exists());
    let o = saltica_in(dir.path(), &["sim", SMALL, "--coco", "set"]);
    assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
    assert_eq!((names(dir.path()), names(&dir.path().join("set/images")).len()), (vec!["set".into()], 1));
}

#[test]
fn places_that_cannot_be_written_are_told_before_the_work() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    mkfifo(&dir.path().join("pipe"));
    let many = "sim:empty?size=160x96&frames=1000000";
    for (args, part) in [
        (&["sim", many, "--coco", "/proc/self/task/new"][..], "cannot fill the folder /proc/self/task/new"),
        (&["sim", many, "--save", "/proc/self/task"], "cannot write to the folder /proc/self/task"),
        (&["detect", many, "--save", "/proc/self/task"], "cannot write to the folder /proc/self/task"),
        (&["eval", many, "--save-detections", "no/such/x.json"], "cannot write no/such/x.json"),
        (&["eval", many, "--save-detections", "folder"], "cannot write folder: Is a directory"),
        (&["eval", many, "--save-detections", "pipe"], "cannot write pipe: a pipe that nobody reads"),
    ] {
        let o = saltica_in(dir.path(), args);
        assert_eq!(o.status.code(), Some(2), "{args:?}: {}", stderr(&o));
        assert!(stderr(&o).contains(part), "{args:?}: {}", stderr(&o));
        assert_eq!(stderr(&o).lines().filter(|l| l.starts_with("error:")).count(), 1, "{}", stderr(&o));
    }
    assert_eq!(names(dir.path()), ["folder", "pipe"]);
}

#[test]
fn a_report_does_not_depend_on_the_file_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let address = "sim:street?seed=10&light=day&first=205&size=320x180";
    let o = saltica_in(dir.path(), &["eval", address, "--save-detections", "/dev/full", "--json"]);
    assert_eq!(o.status.code(), Some(1), "{}", stderr(&o));
    assert_eq!(Schema::load().check(&stdout(&o))[0]["images"], 1);
    assert!(stderr(&o).contains("error: cannot write /dev/full"), "{}", stderr(&o));
    // Nor the file on somebody who reads the report.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut c = command();
    c.current_dir(dir.path()).args(["eval", address, "--save-detections", "found.json"]).stdout(writer);
    assert_eq!(c.output().unwrap().status.code(), Some(0));
    assert!(std::fs::read_to_string(dir.path().join("found.json")).unwrap().starts_with('['));
}

#[test]
fn a_pipe_in_a_pictures_place_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let model = write(&colour_detector(), &dir.path().join("m.onnx"));
    flat(&dir.path().join("a/x.png"), 32, [255, 0, 0]);
    flat(&dir.path().join("a/y.png"), 32, [255, 0, 0]);
    std::fs::create_dir_all(dir.path().join("out/y.png")).unwrap();
    mkfifo(&dir.path().join("out/x.png"));
    let o = saltica_in(dir.path(), &["detect", "-m", model.to_str().unwrap(), "a", "--save", "out"]);
    assert_eq!(o.status.code(), Some(1));
    assert!(stderr(&o).contains("out/x.png: a pipe that nobody reads"), "{}", stderr(&o));
    assert!(stderr(&o).contains("out/y.png: Is a directory"), "{}", stderr(&o));

    // Of a picture that nobody asked for, under the next name.
    std::fs::create_dir(dir.path().join("saltica-out")).unwrap();
    mkfifo(&dir.path().join("saltica-out/empty-seed1-frame0.jpg"));
    let o = saltica_in(dir.path(), &["detect", SMALL]);
    assert_eq!(o.status.code(), Some(0));
    assert!(stdout(&o).contains("drawn in saltica-out/empty-seed1-frame0-2.jpg"), "{}", stdout(&o));
}

#[test]
fn no_name_reaches_a_terminal_as_an_escape() {
    let dir = tempfile::tempdir().unwrap();
    let evil = "\x1b]0;x\x07\x1b[2J\u{202e}";
    let here = dir.path().join(evil);
    std::fs::create_dir(&here).unwrap();
    let picture = format!("{evil}/{evil}.png");
    flat(&dir.path().join(&picture), 32, [255, 0, 0]);
    let model = format!("{evil}/{evil}.onnx");
    write(&colour_detector(), &dir.path().join(&model));
    std::fs::write(here.join("text.png"), "no picture").unwrap();
    std::fs::write(here.join("coco.json"), r#"{"images":[],"categories":[],"annotations":[]}"#).unwrap();
    let at = |name: &str| format!("{evil}/{name}");
    let runs: Vec<Vec<String>> = [
        &["detect", "-m", &model, &picture, "--save", &at("out")][..],
        &["detect", "-m", &model, evil],
        &["detect", "-m", &model, &at("nothing")],
        &["detect", "-m", &at("nothing.onnx"), &picture],
        &["detect", "-m", evil, &picture],
        &["detect", SMALL, "--save", &picture],
        &["detect", evil],
        &["sim", evil],
        &["sim", &format!("sim:street?light={evil}")],
        &["sim", SMALL, "--save", &at("frames")],
        &["sim", SMALL, "--coco", &at("set")],
        &["sim", SMALL, "--coco", evil],
        &["sim", SMALL, "--coco", &picture],
        &["inspect", &model],
        &["inspect", &at("text.png")],
        &["bench", &model, "--duration", "0", "--warmup", "0"],
        &["bench", &model, "--image", &at("text.png")],
        &["eval", "--coco", &at("coco.json"), evil, "-m", &model],
        &["eval", "--coco", &at("text.png"), evil, "-m", &model],
        &["eval", "--list", &at("text.png"), "-m", &model],
        &["models", "list"],
        &["models", "list", "--long"],
        &["models", "pull", evil],
        &["models", "pull", "yunet", "--attempts", "1", "--url", &format!("http://127.0.0.1:9/{evil}")],
    ]
    .map(|args| args.iter().map(|a| (*a).to_owned()).collect())
    .into();
    for args in runs {
        let o = command()
            .current_dir(dir.path())
            .args(&args)
            .arg("-v")
            .env("SALTICA_MODELS", dir.path().join(evil).join("text.png"))
            .output()
            .unwrap();
        for said in [stdout(&o), stderr(&o)] {
            let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!said.contains(bad), "{args:?}: {said:?}");
        }
        assert!(!(o.stdout.is_empty() && o.stderr.is_empty()), "{args:?}");
    }
}
