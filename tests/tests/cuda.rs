//! The CUDA backend on a GPU: every op's cases, chains of a few nodes, whole graphs against golden outputs, batches against
//! single pictures.
//!
//! Without a GPU all of it but the plans counts as ignored; `tests/gpu/run` is what fails then. What no GPU kernel takes is an
//! error that says so, never a run on the CPU: such cases are listed in `cuda_lacking.tsv`, and the list is exact.

use libtest_mimic::{Arguments, Failed, Trial};
use saltica_core::{Backend, Model, Session, SessionOptions};
use saltica_cuda::placement::MemoryMode;
use saltica_cuda::{CudaBackend, Options, Precision, Target};
use saltica_models::graph::ops::compare;
use saltica_models::graph::{Case, Op, Tolerance};
use saltica_models::passes::{Bindings, rebatch};
use saltica_tensor::Tensor;
use saltica_tests::{Result, backends, build, chains, compare as golden, graphs, recipe, shared};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

/// Tests that do not pass, and why: the end of their name. One that passes nevertheless is a failure, so that this list only
/// shrinks.
const KNOWN: &[(&str, &str)] = &[(
    "cuda-fp16/graph/rtdetr-l",
    "the decoder refines 300 proposals of thousands whose scores nearly tie with drawn weights: f16 picks others",
)];

const PRECISIONS: [(&str, Precision); 2] = [("cuda-fp32", Precision::F32), ("cuda-fp16", Precision::F16)];

/// Cases that no GPU kernel takes: precision (or any), form, op, case, why.
const LACKING: &str = include_str!("cuda_lacking.tsv");

fn name_of(precision: Precision) -> &'static str {
    PRECISIONS[usize::from(precision == Precision::F16)].0
}

/// The lines of the list for a precision, without it.
fn listed(precision: Precision) -> impl Iterator<Item = &'static str> {
    let lines = LACKING.lines().filter_map(|l| l.split_once('\t'));
    lines.filter(move |(p, _)| *p == "any" || *p == name_of(precision)).map(|(_, rest)| rest)
}

/// The line that a case has if no kernel takes it, up to the reason.
fn lacking(first_only: bool, case: &Case) -> String {
    let form = if first_only { "first fed" } else { "all fed" };
    format!("{form}\t{}\t{}\t", case.op.name(), case.name)
}

/// One backend a precision for the whole process: contexts and modules are made once.
fn backend(precision: Precision) -> Result<Arc<dyn Backend>> {
    static BACKENDS: OnceLock<std::result::Result<[Arc<CudaBackend>; 2], String>> = OnceLock::new();
    let made = BACKENDS.get_or_init(|| {
        let open = |precision| {
            CudaBackend::open(Options { precision, ..Options::default() })
                .map(Arc::new)
                .map_err(|e| e.to_string())
        };
        Ok([open(Precision::F32)?, open(Precision::F16)?])
    });
    let backends = made.as_ref().map_err(|e| e.clone())?;
    Ok(backends[usize::from(precision == Precision::F16)].clone())
}

