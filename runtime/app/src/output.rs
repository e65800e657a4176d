//! Files and folders that appear whole or not at all.

use crate::{Error, ErrorKind, Result};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Files and folders that are being written and do not yet have their final name.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static SERIAL: AtomicUsize = AtomicUsize::new(0);

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a file through `fill`: under another name beside it first, so that a crash, an error or an interrupt leaves
/// the former file or none. What is not a regular file (a pipe, `/dev/null`) is written directly.
pub fn write_file(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<()> {
    let failed = |e: io::Error| Error::io("write", path, &e);
    if path.metadata().is_ok_and(|m| !m.is_file()) {
        let mut to = BufWriter::new(File::options().write(true).open(path).map_err(failed)?);
        return fill(&mut to).and_then(|()| to.flush()).map_err(failed);
    }
    // A link is followed, so that it stays one.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = target.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
    let temporary = target.with_file_name(temporary_name(name));

    unfinished().push(temporary.clone());
    let written = (|| {
        let mut to = BufWriter::new(File::options().write(true).create_new(true).open(&temporary)?);
        fill(&mut to)?;
        to.into_inner().map_err(|e| e.into_error()).map(drop)
    })();
    // The list stays locked over the rename, so an interrupt comes before or after it.
    let mut list = unfinished();
    let result = written.and_then(|()| std::fs::rename(&temporary, &target));
    if result.is_err() {
        // Nothing can be done about a file that cannot be removed either; the first error is the one to tell.
        let _ = std::fs::remove_file(&temporary);
    }
    list.retain(|p| *p != temporary);
    result.map_err(failed)
}

/// Fills a folder through `fill`: under another name beside it first, so that a crash, an error or an interrupt leaves
/// none. The folder must be missing or empty.
///
/// # Errors
/// A folder that holds something, which is left as it is; one that cannot be made; what `fill` gives.
pub fn write_folder<T>(path: &Path, fill: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let failed = |e: io::Error| Error::io("make the folder", path, &e);
    match std::fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
        Ok(true) => {}
        Ok(false) => {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("the folder {} is not empty: give a new one", path.display()),
            ));
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(failed(e)),
    }
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = target.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
    if let Some(parent) = target.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    let temporary = target.with_file_name(temporary_name(name));
    unfinished().push(temporary.clone());
    let filled = std::fs::create_dir(&temporary).map_err(failed).and_then(|()| fill(&temporary));
    // The list stays locked over the rename, so an interrupt comes before or after it.
    let mut list = unfinished();
    let result = filled.and_then(|v| std::fs::rename(&temporary, &target).map(|()| v).map_err(failed));
    if result.is_err() {
        let _ = std::fs::remove_dir_all(&temporary);
    }
    list.retain(|p| *p != temporary);
    result
}

/// The name beside `name` under which it is written.
fn temporary_name(name: &OsStr) -> OsString {
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}-{}.part", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed)));
    temporary
}

/// Removes what is half written and ends the process: for an interrupt's handler.
pub fn abandon(exit_code: i32) -> ! {
    let list = unfinished();
    for path in list.iter() {
        if std::fs::remove_file(path).is_err() && path.is_dir() {
            // Under another name first, so that no file can be added while it is emptied.
            let mut gone = path.clone().into_os_string();
            gone.push(".gone");
            if std::fs::rename(path, &gone).is_ok() {
                let _ = std::fs::remove_dir_all(&gone);
            }
        }
    }
    std::process::exit(exit_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        write_file(&path, |w| w.write_all(b"old")).unwrap();
        let e = write_file(&path, |w| {
            w.write_all(b"new")?;
            Err(io::Error::other("disk on fire"))
        })
        .unwrap_err();
        assert!(e.to_string().contains("a.txt") && e.to_string().contains("disk on fire"), "{e}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_and_devices_stay_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_file(&link, |w| w.write_all(b"new")).unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&file).unwrap(), b"new");

        let null = dir.path().join("null");
        std::os::unix::fs::symlink("/dev/null", &null).unwrap();
        write_file(&null, |w| w.write_all(b"new")).unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
    }

    #[test]
    fn a_folder_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/set");
        let fill =
            |folder: &Path| std::fs::write(folder.join("a"), "x").map_err(|e| Error::io("write", folder, &e));
        let e = write_folder(&path, |f| fill(f).and_then(|()| fill(&f.join("missing")))).unwrap_err();
        assert!(e.to_string().contains("missing"), "{e}");
        assert_eq!(std::fs::read_dir(dir.path().join("deep")).unwrap().count(), 0);

        std::fs::create_dir(&path).unwrap();
        write_folder(&path, fill).unwrap();
        assert_eq!(std::fs::read(path.join("a")).unwrap(), b"x");
        let e = write_folder(&path, fill).unwrap_err();
        assert!(e.to_string().contains("not empty"), "{e}");
        let file = path.join("a");
        assert!(write_folder(&file, fill).is_err());
        assert_eq!(std::fs::read(&file).unwrap(), b"x");
    }

    #[test]
    fn a_missing_folder_is_named() {
        let e = write_file(Path::new("/no/such/folder/x"), |_| Ok(())).unwrap_err();
        assert!(e.to_string().starts_with("cannot write /no/such/folder/x"), "{e}");
    }
}
