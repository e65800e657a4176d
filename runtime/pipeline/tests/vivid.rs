//! The camera source on the kernel's own drivers: vivid (a virtual camera) and uvcvideo (with `examples/usbcam`).
//!
//! Needs a machine that has them: `tests/vivid/run` boots one in QEMU. There `/dev/video0` is a single-planar vivid camera,
//! `/dev/video1` a multi-planar one, `/dev/video2` and its metadata node `/dev/video3` the USB camera.

// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "common/counting.rs"]
mod counting;

use std::path::Path;
use std::time::{Duration, Instant};

use saltica_pipeline::frame::{Frame, Memory, SourceId, monotonic};
use saltica_pipeline::ring::Bell;
use saltica_pipeline::source::v4l2::{cameras, set_control};
use saltica_pipeline::source::{DropReason, SourceUri, State, Supervisor};
use saltica_vision::Image;

const LONG: Duration = Duration::from_secs(20);

fn start(uri: &str) -> Supervisor {
    let uri = SourceUri::parse(uri).unwrap();
    Supervisor::start(uri.source().unwrap(), SourceId(0), uri.name(), uri.plan(), Bell::new()).unwrap()
}

fn frame(s: &Supervisor) -> Frame {
    s.ring()
        .pop(LONG)
        .unwrap_or_else(|| panic!("{}: no frame: {:?} {:?}", s.name(), s.status(), s.counters()))
}

fn until(what: &str, s: &Supervisor, done: impl Fn(&Supervisor) -> bool) {
    let t = Instant::now();
    while !done(s) {
        drop(s.ring().try_pop());
        assert!(t.elapsed() < LONG, "{what}: {:?} {:?}", s.status(), s.counters());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether this kernel's vivid comes back after its `Disconnect`: that of 5.10 stays away.
fn comes_back() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let major: u32 = release.split('.').next().unwrap().parse().unwrap();
    if major < 6 {
        println!("  not unplugged: vivid of Linux {} would not come back", release.trim());
    }
    major >= 6
}

/// The colours of vivid's bars, in the lower half where it writes no text.
fn bars(image: &Image) -> [[u8; 3]; 8] {
    std::array::from_fn(|i| {
        let x = (2 * i + 1) * image.width() / 16;
        image.pixel(x, image.height() * 5 / 6).unwrap()
    })
}

/// 75 % bars: white, yellow, cyan, green, magenta, red, blue, black; the kernel's v4l2-tpg.
const BARS: [[u8; 3]; 8] = [
    [191, 191, 191],
    [191, 191, 0],
    [0, 191, 191],
    [0, 191, 0],
    [191, 0, 191],
    [191, 0, 0],
    [0, 0, 191],
    [0, 0, 0],
];

fn every_format(device: &str, formats: &[&str]) {
    for format in formats {
        for (memory, kind) in
            [("mmap", Memory::Mmap), ("userptr", Memory::UserPtr), ("dmabuf", Memory::DmaBuf)]
        {
            let before = monotonic();
            let s =
                start(&format!("{device}?size=640x360&format={format}&memory={memory}&keep=all&buffers=4"));
            let (mut stamps, mut sequences, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
            let mut colors = None;
            let t = Instant::now();
            for _ in 0..15 {
                let f = frame(&s);
                let age = f.age(monotonic());
                assert_eq!((f.copies(), f.memory()), (0, kind), "{format} {memory}");
                assert_eq!((f.format().width, f.format().height), (640, 360));
                assert_eq!(f.format().pixel.name(), *format);
                assert!(f.captured >= before && age < Duration::from_secs(2), "{age:?}");
                if kind == Memory::DmaBuf {
                    let fd = f.dmabuf(0).expect("an exported buffer");
                    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd));
                    let link = std::fs::read_link(link).unwrap();
                    assert!(link.to_string_lossy().contains("dmabuf"), "{link:?}");
                }
                stamps.push(f.captured);
                sequences.push(f.sequence);
                addresses.push(f.block(0).as_ptr() as usize);
                if colors.is_none() {
                    colors = Some(bars(&Image::from_pixels(&f.pixels())));
                }
            }
            let fps = 14.0 / t.elapsed().as_secs_f64();
            assert!(stamps.windows(2).all(|w| w[0] < w[1]), "{stamps:?}");
            // Vivid derives its numbers from the time that has passed, and repeats one when it was late.
            assert!(sequences.windows(2).all(|w| w[0] <= w[1]) && sequences[14] >= 10, "{sequences:?}");
            addresses.sort_unstable();
            addresses.dedup();
            assert!((2..=4).contains(&addresses.len()), "frames go round {} buffers", addresses.len());
            for (found, want) in colors.unwrap().iter().zip(BARS) {
                let gray =
                    (u32::from(want[0]) * 299 + u32::from(want[1]) * 587 + u32::from(want[2]) * 114) / 1000;
                // Luma alone is of limited range in vivid's GREY, which carries no colorimetry of its own.
                let near = |i: usize| match *format {
                    "gray" => (i32::from(found[i]) - gray as i32).abs() <= 26,
                    _ => (i32::from(found[i]) - i32::from(want[i])).abs() <= 4,
                };
                assert!((0..3).all(near), "{format} {memory}: {found:?}, {want:?} expected");
            }
            let note = s.status().opened.unwrap().note;
            println!(
                "  {format} {memory}: {fps:.1} fps, copies {}, {} dropped; {note}",
                s.counters().copies,
                s.counters().all_dropped()
            );
            let c = s.counters();
            assert_eq!((c.opened, c.failures, c.stalls), (1, 0, 0));
            assert_eq!(
                c.all_dropped(),
                c.dropped(DropReason::Lost),
                "nothing but what the driver had no buffer for"
            );
            assert!(s.stop());
        }
    }
}

