//! The rasteriser: projects a mesh, finds the nearest triangle of every sample, and resolves samples to pixels.
//!
//! A sample holds one word, depth above and triangle id below, so that "nearest wins" is a plain maximum over a span,
//! which compilers turn into vector code. Colours are worked out afterwards, once per pixel where all its samples agree.
//! Positions are 24.8 fixed point and edges are stepped in integers: neighbouring triangles neither overlap nor gap.

use super::camera::{Camera, NEAR};
use super::light::{Light, Reach};
use super::maths::V3;
use super::mesh::Mesh;

const ID_BITS: u32 = 13;
const ID_MASK: i32 = (1 << ID_BITS) - 1;
/// Depth runs over 30 bits while a span is stepped; the upper 18 are kept, so that a sample stays a positive `i32`:
/// signed comparison is what plain SSE2 has.
const DEPTH_RANGE: f32 = (1u32 << 30) as f32;
/// Tiles smaller than this many pixels get sixteen samples a pixel, larger ones four.
const FINE_AREA: usize = 12_000;
/// Span of a sample row on which nothing was drawn.
const NO_SPAN: (u32, u32) = (u32::MAX, 0);

/// A rectangle of whole pixels: `x0 <= x < x1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rect {
    pub(super) x0: i32,
    pub(super) y0: i32,
    pub(super) x1: i32,
    pub(super) y1: i32,
}

impl Rect {
    pub(super) fn is_empty(&self) -> bool {
        self.x1 <= self.x0 || self.y1 <= self.y0
    }

    pub(super) fn and(&self, o: &Rect) -> Rect {
        Rect { x0: self.x0.max(o.x0), y0: self.y0.max(o.y0), x1: self.x1.min(o.x1), y1: self.y1.min(o.y1) }
    }

    pub(super) fn width(&self) -> usize {
        (self.x1 - self.x0).max(0) as usize
    }

    pub(super) fn height(&self) -> usize {
        (self.y1 - self.y0).max(0) as usize
    }
}

/// A vertex on its way to the screen.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    view: V3,
    rgb: [f32; 3],
}

/// Colour of a triangle as a plane over the tile's pixels, kept within the colours of its corners.
#[derive(Clone, Copy, Debug, Default)]
struct Shade {
    at: [f32; 3],
    dx: [f32; 3],
    dy: [f32; 3],
    lo: [f32; 3],
    hi: [f32; 3],
    part: u8,
}

/// A corner in sample space: 24.8 fixed point and depth.
#[derive(Clone, Copy, Debug, Default)]
struct Corner {
    x: i32,
    y: i32,
    z: f32,
}

/// What one part of a mesh covers when nothing stands before it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Coverage {
    /// Extent of the covered samples in pixels: x0, y0, x1, y1.
    pub(super) extent: [f32; 4],
    /// Pixels covered by half or more.
    pub(super) pixels: u32,
}

/// A rendered mesh: colour and coverage per pixel of `rect`.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    pub(super) rect: Rect,
    /// Red, green, blue, coverage.
    pub(super) rgba: Vec<[u8; 4]>,
    /// 1 + part where a part covers half a pixel or more, else 0.
    pub(super) who: Vec<u8>,
    pub(super) who_scratch: Vec<u8>,
    ss: usize,
    samples: Vec<i32>,
    /// First and one past the last covered sample of each sample row.
    covered: Vec<(u32, u32)>,
    points: Vec<Point>,
    shades: Vec<Shade>,
    bounds: [f32; 4],
    /// Share of the vertices that lie outside of the frame.
    pub(super) outside: f32,
    scale: f32,
    nearest: f32,
}

impl Tile {
    pub(super) fn new() -> Tile {
        Tile {
            rect: Rect::default(),
            rgba: Vec::new(),
            who: Vec::new(),
            who_scratch: Vec::new(),
            ss: 2,
            samples: Vec::new(),
            covered: Vec::new(),
            points: Vec::with_capacity(16_384),
            shades: Vec::with_capacity(8192),
            bounds: [0.0; 4],
            outside: 0.0,
            scale: 0.0,
            nearest: 0.0,
        }
    }

