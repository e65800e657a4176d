//! How frames come in, move through the runtime and leave it.
//!
//! [`source::sim`] is the simulated camera, which knows the truth of every frame it draws; [`batch`] decides which frames
//! the model looks at together, and when; [`clock`] tells the time to all of them.
#![forbid(unsafe_code)]

pub mod batch;
pub mod clock;
mod error;
pub mod source;

pub use error::{Error, ErrorKind};

/// Result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;
