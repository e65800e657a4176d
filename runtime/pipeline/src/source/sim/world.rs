//! Who is where at a frame: a pure function of the seed and the frame number.
//!
//! Every lane is a belt of fixed length that moves by a known distance in a known time, in whole micrometres; a frame
//! far out costs no more than the first. Which car occupies a slot follows from how often the slot has come round.

use super::draw::{bicycle, bus, car, dog, fixtures, person, truck};
use super::maths::{Rng, V3, mix, v3};
use super::street::{Lane, Still, Street, Traffic};
use super::truth::Class;

/// An object at one moment. A cyclist is one actor: a bicycle with a rider.
#[derive(Clone, Copy, Debug)]
pub(super) struct Actor {
    pub(super) class: Class,
    /// Looks follow from this.
    pub(super) key: u64,
    pub(super) track: u64,
    pub(super) pos: V3,
    /// Turns from +z towards +x.
    pub(super) heading: f32,
    /// Metres since it took its slot.
    pub(super) travelled: f32,
    /// Rides (bicycle) or walks (person).
    pub(super) active: bool,
    /// The traffic light's state, or whether brakes are on.
    pub(super) state: u8,
    /// Half-width and half-length of the ground it takes.
    pub(super) footprint: (f32, f32),
    pub(super) height: f32,
}

/// State of the traffic light and how far stop-and-go traffic has come.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// Micrometres.
    way: u128,
    braking: bool,
}

/// Duration of braking and of starting, in seconds.
const RAMP: f64 = 2.4;
const STOP: f64 = 4.6;

/// How far a lane with `speed` mm/s has moved after `n` frames.
fn flow(speed: u32, stops: bool, period: u32, n: u64, fps: u32) -> Flow {
    let v = u128::from(speed);
    if !stops {
        return Flow { way: v * 1000 * u128::from(n) / u128::from(fps), braking: false };
    }
    let (cycle, t) = phase(period, n, fps);
    let go = f64::from(period) / 1000.0 - 2.0 * RAMP - STOP;
    let speed = f64::from(speed);
    // Per period: full speed, a ramp down, a stop, a ramp up; each ramp covers half its duration.
    let d = if t < go {
        t
    } else if t < go + RAMP {
        let u = t - go;
        go + u - u * u / (2.0 * RAMP)
    } else if t < go + RAMP + STOP {
        go + RAMP * 0.5
    } else {
        let u = t - go - RAMP - STOP;
        go + RAMP * 0.5 + u * u / (2.0 * RAMP)
    };
    let per_cycle = ((go + RAMP) * speed * 1000.0) as u128;
    Flow {
        way: u128::from(cycle) * per_cycle + (d * speed * 1000.0) as u128,
        braking: t >= go && t < go + RAMP + STOP,
    }
}

/// Which period of the traffic light frame `n` falls into, and the seconds since it began.
fn phase(period: u32, n: u64, fps: u32) -> (u64, f64) {
    let ticks = u128::from(n) * 1000;
    let len = u128::from(period) * u128::from(fps);
    ((ticks / len) as u64, (ticks % len) as f64 / (f64::from(fps) * 1000.0))
}

/// 0 red, 1 amber, 2 green.
fn signal(period: u32, n: u64, fps: u32) -> u8 {
    let (_, t) = phase(period, n, fps);
    let go = f64::from(period) / 1000.0 - 2.0 * RAMP - STOP;
    if t < go {
        2
    } else if t < go + RAMP {
        1
    } else {
        0
    }
}

/// Lists everyone at frame `n`.
pub(super) fn actors(street: &Street, seed: u64, n: u64, fps: u32, out: &mut Vec<Actor>) {
    out.clear();
    for s in &street.still {
        let key = mix(seed ^ 0x5711 ^ (u64::from(s.slot) << 32));
        let (class, footprint, height, state) = match s.kind {
            Still::TrafficLight => {
                (Class::TrafficLight, fixtures::FOOTPRINT, 0.0, signal(street.period, n, fps))
            }
            Still::Sign => (Class::Sign, fixtures::FOOTPRINT, 0.0, 0),
            Still::Person => (Class::Person, person::FOOTPRINT, 1.7, 0),
            Still::Bicycle => (Class::Bicycle, bicycle::FOOTPRINT, 1.0, 0),
        };
        out.push(Actor {
            class,
            key,
            track: u64::from(s.slot) + 1,
            pos: s.pos,
            heading: s.heading,
            travelled: 0.0,
            active: false,
            state,
            footprint,
            height,
        });
    }
    for (k, lane) in street.lanes.iter().enumerate() {
        let f = flow(lane.speed, lane.traffic == Traffic::Vehicles, street.period, n, fps);
        for (slot, offset) in lane.slots.iter().enumerate() {
            out.push(on_lane(street, lane, k as u64, slot, *offset, &f, seed));
        }
    }
}

