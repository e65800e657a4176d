//! Fixtures of a class: traffic lights and traffic signs. Their posts are props, not part of the object.

use super::super::maths::{Rng, cos_turns, sin_turns, v3};
use super::super::mesh::{Mat, Mesh};

/// Half-width and half-length of the ground a fixture takes.
pub(in super::super) const FOOTPRINT: (f32, f32) = (0.35, 0.2);
/// Height of the middle of a traffic light and of a sign.
pub(in super::super) const LIGHT_HEIGHT: f32 = 3.0;
pub(in super::super) const SIGN_HEIGHT: f32 = 2.45;

/// Draws a traffic light facing +z, its middle at the origin; `state` 0 is red, 1 amber, 2 green.
pub(in super::super) fn traffic_light(m: &mut Mesh, key: u64, state: u8) {
    let mut r = Rng::keyed(key, 7, 0);
    let shell = m.mat(if r.chance(0.7) { [26, 28, 28] } else { [196, 158, 40] }, 0.03);
    let board = m.mat([14, 15, 15], 0.0);
    let hood = m.mat([18, 19, 19], 0.0);
    m.cuboid(v3(-0.18, -0.52, -0.14), v3(0.18, 0.52, 0.06), shell);
    m.plate((-0.165, 0.165), (-0.505, 0.505), 0.064, false, board);
    for (k, y) in [0.33f32, 0.0, -0.33].into_iter().enumerate() {
        let on = k as u8 == state;
        let (lit, off) =
            [([255, 40, 28], [70, 18, 16]), ([255, 176, 30], [72, 50, 14]), ([40, 255, 120], [14, 58, 34])]
                [k];
        let lens = if on { m.lit_mat(lit, 0.0, 1.3) } else { m.lit_mat(off, 0.12, 0.0) };
        m.disc(v3(0.0, y, 0.072), 0.125, 1.0, 16, lens);
        if on {
            let core = m.lit_mat(lit.map(|c| c.saturating_add(90)), 0.0, 1.5);
            m.disc(v3(0.0, y, 0.074), 0.07, 1.0, 12, core);
            m.glow(v3(0.0, y, 0.09), v3(0.0, 0.0, 1.0), lit, 0.42);
        }
        // Half a tube keeps the sun off.
        m.sheet((2, 8), false, hood, |i, j| {
            let t = -0.03 + 0.56 * j as f32 / 7.0;
            let z = if i == 0 {
                0.066
            } else {
                0.066 + 0.17 * sin_turns(0.25 * (1.0 - (t - 0.25).abs() * 3.2)).max(0.15)
            };
            v3(0.14 * cos_turns(t), y + 0.14 * sin_turns(t), z)
        });
    }
}

