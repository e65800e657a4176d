//! What the bytes of an image mean.

use crate::{Error, ErrorKind, Result};
use std::fmt;

/// How a pixel is stored. All formats here are 8 bits a channel, interleaved, full range 0..255.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PixelFormat {
    /// Red, green, blue.
    Rgb8,
    /// Blue, green, red (OpenCV's order).
    Bgr8,
    /// One luminance byte.
    Gray8,
}

impl PixelFormat {
    /// Bytes from one pixel to the next.
    pub const fn bytes_per_pixel(self) -> usize {
        match self {
            PixelFormat::Rgb8 | PixelFormat::Bgr8 => 3,
            PixelFormat::Gray8 => 1,
        }
    }

    /// Byte offsets of red, green and blue inside a pixel.
    pub const fn rgb_offsets(self) -> [usize; 3] {
        match self {
            PixelFormat::Rgb8 => [0, 1, 2],
            PixelFormat::Bgr8 => [2, 1, 0],
            PixelFormat::Gray8 => [0, 0, 0],
        }
    }

    /// The lower-case name used in messages and descriptions.
    pub const fn name(self) -> &'static str {
        match self {
            PixelFormat::Rgb8 => "rgb",
            PixelFormat::Bgr8 => "bgr",
            PixelFormat::Gray8 => "gray",
        }
    }
}

impl fmt::Display for PixelFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A picture that somebody else owns: rows of pixels, `stride` bytes apart.
#[derive(Clone, Copy)]
pub struct Pixels<'a> {
    data: &'a [u8],
    width: usize,
    height: usize,
    stride: usize,
    format: PixelFormat,
}

impl<'a> Pixels<'a> {
    /// The largest width and height: coordinates and their fixed-point products fit everywhere they are used.
    pub const MAX_SIDE: usize = 1 << 16;

    /// Rows that follow each other without a gap.
    pub fn packed(data: &'a [u8], width: usize, height: usize, format: PixelFormat) -> Result<Self> {
        Self::new(data, width, height, width.saturating_mul(format.bytes_per_pixel()), format)
    }

    /// Rows `stride` bytes apart. Errors when the picture is empty, a side is beyond [`Self::MAX_SIDE`], the stride is
    /// below a row's bytes or `data` ends before the last row does.
    pub fn new(
        data: &'a [u8],
        width: usize,
        height: usize,
        stride: usize,
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
        let row = width * format.bytes_per_pixel();
        if stride < row {
            return bad(format!(
                "a stride of {stride} bytes is below the {row} bytes of a row of {width} {format} pixels"
            ));
        }
        let need = stride.checked_mul(height - 1).and_then(|n| n.checked_add(row));
        match need {
            Some(need) if data.len() >= need => Ok(Pixels { data, width, height, stride, format }),
            _ => bad(format!(
                "{} bytes found, {width}x{height} {format} with stride {stride} takes {}",
                data.len(),
                need.map_or("more than memory holds".into(), |n| n.to_string())
            )),
        }
    }

    /// Pixels in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Bytes from one row to the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// What a pixel's bytes mean.
    pub fn format(&self) -> PixelFormat {
        self.format
    }

    /// The bytes of row `y` (exactly `width` pixels). Panics below the picture, as slices do.
    #[inline]
    pub fn row(&self, y: usize) -> &'a [u8] {
        assert!(y < self.height, "row {y} of {}", self.height);
        &self.data[y * self.stride..][..self.width * self.format.bytes_per_pixel()]
    }
}

impl fmt::Debug for Pixels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{} {} pixels, stride {}", self.width, self.height, self.format, self.stride)
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
}
