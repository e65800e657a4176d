//! Statistics of timed runs: pure functions over samples, and the loop that takes the samples.
//!
//! Times are in milliseconds, sizes in bytes.

mod memory;
mod profile;
mod stats;

pub use memory::{MemoryUse, memory_use};
pub use profile::{OpRow, StepTime, by_op};
pub use stats::{FrameTime, Plan, Stages, Summary, measure, percentile, stages, summarize};

/// A duration in milliseconds.
pub fn milliseconds(d: std::time::Duration) -> f64 {
    d.as_secs_f64() * 1e3
}
