use super::elementwise::{broadcast, floats};
use super::literal::*;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{Element, MAX_RANK, Shape, View, ViewMut};

/// (x - mean) / sqrt(variance + epsilon) * scale + bias over the dims from an axis on,
/// [ONNX LayerNormalization](https://onnx.ai/onnx/operators/onnx__LayerNormalization.html) without its optional outputs.
///
/// Inputs: x, scale, bias (optional); scale and bias broadcast to x. Floats, computed in f64 and rounded once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerNorm {
    /// First normalised dim, counted from the end if negative.
    pub axis: i64,
    /// Added to the variance.
    pub epsilon: f32,
}

/// Mean and 1 / standard deviation of numbers read twice.
pub(super) fn moments(numbers: impl Iterator<Item = f64> + Clone, epsilon: f64) -> (f64, f64) {
    let sum = |f: &dyn Fn(f64) -> f64| {
        let mut parts = [0f64; 8];
        let mut count = 0usize;
        numbers.clone().for_each(|v| {
            parts[count % 8] += f(v);
            count += 1;
        });
        parts.iter().sum::<f64>() / count as f64
    };
    let mean = sum(&|v| v);
    let variance = sum(&|v| (v - mean) * (v - mean));
    (mean, 1.0 / (variance + epsilon).sqrt())
}

impl LayerNorm {
    fn apply<T: Element>(
        &self,
        x: &View<'_>,
        scale: &View<'_>,
        bias: Option<&View<'_>>,
        y: &mut ViewMut<'_>,
    ) -> Result<()> {
        let rank = x.shape().rank();
        let axis = Shape::axis(self.axis, rank)?;
        let epsilon = self.epsilon as f64;
        let inner = Shape::new(&x.shape()[axis..])?;
        let len = inner.elements();
        // Parameters as runs, where they have exactly the normalised dims.
        let run = |p: &View<'_>| p.shape().elements() == len && p.layout().is_contiguous();
        let runs = run(scale) && bias.is_none_or(run);
        if runs
            && len > 0
            && let (Some(x), Some(y), Some(scale)) =
                (x.as_slice::<T>(), y.as_mut_slice::<T>(), scale.as_slice::<T>())
        {
            let bias = bias.and_then(|b| b.as_slice::<T>());
            for (x, y) in x.chunks_exact(len).zip(y.chunks_exact_mut(len)) {
                let (mean, inverse) = moments(x.iter().map(|v| v.to_f64()), epsilon);
                for i in 0..len {
                    let v = (x[i].to_f64() - mean) * inverse * scale[i].to_f64();
                    y[i] = T::from_f64(v + bias.map_or(0.0, |b| b[i].to_f64()));
                }
            }
            return Ok(());
        }
        let scale = broadcast(scale, x.shape())?;
        let bias = bias.map(|b| broadcast(b, x.shape())).transpose()?;
        for outer in Shape::new(&x.shape()[..axis])?.indices() {
            let places = inner.indices().map(|i| {
                let mut at = [0; MAX_RANK];
                at[..axis].copy_from_slice(&outer[..axis]);
                at[axis..rank].copy_from_slice(&i[..rank - axis]);
                at
            });
            let (mean, inverse) = moments(places.clone().map(|at| x.get::<T>(&at).to_f64()), epsilon);
            for at in places {
                let v = (x.get::<T>(&at).to_f64() - mean) * inverse * scale.get::<T>(&at).to_f64();
                y.set(&at, T::from_f64(v + bias.as_ref().map_or(0.0, |b| b.get::<T>(&at).to_f64())));
            }
        }
        Ok(())
    }
}

impl Operator for LayerNorm {
    fn parse(node: &NodeInfo) -> Result<Self> {
        if node.has_output(1) || node.has_output(2) {
            return Err(Error::unsupported(
                "outputs Mean and InvStdDev of LayerNormalization are not supported",
            ));
        }
        // The precision of the intermediate numbers: always at least what is asked for.
        node.ignore("stash_type");
        Ok(LayerNorm {
            axis: node.int("axis")?.unwrap_or(-1),
            epsilon: node.float("epsilon")?.unwrap_or(1e-5),
        })
    }

