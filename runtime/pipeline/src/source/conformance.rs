//! What every source must do under its supervisor: start, survive damage, stall, vanish, return, stop.
//!
//! A [`Rig`] is a source with a hand on what feeds it. To add a source: one rig.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use saltica_tensor::PixelFormat;

use super::jpeg::tests::jpeg;
use super::options::Options;
use super::v4l2::V4l2Source;
use super::v4l2::fake::{Fake, Model, Step};
use super::{Backoff, DropReason, Next, Opened, Plan, Source, SourceUri, State, Supervisor};
use crate::frame::{Frame, FrameFormat, Pool, SourceId, lock, monotonic};
use crate::ring::{Bell, Keep};
use crate::{Error, ErrorKind, Result};

const LONG: Duration = Duration::from_secs(30);

/// A source and what feeds it.
trait Rig {
    fn source(&mut self) -> Box<dyn Source>;
    /// A good frame comes.
    fn good(&mut self);
    /// A damaged one comes; why it is dropped. None: this kind cannot be damaged.
    fn damaged(&mut self) -> Option<DropReason>;
    /// The device or writer goes. False: this kind cannot go.
    fn vanish(&mut self) -> bool;
    /// It comes back.
    fn come_back(&mut self);
}

fn plan() -> Plan {
    Plan {
        keep: Keep::All,
        stall: Duration::from_millis(400),
        backoff: Backoff { first: Duration::from_millis(5), most: Duration::from_millis(20), jitter: 0.5 },
        ..Plan::default()
    }
}

struct Run {
    supervisor: Supervisor,
    next: u64,
}

impl Run {
    fn start(rig: &mut dyn Rig, plan: Plan) -> Run {
        let supervisor = Supervisor::start(rig.source(), SourceId(3), "rig", plan, Bell::new()).unwrap();
        Run { supervisor, next: 0 }
    }

    fn until(&self, what: &str, done: impl Fn(&Supervisor) -> bool) {
        let start = Instant::now();
        while !done(&self.supervisor) {
            let s = &self.supervisor;
            assert!(start.elapsed() < LONG, "{what}: {:?} {:?}", s.status(), s.counters());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The next frame, whose number must be the next one.
    fn frame(&mut self, what: &str) {
        let s = &self.supervisor;
        let frame =
            s.ring().pop(LONG).unwrap_or_else(|| panic!("{what}: {:?} {:?}", s.status(), s.counters()));
        assert_eq!((frame.id, frame.source), (self.next, SourceId(3)), "{what}");
        assert_eq!(frame.copies(), 0);
        self.next += 1;
    }

    fn stop(self) {
        let (ring, start) = (Arc::clone(self.supervisor.ring()), Instant::now());
        assert!(self.supervisor.stop(), "it did not stop in time");
        assert!(start.elapsed() < Duration::from_secs(2) && ring.is_closed() && ring.is_empty());
    }
}

fn conforms(name: &str, rig: &mut dyn Rig) {
    let mut run = Run::start(rig, plan());
    for _ in 0..5 {
        rig.good();
        run.frame(name);
    }
    assert_eq!(run.supervisor.status().state, State::Streaming, "{name}");
    if let Some(reason) = rig.damaged() {
        run.until(name, |s| s.counters().dropped(reason) == 1);
        rig.good();
        run.frame(name);
    }
    // Silence: first visible, then a reason to open it anew; frames that come after that are taken.
    run.until(name, |s| s.status().state == State::Stalled);
    run.until(name, |s| s.counters().stalls > 0);
    run.until(name, |s| s.counters().opened > 1 && s.status().state != State::Reconnecting);
    rig.come_back();
    rig.good();
    run.frame(name);
    run.until(name, |s| s.status().state == State::Streaming && s.status().reason.is_none());
    let opened = run.supervisor.counters().opened;
    if rig.vanish() {
        run.until(name, |s| s.counters().failures > 0);
        run.until(name, |s| s.status().reason.is_some() || s.counters().opened > opened);
        rig.come_back();
        rig.good();
        run.frame(name);
        assert!(run.supervisor.counters().opened > opened, "{name}");
    }
    // Stopped while frames wait in the ring: they are given back and counted.
    rig.good();
    run.until(name, |s| !s.ring().is_empty());
    run.stop();
    // Stopped while it waits to be opened again, with a pause far beyond the time for stopping.
    if rig.vanish() {
        let mut long = plan();
        long.backoff.first = Duration::from_secs(3600);
        long.backoff.most = long.backoff.first;
        let run = Run::start(rig, long);
        // A pipe without a writer is open, and then stalls; a device that is gone is not.
        run.until(name, |s| s.status().state == State::Reconnecting);
        run.stop();
    }
}

/// A source that does what it is told.
#[derive(Debug)]
struct Told {
    orders: Arc<Mutex<Receiver<Order>>>,
    there: Arc<AtomicBool>,
    pool: Arc<Pool>,
    number: u64,
}

#[derive(Debug)]
enum Order {
    Frame,
    Damaged,
    Fail,
    Panic,
}

impl Source for Told {
    fn open(&mut self, _: Duration) -> Result<Opened> {
        if !self.there.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Gone, "not there"));
        }
        Ok(Opened { format: None, fps: None, note: "as told".into() })
    }

    fn next(&mut self, wait: Duration) -> Result<Next> {
        match lock(&self.orders).recv_timeout(wait) {
            Ok(Order::Frame) => {
                let format = FrameFormat::packed(PixelFormat::Gray8, 2, 2)?;
                let Some(lease) = self.pool.take(4, Duration::ZERO) else { return Ok(Next::Busy) };
                let mut frame = Frame::owned(format, lease, monotonic())?;
                frame.sequence = self.number;
                self.number += 1;
                Ok(Next::Frame(frame))
            }
            Ok(Order::Damaged) => {
                self.number += 1;
                Ok(Next::Dropped(DropReason::Decode))
            }
            Ok(Order::Fail) => Err(Error::new(ErrorKind::Gone, "told to fail")),
            Ok(Order::Panic) => panic!("told to panic"),
            Err(_) => Ok(Next::Nothing),
        }
    }

    fn close(&mut self) {}
}

