//! What a backend provides: layouts it likes, and a kernel for each step.

use crate::Result;
use saltica_models::graph::{Op, OutFact};
use saltica_tensor::{DType, Layout, StepViews, Tensor};

/// How a step's output should lie in memory, where the plan is free to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutChoice {
    /// Row-major in the model's dim order.
    Contiguous,
    /// Channels innermost (NHWC); rank 4 only, others fall back to contiguous.
    ChannelsLast,
    /// The dim order of input `i`, if it has the same rank.
    Like(usize),
}

/// One input of a step.
#[derive(Clone, Debug)]
pub struct Operand<'a> {
    /// Element type.
    pub dtype: DType,
    /// Where its elements lie.
    pub layout: Layout,
    /// The numbers, if it is a constant: a kernel may pack them and give the original up ([`Kernel::reads`]).
    pub constant: Option<&'a Tensor>,
}

/// What a backend sees of a step when it chooses the kernel.
#[derive(Clone, Debug)]
pub struct StepDesc<'a> {
    /// The node's name.
    pub name: &'a str,
    /// The op with its attributes.
    pub op: &'a Op,
    /// Inputs in the op's order; `None` for an absent optional one.
    pub inputs: Vec<Option<Operand<'a>>>,
    /// Outputs in the op's order.
    pub outputs: Vec<(DType, Layout)>,
}

/// A device's way to run steps.
pub trait Backend: Send + Sync {
    /// Short name: `reference`, `cpu`.
    fn name(&self) -> &str;

    /// How output 0 of this op should lie, given its inputs' and its own facts.
    fn layout(&self, op: &Op, inputs: &[Option<OutFact>], output: OutFact) -> LayoutChoice;

    /// Whether f16 graphs are widened to f32 at load (reported, never silent).
    fn widens_f16(&self) -> bool {
        false
    }

    /// The kernel for a step. Errors name what is missing.
    fn compile(&self, step: &StepDesc<'_>) -> Result<Box<dyn Kernel>>;
}

/// A step ready to run.
pub trait Kernel: Send + Sync {
    /// The table row that runs, for profiles: `conv avx512 14x32`.
    fn label(&self) -> String;

    /// Scratch bytes needed while it runs.
    fn scratch_bytes(&self) -> usize {
        0
    }

    /// Bytes of packed weights it holds (shared ones count in each kernel that shares them).
    fn weight_bytes(&self) -> usize {
        0
    }

    /// Whether it reads input `i` when it runs; false for a constant that was packed.
    fn reads(&self, _input: usize) -> bool {
        true
    }

    /// Runs. Allocates nothing on steady-state paths.
    fn run(&self, io: StepViews<'_>) -> Result<()>;
}
