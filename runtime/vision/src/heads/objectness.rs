//! Rows of box, objectness, one score a class: `[N, cells, 5 + classes]`; the score is objectness times class score.
//!
//! * YOLOv5 (and v7, v3 of that line): three anchors a cell, boxes decoded in the graph.
//! * YOLOX decoded: one box a cell, decoded in the graph.
//! * YOLOX as its authors export it: one box a cell, still relative to its grid cell: `xy = (value + cell) * stride`,
//!   `wh = exp(value) * stride` (Ge et al. 2021). The shape is that of the decoded form, so nothing but the user or the
//!   model's description can tell the two apart.

use super::{Claim, Decode, Facts, Outputs, Sink, corners, task_allows};
use crate::spec::Task;

#[derive(Debug)]
struct Objectness {
    title: &'static str,
    output: usize,
    cells: usize,
    classes: usize,
    /// Number of strides, for people.
    levels: usize,
    /// Grids to undo, coarse-to-fine order as in the output: stride, columns, first cell. Empty if decoded.
    grids: Vec<(usize, usize, usize)>,
}

fn find(facts: &Facts<'_>, title: &'static str, anchors: usize, raw: bool) -> Result<Objectness, String> {
    task_allows(facts, Task::Detect)?;
    let (output, cells, channels) = facts.rank3()?;
    let classes = channels.checked_sub(5).filter(|&c| c > 0).ok_or_else(|| {
        format!("it reads 4 box values, objectness and at least one score a row, {channels} found")
    })?;
    let strides = (cells % anchors == 0).then(|| facts.strides_for(cells / anchors)).flatten();
    let strides = match strides {
        Some(s) => s,
        None if facts.named && !raw => Vec::new(),
        None => {
            return Err(format!(
                "{cells} rows are not the {} of {anchors} box(es) a cell at strides 8, 16, 32 (other strides are said in \
                 the description, `strides`)",
                facts.cells(&[8, 16, 32]) * anchors
            ));
        }
    };
    let mut grids = Vec::new();
    let mut first = 0;
    for &s in strides.iter().filter(|_| raw) {
        let (columns, rows) = (facts.input.0.div_ceil(s), facts.input.1.div_ceil(s));
        grids.push((s, columns, first));
        first += columns * rows;
    }
    Ok(Objectness { title, output, cells, classes, levels: strides.len(), grids })
}

pub(super) fn claim_yolov5(facts: &Facts<'_>) -> Claim {
    Ok(Box::new(find(facts, "yolov5 boxes", 3, false)?))
}

/// Ultralytics models, which name their task, have no objectness.
fn not_ultralytics(facts: &Facts<'_>) -> Result<(), String> {
    match facts.spec.task {
        Some(_) if !facts.named => Err("models that name their task have no objectness".into()),
        _ => Ok(()),
    }
}

pub(super) fn claim_yolox(facts: &Facts<'_>) -> Claim {
    not_ultralytics(facts)?;
    Ok(Box::new(find(facts, "yolox raw grids", 1, true)?))
}

pub(super) fn claim_yolox_decoded(facts: &Facts<'_>) -> Claim {
    not_ultralytics(facts)?;
    Ok(Box::new(find(facts, "yolox decoded boxes", 1, false)?))
}

impl Objectness {
    fn decode(&self, cell: usize, [x, y, w, h]: [f32; 4]) -> [f32; 4] {
        match self.grids.iter().rev().find(|(_, _, first)| *first <= cell) {
            None => corners(x, y, w, h),
            Some(&(stride, columns, first)) => {
                let (s, at) = (stride as f32, cell - first);
                let (column, row) = ((at % columns) as f32, (at / columns) as f32);
                corners((x + column) * s, (y + row) * s, w.exp() * s, h.exp() * s)
            }
        }
    }
}

impl Decode for Objectness {
    fn describe(&self) -> String {
        let strides = match self.levels {
            0 => String::new(),
            n => format!(", {n} strides"),
        };
        let (n, c) = (self.cells, self.classes);
        format!("{} [1,{n},{}], {c} class{}{strides}", self.title, 5 + c, if c == 1 { "" } else { "es" })
    }

    fn classes(&self) -> Option<usize> {
        Some(self.classes)
    }

    fn scan(&self, outputs: &Outputs<'_>, sink: &mut Sink<'_>) {
        let grid = outputs.cells_by_channels(self.output);
        let mut values = std::mem::take(sink.values);
        values.clear();
        values.resize(5 + self.classes, 0.0);
        let (conf, all) = (sink.conf(), sink.multi_label());
        for cell in 0..grid.cells {
            let objectness = grid.get(4, cell);
            if objectness.is_nan() {
                sink.drop_values(1);
                continue;
            }
            // Class scores are at most 1, so a cell below the threshold here stays below it.
            if objectness <= conf {
                continue;
            }
            let row = grid.cell(cell, 0..5 + self.classes, &mut values);
            let bbox = || self.decode(cell, [row[0], row[1], row[2], row[3]]);
            let (mut best, mut which, mut nan) = (f32::NEG_INFINITY, None, 0);
            for (class, &s) in row[5..].iter().enumerate() {
                if s.is_nan() {
                    nan += 1;
                } else if all {
                    if s * objectness > conf {
                        sink.push(cell, class, s * objectness, bbox());
                    }
                } else if s > best {
                    (best, which) = (s, Some(class));
                }
            }
            sink.drop_values(nan);
            if let Some(class) = which
                && best * objectness > conf
            {
                sink.push(cell, class, best * objectness, bbox());
            }
        }
        *sink.values = values;
    }
}
