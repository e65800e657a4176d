//! Annotated video: AVI of JPEGs, Y4M, or JPEGs as a multipart stream.
//!
//! Results of a live source come when they come, video has a fixed rate: time is cut into slots of `1 / fps` from the first
//! frame's capture on, a slot without a frame repeats the one before, and of several frames in a slot the first one is
//! taken. So the video runs at the speed of what it shows. (A multipart stream has no clock and takes what comes, at most
//! `fps`.)
//!
//! Each source has a video of its own: `clip.avi` is source 0's, `clip-1.avi` source 1's. A file that has reached its size
//! goes on in `clip.2.avi`, `clip.3.avi` and so on; another run goes on behind what it finds there. The oldest ones go when a
//! newer one is whole, never for one that could not be written. A pipe (`-`) takes the first source that sends something.

mod avi;
mod planes;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use saltica_vision::Image;

use self::avi::Avi;
use self::planes::y4m;
use super::annotate::{Annotated, jpeg};
use super::pace::Paced;
use super::{Demand, Flow, FrameResult, Sink};
use crate::frame::SourceId;
use crate::{Error, ErrorKind, Result};

/// Kinds of video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// AVI 1.0 with JPEGs.
    Avi,
    /// YUV4MPEG2, 4:2:0, full range.
    Y4m,
    /// `multipart/x-mixed-replace` parts of JPEGs, as network cameras send them.
    Multipart,
}

/// How video is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VideoOptions {
    /// Frames per second, 0.1 to 240.
    pub fps: f64,
    /// JPEG quality, 1 to 100.
    pub quality: u8,
    /// Pictures wider than this are scaled down; 0 keeps their size.
    pub width: usize,
    /// Bytes after which a new file begins.
    pub bytes: u64,
    /// Files of each source kept of those this sink wrote, the current one included; others are never touched.
    pub files: u32,
}

impl Default for VideoOptions {
    fn default() -> Self {
        VideoOptions { fps: 30.0, quality: 85, width: 0, bytes: 1 << 30, files: 10 }
    }
}

/// Writes annotated video.
#[derive(Debug)]
pub struct Video {
    name: String,
    container: Container,
    /// None: stdout.
    path: Option<PathBuf>,
    options: VideoOptions,
    paced: Arc<Paced>,
    annotated: Annotated,
    streams: Vec<Stream>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Stream {
    source: SourceId,
    file: Option<Output>,
    size: (usize, usize),
    /// Capture time of the first frame of the file.
    start: Duration,
    /// Slots filled in the file.
    slots: u64,
    written: u64,
    /// Number of the file that was opened last, from 1.
    number: u32,
    /// Numbers of the other files there are, oldest first.
    kept: VecDeque<u32>,
    /// The frame written last, encoded.
    last: Vec<u8>,
}

enum Output {
    Avi(Box<Avi>),
    Plain(BufWriter<Box<dyn Write + Send>>),
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Output::Avi(_)) { "Avi" } else { "Plain" })
    }
}

impl Video {
    /// What separates the parts of a multipart stream.
    pub const BOUNDARY: &'static str = "saltica-frame";
    /// The longest pause that is filled with repeated frames; beyond it the video just goes on.
    const LONGEST_PAUSE: Duration = Duration::from_secs(10);

