//! Boxes without objectness: `[N, 4 + classes, cells]` as Ultralytics exports YOLOv8 and later (and YOLOv5u), and the
//! transpose `[N, cells, 4 + classes]`. Centre and size in model pixels, then one score a class, already sigmoids.

use super::read::{Grid, each_best};
use super::{Claim, Decode, Facts, Outputs, Sink, corners, task_allows};
use crate::spec::Task;

/// Where boxes and scores lie, and how many values follow the scores of a cell (mask coefficients, keypoints, angle).
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) output: usize,
    pub(super) transposed: bool,
    pub(super) cells: usize,
    pub(super) channels: usize,
    pub(super) classes: usize,
    pub(super) strides: usize,
}

impl Layout {
    /// Reads the layout from the only output of rank 3, with `extra` channels behind the scores.
    pub(super) fn find(facts: &Facts<'_>, extra: usize) -> Result<Layout, String> {
        let (output, a, b) = facts.rank3()?;
        let strides = |cells: usize| facts.strides_for(cells).map(|s| s.len());
        let (transposed, strides) = match (strides(b), strides(a)) {
            (Some(s), _) => (false, s),
            (None, Some(s)) => (true, s),
            // Other strides than the usual ones: the user said what it is, so the longer side are the cells.
            (None, None) if facts.named => (a > b, 0),
            (None, None) => {
                return Err(format!(
                    "neither {a} nor {b} is the number of cells of the usual strides (8, 16, 32)"
                ));
            }
        };
        let (channels, cells) = if transposed { (b, a) } else { (a, b) };
        let classes = channels.checked_sub(4 + extra).filter(|&c| c > 0).ok_or_else(|| {
            format!(
                "it reads 4 box values, at least one score and {extra} more for each cell, {channels} found"
            )
        })?;
        Ok(Layout { output, transposed, cells, channels, classes, strides })
    }

    pub(super) fn grid<'a>(&self, outputs: &Outputs<'a>) -> Grid<'a> {
        if self.transposed {
            outputs.cells_by_channels(self.output)
        } else {
            outputs.channels_by_cells(self.output)
        }
    }

    /// The first channel behind the scores.
    pub(super) fn extra(&self) -> usize {
        4 + self.classes
    }

    pub(super) fn shape(&self) -> String {
        let (c, n) = (self.channels, self.cells);
        let shape = if self.transposed { format!("[1,{n},{c}]") } else { format!("[1,{c},{n}]") };
        let strides = match self.strides {
            0 => String::new(),
            s => format!(", {s} strides"),
        };
        format!("{shape}, {} class{}{strides}", self.classes, if self.classes == 1 { "" } else { "es" })
    }

    pub(super) fn scan(&self, outputs: &Outputs<'_>, sink: &mut Sink<'_>) {
        let grid = self.grid(outputs);
        let mut values = std::mem::take(sink.values);
        let (conf, all) = (sink.conf(), sink.multi_label());
        let nan = each_best(&grid, 4, self.classes, conf, all, &mut values, |cell, class, score| {
            let [cx, cy, w, h] = grid.four(0, cell);
            sink.push(cell, class, score, corners(cx, cy, w, h));
        });
        *sink.values = values;
        sink.drop_values(nan);
    }
}

#[derive(Debug)]
struct YoloV8(Layout);

pub(super) fn claim(facts: &Facts<'_>) -> Claim {
    task_allows(facts, Task::Detect)?;
    if !facts.named && facts.outputs.len() != 1 {
        return Err("it has one output".into());
    }
    Ok(Box::new(YoloV8(Layout::find(facts, 0)?)))
}

impl Decode for YoloV8 {
    fn describe(&self) -> String {
        format!("yolov8 boxes {}", self.0.shape())
    }

    fn classes(&self) -> Option<usize> {
        Some(self.0.classes)
    }

    fn scan(&self, outputs: &Outputs<'_>, sink: &mut Sink<'_>) {
        self.0.scan(outputs, sink);
    }
}
