//! Models by name: those inside the program, those that were fetched, and public ones that can be.
//!
//! A text that names a model is read in this order ([`Model::find`]):
//!
//! 1. With a folder before it or `.onnx` behind it, it is a file.
//! 2. A name of [`catalogue`] is that model: inside the program, or a file of the [`folders`], which must have the
//!    published content.
//! 3. Else a file of that name where the program was started, else `NAME.onnx` in the [`folders`].
//!
//! The model inside the program, on a frame of the simulated camera:
//!
//! ```
//! use saltica::{Detector, inputs::Simulator, models::Model};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut detector = Model::find("saltica-nano")?.detector(&Detector::builder().conf(0.5))?;
//! let camera = saltica_pipeline::source::sim::SimSpec::parse("sim:street?seed=10&light=day")?;
//! let mut simulator = Simulator::default();
//! let (picture, truth) = simulator.draw(&camera, 205, None)?;
//! let found = detector.detect(&picture)?;
//! assert!(!found.is_empty() && truth.objects.len() >= found.len());
//! # Ok(())
//! # }
//! ```

mod catalogue;
mod pull;

pub use catalogue::{Entry, Origin, catalogue};
pub use pull::{Progress, Pulled, Puller};

use crate::{Detector, DetectorBuilder, Error, ErrorKind, Result, Session, SessionBuilder, sha256_hex};
use saltica_tensor::storage::MappedFile;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

/// Names the folder that fetched models lie in.
pub const FOLDER_VARIABLE: &str = "SALTICA_MODELS";

/// A model that was found: its file, or its bytes inside the program.
#[derive(Clone, Debug)]
pub struct Model {
    name: String,
    place: Place,
    note: Option<String>,
}

#[derive(Clone, Debug)]
enum Place {
    File(PathBuf),
    Inside(&'static [u8]),
}

impl Model {
    /// The model used where none is named: saltica-nano, which is inside the program and knows the simulated scenes.
    pub fn built_in() -> Model {
        Model {
            name: catalogue::SALTICA_NANO.into(),
            place: Place::Inside(saltica_models::zoo::SALTICA_NANO),
            note: None,
        }
    }

    /// The file itself, whatever its name is.
    pub fn file(path: impl Into<PathBuf>) -> Model {
        let path = path.into();
        Model { name: path.display().to_string(), place: Place::File(path), note: None }
    }

    /// The model that a text names; the module's documentation says how. A file with a folder or an ending is not looked
    /// at yet.
    ///
    /// # Errors
    /// A name that nothing has: with the nearest known one, or the list of them; a public model that has not been fetched;
    /// a fetched file that does not have the published content.
    pub fn find(text: impl AsRef<OsStr>) -> Result<Model> {
        Self::find_in(text.as_ref(), Path::new("."), &folders())
    }

    fn find_in(text: &OsStr, here: &Path, folders: &[PathBuf]) -> Result<Model> {
        let path = Path::new(text);
        let is_onnx = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("onnx"));
        let bare = text.is_empty() || (path.components().count() == 1 && path.file_name() == Some(text));
        let Some(name) = text.to_str().filter(|_| bare && !is_onnx) else {
            return Self::of_file(path, here, bare);
        };
        let in_the_way = here.join(name).is_file();
        let note = in_the_way.then(|| {
            format!("{name} is the model of that name, not the file here: give ./{name} for the file")
        });
        if let Some(entry) = catalogue().iter().find(|e| e.name == name) {
            let place = match entry.origin {
                Origin::BuiltIn(bytes) => Place::Inside(bytes),
                Origin::Public { .. } => Place::File(entry.fetched(folders)?.ok_or_else(|| {
                    Error::new(
                        ErrorKind::Usage,
                        format!(
                            "{name} is a public model that is not here yet{}: saltica models pull {name}",
                            searched(folders)
                        ),
                    )
                })?),
            };
            return Ok(Model { name: name.into(), place, note });
        }
        if in_the_way {
            return Ok(Self::file(path));
        }
        let file_name = format!("{name}.onnx");
        if let Some(file) = folders.iter().map(|f| f.join(&file_name)).find(|f| f.is_file()) {
            return Ok(Model { name: name.into(), place: Place::File(file), note: None });
        }
        Err(unknown(name, here.join(&file_name).is_file(), folders))
    }

