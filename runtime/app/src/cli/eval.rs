use super::Exit;
use super::flags::{DetectFlags, ModelFlag, RunFlags};
use super::sim::OPENING;
use super::ui::{Stop, Ui, meanwhile};
use saltica::bench::{FrameTime, Stages, stages};
use saltica::eval::{
    Dataset, Detection, Metrics, class_categories, evaluate, locate_images, read_detections, simulated,
    write_detections,
};
use saltica::inputs::{self, Simulator};
use saltica::models::Model;
use saltica::output::NewFile;
use saltica::report::{Align, Style, Table, number};
use saltica::{Detections, Detector, Error, ErrorKind, Image};
use saltica_pipeline::source::sim::SimClip;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Most objects a picture, as COCO counts them.
const MAX_DETECTIONS: usize = 100;
/// Low, because precision is measured at every recall.
const CONFIDENCE: f32 = 0.01;

/// Measure mean average precision on a COCO data set, or on frames of the simulated camera
///
/// Runs a model on the pictures of an annotation file, or scores detections that were made before (--detections).
/// Frames of the simulated camera (sim:SCENE?frames=N&..., or a list of them with --list) bring their truth with them.
/// --conf is 0.01 unless given, and a box counts once for each class above it, as is usual where precision is measured
/// (see --one-label).
#[derive(clap::Args)]
pub(super) struct Args {
    /// COCO annotation file (JSON)
    #[arg(long, value_name = "ANNOTATIONS.json")]
    coco: Option<PathBuf>,
    /// Folder of the pictures, which may be in sub-folders; or frames of the simulated camera
    #[arg(value_name = "IMAGES_DIR|sim:...", required_unless_present_any = ["detections", "list"])]
    images: Option<PathBuf>,
    /// Frames of simulated cameras: a file with lines `FRAME sim:...`
    #[arg(long, value_name = "FILE.txt", conflicts_with_all = ["images", "coco", "detections"])]
    list: Option<PathBuf>,
    /// Of the list only every N-th frame, from the first one on
    #[arg(long, value_name = "N", requires = "list", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    every: u32,
    #[command(flatten)]
    model: ModelFlag,
    /// Score these detections (COCO results format, of any program) in place of a model's
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["model", "images"])]
    detections: Option<PathBuf>,
    /// Write the detections to this file (COCO results format)
    #[arg(long, value_name = "FILE.json", conflicts_with = "detections")]
    save_detections: Option<PathBuf>,
    /// Leave out pictures that are not in the folder, in place of an error
    #[arg(long)]
    skip_missing: bool,
    /// Count a box for its best class alone, as `detect` does
    #[arg(long)]
    one_label: bool,
    /// Leave boxes that stick out of the picture as they are, to compare with programs that do
    #[arg(long)]
    no_clip: bool,
    #[command(flatten)]
    detect: DetectFlags,
    #[command(flatten)]
    run: RunFlags,
}

#[derive(Serialize)]
struct EvalRecord<'a> {
    annotations: String,
    model: Option<String>,
    head: Option<String>,
    conf: Option<f32>,
    iou: Option<f32>,
    multi_label: Option<bool>,
    clip: Option<bool>,
    images: usize,
    failed: usize,
    objects: usize,
    detections: usize,
    #[serde(flatten)]
    metrics: &'a Metrics,
    time_ms: Option<Stages>,
    warnings: &'a [String],
}

/// What a model made of the pictures.
#[derive(Default)]
struct Made {
    detections: Vec<Detection>,
    times: Vec<FrameTime>,
    failed: usize,
    head: Option<String>,
    conf: Option<f32>,
    iou: Option<f32>,
}

