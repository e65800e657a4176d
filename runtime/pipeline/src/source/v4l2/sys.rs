//! System calls on a video device, behind a trait so that a driver that misbehaves can stand in for it.
//!
//! Invariants:
//! * A [`Region`] is one mapping, made by `mmap` and undone by its drop, or a [`Block`] that somebody provided; its address and
//!   length never change in between.
//! * The driver (or a device, by DMA) writes into a region only while a buffer that names it is queued. Reading goes through
//!   [`Region::bytes`], whose caller guarantees that it is not.
//! * Every pointer in a structure that goes to the kernel is set right before the call, from a live reference.

use std::fmt;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use super::abi::{self, MAX_PLANES, RawBuffer, RawPlane};

/// A buffer's description as it goes to the kernel and comes back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BufferIo {
    pub(crate) raw: RawBuffer,
    /// The planes of a multi-planar queue; else unused.
    pub(crate) planes: [RawPlane; MAX_PLANES],
}

impl BufferIo {
    pub(crate) fn is_multi(&self) -> bool {
        self.raw.kind == abi::CAPTURE_MPLANE
    }
}

/// The requests we make.
pub(crate) enum Request<'a> {
    Capability(&'a mut abi::Capability),
    Formats(&'a mut abi::FmtDesc),
    Sizes(&'a mut abi::FrameSizes),
    Intervals(&'a mut abi::FrameIntervals),
    SetFormat(&'a mut abi::Format),
    SetFormatMplane(&'a mut abi::FormatMplane),
    SetRate(&'a mut abi::StreamParm),
    Buffers(&'a mut abi::RequestBuffers),
    QueryBuffer(&'a mut BufferIo),
    Queue(&'a mut BufferIo),
    Dequeue(&'a mut BufferIo),
    Export(&'a mut abi::ExportBuffer),
    On(u32),
    Off(u32),
    QueryControl(&'a mut abi::QueryCtrl),
    SetControl(&'a mut abi::Control),
}

/// What waiting for a device found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    /// A buffer can be dequeued.
    pub(crate) frame: bool,
    /// The device is in error or gone: dequeueing says which.
    pub(crate) trouble: bool,
}

/// A video device, or what stands in for one.
pub(crate) trait Driver: Send + Sync + fmt::Debug {
    /// Makes a request; interrupted ones are repeated.
    fn ioctl(&self, request: Request<'_>) -> Result<()>;
    /// Waits for a frame.
    fn wait(&self, within: Duration) -> Result<Ready>;
    /// Maps a driver's buffer.
    fn map(&self, offset: u64, length: usize) -> Result<Region>;
}

/// An opened device node.
#[derive(Debug)]
pub(crate) struct Node(File);

impl Node {
    pub(crate) fn open(path: &Path) -> Result<Node> {
        // Not blocking: neither opening nor dequeueing may hang on a device without signal.
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
        Ok(Node(std::fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?))
    }

    fn call<T>(&self, number: u32, argument: &mut T) -> Result<()> {
        loop {
            // SAFETY: the descriptor is open while `self` lives. Each caller below passes the structure whose size is
            // part of the request number (asserted in `abi`), exclusively borrowed for the call; pointers in it are
            // valid as the module's invariants say.
            let done = unsafe { libc::ioctl(self.0.as_raw_fd(), number as _, std::ptr::from_mut(argument)) };
            if done >= 0 {
                return Ok(());
            }
            let e = Error::last_os_error();
            if e.raw_os_error() != Some(libc::EINTR) {
                return Err(e);
            }
        }
    }

    fn buffer(&self, number: u32, io: &mut BufferIo) -> Result<()> {
        if io.is_multi() {
            io.raw.m = io.planes.as_mut_ptr() as u64;
            io.raw.length = io.raw.length.min(MAX_PLANES as u32);
        }
        let done = self.call(number, &mut io.raw);
        if io.is_multi() {
            // The address must not outlive the call: the structure is copied about.
            io.raw.m = 0;
        }
        done
    }
}

impl Driver for Node {
    fn ioctl(&self, request: Request<'_>) -> Result<()> {
        match request {
            Request::Capability(a) => self.call(abi::QUERYCAP, a),
            Request::Formats(a) => self.call(abi::ENUM_FMT, a),
            Request::Sizes(a) => self.call(abi::ENUM_FRAMESIZES, a),
            Request::Intervals(a) => self.call(abi::ENUM_FRAMEINTERVALS, a),
            Request::SetFormat(a) => self.call(abi::S_FMT, a),
            Request::SetFormatMplane(a) => self.call(abi::S_FMT, a),
            Request::SetRate(a) => self.call(abi::S_PARM, a),
            Request::Buffers(a) => self.call(abi::REQBUFS, a),
            Request::QueryBuffer(a) => self.buffer(abi::QUERYBUF, a),
            Request::Queue(a) => self.buffer(abi::QBUF, a),
            Request::Dequeue(a) => self.buffer(abi::DQBUF, a),
            Request::Export(a) => self.call(abi::EXPBUF, a),
            Request::On(mut kind) => self.call(abi::STREAMON, &mut kind),
            Request::Off(mut kind) => self.call(abi::STREAMOFF, &mut kind),
            Request::QueryControl(a) => self.call(abi::QUERYCTRL, a),
            Request::SetControl(a) => self.call(abi::S_CTRL, a),
        }
    }

    fn wait(&self, within: Duration) -> Result<Ready> {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let within = rustix::event::Timespec {
            tv_sec: within.as_secs().min(3600) as i64,
            tv_nsec: i64::from(within.subsec_nanos()),
        };
        match rustix::event::poll(&mut fds, Some(&within)) {
            Ok(_) => {
                let found = fds[0].revents();
                let trouble = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
                Ok(Ready { frame: found.contains(PollFlags::IN), trouble: found.intersects(trouble) })
            }
            // A signal: the caller waits again.
            Err(rustix::io::Errno::INTR) => Ok(Ready::default()),
            Err(e) => Err(e.into()),
        }
    }

    fn map(&self, offset: u64, length: usize) -> Result<Region> {
        Region::map(Some(&self.0), offset, length)
    }
}

/// A descriptor that the kernel has just given us.
pub(crate) fn adopt(fd: i32) -> Option<OwnedFd> {
    // SAFETY: called once with the number that VIDIOC_EXPBUF returned for us; nobody else knows it.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A piece of memory that somebody else provides for frames, such as pinned memory that a GPU reads too.
///
/// # Safety
/// [`Block::address`] is that of [`Block::bytes`] bytes which are readable and writable, start at a page and stay where they
/// are until this is dropped. Whoever implements it writes none of them; who reads them otherwise than through a
/// [`Frame`](crate::frame::Frame) does so only while that frame lives.
pub unsafe trait Block: Send + Sync + fmt::Debug {
    /// Where it starts.
    fn address(&self) -> *mut u8;
    /// How many bytes it has.
    fn bytes(&self) -> usize;
}

/// Provides the memory that a driver writes frames into (`V4L2_MEMORY_USERPTR`). A frame's
/// [`block`](crate::frame::Frame::block) starts at the block's address, by which a device's view of it can be found again.
pub trait Allocate: Send + Sync + fmt::Debug {
    /// A block of at least `bytes` bytes. Called when a camera is opened, once for each plane of each buffer.
    ///
    /// # Errors
    /// When there is none; then the driver's own memory is used.
    fn allocate(&self, bytes: usize) -> crate::Result<Box<dyn Block>>;
}

/// Pages that a driver writes into: its own, mapped, or ours.
pub(crate) struct Region {
    start: *mut u8,
    length: usize,
    /// Whose memory it is, where it is not a mapping of ours.
    block: Option<Box<dyn Block>>,
}

// SAFETY: a region is plain memory without ties to a thread; who may touch it when is the module's second invariant.
unsafe impl Send for Region {}
// SAFETY: as above: shared references only read, and only through `bytes`.
unsafe impl Sync for Region {}

impl Region {
    /// Whole pages of zeros of our own, for a driver to write into.
    pub(crate) fn own(length: usize) -> Result<Region> {
        Self::map(None, 0, length.max(1).next_multiple_of(4096))
    }

    /// Somebody else's memory.
    pub(crate) fn provided(block: Box<dyn Block>, length: usize) -> Result<Region> {
        let (start, bytes) = (block.address(), block.bytes());
        if bytes < length || !(start as usize).is_multiple_of(4096) || start.is_null() {
            return Err(Error::other(format!(
                "memory of {bytes} bytes at {start:p} was provided, {length} from the start of a page expected"
            )));
        }
        Ok(Region { start, length: bytes, block: Some(block) })
    }

    fn map(file: Option<&File>, offset: u64, length: usize) -> Result<Region> {
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        let (flags, fd) = file.map_or((private, -1), |f| (libc::MAP_SHARED, f.as_fd().as_raw_fd()));
        // SAFETY: no address is asked for, so no mapping is replaced; the result is checked, and owned by the Region.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                fd,
                offset as libc::off_t,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        Ok(Region { start: start.cast(), length, block: None })
    }

    /// Its address, for the driver.
    pub(crate) fn address(&self) -> u64 {
        self.start as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The first `length` bytes (fewer, if it is smaller).
    ///
    /// # Safety
    /// As long as the slice lives nobody writes into the region: no buffer that names it is queued.
    pub(crate) unsafe fn bytes(&self, length: usize) -> &[u8] {
        // SAFETY: the mapping is readable and lives as long as `self`; the caller vouches for the absence of writers.
        unsafe { std::slice::from_raw_parts(self.start, length.min(self.length)) }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:p}", self.length, self.start)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.block.is_some() {
            return;
        }
        // SAFETY: exactly the mapping that `map` made; no slice of it lives on, as they borrow from `self`.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}
