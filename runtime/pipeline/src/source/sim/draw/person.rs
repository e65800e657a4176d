//! People: walking, standing or riding, in many clothes.

use super::super::maths::{Rng, V3, cos_turns, sin_turns, v3};
use super::super::mesh::{Mat, Mesh};

/// Half-width and half-length of the ground a person takes.
pub(in super::super) const FOOTPRINT: (f32, f32) = (0.3, 0.35);

/// Metres walked in one cycle of two steps.
const STRIDE: f32 = 1.45;

/// What the person does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in super::super) enum Posture {
    /// On foot, having walked this far.
    Walking(f32),
    /// Standing.
    Standing,
    /// On a bicycle whose cranks are at this turn.
    Riding(f32),
}

const SKIN: [[u8; 3]; 6] =
    [[232, 190, 164], [222, 176, 148], [204, 154, 122], [170, 120, 88], [124, 84, 60], [88, 60, 46]];
const HAIR: [[u8; 3]; 6] =
    [[28, 22, 20], [52, 36, 26], [92, 64, 40], [160, 120, 70], [120, 116, 112], [70, 30, 20]];
const TOPS: [[u8; 3]; 14] = [
    [226, 226, 222],
    [36, 40, 52],
    [150, 34, 40],
    [44, 84, 140],
    [92, 98, 100],
    [30, 30, 32],
    [196, 170, 60],
    [64, 110, 74],
    [168, 100, 120],
    [120, 150, 180],
    [206, 110, 50],
    [90, 70, 110],
    [176, 160, 132],
    [60, 66, 50],
];
const LEGS: [[u8; 3]; 8] = [
    [38, 46, 70],
    [30, 30, 34],
    [62, 74, 104],
    [90, 84, 74],
    [140, 124, 96],
    [70, 72, 74],
    [44, 40, 38],
    [108, 118, 136],
];

/// The joints of one arm or leg and its radii.
struct Limb {
    at: [V3; 3],
    r: [f32; 3],
}

struct Clothes {
    skin: Mat,
    hair: Mat,
    top: Mat,
    legs: Mat,
    shoes: Mat,
    bare_shins: bool,
    bare_arms: bool,
    skirt: bool,
    coat: bool,
}

/// Direction in the plane of walking: straight down at 0, forward for positive turns.
fn swing(t: f32) -> V3 {
    v3(0.0, -cos_turns(t), sin_turns(t))
}

