//! Whether the program does its work: for load balancers, container runtimes and people.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde::Serialize;

use super::{SinkReport, SinkState, SourceReport};
use crate::frame::lock;
use crate::source::State;

/// How the program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum HealthState {
    /// No result has come yet.
    Starting,
    /// Everything works.
    Ready,
    /// Something does not work; the reasons say what.
    Degraded,
}

impl HealthState {
    /// The lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            HealthState::Starting => "starting",
            HealthState::Ready => "ready",
            HealthState::Degraded => "degraded",
        }
    }
}

/// Why the program is not ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// What it is about: a source, a sink, or a part of the program.
    pub about: String,
    /// What is wrong with it.
    pub reason: String,
}

/// How the program is, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HealthReport {
    /// How it is.
    pub status: HealthState,
    /// Whether results come, though perhaps not all of them: what HTTP status 200 (and otherwise 503) stands for.
    pub working: bool,
    /// What is wrong.
    pub reasons: Vec<Reason>,
}

impl HealthReport {
    /// 200 while results come from at least one source, else 503.
    pub fn http_status(&self) -> u16 {
        if self.working { 200 } else { 503 }
    }
}

/// Collects what is wrong with the parts of the program that no source or sink stands for.
#[derive(Debug, Default)]
pub struct Health {
    wrong: Mutex<BTreeMap<String, String>>,
}

impl Health {
    /// Nothing is wrong.
    pub fn new() -> Health {
        Health::default()
    }

    /// Says what is wrong with a part (a stage without a heartbeat, a board that throttles), or that nothing is any more.
    pub fn set(&self, about: &str, reason: Option<String>) {
        let mut wrong = lock(&self.wrong);
        match reason {
            Some(reason) => wrong.insert(about.to_owned(), reason),
            None => wrong.remove(about),
        };
    }

    /// How the program is, given its sources, its sinks and the number of results so far.
    pub fn report(&self, sources: &[SourceReport], sinks: &[SinkReport], results: u64) -> HealthReport {
        let wrong = lock(&self.wrong);
        let mut reasons: Vec<Reason> = wrong
            .iter()
            .map(|(about, reason)| Reason { about: about.clone(), reason: reason.clone() })
            .collect();
        drop(wrong);
        for s in sources {
            let why = s.status.reason.as_deref();
            let reason = match s.status.state {
                State::Streaming => continue,
                // One that came to its end has done its work.
                State::Ended if why.is_none() => continue,
                state => why.map_or(state.name().to_owned(), |why| format!("{state}: {why}")),
            };
            reasons.push(Reason { about: s.name.clone(), reason });
        }
        for s in sinks {
            let why = s.reason.as_deref().unwrap_or("no reason given");
            if s.state == SinkState::Failing || s.broken {
                reasons.push(Reason { about: s.name.clone(), reason: format!("{}: {why}", s.state) });
            }
        }
        let alive = sources.is_empty() || sources.iter().any(|s| s.status.state == State::Streaming);
        let status = match (results, reasons.is_empty() && alive) {
            (0, _) => HealthState::Starting,
            (_, true) => HealthState::Ready,
            (_, false) => HealthState::Degraded,
        };
        HealthReport { status, working: results > 0 && alive, reasons }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::SourceId;
    use crate::source::{Counters, Status};
    use std::time::Duration;

    fn source(name: &str, state: State, reason: Option<&str>) -> SourceReport {
        SourceReport {
            id: SourceId(0),
            name: name.into(),
            status: Status {
                state,
                since: Duration::ZERO,
                reason: reason.map(String::from),
                opened: None,
                attempts: 0,
                last_frame: None,
            },
            counters: Counters::default().snapshot(),
        }
    }

    fn sink(state: SinkState, broken: bool) -> SinkReport {
        let reason = Some("no route".into());
        SinkReport { name: "mqtt".into(), state, reason, taken: 0, dropped: 0, failed: 0, waiting: 0, broken }
    }

    #[test]
    fn states_follow_sources_sinks_and_parts() {
        use HealthState::{Degraded, Ready, Starting};
        let health = Health::new();
        let (on, off) =
            (source("a", State::Streaming, None), source("b", State::Reconnecting, Some("unplugged")));
        let cases = [
            (vec![source("a", State::Opening, None)], vec![], 0, Starting, 503),
            (vec![on.clone()], vec![], 0, Starting, 503),
            (vec![on.clone()], vec![], 1, Ready, 200),
            (vec![on.clone(), off.clone()], vec![], 1, Degraded, 200),
            (vec![off.clone()], vec![], 1, Degraded, 503),
            (vec![on.clone()], vec![sink(SinkState::Failing, false)], 1, Degraded, 200),
            (vec![on.clone()], vec![sink(SinkState::Ended, true)], 1, Degraded, 200),
            (vec![on.clone()], vec![sink(SinkState::Ended, false)], 1, Ready, 200),
            (vec![on.clone(), source("c", State::Ended, None)], vec![], 1, Ready, 200),
            (vec![source("c", State::Ended, None)], vec![], 1, Degraded, 503),
        ];
        for (sources, sinks, results, state, http) in cases {
            let r = health.report(&sources, &sinks, results);
            assert_eq!((r.status, r.http_status()), (state, http), "{r:?}");
        }
        let r = health.report(&[on.clone(), off], &[], 1);
        assert_eq!(r.reasons, [Reason { about: "b".into(), reason: "reconnecting: unplugged".into() }]);
        health.set("infer", Some("no heartbeat for 5 s".into()));
        let r = health.report(std::slice::from_ref(&on), &[], 1);
        assert_eq!((r.status, r.reasons[0].about.as_str()), (Degraded, "infer"));
        assert_eq!(
            serde_json::to_string(&r).unwrap(),
            "{\"status\":\"degraded\",\"working\":true,\"reasons\":[{\"about\":\"infer\",\"reason\":\"no heartbeat for 5 s\"}]}"
        );
        health.set("infer", None);
        assert_eq!(health.report(&[on], &[], 1).status, Ready);
    }
}
