//! f16 graphs for devices whose fast arithmetic is f16.

use super::Report;
use crate::Result;
use crate::graph::ops::{BinaryKind, Cast, QuantOutput, ReduceKind, Table, Unary};
use crate::graph::{Graph, Node, Op, Value, ValueId};
use saltica_tensor::{DType, Tensor};
use std::collections::{HashMap, HashSet};

/// Turns f32 values of a graph into f16 where that costs little: convolutions and matrix products, and what lies between
/// them as long as only such values come in. Graph inputs and outputs keep their dtype.
///
/// Kept in f32, since f16 has 11 bits:
/// * everything behind the last convolution or product on each way (box decoding: at 640 pixels f16 steps by half a pixel);
/// * a convolution to one channel that reads f32 (the expectation over a box side's distribution);
/// * softmax, unless matrix products alone read it (attention; kernels sum in f32);
/// * sums over many elements, normalization, exponentials and powers.
///
/// Constants that f16 cannot hold keep their reader in f32. Products are summed in f32 by every kernel, so what is lost is
/// the rounding of stored values alone. Does nothing to a graph without f32 convolutions or products.
pub fn narrow(graph: &mut Graph, report: &mut Report) -> Result<()> {
    let dtypes = dtypes(graph);
    let feeds = feeds_heavy(graph, &dtypes);
    let mut n = Narrower {
        wide: HashMap::new(),
        narrow: HashMap::new(),
        constants: HashMap::new(),
        nodes: Vec::with_capacity(graph.nodes.len()),
        products_only: products_only(graph),
        dtypes,
        made_narrow: HashSet::new(),
        casts: 0,
        graph,
    };
    let mut count = 0;
    for node in std::mem::take(&mut n.graph.nodes) {
        count += usize::from(n.node(node, &feeds)?);
    }
    for id in n.graph.outputs.clone() {
        n.wide(id)?;
    }
    report.add("f32 nodes narrowed to f16", count);
    report.add("casts between f16 and f32", n.casts);
    n.graph.nodes = n.nodes;
    Ok(())
}

struct Narrower<'g> {
    graph: &'g mut Graph,
    nodes: Vec<Node>,
    dtypes: Vec<Option<DType>>,
    /// For a value that was narrowed: the value that holds it in f32.
    wide: HashMap<ValueId, ValueId>,
    /// For an f32 value: the value that holds it in f16.
    narrow: HashMap<ValueId, ValueId>,
    constants: HashMap<ValueId, Option<ValueId>>,
    /// Values that matrix products alone read.
    products_only: Vec<bool>,
    /// Values whose node was narrowed.
    made_narrow: HashSet<ValueId>,
    casts: usize,
}

