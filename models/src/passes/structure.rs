//! Simplifications that hold at any shape.

use super::Report;
use super::edit::Editor;
use crate::Result;

/// Removes Identity and Dropout.
pub(crate) fn simplify(edit: &mut Editor<'_>, report: &mut Report) -> Result<()> {
    let mut removed = 0;
    for i in 0..edit.len() {
        let Some(node) = edit.node(i) else { continue };
        let (Some(&Some(x)), Some(&Some(out))) = (node.inputs.first(), node.outputs.first()) else {
            continue;
        };
        if matches!(node.op.name(), "Identity" | "Dropout") {
            removed += usize::from(edit.replace(out, x));
        }
    }
    report.add("identities removed", removed);
    Ok(())
}
