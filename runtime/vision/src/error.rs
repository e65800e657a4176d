use std::fmt;

/// What went wrong, for code that wants to tell errors apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file could not be read or written.
    Io,
    /// Bytes that are no image of a supported format, or a damaged one.
    Image,
    /// A picture or file larger than the limits allow.
    TooLarge,
    /// A model description with an unknown key or a value that means nothing.
    Spec,
    /// Outputs that no head, or more than one head, claims; or that disagree with what was said about the model.
    Head,
    /// Tensors or pictures of another shape, dtype or size than the one set up for.
    Shape,
    /// Times or observations that no tracker can follow, or parameters of one out of range.
    Track,
}

/// Error of this crate: a kind and a sentence that says what was found, what was expected and what to do.
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

    /// The same error with `place` (a file, a key) in front of its sentence.
    pub(crate) fn at(self, place: impl fmt::Display) -> Self {
        Error { message: format!("{place}: {}", self.message), ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<saltica_tensor::Error> for Error {
    fn from(e: saltica_tensor::Error) -> Self {
        Error::new(ErrorKind::Shape, e.to_string())
    }
}
