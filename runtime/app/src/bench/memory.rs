use serde::Serialize;

/// Memory of this process, as the kernel counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MemoryUse {
    /// Bytes in memory now (VmRSS).
    pub rss_bytes: Option<u64>,
    /// The most bytes ever in memory at once (VmHWM).
    pub peak_rss_bytes: Option<u64>,
}

/// Reads `/proc/self/status`; the fields are absent where there is none.
pub fn memory_use() -> MemoryUse {
    parse(&std::fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// Lines as `VmHWM:     5120 kB`, where kB means 1024 bytes (proc_pid_status(5)).
fn parse(status: &str) -> MemoryUse {
    let field = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    };
    MemoryUse { rss_bytes: field("VmRSS"), peak_rss_bytes: field("VmHWM") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read() {
        let m = parse("Name:\tx\nVmHWM:\t    5120 kB\nVmRSS:\t     12 kB\n");
        assert_eq!(m, MemoryUse { rss_bytes: Some(12288), peak_rss_bytes: Some(5_242_880) });
        assert_eq!(parse(""), MemoryUse::default());
    }

    #[test]
    fn the_peak_grows_with_what_is_touched() {
        let before = memory_use().peak_rss_bytes.unwrap();
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        let after = memory_use().peak_rss_bytes.unwrap();
        assert!(after >= before.min(after) && after >= block.len() as u64, "{before} {after}");
    }
}
