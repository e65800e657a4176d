//! A plan: fixed steps over one arena, every byte known before anything is allocated.
//!
//! A [`Schedule`] is what the planner makes, with the kernels of one kind of device; a [`Plan`] is the same behind one face
//! for all devices: its figures, and how to load it.

mod loadable;
mod offsets;
mod place;
mod tail;
mod views;
mod widen;

pub use loadable::{Plan, StepFact};
pub use offsets::{Block, assign, lower_bound};
pub use tail::Tail;

use crate::{Compiled, Compiler, Error, ErrorKind, Operand, Result, StepDesc};
use place::{Place, Places};
use saltica_models::graph::ops::Identity;
use saltica_models::graph::{Node, Op, OutFact, Value, ValueId};
use saltica_models::passes::Settled;
use saltica_tensor::storage::ALIGN;
use saltica_tensor::{DType, Slot, Source, StepIo};
use std::collections::BTreeMap;

/// One step: a kernel and what it reads and writes.
pub struct Step<K> {
    /// Node name.
    pub name: String,
    /// Op name.
    pub op: String,
    /// The kernel.
    pub kernel: K,
    /// Its operands in the arena.
    pub io: StepIo,
    /// Dtype and shape of the first output.
    pub output: OutFact,
    /// Multiply-adds of one run (0 where the op has no formula).
    pub macs: u64,
}

/// The steps, their operands' places, and the bytes.
pub struct Schedule<K> {
    /// Steps in execution order.
    pub steps: Vec<Step<K>>,
    /// Place of each graph input, in the graph's order; contiguous.
    pub inputs: Vec<Slot>,
    /// Where each graph output is, in the graph's order.
    pub outputs: Vec<PlanOutput>,
    /// Nodes whose shapes depend on values, interpreted after the steps.
    pub tail: Tail,
    /// Every value that has a place, and when it is complete.
    pub values: Vec<ValueSlot>,
    /// The figures.
    pub report: PlanReport,
}

/// A value of the graph in the arena.
#[derive(Clone, Debug)]
pub struct ValueSlot {
    /// Name in the graph.
    pub name: String,
    /// Where it is.
    pub slot: Slot,
    /// Steps that must have run for it to be complete; its bytes are used again at some later step.
    pub ready: usize,
}

/// Where a graph output is.
#[derive(Clone, Debug)]
pub enum PlanOutput {
    /// In the arena; contiguous.
    Arena(Slot),
    /// Made by the dynamic tail.
    Tail(ValueId),
}

/// What a plan costs, in bytes, and what it does.
#[derive(Clone, Debug, Default)]
pub struct PlanReport {
    /// Arena without kernel scratch; inputs and outputs included.
    pub arena_bytes: usize,
    /// The largest sum of bytes of values that must live at once: no arena of ops that do
    /// not work in place can be smaller.
    pub lower_bound: usize,
    /// Kernel scratch behind the arena.
    pub scratch_bytes: usize,
    /// Packed weights held by kernels, plus constants that kernels read.
    pub weight_bytes: usize,
    /// Steps by op name.
    pub ops: BTreeMap<String, usize>,
    /// Concat inputs computed in place, and those that had to be copied.
    pub homes: usize,
    /// Concat inputs that had to be copied.
    pub copies: usize,
    /// Views that cost nothing (reshape, transpose, slice, split ...).
    pub views: usize,
    /// Nodes interpreted after the plan because their shapes depend on values.
    pub tail: usize,
    /// Multiply-adds of one run.
    pub macs: u64,
}

impl PlanReport {
    /// arena / lower bound.
    pub fn ratio(&self) -> f64 {
        self.arena_bytes as f64 / self.lower_bound.max(1) as f64
    }

    /// Everything a run occupies: weights, arena, scratch.
    pub fn total_bytes(&self) -> usize {
        self.weight_bytes.saturating_add(self.arena_bytes).saturating_add(self.scratch_bytes)
    }
}

/// An operand before offsets are known.
enum Ref {
    Absent,
    Constant(ValueId),
    Place(DType, Place),
}

/// A step before kernels and offsets.
struct Draft {
    name: String,
    op: Op,
    inputs: Vec<Ref>,
    outputs: Vec<(DType, Place)>,
    /// The logical values it reads and writes, for the lower bound.
    reads: Vec<ValueId>,
    writes: Vec<ValueId>,
}

