//! Bytes to frames: YUV4MPEG2, raw frames, JPEGs one after the other, and AVI files of JPEGs.
//!
//! Each parser keeps what it has of a frame while the rest is on its way, and reads pixels straight into the frame's buffer.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use saltica_tensor::PixelFormat;
use saltica_vision::JpegScanner;

use super::feed::{Feed, Filled};
use crate::frame::{FrameFormat, Lease, Pool};
use crate::source::DropReason;
use crate::source::jpeg::{self, Decoder};
use crate::source::options::RATES;
use crate::{Error, ErrorKind, Result};

/// What came of parsing.
#[derive(Debug)]
pub(crate) enum Parsed {
    Frame(FrameFormat, Lease),
    Dropped(DropReason),
    /// Not enough bytes yet.
    Later,
    /// No buffer is free.
    Busy,
    End,
}

/// A kind of stream, and where in it we are.
#[derive(Debug)]
pub(crate) enum Parser {
    Y4m(Y4m),
    Raw(Raw),
    Jpegs(Jpegs),
    Avi(Box<Avi>),
}

/// No JPEG of a camera is as large.
const MOST_JPEG: usize = 64 << 20;

/// Frames per second as a header says them; a zero in them means that they are not known.
fn rate(n: u32, d: u32) -> Result<Option<f64>> {
    let fps = f64::from(n) / f64::from(d);
    match fps {
        _ if n == 0 || d == 0 => Ok(None),
        fps if RATES.contains(&fps) => Ok(Some(fps)),
        fps => Err(bad(format!(
            "a rate of {fps:.3e} frames a second ({n}:{d}) found, {} to {} expected",
            RATES.start(),
            RATES.end()
        ))),
    }
}

fn bad(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Image, what)
}

fn io_error(e: &io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("reading: {e}"))
}

impl Parser {
    pub(crate) fn next(&mut self, feed: &mut Feed, pool: &Arc<Pool>, deadline: Instant) -> Result<Parsed> {
        match self {
            Parser::Y4m(p) => p.next(feed, pool, deadline),
            Parser::Raw(p) => p.body.next(p.format, p.bytes, feed, pool, deadline),
            Parser::Jpegs(p) => p.next(feed, pool, deadline),
            Parser::Avi(p) => p.next(feed, pool, deadline),
        }
    }

    /// What frames will be like, where that is known.
    pub(crate) fn format(&self) -> Option<FrameFormat> {
        match self {
            Parser::Y4m(p) => p.format,
            Parser::Raw(p) => Some(p.format),
            Parser::Jpegs(_) | Parser::Avi(_) => None,
        }
    }

    /// Frames per second, where the stream says so.
    pub(crate) fn fps(&self) -> Option<f64> {
        match self {
            Parser::Y4m(p) => p.fps,
            Parser::Avi(p) => p.fps,
            Parser::Raw(_) | Parser::Jpegs(_) => None,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Parser::Y4m(_) => "Y4M",
            Parser::Raw(_) => "raw frames",
            Parser::Jpegs(_) => "JPEGs",
            Parser::Avi(_) => "AVI",
        }
    }
}

/// A frame's pixels on their way into its buffer.
#[derive(Debug, Default)]
struct Body {
    lease: Option<Lease>,
    at: usize,
}

impl Body {
    /// `bytes` is what a frame takes in the stream.
    fn next(
        &mut self,
        format: FrameFormat,
        bytes: usize,
        feed: &mut Feed,
        pool: &Arc<Pool>,
        deadline: Instant,
    ) -> Result<Parsed> {
        let lease = match &mut self.lease {
            Some(lease) => lease,
            none => {
                let wait = deadline.saturating_duration_since(Instant::now());
                let Some(lease) = pool.take(bytes, wait) else { return Ok(Parsed::Busy) };
                self.at = 0;
                none.insert(lease)
            }
        };
        match feed.fill(lease.bytes_mut(), &mut self.at, deadline).map_err(|e| io_error(&e))? {
            Filled::Later => Ok(Parsed::Later),
            // The gap behind the very last row may be missing.
            Filled::End if self.at < format.needed(0) => {
                self.lease = None;
                // Nothing of the frame has come: the stream ended in between.
                Ok(if self.at == 0 { Parsed::End } else { Parsed::Dropped(DropReason::Truncated) })
            }
            Filled::End | Filled::Done => match self.lease.take() {
                Some(lease) => Ok(Parsed::Frame(format, lease)),
                None => Ok(Parsed::Later),
            },
        }
    }
}

/// Frames without anything around them.
#[derive(Debug)]
pub(crate) struct Raw {
    format: FrameFormat,
    /// With the gap behind the last row.
    bytes: usize,
    body: Body,
}

