//! Heads: what a model's output tensors mean.
//!
//! A head is chosen once, when the model is loaded, from its metadata, its output names and shapes and what the user
//! said ([`Head::recognise`]); it prints itself. Where more than one head fits, or the class list disagrees with the
//! tensor, that is an error which names the flag to give: a guess would give wrong boxes in silence.
//!
//! To add a head: one file here that claims a layout and decodes it, and one line in `TABLE`.

mod classify;
mod end_to_end;
mod fastestdet;
mod objectness;
mod oriented;
mod pose;
mod read;
mod rtdetr;
mod segment;
mod yolov8;
mod yunet;

use crate::detection::{Detection, Detections};
use crate::nms::{self, Candidate, Overlap};
use crate::spec::{Labels, ModelSpec, Task, quoted, suggestion};
use crate::{ColorOrder, Error, ErrorKind, Result};
use read::Grid;
use saltica_tensor::{DType, Geometry, ResizeMode, View};
use std::fmt;

/// One output of a model: its name, dtype and dims (batch first).
#[derive(Clone, Copy, Debug)]
pub struct OutputInfo<'a> {
    /// The name in the graph.
    pub name: &'a str,
    /// Element type.
    pub dtype: DType,
    /// Dims, all known.
    pub dims: &'a [usize],
}

/// What a head may look at to claim a model.
pub(crate) struct Facts<'a> {
    input: (usize, usize),
    outputs: &'a [OutputInfo<'a>],
    spec: &'a ModelSpec,
    /// The user (or the metadata) named this head, so shapes need only be possible, not telling.
    named: bool,
}

impl Facts<'_> {
    /// The only output of rank 3: its position and its last two dims.
    fn rank3(&self) -> std::result::Result<(usize, usize, usize), String> {
        let mut found = self.outputs.iter().enumerate().filter_map(|(i, o)| match *o.dims {
            [_, a, b] => Some((i, a, b)),
            _ => None,
        });
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (None, _) => Err("it reads one output of rank 3".into()),
            (Some(_), Some(_)) => Err("it reads one output of rank 3, there are several".into()),
        }
    }

    /// Cells of grids of these strides over the input.
    fn cells(&self, strides: &[usize]) -> usize {
        strides.iter().map(|s| self.input.0.div_ceil(*s) * self.input.1.div_ceil(*s)).sum()
    }

    /// The strides whose grids have `cells` cells altogether: the ones said, else the usual ones.
    fn strides_for(&self, cells: usize) -> Option<Vec<usize>> {
        const USUAL: [&[usize]; 6] =
            [&[8, 16, 32], &[8, 16, 32, 64], &[4, 8, 16, 32], &[16, 32], &[8, 16], &[4, 8, 16]];
        match &self.spec.strides {
            Some(s) => (self.cells(s) == cells).then(|| s.clone()),
            None => USUAL.into_iter().find(|s| self.cells(s) == cells).map(<[usize]>::to_vec),
        }
    }
}

/// A head that fits a model, or why it does not.
type Claim = std::result::Result<Box<dyn Decode>, String>;

/// How one head reads its outputs.
pub(crate) trait Decode: fmt::Debug + Send + Sync {
    /// What it is, its layout and its classes, for people.
    fn describe(&self) -> String;

    /// Number of classes, if the layout shows it.
    fn classes(&self) -> Option<usize>;

    /// Whether, and on which boxes, overlap is suppressed.
    fn overlap(&self) -> Overlap {
        Overlap::Upright
    }

    /// Gives every box above the threshold to the sink, in model pixels.
    fn scan(&self, outputs: &Outputs<'_>, sink: &mut Sink<'_>);

    /// Adds what a kept box has beside its corners.
    fn finish(
        &self,
        _outputs: &Outputs<'_>,
        _from: &Candidate,
        _geometry: &Geometry,
        _to: &mut Detection,
        _out: &mut Detections,
    ) {
    }
}

/// A model's outputs for one picture of a batch.
pub(crate) struct Outputs<'a> {
    views: &'a [View<'a>],
    batch: usize,
}

