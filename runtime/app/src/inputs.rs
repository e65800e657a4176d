//! Which pictures a command line means: files, folders, patterns, frames of the simulated camera.

use crate::{Error, ErrorKind, Image, Result};
use saltica_pipeline::source::sim::{FrameBuf, Sim, SimClip, SimSpec, Truth};
use std::path::{Path, PathBuf};

/// File name endings taken for pictures when a folder is searched (any case).
pub const IMAGE_EXTENSIONS: [&str; 10] =
    ["bmp", "dib", "jfif", "jpe", "jpeg", "jpg", "png", "tif", "tiff", "webp"];

/// What one argument of the command line stands for: a picture, a folder, a pattern or a simulated camera.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Place among the arguments, from 0.
    pub id: usize,
    /// The argument as typed.
    pub name: String,
    /// Its pictures. A frame's id is its place here.
    pub pictures: Pictures,
    /// Files of the folder that have no picture's ending.
    pub skipped: usize,
}

/// Pictures of a source.
#[derive(Clone, Debug, PartialEq)]
pub enum Pictures {
    /// Files, sorted by name.
    Files(Vec<PathBuf>),
    /// Frames of the simulated camera, drawn when they are looked at.
    Simulated(SimClip),
}

impl Source {
    /// Number of pictures.
    pub fn len(&self) -> u64 {
        match &self.pictures {
            Pictures::Files(files) => files.len() as u64,
            Pictures::Simulated(clip) => clip.frames,
        }
    }

    /// Whether there is no picture.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its files: none of a simulated camera.
    pub fn files(&self) -> &[PathBuf] {
        match &self.pictures {
            Pictures::Files(files) => files,
            Pictures::Simulated(_) => &[],
        }
    }
}

/// Whether an argument is an address of the simulated camera. A file of such a name is reached by `./` before it.
pub fn is_simulated(argument: &Path) -> bool {
    argument.to_str().is_some_and(|a| a.starts_with("sim:"))
}

/// Draws frames of simulated cameras, one camera at a time: of pictures from the same camera only the first one takes
/// long.
#[derive(Debug, Default)]
pub struct Simulator {
    open: Option<Sim>,
    buf: FrameBuf,
}

impl Simulator {
    /// Whether the next frame of this camera takes no longer than others.
    pub fn is_open(&self, spec: &SimSpec) -> bool {
        self.open.as_ref().is_some_and(|s| s.spec() == spec)
    }

    /// Draws frame `number` into the memory of `used`, a picture that is done with.
    ///
    /// # Errors
    /// A value of `spec` is out of range.
    pub fn draw(&mut self, spec: &SimSpec, number: u64, used: Option<Image>) -> Result<(Image, &Truth)> {
        if let Some(image) = used {
            self.buf.rgb = image.into_data();
        }
        let sim = match self.open.take().filter(|s| s.spec() == spec) {
            Some(same) => same,
            None => Sim::open(spec)?,
        };
        let sim = self.open.insert(sim);
        let truth = sim.frame(number, &mut self.buf)?;
        let image = Image::from_rgb(self.buf.width, self.buf.height, std::mem::take(&mut self.buf.rgb))?;
        Ok((image, truth))
    }
}

/// Turns arguments into pictures.
///
/// An argument that starts with `sim:` is a simulated camera ([`SimClip::parse`]). One that exists is taken literally, whatever characters it has. A folder stands for the pictures directly in
/// it (`'folder/**/*.jpg'` reaches sub-folders). Anything else with `*`, `?` or `[` is a pattern; what it matches is
/// taken for pictures if it has a picture's ending, and folders are passed over.
///
/// # Errors
/// All arguments that name nothing, in one error.
pub fn expand(arguments: &[impl AsRef<std::ffi::OsStr>]) -> Result<Vec<Source>> {
    let mut problems = Vec::new();
    let mut sources = Vec::new();
    for (id, argument) in arguments.iter().enumerate() {
        let path = Path::new(argument.as_ref());
        let name = path.to_string_lossy().into_owned();
        let found = if is_simulated(path) {
            SimClip::parse(&name).map(|clip| (Pictures::Simulated(clip), 0)).map_err(|e| e.to_string())
        } else {
            files_of(path, &name).map(|(files, skipped)| (Pictures::Files(files), skipped))
        };
        match found {
            Ok((pictures, skipped)) => sources.push(Source { id, name, pictures, skipped }),
            Err(e) => problems.push(e),
        }
    }
    if problems.is_empty() { Ok(sources) } else { Err(Error::new(ErrorKind::Io, problems.join("\n"))) }
}

