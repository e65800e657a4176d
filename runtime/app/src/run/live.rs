//! A running pipeline, made of settings and a loaded model.

use std::sync::{Arc, Mutex, PoisonError};

use saltica_pipeline::batch::{BatcherConfig, Objective, Shedding};
use saltica_pipeline::frame::SourceId;
use saltica_pipeline::ring::{Bell, Keep};
use saltica_pipeline::sink::metrics::{PipelineMetrics, Registry};
use saltica_pipeline::sink::web::{Answer, Handler, Pages, Preview, PreviewOptions, Request, Site};
use saltica_pipeline::sink::{Demand, Feed, Flow, FrameResult, Reports, Sink, SinkPlan, SinkState, Sinks};
use saltica_pipeline::source::{Plan, Source, Supervisor};
use saltica_pipeline::stage::{Follow, Monitor, Pipeline, PipelineConfig, Stopped, Trackers};
use saltica_vision::track::TrackParams;

use super::model::Engine;
use super::settings::{Settings, Shed, SourceSettings};
use super::status::{Counts, Now, SinkRecord};
use super::tally::Tally;
use crate::Result;

/// Results that may wait for the status, which takes each in microseconds.
const TALLY: SinkPlan = SinkPlan { queue: 64, keep: Keep::Latest };
/// Frames of each source that may wait, where all are kept.
const KEPT: usize = 16;

/// A running pipeline.
pub(super) struct Live {
    pipeline: Pipeline,
    monitor: Arc<Monitor>,
    /// What its pages show.
    pub(super) site: Arc<Site>,
    /// Sinks that were asked for; others follow them.
    asked: usize,
    names: Vec<String>,
}

/// Sources that are made but not opened, each with its plan.
type Sources = Vec<(Box<dyn Source>, Plan)>;

impl Live {
    /// Checks all that can be checked without opening anything: so much must be right before an old pipeline is stopped.
    ///
    /// # Errors
    /// Options of a source or a sink that do not go together, or a library that is missing.
    pub(super) fn check(settings: &Settings) -> Result<()> {
        make_sources(settings)?;
        for sink in &settings.sinks {
            sink.uri.plan(SinkPlan::default()).map_err(|e| sink.origin.of(e.into()))?;
        }
        Ok(())
    }

    /// Opens sources and sinks and starts all stages. No sink that was asked for takes more than `most` results.
    ///
    /// # Errors
    /// As [`Live::check`]; a sink that cannot be opened, threads or memory that cannot be had.
    pub(super) fn start(
        settings: &Settings,
        engine: &mut Engine,
        tally: &Arc<Tally>,
        most: Option<u64>,
    ) -> Result<Live> {
        let made = make_sources(settings)?;
        let names = names(&settings.sources);
        let kept: Vec<bool> = made.iter().map(|(_, plan)| plan.keep == Keep::All).collect();

        // Where every frame counts, so does every result; but no sink may hold up a camera.
        let keep = if kept.iter().all(|k| *k) { Keep::All } else { Keep::Latest };
        let mut sinks: Vec<(Box<dyn Sink>, SinkPlan)> = Vec::new();
        for s in &settings.sinks {
            let plan = s.uri.plan(SinkPlan { keep, ..SinkPlan::default() })?;
            let sink = s.uri.sink().map_err(|e| s.origin.of(e.into()))?;
            sinks.push((
                match most {
                    Some(left) => Box::new(Limited { sink, left }),
                    None => sink,
                },
                plan,
            ));
        }
        let preview = settings.preview.as_ref().map(|_| Preview::new(made.len(), PreviewOptions::default()));
        if let Some(preview) = &preview {
            sinks.push((preview.sink()?, SinkPlan { queue: 4, keep: Keep::Latest }));
        }
        sinks.push((tally.sink(&names), TALLY));
        let sinks = Arc::new(Sinks::start(sinks)?);
        let numbers = PipelineMetrics::new(&Registry::new(), &names)?;
        let feed = Feed::new(sinks, numbers, engine.head().labels().cloned());

        let config = config(settings, &kept, engine);
        let model = engine.model(made.len())?;
        let follow: Option<Box<dyn Follow>> = match settings.track {
            true => Some(Box::new(Trackers::new(made.len(), TrackParams::default(), engine.shown())?)),
            false => None,
        };
        let bell = Bell::new();
        let mut sources = Vec::new();
        for (i, (source, plan)) in made.into_iter().enumerate() {
            let bell = Arc::clone(&bell);
            sources.push(Supervisor::start(source, SourceId(i as u32), &*names[i], plan, bell)?);
        }
        let pipeline = Pipeline::start(config, bell, sources, model, follow, feed)?;
        let monitor = Arc::clone(pipeline.monitor());
        let site = pipeline.site(preview);
        Ok(Live { pipeline, monitor, site, asked: settings.sinks.len(), names })
    }

    /// The pipeline.
    pub(super) fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Every source now.
    pub(super) fn now(&self) -> Vec<Now> {
        now(&self.names, &self.monitor)
    }

