//! Signals to a program that runs for weeks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::{Error, ErrorKind, Result, output};

/// What signals asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Signals {
    running: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    /// From SIGTERM or SIGINT to the end, whatever hangs.
    pub(super) const STOP_WITHIN: Duration = Duration::from_millis(1750);

    /// Takes SIGTERM, SIGINT and SIGHUP from now on, but for those that whoever started the program wants ignored. The first SIGTERM or SIGINT asks for the end and, until [`Signals::running`], is
    /// the end; a second one ends the process at once.
    ///
    /// # Errors
    /// The system's refusal.
    pub(super) fn handle() -> Result<Signals> {
        let signals = Signals::default();
        let ours = signals.clone();
        let mut taken = signal_hook::iterator::Signals::new(output::heeded(&[SIGINT, SIGTERM, SIGHUP]))
            .map_err(|e| Error::new(ErrorKind::Run, format!("signals cannot be handled: {e}")))?;
        let watch = move || {
            for signal in taken.forever() {
                match signal {
                    SIGHUP => ours.reload.store(true, Ordering::Release),
                    _ if ours.stop.swap(true, Ordering::AcqRel) => output::abandon(128 + signal),
                    // Nothing runs that could be drained.
                    _ if !ours.running.load(Ordering::Acquire) => output::abandon(0),
                    _ => {
                        std::thread::spawn(|| {
                            std::thread::sleep(Self::STOP_WITHIN);
                            log::error!("something did not end in time: it is left behind");
                            output::abandon(0)
                        });
                    }
                }
            }
        };
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(watch)
            .map_err(|e| Error::new(ErrorKind::Run, format!("no thread for signals: {e}")))?;
        Ok(signals)
    }

    /// There is something to drain now.
    pub(super) fn running(&self) {
        self.running.store(true, Ordering::Release);
    }

    /// Whether the end was asked for.
    pub(super) fn stop(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Whether the configuration is to be read again; asked once for each SIGHUP.
    pub(super) fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::AcqRel)
    }
}
