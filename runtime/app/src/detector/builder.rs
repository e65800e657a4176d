use super::{Detector, MAX_OUTPUTS};
use crate::session::{BackendKind, Session, SessionBuilder, image_shape};
use crate::{Error, ErrorKind, Result};
use saltica_core::Profile;
use saltica_models::onnx::Bytes;
use saltica_tensor::{DType, storage::MappedFile};
use saltica_vision::spec::sha256_hex;
use saltica_vision::{Head, ModelSpec, OutputInfo, Preprocessor};
use std::path::Path;

/// How a detector is loaded. What is not said comes from the description file beside the model, from the table of known
/// public models, from the model's own metadata, or from its head's defaults, in this order.
#[derive(Clone, Debug, Default)]
pub struct DetectorBuilder {
    session: SessionBuilder,
    spec: ModelSpec,
    classes: Vec<String>,
    agnostic: bool,
    multi_label: bool,
    unclipped: bool,
    strict: bool,
}

impl DetectorBuilder {
    /// Boxes with a score above this count (0 to 1).
    pub fn conf(mut self, conf: f32) -> Self {
        self.spec.conf = Some(conf);
        self
    }

    /// Of two boxes of a class that overlap by more than this the weaker goes (intersection over union, 0 to 1).
    pub fn iou(mut self, iou: f32) -> Self {
        self.spec.iou = Some(iou);
        self
    }

    /// Most objects in one picture.
    pub fn max_det(mut self, count: usize) -> Self {
        self.spec.max_det = Some(count);
        self
    }

    /// Only these classes, by name or number.
    pub fn classes(mut self, classes: &[impl AsRef<str>]) -> Self {
        self.classes = classes.iter().map(|c| c.as_ref().to_owned()).collect();
        self
    }

    /// Boxes of different classes suppress each other, too.
    pub fn agnostic(mut self, agnostic: bool) -> Self {
        self.agnostic = agnostic;
        self
    }

    /// Every class above the threshold of a box counts, not its best one alone.
    pub fn multi_label(mut self, multi_label: bool) -> Self {
        self.multi_label = multi_label;
        self
    }

    /// Whether boxes end at the picture's edges (they do unless told otherwise). Off only to compare with programs that
    /// leave them sticking out.
    pub fn clip(mut self, clip: bool) -> Self {
        self.unclipped = !clip;
        self
    }

    /// Width and height of the model's input, where the file leaves them open.
    pub fn size(mut self, width: usize, height: usize) -> Self {
        self.spec.size = Some((width, height));
        self
    }

    /// A description of the model; what was said before it by other methods of this builder stands.
    pub fn spec(mut self, spec: ModelSpec) -> Self {
        self.spec = self.spec.or(spec);
        self
    }

    /// Name of the head, where shapes alone do not tell it.
    pub fn head(mut self, head: impl Into<String>) -> Self {
        self.spec.head = Some(head.into());
        self
    }

    /// Class names.
    pub fn labels(mut self, labels: saltica_vision::Labels) -> Self {
        self.spec.labels = Some(labels);
        self
    }

    /// Threads; all that this process may use unless told otherwise.
    pub fn threads(mut self, threads: usize) -> Self {
        self.session = self.session.threads(threads);
        self
    }

    /// What computes.
    pub fn backend(mut self, backend: BackendKind) -> Self {
        self.session = self.session.backend(backend);
        self
    }

    /// Whether to open the batch of a file that was exported for one picture; see
    /// [`SessionBuilder::open_batch`](crate::session::SessionBuilder::open_batch).
    pub fn open_batch(mut self, open: bool) -> Self {
        self.session = self.session.open_batch(open);
        self
    }

