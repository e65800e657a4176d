//! Every setting of `saltica run`, once: a row is a flag, a key of the configuration file, a line of the help and a line of
//! `--print-config`.

use std::time::Duration;

use saltica_pipeline::ring::Keep;

use super::settings::{Device, Settings, Shed, SourceSettings};
use super::value::{Kind, Value};
use crate::session::{MemoryMode, Precision};

/// One setting of a `T`.
#[derive(Debug)]
pub struct Key<T> {
    /// Name of the key in the file and, with `--` before it, of the flag.
    pub name: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// What holds where nobody says, as it is written; empty: as the help says.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Whether it changes while the pipeline runs, without a rebuild.
    pub live: bool,
    pub(super) set: fn(&mut T, Value),
}

const SECOND: u64 = 1000;
const DAY: u64 = 24 * 3600 * SECOND;

/// All settings but sources and sinks.
pub const KEYS: &[Key<Settings>] = &[
    Key {
        name: "model",
        kind: Kind::Text("an ONNX file or a model's name (saltica models list)"),
        default: "",
        help: "ONNX file, or a model's name (see `saltica models list`) [default: saltica-nano, which is inside the program]",
        live: false,
        set: |s, v| s.model = v.text(),
    },
    Key {
        name: "device",
        kind: Kind::Choice(&["cpu", "auto", "cuda"]),
        default: "cpu",
        help: "where the model runs; auto: a GPU that runs all of it if there is one, else the CPU, and why",
        live: false,
        set: |s, v| {
            s.device = match v.word() {
                "auto" => Device::Auto,
                "cuda" => Device::Cuda,
                _ => Device::Cpu,
            }
        },
    },
    Key {
        name: "precision",
        kind: Kind::Choice(&["fp16", "fp32"]),
        default: "fp16",
        help: "what floats are computed in on a GPU",
        live: false,
        set: |s, v| s.precision = if v.word() == "fp32" { Precision::F32 } else { Precision::F16 },
    },
    Key {
        name: "memory",
        kind: Kind::Choice(&["auto", "device", "mapped", "managed"]),
        default: "auto",
        help: "where a GPU's inputs lie (see `saltica doctor`)",
        live: false,
        set: |s, v| {
            s.memory = match v.word() {
                "device" => MemoryMode::Device,
                "mapped" => MemoryMode::Mapped,
                "managed" => MemoryMode::Managed,
                _ => MemoryMode::Auto,
            }
        },
    },
    Key {
        name: "threads",
        kind: Kind::Whole(1, 1024),
        default: "",
        help: "threads that compute on the CPU [default: all this process may use]",
        live: false,
        set: |s, v| s.threads = v.whole().map(|n| n as usize),
    },
    Key {
        name: "memory-limit",
        kind: Kind::Bytes,
        default: "",
        help: "most bytes a batch may take: weights, arena and scratch [default: what is available at the start]",
        live: false,
        set: |s, v| s.memory_limit = v.whole(),
    },
    Key {
        name: "imgsz",
        kind: Kind::Text("a size as 640 or 640x480 (width x height)"),
        default: "",
        help: "size of the model's input, where its file leaves it open: 640, or 640x480 (width x height)",
        live: false,
        set: |s, v| s.imgsz = v.text(),
    },
    Key {
        name: "spec",
        kind: Kind::Text("a TOML file"),
        default: "",
        help: "description of the model [default: NAME.toml beside NAME.onnx]",
        live: false,
        set: |s, v| s.spec = v.text(),
    },
    Key {
        name: "head",
        kind: Kind::Text("a head's name"),
        default: "",
        help: "what the outputs mean, where their shapes do not tell",
        live: false,
        set: |s, v| s.head = v.text(),
    },
    Key {
        name: "labels",
        kind: Kind::Text("a file with a class name a line, or coco80"),
        default: "",
        help: "class names: a file with one a line, or coco80",
        live: false,
        set: |s, v| s.labels = v.text(),
    },
    Key {
        name: "score",
        kind: Kind::Number(0.0, 1.0),
        default: "",
        help: "boxes with a score above this count [default: what suits the model, mostly 0.25]; with track, fainter ones count where they carry a track on",
        live: true,
        set: |s, v| s.score = v.number().map(|n| n as f32),
    },
    Key {
        name: "nms",
        kind: Kind::Number(0.0, 1.0),
        default: "",
        help: "of two boxes of a class that overlap by more than this the weaker goes [default: what suits the model]",
        live: true,
        set: |s, v| s.nms = v.number().map(|n| n as f32),
    },
    Key {
        name: "max-det",
        kind: Kind::Whole(1, 10_000),
        default: "",
        help: "most objects in one picture [default: 300]",
        live: true,
        set: |s, v| s.max_det = v.whole().map(|n| n as usize),
    },
    Key {
        name: "classes",
        kind: Kind::Texts("a class by name or number"),
        default: "",
        help: "only these classes, by name or number [default: all]",
        live: true,
        set: |s, v| s.classes = v.texts(),
    },
    Key {
        name: "agnostic",
        kind: Kind::Switch,
        default: "false",
        help: "boxes of different classes suppress each other, too",
        live: true,
        set: |s, v| s.agnostic = v.on(),
    },
    Key {
        name: "track",
        kind: Kind::Switch,
        default: "false",
        help: "follow objects from frame to frame: each has the number of its track",
        live: false,
        set: |s, v| s.track = v.on(),
    },
    Key {
        name: "latency-p99",
        kind: Kind::Span(1, 600 * SECOND),
        default: "",
        help: "a result is of use until so long after its frame's capture, such as 50ms; what would be later is not run \
               [default: whenever it comes]. Sources that keep all their frames have none",
        live: false,
        set: |s, v| s.latency = v.span(),
    },
    Key {
        name: "rate",
        kind: Kind::Number(0.001, 1000.0),
        default: "",
        help: "results a second of each source that are enough [default: every frame]",
        live: false,
        set: |s, v| s.rate = v.number(),
    },
    Key {
        name: "shed",
        kind: Kind::Choice(&["drop-oldest", "lower-rate"]),
        default: "drop-oldest",
        help: "when there is more than can be run in time: answer as many frames as possible, or every second, third ... \
               frame of each source evenly",
        live: false,
        set: |s, v| s.shed = if v.word() == "lower-rate" { Shed::LowerRate } else { Shed::DropOldest },
    },
    Key {
        name: "keep-all",
        kind: Kind::Switch,
        default: "false",
        help: "drop no frame of any source, late is better than never (files, folders and pipes are kept anyway)",
        live: false,
        set: |s, v| s.keep_all = v.on(),
    },
    Key {
        name: "batch",
        kind: Kind::Whole(1, saltica_pipeline::batch::MAX_BATCH as u64),
        default: "8",
        help: "most frames the model looks at together; fewer where more do not pay or do not fit into memory",
        live: false,
        set: |s, v| s.batch = v.whole().map_or(1, |n| n as usize),
    },
    Key {
        name: "max-frames",
        kind: Kind::Whole(1, u64::MAX),
        default: "",
        help: "end after so many results [default: when all sources have ended]",
        live: false,
        set: |s, v| s.max_frames = v.whole(),
    },
    Key {
        name: "duration",
        kind: Kind::Span(1, 366 * DAY),
        default: "",
        help: "end after so long, such as 30s [default: when all sources have ended]",
        live: true,
        set: |s, v| s.duration = v.span(),
    },
    Key {
        name: "preview",
        kind: Kind::Address,
        default: "",
        help: "serve a page with live pictures, /metrics and /health at this address; without one at :8080, for this \
               machine only",
        live: false,
        set: |s, v| s.preview = v.text(),
    },
    Key {
        name: "strict",
        kind: Kind::Switch,
        default: "false",
        help: "take no fallback: an op without a fast kernel, or the CPU where a GPU was looked for, is an error",
        live: false,
        set: |s, v| s.strict = v.on(),
    },
    Key {
        name: "hang",
        kind: Kind::Span(SECOND, DAY),
        default: "20s",
        help: "a stage without sign of life for so long is taken for hung",
        live: true,
        set: |s, v| s.hang = v.span().unwrap_or(Duration::MAX),
    },
    Key {
        name: "restarts",
        kind: Kind::Whole(0, 1000),
        default: "3",
        help: "the pipeline is rebuilt so often within restart-window after a stage died or hung, then the program ends",
        live: true,
        set: |s, v| s.restarts = v.whole().unwrap_or(0) as usize,
    },
    Key {
        name: "restart-window",
        kind: Kind::Span(SECOND, 366 * DAY),
        default: "10m",
        help: "see restarts",
        live: true,
        set: |s, v| s.restart_window = v.span().unwrap_or(Duration::MAX),
    },
    Key {
        name: "quiet",
        kind: Kind::Switch,
        default: "false",
        help: "no status lines and no summary; warnings and errors only",
        live: true,
        set: |s, v| s.quiet = v.on(),
    },
];