    /// Reserves for a frame of this size, so that drawing allocates nothing.
    pub(super) fn reserve(&mut self, width: usize, height: usize) {
        self.rgba.reserve(width * height);
        self.who.reserve(width * height);
        self.who_scratch.reserve(width * height);
        self.samples.reserve((width * height * 4).max(16 * FINE_AREA));
        self.covered.reserve(height * 4);
    }

    /// Draws `mesh` as seen by `camera` inside `frame`. `part_of` says to which part (0 or 1) a triangle belongs by its
    /// index. Returns false when nothing of it can be in the frame.
    pub(super) fn draw(
        &mut self,
        mesh: &Mesh,
        camera: &Camera,
        light: &Light,
        reach: Reach,
        frame: &Rect,
        second_part_from: usize,
    ) -> bool {
        self.project(mesh, camera, light, reach, frame);
        if !self.place(frame) {
            return false;
        }
        self.fill(mesh, camera, 0..mesh.tris.len(), second_part_from);
        if self.ss == 2 {
            self.resolve::<2>();
        } else {
            self.resolve::<4>();
        }
        true
    }

    /// What triangles `range` cover alone, inside the rectangle of the last [`Tile::draw`].
    pub(super) fn cover(&mut self, mesh: &Mesh, camera: &Camera, range: std::ops::Range<usize>) -> Coverage {
        self.fill(mesh, camera, range, usize::MAX);
        self.coverage()
    }

    /// Vertices to camera coordinates, with their colours; bounds of the projection.
    fn project(&mut self, mesh: &Mesh, camera: &Camera, light: &Light, reach: Reach, frame: &Rect) {
        self.points.clear();
        let mut inside = 0u32;
        let (mut lo, mut hi) = ((f32::MAX, f32::MAX), (f32::MIN, f32::MIN));
        let (mut near, mut far) = (f32::MAX, NEAR);
        for v in &mesh.verts {
            let view = camera.view(v.p);
            let to_eye = camera.pos - v.p;
            let distance = to_eye.dot(to_eye).sqrt();
            let rgb = light.shade(
                &mesh.mats[usize::from(v.mat)],
                v.n,
                v.p.y,
                to_eye * (1.0 / distance.max(0.01)),
                distance,
                reach,
            );
            self.points.push(Point { view, rgb });
            // A point behind the camera is pushed out to the near plane: the bounds stay an outer estimate.
            let (x, y) = camera.pixel(V3 { z: view.z.max(NEAR), ..view });
            let within =
                x >= frame.x0 as f32 && x <= frame.x1 as f32 && y >= frame.y0 as f32 && y <= frame.y1 as f32;
            inside += u32::from(within && view.z >= NEAR);
            lo = (lo.0.min(x), lo.1.min(y));
            hi = (hi.0.max(x), hi.1.max(y));
            near = near.min(view.z.max(NEAR));
            far = far.max(view.z);
        }
        self.bounds = [lo.0, lo.1, hi.0, hi.1];
        self.outside = 1.0 - inside as f32 / mesh.verts.len().max(1) as f32;
        // Depth grows towards the camera: 0 at the farthest vertex.
        let (w0, w1) = (1.0 / (far * 1.001), 1.0 / (near * 0.999));
        self.scale = DEPTH_RANGE * 0.998 / (w1 - w0);
        self.nearest = w0;
    }

    /// Chooses the rectangle and the number of samples.
    fn place(&mut self, frame: &Rect) -> bool {
        let b = self.bounds;
        if self.points.is_empty() || !(b[2] > b[0] && b[3] > b[1]) {
            return false;
        }
        let all = Rect { x0: b[0] as i32 - 1, y0: b[1] as i32 - 1, x1: b[2] as i32 + 2, y1: b[3] as i32 + 2 };
        self.rect = all.and(frame);
        if self.rect.is_empty() {
            return false;
        }
        self.ss = if self.rect.width() * self.rect.height() < FINE_AREA { 4 } else { 2 };
        let n = self.rect.width() * self.rect.height();
        self.rgba.clear();
        self.rgba.resize(n, [0; 4]);
        self.who.clear();
        self.who.resize(n, 0);
        true
    }

