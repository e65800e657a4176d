use crate::{Backend, Error, ErrorKind, Executor, Model, Port, Result};
use saltica_models::graph::Graph;
use saltica_models::onnx;
use saltica_models::passes::{Bindings, rebatch};
use saltica_tensor::{Shape, Tensor};
use std::path::Path;
use std::sync::Arc;

/// How a session works.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Run the passes (fusion, folding). Off, every value of the file exists: for comparing runtimes value by value.
    pub optimize: bool,
    /// Open the batch of a file that was exported for one picture, so that plans for any batch can be made; see
    /// [`saltica_models::passes::rebatch`]. A file that cannot be opened is an error then.
    pub open_batch: bool,
    /// Most bytes that weights and all kept arenas and scratch blocks may take. A plan that exceeds it alone is refused.
    pub memory_limit: Option<usize>,
    /// Executors kept for different input shapes; the least recently used goes first.
    pub cached_shapes: usize,
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions { optimize: true, open_batch: false, memory_limit: None, cached_shapes: 4 }
    }
}

/// A model ready to run on a backend, with an executor for each shape in use.
pub struct Session {
    model: Arc<Model>,
    backend: Arc<dyn Backend>,
    options: SessionOptions,
    /// Most recently used last.
    executors: Vec<(Bindings, Executor)>,
}

impl Session {
    /// Loads an ONNX file. Errors name what is wrong with the file.
    pub fn load(path: &Path, backend: Arc<dyn Backend>, options: SessionOptions) -> Result<Session> {
        Self::from_graph(onnx::load(path)?, backend, options)
    }

    /// A session on a graph that was read already.
    pub fn from_graph(
        mut graph: Graph,
        backend: Arc<dyn Backend>,
        options: SessionOptions,
    ) -> Result<Session> {
        if options.open_batch {
            rebatch(&mut graph)?;
        }
        let model = Arc::new(Model::new(graph, backend.as_ref(), options.optimize)?);
        Ok(Self::of_model(model, backend, options))
    }

    /// Another session on a model that is loaded: it shares the weights.
    pub fn of_model(model: Arc<Model>, backend: Arc<dyn Backend>, options: SessionOptions) -> Session {
        Session { model, backend, options, executors: Vec::new() }
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The backend.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// The executor for these dims: planned at the first call, then kept. Errors if the plan needs more than the memory
    /// limit, with the arithmetic.
    pub fn executor(&mut self, bindings: &Bindings) -> Result<&mut Executor> {
        match self.executors.iter().position(|(b, _)| b == bindings) {
            Some(at) => {
                // Rotates in place: a run with a known shape allocates nothing.
                self.executors[at..].rotate_left(1);
            }
            None => {
                let (plan, _) = self.model.plan(bindings, self.backend.as_ref())?;
                self.admit(&plan.report)?;
                // The least recently used go until there is room; a plan that was refused has cost none of them.
                while self.executors.len() >= self.options.cached_shapes.max(1)
                    || (!self.executors.is_empty() && !self.fits_beside(&plan.report))
                {
                    self.executors.remove(0);
                }
                self.executors.push((bindings.clone(), plan.load()?));
            }
        }
        match self.executors.last_mut() {
            Some((_, executor)) => Ok(executor),
            None => Err(Error::new(ErrorKind::Internal, "no executor was kept")),
        }
    }

    /// Whether a plan fits the limit beside the executors that are kept. Weights are shared and count once.
    fn fits_beside(&self, report: &crate::PlanReport) -> bool {
        let work = |r: &crate::PlanReport| r.arena_bytes.saturating_add(r.scratch_bytes);
        let kept = self.executors.iter().fold(0usize, |sum, (_, e)| sum.saturating_add(work(e.report())));
        self.options.memory_limit.is_none_or(|limit| report.total_bytes().saturating_add(kept) <= limit)
    }

    fn admit(&self, report: &crate::PlanReport) -> Result<()> {
        let Some(limit) = self.options.memory_limit else { return Ok(()) };
        let total = report.total_bytes();
        if total <= limit {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Budget,
            format!(
                "the plan needs {total} bytes ({} weights + {} arena + {} scratch), the limit is {limit}: \
                 use a smaller input or batch, or raise the limit",
                report.weight_bytes, report.arena_bytes, report.scratch_bytes
            ),
        ))
    }

    /// Runs on named tensors; every input must be given once. Returns all outputs by name, in the file's order.
    pub fn run(&mut self, inputs: &[(&str, &Tensor)]) -> Result<Vec<(String, Tensor)>> {
        let tensors = self.arrange(inputs)?;
        let shapes: Vec<Shape> = tensors.iter().map(|t| *t.shape()).collect();
        let bindings = self.model.bind(&shapes)?;
        let names: Vec<String> = self.model.outputs().into_iter().map(|p| p.name).collect();
        let executor = self.executor(&bindings)?;
        for (i, tensor) in tensors.iter().enumerate() {
            executor.input_mut(i)?.copy_from(&tensor.view());
        }
        executor.run()?;
        names.into_iter().enumerate().map(|(i, name)| Ok((name, executor.output(i)?.to_tensor()?))).collect()
    }

    /// The inputs in the file's order, with the declared dtypes.
    pub fn arrange<'t>(&self, inputs: &[(&str, &'t Tensor)]) -> Result<Vec<&'t Tensor>> {
        let ports = self.model.inputs();
        let known = || ports.iter().map(Port::to_string).collect::<Vec<_>>().join(", ");
        if let Some((name, _)) = inputs.iter().find(|(name, _)| !ports.iter().any(|p| p.name == *name)) {
            return Err(Error::new(
                ErrorKind::Input,
                format!("no input is named '{name}'; the model takes {}", known()),
            ));
        }
        ports
            .iter()
            .map(|port| {
                let mut given = inputs.iter().filter(|(name, _)| port.name == *name);
                let (Some((_, tensor)), None) = (given.next(), given.next()) else {
                    return Err(Error::new(
                        ErrorKind::Input,
                        format!(
                            "input '{}' must be given exactly once; the model takes {}",
                            port.name,
                            known()
                        ),
                    ));
                };
                match port.dtype {
                    Some(dtype) if dtype != tensor.dtype() => Err(Error::new(
                        ErrorKind::Input,
                        format!("input {port} was given {} numbers", tensor.dtype()),
                    )),
                    _ => Ok(*tensor),
                }
            })
            .collect()
    }
}
