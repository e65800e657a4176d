//! Shows sinks at work: simulated cameras, with the truth of each frame as its detections.
//!
//! `cargo run --release -p saltica-pipeline --example sinks -- [SIM...] [--sink ADDRESS]... [--preview ADDRESS]
//!  [--seconds N] [--fps N]`
//!
//! For instance `sinks sim:street?seed=1 sim:street?seed=2&light=night --preview :8080 --sink json:results.jsonl`. Without
//! `--preview` or `--sink` it serves the preview page at <http://localhost:8080>. `--trouble` makes the last camera vanish
//! and come back every 20 seconds, to see what that looks like.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use saltica_pipeline::frame::{Frame, FrameFormat, Pool, SourceId, monotonic};
use saltica_pipeline::sink::metrics::{self, PipelineMetrics, Registry};
use saltica_pipeline::sink::web::{Limits, Pages, Preview, PreviewOptions, Server, Site, address};
use saltica_pipeline::sink::{
    Feed, FrameResult, Health, Object, Reports, SinkPlan, SinkReport, SinkUri, Sinks, SourceReport, Track,
};
use saltica_pipeline::source::sim::{Class, FrameBuf, Sim, SimSpec, Truth};
use saltica_pipeline::source::{Counters, Opened, State, Status};
use saltica_tensor::PixelFormat;
use saltica_vision::Labels;

type Anything = Box<dyn std::error::Error>;

fn main() {
    if let Err(e) = run() {
        eprintln!("error: {e}");
        std::process::exit(2);
    }
}

struct Arguments {
    cameras: Vec<String>,
    sinks: Vec<SinkUri>,
    preview: Option<String>,
    seconds: f64,
    fps: f64,
    trouble: bool,
}

fn arguments() -> Result<Arguments, Anything> {
    let mut a = Arguments {
        cameras: Vec::new(),
        sinks: Vec::new(),
        preview: None,
        seconds: f64::INFINITY,
        fps: 10.0,
        trouble: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--sink" => a.sinks.push(SinkUri::parse(&value()?)?),
            "--preview" => a.preview = Some(value()?),
            "--seconds" => a.seconds = value()?.parse()?,
            "--fps" => a.fps = value()?.parse()?,
            "--trouble" => a.trouble = true,
            _ if arg.starts_with("--") => return Err(format!("unknown option {arg}").into()),
            _ => a.cameras.push(arg),
        }
    }
    if a.cameras.is_empty() {
        a.cameras.push("sim:street?seed=7".into());
    }
    if a.sinks.is_empty() && a.preview.is_none() {
        a.preview = Some(":8080".into());
    }
    Ok(a)
}

