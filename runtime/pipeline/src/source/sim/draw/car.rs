//! Cars: saloon, hatchback, estate, off-roader. A lofted body, a glass house and wheels.

use super::super::maths::{Rng, V3, lerp, smoothstep, v3};
use super::super::mesh::{Mat, Mesh};
use super::wheels::{PAINTS, WheelMats, wheel};

/// Proportions of one car, in metres.
struct Shape {
    length: f32,
    /// Half-width.
    half: f32,
    height: f32,
    /// Height of the belt line and of the bonnet's front edge.
    belt: f32,
    nose: f32,
    sill: f32,
    /// Where the glass house stands: windscreen foot and top, rear window top and foot (z, front positive).
    cowl: f32,
    roof_front: f32,
    roof_rear: f32,
    deck: f32,
    /// Height of the tail.
    tail: f32,
    wheel: f32,
    axles: (f32, f32),
}

/// Half-width and half-length of the ground a car takes.
pub(in super::super) const FOOTPRINT: (f32, f32) = (0.95, 2.45);

fn shape(r: &mut Rng) -> Shape {
    let kind = r.below(4);
    let (length, height, belt) = match kind {
        0 => (r.range(4.5, 4.85), r.range(1.42, 1.47), 0.93),
        1 => (r.range(3.85, 4.25), r.range(1.45, 1.52), 0.95),
        2 => (r.range(4.5, 4.8), r.range(1.46, 1.52), 0.94),
        _ => (r.range(4.3, 4.7), r.range(1.62, 1.74), 1.06),
    };
    let h = length * 0.5;
    let (cowl, roof_front) = (h - 1.18, h - 1.95);
    let (roof_rear, deck, tail) = match kind {
        0 => (-h + 1.35, -h + 0.70, belt + 0.02),
        1 => (-h + 0.55, -h + 0.14, belt),
        2 => (-h + 0.42, -h + 0.12, belt),
        _ => (-h + 0.45, -h + 0.12, belt),
    };
    let wheel = if kind == 3 { 0.37 } else { 0.325 };
    Shape {
        length,
        half: r.range(0.87, 0.93),
        height,
        belt,
        nose: belt - r.range(0.20, 0.26),
        sill: if kind == 3 { 0.30 } else { 0.22 },
        cowl,
        roof_front,
        roof_rear,
        deck,
        tail,
        wheel,
        axles: (h - 0.84, -h + 0.84),
    }
}

/// Draws a car; `travelled` turns its wheels, `lamps` switches its lights on, `braking` its brake lights.
pub(in super::super) fn draw(m: &mut Mesh, key: u64, travelled: f32, lamps: bool, braking: bool) {
    let mut r = Rng::keyed(key, 1, 0);
    let s = shape(&mut r);
    let paint_rgb = r.pick(&PAINTS);
    let paint = m.mat(paint_rgb, 0.09);
    let shut = m.mat(paint_rgb.map(|c| c / 3), 0.02);
    let glass = m.mat([22, 26, 30], 0.16);
    let rubber = m.mat([28, 28, 30], 0.02);
    let dark = m.mat([13, 13, 14], 0.0);
    let lower = m.mat([38, 38, 40], 0.02);
    let chrome = m.mat([168, 172, 176], 0.30);
    let rim = r.pick(&[[176, 179, 183], [150, 152, 156], [96, 98, 102]]);
    let wheels = WheelMats::new(m, rim);
    body(m, &s, paint, lower);
    house(m, &s, paint, glass, rubber);
    let turn = travelled / (std::f32::consts::TAU * s.wheel);
    for z in [s.axles.0, s.axles.1] {
        for x in [s.half + 0.008, -s.half - 0.008] {
            wheel(m, x, z, s.wheel, 0.2, turn, wheels, Some(dark));
        }
    }
    doors(m, &s, shut, chrome);
    front(m, &s, dark, chrome, lamps);
    rear(m, &s, dark, lamps, braking);
    // Mirrors.
    for side in [-1.0f32, 1.0] {
        let (z, x) = (s.cowl - 0.42, side * (s.half + 0.09));
        m.ball(v3(x, s.belt + 0.09, z), v3(0.10, 0.075, 0.06), paint);
    }
    // Underbody, so that one cannot look through.
    m.cuboid(
        v3(-s.half * 0.9, 0.14, -s.length * 0.46),
        v3(s.half * 0.9, s.sill + 0.05, s.length * 0.46),
        dark,
    );
}

