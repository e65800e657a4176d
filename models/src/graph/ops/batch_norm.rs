use super::elementwise::{floats, memory_order, permuted, rows};
use super::literal::*;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{Element, View, ViewMut};

/// (x - mean) / sqrt(var + epsilon) * scale + bias per channel,
/// [ONNX BatchNormalization](https://onnx.ai/onnx/operators/onnx__BatchNormalization.html) in inference.
///
/// Inputs: x `[N,C,...]`, scale `[C]`, bias `[C]`, mean `[C]`, variance `[C]`; floats, computed in f64 and rounded once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNorm {
    /// Added to the variance.
    pub epsilon: f32,
}

impl BatchNorm {
    /// Slope and offset of channel `c`: y = slope * x + offset, for folding into the op before.
    pub fn line(scale: f64, bias: f64, mean: f64, variance: f64, epsilon: f32) -> (f64, f64) {
        let slope = scale / (variance + epsilon as f64).sqrt();
        (slope, bias - mean * slope)
    }

    fn apply<T: Element>(
        x: &View<'_>,
        y: &mut ViewMut<'_>,
        line: impl Fn(usize) -> (f64, f64),
    ) -> Result<()> {
        if x.shape().elements() == 0 {
            return Ok(());
        }
        let rank = x.shape().rank();
        let order = memory_order(y.layout());
        let x = permuted(x, &order[..rank])?;
        let mut y = y.permuted(&order[..rank])?;
        // A channel dim of a rank-1 input does not exist: x is one channel then.
        let channel = order[..rank].iter().position(|&d| d == 1);
        for mut index in rows(y.shape())? {
            if let Some(d) = channel
                && d + 1 < rank
                && let (Some(x), Some(y)) = (x.row::<T>(&index), y.row_mut::<T>(&index))
            {
                let (slope, offset) = line(index[d]);
                y.iter_mut().zip(x).for_each(|(y, x)| *y = T::from_f64(x.to_f64() * slope + offset));
                continue;
            }
            for i in 0..y.shape()[rank - 1] {
                index[rank - 1] = i;
                let (slope, offset) = line(channel.map_or(0, |d| index[d]));
                y.set(&index, T::from_f64(x.get::<T>(&index).to_f64() * slope + offset));
            }
        }
        Ok(())
    }
}

impl Operator for BatchNorm {
    fn parse(node: &NodeInfo) -> Result<Self> {
        node.ignore("momentum");
        if node.int("training_mode")?.unwrap_or(0) != 0 || (1..5).any(|i| node.has_output(i)) {
            return Err(Error::unsupported("BatchNormalization in training mode is not supported"));
        }
        if node.int("spatial")?.unwrap_or(1) != 1 {
            return Err(Error::unsupported("BatchNormalization with spatial = 0 is not supported"));
        }
        Ok(BatchNorm { epsilon: node.float("epsilon")?.unwrap_or(1e-5) })
    }

