//! Arrivals to try a policy on: made from a seed, the same on every machine.

use std::time::Duration;

use crate::batch::Ticket;
use crate::clock::Time;

/// A small generator of random numbers (SplitMix64, Steele et al. 2014), so that traces never change with a crate's version.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with its own sequence for each `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in 0..1, 1 excluded.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }
}

/// How frames come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// At random, without memory: every stream a Poisson process.
    Poisson {
        /// Streams.
        streams: u32,
    },
    /// Groups of 1 to `most` frames within a thousandth of the mean distance of groups, which come at random.
    Bursts {
        /// Largest group.
        most: u32,
    },
    /// Cameras with one rate and phases of their own; each frame up to `jitter` of a period late.
    Cameras {
        /// Cameras.
        count: u32,
        /// Part of a period, 0..1.
        jitter: f64,
    },
    /// Two cameras of which one is `ratio` times as fast.
    SlowAndFast {
        /// Rate of the fast one over that of the slow one.
        ratio: f64,
        /// Part of a period, 0..1.
        jitter: f64,
    },
}

/// Frames in the order in which they come; each is there when it is captured.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The frames.
    pub frames: Vec<Ticket>,
    /// Streams: every `source` is below.
    pub streams: u32,
}

impl Trace {
    /// About `count` frames at `rate` frames a second in all, each due `objective` after its capture.
    pub fn new(arrivals: Arrivals, rate: f64, objective: Duration, count: usize, seed: u64) -> Trace {
        let mut random = Random::new(seed);
        let mut moments: Vec<(f64, u32)> = Vec::with_capacity(count);
        let streams = match arrivals {
            Arrivals::Poisson { streams } => {
                let mut t = 0.0;
                for _ in 0..count {
                    t += random.exponential() / rate;
                    moments.push((t, (random.uniform() * f64::from(streams)) as u32));
                }
                streams
            }
            Arrivals::Bursts { most } => {
                let gap = (f64::from(most) + 1.0) / 2.0 / rate;
                let mut t = 0.0;
                while moments.len() < count {
                    t += random.exponential() * gap;
                    let group = 1 + (random.uniform() * f64::from(most)) as u32;
                    for member in 0..group {
                        moments.push((t + random.uniform() * gap * 1e-3, member));
                    }
                }
                most
            }
            Arrivals::Cameras { count: cameras, jitter } => {
                let rates = vec![rate / f64::from(cameras); cameras as usize];
                periodic(&rates, jitter, count, &mut random, &mut moments);
                cameras
            }
            Arrivals::SlowAndFast { ratio, jitter } => {
                let rates = [rate / (1.0 + ratio), rate * ratio / (1.0 + ratio)];
                periodic(&rates, jitter, count, &mut random, &mut moments);
                2
            }
        };
        moments.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut ids = vec![0u64; streams as usize];
        let frames = moments
            .iter()
            .map(|&(t, source)| {
                let captured = Time::from_nanos((t * 1e9) as u64);
                ids[source as usize] += 1;
                Ticket { source, id: ids[source as usize], captured, deadline: captured + objective }
            })
            .collect();
        Trace { frames, streams }
    }
}

/// Frames of cameras that run at `rates`, each camera's phase and each frame's lateness at random.
fn periodic(rates: &[f64], jitter: f64, count: usize, random: &mut Random, moments: &mut Vec<(f64, u32)>) {
    let span = count as f64 / rates.iter().sum::<f64>();
    for (camera, rate) in rates.iter().enumerate() {
        let phase = random.uniform();
        for n in 0..(span * rate).round() as usize {
            moments.push(((n as f64 + phase + random.uniform() * jitter) / rate, camera as u32));
        }
    }
}
