//! A detector as the pipeline's three steps: pixels into tensors, the network, tensors into boxes.
//!
//! A batch's tensors ([`Tensors`]) hold the pictures and what the network said of them; they are made once and go round, so
//! that one batch is prepared while another runs. The network itself is planned for a few batch sizes, each with an arena
//! of its own; any number of pictures is run as the sequence of these sizes that takes least, by the times measured when it
//! was loaded. (A file exported for one picture has its batch opened where that can be proven to change nothing.)

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use saltica_core::{Executor, Plan, PlanReport, Port};
use saltica_pipeline::frame::Frame;
use saltica_pipeline::stage;
use saltica_tensor::{DType, Geometry, Shape, Tensor, View};
use saltica_vision::{DecodeParams, Detections, Head, Preprocessor};

use super::Settings;
use crate::detector::{MAX_OUTPUTS, Parts};
use crate::models::Model;
use crate::session::image_shape;
use crate::{Error, ErrorKind, Result, Session};

/// Batches that go round: one is prepared, one runs, one is decoded.
const ROUND: usize = 3;
/// A larger batch must take this part less time for each picture, or it is not kept.
const PAYS: f64 = 0.02;
/// Score of objects that may carry a track on.
const FAINT: f32 = 0.1;
/// A batch that takes longer is not kept beside smaller ones: the program could not end in time.
const LONGEST: Duration = Duration::from_millis(400);
/// How long each batch size is measured.
const MEASURE: Duration = Duration::from_millis(300);

/// A loaded model, from which pipelines are made: the first one, and others after a change or a failure.
pub struct Engine {
    session: Session,
    head: Arc<Head>,
    thresholds: Arc<Thresholds>,
    port: Port,
    dtype: DType,
    ways: Arc<Ways>,
    bytes: Vec<u64>,
    /// Bytes that a run may take.
    budget: u64,
    /// Score above which an object counts that no track speaks for.
    shown: f32,
    /// Executors that were measured and have no user yet.
    ready: Vec<(usize, Executor)>,
}

/// What a batch of `n` pictures is run as.
#[derive(Debug, Default)]
struct Ways {
    /// By number of pictures, from 0.
    sizes: Vec<Vec<usize>>,
    times: Vec<Duration>,
}

impl Ways {
    /// The sequences that take least, given how long each size takes. A size may have more places than pictures.
    fn new(measured: &[(usize, Duration)]) -> Ways {
        let most = measured.iter().map(|m| m.0).max().unwrap_or(0);
        let mut ways = Ways { sizes: vec![Vec::new()], times: vec![Duration::ZERO] };
        for n in 1..=most {
            let with = |&(size, took): &(usize, Duration)| (took + ways.times[n - size.min(n)], size);
            let best = measured.iter().map(with).min().unwrap_or_default();
            let mut sizes = vec![best.1];
            sizes.extend_from_slice(&ways.sizes[n - best.1.min(n)]);
            // The same time, whatever the order: the large ones first.
            sizes.sort_unstable_by_key(|s| std::cmp::Reverse(*s));
            ways.sizes.push(sizes);
            ways.times.push(best.0);
        }
        ways
    }

    fn most(&self) -> usize {
        self.sizes.len().saturating_sub(1)
    }
}

/// Thresholds that may be changed while frames are decoded.
#[derive(Debug)]
struct Thresholds {
    version: AtomicU64,
    params: Mutex<DecodeParams>,
}

/// The tensors of one batch.
#[derive(Debug)]
pub struct Tensors {
    input: Tensor,
    outputs: Vec<Tensor>,
    geometries: Vec<Geometry>,
}

