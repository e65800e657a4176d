//! Fetches a public model: whole, with the published content, or not at all.
//!
//! The bytes go to `.NAME.onnx.part` in the folder of models. That file is locked while it is written, so of two pulls
//! at once the second waits and finds the work done. It stays when a transfer breaks, and the next one goes on from its
//! end (RFC 9110, 14.2: `Range`, with `If-Range` where the server gave a strong `ETag`). Only with the published size and
//! SHA-256 does it become `NAME.onnx`: synced first, then renamed.

use super::catalogue::{Entry, Origin, in_the_way};
use crate::{Error, ErrorKind, Result, sha256_hex};
use saltica_pipeline::source::redact;
use saltica_tensor::storage::MappedFile;
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How models are fetched.
#[derive(Clone, Debug)]
pub struct Puller {
    folder: PathBuf,
    url: Option<String>,
    timeout: Duration,
    attempts: u32,
    pause: Duration,
}

/// What is going on, for who waits.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// Another program fetches the same model; this one waits for it.
    Waiting,
    /// So many bytes are here, of all.
    Bytes(u64, u64),
    /// What went wrong, and that it is tried again after a pause.
    Again(&'a str, Duration),
}

/// A model that is here now.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Pulled {
    /// Its name.
    pub name: String,
    /// Its file.
    pub path: String,
    /// The file's size.
    pub bytes: u64,
    /// The file's SHA-256, hexadecimal.
    pub sha256: String,
    /// The address it was to be fetched from.
    pub url: String,
    /// Bytes that came over the network; 0 if it was here before.
    pub transferred: u64,
    /// Bytes of an earlier pull's transfer that was gone on with.
    pub resumed: u64,
}

/// What is known about a partial file: enough to ask for the rest of the same bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Origins {
    url: String,
    etag: Option<String>,
}

/// Why an attempt failed.
enum Failure {
    /// It may go better the next time, after this pause if the server asked for one.
    Passing(String, Option<Duration>),
    /// It will not.
    Lasting(Error),
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Failure::Lasting(e)
    }
}

type Attempt<T> = std::result::Result<T, Failure>;

