use crate::driver::Attributes;
use crate::gpu::Gpu;
use crate::lower::{Lowering, Target};
use crate::placement::{MemoryMode, Placement};
use crate::run::DeviceRun;
use crate::tune::Tuned;
use crate::weights::Cache;
use crate::{Error, ErrorKind, Precision, Result};
use saltica_core::plan::{Plan, Schedule};
use saltica_core::{Backend, Floats, Model};
use saltica_models::passes::{Bindings, Settled};
use std::sync::Arc;
use std::time::Duration;

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
        let target = Target {
            arch: gpu.arch,
            multiprocessors: a.multiprocessors.max(1) as u32,
            shared: u32::try_from(a.shared_per_block).unwrap_or(u32::MAX),
        };
        let lowering =
            Lowering { target, precision: options.precision, weights: Cache::default(), tuned: Tuned::of(a) };
        Ok(CudaBackend { lowering, gpu: Some(Arc::new(gpu)) })
    }

    /// Plans for a device that is not here: what would run, and in how many bytes. Loading such a plan is an error.
    pub fn planning(target: Target, precision: Precision) -> CudaBackend {
        CudaBackend {
            lowering: Lowering { target, precision, weights: Cache::default(), tuned: Tuned::default() },
            gpu: None,
        }
    }

    /// What the device says of itself.
    pub fn attributes(&self) -> Option<&Attributes> {
        self.gpu.as_ref().map(|g| g.device.attributes())
    }

    /// Where inputs lie, and why.
    pub fn placement(&self) -> Option<&Placement> {
        self.gpu.as_ref().map(|g| &g.placement)
    }

    /// Measures the ways to do each convolution of a model at these shapes, and keeps the best for plans to come: of one picture
    /// the fastest, where an order of sums that suits many pictures badly counts as slower by as much; of more the fastest of
    /// those that give the same numbers as one picture's. Tune for one picture first.
    pub fn tune(&self, model: &Model, bindings: &Bindings) -> saltica_core::Result<Vec<TunedStep>> {
        let Some(gpu) = &self.gpu else {
            return Err(Error::new(ErrorKind::NoDevice, "a device that is not here cannot be tuned").into());
        };
        let settled = model.settle(bindings)?;
        let schedule = Schedule::new(settled, &self.lowering)?;
        let names: Vec<(String, Option<String>)> =
            schedule.steps.iter().map(|s| (s.name.clone(), s.kernel.signature.clone())).collect();
        let (run, ways) = DeviceRun::with_ways(gpu.clone(), schedule, true)?;
        let found = run.tune(&ways)?;
        let mut steps = Vec::new();
        let mut kept = Vec::new();
        for (i, label, [before, after]) in found {
            let (name, signature) = &names[i];
            if let Some(signature) = signature {
                kept.push((signature.clone(), label.clone()));
            }
            steps.push(TunedStep { name: name.clone(), label, before, after });
        }
        self.lowering.tuned.keep(kept);
        Ok(steps)
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

/// What tuning found for a step.
#[derive(Clone, Debug)]
pub struct TunedStep {
    /// Node name.
    pub name: String,
    /// The fastest way.
    pub label: String,
    /// Time of the way that the model of costs had put first.
    pub before: Duration,
    /// Time of the fastest.
    pub after: Duration,
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
