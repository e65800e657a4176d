use crate::plan::StepFact;
use std::time::Duration;

/// Time spent in one step over all profiled runs.
#[derive(Clone, Debug)]
pub struct StepTime {
    /// Node name.
    pub name: String,
    /// Op name.
    pub op: String,
    /// Kernel row ([`crate::Compiled::label`]).
    pub kernel: String,
    /// First output's dtype and dims, `f32 1x16x320x320`.
    pub output: String,
    /// Multiply-adds of one run, where the op has a formula (convolutions, matrix products).
    pub macs: u64,
    /// Sum over the runs.
    pub total: Duration,
    /// Fastest run.
    pub min: Duration,
}

/// Per-step times of an executor.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Profiled runs.
    pub runs: u32,
    /// One entry a step, in execution order.
    pub steps: Vec<StepTime>,
}

impl Profile {
    /// Counts a run of these steps; times of other steps are forgotten.
    pub fn begin(&mut self, steps: &[StepFact]) {
        if self.steps.len() != steps.len() {
            self.runs = 0;
            self.steps = steps
                .iter()
                .map(|s| StepTime {
                    name: s.name.clone(),
                    op: s.op.clone(),
                    kernel: s.kernel.clone(),
                    output: format!("{} {}", s.output.dtype, s.output.shape),
                    macs: s.macs,
                    total: Duration::ZERO,
                    min: Duration::MAX,
                })
                .collect();
        }
        self.runs += 1;
    }

    /// Adds the time that step `i` took.
    pub fn add(&mut self, i: usize, took: Duration) {
        if let Some(step) = self.steps.get_mut(i) {
            step.total += took;
            step.min = step.min.min(took);
        }
    }

    /// Mean time of a run over its steps.
    pub fn mean(&self) -> Duration {
        let total: Duration = self.steps.iter().map(|s| s.total).sum();
        total / self.runs.max(1)
    }
}
