//! The street: its measures, the camera's place, the lanes, buildings and props, all from the seed.
//!
//! The street runs along +z between two rows of houses and ends in a junction; traffic comes out of the side streets
//! there, and leaves the picture past the camera. The camera stands near the origin. Traffic keeps to the right.

use super::camera::{Camera, NEAR};
use super::cull::{Set, members};
use super::draw::props::{LOOKALIKES, Prop};
use super::draw::{bicycle, bus, fixtures, person};
use super::maths::{Rng, V3, v3};
use super::spec::{SceneKind, SimSpec};

/// Depth of the junction's carriageway on either side of its middle.
pub(super) const JUNCTION_HALF: f32 = 5.0;

/// A house: a block whose walls are facades.
#[derive(Clone, Copy, Debug)]
pub(super) struct House {
    pub(super) lo: V3,
    pub(super) hi: V3,
    pub(super) key: u64,
}

/// Something that stands still and has no class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) prop: Prop,
    pub(super) pos: V3,
    pub(super) heading: f32,
    pub(super) key: u64,
}

/// What moves on a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    Vehicles,
    Cycles,
    Walkers,
}

/// A lane is a conveyor belt: its slots circulate and take a new identity each time they come round.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) traffic: Traffic,
    /// Distance from the middle of the street, negative on the left.
    pub(super) x: f32,
    /// Away from the camera (+1) or towards it (-1).
    pub(super) dir: f32,
    /// Millimetres per second.
    pub(super) speed: u32,
    /// Where the straight part begins and where it turns into the side street.
    pub(super) z0: f32,
    pub(super) z1: f32,
    pub(super) radius: f32,
    /// Length of the belt in millimetres.
    pub(super) length: u32,
    /// Positions of the slots on the belt in millimetres.
    pub(super) slots: Vec<u32>,
    /// Number of the first slot among all slots of the scene.
    pub(super) first_slot: u32,
}

/// A fixture of a class, or someone who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Still {
    TrafficLight,
    Sign,
    Person,
    Bicycle,
}

/// An object of a class that stays where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct StillObject {
    pub(super) kind: Still,
    pub(super) pos: V3,
    pub(super) heading: f32,
    pub(super) slot: u32,
}

/// The whole layout.
#[derive(Clone, Debug)]
pub(super) struct Street {
    pub(super) camera: Camera,
    /// Half-widths: traffic lanes, carriageway up to the kerb, up to the houses.
    pub(super) lanes_half: f32,
    pub(super) median: f32,
    pub(super) lanes_per_side: u32,
    pub(super) kerb: f32,
    pub(super) front: f32,
    /// Where the side streets' middle is, and where the rows of houses end before it.
    pub(super) junction: f32,
    pub(super) corner: f32,
    pub(super) houses: Vec<House>,
    /// Numbers of the houses a ray to the left or right, from within the street and ahead of the camera, can meet.
    pub(super) facing: [Set; 2],
    pub(super) props: Vec<Standing>,
    pub(super) lamps: Vec<V3>,
    pub(super) lanes: Vec<Lane>,
    pub(super) still: Vec<StillObject>,
    /// Period of the traffic light in milliseconds.
    pub(super) period: u32,
    pub(super) slots: u32,
}

impl Street {
    pub(super) fn new(spec: &SimSpec) -> Street {
        let mut r = Rng::keyed(spec.seed, 0x57_3e, 0);
        let lanes_per_side = if r.chance(0.35) { 2 } else { 1 };
        let median = if r.chance(0.3) { 0.7 } else { 0.0 };
        let lanes_half = median + 3.3 * lanes_per_side as f32;
        let kerb = lanes_half + r.range(1.5, 1.9);
        let front = kerb + r.range(3.8, 4.6);
        let junction = r.range(44.0, 62.0);
        let camera = place_camera(&mut r, spec, kerb, front);
        let mut s = Street {
            camera,
            lanes_half,
            median,
            lanes_per_side,
            kerb,
            front,
            junction,
            corner: junction - JUNCTION_HALF - 3.2,
            houses: Vec::new(),
            facing: [0; 2],
            props: Vec::new(),
            lamps: Vec::new(),
            lanes: Vec::new(),
            still: Vec::new(),
            period: 18_000 + 500 * r.below(16),
            slots: 0,
        };
        s.build_houses(&mut r);
        s.furnish(&mut r, spec);
        s.populate(&mut r, spec);
        s
    }

