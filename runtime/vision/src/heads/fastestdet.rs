//! FastestDet: one map `[N, 5 + classes, height, width]` at stride 16: objectness, four box values, class scores
//! (softmaxed). `cx = (column + tanh b0) / width`, `w = sigmoid b2`, likewise in y, as fractions of the input;
//! `score = objectness^0.6 * class^0.4`.

use super::{Claim, Decode, Facts, Outputs, Sink, corners, task_allows};
use crate::spec::Task;

#[derive(Debug)]
struct FastestDet {
    output: usize,
    classes: usize,
    size: (usize, usize),
    input: (usize, usize),
}

pub(super) fn claim(facts: &Facts<'_>) -> Claim {
    task_allows(facts, Task::Detect)?;
    if facts.outputs.len() != 1 {
        return Err("it has one output".into());
    }
    let &[_, c, h, w] = facts.outputs[0].dims else { return Err("it has an output of rank 4".into()) };
    if c < 6 {
        return Err(format!(
            "it reads objectness, 4 box values and at least one score a cell, {c} channels found"
        ));
    }
    if !facts.named && (w, h) != (facts.input.0.div_ceil(16), facts.input.1.div_ceil(16)) {
        return Err(format!("a map of {w}x{h} is not the input at stride 16"));
    }
    Ok(Box::new(FastestDet { output: 0, classes: c - 5, size: (w, h), input: facts.input }))
}

impl Decode for FastestDet {
    fn describe(&self) -> String {
        let (w, h) = self.size;
        format!("fastestdet map [1,{},{h},{w}], {} classes", 5 + self.classes, self.classes)
    }

    fn classes(&self) -> Option<usize> {
        Some(self.classes)
    }

    fn scan(&self, outputs: &Outputs<'_>, sink: &mut Sink<'_>) {
        let grid = outputs.maps(self.output);
        let (conf, all) = (sink.conf(), sink.multi_label());
        let sigmoid = |v: f32| 1.0 / (1.0 + (-v).exp());
        for cell in 0..grid.cells {
            let objectness = grid.get(0, cell).clamp(0.0, 1.0).powf(0.6);
            if objectness.is_nan() {
                sink.drop_values(1);
                continue;
            }
            if objectness <= conf {
                continue;
            }
            let bbox = || {
                let [x, y, w, h] = grid.four(1, cell);
                let (column, row) = ((cell % self.size.0) as f32, (cell / self.size.0) as f32);
                let (iw, ih) = (self.input.0 as f32, self.input.1 as f32);
                corners(
                    (column + x.tanh()) / self.size.0 as f32 * iw,
                    (row + y.tanh()) / self.size.1 as f32 * ih,
                    sigmoid(w) * iw,
                    sigmoid(h) * ih,
                )
            };
            let (mut best, mut which) = (f32::NEG_INFINITY, None);
            for class in 0..self.classes {
                let s = grid.get(5 + class, cell);
                if s.is_nan() {
                    sink.drop_values(1);
                } else if all {
                    sink.push(cell, class, objectness * s.clamp(0.0, 1.0).powf(0.4), bbox());
                } else if s > best {
                    (best, which) = (s, Some(class));
                }
            }
            if let Some(class) = which {
                sink.push(cell, class, objectness * best.clamp(0.0, 1.0).powf(0.4), bbox());
            }
        }
    }
}
