use std::fmt;

/// What went wrong, for code that wants to tell errors apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Shapes, dtypes or ranks that do not fit together.
    Shape,
    /// Something these kernels cannot do; the reference kernel can.
    Unsupported,
    /// Memory or a thread could not be had.
    Resource,
    /// A setting (an environment variable, a thread count) that makes no sense here.
    Config,
    /// A task panicked: a bug, reported instead of taking the process down.
    Panicked,
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

    /// [`ErrorKind::Shape`] saying `message`.
    pub(crate) fn shape(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Shape, message)
    }

    /// [`ErrorKind::Unsupported`] saying `message`.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
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

impl From<saltica_tensor::Error> for Error {
    fn from(e: saltica_tensor::Error) -> Self {
        let kind = match e.kind() {
            saltica_tensor::ErrorKind::Io => ErrorKind::Resource,
            _ => ErrorKind::Shape,
        };
        Error::new(kind, e.to_string())
    }
}

impl From<saltica_models::Error> for Error {
    fn from(e: saltica_models::Error) -> Self {
        Error::shape(e.to_string())
    }
}
