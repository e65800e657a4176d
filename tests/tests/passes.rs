//! The passes on real graphs: what they find, and that the outputs stay what they are.
//!
//! Outputs are compared on a smaller image (64x64) up to the first node that fixes the image's size, with the reference
//! kernels: that is the whole body and the prediction convolutions.

use libtest_mimic::Trial;
use saltica_models::graph::{Dim, Graph};
use saltica_models::passes::{Bindings, Report, Settled, optimize, settle, widen};
use saltica_tensor::{DType, Tensor};
use saltica_tests::{Result, files, graphs, recipe, trial};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    saltica_tests::suite(trials)
}

/// Counts by name in the report, and of ops afterwards, for graphs of which they are known by counting in the files: in
/// every yolov8n, 57 of the 64 convolutions stand before a SiLU and 6 are prediction convolutions (the last one, the
/// expectation over a softmax, is no quantized one), and 6 of the 8 sums are residuals.
const COUNTS: &[(&str, Counts, Counts)] = &[
    ("yolov8n", FLOAT, &[("Conv", 64), ("Sigmoid", 1), ("Mul", 1), ("Add", 2)]),
    ("yolov8n-dyn", FLOAT, &[("Conv", 64), ("Sigmoid", 1), ("Mul", 1), ("Add", 2)]),
    ("yolov8n-fp16", FLOAT, &[("Conv", 64), ("Sigmoid", 1), ("Cast", 0)]),
    ("yolov8n-qdq-sym", &[("quantized convolutions", 63)], INTEGER),
    ("yolov8n-qdq-asym", &[("quantized convolutions", 63)], INTEGER),
    ("yolov8n-qdq-pow2", &[("quantized convolutions", 63)], INTEGER),
    ("yolov8n-qdq-pow2-asym", &[("quantized convolutions", 63)], INTEGER),
    ("yolov8n-qdq-convin", &[("silu fused", 57), ("quantized convolutions", 63)], INTEGER),
];
type Counts = &'static [(&'static str, usize)];
const FLOAT: Counts = &[("silu fused", 57), ("convolution + activation", 57), ("residual", 6)];
const INTEGER: Counts = &[("QuantConv", 63), ("Conv", 1), ("Sigmoid", 1), ("Mul", 1)];

fn trials(shared: &Path) -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    for name in graphs::names()? {
        let counted = name.clone();
        trials.push(trial(format!("settles/{name}"), move || {
            let graph = graphs::load_filled(&counted)?;
            let dims = &graphs::golden(&counted)?.cases[0].input;
            let (settled, report) = passes(&graph, Bindings::new().input(dims.name.clone(), &dims.dims))?;
            check(&settled, counted == "yolov8n-nms")?;
            let Some((_, counts, ops)) = COUNTS.iter().find(|(n, ..)| *n == counted) else { return Ok(()) };
            let left = |op: &str| settled.graph.nodes.iter().filter(|n| n.op.name() == op).count();
            let found = counts.iter().map(|&(what, n)| (what, report.count(what), n));
            for (what, found, n) in found.chain(ops.iter().map(|&(op, n)| (op, left(op), n))) {
                if found != n {
                    return Err(format!("{what}: {found} found, {n} expected ({report})").into());
                }
            }
            Ok(())
        }));
    }
    let models = shared.join("data/models");
    for name in files(&models, ".onnx")? {
        let path = models.join(format!("{name}.onnx"));
        trials.push(trial(format!("settles/{name}"), move || {
            let graph = saltica_models::onnx::load(&path)?;
            let mut bindings = Bindings::new();
            for id in &graph.inputs {
                let value = graph.value(*id);
                let open = value.dims.iter().flatten().any(|d| !matches!(d, Dim::Fixed(_)));
                if open {
                    bindings = bindings.input(value.name.clone(), &[1, 3, 320, 320]);
                }
            }
            let (settled, _) = passes(&graph, bindings)?;
            check(&settled, false)
        }));
    }
    for name in ["yolov8n-qdq-pow2", "yolov8n-qdq-pow2-asym"] {
        trials.push(trial(format!("same numbers/{name}"), move || {
            same(name, |got, want| {
                let differ = got.iter().zip(want).filter(|(g, w)| g != w).count();
                if differ == 0 { Ok(()) } else { Err(format!("{differ} of {} numbers differ", want.len())) }
            })
        }));
    }
    // The bounds are those that the data's notes give for outputs, rounding by rounding drawn anew.
    for name in ["yolov8n-qdq-sym", "yolov8n-qdq-asym", "yolov8n-qdq-convin"] {
        trials.push(trial(format!("same numbers/{name}"), move || {
            same(name, |got, want| {
                let r = correlation(got, want);
                if r >= 0.96 { Ok(()) } else { Err(format!("correlation {r}")) }
            })
        }));
    }
    for name in ["yolov8n", "yolov5n-anchor", "yolo26n", "yolox-nano"] {
        trials.push(trial(format!("same numbers/{name}"), move || {
            same(name, |got, want| {
                let scale = want.iter().fold(0f32, |m, w| m.max(w.abs()));
                let worst = got.iter().zip(want).fold(0f32, |m, (g, w)| m.max((g - w).abs()));
                if worst <= 1e-4 * scale { Ok(()) } else { Err(format!("{worst} off at a scale of {scale}")) }
            })
        }));
    }
    Ok(trials)
}

