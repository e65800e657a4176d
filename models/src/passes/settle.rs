//! Where shapes end: every value gets a concrete shape, and what that makes constant or superfluous goes.

use super::edit::Editor;
use super::fold::{Folder, explain};
use super::{Bindings, Report, cse, noop, residual};
use crate::graph::ops::Reshape;
use crate::graph::{Fact, Graph, Node, Op, OutFact};
use crate::{Error, ErrorKind, Result};
use saltica_tensor::Tensor;

/// A graph with concrete shapes.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The simplified graph. Inputs and outputs are those of the graph that was settled, in the same order.
    pub graph: Graph,
    /// Dtype and shape of each value, by [`crate::graph::ValueId::index`]; constants have theirs too. None where the shape
    /// depends on values that only a run knows (what comes after `NonZero`, say), and for values no longer in use.
    pub facts: Vec<Option<OutFact>>,
}

/// Binds the open dims, infers every value's dtype and shape, folds what became constant (shapes of known shape and
/// arithmetic on them), removes what does nothing at these shapes, and fuses residuals into convolutions.
///
/// Errors if the bindings do not fit (see [`Bindings::shapes`]) or an op's inputs do not (naming node, op and shapes).
/// A shape that depends on values is no error; see [`Settled::facts`].
pub fn settle(graph: &Graph, bindings: &Bindings, report: &mut Report) -> Result<Settled> {
    let shapes = bindings.shapes(graph)?;
    let mut graph = graph.clone();
    let mut facts: Vec<Option<OutFact>> = graph
        .values
        .iter()
        .map(|v| v.constant.as_ref().map(|t| OutFact { dtype: t.dtype(), shape: *t.shape() }))
        .collect();
    for (&id, shape) in graph.inputs.iter().zip(shapes) {
        let value = graph.value(id);
        let dtype = value.dtype.ok_or_else(|| {
            Error::new(
                ErrorKind::Malformed,
                format!("the file gives no element type for input '{}'", value.name),
            )
        })?;
        facts[id.index()] = Some(OutFact { dtype, shape });
    }
    let mut folder = Folder::new(&graph);
    let mut edit = Editor::new(&mut graph);
    walk(&mut edit, &mut folder, &mut facts, report)?;
    cse::merge(&mut edit, report);
    residual::fuse(&mut edit, &facts, report);
    edit.finish()?;
    facts.resize(graph.values.len(), None);
    let mut used = vec![false; graph.values.len()];
    let touched = graph.nodes.iter().flat_map(|n| n.inputs.iter().chain(&n.outputs).flatten());
    for id in touched.chain(&graph.inputs).chain(&graph.outputs) {
        used[id.index()] = true;
    }
    for (fact, used) in facts.iter_mut().zip(used) {
        *fact = fact.filter(|_| used);
    }
    Ok(Settled { graph, facts })
}

fn walk(
    edit: &mut Editor<'_>,
    folder: &mut Folder,
    facts: &mut Vec<Option<OutFact>>,
    report: &mut Report,
) -> Result<()> {
    let (mut folded, mut removed, mut reshaped) = (0, 0, 0);
    for i in 0..edit.len() {
        let Some(node) = edit.node(i) else { continue };
        let inputs: Option<Vec<Option<Fact<'_>>>> = node
            .inputs
            .iter()
            .map(|id| match id {
                None => Some(None),
                Some(id) => facts[id.index()].map(|f| {
                    let value = edit.value(*id).constant.as_ref();
                    Some(Fact { dtype: f.dtype, shape: f.shape, value })
                }),
            })
            .collect();
        // An input without a shape: all that follows has none either.
        let Some(inputs) = inputs else { continue };
        let out = match folder.infer(&node.op, &inputs) {
            Ok(Some(out)) => out,
            // Too much work at load: as if the values were not known.
            Ok(None) => continue,
            Err(e) if e.kind() == ErrorKind::NeedsValue => continue,
            Err(e) => return Err(explain(&node.name, &node.op, &inputs, e)),
        };
        let outputs = node.outputs.clone();
        for (id, fact) in outputs.iter().zip(&out) {
            if let Some(id) = id {
                facts[id.index()] = Some(*fact);
            }
        }
        let known: Option<Vec<_>> = inputs
            .iter()
            .map(|f| match f {
                None => Some(None),
                Some(f) => f.value.map(Some),
            })
            .collect();
        let folding = match (node.op.name(), &inputs[..], known) {
            ("Shape" | "Size", [Some(x)], _) => {
                folder.fold_shape(&node.op, OutFact { dtype: x.dtype, shape: x.shape })
            }
            (_, _, Some(known)) => folder.fold(&node.op, &known),
            _ => Ok(None),
        };
        if let Some(tensors) = folding.map_err(|e| explain(&node.name, &node.op, &inputs, e))? {
            folded += 1;
            for (id, tensor) in outputs.into_iter().zip(tensors) {
                if let Some(id) = id {
                    edit.make_constant(id, tensor);
                }
            }
        } else if let (Some(same), Some(&Some(out))) = (noop::settled(node, &inputs, &out), outputs.first())
            && edit.replace(out, same)
        {
            removed += 1;
        } else {
            reshaped += usize::from(canonical_reshape(edit, i, &out, facts)?);
        }
    }
    report.add("constants folded", folded);
    report.add("nodes without effect", removed);
    report.add("reshapes simplified", reshaped);
    Ok(())
}

/// Makes Reshape, Flatten, Squeeze and Unsqueeze one kind of node, a Reshape to these dims, and skips reshapes before it.
fn canonical_reshape(
    edit: &mut Editor<'_>,
    i: usize,
    out: &[OutFact],
    facts: &mut Vec<Option<OutFact>>,
) -> Result<bool> {
    let is_reshape = |n: &Node| matches!(n.op.name(), "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze");
    let (Some(node), &[out]) = (edit.node(i).filter(|n| is_reshape(n)), out) else { return Ok(false) };
    let Some(&Some(x)) = node.inputs.first() else { return Ok(false) };
    let mut source = x;
    while let Some(before) = edit.maker(source).filter(|(_, n)| is_reshape(n)).and_then(|(_, n)| n.inputs[0])
    {
        source = before;
    }
    if source == x && matches!(&node.op, Op::Reshape(_)) {
        return Ok(false);
    }
    let dims: Vec<i64> = out.shape.iter().map(|&d| d as i64).collect();
    let target = Tensor::from_slice(&[dims.len()], &dims)?;
    let fact = OutFact { dtype: target.dtype(), shape: *target.shape() };
    let name = format!("{}.shape", node.name);
    let target = edit.add_constant(&name, target)?;
    facts.resize(target.index() + 1, None);
    facts[target.index()] = Some(fact);
    edit.set_node(i, Op::Reshape(Reshape { allow_zero: true }), vec![Some(source), Some(target)]);
    Ok(true)
}
