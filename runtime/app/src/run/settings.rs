//! What `saltica run` is to do: defaults, then a configuration file, then flags; each setting knows where it came from.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use saltica_pipeline::ring::Keep;
use saltica_pipeline::sink::SinkUri;
use saltica_pipeline::source::SourceUri;

use super::file;
use super::table::{KEYS, Key};
use super::value::Value;
use crate::session::{BackendKind, CudaOptions, MemoryMode, Precision};
use crate::{Detector, DetectorBuilder, Error, ErrorKind, Labels, ModelSpec, Result};

/// Where the model runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// The CPU.
    #[default]
    Cpu,
    /// A GPU if there is one that runs the whole model, else the CPU.
    Auto,
    /// A GPU.
    Cuda,
}

/// What gives way when not every frame can be answered in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shed {
    /// The oldest frames.
    #[default]
    DropOldest,
    /// Every second, third ... frame of each source.
    LowerRate,
}

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said.
    Default,
    /// A line of a file.
    File(PathBuf, usize),
    /// The command line.
    Flag,
}

impl Origin {
    /// An error about what stands there: file and line go before it.
    pub(super) fn of(&self, e: Error) -> Error {
        match self {
            Origin::File(..) => Error::new(e.kind(), format!("{self}: {e}")),
            _ => e,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path, line) => write!(f, "{}:{line}", path.display()),
            Origin::Flag => f.write_str("command line"),
        }
    }
}

/// One source and what is wanted of it.
#[derive(Clone, Debug)]
pub struct SourceSettings {
    /// Its address.
    pub uri: SourceUri,
    /// What it is called.
    pub name: Option<String>,
    /// Until when a result is of use.
    pub latency: Option<Duration>,
    /// Results a second that are enough.
    pub rate: Option<f64>,
    /// Latest wins, or all are kept.
    pub keep: Option<Keep>,
    /// Where it was named.
    pub origin: Origin,
    text: String,
}

impl SourceSettings {
    /// A source as its address says.
    ///
    /// # Errors
    /// An address that is none; no password is in the message.
    pub fn new(address: &str, origin: Origin) -> Result<SourceSettings> {
        let uri = SourceUri::parse(address)?;
        Ok(SourceSettings {
            uri,
            name: None,
            latency: None,
            rate: None,
            keep: None,
            origin,
            text: address.into(),
        })
    }

    /// What messages call it: no secrets.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.uri.name())
    }

    /// Everything that makes it the source that it is, passwords included: only for comparing.
    fn identity(&self) -> (&str, Option<&str>, Option<Duration>, Option<u64>, Option<Keep>) {
        (&self.text, self.name.as_deref(), self.latency, self.rate.map(f64::to_bits), self.keep)
    }
}

/// One sink.
#[derive(Clone, Debug)]
pub struct SinkSettings {
    /// Its address.
    pub uri: SinkUri,
    /// Where it was named.
    pub origin: Origin,
    text: String,
}

impl SinkSettings {
    /// A sink as its address says.
    ///
    /// # Errors
    /// An address that is none; no password is in the message.
    pub fn new(address: &str, origin: Origin) -> Result<SinkSettings> {
        Ok(SinkSettings { uri: SinkUri::parse(address)?, origin, text: address.into() })
    }

    /// Whether it writes to stdout.
    fn is_stdout(&self) -> bool {
        self.uri.is_stdout()
    }
}

/// What the command line said.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// Addresses of sources; any replace those of the file.
    pub sources: Vec<String>,
    /// Addresses of sinks; any replace those of the file.
    pub sinks: Vec<String>,
    /// Whether results go to stdout as well.
    pub json: bool,
    /// Settings by the name of their row in [`KEYS`].
    pub values: Vec<(&'static str, Value)>,
}

