//! Lists the kernels' sources, and embeds what `cargo xtask kernels` made of them, if it was made of these very sources and
//! `SALTICA_EMBED` is not 0 (programs then look for them in a folder).

use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("kernels");
    println!("cargo:rerun-if-changed=kernels");
    println!("cargo:rerun-if-env-changed=SALTICA_EMBED");
    let wanted = env::var("SALTICA_EMBED").map_or(true, |v| v != "0");
    let mut names: Vec<String> = fs::read_dir(&root)?
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|n| n.ends_with(".cu") || n.ends_with(".cuh"))
        .collect();
    names.sort();
    let mut hash = Sha256::new();
    let mut out = String::from("pub(super) static SOURCES: &[(&str, &str)] = &[\n");
    for name in &names {
        let path = root.join(name);
        hash.update(name);
        hash.update(fs::read(&path)?);
        let _ = writeln!(out, "    ({name:?}, include_str!({:?})),", path.display().to_string());
    }
    let hash: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    let _ = writeln!(out, "];\npub(super) const SOURCE_HASH: &str = {hash:?};");

    let built = root.join("built");
    let mut images = String::new();
    let why = match fs::read_to_string(built.join("manifest.tsv")) {
        _ if !wanted => Some("it was built with SALTICA_EMBED=0"),
        Err(_) => Some("the build found none in runtime/cuda/kernels/built"),
        Ok(list) if list.lines().next() != Some(&format!("# sources {hash}")) => {
            Some("those in runtime/cuda/kernels/built were made of other sources")
        }
        Ok(list) => {
            for file in list.lines().skip(1).filter_map(|l| l.split('\t').next()) {
                if let Some((unit, name)) = file.split_once('.') {
                    let path = built.join(file).display().to_string();
                    let _ = writeln!(images, "    ({unit:?}, {name:?}, include_bytes!({path:?})),");
                }
            }
            None
        }
    };
    let _ = writeln!(out, "pub(super) static IMAGES: &[(&str, &str, &[u8])] = &[\n{images}];");
    let _ = writeln!(out, "pub(super) const WHY_NOT: Option<&str> = {why:?};");
    fs::write(Path::new(&env::var("OUT_DIR").unwrap_or_default()).join("built.rs"), out)
}
