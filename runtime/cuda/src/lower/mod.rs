//! From a step of the plan to launches: one function an op.
//!
//! Nothing here needs a GPU: a plan for any device can be made, read and tested on any machine.

mod conv;
mod dims;
mod elementwise;
mod indexing;
mod layout;
mod matmul;
#[cfg(test)]
mod poison;
mod pool;
mod qconv;
mod reduce;
mod staged;
#[cfg(test)]
mod tests;
mod tiles;
mod transposed;

use crate::launch::{DeviceKernel, Ptr};
use crate::tune::Tuned;
use crate::weights::{Cache, Recipe};
use crate::{Error, ErrorKind, Precision, Result};
use saltica_core::{Compiler, LayoutChoice, Operand, StepDesc};
use saltica_models::graph::{Op, OutFact, Residual};
use saltica_models::passes::Settled;
use saltica_tensor::{DType, Layout, Tensor};
use std::collections::BTreeMap;

/// The device a plan is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Compute capability as in `sm_87`.
    pub arch: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of shared memory a block may have.
    pub shared: u32,
}

impl Target {
    /// A device of this compute capability that is not here, with what NVIDIA says that a block may have of shared memory (CUDA
    /// C programming guide, technical specifications per compute capability). A device that is here is asked.
    pub fn of(arch: u32, multiprocessors: u32) -> Target {
        let kilobytes = match arch {
            70..75 => 96,
            75..80 => 64,
            80 | 87 => 163,
            81..90 | 120.. => 99,
            90..120 => 227,
            _ => 48,
        };
        Target { arch, multiprocessors, shared: kilobytes << 10 }
    }

    /// Whether its tensor cores are of the first kind: no asynchronous copies, products of 16x16 by one instruction.
    fn is_volta(self) -> bool {
        self.arch < 80
    }
}

/// Lowers steps for a target.
pub(crate) struct Lowering {
    pub(crate) target: Target,
    pub(crate) precision: Precision,
    pub(crate) weights: Cache,
    pub(crate) tuned: Tuned,
}

impl Lowering {
    /// Ops of a graph that no line of the table takes, each with how many there are. Nodes whose shapes depend on values are
    /// not counted: those are interpreted.
    pub(crate) fn missing(&self, settled: &Settled) -> Vec<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for node in &settled.graph.nodes {
            let planned = node.outputs.iter().flatten().all(|id| settled.facts[id.index()].is_some());
            if planned && !has_kernel(&node.op) {
                *counts.entry(node.op.name()).or_default() += 1;
            }
        }
        counts.into_iter().map(|(name, n)| format!("{n} {name}")).collect()
    }

    fn constant(&self, recipe: Recipe) -> Ptr {
        Ptr::Weights(self.weights.get(recipe), 0)
    }
}

/// A step whose op has no kernel for these operands.
pub(super) fn unsupported(step: &StepDesc<'_>, why: &str) -> Error {
    let side = |o: &Option<Operand<'_>>| {
        o.as_ref().map_or("-".into(), |o| {
            format!(
                "{} {}{}",
                o.dtype,
                o.layout.shape(),
                if o.constant.is_some() { " (constant)" } else { "" }
            )
        })
    };
    let inputs: Vec<String> = step.inputs.iter().map(side).collect();
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "no GPU kernel for {} '{}' on ({}): {why}; run with --device cpu",
            step.op.name(),
            step.name,
            inputs.join(", ")
        ),
    )
}

/// An operand that must be there.
fn input<'s, 'a>(step: &'s StepDesc<'a>, i: usize) -> Result<&'s Operand<'a>> {
    step.inputs
        .get(i)
        .and_then(Option::as_ref)
        .ok_or_else(|| unsupported(step, &format!("input {i} is missing")))
}

fn constant<'a>(step: &StepDesc<'a>, i: usize) -> Option<&'a Tensor> {
    step.inputs.get(i)?.as_ref()?.constant
}

/// The first output: dtype, layout, bytes from the arena's start.
fn output<'s>(step: &'s StepDesc<'_>) -> Result<(DType, &'s Layout, usize)> {
    match (step.outputs.first(), step.offsets.first()) {
        (Some((dtype, layout)), Some(offset)) => Ok((*dtype, layout, *offset)),
        _ => Err(unsupported(step, "it has no output")),
    }
}

/// Whether kernels can reach over a value: they count its elements, spare ones included, in 32 bits.
fn countable(step: &StepDesc<'_>, layout: &Layout) -> Result<()> {
    let elements = layout.span().saturating_add(layout.pixel_stride().unwrap_or(0));
    if elements > i32::MAX as usize {
        return Err(unsupported(
            step,
            &format!(
                "a tensor that reaches over {elements} elements, kernels count to 2^31 - 1: take a smaller batch"
            ),
        ));
    }
    Ok(())
}

/// A number that kernels take as 32 bits.
fn int(n: usize) -> Result<i32> {
    i32::try_from(n).map_err(|_| {
        Error::new(ErrorKind::Unsupported, format!("{n} elements or strides: kernels count to 2^31 - 1"))
    })
}

