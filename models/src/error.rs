use std::fmt;

/// What went wrong, for code that wants to tell errors apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file cannot be read from the operating system.
    Io,
    /// The bytes are no well-formed model: truncated, cyclic, references to nothing, sizes that contradict each other.
    Malformed,
    /// A limit on sizes or counts is exceeded.
    Limit,
    /// Ops, opsets, dtypes or attribute values this version does not know.
    Unsupported,
    /// Shapes, ranks or dtypes that do not fit an op.
    Shape,
    /// A result's shape depends on an input's value that is not known yet.
    NeedsValue,
    /// A kernel met a value it cannot work with (an index out of range, say).
    Value,
    /// Memory could not be had.
    Memory,
}

/// Error of this crate: a kind, a sentence (what was found, what was expected), and the node it happened in.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    node: Option<String>,
}

impl Error {
    /// An error of `kind` saying `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), node: None }
    }

    /// [`ErrorKind::Shape`] saying `message`.
    pub fn shape(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Shape, message)
    }

    /// [`ErrorKind::Unsupported`] saying `message`.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// The same error, naming the node it happened in (the innermost name stays).
    pub fn in_node(mut self, name: &str, op: &str) -> Self {
        self.node.get_or_insert_with(|| format!("{op} node '{name}'"));
        self
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "{node}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}

impl From<saltica_tensor::Error> for Error {
    fn from(e: saltica_tensor::Error) -> Self {
        let kind = match e.kind() {
            saltica_tensor::ErrorKind::Io => ErrorKind::Memory,
            saltica_tensor::ErrorKind::Size => ErrorKind::Limit,
            _ => ErrorKind::Shape,
        };
        Error::new(kind, e.to_string())
    }
}
