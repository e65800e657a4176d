use std::fmt;

/// What went wrong, for code that wants to tell errors apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A dtype other than the expected one.
    DType,
    /// Shapes or ranks that do not fit together.
    Shape,
    /// A size that overflows or exceeds a limit.
    Size,
    /// A layout or slot that leaves its memory, or overlaps what it must not.
    Bounds,
    /// The operating system refused memory or a file.
    Io,
}

/// Error of this crate: a kind and a sentence that says what was found and what was expected.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    /// An error of `kind` saying `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into() }
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