impl Narrower<'_> {
    fn is_output(&self, id: ValueId) -> bool {
        self.graph.outputs.contains(&id)
    }

    /// Whether the node that makes it was narrowed.
    fn is_narrow(&self, id: ValueId) -> bool {
        self.made_narrow.contains(&id)
    }

    /// Adds a node; whether it was narrowed.
    fn node(&mut self, mut node: Node, feeds: &[bool]) -> Result<bool> {
        let narrowed = self.takes(&node, feeds)?;
        for i in 0..node.inputs.len() {
            let Some(id) = node.inputs[i] else { continue };
            let to = if narrowed && self.dtypes[id.index()] == Some(DType::F32) && !keeps(&node.op, i) {
                self.narrowed(id)?
            } else {
                self.wide(id)?
            };
            node.inputs[i] = Some(to);
        }
        if narrowed {
            for out in node.outputs.iter_mut() {
                let Some(id) = *out else { continue };
                if self.dtypes[id.index()] != Some(DType::F32) {
                    continue;
                }
                let half = if self.is_output(id) {
                    self.add(&format!("{}.f16", self.graph.value(id).name), DType::F16)?
                } else {
                    let value = &mut self.graph.values[id.index()];
                    value.dtype = value.dtype.map(|_| DType::F16);
                    id
                };
                self.narrow.insert(id, half);
                self.made_narrow.insert(id);
                *out = Some(half);
            }
        } else {
            for id in node.outputs.iter().flatten() {
                self.wide.insert(*id, *id);
            }
        }
        self.nodes.push(node);
        Ok(narrowed)
    }

    fn takes(&mut self, node: &Node, feeds: &[bool]) -> Result<bool> {
        let is_heavy = heavy(self.graph, &self.dtypes, node);
        let between = follows(&node.op) && node.outputs.iter().flatten().any(|id| feeds[id.index()]);
        if !(is_heavy || between) {
            return Ok(false);
        }
        let mut any = is_heavy;
        for (i, id) in node.inputs.iter().enumerate() {
            let Some(id) = *id else { continue };
            if self.dtypes[id.index()] != Some(DType::F32) || keeps(&node.op, i) {
                continue;
            }
            let fits = if self.graph.value(id).constant.is_some() {
                self.constant(id)?.is_some()
            } else if self.is_narrow(id) {
                any = true;
                true
            } else {
                is_heavy && !(i == 0 && to_one_channel(self.graph, node))
            };
            if !fits {
                return Ok(false);
            }
        }
        let for_products = || node.outputs.iter().flatten().all(|id| self.products_only[id.index()]);
        Ok(any && (!matches!(node.op, Op::Softmax(_)) || for_products()))
    }

    /// The f16 form of an f32 constant; `None` if a number leaves f16's range.
    fn constant(&mut self, id: ValueId) -> Result<Option<ValueId>> {
        if let Some(known) = self.constants.get(&id) {
            return Ok(*known);
        }
        let value = self.graph.value(id);
        let made = match &value.constant {
            Some(t) if fits_f16(t) => {
                let (name, half) = (format!("{}.f16", value.name), t.cast(DType::F16)?);
                let half = self.graph.add_constant(name, half)?;
                self.dtypes.push(Some(DType::F16));
                Some(half)
            }
            _ => None,
        };
        self.constants.insert(id, made);
        Ok(made)
    }

    fn add(&mut self, name: &str, dtype: DType) -> Result<ValueId> {
        self.dtypes.push(Some(dtype));
        self.graph.add(Value { name: name.into(), dtype: Some(dtype), ..Value::default() })
    }

    fn cast(&mut self, from: ValueId, into: ValueId, to: DType) {
        let name = self.graph.value(into).name.clone();
        let op = Op::Cast(Cast { to });
        self.nodes.push(Node { name, op, inputs: vec![Some(from)], outputs: vec![Some(into)] });
        self.casts += 1;
    }

    /// The value in f32 (or in the dtype it always had).
    fn wide(&mut self, id: ValueId) -> Result<ValueId> {
        if let Some(wide) = self.wide.get(&id) {
            return Ok(*wide);
        }
        let Some(half) = self.narrow.get(&id).copied() else { return Ok(id) };
        let wide = if half == id {
            self.add(&format!("{}.f32", self.graph.value(id).name), DType::F32)?
        } else {
            id
        };
        self.cast(half, wide, DType::F32);
        self.wide.insert(id, wide);
        Ok(wide)
    }

    /// The value in f16.
    fn narrowed(&mut self, id: ValueId) -> Result<ValueId> {
        if self.graph.value(id).constant.is_some() {
            return Ok(self.constant(id)?.unwrap_or(id));
        }
        if let Some(half) = self.narrow.get(&id) {
            return Ok(*half);
        }
        let half = self.add(&format!("{}.f16", self.graph.value(id).name), DType::F16)?;
        self.cast(id, half, DType::F16);
        self.narrow.insert(id, half);
        // It was f32 and stays so for readers that want that: a graph input is made by nobody else.
        self.wide.insert(id, id);
        Ok(half)
    }
}

/// Whether every number is one of f16's, or lies between two of them.
fn fits_f16(t: &Tensor) -> bool {
    let view = t.view();
    (0..t.shape().elements()).all(|i| view.at_f64(i).abs() <= 65504.0 || view.at_f64(i).is_infinite())
}

/// Inputs that are settings, not data: they stay as they are whatever the op computes in.
fn keeps(op: &Op, input: usize) -> bool {
    matches!(op, Op::Resize(_)) && input > 0
}

/// A convolution whose one output channel is a weighted sum, as of a distribution over a box side's bins.
fn to_one_channel(graph: &Graph, node: &Node) -> bool {
    let weights = node.inputs.get(1).copied().flatten().and_then(|id| graph.value(id).constant.as_ref());
    matches!(node.op, Op::Conv(_)) && weights.is_some_and(|w| w.shape().first() == Some(&1))
}

/// Ops worth doing in f16, whatever they read: those with products to sum.
fn heavy(graph: &Graph, dtypes: &[Option<DType>], node: &Node) -> bool {
    let first = node.inputs.first().copied().flatten();
    match &node.op {
        Op::Conv(_) | Op::ConvTranspose(_) | Op::MatMul(_) | Op::Gemm(_) => first
            .is_some_and(|id| dtypes[id.index()] == Some(DType::F32) && graph.value(id).constant.is_none()),
        _ => false,
    }
}

