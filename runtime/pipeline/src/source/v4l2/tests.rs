//! The camera source against drivers that behave in every way.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use saltica_tensor::{ColorMatrix, PixelFormat};

use super::fake::{Fake, Model, Step};
use super::{V4l2Source, abi};
use crate::ErrorKind;
use crate::frame::{Frame, Memory, lock, monotonic};
use crate::ring::Bell;
use crate::source::jpeg::tests::jpeg;
use crate::source::options::{MemoryWish, Options, Wish};
use crate::source::{DropReason, Next, Source, State, Supervisor};

const WAIT: Duration = Duration::from_millis(2);

/// A source on a fake camera, the cameras that were opened so far, and how many are open.
struct Bench {
    source: V4l2Source,
    fakes: Arc<Mutex<Vec<Arc<Fake>>>>,
    open: Arc<AtomicU32>,
}

impl Bench {
    fn new(model: Model, options: Options, script: Vec<Step>) -> Bench {
        Self::reopening(options, vec![Ok((model, script))])
    }

    /// What each opening finds; the last is found again and again.
    fn reopening(options: Options, finds: Vec<Result<(Model, Vec<Step>), i32>>) -> Bench {
        let fakes = Arc::new(Mutex::new(Vec::new()));
        let open = Arc::new(AtomicU32::new(0));
        let (keep, count, mut at) = (Arc::clone(&fakes), Arc::clone(&open), 0);
        let opener = move || {
            let find = finds[at.min(finds.len() - 1)].clone();
            at += 1;
            let (model, script) = find.map_err(std::io::Error::from_raw_os_error)?;
            let fake = Fake::new(model, script, &count);
            lock(&keep).push(Arc::clone(&fake));
            Ok(fake as Arc<dyn super::Driver>)
        };
        Bench { source: V4l2Source::with("/dev/fake".into(), options, Box::new(opener)), fakes, open }
    }

    fn opened(model: Model, options: Options, script: Vec<Step>) -> Bench {
        let mut bench = Self::new(model, options, script);
        bench.source.open(WAIT).unwrap();
        bench
    }

    fn next(&mut self) -> Next {
        self.source.next(WAIT).unwrap()
    }

    fn frame(&mut self) -> Frame {
        match self.next() {
            Next::Frame(f) => f,
            other => panic!("{other:?}"),
        }
    }

    fn queued(&self) -> usize {
        lock(&self.fakes).last().unwrap().queued()
    }

    fn refusal(model: Model, options: Options) -> (ErrorKind, String) {
        let e = Self::new(model, options, vec![]).source.open(WAIT).unwrap_err();
        (e.kind(), e.to_string())
    }
}

fn small() -> Options {
    Options { size: Some((64, 48)), buffers: Some(3), ..Options::default() }
}

fn offering(codes: &[&[u8; 4]]) -> Model {
    Model { formats: codes.iter().map(|c| (abi::fourcc(c), vec![(64, 48)])).collect(), ..Model::default() }
}

#[test]
fn a_frame_is_the_drivers_buffer_and_goes_back_to_it() {
    for (wish, memory) in [
        (MemoryWish::Mmap, Memory::Mmap),
        (MemoryWish::UserPtr, Memory::UserPtr),
        (MemoryWish::DmaBuf, Memory::DmaBuf),
    ] {
        let o = Options { memory: Some(wish), ..small() };
        let before = monotonic();
        let mut b = Bench::opened(Model::default(), o, vec![Step::Frame(5), Step::Frame(6), Step::Frame(7)]);
        assert_eq!(b.queued(), 3);
        let first = b.frame();
        assert_eq!(
            (first.format().width, first.format().height, first.format().pixel),
            (64, 48, PixelFormat::Yuyv)
        );
        assert!(first.captured >= before - Duration::from_micros(1) && first.captured <= monotonic());
        assert_eq!(
            (first.copies(), first.memory(), first.dmabuf(0).is_some()),
            (0, memory, memory == Memory::DmaBuf)
        );
        assert!(first.pixels().row(47).iter().all(|b| *b == 5));
        assert_eq!(first.block(0).as_ptr() as usize % 4096, 0, "the bytes are the mapped pages themselves");
        let (at, second) = (first.buffer(), b.frame());
        assert_ne!(second.buffer(), at);
        assert_eq!(b.queued(), 1);
        drop(first);
        drop(second);
        assert_eq!(b.queued(), 3);
        assert_eq!(b.frame().sequence, 2);
    }
}

