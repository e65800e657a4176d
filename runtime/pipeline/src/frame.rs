//! One picture on its way: whose it is, when it was captured, and bytes that are borrowed from where they arrived.
//!
//! A [`Frame`] never copies. Its bytes lie either in memory that a [`Lender`] owns (a driver's buffer, mapped) or in a vector
//! of a [`Pool`]. Dropping the frame gives the buffer back: the driver's is queued again, the pool's vector is reused. So
//! whoever holds a frame holds one of a source's few buffers, and must let go of it soon.
//!
//! Times are [`Duration`]s since the zero of `CLOCK_MONOTONIC`, the clock V4L2 stamps frames with ([`monotonic`]).

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use saltica_tensor::{Colorimetry, PixelFormat, Pixels};

use crate::{Error, ErrorKind, Result};

/// The time now on `CLOCK_MONOTONIC`.
pub fn monotonic() -> Duration {
    let t = clock_gettime(ClockId::Monotonic);
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec as u32)
}

/// Which source a frame comes from: its place in the list of sources, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "source {}", self.0)
    }
}

/// Where one plane lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaneLayout {
    /// Which of the buffer's memory blocks: 0, but for multi-planar drivers that give each plane a block of its own.
    pub block: usize,
    /// Bytes from the block's start to the first row.
    pub offset: usize,
    /// Bytes from row to row.
    pub stride: usize,
}

/// Size, pixel format and layout of a source's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameFormat {
    /// How pixels are stored.
    pub pixel: PixelFormat,
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Where the planes lie; [`PixelFormat::planes`] of them count.
    pub planes: [PlaneLayout; 3],
    /// What luma and chroma mean.
    pub colorimetry: Colorimetry,
}

impl FrameFormat {
    /// One block without gaps.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] when a side is 0 or beyond [`Pixels::MAX_SIDE`].
    pub fn packed(pixel: PixelFormat, width: usize, height: usize) -> Result<Self> {
        let stride = if width > Pixels::MAX_SIDE { 0 } else { pixel.row_bytes(0, width) };
        Self::contiguous(pixel, width, height, stride)
    }

    /// One block whose rows are `stride` bytes apart and whose planes follow each other, as V4L2 lays them out.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] when a side is 0 or beyond [`Pixels::MAX_SIDE`], or the stride is below a row's bytes.
    pub fn contiguous(pixel: PixelFormat, width: usize, height: usize, stride: usize) -> Result<Self> {
        let most = Pixels::MAX_SIDE;
        if width == 0 || height == 0 || width > most || height > most {
            return Err(Error::new(
                ErrorKind::Value,
                format!("frames of {width}x{height} found, sides from 1 to {most} expected"),
            ));
        }
        let row = pixel.row_bytes(0, width);
        // Beyond eight picture widths a stride is a mistake, and its products might overflow.
        if stride < row || stride > 8 * 4 * most {
            return Err(Error::new(
                ErrorKind::Value,
                format!(
                    "a stride of {stride} bytes found, {row} or a little more expected for {width} {pixel} pixels"
                ),
            ));
        }
        let mut planes = [PlaneLayout::default(); 3];
        let mut at = 0;
        for (p, plane) in planes.iter_mut().enumerate().take(pixel.planes()) {
            let stride = pixel.plane_stride(p, stride);
            *plane = PlaneLayout { block: 0, offset: at, stride };
            at += stride * pixel.plane_rows(p, height);
        }
        Ok(FrameFormat { pixel, width, height, planes, colorimetry: Colorimetry::default() })
    }

    /// The least bytes that block `block` must hold for a whole frame: up to the end of its last row.
    pub fn needed(&self, block: usize) -> usize {
        (0..self.pixel.planes())
            .filter(|p| self.planes[*p].block == block)
            .map(|p| {
                let l = self.planes[p];
                l.offset
                    + l.stride * (self.pixel.plane_rows(p, self.height) - 1)
                    + self.pixel.row_bytes(p, self.width)
            })
            .max()
            .unwrap_or(0)
    }

    /// Memory blocks a frame has: 1 to 3.
    pub fn blocks(&self) -> usize {
        (0..self.pixel.planes()).map(|p| self.planes[p].block + 1).max().unwrap_or(1)
    }
}

