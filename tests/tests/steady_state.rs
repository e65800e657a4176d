//! Once a detector has seen a picture, the next ones cost no heap allocation: not in preprocessing, not in the model, not
//! in decoding, on no thread.

use saltica::{Detections, Detector, Image};
use saltica_tests::memory::{Counting, allocations};
use saltica_tests::{Result, gunzipped, trial};
use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    // One trial: counting is per process, and a second one would run beside it.
    saltica_tests::suite(|shared| {
        let data = shared.join("data");
        Ok(vec![trial("nothing is allocated", move || {
            for model in [
                "models/yolox_nano.onnx",
                "models/yolox_nano_int8_qdq.onnx",
                "models/fastestdet_352.onnx",
                "models-restricted/yolov8n_dequantized_fp32_640.onnx.gz",
            ] {
                nothing_is_allocated(&data, model).map_err(|e| format!("{model}: {e}"))?;
            }
            Ok(())
        })])
    })
}

fn nothing_is_allocated(data: &Path, model: &str) -> Result<()> {
    let model = gunzipped(&data.join(model))?;
    for threads in [1, 2] {
        let mut detector = Detector::builder().threads(threads).load(model.path())?;
        let pictures: Vec<Image> = ["dog_0.jpg", "humans_4.jpg"]
            .iter()
            .map(|name| Image::open(data.join("images/photos").join(name)))
            .collect::<std::result::Result<_, _>>()?;
        let mut found = Detections::new();
        // Buffers grow to what these pictures need.
        for picture in &pictures {
            detector.detect_into(picture, &mut found)?;
        }
        for picture in pictures.iter().chain(&pictures) {
            let before = allocations();
            detector.detect_into(picture, &mut found)?;
            let made = allocations() - before;
            if made > 0 {
                return Err(format!("{made} allocations on {threads} threads").into());
            }
            assert!(!found.is_empty(), "objects were decoded, too");
        }
    }
    Ok(())
}
