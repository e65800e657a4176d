//! How frames come in, move through the runtime and leave it.
//!
//! * [`source`]: cameras, files, streams and the simulated camera ([`source::sim`], which knows the truth of every frame it
//!   draws), each on a thread of its own that survives whatever happens to it.
//! * [`frame`]: a picture with its capture time, borrowed from the buffer it arrived in.
//! * [`ring`]: the two or three frames between a source and its user.
//! * [`batch`]: which frames the model looks at together, and when.
//! * [`stage`]: the threads between sources and sinks.
//! * [`clock`]: what tells the time, really or virtually.
//! * [`sink`]: where results go: lines of JSON, pictures, video, MQTT, a page to look at, metrics.
//! * [`process`]: what a supervisor such as systemd wants to be told.
//! * [`suggest`]: the nearest known word for one that is not known.
#![deny(unsafe_code)]

pub mod batch;
pub mod clock;
mod error;
pub mod frame;
pub mod process;
pub mod ring;
pub mod sink;
pub mod source;
pub mod stage;
pub mod suggest;

pub use error::{Error, ErrorKind};

/// Result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;
