//! The rasteriser: projects a mesh, finds the nearest triangle of every sample, and resolves samples to pixels.
//!
//! A sample holds one word, depth above and triangle id below, so that "nearest wins" is a plain maximum over a span,
//! which compilers turn into vector code, in whatever order triangles come. Positions are 24.8 fixed point and edges are
//! stepped in integers: neighbouring triangles neither overlap nor gap.
//!
//! A mesh is drawn in bands of pixel rows whose samples stay in the cache; a finished row of pixels is handed on at once.
//! Colours are worked out last: a vertex is lit when the first triangle that can be seen asks for it.

use std::ops::Range;

use wide::{f32x4, f64x4, i32x4};

use super::camera::{Camera, NEAR};
use super::light::{Light, Reach};
use super::maths::V3;
use super::mesh::Mesh;
use super::paint::{Painter, Shade};

const ID_BITS: u32 = 13;
pub(super) const ID_MASK: i32 = (1 << ID_BITS) - 1;
/// Depth runs over 30 bits while a span is stepped; the upper 18 are kept, so that a sample stays a positive `i32`:
/// signed comparison is what plain SSE2 has.
const DEPTH_RANGE: f32 = (1u32 << 30) as f32;
/// Tiles smaller than this many pixels get sixteen samples a pixel, larger ones four.
const FINE_AREA: usize = 12_000;
/// Samples of a band, at least one row of pixels: what a first-level cache holds beside everything else.
const BAND: usize = 8 * 1024;
/// Samples are worked on in groups; rows of samples are padded to whole ones.
const LANES: usize = 4;
/// No further facet.
const NONE: u32 = u32::MAX;
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
pub(super) struct Point {
    view: V3,
    /// In pixels from the tile's corner.
    pub(super) x: f32,
    pub(super) y: f32,
    corner: Corner,
    /// The vertex of the mesh whose colour it has.
    pub(super) vert: u32,
}

/// A corner in sample space: 24.8 fixed point and depth.
#[derive(Clone, Copy, Debug, Default)]
struct Corner {
    x: i32,
    y: i32,
    z: f32,
}

/// A triangle that looks at the camera and may cover samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facet {
    /// Its points, in the mesh's order.
    pub(super) points: [u32; 3],
    pub(super) part: u8,
    /// Corners from the top.
    x: [i32; 3],
    y: [i32; 3],
    /// 16.16 steps of the edges: the long one from the first to the last corner, and those to and from the middle one.
    slopes: [i64; 3],
    /// Sample rows at which the short edges begin and end.
    rows: [i32; 3],
    /// The first sample of the group in which its first sample lies, and whether it fits into that and the next one.
    left: u32,
    narrow: bool,
    /// Depth at the tile's first sample, and its steps.
    z0: f32,
    zx: f32,
    zy: f32,
}

/// What one part of a mesh covers when nothing stands before it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Coverage {
    /// Extent of the covered samples in pixels: x0, y0, x1, y1.
    pub(super) extent: [f32; 4],
    /// Pixels covered by half or more.
    pub(super) pixels: u32,
}

/// Pixels of one row of the frame, from the first to the last that the mesh touches.
pub(super) struct Row<'a> {
    pub(super) y: i32,
    pub(super) x: i32,
    /// Red, green, blue, coverage.
    pub(super) rgba: &'a mut [[u8; 4]],
    /// 1 + part where a part covers half a pixel or more, else 0.
    pub(super) who: &'a mut [u8],
}

