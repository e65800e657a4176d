//! `saltica run` from outside: results, settings, signals, pages.
//!
//! Times are asserted for one thing only: that a signal ends the program within two seconds, which it forces itself. Those
//! tests wait for each other, so that none takes the machine from another.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use common::schema::Schema;
use common::{command, command_that_heeds_signals, saltica, stderr, stdout};
use saltica::iou;
use saltica_pipeline::source::sim::{FrameBuf, Sim, SimSpec};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ExitStatus, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// Small frames of a bright scene, as fast as they are used.
const SMALL: &str = "sim:street?seed=10&light=day&size=320x180&index=off&pace=off";

fn records(args: &[&str]) -> Vec<Value> {
    let _beside = beside();
    let o = saltica(args);
    assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
    Schema::load().check(&stdout(&o))
}

fn of_type<'a>(all: &'a [Value], kind: &str) -> Vec<&'a Value> {
    all.iter().filter(|r| r["type"] == kind).collect()
}

fn error(args: &[&str]) -> String {
    let o = saltica([&["run"], args].concat());
    assert_eq!(o.status.code(), Some(2), "{}", stderr(&o));
    assert!(o.stdout.is_empty());
    stderr(&o)
}

static MACHINE: RwLock<()> = RwLock::new(());

/// Nothing else runs meanwhile.
fn alone() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().unwrap_or_else(PoisonError::into_inner)
}

/// Others may run beside.
fn beside() -> RwLockReadGuard<'static, ()> {
    MACHINE.read().unwrap_or_else(PoisonError::into_inner)
}