#[test]
#[ignore = "needs the kernel's vivid driver: run tests/vivid/run"]
fn a_single_planar_camera_gives_every_format_in_every_memory() {
    every_format("v4l2:///dev/video0", &["nv12", "nv21", "yuyv", "uyvy", "i420", "rgb", "bgr", "gray"]);
}

#[test]
#[ignore = "needs the kernel's vivid driver: run tests/vivid/run"]
fn b_multi_planar_camera_gives_every_format_in_every_memory() {
    every_format("v4l2:///dev/video1", &["nv12", "nv21", "yuyv", "uyvy", "i420", "rgb", "bgr", "gray"]);
}

#[test]
#[ignore = "needs the kernel's vivid driver: run tests/vivid/run"]
fn c_two_cameras_do_not_concern_each_other() {
    let both = ["v4l2:///dev/video0?size=320x180", "v4l2:///dev/video1?size=320x180"].map(start);
    for _ in 0..30 {
        let (a, b) = (frame(&both[0]), frame(&both[1]));
        assert_eq!((a.copies(), b.copies()), (0, 0));
    }
    if !comes_back() {
        return;
    }
    assert!(set_control(Path::new("/dev/video0"), "Disconnect", 1).unwrap());
    until("the first is gone", &both[0], |s| s.counters().failures > 0);
    let before = both[1].counters();
    for _ in 0..20 {
        frame(&both[1]);
    }
    let after = both[1].counters();
    assert_eq!((after.opened, after.failures, after.stalls), (1, 0, 0));
    println!("  while the other camera was away: {} frames", after.frames - before.frames);
}

#[test]
#[ignore = "needs the kernel's vivid driver: run tests/vivid/run"]
fn d_unplugged_while_a_frame_is_held_it_comes_back() {
    if !comes_back() {
        return;
    }
    std::thread::sleep(Duration::from_millis(500));
    let s = start("v4l2:///dev/video0?size=320x180&format=yuyv");
    let held = frame(&s);
    let bytes = held.block(0).to_vec();
    until("ten frames", &s, |s| s.counters().frames > 10);
    assert!(set_control(Path::new("/dev/video0"), "Disconnect", 1).unwrap());
    until("it is gone", &s, |s| s.status().state == State::Reconnecting);
    println!("  unplugged: {}", s.status().reason.unwrap());
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(held.block(0), &bytes[..], "a frame outlives its device");
    // The mapping of the held frame keeps the old device open: it can come back when the frame is gone.
    drop(held);
    until("it is back", &s, |s| s.status().state == State::Streaming && s.counters().opened > 1);
    let n = s.counters().frames;
    until("frames come again", &s, |s| s.counters().frames > n + 10);
    println!("  back after {} failures", s.counters().failures);
    assert!(s.stop());
}

#[test]
#[ignore = "needs the kernel's vivid driver: run tests/vivid/run"]
fn e_damaged_and_lost_frames_are_counted() {
    let s = start("v4l2:///dev/video0?size=320x180&format=yuyv");
    until("five frames", &s, |s| s.counters().frames > 5);
    assert!(set_control(Path::new("/dev/video0"), "Inject V4L2_BUF_FLAG_ERROR", 1).unwrap());
    until("the damaged frame", &s, |s| s.counters().dropped(DropReason::DriverError) == 1);
    let lost = s.counters().dropped(DropReason::Lost);
    assert!(set_control(Path::new("/dev/video0"), "Percentage of Dropped Buffers", 50).unwrap());
    until("lost frames", &s, |s| s.counters().dropped(DropReason::Lost) >= lost + 5);
    assert!(set_control(Path::new("/dev/video0"), "Percentage of Dropped Buffers", 0).unwrap());
    let n = s.counters().frames;
    until("frames go on", &s, |s| s.counters().frames > n + 10);
    let c = s.counters();
    assert_eq!((c.opened, c.failures), (1, 0));
    println!("  {:?}", c.drops().collect::<Vec<_>>());
    // A frame that nobody takes keeps its buffer, and the driver goes on with the others.
    assert!(s.stop());
}

