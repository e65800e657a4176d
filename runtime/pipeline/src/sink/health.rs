//! Whether the program does its work: for load balancers, container runtimes and people.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use serde::Serialize;

use super::{Reports, SinkReport, SinkState, SourceReport, StageReport};
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

/// Judges how the program is, and collects what is wrong with the parts of it that no source, stage or sink stands for.
#[derive(Debug)]
pub struct Health {
    wrong: Mutex<BTreeMap<String, String>>,
    patience: Duration,
}

impl Default for Health {
    fn default() -> Health {
        Health::with_patience(Self::PATIENCE)
    }
}

impl Health {
    /// How long a stage may be silent, a sink busy with one result, or a source's frames unanswered.
    pub const PATIENCE: Duration = Duration::from_secs(10);

    /// Nothing is wrong.
    pub fn new() -> Health {
        Health::default()
    }

    /// The same, with another patience than [`Health::PATIENCE`]: for models that take longer than that for a batch.
    pub fn with_patience(patience: Duration) -> Health {
        Health { wrong: Mutex::default(), patience }
    }

    /// Says what is wrong with a part (a board that throttles, a configuration that could not be read), or that nothing is any more.
    pub fn set(&self, about: &str, reason: Option<String>) {
        let mut wrong = lock(&self.wrong);
        match reason {
            Some(reason) => wrong.insert(about.to_owned(), reason),
            None => wrong.remove(about),
        };
    }

    /// How the program is, given what its parts say and the number of results so far.
    pub fn of(&self, reports: &dyn Reports, results: u64) -> HealthReport {
        self.report(&reports.sources(), &reports.stages(), &reports.sinks(), results)
    }

    /// How the program is, given its sources, stages and sinks, and the number of results so far.
    pub fn report(
        &self,
        sources: &[SourceReport],
        stages: &[StageReport],
        sinks: &[SinkReport],
        results: u64,
    ) -> HealthReport {
        let wrong = lock(&self.wrong).clone();
        let mut reasons: Vec<Reason> =
            wrong.into_iter().map(|(about, reason)| Reason { about, reason }).collect();
        let mut say = |about: &str, reason: String| reasons.push(Reason { about: about.to_owned(), reason });
        let mut dead = false;
        for s in stages {
            let reason = match &s.failed {
                Some(why) => format!("failed: {why}"),
                None if s.silent > self.patience => format!("no sign of life for {}", seconds(s.silent)),
                None => continue,
            };
            dead = true;
            say(&s.name, reason);
        }
        let mut alive = sources.is_empty();
        let mut stuck = false;
        for s in sources {
            let why = s.status.reason.as_deref();
            let reason = match s.status.state {
                State::Streaming if s.unanswered > self.patience => {
                    stuck = true;
                    format!("frames come, but none was answered for {}", seconds(s.unanswered))
                }
                State::Streaming => {
                    alive = true;
                    continue;
                }
                // One that came to its end has done its work.
                State::Ended if why.is_none() => continue,
                state => why.map_or(state.name().to_owned(), |why| format!("{state}: {why}")),
            };
            say(&s.name, reason);
        }
        for s in sinks {
            let why = s.reason.as_deref().unwrap_or("no reason given");
            if s.state == SinkState::Failing || s.broken {
                say(&s.name, format!("{}: {why}", s.state));
            } else if s.busy > self.patience {
                say(&s.name, format!("busy with one result for {}", seconds(s.busy)));
            }
        }
        let working = results > 0 && alive && !dead;
        let status = match (results, working && reasons.is_empty()) {
            (0, _) if !dead && !stuck => HealthState::Starting,
            (_, true) => HealthState::Ready,
            (_, false) => HealthState::Degraded,
        };
        HealthReport { status, working, reasons }
    }
}

fn seconds(d: Duration) -> String {
    format!("{:.0} s", d.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::SourceId;
    use crate::source::{Counters, Status};

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
            unanswered: Duration::ZERO,
        }
    }

    fn sink(state: SinkState, broken: bool) -> SinkReport {
        let reason = Some("no route".into());
        SinkReport {
            name: "mqtt".into(),
            state,
            reason,
            taken: 0,
            dropped: 0,
            failed: 0,
            lost: 0,
            waiting: 0,
            busy: Duration::ZERO,
            broken,
        }
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
            let r = health.report(&sources, &[], &sinks, results);
            assert_eq!((r.status, r.http_status()), (state, http), "{r:?}");
        }
        let r = health.report(&[on.clone(), off], &[], &[], 1);
        assert_eq!(r.reasons, [Reason { about: "b".into(), reason: "reconnecting: unplugged".into() }]);
        health.set("board", Some("it is too hot".into()));
        let r = health.report(std::slice::from_ref(&on), &[], &[], 1);
        assert_eq!((r.status, r.reasons[0].about.as_str()), (Degraded, "board"));
        assert_eq!(
            serde_json::to_string(&r).unwrap(),
            "{\"status\":\"degraded\",\"working\":true,\"reasons\":[{\"about\":\"board\",\"reason\":\"it is too hot\"}]}"
        );
        health.set("board", None);
        assert_eq!(health.report(&[on], &[], &[], 1).status, Ready);
    }

    #[test]
    fn what_hangs_is_not_ready_for_ever() {
        use HealthState::{Degraded, Ready, Starting};
        let s = Duration::from_secs;
        let stage = |silent, failed: Option<&str>| StageReport {
            name: "infer".into(),
            silent,
            done: 9,
            failed: failed.map(String::from),
        };
        let front = |unanswered| SourceReport { unanswered, ..source("front", State::Streaming, None) };
        let busy = |busy| SinkReport { busy, reason: None, ..sink(SinkState::Working, false) };
        let health = Health::new();
        let cases = [
            (vec![front(s(9))], stage(s(9), None), busy(s(9)), 1, Ready, 200, None),
            // The model does not return.
            (
                vec![front(s(9))],
                stage(s(11), None),
                busy(s(0)),
                1,
                Degraded,
                503,
                Some("no sign of life for 11 s"),
            ),
            (vec![front(s(9))], stage(s(11), None), busy(s(0)), 0, Degraded, 503, None),
            (
                vec![front(s(0))],
                stage(s(0), Some("index 9")),
                busy(s(0)),
                1,
                Degraded,
                503,
                Some("failed: index 9"),
            ),
            // It returns, but with nothing.
            (
                vec![front(s(12))],
                stage(s(0), None),
                busy(s(0)),
                1,
                Degraded,
                503,
                Some("frames come, but none was answered for 12 s"),
            ),
            (vec![front(s(12))], stage(s(0), None), busy(s(0)), 0, Degraded, 503, None),
            (vec![front(s(12)), front(s(0))], stage(s(0), None), busy(s(0)), 1, Degraded, 200, None),
            (vec![front(s(0))], stage(s(0), None), busy(s(0)), 0, Starting, 503, None),
            // Of a sink only what it would write is lost.
            (
                vec![front(s(0))],
                stage(s(0), None),
                busy(s(15)),
                1,
                Degraded,
                200,
                Some("busy with one result for 15 s"),
            ),
        ];
        for (sources, stage, sink, results, state, http, reason) in cases {
            let r = health.report(&sources, &[stage], &[sink], results);
            assert_eq!((r.status, r.http_status()), (state, http), "{r:?}");
            if let Some(reason) = reason {
                assert_eq!(r.reasons[0].reason, reason);
            }
        }
        let patient = Health::with_patience(s(60));
        assert_eq!(patient.report(&[front(s(12))], &[stage(s(50), None)], &[], 1).status, Ready);
    }
}