/// Draws a traffic sign facing +z, its middle at the origin.
pub(in super::super) fn sign(m: &mut Mesh, key: u64) {
    let mut r = Rng::keyed(key, 8, 0);
    let red = m.mat([186, 20, 28], 0.03);
    let white = m.mat([232, 232, 230], 0.03);
    let blue = m.mat([20, 70, 150], 0.03);
    let black = m.mat([18, 18, 18], 0.0);
    let grey = m.mat([130, 132, 134], 0.05);
    match r.below(6) {
        0 | 1 => {
            // Stop: a red octagon with a white rim and the word.
            m.disc(v3(0.0, 0.0, -0.012), 0.40, -1.0, 8, grey);
            m.disc(v3(0.0, 0.0, 0.0), 0.40, 1.0, 8, white);
            m.disc(v3(0.0, 0.0, 0.005), 0.375, 1.0, 8, red);
            word(m, white);
        }
        2 => {
            // A limit: white disc, red rim, two digits.
            m.disc(v3(0.0, 0.0, -0.012), 0.34, -1.0, 24, grey);
            m.disc(v3(0.0, 0.0, 0.0), 0.34, 1.0, 24, red);
            m.disc(v3(0.0, 0.0, 0.005), 0.265, 1.0, 24, white);
            let first: &[[f32; 4]] = if r.chance(0.5) { &THREE } else { &FIVE };
            glyph(m, first, 0.09, 0.17, 0.115, black);
            glyph(m, &ZERO, -0.09, 0.17, 0.115, black);
        }
        3 => {
            // A warning: white triangle, red rim, a bar and a dot.
            let tri = |k: f32, z: f32| {
                [v3(-0.40 * k, -0.24 * k, z), v3(0.40 * k, -0.24 * k, z), v3(0.0, 0.45 * k, z)]
            };
            m.face(&tri(1.0, -0.012), v3(0.0, 0.0, -1.0), grey);
            m.face(&tri(1.0, 0.0), v3(0.0, 0.0, 1.0), red);
            m.face(&tri(0.68, 0.005), v3(0.0, 0.0, 1.0), white);
            m.plate((-0.022, 0.022), (-0.05, 0.17), 0.01, false, black);
            m.disc(v3(0.0, -0.105, 0.01), 0.028, 1.0, 10, black);
        }
        4 => {
            // Mandatory direction: blue disc, white arrow.
            m.disc(v3(0.0, 0.0, -0.012), 0.33, -1.0, 24, grey);
            m.disc(v3(0.0, 0.0, 0.0), 0.33, 1.0, 24, white);
            m.disc(v3(0.0, 0.0, 0.005), 0.315, 1.0, 24, blue);
            m.plate((-0.035, 0.035), (-0.20, 0.08), 0.01, false, white);
            m.face(
                &[v3(-0.14, 0.05, 0.01), v3(0.14, 0.05, 0.01), v3(0.0, 0.22, 0.01)],
                v3(0.0, 0.0, 1.0),
                white,
            );
        }
        _ => {
            // No entry.
            m.disc(v3(0.0, 0.0, -0.012), 0.34, -1.0, 24, grey);
            m.disc(v3(0.0, 0.0, 0.0), 0.34, 1.0, 24, white);
            m.disc(v3(0.0, 0.0, 0.005), 0.325, 1.0, 24, red);
            m.plate((-0.22, 0.22), (-0.055, 0.055), 0.01, false, white);
        }
    }
}

/// Strokes of glyphs as rectangles in a unit cell: x0, y0, x1, y1.
const S: [[f32; 4]; 5] = [
    [0.0, 0.84, 1.0, 1.0],
    [0.0, 0.5, 0.26, 0.84],
    [0.0, 0.42, 1.0, 0.58],
    [0.74, 0.16, 1.0, 0.5],
    [0.0, 0.0, 1.0, 0.16],
];
const T: [[f32; 4]; 2] = [[0.0, 0.84, 1.0, 1.0], [0.37, 0.0, 0.63, 0.84]];
const O: [[f32; 4]; 4] =
    [[0.0, 0.84, 1.0, 1.0], [0.0, 0.0, 1.0, 0.16], [0.0, 0.16, 0.26, 0.84], [0.74, 0.16, 1.0, 0.84]];
const P: [[f32; 4]; 4] =
    [[0.0, 0.0, 0.26, 1.0], [0.26, 0.84, 1.0, 1.0], [0.26, 0.42, 1.0, 0.58], [0.74, 0.58, 1.0, 0.84]];
const THREE: [[f32; 4]; 4] =
    [[0.0, 0.84, 1.0, 1.0], [0.2, 0.42, 0.8, 0.58], [0.0, 0.0, 1.0, 0.16], [0.74, 0.0, 1.0, 1.0]];
const FIVE: [[f32; 4]; 5] = S;
const ZERO: [[f32; 4]; 4] = O;

/// A glyph centred at (`x`, 0). Seen from the front, +x runs to the left.
fn glyph(m: &mut Mesh, strokes: &[[f32; 4]], x: f32, height: f32, width: f32, mat: Mat) {
    for s in strokes {
        let fx = |u: f32| x - (u - 0.5) * width;
        let fy = |v: f32| (v - 0.5) * height;
        m.plate((fx(s[2]), fx(s[0])), (fy(s[1]), fy(s[3])), 0.011, false, mat);
    }
}

fn word(m: &mut Mesh, mat: Mat) {
    let letters: [&[[f32; 4]]; 4] = [&S, &T, &O, &P];
    for (k, strokes) in letters.into_iter().enumerate() {
        glyph(m, strokes, 0.225 - 0.15 * k as f32, 0.24, 0.115, mat);
    }
}
