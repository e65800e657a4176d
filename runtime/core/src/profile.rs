use std::time::Duration;

/// Time spent in one step over all profiled runs.
#[derive(Clone, Debug)]
pub struct StepTime {
    /// Node name.
    pub name: String,
    /// Op name.
    pub op: String,
    /// Kernel row ([`crate::Kernel::label`]).
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
    /// Mean time of a run over its steps.
    pub fn mean(&self) -> Duration {
        let total: Duration = self.steps.iter().map(|s| s.total).sum();
        total / self.runs.max(1)
    }
}
