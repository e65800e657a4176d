//! Sink addresses: `scheme:target?key=value&key=value`, as source addresses are written.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::lines::{Lines, Rotation};
use super::mqtt::{self, Mqtt};
use super::pictures::{PictureOptions, Pictures};
use super::video::{Container, Video, VideoOptions};
use super::{Sink, SinkPlan};
use crate::ring::Keep;
use crate::source::{decode, redact_address, shown_option};
use crate::suggest::advice;
use crate::{Error, ErrorKind, Result};

/// One kind of address.
#[derive(Clone, Copy)]
pub struct Scheme {
    /// What stands before the colon.
    pub name: &'static str,
    /// What it is, in a few words.
    pub help: &'static str,
    /// The keys it knows, beside `queue` and `keep`, each with what it takes.
    pub keys: &'static [(&'static str, &'static str)],
    open: fn(&SinkUri) -> Result<Box<dyn Sink>>,
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const VIDEO: &[(&str, &str)] = &[
    ("fps", "frames a second (30)"),
    ("quality", "of JPEGs, 1 to 100 (85)"),
    ("width", "at most so wide, such as 640 (as the frames are)"),
    ("rotate", "size after which a new file begins, such as 500M (1G)"),
    ("files", "files kept of each source (10)"),
];

const MQTT: &[(&str, &str)] = &[
    ("qos", "0 or 1 (0)"),
    ("retain", "yes or no: the broker keeps the last result (no)"),
    ("version", "3 (3.1.1) or 5 (3)"),
    ("client", "client id (saltica-, and a number of this machine and process)"),
    ("password-file", "a file with the password in its first line"),
    ("ca", "PEM file of the authorities trusted (the system's)"),
    ("cert", "PEM file of this client's certificate"),
    ("key", "PEM file of its key"),
    ("keep-alive", "longest silence, such as 30s (30s)"),
];

/// Every kind of sink that has an address.
pub const SCHEMES: &[Scheme] = &[
    Scheme {
        name: "json",
        help: "a line of JSON for each result, to a file or to stdout (json:-)",
        keys: &[
            ("rotate", "size after which a new file begins, such as 10M (64M)"),
            ("files", "files kept (5)"),
        ],
        open: |uri| {
            let plain = Rotation::default();
            let rotation = Rotation {
                bytes: uri.bytes("rotate")?.unwrap_or(plain.bytes),
                files: uri.number("files", 1, 100_000)?.unwrap_or(plain.files),
            };
            Ok(match uri.path() {
                Some(path) => Box::new(Lines::file(path, rotation)?),
                None => Box::new(Lines::stdout()),
            })
        },
    },
    Scheme {
        name: "jpeg",
        help: "annotated pictures into a folder",
        keys: &[
            ("files", "pictures kept (1000)"),
            ("fps", "pictures a second of each source; 0 for all (1)"),
            ("quality", "1 to 100 (85)"),
            ("width", "at most so wide, such as 640 (as the frames are)"),
            ("objects", "yes: only frames in which something was found (no)"),
        ],
        open: |uri| {
            let plain = PictureOptions::default();
            let options = PictureOptions {
                files: uri.number("files", 1, 10_000_000)?.unwrap_or(plain.files),
                period: uri.period(plain.period)?,
                quality: uri.number("quality", 1, 100)?.unwrap_or(plain.quality),
                width: uri.number("width", 16, 16384)?.unwrap_or(plain.width),
                objects_only: uri.yes("objects")?.unwrap_or(plain.objects_only),
            };
            match uri.path() {
                Some(folder) => Ok(Box::new(Pictures::new(folder, options)?)),
                None => Err(uri.bad("pictures need a folder, such as jpeg:pictures")),
            }
        },
    },
    Scheme {
        name: "avi",
        help: "annotated video, JPEGs in AVI",
        keys: VIDEO,
        open: |u| video(u, Container::Avi),
    },
    Scheme {
        name: "y4m",
        help: "annotated video, uncompressed, to a file or to stdout (y4m:-)",
        keys: VIDEO,
        open: |u| video(u, Container::Y4m),
    },
    Scheme {
        name: "mjpeg",
        help: "annotated JPEGs as a multipart stream, to a file or to stdout (mjpeg:-)",
        keys: VIDEO,
        open: |u| video(u, Container::Multipart),
    },
    Scheme {
        name: "mqtt",
        help: "a message for each result: mqtt://user@host:1883/topic",
        keys: MQTT,
        open: |uri| Ok(Box::new(Mqtt::new(mqtt::Options::read(uri)?)?)),
    },
    Scheme {
        name: "mqtts",
        help: "the same over TLS: mqtts://user@host:8883/topic",
        keys: MQTT,
        open: |uri| Ok(Box::new(Mqtt::new(mqtt::Options::read(uri)?)?)),
    },
];

fn video(uri: &SinkUri, container: Container) -> Result<Box<dyn Sink>> {
    let plain = VideoOptions::default();
    let options = VideoOptions {
        fps: uri
            .parsed("fps", "a rate from 0.1 to 240", |t| {
                t.parse().ok().filter(|f| (0.1..=240.0).contains(f))
            })?
            .unwrap_or(plain.fps),
        quality: uri.number("quality", 1, 100)?.unwrap_or(plain.quality),
        width: uri.number("width", 16, 16384)?.unwrap_or(plain.width),
        bytes: uri.bytes("rotate")?.unwrap_or(plain.bytes),
        files: uri.number("files", 1, 100_000)?.unwrap_or(plain.files),
    };
    Ok(Box::new(Video::new(container, uri.path(), options)?))
}

/// A sink's address, understood. `Display` and `Debug` show no password.
#[derive(Clone)]
pub struct SinkUri {
    scheme: Scheme,
    /// What stands between scheme and options, as written.
    target: String,
    shown: String,
    options: Vec<(String, String)>,
}

impl fmt::Display for SinkUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for SinkUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SinkUri({})", self.shown)
    }
}

