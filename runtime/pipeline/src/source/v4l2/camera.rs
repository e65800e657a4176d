//! Opening a camera: what it is, what it offers, what was settled.

use std::sync::Arc;

use saltica_tensor::PixelFormat;

use super::abi::{self, MAX_PLANES};
use super::buffers::Buffers;
use super::negotiate::{self, Code, Offer, Sizes};
use super::sys::{Allocate, Driver, Request};
use super::{MemoryWish, failed};
use crate::frame::{FrameFormat, PlaneLayout};
use crate::source::options::{Options, Wish};
use crate::{Error, ErrorKind, Result};

/// An endless list would be a broken driver.
const MOST_ENTRIES: u32 = 512;

/// A running stream.
#[derive(Debug)]
pub(crate) struct Camera {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) buffers: Arc<Buffers>,
    /// Layout of raw frames; size of compressed ones.
    pub(crate) format: FrameFormat,
    pub(crate) wish: Wish,
    pub(crate) fps: f64,
    pub(crate) note: String,
}

/// The driver's answer to a format.
struct Settled {
    fourcc: u32,
    width: u32,
    height: u32,
    field: u32,
    colors: (u32, u32, u32),
    /// Bytes and stride of each memory block.
    planes: Vec<(usize, usize)>,
}

/// A zero-terminated name.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Whether it is a capture node: its queue, and its name.
pub(crate) fn identify(driver: &dyn Driver) -> Result<(u32, String)> {
    let mut c = abi::Capability::default();
    driver.ioctl(Request::Capability(&mut c)).map_err(|e| failed("asking what the device is", &e))?;
    let caps = if c.capabilities & abi::CAP_DEVICE_CAPS != 0 { c.device_caps } else { c.capabilities };
    let name = format!("{} ({})", text(&c.card), text(&c.driver));
    let bad = |what: &str| Err(Error::new(ErrorKind::Unsupported, format!("{name} {what}")));
    if caps & abi::CAP_META_CAPTURE != 0 && caps & (abi::CAP_CAPTURE | abi::CAP_CAPTURE_MPLANE) == 0 {
        return bad(
            "is a camera's metadata node: the pictures come from another /dev/video* of the same camera",
        );
    }
    let queue = if caps & abi::CAP_CAPTURE != 0 {
        abi::CAPTURE
    } else if caps & abi::CAP_CAPTURE_MPLANE != 0 {
        abi::CAPTURE_MPLANE
    } else {
        return bad("captures no pictures: a camera expected");
    };
    if caps & abi::CAP_STREAMING == 0 {
        return bad("cannot stream into buffers: only read() is left, which is not supported");
    }
    Ok((queue, name))
}

/// Every entry of a driver's list.
fn list<T>(mut get: impl FnMut(u32) -> std::io::Result<T>) -> Vec<T> {
    (0..MOST_ENTRIES).map_while(|i| get(i).ok()).collect()
}

fn offers(driver: &dyn Driver, kind: u32, want: (u32, u32), fps: f64) -> (Vec<Offer>, Vec<u32>) {
    let formats = list(|index| {
        let mut f = abi::FmtDesc { index, kind, ..abi::FmtDesc::default() };
        driver.ioctl(Request::Formats(&mut f)).map(|()| f.pixelformat)
    });
    let mut offers = Vec::new();
    for code in formats.iter().filter_map(|f| negotiate::by_fourcc(*f)) {
        if code.split && kind != abi::CAPTURE_MPLANE {
            continue;
        }
        let sizes = list(|index| {
            let mut s = abi::FrameSizes { index, pixelformat: code.fourcc, ..abi::FrameSizes::default() };
            driver.ioctl(Request::Sizes(&mut s)).map(|()| s)
        });
        // A driver that lists no sizes is asked for the one wanted, and says what it makes of it.
        let mut seen: Vec<(u32, u32)> = Vec::new();
        let sizes = sizes.iter().map(|s| match s.kind {
            abi::SIZE_DISCRETE => Sizes::One(s.size[0], s.size[1]),
            _ => Sizes::Range(s.size),
        });
        for size in sizes.map(|s| s.nearest(want)).filter(|(w, h)| *w > 0 && *h > 0) {
            if !seen.contains(&size) {
                seen.push(size);
            }
        }
        if seen.is_empty() {
            seen.push(want);
        }
        for (width, height) in seen {
            offers.push(Offer { code, width, height, fps: best_rate(driver, code, width, height, fps) });
        }
    }
    (offers, formats)
}