    fn fill(&mut self, mesh: &Mesh, camera: &Camera, range: std::ops::Range<usize>, second_part_from: usize) {
        let n = self.rect.width() * self.rect.height() * self.ss * self.ss;
        self.samples.clear();
        self.samples.resize(n, 0);
        self.covered.clear();
        self.covered.resize(self.rect.height() * self.ss, NO_SPAN);
        self.shades.clear();
        for k in range {
            let p = mesh.tris[k].map(|i| self.points[i as usize]);
            let part = u8::from(k >= second_part_from);
            let behind = p.iter().filter(|q| q.view.z < NEAR).count();
            match behind {
                0 => self.triangle(camera, p, part),
                3 => {}
                _ => self.clipped(camera, p, part),
            }
        }
    }

    /// Cuts a triangle at the near plane.
    fn clipped(&mut self, camera: &Camera, p: [Point; 3], part: u8) {
        let mut out = [Point::default(); 4];
        let mut n = 0;
        for k in 0..3 {
            let (a, b) = (p[k], p[(k + 1) % 3]);
            if a.view.z >= NEAR {
                out[n] = a;
                n += 1;
            }
            if (a.view.z >= NEAR) != (b.view.z >= NEAR) {
                let t = (NEAR - a.view.z) / (b.view.z - a.view.z);
                let mut view = a.view.lerp(b.view, t);
                view.z = NEAR;
                out[n] = Point { view, rgb: a.rgb };
                n += 1;
            }
        }
        for k in 1..n.saturating_sub(1) {
            self.triangle(camera, [out[0], out[k], out[k + 1]], part);
        }
    }

    fn triangle(&mut self, camera: &Camera, p: [Point; 3], part: u8) {
        let ss = self.ss as f32;
        let xy = p.map(|q| {
            let (x, y) = camera.pixel(q.view);
            (x - self.rect.x0 as f32, y - self.rect.y0 as f32)
        });
        let area = (xy[1].0 - xy[0].0) * (xy[2].1 - xy[0].1) - (xy[2].0 - xy[0].0) * (xy[1].1 - xy[0].1);
        // Faces that look away; the mesh is left-handed and the picture's y runs down, so outward is positive here.
        if area <= 1e-6 || self.shades.len() >= ID_MASK as usize {
            return;
        }
        let limit = 4.0e6;
        if xy.iter().any(|q| !(q.0.abs() < limit / ss && q.1.abs() < limit / ss)) {
            return;
        }
        let c: [Corner; 3] = std::array::from_fn(|k| Corner {
            x: (xy[k].0 * ss * 256.0) as i32,
            y: (xy[k].1 * ss * 256.0) as i32,
            z: (1.0 / p[k].view.z - self.nearest) * self.scale,
        });
        // Most triangles of a distant object pass between the samples.
        let (w, h) = ((self.rect.width() * self.ss) as i32, (self.rect.height() * self.ss) as i32);
        let first = |v: i32| (v + 127) >> 8;
        let (x0, x1) = (c[0].x.min(c[1].x).min(c[2].x), c[0].x.max(c[1].x).max(c[2].x));
        let (y0, y1) = (c[0].y.min(c[1].y).min(c[2].y), c[0].y.max(c[1].y).max(c[2].y));
        if first(x0) >= first(x1).min(w) || first(y0) >= first(y1).min(h) || x1 <= 0 || y1 <= 0 {
            return;
        }
        let inv = 1.0 / area;
        let plane = |v: [f32; 3]| {
            let (d1, d2) = (v[1] - v[0], v[2] - v[0]);
            let dx = (d1 * (xy[2].1 - xy[0].1) - d2 * (xy[1].1 - xy[0].1)) * inv;
            let dy = (d2 * (xy[1].0 - xy[0].0) - d1 * (xy[2].0 - xy[0].0)) * inv;
            (dx, dy)
        };
        let mut s = Shade { part, ..Shade::default() };
        for ch in 0..3 {
            let v = [p[0].rgb[ch], p[1].rgb[ch], p[2].rgb[ch]];
            let (dx, dy) = plane(v);
            s.dx[ch] = dx;
            s.dy[ch] = dy;
            // Value at the centre of the tile's first pixel.
            s.at[ch] = v[0] + dx * (0.5 - xy[0].0) + dy * (0.5 - xy[0].1);
            s.lo[ch] = v[0].min(v[1]).min(v[2]);
            s.hi[ch] = v[0].max(v[1]).max(v[2]);
        }
        let (zx, zy) = plane([c[0].z, c[1].z, c[2].z]);
        let z0 = c[0].z + zx * (0.5 / ss - xy[0].0) + zy * (0.5 / ss - xy[0].1);
        self.shades.push(s);
        let id = self.shades.len() as i32;
        self.spans(c, z0, zx / ss, zy / ss, id);
    }

