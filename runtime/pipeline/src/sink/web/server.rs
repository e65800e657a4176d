//! A small web server: GET and HEAD, no bodies in requests, a thread a connection, and a limit on everything.
//!
//! It is for a page that a few people look at and for a scraper. A request's head has to arrive whole within
//! [`Limits::head`], however slowly its bytes trickle; an answer has to be taken within [`Limits::answer`], a part of a
//! stream likewise; connections beyond [`Limits::connections`] are told 503 and closed. Nothing here is ever waited for by
//! the pipeline. Paths are only compared with the known ones, never opened as files.
//!
//! Bound to a loopback address it answers only to the names of this machine's loopback, so that a web page from elsewhere
//! cannot read the cameras through a name that it lets point here (DNS rebinding).

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::sink::is_retry;
use crate::{Error, ErrorKind, Result};

/// What a request may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Time for a request's head, from the connection's or the last answer's end.
    pub head: Duration,
    /// Time for an answer, or a part of a stream, to be taken.
    pub answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 48,
            head_bytes: 8192,
            head: Duration::from_secs(10),
            answer: Duration::from_secs(10),
        }
    }
}

/// Headers a request may have.
const HEADERS: usize = 64;
/// How often a waiting connection looks whether the server stops.
const SLICE: Duration = Duration::from_millis(200);

/// A request, as far as anybody here cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The path, without the query; percent signs not decoded (no path of ours has any).
    pub path: String,
    /// What stands behind the question mark.
    pub query: String,
}

impl Request {
    /// The value of a key of the query.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.split_once('=').filter(|(k, _)| *k == key).map(|(_, v)| v))
    }
}

/// Writes the body of a stream.
pub type WriteBody = Box<dyn FnOnce(&mut Client<'_>) -> io::Result<()> + Send>;

/// An answer.
pub enum Answer {
    /// A whole body.
    Whole {
        /// HTTP status.
        status: u16,
        /// MIME type.
        mime: &'static str,
        /// The body.
        body: Body,
    },
    /// A body without a known end: written by the function until it errors or the client goes.
    Stream {
        /// MIME type.
        mime: String,
        /// Writes the body.
        write: WriteBody,
    },
}

/// Bytes of an answer.
pub enum Body {
    /// Part of the program.
    Static(&'static [u8]),
    /// Made for this answer.
    Owned(Vec<u8>),
    /// Shared with others.
    Shared(Arc<Vec<u8>>),
}

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        match self {
            Body::Static(b) => b,
            Body::Owned(b) => b,
            Body::Shared(b) => b,
        }
    }
}

impl Answer {
    /// An answer made of text.
    pub fn text(status: u16, mime: &'static str, text: impl Into<String>) -> Answer {
        Answer::Whole { status, mime, body: Body::Owned(text.into().into_bytes()) }
    }

    /// An error in plain text.
    pub fn error(status: u16, text: &str) -> Answer {
        Answer::text(status, "text/plain; charset=utf-8", format!("{text}\n"))
    }
}

/// Answers requests. Called from many threads.
pub trait Handler: Send + Sync + 'static {
    /// The answer to a request.
    fn answer(&self, request: &Request) -> Answer;
}

/// Who asked: what a stream is written to.
pub struct Client<'a> {
    stream: &'a TcpStream,
    stop: &'a AtomicBool,
    within: Duration,
}

impl Client<'_> {
    /// Writes all of it.
    ///
    /// # Errors
    /// When the client went away, did not take it in time, or the server stops.
    pub fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let deadline = Instant::now() + self.within;
        parts.iter().try_for_each(|p| self.send_until(p, deadline))
    }

    /// Whether the server stops.
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn send_until(&self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.is_stopping() || Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match (&mut &*self.stream).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => bytes = &bytes[n..],
                Err(e) if is_retry(&e) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// Reads a listen address: `:8080` and `8080` are loopback, everything else says where: `0.0.0.0:8080`, `[::]:8080`,
/// `192.168.1.5:8080`, `localhost:8080`.
///
/// # Errors
/// [`ErrorKind::Value`] for anything else.
pub fn address(text: &str) -> Result<SocketAddr> {
    let text = text.trim();
    let local = |port: &str| port.parse().ok().map(|p: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, p)));
    let port = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':')).unwrap_or(text);
    let found = local(port).or_else(|| text.parse().ok());
    found.ok_or_else(|| {
        Error::new(
            ErrorKind::Value,
            format!("'{text}' is no address to listen at: expected :8080 (this machine only), 0.0.0.0:8080 or [::]:8080 (everybody who reaches it), or another IP address with a port"),
        )
    })
}

/// A running server; stops when dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    open: AtomicUsize,
    limits: Limits,
    loopback: bool,
}

