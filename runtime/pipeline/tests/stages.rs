//! The stages with real threads and a model that reads a number out of each picture.

#![allow(clippy::unwrap_used)] // helpers of tests

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use saltica_pipeline::batch::{BatcherConfig, MemoryState, Shedding};
use saltica_pipeline::clock::{Clock, RealClock};
use saltica_pipeline::frame::{Frame, SourceId};
use saltica_pipeline::ring::Bell;
use saltica_pipeline::sink::{All, Demand, Flow, FrameResult, HealthState, Object, Sink, SinkPlan};
use saltica_pipeline::source::sim::read_index;
use saltica_pipeline::source::{Next, Opened, Source};
use saltica_pipeline::stage::{Decode, Fate, Follow, Infer, Pipeline, PipelineConfig, Prepare};
use saltica_pipeline::{Error, ErrorKind, Result};
use saltica_vision::Detections;

const MS: Duration = Duration::from_millis(1);

fn keep_all(streams: usize) -> PipelineConfig {
    let mut batch = BatcherConfig::new(streams, None);
    batch.shedding = Shedding::KeepAll;
    PipelineConfig::new(batch)
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
        Pipeline::start(config, bell, sources, model, Some(follow), noted(4, &seen, whole())).unwrap();
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
    let config = PipelineConfig::new(BatcherConfig::new(4, Some(MS * 80)));
    let pipeline =
        Pipeline::start(config, bell, sources, model, Some(follow), noted(4, &seen, room(800))).unwrap();
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

    fn accept(&mut self, _: &FrameResult) -> Result<Flow> {
        self.0.wait();
        Ok(Flow::More)
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_dead_sink_costs_its_own_answers_only() {
    let bell = Bell::new();
    let sources = supervise(numbered(2, 300, None), every_frame(), &bell);
    let (model, follow) = Reader::new(Duration::ZERO).model(4);
    let (seen, door) = (Seen::default(), Arc::new(Door::default()));
    let feed = feed(
        2,
        vec![(Box::new(Stuck(Arc::clone(&door))), room(8)), (Box::new(Notes(Arc::clone(&seen))), room(600))],
    );
    let pipeline = Pipeline::start(keep_all(2), bell, sources, model, Some(follow), feed).unwrap();
    until("all answers at the good sink", || pipeline.sinks()[1].taken == 600);
    assert_eq!(pipeline.sinks()[0].taken, 0);
    check(&seen);
    let stopped = pipeline.stop();
    assert_eq!(stopped.hung, ["sink stuck"]);
    door.open();
}

#[test]
fn stopping_does_not_wait_for_a_dead_sink_that_wants_everything() {
    let bell = Bell::new();
    let sources = supervise(numbered(1, u64::MAX, Some(MS)), every_frame(), &bell);
    let (model, follow) = Reader::new(Duration::ZERO).model(4);
    let door = Arc::new(Door::default());
    let feed = feed(1, vec![(Box::new(Stuck(Arc::clone(&door))), SinkPlan { queue: 2, ..whole() })]);
    let pipeline = Pipeline::start(keep_all(1), bell, sources, model, Some(follow), feed).unwrap();
    until("a full queue", || pipeline.sinks()[0].waiting == 2);
    assert_eq!(pipeline.stop().hung, ["sink stuck"]);
    door.open();
}

#[test]
fn a_slow_sink_gets_the_newest() {
    let bell = Bell::new();
    let sources = supervise(numbered(1, 300, None), every_frame(), &bell);
    let (model, follow) = Reader::new(Duration::ZERO).model(4);
    let door = Arc::new(Door::default());
    let feed = feed(1, vec![(Box::new(Stuck(Arc::clone(&door))), room(8))]);
    let pipeline = Pipeline::start(keep_all(1), bell, sources, model, Some(follow), feed).unwrap();
    until("all answers", || pipeline.fates(0).unwrap().of(Fate::Answered) == 300);
    door.open();
    until("the sink's end", || pipeline.wait(MS));
    let counts = &pipeline.sinks()[0];
    assert_eq!(counts.taken + counts.dropped, 300);
    assert!((1..=9).contains(&counts.taken), "{counts:?}");
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
    let pipeline = Pipeline::start(config, bell, sources, model, Some(follow), feed(2, Vec::new())).unwrap();
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
    let feed = noted(1, &seen, whole());
    let pipeline = Pipeline::start(keep_all(1), bell, sources, model, Some(follow), feed).unwrap();
    until("the end", || pipeline.wait(MS));
    let fates = pipeline.fates(0).unwrap();
    assert_eq!((fates.of(Fate::Answered), fates.of(Fate::Failed)), (90, 10));
    check(&seen);
}

/// Takes pictures and compares the number in each with its result's.
struct Album {
    count: Arc<Mutex<usize>>,
    wants: bool,
}

impl Sink for Album {
    fn name(&self) -> &str {
        "album"
    }
    fn demand(&self) -> Option<Arc<dyn Demand>> {
        self.wants.then(|| Arc::new(All) as Arc<dyn Demand>)
    }
    fn accept(&mut self, r: &FrameResult) -> Result<Flow> {
        if self.wants {
            let picture = r.picture.pixels().unwrap();
            let mut bytes = Vec::new();
            (0..r.height).for_each(|y| bytes.extend_from_slice(picture.row(y)));
            assert_eq!(read_index(&bytes, r.width, r.height), Some(r.sequence));
        } else {
            assert!(r.picture.pixels().is_none(), "a picture that nobody asked for");
        }
        *self.count.lock().unwrap() += 1;
        Ok(Flow::More)
    }
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn pictures_go_to_who_wants_them_and_frames_back_to_their_source() {
    for wants in [true, false] {
        let bell = Bell::new();
        // The source has twelve buffers: were they kept, it would stand still.
        let sources = supervise(numbered(1, 200, None), every_frame(), &bell);
        let (model, follow) = Reader::new(Duration::ZERO).model(2);
        let count = Arc::new(Mutex::new(0));
        let feed = feed(1, vec![(Box::new(Album { count: Arc::clone(&count), wants }), whole())]);
        let pipeline = Pipeline::start(keep_all(1), bell, sources, model, Some(follow), feed).unwrap();
        until("the end", || pipeline.wait(MS));
        assert_eq!(*count.lock().unwrap(), 200);
        let sink = pipeline.sinks().remove(0);
        assert_eq!((sink.taken, sink.broken), (200, false), "{sink:?}");
    }
}

#[test]
fn a_result_says_everything_about_its_frame() {
    struct Look(Arc<Mutex<Vec<FrameResult>>>);
    impl Sink for Look {
        fn name(&self) -> &str {
            "look"
        }
        fn accept(&mut self, r: &FrameResult) -> Result<Flow> {
            self.0.lock().unwrap().push(r.clone());
            Ok(Flow::More)
        }
        fn close(&mut self) -> Result<()> {
            Ok(())
        }
    }
    let bell = Bell::new();
    let sources = supervise(numbered(2, 20, None), every_frame(), &bell);
    let (model, follow) = Reader::new(MS).model(2);
    let all = Arc::new(Mutex::new(Vec::new()));
    let feed = feed(2, vec![(Box::new(Look(Arc::clone(&all))), whole())]);
    let pipeline = Pipeline::start(keep_all(2), bell, sources, model, Some(follow), feed).unwrap();
    until("the end", || pipeline.wait(MS));
    let all = all.lock().unwrap();
    assert_eq!(all.len(), 40);
    for r in all.iter() {
        assert_eq!(&*r.source_name, format!("test {}", r.source.0));
        assert_eq!((r.width, r.height, r.copies), (160, 96, 0));
        assert_eq!(r.sequence, first_number(r.source.0) + r.frame);
        assert!((1..=2).contains(&r.batch) && r.times.infer >= MS * 3 / 4, "{r:?}");
        // Preparing the next batch waits for nobody, so what is left over is the wait between the stages.
        let t = r.times;
        assert!(r.age >= t.wait + t.preprocess + t.infer + t.postprocess, "{r:?}");
        assert!(!r.captured.is_zero() && !t.wait.is_zero() && !t.postprocess.is_zero(), "{r:?}");
    }
    // What the pages show is the same.
    let text = pipeline.numbers().registry().text();
    for line in [
        "saltica_results_total{source_id=\"1\",source=\"test 1\"} 20",
        "saltica_frames_total{source_id=\"0\",source=\"test 0\",fate=\"answered\"} 20",
        "saltica_source_frames_total{source_id=\"0\",source=\"test 0\"} 20",
        "saltica_sink_results_total{sink_id=\"0\",sink=\"look\"} 40",
        "saltica_stage_failed{stage=\"infer\"} 0",
        "saltica_batch_cap 2",
        "saltica_batch_waiting 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    assert!(text.contains("\nsaltica_run_seconds{frames=\"2\"} "), "{text}");
    assert_eq!(pipeline.results(), 40);
}

/// A model of which one part fails by mistake at the third frame or batch.
struct Slip<T>(T, u32);

impl<T> Slip<T> {
    fn count(&mut self) -> &mut T {
        self.1 += 1;
        assert!(self.1 != 3, "on purpose");
        &mut self.0
    }
}

impl Prepare<Numbers> for Slip<Box<dyn Prepare<Numbers>>> {
    fn prepare(&mut self, frame: &Frame, batch: &mut Numbers, index: usize) -> Result<()> {
        self.count().prepare(frame, batch, index)
    }
}

impl Infer<Numbers> for Slip<Box<dyn Infer<Numbers>>> {
    fn infer(&mut self, batch: &mut Numbers, part: std::ops::Range<usize>) -> Result<()> {
        self.count().infer(batch, part)
    }
}

impl Decode<Numbers> for Slip<Box<dyn Decode<Numbers>>> {
    fn decode(&mut self, batch: &mut Numbers, index: usize, found: &mut Detections) -> Result<()> {
        self.count().decode(batch, index, found)
    }
}

impl Follow for Slip<Box<dyn Follow>> {
    fn follow(&mut self, source: SourceId, captured: Duration, objects: &mut Vec<Object>) {
        self.count().follow(source, captured, objects);
    }
}

#[test]
fn a_stage_that_panics_is_named_and_nothing_hangs() {
    for part in ["prepare", "infer", "decode", "follow"] {
        let bell = Bell::new();
        let sources = supervise(numbered(2, 1000, None), every_frame(), &bell);
        let (mut model, mut follow) = Reader::new(Duration::ZERO).model(2);
        let stage = match part {
            "prepare" => {
                model.prepare = Box::new(Slip(model.prepare, 0));
                "batch"
            }
            "infer" => {
                model.infer = Box::new(Slip(model.infer, 0));
                "infer"
            }
            "decode" => {
                model.decode = Box::new(Slip(model.decode, 0));
                "decode"
            }
            _ => {
                follow = Box::new(Slip(follow, 0));
                "decode"
            }
        };
        let seen = Seen::default();
        let feed = noted(2, &seen, whole());
        let pipeline = Pipeline::start(keep_all(2), bell, sources, model, Some(follow), feed).unwrap();
        until(part, || pipeline.wait(MS));
        let failure = pipeline.failure().unwrap();
        assert_eq!(failure.stage, stage);
        assert!(failure.to_string().contains("on purpose"), "{failure}");
        let health = pipeline.health();
        assert_eq!((health.status, health.http_status()), (HealthState::Degraded, 503), "{health:?}");
        assert!(
            health.reasons.iter().any(|r| r.about == stage && r.reason.contains("on purpose")),
            "{health:?}"
        );
        check(&seen);
        // Every frame that was taken in has a fate.
        let rings: u64 = (0..2).map(|s| pipeline.sources()[s].ring().pushed()).sum();
        let waiting: u64 = (0..2).map(|s| pipeline.sources()[s].ring().len() as u64).sum();
        let fates = |f| (0..2).map(|s| pipeline.fates(s).unwrap().of(f)).sum::<u64>();
        assert_eq!(fates(Fate::Answered), seen.lock().unwrap().len() as u64);
        assert_eq!(fates(Fate::Answered) + fates(Fate::Stopped), rings - waiting, "{part}");
        assert!(pipeline.stop().clean());
    }
}

/// A model that after some batches fails, or waits for a door.
struct Tired(Box<dyn Infer<Numbers>>, u32, Option<Arc<Door>>);

impl Infer<Numbers> for Tired {
    fn infer(&mut self, batch: &mut Numbers, part: std::ops::Range<usize>) -> Result<()> {
        self.1 += 1;
        match &self.2 {
            _ if self.1 <= 5 => self.0.infer(batch, part),
            Some(door) => {
                door.wait();
                Ok(())
            }
            None => Err(Error::new(ErrorKind::Io, "the device is gone")),
        }
    }
}

#[test]
fn a_model_that_hangs_or_fails_for_ever_is_not_healthy() {
    for hangs in [true, false] {
        let bell = Bell::new();
        let sources = supervise(numbered(1, u64::MAX, Some(MS)), latest(), &bell);
        let (mut model, follow) = Reader::new(Duration::ZERO).model(2);
        let door = Arc::new(Door::default());
        model.infer = Box::new(Tired(model.infer, 0, hangs.then(|| Arc::clone(&door))));
        let mut config = PipelineConfig::new(BatcherConfig::new(1, None));
        config.patience = MS * 200;
        let pipeline =
            Pipeline::start(config, bell, sources, model, Some(follow), feed(1, Vec::new())).unwrap();
        until("first results", || pipeline.results() > 0);
        let (about, words) =
            if hangs { ("infer", "no sign of life") } else { ("test 0", "none was answered") };
        until("the report", || {
            let health = pipeline.health();
            let said = health.reasons.iter().any(|r| r.about == about && r.reason.contains(words));
            said && health.http_status() == 503
        });
        assert_eq!(pipeline.stop().hung, if hangs { vec!["decode", "infer"] } else { Vec::new() });
        door.open();
    }
}

#[test]
fn what_does_not_fit_together_is_an_error() {
    let start = |streams: usize, batches: usize, counted: usize| {
        let bell = Bell::new();
        let sources = supervise(numbered(1, 1, None), every_frame(), &bell);
        let (mut model, follow) = Reader::new(Duration::ZERO).model(2);
        model.batches.truncate(batches);
        Pipeline::start(keep_all(streams), bell, sources, model, Some(follow), feed(counted, Vec::new()))
            .map(drop)
    };
    assert_eq!(start(2, 3, 1).unwrap_err().kind(), ErrorKind::Value);
    assert_eq!(start(1, 1, 1).unwrap_err().kind(), ErrorKind::Value);
    assert_eq!(start(1, 2, 2).unwrap_err().kind(), ErrorKind::Value);
    assert!(start(1, 2, 1).is_ok());
}
