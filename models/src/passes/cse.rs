//! Common subexpressions: what is computed twice from the same inputs is computed once.

use super::Report;
use super::edit::Editor;
use crate::graph::ValueId;
use saltica_tensor::DType;
use std::collections::HashMap;

/// Constants up to this size are compared byte by byte; larger equal ones are rare and cost nothing but memory.
const SMALL: usize = 256;
/// Nodes compared with one another before a node counts as different.
const TRIES: usize = 8;

/// Merges nodes with equal ops and inputs (every op is a pure function of its inputs), and small constants that are equal.
pub(crate) fn merge(edit: &mut Editor<'_>, report: &mut Report) {
    constants(edit);
    let mut merged = 0;
    let mut first: HashMap<(String, Vec<Option<ValueId>>), Vec<usize>> = HashMap::new();
    for i in 0..edit.len() {
        let Some(node) = edit.node(i) else { continue };
        let seen = first.entry((node.op.name().to_string(), node.inputs.clone())).or_default();
        let twin = seen.iter().copied().find(|&j| {
            edit.node(j).is_some_and(|other| {
                let pairs = || other.outputs.iter().zip(&node.outputs);
                other.op == node.op
                    && other.outputs.len() == node.outputs.len()
                    && pairs().all(|(a, b)| match (a, b) {
                        (Some(a), Some(b)) => edit.replaceable(*b, *a),
                        (_, None) => true,
                        (None, Some(_)) => false,
                    })
            })
        });
        match twin {
            None if seen.len() < TRIES => seen.push(i),
            None => {}
            Some(j) => {
                let pairs: Vec<_> = edit
                    .node(j)
                    .into_iter()
                    .flat_map(|other| other.outputs.iter().copied())
                    .zip(node.outputs.clone())
                    .collect();
                for (a, b) in pairs {
                    if let (Some(a), Some(b)) = (a, b) {
                        edit.replace(b, a);
                    }
                }
                merged += 1;
            }
        }
    }
    report.add("common subexpressions", merged);
}

fn constants(edit: &mut Editor<'_>) {
    let mut first: HashMap<(DType, Vec<usize>, Vec<u8>), ValueId> = HashMap::new();
    for id in edit.value_ids() {
        let Some(t) = edit.value(id).constant.as_ref() else { continue };
        if t.bytes().len() > SMALL || !edit.is_read(id) {
            continue;
        }
        let key = (t.dtype(), t.shape().to_vec(), t.bytes().to_vec());
        let kept = *first.entry(key).or_insert(id);
        edit.replace(id, kept);
    }
}
