//! `saltica models pull` against a server that fails in every way.
//!
//! The server speaks HTTP by hand, so that it can break it by hand. What it serves is not a model: the library is given a
//! table entry with the size and the SHA-256 of the made bytes, as if they had been published.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

mod common;

use common::schema::Schema;
use common::{command, command_that_heeds_signals, shared, stderr, stdout};
use saltica::models::{Entry, Model, Origin, Progress, Pulled, Puller, catalogue};
use saltica::{Detector, Error, sha256_hex};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request: its first line, and its headers in small letters.
#[derive(Clone, Debug)]
struct Request {
    line: String,
    headers: Vec<String>,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|h| h.strip_prefix(name)?.strip_prefix(": "))
    }

    /// First byte of the range asked for.
    fn start(&self) -> Option<usize> {
        self.header("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

/// A server whose `answer` is called for each request with its number, from 0.
struct Server {
    address: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    fn new(answer: impl Fn(usize, &Request, &mut TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, count, answer) = (Arc::clone(&requests), AtomicUsize::new(0), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let n = count.fetch_add(1, Ordering::SeqCst);
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let mut stream = stream;
                    let Some(request) = read_request(&stream) else { return };
                    seen.lock().unwrap().push(request.clone());
                    answer(n, &request, &mut stream);
                });
            }
        });
        Server { address, requests }
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines();
    let line = lines.next()?.ok()?;
    let headers = lines.map_while(|l| l.ok().filter(|l| !l.is_empty())).map(|l| {
        let (name, value) = l.split_once(':').unwrap_or((&l, ""));
        format!("{}: {}", name.to_lowercase(), value.trim())
    });
    Some(Request { line, headers: headers.collect() })
}

/// Sends an answer; a client that is gone is fine.
fn send(to: &mut TcpStream, status: &str, headers: &[String], body: &[u8]) {
    let headers: String = headers.iter().map(|h| format!("{h}\r\n")).collect();
    let _ = to.write_all(format!("HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n").as_bytes());
    let _ = to.write_all(body);
    let _ = to.flush();
}

fn length(n: usize) -> String {
    format!("Content-Length: {n}")
}

/// A server as it should be: ranges, `If-Range`, a tag.
fn serve(content: &[u8], request: &Request, to: &mut TcpStream) {
    let tag = "ETag: \"v1\"".to_owned();
    let fits = request.header("if-range").is_none_or(|t| t == "\"v1\"");
    match request.start().filter(|_| fits) {
        Some(start) if start >= content.len() => {
            send(
                to,
                "416 Range Not Satisfiable",
                &[format!("Content-Range: bytes */{}", content.len()), length(0)],
                b"",
            );
        }
        Some(start) => {
            let range = format!("Content-Range: bytes {start}-{}/{}", content.len() - 1, content.len());
            send(to, "206 Partial Content", &[range, tag, length(content.len() - start)], &content[start..]);
        }
        None => send(to, "200 OK", &[tag, length(content.len())], content),
    }
}

/// The whole file promised, `part` bytes of it sent.
fn cut(content: &[u8], part: usize, to: &mut TcpStream) {
    send(to, "200 OK", &[length(content.len()), "ETag: \"v1\"".into()], &content[..part]);
}

/// Bytes without a pattern.
fn content() -> Vec<u8> {
    let mut x = 1u64;
    let next = || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 56) as u8
    };
    std::iter::repeat_with(next).take(300_000).collect()
}

/// A table entry for this content.
fn entry(content: &[u8]) -> Entry {
    let sha256 = Box::leak(sha256_hex(content).into_boxed_str());
    let mut entry = *catalogue().iter().find(|e| e.name == "yolox-nano").unwrap();
    entry.origin = Origin::Public { url: "http://127.0.0.1:9/never", bytes: content.len() as u64, sha256 };
    entry
}

/// Longer than a busy machine makes a server of this test wait; silence is tested with less.
const PATIENCE: Duration = Duration::from_secs(60);

fn puller(folder: &Path, server: &Server) -> Puller {
    Puller::new(folder)
        .url(format!("{}/model.onnx", server.address))
        .timeout(PATIENCE)
        .attempts(4, Duration::from_millis(1))
}

fn file(folder: &Path) -> std::path::PathBuf {
    folder.join("yolox-nano.onnx")
}

