//! Passes: what a graph goes through between the file and the plan.
//!
//! * [`optimize`] needs no shapes and runs once at load, so weights are transformed once for all later shapes.
//! * [`rebatch`] opens the batch of a file exported for one picture.
//! * [`settle`] binds the open dims and gives every value a concrete dtype and shape.
//!
//! Every pass keeps the graph's outputs: equal where it moves or removes, equal up to one rounding where it folds a scale
//! into weights. What was done is counted in a [`Report`].

mod activation;
mod affine;
mod bindings;
mod cse;
mod edit;
mod fold;
mod narrow;
mod noop;
mod quantized;
#[cfg(test)]
mod random;
mod rebatch;
mod report;
mod residual;
mod settle;
mod structure;
#[cfg(test)]
mod tests;
mod widen;

pub use bindings::Bindings;
pub use narrow::narrow;
pub use rebatch::{BATCH, rebatch};
pub use report::Report;
pub use settle::{Settled, settle};
pub use widen::widen;

use crate::Result;
use crate::graph::Graph;
use edit::Editor;

/// Passes that hold at any shape: constants, batch normalization and channel scales into weights, activations into
/// convolutions. Errors where a node with constant inputs does (naming it).
pub fn optimize(graph: &mut Graph, report: &mut Report) -> Result<()> {
    graph.prune();
    let mut folder = fold::Folder::new(graph);
    run(graph, |edit| {
        structure::simplify(edit, report)?;
        fold::constants(edit, &mut folder, true, report)?;
        cse::merge(edit, report);
        activation::recognise(edit, report);
        Ok(())
    })?;
    run(graph, |edit| quantized::import(edit, report))?;
    run(graph, |edit| {
        fold::constants(edit, &mut folder, false, report)?;
        affine::fold(edit, report)?;
        activation::recognise(edit, report);
        activation::fuse(edit, report);
        Ok(())
    })
}

fn run(graph: &mut Graph, passes: impl FnOnce(&mut Editor<'_>) -> Result<()>) -> Result<()> {
    let mut edit = Editor::new(graph);
    passes(&mut edit)?;
    edit.finish()
}
