use super::Exit;
use super::ui::{Stop, Ui};
use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use saltica::report::{printable, printable_lines};
use saltica::run::table::{KEYS, SOURCE_KEYS};
use saltica::run::value::{Kind, Value};
use saltica::run::{self, Flags, Settings, Tell};
use saltica_pipeline::{sink, source};
use std::fmt::Write;
use std::io::{IsTerminal, stderr};
use std::path::PathBuf;
use std::time::Duration;

const ABOUT: &str = "Run cameras, files and streams through a model, continuously";
const MORE: &str = "Run cameras, files and streams through a model, continuously

Results go to the sinks named with --sink (or, with --json, to stdout, a record `result` for each frame). On a terminal the
state of each source is shown while it runs; a table at the end says what became of every frame. Exit 1: some sources ended by an
error, or a sink lost results.

SIGTERM and SIGINT answer what is on its way and end it (exit 0, in under 2 s); SIGHUP reads the configuration again.
Every setting is a flag and, under the same name, a key of the file given with --config; flags go before the file.";

/// Flags of `saltica run`, made of the table of settings.
pub(super) struct Args {
    flags: Flags,
    print: bool,
}

impl clap::FromArgMatches for Args {
    fn from_arg_matches(m: &ArgMatches) -> Result<Self, clap::Error> {
        let texts = |id| m.get_many::<String>(id).unwrap_or_default().cloned().collect();
        let given = |id: &str| m.value_source(id) == Some(ValueSource::CommandLine);
        let value = |name: &'static str| Some((name, m.get_one::<Value>(name)?.clone()));
        let flags = Flags {
            config: m.get_one::<PathBuf>("config").cloned(),
            sources: texts("source"),
            sinks: texts("sink"),
            json: false,
            values: KEYS.iter().map(|k| k.name).filter(|n| given(n)).filter_map(value).collect(),
        };
        Ok(Args { flags, print: m.get_flag("print-config") })
    }

    fn update_from_arg_matches(&mut self, m: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(m)?;
        Ok(())
    }
}

impl clap::Args for Args {
    fn augment_args(cmd: Command) -> Command {
        let text = |id: &'static str, name: &'static str| Arg::new(id).value_name(name);
        let path = clap::value_parser!(PathBuf);
        let cmd = cmd.about(ABOUT).long_about(MORE).after_help(examples()).after_long_help(reference());
        let cmd = cmd
            .arg(
                text("source", "SOURCE")
                    .num_args(0..)
                    .help("Addresses of cameras, files and streams; replace those of the file"),
            )
            .arg(
                text("config", "FILE.toml")
                    .long("config")
                    .short('c')
                    .value_parser(path)
                    .help("Read settings, sources and sinks from this file"),
            )
            .arg(
                text("sink", "ADDRESS")
                    .long("sink")
                    .short('s')
                    .action(ArgAction::Append)
                    .help("Send results there; may be given several times"),
            )
            .arg(
                Arg::new("print-config")
                    .long("print-config")
                    .action(ArgAction::SetTrue)
                    .help("Print all settings and where each comes from, and end"),
            );
        KEYS.iter().fold(cmd, |cmd, key| {
            let kind = key.kind;
            let mut help = first_upper(key.help);
            if let Kind::Choice(names) = kind {
                let _ = write!(help, " [possible: {}]", names.join(", "));
            }
            if !key.default.is_empty() && kind != Kind::Switch {
                let _ = write!(help, " [default: {}]", key.default);
            }
            let arg = Arg::new(key.name)
                .long(key.name)
                .help(help)
                .value_parser(ValueParser::new(move |text: &str| kind.read(text)));
            cmd.arg(match (kind, kind.placeholder()) {
                // The file may switch it on, so a flag must be able to switch it off.
                (Kind::Switch, _) => arg
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true")
                    .value_name("true|false"),
                (Kind::Address, name) => {
                    arg.num_args(0..=1).default_missing_value(Kind::PORT).value_name(name.unwrap_or_default())
                }
                (_, name) => arg.value_name(name.unwrap_or_default()),
            })
        })
    }

