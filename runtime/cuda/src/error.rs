use std::fmt;

/// What went wrong, for code that wants to tell errors apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No driver library, or one that does not start; the message names what was tried.
    NoDriver,
    /// A driver, but no device it can use.
    NoDevice,
    /// A call of the driver failed.
    Driver,
    /// No kernel image of this program runs on the device, or a kernel is missing in it.
    Kernels,
    /// A step has no GPU kernel; the message lists the ops.
    Unsupported,
    /// The device's memory does not suffice.
    Memory,
    /// Kernels could not be compiled.
    Compile,
}

/// Error of this crate: a kind and a sentence that says what was found, what was expected and what to do.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
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

impl From<Error> for saltica_core::Error {
    fn from(e: Error) -> Self {
        let kind = match e.kind {
            ErrorKind::Memory => saltica_core::ErrorKind::Budget,
            ErrorKind::Driver => saltica_core::ErrorKind::Run,
            _ => saltica_core::ErrorKind::Backend,
        };
        saltica_core::Error::new(kind, e.message)
    }
}
