use std::fmt;

/// A pointwise function that fuses into the epilogue of the op before it. All arithmetic is f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// x.
    None,
    /// max(x, 0).
    Relu,
    /// x if x >= 0, else slope * x.
    LeakyRelu(f32),
    /// min(max(x, lo), hi).
    Clip(f32, f32),
    /// 1 / (1 + exp(-x)).
    Sigmoid,
    /// x * sigmoid(x).
    Silu,
    /// min(max(alpha * x + beta, 0), 1).
    HardSigmoid(f32, f32),
    /// x * min(max(x / 6 + 0.5, 0), 1).
    HardSwish,
    /// tanh(x).
    Tanh,
}

impl Activation {
    /// The function's value: the reference that fast kernels are compared with.
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Activation::None => x,
            Activation::Relu => x.max(0.0),
            Activation::LeakyRelu(slope) => {
                if x >= 0.0 {
                    x
                } else {
                    slope * x
                }
            }
            Activation::Clip(lo, hi) => x.max(lo).min(hi),
            Activation::Sigmoid => sigmoid(x),
            Activation::Silu => x * sigmoid(x),
            Activation::HardSigmoid(alpha, beta) => (alpha * x + beta).clamp(0.0, 1.0),
            Activation::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
            Activation::Tanh => x.tanh(),
        }
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Activation::None => f.write_str("none"),
            Activation::Relu => f.write_str("relu"),
            Activation::LeakyRelu(slope) => write!(f, "leaky_relu({slope})"),
            Activation::Clip(lo, hi) => write!(f, "clip({lo}, {hi})"),
            Activation::Sigmoid => f.write_str("sigmoid"),
            Activation::Silu => f.write_str("silu"),
            Activation::HardSigmoid(a, b) => write!(f, "hard_sigmoid({a}, {b})"),
            Activation::HardSwish => f.write_str("hard_swish"),
            Activation::Tanh => f.write_str("tanh"),
        }
    }
}
