//! Where output goes: records or text to stdout, errors and progress to stderr.

use super::SIGNALLED;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use saltica::report::{self, Style, printable_lines};
use saltica::{Error, ErrorKind, output};
use serde::Serialize;
use std::io::{self, Stdout, Write};

/// Why a subcommand ends early.
#[derive(Debug)]
pub(super) enum Stop {
    /// Nobody reads stdout any more.
    PipeClosed,
    /// What went wrong.
    Error(Error),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Self {
        Stop::Error(e)
    }
}

/// The two streams and how to write to them.
pub(super) struct Ui {
    out: Stdout,
    /// Records instead of text.
    pub(super) json: bool,
    /// Style of stdout.
    pub(super) style: Style,
    error_style: Style,
}

impl Ui {
    pub(super) fn new(json: bool) -> Self {
        Ui { out: io::stdout(), json, style: Style::of(&io::stdout()), error_style: Style::of(&io::stderr()) }
    }

    /// Writes text to stdout.
    pub(super) fn text(&mut self, text: &str) -> Result<(), Stop> {
        let mut out = self.out.lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(stop)
    }

    /// Writes a record to stdout.
    pub(super) fn record(&mut self, kind: &str, body: &impl Serialize) -> Result<(), Stop> {
        report::write_record(&mut self.out.lock(), kind, body).map_err(stop)
    }

    /// Tells an error on stderr, where it cannot get between records.
    pub(super) fn error(&self, message: &str) {
        self.tell(&self.error_style.red("error:"), message);
    }

    /// Tells on stderr what a user should know though all goes on.
    pub(super) fn warn(&self, message: &str) {
        self.tell(&self.error_style.yellow("warning:"), message);
    }

    /// Tells on stderr what was decided for the user.
    pub(super) fn note(&self, message: &str) {
        let _ = writeln!(io::stderr(), "{}", self.error_style.dim(&printable_lines(message)));
    }

    fn tell(&self, label: &str, message: &str) {
        // Whoever closed stderr does not want to know.
        let _ = writeln!(io::stderr(), "{label} {}", printable_lines(message));
    }

    /// A bar on stderr for `steps` steps of long work; invisible where stderr is no terminal.
    pub(super) fn progress(&self, steps: u64, what: &str) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        let template = "{prefix} {wide_bar} {pos}/{len} {eta} left";
        let bar = bar
            .with_style(
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
            )
            .with_prefix(what.to_owned());
        // Before the first step, too, which may take long.
        bar.tick();
        bar
    }
}

/// Tells beside the bar what the next step has to wait for, while it does.
pub(super) fn meanwhile<T>(bar: &ProgressBar, what: Option<&str>, wait: impl FnOnce() -> T) -> T {
    let Some(what) = what else { return wait() };
    let usual = bar.prefix();
    bar.set_prefix(what.to_owned());
    bar.tick();
    let got = wait();
    bar.set_prefix(usual);
    got
}

fn stop(e: io::Error) -> Stop {
    if e.kind() == io::ErrorKind::BrokenPipe {
        Stop::PipeClosed
    } else {
        Stop::Error(Error::new(ErrorKind::Io, format!("cannot write to stdout: {e}")))
    }
}

/// On Ctrl-C, on a request to terminate and when the terminal is closed: removes files that are half written, then ends
/// the process. A signal that whoever started the program wants ignored (`nohup`, a shell's background) stays ignored.
pub(super) fn remove_half_files_on_signals() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    match signal_hook::iterator::Signals::new(output::heeded(&[SIGHUP, SIGINT, SIGTERM])) {
        Ok(mut signals) => {
            std::thread::spawn(move || {
                if let Some(signal) = signals.forever().next() {
                    output::abandon(SIGNALLED + signal);
                }
            });
        }
        Err(e) => log::warn!("an interrupt may leave half-written files: no handler ({e})"),
    }
}
