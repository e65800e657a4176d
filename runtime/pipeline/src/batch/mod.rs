//! Which frames the model looks at together, and when.
//!
//! A [`Batcher`] is told of every frame that comes and of every run that ends, and says what to run now or until when to
//! wait. It knows for each stream until when a result is of use ([`Objective`]), how long the model takes for each number
//! of frames ([`RunTimes`], measured and corrected by every run), when a camera's next frames will come ([`ArrivalModel`])
//! and what memory allows ([`MemoryGovernor`]). Its rules, in the order in which they bind:
//!
//! 1. Never more frames than the model, memory, or the run times make sensible: a batch ends where `t(b) / b` stops falling.
//! 2. As soon as the device is free, everything that waits is run, earliest deadline first, as long as that answers every
//!    waiting and every expected frame in time. Waiting longer would only make answers older.
//! 3. When it does not, the choices are played forward and the one that loses least is taken (`plan.rs`): fewer frames, so
//!    that the oldest make it; more, without the oldest; or a wait for the next expected frames.
//! 4. What cannot be answered in time is not run, but for one frame a second where nothing can be: run times that were measured too
//!    long would never be put right otherwise. Every frame comes out once: in a batch, or from [`Batcher::shed`] with
//!    the [`Reason`].
//!
//! It is a state machine without threads: [`simulate`] plays hours of arrivals through it in virtual time and compares it
//! with the rules of other servers and with the best that was possible.

mod arrivals;
mod batcher;
mod curve;
mod memory;
mod plan;
mod queue;
pub mod simulate;

pub use arrivals::{ArrivalModel, Expected};
pub use batcher::{Batcher, BatcherConfig, Decision, Objective, Reason, Run, Shedding};
pub use curve::{MAX_BATCH, RunTimes};
pub use memory::{MemoryGovernor, MemoryLimits, MemoryState};
pub use queue::{Queue, Ticket};
