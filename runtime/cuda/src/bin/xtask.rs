//! `cargo xtask kernels`: compiles every unit of `runtime/cuda/kernels` for every architecture. Needs no GPU.
//!
//! NVRTC comes from two Python wheels (downloaded once into `target/nvrtc`, or named with `--nvrtc11` and `--nvrtc13`):
//!
//! * 11.8 makes machine code for sm_72 to sm_90, which drivers from JetPack 5's (11.4) on load, and PTX as the last resort,
//!   marked with the lowest version of the language that holds it;
//! * 13 makes Thor's sm_110, which 11.8 does not know.
//!
//! What comes out lies in `runtime/cuda/kernels/built` (git-ignored; the next build embeds it) with a list of hashes and of
//! each kernel's registers, shared memory and stack. A kernel with a stack spills: that is an error, and so is an architecture
//! whose units do not compile.

use saltica_cuda::kernels::{sha256, source_hash, sources};
use saltica_cuda::nvrtc::{Nvrtc, Output};
use saltica_cuda::resources::{Resources, resources};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Architectures that each compiler makes machine code for.
const ARCHS_11: [u32; 6] = [72, 80, 86, 87, 89, 90];
const ARCHS_13: [u32; 1] = [110];
/// Kernels that may have a stack, of how many bytes at most, and why.
const STACKS: [(&str, u32, &str); 1] =
    [("ew", 72, "sine and cosine of huge numbers reduce them with a table on the stack")];
/// The PTX that all drivers since CUDA 11.4 take: for devices newer than all machine code here, and, of the older tensor cores,
/// so that their kernels can be run where there is a newer device only.
const PTX: [u32; 2] = [72, 80];
/// The version of the language it is marked with.
const PTX_VERSION: &str = "7.4";

const USAGE: &str =
    "cargo xtask kernels [--arch NN,...] [--out DIR] [--nvrtc11 LIBRARY] [--nvrtc13 LIBRARY] [--force]";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    archs: Option<Vec<u32>>,
    units: Option<Vec<String>>,
    ptx: bool,
    out: PathBuf,
    nvrtc: [Option<PathBuf>; 2],
    force: bool,
}

fn options() -> Result<Options> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut o = Options {
        archs: None,
        units: None,
        ptx: true,
        out: root.join("kernels/built"),
        nvrtc: [None, None],
        force: false,
    };
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() != Some("kernels") {
        return Err(USAGE.into());
    }
    while let Some(flag) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{flag} needs a value\n{USAGE}"));
        match flag.as_str() {
            "--arch" => {
                o.archs = Some(value()?.split(',').map(str::parse).collect::<std::result::Result<_, _>>()?);
            }
            "--unit" => o.units = Some(value()?.split(',').map(str::to_owned).collect()),
            "--no-ptx" => o.ptx = false,
            "--out" => o.out = value()?.into(),
            "--nvrtc11" => o.nvrtc[0] = Some(value()?.into()),
            "--nvrtc13" => o.nvrtc[1] = Some(value()?.into()),
            "--force" => o.force = true,
            _ => return Err(format!("{flag} is no flag\n{USAGE}").into()),
        }
    }
    Ok(o)
}

/// Downloads a wheel and returns the compiler in it.
fn wheel(package: &str, inside: &str) -> Result<PathBuf> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nvrtc").join(package.replace("==", "-"));
    let library = folder.join(inside);
    if !library.is_file() {
        eprintln!("downloading {package}");
        std::fs::create_dir_all(&folder)?;
        let python = |args: &[&str]| -> Result<()> {
            let status = Command::new("python3").args(args).current_dir(&folder).status()?;
            if status.success() {
                Ok(())
            } else {
                Err(format!("python3 {}: {status}", args.join(" ")).into())
            }
        };
        python(&[
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary=:all:",
            "--platform",
            "manylinux2014_x86_64",
            "--platform",
            "manylinux1_x86_64",
            "--platform",
            "manylinux_2_17_x86_64",
            package,
        ])?;
        for entry in std::fs::read_dir(&folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".whl") {
                python(&["-m", "zipfile", "-e", &name, "."])?;
                std::fs::remove_file(folder.join(&name))?;
            }
        }
    }
    if library.is_file() { Ok(library) } else { Err(format!("{package} has no {inside}").into()) }
}

/// One thing to compile.
struct Task<'a> {
    unit: &'a str,
    arch: u32,
    output: Output,
}

