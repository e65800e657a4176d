//! The rules of ARCHITECTURE.md that a machine can check: who may depend on whom, where `unsafe` may stand, why each
//! dependency is there, and how long a file may be.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Each crate of the workspace and the ones it may depend on. Nothing may depend on the program or on the tests.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("saltica-tensor", &[]),
    ("saltica-models", &["saltica-tensor"]),
    ("saltica-core", &["saltica-tensor", "saltica-models"]),
    ("saltica-cpu", &["saltica-tensor", "saltica-models", "saltica-core"]),
    ("saltica-cuda", &["saltica-tensor", "saltica-models", "saltica-core"]),
    ("saltica-vision", &["saltica-tensor"]),
    ("saltica-pipeline", &["saltica-tensor", "saltica-vision", "saltica-core"]),
    ("saltica-jetson", &[]),
    ("saltica-cross", &[]),
    ("saltica", LIBRARIES),
    ("saltica-tests", ALL),
];
const LIBRARIES: &[&str] = &[
    "saltica-tensor",
    "saltica-models",
    "saltica-core",
    "saltica-cpu",
    "saltica-cuda",
    "saltica-vision",
    "saltica-pipeline",
    "saltica-jetson",
];
const ALL: &[&str] = &[
    "saltica-tensor",
    "saltica-models",
    "saltica-core",
    "saltica-cpu",
    "saltica-cuda",
    "saltica-vision",
    "saltica-pipeline",
    "saltica-jetson",
    "saltica-cross",
    "saltica",
];

/// Where `unsafe` may stand: folders and files, from the workspace's root. All other crates forbid it.
const MAY_BE_UNSAFE: &[(&str, &str)] = &[
    ("runtime/tensor/src", "strided views, storage and mapped files"),
    ("runtime/cpu", "SIMD kernels and the thread pool"),
    ("runtime/cuda", "a device's driver"),
    ("tests/src/memory.rs", "an allocator that counts"),
    ("runtime/vision/tests/steady.rs", "an allocator that counts"),
    ("runtime/pipeline/src/source/v4l2", "requests to a camera's driver and its mapped buffers"),
    ("runtime/pipeline/src/source/gst/ffi.rs", "GStreamer's C functions"),
    ("runtime/pipeline/tests/common/counting.rs", "an allocator that counts"),
];

/// Lines of a source file or document.
const LONGEST: usize = 1000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Files of the project below a folder whose name ends so, with paths from the root.
fn files(suffixes: &[&str]) -> Vec<(String, String)> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_symlink() {
                continue;
            } else if path.is_file() {
                found.push(path);
            } else if name != "target" && (!name.starts_with('.') || name == ".ci") {
                walk(&path, found);
            }
        }
    }
    let root = root();
    let mut found = Vec::new();
    walk(&root, &mut found);
    let mut texts: Vec<(String, String)> = found
        .into_iter()
        .filter_map(|path| {
            let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            let wanted = suffixes.iter().any(|s| name.ends_with(s));
            wanted.then(|| (name, std::fs::read_to_string(&path).unwrap()))
        })
        .collect();
    texts.sort();
    texts
}

/// Manifests of the workspace's crates: folder and content.
fn manifests() -> BTreeMap<String, toml::Table> {
    let found: BTreeMap<String, toml::Table> = files(&["Cargo.toml"])
        .into_iter()
        .filter_map(|(path, text)| {
            let table: toml::Table = text.parse().unwrap();
            // Fuzz targets are no members.
            let member = table.contains_key("package") && !path.contains("fuzz/");
            member.then(|| (path.strip_suffix("/Cargo.toml").unwrap().to_string(), table))
        })
        .collect();
    assert!(found.len() >= 8, "{:?}", found.keys());
    found
}

fn name(manifest: &toml::Table) -> &str {
    manifest["package"]["name"].as_str().unwrap()
}

/// Crates of this workspace that a manifest names in any of its lists of dependencies, those for one target included.
fn dependencies<'t>(table: &'t toml::Table, found: &mut BTreeSet<&'t str>) {
    for (key, value) in table {
        let Some(inner) = value.as_table() else { continue };
        if key.ends_with("dependencies") {
            found.extend(inner.keys().map(String::as_str).filter(|k| k.starts_with("saltica")));
        } else if key == "target" || key.starts_with("cfg(") {
            dependencies(inner, found);
        }
    }
}

