use super::{bad, beside};
use crate::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Class names, by class number. Cloning shares them.
#[derive(Clone, PartialEq, Eq)]
pub struct Labels(Arc<[String]>);

impl Labels {
    /// The most classes a model may have.
    pub const MAX: usize = 100_000;

    /// These names. Errors when there are none or too many.
    pub fn new(names: Vec<String>) -> Result<Self> {
        if names.is_empty() {
            return Err(bad("the list of labels is empty"));
        }
        if names.len() > Self::MAX {
            return Err(bad(format!("{} labels found, at most {} are supported", names.len(), Self::MAX)));
        }
        Ok(Labels(names.into()))
    }

    /// The 80 names of COCO's detection classes.
    pub fn coco80() -> Self {
        Labels(COCO_80.iter().map(|n| (*n).to_string()).collect())
    }

    /// `coco80`, or a text file (in `folder`, if given) with one label a line; empty lines do not count.
    pub fn named(name: &str, folder: Option<&Path>) -> Result<Self> {
        if name == "coco80" {
            return Ok(Self::coco80());
        }
        let path = beside(name, folder);
        let text = crate::read::text(&path).map_err(|e| {
            Error::new(
                ErrorKind::Spec,
                format!("labels \"{name}\": neither the built-in list \"coco80\" nor a file that can be read: {}: {e}", path.display()),
            )
        })?;
        Self::new(text.lines().map(str::trim).filter(|l| !l.is_empty()).map(String::from).collect())
            .map_err(|e| e.at(path.display()))
    }

    /// All names.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// Number of classes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Never: there is at least one.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A class's name, or `class N` beyond the list.
    pub fn name(&self, class: u32) -> Cow<'_, str> {
        match self.0.get(class as usize) {
            Some(n) => Cow::Borrowed(n),
            None => Cow::Owned(format!("class {class}")),
        }
    }

    /// The number of the class with this name (upper and lower case alike), or of this number.
    pub fn find(&self, name: &str) -> Option<u32> {
        let at = self.0.iter().position(|n| n.eq_ignore_ascii_case(name));
        at.or_else(|| name.parse().ok().filter(|&i| i < self.len())).map(|i| i as u32)
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} labels ({}, ...)", self.len(), self.name(0))
    }
}

/// The classes of COCO's detection task in the order models number them (T.-Y. Lin et al. 2014, 80 of 91 ids in use).
pub const COCO_80: [&str; 80] = [
    "person",
    "bicycle",
    "car",
    "motorcycle",
    "airplane",
    "bus",
    "train",
    "truck",
    "boat",
    "traffic light",
    "fire hydrant",
    "stop sign",
    "parking meter",
    "bench",
    "bird",
    "cat",
    "dog",
    "horse",
    "sheep",
    "cow",
    "elephant",
    "bear",
    "zebra",
    "giraffe",
    "backpack",
    "umbrella",
    "handbag",
    "tie",
    "suitcase",
    "frisbee",
    "skis",
    "snowboard",
    "sports ball",
    "kite",
    "baseball bat",
    "baseball glove",
    "skateboard",
    "surfboard",
    "tennis racket",
    "bottle",
    "wine glass",
    "cup",
    "fork",
    "knife",
    "spoon",
    "bowl",
    "banana",
    "apple",
    "sandwich",
    "orange",
    "broccoli",
    "carrot",
    "hot dog",
    "pizza",
    "donut",
    "cake",
    "chair",
    "couch",
    "potted plant",
    "bed",
    "dining table",
    "toilet",
    "tv",
    "laptop",
    "mouse",
    "remote",
    "keyboard",
    "cell phone",
    "microwave",
    "oven",
    "toaster",
    "sink",
    "refrigerator",
    "book",
    "clock",
    "vase",
    "scissors",
    "teddy bear",
    "hair drier",
    "toothbrush",
];
