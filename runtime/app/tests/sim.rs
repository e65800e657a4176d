//! The simulated camera from outside: as an input, as a data set, and with the model that is inside the program.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use common::models::{colour_detector, flat, write};
use common::schema::Schema;
use common::{command, saltica, stderr, stdout};
use saltica::eval::{Dataset, locate_images};
use saltica::{Image, iou};
use saltica_pipeline::source::sim::{FrameBuf, Sim, SimClip, read_index};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

/// Small frames of a bright scene: a run takes a moment.
const SMALL: &str = "sim:street?seed=10&light=day&size=320x180&first=205";

/// Runs the program in a folder.
fn saltica_in(folder: &Path, args: &[&str]) -> Output {
    command().current_dir(folder).args(args).env("SALTICA_MODELS", folder.join("models")).output().unwrap()
}

fn records(o: &Output) -> Vec<Value> {
    assert_eq!(o.status.code(), Some(0), "{}", stderr(o));
    Schema::load().check(&stdout(o))
}

fn sides(v: &Value) -> [f32; 4] {
    let numbers: Vec<f32> = v.as_array().unwrap().iter().map(|n| n.as_f64().unwrap() as f32).collect();
    numbers.try_into().unwrap()
}

#[test]
fn a_bare_machine_sees_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let o = saltica_in(dir.path(), &["detect", "sim:", "--json"]);
    let all = records(&o);
    assert_eq!(stderr(&o).lines().count(), 1, "{}", stderr(&o));
    assert!(stderr(&o).contains("saltica-nano"), "the model that nobody named is told");
    let frame = &all[0];
    assert_eq!((&frame["source"], &frame["path"]), (&"sim:".into(), &SimClip::DEMO.into()));

    // The same frame, drawn here.
    let clip = SimClip::parse(frame["path"].as_str().unwrap()).unwrap();
    let mut sim = Sim::open(&clip.spec).unwrap();
    let mut pixels = FrameBuf::default();
    let truth = sim.frame(clip.first, &mut pixels).unwrap();
    let found = frame["detections"].as_array().unwrap();
    let mut classes = std::collections::BTreeSet::new();
    for o in truth.objects.iter().filter(|o| !o.ignore && o.visibility > 0.5 && o.bbox.area() > 24.0 * 24.0) {
        let b = [o.bbox.x0, o.bbox.y0, o.bbox.x1, o.bbox.y1];
        let same = |d: &&Value| d["class"] == o.class.name() && iou(&sides(&d["box"]), &b) >= 0.5;
        assert!(found.iter().any(|d| same(&d)), "{} at {b:?} is not in {found:#?}", o.class.name());
        classes.insert(o.class.name());
    }
    assert!(classes.len() >= 6, "a frame that shows much: {classes:?}");
    for d in found.iter().filter(|d| d["score"].as_f64().unwrap() > 0.5) {
        let real = truth.objects.iter().any(|o| {
            d["class"] == o.class.name()
                && iou(&sides(&d["box"]), &[o.bbox.x0, o.bbox.y0, o.bbox.x1, o.bbox.y1]) >= 0.5
        });
        assert!(real, "{d} is not in the truth");
    }

    // The picture is the frame with boxes in it.
    let drawn = dir.path().join(frame["saved"].as_str().unwrap());
    let drawn = Image::open(&drawn).unwrap();
    assert_eq!((drawn.width(), drawn.height()), (pixels.width, pixels.height));
    let pairs = drawn.data().iter().zip(&pixels.rgb);
    let other = pairs.filter(|(a, b)| a.abs_diff(**b) > 40).count();
    assert!(other > 0 && other < drawn.data().len() / 10, "{other} of {}", drawn.data().len());
    let [left, _, right, bottom] = sides(&found[0]["box"]).map(|v| v as usize);
    let edge = ((left + right) / 2, bottom.min(drawn.height()) - 1);
    let at = (edge.1 * pixels.width + edge.0) * 3;
    assert_ne!(drawn.pixel(edge.0, edge.1).unwrap(), pixels.rgb[at..at + 3]);
}

#[test]
fn people_get_a_table_and_the_way_to_the_picture() {
    let dir = tempfile::tempdir().unwrap();
    let o = saltica_in(dir.path(), &["detect", "sim:"]);
    assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
    let text = stdout(&o);
    assert!(text.starts_with(SimClip::DEMO), "{text}");
    let path = text.lines().last().unwrap().strip_prefix("drawn in ").unwrap();
    assert!(dir.path().join(path).is_file());
    for class in ["car", "truck", "person", "traffic light"] {
        assert!(text.lines().any(|l| l.starts_with(class)), "{class}: {text}");
    }
    // Again: the same picture, no second file.
    assert_eq!(stdout(&saltica_in(dir.path(), &["detect", "sim:"])).lines().last(), text.lines().last());
    assert_eq!(std::fs::read_dir(dir.path().join("saltica-out")).unwrap().count(), 1);
}

