//! AVI 1.0 with one stream of JPEGs (Microsoft's "AVI RIFF File Reference").
//!
//! The header's sizes are set every second of video, so that what an interrupted run leaves can be played; the index comes
//! when the file is finished.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use super::ratio;

#[derive(Debug)]
pub(super) struct Avi {
    file: BufWriter<File>,
    fps: f64,
    /// Offset in `movi` and size of each frame.
    index: Vec<(u32, u32)>,
    /// Bytes of the `movi` list, its name included.
    movi: u64,
    largest: u32,
    settled: usize,
}

/// Where the numbers stand that are known only later.
const RIFF_SIZE: u64 = 4;
const TOTAL_FRAMES: u64 = 48;
const AVIH_BUFFER: u64 = 60;
const STRH_LENGTH: u64 = 140;
const STRH_BUFFER: u64 = 144;
const MOVI_SIZE: u64 = 216;
const MOVI: u64 = 220;

impl Avi {
    /// Bytes of frames a file may have: its sizes and offsets are 32 bits, and many readers take them as signed.
    pub(super) const MOST: u64 = 2_000_000_000;

    pub(super) fn new(file: File, (width, height): (usize, usize), fps: f64) -> io::Result<Avi> {
        let (rate, scale) = ratio(fps);
        let (w, h) = (width as u32, height as u32);
        let mut head = Vec::with_capacity(MOVI as usize + 4);
        let put = |head: &mut Vec<u8>, words: &[u32]| words.iter().for_each(|v| head.extend(v.to_le_bytes()));
        head.extend(b"RIFF\0\0\0\0AVI LIST");
        // hdrl: its name, avih and the stream's list.
        put(&mut head, &[4 + (8 + 56) + (8 + 4 + (8 + 56) + (8 + 40))]);
        head.extend(b"hdrlavih");
        // Microseconds a frame, bytes a second, padding, flags (has an index), frames, initial, streams, buffer, size.
        put(&mut head, &[56, (1e6 / fps).round() as u32, 0, 0, 0x10, 0, 0, 1, 0, w, h, 0, 0, 0, 0]);
        head.extend(b"LIST");
        put(&mut head, &[4 + (8 + 56) + (8 + 40)]);
        head.extend(b"strlstrh");
        put(&mut head, &[56]);
        head.extend(b"vidsMJPG");
        // Flags, priority and language, initial, scale, rate, start, length, buffer, quality, sample size, rectangle.
        put(&mut head, &[0, 0, 0, scale, rate, 0, 0, 0, u32::MAX, 0, 0, (h << 16) | (w & 0xffff)]);
        head.extend(b"strf");
        put(&mut head, &[40, 40, w, h, 1 | (24 << 16)]);
        head.extend(b"MJPG");
        put(&mut head, &[w.saturating_mul(h).saturating_mul(3), 0, 0, 0, 0]);
        head.extend(b"LIST");
        put(&mut head, &[4]);
        head.extend(b"movi");
        let mut file = BufWriter::with_capacity(1 << 16, file);
        file.write_all(&head)?;
        Ok(Avi { file, fps, index: Vec::new(), movi: 4, largest: 0, settled: 0 })
    }

    pub(super) fn frame(&mut self, jpeg: &[u8]) -> io::Result<()> {
        let size = jpeg.len() as u32;
        self.file.write_all(b"00dc")?;
        self.file.write_all(&size.to_le_bytes())?;
        self.file.write_all(jpeg)?;
        // Chunks begin at even places.
        self.file.write_all(&[0][..jpeg.len() % 2])?;
        self.index.push((self.movi as u32, size));
        self.movi += 8 + u64::from(size) + u64::from(size % 2);
        self.largest = self.largest.max(size);
        if (self.index.len() - self.settled) as f64 >= self.fps.max(1.0) {
            self.settle(0)?;
        }
        Ok(())
    }

    /// Sets the numbers of the header to what was written, `index` bytes of the index included.
    fn settle(&mut self, index: u64) -> io::Result<()> {
        let end = self.file.stream_position()?;
        for (at, value) in [
            (RIFF_SIZE, MOVI - 8 + self.movi + index),
            (TOTAL_FRAMES, self.index.len() as u64),
            (AVIH_BUFFER, u64::from(self.largest)),
            (STRH_LENGTH, self.index.len() as u64),
            (STRH_BUFFER, u64::from(self.largest)),
            (MOVI_SIZE, self.movi),
        ] {
            self.file.seek(SeekFrom::Start(at))?;
            self.file.write_all(&(value as u32).to_le_bytes())?;
        }
        self.file.seek(SeekFrom::Start(end))?;
        self.settled = self.index.len();
        self.file.flush()
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        let size = self.index.len() as u32 * 16;
        self.file.write_all(b"idx1")?;
        self.file.write_all(&size.to_le_bytes())?;
        for (offset, size) in &self.index {
            self.file.write_all(b"00dc")?;
            // 0x10: a key frame.
            for v in [0x10, *offset, *size] {
                self.file.write_all(&v.to_le_bytes())?;
            }
        }
        self.settle(8 + u64::from(size))
    }
}
