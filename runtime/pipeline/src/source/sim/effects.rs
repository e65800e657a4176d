//! What happens between the scene and the file: halos of lamps, rain, motion blur, sensor noise, JPEG.

use super::camera::{Camera, NEAR};
use super::maths::{Rng, mix};
use super::mesh::Glow;
use super::raster::{Rect, Row};
use crate::{Error, ErrorKind, Result};

/// Gaussian noise by table: each row of a frame starts at another place of it.
#[derive(Clone, Debug)]
pub(super) struct Noise {
    plus: Vec<u8>,
    minus: Vec<u8>,
    sigma: f32,
}

const TABLE: usize = 1 << 18;

impl Noise {
    pub(super) fn new(sigma: f32, row_bytes: usize) -> Noise {
        let mut n = Noise { plus: Vec::new(), minus: Vec::new(), sigma };
        if sigma > 0.0 {
            let mut r = Rng::new(0x0153_u64);
            for _ in 0..TABLE + row_bytes {
                // Twelve uniforms have variance 1; their sum is close to normal.
                let sum: f32 = (0..12).map(|_| r.unit()).sum::<f32>() - 6.0;
                // The random offset rounds without bias, so that small sigmas keep their meaning.
                let v = (sum * sigma + r.unit() + 512.0) as i32 - 512;
                n.plus.push(v.clamp(0, 255) as u8);
                n.minus.push((-v).clamp(0, 255) as u8);
            }
        }
        n
    }

    pub(super) fn apply(&self, rgb: &mut [u8], row_bytes: usize, key: u64) {
        if self.sigma <= 0.0 {
            return;
        }
        for (y, row) in rgb.chunks_exact_mut(row_bytes).enumerate() {
            let at = (mix(key ^ (y as u64) << 32) % TABLE as u64) as usize;
            let (plus, minus) = (&self.plus[at..at + row_bytes], &self.minus[at..at + row_bytes]);
            for ((p, a), s) in row.iter_mut().zip(plus).zip(minus) {
                *p = p.saturating_add(*a).saturating_sub(*s);
            }
        }
    }
}

/// Adds the halo of a lamp, unless something stands before it. `hidden` tells for a pixel and a depth.
pub(super) fn halo(
    rgb: &mut [u8],
    frame: &Rect,
    camera: &Camera,
    g: &Glow,
    hidden: impl Fn(i32, i32, f32) -> bool,
) {
    let v = camera.view(g.at);
    if v.z < NEAR {
        return;
    }
    let to_eye = (camera.pos - g.at).unit();
    let facing = g.dir.unit().dot(to_eye);
    if facing <= 0.05 {
        return;
    }
    let (cx, cy) = camera.pixel(v);
    if !(cx.abs() < 1e5 && cy.abs() < 1e5) {
        return;
    }
    let inside = cx >= 0.0 && cy >= 0.0 && cx < frame.x1 as f32 && cy < frame.y1 as f32;
    if inside && hidden(cx as i32, cy as i32, v.z) {
        return;
    }
    let radius = (g.radius * camera.focal / v.z * (0.4 + 0.9 * facing)).clamp(1.5, 160.0);
    let rect = Rect {
        x0: (cx - radius) as i32 - 1,
        y0: (cy - radius) as i32 - 1,
        x1: (cx + radius) as i32 + 2,
        y1: (cy + radius) as i32 + 2,
    }
    .and(frame);
    let k = 1.0 / (radius * radius);
    let gain = 255.0 * (0.25 + 0.75 * facing);
    let w = frame.width();
    for y in rect.y0..rect.y1 {
        for x in rect.x0..rect.x1 {
            let (dx, dy) = (x as f32 + 0.5 - cx, y as f32 + 0.5 - cy);
            let d = (dx * dx + dy * dy) * k;
            if d < 1.0 {
                let f = (1.0 - d) * (1.0 - d);
                // A bright core in a wide veil.
                let f = f * f * (0.35 + 0.65 * f * f) * gain;
                let p = (y as usize * w + x as usize) * 3;
                for (c, l) in rgb[p..p + 3].iter_mut().zip([g.rgb.x, g.rgb.y, g.rgb.z]) {
                    *c = (f32::from(*c) + f * l).min(255.0) as u8;
                }
            }
        }
    }
}

/// Draws the rain of one frame: streaks whose length follows the shutter.
pub(super) fn rain(rgb: &mut [u8], width: usize, height: usize, key: u64) {
    let mut r = Rng::new(key);
    let count = width * height / 1500;
    let scale = height as f32 / 720.0;
    for _ in 0..count {
        let near = r.unit();
        let length = (6.0 + 34.0 * near * near) * scale;
        let slant = r.range(0.06, 0.16);
        let (x, y) = (r.range(-20.0, width as f32), r.range(-40.0, height as f32));
        let alpha = (20.0 + 40.0 * near) as i32;
        let thick = if near > 0.85 { 2 } else { 1 };
        for k in 0..length as i32 {
            let (px, py) = ((x + slant * k as f32) as i32, y as i32 + k);
            for dx in 0..thick {
                if px + dx >= 0 && py >= 0 && ((px + dx) as usize) < width && (py as usize) < height {
                    let p = (py as usize * width + (px + dx) as usize) * 3;
                    for c in &mut rgb[p..p + 3] {
                        *c = (i32::from(*c) + (((205 - i32::from(*c)) * alpha) >> 8)) as u8;
                    }
                }
            }
        }
    }
}

