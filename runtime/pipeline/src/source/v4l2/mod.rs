//! Cameras through Video4Linux2, with its requests made here (`linux/videodev2.h`).
//!
//! A raw frame is borrowed from the buffer that the driver wrote: nothing of it is copied before the preprocessing reads it.
//! A JPEG is checked (start, end marker), decoded into a buffer of ours, and its driver's buffer queued again at once.
//! What cannot be used is dropped, counted by its reason, and its buffer queued again.
//!
//! `unsafe` lives in `sys` (system calls, mappings) and in `buffers` (reading a lent buffer), which open with their
//! invariants.

mod abi;
#[allow(unsafe_code)]
mod buffers;
mod camera;
#[cfg(test)]
#[allow(unsafe_code)]
pub(crate) mod fake;
mod negotiate;
#[allow(unsafe_code)]
mod sys;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::jpeg;
use super::options::{MemoryWish, Options, Wish};
use super::{DropReason, Next, Opened, Source, SourceUri};
use crate::frame::{Frame, Lender, Pool, monotonic};
use crate::{Error, ErrorKind, Result};
use buffers::Filled;
use camera::Camera;
use sys::{Node, Request};

pub(crate) use sys::Driver;

/// A pixel format's code, for tests of others.
#[cfg(test)]
pub(crate) fn code(name: &[u8; 4]) -> u32 {
    abi::fourcc(name)
}

/// What a failed system call means for the source.
fn failed(doing: &str, e: &io::Error) -> Error {
    let (kind, advice) = match e.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO | libc::ENOENT | libc::ESHUTDOWN) => {
            (ErrorKind::Gone, "the device is gone")
        }
        Some(libc::EBUSY) => (ErrorKind::Busy, "another program uses the camera"),
        Some(libc::EACCES | libc::EPERM) => {
            (ErrorKind::Io, "no permission: add the user to the group that owns the device, usually `video`")
        }
        Some(libc::EINVAL | libc::ENOTTY) => (ErrorKind::Unsupported, "the driver does not do that"),
        Some(libc::ENOMEM | libc::ENOBUFS) => {
            (ErrorKind::Io, "not enough memory: ask for fewer buffers or a smaller size")
        }
        Some(libc::ENOSPC) => {
            (ErrorKind::Busy, "the USB bus has no bandwidth left: ask for a smaller size or rate, or mjpeg")
        }
        Some(libc::EIO) => (ErrorKind::Io, "the driver reports an error of the device"),
        Some(libc::EPIPE) => (ErrorKind::Gone, "the stream has ended"),
        _ => (ErrorKind::Io, "unexpected"),
    };
    Error::new(kind, format!("{doing}: {e}: {advice}"))
}

/// Opens the driver anew.
pub(crate) type Opener = Box<dyn FnMut() -> io::Result<Arc<dyn Driver>> + Send>;

/// A camera.
pub struct V4l2Source {
    place: String,
    options: Options,
    opener: Opener,
    camera: Option<Camera>,
    pool: Arc<Pool>,
    decoder: jpeg::Decoder,
    /// Errors of the driver in a row.
    errors: u32,
    /// The driver's 32-bit frame counter, continued.
    sequence: u64,
}

impl fmt::Debug for V4l2Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("V4l2Source")
            .field("place", &self.place)
            .field("camera", &self.camera)
            .finish_non_exhaustive()
    }
}

impl V4l2Source {
    /// Errors in a row after which the device is opened anew.
    const MOST_ERRORS: u32 = 5;

    pub(crate) fn new(uri: &SourceUri) -> Result<V4l2Source> {
        let path = PathBuf::from(uri.target());
        if !path.is_absolute() {
            return Err(Error::new(
                ErrorKind::Uri,
                format!("'{uri}' names no device: expected one such as v4l2:///dev/video0"),
            ));
        }
        let opener = {
            let path = path.clone();
            move || Ok(Arc::new(Node::open(&path)?) as Arc<dyn Driver>)
        };
        Ok(Self::with(path.display().to_string(), uri.options().clone(), Box::new(opener)))
    }

    pub(crate) fn with(place: String, options: Options, opener: Opener) -> V4l2Source {
        V4l2Source {
            place,
            opener,
            camera: None,
            pool: Pool::new(options.buffers.unwrap_or(6) as usize),
            options,
            decoder: jpeg::Decoder::default(),
            errors: 0,
            sequence: 0,
        }
    }

