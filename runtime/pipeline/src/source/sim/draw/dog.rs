//! Dogs of several breeds' build, walking.

use super::super::maths::{Rng, cos_turns, sin_turns, v3};
use super::super::mesh::Mesh;

/// Half-width and half-length of the ground a dog takes.
pub(in super::super) const FOOTPRINT: (f32, f32) = (0.2, 0.5);

/// Draws a dog that looks along +z, after `travelled` metres.
pub(in super::super) fn draw(m: &mut Mesh, key: u64, travelled: f32) {
    let mut r = Rng::keyed(key, 6, 0);
    let k = r.range(0.8, 1.25);
    let coat = r.pick(&[
        [150, 108, 62],
        [96, 66, 40],
        [32, 28, 28],
        [206, 186, 150],
        [226, 222, 214],
        [120, 92, 70],
    ]);
    let fur = m.mat(coat, 0.0);
    let second = r.pick(&[coat, [228, 222, 212], [48, 36, 30]]);
    let patch = m.mat(second, 0.0);
    let dark = m.mat([22, 18, 18], 0.05);
    let (stout, leg, fluffy) = (r.range(0.85, 1.15), r.range(0.36, 0.46), r.chance(0.4));
    let y = leg * k + 0.07 * k;
    // Trunk: z, height of the axis, half-width, half-height.
    let rings: [(f32, f32, f32, f32); 8] = [
        (-0.40, 0.02, 0.035, 0.045),
        (-0.36, 0.01, 0.085, 0.10),
        (-0.22, 0.0, 0.105, 0.118),
        (-0.02, 0.0, 0.100, 0.112),
        (0.16, -0.012, 0.118, 0.150),
        (0.28, 0.015, 0.105, 0.140),
        (0.37, 0.09, 0.075, 0.100),
        (0.44, 0.17, 0.060, 0.075),
    ];
    let cols = (m.segs + 2).min(12);
    m.patches(
        (8, cols),
        true,
        |i, j| {
            let under = j * 4 / cols == 2 || j * 4 / cols == 3;
            Some(if i > 3 && under { patch } else { fur })
        },
        |i, j| {
            let (z, dy, rx, ry) = rings[i];
            let t = j as f32 / cols as f32;
            v3(rx * stout * k * cos_turns(t), y + (dy + ry * stout * sin_turns(t)) * k, z * k)
        },
    );
    // Head, muzzle, nose, eyes, ears.
    let h = v3(0.0, y + 0.25 * k, 0.50 * k);
    m.ball(h, v3(0.082, 0.088, 0.10) * k, fur);
    m.limb(h + v3(0.0, -0.028, 0.05) * k, h + v3(0.0, -0.045, 0.17) * k, 0.052 * k, 0.036 * k, patch);
    m.bead(h + v3(0.0, -0.025, 0.205) * k, v3(0.02, 0.017, 0.015) * k, dark);
    for s in [-1.0f32, 1.0] {
        m.bead(h + v3(s * 0.042, 0.022, 0.085) * k, v3(0.012, 0.012, 0.01) * k, dark);
        if fluffy {
            m.ball(h + v3(s * 0.088, -0.015, -0.01) * k, v3(0.022, 0.075, 0.045) * k, patch);
        } else {
            m.limb(
                h + v3(s * 0.05, 0.06, -0.01) * k,
                h + v3(s * 0.072, 0.15, -0.015) * k,
                0.036 * k,
                0.010 * k,
                fur,
            );
        }
    }
    // Collar and tail.
    if r.chance(0.6) {
        let collar = m.mat([170, 30, 36], 0.05);
        m.sheet((2, 10), true, collar, |i, j| {
            let t = j as f32 / 10.0;
            let c = v3(0.0, y + (0.12 + 0.035 * i as f32) * k, (0.40 + 0.03 * i as f32) * k);
            c + v3(0.085 * cos_turns(t), 0.095 * sin_turns(t), -0.03 * sin_turns(t)) * (k * stout)
        });
    }
    let wag = 0.09 * sin_turns(travelled * 1.1);
    let root = v3(0.0, y + 0.06 * k, -0.38 * k);
    let mid = root + v3(wag * 0.5, 0.10, -0.13) * k;
    m.limb(root, mid, 0.03 * k, 0.027 * k, fur);
    m.limb(mid, mid + v3(wag, 0.12, -0.03) * k, 0.027 * k, 0.012 * k, patch);
    // Legs in a walk: hind and fore of one side a quarter apart.
    let phase = travelled / (0.72 * k);
    for (s, fore, offset) in [(1.0f32, true, 0.0), (-1.0, true, 0.5), (1.0, false, 0.75), (-1.0, false, 0.25)]
    {
        let t = phase + offset;
        let a = 0.07 * sin_turns(t);
        let lift = 0.05 * cos_turns(t).max(0.0);
        let hip = v3(s * 0.072 * k * stout, y - 0.02 * k, if fore { 0.21 } else { -0.28 } * k);
        let bend = if fore { -0.02 - lift } else { 0.05 };
        let dir = |t: f32| v3(0.0, -cos_turns(t), sin_turns(t));
        let knee = hip + dir(a + bend * 0.6) * (leg * 0.52 * k);
        let paw = knee + dir(a - bend - if fore { 0.0 } else { lift }) * (leg * 0.5 * k);
        m.limb(hip, knee, if fore { 0.055 } else { 0.072 } * k, 0.034 * k, fur);
        m.limb(knee, paw, 0.032 * k, 0.024 * k, if second == coat { fur } else { patch });
        m.ball(
            paw + v3(0.0, -0.01, 0.02) * k,
            v3(0.03, 0.02, 0.042) * k,
            if second == coat { fur } else { patch },
        );
    }
}
