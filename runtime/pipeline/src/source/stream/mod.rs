//! Files, pipes and commands as sources: videos that we read ourselves, and others through ffmpeg.
//!
//! What a stream holds is told from its first bytes: `YUV4MPEG2`, an AVI file of JPEGs, JPEGs one after the other; with
//! `format=` and `size=` it is raw frames. Any other file goes through `ffmpeg`, if that is on the `PATH`, else through
//! GStreamer.

mod feed;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::gst::GstSource;
use super::options::{Options, Wish};
use super::{DropReason, Next, Opened, Source, SourceUri};
use crate::frame::{Frame, FrameFormat, Pool, monotonic};
use crate::{Error, ErrorKind, Result};
use feed::{Feed, Filled};
use parse::{Jpegs, Parsed, Parser, Raw, Y4m};

/// Where the bytes come from.
#[derive(Clone, Debug)]
enum Origin {
    Stdin,
    Path(PathBuf),
    Shell(String),
    /// A file that only ffmpeg understands.
    Ffmpeg(PathBuf),
}

/// A stream of frames.
pub struct StreamSource {
    origin: Origin,
    options: Options,
    uri: SourceUri,
    pool: Arc<Pool>,
    open: Option<Open>,
    /// Reads it instead, where only GStreamer can.
    gst: Option<GstSource>,
    /// Frames so far; it goes on after a reopening.
    number: u64,
}

struct Open {
    feed: Feed,
    /// None until the first bytes tell.
    parser: Option<Parser>,
    /// The first bytes, where they cannot be read again.
    head: Vec<u8>,
    fps: Option<f64>,
    pace: Option<Pace>,
    /// Frames since its start, or since it began anew.
    round: u64,
}

/// When frames are due.
struct Pace {
    start: Duration,
    given: u64,
}

impl fmt::Debug for StreamSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSource").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The file extensions of pictures, which are decoded whole.
const PICTURES: [&str; 8] = ["jpg", "jpeg", "png", "webp", "bmp", "tif", "tiff", "dib"];

/// Whether a file's name is that of a picture.
pub(crate) fn is_picture(path: &std::path::Path) -> bool {
    path.extension()
        .and_then(|e| e.to_str())
        .is_some_and(|e| PICTURES.iter().any(|p| e.eq_ignore_ascii_case(p)))
}

impl StreamSource {
    /// Buffers unless asked otherwise.
    const BUFFERS: u32 = 6;

    fn with(uri: &SourceUri, origin: Origin) -> Result<StreamSource> {
        let o = uri.options().clone();
        if let (Some(Wish::Raw(_)), None) = (o.format, o.size) {
            return Err(Error::new(
                ErrorKind::Value,
                format!("'{uri}': raw frames need size=WIDTHxHEIGHT beside format="),
            ));
        }
        Ok(StreamSource {
            origin,
            pool: Pool::new(o.buffers.unwrap_or(Self::BUFFERS) as usize),
            options: o,
            uri: uri.clone(),
            gst: None,
            open: None,
            number: 0,
        })
    }

    /// `file:`.
    pub(crate) fn file(uri: &SourceUri) -> Result<StreamSource> {
        if uri.target().is_empty() {
            return Err(Error::new(ErrorKind::Uri, format!("'{uri}' names no file")));
        }
        Self::with(uri, Origin::Path(PathBuf::from(uri.target())))
    }

    /// `pipe:`.
    pub(crate) fn pipe(uri: &SourceUri) -> Result<StreamSource> {
        let origin = match uri.target() {
            "" | "-" => Origin::Stdin,
            t => match t.strip_prefix("exec:") {
                Some(command) if !command.trim().is_empty() => Origin::Shell(command.to_owned()),
                Some(_) => return Err(Error::new(ErrorKind::Uri, format!("'{uri}' names no command"))),
                None => Origin::Path(PathBuf::from(t)),
            },
        };
        Self::with(uri, origin)
    }

