//! Comparing outputs with golden ones, part by part, by the rules of the graphs' README.
//!
//! A check relative to the largest value would hide wrong scores behind box coordinates of 700, so boxes, scores and the
//! other parts are compared on their own, and the statistics of all elements see what the samples miss.

use crate::Result;
use crate::graphs::{self, Case, Output, Stats};
use saltica_tensor::{DType, Tensor};

/// What the numbers of a part mean; decides the tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Box coordinates in pixels.
    Boxes,
    /// Box coordinates as fractions of the image.
    Fractions,
    /// Keypoints: x and y in pixels, then a score.
    Keypoints,
    /// Scores, mask coefficients, prototypes.
    Scores,
    /// Scores of a DETR decoder.
    DetrScores,
    /// Class probabilities that sum to 1.
    Probabilities,
}

/// How an output is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Element by element, with these tolerances for pixels and scores; None takes the role's.
    Elements {
        /// Pixels.
        boxes: Option<f64>,
        /// Scores and the like.
        scores: Option<f64>,
    },
    /// Rows x1, y1, x2, y2, score, class, matched in any order.
    Rows,
    /// Another sample of the quantization noise: by correlation and means.
    Statistics {
        /// Least correlation of the scores with the golden samples.
        correlation: f64,
        /// Largest mean absolute difference of the scores.
        mean: f64,
    },
    /// Half precision: by means, against the outputs of the graph with the same weights in single precision.
    Half,
}

/// The rule for a graph of `data/graphs`.
pub fn rule(model: &str) -> Rule {
    match model {
        "yolov8n-qdq-pow2" | "yolov8n-qdq-pow2-asym" => {
            Rule::Elements { boxes: Some(1e-3), scores: Some(1e-6) }
        }
        "yolov8n-qdq-asym" => Rule::Statistics { correlation: 0.96, mean: 0.02 },
        "yolov8n-qdq-sym" | "yolov8n-qdq-convin" => Rule::Statistics { correlation: 0.93, mean: 0.025 },
        "yolov8n-fp16" => Rule::Half,
        "rtdetr-l" | "yolov8n-nms" | "yolov10n-e2e" | "yolo26n-e2e" => Rule::Rows,
        _ => Rule::Elements { boxes: None, scores: None },
    }
}

fn role(model: &str, output: &Output, part: usize) -> Role {
    match (model, part) {
        ("yolov8n-cls", _) => Role::Probabilities,
        ("rtdetr-l", 0) => Role::Fractions,
        ("rtdetr-l", _) => Role::DetrScores,
        ("yolov8n-pose", 2) => Role::Keypoints,
        // An output of one part: prototypes.
        _ if output.parts.is_empty() => Role::Scores,
        (_, 0) => Role::Boxes,
        _ => Role::Scores,
    }
}

impl Role {
    /// The tolerance for single precision.
    pub fn tolerance(self) -> f64 {
        match self {
            Role::Boxes | Role::Keypoints => 0.1,
            Role::Fractions => 1e-4,
            Role::Scores => 5e-4,
            Role::DetrScores => 2e-3,
            Role::Probabilities => 1e-6,
        }
    }
}

/// How far a part is from the golden one.
#[derive(Clone, Debug)]
pub struct PartReport {
    /// Output and part.
    pub what: String,
    /// Largest absolute difference of the samples.
    pub max: f64,
    /// Mean absolute difference of the samples.
    pub mean: f64,
    /// Correlation of the samples.
    pub correlation: f64,
    /// The tolerance that `max` was held to, where there is one.
    pub tolerance: Option<f64>,
}

impl std::fmt::Display for PartReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: max {:.3e} mean {:.3e} correlation {:.6}",
            self.what, self.max, self.mean, self.correlation
        )?;
        match self.tolerance {
            Some(t) => write!(f, " (tolerance {t:.1e})"),
            None => Ok(()),
        }
    }
}

