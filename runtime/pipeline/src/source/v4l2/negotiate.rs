//! Which of a camera's formats, sizes and rates to take.
//!
//! Everything is a cost, compared in this order: how far the size is from the one asked for; how far the rate falls short
//! (in steps of a tenth, since 29.97 is 30); what the pixel format costs; how much the rate is above. A format that was asked
//! for by name is the only one considered.

use saltica_tensor::{ColorMatrix, Colorimetry, PixelFormat};

use super::super::options::{Options, Wish};
use super::abi::{fourcc, fourcc_name};
use crate::{Error, ErrorKind, Result};

/// A pixel format as the kernel calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code {
    pub(crate) fourcc: u32,
    pub(crate) wish: Wish,
    /// Each plane in memory of its own (multi-planar queues only).
    pub(crate) split: bool,
    /// Relative cost of getting colours out of it.
    cost: u32,
}

const fn code(name: &[u8; 4], wish: Wish, split: bool, cost: u32) -> Code {
    Code { fourcc: fourcc(name), wish, split, cost }
}

/// What we can use. All but JPEG are read by the preprocessing in place. RGB needs no conversion of colours; among the
/// others fewer bytes a pixel are cheaper; gray has no colours, which detectors want; a JPEG has to be decoded first, at
/// many times the cost of all else.
pub(crate) const CODES: [Code; 13] = [
    code(b"RGB3", Wish::Raw(PixelFormat::Rgb8), false, 0),
    code(b"BGR3", Wish::Raw(PixelFormat::Bgr8), false, 0),
    code(b"NV12", Wish::Raw(PixelFormat::Nv12), false, 1),
    code(b"NM12", Wish::Raw(PixelFormat::Nv12), true, 1),
    code(b"NV21", Wish::Raw(PixelFormat::Nv21), false, 1),
    code(b"NM21", Wish::Raw(PixelFormat::Nv21), true, 1),
    code(b"YU12", Wish::Raw(PixelFormat::I420), false, 2),
    code(b"YM12", Wish::Raw(PixelFormat::I420), true, 2),
    code(b"YUYV", Wish::Raw(PixelFormat::Yuyv), false, 3),
    code(b"UYVY", Wish::Raw(PixelFormat::Uyvy), false, 3),
    code(b"MJPG", Wish::Mjpeg, false, 20),
    code(b"JPEG", Wish::Mjpeg, false, 20),
    code(b"GREY", Wish::Raw(PixelFormat::Gray8), false, 100),
];

/// A format that a camera offers, with a size and its highest rate (0: not said).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Offer {
    pub(crate) code: Code,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) fps: f64,
}

/// Sizes of one format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sizes {
    One(u32, u32),
    /// Least, most and step of width and of height.
    Range([u32; 6]),
}

/// The size to aim for when none is asked for: more than a detector's usual 640 pixels, and a rate that cameras offer.
pub(crate) const PLAIN_SIZE: (u32, u32) = (1280, 720);
/// The rate when none is asked for.
pub(crate) const PLAIN_FPS: f64 = 30.0;

pub(crate) fn wanted(o: &Options) -> ((u32, u32), f64) {
    let size = o.size.map_or(PLAIN_SIZE, |(w, h)| (w as u32, h as u32));
    (size, o.fps.unwrap_or(PLAIN_FPS))
}

impl Sizes {
    /// The size nearest to the one wanted.
    pub(crate) fn nearest(self, (w, h): (u32, u32)) -> (u32, u32) {
        let axis = |want: u32, lo: u32, hi: u32, step: u32| {
            let (lo, hi) = (lo.max(1), hi.max(lo.max(1)));
            let inside = want.clamp(lo, hi);
            lo + (inside - lo) / step.max(1) * step.max(1)
        };
        match self {
            Sizes::One(w, h) => (w, h),
            Sizes::Range([w0, w1, ws, h0, h1, hs]) => (axis(w, w0, w1, ws), axis(h, h0, h1, hs)),
        }
    }
}