/// Draws a person who looks along +z.
pub(in super::super) fn draw(m: &mut Mesh, key: u64, posture: Posture) {
    let mut r = Rng::keyed(key, 4, 0);
    let woman = r.chance(0.5);
    let child = r.chance(0.08);
    let k = if child {
        r.range(0.68, 0.8)
    } else if woman {
        r.range(0.91, 1.0)
    } else {
        r.range(0.97, 1.08)
    };
    let build = r.range(0.94, 1.16) * if woman { 0.94 } else { 1.04 };
    let c = Clothes {
        skin: {
            let s = r.pick(&SKIN);
            m.mat(s, 0.02)
        },
        hair: {
            let s = r.pick(&HAIR);
            m.mat(s, 0.04)
        },
        top: {
            let s = r.pick(&TOPS);
            m.mat(s, 0.0)
        },
        legs: {
            let s = r.pick(&LEGS);
            m.mat(s, 0.0)
        },
        shoes: {
            let s = r.pick(&[[26, 24, 24], [70, 50, 36], [210, 210, 206], [150, 40, 40]]);
            m.mat(s, 0.03)
        },
        bare_shins: r.chance(0.2),
        bare_arms: r.chance(0.4),
        skirt: woman && r.chance(0.3) && !matches!(posture, Posture::Riding(_)),
        coat: r.chance(0.25) && !matches!(posture, Posture::Riding(_)),
    };
    let bag = r.below(5);
    let bag_rgb = r.pick(&[[30, 32, 38], [110, 60, 40], [46, 80, 60], [150, 40, 50], [60, 70, 110]]);
    let arm_phase = r.range(-0.01, 0.02);
    let hips = 0.092 * build;
    let shoulders = if woman { 0.178 } else { 0.20 } * build;
    match posture {
        Posture::Riding(turn) => {
            let lean = 0.075;
            let seat = v3(0.0, 0.98, -0.24);
            let chest = seat - swing(-lean) * 0.42;
            torso(m, &c, seat, lean, k, build, woman);
            for side in [-1.0f32, 1.0] {
                let hip = seat + v3(side * hips, -0.02, 0.02);
                let t = turn + if side > 0.0 { 0.0 } else { 0.5 };
                let ankle =
                    v3(side * 0.10, 0.30 + 0.09 + 0.17 * sin_turns(t), 0.02 - 0.04 + 0.17 * cos_turns(t));
                leg(m, &c, &bend(hip, ankle, 0.44, 0.43, 1.0, [0.082, 0.056, 0.04]), 0.0);
                let shoulder = chest + v3(side * (shoulders - 0.02), -0.02, 0.0);
                let hand = v3(side * 0.24, 1.05, 0.42);
                arm(m, &c, &bend(shoulder, hand, 0.32, 0.31, -0.8, [0.05, 0.042, 0.034]));
            }
            head(m, &c, &mut r, chest + v3(0.0, 0.22, 0.10), 1.0, woman);
            if bag == 0 {
                let mat = m.mat(bag_rgb, 0.0);
                m.ball(chest + v3(0.0, -0.14, -0.17), v3(0.14, 0.2, 0.09), mat);
            }
        }
        Posture::Walking(_) | Posture::Standing => {
            let (phase, amount) = match posture {
                Posture::Walking(d) => (d / (STRIDE * k), 1.0),
                _ => (r.unit(), 0.08),
            };
            let bob = 0.018 * cos_turns(2.0 * phase) * amount;
            let pelvis = v3(0.0, (0.945 + bob) * k, 0.0);
            let lean = 0.008 * amount;
            torso(m, &c, pelvis, lean, k, build, woman);
            for side in [-1.0f32, 1.0] {
                let t = phase + if side > 0.0 { 0.0 } else { 0.5 };
                let thigh = (0.072 * sin_turns(t) + 0.006) * amount;
                // The knee bends while the leg swings forward.
                let knee = (0.012 + 0.13 * cos_turns(t - 0.02).max(0.0)) * amount;
                let hip = pelvis + v3(side * hips * k, -0.02 * k, 0.0);
                let k1 = hip + (swing(thigh) + v3(side * 0.01, 0.0, 0.0)) * (0.43 * k);
                let ankle = k1 + swing(thigh - knee) * (0.42 * k);
                let r3 = [0.086 * build * k, 0.058 * k, 0.042 * k];
                leg(m, &c, &Limb { at: [hip, k1, ankle], r: r3 }, thigh - knee);
                let a = (0.055 * sin_turns(t + 0.5) + arm_phase) * amount;
                let bent = 0.025 + 0.05 * amount * (0.5 + 0.5 * sin_turns(t + 0.5));
                let shoulder = pelvis + v3(side * (shoulders * k), 0.46 * k, 0.0);
                let elbow = shoulder + (swing(a) + v3(side * 0.16, 0.0, 0.0)) * (0.29 * k);
                let hand = elbow + (swing(a + bent) + v3(side * 0.03, 0.0, 0.0)) * (0.25 * k);
                let r3 = [0.052 * build * k, 0.042 * k, 0.033 * k];
                arm(m, &c, &Limb { at: [shoulder, elbow, hand], r: r3 });
                if bag == 1 && side > 0.0 {
                    let mat = m.mat(bag_rgb, 0.03);
                    m.ball(hand + v3(0.02, -0.2 * k, 0.0), v3(0.05, 0.13, 0.16), mat);
                    m.tube(hand, hand + v3(0.01, -0.1, 0.06), 0.008, 4, mat);
                }
            }
            if c.skirt || c.coat {
                let mat = if c.skirt { c.legs } else { c.top };
                let low = if c.skirt { -0.42 } else { -0.30 } * k;
                let sway = 0.07 * sin_turns(phase) * amount;
                let wide = 0.05 * sin_turns(phase).abs() * amount;
                let cols = (m.segs + 2).min(12);
                m.sheet((3, cols), true, mat, |i, j| {
                    let f = i as f32 * 0.5;
                    let t = j as f32 / cols as f32;
                    let rx = (0.165 + 0.035 * f) * build * k;
                    let rz = (0.118 + (0.06 + wide) * f) * build * k;
                    let y = 0.08 * k + (low - 0.08 * k) * f;
                    pelvis + v3(rx * cos_turns(t), y, rz * sin_turns(t) + sway * f * cos_turns(t))
                });
            }
            head(m, &c, &mut r, pelvis + v3(0.0, 0.675 * k, 0.02), k, woman);
            if bag == 0 {
                let mat = m.mat(bag_rgb, 0.0);
                m.ball(pelvis + v3(0.0, 0.30 * k, -0.19 * k), v3(0.15 * k, 0.21 * k, 0.1 * k), mat);
            }
        }
    }
}

