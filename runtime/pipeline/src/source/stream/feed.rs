//! Bytes that arrive when they like: a file, a pipe, a command's output. No read waits longer than it may.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What a read came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// All bytes asked for.
    Done,
    /// Not yet, and the time is over.
    Later,
    /// No more bytes will come.
    End,
}

/// A source of bytes.
#[derive(Debug)]
pub(crate) struct Feed {
    file: File,
    /// Whether reads may have to wait.
    waits: bool,
    /// Its reads would block: it is asked first whether there is something.
    blocks: bool,
    /// A named pipe: without a writer it is silent, and it ends when the writer goes.
    fifo: bool,
    /// Bytes read so far.
    read: u64,
    /// Bytes that were put back.
    back: Vec<u8>,
    command: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    errors: File,
    /// The end of what it wrote to its standard error.
    said: Vec<u8>,
    status: Option<ExitStatus>,
}

fn not_blocking(fd: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    Ok(rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK)?)
}

impl Feed {
    /// A regular file or a named pipe.
    pub(crate) fn open(path: &Path) -> io::Result<Feed> {
        // Not blocking: a named pipe without a writer would wait for one.
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let kind = file.metadata()?.file_type();
        if kind.is_dir() {
            return Err(io::Error::other(
                "a folder found, a file expected: use dir: for a folder of pictures",
            ));
        }
        Ok(Feed {
            file,
            waits: !kind.is_file(),
            blocks: false,
            fifo: kind.is_fifo(),
            read: 0,
            back: Vec::new(),
            command: None,
        })
    }

    /// This process' standard input.
    pub(crate) fn stdin() -> io::Result<Feed> {
        Self::shared(File::from(io::stdin().as_fd().try_clone_to_owned()?))
    }

    /// A file that other programs may have open, too.
    fn shared(file: File) -> io::Result<Feed> {
        let waits = !file.metadata()?.is_file();
        // Not to be made non-blocking: that would hold for every program that shares it, and stay when this one has ended.
        Ok(Feed { file, waits, blocks: waits, fifo: false, read: 0, back: Vec::new(), command: None })
    }

