//! The still part of a scene, drawn once: sky, ground and houses by casting a ray per pixel.
//!
//! Textures are procedural. A second pass takes five rays where neighbouring pixels differ in surface or brightness.

use super::cull::{self, Grid, Set, members};
use super::facade;
use super::light::{Light, Reach};
use super::maths::{V3, fbm, floor, fract, hash2, lerp, noise2, smoothstep, v3};
use super::spec::LightKind;
use super::street::{JUNCTION_HALF, Street, crosses};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The drawn backdrop, larger than the frame by `margin` on each side so that the camera can shake.
#[derive(Clone, Debug)]
pub(super) struct Backdrop {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) margin: usize,
    pub(super) rgb: Vec<u8>,
    /// Distance along the camera's axis in metres; the sky is infinitely far.
    pub(super) depth: Vec<f32>,
    /// 255 where the ground shows, so that shadows fall on nothing else.
    pub(super) ground: Vec<u8>,
}

/// What one ray meets.
#[derive(Clone, Copy)]
struct Hit {
    rgb: [f32; 3],
    depth: f32,
    /// Changes where a material changes.
    surface: u32,
    ground: bool,
}

struct Painter<'a> {
    street: &'a Street,
    light: &'a Light,
    seed: u32,
    /// Whether the sun is strong enough to cast shadows.
    sunny: bool,
    /// The houses that may be met on the ways to pixels, from the wet ground, and to the sun.
    seen: Grid,
    mirrored: Grid,
    shaded: Grid,
}

/// Rows that are painted at a time, of which several may be in the making.
const BAND: usize = 40;

