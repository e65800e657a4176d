use crate::plan::Schedule;
use crate::{Backend, Compiler, Error, ErrorKind, Kernel, LayoutChoice, Plan, Result, StepDesc};
use saltica_models::graph::{Op, OutFact};
use saltica_models::passes::Settled;
use saltica_tensor::StepViews;

/// The backend that runs every op by its plain kernel: slow, readable, and what others are compared with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference {
    /// Prefer channels-last where a fast backend would, so that plans with views and strided writes are tested too.
    pub channels_last: bool,
}

struct Plain {
    op: Op,
    name: String,
}

impl Reference {
    /// The plain kernel of a step, for backends that fall back to it.
    pub fn kernel(step: &StepDesc<'_>) -> Box<dyn Kernel> {
        Box::new(Plain { op: step.op.clone(), name: step.name.to_string() })
    }
}

impl Backend for Reference {
    fn name(&self) -> &str {
        "reference"
    }

    fn plan(&self, settled: Settled) -> Result<Plan> {
        Ok(Plan::on_host(Schedule::new(settled, self)?))
    }
}

impl Compiler for Reference {
    type Kernel = Box<dyn Kernel>;

    fn layout(&self, op: &Op, _inputs: &[Option<OutFact>], output: OutFact) -> LayoutChoice {
        match op {
            _ if !self.channels_last || output.shape.rank() < 3 => LayoutChoice::Contiguous,
            Op::Conv(_) => LayoutChoice::ChannelsLast,
            _ => LayoutChoice::Like(0),
        }
    }

    fn compile(&self, step: &StepDesc<'_>) -> Result<Box<dyn Kernel>> {
        Ok(Self::kernel(step))
    }
}

impl Kernel for Plain {
    fn label(&self) -> String {
        format!("reference {}", self.op.name())
    }

    fn run(&self, io: StepViews<'_>) -> Result<()> {
        self.op
            .run(io.inputs, io.outputs)
            .map_err(|e| Error::new(ErrorKind::Run, e.in_node(&self.name, self.op.name()).to_string()))
    }
}
