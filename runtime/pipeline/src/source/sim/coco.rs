//! Writes frames and their truth as a COCO data set: `images/` and `annotations.json`.
//!
//! Format: <https://cocodataset.org/#format-data>, object detection. Category ids start at 1, in the order of
//! [`Class::ALL`]. Beyond COCO's fields an annotation carries `visibility`, `truncation`, `track_id`, `full_bbox` and
//! `ignore`; what is to be ignored also has `iscrowd` 1, so that COCO's own evaluation leaves it out.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::frame::{FrameBuf, Sim};
use super::spec::SimSpec;
use super::truth::{Class, PixelBox, TruthObject};
use crate::{Error, ErrorKind, Result};

/// File format of the pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Picture {
    /// JPEG at this quality, 1..=100.
    Jpeg(u8),
    /// PNG, lossless.
    Png,
}

/// What to write for each specification.
#[derive(Clone, Copy, Debug)]
pub struct CocoOptions {
    /// Frames of each specification.
    pub frames: u64,
    /// Number of the first frame.
    pub first: u64,
    /// Frames from one picture to the next: 1 writes every frame.
    pub step: u64,
    /// File format.
    pub picture: Picture,
}

impl Default for CocoOptions {
    /// Every frame from 0, as JPEG at quality 92.
    fn default() -> Self {
        CocoOptions { frames: 1, first: 0, step: 1, picture: Picture::Jpeg(92) }
    }
}

#[derive(Serialize)]
struct Info {
    description: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Category {
    id: usize,
    name: &'static str,
    supercategory: &'static str,
}

#[derive(Serialize)]
struct ImageEntry {
    id: u64,
    file_name: String,
    width: usize,
    height: usize,
    frame: u64,
    seed: u64,
    scene: &'static str,
    light: &'static str,
    rain: bool,
}

#[derive(Serialize)]
struct Annotation {
    id: u64,
    image_id: u64,
    category_id: usize,
    bbox: [f32; 4],
    full_bbox: [f32; 4],
    area: f32,
    iscrowd: u8,
    ignore: u8,
    visibility: f32,
    truncation: f32,
    track_id: u64,
    velocity: [f32; 2],
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CocoSummary {
    /// Pictures.
    pub images: u64,
    /// Marked objects, those to be ignored included.
    pub annotations: u64,
    /// Of these, objects to be ignored.
    pub ignored: u64,
}

/// One list of the annotation file, written as it grows: a data set may be larger than the memory.
struct List {
    path: PathBuf,
    out: BufWriter<File>,
    empty: bool,
}

impl List {
    fn create(path: PathBuf) -> Result<List> {
        let file = File::create(&path).map_err(|e| io("file", &path, &e))?;
        Ok(List { path, out: BufWriter::new(file), empty: true })
    }

