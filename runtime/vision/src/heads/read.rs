//! Reading output tensors of any strides, f32 or f16, as channels by cells.

use half::f16;
use saltica_tensor::{DType, View};
use std::ops::Range;

/// Which dim is which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// `[N, channels, cells]`
    ChannelsCells,
    /// `[N, cells, channels]`
    CellsChannels,
    /// `[N, channels, height, width]`; cells are counted row by row
    Maps,
}

/// One picture's part of an output: some channels for each of `cells` places.
#[derive(Clone, Copy)]
pub(super) struct Grid<'a> {
    view: View<'a>,
    batch: usize,
    order: Order,
    width: usize,
    pub(super) cells: usize,
    /// This picture's values, where they lie row-major without gaps (they nearly always do), and the steps from one
    /// channel and one cell to the next.
    flat: Option<(&'a [f32], usize, usize)>,
}

impl<'a> Grid<'a> {
    pub(super) fn new(view: View<'a>, batch: usize, order: Order) -> Self {
        let d = view.shape();
        let (cells, width) = match order {
            Order::ChannelsCells => (d[2], d[2]),
            Order::CellsChannels => (d[1], d[1]),
            Order::Maps => (d[2] * d[3], d[3]),
        };
        let channels = if order == Order::CellsChannels { d[2] } else { d[1] };
        let steps = if order == Order::CellsChannels { (1, channels) } else { (cells, 1) };
        let flat = view
            .as_slice::<f32>()
            .and_then(|all| all.get(batch * channels * cells..(batch + 1) * channels * cells))
            .map(|part| (part, steps.0, steps.1));
        Grid { view, batch, order, width, cells, flat }
    }

    /// Whether a cell's channels follow each other in memory, so that reading cell by cell is the fast way.
    pub(super) fn by_cell(&self) -> bool {
        self.order == Order::CellsChannels && self.view.layout().strides()[2] == 1
            || self.order == Order::ChannelsCells && self.view.layout().strides()[1] == 1
    }

    fn index(&self, channel: usize, cell: usize) -> [usize; 4] {
        match self.order {
            Order::ChannelsCells => [self.batch, channel, cell, 0],
            Order::CellsChannels => [self.batch, cell, channel, 0],
            Order::Maps => [self.batch, channel, cell / self.width, cell % self.width],
        }
    }

    #[inline]
    pub(super) fn get(&self, channel: usize, cell: usize) -> f32 {
        if let Some((values, per_channel, per_cell)) = self.flat {
            return values[channel * per_channel + cell * per_cell];
        }
        self.get_strided(channel, cell)
    }

    #[cold]
    fn get_strided(&self, channel: usize, cell: usize) -> f32 {
        let at = self.index(channel, cell);
        match self.view.dtype() {
            DType::F32 => self.view.get::<f32>(&at),
            _ => self.view.get::<f16>(&at).to_f32(),
        }
    }

    /// Four consecutive channels of a cell.
    #[inline]
    pub(super) fn four(&self, first: usize, cell: usize) -> [f32; 4] {
        [0, 1, 2, 3].map(|c| self.get(first + c, cell))
    }