impl Task<'_> {
    fn file(&self) -> String {
        match self.output {
            Output::Cubin => format!("{}.sm_{}.cubin", self.unit, self.arch),
            Output::Ptx => format!("{}.compute_{}.ptx", self.unit, self.arch),
        }
    }

    /// Hash of the unit and of every header it includes, directly or not.
    fn made_of(&self) -> Result<String> {
        let mut open = vec![format!("{}.cu", self.unit)];
        let mut all: BTreeMap<String, &str> = BTreeMap::new();
        while let Some(name) = open.pop() {
            let text = sources().iter().find(|(n, _)| *n == name).map(|(_, t)| *t);
            let text = text.ok_or_else(|| format!("{}: there is no {name}", self.unit))?;
            let included =
                text.lines().filter_map(|l| l.trim().strip_prefix("#include \"")?.strip_suffix('"'));
            open.extend(included.filter(|n| !all.contains_key(*n)).map(str::to_owned));
            all.insert(name, text);
        }
        let parts: Vec<String> = all.iter().map(|(n, t)| format!("{n} {}\n", sha256(t.as_bytes()))).collect();
        Ok(sha256(parts.concat().as_bytes())[..16].to_owned())
    }
}

/// What an earlier run left: file, hash, and what it was made of.
struct Old {
    folder: PathBuf,
    files: BTreeMap<String, (String, String)>,
}

impl Old {
    fn read(o: &Options) -> Old {
        let text = std::fs::read_to_string(o.out.join("manifest.tsv")).unwrap_or_default();
        let lines = text.lines().skip(1).filter_map(|l| {
            let mut fields = l.split('\t').map(str::to_owned);
            Some((fields.next()?, (fields.next()?, fields.next()?)))
        });
        Old { folder: o.out.clone(), files: if o.force { BTreeMap::new() } else { lines.collect() } }
    }

    fn has(&self, task: &Task<'_>) -> bool {
        let file = task.file();
        self.files.get(&file).is_some_and(|(hash, made_of)| {
            task.made_of().is_ok_and(|now| now == *made_of)
                && std::fs::read(self.folder.join(&file)).is_ok_and(|image| sha256(&image) == *hash)
        })
    }
}

fn run() -> Result<()> {
    let o = options()?;
    let list = o.out.join("manifest.tsv");
    let head = format!("# sources {}", source_hash());
    let everything = o.archs.is_none() && o.units.is_none() && o.ptx;
    if everything && !o.force && std::fs::read_to_string(&list).is_ok_and(|t| t.lines().next() == Some(&head))
    {
        println!("{} is up to date", o.out.display());
        return Ok(());
    }
    let wanted = |a: &u32| o.archs.as_ref().is_none_or(|archs| archs.contains(a));
    let asked = |unit: &&str| o.units.as_ref().is_none_or(|units| units.iter().any(|u| u == unit));
    let units: Vec<&str> =
        sources().iter().filter_map(|(n, _)| n.strip_suffix(".cu")).filter(asked).collect();
    let of = |archs: &[u32]| -> Vec<Task<'_>> {
        let machine = archs.iter().copied().filter(wanted).collect::<Vec<_>>();
        let all = units.iter().flat_map(|unit| machine.iter().map(|arch| (*unit, *arch)));
        let some = all.filter(|(unit, arch)| has_kernels(unit, *arch));
        some.map(|(unit, arch)| Task { unit, arch, output: Output::Cubin }).collect()
    };
    let mut tasks = [of(&ARCHS_11), of(&ARCHS_13)];
    let lasting = units.iter().filter(|_| o.ptx).flat_map(|unit| PTX.map(|arch| (*unit, arch)));
    let lasting = lasting.filter(|(unit, arch)| has_kernels(unit, *arch));
    tasks[0].extend(lasting.map(|(unit, arch)| Task { unit, arch, output: Output::Ptx }));
    let wheels = [
        ("nvidia-cuda-nvrtc-cu11==11.8.89", "nvidia/cuda_nvrtc/lib/libnvrtc.so.11.2"),
        ("nvidia-cuda-nvrtc==13.0.88", "nvidia/cu13/lib/libnvrtc.so.13"),
    ];
    std::fs::create_dir_all(&o.out)?;
    // What was made of a unit's sources and of the headers it includes is made again only if one of them changed.
    let old = Old::read(&o);
    let mut files = Vec::new();
    let mut kernels = Vec::new();
    for (i, tasks) in tasks.iter().enumerate().filter(|(_, t)| !t.is_empty()) {
        let path = match &o.nvrtc[i] {
            Some(path) => path.clone(),
            None => wheel(wheels[i].0, wheels[i].1)?,
        };
        let nvrtc = Nvrtc::find(Some(&path))?;
        let (kept, new): (Vec<&Task<'_>>, Vec<&Task<'_>>) = tasks.iter().partition(|t| old.has(t));
        println!("NVRTC {}: {} images, {} of them as they were", nvrtc.version(), tasks.len(), kept.len());
        for task in kept {
            let image = std::fs::read(o.out.join(task.file()))?;
            let found = if task.output == Output::Cubin { resources(&image)? } else { BTreeMap::new() };
            kernels.extend(found.into_iter().map(|(name, r)| (name, task.arch, r)));
            files.push((task.file(), sha256(&image), task.made_of()?));
        }
        // What is made is kept at once: a run that ends early need not make it again.
        let keep = |made: &Made| -> Result<()> {
            std::fs::write(o.out.join(&made.file), &made.image)?;
            let mut list = std::fs::OpenOptions::new().create(true).append(true).open(&list)?;
            Ok(writeln!(list, "{}\t{}\t{}", made.file, sha256(&made.image), made.made_of)?)
        };
        for made in compile_all(&nvrtc, &new, &keep)? {
            files.push((made.file, sha256(&made.image), made.made_of));
            kernels.extend(made.kernels);
        }
    }
    files.sort();
    kernels.sort();
    let mut text = head + "\n";
    for (file, hash, made_of) in &files {
        writeln!(text, "{file}\t{hash}\t{made_of}")?;
    }
    std::fs::write(&list, text)?;
    let mut table = String::from("# kernel\tarch\tregisters\tshared bytes (static)\tstack bytes\n");
    for (name, arch, r) in &kernels {
        writeln!(table, "{name}\tsm_{arch}\t{}\t{}\t{}", r.registers, r.shared, r.stack)?;
    }
    std::fs::write(o.out.join("resources.tsv"), table)?;
    println!("{} files, {} kernels in {}", files.len(), kernels.len(), o.out.display());
    let spills: Vec<String> = kernels
        .iter()
        .filter(|(name, _, r)| {
            r.stack > STACKS.iter().find(|(n, ..)| n == name).map_or(0, |(_, most, _)| *most)
        })
        .map(|(name, arch, r)| format!("{name} on sm_{arch}: {} bytes of stack", r.stack))
        .collect();
    if spills.is_empty() { Ok(()) } else { Err(format!("kernels that spill:\n{}", spills.join("\n")).into()) }
}

