use super::{Device, Stream, failed};
use crate::{Error, ErrorKind, Result};
use cudarc::driver::{result, sys};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Device allocations of this process so far, of every kind: a steady-state run makes none.
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// How many device or page-locked allocations this process has made.
pub fn allocations() -> usize {
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// Bytes of device memory, from `cuMemAlloc`.
pub(crate) struct DeviceBuffer {
    device: Arc<Device>,
    address: u64,
    len: usize,
}

impl DeviceBuffer {
    /// `len` bytes (at least one); contents are whatever was there.
    pub(crate) fn new(device: &Arc<Device>, len: usize) -> Result<DeviceBuffer> {
        device.bind()?;
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: an allocation of more than 0 bytes.
        let address = unsafe { result::malloc_sync(len.max(1)) }.map_err(|e| {
            let free = result::mem_get_info().map_or(0, |m| m.0);
            Error::new(
                ErrorKind::Memory,
                format!("{len} bytes of device memory were asked for, {free} are free: {}", super::name(e)),
            )
        })?;
        Ok(DeviceBuffer { device: device.clone(), address, len })
    }

    /// Address of the first byte, as kernels see it.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Sets `len` bytes from `offset` on, when the stream gets there.
    pub(crate) fn fill(&self, byte: u8, offset: usize, len: usize, stream: &Stream) -> Result<()> {
        self.check(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: the range was checked.
        unsafe { result::memset_d8_async(self.address + offset as u64, byte, len, stream.raw()) }
            .map_err(|e| failed("filling device memory", e))
    }

    fn check(&self, offset: usize, len: usize) -> Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Driver,
                format!("copy of {len} bytes at {offset} leaves a buffer of {}", self.len),
            )),
        }
    }

    /// Copies from page-locked memory, when the stream gets there; `from` must not change before.
    pub(crate) fn upload(
        &self,
        offset: usize,
        from: &HostBuffer,
        at: usize,
        len: usize,
        stream: &Stream,
    ) -> Result<()> {
        self.check(offset, len)?;
        let source = from.bytes().get(at..at + len).ok_or_else(|| {
            Error::new(
                ErrorKind::Driver,
                format!("copy of {len} bytes at {at} leaves a host buffer of {}", from.len()),
            )
        })?;
        self.device.bind()?;
        // SAFETY: both ranges were checked; page-locked memory outlives the copy because owners wait for their stream.
        unsafe { result::memcpy_htod_async(self.address + offset as u64, source, stream.raw()) }
            .map_err(|e| failed("copying to the device", e))
    }

    /// Copies to page-locked memory, when the stream gets there.
    pub(crate) fn download(
        &self,
        offset: usize,
        to: &mut HostBuffer,
        at: usize,
        len: usize,
        stream: &Stream,
    ) -> Result<()> {
        self.check(offset, len)?;
        let available = to.len();
        let target = to.bytes_mut().get_mut(at..at + len).ok_or_else(|| {
            Error::new(
                ErrorKind::Driver,
                format!("copy of {len} bytes at {at} leaves a host buffer of {available}"),
            )
        })?;
        self.device.bind()?;
        // SAFETY: both ranges were checked; see `upload`.
        unsafe { result::memcpy_dtoh_async(target, self.address + offset as u64, stream.raw()) }
            .map_err(|e| failed("copying from the device", e))
    }

    /// Copies to ordinary memory and waits.
    pub(crate) fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.check(offset, to.len())?;
        self.device.bind()?;
        // SAFETY: both ranges were checked.
        unsafe { result::memcpy_dtoh_sync(to, self.address + offset as u64) }
            .map_err(|e| failed("copying from the device", e))
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`, freed once. Freeing waits for work that uses it.
        let freed = self.device.bind().map(|()| unsafe { result::free_sync(self.address) });
        if !matches!(freed, Ok(Ok(()))) {
            log::debug!("freeing device memory: {freed:?}");
        }
    }
}

/// What page-locked host memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostKind {
    /// Copies only.
    Pinned,
    /// Also mapped for the device: kernels read it in place.
    Mapped,
}

/// Page-locked host memory, cached for the CPU (never write-combined: outputs are read from it).
pub(crate) struct HostBuffer {
    device: Arc<Device>,
    data: *mut u8,
    len: usize,
    mapped: Option<u64>,
}

// SAFETY: owned memory; whoever lets the device touch it waits for the stream before lending it out.
unsafe impl Send for HostBuffer {}
// SAFETY: as above.
unsafe impl Sync for HostBuffer {}

impl HostBuffer {
    /// `len` zero bytes.
    pub(crate) fn new(device: &Arc<Device>, kind: HostKind, len: usize) -> Result<HostBuffer> {
        device.bind()?;
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        let flags = match kind {
            HostKind::Pinned => sys::CU_MEMHOSTALLOC_PORTABLE,
            HostKind::Mapped => sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP,
        };
        // SAFETY: an allocation of more than 0 bytes.
        let data = unsafe { result::malloc_host(len.max(1), flags) }
            .map_err(|e| failed(&format!("{len} bytes of page-locked memory"), e))?
            .cast::<u8>();
        // SAFETY: just allocated with at least this many bytes.
        unsafe { data.write_bytes(0, len) };
        let mut buffer = HostBuffer { device: device.clone(), data, len, mapped: None };
        if kind == HostKind::Mapped {
            let mut address = 0;
            // SAFETY: the memory was allocated with DEVICEMAP. On L4T R36.5 pointer attributes are null for it; this call works.
            unsafe { sys::cuMemHostGetDevicePointer_v2(&mut address, data.cast(), 0) }
                .result()
                .map_err(|e| failed("mapping host memory", e))?;
            buffer.mapped = Some(address);
        }
        Ok(buffer)
    }

    /// Address for kernels, if it is mapped.
    pub(crate) fn mapped(&self) -> Option<u64> {
        self.mapped
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes. Whoever gave a stream work that writes them has waited for it.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes, initialised in `new`.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }

    /// The bytes, to write. Whoever gave a stream work that uses them has waited for it.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.len) }
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`, freed once. Freeing waits for work that uses it.
        let freed = self.device.bind().map(|()| unsafe { result::free_host(self.data.cast()) });
        if !matches!(freed, Ok(Ok(()))) {
            log::debug!("freeing page-locked memory: {freed:?}");
        }
    }
}

