//! Streams of every kind, whole and damaged, at once and in drops.

use std::io::Write;
use std::time::{Duration, Instant};

use saltica_tensor::PixelFormat;

use crate::ErrorKind;
use crate::source::jpeg::tests::jpeg;
use crate::source::{DropReason, Next, Source, SourceUri};

const WAIT: Duration = Duration::from_millis(20);

/// What a source gave: the first byte of each frame's first row or the reason of its drop, to the end or an error.
#[derive(Debug, PartialEq)]
enum Got {
    Frame(u8),
    Dropped(DropReason),
    End,
    Failed(ErrorKind),
}

fn all(uri: &str) -> Vec<Got> {
    let mut s = SourceUri::parse(uri).unwrap().source().unwrap();
    if let Err(e) = s.open(WAIT) {
        return vec![Got::Failed(e.kind())];
    }
    rest(s.as_mut(), 10_000)
}

fn rest(s: &mut dyn Source, most: usize) -> Vec<Got> {
    let (mut got, start) = (Vec::new(), Instant::now());
    while got.len() < most && start.elapsed() < Duration::from_secs(20) {
        match s.next(WAIT) {
            Ok(Next::Frame(f)) => {
                assert_eq!(f.copies(), 0);
                got.push(Got::Frame(f.pixels().row(0)[0]));
            }
            Ok(Next::Dropped(r)) => got.push(Got::Dropped(r)),
            Ok(Next::Nothing | Next::Busy) => {}
            Ok(Next::End) => {
                got.push(Got::End);
                break;
            }
            Err(e) => {
                got.push(Got::Failed(e.kind()));
                break;
            }
        }
    }
    got
}

/// Frames of 6x4 whose bytes are 1, 2, ...
fn y4m(frames: u8, header: &str) -> Vec<u8> {
    let mut out = format!("YUV4MPEG2 W6 H4 F25:1 {header}\n").into_bytes();
    for n in 1..=frames {
        out.extend_from_slice(b"FRAME\n");
        out.extend(vec![n; if header.contains("mono") { 24 } else { 36 }]);
    }
    out
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }
    fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    }
}

#[test]
fn y4m_is_read_to_its_end() {
    let f = Folder::new();
    let path = f.file("a.y4m", &y4m(3, "Ip C420jpeg XCOLORRANGE=FULL"));
    let mut s = SourceUri::parse(&format!("file:{path}")).unwrap().source().unwrap();
    let opened = s.open(WAIT).unwrap();
    let format = opened.format.unwrap();
    assert_eq!(
        (format.pixel, format.width, format.height, opened.fps),
        (PixelFormat::I420, 6, 4, Some(25.0))
    );
    assert_eq!(format.colorimetry.to_string(), "BT.601 full");
    assert_eq!(rest(s.as_mut(), 99), [Got::Frame(1), Got::Frame(2), Got::Frame(3), Got::End]);
    let path = f.file("mono.y4m", &y4m(1, "Cmono"));
    assert_eq!(all(&format!("file:{path}")), [Got::Frame(1), Got::End]);
}