    /// Fills the samples whose centres lie inside, nearest wins.
    fn spans(&mut self, mut c: [Corner; 3], z0: f32, zx: f32, zy: f32, id: i32) {
        c.sort_by_key(|q| q.y);
        let (w, h) = ((self.rect.width() * self.ss) as i64, (self.rect.height() * self.ss) as i64);
        let first = |y: i32| (i64::from(y) + 127) >> 8;
        let slope = |a: Corner, b: Corner| {
            if b.y > a.y { (i64::from(b.x - a.x) << 16) / i64::from(b.y - a.y) } else { 0 }
        };
        let long = slope(c[0], c[2]);
        for (a, b) in [(c[0], c[1]), (c[1], c[2])] {
            let (y0, y1) = (first(a.y).max(0), first(b.y).min(h));
            let short = slope(a, b);
            for y in y0..y1 {
                let centre = y * 256 + 128;
                let at = |q: Corner, k: i64| (i64::from(q.x) << 16) + k * (centre - i64::from(q.y));
                let (xa, xb) = (at(c[0], long), at(a, short));
                let (xl, xr) = (xa.min(xb), xa.max(xb));
                let edge = |x: i64| (x - (1 << 23) + (1 << 24) - 1) >> 24;
                let (l, r) = (edge(xl).clamp(0, w), edge(xr).clamp(0, w));
                if l >= r {
                    continue;
                }
                let zl = z0 + zx * l as f32 + zy * y as f32;
                let zr = zl + zx * (r - l - 1) as f32;
                let top = DEPTH_RANGE - 1024.0;
                let (zl, zr) = (zl.clamp(0.0, top) as i32, zr.clamp(0.0, top) as i32);
                let n = (r - l) as i32;
                let step = if n > 1 { (zr - zl) / (n - 1) } else { 0 };
                let span = &mut self.covered[y as usize];
                *span = (span.0.min(l as u32), span.1.max(r as u32));
                let row = &mut self.samples[(y * w + l) as usize..(y * w + r) as usize];
                let mut z = zl;
                for s in row {
                    let key = (z << 1 & !ID_MASK) | id;
                    *s = (*s).max(key);
                    z += step;
                }
            }
        }
    }

    #[inline]
    fn colour(s: &Shade, x: f32, y: f32) -> [f32; 3] {
        std::array::from_fn(|ch| (s.at[ch] + s.dx[ch] * x + s.dy[ch] * y).max(s.lo[ch]).min(s.hi[ch]))
    }

