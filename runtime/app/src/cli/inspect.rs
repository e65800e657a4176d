use super::Exit;
use super::flags::{DetectFlags, RunFlags, ShapeFlags, find};
use super::ui::{Stop, Ui};
use saltica::report::{Align, Style, Table, bytes, number};
use saltica::{Detector, Error, Session};
use saltica_core::{Plan, PlanReport, Port};
use saltica_models::graph::Dim;
use saltica_tensor::Shape;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Show what a model is, what its tensors mean and what a run costs
#[derive(clap::Args)]
pub(super) struct Args {
    /// ONNX file, or a model's name
    #[arg(value_name = "FILE.onnx|NAME")]
    model: PathBuf,
    /// Plan for this batch size only [default: 1 to 8, where the batch is open or can be opened]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    batch: Option<u16>,
    #[command(flatten)]
    shapes: ShapeFlags,
    #[command(flatten)]
    detect: DetectFlags,
    #[command(flatten)]
    run: RunFlags,
}

#[derive(Serialize)]
struct InspectRecord {
    model: String,
    file_bytes: Option<u64>,
    sha256: Option<String>,
    opset: u32,
    metadata: Vec<Entry>,
    inputs: Vec<PortInfo>,
    outputs: Vec<PortInfo>,
    head: Option<HeadInfo>,
    head_error: Option<String>,
    passes: Vec<Count>,
    backend: String,
    ops: Vec<Count>,
    fallbacks: Vec<Count>,
    macs: u64,
    weight_bytes: usize,
    views: usize,
    in_place: usize,
    copies: usize,
    interpreted: usize,
    plans: Vec<PlanRow>,
}

#[derive(Serialize)]
struct Entry {
    key: String,
    value: String,
}

#[derive(Serialize)]
struct PortInfo {
    name: String,
    dtype: Option<&'static str>,
    shape: Option<Vec<String>>,
}

#[derive(Serialize)]
struct HeadInfo {
    name: &'static str,
    layout: String,
    classes: Option<usize>,
    labels: Vec<String>,
    preprocessing: String,
    source: Option<String>,
    conf: f32,
    iou: f32,
}

#[derive(Serialize)]
struct Count {
    name: String,
    count: usize,
}

