//! A detector as the pipeline's three steps: pixels into tensors, the network, tensors into boxes.
//!
//! A batch's tensors ([`Tensors`]) hold the pictures and what the network said of them; they are made once and go round, so
//! that one batch is prepared while another runs. The network itself is planned for a few batch sizes, each with an arena
//! of its own; any number of pictures is run as the sequence of these sizes that takes least, by the times measured when it
//! was loaded. (A file exported for one picture has its batch opened where that can be proven to change nothing.)

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use saltica_core::{Executor, Plan, PlanReport, Port};
use saltica_pipeline::stage;
use saltica_tensor::{DType, Geometry, Shape, Tensor};
use saltica_vision::{DecodeParams, Head, Preprocessor};

use super::Settings;
pub use super::steps::Tensors;
use super::steps::{Decode, Infer, Prepare, Thresholds, Ways, lock, run_part};
use crate::detector::Parts;
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

impl Engine {
    /// Loads a model, plans it for growing batches as long as they pay, and measures each.
    ///
    /// # Errors
    /// A model that cannot be loaded or is no detector; one of which not even a batch of one fits into memory.
    pub fn load(model: &Model, settings: &Settings) -> Result<Engine> {
        Self::load_with(model, settings, false)
    }

    /// As [`Engine::load`], but every batch size is used that fits into memory, as if larger ones always paid: what it does is then
    /// the same on every machine.
    ///
    /// # Errors
    /// As [`Engine::load`].
    pub fn load_all_sizes(model: &Model, settings: &Settings) -> Result<Engine> {
        Self::load_with(model, settings, true)
    }

    fn load_with(model: &Model, settings: &Settings, all: bool) -> Result<Engine> {
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
        engine.measure(fixed, settings.batch, engine.budget, all)?;
        engine.set_thresholds(settings)?;
        Ok(engine)
    }

    fn measure(&mut self, fixed: Option<usize>, most: usize, limit: u64, all: bool) -> Result<()> {
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
            let executor = match plan.load() {
                // A device may have less to give than it is told to.
                Err(e) if !measured.is_empty() => {
                    log::info!("batches of {size} cannot be had: {e}");
                    break;
                }
                executor => executor?,
            };
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
            let took = match self.time(size) {
                Err(e) if !measured.is_empty() => {
                    log::info!("batches of {size} cannot be run: {e}");
                    self.ready.pop();
                    break;
                }
                took => took?,
            };
            let each = |(n, t): &(usize, Duration)| t.as_secs_f64() / *n as f64;
            let best = measured.iter().map(each).fold(f64::INFINITY, f64::min);
            // Each picture a hundredth sooner than in a smaller batch, or what was measured.
            let took = match measured.first() {
                Some((_, one)) if all => one.mul_f64(size as f64 * 0.99f64.powi(size as i32)),
                _ => took,
            };
            let pays = each(&(size, took)) <= best * (1.0 - PAYS) && (measured.is_empty() || took <= LONGEST);
            if !pays && !all {
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
