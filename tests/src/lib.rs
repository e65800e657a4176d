//! What the suites share: where the test data is, the exporters' graphs with their recipe weights and golden outputs, and
//! how outputs are compared.
//!
//! The data is not part of the project. It is found through the environment variable `SALTICA_SHARED`, else in `../shared`
//! beside the workspace. Without it the suites that need it say so and count as ignored; with `CI=true` they fail.

pub mod backends;
pub mod build;
pub mod chains;
pub mod compare;
pub mod graphs;
pub mod memory;
pub mod random;
pub mod recipe;

use libtest_mimic::{Arguments, Failed, Trial};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Result of this crate's fallible functions: the message is for the person who reads the test's output.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The folder of the test data, if it is there.
pub fn shared() -> Option<PathBuf> {
    let dir = match std::env::var_os("SALTICA_SHARED") {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
    };
    dir.join("data").is_dir().then_some(dir)
}

/// Whether missing test data is a failure.
pub fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|v| v == "true")
}

/// The main function of a suite (`harness = false`) that needs the test data: runs `trials`, or, without the data, reports
/// one test that is ignored (that fails, with `CI=true`).
pub fn suite(trials: impl FnOnce(&Path) -> Result<Vec<Trial>>) -> ExitCode {
    suite_with(Arguments::from_args(), trials)
}

/// As [`suite`], with all tests on the main thread, one after the other: for tests that measure the process.
pub fn suite_in_turn(trials: impl FnOnce(&Path) -> Result<Vec<Trial>>) -> ExitCode {
    suite_with(Arguments { test_threads: Some(1), ..Arguments::from_args() }, trials)
}

fn suite_with(args: Arguments, trials: impl FnOnce(&Path) -> Result<Vec<Trial>>) -> ExitCode {
    let trials = match shared() {
        Some(dir) => trials(&dir).unwrap_or_else(|e| {
            let message = e.to_string();
            vec![Trial::test("the suite's list of tests", move || Err(Failed::from(message)))]
        }),
        None => {
            const MESSAGE: &str = "no shared test data: set SALTICA_SHARED, or put it in ../shared";
            eprintln!("ignored: {MESSAGE}");
            vec![Trial::test("needs_shared_data", || Err(Failed::from(MESSAGE))).with_ignored_flag(!is_ci())]
        }
    };
    libtest_mimic::run(&args, trials).exit_code()
}

/// A test named `name` that fails if `test` errors.
pub fn trial(name: impl Into<String>, test: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || test().map_err(|e| Failed::from(e.to_string())))
}

/// A model file of the test data, unpacked if it is gzipped.
pub struct ModelFile {
    path: PathBuf,
    /// Removed when dropped.
    _folder: Option<tempfile::TempDir>,
}

impl ModelFile {
    /// Where it is, as long as this lives.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The model `path`; one that ends in `.gz` is unpacked to a folder of its own.
pub fn gunzipped(path: &Path) -> Result<ModelFile> {
    if path.extension().is_none_or(|e| e != "gz") {
        return Ok(ModelFile { path: path.to_owned(), _folder: None });
    }
    let folder = tempfile::tempdir()?;
    let unpacked = folder.path().join(path.file_stem().ok_or("a file name")?);
    let packed = std::fs::File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    std::io::copy(&mut flate2::read::GzDecoder::new(packed), &mut std::fs::File::create(&unpacked)?)?;
    Ok(ModelFile { path: unpacked, _folder: Some(folder) })
}

/// The files of a folder whose names end in `suffix`, sorted, without the suffix.
pub fn files(dir: &Path, suffix: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))? {
        let name = entry?.file_name();
        names.extend(name.to_str().and_then(|n| n.strip_suffix(suffix)).map(String::from));
    }
    names.sort();
    Ok(names)
}