/// Compares the outputs of case number `case` of a graph, in the graph's order, by the graph's [`rule`].
///
/// Errors list every part that is off; the reports of a success say how far it is.
pub fn check(model: &str, case: usize, got: &[Tensor]) -> Result<Vec<PartReport>> {
    let golden = graphs::golden(model)?;
    let want: &Case = golden.cases.get(case).ok_or_else(|| format!("{model} has no case {case}"))?;
    if got.len() != want.outputs.len() {
        return Err(format!("{} outputs found, {} expected", got.len(), want.outputs.len()).into());
    }
    let mut faults = Vec::new();
    let mut reports = Vec::new();
    for (got, want) in got.iter().zip(&want.outputs) {
        if got.dtype() != DType::F32 || got.shape().dims() != want.dims {
            faults.push(format!(
                "{}: {} {} found, f32 {:?} expected",
                want.name,
                got.dtype(),
                got.shape(),
                want.dims
            ));
            continue;
        }
        let got = got.as_slice::<f32>()?;
        match rule(model) {
            Rule::Rows => {
                let limits = Limits {
                    boxes: role(model, want, 0).tolerance(),
                    scores: role(model, want, 1).tolerance(),
                    lost: 0.0,
                };
                reports.extend(rows(got, want, limits, &mut faults));
            }
            Rule::Half => {
                let twin = graphs::golden("yolov8n")?;
                let twin = twin.cases.first().and_then(|c| c.outputs.first()).ok_or("yolov8n has no case")?;
                for part in parts(model, twin) {
                    let report = part.report(got, twin);
                    let (mean, max) =
                        if part.role == Role::Boxes { (0.3, f64::INFINITY) } else { (1e-3, 0.03) };
                    if !(report.mean <= mean && report.max <= max) {
                        faults.push(format!("{report}: mean at most {mean}, max at most {max} expected"));
                    }
                    reports.push(report);
                }
            }
            Rule::Statistics { correlation, mean } => {
                for part in parts(model, want) {
                    let report = part.report(got, want);
                    if part.role == Role::Scores
                        && !(report.mean <= mean && report.correlation >= correlation)
                    {
                        faults.push(format!(
                            "{report}: mean at most {mean}, correlation at least {correlation} expected"
                        ));
                    }
                    part.similar_statistics(got, want, &mut faults);
                    reports.push(report);
                }
            }
            Rule::Elements { boxes, scores } => {
                let mut widest: f64 = 0.0;
                for part in parts(model, want) {
                    let own = if matches!(part.role, Role::Boxes | Role::Keypoints) { boxes } else { scores };
                    let tolerance = own.unwrap_or(part.role.tolerance());
                    widest = widest.max(tolerance);
                    let report = PartReport { tolerance: Some(tolerance), ..part.report(got, want) };
                    part.elements(got, want, tolerance, &mut faults);
                    part.equal_statistics(got, want, tolerance, &mut faults);
                    reports.push(report);
                }
                let all = Stats::of(got.iter().map(|v| f64::from(*v)));
                statistics(&want.name, &all, &want.stats, widest, &mut faults);
            }
        }
    }
    if faults.is_empty() {
        Ok(reports)
    } else {
        Err(format!("{model} case {case}:\n{}", faults.join("\n")).into())
    }
}

/// As [`check`], for a run in half precision of a graph whose golden outputs are of single precision.
///
/// yolov8n by the limits of half precision: boxes by 0.3 pixels in the mean, scores by 1e-3 in the mean and 0.03 at most. The
/// weights of the other graphs, too, are drawn so that small errors grow by a factor of 1 to 20 (the graphs' README), which
/// differs from graph to graph: there each part must correlate by 0.9995, and boxes be off by 1 pixel at most in the mean.
/// Rows that are sorted out of thousands near each other may trade places: nine in ten must be found again. Where quantization
/// noise decides, the graph's own rule holds.
pub fn check_half(model: &str, case: usize, got: &[Tensor]) -> Result<Vec<PartReport>> {
    let sorted = match rule(model) {
        Rule::Elements { boxes: None, scores: None } => false,
        Rule::Rows => true,
        _ => return check(model, case, got),
    };
    let golden = graphs::golden(model)?;
    let want: &Case = golden.cases.get(case).ok_or_else(|| format!("{model} has no case {case}"))?;
    if got.len() != want.outputs.len() {
        return Err(format!("{} outputs found, {} expected", got.len(), want.outputs.len()).into());
    }
    let (mut faults, mut reports) = (Vec::new(), Vec::new());
    for (got, want) in got.iter().zip(&want.outputs) {
        let got = got.as_slice::<f32>()?;
        if sorted {
            let boxes = if role(model, want, 0) == Role::Fractions { 0.02 } else { 5.0 };
            reports.extend(rows(got, want, Limits { boxes, scores: 0.03, lost: 0.1 }, &mut faults));
            continue;
        }
        for part in parts(model, want) {
            let report = part.report(got, want);
            let pixels = matches!(part.role, Role::Boxes | Role::Keypoints);
            let (mean, max, correlation) = match (model, pixels) {
                ("yolov8n" | "yolov8n-dyn", true) => (0.3, f64::INFINITY, 0.9999),
                ("yolov8n" | "yolov8n-dyn", false) => (1e-3, 0.03, 0.9999),
                (_, true) => (1.0, f64::INFINITY, 0.9995),
                (_, false) => (f64::INFINITY, f64::INFINITY, 0.9995),
            };
            if !(report.mean <= mean && report.max <= max && report.correlation >= correlation) {
                faults.push(format!(
                    "{report}: mean at most {mean}, max at most {max}, correlation at least {correlation} expected"
                ));
            }
            reports.push(report);
        }
    }
    if faults.is_empty() {
        Ok(reports)
    } else {
        Err(format!("{model} case {case}:\n{}", faults.join("\n")).into())
    }
}

