use crate::driver::Attributes;
use crate::gpu::Gpu;
use crate::lower::{Lowering, Target};
use crate::placement::{MemoryMode, Placement};
use crate::run::DeviceRun;
use crate::weights::Cache;
use crate::{Error, ErrorKind, Precision, Result};
use saltica_core::plan::{Plan, Schedule};
use saltica_core::{Backend, Floats};
use saltica_models::passes::Settled;
use std::sync::Arc;

/// How a GPU is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Which device; the driver's first is 0.
    pub device: usize,
    /// What floats are computed in.
    pub precision: Precision,
    /// Where inputs lie.
    pub memory: MemoryMode,
}

/// Runs plans on an NVIDIA GPU.
pub struct CudaBackend {
    lowering: Lowering,
    gpu: Option<Arc<Gpu>>,
}

impl CudaBackend {
    /// Opens a device. Errors say what was tried: no driver, no device, a driver that is too old.
    pub fn open(options: Options) -> Result<CudaBackend> {
        let gpu = Gpu::open(options.device, options.memory)?;
        let a = gpu.device.attributes();
        let target = Target { arch: a.arch(), multiprocessors: a.multiprocessors.max(1) as u32 };
        let lowering = Lowering { target, precision: options.precision, weights: Cache::default() };
        Ok(CudaBackend { lowering, gpu: Some(Arc::new(gpu)) })
    }

    /// Plans for a device that is not here: what would run, and in how many bytes. Loading such a plan is an error.
    pub fn planning(target: Target, precision: Precision) -> CudaBackend {
        CudaBackend { lowering: Lowering { target, precision, weights: Cache::default() }, gpu: None }
    }

    /// What the device says of itself.
    pub fn attributes(&self) -> Option<&Attributes> {
        self.gpu.as_ref().map(|g| g.device.attributes())
    }

    /// Where inputs lie, and why.
    pub fn placement(&self) -> Option<&Placement> {
        self.gpu.as_ref().map(|g| &g.placement)
    }

    /// Free and total bytes of the device, as its driver counts them.
    pub fn memory(&self) -> Result<Option<(usize, usize)>> {
        self.gpu.as_ref().map(|g| g.device.memory()).transpose()
    }

    /// Where the kernels in use came from, once one is.
    pub fn kernels(&self) -> Option<String> {
        self.gpu.as_ref().and_then(|g| g.kernels.origin())
    }
}

impl Backend for CudaBackend {
    fn name(&self) -> &str {
        match self.lowering.precision {
            Precision::F32 => "cuda-fp32",
            Precision::F16 => "cuda-fp16",
        }
    }

    fn floats(&self) -> Floats {
        match self.lowering.precision {
            Precision::F32 => Floats::F32,
            Precision::F16 => Floats::F16,
        }
    }

    fn plan(&self, settled: Settled) -> saltica_core::Result<Plan> {
        let missing = self.lowering.missing(&settled);
        if !missing.is_empty() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("no GPU kernel for {}: run with --device cpu", missing.join(", ")),
            )
            .into());
        }
        let schedule = Schedule::new(settled, &self.lowering)?;
        let gpu = self.gpu.clone();
        Ok(Plan::new(schedule, move |schedule| match gpu {
            Some(gpu) => Ok(Box::new(DeviceRun::new(gpu, schedule)?)),
            None => {
                Err(Error::new(ErrorKind::NoDevice, "a plan for a device that is not here cannot run").into())
            }
        }))
    }
}

/// What there is of a GPU, for reports. Makes no context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// What the device says of itself.
    pub attributes: Attributes,
    /// Where inputs lie, and why.
    pub placement: Placement,
    /// Where its kernels would come from.
    pub kernels: String,
}

/// Looks at a device. Errors say what was tried.
pub fn describe(device: usize) -> Result<Description> {
    let attributes = crate::driver::look(device)?;
    let placement = Placement::choose(&attributes, MemoryMode::Auto);
    let kernels = crate::kernels::where_from(attributes.arch());
    Ok(Description { attributes, placement, kernels })
}