#[test]
fn every_raw_format_has_its_planes_where_the_driver_puts_them() {
    let cases: [(&[u8; 4], PixelFormat); 9] = [
        (b"YUYV", PixelFormat::Yuyv),
        (b"UYVY", PixelFormat::Uyvy),
        (b"NV12", PixelFormat::Nv12),
        (b"NV21", PixelFormat::Nv21),
        (b"YU12", PixelFormat::I420),
        (b"RGB3", PixelFormat::Rgb8),
        (b"BGR3", PixelFormat::Bgr8),
        (b"GREY", PixelFormat::Gray8),
        (b"NM12", PixelFormat::Nv12),
    ];
    for (code, pixel) in cases {
        for gap in [0, 32] {
            let split = code == b"NM12";
            let caps = if split { abi::CAP_CAPTURE_MPLANE } else { abi::CAP_CAPTURE };
            let offset = if split { 16 } else { 0 };
            let model =
                Model { caps: caps | abi::CAP_STREAMING, gap, data_offset: offset, ..offering(&[code]) };
            // Bytes that tell where they are.
            let bytes: Vec<u8> = (0..64 * 60 * 4u32).map(|i| (i % 251) as u8).collect();
            let used = match pixel {
                _ if split => 0,
                PixelFormat::Nv12 | PixelFormat::Nv21 | PixelFormat::I420 => (64 + gap) * 72,
                _ => (64 * pixel.bytes_per_pixel() as u32 + gap) * 48,
            };
            let step = if split { Step::Frame(9) } else { Step::Bytes(bytes.clone(), used) };
            let mut b = Bench::opened(model, small(), vec![step]);
            let f = b.frame();
            assert_eq!((f.format().pixel, f.format().blocks()), (pixel, if split { 2 } else { 1 }));
            let stride = 64 * pixel.bytes_per_pixel() + gap as usize;
            assert_eq!(f.pixels().stride(), stride);
            if split {
                assert!(f.pixels().plane_row(1, 23).iter().all(|b| *b == 9));
                assert_eq!(f.block(1).as_ptr() as usize % 4096, offset as usize);
            } else {
                assert_eq!(f.pixels().row(47)[0], (stride * 47 % 251) as u8);
                if pixel.planes() > 1 {
                    let chroma = pixel.plane_stride(1, stride);
                    assert_eq!(
                        f.pixels().plane_row(1, 2)[1],
                        ((stride * 48 + chroma * 2 + 1) % 251) as u8,
                        "{pixel}"
                    );
                }
            }
        }
    }
}

/// Name of the damage, the driver's step, and the reason under which it is counted.
#[test]
fn damaged_frames_are_dropped_by_reason_and_their_buffers_queued_again() {
    let size = 64 * 48 * 2u32;
    for (step, reason) in [
        (Step::Flags(1, abi::FLAG_ERROR), DropReason::DriverError),
        (Step::Used(0), DropReason::Empty),
        (Step::Used(1), DropReason::Truncated),
        (Step::Used(size - 1), DropReason::Truncated),
        (Step::Used(size + 1_000_000), DropReason::WrongSize),
        (Step::Used(u32::MAX), DropReason::WrongSize),
    ] {
        let mut b = Bench::opened(Model::default(), small(), vec![step.clone(), Step::Frame(3)]);
        assert!(matches!(b.next(), Next::Dropped(r) if r == reason), "{step:?}");
        assert_eq!(b.queued(), 3, "{step:?}");
        assert_eq!(b.frame().pixels().row(0)[0], 3);
    }
}