    /// To the file `path`, or to stdout.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for AVI to stdout (its header is written last) or a rate that is none, [`ErrorKind::Io`] when
    /// the file's folder is not there.
    pub fn new(container: Container, path: Option<PathBuf>, options: VideoOptions) -> Result<Video> {
        let scheme = match container {
            Container::Avi => "avi",
            Container::Y4m => "y4m",
            Container::Multipart => "mjpeg",
        };
        let shown = path.as_ref().map_or_else(|| "-".to_owned(), |p| p.display().to_string());
        if container == Container::Avi && path.is_none() {
            return Err(Error::new(
                ErrorKind::Value,
                "avi:- cannot be written, since the header of an AVI file comes last: use y4m:- or mjpeg:-",
            ));
        }
        if !(0.1..=240.0).contains(&options.fps) {
            return Err(Error::new(
                ErrorKind::Value,
                format!("{} frames a second found, 0.1 to 240 expected", options.fps),
            ));
        }
        if let Some(folder) = path.as_ref().and_then(|p| p.parent()).filter(|p| !p.as_os_str().is_empty())
            && !folder.is_dir()
        {
            return Err(Error::new(
                ErrorKind::Io,
                format!("cannot write {shown}: {} is no folder", folder.display()),
            ));
        }
        let period = Duration::from_secs_f64(1.0 / options.fps);
        Ok(Video {
            name: format!("{scheme}:{shown}"),
            container,
            path,
            options: VideoOptions { files: options.files.max(1), ..options },
            // Frames that come a little early are still wanted; the slots decide.
            paced: Paced::new(period.mul_f64(0.75)),
            annotated: Annotated::new()?,
            streams: Vec::new(),
            bytes: Vec::new(),
        })
    }

    /// Where file `number` of a source goes.
    fn file(path: &Path, source: SourceId, number: u32) -> PathBuf {
        let mut name = path.file_stem().unwrap_or_default().to_owned();
        if source.0 > 0 {
            name.push(format!("-{}", source.0));
        }
        if number > 1 {
            name.push(format!(".{number}"));
        }
        if let Some(extension) = path.extension() {
            name.push(".");
            name.push(extension);
        }
        path.with_file_name(name)
    }

    fn open(&self, source: SourceId, number: u32, size: (usize, usize)) -> io::Result<Output> {
        let plain = |w: Box<dyn Write + Send>| BufWriter::with_capacity(1 << 16, w);
        let mut output = match &self.path {
            None => Output::Plain(plain(Box::new(io::stdout()))),
            Some(path) => {
                let file = File::create(Self::file(path, source, number))?;
                match self.container {
                    Container::Avi => Output::Avi(Box::new(Avi::new(file, size, self.options.fps)?)),
                    _ => Output::Plain(plain(Box::new(file))),
                }
            }
        };
        if self.container == Container::Y4m
            && let Output::Plain(w) = &mut output
        {
            let (n, d) = ratio(self.options.fps);
            writeln!(w, "YUV4MPEG2 W{} H{} F{n}:{d} Ip A1:1 C420jpeg XCOLORRANGE=FULL", size.0, size.1)?;
        }
        Ok(output)
    }

    /// The highest number of the files that are there already: whoever wrote them, they are not ours to replace or remove. What is
    /// no plain file (a named pipe) is none.
    fn existing(&self, source: SourceId) -> u32 {
        let Some(path) = &self.path else { return 0 };
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let first = Self::file(path, source, 1);
        let (stem, extension) = (first.file_stem().unwrap_or_default(), first.extension());
        let number = |entry: std::fs::DirEntry| {
            let name = PathBuf::from(entry.file_name());
            if !entry.file_type().is_ok_and(|t| t.is_file()) || name.extension() != extension {
                return None;
            }
            let found = name.file_stem()?;
            if found == stem {
                return Some(1);
            }
            let digits = found.as_bytes().strip_prefix(stem.as_bytes())?.strip_prefix(b".")?;
            let number = std::str::from_utf8(digits).ok()?.parse::<u32>().ok()?;
            // None that is written in another way.
            (number > 1 && Self::file(path, source, number).file_name() == Some(&entry.file_name()))
                .then_some(number)
        };
        std::fs::read_dir(folder).into_iter().flatten().flatten().filter_map(number).max().unwrap_or(0)
    }