impl<'a> Outputs<'a> {
    fn channels_by_cells(&self, output: usize) -> Grid<'a> {
        Grid::new(self.views[output], self.batch, read::Order::ChannelsCells)
    }

    fn cells_by_channels(&self, output: usize) -> Grid<'a> {
        Grid::new(self.views[output], self.batch, read::Order::CellsChannels)
    }

    fn maps(&self, output: usize) -> Grid<'a> {
        Grid::new(self.views[output], self.batch, read::Order::Maps)
    }
}

/// Thresholds and limits of a decode.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodeParams {
    /// Boxes with a score above this count.
    pub conf: f32,
    /// Of two boxes of a class that overlap by more than this (intersection over union) the weaker goes.
    pub iou: f32,
    /// Only these classes; all if empty.
    pub classes: Vec<u32>,
    /// The most objects a picture.
    pub max_det: usize,
    /// Suppress across classes.
    pub agnostic: bool,
    /// Every class above the threshold of a box counts, not its best one alone (COCO evaluation of some models).
    pub multi_label: bool,
    /// The most boxes that enter the suppression; the best are taken.
    pub max_candidates: usize,
    /// Clip upright boxes to the picture. Off only to compare with code that leaves them sticking out.
    pub clip: bool,
}

impl Default for DecodeParams {
    fn default() -> Self {
        DecodeParams {
            conf: 0.25,
            iou: 0.7,
            classes: Vec::new(),
            max_det: 300,
            agnostic: false,
            multi_label: false,
            max_candidates: 30_000,
            clip: true,
        }
    }
}

/// Collects candidates.
pub(crate) struct Sink<'a> {
    params: &'a DecodeParams,
    candidates: &'a mut Vec<Candidate>,
    dropped: &'a mut usize,
    capped: &'a mut usize,
    /// Scratch for values that do not lie in a row.
    values: &'a mut Vec<f32>,
}

impl Sink<'_> {
    fn conf(&self) -> f32 {
        self.params.conf
    }

    fn multi_label(&self) -> bool {
        self.params.multi_label
    }

    /// Counts values that were not numbers.
    fn drop_values(&mut self, n: usize) {
        *self.dropped += n;
    }

    fn push(&mut self, index: usize, class: usize, score: f32, bbox: [f32; 4]) {
        self.push_turned(index, class, score, bbox, 0.0);
    }

    /// A row that holds its class as a number. One that is no class number means nothing.
    fn push_row(&mut self, index: usize, class: f32, score: f32, bbox: [f32; 4], angle: f32) {
        if (0.0..1e6).contains(&class) {
            self.push_turned(index, class.round() as usize, score, bbox, angle);
        } else if score.is_nan() || score > self.params.conf {
            *self.dropped += 1;
        }
    }

    fn push_turned(&mut self, index: usize, class: usize, score: f32, bbox: [f32; 4], angle: f32) {
        if score.is_nan() {
            *self.dropped += 1;
            return;
        }
        if score <= self.params.conf {
            return;
        }
        if !score.is_finite() || !angle.is_finite() || bbox.iter().any(|v| !v.is_finite()) {
            *self.dropped += 1;
            return;
        }
        let class = class as u32;
        if !self.params.classes.is_empty() && !self.params.classes.contains(&class) {
            return;
        }
        self.candidates.push(Candidate { score, class, index: index as u32, bbox, angle });
        // Keeps memory bounded when far too many pass the threshold; which ones stay does not depend on when.
        if self.candidates.len() >= self.params.max_candidates.saturating_mul(4).max(4096) {
            *self.capped += nms::cap(self.candidates, self.params.max_candidates);
        }
    }
}

/// Centre and size to corners.
fn corners(cx: f32, cy: f32, w: f32, h: f32) -> [f32; 4] {
    [cx - w / 2.0, cy - h / 2.0, cx + w / 2.0, cy + h / 2.0]
}

