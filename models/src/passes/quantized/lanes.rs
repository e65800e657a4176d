//! Pointwise functions of one quantized value become tables: such a value has 256 possible numbers, and running the
//! reference kernels on all of them gives the table that is right by construction.

use super::params::Params;
use crate::Result;
use crate::graph::ops::{ByteTable, Lookup, Table};
use crate::graph::{Node, Op, ValueId};
use crate::passes::edit::Editor;
use saltica_tensor::{DType, Shape, Tensor};
use std::collections::HashMap;

/// What a value is for each of the 256 numbers that an 8-bit value can have, of which it is a pointwise function.
#[derive(Clone)]
struct Lanes {
    base: ValueId,
    /// One number for each of the base's, in the order of their bits (0, 1, ... 127, -128, ... -1 for i8).
    values: Tensor,
}

/// How many bases a value is traced to: SiLU as exporters quantize it needs two (x itself, and x behind the quantized
/// sigmoid).
const BASES: usize = 3;

/// Replaces each QuantizeLinear that is a pointwise function of an earlier 8-bit value by a table from the nearest such
/// value.
pub(super) fn into_tables(edit: &mut Editor<'_>) -> Result<()> {
    let mut lanes: HashMap<ValueId, Vec<Lanes>> = HashMap::new();
    for i in edit.order() {
        let Some(node) = edit.node(i) else { continue };
        let &[Some(out)] = node.outputs.as_slice() else { continue };
        let found = trace(edit, node, &lanes)?;
        if let (Some(nearest), "QuantizeLinear") = (found.first(), node.op.name()) {
            let Ok(bytes) = <[u8; 256]>::try_from(nearest.values.bytes()) else { continue };
            let table = Table::Bytes(ByteTable::new(nearest.values.dtype(), bytes)?);
            edit.set_node(i, Op::Lookup(Lookup { table }), vec![Some(nearest.base)]);
        }
        if !found.is_empty() {
            lanes.insert(out, found);
        }
    }
    Ok(())
}

/// The lanes of a node's output, nearest base first; none if it is no pointwise function of one 8-bit value.
fn trace(edit: &Editor<'_>, node: &Node, lanes: &HashMap<ValueId, Vec<Lanes>>) -> Result<Vec<Lanes>> {
    let linear = matches!(node.op.name(), "QuantizeLinear" | "DequantizeLinear");
    let pointwise =
        linear || matches!(&node.op, Op::Unary(_) | Op::Binary(_) | Op::Variadic(_) | Op::Clip(_));
    let params = Params::of(edit, node);
    if !pointwise || (linear && params.is_none()) {
        return Ok(Vec::new());
    }
    let mut constants: Vec<Option<Tensor>> = vec![None; node.inputs.len()];
    let mut sources: Vec<(usize, Vec<Lanes>)> = Vec::new();
    for (k, id) in node.inputs.iter().enumerate().filter_map(|(k, id)| id.map(|id| (k, id))) {
        if let Some(c) = edit.constant(Some(id)) {
            // Only a number of rank 0 surely leaves the shape alone; a scale's shape does not matter.
            if c.shape().elements() != 1 || (c.shape().rank() > 0 && !(linear && k > 0)) {
                return Ok(Vec::new());
            }
            constants[k] = Some(c.reshaped(Shape::scalar())?);
            continue;
        }
        let mut known = lanes.get(&id).cloned().unwrap_or_default();
        // What is dequantized is a base itself, and the nearest.
        if let (DEQUANTIZE, 0, Some(dtype)) = (node.op.name(), k, params.and_then(|p| p.dtype)) {
            known.insert(0, Lanes { base: id, values: all_numbers(dtype)? });
            known.truncate(BASES);
        }
        sources.push((k, known));
    }
    let mut found = Vec::new();
    let Some((_, first)) = sources.first() else { return Ok(found) };
    for base in first.iter().map(|l| l.base) {
        let mut args = constants.clone();
        let complete = sources.iter().all(|(k, known)| {
            args[*k] = known.iter().find(|l| l.base == base).map(|l| l.values.clone());
            args[*k].is_some()
        });
        if !complete {
            continue;
        }
        let views: Vec<_> = args.iter().map(Option::as_ref).collect();
        // A failure here is one of types, which settling the shapes will report with the node's name.
        let Ok(mut out) = node.op.evaluate(&views) else { continue };
        if out.len() == 1 && out[0].shape().dims() == [256] {
            found.push(Lanes { base, values: out.swap_remove(0) });
        }
    }
    Ok(found)
}

const DEQUANTIZE: &str = "DequantizeLinear";

/// All numbers of an 8-bit dtype in the order of their bits.
fn all_numbers(dtype: DType) -> Result<Tensor> {
    let bits: Vec<u8> = (0..=255).collect();
    Ok(Tensor::from_bytes(dtype, Shape::new(&[256])?, &bits)?)
}
