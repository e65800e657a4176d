//! Every graph of the test data is planned for a GPU that is not here: all its steps have kernels, in f32 and in f16.
//!
//! The graphs come without weights; zeros stand for them, since a plan depends on shapes alone.

use libtest_mimic::{Arguments, Failed, Trial};
use saltica_core::{Backend, Model};
use saltica_cuda::{CudaBackend, Precision, Target};
use saltica_models::graph::Dim;
use saltica_models::onnx::Reader;
use saltica_models::passes::Bindings;
use saltica_tensor::{DType, Shape, Tensor};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let shared = std::env::var_os("SALTICA_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let mut trials = Vec::new();
    let files = [("data/graphs", ".graph.onnx"), ("data/models", ".onnx")];
    for (path, name) in files.iter().flat_map(|(folder, suffix)| list(&shared.join(folder), suffix)) {
        for precision in [Precision::F32, Precision::F16] {
            let path = path.clone();
            trials.push(Trial::test(format!("{precision:?}/{name}"), move || {
                // A board of eight multiprocessors; f16 also on one whose tensor cores take other kernels.
                let devices = [(87, 8), (72, 6)];
                let some = if precision == Precision::F16 { 2 } else { 1 };
                devices
                    .into_iter()
                    .take(some)
                    .try_for_each(|d| plan(&path, precision, d))
                    .map_err(|e| Failed::from(e.to_string()))
            }));
        }
    }
    if trials.is_empty() {
        let ci = std::env::var_os("CI").is_some_and(|v| v == "true");
        let message = "no shared test data: set SALTICA_SHARED, or put it in ../shared";
        trials.push(
            Trial::test("needs_shared_data", move || Err(Failed::from(message))).with_ignored_flag(!ci),
        );
    }
    libtest_mimic::run(&args, trials).exit_code()
}

fn list(folder: &Path, suffix: &str) -> Vec<(PathBuf, String)> {
    let mut found: Vec<(PathBuf, String)> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|e| {
            let path = e.ok()?.path();
            let name = path.file_name()?.to_str()?.strip_suffix(suffix)?.to_owned();
            Some((path, name))
        })
        .collect();
    found.sort();
    found
}

fn plan(
    path: &Path,
    precision: Precision,
    (arch, multiprocessors): (u32, u32),
) -> Result<(), Box<dyn std::error::Error>> {
    let zeros = |_: &str, dtype: DType, shape: &Shape| Tensor::zeros(dtype, *shape).ok();
    let graph = Reader::new().fill(&zeros).load(path)?;
    let backend = CudaBackend::planning(Target::of(arch, multiprocessors), precision);
    let model = Model::new(graph, &backend, true)?;
    for batch in [1, 4] {
        let mut bindings = Bindings::new();
        for &id in &model.graph().inputs {
            let value = model.graph().value(id);
            let dims: Vec<usize> = value
                .dims
                .iter()
                .flatten()
                .enumerate()
                .map(|(i, d)| match d {
                    Dim::Fixed(n) => *n,
                    _ if i == 0 => batch,
                    _ => 320,
                })
                .collect();
            bindings = bindings.input(&value.name, &dims);
        }
        let (plan, report) = model.plan(&bindings, &backend)?;
        if std::env::var_os("SALTICA_VERBOSE").is_some() {
            for (what, n) in report.iter() {
                println!("{what}: {n}");
            }
            for s in &plan.steps {
                println!(
                    "{:50} {:12} {} {:20} {}",
                    s.name,
                    s.op,
                    s.output.dtype,
                    s.output.shape.to_string(),
                    s.kernel
                );
            }
            println!("{} {:?} {:?}", backend.name(), path.file_name(), plan.report);
        }
        if plan.steps.is_empty() {
            return Err("a plan without steps".into());
        }
        let refused = plan.load().err().ok_or("a plan for a device that is not here was loaded")?;
        if !refused.to_string().contains("not here") {
            return Err(refused.into());
        }
    }
    Ok(())
}
