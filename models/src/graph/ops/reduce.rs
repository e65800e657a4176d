use super::elementwise::{floats, int_at, permuted};
use super::literal::*;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, ErrorKind, Result};
use saltica_tensor::{DType, Element, MAX_RANK, Shape, View, ViewMut};

/// What a reduction makes of the numbers. Named as in ONNX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceKind {
    /// Sum.
    Sum,
    /// Arithmetic mean; integers truncate.
    Mean,
    /// Largest; NaN if there is one. Of nothing: minus infinity, or the smallest integer.
    Max,
    /// Smallest; NaN if there is one. Of nothing: infinity, or the largest integer.
    Min,
    /// Product.
    Prod,
    /// Sum of magnitudes.
    L1,
    /// Root of the sum of squares.
    L2,
    /// Sum of squares.
    SumSquare,
    /// Logarithm of the sum.
    LogSum,
    /// Logarithm of the sum of exponentials.
    LogSumExp,
}

/// A reduction over axes, `ReduceSum` and its kin. Floats are computed in f64 and rounded once; integers are exact in 64
/// bits and wrap.
///
/// Inputs: x, axes (i64, optional; from opset 13 for ReduceSum, 18 for the others). No axes means all of them, or none
/// with `noop_with_empty_axes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduce {
    /// What is made of the numbers.
    pub kind: ReduceKind,
    /// The axes, if an attribute names them; counted from the end if negative.
    pub axes: Option<Vec<i64>>,
    /// Whether the reduced dims stay with size 1.
    pub keepdims: bool,
    /// Whether no axes means that nothing is reduced.
    pub noop_with_empty_axes: bool,
}

type Mask = [bool; MAX_RANK];

impl Reduce {
    /// Which dims are reduced, from the axes in the order found.
    fn mask(&self, rank: usize, axes: impl Iterator<Item = i64>) -> Result<Mask> {
        let mut mask = [false; MAX_RANK];
        let mut any = false;
        for axis in axes {
            any = true;
            mask[Shape::axis(axis, rank)?] = true;
        }
        if !any && !self.noop_with_empty_axes {
            mask[..rank].fill(true);
        }
        Ok(mask)
    }

    fn output(&self, shape: &Shape, mask: &Mask) -> Result<Shape> {
        let mut dims = [1; MAX_RANK];
        let mut rank = 0;
        for d in 0..shape.rank() {
            if !mask[d] || self.keepdims {
                dims[rank] = if mask[d] { 1 } else { shape[d] };
                rank += 1;
            }
        }
        Ok(Shape::new(&dims[..rank])?)
    }

    /// The mask for views, where an axes input wins over the attribute.
    fn mask_of(&self, rank: usize, axes: Option<View<'_>>) -> Result<Mask> {
        match axes {
            Some(v) => self.mask(rank, (0..v.shape().elements()).map(|i| int_at(&v, &[i]))),
            None => self.mask(rank, self.axes.iter().flatten().copied()),
        }
    }

    fn floats<'a>(&self, numbers: impl Iterator<Item = f64> + Clone + 'a, count: usize) -> f64 {
        // Eight partial sums: a fixed order that the compiler can vectorise, and less rounding.
        let sum = |f: fn(f64) -> f64| {
            let mut parts = [0f64; 8];
            numbers.clone().enumerate().for_each(|(i, v)| parts[i % 8] += f(v));
            parts.iter().sum::<f64>()
        };
        match self.kind {
            ReduceKind::Sum => sum(|v| v),
            ReduceKind::Mean => sum(|v| v) / count as f64,
            ReduceKind::Max => {
                numbers.fold(f64::NEG_INFINITY, |m, v| if v > m || v.is_nan() { v } else { m })
            }
            ReduceKind::Min => numbers.fold(f64::INFINITY, |m, v| if v < m || v.is_nan() { v } else { m }),
            ReduceKind::Prod => numbers.product(),
            ReduceKind::L1 => sum(f64::abs),
            ReduceKind::L2 => sum(|v| v * v).sqrt(),
            ReduceKind::SumSquare => sum(|v| v * v),
            ReduceKind::LogSum => sum(|v| v).ln(),
            ReduceKind::LogSumExp => {
                let max = numbers.clone().fold(f64::NEG_INFINITY, f64::max);
                if max.is_finite() { max + numbers.map(|v| (v - max).exp()).sum::<f64>().ln() } else { max }
            }
        }
    }

    fn ints(&self, numbers: impl Iterator<Item = i64> + Clone, count: usize, dtype: DType) -> Result<i64> {
        let limits = match dtype {
            DType::I8 => (i8::MIN as i64, i8::MAX as i64),
            DType::U8 => (0, u8::MAX as i64),
            DType::I32 => (i32::MIN as i64, i32::MAX as i64),
            DType::Bool => (0, 1),
            _ => (i64::MIN, i64::MAX),
        };
        Ok(match self.kind {
            ReduceKind::Sum => numbers.fold(0, i64::wrapping_add),
            ReduceKind::Mean if count == 0 => {
                return Err(Error::new(ErrorKind::Value, "the integer mean of nothing is asked for"));
            }
            ReduceKind::Mean => numbers.fold(0, i64::wrapping_add) / count as i64,
            ReduceKind::Max => numbers.max().unwrap_or(limits.0),
            ReduceKind::Min => numbers.min().unwrap_or(limits.1),
            ReduceKind::Prod => numbers.fold(1, i64::wrapping_mul),
            ReduceKind::L1 => numbers.fold(0, |s: i64, v| s.wrapping_add(v.wrapping_abs())),
            ReduceKind::SumSquare => numbers.fold(0, |s: i64, v| s.wrapping_add(v.wrapping_mul(v))),
            ReduceKind::L2 | ReduceKind::LogSum | ReduceKind::LogSumExp => {
                self.floats(numbers.map(|v| v as f64), count) as i64
            }
        })
    }
}

