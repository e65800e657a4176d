use super::Exit;
use super::ui::{Stop, Ui};
use indicatif::ProgressStyle;
use saltica::models::{self, Entry, FOLDER_VARIABLE, Origin, Progress, Puller, catalogue};
use saltica::report::{Align, Style, Table, bytes, printable};
use saltica::{Error, ErrorKind};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// List known models, fetch public ones
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    List(List),
    Pull(Pull),
}

/// List known models: the one inside the program, and public ones
#[derive(clap::Args)]
struct List {
    /// Tell addresses, checksums and preprocessing, too
    #[arg(long)]
    long: bool,
}

/// Fetch public models, so that --model finds them by name
///
/// They go to $SALTICA_MODELS, else to saltica/models in $XDG_DATA_HOME, else in ~/.local/share. A transfer that breaks is
/// gone on with by the same command; a file with other content than the published one is never installed. Proxies are
/// taken from ALL_PROXY, HTTPS_PROXY, HTTP_PROXY and NO_PROXY.
#[derive(clap::Args)]
struct Pull {
    /// Names, see `saltica models list`
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Fetch from this address in place of the published one; the content must be the same
    #[arg(long, value_name = "ADDRESS")]
    url: Option<String>,
    /// Longest wait in seconds for a connection, an answer and the next bytes
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    timeout: u32,
    /// Most attempts where the network or the server fails, with pauses of 1, 2, 4, ... seconds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    attempts: u32,
}

#[derive(Serialize)]
struct ModelRecord {
    name: &'static str,
    task: &'static str,
    classes: usize,
    input: Option<[usize; 2]>,
    preprocessing: &'static str,
    bytes: u64,
    sha256: String,
    licence: &'static str,
    source: &'static str,
    url: Option<&'static str>,
    built_in: bool,
    path: Option<String>,
    problem: Option<String>,
}

/// A model that is here now.
#[derive(Serialize)]
struct PullRecord<'a> {
    name: &'a str,
    built_in: bool,
    path: Option<&'a str>,
    bytes: u64,
    sha256: String,
    url: Option<&'a str>,
    transferred: u64,
    resumed: u64,
}

pub(super) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, Stop> {
    match &args.action {
        Action::List(a) => list(a, ui),
        Action::Pull(a) => pull(a, ui),
    }
}

fn list(args: &List, ui: &mut Ui) -> Result<Exit, Stop> {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE).filter(|v| !v.is_empty()).map(PathBuf::from)
        && !folder.is_dir()
    {
        let what = if folder.exists() { "is no folder" } else { "is not there" };
        ui.warn(&format!("{}, which {FOLDER_VARIABLE} names, {what}", folder.display()));
    }
    let folders = models::folders();
    let records: Vec<ModelRecord> = catalogue().iter().map(|e| record(e, &folders)).collect();
    if ui.json {
        for r in &records {
            ui.record("model", r)?;
        }
    } else {
        ui.text(&text(&records, args.long, ui.style))?;
    }
    Ok(Exit::Done)
}

fn record(e: &Entry, folders: &[PathBuf]) -> ModelRecord {
    let built_in = matches!(e.origin, Origin::BuiltIn(_));
    let fetched = if built_in { Ok(None) } else { e.fetched(folders) };
    let (path, problem) = match fetched {
        Ok(path) => (path.map(|p| p.display().to_string()), None),
        Err(e) => (None, Some(e.to_string())),
    };
    ModelRecord {
        name: e.name,
        task: e.task,
        classes: e.classes,
        input: e.input.map(|(w, h)| [w, h]),
        preprocessing: e.preprocessing,
        bytes: e.bytes(),
        sha256: e.sha256(),
        licence: e.licence,
        source: e.source,
        url: e.url(),
        built_in,
        path,
        problem,
    }
}