#[test]
fn jpegs_are_checked_and_decoded_and_their_buffers_queued_again() {
    let good = jpeg(64, 48, 200);
    let n = good.len() as u32;
    let bytes = |b: &[u8], used: u32| Step::Bytes(b.to_vec(), used);
    let mut padded = good.clone();
    padded.extend([0; 50]);
    let script = vec![
        bytes(&good, n),
        bytes(&good, n / 2),
        bytes(&good, 0),
        bytes(&good[2..], n - 2),
        bytes(&padded, n + 50),
        bytes(&good, u32::MAX),
    ];
    let mut b = Bench::opened(offering(&[b"MJPG"]), small(), script);
    let f = b.frame();
    assert_eq!(
        (f.memory(), f.copies(), f.format().pixel, b.queued()),
        (Memory::Heap, 0, PixelFormat::Rgb8, 3)
    );
    assert!(f.pixels().row(10).chunks_exact(3).all(|p| p[2].abs_diff(200) < 5));
    assert!(matches!(b.next(), Next::Dropped(DropReason::NoEndMarker)));
    assert!(matches!(b.next(), Next::Dropped(DropReason::Empty)));
    assert!(matches!(b.next(), Next::Dropped(DropReason::Decode)));
    assert_eq!(b.frame().sequence, 4);
    assert!(matches!(b.next(), Next::Dropped(DropReason::WrongSize)));
    assert_eq!(b.queued(), 3);
}

#[test]
fn what_dequeueing_says_decides() {
    // A passing error of the device is a dropped frame; one that stays, or any other, asks for a new opening.
    let mut b = Bench::opened(Model::default(), small(), vec![Step::Fail(libc::EIO), Step::Frame(1)]);
    assert!(matches!(b.next(), Next::Dropped(DropReason::DriverError)));
    b.frame();
    let mut b = Bench::opened(Model::default(), small(), vec![Step::Fail(libc::EIO); 9]);
    let last = (0..9).map(|_| b.source.next(WAIT)).find_map(Result::err).unwrap();
    assert_eq!(last.kind(), ErrorKind::Io);
    for (step, kind) in [
        (Step::Fail(libc::ENODEV), ErrorKind::Gone),
        (Step::Fail(libc::EPIPE), ErrorKind::Gone),
        (Step::Fail(libc::EINVAL), ErrorKind::Io),
        (Step::Fail(libc::ENOMEM), ErrorKind::Io),
        (Step::Trouble, ErrorKind::Gone),
        (Step::Stranger(2), ErrorKind::Io),
        (Step::Stranger(77), ErrorKind::Io),
    ] {
        let mut b = Bench::opened(Model::default(), small(), vec![Step::Frame(1), step.clone()]);
        let held = b.frame();
        // Buffer 2 is the driver's own: it may return it; the one we hold it may not.
        if matches!(step, Step::Stranger(2)) {
            assert!(matches!(b.source.next(WAIT), Ok(Next::Dropped(DropReason::Empty))));
            continue;
        }
        let e = b.source.next(WAIT).unwrap_err();
        assert!(e.kind() == kind && !e.kind().is_permanent(), "{step:?}: {e}");
        assert!(e.to_string().starts_with("/dev/fake: "), "{e}");
        drop(held);
    }
    // A driver that hands out the very buffer that a frame borrows must not get it written over.
    let mut b = Bench::opened(Model::default(), small(), vec![Step::Frame(1), Step::Stranger(0)]);
    let held = b.frame();
    assert_eq!(held.buffer(), Some(0));
    assert!(b.source.next(WAIT).unwrap_err().to_string().contains("which it did not have"));
    // With the last step, again and again: nothing comes, and nothing breaks.
    assert!(matches!(b.source.next(WAIT), Ok(Next::Nothing)));
}

#[test]
fn a_driver_that_takes_no_buffer_back_is_opened_anew() {
    let script = vec![Step::Frame(1), Step::RefuseQueue(libc::EIO), Step::Frame(2), Step::Frame(3)];
    let mut b = Bench::opened(Model::default(), small(), script);
    drop(b.frame());
    drop(b.frame());
    drop(b.frame());
    let e = b.source.next(WAIT).unwrap_err();
    assert!(e.to_string().contains("no longer"), "{e}");
}

