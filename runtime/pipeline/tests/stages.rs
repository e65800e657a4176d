//! The stages with real threads and a model that reads a number out of each picture.

#![allow(clippy::unwrap_used)] // helpers of tests

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use saltica_pipeline::batch::{BatcherConfig, MemoryState, Shedding};
use saltica_pipeline::clock::{Clock, RealClock};
use saltica_pipeline::frame::Frame;
use saltica_pipeline::ring::Bell;
use saltica_pipeline::source::{Next, Opened, Source};
use saltica_pipeline::stage::{Answer, Fate, Pipeline, PipelineConfig, Sink};
use saltica_pipeline::{ErrorKind, Result};

const MS: Duration = Duration::from_millis(1);

fn keep_all(streams: usize) -> PipelineConfig {
    let mut batch = BatcherConfig::new(streams, None);
    batch.shedding = Shedding::KeepAll;
    PipelineConfig { sink_room: 4096, ..PipelineConfig::new(batch) }
}

fn numbered(sources: u32, count: u64, period: Option<Duration>) -> Vec<Box<dyn Source>> {
    (0..sources).map(|s| Box::new(Numbered::new(s, count, period)) as Box<dyn Source>).collect()
}

/// Every answer carries its own picture's number, and each source's answers come in order.
fn check(seen: &Seen) {
    let seen = seen.lock().unwrap();
    for (source, id, sequence, read, _) in seen.iter() {
        assert_eq!(read, sequence, "source {source}, frame {id}: the answer of another frame");
        assert_eq!(sequence - first_number(*source), *id, "source {source}");
    }
    for source in 0..4 {
        let ids: Vec<u64> = seen.iter().filter(|s| s.0 == source).map(|s| s.1).collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "source {source}: {ids:?}");
    }
}

/// Threads that take the processor away until dropped.
struct Stress(Arc<AtomicBool>);

impl Stress {
    fn new() -> Stress {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..2 {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Stress(stop)
    }
}

impl Drop for Stress {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn four_sources_never_mix() {
    let _stress = Stress::new();
    let bell = Bell::new();
    let sources = supervise(numbered(4, 500, None), every_frame(), &bell);
    let reader = Reader::new(Duration::from_micros(200));
    let (model, follow) = reader.model(8);
    let mut config = keep_all(4);
    // Memory comes and goes, so batches are decided large and run in parts.
    let mut turn = 0u32;
    config.memory = Box::new(move || {
        turn += 1;
        Some(MemoryState { stalled: if turn.is_multiple_of(2) { 50.0 } else { 0.0 }, available: 1 << 34 })
    });
    let seen = Seen::default();
    let pipeline =
        Pipeline::start(config, bell, sources, model, Some(follow), vec![Box::new(Notes(Arc::clone(&seen)))])
            .unwrap();
    until("the end of all sources", || pipeline.wait(MS));
    check(&seen);
    assert_eq!(seen.lock().unwrap().len(), 2000);
    for source in 0..4 {
        assert_eq!(pipeline.fates(source).unwrap().of(Fate::Answered), 500);
    }
    assert!(reader.largest.load(Ordering::Relaxed) > 1, "nothing was batched");
    assert_eq!(pipeline.ages().count(), 2000);
    assert!(pipeline.stop().clean());
}

#[test]
fn what_is_not_used_is_counted() {
    let _stress = Stress::new();
    let bell = Bell::new();
    // Cameras at 500 frames a second in all, a model for about 160.
    let sources = supervise(numbered(4, 200, Some(MS * 8)), latest(), &bell);
    let (model, follow) = Reader::new(MS * 20).model(4);
    let seen = Seen::default();
    let mut config = PipelineConfig::new(BatcherConfig::new(4, Some(MS * 80)));
    config.sink_room = 4096;
    let pipeline =
        Pipeline::start(config, bell, sources, model, Some(follow), vec![Box::new(Notes(Arc::clone(&seen)))])
            .unwrap();
    until("the end of all sources", || pipeline.wait(MS));
    check(&seen);
    let mut answered = 0;
    for source in 0..4 {
        let fates = pipeline.fates(source).unwrap();
        let ring = pipeline.sources()[source].ring();
        assert_eq!(ring.pushed(), 200);
        assert_eq!(fates.total() + ring.replaced(), 200, "{fates:?}");
        answered += fates.of(Fate::Answered);
    }
    assert_eq!(answered, seen.lock().unwrap().len() as u64);
    assert!(answered > 0 && answered < 800, "{answered}");
}

/// A sink that waits for a door with every answer.
struct Stuck(Arc<Door>);

impl Sink for Stuck {
    fn name(&self) -> &str {
        "stuck"
    }

