//! Running a graph with the reference kernels: slow, plain, and what everything fast is compared with.

use super::{Dim, Graph, ValueId};
use crate::{Error, Result};
use saltica_tensor::Tensor;

impl Graph {
    /// The outputs for these inputs, both in the graph's order. Errors if the inputs do not fit what the file declares, and
    /// where an op does (naming its node).
    pub fn evaluate(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        self.interpret(inputs, &mut |_, _| {})
    }

    /// [`Graph::evaluate`] that shows every value a node makes. A value is let go after its last reader.
    pub fn interpret(
        &self,
        inputs: &[Tensor],
        observe: &mut dyn FnMut(ValueId, &Tensor),
    ) -> Result<Vec<Tensor>> {
        if inputs.len() != self.inputs.len() {
            return Err(Error::shape(format!(
                "{} inputs found, {} expected",
                inputs.len(),
                self.inputs.len()
            )));
        }
        let mut values: Vec<Option<Tensor>> = self.values.iter().map(|v| v.constant.clone()).collect();
        for (&id, tensor) in self.inputs.iter().zip(inputs) {
            let declared = self.value(id);
            if let Some(dtype) = declared.dtype.filter(|d| *d != tensor.dtype()) {
                return Err(Error::shape(format!(
                    "input '{}' is {}, {dtype} expected",
                    declared.name,
                    tensor.dtype()
                )));
            }
            if let Some(dims) = &declared.dims {
                let fits = dims.len() == tensor.shape().rank()
                    && dims.iter().zip(tensor.shape().iter()).all(|(d, n)| match d {
                        Dim::Fixed(d) => d == n,
                        _ => true,
                    });
                if !fits {
                    let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
                    return Err(Error::shape(format!(
                        "input '{}' is {}, {} expected",
                        declared.name,
                        tensor.shape(),
                        dims.join("x")
                    )));
                }
            }
            values[id.index()] = Some(tensor.clone());
        }
        let mut left = self.uses();
        for node in &self.nodes {
            let mut args = Vec::with_capacity(node.inputs.len());
            for id in &node.inputs {
                args.push(match id {
                    None => None,
                    Some(id) => Some(values[id.index()].as_ref().ok_or_else(|| {
                        Error::shape(format!("value '{}' is read before it is made", self.value(*id).name))
                            .in_node(&node.name, node.op.name())
                    })?),
                });
            }
            let outputs = node.op.evaluate(&args).map_err(|e| e.in_node(&node.name, node.op.name()))?;
            for (id, tensor) in node.outputs.iter().zip(outputs) {
                if let Some(id) = id {
                    observe(*id, &tensor);
                    values[id.index()] = Some(tensor);
                }
            }
            for id in node.inputs.iter().chain(&node.outputs).flatten() {
                let left = &mut left[id.index()];
                // Made but never read counts as read once, here.
                *left = left.saturating_sub(node.inputs.contains(&Some(*id)) as usize);
                if *left == 0 {
                    values[id.index()] = None;
                }
            }
        }
        self.outputs
            .iter()
            .map(|id| {
                values[id.index()]
                    .clone()
                    .ok_or_else(|| Error::shape(format!("nothing makes output '{}'", self.value(*id).name)))
            })
            .collect()
    }
}
