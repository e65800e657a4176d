//! Oriented boxes: the YOLOv8 layout with one more value behind the scores, the box's angle in radians. Suppression
//! works on the exact overlap of the turned boxes.

use super::read::each_best;
use super::yolov8::Layout;
use super::{Claim, Decode, Facts, Outputs, Sink, corners, task_allows};
use crate::detection::{Detection, Detections, OrientedBox};
use crate::nms::{Candidate, Overlap};
use crate::spec::Task;
use saltica_tensor::Geometry;

#[derive(Debug)]
struct Oriented(Layout);

pub(super) fn claim(facts: &Facts<'_>) -> Claim {
    task_allows(facts, Task::Oriented)?;
    if !facts.named && facts.spec.task.is_none() {
        return Err("nothing says that the boxes are oriented".into());
    }
    Ok(Box::new(Oriented(Layout::find(facts, 1)?)))
}

/// Fills in the turned box and the upright one around it.
pub(super) fn turn(from: &Candidate, geometry: &Geometry, to: &mut Detection) {
    let [x1, y1, x2, y2] = from.bbox;
    let (sx, sy) = (geometry.scale().0 as f32, geometry.scale().1 as f32);
    // Where the two axes are scaled unlike (stretch), a turned rectangle becomes a parallelogram; the box with its width
    // axis and its area stands for it.
    let (sin, cos) = from.angle.sin_cos();
    let (ux, uy) = (cos / sx, sin / sy);
    let along = ux.hypot(uy);
    let w = (x2 - x1) * along;
    let h = (y2 - y1) / (sx * sy * along);
    let turned = OrientedBox {
        center: geometry.inverse(((x1 + x2) / 2.0, (y1 + y2) / 2.0)),
        size: (w, h),
        angle: uy.atan2(ux),
    };
    let mut around = [f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY];
    for (x, y) in turned.corners() {
        around = [around[0].min(x), around[1].min(y), around[2].max(x), around[3].max(y)];
    }
    let (left, top) = geometry.clip((around[0], around[1]));
    let (right, bottom) = geometry.clip((around[2], around[3]));
    to.bbox = [left, top, right, bottom];
    to.oriented = Some(turned);
}

impl Decode for Oriented {
    fn describe(&self) -> String {
        format!("yolov8 oriented boxes {}", self.0.shape())
    }

    fn classes(&self) -> Option<usize> {
        Some(self.0.classes)
    }

    fn overlap(&self) -> Overlap {
        Overlap::Oriented
    }

    fn scan(&self, outputs: &Outputs<'_>, sink: &mut Sink<'_>) {
        let grid = self.0.grid(outputs);
        let mut values = std::mem::take(sink.values);
        let (conf, all) = (sink.conf(), sink.multi_label());
        let nan = each_best(&grid, 4, self.0.classes, conf, all, &mut values, |cell, class, score| {
            let [cx, cy, w, h] = grid.four(0, cell);
            sink.push_turned(cell, class, score, corners(cx, cy, w, h), grid.get(self.0.extra(), cell));
        });
        *sink.values = values;
        sink.drop_values(nan);
    }

    fn finish(
        &self,
        _: &Outputs<'_>,
        from: &Candidate,
        geometry: &Geometry,
        to: &mut Detection,
        _: &mut Detections,
    ) {
        turn(from, geometry, to);
    }
}
