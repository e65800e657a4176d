//! What a backend provides: layouts it likes, a kernel for each step, and plans that load.
//!
//! Two traits, since devices differ in what a kernel is. A [`Compiler`] has a kernel type of its own (host code over views,
//! or launches on a device) and answers the planner's questions, so that every device gets the same places, lifetimes and
//! offsets. A [`Backend`] is what sessions hold: it makes plans whose loading is the device's business.

use crate::{Plan, Result};
use saltica_models::graph::{Op, OutFact};
use saltica_models::passes::Settled;
use saltica_tensor::{DType, Layout, StepViews, Tensor};

/// How a step's output should lie in memory, where the plan is free to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutChoice {
    /// Row-major in the model's dim order.
    Contiguous,
    /// Channels innermost (NHWC); rank 4 only, others fall back to contiguous.
    ChannelsLast,
    /// Channels innermost, this many elements from pixel to pixel (as many as there are channels, or a few more).
    Pixels(usize),
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
    /// Bytes from the arena's start to its first element; 0 for a constant.
    pub offset: usize,
    /// Whether its buffer is its own: elements between its pixels are nobody else's. A part of a wider value owns none.
    pub owned: bool,
    /// The numbers, if it is a constant: a kernel may pack them and give the original up ([`Compiled::reads`]).
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
    /// Bytes from the arena's start to each output's first element.
    pub offsets: Vec<usize>,
    /// Whether each output's buffer is its own, as in [`Operand::owned`]: elements between its pixels may be written.
    pub owned: Vec<bool>,
}

/// Which floats a model's graph has when it is planned (the passes that see to it are reported).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Floats {
    /// Those of the file.
    #[default]
    AsFile,
    /// f16 is widened to f32.
    F32,
    /// f32 is narrowed to f16 where that costs little accuracy; see [`saltica_models::passes::narrow`].
    F16,
}

/// What sessions run models on.
pub trait Backend: Send + Sync {
    /// Short name: `reference`, `cpu`, `cuda-fp16`.
    fn name(&self) -> &str;

    /// The floats it computes in.
    fn floats(&self) -> Floats {
        Floats::AsFile
    }

    /// Plans a settled graph. Nothing is allocated on a device before [`Plan::load`]. Errors if a kernel is lacking.
    fn plan(&self, settled: Settled) -> Result<Plan>;
}

/// What the planner asks of a device: layouts it likes, and a kernel for each step.
pub trait Compiler {
    /// A step ready to run.
    type Kernel: Compiled;

    /// How output 0 of this op should lie, given its inputs' and its own facts.
    fn layout(&self, op: &Op, inputs: &[Option<OutFact>], output: OutFact) -> LayoutChoice;

    /// Elements from pixel to pixel in a value that a convolution reads, channels innermost; `None` if it should lie as its
    /// maker likes. Unless told otherwise all but pictures are packed: an image's few channels fill no vector, its rows are
    /// the runs.
    fn conv_input(&self, fact: OutFact) -> Option<usize> {
        const FEW: usize = 4;
        fact.shape.get(1).copied().filter(|&c| c > FEW)
    }

    /// Whether an op's kernel may be told to store f32 where the op's result is f16: its step then has an f32 output.
    fn stores_wide(&self, _op: &Op) -> bool {
        false
    }

    /// The kernel for a step. Errors name what is missing.
    fn compile(&self, step: &StepDesc<'_>) -> Result<Self::Kernel>;
}

/// What the planner asks of a kernel, whatever runs it.
pub trait Compiled {
    /// The table row that runs, for profiles: `conv avx512 14x32`.
    fn label(&self) -> String;

    /// Scratch bytes needed while it runs.
    fn scratch_bytes(&self) -> usize;

    /// Bytes of packed weights it holds (shared ones count in each kernel that shares them).
    fn weight_bytes(&self) -> usize;

    /// Whether it reads input `i` when it runs; false for a constant that was packed.
    fn reads(&self, input: usize) -> bool;
}

impl Compiled for Box<dyn Kernel> {
    fn label(&self) -> String {
        self.as_ref().label()
    }

    fn scratch_bytes(&self) -> usize {
        self.as_ref().scratch_bytes()
    }

    fn weight_bytes(&self) -> usize {
        self.as_ref().weight_bytes()
    }

    fn reads(&self, input: usize) -> bool {
        self.as_ref().reads(input)
    }
}

/// A step ready to run on the host, over views of the arena.
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
