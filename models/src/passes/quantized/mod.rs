//! Import of graphs quantized with QuantizeLinear and DequantizeLinear pairs: 8-bit numbers flow where the file says that
//! they may, weights stay as they are stored, and every rewrite gives the numbers that the graph itself would give
//! (convolutions: by the arithmetic that [`QuantConv`](crate::graph::ops::QuantConv) defines).

mod conv;
mod lanes;
mod moves;
mod params;
#[cfg(test)]
mod tests;

use super::Report;
use super::edit::Editor;
use crate::Result;
use crate::graph::Op;

/// Moves data movement into integers, makes quantized convolutions, and tables of pointwise functions; a table right
/// behind a convolution becomes part of it.
pub(super) fn import(edit: &mut Editor<'_>, report: &mut Report) -> Result<()> {
    let quantized = (0..edit.len()).filter_map(|i| edit.node(i)).any(|n| n.op.name() == "DequantizeLinear");
    if !quantized {
        return Ok(());
    }
    moves::into_integers(edit, report)?;
    conv::quantize(edit, report)?;
    lanes::into_tables(edit)?;
    conv::absorb_tables(edit, report)?;
    let tables = (0..edit.len()).filter_map(|i| edit.node(i)).filter(|n| matches!(n.op, Op::Lookup(_)));
    report.add("tables", tables.count());
    Ok(())
}
