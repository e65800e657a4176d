//! Opening the batch of a file that was exported for one picture.
//!
//! Exporters write batch 1 into inputs and into the targets of Reshape. [`rebatch`] makes it the symbol `batch`, and proves
//! node by node that samples stay independent: what depends on the batch has it as dim 0, every op that reads such a value
//! works on each index of dim 0 alone, and inferring all shapes at batch 1 and at batch 2 differs in dim 0 and nowhere
//! else. What cannot be proven is an error that names the node; the graph is then unchanged.

use super::fold::{Folder, explain};
use crate::graph::ops::{Concat, ShapeOf};
use crate::graph::{Dim, Fact, Graph, Node, Op, OutFact, Value, ValueId};
use crate::{Error, ErrorKind, Result};
use saltica_tensor::{DType, Shape, Tensor};

/// The name of the dimension that [`rebatch`] opens.
pub const BATCH: &str = "batch";

/// Makes dim 0 of every input the symbol [`BATCH`], where the file says 1, and every output follow it.
///
/// A graph whose inputs all have an open dim 0 stays as it is. Errors if an input's dim 0 is another number, if other dims
/// of an input are open (bind them first), or if the samples of a batch cannot be shown to stay independent: then the
/// error names the node or the output.
pub fn rebatch(graph: &mut Graph) -> Result<()> {
    let open = |id: &ValueId| matches!(graph.value(*id).dims.as_deref(), Some([Dim::Symbol(_), ..]));
    if !graph.inputs.is_empty() && graph.inputs.iter().all(open) {
        return Ok(());
    }
    let mut work = graph.clone();
    let mut proof = Proof::new(&mut work)?;
    proof.walk()?;
    proof.outputs()?;
    *graph = work;
    Ok(())
}

/// What is known of a value at batch 1 and at batch 2.
#[derive(Clone)]
struct Known {
    facts: [OutFact; 2],
    /// The numbers, if they follow from constants and shapes.
    values: [Option<Tensor>; 2],
    /// Dim 0 is the batch. Otherwise all samples share the value.
    batched: bool,
}

impl Known {
    /// A number that depends on the batch without having it as a dim: something computed from a shape.
    fn counts_batch(&self) -> bool {
        let [a, b] = &self.values;
        !self.batched
            && (self.facts[0] != self.facts[1]
                || a.as_ref().map(Tensor::bytes) != b.as_ref().map(Tensor::bytes))
    }
}

struct Proof<'g> {
    graph: &'g mut Graph,
    known: Vec<Option<Known>>,
    folder: Folder,
}

fn unproven(node: &Node, why: impl Into<String>) -> Error {
    let why =
        format!("{}; the batch of this file cannot be opened: export it with a dynamic batch", why.into());
    Error::unsupported(why).in_node(&node.name, node.op.name())
}

impl<'g> Proof<'g> {
    fn new(graph: &'g mut Graph) -> Result<Self> {
        let mut known: Vec<Option<Known>> = Vec::with_capacity(graph.values.len());
        for value in &graph.values {
            known.push(value.constant.as_ref().map(|t| {
                let fact = OutFact { dtype: t.dtype(), shape: *t.shape() };
                Known { facts: [fact; 2], values: [Some(t.clone()), Some(t.clone())], batched: false }
            }));
        }
        for id in graph.inputs.clone() {
            let value = &mut graph.values[id.index()];
            let (Some(dtype), Some(dims)) = (value.dtype, &mut value.dims) else {
                return Err(Error::new(
                    ErrorKind::Malformed,
                    format!("the file gives no element type or no shape for input '{}'", value.name),
                ));
            };
            let mut numbers = Vec::with_capacity(dims.len());
            for (i, dim) in dims.iter().enumerate() {
                match dim {
                    Dim::Fixed(d) if i > 0 || *d == 1 => numbers.push(*d),
                    // Open already.
                    Dim::Symbol(_) if i == 0 => numbers.push(1),
                    dim => {
                        return Err(Error::shape(format!(
                            "dim {i} of input '{}' is {dim}, {} expected where the batch is to be opened",
                            value.name,
                            if i == 0 { "1" } else { "a number" }
                        )));
                    }
                }
            }
            if numbers.is_empty() {
                return Err(Error::shape(format!("input '{}' is a scalar: it has no batch", value.name)));
            }
            dims[0] = Dim::Symbol(BATCH.into());
            let one = Shape::new(&numbers)?;
            numbers[0] = 2;
            let two = Shape::new(&numbers)?;
            let facts = [one, two].map(|shape| OutFact { dtype, shape });
            known[id.index()] = Some(Known { facts, values: [None, None], batched: true });
        }
        Ok(Proof { graph, known, folder: Folder::new() })
    }

