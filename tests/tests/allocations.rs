//! A steady-state run asks for no memory, and a second session on a model for no second copy of the weights: counted over
//! the whole process, one test after the other.

use libtest_mimic::Trial;
use saltica_core::{Session, SessionOptions};
use saltica_models::graph::Graph;
use saltica_models::onnx;
use saltica_models::passes::Bindings;
use saltica_tensor::{Shape, Tensor};
use saltica_tests::memory::{Counting, allocations};
use saltica_tests::{Result, backends, graphs, recipe, trial};
use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    saltica_tests::suite_in_turn(trials)
}

fn trials(shared: &Path) -> Result<Vec<Trial>> {
    let models = shared.join("data/models");
    let mut trials = vec![trial("the counter counts", counts), trial("two sessions share weights", share)];
    for threads in [1, 2] {
        for name in ["yolov8n", "yolov8n-qdq-pow2"] {
            trials.push(trial(format!("{name}, {threads} threads"), move || {
                steady(graphs::load_filled(name)?, threads)
            }));
        }
        let path = models.join("yolox_nano.onnx");
        trials.push(trial(format!("yolox_nano, {threads} threads"), move || {
            steady(onnx::load(&path)?, threads)
        }));
    }
    Ok(trials)
}

/// Another thread's allocation is seen; without one there is none.
fn counts() -> Result<()> {
    let before = allocations();
    std::hint::black_box(1 + 1);
    let none = allocations() - before;
    let length = std::thread::spawn(|| std::hint::black_box(vec![0u8; 100]).len()).join();
    let some = allocations() - before;
    if none == 0 && some > 0 && length.is_ok() {
        Ok(())
    } else {
        Err(format!("{none} and {some} counted").into())
    }
}

/// The whole way of a repeated call: finding the executor, filling the input, running, reading every output.
fn steady(graph: Graph, threads: usize) -> Result<()> {
    let mut session = Session::from_graph(graph, backends::cpu(threads)?, SessionOptions::default())?;
    let dims: Vec<usize> = session.model().inputs()[0]
        .dims
        .iter()
        .flatten()
        .map(|d| match d {
            saltica_models::graph::Dim::Fixed(d) => *d,
            _ => 1,
        })
        .collect();
    let input: Tensor = recipe::noise(3, &dims)?;
    let bindings = session.model().bind(&[Shape::new(&dims)?])?;
    let mut once = || -> Result<f64> {
        let executor = session.executor(&bindings)?;
        executor.input_mut(0)?.copy_from(&input.view());
        executor.run()?;
        (0..executor.outputs()).try_fold(0.0, |sum, i| Ok(sum + executor.output(i)?.at_f64(0)))
    };
    let first = once()?;
    let before = allocations();
    let later = [once(), once()];
    let made = allocations() - before;
    if made > 0 {
        return Err(format!("{made} allocations in two runs, none expected").into());
    }
    for sum in later {
        let sum = sum?;
        if sum.to_bits() != first.to_bits() {
            return Err(format!("{sum} found, {first} in the first run").into());
        }
    }
    Ok(())
}

/// Resident bytes of this process that no file backs.
fn anonymous() -> Result<usize> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line =
        text.lines().find_map(|l| l.strip_prefix("RssAnon:")).ok_or("no RssAnon in /proc/self/status")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse::<usize>()? * 1024)
}

/// Two sessions on one model hold one copy of the packed weights: the second's plan names the same kernels' memory.
fn share() -> Result<()> {
    // yolov8s: 45 MB of weights against an arena of 20.
    let backend = backends::cpu(1)?;
    let graph = graphs::load_filled("yolov8s")?;
    let bindings = Bindings::new();
    let mut first = Session::from_graph(graph, backend.clone(), SessionOptions::default())?;
    let report = first.executor(&bindings)?.report().clone();
    let before = anonymous()?;
    let mut second = Session::of_model(first.model().clone(), backend, SessionOptions::default());
    second.executor(&bindings)?;
    let grown = anonymous()?.saturating_sub(before);
    let own = report.arena_bytes + report.scratch_bytes;
    if report.weight_bytes < 30_000_000 {
        return Err(format!("{} bytes of weights: the test sees nothing", report.weight_bytes).into());
    }
    if grown > own + report.weight_bytes / 2 {
        return Err(format!("the second session took {grown} bytes, {own} for its arena expected").into());
    }
    Ok(())
}
