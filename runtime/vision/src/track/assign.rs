//! Which row goes with which column, so that the sum of weights is largest.
//!
//! Only some pairs are possible. They fall into groups that share no row and no column; in most groups the answer is
//! plain to see (one row or one column, or two by two), and only the rest is given to the Hungarian algorithm. So a
//! picture in which everybody keeps a distance costs no allocation.

use pathfinding::kuhn_munkres::{Weights, kuhn_munkres};

/// Possible pairs, and room to work in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matcher {
    edges: Vec<Edge>,
    parents: Vec<u32>,
    rows: Vec<u32>,
    cols: Vec<u32>,
    dense: Vec<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    group: u32,
    row: u32,
    col: u32,
    weight: i64,
}

/// Weights are fractions of this: whole numbers have no rounding that depends on an order.
const ONE: f64 = (1u64 << 40) as f64;

struct Dense<'a> {
    weights: &'a [i64],
    rows: usize,
    cols: usize,
    sign: i64,
}

impl Weights<i64> for Dense<'_> {
    fn rows(&self) -> usize {
        self.rows
    }
    fn columns(&self) -> usize {
        self.cols
    }
    fn at(&self, row: usize, col: usize) -> i64 {
        self.sign * self.weights[row * self.cols + col]
    }
    fn neg(&self) -> Self {
        Dense { sign: -self.sign, ..*self }
    }
}

impl Matcher {
    /// Forgets all pairs.
    pub(crate) fn clear(&mut self) {
        self.edges.clear();
    }

    /// Allows a pair, of a weight above 0 (up to about a million).
    pub(crate) fn allow(&mut self, row: usize, col: usize, weight: f64) {
        let weight = (weight * ONE) as i64;
        if weight > 0 {
            self.edges.push(Edge { group: 0, row: row as u32, col: col as u32, weight });
        }
    }

    /// Writes the matching of the largest weight to `out`: pairs of a row below `rows` and a column below `cols`.
    pub(crate) fn solve(&mut self, rows: usize, cols: usize, out: &mut Vec<(usize, usize)>) {
        out.clear();
        self.parents.clear();
        self.parents.extend(0..(rows + cols) as u32);
        for e in &self.edges {
            let (a, b) = (root(&mut self.parents, e.row), root(&mut self.parents, rows as u32 + e.col));
            self.parents[a as usize] = b;
        }
        for e in &mut self.edges {
            e.group = root(&mut self.parents, e.row);
        }
        self.edges.sort_unstable_by_key(|e| (e.group, e.row, e.col));
        for group in self.edges.chunk_by(|a, b| a.group == b.group) {
            self.rows.clear();
            self.rows.extend(group.iter().map(|e| e.row));
            self.rows.dedup();
            self.cols.clear();
            self.cols.extend(group.iter().map(|e| e.col));
            self.cols.sort_unstable();
            self.cols.dedup();
            let (n, m) = (self.rows.len(), self.cols.len());
            if n == 1 || m == 1 {
                // The first of the heaviest.
                let best = group.iter().reduce(|a, b| if b.weight > a.weight { b } else { a });
                out.extend(best.map(|e| (e.row as usize, e.col as usize)));
                continue;
            }
            // The algorithm wants at least as many columns as rows.
            let turned = n > m;
            let (short, long) = if turned { (&self.cols, &self.rows) } else { (&self.rows, &self.cols) };
            self.dense.clear();
            self.dense.resize(n * m, 0);
            for e in group {
                let (a, b) = if turned { (e.col, e.row) } else { (e.row, e.col) };
                if let (Ok(a), Ok(b)) = (short.binary_search(&a), long.binary_search(&b)) {
                    self.dense[a * long.len() + b] = e.weight;
                }
            }
            let mut put = |a: usize, b: usize| {
                if self.dense[a * long.len() + b] > 0 {
                    let (r, c) = if turned { (long[b], short[a]) } else { (short[a], long[b]) };
                    out.push((r as usize, c as usize));
                }
            };
            if let [aa, ab, ba, bb] = self.dense[..] {
                let straight = aa + bb >= ab + ba;
                put(0, usize::from(!straight));
                put(1, usize::from(straight));
            } else {
                let weights = Dense { weights: &self.dense, rows: short.len(), cols: long.len(), sign: 1 };
                for (a, b) in kuhn_munkres(&weights).1.into_iter().enumerate() {
                    put(a, b);
                }
            }
        }
    }
}

fn root(parents: &mut [u32], mut k: u32) -> u32 {
    while parents[k as usize] != k {
        parents[k as usize] = parents[parents[k as usize] as usize];
        k = parents[k as usize];
    }
    k
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The heaviest matching by trying all.
    fn best(edges: &[(usize, usize, i64)], taken: &mut Vec<(usize, usize)>) -> i64 {
        let Some(((r, c, w), rest)) = edges.split_first() else { return 0 };
        let without = best(rest, taken);
        if taken.iter().any(|t| t.0 == *r || t.1 == *c) {
            return without;
        }
        taken.push((*r, *c));
        let with = w + best(rest, taken);
        taken.pop();
        with.max(without)
    }

    proptest! {
        #[test]
        fn is_the_best_of_all(edges in prop::collection::btree_map((0..5usize, 0..6usize), 1..1000i64, 0..14)) {
            let edges: Vec<_> = edges.into_iter().map(|((r, c), w)| (r, c, w)).collect();
            let (mut m, mut out) = (Matcher::default(), Vec::new());
            for (r, c, w) in &edges {
                m.allow(*r, *c, *w as f64);
            }
            m.solve(5, 6, &mut out);
            let mut sum = 0;
            for (k, (r, c)) in out.iter().enumerate() {
                prop_assert!(out[..k].iter().all(|o| o.0 != *r && o.1 != *c));
                sum += edges.iter().find(|e| e.0 == *r && e.1 == *c).unwrap().2;
            }
            prop_assert_eq!(sum, best(&edges, &mut Vec::new()));
        }
    }
}
