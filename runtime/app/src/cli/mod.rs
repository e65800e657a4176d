//! The command line: one module a subcommand, and what they share.

mod bench;
mod detect;
mod doctor;
mod eval;
mod flags;
mod infer;
mod inspect;
mod models;
mod run;
mod saver;
mod sim;
mod tune;
mod ui;

use clap::{Parser, Subcommand};
use saltica::report::printable_lines;
use std::io::Write;
use std::process::ExitCode;
use ui::{Stop, Ui};

/// How the program ends; part of its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    /// Everything asked for was done.
    Done = 0,
    /// Some inputs or files to write failed, the others were done.
    SomeFailed = 1,
    /// Nothing was done: wrong usage, or something that all depends on cannot be loaded.
    Unusable = 2,
}

/// Ended by a signal, as shells count it: with its number added.
const SIGNALLED: i32 = 128;

const EXIT_CODES: &str = "Exit codes:
  0    everything asked for was done
  1    some inputs or files to write failed, the others were done
  2    wrong usage, or a file that everything depends on cannot be loaded
  130  interrupted (128 and the number of the signal)";

/// Finds objects in pictures with YOLO-style models.
#[derive(Parser)]
#[command(name = "saltica", version, after_help = EXIT_CODES, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// Print reports as JSON, one record a line (the records are documented in SCHEMA.md)
    #[arg(long, global = true)]
    json: bool,
    /// Say more: -v what is done, -vv how
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Subcommand)]
enum Command {
    Detect(detect::Args),
    Run(run::Args),
    Infer(infer::Args),
    Inspect(inspect::Args),
    Bench(bench::Args),
    Eval(eval::Args),
    Doctor(doctor::Args),
    Tune(tune::Args),
    Sim(sim::Args),
    Models(models::Args),
}

/// Parses the command line, runs it, tells errors.
pub(crate) fn main() -> ExitCode {
    let args = Args::parse();
    let level = ["warn", "info", "debug"][usize::from(args.verbose.min(2))];
    env_logger::Builder::from_env(env_logger::Env::new().filter_or("SALTICA_LOG", level))
        .format(|to, record| {
            let style = to.default_level_style(record.level());
            let text = record.args().to_string();
            writeln!(to, "[{style}{:<5}{style:#}] {}", record.level(), printable_lines(&text))
        })
        .init();
    // What runs continuously takes signals itself.
    if !matches!(args.command, Command::Run(_)) {
        ui::remove_half_files_on_signals();
    }
    let mut ui = Ui::new(args.json);
    let result = match args.command {
        Command::Detect(a) => detect::run(&a, &mut ui),
        Command::Run(a) => run::run(&a, &mut ui),
        Command::Infer(a) => infer::run(&a, &mut ui),
        Command::Inspect(a) => inspect::run(&a, &mut ui),
        Command::Bench(a) => bench::run(&a, &mut ui),
        Command::Eval(a) => eval::run(&a, &mut ui),
        Command::Doctor(a) => doctor::run(&a, &mut ui),
        Command::Tune(a) => tune::run(&a, &mut ui),
        Command::Sim(a) => sim::run(&a, &mut ui),
        Command::Models(a) => models::run(&a, &mut ui),
    };
    match result {
        Ok(exit) => ExitCode::from(exit as u8),
        // The reader has seen enough, as `head` does: no failure.
        Err(Stop::PipeClosed) => ExitCode::from(Exit::Done as u8),
        Err(Stop::Error(e)) => {
            ui.error(&e.to_string());
            ExitCode::from(Exit::Unusable as u8)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_do_not_contradict_each_other() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