fn passes(graph: &Graph, bindings: Bindings) -> Result<(Settled, Report)> {
    let mut graph = graph.clone();
    let mut report = Report::default();
    widen(&mut graph, &mut report)?;
    optimize(&mut graph, &mut report)?;
    let settled = settle(&graph, &bindings, &mut report)?;
    let mut ops = BTreeMap::new();
    for node in &settled.graph.nodes {
        *ops.entry(node.op.name()).or_insert(0usize) += 1;
    }
    eprintln!("{report}\n  leaves {ops:?}");
    Ok((settled, report))
}

/// Every value in use has a shape (unless the graph's depend on values), and nothing superfluous is left.
fn check(settled: &Settled, open: bool) -> Result<()> {
    let graph = &settled.graph;
    let idle = graph.nodes.iter().find(|n| match n.op.name() {
        "Identity" | "Dropout" => true,
        "Shape" | "Size" => !open,
        _ => false,
    });
    if let Some(node) = idle {
        return Err(format!("{} is left: {}", node.op.name(), node.name).into());
    }
    let made = graph.nodes.iter().flat_map(|n| n.outputs.iter().flatten());
    let unknown: Vec<&str> = made
        .filter(|id| settled.facts[id.index()].is_none())
        .map(|id| graph.value(*id).name.as_str())
        .collect();
    if open == unknown.is_empty() {
        return Err(format!("values without a shape: {unknown:?}").into());
    }
    if settled.facts.iter().flatten().any(|f| f.dtype == DType::F16) {
        return Err("f16 values are left, though all inputs and outputs are f32".into());
    }
    Ok(())
}

/// The part of a graph before the first nodes that fix the image's size, for an image of 64x64.
fn body(name: &str) -> Result<(Graph, Vec<Tensor>)> {
    let mut graph = graphs::load_filled(name)?;
    let mut fixed = vec![false; graph.values.len()];
    let mut outputs = Vec::new();
    for node in &graph.nodes {
        let reads = || node.inputs.iter().flatten().copied();
        let fixes = matches!(node.op.name(), "Reshape" | "Shape") || reads().any(|id| fixed[id.index()]);
        if !fixes {
            continue;
        }
        for id in node.outputs.iter().flatten() {
            fixed[id.index()] = true;
        }
        for id in reads().filter(|id| !fixed[id.index()] && graph.value(*id).constant.is_none()) {
            if !outputs.contains(&id) && !graph.inputs.contains(&id) {
                outputs.push(id);
            }
        }
    }
    graph.outputs = outputs;
    let input = graph.inputs[0];
    let dims = [1, 3, 64, 64];
    graph.values[input.index()].dims = Some(dims.iter().map(|&d| Dim::Fixed(d)).collect());
    graph.prune();
    Ok((graph, vec![recipe::noise(7, &dims)?]))
}

fn same(name: &str, agree: impl Fn(&[f32], &[f32]) -> std::result::Result<(), String>) -> Result<()> {
    let (graph, inputs) = body(name)?;
    let (settled, _) = passes(&graph, Bindings::new())?;
    let (got, want) = (settled.graph.evaluate(&inputs)?, graph.evaluate(&inputs)?);
    if want.len() < 3 || got.len() != want.len() {
        return Err(format!("{} and {} outputs", got.len(), want.len()).into());
    }
    for (k, (got, want)) in got.iter().zip(&want).enumerate() {
        let output = &graph.value(graph.outputs[k]).name;
        if got.dtype() != want.dtype() || got.shape() != want.shape() {
            return Err(format!("{output}: {} {}", got.dtype(), got.shape()).into());
        }
        agree(&got.to_f32_vec(), &want.to_f32_vec()).map_err(|e| format!("{output}: {e}"))?;
    }
    Ok(())
}

fn correlation(a: &[f32], b: &[f32]) -> f64 {
    let mean = |v: &[f32]| v.iter().map(|&x| f64::from(x)).sum::<f64>() / v.len() as f64;
    let (ma, mb) = (mean(a), mean(b));
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (&x, &y) in a.iter().zip(b) {
        let (x, y) = (f64::from(x) - ma, f64::from(y) - mb);
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    ab / (aa * bb).sqrt()
}
