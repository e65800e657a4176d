//! The options of source addresses: one table for every scheme.

use saltica_tensor::{ColorMatrix, Colorimetry, PixelFormat};
use std::time::Duration;

use crate::ring::Keep;
use crate::{Error, ErrorKind, Result};

/// The pixel format asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wish {
    /// Pixels that the preprocessing reads in place.
    Raw(PixelFormat),
    /// JPEG pictures, decoded here.
    Mjpeg,
}

impl Wish {
    /// The names that `format=` takes, with what they mean; the first of several for the same is what we print.
    pub const NAMES: [(&'static str, Wish); 15] = [
        ("nv12", Wish::Raw(PixelFormat::Nv12)),
        ("nv21", Wish::Raw(PixelFormat::Nv21)),
        ("yuyv", Wish::Raw(PixelFormat::Yuyv)),
        ("uyvy", Wish::Raw(PixelFormat::Uyvy)),
        ("i420", Wish::Raw(PixelFormat::I420)),
        ("rgb", Wish::Raw(PixelFormat::Rgb8)),
        ("bgr", Wish::Raw(PixelFormat::Bgr8)),
        ("gray", Wish::Raw(PixelFormat::Gray8)),
        ("mjpeg", Wish::Mjpeg),
        ("yuy2", Wish::Raw(PixelFormat::Yuyv)),
        ("yu12", Wish::Raw(PixelFormat::I420)),
        ("rgb24", Wish::Raw(PixelFormat::Rgb8)),
        ("bgr24", Wish::Raw(PixelFormat::Bgr8)),
        ("grey", Wish::Raw(PixelFormat::Gray8)),
        ("mjpg", Wish::Mjpeg),
    ];

    /// The name we print.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, w)| *w == self).map_or("?", |(n, _)| n)
    }
}

/// Who owns the memory a driver writes into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryWish {
    /// The driver; its buffers are mapped.
    Mmap,
    /// The driver; mapped, and exported as dma-bufs for other devices.
    DmaBuf,
    /// We do.
    UserPtr,
}

impl MemoryWish {
    pub(crate) const NAMES: [(&'static str, MemoryWish); 3] =
        [("mmap", MemoryWish::Mmap), ("dmabuf", MemoryWish::DmaBuf), ("userptr", MemoryWish::UserPtr)];

    /// The name that `memory=` takes.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, w)| *w == self).map_or("?", |(n, _)| n)
    }
}

/// What an address asks for. `None`: not said, so the source's own choice.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// Width and height in pixels.
    pub size: Option<(usize, usize)>,
    /// Frames per second.
    pub fps: Option<f64>,
    /// Pixel format.
    pub format: Option<Wish>,
    /// What luma and chroma mean, against what the source says.
    pub color: Option<Colorimetry>,
    /// Bytes from row to row of raw files.
    pub stride: Option<usize>,
    /// Whose memory.
    pub memory: Option<MemoryWish>,
    /// How many buffers.
    pub buffers: Option<u32>,
    /// Latest frame wins, or all are kept.
    pub keep: Option<Keep>,
    /// Frames that may wait.
    pub queue: Option<usize>,
    /// Whether to try again after a failure.
    pub retry: Option<bool>,
    /// Time without a frame after which it is reopened.
    pub timeout: Option<Duration>,
    /// Whether a file starts over at its end.
    pub repeat: bool,
    /// Whether frames come at their rate (else as fast as they are used).
    pub pace: Option<bool>,
    /// Milliseconds a network stream may buffer.
    pub latency_ms: Option<u32>,
    /// Which transport a network stream uses.
    pub transport: Option<Transport>,
    /// Which codec a network stream has.
    pub codec: Option<Codec>,
    /// What the source is called in messages and results.
    pub name: Option<String>,
}

/// Transport of an RTSP stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Interleaved in the connection: nothing is lost.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Codec of a network stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// H.264 / AVC.
    H264,
    /// H.265 / HEVC.
    H265,
    /// JPEG pictures.
    Mjpeg,
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// What is written before the `=`.
    pub name: &'static str,
    /// What may stand behind it.
    pub values: &'static str,
    /// What it does.
    pub help: &'static str,
    /// The schemes that know it; empty: all.
    pub schemes: &'static [&'static str],
    set: fn(&mut Options, &str) -> Option<()>,
}

/// Frames per second that a source may have: beyond them periods are no times.
pub(crate) const RATES: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

