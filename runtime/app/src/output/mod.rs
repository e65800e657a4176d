//! Files and folders that appear whole or not at all.
//!
//! Both are written under another, hidden name first, which is made before the work starts: what cannot be written to is
//! learnt then, not after an hour. [`NewFile`] is renamed when it is whole; [`write_folder`] says how folders are filled.

mod folder;

pub use folder::write_folder;

use crate::{Error, ErrorKind, Result};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Files and folders that are being written and do not yet have their final name.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static SERIAL: AtomicUsize = AtomicUsize::new(0);

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that is going to be written: that it can be is known.
///
/// Until [`NewFile::write`] has succeeded there is the former file of that name or none, whatever happens: a crash, an
/// error, an interrupt. What is not a regular file (a pipe, `/dev/null`) is written directly.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    file: Option<File>,
    /// Where it is written, and the name it gets.
    beside: Option<(PathBuf, PathBuf)>,
}

impl NewFile {
    /// Opens it for writing.
    ///
    /// # Errors
    /// A folder; a folder that is missing or cannot be written to; a pipe that nobody reads.
    pub fn create(path: &Path) -> Result<NewFile> {
        let failed = |e: io::Error| Error::io("write", path, &e);
        if let Ok(there) = path.metadata()
            && !there.is_file()
        {
            let file = open_special(path, there.file_type().is_fifo())?;
            return Ok(NewFile { path: path.to_owned(), file: Some(file), beside: None });
        }
        // A link is followed, so that it stays one.
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let name = target.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
        let temporary = target.with_file_name(temporary_name(name));
        // The list stays locked meanwhile, so an interrupt finds no file that is not in it.
        let mut list = unfinished();
        let file = File::options().write(true).create_new(true).open(&temporary).map_err(failed)?;
        list.push(temporary.clone());
        drop(list);
        Ok(NewFile { path: path.to_owned(), file: Some(file), beside: Some((temporary, target)) })
    }

    /// Writes it through `fill`.
    ///
    /// # Errors
    /// What `fill` gives, and what the operating system refuses.
    pub fn write(mut self, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<()> {
        let written = (|| {
            let file = self.file.take().ok_or(io::ErrorKind::NotFound)?;
            let mut to = BufWriter::new(file);
            fill(&mut to)?;
            to.into_inner().map_err(|e| e.into_error()).map(drop)
        })();
        let written = written.and_then(|()| {
            let Some((temporary, target)) = self.beside.take() else { return Ok(()) };
            // The list stays locked over the rename, so an interrupt comes before or after it.
            let mut list = unfinished();
            let renamed = std::fs::rename(&temporary, &target);
            remove(&mut list, &temporary, renamed.is_err());
            renamed
        });
        written.map_err(|e| Error::io("write", &self.path, &e))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some((temporary, _)) = self.beside.take() {
            remove(&mut unfinished(), &temporary, true);
        }
    }
}

/// Takes a file from the list, and from the disk if it did not get its name.
fn remove(list: &mut Vec<PathBuf>, temporary: &Path, from_disk: bool) {
    if from_disk {
        // Nothing can be done about a file that cannot be removed either; the first error is the one to tell.
        let _ = std::fs::remove_file(temporary);
    }
    list.retain(|p| *p != temporary);
}

/// Opens what is no regular file: a device, or a pipe that somebody reads.
fn open_special(path: &Path, is_pipe: bool) -> Result<File> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let failed = |e: io::Error| Error::io("write", path, &e);
    // To open a pipe waits for a reader, which may never come; writing to it may wait.
    let at_once = OFlags::NONBLOCK.bits() as i32;
    let file = File::options().write(true).custom_flags(at_once).open(path).map_err(|e| match is_pipe {
        true if e.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            Error::new(ErrorKind::Io, format!("cannot write {}: a pipe that nobody reads", path.display()))
        }
        _ => failed(e),
    })?;
    let flags = fcntl_getfl(&file).map_err(|e| failed(e.into()))?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK).map_err(|e| failed(e.into()))?;
    Ok(file)
}

/// Writes a file through `fill`, as [`NewFile`].
///
/// # Errors
/// As [`NewFile::create`] and [`NewFile::write`].
pub fn write_file(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<()> {
    NewFile::create(path)?.write(fill)
}

/// Makes a folder for files, unless it is there, and finds out whether they can be written.
///
/// # Errors
/// A folder that cannot be made or written to.
pub fn make_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|e| Error::io("make the folder", path, &e))?;
    let trial = path.join(temporary_name(OsStr::new("saltica")));
    let written = File::options().write(true).create_new(true).open(&trial);
    written.map_err(|e| Error::io("write to the folder", path, &e))?;
    std::fs::remove_file(&trial).map_err(|e| Error::io("write to the folder", path, &e))
}

/// The name beside `name` under which it is written.
fn temporary_name(name: &OsStr) -> OsString {
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}-{}.part", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed)));
    temporary
}

/// Those of these signals that whoever started the program does not want ignored (`nohup`, a shell's background).
pub fn heeded(signals: &[i32]) -> Vec<i32> {
    let ignored = std::fs::read_to_string("/proc/self/status").map_or(0, |s| ignored(&s));
    signals.iter().copied().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
}

/// The mask of ignored signals in `/proc/PID/status` (proc_pid_status(5)): bit 0 is signal 1.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0)
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
    use std::io::Write;

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        let status =
            "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001003\nSigCgt:\t0000000180004002\n";
        assert_eq!(ignored(status), 0x1003);
        assert_eq!(ignored(""), 0);
    }

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
        drop(NewFile::create(&path).unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(unfinished().iter().all(|p| !p.starts_with(dir.path())));
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
    fn a_pipe_is_written_to_while_somebody_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let e = NewFile::create(&pipe).unwrap_err().to_string();
        assert!(e.contains("a pipe that nobody reads"), "{e}");
        // More than a pipe holds: writing waits for the reader.
        let at_once = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let reader = File::options().read(true).custom_flags(at_once).open(&pipe).unwrap();
        let to = NewFile::create(&pipe).unwrap();
        let writer = std::thread::spawn(move || to.write(|w| w.write_all(&[7; 300_000])));
        rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::empty()).unwrap();
        let mut all = Vec::new();
        io::Read::read_to_end(&mut &reader, &mut all).unwrap();
        writer.join().unwrap().unwrap();
        assert_eq!(all, [7; 300_000]);
        assert!(pipe.symlink_metadata().unwrap().file_type().is_fifo());
    }

    #[test]
    fn what_cannot_be_written_is_learnt_first() {
        let dir = tempfile::tempdir().unwrap();
        for (path, part) in [
            (dir.path(), "Is a directory"),
            (Path::new("/no/such/folder/x"), "cannot write /no/such/folder/x: No such file"),
            (Path::new("/proc/self/task/x"), "cannot write /proc/self/task/x"),
        ] {
            let e = NewFile::create(path).unwrap_err().to_string();
            assert!(e.contains(part), "{e}");
        }
        make_folder(&dir.path().join("a/b")).unwrap();
        assert_eq!(std::fs::read_dir(dir.path().join("a/b")).unwrap().count(), 0);
        // Nobody can write there, root included.
        let e = make_folder(Path::new("/proc/self/task")).unwrap_err().to_string();
        assert!(e.contains("cannot write to the folder /proc/self/task"), "{e}");
    }
}
