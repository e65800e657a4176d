//! Files that appear whole or not at all.

use crate::{Error, Result};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Files that are being written and do not yet have their final name.
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
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}-{}.part", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed)));
    let temporary = target.with_file_name(temporary);

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

/// Removes what is half written and ends the process: for an interrupt's handler.
pub fn abandon(exit_code: i32) -> ! {
    let list = unfinished();
    for path in list.iter() {
        let _ = std::fs::remove_file(path);
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
    fn a_missing_folder_is_named() {
        let e = write_file(Path::new("/no/such/folder/x"), |_| Ok(())).unwrap_err();
        assert!(e.to_string().starts_with("cannot write /no/such/folder/x"), "{e}");
    }
}
