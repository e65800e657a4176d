//! Lorries: a cab with a box, a tarpaulin, a flat bed with load, or a tank.

use super::super::maths::{Rng, cos_turns, sin_turns, v3};
use super::super::mesh::{Mat, Mesh};
use super::wheels::{PAINTS, WheelMats, wheel};

/// Half-width and half-length of the ground a lorry takes.
pub(in super::super) const FOOTPRINT: (f32, f32) = (1.3, 4.0);

/// Draws a lorry.
pub(in super::super) fn draw(m: &mut Mesh, key: u64, travelled: f32, lamps: bool, braking: bool) {
    let mut r = Rng::keyed(key, 3, 0);
    let (h, w) = (r.range(3.3, 3.95), 1.18);
    let cab_rgb = r.pick(&PAINTS);
    let paint = m.mat(cab_rgb, 0.08);
    let glass = m.mat([22, 26, 30], 0.18);
    let dark = m.mat([14, 14, 15], 0.0);
    let frame = m.mat([42, 43, 46], 0.02);
    let wheels = WheelMats::new(m, [158, 160, 162]);
    let cab_back = h - 1.75;
    cab(m, h, w, cab_back, [paint, glass, dark, frame], lamps);
    // Chassis.
    m.cuboid(v3(-0.45, 0.55, -h + 0.1), v3(0.45, 0.95, cab_back + 0.3), frame);
    load(m, &mut r, h, w, cab_back - 0.22, [frame, dark]);
    rear(m, h, w, [frame, dark], lamps, braking);
    let turn = travelled / (std::f32::consts::TAU * 0.46);
    for x in [w + 0.02, -w - 0.02] {
        wheel(m, x, h - 1.12, 0.46, 0.28, turn, wheels, Some(dark));
        wheel(m, x, -h + 1.25, 0.46, 0.5, turn, wheels, None);
        if h > 3.65 {
            wheel(m, x, -h + 2.25, 0.46, 0.5, turn, wheels, None);
        }
    }
}

fn cab(m: &mut Mesh, h: f32, w: f32, back: f32, [paint, glass, dark, frame]: [Mat; 4], lamps: bool) {
    let top = 2.55;
    // Profile of the front from the bumper over the windscreen to the roof: height and setback.
    let profile: [(f32, f32, f32); 7] = [
        (0.45, 0.02, 0.98),
        (0.95, 0.0, 1.0),
        (1.45, 0.02, 1.0),
        (1.60, 0.05, 0.99),
        (2.30, 0.30, 0.94),
        (2.48, 0.40, 0.90),
        (top, 0.62, 0.80),
    ];
    // Rings run around the cab: back left, front left (rounded), front right, back right.
    m.grid((7, 8), true, paint, |i, j| {
        let (y, setback, k) = profile[i];
        let f = h - setback;
        let (x, z) = [
            (-1.0, back),
            (-1.0, f - 0.35),
            (-0.97, f - 0.10),
            (-0.86, f),
            (0.86, f),
            (0.97, f - 0.10),
            (1.0, f - 0.35),
            (1.0, back),
        ][j];
        v3(x * w * k, y, z)
    });
    m.face(
        &[
            v3(-w * 0.8, top, back),
            v3(w * 0.8, top, back),
            v3(w * 0.7, top, h - 0.62),
            v3(-w * 0.7, top, h - 0.62),
        ],
        v3(0.0, 1.0, 0.0),
        paint,
    );
    // Windscreen on the slope.
    m.face(
        &[
            v3(-w * 0.84, 1.63, h - 0.035),
            v3(w * 0.84, 1.63, h - 0.035),
            v3(w * 0.79, 2.28, h - 0.27),
            v3(-w * 0.79, 2.28, h - 0.27),
        ],
        v3(0.0, 0.2, 1.0),
        glass,
    );
    let z = h + 0.012;
    m.plate((-w * 0.7, w * 0.7), (1.02, 1.40), z, false, dark);
    for k in 0..3 {
        let y = 1.07 + 0.11 * k as f32;
        m.plate((-w * 0.66, w * 0.66), (y, y + 0.05), z + 0.004, false, frame);
    }
    m.plate((-w * 0.86, w * 0.86), (0.46, 0.66), z - 0.015, false, frame);
    let lamp =
        if lamps { m.lit_mat([255, 248, 226], 0.2, 2.0) } else { m.lit_mat([216, 222, 226], 0.4, 0.0) };
    let plate = m.mat([226, 226, 218], 0.0);
    m.plate((-0.27, 0.27), (0.50, 0.61), z, false, plate);
    for side in [-1.0f32, 1.0] {
        m.plate((side * w * 0.84, side * w * 0.54), (0.70, 0.90), z - 0.005, false, lamp);
        if lamps {
            m.glow(v3(side * w * 0.69, 0.8, z + 0.02), v3(0.0, -0.03, 1.0), [255, 244, 214], 0.48);
        }
        let x = side * (w + 0.012);
        // Door window, door joints, step, mirror.
        let xw = side * (w * 0.985);
        m.face(
            &[
                v3(xw, 1.55, h - 1.38),
                v3(xw, 1.55, h - 0.38),
                v3(xw * 0.965, 2.22, h - 0.62),
                v3(xw * 0.965, 2.22, h - 1.38),
            ]
            .map(|p| p + v3(side * 0.02, 0.0, 0.0)),
            v3(side, 0.1, 0.0),
            glass,
        );
        m.side_plate((h - 1.46, h - 1.44), (0.8, 2.2), x, dark);
        m.side_plate((h - 0.42, h - 0.40), (0.95, 1.5), x, dark);
        m.side_plate((h - 0.62, h - 0.30), (0.46, 0.62), x, dark);
        m.ball(v3(side * (w + 0.14), 1.95, h - 0.22), v3(0.07, 0.22, 0.07), dark);
    }
}

