//! NVIDIA's runtime compiler, from a library that is found or named: it needs no GPU.
//!
//! Bound here, not through cudarc: the build step takes it from a wheel's folder, in two versions in one process, and NVRTC
//! 11's soname is `libnvrtc.so.11.2`, which cudarc does not try.
//!
//! Invariant: the function types are those of `nvrtc.h`, unchanged from 11.2 to 13; programs are destroyed once.

use crate::kernels::sources;
use crate::{Error, ErrorKind, Result};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

type Program = *mut c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Text = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
type Count = unsafe extern "C" fn(*mut c_int) -> c_int;
type Archs = unsafe extern "C" fn(*mut c_int) -> c_int;

/// What to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Machine code for exactly the architecture.
    Cubin,
    /// Code that drivers compile for it and for later ones.
    Ptx,
}

/// A compiled unit.
pub struct Compiled {
    /// ELF or text.
    pub image: Vec<u8>,
    /// What the compiler said.
    pub log: String,
}

/// The compiler.
pub struct Nvrtc {
    library: Library,
    /// What the compiler opens by its name alone when it compiles.
    _builtins: Vec<Library>,
    version: (i32, i32),
    archs: Vec<u32>,
}

/// Libraries that lie beside a compiler that was named by its path, and that the loader does not look for there.
fn builtins(compiler: &Path) -> Vec<Library> {
    let files = compiler.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let paths = files.into_iter().flatten().filter_map(|e| Some(e.ok()?.path()));
    let named = paths.filter(|p| {
        let name = p.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        name.starts_with("libnvrtc-builtins.so")
    });
    // SAFETY: data and code of NVIDIA's compiler; its initializers are its own.
    named.filter_map(|p| unsafe { Library::new(p) }.ok()).collect()
}

impl Nvrtc {
    /// The library at a path, else the first of the system's. Errors name what was tried.
    pub fn find(path: Option<&Path>) -> Result<Nvrtc> {
        const NAMES: [&str; 5] =
            ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so.11"];
        let tries: Vec<&Path> = path.map_or_else(|| NAMES.map(Path::new).to_vec(), |p| vec![p]);
        // SAFETY: opens NVIDIA's compiler; its initializers are its own.
        let found = tries.iter().find_map(|name| unsafe { Library::new(*name) }.ok());
        let library = found.ok_or_else(|| {
            let names: Vec<String> = tries.iter().map(|t| t.display().to_string()).collect();
            Error::new(ErrorKind::Compile, format!("no NVRTC ({} tried)", names.join(", ")))
        })?;
        let mut nvrtc = Nvrtc {
            library,
            _builtins: path.map_or_else(Vec::new, builtins),
            version: (0, 0),
            archs: Vec::new(),
        };
        let (mut major, mut minor) = (0, 0);
        let version: Version = nvrtc.symbol("nvrtcVersion")?;
        // SAFETY: writes two numbers.
        nvrtc.check("nvrtcVersion", unsafe { version(&mut major, &mut minor) })?;
        nvrtc.version = (major, minor);
        let (count, archs): (Count, Archs) =
            (nvrtc.symbol("nvrtcGetNumSupportedArchs")?, nvrtc.symbol("nvrtcGetSupportedArchs")?);
        let mut n = 0;
        // SAFETY: writes one number.
        nvrtc.check("nvrtcGetNumSupportedArchs", unsafe { count(&mut n) })?;
        let mut list = vec![0; n.max(0) as usize];
        // SAFETY: writes as many numbers as it said.
        nvrtc.check("nvrtcGetSupportedArchs", unsafe { archs(list.as_mut_ptr()) })?;
        nvrtc.archs = list.into_iter().map(|a| a.max(0) as u32).collect();
        Ok(nvrtc)
    }