/// Height of the body's upper edge at `z`.
fn upper(s: &Shape, z: f32) -> f32 {
    let h = s.length * 0.5;
    if z > s.cowl {
        let t = (z - s.cowl) / (h - s.cowl);
        lerp(s.belt, s.nose, t * (0.55 + 0.45 * t))
    } else if z < s.deck {
        lerp(s.tail, s.tail - 0.05, (s.deck - z) / (s.deck + h))
    } else {
        lerp(s.tail, s.belt, ((z - s.deck) / (s.cowl - s.deck)).clamp(0.0, 1.0))
    }
}

fn body(m: &mut Mesh, s: &Shape, paint: Mat, lower: Mat) {
    let h = s.length * 0.5;
    // Stations from tail to nose: position, width and inset of the upper edge.
    let st: [(f32, f32, f32); 11] = [
        (-h, 0.82, 0.08),
        (-h + 0.06, 0.92, 0.02),
        (-h + 0.28, 0.97, 0.0),
        (-h * 0.55, 1.0, 0.0),
        (-h * 0.2, 1.0, 0.0),
        (h * 0.15, 1.0, 0.0),
        (s.cowl, 0.995, 0.0),
        (h - 0.62, 0.975, 0.0),
        (h - 0.26, 0.95, 0.0),
        (h - 0.07, 0.88, 0.03),
        (h, 0.74, 0.10),
    ];
    // Half a cross-section from the sill to the middle of the top: fraction of width, height between sill and edge.
    let cs: [(f32, f32); 8] = [
        (0.90, 0.0),
        (0.97, 0.10),
        (1.0, 0.34),
        (1.0, 0.58),
        (0.985, 0.80),
        (0.945, 0.95),
        (0.84, 1.0),
        (0.0, 1.04),
    ];
    let point = |i: usize, j: usize| {
        let (z, w, inset) = st[i];
        let (side, k) = if j < 8 { (1.0, j) } else { (-1.0, 14 - j) };
        let (cx, cy) = cs[k];
        let top = upper(s, z) - inset;
        let bottom = s.sill + inset * 0.7;
        v3(side * cx * w * s.half, lerp(bottom, top, cy), z)
    };
    // The strip by the sill is plastic.
    m.patches((11, 15), false, |_, j| Some(if j == 0 || j == 13 { lower } else { paint }), point);
    // Nose and tail are closed by flat faces.
    for (i, out) in [(0, -1.0), (10, 1.0)] {
        let mut p = [V3::default(); 15];
        for (j, q) in p.iter_mut().enumerate() {
            *q = point(i, j);
        }
        m.face(&p, v3(0.0, 0.0, out), paint);
    }
}

