//! Pictures in, boxes out.
//!
//! * [`Image`]: image files to upright RGB, by documented rules.
//! * [`Preprocessor`]: a picture to a model's input tensor in one pass, and the [`Geometry`](saltica_tensor::Geometry)
//!   for the way back.
//! * [`ModelSpec`]: what a model wants in and means by its outputs.
//! * [`Head`]: output tensors to [`Detections`] in source pixels.
//! * [`draw`]: annotated pictures.
//! * [`track`]: objects followed from frame to frame, and how well.
//!
//! This crate knows no graph and no device: it needs tensors and their names only.

#![forbid(unsafe_code)]

mod detection;
pub mod draw;
mod error;
pub mod heads;
mod image;
mod nms;
mod preprocess;
mod read;
mod resize;
pub mod spec;
pub mod track;
mod yuv;

pub use self::image::{EncodedFormat, Image, JpegScan, JpegScanner, Limits, scan_jpeg};
pub use detection::{Detection, Detections, Keypoint, Mask, OrientedBox};
pub use error::{Error, ErrorKind};
pub use heads::{DecodeParams, Head, OutputInfo};
pub use nms::{iou, oriented_iou};
pub use preprocess::{ColorOrder, InputSpec, Preprocessor};
pub use spec::{Labels, ModelSpec, Task};

/// Result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;
