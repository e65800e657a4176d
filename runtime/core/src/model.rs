use crate::{Backend, Error, ErrorKind, Floats, Plan, Result};
use saltica_models::graph::{Dim, Graph, ValueId};
use saltica_models::passes::{self, Bindings, Report, Settled};
use saltica_tensor::{DType, Shape};
use std::fmt;

/// An input or output as the model file declares it.
#[derive(Clone, Debug)]
pub struct Port {
    /// Name in the file.
    pub name: String,
    /// Element type, where it is declared.
    pub dtype: Option<DType>,
    /// Dims, where they are declared; symbols are bound when a plan is made.
    pub dims: Option<Vec<Dim>>,
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.dtype.map_or("?", DType::name))?;
        if let Some(dims) = &self.dims {
            let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
            write!(f, " [{}]", dims.join(", "))?;
        }
        Ok(())
    }
}

/// A loaded model: passes that need no shapes are done, weights are shared by all plans made from it.
#[derive(Clone, Debug)]
pub struct Model {
    graph: Graph,
    report: Report,
}

impl Model {
    /// Prepares a graph for a backend. `optimize = false` keeps every node of the file, for comparing runtimes value by
    /// value.
    pub fn new(mut graph: Graph, backend: &dyn Backend, optimize: bool) -> Result<Model> {
        let mut report = Report::default();
        if backend.floats() != Floats::AsFile {
            passes::widen(&mut graph, &mut report)?;
        }
        if optimize {
            passes::optimize(&mut graph, &mut report)?;
        }
        if backend.floats() == Floats::F16 {
            passes::narrow(&mut graph, &mut report)?;
        }
        Ok(Model { graph, report })
    }

    /// Inputs in the file's order.
    pub fn inputs(&self) -> Vec<Port> {
        self.graph.inputs.iter().map(|&id| self.port(id)).collect()
    }

    /// Outputs in the file's order.
    pub fn outputs(&self) -> Vec<Port> {
        self.graph.outputs.iter().map(|&id| self.port(id)).collect()
    }

    fn port(&self, id: ValueId) -> Port {
        let value = self.graph.value(id);
        Port { name: value.name.clone(), dtype: value.dtype, dims: value.dims.clone() }
    }

    /// The file's metadata, in order.
    pub fn metadata(&self) -> &[(String, String)] {
        &self.graph.metadata
    }

    /// The file's opset.
    pub fn opset(&self) -> u32 {
        self.graph.opset
    }

    /// The graph after the passes that need no shapes.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// What the passes did at load.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The graph with concrete dims.
    pub fn settle(&self, bindings: &Bindings) -> Result<Settled> {
        Ok(passes::settle(&self.graph, bindings, &mut Report::default())?)
    }

    /// Plans for concrete dims. The report also counts what the passes did with the shapes.
    pub fn plan(&self, bindings: &Bindings, backend: &dyn Backend) -> Result<(Plan, Report)> {
        let mut report = self.report.clone();
        let settled = passes::settle(&self.graph, bindings, &mut report)?;
        Ok((backend.plan(settled)?, report))
    }

    /// The bindings that make the model take these input shapes: one shape an input, in the file's order.
    /// Errors name the input and say what it takes.
    pub fn bind(&self, shapes: &[Shape]) -> Result<Bindings> {
        let mut bindings = Bindings::default();
        for (&id, shape) in self.graph.inputs.iter().zip(shapes) {
            let value = self.graph.value(id);
            if let Some(dims) = &value.dims {
                let fits = dims.len() == shape.rank()
                    && dims.iter().zip(shape.iter()).all(|(d, &s)| !matches!(d, Dim::Fixed(f) if *f != s));
                if !fits {
                    return Err(Error::new(
                        ErrorKind::Input,
                        format!("input {} was given {shape}", self.port(id)),
                    ));
                }
            }
            bindings = bindings.input(&value.name, shape);
        }
        Ok(bindings)
    }
}
