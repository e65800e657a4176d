//! Pages about the running program, by one small web server ([`Server`]).
//!
//! | path | what |
//! |---|---|
//! | `/` | the preview page: live pictures with boxes and tracks, and how every source and sink is |
//! | `/metrics` | all numbers, for Prometheus |
//! | `/health` | JSON: `status` (`starting`, `ready`, `degraded`), `working`, `reasons`; 200 while results come, else 503 |
//! | `/api/status` | JSON: what the preview page shows beside the pictures |
//! | `/api/stream?source=0,1&size=large` | pictures and status in one stream, for the preview page ([`preview`]) |
//! | `/source/0.jpg`, `/source/0.mjpeg` | annotated picture and multipart stream, for other programs |
//!
//! Pictures are encoded only while somebody looks. Files of the page are part of the program; it loads nothing from
//! elsewhere. There is no password: it listens for this machine only unless an address is given, and whoever can reach
//! that address sees the pictures.

pub mod preview;
mod server;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

pub use preview::{Preview, PreviewOptions};
pub use server::{Answer, Body, Client, Handler, Limits, Request, Server, WriteBody, address};

use super::metrics::PipelineMetrics;
use super::{Health, HealthReport, Reports, SinkReport, SourceReport};
use crate::frame::{SourceId, monotonic};

/// What the pages show.
pub struct Site {
    numbers: Arc<PipelineMetrics>,
    health: Arc<Health>,
    reports: Arc<dyn Reports>,
    preview: Option<Arc<Preview>>,
    started: Instant,
    over: AtomicBool,
}

impl Site {
    /// Pages about these. Without `preview` there are no pictures.
    pub fn new(
        numbers: Arc<PipelineMetrics>,
        health: Arc<Health>,
        reports: Arc<dyn Reports>,
        preview: Option<Arc<Preview>>,
    ) -> Arc<Site> {
        Arc::new(Site {
            numbers,
            health,
            reports,
            preview,
            started: Instant::now(),
            over: AtomicBool::new(false),
        })
    }

    /// How the program is.
    pub fn health(&self) -> HealthReport {
        self.health.of(&*self.reports, self.numbers.results())
    }