/// Pulls; afterwards the file is whole or not there, as the result says.
fn pull(folder: &Path, server: &Server) -> Result<Pulled, Error> {
    pull_within(folder, server, PATIENCE)
}

fn pull_within(folder: &Path, server: &Server, timeout: Duration) -> Result<Pulled, Error> {
    let content = content();
    let result = puller(folder, server).timeout(timeout).pull(&entry(&content), |_| {});
    match &result {
        Ok(pulled) => {
            assert_eq!(std::fs::read(file(folder)).unwrap(), content);
            assert_eq!(pulled.sha256, sha256_hex(&content));
            let left: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
            assert_eq!(left, ["yolox-nano.onnx"], "nothing else is left");
        }
        Err(_) => assert!(!file(folder).exists(), "no half file under the final name"),
    }
    result
}

fn fails(server: &Server, part: &str) -> usize {
    fails_within(server, part, PATIENCE)
}

fn fails_within(server: &Server, part: &str, timeout: Duration) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let e = pull_within(dir.path(), server, timeout).unwrap_err().to_string();
    assert!(e.contains(part), "{part} is not in {e}");
    assert!(e.contains(&server.address), "the address is named: {e}");
    let left = std::fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.metadata().unwrap().len());
    assert!(!left.collect::<Vec<_>>().contains(&0), "no empty file is left");
    server.requests().len()
}

#[test]
fn a_good_server() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("deep/models");
    let server = Server::new(|_, r, to| serve(&content(), r, to));
    let pulled = pull(&folder, &server).unwrap();
    assert_eq!((pulled.transferred, pulled.resumed), (300_000, 0));
    let request = &server.requests()[0];
    assert!(request.line.starts_with("GET /model.onnx "), "{request:?}");
    assert_eq!((request.header("range"), request.header("accept-encoding")), (None, Some("identity")));
    // What is here is not fetched again.
    assert_eq!(pull(&folder, &server).unwrap().transferred, 0);
    assert_eq!(server.requests().len(), 1);
    // A damaged file is replaced.
    std::fs::write(file(&folder), "damaged").unwrap();
    assert_eq!(pull(&folder, &server).unwrap().transferred, 300_000);
}

#[test]
fn redirects_are_followed_and_loops_end() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::new(|_, r, to| match r.line.contains("model.onnx") {
        true => send(to, "302 Found", &["Location: /elsewhere".into(), length(0)], b""),
        false => serve(&content(), r, to),
    });
    pull(dir.path(), &server).unwrap();
    let ring =
        Server::new(|_, _, to| send(to, "302 Found", &["Location: /model.onnx".into(), length(0)], b""));
    fails(&ring, "redirect");
}

#[test]
fn a_transfer_that_breaks_goes_on_from_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let server =
        Server::new(|n, r, to| if n == 0 { cut(&content(), 100_000, to) } else { serve(&content(), r, to) });
    let pulled = pull(dir.path(), &server).unwrap();
    assert_eq!((pulled.transferred, pulled.resumed), (300_000, 0), "all of it came in this pull");
    let again = &server.requests()[1];
    assert_eq!((again.start(), again.header("if-range")), (Some(100_000), Some("\"v1\"")));
}

