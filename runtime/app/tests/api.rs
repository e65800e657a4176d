//! The Rust API on a model built in code.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use common::models::{colour_detector, two_inputs, write};
use image::{DynamicImage, GrayImage, Rgb, RgbImage, Rgba, RgbaImage};
use ndarray::{Array3, s};
use saltica::{Detections, Detector, ErrorKind, Image, Session, Tensor};

fn detector() -> Detector {
    Detector::builder().load_bytes(colour_detector().encode()).unwrap()
}

/// Class, score in thousandths and rounded box of each object.
fn seen(found: &Detections) -> Vec<(u32, i32, [i32; 4])> {
    found
        .items()
        .iter()
        .map(|d| (d.class, (d.score * 1000.0).round() as i32, d.bbox.map(|v| v.round() as i32)))
        .collect()
}

#[test]
fn pictures_of_every_kind() {
    let mut d = detector();
    let expected = vec![(0, 1000, [16, 24, 48, 40])];
    let rgb = RgbImage::from_pixel(64, 64, Rgb([255, 0, 0]));
    assert_eq!(seen(&d.detect(&Image::from_rgb(64, 64, rgb.as_raw().clone()).unwrap()).unwrap()), expected);
    assert_eq!(seen(&d.detect(&DynamicImage::ImageRgb8(rgb)).unwrap()), expected);
    let rgba = RgbaImage::from_pixel(64, 64, Rgba([255, 0, 0, 255]));
    assert_eq!(seen(&d.detect(&DynamicImage::ImageRgba8(rgba)).unwrap()), expected);
    // A white picture is red and blue.
    let white = DynamicImage::ImageLuma8(GrayImage::from_pixel(64, 64, image::Luma([255])));
    assert_eq!(d.detect(&white).unwrap().len(), 2);

    let array = Array3::from_shape_fn((64, 64, 3), |(_, _, c)| if c == 0 { 255u8 } else { 0 });
    assert_eq!(seen(&d.detect_array(array.view()).unwrap()), expected);
    assert_eq!(seen(&d.detect(array.view()).unwrap()), expected);
    // Every second column and row of a larger one, and blue read as red through reversed channels.
    let wide =
        Array3::from_shape_fn(
            (128, 128, 3),
            |(y, x, c)| if c == 2 && y % 2 == 0 && x % 2 == 0 { 255u8 } else { 0 },
        );
    assert_eq!(seen(&d.detect_array(wide.slice(s![..;2, ..;2, ..;-1])).unwrap()), expected);

    let e = d.detect_array(Array3::<u8>::zeros((4, 4, 4)).view()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Usage);
    assert!(e.to_string().contains("4x4x4"), "{e}");
    assert!(d.detect_array(Array3::<u8>::zeros((0, 4, 3)).view()).is_err());
}

#[test]
fn a_batch_is_as_its_pictures_one_by_one() {
    let mut d = detector();
    let flat = |side: usize, rgb: [u8; 3]| Image::from_rgb(side, side, rgb.repeat(side * side)).unwrap();
    let pictures =
        [flat(64, [200, 0, 90]), flat(32, [0, 0, 255]), flat(100, [0, 0, 0]), flat(7, [255, 255, 255])];
    let single: Vec<_> = pictures.iter().map(|p| d.detect(p).unwrap().items().to_vec()).collect();
    let batch = d.detect_batch(&pictures).unwrap();
    assert_eq!(batch.len(), 4);
    for (one, of_batch) in single.iter().zip(&batch) {
        assert_eq!(one, of_batch.items());
    }
    assert!(d.detect_batch::<&Image>([]).unwrap().is_empty());
}

#[test]
fn a_model_with_a_fixed_batch_takes_any_number() {
    let dir = tempfile::tempdir().unwrap();
    for fixed in [1usize, 3] {
        let text = common::models::colour_detector_of(fixed.into());
        let mut d = Detector::load(write(&text, &dir.path().join("m.onnx"))).unwrap();
        assert_eq!(d.fixed_batch(), Some(fixed));
        let flat = |rgb: [u8; 3]| Image::from_rgb(32, 32, rgb.repeat(32 * 32)).unwrap();
        let pictures: Vec<Image> = (0..5).map(|i| flat([if i % 2 == 0 { 255 } else { 0 }, 0, 0])).collect();
        let counts: Vec<usize> = d.detect_batch(&pictures).unwrap().iter().map(Detections::len).collect();
        assert_eq!(counts, [1, 0, 1, 0, 1]);
        assert_eq!(d.detect(&pictures[0]).unwrap().len(), 1);
    }
}

#[test]
fn tensors_in_and_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = Session::load(write(&two_inputs(), &dir.path().join("m.onnx"))).unwrap();
    assert_eq!(s.inputs()[0].name, "x");
    for n in [3usize, 5, 3] {
        let x = Tensor::from_slice(&[n], &vec![2f32; n]).unwrap();
        let z = Tensor::from_slice(&[n], &vec![0.5f32; n]).unwrap();
        let out = s.run(&[("z", &z), ("x", &x)]).unwrap();
        assert_eq!(out[0].0, "y");
        assert_eq!(out[0].1.as_slice::<f32>().unwrap(), vec![2.5; n]);
        assert_eq!(out[1].1.as_slice::<f32>().unwrap(), vec![4.0; n]);
    }
    let e = Detector::load(s.path().unwrap()).err().unwrap();
    assert!(e.to_string().contains("2 inputs"), "{e}");
}
