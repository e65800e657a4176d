//! A network camera that has a password, goes away and comes back: GStreamer's own RTSP server, run by a script.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use saltica_pipeline::frame::{Memory, SourceId, monotonic};
use saltica_pipeline::ring::Bell;
use saltica_pipeline::source::{SourceUri, State, Supervisor};
use saltica_vision::Image;

struct Server {
    child: Child,
    port: u16,
    streams: String,
}

impl Server {
    /// On this port (0: any). None where it cannot run, which is said.
    fn start(port: u16) -> Option<Server> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/rtsp_server.py");
        // The system's own Python, whose packages GStreamer's bindings are among.
        let child = Command::new("/usr/bin/python3")
            .args([script, &port.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.ok()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take()?).read_line(&mut line).ok()?;
        let Some((port, streams)) = line.trim().split_once(' ') else {
            let _ = child.wait();
            eprintln!("ignored: python3-gi or GStreamer's RTSP server is not installed");
            return None;
        };
        Some(Server { child, port: port.parse().unwrap(), streams: streams.to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(uri: &str) -> Supervisor {
    let uri = SourceUri::parse(uri).unwrap();
    let mut plan = uri.plan();
    plan.backoff.first = Duration::from_millis(50);
    plan.backoff.most = Duration::from_millis(200);
    Supervisor::start(uri.source().unwrap(), SourceId(0), uri.name(), plan, Bell::new()).unwrap()
}

fn until(what: &str, s: &Supervisor, done: impl Fn(&Supervisor) -> bool) {
    let t = Instant::now();
    while !done(s) {
        drop(s.ring().try_pop());
        assert!(t.elapsed() < Duration::from_secs(60), "{what}: {:?} {:?}", s.status(), s.counters());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_network_camera_streams_and_comes_back() {
    let Some(server) = Server::start(0) else { return };
    let port = server.port;
    for stream in server.streams.split(' ') {
        let asked = monotonic();
        let s = start(&format!("rtsp://me:hunter2@127.0.0.1:{port}/{stream}#latency=50"));
        let f = s.ring().pop(Duration::from_secs(30)).unwrap_or_else(|| panic!("{stream}: {:?}", s.status()));
        assert_eq!((f.copies(), f.memory(), f.format().width, f.format().height), (0, Memory::Gst, 320, 240));
        // Its time is one of our clock, between the asking for it and now.
        assert!(
            f.captured >= asked && f.captured <= monotonic(),
            "{asked:?} {:?} {:?}",
            f.captured,
            monotonic()
        );
        // White, yellow, cyan, green, magenta, red, blue in the upper part.
        let image = Image::from_pixels(&f.pixels());
        let bars = [
            [191, 191, 191],
            [191, 191, 0],
            [0, 191, 191],
            [0, 191, 0],
            [191, 0, 191],
            [191, 0, 0],
            [0, 0, 191],
        ];
        for (i, want) in bars.iter().enumerate() {
            let found = image.pixel((2 * i + 1) * 320 / 14, 60).unwrap();
            assert!(
                found.iter().zip(want).all(|(a, b): (&u8, &u8)| a.abs_diff(*b) <= 14),
                "{stream} {i}: {found:?}"
            );
        }
        println!("{stream}: {} {:?}", s.status().opened.unwrap().note, f.age(monotonic()));
        drop(f);
        assert!(s.stop());
    }
    let wrong = start(&format!("rtsp://me:swordfish@127.0.0.1:{port}/jpeg"));
    until("a refusal", &wrong, |s| s.counters().failures > 0);
    let reason = wrong.status().reason.unwrap();
    assert!(reason.contains("nauthorized") && !reason.contains("swordfish"), "{reason}");
    let s = start(&format!("rtsp://me:hunter2@127.0.0.1:{port}/jpeg#timeout=2"));
    until("frames", &s, |s| s.counters().frames > 5);
    drop(server);
    until("it is gone", &s, |s| s.status().state == State::Reconnecting);
    let reason = s.status().reason.unwrap();
    assert!(!reason.contains("hunter2"), "{reason}");
    println!("gone: {reason}");
    let again = Server::start(port).expect("it started before");
    let n = s.counters().frames;
    until("it is back", &s, |s| s.counters().frames > n + 5);
    drop(again);
    let t = Instant::now();
    assert!(s.stop());
    assert!(t.elapsed() < Duration::from_secs(2), "stopping took {:?}", t.elapsed());
}
