use crate::graph::{Dim, Graph, ValueId};
use crate::{Error, Result};
use saltica_tensor::Shape;
use std::collections::BTreeMap;

/// Concrete dims for what the file leaves open: by symbol (`batch`), by whole inputs (`images` is 1x3x640x640), or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings {
    symbols: BTreeMap<String, usize>,
    inputs: BTreeMap<String, Vec<usize>>,
}

impl Bindings {
    /// Nothing is bound: enough for a file whose dims are all numbers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds a symbol.
    pub fn symbol(mut self, name: impl Into<String>, dim: usize) -> Self {
        self.symbols.insert(name.into(), dim);
        self
    }

    /// Binds all dims of an input.
    pub fn input(mut self, name: impl Into<String>, dims: &[usize]) -> Self {
        self.inputs.insert(name.into(), dims.to_vec());
        self
    }

    /// The shape of every input, in the graph's order. Errors on a symbol or an input that the graph does not have, on a
    /// dim that the file fixes to another number, on two numbers for one symbol, and on a dim that stays open.
    pub fn shapes(&self, graph: &Graph) -> Result<Vec<Shape>> {
        let value = |id: &ValueId| graph.value(*id);
        let input_names = || graph.inputs.iter().map(|id| value(id).name.as_str());
        if let Some(name) = self.inputs.keys().find(|n| !input_names().any(|i| i == n.as_str())) {
            return Err(Error::shape(format!(
                "there is no input '{name}'; the model's inputs: {}",
                listed(input_names())
            )));
        }
        let declared: Vec<(&str, &[Dim])> = graph
            .inputs
            .iter()
            .map(|id| (value(id).name.as_str(), value(id).dims.as_deref().unwrap_or_default()))
            .collect();
        let known: BTreeMap<&str, ()> = declared
            .iter()
            .flat_map(|(_, dims)| dims.iter())
            .filter_map(|d| if let Dim::Symbol(s) = d { Some((s.as_str(), ())) } else { None })
            .collect();
        if let Some(symbol) = self.symbols.keys().find(|s| !known.contains_key(s.as_str())) {
            return Err(Error::shape(format!(
                "there is no dimension '{symbol}'; the model's open dimensions: {}",
                listed(known.keys().copied())
            )));
        }

        // A symbol may be bound by name or through an input's dims; all sources must agree.
        let mut symbols: BTreeMap<&str, (usize, String)> =
            self.symbols.iter().map(|(s, d)| (s.as_str(), (*d, "its binding".to_string()))).collect();
        for (id, &(name, dims)) in graph.inputs.iter().zip(&declared) {
            let Some(bound) = self.inputs.get(name) else { continue };
            if value(id).dims.is_some() && dims.len() != bound.len() {
                return Err(Error::shape(format!(
                    "input '{name}' is bound to {bound:?}, rank {} expected: {}",
                    dims.len(),
                    declared_as(dims)
                )));
            }
            for (dim, &b) in dims.iter().zip(bound) {
                match dim {
                    Dim::Fixed(d) if *d != b => {
                        return Err(Error::shape(format!(
                            "input '{name}' is bound to {bound:?}, but the file fixes it to {}",
                            declared_as(dims)
                        )));
                    }
                    Dim::Symbol(s) => {
                        let (first, source) =
                            symbols.entry(s).or_insert_with(|| (b, format!("input '{name}'")));
                        if *first != b {
                            return Err(Error::shape(format!(
                                "dimension '{s}' is {first} by {source} and {b} by input '{name}'"
                            )));
                        }
                    }
                    _ => {}
                }
            }
        }

        let mut shapes = Vec::with_capacity(declared.len());
        for (id, &(name, dims)) in graph.inputs.iter().zip(&declared) {
            let bound = self.inputs.get(name);
            if value(id).dims.is_none() && bound.is_none() {
                return Err(Error::shape(format!(
                    "the file gives no shape for input '{name}': bind the input's dims"
                )));
            }
            let dims: Result<Vec<usize>> = match (value(id).dims.is_some(), bound) {
                (false, Some(bound)) => Ok(bound.clone()),
                _ => (0..dims.len())
                    .map(|i| match (&dims[i], bound) {
                        (Dim::Fixed(d), _) => Ok(*d),
                        (_, Some(bound)) => Ok(bound[i]),
                        (Dim::Symbol(s), None) => {
                            symbols.get(s.as_str()).map(|(d, _)| *d).ok_or_else(|| {
                                Error::shape(format!(
                                    "dimension '{s}' of input '{name}' ({}) is open: bind '{s}' or the input's dims",
                                    declared_as(dims)
                                ))
                            })
                        }
                        (Dim::Unknown, None) => Err(Error::shape(format!(
                            "dimension {i} of input '{name}' ({}) is open and has no name: bind the input's dims",
                            declared_as(dims)
                        ))),
                    })
                    .collect(),
            };
            shapes.push(Shape::new(&dims?)?);
        }
        Ok(shapes)
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn declared_as(dims: &[Dim]) -> String {
    let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
    format!("[{}]", dims.join(", "))
}
