//! Saltica finds objects in pictures with YOLO-style models on any Linux CPU.
//!
//! This crate is the program `saltica` and the library behind it:
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
pub mod doctor;
mod error;
pub mod eval;
pub mod inputs;
pub mod npy;
pub mod output;
pub mod report;

pub use error::{Error, ErrorKind};

/// Result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;
