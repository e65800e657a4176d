use super::Exit;
use super::flags::{DetectFlags, RunFlags};
use super::ui::{Stop, Ui};
use saltica::draw::Annotator;
use saltica::inputs;
use saltica::report::{
    Align, ErrorRecord, FrameId, FrameRecord, Style, SummaryRecord, Table, Times, number, objects,
};
use saltica::{Detections, Detector, EncodedFormat, Error, ErrorKind, Image, output};
use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Find objects in pictures
#[derive(clap::Args)]
pub(super) struct Args {
    /// ONNX file
    #[arg(long, short, value_name = "FILE.onnx")]
    model: PathBuf,
    /// Pictures, folders of pictures, or quoted patterns
    #[arg(required = true, value_name = "IMAGE|DIR|GLOB")]
    inputs: Vec<PathBuf>,
    /// Write pictures with the objects drawn in to this folder, made if missing
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    #[command(flatten)]
    detect: DetectFlags,
    #[command(flatten)]
    run: RunFlags,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, Stop> {
    let sources = inputs::expand(&args.inputs)?;
    let mut saver = args.save.as_deref().map(|dir| Saver::new(dir, &sources)).transpose()?;
    let mut detector = args.detect.builder(&args.run)?.load(&args.model)?;
    log::info!("{}: {}", args.model.display(), detector.head());

    let mut summary =
        SummaryRecord { skipped: sources.iter().map(|s| s.skipped).sum(), ..Default::default() };
    let count: usize = sources.iter().map(|s| s.files.len()).sum();
    let bar = ui.progress(count as u64, "pictures");
    let mut found = Detections::new();
    for source in &sources {
        for (frame_id, file) in source.files.iter().enumerate() {
            let id = FrameId {
                source_id: source.id,
                source: source.name.clone(),
                frame_id,
                path: file.display().to_string(),
            };
            match look_at(file, id.clone(), &mut detector, &mut found, saver.as_mut()) {
                Ok(record) => {
                    summary.frames += 1;
                    summary.detections += record.detections.len();
                    bar.suspend(|| match ui.json {
                        true => ui.record("frame", &record),
                        false => ui.text(&text(&record, ui.style)),
                    })?;
                }
                // A folder that cannot be written to fails every picture.
                Err(e) if e.kind() == ErrorKind::Usage => return Err(e.into()),
                Err(e) => {
                    summary.failed += 1;
                    let error = e.to_string();
                    bar.suspend(|| {
                        ui.error(&error);
                        if ui.json { ui.record("error", &ErrorRecord { id, error }) } else { Ok(()) }
                    })?;
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    if ui.json {
        ui.record("summary", &summary)?;
    } else if count > 1 || summary.failed + summary.skipped > 0 {
        ui.text(&format!(
            "{} pictures, {} objects, {} failed, {} other files skipped\n",
            summary.frames, summary.detections, summary.failed, summary.skipped
        ))?;
    }
    Ok(if summary.failed > 0 { Exit::SomeFailed } else { Exit::Done })
}

fn look_at(
    file: &Path,
    id: FrameId,
    detector: &mut Detector,
    found: &mut Detections,
    saver: Option<&mut Saver>,
) -> Result<FrameRecord, Error> {
    let start = Instant::now();
    let mut picture = Image::open(file)?;
    let decode = start.elapsed();
    let time = detector
        .detect_into(&picture, found)
        .map_err(|e| Error::new(e.kind(), format!("{}: {e}", file.display())))?;
    let (width, height) = (picture.width(), picture.height());
    let mut record = FrameRecord {
        id,
        width,
        height,
        detections: objects(found, detector.head(), width, height),
        dropped: found.dropped(),
        capped: found.capped(),
        time_ms: Times::new(decode, &time),
        saved: None,
    };
    if let Some(saver) = saver {
        saver.annotator.draw(&mut picture, found, |class| detector.head().label(class));
        record.saved = Some(saver.save(&picture, file)?.display().to_string());
    }
    Ok(record)
}

fn text(r: &FrameRecord, style: Style) -> String {
    let t = &r.time_ms;
    let head = format!(
        "{}  {}\n",
        style.bold(&r.id.path),
        style.dim(&format!(
            "{}x{}, {} objects, {} ms",
            r.width,
            r.height,
            r.detections.len(),
            number(t.preprocess + t.infer + t.postprocess, 1)
        ))
    );
    let mut table = Table::new(&[
        ("class", Align::Left),
        ("score", Align::Right),
        ("left", Align::Right),
        ("top", Align::Right),
        ("right", Align::Right),
        ("bottom", Align::Right),
    ]);
    for d in &r.detections {
        let score = number(f64::from(d.score), 3);
        let sides = d.bbox.map(|v| number(f64::from(v), 1));
        table.row([d.class.clone(), score].into_iter().chain(sides));
    }
    let body = if table.is_empty() { String::new() } else { table.render(style) };
    let lost = match (r.dropped, r.capped) {
        (0, 0) => String::new(),
        (dropped, capped) => format!(
            "{} {dropped} candidates were not numbers, {capped} were too many\n",
            style.yellow("warning:")
        ),
    };
    head + &body + &lost
}

/// Writes annotated pictures under names that are different and are no input's.
struct Saver {
    annotator: Annotator,
    folder: PathBuf,
    inputs: HashSet<PathBuf>,
    used: HashSet<String>,
}

impl Saver {
    fn new(folder: &Path, sources: &[inputs::Source]) -> Result<Saver, Error> {
        std::fs::create_dir_all(folder).map_err(|e| Error::io("make the folder", folder, &e))?;
        let inputs = sources.iter().flat_map(|s| &s.files).filter_map(|f| f.canonicalize().ok()).collect();
        Ok(Saver { annotator: Annotator::new()?, folder: folder.to_owned(), inputs, used: HashSet::new() })
    }

    fn save(&mut self, picture: &Image, file: &Path) -> Result<PathBuf, Error> {
        let (name, format) = self.name(file);
        let path = self.folder.join(name);
        if path.canonicalize().is_ok_and(|p| self.inputs.contains(&p)) {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("--save would overwrite the input {}: give another folder", path.display()),
            ));
        }
        let bytes = picture.encode(format)?;
        output::write_file(&path, |to| to.write_all(&bytes))?;
        Ok(path)
    }

    /// The file's own name, as PNG or JPEG, with a number if another picture has it.
    fn name(&mut self, file: &Path) -> (String, EncodedFormat) {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let png = file.extension().is_some_and(|e| e.eq_ignore_ascii_case("png"));
        let (ending, format) =
            if png { ("png", EncodedFormat::Png) } else { ("jpg", EncodedFormat::Jpeg(92)) };
        let mut name = format!("{stem}.{ending}");
        let mut n = 1;
        while !self.used.insert(name.to_lowercase()) {
            n += 1;
            name = format!("{stem}-{n}.{ending}");
        }
        (name, format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_annotated_pictures_are_different() {
        let mut s = Saver::new(Path::new("."), &[]).unwrap();
        let names = ["a/x.jpg", "b/X.webp", "c/x.png", "d/x.jpeg"].map(|f| s.name(Path::new(f)).0);
        assert_eq!(names, ["x.jpg", "X-2.jpg", "x.png", "x-3.jpg"]);
    }
}
