//! The batcher in virtual time: properties over random arrivals, and the policies one by one.

#![allow(clippy::unwrap_used)] // helpers of tests

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use saltica_pipeline::batch::simulate::{Machine, Policy, Random, Trace, play};
use saltica_pipeline::batch::{
    Batcher, BatcherConfig, Decision, MemoryState, Objective, Reason, RunTimes, Shedding, Ticket,
};
use saltica_pipeline::clock::{Clock, Time, VirtualClock};

const MS: Duration = Duration::from_millis(1);

fn at(ms: f64) -> Time {
    Time::from_nanos((ms * 1e6) as u64)
}

/// Run times that never fall with the size: `first` for one frame and a step for each further one, microseconds.
fn machine() -> impl Strategy<Value = Machine> {
    (500u32..20_000, prop::collection::vec(0u32..10_000, 0..16)).prop_map(|(first, steps)| {
        let mut time = f64::from(first) * 1e-6;
        let mut points = vec![(1, time)];
        for step in steps {
            time += f64::from(step) * 1e-6;
            points.push((points.len() + 1, time));
        }
        Machine::measured(&points)
    })
}

fn curve(machine: &Machine) -> RunTimes {
    let points: Vec<_> = (1..=machine.most()).map(|b| (b, machine.time(b))).collect();
    RunTimes::new(&[], machine.most(), &points).unwrap()
}

/// Frames of `gaps.len()` random arrivals: distance in microseconds, stream.
fn trace(gaps: &[(u32, u32)], streams: u32, objective: Duration) -> Trace {
    let mut now = Time::ZERO;
    let mut ids = vec![0; streams as usize];
    let frames = gaps.iter().map(|&(gap, source)| {
        now = now + Duration::from_micros(u64::from(gap));
        let source = source % streams;
        ids[source as usize] += 1;
        Ticket { source, id: ids[source as usize], captured: now, deadline: now + objective }
    });
    Trace { frames: frames.collect(), streams }
}

/// Distances mostly short, some long.
fn gaps() -> impl Strategy<Value = Vec<(u32, u32)>> {
    prop::collection::vec((prop_oneof![0u32..300, 0u32..8_000, 0u32..60_000], any::<u32>()), 1..200)
}

/// Runs everything that waits, up to a size, whenever the device is free: work is never put off.
struct WorkConserving {
    cap: usize,
    queue: std::collections::VecDeque<Ticket>,
    batch: Vec<Ticket>,
}

impl Policy for WorkConserving {
    fn offer(&mut self, _: Time, frame: Ticket) {
        self.queue.push_back(frame);
    }

    fn decide(&mut self, _: Time) -> Decision {
        self.batch.clear();
        self.batch.extend((0..self.cap).filter_map(|_| self.queue.pop_front()));
        if self.batch.is_empty() { Decision::Wait(Time::NEVER) } else { Decision::Launch }
    }

    fn batch(&self) -> &[Ticket] {
        &self.batch
    }