/// How bad an offer is; less is better.
fn cost(offer: &Offer, size: (u32, u32), fps: f64) -> (u64, u32, u32, u32) {
    let pixels = |w: u32, h: u32| u64::from(w) * u64::from(h);
    // Missing pixels weigh twice: they cannot be had back.
    let missing = u64::from(size.0.saturating_sub(offer.width)) * u64::from(size.1)
        + u64::from(size.1.saturating_sub(offer.height)) * u64::from(size.0);
    let distance = pixels(size.0, size.1).abs_diff(pixels(offer.width, offer.height))
        + u64::from(size.0.abs_diff(offer.width))
        + u64::from(size.1.abs_diff(offer.height))
        + 2 * missing;
    // A rate that the driver does not tell is taken as the one wanted.
    let rate = if offer.fps > 0.0 { offer.fps } else { fps };
    let short = ((1.0 - rate / fps).max(0.0) * 10.0).round() as u32;
    let above = ((rate / fps - 1.0).max(0.0) * 10.0).round().min(1e6) as u32;
    (distance, short, offer.code.cost, above)
}

/// The best offer.
///
/// # Errors
/// [`ErrorKind::Unsupported`] when the camera offers nothing usable, or not the format asked for; `seen` are all its codes.
pub(crate) fn choose(offers: &[Offer], seen: &[u32], o: &Options) -> Result<Offer> {
    let (size, fps) = wanted(o);
    offers
        .iter()
        .filter(|offer| o.format.is_none_or(|wish| wish == offer.code.wish))
        .min_by_key(|offer| cost(offer, size, fps))
        .copied()
        .ok_or_else(|| {
            let found: Vec<String> = seen.iter().map(|c| fourcc_name(*c)).collect();
            let found = if found.is_empty() { "none".into() } else { found.join(", ") };
            let want = match o.format {
                Some(wish) => format!("format={} was asked for", wish.name()),
                None => "NV12, NV21, YU12, YUYV, UYVY, RGB3, BGR3, GREY or MJPG expected".into(),
            };
            Error::new(ErrorKind::Unsupported, format!("the camera's pixel formats are {found}; {want}"))
        })
}

/// What luma and chroma mean, from what a driver says; the defaults are those of `V4L2_MAP_YCBCR_ENC_DEFAULT` and
/// `V4L2_MAP_QUANTIZATION_DEFAULT`.
pub(crate) fn colorimetry(colorspace: u32, encoding: u32, quantization: u32) -> Colorimetry {
    let matrix = match (encoding, colorspace) {
        (2 | 4, _) => ColorMatrix::Bt709,
        (6 | 7, _) => ColorMatrix::Bt2020,
        (0, 3 | 12) => ColorMatrix::Bt709,
        (0, 10) => ColorMatrix::Bt2020,
        _ => ColorMatrix::Bt601,
    };
    // Colorspace 7 is JPEG's.
    let full_range = match quantization {
        1 => true,
        2 => false,
        _ => colorspace == 7,
    };
    Colorimetry { matrix, full_range }
}

/// The code that the driver settled on.
pub(crate) fn by_fourcc(fourcc: u32) -> Option<Code> {
    CODES.into_iter().find(|c| c.fourcc == fourcc)
}

/// Rates of one format and size: the one nearest to the rate wanted, from below if the driver can do it, as a fraction of
/// seconds.
pub(crate) fn interval(fps: f64) -> [u32; 2] {
    // Rates such as 29.97 need a finer fraction; whole ones are said as whole ones.
    if (fps - fps.round()).abs() < 1e-6 {
        [1, fps.round() as u32]
    } else {
        [1000, (fps * 1000.0).round() as u32]
    }
}