#[test]
fn the_next_command_goes_on_where_the_last_one_gave_up() {
    let dir = tempfile::tempdir().unwrap();
    let bad = Server::new(|n, _, to| {
        if n == 0 { cut(&content(), 50_000, to) } else { drop(to.shutdown(std::net::Shutdown::Both)) }
    });
    let server = Server::new(|_, r, to| serve(&content(), r, to));
    assert!(pull(dir.path(), &bad).unwrap_err().to_string().contains("4 attempts"));
    assert_eq!(std::fs::metadata(dir.path().join(".yolox-nano.onnx.part")).unwrap().len(), 50_000);
    // Another address: its bytes may be others.
    let pulled = pull(dir.path(), &server).unwrap();
    assert_eq!((pulled.transferred, pulled.resumed), (300_000, 0));
    assert_eq!(server.requests()[0].start(), None);

    std::fs::remove_file(file(dir.path())).unwrap();
    let same = Server::new(|n, r, to| match n {
        0 => cut(&content(), 70_000, to),
        1..4 => send(to, "503 Service Unavailable", &[length(0)], b""),
        _ => serve(&content(), r, to),
    });
    assert!(pull(dir.path(), &same).unwrap_err().to_string().contains("503"));
    let pulled = pull(dir.path(), &same).unwrap();
    assert_eq!((pulled.transferred, pulled.resumed), (230_000, 70_000));

    // What the last pull left counts, what this one fetched before it broke does not.
    std::fs::remove_file(file(dir.path())).unwrap();
    let twice = Server::new(|n, r, to| match n {
        0 => cut(&content(), 70_000, to),
        4 => {
            let range = "Content-Range: bytes 70000-299999/300000".into();
            send(to, "206 Partial Content", &[range, length(230_000)], &content()[70_000..100_000]);
        }
        1..4 => send(to, "503 Service Unavailable", &[length(0)], b""),
        _ => serve(&content(), r, to),
    });
    assert!(pull(dir.path(), &twice).unwrap_err().to_string().contains("503"));
    let pulled = pull(dir.path(), &twice).unwrap();
    assert_eq!((pulled.transferred, pulled.resumed), (230_000, 70_000));
    assert_eq!(twice.requests()[5].start(), Some(100_000));
}

#[test]
fn a_server_that_ignores_ranges_sends_all_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::new(|n, _, to| cut(&content(), if n == 0 { 100_000 } else { 300_000 }, to));
    let pulled = pull(dir.path(), &server).unwrap();
    assert_eq!((pulled.transferred, pulled.resumed), (400_000, 0));
    assert_eq!(server.requests()[1].start(), Some(100_000));
}

#[test]
fn a_file_that_changed_meanwhile_is_fetched_anew() {
    let dir = tempfile::tempdir().unwrap();
    // The first version is longer ago; If-Range makes the server send the new one whole.
    let server = Server::new(|n, r, to| match n {
        0 => send(to, "200 OK", &[length(300_000), "ETag: \"v0\"".into()], &[7; 100_000]),
        _ => serve(&content(), r, to),
    });
    assert_eq!(pull(dir.path(), &server).unwrap().resumed, 0);
    assert_eq!(server.requests()[1].header("if-range"), Some("\"v0\""));
    // Without a tag nothing tells but the hash.
    let dir = tempfile::tempdir().unwrap();
    let server = Server::new(|n, r, to| match n {
        0 => send(to, "200 OK", &[length(300_000)], &[7; 100_000]),
        _ => serve(&content(), r, to),
    });
    assert_eq!(pull(dir.path(), &server).unwrap().resumed, 0);
    let starts: Vec<_> = server.requests().iter().map(Request::start).collect();
    assert_eq!(starts, [None, Some(100_000), None]);
    // A weak tag promises nothing about bytes (RFC 9110, 13.1.5).
    let dir = tempfile::tempdir().unwrap();
    let server = Server::new(|n, r, to| match n {
        0 => send(to, "200 OK", &[length(300_000), "ETag: W/\"v1\"".into()], &content()[..9]),
        _ => serve(&content(), r, to),
    });
    pull(dir.path(), &server).unwrap();
    assert_eq!(server.requests()[1].header("if-range"), None);
}

#[test]
fn ranges_that_do_not_fit_are_not_believed() {
    for range in ["bytes 0-299999/300000", "bytes 100001-299999/300000", "bytes 100000-1/5", "nonsense"] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::new(move |n, r, to| match n {
            0 => cut(&content(), 100_000, to),
            1 => send(
                to,
                "206 Partial Content",
                &[format!("Content-Range: {range}"), length(200_000)],
                &content()[100_000..],
            ),
            _ => serve(&content(), r, to),
        });
        pull(dir.path(), &server).unwrap();
        assert_eq!(server.requests()[2].start(), None, "{range}");
    }
    // 416 to the bytes that are missing.
    let dir = tempfile::tempdir().unwrap();
    let server = Server::new(|n, r, to| match n {
        0 => cut(&content(), 100_000, to),
        1 => send(to, "416 Range Not Satisfiable", &[length(0)], b""),
        _ => serve(&content(), r, to),
    });
    assert_eq!(pull(dir.path(), &server).unwrap().resumed, 0);
}

