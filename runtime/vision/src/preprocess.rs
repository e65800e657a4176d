//! From a picture to a model's input tensor in one pass: pixel format, resize, padding, normalisation, dtype, layout.

use crate::resize::{self, Tap};
use crate::yuv::{self, Coefficients};
use crate::{Error, ErrorKind, Result};
use half::f16;
use saltica_tensor::{Colorimetry, DType, Element, Geometry, PixelFormat, Pixels, ResizeMode, ViewMut};
use std::fmt;

/// The order of a model's three input channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorOrder {
    /// Red first.
    Rgb,
    /// Blue first (models trained on OpenCV pictures).
    Bgr,
}

impl fmt::Display for ColorOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ColorOrder::Rgb => "RGB",
            ColorOrder::Bgr => "BGR",
        })
    }
}

/// What a model wants its input to be: `(byte * scale - mean) / std` for each channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InputSpec {
    /// Order of the channels; `mean` and `std` follow it.
    pub order: ColorOrder,
    /// Factor on the bytes 0..255, before the mean is taken off.
    pub scale: f64,
    /// Taken off each scaled channel.
    pub mean: [f64; 3],
    /// Divides each channel last.
    pub std: [f64; 3],
    /// How a picture of another size is placed.
    pub resize: ResizeMode,
    /// The byte value, in all channels, of what the picture does not cover.
    pub pad: u8,
}

impl Default for InputSpec {
    /// RGB, 0..1, centred letterbox with 114: what Ultralytics models want.
    fn default() -> Self {
        InputSpec {
            order: ColorOrder::Rgb,
            scale: 1.0 / 255.0,
            mean: [0.0; 3],
            std: [1.0; 3],
            resize: ResizeMode::Letterbox,
            pad: 114,
        }
    }
}

impl InputSpec {
    /// What byte `b` of channel `c` becomes, exactly.
    fn value(&self, c: usize, b: usize) -> f64 {
        (b as f64 * self.scale - self.mean[c]) / self.std[c]
    }
}

/// `BGR x 1, letterbox-top-left, pad 114`.
impl fmt::Display for InputSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inverse = 1.0 / self.scale;
        if self.scale != 1.0 && (inverse - inverse.round()).abs() < 1e-9 {
            write!(f, "{} / {}", self.order, inverse.round())?;
        } else {
            write!(f, "{} x {}", self.order, self.scale)?;
        }
        if self.mean != [0.0; 3] {
            write!(f, ", mean {:?}", self.mean)?;
        }
        if self.std != [1.0; 3] {
            write!(f, ", std {:?}", self.std)?;
        }
        write!(f, ", {}, pad {}", self.resize, self.pad)
    }
}

/// What each of the 256 byte values becomes in each channel: one rounding from the exact value, whatever the dtype.
enum Table {
    F32(Box<[[f32; 256]; 3]>),
    F16(Box<[[f16; 256]; 3]>),
    U8(Box<[[u8; 256]; 3]>),
    I8(Box<[[i8; 256]; 3]>),
}

fn table<T: Element>(spec: &InputSpec, zero: T) -> Box<[[T; 256]; 3]> {
    let mut t = Box::new([[zero; 256]; 3]);
    for c in 0..3 {
        for b in 0..256 {
            let v = spec.value(c, b);
            t[c][b] = T::from_f64(if T::DTYPE.is_float() { v } else { v.round_ties_even() });
        }
    }
    t
}

/// Turns pictures into one model's input. Its tables and row buffers are made for the first picture and kept while
/// pictures of the same size and format follow; then a call allocates nothing.
pub struct Preprocessor {
    table: Table,
    resize: Resize,
}

/// The part that makes lines of bytes: tables and buffers for one picture size.
struct Resize {
    spec: InputSpec,
    target: (usize, usize),
    set_up: Option<(Geometry, PixelFormat, Colorimetry)>,
    coefficients: Coefficients,
    columns: Vec<Tap>,
    lines: Vec<Tap>,
    filtered: [Row; 2],
    line: Vec<u8>,
    /// One source row of a luma and chroma picture as planes of RGB: a row that stays in the cache, never the picture.
    rgb: Vec<u8>,
}

/// A horizontally filtered source row: three planes.
#[derive(Default)]
struct Row {
    source: Option<usize>,
    planes: Vec<i16>,
}

