//! The web server and its pages over real connections: what they answer, and what nobody can do to them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)] // helpers of tests

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use saltica_pipeline::ErrorKind;
use saltica_pipeline::frame::{Frame, FrameFormat, Pool, SourceId, monotonic};
use saltica_pipeline::sink::metrics::{PipelineMetrics, Registry};
use saltica_pipeline::sink::web::{Limits, Pages, Preview, PreviewOptions, Server, Site, address};
use saltica_pipeline::sink::{
    FrameResult, Health, Object, Reports, SinkPlan, SinkReport, Sinks, SourceReport,
};
use saltica_pipeline::source::{Counters, State, Status};
use saltica_tensor::PixelFormat;

/// Everything behind a server, with two sources that stream.
struct Program {
    server: Server,
    sinks: Arc<Sinks>,
    numbers: Arc<PipelineMetrics>,
    preview: Arc<Preview>,
}

fn program(limits: Limits) -> Program {
    let names = ["front".to_owned(), "back <&\"'> door".to_owned()];
    let registry = Registry::new();
    let numbers = PipelineMetrics::new(&registry, &names).unwrap();
    let preview = Preview::new(2, PreviewOptions::default());
    let sinks = Arc::new(Sinks::start(vec![(preview.sink().unwrap(), SinkPlan::default())]).unwrap());
    let reports = Arc::new(Streaming { names, sinks: Arc::clone(&sinks) });
    let site = Site::new(Arc::clone(&numbers), Arc::new(Health::new()), reports, Some(Arc::clone(&preview)));
    let server = Server::start(address("127.0.0.1:0").unwrap(), limits, Arc::new(Pages(site))).unwrap();
    Program { server, sinks, numbers, preview }
}

/// Sources that stream.
struct Streaming {
    names: [String; 2],
    sinks: Arc<Sinks>,
}

impl Reports for Streaming {
    fn sources(&self) -> Vec<SourceReport> {
        let report = |(i, name): (usize, &String)| SourceReport {
            id: SourceId(i as u32),
            name: name.clone(),
            status: Status {
                state: State::Streaming,
                since: monotonic(),
                reason: None,
                opened: None,
                attempts: 0,
                last_frame: None,
            },
            counters: Counters::default().snapshot(),
            unanswered: Duration::ZERO,
        };
        self.names.iter().enumerate().map(report).collect()
    }

    fn sinks(&self) -> Vec<SinkReport> {
        self.sinks.reports()
    }
}

impl Program {
    fn connect(&self) -> TcpStream {
        let s = TcpStream::connect(self.server.address()).unwrap();
        s.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        s
    }

    /// Sends bytes and reads until the server closes.
    fn raw(&self, request: &[u8]) -> Vec<u8> {
        let mut s = self.connect();
        // A server that refuses early may close before everything is sent.
        drop(s.write_all(request));
        let mut all = Vec::new();
        drop(s.read_to_end(&mut all));
        all
    }

    fn get(&self, path: &str) -> (u16, String, Vec<u8>) {
        let all = self
            .raw(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes());
        let end = all.windows(4).position(|w| w == b"\r\n\r\n").expect("a whole head");
        let head = String::from_utf8(all[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head, all[end + 4..].to_vec())
    }

    fn status(&self, request: &str) -> u16 {
        let all = self.raw(request.as_bytes());
        let text = String::from_utf8_lossy(&all);
        text.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0)
    }

    fn result(&self, source: u32, frame: u64) {
        let format = FrameFormat::packed(PixelFormat::Rgb8, 320, 240).unwrap();
        let mut lease = Pool::new(1).take(320 * 240 * 3, Duration::ZERO).unwrap();
        lease.bytes_mut().fill(90);
        let mut f = Frame::owned(format, lease, monotonic()).unwrap();
        (f.id, f.source) = (frame, SourceId(source));
        let mut r = FrameResult::default();
        r.reset(&f.info());
        r.batch = 2;
        r.source_name = "front".into();
        r.objects.push(Object::new(0, 0.5, [10.0, 20.0, 100.0, 200.0]));
        if self.sinks.wants_picture(f.source, f.captured) {
            r.picture.copy(&f);
        }
        self.numbers.observe(&r);
        self.sinks.send(&Arc::new(r));
    }