#[test]
fn a_part_that_is_whole_or_too_long_needs_no_luck() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::new(|_, r, to| serve(&content(), r, to));
    let origins = format!(r#"{{"url": "{}/model.onnx", "etag": null}}"#, server.address);
    let prepare = |bytes: &[u8]| {
        let _ = std::fs::remove_file(file(dir.path()));
        std::fs::write(dir.path().join(".yolox-nano.onnx.part"), bytes).unwrap();
        std::fs::write(dir.path().join(".yolox-nano.onnx.part.json"), &origins).unwrap();
    };
    prepare(&content());
    assert_eq!(pull(dir.path(), &server).unwrap().transferred, 0);
    prepare(&[0; 300_000]);
    assert_eq!(pull(dir.path(), &server).unwrap().transferred, 300_000);
    prepare(&[0; 300_001]);
    assert_eq!(pull(dir.path(), &server).unwrap().transferred, 300_000);
    // Notes that cannot be read are no notes.
    prepare(&content()[..1000]);
    std::fs::write(dir.path().join(".yolox-nano.onnx.part.json"), "{").unwrap();
    assert_eq!(pull(dir.path(), &server).unwrap().resumed, 0);
}

#[test]
fn other_content_is_never_installed() {
    let same_length = Server::new(|_, _, to| send(to, "200 OK", &[length(300_000)], &vec![1; 300_000]));
    assert_eq!(fails(&same_length, "other content of the same size"), 1);
    let page = b"<html>Log in to the network</html>";
    let portal = Server::new(|_, _, to| {
        send(to, "200 OK", &["Content-Type: text/html".into(), length(page.len())], page)
    });
    assert_eq!(fails(&portal, "34 bytes (text/html)"), 1);
    let longer = Server::new(|_, _, to| send(to, "200 OK", &[], &[content(), vec![0]].concat()));
    assert_eq!(fails(&longer, "more than 300000 bytes"), 1);
    let packed = Server::new(|_, _, to| {
        send(to, "200 OK", &["Content-Encoding: gzip".into(), length(300_000)], &content());
    });
    assert_eq!(fails(&packed, "does not hold the published file"), 1);
}

#[test]
fn bodies_without_a_length() {
    let dir = tempfile::tempdir().unwrap();
    let until_the_end = Server::new(|_, _, to| send(to, "200 OK", &[], &content()));
    pull(dir.path(), &until_the_end).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let chunked = Server::new(|n, _, to| {
        let all = content();
        let mut body = Vec::new();
        for chunk in all.chunks(7000).take(if n == 0 { 10 } else { usize::MAX }) {
            body.extend(format!("{:x}\r\n", chunk.len()).bytes());
            body.extend(chunk);
            body.extend(b"\r\n");
        }
        if n > 0 {
            body.extend(b"0\r\n\r\n");
        }
        send(to, "200 OK", &["Transfer-Encoding: chunked".into()], &body);
    });
    pull(dir.path(), &chunked).unwrap();
    assert_eq!(chunked.requests().len(), 2);
    let short = Server::new(|_, _, to| send(to, "200 OK", &[], &content()[..5]));
    assert_eq!(fails(&short, "ended after 5 of 300000 bytes"), 4);
}

#[test]
fn what_is_not_there_is_not_asked_for_again_and_what_is_ill_is() {
    for (status, requests) in [
        ("404 Not Found", 1),
        ("403 Forbidden", 1),
        ("204 No Content", 1),
        ("500 Internal Server Error", 4),
        ("502 Bad Gateway", 4),
        ("429 Too Many Requests", 4),
        ("408 Request Timeout", 4),
        ("425 Too Early", 4),
    ] {
        let server = Server::new(move |_, _, to| send(to, status, &[length(0)], b""));
        assert_eq!(fails(&server, status), requests, "{status}");
    }
    let dir = tempfile::tempdir().unwrap();
    let recovers = Server::new(|n, r, to| match n {
        0 => send(to, "503 Service Unavailable", &["Retry-After: 0".into(), length(0)], b""),
        1 => send(to, "500 Internal Server Error", &[length(0)], b""),
        2 => drop(to.shutdown(std::net::Shutdown::Both)),
        _ => serve(&content(), r, to),
    });
    pull(dir.path(), &recovers).unwrap();
}