    /// Most bytes that weights, arena and scratch of one plan may take together.
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.session = self.session.memory_limit(bytes);
        self
    }

    /// Makes a fallback an error: an op that runs on its plain reference kernel though another backend was asked for.
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self.session = self.session.strict(strict);
        self
    }

    /// Loads the model, finds out what its tensors mean and plans a run on one picture.
    ///
    /// # Errors
    /// A file that cannot be read or has unsupported ops; a model that takes no picture; a head that is not clear, with
    /// the flag to give; a class that the model does not know; with `strict`, a fallback.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<Detector> {
        let path = path.as_ref();
        let session = self.session.load(path)?;
        let hash = MappedFile::open(path).ok().map(|f| sha256_hex(f.as_ref()));
        self.build(session, hash).map_err(|e| {
            // Loading names the file itself.
            let shown = path.display().to_string();
            if e.to_string().contains(&shown) { e } else { Error::new(e.kind(), format!("{shown}: {e}")) }
        })
    }

    /// As [`Self::load`], for an ONNX model that is in memory. Its tensors must all be inside.
    pub fn load_bytes(&self, model: impl Into<Bytes>) -> Result<Detector> {
        let model = model.into();
        let hash = sha256_hex(&model);
        self.build(self.session.load_bytes(model)?, Some(hash))
    }

    fn build(&self, mut session: Session, hash: Option<String>) -> Result<Detector> {
        let inputs = session.inputs();
        let [port] = &inputs[..] else {
            let all: Vec<String> = inputs.iter().map(ToString::to_string).collect();
            return Err(Error::new(
                ErrorKind::Model,
                format!(
                    "{} inputs found ({}), one picture expected; `saltica infer` runs any model",
                    all.len(),
                    all.join(", ")
                ),
            ));
        };
        let model = session.core().model().clone();
        let metadata = model.metadata().iter().map(|(k, v)| (k.as_str(), v.as_str()));
        let spec = ModelSpec::gather(self.spec.clone(), session.path(), hash.as_deref(), metadata)?;
        // A description may hold a size for models that leave it open; where the file fixes one, that stands.
        let asked = self.spec.size.or(spec.size.filter(|_| image_shape(port, None, None).is_err()));
        let shape = image_shape(port, None, asked)?;
        let [_, channels, height, width] = shape.dims() else {
            return Err(Error::new(ErrorKind::Model, format!("input {port} is no picture")));
        };
        if *channels != 3 {
            return Err(Error::new(
                ErrorKind::Model,
                format!("input {port} has {channels} channels, pictures have 3 (batch, 3, height, width)"),
            ));
        }
        if let Some(stride) = spec.stride.filter(|s| height % s != 0 || width % s != 0) {
            return Err(Error::new(
                ErrorKind::Usage,
                format!(
                    "an input of {width}x{height} was asked for, both must be multiples of {stride}: change --imgsz"
                ),
            ));
        }
        let size = (*width, *height);
        let names: Vec<String> = session.outputs().into_iter().map(|p| p.name).collect();
        if names.is_empty() || names.len() > MAX_OUTPUTS {
            return Err(Error::new(
                ErrorKind::Model,
                format!("{} outputs found, 1 to {MAX_OUTPUTS} expected", names.len()),
            ));
        }
        let bindings = session.core().model().bind(&[shape])?;
        let executor = session.core().executor(&bindings)?;
        let facts = names.iter().enumerate().map(|(i, name)| {
            executor.output_fact(i).ok_or_else(|| {
                Error::new(
                    ErrorKind::Model,
                    format!("output {name} has another shape each time (its suppression is inside the model): export it without"),
                )
            })
        });
        let facts = facts.collect::<Result<Vec<_>>>()?;
        let outputs: Vec<OutputInfo<'_>> = names
            .iter()
            .zip(&facts)
            .map(|(name, f)| OutputInfo { name, dtype: f.dtype, dims: f.shape.dims() })
            .collect();
        let head = Head::recognise(spec, size, &outputs)?;
        if self.strict {
            refuse_fallbacks(executor, &self.session)?;
        }
        let dtype = executor.input_fact(0).map_or(DType::F32, |f| f.dtype);
        let mut params = head.params();
        params.agnostic = self.agnostic;
        params.multi_label = self.multi_label;
        params.clip = !self.unclipped;
        params.classes = self.classes.iter().map(|c| class_number(c, &head)).collect::<Result<_>>()?;
        let preprocessor = Preprocessor::new(head.spec().input_spec(), size, dtype)?;
        let port = port.clone();
        let batch = shape.dims()[0];
        Ok(Detector {
            session,
            head,
            params,
            preprocessor,
            port,
            bindings: vec![(batch, bindings)],
            geometries: Vec::new(),
        })
    }
}

/// A class by name or number.
pub(crate) fn class_number(class: &str, head: &Head) -> Result<u32> {
    if let Some(found) = head.labels().and_then(|l| l.find(class)) {
        return Ok(found);
    }
    let count = head.classes();
    match class.parse::<u32>() {
        Ok(n) if count.is_none_or(|c| (n as usize) < c) => Ok(n),
        Ok(n) => Err(Error::new(
            ErrorKind::Usage,
            format!(
                "class {n} was asked for, the model has the classes 0 to {}",
                count.unwrap_or(1).saturating_sub(1)
            ),
        )),
        Err(_) => {
            let known = head.labels().map_or_else(
                || "it has no class names: give numbers, or names with --labels".to_owned(),
                |l| format!("it has {}", l.names().join(", ")),
            );
            Err(Error::new(ErrorKind::Usage, format!("the model has no class {class:?}; {known}")))
        }
    }
}

/// Runs once to see which kernels are used; errors if the CPU backend had to take reference kernels.
fn refuse_fallbacks(executor: &mut saltica_core::Executor, session: &SessionBuilder) -> Result<()> {
    let mut profile = Profile::default();
    executor.run_profiled(&mut profile)?;
    let slow: Vec<String> = profile
        .steps
        .iter()
        .filter(|s| s.kernel.starts_with("reference"))
        .map(|s| format!("{} ({})", s.op, s.name))
        .collect();
    if slow.is_empty() || session.is_reference() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Strict,
        format!(
            "{} steps have no fast kernel and would run on the reference one: {}",
            slow.len(),
            slow.join(", ")
        ),
    ))
}
