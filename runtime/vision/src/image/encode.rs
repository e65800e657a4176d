//! Image files out.

use super::Image;
use crate::{Error, ErrorKind, Result};
use image::codecs::{jpeg::JpegEncoder, png::PngEncoder};
use image::{ExtendedColorType, ImageEncoder};
use std::path::Path;

/// A file format pictures are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodedFormat {
    /// Lossy, with a quality of 1 to 100.
    Jpeg(u8),
    /// Lossless.
    Png,
}

impl Image {
    /// The picture as the bytes of an image file.
    pub fn encode(&self, format: EncodedFormat) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let (w, h, color) = (self.width as u32, self.height as u32, ExtendedColorType::Rgb8);
        match format {
            EncodedFormat::Jpeg(quality) => JpegEncoder::new_with_quality(&mut out, quality.clamp(1, 100))
                .write_image(&self.data, w, h, color),
            EncodedFormat::Png => PngEncoder::new(&mut out).write_image(&self.data, w, h, color),
        }
        .map_err(|e| Error::new(ErrorKind::Image, format!("the picture cannot be encoded: {e}")))?;
        Ok(out)
    }

    /// Writes the picture as JPEG (quality 92) or PNG, told by the file name's extension.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        let format = match extension.as_str() {
            "jpg" | "jpeg" => EncodedFormat::Jpeg(92),
            "png" => EncodedFormat::Png,
            other => {
                return Err(Error::new(
                    ErrorKind::Io,
                    format!("{}: pictures are written as .jpg or .png, not as '.{other}'", path.display()),
                ));
            }
        };
        std::fs::write(path, self.encode(format)?)
            .map_err(|e| Error::new(ErrorKind::Io, format!("{}: {e}", path.display())))
    }
}
