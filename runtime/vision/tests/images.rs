//! Image files: every channel rule, every orientation, and files that are damaged.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use saltica_vision::{EncodedFormat, ErrorKind, Image, JpegScanner, Limits, scan_jpeg};
use serde_json::Value;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/images")
}

fn expected() -> Vec<Value> {
    let text = std::fs::read_to_string(folder().join("images.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// CRC-32 (IEEE 802.3).
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &b| {
        (0..8).fold(crc ^ u32::from(b), |c, _| if c & 1 == 1 { (c >> 1) ^ 0xedb8_8320 } else { c >> 1 })
    })
}

/// Expected values made by tests/data/make_images.py: from the samples for lossless files, by Pillow for the others.
#[test]
fn every_kind_of_file_has_its_right_colours() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    let all = expected();
    assert_eq!(all.len(), 34);
    for e in &all {
        let name = e["file"].as_str().unwrap();
        let image = Image::open(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (w, h) = (e["width"].as_u64().unwrap() as usize, e["height"].as_u64().unwrap() as usize);
        assert_eq!((image.width(), image.height()), (w, h), "{name}");
        if let Some(crc) = e["crc32"].as_u64() {
            assert_eq!(u64::from(crc32(image.data())), crc, "{name}: {:?} ...", &image.data()[..12]);
        }
        for p in e["points"].as_array().into_iter().flatten() {
            let p: Vec<i32> = p.as_array().unwrap().iter().map(|v| v.as_i64().unwrap() as i32).collect();
            let found = image.pixel(p[0] as usize, p[1] as usize).unwrap();
            for c in 0..3 {
                // Decoders may differ by some levels where chroma is interpolated.
                let d = (i32::from(found[c]) - p[2 + c]).abs();
                assert!(d <= 4, "{name} at {},{}: {found:?}, {:?} expected", p[0], p[1], &p[2..]);
            }
        }
    }
}

#[test]
fn the_name_says_nothing_and_the_content_everything() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("really_a_png.jpg");
    std::fs::copy(folder().join("rgb.png"), &path).unwrap();
    assert_eq!(Image::open(&path).unwrap(), Image::open(folder().join("rgb.png")).unwrap());
}

#[test]
fn what_is_no_picture_says_so() {
    let fails = |bytes: &[u8], kind: ErrorKind, want: &str| {
        let e = Image::decode(bytes).unwrap_err();
        assert!(e.kind() == kind && e.to_string().contains(want), "{e}");
    };
    fails(b"", ErrorKind::Image, "empty");
    fails(b"hello world", ErrorKind::Image, "68 65 6c 6c 6f");
    fails(b"GIF89a\x01\x00\x01\x00\x00\x00\x00;", ErrorKind::Image, "gif");
    let e = Image::open("/no/such/file.jpg").unwrap_err();
    assert!(e.kind() == ErrorKind::Io && e.to_string().contains("/no/such/file.jpg"), "{e}");
    let e = Image::open(folder()).unwrap_err();
    assert!(e.to_string().contains("a folder found"), "{e}");
}

#[test]
fn limits_are_checked_before_pixels_are_made() {
    let bytes = std::fs::read(folder().join("rgb.png")).unwrap();
    let few = Limits { pixels: 40 * 24 - 1, ..Limits::default() };
    let e = Image::decode_with(&bytes, &few).unwrap_err();
    assert!(e.kind() == ErrorKind::TooLarge && e.to_string().contains("40x24"), "{e}");
    assert!(Image::decode_with(&bytes, &Limits { pixels: 40 * 24, ..Limits::default() }).is_ok());
    let e = Image::decode_with(&bytes, &Limits { file_bytes: 10, ..Limits::default() }).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::TooLarge);
    // A header that promises 60000 x 60000 pixels with nothing behind it.
    let mut bomb = bytes;
    bomb[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    let crc = crc32(&bomb[12..29]);
    bomb[29..33].copy_from_slice(&crc.to_be_bytes());
    let e = Image::decode(&bomb).unwrap_err();
    assert!(e.kind() == ErrorKind::TooLarge && e.to_string().contains("60000x60000"), "{e}");
}

