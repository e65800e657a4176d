//! How a sink is.

use std::fmt;
use std::time::Duration;

/// What a sink is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SinkState {
    /// It takes results.
    Working,
    /// The last result could not be taken.
    Failing,
    /// It is over: closed, or failed for good.
    Ended,
}

impl SinkState {
    /// Every state.
    pub const ALL: [SinkState; 3] = [SinkState::Working, SinkState::Failing, SinkState::Ended];

    /// The lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            SinkState::Working => "working",
            SinkState::Failing => "failing",
            SinkState::Ended => "ended",
        }
    }
}

impl fmt::Display for SinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is known about a sink now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkReport {
    /// What messages call it.
    pub name: String,
    /// What it is doing.
    pub state: SinkState,
    /// Why it is failing, or what ended it.
    pub reason: Option<String>,
    /// Results it took.
    pub taken: u64,
    /// Results dropped because it was too slow.
    pub dropped: u64,
    /// Results it could not take.
    pub failed: u64,
    /// Results it took and that were lost later ([`Sink::lost`](super::Sink::lost)).
    pub lost: u64,
    /// Results waiting before it.
    pub waiting: usize,
    /// How long it has been busy with one result, or with its end; zero while it waits for work.
    pub busy: Duration,
    /// Whether it ended because of an error (and not because it was closed, or nobody wanted more).
    pub broken: bool,
}
