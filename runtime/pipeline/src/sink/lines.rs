//! Results as lines of JSON: to stdout or to a file that is rotated.
//!
//! A line is written by one call, so that whatever happens, a file holds whole lines, but for the last one if the machine
//! itself stopped; such a torn end is cut off when the file is opened again. When the file reaches its size, it becomes
//! `FILE.1`, an older `FILE.1` becomes `FILE.2`, and so on up to the number of files kept: renames only, so that no line
//! is lost or doubled.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{Flow, FrameResult, Sink};
use crate::{Error, ErrorKind, Result};

/// Writes each result as one line of JSON.
#[derive(Debug)]
pub struct Lines<W> {
    name: String,
    to: W,
    line: Vec<u8>,
}

/// Something that takes whole lines.
pub trait LineWriter: Send {
    /// Writes one line, its end included.
    ///
    /// # Errors
    /// What the system says.
    fn line(&mut self, line: &[u8]) -> io::Result<()>;

    /// Makes sure that what was written will stay.
    ///
    /// # Errors
    /// What the system says.
    fn sync(&mut self) -> io::Result<()>;
}

/// The program's standard output, line by line.
#[derive(Debug)]
pub struct Stdout(io::Stdout);

impl LineWriter for Stdout {
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let mut out = self.0.lock();
        out.write_all(line)?;
        out.flush()
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Lines<Stdout> {
    /// To stdout. When its reader goes away the sink ends, without an error.
    pub fn stdout() -> Lines<Stdout> {
        Lines { name: "json:-".into(), to: Stdout(io::stdout()), line: Vec::new() }
    }
}

impl Lines<RotatingFile> {
    /// To a file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when it cannot be opened for writing, [`ErrorKind::Value`] when it holds something else.
    pub fn file(path: impl Into<PathBuf>, rotation: Rotation) -> Result<Lines<RotatingFile>> {
        let path = path.into();
        let name = format!("json:{}", path.display());
        Ok(Lines { name, to: RotatingFile::open(path, rotation)?, line: Vec::new() })
    }
}

impl<W: LineWriter> Sink for Lines<W> {
    fn name(&self) -> &str {
        &self.name
    }

    fn accept(&mut self, result: &FrameResult) -> Result<Flow> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, result)
            .map_err(|e| Error::new(ErrorKind::Bug, format!("a result that is no JSON: {e}")))?;
        self.line.push(b'\n');
        match self.to.line(&self.line) {
            Ok(()) => Ok(Flow::More),
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(Flow::Done),
            Err(e) => Err(Error::new(ErrorKind::Io, format!("cannot write: {e}"))),
        }
    }

    fn close(&mut self) -> Result<()> {
        match self.to.sync() {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
                Err(Error::new(ErrorKind::Io, format!("cannot write: {e}")))
            }
            _ => Ok(()),
        }
    }
}

/// When a file is closed and a new one begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes a file may have; a single longer line gets a file of its own.
    pub bytes: u64,
    /// Files kept, the current one included; at least 1. With 1 the file starts anew.
    pub files: u32,
}

impl Default for Rotation {
    fn default() -> Self {
        Rotation { bytes: 64 << 20, files: 5 }
    }
}

/// A file that makes room for a new one when it has reached its size.
#[derive(Debug)]
pub struct RotatingFile {
    path: PathBuf,
    rotation: Rotation,
    /// None after a failed rotation: the next line tries again.
    file: Option<File>,
    bytes: u64,
    /// A line was cut short (disk full): its beginning has to go first.
    torn: bool,
}

impl RotatingFile {
    /// Opens a file to go on at its end; what stands behind its last line end is cut off.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when it cannot be opened for writing, [`ErrorKind::Value`] when it holds something else.
    pub fn open(path: PathBuf, rotation: Rotation) -> Result<RotatingFile> {
        let mut new = RotatingFile { path, rotation, file: None, bytes: 0, torn: false };
        new.reopen().map_err(|e| match e.kind() {
            io::ErrorKind::InvalidData => Error::new(ErrorKind::Value, e.to_string()),
            _ => Error::new(ErrorKind::Io, format!("cannot open {} for writing: {e}", new.path.display())),
        })?;
        Ok(new)
    }

