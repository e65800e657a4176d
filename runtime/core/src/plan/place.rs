//! Where every value lies: which buffer, at which offset, with which strides.
//!
//! Three ways to have a place:
//! * a *root* owns a buffer;
//! * a *view* (reshape, transpose, slice, split, ...) is a window on its source's place;
//! * a *home*: the input of a concat is computed right inside the concat's buffer, so that the concat costs nothing.
//!
//! First every value gets the layout it would like (forward). Then concats hand out homes, consumers before producers, so
//! that nested concats collapse into one buffer. A last forward pass fixes the places; a view that its source's strides
//! cannot express becomes a step that copies.

use super::views::{ViewMap, view_map};
use crate::LayoutChoice;
use saltica_models::graph::{Graph, Op, OutFact, ValueId};
use saltica_tensor::{Layout, MAX_RANK, Shape};

/// A window on a root's buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The value that owns the buffer.
    pub root: ValueId,
    /// Elements from the buffer's start.
    pub offset: usize,
    /// Shape and strides.
    pub layout: Layout,
}

impl Place {
    /// Whether both name the same elements in the same order. The stride of a dim of size 1 says nothing.
    fn is_same(&self, other: &Place) -> bool {
        let strides =
            self.layout.strides().iter().zip(other.layout.strides()).zip(self.layout.shape().iter());
        self.root == other.root
            && self.offset == other.offset
            && self.layout.shape() == other.layout.shape()
            && strides.into_iter().all(|((a, b), &d)| d <= 1 || a == b)
    }
}

/// The outcome, indexed like the graph's values and nodes.
pub(super) struct Places {
    /// Place of each value; `None` for constants, dynamic values and values nobody makes.
    pub values: Vec<Option<Place>>,
    /// Whether a node is done by its outputs' places alone.
    pub free: Vec<bool>,
    /// For each concat node: the inputs that must be copied into its buffer (input index, place of the part).
    pub copies: Vec<Vec<(usize, Place)>>,
}

impl Places {
    /// Whether a place is all of its root, so that what lies between its pixels belongs to no other value. A root that is
    /// no value of the graph (a copy made for the caller) has one place.
    pub(super) fn owns(&self, place: &Place) -> bool {
        match self.values.get(place.root.index()) {
            Some(root) => root.is_some_and(|root| root.is_same(place)),
            None => true,
        }
    }
}

/// See [`crate::Compiler::layout`].
type LayoutRule<'a> = &'a dyn Fn(&Op, &[Option<OutFact>], OutFact) -> LayoutChoice;

/// What placing asks of a device.
pub(super) struct Rules<'a> {
    /// How output 0 of an op should lie.
    pub layout: LayoutRule<'a>,
    /// See [`crate::Compiler::conv_input`].
    pub conv_input: &'a dyn Fn(OutFact) -> Option<usize>,
}

struct Placer<'a> {
    graph: &'a Graph,
    facts: &'a [Option<OutFact>],
    rules: &'a Rules<'a>,
    /// Layout each value would like.
    wish: Vec<Option<Layout>>,
    /// Whether the wish asks for spare channels between pixels.
    spare: Vec<bool>,
    /// Home of a root: the parent value, elements from the parent's first element, layout.
    home: Vec<Option<(ValueId, usize, Layout)>>,
    is_output: Vec<bool>,
    producers: Vec<Option<usize>>,
    /// For each value: the nodes whose first input it is.
    viewers: Vec<Vec<usize>>,
}

/// The view a node makes of its first input, per output; `None` if it is no view.
fn view_of(
    graph: &Graph,
    facts: &[Option<OutFact>],
    node: usize,
    output: usize,
) -> Option<(ValueId, ViewMap)> {
    let node = &graph.nodes[node];
    let source = node.inputs.first().copied().flatten()?;
    // A view of a constant would have been folded; what is left is too large to fold and is made by a kernel.
    if graph.value(source).constant.is_some() {
        return None;
    }
    let id = node.outputs.get(output).copied().flatten()?;
    let out = facts[id.index()]?;
    let input = facts[source.index()]?;
    if input.dtype != out.dtype {
        return None;
    }
    Some((source, view_map(graph, facts, node, input.shape, output, out.shape)?))
}

