//! Pictures to tensors: against OpenCV's resize, and every dtype and layout against one definition.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use half::f16;
use proptest::prelude::*;
use saltica_tensor::{DType, Element, Geometry, Layout, PixelFormat, Pixels, ResizeMode, Shape, ViewMut};
use saltica_vision::{ColorOrder, ErrorKind, InputSpec, Preprocessor};

/// The splitmix64 output number `i` of a seed.
fn hash(seed: u64, i: u64) -> u64 {
    let mut z = seed.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn noise(seed: u64, n: usize) -> Vec<u8> {
    (0..n as u64).map(|i| (hash(seed, i) >> 56) as u8).collect()
}

fn shape(n: usize, (w, h): (usize, usize)) -> Shape {
    Shape::new(&[n, 3, h, w]).unwrap()
}

/// The picture in the model input's bytes, `[3][h][w]`.
fn bytes(picture: &Pixels<'_>, target: (usize, usize), spec: InputSpec) -> Vec<u8> {
    let mut out = vec![0u8; 3 * target.0 * target.1];
    let spec = InputSpec { scale: 1.0, std: [1.0; 3], ..spec };
    let mut p = Preprocessor::new(spec, target, DType::U8).unwrap();
    let mut view = ViewMut::of_slice(&mut out, Layout::contiguous(shape(1, target))).unwrap();
    p.run(picture, &mut view, 0).unwrap();
    out
}

/// Expected values made by tests/data/make_resize.py with OpenCV 5.0.0.
#[test]
fn resize_is_opencvs_within_one_level() {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/resize.json")).unwrap();
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (mut same, mut count) = (0, 0);
    for case in all["cases"].as_array().unwrap() {
        let pair = |k: &str| (case[k][0].as_u64().unwrap() as usize, case[k][1].as_u64().unwrap() as usize);
        let (source, target) = (pair("source"), pair("target"));
        let data = noise(case["seed"].as_u64().unwrap(), source.0 * source.1 * 3);
        let picture = Pixels::packed(&data, source.0, source.1, PixelFormat::Rgb8).unwrap();
        let out = bytes(&picture, target, InputSpec { resize: ResizeMode::Stretch, ..InputSpec::default() });
        for (at, want) in case["at"].as_array().unwrap().iter().zip(case["values"].as_array().unwrap()) {
            // OpenCV's index is interleaved.
            let (at, want) = (at.as_u64().unwrap() as usize, want.as_u64().unwrap() as i32);
            let found = i32::from(out[at % 3 * target.0 * target.1 + at / 3]);
            assert!((found - want).abs() <= 1, "{source:?} -> {target:?} at {at}: {found}, {want} expected");
            same += usize::from(found == want);
            count += 1;
        }
    }
    // OpenCV itself rounds the last columns of a row, which its vector code leaves over, a little otherwise.
    assert!(same * 100 >= count * 98, "{same} of {count} are equal");
}

#[test]
fn a_letterbox_has_the_picture_in_its_place_and_padding_around() {
    let data = noise(5, 30 * 20 * 3);
    let picture = Pixels::packed(&data, 30, 20, PixelFormat::Rgb8).unwrap();
    let pad = 77;
    for (mode, left, top) in [(ResizeMode::Letterbox, 0, 10), (ResizeMode::LetterboxTopLeft, 0, 0)] {
        let out = bytes(&picture, (60, 60), InputSpec { resize: mode, pad, ..InputSpec::default() });
        let inner =
            bytes(&picture, (60, 40), InputSpec { resize: ResizeMode::Stretch, ..InputSpec::default() });
        for c in 0..3 {
            for y in 0..60usize {
                for x in 0..60usize {
                    let inside = (top..top + 40).contains(&y) && x >= left;
                    let want = if inside { inner[(c * 40 + y - top) * 60 + x - left] } else { pad };
                    assert_eq!(out[(c * 60 + y) * 60 + x], want, "{mode} {c} {y} {x}");
                }
            }
        }
    }
}

#[test]
fn a_crop_is_the_middle_of_the_covering_picture() {
    let data = noise(6, 50 * 20 * 3);
    let picture = Pixels::packed(&data, 50, 20, PixelFormat::Rgb8).unwrap();
    let out = bytes(&picture, (32, 32), InputSpec { resize: ResizeMode::Crop, ..InputSpec::default() });
    let whole = bytes(&picture, (80, 32), InputSpec { resize: ResizeMode::Stretch, ..InputSpec::default() });
    for c in 0..3 {
        for y in 0..32 {
            let row = &whole[(c * 32 + y) * 80..][..80];
            assert_eq!(&out[(c * 32 + y) * 32..][..32], &row[24..56], "channel {c} row {y}");
        }
    }
}

#[test]
fn values_are_rounded_once_from_the_exact_ones() {
    let data: Vec<u8> = (0..=255).flat_map(|b| [b, b, b]).collect();
    let picture = Pixels::packed(&data, 256, 1, PixelFormat::Rgb8).unwrap();
    let mut out = vec![0f32; 768];
    let mut p = Preprocessor::new(InputSpec::default(), (256, 1), DType::F32).unwrap();
    p.run(&picture, &mut ViewMut::of_slice(&mut out, Layout::contiguous(shape(1, (256, 1)))).unwrap(), 0)
        .unwrap();
    for b in 0..256 {
        // What `astype(float32) / 255` gives in numpy.
        assert_eq!(out[b], b as f32 / 255.0, "{b}");
    }
    let spec = InputSpec {
        order: ColorOrder::Bgr,
        mean: [0.406, 0.456, 0.485],
        std: [0.225, 0.224, 0.229],
        ..InputSpec::default()
    };
    let mut p = Preprocessor::new(spec, (256, 1), DType::F32).unwrap();
    p.run(&picture, &mut ViewMut::of_slice(&mut out, Layout::contiguous(shape(1, (256, 1)))).unwrap(), 0)
        .unwrap();
    assert_eq!(out[2 * 256 + 200], ((200.0 / 255.0 - 0.485) / 0.229) as f32);
}

#[test]
fn colour_orders_and_formats_meet() {
    let rgb = noise(9, 19 * 11 * 3);
    let bgr: Vec<u8> = rgb.chunks_exact(3).flat_map(|p| [p[2], p[1], p[0]]).collect();
    let target = (32, 32);
    let run = |data: &[u8], format, order| {
        let p = Pixels::packed(data, 19, 11, format).unwrap();
        bytes(&p, target, InputSpec { order, ..InputSpec::default() })
    };
    let want = run(&rgb, PixelFormat::Rgb8, ColorOrder::Rgb);
    assert_eq!(run(&bgr, PixelFormat::Bgr8, ColorOrder::Rgb), want);
    let swapped = run(&rgb, PixelFormat::Rgb8, ColorOrder::Bgr);
    assert_eq!(run(&bgr, PixelFormat::Bgr8, ColorOrder::Bgr), swapped);
    assert_eq!(swapped[..1024], want[2048..]);
    assert_eq!(swapped[1024..2048], want[1024..2048]);
    let gray = noise(10, 19 * 11);
    let tripled: Vec<u8> = gray.iter().flat_map(|&g| [g; 3]).collect();
    assert_eq!(
        run(&gray, PixelFormat::Gray8, ColorOrder::Bgr),
        run(&tripled, PixelFormat::Rgb8, ColorOrder::Rgb)
    );
}

/// Writes picture `index` of a batch of 2 through these strides and reads it back in NCHW order.
fn through<T: Element>(
    picture: &Pixels<'_>,
    spec: InputSpec,
    target: (usize, usize),
    layout: Layout,
    index: usize,
) -> Vec<f64> {
    let mark = T::from_f64(99.0);
    let mut memory = vec![mark; layout.span() + 5];
    let mut p = Preprocessor::new(spec, target, T::DTYPE).unwrap();
    let mut view = ViewMut::of_slice(&mut memory, layout).unwrap();
    p.run(picture, &mut view, index).unwrap();
    let per = 3 * target.0 * target.1;
    let read = (index * per..(index + 1) * per).map(|i| view.at_f64(i)).collect();
    // The other picture and what lies between the elements stay untouched.
    let touched = memory.iter().filter(|&&v| v != mark).count();
    assert!(touched <= per, "{touched} elements written, {per} expected");
    read
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn every_layout_dtype_and_stride_gives_the_same_values(
        sw in 1usize..60, sh in 1usize..60, tw in 1usize..50, th in 1usize..50, mode in 0usize..4, extra in 0usize..7,
        index in 0usize..2, gap in 0usize..9, bgr: bool, seed: u64,
    ) {
        let stride = sw * 3 + gap;
        let data = noise(seed, stride * sh);
        let picture = Pixels::new(&data, sw, sh, stride, PixelFormat::Rgb8).unwrap();
        let spec = InputSpec {
            order: if bgr { ColorOrder::Bgr } else { ColorOrder::Rgb },
            resize: ResizeMode::ALL[mode],
            // Whole values: exact in every dtype, and never the mark.
            scale: 0.25, mean: [0.0; 3], std: [0.25; 3], pad: 114,
        };
        let target = (tw, th);
        let s = shape(2, target);
        let want: Vec<f64> = bytes(&picture, target, spec).iter().map(|&b| f64::from(b)).collect();
        let plane = th * (tw + extra) + extra;
        let layouts = [
            Layout::contiguous(s),
            Layout::channels_last(s, 3).unwrap(),
            Layout::channels_last(s, 3 + extra).unwrap(),
            Layout::strided(s, &[3 * plane, plane, tw + extra, 1]).unwrap(),
            Layout::strided(s, &[3 * plane * 2, plane * 2, (tw + extra) * 2, 2]).unwrap(),
        ];
        for layout in layouts {
            prop_assert_eq!(&through::<f32>(&picture, spec, target, layout, index), &want);
            prop_assert_eq!(&through::<f16>(&picture, spec, target, layout, index), &want);
            prop_assert_eq!(&through::<u8>(&picture, spec, target, layout, index), &want);
        }
    }

    #[test]
    fn one_preprocessor_serves_pictures_of_any_size(sizes in prop::collection::vec((1usize..80, 1usize..80), 1..6), seed: u64) {
        let target = (48, 32);
        let mut p = Preprocessor::new(InputSpec::default(), target, DType::F32).unwrap();
        for (w, h) in sizes.into_iter().flat_map(|s| [s, s]) {
            let data = noise(seed, w * h * 3);
            let picture = Pixels::packed(&data, w, h, PixelFormat::Rgb8).unwrap();
            let (mut a, mut b) = (vec![0f32; 3 * 48 * 32], vec![0f32; 3 * 48 * 32]);
            let layout = Layout::contiguous(shape(1, target));
            let g = p.run(&picture, &mut ViewMut::of_slice(&mut a, layout).unwrap(), 0).unwrap();
            prop_assert_eq!(g, Geometry::new((w, h), target, ResizeMode::Letterbox).unwrap());
            Preprocessor::new(InputSpec::default(), target, DType::F32).unwrap()
                .run(&picture, &mut ViewMut::of_slice(&mut b, layout).unwrap(), 0).unwrap();
            prop_assert_eq!(a, b);
        }
    }
}

#[test]
fn integers_saturate() {
    let data = [0, 128, 255].map(|b| [b; 3]).concat();
    let picture = Pixels::packed(&data, 3, 1, PixelFormat::Rgb8).unwrap();
    let spec = InputSpec { scale: 2.0, mean: [128.0; 3], ..InputSpec::default() };
    let layout = Layout::contiguous(shape(1, (3, 1)));
    let mut u = [0u8; 9];
    let mut p = Preprocessor::new(spec, (3, 1), DType::U8).unwrap();
    p.run(&picture, &mut ViewMut::of_slice(&mut u, layout).unwrap(), 0).unwrap();
    assert_eq!(u[..3], [0, 128, 255]);
    let mut i = [0i8; 9];
    let mut p = Preprocessor::new(spec, (3, 1), DType::I8).unwrap();
    p.run(&picture, &mut ViewMut::of_slice(&mut i, layout).unwrap(), 0).unwrap();
    assert_eq!(i[..3], [-128, 127, 127]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |e: saltica_vision::Error, kind: ErrorKind, want: &str| {
        assert!(e.kind() == kind && e.to_string().contains(want), "{e}");
    };
    let spec = InputSpec::default();
    refused(Preprocessor::new(spec, (0, 5), DType::F32).err().unwrap(), ErrorKind::Shape, "0x5");
    refused(Preprocessor::new(spec, (5, 5), DType::I64).err().unwrap(), ErrorKind::Shape, "i64");
    let zero = InputSpec { std: [1.0, 0.0, 1.0], ..spec };
    refused(Preprocessor::new(zero, (5, 5), DType::F32).err().unwrap(), ErrorKind::Spec, "std not 0");
    let data = [0u8; 12];
    let picture = Pixels::packed(&data, 2, 2, PixelFormat::Rgb8).unwrap();
    let mut p = Preprocessor::new(spec, (4, 4), DType::F32).unwrap();
    let mut out = vec![0f32; 96];
    let mut run = |dims: &[usize], index| {
        let layout = Layout::contiguous(Shape::new(dims).unwrap());
        p.run(&picture, &mut ViewMut::of_slice(&mut out, layout).unwrap(), index)
    };
    refused(run(&[1, 3, 4, 5], 0).unwrap_err(), ErrorKind::Shape, "[N, 3, 4, 4]");
    refused(run(&[1, 1, 4, 4], 0).unwrap_err(), ErrorKind::Shape, "1x1x4x4");
    refused(run(&[2, 3, 4, 4], 2).unwrap_err(), ErrorKind::Shape, "N > 2");
    refused(run(&[48], 0).unwrap_err(), ErrorKind::Shape, "48");
    assert!(run(&[2, 3, 4, 4], 1).is_ok());
    let mut bytes = [0u8; 48];
    let mut view = ViewMut::of_slice(&mut bytes, Layout::contiguous(shape(1, (4, 4)))).unwrap();
    refused(p.run(&picture, &mut view, 0).unwrap_err(), ErrorKind::Shape, "u8");
}
