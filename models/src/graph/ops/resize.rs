use super::indexing::{Dims, Ints, dim};
use super::number::{Number, Wide};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, ErrorKind, Result};
use saltica_tensor::{MAX_RANK, Shape, View, ViewMut, by_dtype};

/// How a value between elements is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Interpolation {
    /// One element, chosen by a rounding rule.
    Nearest(Rounding),
    /// From two elements of each axis.
    Linear,
    /// From four elements of each axis, cubic convolution.
    Cubic {
        /// The kernel's parameter.
        a: f32,
        /// Whether elements outside count for nothing (the rest is scaled up), else the outermost stands for them.
        exclude_outside: bool,
    },
}

/// Which element is nearest to a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Round, halves down.
    HalfDown,
    /// Round, halves up.
    HalfUp,
    /// The one before.
    Floor,
    /// The one after.
    Ceil,
    /// The one before when enlarging, the one after when reducing: what opset 10 means.
    Simple,
}

/// Where an element of the result lies in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinates {
    /// Pixel centres lie at halves.
    HalfPixel,
    /// As half pixel, with the centre of the image kept in place when the size was rounded.
    HalfPixelSymmetric,
    /// As half pixel, with 0 for a result of length 1.
    PytorchHalfPixel,
    /// First and last elements fall on each other.
    AlignCorners,
    /// First elements fall on each other.
    Asymmetric,
    /// As half pixel, but counted from the edge of the first pixel (opset 11 and 12).
    TfHalfPixelForNearest,
}

/// What given sizes mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// They are taken as they are.
    Stretch,
    /// One scale for all axes: no size is exceeded (opset 18).
    NotLarger,
    /// One scale for all axes: no size is missed (opset 18).
    NotSmaller,
}

/// Another size by interpolation, [ONNX Resize](https://onnx.ai/onnx/operators/onnx__Resize.html) and
/// [Upsample](https://onnx.ai/onnx/operators/onnx__Upsample.html).
///
/// Inputs: x, any dtype; roi (without meaning here); scales, f32 (or absent, or empty); sizes, i64 (or absent). Opset 10 and
/// Upsample have x and scales only. Interpolated integers truncate toward zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Resize {
    /// How a value between elements is made.
    pub mode: Interpolation,
    /// Where an element of the result lies in the input.
    pub coordinates: Coordinates,
    /// What given sizes mean.
    pub aspect: Aspect,
    /// The axes that scales and sizes are about; absent means all (opset 18).
    pub axes: Option<Vec<i64>>,
    /// Which input the scales are; sizes follow them.
    pub scales_input: usize,
}

/// One axis of a resize.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AxisResize {
    /// Size before.
    pub input: usize,
    /// Size after.
    pub output: usize,
    /// Size after by size before, before rounding.
    pub scale: f32,
}

/// Largest size of an axis of the result: beyond any image, and exact in f32.
const MAX_SIDE: usize = 1 << 24;

