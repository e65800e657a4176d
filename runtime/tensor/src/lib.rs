//! The words that every part of Saltica shares.
//!
//! * [`DType`], [`Shape`], [`Layout`]: what a block of numbers means.
//! * [`Tensor`]: owned (or file-mapped), contiguous, row-major numbers.
//! * [`View`], [`ViewMut`]: strided windows on a tensor or on an arena; kernels see nothing else.
//! * [`Pixels`], [`PixelFormat`], [`Geometry`]: a picture's bytes, and its placement in a model's input.
//! * [`Arena`], [`Slot`], [`Workspace`]: one block of memory in which every value of a plan has a fixed place.
//!
//! This is the leaf of the dependency tree: it knows no graph, no image file and no device. `unsafe` lives in
//! [`storage`], [`view`] and [`arena`] only, each of which opens with its invariants.

pub mod arena;
mod dtype;
mod error;
mod geometry;
mod layout;
mod pixel;
mod shape;
pub mod storage;
mod tensor;
pub mod view;

pub use arena::{Arena, Slot, Source, StepIo, StepViews, Workspace};
pub use dtype::{Bool, DType, Element};
pub use error::{Error, ErrorKind};
pub use geometry::{Geometry, ResizeMode};
pub use half::f16;
pub use layout::Layout;
pub use pixel::{ColorMatrix, Colorimetry, PixelFormat, Pixels};
pub use shape::{Indices, MAX_RANK, Shape};
pub use tensor::Tensor;
pub use view::{View, ViewMut};

/// Result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;
