use std::fmt;

/// What went wrong, for code that wants to tell errors apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The model cannot be read or is not supported; see the message.
    Model,
    /// An input's name, dtype or shape is not what the model takes.
    Input,
    /// The plan needs more memory than it may use.
    Budget,
    /// The backend has no kernel for a step, or refused it.
    Backend,
    /// A kernel failed while running.
    Run,
    /// A plan that contradicts itself: a bug of this crate.
    Internal,
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
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<saltica_models::Error> for Error {
    fn from(e: saltica_models::Error) -> Self {
        Error::new(ErrorKind::Model, e.to_string())
    }
}

/// Errors of the leaf crate reach here only through plans of our own making.
impl From<saltica_tensor::Error> for Error {
    fn from(e: saltica_tensor::Error) -> Self {
        let kind = match e.kind() {
            saltica_tensor::ErrorKind::Io | saltica_tensor::ErrorKind::Size => ErrorKind::Budget,
            saltica_tensor::ErrorKind::DType | saltica_tensor::ErrorKind::Shape => ErrorKind::Input,
            _ => ErrorKind::Internal,
        };
        Error::new(kind, e.to_string())
    }
}
