use super::elementwise::{Number, broadcast, int_at, numbers, refuse_zeros, zip, zip_bools};
use super::literal::*;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, ErrorKind, Result};
use half::f16;
use saltica_tensor::{Bool, DType, View, ViewMut};

/// Which function of two numbers. Named as in ONNX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryKind {
    /// a + b.
    Add,
    /// a - b.
    Sub,
    /// a * b.
    Mul,
    /// a / b; integers truncate.
    Div,
    /// a to the power of b, in a's dtype.
    Pow,
    /// Remainder with the divisor's sign, integers only.
    Mod,
    /// Remainder with the dividend's sign (Mod with `fmod = 1`).
    Fmod,
    /// Logical and.
    And,
    /// Logical or.
    Or,
    /// Logical exclusive or.
    Xor,
    /// a = b.
    Equal,
    /// a < b.
    Less,
    /// a <= b.
    LessOrEqual,
    /// a > b.
    Greater,
    /// a >= b.
    GreaterOrEqual,
    /// a if a >= 0, else a * b; b broadcasts to a.
    PRelu,
}

/// A function of two numbers, element by element, with numpy's broadcasting. Integers are exact and wrap; f16 is computed
/// in f32 and rounded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binary {
    /// The function.
    pub kind: BinaryKind,
}

impl Binary {
    fn takes(&self, dtype: DType) -> bool {
        use BinaryKind::*;
        match self.kind {
            And | Or | Xor => dtype == DType::Bool,
            Equal => true,
            Mod => dtype != DType::Bool && !dtype.is_float(),
            Add | Sub | Mul | Div | Pow | Fmod | Less | LessOrEqual | Greater | GreaterOrEqual | PRelu => {
                dtype != DType::Bool
            }
        }
    }

    fn gives_bool(&self) -> bool {
        use BinaryKind::*;
        matches!(self.kind, And | Or | Xor | Equal | Less | LessOrEqual | Greater | GreaterOrEqual)
    }

    fn run_numbers<T: Number>(&self, a: &View<'_>, b: &View<'_>, y: &mut ViewMut<'_>) -> Result<()> {
        let zero = T::from_f64(0.0);
        match self.kind {
            BinaryKind::Add => zip(a, b, y, T::add),
            BinaryKind::Sub => zip(a, b, y, T::sub),
            BinaryKind::Mul => zip(a, b, y, T::mul),
            BinaryKind::Div => refuse_zeros(b).and_then(|()| zip(a, b, y, T::div)),
            BinaryKind::Mod => refuse_zeros(b).and_then(|()| zip(a, b, y, T::modulo)),
            BinaryKind::Fmod => refuse_zeros(b).and_then(|()| zip(a, b, y, T::fmod)),
            BinaryKind::Equal => zip(a, b, y, |a: T, b: T| Bool::from(a == b)),
            BinaryKind::Less => zip(a, b, y, |a: T, b: T| Bool::from(a < b)),
            BinaryKind::LessOrEqual => zip(a, b, y, |a: T, b: T| Bool::from(a <= b)),
            BinaryKind::Greater => zip(a, b, y, |a: T, b: T| Bool::from(a > b)),
            BinaryKind::GreaterOrEqual => zip(a, b, y, |a: T, b: T| Bool::from(a >= b)),
            BinaryKind::PRelu => zip(a, b, y, |a: T, b: T| if a < zero { a.mul(b) } else { a }),
            BinaryKind::Pow | BinaryKind::And | BinaryKind::Or | BinaryKind::Xor => {
                Err(Error::shape(format!("{} does not take {}", self.name(), a.dtype())))
            }
        }
    }
}