fn main() -> ExitCode {
    let args = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let gpu = backend(Precision::F32).map(|_| ());
    if let Err(e) = &gpu {
        eprintln!("ignored: {e}");
    }
    let mut trials = Vec::new();
    let mut add = |name: String, test: Box<dyn FnOnce() -> Result<()> + Send>| {
        let known = KNOWN.iter().find(|(end, _)| name.ends_with(end)).map(|(_, why)| *why);
        let trial = Trial::test(name, move || match (test(), known) {
            (Ok(()), None) => Ok(()),
            (Err(e), None) => Err(Failed::from(e.to_string())),
            (Ok(()), Some(why)) => Err(Failed::from(format!("passes: take it from the list ({why})"))),
            (Err(e), Some(why)) => {
                println!("known: {why}: {}", e.to_string().lines().next().unwrap_or_default());
                Ok(())
            }
        });
        trials.push(trial.with_ignored_flag(gpu.is_err()));
    };
    let mut by_op: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    for case in Op::cases() {
        by_op.entry(case.op.name().to_string()).or_default().push(case);
    }
    for (name, precision) in PRECISIONS {
        for (op, cases) in &by_op {
            let (op, cases) = (op.clone(), cases.clone());
            add(
                format!("{name}/op/{op}"),
                Box::new(move || ops(&backend(precision)?, precision, &op, &cases)),
            );
        }
        add(format!("{name}/chains"), Box::new(move || chain(precision)));
        add(format!("{name}/steady state"), Box::new(move || steady(precision)));
    }
    // Inputs read in place, by kernels and by what follows the steps on the CPU.
    for (name, memory) in [("mapped", MemoryMode::Mapped), ("managed", MemoryMode::Managed)] {
        let by_op = by_op.clone();
        let all = move || {
            let backend = in_place(memory)?;
            by_op.iter().try_for_each(|(op, cases)| {
                ops(&backend, Precision::F32, op, cases).map_err(|e| format!("{op}: {e}").into())
            })
        };
        add(format!("cuda-fp32/{name} inputs"), Box::new(all));
    }
    if shared().is_some()
        && let Ok(names) = graphs::names()
    {
        add("cuda-fp16/memory/yolov8n".into(), Box::new(|| memory("yolov8n")));
        for (name, precision) in PRECISIONS {
            for graph in &names {
                let graph = graph.clone();
                add(format!("{name}/graph/{graph}"), Box::new(move || whole(precision, &graph)));
            }
            for graph in ["yolov8n", "yolox-nano", "yolov8n-qdq-asym", "yolo11n"] {
                add(format!("{name}/batch of 3/{graph}"), Box::new(move || batches(precision, graph)));
            }
        }
    }
    for (name, precision) in PRECISIONS {
        trials.push(Trial::test(format!("plan/{name}"), move || {
            plans(precision).map_err(|e| Failed::from(e.to_string()))
        }));
    }
    libtest_mimic::run(&args, trials).exit_code()
}

/// Plans every case for a GPU that is not here: the cases without a kernel are those of the list, no more and no less.
fn plans(precision: Precision) -> Result<()> {
    let backend = CudaBackend::planning(Target::of(87, 8), precision);
    let mut found = BTreeSet::new();
    for case in Op::cases() {
        for first_only in [true, false] {
            let first = case.inputs.iter().position(Option::is_some);
            let (graph, _) = build::one_node(&case, |i| first_only && Some(i) != first)?;
            let planned = Model::new(graph, &backend, true)
                .and_then(|model| model.plan(&Bindings::new(), &backend).map(|_| ()));
            if let Err(e) = planned {
                let e = e.to_string();
                let why =
                    e.strip_suffix(": run with --device cpu").or(e.strip_suffix("; run with --device cpu"));
                let why =
                    why.and_then(|w| w.contains("no GPU kernel").then(|| w.rsplit("): ").next()).flatten());
                let why = why.ok_or_else(|| format!("{} {}: {e}", case.op.name(), case.name))?;
                found.insert(format!("{}{why}", lacking(first_only, &case)));
            }
        }
    }
    let listed: BTreeSet<String> = listed(precision).map(str::to_owned).collect();
    let lost: Vec<String> = found.difference(&listed).map(|l| format!("+{l}")).collect();
    let gained: Vec<String> = listed.difference(&found).map(|l| format!("-{l}")).collect();
    if lost.is_empty() && gained.is_empty() {
        return Ok(());
    }
    Err(format!("cuda_lacking.tsv differs:\n{}", [lost, gained].concat().join("\n")).into())
}

/// A backend whose inputs are read where the host wrote them.
fn in_place(memory: MemoryMode) -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(CudaBackend::open(Options { precision: Precision::F32, memory, ..Options::default() })?))
}

