//! Boxes with keypoints: behind the scores of the YOLOv8 layout come x and y in model pixels, and where the model says
//! it a visibility 0..1, for each keypoint.

use super::read::Grid;
use super::yolov8::Layout;
use super::{Claim, Decode, Facts, Outputs, Sink, task_allows};
use crate::detection::{Detection, Detections, Keypoint};
use crate::nms::Candidate;
use crate::spec::Task;
use saltica_tensor::Geometry;

#[derive(Debug)]
struct Pose {
    layout: Layout,
    keypoints: (usize, usize),
}

/// COCO's person keypoints.
const COCO: (usize, usize) = (17, 3);

pub(super) fn claim(facts: &Facts<'_>) -> Claim {
    task_allows(facts, Task::Pose)?;
    let keypoints = facts.spec.keypoints.unwrap_or(COCO);
    let layout = Layout::find(facts, keypoints.0 * keypoints.1)?;
    // Without a word from the metadata only COCO's own shape, one class and 17 points, makes one think of poses.
    if !facts.named && facts.spec.task.is_none() && (facts.spec.keypoints.is_none() && layout.classes != 1) {
        return Err("nothing says that the values are keypoints".into());
    }
    Ok(Box::new(Pose { layout, keypoints }))
}

/// Appends `count` keypoints of `values` channels each, from channel `first` of a cell.
pub(super) fn keypoints(
    grid: &Grid<'_>,
    cell: usize,
    first: usize,
    (count, values): (usize, usize),
    geometry: &Geometry,
    out: &mut Detections,
) -> (u32, u32) {
    let start = out.keypoints.len() as u32;
    for k in 0..count {
        let at = first + k * values;
        let (x, y) = geometry.clip(geometry.inverse((grid.get(at, cell), grid.get(at + 1, cell))));
        let score = if values == 3 { grid.get(at + 2, cell) } else { 1.0 };
        // A point that is no number is there, at the border, but never visible.
        out.keypoints.push(Keypoint { x, y, score: if score.is_finite() { score } else { 0.0 } });
    }
    (start, count as u32)
}

impl Decode for Pose {
    fn describe(&self) -> String {
        let (n, d) = self.keypoints;
        format!("yolov8 poses {}, {n} keypoints of {d} values", self.layout.shape())
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
        to.keypoints =
            keypoints(&grid, from.index as usize, self.layout.extra(), self.keypoints, geometry, out);
    }
}
