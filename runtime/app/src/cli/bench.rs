use super::Exit;
use super::flags::{DetectFlags, RunFlags, ShapeFlags, find};
use super::ui::{Stop, Ui};
use saltica::bench::{
    FrameTime, MemoryUse, OpRow, Plan, StepTime, Summary, by_op, measure, memory_use, milliseconds, stages,
};
use saltica::inputs::{self, Simulator};
use saltica::models::Model;
use saltica::report::{Align, Style, Table, bytes, number};
use saltica::{Detections, Detector, Error, ErrorKind, Image, Picture, Session};
use saltica_core::{Executor, Profile};
use saltica_pipeline::source::sim::SimClip;
use saltica_tensor::ViewMut;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Measure how long a model takes and what it occupies
#[derive(clap::Args)]
pub(super) struct Args {
    /// ONNX file, or a model's name [default: saltica-nano, which is inside the program]
    #[arg(value_name = "FILE.onnx|NAME")]
    model: Option<PathBuf>,
    /// Pictures in one run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    batch: u16,
    /// Runs before the first measured one
    #[arg(long, value_name = "N", default_value_t = 5)]
    warmup: usize,
    /// Seconds to measure for
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    duration: f64,
    /// Measure each step, too (in runs of their own)
    #[arg(long)]
    profile: bool,
    /// Measure on this picture, or this frame of the simulated camera [default: a made one of 1280x720]
    #[arg(long, value_name = "FILE|sim:...")]
    image: Option<PathBuf>,
    /// Run on made numbers, without pictures before and boxes after
    #[arg(long, conflicts_with = "image")]
    raw: bool,
    #[command(flatten)]
    shapes: ShapeFlags,
    #[command(flatten)]
    detect: DetectFlags,
    #[command(flatten)]
    run: RunFlags,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if (0.0..=86_400.0).contains(&v) => Ok(v),
        _ => Err("seconds from 0 to 86400 expected".into()),
    }
}

#[derive(Serialize)]
struct BenchRecord {
    model: String,
    backend: String,
    threads: usize,
    batch: usize,
    input: Vec<Vec<usize>>,
    head: Option<String>,
    head_error: Option<String>,
    warmup: usize,
    runs: usize,
    /// From the call to load to the end of the first run.
    cold_start_ms: f64,
    load_ms: f64,
    first_run_ms: f64,
    preprocess_ms: Option<Summary>,
    infer_ms: Summary,
    postprocess_ms: Option<Summary>,
    total_ms: Summary,
    per_second: f64,
    memory: MemoryUse,
    arena_bytes: usize,
    weight_bytes: usize,
    ops: Option<Vec<OpRow>>,
    steps: Option<Vec<StepTime>>,
}

