//! What the bytes of an image mean.

use crate::{Error, ErrorKind, Result};
use std::fmt;

/// How a picture is stored: 8 bits a sample, one to three planes.
///
/// RGB, BGR and gray are full range 0..255, interleaved. The others are luma (Y) with chroma (U = Cb, V = Cr) at half the
/// horizontal, and in NV12, NV21 and I420 half the vertical resolution, as V4L2 and FFmpeg define them; what their
/// numbers mean as colours is [`Colorimetry`]. A side that is odd has a last chroma sample of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PixelFormat {
    /// Red, green, blue.
    Rgb8,
    /// Blue, green, red (OpenCV's order).
    Bgr8,
    /// One luminance byte.
    Gray8,
    /// Y0 U Y1 V: two pixels in four bytes.
    Yuyv,
    /// U Y0 V Y1: two pixels in four bytes.
    Uyvy,
    /// A plane of Y, then a plane of U V pairs.
    Nv12,
    /// A plane of Y, then a plane of V U pairs.
    Nv21,
    /// A plane of Y, one of U, one of V (V4L2's YU12).
    I420,
}

impl PixelFormat {
    /// Every format.
    pub const ALL: [PixelFormat; 8] = [
        PixelFormat::Rgb8,
        PixelFormat::Bgr8,
        PixelFormat::Gray8,
        PixelFormat::Yuyv,
        PixelFormat::Uyvy,
        PixelFormat::Nv12,
        PixelFormat::Nv21,
        PixelFormat::I420,
    ];

    /// Bytes from one pixel to the next in the first plane.
    pub const fn bytes_per_pixel(self) -> usize {
        match self {
            PixelFormat::Rgb8 | PixelFormat::Bgr8 => 3,
            PixelFormat::Yuyv | PixelFormat::Uyvy => 2,
            PixelFormat::Gray8 | PixelFormat::Nv12 | PixelFormat::Nv21 | PixelFormat::I420 => 1,
        }
    }

    /// Byte offsets of red, green and blue inside a pixel; for luma with chroma, of the luma three times.
    pub const fn rgb_offsets(self) -> [usize; 3] {
        match self {
            PixelFormat::Rgb8 => [0, 1, 2],
            PixelFormat::Bgr8 => [2, 1, 0],
            PixelFormat::Uyvy => [1, 1, 1],
            PixelFormat::Gray8
            | PixelFormat::Yuyv
            | PixelFormat::Nv12
            | PixelFormat::Nv21
            | PixelFormat::I420 => [0, 0, 0],
        }
    }

    /// Whether the samples are luma and chroma, which need a [`Colorimetry`] to become colours.
    pub const fn is_yuv(self) -> bool {
        !matches!(self, PixelFormat::Rgb8 | PixelFormat::Bgr8 | PixelFormat::Gray8)
    }

    /// How many planes there are: 1 to 3.
    pub const fn planes(self) -> usize {
        match self {
            PixelFormat::Nv12 | PixelFormat::Nv21 => 2,
            PixelFormat::I420 => 3,
            _ => 1,
        }
    }

    /// Bytes of one row of plane `plane` in a picture `width` pixels wide.
    pub const fn row_bytes(self, plane: usize, width: usize) -> usize {
        match (self, plane) {
            (PixelFormat::Yuyv | PixelFormat::Uyvy, _) => width.div_ceil(2) * 4,
            (PixelFormat::Nv12 | PixelFormat::Nv21, 1) => width.div_ceil(2) * 2,
            (PixelFormat::I420, 1 | 2) => width.div_ceil(2),
            _ => width * self.bytes_per_pixel(),
        }
    }

    /// Rows of plane `plane` in a picture `height` rows high.
    pub const fn plane_rows(self, plane: usize, height: usize) -> usize {
        if plane > 0 { height.div_ceil(2) } else { height }
    }

    /// Bytes from row to row of plane `plane`, where the first plane's are `stride` and the planes follow each other in one
    /// buffer: V4L2's rule for the formats whose planes are contiguous.
    pub const fn plane_stride(self, plane: usize, stride: usize) -> usize {
        match (self, plane) {
            (PixelFormat::I420, 1 | 2) => stride.div_ceil(2),
            // A row of an odd number of pixels has one chroma pair more than half of them.
            (PixelFormat::Nv12 | PixelFormat::Nv21, 1) => stride.saturating_add(stride % 2),
            _ => stride,
        }
    }

    /// Bytes of a whole picture without gaps; None when that overflows.
    pub const fn packed_bytes(self, width: usize, height: usize) -> Option<usize> {
        let (mut all, mut plane) = (0usize, 0);
        if width > Pixels::MAX_SIDE || height > Pixels::MAX_SIDE {
            return None;
        }
        while plane < self.planes() {
            match self.row_bytes(plane, width).checked_mul(self.plane_rows(plane, height)) {
                Some(bytes) => all += bytes,
                None => return None,
            }
            plane += 1;
        }
        Some(all)
    }

