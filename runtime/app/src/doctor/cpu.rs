use super::Probe;
use serde::Serialize;

/// The processor and what of it this process may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cpu {
    /// Name, as the kernel or ARM's part numbers tell; several for mixed cores.
    pub model: Option<String>,
    /// Instruction sets that kernels are written for, and whether they are here.
    pub features: Vec<Feature>,
    /// Cores that are switched on.
    pub online: usize,
    /// Numbers of the cores this process may run on.
    pub allowed: Vec<usize>,
    /// Threads a model runs on unless told otherwise.
    pub threads: usize,
}

/// One instruction set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Feature {
    /// Name as compilers spell it.
    pub name: String,
    /// Whether this processor has it and the system lets it be used.
    pub present: bool,
}

pub(super) fn probe(probe: &Probe) -> Cpu {
    let info = probe.read("proc/cpuinfo").unwrap_or_default();
    let allowed = probe
        .read("proc/self/status")
        .and_then(|s| parse_list(s.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"))?))
        .unwrap_or_default();
    let online = probe
        .line("sys/devices/system/cpu/online")
        .and_then(|l| parse_list(&l))
        .map_or_else(|| info.lines().filter(|l| l.starts_with("processor")).count(), |l| l.len());
    Cpu {
        model: model(&info),
        features: features()
            .into_iter()
            .map(|(name, present)| Feature { name: name.into(), present })
            .collect(),
        online,
        allowed,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    }
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<(&'static str, bool)> {
    macro_rules! detect {
        ($($name:tt)*) => { vec![$(($name, std::is_x86_feature_detected!($name))),*] };
    }
    detect!("sse4.1" "avx" "avx2" "fma" "f16c" "avxvnni" "avx512f" "avx512bw" "avx512vl" "avx512vnni" "avx512bf16" "avx512fp16")
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<(&'static str, bool)> {
    macro_rules! detect {
        ($($name:tt)*) => { vec![$(($name, std::arch::is_aarch64_feature_detected!($name))),*] };
    }
    detect!("neon" "fp16" "dotprod" "i8mm" "bf16" "sve" "sve2")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> Vec<(&'static str, bool)> {
    Vec::new()
}

/// `0-3,8` as numbers; None if it is no such list.
fn parse_list(list: &str) -> Option<Vec<usize>> {
    let mut out = Vec::new();
    for part in list.trim().split(',').filter(|p| !p.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        // The kernel's largest NR_CPUS is 8192.
        if last >= 1 << 16 {
            return None;
        }
        out.extend(first..=last);
    }
    Some(out)
}

fn model(cpuinfo: &str) -> Option<String> {
    let values = |key: &'static str| {
        cpuinfo.lines().filter_map(move |l| {
            let (k, v) = l.split_once(':')?;
            (k.trim() == key).then(|| v.trim())
        })
    };
    if let Some(name) = values("model name").next() {
        return Some(name.to_owned());
    }
    let mut names: Vec<String> = Vec::new();
    for (implementer, part) in values("CPU implementer").zip(values("CPU part")) {
        let name = arm_core(implementer, part)
            .map_or_else(|| format!("ARM core {implementer}/{part}"), str::to_owned);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| names.join(" + "))
}

/// Main ID register values (ARM's manuals; the kernel's arch/arm64/include/asm/cputype.h) of cores that boards have.
fn arm_core(implementer: &str, part: &str) -> Option<&'static str> {
    Some(match (implementer, part) {
        ("0x41", "0xd03") => "Cortex-A53",
        ("0x41", "0xd04") => "Cortex-A35",
        ("0x41", "0xd05") => "Cortex-A55",
        ("0x41", "0xd07") => "Cortex-A57",
        ("0x41", "0xd08") => "Cortex-A72",
        ("0x41", "0xd09") => "Cortex-A73",
        ("0x41", "0xd0a") => "Cortex-A75",
        ("0x41", "0xd0b") => "Cortex-A76",
        ("0x41", "0xd0c") => "Neoverse-N1",
        ("0x41", "0xd40") => "Neoverse-V1",
        ("0x41", "0xd41") => "Cortex-A78",
        ("0x41", "0xd42") => "Cortex-A78AE",
        ("0x41", "0xd49") => "Neoverse-N2",
        ("0x41", "0xd4f") => "Neoverse-V2",
        ("0x41", "0xd83") => "Neoverse-V3AE",
        ("0x4e", "0x003") => "NVIDIA Denver 2",
        ("0x4e", "0x004") => "NVIDIA Carmel",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(parse_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_list(" 5"), Some(vec![5]));
        assert_eq!(parse_list("0-99999999999"), None);
        assert_eq!(parse_list("a"), None);
    }

    #[test]
    fn names_of_processors() {
        assert_eq!(model("processor\t: 0\nmodel name\t: A Chip @ 2GHz\n").as_deref(), Some("A Chip @ 2GHz"));
        let tx2 = "CPU implementer\t: 0x41\nCPU part\t: 0xd07\n\nCPU implementer\t: 0x4e\nCPU part\t: 0x003\n\n\
                   CPU implementer\t: 0x41\nCPU part\t: 0xd07\n";
        assert_eq!(model(tx2).as_deref(), Some("Cortex-A57 + NVIDIA Denver 2"));
        assert_eq!(model("CPU implementer: 0x99\nCPU part: 0x1\n").as_deref(), Some("ARM core 0x99/0x1"));
        assert_eq!(model(""), None);
    }

    #[test]
    fn features_have_the_names_the_kernels_are_chosen_by() {
        let names: Vec<_> = features().into_iter().map(|f| f.0).collect();
        if cfg!(target_arch = "x86_64") {
            assert!(["avx2", "fma", "avx512vnni"].iter().all(|n| names.contains(n)));
        } else if cfg!(target_arch = "aarch64") {
            assert!(["neon", "dotprod", "i8mm"].iter().all(|n| names.contains(n)));
        }
    }
}