/// A two-bone limb from `a` to `b`; the joint gives way forward (`way` > 0) or backward and down.
fn bend(a: V3, b: V3, upper: f32, lower: f32, way: f32, r: [f32; 3]) -> Limb {
    let d = b - a;
    let n = d.dot(d).sqrt().clamp(0.05, upper + lower - 0.005);
    let dir = d.unit();
    let along = (upper * upper - lower * lower + n * n) / (2.0 * n);
    let off = (upper * upper - along * along).max(0.0).sqrt();
    let side = dir.cross(v3(1.0, 0.0, 0.0)).unit();
    let side = if side.z * way < 0.0 { side * -1.0 } else { side };
    Limb { at: [a, a + dir * along + side * off, a + dir * n], r }
}

fn torso(m: &mut Mesh, c: &Clothes, pelvis: V3, lean: f32, k: f32, build: f32, woman: bool) {
    let bust = if woman { 0.012 } else { 0.0 };
    let waist = if woman { 0.118 } else { 0.140 };
    // Height over the pelvis, half-width, half-depth, shift forward.
    let rings: [(f32, f32, f32, f32); 8] = [
        (-0.10, 0.12, 0.09, 0.0),
        (-0.03, 0.162, 0.112, 0.0),
        (0.05, 0.158, 0.108, 0.0),
        (0.17, waist, 0.094, 0.005),
        (0.32, 0.168, 0.112 + bust, 0.008 + bust),
        (0.43, 0.188, 0.098, 0.0),
        (0.49, 0.150, 0.072, -0.005),
        (0.535, 0.058, 0.052, 0.0),
    ];
    let cols = (m.segs + 2).min(14);
    let axis = swing(-lean) * -1.0;
    m.patches(
        (8, cols),
        true,
        |i, _| Some(if i < 2 { c.legs } else { c.top }),
        |i, j| {
            let (y, rx, rz, fwd) = rings[i];
            let t = j as f32 / cols as f32;
            pelvis
                + axis * (y * k)
                + v3(rx * build * k * cos_turns(t), 0.0, rz * build * k * sin_turns(t) + fwd * k)
        },
    );
    let neck = pelvis + axis * (0.50 * k);
    m.limb(neck, neck + v3(0.0, 0.10 * k, 0.02 * k), 0.054 * k, 0.05 * k, c.skin);
}