#[test]
fn arrows_run_downwards() {
    for (folder, manifest) in manifests() {
        let name = name(&manifest);
        let (_, allowed) = MAY_DEPEND_ON
            .iter()
            .find(|(n, _)| *n == name)
            .unwrap_or_else(|| panic!("{folder}: say in this test what {name} may depend on"));
        let mut found = BTreeSet::new();
        dependencies(&manifest, &mut found);
        for dependency in found {
            assert!(
                allowed.contains(&dependency),
                "{name} depends on {dependency}; it may depend on {allowed:?}"
            );
        }
    }
}

#[test]
fn the_table_itself_has_no_cycle() {
    for (name, below) in MAY_DEPEND_ON {
        for other in *below {
            let (_, back) = MAY_DEPEND_ON.iter().find(|(n, _)| n == other).unwrap();
            assert!(!back.contains(name), "{name} and {other}");
        }
    }
}

#[test]
fn unsafe_stands_where_it_may() {
    let allowed = |path: &str| MAY_BE_UNSAFE.iter().any(|(p, _)| path.starts_with(p));
    for (path, text) in files(&[".rs"]) {
        let stands = text.lines().any(|line| {
            let code = line.split("//").next().unwrap_or_default();
            ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"].iter().any(|u| code.contains(u))
        });
        // This file names what it looks for.
        let own = path.ends_with("tests/architecture.rs");
        assert!(!stands || own || allowed(&path), "{path} has unsafe code; see MAY_BE_UNSAFE");
    }
    for (folder, manifest) in manifests() {
        let partly =
            MAY_BE_UNSAFE.iter().any(|(p, _)| p.starts_with(&format!("{folder}/src")) || *p == folder);
        if partly {
            continue;
        }
        for entry in ["src/lib.rs", "src/main.rs"] {
            let Ok(text) = std::fs::read_to_string(root().join(&folder).join(entry)) else { continue };
            assert!(
                text.contains("#![forbid(unsafe_code)]"),
                "{}: {folder}/{entry} does not forbid unsafe code",
                name(&manifest)
            );
        }
    }
}

#[test]
fn each_dependency_has_a_reason() {
    let text = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let mut section = "";
    let mut seen = 0;
    for line in text.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let Some((name, rest)) = line.split_once('=') else { continue };
        if section != "[workspace.dependencies]" || name.starts_with(['#', '[']) || rest.contains("path =") {
            continue;
        }
        let reason = rest.split_once('#').map_or("", |(_, reason)| reason.trim());
        assert!(reason.len() >= 10, "{} has no reason beside it in [workspace.dependencies]", name.trim());
        seen += 1;
    }
    assert!(seen >= 10, "{seen} dependencies found");
}

#[test]
fn each_dependency_is_used() {
    let text = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let workspace: toml::Table = text.parse().unwrap();
    let manifests = manifests();
    let lists = |m: &toml::Table| -> Vec<String> {
        let lists = m.iter().filter(|(key, _)| key.ends_with("dependencies"));
        lists.filter_map(|(_, l)| l.as_table()).flat_map(|l| l.keys().cloned()).collect()
    };
    let used: BTreeSet<String> = manifests.values().flat_map(lists).collect();
    for name in workspace["workspace"]["dependencies"].as_table().unwrap().keys() {
        assert!(used.contains(name), "no crate uses {name} of [workspace.dependencies]");
    }
}

/// A version or a path beside the workspace's list would be a dependency without a reason.
#[test]
fn dependencies_come_from_the_workspace() {
    for (folder, manifest) in manifests() {
        for (list, entries) in manifest.iter().filter(|(key, _)| key.ends_with("dependencies")) {
            for (dependency, how) in entries.as_table().unwrap() {
                let shared = how.get("workspace").and_then(toml::Value::as_bool) == Some(true);
                assert!(shared, "{folder}: {dependency} in [{list}] does not say `workspace = true`");
            }
        }
    }
}

#[test]
fn files_tell_one_story() {
    let all = files(&[".rs", ".md", ".toml", ".sh", ".py", ".cu"]);
    assert!(all.len() > 100, "{} files found", all.len());
    for (path, text) in all {
        // What a tool of the project wrote is data.
        let tool = text
            .lines()
            .next()
            .and_then(|l| l.split_once("written by `"))
            .and_then(|(_, t)| t.split('`').next());
        if tool.is_some_and(|tool| root().join(tool).is_file()) {
            continue;
        }
        let lines = text.lines().count();
        assert!(lines <= LONGEST, "{path} has {lines} lines, {LONGEST} at most expected");
    }
}
