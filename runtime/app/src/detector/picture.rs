use crate::{Error, ErrorKind, Result};
use image::DynamicImage;
use ndarray::ArrayView3;
use saltica_tensor::{PixelFormat, Pixels};
use saltica_vision::Image;

/// A picture to look at: borrowed where its bytes lie as the detector reads them, else converted.
pub enum Picture<'a> {
    /// Bytes that somebody else owns.
    Borrowed(Pixels<'a>),
    /// A converted copy.
    Owned(Image),
}

impl Picture<'_> {
    /// The pixels.
    pub fn pixels(&self) -> Pixels<'_> {
        match self {
            Picture::Borrowed(p) => *p,
            Picture::Owned(i) => i.pixels(),
        }
    }
}

impl<'a> From<&'a Image> for Picture<'a> {
    fn from(i: &'a Image) -> Self {
        Picture::Borrowed(i.pixels())
    }
}

impl<'a> From<Pixels<'a>> for Picture<'a> {
    fn from(p: Pixels<'a>) -> Self {
        Picture::Borrowed(p)
    }
}

impl<'a> TryFrom<&'a DynamicImage> for Picture<'a> {
    type Error = Error;

    /// RGB and gray of 8 bits a channel are borrowed, the rest is converted by [`Image`]'s channel rules.
    fn try_from(i: &'a DynamicImage) -> Result<Self> {
        let packed = |data: &'a [u8], format| {
            Pixels::packed(data, i.width() as usize, i.height() as usize, format).map_err(Error::from)
        };
        Ok(match i {
            DynamicImage::ImageRgb8(p) => Picture::Borrowed(packed(p.as_raw(), PixelFormat::Rgb8)?),
            DynamicImage::ImageLuma8(p) => Picture::Borrowed(packed(p.as_raw(), PixelFormat::Gray8)?),
            other => Picture::Owned(Image::try_from(other.clone())?),
        })
    }
}

impl<'a> TryFrom<ArrayView3<'a, u8>> for Picture<'a> {
    type Error = Error;

    /// Rows, columns, channels (red, green, blue). Borrowed if the bytes lie in that order without gaps.
    fn try_from(a: ArrayView3<'a, u8>) -> Result<Self> {
        let (height, width, channels) = a.dim();
        if channels != 3 {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("an array of {height}x{width}x{channels} found, rows x columns x 3 (RGB) expected"),
            ));
        }
        Ok(match a.to_slice() {
            Some(data) => Picture::Borrowed(Pixels::packed(data, width, height, PixelFormat::Rgb8)?),
            None => Picture::Owned(Image::from_rgb(width, height, a.iter().copied().collect())?),
        })
    }
}
