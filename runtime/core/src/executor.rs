use crate::plan::{PlanOutput, ValueSlot};
use crate::{Error, ErrorKind, Kernel, Plan, PlanReport, Profile, Result, StepTime};
use saltica_models::graph::{Graph, Node, OutFact, ValueId};
use saltica_tensor::{Arena, Slot, Tensor, View, ViewMut, Workspace};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A plan with its memory: fill inputs, run, read outputs. Nothing is allocated by a run, except by the dynamic tail
/// (nodes whose shapes depend on values), which a report counts.
pub struct Executor {
    workspace: Workspace,
    steps: Vec<StepInfo>,
    inputs: Vec<Slot>,
    outputs: Vec<PlanOutput>,
    tail: Vec<Node>,
    tail_inputs: Vec<(ValueId, Slot)>,
    tail_values: HashMap<ValueId, Tensor>,
    values: Vec<ValueSlot>,
    graph: Graph,
    report: PlanReport,
}

struct StepInfo {
    name: String,
    op: String,
    kernel: Box<dyn Kernel>,
    output: OutFact,
    macs: u64,
}

impl Executor {
    /// Allocates the arena (the only allocation of its life) and fixes every address.
    pub fn new(plan: Plan) -> Result<Executor> {
        let Plan { steps, inputs, outputs, tail, tail_inputs, settled, values, report } = plan;
        let arena = Arena::new(report.arena_bytes + report.scratch_bytes)?;
        let mut infos = Vec::with_capacity(steps.len());
        let mut ios = Vec::with_capacity(steps.len());
        for s in steps {
            ios.push(s.io);
            infos.push(StepInfo { name: s.name, op: s.op, kernel: s.kernel, output: s.output, macs: s.macs });
        }
        let mut graph = settled.graph;
        // The kernels and the workspace hold what they read; of the graph's constants only the tail's are still needed.
        let tail_reads: Vec<ValueId> = tail
            .iter()
            .flat_map(|n| n.inputs.iter().flatten().copied())
            .chain(graph.outputs.clone())
            .collect();
        for (i, value) in graph.values.iter_mut().enumerate() {
            if !tail_reads.iter().any(|id| id.index() == i) {
                value.constant = None;
            }
        }
        Ok(Executor {
            workspace: Workspace::new(arena, ios)?,
            steps: infos,
            inputs,
            outputs,
            tail,
            tail_inputs,
            tail_values: HashMap::new(),
            values,
            graph,
            report,
        })
    }

    /// Input `i`, contiguous, to be filled before a run (a run may overwrite it).
    pub fn input_mut(&mut self, i: usize) -> Result<ViewMut<'_>> {
        let slot = self.inputs.get(i).ok_or_else(|| no_port("input", i, self.inputs.len()))?;
        Ok(self.workspace.arena_mut().view_mut(slot)?)
    }

    /// Output `i` of the last run, contiguous.
    pub fn output(&self, i: usize) -> Result<View<'_>> {
        match self.outputs.get(i).ok_or_else(|| no_port("output", i, self.outputs.len()))? {
            PlanOutput::Arena(slot) => Ok(self.workspace.arena().view(slot)?),
            PlanOutput::Tail(id) => self
                .tail_values
                .get(id)
                .map(Tensor::view)
                .ok_or_else(|| Error::new(ErrorKind::Run, "an output was read before the first run")),
        }
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Dtype and shape of input `i`.
    pub fn input_fact(&self, i: usize) -> Option<OutFact> {
        self.inputs.get(i).map(|s| OutFact { dtype: s.dtype, shape: *s.layout.shape() })
    }

    /// Dtype and shape of output `i`; `None` if its shape depends on values.
    pub fn output_fact(&self, i: usize) -> Option<OutFact> {
        match self.outputs.get(i)? {
            PlanOutput::Arena(s) => Some(OutFact { dtype: s.dtype, shape: *s.layout.shape() }),
            PlanOutput::Tail(_) => None,
        }
    }

    /// The plan's figures.
    pub fn report(&self) -> &PlanReport {
        &self.report
    }

    /// Runs every step. Errors name the node; the arena's contents are undefined then.
    pub fn run(&mut self) -> Result<()> {
        for i in 0..self.steps.len() {
            self.step(i)?;
        }
        self.run_tail()
    }

    fn step(&mut self, i: usize) -> Result<()> {
        let kernel = &self.steps[i].kernel;
        self.workspace
            .step(i, |io| kernel.run(io))
            .unwrap_or_else(|| Err(Error::new(ErrorKind::Internal, format!("step {i} is missing"))))
    }

    /// As [`Self::run`], adding each step's time to `profile`.
    pub fn run_profiled(&mut self, profile: &mut Profile) -> Result<()> {
        if profile.steps.len() != self.steps.len() {
            profile.runs = 0;
            profile.steps = self
                .steps
                .iter()
                .map(|s| StepTime {
                    name: s.name.clone(),
                    op: s.op.clone(),
                    kernel: s.kernel.label(),
                    output: format!("{} {}", s.output.dtype, s.output.shape),
                    macs: s.macs,
                    total: Duration::ZERO,
                    min: Duration::MAX,
                })
                .collect();
        }
        profile.runs += 1;
        for i in 0..self.steps.len() {
            let start = Instant::now();
            self.step(i)?;
            let took = start.elapsed();
            let entry = &mut profile.steps[i];
            entry.total += took;
            entry.min = entry.min.min(took);
        }
        self.run_tail()
    }

    /// As [`Self::run`], handing every value to `see` (name, numbers) as soon as it is complete, before its bytes are
    /// used again.
    pub fn run_observed(&mut self, mut see: impl FnMut(&str, &View<'_>) -> Result<()>) -> Result<()> {
        for ready in 0..=self.steps.len() {
            if ready > 0 {
                self.step(ready - 1)?;
            }
            for value in self.values.iter().filter(|v| v.ready == ready) {
                see(&value.name, &self.workspace.arena().view(&value.slot)?)?;
            }
        }
        self.run_tail()?;
        for node in &self.tail {
            for id in node.outputs.iter().flatten() {
                if let Some(t) = self.tail_values.get(id) {
                    see(&self.graph.value(*id).name, &t.view())?;
                }
            }
        }
        Ok(())
    }

    fn run_tail(&mut self) -> Result<()> {
        if self.tail.is_empty() {
            return Ok(());
        }
        self.tail_values.clear();
        for (id, slot) in &self.tail_inputs {
            self.tail_values.insert(*id, self.workspace.arena().view(slot)?.to_tensor()?);
        }
        for node in &self.tail {
            let inputs: Vec<Option<&Tensor>> = node
                .inputs
                .iter()
                .map(|id| {
                    id.and_then(|id| self.tail_values.get(&id).or_else(|| self.graph.constant(Some(id))))
                })
                .collect();
            let made = node
                .op
                .evaluate(&inputs)
                .map_err(|e| Error::new(ErrorKind::Run, e.in_node(&node.name, node.op.name()).to_string()))?;
            for (id, tensor) in node.outputs.iter().zip(made) {
                if let Some(id) = id {
                    self.tail_values.insert(*id, tensor);
                }
            }
        }
        Ok(())
    }
}

fn no_port(what: &str, i: usize, of: usize) -> Error {
    Error::new(ErrorKind::Input, format!("{what} {i} was asked for, the model has {of}"))
}