    fn start(&self, origin: &Origin) -> Result<Feed> {
        let failed = |what: &str, e: std::io::Error| {
            let kind = match e.kind() {
                std::io::ErrorKind::NotFound => ErrorKind::Gone,
                _ => ErrorKind::Io,
            };
            Error::new(kind, self.uri.scrub(&format!("{what}: {e}")))
        };
        match origin {
            Origin::Stdin => Feed::stdin().map_err(|e| failed("standard input", e)),
            Origin::Path(path) => Feed::open(path).map_err(|e| failed(&path.display().to_string(), e)),
            Origin::Shell(line) => {
                let mut c = Command::new("sh");
                c.arg("-c").arg(line);
                Feed::command(c).map_err(|e| failed("sh", e))
            }
            Origin::Ffmpeg(path) => {
                let mut c = Command::new("ffmpeg");
                c.args(["-nostdin", "-v", "error", "-i"]);
                // So that no name is taken for a protocol or an option.
                c.arg(format!("file:{}", path.display()));
                c.args(["-map", "0:v:0", "-pix_fmt", "yuv420p", "-f", "yuv4mpegpipe", "-strict", "-1", "-"]);
                Feed::command(c).map_err(|e| match e.kind() {
                    std::io::ErrorKind::NotFound => Error::new(
                        ErrorKind::Missing,
                        format!(
                            "{}: no Y4M, no AVI of JPEGs, no picture: other videos need ffmpeg or GStreamer, which are not installed (or give size= and format= if these are raw frames)",
                            path.display()
                        ),
                    ),
                    _ => failed("ffmpeg", e),
                })
            }
        }
    }

    /// Looks at the first bytes. Ok(false): they are not there yet.
    fn recognise(&mut self, deadline: Instant) -> Result<bool> {
        let Some(open) = &mut self.open else { return Ok(false) };
        if open.parser.is_none() {
            let mut head = [0u8; 12];
            let mut at = open.head.len();
            head[..at].copy_from_slice(&open.head);
            let filled = open.feed.fill(&mut head, &mut at, deadline);
            open.head = head[..at].to_vec();
            match filled.map_err(|e| Error::new(ErrorKind::Io, format!("reading: {e}")))? {
                Filled::Later => return Ok(false),
                Filled::End | Filled::Done => {}
            }
            let known = match &open.head[..] {
                h if h.starts_with(b"YUV4MPEG2 ") => Some(Parser::Y4m(Y4m::default())),
                [0xff, 0xd8, 0xff, ..] => Some(Parser::Jpegs(Jpegs::default())),
                h if h.starts_with(b"--") => Some(Parser::Jpegs(Jpegs::default())),
                h if h.starts_with(b"RIFF") && h.get(8..12) == Some(b"AVI ") => {
                    Some(Parser::Avi(Box::default()))
                }
                [] => Some(Parser::Jpegs(Jpegs::default())),
                _ => None,
            };
            match (known, &self.origin) {
                (Some(parser), _) => {
                    open.feed.unread(std::mem::take(&mut open.head));
                    open.parser = Some(parser);
                }
                (None, Origin::Path(path)) if !open.feed.is_fifo() => {
                    let ffmpeg = Origin::Ffmpeg(path.clone());
                    let feed = match self.start(&ffmpeg) {
                        Err(e) if e.kind() == ErrorKind::Missing && GstSource::is_there() => {
                            self.open = None;
                            self.gst = Some(GstSource::file(&self.uri));
                            return Ok(false);
                        }
                        started => started?,
                    };
                    self.origin = ffmpeg;
                    if let Some(open) = &mut self.open {
                        (open.feed, open.head) = (feed, Vec::new());
                        open.parser = Some(Parser::Y4m(Y4m::default()));
                    }
                }
                (None, Origin::Ffmpeg(_)) | (None, _) => {
                    return Err(Error::new(
                        ErrorKind::Unsupported,
                        format!(
                            "the stream starts with {:02x?}: YUV4MPEG2, JPEGs or an AVI of JPEGs expected; raw frames need size= and format=",
                            open.head
                        ),
                    ));
                }
            }
        }
        let Some(open) = &mut self.open else { return Ok(false) };
        match &mut open.parser {
            Some(Parser::Y4m(y)) => {
                let done = y.header(&mut open.feed, deadline)?;
                open.fps = self.options.fps.or(y_fps(open));
                Ok(done)
            }
            Some(_) => Ok(true),
            None => Ok(false),
        }
    }

    /// What the end of the bytes means.
    fn ended(&mut self) -> Result<Next> {
        let Some(open) = &mut self.open else { return Ok(Next::End) };
        if let Some((well, said)) = open.feed.verdict()
            && !well
        {
            return Err(Error::new(ErrorKind::Io, self.uri.scrub(&said)));
        }
        if open.feed.is_fifo() {
            // Whoever wrote may come back: the supervisor decides whether to wait.
            return Err(Error::new(ErrorKind::Gone, "the pipe's writer has gone"));
        }
        let command = matches!(self.origin, Origin::Shell(_));
        if open.round == 0 && (self.options.repeat || !command) {
            return Err(fruitless(
                &format!("'{}'", self.uri),
                "no frame could be read from its beginning to its end",
            ));
        }
        if !self.options.repeat {
            return Ok(Next::End);
        }
        if matches!(self.origin, Origin::Ffmpeg(_)) {
            let feed = self.start(&self.origin)?;
            let Some(open) = &mut self.open else { return Ok(Next::End) };
            (open.feed, open.parser, open.round) = (feed, Some(Parser::Y4m(Y4m::default())), 0);
            return Ok(Next::Nothing);
        }
        if !open.feed.rewind() {
            return Ok(Next::End);
        }
        open.head.clear();
        open.round = 0;
        // Raw frames have no header to be found again.
        open.parser = open.parser.take().filter(|p| matches!(p, Parser::Raw(_)));
        Ok(Next::Nothing)
    }