impl Raw {
    pub(crate) fn new(format: FrameFormat) -> Raw {
        let plane = |p: usize| format.planes[p].stride * format.pixel.plane_rows(p, format.height);
        let bytes = (0..format.pixel.planes()).map(plane).sum();
        Raw { format, bytes, body: Body::default() }
    }
}

/// YUV4MPEG2, as mjpegtools define it and FFmpeg writes it.
#[derive(Debug, Default)]
pub(crate) struct Y4m {
    line: Vec<u8>,
    format: Option<FrameFormat>,
    fps: Option<f64>,
    in_frame: bool,
    ended: bool,
    body: Body,
}

impl Y4m {
    const MOST_LINE: usize = 1024;

    /// Reads up to the end of a line; None when it is not there yet.
    fn line(&mut self, feed: &mut Feed, deadline: Instant) -> Result<Option<Filled>> {
        // Byte by byte, so that no pixel is read into this buffer. A frame's line has six bytes.
        loop {
            let mut byte = [0u8];
            match feed.fill(&mut byte, &mut 0, deadline).map_err(|e| io_error(&e))? {
                Filled::Later => return Ok(None),
                Filled::End => return Ok(Some(Filled::End)),
                Filled::Done if byte[0] == b'\n' => return Ok(Some(Filled::Done)),
                Filled::Done => self.line.push(byte[0]),
            }
            if self.line.len() > Self::MOST_LINE {
                return Err(bad(
                    "no line of YUV4MPEG2 is longer than a thousand bytes: the stream is damaged",
                ));
            }
        }
    }

    /// The stream's header, once it is there.
    pub(crate) fn header(&mut self, feed: &mut Feed, deadline: Instant) -> Result<bool> {
        if self.format.is_some() {
            return Ok(true);
        }
        match self.line(feed, deadline)? {
            None => return Ok(false),
            Some(Filled::End) if self.line.is_empty() => {
                self.ended = true;
                return Ok(true);
            }
            Some(Filled::End) => return Err(bad("the YUV4MPEG2 header is cut off")),
            Some(_) => {}
        }
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line).into_owned();
        let mut words = line.split(' ');
        if words.next() != Some("YUV4MPEG2") {
            return Err(bad(
                "the stream does not start with YUV4MPEG2: give size= and format= for raw frames",
            ));
        }
        let (mut width, mut height, mut pixel, mut full) = (0, 0, PixelFormat::I420, false);
        for word in words.filter(|w| !w.is_empty()) {
            let mut chars = word.chars();
            let key = chars.next();
            let value = chars.as_str();
            let number = || {
                value
                    .parse::<usize>()
                    .map_err(|_| bad(format!("'{word}' in the YUV4MPEG2 header is no number")))
            };
            match key {
                Some('W') => width = number()?,
                Some('H') => height = number()?,
                Some('F') => {
                    let ratio =
                        value.split_once(':').and_then(|(n, d)| Some((n.parse().ok()?, d.parse().ok()?)));
                    let Some((n, d)) = ratio else {
                        return Err(bad(format!(
                            "'{word}' in the YUV4MPEG2 header is no rate: two whole numbers expected, such as F30:1"
                        )));
                    };
                    self.fps = rate(n, d)?;
                }
                Some('I') if !matches!(value, "p" | "?") => {
                    log::warn!("the stream is interlaced ('{word}'): its frames are used as they are");
                }
                Some('C') => {
                    pixel = match value {
                        "420" | "420jpeg" | "420mpeg2" | "420paldv" => PixelFormat::I420,
                        "mono" => PixelFormat::Gray8,
                        _ => {
                            return Err(Error::new(
                                ErrorKind::Unsupported,
                                format!(
                                    "the stream's chroma is {value}, 420 or mono expected: convert it, with ffmpeg by -pix_fmt yuv420p"
                                ),
                            ));
                        }
                    };
                }
                Some('X') if value == "COLORRANGE=FULL" => full = true,
                _ => {}
            }
        }
        let mut format = FrameFormat::packed(pixel, width, height)?;
        format.colorimetry.full_range = full;
        self.format = Some(format);
        Ok(true)
    }

    fn next(&mut self, feed: &mut Feed, pool: &Arc<Pool>, deadline: Instant) -> Result<Parsed> {
        if !self.header(feed, deadline)? {
            return Ok(Parsed::Later);
        }
        let Some(format) = self.format else { return Ok(Parsed::End) };
        if self.ended {
            return Ok(Parsed::End);
        }
        if !self.in_frame {
            match self.line(feed, deadline)? {
                None => return Ok(Parsed::Later),
                Some(Filled::End) if self.line.is_empty() => return Ok(Parsed::End),
                Some(Filled::End) => {
                    self.ended = true;
                    return Ok(Parsed::Dropped(DropReason::Truncated));
                }
                Some(_) => {}
            }
            // Parameters may follow, which change nothing for us.
            let good = self.line == b"FRAME" || self.line.starts_with(b"FRAME ");
            self.line.clear();
            if !good {
                return Err(bad("the stream is damaged: a line FRAME expected between the frames"));
            }
            self.in_frame = true;
        }
        let parsed = self.body.next(format, format.needed(0), feed, pool, deadline)?;
        match parsed {
            Parsed::Later | Parsed::Busy => {}
            Parsed::End => {
                self.ended = true;
                // The line promised a frame.
                return Ok(Parsed::Dropped(DropReason::Truncated));
            }
            _ => self.in_frame = false,
        }
        Ok(parsed)
    }
}