    fn build_houses(&mut self, r: &mut Rng) {
        for side in [-1.0f32, 1.0] {
            let mut z = -40.0;
            while z < self.corner - 0.5 {
                let mut depth = r.range(8.0, 17.0);
                if z + depth > self.corner - 6.0 {
                    depth = self.corner - z;
                }
                let x = self.front + if r.chance(0.3) { r.range(0.3, 1.0) } else { 0.0 };
                let (a, b) = (side * x, side * (x + 14.0));
                self.houses.push(House {
                    lo: v3(a.min(b), 0.0, z),
                    hi: v3(a.max(b), r.range(8.0, 19.0), z + depth),
                    key: u64::from(r.next()),
                });
                z += depth;
            }
        }
        // Across the junction.
        let row = self.houses.len();
        let z = self.junction + JUNCTION_HALF + 3.2;
        let mut x = -75.0;
        while x < 75.0 {
            let w = r.range(10.0, 20.0);
            self.houses.push(House {
                lo: v3(x, 0.0, z),
                hi: v3(x + w, r.range(9.0, 20.0), z + 12.0),
                key: u64::from(r.next()),
            });
            x += w;
        }
        for (side, set) in self.facing.iter_mut().enumerate() {
            for (k, h) in self.houses.iter().enumerate() {
                let ahead = [(h.lo.x, h.lo.z), (h.lo.x, h.hi.z), (h.hi.x, h.lo.z), (h.hi.x, h.hi.z)]
                    .into_iter()
                    .any(|(x, z)| self.camera.view(v3(x, self.camera.pos.y, z)).z > 0.0);
                let here = k >= row || (h.lo.x > 0.0) == (side == 1);
                if ahead && here {
                    *set |= 1 << k;
                }
            }
        }
    }

    /// Whether `p` can be seen at all: ahead and within the picture, give or take `margin` (a fraction of its size).
    fn sees(&self, p: V3, spec: &SimSpec, margin: f32) -> bool {
        let v = self.camera.view(p);
        if v.z < NEAR {
            return false;
        }
        let (x, y) = self.camera.pixel(v);
        let (w, h) = (spec.width as f32, spec.height as f32);
        x > -margin * w && x < (1.0 + margin) * w && y > -margin * h && y < (1.0 + margin) * h
    }

    fn furnish(&mut self, r: &mut Rng, spec: &SimSpec) {
        let bare = spec.scene == SceneKind::Empty && r.chance(0.3);
        let cam = self.camera.pos;
        let clear = |x: f32, z: f32| (x - cam.x).abs() + (z - cam.z).abs() > 4.5;
        for side in [-1.0f32, 1.0] {
            let mut z = r.range(4.0, 9.0);
            while z < self.corner - 2.0 {
                let x = side * (self.kerb + 0.45);
                let lamp = ((z * 0.1) as u32 + u32::from(side > 0.0)).is_multiple_of(2);
                if lamp && clear(x, z) {
                    self.lamps.push(v3(side * (self.kerb - 1.1), 6.6, z));
                    self.stand(r, Prop::LampPost, x, z, if side > 0.0 { 0.75 } else { 0.25 });
                } else if !bare && r.chance(0.5) && clear(x, z) {
                    self.stand(r, Prop::Tree, x + side * 0.2, z, 0.0);
                } else if !bare && r.chance(0.35) && clear(x, z) {
                    self.stand(r, Prop::Bin, x, z, 0.0);
                }
                z += r.range(7.0, 10.0);
            }
            // Lamps behind the camera light the foreground.
            self.lamps.push(v3(side * (self.kerb - 1.1), 6.6, -6.0 + side * 4.0));
        }
        let lookalikes = match spec.scene {
            SceneKind::Distractors => 12 + r.below(5),
            SceneKind::Empty => r.below(6),
            _ => r.below(3),
        };
        for _ in 0..lookalikes {
            let prop = r.pick(&LOOKALIKES);
            let Some((x, z)) = self.free_place(r, spec, 5.0, 26.0) else { continue };
            let heading = if x > 0.0 { 0.75 } else { 0.25 } + r.range(-0.08, 0.08);
            self.stand(r, prop, x, z, heading);
        }
    }

