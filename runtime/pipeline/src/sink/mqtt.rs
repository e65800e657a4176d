//! Results as MQTT messages, for home automation, dashboards and whatever else listens to a broker.
//!
//! `mqtt://user:password@host:1883/topic`, `mqtts://` for TLS. Each result is one message (record `result`) to
//! `TOPIC/SOURCE_ID`; `TOPIC/status` is retained and says `online` while the program is connected and `offline` otherwise
//! (the broker says that by itself when the connection is lost).
//!
//! This end only publishes, so it speaks the seven packets of that (`packet`) by itself, in either version of the protocol.
//! It runs on its sink's thread: a connection that cannot be had is tried again after 1, 2, 4, up to 60 s, and results that
//! come meanwhile are counted as failed at once, since nobody wants old ones later. With `qos=1` messages that the broker
//! has not confirmed are sent again after a reconnection; beyond [`Mqtt::WINDOW`] of them the oldest are given up.
//!
//! Where the password comes from, first found: `password-file`, the address, `$SALTICA_MQTT_PASSWORD`. It is never shown.

mod link;
mod packet;

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use self::link::Link;
use self::packet::{Ack, Connect, Version};
use super::uri::SinkUri;
use super::{Flow, FrameResult, Sink};
use crate::source::decode;
use crate::{Error, ErrorKind, Result};

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq)]
struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Where and how to publish.
#[derive(Clone, Debug)]
pub struct Options {
    host: String,
    port: u16,
    topic: String,
    user: Option<String>,
    password: Option<Secret>,
    client: String,
    version: Version,
    qos: u8,
    retain: bool,
    keep_alive: Duration,
    tls: Option<TlsFiles>,
}

#[derive(Clone, Debug, Default)]
struct TlsFiles {
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Options {
    /// What an address says.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for a missing host, a topic that cannot be published to, or values that their keys do not
    /// allow; [`ErrorKind::Io`] for a password file that cannot be read.
    pub fn read(uri: &SinkUri) -> Result<Options> {
        let tls = uri.scheme().name == "mqtts";
        let rest = uri.target().strip_prefix("//").unwrap_or(uri.target());
        // The first '/' ends the authority, whatever follows.
        let (authority, topic) = rest.split_once('/').unwrap_or((rest, ""));
        if topic.contains('@') && authority.contains(['@', ':']) {
            // Either a password that holds a '/', or a topic that holds a '@': a wrong guess would send one to a stranger.
            return Err(uri.bad(
                "an @ stands behind the first / after the host: write it %40 if it is part of the topic, and / as %2F in a password",
            ));
        }
        let (login, authority) = match authority.rsplit_once('@') {
            Some((login, host)) => (Some(login), host),
            None => (None, authority),
        };
        let (host, port) = match authority.strip_prefix('[').and_then(|a| a.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        if host.is_empty() {
            return Err(uri.bad("no host is named: expected one such as mqtt://broker.local/saltica"));
        }
        let port = match port {
            None => 1883 + 7000 * u16::from(tls),
            Some(p) => p.parse().map_err(|_| uri.bad("the port is no number from 1 to 65535"))?,
        };
        let topic = decode(topic.trim_end_matches('/'));
        let topic = if topic.is_empty() { "saltica".to_owned() } else { topic };
        if topic.contains(['+', '#', '\0']) || topic.len() > 1000 {
            return Err(uri.bad(format!(
                "'{topic}' is no topic to publish to: no +, # expected, and at most 1000 bytes"
            )));
        }
        let (user, password) = match login {
            None => (None, None),
            Some(login) => match login.split_once(':') {
                Some((user, password)) => (Some(decode(user)), Some(decode(password))),
                None => (Some(decode(login)), None),
            },
        };
        let from_file = match uri.text("password-file") {
            None => None,
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|e| {
                    Error::new(ErrorKind::Io, format!("{uri}: cannot read the password file {path}: {e}"))
                })?;
                Some(text.lines().next().unwrap_or_default().to_owned())
            }
        };
        let password = from_file
            .or(password)
            .or_else(|| user.as_ref().and_then(|_| std::env::var("SALTICA_MQTT_PASSWORD").ok()));
        if password.is_some() && user.is_none() {
            return Err(uri.bad("a password without a user: expected mqtt://user@host/topic"));
        }
        let file = |key: &str| uri.text(key).map(PathBuf::from);
        let files = TlsFiles { ca: file("ca"), cert: file("cert"), key: file("key") };
        if !tls && (files.ca.is_some() || files.cert.is_some() || files.key.is_some()) {
            return Err(uri.bad("ca, cert and key are for mqtts: over mqtt: nothing is encrypted"));
        }
        if files.cert.is_some() != files.key.is_some() {
            return Err(uri.bad("cert and key go together"));
        }
        let version = uri.parsed("version", "3 or 5", |t| match t {
            "3" | "3.1.1" => Some(Version::V311),
            "5" | "5.0" => Some(Version::V5),
            _ => None,
        })?;
        let options = Options {
            host: host.to_owned(),
            port,
            topic,
            user,
            password: password.map(Secret),
            client: uri.text("client").map_or_else(client_id, String::from),
            version: version.unwrap_or(Version::V311),
            qos: uri.number("qos", 0, 1)?.unwrap_or(0),
            retain: uri.yes("retain")?.unwrap_or(false),
            keep_alive: uri.seconds("keep-alive", 1.0, 65535.0)?.unwrap_or(Duration::from_secs(30)),
            tls: tls.then_some(files),
        };
        if options.password.is_some() && options.tls.is_none() && !is_local(&options.host) {
            log::warn!("{uri}: the password travels unencrypted; use mqtts: if the broker can");
        }
        Ok(options)
    }