impl SinkUri {
    /// Reads an address. Only its form is looked at; [`SinkUri::sink`] reads the values.
    ///
    /// # Errors
    /// [`ErrorKind::Uri`] for an unknown scheme or key (with the nearest known one), a key given twice or without a value.
    /// No message holds a password.
    pub fn parse(text: &str) -> Result<SinkUri> {
        let text = text.trim();
        let shown = redact_address(text);
        let names: Vec<&str> = SCHEMES.iter().map(|s| s.name).collect();
        let Some((name, rest)) = text.split_once(':') else {
            return Err(uri_error(format!(
                "'{shown}' is no address of a sink: expected one such as json:- or jpeg:pictures (kinds: {})",
                names.join(", ")
            )));
        };
        let name = name.to_ascii_lowercase();
        let scheme = *SCHEMES.iter().find(|s| s.name == name).ok_or_else(|| {
            uri_error(format!("unknown kind of sink '{name}:' in '{shown}'{}", advice(&name, &names)))
        })?;
        let (target, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut options: Vec<(String, String)> = Vec::new();
        let known: Vec<&str> = scheme.keys.iter().map(|(k, _)| *k).chain(["queue", "keep"]).collect();
        for pair in query.split('&').filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| {
                uri_error(format!(
                    "{} in '{shown}' has no value: expected key=value",
                    shown_option(query, pair)
                ))
            })?;
            if !known.contains(&key) {
                return Err(uri_error(format!(
                    "unknown key {} in '{shown}'{}",
                    shown_option(query, key),
                    advice(key, &known)
                )));
            }
            if options.iter().any(|(k, _)| k == key) {
                return Err(uri_error(format!("key '{key}' is given twice in '{shown}': give it once")));
            }
            options.push((key.to_owned(), decode(value)));
        }
        Ok(SinkUri { scheme, target: target.to_owned(), shown, options })
    }

    /// What kind of sink it is.
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// What stands between the scheme and the options, as written: with a password, if one stands there.
    pub(super) fn target(&self) -> &str {
        &self.target
    }

    /// Whether it writes to stdout.
    pub fn is_stdout(&self) -> bool {
        let file = !self.scheme.name.starts_with("mqtt");
        file && self.path().is_none_or(|p| p == Path::new("/dev/stdout") || p == Path::new("/dev/fd/1"))
    }

    /// The file or folder meant; None for stdout (`-`).
    fn path(&self) -> Option<PathBuf> {
        let path = decode(self.target.strip_prefix("//").unwrap_or(&self.target));
        (path != "-" && !path.is_empty()).then(|| PathBuf::from(path))
    }

    /// How it is run. `plain` is what holds unless the address says otherwise.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for values that `queue` and `keep` do not allow.
    pub fn plan(&self, plain: SinkPlan) -> Result<SinkPlan> {
        let keep = self.parsed("keep", "all or latest", |t| match t {
            "all" => Some(Keep::All),
            "latest" => Some(Keep::Latest),
            _ => None,
        })?;
        Ok(SinkPlan {
            queue: self.number("queue", 1, 1024)?.unwrap_or(plain.queue),
            keep: keep.unwrap_or(plain.keep),
        })
    }

    /// The sink itself.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for values that their keys do not allow, [`ErrorKind::Io`] for files that cannot be written.
    pub fn sink(&self) -> Result<Box<dyn Sink>> {
        if self.target.is_empty() {
            return Err(self.bad("nothing stands behind the colon: a file, a folder, a host or - expected"));
        }
        (self.scheme.open)(self)
    }

    pub(super) fn bad(&self, what: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Value, format!("{}: {what}", self.shown))
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.options.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    pub(super) fn parsed<T>(
        &self,
        key: &str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(text) = self.text(key) else { return Ok(None) };
        match parse(text) {
            Some(value) => Ok(Some(value)),
            None => Err(self.bad(format!("{key} is '{text}': {expected} expected"))),
        }
    }

    pub(super) fn number<T: TryFrom<u64>>(&self, key: &str, least: u64, most: u64) -> Result<Option<T>> {
        self.parsed(key, &format!("a whole number from {least} to {most}"), |t| {
            t.parse().ok().filter(|n| (least..=most).contains(n)).and_then(|n: u64| T::try_from(n).ok())
        })
    }

    pub(super) fn yes(&self, key: &str) -> Result<Option<bool>> {
        self.parsed(key, "yes or no", |t| match t {
            "yes" | "true" | "1" | "on" => Some(true),
            "no" | "false" | "0" | "off" => Some(false),
            _ => None,
        })
    }

    fn bytes(&self, key: &str) -> Result<Option<u64>> {
        self.parsed(key, "a size from 1K, such as 500K, 64M or 2G", |t| {
            let (number, unit) = t.split_at(t.find(|c: char| !c.is_ascii_digit()).unwrap_or(t.len()));
            let shift = match unit.to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
                "" => 0,
                "K" => 10,
                "M" => 20,
                "G" => 30,
                "T" => 40,
                _ => return None,
            };
            number.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|n| *n >= 1024)
        })
    }

    pub(super) fn seconds(&self, key: &str, least: f64, most: f64) -> Result<Option<Duration>> {
        self.parsed(key, &format!("a time from {least} s to {most} s, such as 500ms or 30s"), |t| {
            let (number, unit) = match t.strip_suffix("ms") {
                Some(n) => (n, 1e-3),
                None => (t.strip_suffix('s').unwrap_or(t), 1.0),
            };
            let seconds = number.trim().parse::<f64>().ok()? * unit;
            (least..=most).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
        })
    }

    fn period(&self, plain: Duration) -> Result<Duration> {
        let fps = self.parsed("fps", "a rate from 0.001 to 240, or 0 for all", |t| {
            t.parse::<f64>().ok().filter(|f| *f == 0.0 || (0.001..=240.0).contains(f))
        })?;
        Ok(fps.map_or(plain, |f| if f == 0.0 { Duration::ZERO } else { Duration::from_secs_f64(1.0 / f) }))
    }
}