#[test]
fn damaged_y4m_is_named_for_what_it_is() {
    let f = Folder::new();
    let whole = y4m(3, "C420");
    let cut = f.file("cut.y4m", &whole[..whole.len() - 5]);
    assert_eq!(
        all(&format!("file:{cut}")),
        [Got::Frame(1), Got::Frame(2), Got::Dropped(DropReason::Truncated), Got::End]
    );
    let cut = f.file("cut2.y4m", &whole[..whole.len() - 36]);
    assert_eq!(all(&cut), [Got::Frame(1), Got::Frame(2), Got::Dropped(DropReason::Truncated), Got::End]);
    let cut = f.file("cut3.y4m", &whole[..whole.len() - 38]);
    assert_eq!(all(&cut), [Got::Frame(1), Got::Frame(2), Got::Dropped(DropReason::Truncated), Got::End]);
    let mut hurt = whole.clone();
    let at = hurt.len() - 42;
    hurt[at] = b'X';
    let hurt = f.file("hurt.y4m", &hurt);
    assert_eq!(all(&hurt), [Got::Frame(1), Got::Frame(2), Got::Failed(ErrorKind::Image)]);
    for (header, kind) in [
        ("YUV4MPEG2 W6 H4 C444\n", ErrorKind::Unsupported),
        ("YUV4MPEG2 W0 H4\n", ErrorKind::Value),
        ("YUV4MPEG2 W6 Hx\n", ErrorKind::Image),
        ("YUV4MPEG2 W99999999 H4\n", ErrorKind::Value),
        ("YUV4MPEG2 W6 H4", ErrorKind::Image),
        ("YUV4MPEG2 W6 H4 F1:1e300\n", ErrorKind::Image),
        ("YUV4MPEG2 W6 H4 F1:4294967295\n", ErrorKind::Image),
        ("YUV4MPEG2 W6 H4 F4294967295:1\n", ErrorKind::Image),
        ("YUV4MPEG2 W6 H4 F-1:1\n", ErrorKind::Image),
        ("YUV4MPEG2 W6 H4 F25\n", ErrorKind::Image),
        (&format!("YUV4MPEG2 {}", "X".repeat(5000)), ErrorKind::Image),
    ] {
        let path = f.file("bad.y4m", header.as_bytes());
        assert_eq!(all(&path), [Got::Failed(kind)], "{header}");
    }
}

#[test]
fn raw_frames_have_the_size_that_was_said() {
    let f = Folder::new();
    let bytes: Vec<u8> = (0..3 * 36 + 10u8).collect();
    let path = f.file("clip.raw", &bytes);
    let got = all(&format!("file:{path}?format=nv12&size=6x4"));
    assert_eq!(
        got,
        [Got::Frame(0), Got::Frame(36), Got::Frame(72), Got::Dropped(DropReason::Truncated), Got::End]
    );
    // 4x2 YUYV with rows 12 bytes apart: 24 bytes a frame, of which the last row's gap may be missing at the very end.
    let got = all(&format!("file:{path}?format=yuyv&size=4x2&stride=12"));
    assert_eq!(got[..3], [Got::Frame(0), Got::Frame(24), Got::Frame(48)]);
    let mut s =
        SourceUri::parse(&format!("file:{path}?format=nv12&size=6x4&loop=on")).unwrap().source().unwrap();
    s.open(WAIT).unwrap();
    let got = rest(s.as_mut(), 9);
    assert_eq!(got[3..6], [Got::Dropped(DropReason::Truncated), Got::Frame(0), Got::Frame(36)]);
    let e = SourceUri::parse(&format!("file:{path}?format=nv12")).unwrap().source().unwrap_err();
    assert!(e.to_string().contains("need size=WIDTHxHEIGHT"), "{e}");
}

#[test]
fn jpegs_one_after_the_other_are_taken_apart() {
    let f = Folder::new();
    let pictures: Vec<Vec<u8>> = (0..4).map(|n| jpeg(32, 16, 60 * n)).collect();
    let mut bytes = b"--boundary\r\nContent-Type: image/jpeg\r\n\r\n".to_vec();
    bytes.extend(&pictures[0]);
    bytes.extend(b"\r\n--boundary\r\n\r\n");
    // Cut off by the next one.
    bytes.extend(&pictures[1][..pictures[1].len() - 40]);
    bytes.extend(&pictures[2]);
    bytes.extend(&pictures[3]);
    bytes.extend(&pictures[0][..300]);
    let path = f.file("clip.mjpg", &bytes);
    let got = all(&format!("file:{path}"));
    assert_eq!(got.len(), 6, "{got:?}");
    assert!(matches!(got[0], Got::Frame(_)));
    assert_eq!(got[1], Got::Dropped(DropReason::NoEndMarker));
    assert!(matches!(got[2..4], [Got::Frame(_), Got::Frame(_)]));
    assert_eq!(got[4..], [Got::Dropped(DropReason::NoEndMarker), Got::End]);
}

