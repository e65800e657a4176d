//! What a service manager wants to be told: systemd's `sd_notify` protocol, which is a datagram of `KEY=VALUE` lines to the
//! socket named in `$NOTIFY_SOCKET` (man page `sd_notify(3)`). Without such a socket everything here does nothing.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// Tells a service manager how the program is.
#[derive(Debug)]
pub struct Notifier {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
    fed: Option<Instant>,
}

impl Notifier {
    /// As the environment says: `NOTIFY_SOCKET`, and `WATCHDOG_USEC` if `WATCHDOG_PID` is this process or not set.
    pub fn from_env() -> Notifier {
        let get = |key| std::env::var(key).ok();
        Self::new(
            get("NOTIFY_SOCKET").as_deref(),
            get("WATCHDOG_USEC").as_deref(),
            get("WATCHDOG_PID").as_deref(),
        )
    }

    fn new(socket: Option<&str>, usec: Option<&str>, pid: Option<&str>) -> Notifier {
        let address = socket.and_then(|s| match s.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name).ok(),
            None if s.starts_with('/') => SocketAddr::from_pathname(s).ok(),
            None => None,
        });
        if let (Some(s), None) = (socket, &address) {
            log::warn!("NOTIFY_SOCKET is '{s}': a path from / or an abstract name with @ expected");
        }
        let socket = address.and_then(|a| match UnixDatagram::unbound() {
            Ok(s) => {
                // A manager that does not read must not hold up anything.
                s.set_nonblocking(true).ok()?;
                Some((s, a))
            }
            Err(e) => {
                log::warn!("no socket to tell the service manager: {e}");
                None
            }
        });
        let ours = pid.is_none_or(|p| p.trim().parse() == Ok(std::process::id()));
        let watchdog = usec
            .and_then(|u| u.trim().parse().ok())
            .filter(|u| *u > 0 && ours && socket.is_some())
            .map(Duration::from_micros);
        Notifier { socket, watchdog, fed: None }
    }

    /// Whether anybody listens.
    pub fn is_listened_to(&self) -> bool {
        self.socket.is_some()
    }

    /// The time within which the watchdog wants to be fed, if there is one.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The program does its work now.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// The program reloads its configuration; [`Notifier::ready`] ends it.
    pub fn reloading(&self) {
        // Since systemd 253 the manager wants to know when, to tell old messages from new ones.
        let now = crate::frame::monotonic().as_micros();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now}"));
    }

    /// The program is about to end.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// A line about what the program does, which `systemctl status` shows.
    pub fn status(&self, line: &str) {
        self.send(&format!("STATUS={}", line.replace(['\n', '\r'], " ")));
    }

    /// Feeds the watchdog. To be called for each completed frame: it sends at most four times within the watchdog's time.
    pub fn feed(&mut self) {
        self.feed_at(Instant::now());
    }

    fn feed_at(&mut self, now: Instant) {
        let Some(within) = self.watchdog else { return };
        if self.fed.is_none_or(|last| now.saturating_duration_since(last) >= within / 4) {
            self.fed = Some(now);
            self.send("WATCHDOG=1");
        }
    }

    fn send(&self, text: &str) {
        let Some((socket, to)) = &self.socket else { return };
        if let Err(e) = socket.send_to_addr(text.as_bytes(), to)
            && e.kind() != io::ErrorKind::WouldBlock
        {
            log::debug!("the service manager could not be told '{text}': {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> Vec<String> {
        socket.set_nonblocking(true).unwrap();
        let mut all = Vec::new();
        let mut buffer = [0; 200];
        while let Ok(n) = socket.recv(&mut buffer) {
            all.push(String::from_utf8(buffer[..n].to_vec()).unwrap());
        }
        all
    }

    #[test]
    fn messages_reach_a_socket_by_path_and_by_abstract_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("saltica-test-{}", std::process::id());
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (socket, env) in [(by_path, path.to_str().unwrap().to_owned()), (by_name, format!("@{name}"))] {
            let n = Notifier::new(Some(&env), None, None);
            assert!(n.is_listened_to() && n.watchdog().is_none());
            n.ready();
            n.status("2 sources\nall fine");
            n.reloading();
            n.stopping();
            let got = received(&socket);
            assert_eq!(got[..2], ["READY=1", "STATUS=2 sources all fine"]);
            let (first, usec) = got[2].split_once("\nMONOTONIC_USEC=").unwrap();
            assert!(first == "RELOADING=1" && usec.parse::<u64>().unwrap() > 0);
            assert_eq!(got[3..], ["STOPPING=1"]);
        }
    }

    #[test]
    fn the_watchdog_is_fed_four_times_within_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let pid = std::process::id().to_string();
        let mut n = Notifier::new(path.to_str(), Some("2000000"), Some(&pid));
        assert_eq!(n.watchdog(), Some(Duration::from_secs(2)));
        let start = Instant::now();
        for ms in (0..2000).step_by(10) {
            n.feed_at(start + Duration::from_millis(ms));
        }
        assert_eq!(received(&socket), ["WATCHDOG=1"; 4]);
        // Another process' watchdog, none, or nonsense.
        for (usec, of) in [(Some("2000000"), Some("1")), (None, None), (Some("0"), None), (Some("x"), None)] {
            let mut n = Notifier::new(path.to_str(), usec, of);
            assert!(n.watchdog().is_none());
            n.feed();
        }
        assert!(received(&socket).is_empty());
    }

    #[test]
    fn nobody_listening_is_no_trouble() {
        for socket in [None, Some(""), Some("relative"), Some("/nonexistent/socket")] {
            let mut n = Notifier::new(socket, Some("1000000"), None);
            n.ready();
            n.feed();
        }
        // A manager that does not read: sending never waits.
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let _unread = UnixDatagram::bind(&path).unwrap();
        let n = Notifier::new(path.to_str(), None, None);
        (0..10_000).for_each(|_| n.ready());
    }
}