    /// Feeds both sources until the returned guard is dropped.
    fn feed<T>(&self, look: impl FnOnce() -> T) -> T {
        let stop = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                for frame in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    (0..2).for_each(|source| self.result(source, frame));
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(look));
            stop.store(true, Ordering::Relaxed);
            seen.unwrap_or_else(|e| std::panic::resume_unwind(e))
        })
    }
}

#[test]
fn pages_are_there_and_load_nothing_from_elsewhere() {
    let p = program(Limits::default());
    for (path, mime) in [
        ("/", "text/html"),
        ("/app.css", "text/css"),
        ("/app.js", "text/javascript"),
        ("/icon.svg", "image/svg+xml"),
    ] {
        let (status, head, body) = p.get(path);
        assert_eq!(status, 200, "{path}");
        assert!(head.contains(&format!("Content-Type: {mime}")), "{head}");
        assert!(head.contains("Content-Security-Policy: default-src 'self'"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        let text = String::from_utf8(body).unwrap();
        let elsewhere = text.match_indices("://").filter(|(at, _)| !text[..*at].ends_with("xmlns=\"http"));
        assert_eq!(elsewhere.count(), 0, "{path} names another server");
    }
    // HEAD is GET without the body.
    let all = p.raw(b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(all.ends_with(b"\r\n\r\n") && all.starts_with(b"HTTP/1.1 200 OK"));
}

#[test]
fn health_turns_from_starting_to_ready() {
    let p = program(Limits::default());
    let (status, head, body) = p.get("/health");
    assert_eq!(status, 503, "{head}");
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&body["status"], &body["working"]), (&"starting".into(), &false.into()));
    p.result(0, 0);
    let (status, _, body) = p.get("/health");
    assert_eq!((status, &body[..]), (200, &b"{\"status\":\"ready\",\"working\":true,\"reasons\":[]}\n"[..]));
    let (_, head, body) = p.get("/metrics");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    let text = String::from_utf8(body).unwrap();
    assert!(text.contains("saltica_results_total{source_id=\"0\",source=\"front\"} 1\n"), "{text}");
    assert!(text.contains("source=\"back <&\\\"'> door\""), "{text}");
    let (_, _, body) = p.get("/api/status");
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&body["sources"][0]["results"], &body["sources"][0]["batch"]), (&1.into(), &2.into()));
    assert_eq!(body["sources"][1]["frame_age_ms"], serde_json::Value::Null);
}

#[test]
fn the_stream_has_status_and_pictures_of_the_sources_asked_for() {
    let p = program(Limits::default());
    p.feed(|| {
        let mut s = p.connect();
        s.write_all(b"GET /api/stream?source=1 HTTP/1.1\r\nHost: [::1]:80\r\n\r\n").unwrap();
        let mut all = Vec::new();
        let (mut pictures, mut statuses) = (Vec::new(), 0);
        let mut at = None;
        let mut block = [0; 4096];
        while pictures.len() < 3 {
            let n = s.read(&mut block).unwrap();
            assert!(n > 0, "the stream ended");
            all.extend_from_slice(&block[..n]);
            let start = match at {
                Some(at) => at,
                None => match all.windows(4).position(|w| w == b"\r\n\r\n") {
                    Some(end) => end + 4,
                    None => continue,
                },
            };
            at = Some(start);
            while let Some(end) = all[at.unwrap()..].iter().position(|b| *b == b'\n') {
                let (from, line_end) = (at.unwrap(), at.unwrap() + end);
                let head: serde_json::Value = serde_json::from_slice(&all[from..line_end]).unwrap();
                let bytes = head["bytes"].as_u64().unwrap_or(0) as usize;
                if all.len() < line_end + 1 + bytes {
                    break;
                }
                match head["type"].as_str().unwrap() {
                    "status" => statuses += 1,
                    "picture" => {
                        assert_eq!(head["result"]["source_id"], 1);
                        let jpeg = image::load_from_memory(&all[line_end + 1..][..bytes]).unwrap();
                        assert_eq!((jpeg.width(), jpeg.height()), (320, 240));
                        pictures.push(head["picture"].as_u64().unwrap());
                    }
                    other => panic!("{other}"),
                }
                at = Some(line_end + 1 + bytes);
            }
        }
        assert!(statuses >= 1 && pictures.windows(2).all(|w| w[0] < w[1]), "{statuses} {pictures:?}");
        assert_eq!(p.preview.viewers(), 1);
    });
    // Whoever went away is no viewer any more, so nothing is encoded for him.
    let end = Instant::now() + Duration::from_secs(60);
    while p.preview.viewers() > 0 {
        p.result(1, 0);
        assert!(Instant::now() < end, "the viewer stays");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!p.sinks.wants_picture(SourceId(1), monotonic()));
}