    fn finished(&mut self, _: Time, _: Duration) {}
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every frame comes out once, as it went in, in its stream's order; what is answered as planned is in time.
    #[test]
    fn each_frame_comes_out_once(
        machine in machine(),
        gaps in gaps(),
        streams in 1u32..6,
        objective_ms in 2u64..120,
        waiting in 1usize..6,
        shedding in prop::sample::select(vec![
            Shedding::DropOldest, Shedding::LowerRate, Shedding::SmallerInput, Shedding::KeepAll,
        ]),
        squeeze in any::<u64>(),
    ) {
        let trace = trace(&gaps, streams, MS * objective_ms as u32);
        let mut config = BatcherConfig::new(streams as usize, Some(MS * objective_ms as u32));
        config.shedding = shedding;
        config.waiting = waiting;
        config.bytes = (0..=16).map(|b| b << 20).collect();
        let smaller = machine.slowed(0.5);
        let levels = vec![curve(&machine), curve(&smaller)];
        let mut batcher = Batcher::new(&config, levels).unwrap();
        let clock = VirtualClock::default();
        let mut random = Random::new(squeeze);

        let mut fate: BTreeMap<(u32, u64), &str> = BTreeMap::new();
        let mut newest: BTreeMap<u32, u64> = BTreeMap::new();
        let mut coming = trace.frames.iter().peekable();
        let mut until: Option<(Time, Duration)> = None;
        loop {
            let now = clock.now();
            while let Some(f) = coming.next_if(|f| f.captured <= now) {
                batcher.offer(now, f.source, f.id, f.captured);
            }
            if random.uniform() < 0.1 {
                let stalled = if random.uniform() < 0.5 { 50.0 } else { 0.0 };
                batcher.memory(now, MemoryState { stalled, available: 1 << 34 });
            }
            if let Some((end, took)) = until && end <= now {
                batcher.finished(Some(took));
                until = None;
            }
            let mut wake = Time::NEVER;
            if until.is_none() {
                match batcher.decide(now) {
                    Decision::Launch => {
                        let batch = batcher.batch();
                        prop_assert!(!batch.is_empty() && batch.len() <= machine.most());
                        let parts: Vec<Ticket> = batcher.parts().flatten().copied().collect();
                        prop_assert_eq!(&parts[..], batch);
                        for frame in batch {
                            let sent = trace.frames.iter().find(|f| (f.source, f.id) == (frame.source, frame.id));
                            prop_assert_eq!(Some(frame), sent, "mixed up");
                            let twice = fate.insert((frame.source, frame.id), "answered");
                            prop_assert_eq!(twice, None, "{:?}", frame);
                            let before = newest.insert(frame.source, frame.id);
                            prop_assert!(before.is_none_or(|b| b < frame.id), "order of {:?}", frame);
                        }
                        let model = if batcher.level() == 0 { &machine } else { &smaller };
                        let took = model.time(batch.len());
                        if shedding != Shedding::KeepAll {
                            for frame in batch {
                                prop_assert!(now + took <= frame.deadline, "{:?} run in vain at {}", frame, now);
                            }
                        }
                        until = Some((now + took, took));
                        wake = now + took;
                    }
                    Decision::Wait(time) => wake = time,
                }
            } else if let Some((end, _)) = until {
                prop_assert_eq!(batcher.decide(now), Decision::Wait(Time::NEVER));
                wake = end;
            }
            while let Some((frame, reason)) = batcher.shed() {
                let twice = fate.insert((frame.source, frame.id), "shed");
                prop_assert_eq!(twice, None, "{:?} {:?}", frame, reason);
                prop_assert!(shedding != Shedding::KeepAll || reason == Reason::Replaced);
            }
            let next = coming.peek().map_or(Time::NEVER, |f| f.captured).min(wake);
            if next == Time::NEVER {
                break;
            }
            prop_assert!(next > now, "time stands still at {}", now);
            clock.advance_to(next);
        }
        prop_assert_eq!(batcher.waiting(), 0);
        prop_assert_eq!(fate.len(), trace.frames.len());
    }

    /// Where never putting work off answers every frame in time, so does the batcher, whatever comes.
    #[test]
    fn nothing_is_late_that_work_conserving_answers(
        machine in machine(), gaps in gaps(), streams in 1u32..6, objective_ms in 2u64..200,
    ) {
        let objective = MS * objective_ms as u32;
        let trace = trace(&gaps, streams, objective);
        let mut config = BatcherConfig::new(streams as usize, Some(objective));
        config.waiting = 200;
        config.lookahead = false;
        let mut batcher = Batcher::new(&config, vec![curve(&machine)]).unwrap();
        let mut reference = WorkConserving { cap: batcher.cap(), queue: Default::default(), batch: Vec::new() };
        let expected = play(&trace, &machine, &mut reference, |_, _| {});
        let got = play(&trace, &machine, &mut batcher, |_, _| {});
        if expected.in_time == expected.came {
            prop_assert_eq!(got.in_time, got.came);
        }
    }

