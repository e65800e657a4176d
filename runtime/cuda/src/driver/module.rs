use super::{Device, Stream, failed};
use crate::{Error, ErrorKind, Result};
use cudarc::driver::{result, sys};
use std::ffi::{CString, c_void};
use std::sync::Arc;

/// A loaded kernel image.
pub(crate) struct Module {
    device: Arc<Device>,
    module: sys::CUmodule,
    /// Whether its kernels wait by themselves for the kernel before.
    waits: bool,
}

/// Whether the kernels of an image wait by themselves for the kernel launched before them, so that they may start before it has
/// ended: they do if they were compiled for compute capability 9.0 or later, which PTX tells by the instruction (PTX for 8.0
/// that the driver compiles for a later device has none), and machine code by being loaded at all.
fn waits(image: &[u8], arch: u32) -> bool {
    const WAIT: &[u8] = b"griddepcontrol.wait";
    if image.starts_with(b"\x7FELF") { arch >= 90 } else { image.windows(WAIT.len()).any(|w| w == WAIT) }
}

// SAFETY: modules may be used from any thread that binds the context.
unsafe impl Send for Module {}
// SAFETY: as above; the driver's calls are thread-safe.
unsafe impl Sync for Module {}

impl Module {
    /// Loads a cubin (ELF), or PTX, which the driver then compiles. Errors say what the driver answered.
    pub(crate) fn load(device: &Arc<Device>, image: &[u8]) -> Result<Module> {
        device.bind()?;
        // PTX is text that must end in a zero; a cubin carries its length, and one more byte does no harm. A copy is aligned.
        let mut words = vec![0u64; image.len() / 8 + 1];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..image.len()].copy_from_slice(image);
        // SAFETY: an image in memory, zero-terminated; the driver checks what it is.
        let module = unsafe { result::module::load_data(words.as_ptr().cast()) }
            .map_err(|e| failed("loading kernels", e))?;
        Ok(Module { device: device.clone(), module, waits: waits(image, device.attributes().arch()) })
    }

    /// The kernel of this name, allowed to use `shared` bytes of dynamic shared memory.
    pub(crate) fn function(self: &Arc<Self>, name: &str, shared: usize) -> Result<Function> {
        self.device.bind()?;
        let missing = |why: String| Error::new(ErrorKind::Kernels, format!("kernel {name}: {why}"));
        let c = CString::new(name).map_err(|e| missing(e.to_string()))?;
        // SAFETY: the module lives.
        let function =
            unsafe { result::module::get_function(self.module, c) }.map_err(|e| missing(super::name(e)))?;
        const FREE: usize = 48 << 10;
        if shared > FREE {
            use sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as MOST;
            // SAFETY: the function lives as long as its module.
            unsafe { result::function::set_function_attribute(function, MOST, shared as i32) }
                .map_err(|e| missing(format!("{shared} bytes of shared memory: {}", super::name(e))))?;
        }
        Ok(Function { module: self.clone(), function })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded in `load`, unloaded once; functions hold the module.
        let gone = self.device.bind().map(|()| unsafe { result::module::unload(self.module) });
        if !matches!(gone, Ok(Ok(()))) {
            log::debug!("unloading a module: {gone:?}");
        }
    }
}

/// `CUlaunchAttribute`: which, and 64 bytes of value.
#[repr(C)]
pub(super) struct Attribute {
    id: u32,
    _pad: u32,
    value: [u64; 8],
}

/// `CUlaunchConfig`.
#[repr(C)]
pub(super) struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: sys::CUstream,
    attributes: *mut Attribute,
    count: u32,
}

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`: a kernel may start before the one launched before it has ended,
/// and waits for it itself.
const SERIALIZATION: u32 = 6;

/// `cuLaunchKernelEx`, which drivers have since CUDA 11.8.
pub(super) type LaunchEx =
    unsafe extern "C" fn(*const Config, sys::CUfunction, *mut *mut c_void, *mut *mut c_void) -> sys::CUresult;

/// A kernel.
#[derive(Clone)]
pub(crate) struct Function {
    module: Arc<Module>,
    function: sys::CUfunction,
}

// SAFETY: functions may be used from any thread that binds the context.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// Launches with one argument, the kernel's parameter struct.
    ///
    /// # Safety
    /// `argument` has the kernel's layout, and all that its addresses reach over lives until the stream has passed.
    pub(crate) unsafe fn launch(
        &self,
        grid: [u32; 3],
        block: u32,
        shared: u32,
        argument: &[u64],
        stream: &Stream,
    ) -> Result<()> {
        self.module.device.bind()?;
        let mut arguments = [argument.as_ptr().cast_mut().cast::<c_void>()];
        if let Some(launch_ex) = self.module.device.overlapping().filter(|_| self.module.waits) {
            let mut overlap = Attribute { id: SERIALIZATION, _pad: 0, value: [1, 0, 0, 0, 0, 0, 0, 0] };
            let config = Config {
                grid,
                block: [block, 1, 1],
                shared,
                stream: stream.raw(),
                attributes: &mut overlap,
                count: 1,
            };
            // SAFETY: the structs are those of cuda.h; the rest is the caller's.
            let code =
                unsafe { launch_ex(&config, self.function, arguments.as_mut_ptr(), std::ptr::null_mut()) };
            return code.result().map_err(|e| failed("launching a kernel", e));
        }
        // SAFETY: the caller's; the driver copies the argument before it returns.
        unsafe {
            result::launch_kernel(
                self.function,
                (grid[0], grid[1], grid[2]),
                (block, 1, 1),
                shared,
                stream.raw(),
                &mut arguments,
            )
        }
        .map_err(|e| failed("launching a kernel", e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_without_a_wait_are_not_started_early() {
        assert!(waits(b"\x7FELF...", 90));
        assert!(waits(b"\x7FELF...", 110));
        assert!(!waits(b"\x7FELF...", 87));
        assert!(waits(b".version 8.0\n.target sm_90\ngriddepcontrol.wait;\n", 100));
        // What a device newer than all machine code compiles: 8.0's PTX.
        assert!(!waits(b".version 7.4\n.target sm_80\nret;\n", 100));
    }
}