type ClaimFn = fn(&Facts<'_>) -> Claim;
type DefaultsFn = fn() -> ModelSpec;

/// Every head: its name, how it claims a model, what such models want and which thresholds suit them.
const TABLE: &[(&str, ClaimFn, DefaultsFn)] = &[
    ("yolov8", yolov8::claim, ultralytics),
    ("yolov8-segment", segment::claim, ultralytics),
    ("yolov8-pose", pose::claim, ultralytics),
    ("yolov8-obb", oriented::claim, ultralytics),
    ("yolov5", objectness::claim_yolov5, yolov5),
    ("yolox", objectness::claim_yolox, yolox),
    ("yolox-decoded", objectness::claim_yolox_decoded, yolox),
    ("end2end", end_to_end::claim_boxes, ultralytics),
    ("end2end-segment", end_to_end::claim_segment, ultralytics),
    ("end2end-pose", end_to_end::claim_pose, ultralytics),
    ("end2end-obb", end_to_end::claim_oriented, ultralytics),
    ("rtdetr", rtdetr::claim, rtdetr),
    ("fastestdet", fastestdet::claim, fastestdet),
    ("yunet", yunet::claim, yunet),
    ("classify", classify::claim, classify),
    ("classify-logits", classify::claim_logits, classify),
];

/// The names of all heads, as `--head` and descriptions take them.
pub const NAMES: [&str; 16] = {
    let mut names = [""; 16];
    let mut i = 0;
    while i < TABLE.len() {
        names[i] = TABLE[i].0;
        i += 1;
    }
    names
};

/// What models with this head want in, and the thresholds that suit them, where nothing else is said.
pub fn defaults(head: &str) -> Option<ModelSpec> {
    TABLE.iter().find(|(n, _, _)| *n == head).map(|(_, _, d)| d())
}

fn preprocessing(color: ColorOrder, scale: f64, resize: ResizeMode, pad: u8) -> ModelSpec {
    ModelSpec {
        color: Some(color),
        scale: Some(scale),
        mean: Some([0.0; 3]),
        std: Some([1.0; 3]),
        resize: Some(resize),
        pad: Some(pad),
        ..ModelSpec::default()
    }
}

fn thresholds(conf: f32, iou: f32, max_det: usize, spec: ModelSpec) -> ModelSpec {
    ModelSpec { conf: Some(conf), iou: Some(iou), max_det: Some(max_det), ..spec }
}

fn ultralytics() -> ModelSpec {
    thresholds(0.25, 0.7, 300, preprocessing(ColorOrder::Rgb, 1.0 / 255.0, ResizeMode::Letterbox, 114))
}

fn yolov5() -> ModelSpec {
    thresholds(0.25, 0.45, 300, preprocessing(ColorOrder::Rgb, 1.0 / 255.0, ResizeMode::Letterbox, 114))
}

fn yolox() -> ModelSpec {
    thresholds(0.25, 0.45, 300, preprocessing(ColorOrder::Bgr, 1.0, ResizeMode::LetterboxTopLeft, 114))
}

fn fastestdet() -> ModelSpec {
    thresholds(0.35, 0.45, 300, preprocessing(ColorOrder::Bgr, 1.0 / 255.0, ResizeMode::Stretch, 114))
}

fn yunet() -> ModelSpec {
    thresholds(0.6, 0.3, 300, preprocessing(ColorOrder::Bgr, 1.0, ResizeMode::LetterboxTopLeft, 0))
}

fn rtdetr() -> ModelSpec {
    thresholds(0.25, 1.0, 300, preprocessing(ColorOrder::Rgb, 1.0 / 255.0, ResizeMode::Stretch, 114))
}

fn classify() -> ModelSpec {
    thresholds(0.0, 1.0, 5, preprocessing(ColorOrder::Rgb, 1.0 / 255.0, ResizeMode::Crop, 114))
}

/// The head of a loaded model.
#[derive(Debug)]
pub struct Head {
    name: &'static str,
    decoder: Box<dyn Decode>,
    input: (usize, usize),
    /// Dims behind the batch, per output.
    expected: Vec<Vec<usize>>,
    spec: ModelSpec,
}

impl Head {
    /// The head of a model with an input of `input` (width, height) and these outputs, given what is known about it
    /// (see [`ModelSpec::gather`]). Errors, naming the flag to give, when no head or more than one fits and when the
    /// class names disagree with the tensor.
    pub fn recognise(spec: ModelSpec, input: (usize, usize), outputs: &[OutputInfo<'_>]) -> Result<Head> {
        Geometry::new((1, 1), input, ResizeMode::Stretch)?;
        for o in outputs {
            if o.dims.first().is_none_or(|&n| n == 0) || o.dims.contains(&0) {
                return Err(bad(format!(
                    "output {} has the shape {:?}, a batch of non-empty tensors expected",
                    o.name, o.dims
                )));
            }
        }
        let (name, decoder) = match spec.head.clone() {
            Some(name) => named(&name, &spec, input, outputs)?,
            None => by_shape(&spec, input, outputs)?,
        };
        if let (Some(labels), Some(classes)) = (&spec.labels, decoder.classes())
            && labels.len() != classes
        {
            return Err(bad(format!(
                "{} class names given, but the model has {classes} classes ({}): give the right list with --labels, or \
                 the right head with --head",
                labels.len(),
                decoder.describe()
            )));
        }
        let defaults = defaults(name).unwrap_or_default();
        Ok(Head {
            name,
            decoder,
            input,
            expected: outputs.iter().map(|o| o.dims[1..].to_vec()).collect(),
            spec: spec.or(defaults),
        })
    }

    /// Its name, one of [`NAMES`].
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Number of classes, if the tensors or the labels say.
    pub fn classes(&self) -> Option<usize> {
        self.decoder.classes().or(self.labels().map(Labels::len))
    }

    /// The class names, if known.
    pub fn labels(&self) -> Option<&Labels> {
        self.spec.labels.as_ref()
    }

    /// The name of a class, or `class N`.
    pub fn label(&self, class: u32) -> std::borrow::Cow<'_, str> {
        match self.labels() {
            Some(l) => l.name(class),
            None => format!("class {class}").into(),
        }
    }

    /// Everything known about the model, the head's defaults included.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// Width and height of the model input.
    pub fn input(&self) -> (usize, usize) {
        self.input
    }

    /// Thresholds that suit this model.
    pub fn params(&self) -> DecodeParams {
        let d = DecodeParams::default();
        DecodeParams {
            conf: self.spec.conf.unwrap_or(d.conf),
            iou: self.spec.iou.unwrap_or(d.iou),
            max_det: self.spec.max_det.unwrap_or(d.max_det),
            ..d
        }
    }

    /// Reads picture `index` of the batch from the model's outputs (all of them, in the order given to
    /// [`Head::recognise`]; f32 or f16, any strides) into `out`. `geometry` is how that picture was placed. Values that
    /// are not finite are dropped and counted. Allocates nothing once `out` has seen pictures as full as this one.
    pub fn decode(
        &self,
        outputs: &[View<'_>],
        index: usize,
        params: &DecodeParams,
        geometry: &Geometry,
        out: &mut Detections,
    ) -> Result<()> {
        self.check(outputs, index, geometry)?;
        out.clear();
        let outputs = Outputs { views: outputs, batch: index };
        let mut candidates = std::mem::take(&mut out.candidates);
        let mut sink = Sink {
            params,
            candidates: &mut candidates,
            dropped: &mut out.dropped,
            capped: &mut out.capped,
            values: &mut out.values,
        };
        self.decoder.scan(&outputs, &mut sink);
        out.capped += nms::cap(&mut candidates, params.max_candidates);
        nms::suppress(
            &mut candidates,
            &mut out.scratch,
            self.decoder.overlap(),
            params.iou,
            params.agnostic,
            params.max_det,
        );
        for c in &candidates {
            let mut d = Detection {
                class: c.class,
                score: c.score,
                bbox: if params.clip {
                    geometry.inverse_box(c.bbox)
                } else {
                    let [x1, y1, x2, y2] = c.bbox;
                    let ((x1, y1), (x2, y2)) = (geometry.inverse((x1, y1)), geometry.inverse((x2, y2)));
                    [x1, y1, x2, y2]
                },
                oriented: None,
                keypoints: (0, 0),
                mask: None,
            };
            self.decoder.finish(&outputs, c, geometry, &mut d, out);
            out.items.push(d);
        }
        out.candidates = candidates;
        Ok(())
    }

    fn check(&self, outputs: &[View<'_>], index: usize, geometry: &Geometry) -> Result<()> {
        let shape = |what: String| Err(Error::new(ErrorKind::Shape, what));
        if outputs.len() != self.expected.len() {
            return shape(format!("{} outputs found, {} expected", outputs.len(), self.expected.len()));
        }
        for (i, (view, want)) in outputs.iter().zip(&self.expected).enumerate() {
            let dims = view.shape().dims();
            if dims.get(1..) != Some(want.as_slice()) || index >= dims[0] {
                return shape(format!(
                    "output {i} has the shape {}, [more than {index}, {}] expected",
                    view.shape(),
                    want.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
                ));
            }
            if !matches!(view.dtype(), DType::F32 | DType::F16) {
                return shape(format!("output {i} is of dtype {}, f32 or f16 expected", view.dtype()));
            }
        }
        if geometry.target() != self.input {
            return shape(format!(
                "the picture was placed in {:?}, the model input is {:?}",
                geometry.target(),
                self.input
            ));
        }
        Ok(())
    }
}

/// `yolov8 boxes [1,84,8400], 80 classes, 3 strides`.
impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.decoder.describe())
    }
}