/// Calls `f(index in the output, index of the first element in x)` for each output element.
fn each_output(
    x: &Shape,
    mask: &Mask,
    keepdims: bool,
    mut f: impl FnMut(&[usize; MAX_RANK], &[usize; MAX_RANK]) -> Result<()>,
) -> Result<()> {
    let rank = x.rank();
    let mut dims = [1; MAX_RANK];
    for d in 0..rank {
        dims[d] = if mask[d] { 1 } else { x[d] };
    }
    for index in Shape::new(&dims[..rank])?.indices() {
        let mut at = [0; MAX_RANK];
        let mut n = 0;
        for d in 0..rank {
            if !mask[d] || keepdims {
                at[n] = index[d];
                n += 1;
            }
        }
        f(&at, &index)?;
    }
    Ok(())
}

impl Operator for Reduce {
    fn parse(node: &NodeInfo) -> Result<Self> {
        let kind = match node.op_type.as_str() {
            "ReduceSum" => ReduceKind::Sum,
            "ReduceMean" => ReduceKind::Mean,
            "ReduceMax" => ReduceKind::Max,
            "ReduceMin" => ReduceKind::Min,
            "ReduceProd" => ReduceKind::Prod,
            "ReduceL1" => ReduceKind::L1,
            "ReduceL2" => ReduceKind::L2,
            "ReduceSumSquare" => ReduceKind::SumSquare,
            "ReduceLogSum" => ReduceKind::LogSum,
            "ReduceLogSumExp" => ReduceKind::LogSumExp,
            other => return Err(Error::unsupported(format!("{other} is no reduction"))),
        };
        let as_input = node.opset >= if kind == ReduceKind::Sum { 13 } else { 18 };
        Ok(Reduce {
            kind,
            axes: if as_input { None } else { node.ints("axes")? },
            keepdims: node.int("keepdims")?.unwrap_or(1) != 0,
            noop_with_empty_axes: as_input && node.int("noop_with_empty_axes")?.unwrap_or(0) != 0,
        })
    }

