//! What is asked of GStreamer; and, where it is installed, what it gives.

use super::*;

fn uri(text: &str) -> SourceUri {
    SourceUri::parse(text).unwrap()
}

/// GStreamer with what a test needs, or a line that says that the test cannot run.
fn gst(elements: &[&str]) -> Option<&'static Gst> {
    match Gst::get() {
        Ok(gst) if elements.iter().all(|e| gst.has(e)) => Some(gst),
        _ => {
            eprintln!("ignored: GStreamer with {elements:?} is not installed");
            None
        }
    }
}

#[test]
fn pipelines_are_what_each_kind_of_source_needs() {
    let s = GstSource::rtsp(&uri("rtsp://me:se\"c\\ret@cam/a?channel=1#latency=50&codec=h265&transport=udp"))
        .unwrap();
    let d = s.description(&|_| false);
    assert!(d.starts_with(
        r#"rtspsrc location="rtsp://me:se\"c\\ret@cam/a?channel=1" latency=50 protocols=udp tcp-timeout=5000000 timeout=5000000 ! rtph265depay ! decodebin ! videoconvert ! video/x-raw,format=(string){NV12,I420,"#
    ), "{d}");
    assert!(d.ends_with("! appsink name=sink sync=false max-buffers=2 drop=true"), "{d}");
    let on_jetson = s.description(&|e| e == "nvvidconv");
    assert!(on_jetson.contains("decodebin ! nvvidconv ! video/x-raw,format=NV12 ! appsink"), "{on_jetson}");
    let s = GstSource::csi(&uri("csi://1?size=1920x1080&fps=60")).unwrap();
    let d = s.description(&|_| true);
    assert!(
        d.contains("sensor-id=1 ! video/x-raw(memory:NVMM),width=1920,height=1080,framerate=60/1"),
        "{d}"
    );
    assert!(d.contains("nvvidconv bl-output=false"), "{d}");
    for (text, part) in
        [("rtsp:///x", "names no host"), ("csi://front", "names no camera"), ("rtsp:", "names no host")]
    {
        let e = uri(text).source().unwrap_err();
        assert!(e.kind() == ErrorKind::Uri && e.to_string().contains(part), "{e}");
    }
}

#[test]
fn layouts_are_gstreamers_own() {
    let caps = |format: &str, width, height| Caps { format: format.into(), width, height, ..Caps::default() };
    // Offsets and strides as gst_video_info_set_format gives them (GStreamer 1.22).
    let planes = |format, w, h| {
        layout(&caps(format, w, h), &Options::default()).unwrap().planes.map(|p| (p.offset, p.stride))
    };
    assert_eq!(planes("I420", 33, 17), [(0, 36), (648, 20), (828, 20)]);
    assert_eq!(planes("NV12", 33, 17)[..2], [(0, 36), (648, 36)]);
    assert_eq!(planes("RGB", 33, 17)[0], (0, 100));
    assert_eq!(planes("YUY2", 34, 17)[0], (0, 68));
    assert!(
        layout(&caps("P010_10LE", 32, 32), &Options::default())
            .unwrap_err()
            .to_string()
            .contains("P010_10LE")
    );
    assert!(layout(&caps("NV12", 0, 0), &Options::default()).is_err());
    for (text, want) in [
        ("bt709", "BT.709 limited"),
        ("bt601", "BT.601 limited"),
        ("", "BT.601 limited"),
        ("bt2020-10", "BT.2020 limited"),
        ("1:4:0:0", "BT.601 full"),
        ("2:3:5:1", "BT.709 limited"),
        ("1:3:5:1", "BT.709 full"),
    ] {
        assert_eq!(colorimetry(text).to_string(), want, "{text}");
    }
}

/// The colours of tests/data/clip.avi, as OpenCV 5.0.0 decodes them (tests/data/make_avi.py).
#[test]
fn a_video_through_gstreamer_has_the_colours_it_should_have() {
    if gst(&["avidemux", "jpegdec", "decodebin", "videoconvert"]).is_none() {
        return;
    }
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/");
    let want: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(format!("{here}clip.json")).unwrap()).unwrap();
    let mut s = GstSource::file(&uri(&format!("file:{here}clip.avi")));
    let opened = s.open(Duration::from_secs(20)).unwrap();
    assert_eq!((opened.fps, opened.format.unwrap().width), (Some(12.0), 64));
    let mut held = Vec::new();
    while held.len() < 5 {
        match s.next(Duration::from_secs(5)).unwrap() {
            Next::Frame(f) => held.push(f),
            other => panic!("{other:?} after {} frames", held.len()),
        }
    }
    assert!(matches!(s.next(Duration::from_secs(5)).unwrap(), Next::End));
    s.close();
    // Frames outlive their pipeline.
    for (n, f) in held.iter().enumerate() {
        assert_eq!((f.memory(), f.copies(), f.sequence), (Memory::Gst, 0, n as u64));
        let image = saltica_vision::Image::from_pixels(&f.pixels());
        for (i, at) in want["at"].as_array().unwrap().iter().enumerate() {
            let (x, y) = (at[0].as_u64().unwrap() as usize, at[1].as_u64().unwrap() as usize);
            let found = image.pixel(x, y).unwrap();
            for c in 0..3 {
                let want = want["rgb"][n][i][c].as_i64().unwrap();
                assert!(
                    (i64::from(found[c]) - want).abs() <= 4,
                    "frame {n} at {x},{y}: {found:?}, {want} in {c}"
                );
            }
        }
    }
}

#[test]
fn failures_are_named_and_hide_the_password() {
    let mut s = uri("csi://0").source().unwrap();
    let e = s.open(Duration::from_secs(1)).unwrap_err();
    // Off a Jetson either GStreamer or the camera's element is missing.
    assert!(e.kind() == ErrorKind::Missing && e.to_string().contains("install"), "{e}");
    if gst(&["rtspsrc", "decodebin", "videoconvert"]).is_none() {
        return;
    }
    // Nobody listens on the discard port of this machine.
    let mut s = uri("rtsp://me:hunter2@127.0.0.1:9/x").source().unwrap();
    let e = s.open(Duration::from_secs(10)).unwrap_err();
    assert!(!e.kind().is_permanent() && !e.to_string().contains("hunter2"), "{e}");
    assert!(e.to_string().starts_with("rtsp://me:***@127.0.0.1:9/x: "), "{e}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.mp4");
    std::fs::write(&path, vec![7u8; 5000]).unwrap();
    let mut s = GstSource::file(&uri(&format!("file:{}", path.display())));
    let e = s.open(Duration::from_secs(10)).unwrap_err();
    assert!(e.to_string().contains("a.mp4: "), "{e}");
}