#[test]
fn frames_outlive_the_stream_and_keep_the_device_until_they_go() {
    let mut b = Bench::opened(Model::default(), small(), vec![Step::Frame(42)]);
    let f = b.frame();
    b.source.close();
    assert!(!lock(&b.fakes)[0].streaming());
    lock(&b.fakes).clear();
    assert_eq!(b.open.load(Ordering::Relaxed), 1);
    assert!(f.pixels().row(20).iter().all(|b| *b == 42));
    drop(f);
    assert_eq!(b.open.load(Ordering::Relaxed), 0);
}

#[test]
fn what_cannot_be_opened_says_why() {
    for (errno, kind, part) in [
        (libc::ENOENT, ErrorKind::Gone, "the device is gone"),
        (libc::ENODEV, ErrorKind::Gone, "/dev/fake: opening"),
        (libc::EBUSY, ErrorKind::Busy, "another program"),
        (libc::EACCES, ErrorKind::Io, "group"),
    ] {
        let e = Bench::reopening(small(), vec![Err(errno)]).source.open(WAIT).unwrap_err();
        assert!(e.kind() == kind && e.to_string().contains(part), "{e}");
    }
    let plain = Model::default;
    for (model, part) in [
        (Model { caps: abi::CAP_META_CAPTURE | abi::CAP_STREAMING, ..plain() }, "metadata node"),
        (Model { caps: 2 | abi::CAP_STREAMING, ..plain() }, "captures no pictures"),
        (Model { caps: abi::CAP_CAPTURE, ..plain() }, "only read() is left"),
        (offering(&[b"H264", b"BA81"]), "pixel formats are H264, BA81; NV12"),
        (Model { formats: vec![], ..plain() }, "pixel formats are none"),
        (Model { turns_into: Some(abi::fourcc(b"BA81")), ..plain() }, "the driver turned it into BA81"),
        (Model { count: Some(1), ..plain() }, "gave 1 buffers"),
        (Model { count: Some(100_000), ..plain() }, "gave 100000 buffers"),
        (Model { short: 1, userptr: false, ..plain() }, "memory=userptr is not possible"),
        (Model { mmap: false, userptr: false, ..plain() }, "memory=userptr is not possible"),
    ] {
        let (kind, text) = Bench::refusal(model, small());
        assert!(kind == ErrorKind::Unsupported && text.contains(part), "{part}: {text}");
    }
    for (memory, model, part) in [
        (MemoryWish::UserPtr, Model { userptr: false, ..plain() }, "memory=userptr is not possible"),
        (MemoryWish::DmaBuf, Model { export: false, ..plain() }, "memory=dmabuf is not possible"),
        (MemoryWish::Mmap, Model { mmap: false, ..plain() }, "memory=mmap is not possible"),
    ] {
        let (kind, text) = Bench::refusal(model, Options { memory: Some(memory), ..small() });
        assert!(kind == ErrorKind::Unsupported && text.contains(part), "{text}");
    }
    for (fails, kind) in [
        (("capability", libc::ENODEV), ErrorKind::Gone),
        (("format", libc::EBUSY), ErrorKind::Busy),
        (("buffers", libc::ENOMEM), ErrorKind::Io),
        (("query", libc::EIO), ErrorKind::Io),
        (("on", libc::ENOSPC), ErrorKind::Busy),
    ] {
        assert_eq!(Bench::refusal(Model { fails: Some(fails), ..plain() }, small()).0, kind, "{fails:?}");
    }
}

