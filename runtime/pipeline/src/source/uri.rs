//! Source addresses: `scheme:target?key=value&key=value`, with the same keys everywhere.
//!
//! | address | what |
//! |---|---|
//! | `v4l2:///dev/video0?size=1280x720&fps=30&format=nv12` | a camera |
//! | `csi://0` | a Jetson's camera 0, through GStreamer |
//! | `rtsp://user:password@host/path#latency=100` | a network camera, through GStreamer |
//! | `file:clip.avi`, `file:///data/clip.y4m`, `file:a.jpg` | a picture or video |
//! | `dir:photos` | the pictures of a folder, by name |
//! | `pipe:-`, `pipe:/run/fifo`, `pipe:exec:ffmpeg -i x.mp4 -f yuv4mpegpipe -` | Y4M or raw frames from a stream |
//! | `sim:street?seed=7` | the simulated camera |
//!
//! `%41` in a target stands for `A`; a `?` or `#` that belongs to a name is written `%3F` or `%23`. An RTSP address has a
//! query of its own, which goes to the camera as it is: our options stand behind `#` there (and may anywhere). In `pipe:`
//! they stand behind the last `?`. Without a scheme, `/dev/video*` is a camera, a folder a `dir:`, `-` a pipe, anything
//! else a `file:`, taken literally if such a file exists.
//!
//! Passwords never leave this module by accident: `Display` and `Debug` show `***`, and [`SourceUri::scrub`] takes them out
//! of texts that others wrote.

use std::fmt;
use std::path::Path;

use super::gst::GstSource;
use super::options::{KEYS, Options};
use super::stream::{PictureSource, StreamSource, is_picture};
use super::{Backoff, Plan, Source};
use crate::ring::{FrameRing, Keep};
use crate::suggest::advice;
use crate::{Error, ErrorKind, Result};

/// One kind of address.
#[derive(Clone, Copy)]
pub struct Scheme {
    /// What stands before the colon.
    pub name: &'static str,
    /// What it is, in a few words.
    pub help: &'static str,
    /// Whether frames come in their own time and the source comes back: latest wins, failures are retried.
    pub live: bool,
    open: fn(&SourceUri) -> Result<Box<dyn Source>>,
}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Every kind of source.
pub const SCHEMES: &[Scheme] = &[
    Scheme {
        name: "v4l2",
        help: "a camera of this machine, such as v4l2:///dev/video0",
        live: true,
        open: |uri| Ok(Box::new(super::v4l2::V4l2Source::new(uri)?)),
    },
    Scheme {
        name: "rtsp",
        help: "a network camera, such as rtsp://user:password@host/path#latency=100 (GStreamer)",
        live: true,
        open: |uri| Ok(Box::new(GstSource::rtsp(uri)?)),
    },
    Scheme {
        name: "csi",
        help: "a Jetson's own camera, such as csi://0 (GStreamer)",
        live: true,
        open: |uri| Ok(Box::new(GstSource::csi(uri)?)),
    },
    Scheme {
        name: "file",
        help: "a picture, a video (Y4M, AVI of JPEGs, raw; others through ffmpeg), or a named pipe",
        live: false,
        open: |uri| {
            Ok(if is_picture(Path::new(uri.target())) {
                Box::new(PictureSource::new(uri, false)?)
            } else {
                Box::new(StreamSource::file(uri)?)
            })
        },
    },
    Scheme {
        name: "dir",
        help: "the pictures of a folder, by name",
        live: false,
        open: |uri| Ok(Box::new(PictureSource::new(uri, true)?)),
    },
    Scheme {
        name: "pipe",
        help: "Y4M, JPEGs or raw frames from standard input (pipe:-), a named pipe (pipe:/path) or a command (pipe:exec:...)",
        live: false,
        open: |uri| Ok(Box::new(StreamSource::pipe(uri)?)),
    },
    Scheme {
        name: "sim",
        help: "the simulated camera",
        live: true,
        open: |uri| Ok(Box::new(super::simulated::SimSource::new(uri)?)),
    },
];

/// A source's address, understood.
#[derive(Clone)]
pub struct SourceUri {
    scheme: Scheme,
    /// What stands between the scheme and the options, percent signs decoded (but for `rtsp`).
    target: String,
    /// What is shown: no secrets.
    shown: String,
    options: Options,
    /// Options that the scheme's own parser reads (`sim`).
    extra: String,
    secrets: Vec<String>,
}

