//! A graph while it is rewritten: who makes and who reads each value stays known, so that a rewrite costs what it touches.

use crate::graph::{Graph, Node, Op, Value, ValueId};
use crate::{Error, ErrorKind, Result};
use saltica_tensor::Tensor;
use std::collections::{BTreeSet, HashMap, HashSet};

/// A graph under rewriting. Nodes keep their numbers until [`Editor::finish`]; removed ones are skipped.
pub(crate) struct Editor<'g> {
    graph: &'g mut Graph,
    /// Position of each node: an inserted one stands before the node it was made for.
    places: Vec<(usize, usize)>,
    alive: Vec<bool>,
    makers: Vec<Option<usize>>,
    /// For each value who reads it: node and place among its inputs.
    readers: Vec<BTreeSet<(usize, usize)>>,
    /// Places of a value among the graph's outputs.
    output_places: HashMap<ValueId, Vec<usize>>,
    is_input: Vec<bool>,
    names: Option<HashSet<String>>,
}

impl<'g> Editor<'g> {
    pub(crate) fn new(graph: &'g mut Graph) -> Self {
        let n = graph.values.len();
        let mut readers: Vec<BTreeSet<(usize, usize)>> = vec![BTreeSet::new(); n];
        for (i, node) in graph.nodes.iter().enumerate() {
            for (slot, id) in node.inputs.iter().enumerate() {
                id.map(|id| readers[id.index()].insert((i, slot)));
            }
        }
        let mut output_places: HashMap<ValueId, Vec<usize>> = HashMap::new();
        for (k, id) in graph.outputs.iter().enumerate() {
            output_places.entry(*id).or_default().push(k);
        }
        let mut is_input = vec![false; n];
        graph.inputs.iter().for_each(|id| is_input[id.index()] = true);
        Editor {
            places: (0..graph.nodes.len()).map(|i| (i, usize::MAX)).collect(),
            alive: vec![true; graph.nodes.len()],
            makers: graph.producers(),
            readers,
            output_places,
            is_input,
            names: None,
            graph,
        }
    }

    /// Number of nodes, removed ones included.
    pub(crate) fn len(&self) -> usize {
        self.graph.nodes.len()
    }

    /// The node, if it is still there.
    pub(crate) fn node(&self, i: usize) -> Option<&Node> {
        self.alive[i].then(|| &self.graph.nodes[i])
    }

    /// The value with this id.
    pub(crate) fn value(&self, id: ValueId) -> &Value {
        self.graph.value(id)
    }

    /// All values there are now.
    pub(crate) fn value_ids(&self) -> impl Iterator<Item = ValueId> + use<> {
        self.graph.ids()
    }

    /// The constant an input is, if it is present and one.
    pub(crate) fn constant(&self, id: Option<ValueId>) -> Option<&Tensor> {
        self.graph.constant(id)
    }

    /// The node that makes a value.
    pub(crate) fn maker(&self, id: ValueId) -> Option<(usize, &Node)> {
        let i = self.makers[id.index()]?;
        Some((i, self.node(i)?))
    }

    /// Whether any node reads the value.
    pub(crate) fn is_read(&self, id: ValueId) -> bool {
        !self.readers[id.index()].is_empty()
    }

    /// Enters node `i` among the readers of its inputs.
    fn enter(&mut self, i: usize) {
        for (slot, id) in self.graph.nodes[i].inputs.iter().enumerate() {
            id.map(|id| self.readers[id.index()].insert((i, slot)));
        }
    }

    /// Takes node `i`'s inputs away; it reads nothing then.
    fn leave(&mut self, i: usize) -> Vec<Option<ValueId>> {
        let inputs = std::mem::take(&mut self.graph.nodes[i].inputs);
        for (slot, id) in inputs.iter().enumerate() {
            id.map(|id| self.readers[id.index()].remove(&(i, slot)));
        }
        inputs
    }

    pub(crate) fn is_output(&self, id: ValueId) -> bool {
        self.output_places.contains_key(&id)
    }