#[test]
fn what_was_chosen_is_said() {
    let mut b = Bench::new(Model { mmap: false, ..Model::default() }, small(), vec![Step::Frame(1)]);
    let opened = b.source.open(WAIT).unwrap();
    assert!(
        opened.note.starts_with(
            "Camera (fake): 64x48 yuyv (BT.601 limited) at 30 fps, 3 userptr buffers (memory=mmap"
        ),
        "{}",
        opened.note
    );
    assert_eq!(b.frame().memory(), Memory::UserPtr);
    // A driver that settles on another format that we can read is taken at its word; lists without end are cut.
    let model =
        Model { turns_into: Some(abi::fourcc(b"NV12")), endless: true, ..offering(&[b"YUYV", b"NV12"]) };
    let mut b = Bench::new(model, small(), vec![Step::Frame(1)]);
    assert!(b.source.open(WAIT).unwrap().note.contains("64x48 nv12"));
    let wish = Options { format: Some(Wish::Raw(PixelFormat::Yuyv)), ..small() };
    let (_, text) = Bench::refusal(
        Model { turns_into: Some(abi::fourcc(b"NV12")), ..offering(&[b"YUYV", b"NV12"]) },
        wish,
    );
    assert!(text.contains("YUYV was set, the driver turned it into NV12"), "{text}");
    let o = Options {
        color: Some(saltica_tensor::Colorimetry { matrix: ColorMatrix::Bt709, full_range: true }),
        ..small()
    };
    let mut b = Bench::opened(Model::default(), o, vec![Step::Frame(1)]);
    assert_eq!(b.frame().pixels().colorimetry().to_string(), "BT.709 full");
}

#[test]
fn time_stamps_of_another_clock_are_not_believed() {
    let mut b = Bench::opened(Model { clock: 0, ..Model::default() }, small(), vec![Step::Frame(1)]);
    let before = monotonic();
    assert!(b.frame().captured >= before);
}

/// Memory from a provider: where the frames lie, or why not there.
#[test]
fn frames_are_written_into_memory_that_is_provided() {
    #[derive(Debug)]
    struct Pages {
        region: super::sys::Region,
        live: Arc<AtomicU32>,
    }
    // SAFETY: a mapping of whole pages, which lives as long as this and is not written here.
    #[allow(unsafe_code)]
    unsafe impl super::Block for Pages {
        fn address(&self) -> *mut u8 {
            self.region.address() as *mut u8
        }
        fn bytes(&self) -> usize {
            self.region.len()
        }
    }
    impl Drop for Pages {
        fn drop(&mut self) {
            self.live.fetch_sub(1, Ordering::Relaxed);
        }
    }
    #[derive(Debug)]
    struct Provider {
        live: Arc<AtomicU32>,
        given: Mutex<Vec<usize>>,
        short: usize,
    }
    impl super::Allocate for Provider {
        fn allocate(&self, bytes: usize) -> crate::Result<Box<dyn super::Block>> {
            let region = super::sys::Region::own(bytes - self.short).unwrap();
            lock(&self.given).push(region.address() as usize);
            self.live.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(Pages { region, live: Arc::clone(&self.live) }))
        }
    }
    let provider = |short| {
        Arc::new(Provider { live: Arc::new(AtomicU32::new(0)), given: Mutex::new(Vec::new()), short })
    };
    let p = provider(0);
    let mut b = Bench::new(Model::default(), small(), vec![Step::Frame(8)]);
    b.source.allocator = Some(p.clone());
    let note = b.source.open(WAIT).unwrap().note;
    assert!(note.ends_with("3 userptr buffers"), "{note}");
    let f = b.frame();
    assert_eq!((f.memory(), f.pixels().row(3)[5]), (Memory::UserPtr, 8));
    assert!(lock(&p.given).contains(&(f.block(0).as_ptr() as usize)));
    b.source.close();
    drop(b);
    assert_eq!(p.live.load(Ordering::Relaxed), 3, "a frame keeps its memory");
    drop(f);
    assert_eq!(p.live.load(Ordering::Relaxed), 0);
    // A driver without user pointers, and a provider that gives too little: the driver's own memory.
    for (model, p, why) in [
        (Model { userptr: false, ..Model::default() }, provider(0), "memory=userptr is not possible"),
        (Model::default(), provider(5000), "expected"),
    ] {
        let mut b = Bench::new(model, small(), vec![Step::Frame(8)]);
        b.source.allocator = Some(p.clone());
        let note = b.source.open(WAIT).unwrap().note;
        assert!(note.contains("3 mmap buffers (") && note.contains(why), "{note}");
        assert_eq!(b.frame().memory(), Memory::Mmap);
        assert_eq!(p.live.load(Ordering::Relaxed), 0);
    }
}