    fn name(&self) -> &str {
        "BatchNormalization"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        if !x.dtype.is_float() || x.shape.rank() == 0 {
            return Err(Error::shape(format!("x is {} {}, floats [N,C,...] expected", x.dtype, x.shape)));
        }
        let channels = x.shape.get(1).copied().unwrap_or(1);
        for (i, what) in [(1, "scale"), (2, "bias"), (3, "mean"), (4, "variance")] {
            let p = required(inputs, i, what)?;
            if p.shape.dims() != [channels] || !p.dtype.is_float() {
                return Err(Error::shape(format!(
                    "{what} is {} {}, floats [{channels}] expected",
                    p.dtype, p.shape
                )));
            }
        }
        Ok(vec![OutFact { dtype: x.dtype, shape: x.shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = &required(inputs, 0, "x")?;
        let (scale, bias) = (required(inputs, 1, "scale")?, required(inputs, 2, "bias")?);
        let (mean, variance) = (required(inputs, 3, "mean")?, required(inputs, 4, "variance")?);
        let line = |c: usize| {
            let at = |v: &View<'_>| v.get_f64(&[c]);
            Self::line(at(&scale), at(&bias), at(&mean), at(&variance), self.epsilon)
        };
        let y = &mut outputs[0];
        floats!(x.dtype(), T => Self::apply::<T>(x, y, line), Err(Error::shape("a float input expected")))
    }

    #[rustfmt::skip] // tables of numbers
    #[allow(clippy::approx_constant)] // they only look alike
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("as in exports", node("BatchNormalization", 15, 5, vec![float("epsilon", 0.001),
                float("momentum", 0.97)]), vec![f32s(&[1, 3, 2, 2], &[-0.74, -0.71, 0.9, -1.98, -1.08, 1.59,
                1.42, 0.52, 0.24, -1.11, 1.5, 1.04]), f32s(&[3], &[0.05, -1.36, -1.14]), f32s(&[3], &[-0.48,
                -0.68, -1.76]), f32s(&[3], &[-0.37, -0.21, -0.85]), f32s(&[3], &[0.83, 0.73, 0.82])],
                vec![f32s(&[1, 3, 2, 2], &[-0.50029415, -0.4986487, -0.41034165, -0.56830704, 0.7038833,
                -3.5432067, -3.2727928, -1.8411894, -3.1313863, -1.4328805, -4.716658, -4.137908])], CLOSE),
            case("default epsilon, opset 9", node("BatchNormalization", 9, 5, vec![]), vec![f32s(&[2, 2, 3,
                1], &[0.48, -0.01, -1.21, 1.18, 0.05, -0.17, 0.85, 1.01, 1.4, 1.24, 0.68, 0.88]), f32s(&[2],
                &[-1.37, 0.8]), f32s(&[2], &[-0.98, -0.97]), f32s(&[2], &[-1.52, -0.41]), f32s(&[2], &[0.14,
                1.35])], vec![f32s(&[2, 2, 3, 1], &[-8.302696, -6.508636, -2.115018, 0.1247592, -0.6532772,
                -0.80475336, -9.657395, -10.243212, -11.671137, 0.16607088, -0.21950468, -0.08179915])],
                CLOSE),
            case("rank 2", node("BatchNormalization", 15, 5, vec![]), vec![f32s(&[2, 3], &[0.99, 1.1, -1.48,
                0.56, 1.35, -1.86]), f32s(&[3], &[-1.23, -0.93, -0.15]), f32s(&[3], &[-1.31, 0.16, -0.62]),
                f32s(&[3], &[0.62, 0.13, 0.75]), f32s(&[3], &[0.57, 1.44, 1.5])], vec![f32s(&[2, 3],
                &[-1.9127893, -0.5917474, -0.34688276, -1.2122502, -0.7854968, -0.30034262])], CLOSE),
            case("rank 3", node("BatchNormalization", 14, 5, vec![int("training_mode", 0)]), vec![f32s(&[1, 2,
                3], &[0.89, -1.73, 1.78, 0.31, -0.91, -0.26]), f32s(&[2], &[0.07, 0.07]), f32s(&[2], &[-1.01,
                -0.94]), f32s(&[2], &[-0.55, 1.12]), f32s(&[2], &[0.93, 0.17])], vec![f32s(&[1, 2, 3],
                &[-0.90547585, -1.0956517, -0.8408741, -1.0775137, -1.2846329, -1.1742826])], CLOSE),
            case("f16", node("BatchNormalization", 15, 5, vec![]), vec![f16s(&[1, 2, 2, 2], &[-0.19, -1.19,
                -1.95, 1.91, -0.83, 0.15, -0.57, -1.79]), f16s(&[2], &[1.6, 1.74]), f16s(&[2], &[-1.25,
                -0.33]), f16s(&[2], &[-0.51, -1.33]), f16s(&[2], &[1.36, 1.59])], vec![f16s(&[1, 2, 2, 2],
                &[-0.8115, -2.184, -3.225, 2.068, 0.36, 1.713, 0.719, -0.965])], CLOSE_F16),
            case("no pixels", node("BatchNormalization", 15, 5, vec![]), vec![f32s(&[1, 2, 0, 2], &[]),
                f32s(&[2], &[1.04, 0.7]), f32s(&[2], &[-1.93, -1.08]), f32s(&[2], &[0.06, 0.81]), f32s(&[2],
                &[0.83, 0.95])], vec![f32s(&[1, 2, 0, 2], &[])], CLOSE),
        ]
    }
}