/// tests/data/clip.avi and the colours in clip.json were made by tests/data/make_avi.py with OpenCV 5.0.0.
#[test]
fn an_avi_of_jpegs_shows_what_opencv_sees() {
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/");
    let text = std::fs::read_to_string(format!("{here}clip.json")).unwrap();
    let want: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut s = SourceUri::parse(&format!("file:{here}clip.avi")).unwrap().source().unwrap();
    s.open(WAIT).unwrap();
    for n in 0..5 {
        let f = match s.next(Duration::from_secs(5)).unwrap() {
            Next::Frame(f) => f,
            other => panic!("{other:?}"),
        };
        assert_eq!((f.sequence, f.format().width, f.format().height), (n, 64, 48));
        for (i, at) in want["at"].as_array().unwrap().iter().enumerate() {
            let (x, y) = (at[0].as_u64().unwrap() as usize, at[1].as_u64().unwrap() as usize);
            for c in 0..3 {
                let want = want["rgb"][n as usize][i][c].as_i64().unwrap();
                let found = i64::from(f.pixels().row(y)[3 * x + c]);
                assert!(
                    (found - want).abs() <= 3,
                    "frame {n} at {x},{y} channel {c}: {found}, {want} expected"
                );
            }
        }
    }
    assert!(matches!(s.next(WAIT).unwrap(), Next::End));
}

#[test]
fn a_damaged_avi_never_hangs_or_panics() {
    let whole = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/clip.avi")).unwrap();
    let f = Folder::new();
    let frames = |got: &[Got]| got.iter().filter(|g| matches!(g, Got::Frame(_))).count();
    // The index at the end is not needed.
    let last = whole.windows(4).rposition(|w| w == b"idx1").unwrap();
    assert_eq!(frames(&all(&f.file("no-index.avi", &whole[..last]))), 5);
    let got = all(&f.file("cut.avi", &whole[..last - 100]));
    assert_eq!((frames(&got), got.last()), (4, Some(&Got::End)));
    assert!(got.contains(&Got::Dropped(DropReason::Truncated)));
    for at in (0..whole.len()).step_by(37) {
        let mut hurt = whole.clone();
        for b in &mut hurt[at..(at + 4).min(whole.len())] {
            *b = 0xff;
        }
        let got = all(&format!("file:{}?retry=off", f.file("hurt.avi", &hurt)));
        assert!(matches!(got.last(), Some(Got::End | Got::Failed(_))), "at {at}: {got:?}");
    }
}