fn steps() -> impl Strategy<Value = Step> {
    let errno = prop::sample::select(vec![
        libc::EIO,
        libc::ENODEV,
        libc::EINVAL,
        libc::EPIPE,
        libc::EAGAIN,
        libc::ENOMEM,
    ]);
    prop_oneof![
        6 => any::<u8>().prop_map(Step::Frame),
        1 => (any::<u8>(), any::<u32>()).prop_map(|(v, f)| Step::Flags(v, f)),
        1 => any::<u32>().prop_map(Step::Used),
        1 => (0u32..7000).prop_map(Step::Used),
        1 => (prop::collection::vec(any::<u8>(), 0..200), 0u32..300).prop_map(|(b, n)| Step::Bytes(b, n)),
        1 => (0u32..5).prop_map(Step::Skip),
        1 => errno.prop_map(Step::Fail),
        1 => Just(Step::Silence),
        1 => Just(Step::Trouble),
        1 => (0u32..5).prop_map(Step::Stranger),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Whatever a driver does, nothing panics, frames that are held keep their bytes, and no buffer is lost or queued twice
    /// (the fake asserts that).
    #[test]
    fn no_driver_breaks_it(script in prop::collection::vec(steps(), 0..40), hold in 0usize..3, mjpeg: bool, reopen: bool) {
        let model = if mjpeg { offering(&[b"MJPG"]) } else { Model::default() };
        let finds = vec![Ok((model, script.clone())); 2];
        let mut b = Bench::reopening(small(), finds);
        b.source.open(WAIT).unwrap();
        let mut held: Vec<(Frame, Vec<u8>)> = Vec::new();
        for _ in 0..script.len() + 4 {
            match b.source.next(Duration::from_micros(10)) {
                Ok(Next::Frame(f)) => {
                    let bytes = f.block(0).to_vec();
                    held.push((f, bytes));
                    if held.len() > hold {
                        held.remove(0);
                    }
                }
                Ok(_) => {}
                Err(e) => {
                    prop_assert!(!e.kind().is_permanent(), "{}", e);
                    if reopen {
                        b.source.open(WAIT).unwrap();
                    }
                }
            }
            for (f, bytes) in &held {
                prop_assert_eq!(f.block(0), &bytes[..]);
            }
        }
        b.source.close();
        drop(b.source);
        for (f, bytes) in &held {
            prop_assert_eq!(f.block(0), &bytes[..]);
        }
        drop(held);
        lock(&b.fakes).clear();
        prop_assert_eq!(b.open.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_camera_that_was_unplugged_streams_again_when_it_is_back() {
    let frames = |n: u8| (0..n).map(Step::Frame).collect::<Vec<_>>();
    let gone = [frames(5), vec![Step::Fail(libc::ENODEV)]].concat();
    let model = Model::default;
    let finds = vec![Ok((model(), gone)), Err(libc::ENOENT), Err(libc::ENODEV), Ok((model(), frames(200)))];
    let b = Bench::reopening(small(), finds);
    let mut plan = crate::source::Plan::default();
    plan.backoff.first = Duration::from_millis(2);
    let bell = Bell::new();
    let s = Supervisor::start(Box::new(b.source), Default::default(), "camera", plan, bell).unwrap();
    let mut ids = Vec::new();
    for _ in 0..2000 {
        ids.extend(s.ring().pop(Duration::from_millis(10)).map(|f| f.id));
        if s.counters().opened == 2 && ids.last().is_some_and(|id| *id > 20) {
            break;
        }
    }
    let c = s.counters();
    assert_eq!((c.opened, c.failures), (2, 3), "{:?}", s.status());
    assert!(ids.is_sorted());
    assert_eq!(s.status().state, State::Streaming);
    assert_eq!((c.dropped(DropReason::Lost), c.copies), (0, 0));
    assert!(s.stop());
}
