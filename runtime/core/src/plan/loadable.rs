use super::{PlanOutput, PlanReport, Schedule};
use crate::{Compiled, Executor, Kernel, Result, Run};
use saltica_models::graph::OutFact;
use saltica_tensor::Slot;

/// What runs in a step.
#[derive(Clone, Debug)]
pub struct StepFact {
    /// Node name.
    pub name: String,
    /// Op name.
    pub op: String,
    /// Kernel row ([`Compiled::label`]).
    pub kernel: String,
    /// Dtype and shape of the first output.
    pub output: OutFact,
    /// Multiply-adds of one run (0 where the op has no formula).
    pub macs: u64,
}

impl StepFact {
    /// The facts of each step of a schedule.
    pub fn of<K: Compiled>(schedule: &Schedule<K>) -> Vec<StepFact> {
        let fact = |s: &super::Step<K>| StepFact {
            name: s.name.clone(),
            op: s.op.clone(),
            kernel: s.kernel.label(),
            output: s.output,
            macs: s.macs,
        };
        schedule.steps.iter().map(fact).collect()
    }
}

/// A model planned for concrete shapes on a device: all figures are known, nothing is allocated yet.
pub struct Plan {
    /// What runs, in order.
    pub steps: Vec<StepFact>,
    /// Inputs in the graph's order.
    pub inputs: Vec<OutFact>,
    /// Outputs in the graph's order; `None` where the shape depends on values.
    pub outputs: Vec<Option<OutFact>>,
    /// The figures.
    pub report: PlanReport,
    load: Box<dyn FnOnce() -> Result<Box<dyn Run>> + Send>,
}

impl Plan {
    /// A plan that `load` makes an executor of.
    pub fn new<K: Compiled + Send + 'static>(
        schedule: Schedule<K>,
        load: impl FnOnce(Schedule<K>) -> Result<Box<dyn Run>> + Send + 'static,
    ) -> Plan {
        let fact = |slot: &Slot| OutFact { dtype: slot.dtype, shape: *slot.layout.shape() };
        Plan {
            steps: StepFact::of(&schedule),
            inputs: schedule.inputs.iter().map(fact).collect(),
            outputs: schedule
                .outputs
                .iter()
                .map(|o| match o {
                    PlanOutput::Arena(slot) => Some(fact(slot)),
                    PlanOutput::Tail(_) => None,
                })
                .collect(),
            report: schedule.report.clone(),
            load: Box::new(move || load(schedule)),
        }
    }

    /// A plan of host kernels.
    pub fn on_host(schedule: Schedule<Box<dyn Kernel>>) -> Plan {
        Plan::new(schedule, |schedule| Ok(Box::new(crate::host::HostRun::new(schedule)?)))
    }

    /// Allocates what it needs, and fixes every address.
    pub fn load(self) -> Result<Executor> {
        Executor::new(self)
    }

    pub(crate) fn start(self) -> Result<Box<dyn Run>> {
        (self.load)()
    }
}
