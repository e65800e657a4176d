use super::from_node::{Built, case, node, t};
use super::{Case, Fact, Operator, OutFact, required};
use crate::Result;
use crate::graph::attrs::NodeInfo;
use saltica_tensor::{Bool, View, ViewMut};

/// The input as it is, [ONNX Identity](https://onnx.ai/onnx/operators/onnx__Identity.html).
#[derive(Clone, Debug, PartialEq)]
pub struct Identity;

impl Operator for Identity {
    fn parse(_: &NodeInfo) -> Result<Self> {
        Ok(Identity)
    }

    fn name(&self) -> &str {
        "Identity"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        Ok(vec![OutFact { dtype: x.dtype, shape: x.shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        outputs[0].copy_from(&required(inputs, 0, "x")?);
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let identity = || node("Identity", 13, vec![]);
        let build = || -> Built<Vec<Case>> {
            Ok(vec![
                case("i64", identity(), vec![t(&[2], &[i64::MAX, -1])], vec![t(&[2], &[i64::MAX, -1])])?,
                case("scalar", identity(), vec![t(&[], &[1.5f32])], vec![t(&[], &[1.5f32])])?,
                case("empty", identity(), vec![t::<Bool>(&[0, 3], &[])], vec![t::<Bool>(&[0, 3], &[])])?,
            ])
        };
        super::built(build)
    }
}
