//! Facades: brick or plaster, rows of windows, shops on the ground floor.

use super::maths::{Rng, V3, fbm, floor, fract, hash2, lerp, noise2, smoothstep, v3};

/// What a wall is made of at one point.
pub(super) struct Spot {
    /// Linear colour.
    pub(super) rgb: V3,
    pub(super) gloss: f32,
    /// Light that comes out of windows.
    pub(super) glow: V3,
    pub(super) tilt: f32,
    pub(super) surface: u32,
}

const WALLS: [[f32; 3]; 9] = [
    [0.30, 0.14, 0.10],
    [0.36, 0.20, 0.13],
    [0.52, 0.47, 0.38],
    [0.58, 0.54, 0.48],
    [0.40, 0.38, 0.36],
    [0.50, 0.38, 0.24],
    [0.24, 0.22, 0.21],
    [0.56, 0.50, 0.36],
    [0.38, 0.42, 0.42],
];
const SHOPS: [[f32; 3]; 6] = [
    [0.20, 0.05, 0.05],
    [0.05, 0.12, 0.22],
    [0.06, 0.14, 0.09],
    [0.30, 0.22, 0.06],
    [0.05, 0.05, 0.06],
    [0.32, 0.30, 0.27],
];

/// The facade of house `key` at `u` metres along and `y` metres up, of a wall `width` by `height`.
pub(super) fn spot(key: u64, u: f32, y: f32, width: f32, height: f32, distance: f32, lit: bool) -> Spot {
    let mut r = Rng::new(key);
    let wall = r.pick(&WALLS);
    let brick = r.chance(0.45);
    let shop = r.chance(0.6);
    let seed = r.next();
    let ground = if shop { 3.9 } else { 3.4 };
    let storey = r.range(2.9, 3.3);
    let pitch = width / floor((width / r.range(2.0, 2.9)).max(1.0));
    let (ww, wh) = (pitch * r.range(0.38, 0.56), storey * r.range(0.50, 0.62));
    let trim = if r.chance(0.6) { v3(0.58, 0.57, 0.54) } else { v3(0.16, 0.16, 0.17) };
    let blur = distance * 0.0012;
    let fine = |per_metre: f32| (1.0 - blur * per_metre).clamp(0.0, 1.0);
    let mut s =
        Spot { rgb: v3(wall[0], wall[1], wall[2]), gloss: 0.0, glow: V3::default(), tilt: 0.0, surface: 0 };
    let stain = fbm(u * 0.35, y * 0.22, seed, 4);
    let streak = noise2(u * 2.2, y * 0.15, seed ^ 3);
    s.rgb = s.rgb * (0.80 + 0.34 * stain + 0.10 * (streak - 0.5));
    if brick {
        let row = floor(y / 0.075);
        let shift = if (row as i32) & 1 == 0 { 0.0 } else { 0.5 };
        let b = u / 0.225 + shift;
        let mortar = fract(y / 0.075) < 0.14 || fract(b) < 0.06;
        let tint = hash2(floor(b) as i32, row as i32, seed ^ 9) - 0.5;
        let k = fine(13.0);
        s.rgb = s.rgb * (1.0 + tint * 0.4 * k);
        if mortar {
            s.rgb = s.rgb.lerp(v3(0.42, 0.40, 0.37), 0.5 * k);
        }
    } else {
        let grain = noise2(u * 18.0, y * 18.0, seed ^ 8) - 0.5;
        s.rgb = s.rgb * (1.0 + 0.10 * grain * fine(18.0));
    }
    if y < ground {
        ground_floor(&mut s, &mut r, [u, y, width], shop, ground, seed, lit);
        return s;
    }
    if y > height - 0.45 {
        // Cornice.
        s.rgb = trim * if y > height - 0.12 || y < height - 0.38 { 0.8 } else { 1.0 };
        s.surface = 2;
        return s;
    }
    let (v, floor_no) = (fract((y - ground) / storey) * storey, floor((y - ground) / storey));
    if floor_no * storey + storey > height - ground - 0.5 {
        return s;
    }
    let (x, col) = (fract(u / pitch) * pitch - pitch * 0.5, floor(u / pitch));
    let vy = v - (storey - wh) * 0.55;
    let inside = x.abs() < ww * 0.5 && (0.0..wh).contains(&vy);
    if inside {
        pane(&mut s, [x, vy, ww, wh], [col as i32, floor_no as i32], seed, trim, lit);
    } else if x.abs() < ww * 0.5 + 0.10 && (-0.12..0.0).contains(&vy) {
        s.rgb = trim * 0.95;
        s.surface = 3;
    } else if x.abs() < ww * 0.5 + 0.07 && (-0.02..wh + 0.14).contains(&vy) {
        s.rgb = s.rgb.lerp(trim, 0.6);
        s.surface = 4;
    } else if v < 0.10 {
        s.rgb = s.rgb.lerp(trim, 0.5);
        s.surface = 5;
    } else if x.abs() < ww * 0.5 + 0.05 && (-0.75..0.0).contains(&vy) {
        // Rain carries soot down from the sill.
        s.rgb = s.rgb * lerp(0.84, 1.0, smoothstep(0.0, -0.75, vy).clamp(0.0, 1.0));
    }
    s
}

