//! From settings to the end: starts the pipeline, watches it, rebuilds it, stops it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use saltica_pipeline::process::Notifier;
use saltica_pipeline::sink::web::{Limits, Server, address};
use saltica_pipeline::source::State;

use super::live::{Current, Live};
use super::model::Engine;
use super::restarts::Restarts;
use super::settings::{Flags, Settings};
use super::signals::Signals;
use super::status::{Counts, Now, Rates, RunRecord, SinkRecord, SourceRecord};
use super::tally::Tally;
use super::value::Value;
use crate::models::Model;
use crate::{Error, ErrorKind, Result};

/// Where a running program's words go.
pub trait Tell {
    /// Something worth knowing.
    fn note(&mut self, text: &str);

    /// Something that is wrong.
    fn warn(&mut self, text: &str);

    /// The state of all sources, a line each; replaces what was told before where that is possible.
    fn status(&mut self, lines: &[String]);

    /// How often [`Tell::status`] is wanted.
    fn every(&self) -> Duration;
}

/// How it ended.
#[derive(Debug)]
pub struct Outcome {
    /// What became of everything.
    pub record: RunRecord,
    /// Whether the summary is wanted.
    pub quiet: bool,
    /// Whether a signal ended it: what fails for ever is no failure of the end.
    pub signalled: bool,
}

impl Outcome {
    /// Sources that ended because of an error, and all sources.
    pub fn failed(&self) -> (usize, usize) {
        let failed = |s: &&SourceRecord| s.state == State::Ended.name() && s.error.is_some();
        (self.record.sources.iter().filter(failed).count(), self.record.sources.len())
    }

    /// Whether some results did not get where they were wanted.
    pub fn is_short(&self) -> bool {
        self.record.sinks.iter().any(SinkRecord::is_short)
    }
}

/// How often signals, stages and limits are looked at.
const TICK: Duration = Duration::from_millis(50);
/// Between two tries to rebuild the pipeline.
const PAUSE: Duration = Duration::from_secs(1);
/// Settings of which the loaded model is made.
const OF_THE_MODEL: [&str; 12] = [
    "model",
    "device",
    "precision",
    "memory",
    "threads",
    "memory-limit",
    "imgsz",
    "spec",
    "head",
    "labels",
    "batch",
    "strict",
];

/// Runs until all sources have ended, a limit is reached, nobody listens, or a signal asks for the end. `settings` are those that
/// `flags` give, which are read again when a signal asks for it.
///
/// # Errors
/// Settings that mean nothing, a model, a sink or an address that cannot be had; stages that die or hang more often than
/// the settings allow.
pub fn run(flags: &Flags, settings: Settings, tell: &mut dyn Tell) -> Result<Outcome> {
    let signals = Signals::handle()?;
    Live::check(&settings)?;
    let model = model(&settings, tell)?;
    let mut engine = Engine::load(&model, &settings)?;
    if !settings.quiet {
        tell.note(&format!("{model}: {}", engine.about()));
    }
    let current = Arc::new(Current::default());
    let server = serve(&settings, &current, tell)?;
    let tally = Arc::new(Tally::default());
    let live = Live::start(&settings, &mut engine, &tally, settings.max_frames)?;
    current.show(Arc::clone(&live.site));
    signals.running();
    let runner = Runner {
        flags,
        settings,
        engine,
        model,
        current,
        server,
        tally,
        live: Some(live),
        past: Vec::new(),
        sinks: Vec::new(),
        results: 0,
        hung: Vec::new(),
        restarts: Restarts::default(),
        reloads: 0,
        started: Instant::now(),
        notifier: Notifier::from_env(),
        signals,
        tell,
    };
    runner.run()
}

fn model(settings: &Settings, tell: &mut dyn Tell) -> Result<Model> {
    let Some(name) = &settings.model else {
        let simulated = |s: &super::settings::SourceSettings| s.uri.scheme().name == "sim";
        if !settings.sources.iter().all(simulated) {
            tell.warn(
                "no model is given: the one inside the program knows only scenes of the simulated camera; for others \
                 name one, such as --model yolox-nano (saltica models list)",
            );
        }
        return Ok(Model::built_in());
    };
    let model = Model::find(name)?;
    if let Some(note) = model.note() {
        tell.warn(note);
    }
    Ok(model)
}

