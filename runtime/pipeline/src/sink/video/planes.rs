//! A picture's colours as the planes of a Y4M frame.

use saltica_vision::Image;

/// Appends a picture as full-range BT.601 planes, chroma averaged over 2x2 pixels (JFIF's conversion, in 16-bit fixed
/// point).
pub(super) fn y4m(picture: &Image, out: &mut Vec<u8>) {
    let (w, h, rgb) = (picture.width(), picture.height(), picture.data());
    let fixed = |v: f64| (v * 65536.0).round() as i32;
    let luma = [fixed(0.299), fixed(0.587), 65536 - fixed(0.299) - fixed(0.587)];
    let (u, v) =
        ([fixed(-0.168_736), fixed(-0.331_264), 32768], [32768, fixed(-0.418_688), fixed(-0.081_312)]);
    let dot = |k: [i32; 3], p: [i32; 3]| k[0] * p[0] + k[1] * p[1] + k[2] * p[2];
    out.extend(rgb.chunks_exact(3).map(|p| {
        let p = [p[0], p[1], p[2]].map(i32::from);
        ((dot(luma, p) + 32768) >> 16) as u8
    }));
    for k in [u, v] {
        for y in (0..h).step_by(2) {
            for x in (0..w).step_by(2) {
                let mut sum = [0i32; 3];
                for (dx, dy) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                    let at = ((y + dy).min(h - 1) * w + (x + dx).min(w - 1)) * 3;
                    for c in 0..3 {
                        sum[c] += i32::from(rgb[at + c]);
                    }
                }
                // The sum of four pixels: two bits more, and the middle at 128.
                out.push((((dot(k, sum) + (1 << 17)) >> 18) + 128).clamp(0, 255) as u8);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_become_jfif_luma_and_chroma() {
        // JFIF 1.02's equations, worked out in floating point for red, green, blue and an odd size.
        let rgb = [[255, 0, 0], [0, 255, 0], [0, 0, 255]].concat();
        let mut out = Vec::new();
        y4m(&Image::from_rgb(3, 1, rgb).unwrap(), &mut out);
        assert_eq!(&out[..3], [76, 150, 29]);
        // Chroma of red and green together, then of blue alone.
        let (u, v) = (&out[3..5], &out[5..7]);
        let near = |a: u8, b: f64| (f64::from(a) - b).abs() <= 1.0;
        assert!(near(u[0], 128.0 - (0.168736 + 0.331264) * 127.5) && near(u[1], 255.0), "{u:?}");
        assert!(
            near(v[0], 128.0 + (0.5 - 0.418688) * 127.5) && near(v[1], 128.0 - 0.081312 * 255.0),
            "{v:?}"
        );
    }
}
