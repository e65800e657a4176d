use super::Exit;
use super::ui::{Stop, Ui};
use saltica::doctor::{Probe, Report};
use saltica::report::{Align, Style, Table, bytes, number};
use saltica_cuda::placement::InputPath;
use serde::Serialize;

/// Report what this machine offers: CPU features, limits, memory, GPU
#[derive(clap::Args)]
pub(super) struct Args {}

pub(super) fn run(_: &Args, ui: &mut Ui) -> Result<Exit, Stop> {
    let record = DoctorRecord { report: Probe::default().report(), cuda: cuda() };
    if ui.json {
        ui.record("doctor", &record)?;
    } else {
        ui.text(&text(&record, ui.style))?;
    }
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct DoctorRecord {
    #[serde(flatten)]
    report: Report,
    cuda: Cuda,
}

/// What the GPU's driver says, or why it says nothing.
#[derive(Serialize)]
struct Cuda {
    usable: bool,
    summary: String,
    memory: Option<String>,
    kernels: Option<String>,
}

fn cuda() -> Cuda {
    match saltica_cuda::describe(0) {
        Ok(d) => {
            let a = &d.attributes;
            let input = match d.placement.input {
                InputPath::Copied => "inputs copied",
                InputPath::Mapped => "inputs read in place",
                InputPath::Managed => "inputs in managed memory",
            };
            Cuda {
                usable: true,
                summary: format!(
                    "{}, compute capability {}.{}, {} multiprocessors, {}, driver for CUDA {}",
                    a.name,
                    a.capability.0,
                    a.capability.1,
                    a.multiprocessors,
                    bytes(a.memory_bytes as u64),
                    saltica_cuda::version_text(a.driver)
                ),
                memory: Some(format!("{}: {input} ({})", d.placement.class, d.placement.reason)),
                kernels: Some(d.kernels),
            }
        }
        Err(e) => Cuda { usable: false, summary: e.to_string(), memory: None, kernels: None },
    }
}

fn text(record: &DoctorRecord, style: Style) -> String {
    let r = &record.report;
    let mut t = Table::new(&[("", Align::Left), ("", Align::Left)]);
    let or_unknown = |v: &Option<String>| v.clone().unwrap_or_else(|| "unknown".into());
    let size = |v: Option<u64>| v.map_or_else(|| "unknown".into(), bytes);
    t.row(["saltica", &r.version]);
    t.row([
        "system",
        &format!(
            "{}, Linux {}, {}",
            or_unknown(&r.system.distribution),
            or_unknown(&r.system.kernel),
            r.system.arch
        ),
    ]);
    if let Some(board) = &r.system.board {
        t.row(["board", board]);
    }
    t.row(["cpu", &or_unknown(&r.cpu.model)]);
    let names = |present: bool| {
        let all: Vec<_> =
            r.cpu.features.iter().filter(|f| f.present == present).map(|f| f.name.as_str()).collect();
        if all.is_empty() { "none".to_owned() } else { all.join(" ") }
    };
    t.row(["features", &names(true)]);
    t.row(["not here", &names(false)]);
    t.row([
        "cores",
        &format!(
            "{} online, {} for this process ({})",
            r.cpu.online,
            r.cpu.allowed.len(),
            ranges(&r.cpu.allowed)
        ),
    ]);
    t.row(["threads", &format!("{} unless --threads says otherwise", r.cpu.threads)]);
    t.row([
        "memory".to_owned(),
        format!(
            "{} in all, {} available, {} swap",
            size(r.memory.total_bytes),
            size(r.memory.available_bytes),
            size(r.memory.swap_bytes)
        ),
    ]);
    let version = r.limits.version.map_or_else(|| "none".to_owned(), |v| format!("version {v}"));
    t.row(["cgroups", &version]);
    if let Some(l) = &r.limits.cpus {
        t.row(["cpu limit", &format!("{} cores ({})", number(l.value, 2), l.file)]);
    }
    if let Some(l) = &r.limits.memory_bytes {
        t.row(["memory limit", &format!("{} ({})", bytes(l.value as u64), l.file)]);
    }
    t.row(["gpu", &r.gpu.summary]);
    if let Some(v) = &r.gpu.driver {
        t.row(["gpu driver", v]);
    }
    if r.gpu.library.is_none() {
        t.row(["searched", &format!("{} folders (--json lists them)", r.gpu.searched.len())]);
    }
    t.row(["cuda", &record.cuda.summary]);
    for (name, value) in [("gpu memory", &record.cuda.memory), ("gpu kernels", &record.cuda.kernels)] {
        if let Some(value) = value {
            t.row([name, value]);
        }
    }
    let mut out = t.render(style);
    for a in &r.advice {
        out.push_str(&format!("{} {a}\n", style.yellow("note:")));
    }
    out
}

/// `0-3,8` for the cores 0, 1, 2, 3 and 8.
fn ranges(cores: &[usize]) -> String {
    let mut out: Vec<String> = Vec::new();
    for run in cores.chunk_by(|a, b| a + 1 == *b) {
        out.push(match run {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => continue,
        });
    }
    out.join(",")
}

#[cfg(test)]
mod tests {
    #[test]
    fn cores_are_written_as_ranges() {
        assert_eq!(super::ranges(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(super::ranges(&[]), "");
    }
}
