//! Classifiers: `[N, classes]` (or `[N, classes, 1, 1]`), probabilities or logits. The best classes come out as objects
//! that cover what the model saw of the picture.

use super::read::{Grid, Order};
use super::{Claim, Decode, Facts, Outputs, Sink, task_allows};
use crate::nms::Overlap;
use crate::spec::Task;
use half::f16;
use saltica_tensor::DType;

#[derive(Debug)]
struct Classify {
    classes: usize,
    logits: bool,
    map: bool,
    input: (usize, usize),
}

fn find(facts: &Facts<'_>, logits: bool) -> Claim {
    task_allows(facts, Task::Classify)?;
    if facts.outputs.len() != 1 {
        return Err("it has one output".into());
    }
    let (classes, map) = match *facts.outputs[0].dims {
        [_, c] => (c, false),
        [_, c, 1, 1] => (c, true),
        _ => return Err("it has an output [N, classes]".into()),
    };
    Ok(Box::new(Classify { classes, logits, map, input: facts.input }))
}

pub(super) fn claim(facts: &Facts<'_>) -> Claim {
    find(facts, false)
}

pub(super) fn claim_logits(facts: &Facts<'_>) -> Claim {
    find(facts, true)
}

impl Decode for Classify {
    fn describe(&self) -> String {
        let what = if self.logits { "logits" } else { "probabilities" };
        format!("class {what} [1,{}]", self.classes)
    }

    fn classes(&self) -> Option<usize> {
        Some(self.classes)
    }

    fn overlap(&self) -> Overlap {
        Overlap::None
    }

    fn scan(&self, outputs: &Outputs<'_>, sink: &mut Sink<'_>) {
        let (view, batch) = (outputs.views[0], outputs.batch);
        let get = |class: usize| {
            if self.map {
                Grid::new(view, batch, Order::Maps).get(class, 0)
            } else if view.dtype() == DType::F32 {
                view.get::<f32>(&[batch, class])
            } else {
                view.get::<f16>(&[batch, class]).to_f32()
            }
        };
        let (mut largest, mut sum) = (f32::NEG_INFINITY, 0.0f64);
        if self.logits {
            largest = (0..self.classes).map(get).filter(|v| v.is_finite()).fold(largest, f32::max);
            sum = (0..self.classes)
                .map(get)
                .filter(|v| v.is_finite())
                .map(|v| f64::from(v - largest).exp())
                .sum();
        }
        let whole = [0.0, 0.0, self.input.0 as f32, self.input.1 as f32];
        for class in 0..self.classes {
            let v = get(class);
            let score =
                if self.logits && v.is_finite() { (f64::from(v - largest).exp() / sum) as f32 } else { v };
            sink.push(class, class, score, whole);
        }
    }
}
