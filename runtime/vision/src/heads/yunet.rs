//! YuNet: faces with five points (eyes, nose, corners of the mouth). For each stride S four outputs `cls_S`, `obj_S`,
//! `bbox_S`, `kps_S` of `[N, cells, 1, 1, 4, 10]`: `score = sqrt(cls * obj)`, centre `(cell + value) * S`, size
//! `exp(value) * S`, points `(cell + value) * S` (Wu et al. 2023).

use super::{Claim, Decode, Facts, Outputs, Sink, corners};
use crate::detection::{Detection, Detections, Keypoint};
use crate::nms::Candidate;
use saltica_tensor::Geometry;

const POINTS: usize = 5;

/// One stride: where its outputs are and which cells it has, numbered through all strides.
#[derive(Clone, Copy, Debug)]
struct Level {
    stride: usize,
    columns: usize,
    first: usize,
    cells: usize,
    cls: usize,
    obj: usize,
    bbox: usize,
    kps: usize,
}

#[derive(Debug)]
struct YuNet {
    levels: Vec<Level>,
}

pub(super) fn claim(facts: &Facts<'_>) -> Claim {
    let find = |name: String, cells: usize, channels: usize| {
        let at = facts.outputs.iter().position(|o| o.name == name);
        match at {
            Some(i) if matches!(facts.outputs[i].dims, [_, n, c] if (*n, *c) == (cells, channels)) => Ok(i),
            Some(i) => {
                Err(format!("{name} is {:?}, [N, {cells}, {channels}] expected", facts.outputs[i].dims))
            }
            None => Err(format!("there is no output {name}")),
        }
    };
    let mut levels = Vec::new();
    let mut first = 0;
    let strides = facts.spec.strides.as_deref().unwrap_or(&[8, 16, 32]);
    for &stride in strides {
        let (columns, rows) = (facts.input.0.div_ceil(stride), facts.input.1.div_ceil(stride));
        let cells = columns * rows;
        levels.push(Level {
            stride,
            columns,
            first,
            cells,
            cls: find(format!("cls_{stride}"), cells, 1)?,
            obj: find(format!("obj_{stride}"), cells, 1)?,
            bbox: find(format!("bbox_{stride}"), cells, 4)?,
            kps: find(format!("kps_{stride}"), cells, 2 * POINTS)?,
        });
        first += cells;
    }
    Ok(Box::new(YuNet { levels }))
}

impl Level {
    fn cell(&self, at: usize) -> (f32, f32) {
        ((at % self.columns) as f32, (at / self.columns) as f32)
    }
}

impl Decode for YuNet {
    fn describe(&self) -> String {
        let cells: usize = self.levels.iter().map(|l| l.cells).sum();
        format!("yunet faces with {POINTS} points, {cells} cells, {} strides", self.levels.len())
    }

    fn classes(&self) -> Option<usize> {
        Some(1)
    }

    fn scan(&self, outputs: &Outputs<'_>, sink: &mut Sink<'_>) {
        for level in &self.levels {
            let [cls, obj, bbox] = [level.cls, level.obj, level.bbox].map(|o| outputs.cells_by_channels(o));
            for at in 0..level.cells {
                let score = (cls.get(0, at).clamp(0.0, 1.0) * obj.get(0, at).clamp(0.0, 1.0)).sqrt();
                if score <= sink.conf() {
                    continue;
                }
                let (column, row) = level.cell(at);
                let s = level.stride as f32;
                let [x, y, w, h] = bbox.four(0, at);
                let b = corners((column + x) * s, (row + y) * s, w.exp() * s, h.exp() * s);
                sink.push(level.first + at, 0, score, b);
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
        let index = from.index as usize;
        let Some(level) = self.levels.iter().find(|l| (l.first..l.first + l.cells).contains(&index)) else {
            return;
        };
        let (at, s) = (index - level.first, level.stride as f32);
        let (column, row) = level.cell(at);
        let kps = outputs.cells_by_channels(level.kps);
        to.keypoints = (out.keypoints.len() as u32, POINTS as u32);
        for k in 0..POINTS {
            let p = ((column + kps.get(2 * k, at)) * s, (row + kps.get(2 * k + 1, at)) * s);
            let (x, y) = geometry.clip(geometry.inverse(p));
            out.keypoints.push(Keypoint { x, y, score: 1.0 });
        }
    }
}
