//! What this machine offers and what limits this process, read from `/proc` and `/sys`.
//!
//! Everything is read below a root folder that tests replace; nothing is loaded or run.

mod cgroup;
mod cpu;
mod gpu;
mod memory;

use serde::Serialize;
use std::path::{Path, PathBuf};

pub use cgroup::{Limit, Limits};
pub use cpu::{Cpu, Feature};
pub use gpu::Gpu;
pub use memory::Memory;

/// All findings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Version of this program.
    pub version: String,
    /// Kernel and distribution.
    pub system: System,
    /// Processor and the cores this process may use.
    pub cpu: Cpu,
    /// Memory of the machine.
    pub memory: Memory,
    /// What the control groups of this process allow.
    pub limits: Limits,
    /// GPU, or why there is none.
    pub gpu: Gpu,
    /// What is worth knowing or changing, in sentences.
    pub advice: Vec<String>,
}

/// Kernel and distribution.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct System {
    /// Architecture this program was built for.
    pub arch: String,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Distribution's name for itself.
    pub distribution: Option<String>,
    /// Board, where a device tree names it (ARM).
    pub board: Option<String>,
}

/// Where to look.
#[derive(Clone, Debug)]
pub struct Probe {
    root: PathBuf,
    library_path: Vec<PathBuf>,
}

impl Default for Probe {
    /// This machine.
    fn default() -> Self {
        let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        Probe { root: "/".into(), library_path: std::env::split_paths(&path).collect() }
    }
}

impl Probe {
    /// A machine whose root folder is `root`: its `/proc/self` is read as this process's.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Probe { root: root.into(), library_path: Vec::new() }
    }

    /// Bytes a plan may take unless a limit is given: what the machine has available, or what this process's control group
    /// allows, whichever is less. Absent where neither can be read.
    pub fn memory_budget(&self) -> Option<u64> {
        let group = cgroup::probe(self).memory_bytes.map(|limit| limit.value as u64);
        let machine = memory::probe(self).available_bytes;
        group.into_iter().chain(machine).min()
    }

    /// Looks everywhere. What cannot be read is absent in the report.
    pub fn report(&self) -> Report {
        let (cpu, memory, limits, gpu) =
            (cpu::probe(self), memory::probe(self), cgroup::probe(self), gpu::probe(self));
        let advice = advice(&cpu, &memory, &limits, &gpu);
        let system = System {
            arch: std::env::consts::ARCH.into(),
            kernel: self.line("proc/sys/kernel/osrelease"),
            distribution: self.read("etc/os-release").and_then(|text| {
                let name = text.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="))?;
                Some(name.trim_matches('"').to_owned())
            }),
            board: self.line("proc/device-tree/model").map(|m| m.trim_end_matches('\0').to_owned()),
        };
        Report { version: env!("CARGO_PKG_VERSION").into(), system, cpu, memory, limits, gpu, advice }
    }

    fn path(&self, inside: impl AsRef<Path>) -> PathBuf {
        let inside = inside.as_ref();
        self.root.join(inside.strip_prefix("/").unwrap_or(inside))
    }

    fn read(&self, inside: impl AsRef<Path>) -> Option<String> {
        std::fs::read_to_string(self.path(inside)).ok()
    }

    /// The first line, without space around it; None if empty.
    fn line(&self, inside: impl AsRef<Path>) -> Option<String> {
        let text = self.read(inside)?;
        text.lines().next().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned)
    }
}

fn advice(cpu: &Cpu, memory: &Memory, limits: &Limits, gpu: &Gpu) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(quota) = &limits.cpus
        && quota.value < cpu.allowed.len() as f64
    {
        out.push(format!(
            "{} gives this process {:.2} of its {} cores: more threads than that are throttled, not faster",
            quota.file,
            quota.value,
            cpu.allowed.len()
        ));
    }
    if let (Some(limit), Some(total)) = (&limits.memory_bytes, memory.total_bytes)
        && limit.value < total as f64
    {
        out.push(format!(
            "{} ends this process at {} MiB of the machine's {} MiB",
            limit.file,
            limit.value as u64 >> 20,
            total >> 20
        ));
    }
    if !cpu.features.iter().any(|f| f.present && ["avx2", "neon"].contains(&f.name.as_str())) {
        out.push(
            "neither AVX2 nor NEON found: every kernel runs on its scalar path, many times slower".into(),
        );
    }
    out.extend(gpu.advice.clone());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine made of files.
    pub(super) fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Probe) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let probe = Probe::at(dir.path());
        (dir, probe)
    }

    #[test]
    fn an_empty_machine_gives_an_empty_report() {
        let (_dir, probe) = machine(&[]);
        let r = probe.report();
        assert_eq!(r.memory, Memory::default());
        assert_eq!(r.system.kernel, None);
        assert!(!r.gpu.found);
    }

    #[test]
    fn limits_below_the_machine_are_pointed_out() {
        let (_dir, probe) = machine(&[
            ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Some Linux 1\"\n"),
            ("proc/device-tree/model", "NVIDIA Jetson Orin Nano\0"),
            ("proc/meminfo", "MemTotal:       8000000 kB\nMemAvailable:   4000000 kB\n"),
            ("proc/self/status", "Cpus_allowed_list:\t0-3\n"),
            ("proc/self/cgroup", "0::/app\n"),
            ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/app/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/app/memory.max", "536870912\n"),
        ]);
        let r = probe.report();
        assert_eq!(r.system.distribution.as_deref(), Some("Some Linux 1"));
        assert_eq!(r.system.board.as_deref(), Some("NVIDIA Jetson Orin Nano"));
        assert_eq!(r.cpu.allowed, [0, 1, 2, 3]);
        assert!(r.advice[0].contains("1.50 of its 4 cores"), "{:?}", r.advice);
        assert!(r.advice[1].contains("512 MiB of the machine's 7812 MiB"), "{:?}", r.advice);
        assert_eq!(probe.memory_budget(), Some(512 << 20));
    }

    #[test]
    fn this_machine_has_memory_and_cores() {
        let r = Probe::default().report();
        assert!(r.memory.total_bytes.unwrap() > 1 << 20);
        assert!(!r.cpu.allowed.is_empty() && r.cpu.online >= r.cpu.allowed.len());
        assert!(r.cpu.threads >= 1);
    }
}
