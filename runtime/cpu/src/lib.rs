//! SIMD kernels and the thread pool that run Saltica's plans on the CPU.
//!
//! * [`Pool`]: parallel loops without allocation.
//! * [`Isa`]: which instructions this processor has; kernels are compiled for each and chosen at run time.
//! * [`PackedConv`]: convolution with a fused epilogue.
//!
//! Kernels work on [`saltica_tensor::View`]s with any strides; channels-last layouts are the fast ones. Results do not
//! depend on the number of threads or on the batch size: each output element is summed by one thread in one order.
//!
//! `unsafe` lives in the pool, in `simd` and in the kernels; each such module opens with its invariants.

mod act;
mod conv;
mod error;
mod isa;
mod pool;
mod ptr;
mod simd;

pub use conv::PackedConv;
pub use error::{Error, ErrorKind};
pub use isa::{Isa, IsaKind};
pub use pool::Pool;

/// Result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;
