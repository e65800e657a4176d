//! The five test photos, end to end: the detector finds what onnxruntime found.
//!
//! Golden boxes: onnxruntime 1.32, letterbox by OpenCV, score above 0.35, suppression per class above an overlap of 0.45;
//! scores were written with four digits, coordinates with one.

use libtest_mimic::Trial;
use saltica::{Detector, Image};
use saltica_tests::{Result, trial};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

const CONF: f32 = 0.35;
/// A box this near to the threshold may be on either side of it.
const NEAR: f32 = 0.02;
const MIN_IOU: f32 = 0.98;

#[derive(Clone, Deserialize)]
struct Golden {
    cls: String,
    score: f32,
    xyxy: [f32; 4],
}

#[derive(Deserialize)]
struct File {
    detections: BTreeMap<String, BTreeMap<String, Vec<Golden>>>,
}

fn main() -> ExitCode {
    saltica_tests::suite(trials)
}

fn trials(shared: &Path) -> Result<Vec<Trial>> {
    let data = shared.join("data");
    let text = std::fs::read_to_string(data.join("golden/photo_detections.json"))?;
    let file: File = serde_json::from_str(&text)?;
    // Golden boxes name classes by darknet's spelling, in the order of this file.
    let classes: Vec<String> =
        std::fs::read_to_string(data.join("images/coco_classes.txt"))?.lines().map(str::to_owned).collect();
    let trials = file.detections.into_iter().map(|(model, photos)| {
        let (data, classes) = (data.clone(), classes.clone());
        trial(model.clone(), move || {
            let path = data.join("models").join(format!("{model}.onnx"));
            let mut detector = Detector::builder().conf(CONF).iou(0.45).clip(false).load(path)?;
            for (photo, golden) in &photos {
                let picture = Image::open(data.join("images/photos").join(photo))?;
                let found: Vec<Golden> = detector
                    .detect(&picture)?
                    .items()
                    .iter()
                    .map(|d| Golden { cls: classes[d.class as usize].clone(), score: d.score, xyxy: d.bbox })
                    .collect();
                compare(golden, &found).map_err(|e| format!("{photo}: {e}"))?;
            }
            Ok(())
        })
    });
    Ok(trials.collect())
}

/// Each surely golden box has its own found one, and each surely found box its golden one.
fn compare(golden: &[Golden], found: &[Golden]) -> Result<()> {
    let mut free: Vec<&Golden> = found.iter().collect();
    let mut least = 1f32;
    for g in golden {
        let best = free
            .iter()
            .enumerate()
            .filter(|(_, f)| f.cls == g.cls)
            .map(|(i, f)| (i, saltica::iou(&g.xyxy, &f.xyxy)))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        match best {
            Some((i, iou)) if iou >= MIN_IOU => {
                let f = free.remove(i);
                least = least.min(iou);
                if (f.score - g.score).abs() > NEAR {
                    return Err(format!("{} scores {}, golden {}", g.cls, f.score, g.score).into());
                }
            }
            _ if g.score < CONF + NEAR => {}
            best => {
                return Err(format!("{} {} {:?} not found; nearest: {best:?}", g.cls, g.score, g.xyxy).into());
            }
        }
    }
    println!("least IoU {least}");
    match free.iter().find(|f| f.score >= CONF + NEAR) {
        Some(f) => Err(format!("{} {} {:?} is not golden", f.cls, f.score, f.xyxy).into()),
        None => Ok(()),
    }
}