/// Every option of every scheme.
pub const KEYS: &[Key] = &[
    Key {
        name: "size",
        values: "WIDTHxHEIGHT in pixels, such as 1280x720",
        help: "picture size; the nearest one the camera offers, the exact one of raw files",
        schemes: &["v4l2", "file", "pipe", "csi", "sim"],
        set: |o, v| set(&mut o.size, size(v)),
    },
    Key {
        name: "fps",
        values: "frames per second, from 0.001 to 1000",
        help: "frame rate asked of a camera; that of a raw file or a folder when pace=on",
        schemes: &["v4l2", "file", "dir", "pipe", "csi", "sim"],
        set: |o, v| set(&mut o.fps, v.parse().ok().filter(|fps| RATES.contains(fps))),
    },
    Key {
        name: "format",
        values: "nv12, nv21, yuyv, uyvy, i420, rgb, bgr, gray or mjpeg",
        help: "pixel format; that of raw files",
        schemes: &["v4l2", "file", "pipe"],
        set: |o, v| set(&mut o.format, named(v, &Wish::NAMES)),
    },
    Key {
        name: "color",
        values: "bt601, bt709, bt2020, or one of them with -full behind it",
        help: "what luma and chroma mean, where the source says nothing or is wrong",
        schemes: &["v4l2", "file", "pipe", "rtsp", "csi"],
        set: |o, v| set(&mut o.color, color(v)),
    },
    Key {
        name: "stride",
        values: "bytes, a whole number from 1",
        help: "bytes from row to row of a raw file",
        schemes: &["file", "pipe"],
        set: |o, v| set(&mut o.stride, whole(v, 1, 1 << 22).map(|n| n as usize)),
    },
    Key {
        name: "memory",
        values: "mmap, dmabuf or userptr",
        help: "whose memory the driver writes into",
        schemes: &["v4l2"],
        set: |o, v| set(&mut o.memory, named(v, &MemoryWish::NAMES)),
    },
    Key {
        name: "buffers",
        values: "a whole number from 2 to 32",
        help: "buffers that go round",
        schemes: &["v4l2", "file", "dir", "pipe", "sim"],
        set: |o, v| set(&mut o.buffers, whole(v, 2, 32)),
    },
    Key {
        name: "keep",
        values: "latest or all",
        help: "when frames come faster than they are used: drop the oldest, or wait (files wait)",
        schemes: &[],
        set: |o, v| set(&mut o.keep, named(v, &[("latest", Keep::Latest), ("all", Keep::All)])),
    },
    Key {
        name: "queue",
        values: "a whole number from 1 to 64",
        help: "frames that may wait",
        schemes: &[],
        set: |o, v| set(&mut o.queue, whole(v, 1, 64).map(|n| n as usize)),
    },
    Key {
        name: "retry",
        values: "on or off",
        help: "whether to try again after a failure (cameras do)",
        schemes: &[],
        set: |o, v| set(&mut o.retry, switch(v)),
    },
    Key {
        name: "timeout",
        values: "seconds from 0.1 to 3600",
        help: "without a frame for this long it is closed and opened again (with retry=on, as cameras are)",
        schemes: &[],
        set: |o, v| set(&mut o.timeout, real(v, 3600.0).filter(|s| *s >= 0.1).map(Duration::from_secs_f64)),
    },
    Key {
        name: "loop",
        values: "on or off",
        help: "whether it starts over at its end",
        schemes: &["file", "dir"],
        set: |o, v| switch(v).map(|on| o.repeat = on),
    },
    Key {
        name: "pace",
        values: "on or off",
        help: "whether frames come at their rate, as from a camera, or as fast as they are used",
        schemes: &["file", "dir", "sim"],
        set: |o, v| set(&mut o.pace, switch(v)),
    },
    Key {
        name: "latency",
        values: "milliseconds, a whole number from 0 to 10000",
        help: "how long a network stream may be buffered against jitter",
        schemes: &["rtsp"],
        set: |o, v| set(&mut o.latency_ms, whole(v, 0, 10_000)),
    },
    Key {
        name: "transport",
        values: "tcp or udp",
        help: "how a network stream travels",
        schemes: &["rtsp"],
        set: |o, v| set(&mut o.transport, named(v, &[("tcp", Transport::Tcp), ("udp", Transport::Udp)])),
    },
    Key {
        name: "codec",
        values: "h264, h265 or mjpeg",
        help: "codec of a network stream, where it cannot be found out",
        schemes: &["rtsp"],
        set: |o, v| {
            set(
                &mut o.codec,
                named(v, &[("h264", Codec::H264), ("h265", Codec::H265), ("mjpeg", Codec::Mjpeg)]),
            )
        },
    },
    Key {
        name: "name",
        values: "1 to 64 characters",
        help: "what the source is called in messages and results",
        schemes: &[],
        set: |o, v| set(&mut o.name, Some(v.to_owned()).filter(|v| (1..=64).contains(&v.chars().count()))),
    },
];

impl Key {
    /// Whether addresses of this scheme may have it.
    pub fn serves(&self, scheme: &str) -> bool {
        self.schemes.is_empty() || self.schemes.contains(&scheme)
    }

    /// Sets it from its text.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for a value it does not allow.
    pub fn set(&self, options: &mut Options, value: &str) -> Result<()> {
        (self.set)(options, value).ok_or_else(|| {
            Error::new(
                ErrorKind::Value,
                format!("{}={value} is not possible: expected {}", self.name, self.values),
            )
        })
    }
}

fn set<T>(slot: &mut Option<T>, value: Option<T>) -> Option<()> {
    *slot = value;
    slot.as_ref().map(|_| ())
}

fn named<T: Copy>(value: &str, names: &[(&str, T)]) -> Option<T> {
    names.iter().find(|(n, _)| *n == value).map(|(_, t)| *t)
}

fn switch(value: &str) -> Option<bool> {
    named(value, &[("on", true), ("off", false)])
}

fn whole(value: &str, lo: u32, hi: u32) -> Option<u32> {
    value.parse().ok().filter(|n| (lo..=hi).contains(n))
}

fn real(value: &str, hi: f64) -> Option<f64> {
    value.parse().ok().filter(|n| *n > 0.0 && *n <= hi)
}

fn size(value: &str) -> Option<(usize, usize)> {
    let (w, h) = value.split_once('x')?;
    Some((whole(w, 1, 1 << 16)? as usize, whole(h, 1, 1 << 16)? as usize))
}

fn color(value: &str) -> Option<Colorimetry> {
    let (matrix, full_range) = match value.strip_suffix("-full") {
        Some(matrix) => (matrix, true),
        None => (value, false),
    };
    let matrices =
        [("bt601", ColorMatrix::Bt601), ("bt709", ColorMatrix::Bt709), ("bt2020", ColorMatrix::Bt2020)];
    Some(Colorimetry { matrix: named(matrix, &matrices)?, full_range })
}
