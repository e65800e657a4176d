//! After the first frames neither the simulated camera nor a running source allocates anything.

#![allow(clippy::unwrap_used)] // helpers of tests

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use saltica_pipeline::frame::SourceId;
use saltica_pipeline::ring::Bell;
use saltica_pipeline::source::sim::{FrameBuf, Sim, SimSpec};
use saltica_pipeline::source::{SourceUri, Supervisor};

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

/// One test: the count is of the whole process, and the harness allocates when it reports another.
#[test]
fn steady_states_cost_no_allocation() {
    frames_cost_none();
    running_sources_cost_none();
}

fn frames_cost_none() {
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

/// From the source's thread through its ring to its user and back. (A camera's driver: `vivid.rs`.)
fn running_sources_cost_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clip.raw");
    std::fs::write(&path, vec![7u8; 10 * 96 * 64 * 3 / 2]).unwrap();
    for uri in [
        format!("file:{}?size=96x64&format=nv12&loop=on", path.display()),
        "sim:street?size=160x96&noise=0&pace=off&keep=all".to_owned(),
    ] {
        let uri = SourceUri::parse(&uri).unwrap();
        let s = Supervisor::start(uri.source().unwrap(), SourceId(0), uri.name(), uri.plan(), Bell::new())
            .unwrap();
        let take = || drop(s.ring().pop(Duration::from_secs(60)).unwrap());
        (0..20).for_each(|_| take());
        let before = COUNT.load(Ordering::Relaxed);
        (0..300).for_each(|_| take());
        assert_eq!(COUNT.load(Ordering::Relaxed) - before, 0, "{uri}");
        assert!(s.stop());
    }
}