fn blocks(n: usize, per: usize) -> Result<u32> {
    u32::try_from(n.div_ceil(per).max(1)).ok().filter(|&b| b <= i32::MAX as u32).ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, format!("{n} pieces of work: more than a grid holds"))
    })
}

impl Compiler for Lowering {
    type Kernel = DeviceKernel;

    fn layout(&self, op: &Op, inputs: &[Option<OutFact>], output: OutFact) -> LayoutChoice {
        layout::choose(op, inputs, output)
    }

    fn conv_input(&self, fact: OutFact) -> Option<usize> {
        layout::pixel_stride(fact)
    }

    fn stores_wide(&self, op: &Op) -> bool {
        // Sums are f32; a residual is read in the dtype that is written.
        match op {
            Op::Conv(conv) => conv.residual == Residual::None,
            Op::MatMul(_) | Op::Gemm(_) => true,
            _ => false,
        }
    }

    fn compile(&self, step: &StepDesc<'_>) -> saltica_core::Result<DeviceKernel> {
        let operands = step.inputs.iter().flatten().map(|o| &o.layout);
        operands.chain(step.outputs.iter().map(|(_, l)| l)).try_for_each(|l| countable(step, l))?;
        if step.outputs.iter().all(|(_, l)| l.shape().elements() == 0) {
            return Ok(DeviceKernel::new("nothing", Vec::new()));
        }
        Ok(self.lower(step)?)
    }
}

/// The table: one line an op. `$takes` lists the same ops, so that a plan can say at once what it lacks.
macro_rules! table {
    ($low:ident, $step:ident: $($variant:ident($op:pat) => $lower:expr;)*) => {
        impl Lowering {
            fn lower(&self, $step: &StepDesc<'_>) -> Result<DeviceKernel> {
                let $low = self;
                match $step.op {
                    $(Op::$variant($op) => $lower,)*
                    _ => Err(unsupported($step, "the op is not in the table")),
                }
            }
        }

        /// Ops with a line in the table, or that places alone do.
        fn has_kernel(op: &Op) -> bool {
            matches!(op, $(Op::$variant(_))|* | Op::Concat(_))
        }
    };
}

table! { low, step:
    Conv(op) => staged::in_pixels(step, &|step| conv::conv(low, op, step));
    ConvTranspose(op) => staged::in_pixels(step, &|step| transposed::transpose(low, op, step));
    QuantConv(op) => staged::in_pixels(step, &|step| qconv::conv(low, op, step));
    // Elements moved
    Identity(_) => elementwise::moved(low, step);
    Dropout(_) => elementwise::moved(low, step);
    Expand(_) => elementwise::moved(low, step);
    Cast(_) => elementwise::moved(low, step);
    CastLike(_) => elementwise::moved(low, step);
    Reshape(_) => elementwise::reshape(low, step);
    Squeeze(_) => elementwise::reshape(low, step);
    Unsqueeze(_) => elementwise::reshape(low, step);
    Flatten(_) => elementwise::reshape(low, step);
    Transpose(op) => {
        let rank = input(step, 0)?.layout.shape().rank();
        elementwise::transpose(low, &op.perm_for(rank)[..rank], step)
    };
    Slice(op) => indexing::slice(low, op, step);
    Split(op) => indexing::split(low, op, step);
    Pad(op) => indexing::pad(low, op, step);
    Tile(_) => indexing::tile(low, step);
    Gather(op) => indexing::gather(low, op, step);
    GatherElements(op) => indexing::gather_elements(low, op, step);
    GatherNd(op) => indexing::gather_nd(low, op, step);
    ScatterElements(op) => indexing::scatter_elements(low, op, step);
    ScatterNd(op) => indexing::scatter_nd(low, op, step);
    // Elements computed
    Unary(op) => elementwise::unary(low, op, step);
    Binary(op) => elementwise::binary(low, op, step);
    Variadic(op) => elementwise::variadic(low, op, step);
    Where(_) => elementwise::select(low, step);
    Clip(op) => elementwise::clip(low, op, step);
    Lookup(op) => elementwise::lookup(low, op, step);
    QuantizeLinear(op) => elementwise::quantize(low, op.axis, true, step);
    DequantizeLinear(op) => elementwise::quantize(low, op.axis, false, step);
    // Many to one
    Reduce(op) => reduce::reduce(low, op, step);
    GlobalPool(op) => reduce::global_pool(low, op.max, step);
    ArgExtreme(op) => reduce::arg_extreme(low, op, step);
    Softmax(op) => reduce::softmax(low, op, step);
    LayerNorm(op) => reduce::layer_norm(low, op, step);
    GroupNorm(op) => reduce::group_norm(low, op, step);
    TopK(op) => reduce::top_k(low, op, step);
    Pool(op) => pool::pool(low, op, step);
    Resize(op) => pool::resize(low, op, step);
    GridSample(op) => indexing::grid_sample(low, op, step);
    MatMul(_) => matmul::matmul(low, step);
    Gemm(op) => matmul::gemm(low, op, step);
}