#[test]
#[ignore = "needs the kernel's vivid driver: run tests/vivid/run"]
fn f_refusals_say_why() {
    for (uri, part) in [
        ("v4l2:///dev/video0?format=mjpeg", "format=mjpeg was asked for"),
        ("v4l2:///dev/video3", "metadata node"),
    ] {
        let s = start(uri);
        until("the end", &s, |s| s.is_finished());
        let reason = s.status().reason.unwrap();
        assert!(reason.contains(part), "{reason}");
        println!("  {reason}");
    }
    let s = start("v4l2:///dev/video77");
    until("an attempt", &s, |s| s.counters().failures > 0);
    let reason = s.status().reason.unwrap();
    assert!(reason.contains("there are /dev/video0, /dev/video1, /dev/video2"), "{reason}");
    let found = cameras();
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[2].name.contains("(uvcvideo)"), "{found:?}");
    let busy = start("v4l2:///dev/video0");
    drop(frame(&busy));
    let s = start("v4l2:///dev/video0");
    until("an attempt", &s, |s| s.counters().failures > 0);
    let reason = s.status().reason.unwrap();
    assert!(reason.contains("another program uses the camera"), "{reason}");
}

/// Frame `n` of the USB camera has a blue of `8 * (n % 32)`; each 7th is cut in half, each 10th has two bytes only.
#[test]
#[ignore = "needs the software USB camera: run tests/vivid/run"]
fn g_usb_camera_by_jpeg_and_raw_and_through_an_unplugging() {
    let s = start("v4l2:///dev/video2?size=640x360&fps=30&format=mjpeg");
    let mut blues = Vec::new();
    for _ in 0..20 {
        let f = frame(&s);
        assert_eq!((f.copies(), f.memory(), f.format().pixel.name()), (0, Memory::Heap, "rgb"));
        let image = Image::from_pixels(&f.pixels());
        let [r, g, b] = image.pixel(320, 180).unwrap();
        assert!(r.abs_diff(127) < 8 && g.abs_diff(127) < 8 && b % 8 <= 3 || b % 8 >= 5, "{r} {g} {b}");
        blues.push(b);
    }
    blues.dedup();
    assert!(blues.len() > 10, "the pictures differ: {blues:?}");
    until("damaged frames", &s, |s| {
        s.counters().dropped(DropReason::NoEndMarker) >= 2 && s.counters().all_dropped() > 2
    });
    println!("  {}; {:?}", s.status().opened.unwrap().note, s.counters().drops().collect::<Vec<_>>());
    // The camera unplugs itself after a while of streaming, and comes back.
    until("it is gone", &s, |s| s.counters().failures > 0);
    println!("  unplugged: {}", s.status().reason.unwrap_or_default());
    until("it is back", &s, |s| s.counters().opened > 1 && s.status().state == State::Streaming);
    let n = s.counters().frames;
    until("frames come again", &s, |s| s.counters().frames > n + 10);
    assert!(s.stop());
    for memory in ["mmap", "userptr", "dmabuf"] {
        let s = start(&format!("v4l2:///dev/video2?size=640x360&fps=15&format=yuyv&memory={memory}"));
        let f = frame(&s);
        assert_eq!((f.copies(), f.memory().name()), (0, memory));
        // A ramp: one more from pixel to pixel.
        let row = f.pixels().row(100);
        assert!(row.chunks_exact(4).all(|p| p[2] == p[0].wrapping_add(1) && p[1] == 128 && p[3] == 128));
        println!("  {}", s.status().opened.unwrap().note);
        drop(f);
        assert!(s.stop());
    }
}

#[test]
#[ignore = "needs the kernel's vivid driver: run tests/vivid/run"]
fn h_a_running_camera_allocates_nothing() {
    for uri in
        ["v4l2:///dev/video0?size=320x180&format=nv12", "v4l2:///dev/video1?size=320x180&memory=userptr"]
    {
        let s = start(uri);
        for _ in 0..10 {
            drop(frame(&s));
        }
        let before = counting::of_process();
        for _ in 0..60 {
            drop(frame(&s));
        }
        let count = counting::of_process() - before;
        println!("  {uri}: {count} allocations in 60 frames");
        assert_eq!(count, 0);
        assert!(s.stop());
    }
}