    fn stand(&mut self, r: &mut Rng, prop: Prop, x: f32, z: f32, heading: f32) {
        self.props.push(Standing { prop, pos: v3(x, 0.0, z), heading, key: u64::from(r.next()) });
    }

    /// A place on a pavement in view, by the kerb or by the wall, away from what stands there already.
    fn free_place(&self, r: &mut Rng, spec: &SimSpec, near: f32, far: f32) -> Option<(f32, f32)> {
        for _ in 0..40 {
            let side = if r.chance(0.5) { -1.0 } else { 1.0 };
            let x = side
                * if r.chance(0.6) { self.kerb + r.range(0.35, 0.6) } else { self.front - r.range(0.4, 0.7) };
            let z = r.range(near, far.min(self.corner - 1.0));
            let p = v3(x, 0.8, z);
            let d = p - self.camera.pos;
            let apart = self.apart(x, z, 2.2);
            if apart && d.dot(d) > near * near && self.sees(p, spec, -0.03) {
                return Some((x, z));
            }
        }
        None
    }

    /// Whether nothing stands within `room` metres of (x, z).
    fn apart(&self, x: f32, z: f32, room: f32) -> bool {
        self.props.iter().map(|s| s.pos).chain(self.still.iter().map(|s| s.pos)).all(|q| {
            let e = v3(q.x - x, 0.0, q.z - z);
            e.dot(e) > room * room
        })
    }

    /// Fills lanes and places with as many objects as asked for.
    fn populate(&mut self, r: &mut Rng, spec: &SimSpec) {
        let total = spec.object_count();
        if total == 0 {
            return;
        }
        let still = if total < 3 { 0 } else { (total / 3).min(8) };
        for k in 0..still {
            self.add_still(r, spec, k);
        }
        let mut left = total - self.still.len() as u32;
        self.slots = self.still.len() as u32;
        let slow = if spec.scene == SceneKind::Crowded { 0.6 } else { 1.0 };
        let mut lanes = self.make_lanes(r, spec, slow);
        let capacity = |l: &Lane| l.length / spacing(l.traffic);
        let share = |t: Traffic| match t {
            Traffic::Vehicles => 0.48,
            Traffic::Cycles => 0.16,
            Traffic::Walkers => 0.36,
        };
        let mut counts = vec![0u32; lanes.len()];
        for traffic in [Traffic::Vehicles, Traffic::Cycles, Traffic::Walkers] {
            let mine: Vec<usize> = (0..lanes.len()).filter(|k| lanes[*k].traffic == traffic).collect();
            let mut n = if traffic == Traffic::Walkers {
                left
            } else {
                (left as f32 * share(traffic)
                    / (1.0 - if traffic == Traffic::Cycles { share(Traffic::Vehicles) } else { 0.0 })
                    + r.unit()) as u32
            };
            n = n.min(left);
            let mut k = if mine.is_empty() { 0 } else { r.below(mine.len() as u32) as usize };
            let mut idle = 0;
            while n > 0 && idle < mine.len() {
                let lane = mine[k % mine.len()];
                if counts[lane] < capacity(&lanes[lane]) {
                    counts[lane] += 1;
                    n -= 1;
                    left -= 1;
                    idle = 0;
                } else {
                    idle += 1;
                }
                k += 1;
            }
        }
        for (lane, n) in lanes.iter_mut().zip(counts) {
            lane.first_slot = self.slots;
            self.slots += n;
            let pitch = lane.length / n.max(1);
            let play = (pitch - spacing(lane.traffic).min(pitch)) / 2;
            let offset = r.below(lane.length.max(1));
            lane.slots = (0..n)
                .map(|k| {
                    let jitter = r.below(2 * play + 1) as i64 - i64::from(play);
                    let at = i64::from(k) * i64::from(pitch) + i64::from(offset) + jitter;
                    at.rem_euclid(i64::from(lane.length)) as u32
                })
                .collect();
        }
        lanes.retain(|l| !l.slots.is_empty());
        self.lanes = lanes;
    }

