//! Walking several strided tensors of one shape at once, in the order of the output's memory, a row at a time.

use saltica_tensor::{MAX_RANK, Shape};

/// A shape seen by `K` operands, of which the first is written. Dims are ordered from the largest stride of the output to
/// the smallest; neighbours that are one run for every operand are merged; dims of size 1 are gone.
#[derive(Clone, Copy)]
pub(crate) struct Walk<const K: usize> {
    rank: usize,
    dims: [usize; MAX_RANK],
    strides: [[usize; MAX_RANK]; K],
}

impl<const K: usize> Walk<K> {
    /// A walk over `shape`, given each operand's strides (0 where it is broadcast).
    pub(crate) fn new(shape: &Shape, operands: [&[usize]; K]) -> Self {
        let mut order = [0usize; MAX_RANK];
        let mut n = 0;
        for d in 0..shape.rank() {
            if shape[d] != 1 {
                order[n] = d;
                n += 1;
            }
        }
        let key = |d: usize| operands[0][d];
        // Insertion sort: stable, no allocation, at most 8 dims.
        for i in 1..n {
            let mut j = i;
            while j > 0 && key(order[j - 1]) < key(order[j]) {
                order.swap(j - 1, j);
                j -= 1;
            }
        }
        let mut walk = Walk { rank: 0, dims: [1; MAX_RANK], strides: [[0; MAX_RANK]; K] };
        for &d in &order[..n] {
            let last = walk.rank.wrapping_sub(1);
            let merges = walk.rank > 0 && (0..K).all(|k| walk.strides[k][last] == operands[k][d] * shape[d]);
            let at = if merges { last } else { walk.rank };
            walk.dims[at] = if merges { walk.dims[at] * shape[d] } else { shape[d] };
            for k in 0..K {
                walk.strides[k][at] = operands[k][d];
            }
            walk.rank = at + 1;
        }
        if walk.rank == 0 {
            // A single element: one row of one.
            walk.rank = 1;
        }
        if shape.elements() == 0 {
            walk.dims = [0; MAX_RANK];
        }
        walk
    }

    /// The walk with its last two dims exchanged, if rows would be short and the other dim is long: what a row costs counts
    /// more then than the order of memory.
    pub(crate) fn lengthened(mut self) -> Self {
        const SHORT: usize = 8;
        if self.rank >= 2 {
            let [outer, inner] = [self.rank - 2, self.rank - 1];
            if self.dims[inner] < SHORT && self.dims[outer] >= 2 * SHORT {
                self.dims.swap(outer, inner);
                self.strides.iter_mut().for_each(|s| s.swap(outer, inner));
            }
        }
        self
    }

    /// Elements of a row.
    pub(crate) fn row(&self) -> usize {
        self.dims[self.rank - 1]
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.dims[..self.rank - 1].iter().product()
    }

    /// Each operand's stride within a row.
    pub(crate) fn steps(&self) -> [usize; K] {
        std::array::from_fn(|k| self.strides[k][self.rank - 1])
    }

    /// Makes dim `d` the last but one; the order of the others stays. For transpositions.
    pub(crate) fn second_last(&mut self, d: usize) {
        for i in d..self.rank.saturating_sub(2) {
            self.dims.swap(i, i + 1);
            for k in 0..K {
                self.strides[k].swap(i, i + 1);
            }
        }
    }

    /// The dim (not the innermost) that operand `k` has as a run.
    pub(crate) fn run_of(&self, k: usize) -> Option<usize> {
        (0..self.rank - 1).rev().find(|&d| self.strides[k][d] == 1)
    }

    /// Splits the last but one dim off: what remains outside of it, its size and strides.
    pub(crate) fn outer(&self) -> (Walk<K>, usize, [usize; K]) {
        let d = self.rank - 2;
        let mut outer = *self;
        outer.rank = d + 1;
        outer.dims[d] = 1;
        (outer, self.dims[d], std::array::from_fn(|k| self.strides[k][d]))
    }

