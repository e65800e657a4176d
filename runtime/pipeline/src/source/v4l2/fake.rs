//! A driver that does what its script says, for tests: well, badly, or not at all. It checks that we keep to the rules.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::abi::{self, MAX_PLANES};
use super::sys::{BufferIo, Driver, Ready, Region, Request};
use crate::frame::{lock, monotonic};

/// What happens next.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A good frame: each plane's bytes are this value.
    Frame(u8),
    /// A frame with these bytes in its first plane, and this many bytes said to be used.
    Bytes(Vec<u8>, u32),
    /// As `Frame`, with these flags.
    Flags(u8, u32),
    /// A frame whose every plane has this many bytes used.
    Used(u32),
    /// The frame counter goes on by this much without a frame.
    Skip(u32),
    /// Dequeueing fails.
    Fail(i32),
    /// No frame while we wait once.
    Silence,
    /// The device signals trouble, but dequeueing says nothing.
    Trouble,
    /// The driver returns this buffer, whether it has it or not.
    Stranger(u32),
    /// Queueing fails from now on.
    RefuseQueue(i32),
}

/// What a fake camera is.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) caps: u32,
    /// Pixel formats with their sizes; the first size is what an unknown one is turned into.
    pub(crate) formats: Vec<(u32, Vec<(u32, u32)>)>,
    /// Bytes that rows have behind their pixels.
    pub(crate) gap: u32,
    /// What `S_FMT` turns every format into.
    pub(crate) turns_into: Option<u32>,
    /// Buffers given, whatever is asked for.
    pub(crate) count: Option<u32>,
    /// Buffers are this much smaller than the format says.
    pub(crate) short: u32,
    pub(crate) mmap: bool,
    pub(crate) userptr: bool,
    pub(crate) export: bool,
    /// Which request fails with which error.
    pub(crate) fails: Option<(&'static str, i32)>,
    /// Flags of time stamps.
    pub(crate) clock: u32,
    /// Lists of formats never end.
    pub(crate) endless: bool,
    /// Bytes before the picture in each plane (multi-planar).
    pub(crate) data_offset: u32,
}