impl<K: Compiled> Schedule<K> {
    /// Plans a settled graph for a device. Errors if it lacks a kernel.
    pub fn new(mut settled: Settled, device: &impl Compiler<Kernel = K>) -> Result<Schedule<K>> {
        name_unread_outputs(&mut settled)?;
        widen::widen(&mut settled, device);
        let Settled { graph, facts } = &settled;
        let places = place::place(
            graph,
            facts,
            &place::Rules {
                layout: &|op, inputs, output| device.layout(op, inputs, output),
                conv_input: &|fact| device.conv_input(fact),
            },
        );
        let (drafts, output_places) = draft(&settled, &places)?;
        let dynamic = |n: &Node| n.outputs.iter().flatten().any(|id| facts[id.index()].is_none());
        let tail: Vec<Node> = graph.nodes.iter().filter(|n| dynamic(n)).cloned().collect();

        // The tail reads after the last step; outputs must survive until the caller has read them.
        let end = drafts.len();
        let tail_reads: Vec<ValueId> = {
            let made: Vec<ValueId> = tail.iter().flat_map(|n| n.outputs.iter().flatten().copied()).collect();
            let mut reads: Vec<ValueId> = tail
                .iter()
                .flat_map(|n| n.inputs.iter().flatten().copied())
                .filter(|id| graph.value(*id).constant.is_none() && !made.contains(id))
                .collect();
            reads.sort_unstable();
            reads.dedup();
            reads
        };

        // Lifetimes of buffers.
        let mut life: BTreeMap<ValueId, Block> = BTreeMap::new();
        let mut touch = |place: &Place, dtype: DType, step: usize| {
            // A buffer with spare channels has them behind its last pixel, too.
            let channels = place.layout.shape().get(1).copied().unwrap_or(0);
            let spare = place.layout.pixel_stride().map_or(0, |stride| stride - channels.min(stride));
            let spare = if place.offset == 0 { spare } else { 0 };
            let bytes = (place.offset + place.layout.span() + spare) * dtype.size();
            let block = life.entry(place.root).or_insert(Block { bytes, first: step, last: step });
            block.bytes = block.bytes.max(bytes);
            block.first = block.first.min(step);
            block.last = block.last.max(step);
        };
        let fact_of = |id: ValueId| {
            facts[id.index()]
                .ok_or_else(|| internal(format!("value '{}' has no shape", graph.value(id).name)))
        };
        let place_of = |id: ValueId| {
            places.values[id.index()]
                .ok_or_else(|| internal(format!("value '{}' has no place", graph.value(id).name)))
        };
        for &id in &graph.inputs {
            touch(&place_of(id)?, fact_of(id)?.dtype, 0);
        }
        for (step, d) in drafts.iter().enumerate() {
            for r in &d.inputs {
                if let Ref::Place(dtype, place) = r {
                    touch(place, *dtype, step);
                }
            }
            for (dtype, place) in &d.outputs {
                touch(place, *dtype, step);
            }
        }
        for (place, dtype) in output_places.iter().flatten() {
            touch(place, *dtype, end);
        }
        for &id in &tail_reads {
            touch(&place_of(id)?, fact_of(id)?.dtype, end);
        }
        let roots: Vec<ValueId> = life.keys().copied().collect();
        let blocks: Vec<Block> = life.values().copied().collect();
        let (offsets, arena_bytes) = assign(&blocks);
        let offset_of: BTreeMap<ValueId, usize> = roots.into_iter().zip(offsets).collect();
        let slot = |place: &Place, dtype: DType| -> Result<Slot> {
            let base =
                offset_of.get(&place.root).ok_or_else(|| internal("a place without a buffer".into()))?;
            Ok(Slot { offset: base + place.offset * dtype.size(), dtype, layout: place.layout })
        };

        let mut report = PlanReport {
            arena_bytes,
            lower_bound: lower_bound(&logical_values(&settled, &drafts, &output_places, &tail_reads, end)),
            tail: tail.len(),
            views: (0..graph.nodes.len())
                .filter(|&n| places.free[n] && !matches!(graph.nodes[n].op, Op::Concat(_)))
                .count(),
            copies: places.copies.iter().map(Vec::len).sum(),
            ..PlanReport::default()
        };
        let concat_inputs: usize = graph
            .nodes
            .iter()
            .filter(|n| matches!(n.op, Op::Concat(_)) && !dynamic(n))
            .map(|n| n.inputs.iter().flatten().count())
            .sum();
        report.homes = concat_inputs - report.copies.min(concat_inputs);

        // Kernels.
        let mut steps = Vec::with_capacity(drafts.len());
        let mut kept_constants: BTreeMap<ValueId, usize> = BTreeMap::new();
        for d in &drafts {
            let desc = StepDesc {
                name: &d.name,
                op: &d.op,
                inputs: d
                    .inputs
                    .iter()
                    .map(|r| match r {
                        Ref::Absent => None,
                        Ref::Constant(id) => graph.value(*id).constant.as_ref().map(|t| Operand {
                            dtype: t.dtype(),
                            layout: *t.view().layout(),
                            offset: 0,
                            owned: true,
                            constant: Some(t),
                        }),
                        Ref::Place(dtype, place) => slot(place, *dtype).ok().map(|s| Operand {
                            dtype: *dtype,
                            layout: place.layout,
                            offset: s.offset,
                            owned: places.owns(place),
                            constant: None,
                        }),
                    })
                    .collect(),
                outputs: d.outputs.iter().map(|(dtype, p)| (*dtype, p.layout)).collect(),
                offsets: d
                    .outputs
                    .iter()
                    .map(|(dtype, p)| slot(p, *dtype).map(|s| s.offset))
                    .collect::<Result<_>>()?,
                owned: d.outputs.iter().map(|(_, p)| places.owns(p)).collect(),
            };
            let kernel = device.compile(&desc)?;
            let mut inputs = Vec::with_capacity(d.inputs.len());
            for (i, r) in d.inputs.iter().enumerate() {
                inputs.push(match r {
                    Ref::Constant(id) if kernel.reads(i) => match &graph.value(*id).constant {
                        Some(t) => {
                            kept_constants.insert(*id, t.bytes().len());
                            Source::Constant(t.clone())
                        }
                        None => Source::Absent,
                    },
                    Ref::Place(dtype, place) => Source::Arena(slot(place, *dtype)?),
                    _ => Source::Absent,
                });
            }
            let outputs = d.outputs.iter().map(|(dtype, p)| slot(p, *dtype)).collect::<Result<Vec<_>>>()?;
            let (dtype, place) =
                d.outputs.first().ok_or_else(|| internal(format!("'{}' has no output", d.name)))?;
            let output = OutFact { dtype: *dtype, shape: *place.layout.shape() };
            let macs = macs(&desc);
            report.macs += macs;
            report.scratch_bytes = report.scratch_bytes.max(kernel.scratch_bytes().next_multiple_of(ALIGN));
            report.weight_bytes += kernel.weight_bytes();
            *report.ops.entry(d.op.name().to_string()).or_default() += 1;
            let scratch = match kernel.scratch_bytes() {
                0 => None,
                bytes => Some((arena_bytes, bytes)),
            };
            steps.push(Step {
                name: d.name.clone(),
                op: d.op.name().to_string(),
                kernel,
                io: StepIo { inputs, outputs, scratch },
                output,
                macs,
            });
        }
        report.weight_bytes += kept_constants.values().sum::<usize>();

        let values = ready_values(graph, &drafts)
            .into_iter()
            .filter_map(|(id, ready)| {
                let (place, fact) = (places.values[id.index()]?, facts[id.index()]?);
                let slot = slot(&place, fact.dtype).ok()?;
                Some(ValueSlot { name: graph.value(id).name.clone(), slot, ready })
            })
            .collect();
        let inputs = graph
            .inputs
            .iter()
            .map(|&id| slot(&place_of(id)?, fact_of(id)?.dtype))
            .collect::<Result<Vec<_>>>()?;
        let outputs = graph
            .outputs
            .iter()
            .zip(&output_places)
            .map(|(&id, place)| match place {
                Some((place, dtype)) => slot(place, *dtype).map(PlanOutput::Arena),
                None => Ok(PlanOutput::Tail(id)),
            })
            .collect::<Result<Vec<_>>>()?;
        let tail_inputs = tail_reads
            .iter()
            .map(|&id| Ok((id, slot(&place_of(id)?, fact_of(id)?.dtype)?)))
            .collect::<Result<Vec<_>>>()?;
        let tail = Tail::new(tail, tail_inputs, settled.graph);
        Ok(Schedule { steps, inputs, outputs, tail, values, report })
    }
}