    /// Calls `f` with the element offsets of each row in a range.
    pub(crate) fn each_row(&self, rows: std::ops::Range<usize>, mut f: impl FnMut([usize; K])) {
        let outer = self.rank - 1;
        let mut index = [0; MAX_RANK];
        let mut left = rows.start;
        for d in (0..outer).rev() {
            index[d] = left % self.dims[d].max(1);
            left /= self.dims[d].max(1);
        }
        let mut at: [usize; K] =
            std::array::from_fn(|k| (0..outer).map(|d| index[d] * self.strides[k][d]).sum());
        for _ in rows {
            f(at);
            for d in (0..outer).rev() {
                index[d] += 1;
                for k in 0..K {
                    at[k] += self.strides[k][d];
                }
                if index[d] < self.dims[d] {
                    break;
                }
                for k in 0..K {
                    at[k] -= index[d] * self.strides[k][d];
                }
                index[d] = 0;
            }
        }
    }
}

/// Into how many tasks `total` elements of light work are split, and each row into how many parts: tasks of a few
/// thousand elements, a few for each thread.
pub(crate) fn split(total: usize, rows: usize, row: usize, threads: usize) -> (usize, usize) {
    if threads == 1 || total < 16 << 10 {
        return (1, 1);
    }
    let tasks = (total >> 13).clamp(1, threads * 4);
    let parts = tasks.div_ceil(rows.max(1)).clamp(1, row.div_ceil(1024).max(1));
    (tasks.min(rows * parts).max(1), parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saltica_tensor::Layout;

    #[test]
    fn contiguous_tensors_are_one_row() {
        let shape = Shape::new(&[2, 3, 4, 5]).unwrap();
        let l = Layout::contiguous(shape);
        let w = Walk::new(&shape, [l.strides(), l.strides()]);
        assert_eq!((w.rows(), w.row(), w.steps()), (1, 120, [1, 1]));
        let nhwc = Layout::channels_last(shape, 3).unwrap();
        let w = Walk::new(&shape, [nhwc.strides(), nhwc.strides()]);
        assert_eq!((w.rows(), w.row()), (1, 120));
        let w = Walk::new(&shape, [nhwc.strides(), l.strides()]);
        assert_eq!((w.rows(), w.row(), w.steps()), (40, 3, [1, 20]));
    }

    #[test]
    fn rows_are_found_wherever_a_range_starts() {
        let shape = Shape::new(&[2, 3, 4, 5]).unwrap();
        let (a, b) = (Layout::channels_last(shape, 7).unwrap(), Layout::contiguous(shape));
        let w = Walk::new(&shape, [a.strides(), b.strides()]);
        let mut all = Vec::new();
        w.each_row(0..w.rows(), |at| all.push(at));
        for cut in 0..=w.rows() {
            let mut two = Vec::new();
            w.each_row(0..cut, |at| two.push(at));
            w.each_row(cut..w.rows(), |at| two.push(at));
            assert_eq!(all, two);
        }
        let mut seen: Vec<_> = all
            .iter()
            .flat_map(|at| (0..w.row()).map(|i| [at[0] + i * w.steps()[0], at[1] + i * w.steps()[1]]))
            .collect();
        let mut want: Vec<_> = shape.indices().map(|i| [a.offset(&i), b.offset(&i)]).collect();
        seen.sort();
        want.sort();
        assert_eq!(seen, want);
    }

    #[test]
    fn scalars_and_nothing() {
        let w = Walk::new(&Shape::scalar(), [&[][..]]);
        assert_eq!((w.rows(), w.row()), (1, 1));
        let empty = Shape::new(&[3, 0, 2]).unwrap();
        let w = Walk::new(&empty, [Layout::contiguous(empty).strides()]);
        assert_eq!(w.rows() * w.row(), 0);
    }
}