fn run() -> Result<(), Anything> {
    let a = arguments()?;
    let statuses: Arc<Mutex<Vec<Status>>> =
        Arc::new(Mutex::new(vec![status(State::Opening); a.cameras.len()]));
    let counters: Arc<Vec<Counters>> = Arc::new(a.cameras.iter().map(|_| Counters::default()).collect());
    let registry = Registry::new();
    let numbers = PipelineMetrics::new(&registry, &a.cameras)?;
    let preview = a.preview.as_ref().map(|_| Preview::new(a.cameras.len(), PreviewOptions::default()));
    let mut sinks = Vec::new();
    for uri in &a.sinks {
        sinks.push((uri.sink()?, uri.plan(SinkPlan::default())?));
    }
    if let Some(preview) = &preview {
        sinks.push((preview.sink()?, SinkPlan { queue: 4, ..SinkPlan::default() }));
    }
    let sinks = Arc::new(Sinks::start(sinks)?);

    let cameras = Arc::new(Cameras {
        names: a.cameras.clone(),
        statuses: Arc::clone(&statuses),
        counters: Arc::clone(&counters),
        sinks: Arc::clone(&sinks),
    });
    let reports: Arc<dyn Reports> = cameras;
    metrics::report(&registry, &reports);
    let site = Site::new(Arc::clone(&numbers), Arc::new(Health::new()), Arc::clone(&reports), preview);
    let server = match &a.preview {
        Some(at) => Some(Server::start(address(at)?, Limits::default(), Arc::new(Pages(site)))?),
        None => None,
    };
    if let Some(server) = &server {
        eprintln!("preview at http://{}/", server.address());
    }

    let labels = Labels::new(Class::ALL.iter().map(|c| c.name().to_owned()).collect())?;
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    std::thread::scope(|scope| -> Result<(), Anything> {
        let mut threads = Vec::new();
        for (i, camera) in a.cameras.iter().enumerate() {
            let (stop, statuses) = (&stop, &statuses);
            let feed = Feed::new(Arc::clone(&sinks), Arc::clone(&numbers), Some(labels.clone()));
            let counters = &counters[i];
            let trouble = a.trouble && i + 1 == a.cameras.len();
            let fps = a.fps;
            threads.push(scope.spawn(move || -> Result<(), String> {
                let mut camera = Camera::new(i, camera, feed).map_err(|e| e.to_string())?;
                let period = Duration::from_secs_f64(1.0 / fps);
                let mut due = Instant::now();
                while !stop.load(Ordering::Relaxed) {
                    let gone = trouble && start.elapsed().as_secs() % 20 >= 12;
                    set(statuses, i, if gone { State::Reconnecting } else { State::Streaming });
                    if !gone {
                        camera.frame().map_err(|e| e.to_string())?;
                    } else {
                        counters.drop(saltica_pipeline::source::DropReason::Lost, 1);
                    }
                    due = (due + period).max(Instant::now());
                    std::thread::sleep(due - Instant::now());
                }
                Ok(())
            }));
        }
        while start.elapsed().as_secs_f64() < a.seconds && !sinks.all_ended() {
            if threads.iter().any(|t| t.is_finished()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        stop.store(true, Ordering::Relaxed);
        for t in threads {
            t.join().map_err(|_| "a camera's thread failed")??;
        }
        Ok(())
    })?;
    sinks.close(Duration::from_secs(2));
    for r in sinks.reports() {
        let why = r.reason.map(|w| format!(" ({w})")).unwrap_or_default();
        eprintln!("{}: {} taken, {} dropped, {} failed{why}", r.name, r.taken, r.dropped, r.failed);
    }
    drop(server);
    Ok(())
}

/// What is known of the cameras.
struct Cameras {
    names: Vec<String>,
    statuses: Arc<Mutex<Vec<Status>>>,
    counters: Arc<Vec<Counters>>,
    sinks: Arc<Sinks>,
}

impl Reports for Cameras {
    fn sources(&self) -> Vec<SourceReport> {
        let statuses = self.statuses.lock().map(|s| s.clone()).unwrap_or_default();
        let all = self.names.iter().zip(statuses).zip(self.counters.iter()).enumerate();
        all.map(|(i, ((name, status), counters))| SourceReport {
            id: SourceId(i as u32),
            name: name.clone(),
            status,
            counters: counters.snapshot(),
            unanswered: Duration::ZERO,
        })
        .collect()
    }

    fn sinks(&self) -> Vec<SinkReport> {
        self.sinks.reports()
    }
}

fn status(state: State) -> Status {
    let format = FrameFormat::packed(PixelFormat::Rgb8, 640, 360).ok();
    let opened = Some(Opened { format, fps: None, note: "simulated".into() });
    Status { state, since: monotonic(), reason: None, opened, attempts: 0, last_frame: None }
}

fn set(statuses: &Mutex<Vec<Status>>, i: usize, state: State) {
    let Ok(mut all) = statuses.lock() else { return };
    if all[i].state != state {
        all[i] = status(state);
        all[i].reason = (state == State::Reconnecting).then(|| "no such device: unplugged?".into());
    }
}

struct Camera {
    sim: Sim,
    buffer: FrameBuf,
    pool: Arc<Pool>,
    feed: Feed,
    source: SourceId,
    next: u64,
}

impl Camera {
    fn new(i: usize, uri: &str, feed: Feed) -> Result<Self, Anything> {
        Ok(Camera {
            sim: Sim::open(&SimSpec::parse(uri)?)?,
            buffer: FrameBuf::default(),
            pool: Pool::new(2),
            feed,
            source: SourceId(i as u32),
            next: 0,
        })
    }

    fn frame(&mut self) -> Result<(), Anything> {
        let captured = monotonic();
        let truth = self.sim.frame(self.next, &mut self.buffer)?;
        let format = FrameFormat::packed(PixelFormat::Rgb8, self.buffer.width, self.buffer.height)?;
        let mut lease = self.pool.take(format.needed(0), Duration::from_secs(1)).ok_or("no buffer")?;
        lease.bytes_mut().copy_from_slice(&self.buffer.rgb);
        let mut frame = Frame::owned(format, lease, captured)?;
        (frame.id, frame.source) = (self.next, self.source);
        self.next += 1;
        let wanted = self.feed.sinks().wants_picture(self.source, captured);
        self.feed.send(&frame.info(), wanted.then_some(&frame), |r| {
            r.batch = 1;
            r.age = frame.age(monotonic());
            detections(truth, r);
        });
        Ok(())
    }
}

fn detections(truth: &Truth, r: &mut FrameResult) {
    for o in truth.objects.iter().rev().filter(|o| !o.ignore) {
        let b = o.bbox;
        let track = Some(Track { id: o.track, velocity: [o.velocity.0, o.velocity.1] });
        r.objects.push(Object {
            track,
            ..Object::new(o.class.id() as u32, o.visibility, [b.x0, b.y0, b.x1, b.y1])
        });
    }
}
