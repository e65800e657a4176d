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
}

impl<'a> Grid<'a> {
    pub(super) fn new(view: View<'a>, batch: usize, order: Order) -> Self {
        let d = view.shape();
        let (cells, width) = match order {
            Order::ChannelsCells => (d[2], d[2]),
            Order::CellsChannels => (d[1], d[1]),
            Order::Maps => (d[2] * d[3], d[3]),
        };
        Grid { view, batch, order, width, cells }
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
            nan += pick(scores.iter().copied(), conf, all, |class, score| found(cell, class, score));
        }
        return nan;
    }
    values.clear();
    values.resize(2 * BLOCK, 0.0);
    let (best, row) = values.split_at_mut(BLOCK);
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
        for (j, &b) in best.iter().enumerate() {
            if b > conf {
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
