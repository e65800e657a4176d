//! Where annotated pictures are written.

use saltica::draw::Annotator;
use saltica::inputs::{self, Pictures, Source};
use saltica::{EncodedFormat, Error, ErrorKind, Image, output};
use saltica_pipeline::source::sim::SimClip;
use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes annotated pictures under names that are different and are no input's.
pub(super) struct Saver {
    pub(super) annotator: Annotator,
    folder: PathBuf,
    inputs: HashSet<PathBuf>,
    used: HashSet<String>,
    /// Nobody asked for the pictures: one of each simulated camera, no file is overwritten, and no failure is one.
    careful: bool,
    gave_up: Option<String>,
}

impl Saver {
    /// All pictures, to a folder that was named for them.
    pub(super) fn new(folder: &Path, sources: &[Source]) -> Result<Saver, Error> {
        output::make_folder(folder)?;
        let files = sources.iter().flat_map(Source::files);
        let inputs = files.filter_map(|f| f.canonicalize().ok()).collect();
        Ok(Saver { inputs, careful: false, ..Saver::careful(folder)? })
    }

    /// The first picture of each simulated camera, to a folder that is made when it is needed.
    pub(super) fn careful(folder: impl Into<PathBuf>) -> Result<Saver, Error> {
        Ok(Saver {
            annotator: Annotator::new()?,
            folder: folder.into(),
            inputs: HashSet::new(),
            used: HashSet::new(),
            careful: true,
            gave_up: None,
        })
    }

    /// Whether this picture is to be drawn.
    pub(super) fn wants(&self, source: &Source, frame: u64) -> bool {
        let simulated = matches!(source.pictures, Pictures::Simulated(_));
        !self.careful || (simulated && frame == 0 && self.gave_up.is_none())
    }

    /// Why pictures that nobody asked for were not drawn.
    pub(super) fn gave_up(&self) -> Option<&str> {
        self.gave_up.as_deref()
    }

    /// Writes a picture; None where it could not be and nobody asked for it.
    pub(super) fn save(&mut self, picture: &Image, from: &str) -> Result<Option<PathBuf>, Error> {
        let (stem, ending, format) = named(from);
        let bytes = picture.encode(format)?;
        if self.careful {
            let written = self.write_new(&stem, ending, &bytes);
            return Ok(written.map_err(|e| self.gave_up = Some(e.to_string())).ok());
        }
        let name = self.unused(&stem, ending);
        let path = self.folder.join(name);
        if path.canonicalize().is_ok_and(|p| self.inputs.contains(&p)) {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("--save would overwrite the input {}: give another folder", path.display()),
            ));
        }
        output::write_file(&path, |to| to.write_all(&bytes))?;
        Ok(Some(path))
    }

    /// Writes a file under the first name that is free, or whose file is this very picture from an earlier run.
    fn write_new(&self, stem: &str, ending: &str, bytes: &[u8]) -> Result<PathBuf, Error> {
        std::fs::create_dir_all(&self.folder).map_err(|e| Error::io("make the folder", &self.folder, &e))?;
        let mut n = 1u32;
        loop {
            let path = self.folder.join(numbered(stem, n, ending));
            if path.symlink_metadata().is_err() {
                output::write_file(&path, |to| to.write_all(bytes))?;
                return Ok(path);
            }
            // To read a pipe waits for who writes to it.
            if path.is_file() && std::fs::read(&path).is_ok_and(|there| there == bytes) {
                return Ok(path);
            }
            n += 1;
        }
    }

    /// A name that no other picture of this run has.
    fn unused(&mut self, stem: &str, ending: &str) -> String {
        let mut n = 1;
        loop {
            let name = numbered(stem, n, ending);
            if self.used.insert(name.to_lowercase()) {
                return name;
            }
            n += 1;
        }
    }
}

fn numbered(stem: &str, n: u32, ending: &str) -> String {
    if n == 1 { format!("{stem}.{ending}") } else { format!("{stem}-{n}.{ending}") }
}

/// Stem, ending and format of what is drawn: the picture's own name, as PNG or JPEG; of a simulated camera its scene, seed
/// and frame.
fn named(from: &str) -> (String, &'static str, EncodedFormat) {
    let jpeg = ("jpg", EncodedFormat::Jpeg(92));
    let file = Path::new(from);
    if let Some(clip) = inputs::is_simulated(file).then(|| SimClip::parse(from).ok()).flatten() {
        let stem = format!("{}-seed{}-frame{}", clip.spec.scene.name(), clip.spec.seed, clip.first);
        return (stem, jpeg.0, jpeg.1);
    }
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let png = file.extension().is_some_and(|e| e.eq_ignore_ascii_case("png"));
    let (ending, format) = if png { ("png", EncodedFormat::Png) } else { jpeg };
    (stem, ending, format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_annotated_pictures_are_different() {
        let mut s = Saver::new(Path::new("."), &[]).unwrap();
        let files = ["a/x.jpg", "b/X.webp", "c/x.png", "d/x.jpeg", "sim:crowded?seed=3&first=9&noise=1"];
        let names = files.map(|f| {
            let (stem, ending, _) = named(f);
            s.unused(&stem, ending)
        });
        assert_eq!(names, ["x.jpg", "X-2.jpg", "x.png", "x-3.jpg", "crowded-seed3-frame9.jpg"]);
    }

    #[test]
    fn nobodys_file_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let mut s = Saver::careful(dir.path().join("out")).unwrap();
        let mut save = |shade: u8| {
            let picture = Image::from_rgb(8, 8, vec![shade; 8 * 8 * 3]).unwrap();
            s.save(&picture, "sim:street?seed=3&first=9").unwrap().unwrap()
        };
        let first = save(10);
        assert_eq!(first.file_name().unwrap(), "street-seed3-frame9.jpg");
        let kept = std::fs::read(&first).unwrap();
        assert_eq!(save(10), first, "the same picture is there already");
        let second = save(200);
        assert_eq!(second.file_name().unwrap(), "street-seed3-frame9-2.jpg");
        assert_eq!(std::fs::read(&first).unwrap(), kept);
    }

    #[test]
    fn pictures_that_nobody_asked_for_may_fail() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("out"), "a file").unwrap();
        let mut s = Saver::careful(dir.path().join("out")).unwrap();
        let picture = Image::from_rgb(8, 8, vec![0; 8 * 8 * 3]).unwrap();
        assert_eq!(s.save(&picture, "sim:street").unwrap(), None);
        assert!(s.gave_up().unwrap().contains("make the folder"));
    }
}