/// Whether a unit has kernels for an architecture: those for the later tensor cores are left out of older images.
fn has_kernels(unit: &str, arch: u32) -> bool {
    const LATER: [&str; 6] = ["conv1_f16", "conv1_i8", "conv3_f16", "conv3_i8", "conv_f16", "conv_i8"];
    arch >= 80 || !LATER.contains(&unit)
}

struct Made {
    file: String,
    made_of: String,
    image: Vec<u8>,
    kernels: Vec<(String, u32, Resources)>,
}

fn compile_all(
    nvrtc: &Nvrtc,
    tasks: &[&Task<'_>],
    keep: &(dyn Fn(&Made) -> Result<()> + Sync),
) -> Result<Vec<Made>> {
    let (next, made) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(tasks.len()) {
            scope.spawn(|| {
                while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = compile(nvrtc, task);
                    if let Ok(mut made) = made.lock() {
                        made.push(result.and_then(|made| keep(&made).map(|()| made)));
                    }
                }
            });
        }
    });
    let made = made.into_inner().map_err(|_| "a compiling thread panicked")?;
    made.into_iter().collect()
}

fn compile(nvrtc: &Nvrtc, task: &Task<'_>) -> Result<Made> {
    let made = nvrtc.compile(task.unit, task.arch, task.output)?;
    if !made.log.is_empty() {
        eprintln!("{} sm_{}: {}", task.unit, task.arch, made.log);
    }
    match task.output {
        Output::Cubin => {
            let kernels = resources(&made.image)?;
            let kernels = kernels.into_iter().map(|(name, r)| (name, task.arch, r)).collect();
            Ok(Made { file: task.file(), made_of: task.made_of()?, image: made.image, kernels })
        }
        Output::Ptx => {
            let text = String::from_utf8(made.image)?;
            let text: Vec<String> = text
                .trim_end_matches('\0')
                .lines()
                .map(|l| {
                    if l.starts_with(".version ") { format!(".version {PTX_VERSION}") } else { l.to_owned() }
                })
                .collect();
            let image = text.join("\n").into_bytes();
            Ok(Made { file: task.file(), made_of: task.made_of()?, image, kernels: Vec::new() })
        }
    }
}