    /// One channel of a range of cells: borrowed where it lies in a row, else copied into `buffer` (long enough).
    pub(super) fn channel<'b>(&self, channel: usize, cells: Range<usize>, buffer: &'b mut [f32]) -> &'b [f32]
    where
        'a: 'b,
    {
        if let Some((values, per_channel, 1)) = self.flat {
            return &values[channel * per_channel..][cells];
        }
        let in_a_row = match self.order {
            Order::ChannelsCells => {
                self.view.row::<f32>(&self.index(channel, 0)).and_then(|r| r.get(cells.clone()))
            }
            Order::Maps => self.map_rows(channel, &cells),
            Order::CellsChannels => None,
        };
        if let Some(row) = in_a_row {
            return row;
        }
        let buffer = &mut buffer[..cells.len()];
        if self.order == Order::ChannelsCells
            && let Some(row) = self.view.row::<f16>(&self.index(channel, 0))
        {
            for (to, from) in buffer.iter_mut().zip(&row[cells]) {
                *to = from.to_f32();
            }
            return buffer;
        }
        for (to, cell) in buffer.iter_mut().zip(cells) {
            *to = self.get(channel, cell);
        }
        buffer
    }

    /// Cells of a map that lie within one of its rows.
    fn map_rows(&self, channel: usize, cells: &Range<usize>) -> Option<&'a [f32]> {
        let (y, x) = (cells.start / self.width, cells.start % self.width);
        if cells.is_empty() || (cells.end - 1) / self.width != y {
            return None;
        }
        self.view.row::<f32>(&[self.batch, channel, y, 0])?.get(x..x + cells.len())
    }

    /// A range of channels of one cell: borrowed where they lie in a row, else copied.
    pub(super) fn cell<'b>(&self, cell: usize, channels: Range<usize>, buffer: &'b mut [f32]) -> &'b [f32]
    where
        'a: 'b,
    {
        if let Some((values, 1, per_cell)) = self.flat {
            return &values[cell * per_cell..][channels];
        }
        if self.order == Order::CellsChannels
            && let Some(row) = self.view.row::<f32>(&self.index(0, cell))
            && let Some(part) = row.get(channels.clone())
        {
            return part;
        }
        let buffer = &mut buffer[..channels.len()];
        for (to, channel) in buffer.iter_mut().zip(channels) {
            *to = self.get(channel, cell);
        }
        buffer
    }
}

/// How many cells are looked at together: their best scores stay in the first-level cache.
const BLOCK: usize = 1024;

/// Calls `found(cell, class, score)` for each cell whose best class has a score above `conf` (for every class above it
/// if `all`), class `k` being channel `first + k`. Returns how many scores were NaN.
pub(super) fn each_best(
    grid: &Grid<'_>,
    first: usize,
    classes: usize,
    conf: f32,
    all: bool,
    values: &mut Vec<f32>,
    mut found: impl FnMut(usize, usize, f32),
) -> usize {
    let mut nan = 0;
    if grid.by_cell() {
        values.clear();
        values.resize(classes, 0.0);
        for cell in 0..grid.cells {
            let scores = grid.cell(cell, first..first + classes, values);
            let (best, broken) = largest(scores);
            if best <= conf {
                nan += broken;
                continue;
            }
            nan += pick(scores.iter().copied(), conf, all, |class, score| found(cell, class, score));
        }
        return nan;
    }
    values.clear();
    values.resize(2 * BLOCK, 0.0);
    let (best, row) = values.split_at_mut(BLOCK);
    let mut which = [u32::MAX; BLOCK];
    let mut start = 0;
    while start < grid.cells {
        let n = BLOCK.min(grid.cells - start);
        let best = &mut best[..n];
        best.fill(f32::NEG_INFINITY);
        let mut broken = 0u32;
        for k in 0..classes {
            let scores = grid.channel(first + k, start..start + n, row);
            for (b, &s) in best.iter_mut().zip(scores) {
                *b = if s > *b { s } else { *b };
                broken += u32::from(s.is_nan());
            }
        }
        nan += broken as usize;
        let over = best.iter().filter(|&&b| b > conf).count();
        if over > n / 16 && !all {
            // Many: which class is best is found for all cells at once, walking memory in order.
            best.fill(conf);
            which.fill(u32::MAX);
            for k in 0..classes {
                let scores = grid.channel(first + k, start..start + n, row);
                for ((b, w), &s) in best.iter_mut().zip(&mut which).zip(scores) {
                    *w = if s > *b { k as u32 } else { *w };
                    *b = if s > *b { s } else { *b };
                }
            }
            for (j, (&b, &w)) in best.iter().zip(&which).enumerate() {
                if w != u32::MAX {
                    found(start + j, w as usize, b);
                }
            }
            start += n;
            continue;
        }
        for (j, &b) in best.iter().enumerate() {
            if over > 0 && b > conf {
                let cell = start + j;
                pick((0..classes).map(|k| grid.get(first + k, cell)), conf, all, |class, score| {
                    found(cell, class, score)
                });
            }
        }
        start += n;
    }
    nan
}

