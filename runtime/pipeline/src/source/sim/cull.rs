//! Which houses a ray may meet, told beforehand for all rays of a small part of the picture or of the street: a house
//! whose outline, with some slack, lies elsewhere need not be asked. What is left is asked as ever, so that pruning
//! changes no pixel.

use super::camera::Camera;
use super::maths::{V3, v3};
use super::street::House;

/// Some of a street's houses: bit `k` for house `k`. A street has two rows of at most 13 and a third of at most 16.
pub(super) type Set = u64;

/// The numbers in a set, ascending.
pub(super) fn members(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let k = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(k)
    })
}

/// Square cells of a plane, each with the houses whose outlines touch it.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    x0: f32,
    y0: f32,
    /// Cells a unit.
    scale: f32,
    across: usize,
    down: usize,
    cells: Vec<Set>,
}

/// Side of a cell in pixels.
const TILE: f32 = 16.0;
/// Slack in pixels: rays and outlines are worked out to a hundredth of that.
const NEAR_BY: f32 = 2.0;
/// Nearer than this (metres along the axis) no house is met: the camera keeps half a metre from walls.
const CLIP: f32 = 0.05;

impl Grid {
    fn new((x0, y0): (f32, f32), (width, height): (f32, f32), cell: f32) -> Grid {
        let (across, down) = ((width / cell) as usize + 1, (height / cell) as usize + 1);
        Grid { x0, y0, scale: 1.0 / cell, across, down, cells: vec![0; across * down] }
    }

    /// The houses that rays through pixels of the picture, from `-margin` on, may meet.
    pub(super) fn seen(camera: &Camera, houses: &[House], size: (usize, usize), margin: usize) -> Grid {
        Self::view(camera, houses, size, margin, NEAR_BY, |y| y)
    }

    /// The same for rays that the ground has mirrored, and scattered by up to 0.025 of their length along x: seen from
    /// within the picture that is less than a tenth of the focal length.
    pub(super) fn mirrored(camera: &Camera, houses: &[House], size: (usize, usize), margin: usize) -> Grid {
        Self::view(camera, houses, size, margin, 0.1 * camera.focal + 2.0 * NEAR_BY, |y| -y)
    }

    fn view(
        camera: &Camera,
        houses: &[House],
        size: (usize, usize),
        margin: usize,
        slack: f32,
        height: impl Fn(f32) -> f32,
    ) -> Grid {
        let m = margin as f32;
        let whole = (size.0 as f32 + 2.0 * m, size.1 as f32 + 2.0 * m);
        let mut grid = Grid::new((-m, -m), whole, TILE);
        for (k, h) in houses.iter().enumerate() {
            let corners = corners(h).map(|c| camera.view(v3(c.x, height(c.y), c.z)));
            let mut outline = Vec::with_capacity(20);
            for (i, a) in corners.iter().enumerate() {
                if a.z >= CLIP {
                    outline.push(camera.pixel(*a));
                }
                // Edges run between corners whose numbers differ in one bit.
                for b in [1, 2, 4].map(|bit| i ^ bit).into_iter().filter(|j| *j > i).map(|j| corners[j]) {
                    if (a.z >= CLIP) != (b.z >= CLIP) {
                        let t = (CLIP - a.z) / (b.z - a.z);
                        outline.push(camera.pixel(V3 { z: CLIP, ..a.lerp(b, t) }));
                    }
                }
            }
            grid.add(&outline, slack, 1 << k);
        }
        grid
    }

    /// The houses that may stand between a point and the sun, by where the ray through both meets the ground.
    pub(super) fn shaded(houses: &[House], sun: V3) -> Grid {
        let mut grid = Grid::new((-64.0, -64.0), (128.0, 192.0), 1.0);
        for (k, h) in houses.iter().enumerate() {
            grid.add(&corners(h).map(|c| grounded(c, sun)), 0.05, 1 << k);
        }
        grid
    }

