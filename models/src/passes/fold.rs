//! Computing at load what depends on constants only, within bounds: a file of a few bytes must not ask for gigabytes.

use super::Report;
use super::edit::Editor;
use crate::graph::{Fact, Graph, Op, OutFact};
use crate::{Error, Result};
use saltica_tensor::{Layout, Tensor, ViewMut};

/// A folded node may be as large as this, or as four times its inputs if that is more.
const NODE_BYTES: usize = 16 << 20;
/// All folded nodes of a graph together, beyond four times the constants that the graph came with.
const GRAPH_BYTES: usize = 64 << 20;
/// Multiply-adds a folded node may take: reference kernels do some 10^8 of them a second.
const NODE_WORK: usize = 1 << 26;
/// All folded nodes of a graph together, beyond four for each byte of its constants.
const GRAPH_WORK: usize = 1 << 28;

/// Evaluates ops on constants and keeps account of what that has cost.
pub(crate) struct Folder {
    bytes_left: usize,
    work_left: usize,
}

impl Folder {
    /// A budget for a graph as it is now; results of folding are to be paid from it, so it is drawn up once.
    pub(crate) fn new(graph: &Graph) -> Self {
        let own = distinct_bytes(graph.values.iter().filter_map(|v| v.constant.as_ref())).saturating_mul(4);
        Folder { bytes_left: own.saturating_add(GRAPH_BYTES), work_left: own.saturating_add(GRAPH_WORK) }
    }

