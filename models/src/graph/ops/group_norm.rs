use super::elementwise::floats;
use super::layer_norm::moments;
use super::literal::*;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{Element, MAX_RANK, Shape, View, ViewMut};

/// Normalisation over groups of channels and all pixels, `GroupNormalization` and (one channel a group)
/// `InstanceNormalization`.
///
/// Inputs: x `[N,C,...]`, scale, bias; one of each per channel, before opset 21 of GroupNormalization one per group. Floats,
/// computed in f64 and rounded once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupNorm {
    /// Count of groups; None: as many as channels.
    pub groups: Option<usize>,
    /// Whether scale and bias are per group.
    pub per_group: bool,
    /// Added to the variance.
    pub epsilon: f32,
}

impl GroupNorm {
    fn apply<T: Element>(
        &self,
        x: &View<'_>,
        scale: &View<'_>,
        bias: &View<'_>,
        y: &mut ViewMut<'_>,
    ) -> Result<()> {
        let rank = x.shape().rank();
        let (n, c) = (x.shape()[0], x.shape()[1]);
        let groups = self.groups.unwrap_or(c).max(1);
        let size = c / groups;
        let pixels = Shape::new(&x.shape()[2..])?;
        for (n, g) in (0..n).flat_map(|n| (0..groups).map(move |g| (n, g))) {
            let places = (0..size).flat_map(|i| {
                pixels.indices().map(move |p| {
                    let mut at = [0; MAX_RANK];
                    (at[0], at[1]) = (n, g * size + i);
                    at[2..rank].copy_from_slice(&p[..rank - 2]);
                    at
                })
            });
            let (mean, inverse) =
                moments(places.clone().map(|at| x.get::<T>(&at).to_f64()), self.epsilon as f64);
            for at in places {
                let p = [if self.per_group { g } else { at[1] }];
                let v = (x.get::<T>(&at).to_f64() - mean) * inverse * scale.get_f64(&p) + bias.get_f64(&p);
                y.set(&at, T::from_f64(v));
            }
        }
        Ok(())
    }
}

impl Operator for GroupNorm {
    fn parse(node: &NodeInfo) -> Result<Self> {
        let epsilon = node.float("epsilon")?.unwrap_or(1e-5);
        if node.op_type == "InstanceNormalization" {
            return Ok(GroupNorm { groups: None, per_group: false, epsilon });
        }
        node.ignore("stash_type");
        let groups = node.int("num_groups")?.unwrap_or(0);
        if !(1..=1 << 24).contains(&groups) {
            return Err(Error::unsupported(format!("num_groups is {groups}, a positive number expected")));
        }
        Ok(GroupNorm { groups: Some(groups as usize), per_group: node.opset < 21, epsilon })
    }