fn on_lane(
    street: &Street,
    lane: &Lane,
    lane_no: u64,
    slot: usize,
    offset: u32,
    f: &Flow,
    seed: u64,
) -> Actor {
    let length = u128::from(lane.length) * 1000;
    let way = u128::from(offset) * 1000 + f.way;
    let cycle = (way / length) as u64;
    let s = (way % length) as f64 * 1e-6;
    let key = mix(mix(seed ^ 0x1a_4e ^ (lane_no << 40) ^ ((slot as u64) << 20)) ^ cycle);
    let mut r = Rng::keyed(key, 0xc1a5, 0);
    let (class, footprint, height) = match lane.traffic {
        Traffic::Vehicles => match r.below(20) {
            0..=12 => (Class::Car, car::FOOTPRINT, 1.5),
            13..=16 => (Class::Truck, truck::FOOTPRINT, 3.0),
            _ => (Class::Bus, bus::FOOTPRINT, 3.0),
        },
        Traffic::Cycles => (Class::Bicycle, bicycle::FOOTPRINT, 1.75),
        Traffic::Walkers => match r.below(6) {
            0 => (Class::Dog, dog::FOOTPRINT, 0.6),
            _ => (Class::Person, person::FOOTPRINT, 1.7),
        },
    };
    let (pos, heading) = on_path(lane, s as f32);
    // Nobody walks or drives on a line.
    let aside = match lane.traffic {
        Traffic::Vehicles => r.range(-0.22, 0.22),
        Traffic::Cycles => r.range(-0.25, 0.25),
        Traffic::Walkers => r.range(-0.28, 0.28),
    };
    let slots = u64::from(street.slots.max(1));
    Actor {
        class,
        key,
        track: (u64::from(lane.first_slot) + slot as u64) + cycle * slots + 1,
        pos: pos + v3(aside, 0.0, 0.0),
        heading,
        travelled: s as f32,
        active: true,
        state: u8::from(f.braking && lane.traffic == Traffic::Vehicles),
        footprint,
        height,
    }
}

/// Place and heading after `s` metres on a lane: straight, a quarter circle outwards, straight into the side street.
/// Lanes towards the camera run the same way back.
fn on_path(lane: &Lane, s: f32) -> (V3, f32) {
    let length = lane.length as f32 * 1e-3;
    let s = if lane.dir > 0.0 { s } else { length - s };
    let side = if lane.x < 0.0 { -1.0 } else { 1.0 };
    let straight = lane.z1 - lane.z0;
    let arc = lane.radius * std::f32::consts::FRAC_PI_2;
    let (pos, heading) = if s < straight {
        (v3(lane.x, 0.0, lane.z0 + s), 0.0)
    } else if s < straight + arc {
        let t = (s - straight) / arc * 0.25;
        let (sin, cos) = (super::maths::sin_turns(t), super::maths::cos_turns(t));
        (v3(lane.x + side * lane.radius * (1.0 - cos), 0.0, lane.z1 + lane.radius * sin), side * t)
    } else {
        let rest = s - straight - arc;
        (v3(lane.x + side * (lane.radius + rest), 0.0, lane.z1 + lane.radius), side * 0.25)
    };
    (pos, if lane.dir > 0.0 { heading } else { heading + 0.5 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_and_go_is_continuous_and_never_runs_back() {
        let mut last = 0;
        for n in 0..3000u64 {
            let f = flow(9000, true, 20_000, n, 30);
            let step = f.way - last;
            // At most the full speed of 9 m/s, that is 0.3 m a frame.
            assert!(step <= 300_200, "frame {n}: {step} um");
            last = f.way;
        }
        // 3000 frames are 5 periods of 20 s: each at full speed but for two half ramps and a stop.
        let per_period = 9.0 * (20.0 - RAMP - STOP);
        assert!((last as f64 * 1e-6 - 5.0 * per_period).abs() < 0.4, "{last}");
    }

    #[test]
    fn a_far_frame_is_as_exact_as_the_first() {
        let a = flow(8123, false, 0, 1_000_000_007, 30).way;
        let b = flow(8123, false, 0, 1_000_000_008, 30).way;
        assert!((b - a).abs_diff(270_766) <= 1);
    }
}
