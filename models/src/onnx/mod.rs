//! Reading ONNX files.
//!
//! Opsets 9 to 22 of the default domain, [`OPSETS`]; [IR versions](https://onnx.ai/onnx/repo-docs/IR.html) are not looked
//! at, because a file that can be read at all says what it needs by its opset. `Constant` nodes and initializers become
//! constants of the [`Graph`], whose numbers are borrowed from the mapped file where their address allows it.
//!
//! A file is checked as a whole before it is decoded (`wire`), so that a fault has a byte offset and a hostile file cannot
//! take more memory than its bytes plus a fixed limit. All that is not supported is named in one error.
//!
//! ```
//! use saltica_models::onnx::{self, build::ModelBuilder};
//! use saltica_models::graph::attrs::Attr;
//! use saltica_tensor::{DType, Tensor};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let weights = Tensor::from_slice(&[1, 1, 1, 1], &[2.0f32])?;
//! let model = ModelBuilder::new(17)
//!     .input("x", DType::F32, &["1".into(), "1".into(), "height".into(), "width".into()])
//!     .initializer("w", &weights)
//!     .node("Conv", &["x", "w"], &["y"], &[("kernel_shape", Attr::Ints(vec![1, 1]))])
//!     .output("y", DType::F32)
//!     .encode();
//! let graph = onnx::parse(model, None)?;
//! assert_eq!(graph.nodes.len(), 1);
//! # Ok(())
//! # }
//! ```

pub mod build;
mod convert;
mod external;
mod proto;
mod sniff;
mod tensor;
#[cfg(test)]
mod tests;
mod wire;

use crate::graph::Graph;
use crate::{Error, ErrorKind, Result};
pub use bytes::Bytes;
use prost::Message;
use saltica_tensor::{DType, Shape, Tensor};
use std::ops::RangeInclusive;
use std::path::Path;

/// The opsets of the default domain that this version reads.
pub const OPSETS: RangeInclusive<u32> = 9..=22;

/// Makes the numbers of an initializer that carries none, given its name, dtype and shape; None if it cannot.
pub type Fill<'a> = &'a dyn Fn(&str, DType, &Shape) -> Option<Tensor>;

/// Reads a model file. Tensor data in other files must be inside the model's folder.
///
/// Errors name the path, and the byte, value or node where something is wrong.
pub fn load(path: &Path) -> Result<Graph> {
    Reader::new().load(path)
}

/// Reads an encoded model. `base_dir` is the folder for tensor data in other files; without it such data is an error.
pub fn parse(model: impl Into<Bytes>, base_dir: Option<&Path>) -> Result<Graph> {
    Reader { base_dir, ..Reader::new() }.parse(model)
}

/// Reads models with options.
#[derive(Clone, Copy, Default)]
pub struct Reader<'a> {
    base_dir: Option<&'a Path>,
    fill: Option<Fill<'a>>,
}

impl<'a> Reader<'a> {
    /// The defaults: no folder, initializers without data are an error.
    pub fn new() -> Self {
        Self::default()
    }

    /// The folder in which tensor data in other files is looked for ([`Reader::load`] uses the model's own unless this is
    /// set).
    pub fn base_dir(self, dir: &'a Path) -> Self {
        Reader { base_dir: Some(dir), ..self }
    }

    /// What makes the numbers of initializers that carry none: graphs are shared without their weights, as recipes.
    pub fn fill(self, fill: Fill<'a>) -> Self {
        Reader { fill: Some(fill), ..self }
    }

    /// See [`load`].
    pub fn load(&self, path: &Path) -> Result<Graph> {
        let file = external::map(path)?;
        Reader { base_dir: self.base_dir.or_else(|| path.parent()), ..*self }
            .parse(file)
            .map_err(|e| Error::new(e.kind(), format!("{}: {e}", path.display())))
    }

    /// See [`parse`].
    pub fn parse(&self, model: impl Into<Bytes>) -> Result<Graph> {
        let file: Bytes = model.into();
        if file.is_empty() {
            return Err(Error::new(ErrorKind::Malformed, "0 bytes, an ONNX model expected"));
        }
        let decoded = wire::check(&file).and_then(|()| {
            let model = proto::ModelProto::decode(file.clone())
                .map_err(|e| Error::new(ErrorKind::Malformed, format!("protobuf: {e}")))?;
            if model.graph.is_none() {
                return Err(Error::new(ErrorKind::Malformed, "the file has no graph"));
            }
            Ok(model)
        });
        let model = decoded.map_err(|e| match sniff::looks_like(&file) {
            Some(what) => Error::new(e.kind(), format!("not an ONNX model: the file looks like {what}")),
            None => Error::new(e.kind(), format!("not an ONNX model, or a damaged one: {e}")),
        })?;
        convert::graph(model, &mut external::Folder::new(self.base_dir), self.fill)
    }
}

/// A name from the file as a message shows it: in quotes, escaped, of bounded length.
fn quote(name: &str) -> String {
    const MOST: usize = 120;
    let short: String = name.chars().take(MOST).flat_map(char::escape_debug).collect();
    let dots = if name.chars().nth(MOST).is_some() { "..." } else { "" };
    format!("'{short}{dots}'")
}
