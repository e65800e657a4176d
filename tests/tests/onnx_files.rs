//! Every model file of the test data is read.

use libtest_mimic::Trial;
use saltica_models::ErrorKind;
use saltica_models::graph::Graph;
use saltica_models::onnx;
use saltica_tests::{Result, files, graphs, trial};
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    saltica_tests::suite(trials)
}

fn trials(shared: &Path) -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for name in graphs::names()? {
        trials.push(trial(format!("graphs/{name}"), move || expect(graphs::load_filled(&name))));
    }
    for folder in ["models", "models-restricted"] {
        let dir = shared.join("data").join(folder);
        for name in files(&dir, ".onnx")? {
            let path = dir.join(format!("{name}.onnx"));
            trials.push(trial(format!("{folder}/{name}"), move || {
                expect(onnx::load(&path).map_err(Into::into))
            }));
        }
        for name in files(&dir, ".onnx.gz")? {
            let path = dir.join(format!("{name}.onnx.gz"));
            trials.push(trial(format!("{folder}/{name}"), move || {
                let mut bytes = Vec::new();
                flate2::read::GzDecoder::new(std::fs::File::open(path)?).read_to_end(&mut bytes)?;
                expect(onnx::parse(bytes, None).map_err(Into::into))
            }));
        }
    }
    Ok(trials)
}

fn expect(graph: Result<Graph>) -> Result<()> {
    match graph {
        Ok(graph) => {
            assert!(!graph.nodes.is_empty() && !graph.inputs.is_empty() && !graph.outputs.is_empty());
            Ok(())
        }
        Err(e) => match e.downcast_ref::<saltica_models::Error>() {
            Some(known) if known.kind() == ErrorKind::Unsupported => {
                eprintln!("{known}");
                Ok(())
            }
            _ => Err(e),
        },
    }
}