/// A layout of `shape` whose dims lie in the same order in memory as those of `like` (equal rank).
fn ordered_like(shape: Shape, like: &Layout) -> Option<Layout> {
    let rank = shape.rank();
    if like.shape().rank() != rank {
        return None;
    }
    let mut order: Vec<usize> = (0..rank).collect();
    // Outermost first; dims of size 1 say nothing about order, so ties and they keep the logical order.
    order.sort_by_key(|&d| {
        std::cmp::Reverse(if like.shape()[d] == 1 { usize::MAX } else { like.strides()[d] })
    });
    let mut strides = [0; MAX_RANK];
    let mut s = 1;
    for &d in order.iter().rev() {
        strides[d] = s;
        s *= shape[d].max(1);
    }
    Layout::strided(shape, &strides[..rank]).ok()
}

impl Placer<'_> {
    fn shape(&self, id: ValueId) -> Option<Shape> {
        self.facts[id.index()].map(|f| f.shape)
    }

    /// The layouts that values would like, producers before consumers.
    fn wishes(&mut self) {
        // Pixel stride that a convolution which reads the value would like.
        let mut conv_input = vec![None; self.graph.values.len()];
        for node in &self.graph.nodes {
            if let (Op::Conv(_) | Op::QuantConv(_) | Op::ConvInteger(_), Some(Some(x))) =
                (&node.op, node.inputs.first())
            {
                let images = self.facts[x.index()].filter(|f| f.shape.rank() == 4);
                conv_input[x.index()] = images.and_then(|f| (self.rules.conv_input)(f));
            }
        }
        for &id in &self.graph.inputs {
            self.wish[id.index()] = self.shape(id).map(Layout::contiguous);
        }
        for (n, node) in self.graph.nodes.iter().enumerate() {
            let inputs: Vec<Option<OutFact>> =
                node.inputs.iter().map(|i| i.and_then(|i| self.facts[i.index()])).collect();
            for (o, id) in node.outputs.iter().enumerate() {
                let Some(id) = *id else { continue };
                let Some(fact) = self.facts[id.index()] else { continue };
                let viewed = view_of(self.graph, self.facts, n, o)
                    .and_then(|(src, map)| map.apply(self.wish[src.index()].as_ref()?).map(|(l, _)| l));
                if let Some(layout) = viewed {
                    // A view's strides belong to its source's buffer.
                    self.wish[id.index()] = Some(layout);
                    continue;
                }
                let choice = if o > 0 || self.is_output[id.index()] {
                    LayoutChoice::Contiguous
                } else if let Some(stride) = conv_input[id.index()]
                    && (self.rules.layout)(&node.op, &inputs, fact) != LayoutChoice::Contiguous
                {
                    LayoutChoice::Pixels(stride)
                } else if matches!(node.op, Op::Concat(_)) {
                    LayoutChoice::Like(0)
                } else {
                    (self.rules.layout)(&node.op, &inputs, fact)
                };
                self.spare[id.index()] = matches!(choice, LayoutChoice::Pixels(_));
                self.wish[id.index()] = Some(self.chosen(choice, n, fact.shape));
            }
        }
    }

    fn chosen(&self, choice: LayoutChoice, node: usize, shape: Shape) -> Layout {
        let chosen = match choice {
            LayoutChoice::Contiguous => None,
            LayoutChoice::ChannelsLast => {
                shape.get(1).and_then(|&c| Layout::channels_last(shape, c.max(1)).ok())
            }
            LayoutChoice::Pixels(stride) => Layout::channels_last(shape, stride).ok(),
            LayoutChoice::Like(i) => {
                let like = self.graph.nodes[node].inputs.get(i).copied().flatten();
                like.and_then(|id| self.wish[id.index()].as_ref()).and_then(|l| ordered_like(shape, l))
            }
        };
        chosen.unwrap_or_else(|| Layout::contiguous(shape))
    }

    /// The root behind a value that is a chain of shape-only views, with the layout the root must have for the value to
    /// have `layout`.
    fn root_for(&self, mut id: ValueId, mut layout: Layout) -> Option<(ValueId, Layout)> {
        loop {
            let producer = self.producers[id.index()]?;
            let output = self.graph.nodes[producer].outputs.iter().position(|o| *o == Some(id))?;
            match view_of(self.graph, self.facts, producer, output) {
                None => return Some((id, layout)),
                Some((source, map)) => {
                    layout = map.invert(&layout, self.shape(source)?)?;
                    id = source;
                }
            }
        }
    }

    /// Several consecutive concat inputs that are consecutive ranges of one source and cover it: the source and the number
    /// of inputs (a split whose parts all go into the concat).
    fn covered_source(&self, inputs: &[Option<ValueId>], axis: usize) -> Option<(ValueId, usize)> {
        let mut next = 0;
        let mut whole: Option<ValueId> = None;
        for (count, id) in inputs.iter().enumerate() {
            let id = (*id)?;
            let producer = self.producers[id.index()]?;
            let output = self.graph.nodes[producer].outputs.iter().position(|o| *o == Some(id))?;
            let (source, map) = view_of(self.graph, self.facts, producer, output)?;
            let (start, len) = map.range_of(axis, &self.shape(source)?)?;
            if start != next || *whole.get_or_insert(source) != source {
                return None;
            }
            next += len;
            if next == self.shape(source)?[axis] {
                return Some((source, count + 1));
            }
        }
        None
    }

    /// Whether a root may be computed inside another buffer with this layout: it must be made by a node, have no place of
    /// its own to keep, and every view of it that works with its wished layout must still work.
    fn may_move(&self, root: ValueId, layout: &Layout) -> bool {
        if self.producers[root.index()].is_none()
            || self.is_output[root.index()]
            || self.home[root.index()].is_some()
            || self.shape(root) != Some(*layout.shape())
            || layout.may_self_overlap()
        {
            return false;
        }
        let Some(wish) = &self.wish[root.index()] else { return false };
        self.views_survive(root, wish, layout)
    }

    /// Whether every view of a root that its wished layout can express is also expressed by another. Walks the chain of
    /// views with a list of its own: a file may stack them deeper than a call stack goes.
    fn views_survive(&self, root: ValueId, old: &Layout, new: &Layout) -> bool {
        let mut open = vec![(root, *old, *new)];
        while let Some((id, old, new)) = open.pop() {
            for &n in &self.viewers[id.index()] {
                for (o, out) in self.graph.nodes[n].outputs.iter().enumerate() {
                    let (Some(out), Some((_, map))) = (out, view_of(self.graph, self.facts, n, o)) else {
                        continue;
                    };
                    match (map.apply(&old), map.apply(&new)) {
                        (Some((old, _)), Some((new, _))) => open.push((*out, old, new)),
                        (None, _) => {}
                        (Some(_), None) => return false,
                    }
                }
            }
        }
        true
    }

    /// Gives the inputs of a concat their homes in its buffer. Returns the inputs that must be copied.
    fn house(&mut self, node: usize, axis: usize) -> Vec<usize> {
        let inputs = self.graph.nodes[node].inputs.clone();
        let Some(parent) = self.graph.nodes[node].outputs.first().copied().flatten() else {
            return Vec::new();
        };
        let Some(parent_layout) = self.home[parent.index()].map(|h| h.2).or(self.wish[parent.index()]) else {
            return Vec::new();
        };
        let mut copies = Vec::new();
        let (mut i, mut start) = (0, 0);
        while i < inputs.len() {
            let covered = self.covered_source(&inputs[i..], axis);
            let (id, count) = match (covered, inputs[i]) {
                (Some(found), _) => found,
                (None, Some(id)) => (id, 1),
                (None, None) => {
                    i += 1;
                    continue;
                }
            };
            let len = self.shape(id).map_or(0, |s| s[axis]);
            let placed = parent_layout.sliced(axis, start, len, 1).ok().and_then(|(part, offset)| {
                let (root, layout) = self.root_for(id, part)?;
                self.may_move(root, &layout).then_some((root, offset, layout))
            });
            match placed {
                Some((root, offset, layout)) => {
                    self.home[root.index()] = Some((parent, offset, layout));
                    i += count;
                    start += len;
                }
                None => {
                    // One input at a time: the next may fit where the group did not.
                    copies.push(i);
                    start += inputs[i].and_then(|id| self.shape(id)).map_or(0, |s| s[axis]);
                    i += 1;
                }
            }
        }
        copies
    }
}

