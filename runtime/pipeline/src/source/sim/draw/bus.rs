//! City buses: a long box with a row of windows, doors, and a lit destination display.

use super::super::maths::{Rng, v3};
use super::super::mesh::{Mat, Mesh};
use super::wheels::{WheelMats, wheel};

/// Half-width and half-length of the ground a bus takes.
pub(in super::super) const FOOTPRINT: (f32, f32) = (1.3, 5.4);

const LIVERIES: [([u8; 3], [u8; 3]); 6] = [
    ([190, 28, 32], [150, 20, 26]),
    ([226, 228, 230], [30, 92, 160]),
    ([236, 182, 40], [60, 60, 64]),
    ([40, 110, 76], [226, 226, 220]),
    ([44, 92, 158], [226, 228, 230]),
    ([214, 216, 218], [176, 40, 44]),
];

/// Draws a bus; the doors are on its right.
pub(in super::super) fn draw(m: &mut Mesh, key: u64, travelled: f32, lamps: bool, braking: bool) {
    let mut r = Rng::keyed(key, 2, 0);
    let (h, w, top) = (r.range(4.9, 5.35), 1.25, r.range(2.95, 3.15));
    let (main, band) = r.pick(&LIVERIES);
    let paint = m.mat(main, 0.07);
    let stripe = m.mat(band, 0.07);
    let inside = if lamps { 0.35 } else { 0.0 };
    let glass = m.lit_mat(if lamps { [150, 140, 110] } else { [26, 31, 35] }, 0.16, inside);
    let screen = m.mat([24, 28, 33], 0.20);
    let seal = m.mat([18, 18, 20], 0.03);
    let dark = m.mat([12, 12, 13], 0.0);
    let roof = m.mat([206, 208, 208], 0.03);
    let wheels = WheelMats::new(m, [150, 152, 154]);
    shell(m, h, w, top, [paint, stripe, roof]);
    sides(m, &mut r, h, w, top, glass, seal);
    front(m, &mut r, h, w, top, [screen, seal, dark], lamps);
    rear(m, h, w, top, [glass, seal], lamps, braking);
    let turn = travelled / (std::f32::consts::TAU * 0.48);
    for z in [h - 2.55, -h + 3.0] {
        for x in [w + 0.01, -w - 0.01] {
            wheel(m, x, z, 0.48, 0.3, turn, wheels, Some(dark));
        }
    }
    m.cuboid(v3(-w * 0.92, 0.18, -h * 0.96), v3(w * 0.92, 0.4, h * 0.96), dark);
}

fn shell(m: &mut Mesh, h: f32, w: f32, top: f32, [paint, stripe, roof]: [Mat; 3]) {
    // Cross-section from the sill over the shoulder to the middle of the roof.
    let cs: [(f32, f32); 8] = [
        (0.98, 0.30),
        (1.0, 0.55),
        (1.0, 1.02),
        (1.0, top - 0.50),
        (0.985, top - 0.22),
        (0.93, top - 0.07),
        (0.80, top),
        (0.0, top + 0.04),
    ];
    let st: [(f32, f32, f32); 6] = [
        (-h, 0.93, 0.10),
        (-h + 0.10, 1.0, 0.0),
        (-h * 0.4, 1.0, 0.0),
        (h * 0.4, 1.0, 0.0),
        (h - 0.16, 1.0, 0.0),
        (h, 0.93, 0.07),
    ];
    let point = |i: usize, j: usize| {
        let (z, k, inset) = st[i];
        let (side, n) = if j < 8 { (1.0, j) } else { (-1.0, 14 - j) };
        let (x, y) = cs[n];
        v3(side * x * w * k, if n > 3 { y - inset } else { y }, z)
    };
    m.patches(
        (6, 15),
        false,
        |_, j| {
            Some(match j.min(13 - j) {
                0 | 1 => stripe,
                2..=5 => paint,
                _ => roof,
            })
        },
        point,
    );
    for (i, out) in [(0, -1.0f32), (5, 1.0)] {
        let p: [_; 15] = std::array::from_fn(|j| point(i, j));
        m.face(&p, v3(0.0, 0.0, out), paint);
    }
    // Air conditioning on the roof.
    m.cuboid(v3(-0.7, top, -h * 0.35), v3(0.7, top + 0.17, h * 0.1), roof);
}

