//! The three steps: each runs on a thread of its own and allocates nothing once it has seen a frame of each source.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use saltica_core::Executor;
use saltica_pipeline::frame::Frame;
use saltica_pipeline::stage;
use saltica_tensor::{Geometry, Tensor, View};
use saltica_vision::{DecodeParams, Detections, Head, Preprocessor};

use crate::Result;
use crate::detector::MAX_OUTPUTS;

/// What a batch of `n` pictures is run as.
#[derive(Debug, Default)]
pub(super) struct Ways {
    /// By number of pictures, from 0.
    pub(super) sizes: Vec<Vec<usize>>,
    pub(super) times: Vec<Duration>,
}

impl Ways {
    /// The sequences that take least, given how long each size takes. A size may have more places than pictures.
    pub(super) fn new(measured: &[(usize, Duration)]) -> Ways {
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

    pub(super) fn most(&self) -> usize {
        self.sizes.len().saturating_sub(1)
    }
}

/// Thresholds that may be changed while frames are decoded.
#[derive(Debug)]
pub(super) struct Thresholds {
    pub(super) version: AtomicU64,
    pub(super) params: Mutex<DecodeParams>,
}

/// The tensors of one batch.
#[derive(Debug)]
pub struct Tensors {
    pub(super) input: Tensor,
    pub(super) outputs: Vec<Tensor>,
    pub(super) geometries: Vec<Geometry>,
}

/// Each source has its own tables: pictures of one size follow each other there.
pub(super) struct Prepare {
    pub(super) preprocessors: Vec<Preprocessor>,
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

pub(super) struct Infer {
    pub(super) executors: Vec<(usize, Executor)>,
    pub(super) ways: Arc<Ways>,
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
pub(super) fn run_part(
    executor: &mut Executor,
    size: usize,
    batch: &mut Tensors,
    part: Range<usize>,
) -> Result<()> {
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

pub(super) struct Decode {
    pub(super) head: Arc<Head>,
    pub(super) params: DecodeParams,
    pub(super) version: u64,
    pub(super) thresholds: Arc<Thresholds>,
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

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
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