/// Managed memory: one address for both, moved by the driver.
pub(crate) struct ManagedBuffer {
    device: Arc<Device>,
    address: u64,
    len: usize,
}

impl ManagedBuffer {
    /// Most bytes one buffer may have: larger ones can oversubscribe and stall a GPU.
    pub(crate) const MOST: usize = 64 << 20;

    /// `len` bytes, at most [`Self::MOST`].
    pub(crate) fn new(device: &Arc<Device>, len: usize) -> Result<ManagedBuffer> {
        if len > Self::MOST {
            return Err(Error::new(
                ErrorKind::Memory,
                format!("{len} bytes of managed memory were asked for, at most {} are taken", Self::MOST),
            ));
        }
        device.bind()?;
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: an allocation of more than 0 bytes.
        let address =
            unsafe { result::malloc_managed(len.max(1), sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL) }
                .map_err(|e| failed(&format!("{len} bytes of managed memory"), e))?;
        Ok(ManagedBuffer { device: device.clone(), address, len })
    }

    /// The address, for both.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// The bytes for the CPU: waits for all work on the device first, since a kernel that runs may touch them.
    pub(crate) fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        self.device.synchronize()?;
        // SAFETY: `len` bytes of managed memory that no kernel is using; any byte is a valid u8.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.len) })
    }

    /// As [`Self::bytes_mut`], to read.
    pub(crate) fn bytes(&self) -> Result<&[u8]> {
        self.device.synchronize()?;
        // SAFETY: as above.
        Ok(unsafe { std::slice::from_raw_parts(self.address as *const u8, self.len) })
    }
}

impl Drop for ManagedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`, freed once.
        let freed = self.device.bind().map(|()| unsafe { result::memory_free(self.address) });
        if !matches!(freed, Ok(Ok(()))) {
            log::debug!("freeing managed memory: {freed:?}");
        }
    }
}