/// The longest pause that a server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Puller {
    /// Fetches to `folder`, which is made if missing.
    pub fn new(folder: impl Into<PathBuf>) -> Puller {
        Puller {
            folder: folder.into(),
            url: None,
            timeout: Duration::from_secs(30),
            attempts: 5,
            pause: Duration::from_secs(1),
        }
    }

    /// Another address with the same file, such as a mirror's.
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// Longest wait for a connection, for an answer, and for the next bytes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Most attempts, and the pause after the first failed one, which doubles each time.
    pub fn attempts(mut self, attempts: u32, pause: Duration) -> Self {
        (self.attempts, self.pause) = (attempts.max(1), pause);
        self
    }

    /// Fetches a model, unless it is here with the published content.
    ///
    /// # Errors
    /// A folder that cannot be written to; an address that has no such file, or another file; a server or a network that
    /// fails at every attempt. Under the model's name there is then what was there before.
    pub fn pull(&self, entry: &Entry, mut progress: impl FnMut(Progress<'_>)) -> Result<Pulled> {
        let Origin::Public { url, bytes, sha256 } = entry.origin else {
            return Err(Error::new(
                ErrorKind::Usage,
                format!("{0} is inside the program, there is nothing to fetch: give --model {0}", entry.name),
            ));
        };
        std::fs::create_dir_all(&self.folder).map_err(|e| Error::io("make the folder", &self.folder, &e))?;
        let path = self.folder.join(entry.file_name());
        if let Some(found) = in_the_way(&path) {
            return Err(taken(&path, found));
        }
        let url = self.url.as_deref().unwrap_or(url);
        let mut job = Job {
            url,
            bytes,
            sha256,
            part: self.folder.join(format!(".{}.part", entry.file_name())),
            origins: self.folder.join(format!(".{}.part.json", entry.file_name())),
            agent: self.agent(),
            transferred: 0,
            resumed: None,
        };
        let origins = job.origins.symlink_metadata().map(|m| m.file_type());
        if origins.is_ok_and(|kind| !kind.is_file()) {
            return Err(taken(&job.origins, "no regular file"));
        }
        let done = |job: &Job<'_>| Pulled {
            name: entry.name.into(),
            path: path.display().to_string(),
            bytes,
            sha256: sha256.into(),
            url: redact(url),
            transferred: job.transferred,
            resumed: job.resumed.unwrap_or(0),
        };
        if has_content(&path, bytes, sha256) {
            return Ok(done(&job));
        }
        let mut file = self.lock(&job.part, &mut progress)?;
        // Whoever held the lock before may have done it.
        if has_content(&path, bytes, sha256) {
            let _ = std::fs::remove_file(&job.part);
            return Ok(done(&job));
        }
        if let Err(e) = self.fetch(&mut job, &mut file, &mut progress) {
            // Nothing to go on from: nothing is left. Who waits for the lock sees that its file is gone.
            if file.metadata().is_ok_and(|m| m.len() == 0) {
                let _ = std::fs::remove_file(&job.part);
                let _ = std::fs::remove_file(&job.origins);
            }
            return Err(e);
        }
        let moved = file.sync_all().and_then(|()| std::fs::rename(&job.part, &path));
        moved.map_err(|e| Error::io("write", &path, &e))?;
        // The name lasts only when the folder is on the disk, too; a file system that cannot do that has its own rules.
        let _ = File::open(&self.folder).and_then(|f| f.sync_all());
        let _ = std::fs::remove_file(&job.origins);
        Ok(done(&job))
    }

    /// Attempts until one succeeds, or there is no sense in another.
    fn fetch(
        &self,
        job: &mut Job<'_>,
        file: &mut File,
        progress: &mut impl FnMut(Progress<'_>),
    ) -> Result<()> {
        let mut failed = 0;
        loop {
            let (why, asked) = match job.attempt(file, progress) {
                Ok(()) => return Ok(()),
                Err(Failure::Lasting(e)) => return Err(e),
                Err(Failure::Passing(why, asked)) => (why, asked),
            };
            failed += 1;
            if failed >= self.attempts {
                let attempts = if failed == 1 { "attempt" } else { "attempts" };
                let kept = match file.metadata().map_or(0, |m| m.len()) {
                    0 => String::new(),
                    n => format!("; {n} bytes are kept, the same command goes on from there"),
                };
                return Err(Error::new(
                    ErrorKind::Io,
                    format!(
                        "cannot fetch {}: {why} ({failed} {attempts}{kept}; --url names a mirror)",
                        redact(job.url)
                    ),
                ));
            }
            let pause = asked.unwrap_or(self.pause.saturating_mul(1 << (failed - 1).min(10)));
            let pause = pause.min(LONGEST_PAUSE);
            progress(Progress::Again(&why, pause));
            std::thread::sleep(pause);
        }
    }

    fn agent(&self) -> ureq::Agent {
        ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(self.timeout))
            .timeout_resolve(Some(self.timeout))
            .timeout_recv_response(Some(self.timeout))
            .timeout_per_read(Some(self.timeout))
            .timeout_per_write(Some(self.timeout))
            // The hash is of the file, not of a compressed form of it.
            .accept_encoding("identity")
            .user_agent(concat!("saltica/", env!("CARGO_PKG_VERSION")))
            .build()
            .into()
    }

    /// Opens and locks the partial file.
    fn lock(&self, part: &Path, progress: &mut impl FnMut(Progress<'_>)) -> Result<File> {
        use rustix::fs::OFlags;
        let failed = |e: io::Error| Error::io("write", part, &e);
        // A link would lead the bytes to a file that is not ours.
        let no_link = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let mut told = false;
        loop {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false).custom_flags(no_link);
            let file = match options.open(part) {
                Ok(file) => file,
                Err(_) if part.is_symlink() => return Err(taken(part, "a link")),
                Err(e) => return Err(failed(e)),
            };
            if !file.metadata().map_err(failed)?.is_file() {
                return Err(taken(part, "no regular file"));
            }
            loop {
                match file.try_lock() {
                    Ok(()) => break,
                    Err(TryLockError::WouldBlock) => {
                        if !told {
                            progress(Progress::Waiting);
                            told = true;
                        }
                        std::thread::sleep(Duration::from_millis(100));
                    }
                    Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => {
                        log::warn!("{}: this file system knows no locks", part.display());
                        break;
                    }
                    Err(TryLockError::Error(e)) => return Err(failed(e)),
                }
            }
            // The one that waited holds a file which has got its final name, or is gone.
            let mine = file.metadata().map_err(failed)?;
            if part.metadata().is_ok_and(|m| (m.dev(), m.ino()) == (mine.dev(), mine.ino())) {
                return Ok(file);
            }
        }
    }
}