#[test]
fn bytes_may_come_in_drops() {
    let f = Folder::new();
    let path = f.0.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let uri = SourceUri::parse(&format!("pipe:{}", path.display())).unwrap();
    assert!(uri.plan().retry, "a writer may come back");
    let mut s = uri.source().unwrap();
    // No writer yet: open, silent.
    s.open(Duration::from_millis(10)).unwrap();
    assert!(matches!(s.next(Duration::from_millis(5)).unwrap(), Next::Nothing));
    let bytes = y4m(2, "C420");
    let writer = std::thread::spawn(move || {
        let mut pipe = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        for piece in bytes.chunks(7) {
            pipe.write_all(piece).unwrap();
            pipe.flush().unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let got = rest(s.as_mut(), 99);
    writer.join().unwrap();
    assert_eq!(got, [Got::Frame(1), Got::Frame(2), Got::Failed(ErrorKind::Gone)]);
}

#[test]
fn commands_are_read_and_ended() {
    let f = Folder::new();
    let path = f.file("a.y4m", &y4m(3, "C420"));
    assert_eq!(
        all(&format!("pipe:exec:cat '{path}'")),
        [Got::Frame(1), Got::Frame(2), Got::Frame(3), Got::End]
    );
    let mut s = SourceUri::parse("pipe:exec:echo to no avail rtsp://me:hunter2@x/ >&2; exit 3")
        .unwrap()
        .source()
        .unwrap();
    s.open(WAIT).unwrap();
    let e = loop {
        match s.next(WAIT) {
            Ok(Next::Nothing) => {}
            Ok(other) => panic!("{other:?}"),
            Err(e) => break e.to_string(),
        }
    };
    assert!(e.contains("exit status: 3") && e.contains("to no avail rtsp://me:***@x/"), "{e}");
    // A command that writes nothing and never ends, with a child of its own, is ended by closing.
    let mark = f.0.path().join("pid");
    let uri = format!("pipe:exec:sleep 1000 & echo $! > '{}'; wait", mark.display());
    let mut s = SourceUri::parse(&uri).unwrap().source().unwrap();
    s.open(Duration::from_millis(50)).unwrap();
    let child = loop {
        match std::fs::read_to_string(&mark) {
            Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    s.close();
    let start = Instant::now();
    let alive = || std::fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|s| !s.contains(") Z "));
    while alive() {
        assert!(start.elapsed() < Duration::from_secs(10), "the command's child lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_command_that_floods_its_errors_does_not_block() {
    let f = Folder::new();
    let path = f.file("a.y4m", &y4m(2, "C420"));
    let uri = format!("pipe:exec:head -c 300000 /dev/zero >&2; cat '{path}'");
    assert_eq!(all(&uri), [Got::Frame(1), Got::Frame(2), Got::End]);
}

#[test]
fn what_is_no_stream_says_so() {
    let f = Folder::new();
    assert_eq!(all("file:/nowhere/clip.y4m"), [Got::Failed(ErrorKind::Gone)]);
    assert_eq!(all("dir:/nowhere"), [Got::Failed(ErrorKind::Gone)]);
    assert_eq!(all(&format!("dir:{}", f.0.path().display())), [Got::Failed(ErrorKind::Unsupported)]);
    assert_eq!(all("pipe:exec:printf hello-hello-hello"), [Got::Failed(ErrorKind::Unsupported)]);
    assert_eq!(all("pipe:exec:true"), [Got::End]);
    let e = SourceUri::parse("file:/").unwrap().source().unwrap().open(WAIT).unwrap_err();
    assert!(e.to_string().contains("use dir:"), "{e}");
}

#[test]
fn folders_give_their_pictures_by_name() {
    let f = Folder::new();
    for (n, name) in ["b.jpg", "a.jpeg", "d.JPG"].iter().enumerate() {
        f.file(name, &jpeg(16, 16 + 8 * n as u32, 9));
    }
    f.file("c.png", b"no picture");
    f.file("notes.txt", b"");
    let mut s = SourceUri::parse(&format!("dir:{}", f.0.path().display())).unwrap().source().unwrap();
    assert_eq!(s.open(WAIT).unwrap().note, "4 pictures");
    let mut heights = Vec::new();
    loop {
        match s.next(WAIT).unwrap() {
            Next::Frame(f) => heights.push(f.format().height),
            Next::Dropped(r) => {
                assert_eq!(r, DropReason::Unreadable);
                heights.push(0);
            }
            Next::End => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(heights, [24, 16, 0, 32]);
    // A picture that vanishes after the folder was read is dropped like one that is damaged.
    s.open(WAIT).unwrap();
    std::fs::remove_file(f.0.path().join("a.jpeg")).unwrap();
    assert!(matches!(s.next(WAIT).unwrap(), Next::Dropped(DropReason::Unreadable)));
    let one = f.0.path().join("b.jpg").display().to_string();
    let mut s = SourceUri::parse(&one).unwrap().source().unwrap();
    s.open(WAIT).unwrap();
    assert!(matches!(s.next(WAIT).unwrap(), Next::Frame(_)));
    assert!(matches!(s.next(WAIT).unwrap(), Next::End));
}

#[test]
fn a_paced_file_comes_at_its_rate_and_a_slow_user_is_no_fault_of_it() {
    let f = Folder::new();
    let path = f.file("a.y4m", &y4m(4, "C420"));
    let mut s = SourceUri::parse(&format!("file:{path}?pace=on&fps=100")).unwrap().source().unwrap();
    let start = Instant::now();
    s.open(WAIT).unwrap();
    let mut stamps = Vec::new();
    let mut held = Vec::new();
    while stamps.len() < 4 {
        if let Next::Frame(f) = s.next(WAIT).unwrap() {
            stamps.push(f.captured);
            held.push(f);
        }
    }
    assert!(start.elapsed() >= Duration::from_millis(30), "four frames take three periods");
    assert!(stamps.windows(2).all(|w| w[1] - w[0] >= Duration::from_millis(9)), "{stamps:?}");
    // All buffers in use: busy, not silent.
    let mut s = SourceUri::parse(&format!("file:{path}?buffers=2")).unwrap().source().unwrap();
    s.open(WAIT).unwrap();
    held.clear();
    for _ in 0..2 {
        match s.next(WAIT).unwrap() {
            Next::Frame(f) => held.push(f),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(s.next(Duration::from_millis(1)).unwrap(), Next::Busy));
    held.pop();
    assert!(matches!(s.next(WAIT).unwrap(), Next::Frame(_)));
}

/// A video that only ffmpeg understands: Matroska of MPEG-4, made by ffmpeg itself.
#[test]
fn other_videos_come_through_ffmpeg() {
    let f = Folder::new();
    let path = f.0.path().join("a b?.mkv");
    let made = std::process::Command::new("ffmpeg")
        .args([
            "-v",
            "error",
            "-nostdin",
            "-f",
            "lavfi",
            "-i",
            "color=c=0x3264c8:s=64x48:r=10",
            "-frames:v",
            "7",
        ])
        .args(["-c:v", "mpeg4", "-q:v", "1"])
        .arg(&path)
        .status();
    if !made.is_ok_and(|s| s.success()) {
        eprintln!("ignored: ffmpeg is not installed");
        return;
    }
    let mut s = SourceUri::parse(&path.display().to_string()).unwrap().source().unwrap();
    let note = s.open(Duration::from_secs(10)).unwrap().note;
    assert!(note.starts_with("Y4M through ffmpeg"), "{note}");
    let mut frames = 0;
    loop {
        match s.next(Duration::from_secs(5)).unwrap() {
            Next::Frame(f) => {
                let image = saltica_vision::Image::from_pixels(&f.pixels());
                let found = image.pixel(20, 20).unwrap();
                assert!(
                    found.iter().zip([0x32, 0x64, 0xc8]).all(|(a, b): (&u8, u8)| a.abs_diff(b) <= 4),
                    "{found:?}"
                );
                frames += 1;
            }
            Next::End => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(frames, 7);
    let mut s = SourceUri::parse(&format!("{}?loop=on", path.display().to_string().replace('?', "%3f")))
        .unwrap()
        .source()
        .unwrap();
    s.open(Duration::from_secs(10)).unwrap();
    let got = rest(s.as_mut(), 16);
    assert!(got.len() == 16 && got.iter().all(|g| matches!(g, Got::Frame(_))), "{got:?}");
    // What is no video at all: ffmpeg's own words, with an end.
    let path = f.file("noise.bin", &[9u8; 3000]);
    let got = all(&path);
    assert!(matches!(got[..], [Got::Failed(ErrorKind::Io)] | [Got::Failed(ErrorKind::Image)]), "{got:?}");
}

#[test]
fn rates_are_bounded_and_the_range_is_named() {
    let f = Folder::new();
    let path = f.file("a.y4m", b"YUV4MPEG2 W6 H4 F1:100000\n");
    let e = SourceUri::parse(&path).unwrap().source().unwrap().open(WAIT).unwrap_err().to_string();
    assert!(e.contains("1.000e-5") && e.contains("0.001 to 1000"), "{e}");
    // Unknown is no mistake.
    let path = f.file("b.y4m", b"YUV4MPEG2 W6 H4 F0:0\nFRAME\n");
    assert_eq!(SourceUri::parse(&path).unwrap().source().unwrap().open(WAIT).unwrap().fps, None);
    for fps in ["1e-300", "0", "-1", "nan", "inf", "1001"] {
        let e = SourceUri::parse(&format!("{path}?pace=on&fps={fps}")).unwrap_err().to_string();
        assert!(e.contains("from 0.001 to 1000"), "{fps}: {e}");
    }
    // An AVI's pictures are of use whatever its header says. dwRate and dwScale stand behind `vids`.
    let mut avi = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/clip.avi")).unwrap();
    let at = avi.windows(4).position(|w| w == b"vids").unwrap();
    avi[at + 20..at + 28].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
    let path = f.file("odd.avi", &avi);
    let got = all(&format!("file:{path}?pace=on"));
    assert_eq!(got.iter().filter(|g| matches!(g, Got::Frame(_))).count(), 5, "{got:?}");
}

#[test]
fn a_picture_too_large_of_odd_size_is_skipped_with_its_padding() {
    let whole = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/clip.avi")).unwrap();
    let movi = whole.windows(4).position(|w| w == b"movi").unwrap() + 4;
    let size = (64u32 << 20) + 1;
    let f = Folder::new();
    let path = f.file("large.avi", &whole[..movi]);
    // A file with a hole takes no room.
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"00dc").unwrap();
    file.write_all(&size.to_le_bytes()).unwrap();
    let end = file.metadata().unwrap().len() + u64::from(size) + 1;
    file.set_len(end).unwrap();
    file.write_all(&whole[movi..]).unwrap();
    let got = all(&path);
    assert_eq!(got[0], Got::Dropped(DropReason::WrongSize));
    assert_eq!(got.iter().filter(|g| matches!(g, Got::Frame(_))).count(), 5, "{got:?}");
}

/// A picture in pieces of a few bytes: what was looked at is not looked at again, and what is found is the same.
#[test]
fn jpegs_may_come_in_drops() {
    let f = Folder::new();
    let path = f.0.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let mut s = SourceUri::parse(&format!("pipe:{}", path.display())).unwrap().source().unwrap();
    s.open(Duration::from_millis(10)).unwrap();
    let mut bytes = jpeg(32, 16, 60);
    bytes.extend(b"text in between");
    let second = jpeg(32, 16, 120);
    bytes.extend(&second[..second.len() - 30]);
    bytes.extend(jpeg(32, 16, 180));
    let writer = std::thread::spawn(move || {
        let mut pipe = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        for piece in bytes.chunks(13) {
            pipe.write_all(piece).unwrap();
            std::thread::sleep(Duration::from_micros(500));
        }
    });
    let got = rest(s.as_mut(), 99);
    writer.join().unwrap();
    assert!(
        matches!(
            got[..],
            [
                Got::Frame(_),
                Got::Dropped(DropReason::NoEndMarker),
                Got::Frame(_),
                Got::Failed(ErrorKind::Gone)
            ]
        ),
        "{got:?}"
    );
}

#[test]
fn what_gives_nothing_is_not_repeated_for_ever() {
    let f = Folder::new();
    f.file("a.png", b"no picture");
    f.file("b.jpg", b"neither");
    let dir = f.0.path().display().to_string();
    let (unreadable, failed) = (Got::Dropped(DropReason::Unreadable), Got::Failed(ErrorKind::Image));
    assert_eq!(
        all(&format!("dir:{dir}?loop=on")),
        [unreadable, Got::Dropped(DropReason::Unreadable), failed]
    );
    let cut = &jpeg(32, 16, 60)[..300];
    let path = f.file("cut.mjpg", cut);
    let got = all(&format!("file:{path}?loop=on"));
    assert_eq!(got, [Got::Dropped(DropReason::NoEndMarker), Got::Failed(ErrorKind::Image)]);
    // One that can be read is enough.
    f.file("c.jpg", &jpeg(16, 16, 9));
    let mut s = SourceUri::parse(&format!("dir:{dir}?loop=on")).unwrap().source().unwrap();
    s.open(WAIT).unwrap();
    let got = rest(s.as_mut(), 9);
    assert_eq!(got.iter().filter(|g| matches!(g, Got::Frame(_))).count(), 3, "{got:?}");
}

#[test]
fn an_end_without_a_frame_is_no_success() {
    let f = Folder::new();
    let avi = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/clip.avi")).unwrap();
    let failed = || Some(Got::Failed(ErrorKind::Image));
    for (name, bytes) in [
        ("empty.mjpg", &[][..]),
        ("empty.y4m", &[]),
        ("header.y4m", &y4m(0, "C420")),
        ("cut.avi", &avi[..100]),
        ("cut.mjpg", &jpeg(32, 16, 60)[..300]),
        ("one.jpg", b"no picture"),
    ] {
        assert_eq!(all(&f.file(name, bytes)).pop(), failed(), "{name}");
    }
    let f = Folder::new();
    f.file("a.png", b"no picture");
    assert_eq!(all(&format!("dir:{}", f.0.path().display())).pop(), failed());
}

#[test]
fn what_waits_for_a_writer_holds_up_no_folder() {
    let f = Folder::new();
    f.file("b.jpg", &jpeg(16, 16, 9));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        f.0.path().join("a.jpg"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    std::fs::create_dir(f.0.path().join("c.jpg")).unwrap();
    let got = all(&format!("dir:{}", f.0.path().display()));
    assert!(matches!(got[..], [Got::Frame(_), Got::End]), "{got:?}");
}

#[test]
fn an_avi_is_paced_by_its_own_rate() {
    let clip = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/clip.avi");
    let mut s = SourceUri::parse(&format!("file:{clip}?pace=on")).unwrap().source().unwrap();
    s.open(WAIT).unwrap();
    let mut stamps = Vec::new();
    while stamps.len() < 4 {
        if let Next::Frame(f) = s.next(WAIT).unwrap() {
            stamps.push(f.captured);
        }
    }
    let rate = avi_rate(clip);
    let apart = (stamps[3] - stamps[0]).as_secs_f64();
    // The first one came before its rate was known.
    assert!(apart * rate > 2.9, "{apart} s for three periods of {rate} fps");
}

/// Frames a second by the AVI's main header, which has microseconds a frame.
fn avi_rate(path: &str) -> f64 {
    let bytes = std::fs::read(path).unwrap();
    let at = bytes.windows(4).position(|w| w == b"avih").unwrap() + 8;
    1e6 / f64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()))
}

#[test]
fn how_a_command_ended_is_said_as_it_was() {
    let said = |command: &str| {
        let mut s = SourceUri::parse(&format!("pipe:exec:{command}")).unwrap().source().unwrap();
        let opened = s.open(WAIT).map(|_| ());
        let end = opened.and_then(|()| {
            loop {
                match s.next(WAIT) {
                    Ok(Next::Nothing) => {}
                    Ok(_) => break Ok(()),
                    Err(e) => break Err(e),
                }
            }
        });
        end.map_err(|e| e.to_string())
    };
    assert_eq!(said("true"), Ok(()));
    assert_eq!(said("exit 3"), Err("the command ended with exit status: 3".into()));
    assert_eq!(said("kill -9 $$"), Err("the command ended with signal: 9 (SIGKILL)".into()));
    let e = said("exec >&-; echo busy >&2; exec sleep 1000").unwrap_err();
    assert_eq!(e, "the command closed its output, but has not ended: busy");
}