fn internal(what: String) -> Error {
    Error::new(ErrorKind::Internal, format!("planner: {what}"))
}

/// Gives a value to every output that nobody asked for but that comes before one that is: kernels write all of them.
fn name_unread_outputs(settled: &mut Settled) -> Result<()> {
    for n in 0..settled.graph.nodes.len() {
        let node = &settled.graph.nodes[n];
        let asked = node.outputs.iter().rposition(Option::is_some).map_or(0, |i| i + 1);
        if node.outputs[..asked].iter().all(Option::is_some) {
            continue;
        }
        let facts: Vec<Option<saltica_models::graph::Fact<'_>>> = node
            .inputs
            .iter()
            .map(|id| {
                let id = (*id)?;
                let fact = settled.facts[id.index()]?;
                Some(saltica_models::graph::Fact {
                    dtype: fact.dtype,
                    shape: fact.shape,
                    value: settled.graph.value(id).constant.as_ref(),
                })
            })
            .collect();
        let Ok(outs) = node.op.infer(&facts) else { continue };
        for o in 0..asked {
            if settled.graph.nodes[n].outputs[o].is_none()
                && let Some(fact) = outs.get(o)
            {
                let name = format!("{}.unread{o}", settled.graph.nodes[n].name);
                let id = settled.graph.add(Value { name, ..Value::default() })?;
                settled.facts.push(Some(*fact));
                settled.graph.nodes[n].outputs[o] = Some(id);
            }
        }
    }
    Ok(())
}

