//! Colours: lights the vertices of what can be seen and turns samples into pixels.

use wide::f32x4;

use super::camera::Camera;
use super::light::{Light, Reach};
use super::mesh::Mesh;
use super::raster::{Facet, ID_MASK, Point};

/// Colour of a facet as a plane over the tile's pixels, kept within the colours of its corners. Four lanes: red, green,
/// blue, and the same number everywhere, which counts samples and parts: 1 for part 0, 1 + [`PART`] for part 1.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shade {
    at: f32x4,
    dx: f32x4,
    dy: f32x4,
    lo: f32x4,
    hi: f32x4,
    /// 1 + part; 0 for the blank one.
    part: u8,
    known: bool,
}

/// More than the samples of a pixel.
const PART: f32 = 32.0;

impl Shade {
    #[inline(always)]
    fn colour(&self, x: f32x4, y: f32x4) -> f32x4 {
        (self.at + self.dx * x + self.dy * y).fast_max(self.lo).fast_min(self.hi)
    }

    /// Colours a run of pixels from column `x` on.
    #[inline(always)]
    fn paint(&self, x: usize, y: f32x4, rgba: &mut [[u8; 4]]) {
        // The fourth lane becomes the coverage, which is full.
        let opaque = f32x4::new([0.0, 0.0, 0.0, 255.0]);
        let (lo, hi) = (self.lo.fast_max(opaque), self.hi.fast_max(opaque));
        let (at, dx, y) = (self.at, self.dx, self.dy * y);
        let mut x = f32x4::splat(x as f32);
        for c in rgba {
            *c = bytes((at + dx * x + y).fast_max(lo).fast_min(hi));
            x += f32x4::splat(1.0);
        }
    }
}

/// Lanes within 0..=255 without their fractions.
#[inline(always)]
fn bytes(v: f32x4) -> [u8; 4] {
    v.fast_trunc_int().to_array().map(|v| v as u8)
}

/// How many pixels from the first on show facet `id` in all their samples.
#[inline(always)]
fn run<const SS: usize>(rows: [&[[i32; SS]]; SS], id: i32) -> usize {
    let n = rows[0].len();
    (0..n)
        .find(|i| {
            let differ = rows.iter().flat_map(|r| &r[*i]).fold(0, |d, v| d | (v ^ id));
            differ & ID_MASK != 0
        })
        .unwrap_or(n)
}

/// What a mesh is painted with. `shades` holds a blank one and then one for each facet.
pub(super) struct Painter<'a> {
    pub(super) mesh: &'a Mesh,
    pub(super) camera: &'a Camera,
    pub(super) light: &'a Light,
    pub(super) reach: Reach,
    pub(super) points: &'a [Point],
    pub(super) facets: &'a [Facet],
    pub(super) colours: &'a mut [[f32; 4]],
    pub(super) shades: &'a mut [Shade],
}

impl Painter<'_> {
    /// Turns sample rows of a row of pixels, the first of which is `at` in the tile, into colours and parts.
    pub(super) fn row<const SS: usize>(
        &mut self,
        rows: [&[i32]; SS],
        at: (usize, usize),
        rgba: &mut [[u8; 4]],
        who: &mut [u8],
    ) {
        let rows = rows.map(|r| r.as_chunks::<SS>().0);
        let y = f32x4::splat(at.1 as f32);
        let (n, full) = (rgba.len(), (SS * SS) as u32);
        let mut i = 0;
        while i < n {
            let s: [[i32; SS]; SS] = std::array::from_fn(|r| rows[r][i]);
            let first = s[0][0];
            let mut differ = 0;
            for v in s.as_flattened() {
                differ |= v ^ first;
            }
            if differ & ID_MASK == 0 {
                let id = first & ID_MASK;
                let end = i + 1 + run(rows.map(|r| &r[i + 1..n]), id);
                let shade = self.shade(id as usize);
                if id == 0 {
                    rgba[i..end].fill([0; 4]);
                    who[i..end].fill(0);
                } else {
                    shade.paint(at.0 + i, y, &mut rgba[i..end]);
                    who[i..end].fill(shade.part);
                }
                i = end;
                continue;
            }
            let x = f32x4::splat((at.0 + i) as f32);
            let mut sum = f32x4::splat(0.0);
            for v in s.as_flattened() {
                sum += self.shade((v & ID_MASK) as usize).colour(x, y);
            }
            let counts = sum.to_array()[3] as u32;
            let (n, second) = (counts % PART as u32, counts / PART as u32);
            let c = bytes(sum * f32x4::splat(1.0 / n as f32));
            rgba[i] = [c[0], c[1], c[2], (n * 255 / full) as u8];
            who[i] = if n * 2 < full { 0 } else { 1 + u8::from(second * 2 > n) };
            i += 1;
        }
    }

    /// The shade of facet `id - 1`, worked out on first use; blank for 0.
    #[inline]
    fn shade(&mut self, id: usize) -> &Shade {
        if !self.shades[id].known {
            self.work_out(id);
        }
        &self.shades[id]
    }

    #[cold]
    #[inline(never)]
    fn work_out(&mut self, id: usize) {
        if id == 0 {
            self.shades[0] = Shade { known: true, ..Shade::default() };
            return;
        }
        let f = &self.facets[id - 1];
        let p = f.points.map(|k| &self.points[k as usize]);
        let xy = p.map(|q| (q.x, q.y));
        let rgb = p.map(|q| self.colour(q.vert as usize));
        let area = (xy[1].0 - xy[0].0) * (xy[2].1 - xy[0].1) - (xy[2].0 - xy[0].0) * (xy[1].1 - xy[0].1);
        let inv = 1.0 / area;
        let count = 1.0 + PART * f32::from(f.part);
        let ([mut at, mut lo, mut hi], [mut dx, mut dy]) = ([[count; 4]; 3], [[0.0; 4]; 2]);
        for ch in 0..3 {
            let v = [rgb[0][ch], rgb[1][ch], rgb[2][ch]];
            let (d1, d2) = (v[1] - v[0], v[2] - v[0]);
            dx[ch] = (d1 * (xy[2].1 - xy[0].1) - d2 * (xy[1].1 - xy[0].1)) * inv;
            dy[ch] = (d2 * (xy[1].0 - xy[0].0) - d1 * (xy[2].0 - xy[0].0)) * inv;
            // Value at the centre of the tile's first pixel.
            at[ch] = v[0] + dx[ch] * (0.5 - xy[0].0) + dy[ch] * (0.5 - xy[0].1);
            lo[ch] = v[0].min(v[1]).min(v[2]);
            hi[ch] = v[0].max(v[1]).max(v[2]);
        }
        let [at, dx, dy, lo, hi] = [at, dx, dy, lo, hi].map(f32x4::new);
        self.shades[id] = Shade { at, dx, dy, lo, hi, part: 1 + f.part, known: true };
    }

    /// The colour of a vertex in its light, worked out on first use; the fourth lane says that it has been.
    fn colour(&mut self, vert: usize) -> [f32; 4] {
        if self.colours[vert][3] == 0.0 {
            let v = &self.mesh.verts[vert];
            let to_eye = self.camera.pos - v.p;
            let distance = to_eye.dot(to_eye).sqrt();
            let c = self.light.shade(
                &self.mesh.mats[usize::from(v.mat)],
                v.n,
                v.p.y,
                to_eye * (1.0 / distance.max(0.01)),
                distance,
                self.reach,
            );
            self.colours[vert] = [c[0], c[1], c[2], 1.0];
        }
        self.colours[vert]
    }
}