    fn accept(&mut self, _: &Answer) -> Result<()> {
        self.0.wait();
        Ok(())
    }
}

#[test]
fn a_dead_sink_costs_its_own_answers_only() {
    let bell = Bell::new();
    let sources = supervise(numbered(2, 300, None), every_frame(), &bell);
    let (model, follow) = Reader::new(Duration::ZERO).model(4);
    let (seen, door) = (Seen::default(), Arc::new(Door::default()));
    let mut config = keep_all(2);
    config.sink_room = 1024;
    let sinks: Vec<Box<dyn Sink>> =
        vec![Box::new(Stuck(Arc::clone(&door))), Box::new(Notes(Arc::clone(&seen)))];
    let pipeline = Pipeline::start(config, bell, sources, model, Some(follow), sinks).unwrap();
    until("all answers at the good sink", || pipeline.sinks()[1].delivered == 600);
    assert_eq!(pipeline.sinks()[0].delivered, 0);
    let stopped = pipeline.stop();
    assert_eq!(stopped.hung, ["sink stuck"]);
    door.open();
}

#[test]
fn a_slow_sink_gets_the_newest() {
    let bell = Bell::new();
    let sources = supervise(numbered(1, 300, None), every_frame(), &bell);
    let (model, follow) = Reader::new(Duration::ZERO).model(4);
    let door = Arc::new(Door::default());
    let mut config = keep_all(1);
    config.sink_room = 8;
    let pipeline =
        Pipeline::start(config, bell, sources, model, Some(follow), vec![Box::new(Stuck(Arc::clone(&door)))])
            .unwrap();
    until("all answers", || pipeline.fates(0).unwrap().of(Fate::Answered) == 300);
    door.open();
    until("the sink's end", || pipeline.wait(MS));
    let counts = &pipeline.sinks()[0];
    assert_eq!(counts.delivered + counts.missed, 300);
    assert!((1..=9).contains(&counts.delivered), "{counts:?}");
}

/// A source that gives some frames and then never returns from a call until the door opens.
#[derive(Debug)]
struct Freezing {
    good: Numbered,
    left: u32,
    door: Arc<Door>,
}

impl Source for Freezing {
    fn open(&mut self, within: Duration) -> Result<Opened> {
        self.good.open(within)
    }

    fn next(&mut self, wait: Duration) -> Result<Next> {
        if self.left == 0 {
            self.door.wait();
            return Ok(Next::End);
        }
        self.left -= 1;
        self.good.next(wait)
    }

    fn close(&mut self) {}
}

#[test]
fn stopping_leaves_a_frozen_source_behind() {
    let bell = Bell::new();
    let door = Arc::new(Door::default());
    let frozen = Freezing { good: Numbered::new(0, 1000, None), left: 5, door: Arc::clone(&door) };
    let healthy = Numbered::new(1, u64::MAX, Some(MS));
    let sources = supervise(vec![Box::new(frozen), Box::new(healthy)], latest(), &bell);
    let (model, follow) = Reader::new(MS).model(4);
    let config = PipelineConfig::new(BatcherConfig::new(2, None));
    let pipeline = Pipeline::start(config, bell, sources, model, Some(follow), Vec::new()).unwrap();
    until("answers of the healthy one", || pipeline.fates(1).unwrap().of(Fate::Answered) > 50);
    until("signs of life", || pipeline.pulses().all(|p| p.silent(RealClock.now()) < Duration::from_secs(1)));
    assert_eq!(pipeline.stop().hung, ["test 0"]);
    door.open();
}

#[test]
fn a_failing_batch_is_counted_and_the_next_one_runs() {
    let bell = Bell::new();
    let sources = supervise(numbered(1, 100, None), every_frame(), &bell);
    let mut reader = Reader::new(Duration::ZERO);
    reader.fail = |numbers| numbers.iter().any(|n| n % 10 == 3);
    let (model, follow) = reader.model(1);
    let seen = Seen::default();
    let pipeline = Pipeline::start(
        keep_all(1),
        bell,
        sources,
        model,
        Some(follow),
        vec![Box::new(Notes(Arc::clone(&seen)))],
    )
    .unwrap();
    until("the end", || pipeline.wait(MS));
    let fates = pipeline.fates(0).unwrap();
    assert_eq!((fates.of(Fate::Answered), fates.of(Fate::Failed)), (90, 10));
    check(&seen);
}

#[test]
fn pictures_go_back_to_their_source() {
    /// Takes pictures and counts them.
    struct Album(Arc<Mutex<usize>>);
    impl Sink for Album {
        fn name(&self) -> &str {
            "album"
        }
        fn wants_pictures(&self) -> bool {
            true
        }
        fn accept(&mut self, a: &Answer) -> Result<()> {
            let picture: &Frame = a.picture.as_ref().unwrap();
            assert_eq!(picture.sequence, a.sequence);
            *self.0.lock().unwrap() += 1;
            Ok(())
        }
    }
    let bell = Bell::new();
    // The source has twelve buffers: were they kept, it would stand still.
    let sources = supervise(numbered(1, 200, None), every_frame(), &bell);
    let (model, follow) = Reader::new(Duration::ZERO).model(2);
    let count = Arc::new(Mutex::new(0));
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(Album(Arc::clone(&count)))];
    let pipeline = Pipeline::start(keep_all(1), bell, sources, model, Some(follow), sinks).unwrap();
    until("the end", || pipeline.wait(MS));
    assert_eq!(*count.lock().unwrap(), 200);
}

#[test]
fn what_does_not_fit_together_is_an_error() {
    let start = |streams: usize, batches: usize| {
        let bell = Bell::new();
        let sources = supervise(numbered(1, 1, None), every_frame(), &bell);
        let (mut model, follow) = Reader::new(Duration::ZERO).model(2);
        model.batches.truncate(batches);
        Pipeline::start(keep_all(streams), bell, sources, model, Some(follow), Vec::new()).map(drop)
    };
    assert_eq!(start(2, 3).unwrap_err().kind(), ErrorKind::Value);
    assert_eq!(start(1, 1).unwrap_err().kind(), ErrorKind::Value);
    assert!(start(1, 2).is_ok());
}
