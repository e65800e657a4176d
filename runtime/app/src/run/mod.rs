//! `saltica run`: sources in, results out, for weeks.

mod file;
pub mod settings;
pub mod table;
pub mod value;

pub use settings::{Flags, Settings};
