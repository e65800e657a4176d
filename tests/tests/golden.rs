//! Every exporter graph on the CPU backend: outputs against the golden ones, by the tolerance of each part.

use libtest_mimic::Trial;
use saltica_core::{Backend, Session, SessionOptions};
use saltica_cpu::CpuBackend;
use saltica_tensor::Tensor;
use saltica_tests::{Result, compare, graphs, trial};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    saltica_tests::suite(trials)
}

fn trials(_shared: &Path) -> Result<Vec<Trial>> {
    Ok(graphs::names()?.into_iter().map(|name| trial(format!("cpu/{name}"), move || golden(&name))).collect())
}

fn golden(name: &str) -> Result<()> {
    let backend: Arc<dyn Backend> = Arc::new(CpuBackend::new(Some(2))?);
    let mut session = Session::from_graph(graphs::load_filled(name)?, backend, SessionOptions::default())?;
    for (i, case) in graphs::golden(name)?.cases.iter().enumerate() {
        let input = case.input.tensor()?;
        let outputs: Vec<Tensor> =
            session.run(&[(&case.input.name, &input)])?.into_iter().map(|(_, t)| t).collect();
        for part in compare::check(name, i, &outputs)? {
            println!("{name} case {i}: {part:?}");
        }
    }
    Ok(())
}