#[test]
fn frames_are_counted_named_and_saved_as_asked() {
    let dir = tempfile::tempdir().unwrap();
    let three = format!("{SMALL}&frames=3&step=10");
    let all = records(&saltica_in(dir.path(), &["detect", &three, "--json"]));
    let paths: Vec<&str> = all[..3].iter().map(|r| r["path"].as_str().unwrap()).collect();
    assert_eq!(paths[2], "sim:street?seed=10&size=320x180&light=day&first=225");
    assert_eq!((&all[2]["frame_id"], &all[3]["frames"]), (&2.into(), &3.into()));
    let saved = all[..3].iter().map(|r| !r["saved"].is_null());
    assert_eq!(saved.collect::<Vec<_>>(), [true, false, false], "without --save the first alone");

    let all = records(&saltica_in(dir.path(), &["detect", &three, "--save", "mine", "--json"]));
    assert!(all[..3].iter().all(|r| dir.path().join(r["saved"].as_str().unwrap()).is_file()));
    assert_eq!(std::fs::read_dir(dir.path().join("mine")).unwrap().count(), 3);

    let none = tempfile::tempdir().unwrap();
    let all = records(&saltica_in(none.path(), &["detect", SMALL, "--no-save", "--json"]));
    assert!(all[0]["saved"].is_null());
    assert_eq!(std::fs::read_dir(none.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_that_cannot_be_written_to_is_no_failure_unless_it_was_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("saltica-out"), "a file of somebody").unwrap();
    let o = saltica_in(dir.path(), &["detect", SMALL]);
    assert_eq!(o.status.code(), Some(0));
    assert!(stderr(&o).contains("no picture was drawn") && stderr(&o).contains("--save"), "{}", stderr(&o));
    assert_eq!(std::fs::read(dir.path().join("saltica-out")).unwrap(), b"a file of somebody");
    assert_eq!(saltica_in(dir.path(), &["detect", SMALL, "--save", "saltica-out"]).status.code(), Some(2));
}

#[test]
fn bad_addresses_say_what_to_do() {
    for (args, part) in [
        (&["detect", "sim:stret"][..], "did you mean 'street'?"),
        (&["detect", "sim:street?sede=1"], "did you mean 'seed'?"),
        (&["detect", "sim:street?frames=0"], "frames=0 is not possible"),
        (&["detect", "sim:street?light=noon"], "day, dusk or night"),
        (&["sim", "sim:street?size=9x9"], "160x96"),
        (&["sim", "sim:street?size=1280x4321"], "size=1280x4321 is not possible"),
        (&["sim", "file:x"], "expected sim:SCENE"),
        (&["sim", "stret"], "did you mean 'street'?"),
        (&["sim", "sim:street?frames=2", "--frames", "3"], "give one of them"),
        (&["sim", "--scenes", "3"], "--coco"),
        (&["sim", "--frames", "0"], "--frames"),
        (&["eval", "sim:strt"], "did you mean 'street'?"),
        (&["eval", "sim:street", "--coco", "x.json"], "leave out --coco"),
        (&["eval", "pictures"], "--coco ANNOTATIONS.json"),
        (&["bench", "--image", "sim:street?seed=x"], "seed=x is not possible"),
    ] {
        let o = saltica(args);
        assert_eq!(o.status.code(), Some(2), "{args:?}");
        assert!(stdout(&o).is_empty(), "{args:?}");
        assert!(stderr(&o).contains(part), "{args:?}: {part} is not in {}", stderr(&o));
    }
}

#[test]
fn names_of_models_are_told_from_files() {
    let dir = tempfile::tempdir().unwrap();
    let run =
        |model: &str| saltica_in(dir.path(), &["detect", "--no-save", "--model", model, SMALL, "--json"]);
    let o = run("saltica-nano");
    records(&o);
    assert_eq!(stderr(&o), "");
    // A file of that name stands beside, and is a model with other classes.
    write(&colour_detector(), &dir.path().join("saltica-nano"));
    let o = run("saltica-nano");
    let classes = records(&o);
    assert!(classes[0]["detections"].as_array().unwrap().iter().all(|d| d["class"] != "red"));
    assert!(stderr(&o).contains("./saltica-nano for the file"), "{}", stderr(&o));
    assert_eq!(run("./saltica-nano").status.code(), Some(0));

    for (model, part) in [
        ("saltica-nan", "did you mean saltica-nano?"),
        ("yolox-nano", "saltica models pull yolox-nano"),
        ("saltica-nano.onnx", "--model saltica-nano"),
        ("nothing/like/it", "nothing/like/it"),
        ("zzzzzzzz", "Known models: saltica-nano, yolox-nano"),
    ] {
        let o = run(model);
        assert_eq!(o.status.code(), Some(2), "{model}");
        assert!(stderr(&o).contains(part), "{model}: {}", stderr(&o));
    }

    // Other commands know the name, too.
    let i = &records(&saltica(["inspect", "saltica-nano", "--batch", "1", "--json"]))[0];
    assert_eq!((&i["model"], &i["head"]["classes"]), (&"saltica-nano".into(), &8.into()));
    let listed = &records(&saltica(["models", "list", "--json"]))[0];
    assert_eq!((&i["sha256"], &i["file_bytes"]), (&listed["sha256"], &listed["bytes"]));
    assert_eq!(i["head"]["preprocessing"], listed["preprocessing"]);
    assert_eq!(listed["input"], serde_json::json!([480, 480]));
    let b = &records(&saltica(["bench", "--image", SMALL, "--duration", "0", "--warmup", "0", "--json"]))[0];
    assert_eq!(b["model"], "saltica-nano");
}

#[test]
fn photos_without_a_model_get_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    flat(&dir.path().join("a.png"), 32, [0; 3]);
    let o = saltica_in(dir.path(), &["detect", "a.png"]);
    assert_eq!(o.status.code(), Some(0));
    assert!(stderr(&o).contains("knows only scenes of the simulated camera"), "{}", stderr(&o));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is saved unasked");
}