/// A transfer.
struct Job<'a> {
    url: &'a str,
    bytes: u64,
    sha256: &'a str,
    part: PathBuf,
    origins: PathBuf,
    agent: ureq::Agent,
    transferred: u64,
    /// Bytes of an earlier pull; None before the first bytes of this one.
    resumed: Option<u64>,
}

impl Job<'_> {
    /// One request: after it the partial file is the published one, or it failed.
    fn attempt(&mut self, file: &mut File, progress: &mut impl FnMut(Progress<'_>)) -> Attempt<()> {
        let local = |e: io::Error| self.local(&e);
        let mut have = file.metadata().map_err(local)?.len();
        let known = self.known_origins();
        // Bytes of another address may be other bytes; the hash would tell, after all of them.
        if have > self.bytes || (have > 0 && known.as_ref().is_none_or(|o| o.url != self.url)) {
            have = 0;
        }
        if have == self.bytes {
            if self.is_whole() {
                return Ok(());
            }
            have = 0;
        }
        let etag = known.and_then(|o| o.etag).filter(|_| have > 0);
        let mut request = self.agent.get(self.url);
        if have > 0 {
            request = request.header("Range", format!("bytes={have}-"));
            if let Some(etag) = &etag {
                request = request.header("If-Range", etag);
            }
        }
        let answer = request.call().map_err(|e| self.refused(e))?;
        let header = |name: &str| answer.headers().get(name).and_then(|v| v.to_str().ok());
        let status = answer.status().as_u16();
        let start = match status {
            200 => 0,
            206 => {
                let range = header("content-range").and_then(content_range);
                match range {
                    Some((start, total)) if start == have && total.is_none_or(|t| t == self.bytes) => start,
                    _ => {
                        // What the server sends does not fit to what is here.
                        file.set_len(0).map_err(local)?;
                        let found = header("content-range").unwrap_or("no Content-Range").to_owned();
                        return Err(Failure::Passing(
                            format!("bytes from {have} were asked for, the server sent {found}"),
                            None,
                        ));
                    }
                }
            }
            416 => {
                file.set_len(0).map_err(local)?;
                return Err(Failure::Passing(format!("the server has no bytes from {have} on"), None));
            }
            408 | 425 | 429 | 500.. => {
                let asked =
                    header("retry-after").and_then(|v| v.trim().parse().ok()).map(Duration::from_secs);
                return Err(Failure::Passing(format!("the server answers {}", answer.status()), asked));
            }
            _ => {
                return Err(Failure::Lasting(Error::new(
                    ErrorKind::Io,
                    format!(
                        "cannot fetch {}: the server answers {}; --url names another address with the same file",
                        redact(self.url),
                        answer.status()
                    ),
                )));
            }
        };
        let length = header("content-length").and_then(|v| v.parse::<u64>().ok());
        let encoded = header("content-encoding").is_some_and(|e| !e.eq_ignore_ascii_case("identity"));
        if let Some(length) = length.filter(|l| start + l != self.bytes || encoded) {
            let kind = header("content-type").unwrap_or("of no stated type");
            return Err(Failure::Lasting(self.wrong(&format!("{length} bytes ({kind})"), start)));
        }
        let etag = header("etag").filter(|e| e.starts_with('"')).map(str::to_owned);
        self.write_origins(&Origins { url: self.url.into(), etag })?;
        file.set_len(start).and_then(|()| file.seek(SeekFrom::Start(start))).map_err(local)?;
        // Later attempts go on from bytes that came just now.
        self.resumed = Some(self.resumed.map_or(start, |earlier| earlier.min(start)));
        let mut body = answer.into_body().into_reader();
        let mut buffer = [0u8; 64 << 10];
        let mut at = start;
        progress(Progress::Bytes(at, self.bytes));
        loop {
            let n = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    return Err(Failure::Passing(format!("{} of {} bytes came: {e}", at, self.bytes), None));
                }
            };
            if at + n as u64 > self.bytes {
                file.set_len(0).map_err(|e| self.local(&e))?;
                return Err(Failure::Lasting(self.wrong(&format!("more than {} bytes", self.bytes), 0)));
            }
            if let Err(e) = file.write_all(&buffer[..n]) {
                // A full disk is not to be kept full.
                let _ = file.set_len(0);
                return Err(self.local(&e));
            }
            at += n as u64;
            self.transferred += n as u64;
            progress(Progress::Bytes(at, self.bytes));
        }
        if at < self.bytes {
            return Err(Failure::Passing(
                format!("the connection ended after {at} of {} bytes", self.bytes),
                None,
            ));
        }
        if self.is_whole() {
            return Ok(());
        }
        file.set_len(0).map_err(|e| self.local(&e))?;
        if start > 0 {
            return Err(Failure::Passing("the parts of two transfers do not fit together".into(), None));
        }
        Err(Failure::Lasting(self.wrong("other content of the same size", 0)))
    }

    /// The error for a server that has another file.
    fn wrong(&self, found: &str, start: u64) -> Error {
        Error::new(
            ErrorKind::Format,
            format!(
                "{} does not hold the published file: {found} found, {} bytes with SHA-256 {} expected; nothing was \
                 installed. Is a login page or a changed mirror in between? --url names another address",
                redact(self.url),
                self.bytes - start,
                self.sha256
            ),
        )
    }

    fn is_whole(&self) -> bool {
        has_content(&self.part, self.bytes, self.sha256)
    }

    fn local(&self, e: &io::Error) -> Failure {
        Failure::Lasting(Error::io("write", &self.part, e))
    }

    /// What a request that got no answer failed of.
    fn refused(&self, e: ureq::Error) -> Failure {
        match e {
            ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::InvalidProxyUrl => {
                Failure::Lasting(Error::new(
                    ErrorKind::Usage,
                    redact(&format!("{} is no address to fetch from: {e}", self.url)),
                ))
            }
            ureq::Error::TooManyRedirects => Failure::Lasting(Error::new(
                ErrorKind::Io,
                redact(&format!("cannot fetch {}: {e}", self.url)),
            )),
            other => Failure::Passing(other.to_string(), None),
        }
    }

    fn known_origins(&self) -> Option<Origins> {
        serde_json::from_slice(&std::fs::read(&self.origins).ok()?).ok()
    }

    fn write_origins(&self, origins: &Origins) -> Result<()> {
        crate::output::write_file(&self.origins, |to| {
            serde_json::to_writer(to, origins).map_err(io::Error::from)
        })
    }
}

/// The error for something under a name that this needs for a file.
fn taken(path: &Path, found: &str) -> Error {
    Error::new(ErrorKind::Io, format!("cannot write {}: it is {found}; move it away", path.display()))
}

/// Whether a file has this content.
fn has_content(path: &Path, bytes: u64, sha256: &str) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.len() == bytes)
        && MappedFile::open(path).is_ok_and(|f| sha256_hex(f.as_ref()) == sha256)
}

/// Start and total of `Content-Range: bytes START-END/TOTAL` (RFC 9110, 14.4); no total where the server does not know it.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let start = range.split_once('-')?.0.trim().parse().ok()?;
    match total.trim() {
        "*" => Some((start, None)),
        n => Some((start, Some(n.parse().ok()?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_standard_writes_them() {
        assert_eq!(content_range("bytes 10-19/20"), Some((10, Some(20))));
        assert_eq!(content_range("bytes 0-0/*"), Some((0, None)));
        for bad in ["", "bytes */20", "bytes 10/20", "items 1-2/3", "bytes 1-2", "bytes 1-2/x"] {
            assert_eq!(content_range(bad), None, "{bad}");
        }
    }
}