impl Engine {
    /// Loads a model, plans it for growing batches as long as they pay, and measures each.
    ///
    /// # Errors
    /// A model that cannot be loaded or is no detector; one of which not even a batch of one fits into memory.
    pub fn load(model: &Model, settings: &Settings) -> Result<Engine> {
        let builder = settings.detector()?;
        let opened = (settings.batch > 1).then(|| model.detector(&builder.clone().open_batch(true)));
        let detector = match opened {
            Some(Ok(detector)) => detector,
            Some(Err(e)) => {
                log::info!("its batch stays as it is: {e}");
                model.detector(&builder)?
            }
            None => model.detector(&builder)?,
        };
        let fixed = detector.fixed_batch();
        let Parts { session, head, params, port } = detector.into_parts();
        let thresholds = Arc::new(Thresholds { version: AtomicU64::new(0), params: Mutex::new(params) });
        let mut engine = Engine {
            session,
            head: Arc::new(head),
            thresholds,
            port,
            dtype: DType::F32,
            ways: Arc::default(),
            bytes: Vec::new(),
            budget: u64::MAX,
            shown: 0.0,
            ready: Vec::new(),
        };
        let limit = settings.memory_limit.or_else(|| crate::doctor::Probe::default().memory_budget());
        engine.budget = limit.unwrap_or(u64::MAX);
        engine.measure(fixed, settings.batch, engine.budget)?;
        engine.set_thresholds(settings)?;
        Ok(engine)
    }

    fn measure(&mut self, fixed: Option<usize>, most: usize, limit: u64) -> Result<()> {
        let mut sizes: Vec<usize> = match fixed {
            Some(n) => vec![n],
            None => std::iter::successors(Some(1), |b| Some(b * 2)).take_while(|b| *b <= most).collect(),
        };
        if fixed.is_none() && sizes.last().is_some_and(|last| *last < most) {
            sizes.push(most);
        }
        // Bytes of the executors so far, and of one picture's places in all batches that go round.
        let (mut used, mut round) = (0, 0);
        let (mut measured, mut reports) = (Vec::new(), Vec::new());
        for size in sizes {
            let plan = self.plan(size)?;
            let report = plan.report.clone();
            let work = (report.arena_bytes + report.scratch_bytes) as u64;
            // The first size is the session's to refuse, with its arithmetic.
            let needed = used + work + report.weight_bytes as u64 + size as u64 * round;
            if !measured.is_empty() && needed > limit {
                log::info!("batches of {size} would need {needed} bytes, the limit is {limit}");
                break;
            }
            let executor = plan.load()?;
            let facts = executor.input_fact(0).into_iter();
            let facts = facts.chain((0..executor.outputs()).filter_map(|i| executor.output_fact(i)));
            let io: usize = facts.map(|f| f.shape.elements() * f.dtype.size()).sum();
            round = (io / size * ROUND) as u64;
            if !self.stays_apart(&executor, size) {
                if measured.is_empty() && size > 1 {
                    return Err(Error::new(
                        ErrorKind::Model,
                        format!("its outputs do not have the batch of {size} as their first dim"),
                    ));
                } else if !measured.is_empty() {
                    break;
                }
            }
            self.dtype = executor.input_fact(0).map_or(DType::F32, |f| f.dtype);
            self.ready.push((size, executor));
            let took = self.time(size)?;
            let each = |(n, t): &(usize, Duration)| t.as_secs_f64() / *n as f64;
            let best = measured.iter().map(each).fold(f64::INFINITY, f64::min);
            if each(&(size, took)) > best * (1.0 - PAYS) || (!measured.is_empty() && took > LONGEST) {
                self.ready.pop();
                break;
            }
            used += work;
            measured.push((size, took));
            reports.push((size, report));
        }
        for (size, took) in &measured {
            log::info!("a batch of {size} takes {:.2} ms", took.as_secs_f64() * 1e3);
        }
        let ways = Ways::new(&measured);
        let bytes = |sizes: &Vec<usize>| -> u64 {
            let of = |r: &PlanReport| r.total_bytes() as u64;
            let parts = reports.iter().filter(|(n, _)| sizes.contains(n));
            parts.map(|(_, r)| of(r)).max().unwrap_or(0)
        };
        self.bytes = ways.sizes.iter().map(bytes).collect();
        self.ways = Arc::new(ways);
        Ok(())
    }

