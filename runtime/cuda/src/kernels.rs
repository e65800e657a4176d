//! Where compiled kernels come from, and loading them.
//!
//! Nothing is compiled on the device: `cargo xtask kernels` compiles every unit of `kernels/` for every architecture on any
//! x86-64 host (see `src/bin/xtask.rs`). What it made is looked for in this order:
//!
//! 1. in the program itself (the build embeds `kernels/built/` if it was made from these very sources);
//! 2. in the folder that `SALTICA_KERNELS` names, then in `kernels/` beside the program (checked by hash);
//! 3. NVRTC, if one is found on the machine: for source checkouts.
//!
//! Of one source, machine code for exactly this architecture is taken, else PTX, which the driver compiles.

use crate::driver::{Device, Function, Module};
use crate::nvrtc::{Nvrtc, Output};
use crate::{Error, ErrorKind, Result};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// What the build found: sources, and images made of them.
mod built {
    include!(concat!(env!("OUT_DIR"), "/built.rs"));
}

/// A source file of `kernels/`: name and text.
pub fn sources() -> &'static [(&'static str, &'static str)] {
    built::SOURCES
}

/// Hash of all sources, which images must have been made of.
pub fn source_hash() -> &'static str {
    built::SOURCE_HASH
}

/// Images in this program: unit, file name's rest (`sm_90.cubin`, `ptx`), bytes.
pub fn embedded() -> &'static [(&'static str, &'static str, &'static [u8])] {
    built::IMAGES
}

/// Why the build embedded nothing, if it did not.
pub fn not_embedded() -> Option<&'static str> {
    built::WHY_NOT
}

/// SHA-256 in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// Loaded kernels of a device.
pub(crate) struct Kernels {
    device: Arc<Device>,
    arch: u32,
    modules: Mutex<HashMap<&'static str, Arc<Module>>>,
    nvrtc: Mutex<Option<Arc<Nvrtc>>>,
    origin: Mutex<Option<String>>,
}

impl Kernels {
    pub(crate) fn new(device: Arc<Device>, arch: u32) -> Kernels {
        Kernels { device, arch, modules: Mutex::default(), nvrtc: Mutex::default(), origin: Mutex::default() }
    }

    /// Where the kernels that are in use came from.
    pub(crate) fn origin(&self) -> Option<String> {
        self.origin.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A kernel of a unit. Errors say where its unit was looked for.
    pub(crate) fn function(&self, unit: &'static str, name: &str, shared: u32) -> Result<Function> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let module = match modules.get(unit) {
            Some(module) => module.clone(),
            None => {
                let (origin, image) = self.image(unit)?;
                let module = Module::load(&self.device, &image)
                    .map_err(|e| Error::new(ErrorKind::Kernels, format!("unit {unit} from {origin}: {e}")))?;
                *self.origin.lock().unwrap_or_else(PoisonError::into_inner) = Some(origin);
                let module = Arc::new(module);
                modules.insert(unit, module.clone());
                module
            }
        };
        module.function(name, shared as usize)
    }

    fn image(&self, unit: &'static str) -> Result<(String, Cow<'static, [u8]>)> {
        let arch = self.arch;
        // Machine code runs on its own architecture alone, PTX on later ones too.
        let own = (arch == self.device.attributes().arch()).then(|| format!("sm_{arch}.cubin"));
        let names: Vec<String> = own.into_iter().chain([ptx_name(arch).to_owned()]).collect();
        let mut tried = Vec::new();
        for name in &names {
            if let Some((.., bytes)) = embedded().iter().find(|(u, n, _)| *u == unit && n == name) {
                return Ok((format!("this program ({name})"), Cow::Borrowed(bytes)));
            }
        }
        tried.push(match not_embedded() {
            Some(why) => format!("in this program ({why})"),
            None => "in this program".into(),
        });
        for folder in folders() {
            for name in &names {
                match from_folder(&folder, unit, name) {
                    Ok(Some(bytes)) => {
                        return Ok((format!("{} ({name})", folder.display()), Cow::Owned(bytes)));
                    }
                    Ok(None) => {}
                    Err(e) => tried.push(e.to_string()),
                }
            }
            tried.push(format!("in {}", folder.display()));
        }
        match self.nvrtc() {
            Ok(nvrtc) => {
                let ptx_arch = nvrtc.newest_up_to(arch);
                let how =
                    if ptx_arch == self.device.attributes().arch() { Output::Cubin } else { Output::Ptx };
                let made = nvrtc.compile(unit, ptx_arch, how)?;
                return Ok((format!("NVRTC {}", nvrtc.version()), Cow::Owned(made.image)));
            }
            Err(e) => tried.push(e.to_string()),
        }
        Err(Error::new(
            ErrorKind::Kernels,
            format!(
                "no kernels for sm_{arch}: unit {unit} was looked for {}; make them with `cargo xtask kernels` and build again",
                tried.join("; ")
            ),
        ))
    }

