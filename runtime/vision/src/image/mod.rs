//! Pictures in memory and image files.
//!
//! Whatever a file holds becomes packed 8-bit RGB, upright, by these rules:
//!
//! | found | becomes |
//! |---|---|
//! | gray | R = G = B |
//! | gray or colour with alpha | composited over white, in the file's own (gamma-encoded) values, as a browser shows it |
//! | palette | its colours; transparent entries as alpha |
//! | 16 bits a sample | the nearest of 256 levels, `round(v / 257)` |
//! | 1, 2, 4 bits a sample | scaled to 0..255 |
//! | CMYK and YCCK JPEG | inks stored inverted, as Adobe writes them and every reader assumes; `R = C' * K' / 255` |
//! | EXIF or TIFF orientation 1 to 8 | turned and mirrored upright |
//! | animation, several pages | the first frame |
//! | ICC profile | ignored, as the code that trained the models does |
//! | floating-point samples | refused: their range is not known |
//!
//! The format is told from the content, never from the file's name. A JPEG that ends before its end marker is refused:
//! decoders would fill the missing part with gray.

mod encode;
mod file;

pub use encode::EncodedFormat;
pub use file::{JpegScan, JpegScanner, Limits, scan_jpeg};

use crate::yuv::{self, Coefficients};
use crate::{Error, ErrorKind, Result};
use saltica_tensor::{PixelFormat, Pixels};
use std::fmt;

/// A picture: packed RGB, 8 bits a channel, upright.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    width: usize,
    height: usize,
    data: Vec<u8>,
}

impl Image {
    /// A picture of these packed RGB bytes (`width * height * 3` of them).
    pub fn from_rgb(width: usize, height: usize, data: Vec<u8>) -> Result<Self> {
        Pixels::packed(&data, width, height, PixelFormat::Rgb8)?;
        if data.len() != width * height * 3 {
            return Err(Error::new(
                ErrorKind::Shape,
                format!(
                    "{} bytes found, a {width}x{height} RGB picture takes {}",
                    data.len(),
                    width * height * 3
                ),
            ));
        }
        Ok(Image { width, height, data })
    }

    /// A copy of any [`Pixels`] as packed RGB.
    pub fn from_pixels(pixels: &Pixels<'_>) -> Self {
        let (width, height) = (pixels.width(), pixels.height());
        if pixels.format().is_yuv() {
            let k = Coefficients::new(pixels.colorimetry());
            let (mut data, mut planes) = (vec![0; width * height * 3], vec![0; width * 3]);
            for (y, row) in data.chunks_exact_mut(width * 3).enumerate() {
                yuv::row(pixels, y, k, &mut planes);
                for (x, p) in row.chunks_exact_mut(3).enumerate() {
                    (p[0], p[1], p[2]) = (planes[x], planes[width + x], planes[2 * width + x]);
                }
            }
            return Image { width, height, data };
        }
        let [r, g, b] = pixels.format().rgb_offsets();
        let mut data = Vec::with_capacity(width * height * 3);
        for y in 0..height {
            for p in pixels.row(y).chunks_exact(pixels.format().bytes_per_pixel()) {
                data.extend_from_slice(&[p[r], p[g], p[b]]);
            }
        }
        Image { width, height, data }
    }

    /// Pixels in a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The packed RGB bytes.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The packed RGB bytes, to be changed in place.
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.data
    }

    /// The bytes, given away.
    pub fn into_data(self) -> Vec<u8> {
        self.data
    }

    /// The picture as the preprocessing reads it.
    pub fn pixels(&self) -> Pixels<'_> {
        // Every constructor checked the size, so this cannot fail; an empty picture of one black pixel would be wrong.
        match Pixels::packed(&self.data, self.width, self.height, PixelFormat::Rgb8) {
            Ok(p) => p,
            Err(_) => unreachable!("an Image always holds width * height * 3 bytes"),
        }
    }

    /// Red, green and blue at column `x`, row `y`; None outside the picture.
    pub fn pixel(&self, x: usize, y: usize) -> Option<[u8; 3]> {
        let i = (x < self.width && y < self.height).then_some((y * self.width + x) * 3)?;
        Some([self.data[i], self.data[i + 1], self.data[i + 2]])
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{} RGB picture", self.width, self.height)
    }
}
