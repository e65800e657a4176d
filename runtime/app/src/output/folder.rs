//! Folders that are filled whole or not at all, by one run at a time.
//!
//! A new folder is filled under the name `.NAME.part` beside it, and renamed. An empty one that is there stays the very
//! folder that it is, with its mode, as a mount point or as somebody's working directory: it is filled in `.saltica.part`
//! inside, and the contents are moved at the end.
//!
//! The hidden folder holds a file that is locked for as long as the run lives. So another run learns at once that
//! somebody fills this folder, and what a killed run left is known by its lock that nobody holds: it is removed.

use super::unfinished;
use crate::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The locked file in a hidden folder.
const CLAIM: &str = ".saltica-claim";
/// The hidden folder in a folder that is filled in place.
const INSIDE: &str = ".saltica.part";

/// Fills a folder through `fill`, which is given a hidden folder to write to: a crash, an error or an interrupt leaves what
/// was there before. The folder must be missing or empty.
///
/// # Errors
/// A folder that holds something, cannot be written to, or is being filled by another program, before `fill` is called;
/// what `fill` gives.
pub fn write_folder<T>(path: &Path, fill: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let (target, hidden) = place(path)?;
    // The list stays locked meanwhile, so an interrupt removes no other program's folder and forgets none of ours.
    let mut list = unfinished();
    let claim = claim(&hidden, path)?;
    list.push(hidden.clone());
    drop(list);
    let filled = fill(&hidden);
    // The list stays locked over the moves, so an interrupt comes before or after them.
    let mut list = unfinished();
    let result = filled.and_then(|v| {
        let moved = finish(&hidden, &target);
        moved.map(|()| v).map_err(|e| Error::io("fill the folder", path, &e))
    });
    if result.is_err() {
        // Nothing can be done about a folder that cannot be removed either; the first error is the one to tell.
        let _ = std::fs::remove_dir_all(&hidden);
    }
    list.retain(|p| *p != hidden);
    drop(claim);
    result
}

/// The folder meant, without links on the way, and the hidden one in which it is filled.
fn place(path: &Path) -> Result<(PathBuf, PathBuf)> {
    let failed = |e: io::Error| Error::io("make the folder", path, &e);
    let usage = |what: &str| {
        let shown = path.display();
        Error::new(ErrorKind::Usage, format!("{shown} {what}: give a new folder, or an empty one"))
    };
    match std::fs::read_dir(path) {
        Ok(entries) => {
            for entry in entries {
                if entry.map_err(failed)?.file_name() != INSIDE {
                    return Err(usage("is not empty"));
                }
            }
            let target = path.canonicalize().map_err(failed)?;
            let hidden = target.join(INSIDE);
            Ok((target, hidden))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            if path.is_symlink() {
                return Err(usage("is a link to what is not there"));
            }
            let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
            let parent = match path.parent() {
                Some(p) if !p.as_os_str().is_empty() => p,
                _ => Path::new("."),
            };
            std::fs::create_dir_all(parent).map_err(failed)?;
            let parent = parent.canonicalize().map_err(failed)?;
            let mut hidden = OsString::from(".");
            hidden.push(name);
            hidden.push(".part");
            Ok((parent.join(name), parent.join(hidden)))
        }
        Err(_) if path.is_file() => Err(usage("is a file, not a folder")),
        Err(e) => Err(failed(e)),
    }
}