fn sides(m: &mut Mesh, r: &mut Rng, h: f32, w: f32, top: f32, glass: Mat, seal: Mat) {
    let (y0, y1) = (1.12, top - 0.52);
    let advert = if r.chance(0.5) {
        Some(m.mat([r.below(200) as u8 + 40, r.below(160) as u8 + 40, r.below(200) as u8 + 40], 0.05))
    } else {
        None
    };
    for side in [-1.0f32, 1.0] {
        let x = side * (w + 0.006);
        m.side_plate((-h + 0.35, h - 0.35), (y0 - 0.06, y1 + 0.05), x, seal);
        let n = 7;
        let pitch = (2.0 * h - 0.8) / n as f32;
        for k in 0..n {
            let z = -h + 0.4 + k as f32 * pitch;
            let door = side > 0.0 && (k == n - 1 || k == 3);
            if door {
                // Two leaves of glass down to the floor.
                m.side_plate((z, z + pitch - 0.06), (0.36, y1), x + side * 0.006, seal);
                for leaf in 0..2 {
                    let a = z + 0.05 + leaf as f32 * (pitch - 0.08) * 0.5;
                    m.side_plate((a, a + (pitch - 0.2) * 0.5), (0.48, y1 - 0.06), x + side * 0.010, glass);
                }
            } else {
                m.side_plate((z + 0.03, z + pitch - 0.05), (y0, y1), x + side * 0.006, glass);
            }
        }
        if let (Some(a), true) = (advert, side < 0.0) {
            m.side_plate((-h * 0.30, h * 0.22), (0.52, 0.98), x, a);
        }
    }
}

fn front(m: &mut Mesh, r: &mut Rng, h: f32, w: f32, top: f32, [screen, seal, dark]: [Mat; 3], lamps: bool) {
    let z = h + 0.006;
    m.plate((-w * 0.91, w * 0.91), (1.0, top - 0.14), z, false, seal);
    m.plate((-w * 0.88, -0.02), (1.06, top - 0.52), z + 0.006, false, screen);
    m.plate((0.02, w * 0.88), (1.06, top - 0.52), z + 0.006, false, screen);
    // Destination display.
    let text = m.lit_mat([255, 170, 40], 0.0, if lamps { 1.2 } else { 0.55 });
    let mut x = -0.72;
    while x < 0.72 {
        let step = r.range(0.06, 0.12);
        if r.chance(0.78) {
            m.plate((x, (x + step * 0.75).min(0.72)), (top - 0.42, top - 0.25), z + 0.008, false, text);
        }
        x += step;
    }
    let lamp =
        if lamps { m.lit_mat([255, 248, 226], 0.2, 2.0) } else { m.lit_mat([216, 222, 226], 0.4, 0.0) };
    let plate = m.mat([226, 226, 218], 0.0);
    for side in [-1.0f32, 1.0] {
        m.plate((side * w * 0.86, side * w * 0.56), (0.58, 0.80), z, false, dark);
        m.disc(v3(side * w * 0.77, 0.69, z + 0.008), 0.09, 1.0, 12, lamp);
        m.disc(v3(side * w * 0.63, 0.69, z + 0.008), 0.07, 1.0, 12, lamp);
        if lamps {
            m.glow(v3(side * w * 0.72, 0.69, z + 0.03), v3(0.0, -0.03, 1.0), [255, 244, 214], 0.5);
        }
        // Mirrors on arms.
        m.ball(v3(side * (w + 0.16), 2.2, h + 0.05), v3(0.09, 0.20, 0.08), dark);
    }
    m.plate((-0.3, 0.3), (0.42, 0.53), z, false, plate);
    // Wipers.
    for x in [-0.9f32, 0.15] {
        m.face(
            &[
                v3(x, 1.08, z + 0.02),
                v3(x + 0.03, 1.08, z + 0.02),
                v3(x + 0.62, 1.5, z + 0.02),
                v3(x + 0.59, 1.5, z + 0.02),
            ],
            v3(0.0, 0.0, 1.0),
            dark,
        );
    }
}

fn rear(m: &mut Mesh, h: f32, w: f32, top: f32, [glass, seal]: [Mat; 2], lamps: bool, braking: bool) {
    let z = -h - 0.006;
    m.plate((-w * 0.84, w * 0.84), (1.65, top - 0.35), z, true, seal);
    m.plate((-w * 0.80, w * 0.80), (1.70, top - 0.40), z - 0.005, true, glass);
    // Engine grille.
    for k in 0..5 {
        let y = 0.62 + 0.13 * k as f32;
        m.plate((-w * 0.62, w * 0.62), (y, y + 0.06), z, true, seal);
    }
    let red = m.lit_mat(
        [186, 16, 20],
        0.1,
        if braking {
            1.6
        } else if lamps {
            0.8
        } else {
            0.0
        },
    );
    let plate = m.mat([224, 206, 90], 0.0);
    for side in [-1.0f32, 1.0] {
        m.plate((side * w * 0.90, side * w * 0.74), (0.62, 1.25), z, true, red);
        if lamps || braking {
            m.glow(v3(side * w * 0.82, 0.95, z - 0.03), v3(0.0, 0.0, -1.0), [255, 40, 30], 0.26);
        }
    }
    m.plate((-0.3, 0.3), (0.40, 0.52), z - 0.004, true, plate);
}
