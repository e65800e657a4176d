//! What a model wants in and means by its outputs, from a description file, the model's own metadata, the table of known
//! public files, or flags.
//!
//! A description is a TOML file beside the model (`NAME.toml` for `NAME.onnx`) or given with `--spec`. All keys are
//! optional; unknown keys are errors. What no source says is filled with the defaults of the head.
//!
//! ```toml
//! head = "yolox"                 # which head, see `heads::NAMES`; needed where shapes alone do not tell
//! labels = "coco80"              # or ["cat", "dog"], or the name of a text file beside this one, one label a line
//! color = "bgr"                  # order of the input channels: "rgb" or "bgr"
//! scale = 1.0                    # input = (byte * scale - mean) / std; a number
//! mean = [0.0, 0.0, 0.0]         # a number or three, in the order of the channels
//! std = [1.0, 1.0, 1.0]          # a number or three
//! resize = "letterbox-top-left"  # "letterbox", "letterbox-top-left", "stretch" or "crop"
//! pad = 114                      # byte value of the padding, 0 to 255
//! size = [416, 416]              # input width and height, or one number for both, where the model leaves it open
//! stride = 32                    # sides of an open input size must be multiples of this
//! strides = [8, 16, 32]          # strides of the output grids
//! keypoints = [17, 3]            # number of keypoints and values for each (2: x, y; 3: x, y, visibility)
//! conf = 0.25                    # default score threshold
//! iou = 0.45                     # default overlap above which the weaker box goes
//! max_det = 300                  # default for the most objects a picture
//! ```

mod known;
mod labels;
mod literal;
mod metadata;

pub use known::{known_model, sha256_hex};
pub use labels::{COCO_80, Labels};
pub use metadata::Task;

