//! JPEG pictures from cameras and AVI files: checked first, then decoded into a buffer that goes round.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use saltica_tensor::PixelFormat;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::DropReason;
use crate::frame::{FrameFormat, Lease, Pool};

/// Whether bytes can be a whole JPEG: a start marker, and an end marker where segments and scans end (ITU-T T.81 annex B).
/// What follows the end (cameras pad their buffers) does not matter.
pub(crate) fn check(bytes: &[u8]) -> Result<(), DropReason> {
    if bytes.is_empty() {
        return Err(DropReason::Empty);
    }
    if !bytes.starts_with(&[0xff, 0xd8]) {
        return Err(DropReason::Decode);
    }
    if saltica_vision::scan_jpeg(bytes).end.is_some() { Ok(()) } else { Err(DropReason::NoEndMarker) }
}

/// Decodes one picture after the other.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// A picture with tables put in, for cameras that leave them out.
    completed: Vec<u8>,
}

impl Decoder {
    /// Largest side: beyond what cameras give, a damaged header would ask for gigabytes.
    const MOST: usize = 8192;

    /// Decodes to RGB, in a buffer of `pool`, waiting at most `wait` for one.
    pub(crate) fn decode(
        &mut self,
        bytes: &[u8],
        pool: &Arc<Pool>,
        wait: Duration,
    ) -> Result<(FrameFormat, Lease), DropReason> {
        let bytes = if has_huffman_tables(bytes) {
            bytes
        } else {
            // Motion JPEG may leave the standard tables out (AVI and UVC cameras do). This marker says so to the decoder.
            self.completed.clear();
            self.completed.extend_from_slice(&[0xff, 0xd8, 0xff, 0xe0, 0, 7]);
            self.completed.extend_from_slice(b"AVI1\0");
            self.completed.extend_from_slice(bytes.get(2..).unwrap_or_default());
            &self.completed
        };
        // The decoder's authors do not rule out panics on damaged input.
        catch_unwind(AssertUnwindSafe(|| decode(bytes, pool, wait))).unwrap_or(Err(DropReason::Decode))
    }
}

fn decode(bytes: &[u8], pool: &Arc<Pool>, wait: Duration) -> Result<(FrameFormat, Lease), DropReason> {
    let options = DecoderOptions::default()
        .set_max_width(Decoder::MOST)
        .set_max_height(Decoder::MOST)
        // Not strict would fill what is missing with gray.
        .set_strict_mode(true)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(|_| DropReason::Decode)?;
    let info = decoder.info().ok_or(DropReason::Decode)?;
    let (width, height) = (usize::from(info.width), usize::from(info.height));
    let format = FrameFormat::packed(PixelFormat::Rgb8, width, height).map_err(|_| DropReason::Decode)?;
    let needed = format.needed(0);
    if decoder.output_buffer_size() != Some(needed) {
        return Err(DropReason::Decode);
    }
    let mut lease = pool.take(needed, wait).ok_or(DropReason::NoBuffer)?;
    decoder.decode_into(lease.bytes_mut()).map_err(|_| DropReason::Decode)?;
    Ok((format, lease))
}

/// Whether a Huffman table stands before the first scan.
fn has_huffman_tables(bytes: &[u8]) -> bool {
    let mut at = 2;
    while let Some(&[0xff, marker, hi, lo]) = bytes.get(at..at + 4) {
        match marker {
            0xc4 => return true,
            0xda => return false,
            // Fill byte.
            0xff => at += 1,
            _ => at += 2 + usize::from(u16::from_be_bytes([hi, lo])).max(2),
        }
    }
    true
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A picture whose colours change smoothly, as JPEG.
    pub(crate) fn jpeg(width: u32, height: u32, shade: u8) -> Vec<u8> {
        let picture = image::RgbImage::from_fn(width, height, |x, y| {
            image::Rgb([(x * 255 / width) as u8, (y * 255 / height) as u8, shade])
        });
        let mut out = Vec::new();
        image::codecs::jpeg::JpegEncoder::new_with_quality(&mut out, 95).encode_image(&picture).unwrap();
        out
    }

    #[test]
    fn a_picture_comes_out_as_it_went_in() {
        let bytes = jpeg(64, 48, 77);
        check(&bytes).unwrap();
        let pool = Pool::new(1);
        let (format, lease) = Decoder::default().decode(&bytes, &pool, Duration::ZERO).unwrap();
        assert_eq!((format.width, format.height, format.pixel), (64, 48, PixelFormat::Rgb8));
        for (x, y) in [(0, 0), (63, 47), (20, 30)] {
            let p = &lease.bytes()[(y * 64 + x) * 3..][..3];
            let want = [(x * 255 / 64) as i32, (y * 255 / 48) as i32, 77];
            for (p, w) in p.iter().zip(want) {
                assert!((i32::from(*p) - w).abs() <= 6, "{p:?} at {x},{y}, {want:?} expected");
            }
        }
        assert!(matches!(
            Decoder::default().decode(&bytes, &pool, Duration::ZERO).map(drop),
            Err(DropReason::NoBuffer)
        ));
    }

    #[test]
    fn tables_that_a_camera_left_out_are_the_standard_ones() {
        // The encoder writes the standard tables; without them the picture must come out the same.
        let bytes = jpeg(32, 32, 9);
        let mut bare = bytes[..2].to_vec();
        let mut at = 2;
        while bytes[at + 1] != 0xda {
            let length = 2 + usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]));
            if bytes[at + 1] != 0xc4 {
                bare.extend_from_slice(&bytes[at..at + length]);
            }
            at += length;
        }
        bare.extend_from_slice(&bytes[at..]);
        assert!(bare.len() < bytes.len() - 300, "the tables are gone");
        let pool = Pool::new(2);
        let mut d = Decoder::default();
        let (_, whole) = d.decode(&bytes, &pool, Duration::ZERO).unwrap();
        let (_, bare) = d.decode(&bare, &pool, Duration::ZERO).unwrap();
        assert_eq!(whole.bytes(), bare.bytes());
    }

    #[test]
    fn damage_is_named() {
        let bytes = jpeg(64, 48, 1);
        assert_eq!(check(&[]), Err(DropReason::Empty));
        assert_eq!(check(&bytes[1..]), Err(DropReason::Decode));
        for cut in [2, 10, 300, bytes.len() - 2, bytes.len() - 1] {
            assert_eq!(check(&bytes[..cut]), Err(DropReason::NoEndMarker), "cut to {cut}");
        }
        let padded = [&bytes[..], &[0; 100]].concat();
        assert_eq!(check(&padded), Ok(()));
        // Whatever a byte is turned into, it decodes or is dropped.
        let pool = Pool::new(1);
        let mut d = Decoder::default();
        let mut dropped = 0;
        for i in 2..bytes.len() {
            let mut hurt = bytes.clone();
            hurt[i] ^= 0x5a;
            dropped += u32::from(check(&hurt).is_err() || d.decode(&hurt, &pool, Duration::ZERO).is_err());
            assert_eq!(pool.out(), 0, "byte {i}");
        }
        assert!(dropped > 20, "{dropped} of {} damaged pictures were noticed", bytes.len());
    }
}