    /// The lower-case name used in messages, descriptions and source addresses.
    pub const fn name(self) -> &'static str {
        match self {
            PixelFormat::Rgb8 => "rgb",
            PixelFormat::Bgr8 => "bgr",
            PixelFormat::Gray8 => "gray",
            PixelFormat::Yuyv => "yuyv",
            PixelFormat::Uyvy => "uyvy",
            PixelFormat::Nv12 => "nv12",
            PixelFormat::Nv21 => "nv21",
            PixelFormat::I420 => "i420",
        }
    }
}

impl fmt::Display for PixelFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The weights of red and blue in luma.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ColorMatrix {
    /// ITU-R BT.601: Kr 0.299, Kb 0.114. What cameras say or mean when they say nothing.
    #[default]
    Bt601,
    /// ITU-R BT.709: Kr 0.2126, Kb 0.0722.
    Bt709,
    /// ITU-R BT.2020 (non-constant luminance): Kr 0.2627, Kb 0.0593.
    Bt2020,
}

impl ColorMatrix {
    /// Kr and Kb.
    pub const fn weights(self) -> (f64, f64) {
        match self {
            ColorMatrix::Bt601 => (0.299, 0.114),
            ColorMatrix::Bt709 => (0.2126, 0.0722),
            ColorMatrix::Bt2020 => (0.2627, 0.0593),
        }
    }
}

/// What the numbers of a luma and chroma picture mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Colorimetry {
    /// Weights of the luma.
    pub matrix: ColorMatrix,
    /// Whether luma and chroma use 0..255 (JPEG); else luma uses 16..235 and chroma 16..240 (video).
    pub full_range: bool,
}

impl fmt::Display for Colorimetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let matrix = match self.matrix {
            ColorMatrix::Bt601 => "BT.601",
            ColorMatrix::Bt709 => "BT.709",
            ColorMatrix::Bt2020 => "BT.2020",
        };
        write!(f, "{matrix} {}", if self.full_range { "full" } else { "limited" })
    }
}