    fn deliver(&mut self, mut format: FrameFormat, lease: crate::frame::Lease) -> Result<Next> {
        let now = monotonic();
        if let Some(open) = &mut self.open {
            open.round += 1;
        }
        let captured = match self.open.as_mut().and_then(|o| o.pace.as_mut().zip(o.fps)) {
            Some((pace, fps)) => {
                let due = pace.start + Duration::from_secs_f64(pace.given as f64 / fps);
                pace.given += 1;
                due.min(now)
            }
            None => now,
        };
        if let Some(color) = self.options.color {
            format.colorimetry = color;
        }
        let mut frame = Frame::owned(format, lease, captured)?;
        frame.sequence = self.number;
        self.number += 1;
        Ok(Next::Frame(frame))
    }
}

/// Nothing at all came: the end of that is no success, and beginning anew would only keep a processor busy.
fn fruitless(what: &str, why: &str) -> Error {
    Error::new(
        ErrorKind::Image,
        format!("{what}: {why} (it is empty, cut off or damaged; warnings before say more)"),
    )
}

fn y_fps(open: &Open) -> Option<f64> {
    open.parser.as_ref().and_then(Parser::fps)
}

impl Source for StreamSource {
    fn open(&mut self, within: Duration) -> Result<Opened> {
        self.close();
        let deadline = Instant::now() + within.min(Duration::from_secs(2));
        let feed = self.start(&self.origin)?;
        let o = &self.options;
        let parser = match (o.format, o.size) {
            (Some(Wish::Raw(pixel)), Some((w, h))) => {
                let stride = o.stride.unwrap_or(pixel.row_bytes(0, w));
                Some(Parser::Raw(Raw::new(FrameFormat::contiguous(pixel, w, h, stride)?)))
            }
            (Some(Wish::Mjpeg), _) => Some(Parser::Jpegs(Jpegs::default())),
            _ => None,
        };
        let pace = o.pace.unwrap_or(false).then(|| Pace { start: monotonic(), given: 0 });
        self.open = Some(Open { feed, parser, head: Vec::new(), fps: o.fps, pace, round: 0 });
        // A stream whose first bytes are still to come is open all the same.
        self.recognise(deadline)?;
        if let Some(gst) = &mut self.gst {
            return gst.open(within);
        }
        let Some(open) = &mut self.open else {
            return Err(Error::new(ErrorKind::Io, "closed while opening"));
        };
        let format = open.parser.as_ref().and_then(Parser::format);
        open.fps = self.options.fps.or(y_fps(open)).or(open.pace.as_ref().map(|_| 30.0));
        let kind = open.parser.as_ref().map_or("nothing yet", Parser::name);
        let through = if matches!(self.origin, Origin::Ffmpeg(_)) { " through ffmpeg" } else { "" };
        let shape = format.map(|f| format!(", {f}")).unwrap_or_default();
        Ok(Opened { format, fps: open.fps, note: format!("{kind}{through}{shape}") })
    }

    fn next(&mut self, wait: Duration) -> Result<Next> {
        if let Some(gst) = &mut self.gst {
            return match gst.next(wait)? {
                Next::End if self.options.repeat => {
                    gst.open(Duration::from_secs(5))?;
                    Ok(Next::Busy)
                }
                next => Ok(next),
            };
        }
        let deadline = Instant::now() + wait;
        if !self.recognise(deadline)? {
            return Ok(Next::Nothing);
        }
        let Some(open) = &mut self.open else { return Ok(Next::Nothing) };
        // An AVI's own rate is known once its header was read.
        open.fps = self.options.fps.or(y_fps(open)).or(open.fps);
        if let (Some(pace), Some(fps)) = (&mut open.pace, open.fps) {
            let due = pace.start + Duration::from_secs_f64(pace.given as f64 / fps);
            let left = due.saturating_sub(monotonic());
            std::thread::sleep(left.min(wait));
            if left > wait {
                // It will come when it is due: no fault of the stream.
                return Ok(Next::Busy);
            }
        }
        let Some(parser) = &mut open.parser else { return Ok(Next::Nothing) };
        match parser.next(&mut open.feed, &self.pool, deadline)? {
            Parsed::Later => Ok(Next::Nothing),
            Parsed::Busy => Ok(Next::Busy),
            Parsed::Dropped(reason) => {
                self.number += 1;
                Ok(Next::Dropped(reason))
            }
            Parsed::End => self.ended(),
            Parsed::Frame(format, lease) => self.deliver(format, lease),
        }
    }