    fn name(&self) -> &str {
        match self.kind {
            ReduceKind::Sum => "ReduceSum",
            ReduceKind::Mean => "ReduceMean",
            ReduceKind::Max => "ReduceMax",
            ReduceKind::Min => "ReduceMin",
            ReduceKind::Prod => "ReduceProd",
            ReduceKind::L1 => "ReduceL1",
            ReduceKind::L2 => "ReduceL2",
            ReduceKind::SumSquare => "ReduceSumSquare",
            ReduceKind::LogSum => "ReduceLogSum",
            ReduceKind::LogSumExp => "ReduceLogSumExp",
        }
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let extremes = matches!(self.kind, ReduceKind::Max | ReduceKind::Min);
        if x.dtype == DType::Bool && !extremes {
            return Err(Error::shape(format!("{} does not take bool", self.name())));
        }
        let mask = match inputs.get(1).copied().flatten() {
            Some(axes) if axes.dtype != DType::I64 || axes.shape.rank() != 1 => {
                return Err(Error::shape(format!(
                    "axes are {} {}, a list of i64 expected",
                    axes.dtype, axes.shape
                )));
            }
            Some(axes) => self.mask_of(x.shape.rank(), Some(axes.known("axes")?.view()))?,
            None => self.mask_of(x.shape.rank(), None)?,
        };
        Ok(vec![OutFact { dtype: x.dtype, shape: self.output(&x.shape, &mask)? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = &required(inputs, 0, "x")?;
        let y = &mut outputs[0];
        let rank = x.shape().rank();
        let mask = self.mask_of(rank, inputs.get(1).copied().flatten())?;
        // The reduced dims go last, so that one reduction is one run of indices, and of memory where strides allow it.
        let mut order = [0; MAX_RANK];
        let kept = (0..rank).filter(|&d| !mask[d]).chain((0..rank).filter(|&d| mask[d]));
        kept.zip(&mut order).for_each(|(d, o)| *o = d);
        let full = *x.shape();
        let x = permuted(x, &order[..rank])?;
        let outer = (0..rank).filter(|&d| !mask[d]).count();
        let inner = Shape::new(&x.shape()[outer..])?;
        let count = inner.elements();
        if *y.shape() != self.output(&full, &mask)? {
            return Err(Error::shape(format!("the axes found do not reduce {full} to {}", y.shape())));
        }
        let mut line = 0;
        each_output(&full, &mask, self.keepdims, |at, first| {
            let mut start = [0; MAX_RANK];
            (0..outer).for_each(|i| start[i] = first[order[i]]);
            let places = inner.indices().map(move |i| {
                let mut place = start;
                place[outer..rank].copy_from_slice(&i[..rank - outer]);
                place
            });
            floats!(x.dtype(), T => {
                let v = match x.as_slice::<T>() {
                    Some(all) => {
                        self.floats(all[line..line + count].iter().map(|v| v.to_f64()), count)
                    }
                    None => self.floats(places.map(|p| x.get::<T>(&p).to_f64()), count),
                };
                y.set(at, T::from_f64(v));
            }, {
                let v = self.ints(places.map(|p| int_at(&x, &p)), count, x.dtype())?;
                match x.dtype() {
                    DType::I64 => y.set(at, v),
                    DType::I32 => y.set(at, v as i32),
                    DType::I8 => y.set(at, v as i8),
                    DType::U8 => y.set(at, v as u8),
                    _ => y.set_f64(at, v as f64),
                }
            });
            line += count;
            Ok(())
        })
    }

    #[rustfmt::skip] // tables of numbers
    #[allow(clippy::approx_constant)] // they only look alike
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("ReduceSum axes input", node("ReduceSum", 13, 2, vec![]), vec![f32s(&[2, 3, 4], &[1.69, 0.14,
                1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24, -1.59, 0.61, -0.16, -1.95, 0.86,
                -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19]), i64s(&[1], &[1])], vec![f32s(&[2, 1, 4],
                &[2.06, -0.29999998, -0.64, -2.5500002, -0.53000003, 1.6600001, -0.03999996, 2.19])], CLOSE),
            case("ReduceSum axes input, no keepdims", node("ReduceSum", 13, 2, vec![int("keepdims", 0)]),
                vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24,
                -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19]),
                i64s(&[2], &[-1, 0])], vec![f32s(&[3], &[4.03, -4.16, 1.9800003])], CLOSE),
            case("ReduceSum axes attribute", node("ReduceSum", 11, 1, vec![ints("axes", &[2]), int("keepdims",
                0)]), vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65,
                -1.24, -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19])],
                vec![f32s(&[2, 3], &[4.67, -4.4, -1.7, -0.64, 0.24000001, 3.6800003])], CLOSE),
            case("ReduceSum of everything", node("ReduceSum", 11, 1, vec![int("keepdims", 0)]), vec![f32s(&[2,
                3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24, -1.59, 0.61,
                -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19])], vec![f32s(&[],
                &[1.8500001])], CLOSE),
            case("ReduceMean axes input", node("ReduceMean", 18, 2, vec![]), vec![f32s(&[2, 3, 4], &[1.69,
                0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24, -1.59, 0.61, -0.16, -1.95,
                0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19]), i64s(&[1], &[1])], vec![f32s(&[2, 1,
                4], &[0.68666667, -0.099999994, -0.21333332, -0.8500001, -0.17666668, 0.55333334,
                -0.013333321, 0.73])], CLOSE),
            case("ReduceMean axes input, no keepdims", node("ReduceMean", 18, 2, vec![int("keepdims", 0)]),
                vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24,
                -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19]),
                i64s(&[2], &[-1, 0])], vec![f32s(&[3], &[0.50375, -0.52, 0.24750003])], CLOSE),
            case("ReduceMean axes attribute", node("ReduceMean", 11, 1, vec![ints("axes", &[2]),
                int("keepdims", 0)]), vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36,
                -1.84, 1.78, -0.65, -1.24, -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17,
                0.7, 1.96, 1.19])], vec![f32s(&[2, 3], &[1.1675, -1.1, -0.425, -0.16, 0.060000002,
                0.9200001])], CLOSE),
            case("ReduceMean of everything", node("ReduceMean", 11, 1, vec![int("keepdims", 0)]),
                vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24,
                -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19])],
                vec![f32s(&[], &[0.07708334])], CLOSE),
            case("ReduceMax axes input", node("ReduceMax", 18, 2, vec![]), vec![f32s(&[2, 3, 4], &[1.69, 0.14,
                1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24, -1.59, 0.61, -0.16, -1.95, 0.86,
                -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19]), i64s(&[1], &[1])], vec![f32s(&[2, 1, 4],
                &[1.78, 0.21, 1.96, 0.88, 0.61, 1.12, 1.96, 1.19])], CLOSE),
            case("ReduceMax axes input, no keepdims", node("ReduceMax", 18, 2, vec![int("keepdims", 0)]),
                vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24,
                -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19]),
                i64s(&[2], &[-1, 0])], vec![f32s(&[3], &[1.96, 1.12, 1.96])], CLOSE),
            case("ReduceMax axes attribute", node("ReduceMax", 11, 1, vec![ints("axes", &[2]), int("keepdims",
                0)]), vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65,
                -1.24, -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19])],
                vec![f32s(&[2, 3], &[1.96, 0.21, 1.78, 0.86, 1.12, 1.96])], CLOSE),
            case("ReduceMax of everything", node("ReduceMax", 11, 1, vec![int("keepdims", 0)]), vec![f32s(&[2,
                3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24, -1.59, 0.61,
                -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19])], vec![f32s(&[],
                &[1.96])], CLOSE),
            case("ReduceMin axes input", node("ReduceMin", 18, 2, vec![]), vec![f32s(&[2, 3, 4], &[1.69, 0.14,
                1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24, -1.59, 0.61, -0.16, -1.95, 0.86,
                -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19]), i64s(&[1], &[1])], vec![f32s(&[2, 1, 4],
                &[-1.41, -0.65, -1.36, -1.84, -0.97, -0.16, -1.95, 0.14])], CLOSE),
            case("ReduceMin axes input, no keepdims", node("ReduceMin", 18, 2, vec![int("keepdims", 0)]),
                vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24,
                -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19]),
                i64s(&[2], &[-1, 0])], vec![f32s(&[3], &[-1.95, -1.84, -1.59])], CLOSE),
            case("ReduceMin axes attribute", node("ReduceMin", 11, 1, vec![ints("axes", &[2]), int("keepdims",
                0)]), vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65,
                -1.24, -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19])],
                vec![f32s(&[2, 3], &[0.14, -1.84, -1.59, -1.95, -0.97, -0.17])], CLOSE),
            case("ReduceMin of everything", node("ReduceMin", 11, 1, vec![int("keepdims", 0)]), vec![f32s(&[2,
                3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24, -1.59, 0.61,
                -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19])], vec![f32s(&[],
                &[-1.95])], CLOSE),
            case("ReduceProd axes input", node("ReduceProd", 18, 2, vec![]), vec![f32s(&[2, 3, 4], &[1.69,
                0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24, -1.59, 0.61, -0.16, -1.95,
                0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19]), i64s(&[1], &[1])], vec![f32s(&[2, 1,
                4], &[-4.241562, -0.019109998, 3.305344, 2.574528, 0.10058901, -0.12543999, 0.19110002,
                0.143276])], CLOSE),
            case("ReduceProd axes input, no keepdims", node("ReduceProd", 18, 2, vec![int("keepdims", 0)]),
                vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24,
                -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19]),
                i64s(&[2], &[-1, 0])], vec![f32s(&[3], &[0.066793844, -0.005634858, 0.63314354])], CLOSE),
            case("ReduceProd axes attribute", node("ReduceProd", 11, 1, vec![ints("axes", &[2]),
                int("keepdims", 0)]), vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36,
                -1.84, 1.78, -0.65, -1.24, -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17,
                0.7, 1.96, 1.19])], vec![f32s(&[2, 3], &[0.4080877, -0.7409606, -2.2811413, 0.1636752,
                0.0076048006, -0.2775556])], CLOSE),
            case("ReduceProd of everything", node("ReduceProd", 11, 1, vec![int("keepdims", 0)]),
                vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24,
                -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19])],
                vec![f32s(&[], &[-0.00023829863])], CLOSE),
            case("ReduceL1 axes input", node("ReduceL1", 18, 2, vec![]), vec![f32s(&[2, 3, 4], &[1.69, 0.14,
                1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24, -1.59, 0.61, -0.16, -1.95, 0.86,
                -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19]), i64s(&[1], &[1])], vec![f32s(&[2, 1, 4],
                &[4.88, 1., 4.5600004, 4.31, 1.75, 1.98, 3.96, 2.19])], CLOSE),
            case("ReduceL1 axes input, no keepdims", node("ReduceL1", 18, 2, vec![int("keepdims", 0)]),
                vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24,
                -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19]),
                i64s(&[2], &[-1, 0])], vec![f32s(&[3], &[8.25, 7.1, 9.280001])], CLOSE),
            case("ReduceL1 axes attribute", node("ReduceL1", 11, 1, vec![ints("axes", &[2]), int("keepdims",
                0)]), vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65,
                -1.24, -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19])],
                vec![f32s(&[2, 3], &[4.67, 4.82, 5.2599998, 3.58, 2.2800002, 4.02])], CLOSE),
            case("ReduceL1 of everything", node("ReduceL1", 11, 1, vec![int("keepdims", 0)]), vec![f32s(&[2,
                3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24, -1.59, 0.61,
                -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19])], vec![f32s(&[],
                &[24.630001])], CLOSE),
            case("ReduceL2 axes input", node("ReduceL2", 18, 2, vec![]), vec![f32s(&[2, 3, 4], &[1.69, 0.14,
                1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24, -1.59, 0.61, -0.16, -1.95, 0.86,
                -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19]), i64s(&[1], &[1])], vec![f32s(&[2, 1, 4],
                &[2.8306537, 0.6972804, 2.6886427, 2.586136, 1.1584041, 1.3304135, 2.7652488, 1.4748899])],
                CLOSE),
            case("ReduceL2 axes input, no keepdims", node("ReduceL2", 18, 2, vec![int("keepdims", 0)]),
                vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24,
                -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19]),
                i64s(&[2], &[-1, 0])], vec![f32s(&[3], &[3.5258334, 3.07974, 3.6651332])], CLOSE),
            case("ReduceL2 axes attribute", node("ReduceL2", 11, 1, vec![ints("axes", &[2]), int("keepdims",
                0)]), vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65,
                -1.24, -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19])],
                vec![f32s(&[2, 3], &[2.737097, 2.6958115, 2.7670562, 2.2225661, 1.4890937, 2.403456])],
                CLOSE),
            case("ReduceL2 of everything", node("ReduceL2", 11, 1, vec![int("keepdims", 0)]), vec![f32s(&[2,
                3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24, -1.59, 0.61,
                -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19])], vec![f32s(&[],
                &[5.9455447])], CLOSE),
            case("ReduceSumSquare axes input", node("ReduceSumSquare", 18, 2, vec![]), vec![f32s(&[2, 3, 4],
                &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24, -1.59, 0.61, -0.16,
                -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19]), i64s(&[1], &[1])],
                vec![f32s(&[2, 1, 4], &[8.0126, 0.48619995, 7.2288003, 6.6881, 1.3419001, 1.77, 7.6466007,
                2.1753001])], CLOSE),
            case("ReduceSumSquare axes input, no keepdims", node("ReduceSumSquare", 18, 2,
                vec![int("keepdims", 0)]), vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36,
                -1.84, 1.78, -0.65, -1.24, -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17,
                0.7, 1.96, 1.19]), i64s(&[2], &[-1, 0])], vec![f32s(&[3], &[12.4315, 9.484799, 13.433201])],
                CLOSE),
            case("ReduceSumSquare axes attribute", node("ReduceSumSquare", 11, 1, vec![ints("axes", &[2]),
                int("keepdims", 0)]), vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36,
                -1.84, 1.78, -0.65, -1.24, -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17,
                0.7, 1.96, 1.19])], vec![f32s(&[2, 3], &[7.4917, 7.2674, 7.6566, 4.9398003, 2.2174,
                5.7766004])], CLOSE),
            case("ReduceSumSquare of everything", node("ReduceSumSquare", 11, 1, vec![int("keepdims", 0)]),
                vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24,
                -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19])],
                vec![f32s(&[], &[35.349503])], CLOSE),
            case("ReduceLogSum axes input", node("ReduceLogSum", 18, 2, vec![]), vec![f32s(&[2, 3, 4],
                &[1.7900001, 0.24000001, 2.06, 0.98, 1.51, 0.31, 1.46, 1.94, 1.88, 0.75, 1.34, 1.69,
                0.71000004, 0.26, 2.05, 0.96000004, 1.07, 1.22, 0.15, 0.24000001, 0.27, 0.8, 2.06,
                1.2900001]), i64s(&[1], &[1])], vec![f32s(&[2, 1, 4], &[1.6448051, 0.26236424, 1.5810385,
                1.5282279, 0.7178399, 0.8241754, 1.4492692, 0.9122828])], CLOSE),
            case("ReduceLogSum axes input, no keepdims", node("ReduceLogSum", 18, 2, vec![int("keepdims",
                0)]), vec![f32s(&[2, 3, 4], &[1.7900001, 0.24000001, 2.06, 0.98, 1.51, 0.31, 1.46, 1.94, 1.88,
                0.75, 1.34, 1.69, 0.71000004, 0.26, 2.05, 0.96000004, 1.07, 1.22, 0.15, 0.24000001, 0.27, 0.8,
                2.06, 1.2900001]), i64s(&[2], &[-1, 0])], vec![f32s(&[3], &[2.2027647, 2.0668628,
                2.3105533])], CLOSE),
            case("ReduceLogSum axes attribute", node("ReduceLogSum", 11, 1, vec![ints("axes", &[2]),
                int("keepdims", 0)]), vec![f32s(&[2, 3, 4], &[1.7900001, 0.24000001, 2.06, 0.98, 1.51, 0.31,
                1.46, 1.94, 1.88, 0.75, 1.34, 1.69, 0.71000004, 0.26, 2.05, 0.96000004, 1.07, 1.22, 0.15,
                0.24000001, 0.27, 0.8, 2.06, 1.2900001])], vec![f32s(&[2, 3], &[1.6233408, 1.6524974,
                1.733424, 1.3812819, 0.98581684, 1.4861397])], CLOSE),
            case("ReduceLogSum of everything", node("ReduceLogSum", 11, 1, vec![int("keepdims", 0)]),
                vec![f32s(&[2, 3, 4], &[1.7900001, 0.24000001, 2.06, 0.98, 1.51, 0.31, 1.46, 1.94, 1.88, 0.75,
                1.34, 1.69, 0.71000004, 0.26, 2.05, 0.96000004, 1.07, 1.22, 0.15, 0.24000001, 0.27, 0.8, 2.06,
                1.2900001])], vec![f32s(&[], &[3.2969475])], CLOSE),
            case("ReduceLogSumExp axes input", node("ReduceLogSumExp", 18, 2, vec![]), vec![f32s(&[2, 3, 4],
                &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24, -1.59, 0.61, -0.16,
                -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19]), i64s(&[1], &[1])],
                vec![f32s(&[2, 1, 4], &[2.4504428, 1.0667768, 2.0341005, 1.0201615, 1.1194533, 1.7801508,
                2.1032596, 1.9169985])], CLOSE),
            case("ReduceLogSumExp axes input, no keepdims", node("ReduceLogSumExp", 18, 2,
                vec![int("keepdims", 0)]), vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36,
                -1.84, 1.78, -0.65, -1.24, -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17,
                0.7, 1.96, 1.19]), i64s(&[2], &[-1, 0])], vec![f32s(&[3], &[3.0576735, 2.0067015,
                3.0051398])], CLOSE),
            case("ReduceLogSumExp axes attribute", node("ReduceLogSumExp", 11, 1, vec![ints("axes", &[2]),
                int("keepdims", 0)]), vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36,
                -1.84, 1.78, -0.65, -1.24, -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17,
                0.7, 1.96, 1.19])], vec![f32s(&[2, 3], &[2.777575, 0.6383211, 1.9380524, 1.6482759, 1.7129761,
                2.5835314])], CLOSE),
            case("ReduceLogSumExp of everything", node("ReduceLogSumExp", 11, 1, vec![int("keepdims", 0)]),
                vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24,
                -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19])],
                vec![f32s(&[], &[3.8898954])], CLOSE),
            case("ReduceSum int32", node("ReduceSum", 11, 1, vec![ints("axes", &[1])]), vec![i32s(&[2, 3],
                &[3, -1, -8, -1, 0, -2])], vec![i32s(&[2, 1], &[-6, -3])], EXACT),
            case("ReduceSum int64", node("ReduceSum", 11, 1, vec![ints("axes", &[1])]), vec![i64s(&[2, 3],
                &[-5, -6, -8, 0, -6, 2])], vec![i64s(&[2, 1], &[-19, -4])], EXACT),
            case("ReduceMean int32", node("ReduceMean", 11, 1, vec![ints("axes", &[1])]), vec![i32s(&[2, 3],
                &[-5, -1, 9, 0, 5, 3])], vec![i32s(&[2, 1], &[1, 2])], EXACT),
            case("ReduceMean int64", node("ReduceMean", 11, 1, vec![ints("axes", &[1])]), vec![i64s(&[2, 3],
                &[7, -8, 4, -5, -4, 8])], vec![i64s(&[2, 1], &[1, 0])], EXACT),
            case("ReduceMax int32", node("ReduceMax", 11, 1, vec![ints("axes", &[1])]), vec![i32s(&[2, 3],
                &[-2, 0, -1, -7, -4, -7])], vec![i32s(&[2, 1], &[0, -4])], EXACT),
            case("ReduceMax int64", node("ReduceMax", 11, 1, vec![ints("axes", &[1])]), vec![i64s(&[2, 3],
                &[-1, -9, 5, 1, -8, 9])], vec![i64s(&[2, 1], &[5, 9])], EXACT),
            case("ReduceMin int32", node("ReduceMin", 11, 1, vec![ints("axes", &[1])]), vec![i32s(&[2, 3],
                &[-4, -3, 0, 1, 3, 1])], vec![i32s(&[2, 1], &[-4, 1])], EXACT),
            case("ReduceMin int64", node("ReduceMin", 11, 1, vec![ints("axes", &[1])]), vec![i64s(&[2, 3],
                &[3, -4, 4, 7, -8, -7])], vec![i64s(&[2, 1], &[-4, -8])], EXACT),
            case("ReduceProd int32", node("ReduceProd", 11, 1, vec![ints("axes", &[1])]), vec![i32s(&[2, 3],
                &[-6, -3, -4, 5, -4, 7])], vec![i32s(&[2, 1], &[-72, -140])], EXACT),
            case("ReduceProd int64", node("ReduceProd", 11, 1, vec![ints("axes", &[1])]), vec![i64s(&[2, 3],
                &[5, 8, 9, -8, 3, 7])], vec![i64s(&[2, 1], &[360, -168])], EXACT),
            case("ReduceL1 int32", node("ReduceL1", 11, 1, vec![ints("axes", &[1])]), vec![i32s(&[2, 3], &[-9,
                -6, -4, -6, 6, -7])], vec![i32s(&[2, 1], &[19, 19])], EXACT),
            case("ReduceL1 int64", node("ReduceL1", 11, 1, vec![ints("axes", &[1])]), vec![i64s(&[2, 3], &[8,
                -3, 2, -2, -3, 7])], vec![i64s(&[2, 1], &[13, 12])], EXACT),
            case("ReduceSumSquare int32", node("ReduceSumSquare", 11, 1, vec![ints("axes", &[1])]),
                vec![i32s(&[2, 3], &[-3, 9, 3, -3, 7, -4])], vec![i32s(&[2, 1], &[99, 74])], EXACT),
            case("ReduceSumSquare int64", node("ReduceSumSquare", 11, 1, vec![ints("axes", &[1])]),
                vec![i64s(&[2, 3], &[-3, 7, -6, 7, -9, -9])], vec![i64s(&[2, 1], &[94, 211])], EXACT),
            case("ReduceMax uint8", node("ReduceMax", 12, 1, vec![ints("axes", &[1])]), vec![u8s(&[2, 3], &[1,
                6, 8, 8, 6, 6])], vec![u8s(&[2, 1], &[8, 8])], EXACT),
            case("ReduceMax int8", node("ReduceMax", 12, 1, vec![ints("axes", &[1])]), vec![i8s(&[2, 3], &[9,
                9, 0, 5, 3, 1])], vec![i8s(&[2, 1], &[9, 5])], EXACT),
            // onnx reference.
            case("ReduceMax bool", node("ReduceMax", 20, 2, vec![]), vec![bools(&[2, 2], &[1, 0, 0, 0]),
                i64s(&[1], &[1])], vec![bools(&[2, 1], &[1, 0])], EXACT),
            case("ReduceMin uint8", node("ReduceMin", 12, 1, vec![ints("axes", &[1])]), vec![u8s(&[2, 3], &[7,
                5, 6, 5, 0, 8])], vec![u8s(&[2, 1], &[5, 0])], EXACT),
            case("ReduceMin int8", node("ReduceMin", 12, 1, vec![ints("axes", &[1])]), vec![i8s(&[2, 3], &[4,
                2, 6, 3, 6, 5])], vec![i8s(&[2, 1], &[2, 3])], EXACT),
            // onnx reference.
            case("ReduceMin bool", node("ReduceMin", 20, 2, vec![]), vec![bools(&[2, 2], &[1, 0, 0, 0]),
                i64s(&[1], &[1])], vec![bools(&[2, 1], &[0, 0])], EXACT),
            case("ReduceMean as in exports", node("ReduceMean", 17, 1, vec![ints("axes", &[2, 3]),
                int("keepdims", 1)]), vec![f32s(&[1, 2, 3, 3], &[-1.25, 1.86, -0.13, 0.87, 0.14, -1.68, -1.05,
                -1.75, -1.24, -1.2, -0.34, -0.71, -0.55, 1.27, -1.91, -1.59, 1.23, 0.14])], vec![f32s(&[1, 2,
                1, 1], &[-0.46999994, -0.40666667])], CLOSE),
            case("ReduceMax last axis", node("ReduceMax", 17, 1, vec![ints("axes", &[-1]), int("keepdims",
                0)]), vec![f32s(&[1, 3, 5], &[-0.24, -0.93, 0.17, -1.11, 1.43, 1.3, -0.71, -1.9, 1.55, -0.81,
                0.63, 1.43, 1.19, 1.45, -0.04])], vec![f32s(&[1, 3], &[1.43, 1.55, 1.45])], CLOSE),
            case("ReduceL2 axis 1", node("ReduceL2", 17, 1, vec![ints("axes", &[1]), int("keepdims", 1)]),
                vec![f32s(&[1, 3, 2, 2], &[1.37, -0.16, -0.94, -0.08, -0.66, 1.07, 1.33, -1.44, -1.34, -0.47,
                -0.15, 1.83])], vec![f32s(&[1, 1, 2, 2], &[2.0268447, 1.1795763, 1.6355428, 2.3300002])],
                CLOSE),
            case("ReduceSum noop", node("ReduceSum", 13, 2, vec![int("noop_with_empty_axes", 1)]),
                vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24,
                -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19]),
                i64s(&[0], &[])], vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84,
                1.78, -0.65, -1.24, -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7,
                1.96, 1.19])], CLOSE),
            case("ReduceSum no axes reduces all", node("ReduceSum", 13, 2, vec![int("noop_with_empty_axes",
                0), int("keepdims", 0)]), vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36,
                -1.84, 1.78, -0.65, -1.24, -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17,
                0.7, 1.96, 1.19]), i64s(&[0], &[])], vec![f32s(&[], &[1.8500001])], CLOSE),
            case("ReduceSum absent axes", node("ReduceSum", 13, 1, vec![int("keepdims", 1)]), vec![f32s(&[2,
                3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24, -1.59, 0.61,
                -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19])], vec![f32s(&[1, 1, 1],
                &[1.8500001])], CLOSE),
            case("ReduceMean noop, axes absent", node("ReduceMean", 18, 1, vec![int("noop_with_empty_axes",
                1)]), vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65,
                -1.24, -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19])],
                vec![f32s(&[2, 3, 4], &[1.69, 0.14, 1.96, 0.88, -1.41, 0.21, -1.36, -1.84, 1.78, -0.65, -1.24,
                -1.59, 0.61, -0.16, -1.95, 0.86, -0.97, 1.12, -0.05, 0.14, -0.17, 0.7, 1.96, 1.19])], CLOSE),
            case("ReduceSum i64 is exact", node("ReduceSum", 11, 1, vec![int("keepdims", 0)]), vec![i64s(&[2],
                &[9007199254740992, 1])], vec![i64s(&[], &[9007199254740992])], EXACT),
            case("ReduceSum of nothing", node("ReduceSum", 13, 2, vec![]), vec![f32s(&[2, 0], &[]), i64s(&[1],
                &[1])], vec![f32s(&[2, 1], &[0., 0.])], CLOSE),
            // onnx reference.
            case("ReduceMax of nothing", node("ReduceMax", 20, 2, vec![]), vec![f32s(&[2, 0], &[]), i64s(&[1],
                &[1])], vec![f32s(&[2, 1], &[f32::NEG_INFINITY, f32::NEG_INFINITY])], CLOSE),
            // onnx reference.
            case("ReduceProd of nothing", node("ReduceProd", 18, 2, vec![]), vec![f32s(&[2, 0], &[]),
                i64s(&[1], &[1])], vec![f32s(&[2, 1], &[1., 1.])], CLOSE),
            case("ReduceSum of a scalar", node("ReduceSum", 13, 1, vec![]), vec![f32s(&[], &[3.])],
                vec![f32s(&[], &[3.])], CLOSE),
            // In f64, rounded once (numpy).
            case("ReduceSum f16", node("ReduceSum", 11, 1, vec![ints("axes", &[1])]), vec![f16s(&[2, 5],
                &[1.77, 1.87, 0.92, 0.71, -0.92, -0.51, -1.99, 1.33, -0.9, -1.68])], vec![f16s(&[2, 1],
                &[4.35, -3.75])], EXACT),
        ]
    }
}
