#![no_main]
//! Any bytes as a model file.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    if let Ok(graph) = saltica_models::onnx::parse(file.to_vec(), None) {
        saltica_models_fuzz::exercise(graph);
    }
});