impl fmt::Display for FrameFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{} {}", self.width, self.height, self.pixel)?;
        if self.pixel.is_yuv() { write!(f, " ({})", self.colorimetry) } else { Ok(()) }
    }
}

/// Where a frame's bytes lie, for a device that wants to read them in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Memory {
    /// A vector of this process.
    Heap,
    /// A driver's buffer mapped into this process.
    Mmap,
    /// Memory of ours that the driver writes into.
    UserPtr,
    /// A driver's buffer that is also a dma-buf ([`Frame::dmabuf`]).
    DmaBuf,
    /// A buffer of a GStreamer pipeline.
    Gst,
}

impl Memory {
    /// The lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Memory::Heap => "heap",
            Memory::Mmap => "mmap",
            Memory::UserPtr => "userptr",
            Memory::DmaBuf => "dmabuf",
            Memory::Gst => "gst",
        }
    }
}

/// Owner of buffers that frames borrow. A buffer is lent to one frame at a time; until the frame gives it back nobody
/// writes into it.
pub trait Lender: Send + Sync + fmt::Debug {
    /// The bytes of one memory block of a lent buffer.
    fn block(&self, buffer: u32, block: usize) -> &[u8];

    /// Takes the buffer back. Called once for each lent buffer, from whatever thread drops the frame.
    fn give_back(&self, buffer: u32);

    /// What kind of memory it is.
    fn memory(&self) -> Memory;

    /// The block as a dma-buf, where the driver could export it.
    fn dmabuf(&self, buffer: u32, block: usize) -> Option<BorrowedFd<'_>> {
        let _ = (buffer, block);
        None
    }
}

/// Buffers of this process that go round: `most` of them, all made when the first is taken, so that none is allocated later,
/// however many its users come to hold at once.
#[derive(Debug)]
pub struct Pool {
    free: Mutex<Free>,
    returned: Condvar,
    most: usize,
}

#[derive(Debug)]
struct Free {
    buffers: VecDeque<Vec<u8>>,
    out: usize,
}

impl Pool {
    /// A pool of `most` buffers (at least 1).
    pub fn new(most: usize) -> Arc<Pool> {
        let most = most.max(1);
        let free = Mutex::new(Free { buffers: VecDeque::with_capacity(most), out: 0 });
        Arc::new(Pool { free, returned: Condvar::new(), most })
    }

    /// A buffer of `bytes` bytes with any content, waiting at most `wait` for one to come back. None if none did.
    pub fn take(self: &Arc<Self>, bytes: usize, wait: Duration) -> Option<Lease> {
        let deadline = Instant::now() + wait;
        let mut free = lock(&self.free);
        while free.out >= self.most {
            let left = deadline.checked_duration_since(Instant::now()).filter(|d| !d.is_zero())?;
            free = self.returned.wait_timeout(free, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        for _ in free.buffers.len() + free.out..self.most {
            free.buffers.push_back(Vec::with_capacity(bytes));
        }
        free.out += 1;
        let mut buffer = free.buffers.pop_front().unwrap_or_default();
        drop(free);
        buffer.resize(bytes, 0);
        Some(Lease { buffer, pool: Arc::clone(self) })
    }

    /// Buffers that are out now.
    pub fn out(&self) -> usize {
        lock(&self.free).out
    }
}

/// A pool's buffer while it is filled; dropped without becoming a frame it goes back.
#[derive(Debug)]
pub struct Lease {
    buffer: Vec<u8>,
    pool: Arc<Pool>,
}

impl Lease {
    /// The bytes, to be read.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// The bytes, to be filled.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut free = lock(&self.pool.free);
        free.out -= 1;
        free.buffers.push_back(std::mem::take(&mut self.buffer));
        drop(free);
        self.pool.returned.notify_one();
    }
}

#[derive(Debug)]
enum Data {
    Owned(Lease),
    Lent(Loan),
}

/// A lent buffer, which goes back when this is dropped.
#[derive(Debug)]
struct Loan {
    lender: Arc<dyn Lender>,
    buffer: u32,
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.lender.give_back(self.buffer);
    }
}

/// What is told of a frame without its picture: it stays when the buffer has gone back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameInfo {
    /// [`Frame::source`].
    pub source: SourceId,
    /// [`Frame::id`].
    pub id: u64,
    /// [`Frame::sequence`].
    pub sequence: u64,
    /// [`Frame::captured`].
    pub captured: Duration,
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// [`Frame::copies`].
    pub copies: u32,
}

