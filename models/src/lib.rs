//! What a model is: ONNX in, typed graph out. No images, no devices, no threads.
//!
//! * [`onnx`]: reading the file.
//! * [`graph`]: values, nodes, and the ops: one file each with attributes, shape rule, reference kernel and cases.
//! * [`passes`]: folding and fusing, and where shapes end.
//! * [`zoo`]: the models that come with the project.

#![forbid(unsafe_code)]

mod error;
pub mod graph;
pub mod onnx;
pub mod passes;
pub mod zoo;

pub use error::{Error, ErrorKind};

/// Result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;