#[test]
fn pauses_grow_or_are_as_the_server_asks() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::new(|n, _, to| {
        let wait = if n == 1 { "Retry-After: 1".into() } else { length(0) };
        send(to, "503 Service Unavailable", &[wait, length(0)], b"");
    });
    let mut pauses = Vec::new();
    let _ = puller(dir.path(), &server).pull(&entry(&content()), |p| {
        if let Progress::Again(why, pause) = p {
            assert!(why.contains("503"), "{why}");
            pauses.push(pause.as_millis());
        }
    });
    assert_eq!(pauses, [1, 1000, 4]);
}

#[test]
fn silence_ends() {
    // No answer, an answer that stalls after its headers, one that stalls in the middle.
    let silent = Server::new(|_, _, _to| std::thread::sleep(PATIENCE));
    assert_eq!(fails_within(&silent, "timeout", Duration::from_millis(300)), 4);
    let stalls = Server::new(|n, r, to| match n {
        0 => {
            cut(&content(), 0, to);
            std::thread::sleep(PATIENCE);
        }
        1 => {
            cut(&content(), 123_456, to);
            std::thread::sleep(PATIENCE);
        }
        _ => serve(&content(), r, to),
    });
    let dir = tempfile::tempdir().unwrap();
    let pulled = pull_within(dir.path(), &stalls, Duration::from_secs(1)).unwrap();
    assert_eq!((pulled.transferred, pulled.resumed), (300_000, 0), "no byte came twice");
    assert_eq!(stalls.requests()[2].start(), Some(123_456));
    // A slow server is no silent one: longer than the timeout in all, never between two pieces.
    let slow = Server::new(|_, _, to| {
        cut(&content(), 1, to);
        for piece in content()[1..].chunks(30_000) {
            std::thread::sleep(Duration::from_millis(300));
            let _ = to.write_all(piece);
        }
    });
    let dir = tempfile::tempdir().unwrap();
    pull_within(dir.path(), &slow, Duration::from_secs(2)).unwrap();
    assert_eq!(slow.requests().len(), 1);
}

#[test]
fn nonsense_and_closed_doors() {
    let nonsense = Server::new(|_, _, to| drop(to.write_all(b"220 ready for mail\r\n\r\n")));
    fails(&nonsense, "cannot fetch");
    let endless = Server::new(|_, _, to| {
        let _ = to.write_all(b"HTTP/1.1 200 OK\r\n");
        while to.write_all(&[b'x'; 4096]).is_ok() {}
    });
    fails(&endless, "cannot fetch");
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    fails(&Server { address: gone, requests: Arc::default() }, "refused");
    let dir = tempfile::tempdir().unwrap();
    for address in ["no address", "ftp://127.0.0.1/x", "http://"] {
        let e =
            Puller::new(dir.path()).url(address).attempts(1, Duration::ZERO).pull(&entry(&content()), |_| {});
        assert!(e.is_err(), "{address}");
    }
}

#[test]
fn two_at_once_fetch_it_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::new(|_, r, to| {
        std::thread::sleep(Duration::from_millis(300));
        serve(&content(), r, to);
    });
    let waited = AtomicUsize::new(0);
    let pulled: Vec<Pulled> = std::thread::scope(|s| {
        let one = || {
            let content = content();
            puller(dir.path(), &server).pull(&entry(&content), |p| {
                waited.fetch_add(usize::from(p == Progress::Waiting), Ordering::SeqCst);
            })
        };
        let all: Vec<_> = (0..4).map(|_| s.spawn(one)).collect();
        all.into_iter().map(|t| t.join().unwrap().unwrap()).collect()
    });
    assert_eq!(pulled.iter().filter(|p| p.transferred > 0).count(), 1);
    assert_eq!(waited.load(Ordering::SeqCst), 3);
    assert_eq!(server.requests().len(), 1);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// The program, with its models in `folder`.
fn models(folder: &Path, args: &[&str]) -> std::process::Output {
    let mut c = command();
    for name in [
        "ALL_PROXY",
        "all_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "HTTP_PROXY",
        "http_proxy",
        "NO_PROXY",
        "no_proxy",
    ] {
        c.env_remove(name);
    }
    c.env("SALTICA_MODELS", folder).arg("models").args(args).output().unwrap()
}