    fn name(&self) -> String {
        let scheme = if self.tls.is_some() { "mqtts" } else { "mqtt" };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{scheme}://{host}:{}/{}", self.port, self.topic)
    }
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|a| a.is_loopback())
}

/// Different for each process of each machine, the same while this one lives: a broker ends the older of two connections
/// with the same id.
fn client_id() -> String {
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let seed = format!("{machine}{}{:?}", std::process::id(), crate::frame::monotonic());
    // FNV-1a, 64 bits.
    let hash =
        seed.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    // 3.1.1 promises 23 letters and digits.
    format!("saltica{hash:016x}")
}

/// Publishes results.
#[derive(Debug)]
pub struct Mqtt {
    name: String,
    options: Options,
    tls: Option<link::Tls>,
    link: Option<Link>,
    backoff: Backoff,
    /// The next packet id.
    next_id: u16,
    /// Sent with QoS 1 and not confirmed, oldest first.
    open: VecDeque<(u16, Vec<u8>)>,
    payload: Vec<u8>,
    packet: Vec<u8>,
    topic: String,
    /// Messages that were taken and will not be confirmed any more: too many were open, or the end came.
    given_up: u64,
}

#[derive(Debug)]
struct Backoff {
    next: Option<Instant>,
    pause: Duration,
    why: String,
}

impl Backoff {
    const FIRST: Duration = Duration::from_secs(1);
    const MOST: Duration = Duration::from_secs(60);
}

impl Mqtt {
    /// Messages that may wait for the broker's confirmation.
    pub const WINDOW: usize = 64;
    /// How long connecting, and each wait for the broker, may take.
    const PATIENCE: Duration = Duration::from_secs(5);

