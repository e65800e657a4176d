//! Two layouts that disagree about the innermost dim, walked in blocks, so that every cache line is used whole while it is
//! near.

use crate::Result;
use crate::pool::Pool;
use crate::walk::{Walk, split};

/// Elements of the last dim in a block: few enough that lines at a large power of two from each other stay cached.
pub(crate) const ALONG: usize = 32;
/// Bytes of the other dim in a block: a cache line.
const ACROSS_BYTES: usize = 64;

/// A walk whose last dim is a run of the first operand (which is written), and whose last but one is a run of another.
pub(crate) struct Tiles<const K: usize> {
    outer: Walk<K>,
    columns: usize,
    row: usize,
    /// Strides of the last but one dim.
    pub(crate) across: [usize; K],
    /// Strides of the last dim.
    pub(crate) along: [usize; K],
}

impl<const K: usize> Tiles<K> {
    /// The blocks of a walk, if an operand is a run in a dim other than the first operand's.
    pub(crate) fn of(walk: &Walk<K>) -> Option<Self> {
        let along = walk.steps();
        if along[0] != 1 || walk.row() < 2 {
            return None;
        }
        let run = (1..K).filter(|&k| along[k] > 1).find_map(|k| walk.run_of(k))?;
        let mut walk = *walk;
        walk.second_last(run);
        let (outer, columns, across) = walk.outer();
        Some(Tiles { outer, columns, row: walk.row(), across, along })
    }

    /// Calls `f(offsets of the block, [elements across, elements along])` for every block, in parallel. `bytes` is the size
    /// of the operand's elements.
    pub(crate) fn each(
        &self,
        pool: &Pool,
        bytes: usize,
        f: &(dyn Fn([usize; K], [usize; 2]) + Sync),
    ) -> Result<()> {
        let side = ACROSS_BYTES / bytes;
        let (rows, total) = (self.outer.rows(), self.outer.rows() * self.columns * self.row);
        if total == 0 {
            return Ok(());
        }
        let (wanted, _) = split(total, total, 1, pool.threads());
        let parts = wanted.div_ceil(rows).clamp(1, self.row.div_ceil(ALONG));
        let stripes = wanted.div_ceil(rows * parts).clamp(1, self.columns.div_ceil(side));
        let tasks = rows * parts * stripes;
        pool.run(tasks, &|task, _| {
            let cut = |of: usize, part: usize, parts: usize, unit: usize| {
                [part, part + 1].map(|p| (p * of.div_ceil(unit) / parts * unit).min(of))
            };
            let (row, rest) = (task / (parts * stripes), task % (parts * stripes));
            let [i0, i1] = cut(self.row, rest / stripes, parts, ALONG);
            let [j0, j1] = cut(self.columns, rest % stripes, stripes, side);
            self.outer.each_row(row..row + 1, |at| {
                // Along first: few lines are written at a time, and the same pages.
                for j in (j0..j1).step_by(side) {
                    for i in (i0..i1).step_by(ALONG) {
                        let at = std::array::from_fn(|k| at[k] + j * self.across[k] + i * self.along[k]);
                        f(at, [side.min(j1 - j), ALONG.min(i1 - i)]);
                    }
                }
            });
        })
    }
}
