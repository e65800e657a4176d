//! After the first frames the simulated camera allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use saltica_pipeline::source::sim::{FrameBuf, Sim, SimSpec};

struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises about `layout` are those of `System.alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: `p` came from `System.alloc` with this layout.
        unsafe { System.dealloc(p, layout) }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as for `dealloc`; the caller's promises about `size` are those of `System.realloc`.
        unsafe { System.realloc(p, layout, size) }
    }
}

#[global_allocator]
static COUNTER: Counting = Counting;

#[test]
fn frames_cost_no_allocation() {
    for uri in [
        "sim:crowded?seed=5&size=640x360&light=night&weather=rain&blur=0.5&shake=4",
        "sim:street?seed=8&size=640x360",
    ] {
        let mut sim = Sim::open(&SimSpec::parse(uri).unwrap()).unwrap();
        let mut buf = FrameBuf::default();
        sim.frame(0, &mut buf).unwrap();
        let before = COUNT.load(Ordering::Relaxed);
        for n in 1..200 {
            sim.frame(n * 11, &mut buf).unwrap();
        }
        assert_eq!(COUNT.load(Ordering::Relaxed) - before, 0, "{uri}");
    }
}