    /// Nor does looking ahead lose any, where cameras keep to their rate.
    #[test]
    fn foreseen_frames_make_nothing_late(
        machine in machine(), phases in prop::collection::vec(0u32..1000, 1..9), period_ms in 5u32..100,
        objective_ms in 2u32..200,
    ) {
        let objective = MS * objective_ms;
        let period = MS * period_ms;
        let mut frames: Vec<Ticket> = Vec::new();
        for n in 0..60u32 {
            for (source, phase) in phases.iter().enumerate() {
                let captured = Time::ZERO + period * n + period * *phase / 1000;
                let deadline = captured + objective;
                frames.push(Ticket { source: source as u32, id: u64::from(n), captured, deadline });
            }
        }
        frames.sort_by_key(|f| (f.captured, f.source));
        let trace = Trace { frames, streams: phases.len() as u32 };
        let mut config = BatcherConfig::new(phases.len(), Some(objective));
        config.waiting = 64;
        let mut batcher = Batcher::new(&config, vec![curve(&machine)]).unwrap();
        let mut reference = WorkConserving { cap: batcher.cap(), queue: Default::default(), batch: Vec::new() };
        let expected = play(&trace, &machine, &mut reference, |_, _| {});
        let got = play(&trace, &machine, &mut batcher, |_, _| {});
        if expected.in_time == expected.came {
            prop_assert_eq!(got.in_time, got.came);
        }
    }
}

/// 8 ms for one frame and 2 ms for each further one.
fn device() -> Machine {
    Machine::measured(&[(1, 8e-3), (8, 22e-3)])
}

/// Drives `batcher` through `trace`; gives the answered frames with the input size and time of their answers.
fn drive(batcher: &mut Batcher, levels: &[Machine], trace: &Trace) -> Vec<(Ticket, usize, Time)> {
    let mut answered = Vec::new();
    let mut coming = trace.frames.iter().peekable();
    let (mut now, mut end) = (Time::ZERO, None);
    loop {
        while let Some(f) = coming.next_if(|f| f.captured <= now) {
            batcher.offer(now, f.source, f.id, f.captured);
        }
        if let Some((until, took)) = end
            && until <= now
        {
            batcher.finished(Some(took));
            end = None;
        }
        let mut wake = Time::NEVER;
        if end.is_none() {
            match batcher.decide(now) {
                Decision::Launch => {
                    let took = levels[batcher.level()].time(batcher.batch().len());
                    end = Some((now + took, took));
                    answered.extend(batcher.batch().iter().map(|f| (*f, batcher.level(), now + took)));
                }
                Decision::Wait(until) => wake = until,
            }
        }
        if let Some((until, _)) = end {
            wake = until;
        }
        now = coming.peek().map_or(Time::NEVER, |f| f.captured).min(wake);
        if now == Time::NEVER {
            return answered;
        }
    }
}

/// Frames of cameras with one period, one after another within it.
fn cameras(count: u32, period: Duration, frames: u32, objective: Duration) -> Trace {
    let frames = (0..frames * count).map(|n| {
        let captured = Time::ZERO + period * (n / count) + period * (n % count) / count;
        Ticket { source: n % count, id: u64::from(n / count), captured, deadline: captured + objective }
    });
    Trace { frames: frames.collect(), streams: count }
}

#[test]
fn a_wanted_rate_is_kept_evenly() {
    let mut config = BatcherConfig::new(1, Some(MS * 100));
    config.streams[0].rate = Some(10.0);
    let mut batcher = Batcher::new(&config, vec![curve(&device())]).unwrap();
    let answered = drive(&mut batcher, &[device()], &cameras(1, MS * 1000 / 30, 300, MS * 100));
    let taken: Vec<u64> = answered.iter().map(|(f, _, _)| f.id).collect();
    assert_eq!(taken, (0..100).map(|n| n * 3).collect::<Vec<_>>());
    assert_eq!(batcher.dropped(Reason::Rate), 200);
}