    fn device_error(&mut self, e: &io::Error) -> Result<Next> {
        self.errors += 1;
        // A passing loss of signal; some drivers give it a few times before they recover.
        if e.raw_os_error() == Some(libc::EIO) && self.errors < Self::MOST_ERRORS {
            return Ok(Next::Dropped(DropReason::DriverError));
        }
        // Whatever it is while streaming, opening anew is the only cure there is: it is never permanent.
        let e = failed("taking a frame", e);
        let kind = if e.kind().is_permanent() { ErrorKind::Io } else { e.kind() };
        Err(Error::new(kind, e.to_string()).at(&self.place))
    }

    fn filled(&mut self, filled: Filled) -> Result<Next> {
        let Some(camera) = &self.camera else { return Ok(Next::Nothing) };
        self.sequence = {
            // 32 bits go round after two years at 60 fps; a driver that counts nothing says 0 every time.
            let step = filled.sequence.wrapping_sub(self.sequence as u32);
            if step < 1 << 31 { self.sequence + u64::from(step) } else { self.sequence }
        };
        let lender = Arc::clone(&camera.buffers) as Arc<dyn Lender>;
        // Gives the buffer back on each way out but that of a frame.
        let loan = Loan { lender: &lender, index: filled.index };
        let room = |p: usize| camera.buffers.room(p);
        let reason = match camera.wish {
            Wish::Raw(_) => check_raw(&filled, camera, room),
            Wish::Mjpeg => check_size(&filled, 1, room),
        };
        // What the driver itself calls damaged is named so, whatever else is wrong with it.
        let damaged = (filled.flags & abi::FLAG_ERROR != 0).then_some(DropReason::DriverError);
        if let Some(reason) = damaged.or(reason) {
            return Ok(Next::Dropped(reason));
        }
        let captured = stamp(&filled);
        if camera.wish == Wish::Mjpeg {
            let bytes = lender.block(filled.index, 0);
            if let Err(reason) = jpeg::check(bytes) {
                return Ok(Next::Dropped(reason));
            }
            let decoded = self.decoder.decode(bytes, &self.pool, Duration::ZERO);
            drop(loan);
            let (format, lease) = match decoded {
                Ok(done) => done,
                Err(reason) => return Ok(Next::Dropped(reason)),
            };
            let mut frame = Frame::owned(format, lease, captured)?;
            frame.sequence = self.sequence;
            return Ok(Next::Frame(frame));
        }
        std::mem::forget(loan);
        match Frame::lent(camera.format, Arc::clone(&lender), filled.index, captured) {
            Ok(mut frame) => {
                frame.sequence = self.sequence;
                Ok(Next::Frame(frame))
            }
            // Checked before; should the two ever disagree, the frame is dropped and its buffer is back already.
            Err(_) => Ok(Next::Dropped(DropReason::Truncated)),
        }
    }
}

struct Loan<'a> {
    lender: &'a Arc<dyn Lender>,
    index: u32,
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.lender.give_back(self.index);
    }
}

/// A frame without bytes, or with more than its buffer has.
fn check_size(filled: &Filled, blocks: usize, room: impl Fn(usize) -> usize) -> Option<DropReason> {
    let used = &filled.used[..blocks];
    if used.iter().all(|n| *n == 0) {
        return Some(DropReason::Empty);
    }
    let wrong = used.iter().zip(&filled.offset).enumerate().any(|(p, (n, o))| *n > room(p) || o > n);
    wrong.then_some(DropReason::WrongSize)
}

fn check_raw(filled: &Filled, camera: &Camera, room: impl Fn(usize) -> usize) -> Option<DropReason> {
    let blocks = camera.format.blocks();
    check_size(filled, blocks, room).or_else(|| {
        let short = (0..blocks).any(|p| filled.used[p] - filled.offset[p] < camera.format.needed(p));
        short.then_some(DropReason::Truncated)
    })
}

/// The driver's time where it is of our clock and believable; else now.
fn stamp(filled: &Filled) -> Duration {
    let now = monotonic();
    if filled.flags & abi::FLAG_TIMESTAMP_MASK != abi::FLAG_TIMESTAMP_MONOTONIC {
        return now;
    }
    match (u64::try_from(filled.seconds), u32::try_from(filled.microseconds)) {
        (Ok(s), Ok(us)) if us < 1_000_000 && (s, us) != (0, 0) => Duration::new(s, us * 1000).min(now),
        _ => now,
    }
}

