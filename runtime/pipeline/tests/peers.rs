//! Sinks against the programs they are made for: a real MQTT broker (mosquitto) and Prometheus' own parser.
//!
//! Tests whose program is not installed are reported as ignored; with `CI=true` they fail, since `.ci/run` installs it
//! (it says with `SALTICA_NO_PEERS` where it cannot). mosquitto and openssl are Debian packages; the parser is the Python package `prometheus_client`, found by `python3` or
//! in the folder that `SALTICA_PROMETHEUS_CLIENT` names.

#![allow(clippy::unwrap_used, clippy::panic)] // a suite of tests

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use saltica_pipeline::sink::metrics::{self, PipelineMetrics, Registry};
use saltica_pipeline::sink::{Flow, FrameResult, Object, Sink, SinkUri, Track};
use serde_json::Value;
use tempfile::TempDir;

fn main() -> std::process::ExitCode {
    let is = |key: &str, value: &str| std::env::var_os(key).is_some_and(|v| v == value);
    let ci = is("CI", "true") && !is("SALTICA_NO_PEERS", "1");
    let broker = match (program("mosquitto"), program("mosquitto_sub"), program("openssl")) {
        (Some(_), Some(_), Some(_)) => Ok(()),
        _ => Err("needs the programs mosquitto, mosquitto_sub and openssl"),
    };
    let parser = match python(&["-c", "import prometheus_client.parser"]).status() {
        Ok(s) if s.success() => Ok(()),
        _ => Err("needs Python's prometheus_client"),
    };
    type Test = (&'static str, Result<(), &'static str>, fn());
    let tests: [Test; 7] = [
        ("results_reach_a_broker", broker, results_reach_a_broker),
        ("results_reach_a_broker_over_tls", broker, results_reach_a_broker_over_tls),
        ("a_broker_that_is_not_trusted_gets_nothing", broker, a_broker_that_is_not_trusted_gets_nothing),
        ("a_wrong_password_is_said_and_not_shown", broker, a_wrong_password_is_said_and_not_shown),
        ("a_broker_that_vanishes_and_returns", broker, a_broker_that_vanishes_and_returns),
        ("a_silent_connection_is_kept_alive", broker, a_silent_connection_is_kept_alive),
        ("prometheus_reads_the_metrics", parser, prometheus_reads_the_metrics),
    ];
    let trials = tests
        .into_iter()
        .map(|(name, there, test)| match there {
            Err(why) => {
                eprintln!("{}: {name} {why}", if ci { "fails" } else { "ignored" });
                Trial::test(name, move || Err(Failed::from(why))).with_ignored_flag(!ci)
            }
            Ok(()) => Trial::test(name, move || {
                test();
                Ok(())
            }),
        })
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Where a program is: brokers stand in `sbin`, which is not in everybody's path.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|f| f.join(name)).find(|p| p.is_file())
}

fn python(args: &[&str]) -> Command {
    let mut c = Command::new("python3");
    c.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(folder) = std::env::var_os("SALTICA_PROMETHEUS_CLIENT") {
        c.env("PYTHONPATH", folder);
    }
    c
}

/// A broker of this test alone; ends with it.
struct Broker {
    folder: TempDir,
    port: u16,
    tls: bool,
    process: Option<Child>,
}

const USER: &str = "camera";
const PASSWORD: &str = "hunter2 with spaces";

impl Broker {
    fn start(tls: bool) -> Broker {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let made = Command::new(program("mosquitto_passwd").unwrap())
            .args(["-b", "-c", &at("passwords"), USER, PASSWORD])
            .status()
            .unwrap();
        assert!(made.success());
        let mut config = format!(
            "listener {port} 127.0.0.1\nallow_anonymous false\npassword_file {}\npersistence false\n",
            at("passwords")
        );
        if tls {
            certificates(folder.path());
            config += &format!("certfile {}\nkeyfile {}\n", at("server.pem"), at("server.key"));
        }
        // Started by root it becomes another user, who could not read the test's files.
        config += "user root\n";
        std::fs::write(at("config"), config).unwrap();
        let mut broker = Broker { folder, port, tls, process: None };
        broker.run();
        broker
    }