/// The picture of one object, kept whole because an open shutter smears it.
#[derive(Clone, Debug, Default)]
pub(super) struct Sheet {
    rect: Rect,
    rgba: Vec<[u8; 4]>,
    who: Vec<u8>,
    sums: Vec<[u16; 4]>,
    other: Vec<u8>,
}

impl Sheet {
    pub(super) fn reserve(&mut self, width: usize, height: usize) {
        self.rgba.reserve(width * height);
        self.who.reserve(width * height);
        self.sums.reserve(width * height);
        self.other.reserve(width * height);
    }

    /// A clear sheet over `rect`.
    pub(super) fn start(&mut self, rect: Rect) {
        self.rect = rect;
        let n = rect.width() * rect.height();
        self.rgba.clear();
        self.rgba.resize(n, [0; 4]);
        self.who.clear();
        self.who.resize(n, 0);
    }

    /// Takes a row in.
    pub(super) fn put(&mut self, row: &Row<'_>) {
        let at = (row.y - self.rect.y0) as usize * self.rect.width() + (row.x - self.rect.x0) as usize;
        self.rgba[at..at + row.rgba.len()].copy_from_slice(row.rgba);
        self.who[at..at + row.who.len()].copy_from_slice(row.who);
    }

    /// All its rows, from the top.
    pub(super) fn rows(&mut self) -> impl Iterator<Item = Row<'_>> {
        let (w, r) = (self.rect.width().max(1), self.rect);
        let rows = self.rgba.chunks_exact_mut(w).zip(self.who.chunks_exact_mut(w));
        (r.y0..r.y1).zip(rows).map(move |(y, (rgba, who))| Row { y, x: r.x0, rgba, who })
    }

    /// Smears it along a displacement in pixels, as an open shutter does; it grows within `frame`.
    pub(super) fn smear(&mut self, dx: f32, dy: f32, frame: &Rect) {
        let reach = dx.abs().max(dy.abs()).min(48.0);
        if reach < 1.0 {
            return;
        }
        let k = 1.0 / dx.abs().max(dy.abs());
        let taps = (reach as i32 + 1).clamp(2, 16);
        let (ux, uy) = (dx * k * reach, dy * k * reach);
        let grow_x = (ux.abs() * 0.5) as i32 + 1;
        let grow_y = (uy.abs() * 0.5) as i32 + 1;
        let old = self.rect;
        let rect =
            Rect { x0: old.x0 - grow_x, y0: old.y0 - grow_y, x1: old.x1 + grow_x, y1: old.y1 + grow_y }
                .and(frame);
        let (w, h) = (rect.width(), rect.height());
        self.sums.clear();
        self.sums.resize(w * h, [0; 4]);
        for t in 0..taps {
            let f = t as f32 / (taps - 1) as f32 - 0.5;
            let (ox, oy) =
                (super::maths::floor(ux * f + 0.5) as i32, super::maths::floor(uy * f + 0.5) as i32);
            for y in old.y0..old.y1 {
                let ty = y + oy;
                if ty < rect.y0 || ty >= rect.y1 {
                    continue;
                }
                let src = &self.rgba[(y - old.y0) as usize * old.width()..][..old.width()];
                for (i, c) in src.iter().enumerate() {
                    let tx = old.x0 + i as i32 + ox;
                    if c[3] == 0 || tx < rect.x0 || tx >= rect.x1 {
                        continue;
                    }
                    let s = &mut self.sums[(ty - rect.y0) as usize * w + (tx - rect.x0) as usize];
                    // Eight bits of colour times eight of coverage, scaled to fit sixteen taps.
                    for ch in 0..3 {
                        s[ch] += ((u32::from(c[ch]) * u32::from(c[3])) >> 4) as u16 / 16;
                    }
                    s[3] += u16::from(c[3]);
                }
            }
        }
        self.rgba.clear();
        self.rgba.extend(self.sums.iter().map(|s| {
            if s[3] == 0 {
                return [0; 4];
            }
            let f = |v: u16| ((u32::from(v) * 256) / u32::from(s[3])).min(255) as u8;
            [f(s[0]), f(s[1]), f(s[2]), (u32::from(s[3]) / taps as u32) as u8]
        }));
        // Who owns a pixel stays as it was at the middle of the exposure.
        self.other.clear();
        self.other.resize(w * h, 0);
        for y in old.y0..old.y1 {
            let at = (y - rect.y0) as usize * w + (old.x0 - rect.x0) as usize;
            let from = (y - old.y0) as usize * old.width();
            self.other[at..at + old.width()].copy_from_slice(&self.who[from..from + old.width()]);
        }
        std::mem::swap(&mut self.who, &mut self.other);
        self.rect = rect;
    }
}

/// Passes a frame through JPEG and back. Allocates: the codec works with buffers of its own.
pub(super) fn jpeg(rgb: &mut [u8], width: usize, height: usize, quality: u8) -> Result<()> {
    let fail = |e: image::ImageError| Error::new(ErrorKind::Image, format!("JPEG artefacts: {e}"));
    let mut bytes = Vec::new();
    let mut encoder = image::codecs::jpeg::JpegEncoder::new_with_quality(&mut bytes, quality);
    encoder.encode(rgb, width as u32, height as u32, image::ExtendedColorType::Rgb8).map_err(fail)?;
    let back = image::load_from_memory_with_format(&bytes, image::ImageFormat::Jpeg).map_err(fail)?;
    rgb.copy_from_slice(back.to_rgb8().as_raw());
    Ok(())
}