fn files_of(path: &Path, name: &str) -> std::result::Result<(Vec<PathBuf>, usize), String> {
    let is_pattern = name.contains(['*', '?', '[']);
    let (mut files, skipped) = match path.metadata() {
        Ok(m) if m.is_dir() => {
            let entries =
                std::fs::read_dir(path).map_err(|e| format!("cannot read the folder {name}: {e}"))?;
            let all: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(|p| p.is_file()).collect();
            let count = all.len();
            let files: Vec<PathBuf> = all.into_iter().filter(|p| has_image_extension(p)).collect();
            let skipped = count - files.len();
            if files.is_empty() {
                return Err(format!(
                    "no picture found in {name} ({skipped} other files); pictures end in {}",
                    IMAGE_EXTENSIONS.join(", ")
                ));
            }
            (files, skipped)
        }
        Ok(_) => (vec![path.to_owned()], 0),
        Err(_) if is_pattern => {
            let matches = glob::glob(name).map_err(|e| format!("{name} is no valid pattern: {e}"))?;
            let all: Vec<PathBuf> = matches.flatten().filter(|p| p.is_file()).collect();
            let count = all.len();
            let files: Vec<PathBuf> = all.into_iter().filter(|p| has_image_extension(p)).collect();
            if files.is_empty() {
                return Err(format!("no picture matches {name} ({count} other files do)"));
            }
            let skipped = count - files.len();
            (files, skipped)
        }
        Err(e) => return Err(format!("cannot read {name}: {e}")),
    };
    files.sort();
    Ok((files, skipped))
}

/// Whether a file name ends like a picture's.
pub fn has_image_extension(path: &Path) -> bool {
    path.extension()
        .and_then(|e| e.to_str())
        .is_some_and(|e| IMAGE_EXTENSIONS.contains(&e.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.JPG", "a.png", "c.webp", "notes.txt", "odd[1].jpg", "sub/d.jpg"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        dir
    }

    fn names(source: &Source) -> Vec<&str> {
        source.files().iter().map(|p| p.file_name().unwrap().to_str().unwrap()).collect()
    }

    #[test]
    fn folders_files_and_patterns() {
        let dir = folder();
        let at = |p: &str| dir.path().join(p);
        let sources = expand(&[at(""), at("odd[1].jpg"), at("**/*.jpg"), at("*")]).unwrap();
        assert_eq!(names(&sources[0]), ["a.png", "b.JPG", "c.webp", "odd[1].jpg"]);
        assert_eq!((sources[0].id, sources[0].skipped), (0, 1));
        assert_eq!(names(&sources[1]), ["odd[1].jpg"]);
        assert_eq!(names(&sources[2]), ["odd[1].jpg", "d.jpg"]);
        assert_eq!((sources[3].id, sources[3].files().len(), sources[3].skipped), (3, 4, 1));
    }

    #[test]
    fn a_named_file_is_taken_whatever_its_ending() {
        let dir = folder();
        assert_eq!(names(&expand(&[dir.path().join("notes.txt")]).unwrap()[0]), ["notes.txt"]);
    }

    #[test]
    fn every_missing_argument_is_named() {
        let dir = folder();
        std::fs::create_dir(dir.path().join("empty")).unwrap();
        let e = expand(&[
            dir.path().join("gone.jpg"),
            dir.path().join("a.png"),
            dir.path().join("*.bmp"),
            dir.path().join("empty"),
            dir.path().join("a[.jpg"),
            PathBuf::from("sim:stret"),
        ])
        .unwrap_err()
        .to_string();
        for part in [
            "gone.jpg: No such file",
            "no picture matches",
            "no picture found in",
            "no valid pattern",
            "mean 'street'",
        ] {
            assert!(e.contains(part), "{part}: {e}");
        }
        assert_eq!(e.lines().count(), 5);
    }

    #[test]
    fn simulated_frames_are_drawn_in_memory_that_is_used_again() {
        let source = &expand(&["sim:street?seed=7&size=320x180&first=5&frames=2"]).unwrap()[0];
        let Pictures::Simulated(clip) = &source.pictures else { panic!("{source:?}") };
        assert_eq!((source.len(), source.files().len()), (2, 0));
        let mut simulator = Simulator::default();
        let (first, truth) = simulator.draw(&clip.spec, clip.number(0), None).unwrap();
        assert_eq!((first.width(), first.height(), truth.frame), (320, 180, 5));
        let (kept, at) = (first.clone(), first.data().as_ptr());
        let (second, _) = simulator.draw(&clip.spec, clip.number(1), Some(first)).unwrap();
        assert_eq!(second.data().as_ptr(), at);
        assert_ne!(second, kept);
        let (again, _) = simulator.draw(&clip.spec, clip.number(0), Some(second)).unwrap();
        assert_eq!(again, kept);
    }
}