fn text(records: &[ModelRecord], long: bool, style: Style) -> String {
    let input = |r: &ModelRecord| r.input.map_or_else(|| "any".into(), |[w, h]| format!("{w}x{h}"));
    let place = |r: &ModelRecord| match (&r.path, &r.problem) {
        _ if r.built_in => "inside the program".to_owned(),
        (Some(path), _) => path.clone(),
        (None, Some(_)) => "damaged".to_owned(),
        (None, None) => "-".to_owned(),
    };
    if !long {
        let mut table = Table::new(&[
            ("model", Align::Left),
            ("finds", Align::Left),
            ("classes", Align::Right),
            ("input", Align::Right),
            ("size", Align::Right),
            ("licence", Align::Left),
            ("here", Align::Left),
        ]);
        for r in records {
            let size = bytes(r.bytes);
            table.row([
                r.name.to_owned(),
                r.task.to_owned(),
                r.classes.to_string(),
                input(r),
                size,
                r.licence.to_owned(),
                place(r),
            ]);
        }
        return format!(
            "{}saltica models pull NAME fetches one that is not here; --long tells addresses and checksums\n",
            table.render(style)
        );
    }
    let block = |r: &ModelRecord| {
        let mut facts = Table::new(&[("", Align::Left), ("", Align::Left)]);
        facts.row(["finds", &format!("{}, {} classes", r.task, r.classes)]);
        facts.row(["input", &format!("{}, {}", input(r), r.preprocessing)]);
        facts.row(["size", &format!("{} bytes", r.bytes)]);
        facts.row(["sha256", &r.sha256]);
        facts.row(["licence", r.licence]);
        facts.row(["source", r.source]);
        facts.row(["address", r.url.unwrap_or("-")]);
        facts.row(["here", &place(r)]);
        if let Some(problem) = &r.problem {
            facts.row(["problem", problem]);
        }
        format!("{}\n{}", style.bold(r.name), facts.render(style))
    };
    records.iter().map(block).collect::<Vec<_>>().join("\n")
}

fn pull(args: &Pull, ui: &mut Ui) -> Result<Exit, Stop> {
    if args.url.is_some() && args.names.len() > 1 {
        return Err(Error::new(ErrorKind::Usage, "--url is the address of one model: give one name").into());
    }
    let entries = args.names.iter().map(|name| models::known(name)).collect::<Result<Vec<_>, _>>()?;
    let mut puller = Puller::new(models::folder()?)
        .timeout(Duration::from_secs(args.timeout.into()))
        .attempts(args.attempts, Duration::from_secs(1));
    if let Some(url) = &args.url {
        puller = puller.url(url);
    }
    for entry in entries {
        if matches!(entry.origin, Origin::BuiltIn(_)) {
            ui.note(&format!("{0} is inside the program: --model {0} needs nothing fetched", entry.name));
            if ui.json {
                let record = PullRecord {
                    name: entry.name,
                    built_in: true,
                    path: None,
                    bytes: entry.bytes(),
                    sha256: entry.sha256(),
                    url: None,
                    transferred: 0,
                    resumed: 0,
                };
                ui.record("pull", &record)?;
            }
            continue;
        }
        let bar = ui.progress(entry.bytes(), entry.name);
        let template = "{prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let pulled = puller.pull(entry, |progress| match progress {
            Progress::Bytes(done, _) => bar.set_position(done),
            Progress::Waiting => {
                bar.suspend(|| ui.note(&format!("another program fetches {}: waiting for it", entry.name)));
            }
            Progress::Again(why, pause) => {
                bar.suspend(|| ui.warn(&format!("{why}; again in {:.1} s", pause.as_secs_f64())));
            }
            _ => {}
        });
        bar.finish_and_clear();
        let pulled = pulled?;
        if ui.json {
            let record = PullRecord {
                name: &pulled.name,
                built_in: false,
                path: Some(&pulled.path),
                bytes: pulled.bytes,
                sha256: pulled.sha256,
                url: Some(&pulled.url),
                transferred: pulled.transferred,
                resumed: pulled.resumed,
            };
            ui.record("pull", &record)?;
        } else {
            let how = match (pulled.transferred, pulled.resumed) {
                (0, _) => "was here already".to_owned(),
                (n, 0) => format!("{n} bytes fetched"),
                (n, old) => format!("{n} bytes fetched, {old} were here"),
            };
            ui.text(&format!(
                "{}: {how}, SHA-256 as published\n{}\n",
                ui.style.bold(&pulled.name),
                printable(&pulled.path)
            ))?;
        }
    }
    Ok(Exit::Done)
}