    fn augment_args_for_update(cmd: Command) -> Command {
        Self::augment_args(cmd)
    }
}

fn first_upper(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |c| c.to_uppercase().chain(rest).collect())
}

fn examples() -> String {
    "Examples:
  saltica run sim:street                                 the simulated camera, until Ctrl-C
  saltica run 'sim:street?seed=1' 'sim:crowded?seed=2' --track --preview
                                                         two of them, and a page at http://localhost:8080
  saltica run /dev/video0 --model yolox-nano --json      a camera, results to stdout
  saltica run clip.avi --model yolox-nano --sink json:clip.jsonl --sink avi:marked.avi
                                                         every frame of a file, results and a marked video
  saltica run --config saltica.toml --latency-p99 80ms   a service; --print-config shows what it would do"
        .to_owned()
}

/// The examples, and every address that sources and sinks may have.
fn reference() -> String {
    let mut out = examples();
    out += "\n\nSources:\n";
    for s in source::SCHEMES {
        let _ = writeln!(out, "  {:<6} {}", format!("{}:", s.name), s.help);
    }
    out += "with ?key=value&... behind them (behind # for rtsp):\n";
    for k in source::KEYS {
        let _ = writeln!(out, "  {:<10} {}: {}", k.name, k.values, k.help);
    }
    out += "\nSinks:\n";
    for s in sink::SCHEMES {
        let _ = writeln!(out, "  {:<6} {}", format!("{}:", s.name), s.help);
    }
    out += "\nIn the file, besides the flags' names, a [[source]] has a uri and may have:\n";
    for k in SOURCE_KEYS {
        let _ = writeln!(out, "  {:<12} {}", k.name, k.help);
    }
    out += "and a [[sink]] has a uri. Without more to say, sources = [\"...\"] and sinks = [\"...\"] do.";
    out
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, Stop> {
    let mut flags = args.flags.clone();
    flags.json = ui.json;
    if args.print {
        ui.text(&Settings::load(&flags)?.show())?;
        return Ok(Exit::Done);
    }
    let settings = Settings::load(&flags)?;
    let stdout_taken = settings.uses_stdout();
    let mut screen = Screen::new();
    let result = run::run(&flags, settings, &mut screen);
    screen.clear();
    let outcome = result?;
    if ui.json {
        ui.record("run", &outcome.record)?;
    } else if !outcome.quiet {
        let text = outcome.record.text(ui.style);
        if stdout_taken { say(text.trim_end()) } else { ui.text(&text)? }
    }
    Ok(match outcome.failed() {
        _ if outcome.signalled => Exit::Done,
        (0, _) if outcome.is_short() => Exit::SomeFailed,
        (0, _) => Exit::Done,
        (failed, all) if failed == all => Exit::Unusable,
        _ => Exit::SomeFailed,
    })
}

/// Whoever closed stderr does not want to know.
fn say(text: &str) {
    use std::io::Write as _;
    drop(writeln!(stderr(), "{text}"));
}

/// The terminal, or whoever reads stderr.
struct Screen {
    /// Lines that replace each other, on a terminal.
    bar: Option<ProgressBar>,
}

impl Screen {
    fn new() -> Screen {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.with_style(
                ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()),
            )
        });
        Screen { bar }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say(&printable_lines(text))),
            None => say(&printable_lines(text)),
        }
    }
}

impl Tell for Screen {
    fn note(&mut self, text: &str) {
        self.say(text);
    }

    fn warn(&mut self, text: &str) {
        self.say(&format!("warning: {text}"));
    }

    fn status(&mut self, lines: &[String]) {
        match &self.bar {
            Some(bar) => bar.set_message(printable_lines(&lines.join("\n")).into_owned()),
            None => lines.iter().for_each(|line| say(&printable(line))),
        }
    }

    fn every(&self) -> Duration {
        Duration::from_millis(if self.bar.is_some() { 500 } else { 10_000 })
    }
}
