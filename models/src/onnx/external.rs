//! Tensor data in files beside the model ([ONNX external data](https://onnx.ai/onnx/repo-docs/ExternalData.html)).
//!
//! A model may name any path; only regular files inside the model's own folder are opened, after symbolic links are
//! resolved. They are mapped, so a tensor whose offset is aligned borrows its numbers from the file.

use super::proto::StringStringEntryProto;
use super::quote;
use crate::{Error, ErrorKind, Result};
use bytes::Bytes;
use saltica_tensor::storage::MappedFile;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

/// The folder of a model and the files of it that are mapped already.
pub(super) struct Folder {
    dir: Option<PathBuf>,
    mapped: HashMap<PathBuf, Bytes>,
}

impl Folder {
    pub(super) fn new(dir: Option<&Path>) -> Self {
        // A bare file name has the parent ``.
        let dir = dir.map(|d| if d.as_os_str().is_empty() { PathBuf::from(".") } else { d.to_path_buf() });
        Folder { dir, mapped: HashMap::new() }
    }

    /// The `size` bytes that these entries (`location`, `offset`, `length`) point at.
    pub(super) fn read(&mut self, entries: &[StringStringEntryProto], size: usize) -> Result<Bytes> {
        let malformed = |what: String| Error::new(ErrorKind::Malformed, what);
        let entry = |key: &str| entries.iter().find(|e| e.key == key).map(|e| e.value.as_str());
        let number = |key: &str| match entry(key) {
            None => Ok(None),
            Some(text) => text
                .parse::<usize>()
                .map(Some)
                .map_err(|_| malformed(format!("external data: {key} {} is no number", quote(text)))),
        };
        let location = entry("location")
            .filter(|l| !l.is_empty())
            .ok_or_else(|| malformed("external data without a location".into()))?;
        let offset = number("offset")?.unwrap_or(0);
        if let Some(length) = number("length")?.filter(|l| *l != size) {
            return Err(malformed(format!(
                "external data of {length} bytes in {}, dims and dtype take {size}",
                quote(location)
            )));
        }
        let file = self.open(location)?;
        let end = offset.checked_add(size).filter(|end| *end <= file.len()).ok_or_else(|| {
            malformed(format!(
                "external data: bytes {offset}+{size} of {}, which has {} bytes",
                quote(location),
                file.len()
            ))
        })?;
        Ok(file.slice(offset..end))
    }

    fn open(&mut self, location: &str) -> Result<Bytes> {
        let refused = |why: &str| {
            Error::new(ErrorKind::Malformed, format!("external data in {}: {why}", quote(location)))
        };
        let Some(dir) = &self.dir else {
            return Err(refused(
                "the model was given as bytes, without a folder to look in; load it from its path",
            ));
        };
        let relative = Path::new(location);
        // A backslash separates folders for the tools of another system.
        let inside = relative.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
        if !inside || location.contains('\\') {
            return Err(refused("the path leaves the model's folder, which is not allowed"));
        }
        let failed = |e: std::io::Error| {
            Error::new(ErrorKind::Io, format!("external data in {}: {e}", quote(location)))
        };
        let root = dir.canonicalize().map_err(failed)?;
        let path = root.join(relative).canonicalize().map_err(failed)?;
        if !path.starts_with(&root) {
            return Err(refused("a link leads out of the model's folder, which is not allowed"));
        }
        if let Some(file) = self.mapped.get(&path) {
            return Ok(file.clone());
        }
        let file = map(&path)?;
        self.mapped.insert(path, file.clone());
        Ok(file)
    }
}

/// Maps a regular file. Anything else (a pipe would block) is an error before it is opened.
pub(super) fn map(path: &Path) -> Result<Bytes> {
    let file = MappedFile::open(path).map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
    Ok(Bytes::from_owner(file))
}