impl fmt::Display for SourceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for SourceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceUri({})", self.shown)
    }
}

impl SourceUri {
    /// Reads an address.
    ///
    /// # Errors
    /// [`ErrorKind::Uri`] for an unknown scheme or key (with the nearest known one), a key given twice or without a value,
    /// a key that the scheme does not know; [`ErrorKind::Value`] for a value that its key does not allow. No message
    /// holds a password.
    pub fn parse(text: &str) -> Result<SourceUri> {
        let text = text.trim();
        // Names of files may hold what looks like a user and a host.
        let local = ["file", "dir", "pipe", "sim", "v4l2", "csi"].contains(&split_scheme(text).0.as_str());
        let shown = if local { redact(text) } else { redact_address(text) };
        if text.is_empty() {
            return Err(bad(
                "an empty source address: expected one such as v4l2:///dev/video0 or file:clip.avi",
            ));
        }
        let (name, rest) = split_scheme(text);
        let names: Vec<&str> = SCHEMES.iter().map(|s| s.name).collect();
        // rtsps is the same protocol over TLS.
        let known = if name == "rtsps" { "rtsp" } else { name.as_str() };
        let scheme = *SCHEMES.iter().find(|s| s.name == known).ok_or_else(|| {
            bad(format!("unknown kind of source '{name}:' in '{shown}'{}", advice(&name, &names)))
        })?;
        let (target, query) = match scheme.name {
            // A file of that very name needs no escapes.
            "file" | "dir" if !has_scheme(text) && Path::new(&rest).exists() => (rest.as_str(), ""),
            "rtsp" => rest.split_once('#').unwrap_or((&rest, "")),
            "pipe" => rest.rsplit_once('?').unwrap_or((&rest, "")),
            _ => rest.split_once(['?', '#']).unwrap_or((&rest, "")),
        };
        let target = match scheme.name {
            "rtsp" => format!("{name}:{target}"),
            "pipe" | "sim" => decode(target),
            // v4l2:///dev/video0 and v4l2:/dev/video0; file://clip.avi is taken as a relative path, as people mean it.
            _ => decode(target.strip_prefix("//").unwrap_or(target)),
        };
        let mut uri = SourceUri {
            scheme,
            secrets: secrets(text),
            target,
            shown,
            options: Options::default(),
            extra: String::new(),
        };
        uri.read(query)?;
        Ok(uri)
    }

    fn read(&mut self, query: &str) -> Result<()> {
        let (scheme, shown) = (self.scheme.name, self.shown.clone());
        let mut seen: Vec<&str> = Vec::new();
        for pair in query.split('&').filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| {
                bad(format!("{} in '{shown}' has no value: expected key=value", shown_option(query, pair)))
            })?;
            if seen.contains(&key) {
                return Err(bad(format!(
                    "key {} is given twice in '{shown}': give it once",
                    shown_option(query, key)
                )));
            }
            seen.push(key);
            let found = KEYS.iter().find(|k| k.name == key);
            match found {
                // The simulated camera's own parser knows its size, its rate and its other keys.
                _ if scheme == "sim" && found.is_none_or(|k| matches!(k.name, "size" | "fps")) => {
                    if !self.extra.is_empty() {
                        self.extra.push('&');
                    }
                    self.extra.push_str(pair);
                }
                Some(key) if key.serves(scheme) => key.set(&mut self.options, &decode(value))?,
                Some(key) => {
                    return Err(bad(format!(
                        "'{}' means nothing to {scheme}: in '{shown}': it is for {}",
                        key.name,
                        key.schemes.join(", ")
                    )));
                }
                None => {
                    let names: Vec<&str> = KEYS.iter().filter(|k| k.serves(scheme)).map(|k| k.name).collect();
                    return Err(bad(format!(
                        "unknown key {} in '{shown}'{}",
                        shown_option(query, key),
                        advice(key, &names)
                    )));
                }
            }
        }
        Ok(())
    }

    /// What kind of source it is.
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// What stands between scheme and options: a device, a path, a scene; for `rtsp` the whole address, password included.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// What the address asks for.
    pub fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn extra(&self) -> &str {
        &self.extra
    }

    /// What the source is called: the `name` given, else the address without secrets.
    pub fn name(&self) -> &str {
        self.options.name.as_deref().unwrap_or(&self.shown)
    }

    /// A text that somebody else wrote (a library's error, a command's output) without this address' secrets.
    pub fn scrub(&self, text: &str) -> String {
        let mut text = redact(text);
        for secret in &self.secrets {
            text = text.replace(secret.as_str(), "***");
        }
        text
    }

    /// How the supervisor is to run it.
    pub fn plan(&self) -> Plan {
        let (o, plain) = (&self.options, Plan::default());
        let live = self.scheme.live;
        // Nobody is lost who waits: what comes as fast as it is used is used.
        let keep = o.keep.unwrap_or(if live && o.pace != Some(false) { Keep::Latest } else { Keep::All });
        Plan {
            keep,
            capacity: o.queue.unwrap_or(FrameRing::CAPACITY),
            // A named pipe's writer may come back.
            retry: o.retry.unwrap_or(live || self.is_fifo()),
            stall: o.timeout.unwrap_or(plain.stall),
            open_within: plain.open_within.max(o.timeout.unwrap_or_default()),
            backoff: Backoff::default(),
        }
    }

    fn is_fifo(&self) -> bool {
        use std::os::unix::fs::FileTypeExt;
        matches!(self.scheme.name, "file" | "pipe")
            && std::fs::metadata(&self.target).is_ok_and(|m| m.file_type().is_fifo())
    }

    /// The source itself, not opened yet.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for options that do not go together, [`ErrorKind::Missing`] when a library is needed that is
    /// not installed.
    pub fn source(&self) -> Result<Box<dyn Source>> {
        (self.scheme.open)(self).map_err(|e| Error::new(e.kind(), self.scrub(&e.to_string())))
    }
}