/// Makes the hidden folder and locks its claim.
fn claim(hidden: &Path, path: &Path) -> Result<File> {
    let failed = |e: io::Error| Error::io("fill the folder", path, &e);
    let in_use = |why: &str| {
        let (path, hidden) = (path.display(), hidden.display());
        Error::new(ErrorKind::Usage, format!("another program is filling {path}: {hidden} {why}"))
    };
    let file = hidden.join(CLAIM);
    // Whoever held the lock may finish, or give up, between two steps of this one; then it is done again.
    for _ in 0..100 {
        let made = match std::fs::create_dir(hidden) {
            Ok(()) => true,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => false,
            Err(e) => return Err(failed(e)),
        };
        let no_link = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let mut options = File::options();
        options.read(true).write(true).create_new(made).custom_flags(no_link.bits() as i32);
        let claim = match options.open(&file) {
            Ok(claim) => claim,
            Err(e) if made => {
                let _ = std::fs::remove_dir(hidden);
                return Err(failed(e));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound && hidden.symlink_metadata().is_err() => continue,
            Err(_) => return Err(in_use("is there. If no program runs that made it, remove it")),
        };
        match claim.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(in_use("is locked. Wait for it, or give another folder"));
            }
            // No locks on this file system: that the folder is new is claim enough.
            Err(TryLockError::Error(_)) if made => return Ok(claim),
            Err(TryLockError::Error(_)) => {
                return Err(in_use("is there. If no program runs that made it, remove it"));
            }
        }
        let id = |m: std::fs::Metadata| (m.dev(), m.ino());
        let mine = claim.metadata().map(id).map_err(failed)?;
        if file.symlink_metadata().is_ok_and(|m| id(m) == mine) {
            if !made {
                log::info!("{}: left by a program that was killed, removed", hidden.display());
                empty(hidden).map_err(failed)?;
            }
            return Ok(claim);
        }
    }
    Err(in_use("comes and goes. Give another folder"))
}

