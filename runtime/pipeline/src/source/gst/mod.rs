//! Network cameras (`rtsp://`), a Jetson's own cameras (`csi://`) and videos of any container, through GStreamer.
//!
//! GStreamer is opened when such a source is (see `ffi`): without it everything else works, and the error names what to
//! install. A pipeline ends in an `appsink` that keeps two frames; a frame's bytes are borrowed from GStreamer's buffer. On a
//! Jetson the decoder's and the camera's pictures are made pitch-linear by `nvvidconv`, in its own engine.

#[allow(unsafe_code)]
mod ffi;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use saltica_tensor::{ColorMatrix, Colorimetry, PixelFormat};

use super::options::{Codec, Options, Transport};
use super::{DropReason, Next, Opened, Source, SourceUri};
use crate::frame::{Frame, FrameFormat, Lender, Memory, PlaneLayout, monotonic};
use crate::{Error, ErrorKind, Result};
use ffi::{Caps, Gst, Pipeline, Sample, Trouble};

/// What to play.
#[derive(Clone, Debug)]
enum Origin {
    Rtsp(String),
    Csi(u32),
    File(String),
}

/// A source that GStreamer reads.
pub struct GstSource {
    origin: Origin,
    options: Options,
    uri: SourceUri,
    running: Option<Running>,
    number: u64,
}

struct Running {
    pipeline: Pipeline,
    /// Frames may be late or lost, but the source goes on.
    live: bool,
    caps: Option<(Caps, FrameFormat)>,
    /// A picture that opening has waited for.
    first: Option<Sample>,
}

impl fmt::Debug for GstSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GstSource({})", self.uri)
    }
}

/// Elements that we name, with the Debian packages that hold them.
const PACKAGES: &[(&str, &str)] = &[
    ("appsink", "gstreamer1.0-plugins-base"),
    ("videoconvert", "gstreamer1.0-plugins-base"),
    ("decodebin", "gstreamer1.0-plugins-base"),
    ("filesrc", "libgstreamer1.0-0"),
    ("queue", "libgstreamer1.0-0"),
    ("rtspsrc", "gstreamer1.0-plugins-good"),
    ("rtph264depay", "gstreamer1.0-plugins-good"),
    ("rtph265depay", "gstreamer1.0-plugins-good"),
    ("rtpjpegdepay", "gstreamer1.0-plugins-good"),
    ("nvarguscamerasrc", "nvidia-l4t-gstreamer (this is for a Jetson's own cameras)"),
    ("nvvidconv", "nvidia-l4t-gstreamer"),
];

/// The formats we read in place, as GStreamer calls them. The first is preferred.
const FORMATS: [(&str, PixelFormat); 8] = [
    ("NV12", PixelFormat::Nv12),
    ("I420", PixelFormat::I420),
    ("NV21", PixelFormat::Nv21),
    ("YUY2", PixelFormat::Yuyv),
    ("UYVY", PixelFormat::Uyvy),
    ("RGB", PixelFormat::Rgb8),
    ("BGR", PixelFormat::Bgr8),
    ("GRAY8", PixelFormat::Gray8),
];

/// A value in a pipeline's description.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}

impl GstSource {
    pub(crate) fn rtsp(uri: &SourceUri) -> Result<GstSource> {
        let host = uri.target().split_once("://").map_or("", |(_, rest)| rest);
        if host.is_empty() || host.starts_with('/') {
            return Err(Error::new(
                ErrorKind::Uri,
                format!("'{uri}' names no host: expected rtsp://host/path"),
            ));
        }
        Ok(Self::new(uri, Origin::Rtsp(uri.target().to_owned())))
    }

    pub(crate) fn csi(uri: &SourceUri) -> Result<GstSource> {
        let number = uri.target().parse().map_err(|_| {
            Error::new(
                ErrorKind::Uri,
                format!("'{uri}' names no camera: expected its number, such as csi://0"),
            )
        })?;
        Ok(Self::new(uri, Origin::Csi(number)))
    }

    /// Whether GStreamer can be opened.
    pub(crate) fn is_there() -> bool {
        Gst::get().is_ok()
    }

    pub(crate) fn file(uri: &SourceUri) -> GstSource {
        Self::new(uri, Origin::File(uri.target().to_owned()))
    }

    fn new(uri: &SourceUri, origin: Origin) -> GstSource {
        GstSource { origin, options: uri.options().clone(), uri: uri.clone(), running: None, number: 0 }
    }