    /// `12.6`.
    pub fn version(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    /// Architectures it compiles for.
    pub fn archs(&self) -> &[u32] {
        &self.archs
    }

    /// The newest architecture it knows that is not newer than this.
    pub fn newest_up_to(&self, arch: u32) -> u32 {
        self.archs.iter().copied().filter(|a| *a <= arch).max().unwrap_or(arch)
    }

    fn symbol<T: Copy>(&self, name: &str) -> Result<T> {
        // SAFETY: the types above are those of nvrtc.h.
        let found = unsafe { self.library.get::<T>(name.as_bytes()) };
        found.map(|s| *s).map_err(|e| Error::new(ErrorKind::Compile, format!("NVRTC lacks {name}: {e}")))
    }

    fn check(&self, what: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let text: ErrorString = self.symbol("nvrtcGetErrorString")?;
        // SAFETY: gives a static string for any code.
        let text = unsafe { CStr::from_ptr(text(code)) }.to_string_lossy().into_owned();
        Err(Error::new(ErrorKind::Compile, format!("{what}: {text}")))
    }

    /// Compiles a unit of `kernels/` for an architecture. Errors carry the compiler's log.
    pub fn compile(&self, unit: &str, arch: u32, output: Output) -> Result<Compiled> {
        let file = format!("{unit}.cu");
        let source = sources().iter().find(|(name, _)| *name == file).map(|(_, text)| *text);
        let source =
            source.ok_or_else(|| Error::new(ErrorKind::Compile, format!("there is no kernels/{file}")))?;
        let c = |text: &str| {
            CString::new(text).map_err(|e| Error::new(ErrorKind::Compile, format!("{unit}: {e}")))
        };
        let headers: Vec<(CString, CString)> = sources()
            .iter()
            .filter(|(name, _)| name.ends_with(".cuh"))
            .map(|(name, text)| Ok((c(text)?, c(name)?)))
            .collect::<Result<_>>()?;
        let texts: Vec<*const c_char> = headers.iter().map(|(text, _)| text.as_ptr()).collect();
        let names: Vec<*const c_char> = headers.iter().map(|(_, name)| name.as_ptr()).collect();
        let kind = if output == Output::Cubin { "sm" } else { "compute" };
        let options =
            [c(&format!("--gpu-architecture={kind}_{arch}"))?, c("--std=c++17")?, c("-default-device")?];
        let options: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let (source, file) = (c(source)?, c(&file)?);

        let create: Create = self.symbol("nvrtcCreateProgram")?;
        let compile: Compile = self.symbol("nvrtcCompileProgram")?;
        let destroy: Destroy = self.symbol("nvrtcDestroyProgram")?;
        let mut program: Program = ptr::null_mut();
        // SAFETY: zero-terminated strings that live until the end of this function.
        let created = unsafe {
            create(
                &mut program,
                source.as_ptr(),
                file.as_ptr(),
                headers.len() as c_int,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        self.check(unit, created)?;
        // SAFETY: the program was just made; the options live.
        let compiled = unsafe { compile(program, options.len() as c_int, options.as_ptr()) };
        let read = |size: &str, text: &str| -> Result<Vec<u8>> {
            let (size, text): (Size, Text) = (self.symbol(size)?, self.symbol(text)?);
            let mut n = 0;
            // SAFETY: the program lives; writes one number.
            self.check(unit, unsafe { size(program, &mut n) })?;
            let mut out = vec![0u8; n];
            // SAFETY: writes as many bytes as it said.
            self.check(unit, unsafe { text(program, out.as_mut_ptr().cast()) })?;
            Ok(out)
        };
        let log = read("nvrtcGetProgramLogSize", "nvrtcGetProgramLog")
            .map(|b| String::from_utf8_lossy(&b).trim_end_matches(['\0', '\n']).to_owned());
        let image = match (compiled, output) {
            (0, Output::Cubin) => read("nvrtcGetCUBINSize", "nvrtcGetCUBIN"),
            (0, Output::Ptx) => read("nvrtcGetPTXSize", "nvrtcGetPTX"),
            (code, _) => self.check(unit, code).map(|()| Vec::new()),
        };
        // SAFETY: made above, destroyed once.
        let _ = unsafe { destroy(&mut program) };
        let log = log?;
        match image {
            Ok(image) => Ok(Compiled { image, log }),
            Err(e) => Err(Error::new(ErrorKind::Compile, format!("{e} (sm_{arch})\n{log}"))),
        }
    }
}