#[test]
fn eval_needs_no_annotations_of_simulated_frames() {
    let dir = tempfile::tempdir().unwrap();
    let address = "sim:street?seed=10&light=day&first=200&frames=4&step=30";
    let o = saltica_in(dir.path(), &["eval", address, "--json", "--save-detections", "found.json"]);
    let r = &records(&o)[0];
    assert_eq!(
        (&r["images"], &r["model"], &r["annotations"]),
        (&4.into(), &"saltica-nano".into(), &address.into())
    );
    assert!(r["ap50"].as_f64().unwrap() > 0.7, "{r}");
    assert!(r["objects"].as_u64().unwrap() > 20);

    // The same frames as a data set give the same, but for JPEG's losses: PNG has none.
    let o = saltica_in(dir.path(), &["sim", address, "--coco", "set", "--png", "--json"]);
    let set = &records(&o)[0];
    assert_eq!((&set["images"], &set["scenes"]), (&4.into(), &1.into()));
    let o = saltica_in(dir.path(), &["eval", "--coco", "set/annotations.json", "set", "--json"]);
    let again = &records(&o)[0];
    for key in ["objects", "detections", "ap", "ap50", "ap75", "ar100"] {
        assert_eq!(r[key], again[key], "{key}");
    }

    // A list of frames, of which every second one counts.
    std::fs::write(
        dir.path().join("list.txt"),
        "200 sim:street?seed=10&light=day\n1 sim:crowded\n230 sim:street?seed=10&light=day\n",
    )
    .unwrap();
    let r = &records(&saltica_in(dir.path(), &["eval", "--list", "list.txt", "--every", "2", "--json"]))[0];
    assert_eq!((&r["images"], &r["annotations"]), (&2.into(), &"list.txt".into()));
}

#[test]
fn a_data_set_is_read_back_whole() {
    let dir = tempfile::tempdir().unwrap();
    let args =
        ["sim", "sim:street?seed=3&size=320x180&first=7&step=9", "--frames", "3", "--scenes", "2", "--coco"];
    let o = saltica_in(dir.path(), &[&args[..], &["out/set"]].concat());
    assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
    assert!(stdout(&o).starts_with("6 pictures, "), "{}", stdout(&o));
    let folder = dir.path().join("out/set");
    let dataset = Dataset::read(&folder.join("annotations.json")).unwrap();
    assert!(dataset.warnings.is_empty(), "{:?}", dataset.warnings);
    assert_eq!((dataset.images.len(), dataset.categories.len()), (6, 8));
    let files = locate_images(&dataset, &folder).unwrap();
    for (k, file) in files.iter().enumerate() {
        let (seed, n) = (3 + k as u64 / 3, 7 + 9 * (k as u64 % 3));
        let clip = SimClip::parse(&format!("sim:street?seed={seed}&size=320x180")).unwrap();
        let mut sim = Sim::open(&clip.spec).unwrap();
        let mut pixels = FrameBuf::default();
        let truth = sim.frame(n, &mut pixels).unwrap();
        let picture = Image::open(file.as_ref().unwrap()).unwrap();
        assert_eq!(read_index(picture.data(), 320, 180), Some(n));
        let marked = dataset.annotations.iter().filter(|a| a.image_id == dataset.images[k].id);
        let marked: Vec<[f64; 4]> = marked.map(|a| a.bbox).collect();
        let expected = truth.objects.iter().map(|o| {
            [o.bbox.x0, o.bbox.y0, o.bbox.width(), o.bbox.height()]
                .map(|v| f64::from(v.to_string().parse::<f32>().unwrap()))
        });
        let near = |a: &[f64; 4], b: &[f64; 4]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-3);
        assert!(marked.len() == truth.objects.len());
        assert!(marked.iter().zip(expected).all(|(a, b)| near(a, &b)), "frame {n} of seed {seed}");
    }
    // Nothing but the data set is there, and it is not written over.
    let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["annotations.json", "images"]);
    let before = std::fs::read(folder.join("annotations.json")).unwrap();
    let o = saltica_in(dir.path(), &[&args[..], &["out/set"]].concat());
    assert_eq!(o.status.code(), Some(2));
    assert!(stderr(&o).contains("not empty"), "{}", stderr(&o));
    assert_eq!(std::fs::read(folder.join("annotations.json")).unwrap(), before);
}

