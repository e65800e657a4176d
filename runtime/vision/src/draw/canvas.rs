//! Shapes drawn into a picture. Coordinates may be anywhere, also outside the picture, also not finite.

use crate::Image;

pub(super) struct Canvas<'a> {
    width: usize,
    height: usize,
    data: &'a mut [u8],
}

impl<'a> Canvas<'a> {
    pub(super) fn new(picture: &'a mut Image) -> Self {
        Canvas { width: picture.width(), height: picture.height(), data: picture.data_mut() }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn height(&self) -> usize {
        self.height
    }

    /// Mixes a colour into a pixel: `cover` 0 leaves it, 1 replaces it.
    pub(super) fn mix(&mut self, x: usize, y: usize, color: [u8; 3], cover: f32) {
        if x >= self.width || y >= self.height {
            return;
        }
        let at = (y * self.width + x) * 3;
        for (p, c) in self.data[at..at + 3].iter_mut().zip(color) {
            *p = (f32::from(*p) + (f32::from(c) - f32::from(*p)) * cover + 0.5) as u8;
        }
    }

    /// Pixels whose centre lies in `[lo, hi)`, inside a side of `n` pixels.
    fn span(lo: f32, hi: f32, n: usize) -> std::ops::Range<usize> {
        let at = |v: f32| (v.round().max(0.0) as usize).min(n);
        at(lo)..at(hi)
    }

    /// A filled upright rectangle.
    pub(super) fn fill(&mut self, [x1, y1, x2, y2]: [f32; 4], color: [u8; 3]) {
        let columns = Self::span(x1, x2, self.width);
        for y in Self::span(y1, y2, self.height) {
            let row = &mut self.data[y * self.width * 3..][..self.width * 3];
            row[columns.start * 3..columns.end.max(columns.start) * 3]
                .chunks_exact_mut(3)
                .for_each(|p| p.copy_from_slice(&color));
        }
    }

    /// The outline of an upright box, `line` pixels wide, inside the box; at least one pixel of it is in the picture.
    pub(super) fn frame(&mut self, b: [f32; 4], line: usize, color: [u8; 3]) {
        let edge = |lo: f32, hi: f32, n: usize| {
            let lo = (lo.round().max(0.0) as usize).min(n - 1);
            (lo as f32, (hi.round().max(0.0) as usize).clamp(lo + 1, n) as f32)
        };
        let ((x1, x2), (y1, y2)) = (edge(b[0], b[2], self.width), edge(b[1], b[3], self.height));
        let l = line as f32;
        let (left, right) = ((x1 + l).min(x2), (x2 - l).max(x1));
        let (top, bottom) = ((y1 + l).min(y2), (y2 - l).max(y1));
        self.fill([x1, y1, x2, top], color);
        self.fill([x1, bottom, x2, y2], color);
        self.fill([x1, y1, left, y2], color);
        self.fill([right, y1, x2, y2], color);
    }

    /// Mixes a colour into the pixels of a box for which `inside` holds.
    pub(super) fn blend(
        &mut self,
        b: [f32; 4],
        color: [u8; 3],
        cover: f32,
        inside: impl Fn(usize, usize) -> bool,
    ) {
        for y in Self::span(b[1] - 0.5, b[3] + 0.5, self.height) {
            for x in Self::span(b[0] - 0.5, b[2] + 0.5, self.width) {
                if inside(x, y) {
                    self.mix(x, y, color, cover);
                }
            }
        }
    }

    /// A line with round ends and smooth borders.
    pub(super) fn segment(&mut self, a: (f32, f32), b: (f32, f32), width: f32, color: [u8; 3]) {
        let Some((a, b)) = self.clip(a, b, width) else { return };
        let r = width / 2.0;
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let length2 = dx * dx + dy * dy;
        for y in Self::span(a.1.min(b.1) - r - 1.0, a.1.max(b.1) + r + 1.0, self.height) {
            let py = y as f32 + 0.5 - a.1;
            // Only the columns near where the line crosses this row.
            let (mut lo, mut hi) = (a.0.min(b.0), a.0.max(b.0));
            if dy.abs() > 1e-3 {
                let reach = (r + 1.0) * length2.sqrt() / dy.abs();
                let cross = a.0 + dx * py / dy;
                (lo, hi) = (lo.max(cross - reach), hi.min(cross + reach));
            }
            for x in Self::span(lo - r - 1.0, hi + r + 1.0, self.width) {
                let px = x as f32 + 0.5 - a.0;
                let t = if length2 > 0.0 { ((px * dx + py * dy) / length2).clamp(0.0, 1.0) } else { 0.0 };
                let distance = (px - t * dx).hypot(py - t * dy);
                let cover = (r + 0.5 - distance).clamp(0.0, 1.0);
                if cover > 0.0 {
                    self.mix(x, y, color, cover);
                }
            }
        }
    }

    /// The part of a line near the picture (Liang and Barsky 1984), so that far ends cost nothing.
    fn clip(&self, a: (f32, f32), b: (f32, f32), margin: f32) -> Option<((f32, f32), (f32, f32))> {
        let (ax, ay) = (f64::from(a.0), f64::from(a.1));
        let (dx, dy) = (f64::from(b.0) - ax, f64::from(b.1) - ay);
        if !(ax.is_finite() && ay.is_finite() && dx.is_finite() && dy.is_finite()) {
            return None;
        }
        let m = f64::from(margin) + 2.0;
        let (mut t0, mut t1) = (0.0f64, 1.0f64);
        for (d, from, n) in [(dx, ax, self.width), (dy, ay, self.height)] {
            for (p, q) in [(-d, from + m), (d, n as f64 + m - from)] {
                if p == 0.0 {
                    if q < 0.0 {
                        return None;
                    }
                } else if p < 0.0 {
                    t0 = t0.max(q / p);
                } else {
                    t1 = t1.min(q / p);
                }
            }
        }
        let at = |t: f64| ((ax + dx * t) as f32, (ay + dy * t) as f32);
        (t0 <= t1).then(|| (at(t0), at(t1)))
    }

    /// A filled circle with a smooth border.
    pub(super) fn disc(&mut self, center: (f32, f32), radius: f32, color: [u8; 3]) {
        self.segment(center, center, radius * 2.0, color);
    }
}
