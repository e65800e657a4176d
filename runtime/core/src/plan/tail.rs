use crate::{Error, ErrorKind, Result};
use saltica_models::graph::{Graph, Node, ValueId};
use saltica_tensor::{Slot, Tensor, View};
use std::collections::HashMap;

/// The dynamic tail: nodes whose shapes depend on values. They are interpreted, one by one, by their reference kernels, on
/// tensors of their own, after the planned steps.
pub struct Tail {
    nodes: Vec<Node>,
    inputs: Vec<(ValueId, Slot)>,
    values: HashMap<ValueId, Tensor>,
    /// Names, and the constants that the nodes read.
    graph: Graph,
}

impl Tail {
    pub(super) fn new(nodes: Vec<Node>, inputs: Vec<(ValueId, Slot)>, mut graph: Graph) -> Tail {
        // Kernels and executors hold what they read; of the graph's constants only the tail's are still needed.
        let reads: Vec<ValueId> = nodes
            .iter()
            .flat_map(|n| n.inputs.iter().flatten().copied())
            .chain(graph.outputs.clone())
            .collect();
        for (i, value) in graph.values.iter_mut().enumerate() {
            if !reads.iter().any(|id| id.index() == i) {
                value.constant = None;
            }
        }
        Tail { nodes, inputs, values: HashMap::new(), graph }
    }

    /// Whether there is nothing to interpret.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The places of what it reads, which must be handed over by [`Self::run`]'s `read`.
    pub fn inputs(&self) -> impl Iterator<Item = &Slot> {
        self.inputs.iter().map(|(_, slot)| slot)
    }

    /// Interprets every node on what `read` gives for the slots of [`Self::inputs`]. Errors name the node.
    pub fn run(&mut self, mut read: impl FnMut(&Slot) -> Result<Tensor>) -> Result<()> {
        if self.nodes.is_empty() {
            return Ok(());
        }
        self.values.clear();
        for (id, slot) in &self.inputs {
            self.values.insert(*id, read(slot)?);
        }
        for node in &self.nodes {
            let inputs: Vec<Option<&Tensor>> = node
                .inputs
                .iter()
                .map(|id| id.and_then(|id| self.values.get(&id).or_else(|| self.graph.constant(Some(id)))))
                .collect();
            let made = node
                .op
                .evaluate(&inputs)
                .map_err(|e| Error::new(ErrorKind::Run, e.in_node(&node.name, node.op.name()).to_string()))?;
            for (id, tensor) in node.outputs.iter().zip(made) {
                if let Some(id) = id {
                    self.values.insert(*id, tensor);
                }
            }
        }
        Ok(())
    }

    /// A value of the last run.
    pub fn value(&self, id: ValueId) -> Result<View<'_>> {
        self.values
            .get(&id)
            .map(Tensor::view)
            .ok_or_else(|| Error::new(ErrorKind::Run, "an output was read before the first run"))
    }

    /// Every value of the last run with its name, in order.
    pub fn made(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.nodes
            .iter()
            .flat_map(|n| n.outputs.iter().flatten())
            .filter_map(|id| Some((self.graph.value(*id).name.as_str(), self.values.get(id)?)))
    }
}
