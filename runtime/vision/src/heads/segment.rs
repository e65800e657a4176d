//! Boxes with masks: behind the scores of the YOLOv8 layout come coefficients, and a second output `[N, coefficients,
//! height, width]` holds prototypes. An object's mask is the sum of the prototypes weighted by its coefficients,
//! positive inside (YOLACT, Bolya et al. 2019).

use super::read::Grid;
use super::yolov8::Layout;
use super::{Claim, Decode, Facts, Outputs, Sink, task_allows};
use crate::detection::{Detection, Detections};
use crate::nms::Candidate;
use crate::spec::Task;
use saltica_tensor::Geometry;

/// The output with the prototypes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prototypes {
    output: usize,
    pub(super) count: usize,
    size: (usize, usize),
    input: (usize, usize),
}

impl Prototypes {
    pub(super) fn find(facts: &Facts<'_>) -> Result<Self, String> {
        let mut found = facts.outputs.iter().enumerate().filter_map(|(i, o)| match *o.dims {
            [_, c, h, w] => Some(Prototypes { output: i, count: c, size: (w, h), input: facts.input }),
            _ => None,
        });
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            _ => Err("it reads one output of rank 4, the mask prototypes".into()),
        }
    }

    pub(super) fn shape(&self) -> String {
        format!("prototypes [1,{},{},{}]", self.count, self.size.1, self.size.0)
    }

    /// Makes the mask of a box from its coefficients: channels `first..` of a cell.
    pub(super) fn mask(
        &self,
        outputs: &Outputs<'_>,
        grid: &Grid<'_>,
        first: usize,
        from: &Candidate,
        geometry: &Geometry,
        to: &mut Detection,
        out: &mut Detections,
    ) {
        let cells = (self.size.0 as f32 / self.input.0 as f32, self.size.1 as f32 / self.input.1 as f32);
        // One cell more on each side: pixels at the box's border lie between it and the next.
        let range = |lo: f32, hi: f32, cells: f32, size: usize| {
            let lo = ((lo * cells - 1.0).floor().max(0.0) as usize).min(size - 1);
            let hi = ((hi * cells + 1.0).ceil().max(0.0) as usize).min(size);
            (lo, hi.saturating_sub(lo).max(1))
        };
        let (x, w) = range(from.bbox[0], from.bbox[2], cells.0, self.size.0);
        let (y, h) = range(from.bbox[1], from.bbox[3], cells.1, self.size.1);
        let maps = outputs.maps(self.output);
        let mut row = std::mem::take(&mut out.values);
        row.clear();
        row.resize(w, 0.0);
        let bbox = geometry.inverse_box(from.bbox);
        let index = out.push_mask(*geometry, cells, (x, y), (w, h), bbox, |logits| {
            for k in 0..self.count {
                let weight = grid.get(first + k, from.index as usize);
                for (j, line) in logits.chunks_exact_mut(w).enumerate() {
                    let start = (y + j) * self.size.0 + x;
                    for (l, &p) in line.iter_mut().zip(maps.channel(k, start..start + w, &mut row)) {
                        *l += weight * p;
                    }
                }
            }
        });
        out.values = row;
        to.mask = Some(index);
    }
}

#[derive(Debug)]
struct Segment {
    layout: Layout,
    prototypes: Prototypes,
}

pub(super) fn claim(facts: &Facts<'_>) -> Claim {
    task_allows(facts, Task::Segment)?;
    let prototypes = Prototypes::find(facts)?;
    let layout = Layout::find(facts, prototypes.count)?;
    Ok(Box::new(Segment { layout, prototypes }))
}

impl Decode for Segment {
    fn describe(&self) -> String {
        format!("yolov8 boxes and masks {}, {}", self.layout.shape(), self.prototypes.shape())
    }

    fn classes(&self) -> Option<usize> {
        Some(self.layout.classes)
    }

    fn scan(&self, outputs: &Outputs<'_>, sink: &mut Sink<'_>) {
        self.layout.scan(outputs, sink);
    }

    fn finish(
        &self,
        outputs: &Outputs<'_>,
        from: &Candidate,
        geometry: &Geometry,
        to: &mut Detection,
        out: &mut Detections,
    ) {
        let grid = self.layout.grid(outputs);
        self.prototypes.mask(outputs, &grid, self.layout.extra(), from, geometry, to, out);
    }
}
