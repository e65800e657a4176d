//! The CPU backend: which kernel runs a step, and how its outputs should lie.
//!
//! [`choose`] is the table: one line an op, asking the op's fast kernel whether it takes these operands. What no line
//! takes runs by its reference kernel, labelled `reference ...` and counted.

mod cache;
mod kernels;
mod quantized;

use crate::{Isa, PackedConv, PackedConvInteger, PackedQuantConv, Pool, Result};
use cache::Cache;
use kernels::Choice;
use saltica_core::plan::{Plan, Schedule};
use saltica_core::{Backend, Compiler, Error, ErrorKind, Floats, Kernel, LayoutChoice, Reference, StepDesc};
use saltica_models::graph::ops::{Conv, ConvInteger, QuantConv};
use saltica_models::graph::{Op, OutFact};
use saltica_models::passes::Settled;
use saltica_tensor::DType;
use std::sync::Arc;

/// Runs plans on the CPU with the widest instructions it has and a pool of threads.
pub struct CpuBackend {
    isa: Isa,
    pool: Arc<Pool>,
    convs: Cache<Conv, PackedConv>,
    // How bytes are packed depends on whether x is signed.
    quant_convs: Cache<(QuantConv, DType), PackedQuantConv>,
    integer_convs: Cache<(ConvInteger, DType), PackedConvInteger>,
}

impl CpuBackend {
    /// A backend on `threads` threads (`None`: as many as this process may use), with the instruction set that
    /// `SALTICA_ISA` names, else the best there is. Errors name what is wrong with either.
    pub fn new(threads: Option<usize>) -> Result<CpuBackend> {
        let pool = Pool::new(threads.unwrap_or_else(Pool::default_threads))?;
        Ok(Self::on(Isa::from_env()?, pool))
    }

    /// A backend for one instruction set, for tests and comparisons.
    pub fn with_isa(isa: Isa, threads: usize) -> Result<CpuBackend> {
        Ok(Self::on(isa, Pool::new(threads)?))
    }

    fn on(isa: Isa, pool: Pool) -> CpuBackend {
        CpuBackend {
            isa,
            pool: Arc::new(pool),
            convs: Cache::default(),
            quant_convs: Cache::default(),
            integer_convs: Cache::default(),
        }
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Threads in use, the caller's among them.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }
}

/// The fast kernel for a step, if its op has one for these operands.
fn choose(cpu: &CpuBackend, step: &StepDesc<'_>) -> Result<Option<Choice>> {
    match step.op {
        Op::Conv(op) => kernels::conv(cpu, op, step),
        Op::QuantConv(op) => quantized::conv(cpu, op, step),
        Op::ConvInteger(op) => quantized::integer_conv(cpu, op, step),
        Op::ConvTranspose(op) => kernels::conv_transpose(cpu, op, step),
        Op::DynamicQuantizeLinear(_) => Ok(quantized::dynamic(cpu, step)),
        Op::Cast(_) => Ok(quantized::cast(cpu, step)),
        Op::QuantizeLinear(_) => Ok(quantized::quantize(cpu, step)),
        Op::DequantizeLinear(_) => Ok(quantized::dequantize(cpu, step)),
        Op::Lookup(op) => Ok(quantized::lookup(cpu, op, step)),
        Op::Unary(op) => Ok(kernels::unary(cpu, op, step)),
        Op::Binary(op) => Ok(kernels::binary(cpu, op, step)),
        Op::Pool(op) => Ok(kernels::pool(cpu, op, step)),
        Op::Reduce(op) => Ok(kernels::reduce(cpu, op, step)),
        Op::GlobalPool(op) => Ok(kernels::global_pool(cpu, op, step)),
        Op::Gather(op) => Ok(kernels::gather(cpu, op, step)),
        Op::Softmax(op) => Ok(kernels::softmax(cpu, op, step)),
        Op::Resize(op) => kernels::resize(cpu, op, step),
        Op::MatMul(_) => kernels::matmul(cpu, step),
        Op::Gemm(op) => kernels::gemm(cpu, op, step),
        Op::Identity(_) | Op::Transpose(_) | Op::Expand(_) => Ok(kernels::copy(cpu, step)),
        _ => Ok(None),
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> &str {
        "cpu"
    }

    fn floats(&self) -> Floats {
        Floats::F32
    }

    fn plan(&self, settled: Settled) -> saltica_core::Result<Plan> {
        Ok(Plan::on_host(Schedule::new(settled, self)?))
    }
}

impl Compiler for CpuBackend {
    type Kernel = Box<dyn Kernel>;

    fn layout(&self, op: &Op, inputs: &[Option<OutFact>], output: OutFact) -> LayoutChoice {
        match op {
            Op::Conv(_)
            | Op::QuantConv(_)
            | Op::ConvInteger(_)
            | Op::Pool(_)
            | Op::Resize(_)
            | Op::ConvTranspose(_)
                if output.shape.rank() == 4 =>
            {
                LayoutChoice::ChannelsLast
            }
            // Element by element: as the operand that has the result's shape lies.
            Op::Unary(_)
            | Op::Binary(_)
            | Op::Clip(_)
            | Op::Softmax(_)
            | Op::Identity(_)
            | Op::Lookup(_)
            | Op::QuantizeLinear(_)
            | Op::DequantizeLinear(_)
            | Op::DynamicQuantizeLinear(_)
            | Op::Cast(_) => {
                let like = inputs.iter().position(|i| i.is_some_and(|i| i.shape == output.shape));
                like.map_or(LayoutChoice::Contiguous, LayoutChoice::Like)
            }
            _ => LayoutChoice::Contiguous,
        }
    }

    fn compile(&self, step: &StepDesc<'_>) -> saltica_core::Result<Box<dyn Kernel>> {
        match choose(self, step) {
            Ok(Some(kernel)) => Ok(kernel),
            Ok(None) => Ok(Reference::kernel(step)),
            Err(e) => {
                Err(Error::new(ErrorKind::Backend, format!("{} node '{}': {e}", step.op.name(), step.name)))
            }
        }
    }
}
