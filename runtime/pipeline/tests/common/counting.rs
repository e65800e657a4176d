//! An allocator that counts the allocations of the process and of each thread. A test that names this module has it.

#![allow(dead_code, reason = "a test asks for one of the two counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

static PROCESS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// Allocations of the whole process so far.
pub(crate) fn of_process() -> u64 {
    PROCESS.load(Ordering::Relaxed)
}

/// Allocations of this thread so far.
pub(crate) fn of_thread() -> u64 {
    THREAD.get()
}

fn count() {
    PROCESS.fetch_add(1, Ordering::Relaxed);
    // A thread that is ending counts no more.
    let _ = THREAD.try_with(|c| c.set(c.get() + 1));
}

struct Counting;

// SAFETY: every call is passed on unchanged to the system's allocator; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises about `layout` are those of `System.alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: `p` came from `System.alloc` with this layout.
        unsafe { System.dealloc(p, layout) }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as for `dealloc`; the caller's promises about `size` are those of `System.realloc`.
        unsafe { System.realloc(p, layout, size) }
    }
}

#[global_allocator]
static COUNTER: Counting = Counting;