/// Steps of the static part in order, and the place of each graph output (`None`: made by the tail).
#[allow(clippy::type_complexity)]
fn draft(settled: &Settled, places: &Places) -> Result<(Vec<Draft>, Vec<Option<(Place, DType)>>)> {
    let Settled { graph, facts } = settled;
    let reference = |id: Option<ValueId>| -> Result<Ref> {
        let Some(id) = id else { return Ok(Ref::Absent) };
        if graph.value(id).constant.is_some() {
            return Ok(Ref::Constant(id));
        }
        match (facts[id.index()], places.values[id.index()]) {
            (Some(fact), Some(place)) => Ok(Ref::Place(fact.dtype, place)),
            _ => Err(internal(format!("value '{}' has no place", graph.value(id).name))),
        }
    };
    let copy = |name: String, id: ValueId, to: Place, target: ValueId| -> Result<Draft> {
        let dtype = facts[id.index()].ok_or_else(|| internal("copy of a value without shape".into()))?.dtype;
        Ok(Draft {
            name,
            op: Op::Identity(Identity),
            inputs: vec![reference(Some(id))?],
            outputs: vec![(dtype, to)],
            reads: vec![id],
            writes: vec![target],
        })
    };
    let mut drafts = Vec::new();
    for (n, node) in graph.nodes.iter().enumerate() {
        if node.outputs.iter().flatten().any(|id| facts[id.index()].is_none()) {
            continue;
        }
        if let (Op::Concat(_), Some(Some(out))) = (&node.op, node.outputs.first()) {
            for (i, place) in &places.copies[n] {
                if let Some(id) = node.inputs[*i] {
                    drafts.push(copy(format!("{} (input {i})", node.name), id, *place, *out)?);
                }
            }
        }
        if places.free[n] {
            continue;
        }
        let mut outputs = Vec::new();
        for id in node.outputs.iter().flatten() {
            let Ref::Place(dtype, place) = reference(Some(*id))? else { continue };
            outputs.push((dtype, place));
        }
        drafts.push(Draft {
            name: node.name.clone(),
            op: node.op.clone(),
            inputs: node.inputs.iter().map(|id| reference(*id)).collect::<Result<_>>()?,
            outputs,
            reads: node.inputs.iter().flatten().copied().collect(),
            writes: node.outputs.iter().flatten().copied().collect(),
        });
    }
    // The caller reads outputs as contiguous tensors of their own.
    let mut output_places: Vec<Option<(Place, DType)>> = Vec::new();
    for (k, &id) in graph.outputs.iter().enumerate() {
        let Some(fact) = facts[id.index()] else {
            output_places.push(None);
            continue;
        };
        let place = places.values[id.index()];
        let direct = place.filter(|p| p.layout.is_contiguous() && !graph.inputs.contains(&p.root));
        let place = match direct {
            Some(place) => place,
            None => {
                let root = ValueId::virtual_output(graph.values.len(), k)?;
                let place = Place { root, offset: 0, layout: saltica_tensor::Layout::contiguous(fact.shape) };
                drafts.push(copy(format!("output {}", graph.value(id).name), id, place, root)?);
                place
            }
        };
        output_places.push(Some((place, fact.dtype)));
    }
    Ok((drafts, output_places))
}