#[test]
fn what_the_camera_knows_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let o =
        saltica_in(dir.path(), &["sim", "street?seed=10&light=dusk&first=205", "--save", "frames", "--json"]);
    let r = &records(&o)[0];
    assert_eq!((&r["frame"], &r["light"], &r["width"]), (&205.into(), &"dusk".into(), &1280.into()));
    let saved = Image::open(dir.path().join(r["saved"].as_str().unwrap())).unwrap();
    let clip = SimClip::parse(r["address"].as_str().unwrap()).unwrap();
    let mut pixels = FrameBuf::default();
    let mut sim = Sim::open(&clip.spec).unwrap();
    let truth = sim.frame(clip.first, &mut pixels).unwrap();
    assert_eq!(saved.data(), pixels.rgb, "PNG loses nothing");
    let objects = r["objects"].as_array().unwrap();
    assert_eq!(objects.len(), truth.objects.len());
    for (told, o) in objects.iter().zip(&truth.objects) {
        assert_eq!((&told["class"], &told["track_id"]), (&o.class.name().into(), &o.track.into()));
    }
    let text = stdout(&saltica_in(dir.path(), &["sim", "street?seed=10&light=dusk&first=205"]));
    assert!(text.contains("1280x720, dusk") && text.contains("traffic light"), "{text}");
    assert!(stdout(&saltica(["sim", "empty?size=320x180"])).contains("0 objects"));
}

#[test]
fn tracks_stay_with_their_objects() {
    let dir = tempfile::tempdir().unwrap();
    let address = "sim:street?seed=10&light=day&size=640x360&first=205&frames=12&step=3";
    let all = records(&saltica_in(dir.path(), &["detect", address, "--track", "--json", "--no-save"]));
    let clip = SimClip::parse(address).unwrap();
    let mut sim = Sim::open(&clip.spec).unwrap();
    let mut pixels = FrameBuf::default();
    let mut objects = std::collections::BTreeMap::new();
    for (k, frame) in all.iter().take(12).enumerate() {
        let truth = sim.frame(clip.number(k as u64), &mut pixels).unwrap();
        for d in frame["detections"].as_array().unwrap() {
            let track = &d["track"];
            let near = |o: &&saltica_pipeline::source::sim::TruthObject| {
                let b = [o.bbox.x0, o.bbox.y0, o.bbox.x1, o.bbox.y1];
                d["class"] == o.class.name() && iou(&sides(&d["box"]), &b) >= 0.5
            };
            if let Some(o) = truth.objects.iter().find(near) {
                let seen: &mut Vec<(u64, f64)> = objects.entry(track["id"].as_u64().unwrap()).or_default();
                seen.push((o.track, track["age"].as_f64().unwrap()));
            }
        }
    }
    // Tracks that last: each follows one object, and their ages are those of the clip, 0.1 s a picture.
    let long: Vec<_> = objects.values().filter(|s| s.len() >= 8).collect();
    assert!(long.len() >= 5, "{objects:?}");
    for seen in long {
        assert!(seen.iter().all(|s| s.0 == seen[0].0), "{objects:?}");
        let span = seen[seen.len() - 1].1 - seen[0].1;
        assert!(span > 0.65 && span < 1.11 && (span * 10.0 - (span * 10.0).round()).abs() < 1e-6, "{span}");
    }

    let o = saltica_in(dir.path(), &["detect", address, "--track"]);
    assert!(stdout(&o).contains("track") && stdout(&o).contains("#1"), "{}", stdout(&o));
    let o = saltica_in(dir.path(), &["detect", address, "--fps", "5"]);
    assert!(o.status.code() == Some(2) && stderr(&o).contains("--track"), "{}", stderr(&o));
    let o = saltica_in(dir.path(), &["detect", address, "--track", "--fps", "0"]);
    assert!(o.status.code() == Some(2) && stderr(&o).contains("0.001"), "{}", stderr(&o));
}