/// Draws one mesh at a time, as seen within the smallest rectangle around it.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    pub(super) rect: Rect,
    ss: usize,
    /// Samples of the band at hand, in rows of `stride`.
    samples: Vec<i32>,
    stride: usize,
    /// First and one past the last covered sample of each sample row of the tile.
    covered: Vec<(u32, u32)>,
    points: Vec<Point>,
    facets: Vec<Facet>,
    /// The first facet of each band, and the next one of each facet: lists of those that a band must draw.
    heads: Vec<u32>,
    next: Vec<u32>,
    /// Colours of vertices, and of facets from 1 on.
    colours: Vec<[f32; 4]>,
    shades: Vec<Shade>,
    rgba: Vec<[u8; 4]>,
    who: Vec<u8>,
    bounds: [f32; 4],
    /// Share of the vertices that lie outside of the frame.
    pub(super) outside: f32,
    /// Pixels half or more of which the mesh covers.
    pixels: u32,
    scale: f32,
    nearest: f32,
}

impl Tile {
    pub(super) fn new() -> Tile {
        Tile {
            rect: Rect::default(),
            ss: 2,
            samples: Vec::new(),
            stride: 0,
            covered: Vec::new(),
            points: Vec::with_capacity(16_384),
            facets: Vec::with_capacity(ID_MASK as usize),
            heads: Vec::new(),
            next: Vec::with_capacity(ID_MASK as usize),
            colours: Vec::with_capacity(16_384),
            shades: Vec::with_capacity(ID_MASK as usize + 1),
            rgba: Vec::new(),
            who: Vec::new(),
            bounds: [0.0; 4],
            outside: 0.0,
            pixels: 0,
            scale: 0.0,
            nearest: 0.0,
        }
    }

    /// Reserves for a frame of this size, so that drawing allocates nothing.
    pub(super) fn reserve(&mut self, width: usize, height: usize) {
        self.rgba.reserve(width);
        self.who.reserve(width);
        self.samples.reserve(BAND.max(16 * (width + 2 * LANES)));
        self.covered.reserve(height * 4);
        self.heads.reserve(height + 1);
    }

    /// Prepares to draw `mesh` as seen by `camera` inside `frame`. Returns false when nothing of it can be in the frame.
    pub(super) fn place(&mut self, mesh: &Mesh, camera: &Camera, frame: &Rect) -> bool {
        self.project(mesh, camera, frame);
        self.choose(frame)
    }

