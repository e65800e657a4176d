//! A USB camera made of software, for tests in a virtual machine: plugs a UVC 1.0 device with one bulk endpoint into
//! vhci-hcd (USB over IP) through a socket pair, so that the kernel's own uvcvideo driver binds to it.
//!
//! `usbcam [size=640x360] [unplug=SECONDS] [replug=SECONDS] [cut=N] [empty=N]`
//!
//! It offers MJPG and YUYV at 30 and 15 frames a second. Frame `n` is a gradient whose blue is `8 * (n % 32)`. `cut=N`: each
//! Nth JPEG lacks its second half. `empty=N`: each Nth has two bytes only. `unplug=S`: it is pulled out after S seconds of
//! streaming, `replug=S`: and plugged in again S seconds later, for good. Needs root, vhci-hcd and uvcvideo.
//!
//! Descriptors: USB Device Class Definition for Video Devices 1.0a; messages: Linux' Documentation/usb/usbip_protocol.rst.

use std::collections::VecDeque;
use std::io::{Error, Read, Result, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Frame intervals in units of 100 ns: 30 and 15 frames a second.
const INTERVALS: [u32; 2] = [333_333, 666_666];
/// A request that is not known stalls the endpoint.
const STALL: i32 = -32;
/// A transfer that was taken back.
const UNLINKED: i32 = -104;

fn le16(v: u16) -> [u8; 2] {
    v.to_le_bytes()
}

fn le32(v: u32) -> [u8; 4] {
    v.to_le_bytes()
}

const DEVICE: [u8; 18] = [18, 1, 0, 2, 0xef, 2, 1, 64, 0x6b, 0x1d, 0x02, 0x01, 0, 1, 1, 2, 3, 1];

fn string(index: u8) -> Option<Vec<u8>> {
    let text = match index {
        0 => return Some(vec![4, 3, 9, 4]),
        1 => "Saltica tests",
        2 => "Software camera",
        3 => "0001",
        _ => return None,
    };
    let mut d = vec![2 + 2 * text.len() as u8, 3];
    text.bytes().for_each(|b| d.extend([b, 0]));
    Some(d)
}

/// The configuration: a control interface (a camera terminal wired to an output) and a streaming interface with two
/// formats of one size each.
fn configuration(w: u16, h: u16) -> Vec<u8> {
    let bytes = u32::from(w) * u32::from(h) * 2;
    let frame = |subtype: u8| {
        let mut d = vec![26 + 4 * INTERVALS.len() as u8, 0x24, subtype, 1, 0];
        d.extend(le16(w));
        d.extend(le16(h));
        // Least and most bits a second, bytes of a frame, interval by default.
        for v in [bytes * 8, bytes.saturating_mul(8 * 30), bytes, INTERVALS[0]] {
            d.extend(le32(v));
        }
        d.push(INTERVALS.len() as u8);
        INTERVALS.iter().for_each(|i| d.extend(le32(*i)));
        d
    };
    const COLOR: [u8; 6] = [6, 0x24, 0x0d, 1, 1, 4];
    let mut formats = vec![11, 0x24, 6, 1, 1, 1, 1, 0, 0, 0, 0];
    formats.extend(frame(7));
    formats.extend(COLOR);
    formats.extend([27, 0x24, 4, 2, 1]);
    formats.extend(b"YUY2\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71");
    formats.extend([16, 1, 0, 0, 0, 0]);
    formats.extend(frame(5));
    formats.extend(COLOR);
    let mut units = vec![18, 0x24, 2, 1, 0x01, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0];
    units.extend([9, 0x24, 3, 2, 0x01, 0x01, 0, 1, 0]);

    let mut d = vec![8, 0x0b, 0, 2, 0x0e, 3, 0, 0];
    d.extend([9, 4, 0, 0, 0, 0x0e, 1, 0, 0]);
    d.extend([13, 0x24, 1, 0x00, 0x01]);
    d.extend(le16(13 + units.len() as u16));
    d.extend(le32(6_000_000));
    d.extend([1, 1]);
    d.extend(units);
    d.extend([9, 4, 1, 0, 1, 0x0e, 2, 0, 0]);
    d.extend([15, 0x24, 1, 2]);
    d.extend(le16(15 + formats.len() as u16));
    d.extend([0x81, 0, 2, 0, 0, 0, 1, 0, 0]);
    d.extend(formats);
    d.extend([7, 5, 0x81, 2, 0x00, 0x02, 0]);
    let mut all = vec![9, 2];
    all.extend(le16(9 + d.len() as u16));
    all.extend([2, 1, 0, 0x80, 50]);
    all.extend(d);
    all
}

struct Camera {
    width: u16,
    height: u16,
    /// The streaming parameters that were agreed on (probe and commit control).
    agreed: [u8; 26],
    number: u64,
    cut: u64,
    empty: u64,
    jpegs: Vec<Vec<u8>>,
}

impl Camera {
    fn agree(&mut self, asked: &[u8]) {
        let mut c = [0u8; 26];
        let n = asked.len().min(26);
        c[..n].copy_from_slice(&asked[..n]);
        c[2] = c[2].clamp(1, 2);
        c[3] = 1;
        let interval = u32::from_le_bytes([c[4], c[5], c[6], c[7]]);
        c[4..8].copy_from_slice(&le32(INTERVALS[usize::from(interval > INTERVALS[0])]));
        let bytes = u32::from(self.width) * u32::from(self.height) * 2;
        c[18..22].copy_from_slice(&le32(bytes));
        // A whole frame is one payload.
        c[22..26].copy_from_slice(&le32((bytes + 512).next_multiple_of(512)));
        self.agreed = c;
    }

    fn interval(&self) -> Duration {
        let c = self.agreed;
        Duration::from_nanos(u64::from(u32::from_le_bytes([c[4], c[5], c[6], c[7]])) * 100)
    }

    /// The answer to a control request: data, or the status of a stall.
    fn control(&mut self, setup: [u8; 8], out: &[u8]) -> std::result::Result<Vec<u8>, i32> {
        let [kind, request, value_lo, selector, index, _, len_lo, len_hi] = setup;
        let streaming = index == 1 && matches!(selector, 1 | 2);
        let mut answer = match (kind, request) {
            (0x80, 6) => match selector {
                1 => DEVICE.to_vec(),
                2 => configuration(self.width, self.height),
                3 => string(value_lo).ok_or(STALL)?,
                _ => return Err(STALL),
            },
            (0x80, 0) => vec![0, 0],
            (0x80, 8) => vec![1],
            (0x81, 10) => vec![0],
            (0..=2, _) => Vec::new(),
            (0x21, 1) if index == 1 => {
                self.agree(out);
                Vec::new()
            }
            (0xa1, 0x81) if streaming => self.agreed.to_vec(),
            (0xa1, 0x82 | 0x83 | 0x87) if streaming => {
                let agreed = self.agreed;
                self.agree(&agreed);
                self.agreed.to_vec()
            }
            (0xa1, 0x85) if streaming => vec![26, 0],
            (0xa1, 0x86) if streaming => vec![3],
            _ => return Err(STALL),
        };
        answer.truncate(usize::from(u16::from_le_bytes([len_lo, len_hi])));
        Ok(answer)
    }

    /// The next frame behind its payload header (end of header, end of frame, frame bit).
    fn frame(&mut self) -> Vec<u8> {
        let n = self.number;
        self.number += 1;
        let mut f = vec![2, 0x82 | (n & 1) as u8];
        if self.agreed[2] == 1 {
            let jpeg = &self.jpegs[(n % 32) as usize];
            let nth = |k: u64| k > 0 && n % k == k - 1;
            let end = if nth(self.empty) {
                2
            } else if nth(self.cut) {
                jpeg.len() / 2
            } else {
                jpeg.len()
            };
            f.extend(&jpeg[..end]);
        } else {
            for y in 0..u64::from(self.height) {
                for x in 0..u64::from(self.width) {
                    f.extend([(x + y + 3 * n) as u8, 128]);
                }
            }
        }
        f
    }
}

fn jpeg(w: u16, h: u16, blue: u8) -> Result<Vec<u8>> {
    let picture = image::RgbImage::from_fn(u32::from(w), u32::from(h), |x, y| {
        image::Rgb([(x * 255 / u32::from(w)) as u8, (y * 255 / u32::from(h)) as u8, blue])
    });
    let mut out = Vec::new();
    let encoder = image::codecs::jpeg::JpegEncoder::new_with_quality(&mut out, 90);
    picture.write_with_encoder(encoder).map_err(Error::other)?;
    Ok(out)
}

struct Transfer {
    number: u32,
    length: usize,
}

fn be(m: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([m[at], m[at + 1], m[at + 2], m[at + 3]])
}

fn answer(s: &mut UnixStream, kind: u32, number: u32, status: i32, data: &[u8], actual: usize) -> Result<()> {
    let mut m = vec![0u8; 48];
    m[0..4].copy_from_slice(&kind.to_be_bytes());
    m[4..8].copy_from_slice(&number.to_be_bytes());
    m[20..24].copy_from_slice(&status.to_be_bytes());
    m[24..28].copy_from_slice(&(actual as u32).to_be_bytes());
    m.extend(data);
    s.write_all(&m)
}

/// Plugs it in; retries, as a port is not free at once after an unplugging.
fn plug() -> Result<UnixStream> {
    let mut last = Error::other("no attempt");
    for _ in 0..50 {
        let (ours, theirs) = UnixStream::pair()?;
        // Port 0, the descriptor, a device id of our choice, speed 3 = high.
        let line = format!("0 {} {} 3", theirs.as_raw_fd(), 0x0001_0002);
        match std::fs::write("/sys/devices/platform/vhci_hcd.0/attach", line) {
            Ok(()) => return Ok(ours),
            Err(e) => last = e,
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(Error::other(format!("attaching to vhci_hcd: {last}")))
}

/// Serves until unplugged: after `unplug` of streaming, or when the kernel lets go.
fn serve(camera: &mut Camera, unplug: Option<Duration>) -> Result<()> {
    let mut s = plug()?;
    println!("usbcam: plugged in, {}x{}", camera.width, camera.height);
    let mut pending: VecDeque<Transfer> = VecDeque::new();
    let (mut left, mut at, mut open) = (Vec::new(), 0, false);
    let (mut due, mut began) = (Instant::now(), None::<Instant>);
    loop {
        while let Some(length) = pending.front().map(|t| t.length) {
            if !open {
                let now = Instant::now();
                if now < due {
                    break;
                }
                let since = *began.get_or_insert(now);
                if unplug.is_some_and(|u| now - since > u) {
                    println!("usbcam: unplugged after {} frames", camera.number);
                    return Ok(());
                }
                (left, at, open) = (camera.frame(), 0, true);
                let interval = camera.interval();
                due = if now - due > interval { now + interval } else { due + interval };
            }
            let Some(t) = pending.pop_front() else { break };
            let n = length.min(left.len() - at);
            answer(&mut s, 3, t.number, 0, &left[at..at + n], n)?;
            at += n;
            // A short packet ends the payload.
            open = n == length;
        }
        let wait = if pending.is_empty() {
            Duration::from_secs(1)
        } else {
            due.saturating_duration_since(Instant::now())
        };
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        if poll(&mut [PollFd::new(&s, PollFlags::IN)], Some(&wait))? == 0 {
            continue;
        }
        let mut m = [0u8; 48];
        if s.read_exact(&mut m).is_err() {
            println!("usbcam: the kernel let go");
            return Ok(());
        }
        let (command, number, inward, endpoint) = (be(&m, 0), be(&m, 4), be(&m, 12) == 1, be(&m, 16));
        match command {
            1 => {
                let length = be(&m, 24) as usize;
                let mut out = vec![0; if inward { 0 } else { length }];
                s.read_exact(&mut out)?;
                if endpoint != 0 {
                    if inward {
                        pending.push_back(Transfer { number, length });
                    } else {
                        answer(&mut s, 3, number, STALL, &[], 0)?;
                    }
                    continue;
                }
                let mut setup = [0u8; 8];
                setup.copy_from_slice(&m[40..48]);
                // A bulk camera hears by CLEAR_FEATURE(HALT) on its endpoint that streaming has stopped.
                if setup[0] == 2 && setup[1] == 1 {
                    (open, began, due) = (false, None, Instant::now());
                }
                match camera.control(setup, &out) {
                    Ok(d) if inward => {
                        answer(&mut s, 3, number, 0, &d[..d.len().min(length)], d.len().min(length))?
                    }
                    Ok(_) => answer(&mut s, 3, number, 0, &[], length)?,
                    Err(status) => answer(&mut s, 3, number, status, &[], 0)?,
                }
            }
            2 => {
                let victim = be(&m, 20);
                let had = pending.iter().position(|t| t.number == victim).and_then(|i| pending.remove(i));
                answer(&mut s, 4, number, if had.is_some() { UNLINKED } else { 0 }, &[], 0)?;
            }
            c => return Err(Error::other(format!("USB/IP command {c}, 1 or 2 expected"))),
        }
    }
}

fn main() -> Result<()> {
    let mut camera =
        Camera { width: 640, height: 360, agreed: [0; 26], number: 0, cut: 0, empty: 0, jpegs: Vec::new() };
    let (mut unplug, mut replug) = (None, None);
    for a in std::env::args().skip(1) {
        let (key, value) =
            a.split_once('=').ok_or_else(|| Error::other(format!("{a}: key=value expected")))?;
        let number = || value.parse::<f64>().map_err(|e| Error::other(format!("{a}: {e}")));
        match key {
            "size" => {
                let (w, h) =
                    value.split_once('x').ok_or_else(|| Error::other("size=WIDTHxHEIGHT expected"))?;
                (camera.width, camera.height) =
                    (w.parse().map_err(Error::other)?, h.parse().map_err(Error::other)?);
            }
            "unplug" => unplug = Some(Duration::from_secs_f64(number()?)),
            "replug" => replug = Some(Duration::from_secs_f64(number()?)),
            "cut" => camera.cut = number()? as u64,
            "empty" => camera.empty = number()? as u64,
            _ => return Err(Error::other(format!("unknown option {key}"))),
        }
    }
    for shade in 0..32u8 {
        camera.jpegs.push(jpeg(camera.width, camera.height, shade * 8)?);
    }
    let mut first = [0u8; 26];
    (first[2], first[3]) = (1, 1);
    camera.agree(&first);
    serve(&mut camera, unplug)?;
    if let (Some(_), Some(pause)) = (unplug, replug) {
        std::thread::sleep(pause);
        serve(&mut camera, None)?;
    }
    Ok(())
}
