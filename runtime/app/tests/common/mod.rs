//! What the black-box tests share.
#![allow(dead_code, reason = "each test program uses its part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail")]

pub(crate) mod models;
pub(crate) mod schema;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The shared test data; None (said aloud) without it, except in CI, where it must be there.
pub(crate) fn shared() -> Option<PathBuf> {
    let found = std::env::var_os("SALTICA_SHARED").map(PathBuf::from).or_else(|| {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        here.ancestors().map(|d| d.join("shared")).find(|d| d.join("data").is_dir())
    });
    match found.filter(|d| d.join("data").is_dir()) {
        Some(dir) => Some(dir),
        None if std::env::var("CI").is_ok_and(|v| v == "true") => panic!("CI needs the shared data"),
        None => {
            eprintln!("ignored: no shared data");
            None
        }
    }
}

/// Runs the program with stdin closed and no terminal.
pub(crate) fn saltica<I: IntoIterator<Item = S>, S: AsRef<std::ffi::OsStr>>(args: I) -> Output {
    command().args(args).output().expect("the program starts")
}

/// The program, to be given arguments.
pub(crate) fn command() -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_saltica"));
    c.stdin(Stdio::null()).env_remove("NO_COLOR").env_remove("SALTICA_LOG");
    c
}

/// The program with every signal heeded, whatever whoever runs the tests ignores (a shell's background, `nohup`): its process is
/// that of `env`, which becomes the program.
pub(crate) fn command_that_heeds_signals() -> Command {
    let mut c = Command::new("env");
    c.args(["--default-signal", env!("CARGO_BIN_EXE_saltica")]);
    c.stdin(Stdio::null()).env_remove("NO_COLOR").env_remove("SALTICA_LOG");
    c
}

/// What was written to stdout.
pub(crate) fn stdout(o: &Output) -> String {
    String::from_utf8(o.stdout.clone()).expect("text")
}

/// What was written to stderr.
pub(crate) fn stderr(o: &Output) -> String {
    String::from_utf8(o.stderr.clone()).expect("text")
}