/// The glass house: three rings (belt, half height, roof edge), panes between pillars, and the roof.
fn house(m: &mut Mesh, s: &Shape, paint: Mat, glass: Mat, rubber: Mat) {
    let low = [s.cowl + 0.02, s.deck - 0.02, s.half * 0.90];
    let top = [s.roof_front, s.roof_rear, s.half * 0.70];
    let roof_edge = s.height - 0.07;
    // Columns run clockwise from the middle of the windscreen: (across, along) in -1..1 and whether a pillar follows.
    const C: [(f32, f32, bool); 24] = [
        (0.0, 1.0, false),
        (0.45, 0.985, false),
        (0.84, 0.93, true),
        (0.93, 0.88, true),
        (1.0, 0.78, false),
        (1.0, 0.42, false),
        (1.0, 0.07, true),
        (1.0, 0.0, false),
        (1.0, -0.35, false),
        (1.0, -0.66, true),
        (0.98, -0.80, true),
        (0.88, -0.95, false),
        (0.0, -1.0, false),
        (-0.88, -0.95, true),
        (-0.98, -0.80, true),
        (-1.0, -0.66, false),
        (-1.0, -0.35, false),
        (-1.0, 0.0, true),
        (-1.0, 0.07, false),
        (-1.0, 0.42, false),
        (-1.0, 0.78, true),
        (-0.93, 0.88, true),
        (-0.84, 0.93, false),
        (-0.45, 0.985, false),
    ];
    let ring = |f: f32, y: f32, j: usize| {
        let (front, rear, half) = (lerp(low[0], top[0], f), lerp(low[1], top[1], f), lerp(low[2], top[2], f));
        let bulge = 1.0 + 0.05 * f * (1.0 - f) * 4.0;
        let (a, l, _) = C[j % 24];
        let (mid, reach) = ((front + rear) * 0.5, (front - rear) * 0.5);
        v3(a * half * bulge, y, mid + l * reach)
    };
    let rows = [
        (0.0, s.belt - 0.04),
        (0.07, s.belt + 0.02),
        (0.5, lerp(s.belt, roof_edge, 0.52)),
        (0.94, roof_edge - 0.04),
        (1.0, roof_edge),
    ];
    m.patches(
        (5, 24),
        true,
        |i, j| {
            let middle_post = j == 6 || j == 17;
            Some(match (i, C[j].2) {
                (0, _) | (3, _) => paint,
                (_, true) if middle_post => rubber,
                (_, true) => paint,
                _ => glass,
            })
        },
        |i, j| ring(rows[i].0, rows[i].1, j),
    );
    // Roof: shrinks to its ridge.
    m.grid((3, 24), true, paint, |i, j| {
        let k = [1.0, 0.72, 0.06][i];
        let p = ring(1.0, s.height - [0.07, 0.018, 0.0][i], j);
        let mid = (top[0] + top[1]) * 0.5;
        v3(p.x * k, p.y, mid + (p.z - mid) * k)
    });
}

fn doors(m: &mut Mesh, s: &Shape, shut: Mat, chrome: Mat) {
    let mid = (s.cowl + s.deck) * 0.5 + 0.05;
    for side in [-1.0f32, 1.0] {
        let x = side * (s.half * 1.0 + 0.004);
        for z in [s.cowl - 0.18, mid, s.axles.1 + 0.48] {
            m.side_plate((z - 0.008, z + 0.008), (s.sill + 0.1, s.belt - 0.12), x, shut);
        }
        m.side_plate((s.axles.1 + 0.48, s.cowl - 0.18), (s.sill + 0.09, s.sill + 0.105), x, shut);
        for z in [mid + 0.12, s.axles.1 + 0.60] {
            m.side_plate((z, z + 0.18), (s.belt - 0.19, s.belt - 0.155), x + side * 0.012, chrome);
        }
    }
}

