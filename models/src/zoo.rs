//! Models that come with the project, as bytes inside the program: a bare machine needs no other file.

/// The detector trained on the project's simulated scenes: an ONNX file. `models/zoo/saltica-nano` holds its model card.
pub const SALTICA_NANO: &[u8] = include_bytes!("../zoo/saltica-nano/saltica-nano.onnx");