    /// Another site takes its place: streams of this one end, so that whoever watches asks anew.
    pub fn retire(&self) {
        self.over.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    fn status(&self) -> Status {
        let (sources, sinks) = (self.reports.sources(), self.reports.sinks());
        let now = monotonic();
        Status {
            kind: "status",
            version: env!("CARGO_PKG_VERSION"),
            time_ms: now.as_secs_f64() * 1e3,
            uptime_s: self.started.elapsed().as_secs(),
            viewers: self.preview.as_ref().map_or(0, |p| p.viewers()),
            health: self.health.report(&sources, &self.reports.stages(), &sinks, self.numbers.results()),
            sources: sources.iter().map(|s| self.source(s, now)).collect(),
            sinks: sinks.into_iter().map(SinkStatus::from).collect(),
        }
    }

    fn source(&self, s: &SourceReport, now: Duration) -> SourceStatus {
        let numbers = self.numbers.source(s.id);
        let any = numbers.filter(|n| n.results() > 0);
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        SourceStatus {
            source_id: s.id.0,
            source: s.name.clone(),
            state: s.status.state.name(),
            since_ms: ms(now.saturating_sub(s.status.since)),
            reason: s.status.reason.clone(),
            format: s.status.opened.as_ref().and_then(|o| o.format).map(|f| f.to_string()),
            frames: s.counters.frames,
            dropped: s.counters.all_dropped(),
            results: numbers.map_or(0, |n| n.results()),
            frame_age_ms: any.map(|n| ms(n.last_age())),
            batch: any.map(|n| n.last_batch()),
            last_ms: any.map(|n| ms(now.saturating_sub(n.last_captured()))),
        }
    }

    fn stream(self: &Arc<Site>, preview: &Arc<Preview>, request: &Request) -> Answer {
        let all = preview.sources();
        let mut wanted: Vec<SourceId> = match request.value("source") {
            Some(list) => list
                .split(',')
                .filter_map(|n| n.parse().ok())
                .filter(|n| (*n as usize) < all)
                .map(SourceId)
                .collect(),
            None => (0..all as u32).map(SourceId).collect(),
        };
        // Who names one twice looks at it once.
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.is_empty() {
            return Answer::error(404, "no such source");
        }
        let large = request.value("size") == Some("large");
        let (site, preview) = (Arc::clone(self), Arc::clone(preview));
        Answer::Stream {
            mime: "application/octet-stream".into(),
            write: Box::new(move |client| {
                let mut watching = preview.watch(&wanted, large);
                let mut said: Option<Instant> = None;
                while !client.is_stopping() && !site.is_over() {
                    if said.is_none_or(|t| t.elapsed() >= Duration::from_secs(1)) {
                        said = Some(Instant::now());
                        let mut line = serde_json::to_vec(&site.status()).map_err(io::Error::other)?;
                        line.push(b'\n');
                        client.send(&[&line])?;
                    }
                    for message in watching.next(Duration::from_millis(200)) {
                        client.send(&[&message])?;
                    }
                }
                Ok(())
            }),
        }
    }

    /// `/source/N.jpg` and `/source/N.mjpeg`.
    fn picture(self: &Arc<Site>, preview: &Arc<Preview>, name: &str) -> Option<Answer> {
        let (number, kind) = name.split_once('.')?;
        let source = SourceId(number.parse().ok().filter(|n| (*n as usize) < preview.sources())?);
        match kind {
            "jpg" => {
                let picture = preview.watch_annotated(source).next(Duration::from_secs(3));
                Some(match picture {
                    Some(body) => Answer::Whole { status: 200, mime: "image/jpeg", body: Body::Shared(body) },
                    None => Answer::error(503, "no picture came within 3 seconds"),
                })
            }
            "mjpeg" => {
                let (site, preview) = (Arc::clone(self), Arc::clone(preview));
                let boundary = super::video::Video::BOUNDARY;
                Some(Answer::Stream {
                    mime: format!("multipart/x-mixed-replace; boundary={boundary}"),
                    write: Box::new(move |client| {
                        let mut watching = preview.watch_annotated(source);
                        while !client.is_stopping() && !site.is_over() {
                            let Some(jpeg) = watching.next(Duration::from_millis(200)) else { continue };
                            let head = format!(
                                "--{boundary}\r\nContent-Type: image/jpeg\r\nContent-Length: {}\r\n\r\n",
                                jpeg.len()
                            );
                            client.send(&[head.as_bytes(), &jpeg, b"\r\n"])?;
                        }
                        Ok(())
                    }),
                })
            }
            _ => None,
        }
    }

    fn json(value: &impl Serialize, status: u16) -> Answer {
        match serde_json::to_string(value) {
            Ok(text) => Answer::text(status, "application/json", text + "\n"),
            Err(e) => Answer::error(500, &format!("a report that is no JSON: {e}")),
        }
    }
}

/// The handler of a [`Site`].
#[derive(Clone)]
pub struct Pages(pub Arc<Site>);

impl Handler for Pages {
    fn answer(&self, request: &Request) -> Answer {
        let page = |mime, body| Answer::Whole { status: 200, mime, body: Body::Static(body) };
        let site = &self.0;
        match (request.path.as_str(), &site.preview) {
            ("/", Some(_)) => page("text/html; charset=utf-8", include_bytes!("page/index.html")),
            ("/app.css", Some(_)) => page("text/css; charset=utf-8", include_bytes!("page/app.css")),
            ("/app.js", Some(_)) => page("text/javascript; charset=utf-8", include_bytes!("page/app.js")),
            ("/icon.svg", Some(_)) => page("image/svg+xml", include_bytes!("page/icon.svg")),
            ("/", None) => {
                Answer::text(200, "text/plain; charset=utf-8", "Saltica: /metrics, /health, /api/status\n")
            }
            ("/metrics", _) => {
                Answer::text(200, "text/plain; version=0.0.4; charset=utf-8", site.numbers.registry().text())
            }
            ("/health", _) => {
                let health = site.health();
                Site::json(&health, health.http_status())
            }
            ("/api/status", _) => Site::json(&site.status(), 200),
            ("/api/stream", Some(preview)) => site.stream(preview, request),
            (path, Some(preview)) if path.starts_with("/source/") => path
                .strip_prefix("/source/")
                .and_then(|name| site.picture(preview, name))
                .unwrap_or_else(|| Answer::error(404, "no such source")),
            _ => Answer::error(404, "no such page"),
        }
    }
}

#[derive(Serialize)]
struct Status {
    #[serde(rename = "type")]
    kind: &'static str,
    version: &'static str,
    time_ms: f64,
    uptime_s: u64,
    viewers: usize,
    health: HealthReport,
    sources: Vec<SourceStatus>,
    sinks: Vec<SinkStatus>,
}

#[derive(Serialize)]
struct SourceStatus {
    source_id: u32,
    source: String,
    state: &'static str,
    since_ms: f64,
    reason: Option<String>,
    format: Option<String>,
    frames: u64,
    dropped: u64,
    results: u64,
    frame_age_ms: Option<f64>,
    batch: Option<usize>,
    last_ms: Option<f64>,
}

#[derive(Serialize)]
struct SinkStatus {
    sink: String,
    state: &'static str,
    reason: Option<String>,
    results: u64,
    dropped: u64,
    failed: u64,
}

impl From<SinkReport> for SinkStatus {
    fn from(r: SinkReport) -> Self {
        SinkStatus {
            sink: r.name,
            state: r.state.name(),
            reason: r.reason,
            results: r.taken,
            dropped: r.dropped,
            failed: r.failed,
        }
    }
}
