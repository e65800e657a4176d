//! Products that a device can store in a wider dtype than their operands have: a cast that alone reads one is not needed, and its
//! number is rounded once instead of twice.

use crate::Compiler;
use saltica_models::graph::Op;
use saltica_models::passes::Settled;
use saltica_tensor::DType;

/// Lets nodes write f32 where the device says that it can and a cast from f16 to f32 is all that reads them.
pub(super) fn widen(settled: &mut Settled, device: &impl Compiler) {
    let Settled { graph, facts } = settled;
    let mut readers = vec![0; graph.values.len()];
    for id in graph.nodes.iter().flat_map(|n| n.inputs.iter().flatten()).chain(&graph.outputs) {
        readers[id.index()] += 1;
    }
    let producers = graph.producers();
    let dtype = |id: saltica_models::graph::ValueId| facts[id.index()].map(|f| f.dtype);
    let mut gone = vec![false; graph.nodes.len()];
    for n in 0..graph.nodes.len() {
        let cast = &graph.nodes[n];
        let (Op::Cast(_), &[Some(narrow)], &[Some(wide)]) = (&cast.op, &cast.inputs[..], &cast.outputs[..])
        else {
            continue;
        };
        if (dtype(narrow), dtype(wide), readers[narrow.index()]) != (Some(DType::F16), Some(DType::F32), 1) {
            continue;
        }
        let Some(p) = producers[narrow.index()] else { continue };
        let maker = &mut graph.nodes[p];
        if maker.outputs.len() == 1 && device.stores_wide(&maker.op) {
            maker.outputs[0] = Some(wide);
            gone[n] = true;
        }
    }
    let mut n = 0..;
    graph.nodes.retain(|_| n.next().is_none_or(|n| !gone[n]));
}
