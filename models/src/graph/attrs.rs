//! Attributes of a node, apart from any file format.

use crate::{Error, Result};
use saltica_tensor::Tensor;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The value of an attribute.
#[derive(Clone, Debug)]
pub enum Attr {
    /// A number.
    Int(i64),
    /// A number.
    Float(f32),
    /// A text.
    String(String),
    /// A tensor.
    Tensor(Tensor),
    /// Numbers.
    Ints(Vec<i64>),
    /// Numbers.
    Floats(Vec<f32>),
    /// Texts.
    Strings(Vec<String>),
}

impl Attr {
    /// The kind and, where it is one number or a short text, the value: what a message can show of it.
    fn describe(&self) -> String {
        match self {
            Attr::Int(v) => format!("Int {v}"),
            Attr::Float(v) => format!("Float {v}"),
            Attr::String(v) => format!("String '{}'", v.chars().take(80).collect::<String>()),
            Attr::Tensor(v) => format!("Tensor {} {}", v.dtype(), v.shape()),
            Attr::Ints(v) => format!("Ints of length {}", v.len()),
            Attr::Floats(v) => format!("Floats of length {}", v.len()),
            Attr::Strings(v) => format!("Strings of length {}", v.len()),
        }
    }
}

/// What an op's parser sees of a node in the file.
///
/// Reading an attribute marks it as known; [`NodeInfo::finish`] refuses attributes that nobody read, so that one with a
/// meaning this version does not know is an error and never ignored.
#[derive(Debug, Default)]
pub struct NodeInfo {
    /// Op type, `Conv`.
    pub op_type: String,
    /// Opset of the node's domain.
    pub opset: u32,
    /// Which inputs are present.
    pub inputs: Vec<bool>,
    /// Which outputs are asked for.
    pub outputs: Vec<bool>,
    /// The attributes by name.
    pub attrs: BTreeMap<String, Attr>,
    seen: RefCell<BTreeSet<String>>,
}

macro_rules! getter {
    ($(#[$doc:meta])* $name:ident, $variant:ident, $t:ty) => {
        $(#[$doc])*
        pub fn $name(&self, name: &str) -> Result<Option<$t>> {
            match self.attr(name) {
                None => Ok(None),
                Some(Attr::$variant(v)) => Ok(Some(v.clone())),
                Some(other) => Err(Error::unsupported(format!(
                    "attribute {name} is {}, {} expected", other.describe(), stringify!($variant)
                ))),
            }
        }
    };
}

impl NodeInfo {
    /// A node of this type and opset with these attributes, all inputs and outputs of it present.
    pub fn new(op_type: &str, opset: u32, inputs: usize, attrs: Vec<(&str, Attr)>) -> Self {
        NodeInfo {
            op_type: op_type.to_string(),
            opset,
            inputs: vec![true; inputs],
            outputs: vec![true],
            attrs: attrs.into_iter().map(|(k, v)| (k.to_string(), v)).collect(),
            seen: RefCell::default(),
        }
    }

    fn attr(&self, name: &str) -> Option<&Attr> {
        self.seen.borrow_mut().insert(name.to_string());
        self.attrs.get(name)
    }

    getter!(
        /// An int, if the attribute is there. Errors if it is something else.
        int, Int, i64
    );
    getter!(
        /// A float, if the attribute is there. Errors if it is something else.
        float, Float, f32
    );
    getter!(
        /// A text, if the attribute is there. Errors if it is something else.
        string, String, String
    );
    getter!(
        /// A tensor, if the attribute is there. Errors if it is something else.
        tensor, Tensor, Tensor
    );
    getter!(
        /// Ints, if the attribute is there. Errors if it is something else.
        ints, Ints, Vec<i64>
    );
    getter!(
        /// Floats, if the attribute is there. Errors if it is something else.
        floats, Floats, Vec<f32>
    );

    /// Marks an attribute as known whose value has no meaning for inference (`momentum`, `training_mode = 0`).
    pub fn ignore(&self, name: &str) {
        let _ = self.attr(name);
    }

    /// Whether input `i` is present.
    pub fn has_input(&self, i: usize) -> bool {
        self.inputs.get(i).copied().unwrap_or(false)
    }

    /// Whether output `i` is asked for.
    pub fn has_output(&self, i: usize) -> bool {
        self.outputs.get(i).copied().unwrap_or(false)
    }

    /// Errors if there are attributes that no getter asked for.
    pub fn finish(&self) -> Result<()> {
        let seen = self.seen.borrow();
        let unknown: Vec<&str> =
            self.attrs.keys().filter(|k| !seen.contains(*k)).map(String::as_str).collect();
        if unknown.is_empty() {
            Ok(())
        } else {
            Err(Error::unsupported(format!(
                "{} of opset {} has attributes this version does not know: {}",
                self.op_type,
                self.opset,
                unknown.join(", ")
            )))
        }
    }
}
