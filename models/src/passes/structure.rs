//! Simplifications that hold at any shape.

use super::Report;
use super::edit::Editor;
use crate::Result;
use crate::graph::Op;
use crate::graph::ops::Transpose;

/// Removes Identity and Dropout, merges a Transpose with the one before it, and drops a reshape before a Reshape whose
/// target says all.
pub(crate) fn simplify(edit: &mut Editor<'_>, report: &mut Report) -> Result<()> {
    let (mut removed, mut merged) = (0, 0);
    for i in 0..edit.len() {
        let Some(node) = edit.node(i) else { continue };
        let (Some(&Some(x)), Some(&Some(out))) = (node.inputs.first(), node.outputs.first()) else {
            continue;
        };
        match &node.op {
            op if matches!(op.name(), "Identity" | "Dropout") => removed += usize::from(edit.replace(out, x)),
            Op::Transpose(outer) => {
                let Some((_, below)) = edit.maker(x) else { continue };
                let Op::Transpose(inner) = &below.op else { continue };
                let Some(&Some(source)) = below.inputs.first() else { continue };
                match composed(inner, outer) {
                    Some(Both::Nothing) => merged += usize::from(edit.replace(out, source)),
                    Some(Both::Perm(perm)) => {
                        edit.set_node(i, Op::Transpose(Transpose { perm: Some(perm) }), vec![Some(source)]);
                        merged += 1;
                    }
                    None => {}
                }
            }
            Op::Reshape(op) => {
                let Some((_, below)) = edit.maker(x) else { continue };
                if !matches!(below.op.name(), "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze") {
                    continue;
                }
                // A 0 copies a dim of the shape before, unless it means an empty dim.
                let Some(target) = node.inputs.get(1).copied().flatten() else { continue };
                let Some(dims) = edit.constant(Some(target)).map(|t| t.to_i64_vec()) else { continue };
                if dims.contains(&0) && !op.allow_zero {
                    continue;
                }
                let Some(&Some(source)) = below.inputs.first() else { continue };
                edit.set_input(i, 0, source);
                merged += 1;
            }
            _ => {}
        }
    }
    report.add("identities removed", removed);
    report.add("transposes and reshapes merged", merged);
    Ok(())
}

/// What two permutations come to.
enum Both {
    Nothing,
    Perm(Vec<usize>),
}

/// `inner` followed by `outer`, if the rank is known or does not matter.
fn composed(inner: &Transpose, outer: &Transpose) -> Option<Both> {
    let perm: Vec<usize> = match (&inner.perm, &outer.perm) {
        (Some(a), Some(b)) if a.len() == b.len() => {
            b.iter().map(|&p| a.get(p).copied()).collect::<Option<_>>()?
        }
        (Some(a), None) => a.iter().rev().copied().collect(),
        (None, Some(b)) => b.iter().map(|&p| (b.len() - 1).checked_sub(p)).collect::<Option<_>>()?,
        (None, None) => return Some(Both::Nothing),
        _ => return None,
    };
    Some(if perm.iter().enumerate().all(|(i, &p)| i == p) { Both::Nothing } else { Both::Perm(perm) })
}
