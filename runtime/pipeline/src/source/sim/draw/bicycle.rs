//! Bicycles. One being ridden is drawn with its rider, who is a person of his own in the truth.

use super::super::maths::{Rng, V3, cos_turns, sin_turns, v3};
use super::super::mesh::{Mat, Mesh};

/// Half-width and half-length of the ground a bicycle takes.
pub(in super::super) const FOOTPRINT: (f32, f32) = (0.35, 0.95);

const RADIUS: f32 = 0.345;

/// Turn of the cranks after `travelled` metres.
pub(in super::super) fn cranks(travelled: f32) -> f32 {
    -travelled / 4.6
}

/// Draws a bicycle that heads along +z.
pub(in super::super) fn draw(m: &mut Mesh, key: u64, travelled: f32, lamps: bool) {
    let mut r = Rng::keyed(key, 5, 0);
    let rgb = r.pick(&[
        [170, 30, 34],
        [34, 70, 140],
        [28, 28, 30],
        [220, 222, 222],
        [40, 110, 70],
        [206, 160, 40],
        [80, 140, 160],
    ]);
    let frame = m.mat(rgb, 0.08);
    let tyre = m.mat([24, 24, 26], 0.0);
    let steel = m.mat([150, 154, 158], 0.15);
    let black = m.mat([20, 20, 22], 0.02);
    let (rear, front) = (v3(0.0, RADIUS, -0.52), v3(0.0, RADIUS, 0.53));
    let turn = -travelled / (std::f32::consts::TAU * RADIUS);
    for c in [rear, front] {
        ring(m, c, RADIUS - 0.02, 0.021, tyre);
        ring(m, c, RADIUS - 0.05, 0.012, steel);
        spokes(m, c, turn, steel);
    }
    let crank = v3(0.0, 0.30, -0.06);
    let seat = v3(0.0, 0.80, -0.24);
    let head = [v3(0.0, 0.86, 0.36), v3(0.0, 0.70, 0.41)];
    let t = 0.021;
    for (a, b, r) in [
        (crank, seat, t),
        (v3(0.0, 0.76, -0.22), head[0], t),
        (crank, head[1], t * 1.15),
        (head[0], head[1], t * 1.2),
    ] {
        m.tube(a, b, r, 6, frame);
    }
    for s in [-0.045f32, 0.045] {
        let side = v3(s, 0.0, 0.0);
        m.tube(crank + side, rear + side, 0.012, 5, frame);
        m.tube(v3(0.0, 0.74, -0.22), rear + side, 0.011, 5, frame);
        m.tube(head[1], front + side, 0.015, 5, frame);
    }
    m.tube(seat, v3(0.0, 0.93, -0.27), 0.016, 5, steel);
    m.limb(v3(0.0, 0.955, -0.38), v3(0.0, 0.95, -0.14), 0.065, 0.025, black);
    m.tube(head[0], v3(0.0, 1.03, 0.33), 0.016, 5, steel);
    for s in [-1.0f32, 1.0] {
        m.tube(v3(0.0, 1.03, 0.34), v3(s * 0.2, 1.06, 0.36), 0.015, 5, steel);
        m.tube(v3(s * 0.18, 1.06, 0.36), v3(s * 0.27, 1.04, 0.24), 0.021, 5, black);
    }
    // Chain ring, cranks and pedals.
    let a = cranks(travelled);
    m.wheel_disc(crank + v3(0.05, 0.0, 0.0), 0.095, 1.0, a, 8, [steel, black]);
    m.wheel_disc(crank + v3(-0.05, 0.0, 0.0), 0.095, -1.0, a, 8, [steel, black]);
    for (s, t) in [(1.0f32, a), (-1.0, a + 0.5)] {
        let end = crank + v3(s * 0.07, 0.17 * sin_turns(t), 0.17 * cos_turns(t));
        m.tube(crank + v3(s * 0.07, 0.0, 0.0), end, 0.012, 4, steel);
        m.cuboid(end + v3(s * 0.05 - 0.045, -0.012, -0.04), end + v3(s * 0.05 + 0.045, 0.012, 0.04), black);
    }
    if r.chance(0.5) {
        guards(m, rear, front, black);
    }
    if r.chance(0.3) {
        let wicker = m.mat([150, 110, 66], 0.0);
        m.cuboid(v3(-0.15, 0.84, 0.46), v3(0.15, 1.02, 0.70), wicker);
    }
    if lamps {
        let white = m.lit_mat([255, 250, 230], 0.0, 2.0);
        m.bead(v3(0.0, 0.92, 0.45), v3(0.03, 0.03, 0.02), white);
        m.glow(v3(0.0, 0.92, 0.48), v3(0.0, 0.0, 1.0), [240, 244, 255], 0.22);
        let red = m.lit_mat([255, 30, 24], 0.0, 1.5);
        m.bead(v3(0.0, 0.72, -0.36), v3(0.02, 0.02, 0.02), red);
        m.glow(v3(0.0, 0.72, -0.4), v3(0.0, 0.0, -1.0), [255, 30, 24], 0.15);
    }
}

/// A ring in the plane of the wheel.
fn ring(m: &mut Mesh, c: V3, radius: f32, tube: f32, mat: Mat) {
    let n = (m.segs * 2).clamp(12, 24);
    m.ring_tube((n, 4), mat, |i, j| {
        let (t, u) = (i as f32 / n as f32, j as f32 / 4.0);
        let r = radius + tube * cos_turns(u);
        (
            c + v3(tube * sin_turns(u), r * sin_turns(t), r * cos_turns(t)),
            c + v3(0.0, radius * sin_turns(t), radius * cos_turns(t)),
        )
    });
}

fn spokes(m: &mut Mesh, c: V3, turn: f32, mat: Mat) {
    for k in 0..9 {
        let t = turn + k as f32 / 9.0;
        let d = v3(0.0, sin_turns(t), cos_turns(t));
        let n = v3(0.0, d.z, -d.y) * 0.0028;
        let (a, b) = (c + d * 0.02, c + d * (RADIUS - 0.05));
        m.leaf(&[a + n, a - n, b - n, b + n], v3(1.0, 0.0, 0.0), mat);
    }
    m.tube(c + v3(-0.05, 0.0, 0.0), c + v3(0.05, 0.0, 0.0), 0.025, 6, mat);
}

fn guards(m: &mut Mesh, rear: V3, front: V3, mat: Mat) {
    for (c, from) in [(rear, 0.12f32), (front, 0.08)] {
        m.sheet((7, 3), false, mat, |i, j| {
            let t = from + 0.4 * i as f32 / 6.0;
            let r = RADIUS + 0.02 + [0.0, 0.01, 0.0][j];
            c + v3(0.03 * (j as f32 - 1.0), r * sin_turns(t), r * cos_turns(t))
        });
    }
}
