//! Every model file of the test data is read.

use libtest_mimic::Trial;
use saltica_models::graph::Graph;
use saltica_models::onnx;
use saltica_tensor::DType;
use saltica_tests::{Result, files, graphs, trial};
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    saltica_tests::suite(trials)
}

fn trials(shared: &Path) -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for name in graphs::names()? {
        trials.push(trial(format!("graphs/{name}"), move || complete(&name)));
    }
    for folder in ["models", "models-restricted"] {
        let dir = shared.join("data").join(folder);
        for name in files(&dir, ".onnx")? {
            let path = dir.join(format!("{name}.onnx"));
            trials.push(trial(format!("{folder}/{name}"), move || sound(&onnx::load(&path)?)));
        }
        for name in files(&dir, ".onnx.gz")? {
            let path = dir.join(format!("{name}.onnx.gz"));
            trials.push(trial(format!("{folder}/{name}"), move || {
                let mut bytes = Vec::new();
                flate2::read::GzDecoder::new(std::fs::File::open(path)?).read_to_end(&mut bytes)?;
                sound(&onnx::parse(bytes, None)?)
            }));
        }
    }
    Ok(trials)
}

/// Every node of the file is there: the layer list names each node's outputs with its op.
fn complete(name: &str) -> Result<()> {
    let graph = graphs::load_filled(name)?;
    let producers = graph.producers();
    let made: HashMap<&str, Option<&str>> = graph
        .values
        .iter()
        .zip(producers)
        .map(|(value, node)| (value.name.as_str(), node.map(|i| graph.nodes[i].op.name())))
        .collect();
    for layer in graphs::layers(name)? {
        let found = made.get(layer.tensor.as_str()).ok_or_else(|| format!("no value '{}'", layer.tensor))?;
        let expected = (layer.op != "Constant").then_some(layer.op.as_str());
        if *found != expected {
            return Err(format!("'{}' is made by {found:?}, {expected:?} expected", layer.tensor).into());
        }
    }
    sound(&graph)
}

/// What every model file of the data has.
fn sound(graph: &Graph) -> Result<()> {
    let [input] = &graph.inputs[..] else { return Err(format!("{} inputs", graph.inputs.len()).into()) };
    let input = graph.value(*input);
    if input.dtype != Some(DType::F32) || input.dims.as_ref().map(Vec::len) != Some(4) {
        return Err(format!("the input is {:?} {:?}, 4 dims of f32 expected", input.dtype, input.dims).into());
    }
    let empty = graph.values.iter().filter_map(|v| v.constant.as_ref()).all(|t| t.bytes().is_empty());
    if graph.nodes.len() < 90 || graph.outputs.is_empty() || empty {
        return Err("nodes, outputs or constants are missing".into());
    }
    Ok(())
}
