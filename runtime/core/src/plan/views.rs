//! Which ops only rename elements, and how.

use saltica_models::graph::{Graph, Node, Op, OutFact};
use saltica_tensor::{Layout, MAX_RANK, Shape};

/// A renaming of a source's elements, as a map from the source's layout to the view's.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ViewMap {
    /// Same elements, same row-major order, another shape.
    Reshape(Shape),
    /// Dim `i` of the view is dim `perm[i]` of the source.
    Permute(Vec<usize>),
    /// Per dim: start, length, step.
    Ranges(Vec<(usize, usize, usize)>),
    /// Repeated along dims of size 1.
    Broadcast(Shape),
}

impl ViewMap {
    /// The view's layout and its offset in elements from the source's first; `None` if strides cannot say it.
    pub(super) fn apply(&self, source: &Layout) -> Option<(Layout, usize)> {
        match self {
            ViewMap::Reshape(shape) => source.reshaped(*shape).map(|l| (l, 0)),
            ViewMap::Permute(perm) => source.permuted(perm).ok().map(|l| (l, 0)),
            ViewMap::Broadcast(shape) => source.broadcast_to(shape).ok().map(|l| (l, 0)),
            ViewMap::Ranges(ranges) => {
                let (mut layout, mut offset) = (*source, 0);
                for (d, &(start, len, step)) in ranges.iter().enumerate() {
                    let (next, more) = layout.sliced(d, start, len, step).ok()?;
                    layout = next;
                    offset += more;
                }
                Some((layout, offset))
            }
        }
    }

    /// The layout a source of this shape must have so that the view has `view`; `None` if the view does not fix it.
    pub(super) fn invert(&self, view: &Layout, source: Shape) -> Option<Layout> {
        match self {
            ViewMap::Reshape(_) => view.reshaped(source),
            ViewMap::Permute(perm) => {
                let mut inverse = [0; MAX_RANK];
                for (i, &p) in perm.iter().enumerate() {
                    inverse[p] = i;
                }
                view.permuted(&inverse[..perm.len()]).ok()
            }
            ViewMap::Ranges(_) | ViewMap::Broadcast(_) => None,
        }
    }

    /// If this is a range along one axis and the whole of the others: start and length on that axis.
    pub(super) fn range_of(&self, axis: usize, source: &Shape) -> Option<(usize, usize)> {
        let ViewMap::Ranges(ranges) = self else { return None };
        let whole = |(d, &(start, len, step)): (usize, &(usize, usize, usize))| {
            d == axis || (start == 0 && len == source[d] && (step == 1 || len <= 1))
        };
        if !ranges.iter().enumerate().all(whole) {
            return None;
        }
        let &(start, len, step) = ranges.get(axis)?;
        (step == 1 || len == 1).then_some((start, len))
    }
}

/// The view output `output` of `node` makes of its first input, or `None` if the op moves or computes elements.
pub(super) fn view_map(
    graph: &Graph,
    facts: &[Option<OutFact>],
    node: &Node,
    input: Shape,
    output: usize,
    out: Shape,
) -> Option<ViewMap> {
    match &node.op {
        Op::Reshape(_) | Op::Squeeze(_) | Op::Unsqueeze(_) | Op::Flatten(_) | Op::Identity(_) => {
            Some(ViewMap::Reshape(out))
        }
        Op::Transpose(op) => Some(ViewMap::Permute(op.perm_for(input.rank())[..input.rank()].to_vec())),
        Op::Expand(_) => Some(ViewMap::Broadcast(out)),
        Op::Slice(op) => {
            let mut given = [None; 4];
            for (slot, id) in given.iter_mut().zip(&node.inputs[1..]) {
                // A range that is present but no constant is known only at run time.
                if id.is_some() {
                    *slot = Some(graph.constant(*id)?.view());
                }
            }
            let ranges = op.resolve(&input, given).ok()?;
            ranges[..input.rank()]
                .iter()
                .map(|r| usize::try_from(r.step).ok().filter(|&s| s > 0).map(|step| (r.start, r.len, step)))
                .collect::<Option<Vec<_>>>()
                .map(ViewMap::Ranges)
        }
        Op::Split(op) => {
            let axis = Shape::axis(op.axis, input.rank()).ok()?;
            // The outputs before this one have names and shapes (the plan sees to it), so they say where it starts.
            let start = node.outputs[..output]
                .iter()
                .map(|id| id.and_then(|id| facts[id.index()]).map(|f| f.shape[axis]))
                .sum::<Option<usize>>()?;
            let mut ranges: Vec<_> = input.iter().map(|&d| (0, d, 1)).collect();
            ranges[axis] = (start, out[axis], 1);
            Some(ViewMap::Ranges(ranges))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverting_a_view_gives_back_its_source() {
        let source = Layout::channels_last(Shape::new(&[1, 6, 4, 5]).unwrap(), 9).unwrap();
        let maps = [ViewMap::Reshape(Shape::new(&[1, 6, 20]).unwrap()), ViewMap::Permute(vec![0, 2, 3, 1])];
        for map in maps {
            let (view, offset) = map.apply(&source).unwrap();
            let back = map.invert(&view, *source.shape()).unwrap();
            assert_eq!((offset, back.shape()), (0, source.shape()));
            // Element by element: the stride of a dim of size 1 says nothing.
            assert!(source.shape().indices().all(|i| back.offset(&i) == source.offset(&i)));
        }
    }
}
