//! What results say, kept for status lines and the summary: by source name, over rebuilds of the pipeline.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use saltica_pipeline::sink::{Flow, FrameResult, Sink};
use saltica_pipeline::stage::Histogram;

/// What the results of one source said.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The source's name.
    pub(super) name: String,
    /// From capture to result, of all results.
    pub(super) ages: Histogram,
    /// The same since somebody last looked ([`Tally::recent`]).
    recent: Histogram,
    /// What is left of an age without preprocessing, inference and postprocessing.
    pub(super) overhead: Histogram,
    /// Sum of the batch sizes.
    pub(super) batches: u64,
    /// Copies of pixel data.
    pub(super) copies: u64,
    /// Objects found.
    pub(super) objects: u64,
}

/// Ages and results of a source since it was last looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    /// Results.
    pub(super) results: u64,
    /// Half of the ages are not above this.
    pub(super) p50: Duration,
    /// 95 % of the ages are not above this.
    pub(super) p95: Duration,
}

/// What all results said.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Vec<Told>>);

impl Tally {
    fn lock(&self) -> MutexGuard<'_, Vec<Told>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A sink that counts the results of sources with these names.
    pub(super) fn sink(self: &Arc<Self>, names: &[String]) -> Box<dyn Sink> {
        let mut all = self.lock();
        let places = names.iter().map(|name| {
            all.iter().position(|t| t.name == *name).unwrap_or_else(|| {
                all.push(Told { name: name.clone(), ..Told::default() });
                all.len() - 1
            })
        });
        Box::new(TallySink { places: places.collect(), tally: Arc::clone(self) })
    }

    /// Looks at what a source's results said.
    pub(super) fn look<R>(&self, name: &str, look: impl FnOnce(&Told) -> R) -> Option<R> {
        self.lock().iter().find(|t| t.name == name).map(look)
    }

    /// What a source's results said since the last call.
    pub(super) fn recent(&self, name: &str) -> Recent {
        let mut all = self.lock();
        let Some(told) = all.iter_mut().find(|t| t.name == name) else { return Recent::default() };
        let recent = std::mem::take(&mut told.recent);
        Recent { results: recent.count(), p50: recent.quantile(0.5), p95: recent.quantile(0.95) }
    }
}

struct TallySink {
    /// By source number.
    places: Vec<usize>,
    tally: Arc<Tally>,
}

impl Sink for TallySink {
    fn name(&self) -> &str {
        "status"
    }

    fn accept(&mut self, r: &FrameResult) -> saltica_pipeline::Result<Flow> {
        let mut all = self.tally.lock();
        let place = self.places.get(r.source.0 as usize);
        if let Some(told) = place.and_then(|p| all.get_mut(*p)) {
            let t = &r.times;
            told.ages.record(r.age);
            told.recent.record(r.age);
            told.overhead.record(r.age.saturating_sub(t.preprocess + t.infer + t.postprocess));
            told.batches += r.batch as u64;
            told.copies += u64::from(r.copies);
            told.objects += r.objects.len() as u64;
        }
        Ok(Flow::More)
    }

    fn close(&mut self) -> saltica_pipeline::Result<()> {
        Ok(())
    }
}
