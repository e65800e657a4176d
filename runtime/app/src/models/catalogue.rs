//! The table of known models.
//!
//! A public model is listed only if its SHA-256 was computed from the published file itself, and only with an address that
//! holds this file for ever: one of a commit, not of a branch.

use crate::{Error, ErrorKind, Result, sha256_hex};
use saltica_tensor::storage::MappedFile;
use std::path::{Path, PathBuf};

/// Name of the model inside the program.
pub(super) const SALTICA_NANO: &str = "saltica-nano";

/// A known model.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// What `--model` takes.
    pub name: &'static str,
    /// What it finds.
    pub task: &'static str,
    /// Number of classes.
    pub classes: usize,
    /// Width and height of its input; None where the file leaves them open.
    pub input: Option<(usize, usize)>,
    /// How pictures become its input.
    pub preprocessing: &'static str,
    /// Licence of the weights (SPDX).
    pub licence: &'static str,
    /// Who made it, and where it is described.
    pub source: &'static str,
    /// Where its bytes are.
    pub origin: Origin,
}

/// Where the bytes of a known model are.
#[derive(Clone, Copy, Debug)]
pub enum Origin {
    /// Inside the program.
    BuiltIn(&'static [u8]),
    /// In a public file.
    Public {
        /// Address of the file.
        url: &'static str,
        /// Its size.
        bytes: u64,
        /// Its SHA-256, hexadecimal.
        sha256: &'static str,
    },
}

/// All known models, the one inside the program first.
pub fn catalogue() -> &'static [Entry] {
    ENTRIES
}

const ENTRIES: &[Entry] = &[
    Entry {
        name: SALTICA_NANO,
        task: "street objects, simulated",
        classes: 8,
        input: Some((480, 480)),
        preprocessing: "RGB / 255, letterbox, pad 114",
        licence: "MIT OR Apache-2.0",
        source: "this project, models/zoo/saltica-nano",
        origin: Origin::BuiltIn(saltica_models::zoo::SALTICA_NANO),
    },
    Entry {
        name: "yolox-nano",
        task: "objects (COCO)",
        classes: 80,
        input: Some((416, 416)),
        preprocessing: "BGR x 1, letterbox-top-left, pad 114",
        licence: "Apache-2.0",
        source: "Megvii's YOLOX, exported by github.com/Kazuhito00/YOLOX-ONNX-TFLite-Sample",
        origin: Origin::Public {
            url: "https://raw.githubusercontent.com/Kazuhito00/YOLOX-ONNX-TFLite-Sample/3d4f1119d0694200671c08069ecb847aa0d8495a/model/yolox_nano.onnx",
            bytes: 3_660_092,
            sha256: "695e750a5d5754bb5a8d5325643b59282191a7e7a564e435a415fd3c578eab14",
        },
    },
    Entry {
        name: "fastestdet",
        task: "objects (COCO)",
        classes: 80,
        input: Some((352, 352)),
        preprocessing: "BGR / 255, stretch, pad 114",
        licence: "BSD-3-Clause",
        source: "github.com/dog-qiuqiu/FastestDet",
        origin: Origin::Public {
            url: "https://raw.githubusercontent.com/dog-qiuqiu/FastestDet/50473cd155cb088aa4a99e64ff6a4b3c24fa07e1/example/onnx-runtime/FastestDet.onnx",
            bytes: 998_169,
            sha256: "31cb14c017fce347cb4c846ec62fdf00d76bb3beecdf4be21e7116ac67feb880",
        },
    },
    Entry {
        name: "yunet-320",
        task: "faces, five points",
        classes: 1,
        input: Some((320, 320)),
        preprocessing: "BGR x 1, letterbox-top-left, pad 0",
        licence: "Apache-2.0",
        source: "github.com/ShiqiYu/libfacedetection.train",
        origin: Origin::Public {
            url: "https://raw.githubusercontent.com/ShiqiYu/libfacedetection.train/0047ac24afb1a50a0c6105001c89d1b5b805dbf1/onnx/yunet_n_320_320.onnx",
            bytes: 317_434,
            sha256: "81dbde155e982455488235acb8ec2dec5d647edf7cf7080d33e4abb69b93a0d2",
        },
    },
    Entry {
        name: "yunet-640",
        task: "faces, five points",
        classes: 1,
        input: Some((640, 640)),
        preprocessing: "BGR x 1, letterbox-top-left, pad 0",
        licence: "Apache-2.0",
        source: "github.com/ShiqiYu/libfacedetection.train",
        origin: Origin::Public {
            url: "https://raw.githubusercontent.com/ShiqiYu/libfacedetection.train/0047ac24afb1a50a0c6105001c89d1b5b805dbf1/onnx/yunet_n_640_640.onnx",
            bytes: 317_466,
            sha256: "25a606a145a5b6d7271ae138fbd00eba91dad8b83222ae3f2c7ecd0f4a7b0e31",
        },
    },
    Entry {
        name: "yunet",
        task: "faces, five points",
        classes: 1,
        input: None,
        preprocessing: "BGR x 1, letterbox-top-left, pad 0",
        licence: "Apache-2.0",
        source: "github.com/ShiqiYu/libfacedetection.train",
        origin: Origin::Public {
            url: "https://raw.githubusercontent.com/ShiqiYu/libfacedetection.train/0047ac24afb1a50a0c6105001c89d1b5b805dbf1/onnx/yunet_n_dynamic.onnx",
            bytes: 322_906,
            sha256: "104ee26c71d5c270ce79a6b3dced91c91013260d29a6bf18f9296c5b8c4c2b12",
        },
    },
];

