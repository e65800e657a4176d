use super::Exit;
use super::flags::{DetectFlags, ModelFlag, RunFlags};
use super::saver::Saver;
use super::sim::OPENING;
use super::ui::{Stop, Ui, meanwhile};
use saltica::inputs::{self, Pictures, Simulator, Source};
use saltica::report::{
    Align, ErrorRecord, FrameId, FrameRecord, Style, SummaryRecord, Table, Times, number, objects, printable,
};
use saltica::track::{TrackParams, Tracker};
use saltica::{Detections, Detector, Error, ErrorKind, Image};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Find objects in pictures
///
/// `saltica detect sim:` needs no other file: it looks at a frame of the simulated camera with the model inside the
/// program. Frames of the simulated camera are addressed as sim:SCENE?key=value&..., see `saltica sim --help`; without
/// --save the first one of each such address is drawn into the folder saltica-out.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    model: ModelFlag,
    /// Pictures, folders of pictures, quoted patterns, or frames of the simulated camera
    #[arg(required = true, value_name = "IMAGE|DIR|GLOB|sim:...")]
    inputs: Vec<PathBuf>,
    /// Write pictures with the objects drawn in to this folder, made if missing
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Write no picture, not even of the simulated camera
    #[arg(long, conflicts_with = "save")]
    no_save: bool,
    /// Follow objects from picture to picture: each argument is taken for the frames of one camera in their order, and
    /// only objects that are followed are told, with the number of their track. Scores down to 0.1 count (--conf)
    #[arg(long)]
    track: bool,
    /// Pictures a second of files and folders; the simulated camera knows its own
    #[arg(long, value_name = "N", requires = "track", default_value_t = 30.0, value_parser = rate)]
    fps: f64,
    #[command(flatten)]
    detect: DetectFlags,
    #[command(flatten)]
    run: RunFlags,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(v) if (0.001..=1000.0).contains(&v) => Ok(v),
        _ => Err("give a number from 0.001 to 1000".into()),
    }
}

/// Where pictures of the simulated camera are drawn unless told otherwise.
const FOLDER: &str = "saltica-out";