    /// The file of stream `i` is over. Once it is whole, the oldest ones go, as far as `files` does not keep them.
    fn finish(&mut self, i: usize, files: u32) -> io::Result<()> {
        let s = &mut self.streams[i];
        let Some(file) = s.file.take() else { return Ok(()) };
        let done = finish(file);
        let Some(path) = &self.path else { return done };
        let name = Self::file(path, s.source, s.number);
        let plain = std::fs::metadata(&name).ok().filter(|m| m.is_file());
        let holds_a_frame =
            s.slots > 0 && (done.is_ok() || plain.as_ref().is_some_and(|m| m.len() > s.last.len() as u64));
        if !holds_a_frame {
            // The next one takes its place: a full disk is not to be littered.
            if plain.is_some() {
                drop(std::fs::remove_file(name));
            }
            s.number -= 1;
            return done;
        }
        s.kept.push_back(s.number);
        if done.is_ok() {
            while s.kept.len() > files as usize
                && let Some(old) = s.kept.pop_front()
            {
                // One that somebody else removed is as good as removed.
                drop(std::fs::remove_file(Self::file(path, s.source, old)));
            }
        }
        done
    }

    /// The place in `streams` of a source's stream. None if this sink does not show that source.
    fn stream(&mut self, result: &FrameResult) -> Option<usize> {
        if let Some(i) = self.streams.iter().position(|s| s.source == result.source) {
            return Some(i);
        }
        if self.path.is_none() && !self.streams.is_empty() {
            return None;
        }
        let number = self.existing(result.source);
        self.streams.push(Stream {
            source: result.source,
            file: None,
            size: (0, 0),
            start: result.captured,
            slots: 0,
            written: 0,
            number,
            kept: VecDeque::new(),
            last: Vec::new(),
        });
        Some(self.streams.len() - 1)
    }

    /// Writes `picture` into as many slots as are due.
    fn write(&mut self, i: usize, result: &FrameResult, picture: &Image) -> Result<()> {
        let size = (picture.width(), picture.height());
        let io = |name: &str, e: io::Error| match e.kind() {
            io::ErrorKind::BrokenPipe => Error::new(ErrorKind::Gone, "its reader went away"),
            _ => Error::new(ErrorKind::Io, format!("cannot write {name}: {e}")),
        };
        let s = &self.streams[i];
        let full =
            s.written >= self.options.bytes || self.container == Container::Avi && s.written >= Avi::MOST;
        if s.file.is_none() || s.size != size || (full && self.path.is_some()) {
            if self.path.is_none() && s.file.is_some() && self.container == Container::Y4m {
                return Err(Error::new(
                    ErrorKind::Image,
                    format!(
                        "a picture of {}x{}, all of a Y4M stream are {}x{}",
                        size.0, size.1, s.size.0, s.size.1
                    ),
                ));
            }
            // Beside them there will be the new one.
            self.finish(i, self.options.files - 1).map_err(|e| io(&self.name, e))?;
            let number = self.streams[i].number + 1;
            let file = self.open(result.source, number, size).map_err(|e| io(&self.name, e))?;
            let s = &mut self.streams[i];
            (s.file, s.size, s.start, s.number) = (Some(file), size, result.captured, number);
            (s.slots, s.written) = (0, 0);
        }
        let s = &mut self.streams[i];
        let slot = (result.captured.saturating_sub(s.start).as_secs_f64() * self.options.fps).round() as u64;
        let mut due = if s.slots == 0 { 1 } else { (slot + 1).saturating_sub(s.slots) };
        let most = (Self::LONGEST_PAUSE.as_secs_f64() * self.options.fps) as u64;
        if due > most {
            // The clock of the video is set forward by what is left out.
            s.start += Duration::from_secs_f64((due - 1) as f64 / self.options.fps);
            due = 1;
        }
        if self.container == Container::Multipart {
            due = due.min(1);
        }
        if due == 0 {
            return Ok(());
        }
        self.bytes.clear();
        if self.container == Container::Y4m {
            y4m(picture, &mut self.bytes);
        } else {
            jpeg(picture, self.options.quality, &mut self.bytes)?;
        }
        let Some(file) = &mut s.file else { return Ok(()) };
        for left in (0..due).rev() {
            let bytes = if left == 0 { &self.bytes } else { &s.last };
            put(file, self.container, bytes).map_err(|e| io(&self.name, e))?;
            s.slots += 1;
            s.written += bytes.len() as u64;
        }
        std::mem::swap(&mut s.last, &mut self.bytes);
        if let Output::Plain(w) = file {
            w.flush().map_err(|e| io(&self.name, e))?;
        }
        Ok(())
    }
}