fn front(m: &mut Mesh, s: &Shape, dark: Mat, chrome: Mat, lamps: bool) {
    let h = s.length * 0.5;
    let lamp =
        if lamps { m.lit_mat([255, 248, 226], 0.2, 2.0) } else { m.lit_mat([214, 220, 226], 0.45, 0.0) };
    let housing = m.mat([60, 64, 70], 0.3);
    let plate = m.mat([226, 226, 218], 0.0);
    let y = s.nose - 0.18;
    // Lamps wrap around the corners along the body: fraction of the half-width, lower and upper edge, position.
    const LAMP: [(f32, f32, f32, f32); 4] = [
        (0.50, -0.24, -0.14, 0.014),
        (0.75, -0.24, -0.12, 0.012),
        (0.90, -0.22, -0.10, -0.055),
        (0.97, -0.19, -0.12, -0.24),
    ];
    for side in [-1.0f32, 1.0] {
        let at = |k: usize, upper: bool, grow: f32| {
            let (x, lo, hi, z) = LAMP[k];
            let y = if upper { hi + grow } else { lo - grow };
            v3(side * (x * s.half + 0.012 - grow * 0.4), s.nose + y, h + z - grow * 0.4)
        };
        for k in 0..3 {
            let out = v3(side * (0.1 + 0.45 * k as f32), 0.1, 1.0);
            for (grow, mat) in [(0.016, housing), (0.0, lamp)] {
                m.face(
                    &[at(k, false, grow), at(k, true, grow), at(k + 1, true, grow), at(k + 1, false, grow)],
                    out,
                    mat,
                );
            }
        }
        if lamps {
            m.glow(v3(side * 0.72 * s.half, y, h + 0.03), v3(side * 0.06, -0.03, 1.0), [255, 244, 214], 0.42);
        }
        // Fog lamp recess.
        m.plate(
            (side * 0.50 * s.half, side * 0.68 * s.half),
            (s.sill + 0.12, s.sill + 0.21),
            h + 0.006,
            false,
            dark,
        );
    }
    let z = h + 0.008;
    m.plate((-0.46 * s.half, 0.46 * s.half), (y - 0.07, y + 0.05), z, false, dark);
    for k in 0..3 {
        let yy = y - 0.052 + 0.04 * k as f32;
        m.plate((-0.44 * s.half, 0.44 * s.half), (yy, yy + 0.012), z + 0.004, false, chrome);
    }
    m.plate((-0.50 * s.half, 0.50 * s.half), (s.sill + 0.10, s.sill + 0.18), z, false, dark);
    m.plate((-0.26, 0.26), (s.sill + 0.17, s.sill + 0.28), z + 0.006, false, plate);
    m.disc(v3(0.0, y, z + 0.008), 0.055, 1.0, 10, chrome);
}

fn rear(m: &mut Mesh, s: &Shape, dark: Mat, lamps: bool, braking: bool) {
    let h = s.length * 0.5;
    let emit = if braking {
        1.6
    } else if lamps {
        0.8
    } else {
        0.0
    };
    let red = m.lit_mat([186, 16, 20], 0.12, emit);
    let amber = m.lit_mat([206, 96, 20], 0.12, 0.0);
    let plate = m.mat([224, 206, 90], 0.0);
    let y = upper(s, -h) - 0.16 - smoothstep(1.5, 1.7, s.height) * 0.04;
    const LAMP: [(f32, f32); 3] = [(0.48, -0.014), (0.80, -0.014), (0.945, 0.07)];
    for side in [-1.0f32, 1.0] {
        let at = |k: usize, dy: f32, grow: f32| {
            let (x, z) = LAMP[k];
            v3(side * (x * s.half + 0.012 + grow), y + dy, -h + z - grow)
        };
        for k in 0..2 {
            let out = v3(side * (0.1 + 0.6 * k as f32), 0.0, -1.0);
            for (lo, hi, grow, mat) in [(-0.09, 0.05, 0.0, red), (-0.075, -0.045, 0.006, amber)] {
                m.face(
                    &[at(k, lo, grow), at(k, hi, grow), at(k + 1, hi, grow), at(k + 1, lo, grow)],
                    out,
                    mat,
                );
            }
        }
        if lamps || braking {
            m.glow(v3(side * 0.7 * s.half, y, -h - 0.03), v3(side * 0.06, 0.0, -1.0), [255, 40, 30], 0.22);
        }
    }
    let z = -h - 0.008;
    m.plate((-0.26, 0.26), (y - 0.20, y - 0.09), z, true, plate);
    m.plate((-0.62 * s.half, 0.62 * s.half), (s.sill + 0.10, s.sill + 0.22), z, true, dark);
}