/// The settings of one source: what a `[[source]]` may hold beside `uri`.
pub const SOURCE_KEYS: &[Key<SourceSettings>] = &[
    Key {
        name: "name",
        kind: Kind::Text("a name"),
        default: "",
        help: "what the source is called in messages and results [default: its address]",
        live: false,
        set: |s, v| s.name = v.text(),
    },
    Key {
        name: "latency-p99",
        kind: Kind::Span(1, 600 * SECOND),
        default: "",
        help: "as latency-p99 above, for this source",
        live: false,
        set: |s, v| s.latency = v.span(),
    },
    Key {
        name: "rate",
        kind: Kind::Number(0.001, 1000.0),
        default: "",
        help: "as rate above, for this source",
        live: false,
        set: |s, v| s.rate = v.number(),
    },
    Key {
        name: "keep",
        kind: Kind::Choice(&["latest", "all"]),
        default: "",
        help: "when frames come faster than they are used: the latest wins (cameras), or all are kept (files)",
        live: false,
        set: |s, v| s.keep = Some(if v.word() == "all" { Keep::All } else { Keep::Latest }),
    },
];

impl Value {
    fn text(self) -> Option<String> {
        if let Value::Text(t) = self { Some(t) } else { None }
    }

    fn word(&self) -> &str {
        if let Value::Text(t) = self { t } else { "" }
    }

    fn whole(self) -> Option<u64> {
        if let Value::Whole(n) = self { Some(n) } else { None }
    }

    fn number(self) -> Option<f64> {
        if let Value::Number(n) = self { Some(n) } else { None }
    }

    fn on(self) -> bool {
        self == Value::Switch(true)
    }

    fn span(self) -> Option<Duration> {
        if let Value::Span(d) = self { Some(d) } else { None }
    }

    fn texts(self) -> Vec<String> {
        if let Value::Texts(t) = self { t } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sound() {
        for (i, key) in KEYS.iter().enumerate() {
            assert!(KEYS[..i].iter().all(|k| k.name != key.name), "{}", key.name);
            assert!(key.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            assert!(!key.help.is_empty() && !key.help.ends_with('.'), "{}", key.name);
            if !key.default.is_empty() {
                assert!(key.kind.read(key.default).is_ok(), "{}: {}", key.name, key.default);
            }
            // A switch that is on by default could not be turned off by a flag.
            assert!(key.kind != Kind::Switch || key.default == "false", "{}", key.name);
        }
    }
}
