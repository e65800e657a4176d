//! What the stages add to a frame's way, with a simulated camera and a model that only sleeps:
//! `cargo run --release -p saltica-pipeline --example stage_overhead -- [MODEL_MS] [SECONDS]`.
//!
//! Overhead is the age of an answer less what preparing, running and decoding took. A model slower than the camera adds the
//! wait for the run before, which is not overhead of the stages: choose one that keeps up.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use saltica_pipeline::Result;
use saltica_pipeline::batch::BatcherConfig;
use saltica_pipeline::frame::{Frame, SourceId};
use saltica_pipeline::ring::Bell;
use saltica_pipeline::sink::metrics::{PipelineMetrics, Registry};
use saltica_pipeline::sink::{Feed, Flow, FrameResult, Sink, SinkPlan, Sinks};
use saltica_pipeline::source::{SourceUri, Supervisor};
use saltica_pipeline::stage::{Decode, Fate, Infer, Model, Pipeline, PipelineConfig, Prepare};
use saltica_vision::Detections;

struct Sleeper(Duration);

impl Prepare<()> for Sleeper {
    fn prepare(&mut self, _: &Frame, (): &mut (), _: usize) -> Result<()> {
        Ok(())
    }
}

impl Infer<()> for Sleeper {
    fn infer(&mut self, (): &mut (), part: Range<usize>) -> Result<()> {
        std::thread::sleep(self.0 * part.len() as u32);
        Ok(())
    }
}

impl Decode<()> for Sleeper {
    fn decode(&mut self, (): &mut (), _: usize, _: &mut Detections) -> Result<()> {
        Ok(())
    }
}

/// Ages and overheads of all answers.
struct Notes(Arc<Mutex<Vec<(Duration, Duration)>>>);

impl Sink for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    fn accept(&mut self, r: &FrameResult) -> Result<Flow> {
        let work = r.times.preprocess + r.times.infer + r.times.postprocess;
        if let Ok(mut notes) = self.0.lock() {
            notes.push((r.age, r.age.saturating_sub(work)));
        }
        Ok(Flow::More)
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let mut number = |default: f64| args.next().and_then(|a| a.parse().ok()).unwrap_or(default);
    let (model_ms, seconds) = (number(5.0), number(10.0));
    let bell = Bell::new();
    let uri = SourceUri::parse("sim:street?size=320x192&fps=30")?;
    let source = Supervisor::start(uri.source()?, SourceId(0), uri.name(), uri.plan(), Arc::clone(&bell))?;
    let sleeper = || Box::new(Sleeper(Duration::from_secs_f64(model_ms / 1e3)));
    let model = Model {
        sizes: Vec::new(),
        most: 4,
        bytes: Vec::new(),
        measured: (1..=4).map(|b| (b, Duration::from_secs_f64(model_ms / 1e3 * b as f64))).collect(),
        batches: vec![(), (), ()],
        prepare: sleeper(),
        infer: sleeper(),
        decode: sleeper(),
    };
    let notes = Arc::new(Mutex::new(Vec::with_capacity(100_000)));
    let mut batch = BatcherConfig::new(1, None);
    batch.waiting = 1;
    let sinks =
        Sinks::start(vec![(Box::new(Notes(Arc::clone(&notes))) as Box<dyn Sink>, SinkPlan::default())])?;
    let numbers = PipelineMetrics::new(&Registry::new(), &[source.name().to_owned()])?;
    let feed = Feed::new(Arc::new(sinks), numbers, None);
    let pipeline = Pipeline::start(PipelineConfig::new(batch), bell, vec![source], model, None, feed)?;
    pipeline.wait(Duration::from_secs_f64(seconds));
    if let Some(fates) = pipeline.fates(0) {
        let ring = pipeline.sources()[0].ring();
        let counts = (ring.pushed(), fates.of(Fate::Answered), fates.of(Fate::Replaced), ring.replaced());
        println!(
            "came {}, answered {}, replaced {} by the batcher and {} in the ring",
            counts.0, counts.1, counts.2, counts.3
        );
    }
    let stopped = pipeline.stop();
    println!("threads left behind: {:?}", stopped.hung);
    let notes = notes.lock().map(|n| n.clone()).unwrap_or_default();
    let part = |values: Vec<Duration>| {
        let mut values = values;
        values.sort();
        let at =
            |p: f64| values.get(((values.len().max(1) - 1) as f64 * p) as usize).copied().unwrap_or_default();
        format!("p50 {:.2?}, p95 {:.2?}, p99 {:.2?}", at(0.5), at(0.95), at(0.99))
    };
    println!("age:      {}", part(notes.iter().map(|n| n.0).collect()));
    println!("overhead: {}", part(notes.iter().map(|n| n.1).collect()));
    Ok(())
}
