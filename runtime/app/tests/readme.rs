//! What the README shows of `detect sim:` is what it prints and draws.
//!
//! Both are written anew, after another training or another scene, by
//!
//! ```sh
//! cargo test --release -p saltica --test readme -- --ignored
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail")]

mod common;

use common::{command, stderr, stdout};
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- what command 1 prints: CONTRIBUTING.md says how it is written -->\n```text\n";
const END: &str = "```\n<!-- the end of it -->";
/// What a page may weigh.
const MOST_BYTES: usize = 150_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The README before, in and after the block.
fn readme() -> (String, String, String) {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the README marks the block");
    let (block, after) = rest.split_once(END).expect("the README marks the block's end");
    (before.into(), block.into(), after.into())
}

/// Runs it: what it prints, and the picture's path.
fn run(folder: &Path) -> (String, PathBuf) {
    let o = command().current_dir(folder).args(["detect", "sim:"]).output().unwrap();
    assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
    let path = stdout(&o).lines().last().unwrap().strip_prefix("drawn in ").unwrap().to_owned();
    (stderr(&o) + &stdout(&o), folder.join(path))
}

/// Classes of the table's rows, sorted; the last digits of their numbers depend on the instruction set.
fn classes(text: &str) -> Vec<String> {
    let row = |l: &str| {
        let (class, score) = l.split_once("  ")?;
        score.trim().starts_with("0.").then(|| class.to_owned())
    };
    let mut found: Vec<String> = text.lines().filter_map(row).collect();
    found.sort();
    found
}

#[test]
fn the_readme_shows_what_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    let (printed, _) = run(dir.path());
    let (_, shown, _) = readme();
    let first =
        |t: &str| t.lines().find(|l| l.starts_with("sim:")).unwrap().split("  ").next().unwrap().to_owned();
    assert_eq!(first(&shown), first(&printed));
    assert!(classes(&printed).len() >= 5, "{printed}");
    assert_eq!(classes(&shown), classes(&printed), "write it anew: see the head of this file");
    let picture = saltica::Image::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("demo.jpg")).unwrap();
    assert_eq!((picture.width(), picture.height()), (960, 540));
}

#[test]
#[ignore = "writes README.md and demo.jpg"]
fn write_the_readme() {
    let dir = tempfile::tempdir().unwrap();
    // Of several runs the one that was disturbed least.
    let time = |t: &str| -> f64 {
        let head = t.lines().find(|l| l.starts_with("sim:")).unwrap();
        head.rsplit(", ").next().unwrap().trim_end_matches(" ms").parse().unwrap()
    };
    let runs = (0..10).map(|_| run(dir.path()));
    let (printed, picture) = runs.min_by(|a, b| time(&a.0).total_cmp(&time(&b.0))).unwrap();
    let (before, _, after) = readme();
    let text = format!("{before}{BEGIN}$ cargo run --release -- detect sim:\n{printed}{END}{after}");
    std::fs::write(root().join("README.md"), text).unwrap();

    let picture = image::open(picture).unwrap().resize_exact(960, 540, FilterType::Lanczos3);
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, 82).encode_image(&picture.to_rgb8()).unwrap();
    assert!(bytes.len() <= MOST_BYTES, "{} bytes", bytes.len());
    std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("demo.jpg"), bytes).unwrap();
}