#[test]
fn the_program_says_what_happened() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::new(|_, _, to| send(to, "404 Not Found", &[length(0)], b""));
    let url = format!("{}/m.onnx", server.address);
    let o = models(dir.path(), &["pull", "yolox-nano", "--url", &url]);
    assert_eq!(o.status.code(), Some(2));
    assert!(stdout(&o).is_empty());
    assert!(stderr(&o).contains("404") && stderr(&o).contains("--url"), "{}", stderr(&o));
    for (args, part) in [
        (&["pull", "yolox"][..], "did you mean"),
        (&["pull"], "NAME"),
        (&["pull", "yunet", "fastestdet", "--url", "http://x"], "give one name"),
    ] {
        let o = models(dir.path(), args);
        assert_eq!(o.status.code(), Some(2), "{args:?}");
        assert!(stderr(&o).contains(part), "{args:?}: {}", stderr(&o));
    }
    let o = models(dir.path(), &["pull", "saltica-nano"]);
    assert_eq!((o.status.code(), stdout(&o)), (Some(0), String::new()));
    assert!(stderr(&o).contains("inside the program"), "{}", stderr(&o));
    // A folder that cannot be made.
    let o = models(Path::new("/proc/models"), &["pull", "yunet"]);
    assert_eq!(o.status.code(), Some(2));
    assert!(stderr(&o).contains("cannot make the folder /proc/models"), "{}", stderr(&o));

    let o = models(dir.path(), &["list"]);
    for part in ["saltica-nano", "yolox-nano", "Apache-2.0", "models pull"] {
        assert!(stdout(&o).contains(part), "{part}: {}", stdout(&o));
    }
    let long = stdout(&models(dir.path(), &["list", "--long"]));
    assert!(long.contains("695e750a5d5754bb5a8d5325643b59282191a7e7a564e435a415fd3c578eab14"), "{long}");
    let records = Schema::load().check(&stdout(&models(dir.path(), &["list", "--json"])));
    assert_eq!(records.len(), catalogue().len());
    assert!(records[1]["path"].is_null() && records[1]["url"].as_str().unwrap().starts_with("https://"));
    std::fs::write(dir.path().join("yunet.onnx"), "damaged").unwrap();
    let records = Schema::load().check(&stdout(&models(dir.path(), &["list", "--json"])));
    assert!(records.last().unwrap()["problem"].as_str().unwrap().contains("not the published file"));
}

#[test]
fn a_full_disk_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::new(|_, _, to| {
        send(to, "200 OK", &[length(3_660_092)], &vec![0; 3_660_092]);
    });
    // A limit on the size of files stands for the end of the disk: a write fails the same way.
    let program = env!("CARGO_BIN_EXE_saltica");
    let script = format!(
        "trap '' XFSZ; ulimit -f 512; exec {program} models pull yolox-nano --url {}/m.onnx",
        server.address
    );
    let o = std::process::Command::new("sh")
        .args(["-c", &script])
        .env("SALTICA_MODELS", dir.path())
        .output()
        .unwrap();
    assert_eq!(o.status.code(), Some(2), "{}", stderr(&o));
    assert!(
        stderr(&o).contains("cannot write") && stderr(&o).contains("yolox-nano.onnx.part"),
        "{}",
        stderr(&o)
    );
    let bytes: u64 =
        std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes < 1000, "{bytes} bytes are left on a full disk");
}

#[test]
fn an_interrupted_pull_leaves_no_model() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::new(|_, _, to| {
        send(to, "200 OK", &[length(3_660_092)], &[0; 1000]);
        std::thread::sleep(Duration::from_secs(20));
    });
    let mut child = command_that_heeds_signals()
        .args(["models", "pull", "yolox-nano", "--url", &format!("{}/m.onnx", server.address)])
        .env("SALTICA_MODELS", dir.path())
        .spawn()
        .unwrap();
    let part = dir.path().join(".yolox-nano.onnx.part");
    while part.metadata().map_or(0, |m| m.len()) < 1000 {
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(
        std::process::Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!file(dir.path()).exists());
    assert!(part.exists(), "the next pull goes on from here");
}

