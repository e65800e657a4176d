//! What the pipeline needs of a model.

use std::ops::Range;
use std::time::Duration;

use saltica_vision::Detections;

use crate::Result;
use crate::frame::{Frame, SourceId};
use crate::sink::Object;

/// A detector in the three steps that run on threads of their own. `B` is what a batch's tensors are: input and output,
/// made once and handed round, so that one batch can be prepared while another runs.
///
/// A detector that cannot be taken apart does everything in [`Infer`] and lets the other two do what is left.
pub struct Model<B> {
    /// Batch sizes it can run; none: any up to `most`.
    pub sizes: Vec<usize>,
    /// The largest batch.
    pub most: usize,
    /// Bytes of a run by number of frames, from 0; empty: not known.
    pub bytes: Vec<u64>,
    /// Run times of [`Infer`] by number of frames, as measured when it was warmed.
    pub measured: Vec<(usize, Duration)>,
    /// Tensors of batches of `most` frames: at least two, three for full overlap.
    pub batches: Vec<B>,
    /// Frames into tensors.
    pub prepare: Box<dyn Prepare<B>>,
    /// Tensors into tensors.
    pub infer: Box<dyn Infer<B>>,
    /// Tensors into detections.
    pub decode: Box<dyn Decode<B>>,
}

/// Frames into input tensors.
pub trait Prepare<B>: Send {
    /// Writes `frame` as picture `index` of the batch.
    ///
    /// # Errors
    /// A frame that cannot be used; the batch goes on with whatever the tensor holds there, and the frame counts as failed.
    fn prepare(&mut self, frame: &Frame, batch: &mut B, index: usize) -> Result<()>;
}

/// The network itself.
pub trait Infer<B>: Send {
    /// Runs the pictures `part` of the batch; a batch may be run in several parts.
    ///
    /// # Errors
    /// Whatever made it fail: all frames of the batch count as failed.
    fn infer(&mut self, batch: &mut B, part: Range<usize>) -> Result<()>;
}

/// Output tensors into detections.
pub trait Decode<B>: Send {
    /// Writes what was found in picture `index` of the batch, in the frame's own pixels.
    ///
    /// # Errors
    /// Whatever made it fail: the frame counts as failed.
    fn decode(&mut self, batch: &mut B, index: usize, found: &mut Detections) -> Result<()>;
}

/// Follows objects from frame to frame; asked in the order of each source's frames. [`Trackers`](super::Trackers) does.
pub trait Follow: Send {
    /// Says of each object of a frame, captured then (on the monotonic clock), whose track it is ([`Object::track`]), if it is
    /// followed. It may take objects out, and add some that it knows to be there.
    fn follow(&mut self, source: SourceId, captured: Duration, objects: &mut Vec<Object>);
}