/// A captured picture. Sending it to another thread moves a handle, never pixels.
#[derive(Debug)]
pub struct Frame {
    /// Number within its source, from 0; a frame that was dropped on the way leaves a gap.
    pub id: u64,
    /// Whose it is.
    pub source: SourceId,
    /// When it was captured, on `CLOCK_MONOTONIC`: the driver's stamp where there is one.
    pub captured: Duration,
    /// The driver's own frame counter, where there is one; else as `id`.
    pub sequence: u64,
    format: FrameFormat,
    copies: u32,
    data: Data,
}

impl Frame {
    /// A frame in a pool's buffer. Number and source are 0 until the supervisor sets them.
    ///
    /// # Errors
    /// [`ErrorKind::Image`] when the buffer is too small for the format.
    pub fn owned(format: FrameFormat, data: Lease, captured: Duration) -> Result<Frame> {
        Self::new(format, Data::Owned(data), captured)
    }

    /// A frame in a lender's buffer, which is given back when the frame is dropped (at once, if this errors).
    ///
    /// # Errors
    /// [`ErrorKind::Image`] when the buffer is too small for the format.
    pub fn lent(
        format: FrameFormat,
        lender: Arc<dyn Lender>,
        buffer: u32,
        captured: Duration,
    ) -> Result<Frame> {
        Self::new(format, Data::Lent(Loan { lender, buffer }), captured)
    }

    fn new(format: FrameFormat, data: Data, captured: Duration) -> Result<Frame> {
        let frame = Frame { id: 0, source: SourceId(0), captured, sequence: 0, format, copies: 0, data };
        match frame.try_pixels() {
            Ok(_) => Ok(frame),
            Err(e) => Err(Error::new(ErrorKind::Image, format!("a frame that does not fit its buffer: {e}"))),
        }
    }

    /// Size, pixel format and layout.
    pub fn format(&self) -> &FrameFormat {
        &self.format
    }

    /// Whose frame it is, which, and how large.
    pub fn info(&self) -> FrameInfo {
        FrameInfo {
            source: self.source,
            id: self.id,
            sequence: self.sequence,
            captured: self.captured,
            width: self.format.width,
            height: self.format.height,
            copies: self.copies,
        }
    }

    /// The picture, in place.
    pub fn pixels(&self) -> Pixels<'_> {
        match self.try_pixels() {
            Ok(p) => p,
            Err(_) => unreachable!("checked when the frame was made, and nothing of it changes"),
        }
    }

    fn try_pixels(&self) -> std::result::Result<Pixels<'_>, saltica_tensor::Error> {
        let f = &self.format;
        let mut planes: [(&[u8], usize); 3] = [(&[], 0); 3];
        for (layout, plane) in f.planes.iter().zip(&mut planes).take(f.pixel.planes()) {
            *plane = (self.block(layout.block).get(layout.offset..).unwrap_or_default(), layout.stride);
        }
        let pixels = Pixels::planar(&planes[..f.pixel.planes()], f.width, f.height, f.pixel)?;
        Ok(pixels.with_colorimetry(f.colorimetry))
    }

    /// The raw bytes of one memory block (see [`PlaneLayout::block`]); empty if there is no such block.
    pub fn block(&self, block: usize) -> &[u8] {
        match &self.data {
            Data::Owned(lease) if block == 0 => lease.bytes(),
            Data::Owned(_) => &[],
            Data::Lent(l) => l.lender.block(l.buffer, block),
        }
    }

    /// Where the bytes lie.
    pub fn memory(&self) -> Memory {
        match &self.data {
            Data::Owned(_) => Memory::Heap,
            Data::Lent(l) => l.lender.memory(),
        }
    }

    /// The memory block as a dma-buf, where the driver could export it.
    pub fn dmabuf(&self, block: usize) -> Option<BorrowedFd<'_>> {
        match &self.data {
            Data::Owned(_) => None,
            Data::Lent(l) => l.lender.dmabuf(l.buffer, block),
        }
    }

    /// Which of its lender's buffers it lies in: a device may register each buffer once and remember it by this number
    /// (and by the block's address).
    pub fn buffer(&self) -> Option<u32> {
        match &self.data {
            Data::Owned(_) => None,
            Data::Lent(l) => Some(l.buffer),
        }
    }

    /// How often pixel data was copied by this program since it arrived (by DMA, from a file, out of a decoder): 0 is what
    /// "zero-copy" means.
    pub fn copies(&self) -> u32 {
        self.copies
    }

    /// Notes that the pixel data was copied once more.
    pub fn count_copy(&mut self) {
        self.copies += 1;
    }

    /// Time from capture to `now`; zero if `now` is earlier.
    pub fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.captured)
    }
}

