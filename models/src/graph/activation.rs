use std::fmt;

/// A pointwise function that fuses into the epilogue of the op before it. All arithmetic is f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// x.
    None,
    /// max(x, 0); NaN stays.
    Relu,
    /// x if x >= 0, else slope * x.
    LeakyRelu(f32),
    /// min(max(x, lo), hi); NaN stays.
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
            Activation::Relu => at_least(x, 0.0),
            Activation::LeakyRelu(slope) => {
                if x >= 0.0 {
                    x
                } else {
                    slope * x
                }
            }
            Activation::Clip(lo, hi) => {
                let x = at_least(x, lo);
                if x > hi { hi } else { x }
            }
            Activation::Sigmoid => sigmoid(x),
            Activation::Silu => x * sigmoid(x),
            Activation::HardSigmoid(alpha, beta) => (alpha * x + beta).clamp(0.0, 1.0),
            Activation::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
            Activation::Tanh => x.tanh(),
        }
    }
}

/// The larger; x if it is NaN (`f32::max` would give the bound).
fn at_least(x: f32, lo: f32) -> f32 {
    if x < lo { lo } else { x }
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

#[cfg(test)]
mod tests {
    use super::Activation;

    // onnxruntime 1.32 gives NaN for NaN in Relu and Clip too (asked through Python).
    #[test]
    fn nan_stays_nan() {
        for act in [
            Activation::None,
            Activation::Relu,
            Activation::LeakyRelu(0.1),
            Activation::Clip(0.0, 6.0),
            Activation::Sigmoid,
            Activation::Silu,
            Activation::HardSigmoid(0.2, 0.5),
            Activation::HardSwish,
            Activation::Tanh,
        ] {
            assert!(act.apply(f32::NAN).is_nan(), "{act}");
        }
        assert_eq!([-1.0, 3.0, 7.0].map(|x| Activation::Clip(0.0, 6.0).apply(x)), [0.0, 3.0, 6.0]);
        assert_eq!([-1.0, 3.0].map(|x| Activation::Relu.apply(x)), [0.0, 3.0]);
    }
}