/// What is measured: all of a detection, or the model alone.
enum Subject {
    Detection(Box<Detector>, Image),
    Model(Box<Session>, Vec<saltica_tensor::Shape>),
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, Stop> {
    let batch = usize::from(args.batch);
    let picture = match &args.image {
        Some(address) if inputs::is_simulated(address) => {
            let clip = SimClip::parse(&address.to_string_lossy()).map_err(Error::from)?;
            Simulator::default().draw(&clip.spec, clip.first, None)?.0
        }
        Some(path) => Image::open(path).map_err(Error::from)?,
        None => made_picture()?,
    };
    let model = find(args.model.as_deref(), ui)?;
    let start = Instant::now();
    let (mut subject, head_error) = load(args, &model, batch, picture)?;
    let load = start.elapsed();
    let mut out: Vec<Detections> = (0..batch).map(|_| Detections::new()).collect();
    let mut once = |subject: &mut Subject| subject.run(batch, &mut out);
    let first = Instant::now();
    once(&mut subject)?;
    let (first, cold) = (first.elapsed(), start.elapsed());

    let bar = ui.progress(100, "measuring");
    let plan = Plan { warmup: args.warmup, duration: Duration::from_secs_f64(args.duration) };
    let frames = measure(&plan, || once(&mut subject), |share| bar.set_position((share * 100.0) as u64))?;
    bar.finish_and_clear();
    let memory = memory_use();

    let executor = subject.executor(batch)?;
    let input = (0..executor.inputs())
        .filter_map(|i| executor.input_fact(i))
        .map(|f| f.shape.dims().to_vec())
        .collect();
    let (arena_bytes, weight_bytes) = (executor.report().arena_bytes, executor.report().weight_bytes);
    let steps = if args.profile { Some(profile(executor, frames.len().clamp(1, 100))?) } else { None };
    let all = stages(&frames).ok_or_else(|| Error::new(ErrorKind::Run, "no run was measured"))?;
    let detection = matches!(subject, Subject::Detection(..));
    let record = BenchRecord {
        model: model.to_string(),
        backend: subject.session().core().backend().name().to_owned(),
        threads: args.run.threads.map_or_else(default_threads, usize::from),
        batch,
        input,
        head: match &subject {
            Subject::Detection(d, _) => Some(d.head().to_string()),
            Subject::Model(..) => None,
        },
        head_error,
        warmup: args.warmup,
        runs: frames.len(),
        cold_start_ms: milliseconds(cold),
        load_ms: milliseconds(load),
        first_run_ms: milliseconds(first),
        preprocess_ms: detection.then_some(all.preprocess),
        infer_ms: all.infer,
        postprocess_ms: detection.then_some(all.postprocess),
        total_ms: all.total,
        per_second: batch as f64 * 1e3 / all.total.mean,
        memory,
        arena_bytes,
        weight_bytes,
        ops: steps.as_deref().map(by_op),
        steps,
    };
    if ui.json {
        ui.record("bench", &record)?;
    } else {
        ui.text(&text(&record, ui.style))?;
    }
    Ok(Exit::Done)
}

/// A detector where the model is one, else the model alone, and why.
/// The model as the file has it; if it fixes another batch than is asked for, with its batch opened where that can be done.
fn load(
    args: &Args,
    model: &Model,
    batch: usize,
    picture: Image,
) -> Result<(Subject, Option<String>), Error> {
    load_as(args, model, batch, picture.clone(), false).or_else(|error| match batch {
        1 => Err(error),
        _ => load_as(args, model, batch, picture, true).map_err(|_| error),
    })
}

fn load_as(
    args: &Args,
    model: &Model,
    batch: usize,
    picture: Image,
    open_batch: bool,
) -> Result<(Subject, Option<String>), Error> {
    let mut why = None;
    if !args.raw {
        match model.detector(&args.detect.builder(&args.run)?.open_batch(open_batch)) {
            Ok(mut d) => {
                d.prepare(batch)?;
                return Ok((Subject::Detection(Box::new(d), picture), None));
            }
            // A head that was asked for must fit.
            Err(e) if args.detect.names_head() => return Err(e),
            Err(e) => why = Some(e.to_string()),
        }
    }
    let mut session = model.session(&args.run.builder().open_batch(open_batch))?;
    let shapes = args.shapes.shapes(&session.inputs(), Some(batch), args.detect.size())?;
    let core = session.core();
    let bindings = core.model().bind(&shapes)?;
    let executor = core.executor(&bindings)?;
    for i in 0..executor.inputs() {
        fill(&mut executor.input_mut(i)?);
    }
    Ok((Subject::Model(Box::new(session), shapes), why))
}

impl Subject {
    fn run(&mut self, batch: usize, out: &mut [Detections]) -> Result<FrameTime, Error> {
        match self {
            Subject::Detection(d, picture) => {
                let pictures: Vec<Picture<'_>> = (0..batch).map(|_| Picture::from(&*picture)).collect();
                d.detect_batch_into(&pictures, out)
            }
            Subject::Model(..) => {
                let executor = self.executor(batch)?;
                // A run may overwrite its input.
                for i in 0..executor.inputs() {
                    fill(&mut executor.input_mut(i)?);
                }
                let start = Instant::now();
                executor.run()?;
                Ok(FrameTime { infer: start.elapsed(), ..FrameTime::default() })
            }
        }
    }

    fn executor(&mut self, batch: usize) -> Result<&mut Executor, Error> {
        match self {
            Subject::Detection(d, _) => d.prepare(batch),
            Subject::Model(session, shapes) => {
                let core = session.core();
                let bindings = core.model().bind(shapes)?;
                Ok(core.executor(&bindings)?)
            }
        }
    }

    fn session(&mut self) -> &mut Session {
        match self {
            Subject::Detection(d, _) => d.session(),
            Subject::Model(s, _) => s,
        }
    }
}

fn profile(executor: &mut Executor, runs: usize) -> Result<Vec<StepTime>, Error> {
    let mut profile = Profile::default();
    for _ in 0..runs {
        executor.run_profiled(&mut profile)?;
    }
    let n = f64::from(profile.runs.max(1));
    let step = |s: &saltica_core::StepTime| StepTime {
        name: s.name.clone(),
        op: s.op.clone(),
        kernel: s.kernel.clone(),
        output: s.output.clone(),
        macs: s.macs,
        ms: milliseconds(s.total) / n,
        min_ms: milliseconds(s.min),
    };
    Ok(profile.steps.iter().map(step).collect())
}

fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Numbers from 0 to 1, the same in every run.
fn fill(view: &mut ViewMut<'_>) {
    let mut state = 1u32;
    for i in 0..view.shape().elements() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        view.put_f64(i, f64::from(state >> 8) / f64::from(1u32 << 24));
    }
}

