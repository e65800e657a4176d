//! The simulated camera: moving street scenes drawn in Rust, with the truth of every frame.
//!
//! A frame is a pure function of the [`SimSpec`] and the frame number: the same bits on every machine, and any frame can
//! be asked for directly. Objects are triangle meshes seen through a pinhole camera over a backdrop that is drawn once.
//!
//! ```no_run
//! use saltica_pipeline::source::sim::{FrameBuf, Sim, SimSpec};
//! let mut sim = Sim::open(&SimSpec::parse("sim:street?seed=7")?)?;
//! let mut frame = FrameBuf::default();
//! let truth = sim.frame(0, &mut frame)?;
//! println!("{} objects in {}x{} pixels", truth.objects.len(), frame.width, frame.height);
//! # Ok::<(), saltica_pipeline::Error>(())
//! ```

mod backdrop;
mod camera;
mod clip;
mod coco;
mod cull;
mod draw;
mod effects;
mod facade;
mod frame;
mod index;
mod kept;
mod layers;
mod light;
mod maths;
mod mesh;
mod order;
mod paint;
mod raster;
mod scene;
mod shadow;
mod spec;
mod street;
mod truth;
mod world;

pub use clip::SimClip;
pub use coco::{CocoOptions, CocoSummary, Picture, Step, write_coco};
pub use frame::{FrameBuf, Sim};
pub use index::{INDEX_SIZE, MAX_INDEX, read_index};

pub use spec::{LightKind, SceneKind, SimSpec};
pub use truth::{Class, PixelBox, Truth, TruthObject};
