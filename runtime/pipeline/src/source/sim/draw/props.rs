//! Things of no class: posts and trees that every street has, and lookalikes.

use super::super::maths::{Rng, V3, cos_turns, sin_turns, v3};
use super::super::mesh::Mesh;

/// What a prop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Prop {
    Tree,
    Bush,
    LampPost,
    /// The post of a traffic light.
    SignalPost,
    /// The post of a sign.
    SignPost,
    Bin,
    PillarBox,
    Hydrant,
    Bollard,
    Crates,
    Hoarding,
    Cabinet,
    Bench,
}

/// Those that could be taken for an object of a class.
pub(in super::super) const LOOKALIKES: [Prop; 9] = [
    Prop::PillarBox,
    Prop::Hydrant,
    Prop::Bollard,
    Prop::Crates,
    Prop::Hoarding,
    Prop::Cabinet,
    Prop::Bush,
    Prop::Bench,
    Prop::Bin,
];

/// Draws a prop whose front looks along +z.
pub(in super::super) fn draw(m: &mut Mesh, kind: Prop, key: u64) {
    let mut r = Rng::keyed(key, 9, 0);
    let steel = m.mat([112, 116, 120], 0.04);
    let dark = m.mat([24, 26, 28], 0.02);
    match kind {
        Prop::Tree => {
            let bark = m.mat([84, 68, 54], 0.0);
            let top = r.range(2.5, 3.1);
            m.limb(v3(0.0, 0.0, 0.0), v3(0.05, top, 0.0), 0.16, 0.10, bark);
            for k in 0..4 {
                let t = k as f32 * 0.25 + r.unit() * 0.2;
                m.limb(
                    v3(0.03, top - 0.4, 0.0),
                    v3(0.9 * cos_turns(t), top + 0.9, 0.9 * sin_turns(t)),
                    0.07,
                    0.03,
                    bark,
                );
            }
            let crown = v3(0.0, top + r.range(1.2, 1.6), 0.0);
            let size = v3(r.range(1.4, 1.8), r.range(1.5, 2.0), r.range(1.4, 1.8));
            leaves(m, &mut r, crown, size, 900, 0.26);
        }
        Prop::Bush => {
            let size = v3(r.range(0.6, 1.0), r.range(0.5, 0.8), r.range(0.5, 0.7));
            leaves(m, &mut r, v3(0.0, size.y * 0.85, 0.0), size, 500, 0.14);
        }
        Prop::LampPost => {
            m.tube(v3(0.0, 0.0, 0.0), v3(0.0, 1.0, 0.0), 0.10, 10, steel);
            m.tube(v3(0.0, 1.0, 0.0), v3(0.0, 6.4, 0.0), 0.06, 10, steel);
            m.tube(v3(0.0, 6.35, 0.0), v3(0.0, 6.75, 1.6), 0.045, 8, steel);
            let lamp = m.lit_mat([255, 226, 160], 0.0, 1.6);
            m.cuboid(v3(-0.12, 6.70, 1.2), v3(0.12, 6.80, 1.9), steel);
            m.face(
                &[v3(-0.1, 6.69, 1.25), v3(0.1, 6.69, 1.25), v3(0.1, 6.69, 1.85), v3(-0.1, 6.69, 1.85)],
                v3(0.0, -1.0, 0.0),
                lamp,
            );
            m.glow(v3(0.0, 6.65, 1.55), v3(0.0, -1.0, 0.2), [255, 206, 130], 1.3);
        }
        Prop::SignalPost => m.tube(v3(0.0, 0.0, -0.2), v3(0.0, 3.4, -0.2), 0.06, 10, dark),
        Prop::SignPost => m.tube(v3(0.0, 0.0, -0.045), v3(0.0, 2.75, -0.045), 0.03, 8, steel),
        Prop::Bin => {
            let green = m.mat(r.pick(&[[40, 70, 52], [60, 62, 66], [40, 60, 90]]), 0.04);
            m.grid((3, 14), true, green, |i, j| {
                let t = j as f32 / 14.0;
                let (y, k) = [(0.0, 0.24), (0.8, 0.28), (0.86, 0.30)][i];
                v3(k * cos_turns(t), y, k * sin_turns(t))
            });
            m.dome(v3(0.0, 0.86, 0.0), v3(0.30, 0.16, 0.30), (0.0, 0.24), dark);
        }
        Prop::PillarBox => {
            let red = m.mat([178, 24, 28], 0.06);
            m.grid((5, 16), true, red, |i, j| {
                let t = j as f32 / 16.0;
                let (y, k) = [(0.14, 0.25), (1.35, 0.25), (1.37, 0.29), (1.45, 0.29), (1.52, 0.20)][i];
                v3(k * cos_turns(t), y, k * sin_turns(t))
            });
            m.dome(v3(0.0, 1.50, 0.0), v3(0.22, 0.10, 0.22), (0.0, 0.24), red);
            m.cuboid(v3(-0.27, 0.0, -0.27), v3(0.27, 0.14, 0.27), dark);
            m.plate((-0.14, 0.14), (1.20, 1.25), 0.256, false, dark);
            let notice = m.mat([226, 226, 220], 0.0);
            m.plate((-0.09, 0.09), (0.92, 1.10), 0.256, false, notice);
        }
        Prop::Hydrant => {
            let paint = m.mat(r.pick(&[[186, 40, 30], [206, 166, 40]]), 0.05);
            m.grid((4, 12), true, paint, |i, j| {
                let t = j as f32 / 12.0;
                let (y, k) = [(0.0, 0.17), (0.06, 0.12), (0.52, 0.12), (0.56, 0.15)][i];
                v3(k * cos_turns(t), y, k * sin_turns(t))
            });
            m.dome(v3(0.0, 0.56, 0.0), v3(0.15, 0.16, 0.15), (0.0, 0.24), paint);
            m.limb(v3(-0.20, 0.40, 0.0), v3(0.20, 0.40, 0.0), 0.06, 0.06, paint);
            m.limb(v3(0.0, 0.36, 0.05), v3(0.0, 0.36, 0.17), 0.075, 0.075, paint);
        }
        Prop::Bollard => {
            let body = m.mat(r.pick(&[[40, 42, 44], [196, 196, 190], [120, 90, 60]]), 0.03);
            let band = m.mat([226, 220, 200], 0.02);
            m.tube(v3(0.0, 0.0, 0.0), v3(0.0, 0.95, 0.0), 0.09, 12, body);
            m.ball(v3(0.0, 0.97, 0.0), v3(0.12, 0.11, 0.12), body);
            m.tube(v3(0.0, 0.72, 0.0), v3(0.0, 0.82, 0.0), 0.094, 12, band);
        }
        Prop::Crates => {
            let wood = m.mat([158, 118, 74], 0.0);
            let slat = m.mat([112, 82, 50], 0.0);
            let mut y = 0.0;
            for k in 0..2 + r.below(2) {
                let (s, h) = (r.range(0.42, 0.6), r.range(0.5, 0.62));
                let x = if k == 0 { 0.0 } else { r.range(-0.1, 0.1) };
                m.cuboid(v3(x - s, y, -s * 0.8), v3(x + s, y + h, s * 0.8), wood);
                for q in 0..3 {
                    let yy = y + h * (0.22 + 0.28 * q as f32);
                    m.plate((x - s, x + s), (yy, yy + 0.03), s * 0.8 + 0.004, false, slat);
                    m.plate((x - s, x + s), (yy, yy + 0.03), -s * 0.8 - 0.004, true, slat);
                }
                y += h;
            }
        }
        Prop::Hoarding => {
            let panel =
                m.mat(r.pick(&[[228, 222, 206], [60, 110, 160], [212, 160, 60], [200, 210, 214]]), 0.04);
            for x in [-0.75f32, 0.75] {
                m.tube(v3(x, 0.0, -0.06), v3(x, 2.0, -0.06), 0.045, 8, dark);
            }
            m.cuboid(v3(-1.05, 0.75, -0.06), v3(1.05, 2.25, 0.0), dark);
            m.plate((-1.0, 1.0), (0.8, 2.2), 0.005, false, panel);
            for _ in 0..4 {
                let rgb = [r.below(200) as u8 + 40, r.below(200) as u8 + 30, r.below(200) as u8 + 30];
                let shape = m.mat(rgb, 0.02);
                let c = v3(r.range(-0.75, 0.75), r.range(1.05, 1.95), r.range(0.01, 0.02));
                let n = r.pick(&[3usize, 4, 8, 20]);
                m.disc(c, r.range(0.12, 0.26), 1.0, n, shape);
            }
        }
        Prop::Cabinet => {
            let grey = m.mat(r.pick(&[[150, 154, 148], [84, 104, 88], [120, 122, 126]]), 0.03);
            let (w, h) = (r.range(0.4, 0.8), r.range(1.1, 1.5));
            m.cuboid(v3(-w, 0.0, -0.22), v3(w, h, 0.22), grey);
            m.cuboid(v3(-w - 0.03, h, -0.25), v3(w + 0.03, h + 0.05, 0.25), grey);
            m.plate((-0.01, 0.01), (0.08, h - 0.06), 0.224, false, dark);
            for k in 0..4 {
                let y = h - 0.2 - 0.06 * k as f32;
                m.plate((-w * 0.8, -w * 0.2), (y, y + 0.025), 0.224, false, dark);
            }
        }
        Prop::Bench => {
            let wood = m.mat([132, 94, 58], 0.0);
            for k in 0..3 {
                let z = -0.18 + 0.15 * k as f32;
                m.cuboid(v3(-0.8, 0.43, z), v3(0.8, 0.47, z + 0.12), wood);
                let y = 0.55 + 0.13 * k as f32;
                m.cuboid(v3(-0.8, y, -0.26), v3(0.8, y + 0.10, -0.23), wood);
            }
            for x in [-0.7f32, 0.7] {
                m.cuboid(v3(x - 0.03, 0.0, -0.26), v3(x + 0.03, 0.43, 0.24), dark);
                m.cuboid(v3(x - 0.03, 0.43, -0.28), v3(x + 0.03, 0.92, -0.24), dark);
            }
        }
    }
}

