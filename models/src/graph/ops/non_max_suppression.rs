use super::from_node::{Built, case, node, t};
use super::indexing::single;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, Result};
use saltica_tensor::{DType, Shape, View, ViewMut};

/// Boxes that no better box of their class overlaps,
/// [ONNX NonMaxSuppression](https://onnx.ai/onnx/operators/onnx__NonMaxSuppression.html).
///
/// Inputs: boxes, f32 `[batch, N, 4]`; scores, f32 `[batch, classes, N]`; most boxes per class, i64 (default 0: none); IoU above
/// which a box is suppressed, f32 (default 0); score above which a box is looked at, f32 (default: every one). Result: i64
/// `[count, 3]`, each (batch, class, box), best first within a class. Its shape depends on the values of all inputs.
///
/// Equal scores go by box number; a NaN score is never taken. This op allocates a list of candidates, for `infer` and
/// `run` alike: a model that ends in it has no fixed shape anyway.
#[derive(Clone, Debug, PartialEq)]
pub struct NonMaxSuppression {
    /// Whether boxes are (centre x, centre y, width, height), else two opposite corners (y1, x1, y2, x2).
    pub center_point_box: bool,
}

/// Corners in order, and the area, of a box.
#[derive(Clone, Copy)]
struct Corners {
    low: [f32; 2],
    high: [f32; 2],
    area: f32,
}

impl Corners {
    fn overlap(&self, other: &Corners) -> f32 {
        let side = |i: usize| (self.high[i].min(other.high[i]) - self.low[i].max(other.low[i])).max(0.0);
        let inner = side(0) * side(1);
        let union = self.area + other.area - inner;
        if inner > 0.0 && union > 0.0 { inner / union } else { 0.0 }
    }
}

