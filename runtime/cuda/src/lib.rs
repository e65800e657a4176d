//! Runs Saltica's plans on NVIDIA GPUs.
mod backend;
mod catalogue;
pub mod driver;
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