    fn run(&mut self) {
        let process = Command::new(program("mosquitto").unwrap())
            .arg("-c")
            .arg(self.folder.path().join("config"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        self.process = Some(process);
        wait_for("the broker to listen", || TcpStream::connect(("127.0.0.1", self.port)).is_ok());
    }

    fn stop(&mut self) {
        if let Some(mut p) = self.process.take() {
            p.kill().unwrap();
            p.wait().unwrap();
        }
    }

    fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A subscriber to everything below `topic`: lines of topic, tab, message.
    fn subscribe(&self, topic: &str) -> Subscriber {
        let mut c = Command::new(program("mosquitto_sub").unwrap());
        c.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-u", USER, "-P", PASSWORD]);
        c.args(["-t", topic, "-q", "1", "-F", "%t\t%r\t%p"]);
        if self.tls {
            c.args(["--cafile", &self.ca().display().to_string(), "--insecure"]);
        }
        let mut process = c.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        Subscriber { process, lines }
    }

    fn uri(&self, password: &str, more: &str) -> String {
        let password = password.replace(' ', "%20");
        match self.tls {
            false => format!("mqtt://{USER}:{password}@127.0.0.1:{}/site/cam?{more}", self.port),
            true => {
                format!(
                    "mqtts://{USER}:{password}@127.0.0.1:{}/site/cam?ca={}&{more}",
                    self.port,
                    self.ca().display()
                )
            }
        }
    }

    fn sink(&self, more: &str) -> Box<dyn Sink> {
        SinkUri::parse(&self.uri(PASSWORD, more)).unwrap().sink().unwrap()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// An authority and a server's certificate for 127.0.0.1, signed by it.
fn certificates(folder: &Path) {
    let openssl = |args: &[&str]| {
        let out = Command::new("openssl").current_dir(folder).args(args).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    };
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let ca =
        ["req", "-x509", "-subj", "/CN=test authority", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem"];
    openssl(&[&ca[..], &key[..]].concat());
    let request = ["req", "-subj", "/CN=broker", "-keyout", "server.key", "-out", "server.csr"];
    openssl(&[&request[..], &key[..]].concat());
    std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n").unwrap();
    openssl(&[
        "x509",
        "-req",
        "-in",
        "server.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "2",
        "-extfile",
        "names",
        "-out",
        "server.pem",
    ]);
}

struct Subscriber {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Subscriber {
    /// Topic, whether it was retained, and message.
    fn next(&mut self) -> (String, bool, String) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let mut parts = line.trim_end().splitn(3, '\t').map(String::from);
        let mut part = || parts.next().unwrap_or_else(|| panic!("'{line}'"));
        (part(), part() == "1", part())
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn result(source: u32, frame: u64) -> FrameResult {
    let mut r = FrameResult { frame, source_name: "front".into(), ..FrameResult::default() };
    r.source.0 = source;
    let track = Some(Track { id: 3, velocity: [1.0, 2.0] });
    r.objects.push(Object { track, ..Object::new(0, 0.5, [1.0, 2.0, 3.0, 4.0]) });
    r
}

/// Connects, and waits until a subscriber of its own hears it: a subscription takes a moment.
fn heard(broker: &Broker, sink: &mut dyn Sink, topic: &str) -> Subscriber {
    sink.idle().unwrap();
    let mut subscriber = broker.subscribe(topic);
    // What is retained comes when the subscription stands.
    assert_eq!(subscriber.next(), ("site/cam/status".into(), true, "online".into()));
    subscriber
}

fn results_reach_a_broker() {
    let broker = Broker::start(false);
    for more in ["version=3&qos=0", "version=3&qos=1", "version=5&qos=0", "version=5&qos=1&retain=yes"] {
        let mut sink = broker.sink(more);
        let mut subscriber = heard(&broker, sink.as_mut(), "site/#");
        for frame in 0..200 {
            assert_eq!(sink.accept(&result(frame as u32 % 2, frame)).unwrap(), Flow::More, "{more}");
        }
        for frame in 0..200 {
            let (topic, _, message) = subscriber.next();
            let message: Value = serde_json::from_str(&message).unwrap();
            assert_eq!(topic, format!("site/cam/{}", frame % 2), "{more}");
            assert_eq!((&message["frame_id"], &message["type"]), (&frame.into(), &"result".into()));
            assert_eq!(message["detections"][0]["track_id"], 3);
        }
        sink.close().unwrap();
        assert_eq!(subscriber.next(), ("site/cam/status".into(), false, "offline".into()));
    }
    // The last message was to be kept: whoever comes later gets it.
    let mut late = broker.subscribe("site/cam/1");
    let (_, retained, message) = late.next();
    assert!(retained);
    assert_eq!(serde_json::from_str::<Value>(&message).unwrap()["frame_id"], 199);
}

fn results_reach_a_broker_over_tls() {
    let broker = Broker::start(true);
    for more in ["version=3&qos=1", "version=5&qos=0"] {
        let mut sink = broker.sink(more);
        let mut subscriber = heard(&broker, sink.as_mut(), "site/#");
        for frame in 0..200 {
            sink.accept(&result(0, frame)).unwrap();
        }
        for frame in 0..200 {
            let message: Value = serde_json::from_str(&subscriber.next().2).unwrap();
            assert_eq!(message["frame_id"], frame);
        }
        sink.close().unwrap();
    }
}

fn a_broker_that_is_not_trusted_gets_nothing() {
    let broker = Broker::start(true);
    // Another authority than the one that signed the broker's certificate.
    let other = tempfile::tempdir().unwrap();
    certificates(other.path());
    let uri = broker
        .uri(PASSWORD, "")
        .replace(&broker.ca().display().to_string(), &other.path().join("ca.pem").display().to_string());
    let mut sink = SinkUri::parse(&uri).unwrap().sink().unwrap();
    let e = sink.accept(&result(0, 0)).unwrap_err().to_string();
    assert!(e.contains("certificate") && !e.contains("hunter2"), "{e}");
    // The right authority, but another name than the certificate's.
    let mut sink =
        SinkUri::parse(&broker.uri(PASSWORD, "").replace("127.0.0.1", "localhost")).unwrap().sink().unwrap();
    let e = sink.accept(&result(0, 0)).unwrap_err().to_string();
    assert!(e.contains("certificate"), "{e}");
}

fn a_wrong_password_is_said_and_not_shown() {
    let broker = Broker::start(false);
    for more in ["version=3", "version=5"] {
        let uri = SinkUri::parse(&broker.uri("wrong-password", more)).unwrap();
        let mut sink = uri.sink().unwrap();
        let e = sink.accept(&result(0, 0)).unwrap_err();
        assert!(e.to_string().contains("authorised") && !e.kind().is_permanent(), "{e}");
        // It is tried again later; until then each result fails at once, with the same words.
        let start = Instant::now();
        for _ in 0..1000 {
            assert_eq!(sink.accept(&result(0, 0)).unwrap_err().to_string(), e.to_string());
        }
        assert!(start.elapsed() < Duration::from_secs(60));
        for shown in [format!("{uri} {uri:?}"), sink.name().to_owned(), e.to_string()] {
            assert!(!shown.contains("wrong-password"), "{shown}");
        }
    }
}

fn a_broker_that_vanishes_and_returns() {
    let mut broker = Broker::start(false);
    let mut sink = broker.sink("qos=1");
    drop(heard(&broker, sink.as_mut(), "site/#"));
    // The broker freezes: it takes messages, or the system does for it, and confirms none.
    let id = broker.process.as_ref().unwrap().id().to_string();
    assert!(Command::new("kill").args(["-STOP", &id]).status().unwrap().success());
    for frame in 1..=3 {
        sink.accept(&result(0, frame)).unwrap();
    }
    broker.stop();
    wait_for("the loss to be noticed", || sink.idle().is_err());
    broker.run();
    let mut subscriber = broker.subscribe("site/#");
    // The new broker knows nothing: the first that comes is what this program says when it is back.
    wait_for("the connection to return", || sink.idle().is_ok());
    assert_eq!(subscriber.next().2, "online");
    sink.accept(&result(0, 7)).unwrap();
    // What was not confirmed comes again, then the new one.
    for frame in [1, 2, 3, 7] {
        let message: Value = serde_json::from_str(&subscriber.next().2).unwrap();
        assert_eq!(message["frame_id"], frame);
    }
    // A program that dies without a word is declared offline by the broker.
    drop(sink);
    assert_eq!(subscriber.next(), ("site/cam/status".into(), false, "offline".into()));
}

fn a_silent_connection_is_kept_alive() {
    let broker = Broker::start(false);
    let mut sink = broker.sink("keep-alive=1s");
    let mut subscriber = heard(&broker, sink.as_mut(), "site/#");
    // The broker ends a connection that says nothing for 1.5 times the second promised.
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {
        sink.idle().unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    sink.accept(&result(0, 5)).unwrap();
    let message: Value = serde_json::from_str(&subscriber.next().2).unwrap();
    assert_eq!(message["frame_id"], 5);
}

fn prometheus_reads_the_metrics() {
    let registry = Registry::new();
    let odd = "rtsp://cam/a\"b\\c\nd{e=\"f\"}";
    let numbers = PipelineMetrics::new(&registry, &["front".into(), odd.into()]).unwrap();
    for frame in 0..50 {
        let mut r = result(1, frame);
        r.batch = 4;
        r.age = Duration::from_millis(frame * 3);
        r.times.infer = Duration::from_micros(frame * 700);
        numbers.observe(&r);
    }
    registry.gauge("saltica_odd", "Help with \\ and\na line end", &[]).unwrap().set(f64::NEG_INFINITY);
    registry.on_scrape(|s| {
        metrics::process(s);
        metrics::build(s);
    });
    // Reads the text from stdin and prints each sample as a line of JSON; values may be infinite, which JSON is not.
    let script = "
import sys, json
from prometheus_client.parser import text_string_to_metric_families
for f in text_string_to_metric_families(sys.stdin.read()):
    for s in f.samples:
        print(json.dumps([f.name, f.type, f.documentation, s.name, s.labels, repr(float(s.value))]))
";
    let mut child = python(&["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let text = registry.text();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{text}");
    let samples: Vec<Value> =
        String::from_utf8(out.stdout).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    // Every line of ours is a sample of theirs.
    assert_eq!(samples.len(), text.lines().filter(|l| !l.starts_with('#')).count());
    assert!(samples.iter().all(|s| s[1] != "unknown" && s[1] != "untyped"), "{samples:?}");
    let find = |name: &str, label: (&str, &str)| {
        let found = samples.iter().find(|s| s[3] == name && s[4][label.0] == label.1);
        found.unwrap_or_else(|| panic!("{name} {label:?} in {text}"))[5].as_str().unwrap().to_owned()
    };
    assert_eq!(find("saltica_results_total", ("source", odd)), "50.0");
    assert_eq!(find("saltica_results_total", ("source", "front")), "0.0");
    // Ages 0, 3, .. 147 ms: the bounds are 50 and 100 ms among others, inclusive.
    let ages = |le: &str| -> String {
        let at = |s: &&Value| {
            s[3] == "saltica_frame_age_seconds_bucket" && s[4]["source"] == odd && s[4]["le"] == le
        };
        samples.iter().find(at).unwrap_or_else(|| panic!("{le} in {text}"))[5].as_str().unwrap().to_owned()
    };
    assert_eq!([ages("0.05"), ages("0.1"), ages("+Inf")], ["17.0", "34.0", "50.0"]);
    let odd_help = samples.iter().find(|s| s[0] == "saltica_odd").unwrap();
    assert_eq!((&odd_help[2], &odd_help[5]), (&"Help with \\ and\na line end".into(), &"-inf".into()));
}