#[test]
fn a_lowered_rate_is_even_and_fits() {
    // 8 cameras at 60 fps are 480 frames a second; batches of 8 answer 364.
    let mut config = BatcherConfig::new(8, Some(MS * 60));
    config.shedding = Shedding::LowerRate;
    let mut batcher = Batcher::new(&config, vec![curve(&device())]).unwrap();
    let trace = cameras(8, Duration::from_nanos(16_666_667), 1200, MS * 60);
    let answered = drive(&mut batcher, &[device()], &trace);
    assert!(batcher.kept_rate() < 0.75, "{}", batcher.kept_rate());
    assert!(batcher.dropped(Reason::Rate) > 1000);
    let settled: Vec<_> = answered.iter().filter(|(f, _, _)| f.id > 240).collect();
    for camera in 0..8 {
        let ids: Vec<u64> =
            settled.iter().filter(|(f, _, _)| f.source == camera).map(|(f, _, _)| f.id).collect();
        let longest = ids.windows(2).map(|w| w[1] - w[0]).max().unwrap();
        assert!(longest <= 2, "camera {camera} was without a result for {longest} frames");
        assert!(ids.len() > 500, "camera {camera}: {}", ids.len());
    }
    // What the lowered rate lets through is answered.
    let late = batcher.dropped(Reason::Late) + batcher.dropped(Reason::Overload);
    assert!(late < 100, "{late}");
}

#[test]
fn the_input_shrinks_under_load_and_grows_back() {
    let levels = [device(), device().slowed(0.4)];
    let mut config = BatcherConfig::new(8, Some(MS * 60));
    config.shedding = Shedding::SmallerInput;
    let mut batcher = Batcher::new(&config, levels.iter().map(curve).collect()).unwrap();
    // 10 s at 480 frames a second, then 20 s at 80.
    let mut trace = cameras(8, Duration::from_nanos(16_666_667), 600, MS * 60);
    let quiet = cameras(8, MS * 100, 200, MS * 60);
    let start = trace.frames.last().unwrap().captured + MS;
    trace.frames.extend(quiet.frames.iter().map(|f| Ticket {
        id: f.id + 1000,
        captured: start + f.captured.since(Time::ZERO),
        deadline: start + f.deadline.since(Time::ZERO),
        ..*f
    }));
    let answered = drive(&mut batcher, &levels, &trace);
    let level_at = |time: Time| answered.iter().find(|(_, _, t)| *t >= time).map(|(_, l, _)| *l);
    assert_eq!(level_at(at(5_000.0)), Some(1));
    assert_eq!(level_at(at(28_000.0)), Some(0));
    let changes = answered.windows(2).filter(|w| w[0].1 != w[1].1).count();
    assert_eq!(changes, 2, "it swings");
}

#[test]
fn memory_shrinks_batches_and_splits_the_one_that_was_decided() {
    let mut config = BatcherConfig::new(8, Some(MS * 100));
    config.bytes = (0..=8).map(|b| b << 20).collect();
    let mut batcher = Batcher::new(&config, vec![curve(&device())]).unwrap();
    for source in 0..8 {
        batcher.offer(at(1.0), source, 0, at(1.0));
    }
    assert_eq!(batcher.decide(at(1.0)), Decision::Launch);
    assert_eq!(batcher.batch().len(), 8);
    batcher.memory(at(1.0), MemoryState { stalled: 60.0, available: 1 << 30 });
    let parts: Vec<usize> = batcher.parts().map(<[Ticket]>::len).collect();
    assert_eq!(parts, [4, 4]);
    batcher.finished(Some(MS * 28));
    assert_eq!(batcher.cap(), 4);
    for source in 0..8 {
        batcher.offer(at(30.0), source, 1, at(30.0));
    }
    assert_eq!(batcher.decide(at(30.0)), Decision::Launch);
    assert_eq!(batcher.batch().len(), 4);
}

#[test]
fn a_tight_stream_goes_first() {
    let mut config = BatcherConfig::new(2, None);
    config.streams = vec![
        Objective { latency: Some(MS * 500), rate: None },
        Objective { latency: Some(MS * 20), rate: None },
    ];
    config.most = 1;
    let mut batcher = Batcher::new(&config, vec![curve(&device())]).unwrap();
    batcher.offer(at(1.0), 0, 0, at(1.0));
    batcher.offer(at(1.5), 1, 0, at(1.5));
    assert_eq!(batcher.decide(at(1.5)), Decision::Launch);
    assert_eq!(batcher.batch()[0].source, 1);
}