/// A slice of an output.
struct Slice {
    what: String,
    role: Role,
    /// axis, lo, hi; None for all.
    range: Option<(usize, usize, usize)>,
    stats: Stats,
}

fn parts(model: &str, output: &Output) -> Vec<Slice> {
    if output.parts.is_empty() {
        let role = role(model, output, 0);
        return vec![Slice { what: output.name.clone(), role, range: None, stats: output.stats }];
    }
    let slice = |(i, p): (usize, &graphs::Part)| Slice {
        what: format!("{}[{}..{} of axis {}]", output.name, p.lo, p.hi, p.axis),
        role: role(model, output, i),
        range: Some((p.axis, p.lo, p.hi)),
        stats: p.stats,
    };
    output.parts.iter().enumerate().map(slice).collect()
}

impl Slice {
    fn contains(&self, output: &Output, flat: usize) -> bool {
        self.range.is_none_or(|(axis, lo, hi)| (lo..hi).contains(&output.coordinate(flat, axis)))
    }

    /// (flat index, found, expected) of the golden samples in this slice.
    fn pairs<'a>(
        &'a self,
        got: &'a [f32],
        want: &'a Output,
    ) -> impl Iterator<Item = (usize, f64, f64)> + Clone + 'a {
        want.samples()
            .filter(|(i, _)| self.contains(want, *i))
            .map(|(i, w)| (i, f64::from(got[i]), f64::from(w)))
    }

    fn report(&self, got: &[f32], want: &Output) -> PartReport {
        let differences = self.pairs(got, want).map(|(_, g, w)| difference(g, w));
        let stats = Stats::of(differences);
        PartReport {
            what: self.what.clone(),
            max: stats.max,
            mean: stats.mean,
            correlation: correlation(self.pairs(got, want).map(|(_, g, w)| (g, w))),
            tolerance: None,
        }
    }

    fn elements(&self, got: &[f32], want: &Output, tolerance: f64, faults: &mut Vec<String>) {
        let limit = |flat: usize| match (self.role, self.range) {
            // x, y, score, x, y, score ...
            (Role::Keypoints, Some((axis, lo, _))) if (want.coordinate(flat, axis) - lo) % 3 == 2 => {
                Role::Scores.tolerance()
            }
            _ => tolerance,
        };
        let off = |(i, g, w): &(usize, f64, f64)| difference(*g, *w) > limit(*i);
        let count = self.pairs(got, want).filter(off).count();
        if let Some((i, g, w)) = self.pairs(got, want).find(off) {
            faults.push(format!(
                "{}: {count} samples of {} off by more than {tolerance:.1e}, the first at flat index {i}: {g} found, \
                 {w} expected",
                self.what,
                self.pairs(got, want).count()
            ));
        }
    }

    fn all(&self, got: &[f32], want: &Output) -> Stats {
        Stats::of(got.iter().enumerate().filter(|(i, _)| self.contains(want, *i)).map(|(_, v)| f64::from(*v)))
    }

    fn equal_statistics(&self, got: &[f32], want: &Output, tolerance: f64, faults: &mut Vec<String>) {
        statistics(&self.what, &self.all(got, want), &self.stats, tolerance, faults);
    }

    /// Within some percent: mean and deviation 3 % of the deviation, extremes 10 % of the range.
    ///
    /// Onnxruntime 1.32 with gaussian noise of 1e-4 on the input, another sample of the quantization noise, stays below a
    /// third of that.
    fn similar_statistics(&self, got: &[f32], want: &Output, faults: &mut Vec<String>) {
        let (found, expected) = (self.all(got, want), self.stats);
        let range = expected.max - expected.min;
        let near = |g: f64, w: f64, tolerance: f64| (g - w).abs() <= tolerance;
        let ok = near(found.mean, expected.mean, 0.03 * expected.std)
            && near(found.std, expected.std, 0.03 * expected.std)
            && near(found.min, expected.min, 0.1 * range)
            && near(found.max, expected.max, 0.1 * range);
        if !ok {
            faults.push(format!("{}: {found:?} found, about {expected:?} expected", self.what));
        }
    }
}

