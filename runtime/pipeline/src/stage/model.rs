//! What the pipeline needs of a model, and what it gives to sinks.

use std::ops::Range;
use std::time::Duration;

use saltica_vision::Detections;

use crate::Result;
use crate::clock::Time;
use crate::frame::{Frame, SourceId};

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

/// Follows objects from frame to frame; asked in the order of each source's frames.
pub trait Follow: Send {
    /// Writes one track number for each of `found.items()` into `tracks`: `None` for an object that is not followed (yet).
    fn follow(&mut self, source: SourceId, captured: Time, found: &Detections, tracks: &mut Vec<Option<u64>>);
}

/// A frame's result.
#[derive(Debug, Default)]
pub struct Answer {
    /// Whose frame it was.
    pub source: SourceId,
    /// Its number within the source.
    pub id: u64,
    /// The driver's number.
    pub sequence: u64,
    /// When it was captured.
    pub captured: Time,
    /// When the result was there.
    pub answered: Time,
    /// What took how long.
    pub spent: Spent,
    /// Frames of its batch.
    pub batch: usize,
    /// What was found.
    pub found: Detections,
    /// A track number for each object, where objects are followed.
    pub tracks: Vec<Option<u64>>,
    /// The picture, where a sink wants it: it holds one of the source's buffers until the answer is done with.
    pub picture: Option<Frame>,
}

impl Answer {
    /// From capture to result.
    pub fn age(&self) -> Duration {
        self.answered.since(self.captured)
    }
}

/// Where a frame's time went. The parts of a batch's frames are the batch's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// From capture until it was taken into a batch.
    pub waiting: Duration,
    /// Preparing the batch.
    pub prepare: Duration,
    /// Running it.
    pub infer: Duration,
    /// Decoding and following, up to this frame.
    pub decode: Duration,
}

/// Where results go. Each sink has a thread of its own and a short queue: a slow one misses results, a dead one all, and
/// nobody else notices.
pub trait Sink: Send {
    /// What messages call it.
    fn name(&self) -> &str;

    /// Takes a result.
    ///
    /// # Errors
    /// Whatever kept it from taking it; it is counted, and the next result is offered all the same.
    fn accept(&mut self, answer: &Answer) -> Result<()>;

    /// Whether it looks at [`Answer::picture`].
    fn wants_pictures(&self) -> bool {
        false
    }

    /// Nothing more will come.
    ///
    /// # Errors
    /// Whatever kept it from finishing.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
