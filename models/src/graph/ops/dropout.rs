use super::from_node::{Built, case, node, t};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, Result};
use saltica_tensor::{Bool, DType, View, ViewMut};

/// Dropout at inference, where nothing drops: [ONNX Dropout](https://onnx.ai/onnx/operators/onnx__Dropout.html).
///
/// Inputs: x, any float dtype; ratio (optional, without meaning here); training_mode, bool (optional, must be false).
/// Outputs: x; a mask of x's shape, all true (bool), if it is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropout {
    /// Whether the mask is asked for.
    pub mask: bool,
}

impl Operator for Dropout {
    fn parse(node: &NodeInfo) -> Result<Self> {
        node.ignore("ratio");
        node.ignore("seed");
        Ok(Dropout { mask: node.has_output(1) })
    }

    fn name(&self) -> &str {
        "Dropout"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        if let Some(training) = inputs.get(2).copied().flatten()
            && training.known("training_mode")?.get_f64(0).unwrap_or(0.0) != 0.0
        {
            return Err(Error::unsupported("training_mode is true, false expected (this is inference)"));
        }
        let mut out = vec![OutFact { dtype: x.dtype, shape: x.shape }];
        if self.mask {
            out.push(OutFact { dtype: DType::Bool, shape: x.shape });
        }
        Ok(out)
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        outputs[0].copy_from(&required(inputs, 0, "x")?);
        if let Some(mask) = outputs.get_mut(1) {
            for index in mask.shape().indices() {
                mask.set(&index, Bool::from(true));
            }
        }
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let x = [1f32, -2.0];
        let mask = [Bool::from(true); 2];
        let build = || -> Built<Vec<Case>> {
            Ok(vec![
                case(
                    "opset 10 ratio",
                    node("Dropout", 10, vec![("ratio", Attr::Float(0.5))]),
                    vec![t(&[2], &x)],
                    vec![t(&[2], &x)],
                )?,
                case(
                    "opset 13, inputs and mask",
                    node("Dropout", 13, vec![("seed", Attr::Int(1))]),
                    vec![t(&[1, 2], &x), t(&[], &[0.75f32]), t(&[], &[Bool::from(false)])],
                    vec![t(&[1, 2], &x), t(&[1, 2], &mask)],
                )?,
            ])
        };
        super::built(build)
    }
}
