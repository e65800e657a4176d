use super::elementwise::{floats, memory_order, permuted, rows};
use super::literal::*;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{DType, Element, MAX_RANK, Shape, View, ViewMut};

/// exp(x - max) / sum(exp(x - max)) along an axis, or its logarithm.
///
/// [Softmax](https://onnx.ai/onnx/operators/onnx__Softmax.html) and LogSoftmax of floats. Before opset 13 the tensor is
/// taken as a matrix of the dims before the axis times the dims from it on, and rows are normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Softmax {
    /// Axis, counted from the end if negative.
    pub axis: i64,
    /// Whether all dims from the axis on are normalised together (opset < 13).
    pub flatten: bool,
    /// The logarithm of the softmax.
    pub log: bool,
}

/// Columns that are worked on together where the axis is not the innermost dim.
const TILE: usize = 64;

impl Softmax {
    /// Which dims are normalised together.
    fn mask(&self, rank: usize) -> Result<[bool; MAX_RANK]> {
        let mut mask = [false; MAX_RANK];
        if rank > 0 {
            let axis = Shape::axis(self.axis, rank)?;
            mask[axis..if self.flatten { rank } else { axis + 1 }].fill(true);
        }
        Ok(mask)
    }

    /// One line of f32 numbers that are neighbours.
    fn line(&self, x: &[f32], y: &mut [f32]) {
        let max = x.iter().fold(f32::NEG_INFINITY, |m, &v| if v > m { v } else { m });
        let mut sum = 0f64;
        for (y, &x) in y.iter_mut().zip(x) {
            *y = (x - max).exp();
            sum += *y as f64;
        }
        if self.log {
            let shift = max as f64 + sum.ln();
            y.iter_mut().zip(x).for_each(|(y, &x)| *y = (x as f64 - shift) as f32);
        } else {
            let scale = (1.0 / sum) as f32;
            y.iter_mut().for_each(|y| *y *= scale);
        }
    }

    /// Lines along `axis` for every index of the other dims, a tile of neighbouring columns at a time. None if rows of x
    /// or y are not neighbours in memory.
    fn columns(&self, x: &View<'_>, y: &mut ViewMut<'_>, axis: usize) -> Result<Option<()>> {
        let rank = x.shape().rank();
        let mut outer = [1; MAX_RANK];
        outer[..rank].copy_from_slice(x.shape());
        outer[axis] = 1;
        for index in rows(&Shape::new(&outer[..rank])?)? {
            for from in (0..x.shape()[rank - 1]).step_by(TILE) {
                let part = from..(from + TILE).min(x.shape()[rank - 1]);
                let mut max = [f32::NEG_INFINITY; TILE];
                let mut sum = [0f64; TILE];
                let mut at = index;
                for i in 0..x.shape()[axis] {
                    at[axis] = i;
                    let Some(x) = x.row::<f32>(&at) else { return Ok(None) };
                    max.iter_mut().zip(&x[part.clone()]).for_each(|(m, &v)| *m = if v > *m { v } else { *m });
                }
                for i in 0..x.shape()[axis] {
                    at[axis] = i;
                    let (Some(x), Some(y)) = (x.row::<f32>(&at), y.row_mut::<f32>(&at)) else {
                        return Ok(None);
                    };
                    let (x, y) = (&x[part.clone()], &mut y[part.clone()]);
                    for j in 0..x.len() {
                        y[j] = (x[j] - max[j]).exp();
                        sum[j] += y[j] as f64;
                    }
                }
                for i in 0..x.shape()[axis] {
                    at[axis] = i;
                    let (Some(x), Some(y)) = (x.row::<f32>(&at), y.row_mut::<f32>(&at)) else {
                        return Ok(None);
                    };
                    let (x, y) = (&x[part.clone()], &mut y[part.clone()]);
                    for j in 0..x.len() {
                        y[j] = if self.log {
                            (x[j] as f64 - (max[j] as f64 + sum[j].ln())) as f32
                        } else {
                            y[j] * (1.0 / sum[j]) as f32
                        };
                    }
                }
            }
        }
        Ok(Some(()))
    }