#[test]
fn proxies_of_the_environment_are_used() {
    let dir = tempfile::tempdir().unwrap();
    let proxy = Server::new(|_, _, to| send(to, "502 Bad Gateway", &[length(0)], b""));
    let run = |no_proxy: &str| {
        let args = ["models", "pull", "yunet", "--attempts", "1", "--url", "http://models.invalid/m.onnx"];
        let mut c = command();
        c.env("SALTICA_MODELS", dir.path()).env("ALL_PROXY", &proxy.address).env("NO_PROXY", no_proxy);
        c.args(args).output().unwrap()
    };
    let o = run("");
    assert_eq!(o.status.code(), Some(2), "{}", stderr(&o));
    assert_eq!(proxy.requests().len(), 1, "{}", stderr(&o));
    assert!(proxy.requests()[0].line.contains("models.invalid"), "{:?}", proxy.requests());
    run("models.invalid");
    assert_eq!(proxy.requests().len(), 1, "NO_PROXY is obeyed");
}

/// Every public entry against the published file itself, where the test data has it.
#[test]
fn the_table_is_true() {
    for e in catalogue() {
        if let Some(url) = e.url() {
            assert!(url.starts_with("https://") && url.contains(".onnx"), "{url}");
            // The address names a commit, whose files never change.
            let commit = |p: &str| p.len() == 40 && p.bytes().all(|b| b.is_ascii_hexdigit());
            assert!(url.split('/').any(commit), "{url}");
        }
        assert!(e.sha256().len() == 64 && e.sha256().bytes().all(|b| b.is_ascii_hexdigit()), "{}", e.name);
    }
    let nano = Model::built_in().detector(&Detector::builder()).unwrap();
    agrees(&catalogue()[0], &nano);

    let Some(shared) = shared() else { return };
    let files = [
        ("yolox-nano", "yolox_nano.onnx"),
        ("fastestdet", "fastestdet_352.onnx"),
        ("yunet-320", "yunet_n_320_320.onnx"),
        ("yunet-640", "yunet_n_640_640.onnx"),
        ("yunet", "yunet_n_dynamic.onnx"),
    ];
    assert_eq!(files.len() + 1, catalogue().len());
    for (name, file_name) in files {
        let dir = tempfile::tempdir().unwrap();
        let e = catalogue().iter().find(|e| e.name == name).unwrap();
        let published = std::fs::read(shared.join("data/models").join(file_name)).unwrap();
        assert_eq!((e.bytes(), e.sha256()), (published.len() as u64, sha256_hex(&published)), "{name}");
        // Fetched by the program from a server that has it, then found by its name.
        let served = published.clone();
        let server = Server::new(move |_, r, to| serve(&served, r, to));
        let url = format!("{}/{file_name}", server.address);
        let o = models(dir.path(), &["pull", name, "--url", &url, "--json"]);
        assert_eq!(o.status.code(), Some(0), "{}", stderr(&o));
        let pulled = &Schema::load().check(&stdout(&o))[0];
        assert_eq!((&pulled["name"], &pulled["bytes"]), (&name.into(), &published.len().into()));
        let listed = Schema::load().check(&stdout(&models(dir.path(), &["list", "--json"])));
        assert_eq!(listed.iter().find(|r| r["name"] == name).unwrap()["path"], pulled["path"]);
        let found = e.fetched(&[dir.path().to_owned()]).unwrap().unwrap();
        let builder = Detector::builder();
        let builder = if e.input.is_none() { builder.size(320, 320) } else { builder };
        agrees(e, &builder.load(&found).unwrap());
        let o = command()
            .args([
                "inspect",
                name,
                "--imgsz",
                &e.input.map_or("320".into(), |(w, h)| format!("{w}x{h}")),
                "--json",
            ])
            .env("SALTICA_MODELS", dir.path())
            .output()
            .unwrap();
        assert_eq!(Schema::load().check(&stdout(&o))[0]["sha256"], e.sha256());
    }
}

/// What the table says of a model is what the model says.
fn agrees(e: &Entry, d: &Detector) {
    assert_eq!(d.head().classes().unwrap_or(1), e.classes, "{}", e.name);
    assert_eq!(d.head().spec().input_spec().to_string(), e.preprocessing, "{}", e.name);
    if let Some(size) = e.input {
        assert_eq!(d.head().input(), size, "{}", e.name);
    }
}