/// The rate a driver offers that serves `fps` best: the least of those that reach it, else the highest; 0 if it tells none.
fn best_rate(driver: &dyn Driver, code: Code, width: u32, height: u32, fps: f64) -> f64 {
    let rates = list(|index| {
        let mut i = abi::FrameIntervals {
            index,
            pixelformat: code.fourcc,
            width,
            height,
            ..abi::FrameIntervals::default()
        };
        driver.ioctl(Request::Intervals(&mut i)).map(|()| i)
    });
    let mut best = 0.0f64;
    for i in rates {
        let shortest = negotiate::rate([i.interval[0], i.interval[1]]);
        let offered = match i.kind {
            abi::SIZE_DISCRETE => shortest,
            // From the shortest to the longest interval.
            _ => fps.clamp(negotiate::rate([i.interval[2], i.interval[3]]).min(shortest), shortest),
        };
        let enough = |r: f64| r >= fps * 0.995;
        let better = match (enough(offered), enough(best)) {
            (true, true) => offered < best,
            (true, false) => true,
            (false, true) => false,
            (false, false) => offered > best,
        };
        if better {
            best = offered;
        }
    }
    best
}

fn settle(driver: &dyn Driver, kind: u32, offer: &Offer) -> Result<Settled> {
    let refused = |e: &std::io::Error| failed("setting the format", e);
    if kind == abi::CAPTURE {
        let mut f = abi::Format::new(abi::PixFormat {
            width: offer.width,
            height: offer.height,
            pixelformat: offer.code.fourcc,
            field: abi::FIELD_NONE,
            ..abi::PixFormat::default()
        });
        driver.ioctl(Request::SetFormat(&mut f)).map_err(|e| refused(&e))?;
        let p = f.pix;
        return Ok(Settled {
            fourcc: p.pixelformat,
            width: p.width,
            height: p.height,
            field: p.field,
            colors: (p.colorspace, p.ycbcr_enc, p.quantization),
            planes: vec![(p.sizeimage as usize, p.bytesperline as usize)],
        });
    }
    let mut f = abi::FormatMplane::new(abi::PixFormatMplane {
        width: offer.width,
        height: offer.height,
        pixelformat: offer.code.fourcc,
        field: abi::FIELD_NONE,
        ..abi::PixFormatMplane::default()
    });
    driver.ioctl(Request::SetFormatMplane(&mut f)).map_err(|e| refused(&e))?;
    let p = f.pix;
    let count = usize::from(p.num_planes).clamp(1, MAX_PLANES);
    Ok(Settled {
        fourcc: p.pixelformat,
        width: p.width,
        height: p.height,
        field: p.field,
        colors: (p.colorspace, u32::from(p.ycbcr_enc), u32::from(p.quantization)),
        planes: p.planes[..count].iter().map(|p| (p.sizeimage as usize, p.bytesperline as usize)).collect(),
    })
}

/// The layout of frames, and a check that the driver keeps to what it offered.
fn layout(s: &Settled, code: Code, o: &Options) -> Result<FrameFormat> {
    let bad = |what: String| Err(Error::new(ErrorKind::Unsupported, what));
    if s.field != abi::FIELD_NONE && s.field != 0 && s.field != abi::FIELD_INTERLACED {
        return bad(format!(
            "the camera gives single fields (V4L2 field {}), whole frames expected",
            s.field
        ));
    }
    let (width, height) = (s.width as usize, s.height as usize);
    let pixel = match code.wish {
        Wish::Raw(pixel) => pixel,
        // Only the size matters: decoded pictures are RGB.
        Wish::Mjpeg => PixelFormat::Rgb8,
    };
    let mut format = FrameFormat::packed(pixel, width, height)?;
    if code.wish != Wish::Mjpeg {
        let blocks = if code.split { pixel.planes() } else { 1 };
        if s.planes.len() != blocks {
            return bad(format!(
                "the driver uses {} memory blocks for {pixel}, {blocks} expected",
                s.planes.len()
            ));
        }
        // Some drivers leave the stride out.
        let stride = |p: usize, plane: usize| match s.planes[p].1 {
            0 => pixel.row_bytes(plane, width),
            n => n,
        };
        if code.split {
            for p in 0..blocks {
                format.planes[p] = PlaneLayout { block: p, offset: 0, stride: stride(p, p) };
            }
        } else {
            format = FrameFormat::contiguous(pixel, width, height, stride(0, 0))?;
        }
        for (block, (size, _)) in s.planes.iter().enumerate() {
            if format.needed(block) > *size {
                return bad(format!(
                    "the driver's frames have {size} bytes, {format} with a stride of {} takes {}",
                    format.planes[block].stride,
                    format.needed(block)
                ));
            }
        }
    }
    let (colorspace, encoding, quantization) = s.colors;
    format.colorimetry =
        o.color.unwrap_or_else(|| negotiate::colorimetry(colorspace, encoding, quantization));
    Ok(format)
}