    fn add_still(&mut self, r: &mut Rng, spec: &SimSpec, k: u32) {
        let kind = [Still::TrafficLight, Still::Sign, Still::Person, Still::Bicycle][(k % 4) as usize];
        let far = if matches!(kind, Still::TrafficLight | Still::Sign) { 17.0 } else { 24.0 };
        for _ in 0..12 {
            let Some((x, z)) = self.free_place(r, spec, 6.0, far) else { return };
            let side = if x > 0.0 { 1.0 } else { -1.0 };
            // Fixtures face the camera's end of the street, give or take.
            let to_camera = (self.camera.pos - v3(x, 0.0, z)).unit();
            let facing = 0.5 - 0.10 * (to_camera.x / to_camera.z.abs().max(0.6)).clamp(-1.2, 1.2)
                + r.range(-0.03, 0.03);
            let (pos, heading, post) = match kind {
                Still::TrafficLight => {
                    (v3(side * (self.kerb + 0.4), fixtures::LIGHT_HEIGHT, z), facing, Some(Prop::SignalPost))
                }
                Still::Sign => {
                    (v3(side * (self.kerb + 0.4), fixtures::SIGN_HEIGHT, z), facing, Some(Prop::SignPost))
                }
                Still::Person => (v3(x, 0.0, z), r.unit(), None),
                Still::Bicycle => {
                    (v3(x, 0.0, z), if r.chance(0.7) { 0.0 } else { 0.5 } + r.range(-0.04, 0.04), None)
                }
            };
            if !self.sees(pos, spec, -0.06) || !self.apart(pos.x, pos.z, 2.0) {
                continue;
            }
            if let Some(prop) = post {
                let base = v3(pos.x, 0.0, pos.z);
                self.props.push(Standing { prop, pos: base, heading, key: u64::from(r.next()) });
            }
            let slot = self.still.len() as u32;
            self.still.push(StillObject { kind, pos, heading, slot });
            return;
        }
    }

    fn make_lanes(&self, r: &mut Rng, spec: &SimSpec, slow: f32) -> Vec<Lane> {
        let mut out = Vec::new();
        for side in [1.0f32, -1.0] {
            for k in 0..self.lanes_per_side {
                let x = side * (self.median + 1.65 + 3.3 * k as f32);
                let v = r.range(6.5, 10.5) * slow;
                out.extend(self.lane(spec, Traffic::Vehicles, x, side, v));
            }
            let x = side * (self.lanes_half + (self.kerb - self.lanes_half) * 0.5);
            out.extend(self.lane(spec, Traffic::Cycles, x, side, r.range(3.4, 5.2) * slow.max(0.8)));
            for (k, offset) in [1.15f32, 1.95, 2.75].into_iter().enumerate() {
                let dir = if (k as f32 - 0.5) * side > 0.0 { 1.0 } else { -1.0 };
                out.extend(self.lane(
                    spec,
                    Traffic::Walkers,
                    side * (self.kerb + offset),
                    dir,
                    r.range(1.0, 1.6),
                ));
            }
        }
        out
    }

    /// A lane with the belt cut to what the camera sees, or none where it would run through the camera or out of thin
    /// air.
    fn lane(&self, spec: &SimSpec, traffic: Traffic, x: f32, dir: f32, speed: f32) -> Option<Lane> {
        let (half_w, half_l, height) = match traffic {
            Traffic::Vehicles => (bus::FOOTPRINT.0, bus::FOOTPRINT.1, 3.2),
            Traffic::Cycles => (bicycle::FOOTPRINT.0, bicycle::FOOTPRINT.1, 1.8),
            Traffic::Walkers => (person::FOOTPRINT.0, person::FOOTPRINT.1, 1.9),
        };
        let cam = self.camera.pos;
        let gap = (x - cam.x).abs() - half_w;
        if gap < if cam.y > height + 0.4 { -2.0 } else { 1.3 } {
            return None;
        }
        let seen = |z: f32| {
            [(-half_w, 0.0), (half_w, 0.0), (-half_w, height), (half_w, height)].into_iter().any(|(dx, y)| {
                [-half_l, -half_l * 0.5, 0.0, half_l * 0.5, half_l]
                    .into_iter()
                    .any(|dz| self.sees(v3(x + dx, y, z + dz), spec, 0.08))
            })
        };
        let mut z = -30.0;
        while !seen(z) {
            z += 0.5;
            if z > self.corner {
                return None;
            }
        }
        let z0 = z - 2.0;
        let (turn, radius) = match traffic {
            Traffic::Walkers => (self.junction - JUNCTION_HALF - 0.4 - (x.abs() - self.kerb) * 0.85, 0.8),
            _ => (self.junction - 1.7 - (x.abs() * 0.15), (self.kerb - x.abs() + 4.0).min(9.0)),
        };
        let tail = (self.front + 7.0 + 2.0 * half_l - (x.abs() + radius)).max(6.0);
        let z1 = turn - radius;
        let length = (z1 - z0) + radius * std::f32::consts::FRAC_PI_2 + tail;
        Some(Lane {
            traffic,
            x,
            dir,
            speed: (speed * 1000.0) as u32,
            z0,
            z1,
            radius,
            length: (length * 1000.0) as u32,
            slots: Vec::new(),
            first_slot: 0,
        })
    }

