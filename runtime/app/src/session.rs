//! A model that runs on tensors.

use crate::{Error, ErrorKind, Result};
use saltica_core::{Backend, Port, Reference};
use saltica_models::graph::Dim;
use saltica_models::onnx::Bytes;
use saltica_tensor::{Shape, Tensor};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use saltica_cuda::placement::MemoryMode;
pub use saltica_cuda::{Options as CudaOptions, Precision};

/// What computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendKind {
    /// SIMD kernels on all threads.
    #[default]
    Cpu,
    /// The plain kernels that define each op: slow, for comparing.
    Reference,
    /// An NVIDIA GPU. Without one, loading is an error that says what was tried.
    Cuda(CudaOptions),
    /// An NVIDIA GPU if there is one that runs the model, else the CPU, with one warning that says why.
    Auto(CudaOptions),
}

/// How a model is loaded; see [`Session::builder`].
#[derive(Clone, Debug, Default)]
pub struct SessionBuilder {
    backend: BackendKind,
    threads: Option<usize>,
    unoptimized: bool,
    open_batch: bool,
    memory_limit: Option<usize>,
    strict: bool,
}

impl SessionBuilder {
    /// What computes; the CPU's SIMD kernels unless told otherwise.
    pub fn backend(mut self, backend: BackendKind) -> Self {
        self.backend = backend;
        self
    }

    /// Threads of the CPU backend; all that this process may use unless told otherwise.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Whether nodes are folded and fused (they are unless told otherwise). Without, every value of the file exists.
    pub fn optimize(mut self, optimize: bool) -> Self {
        self.unoptimized = !optimize;
        self
    }

    /// Whether to open the batch of a file that was exported for one picture, so that it runs on any number. A file whose
    /// ops would mix the pictures of a batch is then an error that names the node.
    pub fn open_batch(mut self, open: bool) -> Self {
        self.open_batch = open;
        self
    }

    /// Most bytes that weights, arena and scratch of one plan may take together; what is available when the model is
    /// loaded unless told otherwise.
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// Whether running on the CPU where a GPU was looked for is an error (it is a warning unless told otherwise).
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Loads an ONNX file.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged, or has ops that are not supported (all are named).
    pub fn load(&self, path: impl AsRef<Path>) -> Result<Session> {
        let path = path.as_ref();
        let load = |backend| saltica_core::Session::load(path, backend, self.options());
        let inner = self.on_some_device(load, |e| {
            // Reading names the file itself, planning does not.
            let (shown, e) = (path.display().to_string(), e.to_string());
            let named = if e.starts_with(&shown) { e } else { format!("{shown}: {e}") };
            Error::new(ErrorKind::Model, format!("cannot load {named}"))
        })?;
        Ok(Session { inner, path: Some(path.to_owned()) })
    }

    /// Loads an ONNX model that is in memory. Its tensors must all be inside.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_bytes(&self, model: impl Into<Bytes>) -> Result<Session> {
        let graph = saltica_models::onnx::parse(model, None).map_err(saltica_core::Error::from)?;
        let load = |backend| saltica_core::Session::from_graph(graph.clone(), backend, self.options());
        Ok(Session { inner: self.on_some_device(load, Error::from)?, path: None })
    }

    fn options(&self) -> saltica_core::SessionOptions {
        saltica_core::SessionOptions {
            optimize: !self.unoptimized,
            open_batch: self.open_batch,
            memory_limit: self.memory_limit.or_else(available_memory),
            ..Default::default()
        }
    }

    /// Whether the reference backend was asked for.
    pub(crate) fn is_reference(&self) -> bool {
        self.backend == BackendKind::Reference
    }

    /// The device it loads on. `Auto` looks for a GPU that has a kernel for every op of the model.
    fn on_some_device(
        &self,
        load: impl Fn(Arc<dyn Backend>) -> saltica_core::Result<saltica_core::Session>,
        named: impl Fn(saltica_core::Error) -> Error,
    ) -> Result<saltica_core::Session> {
        let cuda =
            |options| -> Result<Arc<dyn Backend>> { Ok(Arc::new(saltica_cuda::CudaBackend::open(options)?)) };
        let cpu =
            || -> Result<Arc<dyn Backend>> { Ok(Arc::new(saltica_cpu::CpuBackend::new(self.threads)?)) };
        let backend = match self.backend {
            BackendKind::Cpu => cpu()?,
            BackendKind::Reference => Arc::new(Reference::default()),
            BackendKind::Cuda(options) => cuda(options)?,
            BackendKind::Auto(options) => match cuda(options) {
                Ok(gpu) => {
                    let session = load(gpu).map_err(&named)?;
                    match unplannable(&session) {
                        None => return Ok(session),
                        Some(why) => self.fall_back(&why)?,
                    }
                    cpu()?
                }
                Err(e) => {
                    self.fall_back(&e.to_string())?;
                    cpu()?
                }
            },
        };
        load(backend).map_err(named)
    }

    /// Counts a fallback to the CPU and says why, or refuses it.
    fn fall_back(&self, why: &str) -> Result<()> {
        if self.strict {
            return Err(Error::new(ErrorKind::Strict, format!("the GPU cannot be used: {why}")));
        }
        FALLBACKS.fetch_add(1, Ordering::Relaxed);
        log::warn!("running on the CPU: {why}");
        Ok(())
    }
}

/// Models that run on the CPU though a GPU was looked for, since this process began.
static FALLBACKS: AtomicUsize = AtomicUsize::new(0);