    fn close(&mut self) {
        (self.open, self.gst) = (None, None);
    }
}

/// One picture, or a folder of them by name.
pub struct PictureSource {
    place: PathBuf,
    folder: bool,
    options: Options,
    files: Vec<PathBuf>,
    at: usize,
    pool: Arc<Pool>,
    pace: Pace,
    number: u64,
    /// Pictures read since the folder's first one.
    round: u64,
}

impl fmt::Debug for PictureSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PictureSource")
            .field("place", &self.place)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl PictureSource {
    pub(crate) fn new(uri: &SourceUri, folder: bool) -> Result<PictureSource> {
        if uri.target().is_empty() {
            return Err(Error::new(ErrorKind::Uri, format!("'{uri}' names no folder")));
        }
        Ok(PictureSource {
            place: PathBuf::from(uri.target()),
            folder,
            options: uri.options().clone(),
            files: Vec::new(),
            at: 0,
            pool: Pool::new(uri.options().buffers.unwrap_or(StreamSource::BUFFERS) as usize),
            pace: Pace { start: Duration::ZERO, given: 0 },
            number: 0,
            round: 0,
        })
    }
}

impl Source for PictureSource {
    fn open(&mut self, _within: Duration) -> Result<Opened> {
        let failed = |e: std::io::Error| {
            let kind = if e.kind() == std::io::ErrorKind::NotFound { ErrorKind::Gone } else { ErrorKind::Io };
            Error::new(kind, format!("{}: {e}", self.place.display()))
        };
        self.files = if self.folder {
            let mut files = Vec::new();
            for entry in std::fs::read_dir(&self.place).map_err(failed)? {
                let path = entry.map_err(failed)?.path();
                // What waits for a writer (a named pipe) would hold up all others.
                if is_picture(&path) && path.is_file() {
                    files.push(path);
                }
            }
            files.sort();
            files
        } else {
            if !std::fs::metadata(&self.place).map_err(failed)?.is_file() {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!("{}: no plain file, a picture expected", self.place.display()),
                ));
            }
            vec![self.place.clone()]
        };
        if self.files.is_empty() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{}: no pictures in the folder: {} expected",
                    self.place.display(),
                    PICTURES.join(", ")
                ),
            ));
        }
        (self.at, self.round) = (0, 0);
        self.pace = Pace { start: monotonic(), given: 0 };
        let fps = self.options.pace.unwrap_or(false).then(|| self.options.fps.unwrap_or(30.0));
        Ok(Opened { format: None, fps, note: format!("{} pictures", self.files.len()) })
    }

    fn next(&mut self, wait: Duration) -> Result<Next> {
        let deadline = Instant::now() + wait;
        let Some(path) = self.files.get(self.at) else {
            if self.round == 0 {
                let place = self.place.display().to_string();
                return Err(fruitless(&place, "none of its pictures can be read"));
            }
            if !self.options.repeat {
                return Ok(Next::End);
            }
            (self.at, self.round) = (0, 0);
            return Ok(Next::Busy);
        };
        if self.options.pace.unwrap_or(false) {
            let fps = self.options.fps.unwrap_or(30.0);
            let left = (self.pace.start + Duration::from_secs_f64(self.pace.given as f64 / fps))
                .saturating_sub(monotonic());
            std::thread::sleep(left.min(wait));
            if left > wait {
                return Ok(Next::Busy);
            }
        }
        // Taken before decoding: without a buffer there is no point in it.
        let Some(mut lease) = self.pool.take(0, deadline.saturating_duration_since(Instant::now())) else {
            return Ok(Next::Busy);
        };
        self.at += 1;
        self.pace.given += 1;
        self.number += 1;
        let image = match saltica_vision::Image::open(path) {
            Ok(image) => image,
            Err(e) => {
                log::warn!("{e}");
                return Ok(Next::Dropped(DropReason::Unreadable));
            }
        };
        let format = FrameFormat::packed(saltica_tensor::PixelFormat::Rgb8, image.width(), image.height())?;
        *lease.bytes_mut() = image.into_data();
        let mut frame = Frame::owned(format, lease, monotonic())?;
        frame.sequence = self.number - 1;
        self.round += 1;
        Ok(Next::Frame(frame))
    }

    fn close(&mut self) {
        self.files.clear();
    }
}
