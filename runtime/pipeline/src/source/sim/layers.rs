//! Objects laid over the street from the nearest to the farthest, so that what is hidden costs little.
//!
//! A pixel that an object covers wholly is final: whatever comes later lies behind it. Pixels covered in part are noted
//! and blended when everything behind them is there, the farthest first. This gives the bits that painting from the
//! farthest to the nearest would.

use super::raster::{Rect, Row};

#[derive(Clone, Debug, Default)]
pub(super) struct Layers {
    width: usize,
    /// Whose each pixel is: two numbers an object, for a bicycle and its rider; 0 for the street's.
    pub(super) owner: Vec<u8>,
    /// 1 where a pixel is final, else 0.
    pub(super) full: Vec<u8>,
    /// Position and colour of pixels covered in part, the nearest objects first.
    edges: Vec<(u32, [u8; 4])>,
}

impl Layers {
    pub(super) fn new(width: usize, height: usize) -> Layers {
        let n = width * height;
        Layers { width, owner: vec![0; n], full: vec![0; n], edges: Vec::with_capacity(n) }
    }

    pub(super) fn start(&mut self) {
        self.owner.fill(0);
        self.full.fill(0);
        self.edges.clear();
    }

    /// Whether everything within `rect` is final or hidden by the street itself, as `behind` says of a row and column.
    pub(super) fn hide(&self, rect: &Rect, behind: impl Fn(usize, usize) -> bool) -> bool {
        let xs = rect.x0 as usize..rect.x1 as usize;
        (rect.y0 as usize..rect.y1 as usize)
            .all(|y| xs.clone().all(|x| self.full[y * self.width + x] != 0 || behind(y, x)))
    }

    /// Lays a row of object `id`, which must lie behind all objects before it, into packed RGB.
    pub(super) fn put(&mut self, rgb: &mut [u8], id: usize, row: &Row<'_>) {
        let (at, n) = (row.y as usize * self.width + row.x as usize, row.rgba.len());
        for (o, p) in self.owner[at..at + n].iter_mut().zip(row.who.iter()) {
            // All bits where the pixel is nobody's yet and this object's now: no branch, sixteen pixels at a time.
            let takes = 0u8.wrapping_sub(u8::from(*o == 0) & u8::from(*p != 0));
            *o |= ((2 * id) as u8).wrapping_add(*p) & takes;
        }
        let (fours, rest) = row.rgba.as_chunks::<4>();
        let (dst, dst_rest) = rgb[at * 3..(at + n) * 3].as_chunks_mut::<12>();
        let (full, full_rest) = self.full[at..at + n].as_chunks_mut::<4>();
        for (k, ((c, dst), full)) in fours.iter().zip(dst).zip(full).enumerate() {
            let [a, b, d, e] = c.map(u32::from_le_bytes);
            if a & b & d & e >= 0xff00_0000 && u32::from_le_bytes(*full) == 0 {
                // Four pixels of four bytes become three words.
                let words = [a & 0xff_ffff | b << 24, b >> 8 & 0xffff | d << 16, d >> 16 & 0xff | e << 8];
                for (to, word) in dst.as_chunks_mut::<4>().0.iter_mut().zip(words) {
                    *to = word.to_le_bytes();
                }
                *full = [1; 4];
            } else {
                mix(&mut self.edges, at + 4 * k, c, dst, full);
            }
        }
        mix(&mut self.edges, at + n - rest.len(), rest, dst_rest, full_rest);
    }

    /// Blends what was noted; the picture is complete then.
    pub(super) fn blend(&self, rgb: &mut [u8]) {
        let (rgb, _) = rgb.as_chunks_mut::<3>();
        for (at, c) in self.edges.iter().rev() {
            blend(&mut rgb[*at as usize], c);
        }
    }
}

/// Lays pixels of any coverage, the first of which is at `at`.
fn mix(edges: &mut Vec<(u32, [u8; 4])>, at: usize, row: &[[u8; 4]], rgb: &mut [u8], full: &mut [u8]) {
    let (rgb, _) = rgb.as_chunks_mut::<3>();
    for (k, ((c, dst), full)) in row.iter().zip(rgb).zip(full).enumerate() {
        if c[3] == 0 || *full != 0 {
            continue;
        }
        if c[3] == 255 {
            dst.copy_from_slice(&c[..3]);
            *full = 1;
        } else {
            edges.push(((at + k) as u32, *c));
        }
    }
}

/// Blends a pixel over another.
#[inline]
pub(super) fn blend(dst: &mut [u8; 3], c: &[u8; 4]) {
    let a = i32::from(c[3]) + i32::from(c[3] >> 7);
    for (d, c) in dst.iter_mut().zip(c) {
        let below = i32::from(*d);
        *d = (below + (((i32::from(*c) - below) * a) >> 8)) as u8;
    }
}
