//! Computing at load what depends on constants only, within bounds: a file of a few bytes must not ask for gigabytes.

use super::Report;
use super::edit::Editor;
use crate::graph::{Fact, Op, OutFact};
use crate::{Error, Result};
use saltica_tensor::{Layout, Tensor, ViewMut};

/// A folded node may be as large as this plus four times its inputs.
const NODE_BYTES: usize = 16 << 20;
/// All folded nodes of a graph together, beyond four times their inputs.
const GRAPH_BYTES: usize = 64 << 20;
/// Multiply-adds a folded node may take: reference kernels do some 10^8 of them a second.
const NODE_WORK: usize = 1 << 26;

/// Evaluates ops on constants and keeps account of what that has cost.
pub(crate) struct Folder {
    left: usize,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Folder { left: GRAPH_BYTES }
    }

    /// The outputs of `op`, or None if they are too large or too much work to compute at load.
    pub(crate) fn fold(&mut self, op: &Op, inputs: &[Option<&Tensor>]) -> Result<Option<Vec<Tensor>>> {
        let facts: Vec<_> = inputs.iter().map(|t| t.map(Fact::of)).collect();
        let out = op.infer(&facts)?;
        if !self.admits(op, inputs, &out) {
            return Ok(None);
        }
        op.evaluate(inputs).map(Some)
    }

    fn admits(&mut self, op: &Op, inputs: &[Option<&Tensor>], out: &[OutFact]) -> bool {
        let given: usize = inputs.iter().flatten().map(|t| t.bytes().len()).sum();
        let bytes = out.iter().fold(0usize, |sum, o| sum.saturating_add(o.shape.elements() * o.dtype.size()));
        let beyond = bytes.saturating_sub(given.saturating_mul(4));
        if beyond > NODE_BYTES.min(self.left) || work(op, inputs, out) > NODE_WORK {
            return false;
        }
        self.left -= beyond;
        true
    }

    /// What `Shape` and `Size` say of a value whose shape is known and whose numbers are not.
    pub(crate) fn fold_shape(&mut self, op: &Op, input: OutFact) -> Result<Option<Vec<Tensor>>> {
        let fact = Fact { dtype: input.dtype, shape: input.shape, value: None };
        let mut tensors = op
            .infer(&[Some(fact)])?
            .into_iter()
            .map(|o| Tensor::zeros(o.dtype, o.shape))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let mut outputs: Vec<ViewMut<'_>> =
            tensors.iter_mut().map(Tensor::view_mut).collect::<std::result::Result<_, _>>()?;
        // These ops read no element, so one number seen through strides of 0 stands for the whole input.
        let one = Tensor::zeros(input.dtype, saltica_tensor::Shape::scalar())?;
        let layout = Layout::strided(input.shape, &vec![0; input.shape.rank()])?;
        let view = one.view().with_layout(0, layout);
        let Some(view) = view else { return Ok(None) };
        op.run(&[Some(view)], &mut outputs)?;
        drop(outputs);
        Ok(Some(tensors))
    }
}

/// Multiply-adds of the ops that reduce over a weight; elements for the others.
fn work(op: &Op, inputs: &[Option<&Tensor>], out: &[OutFact]) -> usize {
    let elements = |t: Option<&&Tensor>| t.map_or(1, |t| t.shape().elements().max(1));
    let largest = out.iter().map(|o| o.shape.elements()).max().unwrap_or(0);
    match op.name() {
        "Conv" | "ConvTranspose" | "QuantConv" | "ConvInteger" | "QLinearConv" => {
            largest.saturating_mul(elements(inputs.get(1).and_then(Option::as_ref)))
        }
        "Gemm" | "MatMul" | "MatMulInteger" | "QLinearMatMul" | "Einsum" => {
            let depth =
                inputs.first().copied().flatten().and_then(|t| t.shape().iter().copied().max()).unwrap_or(1);
            largest.saturating_mul(depth)
        }
        _ => largest,
    }
}

/// Folds nodes whose inputs are all constants. With `keep_quantized`, constants behind `DequantizeLinear` stay as they
/// are stored.
pub(crate) fn constants(edit: &mut Editor<'_>, keep_quantized: bool, report: &mut Report) -> Result<()> {
    let mut folder = Folder::new();
    let mut folded = 0;
    for i in 0..edit.len() {
        let Some(node) = edit.node(i) else { continue };
        if keep_quantized && node.op.name() == "DequantizeLinear" {
            continue;
        }
        let known: Option<Vec<Option<&Tensor>>> = node
            .inputs
            .iter()
            .map(|id| match id {
                None => Some(None),
                Some(_) => edit.constant(*id).map(Some),
            })
            .collect();
        let Some(inputs) = known else { continue };
        let outputs = node.outputs.clone();
        let folding = folder.fold(&node.op, &inputs);
        if let Some(tensors) = folding.map_err(|e| at(&node.name, &node.op, &inputs, e))? {
            folded += 1;
            for (id, tensor) in outputs.into_iter().zip(tensors) {
                if let Some(id) = id {
                    edit.make_constant(id, tensor);
                }
            }
        }
    }
    report.add("constants folded", folded);
    Ok(())
}

fn at(name: &str, op: &Op, inputs: &[Option<&Tensor>], e: Error) -> Error {
    let facts: Vec<_> = inputs.iter().map(|t| t.map(Fact::of)).collect();
    explain(name, op, &facts, e)
}

/// The error with the node's name and the dtypes and shapes it was given.
pub(crate) fn explain(name: &str, op: &Op, inputs: &[Option<Fact<'_>>], e: Error) -> Error {
    let shown: Vec<String> = inputs
        .iter()
        .map(|f| f.map_or_else(|| "absent".to_string(), |f| format!("{} {}", f.dtype, f.shape)))
        .collect();
    Error::new(e.kind(), format!("{e} (inputs: {})", shown.join(", "))).in_node(name, op.name())
}
