//! From whoever makes results to every sink.

use std::sync::Arc;
use std::time::Duration;

use saltica_vision::Labels;

use super::metrics::PipelineMetrics;
use super::{FrameResult, Recycler, Sinks};
use crate::frame::{Frame, SourceId};

/// Makes a [`FrameResult`] of each answer, counts it and hands it to the sinks. Allocates nothing once as many results
/// exist as the sinks can hold.
#[derive(Debug)]
pub struct Feed {
    sinks: Arc<Sinks>,
    numbers: Arc<PipelineMetrics>,
    names: Vec<Arc<str>>,
    labels: Option<Labels>,
    results: Recycler,
}

impl Feed {
    /// For these sources, by number; `labels` names the classes.
    pub fn new(
        sinks: Arc<Sinks>,
        numbers: Arc<PipelineMetrics>,
        sources: &[String],
        labels: Option<Labels>,
    ) -> Feed {
        let results = Recycler::new(sinks.capacity() + 1);
        Feed { sinks, numbers, names: sources.iter().map(|s| s.as_str().into()).collect(), labels, results }
    }

    /// Whether any sink may ever want pictures: if not, frames need not be kept for this.
    pub fn wants_pictures(&self) -> bool {
        self.sinks.want_pictures()
    }

    /// Sends one result. `fill` finds it cleared, with `source`, `captured`, names and, if `frame` is given, everything that
    /// says; the frame's pixels are copied if a sink wants them now, so it can be given back afterwards.
    pub fn send(
        &mut self,
        source: SourceId,
        captured: Duration,
        frame: Option<&Frame>,
        fill: impl FnOnce(&mut FrameResult),
    ) {
        let wanted = frame.filter(|_| self.sinks.wants_picture(source, captured));
        let (names, labels) = (&self.names, &self.labels);
        let result = self.results.fill(|r| {
            r.clear();
            if let Some(frame) = frame {
                r.reset(frame);
            }
            (r.source, r.captured) = (source, captured);
            // Both are shared, not copied.
            r.source_name = names.get(source.0 as usize).cloned().unwrap_or_default();
            r.labels.clone_from(labels);
            if let Some(frame) = wanted {
                r.picture.copy(frame);
            }
            fill(r);
        });
        self.numbers.observe(&result);
        self.sinks.send(&result);
    }
}
