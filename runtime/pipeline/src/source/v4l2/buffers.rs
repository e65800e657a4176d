//! The buffers that go round between a driver and the frames that borrow them.
//!
//! Invariant: each buffer is in one place, by `Place`. `QUEUED`: the driver may write into it, nobody reads. `LENT`: one frame
//! reads it, the driver does not know it. `IDLE`: neither. A buffer becomes `LENT` only when the driver handed it out while
//! it was `QUEUED`, and leaves `LENT` only when its frame is dropped; it becomes `QUEUED` before the request that queues it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use super::abi::{self, MAX_PLANES};
use super::sys::{self, BufferIo, Driver, Region, Request};
use super::{MemoryWish, failed};
use crate::frame::{Lender, Memory};
use crate::{Error, ErrorKind, Result};

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const LENT: u8 = 2;

/// One memory block of a buffer.
#[derive(Debug)]
struct Block {
    region: Region,
    exported: Option<OwnedFd>,
    /// Bytes of it that the last frame has, and where they start.
    used: AtomicU64,
    start: AtomicU64,
}

#[derive(Debug)]
struct Slot {
    place: AtomicU8,
    blocks: Vec<Block>,
}

/// A stream's buffers. Dropped when the stream is closed and the last frame is gone: then memory is unmapped, and the
/// device closed.
#[derive(Debug)]
pub(crate) struct Buffers {
    slots: Vec<Slot>,
    memory: MemoryWish,
    kind: u32,
    planes: usize,
    streaming: AtomicBool,
    /// Buffers that the driver would not take back.
    lost: AtomicU64,
    // Last: the memory is unmapped before the device is closed.
    driver: Arc<dyn Driver>,
}

/// A filled buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filled {
    pub(crate) index: u32,
    pub(crate) flags: u32,
    pub(crate) sequence: u32,
    pub(crate) seconds: i64,
    pub(crate) microseconds: i64,
    /// Bytes used of each plane, from the plane's start.
    pub(crate) used: [usize; MAX_PLANES],
    /// Bytes before the picture.
    pub(crate) offset: [usize; MAX_PLANES],
}