    /// A file that is missing though a model has its name is the likeliest slip.
    fn of_file(path: &Path, here: &Path, bare: bool) -> Result<Model> {
        let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        if bare && !here.join(path).exists() && catalogue().iter().any(|e| e.name == stem) {
            return Err(Error::new(
                ErrorKind::Io,
                format!("no file {} is here; the model of that name is --model {stem}", path.display()),
            ));
        }
        Ok(Self::file(path))
    }

    /// Its file; None for one inside the program.
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::File(path) => Some(path),
            Place::Inside(_) => None,
        }
    }

    /// What a user should know about how the name was read.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Loads it as a detector.
    ///
    /// # Errors
    /// As [`DetectorBuilder::load`].
    pub fn detector(&self, builder: &DetectorBuilder) -> Result<Detector> {
        match &self.place {
            Place::File(path) => builder.load(path),
            Place::Inside(bytes) => builder.load_bytes(*bytes).map_err(|e| self.named(e)),
        }
    }

    /// Loads it to run on tensors.
    ///
    /// # Errors
    /// As [`SessionBuilder::load`].
    pub fn session(&self, builder: &SessionBuilder) -> Result<Session> {
        match &self.place {
            Place::File(path) => builder.load(path),
            Place::Inside(bytes) => builder.load_bytes(*bytes).map_err(|e| self.named(e)),
        }
    }

    /// Size in bytes and SHA-256 (hexadecimal) of the ONNX file; None where it cannot be read.
    pub fn content(&self) -> Option<(u64, String)> {
        let of = |b: &[u8]| (b.len() as u64, sha256_hex(b));
        match &self.place {
            Place::File(path) => MappedFile::open(path).ok().map(|f| of(f.as_ref())),
            Place::Inside(bytes) => Some(of(bytes)),
        }
    }

    fn named(&self, e: Error) -> Error {
        Error::new(e.kind(), format!("{}: {e}", self.name))
    }
}

impl fmt::Display for Model {
    /// The name, or the file as typed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The known model of this name.
///
/// # Errors
/// A name that none has: with the nearest known one, or the list of them.
pub fn known(name: &str) -> Result<&'static Entry> {
    catalogue().iter().find(|e| e.name == name).ok_or_else(|| {
        let advice = near(name).map_or_else(String::new, |k| format!(": did you mean {k}?"));
        Error::new(ErrorKind::Usage, format!("no known model is called {name:?}{advice}\n{}", names()))
    })
}

/// The known models.
fn names() -> String {
    let known: Vec<&str> = catalogue().iter().map(|e| e.name).collect();
    format!("Known models: {} (saltica models list)", known.join(", "))
}

/// Where a model was looked for in vain: the folder that may have been given wrongly.
fn searched(folders: &[PathBuf]) -> String {
    match folders {
        [] => String::new(),
        [first, ..] if first.exists() && !first.is_dir() => {
            format!(" ({}, where models are to be, is no folder)", first.display())
        }
        [first, ..] => format!(" (it is not in {})", first.display()),
    }
}

/// The known model with the nearest name.
fn near(name: &str) -> Option<&'static str> {
    // The beginning of a name is as good as a name with a slip.
    let lower = name.to_lowercase();
    let begins = |k: &str| name.len() >= 3 && k.starts_with(&lower);
    let distance = |k: &str| if begins(k) { 0 } else { strsim::levenshtein(&lower, &k.to_lowercase()) };
    let (distance, nearest) = catalogue().iter().map(|e| (distance(e.name), e.name)).min()?;
    (distance <= 1 + name.len() / 3).then_some(nearest)
}

/// The error for a name that nothing has, where a file would do as well.
fn unknown(name: &str, file_here: bool, folders: &[PathBuf]) -> Error {
    let advice = match near(name) {
        _ if file_here => format!("give {name}.onnx for the file that is here"),
        Some(k) => format!("did you mean {k}?"),
        None => "a file's name ends in .onnx".into(),
    };
    Error::new(
        ErrorKind::Usage,
        format!(
            "no model is called {name:?}{}: {advice}\n{}; a file is given with its folder or its ending",
            searched(folders),
            names()
        ),
    )
}

/// The folder that models are fetched to: `$SALTICA_MODELS`, else `saltica/models` in `$XDG_DATA_HOME`, else in
/// `~/.local/share` (XDG Base Directory Specification 0.8).
///
/// # Errors
/// None of the three is set to an absolute path.
pub fn folder() -> Result<PathBuf> {
    folder_of(|name| std::env::var_os(name))
}