    /// Whether the sun, in this direction, reaches a point.
    pub(super) fn sunlit(&self, p: V3, sun: V3) -> bool {
        self.sunlit_past(Set::MAX, p, sun)
    }

    /// The same where only these houses can stand in the way.
    pub(super) fn sunlit_past(&self, houses: Set, p: V3, sun: V3) -> bool {
        // A house on the far side of the point from the sun casts no shadow on it.
        !members(houses & self.all()).map(|k| &self.houses[k]).any(|h| {
            (if sun.x > 0.0 { h.hi.x > p.x } else { h.lo.x < p.x })
                && (if sun.z > 0.0 { h.hi.z > p.z } else { h.lo.z < p.z })
                && crosses(h, p, sun).is_some()
        })
    }

    /// All houses.
    fn all(&self) -> Set {
        Set::MAX.checked_shr(Set::BITS - self.houses.len() as u32).unwrap_or(0)
    }

    /// Light of the street lamps on the ground at `p`, 0..1.
    pub(super) fn lamplight(&self, p: V3) -> f32 {
        let mut sum = 0.0;
        for l in &self.lamps {
            let d = v3(p.x - l.x, 0.0, p.z - l.z);
            let k = 1.0 / (1.0 + d.dot(d) * 0.035);
            sum += k * k;
        }
        sum.min(1.4)
    }
}

/// Distance along the ray at which it enters a house, and the axis of the wall it meets (0 x, 2 z).
pub(super) fn crosses(h: &House, from: V3, dir: V3) -> Option<(f32, u8)> {
    let mut enter = (0.0f32, 1u8);
    let mut leave = f32::MAX;
    for (axis, lo, hi, o, d) in [
        (0u8, h.lo.x, h.hi.x, from.x, dir.x),
        (1, h.lo.y - 1.0, h.hi.y, from.y, dir.y),
        (2, h.lo.z, h.hi.z, from.z, dir.z),
    ] {
        if d.abs() < 1e-9 {
            if o < lo || o > hi {
                return None;
            }
            continue;
        }
        let (a, b) = ((lo - o) / d, (hi - o) / d);
        let (a, b) = if a < b { (a, b) } else { (b, a) };
        if a > enter.0 {
            enter = (a, axis);
        }
        leave = leave.min(b);
    }
    (enter.0 < leave && enter.0 > 0.0).then_some(enter)
}

/// Room that one slot takes on its belt, in millimetres.
fn spacing(t: Traffic) -> u32 {
    match t {
        Traffic::Vehicles => 12_600,
        Traffic::Cycles => 4_500,
        Traffic::Walkers => 1_500,
    }
}

fn place_camera(r: &mut Rng, spec: &SimSpec, kerb: f32, front: f32) -> Camera {
    let (w, h) = (spec.width as f32, spec.height as f32);
    let side = if r.chance(0.5) { -1.0 } else { 1.0 };
    let (pos, yaw, pitch) = match r.below(3) {
        // High on a wall.
        0 => (
            v3(side * (front - 0.5), r.range(3.0, 4.2), 0.0),
            -side * r.range(0.06, 0.16),
            r.range(0.022, 0.04),
        ),
        // At the kerb.
        1 => (
            v3(side * (kerb + 0.3), r.range(1.6, 2.4), 0.0),
            -side * r.range(0.03, 0.13),
            r.range(0.002, 0.016),
        ),
        // Over the middle of the carriageway.
        _ => (v3(r.range(-0.4, 0.4), r.range(3.7, 4.8), 0.0), r.range(-0.05, 0.05), r.range(0.02, 0.042)),
    };
    let focal = w.max(h * 1.3) * r.range(0.72, 1.0);
    Camera::new(pos, yaw, pitch, focal, (w * 0.5, h * 0.5))
}
