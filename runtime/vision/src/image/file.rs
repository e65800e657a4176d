//! Image files in: sniffing, limits, orientation, and the channel rules of the module above.

use super::Image;
use crate::{Error, ErrorKind, Result};
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader};
use saltica_tensor::Pixels;
use std::io::Cursor;
use std::path::Path;

/// How large a file or picture may be before it is refused. Checked against the header, before pixels are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of a file. Default 512 MiB.
    pub file_bytes: u64,
    /// Most pixels of a picture. Default 2^27 (134 megapixels, 403 MB as RGB).
    pub pixels: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { file_bytes: 512 << 20, pixels: 1 << 27 }
    }
}

const FORMATS: &str = "JPEG, PNG, WebP, BMP and TIFF are supported";

impl Image {
    /// Reads an image file, with the default [`Limits`].
    pub fn open(path: impl AsRef<Path>) -> Result<Image> {
        Self::open_with(path, &Limits::default())
    }

    /// Reads an image file.
    pub fn open_with(path: impl AsRef<Path>, limits: &Limits) -> Result<Image> {
        let path = path.as_ref();
        let io = |e: std::io::Error| Error::new(ErrorKind::Io, format!("{}: {e}", path.display()));
        let meta = std::fs::metadata(path).map_err(io)?;
        if meta.is_dir() {
            return Err(Error::new(
                ErrorKind::Io,
                format!("{}: a folder found, an image file expected", path.display()),
            ));
        }
        check_file_size(meta.len(), limits).map_err(|e| e.at(path.display()))?;
        let bytes = crate::read::read(path, limits.file_bytes).map_err(io)?;
        Self::decode_with(&bytes, limits).map_err(|e| e.at(path.display()))
    }

    /// Decodes the bytes of an image file, with the default [`Limits`].
    pub fn decode(bytes: &[u8]) -> Result<Image> {
        Self::decode_with(bytes, &Limits::default())
    }

    /// Decodes the bytes of an image file.
    pub fn decode_with(bytes: &[u8], limits: &Limits) -> Result<Image> {
        check_file_size(bytes.len() as u64, limits)?;
        let format = sniff(bytes)?;
        if format == ImageFormat::Jpeg && scan_jpeg(bytes).end.is_none() {
            return Err(bad("the JPEG ends before its end marker: the file is cut off or damaged"));
        }
        let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
        // Until the picture's size is known, a decoder gets what headers need: a colour profile may inflate to gigabytes.
        let mut allowed = image::Limits::default();
        allowed.max_alloc = Some(HEADER_BYTES);
        reader.limits(allowed.clone());
        let mut decoder = reader.into_decoder().map_err(|e| from_image(e, format))?;
        let (w, h) = decoder.dimensions();
        if w == 0 || h == 0 {
            return Err(bad(format!("the picture is empty: {w}x{h} pixels")));
        }
        let side = Pixels::MAX_SIDE as u64;
        if w as u64 > side || h as u64 > side || w as u64 * h as u64 > limits.pixels {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "the picture is {w}x{h}, at most {} pixels and sides of {side} are allowed: scale it down first",
                    limits.pixels
                ),
            ));
        }
        // A decoder may hold the picture at up to 8 bytes a pixel (16-bit RGBA) beside its own buffers.
        allowed.max_alloc = Some((w as u64 * h as u64).saturating_mul(8).saturating_add(HEADER_BYTES));
        decoder.set_limits(allowed).map_err(|e| from_image(e, format))?;
        // A damaged orientation entry is no reason to refuse the picture.
        let orientation = decoder.orientation().unwrap_or(image::metadata::Orientation::NoTransforms);
        let mut picture = DynamicImage::from_decoder(decoder).map_err(|e| from_image(e, format))?;
        picture.apply_orientation(orientation);
        to_rgb(picture)
    }
}

/// What a decoder may allocate before the picture's size is known, and beside the picture after that.
const HEADER_BYTES: u64 = 32 << 20;

fn bad(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Image, what)
}

fn check_file_size(bytes: u64, limits: &Limits) -> Result<()> {
    if bytes > limits.file_bytes {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("{bytes} bytes found, an image file of at most {} bytes is read", limits.file_bytes),
        ));
    }
    Ok(())
}

fn sniff(bytes: &[u8]) -> Result<ImageFormat> {
    if bytes.is_empty() {
        return Err(bad(format!("the file is empty; {FORMATS}")));
    }
    match image::guess_format(bytes) {
        Ok(
            f @ (ImageFormat::Jpeg
            | ImageFormat::Png
            | ImageFormat::WebP
            | ImageFormat::Bmp
            | ImageFormat::Tiff),
        ) => Ok(f),
        Ok(other) => Err(bad(format!("a {} file found; {FORMATS}", other.extensions_str().join("/")))),
        Err(_) => {
            let head: Vec<String> = bytes.iter().take(8).map(|b| format!("{b:02x}")).collect();
            Err(bad(format!("no image format starts with the bytes {}; {FORMATS}", head.join(" "))))
        }
    }
}