/// A poisoned lock is as good as another here: what it guards is changed in one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[derive(Debug, Default)]
    struct Counting {
        bytes: Vec<u8>,
        back: AtomicU32,
    }

    impl Lender for Counting {
        fn block(&self, _: u32, block: usize) -> &[u8] {
            if block == 0 { &self.bytes } else { &[] }
        }
        fn give_back(&self, buffer: u32) {
            assert_eq!(buffer, 3);
            self.back.fetch_add(1, Ordering::Relaxed);
        }
        fn memory(&self) -> Memory {
            Memory::Mmap
        }
    }

    #[test]
    fn a_lent_buffer_goes_back_once_also_when_it_is_too_small() {
        let lender = Arc::new(Counting { bytes: (0..24).collect(), back: AtomicU32::new(0) });
        let format = FrameFormat::packed(PixelFormat::Nv12, 4, 4).unwrap();
        let frame =
            Frame::lent(format, Arc::clone(&lender) as Arc<dyn Lender>, 3, Duration::from_millis(5)).unwrap();
        assert_eq!(frame.pixels().plane_row(1, 1), [20, 21, 22, 23]);
        assert!(
            std::ptr::eq(frame.pixels().row(0).as_ptr(), lender.bytes.as_ptr()),
            "the bytes are not copied"
        );
        assert_eq!((frame.copies(), frame.age(Duration::from_millis(7))), (0, Duration::from_millis(2)));
        assert_eq!(lender.back.load(Ordering::Relaxed), 0);
        drop(frame);
        assert_eq!(lender.back.load(Ordering::Relaxed), 1);
        let format = FrameFormat::packed(PixelFormat::Nv12, 4, 6).unwrap();
        assert!(Frame::lent(format, Arc::clone(&lender) as Arc<dyn Lender>, 3, Duration::ZERO).is_err());
        assert_eq!(lender.back.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_pool_reuses_its_buffers_and_never_exceeds_them() {
        let pool = Pool::new(2);
        let format = FrameFormat::packed(PixelFormat::Gray8, 4, 2).unwrap();
        let a = pool.take(8, Duration::ZERO).unwrap();
        let at = a.bytes().as_ptr();
        let frame = Frame::owned(format, a, Duration::ZERO).unwrap();
        let _b = pool.take(8, Duration::ZERO).unwrap();
        assert!(pool.take(8, Duration::from_millis(1)).is_none());
        drop(frame);
        assert_eq!(pool.out(), 1);
        assert_eq!(pool.take(8, Duration::ZERO).unwrap().bytes().as_ptr(), at);
    }

    #[test]
    fn layouts_know_what_they_need() {
        let f = FrameFormat::contiguous(PixelFormat::I420, 6, 4, 8).unwrap();
        assert_eq!(f.planes.map(|p| (p.offset, p.stride)), [(0, 8), (32, 4), (40, 4)]);
        // The last row need not fill its stride.
        assert_eq!(f.needed(0), 40 + 4 + 3);
        assert_eq!((f.blocks(), f.needed(1)), (1, 0));
        assert!(FrameFormat::contiguous(PixelFormat::Yuyv, 6, 4, 11).is_err());
        assert!(FrameFormat::packed(PixelFormat::Rgb8, 0, 4).is_err());
        assert!(FrameFormat::packed(PixelFormat::Rgb8, usize::MAX, 4).is_err());
    }

    #[test]
    fn the_clock_is_the_one_that_instants_use() {
        // Each tuple is evaluated in order.
        let (a, i) = (monotonic(), Instant::now());
        let (j, b) = (i.elapsed(), monotonic());
        assert!(b >= a && b - a >= j);
    }
}
