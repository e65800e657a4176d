use super::from_node::{Built, case, node, t};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, Result};
use saltica_tensor::{Shape, View, ViewMut, f16};

/// Two dims: those before `axis` and those from it on, [ONNX Flatten](https://onnx.ai/onnx/operators/onnx__Flatten.html).
///
/// Inputs: x, any dtype.
#[derive(Clone, Debug, PartialEq)]
pub struct Flatten {
    /// Where to cut, from -rank to rank (inclusive).
    pub axis: i64,
}

impl Operator for Flatten {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(Flatten { axis: node.int("axis")?.unwrap_or(1) })
    }

    fn name(&self) -> &str {
        "Flatten"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let rank = x.shape.rank() as i64;
        let axis = if self.axis < 0 { self.axis.saturating_add(rank) } else { self.axis };
        if !(0..=rank).contains(&axis) {
            return Err(Error::shape(format!("axis {} is outside -{rank}..={rank}", self.axis)));
        }
        let (outer, inner) = x.shape.split_at(axis as usize);
        let shape = Shape::new(&[outer.iter().product(), inner.iter().product()])?;
        Ok(vec![OutFact { dtype: x.dtype, shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        outputs[0].copy_flat(&required(inputs, 0, "x")?);
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let n: Vec<i64> = (0..24).collect();
        let h = [f16::from_f32(0.1)];
        let flatten = |axis| node("Flatten", 13, vec![("axis", Attr::Int(axis))]);
        let build = || -> Built<Vec<Case>> {
            Ok(vec![
                case("default", node("Flatten", 9, vec![]), vec![t(&[2, 3, 4], &n)], vec![t(&[2, 12], &n)])?,
                case("axis 0", flatten(0), vec![t(&[2, 3, 4], &n)], vec![t(&[1, 24], &n)])?,
                case("axis 1", flatten(1), vec![t(&[2, 3, 4], &n)], vec![t(&[2, 12], &n)])?,
                case("axis 2", flatten(2), vec![t(&[2, 3, 4], &n)], vec![t(&[6, 4], &n)])?,
                case("axis = rank", flatten(3), vec![t(&[2, 3, 4], &n)], vec![t(&[24, 1], &n)])?,
                case("axis -1", flatten(-1), vec![t(&[2, 3, 4], &n)], vec![t(&[6, 4], &n)])?,
                case("scalar", flatten(0), vec![t(&[], &h)], vec![t(&[1, 1], &h)])?,
                case("empty", flatten(1), vec![t(&[0, 3], &[0u8; 0])], vec![t(&[0, 3], &[0u8; 0])])?,
            ])
        };
        super::built(build)
    }
}
