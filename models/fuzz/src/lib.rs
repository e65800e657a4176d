//! What the fuzz targets do with a graph.
//!
//! From `models/`, with a nightly toolchain and `cargo install cargo-fuzz`:
//!
//! ```text
//! cargo run --manifest-path fuzz/Cargo.toml --bin seed      # fills fuzz/corpus/onnx
//! cargo +nightly fuzz run onnx -- -max_total_time=600 -rss_limit_mb=1024 -timeout=5
//! cargo +nightly fuzz run ops -- -max_total_time=600 -rss_limit_mb=1024 -timeout=5
//! ```
//!
//! `onnx` reads any bytes as a model; `ops` builds graphs of known ops with any attributes and inputs. Both then go through
//! all that a graph offers. A finding becomes a test beside the code that was wrong.

mod ops;

pub use ops::OPS;
use saltica_models::graph::{Dim, Fact, Graph, Value};
use saltica_models::passes::{self, Bindings, Report};
use saltica_tensor::{Shape, Tensor};

/// Largest tensor that is computed: kernels are looked at, not the machine's patience.
const MAX_ELEMENTS: usize = 1 << 10;

/// Sorts, prunes, infers every shape with small numbers for symbols, and computes what is small.
pub fn exercise(mut graph: Graph) {
    if graph.sort().is_err() {
        return;
    }
    graph.prune();
    let _ = (graph.producers(), graph.uses());
    interpret(&graph);
    if passes::optimize(&mut graph, &mut Report::default()).is_err() {
        return;
    }
    let mut bindings = Bindings::new();
    for id in &graph.inputs {
        if let Some(dims) = bound(graph.value(*id)) {
            bindings = bindings.input(&graph.value(*id).name, &dims);
        }
    }
    if let Ok(settled) = passes::settle(&graph, &bindings, &mut Report::default()) {
        interpret(&settled.graph);
    }
}

/// The declared dims, open ones small.
fn bound(value: &Value) -> Option<Vec<usize>> {
    let small = |d: &Dim| match d {
        Dim::Fixed(d) => *d,
        Dim::Symbol(_) | Dim::Unknown => 2,
    };
    value.dims.as_ref().map(|dims| dims.iter().map(small).collect())
}

fn interpret(graph: &Graph) {
    let mut known: Vec<Option<Tensor>> = graph.values.iter().map(|v| v.constant.clone()).collect();
    for id in &graph.inputs {
        let value = graph.value(*id);
        let (Some(dtype), Some(dims)) = (value.dtype, bound(value)) else { continue };
        known[id.index()] = Shape::new(&dims)
            .ok()
            .filter(|s| s.elements() <= MAX_ELEMENTS)
            .and_then(|s| Tensor::zeros(dtype, s).ok());
    }
    for node in &graph.nodes {
        let inputs: Option<Vec<Option<Tensor>>> = node
            .inputs
            .iter()
            .map(|id| match id {
                None => Some(None),
                Some(id) => known[id.index()].clone().map(Some),
            })
            .collect();
        let Some(inputs) = inputs else { continue };
        // With and without the numbers; both are asked for in practice.
        let blind: Vec<_> = inputs
            .iter()
            .map(|t| t.as_ref().map(|t| Fact { dtype: t.dtype(), shape: *t.shape(), value: None }))
            .collect();
        let _ = node.op.infer(&blind);
        let facts: Vec<_> = inputs.iter().map(|t| t.as_ref().map(Fact::of)).collect();
        let Ok(outputs) = node.op.infer(&facts) else { continue };
        if outputs.iter().any(|o| o.shape.elements() > MAX_ELEMENTS) {
            continue;
        }
        if let Ok(results) = node.op.evaluate(&inputs.iter().map(Option::as_ref).collect::<Vec<_>>()) {
            for (id, result) in node.outputs.iter().zip(results) {
                if let Some(id) = id {
                    known[id.index()] = Some(result);
                }
            }
        }
    }
}
