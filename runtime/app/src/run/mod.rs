//! `saltica run`: sources in, results out, for weeks.
//!
//! ```text
//! flags, saltica.toml --table--> Settings      each knows where it came from
//! Model --Engine--> stage::Model               planned for a few batch sizes, each measured
//! Settings + Engine --Live--> Pipeline         sources, sinks, pages
//! supervise                                    watches, reloads, rebuilds, stops, tells
//! ```

mod file;
mod live;
pub mod model;
mod restarts;
pub mod settings;
mod signals;
pub mod status;
mod supervise;
pub mod table;
mod tally;
pub mod value;

pub use model::Engine;
pub use settings::{Flags, Settings};
pub use supervise::{Outcome, Tell, run};
