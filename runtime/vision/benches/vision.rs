//! Preprocessing and decoding, on the sizes people compare: `cargo bench -p saltica-vision`.

// Benchmarks fail by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use divan::Bencher;
use saltica_tensor::{DType, Geometry, Layout, PixelFormat, Pixels, ResizeMode, Shape, View, ViewMut};
use saltica_vision::{DecodeParams, Detections, Head, Image, InputSpec, ModelSpec, OutputInfo, Preprocessor};

fn main() {
    divan::main();
}

/// splitmix64 as a fraction.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u32 << 24) as f32
    }
}

fn shape(dims: &[usize]) -> Shape {
    Shape::new(dims).unwrap()
}

#[derive(Clone, Copy, Debug)]
enum Target {
    PlanesF32,
    PlanesF16,
    PixelsF32,
    Pixels16F32,
    PlanesU8,
}

/// 1920x1080 RGB to 640x640.
#[divan::bench(args = [Target::PlanesF32, Target::PlanesF16, Target::PixelsF32, Target::Pixels16F32, Target::PlanesU8])]
fn preprocess_1080p_to_640(b: Bencher<'_, '_>, target: Target) {
    let mut r = Random(1);
    let data: Vec<u8> = (0..1920 * 1080 * 3).map(|_| (r.next() * 255.0) as u8).collect();
    let picture = Pixels::packed(&data, 1920, 1080, PixelFormat::Rgb8).unwrap();
    let s = shape(&[1, 3, 640, 640]);
    let (dtype, layout) = match target {
        Target::PlanesF32 => (DType::F32, Layout::contiguous(s)),
        Target::PlanesF16 => (DType::F16, Layout::contiguous(s)),
        Target::PixelsF32 => (DType::F32, Layout::channels_last(s, 3).unwrap()),
        Target::Pixels16F32 => (DType::F32, Layout::channels_last(s, 16).unwrap()),
        Target::PlanesU8 => (DType::U8, Layout::contiguous(s)),
    };
    let mut p = Preprocessor::new(InputSpec::default(), (640, 640), dtype).unwrap();
    let mut f32s = vec![0f32; layout.span()];
    let mut f16s = vec![half::f16::ZERO; layout.span()];
    let mut u8s = vec![0u8; layout.span()];
    b.bench_local(|| {
        let mut view = match dtype {
            DType::F32 => ViewMut::of_slice(&mut f32s, layout).unwrap(),
            DType::F16 => ViewMut::of_slice(&mut f16s, layout).unwrap(),
            _ => ViewMut::of_slice(&mut u8s, layout).unwrap(),
        };
        p.run(&picture, &mut view, 0).unwrap()
    });
}

/// 1280x720 in each pixel format that cameras give, to 640x640 f32 planes.
#[divan::bench(args = PixelFormat::ALL)]
fn preprocess_720p_to_640(b: Bencher<'_, '_>, format: PixelFormat) {
    let mut r = Random(1);
    let bytes = format.packed_bytes(1280, 720).unwrap();
    let data: Vec<u8> = (0..bytes).map(|_| (r.next() * 255.0) as u8).collect();
    let picture = Pixels::packed(&data, 1280, 720, format).unwrap();
    let layout = Layout::contiguous(shape(&[1, 3, 640, 640]));
    let mut p = Preprocessor::new(InputSpec::default(), (640, 640), DType::F32).unwrap();
    let mut out = vec![0f32; layout.span()];
    b.bench_local(|| p.run(&picture, &mut ViewMut::of_slice(&mut out, layout).unwrap(), 0).unwrap());
}

