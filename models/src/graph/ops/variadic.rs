use super::elementwise::{Number, broadcast, numbers, zip};
use super::literal::*;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use half::f16;
use saltica_tensor::{DType, View, ViewMut};

/// Which function of several numbers. Named as in ONNX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariadicKind {
    /// The smallest; NaN if there is one.
    Min,
    /// The largest; NaN if there is one.
    Max,
    /// The sum.
    Sum,
    /// The arithmetic mean.
    Mean,
}

/// A function of one or more tensors, element by element, with numpy's broadcasting. Inputs are taken from the left;
/// f16 is computed in f32 and rounded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variadic {
    /// The function.
    pub kind: VariadicKind,
}

impl Variadic {
    fn fold<T: Number>(&self, inputs: &[Option<View<'_>>], y: &mut ViewMut<'_>) -> Result<()> {
        let step = match self.kind {
            VariadicKind::Min => T::least,
            VariadicKind::Max => T::greatest,
            VariadicKind::Sum | VariadicKind::Mean => T::add,
        };
        let count = T::from_f64(inputs.len() as f64);
        let end = |v: T| if self.kind == VariadicKind::Mean { v.div(count) } else { v };
        if let [Some(a), Some(b)] = inputs {
            // A known function per loop, for the compiler's sake.
            return match self.kind {
                VariadicKind::Min => zip(a, b, y, T::least),
                VariadicKind::Max => zip(a, b, y, T::greatest),
                VariadicKind::Sum => zip(a, b, y, T::add),
                VariadicKind::Mean => zip(a, b, y, |a: T, b: T| end(a.add(b))),
            };
        }
        for index in y.shape().indices() {
            let mut result = None;
            for input in inputs.iter().flatten() {
                let v = broadcast(input, y.shape())?.get::<T>(&index);
                result = Some(result.map_or(v, |r| step(r, v)));
            }
            if let Some(v) = result {
                y.set(&index, end(v));
            }
        }
        Ok(())
    }

    /// Sum and Mean of f16: the running sum stays f32.
    fn fold_f16(&self, inputs: &[Option<View<'_>>], y: &mut ViewMut<'_>) -> Result<()> {
        let count = if self.kind == VariadicKind::Mean { inputs.len() as f32 } else { 1.0 };
        for index in y.shape().indices() {
            let mut sum = 0f32;
            for input in inputs.iter().flatten() {
                sum += broadcast(input, y.shape())?.get::<f16>(&index).to_f32();
            }
            y.set(&index, f16::from_f32(sum / count));
        }
        Ok(())
    }
}

impl Operator for Variadic {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(Variadic {
            kind: match node.op_type.as_str() {
                "Min" => VariadicKind::Min,
                "Max" => VariadicKind::Max,
                "Sum" => VariadicKind::Sum,
                "Mean" => VariadicKind::Mean,
                other => return Err(Error::unsupported(format!("{other} takes no list of tensors"))),
            },
        })
    }

    fn name(&self) -> &str {
        match self.kind {
            VariadicKind::Min => "Min",
            VariadicKind::Max => "Max",
            VariadicKind::Sum => "Sum",
            VariadicKind::Mean => "Mean",
        }
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let first = required(inputs, 0, "first")?;
        let floats_only = matches!(self.kind, VariadicKind::Sum | VariadicKind::Mean);
        if first.dtype == DType::Bool || (floats_only && !first.dtype.is_float()) {
            return Err(Error::shape(format!("{} does not take {}", self.name(), first.dtype)));
        }
        let mut shape = first.shape;
        for i in 1..inputs.len() {
            let next = required(inputs, i, "one of the list")?;
            if next.dtype != first.dtype {
                return Err(Error::shape(format!(
                    "{} takes tensors of one dtype, {} and {} found",
                    self.name(),
                    first.dtype,
                    next.dtype
                )));
            }
            shape = shape.broadcast(&next.shape)?;
        }
        Ok(vec![OutFact { dtype: first.dtype, shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let first = required(inputs, 0, "first")?;
        let y = &mut outputs[0];
        let sums = matches!(self.kind, VariadicKind::Sum | VariadicKind::Mean);
        if sums && first.dtype() == DType::F16 {
            return self.fold_f16(inputs, y);
        }
        numbers!(first.dtype(), T => self.fold::<T>(inputs, y), {
            Err(Error::shape(format!("{} does not take bool", self.name())))
        })
    }

    #[rustfmt::skip] // tables of numbers
    #[allow(clippy::approx_constant)] // they only look alike
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("Min of one", node("Min", 17, 1, vec![]), vec![f32s(&[2, 2], &[1., -1.24, 1.66, -1.13])],
                vec![f32s(&[2, 2], &[1., -1.24, 1.66, -1.13])], CLOSE),
            case("Min of two, broadcast", node("Min", 17, 2, vec![]), vec![f32s(&[2, 2], &[1.08, -1.73, -0.11,
                -1.87]), f32s(&[2], &[-0.74, -0.75])], vec![f32s(&[2, 2], &[-0.74, -1.73, -0.74, -1.87])],
                CLOSE),
            case("Min of three, broadcast", node("Min", 17, 3, vec![]), vec![f32s(&[2, 1], &[0.88, -0.18]),
                f32s(&[2], &[-1.77, 1.98]), f32s(&[1, 1, 2], &[1.55, 1.67])], vec![f32s(&[1, 2, 2], &[-1.77,
                0.88, -1.77, -0.18])], CLOSE),
            case("Min f16 of three", node("Min", 17, 3, vec![]), vec![f16s(&[3], &[-1.01, -0.42, -1.09]),
                f16s(&[3], &[-1.5, -1.87, 0.01]), f16s(&[3], &[-1.51, -1.29, 1.44])], vec![f16s(&[3], &[-1.51,
                -1.87, -1.09])], EXACT),
            case("Max of one", node("Max", 17, 1, vec![]), vec![f32s(&[2, 2], &[-0.06, -1.27, 0.68, -0.94])],
                vec![f32s(&[2, 2], &[-0.06, -1.27, 0.68, -0.94])], CLOSE),
            case("Max of two, broadcast", node("Max", 17, 2, vec![]), vec![f32s(&[2, 2], &[0.11, -0.87, 0.06,
                0.51]), f32s(&[2], &[0.14, -0.42])], vec![f32s(&[2, 2], &[0.14, -0.42, 0.14, 0.51])], CLOSE),
            case("Max of three, broadcast", node("Max", 17, 3, vec![]), vec![f32s(&[2, 1], &[1.16, 1.49]),
                f32s(&[2], &[-1.28, -1.45]), f32s(&[1, 1, 2], &[-1.55, 1.92])], vec![f32s(&[1, 2, 2], &[1.16,
                1.92, 1.49, 1.92])], CLOSE),
            case("Max f16 of three", node("Max", 17, 3, vec![]), vec![f16s(&[3], &[1.77, -1.08, 1.88]),
                f16s(&[3], &[-1.17, 0.03, -0.01]), f16s(&[3], &[1.66, -1.84, -0.74])], vec![f16s(&[3], &[1.77,
                0.03, 1.88])], EXACT),
            case("Sum of one", node("Sum", 17, 1, vec![]), vec![f32s(&[2, 2], &[0.4, -1.73, -1.05, -0.14])],
                vec![f32s(&[2, 2], &[0.4, -1.73, -1.05, -0.14])], CLOSE),
            case("Sum of two, broadcast", node("Sum", 17, 2, vec![]), vec![f32s(&[2, 2], &[1.52, 1.04, 1.32,
                1.04]), f32s(&[2], &[0.83, 1.4])], vec![f32s(&[2, 2], &[2.35, 2.44, 2.15, 2.44])], CLOSE),
            case("Sum of three, broadcast", node("Sum", 17, 3, vec![]), vec![f32s(&[2, 1], &[0.73, 0.94]),
                f32s(&[2], &[-0.79, -1.33]), f32s(&[1, 1, 2], &[1.03, -1.34])], vec![f32s(&[1, 2, 2],
                &[0.96999997, -1.94, 1.18, -1.73])], CLOSE),
            // In f64, rounded once (numpy).
            case("Sum f16 of three", node("Sum", 13, 3, vec![]), vec![f16s(&[3], &[1.68, 0.39, -0.68]),
                f16s(&[3], &[1.75, -1.38, 0.06]), f16s(&[3], &[-1.63, 1.86, 0.3])], vec![f16s(&[3], &[1.8,
                0.87, -0.32])], EXACT),
            case("Mean of one", node("Mean", 17, 1, vec![]), vec![f32s(&[2, 2], &[1.21, -0.87, 1.21, 0.81])],
                vec![f32s(&[2, 2], &[1.21, -0.87, 1.21, 0.81])], CLOSE),
            case("Mean of two, broadcast", node("Mean", 17, 2, vec![]), vec![f32s(&[2, 2], &[0.57, 1.8, -0.27,
                -0.34]), f32s(&[2], &[0.77, 1.34])], vec![f32s(&[2, 2], &[0.66999996, 1.5699999, 0.24999999,
                0.5])], CLOSE),
            case("Mean of three, broadcast", node("Mean", 17, 3, vec![]), vec![f32s(&[2, 1], &[-0.66, 0.68]),
                f32s(&[2], &[-1.16, 0.21]), f32s(&[1, 1, 2], &[1.08, -1.74])], vec![f32s(&[1, 2, 2],
                &[-0.24666664, -0.73, 0.20000003, -0.28333336])], CLOSE),
            // In f64, rounded once (numpy).
            case("Mean f16 of three", node("Mean", 13, 3, vec![]), vec![f16s(&[3], &[0.91, -1.94, 1.83]),
                f16s(&[3], &[-0.13, -0.36, 0.88]), f16s(&[3], &[0.09, 0.92, -1.66])], vec![f16s(&[3], &[0.29,
                -0.4602, 0.3499])], EXACT),
            case("Min i64", node("Min", 17, 3, vec![]), vec![i64s(&[3], &[9, 1, -2]), i64s(&[3], &[1, -9, 8]),
                i64s(&[], &[0])], vec![i64s(&[3], &[0, -9, -2])], EXACT),
            case("Min i32", node("Min", 12, 2, vec![]), vec![i32s(&[3], &[2, -9, 8]), i32s(&[3], &[-1, -7,
                2])], vec![i32s(&[3], &[-1, -9, 2])], EXACT),
            case("Min passes NaN on", node("Min", 17, 2, vec![]), vec![f32s(&[3], &[f32::NAN, 1., 2.]),
                f32s(&[3], &[0., f32::NAN, 3.])], vec![f32s(&[3], &[f32::NAN, f32::NAN, 2.])], CLOSE),
            case("Min u8", node("Min", 17, 2, vec![]), vec![u8s(&[3], &[0, 5, 7]), u8s(&[3], &[0, 7, 5])],
                vec![u8s(&[3], &[0, 5, 5])], EXACT),
            case("Max i64", node("Max", 17, 3, vec![]), vec![i64s(&[3], &[-3, -5, -9]), i64s(&[3], &[-6, -4,
                7]), i64s(&[], &[0])], vec![i64s(&[3], &[0, 0, 7])], EXACT),
            case("Max i32", node("Max", 12, 2, vec![]), vec![i32s(&[3], &[0, -6, 5]), i32s(&[3], &[-1, 6,
                5])], vec![i32s(&[3], &[0, 6, 5])], EXACT),
            case("Max passes NaN on", node("Max", 17, 2, vec![]), vec![f32s(&[3], &[f32::NAN, 1., 2.]),
                f32s(&[3], &[0., f32::NAN, 3.])], vec![f32s(&[3], &[f32::NAN, f32::NAN, 3.])], CLOSE),
            case("Max u8", node("Max", 17, 2, vec![]), vec![u8s(&[3], &[9, 7, 1]), u8s(&[3], &[5, 4, 8])],
                vec![u8s(&[3], &[9, 7, 8])], EXACT),
        ]
    }
}