    /// What a command writes to its standard output. It and its children end when this is dropped.
    pub(crate) fn command(mut command: Command) -> io::Result<Feed> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let piped = |fd: Option<OwnedFd>| fd.ok_or_else(|| io::Error::other("the command has no output"));
        let out = File::from(piped(child.stdout.take().map(OwnedFd::from))?);
        let errors = File::from(piped(child.stderr.take().map(OwnedFd::from))?);
        not_blocking(&out)?;
        not_blocking(&errors)?;
        // A larger pipe holds a whole frame, so the command can work while we do; the system may refuse it.
        let _ = rustix::pipe::fcntl_setpipe_size(&out, 1 << 20);
        let command = Some(Running { child, errors, said: Vec::new(), status: None });
        Ok(Feed { file: out, waits: true, blocks: false, fifo: false, read: 0, back: Vec::new(), command })
    }

    /// Whether it is a named pipe.
    pub(crate) fn is_fifo(&self) -> bool {
        self.fifo
    }

    /// Puts bytes back, to be read again first.
    pub(crate) fn unread(&mut self, bytes: Vec<u8>) {
        self.read -= bytes.len() as u64;
        self.back = bytes;
    }

    /// Goes back to the start; false where that is not possible.
    pub(crate) fn rewind(&mut self) -> bool {
        let back = !self.waits && self.file.seek(SeekFrom::Start(0)).is_ok();
        if back {
            self.read = 0;
            self.back.clear();
        }
        back
    }

    /// Fills `to` from `at` on, and moves `at`; may be called again with the same when it said [`Filled::Later`].
    pub(crate) fn fill(&mut self, to: &mut [u8], at: &mut usize, deadline: Instant) -> io::Result<Filled> {
        while *at < to.len() {
            match self.some(&mut to[*at..], deadline)? {
                Some(0) => return Ok(Filled::End),
                Some(n) => *at += n,
                None => return Ok(Filled::Later),
            }
        }
        Ok(Filled::Done)
    }

    /// Some bytes; Some(0) at the end, None when the time is over.
    pub(crate) fn some(&mut self, to: &mut [u8], deadline: Instant) -> io::Result<Option<usize>> {
        if !self.back.is_empty() && !to.is_empty() {
            let n = self.back.len().min(to.len());
            to[..n].copy_from_slice(&self.back[..n]);
            self.back.drain(..n);
            self.read += n as u64;
            return Ok(Some(n));
        }
        loop {
            self.listen();
            if self.blocks && !self.is_readable()? {
                if !self.pause(deadline, false)? {
                    return Ok(None);
                }
                continue;
            }
            match self.file.read(to) {
                // A named pipe that nobody has written to yet.
                Ok(0) if self.fifo && self.read == 0 => {
                    if !self.pause(deadline, true)? {
                        return Ok(None);
                    }
                }
                Ok(n) => {
                    self.read += n as u64;
                    return Ok(Some(n));
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if !self.pause(deadline, false)? {
                        return Ok(None);
                    }
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Whether a read would return at once.
    fn is_readable(&self) -> io::Result<bool> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&at_once)) {
            Ok(n) => Ok(n > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Waits for bytes; false when the time is over.
    fn pause(&self, deadline: Instant, no_writer: bool) -> io::Result<bool> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        // A pipe whose writer has gone is always ready to say so: waiting for it would be a busy loop.
        let slice = Duration::from_millis(20).min(left);
        if no_writer {
            std::thread::sleep(slice);
            return Ok(true);
        }
        // Short enough that a command's errors are read in between.
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(slice.subsec_nanos()) };
        match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(true),
            Err(e) => Err(e.into()),
        }
    }

    /// Reads what a command says on its standard error: unread it would fill the pipe and block the command.
    fn listen(&mut self) {
        const KEPT: usize = 600;
        let Some(running) = &mut self.command else { return };
        let mut bytes = [0u8; 4096];
        while let Ok(n @ 1..) = running.errors.read(&mut bytes) {
            running.said.extend_from_slice(&bytes[..n]);
            if running.said.len() > 2 * KEPT {
                running.said.drain(..running.said.len() - KEPT);
            }
        }
    }

    /// How the command ended, once it has: whether well, and what it said last. None without a command.
    pub(crate) fn verdict(&mut self) -> Option<(bool, String)> {
        self.listen();
        let running = self.command.as_mut()?;
        // It has closed its output, so it is about to end, if anything.
        for _ in 0..50 {
            if let Ok(Some(status)) = running.child.try_wait() {
                running.status = Some(status);
                break;
            }
            std::thread::sleep(Duration::from_millis(4));
        }
        self.listen();
        let running = self.command.as_ref()?;
        let said = String::from_utf8_lossy(&running.said).trim().to_owned();
        let well = running.status.is_some_and(|s| s.success());
        let how = match running.status {
            Some(s) if s.success() => "the command ended well".into(),
            Some(s) => format!("the command ended with {s}"),
            None => "the command closed its output, but has not ended".into(),
        };
        Some((well, if said.is_empty() { how } else { format!("{how}: {said}") }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Once it is waited for, its number may be another's. What its shell started ends by itself: nobody reads it.
        if self.status.is_some() {
            return;
        }
        // The group has the child's number; killing it also ends what a shell started.
        if let Some(group) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn standard_input_is_read_in_time_and_left_as_it_was() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let mut write = File::from(write);
        let ours = File::from(read.try_clone().unwrap());
        let before = rustix::fs::fcntl_getfl(&read).unwrap();
        let mut feed = Feed::shared(ours).unwrap();
        let soon = || Instant::now() + Duration::from_millis(30);
        let (mut to, mut at) = ([0u8; 4], 0);
        assert_eq!(feed.fill(&mut to, &mut at, soon()).unwrap(), Filled::Later);
        write.write_all(b"abc").unwrap();
        assert_eq!((feed.fill(&mut to, &mut at, soon()).unwrap(), at), (Filled::Later, 3));
        write.write_all(b"de").unwrap();
        let late = Instant::now() + Duration::from_secs(60);
        assert_eq!((feed.fill(&mut to, &mut at, late).unwrap(), &to), (Filled::Done, b"abcd"));
        drop(write);
        assert_eq!(feed.fill(&mut to, &mut 0, late).unwrap(), Filled::End);
        assert_eq!(rustix::fs::fcntl_getfl(&read).unwrap(), before);
    }
}