/// 500x375 enlarged to 640x480.
#[divan::bench]
fn preprocess_500x375_to_640(b: Bencher<'_, '_>) {
    let mut r = Random(2);
    let data: Vec<u8> = (0..500 * 375 * 3).map(|_| (r.next() * 255.0) as u8).collect();
    let picture = Pixels::packed(&data, 500, 375, PixelFormat::Rgb8).unwrap();
    let layout = Layout::contiguous(shape(&[1, 3, 640, 640]));
    let mut p = Preprocessor::new(InputSpec::default(), (640, 640), DType::F32).unwrap();
    let mut out = vec![0f32; layout.span()];
    b.bench_local(|| p.run(&picture, &mut ViewMut::of_slice(&mut out, layout).unwrap(), 0).unwrap());
}

/// `objects` groups of 10 overlapping candidates over a background of low scores, `[1, 84, 8400]`.
fn scene(objects: usize) -> Vec<f32> {
    let mut r = Random(3);
    let mut y = vec![0f32; 84 * 8400];
    for i in 0..8400 {
        for c in 0..84 {
            y[c * 8400 + i] = match c {
                0 | 1 => r.next() * 640.0,
                2 | 3 => 10.0 + r.next() * 190.0,
                _ => r.next() * 0.01,
            };
        }
    }
    for o in 0..objects {
        let [cx, cy, w, h] = [
            60.0 + r.next() * 520.0,
            60.0 + r.next() * 520.0,
            30.0 + r.next() * 170.0,
            30.0 + r.next() * 170.0,
        ];
        let class = (r.next() * 80.0) as usize;
        for k in 0..10 {
            let i = (o * 977 + k * 13) % 8400;
            for (c, v) in [cx, cy, w, h].into_iter().enumerate() {
                y[c * 8400 + i] = v + r.next() * 4.0 - 2.0;
            }
            y[(4 + class) * 8400 + i] = 0.3 + 0.65 * r.next();
        }
    }
    y
}

/// Decode and suppression of a `[1, 84, 8400]` output: few objects, many objects, everything a candidate.
#[divan::bench(args = [(3, 0.25), (30, 0.25), (30, 0.001)])]
fn decode_84x8400(b: Bencher<'_, '_>, (objects, conf): (usize, f32)) {
    let data = scene(objects);
    run(b, &data, &[1, 84, 8400], "yolov8", conf);
}

/// The same, transposed.
#[divan::bench(args = [(30, 0.25), (30, 0.001)])]
fn decode_8400x84(b: Bencher<'_, '_>, (objects, conf): (usize, f32)) {
    let y = scene(objects);
    let data: Vec<f32> = (0..8400 * 84).map(|i| y[i % 84 * 8400 + i / 84]).collect();
    run(b, &data, &[1, 8400, 84], "yolov8", conf);
}

fn run(b: Bencher<'_, '_>, data: &[f32], dims: &[usize], head: &str, conf: f32) {
    let spec = ModelSpec { head: Some(head.into()), ..ModelSpec::default() };
    let head = Head::recognise(spec, (640, 640), &[OutputInfo { name: "output0", dtype: DType::F32, dims }])
        .unwrap();
    let geometry = Geometry::new((1920, 1080), (640, 640), ResizeMode::Letterbox).unwrap();
    let params = DecodeParams { conf, ..head.params() };
    let mut out = Detections::new();
    b.bench_local(|| {
        let view = View::of_slice(data, Layout::contiguous(shape(dims))).unwrap();
        head.decode(&[view], 0, &params, &geometry, &mut out).unwrap();
        out.len()
    });
}

/// A 1920x1080 JPEG of quality 90.
#[divan::bench]
fn decode_jpeg_1080p(b: Bencher<'_, '_>) {
    let data: Vec<u8> = (0..1920 * 1080 * 3usize)
        .map(|i| ((i / 3 % 1920 / 7) * 3 + (i / 5760) * 2 + (i % 3) * 40) as u8)
        .collect();
    let jpeg =
        Image::from_rgb(1920, 1080, data).unwrap().encode(saltica_vision::EncodedFormat::Jpeg(90)).unwrap();
    b.bench_local(|| Image::decode(&jpeg).unwrap());
}
