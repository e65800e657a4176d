//! Luma and chroma to red, green and blue (ITU-R BT.601, BT.709, BT.2020).
//!
//! With Kr and Kb the weights of red and blue in luma, Kg = 1 - Kr - Kb, and y in 0..1, u and v in -0.5..0.5:
//!
//! ```text
//! R = y + 2 (1 - Kr) v
//! G = y - 2 (1 - Kb) Kb / Kg u - 2 (1 - Kr) Kr / Kg v
//! B = y + 2 (1 - Kb) u
//! ```
//! Limited range: `y = (Y - 16) / 219`, `u = (U - 128) / 224`; full range: `Y / 255`, `(U - 128) / 255`. Luma below 16
//! counts as 16 in limited range. A chroma sample serves all pixels it covers (no interpolation), as OpenCV's and
//! libyuv's conversions do. Arithmetic: coefficients of 13 bits, i32 sums, rounded once; at most 1 level from exact.

use saltica_tensor::{Colorimetry, PixelFormat, Pixels};

const BITS: u32 = 13;

/// Fixed-point coefficients of a [`Colorimetry`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coefficients {
    floor: i16,
    luma: i16,
    red_v: i16,
    green_u: i16,
    green_v: i16,
    blue_u: i16,
}

impl Coefficients {
    pub(crate) fn new(colorimetry: Colorimetry) -> Self {
        let (kr, kb) = colorimetry.matrix.weights();
        let kg = 1.0 - kr - kb;
        let (luma, chroma) = if colorimetry.full_range { (1.0, 1.0) } else { (255.0 / 219.0, 255.0 / 224.0) };
        // The largest is 2.14 * 2^13, which fits.
        let fixed = |c: f64| (c * f64::from(1 << BITS)).round() as i16;
        Coefficients {
            floor: if colorimetry.full_range { 0 } else { 16 },
            luma: fixed(luma),
            red_v: fixed(2.0 * (1.0 - kr) * chroma),
            green_u: fixed(-2.0 * (1.0 - kb) * kb / kg * chroma),
            green_v: fixed(-2.0 * (1.0 - kr) * kr / kg * chroma),
            blue_u: fixed(2.0 * (1.0 - kb) * chroma),
        }
    }

    #[inline(always)]
    fn luma(self, y: u8) -> i32 {
        let y = (i16::from(y) - self.floor).max(0);
        i32::from(y) * i32::from(self.luma) + (1 << (BITS - 1))
    }

    /// What chroma adds to red, green and blue.
    #[inline(always)]
    fn chroma(self, u: u8, v: u8) -> [i32; 3] {
        let (u, v) = (i16::from(u) - 128, i16::from(v) - 128);
        let times = |a: i16, b: i16| i32::from(a) * i32::from(b);
        [times(v, self.red_v), times(u, self.green_u) + times(v, self.green_v), times(u, self.blue_u)]
    }
}

#[inline(always)]
fn pixel(out: &mut [u8], y: i32, c: [i32; 3]) {
    for (o, c) in out.iter_mut().zip(c) {
        *o = ((y + c) >> BITS).clamp(0, 255) as u8;
    }
}

/// Row `y` of a luma and chroma picture as packed RGB, `width * 3` bytes into `out`.
pub(crate) fn row(picture: &Pixels<'_>, y: usize, k: Coefficients, out: &mut [u8]) {
    match picture.format() {
        PixelFormat::Yuyv => interleaved::<0, 1>(picture.row(y), k, out),
        PixelFormat::Uyvy => interleaved::<1, 0>(picture.row(y), k, out),
        PixelFormat::Nv12 => semiplanar::<0>(picture.row(y), picture.plane_row(1, y / 2), k, out),
        PixelFormat::Nv21 => semiplanar::<1>(picture.row(y), picture.plane_row(1, y / 2), k, out),
        PixelFormat::I420 => {
            let (u, v) = (picture.plane_row(1, y / 2), picture.plane_row(2, y / 2));
            let chroma = u.iter().zip(v).map(|(u, v)| k.chroma(*u, *v));
            pairs(picture.row(y), chroma, k, out);
        }
        // The caller asks for luma and chroma formats only.
        _ => out.fill(0),
    }
}

/// Four bytes hold two pixels: luma at `LUMA` and `LUMA + 2`, U at `CHROMA`, V at `CHROMA + 2`.
fn interleaved<const LUMA: usize, const CHROMA: usize>(row: &[u8], k: Coefficients, out: &mut [u8]) {
    let mut pixels = out.chunks_exact_mut(6);
    for (o, s) in (&mut pixels).zip(row.chunks_exact(4)) {
        let c = k.chroma(s[CHROMA], s[CHROMA + 2]);
        pixel(&mut o[..3], k.luma(s[LUMA]), c);
        pixel(&mut o[3..], k.luma(s[LUMA + 2]), c);
    }
    let last = pixels.into_remainder();
    if let (3, Some(s)) = (last.len(), row.last_chunk::<4>()) {
        pixel(last, k.luma(s[LUMA]), k.chroma(s[CHROMA], s[CHROMA + 2]));
    }
}

/// U is at `U` of each pair, V is the other.
fn semiplanar<const U: usize>(luma: &[u8], chroma: &[u8], k: Coefficients, out: &mut [u8]) {
    pairs(luma, chroma.chunks_exact(2).map(|c| k.chroma(c[U], c[1 - U])), k, out);
}

fn pairs(luma: &[u8], mut chroma: impl Iterator<Item = [i32; 3]>, k: Coefficients, out: &mut [u8]) {
    let mut pixels = out.chunks_exact_mut(6);
    let mut lumas = luma.chunks_exact(2);
    for (o, y) in (&mut pixels).zip(&mut lumas) {
        let Some(c) = chroma.next() else { return };
        pixel(&mut o[..3], k.luma(y[0]), c);
        pixel(&mut o[3..], k.luma(y[1]), c);
    }
    if let (&[y], Some(c)) = (lumas.remainder(), chroma.next()) {
        pixel(pixels.into_remainder(), k.luma(y), c);
    }
}