impl Source for V4l2Source {
    fn open(&mut self, _within: Duration) -> Result<Opened> {
        self.close();
        let driver = (self.opener)().map_err(|e| {
            let mut e = failed("opening", &e).at(&self.place);
            if e.kind() == ErrorKind::Gone {
                let others: Vec<String> = cameras().iter().map(|c| c.path.display().to_string()).collect();
                let others = if others.is_empty() {
                    "no camera is there".into()
                } else {
                    format!("there are {}", others.join(", "))
                };
                e = Error::new(ErrorKind::Gone, format!("{e}; {others}"));
            }
            e
        })?;
        let camera = Camera::start(driver, &self.options).map_err(|e| e.at(&self.place))?;
        self.errors = 0;
        self.sequence = 0;
        let opened = Opened {
            format: Some(camera.format),
            fps: (camera.fps > 0.0).then_some(camera.fps),
            note: camera.note.clone(),
        };
        self.camera = Some(camera);
        Ok(opened)
    }

    fn next(&mut self, wait: Duration) -> Result<Next> {
        let Some(camera) = &self.camera else { return Ok(Next::Nothing) };
        if camera.buffers.alive() < 2 {
            return Err(
                Error::new(ErrorKind::Io, "the driver takes its buffers no longer back").at(&self.place)
            );
        }
        let ready =
            camera.driver.wait(wait).map_err(|e| failed("waiting for a frame", &e).at(&self.place))?;
        if !ready.frame && !ready.trouble {
            return Ok(if camera.buffers.all_lent() { Next::Busy } else { Next::Nothing });
        }
        match camera.buffers.dequeue() {
            Ok(Some(filled)) => {
                self.errors = 0;
                if filled.flags & abi::FLAG_LAST != 0 && filled.used[0] == 0 {
                    camera.buffers.give_back(filled.index);
                    return Err(Error::new(ErrorKind::Gone, "the driver ended the stream").at(&self.place));
                }
                self.filled(filled)
            }
            // In trouble, but with nothing to say what: as a device that went away does.
            Ok(None) if ready.trouble => {
                Err(Error::new(ErrorKind::Gone, "the device signals an error or was unplugged")
                    .at(&self.place))
            }
            Ok(None) => Ok(Next::Nothing),
            Err(e) => self.device_error(&e),
        }
    }

    fn close(&mut self) {
        if let Some(camera) = self.camera.take()
            && let Err(e) = camera.buffers.stop()
            && e.raw_os_error() != Some(libc::ENODEV)
        {
            log::warn!("{}: stopping the stream: {e}", self.place);
        }
    }
}

/// A camera of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its node.
    pub path: PathBuf,
    /// What it is called, and its driver.
    pub name: String,
}

/// The capture nodes of this machine, by number. Metadata nodes and outputs are left out.
pub fn cameras() -> Vec<Found> {
    let Ok(dir) = std::fs::read_dir("/dev") else { return Vec::new() };
    let mut numbers: Vec<u32> =
        dir.filter_map(|e| e.ok()?.file_name().to_str()?.strip_prefix("video")?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
        .into_iter()
        .filter_map(|n| {
            let path = PathBuf::from(format!("/dev/video{n}"));
            let node = Node::open(&path).ok()?;
            let (_, name) = camera::identify(&node).ok()?;
            Some(Found { path, name })
        })
        .collect()
}

/// Sets a control of a device by its name, such as `Brightness`. Returns whether there is one of that name.
///
/// # Errors
/// [`ErrorKind::Gone`] when the device is not there, [`ErrorKind::Io`] and others when it refuses the value.
pub fn set_control(path: &Path, name: &str, value: i32) -> Result<bool> {
    let node = Node::open(path).map_err(|e| failed("opening", &e).at(path.display()))?;
    let mut id = 0;
    for _ in 0..1024 {
        let mut query = abi::QueryCtrl { id: id | abi::CTRL_NEXT, ..abi::QueryCtrl::default() };
        if node.ioctl(Request::QueryControl(&mut query)).is_err() {
            return Ok(false);
        }
        id = query.id;
        if camera::text(&query.name) == name {
            let mut control = abi::Control { id, value };
            node.ioctl(Request::SetControl(&mut control))
                .map_err(|e| failed(&format!("setting '{name}' to {value}"), &e).at(path.display()))?;
            return Ok(true);
        }
    }
    Ok(false)
}
