//! Values, nodes and the graph they form.
//!
//! A graph is loaded with symbolic dims (`batch`, `height`); passes that need no shapes work on it as it is.
//! Shapes end at load: binding the inputs' dims gives every value a concrete shape (see the plan in `saltica-core`).

mod activation;
pub mod attrs;
mod interpret;
pub mod ops;

pub use activation::Activation;
pub use ops::{Case, Conv, Fact, Op, OutFact, Residual, Tolerance};

use crate::{Error, ErrorKind, Result};
use saltica_tensor::{DType, Tensor};
use std::fmt;

/// Index of a value in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(u32);

impl ValueId {
    /// Position in [`Graph::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// An id past all values of a graph with `len` values, for a buffer that is no value of the graph.
    pub fn virtual_output(len: usize, k: usize) -> Result<ValueId> {
        u32::try_from(len + k)
            .map(ValueId)
            .map_err(|_| Error::new(ErrorKind::Limit, "more than 2^32 values in a graph"))
    }
}

/// One dimension of a graph input or output as the file declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    /// A number.
    Fixed(usize),
    /// A named dimension, bound at load (`batch`, `height`).
    Symbol(String),
    /// Nothing is declared.
    Unknown,
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Fixed(d) => write!(f, "{d}"),
            Dim::Symbol(s) => f.write_str(s),
            Dim::Unknown => f.write_str("?"),
        }
    }
}

/// A value: a tensor that flows, or a constant.
#[derive(Clone, Debug, Default)]
pub struct Value {
    /// Unique name (the file's, or derived by a pass).
    pub name: String,
    /// Declared dtype, where the file says it.
    pub dtype: Option<DType>,
    /// Declared dims, where the file says them.
    pub dims: Option<Vec<Dim>>,
    /// The numbers, if it is a constant.
    pub constant: Option<Tensor>,
}

/// An application of an op.
#[derive(Clone, Debug)]
pub struct Node {
    /// The file's name for it, or its first output's.
    pub name: String,
    /// The op with its attributes.
    pub op: Op,
    /// Inputs in the op's order; `None` for an absent optional one.
    pub inputs: Vec<Option<ValueId>>,
    /// Outputs in the op's order; `None` where nobody asked for an optional one.
    pub outputs: Vec<Option<ValueId>>,
}

/// A model: values and nodes in an order that runs.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Name given by the exporter.
    pub name: String,
    /// Opset of the default domain.
    pub opset: u32,
    /// All values.
    pub values: Vec<Value>,
    /// All nodes, each after the nodes whose outputs it reads.
    pub nodes: Vec<Node>,
    /// Inputs in the file's order (initializers that are also listed as inputs are constants, not inputs).
    pub inputs: Vec<ValueId>,
    /// Outputs in the file's order.
    pub outputs: Vec<ValueId>,
    /// The file's `metadata_props`, in order, and the producer's name and version under `producer`.
    pub metadata: Vec<(String, String)>,
}

impl Graph {
    /// The value with this id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// The ids of all values there are now.
    pub fn ids(&self) -> impl Iterator<Item = ValueId> + use<> {
        (0..self.values.len() as u32).map(ValueId)
    }

    /// Adds a value. Errors past 2^32 - 1 values.
    pub fn add(&mut self, value: Value) -> Result<ValueId> {
        let id = u32::try_from(self.values.len())
            .map_err(|_| Error::new(ErrorKind::Limit, "more than 2^32 values in a graph"))?;
        self.values.push(value);
        Ok(ValueId(id))
    }

    /// Adds a constant.
    pub fn add_constant(&mut self, name: impl Into<String>, tensor: Tensor) -> Result<ValueId> {
        self.add(Value { name: name.into(), dtype: Some(tensor.dtype()), dims: None, constant: Some(tensor) })
    }

    /// The constant an input is, if it is present and one.
    pub fn constant(&self, id: Option<ValueId>) -> Option<&Tensor> {
        self.value(id?).constant.as_ref()
    }

    /// For each value: the node that makes it (constants and inputs have none).
    pub fn producers(&self) -> Vec<Option<usize>> {
        let mut producers = vec![None; self.values.len()];
        for (i, node) in self.nodes.iter().enumerate() {
            for id in node.outputs.iter().flatten() {
                producers[id.index()] = Some(i);
            }
        }
        producers
    }

