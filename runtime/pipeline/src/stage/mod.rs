//! The stages that frames pass through, each on a thread of its own.
//!
//! ```text
//! source threads --rings--> batch --jobs--> infer --jobs--> decode --answers--> one thread a sink
//!                           offer to the    the network     detections, tracks
//!                           batcher; take,
//!                           prepare
//! ```
//!
//! A *job* is a batch's tensors with the numbers of its frames; a few of them go round, so that one is prepared while another
//! runs and a third is decoded, and nothing is allocated for a frame. Where the latest frame wins, the batch is decided just in
//! time: when preparing it takes as long as the running one still needs. Where every frame counts, as soon as a job is free.
//!
//! What a stage hands on it hands on through a [`Lane`]. Lanes between the stages never overflow, as there are only so many
//! jobs; a sink's lane gives up its oldest answer, so a slow or dead sink costs its own answers and nothing else.
//!
//! Every frame that left a source has one [`Fate`], counted by source. Every thread gives a sign of life several times a
//! second ([`Pulse`]), also when it has nothing to do.

mod health;
mod lane;
mod memory;
mod model;
mod pipeline;
mod workers;

pub use health::{Fate, Fates, Histogram, Pulse};
pub use lane::Lane;
pub use memory::read_memory;
pub use model::{Answer, Decode, Follow, Infer, Model, Prepare, Sink, Spent};
pub use pipeline::{Pipeline, PipelineConfig, SinkCounts, Stopped};