/// The part of the target that the picture covers, in target pixels.
#[derive(Clone, Copy)]
struct Window {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

impl Preprocessor {
    /// For a model input of `target` (width, height) and this dtype (f32, f16, u8 or i8; integers are rounded and
    /// saturated).
    pub fn new(spec: InputSpec, target: (usize, usize), dtype: DType) -> Result<Self> {
        // Checks the target's size.
        Geometry::new((1, 1), target, spec.resize)?;
        if !spec.scale.is_finite()
            || spec.mean.iter().any(|m| !m.is_finite())
            || spec.std.iter().any(|s| !s.is_normal())
        {
            return Err(Error::new(
                ErrorKind::Spec,
                format!("scale, mean and std must be finite and std not 0, found {spec:?}"),
            ));
        }
        let table = match dtype {
            DType::F32 => Table::F32(table(&spec, 0f32)),
            DType::F16 => Table::F16(table(&spec, f16::ZERO)),
            DType::U8 => Table::U8(table(&spec, 0u8)),
            DType::I8 => Table::I8(table(&spec, 0i8)),
            other => {
                return Err(Error::new(
                    ErrorKind::Shape,
                    format!("a model input of dtype {other} found, f32, f16, u8 or i8 expected for pictures"),
                ));
            }
        };
        let resize = Resize {
            spec,
            target,
            set_up: None,
            coefficients: Coefficients::new(Colorimetry::default()),
            columns: Vec::new(),
            lines: Vec::new(),
            filtered: [Row::default(), Row::default()],
            line: Vec::new(),
            rgb: Vec::new(),
        };
        Ok(Preprocessor { table, resize })
    }

    /// What the model wants.
    pub fn spec(&self) -> &InputSpec {
        &self.resize.spec
    }

    /// Width and height of the model input.
    pub fn target(&self) -> (usize, usize) {
        self.resize.target
    }

    /// Writes `picture` as image `index` of the batch `out`, shape `[N, 3, height, width]`, any strides. Returns the
    /// geometry the picture was placed with, which the head needs for the way back.
    pub fn run(&mut self, picture: &Pixels<'_>, out: &mut ViewMut<'_>, index: usize) -> Result<Geometry> {
        let (tw, th) = self.resize.target;
        match out.shape().dims() {
            &[n, 3, h, w] if (w, h) == (tw, th) && index < n => {}
            _ => {
                return Err(Error::new(
                    ErrorKind::Shape,
                    format!(
                        "a model input of shape {} found, [N, 3, {th}, {tw}] with N > {index} expected",
                        out.shape()
                    ),
                ));
            }
        }
        let geometry = self.resize.set_up(picture)?;
        let window = window(&geometry);
        match &self.table {
            Table::F32(t) => self.resize.write(picture, out, index, t, window)?,
            Table::F16(t) => self.resize.write(picture, out, index, t, window)?,
            Table::U8(t) => self.resize.write(picture, out, index, t, window)?,
            Table::I8(t) => self.resize.write(picture, out, index, t, window)?,
        }
        Ok(geometry)
    }
}

impl Resize {
    fn set_up(&mut self, picture: &Pixels<'_>) -> Result<Geometry> {
        let source = (picture.width(), picture.height());
        self.filtered.iter_mut().for_each(|r| r.source = None);
        if let Some((g, format, colorimetry)) = self.set_up
            && g.source() == source
            && format == picture.format()
            && colorimetry == picture.colorimetry()
        {
            return Ok(g);
        }
        let g = Geometry::new(source, self.target, self.spec.resize)?;
        let w = window(&g);
        let skip = |o: isize| o.min(0).unsigned_abs();
        resize::axis(source.0, g.resized().0, skip(g.offset().0), w.width, &mut self.columns);
        resize::axis(source.1, g.resized().1, skip(g.offset().1), w.height, &mut self.lines);
        for row in &mut self.filtered {
            row.planes.clear();
            row.planes.resize(3 * w.width, 0);
        }
        self.line.clear();
        self.line.resize(3 * w.width, 0);
        self.rgb.clear();
        if picture.format().is_yuv() {
            self.coefficients = Coefficients::new(picture.colorimetry());
            self.rgb.resize(3 * source.0, 0);
        }
        self.set_up = Some((g, picture.format(), picture.colorimetry()));
        Ok(g)
    }