impl Default for Model {
    /// A camera with YUYV at two sizes.
    fn default() -> Self {
        Model {
            caps: abi::CAP_CAPTURE | abi::CAP_STREAMING,
            formats: vec![(abi::fourcc(b"YUYV"), vec![(64, 48), (32, 24)])],
            gap: 0,
            turns_into: None,
            count: None,
            short: 0,
            mmap: true,
            userptr: true,
            export: true,
            fails: None,
            clock: abi::FLAG_TIMESTAMP_MONOTONIC,
            endless: false,
            data_offset: 0,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    script: VecDeque<Step>,
    memory: u32,
    sizes: Vec<usize>,
    queued: VecDeque<u32>,
    streaming: bool,
    sequence: u32,
    refuse: Option<i32>,
    kind: u32,
    /// Where each plane of each buffer lies: mapped, or as it came with a user pointer.
    addresses: Vec<Vec<u64>>,
}

/// A fake camera, opened.
#[derive(Debug)]
pub(crate) struct Fake {
    model: Model,
    state: Mutex<State>,
    /// Devices that are open now.
    open: Arc<AtomicU32>,
}

impl Fake {
    pub(crate) fn new(model: Model, script: Vec<Step>, open: &Arc<AtomicU32>) -> Arc<Fake> {
        open.fetch_add(1, Ordering::Relaxed);
        let state = State { script: script.into(), ..State::default() };
        Arc::new(Fake { model, state: Mutex::new(state), open: Arc::clone(open) })
    }

    /// Buffers that the driver has now.
    pub(crate) fn queued(&self) -> usize {
        lock(&self.state).queued.len()
    }

    /// Adds to the script.
    pub(crate) fn then(&self, step: Step) {
        lock(&self.state).script.push_back(step);
    }

    pub(crate) fn streaming(&self) -> bool {
        lock(&self.state).streaming
    }

    fn fmt(&self, fourcc: u32, w: u32, h: u32, state: &mut State) -> Result<Answer> {
        let fourcc = self.model.turns_into.unwrap_or(fourcc);
        let sizes =
            self.model.formats.iter().find(|f| f.0 == fourcc).map(|f| f.1.clone()).unwrap_or_default();
        let (w, h) = sizes.iter().find(|s| **s == (w, h)).or(sizes.first()).copied().unwrap_or((w, h));
        let gap = self.model.gap;
        let planes = match &fourcc.to_le_bytes() {
            b"YUYV" | b"UYVY" => vec![((2 * w + gap) * h, 2 * w + gap)],
            b"RGB3" | b"BGR3" => vec![((3 * w + gap) * h, 3 * w + gap)],
            b"NV12" | b"NV21" | b"YU12" => vec![((w + gap) * h * 3 / 2, w + gap)],
            b"NM12" => vec![((w + gap) * h, w + gap), ((w + gap) * h / 2, w + gap)],
            b"MJPG" => vec![(w * h * 2, 0)],
            _ => vec![((w + gap) * h, w + gap)],
        };
        let off = self.model.data_offset;
        state.sizes = planes.iter().map(|p| (p.0 + off) as usize).collect();
        Ok((fourcc, w, h, planes.into_iter().map(|(s, b)| (s + off, b)).collect()))
    }

    fn dequeue(&self, io: &mut BufferIo, state: &mut State) -> Result<()> {
        let step = state.script.pop_front();
        let mut flags = 0;
        let (fill, used) = match step {
            Some(Step::Frame(v)) => (Fill::All(v), None),
            Some(Step::Flags(v, f)) => {
                flags = f;
                (Fill::All(v), None)
            }
            Some(Step::Bytes(bytes, used)) => (Fill::These(bytes), Some(used)),
            Some(Step::Used(used)) => (Fill::All(7), Some(used)),
            Some(Step::Fail(errno)) => return Err(Error::from_raw_os_error(errno)),
            Some(Step::Stranger(index)) => {
                // One that it does have is dequeued, empty and without a stamp.
                state.queued.retain(|i| *i != index);
                io.raw.index = index;
                return Ok(());
            }
            _ => return Err(Error::from_raw_os_error(libc::EAGAIN)),
        };
        let Some(index) = state.queued.pop_front() else {
            return Err(Error::from_raw_os_error(libc::EAGAIN));
        };
        for p in 0..state.sizes.len() {
            let size = state.sizes[p];
            let bytes = match &fill {
                Fill::All(v) => vec![*v; size],
                Fill::These(bytes) => bytes.clone(),
            };
            let address = state.addresses[index as usize][p];
            let n = bytes.len().min(size);
            // SAFETY: the address is that of a mapping of at least `size` bytes which lives while the stream runs, and was
            // queued until now: by the rules under test nobody reads it.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, n) };
            let used = used.unwrap_or(size as u32);
            if io.is_multi() {
                io.planes[p].bytesused = used;
                io.planes[p].data_offset = self.model.data_offset;
            } else {
                io.raw.bytesused = used;
            }
        }
        let now = monotonic();
        io.raw.index = index;
        io.raw.flags = flags | self.model.clock;
        io.raw.sequence = state.sequence;
        io.raw.seconds = now.as_secs() as i64;
        io.raw.microseconds = i64::from(now.subsec_micros());
        state.sequence += 1;
        Ok(())
    }
}

/// Code, width, height, and the bytes and stride of each memory block.
type Answer = (u32, u32, u32, Vec<(u32, u32)>);

enum Fill {
    All(u8),
    These(Vec<u8>),
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Driver for Fake {
    fn ioctl(&self, request: Request<'_>) -> Result<()> {
        let errno = |e: i32| Err(Error::from_raw_os_error(e));
        let name = match &request {
            Request::Capability(_) => "capability",
            Request::SetFormat(_) | Request::SetFormatMplane(_) => "format",
            Request::Buffers(_) => "buffers",
            Request::QueryBuffer(_) => "query",
            Request::On(_) => "on",
            Request::Off(_) => "off",
            _ => "",
        };
        if let Some((which, e)) = self.model.fails
            && which == name
        {
            return errno(e);
        }
        let state = &mut *lock(&self.state);
        match request {
            Request::Capability(c) => {
                c.driver[..4].copy_from_slice(b"fake");
                c.card[..6].copy_from_slice(b"Camera");
                c.capabilities = abi::CAP_DEVICE_CAPS;
                c.device_caps = self.model.caps;
            }
            Request::Formats(f) => {
                let i = f.index as usize;
                let i = if self.model.endless { i % self.model.formats.len() } else { i };
                let Some((fourcc, _)) = self.model.formats.get(i) else { return errno(libc::EINVAL) };
                f.pixelformat = *fourcc;
            }
            Request::Sizes(s) => {
                let sizes = self.model.formats.iter().find(|f| f.0 == s.pixelformat).map(|f| &f.1);
                let i = if self.model.endless { 0 } else { s.index as usize };
                let Some(&(w, h)) = sizes.and_then(|s| s.get(i)) else { return errno(libc::EINVAL) };
                s.kind = abi::SIZE_DISCRETE;
                (s.size[0], s.size[1]) = (w, h);
            }
            Request::Intervals(i) => {
                if i.index > 0 && !self.model.endless {
                    return errno(libc::EINVAL);
                }
                i.kind = abi::SIZE_DISCRETE;
                (i.interval[0], i.interval[1]) = (1, 30);
            }
            Request::SetFormat(f) => {
                let (fourcc, w, h, planes) = self.fmt(f.pix.pixelformat, f.pix.width, f.pix.height, state)?;
                (f.pix.pixelformat, f.pix.width, f.pix.height) = (fourcc, w, h);
                (f.pix.sizeimage, f.pix.bytesperline) = planes[0];
            }
            Request::SetFormatMplane(f) => {
                let (fourcc, w, h, planes) = self.fmt(f.pix.pixelformat, f.pix.width, f.pix.height, state)?;
                (f.pix.pixelformat, f.pix.width, f.pix.height) = (fourcc, w, h);
                f.pix.num_planes = planes.len() as u8;
                for (to, from) in f.pix.planes.iter_mut().zip(planes) {
                    (to.sizeimage, to.bytesperline) = from;
                }
            }
            Request::SetRate(p) => {
                p.capability = abi::PARM_TIMEPERFRAME;
                p.interval = [1, 30];
            }
            Request::Buffers(r) => {
                let can = if r.memory == abi::MEMORY_USERPTR { self.model.userptr } else { self.model.mmap };
                if !can {
                    return errno(libc::EINVAL);
                }
                r.count = self.model.count.unwrap_or(r.count);
                state.memory = r.memory;
                state.kind = r.kind;
                let planes = state.sizes.len();
                state.addresses = vec![vec![0; planes]; r.count as usize];
            }
            Request::QueryBuffer(io) => {
                for (p, size) in state.sizes.iter().enumerate() {
                    let (offset, length) =
                        (u64::from(io.raw.index) << 8 | p as u64, *size as u32 - self.model.short);
                    if io.is_multi() {
                        (io.planes[p].m, io.planes[p].length) = (offset, length);
                    } else {
                        (io.raw.m, io.raw.length) = (offset, length);
                    }
                }
            }
            Request::Queue(io) => {
                assert!(!state.queued.contains(&io.raw.index), "buffer {} is queued twice", io.raw.index);
                assert_eq!(io.raw.memory, state.memory);
                if let Some(e) = state.refuse {
                    return errno(e);
                }
                if state.memory == abi::MEMORY_USERPTR {
                    for p in 0..state.sizes.len() {
                        let (m, length) = if io.is_multi() {
                            (io.planes[p].m, io.planes[p].length)
                        } else {
                            (io.raw.m, io.raw.length)
                        };
                        assert!(m % 4096 == 0 && length as usize >= state.sizes[p]);
                        state.addresses[io.raw.index as usize][p] = m;
                    }
                }
                state.queued.push_back(io.raw.index);
            }
            Request::Dequeue(io) => {
                assert!(io.planes.len() == MAX_PLANES && state.streaming);
                return self.dequeue(io, state);
            }
            Request::Export(e) => {
                if !self.model.export {
                    return errno(libc::ENOTTY);
                }
                e.fd = File::open("/dev/null")?.into_raw_fd();
            }
            Request::On(kind) => {
                assert_eq!(kind, state.kind);
                state.streaming = true;
            }
            Request::Off(_) => {
                state.streaming = false;
                state.queued.clear();
            }
            Request::QueryControl(_) | Request::SetControl(_) => return errno(libc::EINVAL),
        }
        Ok(())
    }

    fn wait(&self, within: Duration) -> Result<Ready> {
        let state = &mut *lock(&self.state);
        loop {
            let ready = match state.script.front() {
                Some(Step::Skip(n)) => {
                    state.sequence += n;
                    state.script.pop_front();
                    continue;
                }
                Some(Step::RefuseQueue(e)) => {
                    state.refuse = Some(*e);
                    state.script.pop_front();
                    continue;
                }
                Some(Step::Silence) => {
                    state.script.pop_front();
                    Ready::default()
                }
                Some(Step::Trouble) => Ready { frame: false, trouble: true },
                Some(Step::Fail(_)) => Ready { frame: true, trouble: true },
                // A driver without buffers fills none.
                Some(_) => Ready { frame: !state.queued.is_empty(), trouble: false },
                None => Ready::default(),
            };
            if ready == Ready::default() {
                std::thread::sleep(within.min(Duration::from_millis(1)));
            }
            return Ok(ready);
        }
    }

    fn map(&self, offset: u64, length: usize) -> Result<Region> {
        // As the kernel does: the memory is the mapper's to unmap, and the driver knows where it is.
        let region = Region::own(length)?;
        let (index, plane) = ((offset >> 8) as usize, (offset & 0xff) as usize);
        lock(&self.state).addresses[index][plane] = region.address();
        Ok(region)
    }
}
