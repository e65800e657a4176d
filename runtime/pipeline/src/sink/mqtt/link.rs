//! A connection to a broker, plain or over TLS, with a time limit on everything.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::TlsFiles;
use super::packet::{Ack, Version, read};
use crate::sink::is_retry;
use crate::{Error, ErrorKind, Result};

/// Whom to trust and who we are.
#[derive(Clone)]
pub(super) struct Tls {
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tls({:?})", self.server)
    }
}

impl Tls {
    pub(super) fn new(files: &TlsFiles, host: &str) -> Result<Tls> {
        let value = |what: String| Error::new(ErrorKind::Value, what);
        let server = ServerName::try_from(host.to_owned())
            .map_err(|_| value(format!("'{host}' is no name that a certificate could hold")))?;
        let mut roots = RootCertStore::empty();
        match &files.ca {
            Some(path) => {
                let certificates = certificates(path)?;
                for c in certificates {
                    roots.add(c).map_err(|e| {
                        value(format!("{}: a certificate that cannot be used: {e}", path.display()))
                    })?;
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                // Systems carry old certificates that no longer parse; the others count.
                let (added, _) = roots.add_parsable_certificates(found.certs);
                if added == 0 {
                    let why = found.errors.first().map(|e| format!(" ({e})")).unwrap_or_default();
                    return Err(Error::new(
                        ErrorKind::Missing,
                        format!(
                            "no certificate authorities are installed{why}: install ca-certificates, or name a file with ca="
                        ),
                    ));
                }
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| Error::new(ErrorKind::Bug, format!("TLS: {e}")))?
            .with_root_certificates(roots);
        let config = match (&files.cert, &files.key) {
            (Some(cert), Some(key)) => {
                let chain = certificates(cert)?;
                let secret = PrivateKeyDer::from_pem_reader(open(key)?)
                    .map_err(|e| value(format!("{}: no private key in it: {e:?}", key.display())))?;
                builder
                    .with_client_auth_cert(chain, secret)
                    .map_err(|e| value(format!("{} and {}: {e}", cert.display(), key.display())))?
            }
            _ => builder.with_no_client_auth(),
        };
        Ok(Tls { config: Arc::new(config), server })
    }
}

fn open(path: &Path) -> Result<BufReader<File>> {
    let file = File::open(path)
        .map_err(|e| Error::new(ErrorKind::Io, format!("cannot read {}: {e}", path.display())))?;
    Ok(BufReader::new(file))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_reader_iter(open(path)?).collect();
    match found {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(Error::new(ErrorKind::Value, format!("{}: no certificate in it", path.display()))),
        Err(e) => Err(Error::new(ErrorKind::Value, format!("{}: {e:?}", path.display()))),
    }
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(s) => s,
            Stream::Tls(s) => &s.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(s) => s.read(buffer),
            Stream::Tls(s) => s.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(s) => s.write(bytes),
            Stream::Tls(s) => s.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(s) => s.flush(),
            Stream::Tls(s) => s.flush(),
        }
    }
}

pub(super) struct Link {
    stream: Stream,
    received: Vec<u8>,
    sent: Instant,
    ping: Option<Instant>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({:?})", self.stream.socket())
    }
}

fn gone(what: &str, e: &io::Error) -> Error {
    let kind = if e.kind() == io::ErrorKind::TimedOut { ErrorKind::Timeout } else { ErrorKind::Gone };
    Error::new(kind, format!("{what}: {e}"))
}

