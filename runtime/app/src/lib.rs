//! Saltica finds objects in pictures with YOLO-style models on any Linux CPU.
//!
//! * [`Detector`]: a model that finds objects in pictures.
//! * [`Session`]: a model that runs on tensors.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut detector = saltica::Detector::load("yolox_nano.onnx")?;
//! let found = detector.detect(&saltica::Image::open("street.jpg")?)?;
//! println!("{} objects", found.len());
//! # Ok(())
//! # }
//! ```
//!
//! Around them, what the program `saltica` is made of:
//!
//! * [`eval`]: COCO's mean average precision, by pycocotools' rules.
//! * [`mod@bench`]: statistics of timed runs.
//! * [`doctor`]: what this machine offers: CPU features, limits, GPU.
//! * [`inputs`]: which files a command line means.
//! * [`npy`]: tensors in numpy's file format.
//! * [`report`]: the records behind `--json`, and tables for people.
//! * [`output`]: files that appear whole or not at all.
#![forbid(unsafe_code)]

pub mod bench;
mod detector;
pub mod doctor;
mod error;
pub mod eval;
pub mod inputs;
pub mod npy;
pub mod output;
pub mod report;
pub mod session;

pub use detector::{Detector, DetectorBuilder, Picture};
pub use error::{Error, ErrorKind};
pub use saltica_tensor::{DType, Shape, Tensor};
pub use saltica_vision::spec::sha256_hex;
pub use saltica_vision::{Detection, Detections, EncodedFormat, Head, Image, Labels, ModelSpec, draw};
pub use session::{BackendKind, Session, SessionBuilder};

/// Result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;
