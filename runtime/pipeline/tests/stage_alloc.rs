//! After the first frames, nothing on a frame's way through the stages allocates.

#![allow(clippy::unwrap_used)] // helpers of tests

mod common;

#[path = "common/counting.rs"]
mod counting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::*;
use saltica_pipeline::Result;
use saltica_pipeline::batch::{BatcherConfig, Shedding};
use saltica_pipeline::ring::Bell;
use saltica_pipeline::sink::{Flow, FrameResult, Sink};
use saltica_pipeline::stage::{Fate, Pipeline, PipelineConfig};

/// Allocations of the whole process at the answers of two frames of source 0.
struct Meter {
    at: [u64; 2],
    counts: Arc<[AtomicU64; 2]>,
}

impl Sink for Meter {
    fn name(&self) -> &str {
        "meter"
    }

    fn accept(&mut self, r: &FrameResult) -> Result<Flow> {
        for (at, count) in self.at.iter().zip(self.counts.iter()) {
            if r.source.0 == 0 && r.frame == *at {
                count.store(counting::of_process(), Ordering::Relaxed);
            }
        }
        Ok(Flow::More)
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn frames_cost_no_allocation() {
    for shedding in [Shedding::KeepAll, Shedding::DropOldest] {
        let bell = Bell::new();
        let sources = (0..2).map(|s| Box::new(Numbered::new(s, 1000, None)) as _).collect();
        let sources = supervise(sources, every_frame(), &bell);
        let (model, follow) = Reader::new(Duration::ZERO).model(4);
        let mut batch = BatcherConfig::new(2, None);
        batch.shedding = shedding;
        let config = PipelineConfig::new(batch);
        let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let meter = Meter { at: [300, 900], counts: Arc::clone(&counts) };
        let feed = feed(2, vec![(Box::new(meter), whole())]);
        let pipeline = Pipeline::start(config, bell, sources, model, Some(follow), feed).unwrap();
        until("frame 900", || counts[1].load(Ordering::Relaxed) > 0);
        let [early, late] = [0, 1].map(|k| counts[k].load(Ordering::Relaxed));
        assert_eq!(late - early, 0, "{shedding:?}: allocations in 600 frames of each source");
        until("the end", || pipeline.wait(Duration::from_millis(1)));
        assert_eq!(pipeline.fates(0).unwrap().of(Fate::Answered), 1000);
    }
}