impl Resize {
    /// Sizes and scales of all axes of x; the first `rank` entries count. The views are those of the inputs scales and
    /// sizes.
    pub fn resolve(
        &self,
        x: &Shape,
        scales: Option<View<'_>>,
        sizes: Option<View<'_>>,
    ) -> Result<[AxisResize; MAX_RANK]> {
        let mut out = [AxisResize { input: 1, output: 1, scale: 1.0 }; MAX_RANK];
        for (axis, &d) in out.iter_mut().zip(x.iter()) {
            *axis = AxisResize { input: d, output: d, scale: 1.0 };
        }
        let axes = self.axes.as_ref().map(|a| Ints::new(a, "axes")).transpose()?;
        let n = axes.map_or(x.rank(), |a| a.len());
        let axis_of = |i: usize| axes.map_or(Ok(i), |a| Shape::axis(a[i], x.rank()));
        let count = |found: usize, what: &str| match found == n {
            true => Ok(()),
            false => Err(Error::shape(format!("{found} {what} found, {n} expected"))),
        };
        // An empty tensor is how opset 11 says that one of the two is absent.
        let scales = scales.filter(|v| v.shape().elements() > 0);
        let sizes = sizes.filter(|v| v.shape().elements() > 0);
        match (scales, sizes) {
            (Some(scales), None) => {
                count(scales.shape().elements(), "scales")?;
                for i in 0..n {
                    let scale = scales.at_f64(i) as f32;
                    let axis = &mut out[axis_of(i)?];
                    axis.scale = scale;
                    // In f32, as onnxruntime does: 10 * 0.7 is 7, though the f32 0.7 is a little less.
                    axis.output = side(axis.input as f32 * scale)?;
                }
            }
            (None, Some(sizes)) => {
                let sizes = Ints::read(&sizes, "sizes")?;
                count(sizes.len(), "sizes")?;
                for i in 0..n {
                    let axis = &mut out[axis_of(i)?];
                    axis.output = side(dim(sizes[i], "sizes")? as f32)?;
                    axis.scale = axis.output as f32 / axis.input as f32;
                }
                if self.aspect != Aspect::Stretch && n > 0 {
                    let mut scale = out[axis_of(0)?].scale;
                    for i in 1..n {
                        let other = out[axis_of(i)?].scale;
                        scale = if self.aspect == Aspect::NotLarger {
                            scale.min(other)
                        } else {
                            scale.max(other)
                        };
                    }
                    for i in 0..n {
                        let axis = &mut out[axis_of(i)?];
                        axis.scale = scale;
                        axis.output = side((axis.input as f32 * scale).round())?;
                    }
                }
            }
            (None, None) => {
                return Err(Error::new(
                    ErrorKind::Malformed,
                    "scales and sizes are both missing, one expected",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(Error::new(
                    ErrorKind::Malformed,
                    "scales and sizes are both given, one expected",
                ));
            }
        }
        for axis in &out {
            if axis.input == 0 && axis.output > 0 {
                return Err(Error::shape(format!("{x} has nothing to make {} elements from", axis.output)));
            }
        }
        Ok(out)
    }

    /// The scales and sizes among the inputs.
    fn given<T: Copy>(&self, inputs: &[Option<T>]) -> [Option<T>; 2] {
        [0, 1].map(|i| inputs.get(self.scales_input + i).copied().flatten())
    }

    /// The position in the input of element `o` of the result.
    pub fn position(&self, axis: &AxisResize, o: usize) -> f32 {
        let AxisResize { input, output, scale } = *axis;
        let (input, output, o) = (input as f32, output as f32, o as f32);
        match self.coordinates {
            Coordinates::Asymmetric => o / scale,
            Coordinates::HalfPixel => (o + 0.5) / scale - 0.5,
            Coordinates::TfHalfPixelForNearest => (o + 0.5) / scale,
            Coordinates::PytorchHalfPixel if output > 1.0 => (o + 0.5) / scale - 0.5,
            Coordinates::PytorchHalfPixel => 0.0,
            Coordinates::AlignCorners if output > 1.0 => o * (input - 1.0) / (output - 1.0),
            Coordinates::AlignCorners => 0.0,
            Coordinates::HalfPixelSymmetric => {
                let adjustment = output / (scale * input);
                let offset = input / 2.0 * (1.0 - adjustment);
                offset + (o + 0.5) / scale - 0.5
            }
        }
    }

    /// For nearest: the element of the input that element `o` of the result is.
    pub fn nearest_source(&self, axis: &AxisResize, o: usize) -> Option<usize> {
        matches!(self.mode, Interpolation::Nearest(_)).then(|| self.taps(axis, o).at[0])
    }

    /// For linear: the two elements of the input that element `o` of the result lies between, and the weight of the second.
    pub fn linear_source(&self, axis: &AxisResize, o: usize) -> Option<([usize; 2], f32)> {
        let taps = matches!(self.mode, Interpolation::Linear).then(|| self.taps(axis, o))?;
        Some(match taps.count {
            1 => ([taps.at[0]; 2], 0.0),
            _ => ([taps.at[0], taps.at[1]], taps.weight[1]),
        })
    }

    /// The elements of the input that element `o` of the result is made of.
    fn taps(&self, axis: &AxisResize, o: usize) -> Taps {
        let last = axis.input - 1;
        let at = self.position(axis, o);
        // Casts saturate, so an index outside is brought to the first or last element.
        let index = |v: f32| (v as usize).min(last);
        match self.mode {
            Interpolation::Nearest(rounding) => Taps::one(index(match rounding {
                Rounding::HalfDown => (at - 0.5).ceil(),
                Rounding::HalfUp => (at + 0.5).floor(),
                Rounding::Floor => at.floor(),
                Rounding::Ceil => at.ceil(),
                Rounding::Simple if axis.scale < 1.0 => at.ceil(),
                Rounding::Simple => at.floor(),
            })),
            Interpolation::Linear => {
                let at = at.clamp(0.0, last as f32);
                let first = index(at);
                let part = at - first as f32;
                if part == 0.0 {
                    return Taps::one(first);
                }
                let mut taps = Taps { count: 2, ..Taps::one(first) };
                (taps.at[1], taps.weight[0], taps.weight[1]) = (index(at + 1.0), 1.0 - part, part);
                taps
            }
            Interpolation::Cubic { a, exclude_outside } => {
                let first = at.floor();
                let mut taps = Taps { count: 4, weight: cubic_weights(at - first, a), ..Taps::one(0) };
                let mut sum = 0.0;
                for i in 0..4 {
                    let v = first + i as f32 - 1.0;
                    taps.at[i] = index(v);
                    if exclude_outside && !(0.0..=last as f32).contains(&v) {
                        taps.weight[i] = 0.0;
                    }
                    sum += taps.weight[i];
                }
                if exclude_outside && sum != 0.0 {
                    taps.weight.iter_mut().for_each(|w| *w /= sum);
                }
                taps
            }
        }
    }
}

/// Weights of the four elements around a position `t` (0 to 1) after the second, by cubic convolution with parameter `a`
/// (Keys, "Cubic convolution interpolation for digital image processing", 1981).
pub(super) fn cubic_weights(t: f32, a: f32) -> [f32; 4] {
    let near = |d: f32| ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0;
    let far = |d: f32| ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

/// A size of the result. Errors if it is none, or too large.
fn side(v: f32) -> Result<usize> {
    if v >= 0.0 && v <= MAX_SIDE as f32 {
        Ok(v as usize)
    } else {
        Err(Error::new(ErrorKind::Limit, format!("a size of {v} is asked for, 0 to {MAX_SIDE} expected")))
    }
}

/// The elements along one axis that a value is made of, with their weights.
#[derive(Clone, Copy, Debug)]
struct Taps {
    at: [usize; 4],
    weight: [f32; 4],
    count: usize,
}

impl Taps {
    fn one(at: usize) -> Self {
        Taps { at: [at, 0, 0, 0], weight: [1.0, 0.0, 0.0, 0.0], count: 1 }
    }
}

impl Operator for Resize {
    fn parse(node: &NodeInfo) -> Result<Self> {
        let text =
            |name: &str, default: &str| Ok::<_, Error>(node.string(name)?.unwrap_or(default.to_string()));
        let unknown = |name: &str, found: &str| Err(Error::unsupported(format!("{name} is {found}")));
        let old = node.op_type == "Upsample" || node.opset < 11;
        let coordinates = if old {
            Coordinates::Asymmetric
        } else {
            match text("coordinate_transformation_mode", "half_pixel")?.as_str() {
                "half_pixel" => Coordinates::HalfPixel,
                "half_pixel_symmetric" => Coordinates::HalfPixelSymmetric,
                "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
                "align_corners" => Coordinates::AlignCorners,
                "asymmetric" => Coordinates::Asymmetric,
                "tf_half_pixel_for_nn" if node.opset < 13 => Coordinates::TfHalfPixelForNearest,
                other => return unknown("coordinate_transformation_mode", other),
            }
        };
        let rounding = if old {
            Rounding::Simple
        } else {
            match text("nearest_mode", "round_prefer_floor")?.as_str() {
                "round_prefer_floor" => Rounding::HalfDown,
                "round_prefer_ceil" => Rounding::HalfUp,
                "floor" => Rounding::Floor,
                "ceil" => Rounding::Ceil,
                other => return unknown("nearest_mode", other),
            }
        };
        let a = node.float("cubic_coeff_a")?.unwrap_or(-0.75);
        let exclude_outside = node.int("exclude_outside")?.unwrap_or(0) != 0;
        let mode = match text("mode", "nearest")?.as_str() {
            "nearest" => Interpolation::Nearest(rounding),
            "linear" => Interpolation::Linear,
            "cubic" if !old => Interpolation::Cubic { a, exclude_outside },
            other => return unknown("mode", other),
        };
        let aspect = match text("keep_aspect_ratio_policy", "stretch")?.as_str() {
            "stretch" => Aspect::Stretch,
            "not_larger" => Aspect::NotLarger,
            "not_smaller" => Aspect::NotSmaller,
            other => return unknown("keep_aspect_ratio_policy", other),
        };
        if node.int("antialias")?.unwrap_or(0) != 0 && !matches!(mode, Interpolation::Nearest(_)) {
            return unknown("antialias", "1, 0 expected");
        }
        // Counts for tf_crop_and_resize only.
        node.ignore("extrapolation_value");
        let axes = node.ints("axes")?;
        Ok(Resize { mode, coordinates, aspect, axes, scales_input: if old { 1 } else { 2 } })
    }

    fn name(&self) -> &str {
        "Resize"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let mut views = [None; 2];
        for ((view, fact), what) in views.iter_mut().zip(self.given(inputs)).zip(["scales", "sizes"]) {
            // An empty input is an absent one, whatever its value.
            if let Some(fact) = fact.filter(|f| f.shape.elements() > 0) {
                *view = Some(fact.known(what)?.view());
            }
        }
        let axes = self.resolve(&x.shape, views[0], views[1])?;
        let mut dims = Dims::of(&x.shape)?;
        for (d, axis) in dims.iter_mut().zip(&axes) {
            *d = axis.output;
        }
        Ok(vec![OutFact { dtype: x.dtype, shape: dims.shape()? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        let [scales, sizes] = self.given(inputs);
        let axes = self.resolve(x.shape(), scales, sizes)?;
        let y = &mut outputs[0];
        if y.shape().elements() == 0 {
            return Ok(());
        }
        if axes.iter().all(|a| a.scale == 1.0) {
            y.copy_from(&x);
            return Ok(());
        }
        by_dtype!(x.dtype(), T => self.interpolate::<T>(&x, y, &axes));
        Ok(())
    }

    fn cases() -> Vec<Case> {
        super::resize_cases::cases()
    }
}

/// Columns handled at a time, so that their taps, the same for every row, are worked out once.
const COLUMNS: usize = 64;

impl Resize {
    fn interpolate<T: Number>(&self, x: &View<'_>, y: &mut ViewMut<'_>, axes: &[AxisResize; MAX_RANK]) {
        let shape = *y.shape();
        let Some((&width, outer)) = shape.split_last() else { return };
        let last = outer.len();
        for first in (0..width).step_by(COLUMNS) {
            let mut columns = [Taps::one(0); COLUMNS];
            let columns = &mut columns[..COLUMNS.min(width - first)];
            for (i, taps) in columns.iter_mut().enumerate() {
                *taps = self.taps(&axes[last], first + i);
            }
            // Every row: the indices whose last entry is 0.
            let mut to = [0; MAX_RANK];
            loop {
                let mut rows = [Taps::one(0); MAX_RANK];
                for d in 0..last {
                    rows[d] = self.taps(&axes[d], to[d]);
                }
                if matches!(self.mode, Interpolation::Nearest(_)) {
                    nearest_row::<T>(x, y, &rows, columns, &mut to, first, last);
                } else {
                    mixed_row::<T>(x, y, &rows, columns, &mut to, first, last);
                }
                if !advance(&mut to[..last], |d| outer[d]) {
                    break;
                }
            }
        }
    }
}

/// The next index (last entry fastest) below the limits; false after the last one, with all entries back at 0.
fn advance(index: &mut [usize], limit: impl Fn(usize) -> usize) -> bool {
    for d in (0..index.len()).rev() {
        index[d] += 1;
        if index[d] < limit(d) {
            return true;
        }
        index[d] = 0;
    }
    false
}

fn nearest_row<T: Number>(
    x: &View<'_>,
    y: &mut ViewMut<'_>,
    rows: &[Taps; MAX_RANK],
    columns: &[Taps],
    to: &mut [usize; MAX_RANK],
    first: usize,
    last: usize,
) {
    let mut from = rows.map(|r| r.at[0]);
    from[last] = 0;
    if let (Some(src), Some(dst)) = (x.row::<T>(&from), y.row_mut::<T>(&to[..])) {
        for (dst, taps) in dst[first..].iter_mut().zip(columns) {
            *dst = src[taps.at[0]];
        }
        return;
    }
    for (i, taps) in columns.iter().enumerate() {
        (from[last], to[last]) = (taps.at[0], first + i);
        y.set(to, x.get::<T>(&from));
    }
    to[last] = 0;
}

fn mixed_row<T: Number>(
    x: &View<'_>,
    y: &mut ViewMut<'_>,
    rows: &[Taps; MAX_RANK],
    columns: &[Taps],
    to: &mut [usize; MAX_RANK],
    first: usize,
    last: usize,
) {
    let mut sums = [0f64; COLUMNS];
    let mut choice = [0; MAX_RANK];
    loop {
        let mut from = [0; MAX_RANK];
        let mut weight = 1f64;
        for d in 0..last {
            from[d] = rows[d].at[choice[d]];
            weight *= rows[d].weight[choice[d]] as f64;
        }
        let row = x.row::<T>(&from);
        for (sum, taps) in sums.iter_mut().zip(columns) {
            for i in 0..taps.count {
                let v = match row {
                    Some(row) => row[taps.at[i]],
                    None => {
                        from[last] = taps.at[i];
                        x.get::<T>(&from)
                    }
                };
                *sum += v.to_f64() * (weight * taps.weight[i] as f64);
            }
        }
        if !advance(&mut choice[..last], |d| rows[d].count) {
            break;
        }
    }
    for i in 0..columns.len() {
        to[last] = first + i;
        y.set(to, T::from_wide(Wide::Float(sums[i])));
    }
    to[last] = 0;
}