/// NaN where it is not expected is infinitely far away.
fn difference(got: f64, want: f64) -> f64 {
    if got == want || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    let d = (got - want).abs();
    if d.is_nan() { f64::INFINITY } else { d }
}

fn correlation(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let n = pairs.clone().count() as f64;
    let (sg, sw) = pairs.clone().fold((0.0, 0.0), |(a, b), (g, w)| (a + g, b + w));
    let (mg, mw) = (sg / n, sw / n);
    let (mut gw, mut gg, mut ww) = (0.0, 0.0, 0.0);
    for (g, w) in pairs {
        gw += (g - mg) * (w - mw);
        gg += (g - mg) * (g - mg);
        ww += (w - mw) * (w - mw);
    }
    gw / (gg * ww).sqrt()
}

/// Golden statistics are printed with nine digits; no element is off by more than the tolerance, so neither are they.
fn statistics(what: &str, found: &Stats, want: &Stats, tolerance: f64, faults: &mut Vec<String>) {
    let scale = want.min.abs().max(want.max.abs());
    let limit = tolerance + 1e-8 * scale;
    let pairs = [
        ("min", found.min, want.min),
        ("max", found.max, want.max),
        ("mean", found.mean, want.mean),
        ("std", found.std, want.std),
    ];
    for (name, got, want) in pairs {
        if difference(got, want) > limit {
            faults.push(format!("{what}: {name} {got} found, {want} expected (tolerance {limit:.1e})"));
        }
    }
}

/// How near rows must be to match, and what share of them may have no match.
#[derive(Clone, Copy)]
struct Limits {
    boxes: f64,
    scores: f64,
    lost: f64,
}