/// Chains of a few nodes against the CPU's numbers. Sums go in another order; in f16 each of up to four stored values has 11
/// bits.
fn chain(precision: Precision) -> Result<()> {
    let cpu = backends::cpu(1)?;
    let picture = chains::picture()?;
    let mut faults = Vec::new();
    for c in chains::all()? {
        let run = |backend: Arc<dyn Backend>| -> Result<Vec<(String, Tensor)>> {
            let mut session = Session::from_graph(c.graph.clone(), backend, SessionOptions::default())?;
            session.run(&[("x", &picture)])?;
            Ok(session.run(&[("x", &picture)])?)
        };
        let compared = run(cpu.clone()).and_then(|want| {
            for ((name, got), (_, want)) in run(backend(precision)?)?.iter().zip(&want) {
                let largest = want.as_slice::<f32>()?.iter().fold(1.0f32, |m, v| m.max(v.abs()));
                let relative = if precision == Precision::F16 { 4e-3 } else { 2e-6 };
                let absolute = relative * f64::from(largest);
                compare(&got.view(), want, Tolerance::Close { absolute, relative })
                    .map_err(|e| format!("{name}: {e}"))?;
            }
            Ok(())
        });
        if let Err(e) = compared {
            faults.push(format!("{}: {e}", c.name));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n").into()) }
}

/// What a model takes of the device's memory beyond the context: no more than its own bytes and 16 MiB, and its own bytes are
/// its weights and little more than the least that values which live at once need.
fn memory(name: &str) -> Result<()> {
    let gpu = Arc::new(CudaBackend::open(Options::default())?);
    let free = || Ok::<_, saltica_cuda::Error>(gpu.memory()?.map_or(0, |(free, _)| free));
    let graph = graphs::load_filled(name)?;
    let model = Model::new(graph.clone(), &*gpu, true)?;
    let report = model.plan(&Bindings::new(), &*gpu)?.0.report;
    let before = free()?;
    let session = Session::from_graph(graph, gpu.clone(), SessionOptions::default())?;
    let taken = before.saturating_sub(free()?);
    drop(session);
    let own = report.total_bytes();
    println!(
        "{name}: {taken} bytes beyond the context; its own {own}: weights {}, arena {} (at least {}), scratch {}",
        report.weight_bytes, report.arena_bytes, report.lower_bound, report.scratch_bytes
    );
    if taken > own + (16 << 20) {
        return Err(format!("{taken} bytes taken, {own} and 16 MiB expected at most").into());
    }
    if report.arena_bytes as f64 > 1.05 * report.lower_bound as f64 {
        return Err(format!("arena of {}, bound {}", report.arena_bytes, report.lower_bound).into());
    }
    Ok(())
}

/// Runs after the first allocate nothing on the device.
fn steady(precision: Precision) -> Result<()> {
    let chain = chains::all()?.swap_remove(0);
    let mut session = Session::from_graph(chain.graph, backend(precision)?, SessionOptions::default())?;
    let picture = chains::picture()?;
    session.run(&[("x", &picture)])?;
    let before = saltica_cuda::allocations();
    for _ in 0..3 {
        session.run(&[("x", &picture)])?;
    }
    match saltica_cuda::allocations() - before {
        0 => Ok(()),
        n => Err(format!("{n} allocations in three runs").into()),
    }
}

/// All cases of an op, with the first input fed and with all. Lists every one that fails.
fn ops(backend: &Arc<dyn Backend>, precision: Precision, op: &str, cases: &[Case]) -> Result<()> {
    let (mut faults, mut ran, mut without) = (Vec::new(), 0, Vec::new());
    for case in cases {
        for first_only in [true, false] {
            let known = || listed(precision).any(|l| l.starts_with(&lacking(first_only, case)));
            match one(backend, precision, case, first_only) {
                Ok(()) => ran += 1,
                Err(e) if e.to_string().contains("no GPU kernel") && known() => without.push(e.to_string()),
                Err(e) => faults.push(format!(
                    "{} ({}): {e}",
                    case.name,
                    if first_only { "first fed" } else { "all fed" }
                )),
            }
        }
    }
    if std::env::var_os("SALTICA_VERBOSE").is_some() && !without.is_empty() {
        println!("{op}: {ran} ran, {} without a kernel, such as: {}", without.len(), without[0]);
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n").into()) }
}

fn one(backend: &Arc<dyn Backend>, precision: Precision, case: &Case, first_only: bool) -> Result<()> {
    let first = case.inputs.iter().position(Option::is_some);
    let (graph, fed) = build::one_node(case, |i| first_only && Some(i) != first)?;
    let mut session = Session::from_graph(graph, backend.clone(), SessionOptions::default())?;
    let fed: Vec<(&str, &Tensor)> = fed.iter().map(|(name, t)| (name.as_str(), t)).collect();
    for run in ["first", "second"] {
        let outputs = session.run(&fed).map_err(|e| format!("{run} run: {e}"))?;
        if outputs.len() != case.expected.len() {
            return Err(format!("{} outputs, {} expected", outputs.len(), case.expected.len()).into());
        }
        for (i, ((_, got), want)) in outputs.iter().zip(&case.expected).enumerate() {
            compare(&got.view(), want, tolerance(precision, case, want))
                .map_err(|e| format!("{run} run, output {i}: {e}"))?;
        }
    }
    Ok(())
}

/// A case's tolerance. Transcendental functions of the GPU are within a few units in the last place (CUDA C programming guide,
/// mathematical functions), and sums go in another order; in f16 inputs and outputs are rounded to 11 bits.
fn tolerance(precision: Precision, case: &Case, want: &Tensor) -> Tolerance {
    let heavy = matches!(case.op, Op::Conv(_) | Op::ConvTranspose(_) | Op::MatMul(_) | Op::Gemm(_));
    let view = want.view();
    let largest = (0..want.shape().elements())
        .map(|i| view.at_f64(i).abs())
        .filter(|v| v.is_finite())
        .fold(0.0, f64::max);
    let (absolute, relative) = match case.tolerance {
        Tolerance::Exact => (0.0, 0.0),
        Tolerance::Close { absolute, relative } => (absolute, relative),
    };
    if precision == Precision::F16 && heavy {
        return Tolerance::Close {
            absolute: absolute.max(2e-3 * largest.max(1.0)),
            relative: relative.max(2e-3),
        };
    }
    match case.tolerance {
        Tolerance::Exact => Tolerance::Exact,
        Tolerance::Close { .. } => Tolerance::Close { absolute, relative: relative.max(2e-6) },
    }
}

fn session(precision: Precision, name: &str) -> Result<Session> {
    Ok(Session::from_graph(graphs::load_filled(name)?, backend(precision)?, SessionOptions::default())?)
}

fn run(session: &mut Session, case: &graphs::Case) -> Result<Vec<Tensor>> {
    let input = case.input.tensor()?;
    Ok(session.run(&[(&case.input.name, &input)])?.into_iter().map(|(_, t)| t).collect())
}

/// A graph against its golden outputs: by the tolerance of each part in f32, by the limits of half precision in f16.
fn whole(precision: Precision, name: &str) -> Result<()> {
    let mut session = session(precision, name)?;
    for (i, case) in graphs::golden(name)?.cases.iter().enumerate() {
        let outputs = run(&mut session, case)?;
        let reports = match precision {
            Precision::F32 => golden::check(name, i, &outputs)?,
            Precision::F16 => golden::check_half(name, i, &outputs)?,
        };
        for part in reports {
            println!("{name} case {i}: {part}");
        }
    }
    Ok(())
}

/// Three different pictures in one batch give the same bits as one by one.
fn batches(precision: Precision, name: &str) -> Result<()> {
    let mut graph = graphs::load_filled(name)?;
    rebatch(&mut graph)?;
    let mut dims: Vec<usize> = graphs::golden(name)?.cases[0].input.dims.clone();
    dims[0] = 1;
    let mut session = Session::from_graph(graph, backend(precision)?, SessionOptions::default())?;
    let input = session.model().inputs()[0].name.clone();
    let pictures = (0..3).map(|i| recipe::noise(40 + i, &dims)).collect::<Result<Vec<_>>>()?;
    let mut alone = Vec::new();
    for picture in &pictures {
        alone.push(session.run(&[(&input, picture)])?);
    }
    let mut together: Vec<f32> = Vec::new();
    for picture in &pictures {
        together.extend(picture.as_slice::<f32>()?);
    }
    dims[0] = 3;
    let batch = session.run(&[(&input, &Tensor::from_slice(&dims, &together)?)])?;
    for (k, (output, tensor)) in batch.iter().enumerate() {
        let part = tensor.bytes().len() / 3;
        for (i, alone) in alone.iter().enumerate() {
            if tensor.bytes()[i * part..(i + 1) * part] != *alone[k].1.bytes() {
                return Err(format!("{output}: picture {i} differs from its own run").into());
            }
        }
    }
    Ok(())
}