struct ToldRig {
    sender: Sender<Order>,
    orders: Arc<Mutex<Receiver<Order>>>,
    there: Arc<AtomicBool>,
    fail: fn() -> Order,
}

impl ToldRig {
    fn new(fail: fn() -> Order) -> ToldRig {
        let (sender, orders) = channel();
        ToldRig { sender, orders: Arc::new(Mutex::new(orders)), there: Arc::new(AtomicBool::new(true)), fail }
    }
}

impl Rig for ToldRig {
    fn source(&mut self) -> Box<dyn Source> {
        Box::new(Told {
            orders: Arc::clone(&self.orders),
            there: Arc::clone(&self.there),
            pool: Pool::new(4),
            number: 0,
        })
    }
    fn good(&mut self) {
        self.sender.send(Order::Frame).unwrap();
    }
    fn damaged(&mut self) -> Option<DropReason> {
        self.sender.send(Order::Damaged).unwrap();
        Some(DropReason::Decode)
    }
    fn vanish(&mut self) -> bool {
        self.there.store(false, Ordering::Release);
        self.sender.send((self.fail)()).unwrap();
        true
    }
    fn come_back(&mut self) {
        self.there.store(true, Ordering::Release);
    }
}

#[test]
fn a_source_that_fails() {
    conforms("told", &mut ToldRig::new(|| Order::Fail));
}

#[test]
fn a_source_whose_code_panics() {
    conforms("panics", &mut ToldRig::new(|| Order::Panic));
}

/// A camera on a fake driver.
struct CameraRig {
    model: Model,
    bytes: Option<(Vec<u8>, u32)>,
    there: Arc<AtomicBool>,
    fakes: Arc<Mutex<Vec<Arc<Fake>>>>,
    open: Arc<AtomicU32>,
}

impl CameraRig {
    fn new(code: &[u8; 4], bytes: Option<Vec<u8>>) -> CameraRig {
        let model = Model { formats: vec![(super::v4l2::code(code), vec![(64, 48)])], ..Model::default() };
        CameraRig {
            model,
            bytes: bytes.map(|b| (b.clone(), b.len() as u32)),
            there: Arc::new(AtomicBool::new(true)),
            fakes: Arc::default(),
            open: Arc::default(),
        }
    }