    /// For each value: how often it is read by nodes, plus one for being an output.
    pub fn uses(&self) -> Vec<usize> {
        let mut uses = vec![0; self.values.len()];
        let reads = self.nodes.iter().flat_map(|n| n.inputs.iter().flatten());
        for id in reads.chain(&self.outputs) {
            uses[id.index()] += 1;
        }
        uses
    }

    /// Puts nodes in an order that runs (stable: keeps the file's order where it can). Errors on a cycle, on a value made
    /// twice, and on a value that nobody makes; each names the value.
    pub fn sort(&mut self) -> Result<()> {
        let malformed = |what: String| Error::new(ErrorKind::Malformed, what);
        let mut given: Vec<bool> = self.values.iter().map(|v| v.constant.is_some()).collect();
        for id in &self.inputs {
            given[id.index()] = true;
        }
        let mut made_by: Vec<Option<usize>> = vec![None; self.values.len()];
        for (i, node) in self.nodes.iter().enumerate() {
            for id in node.outputs.iter().flatten() {
                if made_by[id.index()].replace(i).is_some() || given[id.index()] {
                    return Err(malformed(format!("value '{}' is made twice", self.value(*id).name)));
                }
            }
        }
        let orphan = self.nodes.iter().flat_map(|n| n.inputs.iter().flatten()).chain(&self.outputs);
        if let Some(id) = orphan.into_iter().find(|id| made_by[id.index()].is_none() && !given[id.index()]) {
            return Err(malformed(format!("value '{}' is read but nothing makes it", self.value(*id).name)));
        }
        // Kahn's algorithm with a heap of node numbers, so that an already sorted list stays as it is.
        let mut waiting = vec![0usize; self.nodes.len()];
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (i, node) in self.nodes.iter().enumerate() {
            for maker in node.inputs.iter().flatten().filter_map(|id| made_by[id.index()]) {
                waiting[i] += 1;
                readers[maker].push(i);
            }
        }
        let mut ready: std::collections::BinaryHeap<_> =
            (0..self.nodes.len()).filter(|&i| waiting[i] == 0).map(std::cmp::Reverse).collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(std::cmp::Reverse(i)) = ready.pop() {
            order.push(i);
            for &r in &readers[i] {
                waiting[r] -= 1;
                if waiting[r] == 0 {
                    ready.push(std::cmp::Reverse(r));
                }
            }
        }
        if order.len() < self.nodes.len() {
            let stuck = (0..self.nodes.len()).find(|&i| waiting[i] > 0).unwrap_or_default();
            return Err(malformed(format!(
                "the graph has a cycle through node '{}'",
                self.nodes[stuck].name
            )));
        }
        let mut nodes: Vec<Option<Node>> = std::mem::take(&mut self.nodes).into_iter().map(Some).collect();
        self.nodes = order.into_iter().filter_map(|i| nodes[i].take()).collect();
        Ok(())
    }

    /// Makes every reader of `old` (and the graph's outputs) read `new` instead.
    pub fn replace_uses(&mut self, old: ValueId, new: ValueId) {
        let reads = self.nodes.iter_mut().flat_map(|n| n.inputs.iter_mut().flatten());
        for id in reads.chain(&mut self.outputs) {
            if *id == old {
                *id = new;
            }
        }
    }

    /// Drops nodes none of whose outputs is read. Value ids stay valid; constants nobody reads give up their numbers.
    pub fn prune(&mut self) {
        let mut needed = vec![false; self.values.len()];
        for id in &self.outputs {
            needed[id.index()] = true;
        }
        let mut keep = vec![false; self.nodes.len()];
        for (i, node) in self.nodes.iter().enumerate().rev() {
            keep[i] = node.outputs.iter().flatten().any(|id| needed[id.index()]);
            if keep[i] {
                for id in node.inputs.iter().flatten() {
                    needed[id.index()] = true;
                }
            }
        }
        let mut keep = keep.into_iter();
        self.nodes.retain(|_| keep.next().unwrap_or(true));
        for (value, needed) in self.values.iter_mut().zip(needed) {
            if !needed {
                value.constant = None;
            }
        }
    }
}
