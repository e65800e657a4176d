//! How frames come in, move through the runtime and leave it.
//!
//! So far: [`source::sim`], the simulated camera, which knows the truth of every frame it draws.
#![forbid(unsafe_code)]

mod error;
pub mod source;

pub use error::{Error, ErrorKind};

/// Result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;
