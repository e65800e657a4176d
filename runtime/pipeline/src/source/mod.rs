//! Where frames come from.
//!
//! A source is an address ([`SourceUri`]) and an implementation of [`Source`]: open, wait for the next frame, close, each
//! within a time. A [`Supervisor`] runs one source on a thread of its own as a state machine ([`State`]): it opens it,
//! moves frames into a [`FrameRing`](crate::ring::FrameRing), notices that it stalls, closes and reopens it with growing pauses, counts
//! every drop by its reason, and never concerns any other source.
//!
//! To add a source: one file here and one line in [`SCHEMES`].

#[cfg(test)]
mod conformance;
mod counters;
mod gst;
mod jpeg;
mod machine;
mod options;
pub mod sim;
mod simulated;
mod stream;
mod supervisor;
mod uri;
pub mod v4l2;

use std::time::Duration;

pub use counters::{Counters, DropReason, Snapshot};
pub use gst::GstSource;
pub use machine::{Action, Backoff, Event, Machine, Plan, State};
pub use options::{Codec, KEYS, Key, MemoryWish, Options, Transport, Wish};
pub use simulated::SimSource;
pub use stream::{PictureSource, StreamSource};
pub use supervisor::{Status, Supervisor, Watch};
pub(crate) use uri::decode;
pub use uri::{SCHEMES, Scheme, SourceUri, redact};
pub(crate) use uri::{redact_address, shown_option};

use crate::Result;
use crate::frame::{Frame, FrameFormat};

/// What a source said when it was opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Opened {
    /// Format of the frames to come, where it is known before the first one (files may change it from frame to frame).
    pub format: Option<FrameFormat>,
    /// Frames per second, where the source knows.
    pub fps: Option<f64>,
    /// How it was opened, for a person: driver, memory, what was chosen and why.
    pub note: String,
}

/// What came of waiting for a frame.
#[derive(Debug)]
pub enum Next {
    /// A frame.
    Frame(Frame),
    /// A frame that had to be dropped; its buffer is queued again.
    Dropped(DropReason),
    /// None within the time.
    Nothing,
    /// None, since every buffer is in use by whoever works on the frames: no fault of the source.
    Busy,
    /// There will be no more.
    End,
}

/// A camera, a file, a stream: something that gives frames.
///
/// All three calls come from one thread. None may block much longer than the time it is given.
pub trait Source: Send + std::fmt::Debug {
    /// Opens it from scratch: after [`Source::close`], or the first time.
    ///
    /// # Errors
    /// Whatever keeps it from opening; [`ErrorKind::is_permanent`](crate::ErrorKind::is_permanent) says whether to try again.
    fn open(&mut self, within: Duration) -> Result<Opened>;

    /// Waits for the next frame, at most `wait`.
    ///
    /// # Errors
    /// Whatever makes it useless until it is reopened (unplugged, end of a pipe).
    fn next(&mut self, wait: Duration) -> Result<Next>;

    /// Lets go of everything. Frames that are still out keep their memory alive.
    fn close(&mut self);
}
