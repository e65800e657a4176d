//! Shadows on the ground: the mesh cast along the sun's rays, and the dark contact under an object.
//!
//! A mask of half the picture's resolution is filled with projected triangles, blurred by two box filters, and darkens
//! the ground beneath.

use super::camera::{Camera, NEAR};
use super::maths::{V3, v3};
use super::mesh::{Mesh, Xf};
use super::raster::Rect;

#[derive(Clone, Debug, Default)]
pub(super) struct Shadow {
    mask: Vec<u8>,
    line: Vec<u8>,
    /// The mask before the pass along columns, and the sums of that pass.
    before: Vec<u8>,
    sums: Vec<u16>,
    /// What a row of the picture loses, in 1/65536.
    loss: Vec<u16>,
    /// In half-resolution pixels.
    w: usize,
    h: usize,
    rect: Rect,
    points: Vec<(f32, f32, bool)>,
}

/// Where shadows fall: the frame's pixels and which of them show the ground.
pub(super) struct Floor<'a> {
    pub(super) rgb: &'a mut [u8],
    pub(super) width: usize,
    pub(super) height: usize,
    /// 1 where an object covers the pixel, which then is final.
    pub(super) full: &'a [u8],
    pub(super) ground: &'a [u8],
    /// Row length of `ground` and position of the frame's first pixel in it.
    pub(super) stride: usize,
    pub(super) origin: usize,
}

impl Floor<'_> {
    /// Pixels `x0..x1` of row `y`: their colours, and what is final and what is ground there.
    fn row(&mut self, y: i32, x0: i32, x1: i32) -> (&mut [u8], &[u8], &[u8]) {
        let (y, x0, n) = (y as usize, x0 as usize, (x1 - x0) as usize);
        let (at, ground) = (y * self.width + x0, self.origin + y * self.stride + x0);
        (&mut self.rgb[at * 3..(at + n) * 3], &self.full[at..at + n], &self.ground[ground..ground + n])
    }

    /// Whether any ground is to be seen in pixels `x0..x1` of row `y`.
    fn shows(&self, y: i32, x0: i32, x1: i32) -> bool {
        let (y, x0, n) = (y as usize, x0 as usize, (x1 - x0) as usize);
        let (at, ground) = (y * self.width + x0, self.origin + y * self.stride + x0);
        let rows = self.full[at..at + n].chunks(64).zip(self.ground[ground..ground + n].chunks(64));
        rows.into_iter().any(|(full, ground)| {
            let shown = |f: &u8, g: &u8| u8::from(*f == 0) & u8::from(*g != 0);
            full.iter().zip(ground).fold(0, |any, (f, g)| any | shown(f, g)) != 0
        })
    }
}

impl Shadow {
    pub(super) fn reserve(&mut self, width: usize, height: usize) {
        self.mask.reserve((width / 2 + 2) * (height / 2 + 2));
        self.before.reserve((width / 2 + 2) * (height / 2 + 2));
        self.sums.reserve(width / 2 + 2);
        self.loss.reserve(3 * (width + 2));
        self.line.reserve(width.max(height) + 4);
        self.points.reserve(16_384);
    }

    /// Darkens the ground by `strength` (0..1) where the sun at `sun` does not reach past `mesh`.
    pub(super) fn cast(
        &mut self,
        floor: &mut Floor<'_>,
        mesh: &Mesh,
        camera: &Camera,
        sun: V3,
        strength: f32,
    ) {
        let k = 1.0 / sun.y.max(0.2);
        self.points.clear();
        for v in &mesh.verts {
            let q = v3(v.p.x - sun.x * v.p.y * k, 0.0, v.p.z - sun.z * v.p.y * k);
            self.push(camera, q);
        }
        let scale = self.place(floor, 8);
        if self.rect.is_empty() {
            return;
        }
        for t in &mesh.tris {
            self.triangle(t[0] as usize, t[1] as usize, t[2] as usize);
        }
        self.blur((scale * 0.045) as usize + 1);
        self.darken(floor, strength);
    }

    /// Darkens the ground under an object of the given footprint: less sky reaches it there.
    pub(super) fn contact(
        &mut self,
        floor: &mut Floor<'_>,
        pose: &Xf,
        footprint: (f32, f32),
        camera: &Camera,
        strength: f32,
    ) {
        self.points.clear();
        let (w, l) = footprint;
        // An octagon in the footprint.
        for (x, z) in [
            (-0.7, 1.0),
            (0.7, 1.0),
            (1.0, 0.8),
            (1.0, -0.8),
            (0.7, -1.0),
            (-0.7, -1.0),
            (-1.0, -0.8),
            (-1.0, 0.8),
        ] {
            let p = pose.point(v3(x * w, 0.0, z * l));
            self.push(camera, v3(p.x, 0.0, p.z));
        }
        let scale = self.place(floor, 12);
        if self.rect.is_empty() {
            return;
        }
        for k in 1..7 {
            self.triangle(0, k, k + 1);
        }
        self.blur((scale * 0.10 * w.min(1.0)) as usize + 1);
        self.darken(floor, strength);
    }