/// A running program whose stderr is read line by line. It ends with the test, and after two minutes in any case.
struct Running {
    child: Child,
    errors: BufReader<ChildStderr>,
    said: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Running {
    fn start(args: &[&str], folder: &Path) -> Running {
        let mut c = command_that_heeds_signals();
        c.arg("run").args(args).current_dir(folder);
        Self::spawn(c)
    }

    fn spawn(mut c: std::process::Command) -> Running {
        let mut child =
            c.args(["--duration", "2m"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        Running { child, errors, said: String::new() }
    }

    /// Reads stderr until a line holds `part`.
    fn until(&mut self, part: &str) -> String {
        loop {
            let mut line = String::new();
            let n = self.errors.read_line(&mut line).unwrap();
            assert!(n > 0, "it ended without {part:?}: {}", self.said);
            self.said += &line;
            if line.contains(part) {
                return line;
            }
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let done = std::process::Command::new("kill").args([name, &pid]).status().unwrap();
        assert!(done.success());
    }

    /// Waits for the end; stdout, all of stderr, and how long it took.
    fn end(mut self) -> (ExitStatus, String, String, Duration) {
        let start = Instant::now();
        let status = self.child.wait().unwrap();
        let took = start.elapsed();
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.errors.read_to_string(&mut self.said).unwrap();
        (status, out, std::mem::take(&mut self.said), took)
    }
}

/// Waits until a file has lines, and gives them.
fn lines_of(path: &Path, least: usize) -> Vec<Value> {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.lines().count() >= least && text.ends_with('\n') {
            return text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        }
        assert!(Instant::now() < end, "{} never had {least} lines", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_frame_of_a_finite_source_has_its_result_in_order() {
    let uri = format!("{SMALL}&first=200&frames=20");
    let all = records(&["run", &uri, "--json", "--batch", "4"]);
    let results = of_type(&all, "result");
    let numbers: Vec<u64> = results.iter().map(|r| r["sequence"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (200..220).collect::<Vec<u64>>());
    assert!(results.iter().enumerate().all(|(i, r)| r["frame_id"] == i));

    // What is there is found: the truth of each frame, drawn here.
    let mut sim =
        Sim::open(&SimSpec::parse("sim:street?seed=10&light=day&size=320x180&index=off").unwrap()).unwrap();
    let mut pixels = FrameBuf::default();
    let (mut there, mut found) = (0, 0);
    for r in &results {
        let truth = sim.frame(r["sequence"].as_u64().unwrap(), &mut pixels).unwrap();
        for o in truth.objects.iter().filter(|o| !o.ignore && o.visibility > 0.6 && o.bbox.area() > 400.0) {
            let b = [o.bbox.x0, o.bbox.y0, o.bbox.x1, o.bbox.y1];
            let same = |d: &Value| {
                let sides: Vec<f32> =
                    d["box"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect();
                d["class"] == o.class.name() && iou(&sides.try_into().unwrap(), &b) >= 0.5
            };
            there += 1;
            found += usize::from(r["detections"].as_array().unwrap().iter().any(same));
        }
    }
    assert!(there >= 40 && found * 10 >= there * 7, "{found} of {there}");

    let run = of_type(&all, "run")[0];
    let s = &run["sources"][0];
    assert_eq!((&s["produced"], &s["answered"], &s["state"]), (&20.into(), &20.into(), &"ended".into()));
    assert_eq!((&s["dropped"], &s["copies_per_frame"]), (&Value::Array(vec![]), &0.0.into()));
    assert_eq!((&run["model"], &run["restarts"]), (&"saltica-nano".into(), &0.into()));
}

#[test]
fn results_do_not_depend_on_the_batch() {
    let uri = format!("{SMALL}&first=205&frames=9");
    let found = |batch: &str| -> Vec<Value> {
        let all = records(&["run", &uri, "--json", "--batch", batch]);
        of_type(&all, "result").iter().map(|r| r["detections"].clone()).collect()
    };
    assert_eq!(found("1"), found("4"));
}

#[test]
fn several_sources_and_one_that_cannot_be_read() {
    let _beside = beside();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("saltica.toml");
    let text = format!(
        "track = true\nscore = 0.3\n[[source]]\nname = \"door\"\nuri = \"{SMALL}&frames=12\"\n\
         [[source]]\nuri = \"file:missing.y4m\"\n\
         [[source]]\nname = \"yard\"\nuri = \"{}&frames=8\"\n",
        SMALL.replace("seed=10", "seed=11").replace("320x180", "200x120")
    );
    std::fs::write(&config, text).unwrap();
    let mut c = command();
    let o = c.args(["run", "--json", "--config"]).arg(&config).current_dir(dir.path()).output().unwrap();
    assert_eq!(o.status.code(), Some(1), "{}", stderr(&o));
    let all = Schema::load().check(&stdout(&o));
    let of = |name: &str| of_type(&all, "result").iter().filter(|r| r["source"] == name).count();
    assert_eq!((of("door"), of("yard"), of("file:missing.y4m")), (12, 8, 0));
    let sources = &of_type(&all, "run")[0]["sources"];
    assert_eq!((&sources[0]["answered"], &sources[2]["answered"]), (&12.into(), &8.into()));
    let why = sources[1]["error"].as_str().unwrap();
    assert!(why.contains("missing.y4m"), "{why}");
    let tracked = |r: &&Value| r["detections"].as_array().unwrap().iter().any(|d| d["track_id"].is_u64());
    assert!(of_type(&all, "result").iter().any(tracked), "something is followed");
    // Alone, it is all there was.
    let o = command().args(["run", "file:missing.y4m"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(o.status.code(), Some(2), "{}", stderr(&o));
}

#[test]
fn mistakes_are_told_and_nothing_runs() {
    assert!(error(&[]).contains("no source is given"));
    assert!(error(&["sin:street"]).contains("did you mean 'sim'"));
    assert!(error(&["sim:street", "--score", "2"]).contains("a number from 0 to 1 expected"));
    assert!(error(&["sim:street", "--scroe", "0.2"]).contains("--score"));
    assert!(error(&["sim:street", "--sink", "jsno:-"]).contains("did you mean 'json'"));
    assert!(error(&["sim:street", "--model", "saltica-nona"]).contains("saltica-nano"));
    assert!(error(&["sim:street", "--classes", "unicorn"]).contains("unicorn"));
    assert!(error(&["sim:street", "--preview", "street"]).contains("address"));
    assert!(error(&["sim:street?step=2"]).contains("step"));
    assert!(error(&["--config", "/nonexistent/saltica.toml"]).contains("/nonexistent/saltica.toml"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.toml");
    for (text, want) in [
        ("sources = [\"sim:street\"]\ntreshold = 1", "c.toml:2: unknown key 'treshold'"),
        ("batch = \"4\"", "c.toml:1: key 'batch': a text found, a whole number from 1 to 64 expected"),
        ("[[source]]\nuri = \"sim:street?sede=1\"", "c.toml:2: "),
    ] {
        std::fs::write(&path, text).unwrap();
        let e = error(&["--config", path.to_str().unwrap()]);
        assert!(e.contains(want), "{e}");
    }
}

#[test]
fn settings_are_shown_with_where_they_come_from_and_without_passwords() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.toml");
    let text = "score = 0.4\nnms = 0.5\nsources = [\"rtsp://me:hunter2@host/s\"]\nsinks = [\"mqtt://me:hunter2@host/t\"]\n";
    std::fs::write(&path, text).unwrap();
    let o = saltica(["run", "--config", path.to_str().unwrap(), "--score", "0.6", "--print-config"]);
    let shown = stdout(&o);
    assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
    assert!(!shown.contains("hunter2"), "{shown}");
    let line = |key: &str| {
        shown.lines().find(|l| l.starts_with(key)).unwrap_or_else(|| panic!("{key}: {shown}")).to_owned()
    };
    assert!(line("score").starts_with("score = 0.6 ") && line("score").ends_with("# command line"));
    assert!(line("nms").ends_with("c.toml:2"), "{}", line("nms"));
    assert!(line("batch").ends_with("# default"));
    // Nor when it fails.
    for args in [
        &["rtsp://me:hunter2@host/s#latncy=1"][..],
        &["sim:street", "--sink", "mqtt://me:hunter2@host/t?qso=1"],
        &["sim:street", "--sink", "mqtt://me:hunter2@host/t?qos=7"],
    ] {
        let e = error(args);
        assert!(!e.contains("hunter2"), "{e}");
    }
}

#[test]
fn it_ends_by_itself_when_told_to() {
    let all = records(&["run", SMALL, "--json", "--max-frames", "5"]);
    let _beside = beside();
    assert_eq!(of_type(&all, "result").len(), 5);
    assert!(of_type(&all, "run")[0]["sources"][0]["answered"].as_u64().unwrap() >= 5);
    // A camera that would go on for ever.
    let o = saltica(["run", "sim:street?size=160x96&fps=20", "--duration", "300ms"]);
    assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
    assert!(stdout(&o).contains("produced") && stdout(&o).contains(" results in "), "{}", stdout(&o));
    let o = saltica(["run", SMALL, "--max-frames", "2", "--batch", "1", "--quiet"]);
    assert_eq!((o.status.code(), stdout(&o)), (Some(0), String::new()));
    // A machine that hardly runs may have to leave a thread behind, and is told so.
    assert!(stderr(&o).lines().all(|l| l.contains("left behind")), "{}", stderr(&o));
}

#[test]
fn who_reads_no_further_ends_it() {
    let _beside = beside();
    let mut c = command();
    let mut child =
        c.args(["run", SMALL, "--json"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    drop(out);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// The sources that neither open nor give anything, and one that works.
fn with_frozen(dir: &Path) -> (PathBuf, Running) {
    let out = dir.join("out.jsonl");
    let sink = format!("json:{}", out.display());
    let args = [
        "v4l2:///dev/nothing",
        "pipe:exec:sleep 1000?format=rgb&size=64x48",
        "sim:street?size=160x96&fps=20",
        "--sink",
        &sink,
    ];
    let running = Running::start(&args, dir);
    lines_of(&out, 3);
    (out, running)
}

#[test]
fn a_signal_ends_it_in_two_seconds_also_with_a_frozen_source() {
    let _alone = alone();
    for signal in ["-TERM", "-INT"] {
        let dir = tempfile::tempdir().unwrap();
        let (out, running) = with_frozen(dir.path());
        running.signal(signal);
        let (status, summary, said, took) = running.end();
        assert_eq!(status.code(), Some(0), "{said}");
        assert!(took < Duration::from_secs(2), "{took:?}: {said}");
        assert!(summary.contains("v4l2:///dev/nothing") && summary.contains("answered"), "{summary}");
        let text = std::fs::read_to_string(out).unwrap();
        assert!(text.ends_with('\n'), "the last line is whole");
    }
}

#[test]
fn a_second_interrupt_ends_it_at_once() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (_, running) = with_frozen(dir.path());
    running.signal("-INT");
    running.signal("-INT");
    let (status, _, said, took) = running.end();
    assert!(matches!(status.code(), Some(0 | 130)), "{status}: {said}");
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn the_service_manager_is_told() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let mut c = command_that_heeds_signals();
    c.args(["run", "sim:street?size=160x96&fps=20"])
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "2000000");
    let running = Running::spawn(c);
    let mut buffer = [0; 500];
    let mut next = || {
        let n = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..n]).into_owned()
    };
    let mut said = || std::iter::repeat_with(&mut next).find(|m| !m.starts_with("STATUS=")).unwrap();
    assert_eq!(said(), "READY=1");
    assert_eq!(said(), "WATCHDOG=1");
    running.signal("-TERM");
    while next() != "STOPPING=1" {}
    assert_eq!(running.end().0.code(), Some(0));
}

#[test]
fn the_configuration_is_read_again_and_a_broken_one_refused() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let write = |text: &str| std::fs::write(at("c.toml"), text).unwrap();
    let camera = "[[source]]\nname = \"a\"\nuri = \"sim:street?size=160x96&fps=20\"\n";
    write(&format!("score = 0.9\n{camera}[[sink]]\nuri = \"json:one.jsonl\"\n"));
    let mut running = Running::start(&["--config", "c.toml"], dir.path());
    lines_of(&at("one.jsonl"), 2);

    write("score = \"high\"\n");
    running.signal("-HUP");
    let refused = running.until("refused");
    assert!(refused.contains("c.toml:1: key 'score'"), "{refused}");
    let before = lines_of(&at("one.jsonl"), 2).len();
    lines_of(&at("one.jsonl"), before + 2);

    // A threshold alone changes on the fly: frame numbers go on.
    write(&format!("score = 0.05\n{camera}[[sink]]\nuri = \"json:one.jsonl\"\n"));
    running.signal("-HUP");
    assert!(running.until("read again").contains("score"));
    let all = lines_of(&at("one.jsonl"), lines_of(&at("one.jsonl"), 1).len() + 3);
    let numbers: Vec<u64> = all.iter().map(|r| r["frame_id"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let lowest =
        |r: &Value| r["detections"].as_array().unwrap().iter().all(|d| d["score"].as_f64().unwrap() > 0.9);
    assert!(all[..2].iter().all(lowest));

    // Another source and another sink: the pipeline is rebuilt.
    let more = "[[source]]\nname = \"b\"\nuri = \"sim:street?size=200x120&fps=20&seed=3\"\n";
    write(&format!("score = 0.05\n{camera}{more}[[sink]]\nuri = \"json:two.jsonl\"\n"));
    running.signal("-HUP");
    assert!(running.until("read again").contains("sources or sinks"));
    let end = Instant::now() + Duration::from_secs(120);
    while !lines_of(&at("two.jsonl"), 1).iter().any(|r| r["source"] == "b") {
        assert!(Instant::now() < end, "source b never gave a result");
        std::thread::sleep(Duration::from_millis(50));
    }

    running.signal("-TERM");
    let (status, summary, said, _) = running.end();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(
        summary.lines().any(|l| l.starts_with("a ")) && summary.lines().any(|l| l.starts_with("b ")),
        "{summary}"
    );
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn pages_are_served_while_it_runs() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let args = ["sim:street?size=160x96&fps=20&name=gate", "--preview", ":0", "--sink", "json:out.jsonl"];
    let mut running = Running::start(&args, dir.path());
    let line = running.until("preview at http://");
    let address = line.trim().trim_end_matches('/').rsplit('/').next().unwrap().to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    lines_of(&dir.path().join("out.jsonl"), 3);
    assert!(get(&address, "/").starts_with("HTTP/1.1 200"));
    let metrics = get(&address, "/metrics");
    for part in [
        "saltica_results_total{source_id=\"0\",source=\"gate\"}",
        "saltica_frame_age_seconds",
        "saltica_batch_cap",
    ] {
        assert!(metrics.contains(part), "{part}: {metrics}");
    }
    let health = get(&address, "/health");
    assert!(health.starts_with("HTTP/1.1 200") && health.contains("\"working\":true"), "{health}");
    assert!(get(&address, "/api/status").contains("\"source\":\"gate\""));
    running.signal("-TERM");
    assert_eq!(running.end().0.code(), Some(0));
    assert!(TcpStream::connect(&address).is_err(), "nobody listens any more");
}
