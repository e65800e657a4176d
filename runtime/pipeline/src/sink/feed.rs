//! From whoever makes results to every sink.

use std::sync::Arc;

use saltica_vision::Labels;

use super::metrics::PipelineMetrics;
use super::{FrameResult, Recycler, Sinks};
use crate::frame::{Frame, FrameInfo};

/// Makes a [`FrameResult`] of each answer, counts it and hands it to the sinks. Allocates nothing after it was made, but where
/// a picture or the objects of a frame are more than any before.
#[derive(Debug)]
pub struct Feed {
    sinks: Arc<Sinks>,
    numbers: Arc<PipelineMetrics>,
    labels: Option<Labels>,
    results: Recycler,
}

impl Feed {
    /// For the sources that `numbers` counts; `labels` names the classes.
    pub fn new(sinks: Arc<Sinks>, numbers: Arc<PipelineMetrics>, labels: Option<Labels>) -> Feed {
        let results = Recycler::new(sinks.capacity() + 1);
        Feed { sinks, numbers, labels, results }
    }

    /// The sinks it feeds.
    pub fn sinks(&self) -> &Arc<Sinks> {
        &self.sinks
    }

    /// Where it counts.
    pub fn numbers(&self) -> &Arc<PipelineMetrics> {
        &self.numbers
    }

    /// Sends the result of a frame. `fill` finds it cleared, with everything that `of` says, names, and a copy of `picture`'s
    /// pixels: to be given if [`Sinks::wants_picture`] said so of this frame.
    pub fn send(&mut self, of: &FrameInfo, picture: Option<&Frame>, fill: impl FnOnce(&mut FrameResult)) {
        let (numbers, labels) = (&self.numbers, &self.labels);
        let result = self.results.fill(|r| {
            r.reset(of);
            // Both are shared, not copied.
            r.source_name = numbers.name(of.source);
            r.labels.clone_from(labels);
            if let Some(frame) = picture {
                r.picture.copy(frame);
            }
            fill(r);
        });
        self.numbers.observe(&result);
        self.sinks.send(&result);
    }
}