    fn walk(&mut self) -> Result<()> {
        let nodes = std::mem::take(&mut self.graph.nodes);
        let mut done = Vec::with_capacity(nodes.len());
        for mut node in nodes {
            let extra = self.open_target(&mut node)?;
            for node in extra {
                self.visit(&node)?;
                done.push(node);
            }
            self.visit(&node)?;
            done.push(node);
        }
        self.graph.nodes = done;
        Ok(())
    }

    fn at(&self, node: &Node, i: usize) -> Option<&Known> {
        node.inputs.get(i).copied().flatten().and_then(|id| self.known[id.index()].as_ref())
    }

    /// Puts the batch into the constant that says what a node's result looks like, where that says 1. The nodes made for
    /// it come before the node.
    fn open_target(&mut self, node: &mut Node) -> Result<Vec<Node>> {
        if !self.at(node, 0).is_some_and(|x| x.batched) {
            return Ok(Vec::new());
        }
        let slot = match &node.op {
            Op::Reshape(_) => 1,
            Op::Resize(op) => op.scales_input + 1,
            _ => return Ok(Vec::new()),
        };
        let Some(target) = self.graph.constant(node.inputs.get(slot).copied().flatten()) else {
            return Ok(Vec::new());
        };
        if target.dtype() != DType::I64 || target.shape().rank() != 1 {
            return Ok(Vec::new());
        }
        let mut wanted: Vec<i64> = target.as_slice::<i64>()?.to_vec();
        match (&mut node.op, wanted.first()) {
            // 0 copies the dim of x; a leading -1 follows by itself.
            (Op::Reshape(op), Some(1)) if !(op.allow_zero && wanted[1..].contains(&0)) => {
                op.allow_zero = false;
                wanted[0] = 0;
                let id = self.constant(format!("{}.{BATCH}", node.name), &wanted)?;
                node.inputs[slot] = Some(id);
                Ok(Vec::new())
            }
            (Op::Resize(_), Some(1)) => {
                // No number in the sizes stands for "as it is": the batch is read off the input.
                let dims = self.value(format!("{}.{BATCH}", node.name))?;
                let rest = self.constant(format!("{}.rest", node.name), &wanted[1..])?;
                let sizes = self.value(format!("{}.sizes", node.name))?;
                let shape = Node {
                    name: format!("{}.shape", node.name),
                    op: Op::Shape(ShapeOf { start: 0, end: Some(1) }),
                    inputs: vec![node.inputs[0]],
                    outputs: vec![Some(dims)],
                };
                let concat = Node {
                    name: format!("{}.concat", node.name),
                    op: Op::Concat(Concat { axis: 0 }),
                    inputs: vec![Some(dims), Some(rest)],
                    outputs: vec![Some(sizes)],
                };
                node.inputs[slot] = Some(sizes);
                Ok(vec![shape, concat])
            }
            _ => Ok(Vec::new()),
        }
    }

    fn value(&mut self, name: String) -> Result<ValueId> {
        self.known.push(None);
        self.graph.add(Value { name, ..Value::default() })
    }

    fn constant(&mut self, name: String, numbers: &[i64]) -> Result<ValueId> {
        let tensor = Tensor::from_slice(&[numbers.len()], numbers)?;
        let fact = OutFact { dtype: tensor.dtype(), shape: *tensor.shape() };
        self.known.push(Some(Known {
            facts: [fact; 2],
            values: [Some(tensor.clone()), Some(tensor.clone())],
            batched: false,
        }));
        self.graph.add_constant(name, tensor)
    }

