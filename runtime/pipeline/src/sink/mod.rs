//! Where results go.
//!
//! A [`Sink`] takes one [`FrameResult`] after the other, by reference. [`Sinks`] runs each on a thread of its own behind a
//! bounded queue that drops its oldest result when it is full, and counts that: a slow, hanging or dead sink never concerns
//! the pipeline or another sink. Sinks that need the picture say so beforehand ([`Sink::demand`]), so that pixels are
//! copied only when somebody will look at them.
//!
//! | address | what |
//! |---|---|
//! | `json:-`, `json:results.jsonl?rotate=64M&files=5` | one line of JSON a result ([`lines`]) |
//! | `jpeg:folder?files=1000&fps=1` | annotated pictures ([`pictures`]) |
//! | `avi:clip.avi`, `y4m:clip.y4m`, `mjpeg:-` | annotated video ([`video`]) |
//! | `mqtt://user@host/topic`, `mqtts://host/topic` | one message a result ([`mqtt`]) |
//!
//! The preview page, the metrics and the health report are pages of one small web server ([`web`]).
//!
//! Whoever makes results gives them to a [`Feed`]: it counts them ([`metrics`]), copies the pixels that somebody wants, so
//! that the frame goes back to its driver at once, and hands one shared result to all sinks.
//!
//! To add a sink: one file here and one line in [`SCHEMES`].

mod annotate;
mod feed;
mod health;
mod hub;
pub mod lines;
pub mod metrics;
pub mod mqtt;
mod pace;
pub mod pictures;
mod report;
mod result;
mod uri;
pub mod video;
pub mod web;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use annotate::Annotated;
pub use feed::Feed;
pub use health::{Health, HealthReport, HealthState, Reason};
pub(crate) use hub::describe;
pub use hub::{SinkPlan, Sinks};
pub use report::{SinkReport, SinkState};
pub use result::{FrameResult, Object, Picture, Recycler, SCHEMA, StageTimes, Track};
pub use uri::{SCHEMES, Scheme, SinkUri};

use crate::Result;
use crate::frame::SourceId;
use crate::source::{Snapshot, Status};

/// Takes results. All calls come from one thread, which is the sink's own, so they may wait; the longer they do, the more
/// results are dropped in the queue before it.
pub trait Sink: Send {
    /// What messages and metrics call it. No secrets in it.
    fn name(&self) -> &str;

    /// Which pictures it needs. None: only the results.
    fn demand(&self) -> Option<Arc<dyn Demand>> {
        None
    }

    /// Takes one result. [`Flow::Done`] means that nobody wants more (the reader of a pipe
    /// went away): the sink is closed.
    ///
    /// # Errors
    /// Whatever kept this result from being taken; it is counted. The sink goes on with the next one unless
    /// [`ErrorKind::is_permanent`](crate::ErrorKind::is_permanent).
    fn accept(&mut self, result: &FrameResult) -> Result<Flow>;

    /// Called about twice a second while no results come: what has to be kept alive or written out.
    ///
    /// # Errors
    /// As [`Sink::accept`].
    fn idle(&mut self) -> Result<()> {
        Ok(())
    }

    /// Results that it took and that were lost later: given up before a receiver confirmed them.
    fn lost(&self) -> u64 {
        0
    }

    /// The end: writes out what it holds and lets go.
    ///
    /// # Errors
    /// What could not be written.
    fn close(&mut self) -> Result<()>;
}

/// Whether a sink wants more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It does.
    More,
    /// It does not, and that is no error.
    Done,
}

/// Which pictures a sink wants. Asked by the pipeline for each frame, so it must not wait for anything.
pub trait Demand: Send + Sync + fmt::Debug {
    /// Whether the picture of a frame of this source, captured then (on the monotonic clock), is wanted.
    fn wants(&self, source: SourceId, captured: Duration) -> bool;
}

/// Every picture is wanted.
#[derive(Clone, Copy, Debug)]
pub struct All;

impl Demand for All {
    fn wants(&self, _: SourceId, _: Duration) -> bool {
        true
    }
}

/// What is known about a source, for pages and metrics.
#[derive(Clone, Debug)]
pub struct SourceReport {
    /// Its number.
    pub id: SourceId,
    /// What messages call it.
    pub name: String,
    /// What it is doing.
    pub status: Status,
    /// What it counted.
    pub counters: Snapshot,
    /// For how long frames of it have been taken in without any being answered; zero where none waits for its result.
    pub unanswered: Duration,
}

/// What is known about a stage, for pages and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageReport {
    /// What messages call it.
    pub name: String,
    /// How long ago its last sign of life was; it gives one several times a second.
    pub silent: Duration,
    /// Pieces of work it has done.
    pub done: u64,
    /// Why its thread ended before its time.
    pub failed: Option<String>,
}

/// Tells about all parts of a running pipeline when asked: [`Monitor`](crate::stage::Monitor) does.
pub trait Reports: Send + Sync {
    /// About every source, by number.
    fn sources(&self) -> Vec<SourceReport>;

    /// About every sink.
    fn sinks(&self) -> Vec<SinkReport>;

    /// About every stage.
    fn stages(&self) -> Vec<StageReport> {
        Vec::new()
    }

    /// Adds what else is counted to the metrics.
    fn scrape(&self, out: &mut metrics::Scrape) {
        let _ = out;
    }
}

/// Whether a transfer that failed so is no more than late or interrupted: it may be tried again.
fn is_retry(e: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(e.kind(), WouldBlock | TimedOut | Interrupted)
}