fn bad(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Uri, message)
}

/// A scheme is two or more of these before a colon (one letter would be a drive elsewhere).
fn has_scheme(text: &str) -> bool {
    text.split_once(':').is_some_and(|(s, _)| {
        s.len() > 1 && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'-')
    })
}

fn split_scheme(text: &str) -> (String, String) {
    if has_scheme(text)
        && !Path::new(text).exists()
        && let Some((scheme, rest)) = text.split_once(':')
    {
        return (scheme.to_ascii_lowercase(), rest.to_owned());
    }
    let scheme = if text.starts_with("/dev/video") || text.starts_with("/dev/v4l/") {
        "v4l2"
    } else if text == "-" {
        "pipe"
    } else if Path::new(text).is_dir() {
        "dir"
    } else {
        "file"
    };
    (scheme.to_owned(), text.to_owned())
}

/// `%41` to `A`; a percent sign without two digits stays.
pub(crate) fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = |b: Option<&u8>| b.and_then(|b| (*b as char).to_digit(16));
        match (bytes[i], hex(bytes.get(i + 1)), hex(bytes.get(i + 2))) {
            (b'%', Some(hi), Some(lo)) => {
                out.push((hi * 16 + lo) as u8);
                i += 3;
            }
            (b, ..) => {
                out.push(b);
                i += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

/// Where a text has passwords: behind `user:` in `//user:password@`, and behind keys such as `password=`.
fn spans(text: &str) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    // The authority ends at a slash or a space; a password may itself hold '@' and even '/', if it was not escaped: its end is the last '@' before a space or quote.
    for (at, _) in text.match_indices("://") {
        let rest = &text[at + 3..];
        let end = rest.find([' ', '"', '\'', '\n', '\t']).unwrap_or(rest.len());
        let Some(stop) = rest[..end].rfind('@') else { continue };
        if let Some(colon) = rest[..stop].find(':') {
            found.push(at + 3 + colon + 1..at + 3 + stop);
        }
    }
    let lower = text.to_ascii_lowercase();
    for key in [
        "password=",
        "passwd=",
        "passwort=",
        "pass=",
        "pwd=",
        "token=",
        "secret=",
        "apikey=",
        "api_key=",
        "auth=",
        "user-pw=",
    ] {
        for (at, _) in lower.match_indices(key) {
            let start = at + key.len();
            let end = text[start..]
                .find(['&', '/', '?', '#', ' ', '"', '\'', '\n'])
                .map_or(text.len(), |e| start + e);
            if end > start {
                found.push(start..end);
            }
        }
    }
    found.sort_by_key(|r| r.start);
    found
}

/// An address without the password before its host, however it is written: not escaped (with `#`, `?`, `/`, spaces or quotes in it),
/// or without the two slashes. What stands before the last `@` counts as the password's, which may be too much.
pub(crate) fn redact_address(text: &str) -> String {
    let begin = |at: usize, len: usize| text[at + len..].find(':').map(|colon| at + len + colon + 1);
    let secret = text.rfind('@').zip(match text.find("://") {
        Some(at) => begin(at, 3),
        None => begin(0, 0),
    });
    match secret {
        Some((end, start)) if start < end => format!("{}***{}", redact(&text[..start]), redact(&text[end..])),
        _ => redact(text),
    }
}

/// What to call an option of which a part may be one of a password that was not escaped.
pub(crate) fn shown_option(query: &str, option: &str) -> String {
    match query.contains('@') {
        true => "an option ('#' in a password is written %23, '?' %3F)".into(),
        false => format!("'{}'", redact(option)),
    }
}

/// A text without what looks like a password in an address: `rtsp://user:***@host/`, `password=***`.
pub fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for span in spans(text) {
        if span.end <= at {
            continue;
        }
        if span.start >= at {
            out.push_str(&text[at..span.start]);
            out.push_str("***");
        }
        at = span.end;
    }
    out.push_str(&text[at..]);
    out
}