/// The largest value that is a number, and how many are none; in lanes, so that it runs at memory speed.
fn largest(scores: &[f32]) -> (f32, usize) {
    const LANES: usize = 16;
    let mut best = [f32::NEG_INFINITY; LANES];
    let mut nan = [0u32; LANES];
    let (chunks, rest) = scores.as_chunks::<LANES>();
    for chunk in chunks {
        for ((b, n), &s) in best.iter_mut().zip(&mut nan).zip(chunk) {
            *b = if s > *b { s } else { *b };
            *n += u32::from(s.is_nan());
        }
    }
    for ((b, n), &s) in best.iter_mut().zip(&mut nan).zip(rest) {
        *b = if s > *b { s } else { *b };
        *n += u32::from(s.is_nan());
    }
    (best.iter().copied().fold(f32::NEG_INFINITY, f32::max), nan.iter().sum::<u32>() as usize)
}

/// The best score above `conf` with its class (the first of equals), or all of them; returns the number of NaN.
fn pick(scores: impl Iterator<Item = f32>, conf: f32, all: bool, mut found: impl FnMut(usize, f32)) -> usize {
    let (mut nan, mut best, mut which) = (0, conf, None);
    for (class, s) in scores.enumerate() {
        nan += usize::from(s.is_nan());
        if s > conf && all {
            found(class, s);
        } else if s > best {
            (best, which) = (s, Some(class));
        }
    }
    if let Some(class) = which {
        found(class, best);
    }
    nan
}

#[cfg(test)]
mod tests {
    use super::*;
    use saltica_tensor::{Layout, Shape};

    /// Few, some and nearly all cells above the threshold, in every memory order, against the definition.
    #[test]
    fn the_best_class_is_found_however_many_pass() {
        let (channels, first, classes, cells) = (9, 2, 6, 2500);
        let mut state = 1u64;
        let values: Vec<f32> = (0..2 * channels * cells)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Few distinct values, so that classes tie; some are no numbers.
                match state >> 54 {
                    v @ 0..1000 => (v / 20) as f32 / 50.0,
                    1000..1003 => f32::NAN,
                    _ => f32::NEG_INFINITY,
                }
            })
            .collect();
        let shape = Shape::new(&[2, channels, cells]).unwrap();
        let at = |layout: &Layout, c: usize, n: usize| values[layout.offset(&[1, c, n])];
        let by_channel = Layout::contiguous(shape);
        let by_cell = Layout::strided(shape, &[channels * cells, 1, channels]).unwrap();
        let backwards = Layout::strided(shape, &[1, 2, 2 * channels]).unwrap();
        for layout in [by_channel, by_cell, backwards] {
            for (conf, all) in
                [(0.97, false), (0.9, false), (0.3, false), (0.0, false), (0.9, true), (2.0, false)]
            {
                let mut want = Vec::new();
                let mut nan = 0;
                for n in 0..cells {
                    let scores: Vec<f32> = (0..classes).map(|k| at(&layout, first + k, n)).collect();
                    nan += scores.iter().filter(|s| s.is_nan()).count();
                    let best = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    for (k, &s) in scores.iter().enumerate() {
                        let earlier = scores[..k].contains(&best);
                        if s > conf && (all || (s == best && !earlier)) {
                            want.push((n, k, s));
                        }
                    }
                }
                let view = View::of_slice(&values, layout).unwrap();
                let grid = Grid::new(view, 1, Order::ChannelsCells);
                let mut got = Vec::new();
                let found = |n, k, s| got.push((n, k, s));
                assert_eq!(each_best(&grid, first, classes, conf, all, &mut Vec::new(), found), nan);
                assert!(got == want, "{layout:?} above {conf}: {} and {} found", got.len(), want.len());
            }
        }
    }
}
