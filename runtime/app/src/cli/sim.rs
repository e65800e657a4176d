use super::Exit;
use super::ui::{Stop, Ui, meanwhile};
use saltica::inputs::Simulator;
use saltica::report::{Align, Style, Table, number, printable, shell_word};
use saltica::{EncodedFormat, Error, ErrorKind, output};
use saltica_pipeline::source::sim::{CocoOptions, Picture, SimClip, SimSpec, Step, Truth, write_coco};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

const ADDRESSES: &str = "Addresses: sim:SCENE?key=value&..., such as sim:street?seed=7&light=dusk&frames=3
  SCENE    street, crowded, sparse, distractors or empty
  seed     of everything random: the same address is the same pixels on every machine [1]
  first    number of the first frame [0]
  frames   how many [1]
  step     from one to the next [1]
  size     WIDTHxHEIGHT [1280x720]
  fps      frames a second [30]
  objects  how many live in the scene, 0 to 64 [by scene]
  light    auto (by seed), day, dusk or night [auto]
  weather  clear or rain [clear]
  noise    of the sensor, standard deviation in 8-bit steps [2]
  blur     how long the shutter is open, 0 to 1 [0]
  jpeg     quality of a pass through JPEG, 1 to 100, or off [off]
  shake    of the camera, in pixels [0]
  index    on or off: the frame number in the top left corner [on]
sim: alone is a frame of a street that shows much.";

/// What is counted.
const FRAMES: &str = "frames";
/// What the first frame of a scene waits for.
pub(super) const OPENING: &str = "opening the scene";

/// Show what is in frames of the simulated camera, or write them as pictures or as a labelled data set
#[derive(clap::Args)]
#[command(after_help = ADDRESSES)]
pub(super) struct Args {
    /// Which frames
    #[arg(value_name = "sim:...", default_value = "sim:")]
    address: String,
    /// Number of frames [default: what the address says, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    frames: Option<u32>,
    /// Number of scenes: the same with the next seeds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000), requires = "coco")]
    scenes: u32,
    /// Write a COCO data set to this folder, which is new or empty: images/ and annotations.json
    #[arg(long, value_name = "DIR")]
    coco: Option<PathBuf>,
    /// Write the frames as PNG to this folder, made if missing
    #[arg(long, value_name = "DIR", conflicts_with = "coco")]
    save: Option<PathBuf>,
    /// Write the data set's pictures as PNG in place of JPEG
    #[arg(long, requires = "coco")]
    png: bool,
}

#[derive(Serialize)]
struct SimRecord {
    address: String,
    frame: u64,
    width: usize,
    height: usize,
    light: &'static str,
    objects: Vec<SimObject>,
    saved: Option<String>,
}

#[derive(Serialize)]
struct SimObject {
    class_id: usize,
    class: &'static str,
    #[serde(rename = "box")]
    bbox: [f32; 4],
    full_box: [f32; 4],
    visibility: f32,
    truncation: f32,
    track_id: u64,
    velocity: [f32; 2],
    ignore: bool,
}

#[derive(Serialize)]
struct DatasetRecord {
    address: String,
    folder: String,
    annotations: String,
    scenes: u32,
    images: u64,
    objects: u64,
    ignored: u64,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, Stop> {
    let clip = clip(args)?;
    match &args.coco {
        Some(folder) => write(args, &clip, folder, ui),
        None => show(args, &clip, ui),
    }
}

/// The frames meant. The scheme may be left out, as all that is known here is simulated.
fn clip(args: &Args) -> Result<SimClip, Error> {
    let address = match args.address.contains(':') {
        true => args.address.clone(),
        false => format!("sim:{}", args.address),
    };
    let mut clip = SimClip::parse(&address)?;
    if let Some(frames) = args.frames {
        if address.contains("frames=") && clip.frames != u64::from(frames) {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("{address} says {} frames, --frames says {frames}: give one of them", clip.frames),
            ));
        }
        clip.frames = frames.into();
    }
    Ok(clip)
}

