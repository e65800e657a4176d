//! Graphs built in code, node by node.

use crate::Result;
use saltica_models::graph::{Case, Dim, Graph, Node, Op, Value, ValueId};
use saltica_tensor::{DType, Element, Tensor};

/// A graph under construction.
#[derive(Debug)]
pub struct Build {
    graph: Graph,
}

impl Default for Build {
    fn default() -> Self {
        Build { graph: Graph { opset: 17, ..Graph::default() } }
    }
}

impl Build {
    /// Adds an input. A dim is a number or a symbol.
    pub fn input(&mut self, name: &str, dtype: DType, dims: &[&str]) -> Result<ValueId> {
        let dims = dims.iter().map(|d| d.parse().map_or_else(|_| Dim::Symbol(d.to_string()), Dim::Fixed));
        let dims = Some(dims.collect());
        let id = self.graph.add(Value { name: name.into(), dtype: Some(dtype), dims, constant: None })?;
        self.graph.inputs.push(id);
        Ok(id)
    }

    /// Adds a constant.
    pub fn constant<T: Element>(&mut self, dims: &[usize], data: &[T]) -> Result<ValueId> {
        self.tensor(Tensor::from_slice(dims, data)?)
    }

    /// Adds a constant.
    pub fn tensor(&mut self, tensor: Tensor) -> Result<ValueId> {
        let name = format!("c{}", self.graph.values.len());
        Ok(self.graph.add_constant(name, tensor)?)
    }

    /// Adds a node with one output.
    pub fn op(&mut self, op: Op, inputs: &[ValueId]) -> Result<ValueId> {
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        Ok(self.node(op, inputs, 1)?[0])
    }

    /// Adds a node.
    pub fn node(&mut self, op: Op, inputs: Vec<Option<ValueId>>, outputs: usize) -> Result<Vec<ValueId>> {
        let mut made = Vec::with_capacity(outputs);
        for _ in 0..outputs {
            let name = format!("v{}", self.graph.values.len());
            made.push(self.graph.add(Value { name, ..Value::default() })?);
        }
        let name = format!("n{}", self.graph.nodes.len());
        self.graph.nodes.push(Node { name, op, inputs, outputs: made.iter().copied().map(Some).collect() });
        Ok(made)
    }

    /// The graph with these outputs.
    pub fn finish(mut self, outputs: &[ValueId]) -> Graph {
        self.graph.outputs = outputs.to_vec();
        self.graph
    }
}

/// A graph of one node that applies a case's op, and what to feed it: inputs for which `is_constant` holds (by their
/// number) are constants of the graph, all others are its inputs `x0`, `x1` ...
pub fn one_node(case: &Case, is_constant: impl Fn(usize) -> bool) -> Result<(Graph, Vec<(String, Tensor)>)> {
    let mut b = Build::default();
    let (mut inputs, mut fed) = (Vec::new(), Vec::new());
    for (i, tensor) in case.inputs.iter().enumerate() {
        let Some(tensor) = tensor else {
            inputs.push(None);
            continue;
        };
        if is_constant(i) {
            inputs.push(Some(b.tensor(tensor.clone())?));
        } else {
            let dims: Vec<String> = tensor.shape().iter().map(usize::to_string).collect();
            let dims: Vec<&str> = dims.iter().map(String::as_str).collect();
            inputs.push(Some(b.input(&format!("x{i}"), tensor.dtype(), &dims)?));
            fed.push((format!("x{i}"), tensor.clone()));
        }
    }
    let outputs = b.node(case.op.clone(), inputs, case.expected.len())?;
    let mut graph = b.finish(&outputs);
    // Files say what type their outputs have.
    for (id, tensor) in outputs.iter().zip(&case.expected) {
        graph.values[id.index()].dtype = Some(tensor.dtype());
    }
    Ok((graph, fed))
}