/// Matches rows: for each golden one a row of the same class with score and box within tolerance. The last few may be
/// others, because the list ends where neighbouring scores are close.
fn rows(got: &[f32], want: &Output, limits: Limits, faults: &mut Vec<String>) -> [PartReport; 2] {
    let unmatched = 3.max((limits.lost * want.dims.iter().product::<usize>() as f64 / 6.0) as usize);
    let golden: Vec<f32> = want.samples().map(|(_, v)| v).collect();
    let (golden, got) = (golden.as_chunks::<6>().0, got.as_chunks::<6>().0);
    let Limits { boxes, scores, lost } = limits;
    let mut used = vec![false; got.len()];
    let (mut pairs, mut missing) = (Vec::new(), Vec::new());
    for (r, row) in golden.iter().enumerate() {
        let far = |other: &[f32; 6]| {
            let d = |i: usize| difference(f64::from(other[i]), f64::from(row[i]));
            let farthest = (0..4).map(d).fold(0.0, f64::max);
            (other[5] == row[5] && farthest <= boxes && d(4) <= scores).then_some((farthest, d(4)))
        };
        let best = (0..got.len())
            .filter(|i| !used[*i])
            .filter_map(|i| far(&got[i]).map(|(b, s)| (b / boxes + s / scores, i, b, s)))
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.abs_diff(r).cmp(&b.1.abs_diff(r))));
        match best {
            Some((_, i, b, s)) => {
                used[i] = true;
                pairs.push((b, s));
            }
            None => missing.push(r),
        }
    }
    // Rows behind the last detection are zeros.
    let detections = golden.iter().filter(|r| r[4] > 0.0).count();
    let at_end = lost > 0.0 || missing.iter().all(|r| *r + 10 >= detections && *r < detections);
    if missing.len() > unmatched || !at_end {
        faults.push(format!(
            "{}: rows {missing:?} of {detections} have no match (same class, boxes within {boxes:.0e}, score within \
             {scores:.0e}); the first is {:?}",
            want.name,
            missing.first().map(|r| golden[*r])
        ));
    }
    let in_order = got.windows(2).all(|w| w[0][4] >= w[1][4]);
    if !in_order {
        faults.push(format!("{}: rows are not sorted by score", want.name));
    }
    let report = |what: &str, differences: Vec<f64>, tolerance: f64| {
        let stats = Stats::of(differences.iter().copied());
        PartReport {
            what: format!("{} {what} ({} of {} rows matched)", want.name, differences.len(), golden.len()),
            max: stats.max,
            mean: stats.mean,
            correlation: f64::NAN,
            tolerance: Some(tolerance),
        }
    };
    [
        report("boxes", pairs.iter().map(|p| p.0).collect(), boxes),
        report("scores", pairs.iter().map(|p| p.1).collect(), scores),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared;

    fn skip() -> bool {
        let missing = shared().is_none();
        if missing {
            assert!(!crate::is_ci(), "no shared test data");
            eprintln!("ignored: no shared data");
        }
        missing
    }

    /// The golden output of a graph of which all values are stored.
    fn whole(model: &str) -> (Vec<f32>, Vec<usize>) {
        let golden = graphs::golden(model).unwrap();
        let output = &golden.cases[0].outputs[0];
        assert!(output.is_whole());
        (output.samples().map(|(_, v)| v).collect(), output.dims.clone())
    }

    fn fault(model: &str, change: impl Fn(&mut Vec<f32>)) -> Option<String> {
        let (mut values, dims) = whole(model);
        change(&mut values);
        check(model, 0, &[Tensor::from_slice(&dims, &values).unwrap()]).err().map(|e| e.to_string())
    }

    #[test]
    fn rows_match_in_any_order_of_equal_scores_and_nothing_else_passes() {
        if skip() {
            return;
        }
        let model = "yolo26n-e2e";
        assert_eq!(fault(model, |_| ()), None);
        // Rows of the same score may stand either way round; the two closest are made equal.
        let swapped = |v: &mut Vec<f32>| {
            let gap = |i: &usize| v[i * 6 + 4] - v[(i + 1) * 6 + 4];
            let i = (0..290).min_by(|a, b| gap(a).total_cmp(&gap(b))).unwrap() * 6;
            v[i + 4] = v[i + 10];
            let (a, b) = v.split_at_mut(i + 6);
            a[i..].swap_with_slice(&mut b[..6]);
        };
        assert_eq!(fault(model, swapped), None);
        for (what, at, by) in
            [("box", 60, 0.2), ("score", 64, 1e-3), ("class", 65, 1.0), ("NaN", 61, f32::NAN)]
        {
            let message = fault(model, |v| v[at] += by).unwrap_or_else(|| panic!("a wrong {what} passes"));
            assert!(message.contains("rows [10]"), "{what}: {message}");
        }
        assert!(fault(model, |v| v[299 * 6] += 5.0).is_none(), "the last row may be another");
        assert!(fault("rtdetr-l", |v| v[0] += 2e-4).is_some(), "boxes are fractions there");
    }

    #[test]
    fn elements_are_held_to_the_tolerance_of_their_part() {
        if skip() {
            return;
        }
        assert_eq!(fault("yolov8n-cls", |_| ()), None);
        assert_eq!(fault("yolov8n-cls", |v| v[7] += 5e-7), None);
        assert!(fault("yolov8n-cls", |v| v[7] += 2e-6).is_some());
        assert!(fault("yolov8n-cls", |v| v[7] = f32::NAN).is_some());
    }

    #[test]
    fn statistics_see_what_samples_miss() {
        let stats = Stats::of([1.0, 2.0, 3.0, 6.0].into_iter());
        assert_eq!(stats, Stats { min: 1.0, max: 6.0, mean: 3.0, std: 3.5f64.sqrt() });
        let mut faults = Vec::new();
        statistics("x", &stats, &Stats { max: 6.5, ..stats }, 0.1, &mut faults);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].contains("max 6 found, 6.5 expected"), "{}", faults[0]);
    }

    /// numpy.corrcoef([1, 2, 3, 4], [1, 3, 2, 5])[0, 1]
    #[test]
    fn correlation_is_pearsons() {
        let pairs = [(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (4.0, 5.0)];
        assert!((correlation(pairs.into_iter()) - 0.8315218406202999).abs() < 1e-12);
    }
}