fn uri_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Uri, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        SinkUri::parse(text).and_then(|u| u.sink().map(|s| s.name().to_owned())).unwrap_err().to_string()
    }

    #[test]
    fn addresses_become_sinks() {
        let dir = tempfile::tempdir().unwrap();
        let d = dir.path().display();
        for (text, name) in [
            ("json:-".to_owned(), "json:-".to_owned()),
            (format!("json:{d}/a%3Fb.jsonl?rotate=10M&files=3"), format!("json:{d}/a?b.jsonl")),
            (format!("jpeg:{d}/p?fps=0.5&quality=90&objects=yes"), format!("jpeg:{d}/p")),
            (format!("avi:{d}/a.avi?fps=15&rotate=1G"), format!("avi:{d}/a.avi")),
            ("y4m:-".to_owned(), "y4m:-".to_owned()),
            (format!("mjpeg://{d}/x.mjpeg"), format!("mjpeg:{d}/x.mjpeg")),
            ("MQTT://broker/a/b".to_owned(), "mqtt://broker:1883/a/b".to_owned()),
        ] {
            assert_eq!(SinkUri::parse(&text).unwrap().sink().unwrap().name(), name);
        }
        let u = SinkUri::parse("json:-?queue=3&keep=all").unwrap();
        assert_eq!(u.plan(SinkPlan::default()).unwrap(), SinkPlan { queue: 3, keep: Keep::All });
        assert!(SinkUri::parse("json:-?queue=0").unwrap().plan(SinkPlan::default()).is_err());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, says) in [
            ("results.jsonl", "is no address of a sink"),
            ("jsn:-", "did you mean 'json'?"),
            ("json:-?rotat=1M", "did you mean 'rotate'?"),
            ("json:-?rotate", "has no value"),
            ("json:-?files=1&files=2", "given twice"),
            ("json:", "behind the colon"),
            ("json:/tmp/x?rotate=12", "a size from 1K"),
            ("json:/tmp/x?rotate=1X", "a size from 1K"),
            ("json:/tmp/x?files=0", "a whole number from 1"),
            ("jpeg:-", "need a folder"),
            ("jpeg:/tmp/x?quality=101", "from 1 to 100"),
            ("jpeg:/tmp/x?objects=maybe", "yes or no"),
            ("avi:-", "use y4m:-"),
            ("avi:/tmp/x.avi?fps=0", "a rate from 0.1"),
            ("mqtt:///topic", "host"),
        ] {
            assert!(error(text).contains(says), "{text}: {}", error(text));
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        let u = SinkUri::parse("mqtts://cam:hunter2@broker/x?qos=1").unwrap();
        for shown in [format!("{u}"), format!("{u:?}"), u.sink().unwrap().name().to_owned()] {
            assert!(!shown.contains("hunter2") && shown.contains("broker"), "{shown}");
        }
        for bad in [
            "mqtts://cam:hunter2@broker/x?qqs=1",
            "mqtts://cam:hunter2@broker/x?qos=7",
            "mqtx://cam:hunter2@h/",
        ] {
            assert!(!error(bad).contains("hunter2"), "{}", error(bad));
        }
    }
}