/// A picture that somebody else owns: one to three planes of rows, each at a stride of its own.
#[derive(Clone, Copy)]
pub struct Pixels<'a> {
    planes: [(&'a [u8], usize); 3],
    width: usize,
    height: usize,
    format: PixelFormat,
    colorimetry: Colorimetry,
}

impl<'a> Pixels<'a> {
    /// The largest width and height: coordinates and their fixed-point products fit everywhere they are used.
    pub const MAX_SIDE: usize = 1 << 16;

    /// Rows that follow each other without a gap, and planes likewise.
    pub fn packed(data: &'a [u8], width: usize, height: usize, format: PixelFormat) -> Result<Self> {
        let row = if width > Self::MAX_SIDE { usize::MAX } else { format.row_bytes(0, width) };
        Self::new(data, width, height, row, format)
    }

    /// Rows `stride` bytes apart; further planes follow in the same buffer, at [`PixelFormat::plane_stride`]. Errors when
    /// the picture is empty, a side is beyond [`Self::MAX_SIDE`], the stride is below a row's bytes or `data` ends before
    /// the last row does.
    pub fn new(
        data: &'a [u8],
        width: usize,
        height: usize,
        stride: usize,
        format: PixelFormat,
    ) -> Result<Self> {
        let mut planes: [(&[u8], usize); 3] = [(&[], 0); 3];
        let mut at = 0usize;
        for (p, plane) in planes.iter_mut().enumerate().take(format.planes()) {
            let own = format.plane_stride(p, stride);
            // A plane that starts behind the end is an empty slice here and refused below.
            *plane = (data.get(at..).unwrap_or_default(), own);
            at = at.saturating_add(own.saturating_mul(format.plane_rows(p, height)));
        }
        Self::planar(&planes[..format.planes()], width, height, format)
    }

    /// Planes that lie anywhere, each with its bytes and its stride. Errors as [`Self::new`] does, and when the number of
    /// planes is not the format's.
    pub fn planar(
        planes: &[(&'a [u8], usize)],
        width: usize,
        height: usize,
        format: PixelFormat,
    ) -> Result<Self> {
        let bad = |what: String| Err(Error::new(ErrorKind::Size, what));
        if width == 0 || height == 0 {
            return bad(format!("the picture is empty: {width}x{height} pixels"));
        }
        if width > Self::MAX_SIDE || height > Self::MAX_SIDE {
            return bad(format!(
                "the picture is {width}x{height}, at most {max}x{max} is supported",
                max = Self::MAX_SIDE
            ));
        }
        if planes.len() != format.planes() {
            return bad(format!("{} planes found, {format} has {}", planes.len(), format.planes()));
        }
        let mut own: [(&[u8], usize); 3] = [(&[], 0); 3];
        for (p, &(data, stride)) in planes.iter().enumerate() {
            let (row, rows) = (format.row_bytes(p, width), format.plane_rows(p, height));
            if stride < row {
                return bad(format!(
                    "a stride of {stride} bytes is below the {row} bytes of a row of {width} {format} pixels"
                ));
            }
            let need = stride.checked_mul(rows - 1).and_then(|n| n.checked_add(row));
            if need.is_none_or(|need| data.len() < need) {
                let of = if planes.len() > 1 { format!(" for plane {p}") } else { String::new() };
                return bad(format!(
                    "{} bytes found{of}, {width}x{height} {format} with stride {stride} takes {}",
                    data.len(),
                    need.map_or("more than memory holds".into(), |n| n.to_string())
                ));
            }
            own[p] = (data, stride);
        }
        Ok(Pixels { planes: own, width, height, format, colorimetry: Colorimetry::default() })
    }

    /// The same picture with numbers that mean other colours. RGB, BGR and gray do not look at it.
    pub fn with_colorimetry(self, colorimetry: Colorimetry) -> Self {
        Pixels { colorimetry, ..self }
    }

    /// What the numbers of a luma and chroma picture mean; BT.601 limited unless said otherwise.
    pub fn colorimetry(&self) -> Colorimetry {
        self.colorimetry
    }

    /// Pixels in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Bytes from one row to the next in the first plane.
    pub fn stride(&self) -> usize {
        self.planes[0].1
    }

    /// How the bytes are arranged.
    pub fn format(&self) -> PixelFormat {
        self.format
    }

    /// The bytes of row `y` of the first plane (exactly `width` pixels). Panics below the picture, as slices do.
    #[inline]
    pub fn row(&self, y: usize) -> &'a [u8] {
        self.plane_row(0, y)
    }

    /// The bytes of row `y` of plane `plane`, without the gap behind it. Panics outside the picture, as slices do.
    #[inline]
    pub fn plane_row(&self, plane: usize, y: usize) -> &'a [u8] {
        let rows = self.format.plane_rows(plane, self.height);
        assert!(y < rows, "row {y} of {rows}");
        let (data, stride) = self.planes[plane];
        &data[y * stride..][..self.format.row_bytes(plane, self.width)]
    }
}

impl fmt::Debug for Pixels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{} {} pixels, stride {}", self.width, self.height, self.format, self.stride())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_need_not_fill_its_stride() {
        let data = [7u8; 8 + 6];
        let p = Pixels::new(&data, 2, 2, 8, PixelFormat::Rgb8).unwrap();
        assert_eq!(p.row(1).len(), 6);
        assert!(Pixels::new(&data[..13], 2, 2, 8, PixelFormat::Rgb8).is_err());
    }

    #[test]
    fn impossible_pictures_are_refused() {
        for (w, h, s) in [(0, 1, 0), (1, 0, 3), (2, 1, 5), (usize::MAX, 1, usize::MAX), (1, 70_000, 3)] {
            assert!(Pixels::new(&[0; 64], w, h, s, PixelFormat::Rgb8).is_err(), "{w}x{h} stride {s}");
        }
        assert!(Pixels::new(&[0; 64], 1, 3, usize::MAX, PixelFormat::Gray8).is_err());
    }

    #[test]
    fn planes_follow_each_other_as_v4l2_lays_them_out() {
        // 5x3, stride 8: luma 3 rows of 8; NV12 chroma 2 rows of 8, the last of which ends after 6; I420 2 rows of 4, twice.
        let data: Vec<u8> = (0..100).collect();
        let nv = Pixels::new(&data[..24 + 8 + 6], 5, 3, 8, PixelFormat::Nv12).unwrap();
        assert_eq!(nv.plane_row(1, 1), [32, 33, 34, 35, 36, 37]);
        assert!(Pixels::new(&data[..24 + 8 + 5], 5, 3, 8, PixelFormat::Nv12).is_err());
        let yuv = Pixels::new(&data[..24 + 8 + 4 + 3], 5, 3, 8, PixelFormat::I420).unwrap();
        assert_eq!((yuv.plane_row(1, 0), yuv.plane_row(2, 1)), (&data[24..27], &data[36..39]));
        assert!(Pixels::new(&data[..38], 5, 3, 8, PixelFormat::I420).is_err());
        let yuyv = Pixels::packed(&data[..36], 5, 3, PixelFormat::Yuyv).unwrap();
        assert_eq!(yuyv.row(2), &data[24..36]);
        assert_eq!(PixelFormat::I420.packed_bytes(5, 3), Some(15 + 2 * 6));
        assert_eq!(PixelFormat::Nv12.packed_bytes(1280, 720), Some(1280 * 720 * 3 / 2));
    }

    #[test]
    fn planes_may_lie_anywhere() {
        let (luma, chroma) = ([1u8; 16], [2u8; 8]);
        let p = Pixels::planar(&[(&luma, 4), (&chroma, 4)], 4, 4, PixelFormat::Nv21).unwrap();
        assert_eq!((p.row(3), p.plane_row(1, 1)), (&[1u8; 4][..], &[2u8; 4][..]));
        assert!(Pixels::planar(&[(&luma, 4)], 4, 4, PixelFormat::Nv21).is_err());
        assert!(Pixels::planar(&[(&luma, 4), (&chroma[..7], 4)], 4, 4, PixelFormat::Nv21).is_err());
    }
}
