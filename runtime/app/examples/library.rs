//! The library in use: `cargo run --release --example library -- MODEL.onnx PICTURE...`
//!
//! Looks at pictures one by one, at an array of pixels, and at all pictures as one batch.

use image::ImageReader;
use ndarray::Array3;
use saltica::{Detections, Detector, Image};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let Some(model) = args.next() else { return Err("usage: library MODEL.onnx PICTURE...".into()) };
    let mut detector = Detector::builder().conf(0.4).load(model)?;
    println!("{}", detector.head());
    let paths: Vec<String> = args.collect();
    println!("{}", one_by_one(&mut detector, &paths)?);
    println!("{} objects as a batch", as_a_batch(&mut detector, &paths)?);
    Ok(())
}

/// Results are used again from picture to picture: once their buffers have grown, a picture costs no allocation.
fn one_by_one(detector: &mut Detector, paths: &[String]) -> Result<String, Box<dyn Error>> {
    let mut lines = Vec::new();
    let mut found = Detections::new();
    for path in paths {
        // What the `image` crate decodes is borrowed; `Image::open` would also turn the picture upright by its EXIF tag.
        let picture = ImageReader::open(path)?.with_guessed_format()?.decode()?;
        let time = detector.detect_into(&picture, &mut found)?;
        for object in found.items() {
            let [left, top, right, bottom] = object.bbox.map(f32::round);
            let class = detector.head().label(object.class);
            lines.push(format!("{path}: {class} {:.3} at {left},{top} to {right},{bottom}", object.score));
        }
        log::debug!("the model took {:?}", time.infer);

        // The same from rows x columns x (red, green, blue), as cameras and numpy have them.
        let (width, height) = (picture.width() as usize, picture.height() as usize);
        let pixels = Array3::from_shape_vec((height, width, 3), picture.into_rgb8().into_raw())?;
        let again = detector.detect_array(pixels.view())?;
        assert_eq!(again.items(), found.items());
    }
    Ok(lines.join("\n"))
}

/// Pictures of any sizes in one run, where the model's batch is open.
fn as_a_batch(detector: &mut Detector, paths: &[String]) -> Result<usize, Box<dyn Error>> {
    let pictures = paths.iter().map(Image::open).collect::<Result<Vec<_>, _>>()?;
    Ok(detector.detect_batch(&pictures)?.iter().map(Detections::len).sum())
}

#[cfg(test)]
#[path = "../tests/common/models.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "a test may fail")]
mod models;

#[cfg(test)]
#[test]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
fn it_does_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let mut detector = Detector::builder().load_bytes(models::colour_detector().encode()).unwrap();
    let paths = [("red", [255, 0, 0]), ("black", [0; 3]), ("blue", [0, 0, 255])].map(|(name, rgb)| {
        models::flat(&dir.path().join(name).with_extension("png"), 32, rgb).display().to_string()
    });
    let seen = one_by_one(&mut detector, &paths).unwrap();
    let lines: Vec<&str> = seen.lines().map(|l| l.rsplit_once("png: ").unwrap().1).collect();
    assert_eq!(lines, ["red 1.000 at 8,12 to 24,20", "blue 1.000 at 4,4 to 12,12"]);
    assert_eq!(as_a_batch(&mut detector, &paths).unwrap(), 2);
}