#[test]
fn only_files_are_taken_for_models() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::new(|_, r, to| serve(&content(), r, to));
    for (place, what) in [("yunet.onnx", "pipe"), ("yunet.onnx", "folder")] {
        let path = dir.path().join(place);
        if what == "pipe" {
            assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        } else {
            std::fs::create_dir(&path).unwrap();
        }
        let said = format!("yunet.onnx is a {what}, not the model's file");
        let listed = Schema::load().check(&stdout(&models(dir.path(), &["list", "--json"])));
        let yunet = listed.iter().find(|r| r["name"] == "yunet").unwrap();
        assert!(yunet["problem"].as_str().unwrap().contains(&said), "{yunet}");
        let o = command()
            .args(["detect", "-m", "yunet", "sim:", "--no-save"])
            .env("SALTICA_MODELS", dir.path())
            .output()
            .unwrap();
        assert!(o.status.code() == Some(2) && stderr(&o).contains(&said), "{}", stderr(&o));
        let url = format!("{}/m.onnx", server.address);
        let o = models(dir.path(), &["pull", "yunet", "--url", &url]);
        assert!(o.status.code() == Some(2) && stderr(&o).contains(&format!("is a {what}")), "{}", stderr(&o));
        drop((std::fs::remove_file(&path), std::fs::remove_dir(&path)));
    }
    assert!(server.requests().is_empty(), "nothing is fetched for a place that is taken");
    let fifo = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let o = command().args(["detect", "sim:", "--no-save", "-m"]).arg(&fifo).output().unwrap();
    assert!(o.status.code() == Some(2) && stderr(&o).contains("not a regular file"), "{}", stderr(&o));
}

#[test]
fn links_lead_no_bytes_elsewhere() {
    let server = Server::new(|_, r, to| serve(&content(), r, to));
    for place in [".yolox-nano.onnx.part", ".yolox-nano.onnx.part.json"] {
        for target in ["mine", "nothing"] {
            let dir = tempfile::tempdir().unwrap();
            let mine = dir.path().join("mine");
            std::fs::write(&mine, "precious").unwrap();
            std::os::unix::fs::symlink(dir.path().join(target), dir.path().join(place)).unwrap();
            let e = puller(dir.path(), &server).pull(&entry(&content()), |_| {}).unwrap_err().to_string();
            assert!(e.contains(place) && e.contains("move it away"), "{e}");
            assert_eq!(std::fs::read(&mine).unwrap(), b"precious");
            assert!(!dir.path().join("nothing").exists());
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let part = dir.path().join(".yolox-nano.onnx.part");
    assert!(std::process::Command::new("mkfifo").arg(&part).status().unwrap().success());
    let e = puller(dir.path(), &server).pull(&entry(&content()), |_| {}).unwrap_err().to_string();
    assert!(e.contains("no regular file"), "{e}");
    assert!(server.requests().is_empty());
}

#[test]
fn what_is_told_fits_to_what_was_asked() {
    let dir = tempfile::tempdir().unwrap();
    let o = models(dir.path(), &["pull", "nope"]);
    assert_eq!(o.status.code(), Some(2));
    assert!(stderr(&o).contains("Known models: saltica-nano"), "{}", stderr(&o));
    assert!(!stderr(&o).contains("file"), "files cannot be pulled: {}", stderr(&o));
    let pulled = &Schema::load().check(&stdout(&models(dir.path(), &["pull", "saltica-nano", "--json"])))[0];
    assert_eq!((&pulled["name"], &pulled["built_in"]), (&"saltica-nano".into(), &true.into()));
    assert!(pulled["path"].is_null() && pulled["url"].is_null());

    let wrong = dir.path().join("wrong");
    let detect = |name: &str| {
        let mut c = command();
        c.args(["detect", "sim:", "--no-save", "-m", name]).env("SALTICA_MODELS", &wrong);
        stderr(&c.output().unwrap())
    };
    for kind in ["is not there", "is no folder"] {
        for name in ["yunet", "mine"] {
            let e = detect(name);
            assert!(e.contains(wrong.to_str().unwrap()), "{name}: {e}");
        }
        let listed = models(&wrong, &["list"]);
        let said = format!("{}, which SALTICA_MODELS names, {kind}", wrong.display());
        assert!(listed.status.code() == Some(0) && stderr(&listed).contains(&said), "{}", stderr(&listed));
        std::fs::write(&wrong, "").unwrap();
    }
}
