use super::number::{Number, Wide};
use super::resize::cubic_weights;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{DType, Shape, View, ViewMut, by_dtype};

/// How a value between pixels is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// From the four pixels around (`bilinear`, from opset 20 `linear`).
    Linear,
    /// The nearest pixel, halves to even.
    Nearest,
    /// From sixteen pixels, cubic convolution with a = -0.75 (`bicubic`, from opset 20 `cubic`).
    Cubic,
}

/// What stands outside the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// Zeros.
    Zeros,
    /// The outermost pixel.
    Border,
    /// The image mirrored at its edges.
    Reflection,
}

/// Pixels at given places, [ONNX GridSample](https://onnx.ai/onnx/operators/onnx__GridSample.html), 2-D.
///
/// Inputs: x `[N, C, H, W]`; grid `[N, OH, OW, 2]` of (x, y), each -1 at the left or upper edge and 1 at the opposite one; all
/// f32 or all f16. Result `[N, C, OH, OW]`, computed in f32. A NaN coordinate counts as -1.
#[derive(Clone, Debug, PartialEq)]
pub struct GridSample {
    /// How a value between pixels is made.
    pub mode: Sampling,
    /// What stands outside the image.
    pub outside: Outside,
    /// Whether -1 and 1 mean the centres of the outermost pixels, else their outer edges.
    pub align_corners: bool,
}

impl Operator for GridSample {
    fn parse(node: &NodeInfo) -> Result<Self> {
        let mode = match node.string("mode")?.as_deref() {
            None | Some("bilinear" | "linear") => Sampling::Linear,
            Some("nearest") => Sampling::Nearest,
            Some("bicubic" | "cubic") => Sampling::Cubic,
            Some(other) => {
                return Err(Error::unsupported(format!(
                    "mode is {other}; linear, nearest or cubic expected"
                )));
            }
        };
        let outside = match node.string("padding_mode")?.as_deref() {
            None | Some("zeros") => Outside::Zeros,
            Some("border") => Outside::Border,
            Some("reflection") => Outside::Reflection,
            Some(other) => {
                return Err(Error::unsupported(format!(
                    "padding_mode is {other}; zeros, border or reflection expected"
                )));
            }
        };
        let align_corners = node.int("align_corners")?.unwrap_or(0) != 0;
        Ok(GridSample { mode, outside, align_corners })
    }