    /// As the options say. Connects when the first result comes, or a moment later.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] and [`ErrorKind::Value`] for certificate files that cannot be read or used.
    pub fn new(options: Options) -> Result<Mqtt> {
        let name = options.name();
        let tls = match &options.tls {
            Some(files) => Some(link::Tls::new(files, &options.host).map_err(|e| e.at(&name))?),
            None => None,
        };
        Ok(Mqtt {
            name,
            options,
            tls,
            link: None,
            backoff: Backoff { next: None, pause: Backoff::FIRST, why: String::new() },
            next_id: 0,
            open: VecDeque::with_capacity(Self::WINDOW),
            payload: Vec::new(),
            packet: Vec::new(),
            topic: String::new(),
            given_up: 0,
        })
    }

    /// Makes sure there is a connection.
    fn connect(&mut self) -> Result<()> {
        if self.link.is_some() {
            return Ok(());
        }
        let now = Instant::now();
        if self.backoff.next.is_some_and(|next| now < next) {
            return Err(Error::new(ErrorKind::Gone, self.backoff.why.clone()));
        }
        match self.try_connect() {
            Ok(link) => {
                self.link = Some(link);
                (self.backoff.next, self.backoff.pause) = (None, Backoff::FIRST);
                log::info!("{}: connected", self.name);
                self.greet()
            }
            Err(e) => Err(self.disconnected(e)),
        }
    }

    fn try_connect(&mut self) -> Result<Link> {
        let o = &self.options;
        let mut link = Link::open(&o.host, o.port, self.tls.as_ref(), Self::PATIENCE)?;
        let connect = Connect {
            version: o.version,
            client: &o.client,
            user: o.user.as_deref(),
            password: o.password.as_ref().map(|p| p.0.as_str()),
            keep_alive: o.keep_alive.as_secs() as u16,
            will: Some((&format!("{}/status", o.topic), b"offline")),
        };
        self.packet.clear();
        connect.write(&mut self.packet)?;
        link.send(&self.packet)?;
        let deadline = Instant::now() + Self::PATIENCE;
        loop {
            match link.receive(deadline.saturating_duration_since(Instant::now()), o.version)? {
                Some(Ack::Connected) => return Ok(link),
                Some(Ack::Refused { why, permanent }) => {
                    let kind = if permanent { ErrorKind::Unsupported } else { ErrorKind::Gone };
                    return Err(Error::new(kind, format!("the broker refuses the connection: {why}")));
                }
                Some(_) => {}
                None => return Err(Error::new(ErrorKind::Timeout, "the broker does not answer")),
            }
        }
    }

    /// What is to be said first on a new connection.
    fn greet(&mut self) -> Result<()> {
        self.packet.clear();
        let topic = format!("{}/status", self.options.topic);
        packet::publish(&mut self.packet, self.options.version, &topic, b"online", true, None)?;
        self.send_packet()?;
        for i in 0..self.open.len() {
            let Some((_, old)) = self.open.get_mut(i) else { break };
            packet::mark_again(old);
            let Some(link) = &mut self.link else { break };
            if let Err(e) = link.send(old) {
                return Err(self.disconnected(e));
            }
        }
        Ok(())
    }

    fn send_packet(&mut self) -> Result<()> {
        let Some(link) = &mut self.link else { return Err(Error::new(ErrorKind::Gone, "not connected")) };
        let sent = link.send(&self.packet);
        sent.map_err(|e| self.disconnected(e))
    }

    /// The connection is gone, or was never had.
    fn disconnected(&mut self, e: Error) -> Error {
        self.link = None;
        let pause = self.backoff.pause;
        self.backoff.next = Some(Instant::now() + pause);
        self.backoff.pause = (pause * 2).min(Backoff::MOST);
        self.backoff.why = e.to_string();
        e
    }

