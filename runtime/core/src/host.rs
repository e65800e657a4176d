//! Plans of host kernels, run in this process's memory.

use crate::executor::no_port;
use crate::plan::{PlanOutput, Schedule, StepFact, Tail, ValueSlot};
use crate::{Error, ErrorKind, Kernel, Profile, Result, Run};
use saltica_tensor::{Arena, Slot, View, ViewMut, Workspace};
use std::time::Instant;

/// A schedule of host kernels with its arena.
pub(crate) struct HostRun {
    workspace: Workspace,
    kernels: Vec<Box<dyn Kernel>>,
    facts: Vec<StepFact>,
    inputs: Vec<Slot>,
    outputs: Vec<PlanOutput>,
    tail: Tail,
    values: Vec<ValueSlot>,
}

impl HostRun {
    /// Allocates the arena (the only allocation of its life) and fixes every address.
    pub(crate) fn new(schedule: Schedule<Box<dyn Kernel>>) -> Result<HostRun> {
        let facts = StepFact::of(&schedule);
        let Schedule { steps, inputs, outputs, tail, values, report } = schedule;
        let arena = Arena::new(report.arena_bytes + report.scratch_bytes)?;
        let (ios, kernels): (Vec<_>, Vec<_>) = steps.into_iter().map(|s| (s.io, s.kernel)).unzip();
        Ok(HostRun { workspace: Workspace::new(arena, ios)?, kernels, facts, inputs, outputs, tail, values })
    }

    fn step(&mut self, i: usize) -> Result<()> {
        let kernel = &self.kernels[i];
        self.workspace
            .step(i, |io| kernel.run(io))
            .unwrap_or_else(|| Err(Error::new(ErrorKind::Internal, format!("step {i} is missing"))))
    }

    fn run_tail(&mut self) -> Result<()> {
        let arena = self.workspace.arena();
        self.tail.run(|slot| Ok(arena.view(slot)?.to_tensor()?))
    }
}

impl Run for HostRun {
    fn input_mut(&mut self, i: usize) -> Result<ViewMut<'_>> {
        let slot = self.inputs.get(i).ok_or_else(|| no_port("input", i, self.inputs.len()))?;
        Ok(self.workspace.arena_mut().view_mut(slot)?)
    }

    fn output(&self, i: usize) -> Result<View<'_>> {
        match self.outputs.get(i).ok_or_else(|| no_port("output", i, self.outputs.len()))? {
            PlanOutput::Arena(slot) => Ok(self.workspace.arena().view(slot)?),
            PlanOutput::Tail(id) => self.tail.value(*id),
        }
    }

    fn run(&mut self) -> Result<()> {
        for i in 0..self.kernels.len() {
            self.step(i)?;
        }
        self.run_tail()
    }

    fn run_profiled(&mut self, profile: &mut Profile) -> Result<()> {
        profile.begin(&self.facts);
        for i in 0..self.kernels.len() {
            let start = Instant::now();
            self.step(i)?;
            profile.add(i, start.elapsed());
        }
        self.run_tail()
    }

    fn run_observed(&mut self, see: &mut dyn FnMut(&str, &View<'_>) -> Result<()>) -> Result<()> {
        for ready in 0..=self.kernels.len() {
            if ready > 0 {
                self.step(ready - 1)?;
            }
            for value in self.values.iter().filter(|v| v.ready == ready) {
                see(&value.name, &self.workspace.arena().view(&value.slot)?)?;
            }
        }
        self.run_tail()?;
        self.tail.made().try_for_each(|(name, tensor)| see(name, &tensor.view()))
    }
}
