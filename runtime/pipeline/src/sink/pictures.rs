//! Annotated pictures into a folder, of which the newest are kept.
//!
//! `FOLDER/SOURCE-TIME-FRAME.jpg`, where TIME is the capture time in milliseconds since 1970, so that names sort by time
//! and never clash. A picture is written under another name first and then renamed: whoever watches the folder sees whole
//! files only. Files of earlier runs count among those kept; files with other names are never touched.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::annotate::{Annotated, jpeg};
use super::pace::Paced;
use super::{Demand, Flow, FrameResult, Sink};
use crate::{Error, ErrorKind, Result};

/// How pictures are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PictureOptions {
    /// Files kept of those this sink wrote; others are never touched.
    pub files: usize,
    /// At least this much time between two pictures of one source.
    pub period: Duration,
    /// JPEG quality, 1 to 100.
    pub quality: u8,
    /// Pictures wider than this are scaled down; 0 keeps their size.
    pub width: usize,
    /// Only frames in which something was found.
    pub objects_only: bool,
}

impl Default for PictureOptions {
    fn default() -> Self {
        PictureOptions {
            files: 1000,
            period: Duration::from_secs(1),
            quality: 85,
            width: 0,
            objects_only: false,
        }
    }
}

/// Writes annotated JPEGs.
#[derive(Debug)]
pub struct Pictures {
    name: String,
    folder: PathBuf,
    /// What a picture is called until it is whole; no two sinks share it.
    partial: PathBuf,
    options: PictureOptions,
    paced: Arc<Paced>,
    annotated: Annotated,
    /// Ours, oldest first.
    written: VecDeque<PathBuf>,
    bytes: Vec<u8>,
}

impl Pictures {
    /// Into `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the folder cannot be made or read.
    pub fn new(folder: impl Into<PathBuf>, options: PictureOptions) -> Result<Pictures> {
        let folder = folder.into();
        let io = |what: &str, e: std::io::Error| {
            Error::new(ErrorKind::Io, format!("cannot {what} folder {}: {e}", folder.display()))
        };
        std::fs::create_dir_all(&folder).map_err(|e| io("make", e))?;
        std::fs::read_dir(&folder).map_err(|e| io("read", e))?;
        remove_stale(&folder);
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Pictures {
            name: format!("jpeg:{}", folder.display()),
            partial: folder.join(format!("{PARTIAL}{}-{number}", std::process::id())),
            folder,
            paced: Paced::new(options.period),
            options: PictureOptions { files: options.files.max(1), ..options },
            annotated: Annotated::new()?,
            written: VecDeque::new(),
            bytes: Vec::new(),
        })
    }

    fn tidy(&mut self) {
        while self.written.len() > self.options.files
            && let Some(old) = self.written.pop_front()
        {
            // One that somebody else removed is as good as removed.
            drop(std::fs::remove_file(old));
        }
    }
}

/// How names of pictures begin that are not whole yet; the process and a number follow.
const PARTIAL: &str = ".partial-";

/// Removes what processes left that ended in the middle of a picture.
fn remove_stale(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process =
            name.to_str().and_then(|n| n.strip_prefix(PARTIAL)?.split_once('-')?.0.parse::<u32>().ok());
        if process.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
            drop(std::fs::remove_file(entry.path()));
        }
    }
}

impl Sink for Pictures {
    fn name(&self) -> &str {
        &self.name
    }

    fn demand(&self) -> Option<Arc<dyn Demand>> {
        // Whether something was found is not known when pictures are asked for.
        let all: Arc<dyn Demand> = Arc::new(super::All);
        Some(if self.options.objects_only { all } else { Arc::clone(&self.paced) as Arc<dyn Demand> })
    }