fn write(args: &Args, clip: &SimClip, folder: &Path, ui: &mut Ui) -> Result<Exit, Stop> {
    let specs: Vec<SimSpec> = (0..u64::from(args.scenes))
        .map(|k| {
            let mut spec = clip.spec.clone();
            spec.seed = spec.seed.wrapping_add(k);
            spec
        })
        .collect();
    let picture = if args.png { Picture::Png } else { CocoOptions::default().picture };
    let options = CocoOptions { frames: clip.frames, first: clip.first, step: clip.step, picture };
    let bar = ui.progress(clip.frames.saturating_mul(specs.len() as u64), FRAMES);
    let written = output::write_folder(folder, |unfinished| {
        Ok(write_coco(&specs, &options, unfinished, |step| match step {
            Step::Opening(_) => {
                bar.set_prefix(OPENING);
                bar.tick();
            }
            Step::Written(done, _) => {
                bar.set_prefix(FRAMES);
                bar.set_position(done);
            }
            _ => {}
        })?)
    });
    bar.finish_and_clear();
    let summary = written?;
    let record = DatasetRecord {
        address: clip.to_string(),
        folder: folder.display().to_string(),
        annotations: folder.join("annotations.json").display().to_string(),
        scenes: args.scenes,
        images: summary.images,
        objects: summary.annotations,
        ignored: summary.ignored,
    };
    if ui.json {
        ui.record("dataset", &record)?;
    } else {
        ui.text(&format!(
            "{} pictures, {} objects ({} of them to be ignored) in {}\nsaltica eval --coco {} {}\n",
            record.images,
            record.objects,
            record.ignored,
            printable(&record.folder),
            shell_word(&folder.join("annotations.json")),
            shell_word(folder)
        ))?;
    }
    Ok(Exit::Done)
}

fn show(args: &Args, clip: &SimClip, ui: &mut Ui) -> Result<Exit, Stop> {
    if let Some(folder) = &args.save {
        output::make_folder(folder)?;
    }
    let bar = ui.progress(clip.frames, FRAMES);
    let mut simulator = Simulator::default();
    let mut used = None;
    for number in (0..clip.frames).map(|k| clip.number(k)) {
        let wait = (!simulator.is_open(&clip.spec)).then_some(OPENING);
        let (picture, truth) = meanwhile(&bar, wait, || simulator.draw(&clip.spec, number, used.take()))?;
        let mut record = record(clip, truth);
        if let Some(folder) = &args.save {
            let path =
                folder.join(format!("{}-seed{}-frame{number}.png", clip.spec.scene.name(), clip.spec.seed));
            let bytes = picture.encode(EncodedFormat::Png).map_err(Error::from)?;
            output::write_file(&path, |to| to.write_all(&bytes))?;
            record.saved = Some(path.display().to_string());
        }
        bar.suspend(|| match ui.json {
            true => ui.record("sim", &record),
            false => ui.text(&text(&record, ui.style)),
        })?;
        used = Some(picture);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Exit::Done)
}

fn record(clip: &SimClip, truth: &Truth) -> SimRecord {
    let sides = |b: &saltica_pipeline::source::sim::PixelBox| [b.x0, b.y0, b.x1, b.y1];
    SimRecord {
        address: clip.single(truth.frame).to_string(),
        frame: truth.frame,
        width: clip.spec.width,
        height: clip.spec.height,
        light: clip.spec.light_kind().name(),
        objects: truth
            .objects
            .iter()
            .map(|o| SimObject {
                class_id: o.class.id(),
                class: o.class.name(),
                bbox: sides(&o.bbox),
                full_box: sides(&o.full),
                visibility: o.visibility,
                truncation: o.truncation,
                track_id: o.track,
                velocity: [o.velocity.0, o.velocity.1],
                ignore: o.ignore,
            })
            .collect(),
        saved: None,
    }
}

fn text(r: &SimRecord, style: Style) -> String {
    let counted = r.objects.iter().filter(|o| !o.ignore).count();
    let head = format!(
        "{}  {}\n",
        style.bold(&r.address),
        style.dim(&format!(
            "{}x{}, {}, {counted} objects, {} more hardly visible",
            r.width,
            r.height,
            r.light,
            r.objects.len() - counted
        ))
    );
    let mut table = Table::new(&[
        ("class", Align::Left),
        ("track", Align::Right),
        ("left", Align::Right),
        ("top", Align::Right),
        ("right", Align::Right),
        ("bottom", Align::Right),
        ("visible", Align::Right),
        ("", Align::Left),
    ]);
    for o in r.objects.iter().rev() {
        let sides = o.bbox.map(|v| number(f64::from(v), 1));
        let visible = format!("{} %", number(f64::from(o.visibility) * 100.0, 0));
        let note = if o.ignore { "ignored" } else { "" };
        table.row(
            [o.class.to_owned(), o.track_id.to_string()]
                .into_iter()
                .chain(sides)
                .chain([visible, note.to_owned()]),
        );
    }
    let body = if table.is_empty() { String::new() } else { table.render(style) };
    let saved = r.saved.as_ref().map_or_else(String::new, |path| format!("drawn in {}\n", printable(path)));
    head + &body + &saved
}