fn from_image(e: ImageError, format: ImageFormat) -> Error {
    let name = format.extensions_str().first().copied().unwrap_or("image").to_uppercase();
    match e {
        ImageError::Limits(e) => {
            Error::new(ErrorKind::TooLarge, format!("the {name} picture exceeds the size limits: {e}"))
        }
        ImageError::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
            bad(format!("the {name} file is cut off"))
        }
        e => bad(format!("the {name} file cannot be decoded: {e}")),
    }
}

/// Where a JPEG's markers are (ITU-T T.81 annex B), as [`scan_jpeg`] finds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JpegScan {
    /// Just behind its end-of-image marker. None: it is cut off; decoders would fill the missing part with gray.
    pub end: Option<usize>,
    /// Another start-of-image marker behind its first scan and before `end`: in a stream of pictures the first one is cut
    /// off and the next starts here.
    pub restart: Option<usize>,
}

/// Walks a JPEG's segments and scans up to its end-of-image marker.
pub fn scan_jpeg(bytes: &[u8]) -> JpegScan {
    JpegScanner::default().scan(bytes)
}

/// The same for a picture that comes in pieces: it goes on where the bytes so far ended.
#[derive(Clone, Debug)]
pub struct JpegScanner {
    /// Everything before is understood.
    at: usize,
    /// Scans that have begun.
    scans: usize,
    /// Whether `at` lies in entropy-coded data.
    coded: bool,
    found: JpegScan,
}

impl Default for JpegScanner {
    fn default() -> JpegScanner {
        JpegScanner { at: 2, scans: 0, coded: false, found: JpegScan::default() }
    }
}

impl JpegScanner {
    /// What the markers in `bytes` say, which begin with all that was given before.
    pub fn scan(&mut self, bytes: &[u8]) -> JpegScan {
        while self.found.end.is_none() && self.step(bytes) {}
        self.found
    }

    /// Goes to the next marker; false when the bytes end before it.
    fn step(&mut self, bytes: &[u8]) -> bool {
        let Some(rest) = bytes.get(self.at..) else { return false };
        // In between segments stray bytes are passed over as decoders do, and entropy-coded data is.
        let Some(skip) = rest.iter().position(|&b| b == 0xff) else {
            self.at = bytes.len();
            return false;
        };
        self.at += skip;
        let Some(&marker) = bytes.get(self.at + 1) else { return false };
        match marker {
            // A fill byte.
            0xff => {
                self.at += 1;
                return true;
            }
            // A stuffed byte or a restart, which end no coded data.
            0x00 | 0xd0..=0xd7 if self.coded => {
                self.at += 2;
                return true;
            }
            0xd8 if self.scans > 0 && self.found.restart.is_none() => self.found.restart = Some(self.at),
            _ => {}
        }
        self.coded = false;
        match marker {
            0xd9 => self.found.end = Some(self.at + 2),
            // No length follows: stuffed byte, TEM, RSTn, SOI.
            0x00 | 0x01 | 0xd0..=0xd8 => self.at += 2,
            _ => {
                let Some(&[hi, lo]) = bytes.get(self.at + 2..self.at + 4) else { return false };
                self.at += 2 + usize::from(u16::from_be_bytes([hi, lo])).max(2);
                self.coded = marker == 0xda;
                self.scans += usize::from(self.coded);
            }
        }
        true
    }
}

/// The module's channel rules, for a picture that was decoded elsewhere. It is taken as upright.
impl TryFrom<DynamicImage> for Image {
    type Error = Error;

    fn try_from(picture: DynamicImage) -> Result<Image> {
        to_rgb(picture)
    }
}

fn to_rgb(picture: DynamicImage) -> Result<Image> {
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    let data = match picture {
        DynamicImage::ImageRgb8(p) => p.into_raw(),
        DynamicImage::ImageLuma8(_) | DynamicImage::ImageLuma16(_) | DynamicImage::ImageRgb16(_) => {
            picture.into_rgb8().into_raw()
        }
        DynamicImage::ImageLumaA8(_)
        | DynamicImage::ImageRgba8(_)
        | DynamicImage::ImageLumaA16(_)
        | DynamicImage::ImageRgba16(_) => {
            let rgba = picture.into_rgba8().into_raw();
            let mut rgb = Vec::with_capacity(width * height * 3);
            for p in rgba.chunks_exact(4) {
                let a = u32::from(p[3]);
                let over = |c: u8| ((u32::from(c) * a + 255 * (255 - a) + 127) / 255) as u8;
                rgb.extend_from_slice(&[over(p[0]), over(p[1]), over(p[2])]);
            }
            rgb
        }
        other => {
            return Err(bad(format!(
                "samples of type {:?} found, integer samples of up to 16 bits expected: convert the file",
                other.color()
            )));
        }
    };
    Image::from_rgb(width, height, data)
}