impl Backdrop {
    pub(super) fn paint(
        street: &Street,
        light: &Light,
        seed: u32,
        size: (usize, usize),
        margin: usize,
    ) -> Backdrop {
        let (camera, houses) = (&street.camera, &street.houses[..]);
        let sunny = light.sun.y > 0.05;
        let painter = Painter {
            street,
            light,
            seed,
            sunny,
            seen: Grid::seen(camera, houses, size, margin),
            mirrored: Grid::mirrored(camera, houses, size, margin),
            shaded: Grid::shaded(houses, light.sun_dir),
        };
        let (width, height) = (size.0 + 2 * margin, size.1 + 2 * margin);
        let mut b = Backdrop {
            width,
            height,
            margin,
            rgb: vec![0; width * height * 3],
            depth: vec![0.0; width * height],
            ground: vec![0; width * height],
        };
        let bands = b.rgb.chunks_mut(BAND * width * 3);
        let bands = bands.zip(b.depth.chunks_mut(BAND * width)).zip(b.ground.chunks_mut(BAND * width));
        let bands = Mutex::new(bands.enumerate());
        let work = || {
            let mut hits = Vec::new();
            let next = || bands.lock().unwrap_or_else(PoisonError::into_inner).next();
            while let Some((k, ((rgb, depth), ground))) = next() {
                let rows = k * BAND..((k + 1) * BAND).min(height);
                painter.band(rows, (width, height), margin, &mut hits, Band { rgb, depth, ground });
            }
        };
        let helpers =
            std::thread::available_parallelism().map_or(1, usize::from).min(height.div_ceil(BAND)) - 1;
        std::thread::scope(|scope| {
            for _ in 0..helpers {
                // Where none can be had, this one paints all.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        b
    }
}

/// Rows of a backdrop.
struct Band<'a> {
    rgb: &'a mut [u8],
    depth: &'a mut [f32],
    ground: &'a mut [u8],
}

impl Painter<'_> {
    /// Paints rows of a backdrop of this size. `hits` is scratch.
    fn band(
        &self,
        rows: Range<usize>,
        (width, height): (usize, usize),
        margin: usize,
        hits: &mut Vec<Hit>,
        to: Band<'_>,
    ) {
        let at = |x: f32, y: f32| self.look(x - margin as f32, y - margin as f32);
        // With the rows above and below, which tell edges.
        let first = rows.start.saturating_sub(1);
        hits.clear();
        for y in first..(rows.end + 1).min(height) {
            for x in 0..width {
                hits.push(at(x as f32 + 0.5, y as f32 + 0.5));
            }
        }
        let luma = |h: &Hit| h.rgb[0] * 0.3 + h.rgb[1] * 0.6 + h.rgb[2] * 0.1;
        for y in rows.clone() {
            let above = (y - first) * width;
            let out = (y - rows.start) * width;
            for x in 0..width {
                let here = &hits[above + x];
                let differs = |o: &Hit| o.surface != here.surface || (luma(o) - luma(here)).abs() > 9.0;
                let edge = (x > 0 && differs(&hits[above + x - 1]))
                    || (x + 1 < width && differs(&hits[above + x + 1]))
                    || (y > 0 && differs(&hits[above + x - width]))
                    || (y + 1 < height && differs(&hits[above + x + width]));
                let mut c = here.rgb;
                to.depth[out + x] = here.depth;
                to.ground[out + x] = if here.ground { 255 } else { 0 };
                if edge {
                    for (dx, dy) in [(-0.15f32, -0.38f32), (0.38, -0.15), (0.15, 0.38), (-0.38, 0.15)] {
                        let h = at(x as f32 + 0.5 + dx, y as f32 + 0.5 + dy);
                        for ch in 0..3 {
                            c[ch] += h.rgb[ch];
                        }
                    }
                    c = c.map(|v| v * (1.0 / 5.0));
                }
                for ch in 0..3 {
                    to.rgb[(out + x) * 3 + ch] = c[ch] as u8;
                }
            }
        }
    }

    fn look(&self, u: f32, v: f32) -> Hit {
        let cam = &self.street.camera;
        let d = cam.ray(u, v);
        self.cast(cam.pos, d, Some((u, v)), 0)
    }

    /// Follows a ray whose direction is one metre along the camera's axis: from the camera, through this place of the
    /// picture, or from a wet ground that has mirrored it.
    fn cast(&self, from: V3, d: V3, place: Option<(f32, f32)>, mirrored: Set) -> Hit {
        let mut best: Option<(f32, u8, usize)> = None;
        let near = place.map_or(mirrored, |(u, v)| self.seen.at(u, v));
        for k in members(near & self.street.facing[usize::from(d.x > 0.0)]) {
            let h = &self.street.houses[k];
            if let Some((t, axis)) = crosses(h, from, d) {
                let y = from.y + d.y * t;
                if y <= h.hi.y && best.is_none_or(|b| t < b.0) {
                    best = Some((t, axis, k));
                }
            }
        }
        let length = d.dot(d).sqrt();
        let ground = if d.y < -1e-6 { -from.y / d.y } else { f32::MAX };
        if let Some((t, axis, k)) = best.filter(|b| b.0 < ground && b.1 != 1) {
            let p = from + d * t;
            let (c, surface) = self.wall(k, axis, p, d * (1.0 / length), t * length);
            return Hit { rgb: self.light.expose(c, t * length), depth: t, surface, ground: false };
        }
        if ground < 400.0 {
            let p = from + d * ground;
            let (mut c, surface) = self.ground(p, ground * length);
            if let Some((u, v)) = place.filter(|_| self.light.rain) {
                // A wet road mirrors what stands behind it, more so at a flat angle.
                let k = 1.0 + d.y / length;
                let puddle = smoothstep(0.45, 0.62, fbm(p.x * 0.35, p.z * 0.35, self.seed ^ 77, 3));
                let share = (0.05 + 0.5 * k * k * k * k) * (0.45 + 0.55 * puddle);
                let wobble = (noise2(p.x * 9.0, p.z * 9.0, self.seed ^ 5) - 0.5) * 0.05;
                let up = v3(d.x + wobble, -d.y, d.z);
                let m = self.cast(p + v3(0.0, 0.01, 0.0), up, None, self.mirrored.at(u, v)).rgb;
                let back = m.map(|v| v * v * (1.0 / 65025.0));
                c = (c * 0.62).lerp(v3(back[0], back[1], back[2]), share);
            }
            return Hit { rgb: self.light.expose(c, ground * length), depth: ground, surface, ground: true };
        }
        let c = self.sky(d * (1.0 / length));
        Hit { rgb: self.light.expose(c, 0.0), depth: f32::MAX, surface: 1, ground: false }
    }

    fn sky(&self, d: V3) -> V3 {
        let l = self.light;
        let y = d.y.max(0.0);
        let base = l.horizon.lerp(l.zenith, (y * 1.6).min(1.0));
        let k = 1.0 / (y + 0.12);
        let n = fbm(d.x * k * 0.9 + 7.0, d.z * k * 0.9, self.seed ^ 0x5e, 5);
        let cover = smoothstep(0.72 - 0.42 * l.clouds, 0.95 - 0.30 * l.clouds, n);
        let shade = fbm(d.x * k * 1.7, d.z * k * 1.7 + 3.0, self.seed ^ 0x77, 4);
        let white = match l.kind {
            LightKind::Day => v3(0.86, 0.87, 0.89) * lerp(0.62, 1.06, shade),
            LightKind::Dusk => v3(0.50, 0.27, 0.22) * lerp(0.5, 1.1, shade),
            LightKind::Night => v3(0.030, 0.027, 0.028) * lerp(0.5, 1.2, shade),
        };
        base.lerp(white, cover * (0.25 + 0.75 * (y * 5.0).min(1.0)))
    }

    fn sunlit(&self, p: V3) -> bool {
        let (x, z) = cull::grounded(p, self.light.sun_dir);
        self.street.sunlit_past(self.shaded.at(x, z), p, self.light.sun_dir)
    }

    /// How much of the sun and of the lamps reaches a point of the ground.
    fn reach(&self, p: V3) -> Reach {
        let sun = self.sunny && self.sunlit(p + v3(0.0, 0.05, 0.0));
        let lamp = if self.light.lamps_on() { self.street.lamplight(p) } else { 0.0 };
        Reach { sun: f32::from(u8::from(sun)), lamp }
    }

    fn ground(&self, p: V3, distance: f32) -> (V3, u32) {
        let s = self.street;
        // Size of a pixel on the ground, along the view: details below it fade out.
        let blur = distance * distance * 0.0011 / s.camera.pos.y;
        let fine = |per_metre: f32| (1.0 - blur * per_metre * 0.9).clamp(0.0, 1.0);
        let ax = p.x.abs();
        let junction = (p.z - s.junction).abs() < JUNCTION_HALF;
        let road = ax < s.kerb && p.z < s.junction + JUNCTION_HALF || junction;
        let (albedo, surface) = if road {
            self.carriageway(p, ax, junction, fine)
        } else {
            let past = p.z > s.junction - JUNCTION_HALF;
            let from_kerb = if past { (p.z - s.junction).abs() - JUNCTION_HALF } else { ax - s.kerb };
            self.pavement(p, from_kerb, fine)
        };
        let light = self.light.diffuse(v3(0.0, 1.0, 0.0), self.reach(p));
        // The foot of the houses is darker.
        let wall = smoothstep(0.0, 1.2, (s.front - ax).abs());
        let k = lerp(0.72, 1.0, wall);
        (v3(albedo.x * light.x, albedo.y * light.y, albedo.z * light.z) * k, surface)
    }

    fn carriageway(&self, p: V3, ax: f32, junction: bool, fine: impl Fn(f32) -> f32) -> (V3, u32) {
        let s = self.street;
        let patch = fbm(p.x * 0.45, p.z * 0.16, self.seed ^ 1, 4);
        let grain = (noise2(p.x * 34.0, p.z * 34.0, self.seed ^ 2) - 0.5) * fine(34.0) * 0.55
            + (noise2(p.x * 8.0, p.z * 8.0, self.seed ^ 3) - 0.5) * fine(8.0) * 0.22;
        let mut a = 0.118 * (0.78 + 0.44 * patch + grain);
        let mut surface = 10;
        // Wheel tracks.
        if !junction && ax < s.lanes_half && ax > s.median {
            let lane = fract((ax - s.median) / 3.3) * 3.3 - 1.65;
            let off = (lane.abs() - 0.78).abs();
            a *= lerp(0.86, 1.0, smoothstep(0.1, 0.45, off));
        }
        // Cracks and repaired strips.
        let crack =
            (noise2(p.x * 0.9 + noise2(p.x * 3.0, p.z * 3.0, 4), p.z * 0.5, self.seed ^ 9) - 0.5).abs();
        a *= 1.0 - 0.35 * (1.0 - smoothstep(0.004, 0.012, crack)) * fine(14.0);
        let repair = hash2(floor(p.x * 0.3) as i32, floor(p.z * 0.11) as i32, self.seed ^ 12);
        if repair > 0.93 {
            a *= 0.78;
            surface = 11;
        }
        let mut c = v3(a, a * 0.985, a * 0.97);
        let worn = 0.72 + 0.28 * noise2(p.x * 5.0, p.z * 5.0, self.seed ^ 21);
        let white = v3(0.62, 0.62, 0.59) * worn;
        if !junction && p.z < s.junction - JUNCTION_HALF - 1.0 {
            let line = |x: f32, half: f32| (ax - x).abs() < half;
            let stop = s.junction - JUNCTION_HALF - 2.2;
            let dash = fract(p.z / 6.0) < 0.5;
            let marked = if s.median > 0.3 { line(s.median, 0.06) } else { (p.x.abs() - 0.12).abs() < 0.055 };
            let inner = s.lanes_per_side > 1 && line(s.median + 3.3, 0.06) && dash;
            let edge = line(s.lanes_half, 0.06);
            let bar = p.x > 0.15 && ax < s.lanes_half && (p.z - stop).abs() < 0.2;
            if marked || inner || edge || bar {
                return (white, 12);
            }
            if s.median > 0.3 && ax < s.median - 0.06 && fract((p.z + ax * 1.5) * 0.45) < 0.2 {
                return (white * 0.9, 13);
            }
            // The cycle lane's tint.
            if ax > s.lanes_half + 0.06 && ax < s.kerb - 0.25 {
                c = c.lerp(v3(0.17, 0.065, 0.05), 0.45);
                surface = 14;
            }
        }
        // Gutter.
        if !junction && ax > s.kerb - 0.25 {
            c = c * 0.72;
            surface = 15;
        }
        // Manhole covers.
        let (mx, mz) = (p.x - (floor(p.x / 3.4) + 0.5) * 3.4, p.z - (floor(p.z / 11.0) + 0.5) * 11.0);
        if hash2(floor(p.x / 3.4) as i32, floor(p.z / 11.0) as i32, self.seed ^ 31) > 0.72
            && mx * mx + mz * mz < 0.1
        {
            let ring = mx * mx + mz * mz > 0.08;
            let grid = fract(mx * 9.0) < 0.5 && fract(mz * 9.0) < 0.5;
            return (
                v3(0.06, 0.06, 0.062)
                    * if ring {
                        0.6
                    } else if grid {
                        1.3
                    } else {
                        0.9
                    },
                16,
            );
        }
        (c, surface)
    }

    fn pavement(&self, p: V3, from_kerb: f32, fine: impl Fn(f32) -> f32) -> (V3, u32) {
        if (0.0..0.16).contains(&from_kerb) {
            let joint = fract(p.z) < 0.02;
            return (v3(0.34, 0.335, 0.32) * if joint { 0.6 } else { 1.0 }, 20);
        }
        let (w, l) = (0.6, 0.9);
        let row = floor(p.x / w);
        let shifted = p.z / l + if (row as i32) & 1 == 0 { 0.5 } else { 0.0 };
        let (fx, fz) = (fract(p.x / w), fract(shifted));
        let tint = hash2(row as i32, floor(shifted) as i32, self.seed ^ 41);
        let joint = fx < 0.025 || fz < 0.018;
        let k = fine(1.0 / 0.02 * 0.3);
        let stain = fbm(p.x * 0.6, p.z * 0.6, self.seed ^ 42, 4);
        let grain = (noise2(p.x * 26.0, p.z * 26.0, self.seed ^ 43) - 0.5) * fine(26.0) * 0.16;
        let mut a = 0.25 * (0.80 + 0.16 * (tint - 0.5) * fine(1.2) + 0.40 * (stain - 0.3) + grain);
        if joint {
            a *= lerp(1.0, 0.62, k);
        }
        (v3(a, a * 0.975, a * 0.93), 21 + (tint * 6.0) as u32)
    }

    fn wall(&self, k: usize, axis: u8, p: V3, d: V3, distance: f32) -> (V3, u32) {
        let h = &self.street.houses[k];
        let n = if axis == 0 {
            v3(if d.x > 0.0 { -1.0 } else { 1.0 }, 0.0, 0.0)
        } else {
            v3(0.0, 0.0, if d.z > 0.0 { -1.0 } else { 1.0 })
        };
        let (u, width) =
            if axis == 0 { (p.z - h.lo.z, h.hi.z - h.lo.z) } else { (p.x - h.lo.x, h.hi.x - h.lo.x) };
        let spot = facade::spot(h.key, u, p.y, width, h.hi.y - h.lo.y, distance, self.light.lamps_on());
        let sun = self.sunny && n.dot(self.light.sun_dir) > 0.0 && self.sunlit(p + n * 0.08);
        let lamp = if self.light.lamps_on() {
            self.street.lamplight(p) * (1.1 - p.y * 0.13).clamp(0.0, 1.0) * 1.2
        } else {
            0.0
        };
        let mut light = self.light.diffuse(n, Reach { sun: f32::from(u8::from(sun)), lamp });
        light = light * lerp(0.66, 1.0, smoothstep(0.0, 3.5, p.y));
        let mut c = v3(spot.rgb.x * light.x, spot.rgb.y * light.y, spot.rgb.z * light.z) + spot.glow;
        if spot.gloss > 0.0 {
            let r = d - n * (2.0 * d.dot(n));
            // Glass is never flat: the mirrored sky wavers from pane to pane.
            let r = v3(r.x, r.y + spot.tilt, r.z);
            c = c + self.light.environment(r.unit()) * spot.gloss;
        }
        (c, 100 + spot.surface + ((k as u32) << 8))
    }
}