    fn reopen(&mut self) -> io::Result<()> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&self.path)?;
        // A device or a pipe (such as /dev/stderr) has no lines to look back at.
        self.bytes = 0;
        if file.metadata()?.is_file() {
            // What another program wrote is never touched.
            if !is_ours(&mut file)? {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!(
                        "{} exists, and its first line is no result: name another file, or move it away",
                        self.path.display()
                    ),
                ));
            }
            self.bytes = mend(&mut file)?;
        }
        (self.file, self.torn) = (Some(file), false);
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        let last = self.rotation.files.max(1) - 1;
        if last == 0 {
            std::fs::remove_file(&self.path)?;
        }
        for n in (0..last).rev() {
            let from = if n == 0 { self.path.clone() } else { numbered(&self.path, n) };
            if from.exists() {
                std::fs::rename(from, numbered(&self.path, n + 1))?;
            }
        }
        self.reopen()
    }
}

impl LineWriter for RotatingFile {
    fn line(&mut self, line: &[u8]) -> io::Result<()> {
        if self.file.is_none() || self.torn {
            self.reopen()?;
        }
        let regular = self.file.as_ref().is_some_and(|f| f.metadata().is_ok_and(|m| m.is_file()));
        if regular && self.bytes > 0 && self.bytes + line.len() as u64 > self.rotation.bytes {
            self.rotate()?;
        }
        let Some(file) = &mut self.file else { return Err(io::Error::other("no file is open")) };
        let written = file.write_all(line);
        // On an error nobody knows how much arrived: the end is mended before the next line.
        self.torn = written.is_err();
        self.bytes += line.len() as u64;
        written
    }

    fn sync(&mut self) -> io::Result<()> {
        match &self.file {
            Some(f) if f.metadata()?.is_file() => f.sync_data(),
            _ => Ok(()),
        }
    }
}

/// Whether a file begins with a result, or with as much of one as could be written.
fn is_ours(file: &mut File) -> io::Result<bool> {
    let mut head = [0u8; 64];
    let mut filled = 0;
    file.seek(SeekFrom::Start(0))?;
    while filled < head.len() {
        match file.read(&mut head[filled..])? {
            0 => break,
            n => filled += n,
        }
    }
    let head = &head[..filled];
    // {"schema":1,"type":"result",
    let is_start = |text: &[u8], of: &[u8]| text.starts_with(of) || of.starts_with(text);
    let before = b"{\"schema\":";
    let Some(rest) = head.strip_prefix(before) else { return Ok(is_start(head, before)) };
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    Ok(is_start(&rest[digits..], b",\"type\":\"result\",") && (digits > 0 || rest.is_empty()))
}

