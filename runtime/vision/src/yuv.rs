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
}

/// Pixels converted together: enough for any vector unit, few enough to stay in registers and the nearest cache.
const BLOCK: usize = 32;

/// Luma without its floor, and chroma around 0, of a block of pixels.
struct Block {
    y: [i16; BLOCK],
    u: [i16; BLOCK],
    v: [i16; BLOCK],
}

/// Row `y` of a luma and chroma picture as three planes of red, green and blue, `width` bytes each, into `out`.
pub(crate) fn row(picture: &Pixels<'_>, y: usize, k: Coefficients, out: &mut [u8]) {
    let width = picture.width();
    let (luma, chroma) = (picture.row(y), y / 2);
    match picture.format() {
        PixelFormat::Yuyv => blocks(width, k, out, |x, n, b| interleaved::<0, 1>(&luma[2 * x..], n, b)),
        PixelFormat::Uyvy => blocks(width, k, out, |x, n, b| interleaved::<1, 0>(&luma[2 * x..], n, b)),
        PixelFormat::Nv12 => {
            let c = picture.plane_row(1, chroma);
            blocks(width, k, out, |x, n, b| semiplanar::<0>(&luma[x..], &c[x..], n, b));
        }
        PixelFormat::Nv21 => {
            let c = picture.plane_row(1, chroma);
            blocks(width, k, out, |x, n, b| semiplanar::<1>(&luma[x..], &c[x..], n, b));
        }
        PixelFormat::I420 => {
            let (u, v) = (picture.plane_row(1, chroma), picture.plane_row(2, chroma));
            blocks(width, k, out, |x, n, b| planar(&luma[x..], &u[x / 2..], &v[x / 2..], n, b));
        }
        // The caller asks for luma and chroma formats only.
        _ => out.fill(0),
    }
}

/// Lets `fill` take pixels `x..x + n` (`x` and all but the last `n` are even) into a block, and converts it.
#[inline(always)]
fn blocks(width: usize, k: Coefficients, out: &mut [u8], fill: impl Fn(usize, usize, &mut Block)) {
    let (red, rest) = out.split_at_mut(width);
    let (green, blue) = rest.split_at_mut(width);
    let blue = &mut blue[..width];
    let mut b = Block { y: [0; BLOCK], u: [0; BLOCK], v: [0; BLOCK] };
    let mut all = red.chunks_mut(BLOCK).zip(green.chunks_mut(BLOCK)).zip(blue.chunks_mut(BLOCK)).enumerate();
    for (i, ((red, green), blue)) in &mut all {
        fill(i * BLOCK, red.len(), &mut b);
        if let (Ok(red), Ok(green), Ok(blue)) =
            (red.try_into(), (&mut *green).try_into(), (&mut *blue).try_into())
        {
            convert(&b, k, red, green, blue);
        } else {
            let (mut r, mut g, mut l) = ([0; BLOCK], [0; BLOCK], [0; BLOCK]);
            convert(&b, k, &mut r, &mut g, &mut l);
            red.copy_from_slice(&r[..red.len()]);
            green.copy_from_slice(&g[..green.len()]);
            blue.copy_from_slice(&l[..blue.len()]);
        }
    }
}

#[inline(always)]
fn convert(
    b: &Block,
    k: Coefficients,
    red: &mut [u8; BLOCK],
    green: &mut [u8; BLOCK],
    blue: &mut [u8; BLOCK],
) {
    let times = |a: i16, b: i16| i32::from(a) * i32::from(b);
    // At most 256 * 1.17 + 128 * 2.15 in size, which 16 bits hold: compilers clamp those at once.
    let byte = |sum: i32| ((sum >> BITS) as i16).clamp(0, 255) as u8;
    for i in 0..BLOCK {
        let y = times((b.y[i] - k.floor).max(0), k.luma) + (1 << (BITS - 1));
        red[i] = byte(y + times(b.v[i], k.red_v));
        green[i] = byte(y + times(b.u[i], k.green_u) + times(b.v[i], k.green_v));
        blue[i] = byte(y + times(b.u[i], k.blue_u));
    }
}

#[inline(always)]
fn centred(c: u8) -> i16 {
    i16::from(c) - 128
}

/// Four bytes hold two pixels: luma at `LUMA` and `LUMA + 2`, U at `CHROMA`, V at `CHROMA + 2`.
#[inline(always)]
fn interleaved<const LUMA: usize, const CHROMA: usize>(row: &[u8], n: usize, b: &mut Block) {
    let pairs = row.chunks_exact(4).take(n.div_ceil(2));
    let to = b.y.chunks_exact_mut(2).zip(b.u.chunks_exact_mut(2)).zip(b.v.chunks_exact_mut(2));
    for (s, ((y, u), v)) in pairs.zip(to) {
        (y[0], y[1]) = (i16::from(s[LUMA]), i16::from(s[LUMA + 2]));
        u.fill(centred(s[CHROMA]));
        v.fill(centred(s[CHROMA + 2]));
    }
}

#[inline(always)]
fn lumas(luma: &[u8], n: usize, b: &mut Block) {
    for (y, s) in b.y.iter_mut().zip(&luma[..n]) {
        *y = i16::from(*s);
    }
}

/// U is at `U` of each pair, V is the other.
#[inline(always)]
fn semiplanar<const U: usize>(luma: &[u8], chroma: &[u8], n: usize, b: &mut Block) {
    lumas(luma, n, b);
    let pairs = chroma.chunks_exact(2).take(n.div_ceil(2));
    for (s, (u, v)) in pairs.zip(b.u.chunks_exact_mut(2).zip(b.v.chunks_exact_mut(2))) {
        u.fill(centred(s[U]));
        v.fill(centred(s[1 - U]));
    }
}

#[inline(always)]
fn planar(luma: &[u8], us: &[u8], vs: &[u8], n: usize, b: &mut Block) {
    lumas(luma, n, b);
    let pairs = us.iter().zip(vs).take(n.div_ceil(2));
    for ((su, sv), (u, v)) in pairs.zip(b.u.chunks_exact_mut(2).zip(b.v.chunks_exact_mut(2))) {
        u.fill(centred(*su));
        v.fill(centred(*sv));
    }
}
