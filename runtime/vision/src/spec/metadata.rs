//! What exporters write into a model's own metadata.

use super::literal::{self, Value};
use super::{Labels, ModelSpec, bad};
use crate::{ColorOrder, Result};
use saltica_tensor::ResizeMode;
use std::fmt;

/// What a model does, as its metadata says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Task {
    /// Boxes.
    Detect,
    /// Boxes and masks.
    Segment,
    /// Boxes and keypoints.
    Pose,
    /// Oriented boxes.
    Oriented,
    /// One label for the whole picture.
    Classify,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Task::Detect => "detect",
            Task::Segment => "segment",
            Task::Pose => "pose",
            Task::Oriented => "obb",
            Task::Classify => "classify",
        })
    }
}

impl ModelSpec {
    /// What a model's metadata says, as Ultralytics (`names`, `stride`, `imgsz`, `task`, `kpt_shape`, `end2end`, `args`,
    /// `head`), YOLOv5 (`names`, `stride`) and LibreYOLO (`model_family`) write it. Unknown keys are passed over; known
    /// keys with malformed values are logged and passed over, except `names`, whose loss would mislabel objects.
    pub fn from_metadata<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<ModelSpec> {
        let mut spec = ModelSpec::default();
        let (mut end_to_end, mut transformer, mut family, mut libre) = (false, false, None, false);
        let mut any = false;
        for (key, text) in pairs {
            let value = || match literal::parse(text) {
                Ok(v) => Some(v),
                Err(e) => {
                    log::warn!("the model's metadata has a malformed `{key}`: {e}");
                    None
                }
            };
            any = true;
            match key {
                "names" => {
                    spec.labels = Some(names(text).map_err(|e| {
                        e.at("the model's metadata has class names that cannot be read (give them with --labels)")
                    })?);
                }
                "stride" => {
                    spec.stride = value()
                        .and_then(|v| match v {
                            Value::List(l) => l.iter().filter_map(Value::as_usize).max(),
                            v => v.as_usize(),
                        })
                        .filter(|&s| (1..=1024).contains(&s))
                }
                "imgsz" => spec.size = value().and_then(|v| size(&v)),
                "kpt_shape" => {
                    spec.keypoints = value().and_then(|v| match v {
                        Value::List(l) => match l.as_slice() {
                            [n, d] => Some((n.as_usize()?, d.as_usize()?)),
                            _ => None,
                        },
                        _ => None,
                    });
                    spec.keypoints =
                        spec.keypoints.filter(|&(n, d)| (1..=10_000).contains(&n) && (d == 2 || d == 3));
                }
                "task" => {
                    spec.task = match text.trim() {
                        "detect" => Some(Task::Detect),
                        "segment" => Some(Task::Segment),
                        "pose" => Some(Task::Pose),
                        "obb" => Some(Task::Oriented),
                        "classify" => Some(Task::Classify),
                        other => {
                            log::warn!("the model's metadata names the unknown task \"{other}\"");
                            None
                        }
                    };
                }
                "end2end" => end_to_end |= text.trim().eq_ignore_ascii_case("true"),
                "args" => {
                    if let Some(Value::Dict(d)) = value() {
                        end_to_end |= d.get("nms") == Some(&Value::Bool(true));
                    }
                }
                "head" => transformer |= text.starts_with("RTDETR"),
                "description" => transformer |= text.to_ascii_lowercase().contains("rtdetr"),
                "model_family" => family = Some(text.trim().to_ascii_lowercase()),
                "libreyolo_version" => libre = true,
                _ => {}
            }
        }
        let head = match spec.task {
            Some(Task::Detect) if transformer => Some("rtdetr"),
            Some(Task::Detect) if libre => match family.as_deref() {
                // LibreYOLO exports YOLOX with its grids decoded, trained with YOLOX's own preprocessing.
                Some("yolox") => {
                    spec.color = Some(ColorOrder::Bgr);
                    spec.scale = Some(1.0);
                    spec.resize = Some(ResizeMode::LetterboxTopLeft);
                    Some("yolox-decoded")
                }
                _ => None,
            },
            Some(Task::Detect) if end_to_end => Some("end2end"),
            Some(Task::Segment) if end_to_end => Some("end2end-segment"),
            Some(Task::Pose) if end_to_end => Some("end2end-pose"),
            Some(Task::Oriented) if end_to_end => Some("end2end-obb"),
            // Ultralytics exports the softmax with the classifier.
            Some(Task::Classify) => Some("classify"),
            _ => None,
        };
        spec.head = head.map(String::from);
        spec.source = any.then(|| "the model's metadata".into());
        Ok(spec)
    }
}