/// Frames per second of a fraction of seconds; 0 for one that says nothing.
pub(crate) fn rate(interval: [u32; 2]) -> f64 {
    if interval[0] == 0 { 0.0 } else { f64::from(interval[1]) / f64::from(interval[0]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(name: &[u8; 4], width: u32, height: u32, fps: f64) -> Offer {
        Offer { code: by_fourcc(fourcc(name)).unwrap(), width, height, fps }
    }

    fn chosen(offers: &[Offer], o: &Options) -> (String, u32, u32) {
        let c = choose(offers, &[], o).unwrap();
        (fourcc_name(c.code.fourcc), c.width, c.height)
    }

    /// A usual USB camera: raw pictures are slow where they are large.
    #[test]
    fn the_cheapest_format_that_keeps_the_rate_is_taken() {
        let offers = [
            offer(b"YUYV", 640, 480, 30.0),
            offer(b"YUYV", 1280, 720, 10.0),
            offer(b"MJPG", 640, 480, 30.0),
            offer(b"MJPG", 1280, 720, 30.0),
            offer(b"MJPG", 1920, 1080, 30.0),
        ];
        let mut o = Options::default();
        assert_eq!(chosen(&offers, &o), ("MJPG".into(), 1280, 720));
        o.fps = Some(10.0);
        assert_eq!(chosen(&offers, &o), ("YUYV".into(), 1280, 720));
        o = Options { size: Some((640, 480)), ..Options::default() };
        assert_eq!(chosen(&offers, &o), ("YUYV".into(), 640, 480));
        o = Options { format: Some(Wish::Mjpeg), ..o };
        assert_eq!(chosen(&offers, &o), ("MJPG".into(), 640, 480));
        o = Options { size: Some((4000, 3000)), ..Options::default() };
        assert_eq!(chosen(&offers, &o), ("MJPG".into(), 1920, 1080));
    }

    #[test]
    fn gray_is_the_last_resort_and_what_needs_no_conversion_the_first_choice() {
        let all: Vec<Offer> =
            CODES.iter().map(|c| Offer { code: *c, width: 640, height: 480, fps: 0.0 }).collect();
        let o = Options { size: Some((640, 480)), ..Options::default() };
        assert_eq!(chosen(&all, &o).0, "RGB3");
        assert_eq!(chosen(&all[2..], &o).0, "NV12");
        assert_eq!(chosen(&all[8..], &o).0, "YUYV");
        assert_eq!(chosen(&all[10..], &o).0, "MJPG");
        assert_eq!(chosen(&all[12..], &o).0, "GREY");
    }

    #[test]
    fn a_camera_without_what_was_asked_for_says_what_it_has() {
        let o = Options { format: Some(Wish::Raw(PixelFormat::Nv12)), ..Options::default() };
        let e =
            choose(&[offer(b"YUYV", 640, 480, 30.0)], &[fourcc(b"YUYV"), fourcc(b"H264")], &o).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert_eq!(e.to_string(), "the camera's pixel formats are YUYV, H264; format=nv12 was asked for");
    }

    #[test]
    fn sizes_by_steps_are_reached_from_below() {
        let s = Sizes::Range([16, 1920, 8, 16, 1080, 8]);
        assert_eq!(s.nearest((1283, 721)), (1280, 720));
        assert_eq!(s.nearest((4000, 2)), (1920, 16));
        assert_eq!(Sizes::Range([0, 0, 0, 0, 0, 0]).nearest((5, 5)), (1, 1));
    }

    #[test]
    fn colours_are_what_the_driver_says_or_v4l2_assumes() {
        let c =
            |colorspace, encoding, quantization| colorimetry(colorspace, encoding, quantization).to_string();
        assert_eq!(c(0, 0, 0), "BT.601 limited");
        assert_eq!(c(1, 0, 0), "BT.601 limited");
        assert_eq!(c(3, 0, 0), "BT.709 limited");
        assert_eq!(c(8, 0, 0), "BT.601 limited");
        assert_eq!(c(7, 0, 0), "BT.601 full");
        assert_eq!(c(3, 1, 1), "BT.601 full");
        assert_eq!(c(10, 0, 2), "BT.2020 limited");
    }

    #[test]
    fn rates_are_fractions() {
        assert_eq!((interval(30.0), interval(29.97)), ([1, 30], [1000, 29970]));
        assert_eq!((rate([1001, 30000]) * 100.0).round(), 2997.0);
        assert_eq!(rate([0, 30]), 0.0);
    }
}