impl Server {
    /// Listens at `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] when somebody else listens there, [`ErrorKind::Io`] when the system refuses otherwise.
    pub fn start(address: SocketAddr, limits: Limits, handler: Arc<dyn Handler>) -> Result<Server> {
        let listener = TcpListener::bind(address).map_err(|e| match e.kind() {
            io::ErrorKind::AddrInUse => Error::new(
                ErrorKind::Busy,
                format!("cannot listen at {address}: another program does already; choose another port"),
            ),
            io::ErrorKind::PermissionDenied => Error::new(
                ErrorKind::Io,
                format!("cannot listen at {address}: {e}; ports from 1024 on need no privilege"),
            ),
            _ => Error::new(ErrorKind::Io, format!("cannot listen at {address}: {e}")),
        })?;
        let io = |e: io::Error| Error::new(ErrorKind::Io, format!("cannot listen at {address}: {e}"));
        listener.set_nonblocking(true).map_err(io)?;
        let address = listener.local_addr().map_err(io)?;
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            limits,
            loopback: address.ip().is_loopback(),
        });
        let thread = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name("web".into())
                .spawn(move || listen(&listener, &shared, &handler))
                .map_err(io)?
        };
        Ok(Server { address, shared, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Stops listening and closes connections; waits a moment for them.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
        let deadline = Instant::now() + 3 * SLICE;
        while self.connections() > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>, handler: &Arc<dyn Handler>) {
    let slice = Timespec { tv_sec: 0, tv_nsec: SLICE.subsec_nanos().into() };
    while !shared.stop.load(Ordering::Relaxed) {
        let mut fds = [PollFd::new(listener, PollFlags::IN)];
        if !matches!(poll(&mut fds, Some(&slice)), Ok(1..)) {
            continue;
        }
        let (stream, peer) = match listener.accept() {
            Ok(new) => new,
            Err(e) if is_retry(&e) => continue,
            Err(e) => {
                // Out of descriptors, most likely: without a pause this would spin.
                log::warn!("web: a connection could not be taken: {e}");
                std::thread::sleep(SLICE);
                continue;
            }
        };
        let place = Place::take(shared);
        if stream.set_nonblocking(false).and_then(|()| stream.set_write_timeout(Some(SLICE))).is_err() {
            continue;
        }
        let Some(place) = place else {
            log::warn!("web: {peer} turned away: {} connections are open", shared.limits.connections);
            let busy = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\nRetry-After: 5\r\n\r\n";
            // A new connection's buffer has room for this.
            drop((&stream).write(busy));
            continue;
        };
        let handler = Arc::clone(handler);
        let started = std::thread::Builder::new()
            .name("web-client".into())
            .stack_size(256 << 10)
            .spawn(move || serve(&stream, &place.0, handler.as_ref()));
        if let Err(e) = started {
            log::warn!("web: no thread for a connection: {e}");
        }
    }
}

/// One of the connections there may be.
struct Place(Arc<Shared>);

impl Place {
    fn take(shared: &Arc<Shared>) -> Option<Place> {
        let more = |n| (n < shared.limits.connections).then_some(n + 1);
        shared.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Place(Arc::clone(shared)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request's head, read.
struct Head {
    request: Request,
    is_head: bool,
    keep: bool,
}

/// Why a connection ends without an answer to the request, or with this one.
enum Refused {
    Silently,
    With(u16, &'static str),
}

fn serve(stream: &TcpStream, shared: &Shared, handler: &dyn Handler) {
    let mut buffer = Vec::new();
    loop {
        let mut client = Client { stream, stop: &shared.stop, within: shared.limits.answer };
        match read(stream, shared, &mut buffer) {
            Ok(head) => {
                let answer = handler.answer(&head.request);
                if !matches!(send(&mut client, &head, answer), Ok(true)) {
                    return finish(stream);
                }
            }
            Err(Refused::Silently) => return,
            Err(Refused::With(status, text)) => {
                let head = Head {
                    request: Request { path: String::new(), query: String::new() },
                    is_head: false,
                    keep: false,
                };
                drop(send(&mut client, &head, Answer::error(status, text)));
                return finish(stream);
            }
        }
    }
}

/// Closes so that what was sent arrives, though the client may have sent more than was read.
fn finish(stream: &TcpStream) {
    drop(stream.shutdown(std::net::Shutdown::Write));
    drop(stream.set_read_timeout(Some(SLICE)));
    let mut rest = [0; 1024];
    for _ in 0..16 {
        if !matches!((&mut &*stream).read(&mut rest), Ok(1..)) {
            break;
        }
    }
}

fn read(stream: &TcpStream, shared: &Shared, buffer: &mut Vec<u8>) -> std::result::Result<Head, Refused> {
    let deadline = Instant::now() + shared.limits.head;
    let mut block = [0; 2048];
    loop {
        // What came with the request before is looked at first.
        if !buffer.is_empty()
            && let Some((head, bytes)) = parse(buffer, shared)?
        {
            buffer.drain(..bytes);
            return Ok(head);
        }
        if buffer.len() >= shared.limits.head_bytes {
            return Err(Refused::With(431, "the request's head is too large"));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(if buffer.is_empty() {
                Refused::Silently
            } else {
                Refused::With(408, "the request took too long")
            });
        }
        if shared.stop.load(Ordering::Relaxed)
            || stream.set_read_timeout(Some(left.min(SLICE).max(Duration::from_millis(1)))).is_err()
        {
            return Err(Refused::Silently);
        }
        match (&mut &*stream).read(&mut block) {
            Ok(0) => return Err(Refused::Silently),
            Ok(n) => buffer.extend_from_slice(&block[..n]),
            Err(e) if is_retry(&e) => {}
            Err(_) => return Err(Refused::Silently),
        }
    }
}

/// The request at the start of `buffer` and its bytes, or None if it is not all there.
fn parse(buffer: &[u8], shared: &Shared) -> std::result::Result<Option<(Head, usize)>, Refused> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let bytes = match parsed.parse(buffer) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Refused::With(431, "the request has too many headers"));
        }
        Err(_) => return Err(Refused::With(400, "this is no HTTP request")),
    };
    let version = parsed.version.unwrap_or(0);
    let header = |name: &str| {
        let mut found = parsed.headers.iter().filter(|h| h.name.eq_ignore_ascii_case(name));
        let first = found.next().and_then(|h| std::str::from_utf8(h.value).ok()).map(str::trim);
        (first, found.next().is_some())
    };
    // Bodies are refused, so that nobody disagrees about where the next request begins.
    let mut lengths = parsed.headers.iter().filter(|h| h.name.eq_ignore_ascii_case("content-length"));
    let length = lengths.next().map(|h| h.value.trim_ascii());
    if lengths.next().is_some() {
        return Err(Refused::With(400, "at most one Content-Length header expected"));
    }
    let coded = parsed.headers.iter().any(|h| h.name.eq_ignore_ascii_case("transfer-encoding"));
    if coded || length.is_some_and(|l| l != b"0") {
        return Err(Refused::With(413, "requests have no bodies here"));
    }
    let is_head = match parsed.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Refused::With(405, "only GET and HEAD are known here")),
    };
    let (host, twice) = header("host");
    if twice || (version == 1 && host.is_none()) {
        return Err(Refused::With(400, "one Host header expected"));
    }
    if shared.loopback && host.is_some_and(|h| !is_loopback_name(h)) {
        return Err(Refused::With(421, "this server listens for this machine only: ask for localhost"));
    }
    let target = parsed.path.unwrap_or("/");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let connection = header("connection").0.unwrap_or("").to_ascii_lowercase();
    let says = |word: &str| connection.split(',').any(|w| w.trim() == word);
    let keep = if version == 1 { !says("close") } else { says("keep-alive") };
    let request = Request { path: path.to_owned(), query: query.to_owned() };
    Ok(Some((Head { request, is_head, keep }, bytes)))
}

