use super::elementwise::{floats, map, map_floats};
use super::literal::*;
use super::{Case, Fact, Op, Operator, OutFact, Tolerance, required};
use crate::graph::Activation;
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{Bool, DType, Element, View, ViewMut};

/// A function of one number, applied to every element. Floats are computed in f32 (f16 is rounded once at the end, f64 in
/// f64). Named as in ONNX.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unary {
    /// max(x, 0).
    Relu,
    /// 1 / (1 + exp(-x)).
    Sigmoid,
    /// x * sigmoid(x): no ONNX op, made by fusing Mul and Sigmoid.
    Silu,
    /// tanh(x).
    Tanh,
    /// e^x.
    Exp,
    /// Natural logarithm.
    Log,
    /// Square root.
    Sqrt,
    /// The error function.
    Erf,
    /// Largest integer not above x.
    Floor,
    /// Smallest integer not below x.
    Ceil,
    /// Nearest integer, halves to even.
    Round,
    /// Cosine of x radians.
    Cos,
    /// Sine of x radians.
    Sin,
    /// -x.
    Neg,
    /// |x|.
    Abs,
    /// Logical negation.
    Not,
    /// 1 / x.
    Reciprocal,
    /// -1, 0 or 1.
    Sign,
    /// ln(1 + e^x).
    Softplus,
    /// x if x >= 0, else slope * x.
    LeakyRelu(f32),
    /// min(max(alpha * x + beta, 0), 1).
    HardSigmoid(f32, f32),
    /// x * min(max(x / 6 + 0.5, 0), 1).
    HardSwish,
    /// x if x >= 0, else alpha * (e^x - 1).
    Elu(f32),
    /// x * tanh(softplus(x)).
    Mish,
    /// x * (1 + erf(x / sqrt 2)) / 2.
    Gelu,
    /// The tanh approximation of Gelu.
    GeluTanh,
    /// Whether x is NaN; gives booleans.
    IsNan,
    /// Whether x is infinite, and of which signs (negative, positive); gives booleans.
    IsInf(bool, bool),
}

macro_rules! formulas {
    ($name:ident, $t:ident, $erf:path) => {
        #[inline(always)]
        fn $name(self, x: $t) -> $t {
            let softplus = |x: $t| x.max(0.0) + (-x.abs()).exp().ln_1p();
            let sigmoid = |x: $t| 1.0 / (1.0 + (-x).exp());
            match self {
                Unary::Relu => {
                    // `max` would make 0 of NaN.
                    if x < 0.0 { 0.0 } else { x }
                }
                Unary::Sigmoid => sigmoid(x),
                Unary::Silu => x * sigmoid(x),
                Unary::Tanh => x.tanh(),
                Unary::Exp => x.exp(),
                Unary::Log => x.ln(),
                Unary::Sqrt => x.sqrt(),
                Unary::Erf => $erf(x),
                Unary::Floor => x.floor(),
                Unary::Ceil => x.ceil(),
                Unary::Round => x.round_ties_even(),
                Unary::Cos => x.cos(),
                Unary::Sin => x.sin(),
                Unary::Neg => -x,
                Unary::Abs => x.abs(),
                Unary::Reciprocal => 1.0 / x,
                Unary::Sign => {
                    if x == 0.0 || x.is_nan() {
                        x
                    } else {
                        x.signum()
                    }
                }
                Unary::Softplus => softplus(x),
                Unary::LeakyRelu(slope) => {
                    if x >= 0.0 {
                        x
                    } else {
                        slope as $t * x
                    }
                }
                Unary::HardSigmoid(a, b) => (a as $t * x + b as $t).clamp(0.0, 1.0),
                Unary::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
                Unary::Elu(alpha) => {
                    if x >= 0.0 {
                        x
                    } else {
                        alpha as $t * x.exp_m1()
                    }
                }
                Unary::Mish => x * softplus(x).tanh(),
                Unary::Gelu => 0.5 * x * (1.0 + $erf(x * std::$t::consts::FRAC_1_SQRT_2)),
                Unary::GeluTanh => {
                    let c = std::$t::consts::FRAC_2_SQRT_PI * std::$t::consts::FRAC_1_SQRT_2;
                    0.5 * x * (1.0 + (c * (x + 0.044715 * x * x * x)).tanh())
                }
                // These three give booleans or take them; `run` never asks for them here.
                Unary::Not | Unary::IsNan | Unary::IsInf(..) => x,
            }
        }
    };
}

