//! What a source counts. Lock-free, so that reading it never concerns the source.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a frame never reached its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DropReason {
    /// A newer frame took its place in the ring.
    Replaced,
    /// The driver lost it before we saw it (a gap in its sequence numbers).
    Lost,
    /// The driver marked it as damaged (`V4L2_BUF_FLAG_ERROR`).
    DriverError,
    /// It had no bytes.
    Empty,
    /// It ended before its last row.
    Truncated,
    /// It was larger than its format, or its size was another one.
    WrongSize,
    /// A JPEG without its end marker: cut off.
    NoEndMarker,
    /// A compressed picture that could not be decoded.
    Decode,
    /// A file of a folder that could not be read, or is no picture.
    Unreadable,
    /// No buffer was free to put it in.
    NoBuffer,
    /// It waited in the ring when the source was stopped.
    Stopped,
}

impl DropReason {
    /// All reasons, in the order of the counters.
    pub const ALL: [DropReason; 11] = [
        DropReason::Replaced,
        DropReason::Lost,
        DropReason::DriverError,
        DropReason::Empty,
        DropReason::Truncated,
        DropReason::WrongSize,
        DropReason::NoEndMarker,
        DropReason::Decode,
        DropReason::Unreadable,
        DropReason::NoBuffer,
        DropReason::Stopped,
    ];

    /// The name used in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Replaced => "replaced",
            DropReason::Lost => "lost",
            DropReason::DriverError => "driver_error",
            DropReason::Empty => "empty",
            DropReason::Truncated => "truncated",
            DropReason::WrongSize => "wrong_size",
            DropReason::NoEndMarker => "no_end_marker",
            DropReason::Decode => "decode",
            DropReason::Unreadable => "unreadable",
            DropReason::NoBuffer => "no_buffer",
            DropReason::Stopped => "stopped",
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Counters of one source, from its start.
#[derive(Debug, Default)]
pub struct Counters {
    frames: AtomicU64,
    copies: AtomicU64,
    opened: AtomicU64,
    failures: AtomicU64,
    stalls: AtomicU64,
    dropped: [AtomicU64; DropReason::ALL.len()],
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Frames put into the ring.
    pub frames: u64,
    /// Copies of pixel data made of these before they were put there.
    pub copies: u64,
    /// Times it was opened.
    pub opened: u64,
    /// Times that opening or reading failed.
    pub failures: u64,
    /// Times it gave no frame for too long.
    pub stalls: u64,
    dropped: [u64; DropReason::ALL.len()],
}

impl Snapshot {
    /// Frames dropped for this reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Frames dropped for any reason.
    pub fn all_dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Each reason that occurred, with its count.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|r| (*r, self.dropped(*r))).filter(|(_, n)| *n > 0)
    }
}

impl Counters {
    /// Counts `n` frames dropped for `reason`.
    pub fn drop(&self, reason: DropReason, n: u64) {
        self.dropped[reason as usize].fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn frame(&self, copies: u32) {
        self.frames.fetch_add(1, Ordering::Relaxed);
        self.copies.fetch_add(u64::from(copies), Ordering::Relaxed);
    }

    pub(crate) fn opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stalled(&self) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
    }

    /// All of them now.
    pub fn snapshot(&self) -> Snapshot {
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        Snapshot {
            frames: get(&self.frames),
            copies: get(&self.copies),
            opened: get(&self.opened),
            failures: get(&self.failures),
            stalls: get(&self.stalls),
            dropped: std::array::from_fn(|i| get(&self.dropped[i])),
        }
    }
}