    /// Any dtype, any strides, any set of dims.
    fn general<T: Element>(&self, x: &View<'_>, y: &mut ViewMut<'_>, mask: &[bool]) -> Result<()> {
        let rank = x.shape().rank();
        let (mut outer, mut inner) = ([1; MAX_RANK], [1; MAX_RANK]);
        for d in 0..rank {
            if mask[d] { inner[d] = x.shape()[d] } else { outer[d] = x.shape()[d] }
        }
        let (outer, inner) = (Shape::new(&outer[..rank])?, Shape::new(&inner[..rank])?);
        let both = |a: &[usize; MAX_RANK], b: &[usize; MAX_RANK]| -> [usize; MAX_RANK] {
            std::array::from_fn(|d| a[d] + b[d])
        };
        for o in outer.indices() {
            let mut max = f64::NEG_INFINITY;
            for i in inner.indices() {
                let v = x.get::<T>(&both(&o, &i)).to_f64();
                max = if v > max { v } else { max };
            }
            let mut sum = 0f64;
            for i in inner.indices() {
                sum += (x.get::<T>(&both(&o, &i)).to_f64() - max).exp();
            }
            for i in inner.indices() {
                let at = both(&o, &i);
                let v = x.get::<T>(&at).to_f64() - max;
                y.set(&at, T::from_f64(if self.log { v - sum.ln() } else { v.exp() / sum }));
            }
        }
        Ok(())
    }
}

impl Operator for Softmax {
    fn parse(node: &NodeInfo) -> Result<Self> {
        let flatten = node.opset < 13;
        Ok(Softmax {
            axis: node.int("axis")?.unwrap_or(if flatten { 1 } else { -1 }),
            flatten,
            log: node.op_type == "LogSoftmax",
        })
    }

