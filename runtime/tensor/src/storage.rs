//! Blocks of bytes: aligned heap memory and read-only file mappings.
//!
//! Invariants (the reason this file may use `unsafe`):
//! * [`AlignedBytes`] owns exactly one allocation of `len` initialised bytes, aligned to [`ALIGN`], freed once.
//! * [`MappedFile`] maps a regular file privately and read-only. Truncating the file while it is mapped makes a read
//!   of the lost pages fail with a signal, as for every user of `mmap`; model files are replaced by renaming.

use crate::{Error, ErrorKind, Result};
use std::alloc::{Layout as AllocLayout, alloc_zeroed, dealloc};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of every allocation: one cache line, the widest SIMD register.
pub const ALIGN: usize = 64;

/// Zeroed, [`ALIGN`]-aligned bytes on the heap.
pub struct AlignedBytes {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: the block is owned and reached only through `&self` (shared reads) or `&mut self`.
unsafe impl Send for AlignedBytes {}
// SAFETY: as above.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// `len` zero bytes. Errors when the memory cannot be had.
    pub fn zeroed(len: usize) -> Result<Self> {
        let refused = || Error::new(ErrorKind::Io, format!("{len} bytes of memory could not be allocated"));
        let layout = AllocLayout::from_size_align(len.max(1), ALIGN).map_err(|_| refused())?;
        // SAFETY: the size is not zero.
        let ptr = unsafe { alloc_zeroed(layout) };
        NonNull::new(ptr).map(|ptr| AlignedBytes { ptr, len }).ok_or_else(refused)
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: ptr is valid for len initialised bytes for as long as self lives.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    /// The bytes, writable.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }

    /// Start of the block; it never moves.
    pub(crate) fn base(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `alloc_zeroed` with this very layout (`zeroed` proved it valid).
        unsafe { dealloc(self.ptr.as_ptr(), AllocLayout::from_size_align_unchecked(self.len.max(1), ALIGN)) }
    }
}

/// A file mapped read-only, shared by everything that borrows from it.
#[derive(Clone)]
pub struct MappedFile {
    map: Option<Arc<memmap2::Mmap>>,
}

impl MappedFile {
    /// Maps a regular file. Errors name the path.
    pub fn open(path: &Path) -> Result<Self> {
        let fail = |e: std::io::Error| Error::new(ErrorKind::Io, format!("{}: {e}", path.display()));
        let regular = |meta: &std::fs::Metadata| match meta.is_file() {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Io, format!("{}: not a regular file", path.display()))),
        };
        // Before it is opened, too: to open a pipe waits for its other end.
        regular(&std::fs::metadata(path).map_err(fail)?)?;
        let file = std::fs::File::open(path).map_err(fail)?;
        let meta = file.metadata().map_err(fail)?;
        regular(&meta)?;
        if meta.len() == 0 {
            return Ok(MappedFile { map: None });
        }
        // SAFETY: the mapping is private and read-only; see the module's invariants for concurrent truncation.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(fail)?;
        Ok(MappedFile { map: Some(Arc::new(map)) })
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        self.map.as_ref().map_or(&[], |m| &m[..])
    }
}