impl Link {
    /// Connects, to whichever of the host's addresses answers first in order, all of it within `within` (but for the look-up
    /// of the name, whose time is the system's).
    pub(super) fn open(host: &str, port: u16, tls: Option<&Tls>, within: Duration) -> Result<Link> {
        let addresses = (host, port)
            .to_socket_addrs()
            .map_err(|e| Error::new(ErrorKind::Gone, format!("the name {host} is not known: {e}")))?;
        let deadline = Instant::now() + within;
        let mut last = io::Error::other("the name has no address");
        let mut socket = None;
        for address in addresses {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                last = io::ErrorKind::TimedOut.into();
                break;
            }
            match TcpStream::connect_timeout(&address, left) {
                Ok(s) => {
                    socket = Some(s);
                    break;
                }
                Err(e) => last = e,
            }
        }
        let mut socket = socket.ok_or_else(|| gone("no connection", &last))?;
        let set = socket
            .set_nodelay(true)
            .and_then(|()| socket.set_write_timeout(Some(within)))
            .and_then(|()| socket.set_read_timeout(Some(within)));
        set.map_err(|e| gone("no connection", &e))?;
        let stream = match tls {
            None => Stream::Plain(socket),
            Some(tls) => {
                let mut session = ClientConnection::new(Arc::clone(&tls.config), tls.server.clone())
                    .map_err(|e| Error::new(ErrorKind::Unsupported, format!("TLS: {e}")))?;
                while session.is_handshaking() {
                    if Instant::now() >= deadline {
                        return Err(Error::new(
                            ErrorKind::Timeout,
                            "the broker does not finish the TLS handshake",
                        ));
                    }
                    match session.complete_io(&mut socket) {
                        Ok(_) => {}
                        Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                        Err(e) => return Err(gone("no TLS connection", &e)),
                    }
                }
                Stream::Tls(Box::new(StreamOwned::new(session, socket)))
            }
        };
        Ok(Link { stream, received: Vec::new(), sent: Instant::now(), ping: None })
    }

    /// Sends whole packets. A broker that takes nothing for the write timeout has lost the connection.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.sent = Instant::now();
        self.stream
            .write_all(bytes)
            .and_then(|()| self.stream.flush())
            .map_err(|e| gone("the connection broke", &e))
    }

    /// The broker's next packet; waits at most `wait` for it.
    pub(super) fn receive(&mut self, wait: Duration, version: Version) -> Result<Option<Ack>> {
        let deadline = Instant::now() + wait;
        loop {
            if let Some((ack, bytes)) = read(&self.received, version)? {
                self.received.drain(..bytes);
                if ack == Ack::Pong {
                    self.ping = None;
                }
                return Ok(Some(ack));
            }
            // A read timeout of zero would mean none.
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let nothing = wait.is_zero() && !self.is_readable()?;
            if nothing {
                return Ok(None);
            }
            self.stream
                .socket()
                .set_read_timeout(Some(left))
                .map_err(|e| gone("the connection broke", &e))?;
            let mut block = [0; 1024];
            match self.stream.read(&mut block) {
                Ok(0) => return Err(Error::new(ErrorKind::Gone, "the broker closed the connection")),
                Ok(n) => self.received.extend_from_slice(&block[..n]),
                Err(e) if is_retry(&e) && Instant::now() < deadline => {}
                Err(e) if is_retry(&e) => return Ok(None),
                Err(e) => return Err(gone("the connection broke", &e)),
            }
        }
    }

    /// Whether a read would find something at once.
    fn is_readable(&mut self) -> Result<bool> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        if let Stream::Tls(s) = &mut self.stream
            && s.conn.process_new_packets().is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
        {
            return Ok(true);
        }
        let mut fds = [PollFd::new(self.stream.socket(), PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let n = poll(&mut fds, Some(&at_once))
            .map_err(|e| Error::new(ErrorKind::Gone, format!("the connection broke: {e}")))?;
        Ok(n > 0)
    }

    /// Time since something was sent.
    pub(super) fn silent_for(&self) -> Duration {
        self.sent.elapsed()
    }

    /// Notes that a ping is on its way.
    pub(super) fn pinged(&mut self) {
        self.ping.get_or_insert_with(Instant::now);
    }

    /// Whether a ping has been unanswered for so long.
    pub(super) fn waits_for_pong(&self, patience: Duration) -> bool {
        self.ping.is_some_and(|p| p.elapsed() > patience)
    }

    /// Ends it in order.
    pub(super) fn close(mut self) {
        if let Stream::Tls(s) = &mut self.stream {
            s.conn.send_close_notify();
            drop(s.flush());
        }
        drop(self.stream.socket().shutdown(Shutdown::Write));
    }
}