fn folder_of(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Result<PathBuf> {
    let set = |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    // A relative path in XDG_DATA_HOME is invalid by the specification, and to be ignored.
    let absolute = |name: &str| set(name).filter(|p| p.is_absolute());
    set(FOLDER_VARIABLE)
        .or_else(|| absolute("XDG_DATA_HOME").map(|d| d.join("saltica/models")))
        .or_else(|| absolute("HOME").map(|d| d.join(".local/share/saltica/models")))
        .ok_or_else(|| {
            Error::new(
                ErrorKind::Usage,
                format!("no folder for models: set {FOLDER_VARIABLE}, or HOME to an absolute path"),
            )
        })
}

/// Where models are looked for: the folder they are fetched to, then `share/saltica/models` beside the program's folder,
/// where a package installs some.
pub fn folders() -> Vec<PathBuf> {
    let program = std::env::current_exe().ok().and_then(|p| p.canonicalize().ok());
    let beside = program.and_then(|p| Some(p.parent()?.parent()?.join("share/saltica/models")));
    folder().ok().into_iter().chain(beside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(text: &str, here: &Path, folders: &[PathBuf]) -> String {
        Model::find_in(OsStr::new(text), here, folders).unwrap_err().to_string()
    }

    #[test]
    fn names_files_and_what_stands_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let (here, models) = (dir.path().join("here"), dir.path().join("models"));
        std::fs::create_dir_all(&here).unwrap();
        std::fs::create_dir_all(&models).unwrap();
        let folders = [models.clone()];
        let find = |text: &str| Model::find_in(OsStr::new(text), &here, &folders).unwrap();

        assert_eq!((find("saltica-nano").path(), find("saltica-nano").note()), (None, None));
        std::fs::create_dir(here.join("saltica-nano")).unwrap();
        assert_eq!(find("saltica-nano").note(), None, "a folder is no model");
        std::fs::remove_dir(here.join("saltica-nano")).unwrap();
        std::fs::write(here.join("saltica-nano"), "x").unwrap();
        assert!(find("saltica-nano").note().unwrap().contains("./saltica-nano"));
        assert_eq!(find("./saltica-nano").path(), Some(Path::new("./saltica-nano")));
        assert_eq!(find("a/saltica-nano").path(), Some(Path::new("a/saltica-nano")));

        assert_eq!(find("mine.onnx").path(), Some(Path::new("mine.onnx")));
        std::fs::write(here.join("mine"), "x").unwrap();
        assert_eq!(find("mine").path(), Some(Path::new("mine")));
        std::fs::write(models.join("own.onnx"), "x").unwrap();
        assert_eq!(find("own").path(), Some(models.join("own.onnx").as_path()));
    }

    #[test]
    fn names_that_nothing_has_say_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let folders = [dir.path().to_owned()];
        let near = fails("saltica-nan", dir.path(), &folders);
        assert!(near.contains("did you mean saltica-nano?") && near.contains("yolox-nano"), "{near}");
        assert!(fails("yolox", dir.path(), &folders).contains("did you mean yolox-nano?"));
        assert!(fails("YOLOX_nano", dir.path(), &folders).contains("did you mean yolox-nano?"));
        assert!(fails("yolox-nano", dir.path(), &folders).contains("saltica models pull yolox-nano"));
        assert!(fails("saltica-nano.onnx", dir.path(), &folders).contains("--model saltica-nano"));
        std::fs::write(dir.path().join("zebra.onnx"), "x").unwrap();
        assert!(fails("zebra", dir.path(), &[]).contains("give zebra.onnx"));
        std::fs::write(dir.path().join("yolox-nano.onnx"), "not it").unwrap();
        let e = fails("yolox-nano", dir.path(), &folders);
        assert!(e.contains("not the published file") && e.contains("695e750a"), "{e}");
        assert!(fails("", dir.path(), &folders).contains("no model is called"));
    }

    #[test]
    fn the_folder_follows_the_environment() {
        let with = |set: &[(&str, &str)]| {
            folder_of(|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).into()))
        };
        let all = [("SALTICA_MODELS", "m"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(with(&all).unwrap(), Path::new("m"));
        assert_eq!(with(&all[1..]).unwrap(), Path::new("/x/saltica/models"));
        assert_eq!(with(&all[2..]).unwrap(), Path::new("/h/.local/share/saltica/models"));
        let empty = [("SALTICA_MODELS", ""), ("XDG_DATA_HOME", "relative"), ("HOME", "/h")];
        assert_eq!(with(&empty).unwrap(), Path::new("/h/.local/share/saltica/models"));
        assert!(with(&[]).unwrap_err().to_string().contains("SALTICA_MODELS"));
    }
}
