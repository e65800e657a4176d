//! Runs Saltica's plans on NVIDIA GPUs. The only crate that knows the CUDA driver; needs no cuBLAS, cuDNN or TensorRT.
//!
//! ```text
//! settled graph -- Schedule::new with lower/ as its compiler: places and offsets from the same planner as the CPU's,
//!                  each step lowered to launches (kernel name, grid, parameter struct with symbolic addresses)
//!   -> Plan      -- all bytes known; made on any machine, GPU or not
//!   -> DeviceRun -- one arena (cuMemAlloc), constants packed through a small page-locked ring, addresses resolved, all
//!                  launches recorded once as a CUDA graph
//!   -> run       -- inputs copied (or read in place), one graph launch, outputs copied; no allocation on either side
//! ```
//!
//! * [`CudaBackend`]: opens a device, or plans for one that is not here.
//! * `driver`: the driver, loaded at run time; no call newer than CUDA 11.4 by name, never a panic where it is missing.
//! * `lower`: one function an op; what has no kernel is an error that lists it, never a silent run on the CPU.
//! * [`placement`]: which memory holds what, by queried attributes.
//! * [`kernels`]: where compiled kernels come from; `cargo xtask kernels` makes them without a GPU ([`nvrtc`], [`resources`]).
//! * `tune`: which tile of a convolution is fastest, measured and kept for the device.
//!
//! # Layout
//!
//! Convolutions read and write channels innermost (NHWC), channels in vectors of 16 bytes: 8 f16, 16 i8, 4 f32; a picture's
//! few channels take 4. Values whose channels are no whole vectors get spare ones, which hold finite numbers. Model inputs
//! and outputs are as the file has them. f16 plans compute in f16 up to the last convolution and keep box decoding in f32
//! ([`saltica_models::passes::narrow`]).
//!
//! # Results
//!
//! do not depend on the batch: the order of each sum suits one picture and many, tiles are chosen for the batch. They may
//! differ between devices and after tuning, by the rounding of f32 sums. 8-bit convolutions are exact everywhere.
//!
//! # Environment
//!
//! `SALTICA_KERNELS` names a folder of compiled kernels; `SALTICA_CUDA_ARCH=72` takes those of an older device, as PTX;
//! `SALTICA_CUDA_OVERLAP=0` launches each kernel after the one before has ended (sm_90 and later start early otherwise), for
//! tools that look for races.

mod backend;
mod catalogue;
mod driver;
mod error;
mod gpu;
pub mod kernels;
mod launch;
mod lower;
pub mod nvrtc;
mod params;
pub mod placement;
pub mod resources;
mod run;
mod tune;
mod weights;
pub use backend::{CudaBackend, Description, Options, TunedStep, describe};
pub use driver::{Attributes, allocations, version_text};
pub use error::{Error, ErrorKind};
pub use lower::Target;

/// What floats are computed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// f32, without tensor cores: for comparing.
    F32,
    /// f16 where it costs little accuracy, sums in f32.
    #[default]
    F16,
}

/// Result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;