    /// The pipeline, in `gst-launch` syntax; `has` says which elements there are.
    fn description(&self, has: &dyn Fn(&str) -> bool) -> String {
        let names: Vec<&str> = FORMATS.iter().map(|f| f.0).collect();
        let raw = format!("video/x-raw,format=(string){{{}}}", names.join(","));
        // The Jetson's converter takes pictures out of the device's own memory, which nothing else can.
        let convert = if has("nvvidconv") {
            "nvvidconv ! video/x-raw,format=NV12".to_owned()
        } else {
            format!("videoconvert ! {raw}")
        };
        let o = &self.options;
        match &self.origin {
            Origin::Rtsp(location) => {
                let protocols = match o.transport {
                    None | Some(Transport::Tcp) => "tcp",
                    Some(Transport::Udp) => "udp",
                };
                let depay = match o.codec {
                    // Only the picture: a camera's sound would have nowhere to go.
                    None => "application/x-rtp,media=video ! decodebin",
                    Some(Codec::H264) => "rtph264depay ! decodebin",
                    Some(Codec::H265) => "rtph265depay ! decodebin",
                    Some(Codec::Mjpeg) => "rtpjpegdepay ! decodebin",
                };
                format!(
                    "rtspsrc location={} latency={} protocols={protocols} tcp-timeout=5000000 timeout=5000000 ! {depay} ! {convert} ! appsink name=sink sync=false max-buffers=2 drop=true",
                    quoted(location),
                    o.latency_ms.unwrap_or(200)
                )
            }
            Origin::Csi(number) => {
                let (w, h) = o.size.unwrap_or((1280, 720));
                let fps = o.fps.unwrap_or(30.0).round();
                format!(
                    "nvarguscamerasrc sensor-id={number} ! video/x-raw(memory:NVMM),width={w},height={h},framerate={fps}/1,format=NV12 ! nvvidconv bl-output=false output-buffers=8 ! video/x-raw,format=NV12 ! appsink name=sink sync=false max-buffers=2 drop=true"
                )
            }
            Origin::File(path) => format!(
                "filesrc location={} ! decodebin ! {convert} ! appsink name=sink sync=false max-buffers=2",
                quoted(path)
            ),
        }
    }

    fn error(&self, kind: ErrorKind, text: &str) -> Error {
        Error::new(kind, self.uri.scrub(&format!("{}: {text}", self.uri)))
    }

    fn trouble(&self, trouble: Trouble) -> Result<Next> {
        match trouble {
            Trouble::Error(text) => {
                let missing = text.contains("missing a plug-in") || text.contains("no element");
                let kind = if missing { ErrorKind::Missing } else { ErrorKind::Io };
                let advice = if missing {
                    "; decoders are in gstreamer1.0-libav and gstreamer1.0-plugins-bad"
                } else {
                    ""
                };
                Err(self.error(kind, &format!("{text}{advice}")))
            }
            Trouble::End if self.running.as_ref().is_some_and(|r| r.live) => {
                Err(self.error(ErrorKind::Gone, "the stream has ended"))
            }
            Trouble::End => Ok(Next::End),
        }
    }

    fn deliver(&mut self, sample: Sample) -> Result<Next> {
        let Some(running) = &mut self.running else { return Ok(Next::Nothing) };
        let caps = sample.caps().unwrap_or_default();
        let known = running.caps.as_ref().filter(|(c, _)| *c == caps).map(|(_, f)| *f);
        let mut format = match known {
            Some(format) => format,
            None => {
                let format = layout(&caps, &self.options)
                    .map_err(|e| Error::new(e.kind(), self.uri.scrub(&format!("{}: {e}", self.uri))))?;
                running.caps = Some((caps, format));
                format
            }
        };
        if let Some((offsets, strides)) = sample.planes() {
            for (p, plane) in format.planes.iter_mut().enumerate() {
                (plane.offset, plane.stride) = (offsets[p], strides[p]);
            }
        }
        let captured = stamp(&running.pipeline, &sample, running.live);
        self.number += 1;
        if sample.bytes().len() < format.needed(0) {
            return Ok(Next::Dropped(DropReason::Truncated));
        }
        let lender: Arc<dyn Lender> = Arc::new(Lent(sample));
        let mut frame = Frame::lent(format, lender, 0, captured)?;
        frame.sequence = self.number - 1;
        Ok(Next::Frame(frame))
    }
}

/// When a live picture was captured: its time in the pipeline on the pipeline's clock, which is the monotonic one unless a
/// network clock was chosen; then it is not believable, and now is said.
fn stamp(pipeline: &Pipeline, sample: &Sample, live: bool) -> Duration {
    let now = monotonic();
    let at = sample.pts().map(|pts| Duration::from_nanos(pipeline.base_time().saturating_add(pts)));
    at.filter(|at| live && *at <= now && now - *at < Duration::from_secs(10)).unwrap_or(now)
}

