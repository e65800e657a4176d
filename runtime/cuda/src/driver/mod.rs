//! The CUDA driver: found at run time, and everything of it that this crate uses.
//!
//! cudarc's bindings panic where the library or an entry point is missing. [`Driver::load`] therefore asks first whether the
//! library is there, and no function newer than CUDA 11.4 (JetPack 5) is called by name; newer ones are looked up by
//! `Driver::entry`.
//!
//! Invariants (the reason these files may use `unsafe`): handles are made by the driver, owned by one value each and
//! destroyed once, by its `Drop`; every owner keeps its [`Device`] alive; the device's context is current on the thread of
//! each call ([`Device::bind`]).

mod device;
mod graph;
mod memory;
mod module;
mod stream;

pub use device::Attributes;
pub(crate) use device::{Device, look};
pub(crate) use graph::Graph;
pub use memory::allocations;
pub(crate) use memory::{DeviceBuffer, HostBuffer, HostKind, ManagedBuffer};
pub(crate) use module::{Function, Module};
pub(crate) use stream::{Event, Stream};

use crate::{Error, ErrorKind, Result};
use cudarc::driver::result::DriverError;
use cudarc::driver::sys;
use std::sync::OnceLock;

/// The driver's library, loaded and started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Driver {
    version: i32,
}

impl Driver {
    /// Loads the driver once a process. Errors say which libraries were tried, or what the driver answered.
    pub(crate) fn load() -> Result<Driver> {
        static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();
        DRIVER.get_or_init(Self::start).clone()
    }

    fn start() -> Result<Driver> {
        // SAFETY: opens shared libraries by the names of NVIDIA's driver; their initializers are the driver's own.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::new(
                ErrorKind::NoDriver,
                "no CUDA driver: the loader finds neither libcuda.so nor libcuda.so.1 (nor a numbered one) on its path; \
                 install NVIDIA's driver (nvidia-l4t-cuda on Jetson), give a container its GPU (--gpus all, or \
                 --runtime nvidia), or run with --device cpu",
            ));
        }
        let call = |what: &str, e: DriverError| {
            Error::new(
                ErrorKind::NoDriver,
                format!("libcuda is here, but {what} failed: {}: is a GPU visible to this process?", name(e)),
            )
        };
        cudarc::driver::result::init().map_err(|e| call("cuInit", e))?;
        let mut version = 0;
        // SAFETY: writes one number.
        unsafe { sys::cuDriverGetVersion(&mut version) }
            .result()
            .map_err(|e| call("cuDriverGetVersion", e))?;
        if version < 11_040 {
            return Err(Error::new(
                ErrorKind::NoDriver,
                format!("the driver speaks CUDA {}, 11.4 or newer expected", version_text(version)),
            ));
        }
        Ok(Driver { version })
    }

    /// The newest CUDA it speaks: 1000 * major + 10 * minor.
    pub(crate) fn version(&self) -> i32 {
        self.version
    }

    /// A driver entry point by name, for those newer than what all drivers have.
    ///
    /// # Safety
    /// `T` is the type of that function.
    pub(crate) unsafe fn entry<T: Copy>(&self, name: &str) -> Option<T> {
        // SAFETY: the library is present, which `load` has seen to; the caller vouches for the type.
        unsafe { sys::culib().get::<T>(name.as_bytes()).ok().map(|s| *s) }
    }
}

/// `12.6` for 12060.
pub fn version_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// The driver's name for an error and its sentence.
fn name(e: DriverError) -> String {
    let text = |t: std::result::Result<&std::ffi::CStr, DriverError>| {
        t.map_or_else(|_| "unknown error".into(), |t| t.to_string_lossy().into_owned())
    };
    format!("{} ({})", text(e.error_name()), text(e.error_string()))
}

/// An error of a driver call, told with what it was for.
fn failed(what: &str, e: DriverError) -> Error {
    let kind = if e.0 == sys::cudaError_enum::CUDA_ERROR_OUT_OF_MEMORY {
        ErrorKind::Memory
    } else {
        ErrorKind::Driver
    };
    Error::new(kind, format!("{what}: the driver answered {}", name(e)))
}