/// A crown of leaves: many small blades around an ellipsoid, light above and dark inside.
fn leaves(m: &mut Mesh, r: &mut Rng, c: V3, size: V3, count: usize, blade: f32) {
    let hue = r.range(-14.0, 22.0);
    let mats: [_; 5] = std::array::from_fn(|k| {
        let g = 44.0 + 24.0 * k as f32;
        m.mat([(g * 0.62 + hue) as u8, g as u8, (g * 0.34) as u8], 0.0)
    });
    for _ in 0..count {
        let (t, h) = (r.unit(), r.range(-0.95, 0.98));
        let ring = (1.0 - h * h).max(0.0).sqrt();
        let d = v3(ring * cos_turns(t), h, ring * sin_turns(t));
        // Lumps: the radius wavers with direction.
        let lump = 0.86 + 0.14 * sin_turns(t * 3.0 + h * 1.7) + 0.08 * sin_turns(t * 7.0 - h * 2.3);
        let k = lump * r.range(0.62, 1.0);
        let p = c + v3(d.x * size.x, d.y * size.y, d.z * size.z) * k;
        let u = v3(r.range(-1.0, 1.0), r.range(-1.0, 1.0), r.range(-1.0, 1.0)).unit()
            * (blade * r.range(0.5, 1.0));
        let w = v3(u.y, -u.z, u.x) * 0.6;
        let shade = ((k - 0.55) * 4.0 + d.y * 1.2 + r.range(0.0, 1.4)).clamp(0.0, 4.0) as usize;
        m.blade([p + u, p + w, p - u, p - w], d, mats[shade]);
    }
}