    /// The one node that reads the value, if it is read once and is no output of the graph.
    pub(crate) fn sole_reader(&self, id: ValueId) -> Option<usize> {
        let readers = &self.readers[id.index()];
        readers.first().filter(|_| readers.len() == 1 && !self.is_output(id)).map(|&(reader, _)| reader)
    }

    /// A name nobody has yet.
    fn fresh_name(&mut self, base: &str) -> String {
        let names =
            self.names.get_or_insert_with(|| self.graph.values.iter().map(|v| v.name.clone()).collect());
        let mut name = base.to_string();
        let mut n = 1;
        while names.contains(&name) {
            n += 1;
            name = format!("{base}_{n}");
        }
        names.insert(name.clone());
        name
    }

    fn add(&mut self, value: Value) -> Result<ValueId> {
        let id = self.graph.add(value)?;
        self.makers.push(None);
        self.readers.push(BTreeSet::new());
        self.is_input.push(false);
        Ok(id)
    }

    /// A new value without a maker.
    pub(crate) fn add_value(&mut self, base: &str) -> Result<ValueId> {
        let name = self.fresh_name(base);
        self.add(Value { name, ..Value::default() })
    }

    /// A new constant.
    pub(crate) fn add_constant(&mut self, base: &str, tensor: Tensor) -> Result<ValueId> {
        let name = self.fresh_name(base);
        self.add(Value { name, dtype: Some(tensor.dtype()), dims: None, constant: Some(tensor) })
    }

    /// A new node that stands before node `before` and after the others that were put there; returns its number.
    pub(crate) fn insert_before(&mut self, before: usize, node: Node) -> usize {
        let i = self.graph.nodes.len();
        for id in node.outputs.iter().flatten() {
            self.makers[id.index()] = Some(i);
        }
        self.places.push((self.places[before].0, i));
        self.alive.push(true);
        self.graph.nodes.push(node);
        self.enter(i);
        i
    }

    /// A new node that stands right behind node `after`.
    pub(crate) fn insert_after(&mut self, after: usize, node: Node) -> usize {
        let i = self.insert_before(after, node);
        // Behind `after` itself, whose place within its group is the last so far.
        self.places[i] = (self.places[after].0, usize::MAX);
        i
    }