#[test]
fn other_programs_get_annotated_pictures() {
    let p = program(Limits::default());
    p.feed(|| {
        let (status, head, body) = p.get("/source/0.jpg");
        assert_eq!(status, 200);
        assert!(head.contains("Content-Type: image/jpeg"), "{head}");
        assert_eq!(image::load_from_memory(&body).unwrap().width(), 320);
        let mut s = p.connect();
        s.write_all(b"GET /source/1.mjpeg HTTP/1.0\r\n\r\n").unwrap();
        let mut all = Vec::new();
        let mut block = [0; 4096];
        let boundary = b"--saltica-frame\r\nContent-Type: image/jpeg";
        while all.windows(boundary.len()).filter(|w| w == boundary).count() < 3 {
            let n = s.read(&mut block).unwrap();
            assert!(n > 0, "the stream ended");
            all.extend_from_slice(&block[..n]);
        }
    });
}

#[test]
fn nothing_but_the_known_paths_exists() {
    let p = program(Limits::default());
    for path in [
        "/etc/passwd",
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//app.js",
        "/app.js/",
        "/page/index.html",
        "/source/2.jpg",
        "/source/-1.jpg",
        "/source/99999999999999999999.jpg",
        "/source/0.png",
        "/source/../app.js",
        "/api/stream?source=7",
        "/api/stream?source=",
    ] {
        assert_eq!(p.get(path).0, 404, "{path}");
    }
}