fn bad(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Head, what)
}

fn list(outputs: &[OutputInfo<'_>]) -> String {
    let all: Vec<String> = outputs.iter().take(16).map(|o| format!("{} {:?}", o.name, o.dims)).collect();
    all.join(", ")
}

fn named(
    name: &str,
    spec: &ModelSpec,
    input: (usize, usize),
    outputs: &[OutputInfo<'_>],
) -> Result<(&'static str, Box<dyn Decode>)> {
    let Some((name, claim, _)) = TABLE.iter().find(|(n, _, _)| *n == name) else {
        return Err(bad(format!(
            "there is no head \"{name}\"{}; --head takes {}",
            suggestion(name, &NAMES),
            quoted(&NAMES)
        )));
    };
    match claim(&Facts { input, outputs, spec, named: true }) {
        Ok(decoder) => Ok((name, decoder)),
        Err(why) => Err(bad(format!(
            "the head \"{name}\" does not fit: {why}; the model has an input of {}x{} and the outputs {} (another head \
             is chosen with --head)",
            input.0,
            input.1,
            list(outputs)
        ))),
    }
}

fn by_shape(
    spec: &ModelSpec,
    input: (usize, usize),
    outputs: &[OutputInfo<'_>],
) -> Result<(&'static str, Box<dyn Decode>)> {
    let facts = Facts { input, outputs, spec, named: false };
    let mut fits: Vec<(&'static str, Box<dyn Decode>)> =
        TABLE.iter().filter_map(|(name, claim, _)| claim(&facts).ok().map(|d| (*name, d))).collect();
    // Class names may tell two readings of one shape apart.
    if let Some(labels) = &spec.labels
        && fits.len() > 1
        && fits.iter().any(|(_, d)| d.classes() == Some(labels.len()))
    {
        fits.retain(|(_, d)| d.classes() == Some(labels.len()));
    }
    match (fits.len(), fits.pop()) {
        (1, Some(one)) => Ok(one),
        (0, _) | (_, None) => Err(bad(format!(
            "no head fits a model with an input of {}x{}, {} and the outputs {}: name one with --head (one of {}) or \
             describe the model with --spec",
            input.0,
            input.1,
            spec.task.map_or("no task in its metadata".into(), |t| format!("the task \"{t}\"")),
            list(outputs),
            quoted(&NAMES)
        ))),
        (_, Some(last)) => {
            fits.push(last);
            let names: Vec<&str> = fits.iter().map(|(n, _)| *n).collect();
            Err(bad(format!(
                "the outputs {} can be read in {} ways: choose with --head, one of {}",
                list(outputs),
                names.len(),
                quoted(&names)
            )))
        }
    }
}

/// The task is not known, or is this one.
fn task_allows(facts: &Facts<'_>, task: Task) -> std::result::Result<(), String> {
    match facts.spec.task {
        Some(t) if !facts.named && t != task => Err(format!("the metadata says the task is \"{t}\"")),
        _ => Ok(()),
    }
}