fn names(text: &str) -> Result<Labels> {
    let word = |v: Value| match v {
        Value::Str(s) => Some(s),
        Value::Int(i) => Some(i.to_string()),
        Value::Float(f) => Some(f.to_string()),
        _ => None,
    };
    let all: Option<Vec<String>> = match literal::parse(text).map_err(bad)? {
        Value::List(l) => l.into_iter().map(word).collect(),
        Value::Dict(d) => {
            let count = d.len();
            let mut names = vec![None; count];
            for (key, v) in d {
                let place = key.trim().parse::<usize>().ok().and_then(|i| names.get_mut(i));
                match place {
                    Some(place) => *place = word(v),
                    None => {
                        return Err(bad(format!(
                            "class \"{key}\" found among {count} classes, 0 to {} expected",
                            count - 1
                        )));
                    }
                }
            }
            names.into_iter().collect()
        }
        _ => None,
    };
    Labels::new(all.ok_or_else(|| bad("a list or a dict of names expected"))?)
}

/// Ultralytics writes `[height, width]`, others one number.
fn size(v: &Value) -> Option<(usize, usize)> {
    let ok = |s: &usize| (1..=65_536).contains(s);
    match v {
        Value::List(l) => match l.as_slice() {
            [side] => side.as_usize().filter(ok).map(|s| (s, s)),
            [h, w] => Some((w.as_usize().filter(ok)?, h.as_usize().filter(ok)?)),
            _ => None,
        },
        v => v.as_usize().filter(ok).map(|s| (s, s)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ultralytics_metadata_is_understood() {
        // As the exporter 8.4 writes it.
        let s = ModelSpec::from_metadata([
            ("description", "Ultralytics YOLOv8n-pose model "),
            ("author", "Ultralytics"),
            ("stride", "32"),
            ("task", "pose"),
            ("head", "Pose"),
            ("batch", "1"),
            ("imgsz", "[480, 640]"),
            ("names", "{0: 'person'}"),
            (
                "args",
                "{'data': None, 'batch': 1, 'fraction': 1.0, 'nms': None, 'dynamic': False, 'opset': 17}",
            ),
            ("end2end", "False"),
            ("kpt_shape", "[17, 3]"),
        ])
        .unwrap();
        assert_eq!(
            (s.task, s.stride, s.size, s.keypoints),
            (Some(Task::Pose), Some(32), Some((640, 480)), Some((17, 3)))
        );
        assert_eq!(s.labels.unwrap().names(), ["person"]);
        assert_eq!(s.head, None);
    }

    #[test]
    fn suppression_inside_the_graph_is_told_from_either_key() {
        let head = |key, text| ModelSpec::from_metadata([("task", "detect"), (key, text)]).unwrap().head;
        assert_eq!(head("end2end", "True").as_deref(), Some("end2end"));
        assert_eq!(head("args", "{'nms': True}").as_deref(), Some("end2end"));
        assert_eq!(head("args", "{'nms': False}"), None);
        assert_eq!(head("head", "RTDETRDecoder").as_deref(), Some("rtdetr"));
    }

    #[test]
    fn broken_names_are_an_error_and_broken_hints_are_not() {
        for names in ["{0: 'a', 2: 'b'}", "{0: 'a'", "5", "{}", "[]", "{'x': 'y'}", "{0: None}"] {
            let e = ModelSpec::from_metadata([("names", names)]).unwrap_err().to_string();
            assert!(e.contains("--labels"), "{names}: {e}");
        }
        let s = ModelSpec::from_metadata([
            ("stride", "x"),
            ("imgsz", "[0, 5]"),
            ("kpt_shape", "[1]"),
            ("task", "fly"),
        ])
        .unwrap();
        assert_eq!((s.stride, s.size, s.keypoints, s.task), (None, None, None, None));
        let l = ModelSpec::from_metadata([("names", "{1: 'b', '0': 'a'}")]).unwrap().labels.unwrap();
        assert_eq!(l.names(), ["a", "b"]);
    }
}