/// Removes everything but the claim.
fn empty(hidden: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(hidden)? {
        let entry = entry?;
        match entry.file_name() == CLAIM {
            true => {}
            false if entry.file_type()?.is_dir() => std::fs::remove_dir_all(entry.path())?,
            false => std::fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// Gives the contents their final place.
fn finish(hidden: &Path, target: &Path) -> io::Result<()> {
    if target.symlink_metadata().is_err() {
        std::fs::remove_file(hidden.join(CLAIM))?;
        return std::fs::rename(hidden, target);
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(hidden)? {
        let entry = entry?;
        if entry.file_name() != CLAIM {
            names.push((!entry.file_type()?.is_dir(), entry.file_name()));
        }
    }
    // Folders first: a file that lists their contents appears when they are there.
    names.sort();
    let mut moved = Vec::new();
    for (_, name) in &names {
        let (from, to) = (hidden.join(name), target.join(name));
        let result = match to.symlink_metadata() {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => std::fs::rename(&from, &to),
        };
        if let Err(e) = result {
            for (from, to) in moved {
                let _ = std::fs::rename(to, from);
            }
            return Err(e);
        }
        moved.push((from, to));
    }
    // Whole; a hidden folder that cannot be removed is not worth the work.
    let _ = std::fs::remove_dir_all(hidden);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut all: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        all.sort();
        all
    }

    fn fill(folder: &Path) -> Result<()> {
        std::fs::create_dir(folder.join("deep"))
            .and_then(|()| std::fs::write(folder.join("deep/b"), "y"))
            .and_then(|()| std::fs::write(folder.join("a"), "x"))
            .map_err(|e| Error::io("write", folder, &e))
    }

    fn stop(folder: &Path) -> Result<()> {
        fill(folder)?;
        Err(Error::new(ErrorKind::Run, "stopped"))
    }

    #[test]
    fn a_folder_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/set");
        assert!(write_folder(&path, stop).is_err());
        assert!(names(&dir.path().join("deep")).is_empty());
        write_folder(&path, |hidden| {
            assert!(!path.exists());
            fill(hidden)
        })
        .unwrap();
        assert_eq!(
            (names(&path), names(&path.join("deep"))),
            (vec!["a".into(), "deep".into()], vec!["b".into()])
        );

        let never =
            |_: &Path| -> Result<()> { panic!("nothing is drawn for a folder that cannot be filled") };
        std::os::unix::fs::symlink("nothing", dir.path().join("link")).unwrap();
        for (bad, part) in [
            (path.clone(), "is not empty"),
            (path.join("a"), "is a file, not a folder"),
            (path.join("a/b"), "cannot make the folder"),
            (dir.path().join("link"), "is a link to what is not there"),
            ("/proc/self/task/new".into(), "cannot fill the folder"),
        ] {
            let e = write_folder(&bad, never).unwrap_err().to_string();
            assert!(e.contains(part) && e.contains(bad.to_str().unwrap()), "{e}");
        }
        assert_eq!(std::fs::read(path.join("a")).unwrap(), b"x");
        assert_eq!(names(&dir.path().join("deep")), ["set"]);
    }

    #[test]
    fn an_empty_folder_is_filled_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("set");
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o2750)).unwrap();
        let id = |p: &Path| p.metadata().map(|m| (m.dev(), m.ino(), m.mode())).unwrap();
        let before = id(&path);
        assert!(write_folder(&path, stop).is_err());
        assert!(names(&path).is_empty());
        write_folder(&path, |hidden| {
            assert_eq!(names(&path), [INSIDE]);
            assert!(hidden.starts_with(path.canonicalize().unwrap()), "its own file system has room, or not");
            fill(hidden)
        })
        .unwrap();
        assert_eq!((id(&path), names(&path)), (before, vec!["a".into(), "deep".into()]));
        assert_eq!(names(dir.path()), ["set"]);
    }

    #[test]
    fn what_appears_meanwhile_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("set");
        // An empty folder is filled; a file in it of somebody else stays, and so do all that were moved.
        write_folder(&path, |hidden| {
            std::fs::create_dir(&path).unwrap();
            fill(hidden)
        })
        .unwrap();
        assert_eq!(names(&path), ["a", "deep"]);
        let path = dir.path().join("other");
        let e = write_folder(&path, |hidden| {
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("a"), "of somebody else").unwrap();
            fill(hidden)
        });
        assert!(e.unwrap_err().to_string().contains("exists"));
        assert_eq!((names(&path), names(dir.path())), (vec!["a".into()], vec!["other".into(), "set".into()]));
        assert_eq!(std::fs::read(path.join("a")).unwrap(), b"of somebody else");
    }

    #[test]
    fn one_run_fills_a_folder_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let empty = dir.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        for path in [dir.path().join("new"), empty] {
            write_folder(&path, |hidden| {
                let e = write_folder(&path, |_| -> Result<()> { panic!("it is taken") }).unwrap_err();
                assert!(e.to_string().contains("another program is filling"), "{e}");
                fill(hidden)
            })
            .unwrap();
            assert_eq!(names(&path), ["a", "deep"]);
        }
    }

    #[test]
    fn what_a_killed_run_left_is_removed_if_it_is_ours() {
        let dir = tempfile::tempdir().unwrap();
        let (path, hidden) = (dir.path().join("set"), dir.path().join(".set.part"));
        std::fs::create_dir_all(hidden.join("images")).unwrap();
        std::fs::write(hidden.join("images/old"), "").unwrap();
        let e = write_folder(&path, fill).unwrap_err().to_string();
        assert!(e.contains(".set.part") && e.contains("remove it"), "{e}");
        assert!(hidden.join("images/old").exists());

        std::fs::write(hidden.join(CLAIM), "").unwrap();
        write_folder(&path, fill).unwrap();
        assert_eq!((names(&path), names(dir.path())), (vec!["a".into(), "deep".into()], vec!["set".into()]));

        let inside = dir.path().join("empty").join(INSIDE);
        std::fs::create_dir_all(inside.join("images")).unwrap();
        std::fs::write(inside.join(CLAIM), "").unwrap();
        write_folder(&dir.path().join("empty"), fill).unwrap();
        assert_eq!(names(&dir.path().join("empty")), ["a", "deep"]);
    }
}