    fn step(&self, step: Step) {
        let start = Instant::now();
        loop {
            if let Some(fake) = lock(&self.fakes).last() {
                fake.then(step);
                return;
            }
            assert!(start.elapsed() < LONG);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Rig for CameraRig {
    fn source(&mut self) -> Box<dyn Source> {
        let (fakes, there, open) = (Arc::clone(&self.fakes), Arc::clone(&self.there), Arc::clone(&self.open));
        let model = self.model.clone();
        lock(&fakes).clear();
        let opener = move || {
            if !there.load(Ordering::Acquire) {
                return Err(std::io::Error::from_raw_os_error(libc::ENOENT));
            }
            let fake = Fake::new(model.clone(), Vec::new(), &open);
            lock(&fakes).push(Arc::clone(&fake));
            Ok(fake as Arc<dyn super::v4l2::Driver>)
        };
        let o = Options { size: Some((64, 48)), buffers: Some(4), ..Options::default() };
        Box::new(V4l2Source::with("/dev/fake".into(), o, Box::new(opener)))
    }
    fn good(&mut self) {
        self.step(match &self.bytes {
            Some((bytes, used)) => Step::Bytes(bytes.clone(), *used),
            None => Step::Frame(7),
        });
    }
    fn damaged(&mut self) -> Option<DropReason> {
        match &self.bytes {
            Some((bytes, used)) => {
                self.step(Step::Bytes(bytes.clone(), used / 2));
                Some(DropReason::NoEndMarker)
            }
            None => {
                self.step(Step::Used(100));
                Some(DropReason::Truncated)
            }
        }
    }
    fn vanish(&mut self) -> bool {
        self.there.store(false, Ordering::Release);
        if let Some(fake) = lock(&self.fakes).last() {
            fake.then(Step::Fail(libc::ENODEV));
        }
        true
    }
    fn come_back(&mut self) {
        if !self.there.load(Ordering::Acquire) {
            // What was open is of no use any more: good frames come from the next one.
            lock(&self.fakes).clear();
            self.there.store(true, Ordering::Release);
        }
    }
}

#[test]
fn a_camera() {
    let mut rig = CameraRig::new(b"YUYV", None);
    conforms("v4l2", &mut rig);
    lock(&rig.fakes).clear();
    assert_eq!(rig.open.load(Ordering::Relaxed), 0, "every device that was opened is closed");
}

#[test]
fn a_camera_that_gives_jpegs() {
    conforms("v4l2 mjpeg", &mut CameraRig::new(b"MJPG", Some(jpeg(64, 48, 5))));
}

/// A named pipe that something writes frames into.
struct PipeRig {
    _folder: tempfile::TempDir,
    path: PathBuf,
    options: &'static str,
    header: Vec<u8>,
    frame: Vec<u8>,
    damage: Option<(Vec<u8>, DropReason)>,
    writer: Option<File>,
}

impl PipeRig {
    fn new(
        options: &'static str,
        header: &[u8],
        frame: Vec<u8>,
        damage: Option<(Vec<u8>, DropReason)>,
    ) -> PipeRig {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        PipeRig { _folder: folder, path, options, header: header.to_vec(), frame, damage, writer: None }
    }

    /// A new writer begins with a header, as ffmpeg would.
    fn write(&mut self, bytes: &[u8]) {
        if self.writer.is_none() {
            let mut file = std::fs::OpenOptions::new().write(true).open(&self.path).unwrap();
            file.write_all(&self.header).unwrap();
            self.writer = Some(file);
        }
        self.writer.as_mut().unwrap().write_all(bytes).unwrap();
    }
}

impl Rig for PipeRig {
    fn source(&mut self) -> Box<dyn Source> {
        SourceUri::parse(&format!("pipe:{}{}", self.path.display(), self.options)).unwrap().source().unwrap()
    }
    fn good(&mut self) {
        let frame = self.frame.clone();
        self.write(&frame);
    }
    fn damaged(&mut self) -> Option<DropReason> {
        let (bytes, reason) = self.damage.clone()?;
        self.write(&bytes);
        Some(reason)
    }
    fn vanish(&mut self) -> bool {
        self.writer = None;
        true
    }
    fn come_back(&mut self) {
        // After a stall the reader has opened the pipe anew: a writer starts from its header.
        self.writer = None;
    }
}

#[test]
fn a_pipe_of_y4m() {
    let frame = [b"FRAME\n".to_vec(), vec![9; 36]].concat();
    conforms("y4m", &mut PipeRig::new("", b"YUV4MPEG2 W6 H4 F25:1 C420\n", frame, None));
}

#[test]
fn a_pipe_of_raw_frames() {
    conforms("raw", &mut PipeRig::new("?size=6x4&format=nv12", b"", vec![3; 36], None));
}

#[test]
fn a_pipe_of_jpegs() {
    let good = jpeg(32, 32, 3);
    let mut cut = good[..good.len() - 30].to_vec();
    // It shows that a picture was cut off when the next one begins.
    cut.extend(&good[..20]);
    let mut whole = cut.clone();
    whole.truncate(good.len() - 30);
    // The cut picture, then the next: the reader drops the first and waits for the rest of the second, which `good` is not;
    // so the damage is sent together with a whole picture's start and completed by it.
    let damage = (whole, DropReason::NoEndMarker);
    let mut rig = PipeRig::new("", b"", good, Some(damage));
    // The drop is seen with the next picture only: `conforms` asks for it before, so send it along.
    let mut run = Run::start(&mut rig, plan());
    rig.good();
    run.frame("jpegs");
    assert!(rig.damaged().is_some());
    rig.good();
    run.frame("jpegs");
    assert_eq!(run.supervisor.counters().dropped(DropReason::NoEndMarker), 1);
    run.stop();
    rig.come_back();
    rig.damage = None;
    conforms("jpegs", &mut rig);
}

/// A file or folder that is not there yet, or goes.
#[test]
fn files_that_vanish_and_return() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clip.y4m");
    let clip =
        [b"YUV4MPEG2 W6 H4 F25:1\n".to_vec(), [b"FRAME\n".to_vec(), vec![9; 36]].concat().repeat(3)].concat();
    let start = |uri: &str| {
        let uri = SourceUri::parse(uri).unwrap();
        let plan = Plan { retry: uri.plan().retry, keep: uri.plan().keep, ..plan() };
        Run {
            supervisor: Supervisor::start(uri.source().unwrap(), SourceId(3), "file", plan, Bell::new())
                .unwrap(),
            next: 0,
        }
    };
    // A missing file is the end, at once; with retry=on it is waited for.
    let run = start(&path.display().to_string());
    run.until("the end", Supervisor::is_finished);
    assert!(run.supervisor.status().reason.unwrap().contains("clip.y4m: No such file"));
    let mut run = start(&format!("file:{}?retry=on", path.display()));
    run.until("an attempt", |s| s.counters().failures > 2);
    let half = folder.path().join("half");
    std::fs::write(&half, &clip).unwrap();
    std::fs::rename(&half, &path).unwrap();
    run.frame("the file is there");
    // Removed while it is read: what is open stays readable.
    std::fs::remove_file(&path).unwrap();
    run.frame("removed");
    run.frame("removed");
    run.until("the end", Supervisor::is_finished);
    assert_eq!(run.supervisor.status().state, State::Ended);
    assert_eq!(run.supervisor.counters().all_dropped(), 0);
    // A recording that somebody cuts off while it is read.
    std::fs::write(&path, &clip).unwrap();
    let mut run = start(&format!("file:{}?queue=1&buffers=2", path.display()));
    run.until("a frame", |s| !s.ring().is_empty());
    File::options().write(true).open(&path).unwrap().set_len(clip.len() as u64 - 10).unwrap();
    run.frame("cut");
    run.frame("cut");
    run.until("the end", Supervisor::is_finished);
    assert_eq!(run.supervisor.counters().dropped(DropReason::Truncated), 1);
}

#[test]
fn the_simulated_camera_starts_and_stops() {
    let uri = SourceUri::parse("sim:empty?size=160x96&noise=0&fps=200&keep=all").unwrap();
    let s =
        Supervisor::start(uri.source().unwrap(), SourceId(3), uri.name(), uri.plan(), Bell::new()).unwrap();
    let mut run = Run { supervisor: s, next: 0 };
    let mut sequence = None;
    for _ in 0..20 {
        let f = run.supervisor.ring().pop(LONG).unwrap();
        assert!(sequence < Some(f.sequence), "the simulated time goes on");
        sequence = Some(f.sequence);
        run.next += 1;
    }
    run.stop();
}

/// One never opens (its call hangs), one cannot be opened, one vanishes and returns, one freezes: the healthy one misses
/// nothing, and stopping does not wait for the one that hangs.
#[test]
fn a_healthy_source_misses_nothing_whatever_the_others_do() {
    #[derive(Debug)]
    struct Hangs(Arc<AtomicBool>);
    impl Source for Hangs {
        fn open(&mut self, _: Duration) -> Result<Opened> {
            // As a driver's call that does not return.
            while !self.0.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(Error::new(ErrorKind::Gone, "released"))
        }
        fn next(&mut self, _: Duration) -> Result<Next> {
            Ok(Next::Nothing)
        }
        fn close(&mut self) {}
    }
    let released = Arc::new(AtomicBool::new(false));
    let bell = Bell::new();
    let begin = |source: Box<dyn Source>, id: u32, plan: Plan| {
        Supervisor::start(source, SourceId(id), format!("source {id}"), plan, Arc::clone(&bell)).unwrap()
    };
    let mut hasty = plan();
    hasty.open_within = Duration::from_millis(20);
    let hangs = begin(Box::new(Hangs(Arc::clone(&released))), 0, hasty);
    let (mut closed, mut comes, mut freezes, mut healthy) = (
        ToldRig::new(|| Order::Fail),
        ToldRig::new(|| Order::Fail),
        ToldRig::new(|| Order::Fail),
        ToldRig::new(|| Order::Fail),
    );
    closed.there.store(false, Ordering::Release);
    let never = begin(closed.source(), 1, plan());
    let back = begin(comes.source(), 2, plan());
    let frozen = begin(freezes.source(), 3, plan());
    let good = begin(healthy.source(), 4, plan());
    let produced = Arc::new(AtomicU64::new(0));
    let feeder = {
        let (produced, send) = (Arc::clone(&produced), healthy.sender.clone());
        std::thread::spawn(move || {
            for _ in 0..1000 {
                send.send(Order::Frame).unwrap();
                produced.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(700));
            }
        })
    };
    comes.good();
    freezes.good();
    let mut ids = Vec::new();
    let start = Instant::now();
    while ids.len() < 1000 {
        assert!(start.elapsed() < LONG, "{} frames: {:?}", ids.len(), good.status());
        let rung = bell.count();
        match ids.len() {
            150 => drop(comes.vanish()),
            600 => comes.come_back(),
            _ => {}
        }
        while let Some(f) = good.ring().try_pop() {
            ids.push(f.id);
            if matches!(ids.len(), 150 | 600) {
                break;
            }
        }
        bell.wait(rung, Duration::from_millis(2));
    }
    feeder.join().unwrap();
    assert_eq!(ids, (0..1000).collect::<Vec<u64>>());
    let c = good.counters();
    assert_eq!((c.all_dropped(), c.opened, c.failures, c.stalls), (0, 1, 0, 0));
    // The others are what they should be.
    let wait = |s: &Supervisor, state: State| {
        let start = Instant::now();
        while s.status().state != state {
            assert!(start.elapsed() < LONG, "{:?}", s.status());
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait(&hangs, State::Stalled);
    assert!(hangs.status().reason.unwrap().contains("opening it has not returned"));
    assert!(never.counters().failures > 2 && never.counters().opened == 0);
    wait(&never, State::Reconnecting);
    comes.good();
    wait(&back, State::Streaming);
    assert!(back.counters().opened > 1);
    let start = Instant::now();
    while frozen.counters().stalls == 0 {
        assert!(start.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(never.stop() && back.stop() && frozen.stop() && good.stop());
    assert!(!hangs.stop(), "it hangs, and is left behind");
    released.store(true, Ordering::Release);
}