impl Unary {
    formulas!(narrow, f32, libm::erff);
    formulas!(wide, f64, libm::erf);

    /// The function as the epilogue of the op before it, if it is one.
    pub fn as_activation(&self) -> Option<Activation> {
        Some(match *self {
            Unary::Relu => Activation::Relu,
            Unary::Sigmoid => Activation::Sigmoid,
            Unary::Silu => Activation::Silu,
            Unary::Tanh => Activation::Tanh,
            Unary::LeakyRelu(slope) => Activation::LeakyRelu(slope),
            Unary::HardSigmoid(alpha, beta) => Activation::HardSigmoid(alpha, beta),
            Unary::HardSwish => Activation::HardSwish,
            _ => return None,
        })
    }

    /// Whether the output is boolean while the input is a float.
    fn is_test(&self) -> bool {
        matches!(self, Unary::IsNan | Unary::IsInf(..))
    }

    fn takes(&self, dtype: DType) -> bool {
        match self {
            Unary::Not => dtype == DType::Bool,
            Unary::Abs | Unary::Sign => dtype != DType::Bool,
            Unary::Relu | Unary::Neg => dtype != DType::Bool && dtype != DType::U8,
            _ => dtype.is_float(),
        }
    }

    fn run_ints<T: Element + Ord>(
        &self,
        x: &View<'_>,
        y: &mut ViewMut<'_>,
        zero: T,
        neg: fn(T) -> T,
        sign: fn(T) -> T,
    ) -> Result<()> {
        match self {
            Unary::Relu => map(x, y, |v: T| if v < zero { zero } else { v }),
            Unary::Neg => map(x, y, neg),
            Unary::Abs => map(x, y, |v: T| if v < zero { neg(v) } else { v }),
            Unary::Sign => map(x, y, sign),
            _ => Err(Error::shape(format!("{} does not take {}", self.name(), x.dtype()))),
        }
    }
}

impl Operator for Unary {
    fn parse(node: &NodeInfo) -> Result<Self> {
        let float = |name: &str, default: f32| Ok::<_, Error>(node.float(name)?.unwrap_or(default));
        Ok(match node.op_type.as_str() {
            "Relu" => Unary::Relu,
            "Sigmoid" => Unary::Sigmoid,
            "Tanh" => Unary::Tanh,
            "Exp" => Unary::Exp,
            "Log" => Unary::Log,
            "Sqrt" => Unary::Sqrt,
            "Erf" => Unary::Erf,
            "Floor" => Unary::Floor,
            "Ceil" => Unary::Ceil,
            "Round" => Unary::Round,
            "Cos" => Unary::Cos,
            "Sin" => Unary::Sin,
            "Neg" => Unary::Neg,
            "Abs" => Unary::Abs,
            "Not" => Unary::Not,
            "Reciprocal" => Unary::Reciprocal,
            "Sign" => Unary::Sign,
            "Softplus" => Unary::Softplus,
            "LeakyRelu" => Unary::LeakyRelu(float("alpha", 0.01)?),
            "HardSigmoid" => Unary::HardSigmoid(float("alpha", 0.2)?, float("beta", 0.5)?),
            "HardSwish" => Unary::HardSwish,
            "Elu" => Unary::Elu(float("alpha", 1.0)?),
            "Mish" => Unary::Mish,
            "Gelu" => match node.string("approximate")?.as_deref() {
                None | Some("none") => Unary::Gelu,
                Some("tanh") => Unary::GeluTanh,
                Some(other) => return Err(Error::unsupported(format!("approximate is {other}"))),
            },
            "IsNaN" => Unary::IsNan,
            "IsInf" => Unary::IsInf(
                node.int("detect_negative")?.unwrap_or(1) != 0,
                node.int("detect_positive")?.unwrap_or(1) != 0,
            ),
            other => return Err(Error::unsupported(format!("{other} is no function of one number"))),
        })
    }