/// JPEG pictures one after the other, as network cameras and `ffmpeg -f mjpeg` send them.
#[derive(Debug, Default)]
pub(crate) struct Jpegs {
    bytes: Vec<u8>,
    /// Bytes that are in use of `bytes`.
    filled: usize,
    ended: bool,
    /// Where the search for the first picture's end stands.
    scanner: JpegScanner,
    decoder: Decoder,
}

impl Jpegs {
    fn next(&mut self, feed: &mut Feed, pool: &Arc<Pool>, deadline: Instant) -> Result<Parsed> {
        loop {
            let have = &self.bytes[..self.filled];
            // What is no picture's start is skipped: a multipart stream has text between its pictures.
            let start = have.windows(3).position(|w| w == [0xff, 0xd8, 0xff]);
            match start {
                Some(0) => {}
                Some(skip) => self.consume(skip),
                None => self.consume(self.filled.saturating_sub(2)),
            }
            if start.is_some() {
                let scan = self.scanner.scan(&self.bytes[..self.filled]);
                if let Some(at) = scan.restart {
                    self.consume(at);
                    return Ok(Parsed::Dropped(DropReason::NoEndMarker));
                }
                if let Some(end) = scan.end {
                    let wait = deadline.saturating_duration_since(Instant::now());
                    return match self.decoder.decode(&self.bytes[..end], pool, wait) {
                        Err(DropReason::NoBuffer) => Ok(Parsed::Busy),
                        done => {
                            self.consume(end);
                            Ok(done.map_or_else(Parsed::Dropped, |(f, l)| Parsed::Frame(f, l)))
                        }
                    };
                }
                if self.filled > MOST_JPEG {
                    self.consume(3);
                    return Ok(Parsed::Dropped(DropReason::WrongSize));
                }
            }
            if self.ended {
                let rest = start.is_some();
                self.consume(self.filled);
                return Ok(if rest { Parsed::Dropped(DropReason::NoEndMarker) } else { Parsed::End });
            }
            const CHUNK: usize = 64 << 10;
            if self.bytes.len() < self.filled + CHUNK {
                self.bytes.resize(self.filled + CHUNK, 0);
            }
            match feed.some(&mut self.bytes[self.filled..], deadline).map_err(|e| io_error(&e))? {
                None => return Ok(Parsed::Later),
                Some(0) => self.ended = true,
                Some(n) => self.filled += n,
            }
        }
    }

    fn consume(&mut self, n: usize) {
        if n > 0 {
            self.bytes.copy_within(n..self.filled, 0);
            self.filled -= n;
            self.scanner = JpegScanner::default();
        }
    }
}

/// An AVI file of JPEGs (RIFF; Microsoft's AVI 1.0, and OpenDML's further RIFFs).
///
/// Lists are entered and other chunks skipped, so the index, which is missing in a recording that was cut off, is not needed.
#[derive(Debug, Default)]
pub(crate) struct Avi {
    head: [u8; 8],
    head_at: usize,
    /// Bytes of the current chunk to read or to skip.
    chunk: Vec<u8>,
    chunk_at: usize,
    doing: Doing,
    fps: Option<f64>,
    /// Number of the stream with the pictures, as its chunks are named.
    video: Option<[u8; 2]>,
    streams: u8,
    decoder: Decoder,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Doing {
    #[default]
    Head,
    /// A list of this many bytes, whose type comes next.
    List(u32),
    /// A header or a picture, whose code this is.
    Chunk([u8; 4]),
    Skip(u64),
    /// A whole picture waits for a buffer.
    Picture,
}

impl Avi {
    fn word(&self, at: usize) -> u32 {
        self.chunk.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// A stream's header: the first one with pictures is the one we read.
    fn stream(&mut self) -> Result<()> {
        let number = self.streams;
        self.streams = self.streams.saturating_add(1);
        if self.video.is_some() || self.chunk.get(..4) != Some(b"vids") {
            return Ok(());
        }
        let codec = self.chunk.get(4..8).unwrap_or_default().to_ascii_uppercase();
        if codec != b"MJPG" && codec != b"JPEG" {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("the AVI's pictures are {}, MJPG expected", String::from_utf8_lossy(&codec)),
            ));
        }
        // dwScale and dwRate.
        let (scale, rate) = (self.word(20), self.word(24));
        // Recorders write odd ones, and pictures are of use without.
        match self::rate(rate, scale) {
            Ok(Some(fps)) => self.fps = Some(fps),
            Ok(None) => {}
            Err(e) => log::warn!("the AVI's header: {e}"),
        }
        self.video = Some([b'0' + number / 10 % 10, b'0' + number % 10]);
        Ok(())
    }