/// The values as they would live if each had its own bytes and views had none: what the lower bound is made of.
fn logical_values(
    settled: &Settled,
    drafts: &[Draft],
    output_places: &[Option<(Place, DType)>],
    tail_reads: &[ValueId],
    end: usize,
) -> Vec<Block> {
    let Settled { graph, facts } = settled;
    // A view's or a concat's readers read the values it is made of.
    let mut made_of: BTreeMap<ValueId, Vec<ValueId>> = BTreeMap::new();
    let written: std::collections::BTreeSet<ValueId> =
        drafts.iter().flat_map(|d| d.writes.iter().copied()).collect();
    for node in &graph.nodes {
        for id in node.outputs.iter().flatten() {
            if written.contains(id) && !matches!(node.op, Op::Concat(_)) {
                continue;
            }
            let sources = if matches!(node.op, Op::Concat(_)) {
                &node.inputs[..]
            } else {
                &node.inputs[..1.min(node.inputs.len())]
            };
            let mut base: Vec<ValueId> = Vec::new();
            for s in sources.iter().flatten() {
                match made_of.get(s) {
                    Some(of) => base.extend(of),
                    None => base.push(*s),
                }
            }
            base.sort_unstable();
            base.dedup();
            made_of.insert(*id, base);
        }
    }
    let mut life: BTreeMap<ValueId, Block> = BTreeMap::new();
    let mut touch = |id: ValueId, step: usize| {
        let one = [id];
        let base = made_of.get(&id).map_or(&one[..], Vec::as_slice);
        for &b in base {
            let Some(Some(fact)) = facts.get(b.index()) else { continue };
            if graph.values.get(b.index()).is_none_or(|v| v.constant.is_some()) {
                continue;
            }
            let bytes = fact.shape.elements() * fact.dtype.size();
            let block = life.entry(b).or_insert(Block { bytes, first: step, last: step });
            block.first = block.first.min(step);
            block.last = block.last.max(step);
        }
    };
    for &id in &graph.inputs {
        touch(id, 0);
    }
    for (step, d) in drafts.iter().enumerate() {
        for &id in d.reads.iter().chain(&d.writes) {
            touch(id, step);
        }
    }
    for &id in tail_reads {
        touch(id, end);
    }
    let mut blocks: Vec<Block> = Vec::new();
    for (&id, place) in graph.outputs.iter().zip(output_places) {
        let Some((place, dtype)) = place else { continue };
        if place.root.index() < graph.values.len() {
            touch(id, end);
        } else if let Some(step) =
            drafts.iter().position(|d| d.outputs.iter().any(|(_, p)| p.root == place.root))
        {
            blocks.push(Block { bytes: place.layout.span() * dtype.size(), first: step, last: end });
        }
    }
    blocks.extend(life.into_values());
    blocks
}

/// Each static value and the number of steps after which it is complete, in the graph's order.
fn ready_values(graph: &saltica_models::graph::Graph, drafts: &[Draft]) -> Vec<(ValueId, usize)> {
    let mut ready: BTreeMap<ValueId, usize> = graph.inputs.iter().map(|&id| (id, 0)).collect();
    for (step, d) in drafts.iter().enumerate() {
        for id in &d.writes {
            ready.insert(*id, step + 1);
        }
    }
    let mut order: Vec<(ValueId, usize)> = graph.inputs.iter().map(|&id| (id, 0)).collect();
    for node in &graph.nodes {
        let inputs = node.inputs.iter().flatten().filter_map(|id| ready.get(id)).max().copied().unwrap_or(0);
        for id in node.outputs.iter().flatten() {
            let at = *ready.entry(*id).and_modify(|r| *r = (*r).max(inputs)).or_insert(inputs);
            order.push((*id, at));
        }
    }
    order
}

/// Multiply-adds of a step, where the op has a formula.
fn macs(step: &StepDesc<'_>) -> u64 {
    let dims = |i: usize| step.inputs.get(i).and_then(|o| o.as_ref()).map(|o| *o.layout.shape());
    let out = step.outputs.first().map_or(0, |(_, l)| l.shape().elements());
    let per_output = match step.op {
        Op::Conv(_) | Op::QuantConv(_) | Op::ConvInteger(_) => {
            dims(1).map(|w| w.iter().skip(1).product::<usize>())
        }
        Op::QLinearConv(_) => dims(3).map(|w| w.iter().skip(1).product::<usize>()),
        Op::MatMul(_) => dims(0).and_then(|a| a.last().copied()),
        Op::Gemm(op) => dims(0).and_then(|a| if op.trans_a { a.first() } else { a.last() }.copied()),
        _ => None,
    };
    (out as u64) * per_output.unwrap_or(0) as u64
}