    fn name(&self) -> &str {
        match self {
            Unary::Relu => "Relu",
            Unary::Sigmoid => "Sigmoid",
            Unary::Silu => "Silu",
            Unary::Tanh => "Tanh",
            Unary::Exp => "Exp",
            Unary::Log => "Log",
            Unary::Sqrt => "Sqrt",
            Unary::Erf => "Erf",
            Unary::Floor => "Floor",
            Unary::Ceil => "Ceil",
            Unary::Round => "Round",
            Unary::Cos => "Cos",
            Unary::Sin => "Sin",
            Unary::Neg => "Neg",
            Unary::Abs => "Abs",
            Unary::Not => "Not",
            Unary::Reciprocal => "Reciprocal",
            Unary::Sign => "Sign",
            Unary::Softplus => "Softplus",
            Unary::LeakyRelu(_) => "LeakyRelu",
            Unary::HardSigmoid(..) => "HardSigmoid",
            Unary::HardSwish => "HardSwish",
            Unary::Elu(_) => "Elu",
            Unary::Mish => "Mish",
            Unary::Gelu | Unary::GeluTanh => "Gelu",
            Unary::IsNan => "IsNaN",
            Unary::IsInf(..) => "IsInf",
        }
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        if !self.takes(x.dtype) {
            return Err(Error::shape(format!("{} does not take {}", self.name(), x.dtype)));
        }
        let dtype = if self.is_test() { DType::Bool } else { x.dtype };
        Ok(vec![OutFact { dtype, shape: x.shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = &required(inputs, 0, "x")?;
        let y = &mut outputs[0];
        match x.dtype() {
            DType::Bool => return map(x, y, |v: Bool| Bool::from(!v.get())),
            DType::I8 => return self.run_ints::<i8>(x, y, 0, i8::wrapping_neg, i8::signum),
            DType::I32 => return self.run_ints::<i32>(x, y, 0, i32::wrapping_neg, i32::signum),
            DType::I64 => return self.run_ints::<i64>(x, y, 0, i64::wrapping_neg, i64::signum),
            DType::U8 => return self.run_ints::<u8>(x, y, 0, |v| v, |v| v.min(1)),
            DType::F32 | DType::F16 | DType::F64 => {}
        }
        // A constant operator per arm lets the compiler make one vectorised loop of each cheap function.
        macro_rules! each {
            ($($op:pat => $constant:expr;)*) => {
                match *self {
                    $($op => map_floats(x, y, |v| $constant.narrow(v), |v| $constant.wide(v)),)*
                    op => map_floats(x, y, |v| op.narrow(v), |v| op.wide(v)),
                }
            };
        }
        match *self {
            Unary::IsNan => floats!(x.dtype(), T => map(x, y, |v: T| Bool::from(v.is_nan())), Ok(())),
            Unary::IsInf(negative, positive) => floats!(x.dtype(), T => map(x, y, |v: T| {
                Bool::from(v.is_infinite() && if v < T::from_f64(0.0) { negative } else { positive })
            }), Ok(())),
            _ => each! {
                Unary::Relu => Unary::Relu;
                Unary::Sigmoid => Unary::Sigmoid;
                Unary::Silu => Unary::Silu;
                Unary::Neg => Unary::Neg;
                Unary::Abs => Unary::Abs;
                Unary::Sqrt => Unary::Sqrt;
                Unary::Floor => Unary::Floor;
                Unary::Ceil => Unary::Ceil;
                Unary::Round => Unary::Round;
                Unary::Reciprocal => Unary::Reciprocal;
                Unary::LeakyRelu(a) => Unary::LeakyRelu(a);
                Unary::HardSigmoid(a, b) => Unary::HardSigmoid(a, b);
                Unary::HardSwish => Unary::HardSwish;
            },
        }
    }

    #[rustfmt::skip] // tables of numbers
    #[allow(clippy::approx_constant)] // they only look alike
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("Relu f32", node("Relu", 18, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[0., 0., 0., 0., 0., 0., 0., 0.3,
                0.5, 1.5, 2.5, 30.])], CLOSE),
            case("Sigmoid f32", node("Sigmoid", 18, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5,
                -0.5, -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[0., 0.029312193,
                0.075858176, 0.18242556, 0.3775407, 0.4378235, 0.5, 0.5744425, 0.6224593, 0.81757444,
                0.9241418, 1.])], CLOSE),
            case("Tanh f32", node("Tanh", 18, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[-1., -0.99817795, -0.98661435,
                -0.9051482, -0.46211717, -0.24491866, 0., 0.2913126, 0.46211717, 0.9051482, 0.98661435, 1.])],
                CLOSE),
            case("Erf f32", node("Erf", 18, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[-1., -0.9999993, -0.9995931,
                -0.96610516, -0.5204999, -0.2763264, 0., 0.32862678, 0.5204999, 0.96610516, 0.9995931, 1.])],
                CLOSE),
            case("Floor f32", node("Floor", 18, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[-30., -4., -3., -2., -1., -1., 0.,
                0., 0., 1., 2., 30.])], CLOSE),
            case("Ceil f32", node("Ceil", 18, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[-30., -3., -2., -1., -0., -0., 0.,
                1., 1., 2., 3., 30.])], CLOSE),
            case("Round f32", node("Round", 18, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[-30., -4., -2., -2., -0., -0., 0.,
                0., 0., 2., 2., 30.])], CLOSE),
            case("Cos f32", node("Cos", 18, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[0.15425146, -0.9364567,
                -0.8011436, 0.0707372, 0.87758255, 0.9689124, 1., 0.9553365, 0.87758255, 0.0707372,
                -0.8011436, 0.15425146])], CLOSE),
            case("Sin f32", node("Sin", 18, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[0.9880316, 0.35078323, -0.5984722,
                -0.997495, -0.47942555, -0.24740396, 0., 0.29552022, 0.47942555, 0.997495, 0.5984722,
                -0.9880316])], CLOSE),
            case("Neg f32", node("Neg", 18, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[30., 3.5, 2.5, 1.5, 0.5, 0.25,
                -0., -0.3, -0.5, -1.5, -2.5, -30.])], CLOSE),
            case("Abs f32", node("Abs", 18, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[30., 3.5, 2.5, 1.5, 0.5, 0.25, 0.,
                0.3, 0.5, 1.5, 2.5, 30.])], CLOSE),
            case("Sign f32", node("Sign", 18, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[-1., -1., -1., -1., -1., -1., 0.,
                1., 1., 1., 1., 1.])], CLOSE),
            case("Softplus f32", node("Softplus", 18, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5,
                -0.5, -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[9.357623e-14, 0.029750422,
                0.07888974, 0.20141326, 0.474077, 0.5759395, 0.6931472, 0.8543552, 0.974077, 1.7014133,
                2.5788898, 30.])], CLOSE),
            case("Mish f32", node("Mish", 18, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[-2.8072865e-12, -0.10409575,
                -0.19681619, -0.2980997, -0.22074378, -0.12992696, 0., 0.20800139, 0.37524524, 1.4033782,
                2.4713924, 30.])], CLOSE),
            case("HardSwish f32", node("HardSwish", 18, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5,
                -1.5, -0.5, -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[-0., -0., -0.20833328,
                -0.375, -0.20833333, -0.114583336, 0., 0.165, 0.29166666, 1.125, 2.2916667, 30.])], CLOSE),
            case("Exp f32", node("Exp", 13, 1, vec![]), vec![f32s(&[8], &[-30., -1.5, -0.25, 0., 0.3, 1.5,
                2.5, 5.])], vec![f32s(&[8], &[9.357623e-14, 0.22313017, 0.7788008, 1., 1.3498588, 4.481689,
                12.182494, 148.41316])], Tolerance::Close { absolute: 0.0, relative: 1e-6 }),
            case("Log f32", node("Log", 13, 1, vec![]), vec![f32s(&[2, 3], &[0.001, 0.3, 0.5, 2., 1000.,
                3.0e+30])], vec![f32s(&[2, 3], &[-6.9077554, -1.2039728, -0.6931472, 0.6931472, 6.9077554,
                70.17616])], Tolerance::Close { absolute: 0.0, relative: 1e-6 }),
            case("Sqrt f32", node("Sqrt", 13, 1, vec![]), vec![f32s(&[2, 3], &[0.001, 0.3, 0.5, 2., 1000.,
                3.0e+30])], vec![f32s(&[2, 3], &[0.03162278, 0.5477226, 0.70710677, 1.4142135, 31.622776,
                1.7320508e+15])], Tolerance::Close { absolute: 0.0, relative: 1e-6 }),
            case("Reciprocal f32", node("Reciprocal", 13, 1, vec![]), vec![f32s(&[2, 3], &[0.001, 0.3, 0.5,
                2., 1000., 3.0e+30])], vec![f32s(&[2, 3], &[999.99994, 3.3333333, 2., 0.5, 0.001,
                3.3333333e-31])], Tolerance::Close { absolute: 0.0, relative: 1e-6 }),
            case("Reciprocal of zero", node("Reciprocal", 17, 1, vec![]), vec![f32s(&[2], &[0., -0.])],
                vec![f32s(&[2], &[f32::INFINITY, f32::NEG_INFINITY])], CLOSE),
            case("Log and Sqrt leave their domain: Log", node("Log", 17, 1, vec![]), vec![f32s(&[2], &[-1.,
                0.])], vec![f32s(&[2], &[f32::NAN, f32::NEG_INFINITY])], CLOSE),
            case("Sqrt of a negative", node("Sqrt", 17, 1, vec![]), vec![f32s(&[2], &[-1., 0.])],
                vec![f32s(&[2], &[f32::NAN, 0.])], CLOSE),
            case("Relu f16", node("Relu", 14, 1, vec![]), vec![f16s(&[2, 6], &[-9., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 9.])], vec![f16s(&[2, 6], &[0., 0., 0., 0., 0., 0., 0., 0.3,
                0.5, 1.5, 2.5, 9.])], CLOSE_F16),
            case("Sigmoid f16", node("Sigmoid", 14, 1, vec![]), vec![f16s(&[2, 6], &[-9., -3.5, -2.5, -1.5,
                -0.5, -0.25, 0., 0.3, 0.5, 1.5, 2.5, 9.])], vec![f16s(&[2, 6], &[0.0001234, 0.02931, 0.07587,
                0.1824, 0.3774, 0.4377, 0.5, 0.574, 0.6226, 0.8174, 0.9243, 1.])], CLOSE_F16),
            case("Tanh f16", node("Tanh", 14, 1, vec![]), vec![f16s(&[2, 6], &[-9., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 9.])], vec![f16s(&[2, 6], &[-1., -0.998, -0.987, -0.9053,
                -0.4622, -0.2449, 0., 0.2913, 0.4622, 0.9053, 0.987, 1.])], CLOSE_F16),
            case("Erf f16", node("Erf", 14, 1, vec![]), vec![f16s(&[2, 6], &[-9., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 9.])], vec![f16s(&[2, 6], &[-1., -1., -0.9995, -0.9663,
                -0.5205, -0.2764, 0., 0.3286, 0.5205, 0.9663, 0.9995, 1.])], CLOSE_F16),
            case("Exp f16", node("Exp", 14, 1, vec![]), vec![f16s(&[2, 6], &[-9., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 9.])], vec![f16s(&[2, 6], &[0.0001234, 0.0302, 0.0821, 0.2231,
                0.6064, 0.779, 1., 1.35, 1.648, 4.48, 12.18, 8104.])], CLOSE_F16),
            case("Floor f16", node("Floor", 14, 1, vec![]), vec![f16s(&[2, 6], &[-9., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 9.])], vec![f16s(&[2, 6], &[-9., -4., -3., -2., -1., -1., 0.,
                0., 0., 1., 2., 9.])], CLOSE_F16),
            case("Sqrt f16", node("Sqrt", 14, 1, vec![]), vec![f16s(&[2, 6], &[30., 3.5, 2.5, 1.5, 0.5, 0.25,
                0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f16s(&[2, 6], &[5.477, 1.871, 1.581, 1.225, 0.707, 0.5,
                0., 0.548, 0.707, 1.225, 1.581, 5.477])], CLOSE_F16),
            case("Cos f16", node("Cos", 14, 1, vec![]), vec![f16s(&[2, 6], &[-9., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 9.])], vec![f16s(&[2, 6], &[-0.911, -0.9365, -0.8013, 0.07074,
                0.8774, 0.9688, 1., 0.955, 0.8774, 0.07074, -0.8013, -0.911])], CLOSE_F16),
            case("Neg f16", node("Neg", 14, 1, vec![]), vec![f16s(&[2, 6], &[-9., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 9.])], vec![f16s(&[2, 6], &[9., 3.5, 2.5, 1.5, 0.5, 0.25, -0.,
                -0.3, -0.5, -1.5, -2.5, -9.])], CLOSE_F16),
            case("Round f16", node("Round", 14, 1, vec![]), vec![f16s(&[2, 6], &[-9., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 9.])], vec![f16s(&[2, 6], &[-9., -4., -2., -2., -0., -0., 0.,
                0., 0., 2., 2., 9.])], CLOSE_F16),
            case("Relu i32", node("Relu", 14, 1, vec![]), vec![i32s(&[4], &[-5, 0, 7, 2147483647])],
                vec![i32s(&[4], &[0, 0, 7, 2147483647])], EXACT),
            case("Neg i32", node("Neg", 13, 1, vec![]), vec![i32s(&[4], &[-5, 0, 7, 2147483647])],
                vec![i32s(&[4], &[5, 0, -7, -2147483647])], EXACT),
            case("Abs i32", node("Abs", 13, 1, vec![]), vec![i32s(&[4], &[-5, 0, 7, 2147483647])],
                vec![i32s(&[4], &[5, 0, 7, 2147483647])], EXACT),
            case("Sign i32", node("Sign", 13, 1, vec![]), vec![i32s(&[4], &[-5, 0, 7, 2147483647])],
                vec![i32s(&[4], &[-1, 0, 1, 1])], EXACT),
            case("Relu i8", node("Relu", 14, 1, vec![]), vec![i8s(&[4], &[-5, 0, 7, 127])], vec![i8s(&[4],
                &[0, 0, 7, 127])], EXACT),
            case("Neg i8", node("Neg", 13, 1, vec![]), vec![i8s(&[4], &[-5, 0, 7, 127])], vec![i8s(&[4], &[5,
                0, -7, -127])], EXACT),
            case("Abs i8", node("Abs", 13, 1, vec![]), vec![i8s(&[4], &[-5, 0, 7, 127])], vec![i8s(&[4], &[5,
                0, 7, 127])], EXACT),
            case("Sign i8", node("Sign", 13, 1, vec![]), vec![i8s(&[4], &[-5, 0, 7, 127])], vec![i8s(&[4],
                &[-1, 0, 1, 1])], EXACT),
            case("Neg i64", node("Neg", 13, 1, vec![]), vec![i64s(&[4], &[-5, 0, 7, 9223372036854775807])],
                vec![i64s(&[4], &[5, 0, -7, -9223372036854775807])], EXACT),
            case("Abs i64", node("Abs", 13, 1, vec![]), vec![i64s(&[4], &[-5, 0, 7, 9223372036854775807])],
                vec![i64s(&[4], &[5, 0, 7, 9223372036854775807])], EXACT),
            case("Sign i64", node("Sign", 13, 1, vec![]), vec![i64s(&[4], &[-5, 0, 7, 9223372036854775807])],
                vec![i64s(&[4], &[-1, 0, 1, 1])], EXACT),
            case("Abs u8", node("Abs", 17, 1, vec![]), vec![u8s(&[3], &[0, 1, 255])], vec![u8s(&[3], &[0, 1,
                255])], EXACT),
            case("Sign u8", node("Sign", 17, 1, vec![]), vec![u8s(&[3], &[0, 1, 255])], vec![u8s(&[3], &[0, 1,
                1])], EXACT),
            case("Not", node("Not", 17, 1, vec![]), vec![bools(&[1, 2], &[1, 0])], vec![bools(&[1, 2], &[0,
                1])], EXACT),
            case("LeakyRelu default alpha", node("LeakyRelu", 9, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5,
                -2.5, -1.5, -0.5, -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[-0.29999998,
                -0.035, -0.024999999, -0.015, -0.005, -0.0025, 0., 0.3, 0.5, 1.5, 2.5, 30.])], CLOSE),
            case("LeakyRelu alpha 0.1", node("LeakyRelu", 16, 1, vec![float("alpha", 0.1)]), vec![f32s(&[2,
                6], &[-30., -3.5, -2.5, -1.5, -0.5, -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6],
                &[-3., -0.35, -0.25, -0.15, -0.05, -0.025, 0., 0.3, 0.5, 1.5, 2.5, 30.])], CLOSE),
            case("HardSigmoid default", node("HardSigmoid", 9, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5,
                -2.5, -1.5, -0.5, -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[0., 0., 0.,
                0.19999999, 0.4, 0.45, 0.5, 0.56, 0.6, 0.8, 1., 1.])], CLOSE),
            case("HardSigmoid as in exports", node("HardSigmoid", 17, 1, vec![float("alpha", 0.166667)]),
                vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5, -0.5, -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])],
                vec![f32s(&[2, 6], &[0., 0., 0.08333251, 0.2499995, 0.4166665, 0.45833325, 0.5, 0.5500001,
                0.5833335, 0.7500005, 0.91666746, 1.])], CLOSE),
            case("HardSigmoid alpha and beta", node("HardSigmoid", 17, 1, vec![float("alpha", 0.3),
                float("beta", 0.4)]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5, -0.5, -0.25, 0., 0.3, 0.5,
                1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[0., 0., 0., 0., 0.25, 0.325, 0.4, 0.49, 0.55, 0.85, 1.,
                1.])], CLOSE),
            case("Elu", node("Elu", 17, 1, vec![float("alpha", 1.5)]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5,
                -1.5, -0.5, -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[-1.5, -1.4547039,
                -1.3768725, -1.1653048, -0.590204, -0.33179882, 0., 0.3, 0.5, 1.5, 2.5, 30.])], CLOSE),
            case("Elu default", node("Elu", 17, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[-1., -0.9698026, -0.917915,
                -0.77686983, -0.39346933, -0.22119921, 0., 0.3, 0.5, 1.5, 2.5, 30.])], CLOSE),
            case("Gelu", node("Gelu", 20, 1, vec![]), vec![f32s(&[2, 6], &[-30., -3.5, -2.5, -1.5, -0.5,
                -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6], &[-0., -0.00081422925, -0.015524104,
                -0.100210816, -0.15426877, -0.10032342, 0., 0.18537344, 0.34573123, 1.3997892, 2.484476,
                30.])], CLOSE),
            case("Gelu tanh", node("Gelu", 20, 1, vec![string("approximate", "tanh")]), vec![f32s(&[2, 6],
                &[-30., -3.5, -2.5, -1.5, -0.5, -0.25, 0., 0.3, 0.5, 1.5, 2.5, 30.])], vec![f32s(&[2, 6],
                &[-0., -0.0006161481, -0.015084296, -0.10042843, -0.154286, -0.10032465, 0., 0.18537092,
                0.345714, 1.3995715, 2.4849157, 30.])], CLOSE),
            case("IsNaN", node("IsNaN", 13, 1, vec![]), vec![f32s(&[3], &[f32::NAN, 1., f32::INFINITY])],
                vec![bools(&[3], &[1, 0, 0])], EXACT),
            case("IsInf both", node("IsInf", 10, 1, vec![]), vec![f32s(&[4], &[f32::NAN, 1., f32::INFINITY,
                f32::NEG_INFINITY])], vec![bools(&[4], &[0, 0, 1, 1])], EXACT),
            case("IsInf {detect_negative: 0}", node("IsInf", 10, 1, vec![int("detect_negative", 0)]),
                vec![f32s(&[4], &[f32::NAN, 1., f32::INFINITY, f32::NEG_INFINITY])], vec![bools(&[4], &[0, 0,
                1, 0])], EXACT),
            case("IsInf {detect_positive: 0}", node("IsInf", 10, 1, vec![int("detect_positive", 0)]),
                vec![f32s(&[4], &[f32::NAN, 1., f32::INFINITY, f32::NEG_INFINITY])], vec![bools(&[4], &[0, 0,
                0, 1])], EXACT),
            case("a scalar", node("Sigmoid", 17, 1, vec![]), vec![f32s(&[], &[0.7])], vec![f32s(&[],
                &[0.66818774])], CLOSE),
            case("no elements", node("Exp", 17, 1, vec![]), vec![f32s(&[2, 0, 3], &[])], vec![f32s(&[2, 0, 3],
                &[])], CLOSE),
            case("f64", node("Sigmoid", 17, 1, vec![]), vec![tensor::<f64>(&[2], &[-3., 0.25])],
                vec![tensor::<f64>(&[2], &[0.047425873177566635, 0.5621765008857981])], CLOSE),
            case("rank 5", node("Tanh", 17, 1, vec![]), vec![f32s(&[2, 1, 2, 1, 2], &[0.5, 1.59, 1.1, -1.1,
                -0.8, 1.49, -1.98, 1.28])], vec![f32s(&[2, 1, 2, 1, 2], &[0.46211717, 0.92014927, 0.8004991,
                -0.8004991, -0.66403687, 0.9033248, -0.96258694, 0.8564849])], CLOSE),
            case("silu is x * sigmoid(x) (numpy)", Op::Unary(Unary::Silu), vec![f32s(&[4], &[-3.0, -0.5, 0.0,
                2.0])], vec![f32s(&[4], &[-0.14227761, -0.18877034, 0., 1.7615942])], CLOSE),
        ]
    }
}