/// All settings of `saltica run`. The rows of [`KEYS`] say what each is.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // the table's help says it
pub struct Settings {
    pub sources: Vec<SourceSettings>,
    pub sinks: Vec<SinkSettings>,
    pub model: Option<String>,
    pub device: Device,
    pub precision: Precision,
    pub memory: MemoryMode,
    pub threads: Option<usize>,
    pub memory_limit: Option<u64>,
    pub imgsz: Option<String>,
    pub spec: Option<String>,
    pub head: Option<String>,
    pub labels: Option<String>,
    pub score: Option<f32>,
    pub nms: Option<f32>,
    pub max_det: Option<usize>,
    pub classes: Vec<String>,
    pub agnostic: bool,
    pub track: bool,
    pub latency: Option<Duration>,
    pub rate: Option<f64>,
    pub shed: Shed,
    pub keep_all: bool,
    pub batch: usize,
    pub max_frames: Option<u64>,
    pub duration: Option<Duration>,
    pub preview: Option<String>,
    pub strict: bool,
    pub hang: Duration,
    pub restarts: usize,
    pub restart_window: Duration,
    pub quiet: bool,
    /// What was said of each row, and where.
    given: Vec<Option<(Value, Origin)>>,
}

impl Settings {
    /// Defaults, then the file, then the flags.
    ///
    /// # Errors
    /// A file that cannot be read; an unknown key, with the nearest known one; a wrong type or value: each with file, line
    /// and key. Addresses that are none. No source at all.
    pub fn load(flags: &Flags) -> Result<Settings> {
        let mut settings = Settings { given: vec![None; KEYS.len()], ..Settings::default() };
        for key in KEYS.iter().filter(|k| !k.default.is_empty()) {
            let value = key.kind.read(key.default).map_err(|e| {
                Error::new(ErrorKind::Run, format!("the default of {} is none: {e}", key.name))
            })?;
            (key.set)(&mut settings, value);
        }
        if let Some(path) = &flags.config {
            let text = std::fs::read_to_string(path).map_err(|e| Error::io("read", path, &e))?;
            file::read(&text, path, &mut settings)?;
        }
        for (name, value) in &flags.values {
            if let Some(at) = KEYS.iter().position(|k| k.name == *name) {
                settings.put(at, value.clone(), Origin::Flag);
            }
        }
        if !flags.sources.is_empty() {
            settings.sources =
                flags.sources.iter().map(|s| SourceSettings::new(s, Origin::Flag)).collect::<Result<_>>()?;
        }
        if !flags.sinks.is_empty() {
            settings.sinks =
                flags.sinks.iter().map(|s| SinkSettings::new(s, Origin::Flag)).collect::<Result<_>>()?;
        }
        if flags.json {
            if let Some(taken) = settings.sinks.iter().find(|s| s.is_stdout()) {
                return Err(Error::new(
                    ErrorKind::Usage,
                    format!("--json writes to stdout, and so does the sink {}: give one of them", taken.uri),
                ));
            }
            settings.sinks.push(SinkSettings::new("json:-", Origin::Flag)?);
        }
        let mut on_stdout = settings.sinks.iter().filter(|s| s.is_stdout());
        if let (Some(one), Some(other)) = (on_stdout.next(), on_stdout.next()) {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("the sinks {} and {} both write to stdout: give one of them", one.uri, other.uri),
            ));
        }
        if settings.sources.is_empty() {
            let where_ =
                flags.config.as_ref().map_or_else(String::new, |p| format!(", nor in {}", p.display()));
            return Err(Error::new(
                ErrorKind::Usage,
                format!(
                    "no source is given{where_}: name at least one, such as /dev/video0, clip.avi or sim:street \
                     (saltica run --help)"
                ),
            ));
        }
        Ok(settings)
    }

    /// Sets a row.
    pub(super) fn put(&mut self, at: usize, value: Value, origin: Origin) {
        if let Some(key) = KEYS.get(at) {
            (key.set)(self, value.clone());
            if let Some(slot) = self.given.get_mut(at) {
                *slot = Some((value, origin));
            }
        }
    }

    /// What was said of a row, and where.
    pub fn given(&self, at: usize) -> Option<&(Value, Origin)> {
        self.given.get(at)?.as_ref()
    }

    /// Rows that differ from `other`'s.
    pub fn changed<'a>(&'a self, other: &'a Settings) -> impl Iterator<Item = &'static Key<Settings>> + 'a {
        let value = |s: &'a Settings, at: usize| s.given(at).map(|(v, _)| v);
        KEYS.iter().enumerate().filter(move |(at, _)| value(self, *at) != value(other, *at)).map(|(_, k)| k)
    }

    /// Whether sources and sinks are the same, in the same order.
    pub fn same_ends(&self, other: &Settings) -> bool {
        let sinks = |s: &Settings| s.sinks.iter().map(|s| s.text.clone()).collect::<Vec<_>>();
        self.sources.len() == other.sources.len()
            && self.sources.iter().zip(&other.sources).all(|(a, b)| a.identity() == b.identity())
            && sinks(self) == sinks(other)
    }

    /// Whether results go to stdout, so that nothing else may.
    pub fn uses_stdout(&self) -> bool {
        self.sinks.iter().any(SinkSettings::is_stdout)
    }

    /// All effective settings as a configuration file, each with where it came from. No passwords are in it.
    pub fn show(&self) -> String {
        let mut out = String::new();
        let mut line = |text: String, origin: &str| {
            out += &if origin.is_empty() { format!("{text}\n") } else { format!("{text:<40} # {origin}\n") };
        };
        for (at, key) in KEYS.iter().enumerate() {
            match self.given(at) {
                Some((value, origin)) => line(format!("{} = {value}", key.name), &origin.to_string()),
                None if key.default.is_empty() => line(format!("# {}: {}", key.name, key.help), ""),
                None => {
                    let value = key.kind.read(key.default).map_or_else(|e| e, |v| v.to_string());
                    line(format!("{} = {value}", key.name), "default");
                }
            }
        }
        for s in &self.sources {
            line("\n[[source]]".into(), "");
            line(format!("uri = {:?}", s.uri.to_string()), &s.origin.to_string());
            let said = [
                s.name.clone().map(|n| ("name", Value::Text(n))),
                s.latency.map(|d| ("latency-p99", Value::Span(d))),
                s.rate.map(|r| ("rate", Value::Number(r))),
                s.keep.map(|k| ("keep", Value::Text(if k == Keep::All { "all" } else { "latest" }.into()))),
            ];
            for (key, value) in said.into_iter().flatten() {
                line(format!("{key} = {value}"), "");
            }
        }
        for s in &self.sinks {
            line("\n[[sink]]".into(), "");
            line(format!("uri = {:?}", s.uri.to_string()), &s.origin.to_string());
        }
        out
    }

    /// What computes.
    pub fn backend(&self) -> BackendKind {
        let options = CudaOptions { device: 0, precision: self.precision, memory: self.memory };
        match self.device {
            Device::Cpu => BackendKind::Cpu,
            Device::Auto => BackendKind::Auto(options),
            Device::Cuda => BackendKind::Cuda(options),
        }
    }

    /// The detector's settings, but for thresholds, which change while it runs.
    ///
    /// # Errors
    /// A size that is none, labels or a description that cannot be read.
    pub fn detector(&self) -> Result<DetectorBuilder> {
        let mut b = Detector::builder().backend(self.backend()).strict(self.strict);
        if let Some(n) = self.threads {
            b = b.threads(n);
        }
        if let Some(n) = self.memory_limit {
            b = b.memory_limit(usize::try_from(n).unwrap_or(usize::MAX));
        }
        if let Some((w, h)) = self.imgsz.as_deref().map(size).transpose()? {
            b = b.size(w, h);
        }
        if let Some(name) = &self.head {
            b = b.head(name);
        }
        if let Some(name) = &self.labels {
            b = b.labels(Labels::named(name, None)?);
        }
        if let Some(path) = &self.spec {
            b = b.spec(ModelSpec::open(Path::new(path))?);
        }
        Ok(b)
    }
}

fn size(text: &str) -> Result<(usize, usize)> {
    let side = |t: &str| t.trim().parse::<usize>().ok().filter(|s| (1..=1 << 16).contains(s));
    let both = match text.split_once(['x', ',']) {
        Some((w, h)) => side(w).zip(side(h)),
        None => side(text).map(|s| (s, s)),
    };
    both.ok_or_else(|| {
        Error::new(
            ErrorKind::Usage,
            format!("imgsz {text:?} found, a size as 640 or 640x480 (width x height) expected"),
        )
    })
}
