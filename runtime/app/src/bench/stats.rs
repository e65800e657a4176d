use super::milliseconds;
use serde::Serialize;
use std::time::{Duration, Instant};

/// What many samples of one quantity look like.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Number of samples.
    pub count: usize,
    /// The smallest: the least disturbed run, the one to compare on a busy machine.
    pub min: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation (of the samples, not of the mean).
    pub std: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// The `q`-th quantile (0 to 1) of ascending samples, linear between the two nearest (numpy's default, type 7 of Hyndman
/// and Fan 1996). None without samples.
pub fn percentile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(low + (high - low) * at.fract())
}

/// Summarises samples in any order; None without samples.
pub fn summarize(samples: &[f64]) -> Option<Summary> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (&min, &max) = (sorted.first()?, sorted.last()?);
    let n = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / n;
    let variance = sorted.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    Some(Summary {
        count: sorted.len(),
        min,
        mean,
        std: variance.sqrt(),
        p50: percentile(&sorted, 0.50)?,
        p90: percentile(&sorted, 0.90)?,
        p95: percentile(&sorted, 0.95)?,
        p99: percentile(&sorted, 0.99)?,
        max,
    })
}

/// Where one frame's time went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FrameTime {
    /// From decoded pixels to the model's input.
    pub preprocess: Duration,
    /// The model.
    pub infer: Duration,
    /// From the model's output to boxes in the picture.
    pub postprocess: Duration,
}

impl FrameTime {
    /// All three.
    pub fn total(&self) -> Duration {
        self.preprocess + self.infer + self.postprocess
    }
}

/// Summaries of the stages of many frames, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stages {
    /// From decoded pixels to the model's input.
    pub preprocess: Summary,
    /// The model.
    pub infer: Summary,
    /// From the model's output to boxes in the picture.
    pub postprocess: Summary,
    /// The sum, frame by frame.
    pub total: Summary,
}

/// Summarises frames stage by stage; None without frames.
pub fn stages(frames: &[FrameTime]) -> Option<Stages> {
    let of = |stage: fn(&FrameTime) -> Duration| {
        summarize(&frames.iter().map(|f| milliseconds(stage(f))).collect::<Vec<_>>())
    };
    Some(Stages {
        preprocess: of(|f| f.preprocess)?,
        infer: of(|f| f.infer)?,
        postprocess: of(|f| f.postprocess)?,
        total: of(FrameTime::total)?,
    })
}

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Runs before the first sample.
    pub warmup: usize,
    /// Time to sample for. At least one sample is taken.
    pub duration: Duration,
}

/// Runs `run` as `plan` says and returns the samples; `progress` gets the share done (0 to 1) after each run. The first
/// error ends it.
pub fn measure<T, E>(
    plan: &Plan,
    mut run: impl FnMut() -> Result<T, E>,
    mut progress: impl FnMut(f64),
) -> Result<Vec<T>, E> {
    for _ in 0..plan.warmup {
        run()?;
        progress(0.0);
    }
    let mut samples = Vec::new();
    let start = Instant::now();
    loop {
        samples.push(run()?);
        let spent = start.elapsed();
        if spent >= plan.duration {
            return Ok(samples);
        }
        progress(spent.as_secs_f64() / plan.duration.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_numpys() {
        // numpy 2.4: x = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]; numpy.percentile(x, [50, 90, 95, 99]), x.mean(), x.std().
        let s = summarize(&[3., 1., 4., 1., 5., 9., 2., 6., 5., 3.]).unwrap();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(s.p50, 3.5);
        close(s.p90, 6.3);
        close(s.p95, 7.65);
        close(s.p99, 8.73);
        close(s.mean, 3.9);
        close(s.std, 2.343_074_902_771_996_2);
        assert_eq!((s.count, s.min, s.max), (10, 1.0, 9.0));
    }

    #[test]
    fn no_samples_no_summary() {
        assert_eq!(summarize(&[]), None);
        assert_eq!(stages(&[]), None);
        let one = summarize(&[2.0]).unwrap();
        assert_eq!((one.p99, one.std), (2.0, 0.0));
    }

    #[test]
    fn stages_add_up_frame_by_frame() {
        let ms = Duration::from_millis;
        let frames = [
            FrameTime { preprocess: ms(1), infer: ms(10), postprocess: ms(2) },
            FrameTime { preprocess: ms(3), infer: ms(8), postprocess: ms(1) },
        ];
        let s = stages(&frames).unwrap();
        assert_eq!((s.total.min, s.total.max), (12.0, 13.0));
        assert_eq!((s.infer.min, s.infer.max, s.infer.mean), (8.0, 10.0, 9.0));
    }

    #[test]
    fn warmup_runs_are_not_samples_and_one_sample_is_always_taken() {
        let mut runs = 0;
        let plan = Plan { warmup: 3, duration: Duration::ZERO };
        let samples = measure(
            &plan,
            || {
                runs += 1;
                Ok::<_, ()>(runs)
            },
            |_| {},
        );
        assert_eq!(samples, Ok(vec![4]));
        assert_eq!(measure(&plan, || Err::<(), _>("no"), |_| {}), Err("no"));
    }

    proptest! {
        #[test]
        fn percentiles_are_ordered_and_inside(samples in prop::collection::vec(0.0f64..1e6, 1..50)) {
            let s = summarize(&samples).unwrap();
            let all = [s.min, s.p50, s.p90, s.p95, s.p99, s.max];
            prop_assert!(all.is_sorted(), "{all:?}");
            prop_assert!(s.min <= s.mean + 1e-9 && s.mean <= s.max + 1e-9);
        }
    }
}
