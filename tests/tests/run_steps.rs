//! The steps that `saltica run` takes a detector apart into find what the detector finds, frame by frame, whatever the
//! batch; and once they have seen a frame of each source, they allocate nothing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use saltica::models::Model;
use saltica::run::value::Value;
use saltica::run::{Engine, Flags, Settings};
use saltica::{Detections, Detector};
use saltica_pipeline::frame::{Frame, FrameFormat, Pool, SourceId};
use saltica_pipeline::source::sim::{FrameBuf, Sim, SimSpec};
use saltica_tensor::PixelFormat;
use saltica_tests::memory::{Counting, allocations};
use std::sync::Arc;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A frame of a simulated camera; in gray it is another picture of another format.
fn frame(pool: &Arc<Pool>, source: u32, number: u64, gray: bool) -> Frame {
    let size = ["320x180", "200x120"][source as usize];
    let uri = format!("sim:street?seed=10&light=day&index=off&size={size}");
    let mut sim = Sim::open(&SimSpec::parse(&uri).unwrap()).unwrap();
    let mut drawn = FrameBuf::default();
    sim.frame(number, &mut drawn).unwrap();
    let (pixel, bytes) = match gray {
        true => (PixelFormat::Gray8, drawn.rgb.chunks_exact(3).map(|p| p[1]).collect()),
        false => (PixelFormat::Rgb8, drawn.rgb),
    };
    let format = FrameFormat::packed(pixel, drawn.width, drawn.height).unwrap();
    let mut lease = pool.take(bytes.len(), Duration::ZERO).unwrap();
    lease.bytes_mut().copy_from_slice(&bytes);
    let mut frame = Frame::owned(format, lease, Duration::ZERO).unwrap();
    frame.source = SourceId(source);
    frame
}

#[test]
fn steps_find_what_the_detector_finds_and_allocate_nothing() {
    let pool = Pool::new(16);
    let frames: Vec<Frame> = (0..8).map(|i| frame(&pool, i % 2, 205 + u64::from(i), i % 2 == 1)).collect();
    let mut detector = Model::built_in().detector(&Detector::builder().threads(1)).unwrap();
    let expected: Vec<Detections> = frames.iter().map(|f| detector.detect(f.pixels()).unwrap()).collect();
    assert!(expected.iter().filter(|d| !d.is_empty()).count() >= 4, "there is something to find");

    let flags = Flags {
        sources: vec!["sim:street".into(), "sim:crowded".into()],
        values: vec![("batch", Value::Whole(4)), ("threads", Value::Whole(1))],
        ..Flags::default()
    };
    let mut engine = Engine::load_all_sizes(&Model::built_in(), &Settings::load(&flags).unwrap()).unwrap();
    // The first and a later one: a rebuilt pipeline gets its own executors.
    for _ in 0..2 {
        let mut model = engine.model(2).unwrap();
        assert_eq!(model.most, 4);
        assert_eq!(model.bytes.len(), model.most + 1);
        assert!(model.bytes.is_sorted() && model.bytes[1] > 0, "{:?}", model.bytes);
        let mut found = Detections::new();
        let mut made = 0;
        // The second time everything has been seen.
        for round in 0..2 {
            let before = allocations();
            for size in 1..=model.most {
                for (chunk, expected) in frames.chunks(size).zip(expected.chunks(size)) {
                    let batch = &mut model.batches[size % 2];
                    for (i, frame) in chunk.iter().enumerate() {
                        model.prepare.prepare(frame, batch, i).unwrap();
                    }
                    // In two parts, as where memory runs short.
                    let cut = if round == 0 { chunk.len() } else { chunk.len() / 2 };
                    if cut > 0 {
                        model.infer.infer(batch, 0..cut).unwrap();
                    }
                    if cut < chunk.len() {
                        model.infer.infer(batch, cut..chunk.len()).unwrap();
                    }
                    for (i, expected) in expected.iter().enumerate() {
                        model.decode.decode(batch, i, &mut found).unwrap();
                        assert!(found.items() == expected.items(), "batch of {size}, frame {i}");
                    }
                }
            }
            made = allocations() - before;
        }
        assert_eq!(made, 0, "allocations");
        assert!(model.prepare.prepare(&frames[0], &mut model.batches[0], 99).is_err());
    }
}
