//! The batcher, its rivals and the optimum side by side, and what is asked of the batcher.

use std::time::Duration;

use super::optimum::most_in_time;
use super::rivals::Rival;
use super::{Arrivals, Machine, Outcome, Trace, play};
use crate::Result;
use crate::batch::{Batcher, BatcherConfig, RunTimes};

/// The rivals' names, as in [`Rival::grid`].
pub const RIVALS: [&str; 4] = ["batch 1", "fixed", "preferred", "aimd"];

/// The devices: name, run times, whether batching raises the rate at all.
pub fn devices() -> Vec<(&'static str, Machine, bool)> {
    let cpu: Vec<(usize, f64)> = (1..=8).map(|b| (b, b as f64 * 20e-3)).collect();
    vec![
        // A CPU: every frame takes the same time.
        ("cpu", Machine::measured(&cpu), false),
        // Jetson Orin, YOLOv5s INT8 at 672: published in NVIDIA-AI-IOT/cuDLA-samples, not measured here.
        (
            "orin",
            Machine::measured(&[(1, 1.82e-3), (2, 2.91e-3), (4, 4.99e-3), (8, 9.19e-3), (16, 16.87e-3)]),
            true,
        ),
        // NVIDIA H200, yolov8n FP16 at 640, PyTorch 2.11 torch.compile, measured.
        ("h200", Machine::measured(&[(1, 0.643e-3), (4, 1.02e-3), (8, 1.28e-3), (32, 3.402e-3)]), true),
    ]
}

/// The arrivals: name and kind.
pub const ARRIVALS: [(&str, Arrivals); 4] = [
    ("poisson", Arrivals::Poisson { streams: 8 }),
    ("bursts", Arrivals::Bursts { most: 8 }),
    ("8 cameras", Arrivals::Cameras { count: 8, jitter: 0.1 }),
    ("slow+fast", Arrivals::SlowAndFast { ratio: 6.0, jitter: 0.1 }),
];

/// Objectives as multiples of the run time of one frame.
pub const OBJECTIVES: [f64; 3] = [3.0, 6.0, 12.0];
/// Loads as parts of [`Machine::capacity`].
pub const LOADS: [f64; 6] = [0.5, 0.7, 0.9, 1.0, 1.2, 1.5];

/// One line of the comparison: frames answered in time, as parts of those that came.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the device.
    pub device: &'static str,
    /// Whether batching raises its rate.
    pub pays: bool,
    /// Name of the arrivals.
    pub arrivals: &'static str,
    /// The objective over the run time of one frame.
    pub objective: f64,
    /// Part of the capacity.
    pub load: f64,
    /// Each rival's best setting, dropping only what no run could still answer in time.
    pub rivals: [f64; 4],
    /// Each rival's best setting of all, those included that drop what the chosen batch would answer too late.
    pub strict: [f64; 4],
    /// The batcher.
    pub ours: f64,
    /// The best schedule that knows the future.
    pub optimum: f64,
    /// The age that 99 of 100 of the batcher's answers do not exceed, over the objective.
    pub p99: f64,
    /// Mean frames of the batcher's runs.
    pub batch: f64,
}

impl Row {
    /// The batcher over the best rival.
    pub fn over_best(&self) -> f64 {
        self.ours / top(&self.rivals)
    }

    /// The batcher over the best rival that was given the deadline-aware dropping too.
    pub fn over_strict(&self) -> f64 {
        self.ours / top(&self.strict)
    }

    /// The batcher over the optimum.
    pub fn of_optimum(&self) -> f64 {
        self.ours / self.optimum
    }
}

fn top(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// The batcher as it is compared: every frame of a stream may wait, as with the rivals.
pub fn batcher(machine: &Machine, streams: u32, objective: Duration) -> Result<Batcher> {
    let points: Vec<(usize, Duration)> = (1..=machine.most()).map(|b| (b, machine.time(b))).collect();
    let mut config = BatcherConfig::new(streams as usize, Some(objective));
    config.waiting = 512;
    Batcher::new(&config, vec![RunTimes::new(&[], machine.most(), &points)?])
}

/// Compares on one trace of about `frames` frames. Rivals are tuned on this very trace, if `tune`; else they count as 0.
pub fn compare(
    device: &(&'static str, Machine, bool),
    arrivals: &(&'static str, Arrivals),
    objective: f64,
    load: f64,
    frames: usize,
    seed: u64,
    tune: bool,
) -> Result<Row> {
    let (name, machine, pays) = device;
    let due = machine.time(1).mul_f64(objective);
    let (_, capacity) = machine.capacity(due);
    let trace = Trace::new(arrivals.1, capacity * load, due, frames, seed);
    let (mut rivals, mut strict) = ([0.0f64; 4], [0.0f64; 4]);
    if tune {
        for (rule_name, rule, is_strict) in Rival::grid(machine, due) {
            let place = RIVALS.iter().position(|r| *r == rule_name).unwrap_or(0);
            let got = play(&trace, machine, &mut Rival::new(rule, is_strict, machine), |_, _| {}).goodput();
            strict[place] = strict[place].max(got);
            if !is_strict {
                rivals[place] = rivals[place].max(got);
            }
        }
    }
    let outcome: Outcome = play(&trace, machine, &mut batcher(machine, trace.streams, due)?, |_, _| {});
    let came = trace.frames.len().max(1) as f64;
    Ok(Row {
        device: name,
        pays: *pays,
        arrivals: arrivals.0,
        objective,
        load,
        rivals,
        strict,
        ours: outcome.goodput(),
        optimum: most_in_time(&trace, machine).unwrap_or(0) as f64 / came,
        p99: outcome.age(0.99).as_secs_f64() / due.as_secs_f64(),
        batch: outcome.ages.len() as f64 / outcome.runs.max(1) as f64,
    })
}

/// All rows: every device, objective, kind of arrival and load.
pub fn all(frames: usize, seed: u64, tune: bool) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for device in &devices() {
        for objective in OBJECTIVES {
            for arrivals in &ARRIVALS {
                for load in LOADS {
                    rows.push(compare(device, arrivals, objective, load, frames, seed, tune)?);
                }
            }
        }
    }
    Ok(rows)
}