/// Cuts off what stands behind the last line end; returns the bytes left.
fn mend(file: &mut File) -> io::Result<u64> {
    let all = file.metadata()?.len();
    let mut end = all;
    let mut block = [0u8; 4096];
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let part = &mut block[..(end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(part)?;
        if let Some(at) = part.iter().rposition(|b| *b == b'\n') {
            end = start + at as u64 + 1;
            break;
        }
        end = start;
    }
    if end < all {
        file.set_len(end)?;
    }
    Ok(end)
}

/// The name of the `n`-th older file.
fn numbered(path: &Path, n: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{n}"));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of a rotated log that exist, oldest first.
    fn files(path: &Path) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = (1..).map(|n| numbered(path, n)).take_while(|p| p.exists()).collect();
        all.reverse();
        all.extend(path.exists().then(|| path.to_owned()));
        all
    }

    fn result(frame: u64) -> FrameResult {
        FrameResult { frame, source_name: "cam".into(), ..FrameResult::default() }
    }

    fn frames(path: &Path) -> Vec<u64> {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'));
        let id =
            |l: &str| serde_json::from_str::<serde_json::Value>(l).unwrap()["frame_id"].as_u64().unwrap();
        text.lines().map(id).collect()
    }

    #[test]
    fn files_rotate_without_losing_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        let bytes = serde_json::to_vec(&result(10)).unwrap().len() as u64 + 1;
        let rotation = Rotation { bytes: bytes * 10 + 200, files: 4 };
        let mut sink = Lines::file(&path, rotation).unwrap();
        for i in 0..35 {
            assert_eq!(sink.accept(&result(i)).unwrap(), Flow::More);
        }
        // Opened anew it goes on where it was.
        sink.close().unwrap();
        drop(sink);
        let mut sink = Lines::file(&path, rotation).unwrap();
        for i in 35..58 {
            sink.accept(&result(i)).unwrap();
        }
        let all = files(&path);
        assert_eq!(all.len(), 4);
        let lines: Vec<Vec<u64>> = all.iter().map(|p| frames(p)).collect();
        // In order, without a gap, the oldest files gone, none beyond its size.
        let flat: Vec<u64> = lines.concat();
        assert_eq!(flat, (flat[0]..58).collect::<Vec<_>>());
        assert!(lines[..3].iter().all(|l| (9..=11).contains(&l.len())), "{lines:?}");
        assert!(all.iter().all(|p| p.metadata().unwrap().len() <= rotation.bytes));
        assert!(!dir.path().join("r.jsonl.4").exists());
    }

    #[test]
    fn one_file_starts_anew_and_a_long_line_gets_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        let mut sink = Lines::file(&path, Rotation { bytes: 10, files: 1 }).unwrap();
        for i in 0..3 {
            sink.accept(&result(i)).unwrap();
        }
        assert_eq!(frames(&path), [2]);
        assert_eq!(files(&path), [path]);
    }

    #[test]
    fn a_torn_end_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.jsonl");
        for torn in ["{\"schema\":1,\"ty", &"x".repeat(10_000)] {
            let mut sink = Lines::file(&path, Rotation::default()).unwrap();
            sink.accept(&result(1)).unwrap();
            sink.close().unwrap();
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(torn.as_bytes()).unwrap();
            let mut sink = Lines::file(&path, Rotation::default()).unwrap();
            sink.accept(&result(2)).unwrap();
            assert_eq!(frames(&path), [1, 2]);
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn somebody_elses_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.txt");
        let long = format!("{{\"name\":\"{}\"}}", "x".repeat(9000));
        for theirs in [
            "not JSON",
            "{\"name\":\"settings\",\"of\":\"another program\"}",
            "{\n  \"pretty\": true\n}\n",
            "{\"schema\":1,\"type\":\"frame\",\"frame_id\":1}\n",
            "{\"schema\":\"http://json-schema.org/draft-07/schema#\"}",
            "{}",
            "\n",
            &long,
        ] {
            std::fs::write(&path, theirs).unwrap();
            let e = Lines::file(&path, Rotation::default()).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Value, "{theirs}");
            assert!(e.to_string().contains("first line is no result"), "{e}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), theirs);
        }
        // What a crash left of our own first line is ours.
        let whole = serde_json::to_string(&result(1)).unwrap();
        for bytes in 0..whole.len() {
            std::fs::write(&path, &whole[..bytes]).unwrap();
            let mut sink = Lines::file(&path, Rotation::default()).unwrap();
            sink.accept(&result(2)).unwrap();
            assert_eq!(frames(&path), [2], "{bytes} bytes");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_said() {
        let e = Lines::file("/nonexistent/r.jsonl", Rotation::default()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Io);
        assert!(e.to_string().contains("/nonexistent/r.jsonl"), "{e}");
    }

    #[test]
    fn a_full_disk_is_an_error_each_time_and_no_end() {
        // The device that is always full.
        let mut sink = Lines::file("/dev/full", Rotation::default()).unwrap();
        for i in 0..3 {
            let e = sink.accept(&result(i)).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Io);
        }
    }

    struct Broken;

    impl LineWriter for Broken {
        fn line(&mut self, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn sync(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_reader_that_went_away_is_an_end() {
        let mut sink = Lines { name: "x".into(), to: Broken, line: Vec::new() };
        assert_eq!(sink.accept(&result(0)).unwrap(), Flow::Done);
        sink.close().unwrap();
    }
}
