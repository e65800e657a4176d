//! Luma and chroma pictures: their colours against an independent conversion, read in place at any stride.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use saltica_tensor::{ColorMatrix, Colorimetry, DType, Layout, PixelFormat, Pixels, Shape, ViewMut};
use saltica_vision::{ColorOrder, Image, InputSpec, Preprocessor};

/// Byte `i` is the top byte of the splitmix64 output for `seed + i`.
fn noise(seed: u64, n: usize) -> Vec<u8> {
    (0..n as u64)
        .map(|i| {
            let mut z = seed.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 56) as u8
        })
        .collect()
}

fn format(name: &str) -> PixelFormat {
    PixelFormat::ALL.into_iter().find(|f| f.name() == name).unwrap()
}

/// The model input of `picture`, `[3][h][w]` bytes.
fn input(picture: &Pixels<'_>, target: (usize, usize), order: ColorOrder) -> Vec<u8> {
    let mut out = vec![0u8; 3 * target.0 * target.1];
    let spec = InputSpec { scale: 1.0, order, ..InputSpec::default() };
    let mut p = Preprocessor::new(spec, target, DType::U8).unwrap();
    let layout = Layout::contiguous(Shape::new(&[1, 3, target.1, target.0]).unwrap());
    p.run(picture, &mut ViewMut::of_slice(&mut out, layout).unwrap(), 0).unwrap();
    out
}

/// Expected values made by tests/data/make_yuv.py with numpy 2 (float64) and OpenCV 5.0.0.
#[test]
fn colours_are_those_of_an_independent_conversion() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/yuv.json")).unwrap();
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (mut same, mut count, mut peers) = (0, 0, 0);
    for case in all["cases"].as_array().unwrap() {
        let f = format(case["format"].as_str().unwrap());
        let (w, h) = (case["size"][0].as_u64().unwrap() as usize, case["size"][1].as_u64().unwrap() as usize);
        let matrix = match case["matrix"].as_str().unwrap() {
            "bt601" => ColorMatrix::Bt601,
            "bt709" => ColorMatrix::Bt709,
            _ => ColorMatrix::Bt2020,
        };
        let colorimetry = Colorimetry { matrix, full_range: case["full"].as_bool().unwrap() };
        let data = noise(case["seed"].as_u64().unwrap(), f.packed_bytes(w, h).unwrap());
        let picture = Pixels::packed(&data, w, h, f).unwrap().with_colorimetry(colorimetry);
        // Preprocessing to the same size is the conversion alone, as long as the resize is the identity.
        let image = Image::from_pixels(&picture);
        let planes = input(&picture, (w, h), ColorOrder::Rgb);
        for (i, at) in case["at"].as_array().unwrap().iter().enumerate() {
            let at = at.as_u64().unwrap() as usize;
            let found = i32::from(image.data()[at]);
            assert_eq!(planes[at % 3 * w * h + at / 3], image.data()[at], "{f} {w}x{h} {at}");
            let exact = case["exact"][i].as_i64().unwrap() as i32;
            assert!(
                (found - exact).abs() <= 1,
                "{f} {colorimetry} {w}x{h} at {at}: {found}, {exact} expected"
            );
            same += usize::from(found == exact);
            count += 1;
            if let Some(peer) = case["opencv"][i].as_i64() {
                assert!((found - peer as i32).abs() <= 1, "{f} at {at}: {found}, OpenCV has {peer}");
                peers += 1;
            }
        }
    }
    assert!(same * 100 >= count * 98, "{same} of {count} are exactly the nearest level");
    assert_eq!((count, peers), (35 * 60, 5 * 60));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    /// The fused pass gives what converting the whole picture first and preprocessing that gives, at any stride, with
    /// planes anywhere.
    #[test]
    fn reading_in_place_equals_converting_first(
        f in 3usize..8, w in 1usize..50, h in 1usize..40, gap in 0usize..9, tw in 1usize..40, th in 1usize..40,
        bgr: bool, full: bool, seed: u64,
    ) {
        let f = PixelFormat::ALL[f];
        let order = if bgr { ColorOrder::Bgr } else { ColorOrder::Rgb };
        let colorimetry = Colorimetry { matrix: ColorMatrix::Bt709, full_range: full };
        // Planes of their own, with gaps behind the rows.
        let planes: Vec<(Vec<u8>, usize)> = (0..f.planes())
            .map(|p| {
                let stride = f.row_bytes(p, w) + gap;
                (noise(seed + p as u64, stride * f.plane_rows(p, h)), stride)
            })
            .collect();
        let borrowed: Vec<(&[u8], usize)> = planes.iter().map(|(d, s)| (d.as_slice(), *s)).collect();
        let picture = Pixels::planar(&borrowed, w, h, f).unwrap().with_colorimetry(colorimetry);
        let converted = Image::from_pixels(&picture);
        prop_assert_eq!(input(&picture, (tw, th), order), input(&converted.pixels(), (tw, th), order));
    }
}

/// A preprocessor that has seen one colorimetry must notice another.
#[test]
fn colorimetry_may_change_between_pictures() {
    let data = noise(3, 6 * 4 * 3 / 2);
    let picture = Pixels::packed(&data, 6, 4, PixelFormat::Nv12).unwrap();
    let full = Colorimetry { full_range: true, ..Colorimetry::default() };
    let mut p =
        Preprocessor::new(InputSpec { scale: 1.0, ..InputSpec::default() }, (6, 4), DType::U8).unwrap();
    let mut run = |picture: &Pixels<'_>| {
        let mut out = vec![0u8; 3 * 24];
        let layout = Layout::contiguous(Shape::new(&[1, 3, 4, 6]).unwrap());
        p.run(picture, &mut ViewMut::of_slice(&mut out, layout).unwrap(), 0).unwrap();
        out
    };
    let limited = run(&picture);
    let wide = run(&picture.with_colorimetry(full));
    assert_ne!(limited, wide);
    assert_eq!(run(&picture), limited);
    assert_eq!(wide, input(&picture.with_colorimetry(full), (6, 4), ColorOrder::Rgb));
}