/// How many models this process runs on the CPU though a GPU was looked for.
pub fn fallbacks() -> usize {
    FALLBACKS.load(Ordering::Relaxed)
}

/// Why no plan can be made for the shapes that the file fixes; `None` if one can, or if it leaves shapes open.
fn unplannable(session: &saltica_core::Session) -> Option<String> {
    let model = session.model();
    let fixed = |port: &Port| -> Option<Shape> {
        let dims = port.dims.as_ref()?.iter().map(|d| if let Dim::Fixed(n) = d { Some(*n) } else { None });
        Shape::new(&dims.collect::<Option<Vec<_>>>()?).ok()
    };
    let shapes: Vec<Shape> = model.inputs().iter().map(fixed).collect::<Option<_>>()?;
    let bindings = model.bind(&shapes).ok()?;
    model.plan(&bindings, session.backend().as_ref()).err().map(|e| e.to_string())
}

/// What a plan may take where nobody says: a refusal with its arithmetic is better than the kernel's killer.
fn available_memory() -> Option<usize> {
    crate::doctor::Probe::default().memory_budget().and_then(|bytes| usize::try_from(bytes).ok())
}

/// A model that runs on named tensors, planned once for each set of input shapes.
pub struct Session {
    inner: saltica_core::Session,
    path: Option<PathBuf>,
}

impl Session {
    /// Settings before loading.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// Loads an ONNX file with the default settings; see [`SessionBuilder::load`] and [`SessionBuilder::load_bytes`].
    pub fn load(path: impl AsRef<Path>) -> Result<Session> {
        SessionBuilder::default().load(path)
    }

    /// The file it was loaded from, if it was one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Inputs as the file declares them.
    pub fn inputs(&self) -> Vec<Port> {
        self.inner.model().inputs()
    }

    /// Outputs as the file declares them.
    pub fn outputs(&self) -> Vec<Port> {
        self.inner.model().outputs()
    }

    /// Runs on tensors by input name; every input must be given once, in its dtype and a shape the file allows. Returns
    /// all outputs by name, in the file's order.
    pub fn run(&mut self, inputs: &[(&str, &Tensor)]) -> Result<Vec<(String, Tensor)>> {
        Ok(self.inner.run(inputs)?)
    }

    /// The session below, for plans, profiles and single values.
    pub fn core(&mut self) -> &mut saltica_core::Session {
        &mut self.inner
    }

    /// The session below, read-only.
    pub fn core_ref(&self) -> &saltica_core::Session {
        &self.inner
    }
}

/// The shape an image input takes: dims that the file fixes stand, open ones come from `batch` and `size` (width,
/// height). The input must have four dims in NCHW order.
///
/// # Errors
/// Says which dim stands against what was asked.
pub fn image_shape(port: &Port, batch: Option<usize>, size: Option<(usize, usize)>) -> Result<Shape> {
    let bad = |what: String| Error::new(ErrorKind::Model, what);
    let dims = match port.dims.as_deref() {
        Some(dims @ [_, _, _, _]) => dims,
        _ => return Err(bad(format!("input {port} is no picture (batch, channels, height, width)"))),
    };
    let wanted = [batch, None, size.map(|s| s.1), size.map(|s| s.0)];
    let names = ["batch", "channels", "height", "width"];
    let mut out = [0; 4];
    for d in 0..4 {
        out[d] = match (&dims[d], wanted[d]) {
            (Dim::Fixed(f), Some(w)) if *f != w => {
                return Err(Error::new(
                    ErrorKind::Usage,
                    format!(
                        "{} {w} was asked for, but input {port} fixes it to {f}: export the model with an open {0}",
                        names[d]
                    ),
                ));
            }
            (Dim::Fixed(f), _) => *f,
            (_, Some(w)) => w,
            (_, None) if d == 0 => 1,
            (_, None) if d == 1 => 3,
            (_, None) => {
                return Err(Error::new(
                    ErrorKind::Usage,
                    format!("input {port} leaves its size open: give one with --imgsz, as in --imgsz 640"),
                ));
            }
        };
    }
    Shape::new(&out).map_err(|e| bad(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use saltica_tensor::DType;

    fn port(dims: &[Dim]) -> Port {
        Port { name: "images".into(), dtype: Some(DType::F32), dims: Some(dims.to_vec()) }
    }

    #[test]
    fn fixed_dims_stand_and_open_ones_are_filled() {
        use Dim::{Fixed, Symbol, Unknown};
        let open = port(&[Symbol("batch".into()), Fixed(3), Unknown, Symbol("w".into())]);
        let fixed = port(&[Fixed(1), Fixed(3), Fixed(416), Fixed(640)]);
        assert_eq!(image_shape(&open, Some(2), Some((320, 640))).unwrap().dims(), [2, 3, 640, 320]);
        assert_eq!(image_shape(&open, None, Some((64, 64))).unwrap().dims(), [1, 3, 64, 64]);
        assert_eq!(image_shape(&fixed, None, None).unwrap().dims(), [1, 3, 416, 640]);
        assert_eq!(image_shape(&fixed, Some(1), Some((640, 416))).unwrap().dims(), [1, 3, 416, 640]);
        for (p, batch, size, part) in [
            (&open, None, None, "--imgsz"),
            (&fixed, Some(2), None, "batch 2 was asked for"),
            (&fixed, None, Some((416, 416)), "width 416 was asked for"),
            (&port(&[Fixed(1), Fixed(10)]), None, None, "is no picture"),
        ] {
            let e = image_shape(p, batch, size).unwrap_err().to_string();
            assert!(e.contains(part), "{e}");
        }
    }
}
