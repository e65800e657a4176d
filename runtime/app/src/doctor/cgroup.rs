//! Limits that control groups set, versions 1 and 2 (the kernel's admin-guide/cgroup-v1 and cgroup-v2.rst).
//!
//! A limit of any group from the process's own up to the mounted root binds, so the smallest counts.

use super::Probe;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A limit and the file that sets it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// Cores, or bytes.
    pub value: f64,
    /// The file.
    pub file: String,
}

/// What the control groups of this process allow; absent where there is no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Limits {
    /// Version of the groups: 1, 2, or absent without any.
    pub version: Option<u8>,
    /// Cores' worth of time.
    pub cpus: Option<Limit>,
    /// Bytes at which the process is ended.
    pub memory_bytes: Option<Limit>,
}

/// Version 1 writes "no limit" as the largest multiple of the page size.
const UNLIMITED_V1: f64 = (1u64 << 60) as f64;

pub(super) fn probe(probe: &Probe) -> Limits {
    let groups = probe.read("proc/self/cgroup").unwrap_or_default();
    let mounts = probe.read("proc/self/mountinfo").unwrap_or_default();
    let mut limits = Limits::default();
    for line in groups.lines() {
        // hierarchy-ID:controller-list:path
        let mut parts = line.splitn(3, ':');
        let (Some(id), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let v2 = id == "0" && controllers.is_empty();
        let has = |name: &str| v2 || controllers.split(',').any(|c| c == name);
        for controller in ["cpu", "memory"] {
            if !has(controller) {
                continue;
            }
            let Some((mount, root)) = find_mount(&mounts, v2, controller) else { continue };
            limits.version = Some(if v2 && limits.version != Some(1) { 2 } else { 1 });
            for folder in folders(probe, mount, root, group) {
                match controller {
                    "cpu" => lower(&mut limits.cpus, cpus(probe, &folder, v2)),
                    _ => lower(&mut limits.memory_bytes, memory(probe, &folder, v2)),
                }
            }
        }
    }
    limits
}

/// Mount point and mounted root of the hierarchy. Fields of mountinfo: id, parent, device, root, mount point, options,
/// optional ones, `-`, type, source, options (proc_pid_mountinfo(5)).
fn find_mount<'a>(mounts: &'a str, v2: bool, controller: &str) -> Option<(&'a str, &'a str)> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        let fits = if v2 {
            kind == "cgroup2"
        } else {
            kind == "cgroup" && options.split(',').any(|o| o == controller)
        };
        fits.then_some((point, root))
    })
}

/// The group's folder and those above it, down to the mount point. A container may see its group's path as on the host,
/// where the mount shows only the container's part: then the mount point stands for the group.
fn folders(probe: &Probe, mount: &str, root: &str, group: &str) -> Vec<PathBuf> {
    let below = Path::new(group).strip_prefix(root).unwrap_or(Path::new(group));
    let below = below.strip_prefix("/").unwrap_or(below);
    let mut folder = Path::new(mount).join(below);
    if !probe.path(&folder).is_dir() {
        folder = mount.into();
    }
    folder.ancestors().take_while(|f| f.starts_with(mount)).map(Path::to_owned).collect()
}

fn lower(limit: &mut Option<Limit>, other: Option<Limit>) {
    if let Some(other) = other
        && limit.as_ref().is_none_or(|l| other.value < l.value)
    {
        *limit = Some(other);
    }
}

fn cpus(probe: &Probe, folder: &Path, v2: bool) -> Option<Limit> {
    let (file, quota, period) = if v2 {
        let file = folder.join("cpu.max");
        let line = probe.line(&file)?;
        let (quota, period) = line.split_once(' ')?;
        (file, quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
    } else {
        let file = folder.join("cpu.cfs_quota_us");
        let period = probe.line(folder.join("cpu.cfs_period_us"))?;
        (file.clone(), probe.line(&file)?.parse().ok()?, period.parse().ok()?)
    };
    (quota > 0.0 && period > 0.0).then(|| Limit { value: quota / period, file: file.display().to_string() })
}

fn memory(probe: &Probe, folder: &Path, v2: bool) -> Option<Limit> {
    let file = folder.join(if v2 { "memory.max" } else { "memory.limit_in_bytes" });
    let value: f64 = probe.line(&file)?.parse().ok()?;
    (v2 || value < UNLIMITED_V1).then(|| Limit { value, file: file.display().to_string() })
}

#[cfg(test)]
mod tests {
    use super::super::tests::machine;
    use super::*;

    const V2: (&str, &str) =
        ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n");

    #[test]
    fn version_2_takes_the_smallest_on_the_way_up() {
        let (_dir, probe) = machine(&[
            V2,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "2000\n"),
            ("sys/fs/cgroup/a/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/a/memory.max", "1000\n"),
            ("sys/fs/cgroup/memory.max", "max\n"),
        ]);
        let l = super::probe(&probe);
        assert_eq!(l.version, Some(2));
        assert_eq!(l.cpus, Some(Limit { value: 0.5, file: "/sys/fs/cgroup/a/cpu.max".into() }));
        assert_eq!(l.memory_bytes, Some(Limit { value: 1000.0, file: "/sys/fs/cgroup/a/memory.max".into() }));
    }

    #[test]
    fn version_1_reads_each_controllers_hierarchy() {
        let (_dir, probe) = machine(&[
            ("proc/self/cgroup", "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n1:name=systemd:/\n"),
            (
                "proc/self/mountinfo",
                "31 23 0:27 /docker/x /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
                 32 23 0:28 /docker/x /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
            ),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        let l = super::probe(&probe);
        assert_eq!(l.version, Some(1));
        assert_eq!(l.cpus.unwrap().value, 2.5);
        assert_eq!(l.memory_bytes, None);
    }

    #[test]
    fn a_host_path_inside_a_container_falls_back_to_the_mount() {
        let (_dir, probe) = machine(&[
            V2,
            ("proc/self/cgroup", "0::/../../kubepods/x\n"),
            ("sys/fs/cgroup/memory.max", "77\n"),
        ]);
        assert_eq!(super::probe(&probe).memory_bytes.unwrap().value, 77.0);
    }

    #[test]
    fn nonsense_is_no_limit() {
        let (_dir, probe) =
            machine(&[V2, ("proc/self/cgroup", "0::/\nx\n::\n"), ("sys/fs/cgroup/cpu.max", "a b\n")]);
        assert_eq!(super::probe(&probe), Limits { version: Some(2), ..Limits::default() });
    }
}
