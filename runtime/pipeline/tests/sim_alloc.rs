//! After the first frames neither the simulated camera nor a running source allocates anything.

#![allow(clippy::unwrap_used)] // helpers of tests

#[path = "common/counting.rs"]
mod counting;

use std::time::Duration;

use saltica_pipeline::frame::SourceId;
use saltica_pipeline::ring::Bell;
use saltica_pipeline::source::sim::{FrameBuf, Sim, SimSpec};
use saltica_pipeline::source::{SourceUri, Supervisor};

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
        let before = counting::of_process();
        for n in 1..200 {
            sim.frame(n * 11, &mut buf).unwrap();
        }
        assert_eq!(counting::of_process() - before, 0, "{uri}");
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
        let before = counting::of_process();
        (0..300).for_each(|_| take());
        assert_eq!(counting::of_process() - before, 0, "{uri}");
        assert!(s.stop());
    }
}