/// Every file cut at every length: an error, or for formats whose tail holds no pixels the whole picture; never a
/// panic, never a picture with an invented part.
#[test]
fn cut_files_are_refused() {
    for e in expected() {
        let name = e["file"].as_str().unwrap();
        let bytes = std::fs::read(folder().join(name)).unwrap();
        let whole = Image::decode(&bytes).unwrap();
        for n in 0..bytes.len() {
            if let Ok(part) = Image::decode(&bytes[..n]) {
                assert!(!name.ends_with(".jpg"), "{name} cut at {n} of {} was accepted", bytes.len());
                assert_eq!(part, whole, "{name} cut at {n} of {}", bytes.len());
            }
        }
    }
}

/// Every file with bits flipped, one or several: any answer but a panic or a hang.
#[test]
fn damaged_files_never_panic() {
    let mut state = 1u64;
    let mut random = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let limits = Limits { pixels: 1 << 22, ..Limits::default() };
    for e in expected() {
        let name = e["file"].as_str().unwrap();
        let bytes = std::fs::read(folder().join(name)).unwrap();
        for round in 0..600 {
            let mut broken = bytes.clone();
            for _ in 0..1 + round % 5 {
                // Headers matter most.
                let at = if round % 2 == 0 { random(bytes.len().min(160)) } else { random(bytes.len()) };
                broken[at] ^= 1 << random(8);
            }
            if let Ok(image) = Image::decode_with(&broken, &limits) {
                assert_eq!(image.data().len(), image.width() * image.height() * 3);
            }
        }
    }
}

#[test]
fn pictures_come_back_from_files() {
    let original = Image::open(folder().join("rgb.png")).unwrap();
    assert_eq!(Image::decode(&original.encode(EncodedFormat::Png).unwrap()).unwrap(), original);
    let jpeg = Image::decode(&original.encode(EncodedFormat::Jpeg(95)).unwrap()).unwrap();
    let worst = original.data().iter().zip(jpeg.data()).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
    assert!(worst < 30, "{worst}");
    let dir = tempfile::tempdir().unwrap();
    original.save(dir.path().join("a.PNG")).unwrap();
    assert_eq!(Image::open(dir.path().join("a.PNG")).unwrap(), original);
    let e = original.save(dir.path().join("a.gif")).unwrap_err();
    assert!(e.to_string().contains(".jpg or .png"), "{e}");
}

#[test]
fn what_has_no_end_is_read_up_to_the_limit() {
    if !std::path::Path::new("/dev/zero").exists() {
        return;
    }
    let limits = Limits { file_bytes: 1000, ..Limits::default() };
    let e = Image::open_with("/dev/zero", &limits).unwrap_err();
    assert!(e.to_string().contains("more than 1000 bytes"), "{e}");
    let e = saltica_vision::ModelSpec::open("/dev/zero").unwrap_err();
    assert!(e.to_string().contains("more than 1048576 bytes"), "{e}");
}

proptest! {
    /// Bytes that are mostly markers, given in pieces of any size.
    #[test]
    fn a_jpeg_in_pieces_is_scanned_as_a_whole_one(
        body in prop::collection::vec(prop::sample::select(&[0xffu8, 0xd8, 0xd9, 0xda, 0xd0, 0xc4, 0x00, 0x01, 0x02, 0x05]), 0..60),
        steps in prop::collection::vec(1usize..9, 70),
    ) {
        let bytes: Vec<u8> = [0xff, 0xd8, 0xff].into_iter().chain(body).collect();
        let mut scanner = JpegScanner::default();
        let mut end = 0;
        for step in steps {
            end = (end + step).min(bytes.len());
            let found = scanner.scan(&bytes[..end]);
            prop_assert_eq!(found, scan_jpeg(&bytes[..end]), "{:02x?}", &bytes[..end]);
        }
    }
}
