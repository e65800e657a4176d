use super::elementwise::floats;
use super::literal::*;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{Element, MAX_RANK, Shape, View, ViewMut};

/// Pooling over all pixels, `GlobalAveragePool` and `GlobalMaxPool`: x `[N,C,...]` gives `[N,C,1,...]`. The mean is summed
/// in f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalPool {
    /// The largest pixel instead of the mean.
    pub max: bool,
}

impl GlobalPool {
    fn pool<T: Element>(&self, x: &View<'_>, y: &mut ViewMut<'_>) -> Result<()> {
        let pixels = Shape::new(&x.shape()[2..])?;
        let rank = x.shape().rank();
        for index in y.shape().indices() {
            let (mut sum, mut best) = (0f64, f64::NEG_INFINITY);
            for pixel in pixels.indices() {
                let mut at = [0; MAX_RANK];
                at[..2].copy_from_slice(&index[..2]);
                at[2..rank].copy_from_slice(&pixel[..rank - 2]);
                let v = x.get::<T>(&at).to_f64();
                sum += v;
                best = if v > best || v.is_nan() { v } else { best };
            }
            y.set(&index, T::from_f64(if self.max { best } else { sum / pixels.elements() as f64 }));
        }
        Ok(())
    }
}

impl Operator for GlobalPool {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(GlobalPool { max: node.op_type == "GlobalMaxPool" })
    }

    fn name(&self) -> &str {
        if self.max { "GlobalMaxPool" } else { "GlobalAveragePool" }
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        if x.shape.rank() < 2 || !x.dtype.is_float() {
            return Err(Error::shape(format!("x is {} {}, floats [N,C,...] expected", x.dtype, x.shape)));
        }
        let mut dims = [1; MAX_RANK];
        dims[..2].copy_from_slice(&x.shape[..2]);
        Ok(vec![OutFact { dtype: x.dtype, shape: Shape::new(&dims[..x.shape.rank()])? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = &required(inputs, 0, "x")?;
        let y = &mut outputs[0];
        floats!(x.dtype(), T => self.pool::<T>(x, y), Err(Error::shape("a float input expected")))
    }

    #[rustfmt::skip] // tables of numbers
    #[allow(clippy::approx_constant)] // they only look alike
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("GlobalAveragePool", node("GlobalAveragePool", 9, 1, vec![]), vec![f32s(&[2, 3, 2, 4],
                &[1.23, -0.14, 0.48, 1.28, 0.71, 0.57, -0.38, 0.23, -0.42, 0.98, -0.48, -0.13, 1.02, 0.01,
                -0.65, 1.31, -0.48, 1.38, 1.14, -0.21, 0.85, -1.86, -0.44, 1.44, 0.32, 0.23, 0.66, 0.71, 0.33,
                -0.32, -1.27, -0.83, -0.83, -0.28, 2., -0.59, -0.21, -0.51, 0.33, 1.79, 1.56, -0.49, -0.93,
                1.54, -0.02, 0.74, -1.71, 1.47])], vec![f32s(&[2, 3, 1, 1], &[0.4975, 0.20500001, 0.2275,
                -0.021249996, 0.2125, 0.26999998])], CLOSE),
            case("GlobalAveragePool rank 3", node("GlobalAveragePool", 17, 1, vec![]), vec![f32s(&[1, 3, 5],
                &[-0.75, -0.02, -1.21, -0.32, 1.31, 1.31, -0.11, 1.07, -0.17, -0.51, 0.18, -1.19, -0.73, 0.83,
                1.08])], vec![f32s(&[1, 3, 1], &[-0.198, 0.31800002, 0.03399999])], CLOSE),
            case("GlobalAveragePool of one pixel", node("GlobalAveragePool", 17, 1, vec![]), vec![f32s(&[1, 3,
                1, 1], &[-1.77, 0.93, 1.27])], vec![f32s(&[1, 3, 1, 1], &[-1.77, 0.93, 1.27])], CLOSE),
            case("GlobalMaxPool", node("GlobalMaxPool", 9, 1, vec![]), vec![f32s(&[2, 3, 2, 4], &[-0.22,
                -1.75, 0.73, -1.02, 0.57, -0.49, 0.55, -0.97, -0.09, 0.1, 0.52, -1.19, 1.85, -0.84, -0.78,
                -0.97, -1.73, -0.31, 1.09, 0.84, -1.22, -1.45, -0.71, 1.07, -0.05, 1.69, 0.63, 0.48, 1.07, 1.,
                -0.62, -0.97, -0.25, -0.04, -1.43, -0.23, 0.56, -1.46, -1.45, -1.31, -0.87, 1.85, -1.9, -1.27,
                -1.34, -0.1, -1.94, -0.17])], vec![f32s(&[2, 3, 1, 1], &[0.73, 1.85, 1.09, 1.69, 0.56,
                1.85])], CLOSE),
            case("GlobalMaxPool rank 3", node("GlobalMaxPool", 17, 1, vec![]), vec![f32s(&[1, 3, 5], &[-1.35,
                -0.92, 1.17, -1.26, 0.47, -0.37, -0.33, 1.27, -1.36, 1.7, 1.57, 0.67, -1.8, 0.65, 0.4])],
                vec![f32s(&[1, 3, 1], &[1.17, 1.7, 1.57])], CLOSE),
            case("GlobalMaxPool of one pixel", node("GlobalMaxPool", 17, 1, vec![]), vec![f32s(&[1, 3, 1, 1],
                &[1.09, -1.14, 1.81])], vec![f32s(&[1, 3, 1, 1], &[1.09, -1.14, 1.81])], CLOSE),
            // In f64, rounded once (numpy).
            case("GlobalAveragePool f16", node("GlobalAveragePool", 11, 1, vec![]), vec![f16s(&[1, 2, 3, 3],
                &[1.54, -1.54, -0.74, -1.87, 1.32, 1.66, 1.96, 0.45, 0.66, 0.71, 0.28, 1.81, 0.43, -0.66,
                0.05, -1.93, 0.9, 0.78])], vec![f16s(&[1, 2, 1, 1], &[0.3823, 0.2632])], EXACT),
        ]
    }
}