impl NonMaxSuppression {
    fn corners(&self, boxes: &View<'_>, batch: usize, i: usize) -> Corners {
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| boxes.get::<f32>(&[batch, i, k]));
        let (low, high) = if self.center_point_box {
            ([b - d / 2.0, a - c / 2.0], [b + d / 2.0, a + c / 2.0])
        } else {
            ([a.min(c), b.min(d)], [a.max(c), b.max(d)])
        };
        Corners { low, high, area: (high[0] - low[0]) * (high[1] - low[1]) }
    }

    /// Calls `take(batch, class, box)` for each box that stays. The views are those of the inputs.
    fn select(&self, inputs: &[Option<View<'_>>], mut take: impl FnMut([usize; 3])) -> Result<()> {
        let (boxes, scores) = (required(inputs, 0, "boxes")?, required(inputs, 1, "scores")?);
        let given = |i: usize| inputs.get(i).copied().flatten();
        let number = |i: usize, what: &str| {
            given(i)
                .map(|v| match (v.dtype(), v.shape().elements()) {
                    (DType::F32, 1) => Ok(v.at::<f32>(0)),
                    _ => {
                        Err(Error::shape(format!("{what} is {} {}, one f32 expected", v.dtype(), v.shape())))
                    }
                })
                .transpose()
        };
        let most = given(2).map(|v| single(&v, "most boxes per class")).transpose()?.unwrap_or(0);
        let iou = number(3, "the IoU threshold")?.unwrap_or(0.0);
        let least = number(4, "the score threshold")?;
        let most = usize::try_from(most).unwrap_or(0);
        let mut candidates = Vec::new();
        let mut kept = Vec::new();
        for batch in 0..scores.shape()[0] {
            for class in 0..scores.shape()[1] {
                candidates.clear();
                for i in 0..scores.shape()[2] {
                    let score = scores.get::<f32>(&[batch, class, i]);
                    if !score.is_nan() && least.is_none_or(|least| score > least) {
                        candidates.push((score, i));
                    }
                }
                candidates.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                kept.clear();
                for &(_, i) in &candidates {
                    if kept.len() >= most {
                        break;
                    }
                    let corners = self.corners(&boxes, batch, i);
                    if kept.iter().all(|k: &Corners| corners.overlap(k) <= iou) {
                        kept.push(corners);
                        take([batch, class, i]);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Operator for NonMaxSuppression {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(NonMaxSuppression { center_point_box: node.int("center_point_box")?.unwrap_or(0) != 0 })
    }

    fn name(&self) -> &str {
        "NonMaxSuppression"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let (boxes, scores) = (required(inputs, 0, "boxes")?, required(inputs, 1, "scores")?);
        let fits = match (boxes.shape.dims(), scores.shape.dims()) {
            (&[b, n, 4], &[b2, _, n2]) => b == b2 && n == n2,
            _ => false,
        };
        if !fits || boxes.dtype != DType::F32 || scores.dtype != DType::F32 {
            return Err(Error::shape(format!(
                "boxes are {} {} and scores {} {}; f32 [batch, N, 4] and f32 [batch, classes, N] expected",
                boxes.dtype, boxes.shape, scores.dtype, scores.shape
            )));
        }
        let mut views = [None; 5];
        for ((view, fact), what) in
            views.iter_mut().zip(inputs).zip(["boxes", "scores", "most boxes per class", "IoU", "score"])
        {
            *view = fact.map(|f| Ok::<_, Error>(f.known(what)?.view())).transpose()?;
        }
        let mut count = 0;
        self.select(&views, |_| count += 1)?;
        Ok(vec![OutFact { dtype: DType::I64, shape: Shape::new(&[count, 3])? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let y = &mut outputs[0];
        let mut row = 0;
        self.select(inputs, |found| {
            for (k, v) in found.into_iter().enumerate() {
                y.set(&[row, k], v as i64);
            }
            row += 1;
        })
    }

    fn cases() -> Vec<Case> {
        let nms = || node("NonMaxSuppression", 11, vec![]);
        // The boxes of ONNX's node tests: three pairs that overlap, as corners and as centres.
        let corners: Vec<f32> = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.1, 1.0, 1.1], [0.0, -0.1, 1.0, 0.9]]
            .into_iter()
            .chain([[0.0, 10.0, 1.0, 11.0], [0.0, 10.1, 1.0, 11.1], [0.0, 100.0, 1.0, 101.0]])
            .flatten()
            .collect();
        let centres: Vec<f32> =
            [0.5, 0.6, 0.4, 10.5, 10.6, 100.5].into_iter().flat_map(|x| [x, 0.5, 1.0, 1.0]).collect();
        let scores = [0.9f32, 0.75, 0.6, 0.95, 0.5, 0.3];
        let boxes = || t(&[1, 6, 4], &corners);
        let scored = || t(&[1, 1, 6], &scores);
        let (most, iou, least) = (|n: i64| t(&[1], &[n]), || t(&[1], &[0.5f32]), |s: f32| t(&[1], &[s]));
        let build = || -> Built<Vec<Case>> {
            Ok(vec![
                // Expected values of ONNX's node tests.
                case(
                    "by IoU",
                    node("NonMaxSuppression", 10, vec![]),
                    vec![boxes(), scored(), most(3), iou(), least(0.0)],
                    vec![t(&[3, 3], &[0i64, 0, 3, 0, 0, 0, 0, 0, 5])],
                )?,
                case(
                    "by IoU and score",
                    nms(),
                    vec![boxes(), scored(), most(3), iou(), least(0.4)],
                    vec![t(&[2, 3], &[0i64, 0, 3, 0, 0, 0])],
                )?,
                case(
                    "limited, no score threshold",
                    nms(),
                    vec![boxes(), scored(), most(2), iou()],
                    vec![t(&[2, 3], &[0i64, 0, 3, 0, 0, 0])],
                )?,
                case(
                    "centres",
                    node("NonMaxSuppression", 11, vec![("center_point_box", Attr::Int(1))]),
                    vec![t(&[1, 6, 4], &centres), scored(), most(3), iou(), least(0.0)],
                    vec![t(&[3, 3], &[0i64, 0, 3, 0, 0, 0, 0, 0, 5])],
                )?,
                case(
                    "two classes",
                    nms(),
                    vec![boxes(), t(&[1, 2, 6], &[scores, scores].concat()), most(2), iou(), least(0.0)],
                    vec![t(&[4, 3], &[0i64, 0, 3, 0, 0, 0, 0, 1, 3, 0, 1, 0])],
                )?,
                case("most of 0 by default", nms(), vec![boxes(), scored()], vec![t(&[0, 3], &[0i64; 0])])?,
                // By this op's description.
                case(
                    "equal scores go by number, NaN is never taken",
                    nms(),
                    vec![
                        boxes(),
                        t(&[1, 1, 6], &[0.5f32, 0.5, f32::NAN, f32::NAN, 0.5, 0.5]),
                        most(9),
                        iou(),
                    ],
                    vec![t(&[3, 3], &[0i64, 0, 0, 0, 0, 4, 0, 0, 5])],
                )?,
                case(
                    "no boxes",
                    nms(),
                    vec![t(&[1, 0, 4], &corners[..0]), t(&[1, 3, 0], &scores[..0]), most(3)],
                    vec![t(&[0, 3], &[0i64; 0])],
                )?,
            ])
        };
        super::built(build)
    }
}