impl Buffers {
    /// Asks the driver for buffers, maps or provides their memory, and exports them where asked for. `sizes` are the bytes
    /// of each plane that the format takes.
    pub(crate) fn new(
        driver: Arc<dyn Driver>,
        kind: u32,
        memory: MemoryWish,
        count: u32,
        sizes: &[usize],
    ) -> Result<Buffers> {
        let code = if memory == MemoryWish::UserPtr { abi::MEMORY_USERPTR } else { abi::MEMORY_MMAP };
        let mut request = abi::RequestBuffers { count, kind, memory: code, ..abi::RequestBuffers::default() };
        driver.ioctl(Request::Buffers(&mut request)).map_err(|e| {
            let e = failed("asking for buffers", &e);
            // EINVAL: a memory the driver does not do.
            let unsupported = e.kind() == ErrorKind::Unsupported;
            if unsupported {
                e.at(format!("memory={} is not possible with this driver", memory.name()))
            } else {
                e
            }
        })?;
        // With one buffer a driver could not fill one while another is read; far more than asked for is a broken driver.
        if !(2..=256).contains(&request.count) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("the driver gave {} buffers, {count} were asked for and 2 are needed", request.count),
            ));
        }
        let mut buffers = Buffers {
            slots: Vec::with_capacity(request.count as usize),
            memory,
            kind,
            planes: sizes.len(),
            streaming: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            driver,
        };
        for index in 0..request.count {
            let blocks = buffers.blocks(index, sizes)?;
            buffers.slots.push(Slot { place: AtomicU8::new(IDLE), blocks });
        }
        Ok(buffers)
    }

    fn io(&self, index: u32) -> BufferIo {
        let mut io = BufferIo::default();
        io.raw.index = index;
        io.raw.kind = self.kind;
        io.raw.memory =
            if self.memory == MemoryWish::UserPtr { abi::MEMORY_USERPTR } else { abi::MEMORY_MMAP };
        if io.is_multi() {
            io.raw.length = self.planes as u32;
        }
        io
    }

    fn blocks(&self, index: u32, sizes: &[usize]) -> Result<Vec<Block>> {
        let mut io = self.io(index);
        if self.memory != MemoryWish::UserPtr {
            self.driver
                .ioctl(Request::QueryBuffer(&mut io))
                .map_err(|e| failed("asking for a buffer", &e))?;
        }
        let mut blocks = Vec::with_capacity(sizes.len());
        for (p, &size) in sizes.iter().enumerate() {
            let region = if self.memory == MemoryWish::UserPtr {
                Region::own(size)
            } else {
                // Offsets of drivers are 32 bits wide.
                let (offset, length) = if io.is_multi() {
                    (io.planes[p].m & 0xffff_ffff, io.planes[p].length)
                } else {
                    (io.raw.m & 0xffff_ffff, io.raw.length)
                };
                if (length as usize) < size {
                    return Err(Error::new(
                        ErrorKind::Unsupported,
                        format!("the driver's buffers have {length} bytes, its own format takes {size}"),
                    ));
                }
                self.driver.map(offset, length as usize)
            };
            let region = region.map_err(|e| failed("mapping a buffer", &e))?;
            let exported = if self.memory == MemoryWish::DmaBuf {
                let flags = (libc::O_CLOEXEC | libc::O_RDWR) as u32;
                let mut export = abi::ExportBuffer {
                    kind: self.kind,
                    index,
                    plane: p as u32,
                    flags,
                    fd: -1,
                    reserved: [0; 11],
                };
                self.driver.ioctl(Request::Export(&mut export)).map_err(|e| {
                    let e = failed("exporting a buffer", &e);
                    Error::new(ErrorKind::Unsupported, e.to_string())
                        .at("memory=dmabuf is not possible with this driver")
                })?;
                sys::adopt(export.fd)
            } else {
                None
            };
            blocks.push(Block { region, exported, used: AtomicU64::new(0), start: AtomicU64::new(0) });
        }
        Ok(blocks)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.slots.len()
    }

    /// Buffers that the driver has or will get again.
    pub(crate) fn alive(&self) -> usize {
        self.slots.len() - self.lost.load(Ordering::Relaxed) as usize
    }

    /// Whether the driver has none, as frames hold them all.
    pub(crate) fn all_lent(&self) -> bool {
        !self.slots.iter().any(|s| s.place.load(Ordering::Acquire) == QUEUED)
    }

    /// Queues all buffers and starts the stream.
    pub(crate) fn start(&self) -> Result<()> {
        for index in 0..self.slots.len() as u32 {
            self.queue(index)?;
        }
        self.driver.ioctl(Request::On(self.kind)).map_err(|e| failed("starting the stream", &e))?;
        self.streaming.store(true, Ordering::Release);
        Ok(())
    }

    /// Stops the stream. Buffers that are lent stay so.
    pub(crate) fn stop(&self) -> std::io::Result<()> {
        self.streaming.store(false, Ordering::Release);
        self.driver.ioctl(Request::Off(self.kind))
    }

    fn queue(&self, index: u32) -> Result<()> {
        let slot = &self.slots[index as usize];
        let mut io = self.io(index);
        if self.memory == MemoryWish::UserPtr {
            for (p, block) in slot.blocks.iter().enumerate() {
                let (address, length) = (block.region.address(), block.region.len() as u32);
                if io.is_multi() {
                    (io.planes[p].m, io.planes[p].length) = (address, length);
                } else {
                    (io.raw.m, io.raw.length) = (address, length);
                }
            }
        }
        slot.place.store(QUEUED, Ordering::Release);
        self.driver.ioctl(Request::Queue(&mut io)).map_err(|e| {
            slot.place.store(IDLE, Ordering::Release);
            failed("queueing a buffer", &e)
        })
    }

    /// Takes the next filled buffer. Ok(None): there is none.
    pub(crate) fn dequeue(&self) -> std::io::Result<Option<Filled>> {
        let mut io = self.io(0);
        match self.driver.ioctl(Request::Dequeue(&mut io)) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) => return Err(e),
        }
        let index = io.raw.index;
        let slot = self.slots.get(index as usize);
        let was_queued = slot.is_some_and(|s| {
            s.place.compare_exchange(QUEUED, LENT, Ordering::AcqRel, Ordering::Acquire).is_ok()
        });
        if !was_queued {
            return Err(std::io::Error::other(format!(
                "the driver returned buffer {index}, which it did not have"
            )));
        }
        let mut filled = Filled {
            index,
            flags: io.raw.flags,
            sequence: io.raw.sequence,
            seconds: io.raw.seconds,
            microseconds: io.raw.microseconds,
            used: [0; MAX_PLANES],
            offset: [0; MAX_PLANES],
        };
        if io.is_multi() {
            for (p, plane) in io.planes.iter().enumerate().take(self.planes) {
                filled.used[p] = plane.bytesused as usize;
                filled.offset[p] = plane.data_offset as usize;
            }
        } else {
            filled.used[0] = io.raw.bytesused as usize;
        }
        if let Some(slot) = slot {
            for (p, block) in slot.blocks.iter().enumerate() {
                block.used.store(filled.used[p] as u64, Ordering::Relaxed);
                block.start.store(filled.offset[p] as u64, Ordering::Relaxed);
            }
        }
        Ok(Some(filled))
    }

    /// Bytes that a plane's buffer holds.
    pub(crate) fn room(&self, plane: usize) -> usize {
        self.slots.first().and_then(|s| s.blocks.get(plane)).map_or(0, |b| b.region.len())
    }
}

impl Lender for Buffers {
    fn block(&self, buffer: u32, block: usize) -> &[u8] {
        let Some(slot) = self.slots.get(buffer as usize) else { return &[] };
        let Some(b) = slot.blocks.get(block) else { return &[] };
        if slot.place.load(Ordering::Acquire) != LENT {
            return &[];
        }
        // SAFETY: the buffer is lent, so by the module's invariant the driver does not have it; and it stays lent while the
        // frame lives from which the caller's borrow comes, since only dropping that frame gives it back.
        let bytes = unsafe { b.region.bytes(b.used.load(Ordering::Relaxed) as usize) };
        bytes.get(b.start.load(Ordering::Relaxed) as usize..).unwrap_or_default()
    }

    fn give_back(&self, buffer: u32) {
        let Some(slot) = self.slots.get(buffer as usize) else { return };
        if slot.place.compare_exchange(LENT, IDLE, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
        // The driver is going or gone when it refuses: the source's own thread finds out by itself.
        if self.streaming.load(Ordering::Acquire) && self.queue(buffer).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn memory(&self) -> Memory {
        match self.memory {
            MemoryWish::Mmap => Memory::Mmap,
            MemoryWish::DmaBuf => Memory::DmaBuf,
            MemoryWish::UserPtr => Memory::UserPtr,
        }
    }

    fn dmabuf(&self, buffer: u32, block: usize) -> Option<BorrowedFd<'_>> {
        Some(self.slots.get(buffer as usize)?.blocks.get(block)?.exported.as_ref()?.as_fd())
    }
}
