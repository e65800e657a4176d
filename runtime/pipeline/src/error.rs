use std::fmt;

/// What went wrong, for code that wants to tell errors apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A source address that cannot be understood.
    Uri,
    /// A value outside the range its key allows.
    Value,
    /// A picture that could not be encoded or decoded.
    Image,
    /// The operating system refused a file or device.
    Io,
    /// The device or file is not there (any more).
    Gone,
    /// Somebody else uses the device.
    Busy,
    /// Nothing that the source offers can be used, or it cannot do what was asked.
    Unsupported,
    /// A library, plugin or program that is needed is not installed.
    Missing,
    /// Something took longer than it may.
    Timeout,
    /// A mistake of this program.
    Bug,
}

impl ErrorKind {
    /// Whether trying again later cannot help: what was asked for has to change first.
    pub const fn is_permanent(self) -> bool {
        matches!(self, ErrorKind::Uri | ErrorKind::Value | ErrorKind::Unsupported | ErrorKind::Missing)
    }
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

    /// The same error, saying first where it happened.
    pub fn at(self, place: impl fmt::Display) -> Self {
        Error { kind: self.kind, message: format!("{place}: {}", self.message) }
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