    fn visit(&mut self, node: &Node) -> Result<()> {
        let mut inputs: Vec<Option<&Known>> = Vec::with_capacity(node.inputs.len());
        for id in &node.inputs {
            inputs.push(match id {
                None => None,
                Some(id) => Some(self.known[id.index()].as_ref().ok_or_else(|| {
                    unproven(node, format!("its input '{}' has no known shape", self.graph.value(*id).name))
                })?),
            });
        }
        let facts: [Vec<Option<Fact<'_>>>; 2] =
            [0, 1].map(|side| inputs.iter().map(|k| k.map(|k| fact_of(k, side))).collect());
        let infer = |side: usize| match node.op.infer(&facts[side]) {
            Err(e) if e.kind() == ErrorKind::NeedsValue => Err(unproven(node, e.to_string())),
            Err(e) if side == 1 => Err(unproven(node, format!("at batch 2: {e}"))),
            other => other.map_err(|e| explain(&node.name, &node.op, &facts[side], e)),
        };
        let out = [infer(0)?, infer(1)?];
        let reads_batch = inputs.iter().flatten().any(|k| k.batched);
        let counts_batch = inputs.iter().flatten().any(|k| k.counts_batch());

        let mut made = Vec::with_capacity(node.outputs.len());
        if matches!(node.op, Op::Shape(_) | Op::Size(_)) {
            let mut folded = [None, None];
            for (side, folded) in folded.iter_mut().enumerate() {
                if let Some(x) = inputs.first().copied().flatten() {
                    *folded = self.folder.fold_shape(&node.op, x.facts[side])?;
                }
            }
            let [Some(one), Some(two)] = folded else {
                return Err(unproven(node, "its result is not known"));
            };
            made.extend(one.into_iter().zip(two).zip(out[0].iter().zip(&out[1])).map(|((a, b), (f, g))| {
                Known { facts: [*f, *g], values: [Some(a), Some(b)], batched: false }
            }));
        } else if reads_batch {
            independent(node, &inputs, &out)?;
            for (one, two) in out[0].iter().zip(&out[1]) {
                let mut grown = one.shape.dims().to_vec();
                let follows = grown.first() == Some(&1) && {
                    grown[0] = 2;
                    grown == two.shape.dims()
                };
                if !follows {
                    return Err(unproven(
                        node,
                        format!("its result is {} at batch 1 and {} at batch 2", one.shape, two.shape),
                    ));
                }
                made.push(Known { facts: [*one, *two], values: [None, None], batched: true });
            }
        } else {
            // Shared by all samples. Folded once where nothing of it counts the batch.
            let fold = |folder: &mut Folder, side: usize| -> Result<Option<Vec<Tensor>>> {
                let known: Option<Vec<Option<&Tensor>>> = inputs
                    .iter()
                    .map(|k| match k {
                        None => Some(None),
                        Some(k) => k.values[side].as_ref().map(Some),
                    })
                    .collect();
                match known {
                    Some(known) => folder
                        .fold(&node.op, &known)
                        .map_err(|e| explain(&node.name, &node.op, &facts[side], e)),
                    None => Ok(None),
                }
            };
            let one = fold(&mut self.folder, 0)?;
            let two = if counts_batch { fold(&mut self.folder, 1)? } else { one.clone() };
            if counts_batch && two.is_none() {
                return Err(unproven(node, "it computes with the batch"));
            }
            for (i, (f, g)) in out[0].iter().zip(&out[1]).enumerate() {
                let value = |t: &Option<Vec<Tensor>>| t.as_ref().and_then(|t| t.get(i).cloned());
                made.push(Known { facts: [*f, *g], values: [value(&one), value(&two)], batched: false });
            }
        }
        for (id, known) in node.outputs.iter().zip(made) {
            if let Some(id) = id {
                self.known[id.index()] = Some(known);
            }
        }
        Ok(())
    }

    /// Every output that had a leading 1 has the batch there; no other counts it.
    fn outputs(&mut self) -> Result<()> {
        for id in self.graph.outputs.clone() {
            let name = &self.graph.value(id).name;
            let Some(known) = &self.known[id.index()] else {
                return Err(Error::unsupported(format!("output '{name}' has no known shape")));
            };
            let leads = known.facts[0].shape.first() == Some(&1);
            if known.batched != leads || known.counts_batch() {
                return Err(Error::unsupported(format!(
                    "output '{name}' is {} at batch 1 and {} at batch 2: the batch of this file cannot be opened",
                    known.facts[0].shape, known.facts[1].shape
                )));
            }
            if known.batched
                && let Some(dim) = self.graph.values[id.index()].dims.as_mut().and_then(|d| d.first_mut())
            {
                *dim = Dim::Symbol(BATCH.into());
            }
        }
        Ok(())
    }
}

fn fact_of(known: &Known, side: usize) -> Fact<'_> {
    let fact = known.facts[side];
    Fact { dtype: fact.dtype, shape: fact.shape, value: known.values[side].as_ref() }
}