/// Refuses to write the detections over what they are made from. Pictures are not listed: a JSON file belongs beside
/// them, not under a picture's name.
fn keep_inputs(args: &Args, file: &Path) -> Result<(), Error> {
    let Ok(target) = file.canonicalize() else { return Ok(()) };
    let inputs = [args.coco.as_ref(), args.model.path(), args.detections.as_ref(), args.list.as_ref()];
    let is_input = inputs.into_iter().flatten().any(|i| i.canonicalize().is_ok_and(|i| i == target));
    let folder = args.images.as_ref().and_then(|f| f.canonicalize().ok());
    let in_images =
        folder.is_some_and(|f| target.starts_with(f)) && file.extension().is_none_or(|e| e != "json");
    if is_input || in_images {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("--save-detections would overwrite the input {}: give another file", file.display()),
        ));
    }
    Ok(())
}

/// What is measured on.
enum Truth {
    /// An annotation file, and the folder of its pictures.
    Files { coco: PathBuf, folder: Option<PathBuf> },
    /// Frames that come with their truth, and what they are called.
    Simulated { clips: Vec<SimClip>, name: String },
}

impl Truth {
    fn of(args: &Args) -> Result<Truth, Error> {
        let usage = |m: &str| Error::new(ErrorKind::Usage, m);
        if let Some(list) = &args.list {
            let clips = simulated::read_list(list, args.every as usize)?;
            return Ok(Truth::Simulated { clips, name: list.display().to_string() });
        }
        match (&args.coco, &args.images) {
            (coco, Some(address)) if inputs::is_simulated(address) => {
                if coco.is_some() {
                    return Err(usage(
                        "frames of the simulated camera bring their truth with them: leave out --coco",
                    ));
                }
                let clip = SimClip::parse(&address.to_string_lossy())?;
                Ok(Truth::Simulated { name: clip.to_string(), clips: vec![clip] })
            }
            (Some(coco), folder) => Ok(Truth::Files { coco: coco.clone(), folder: folder.clone() }),
            (None, _) => Err(usage(
                "nothing says what is in the pictures: give --coco ANNOTATIONS.json, or frames of the simulated camera \
                 (sim:street?frames=100)",
            )),
        }
    }

    /// What it is called in the report.
    fn name(&self) -> String {
        match self {
            Truth::Files { coco, .. } => coco.display().to_string(),
            Truth::Simulated { name, .. } => name.clone(),
        }
    }
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, Stop> {
    let truth = Truth::of(args)?;
    let mut dataset = match &truth {
        Truth::Files { coco, .. } => Dataset::read(coco)?,
        Truth::Simulated { .. } => Dataset::default(),
    };
    let save = args.save_detections.as_deref();
    // Opened before the work, so that it is not done for a file that cannot be written.
    let save = save.map(|file| keep_inputs(args, file).and_then(|()| NewFile::create(file))).transpose()?;
    let mut model = None;
    let made = match (&args.detections, &truth) {
        (Some(file), _) => Made { detections: read_detections(file)?, ..Made::default() },
        (None, Truth::Files { folder: Some(folder), .. }) => {
            let files = locate_images(&dataset, folder)?;
            let files = present(&mut dataset, files, folder, args.skip_missing)?;
            let mut subject = Subject::load(args, model.insert(args.model.find(ui)?))?;
            detect_files(&mut subject, &files, &dataset, ui)?
        }
        (None, Truth::Simulated { clips, .. }) => {
            let mut subject = Subject::load(args, model.insert(args.model.find(ui)?))?;
            detect_frames(&mut subject, clips, &mut dataset, ui)?
        }
        (None, Truth::Files { folder: None, .. }) => {
            return Err(
                Error::new(ErrorKind::Usage, "give the folder of the pictures, or --detections").into()
            );
        }
    };
    for w in &dataset.warnings {
        ui.warn(&format!("{}: {w}", truth.name()));
    }
    let metrics = evaluate(&dataset, &made.detections)?;
    let record = EvalRecord {
        annotations: truth.name(),
        multi_label: model.is_some().then_some(!args.one_label),
        clip: model.is_some().then_some(!args.no_clip),
        model: model.map(|m| m.to_string()),
        head: made.head,
        conf: made.conf,
        iou: made.iou,
        images: dataset.images.len(),
        failed: made.failed,
        objects: dataset.annotations.iter().filter(|a| !a.crowd).count(),
        detections: made.detections.len(),
        metrics: &metrics,
        time_ms: stages(&made.times),
        warnings: &dataset.warnings,
    };
    let told = match ui.json {
        true => ui.record("eval", &record),
        false => ui.text(&text(&record, ui.style)),
    };
    // Whatever became of the one, the other is wanted.
    let saved = save.map_or(Ok(()), |file| write_detections(file, &made.detections));
    told?;
    if let Err(e) = &saved {
        ui.error(&e.to_string());
    }
    Ok(if made.failed > 0 || saved.is_err() { Exit::SomeFailed } else { Exit::Done })
}

/// The model, and what it has made so far.
struct Subject {
    detector: Detector,
    found: Detections,
    made: Made,
}

impl Subject {
    fn load(args: &Args, model: &Model) -> Result<Subject, Error> {
        let builder = args.detect.builder(&args.run)?.multi_label(!args.one_label).clip(!args.no_clip);
        let mut detector = model.detector(&builder)?;
        if args.detect.conf.is_none() {
            detector.params_mut().conf = CONFIDENCE;
        }
        if args.detect.max_det.is_none() {
            detector.params_mut().max_det = MAX_DETECTIONS;
        }
        let made = Made {
            head: Some(detector.head().to_string()),
            conf: Some(detector.params().conf),
            iou: Some(detector.params().iou),
            ..Made::default()
        };
        Ok(Subject { detector, found: Detections::new(), made })
    }

