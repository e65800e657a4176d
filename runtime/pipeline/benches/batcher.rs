//! What a decision costs: `cargo bench -p saltica-pipeline --bench batcher`.

#![allow(clippy::unwrap_used)] // a bench may stop

use std::time::Duration;

use divan::{Bencher, black_box};
use saltica_pipeline::batch::simulate::compare::devices;
use saltica_pipeline::batch::{Batcher, BatcherConfig, Decision, RunTimes};
use saltica_pipeline::clock::Time;

fn main() {
    divan::main();
}

/// Streams, frames that wait, and how full the device is.
const CASES: [(usize, usize, f64); 6] =
    [(1, 1, 0.5), (8, 8, 0.5), (8, 8, 0.95), (8, 12, 1.3), (8, 32, 1.5), (64, 64, 1.5)];

/// A batcher for the H200's curve before a decision: `streams` cameras have come regularly for a while, `waiting` frames of
/// them wait, some of which no longer fit.
fn before_a_decision(streams: usize, waiting: usize, load: f64) -> (Batcher, Time) {
    let (_, machine, _) = devices().remove(2);
    let objective = machine.time(1) * 8;
    let points: Vec<(usize, Duration)> = (1..=machine.most()).map(|b| (b, machine.time(b))).collect();
    let curve = RunTimes::new(&[], machine.most(), &points).unwrap();
    let mut config = BatcherConfig::new(streams, Some(objective));
    config.waiting = 64;
    let mut batcher = Batcher::new(&config, vec![curve]).unwrap();
    let gap = 1e9 / (machine.capacity(objective).1 * load);
    let mut now = Time::ZERO;
    for n in 0..streams * 40 + waiting {
        now = Time::from_nanos(1_000_000 + (n as f64 * gap) as u64);
        batcher.offer(now, (n % streams) as u32, (n / streams) as u64, now);
        if n < streams * 40 {
            while batcher.decide(now) == Decision::Launch {
                batcher.finished(None);
            }
        }
        while batcher.shed().is_some() {}
    }
    (batcher, now)
}

#[divan::bench(args = CASES)]
fn decide(bencher: Bencher, (streams, waiting, load): (usize, usize, f64)) {
    bencher
        .with_inputs(|| before_a_decision(streams, waiting, load))
        .bench_local_refs(|(batcher, now)| black_box(batcher.decide(*now)));
}

#[divan::bench(args = CASES)]
fn offer(bencher: Bencher, (streams, waiting, load): (usize, usize, f64)) {
    bencher
        .with_inputs(|| before_a_decision(streams, waiting, load))
        .bench_local_refs(|(batcher, now)| batcher.offer(*now, 0, 1 << 20, *now));
}

#[divan::bench]
fn finished(bencher: Bencher) {
    bencher
        .with_inputs(|| {
            let (mut batcher, now) = before_a_decision(8, 8, 0.9);
            batcher.decide(now);
            batcher
        })
        .bench_local_refs(|batcher| batcher.finished(Some(Duration::from_micros(1280))));
}