    /// Reads what the broker said, without waiting, and keeps the connection alive.
    fn tend(&mut self) -> Result<()> {
        loop {
            let Some(link) = &mut self.link else { return Ok(()) };
            match link.receive(Duration::ZERO, self.options.version) {
                Ok(Some(Ack::Published(id))) => self.open.retain(|(open, _)| *open != id),
                Ok(Some(Ack::Refused { why, .. })) => {
                    let e = Error::new(ErrorKind::Gone, format!("the broker ended the connection: {why}"));
                    return Err(self.disconnected(e));
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(e) => return Err(self.disconnected(e)),
            }
        }
        let keep_alive = self.options.keep_alive;
        let Some(link) = &mut self.link else { return Ok(()) };
        if link.waits_for_pong(keep_alive.min(Self::PATIENCE * 2)) {
            let e = Error::new(ErrorKind::Timeout, "the broker does not answer any more");
            return Err(self.disconnected(e));
        }
        if link.silent_for() >= keep_alive.mul_f64(0.5) {
            self.packet.clear();
            packet::ping(&mut self.packet);
            link.pinged();
            self.send_packet()?;
        }
        Ok(())
    }
}

impl Sink for Mqtt {
    fn name(&self) -> &str {
        &self.name
    }

    fn accept(&mut self, result: &FrameResult) -> Result<Flow> {
        use fmt::Write;
        self.connect()?;
        self.tend()?;
        self.payload.clear();
        serde_json::to_writer(&mut self.payload, result)
            .map_err(|e| Error::new(ErrorKind::Bug, format!("a result that is no JSON: {e}")))?;
        self.topic.clear();
        // Writing to a string cannot fail.
        let _ = write!(self.topic, "{}/{}", self.options.topic, result.source.0);
        let id = (self.options.qos == 1).then(|| {
            self.next_id = self.next_id % u16::MAX + 1;
            self.next_id
        });
        self.packet.clear();
        packet::publish(
            &mut self.packet,
            self.options.version,
            &self.topic,
            &self.payload,
            self.options.retain,
            id,
        )?;
        if let Some(id) = id {
            let mut kept = Vec::new();
            if self.open.len() >= Self::WINDOW
                && let Some((_, old)) = self.open.pop_front()
            {
                kept = old;
                self.given_up += 1;
            }
            kept.clear();
            kept.extend_from_slice(&self.packet);
            self.open.push_back((id, kept));
        }
        self.send_packet()?;
        Ok(Flow::More)
    }

    fn idle(&mut self) -> Result<()> {
        self.connect()?;
        self.tend()
    }

    fn lost(&self) -> u64 {
        self.given_up
    }