fn secrets(text: &str) -> Vec<String> {
    let mut all: Vec<String> = spans(text)
        .into_iter()
        .flat_map(|span| {
            let raw = text[span].to_owned();
            [decode(&raw), raw]
        })
        // Replacing a letter or two everywhere would make messages unreadable and tell the password's letters.
        .filter(|s| s.len() > 2)
        .collect();
    all.sort_by_key(|s| std::cmp::Reverse(s.len()));
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::super::options::{MemoryWish, Wish};
    use super::*;
    use saltica_tensor::PixelFormat;

    #[test]
    fn passwords_are_not_shown() {
        for (text, want) in [
            ("rtsp://admin:hunter2@10.0.0.9/s1?a=b", "rtsp://admin:***@10.0.0.9/s1?a=b"),
            ("rtsp://admin:p@ss:w/ord@10.0.0.9:554/s1", "rtsp://admin:***@10.0.0.9:554/s1"),
            ("rtsp://cam/user=admin_password=hunter2_channel=1/x", "rtsp://cam/user=admin_password=***/x"),
            ("rtsp://cam/x?usr=a&PWD=hunter2&ch=1", "rtsp://cam/x?usr=a&PWD=***&ch=1"),
            (
                "a 'rtsp://u:hunter2@h/' and \"http://v:swordfish@h\"",
                "a 'rtsp://u:***@h/' and \"http://v:***@h\"",
            ),
            ("file:plain@name", "file:plain@name"),
            ("rtsp://user@host/x", "rtsp://user@host/x"),
        ] {
            assert_eq!(redact(text), want);
        }
    }

    #[test]
    fn addresses_are_understood() {
        let uri = SourceUri::parse(
            "v4l2:///dev/video0?size=1280x720&fps=30&format=nv12&memory=userptr&name=gate%20A",
        )
        .unwrap();
        assert_eq!((uri.scheme().name, uri.target(), uri.name()), ("v4l2", "/dev/video0", "gate A"));
        let o = uri.options();
        assert_eq!(
            (o.size, o.fps, o.format),
            (Some((1280, 720)), Some(30.0), Some(Wish::Raw(PixelFormat::Nv12)))
        );
        assert_eq!(o.memory, Some(MemoryWish::UserPtr));
        assert_eq!((uri.plan().keep, uri.plan().retry), (Keep::Latest, true));
        for (text, scheme, target) in [
            ("/dev/video3", "v4l2", "/dev/video3"),
            ("v4l2:/dev/v4l/by-id/x", "v4l2", "/dev/v4l/by-id/x"),
            ("file:///data/a%3Fb.y4m?loop=on", "file", "/data/a?b.y4m"),
            ("file://clip.y4m", "file", "clip.y4m"),
            ("clip%2.y4m", "file", "clip%2.y4m"),
            ("/", "dir", "/"),
            ("-", "pipe", "-"),
            ("pipe:", "pipe", ""),
            (
                "pipe:exec:ffmpeg -i 'http://x/?a=b' -f yuv4mpegpipe -?keep=latest",
                "pipe",
                "exec:ffmpeg -i 'http://x/?a=b' -f yuv4mpegpipe -",
            ),
            ("SIM:street?seed=7", "sim", "street"),
        ] {
            let uri = SourceUri::parse(text).unwrap();
            assert_eq!((uri.scheme().name, uri.target()), (scheme, target), "{text}");
        }
        let file = SourceUri::parse("file:a.y4m?timeout=0.5&queue=9").unwrap().plan();
        assert_eq!((file.keep, file.retry, file.capacity), (Keep::All, false, 9));
        assert_eq!(file.stall.as_millis(), 500);
        let sim = SourceUri::parse("sim:street?seed=7&size=640x360&keep=all&pace=off&index=off").unwrap();
        assert_eq!((sim.extra(), sim.plan().keep), ("seed=7&size=640x360&index=off", Keep::All));
        sim.source().unwrap();
    }

    #[test]
    fn a_file_that_looks_like_an_address_is_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("what?now=1.y4m");
        std::fs::write(&path, "").unwrap();
        let text = path.display().to_string();
        assert_eq!(SourceUri::parse(&text).unwrap().target(), text);
    }

    #[test]
    fn mistakes_are_told_with_a_suggestion_and_without_the_password() {
        for (text, kind, part) in [
            ("", ErrorKind::Uri, "empty source address"),
            ("v4l:///dev/video0", ErrorKind::Uri, "did you mean 'v4l2'?"),
            ("v4l2:///dev/video0?sise=1x1", ErrorKind::Uri, "unknown key 'sise'"),
            ("v4l2:///dev/video0?sise=1x1", ErrorKind::Uri, "did you mean 'size'?"),
            ("v4l2:///dev/video0?loop=on", ErrorKind::Uri, "'loop' means nothing to v4l2: in"),
            ("v4l2:///dev/video0?fps=30&fps=25", ErrorKind::Uri, "given twice"),
            ("v4l2:///dev/video0?fps", ErrorKind::Uri, "expected key=value"),
            ("v4l2:///dev/video0?size=1280", ErrorKind::Value, "WIDTHxHEIGHT"),
            ("v4l2:///dev/video0?fps=0", ErrorKind::Value, "from 0.001 to 1000"),
            ("v4l2:///dev/video0?fps=nan", ErrorKind::Value, "from 0.001 to 1000"),
            ("v4l2:///dev/video0?format=h264", ErrorKind::Value, "nv12, nv21"),
            ("v4l2:///dev/video0?buffers=1", ErrorKind::Value, "2 to 32"),
            ("v4l2:///dev/video0?memory=cuda", ErrorKind::Value, "mmap, dmabuf or userptr"),
            ("file:a?retry=yes", ErrorKind::Value, "on or off"),
            ("file:a?timeout=1e300", ErrorKind::Value, "0.1 to 3600"),
            ("file:a?name=", ErrorKind::Value, "1 to 64"),
            ("sim:stret", ErrorKind::Uri, "did you mean 'street'?"),
            ("pipe:exec: ", ErrorKind::Uri, "names no command"),
            ("v4l2:video0", ErrorKind::Uri, "names no device"),
        ] {
            let e = SourceUri::parse(text).and_then(|u| u.source().map(drop)).unwrap_err();
            assert!(e.kind() == kind && e.to_string().contains(part), "{text}: {e}");
        }
        for text in [
            "rtsq://admin:hunter2@cam/x",
            "rtsp://admin:hunter2@cam/x#latency=hunter",
            "rtsp://admin:hunter2@cam/x#lately=1",
            "pipe:exec:ffmpeg -i rtsp://admin:hunter2@cam/x?kep=all",
        ] {
            match SourceUri::parse(text) {
                Err(e) => assert!(!e.to_string().contains("hunter2"), "{e}"),
                Ok(u) => assert!(!format!("{u} {u:?} {}", u.name()).contains("hunter2")),
            }
        }
    }

    #[test]
    fn others_words_are_scrubbed() {
        let uri = SourceUri::parse("pipe:exec:curl http://a:hunt%40er2@h/?name=x").unwrap();
        assert_eq!(
            uri.scrub("cannot log in as a with hunt@er2 (hunt%40er2)"),
            "cannot log in as a with *** (***)"
        );
        assert_eq!(uri.to_string(), "pipe:exec:curl http://a:***@h/?name=x");
    }
}
