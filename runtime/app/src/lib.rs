//! Saltica finds objects in pictures with YOLO-style models on any Linux CPU.
//!
//! * [`Detector`]: a model that finds objects in pictures.
//! * [`Session`]: a model that runs on tensors.
//!
//! A detector is loaded once and looks at any number of pictures:
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut detector = saltica::Detector::builder().conf(0.4).classes(&["person", "dog"]).load("yolox_nano.onnx")?;
//! let found = detector.detect(&saltica::Image::open("street.jpg")?)?;
//! for object in found.items() {
//!     println!("{} {:.2} at {:?}", detector.head().label(object.class), object.score, object.bbox);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A session takes and gives tensors, of any model:
//!
//! ```
//! use saltica::{Session, Tensor};
//! # use saltica_models::{graph::attrs::Attr, onnx::build::ModelBuilder};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # // s = the sum of x * x, for a batch of any size.
//! # let onnx = ModelBuilder::new(17)
//! #     .input("x", saltica::DType::F32, &["batch".into(), 3usize.into()])
//! #     .node("Mul", &["x", "x"], &["xx"], &[])
//! #     .node("ReduceSum", &["xx"], &["s"], &[("noop_with_empty_axes", Attr::Int(0)), ("keepdims", Attr::Int(0))])
//! #     .output("s", saltica::DType::F32)
//! #     .encode();
//! let mut session = Session::builder().threads(1).load_bytes(onnx)?; // or load(path)
//! assert_eq!(session.inputs()[0].to_string(), "x: f32 [batch, 3]");
//!
//! let x = Tensor::from_slice(&[2, 3], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//! let outputs = session.run(&[("x", &x)])?;
//! assert_eq!(outputs[0].0, "s");
//! assert_eq!(outputs[0].1.as_slice::<f32>()?, [91.0]); // 1 + 4 + 9 + 16 + 25 + 36
//! # Ok(())
//! # }
//! ```
//!
//! Everything that can fail returns [`Error`], whose message says what was found, what was expected and what to do.
//!
//! Around them, what the program `saltica` is made of:
//!
//! * [`eval`]: COCO's mean average precision, by pycocotools' rules.
//! * [`mod@bench`]: statistics of timed runs.
//! * [`doctor`]: what this machine offers: CPU features, limits, GPU.
//! * [`inputs`]: which files a command line means.
//! * [`models`]: models by name: inside the program, fetched, or to be fetched.
//! * [`npy`]: tensors in numpy's file format.
//! * [`track`]: objects followed from picture to picture.
//! * [`report`]: the records behind `--json`, and tables for people.
//! * [`run`]: cameras and files through a model to sinks, continuously.
//! * [`output`]: files that appear whole or not at all.
#![forbid(unsafe_code)]

pub mod bench;
mod detector;
pub mod doctor;
mod error;
pub mod eval;
pub mod inputs;
pub mod models;
pub mod npy;
pub mod output;
pub mod report;
pub mod run;
pub mod session;

pub use detector::{Detector, DetectorBuilder, Picture};
pub use error::{Error, ErrorKind};
pub use saltica_tensor::{DType, Shape, Tensor};
pub use saltica_vision::spec::sha256_hex;
pub use saltica_vision::{
    Detection, Detections, EncodedFormat, Head, Image, Labels, ModelSpec, draw, iou, track,
};
pub use session::{BackendKind, Session, SessionBuilder};

/// Result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;