/// Whether a node that reads batched values works on each index of dim 0 alone, as far as shapes do not tell.
fn independent(node: &Node, inputs: &[Option<&Known>], out: &[Vec<OutFact>; 2]) -> Result<()> {
    let batched = |i: usize| inputs.get(i).copied().flatten().is_some_and(|k| k.batched);
    let shape = |i: usize| inputs.get(i).copied().flatten().map(|k| k.facts[0].shape);
    let rank = shape(0).map_or(0, |s| s.rank());
    let out_rank = out[0].first().map_or(0, |o| o.shape.rank());
    let others = || (1..inputs.len()).any(batched);
    let first_alone = || batched(0) && !others();
    // Operands that broadcast: batched ones reach dim 0 of the result, shared ones do not or have 1 there.
    let aligned = || {
        inputs.iter().flatten().all(|k| {
            let shape = k.facts[0].shape;
            if k.batched { shape.rank() == out_rank } else { shape.rank() < out_rank || shape[0] == 1 }
        })
    };
    let beyond_batch = |axis: i64, rank: usize| Shape::axis(axis, rank).is_ok_and(|a| a > 0);
    let integers = |i: usize| -> Option<Vec<i64>> {
        let tensor = inputs.get(i).copied().flatten()?.values[0].as_ref()?;
        let view = tensor.view();
        Some((0..tensor.shape().elements()).map(|i| view.at_f64(i) as i64).collect())
    };
    // A number that follows the batch may say what the result looks like, and nothing else.
    let is_target = |i: usize| match &node.op {
        Op::Reshape(_) | Op::Expand(_) => i == 1,
        Op::Resize(op) => i == op.scales_input + 1,
        _ => false,
    };
    let counts = |(i, k): (usize, &Option<&Known>)| k.is_some_and(Known::counts_batch) && !is_target(i);
    if inputs.iter().enumerate().any(counts) {
        return Err(unproven(node, "it computes with the size of the batch"));
    }
    let ok = match &node.op {
        Op::Unary(_)
        | Op::Clip(_)
        | Op::Cast(_)
        | Op::Identity(_)
        | Op::Dropout(_)
        | Op::QuantizeLinear(_)
        | Op::DequantizeLinear(_)
        | Op::Lookup(_)
        | Op::Conv(_)
        | Op::ConvTranspose(_)
        | Op::ConvInteger(_)
        | Op::QLinearConv(_)
        | Op::Pool(_)
        | Op::GlobalPool(_)
        | Op::BatchNorm(_)
        | Op::GroupNorm(_)
        | Op::DepthToSpace(_)
        | Op::SpaceToDepth(_)
        | Op::Gemm(_)
        // Row-major order keeps dim 0 outermost; shapes tell whether it stays the batch.
        | Op::Reshape(_)
        | Op::Flatten(_)
        | Op::Squeeze(_)
        | Op::Unsqueeze(_)
        | Op::Expand(_)
        | Op::Tile(_)
        | Op::Pad(_)
        | Op::Resize(_)
        | Op::Split(_)
        | Op::Transpose(_)
        | Op::Reduce(_)
        | Op::ArgExtreme(_)
        | Op::TopK(_) => first_alone(),
        Op::Softmax(op) => first_alone() && beyond_batch(op.axis, rank),
        Op::LayerNorm(op) => first_alone() && beyond_batch(op.axis, rank),
        Op::CumSum(_) => {
            first_alone() && integers(1).is_some_and(|axis| axis.iter().all(|a| beyond_batch(*a, rank)))
        }
        Op::Slice(_) => {
            // Backwards along the batch has the same shape.
            let steps = if node.inputs.get(4).copied().flatten().is_none() { Some(Vec::new()) } else { integers(4) };
            first_alone() && steps.is_some_and(|steps| steps.iter().all(|s| *s > 0))
        }
        Op::Binary(_) | Op::Variadic(_) | Op::Where(_) => aligned(),
        Op::Concat(_) => inputs.iter().flatten().all(|k| k.batched),
        Op::MatMul(_) => {
            // A matrix alone on the right has the summed dim where a batch would be.
            let right = !batched(1) || shape(1).is_some_and(|s| s.rank() > 2);
            let left = !batched(0) || rank >= 2;
            let deep = |i: usize| {
                shape(i).is_some_and(|s| match batched(i) {
                    true => s.rank() == out_rank,
                    false => s.rank() <= 2 || s.rank() < out_rank || s[0] == 1,
                })
            };
            right && left && deep(0) && deep(1)
        }
        Op::Gather(op) => {
            (batched(0) && !batched(1) && beyond_batch(op.axis, rank))
                || (!batched(0) && batched(1) && Shape::axis(op.axis, rank).is_ok_and(|a| a == 0))
        }
        Op::GatherElements(op) => batched(0) && batched(1) && beyond_batch(op.axis, rank),
        Op::GridSample(_) => batched(0) && batched(1),
        _ => return Err(unproven(node, "it may mix the samples of a batch")),
    };
    if ok { Ok(()) } else { Err(unproven(node, "it mixes the samples of a batch")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::attrs::Attr;
    use crate::onnx::build::ModelBuilder;

    /// A model with the input x, `[1,2,4,4]`, and these constants.
    fn model(constants: &[(&str, &[i64])]) -> ModelBuilder {
        let dims = [1, 2, 4, 4].map(Dim::Fixed);
        constants
            .iter()
            .fold(ModelBuilder::new(17).input("x", DType::F32, &dims), |m, (name, numbers)| {
                m.initializer(name, &Tensor::from_slice(&[numbers.len()], numbers).unwrap())
            })
            .output("y", DType::F32)
    }

    fn noise(batch: usize, from: usize) -> Tensor {
        let data: Vec<f32> = (0..batch * 32).map(|i| ((i + from * 32) * 37 % 101) as f32 / 50.0).collect();
        Tensor::from_slice(&[batch, 2, 4, 4], &data).unwrap()
    }

    /// Opens the batch; three samples together must give what they give one by one.
    fn opens(model: ModelBuilder) {
        let original = model.graph().unwrap();
        let mut graph = original.clone();
        rebatch(&mut graph).unwrap();
        let together = graph.evaluate(&[noise(3, 0)]).unwrap();
        let alone: Vec<u8> =
            (0..3).flat_map(|i| original.evaluate(&[noise(1, i)]).unwrap()[0].bytes().to_vec()).collect();
        assert_eq!(together[0].bytes(), alone);
        assert_eq!(together[0].shape()[0], 3);
        let dims = graph.value(graph.inputs[0]).dims.as_deref();
        assert_eq!(dims.and_then(|d| d.first()), Some(&Dim::Symbol(BATCH.into())));
    }

    fn refused(model: ModelBuilder, texts: &[&str]) {
        let mut graph = model.graph().unwrap();
        let before = format!("{graph:?}");
        let message = rebatch(&mut graph).unwrap_err().to_string();
        for text in texts {
            assert!(message.contains(text), "'{text}' is not in: {message}");
        }
        assert_eq!(format!("{graph:?}"), before, "a refused graph stays as it is");
    }

    #[test]
    fn reshape_targets_follow_the_batch() {
        opens(model(&[("t", &[1, 2, -1])]).node("Reshape", &["x", "t"], &["y"], &[]));
        opens(model(&[("t", &[-1, 8, 4])]).node("Reshape", &["x", "t"], &["y"], &[]));
        let twice = model(&[("t", &[1, 2, 16])])
            .node("Reshape", &["x", "t"], &["a"], &[])
            .node("Sigmoid", &["a"], &["b"], &[])
            .node("Reshape", &["b", "t"], &["y"], &[]);
        opens(twice);
    }

    #[test]
    fn sizes_of_resize_follow_the_batch() {
        opens(model(&[("s", &[1, 2, 8, 8])]).node("Resize", &["x", "", "", "s"], &["y"], &[]));
    }

    #[test]
    fn shapes_computed_from_shapes_are_followed() {
        let m = model(&[("first", &[0]), ("rest", &[2, -1])])
            .node("Shape", &["x"], &["dims"], &[])
            .node("Gather", &["dims", "first"], &["n"], &[])
            .node("Concat", &["n", "rest"], &["t"], &[("axis", Attr::Int(0))])
            .node("Reshape", &["x", "t"], &["y"], &[]);
        opens(m);
    }

    #[test]
    fn what_mixes_samples_is_refused() {
        let softmax = |axis| model(&[]).node("Softmax", &["x"], &["y"], &[("axis", Attr::Int(axis))]);
        opens(softmax(1));
        // The same shape at any batch, but other numbers.
        refused(softmax(0), &["Softmax node", "mixes the samples", "dynamic batch"]);
        refused(softmax(-4), &["Softmax node"]);
        refused(
            model(&[("t", &[2, 16])]).node("Reshape", &["x", "t"], &["y"], &[]),
            &["Reshape node", "at batch 2"],
        );
        let axes = |axes: Vec<i64>| [("axes", Attr::Ints(axes)), ("keepdims", Attr::Int(1))];
        opens(model(&[]).node("ReduceMean", &["x"], &["y"], &axes(vec![1])));
        refused(
            model(&[]).node("ReduceMean", &["x"], &["y"], &axes(vec![0])),
            &["ReduceMean node", "1x2x4x4 at batch 1 and 1x2x4x4 at batch 2"],
        );
        let slice = |step: i64| {
            let (start, end) = if step > 0 { (0, i64::MAX) } else { (-1, i64::MIN) };
            ModelBuilder::new(17)
                .input("x", DType::F32, &[1, 2, 4, 4].map(Dim::Fixed))
                .initializer("s", &Tensor::from_slice(&[1], &[start]).unwrap())
                .initializer("e", &Tensor::from_slice(&[1], &[end]).unwrap())
                .initializer("a", &Tensor::from_slice(&[1], &[0i64]).unwrap())
                .initializer("d", &Tensor::from_slice(&[1], &[step]).unwrap())
                .node("Slice", &["x", "s", "e", "a", "d"], &["y"], &[])
                .output("y", DType::F32)
        };
        opens(slice(1));
        refused(slice(-1), &["Slice node"]);
        refused(
            model(&[]).node("DynamicQuantizeLinear", &["x"], &["q", "scale", "zero"], &[]).node(
                "DequantizeLinear",
                &["q", "scale", "zero"],
                &["y"],
                &[],
            ),
            &["DynamicQuantizeLinear node"],
        );
    }

    #[test]
    fn numbers_that_depend_on_the_batch_are_refused() {
        let m = model(&[])
            .node("Size", &["x"], &["n"], &[])
            .node("Cast", &["n"], &["f"], &[("to", Attr::Int(1))])
            .node("Div", &["x", "f"], &["y"], &[]);
        refused(m, &["Div node", "computes with the size of the batch"]);
    }

    #[test]
    fn other_batches_are_refused_and_open_ones_stay() {
        let mut open = ModelBuilder::new(17)
            .input("x", DType::F32, &["n".into(), 2.into()])
            .node("Relu", &["x"], &["y"], &[])
            .output("y", DType::F32)
            .graph()
            .unwrap();
        let before = format!("{open:?}");
        rebatch(&mut open).unwrap();
        assert_eq!(format!("{open:?}"), before);
        let four = ModelBuilder::new(17)
            .input("x", DType::F32, &[4.into(), 2.into()])
            .node("Relu", &["x"], &["y"], &[])
            .output("y", DType::F32);
        refused(four, &["dim 0 of input 'x' is 4, 1 expected"]);
    }
}