    fn close(&mut self) -> Result<()> {
        let closed = self.say_goodbye();
        self.given_up += self.open.len() as u64;
        self.open.clear();
        closed
    }
}

impl Mqtt {
    fn say_goodbye(&mut self) -> Result<()> {
        if self.link.is_none() {
            return Ok(());
        }
        // The broker gets a moment to confirm what it has; then it is told goodbye, whatever is missing.
        let deadline = Instant::now() + Duration::from_millis(500);
        while !self.open.is_empty() && Instant::now() < deadline && self.link.is_some() {
            self.tend()?;
            std::thread::sleep(Duration::from_millis(5));
        }
        self.packet.clear();
        let topic = format!("{}/status", self.options.topic);
        packet::publish(&mut self.packet, self.options.version, &topic, b"offline", true, None)?;
        packet::disconnect(&mut self.packet);
        self.send_packet()?;
        if let Some(link) = self.link.take() {
            link.close();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Options> {
        Options::read(&SinkUri::parse(text).unwrap())
    }

    #[test]
    fn addresses_say_where_and_how() {
        let o = read("mqtts://me:p%40ss@broker.example/home/cam%20era/?qos=1&retain=yes&version=5&client=x")
            .unwrap();
        assert_eq!((o.host.as_str(), o.port, o.topic.as_str()), ("broker.example", 8883, "home/cam era"));
        assert_eq!((o.user.as_deref(), o.password.clone().unwrap().0.as_str()), (Some("me"), "p@ss"));
        assert_eq!((o.qos, o.retain, o.version, o.client.as_str()), (1, true, Version::V5, "x"));
        assert!(!format!("{o:?}").contains("p@ss"));
        let o = read("mqtt://[::1]:1884?keep-alive=5s").unwrap();
        assert_eq!((o.host.as_str(), o.port, o.topic.as_str()), ("::1", 1884, "saltica"));
        assert_eq!((o.name().as_str(), o.keep_alive), ("mqtt://[::1]:1884/saltica", Duration::from_secs(5)));
        assert!(o.client.len() <= 23 && o.client.bytes().all(|b| b.is_ascii_alphanumeric()));
        let o = read("mqtt://u:a@b%2Fc@host/t").unwrap();
        assert_eq!((o.host.as_str(), o.password), ("host", Some(Secret("a@b/c".into()))));
    }

    #[test]
    fn an_at_sign_behind_the_host_never_changes_the_host() {
        let o = read("mqtt://broker/home/me@work").unwrap();
        assert_eq!((o.host.as_str(), o.topic.as_str(), o.user), ("broker", "home/me@work", None));
        let o = read("mqtt://me:secret@broker:1884/home/me%40evil.example").unwrap();
        assert_eq!((o.host.as_str(), o.port, o.topic.as_str()), ("broker", 1884, "home/me@evil.example"));
        for unclear in [
            "mqtt://me:secret@broker/home/me@evil.example",
            "mqtt://me:secret@broker/home/me@evil.example/x",
            "mqtt://me:sec/ret@broker/x",
            "mqtt://me:1884/ret@broker/x",
            "mqtt://broker:1884/me@work",
        ] {
            let e = read(unclear).unwrap_err();
            assert!(e.kind() == ErrorKind::Value && e.to_string().contains("%40"), "{unclear}: {e}");
            assert!(!e.to_string().contains("secret"), "{e}");
        }
    }

    #[test]
    fn a_password_file_goes_before_the_address() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "from file\nsecond line\n").unwrap();
        let o = read(&format!("mqtt://me:inline@h/t?password-file={}", file.path().display())).unwrap();
        assert_eq!(o.password, Some(Secret("from file".into())));
        let e = read("mqtt://me@h/t?password-file=/nonexistent").unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Io);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, says) in [
            ("mqtt://:1883/x", "no host"),
            ("mqtt://h:0x5/x", "port"),
            ("mqtt://h/a/%23", "no topic"),
            ("mqtt://h/a?qos=2", "from 0 to 1"),
            ("mqtt://h/a?version=4", "3 or 5"),
            ("mqtt://h/a?ca=x", "for mqtts"),
            ("mqtts://h/a?cert=x", "go together"),
            ("mqtt://h/a?keep-alive=0", "a time from 1 s"),
        ] {
            let e = read(text).unwrap_err().to_string();
            assert!(e.contains(says), "{text}: {e}");
        }
        let e = Mqtt::new(read("mqtts://h/a?ca=/nonexistent.pem").unwrap()).unwrap_err();
        assert!(e.kind() == ErrorKind::Io && e.to_string().contains("/nonexistent.pem"), "{e}");
    }

    /// A broker that takes everything and confirms nothing.
    #[test]
    fn what_was_never_confirmed_is_counted_as_lost() {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let broker = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            // CONNACK: no session, accepted.
            client.write_all(&[0x20, 2, 0, 0]).unwrap();
            drop(client.read_to_end(&mut Vec::new()));
        });
        let mut sink = Mqtt::new(read(&format!("mqtt://127.0.0.1:{port}/t?qos=1")).unwrap()).unwrap();
        let result = FrameResult::default();
        for sent in 0..Mqtt::WINDOW as u64 + 3 {
            assert_eq!(sink.accept(&result).unwrap(), Flow::More);
            assert_eq!(sink.lost(), (sent + 1).saturating_sub(Mqtt::WINDOW as u64));
        }
        sink.close().unwrap();
        assert_eq!(sink.lost(), Mqtt::WINDOW as u64 + 3);
        broker.join().unwrap();
    }
}
