//! The frame number in the pixels: 64 grey blocks in the top left corner, 48 bits of number and 16 of checksum.
//!
//! Blocks are 8 pixels wide, JPEG's own grid, so each one survives as the mean of its block. The number is whitened so
//! that a plain corner of a picture never reads as one.

/// Columns and rows of blocks, and pixels of a block's side.
const COLS: usize = 16;
const ROWS: usize = 4;
const BLOCK: usize = 8;
/// Pixels that the pattern takes: width and height.
pub const INDEX_SIZE: (usize, usize) = (COLS * BLOCK, ROWS * BLOCK);
/// The largest frame number it can carry.
pub const MAX_INDEX: u64 = (1 << 48) - 1;

const DARK: u8 = 24;
const LIGHT: u8 = 232;
const WHITE: u64 = 0x5a3c_96e1_7b2d_c348;

/// CRC-16/CCITT-FALSE of the six bytes of the number, most significant first.
fn checksum(n: u64) -> u16 {
    let mut crc = 0xffffu16;
    for k in (0..6).rev() {
        crc ^= u16::from((n >> (8 * k)) as u8) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
        }
    }
    crc
}

/// Writes `n` (modulo 2^48) into packed RGB rows of `width` pixels.
pub(super) fn write(rgb: &mut [u8], width: usize, n: u64) {
    let n = n & MAX_INDEX;
    let bits = (n << 16 | u64::from(checksum(n))) ^ WHITE;
    for row in 0..ROWS {
        for y in 0..BLOCK {
            let at = (row * BLOCK + y) * width * 3;
            for col in 0..COLS {
                let v = if bits >> (63 - (row * COLS + col)) & 1 == 1 { LIGHT } else { DARK };
                rgb[at + col * BLOCK * 3..at + (col + 1) * BLOCK * 3].fill(v);
            }
        }
    }
}

/// Reads the frame number from the top left corner of a packed RGB picture of `width` by `height` pixels: `None` when
/// the picture is too small, when `rgb` is too short or when the checksum does not fit.
pub fn read_index(rgb: &[u8], width: usize, height: usize) -> Option<u64> {
    if width < INDEX_SIZE.0
        || height < INDEX_SIZE.1
        || rgb.len() < width.checked_mul(height)?.checked_mul(3)?
    {
        return None;
    }
    let mut bits = 0u64;
    for row in 0..ROWS {
        for col in 0..COLS {
            let mut sum = 0u32;
            for y in 1..BLOCK - 1 {
                let at = ((row * BLOCK + y) * width + col * BLOCK + 1) * 3;
                sum += rgb[at..at + (BLOCK - 2) * 3].iter().map(|v| u32::from(*v)).sum::<u32>();
            }
            let mean = sum / ((BLOCK - 2) * (BLOCK - 2) * 3) as u32;
            bits = bits << 1 | u64::from(mean >= 128);
        }
    }
    bits ^= WHITE;
    let n = bits >> 16;
    (checksum(n) == bits as u16).then_some(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_the_published_one() {
        // Check value of CRC-16/CCITT-FALSE over "123456" from Python: binascii.crc_hqx(b"123456", 0xffff) == 0x2ef4.
        assert_eq!(checksum(0x3132_3334_3536), 0x2ef4);
    }

    #[test]
    fn numbers_come_back_and_noise_does_not() {
        let (w, h) = (160, 96);
        let mut rgb = vec![90u8; w * h * 3];
        assert_eq!(read_index(&rgb, w, h), None);
        for n in [0, 1, 12_345, 10_000_000, MAX_INDEX] {
            write(&mut rgb, w, n);
            assert_eq!(read_index(&rgb, w, h), Some(n));
        }
        rgb[3 * BLOCK * 5..3 * BLOCK * 6].fill(0);
        for y in 0..BLOCK {
            let v = 255 - rgb[(y * w + 40) * 3];
            rgb[(y * w + 40) * 3..(y * w + 48) * 3].fill(v);
        }
        assert_eq!(read_index(&rgb, w, h), None);
        assert_eq!(read_index(&rgb, 100, 96), None);
        assert_eq!(read_index(&rgb[..50], w, h), None);
    }
}