/// A window with a frame, a crossbar, curtains and glass.
fn pane(s: &mut Spot, [x, y, w, h]: [f32; 4], [col, row]: [i32; 2], seed: u32, trim: V3, lit: bool) {
    let frame = w * 0.5 - x.abs() < 0.06
        || y < 0.06
        || h - y < 0.06
        || x.abs() < 0.025
        || (y - h * 0.66).abs() < 0.025;
    if frame {
        s.rgb = trim;
        s.surface = 6;
        return;
    }
    let a = hash2(col, row, seed ^ 51);
    let curtain = a > 0.45 && x.abs() > w * (0.5 - 0.34 * (a - 0.3));
    let blind = hash2(col, row, seed ^ 52) > 0.72 && y > h * (0.35 + 0.5 * a);
    s.rgb = if curtain || blind { v3(0.34, 0.33, 0.30) } else { v3(0.018, 0.020, 0.023) };
    // The reveal shades the top of the pane.
    s.rgb = s.rgb * lerp(1.0, 0.45, smoothstep(h - 0.45, h, y));
    s.gloss = 0.34;
    s.tilt = (hash2(col, row, seed ^ 53) - 0.35) * 0.5;
    s.surface = 7 + u32::from(curtain || blind);
    if lit && hash2(col, row, seed ^ 54) > 0.62 {
        let warm = hash2(col, row, seed ^ 55);
        let c = v3(0.55, 0.38, 0.17).lerp(v3(0.42, 0.42, 0.38), warm);
        s.glow = c * if curtain { 0.65 } else { 0.9 } * lerp(0.55, 1.0, y / h);
    }
}

fn ground_floor(
    s: &mut Spot,
    r: &mut Rng,
    [u, y, width]: [f32; 3],
    shop: bool,
    ground: f32,
    seed: u32,
    lit: bool,
) {
    let n = floor((width / r.range(4.2, 6.0)).max(1.0));
    let bay = width / n;
    let (x, col) = (fract(u / bay) * bay, floor(u / bay) as i32);
    let pick = hash2(col, 0, seed ^ 61);
    let tint = SHOPS[(pick * 5.99) as usize];
    let tint = v3(tint[0], tint[1], tint[2]);
    let door_w = 1.05;
    let door_x = bay * (0.12 + 0.5 * hash2(col, 1, seed ^ 62));
    if y < 0.45 && !(door_x..door_x + door_w).contains(&x) {
        s.rgb = s.rgb * 0.55;
        s.surface = 20;
        return;
    }
    if (door_x..door_x + door_w).contains(&x) && y < 2.35 {
        let edge = x - door_x < 0.08 || door_x + door_w - x < 0.08 || y > 2.27;
        let glazed = !edge && y > 1.1 && x - door_x > 0.2 && door_x + door_w - x > 0.2;
        s.rgb = if glazed {
            v3(0.02, 0.02, 0.025)
        } else if edge {
            tint * 0.6
        } else {
            tint
        };
        s.gloss = if glazed { 0.3 } else { 0.0 };
        s.surface = 21 + u32::from(glazed);
        return;
    }
    if !shop {
        let w = bay * 0.3;
        let cx = if door_x > bay * 0.35 { bay * 0.18 } else { bay * 0.76 };
        if (x - cx).abs() < w * 0.5 && (0.95..2.55).contains(&y) {
            pane(s, [x - cx, y - 0.95, w, 1.6], [col, -1], seed, v3(0.5, 0.5, 0.48), lit);
        }
        return;
    }
    if (2.95..ground - 0.25).contains(&y) && x > 0.1 && x < bay - 0.1 {
        // Fascia with lettering.
        s.rgb = tint;
        s.surface = 23;
        let t = (x - bay * 0.22) / (bay * 0.56);
        if (0.0..1.0).contains(&t) && (3.12..3.45).contains(&y) {
            let cell = floor(t * 9.0) as i32;
            let (gx, gy) = (floor(fract(t * 9.0) * 4.0) as i32, floor((y - 3.12) * 15.0) as i32);
            if gx < 3 && hash2(cell * 4 + gx, gy + col * 8, seed ^ 63) > 0.42 {
                s.rgb = v3(0.62, 0.58, 0.48);
                s.surface = 24;
                if lit {
                    s.glow = v3(0.5, 0.42, 0.28);
                }
            }
        }
        return;
    }
    if (0.45..2.85).contains(&y) && x > 0.15 && x < bay - 0.15 {
        let mullion = fract((x - 0.15) / 1.35) < 0.045 || !(0.52..=2.78).contains(&y);
        if mullion {
            s.rgb = tint * 0.7;
            s.surface = 25;
            return;
        }
        // Display: blocks of colour in the dark behind the glass.
        let (ix, iy) = (floor(x * 2.3) as i32 + col * 16, floor(y * 1.9) as i32);
        let a = hash2(ix, iy, seed ^ 64);
        let b = hash2(ix, iy, seed ^ 65);
        let item =
            v3(0.03 + 0.16 * a, 0.03 + 0.13 * b, 0.03 + 0.12 * (1.0 - a)) * if y < 1.7 { 1.0 } else { 0.35 };
        s.rgb = item * 0.6;
        s.gloss = 0.28;
        s.tilt = 0.08 * (hash2(col, 3, seed) - 0.5);
        s.surface = 26 + (a * 5.0) as u32;
        if lit {
            s.glow = (item * 1.6 + v3(0.16, 0.13, 0.08)) * lerp(0.7, 1.1, y / 2.8);
        }
    }
}
