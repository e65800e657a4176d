//! What a file that is no ONNX model looks like, by the marks other formats begin with: the wrong file is the most common
//! fault, and its name helps more than a byte offset.

/// A description of a well-known other format, if `file` begins like one.
pub(super) fn looks_like(file: &[u8]) -> Option<&'static str> {
    // Marks at offset 0; more specific ones first.
    const MARKS: &[(&[u8], &str)] = &[
        (b"\xff\xd8\xff", "a JPEG picture"),
        (b"\x89PNG", "a PNG picture"),
        (b"GIF8", "a GIF picture"),
        (b"RIFF", "a RIFF file (WebP picture, AVI video)"),
        (b"II*\0", "a TIFF picture"),
        (b"MM\0*", "a TIFF picture"),
        (b"\x1f\x8b", "gzip data; unpack it first (gunzip)"),
        (b"BZh", "bzip2 data; unpack it first"),
        (b"\x28\xb5\x2f\xfd", "zstd data; unpack it first"),
        (b"\xfd7zXZ\0", "xz data; unpack it first"),
        (b"PK\x03\x04", "a zip archive (a PyTorch .pt checkpoint is one); export it to ONNX"),
        (b"\x80\x02", "a Python pickle (an old PyTorch checkpoint is one); export it to ONNX"),
        (
            b"ftrt",
            "a TensorRT engine, which runs on the machine it was built on only; use the ONNX file it was built from",
        ),
        (b"\x89HDF", "an HDF5 file (a Keras model is one); export it to ONNX"),
        (b"\x93NUMPY", "a NumPy array"),
        (b"GGUF", "a GGUF file"),
        (b"\x7fELF", "a program or library"),
        (b"%PDF", "a PDF document"),
        (b"version https://git-lfs", "a Git LFS pointer, not the file itself; fetch it with `git lfs pull`"),
        (b"7767517\n", "an ncnn parameter file"),
        (b"[net]", "a Darknet configuration"),
    ];
    if let Some((_, what)) = MARKS.iter().find(|(mark, _)| file.starts_with(mark)) {
        return Some(what);
    }
    match file.get(4..8) {
        Some(b"TFL3") => return Some("a TensorFlow Lite model; export it to ONNX"),
        Some(b"ORTM") => return Some("a model in ORT format; use the ONNX file it was made from"),
        Some(b"ftyp") => return Some("an MP4 video"),
        _ => {}
    }
    let is_json = |at: usize| file.get(at..).is_some_and(|rest| rest.starts_with(b"{\""));
    if is_json(8) {
        return Some("a safetensors file: weights without a graph");
    }
    if is_json(4) {
        return Some("a TensorRT engine with a JSON head; use the ONNX file it was built from");
    }
    // A byte order mark or blanks may come first.
    let start = file.iter().position(|b| !b" \t\r\n\xef\xbb\xbf".contains(b)).unwrap_or(file.len());
    let head = &file[start..file.len().min(start + 16)];
    match head {
        [b'<', ..] => Some("an XML or HTML page (a download that failed, or an OpenVINO model)"),
        [b'{', b'"' | b'\n' | b'\r' | b' ', ..] => Some("JSON text"),
        [] if !file.is_empty() => Some("blank text"),
        _ => None,
    }
}