/// Places every value of a settled graph.
pub(super) fn place(graph: &Graph, facts: &[Option<OutFact>], rules: &Rules<'_>) -> Places {
    let mut is_output = vec![false; graph.values.len()];
    for id in &graph.outputs {
        is_output[id.index()] = true;
    }
    let mut viewers = vec![Vec::new(); graph.values.len()];
    for (n, node) in graph.nodes.iter().enumerate() {
        if let Some(Some(first)) = node.inputs.first() {
            viewers[first.index()].push(n);
        }
    }
    let mut placer = Placer {
        graph,
        facts,
        rules,
        wish: vec![None; graph.values.len()],
        spare: vec![false; graph.values.len()],
        home: vec![None; graph.values.len()],
        is_output,
        producers: graph.producers(),
        viewers,
    };
    placer.wishes();
    let mut to_copy = vec![Vec::new(); graph.nodes.len()];
    for (n, node) in graph.nodes.iter().enumerate().rev() {
        let rank = node.outputs.first().copied().flatten().and_then(|id| placer.shape(id)).map(|s| s.rank());
        if let (Op::Concat(concat), Some(rank)) = (&node.op, rank)
            && let Ok(axis) = Shape::axis(concat.axis, rank)
        {
            to_copy[n] = placer.house(n, axis);
        }
    }
    settle_places(placer, to_copy)
}

