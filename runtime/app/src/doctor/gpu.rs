//! Whether an NVIDIA driver is installed: a search for files, nothing is loaded.

use super::Probe;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The driver's library, which every CUDA program loads.
const LIBRARY: &str = "libcuda.so.1";
/// PCI's number for NVIDIA.
const NVIDIA: &str = "0x10de";
/// Where systems keep the library besides what `ld.so.conf` names.
const FOLDERS: [&str; 12] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu/tegra",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/lib",
    "/usr/local/cuda/compat",
    "/usr/lib/wsl/lib",
];
/// Device files: of desktop and server drivers, of Jetson's, of Windows' Linux.
const DEVICES: [&str; 4] = ["/dev/nvidia0", "/dev/nvhost-gpu", "/dev/nvgpu/igpu0", "/dev/dxg"];

/// What was found of a GPU, and what was looked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Gpu {
    /// Both the driver's library and a device are here.
    pub found: bool,
    /// The driver's library.
    pub library: Option<String>,
    /// Version of the driver.
    pub driver: Option<String>,
    /// Device files.
    pub devices: Vec<String>,
    /// Whether an NVIDIA device is on the PCI bus.
    pub on_pci: bool,
    /// Folders searched for the library, in order: those that exist.
    pub searched: Vec<String>,
    /// One sentence: what there is, or what is missing.
    pub summary: String,
    /// What to do about it.
    #[serde(skip)]
    pub(super) advice: Option<String>,
}

pub(super) fn probe(probe: &Probe) -> Gpu {
    let mut folders = probe.library_path.clone();
    let mut configured = Vec::new();
    read_ld_conf(probe, Path::new("/etc/ld.so.conf"), &mut configured, 0);
    folders.extend(configured);
    folders.extend(FOLDERS.iter().map(PathBuf::from));
    let mut searched: Vec<PathBuf> = Vec::new();
    for f in folders {
        if !f.as_os_str().is_empty() && !searched.contains(&f) && probe.path(&f).is_dir() {
            searched.push(f);
        }
    }
    let library = searched.iter().map(|f| f.join(LIBRARY)).find(|f| probe.path(f).is_file());
    let devices: Vec<&str> = DEVICES.into_iter().filter(|d| probe.path(d).exists()).collect();
    let on_pci = nvidia_on_pci(probe);
    // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 ..."
    let driver = probe.line("proc/driver/nvidia/version").and_then(|l| {
        l.split_whitespace()
            .find(|w| w.contains('.') && w.starts_with(|c: char| c.is_ascii_digit()))
            .map(str::to_owned)
    });

    let (summary, advice) = match (&library, &devices[..]) {
        (Some(l), [d, ..]) => (format!("NVIDIA driver found ({}, {d})", l.display()), None),
        (Some(l), []) => (
            format!("{} is here, but no device ({})", l.display(), DEVICES.join(", ")),
            Some(
                "the driver's library is installed but this process sees no GPU: load the kernel module, or give the \
                  container its devices (`--gpus all` or `--runtime nvidia`)",
            ),
        ),
        (None, [d, ..]) => (
            format!("{d} is here, but no {LIBRARY}"),
            Some(
                "a GPU's device is here but the driver's library is not: install the driver's user-space package \
                  (libnvidia-compute, or nvidia-l4t-cuda on Jetson), or start the container with the NVIDIA runtime",
            ),
        ),
        (None, []) if on_pci => (
            format!(
                "an NVIDIA device is on the PCI bus, but there is no driver (no {LIBRARY}, no /dev/nvidia0)"
            ),
            Some("install the NVIDIA driver to use the GPU"),
        ),
        (None, []) => {
            (format!("none (no {LIBRARY}, no device file, nothing of NVIDIA on the PCI bus)"), None)
        }
    };
    Gpu {
        found: library.is_some() && !devices.is_empty(),
        library: library.map(|l| l.display().to_string()),
        driver,
        devices: devices.into_iter().map(str::to_owned).collect(),
        on_pci,
        searched: searched.iter().map(|f| f.display().to_string()).collect(),
        summary,
        advice: advice.map(str::to_owned),
    }
}

/// Folders of `ld.so.conf` and of the files it includes (ldconfig(8)).
fn read_ld_conf(probe: &Probe, file: &Path, folders: &mut Vec<PathBuf>, depth: usize) {
    let Some(text) = probe.read(file).filter(|_| depth < 4) else { return };
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(pattern) = line.strip_prefix("include").filter(|p| p.starts_with(char::is_whitespace)) {
            let pattern = Path::new("/etc").join(pattern.trim());
            let Some(pattern) = probe.path(&pattern).to_str().map(str::to_owned) else { continue };
            for path in glob::glob(&pattern).into_iter().flatten().flatten() {
                let Ok(inside) = path.strip_prefix(&probe.root) else { continue };
                read_ld_conf(probe, inside, folders, depth + 1);
            }
        } else if line.starts_with('/') {
            folders.push(line.into());
        }
    }
}

fn nvidia_on_pci(probe: &Probe) -> bool {
    let devices = std::fs::read_dir(probe.path("sys/bus/pci/devices"));
    devices.into_iter().flatten().flatten().any(|d| {
        let line = |name| std::fs::read_to_string(d.path().join(name)).unwrap_or_default();
        // Class 0x03....: display controllers, among them the 3D ones without a screen.
        line("vendor").trim() == NVIDIA && line("class").starts_with("0x03")
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::machine;

    #[test]
    fn a_driver_in_a_configured_folder_is_found() {
        let (_dir, probe) = machine(&[
            ("etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n"),
            ("etc/ld.so.conf.d/nv.conf", "# tegra\n/opt/nv/lib\n"),
            ("opt/nv/lib/libcuda.so.1", ""),
            ("dev/nvidia0", ""),
            (
                "proc/driver/nvidia/version",
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19\n",
            ),
        ]);
        let g = super::probe(&probe);
        assert!(g.found, "{g:?}");
        assert_eq!(g.library.as_deref(), Some("/opt/nv/lib/libcuda.so.1"));
        assert_eq!(g.driver.as_deref(), Some("535.129.03"));
        assert_eq!(g.advice, None);
    }

    #[test]
    fn each_missing_part_is_told_apart() {
        let said = |files: &[(&str, &str)]| {
            let (_dir, probe) = machine(files);
            let g = super::probe(&probe);
            assert!(!g.found);
            (g.summary, g.advice.unwrap_or_default())
        };
        let (library, device) =
            (("usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1", ""), ("dev/nvhost-gpu", ""));
        assert!(said(&[library]).1.contains("sees no GPU"));
        assert!(said(&[device]).1.contains("nvidia-l4t-cuda"));
        let pci =
            [("sys/bus/pci/devices/0/vendor", "0x10de\n"), ("sys/bus/pci/devices/0/class", "0x030200\n")];
        assert!(said(&pci).1.contains("install the NVIDIA driver"));
        assert!(said(&[]).0.starts_with("none"));
        let audio =
            [("sys/bus/pci/devices/0/vendor", "0x10de\n"), ("sys/bus/pci/devices/0/class", "0x040300\n")];
        assert!(said(&audio).0.starts_with("none"));
    }

    #[test]
    fn an_include_of_itself_ends() {
        let (_dir, probe) = machine(&[("etc/ld.so.conf", "include ld.so.conf\n/x\n"), ("x/y", "")]);
        assert!(super::probe(&probe).searched.contains(&"/x".to_owned()));
    }
}