/// Ops that may be done in f16 between heavy ones.
fn follows(op: &Op) -> bool {
    use BinaryKind::{Add, Div, Mul, Sub};
    match op {
        Op::Pool(_)
        | Op::Resize(_)
        | Op::Concat(_)
        | Op::Split(_)
        | Op::Slice(_)
        | Op::Reshape(_)
        | Op::Transpose(_)
        | Op::Squeeze(_)
        | Op::Unsqueeze(_)
        | Op::Flatten(_)
        | Op::Identity(_)
        | Op::Clip(_)
        | Op::Expand(_)
        | Op::Pad(_)
        | Op::Tile(_)
        | Op::DepthToSpace(_)
        | Op::SpaceToDepth(_)
        | Op::Gather(_)
        | Op::Softmax(_)
        | Op::GlobalPool(_) => true,
        Op::Unary(u) => {
            matches!(
                u,
                Unary::Relu
                    | Unary::Sigmoid
                    | Unary::Silu
                    | Unary::Tanh
                    | Unary::HardSwish
                    | Unary::Neg
                    | Unary::Abs
            )
        }
        Op::Binary(b) => matches!(b.kind, Add | Sub | Mul | Div),
        Op::Reduce(r) => matches!(r.kind, ReduceKind::Max | ReduceKind::Min | ReduceKind::Mean),
        _ => false,
    }
}

/// For each value: whether a heavy op reads it, or something made of it by ops that may be narrowed.
fn feeds_heavy(graph: &Graph, dtypes: &[Option<DType>]) -> Vec<bool> {
    let mut feeds = vec![false; graph.values.len()];
    for node in graph.nodes.iter().rev() {
        let is_heavy = heavy(graph, dtypes, node) && !to_one_channel(graph, node);
        let passes = follows(&node.op) && node.outputs.iter().flatten().any(|id| feeds[id.index()]);
        if is_heavy || passes {
            node.inputs.iter().flatten().for_each(|id| feeds[id.index()] = true);
        }
    }
    feeds
}

fn products_only(graph: &Graph) -> Vec<bool> {
    let mut only = vec![true; graph.values.len()];
    for node in graph.nodes.iter().filter(|n| !matches!(n.op, Op::MatMul(_))) {
        node.inputs.iter().flatten().for_each(|id| only[id.index()] = false);
    }
    graph.outputs.iter().for_each(|id| only[id.index()] = false);
    only
}

/// The dtype of each value, as far as it follows from the ops alone; `None` where it is not known.
fn dtypes(graph: &Graph) -> Vec<Option<DType>> {
    let mut dtypes: Vec<Option<DType>> = vec![None; graph.values.len()];
    for id in graph.ids() {
        let value = graph.value(id);
        dtypes[id.index()] = match &value.constant {
            Some(t) => Some(t.dtype()),
            None => value.dtype.filter(|_| graph.inputs.contains(&id)),
        };
    }
    for node in &graph.nodes {
        let of = |i: usize| node.inputs.get(i).copied().flatten().and_then(|id| dtypes[id.index()]);
        let made = match &node.op {
            op if follows(op) => of(0),
            Op::Conv(_) | Op::ConvTranspose(_) | Op::MatMul(_) | Op::Gemm(_) | Op::BatchNorm(_) => of(0),
            Op::LayerNorm(_) | Op::GroupNorm(_) | Op::Variadic(_) | Op::Reduce(_) | Op::Unary(_) => of(0),
            Op::GridSample(_) | Op::GatherElements(_) | Op::GatherNd(_) | Op::ScatterNd(_) | Op::Trilu(_) => {
                of(0)
            }
            Op::Binary(b) => {
                use BinaryKind::{Add, Div, Mul, PRelu, Pow, Sub};
                if matches!(b.kind, Add | Sub | Mul | Div | Pow | PRelu) { of(0) } else { None }
            }
            Op::Where(_) => of(1),
            Op::Cast(op) => Some(op.to),
            Op::DequantizeLinear(_) => of(1),
            Op::Lookup(op) => Some(match &op.table {
                Table::Floats(_) => DType::F32,
                Table::Bytes(bytes) => bytes.dtype(),
            }),
            Op::QuantConv(op) => Some(match op.output() {
                QuantOutput::Quantized { dtype, .. } => *dtype,
                _ => DType::F32,
            }),
            _ => None,
        };
        for (k, id) in node.outputs.iter().enumerate() {
            // Second outputs are positions (of pooling) or parts (of a split).
            let has = k == 0 || matches!(node.op, Op::Split(_));
            if let Some(id) = id.filter(|_| has) {
                dtypes[id.index()] = made;
            }
        }
    }
    dtypes
}