    /// What the op says of its outputs, or None if finding that out is too much work at load.
    pub(crate) fn infer(&mut self, op: &Op, inputs: &[Option<Fact<'_>>]) -> Result<Option<Vec<OutFact>>> {
        let work = inference(op, inputs);
        if work > NODE_WORK.min(self.work_left) {
            return Ok(None);
        }
        self.work_left -= work;
        op.infer(inputs).map(Some)
    }

    /// The outputs of `op`, or None if they are too large or too much work to compute at load.
    pub(crate) fn fold(&mut self, op: &Op, inputs: &[Option<&Tensor>]) -> Result<Option<Vec<Tensor>>> {
        let facts: Vec<_> = inputs.iter().map(|t| t.map(Fact::of)).collect();
        let Some(out) = self.infer(op, &facts)? else { return Ok(None) };
        if !self.admits(op, inputs, &out) {
            return Ok(None);
        }
        op.evaluate(inputs).map(Some)
    }

    fn admits(&mut self, op: &Op, inputs: &[Option<&Tensor>], out: &[OutFact]) -> bool {
        let given = distinct_bytes(inputs.iter().copied().flatten());
        let bytes = out
            .iter()
            .fold(0usize, |sum, o| sum.saturating_add(o.shape.elements().saturating_mul(o.dtype.size())));
        let work = work(op, inputs, out);
        let fits = bytes <= NODE_BYTES.max(given.saturating_mul(4)).min(self.bytes_left)
            && work <= NODE_WORK.min(self.work_left);
        if fits {
            self.bytes_left -= bytes;
            self.work_left -= work;
        }
        fits
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

/// Bytes of memory that the tensors take together: each byte counts once, however many of them show it.
fn distinct_bytes<'t>(tensors: impl Iterator<Item = &'t Tensor>) -> usize {
    let mut ranges: Vec<(usize, usize)> = tensors
        .map(|t| {
            let start = t.bytes().as_ptr() as usize;
            (start, start.saturating_add(t.bytes().len()))
        })
        .collect();
    ranges.sort_unstable();
    let mut covered = 0;
    let mut sum = 0usize;
    for (start, end) in ranges {
        sum = sum.saturating_add(end.saturating_sub(start.max(covered)));
        covered = covered.max(end);
    }
    sum
}

/// Comparisons that inference makes where an op must be run to know its outputs' shape; 0 for what looks at each element
/// once at most.
fn inference(op: &Op, inputs: &[Option<Fact<'_>>]) -> usize {
    let known = inputs.iter().flatten().all(|f| f.value.is_some());
    match (op, inputs) {
        (Op::NonMaxSuppression(_), [_, Some(scores), ..]) if known => {
            let boxes = scores.shape.iter().last().copied().unwrap_or(1);
            scores.shape.elements().saturating_mul(boxes)
        }
        _ => 0,
    }
}

/// Multiply-adds of the ops that reduce over a weight or a window; elements read or made, if more, for the others.
fn work(op: &Op, inputs: &[Option<&Tensor>], out: &[OutFact]) -> usize {
    let elements = |i: usize| inputs.get(i).copied().flatten().map_or(1, |t| t.shape().elements().max(1));
    let made = out.iter().map(|o| o.shape.elements()).max().unwrap_or(0);
    let read = (0..inputs.len()).map(elements).max().unwrap_or(0);
    let sums = match (op, op.name()) {
        (_, "Conv" | "ConvTranspose" | "QuantConv" | "ConvInteger") => made.saturating_mul(elements(1)),
        (_, "QLinearConv") => made.saturating_mul(elements(3)),
        (_, "Gemm" | "MatMul" | "MatMulInteger" | "QLinearMatMul" | "Einsum") => {
            let depth =
                inputs.first().copied().flatten().and_then(|t| t.shape().iter().copied().max()).unwrap_or(1);
            made.saturating_mul(depth)
        }
        (Op::Pool(pool), _) => {
            made.saturating_mul(pool.window.kernel.iter().fold(1usize, |n, &k| n.saturating_mul(k)))
        }
        _ => made,
    };
    sums.max(read)
}

/// Folds nodes whose inputs are all constants. With `keep_quantized`, constants behind `DequantizeLinear` stay as they
/// are stored.
pub(crate) fn constants(
    edit: &mut Editor<'_>,
    folder: &mut Folder,
    keep_quantized: bool,
    report: &mut Report,
) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use crate::graph::ops::{Concat, NonMaxSuppression, Pool, PoolKind, Unary};
    use crate::graph::{Graph, Op};
    use crate::passes::tests::{Build, window};
    use crate::passes::{Bindings, Report, optimize, settle};

    fn folded(mut graph: Graph) -> usize {
        let mut report = Report::default();
        optimize(&mut graph, &mut report).unwrap();
        report.count("constants folded")
    }

    #[test]
    fn what_repeats_its_input_is_paid_in_full() {
        let mut b = Build::new();
        // 4 MiB, then 16 and 64 of the 64 + 4 * 4 that the graph may have; 256 is too much.
        let mut x = b.constant(&[1 << 20], &vec![1f32; 1 << 20]);
        for _ in 0..5 {
            x = b.op(Op::Concat(Concat { axis: 0 }), &[x; 4]);
        }
        assert_eq!(folded(b.output(&[x])), 2);
        let mut b = Build::new();
        // An input that is read five times allows for no more than one read once: 20 MiB from 4.
        let x = b.constant(&[1 << 20], &vec![1f32; 1 << 20]);
        let x = b.op(Op::Concat(Concat { axis: 0 }), &[x; 5]);
        assert_eq!(folded(b.output(&[x])), 0);
    }

    #[test]
    fn a_chain_of_results_is_paid_in_full() {
        let mut b = Build::new();
        // 4 MiB a node, and 80 MiB for all.
        let mut x = b.constant(&[1 << 20], &vec![1f32; 1 << 20]);
        for _ in 0..40 {
            x = b.op(Op::Unary(Unary::Neg), &[x]);
        }
        assert_eq!(folded(b.output(&[x])), 20);
    }

    #[test]
    fn pooling_windows_are_work() {
        let pooled = |kernel: usize| {
            let mut b = Build::new();
            let x = b.constant(&[1, 1, 512, 512], &vec![1f32; 512 * 512]);
            let pool = Pool { kind: PoolKind::Max, window: window(kernel, 1) };
            let y = b.op(Op::Pool(pool), &[x]);
            folded(b.output(&[y]))
        };
        // 512 * 512 * 17 * 17 is beyond 2^26.
        assert_eq!((pooled(3), pooled(17)), (1, 0));
    }

    #[test]
    fn many_boxes_are_not_compared_at_load() {
        let selected = |n: usize| {
            let mut b = Build::new();
            // Boxes side by side, none of which suppresses another: every pair is compared.
            let corners: Vec<f32> = (0..n).map(|i| i as f32).flat_map(|i| [i, 0.0, i + 0.5, 1.0]).collect();
            let boxes = b.constant(&[1, n, 4], &corners);
            let scores = b.constant(&[1, 1, n], &vec![0.5f32; n]);
            let most = b.constant(&[1], &[n as i64]);
            let y = b.op(
                Op::NonMaxSuppression(NonMaxSuppression { center_point_box: false }),
                &[boxes, scores, most],
            );
            let mut graph = b.output(&[y]);
            let mut report = Report::default();
            optimize(&mut graph, &mut report).unwrap();
            let settled = settle(&graph, &Bindings::new(), &mut report).unwrap();
            (report.count("constants folded"), settled.facts[y.index()].map(|f| f.shape[0]))
        };
        assert_eq!(selected(6).0, 1);
        assert_eq!(selected(100_000), (0, None));
    }

    #[test]
    fn memory_that_several_tensors_show_counts_once() {
        let x = crate::passes::tests::noise(&[100], 1);
        let y = crate::passes::tests::noise(&[7], 2);
        let shared = [x.clone(), x.reshaped(saltica_tensor::Shape::new(&[10, 10]).unwrap()).unwrap(), y];
        assert_eq!(super::distinct_bytes(shared.iter()), 428);
    }
}