    fn name(&self) -> &str {
        if self.groups.is_some() { "GroupNormalization" } else { "InstanceNormalization" }
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        if x.shape.rank() < 2 || !x.dtype.is_float() {
            return Err(Error::shape(format!("x is {} {}, floats [N,C,...] expected", x.dtype, x.shape)));
        }
        let groups = self.groups.unwrap_or(x.shape[1]);
        if groups == 0 || !x.shape[1].is_multiple_of(groups) {
            return Err(Error::shape(format!("{} channels do not fit {groups} groups", x.shape[1])));
        }
        let want = if self.per_group { groups } else { x.shape[1] };
        for (i, what) in [(1, "scale"), (2, "bias")] {
            let p = required(inputs, i, what)?;
            if p.shape.dims() != [want] || !p.dtype.is_float() {
                return Err(Error::shape(format!(
                    "{what} is {} {}, floats [{want}] expected",
                    p.dtype, p.shape
                )));
            }
        }
        Ok(vec![OutFact { dtype: x.dtype, shape: x.shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = &required(inputs, 0, "x")?;
        let (scale, bias) = (&required(inputs, 1, "scale")?, &required(inputs, 2, "bias")?);
        let y = &mut outputs[0];
        floats!(x.dtype(), T => self.apply::<T>(x, scale, bias, y), Err(Error::shape("a float input expected")))
    }

    #[rustfmt::skip] // tables of numbers
    #[allow(clippy::approx_constant)] // they only look alike
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("instance", node("InstanceNormalization", 9, 3, vec![]), vec![f32s(&[2, 2, 3, 2], &[-0.86,
                0.11, 1.92, 0.4, 0.03, 1.15, -0.75, 1.32, -1.93, -1.05, -1.29, -0.97, 1.78, -1.9, -0.81, 0.3,
                0.81, 1.1, -0.47, -1.12, 1.41, -1.51, -1.74, -1.07]), f32s(&[2], &[-0.03, 1.77]), f32s(&[2],
                &[0.92, 0.26])], vec![f32s(&[2, 2, 3, 2], &[0.96487206, 0.9318562, 0.87024933, 0.9219855,
                0.9345792, 0.8964578, 0.30972672, 3.9427137, -1.7612511, -0.21679294, -0.63800895,
                -0.07638788, 0.88187295, 0.97143096, 0.94490427, 0.91789085, 0.90547925, 0.8984217,
                0.73466027, -0.3672297, 3.9216647, -1.0283635, -1.4182632, -0.28246891])], CLOSE_NORM),
            case("instance rank 3, epsilon", node("InstanceNormalization", 17, 3, vec![float("epsilon",
                0.01)]), vec![f32s(&[1, 2, 5], &[0.08, 0.77, 0.51, -0.65, -1.63, -1.2, 1.13, 0.54, 1.19,
                -1.82]), f32s(&[2], &[1.6, -0.47]), f32s(&[2], &[1.7, 0.38])], vec![f32s(&[1, 2, 5],
                &[2.1832864, 3.4464211, 2.9704573, 0.84692633, -0.94709134, 0.82003117, -0.05777073,
                0.16450527, -0.080375105, 1.0536094])], CLOSE_NORM),
            case("group of opset 21", node("GroupNormalization", 21, 3, vec![int("num_groups", 2)]),
                vec![f32s(&[2, 4, 3], &[0.19, 1.27, 0.5, 0.7, -1.37, 0.42, -0.57, -1.7, -1.47, -0.08, -0.95,
                1.06, -1.51, -1.94, 1.99, -0.75, 0.04, -1.16, -1.16, -0.39, 1.16, -1.84, 1.35, 1.96]),
                f32s(&[4], &[0.24, -0.56, -1.06, -1.27]), f32s(&[4], &[-0.71, 1.41, -1.99, 1.14])],
                vec![f32s(&[2, 4, 3], &[-0.7380825, -0.4188282, -0.64644474, 1.123755, 2.5515313, 1.3168842,
                -2.0454924, -0.748119, -1.0121862, 0.3994819, 1.5962324, -1.1686739, -0.88695973, -0.96663797,
                -0.2384161, 1.4943106, 1.1527443, 1.6715792, -0.97277224, -1.5572987, -2.7339425, 2.9772263,
                0.07586396, -0.47894192])], CLOSE_NORM),
            case("group of opset 21, epsilon", node("GroupNormalization", 21, 3, vec![int("num_groups", 4),
                float("epsilon", 0.01)]), vec![f32s(&[1, 4, 2, 2], &[0.67, -1.92, -1.72, 0.94, 0.69, -0.75,
                1.45, -1.16, -0.29, -1.54, 0.58, -1.65, -1.28, 1.07, 0., 0.65]), f32s(&[4], &[0.94, 0.43,
                -1.21, 0.79]), f32s(&[4], &[-1.54, -0.92, -0.21, -1.54])], vec![f32s(&[1, 4, 2, 2],
                &[-0.70252645, -2.5446124, -2.4023666, -0.51049435, -0.6639626, -1.2468779, -0.35631287,
                -1.4128468, -0.7765823, 0.85152763, -1.909747, 0.99480134, -2.7682123, -0.69173825,
                -1.6371967, -1.0628529])], CLOSE_NORM),
            // As opset 21 with the parameters repeated.
            case("group of opset 18: parameters per group", node("GroupNormalization", 18, 3,
                vec![int("num_groups", 2)]), vec![f32s(&[1, 4, 3], &[-1.58, 0.61, 0.97, -0.52, -0.44, -1.17,
                0.09, 0.32, 1.73, -1.84, 1.63, 1.96]), f32s(&[2], &[-0.61, 0.9]), f32s(&[2], &[1.3, 0.6])],
                vec![f32s(&[1, 4, 3], &[2.128048, 0.64770097, 0.40435618, 1.4115329, 1.3574563, 1.8509052,
                0.21952099, 0.37625563, 1.3371072, -1.0956873, 1.2689617, 1.4938419])], CLOSE_NORM),
        ]
    }
}
