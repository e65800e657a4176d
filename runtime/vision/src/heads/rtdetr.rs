//! RT-DETR: a set of queries, no suppression. Centre and size as fractions of the input, then either one score a class
//! (`[N, queries, 4 + classes]`) or the best score and its class (`[N, queries, 6]`, as Ultralytics 8.4 exports it).

use super::read::each_best;
use super::{Claim, Decode, Facts, Outputs, Sink, corners, task_allows};
use crate::nms::Overlap;
use crate::spec::Task;

#[derive(Debug)]
struct RtDetr {
    output: usize,
    queries: usize,
    /// One score a class, or None for score and class.
    classes: Option<usize>,
    input: (usize, usize),
}

pub(super) fn claim(facts: &Facts<'_>) -> Claim {
    task_allows(facts, Task::Detect)?;
    let (output, queries, channels) = facts.rank3()?;
    if channels < 5 {
        return Err(format!("it reads 4 box values and at least one score a row, {channels} found"));
    }
    if !facts.named {
        if facts.outputs.len() != 1 || !(50..=1000).contains(&queries) || facts.strides_for(queries).is_some()
        {
            return Err(format!("{queries} rows are no usual number of queries"));
        }
        if channels <= 6 || channels >= queries {
            return Err(
                "rows of six values are those of end-to-end models unless the metadata says otherwise".into(),
            );
        }
    }
    let two_classes = facts.spec.labels.as_ref().is_some_and(|l| l.len() == 2) && facts.spec.task.is_none();
    let classes = (channels != 6 || two_classes).then_some(channels - 4);
    Ok(Box::new(RtDetr { output, queries, classes, input: facts.input }))
}

impl RtDetr {
    fn bbox(&self, [cx, cy, w, h]: [f32; 4]) -> [f32; 4] {
        let (iw, ih) = (self.input.0 as f32, self.input.1 as f32);
        corners(cx * iw, cy * ih, w * iw, h * ih)
    }
}

impl Decode for RtDetr {
    fn describe(&self) -> String {
        match self.classes {
            Some(c) => {
                format!("rtdetr queries [1,{},{}], {c} classes, no suppression needed", self.queries, 4 + c)
            }
            None => {
                format!("rtdetr queries [1,{},6] with score and class, no suppression needed", self.queries)
            }
        }
    }

    fn classes(&self) -> Option<usize> {
        self.classes
    }

    fn overlap(&self) -> Overlap {
        Overlap::None
    }

    fn scan(&self, outputs: &Outputs<'_>, sink: &mut Sink<'_>) {
        let grid = outputs.cells_by_channels(self.output);
        let Some(classes) = self.classes else {
            for row in 0..grid.cells {
                let (score, class) = (grid.get(4, row), grid.get(5, row));
                sink.push_row(row, class, score, self.bbox(grid.four(0, row)), 0.0);
            }
            return;
        };
        let mut values = std::mem::take(sink.values);
        let (conf, all) = (sink.conf(), sink.multi_label());
        let nan = each_best(&grid, 4, classes, conf, all, &mut values, |row, class, score| {
            sink.push(row, class, score, self.bbox(grid.four(0, row)));
        });
        *sink.values = values;
        sink.drop_values(nan);
    }
}
