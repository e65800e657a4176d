//! Where frames come from.

pub mod sim;