/// Integer power. Errors on 0 to a negative power; other negative powers truncate to 0 or are of +-1.
fn int_pow(base: i64, exponent: i64) -> Result<i64> {
    if exponent < 0 {
        return match base {
            0 => Err(Error::new(ErrorKind::Value, "0 is raised to a negative integer power")),
            1 => Ok(1),
            -1 => Ok(if exponent % 2 == 0 { 1 } else { -1 }),
            _ => Ok(0),
        };
    }
    // Squaring, wrapping as every integer op does.
    let (mut result, mut square, mut left) = (1i64, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    Ok(result)
}

/// a to the power of b for every pair of dtypes: the result has a's.
fn pow(a: &View<'_>, b: &View<'_>, y: &mut ViewMut<'_>) -> Result<()> {
    // Squares are what graphs ask for; the product is the correctly rounded power too.
    let narrow = |a: f32, b: f32| if b == 2.0 { a * a } else { a.powf(b) };
    match (a.dtype(), b.dtype()) {
        (DType::F32, DType::F32) => return zip(a, b, y, narrow),
        (DType::F16, DType::F16) => {
            return zip(a, b, y, |a: f16, b: f16| f16::from_f32(narrow(a.to_f32(), b.to_f32())));
        }
        _ => {}
    }
    let (a, b) = (broadcast(a, y.shape())?, broadcast(b, y.shape())?);
    for index in y.shape().indices() {
        if a.dtype().is_float() || b.dtype().is_float() {
            y.set_f64(&index, a.get_f64(&index).powf(b.get_f64(&index)));
        } else {
            let v = int_pow(int_at(&a, &index), int_at(&b, &index))?;
            match y.dtype() {
                DType::I64 => y.set(&index, v),
                DType::I32 => y.set(&index, v as i32),
                DType::I8 => y.set(&index, v as i8),
                _ => y.set(&index, v as u8),
            }
        }
    }
    Ok(())
}

impl Operator for Binary {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(Binary {
            kind: match node.op_type.as_str() {
                "Add" => BinaryKind::Add,
                "Sub" => BinaryKind::Sub,
                "Mul" => BinaryKind::Mul,
                "Div" => BinaryKind::Div,
                "Pow" => BinaryKind::Pow,
                "Mod" => match node.int("fmod")?.unwrap_or(0) {
                    0 => BinaryKind::Mod,
                    1 => BinaryKind::Fmod,
                    other => return Err(Error::unsupported(format!("fmod is {other}, 0 or 1 expected"))),
                },
                "And" => BinaryKind::And,
                "Or" => BinaryKind::Or,
                "Xor" => BinaryKind::Xor,
                "Equal" => BinaryKind::Equal,
                "Less" => BinaryKind::Less,
                "LessOrEqual" => BinaryKind::LessOrEqual,
                "Greater" => BinaryKind::Greater,
                "GreaterOrEqual" => BinaryKind::GreaterOrEqual,
                "PRelu" => BinaryKind::PRelu,
                other => return Err(Error::unsupported(format!("{other} is no function of two numbers"))),
            },
        })
    }

    fn name(&self) -> &str {
        match self.kind {
            BinaryKind::Add => "Add",
            BinaryKind::Sub => "Sub",
            BinaryKind::Mul => "Mul",
            BinaryKind::Div => "Div",
            BinaryKind::Pow => "Pow",
            BinaryKind::Mod | BinaryKind::Fmod => "Mod",
            BinaryKind::And => "And",
            BinaryKind::Or => "Or",
            BinaryKind::Xor => "Xor",
            BinaryKind::Equal => "Equal",
            BinaryKind::Less => "Less",
            BinaryKind::LessOrEqual => "LessOrEqual",
            BinaryKind::Greater => "Greater",
            BinaryKind::GreaterOrEqual => "GreaterOrEqual",
            BinaryKind::PRelu => "PRelu",
        }
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let a = required(inputs, 0, "a")?;
        let b = required(inputs, 1, "b")?;
        if !self.takes(a.dtype) || !self.takes(b.dtype) {
            return Err(Error::shape(format!("{} does not take {} and {}", self.name(), a.dtype, b.dtype)));
        }
        if a.dtype != b.dtype && self.kind != BinaryKind::Pow {
            return Err(Error::shape(format!(
                "{} takes two tensors of one dtype, {} and {} found",
                self.name(),
                a.dtype,
                b.dtype
            )));
        }
        let shape = a.shape.broadcast(&b.shape)?;
        if self.kind == BinaryKind::PRelu && shape != a.shape {
            return Err(Error::shape(format!("slope {} does not broadcast to x {}", b.shape, a.shape)));
        }
        Ok(vec![OutFact { dtype: if self.gives_bool() { DType::Bool } else { a.dtype }, shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let (a, b) = (&required(inputs, 0, "a")?, &required(inputs, 1, "b")?);
        let y = &mut outputs[0];
        if self.kind == BinaryKind::Pow {
            return pow(a, b, y);
        }
        numbers!(a.dtype(), T => self.run_numbers::<T>(a, b, y), match self.kind {
            BinaryKind::And => zip_bools(a, b, y, |a, b| a && b),
            BinaryKind::Or => zip_bools(a, b, y, |a, b| a || b),
            BinaryKind::Xor => zip_bools(a, b, y, |a, b| a != b),
            _ => zip_bools(a, b, y, |a, b| a == b),
        })
    }

    #[rustfmt::skip] // tables of numbers
    #[allow(clippy::approx_constant)] // they only look alike
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("Add f32", node("Add", 17, 2, vec![]), vec![f32s(&[2, 3], &[1.19, -0.13, -0.79, -0.89, -0.98,
                -0.22]), f32s(&[2, 3], &[0.02, 0.21, 1.98, 1.17, 0.49, 1.96])], vec![f32s(&[2, 3], &[1.21,
                0.08, 1.19, 0.27999997, -0.49, 1.74])], EXACT),
            case("Add f16", node("Add", 17, 2, vec![]), vec![f16s(&[2, 3], &[1.19, -0.13, -0.79, -0.89, -0.98,
                -0.22]), f16s(&[2, 3], &[0.02, 0.21, 1.98, 1.17, 0.49, 1.96])], vec![f16s(&[2, 3], &[1.21,
                0.07996, 1.19, 0.2798, -0.49, 1.74])], EXACT),
            case("Add i64", node("Add", 14, 2, vec![]), vec![i64s(&[4], &[-1, -5, 7, -6]), i64s(&[4], &[8, 6,
                2, 1])], vec![i64s(&[4], &[7, 1, 9, -5])], EXACT),
            case("Add i32", node("Add", 14, 2, vec![]), vec![i32s(&[4], &[-1, -9, -7, 0]), i32s(&[4], &[9, 5,
                8, 9])], vec![i32s(&[4], &[8, -4, 1, 9])], EXACT),
            case("Add u8", node("Add", 14, 2, vec![]), vec![u8s(&[4], &[8, 6, 4, 5]), u8s(&[4], &[3, 5, 4,
                3])], vec![u8s(&[4], &[11, 11, 8, 8])], EXACT),
            case("Add i8", node("Add", 14, 2, vec![]), vec![i8s(&[4], &[9, -9, -8, -6]), i8s(&[4], &[9, 7, 8,
                2])], vec![i8s(&[4], &[18, -2, 0, -4])], EXACT),
            case("Sub f32", node("Sub", 17, 2, vec![]), vec![f32s(&[2, 3], &[1.19, -0.13, -0.79, -0.89, -0.98,
                -0.22]), f32s(&[2, 3], &[0.02, 0.21, 1.98, 1.17, 0.49, 1.96])], vec![f32s(&[2, 3],
                &[1.1700001, -0.33999997, -2.77, -2.06, -1.47, -2.18])], EXACT),
            case("Sub f16", node("Sub", 17, 2, vec![]), vec![f16s(&[2, 3], &[1.19, -0.13, -0.79, -0.89, -0.98,
                -0.22]), f16s(&[2, 3], &[0.02, 0.21, 1.98, 1.17, 0.49, 1.96])], vec![f16s(&[2, 3], &[1.171,
                -0.3398, -2.77, -2.06, -1.47, -2.18])], EXACT),
            case("Sub i64", node("Sub", 14, 2, vec![]), vec![i64s(&[4], &[4, -2, 0, -9]), i64s(&[4], &[6, 8,
                6, 2])], vec![i64s(&[4], &[-2, -10, -6, -11])], EXACT),
            case("Sub i32", node("Sub", 14, 2, vec![]), vec![i32s(&[4], &[1, -4, 9, 7]), i32s(&[4], &[2, 5, 9,
                8])], vec![i32s(&[4], &[-1, -9, 0, -1])], EXACT),
            case("Sub u8", node("Sub", 14, 2, vec![]), vec![u8s(&[4], &[7, 6, 0, 7]), u8s(&[4], &[5, 1, 3,
                5])], vec![u8s(&[4], &[2, 5, 253, 2])], EXACT),
            case("Sub i8", node("Sub", 14, 2, vec![]), vec![i8s(&[4], &[4, 0, 2, 7]), i8s(&[4], &[7, 4, 6,
                6])], vec![i8s(&[4], &[-3, -4, -4, 1])], EXACT),
            case("Mul f32", node("Mul", 17, 2, vec![]), vec![f32s(&[2, 3], &[1.19, -0.13, -0.79, -0.89, -0.98,
                -0.22]), f32s(&[2, 3], &[0.02, 0.21, 1.98, 1.17, 0.49, 1.96])], vec![f32s(&[2, 3], &[0.0238,
                -0.027299998, -1.5642, -1.0412999, -0.48020002, -0.4312])], EXACT),
            case("Mul f16", node("Mul", 17, 2, vec![]), vec![f16s(&[2, 3], &[1.19, -0.13, -0.79, -0.89, -0.98,
                -0.22]), f16s(&[2, 3], &[0.02, 0.21, 1.98, 1.17, 0.49, 1.96])], vec![f16s(&[2, 3], &[0.02382,
                -0.0273, -1.564, -1.041, -0.4802, -0.4312])], EXACT),
            case("Mul i64", node("Mul", 14, 2, vec![]), vec![i64s(&[4], &[-7, -8, 3, -2]), i64s(&[4], &[6, 3,
                3, 2])], vec![i64s(&[4], &[-42, -24, 9, -4])], EXACT),
            case("Mul i32", node("Mul", 14, 2, vec![]), vec![i32s(&[4], &[-2, 6, -2, -2]), i32s(&[4], &[6, 9,
                4, 6])], vec![i32s(&[4], &[-12, 54, -8, -12])], EXACT),
            case("Mul u8", node("Mul", 14, 2, vec![]), vec![u8s(&[4], &[4, 6, 4, 6]), u8s(&[4], &[5, 7, 9,
                2])], vec![u8s(&[4], &[20, 42, 36, 12])], EXACT),
            case("Mul i8", node("Mul", 14, 2, vec![]), vec![i8s(&[4], &[1, -1, -3, -5]), i8s(&[4], &[1, 4, 8,
                1])], vec![i8s(&[4], &[1, -4, -24, -5])], EXACT),
            case("Div f32", node("Div", 17, 2, vec![]), vec![f32s(&[2, 3], &[1.19, -0.13, -0.79, -0.89, -0.98,
                -0.22]), f32s(&[2, 3], &[0.02, 0.21, 1.98, 1.17, 0.49, 1.96])], vec![f32s(&[2, 3],
                &[59.500004, -0.61904764, -0.39898992, -0.7606838, -2., -0.1122449])], EXACT),
            case("Div f16", node("Div", 17, 2, vec![]), vec![f16s(&[2, 3], &[1.19, -0.13, -0.79, -0.89, -0.98,
                -0.22]), f16s(&[2, 3], &[0.02, 0.21, 1.98, 1.17, 0.49, 1.96])], vec![f16s(&[2, 3], &[59.5,
                -0.619, -0.399, -0.7607, -2., -0.11224])], EXACT),
            case("Div i64", node("Div", 14, 2, vec![]), vec![i64s(&[4], &[-2, 9, 9, -5]), i64s(&[4], &[1, 7,
                1, 3])], vec![i64s(&[4], &[-2, 1, 9, -1])], EXACT),
            case("Div i32", node("Div", 14, 2, vec![]), vec![i32s(&[4], &[0, 7, -8, 3]), i32s(&[4], &[5, 2, 8,
                8])], vec![i32s(&[4], &[0, 3, -1, 0])], EXACT),
            case("Div u8", node("Div", 14, 2, vec![]), vec![u8s(&[4], &[4, 9, 6, 9]), u8s(&[4], &[9, 6, 3,
                2])], vec![u8s(&[4], &[0, 1, 2, 4])], EXACT),
            case("Div i8", node("Div", 14, 2, vec![]), vec![i8s(&[4], &[1, -6, 5, 8]), i8s(&[4], &[3, 5, 1,
                2])], vec![i8s(&[4], &[0, -1, 5, 4])], EXACT),
            case("i64 is exact beyond f64", node("Add", 17, 2, vec![]), vec![i64s(&[2], &[9007199254740993,
                -9007199254740993]), i64s(&[2], &[2, -2])], vec![i64s(&[2], &[9007199254740995,
                -9007199254740995])], EXACT),
            case("i64 products are exact", node("Mul", 17, 2, vec![]), vec![i64s(&[2], &[3037000499,
                -3037000499]), i64s(&[1], &[3037000499])], vec![i64s(&[2], &[9223372030926249001,
                -9223372030926249001])], EXACT),
            case("Div i64 truncates", node("Div", 17, 2, vec![]), vec![i64s(&[4], &[7, -7, 7, -7]), i64s(&[4],
                &[2, 2, -2, -2])], vec![i64s(&[4], &[3, -3, -3, 3])], EXACT),
            case("Div f32 by zero", node("Div", 17, 2, vec![]), vec![f32s(&[3], &[1., -1., 0.]), f32s(&[],
                &[0.])], vec![f32s(&[3], &[f32::INFINITY, f32::NEG_INFINITY, f32::NAN])], CLOSE),
            case("Mul broadcasts: scalar right", node("Mul", 17, 2, vec![]), vec![f32s(&[2, 3, 2], &[1.54,
                0.57, 0.28, -0.49, -0.36, -1.04, -1.85, 1.5, -0.13, 0.19, -0.71, 1.01]), f32s(&[], &[-1.9])],
                vec![f32s(&[2, 3, 2], &[-2.9259999, -1.083, -0.532, 0.931, 0.684, 1.976, 3.515, -2.85, 0.247,
                -0.361, 1.349, -1.9189999])], EXACT),
            case("Sub broadcasts: scalar right", node("Sub", 17, 2, vec![]), vec![f32s(&[2, 3, 2], &[-0.51,
                -1.88, -1.51, 1.87, 0.63, -0.29, 0.09, 1.49, -0.62, 0.36, 0.73, -0.58]), f32s(&[], &[0.08])],
                vec![f32s(&[2, 3, 2], &[-0.59, -1.96, -1.59, 1.79, 0.55, -0.37, 0.010000005, 1.41, -0.7,
                0.28000003, 0.65000004, -0.65999997])], EXACT),
            case("Mul broadcasts: scalar left", node("Mul", 17, 2, vec![]), vec![f32s(&[], &[1.06]), f32s(&[2,
                3], &[1.64, -1.4, 1.73, -1.98, 1.01, 1.24])], vec![f32s(&[2, 3], &[1.7383999, -1.4839998,
                1.8338, -2.0988, 1.0705999, 1.3144])], EXACT),
            case("Sub broadcasts: scalar left", node("Sub", 17, 2, vec![]), vec![f32s(&[], &[-1.45]),
                f32s(&[2, 3], &[-0.32, 1.26, -1.94, 0.51, 1.17, 0.05])], vec![f32s(&[2, 3], &[-1.1300001,
                -2.71, 0.49, -1.96, -2.62, -1.5])], EXACT),
            case("Mul broadcasts: row", node("Mul", 17, 2, vec![]), vec![f32s(&[2, 3], &[0.9, -1.09, -1.21,
                -0.55, -1.28, -0.62]), f32s(&[3], &[1.79, 0.29, -0.64])], vec![f32s(&[2, 3], &[1.611, -0.3161,
                0.7744, -0.9845, -0.3712, 0.39679998])], EXACT),
            case("Sub broadcasts: row", node("Sub", 17, 2, vec![]), vec![f32s(&[2, 3], &[-0.91, 1.81, -0.22,
                1.92, 0.06, 0.08]), f32s(&[3], &[1.59, 0.97, 0.32])], vec![f32s(&[2, 3], &[-2.5, 0.8399999,
                -0.53999996, 0.32999992, -0.91, -0.24])], EXACT),
            case("Mul broadcasts: column", node("Mul", 17, 2, vec![]), vec![f32s(&[2, 3], &[-0.29, 1.51,
                -0.35, 1.69, -1.73, -0.28]), f32s(&[2, 1], &[0.08, 1.8])], vec![f32s(&[2, 3], &[-0.0232,
                0.120799996, -0.027999999, 3.042, -3.1139998, -0.504])], EXACT),
            case("Sub broadcasts: column", node("Sub", 17, 2, vec![]), vec![f32s(&[2, 3], &[-1., 1.22, 0.71,
                0.87, 0.52, 1.89]), f32s(&[2, 1], &[-0.67, -0.41])], vec![f32s(&[2, 3], &[-0.32999998,
                1.8900001, 1.38, 1.28, 0.92999995, 2.3])], EXACT),
            case("Mul broadcasts: channels", node("Mul", 17, 2, vec![]), vec![f32s(&[1, 2, 2, 3], &[-1.19,
                -1.8, -1.15, 1.66, 1.36, -1.55, 0.42, -0.08, 0.38, 0.64, -0.77, 1.85]), f32s(&[1, 2, 1, 1],
                &[-0.14, 0.51])], vec![f32s(&[1, 2, 2, 3], &[0.1666, 0.252, 0.161, -0.2324, -0.1904, 0.217,
                0.21419999, -0.040799998, 0.19379999, 0.32639998, -0.3927, 0.9435])], EXACT),
            case("Sub broadcasts: channels", node("Sub", 17, 2, vec![]), vec![f32s(&[1, 2, 2, 3], &[0.54,
                -1.26, -1.75, -0.35, 1.06, 1.26, 0.92, -1.55, 1.65, 1.21, 1.51, 0.09]), f32s(&[1, 2, 1, 1],
                &[1.66, -1.81])], vec![f32s(&[1, 2, 2, 3], &[-1.1199999, -2.92, -3.4099998, -2.01, -0.6,
                -0.39999998, 2.73, 0.26, 3.46, 3.02, 3.32, 1.9])], EXACT),
            case("Mul broadcasts: both sides", node("Mul", 17, 2, vec![]), vec![f32s(&[2, 1, 3], &[-1.88,
                -1.92, -0.99, -1.01, -1.25, 0.27]), f32s(&[1, 2, 1], &[-1.84, 0.36])], vec![f32s(&[2, 2, 3],
                &[3.4592001, 3.5328, 1.8216001, -0.6768, -0.6912, -0.3564, 1.8584, 2.3, -0.49680004,
                -0.36360002, -0.45000002, 0.097200006])], EXACT),
            case("Sub broadcasts: both sides", node("Sub", 17, 2, vec![]), vec![f32s(&[2, 1, 3], &[-1.34,
                0.71, -1.92, -0.76, 1.75, 0.15]), f32s(&[1, 2, 1], &[1.25, 0.63])], vec![f32s(&[2, 2, 3],
                &[-2.5900002, -0.54, -3.17, -1.97, 0.07999998, -2.55, -2.01, 0.5, -1.1, -1.39, 1.12, -0.48])],
                EXACT),
            case("Mul broadcasts: rank 1 and 4", node("Mul", 17, 2, vec![]), vec![f32s(&[4], &[0.44, -1.23,
                0.3, -1.84]), f32s(&[1, 2, 2, 4], &[1.21, 1.84, 1.42, -1.8, -0.65, -0.73, -1.55, 0.51, 1.19,
                -0.75, 1.45, 1.19, -1.48, 1.07, 1.53, -1.21])], vec![f32s(&[1, 2, 2, 4], &[0.5324, -2.2632,
                0.426, 3.312, -0.28599998, 0.89790004, -0.465, -0.9384, 0.52360004, 0.9225, 0.43500003,
                -2.1896002, -0.6512, -1.3161001, 0.45900002, 2.2264001])], EXACT),
            case("Sub broadcasts: rank 1 and 4", node("Sub", 17, 2, vec![]), vec![f32s(&[4], &[0.29, 0.55,
                0.44, -1.62]), f32s(&[1, 2, 2, 4], &[0.64, 0.53, 1.3, 1.21, -0.69, 0.89, 1.47, 1.57, -1.35,
                -1.89, 0.6, -1.14, 0.25, 1.78, -0.48, -0.99])], vec![f32s(&[1, 2, 2, 4], &[-0.35, 0.02000004,
                -0.85999995, -2.83, 0.98, -0.33999997, -1.03, -3.19, 1.64, 2.44, -0.16000003, -0.48000002,
                0.03999999, -1.23, 0.91999996, -0.63])], EXACT),
            case("Mul broadcasts: one element of rank 4", node("Mul", 17, 2, vec![]), vec![f32s(&[2, 2],
                &[-0.17, 0.63, -1.6, -0.48]), f32s(&[1, 1, 1, 1], &[-1.47])], vec![f32s(&[1, 1, 2, 2],
                &[0.24990001, -0.9261, 2.352, 0.7056])], EXACT),
            case("Sub broadcasts: one element of rank 4", node("Sub", 17, 2, vec![]), vec![f32s(&[2, 2],
                &[0.65, 1.32, -0.49, -0.51]), f32s(&[1, 1, 1, 1], &[0.16])], vec![f32s(&[1, 1, 2, 2],
                &[0.48999998, 1.1600001, -0.65, -0.66999996])], EXACT),
            case("Mul broadcasts: anchors", node("Mul", 17, 2, vec![]), vec![f32s(&[1, 2, 4], &[-1.14, -1.01,
                -0.68, -0.17, -1.67, 1.01, 0.32, -0.8]), f32s(&[1, 1, 4], &[-1.69, 1.05, -1.48, -1.47])],
                vec![f32s(&[1, 2, 4], &[1.9266001, -1.0604999, 1.0064, 0.24990001, 2.8223, 1.0604999, -0.4736,
                1.176])], EXACT),
            case("Sub broadcasts: anchors", node("Sub", 17, 2, vec![]), vec![f32s(&[1, 2, 4], &[-1.48, -1.67,
                1.63, -0.92, -0.77, 1.33, 0.48, -1.25]), f32s(&[1, 1, 4], &[-0.26, 1.54, -0.5, 0.84])],
                vec![f32s(&[1, 2, 4], &[-1.22, -3.21, 2.13, -1.76, -0.51, -0.20999992, 0.98, -2.09])], EXACT),
            case("Mul broadcasts: no elements", node("Mul", 17, 2, vec![]), vec![f32s(&[0, 3], &[]), f32s(&[1,
                3], &[-1.61, 0.91, 1.11])], vec![f32s(&[0, 3], &[])], EXACT),
            case("Sub broadcasts: no elements", node("Sub", 17, 2, vec![]), vec![f32s(&[0, 3], &[]), f32s(&[1,
                3], &[1.3, 0.7, -0.52])], vec![f32s(&[0, 3], &[])], EXACT),
            case("Mul broadcasts: zero against one", node("Mul", 17, 2, vec![]), vec![f32s(&[2, 0], &[]),
                f32s(&[2, 1], &[-1.74, 0.08])], vec![f32s(&[2, 0], &[])], EXACT),
            case("Sub broadcasts: zero against one", node("Sub", 17, 2, vec![]), vec![f32s(&[2, 0], &[]),
                f32s(&[2, 1], &[1.03, -1.24])], vec![f32s(&[2, 0], &[])], EXACT),
            case("Equal f32", node("Equal", 16, 2, vec![]), vec![f32s(&[4], &[1., 2., 3., f32::NAN]),
                f32s(&[4], &[2., 2., 2., 2.])], vec![bools(&[4], &[0, 1, 0, 0])], EXACT),
            case("Equal i64, broadcast", node("Equal", 16, 2, vec![]), vec![i64s(&[2, 1], &[9007199254740992,
                9007199254740993]), i64s(&[2], &[9007199254740992, 9007199254740993])], vec![bools(&[2, 2],
                &[1, 0, 0, 1])], EXACT),
            case("Equal i32", node("Equal", 16, 2, vec![]), vec![i32s(&[3], &[1, 2, 3]), i32s(&[], &[2])],
                vec![bools(&[3], &[0, 1, 0])], EXACT),
            case("Less f32", node("Less", 16, 2, vec![]), vec![f32s(&[4], &[1., 2., 3., f32::NAN]), f32s(&[4],
                &[2., 2., 2., 2.])], vec![bools(&[4], &[1, 0, 0, 0])], EXACT),
            case("Less i64, broadcast", node("Less", 16, 2, vec![]), vec![i64s(&[2, 1], &[9007199254740992,
                9007199254740993]), i64s(&[2], &[9007199254740992, 9007199254740993])], vec![bools(&[2, 2],
                &[0, 1, 0, 0])], EXACT),
            case("Less i32", node("Less", 16, 2, vec![]), vec![i32s(&[3], &[1, 2, 3]), i32s(&[], &[2])],
                vec![bools(&[3], &[1, 0, 0])], EXACT),
            case("LessOrEqual f32", node("LessOrEqual", 16, 2, vec![]), vec![f32s(&[4], &[1., 2., 3.,
                f32::NAN]), f32s(&[4], &[2., 2., 2., 2.])], vec![bools(&[4], &[1, 1, 0, 0])], EXACT),
            case("LessOrEqual i64, broadcast", node("LessOrEqual", 16, 2, vec![]), vec![i64s(&[2, 1],
                &[9007199254740992, 9007199254740993]), i64s(&[2], &[9007199254740992, 9007199254740993])],
                vec![bools(&[2, 2], &[1, 1, 0, 1])], EXACT),
            case("LessOrEqual i32", node("LessOrEqual", 16, 2, vec![]), vec![i32s(&[3], &[1, 2, 3]), i32s(&[],
                &[2])], vec![bools(&[3], &[1, 1, 0])], EXACT),
            case("Greater f32", node("Greater", 16, 2, vec![]), vec![f32s(&[4], &[1., 2., 3., f32::NAN]),
                f32s(&[4], &[2., 2., 2., 2.])], vec![bools(&[4], &[0, 0, 1, 0])], EXACT),
            case("Greater i64, broadcast", node("Greater", 16, 2, vec![]), vec![i64s(&[2, 1],
                &[9007199254740992, 9007199254740993]), i64s(&[2], &[9007199254740992, 9007199254740993])],
                vec![bools(&[2, 2], &[0, 0, 1, 0])], EXACT),
            case("Greater i32", node("Greater", 16, 2, vec![]), vec![i32s(&[3], &[1, 2, 3]), i32s(&[], &[2])],
                vec![bools(&[3], &[0, 0, 1])], EXACT),
            case("GreaterOrEqual f32", node("GreaterOrEqual", 16, 2, vec![]), vec![f32s(&[4], &[1., 2., 3.,
                f32::NAN]), f32s(&[4], &[2., 2., 2., 2.])], vec![bools(&[4], &[0, 1, 1, 0])], EXACT),
            case("GreaterOrEqual i64, broadcast", node("GreaterOrEqual", 16, 2, vec![]), vec![i64s(&[2, 1],
                &[9007199254740992, 9007199254740993]), i64s(&[2], &[9007199254740992, 9007199254740993])],
                vec![bools(&[2, 2], &[1, 0, 1, 1])], EXACT),
            case("GreaterOrEqual i32", node("GreaterOrEqual", 16, 2, vec![]), vec![i32s(&[3], &[1, 2, 3]),
                i32s(&[], &[2])], vec![bools(&[3], &[0, 1, 1])], EXACT),
            case("Equal bool", node("Equal", 17, 2, vec![]), vec![bools(&[2], &[1, 0]), bools(&[2], &[1, 1])],
                vec![bools(&[2], &[1, 0])], EXACT),
            case("Less of opset 9", node("Less", 9, 2, vec![]), vec![f32s(&[2, 3], &[1.19, -0.13, -0.79,
                -0.89, -0.98, -0.22]), f32s(&[2, 3], &[0.02, 0.21, 1.98, 1.17, 0.49, 1.96])], vec![bools(&[2,
                3], &[0, 1, 1, 1, 1, 1])], EXACT),
            case("Greater of opset 9", node("Greater", 9, 2, vec![]), vec![f32s(&[2, 3], &[1.19, -0.13, -0.79,
                -0.89, -0.98, -0.22]), f32s(&[2, 3], &[0.02, 0.21, 1.98, 1.17, 0.49, 1.96])], vec![bools(&[2,
                3], &[1, 0, 0, 0, 0, 0])], EXACT),
            // onnx reference.
            case("Less f16", node("Less", 17, 2, vec![]), vec![f16s(&[2, 3], &[1.19, -0.13, -0.79, -0.89,
                -0.98, -0.22]), f16s(&[], &[0.5])], vec![bools(&[2, 3], &[0, 1, 1, 1, 1, 1])], EXACT),
            case("And", node("And", 17, 2, vec![]), vec![bools(&[2, 1], &[1, 0]), bools(&[2], &[1, 0])],
                vec![bools(&[2, 2], &[1, 0, 0, 0])], EXACT),
            case("Or", node("Or", 17, 2, vec![]), vec![bools(&[2, 1], &[1, 0]), bools(&[2], &[1, 0])],
                vec![bools(&[2, 2], &[1, 1, 1, 0])], EXACT),
            case("Xor", node("Xor", 17, 2, vec![]), vec![bools(&[2, 1], &[1, 0]), bools(&[2], &[1, 0])],
                vec![bools(&[2, 2], &[0, 1, 1, 0])], EXACT),
            case("Pow of squares", node("Pow", 17, 2, vec![]), vec![f32s(&[5], &[-0.94, 0.14, 0.99, 1.59,
                -1.5]), f32s(&[], &[2.])], vec![f32s(&[5], &[0.8836, 0.0196, 0.98010004, 2.5281, 2.25])],
                CLOSE),
            case("Pow f32", node("Pow", 17, 2, vec![]), vec![f32s(&[2, 3], &[0.45, 1.62, 1.32, 1.47, 1.99,
                1.88]), f32s(&[3], &[1.37, 1.11, -0.42])], vec![f32s(&[2, 3], &[0.33488917, 1.7082903,
                0.8899363, 1.6952149, 2.1464803, 0.7671031])], CLOSE),
            case("Pow roots", node("Pow", 17, 2, vec![]), vec![f32s(&[4], &[5.77, 1.66, 6.84, 6.82]),
                f32s(&[], &[0.5])], vec![f32s(&[4], &[2.4020824, 1.2884098, 2.6153393, 2.611513])], CLOSE),
            // onnx reference.
            case("Pow f16", node("Pow", 17, 2, vec![]), vec![f16s(&[4], &[1.44, 0.89, 0.76, 0.84]), f16s(&[4],
                &[-1.87, 1.38, 0.17, -0.45])], vec![f16s(&[4], &[0.5054, 0.8516, 0.9546, 1.082])], CLOSE_F16),
            case("Pow i64", node("Pow", 17, 2, vec![]), vec![i64s(&[4], &[3, -2, 0, 7]), i64s(&[4], &[4, 3, 0,
                2])], vec![i64s(&[4], &[81, -8, 1, 49])], EXACT),
            case("Pow f32 to i64", node("Pow", 17, 2, vec![]), vec![f32s(&[3], &[0.19, 0.89, -0.47]),
                i64s(&[3], &[2, 3, 1])], vec![f32s(&[3], &[0.0361, 0.704969, -0.47])], CLOSE),
            case("Pow i64 to f32", node("Pow", 17, 2, vec![]), vec![i64s(&[2], &[2, 3]), f32s(&[], &[2.])],
                vec![i64s(&[2], &[4, 9])], EXACT),
            case("Pow i32", node("Pow", 17, 2, vec![]), vec![i32s(&[2], &[2, -3]), i32s(&[2], &[10, 3])],
                vec![i32s(&[2], &[1024, -27])], EXACT),
            case("Mod i64 takes the divisor's sign", node("Mod", 17, 2, vec![int("fmod", 0)]), vec![i64s(&[5],
                &[7, -7, 7, -7, 0]), i64s(&[5], &[3, 3, -3, -3, 5])], vec![i64s(&[5], &[1, 2, -2, -1, 0])],
                EXACT),
            case("Mod fmod i64", node("Mod", 17, 2, vec![int("fmod", 1)]), vec![i64s(&[5], &[7, -7, 7, -7,
                0]), i64s(&[5], &[3, 3, -3, -3, 5])], vec![i64s(&[5], &[1, -1, 1, -1, 0])], EXACT),
            case("Mod i32 takes the divisor's sign", node("Mod", 17, 2, vec![int("fmod", 0)]), vec![i32s(&[5],
                &[7, -7, 7, -7, 0]), i32s(&[5], &[3, 3, -3, -3, 5])], vec![i32s(&[5], &[1, 2, -2, -1, 0])],
                EXACT),
            case("Mod fmod i32", node("Mod", 17, 2, vec![int("fmod", 1)]), vec![i32s(&[5], &[7, -7, 7, -7,
                0]), i32s(&[5], &[3, 3, -3, -3, 5])], vec![i32s(&[5], &[1, -1, 1, -1, 0])], EXACT),
            case("Mod i8 takes the divisor's sign", node("Mod", 17, 2, vec![int("fmod", 0)]), vec![i8s(&[5],
                &[7, -7, 7, -7, 0]), i8s(&[5], &[3, 3, -3, -3, 5])], vec![i8s(&[5], &[1, 2, -2, -1, 0])],
                EXACT),
            case("Mod fmod i8", node("Mod", 17, 2, vec![int("fmod", 1)]), vec![i8s(&[5], &[7, -7, 7, -7, 0]),
                i8s(&[5], &[3, 3, -3, -3, 5])], vec![i8s(&[5], &[1, -1, 1, -1, 0])], EXACT),
            case("Mod u8", node("Mod", 17, 2, vec![]), vec![u8s(&[2], &[7, 200]), u8s(&[], &[6])],
                vec![u8s(&[2], &[1, 2])], EXACT),
            case("Mod fmod f32", node("Mod", 17, 2, vec![int("fmod", 1)]), vec![f32s(&[3], &[5.5, -5.5, 5.5]),
                f32s(&[3], &[2., 2., -2.])], vec![f32s(&[3], &[1.5, -1.5, 1.5])], CLOSE),
            case("Mod fmod f16", node("Mod", 17, 2, vec![int("fmod", 1)]), vec![f16s(&[3], &[5.5, -5.5, 5.5]),
                f16s(&[3], &[2., 2., -2.])], vec![f16s(&[3], &[1.5, -1.5, 1.5])], EXACT),
            case("PRelu per channel", node("PRelu", 17, 2, vec![]), vec![f32s(&[1, 2, 2, 2], &[1.32, 1.68,
                -0.45, -1.45, 1.04, 1.97, -1.41, 0.85]), f32s(&[2, 1, 1], &[1.3, 1.68])], vec![f32s(&[1, 2, 2,
                2], &[1.32, 1.68, -0.585, -1.885, 1.04, 1.97, -2.3688, 0.85])], CLOSE),
            case("PRelu scalar slope", node("PRelu", 9, 2, vec![]), vec![f32s(&[2, 3], &[-1.51, -1.63, 1.95,
                -1.53, -1.29, 0.3]), f32s(&[1], &[-0.21])], vec![f32s(&[2, 3], &[0.3171, 0.3423, 1.95,
                0.32129997, 0.27089998, 0.3])], CLOSE),
            case("f64", node("Mul", 17, 2, vec![]), vec![tensor::<f64>(&[2], &[1.5, 2.]), tensor::<f64>(&[],
                &[3.])], vec![tensor::<f64>(&[2], &[4.5, 6.])], EXACT),
        ]
    }
}