    /// Node numbers in the order in which the nodes will stand.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.places.len()).filter(|&i| self.alive[i]).collect();
        order.sort_by_key(|&i| self.places[i]);
        order
    }

    /// A new node with one output, before node `before`; returns the output.
    pub(crate) fn insert_op(
        &mut self,
        before: usize,
        op: Op,
        inputs: Vec<Option<ValueId>>,
        base: &str,
    ) -> Result<ValueId> {
        let out = self.add_value(base)?;
        let name = self.value(out).name.clone();
        self.insert_before(before, Node { name, op, inputs, outputs: vec![Some(out)] });
        Ok(out)
    }

    /// Makes node `i` another op with other inputs; its outputs stay. What nobody reads any more goes.
    pub(crate) fn set_node(&mut self, i: usize, op: Op, inputs: Vec<Option<ValueId>>) {
        let old = self.leave(i);
        let node = &mut self.graph.nodes[i];
        node.op = op;
        node.inputs = inputs;
        self.enter(i);
        old.into_iter().flatten().for_each(|id| self.sweep(id));
    }

    /// Gives node `i` the name under which reports show it.
    pub(crate) fn rename_node(&mut self, i: usize, name: String) {
        self.graph.nodes[i].name = name;
    }

    /// Replaces one input of node `i`.
    pub(crate) fn set_input(&mut self, i: usize, slot: usize, id: ValueId) {
        let old = self.graph.nodes[i].inputs[slot].replace(id);
        if let Some(old) = old {
            self.readers[old.index()].remove(&(i, slot));
        }
        self.readers[id.index()].insert((i, slot));
        old.into_iter().for_each(|old| self.sweep(old));
    }

    /// Swaps in other outputs (same order, same meaning) for node `i`; the old ones have no maker then.
    pub(crate) fn set_outputs(&mut self, i: usize, outputs: Vec<Option<ValueId>>) {
        for id in self.graph.nodes[i].outputs.iter().flatten() {
            self.makers[id.index()] = None;
        }
        for id in outputs.iter().flatten() {
            self.makers[id.index()] = Some(i);
        }
        self.graph.nodes[i].outputs = outputs;
    }

    /// Removes the maker of a value that nobody reads, and what was there for it alone.
    fn sweep(&mut self, id: ValueId) {
        let mut stack = vec![id];
        while let Some(id) = stack.pop() {
            let Some(i) = self.makers[id.index()].filter(|&i| self.alive[i]) else { continue };
            let read = |id: &ValueId| self.is_output(*id) || self.is_read(*id);
            if self.graph.nodes[i].outputs.iter().flatten().any(read) {
                continue;
            }
            self.alive[i] = false;
            stack.extend(self.leave(i).into_iter().flatten());
        }
    }

    /// Whether [`Editor::replace`] would succeed.
    pub(crate) fn replaceable(&self, old: ValueId, new: ValueId) -> bool {
        !self.is_output(old)
            || !(self.is_output(new) || self.is_input[new.index()] || self.value(new).constant.is_some())
    }

    /// Makes everybody who reads `old` read `new`. If `old` is an output of the graph, `new` takes its name and its place;
    /// that cannot be if `new` is itself an input, an output or a constant: nothing changes then, and the answer is false.
    pub(crate) fn replace(&mut self, old: ValueId, new: ValueId) -> bool {
        if old == new || !self.replaceable(old, new) {
            return false;
        }
        if self.is_output(old) {
            let places = self.output_places.remove(&old).unwrap_or_default();
            places.iter().for_each(|&k| self.graph.outputs[k] = new);
            self.output_places.insert(new, places);
            // The interface's name, dtype and dims belong to the output, whoever makes it.
            let [o, n] = [old.index(), new.index()];
            let name = std::mem::take(&mut self.graph.values[o].name);
            self.graph.values[o].name = std::mem::replace(&mut self.graph.values[n].name, name);
            self.graph.values[n].dtype = self.graph.values[o].dtype;
            self.graph.values[n].dims = self.graph.values[o].dims.clone();
        }
        self.redirect(old, new);
        self.sweep(old);
        true
    }

    /// Makes every node that reads `old` read `new`. The graph's outputs stay.
    pub(crate) fn redirect(&mut self, old: ValueId, new: ValueId) {
        for (i, slot) in std::mem::take(&mut self.readers[old.index()]) {
            self.graph.nodes[i].inputs[slot] = Some(new);
            self.readers[new.index()].insert((i, slot));
        }
    }

    /// Makes a value a constant; its maker goes if nobody reads its other outputs.
    pub(crate) fn make_constant(&mut self, id: ValueId, tensor: Tensor) {
        self.graph.values[id.index()].dtype = Some(tensor.dtype());
        self.graph.values[id.index()].constant = Some(tensor);
        if let Some(i) = self.makers[id.index()].take() {
            for out in self.graph.nodes[i].outputs.iter_mut().filter(|out| **out == Some(id)) {
                *out = None;
            }
            // Any remaining output stands for the node; with none left it goes as well.
            if self.graph.nodes[i].outputs.iter().all(Option::is_none) {
                self.alive[i] = false;
                let inputs = self.leave(i);
                inputs.into_iter().flatten().for_each(|id| self.sweep(id));
            }
        }
    }

    /// Puts the nodes in order again and drops what nobody needs. Errors if a rewrite made a cycle (a bug of a pass).
    pub(crate) fn finish(self) -> Result<()> {
        let mut nodes: Vec<_> = self
            .places
            .into_iter()
            .zip(std::mem::take(&mut self.graph.nodes))
            .zip(self.alive)
            .filter_map(|(placed, alive)| alive.then_some(placed))
            .collect();
        nodes.sort_by_key(|(place, _)| *place);
        self.graph.nodes = nodes.into_iter().map(|(_, node)| node).collect();
        self.graph.sort().map_err(|e| Error::new(ErrorKind::Malformed, format!("after a pass: {e}")))?;
        self.graph.prune();
        Ok(())
    }
}
