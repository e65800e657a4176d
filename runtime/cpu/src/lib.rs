//! SIMD kernels and the thread pool that run Saltica's plans on the CPU.
//!
//! * [`CpuBackend`]: turns a plan's steps into these kernels.
//! * [`Pool`]: parallel loops without allocation.
//! * [`Isa`]: which instructions this processor has; kernels are compiled for each and chosen at run time.
//! * [`PackedConv`], [`PackedQuantConv`], [`PackedConvInteger`]: convolution of f32 and of 8-bit numbers, with a fused epilogue.
//! * [`PackedConvTranspose`]: transposed convolution by phases.
//! * [`gemm`], [`pooling`], [`resize`], [`mod@softmax`], [`reduce`], [`elementwise`], [`mod@copy`]: the other kernels.
//! * [`kernels`]: the list of all of them.
//!
//! Kernels work on [`saltica_tensor::View`]s with any strides; channels-last layouts are the fast ones. Results do not
//! depend on the number of threads or on the batch size: each output element is summed by one thread in one order.
//!
//! `unsafe` lives in the pool, in `simd` and in the kernels; each such module opens with its invariants.

mod act;
mod backend;
mod conv;
pub mod copy;
pub mod elementwise;
mod error;
pub mod gemm;
mod isa;
mod pool;
pub mod pooling;
mod ptr;
pub mod quantize;
pub mod reduce;
pub mod resize;
mod simd;
pub mod softmax;
mod table;
#[cfg(test)]
mod testing;
mod tiles;
mod walk;

pub use backend::CpuBackend;
pub use conv::{PackedConv, PackedConvInteger, PackedConvTranspose, PackedQuantConv};
pub use error::{Error, ErrorKind};
pub use isa::{Isa, IsaKind};
pub use pool::Pool;
pub use table::{KernelRow, kernels};

/// Result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;
