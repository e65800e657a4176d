//! A steady stream of pictures allocates nothing: counted by an allocator.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use saltica_tensor::{DType, Geometry, Layout, PixelFormat, Pixels, ResizeMode, Shape, View, ViewMut};
use saltica_vision::{Detections, Head, InputSpec, ModelSpec, OutputInfo, Preprocessor};
use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system allocator unchanged; the counter is a plain thread-local number.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, block: Block) -> *mut u8 {
        let _ = COUNT.try_with(|c| c.set(c.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(block) }
    }
    unsafe fn dealloc(&self, at: *mut u8, block: Block) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, block) }
    }
    unsafe fn realloc(&self, at: *mut u8, block: Block, size: usize) -> *mut u8 {
        let _ = COUNT.try_with(|c| c.set(c.get() + 1));
        // SAFETY: as above.
        unsafe { System.realloc(at, block, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn counted(f: impl FnOnce()) -> usize {
    let before = COUNT.with(Cell::get);
    f();
    COUNT.with(Cell::get) - before
}

fn noise(n: usize) -> Vec<f32> {
    let mut state = 7u64;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32
        })
        .collect()
}

#[test]
fn the_counter_counts() {
    assert_eq!(counted(|| drop(std::hint::black_box(vec![1u8; 100]))), 1);
}

#[test]
fn preprocessing_and_decoding_allocate_nothing() {
    let input = (96, 64);
    let bytes: Vec<u8> = noise(150 * 90 * 3).iter().map(|v| (v * 255.0) as u8).collect();
    let picture = Pixels::packed(&bytes, 150, 90, PixelFormat::Rgb8).unwrap();
    let shape = Shape::new(&[1, 3, 64, 96]).unwrap();
    for layout in [
        Layout::contiguous(shape),
        Layout::channels_last(shape, 3).unwrap(),
        Layout::channels_last(shape, 16).unwrap(),
    ] {
        let mut tensor = vec![0f32; layout.span()];
        let mut view = ViewMut::of_slice(&mut tensor, layout).unwrap();
        let mut p = Preprocessor::new(InputSpec::default(), input, DType::F32).unwrap();
        p.run(&picture, &mut view, 0).unwrap();
        assert_eq!(counted(|| drop(p.run(&picture, &mut view, 0))), 0, "{layout:?}");
    }

    let geometry = Geometry::new((150, 90), input, ResizeMode::Letterbox).unwrap();
    let heads: &[(&str, &[&[usize]])] = &[
        ("yolov8", &[&[1, 9, 126]]),
        ("yolov8", &[&[1, 126, 9]]),
        ("yolov8-segment", &[&[1, 15, 126], &[1, 6, 16, 24]]),
        ("yolov8-pose", &[&[1, 56, 126]]),
        ("yolov8-obb", &[&[1, 10, 126]]),
        ("yolov5", &[&[1, 378, 10]]),
        ("yolox", &[&[1, 126, 10]]),
        ("end2end", &[&[1, 30, 6]]),
        ("rtdetr", &[&[1, 60, 9]]),
        ("fastestdet", &[&[1, 10, 4, 6]]),
        ("classify-logits", &[&[1, 50]]),
    ];
    for (name, dims) in heads {
        let spec = ModelSpec { head: Some((*name).into()), ..ModelSpec::default() };
        let infos: Vec<OutputInfo<'_>> =
            dims.iter().map(|d| OutputInfo { name: "o", dtype: DType::F32, dims: d }).collect();
        let head = Head::recognise(spec, input, &infos).unwrap();
        let data: Vec<Vec<f32>> = dims.iter().map(|d| noise(d.iter().product())).collect();
        let views: Vec<View<'_>> = data
            .iter()
            .zip(*dims)
            .map(|(v, d)| View::of_slice(v, Layout::contiguous(Shape::new(d).unwrap())).unwrap())
            .collect();
        for multi_label in [false, true] {
            let params = saltica_vision::DecodeParams { conf: 0.01, multi_label, ..head.params() };
            let mut out = Detections::new();
            head.decode(&views, 0, &params, &geometry, &mut out).unwrap();
            assert!(!out.is_empty(), "{name}");
            let count = counted(|| drop(head.decode(&views, 0, &params, &geometry, &mut out)));
            assert_eq!(count, 0, "{name}");
        }
    }
}

#[test]
fn following_allocates_nothing() {
    use saltica_vision::track::{Observation, TrackParams, Tracker};
    let mut tracker = Tracker::new(TrackParams::default()).unwrap();
    let mut seen = Vec::new();
    let mut allocations = Vec::new();
    for n in 0..600u64 {
        // Twelve objects that sway, half of them in touching pairs, each missed now and then; one comes anew every second.
        seen.clear();
        for k in 0..12u64 {
            if (n + 7 * k) % 29 > 1 {
                let x = (k / 2 * 200 + k % 2 * 25) as f32 + 8.0 * ((n as f32 * 0.05 + k as f32).sin());
                let score = if (n + k) % 5 == 0 { 0.4 } else { 0.8 };
                seen.push(Observation { class: 0, score, bbox: [x, 50.0, x + 40.0, 130.0] });
            }
        }
        let x = (n / 30 % 7) as f32 * 100.0;
        seen.push(Observation { class: 1, score: 0.9, bbox: [x, 400.0, x + 50.0, 450.0] });
        let time = std::time::Duration::from_millis(33 * n);
        allocations.push(counted(|| drop(tracker.update(seen.iter().copied(), time).map(<[_]>::len))));
    }
    assert!(allocations[..200].iter().sum::<usize>() > 0);
    assert_eq!(allocations[200..].iter().sum::<usize>(), 0);
}