fn put(file: &mut Output, container: Container, bytes: &[u8]) -> io::Result<()> {
    match file {
        Output::Avi(avi) => avi.frame(bytes),
        Output::Plain(w) => {
            match container {
                Container::Multipart => write!(
                    w,
                    "--{}\r\nContent-Type: image/jpeg\r\nContent-Length: {}\r\n\r\n",
                    Video::BOUNDARY,
                    bytes.len()
                )?,
                _ => w.write_all(b"FRAME\n")?,
            }
            w.write_all(bytes)?;
            if container == Container::Multipart { w.write_all(b"\r\n") } else { Ok(()) }
        }
    }
}

fn finish(file: Output) -> io::Result<()> {
    match file {
        Output::Avi(avi) => avi.finish(),
        Output::Plain(mut w) => w.flush(),
    }
}

impl Sink for Video {
    fn name(&self) -> &str {
        &self.name
    }

    fn demand(&self) -> Option<Arc<dyn Demand>> {
        Some(Arc::clone(&self.paced) as Arc<dyn Demand>)
    }

    fn accept(&mut self, result: &FrameResult) -> Result<Flow> {
        let Some(i) = self.stream(result) else { return Ok(Flow::More) };
        let Some(picture) = self.annotated.draw(result, self.options.width) else {
            return Ok(Flow::More);
        };
        match self.write(i, result, &picture) {
            Ok(()) => Ok(Flow::More),
            Err(e) if e.kind() == ErrorKind::Gone && self.path.is_none() => Ok(Flow::Done),
            Err(e) => {
                // Half a frame may be in it: the next one begins a new file.
                if self.path.is_some() {
                    drop(self.finish(i, u32::MAX));
                }
                Err(e)
            }
        }
    }

    fn close(&mut self) -> Result<()> {
        let mut first = Ok(());
        for i in 0..self.streams.len() {
            let end = self.finish(i, self.options.files);
            first = first.and(end.or_else(|e| match e.kind() {
                io::ErrorKind::BrokenPipe => Ok(()),
                _ => Err(Error::new(ErrorKind::Io, format!("cannot write {}: {e}", self.name))),
            }));
        }
        first
    }
}