    fn name(&self) -> &str {
        "GridSample"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let (x, grid) = (required(inputs, 0, "x")?, required(inputs, 1, "grid")?);
        let (&[n, c, h, w], &[grid_n, oh, ow, 2]) = (x.shape.dims(), grid.shape.dims()) else {
            return Err(Error::shape(format!(
                "x is {} and grid {}, [N, C, H, W] and [N, OH, OW, 2] expected (2-D)",
                x.shape, grid.shape
            )));
        };
        if n != grid_n || x.dtype != grid.dtype || !matches!(x.dtype, DType::F32 | DType::F16) {
            return Err(Error::shape(format!(
                "x is {} {} and grid {} {}; the same batch, and both f32 or f16 expected",
                x.dtype, x.shape, grid.dtype, grid.shape
            )));
        }
        if h * w == 0 {
            return Err(Error::shape(format!("x is {}, an image without pixels", x.shape)));
        }
        Ok(vec![OutFact { dtype: x.dtype, shape: Shape::new(&[n, c, oh, ow])? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let (x, grid) = (required(inputs, 0, "x")?, required(inputs, 1, "grid")?);
        by_dtype!(x.dtype(), T => self.sample::<T>(&x, &grid, &mut outputs[0]));
        Ok(())
    }

    fn cases() -> Vec<Case> {
        super::grid_sample_cases::cases()
    }
}

/// The pixels along one axis that a sample is made of, with their weights.
#[derive(Clone, Copy, Default)]
struct Taps {
    at: [usize; 4],
    weight: [f32; 4],
    count: usize,
}

impl GridSample {
    /// A coordinate of the grid in pixels (0 is the centre of the first).
    fn pixel(&self, v: f32, size: usize) -> f32 {
        let v = if v.is_nan() { -1.0 } else { v };
        if self.align_corners {
            (v + 1.0) / 2.0 * (size as f32 - 1.0)
        } else {
            ((v + 1.0) * size as f32 - 1.0) / 2.0
        }
    }

    /// A coordinate brought inside, as the outside says.
    fn fold(&self, v: f32, size: usize) -> f32 {
        let (low, high) =
            if self.align_corners { (0.0, size as f32 - 1.0) } else { (-0.5, size as f32 - 0.5) };
        match self.outside {
            Outside::Zeros => v,
            Outside::Border => v.clamp(0.0, size as f32 - 1.0),
            Outside::Reflection if (low..=high).contains(&v) => v,
            Outside::Reflection => {
                let range = high - low;
                if range <= 0.0 {
                    return 0.0;
                }
                // Every second copy of the image is mirrored.
                let away = if v < low { low - v } else { v - high };
                let (flips, rest) = ((away / range).floor(), away % range);
                match (v < low, flips % 2.0 == 0.0) {
                    (true, true) | (false, false) => low + rest,
                    _ => high - rest,
                }
            }
        }
    }

    /// The pixel that stands for integer coordinate `v`, if any does.
    fn inside(&self, v: f32, size: usize) -> Option<usize> {
        let v = match self.outside {
            Outside::Zeros => v,
            // Folding an integer gives an integer up to rounding, possibly half a pixel out.
            _ => self.fold(v, size).round().clamp(0.0, size as f32 - 1.0),
        };
        (v >= 0.0 && v < size as f32).then_some(v as usize)
    }

    fn taps(&self, v: f32, size: usize) -> Taps {
        let v = self.pixel(v, size);
        let v = if self.mode == Sampling::Cubic { v } else { self.fold(v, size) };
        let mut taps = Taps::default();
        let mut add = |at: f32, weight: f32| {
            if let Some(at) = self.inside(at, size) {
                taps.at[taps.count] = at;
                taps.weight[taps.count] = weight;
                taps.count += 1;
            }
        };
        let first = v.floor();
        match self.mode {
            Sampling::Nearest => add(v.round_ties_even(), 1.0),
            Sampling::Linear => {
                add(first, 1.0 - (v - first));
                add(first + 1.0, v - first);
            }
            Sampling::Cubic => {
                for (i, weight) in cubic_weights(v - first, -0.75).into_iter().enumerate() {
                    add(first + i as f32 - 1.0, weight);
                }
            }
        }
        taps
    }

    fn sample<T: Number>(&self, x: &View<'_>, grid: &View<'_>, y: &mut ViewMut<'_>) {
        let &[n, c, oh, ow] = y.shape().dims() else { return };
        let (h, w) = (x.shape()[2], x.shape()[3]);
        let plane = x.as_slice::<T>();
        for b in 0..n {
            for oy in 0..oh {
                for ox in 0..ow {
                    let at = |k: usize| grid.get::<T>(&[b, oy, ox, k]).to_f64() as f32;
                    let (across, down) = (self.taps(at(0), w), self.taps(at(1), h));
                    for ch in 0..c {
                        let mut sum = 0f32;
                        for j in 0..down.count {
                            let mut line = 0f32;
                            for i in 0..across.count {
                                let v = match plane {
                                    Some(p) => p[((b * c + ch) * h + down.at[j]) * w + across.at[i]],
                                    None => x.get::<T>(&[b, ch, down.at[j], across.at[i]]),
                                };
                                line += v.to_f64() as f32 * across.weight[i];
                            }
                            sum += line * down.weight[j];
                        }
                        y.set(&[b, ch, oy, ox], T::from_wide(Wide::Float(sum.into())));
                    }
                }
            }
        }
    }
}
