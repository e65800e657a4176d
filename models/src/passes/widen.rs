//! f16 graphs for backends that compute in f32.

use super::Report;
use super::edit::Editor;
use crate::Result;
use crate::graph::ops::Cast;
use crate::graph::{Graph, Node, Op};
use saltica_tensor::DType;

/// Turns every f16 value of a graph into f32: constants are widened (exactly), casts to f16 go to f32. Inputs and outputs
/// of the graph keep their dtype; a Cast stands behind and before them. Results are those of a run in f32: what f16 would
/// have rounded between nodes stays. Does nothing to a graph without f16.
pub fn widen(graph: &mut Graph, report: &mut Report) -> Result<()> {
    let (inputs, outputs) = (graph.inputs.clone(), graph.outputs.clone());
    for id in graph.ids() {
        let value = &mut graph.values[id.index()];
        if value.dtype == Some(DType::F16) && !inputs.contains(&id) && !outputs.contains(&id) {
            value.dtype = Some(DType::F32);
        }
    }
    let mut edit = Editor::new(graph);
    let (mut constants, mut casts) = (0, 0);
    for id in edit.value_ids() {
        let Some(wide) = edit.value(id).constant.as_ref().filter(|t| t.dtype() == DType::F16) else {
            continue;
        };
        let wide = wide.cast(DType::F32)?;
        let name = edit.value(id).name.clone();
        let wide = edit.add_constant(&format!("{name}.f32"), wide)?;
        edit.redirect(id, wide);
        constants += 1;
    }
    for i in 0..edit.len() {
        let Some(node) = edit.node(i) else { continue };
        let op = match &node.op {
            Op::Cast(Cast { to: DType::F16 }) => Op::Cast(Cast { to: DType::F32 }),
            Op::ConstantOfShape(op) if op.value.dtype() == DType::F16 => {
                let mut op = op.clone();
                op.value = op.value.cast(DType::F32)?;
                Op::ConstantOfShape(op)
            }
            Op::EyeLike(op) if op.dtype == Some(DType::F16) => {
                let mut op = op.clone();
                op.dtype = Some(DType::F32);
                Op::EyeLike(op)
            }
            _ => continue,
        };
        let inputs = node.inputs.clone();
        edit.set_node(i, op, inputs);
        casts += 1;
    }
    let cast = |name: String, to, from, into| Node {
        name,
        op: Op::Cast(Cast { to }),
        inputs: vec![Some(from)],
        outputs: vec![Some(into)],
    };
    let mut borders = 0;
    for id in inputs {
        if edit.value(id).dtype != Some(DType::F16) || !edit.is_read(id) {
            continue;
        }
        let name = format!("{}.f32", edit.value(id).name);
        let wide = edit.add_value(&name)?;
        edit.redirect(id, wide);
        edit.insert_before(0, cast(name, DType::F32, id, wide));
        borders += 1;
    }
    for id in outputs {
        let Some((maker, node)) = edit.maker(id) else { continue };
        if edit.value(id).dtype != Some(DType::F16) {
            continue;
        }
        let made = node.outputs.clone();
        let name = format!("{}.f32", edit.value(id).name);
        let wide = edit.add_value(&name)?;
        edit.redirect(id, wide);
        edit.set_outputs(
            maker,
            made.into_iter().map(|o| if o == Some(id) { Some(wide) } else { o }).collect(),
        );
        edit.insert_after(maker, cast(name, DType::F16, wide, id));
        borders += 1;
    }
    edit.finish()?;
    report.add("f16 constants widened to f32", constants);
    report.add("casts to f16 left out", casts);
    report.add("casts at f16 inputs and outputs", borders);
    Ok(())
}