    fn push(&mut self, entry: &impl Serialize) -> Result<()> {
        let comma: &[u8] = if self.empty { b"" } else { b",\n" };
        self.empty = false;
        let written = self
            .out
            .write_all(comma)
            .and_then(|()| serde_json::to_writer(&mut self.out, entry).map_err(std::io::Error::from));
        written.map_err(|e| io("file", &self.path, &e))
    }
}

/// How far a data set is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Step<'a> {
    /// This scene is being opened, which takes longer than a frame.
    Opening(&'a SimSpec),
    /// So many pictures are written, of all.
    Written(u64, u64),
}

/// Writes `options.frames` frames of each specification below `dir`; `progress` is told of each scene and picture.
/// `annotations.json` appears last and whole.
///
/// # Errors
/// [`ErrorKind::Value`] for a specification or a quality out of range, [`ErrorKind::Io`] for a folder or file that
/// cannot be written (named in the message), [`ErrorKind::Image`] when a picture cannot be encoded.
pub fn write_coco(
    specs: &[SimSpec],
    options: &CocoOptions,
    dir: &Path,
    mut progress: impl FnMut(Step<'_>),
) -> Result<CocoSummary> {
    if let Picture::Jpeg(q) = options.picture
        && !(1..=100).contains(&q)
    {
        return Err(Error::new(
            ErrorKind::Value,
            format!("JPEG quality {q} is not possible: expected 1 to 100"),
        ));
    }
    let images = dir.join("images");
    std::fs::create_dir_all(&images).map_err(|e| io("folder", &images, &e))?;
    let mut image_list = List::create(dir.join(".images.part"))?;
    let mut annotation_list = List::create(dir.join(".annotations.part"))?;
    let total = options.frames.saturating_mul(specs.len() as u64);
    let mut done = CocoSummary::default();
    let mut buf = FrameBuf::default();
    for spec in specs {
        progress(Step::Opening(spec));
        let mut sim = Sim::open(spec)?;
        for k in 0..options.frames {
            let n = options.first.saturating_add(k.saturating_mul(options.step.max(1)));
            done.images += 1;
            let id = done.images;
            let truth = sim.frame(n, &mut buf)?;
            let extension = if options.picture == Picture::Png { "png" } else { "jpg" };
            let file_name = format!("{id:08}.{extension}");
            save(&images.join(&file_name), &buf, options.picture)?;
            image_list.push(&ImageEntry {
                id,
                file_name,
                width: spec.width,
                height: spec.height,
                frame: n,
                seed: spec.seed,
                scene: spec.scene.name(),
                light: spec.light_kind().name(),
                rain: spec.rain,
            })?;
            for o in &truth.objects {
                done.annotations += 1;
                done.ignored += u64::from(o.ignore);
                annotation_list.push(&annotation(done.annotations, id, o))?;
            }
            progress(Step::Written(id, total));
        }
    }
    join(dir, image_list, annotation_list)?;
    Ok(done)
}

/// Makes the annotation file of its two lists.
fn join(dir: &Path, images: List, annotations: List) -> Result<()> {
    let info = Info { description: "Saltica simulated street scenes", version: env!("CARGO_PKG_VERSION") };
    let category = |c: &Class| Category { id: c.id() + 1, name: c.name(), supercategory: "street" };
    let categories: Vec<Category> = Class::ALL.iter().map(category).collect();
    let (path, part) = (dir.join("annotations.json"), dir.join(".annotations.json.part"));
    let parts = [images.path.clone(), annotations.path.clone()];
    let written = (|| {
        let mut out = BufWriter::new(File::create(&part)?);
        out.write_all(b"{\"info\":")?;
        serde_json::to_writer(&mut out, &info)?;
        out.write_all(b",\n\"categories\":")?;
        serde_json::to_writer(&mut out, &categories)?;
        for (name, list) in [("images", images), ("annotations", annotations)] {
            list.out.into_inner().map_err(|e| e.into_error())?;
            write!(out, ",\n\"{name}\":[\n")?;
            std::io::copy(&mut File::open(&list.path)?, &mut out)?;
            out.write_all(b"\n]")?;
        }
        out.write_all(b"}\n")?;
        out.into_inner().map_err(|e| e.into_error())?;
        parts.iter().try_for_each(std::fs::remove_file)?;
        std::fs::rename(&part, &path)
    })();
    written.map_err(|e| io("file", &path, &e))
}

fn annotation(id: u64, image_id: u64, o: &TruthObject) -> Annotation {
    let xywh = |b: &PixelBox| [b.x0, b.y0, b.width(), b.height()];
    Annotation {
        id,
        image_id,
        category_id: o.class.id() + 1,
        bbox: xywh(&o.bbox),
        full_bbox: xywh(&o.full),
        area: o.bbox.area(),
        iscrowd: u8::from(o.ignore),
        ignore: u8::from(o.ignore),
        visibility: o.visibility,
        truncation: o.truncation,
        track_id: o.track,
        velocity: [o.velocity.0, o.velocity.1],
    }
}

fn save(path: &Path, buf: &FrameBuf, picture: Picture) -> Result<()> {
    let file = File::create(path).map_err(|e| io("file", path, &e))?;
    let mut out = BufWriter::new(file);
    let (w, h) = (buf.width as u32, buf.height as u32);
    let colour = image::ExtendedColorType::Rgb8;
    let encoded = match picture {
        Picture::Jpeg(q) => {
            image::codecs::jpeg::JpegEncoder::new_with_quality(&mut out, q).encode(&buf.rgb, w, h, colour)
        }
        Picture::Png => {
            use image::ImageEncoder;
            image::codecs::png::PngEncoder::new(&mut out).write_image(&buf.rgb, w, h, colour)
        }
    };
    encoded.map_err(|e| Error::new(ErrorKind::Image, format!("{}: {e}", path.display())))?;
    out.flush().map_err(|e| io("file", path, &e))
}

fn io(what: &str, path: &Path, e: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot write {what} {}: {e}", path.display()))
}