/// A picture with edges and gradients.
fn made_picture() -> Result<Image, Error> {
    let (w, h) = (1280, 720);
    let data = (0..w * h).flat_map(|i| {
        let (x, y) = (i % w, i / w);
        [(x / 5) as u8, (y / 3) as u8, if (x / 64 + y / 64) % 2 == 0 { 200 } else { 40 }]
    });
    Ok(Image::from_rgb(w, h, data.collect())?)
}

fn text(r: &BenchRecord, style: Style) -> String {
    let mut facts = Table::new(&[("", Align::Left), ("", Align::Left)]);
    facts.row(["model", &r.model]);
    let shapes: Vec<String> =
        r.input.iter().map(|s| s.iter().map(usize::to_string).collect::<Vec<_>>().join("x")).collect();
    facts.row(["input", &shapes.join(", ")]);
    facts.row(["backend", &format!("{}, {} threads", r.backend, r.threads)]);
    match (&r.head, &r.head_error) {
        (Some(h), _) => facts.row(["head", h]),
        (None, Some(e)) => facts.row(["head", &format!("none, the model alone is measured: {e}")]),
        (None, None) => {}
    }
    facts.row([
        "cold start",
        &format!(
            "{} ms (load {} ms, first run {} ms)",
            number(r.cold_start_ms, 1),
            number(r.load_ms, 1),
            number(r.first_run_ms, 1)
        ),
    ]);
    facts.row([
        "memory",
        &format!(
            "{} at most, of it {} weights and {} arena",
            r.memory.peak_rss_bytes.map_or_else(|| "unknown".into(), bytes),
            bytes(r.weight_bytes as u64),
            bytes(r.arena_bytes as u64)
        ),
    ]);
    facts.row(["throughput", &format!("{} pictures a second", number(r.per_second, 1))]);

    let columns = ["min", "mean", "std", "p50", "p90", "p95", "p99", "max"];
    let mut times = Table::new(
        &[("ms", Align::Left)].into_iter().chain(columns.map(|c| (c, Align::Right))).collect::<Vec<_>>(),
    );
    for (name, s) in [
        ("preprocess", r.preprocess_ms),
        ("infer", Some(r.infer_ms)),
        ("postprocess", r.postprocess_ms),
        ("total", r.preprocess_ms.map(|_| r.total_ms)),
    ] {
        if let Some(s) = s {
            let numbers = [s.min, s.mean, s.std, s.p50, s.p90, s.p95, s.p99, s.max].map(|v| number(v, 3));
            times.row([name.to_owned()].into_iter().chain(numbers));
        }
    }
    let mut out = format!("{}\n{}{} runs\n", facts.render(style), times.render(style), r.runs);
    if let (Some(ops), Some(steps)) = (&r.ops, &r.steps) {
        let mut t = Table::new(&[
            ("op", Align::Left),
            ("kernel", Align::Left),
            ("steps", Align::Right),
            ("ms", Align::Right),
            ("share", Align::Right),
            ("GMAC/s", Align::Right),
        ]);
        for o in ops {
            let rate = (o.macs > 0 && o.ms > 0.0).then(|| o.macs as f64 / o.ms / 1e6);
            t.row([
                o.op.clone(),
                o.kernel.clone(),
                o.steps.to_string(),
                number(o.ms, 3),
                format!("{} %", number(o.share * 100.0, 1)),
                number(rate, 1),
            ]);
        }
        out += &format!("\n{}", t.render(style));
        let mut t = Table::new(&[
            ("step", Align::Left),
            ("op", Align::Left),
            ("kernel", Align::Left),
            ("output", Align::Left),
            ("ms", Align::Right),
            ("min", Align::Right),
        ]);
        let mut slowest: Vec<&StepTime> = steps.iter().collect();
        slowest.sort_by(|a, b| b.ms.total_cmp(&a.ms));
        for s in slowest.iter().take(20) {
            t.row([s.name.as_str(), &s.op, &s.kernel, &s.output, &number(s.ms, 3), &number(s.min_ms, 3)]);
        }
        out += &format!("\nslowest of {} steps\n{}", steps.len(), t.render(style));
    }
    out
}