pub(super) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, Stop> {
    let sources = inputs::expand(&args.inputs)?;
    let simulated = |s: &Source| matches!(s.pictures, Pictures::Simulated(_));
    let mut saver = match &args.save {
        Some(folder) => Some(Saver::new(folder, &sources)?),
        None if !args.no_save && sources.iter().any(simulated) => Some(Saver::careful(FOLDER)?),
        None => None,
    };
    let model = args.model.find(ui)?;
    if !args.model.is_given() && !sources.iter().all(simulated) {
        ui.warn(&format!(
            "{model} knows only scenes of the simulated camera; for photos name a model, such as --model yolox-nano \
             (saltica models list)"
        ));
    }
    let builder = match args.track {
        true => args.detect.builder_for_tracks(&args.run)?,
        false => args.detect.builder(&args.run)?,
    };
    let mut detector = model.detector(&builder)?;
    log::info!("{model}: {}", detector.head());

    let mut summary =
        SummaryRecord { skipped: sources.iter().map(|s| s.skipped).sum(), ..Default::default() };
    let count: u64 = sources.iter().map(Source::len).sum();
    let bar = ui.progress(count, "pictures");
    let mut simulator = Simulator::default();
    let mut found = Detections::new();
    for source in &sources {
        let mut used = None;
        let mut tracker =
            args.track.then(|| Tracker::new(TrackParams::default())).transpose().map_err(Error::from)?;
        for frame in 0..source.len() {
            let id = FrameId {
                source_id: source.id,
                source: source.name.clone(),
                frame_id: frame as usize,
                path: path(source, frame),
            };
            let start = Instant::now();
            let wait = match &source.pictures {
                Pictures::Simulated(clip) if !simulator.is_open(&clip.spec) => Some(OPENING),
                _ => None,
            };
            let picture = meanwhile(&bar, wait, || take(source, frame, &mut simulator, used.take()));
            let looked = picture.and_then(|picture| {
                let saver = saver.as_mut().filter(|s| s.wants(source, frame));
                let follow = tracker.as_mut().map(|t| (t, time(source, frame, args.fps)));
                look_at(picture, start.elapsed(), id.clone(), &mut detector, &mut found, follow, saver)
            });
            match looked {
                Ok((record, picture)) => {
                    used = Some(picture);
                    summary.frames += 1;
                    summary.detections += record.detections.len();
                    bar.suspend(|| match ui.json {
                        true => ui.record("frame", &record),
                        false => ui.text(&text(&record, ui.style, args.save.is_none())),
                    })?;
                }
                // An input would be overwritten: what was asked for is not what was meant.
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
    if let Some(why) = saver.as_ref().and_then(Saver::gave_up) {
        ui.warn(&format!("no picture was drawn: {why} (--save DIR names another folder)"));
    }
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

/// A picture's file, or the address of the one frame.
fn path(source: &Source, frame: u64) -> String {
    match &source.pictures {
        Pictures::Files(files) => files[frame as usize].display().to_string(),
        Pictures::Simulated(clip) => clip.single(clip.number(frame)).to_string(),
    }
}

/// When a frame was taken, since the beginning of its source.
fn time(source: &Source, frame: u64, fps: f64) -> Duration {
    match &source.pictures {
        Pictures::Files(_) => Duration::from_secs_f64(frame as f64 / fps),
        Pictures::Simulated(clip) => {
            Duration::from_secs_f64((frame * clip.step) as f64 / f64::from(clip.spec.fps))
        }
    }
}

fn take(source: &Source, frame: u64, simulator: &mut Simulator, used: Option<Image>) -> Result<Image, Error> {
    match &source.pictures {
        Pictures::Files(files) => Ok(Image::open(&files[frame as usize])?),
        Pictures::Simulated(clip) => Ok(simulator.draw(&clip.spec, clip.number(frame), used)?.0),
    }
}

fn look_at(
    mut picture: Image,
    decode: Duration,
    id: FrameId,
    detector: &mut Detector,
    found: &mut Detections,
    follow: Option<(&mut Tracker, Duration)>,
    saver: Option<&mut Saver>,
) -> Result<(FrameRecord, Image), Error> {
    let time = detector
        .detect_into(&picture, found)
        .map_err(|e| Error::new(e.kind(), format!("{}: {e}", id.path)))?;
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
    let mut ids = None;
    if let Some((tracker, time)) = follow {
        let mut of = vec![None; found.len()];
        for t in tracker.update(found.items(), time)? {
            if let Some(k) = t.observation {
                of[k] = Some(t.id);
                record.detections[k].track = Some(t.into());
            }
        }
        record.detections.retain(|d| d.track.is_some());
        ids = Some(of);
    }
    if let Some(saver) = saver {
        let head = detector.head();
        match ids {
            None => saver.annotator.draw(&mut picture, found, |class| head.label(class)),
            Some(ids) => saver.annotator.draw_named(&mut picture, found, |k, d| {
                Some(format!("{} #{}", head.label(d.class), ids[k]?))
            }),
        }
        record.saved = saver.save(&picture, &record.id.path)?.map(|p| p.display().to_string());
    }
    Ok((record, picture))
}

fn text(r: &FrameRecord, style: Style, tell_saved: bool) -> String {
    let t = &r.time_ms;
    let head = format!(
        "{}  {}\n",
        style.bold(&printable(&r.id.path)),
        style.dim(&format!(
            "{}x{}, {} objects, {} ms",
            r.width,
            r.height,
            r.detections.len(),
            number(t.preprocess + t.infer + t.postprocess, 1)
        ))
    );
    let followed = r.detections.iter().any(|d| d.track.is_some());
    let mut columns = vec![
        ("class", Align::Left),
        ("score", Align::Right),
        ("left", Align::Right),
        ("top", Align::Right),
        ("right", Align::Right),
        ("bottom", Align::Right),
    ];
    if followed {
        columns.push(("track", Align::Right));
    }
    let mut table = Table::new(&columns);
    for d in &r.detections {
        let score = number(f64::from(d.score), 3);
        let sides = d.bbox.map(|v| number(f64::from(v), 1));
        let track = d.track.map(|t| format!("#{}", t.id));
        table.row([d.class.clone(), score].into_iter().chain(sides).chain(track));
    }
    let body = if table.is_empty() { String::new() } else { table.render(style) };
    let lost = match (r.dropped, r.capped) {
        (0, 0) => String::new(),
        (dropped, capped) => format!(
            "{} {dropped} candidates were not numbers, {capped} were too many\n",
            style.yellow("warning:")
        ),
    };
    let saved = match r.saved.as_ref().filter(|_| tell_saved) {
        Some(path) => format!("drawn in {}\n", printable(path)),
        None => String::new(),
    };
    head + &body + &lost + &saved
}