    /// Enters a house in all cells within `slack` of the convex hull of `points`.
    fn add(&mut self, points: &[(f32, f32)], slack: f32, bit: Set) {
        let points: Vec<(f64, f64)> = points.iter().map(|p| (f64::from(p.0), f64::from(p.1))).collect();
        let slack = f64::from(slack);
        for row in 0..self.down {
            let edge = |row: usize| f64::from(self.y0) + row as f64 / f64::from(self.scale);
            let (top, bottom) = (edge(row) - slack, edge(row + 1) + slack);
            let (mut lo, mut hi) = (f64::MAX, f64::MIN);
            // The extent of the hull between two levels is that of all the lines between its points.
            for (i, a) in points.iter().enumerate() {
                for b in &points[i..] {
                    let (a, b) = if a.1 <= b.1 { (a, b) } else { (b, a) };
                    if b.1 < top || a.1 > bottom {
                        continue;
                    }
                    let at = |y: f64| {
                        if b.1 > a.1 { a.0 + (b.0 - a.0) * ((y - a.1) / (b.1 - a.1)) } else { a.0 }
                    };
                    let ends =
                        [if a.1 < top { at(top) } else { a.0 }, if b.1 > bottom { at(bottom) } else { b.0 }];
                    lo = lo.min(ends[0]).min(ends[1]);
                    hi = hi.max(ends[0]).max(ends[1]);
                }
            }
            let cell = |x: f64| (x - f64::from(self.x0)) * f64::from(self.scale);
            let (from, to) = (cell(lo - slack).max(0.0), cell(hi + slack));
            if lo > hi || to < 0.0 {
                continue;
            }
            // Casts saturate.
            let (from, to) = ((from as usize).min(self.across), (to as usize + 1).min(self.across));
            for cell in &mut self.cells[row * self.across..][from..to.max(from)] {
                *cell |= bit;
            }
        }
    }

    /// The houses of the cell at a place; all of them outside of the grid.
    pub(super) fn at(&self, x: f32, y: f32) -> Set {
        let (x, y) = ((x - self.x0) * self.scale, (y - self.y0) * self.scale);
        if !(x >= 0.0 && y >= 0.0 && x < self.across as f32 && y < self.down as f32) {
            return Set::MAX;
        }
        self.cells[y as usize * self.across + x as usize]
    }
}

/// Where the line through `p` towards the sun meets the ground.
pub(super) fn grounded(p: V3, sun: V3) -> (f32, f32) {
    let t = p.y / sun.y;
    (p.x - sun.x * t, p.z - sun.z * t)
}

/// Corners of the block that rays are held against, which goes a metre into the ground.
fn corners(h: &House) -> [V3; 8] {
    std::array::from_fn(|i| {
        v3(
            if i & 1 == 0 { h.lo.x } else { h.hi.x },
            if i & 2 == 0 { h.lo.y - 1.0 } else { h.hi.y },
            if i & 4 == 0 { h.lo.z } else { h.hi.z },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::light::Light;
    use super::super::maths::Rng;
    use super::super::spec::{LightKind, SimSpec};
    use super::super::street::{Street, crosses};
    use super::*;

    /// Every house that a ray crosses is in the set for that ray.
    #[test]
    fn no_house_is_left_out() {
        for seed in 0..300 {
            let size = [(1280, 720), (160, 96), (240, 400)][seed as usize % 3];
            let margin = [0, 64][seed as usize % 2];
            let light = Some(if seed % 4 == 0 { LightKind::Dusk } else { LightKind::Day });
            let spec = SimSpec { seed, width: size.0, height: size.1, light, ..SimSpec::default() };
            let (street, light) = (Street::new(&spec), Light::new(&spec));
            let (camera, houses) = (&street.camera, &street.houses);
            assert!(houses.len() <= 64);
            let seen = Grid::seen(camera, houses, size, margin);
            let mirrored = Grid::mirrored(camera, houses, size, margin);
            let shaded = Grid::shaded(houses, light.sun_dir);
            let mut r = Rng::new(seed);
            let holds = |set: Set, from: V3, d: V3, what: &str| {
                for (k, h) in houses.iter().enumerate() {
                    let met =
                        crosses(h, from, d).is_some_and(|(t, _)| what == "sun" || from.y + d.y * t <= h.hi.y);
                    assert!(
                        !met || set >> k & 1 == 1,
                        "{what}: house {k} of seed {seed} from {from:?} along {d:?}"
                    );
                }
            };
            for _ in 0..1500 {
                let m = margin as f32;
                let (x, y) = (r.range(-m, size.0 as f32 + m), r.range(-m, size.1 as f32 + m));
                let d = camera.ray(x, y);
                holds(seen.at(x, y), camera.pos, d, "seen");
                if d.y < -1e-6 && -camera.pos.y / d.y < 400.0 {
                    let p = camera.pos + d * (-camera.pos.y / d.y);
                    let up = v3(d.x + r.range(-0.025, 0.025), -d.y, d.z);
                    holds(mirrored.at(x, y), p + v3(0.0, 0.01, 0.0), up, "mirrored");
                }
                let p = v3(r.range(-70.0, 70.0), r.range(0.0, 20.0), r.range(-20.0, 120.0));
                let (gx, gz) = grounded(p, light.sun_dir);
                holds(shaded.at(gx, gz), p, light.sun_dir, "sun");
            }
        }
    }
}