impl Entry {
    /// Size of its ONNX file in bytes.
    pub fn bytes(&self) -> u64 {
        match self.origin {
            Origin::BuiltIn(b) => b.len() as u64,
            Origin::Public { bytes, .. } => bytes,
        }
    }

    /// SHA-256 of its ONNX file, hexadecimal.
    pub fn sha256(&self) -> String {
        match self.origin {
            Origin::BuiltIn(b) => sha256_hex(b),
            Origin::Public { sha256, .. } => sha256.into(),
        }
    }

    /// Address of its ONNX file; None for the one inside the program.
    pub fn url(&self) -> Option<&'static str> {
        match self.origin {
            Origin::BuiltIn(_) => None,
            Origin::Public { url, .. } => Some(url),
        }
    }

    /// Name of its file in a folder of models.
    pub fn file_name(&self) -> String {
        format!("{}.onnx", self.name)
    }

    /// Its file in one of the folders; None where there is none.
    ///
    /// # Errors
    /// A file that has not the published content, or cannot be read; a folder or a pipe in its place.
    pub fn fetched(&self, folders: &[PathBuf]) -> Result<Option<PathBuf>> {
        let Some(path) = folders.iter().map(|f| f.join(self.file_name())).find(|f| f.exists()) else {
            return Ok(None);
        };
        if let Some(found) = in_the_way(&path) {
            return Err(Error::new(
                ErrorKind::Io,
                format!("{} is {found}, not the model's file: move it away", path.display()),
            ));
        }
        let file = MappedFile::open(&path)?;
        let (found, expected) = (sha256_hex(file.as_ref()), self.sha256());
        if found == expected {
            return Ok(Some(path));
        }
        Err(Error::new(
            ErrorKind::Format,
            format!(
                "{} is not the published file (SHA-256 {found} found, {expected} expected): fetch it again with \
                 saltica models pull {}",
                path.display(),
                self.name
            ),
        ))
    }
}

/// What is under a file's name that is no file, nor a link to one or to nothing.
pub(super) fn in_the_way(path: &Path) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt;
    let kind = path.metadata().ok()?.file_type();
    match kind {
        k if k.is_file() => None,
        k if k.is_dir() => Some("a folder"),
        k if k.is_fifo() => Some("a pipe"),
        k if k.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}