    fn nvrtc(&self) -> Result<Arc<Nvrtc>> {
        let mut found = self.nvrtc.lock().unwrap_or_else(PoisonError::into_inner);
        match &*found {
            Some(nvrtc) => Ok(nvrtc.clone()),
            None => {
                let nvrtc = Arc::new(Nvrtc::find(None)?);
                *found = Some(nvrtc.clone());
                Ok(nvrtc)
            }
        }
    }
}

/// Where the kernels for an architecture come from, in words.
pub(crate) fn where_from(arch: u32) -> String {
    let cubin = format!("sm_{arch}.cubin");
    let has = |name: &str| embedded().iter().filter(|(_, n, _)| *n == name).count();
    match (has(&cubin), has(ptx_name(arch)), &folders()[..], not_embedded()) {
        (n @ 1.., ..) => format!("in this program: {n} units for sm_{arch}"),
        (0, n @ 1.., ..) => {
            format!("in this program: {n} units as {}, which the driver compiles", ptx_name(arch))
        }
        (0, 0, [folder, ..], _) => format!("in {}", folder.display()),
        (0, 0, [], why) => format!(
            "NVRTC, if it is found: {}; `cargo xtask kernels` makes them",
            why.unwrap_or("this program has none for it")
        ),
    }
}

/// The PTX that runs on an architecture.
fn ptx_name(arch: u32) -> &'static str {
    if arch >= 80 { "compute_80.ptx" } else { "compute_72.ptx" }
}

/// Folders of kernels beside the program.
fn folders() -> Vec<PathBuf> {
    let named = std::env::var_os("SALTICA_KERNELS").map(PathBuf::from);
    let beside = std::env::current_exe().ok().and_then(|p| Some(p.parent()?.join("kernels")));
    named.into_iter().chain(beside).filter(|f| f.is_dir()).collect()
}

/// A file of a folder, checked against the folder's list; `None` if the list does not have it.
fn from_folder(folder: &Path, unit: &str, name: &str) -> Result<Option<Vec<u8>>> {
    let bad = |what: String| Error::new(ErrorKind::Kernels, format!("{}: {what}", folder.display()));
    let list = match std::fs::read_to_string(folder.join("manifest.tsv")) {
        Ok(list) => list,
        Err(e) => return Err(bad(format!("manifest.tsv: {e}"))),
    };
    let mut lines = list.lines();
    let made_of = lines.next().and_then(|l| l.strip_prefix("# sources ")).unwrap_or_default();
    if made_of != source_hash() {
        return Err(bad("made of other sources than this program: run `cargo xtask kernels` again".into()));
    }
    let file = format!("{unit}.{name}");
    let Some(hash) = lines.filter_map(|l| l.split_once('\t')).find(|(f, _)| *f == file).map(|(_, rest)| rest)
    else {
        return Ok(None);
    };
    let bytes = std::fs::read(folder.join(&file)).map_err(|e| bad(format!("{file}: {e}")))?;
    if sha256(&bytes) != hash.split('\t').next().unwrap_or_default() {
        return Err(bad(format!("{file} is not the file that manifest.tsv lists")));
    }
    Ok(Some(bytes))
}
