//! How frames come in, move through the runtime and leave it.
//!
//! * [`source`]: cameras, files, streams and the simulated camera ([`source::sim`], which knows the truth of every frame it
//!   draws), each on a thread of its own that survives whatever happens to it.
//! * [`frame`]: a picture with its capture time, borrowed from the buffer it arrived in.
//! * [`ring`]: the two or three frames between a source and its user.
#![deny(unsafe_code)]

mod error;
pub mod frame;
pub mod ring;
pub mod source;
mod suggest;

pub use error::{Error, ErrorKind};

/// Result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;