    fn accept(&mut self, result: &FrameResult) -> Result<Flow> {
        let wanted = result.picture.pixels().is_some()
            && (!self.options.objects_only || !result.objects.is_empty())
            && self.paced.takes(result.source, result.captured);
        if !wanted {
            return Ok(Flow::More);
        }
        let Some(picture) = self.annotated.draw(result, self.options.width) else {
            return Ok(Flow::More);
        };
        self.bytes.clear();
        jpeg(&picture, self.options.quality, &mut self.bytes)?;
        let time = result.captured_unix().as_millis();
        let path = self.folder.join(format!("{}-{time}-{}.jpg", result.source.0, result.frame));
        std::fs::write(&self.partial, &self.bytes)
            .and_then(|()| std::fs::rename(&self.partial, &path))
            .inspect_err(|_| drop(std::fs::remove_file(&self.partial)))
            .map_err(|e| Error::new(ErrorKind::Io, format!("cannot write {}: {e}", path.display())))?;
        self.written.push_back(path);
        self.tidy();
        Ok(Flow::More)
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::Object;
    use crate::sink::annotate::tests::gray;

    fn names(folder: &Path) -> Vec<String> {
        let mut all: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        all.sort();
        all
    }

    #[test]
    fn the_newest_pictures_are_kept_and_other_files_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        // Also what an earlier run, or a camera whose names are dates, may have written.
        for other in ["holiday.jpg", "1-2.jpg", "a-1-2.jpg", "1-2-3.png", "2024-05-17.jpg", "0-999-4.jpg"] {
            std::fs::write(dir.path().join(other), "mine").unwrap();
        }
        let options = PictureOptions { files: 3, period: Duration::ZERO, ..PictureOptions::default() };
        let mut sink = Pictures::new(dir.path(), options).unwrap();
        let mut r = gray(64, 48);
        for i in 0..2 {
            (r.frame, r.captured) = (i, Duration::from_secs(i));
            sink.accept(&r).unwrap();
        }
        for i in 2..10 {
            (r.frame, r.captured) = (i, Duration::from_secs(i));
            sink.accept(&r).unwrap();
        }
        let all = names(dir.path());
        assert_eq!(all.len(), 6 + 3, "{all:?}");
        for other in ["holiday.jpg", "2024-05-17.jpg", "0-999-4.jpg"] {
            assert_eq!(std::fs::read_to_string(dir.path().join(other)).unwrap(), "mine");
        }
        for frame in 7..10 {
            let name = all.iter().find(|n| n.ends_with(&format!("-{frame}.jpg"))).expect("the newest");
            let picture = image::open(dir.path().join(name)).unwrap();
            assert_eq!((picture.width(), picture.height()), (64, 48));
        }
    }

    #[test]
    fn only_what_is_due_and_asked_for_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let options = PictureOptions { objects_only: true, ..PictureOptions::default() };
        let mut sink = Pictures::new(dir.path().join("new/folder"), options).unwrap();
        let mut r = gray(64, 48);
        sink.accept(&r).unwrap();
        r.objects.push(Object::new(0, 0.5, [1.0, 2.0, 30.0, 40.0]));
        for ms in (0..3000).step_by(100) {
            (r.frame, r.captured) = (ms, Duration::from_millis(5000 + ms));
            sink.accept(&r).unwrap();
        }
        r.picture.clear();
        r.captured = Duration::from_secs(100);
        sink.accept(&r).unwrap();
        assert_eq!(names(&dir.path().join("new/folder")).len(), 3);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_said() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let e = Pictures::new(dir.path().join("file/folder"), PictureOptions::default()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Io);
    }

    #[test]
    fn sinks_of_one_folder_do_not_share_an_unfinished_file() {
        let dir = tempfile::tempdir().unwrap();
        // No process has this number.
        let stale = dir.path().join(format!("{PARTIAL}{}-0", u32::MAX));
        std::fs::write(&stale, "half").unwrap();
        let sinks: Vec<Pictures> =
            (0..3).map(|_| Pictures::new(dir.path(), PictureOptions::default()).unwrap()).collect();
        assert!(!stale.exists());
        let mut names: Vec<&PathBuf> = sinks.iter().map(|s| &s.partial).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 3);
    }
}
