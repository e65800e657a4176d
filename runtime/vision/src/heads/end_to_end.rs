//! Models that do the suppression themselves (YOLOv10, YOLO26, exports with `nms=True`): rows of corners, score and
//! class in `[N, rows, 6 + more]`, best first, unused rows zero. More are mask coefficients, keypoints, or the angle of
//! an oriented box, whose first four values are centre and size.

use super::segment::Prototypes;
use super::{Claim, Decode, Facts, Outputs, Sink, corners, oriented, pose, task_allows};
use crate::detection::{Detection, Detections};
use crate::nms::{Candidate, Overlap};
use crate::spec::Task;
use saltica_tensor::Geometry;

#[derive(Debug)]
enum More {
    Nothing,
    Masks(Prototypes),
    Keypoints((usize, usize)),
    Angle,
}

#[derive(Debug)]
struct EndToEnd {
    output: usize,
    rows: usize,
    channels: usize,
    more: More,
}

/// The most rows without the metadata's word; beyond, the rows may be grid cells.
const MAX_ROWS: usize = 1000;

fn find(facts: &Facts<'_>, task: Task, more: More) -> Claim {
    task_allows(facts, task)?;
    let (output, rows, channels) = facts.rank3()?;
    let want = 6 + match &more {
        More::Nothing => 0,
        More::Masks(p) => p.count,
        More::Keypoints((n, d)) => n * d,
        More::Angle => 1,
    };
    if channels != want {
        return Err(format!("it reads rows of {want} values, {channels} found"));
    }
    if !facts.named && (rows > MAX_ROWS || facts.strides_for(rows).is_some()) {
        return Err(format!("{rows} rows are cells of a grid rather than a list of objects"));
    }
    Ok(Box::new(EndToEnd { output, rows, channels, more }))
}

pub(super) fn claim_boxes(facts: &Facts<'_>) -> Claim {
    if !facts.named && facts.outputs.len() != 1 {
        return Err("it has one output".into());
    }
    find(facts, Task::Detect, More::Nothing)
}

pub(super) fn claim_segment(facts: &Facts<'_>) -> Claim {
    find(facts, Task::Segment, More::Masks(Prototypes::find(facts)?))
}

pub(super) fn claim_pose(facts: &Facts<'_>) -> Claim {
    find(facts, Task::Pose, More::Keypoints(facts.spec.keypoints.unwrap_or((17, 3))))
}

pub(super) fn claim_oriented(facts: &Facts<'_>) -> Claim {
    find(facts, Task::Oriented, More::Angle)
}

impl Decode for EndToEnd {
    fn describe(&self) -> String {
        let what = match &self.more {
            More::Nothing => "boxes".into(),
            More::Masks(p) => format!("boxes and masks, {},", p.shape()),
            More::Keypoints((n, d)) => format!("poses, {n} keypoints of {d} values,"),
            More::Angle => "oriented boxes".into(),
        };
        format!("end-to-end {what} [1,{},{}], no suppression needed", self.rows, self.channels)
    }

    fn classes(&self) -> Option<usize> {
        None
    }

    fn overlap(&self) -> Overlap {
        Overlap::None
    }

    fn scan(&self, outputs: &Outputs<'_>, sink: &mut Sink<'_>) {
        let grid = outputs.cells_by_channels(self.output);
        for row in 0..grid.cells {
            let (score, class) = (grid.get(4, row), grid.get(5, row));
            let [a, b, c, d] = grid.four(0, row);
            match self.more {
                More::Angle => sink.push_row(row, class, score, corners(a, b, c, d), grid.get(6, row)),
                _ => sink.push_row(row, class, score, [a, b, c, d], 0.0),
            }
        }
    }

    fn finish(
        &self,
        outputs: &Outputs<'_>,
        from: &Candidate,
        geometry: &Geometry,
        to: &mut Detection,
        out: &mut Detections,
    ) {
        let grid = outputs.cells_by_channels(self.output);
        match &self.more {
            More::Nothing => {}
            More::Masks(p) => p.mask(outputs, &grid, 6, from, geometry, to, out),
            More::Keypoints(shape) => {
                to.keypoints = pose::keypoints(&grid, from.index as usize, 6, *shape, geometry, out)
            }
            More::Angle => oriented::turn(from, geometry, to),
        }
    }
}
