//! Where a model's time goes on the CPU backend: `profile NAME|FILE [THREADS] [RUNS] [DIM=SIZE ...]`.
//!
//! NAME is one of the exporters' graphs in the test data, filled with its recipe weights; FILE any ONNX file. Prints each
//! step's fastest time, its share, rate and kernel, then the whole run's fastest time and the plan's bytes.

use saltica_core::{Model, Profile, Session, SessionOptions};
use saltica_cpu::CpuBackend;
use saltica_models::onnx;
use saltica_models::passes::Bindings;
use saltica_tests::{Result, graphs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, or: usize| args.get(i).map_or(Ok(or), |a| a.parse());
    let name = args.first().ok_or("profile NAME|FILE [THREADS] [RUNS] [DIM=SIZE ...]")?;
    let (threads, runs) = (number(1, 1)?, number(2, 20)?);
    let graph =
        if Path::new(name).is_file() { onnx::load(Path::new(name))? } else { graphs::load_filled(name)? };
    let backend = Arc::new(CpuBackend::new(Some(threads))?);
    let model = Arc::new(Model::new(graph, backend.as_ref(), true)?);
    let mut bindings = Bindings::default();
    for arg in args.iter().skip(3) {
        let (dim, size) = arg.split_once('=').ok_or("DIM=SIZE expected")?;
        bindings = bindings.symbol(dim, size.parse()?);
    }
    let mut session = Session::of_model(model, backend, SessionOptions::default());
    let executor = session.executor(&bindings)?;
    let mut profile = Profile::default();
    let mut best = Duration::MAX;
    for run in 0..runs.max(1) {
        for i in 0..executor.inputs() {
            let mut input = executor.input_mut(i)?;
            if let Some(numbers) = input.as_mut_slice::<f32>() {
                numbers.iter_mut().enumerate().for_each(|(k, v)| *v = (k * 7919 % 1000) as f32 * 1e-3);
            }
        }
        let start = Instant::now();
        if run % 2 == 0 {
            executor.run_profiled(&mut profile)?;
        } else {
            executor.run()?;
        }
        best = best.min(start.elapsed());
    }
    let sum: Duration = profile.steps.iter().map(|s| s.min).sum();
    println!("   ms       %  GMAC/s  op, output, kernel, name");
    for s in &profile.steps {
        let seconds = s.min.as_secs_f64();
        println!(
            "{:7.3} {:6.2} {:7.1}  {} {} [{}] {}",
            seconds * 1e3,
            seconds / sum.as_secs_f64() * 100.0,
            s.macs as f64 / seconds * 1e-9,
            s.op,
            s.output,
            s.kernel,
            s.name
        );
    }
    let r = executor.report();
    println!(
        "run {:.2} ms, steps {:.2} ms; arena {} of at least {}, scratch {}, weights {} bytes; {} steps after the plan",
        best.as_secs_f64() * 1e3,
        sum.as_secs_f64() * 1e3,
        r.arena_bytes,
        r.lower_bound,
        r.scratch_bytes,
        r.weight_bytes,
        r.tail
    );
    Ok(())
}