/// A rate as a fraction: whole numbers over 1, others over 1001 (NTSC) or 1000.
fn ratio(fps: f64) -> (u32, u32) {
    let whole = fps.round();
    if (fps - whole).abs() < 1e-6 {
        (whole as u32, 1)
    } else if ((fps * 1.001).round() / 1.001 - fps).abs() < 5e-3 && fps > 1.0 {
        ((fps * 1.001).round() as u32 * 1000, 1001)
    } else {
        ((fps * 1000.0).round() as u32, 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::annotate::tests::gray;

    fn at(ms: u64) -> FrameResult {
        FrameResult { captured: Duration::from_millis(ms), frame: ms, ..gray(64, 48) }
    }

    fn chunks(avi: &[u8]) -> Vec<&[u8]> {
        let word = |at: usize| u32::from_le_bytes(avi[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!((&avi[..4], word(4) + 8, &avi[8..12]), (&b"RIFF"[..], avi.len(), &b"AVI "[..]));
        let movi = avi.windows(4).position(|w| w == b"movi").unwrap();
        let (mut at, end) = (movi + 4, movi + word(movi - 4));
        let mut found = Vec::new();
        while at < end {
            assert_eq!(&avi[at..at + 4], b"00dc");
            let size = word(at + 4);
            found.push(&avi[at + 8..at + 8 + size]);
            at += 8 + size + size % 2;
        }
        assert_eq!((at, word(48), word(140)), (end, found.len(), found.len()));
        // The index names the same chunks.
        assert_eq!((&avi[end..end + 4], word(end + 4)), (&b"idx1"[..], found.len() * 16));
        for (i, chunk) in found.iter().enumerate() {
            let entry = end + 8 + i * 16;
            assert_eq!(word(movi + word(entry + 8) + 4), word(entry + 12));
            assert_eq!(word(entry + 12), chunk.len());
        }
        found
    }

    #[test]
    fn an_avi_runs_at_the_speed_of_what_it_shows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.avi");
        let options = VideoOptions { fps: 10.0, ..VideoOptions::default() };
        let mut v = Video::new(Container::Avi, Some(path.clone()), options).unwrap();
        // Two frames in a slot, a gap of three slots, and a pause too long to be filled.
        for ms in [5000, 5100, 5110, 5500, 5600, 60_000, 60_100] {
            v.accept(&at(ms)).unwrap();
        }
        v.close().unwrap();
        let avi = std::fs::read(&path).unwrap();
        let found = chunks(&avi);
        assert_eq!(found.len(), 1 + 1 + 4 + 1 + 1 + 1);
        for jpeg in found {
            let p = image::load_from_memory(jpeg).unwrap();
            assert_eq!((p.width(), p.height()), (64, 48));
        }
    }

    #[test]
    fn sources_and_full_files_get_files_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let options = VideoOptions { fps: 10.0, bytes: 3000, files: 2, ..VideoOptions::default() };
        let mut v = Video::new(Container::Avi, Some(dir.path().join("a.avi")), options).unwrap();
        for i in 0..60 {
            v.accept(&FrameResult { source: SourceId(i as u32 % 2), ..at(i / 2 * 100) }).unwrap();
        }
        v.close().unwrap();
        let mut names: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names.len(), 4, "{names:?}");
        assert!(names[0].starts_with("a-1.") && names[3].starts_with("a."), "{names:?}");
        for n in names {
            chunks(&std::fs::read(dir.path().join(n)).unwrap());
        }
    }

    fn names(dir: &Path) -> Vec<String> {
        let name = |e: io::Result<std::fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
        let mut all: Vec<String> = std::fs::read_dir(dir).unwrap().map(name).collect();
        all.sort();
        all
    }

    #[test]
    fn another_run_goes_on_behind_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.avi");
        let others = ["a-1.7.avi", "a.03.avi", "a.2.y4m", "a.x.avi", "b.9.avi"];
        for other in others {
            std::fs::write(dir.path().join(other), "mine").unwrap();
        }
        let options = VideoOptions { fps: 10.0, files: 3, ..VideoOptions::default() };
        let run = |ms: u64| {
            let mut v = Video::new(Container::Avi, Some(path.clone()), options).unwrap();
            v.accept(&at(ms)).unwrap();
            v.close().unwrap();
        };
        run(0);
        let first = std::fs::read(&path).unwrap();
        run(1000);
        assert_eq!(std::fs::read(&path).unwrap(), first, "the older file was touched");
        let ours =
            |dir: &Path| names(dir).into_iter().filter(|n| !others.contains(&&**n)).collect::<Vec<_>>();
        assert_eq!(ours(dir.path()), ["a.2.avi", "a.avi"]);
        (2..6).for_each(|n| run(n * 1000));
        // More than `files`: those of earlier runs are not this one's to remove.
        assert_eq!(ours(dir.path()), ["a.2.avi", "a.3.avi", "a.4.avi", "a.5.avi", "a.6.avi", "a.avi"]);
        assert_eq!(std::fs::read(&path).unwrap(), first);
        for other in others {
            assert_eq!(std::fs::read(dir.path().join(other)).unwrap(), b"mine");
        }
    }

    #[test]
    fn older_files_stay_while_new_ones_cannot_be_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.y4m");
        let options = VideoOptions { fps: 10.0, files: 2, ..VideoOptions::default() };
        for old in ["a.y4m", "a.2.y4m"] {
            std::fs::write(dir.path().join(old), "an older recording").unwrap();
        }
        // The next one is a device that is always full.
        std::os::unix::fs::symlink("/dev/full", dir.path().join("a.3.y4m")).unwrap();
        let mut v = Video::new(Container::Y4m, Some(path.clone()), options).unwrap();
        for i in 0..5 {
            assert_eq!(v.accept(&at(i * 100)).unwrap_err().kind(), ErrorKind::Io);
        }
        assert_eq!(names(dir.path()), ["a.2.y4m", "a.3.y4m", "a.y4m"]);
        // There is room again.
        std::fs::remove_file(dir.path().join("a.3.y4m")).unwrap();
        v.accept(&at(1000)).unwrap();
        assert_eq!(names(dir.path()), ["a.2.y4m", "a.3.y4m", "a.y4m"]);
        v.close().unwrap();
        assert_eq!(names(dir.path()), ["a.2.y4m", "a.3.y4m", "a.y4m"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"an older recording");
    }

    #[test]
    fn an_avi_that_was_cut_off_has_a_header_that_fits() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.avi");
        let options = VideoOptions { fps: 10.0, ..VideoOptions::default() };
        let mut v = Video::new(Container::Avi, Some(path.clone()), options).unwrap();
        for i in 0..25 {
            v.accept(&at(i * 100)).unwrap();
        }
        // As a crash would leave it: never closed.
        let avi = std::fs::read(&path).unwrap();
        let word = |at: usize| u32::from_le_bytes(avi[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!(word(48), 20);
        assert!(word(4) + 8 <= avi.len() && word(216) > 20 * 300);
        std::mem::forget(v);
    }

    #[test]
    fn y4m_frames_have_their_planes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.y4m");
        let options = VideoOptions { fps: 29.97, ..VideoOptions::default() };
        let mut v = Video::new(Container::Y4m, Some(path.clone()), options).unwrap();
        for i in 0..3 {
            v.accept(&at(i * 33)).unwrap();
        }
        v.close().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let head = b"YUV4MPEG2 W64 H48 F30000:1001 Ip A1:1 C420jpeg XCOLORRANGE=FULL\n";
        assert_eq!(&bytes[..head.len()], head);
        let frame = 6 + 64 * 48 * 3 / 2;
        assert_eq!(bytes.len(), head.len() + 3 * frame);
        let first = &bytes[head.len()..][..frame];
        assert_eq!(&first[..6], b"FRAME\n");
        // Gray 90 is luma 90 and no chroma.
        assert!(first[6..6 + 64 * 48].iter().all(|y| *y == 90));
        assert!(first[6 + 64 * 48..].iter().all(|c| *c == 128));
    }

    #[test]
    fn a_multipart_stream_says_how_long_each_part_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.mjpeg");
        let mut v = Video::new(Container::Multipart, Some(path.clone()), VideoOptions::default()).unwrap();
        for i in 0..3 {
            v.accept(&at(i * 1000)).unwrap();
        }
        v.close().unwrap();
        let mut rest = &std::fs::read(&path).unwrap()[..];
        let mut parts = 0;
        while !rest.is_empty() {
            let end = rest.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
            let head = std::str::from_utf8(&rest[..end]).unwrap();
            let length: usize = head
                .strip_prefix("--saltica-frame\r\nContent-Type: image/jpeg\r\nContent-Length: ")
                .unwrap()
                .parse()
                .unwrap();
            assert!(image::load_from_memory(&rest[end + 4..][..length]).is_ok());
            assert_eq!(&rest[end + 4 + length..][..2], b"\r\n");
            rest = &rest[end + 6 + length..];
            parts += 1;
        }
        assert_eq!(parts, 3);
    }

    #[test]
    fn what_cannot_be_written_is_said() {
        let kind = |r: Result<Video>| r.unwrap_err().kind();
        let options = VideoOptions::default();
        assert_eq!(kind(Video::new(Container::Avi, None, options)), ErrorKind::Value);
        let slow = VideoOptions { fps: 0.0, ..options };
        assert_eq!(kind(Video::new(Container::Y4m, None, slow)), ErrorKind::Value);
        let e = Video::new(Container::Avi, Some("/nonexistent/a.avi".into()), options);
        assert_eq!(kind(e), ErrorKind::Io);
    }
}