    /// Lights the ground before a vehicle whose front is `front` metres ahead of its middle.
    pub(super) fn beam(&mut self, floor: &mut Floor<'_>, pose: &Xf, front: f32, camera: &Camera) {
        self.points.clear();
        for (x, z) in [(-0.6, 0.8), (0.6, 0.8), (1.5, 4.0), (1.9, 8.5), (-1.9, 8.5), (-1.5, 4.0)] {
            self.push(camera, pose.point(v3(x, 0.0, front + z)));
        }
        self.place(floor, 12);
        if self.rect.is_empty() {
            return;
        }
        for k in 1..5 {
            self.triangle(0, k, k + 1);
        }
        self.blur(8);
        self.apply(floor, |c, m| (c + (((c + 14) * m * 3) >> 10)).min(255));
    }

    fn push(&mut self, camera: &Camera, q: V3) {
        let v = camera.view(q);
        let (x, y) = camera.pixel(v3(v.x, v.y, v.z.max(NEAR)));
        self.points.push((x, y, v.z >= NEAR));
    }

    /// Sets the mask's rectangle around the points; returns half-resolution pixels per metre, roughly.
    fn place(&mut self, floor: &Floor<'_>, margin: i32) -> f32 {
        let (mut x0, mut y0, mut x1, mut y1) = (f32::MAX, f32::MAX, f32::MIN, f32::MIN);
        for p in self.points.iter().filter(|p| p.2) {
            x0 = x0.min(p.0);
            y0 = y0.min(p.1);
            x1 = x1.max(p.0);
            y1 = y1.max(p.1);
        }
        self.rect = Rect::default();
        if x1 < x0 {
            return 0.0;
        }
        let frame = Rect { x0: 0, y0: 0, x1: floor.width as i32, y1: floor.height as i32 };
        let all = Rect {
            x0: x0 as i32 - margin,
            y0: y0 as i32 - margin,
            x1: x1 as i32 + margin,
            y1: y1 as i32 + margin,
        };
        let mut r = all.and(&frame);
        if r.is_empty() {
            return 0.0;
        }
        r.x0 &= !1;
        r.y0 &= !1;
        self.rect = r;
        self.w = r.width().div_ceil(2);
        self.h = r.height().div_ceil(2);
        if !(r.y0..r.y1).any(|y| floor.shows(y, r.x0, r.x1)) {
            self.rect = Rect::default();
            return 0.0;
        }
        self.mask.clear();
        self.mask.resize(self.w * self.h, 0);
        ((x1 - x0).min(1.0e4)) * 0.12
    }

    fn triangle(&mut self, a: usize, b: usize, c: usize) {
        let p = [self.points[a], self.points[b], self.points[c]];
        if !(p[0].2 && p[1].2 && p[2].2) {
            return;
        }
        let mut q = p.map(|v| ((v.0 - self.rect.x0 as f32) * 0.5, (v.1 - self.rect.y0 as f32) * 0.5));
        if q.iter().any(|v| !(v.0.abs() < 1.0e5 && v.1.abs() < 1.0e5)) {
            return;
        }
        let (w, h) = (self.w as i32, self.h as i32);
        let first = |y: f32| ((y + 0.5) as i32).clamp(0, h);
        let rows = q.map(|v| first(v.1));
        // Most triangles of a distant object pass between the rows.
        if rows[0] == rows[1] && rows[1] == rows[2] {
            return;
        }
        if q[1].1 < q[0].1 {
            q.swap(0, 1);
        }
        if q[2].1 < q[1].1 {
            q.swap(1, 2);
        }
        if q[1].1 < q[0].1 {
            q.swap(0, 1);
        }
        let slope =
            |a: (f32, f32), b: (f32, f32)| if b.1 - a.1 > 1e-4 { (b.0 - a.0) / (b.1 - a.1) } else { 0.0 };
        let long = slope(q[0], q[2]);
        for (a, b) in [(q[0], q[1]), (q[1], q[2])] {
            let short = slope(a, b);
            for y in first(a.1)..first(b.1) {
                let yc = y as f32 + 0.5;
                let (xa, xb) = (q[0].0 + long * (yc - q[0].1), a.0 + short * (yc - a.1));
                let l = ((xa.min(xb) + 0.5) as i32).clamp(0, w);
                let r = ((xa.max(xb) + 0.5) as i32).clamp(0, w);
                if l < r {
                    self.mask[(y * w + l) as usize..(y * w + r) as usize].fill(255);
                }
            }
        }
    }