impl Camera {
    /// Buffers unless asked otherwise: one being filled, two in the ring, one or two being worked on, one on its way back.
    const BUFFERS: u32 = 6;

    /// Negotiates a format, gets buffers and starts the stream.
    pub(crate) fn start(
        driver: Arc<dyn Driver>,
        o: &Options,
        allocator: Option<&dyn Allocate>,
    ) -> Result<Camera> {
        let (kind, name) = identify(driver.as_ref())?;
        let (size, fps) = negotiate::wanted(o);
        let (offers, seen) = offers(driver.as_ref(), kind, size, fps);
        let offer = negotiate::choose(&offers, &seen, o)?;
        let settled = settle(driver.as_ref(), kind, &offer)?;
        // A driver may settle on another format than the one it listed: take that if we can, and nobody asked otherwise.
        let code = negotiate::by_fourcc(settled.fourcc)
            .filter(|c| o.format.is_none_or(|wish| wish == c.wish))
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::Unsupported,
                    format!(
                        "{} was set, the driver turned it into {}",
                        abi::fourcc_name(offer.code.fourcc),
                        abi::fourcc_name(settled.fourcc)
                    ),
                )
            })?;
        let format = layout(&settled, code, o)?;
        let fps = set_rate(driver.as_ref(), kind, if offer.fps > 0.0 { offer.fps } else { fps });
        let sizes: Vec<usize> = settled.planes.iter().map(|p| p.0).collect();
        let count = o.buffers.unwrap_or(Self::BUFFERS);
        let get = |memory| Buffers::new(Arc::clone(&driver), kind, memory, count, &sizes, allocator);
        // Without a wish: memory that was provided, else the driver's; the other if the driver, or the provider, refuses.
        let [first, second] = match allocator {
            Some(_) => [MemoryWish::UserPtr, MemoryWish::Mmap],
            None => [MemoryWish::Mmap, MemoryWish::UserPtr],
        };
        let (buffers, why) = match o.memory {
            Some(memory) => (get(memory)?, String::new()),
            None => match get(first) {
                Ok(b) => (b, String::new()),
                Err(e) if e.kind() == ErrorKind::Unsupported || allocator.is_some() => {
                    (get(second)?, format!(" ({e})"))
                }
                Err(e) => return Err(e),
            },
        };
        let memory = crate::frame::Lender::memory(&buffers).name();
        let shape = match code.wish {
            Wish::Mjpeg => format!("{}x{} mjpeg, decoded to rgb", format.width, format.height),
            Wish::Raw(_) => format.to_string(),
        };
        let rate = if fps > 0.0 { format!(" at {fps:.4} fps").replace(".0000", "") } else { String::new() };
        let planes = if kind == abi::CAPTURE_MPLANE { ", multi-planar" } else { "" };
        let note = format!("{name}: {shape}{rate}, {} {memory} buffers{why}{planes}", buffers.count());
        buffers.start()?;
        Ok(Camera { driver, buffers: Arc::new(buffers), format, wish: code.wish, fps, note })
    }
}

/// Sets the rate; returns what the driver made of it, 0 if it does not say. A camera without rates is no failure.
fn set_rate(driver: &dyn Driver, kind: u32, fps: f64) -> f64 {
    let mut parm = abi::StreamParm::new(kind);
    parm.interval = negotiate::interval(fps);
    match driver.ioctl(Request::SetRate(&mut parm)) {
        Ok(()) if parm.capability & abi::PARM_TIMEPERFRAME != 0 => negotiate::rate(parm.interval),
        _ => 0.0,
    }
}