fn serve(settings: &Settings, current: &Arc<Current>, tell: &mut dyn Tell) -> Result<Option<Server>> {
    let Some(at) = &settings.preview else { return Ok(None) };
    let server = Server::start(address(at)?, Limits::default(), current.clone())?;
    if !settings.quiet {
        tell.note(&format!("preview at http://{}/", server.address()));
    }
    Ok(Some(server))
}

struct Runner<'a> {
    flags: &'a Flags,
    settings: Settings,
    engine: Engine,
    model: Model,
    current: Arc<Current>,
    server: Option<Server>,
    tally: Arc<Tally>,
    live: Option<Live>,
    /// Sources of pipelines that are over.
    past: Vec<Now>,
    /// Their sinks.
    sinks: Vec<SinkRecord>,
    /// Their results.
    results: u64,
    hung: Vec<String>,
    restarts: Restarts,
    reloads: u64,
    started: Instant,
    notifier: Notifier,
    signals: Signals,
    tell: &'a mut dyn Tell,
}

impl Runner<'_> {
    fn run(mut self) -> Result<Outcome> {
        let (mut seen, mut rates, mut told) = (0, Rates::default(), Instant::now());
        while let Some(live) = &self.live {
            let over = live.pipeline().wait(TICK);
            let results = self.results + live.pipeline().results();
            if results > seen {
                if seen == 0 {
                    self.notifier.ready();
                }
                seen = results;
                // Nothing but completed frames shows that the program works.
                self.notifier.feed();
            }
            let s = &self.settings;
            if self.signals.stop()
                || s.max_frames.is_some_and(|n| results >= n)
                || s.duration.is_some_and(|d| self.started.elapsed() >= d)
                || live.nobody_listens()
            {
                break;
            }
            let hang = s.hang.max(self.engine.slowest() * 20);
            if let Some(why) = live.trouble(hang) {
                self.restart(&why)?;
                continue;
            }
            if over {
                break;
            }
            if self.signals.take_reload() {
                self.notifier.reloading();
                self.reload()?;
                // Before the first result there is nothing to be ready for.
                if seen > 0 {
                    self.notifier.ready();
                }
            }
            if told.elapsed() >= self.tell.every() && !self.settings.quiet {
                told = Instant::now();
                let lines = rates.lines(&self.now(), &self.tally);
                self.notifier.status(&lines.join("; "));
                self.tell.status(&lines);
            }
        }
        self.notifier.stopping();
        let stopping = Instant::now();
        self.stop();
        drop(self.server.take());
        let stop_ms = stopping.elapsed().as_secs_f64() * 1e3;
        let record = RunRecord {
            model: self.model.to_string(),
            seconds: self.started.elapsed().as_secs_f64(),
            restarts: self.restarts.all,
            reloads: self.reloads,
            stop_ms,
            hung: std::mem::take(&mut self.hung),
            sources: self.past.iter().map(|now| SourceRecord::new(now, &self.tally)).collect(),
            sinks: std::mem::take(&mut self.sinks),
        };
        Ok(Outcome { record, quiet: self.settings.quiet, signalled: self.signals.stop() })
    }

    /// Every source so far, those of pipelines that are over included.
    fn now(&self) -> Vec<Now> {
        let mut all = self.live.as_ref().map(Live::now).unwrap_or_default();
        for now in &mut all {
            if let Some(past) = self.past.iter().find(|p| p.name == now.name) {
                now.counts.add(&past.counts);
            }
        }
        all
    }

    /// Stops the pipeline, if one runs, and keeps what it counted.
    fn stop(&mut self) {
        let Some(live) = self.live.take() else { return };
        let (stopped, last, sinks) = live.stop();
        self.sinks.extend(sinks);
        for name in &stopped.hung {
            log::warn!("{name} did not end in time and is left behind");
        }
        self.hung.extend(stopped.hung);
        for now in last {
            self.results += now.counts.answered;
            match self.past.iter_mut().find(|p| p.name == now.name) {
                Some(past) => {
                    let mut counts = Counts::default();
                    counts.add(&past.counts);
                    counts.add(&now.counts);
                    *past = Now { counts, ..now };
                }
                None => self.past.push(now),
            }
        }
    }

    fn start(&mut self) -> Result<()> {
        let left = self.settings.max_frames.map(|n| n.saturating_sub(self.results));
        let live = Live::start(&self.settings, &mut self.engine, &self.tally, left)?;
        self.current.show(Arc::clone(&live.site));
        self.live = Some(live);
        Ok(())
    }

    /// Rebuilds the pipeline and the model, as long as that does not happen too often. That it fails is tried again as well: what
    /// the old one held (a device's memory, a file) may be late to come back.
    fn restart(&mut self, why: &str) -> Result<()> {
        let (most, window) = (self.settings.restarts, self.settings.restart_window);
        let mut why = why.to_owned();
        self.stop();
        loop {
            if !self.restarts.take(Instant::now(), most, window) {
                self.notifier.stopping();
                return Err(Error::new(
                    ErrorKind::Run,
                    format!(
                        "{why}; the pipeline may be rebuilt {most} times within {}: giving up",
                        Value::Span(window)
                    ),
                ));
            }
            self.tell.warn(&format!("{why}: the pipeline is rebuilt"));
            // Whatever the old one held (a lock, a device) may be what hangs.
            let rebuilt = Engine::load(&self.model, &self.settings).and_then(|engine| {
                self.engine = engine;
                self.start()
            });
            match rebuilt {
                Ok(()) => return Ok(()),
                Err(_) if self.signals.stop() => return Ok(()),
                Err(e) => why = e.to_string(),
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Reads the configuration again. What cannot be used is told, and nothing changes.
    ///
    /// # Errors
    /// Only where the old pipeline is gone and cannot be had again.
    fn reload(&mut self) -> Result<()> {
        let prepared = Settings::load(self.flags).and_then(|new| self.prepare(new));
        let refused = |e: &Error| format!("the new configuration is refused, the old one goes on: {e}");
        let result = match prepared {
            Ok(change) => self.change(change)?,
            Err(e) => Err(e),
        };
        match &result {
            Ok(what) if !self.settings.quiet => self.tell.note(&format!("configuration read again: {what}")),
            Ok(_) => {}
            Err(e) => self.tell.warn(&refused(e)),
        }
        self.reloads += 1;
        if let Some(live) = &self.live {
            live.pipeline().parts().set("configuration", result.err().map(|e| refused(&e)));
        }
        Ok(())
    }

    /// Makes all that a change needs while the old pipeline goes on.
    fn prepare(&mut self, new: Settings) -> Result<Change> {
        Live::check(&new)?;
        let changed: Vec<_> = new.changed(&self.settings).collect();
        let names: Vec<&str> = changed.iter().map(|k| k.name).collect();
        let same_ends = new.same_ends(&self.settings);
        // What is shown beside tracks is fixed when tracking begins.
        let rebuild =
            !same_ends || changed.iter().any(|k| !k.live) || (new.track && names.contains(&"score"));
        let engine = match names.iter().any(|n| OF_THE_MODEL.contains(n)) {
            true => {
                let model = model(&new, self.tell)?;
                let engine = Engine::load(&model, &new)?;
                Some((model, engine))
            }
            false => {
                self.engine.check_thresholds(&new)?;
                None
            }
        };
        let server = match names.contains(&"preview") {
            true => Some(serve(&new, &self.current, self.tell)?),
            false => None,
        };
        let mut what: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        if !same_ends {
            what.push("sources or sinks".into());
        }
        let what = if what.is_empty() { "nothing changed".into() } else { what.join(", ") };
        Ok(Change { new, engine, server, rebuild, what })
    }

    /// Applies it. The inner error: it could not be done, and all is as it was.
    fn change(&mut self, change: Change) -> Result<Result<String>> {
        let Change { new, engine, server, rebuild, what } = change;
        let old = std::mem::replace(&mut self.settings, new);
        let old_engine = engine.map(|(model, engine)| {
            (std::mem::replace(&mut self.model, model), std::mem::replace(&mut self.engine, engine))
        });
        self.engine.set_thresholds(&self.settings)?;
        if rebuild {
            self.stop();
            if let Err(e) = self.start() {
                self.settings = old;
                if let Some((model, engine)) = old_engine {
                    (self.model, self.engine) = (model, engine);
                }
                self.engine.set_thresholds(&self.settings)?;
                self.start()?;
                return Ok(Err(e));
            }
        }
        if let Some(server) = server {
            self.server = server;
        }
        Ok(Ok(what))
    }
}

/// A change of the configuration, prepared.
struct Change {
    new: Settings,
    engine: Option<(Model, Engine)>,
    server: Option<Option<Server>>,
    rebuild: bool,
    what: String,
}