    fn name(&self) -> &str {
        "LayerNormalization"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let scale = required(inputs, 1, "scale")?;
        let bias = inputs.get(2).copied().flatten();
        if !x.dtype.is_float() {
            return Err(Error::shape(format!("LayerNormalization does not take {}", x.dtype)));
        }
        Shape::axis(self.axis, x.shape.rank())?;
        for (what, p) in [("scale", Some(scale)), ("bias", bias)] {
            if let Some(p) = p
                && (p.dtype != x.dtype || x.shape.broadcast(&p.shape)? != x.shape)
            {
                return Err(Error::shape(format!(
                    "{what} is {} {}, {} that broadcasts to {} expected",
                    p.dtype, p.shape, x.dtype, x.shape
                )));
            }
        }
        Ok(vec![OutFact { dtype: x.dtype, shape: x.shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = &required(inputs, 0, "x")?;
        let scale = &required(inputs, 1, "scale")?;
        let bias = inputs.get(2).copied().flatten();
        let y = &mut outputs[0];
        floats!(x.dtype(), T => self.apply::<T>(x, scale, bias.as_ref(), y), {
            Err(Error::shape("a float input expected"))
        })
    }

    #[rustfmt::skip] // tables of numbers
    #[allow(clippy::approx_constant)] // they only look alike
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("last axis", node("LayerNormalization", 17, 3, vec![int("axis", -1), float("epsilon",
                1.0e-05)]), vec![f32s(&[2, 3, 8], &[1.36, -1.91, -0.93, -0.84, 1.97, -1.09, -1.81, -0.33, 0.6,
                -1.39, 1.36, -1.21, 0.82, -1.35, 1.53, -1.19, 0.93, 1.35, -0.98, -1.63, 0.34, -0., -0.08,
                1.13, -0.15, -0.01, -0.05, -0.18, -0.38, -1.36, -0.82, -0.94, -1.01, 1.13, -1.54, -1.18, 0.11,
                -0.75, -1.04, -0.51, 0.01, 0.7, 1.89, 1.41, -0.28, -0.19, -0.34, -1.04]), f32s(&[8], &[1.81,
                -1.73, -1.18, 0.65, 0.36, -0.89, 1.75, -0.36]), f32s(&[8], &[0.39, -1.64, 1.56, -1.59, -0.42,
                1.54, 1.78, 1.62])], vec![f32s(&[2, 3, 8], &[2.8701541, 0.278067, 1.9916195, -1.7834082,
                0.23976733, 1.9734958, -0.027575195, 1.5879327, 1.4400814, 0.19441451, 0.136115, -2.1827788,
                -0.14585333, 2.4543684, 4.136946, 1.9423728, 1.8745698, -3.8062391, 2.910123, -2.7682402,
                -0.34317333, 1.6612822, 1.397538, 1.2506766, 1.7040706, -3.4189303, 0.4485364, -1.1601992,
                -0.33741343, 3.2190166, 0.5189361, 1.9726931, -0.54142076, -5.38231, 2.9497874, -2.0627568,
                -0.10073078, 1.7084405, 0.81376183, 1.580021, -0.12123189, -2.4481287, -0.5166486, -0.7850217,
                -0.6350954, 1.9847478, 0.6203314, 2.1323183])], CLOSE_NORM),
            case("epsilon 1e-6", node("LayerNormalization", 17, 3, vec![int("axis", -1), float("epsilon",
                1.0e-06)]), vec![f32s(&[2, 8], &[1.31, -1.07, -1.87, -0.19, -1.75, 1.84, -1.97, -0.7, -1.19,
                -1.95, -0., -1.7, 1.6, 0.75, -0.52, 1.37]), f32s(&[8], &[1.19, -0.69, 1.39, 1.72, 0.48, -0.59,
                1.6, 1.77]), f32s(&[8], &[-0.61, -1.65, 1.47, 0.66, -1.07, 0.27, -0.77, 1.68])],
                vec![f32s(&[2, 8], &[1.0177085, -1.3861426, 0.120709606, 1.1153525, -1.4935837, -0.7669711,
                -2.4408023, 1.4847543, -1.5280211, -0.7069951, 1.6931713, -1.3539053, -0.39144066,
                -0.17129073, -1.1647298, 3.8633494])], CLOSE_NORM),
            case("no bias", node("LayerNormalization", 17, 2, vec![]), vec![f32s(&[2, 8], &[-0.63, -1.21,
                -1.83, -0.63, 1.96, -1.13, -0.17, 1.89, -1.97, -0.82, 1.28, -1.62, 1.71, 1.34, -1.43, 0.37]),
                f32s(&[8], &[0.22, 0.77, -0.77, -0.46, -1.04, -0.83, -1.3, 1.62])], vec![f32s(&[2, 8],
                &[-0.06853093, -0.57813865, 0.93974864, 0.14329195, -1.7163222, 0.5728932, -0.048003845,
                2.587606, -0.28832802, -0.37411645, -0.7855064, 0.48740736, -1.3816509, -0.8824286, 1.2003207,
                0.59540933])], CLOSE_NORM),
            case("axis 1", node("LayerNormalization", 17, 3, vec![int("axis", 1)]), vec![f32s(&[2, 3, 4],
                &[1.55, -0.56, 0.77, -0.04, -0.88, -0.6, 1.86, -0.63, 0.31, 1.78, -0.81, 1.24, -1.54, 0.93,
                1.23, 1.35, 1.9, 0.84, 1.91, -0.89, 0.09, -1.14, -1.67, -0.24]), f32s(&[3, 4], &[0.88, 1.11,
                -1.93, 1.77, -1.01, -0.83, 1.33, 1.58, 0.95, -0.67, -0.15, 1.34]), f32s(&[3, 4], &[-0.57,
                1.22, 1.13, -0.13, 1.59, -0.46, 1., 0.56, -0.67, 0.13, 0.42, 0.15])], vec![f32s(&[2, 3, 4],
                &[0.48257187, 0.24673454, 0.30046353, -0.7777384, 2.7931042, 0.30037364, 2.9958735,
                -0.9340253, -0.6909994, -0.8227819, 0.58836335, 1.34468, -1.8135991, 1.8393323, -0.40891743,
                1.4508407, 0.24463187, -0.8634914, 2.7822373, -0.85324734, -0.77677, 0.8629587, 0.6475387,
                -0.35349143])], CLOSE_NORM),
            case("axis 0", node("LayerNormalization", 17, 2, vec![int("axis", 0)]), vec![f32s(&[2, 3],
                &[-1.56, 1.97, 1.87, -1.85, 1.78, 0.13]), f32s(&[2, 3], &[-1.5, 1.28, -0.27, 0.85, 1.31,
                0.15])], vec![f32s(&[2, 3], &[1.8194593, 1.2580085, -0.24856617, -1.1843593, 1.1326679,
                -0.02425946])], CLOSE_NORM),
            case("one number", node("LayerNormalization", 17, 3, vec![]), vec![f32s(&[2, 1], &[-1.8, 1.29]),
                f32s(&[1], &[0.78]), f32s(&[1], &[1.64])], vec![f32s(&[2, 1], &[1.64, 1.64])], CLOSE_NORM),
            case("stash_type", node("LayerNormalization", 17, 3, vec![int("stash_type", 1)]), vec![f32s(&[2,
                5], &[-0.92, 1.14, 1.49, -0.58, -0.36, -0.66, -1.98, -1.07, -0.67, -1.57]), f32s(&[5], &[1.06,
                -0.29, 0.27, -0.86, -0.56]), f32s(&[5], &[1.01, -0.12, 0.39, -0.31, 0.23])], vec![f32s(&[2,
                5], &[-0.16251957, -0.41449976, 0.7615183, 0.3401364, 0.5264566, 2.097547, 0.3234977,
                0.45272076, -1.1757014, 0.64194375])], CLOSE_NORM),
            case("large offset", node("LayerNormalization", 17, 3, vec![]), vec![f32s(&[2, 8], &[101.59,
                99.07, 100.08, 100.75, 98.35, 101.85, 100., 98.98, 101.04, 101.26, 100.52, 101.66, 98.36,
                100.11, 100.97, 101.67]), f32s(&[8], &[0.57, 0.41, -0.45, 0.29, 0.22, 1.62, 1.31, 0.95]),
                f32s(&[8], &[1.7, -1.74, 1.08, -0.15, 1.01, -0.82, -0.13, 1.3])], vec![f32s(&[2, 8],
                &[2.4291658, -2.0929952, 1.0814317, 0.0140934875, 0.6860606, 1.6100887, -0.22317508,
                0.40947333, 1.8918816, -1.5129989, 1.1593531, 0.12499397, 0.50243026, -1.7608852, 0.22053088,
                2.2102087])], CLOSE_NORM),
            // onnx reference.
            case("scale broadcasts", node("LayerNormalization", 17, 3, vec![int("axis", 1)]), vec![f32s(&[2,
                3, 4], &[-1.86, -0.84, -0.05, 1.41, -0.92, 1.29, -1.02, -0.79, 0.22, 0.62, 1.52, 1.52, -1.,
                0.98, 0.54, -0.46, 1.1, 1.59, -0.08, 1.66, -1.49, -1.34, 1.06, -0.78]), f32s(&[1, 4], &[0.34,
                -0.01, -1.42, 1.02]), f32s(&[], &[0.5])], vec![f32s(&[2, 3, 4], &[-0.087978125, 0.50825536,
                0.6782512, 1.6915216, 0.19521546, 0.48938173, 1.898748, -0.29685837, 0.53866297, 0.4953185,
                -1.2971919, 1.7909406, 0.144171, 0.49242043, -0.006873369, -0.06550473, 0.7948888, 0.48686108,
                0.79549634, 1.9052404, -0.0076631308, 0.5135642, -0.6798284, -0.36297572])], CLOSE_NORM),
            // In f64, rounded once (numpy).
            case("f16", node("LayerNormalization", 17, 3, vec![]), vec![f16s(&[2, 6], &[0.97, -1.42, -0.96,
                1.2, 1.65, 1.48, 0.01, -0.53, -0.22, -1.29, -0.02, -1.08]), f16s(&[6], &[-1.35, -0.48, -1.74,
                -0.12, 0.78, 0.61]), f16s(&[6], &[1.9, 1.54, 0.54, 1.59, -0.22, 1.2])], vec![f16s(&[2, 6],
                &[1.362, 2.295, 2.617, 1.52, 0.529, 1.7, 0.4785, 1.548, -0.5005, 1.772, 0.555, 0.5254])],
                CLOSE_F16),
        ]
    }
}