    /// The time of one run of a size, the median of several, with the copies to and from a batch's tensors.
    fn time(&mut self, size: usize) -> Result<Duration> {
        let mut tensors = self.tensors(size)?;
        let Some((_, executor)) = self.ready.last_mut() else { return Ok(Duration::ZERO) };
        // The first run touches all memory.
        run_part(executor, size, &mut tensors, 0..size)?;
        let (begin, mut times) = (Instant::now(), Vec::new());
        while times.len() < 3 || (times.len() < 31 && begin.elapsed() < MEASURE) {
            let start = Instant::now();
            run_part(executor, size, &mut tensors, 0..size)?;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        Ok(times[times.len() / 2])
    }

    /// Whether every output has the batch as its first dim.
    fn stays_apart(&self, executor: &Executor, size: usize) -> bool {
        (0..executor.outputs())
            .all(|i| executor.output_fact(i).is_some_and(|f| f.shape.dims().first() == Some(&size)))
    }

    fn plan(&self, size: usize) -> Result<Plan> {
        let shape = image_shape(&self.port, Some(size), Some(self.head.input()))?;
        let core = self.session.core_ref();
        let bindings = core.model().bind(&[shape])?;
        Ok(core.model().plan(&bindings, core.backend().as_ref())?.0)
    }

    /// Tensors for `most` pictures, by what the smallest executor says of one.
    fn tensors(&self, most: usize) -> Result<Tensors> {
        let Some((size, executor)) = self.ready.first() else {
            return Err(Error::new(ErrorKind::Run, "no batch size was planned"));
        };
        let scaled = |shape: &Shape| -> Result<Shape> {
            let mut dims = shape.dims().to_vec();
            if let Some(first) = dims.first_mut().filter(|d| **d == *size) {
                *first = most.max(*size);
            }
            Ok(Shape::new(&dims)?)
        };
        let made = |fact: Option<saltica_models::graph::OutFact>| -> Result<Tensor> {
            let fact = fact.ok_or_else(|| Error::new(ErrorKind::Model, "an output has no fixed shape"))?;
            Ok(Tensor::zeros(fact.dtype, scaled(&fact.shape)?)?)
        };
        let input = made(executor.input_fact(0))?;
        let outputs =
            (0..executor.outputs()).map(|i| made(executor.output_fact(i))).collect::<Result<_>>()?;
        let place = Geometry::new((1, 1), self.head.input(), self.head.spec().input_spec().resize)?;
        Ok(Tensors { input, outputs, geometries: vec![place; most] })
    }

    /// What its outputs mean.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The largest batch it runs, by size and time, and what runs it.
    pub fn about(&self) -> String {
        let (most, one) = (self.ways.most(), self.ways.times.get(1).copied().unwrap_or_default());
        let all = self.ways.times.last().copied().unwrap_or_default();
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        let name = self.session.core_ref().backend().name();
        match most {
            0 | 1 => format!("{}, {name}: {:.1} ms a picture", self.head, ms(one)),
            _ => format!(
                "{}, {name}: {:.1} ms a picture, {:.1} ms a batch of {most}",
                self.head,
                ms(one),
                ms(all)
            ),
        }
    }

    /// How long its largest batch takes.
    pub fn slowest(&self) -> Duration {
        self.ways.times.last().copied().unwrap_or_default()
    }

    /// Bytes that a run may take.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Score above which an object counts that no track speaks for.
    pub fn shown(&self) -> f32 {
        self.shown
    }

    /// The thresholds that settings ask for.
    ///
    /// # Errors
    /// A class that the model does not know.
    pub fn check_thresholds(&self, settings: &Settings) -> Result<DecodeParams> {
        let plain = self.head.params();
        let classes = settings.classes.iter().map(|c| crate::detector::class_number(c, &self.head));
        let conf = settings.score.unwrap_or(plain.conf);
        Ok(DecodeParams {
            // Faint objects carry tracks on.
            conf: if settings.track { conf.min(FAINT) } else { conf },
            iou: settings.nms.unwrap_or(plain.iou),
            max_det: settings.max_det.unwrap_or(plain.max_det),
            agnostic: settings.agnostic,
            classes: classes.collect::<Result<_>>()?,
            ..plain
        })
    }

    /// Changes thresholds, for all pipelines made of it.
    ///
    /// # Errors
    /// As [`Engine::check_thresholds`].
    pub fn set_thresholds(&mut self, settings: &Settings) -> Result<()> {
        let params = self.check_thresholds(settings)?;
        self.shown = settings.score.unwrap_or(self.head.params().conf);
        *lock(&self.thresholds.params) = params;
        self.thresholds.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// A model for a pipeline of `sources` sources. Weights are shared by all that are made.
    ///
    /// # Errors
    /// A plan that cannot be loaded for lack of memory.
    pub fn model(&mut self, sources: usize) -> Result<stage::Model<Tensors>> {
        let most = self.ways.most();
        let mut sizes: Vec<usize> = self.ways.sizes.iter().flatten().copied().collect();
        sizes.sort_unstable();
        sizes.dedup();
        if self.ready.is_empty() {
            for size in &sizes {
                let executor = self.plan(*size)?.load()?;
                self.ready.push((*size, executor));
            }
        }
        let batches = (0..ROUND).map(|_| self.tensors(most)).collect::<Result<_>>()?;
        let executors = std::mem::take(&mut self.ready);
        let input = self.head.spec().input_spec();
        let preprocessors = (0..sources)
            .map(|_| Ok(Preprocessor::new(input, self.head.input(), self.dtype)?))
            .collect::<Result<_>>()?;
        let params = lock(&self.thresholds.params).clone();
        let version = self.thresholds.version.load(Ordering::Acquire);
        let thresholds = Arc::clone(&self.thresholds);
        let measured = self.ways.times.iter().copied().enumerate().skip(1).collect();
        Ok(stage::Model {
            sizes: Vec::new(),
            most,
            bytes: self.bytes.clone(),
            measured,
            batches,
            prepare: Box::new(Prepare { preprocessors }),
            infer: Box::new(Infer { executors, ways: Arc::clone(&self.ways) }),
            decode: Box::new(Decode { head: Arc::clone(&self.head), params, version, thresholds }),
        })
    }
}

/// Each source has its own tables: pictures of one size follow each other there.
struct Prepare {
    preprocessors: Vec<Preprocessor>,
}

impl stage::Prepare<Tensors> for Prepare {
    fn prepare(&mut self, frame: &Frame, batch: &mut Tensors, index: usize) -> saltica_pipeline::Result<()> {
        let (Some(p), Some(place)) =
            (self.preprocessors.get_mut(frame.source.0 as usize), batch.geometries.get_mut(index))
        else {
            return Err(failed(format!("{} or place {index} of a batch is unknown", frame.source)));
        };
        let mut input = batch.input.view_mut().map_err(failed)?;
        *place = p.run(&frame.pixels(), &mut input, index).map_err(failed)?;
        Ok(())
    }
}

struct Infer {
    executors: Vec<(usize, Executor)>,
    ways: Arc<Ways>,
}

impl stage::Infer<Tensors> for Infer {
    fn infer(&mut self, batch: &mut Tensors, part: Range<usize>) -> saltica_pipeline::Result<()> {
        let Some(sizes) = self.ways.sizes.get(part.len()) else {
            return Err(failed(format!("a batch of {} pictures was not planned", part.len())));
        };
        let mut first = part.start;
        for size in sizes {
            let Some((_, executor)) = self.executors.iter_mut().find(|(n, _)| n == size) else {
                return Err(failed(format!("no plan for a batch of {size}")));
            };
            let end = (first + size).min(part.end);
            run_part(executor, *size, batch, first..end).map_err(failed)?;
            first = end;
        }
        Ok(())
    }
}

/// Runs some pictures of a batch's tensors; places of the executor that no picture takes are zeros, as ops that look at
/// the whole input must not see what an earlier run left.
fn run_part(executor: &mut Executor, size: usize, batch: &mut Tensors, part: Range<usize>) -> Result<()> {
    let count = part.len();
    let pictures = batch.input.view().sliced(0, part.start, count, 1)?;
    executor.input_mut(0)?.sliced(0, 0, count, 1)?.copy_from(&pictures);
    if count < size {
        crate::detector::clear(executor.input_mut(0)?.sliced(0, count, size - count, 1)?);
    }
    executor.run()?;
    for (i, to) in batch.outputs.iter_mut().enumerate() {
        let from = executor.output(i)?;
        if from.shape() == to.shape() && size == count {
            to.view_mut()?.copy_from(&from);
        } else {
            to.view_mut()?.sliced(0, part.start, count, 1)?.copy_from(&from.sliced(0, 0, count, 1)?);
        }
    }
    Ok(())
}

struct Decode {
    head: Arc<Head>,
    params: DecodeParams,
    version: u64,
    thresholds: Arc<Thresholds>,
}

impl stage::Decode<Tensors> for Decode {
    fn decode(
        &mut self,
        batch: &mut Tensors,
        index: usize,
        found: &mut Detections,
    ) -> saltica_pipeline::Result<()> {
        let version = self.thresholds.version.load(Ordering::Acquire);
        if version != self.version {
            self.version = version;
            self.params.clone_from(&lock(&self.thresholds.params));
        }
        let (Some(first), Some(geometry)) = (batch.outputs.first(), batch.geometries.get(index)) else {
            return Err(failed(format!("place {index} of a batch is unknown")));
        };
        let mut views: [View<'_>; MAX_OUTPUTS] = [first.view(); MAX_OUTPUTS];
        for (view, output) in views.iter_mut().zip(&batch.outputs) {
            *view = output.view();
        }
        let views = &views[..batch.outputs.len().min(MAX_OUTPUTS)];
        self.head.decode(views, index, &self.params, geometry, found).map_err(failed)
    }
}

/// Only counted by the stages: the first ones are told.
fn failed(e: impl std::fmt::Display) -> saltica_pipeline::Error {
    static FAILED: AtomicU64 = AtomicU64::new(0);
    match FAILED.fetch_add(1, Ordering::Relaxed) {
        n @ 0..5 => {
            log::error!("a frame or batch failed: {e}{}", if n == 4 { " (told no more)" } else { "" })
        }
        _ => log::debug!("a frame or batch failed: {e}"),
    }
    saltica_pipeline::Error::new(saltica_pipeline::ErrorKind::Image, e.to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ways(measured: &[(usize, u64)]) -> Vec<Vec<usize>> {
        let measured: Vec<_> = measured.iter().map(|(n, t)| (*n, Duration::from_millis(*t))).collect();
        Ways::new(&measured).sizes
    }

    #[test]
    fn any_number_is_run_as_what_takes_least() {
        // A CPU: almost no gain, so no place may stay empty.
        assert_eq!(ways(&[(1, 10), (2, 19), (4, 37)]), [vec![], vec![1], vec![2], vec![2, 1], vec![4]]);
        // A GPU: an empty place costs less than a second run.
        assert_eq!(ways(&[(1, 10), (2, 11), (4, 12)])[3], [4]);
        // A file that fixes its batch.
        assert_eq!(ways(&[(4, 12)])[1..], [vec![4], vec![4], vec![4], vec![4]]);
        let times = Ways::new(&[(1, Duration::from_millis(10)), (4, Duration::from_millis(30))]).times;
        assert_eq!(times.iter().map(|t| t.as_millis()).collect::<Vec<_>>(), [0, 10, 20, 30, 30]);
    }
}
