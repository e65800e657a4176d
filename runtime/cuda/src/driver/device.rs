use super::module::LaunchEx;
use super::{Driver, failed, version_text};
use crate::{Error, ErrorKind, Result};
use cudarc::driver::{result, sys};
use std::sync::Arc;

/// What the placement policy and the kernel choice ask of a device. Queried, never guessed from a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The device's name, for people.
    pub name: String,
    /// Newest CUDA the driver speaks: 1000 * major + 10 * minor.
    pub driver: i32,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
    /// Streaming multiprocessors.
    pub multiprocessors: i32,
    /// Bytes of shared memory a block may ask for.
    pub shared_per_block: usize,
    /// Bytes of level 2 cache.
    pub l2_bytes: usize,
    /// Bytes of memory.
    pub memory_bytes: usize,
    /// GPU and CPU share the memory.
    pub integrated: bool,
    /// Page-locked host memory can be mapped for the GPU.
    pub map_host: bool,
    /// Managed memory works.
    pub managed: bool,
    /// CPU and GPU may touch managed memory at once.
    pub concurrent_managed: bool,
    /// The GPU reads ordinary host memory.
    pub pageable: bool,
    /// Existing host memory can be registered.
    pub host_register: bool,
    /// Stream-ordered allocation works.
    pub pools: bool,
}

impl Attributes {
    /// Compute capability as in `sm_87`.
    pub fn arch(&self) -> u32 {
        (self.capability.0 * 10 + self.capability.1) as u32
    }
}

/// A device with its primary context.
pub(crate) struct Device {
    device: sys::CUdevice,
    context: sys::CUcontext,
    attributes: Attributes,
    launch_ex: Option<LaunchEx>,
}

// SAFETY: a context may be used from any thread that binds it; `bind` precedes every call.
unsafe impl Send for Device {}
// SAFETY: as above; the driver's calls are thread-safe.
unsafe impl Sync for Device {}

impl Device {
    /// The device with this number (0 is the first) and its primary context. Errors say what is missing.
    pub(crate) fn open(number: usize) -> Result<Arc<Device>> {
        let driver = Driver::load()?;
        let count = result::device::get_count().map_err(|e| failed("counting devices", e))?;
        if number >= count.max(0) as usize {
            return Err(Error::new(
                ErrorKind::NoDevice,
                format!(
                    "device {number} was asked for, the driver (CUDA {}) sees {count}: check CUDA_VISIBLE_DEVICES",
                    version_text(driver.version())
                ),
            ));
        }
        let device = result::device::get(number as i32).map_err(|e| failed("opening the device", e))?;
        let attributes = query(driver, device)?;
        // SAFETY: the device comes from the driver.
        let context = unsafe { result::primary_ctx::retain(device) }
            .map_err(|e| failed("making the device's context", e))?;
        let wanted = may_overlap(attributes.arch(), attributes.driver)
            && std::env::var_os("SALTICA_CUDA_OVERLAP").is_none_or(|v| v != "0");
        // SAFETY: the type is that of cuda.h.
        let launch_ex = if wanted { unsafe { driver.entry::<LaunchEx>("cuLaunchKernelEx") } } else { None };
        let device = Device { device, context, attributes, launch_ex };
        device.bind()?;
        Ok(Arc::new(device))
    }

    /// What was asked of the device.
    pub(crate) fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// How to launch kernels that may overlap the end of the one before, where both can.
    pub(super) fn overlapping(&self) -> Option<LaunchEx> {
        self.launch_ex
    }

    /// Makes the context current on this thread.
    pub(crate) fn bind(&self) -> Result<()> {
        // SAFETY: the context lives as long as self.
        unsafe { result::ctx::set_current(self.context) }.map_err(|e| failed("binding the context", e))
    }

    /// Free and total bytes of the device's memory, as the driver counts them.
    pub(crate) fn memory(&self) -> Result<(usize, usize)> {
        self.bind()?;
        result::mem_get_info().map_err(|e| failed("asking for free memory", e))
    }

    /// Waits for all work on the device.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.bind()?;
        result::ctx::synchronize().map_err(|e| failed("waiting for the device", e))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: retained once, in `open`; all that lives in the context holds this device and is gone.
        let released = unsafe { result::primary_ctx::release(self.device) };
        if let Err(e) = released {
            log::debug!("releasing the context: {e}");
        }
    }
}

/// Whether kernels may start before the one before them has ended. They wait for it by an instruction that began with compute
/// capability 9.0; graphs keep such an order from driver 12.3 on (CUDA programming guide, programmatic dependent launch).
fn may_overlap(arch: u32, driver: i32) -> bool {
    arch >= 90 && driver >= 12_030
}

/// Looks at a device without making a context.
fn query(driver: Driver, device: sys::CUdevice) -> Result<Attributes> {
    use sys::CUdevice_attribute as A;
    let get = |a: A| -> Result<i32> {
        // SAFETY: the device comes from the driver.
        unsafe { result::device::get_attribute(device, a) }.map_err(|e| failed("asking the device", e))
    };
    let yes = |a: A| -> Result<bool> { Ok(get(a)? != 0) };
    Ok(Attributes {
        name: result::device::get_name(device).map_err(|e| failed("asking the device's name", e))?,
        driver: driver.version(),
        capability: (
            get(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            get(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: get(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared_per_block: get(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as usize,
        l2_bytes: get(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize,
        // SAFETY: the device comes from the driver.
        memory_bytes: unsafe { result::device::total_mem(device) }
            .map_err(|e| failed("asking the device's memory", e))?,
        integrated: yes(A::CU_DEVICE_ATTRIBUTE_INTEGRATED)?,
        map_host: yes(A::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY)?,
        managed: yes(A::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY)?,
        concurrent_managed: yes(A::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)?,
        pageable: yes(A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS)?,
        host_register: yes(A::CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED)?,
        pools: yes(A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)?,
    })
}

/// The attributes of the device with this number, without making a context: for reports.
pub(crate) fn look(number: usize) -> Result<Attributes> {
    let driver = Driver::load()?;
    let device = result::device::get(number as i32).map_err(|e| failed("opening the device", e))?;
    query(driver, device)
}

#[cfg(test)]
mod tests {
    use super::may_overlap;

    #[test]
    fn kernels_overlap_where_device_and_driver_can() {
        let known = [
            (87, 12_060, false),
            (90, 11_080, false),
            (90, 12_020, false),
            (90, 12_030, true),
            (110, 13_000, true),
        ];
        for (arch, driver, can) in known {
            assert_eq!(may_overlap(arch, driver), can, "sm_{arch}, CUDA {driver}");
        }
    }
}