fn is_loopback_name(host: &str) -> bool {
    // "[::1]:8080", "127.0.0.1:8080", "localhost:8080", "localhost."
    let name = match host.strip_prefix('[').and_then(|h| h.split_once(']')) {
        Some((address, _)) => address,
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let is_address = match name.parse::<IpAddr>() {
        Ok(IpAddr::V4(a)) => a.is_loopback(),
        Ok(IpAddr::V6(a)) => a == Ipv6Addr::LOCALHOST,
        Err(_) => false,
    };
    is_address || name == "localhost" || name.ends_with(".localhost")
}

/// Sends an answer; whether another request may follow.
fn send(client: &mut Client<'_>, head: &Head, answer: Answer) -> io::Result<bool> {
    let (status, mime, length) = match &answer {
        Answer::Whole { status, mime, body } => (*status, *mime, Some(body.as_ref().len())),
        Answer::Stream { mime, .. } => (200, mime.as_str(), None),
    };
    let keep = head.keep && length.is_some();
    let mut text = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: {mime}\r\nConnection: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
         Content-Security-Policy: default-src 'self'; img-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'\r\n",
        phrase(status),
        if keep { "keep-alive" } else { "close" },
    );
    if status == 405 {
        text.push_str("Allow: GET, HEAD\r\n");
    }
    if let Some(length) = length {
        text.push_str(&format!("Content-Length: {length}\r\n"));
    }
    text.push_str("\r\n");
    match answer {
        _ if head.is_head => client.send(&[text.as_bytes()])?,
        Answer::Whole { body, .. } => client.send(&[text.as_bytes(), body.as_ref()])?,
        Answer::Stream { write, .. } => {
            client.send(&[text.as_bytes()])?;
            write(client)?;
        }
    }
    // The body of a stream ends with the connection.
    Ok(keep)
}

const fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