    fn write<T: Element>(
        &mut self,
        picture: &Pixels<'_>,
        out: &mut ViewMut<'_>,
        index: usize,
        table: &[[T; 256]; 3],
        window: Window,
    ) -> Result<()> {
        if out.dtype() != T::DTYPE {
            return Err(Error::new(
                ErrorKind::Shape,
                format!(
                    "a model input of dtype {} found, this preprocessing was set up for {}",
                    out.dtype(),
                    T::DTYPE
                ),
            ));
        }
        let (tw, th) = self.target;
        let pad = [0, 1, 2].map(|c| table[c][usize::from(self.spec.pad)]);
        let strides = out.layout().strides();
        if strides[3] == 1 {
            for y in 0..th {
                let inside = self.line(picture, y, window);
                for c in 0..3 {
                    let Some(row) = out.row_mut::<T>(&[index, c, y, 0]) else { return Err(odd_layout(out)) };
                    if !inside {
                        row.fill(pad[c]);
                        continue;
                    }
                    row[..window.left].fill(pad[c]);
                    row[window.left + window.width..].fill(pad[c]);
                    let bytes = &self.line[c * window.width..][..window.width];
                    let values = &table[c];
                    for (o, &b) in row[window.left..].iter_mut().zip(bytes) {
                        *o = values[usize::from(b)];
                    }
                }
            }
        } else if out.layout().pixel_stride() == Some(3) {
            let mut nhwc = out.permuted(&[0, 2, 3, 1])?;
            let Some(all) = nhwc.as_mut_slice::<T>() else { return Err(odd_layout(&nhwc)) };
            for y in 0..th {
                let inside = self.line(picture, y, window);
                let row = &mut all[(index * th + y) * tw * 3..][..tw * 3];
                if !inside {
                    row.chunks_exact_mut(3).for_each(|p| p.copy_from_slice(&pad));
                    continue;
                }
                let (left, rest) = row.split_at_mut(window.left * 3);
                let (middle, right) = rest.split_at_mut(window.width * 3);
                left.chunks_exact_mut(3)
                    .chain(right.chunks_exact_mut(3))
                    .for_each(|p| p.copy_from_slice(&pad));
                let (b0, rest) = self.line.split_at(window.width);
                let (b1, b2) = rest.split_at(window.width);
                for (((p, &b0), &b1), &b2) in middle.chunks_exact_mut(3).zip(b0).zip(b1).zip(b2) {
                    p[0] = table[0][usize::from(b0)];
                    p[1] = table[1][usize::from(b1)];
                    p[2] = table[2][usize::from(b2)];
                }
            }
        } else {
            // Pixels further apart than their three channels, or any other strides.
            for y in 0..th {
                let inside = self.line(picture, y, window);
                for c in 0..3 {
                    let mut run = |x: usize, len: usize| out.set_run(&[index, c, y, x], 3, len, |_| pad[c]);
                    if !inside {
                        run(0, tw);
                        continue;
                    }
                    let right = window.left + window.width;
                    run(0, window.left);
                    // An empty run may start at the end.
                    if right < tw {
                        run(right, tw - right);
                    }
                    let (bytes, values) = (&self.line[c * window.width..][..window.width], &table[c]);
                    out.set_run(&[index, c, y, window.left], 3, window.width, |i| {
                        values[usize::from(bytes[i])]
                    });
                }
            }
        }
        Ok(())
    }

    /// Makes target line `y` in `self.line` (three planes of bytes). False when the picture does not reach that line.
    fn line(&mut self, picture: &Pixels<'_>, y: usize, window: Window) -> bool {
        let Some(&tap) = y.checked_sub(window.top).and_then(|i| self.lines.get(i)) else { return false };
        let above = tap.at as usize;
        let below = (above + 1).min(picture.height() - 1);
        // A row with weight 0 is never looked at, so any filtered row can stand in for it.
        let need = match (tap.w0, tap.w1) {
            (_, 0) => [above, above],
            (0, _) => [below, below],
            _ => [above, below],
        };
        if self.filtered[0].source != Some(need[0]) {
            self.filtered.swap(0, 1);
            if self.filtered[0].source != Some(need[0]) {
                self.filter(picture, 0, need[0]);
            }
        }
        let second = if need[0] == need[1] {
            0
        } else {
            if self.filtered[1].source != Some(need[1]) {
                self.filter(picture, 1, need[1]);
            }
            1
        };
        let [a, b] = [&self.filtered[0].planes, &self.filtered[second].planes];
        resize::vertical(a, b, tap.w0, tap.w1, &mut self.line);
        true
    }

    fn filter(&mut self, picture: &Pixels<'_>, slot: usize, y: usize) {
        let yuv = picture.format().is_yuv();
        let format = if yuv { PixelFormat::Rgb8 } else { picture.format() };
        let mut channel = format.rgb_offsets();
        if self.spec.order == ColorOrder::Bgr {
            channel.reverse();
        }
        let row = &mut self.filtered[slot];
        row.source = Some(y);
        if yuv {
            yuv::row(picture, y, self.coefficients, &mut self.rgb);
            resize::horizontal_planes(&self.rgb, &self.columns, channel, &mut row.planes);
            return;
        }
        match picture.format().bytes_per_pixel() {
            1 => resize::horizontal::<1>(picture.row(y), &self.columns, channel, &mut row.planes),
            _ => resize::horizontal::<3>(picture.row(y), &self.columns, channel, &mut row.planes),
        }
    }
}

fn window(g: &Geometry) -> Window {
    let axis = |offset: isize, resized: usize, target: usize| {
        let start = offset.max(0) as usize;
        let end = (offset + resized as isize).clamp(0, target as isize) as usize;
        (start, end.saturating_sub(start))
    };
    let (left, width) = axis(g.offset().0, g.resized().0, g.target().0);
    let (top, height) = axis(g.offset().1, g.resized().1, g.target().1);
    Window { left, top, width, height }
}

fn odd_layout(out: &ViewMut<'_>) -> Error {
    Error::new(ErrorKind::Shape, format!("the model input's layout {:?} cannot be written", out.layout()))
}