#[test]
fn odd_requests_are_refused() {
    let p = program(Limits::default());
    let host = "Host: localhost\r\n";
    for (request, status) in [
        (format!("POST / HTTP/1.1\r\n{host}\r\n"), 405),
        (format!("DELETE /metrics HTTP/1.1\r\n{host}\r\n"), 405),
        (format!("GET / HTTP/1.1\r\n{host}Content-Length: 5\r\n\r\nhello"), 413),
        (format!("GET / HTTP/1.1\r\n{host}Content-Length: 0\r\nContent-Length: 0\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{host}Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello"), 400),
        (format!("GET / HTTP/1.1\r\n{host}Content-Length: +0\r\n\r\n"), 413),
        (format!("GET / HTTP/1.1\r\n{host}Content-Length: 0\r\nConnection: close\r\n\r\n"), 200),
        (format!("GET / HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 413),
        (format!("GET / HTTP/1.1\r\n{host}{}\r\n", "X: y\r\n".repeat(100)), 431),
        (format!("GET /{} HTTP/1.1\r\n{host}\r\n", "a".repeat(20_000)), 431),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\n{host}{host}\r\n"), 400),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(), 421),
        ("GET / HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n".to_owned(), 421),
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example:80\r\n\r\n".to_owned(), 421),
        ("GET / HTTP/1.0\r\n\r\n".to_owned(), 200),
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nConnection: close\r\n\r\n".to_owned(), 200),
        ("GET / HTTP/1.1\r\nHost: saltica.localhost\r\nConnection: close\r\n\r\n".to_owned(), 200),
    ] {
        assert_eq!(p.status(&request), status, "{request:?}");
    }
}

#[test]
fn the_head_of_a_stream_ends_and_a_source_named_twice_is_looked_at_once() {
    // Were the connection kept open, it would end only after this time.
    let p = program(Limits { head: Duration::from_secs(3600), ..Limits::default() });
    for path in ["/api/stream", "/source/0.mjpeg"] {
        let all = p.raw(format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        let text = String::from_utf8(all).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK") && text.ends_with("\r\n\r\n"), "{text}");
        assert!(text.contains("Connection: close"), "{text}");
    }
    let mut s = p.connect();
    s.write_all(b"GET /api/stream?source=1,1,1,0,1 HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    // The first status comes when it looks.
    let (mut all, mut block) = (Vec::new(), [0; 1024]);
    while !String::from_utf8_lossy(&all).contains("\r\n\r\n{\"type\":\"status\"") {
        let n = s.read(&mut block).unwrap();
        assert!(n > 0, "the stream ended");
        all.extend_from_slice(&block[..n]);
    }
    assert_eq!(p.preview.viewers(), 2);
}

#[test]
fn a_connection_serves_several_requests() {
    let p = program(Limits::default());
    let mut s = p.connect();
    // Two at once, then the last one.
    let get = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    s.write_all(format!("{get}{get}").as_bytes()).unwrap();
    s.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut all = String::new();
    s.read_to_string(&mut all).unwrap();
    assert_eq!(all.matches("HTTP/1.1 503").count(), 3, "{all}");
}

#[test]
fn a_client_that_trickles_is_cut_off() {
    let p = program(Limits { head: Duration::from_millis(300), ..Limits::default() });
    let mut s = p.connect();
    let start = Instant::now();
    let mut answer = Vec::new();
    // A byte now and then keeps a naive server waiting for ever.
    for b in b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ".iter().chain(std::iter::repeat(&b'a')) {
        if s.write_all(&[*b]).is_err() || start.elapsed() > Duration::from_secs(60) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        if p.server.connections() == 0 {
            break;
        }
    }
    drop(s.read_to_end(&mut answer));
    assert!(start.elapsed() < Duration::from_secs(60));
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"), "{answer:?}");
    // One that says nothing at all goes too.
    let silent = p.connect();
    let end = Instant::now() + Duration::from_secs(60);
    while p.server.connections() > 0 {
        assert!(Instant::now() < end, "the silent connection stays");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(silent);
}

#[test]
fn a_client_that_reads_nothing_is_cut_off_and_holds_up_nobody() {
    let p = program(Limits { answer: Duration::from_millis(300), ..Limits::default() });
    p.feed(|| {
        let mut s = p.connect();
        s.write_all(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while p.preview.viewers() == 0 {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(5));
        }
        // It takes a while until the buffers in between are full.
        while p.preview.viewers() > 0 {
            assert!(Instant::now() < end, "the slow client stays");
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(p.sinks.reports()[0].failed, 0);
}

#[test]
fn too_many_connections_are_told_so() {
    let p = program(Limits { connections: 3, ..Limits::default() });
    let held: Vec<TcpStream> = (0..3).map(|_| p.connect()).collect();
    let end = Instant::now() + Duration::from_secs(60);
    while p.server.connections() < 3 {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut s = p.connect();
    let mut answer = String::new();
    s.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    drop(held);
    while p.server.connections() > 0 {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(p.get("/app.js").0, 200);
}

#[test]
fn stopping_ends_streams_too() {
    let mut p = program(Limits::default());
    let mut s = p.connect();
    s.write_all(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut block = [0; 1024];
    assert!(s.read(&mut block).unwrap() > 0);
    p.server.stop();
    let mut rest = Vec::new();
    drop(s.read_to_end(&mut rest));
    assert_eq!(p.server.connections(), 0);
    assert!(TcpStream::connect(p.server.address()).is_err());
    drop(s.shutdown(Shutdown::Both));
}

#[test]
fn addresses_are_loopback_unless_one_is_given() {
    for (text, want) in [
        (":8080", "127.0.0.1:8080"),
        ("8080", "127.0.0.1:8080"),
        ("localhost:9", "127.0.0.1:9"),
        ("0.0.0.0:80", "0.0.0.0:80"),
        ("[::]:80", "[::]:80"),
        (" 10.1.2.3:4 ", "10.1.2.3:4"),
    ] {
        assert_eq!(address(text).unwrap().to_string(), want);
    }
    for bad in ["", ":", ":99999", "example.org:80", "1.2.3.4", "-1"] {
        let e = address(bad).unwrap_err();
        assert!(e.kind() == ErrorKind::Value && e.to_string().contains(":8080"), "{e}");
    }
    // A port that is taken.
    let p = program(Limits::default());
    let pages = program(Limits::default());
    drop(pages);
    let taken = p.server.address();
    struct Nothing;
    impl saltica_pipeline::sink::web::Handler for Nothing {
        fn answer(&self, _: &saltica_pipeline::sink::web::Request) -> saltica_pipeline::sink::web::Answer {
            saltica_pipeline::sink::web::Answer::error(404, "nothing")
        }
    }
    let e = Server::start(taken, Limits::default(), Arc::new(Nothing)).unwrap_err();
    assert!(e.kind() == ErrorKind::Busy && e.to_string().contains("another port"), "{e}");
}