#[test]
fn only_the_newest_frames_of_a_stream_wait() {
    let mut config = BatcherConfig::new(1, None);
    config.waiting = 2;
    let mut batcher = Batcher::new(&config, vec![curve(&device())]).unwrap();
    for id in [1, 2, 3, 3, 2] {
        batcher.offer(at(id as f64), 0, id, at(id as f64));
    }
    let shed: Vec<_> = std::iter::from_fn(|| batcher.shed()).map(|(f, r)| (f.id, r)).collect();
    assert_eq!(shed, [(1, Reason::Replaced), (3, Reason::OutOfOrder), (2, Reason::OutOfOrder)]);
    batcher.offer(at(9.0), 7, 1, at(9.0));
    assert_eq!(batcher.shed().map(|(f, r)| (f.source, r)), Some((7, Reason::OutOfOrder)));
    assert_eq!(batcher.decide(at(9.0)), Decision::Launch);
    assert_eq!(batcher.batch().iter().map(|f| f.id).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn every_frame_is_told_however_many_are_given_up_at_once() {
    let mut config = BatcherConfig::new(2, Some(MS * 50));
    config.waiting = 1500;
    let mut batcher = Batcher::new(&config, vec![curve(&device())]).unwrap();
    for id in 0..1500 {
        (0..2).for_each(|source| batcher.offer(at(id as f64 * 0.01), source, id, at(id as f64 * 0.01)));
    }
    // Long after all of them are due.
    assert_eq!(batcher.decide(at(10_000.0)), Decision::Wait(Time::NEVER));
    let mut told = [0u64; 2];
    while let Some((ticket, reason)) = batcher.shed() {
        assert_eq!((ticket.id, reason), (told[ticket.source as usize], Reason::Late));
        told[ticket.source as usize] += 1;
    }
    assert_eq!(told, [1500, 1500]);
}

#[test]
fn a_failed_run_does_not_stop_the_next() {
    let mut batcher = Batcher::new(&BatcherConfig::new(1, None), vec![curve(&device())]).unwrap();
    batcher.offer(at(1.0), 0, 1, at(1.0));
    assert_eq!(batcher.decide(at(1.0)), Decision::Launch);
    batcher.finished(None);
    batcher.offer(at(2.0), 0, 2, at(2.0));
    assert_eq!(batcher.decide(at(2.0)), Decision::Launch);
    assert_eq!(batcher.batch()[0].id, 2);
}

/// 120 s of a camera at 30 fps before a model that takes 150 ms: the newest frame is always the one that is run.
#[test]
fn ages_stay_flat_before_a_slow_model() {
    let slow = Machine::measured(&[(1, 0.15), (4, 0.6)]);
    let period = Duration::from_nanos(33_333_333);
    let mut config = BatcherConfig::new(1, None);
    config.waiting = 1;
    let mut batcher = Batcher::new(&config, vec![curve(&slow)]).unwrap();
    let trace = cameras(1, period, 3600, MS * 1000);
    let answered = drive(&mut batcher, &[slow], &trace);
    let mut ages: Vec<Duration> = answered.iter().map(|(f, _, at)| at.since(f.captured)).collect();
    // The camera's phase against the runs drifts, so ages vary by up to a period.
    let oldest = |ages: &[Duration]| ages.iter().max().copied().unwrap_or_default();
    let (first_half, second_half) = (oldest(&ages[..ages.len() / 2]), oldest(&ages[ages.len() / 2..]));
    ages.sort();
    let p95 = ages[ages.len() * 95 / 100];
    assert!(p95 <= MS * 150 + period * 2, "{p95:?}");
    assert!(second_half <= first_half + period, "ages grow: {first_half:?}, then {second_half:?}");
    assert_eq!(answered.len() as u64 + batcher.dropped(Reason::Replaced), 3600);
    // 120 s in runs of 150 ms.
    assert!((798..=801).contains(&answered.len()), "{}", answered.len());
}