use crate::{ColorOrder, Error, ErrorKind, InputSpec, Result};
use saltica_tensor::ResizeMode;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A description of a model; every part may be missing. Sources are layered with [`ModelSpec::or`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelSpec {
    /// Name of the head, one of [`crate::heads::NAMES`].
    pub head: Option<String>,
    /// Class names.
    pub labels: Option<Labels>,
    /// Order of the input channels.
    pub color: Option<ColorOrder>,
    /// See [`InputSpec`].
    pub scale: Option<f64>,
    /// See [`InputSpec`].
    pub mean: Option<[f64; 3]>,
    /// See [`InputSpec`].
    pub std: Option<[f64; 3]>,
    /// How pictures are placed.
    pub resize: Option<ResizeMode>,
    /// Byte value of the padding.
    pub pad: Option<u8>,
    /// Input width and height, where the model leaves them open.
    pub size: Option<(usize, usize)>,
    /// Sides of an open input size must be multiples of this.
    pub stride: Option<usize>,
    /// Strides of the output grids.
    pub strides: Option<Vec<usize>>,
    /// Number of keypoints and values for each.
    pub keypoints: Option<(usize, usize)>,
    /// Default score threshold.
    pub conf: Option<f32>,
    /// Default overlap limit.
    pub iou: Option<f32>,
    /// Default for the most objects a picture.
    pub max_det: Option<usize>,
    /// What the model's metadata says it does. Not a key of the file.
    pub task: Option<Task>,
    /// Where this came from, for messages.
    pub source: Option<String>,
}

const KEYS: [&str; 15] = [
    "head",
    "labels",
    "color",
    "scale",
    "mean",
    "std",
    "resize",
    "pad",
    "size",
    "stride",
    "strides",
    "keypoints",
    "conf",
    "iou",
    "max_det",
];

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOr<T> {
    One(T),
    Many(Vec<T>),
}

impl<T: Copy> OneOr<T> {
    /// One value for all places, or exactly as many as there are.
    fn all<const N: usize>(self, key: &str) -> Result<[T; N]> {
        match self {
            OneOr::One(v) => Ok([v; N]),
            OneOr::Many(v) => {
                let found = v.len();
                v.try_into().map_err(|_| {
                    bad(format!("`{key}` has {found} numbers, a number or a list of {N} expected"))
                })
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum LabelsKey {
    Named(String),
    List(Vec<String>),
}

impl ModelSpec {
    /// Reads a description file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = crate::read::text(path)
            .map_err(|e| Error::new(ErrorKind::Io, format!("{}: {e}", path.display())))?;
        let mut spec = Self::parse(&text, path.parent()).map_err(|e| e.at(path.display()))?;
        spec.source = Some(path.display().to_string());
        Ok(spec)
    }

    /// The description file beside a model (`NAME.toml` for `NAME.onnx`), if there is one.
    pub fn beside(model: impl AsRef<Path>) -> Result<Option<Self>> {
        let path = model.as_ref().with_extension("toml");
        if path.is_file() { Self::open(path).map(Some) } else { Ok(None) }
    }

    /// Reads the text of a description; `folder` is where label files are looked for.
    pub fn parse(text: &str, folder: Option<&Path>) -> Result<Self> {
        let table: toml::Table = text
            .parse()
            .map_err(|e: toml::de::Error| bad(format!("not valid TOML: {}", e.to_string().trim())))?;
        let mut spec = ModelSpec::default();
        for (key, value) in table {
            spec.set(&key, value, folder)?;
        }
        Ok(spec)
    }

    fn set(&mut self, key: &str, value: toml::Value, folder: Option<&Path>) -> Result<()> {
        fn typed<T: serde::de::DeserializeOwned>(key: &str, value: toml::Value, want: &str) -> Result<T> {
            let found = value.to_string();
            value.try_into().map_err(|_| bad(format!("`{key}` is {found}, {want} expected")))
        }
        let among = |what: &str, names: &[&str]| {
            bad(format!(
                "`{key}` is \"{what}\", one of {} expected{}",
                quoted(names),
                suggestion(what, names)
            ))
        };
        match key {
            "head" => {
                let name: String = typed(key, value, "a head's name")?;
                if !crate::heads::NAMES.contains(&name.as_str()) {
                    return Err(among(&name, &crate::heads::NAMES));
                }
                self.head = Some(name);
            }
            "labels" => {
                self.labels = Some(match typed(key, value, "a list of names, \"coco80\" or a file name")? {
                    LabelsKey::List(names) => Labels::new(names)?,
                    LabelsKey::Named(name) => Labels::named(&name, folder)?,
                });
            }
            "color" => {
                let name: String = typed(key, value, "\"rgb\" or \"bgr\"")?;
                self.color = Some(match name.to_ascii_lowercase().as_str() {
                    "rgb" => ColorOrder::Rgb,
                    "bgr" => ColorOrder::Bgr,
                    _ => return Err(among(&name, &["rgb", "bgr"])),
                });
            }
            "scale" => {
                let v: f64 = typed(key, value, "a number such as 0.00392156862745098 (1/255)")?;
                if !v.is_finite() || v == 0.0 {
                    return Err(bad(format!("`scale` is {v}, a number other than 0 expected")));
                }
                self.scale = Some(v);
            }
            "mean" => {
                let v = typed::<OneOr<f64>>(key, value, "a number or three")?.all::<3>(key)?;
                if v.iter().any(|v| !v.is_finite()) {
                    return Err(bad(format!("`mean` is {v:?}, finite numbers expected")));
                }
                self.mean = Some(v);
            }
            "std" => {
                let v = typed::<OneOr<f64>>(key, value, "a number or three")?.all::<3>(key)?;
                if v.iter().any(|v| !v.is_normal()) {
                    return Err(bad(format!("`std` is {v:?}, finite numbers other than 0 expected")));
                }
                self.std = Some(v);
            }
            "resize" => {
                let name: String = typed(key, value, "a resize rule")?;
                let names = ResizeMode::ALL.map(ResizeMode::name);
                self.resize = Some(
                    ResizeMode::ALL
                        .into_iter()
                        .find(|m| m.name() == name)
                        .ok_or_else(|| among(&name, &names))?,
                );
            }
            "pad" => self.pad = Some(typed(key, value, "a whole number from 0 to 255")?),
            "size" => {
                let [w, h] =
                    typed::<OneOr<usize>>(key, value, "a size in pixels or [width, height]")?.all(key)?;
                if w == 0 || h == 0 {
                    return Err(bad(format!("`size` is [{w}, {h}], sides of at least 1 expected")));
                }
                self.size = Some((w, h));
            }
            "stride" => {
                self.stride = Some(positive(key, typed(key, value, "a whole number of pixels")?)?);
            }
            "strides" => {
                let v: Vec<usize> = typed(key, value, "a list of whole numbers")?;
                if v.is_empty() || v.len() > 8 {
                    return Err(bad(format!("`strides` has {} entries, 1 to 8 expected", v.len())));
                }
                for &s in &v {
                    positive(key, s)?;
                }
                self.strides = Some(v);
            }
            "keypoints" => {
                let [n, d]: [usize; 2] = typed(key, value, "[count, values for each]")?;
                if n == 0 || n > 10_000 || !(d == 2 || d == 3) {
                    return Err(bad(format!("`keypoints` is [{n}, {d}], [count, 2 or 3] expected")));
                }
                self.keypoints = Some((n, d));
            }
            "conf" => self.conf = Some(fraction(key, typed(key, value, "a number from 0 to 1")?)?),
            "iou" => self.iou = Some(fraction(key, typed(key, value, "a number from 0 to 1")?)?),
            "max_det" => self.max_det = Some(positive(key, typed(key, value, "a whole number")?)?),
            _ => {
                return Err(bad(format!(
                    "unknown key `{key}`{}; the keys are {}",
                    suggestion(key, &KEYS),
                    KEYS.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// This description, with what it leaves open taken from `other`.
    pub fn or(self, other: ModelSpec) -> ModelSpec {
        ModelSpec {
            head: self.head.or(other.head),
            labels: self.labels.or(other.labels),
            color: self.color.or(other.color),
            scale: self.scale.or(other.scale),
            mean: self.mean.or(other.mean),
            std: self.std.or(other.std),
            resize: self.resize.or(other.resize),
            pad: self.pad.or(other.pad),
            size: self.size.or(other.size),
            stride: self.stride.or(other.stride),
            strides: self.strides.or(other.strides),
            keypoints: self.keypoints.or(other.keypoints),
            conf: self.conf.or(other.conf),
            iou: self.iou.or(other.iou),
            max_det: self.max_det.or(other.max_det),
            task: self.task.or(other.task),
            source: match (self.source, other.source) {
                (Some(a), Some(b)) => Some(format!("{a}, {b}")),
                (a, b) => a.or(b),
            },
        }
    }

    /// The preprocessing; what is left open is [`InputSpec::default`].
    pub fn input_spec(&self) -> InputSpec {
        let d = InputSpec::default();
        InputSpec {
            order: self.color.unwrap_or(d.order),
            scale: self.scale.unwrap_or(d.scale),
            mean: self.mean.unwrap_or(d.mean),
            std: self.std.unwrap_or(d.std),
            resize: self.resize.unwrap_or(d.resize),
            pad: self.pad.unwrap_or(d.pad),
        }
    }

    /// Everything known about a model before its shapes are looked at: what `given` says (flags, `--spec`), else the
    /// description beside the file, else the table of known public files, else the model's own metadata.
    pub fn gather<'a>(
        given: ModelSpec,
        model: Option<&Path>,
        sha256: Option<&str>,
        metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<ModelSpec> {
        let mut spec = given;
        if let Some(beside) = model.map(Self::beside).transpose()?.flatten() {
            spec = spec.or(beside);
        }
        if let Some(known) = sha256.and_then(known_model) {
            spec = spec.or(known);
        }
        Ok(spec.or(Self::from_metadata(metadata)?))
    }
}

fn bad(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Spec, what)
}

fn positive(key: &str, v: usize) -> Result<usize> {
    if (1..=1 << 20).contains(&v) {
        Ok(v)
    } else {
        Err(bad(format!("`{key}` is {v}, 1 to {} expected", 1 << 20)))
    }
}

fn fraction(key: &str, v: f32) -> Result<f32> {
    if (0.0..=1.0).contains(&v) {
        Ok(v)
    } else {
        Err(bad(format!("`{key}` is {v}, a number from 0 to 1 expected")))
    }
}

pub(crate) fn quoted(names: &[&str]) -> String {
    names.iter().map(|n| format!("\"{n}\"")).collect::<Vec<_>>().join(", ")
}

/// `; did you mean "x"?`, if one of the names is close.
pub(crate) fn suggestion(word: &str, names: &[&str]) -> String {
    names
        .iter()
        .map(|n| (edit_distance(&word.to_lowercase(), n), n))
        .min()
        .filter(|&(d, n)| d <= 1 + n.len() / 3)
        .map_or(String::new(), |(_, n)| format!("; did you mean \"{n}\"?"))
}

/// Levenshtein distance: insertions, deletions and substitutions.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

/// Where a label file of this name lies.
fn beside(name: &str, folder: Option<&Path>) -> PathBuf {
    folder.map_or_else(|| PathBuf::from(name), |f| f.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"
        head = "yolox"
        labels = ["cat", "dog"]
        color = "bgr"
        scale = 0.5
        mean = [1, 2.5, 3]
        std = 2
        resize = "letterbox-top-left"
        pad = 0
        size = [416, 320]
        stride = 32
        strides = [8, 16]
        keypoints = [5, 2]
        conf = 0.3
        iou = 1
        max_det = 10
    "#;

    #[test]
    fn every_key_is_read() {
        let s = ModelSpec::parse(FULL, None).unwrap();
        assert_eq!(s.head.as_deref(), Some("yolox"));
        assert_eq!(s.labels.as_ref().unwrap().names(), ["cat", "dog"]);
        let i = s.input_spec();
        assert_eq!(
            (i.order, i.scale, i.mean, i.std, i.resize, i.pad),
            (ColorOrder::Bgr, 0.5, [1.0, 2.5, 3.0], [2.0; 3], ResizeMode::LetterboxTopLeft, 0)
        );
        assert_eq!((s.size, s.stride, s.strides), (Some((416, 320)), Some(32), Some(vec![8, 16])));
        assert_eq!((s.keypoints, s.conf, s.iou, s.max_det), (Some((5, 2)), Some(0.3), Some(1.0), Some(10)));
        assert_eq!(KEYS.iter().filter(|k| FULL.contains(&format!("\n        {k} ="))).count(), KEYS.len());
    }

    #[test]
    fn mistakes_are_named_with_a_suggestion() {
        let fails = |text: &str, want: &[&str]| {
            let e = ModelSpec::parse(text, None).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Spec);
            want.iter().for_each(|w| assert!(e.to_string().contains(w), "{e}\nlacks {w}"));
        };
        fails("colour = 'rgb'", &["unknown key `colour`", "did you mean \"color\"?"]);
        fails("zzz = 1", &["unknown key `zzz`", "the keys are head, labels"]);
        fails("head = 'yoloy'", &["did you mean \"yolox\"?"]);
        fails("color = 'grb'", &["one of \"rgb\", \"bgr\""]);
        fails("resize = 'letter-box'", &["did you mean \"letterbox\"?"]);
        fails("pad = 256", &["`pad` is 256", "0 to 255"]);
        fails("pad = -1", &["0 to 255"]);
        fails("std = [1, 0, 1]", &["other than 0"]);
        fails("std = [1, 1]", &["`std` has 2 numbers"]);
        fails("std = 'x'", &["a number or three"]);
        fails("scale = nan", &["`scale`"]);
        fails("conf = 1.5", &["from 0 to 1"]);
        fails("iou = nan", &["from 0 to 1"]);
        fails("strides = [8, 0]", &["`strides` is 0"]);
        fails("keypoints = [17, 4]", &["2 or 3"]);
        fails("size = 0", &["at least 1"]);
        fails("labels = 5", &["a list of names"]);
        fails("labels = []", &["empty"]);
        fails("labels = 'no-such-file.txt'", &["no-such-file.txt"]);
        fails("head = ", &["not valid TOML"]);
    }

    #[test]
    fn what_comes_first_wins() {
        let first = ModelSpec::parse("conf = 0.5\ncolor = 'bgr'", None).unwrap();
        let second = ModelSpec::parse("conf = 0.1\npad = 7", None).unwrap();
        let both = first.or(second);
        assert_eq!((both.conf, both.pad, both.color), (Some(0.5), Some(7), Some(ColorOrder::Bgr)));
    }

    #[test]
    fn the_file_beside_the_model_is_found_with_its_labels() {
        let dir = tempfile::tempdir().unwrap();
        let model = dir.path().join("m.onnx");
        assert_eq!(ModelSpec::beside(&model).unwrap(), None);
        std::fs::write(dir.path().join("names.txt"), "cat\r\n\n dog \n").unwrap();
        std::fs::write(dir.path().join("m.toml"), "labels = 'names.txt'").unwrap();
        let s = ModelSpec::beside(&model).unwrap().unwrap();
        assert_eq!(s.labels.unwrap().names(), ["cat", "dog"]);
        std::fs::write(dir.path().join("m.toml"), "lables = 'names.txt'").unwrap();
        let e = ModelSpec::beside(&model).unwrap_err().to_string();
        assert!(e.contains("m.toml") && e.contains("did you mean \"labels\"?"), "{e}");
    }
}
