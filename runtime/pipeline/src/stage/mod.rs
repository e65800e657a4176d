//! The stages that frames pass through, each on a thread of its own.
//!
//! ```text
//! source threads --rings--> batch --jobs--> infer --jobs--> decode --results--> sinks
//!                           offer to the    the network     detections, tracks, a thread each, behind
//!                           batcher; take,                  sink::Feed          a queue (sink::Sinks)
//!                           prepare
//! ```
//!
//! A *job* is a batch's tensors with the numbers of its frames; a few of them go round, so that one is prepared while another
//! runs and a third is decoded, and nothing is allocated for a frame. Where the latest frame wins, the batch is decided just in
//! time: when preparing it takes as long as the running one still needs. Where every frame counts, as soon as a job is free.
//!
//! What a stage hands on it hands on through a [`Lane`], which never overflows, as there are only so many jobs. A frame goes back
//! to its driver when it is prepared; if a sink wants its picture just now, when the result is made, which holds a copy.
//!
//! Every frame that left a source has one [`Fate`], counted by source. Every thread gives a sign of life several times a
//! second ([`Pulse`]), also when it has nothing to do. A stage that panics closes its lanes, so that the others end, and [`Pipeline::failure`] says why.
//!
//! What the pipeline counts and how it is can be asked of its [`Monitor`]; [`Pipeline::site`] makes web pages of it.

mod health;
mod lane;
mod memory;
mod model;
mod monitor;
mod pipeline;
mod roll;
mod trackers;
mod workers;

pub use health::{Fate, Fates, Histogram, Pulse};
pub use lane::Lane;
pub use memory::read_memory;
pub use model::{Decode, Follow, Infer, Model, Prepare};
pub use monitor::Monitor;
pub use pipeline::{Pipeline, PipelineConfig, Stopped};
pub use roll::Failure;
pub use trackers::Trackers;