    fn name(&self) -> &str {
        if self.log { "LogSoftmax" } else { "Softmax" }
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        if !x.dtype.is_float() {
            return Err(Error::shape(format!("{} does not take {}", self.name(), x.dtype)));
        }
        self.mask(x.shape.rank())?;
        Ok(vec![OutFact { dtype: x.dtype, shape: x.shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = &required(inputs, 0, "x")?;
        let y = &mut outputs[0];
        let rank = x.shape().rank();
        let mask = self.mask(rank)?;
        let dims_of_x = *x.shape();
        if x.shape().elements() == 0 {
            return Ok(());
        }
        if x.dtype() == DType::F32 && rank > 0 {
            let order = memory_order(y.layout());
            let x = permuted(x, &order[..rank])?;
            let mut y = y.permuted(&order[..rank])?;
            let dims = order[..rank].iter().map(|&d| mask[d]);
            let count = dims.clone().filter(|&m| m).count();
            if dims.rev().take(count).all(|m| m)
                && let (Some(x), Some(y)) = (x.as_slice::<f32>(), y.as_mut_slice::<f32>())
            {
                let len: usize = (0..rank).filter(|&d| mask[d]).map(|d| dims_of_x[d]).product();
                for (x, y) in x.chunks_exact(len).zip(y.chunks_exact_mut(len)) {
                    self.line(x, y);
                }
                return Ok(());
            }
            let axis = order[..rank].iter().position(|&d| mask[d]).unwrap_or(0);
            if count == 1 && axis + 1 < rank && self.columns(&x, &mut y, axis)?.is_some() {
                return Ok(());
            }
        }
        floats!(x.dtype(), T => self.general::<T>(x, y, &mask), Err(Error::shape("a float input expected")))
    }

    #[rustfmt::skip] // tables of numbers
    #[allow(clippy::approx_constant)] // they only look alike
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("Softmax axis -1", node("Softmax", 13, 1, vec![int("axis", -1)]), vec![f32s(&[2, 3, 2, 2],
                &[-0.79, 3.51, 2.56, -1.63, -4.23, -3.68, -3.16, -1.96, -0.52, 4.28, -2.22, 3.99, 1.8, 3.53,
                -0.97, -4.97, 2.87, -2.55, -3.58, 2.99, 1.86, -2.88, -2.32, 4.39])], vec![f32s(&[2, 3, 2, 2],
                &[0.013386915, 0.9866131, 0.9850797, 0.014920297, 0.36586443, 0.6341356, 0.23147522,
                0.7685248, 0.00816257, 0.99183744, 0.0020052085, 0.9979948, 0.15058757, 0.84941244,
                0.98201376, 0.017986214, 0.9955923, 0.0044076326, 0.0013998356, 0.9986002, 0.99133706,
                0.008662942, 0.0012171807, 0.9987828])], CLOSE),
            case("Softmax axis 1", node("Softmax", 13, 1, vec![int("axis", 1)]), vec![f32s(&[2, 3, 2, 2],
                &[-2.31, 2.02, -3.7, 3.15, -3.82, 0.16, -4.65, 0.5, 3.47, -4.16, -2.26, 2.65, 1.08, -1.87,
                1.29, -0.45, 3.62, -2.07, 2.58, 1.36, 2.4, -1.22, 2.25, 1.98])], vec![f32s(&[2, 3, 2, 2],
                &[0.0030771121, 0.8637495, 0.1783346, 0.59623826, 0.00067976466, 0.13446215, 0.0689693,
                0.04212495, 0.9962431, 0.0017883312, 0.7526961, 0.3616368, 0.05739509, 0.26778984, 0.13803606,
                0.05414381, 0.72775084, 0.21924779, 0.50145555, 0.3308429, 0.21485406, 0.51296234, 0.36050832,
                0.6150132])], CLOSE),
            case("Softmax axis 2", node("Softmax", 13, 1, vec![int("axis", 2)]), vec![f32s(&[2, 3, 2, 2],
                &[-1.13, -4.74, 4.63, 2.14, -2.95, 2.31, -2.21, -0.31, 3.6, -0.52, -2.12, -1.95, -4.23, -2.8,
                -2.29, -3.27, -4.37, -0.34, -2.86, 2.39, 4.23, -2.27, 0.72, 0.07])], vec![f32s(&[2, 3, 2, 2],
                &[0.0031412127, 0.0010270879, 0.99685884, 0.9989729, 0.32300413, 0.93213767, 0.6769958,
                0.0678623, 0.99673104, 0.8069013, 0.0032689904, 0.19309866, 0.12564784, 0.61538374,
                0.87435216, 0.38461623, 0.1809388, 0.061226167, 0.8190612, 0.9387739, 0.9709709, 0.08786392,
                0.029029036, 0.9121361])], CLOSE),
            case("Softmax axis 3", node("Softmax", 13, 1, vec![int("axis", 3)]), vec![f32s(&[2, 3, 2, 2],
                &[-4.25, -3.75, 3.85, -0.26, 3.05, -4.33, 0.95, 3.65, 3.67, -4.94, 0.22, -1.31, 2.6, -4.27,
                -2.35, 3.13, -0.3, -0.47, 4.69, -1.8, -4.58, -1.08, -3.47, -4.18])], vec![f32s(&[2, 3, 2, 2],
                &[0.37754068, 0.62245935, 0.98385715, 0.016142912, 0.99937683, 0.0006232122, 0.06297335,
                0.9370266, 0.9998178, 0.00018224059, 0.8220063, 0.17799369, 0.99896264, 0.0010373999,
                0.004152018, 0.99584794, 0.5423979, 0.45760205, 0.9984837, 0.0015162467, 0.02931223,
                0.97068775, 0.67040116, 0.3295989])], CLOSE),
            case("Softmax axis 0", node("Softmax", 13, 1, vec![int("axis", 0)]), vec![f32s(&[2, 3, 2, 2],
                &[0.68, 4.54, 0.79, 1.47, -1.76, 0.71, 2.52, 0.89, 3.03, 0.5, -3.02, 0.83, -0.09, -3.34, 1.19,
                3.17, -3.65, 0.45, 2.34, -0.97, -2.3, -1.28, 0.42, 1.87])], vec![f32s(&[2, 3, 2, 2],
                &[0.6835209, 0.99962187, 0.40131232, 0.15446527, 0.8687555, 0.5646363, 0.5448789, 0.8652969,
                0.9951793, 0.8556969, 0.031068482, 0.26115, 0.31647912, 0.00037809, 0.59868765, 0.8455348,
                0.13124445, 0.4353637, 0.4551211, 0.13470304, 0.0048207184, 0.14430314, 0.9689315, 0.73885])],
                CLOSE),
            case("Softmax default axis", node("Softmax", 13, 1, vec![]), vec![f32s(&[2, 3], &[0.24, -1.57,
                1.27, 1.7, -1.59, -1.])], vec![f32s(&[2, 3], &[0.25222462, 0.041277595, 0.7064977, 0.9054203,
                0.03373039, 0.060849234])], CLOSE),
            case("Softmax of opset 9 takes the tensor as a matrix", node("Softmax", 9, 1, vec![]),
                vec![f32s(&[2, 3, 2], &[-1.31, 1.4, 1.64, -1.82, -0.67, -1.23, -0.12, 1.69, -1.72, -1.31,
                -0.05, 0.1])], vec![f32s(&[2, 3, 2], &[0.025829457, 0.38819796, 0.4934963, 0.015510471,
                0.048985064, 0.027980713, 0.100652725, 0.6150332, 0.020321434, 0.0306207, 0.10795088,
                0.12542102])], CLOSE),
            case("Softmax of opset 12, axis 2", node("Softmax", 12, 1, vec![int("axis", 2)]), vec![f32s(&[2,
                2, 3], &[0.98, -0.25, -1.44, -0.59, 1.93, 1., -1.53, 1.23, -0.76, 1.13, -1.95, 1.49])],
                vec![f32s(&[2, 2, 3], &[0.72400063, 0.21162, 0.064379305, 0.0545484, 0.67796004, 0.26749167,
                0.052743703, 0.83334225, 0.11391408, 0.4033415, 0.018537275, 0.57812124])], CLOSE),
            case("Softmax of opset 11, axis 0", node("Softmax", 11, 1, vec![int("axis", 0)]), vec![f32s(&[2,
                3], &[-1.35, -0.18, 0.65, 0.03, -1.34, -1.44])], vec![f32s(&[2, 3], &[0.057110447, 0.18400945,
                0.4219923, 0.22700842, 0.057684418, 0.052195013])], CLOSE),
            case("Softmax of large numbers", node("Softmax", 13, 1, vec![]), vec![f32s(&[2, 3], &[1000.,
                1001., -1000., -10000., -10000., -10000.])], vec![f32s(&[2, 3], &[0.26894143, 0.7310586, 0.,
                0.33333334, 0.33333334, 0.33333334])], CLOSE),
            case("Softmax no elements", node("Softmax", 13, 1, vec![]), vec![f32s(&[0, 3], &[])],
                vec![f32s(&[0, 3], &[])], CLOSE),
            case("Softmax along one element", node("Softmax", 13, 1, vec![]), vec![f32s(&[3, 1], &[-0.86,
                -1.79, -1.13])], vec![f32s(&[3, 1], &[1., 1., 1.])], CLOSE),
            // In f64, rounded once (numpy).
            case("Softmax f16", node("Softmax", 13, 1, vec![]), vec![f16s(&[2, 4], &[-1.48, -0.14, -0.57,
                0.35, -0.88, -1.86, -0.68, 1.02])], vec![f16s(&[2, 4], &[0.07385, 0.282, 0.1836, 0.4604,
                0.1078, 0.04044, 0.1316, 0.72])], CLOSE_F16),
            case("LogSoftmax axis -1", node("LogSoftmax", 13, 1, vec![int("axis", -1)]), vec![f32s(&[2, 3, 2,
                2], &[-2.44, -0.95, 2.55, -0.93, 3.87, 4.18, -1.89, 2.36, -2.47, -3.6, -0.62, 1.02, 4.36,
                -3.54, 2.12, -0.25, -3.68, 4.73, 1.96, -3.71, 4.06, -3.97, -4.07, -1.68])], vec![f32s(&[2, 3,
                2, 2], &[-1.693245, -0.20324501, -0.030342355, -3.5103424, -0.8601119, -0.55011195,
                -4.2641635, -0.014163449, -0.27992707, -1.4099269, -1.8172922, -0.17729224, -0.00037067218,
                -7.9003706, -0.089365914, -2.4593658, -8.410222, -0.00022265816, -0.0034419599, -5.673442,
                -0.0003255076, -8.030325, -2.477672, -0.087671645])], CLOSE),
            case("LogSoftmax axis 1", node("LogSoftmax", 13, 1, vec![int("axis", 1)]), vec![f32s(&[2, 3, 2,
                2], &[4.38, -4.67, 4.18, 1.12, -4.33, 0.69, -0.41, 0.64, 2.37, 1.79, 4.97, -3.43, 3.13, -0.89,
                2.83, 3.92, 4.92, -2.34, -0.47, 4.43, 4.46, -1.27, 4.4, -0.94])], vec![f32s(&[2, 3, 2, 2],
                &[-0.12588665, -6.748509, -1.167376, -0.4881815, -8.835887, -1.3885086, -5.7573757,
                -0.9681815, -2.135887, -0.28850868, -0.37737608, -5.038182, -2.3768106, -0.65150803,
                -1.7653354, -0.98321694, -0.5868106, -2.101508, -5.0653353, -0.4732172, -1.0468106, -1.031508,
                -0.19533527, -5.843217])], CLOSE),
            case("LogSoftmax axis 2", node("LogSoftmax", 13, 1, vec![int("axis", 2)]), vec![f32s(&[2, 3, 2,
                2], &[-1.25, 2.57, -0.29, -0.52, -1.14, -0.67, -3.6, -4.39, 2.54, 0.64, 1.72, 3.02, -2.7,
                -2.66, -2.22, -1.96, 2.61, -1.26, -1.77, 1.36, -3.13, -3.94, 1.97, 2.56])], vec![f32s(&[2, 3,
                2, 2], &[-1.2841775, -0.044497102, -0.32417756, -3.134497, -0.08198075, -0.023944955,
                -2.5419807, -3.7439446, -0.36494288, -2.468515, -1.1849428, -0.08851489, -0.96167487,
                -1.1031861, -0.48167485, -0.40318602, -0.012447528, -2.6902747, -4.3924475, -0.070274755,
                -5.1060786, -6.5015025, -0.006078211, -0.0015023384])], CLOSE),
            case("LogSoftmax axis 3", node("LogSoftmax", 13, 1, vec![int("axis", 3)]), vec![f32s(&[2, 3, 2,
                2], &[-2.04, 1.36, -4.66, -0.96, 0.78, -2.47, -1.52, 1.1, 0.9, -3.46, 2.07, -4.2, 4.7, -2.98,
                -2.46, -3., 4.91, -2.13, 1.05, 4.91, 4.5, -4.58, 0.21, 1.01])], vec![f32s(&[2, 3, 2, 2],
                &[-3.4328284, -0.03282844, -3.7244227, -0.024422849, -0.038041413, -3.2880414, -2.6902747,
                -0.070274755, -0.012697447, -4.3726974, -0.001890421, -6.27189, -0.00046182933, -7.680462,
                -0.45916277, -0.99916273, -0.00087568554, -7.0408754, -3.8808491, -0.020849116,
                -0.00011395759, -9.080113, -1.1711006, -0.37110063])], CLOSE),
            case("LogSoftmax axis 0", node("LogSoftmax", 13, 1, vec![int("axis", 0)]), vec![f32s(&[2, 3, 2,
                2], &[2.02, -1.64, -1.72, -4.96, -4.65, 0.5, -4.24, -2.98, -1.67, -4.3, -4.69, 4.27, -0.65,
                -2.95, 2.08, -4.91, -2.55, 4.61, 3.98, 1.36, -4.07, -1.82, -4.72, -2.81])], vec![f32s(&[2, 3,
                2, 2], &[-0.066959575, -0.23887514, -3.8221242, -0.7184597, -2.2155197, -4.1262746, -8.220268,
                -4.3529525, -0.086836115, -2.560421, -0.67825985, -0.0008413827, -2.7369597, -1.5488752,
                -0.022124259, -0.66845953, -0.11551952, -0.016274577, -0.00026913834, -0.012952246,
                -2.4868362, -0.080420986, -0.7082596, -7.0808415])], CLOSE),
            case("LogSoftmax default axis", node("LogSoftmax", 13, 1, vec![]), vec![f32s(&[2, 3], &[-1.9,
                -1.5, 0.53, -1.6, -1.38, 1.61])], vec![f32s(&[2, 3], &[-2.6283362, -2.2283363, -0.19833629,
                -3.2967684, -3.0767684, -0.08676835])], CLOSE),
            case("LogSoftmax of opset 9 takes the tensor as a matrix", node("LogSoftmax", 9, 1, vec![]),
                vec![f32s(&[2, 3, 2], &[-0.66, -0.67, -1.65, 1.18, 0.71, 0.19, 0.47, -1.6, -0.96, 0.33, 1.81,
                1.27])], vec![f32s(&[2, 3, 2], &[-2.7035842, -2.7135844, -3.6935844, -0.8635844, -1.3335843,
                -1.8535843, -2.113775, -4.183775, -3.543775, -2.253775, -0.77377504, -1.3137751])], CLOSE),
            case("LogSoftmax of opset 12, axis 2", node("LogSoftmax", 12, 1, vec![int("axis", 2)]),
                vec![f32s(&[2, 2, 3], &[0.56, 0.08, -1.94, 1.56, -1.73, -1.48, 0.77, 1.25, 1.15, -0.19, -1.29,
                -1.86])], vec![f32s(&[2, 2, 3], &[-0.5311389, -1.0111389, -3.031139, -0.08166176, -3.3716617,
                -3.1216617, -1.4056947, -0.92569464, -1.0256946, -0.4194457, -1.5194457, -2.0894458])],
                CLOSE),
            case("LogSoftmax of opset 11, axis 0", node("LogSoftmax", 11, 1, vec![int("axis", 0)]),
                vec![f32s(&[2, 3], &[1.41, 1.91, -1.02, 1.46, -0.39, -0.75])], vec![f32s(&[2, 3], &[-1.403312,
                -0.903312, -3.8333118, -1.353312, -3.203312, -3.5633118])], CLOSE),
            case("LogSoftmax of large numbers", node("LogSoftmax", 13, 1, vec![]), vec![f32s(&[2, 3], &[1000.,
                1001., -1000., -10000., -10000., -10000.])], vec![f32s(&[2, 3], &[-1.3132616, -0.31326166,
                -2001.3132, -1.0986123, -1.0986123, -1.0986123])], CLOSE),
            case("LogSoftmax no elements", node("LogSoftmax", 13, 1, vec![]), vec![f32s(&[0, 3], &[])],
                vec![f32s(&[0, 3], &[])], CLOSE),
            case("LogSoftmax along one element", node("LogSoftmax", 13, 1, vec![]), vec![f32s(&[3, 1], &[0.02,
                -1.97, -0.23])], vec![f32s(&[3, 1], &[0., 0., 0.])], CLOSE),
            // In f64, rounded once (numpy).
            case("LogSoftmax f16", node("LogSoftmax", 13, 1, vec![]), vec![f16s(&[2, 4], &[-1.2, 0.85, 0.01,
                1.48, 1.59, -0.73, -0.88, 1.76])], vec![f16s(&[2, 4], &[-3.285, -1.235, -2.074, -0.6045,
                -0.8623, -3.182, -3.332, -0.6924])], CLOSE_F16),
            case("DFL", node("Softmax", 17, 1, vec![int("axis", 1)]), vec![f32s(&[1, 16, 2, 3], &[0.03, -3.23,
                -3.63, 3.92, 0.63, -3.56, 0.09, 0.03, -0.52, 3.61, 3.59, -3., -2.79, -0.74, 2.67, 0.99, 1.84,
                0.61, -2.32, 2.54, -3.89, 1.59, -2.45, -0.23, 3.8, 0.31, -3.54, -0.57, 1.28, -3.55, -1.98,
                -3.85, 0.32, -0.95, 0.03, -1.63, 1.25, -2.62, 3.25, 3.68, -0.06, -0.28, 2.88, -1.68, 2.42,
                -1.7, 1.76, -1.33, 0.82, 3.41, -3.57, 2.46, 0.33, -0.97, -1.2, -3.44, -1.93, 0.99, -3.22,
                1.36, 3.7, 3.85, 3.11, 2.45, -2.58, 3.76, -2.38, 2.95, 3.02, 0.98, 0.17, -2.4, 0.16, -1.68,
                -2.99, -2.97, 2.41, 3.38, -2.87, -3.89, -1.89, -2.92, -2.49, 0.67, -0.62, -0.57, -2.36, 1.32,
                -1.68, -0.81, -0.29, 3.24, -2.03, 1.75, -1.53, 3.16])], vec![f32s(&[1, 16, 2, 3],
                &[0.009034623, 0.00028546312, 0.00027325976, 0.28966615, 0.026751315, 0.00026674828,
                0.009593293, 0.007436182, 0.0061267703, 0.21245472, 0.51624614, 0.00046698865, 0.00053851714,
                0.0034430486, 0.14880963, 0.015467313, 0.08971014, 0.017262729, 0.00086162455, 0.09150169,
                0.00021069733, 0.028183285, 0.0012294706, 0.007452502, 0.39192253, 0.009839034, 0.00029899387,
                0.0032502399, 0.051243242, 0.0002694291, 0.0012105375, 0.0001535633, 0.014191846,
                0.0022227142, 0.014681434, 0.0018377646, 0.030601965, 0.0005253753, 0.26577967, 0.22785947,
                0.013417821, 0.0070890393, 0.15618862, 0.0013449512, 0.11589304, 0.0010499359, 0.08281289,
                0.0024807223, 0.019906856, 0.21840642, 0.0002901573, 0.06727099, 0.019817863, 0.0035556925,
                0.0026407533, 0.0002313919, 0.00149581, 0.015467313, 0.00056926097, 0.036545195, 0.3546262,
                0.33912116, 0.23105772, 0.06660163, 0.0010795925, 0.4028442, 0.00081144704, 0.13787639,
                0.21117088, 0.015313411, 0.016887672, 0.0008509091, 0.010288887, 0.0013449512, 0.00051823206,
                0.00029485507, 0.15863149, 0.27548963, 0.000497114, 0.00014754201, 0.0015568552,
                0.00030997267, 0.0011812625, 0.0183302, 0.0047164867, 0.0040810625, 0.0009730382, 0.021514544,
                0.0026553692, 0.004172643, 0.0065604816, 0.1842618, 0.001353465, 0.033073388, 0.0030850992,
                0.2210856])], CLOSE),
            case("f64", node("Softmax", 17, 1, vec![]), vec![tensor::<f64>(&[1, 2], &[1., 2.])],
                vec![tensor::<f64>(&[1, 2], &[0.2689414213699951, 0.7310585786300049])], CLOSE),
        ]
    }
}
