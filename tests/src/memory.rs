//! An allocator that counts, per thread: what a piece of code allocates, and how much it holds at its peak.
//!
//! ```
//! use saltica_tests::memory::{Counting, measure};
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting;
//!
//! let (v, usage) = measure(|| vec![0u8; 1000]);
//! assert_eq!(usage.allocations, 1);
//! assert!(usage.peak_bytes >= v.len());
//! ```
//!
//! `unsafe` is here because the trait asks for it: every call is passed on to the system's allocator as it is.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts and passes on to the system's allocator.
pub struct Counting;

#[derive(Clone, Copy, Default)]
struct Counters {
    allocations: usize,
    held: isize,
    peak: isize,
}

thread_local! {
    static COUNTERS: Cell<Counters> = const { Cell::new(Counters { allocations: 0, held: 0, peak: 0 }) };
}

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

fn count(allocations: usize, bytes: isize) {
    ALLOCATIONS.fetch_add(allocations, Ordering::Relaxed);
    // While a thread ends its counters may be gone; nobody measures then.
    let _ = COUNTERS.try_with(|cell| {
        let mut c = cell.get();
        c.allocations += allocations;
        c.held += bytes;
        c.peak = c.peak.max(c.held);
        cell.set(c);
    });
}

// SAFETY: all four pass their arguments on to `System`, which keeps the trait's promises; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks may live at once.
        count(1, size as isize);
        count(0, -(layout.size() as isize));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(ptr, layout, size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(0, -(layout.size() as isize));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// What a piece of code used, on the thread that ran it.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Calls of the allocator that asked for memory.
    pub allocations: usize,
    /// Most bytes held at once, beyond what was held before.
    pub peak_bytes: usize,
}

/// Calls that asked for memory so far, on all threads of the process.
pub fn allocations() -> usize {
    ALLOCATIONS.load(Ordering::SeqCst)
}

/// Runs `code` and says what it used. Zero everywhere unless [`Counting`] is the program's allocator.
pub fn measure<R>(code: impl FnOnce() -> R) -> (R, Usage) {
    let before = COUNTERS.with(|cell| {
        let mut c = cell.get();
        c.peak = c.held;
        cell.set(c);
        c
    });
    let result = code();
    let after = COUNTERS.with(Cell::get);
    let peak_bytes = usize::try_from(after.peak - before.held).unwrap_or(0);
    (result, Usage { allocations: after.allocations - before.allocations, peak_bytes })
}
