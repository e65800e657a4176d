use super::Probe;
use serde::Serialize;

/// Memory of the machine, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Memory {
    /// All of it.
    pub total_bytes: Option<u64>,
    /// What can be had without swapping, as the kernel estimates it.
    pub available_bytes: Option<u64>,
    /// Swap space.
    pub swap_bytes: Option<u64>,
}

pub(super) fn probe(probe: &Probe) -> Memory {
    let text = probe.read("proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let value = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
        value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Memory {
        total_bytes: field("MemTotal"),
        available_bytes: field("MemAvailable"),
        swap_bytes: field("SwapTotal"),
    }
}