    fn next(&mut self, feed: &mut Feed, pool: &Arc<Pool>, deadline: Instant) -> Result<Parsed> {
        loop {
            match self.doing {
                Doing::Head => {
                    match feed.fill(&mut self.head, &mut self.head_at, deadline).map_err(|e| io_error(&e))? {
                        Filled::Later => return Ok(Parsed::Later),
                        Filled::End => return Ok(Parsed::End),
                        Filled::Done => {}
                    }
                    let h = self.head;
                    let (code, size) =
                        ([h[0], h[1], h[2], h[3]], u32::from_le_bytes([h[4], h[5], h[6], h[7]]));
                    self.head_at = 0;
                    if &code == b"RIFF" || &code == b"LIST" {
                        self.doing = Doing::List(size);
                        continue;
                    }
                    let picture =
                        self.video.is_some_and(|v| code[..2] == v && matches!(&code[2..], b"dc" | b"db"));
                    if picture && size as usize > MOST_JPEG {
                        self.doing = Doing::Skip(u64::from(size) + u64::from(size % 2));
                        return Ok(Parsed::Dropped(DropReason::WrongSize));
                    }
                    if picture || (matches!(&code, b"strh" | b"avih") && size < 4096) {
                        // Chunks are padded to even sizes.
                        self.chunk.clear();
                        self.chunk.resize(size as usize + (size % 2) as usize, 0);
                        self.chunk_at = 0;
                        self.doing = Doing::Chunk(code);
                    } else {
                        self.doing = Doing::Skip(u64::from(size) + u64::from(size % 2));
                    }
                }
                Doing::List(size) => {
                    let kind = &mut self.head[..4];
                    match feed.fill(kind, &mut self.head_at, deadline).map_err(|e| io_error(&e))? {
                        Filled::Later => return Ok(Parsed::Later),
                        Filled::End => return Ok(Parsed::End),
                        Filled::Done => {}
                    }
                    self.head_at = 0;
                    // Lists that hold streams and pictures are entered: what is in them comes next.
                    let entered = matches!(&*kind, b"AVI " | b"AVIX" | b"hdrl" | b"strl" | b"movi" | b"rec ");
                    let rest = u64::from(size).saturating_sub(4);
                    self.doing = if entered { Doing::Head } else { Doing::Skip(rest + rest % 2) };
                }
                Doing::Skip(0) => self.doing = Doing::Head,
                Doing::Skip(left) => {
                    let n = left.min(32 << 10) as usize;
                    self.chunk.resize(n, 0);
                    match feed.some(&mut self.chunk, deadline).map_err(|e| io_error(&e))? {
                        None => return Ok(Parsed::Later),
                        Some(0) => return Ok(Parsed::End),
                        Some(n) => self.doing = Doing::Skip(left - n as u64),
                    }
                }
                Doing::Chunk(code) => {
                    match feed
                        .fill(&mut self.chunk, &mut self.chunk_at, deadline)
                        .map_err(|e| io_error(&e))?
                    {
                        Filled::Later => return Ok(Parsed::Later),
                        Filled::End if matches!(&code, b"strh" | b"avih") => return Ok(Parsed::End),
                        Filled::End => {
                            self.doing = Doing::Skip(0);
                            return Ok(Parsed::Dropped(DropReason::Truncated));
                        }
                        Filled::Done => {}
                    }
                    self.doing = Doing::Head;
                    match &code {
                        b"avih" => {
                            let us = self.word(0);
                            self.fps = rate(1_000_000, us).unwrap_or_default();
                        }
                        b"strh" => self.stream()?,
                        _ => self.doing = Doing::Picture,
                    }
                }
                Doing::Picture => {
                    let checked = jpeg::check(&self.chunk);
                    let wait = deadline.saturating_duration_since(Instant::now());
                    let done = checked.and_then(|()| self.decoder.decode(&self.chunk, pool, wait));
                    if matches!(done, Err(DropReason::NoBuffer)) {
                        return Ok(Parsed::Busy);
                    }
                    self.doing = Doing::Head;
                    // An empty chunk means: the same picture again.
                    return Ok(done.map_or_else(Parsed::Dropped, |(f, l)| Parsed::Frame(f, l)));
                }
            }
        }
    }
}