    /// One pass of a box filter of `2r + 1` along rows and along columns.
    fn blur(&mut self, r: usize) {
        let r = r.clamp(1, 10);
        for y in 0..self.h {
            let row = &mut self.mask[y * self.w..(y + 1) * self.w];
            self.line.clear();
            self.line.extend_from_slice(row);
            box_filter(&self.line, r, |x, v| row[x] = v);
        }
        self.before.clear();
        self.before.extend_from_slice(&self.mask);
        self.sums.clear();
        self.sums.resize(self.w, 0);
        let (w, h, sums, before) = (self.w, self.h, &mut self.sums, &self.before);
        let row = |y: usize| &before[y * w..(y + 1) * w];
        let inv = inverse(r);
        for y in 0..r.min(h) {
            sums.iter_mut().zip(row(y)).for_each(|(s, v)| *s += u16::from(*v));
        }
        for (y, out) in self.mask.chunks_exact_mut(w).enumerate() {
            if y + r < h {
                sums.iter_mut().zip(row(y + r)).for_each(|(s, v)| *s += u16::from(*v));
            }
            if y > r {
                sums.iter_mut().zip(row(y - r - 1)).for_each(|(s, v)| *s -= u16::from(*v));
            }
            out.iter_mut().zip(&*sums).for_each(|(out, s)| *out = ((u32::from(*s) * inv) >> 16) as u8);
        }
    }

    /// Takes mask * strength / 256 of each ground pixel's light away, rounding what stays down.
    fn darken(&mut self, floor: &mut Floor<'_>, strength: f32) {
        let k = (strength.min(1.0) * 256.0) as u16;
        let Shadow { mask, w, rect, loss, .. } = self;
        for y in rect.y0..rect.y1 {
            let mask = &mask[(y - rect.y0) as usize / 2 * *w..][..*w];
            let Some(from) = mask.iter().position(|m| *m != 0) else { continue };
            let to = mask.iter().rposition(|m| *m != 0).unwrap_or(from);
            let (x0, x1) = (rect.x0 + 2 * from as i32, (rect.x0 + 2 * to as i32 + 2).min(rect.x1));
            if !floor.shows(y, x0, x1) {
                continue;
            }
            let (rgb, full, ground) = floor.row(y, x0, x1);
            loss.resize(loss.len().max(rgb.len()), 0);
            let mask = &mask[from..];
            for (x, (loss, (full, ground))) in
                loss.as_chunks_mut::<3>().0.iter_mut().zip(full.iter().zip(ground)).enumerate()
            {
                let shown = u16::from(*full == 0) & u16::from(*ground != 0);
                *loss = [u16::from(mask[x / 2]) * k * shown; 3];
            }
            for (c, loss) in rgb.iter_mut().zip(&*loss) {
                let v = u16::from(*c);
                let whole = ((u32::from(v) * u32::from(*loss)) >> 16) as u16;
                let rest = u16::from(v.wrapping_mul(*loss) != 0);
                *c = v.wrapping_sub(whole + rest) as u8;
            }
        }
    }

    /// Changes each ground pixel under the mask: `change(value, mask)`, both 0..=255.
    fn apply(&self, floor: &mut Floor<'_>, change: impl Fn(u32, u32) -> u32) {
        for y in self.rect.y0..self.rect.y1 {
            let my = (y - self.rect.y0) as usize / 2;
            let mask = &self.mask[my * self.w..(my + 1) * self.w];
            let at = y as usize * floor.width;
            let ground = floor.origin + y as usize * floor.stride;
            for x in self.rect.x0..self.rect.x1 {
                let m = mask[(x - self.rect.x0) as usize / 2];
                if m != 0 && floor.ground[ground + x as usize] != 0 && floor.full[at + x as usize] == 0 {
                    let p = (at + x as usize) * 3;
                    for c in &mut floor.rgb[p..p + 3] {
                        *c = change(u32::from(*c), u32::from(m)) as u8;
                    }
                }
            }
        }
    }
}

/// 1 / (2r + 1) in 1/65536.
fn inverse(r: usize) -> u32 {
    65536 / (2 * r as u32 + 1)
}

fn box_filter(src: &[u8], r: usize, mut out: impl FnMut(usize, u8)) {
    let n = src.len();
    let inv = inverse(r);
    let mut sum: u32 = src.iter().take(r).map(|v| u32::from(*v)).sum();
    for i in 0..n {
        if i + r < n {
            sum += u32::from(src[i + r]);
        }
        if i > r {
            sum -= u32::from(src[i - r - 1]);
        }
        out(i, ((sum * inv) >> 16) as u8);
    }
}
