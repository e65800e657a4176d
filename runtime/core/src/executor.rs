use crate::{Error, ErrorKind, Plan, PlanReport, Profile, Result};
use saltica_models::graph::OutFact;
use saltica_tensor::{View, ViewMut};
use std::time::Duration;

/// A plan that is loaded on a device: what each device provides. [`Executor`] is how it is used.
pub trait Run: Send {
    /// See [`Executor::input_mut`].
    fn input_mut(&mut self, i: usize) -> Result<ViewMut<'_>>;

    /// See [`Executor::output`].
    fn output(&self, i: usize) -> Result<View<'_>>;

    /// See [`Executor::run`].
    fn run(&mut self) -> Result<()>;

    /// See [`Executor::run_profiled`].
    fn run_profiled(&mut self, profile: &mut Profile) -> Result<()>;

    /// See [`Executor::run_observed`].
    fn run_observed(&mut self, see: &mut dyn FnMut(&str, &View<'_>) -> Result<()>) -> Result<()>;

    /// See [`Executor::device_time`].
    fn device_time(&mut self, _runs: usize) -> Result<Option<Vec<Duration>>> {
        Ok(None)
    }
}

/// A plan with its memory: fill inputs, run, read outputs. Nothing is allocated by a run, except by the dynamic tail
/// (nodes whose shapes depend on values), which a report counts.
pub struct Executor {
    run: Box<dyn Run>,
    inputs: Vec<OutFact>,
    outputs: Vec<Option<OutFact>>,
    report: PlanReport,
}

impl Executor {
    /// Loads a plan; see [`Plan::load`].
    pub fn new(plan: Plan) -> Result<Executor> {
        let (inputs, outputs, report) = (plan.inputs.clone(), plan.outputs.clone(), plan.report.clone());
        Ok(Executor { run: plan.start()?, inputs, outputs, report })
    }

    /// Input `i`, contiguous, to be filled before a run (a run may overwrite it).
    pub fn input_mut(&mut self, i: usize) -> Result<ViewMut<'_>> {
        self.run.input_mut(i)
    }

    /// Output `i` of the last run, contiguous.
    pub fn output(&self, i: usize) -> Result<View<'_>> {
        self.run.output(i)
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
        self.inputs.get(i).copied()
    }

    /// Dtype and shape of output `i`; `None` if its shape depends on values.
    pub fn output_fact(&self, i: usize) -> Option<OutFact> {
        self.outputs.get(i).copied().flatten()
    }

    /// The plan's figures.
    pub fn report(&self) -> &PlanReport {
        &self.report
    }

    /// Runs every step. Errors name the node; the arena's contents are undefined then.
    pub fn run(&mut self) -> Result<()> {
        self.run.run()
    }

    /// As [`Self::run`], adding each step's time to `profile`.
    pub fn run_profiled(&mut self, profile: &mut Profile) -> Result<()> {
        self.run.run_profiled(profile)
    }

    /// As [`Self::run`], handing every value to `see` (name, numbers) as soon as it is complete, before its bytes are
    /// used again.
    pub fn run_observed(&mut self, mut see: impl FnMut(&str, &View<'_>) -> Result<()>) -> Result<()> {
        self.run.run_observed(&mut see)
    }

    /// Runs this often on the inputs as they are, without copies to or from the device; the time of each run by the device's
    /// own clock. `None` where host and device are one.
    pub fn device_time(&mut self, runs: usize) -> Result<Option<Vec<Duration>>> {
        self.run.device_time(runs)
    }
}

/// The error of asking for an input or output that is not there.
pub fn no_port(what: &str, i: usize, of: usize) -> Error {
    Error::new(ErrorKind::Input, format!("{what} {i} was asked for, the model has {of}"))
}
