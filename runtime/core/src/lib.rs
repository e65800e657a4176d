//! Plans, arenas and the executor: what runs where, in which bytes.
//!
//! ```text
//! Graph (symbolic) -- Model::new: passes that need no shapes
//!   -> Settled     -- passes::settle: every shape is a number
//!   -> Plan        -- placement (views, concat homes), steps, lifetimes, arena offsets; bytes are known here
//!   -> Executor    -- one arena, one kernel per step, nothing allocated while it runs
//! ```
//!
//! A [`Session`] keeps executors for the shapes in use. A [`Backend`] plans, a [`Compiler`] turns each step into a kernel of
//! its device, a [`Run`] is a plan loaded there. This crate brings host kernels ([`Kernel`]) and the [`Reference`] backend,
//! which runs every op by its plain kernel. No device, image or camera is known here.

#![forbid(unsafe_code)]

mod backend;
mod error;
mod executor;
mod host;
mod model;
pub mod plan;
mod profile;
mod reference;
mod session;

pub use backend::{Backend, Compiled, Compiler, Floats, Kernel, LayoutChoice, Operand, StepDesc};
pub use error::{Error, ErrorKind};
pub use executor::{Executor, Run, no_port};
pub use model::{Model, Port};
pub use plan::{Plan, PlanReport};
pub use profile::{Profile, StepTime};
pub use reference::Reference;
pub use session::{Session, SessionOptions};

/// Result of this crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;