/// The last forward pass: homes resolved to absolute places, views followed, views that fail turned into steps.
fn settle_places(placer: Placer<'_>, to_copy: Vec<Vec<usize>>) -> Places {
    let (graph, facts) = (placer.graph, placer.facts);
    // A parent may itself have a home, and comes later in the order than its children: follow the chain.
    let absolute = |id: ValueId| -> Option<Place> {
        let (mut root, mut offset, layout) = match placer.home[id.index()] {
            Some(home) => home,
            None => return placer.wish[id.index()].map(|layout| Place { root: id, offset: 0, layout }),
        };
        while let Some((parent, more, _)) = placer.home[root.index()] {
            offset += more;
            root = parent;
        }
        Some(Place { root, offset, layout })
    };
    let mut places = Places {
        values: vec![None; graph.values.len()],
        free: vec![false; graph.nodes.len()],
        copies: vec![Vec::new(); graph.nodes.len()],
    };
    for &id in &graph.inputs {
        places.values[id.index()] = absolute(id);
    }
    for (n, node) in graph.nodes.iter().enumerate() {
        let mut all_views = true;
        let mut any = false;
        for (o, id) in node.outputs.iter().enumerate() {
            let Some(id) = *id else { continue };
            let Some(fact) = facts[id.index()] else { continue };
            any = true;
            let view = view_of(graph, facts, n, o).and_then(|(source, map)| {
                let source = places.values[source.index()]?;
                let (layout, more) = map.apply(&source.layout)?;
                Some(Place { layout, offset: source.offset + more, ..source })
            });
            places.values[id.index()] = match view {
                Some(place) => Some(place),
                None => {
                    all_views = false;
                    absolute(id).map(|p| {
                        // A wish that came from a view cannot be met by a buffer of its own if it has gaps or repeats.
                        let own = placer.home[id.index()].is_none()
                            && !placer.spare[id.index()]
                            && (p.layout.span() != fact.shape.elements() || p.layout.may_self_overlap());
                        if own { Place { layout: Layout::contiguous(fact.shape), ..p } } else { p }
                    })
                }
            };
        }
        if matches!(node.op, Op::Concat(_)) && any {
            places.copies[n] = parts_to_copy(&placer, &places, n, &to_copy[n]);
        }
        // A split of which some outputs are views and others not is run as a whole: outputs that are views of its own
        // input would overlap it, so they get buffers.
        if any && !all_views {
            for (o, id) in node.outputs.iter().enumerate() {
                if let Some(id) = *id
                    && view_of(graph, facts, n, o).is_some()
                    && let Some(fact) = facts[id.index()]
                {
                    places.values[id.index()] =
                        Some(Place { root: id, offset: 0, layout: Layout::contiguous(fact.shape) });
                }
            }
        }
        places.free[n] = any && (all_views || matches!(node.op, Op::Concat(_)));
    }
    places
}

fn parts_to_copy(placer: &Placer<'_>, places: &Places, node: usize, inputs: &[usize]) -> Vec<(usize, Place)> {
    let node = &placer.graph.nodes[node];
    let Some(parent) = node.outputs.first().copied().flatten().and_then(|id| places.values[id.index()])
    else {
        return Vec::new();
    };
    let Op::Concat(concat) = &node.op else { return Vec::new() };
    let Ok(axis) = Shape::axis(concat.axis, parent.layout.shape().rank()) else { return Vec::new() };
    let mut start = 0;
    let mut parts = Vec::new();
    for (i, id) in node.inputs.iter().enumerate() {
        let len = id.and_then(|id| placer.shape(id)).map_or(0, |s| s[axis]);
        if let Ok((layout, offset)) = parent.layout.sliced(axis, start, len, 1) {
            let part = Place { layout, offset: parent.offset + offset, ..parent };
            // What was housed must have landed where the concat reads it; if a view on the way failed, it is copied.
            let landed = id.and_then(|id| places.values[id.index()]).is_some_and(|p| p.is_same(&part));
            if inputs.contains(&i) || !landed {
                parts.push((i, part));
            }
        }
        start += len;
    }
    parts
}