    /// Draws what was placed, which must be the same mesh; hands its rows to `sink` from the top. Triangles from
    /// `second_part_from` on belong to part 1.
    pub(super) fn draw(
        &mut self,
        mesh: &Mesh,
        second_part_from: usize,
        camera: &Camera,
        light: &Light,
        reach: Reach,
        sink: impl FnMut(Row<'_>),
    ) {
        self.set_up(mesh, camera, second_part_from);
        if self.ss == 2 {
            self.paint::<2>(mesh, camera, light, reach, sink);
        } else {
            self.paint::<4>(mesh, camera, light, reach, sink);
        }
    }

    /// Vertices to camera coordinates and pixels; bounds of the projection.
    fn project(&mut self, mesh: &Mesh, camera: &Camera, frame: &Rect) {
        self.points.clear();
        let mut inside = 0u32;
        let (mut lo, mut hi) = ((f32::MAX, f32::MAX), (f32::MIN, f32::MIN));
        let (mut near, mut far) = (f32::MAX, NEAR);
        for (k, v) in mesh.verts.iter().enumerate() {
            let view = camera.view(v.p);
            // A point behind the camera is pushed out to the near plane: the bounds stay an outer estimate.
            let (x, y) = camera.pixel(V3 { z: view.z.max(NEAR), ..view });
            self.points.push(Point { view, x, y, corner: Corner::default(), vert: k as u32 });
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
    fn choose(&mut self, frame: &Rect) -> bool {
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
        self.stride = (self.rect.width() * self.ss).next_multiple_of(LANES) + LANES;
        true
    }

    /// Moves a point into the tile.
    fn localise(&self, p: &mut Point) {
        let k = self.ss as f32;
        p.x -= self.rect.x0 as f32;
        p.y -= self.rect.y0 as f32;
        p.corner = Corner {
            x: (p.x * k * 256.0) as i32,
            y: (p.y * k * 256.0) as i32,
            z: (1.0 / p.view.z - self.nearest) * self.scale,
        };
    }

    /// Makes facets of all triangles that may show.
    fn set_up(&mut self, mesh: &Mesh, camera: &Camera, second_part_from: usize) {
        let mut points = std::mem::take(&mut self.points);
        for p in &mut points {
            self.localise(p);
        }
        self.points = points;
        self.facets.clear();
        for (k, t) in mesh.tris.iter().enumerate() {
            let part = u8::from(k >= second_part_from);
            let behind = t.iter().filter(|i| self.points[**i as usize].view.z < NEAR).count();
            match behind {
                0 => self.facet(*t, part),
                3 => {}
                _ => self.clipped(camera, *t, part),
            }
        }
    }

    /// Cuts a triangle at the near plane.
    fn clipped(&mut self, camera: &Camera, t: [u32; 3], part: u8) {
        let mut out = [0u32; 4];
        let mut n = 0;
        for k in 0..3 {
            let (i, j) = (t[k], t[(k + 1) % 3]);
            let (a, b) = (self.points[i as usize], self.points[j as usize]);
            if a.view.z >= NEAR {
                out[n] = i;
                n += 1;
            }
            if (a.view.z >= NEAR) != (b.view.z >= NEAR) {
                let t = (NEAR - a.view.z) / (b.view.z - a.view.z);
                let mut view = a.view.lerp(b.view, t);
                view.z = NEAR;
                let (x, y) = camera.pixel(view);
                let mut p = Point { view, x, y, ..a };
                self.localise(&mut p);
                out[n] = self.points.len() as u32;
                n += 1;
                self.points.push(p);
            }
        }
        for k in 1..n.saturating_sub(1) {
            self.facet([out[0], out[k], out[k + 1]], part);
        }
    }

    fn facet(&mut self, points: [u32; 3], part: u8) {
        let p = points.map(|i| &self.points[i as usize]);
        let c = p.map(|q| q.corner);
        // Most triangles of a distant object pass between the samples.
        let (w, h) = ((self.rect.width() * self.ss) as i32, (self.rect.height() * self.ss) as i32);
        let (x0, x1) = (c[0].x.min(c[1].x).min(c[2].x), c[0].x.max(c[1].x).max(c[2].x));
        let (y0, y1) = (c[0].y.min(c[1].y).min(c[2].y), c[0].y.max(c[1].y).max(c[2].y));
        // Beyond four million pixels nothing is drawn, and fixed point would overflow.
        const LIMIT: i32 = 4_000_000 * 256;
        if x0 <= -LIMIT || y0 <= -LIMIT || x1 >= LIMIT || y1 >= LIMIT {
            return;
        }
        if first(x0) >= first(x1).min(w) || first(y0) >= first(y1).min(h) || x1 <= 0 || y1 <= 0 {
            return;
        }
        let xy = p.map(|q| (q.x, q.y));
        let area = (xy[1].0 - xy[0].0) * (xy[2].1 - xy[0].1) - (xy[2].0 - xy[0].0) * (xy[1].1 - xy[0].1);
        // Faces that look away; the mesh is left-handed and the picture's y runs down, so outward is positive here.
        if area <= 1e-6 || area.is_nan() || self.facets.len() >= ID_MASK as usize {
            return;
        }
        let inv = 1.0 / area;
        let (d1, d2) = (c[1].z - c[0].z, c[2].z - c[0].z);
        let zx = (d1 * (xy[2].1 - xy[0].1) - d2 * (xy[1].1 - xy[0].1)) * inv;
        let zy = (d2 * (xy[1].0 - xy[0].0) - d1 * (xy[2].0 - xy[0].0)) * inv;
        let ss = self.ss as f32;
        let z0 = c[0].z + zx * (0.5 / ss - xy[0].0) + zy * (0.5 / ss - xy[0].1);
        let mut s = c;
        for (a, b) in [(0, 1), (1, 2), (0, 1)] {
            if s[b].y < s[a].y {
                s.swap(a, b);
            }
        }
        let rows = s.map(|q| first(q.y).clamp(0, h));
        if rows[0] >= rows[2] {
            return;
        }
        let slope = |a: Corner, b: Corner| {
            if b.y > a.y { (i64::from(b.x - a.x) << 16) / i64::from(b.y - a.y) } else { 0 }
        };
        let left = first(x0).max(0) / LANES as i32 * LANES as i32;
        self.facets.push(Facet {
            points,
            part,
            x: s.map(|q| q.x),
            y: s.map(|q| q.y),
            slopes: [slope(s[0], s[2]), slope(s[0], s[1]), slope(s[1], s[2])],
            rows,
            left: left as u32,
            narrow: first(x1).min(w) - left <= 2 * LANES as i32,
            z0,
            zx: zx / ss,
            zy: zy / ss,
        });
    }

    /// Pixel rows of a band.
    fn band_rows(&self) -> usize {
        (BAND / (self.stride * self.ss)).clamp(1, self.rect.height())
    }

    /// Lists the facets of `part` (of both parts when `None`) by the band in which they begin.
    fn sort_into_bands(&mut self, band_rows: usize, part: Option<u8>) {
        self.covered.clear();
        self.covered.resize(self.rect.height() * self.ss, NO_SPAN);
        self.heads.clear();
        self.heads.resize(self.rect.height().div_ceil(band_rows), NONE);
        self.next.clear();
        let rows = band_rows * self.ss;
        for (k, f) in self.facets.iter().enumerate() {
            let mut after = NONE;
            if part.is_none_or(|p| p == f.part) {
                after = std::mem::replace(&mut self.heads[f.rows[0] as usize / rows], k as u32);
            }
            self.next.push(after);
        }
    }

    /// Fills the samples of a band, `rows` of the tile's sample rows.
    fn fill(&mut self, band: usize, rows: Range<usize>) {
        let w = self.rect.width() * self.ss;
        self.samples.clear();
        self.samples.resize(rows.len() * self.stride, 0);
        let covered = &mut self.covered[rows.clone()];
        let mut k = self.heads[band];
        while k != NONE {
            let f = &self.facets[k as usize];
            let after = self.next[k as usize];
            f.spans(k as i32 + 1, &rows, w, self.stride, &mut self.samples, covered);
            if f.rows[2] as usize > rows.end {
                self.next[k as usize] = std::mem::replace(&mut self.heads[band + 1], k);
            }
            k = after;
        }
    }

    fn paint<const SS: usize>(
        &mut self,
        mesh: &Mesh,
        camera: &Camera,
        light: &Light,
        reach: Reach,
        mut sink: impl FnMut(Row<'_>),
    ) {
        let (w, h) = (self.rect.width(), self.rect.height());
        self.colours.clear();
        self.colours.resize(mesh.verts.len(), [0.0; 4]);
        self.shades.clear();
        self.shades.resize(self.facets.len() + 1, Shade::default());
        self.rgba.resize(w.max(self.rgba.len()), [0; 4]);
        self.who.resize(w.max(self.who.len()), 0);
        self.pixels = 0;
        let band_rows = self.band_rows();
        self.sort_into_bands(band_rows, None);
        for band in 0..self.heads.len() {
            let ys = band * band_rows..((band + 1) * band_rows).min(h);
            self.fill(band, ys.start * SS..ys.end * SS);
            let mut painter = Painter {
                mesh,
                camera,
                light,
                reach,
                points: &self.points,
                facets: &self.facets,
                colours: &mut self.colours,
                shades: &mut self.shades,
            };
            for (y, rows) in ys.zip(self.samples.chunks_exact(self.stride * SS)) {
                let (l, r) = span(&self.covered[y * SS..(y + 1) * SS]);
                if l >= r {
                    continue;
                }
                let (l, r) = (l as usize / SS, (r as usize).div_ceil(SS));
                let (rgba, who) = (&mut self.rgba[..r - l], &mut self.who[..r - l]);
                let rows: [&[i32]; SS] = std::array::from_fn(|k| &rows[k * self.stride..][l * SS..r * SS]);
                painter.row(rows, (l, y), rgba, who);
                self.pixels += who.iter().map(|w| u32::from(*w != 0)).sum::<u32>();
                sink(Row { y: self.rect.y0 + y as i32, x: self.rect.x0 + l as i32, rgba, who });
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

    /// What the mesh of the last [`Tile::draw`] covers as a whole. Valid until [`Tile::cover`].
    pub(super) fn whole(&self) -> Coverage {
        Coverage { pixels: self.pixels, ..self.extent() }
    }

    /// What one part of the last [`Tile::draw`]'s mesh covers alone.
    pub(super) fn cover(&mut self, part: u8) -> Coverage {
        let (h, ss) = (self.rect.height(), self.ss);
        let band_rows = self.band_rows();
        self.sort_into_bands(band_rows, Some(part));
        let mut pixels = 0;
        for band in 0..self.heads.len() {
            let ys = band * band_rows..((band + 1) * band_rows).min(h);
            self.fill(band, ys.start * ss..ys.end * ss);
            for (y, rows) in ys.zip(self.samples.chunks_exact(self.stride * ss)) {
                let (l, r) = span(&self.covered[y * ss..(y + 1) * ss]);
                for x in l.min(r) as usize / ss..(r as usize).div_ceil(ss) {
                    let n: usize = (0..ss)
                        .map(|k| rows[k * self.stride + x * ss..][..ss].iter().filter(|v| **v != 0).count())
                        .sum();
                    pixels += u32::from(n * 2 >= ss * ss);
                }
            }
        }
        Coverage { pixels, ..self.extent() }
    }
}

/// The first sample whose centre does not lie before `v`, a 24.8 position.
fn first(v: i32) -> i32 {
    (v + 127) >> 8
}

/// Covered samples of a pixel row, given those of its sample rows.
fn span(rows: &[(u32, u32)]) -> (u32, u32) {
    rows.iter().fold(NO_SPAN, |a, b| (a.0.min(b.0), a.1.max(b.1)))
}

impl Facet {
    /// Fills the samples whose centres lie inside, nearest wins: of the sample rows `rows`, the first of which begins
    /// `samples` and `covered`.
    fn spans(
        &self,
        id: i32,
        rows: &Range<usize>,
        w: usize,
        stride: usize,
        samples: &mut [i32],
        covered: &mut [(u32, u32)],
    ) {
        let (start, end) = (rows.start as i32, rows.end as i32);
        let (y0, y1) = (self.rows[0].max(start), self.rows[2].min(end));
        let mut band = Samples { samples, covered, stride, start };
        let bend = self.rows[1].clamp(y0, y1);
        // The lower edge is followed from above its beginning, where a level one is farther out than doubles count.
        let ahead = self.slopes[2] as f64 * (f64::from(self.y[1]) - f64::from(y0) * 256.0);
        if ahead.abs() < (1u64 << 49) as f64 {
            self.run(id, y0..y1, (1, 2), w, &mut band);
        } else {
            self.run(id, y0..bend, (1, 1), w, &mut band);
            self.run(id, bend..y1, (2, 2), w, &mut band);
        }
    }

    /// The spans of `rows`, between the long edge and one of the two `short` ones.
    #[inline(always)]
    fn run(&self, id: i32, rows: Range<i32>, short: (usize, usize), w: usize, band: &mut Samples<'_>) {
        if rows.is_empty() {
            return;
        }
        let mut lines = Lines::new(self, rows.start, short, w);
        let at = (rows.start - band.start) as usize;
        let n = rows.len();
        let covered = band.covered[at..at + n].chunks_mut(LANES);
        let samples = band.samples[at * band.stride..(at + n) * band.stride].chunks_mut(LANES * band.stride);
        for (y, (covered, samples)) in rows.step_by(LANES).zip(covered.zip(samples)) {
            let four = lines.next_four(y);
            let rows = covered.iter_mut().zip(samples.chunks_exact_mut(band.stride));
            if self.narrow {
                for (k, (span, row)) in rows.enumerate() {
                    narrow(span, row, id, self.left as usize, &four.0[k]);
                }
            } else {
                for (k, (span, row)) in rows.enumerate() {
                    wide(span, row, id, &four.0[k]);
                }
            }
        }
    }
}

/// Edges of a facet on their way down, four sample rows at a time. Their positions, in samples less half of 2^-24, are
/// multiples of 2^-25 that doubles hold exactly.
struct Lines {
    x: [f64x4; 3],
    step: [f64x4; 3],
    w: f32x4,
    bend: f32x4,
    z: [f32x4; 3],
}

/// One row of a facet: samples `l..r`, and the depths at their ends.
#[derive(Clone, Copy)]
struct Span {
    l: i32,
    r: i32,
    zl: i32,
    zr: i32,
}

struct Four([Span; LANES]);

impl Lines {
    #[inline(always)]
    fn new(facet: &Facet, y: i32, short: (usize, usize), w: usize) -> Lines {
        let centre = i64::from(y) * 256 + 128;
        let line = |edge: usize| {
            let (corner, k) = (usize::from(edge == 2), facet.slopes[edge]);
            let x = (i64::from(facet.x[corner]) << 16) + k * (centre - i64::from(facet.y[corner]));
            let (x, k) = ((x as f64 - 0.5) * (1.0 / 16_777_216.0), k as f64 * (1.0 / 65_536.0));
            (f64x4::splat(x) + f64x4::splat(k) * f64x4::new([0.0, 1.0, 2.0, 3.0]), f64x4::splat(4.0 * k))
        };
        let (long, first, second) = (line(0), line(short.0), line(short.1));
        Lines {
            x: [long.0, first.0, second.0],
            step: [long.1, first.1, second.1],
            w: f32x4::splat(w as f32),
            bend: f32x4::splat(facet.rows[1] as f32),
            z: [facet.z0, facet.zx, facet.zy].map(f32x4::splat),
        }
    }

    #[inline(always)]
    fn next_four(&mut self, y: i32) -> Four {
        let y = f32x4::splat(y as f32) + f32x4::new([0.0, 1.0, 2.0, 3.0]);
        // The first sample whose centre does not lie before p (in 2^-24 of a sample) is floor((p + 2^23 - 1) / 2^24),
        // which is what rounding (p - 0.5) / 2^24 to nearest gives; 1.5 * 2^52 leaves no room for a fraction, and the
        // whole number in the lower half of the word.
        let edge = |x: f64x4| {
            let v: [i32; 8] = bytemuck::cast(x + f64x4::splat(6_755_399_441_055_744.0));
            f32x4::from_i32x4(i32x4::new([v[0], v[2], v[4], v[6]]))
        };
        let [a, b, c] = self.x.map(edge);
        let b = y.simd_lt(self.bend).select(b, c);
        let clamp = |v: f32x4| v.fast_max(f32x4::splat(0.0)).fast_min(self.w);
        let (l, r) = (clamp(a.fast_min(b)), clamp(a.fast_max(b)));
        for (x, step) in self.x.iter_mut().zip(self.step) {
            *x += step;
        }
        let [z0, zx, zy] = self.z;
        let zl = z0 + zx * l + zy * y;
        let zr = zl + zx * (r - l - f32x4::splat(1.0));
        let whole = |z: f32x4| {
            z.fast_max(f32x4::splat(0.0)).fast_min(f32x4::splat(DEPTH_RANGE - 1024.0)).fast_trunc_int()
        };
        let [l, r] = [l, r].map(|v| v.fast_trunc_int().to_array());
        let [zl, zr] = [zl, zr].map(|v| whole(v).to_array());
        Four(std::array::from_fn(|k| Span { l: l[k], r: r[k], zl: zl[k], zr: zr[k] }))
    }
}

/// Enters a span of facet `id` into a row of samples, with depths that run evenly between its ends.
#[inline(always)]
fn wide(covered: &mut (u32, u32), row: &mut [i32], id: i32, s: &Span) {
    if s.l >= s.r {
        return;
    }
    *covered = (covered.0.min(s.l as u32), covered.1.max(s.r as u32));
    let step = if s.r - s.l > 1 { (s.zr - s.zl) / (s.r - s.l - 1) } else { 0 };
    let from = s.l as usize / LANES * LANES;
    let (groups, _) = row[from..(s.r as usize).next_multiple_of(LANES)].as_chunks_mut::<LANES>();
    let mut lanes = Keys::new(id, from as i32, s, step);
    if let [head, middle @ .., tail] = groups {
        lanes.enter(head, true);
        for group in middle {
            lanes.enter(group, false);
        }
        lanes.enter(tail, true);
    } else if let [only] = groups {
        lanes.enter(only, true);
    }
}

/// As [`wide`] for a span, which may be empty, within two groups from `from` on: the same few steps for every row, where
/// a branch would be anyone's guess.
#[inline(always)]
fn narrow(covered: &mut (u32, u32), row: &mut [i32], id: i32, from: usize, s: &Span) {
    let (l, r) = if s.l < s.r { (s.l as u32, s.r as u32) } else { NO_SPAN };
    *covered = (covered.0.min(l), covered.1.max(r));
    let step = (s.zr - s.zl) / (s.r - s.l - 1).max(1);
    let (groups, _) = row[from..from + 2 * LANES].as_chunks_mut::<LANES>();
    let mut lanes = Keys::new(id, from as i32, s, step);
    lanes.enter(&mut groups[0], true);
    lanes.enter(&mut groups[1], true);
}

/// The samples of a band, whose first row is `start` of the tile, and which of them are covered.
struct Samples<'a> {
    samples: &'a mut [i32],
    covered: &'a mut [(u32, u32)],
    stride: usize,
    start: i32,
}

/// What a facet puts into the samples of a row, group by group.
struct Keys {
    z: i32x4,
    step: i32x4,
    id: i32x4,
    at: i32x4,
    /// One before the span, and one past it.
    before: i32x4,
    after: i32x4,
}

impl Keys {
    #[inline(always)]
    fn new(id: i32, from: i32, s: &Span, step: i32) -> Keys {
        let z = s.zl.wrapping_add(step.wrapping_mul(from - s.l));
        let twice = step.wrapping_add(step);
        Keys {
            z: i32x4::splat(z) + i32x4::new([0, step, twice, twice.wrapping_add(step)]),
            step: i32x4::splat(twice.wrapping_add(twice)),
            id: i32x4::splat(id),
            at: i32x4::splat(from) + i32x4::new([0, 1, 2, 3]),
            before: i32x4::splat(s.l - 1),
            after: i32x4::splat(s.r),
        }
    }

    #[inline(always)]
    fn enter(&mut self, group: &mut [i32; LANES], edge: bool) {
        let mut key = ((self.z + self.z) & i32x4::splat(!ID_MASK)) | self.id;
        if edge {
            // Samples beside the span get a key of 0, which never wins.
            key = key & self.at.simd_gt(self.before) & self.at.simd_lt(self.after);
        }
        *group = i32x4::new(*group).max(key).to_array();
        self.z += self.step;
        self.at += i32x4::splat(LANES as i32);
    }
}