#[derive(Serialize)]
struct PlanRow {
    batch: Option<usize>,
    shapes: Vec<Vec<usize>>,
    arena_bytes: usize,
    lower_bound_bytes: usize,
    ratio: f64,
    scratch_bytes: usize,
    total_bytes: usize,
    macs: u64,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, Stop> {
    let model = find(Some(&args.model), ui)?;
    let (file_bytes, sha256) = model.content().unzip();
    // Any model can be inspected: that it finds nothing in pictures is a finding, not a failure.
    let mut detector = model.detector(&args.detect.builder(&args.run)?);
    let (head, head_error) = match &detector {
        Ok(d) => (Some(head_info(d)), None),
        Err(e) => (None, Some(e.to_string())),
    };
    let size = args.detect.size().or_else(|| detector.as_ref().ok().map(|d| d.head().input()));
    let mut other = None;
    let session = match &mut detector {
        Ok(d) => d.session(),
        Err(_) => other.insert(model.session(&args.run.builder())?),
    };
    let Planned { rows: plans, report, passes, fallbacks } = plan_all(args, size, session)?;
    let model = session.core().model();
    let record = InspectRecord {
        model: args.model.display().to_string(),
        file_bytes,
        sha256,
        opset: model.opset(),
        metadata: model.metadata().iter().map(|(k, v)| Entry { key: k.clone(), value: v.clone() }).collect(),
        inputs: model.inputs().iter().map(port_info).collect(),
        outputs: model.outputs().iter().map(port_info).collect(),
        head,
        head_error,
        passes,
        backend: session.core().backend().name().to_owned(),
        ops: report.ops.iter().map(|(name, &count)| Count { name: name.clone(), count }).collect(),
        fallbacks,
        macs: report.macs,
        weight_bytes: report.weight_bytes,
        views: report.views,
        in_place: report.homes,
        copies: report.copies,
        interpreted: report.tail,
        plans,
    };
    if ui.json {
        ui.record("inspect", &record)?;
    } else {
        ui.text(&text(&record, ui.style))?;
    }
    Ok(Exit::Done)
}

/// What planning says.
#[derive(Default)]
struct Planned {
    rows: Vec<PlanRow>,
    /// Of the first plan, as all that follows.
    report: PlanReport,
    passes: Vec<Count>,
    fallbacks: Vec<Count>,
}

/// Whether any number of pictures may go in.
fn is_open(session: &Session) -> bool {
    let ports = session.inputs();
    matches!(ports.first().and_then(|p| p.dims.as_deref()), Some([Dim::Symbol(_) | Dim::Unknown, ..]))
}

/// Plans without allocating an arena: batch 1 to 8 where the file leaves the batch open or it can be opened, else as it is.
fn plan_all(args: &Args, size: Option<(usize, usize)>, session: &mut Session) -> Result<Planned, Error> {
    let mut opened = match is_open(session) || !args.shapes.is_empty() || args.batch == Some(1) {
        true => None,
        false => args.run.builder().open_batch(true).load(&args.model).ok(),
    };
    let session = opened.as_mut().unwrap_or(session);
    let (ports, open) = (session.inputs(), is_open(session));
    let batches: Vec<Option<usize>> = match args.batch {
        Some(n) => vec![Some(n.into())],
        None if open && args.shapes.is_empty() => (1..=8).map(Some).collect(),
        None => vec![None],
    };
    let core = session.core();
    let mut planned = Planned::default();
    for batch in batches {
        let shapes = args.shapes.shapes(&ports, batch, size)?;
        let bindings = core.model().bind(&shapes)?;
        let (plan, report) = core.model().plan(&bindings, core.backend().as_ref())?;
        let is_first = planned.rows.is_empty();
        planned.rows.push(plan_row(&shapes, &plan.report));
        if is_first {
            planned.passes =
                report.iter().map(|(name, count)| Count { name: name.to_owned(), count }).collect();
            if core.backend().name() != "reference" {
                planned.fallbacks = fallbacks(&plan);
            }
            planned.report = plan.report;
        }
    }
    Ok(planned)
}

/// Steps that run on the plain reference kernel, by op.
fn fallbacks(plan: &Plan) -> Vec<Count> {
    let mut counts = BTreeMap::new();
    for step in plan.steps.iter().filter(|s| s.kernel.label().starts_with("reference")) {
        *counts.entry(step.op.clone()).or_insert(0) += 1;
    }
    counts.into_iter().map(|(name, count)| Count { name, count }).collect()
}

fn plan_row(shapes: &[Shape], r: &PlanReport) -> PlanRow {
    PlanRow {
        batch: shapes.first().and_then(|s| s.dims().first()).copied(),
        shapes: shapes.iter().map(|s| s.dims().to_vec()).collect(),
        arena_bytes: r.arena_bytes,
        lower_bound_bytes: r.lower_bound,
        ratio: r.ratio(),
        scratch_bytes: r.scratch_bytes,
        total_bytes: r.total_bytes(),
        macs: r.macs,
    }
}

fn port_info(p: &Port) -> PortInfo {
    PortInfo {
        name: p.name.clone(),
        dtype: p.dtype.map(|d| d.name()),
        shape: p.dims.as_ref().map(|dims| dims.iter().map(ToString::to_string).collect()),
    }
}

fn head_info(d: &Detector) -> HeadInfo {
    let head = d.head();
    HeadInfo {
        name: head.name(),
        layout: head.to_string(),
        classes: head.classes(),
        labels: head.labels().map(|l| l.names().to_vec()).unwrap_or_default(),
        preprocessing: d.preprocessor().spec().to_string(),
        source: head.spec().source.clone(),
        conf: d.params().conf,
        iou: d.params().iou,
    }
}

fn text(r: &InspectRecord, style: Style) -> String {
    let mut facts = Table::new(&[("", Align::Left), ("", Align::Left)]);
    let size = r.file_bytes.map_or_else(String::new, |b| format!("{}, ", bytes(b)));
    facts.row(["model", &format!("{} ({size}opset {})", r.model, r.opset)]);
    if let Some(hash) = &r.sha256 {
        facts.row(["sha256", hash]);
    }
    for (name, ports) in [("input", &r.inputs), ("output", &r.outputs)] {
        for p in ports {
            let shape =
                p.shape.as_ref().map_or_else(|| "any shape".into(), |s| format!("[{}]", s.join(", ")));
            facts.row([name, &format!("{} {} {shape}", p.name, p.dtype.unwrap_or("of any dtype"))]);
        }
    }
    match (&r.head, &r.head_error) {
        (Some(h), _) => {
            facts.row(["head", &format!("{}: {}", h.name, h.layout)]);
            facts.row(["pictures", &h.preprocessing]);
            facts.row(["thresholds", &format!("conf {}, iou {}", h.conf, h.iou)]);
            let labels = match &h.labels[..] {
                [] => "none".to_owned(),
                [a, b, c, _, _, _, _, _, _, ..] => format!("{a}, {b}, {c}, ... ({})", h.labels.len()),
                few => few.join(", "),
            };
            facts.row(["labels", &labels]);
            if let Some(source) = &h.source {
                facts.row(["told by", source]);
            }
        }
        (None, Some(e)) => facts.row(["head", &format!("none: {e}")]),
        (None, None) => {}
    }
    for p in &r.passes {
        facts.row(["passes", &format!("{}: {}", p.name, p.count)]);
    }
    facts.row(["backend", &r.backend]);
    let counts =
        |all: &[Count]| all.iter().map(|o| format!("{} {}", o.count, o.name)).collect::<Vec<_>>().join(", ");
    facts.row(["steps", &counts(&r.ops)]);
    if !r.fallbacks.is_empty() {
        facts.row(["fallbacks", &format!("{} (no fast kernel: the plain one runs)", counts(&r.fallbacks))]);
    }
    facts.row([
        "moves",
        &format!("{} views, {} computed in place of a concat, {} copies", r.views, r.in_place, r.copies),
    ]);
    if r.interpreted > 0 {
        facts.row(["interpreted", &format!("{} nodes whose shapes depend on values", r.interpreted)]);
    }
    facts.row(["work", &format!("{} GMAC", number(r.macs as f64 / 1e9, 3))]);
    facts.row(["weights", &bytes(r.weight_bytes as u64)]);

    let mut plans = Table::new(&[
        ("batch", Align::Right),
        ("arena", Align::Right),
        ("lower bound", Align::Right),
        ("ratio", Align::Right),
        ("scratch", Align::Right),
        ("with weights", Align::Right),
        ("input", Align::Left),
    ]);
    for p in &r.plans {
        let shapes: Vec<String> =
            p.shapes.iter().map(|s| s.iter().map(usize::to_string).collect::<Vec<_>>().join("x")).collect();
        plans.row([
            p.batch.map_or_else(|| "-".into(), |b| b.to_string()),
            bytes(p.arena_bytes as u64),
            bytes(p.lower_bound_bytes as u64),
            number(p.ratio, 3),
            bytes(p.scratch_bytes as u64),
            bytes(p.total_bytes as u64),
            shapes.join(", "),
        ]);
    }
    format!("{}\n{}", facts.render(style), plans.render(style))
}