/// The layout of a picture that says nothing of its planes: GStreamer's default, whose strides are multiples of four.
fn layout(caps: &Caps, o: &Options) -> Result<FrameFormat> {
    let pixel = FORMATS.iter().find(|f| f.0 == caps.format).map(|f| f.1).ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            format!("GStreamer gives pictures of format '{}', NV12 or I420 expected", caps.format),
        )
    })?;
    let (w, h) = (caps.width, caps.height);
    let mut format = FrameFormat::packed(pixel, w, h)?;
    let up = |n: usize, to: usize| n.next_multiple_of(to);
    let mut at = 0;
    for p in 0..pixel.planes() {
        let row = if p == 0 { pixel.row_bytes(0, w) } else { pixel.row_bytes(p, up(w, 2)) };
        let stride = up(row, 4);
        format.planes[p] = PlaneLayout { block: 0, offset: at, stride };
        let rows = if pixel.planes() > 1 { pixel.plane_rows(p, up(h, 2)) } else { h };
        at += stride * rows;
    }
    format.colorimetry = o.color.unwrap_or_else(|| colorimetry(&caps.colorimetry));
    Ok(format)
}

/// `bt601`, `bt709`, `bt2020`, or `range:matrix:transfer:primaries` in GStreamer's numbers.
fn colorimetry(text: &str) -> Colorimetry {
    let mut numbers = text.split(':');
    let (first, second) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let matrix = match (first, second) {
        (name, "") if name.starts_with("bt709") => ColorMatrix::Bt709,
        (name, "") if name.starts_with("bt2020") || name.starts_with("bt2100") => ColorMatrix::Bt2020,
        (_, "3") => ColorMatrix::Bt709,
        (_, "6") => ColorMatrix::Bt2020,
        _ => ColorMatrix::Bt601,
    };
    Colorimetry { matrix, full_range: first == "1" }
}

/// A picture of GStreamer's, lent to one frame.
struct Lent(Sample);

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a GStreamer buffer")
    }
}

impl Lender for Lent {
    fn block(&self, _: u32, block: usize) -> &[u8] {
        if block == 0 { self.0.bytes() } else { &[] }
    }

    // The frame held the only reference: dropping it gives the buffer back.
    fn give_back(&self, _: u32) {}

    fn memory(&self) -> Memory {
        Memory::Gst
    }
}

impl Source for GstSource {
    fn open(&mut self, within: Duration) -> Result<Opened> {
        self.close();
        let deadline = Instant::now() + within;
        let gst =
            Gst::get().map_err(|e| self.error(ErrorKind::Missing, &format!("GStreamer is needed: {e}")))?;
        let description = self.description(&|element| gst.has(element));
        for (element, package) in PACKAGES {
            let named = description.split([' ', '!']).any(|word| word == *element);
            if named && !gst.has(element) {
                return Err(self.error(
                    ErrorKind::Missing,
                    &format!("GStreamer's element '{element}' is missing: install {package}"),
                ));
            }
        }
        let pipeline = Pipeline::launch(gst, &description).map_err(|e| self.error(ErrorKind::Io, &e))?;
        let live = !matches!(self.origin, Origin::File(_));
        self.running = Some(Running { pipeline, live, caps: None, first: None });
        // Only its first picture says that it works.
        while let Some(running) = &mut self.running {
            if let Some(sample) = running.pipeline.pull(Duration::from_millis(50)) {
                running.first = Some(sample);
                break;
            }
            let end = running.pipeline.ended().then_some(Trouble::End);
            if let Some(trouble) = running.pipeline.trouble().or(end) {
                let failed = self.trouble(trouble);
                self.close();
                failed?;
                return Err(self.error(ErrorKind::Gone, "the stream has no pictures"));
            }
            if Instant::now() > deadline {
                self.close();
                return Err(self.error(
                    ErrorKind::Timeout,
                    &format!("no picture within {:.1} s of connecting", within.as_secs_f64()),
                ));
            }
        }
        let caps = self.running.as_ref().and_then(|r| r.first.as_ref()?.caps()).unwrap_or_default();
        let format = layout(&caps, &self.options).map_err(|e| self.error(e.kind(), &e.to_string()))?;
        Ok(Opened {
            format: Some(format),
            fps: (caps.fps > 0.0).then_some(caps.fps),
            note: format!("{}: {format}", gst.version()),
        })
    }

    fn next(&mut self, wait: Duration) -> Result<Next> {
        let Some(running) = &mut self.running else { return Ok(Next::Nothing) };
        let sample = running.first.take().or_else(|| running.pipeline.pull(wait));
        if let Some(sample) = sample {
            return self.deliver(sample);
        }
        let end = running.pipeline.ended().then_some(Trouble::End);
        match running.pipeline.trouble().or(end) {
            Some(trouble) => self.trouble(trouble),
            None => Ok(Next::Nothing),
        }
    }

    fn close(&mut self) {
        self.running = None;
    }
}
