use std::fmt;

/// What went wrong, for code that wants to tell errors apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A flag, argument or combination of them that means nothing.
    Usage,
    /// A file or folder that cannot be found, read or written.
    Io,
    /// A file whose contents are not what its format demands.
    Format,
    /// A model that cannot be loaded or described.
    Model,
    /// A run of a model that failed.
    Run,
    /// A fallback that `--strict` forbids.
    Strict,
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

    /// An operating system's refusal to do `what` (a verb, as in `read`) with `path`.
    pub fn io(what: &str, path: &std::path::Path, cause: &std::io::Error) -> Self {
        Error::new(ErrorKind::Io, format!("cannot {what} {}: {cause}", path.display()))
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

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

impl From<saltica_core::Error> for Error {
    fn from(e: saltica_core::Error) -> Self {
        use saltica_core::ErrorKind as From;
        let kind = match e.kind() {
            From::Model | From::Budget | From::Backend => ErrorKind::Model,
            From::Input => ErrorKind::Usage,
            _ => ErrorKind::Run,
        };
        Error::new(kind, e.to_string())
    }
}

impl From<saltica_cpu::Error> for Error {
    fn from(e: saltica_cpu::Error) -> Self {
        use saltica_cpu::ErrorKind as From;
        let kind = match e.kind() {
            From::Config => ErrorKind::Usage,
            From::Unsupported => ErrorKind::Model,
            _ => ErrorKind::Run,
        };
        Error::new(kind, e.to_string())
    }
}

impl From<saltica_vision::Error> for Error {
    fn from(e: saltica_vision::Error) -> Self {
        use saltica_vision::ErrorKind as From;
        let kind = match e.kind() {
            From::Io => ErrorKind::Io,
            From::Image | From::TooLarge => ErrorKind::Format,
            From::Spec => ErrorKind::Usage,
            From::Head => ErrorKind::Model,
            _ => ErrorKind::Run,
        };
        Error::new(kind, e.to_string())
    }
}

impl From<saltica_pipeline::Error> for Error {
    fn from(e: saltica_pipeline::Error) -> Self {
        use saltica_pipeline::ErrorKind as From;
        let kind = match e.kind() {
            From::Uri | From::Value => ErrorKind::Usage,
            From::Io => ErrorKind::Io,
            From::Image => ErrorKind::Format,
            _ => ErrorKind::Run,
        };
        Error::new(kind, e.to_string())
    }
}

impl From<saltica_tensor::Error> for Error {
    fn from(e: saltica_tensor::Error) -> Self {
        let kind = match e.kind() {
            saltica_tensor::ErrorKind::Io => ErrorKind::Io,
            saltica_tensor::ErrorKind::Size => ErrorKind::Format,
            _ => ErrorKind::Run,
        };
        Error::new(kind, e.to_string())
    }
}
