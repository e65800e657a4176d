//! What the kernel says about memory.

use std::fs::File;
use std::io::Read;

use crate::batch::MemoryState;

/// Memory pressure and available memory, from `/proc/pressure/memory` and `/proc/meminfo`. None where the second cannot be
/// read; a kernel without pressure information counts as never stalled. Allocates nothing.
pub fn read_memory() -> Option<MemoryState> {
    let mut text = [0u8; 512];
    let stalled = parse_stalled(read("/proc/pressure/memory", &mut text).unwrap_or_default());
    let available = parse_available(read("/proc/meminfo", &mut text)?)?;
    Some(MemoryState { stalled, available })
}

fn read<'t>(path: &str, text: &'t mut [u8]) -> Option<&'t str> {
    let read = File::open(path).ok()?.read(text).ok()?;
    let whole = &text[..read];
    // A cut may fall anywhere in the text, which is ASCII.
    std::str::from_utf8(whole).ok()
}

/// `some avg10=1.23 avg60=...`
fn parse_stalled(text: &str) -> f32 {
    let some = text.lines().find_map(|l| l.strip_prefix("some ")).unwrap_or_default();
    some.split_whitespace().find_map(|w| w.strip_prefix("avg10=")?.parse().ok()).unwrap_or(0.0)
}

/// `MemAvailable:   123456 kB`
fn parse_available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_understood() {
        let psi =
            "some avg10=1.53 avg60=0.20 avg300=0.00 total=1234\nfull avg10=0.50 avg60=0.1 avg300=0 total=9\n";
        assert_eq!(parse_stalled(psi), 1.53);
        assert_eq!(parse_stalled(""), 0.0);
        let meminfo = "MemTotal:       16318408 kB\nMemFree:         1000 kB\nMemAvailable:   12000000 kB\n";
        assert_eq!(parse_available(meminfo), Some(12_288_000_000));
        assert_eq!(parse_available("MemTotal: 5 kB\n"), None);
    }

    #[test]
    fn this_system_has_memory() {
        if let Some(state) = read_memory() {
            assert!(state.available > 1 << 20 && (0.0..=100.0).contains(&state.stalled), "{state:?}");
        }
    }
}