    /// Why a stage is dead or hung, if one is.
    pub(super) fn trouble(&self, hang: std::time::Duration) -> Option<String> {
        if let Some(failure) = self.pipeline.failure() {
            return Some(failure.to_string());
        }
        let silent = self.monitor.stages().into_iter().find(|s| s.silent > hang)?;
        Some(format!("stage {} gave no sign of life for {:.0} s", silent.name, silent.silent.as_secs_f64()))
    }

    /// Whether all sinks that were asked for are over because nobody wants more.
    pub(super) fn nobody_listens(&self) -> bool {
        let reports = self.pipeline.sinks();
        let asked = &reports[..self.asked.min(reports.len())];
        !asked.is_empty() && asked.iter().all(|s| s.state == SinkState::Ended && !s.broken)
    }

    /// Stops everything; how that went, and every source and sink at last.
    pub(super) fn stop(self) -> (Stopped, Vec<Now>, Vec<SinkRecord>) {
        let Live { pipeline, monitor, names, asked, .. } = self;
        let before = now(&names, &monitor);
        let stopped = pipeline.stop();
        let mut after = now(&names, &monitor);
        for (after, before) in after.iter_mut().zip(before) {
            // That it was stopped is no news.
            (after.state, after.reason) = (before.state, before.reason);
        }
        let sinks = monitor.sinks().into_iter().take(asked).map(SinkRecord::new).collect();
        (stopped, after, sinks)
    }
}

fn now(names: &[String], monitor: &Monitor) -> Vec<Now> {
    let all = monitor.sources().into_iter().zip(names).enumerate();
    all.map(|(i, (report, name))| Now {
        name: name.clone(),
        state: report.status.state,
        counts: Counts::new(&report, monitor.fates(i)),
        reason: report.status.reason,
    })
    .collect()
}

fn make_sources(settings: &Settings) -> Result<Sources> {
    let make = |s: &SourceSettings| -> Result<(Box<dyn Source>, Plan)> {
        let mut plan = s.uri.plan();
        if settings.keep_all {
            plan.keep = Keep::All;
        }
        plan.keep = s.keep.unwrap_or(plan.keep);
        Ok((s.uri.source().map_err(|e| s.origin.of(e.into()))?, plan))
    };
    settings.sources.iter().map(make).collect()
}

/// Names by which sources are told apart.
fn names(sources: &[SourceSettings]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for s in sources {
        let name = s.name();
        let mut unique = name.to_owned();
        for n in 2.. {
            if !names.contains(&unique) {
                break;
            }
            unique = format!("{name} ({n})");
        }
        names.push(unique);
    }
    names
}

fn config(settings: &Settings, kept: &[bool], engine: &Engine) -> PipelineConfig {
    let objective = |(s, kept): (&SourceSettings, &bool)| Objective {
        latency: s.latency.or(settings.latency).filter(|_| !kept),
        rate: s.rate.or(settings.rate),
    };
    let mut batch = BatcherConfig::new(settings.sources.len(), None);
    batch.streams = settings.sources.iter().zip(kept).map(objective).collect();
    let all_kept = kept.iter().all(|k| *k);
    batch.shedding = match settings.shed {
        _ if all_kept => Shedding::KeepAll,
        Shed::DropOldest => Shedding::DropOldest,
        Shed::LowerRate => Shedding::LowerRate,
    };
    // Without an objective the latest frame is the one that is wanted; with one, the batcher knows what it may keep.
    let open = batch.streams.iter().zip(kept).any(|(o, kept)| !kept && o.latency.is_none());
    batch.waiting = match (all_kept, open) {
        (true, _) => KEPT,
        (false, true) => 1,
        (false, false) => batch.waiting,
    };
    batch.most = settings.batch;
    batch.budget = engine.budget();
    let mut config = PipelineConfig::new(batch);
    config.patience = config.patience.max(engine.slowest() * 20);
    config
}

/// A sink that wants no more after so many results.
struct Limited {
    sink: Box<dyn Sink>,
    left: u64,
}

impl Sink for Limited {
    fn name(&self) -> &str {
        self.sink.name()
    }

    fn demand(&self) -> Option<Arc<dyn Demand>> {
        self.sink.demand()
    }

    fn accept(&mut self, result: &FrameResult) -> saltica_pipeline::Result<Flow> {
        if self.left == 0 {
            return Ok(Flow::Done);
        }
        let flow = self.sink.accept(result)?;
        self.left -= 1;
        Ok(if self.left == 0 { Flow::Done } else { flow })
    }

    fn idle(&mut self) -> saltica_pipeline::Result<()> {
        self.sink.idle()
    }

    fn close(&mut self) -> saltica_pipeline::Result<()> {
        self.sink.close()
    }

    fn lost(&self) -> u64 {
        self.sink.lost()
    }
}

/// Pages of whichever pipeline runs: the address stays when the pipeline is rebuilt.
#[derive(Default)]
pub(super) struct Current(Mutex<Option<Pages>>);

impl Current {
    /// Shows another pipeline's pages.
    pub(super) fn show(&self, site: Arc<Site>) {
        let old = self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(Pages(site));
        if let Some(Pages(old)) = old {
            old.retire();
        }
    }
}

impl Handler for Current {
    fn answer(&self, request: &Request) -> Answer {
        let pages = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match pages {
            Some(pages) => pages.answer(request),
            None => Answer::error(503, "starting"),
        }
    }
}