    /// Covered samples of pixel row `y`, over all its sample rows.
    fn span(&self, y: usize) -> (u32, u32) {
        self.covered[y * self.ss..(y + 1) * self.ss].iter().fold(NO_SPAN, |a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Samples to pixels.
    fn resolve<const SS: usize>(&mut self) {
        let (w, h) = (self.rect.width(), self.rect.height());
        let stride = w * SS;
        let full = (SS * SS) as u32;
        for y in 0..h {
            let (l, r) = self.span(y);
            if l >= r {
                continue;
            }
            let (l, r) = (l as usize / SS, (r as usize).div_ceil(SS));
            let rows = &self.samples[y * SS * stride..(y + 1) * SS * stride];
            let rgba = &mut self.rgba[y * w..(y + 1) * w];
            let who = &mut self.who[y * w..(y + 1) * w];
            for x in l..r {
                let first = rows[x * SS];
                let mut differ = 0;
                for r in 0..SS {
                    let s: &[i32] = &rows[r * stride + x * SS..][..SS];
                    for v in s {
                        differ |= v ^ first;
                    }
                }
                let first = first & ID_MASK;
                if differ & ID_MASK == 0 {
                    if first != 0 {
                        let s = &self.shades[first as usize - 1];
                        let c = Self::colour(s, x as f32, y as f32);
                        rgba[x] = [c[0] as i32 as u8, c[1] as i32 as u8, c[2] as i32 as u8, 255];
                        who[x] = 1 + s.part;
                    }
                    continue;
                }
                let (mut sum, mut n, mut second) = ([0.0f32; 3], 0u32, 0u32);
                for r in 0..SS {
                    for k in 0..SS {
                        let id = rows[r * stride + x * SS + k] & ID_MASK;
                        if id != 0 {
                            let s = &self.shades[id as usize - 1];
                            let c = Self::colour(s, x as f32, y as f32);
                            for ch in 0..3 {
                                sum[ch] += c[ch];
                            }
                            n += 1;
                            second += u32::from(s.part);
                        }
                    }
                }
                if n > 0 {
                    let k = 1.0 / n as f32;
                    rgba[x] =
                        [(sum[0] * k) as u8, (sum[1] * k) as u8, (sum[2] * k) as u8, (n * 255 / full) as u8];
                    if n * 2 >= full {
                        who[x] = if second * 2 > n { 2 } else { 1 };
                    }
                }
            }
        }
    }

    /// Extent of what the last fill covered; the number of pixels is left to the caller.
    fn extent(&self) -> Coverage {
        let (mut x0, mut x1) = NO_SPAN;
        let (mut y0, mut y1) = NO_SPAN;
        for (y, s) in self.covered.iter().enumerate().filter(|(_, s)| s.0 < s.1) {
            x0 = x0.min(s.0);
            x1 = x1.max(s.1);
            y0 = y0.min(y as u32);
            y1 = y as u32 + 1;
        }
        if x0 >= x1 {
            return Coverage::default();
        }
        let k = 1.0 / self.ss as f32;
        let (ox, oy) = (self.rect.x0 as f32, self.rect.y0 as f32);
        Coverage {
            extent: [ox + x0 as f32 * k, oy + y0 as f32 * k, ox + x1 as f32 * k, oy + y1 as f32 * k],
            pixels: 0,
        }
    }

    /// Extent and size of what the last fill covered.
    fn coverage(&self) -> Coverage {
        let (w, ss) = (self.rect.width(), self.ss);
        let stride = w * ss;
        let mut c = self.extent();
        for y in 0..self.rect.height() {
            let (l, r) = self.span(y);
            let rows = &self.samples[y * ss * stride..(y + 1) * ss * stride];
            for x in l.min(r) as usize / ss..(r as usize).div_ceil(ss) {
                let n: u32 =
                    (0..ss * ss).map(|k| u32::from(rows[(k / ss) * stride + x * ss + k % ss] != 0)).sum();
                c.pixels += u32::from(n * 2 >= (ss * ss) as u32);
            }
        }
        c
    }

    /// What the mesh of the last [`Tile::draw`] covers as a whole. Valid until the next fill.
    pub(super) fn whole(&self) -> Coverage {
        Coverage { pixels: self.who.iter().map(|w| u32::from(*w != 0)).sum(), ..self.extent() }
    }
}