fn load(m: &mut Mesh, r: &mut Rng, h: f32, w: f32, front: f32, [frame, dark]: [Mat; 2]) {
    let back = -h;
    match r.below(4) {
        0 | 1 => {
            // A box with a coloured panel, or a tarpaulin with ribs.
            let rgb = r.pick(&[
                [222, 222, 220],
                [206, 208, 210],
                [66, 96, 138],
                [166, 48, 44],
                [60, 104, 84],
                [198, 160, 70],
            ]);
            let side = m.mat(rgb, 0.04);
            let rib = m.mat(rgb.map(|c| (f32::from(c) * 0.72) as u8), 0.02);
            let top = r.range(3.0, 3.4);
            m.cuboid(v3(-w - 0.04, 0.98, back), v3(w + 0.04, top, front), side);
            m.cuboid(v3(-w - 0.05, 0.94, back - 0.01), v3(w + 0.05, 1.06, front + 0.01), frame);
            let panel = m.mat(r.pick(&[[180, 40, 40], [40, 80, 150], [230, 190, 60], [50, 120, 80]]), 0.03);
            let letters = r.chance(0.5);
            for s in [-1.0f32, 1.0] {
                let x = s * (w + 0.046);
                for k in 0..9 {
                    let z = back + 0.05 + (front - back - 0.1) * k as f32 / 8.0;
                    m.side_plate((z - 0.025, z + 0.025), (1.06, top), x, rib);
                }
                if letters {
                    let mid = (back + front) * 0.5;
                    for k in 0..5 {
                        let z = mid - 1.2 + 0.5 * k as f32;
                        m.side_plate((z, z + 0.34), (1.85, 2.45), x + s * 0.006, panel);
                    }
                }
            }
            // Rear doors.
            let z = back - 0.006;
            m.plate((-0.015, 0.015), (1.08, top - 0.05), z, true, dark);
            for x in [-0.75f32, -0.3, 0.3, 0.75] {
                m.plate((x - 0.015, x + 0.015), (1.08, top - 0.08), z - 0.01, true, frame);
            }
        }
        2 => {
            // A flat bed with drop sides and crates.
            let side = m.mat(r.pick(&[[70, 92, 120], [120, 120, 116], [140, 60, 40]]), 0.03);
            let wood = m.mat([150, 112, 70], 0.0);
            m.cuboid(v3(-w, 0.98, back), v3(w, 1.12, front), frame);
            m.cuboid(v3(-w, 1.12, back), v3(-w + 0.06, 1.52, front), side);
            m.cuboid(v3(w - 0.06, 1.12, back), v3(w, 1.52, front), side);
            m.cuboid(v3(-w, 1.12, back), v3(w, 1.52, back + 0.06), side);
            m.cuboid(v3(-w, 1.12, front - 0.06), v3(w, 2.1, front), side);
            let mut z = back + 0.3;
            while z < front - 1.1 {
                let (d, hh) = (r.range(0.8, 1.2), r.range(0.5, 1.1));
                m.cuboid(v3(-w * 0.8, 1.12, z), v3(w * 0.8, 1.12 + hh, z + d), wood);
                z += d + r.range(0.1, 0.5);
            }
        }
        _ => {
            let steel = m.mat(r.pick(&[[206, 208, 210], [190, 150, 50], [150, 160, 168]]), 0.12);
            let (cy, rad) = (1.95, 0.95);
            m.grid((4, 16), true, steel, |i, j| {
                let (z, k) = [(back, 0.86), (back + 0.12, 1.0), (front - 0.12, 1.0), (front, 0.86)][i];
                let t = j as f32 / 16.0;
                v3(rad * 1.15 * k * cos_turns(t), cy + rad * k * sin_turns(t), z)
            });
            for (z, out) in [(back, -1.0f32), (front, 1.0)] {
                let p: [_; 16] = std::array::from_fn(|j| {
                    let t = j as f32 / 16.0;
                    v3(rad * 0.99 * cos_turns(t), cy + rad * 0.86 * sin_turns(t), z)
                });
                m.face(&p, v3(0.0, 0.0, out), steel);
            }
            m.cuboid(v3(-w, 0.9, back), v3(w, 1.08, front), frame);
        }
    }
}

fn rear(m: &mut Mesh, h: f32, w: f32, [frame, dark]: [Mat; 2], lamps: bool, braking: bool) {
    let z = -h - 0.02;
    m.cuboid(v3(-w, 0.62, -h - 0.01), v3(w, 0.92, -h + 0.15), frame);
    m.plate((-0.9, 0.9), (0.45, 0.58), z, true, dark);
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
        m.plate((side * w * 0.95, side * w * 0.66), (0.68, 0.86), z, true, red);
        if lamps || braking {
            m.glow(v3(side * w * 0.8, 0.77, z - 0.03), v3(0.0, 0.0, -1.0), [255, 40, 30], 0.24);
        }
    }
    m.plate((-0.27, 0.27), (0.70, 0.82), z, true, plate);
    // Mud flaps behind the rear wheels.
    for side in [-1.0f32, 1.0] {
        for back in [false, true] {
            m.plate((side * w, side * (w - 0.5)), (0.2, 0.7), -h + 0.7, back, dark);
        }
    }
}