    fn labels(&self) -> Vec<String> {
        self.detector.head().labels().map(|l| l.names().to_vec()).unwrap_or_default()
    }

    fn categories(&self, dataset: &Dataset) -> Result<Vec<Option<i64>>, Error> {
        let classes = self.detector.head().classes().unwrap_or(dataset.categories.len());
        class_categories(dataset, classes, &self.labels())
    }

    fn look_at(&mut self, picture: &Image, image_id: i64, categories: &[Option<i64>]) -> Result<(), Error> {
        let time = self.detector.detect_into(picture, &mut self.found)?;
        self.made.times.push(time);
        self.made.detections.extend(self.found.items().iter().filter_map(|d| {
            let [left, top, right, bottom] = d.bbox.map(f64::from);
            Some(Detection {
                image_id,
                category_id: (*categories.get(d.class as usize)?)?,
                bbox: [left, top, right - left, bottom - top],
                score: f64::from(d.score),
            })
        }));
        Ok(())
    }
}

/// Runs the model on every picture of the data set. A picture that cannot be read counts, as one where nothing was found.
fn detect_files(subject: &mut Subject, files: &[PathBuf], dataset: &Dataset, ui: &Ui) -> Result<Made, Stop> {
    let categories = subject.categories(dataset)?;
    let bar = ui.progress(files.len() as u64, "pictures");
    for (image, file) in dataset.images.iter().zip(files) {
        let looked = Image::open(file).map_err(Error::from).and_then(|p| {
            let looked = subject.look_at(&p, image.id, &categories);
            looked.map_err(|e| Error::new(e.kind(), format!("{}: {e}", file.display())))
        });
        if let Err(e) = looked {
            subject.made.failed += 1;
            bar.suspend(|| ui.error(&e.to_string()));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(std::mem::take(&mut subject.made))
}

/// Draws the frames, runs the model on each, and fills the data set with their truth.
fn detect_frames(
    subject: &mut Subject,
    clips: &[SimClip],
    dataset: &mut Dataset,
    ui: &Ui,
) -> Result<Made, Stop> {
    *dataset = simulated::categories(&subject.labels());
    let categories = subject.categories(dataset)?;
    let bar = ui.progress(clips.iter().map(|c| c.frames).sum(), "frames");
    let mut simulator = Simulator::default();
    let mut used = None;
    for clip in clips {
        for number in (0..clip.frames).map(|k| clip.number(k)) {
            let wait = (!simulator.is_open(&clip.spec)).then_some(OPENING);
            let (picture, truth) = meanwhile(&bar, wait, || simulator.draw(&clip.spec, number, used.take()))?;
            let id = simulated::add(dataset, clip, &picture, truth);
            let looked = subject.look_at(&picture, id, &categories);
            looked.map_err(|e| Error::new(e.kind(), format!("{}: {e}", clip.single(number))))?;
            used = Some(picture);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(std::mem::take(&mut subject.made))
}

/// The files of the data set's pictures. Where some are missing: an error, or, if they are to be skipped, a data set
/// without them.
fn present(
    dataset: &mut Dataset,
    found: Vec<Option<PathBuf>>,
    folder: &Path,
    skip: bool,
) -> Result<Vec<PathBuf>, Error> {
    let missing: Vec<&str> = dataset
        .images
        .iter()
        .zip(&found)
        .filter(|(_, f)| f.is_none())
        .map(|(image, _)| image.file_name.as_str())
        .collect();
    if !missing.is_empty() && (!skip || missing.len() == found.len()) {
        return Err(Error::new(
            ErrorKind::Io,
            format!(
                "{} of {} pictures are not in {} nor in its sub-folders, the first is {}: give the right folder{}",
                missing.len(),
                found.len(),
                folder.display(),
                missing[0],
                if skip { "" } else { ", or leave them out with --skip-missing" }
            ),
        ));
    }
    if !missing.is_empty() {
        dataset.warnings.push(format!(
            "{} pictures are not in {}: left out",
            missing.len(),
            folder.display()
        ));
        let mut keep = found.iter().map(Option::is_some);
        dataset.images.retain(|_| keep.next().unwrap_or(false));
        let ids: std::collections::HashSet<i64> = dataset.images.iter().map(|i| i.id).collect();
        dataset.annotations.retain(|a| ids.contains(&a.image_id));
    }
    Ok(found.into_iter().flatten().collect())
}

fn text(r: &EvalRecord<'_>, style: Style) -> String {
    let m = r.metrics;
    let mut classes = Table::new(&[
        ("class", Align::Left),
        ("objects", Align::Right),
        ("found", Align::Right),
        ("AP50-95", Align::Right),
        ("AP50", Align::Right),
        ("AP75", Align::Right),
        ("AR", Align::Right),
    ]);
    for c in m.classes.iter().filter(|c| c.objects + c.detections > 0) {
        classes.row([
            c.name.clone(),
            c.objects.to_string(),
            c.detections.to_string(),
            number(c.ap, 4),
            number(c.ap50, 4),
            number(c.ap75, 4),
            number(c.ar100, 4),
        ]);
    }
    let mut all = Table::new(&[
        ("objects", Align::Left),
        ("mAP50-95", Align::Right),
        ("mAP50", Align::Right),
        ("mAP75", Align::Right),
        ("AR1", Align::Right),
        ("AR10", Align::Right),
        ("AR100", Align::Right),
    ]);
    all.row(
        ["all".to_owned()]
            .into_iter()
            .chain([m.ap, m.ap50, m.ap75, m.ar1, m.ar10, m.ar100].map(|v| number(v, 4))),
    );
    for (name, ap, ar) in [
        ("small", m.ap_small, m.ar_small),
        ("medium", m.ap_medium, m.ar_medium),
        ("large", m.ap_large, m.ar_large),
    ] {
        all.row([name, &number(ap, 4), "", "", "", "", &number(ar, 4)]);
    }
    let speed = r.time_ms.map_or_else(String::new, |t| {
        format!(", {} ms a picture (median; the model {} ms)", number(t.total.p50, 1), number(t.infer.p50, 1))
    });
    format!(
        "{}\n{}\n{} images ({} failed), {} objects, {} detections{speed}\n",
        classes.render(style),
        all.render(style),
        r.images,
        r.failed,
        r.objects,
        r.detections
    )
}