fn leg(m: &mut Mesh, c: &Clothes, l: &Limb, foot_turn: f32) {
    let shin = if c.bare_shins || c.skirt { c.skin } else { c.legs };
    let thigh = if c.skirt { c.skin } else { c.legs };
    // Trousers hang wider than the shin inside.
    let cuff = if c.bare_shins || c.skirt { l.r[2] } else { l.r[2] * 1.3 };
    m.limb(l.at[0], l.at[1], l.r[0], l.r[1] * 1.08, thigh);
    m.limb(l.at[1], l.at[2], l.r[1], cuff, shin);
    let f = v3(0.0, sin_turns(foot_turn * 0.6), cos_turns(foot_turn * 0.6));
    let heel = l.at[2] + v3(0.0, -0.035, -0.02);
    m.limb(heel, heel + f * (l.r[2] * 3.6), l.r[2] * 1.02, l.r[2] * 0.86, c.shoes);
}

fn arm(m: &mut Mesh, c: &Clothes, l: &Limb) {
    m.limb(l.at[0], l.at[1], l.r[0] * 1.12, l.r[1] * 1.06, c.top);
    m.limb(l.at[1], l.at[2], l.r[1], l.r[2], if c.bare_arms { c.skin } else { c.top });
    let d = (l.at[2] - l.at[1]).unit();
    m.bead(l.at[2] + d * 0.05, v3(0.032, 0.05, 0.042), c.skin);
}

fn head(m: &mut Mesh, c: &Clothes, r: &mut Rng, at: V3, k: f32, woman: bool) {
    let k = 0.5 + 0.5 * k;
    let (rx, ry, rz) = (0.076 * k, 0.116 * k, 0.096 * k);
    m.ball(at, v3(rx, ry, rz), c.skin);
    // Jaw and nose.
    m.ball(at + v3(0.0, -0.05 * k, 0.022 * k), v3(rx * 0.78, ry * 0.62, rz * 0.78), c.skin);
    m.bead(at + v3(0.0, -0.012 * k, rz), v3(0.014 * k, 0.022 * k, 0.018 * k), c.skin);
    let dark = m.mat([46, 32, 28], 0.0);
    let lip = m.mat([150, 84, 78], 0.0);
    for s in [-1.0f32, 1.0] {
        let e = at + v3(s * 0.031 * k, 0.018 * k, 0.0);
        m.plate(
            (e.x - 0.013 * k, e.x + 0.013 * k),
            (e.y - 0.007 * k, e.y + 0.007 * k),
            at.z + rz * 0.965,
            false,
            dark,
        );
        m.plate(
            (e.x - 0.016 * k, e.x + 0.016 * k),
            (e.y + 0.015 * k, e.y + 0.021 * k),
            at.z + rz * 0.94,
            false,
            dark,
        );
        m.bead(at + v3(s * rx * 0.98, -0.005, 0.0), v3(0.012, 0.026, 0.018), c.skin);
    }
    m.plate(
        (at.x - 0.02 * k, at.x + 0.02 * k),
        (at.y - 0.068 * k, at.y - 0.058 * k),
        at.z + rz * 1.0,
        false,
        lip,
    );
    match r.below(10) {
        0 => {} // bald
        1 => {
            // Cap with a peak.
            m.dome(at + v3(0.0, 0.03 * k, -0.008), v3(rx * 1.12, ry * 0.86, rz * 1.1), (0.0, 0.24), c.top);
            m.leaf(
                &[
                    at + v3(-0.06, 0.045, rz * 0.9),
                    at + v3(0.06, 0.045, rz * 0.9),
                    at + v3(0.045, 0.03, rz * 1.7),
                    at + v3(-0.045, 0.03, rz * 1.7),
                ],
                v3(0.0, 1.0, 0.2),
                c.top,
            );
        }
        style => {
            m.ball(at + v3(0.0, 0.026 * k, -0.022 * k), v3(rx * 1.1, ry * 1.0, rz * 1.02), c.hair);
            if woman && style > 3 {
                m.ball(at + v3(0.0, -0.07 * k, -0.055 * k), v3(rx * 1.12, ry * 1.25, rz * 0.68), c.hair);
            }
        }
    }
}
