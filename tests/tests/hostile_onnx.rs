//! Hostile model files: each is a typed error, in under a second and under 100 MB beyond the file's own bytes. No panic.

#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests

use saltica_models::graph::Graph;
use saltica_models::graph::attrs::Attr;
use saltica_models::onnx::build::ModelBuilder;
use saltica_models::onnx::{self, Bytes};
use saltica_models::{Error, ErrorKind};
use saltica_tensor::{DType, Tensor};
use saltica_tests::memory::{Counting, measure};
use saltica_tests::recipe::hash;
use std::time::{Duration, SystemTime};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MAX_TIME: Duration = Duration::from_secs(1);
const MAX_BYTES: usize = 100_000_000;

/// Reads a model and does with the graph what every user does first; checks time and memory.
fn read(file: impl Into<Bytes>) -> Result<Graph, Error> {
    let file = file.into();
    let start = cpu_time();
    let (result, usage) = measure(|| {
        onnx::parse(file, None).and_then(|mut graph| {
            graph.sort()?;
            graph.prune();
            Ok(graph)
        })
    });
    let took = cpu_time() - start;
    assert!(took < MAX_TIME, "took {took:?}");
    assert!(usage.peak_bytes < MAX_BYTES, "held {} bytes", usage.peak_bytes);
    result
}

/// Time this thread has been running: the machine may be busy with other things. Linux says it in nanoseconds.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    match text.split(' ').next().and_then(|ns| ns.parse().ok()) {
        Some(ns) => Duration::from_nanos(ns),
        // Elsewhere the clock on the wall must do.
        None => SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap(),
    }
}

/// The error of a file that must be refused: of this kind, its text having all of `texts`.
fn refused(file: impl Into<Bytes>, kind: ErrorKind, texts: &[&str]) {
    let error = read(file).expect_err("must be refused");
    let message = error.to_string();
    assert_eq!(error.kind(), kind, "{message}");
    for text in texts {
        assert!(message.contains(text), "'{text}' is not in: {message}");
    }
    assert!(message.len() < 20_000, "{} bytes of message", message.len());
}

/// Protobuf by hand: what no builder writes.
mod pb {
    pub(super) fn varint(mut v: u64) -> Vec<u8> {
        let mut out = Vec::new();
        while v >= 0x80 {
            out.push(v as u8 | 0x80);
            v >>= 7;
        }
        out.push(v as u8);
        out
    }

    pub(super) fn int(field: u64, v: i64) -> Vec<u8> {
        [varint(field << 3), varint(v as u64)].concat()
    }

    pub(super) fn len(field: u64, payload: impl AsRef<[u8]>) -> Vec<u8> {
        let payload = payload.as_ref();
        [&varint(field << 3 | 2)[..], &varint(payload.len() as u64), payload].concat()
    }

    pub(super) fn opset(version: i64) -> Vec<u8> {
        len(8, int(2, version))
    }

    /// A model of opset 17 with this GraphProto.
    pub(super) fn model(graph: impl AsRef<[u8]>) -> Vec<u8> {
        [int(1, 8), len(7, graph), opset(17)].concat()
    }

    /// An initializer (field 5 of GraphProto) with these dims and other fields.
    pub(super) fn initializer(name: &str, data_type: i64, dims: &[i64], rest: &[u8]) -> Vec<u8> {
        let dims = dims.iter().flat_map(|d| int(1, *d)).collect::<Vec<_>>();
        len(5, [&dims[..], &int(2, data_type), &len(8, name), rest].concat())
    }

    pub(super) fn node(op: &str, inputs: &[&str], outputs: &[&str], rest: &[u8]) -> Vec<u8> {
        let inputs = inputs.iter().flat_map(|n| len(1, n)).collect::<Vec<_>>();
        let outputs = outputs.iter().flat_map(|n| len(2, n)).collect::<Vec<_>>();
        len(1, [&inputs[..], &outputs, &len(4, op), rest].concat())
    }

    /// A graph input (field 11) or output (field 12).
    pub(super) fn value(field: u64, name: &str) -> Vec<u8> {
        len(field, len(1, name))
    }
}

/// Two convolutions, a constant node, metadata, symbols.
fn small() -> ModelBuilder {
    let w = Tensor::from_slice(&[2, 1, 1, 1], &[1.0f32, 2.0]).unwrap();
    let v = Tensor::from_slice(&[1, 2, 3, 3], &[0.5f32; 18]).unwrap();
    let pads = Attr::Ints(vec![1, 1, 1, 1]);
    ModelBuilder::new(17)
        .input("x", DType::F32, &["batch".into(), 1.into(), 8.into(), "?".into()])
        .initializer("w", &w)
        .initializer("unused", &Tensor::from_slice(&[3], &[1i64, 2, 3]).unwrap())
        .node("Constant", &[], &["v"], &[("value", Attr::Tensor(v))])
        .node("Conv", &["x", "w"], &["y"], &[("kernel_shape", Attr::Ints(vec![1, 1]))])
        .node("Conv", &["y", "v"], &["z"], &[("pads", pads), ("auto_pad", Attr::String("NOTSET".into()))])
        .output("z", DType::F32)
        .metadata("names", "{0: 'person'}")
}

#[test]
fn the_small_model_is_fine() {
    let graph = read(small().encode()).unwrap();
    assert_eq!(graph.nodes.len(), 2);
}

#[test]
fn zero_bytes() {
    refused(Vec::new(), ErrorKind::Malformed, &["0 bytes"]);
}

#[test]
fn truncated_at_every_length() {
    let file = small().encode();
    let whole = read(file.clone()).unwrap();
    let mut accepted = 0;
    for n in 0..file.len() {
        match read(file[..n].to_vec()) {
            // A cut between top-level fields leaves a valid file; only metadata, which is last, can be missing.
            Ok(graph) => {
                assert_eq!(graph.nodes.len(), whole.nodes.len());
                assert!(graph.metadata.is_empty());
                accepted += 1;
            }
            Err(e) => assert_eq!(e.kind(), ErrorKind::Malformed, "{n} bytes: {e}"),
        }
    }
    assert_eq!(accepted, 1);
}

#[test]
fn flipped_bits() {
    let file = small().encode();
    let (mut refused, mut accepted) = (0, 0);
    for round in 0..20_000u64 {
        let mut file = file.clone();
        for flip in 0..1 + hash(1, round) % 4 {
            let bit = (hash(2, round * 8 + flip) % (file.len() as u64 * 8)) as usize;
            file[bit / 8] ^= 1 << (bit % 8);
        }
        match read(file) {
            Ok(_) => accepted += 1,
            Err(_) => refused += 1,
        }
    }
    // Flips in names' ends, numbers and unread text are no faults.
    assert!(refused > 5_000 && accepted > 500, "{refused} refused, {accepted} accepted");
}

#[test]
fn noise_and_noise_behind_a_valid_start() {
    let start = small().encode();
    for round in 0..5_000u64 {
        let n = (hash(3, round) % 300) as usize;
        let noise: Vec<u8> = (0..n).map(|i| hash(round, i as u64) as u8).collect();
        let _ = read(noise.clone());
        let cut = (hash(4, round) % start.len() as u64) as usize;
        let _ = read([&start[..cut], &noise].concat());
    }
}

#[test]
fn cycles_and_values_from_nowhere() {
    let base = || small().output("a", DType::F32);
    let cyclic = base().node("Conv", &["b", "w"], &["a"], &[]).node("Conv", &["a", "w"], &["b"], &[]);
    refused(cyclic.encode(), ErrorKind::Malformed, &["cycle"]);
    let own = base().node("Conv", &["a", "w"], &["a"], &[]);
    refused(own.encode(), ErrorKind::Malformed, &["cycle"]);
    refused(base().encode(), ErrorKind::Malformed, &["'a' is read but nothing makes it"]);
    let twice = base().node("Conv", &["x", "w"], &["a"], &[]).node("Conv", &["x", "w"], &["a"], &[]);
    refused(twice.encode(), ErrorKind::Malformed, &["'a' is made twice"]);
    let over_input = small().node("Conv", &["x", "w"], &["x"], &[]);
    refused(over_input.encode(), ErrorKind::Malformed, &["'x' is made twice"]);
    let over_constant = small().node("Conv", &["x", "w"], &["w"], &[]);
    refused(over_constant.encode(), ErrorKind::Malformed, &["'w' is made twice"]);
    let constant_twice = small().node("Constant", &[], &["v"], &[("value_int", Attr::Int(1))]);
    refused(constant_twice.encode(), ErrorKind::Malformed, &["'v' is made twice"]);
}

#[test]
fn names_twice() {
    let w = Tensor::scalar(1.0f32).unwrap();
    refused(small().initializer("w", &w).encode(), ErrorKind::Malformed, &["two initializers are named 'w'"]);
    refused(
        small().input("x", DType::F32, &[]).encode(),
        ErrorKind::Malformed,
        &["two inputs are named 'x'"],
    );
    refused(
        small().output("z", DType::F32).encode(),
        ErrorKind::Malformed,
        &["output 'z' is declared twice"],
    );
}

#[test]
fn absurd_dims() {
    let tensor = |dims: &[i64]| pb::model(pb::initializer("big", 1, dims, &pb::len(9, [0; 4])));
    refused(tensor(&[1 << 40]), ErrorKind::Limit, &["'big'", "1099511627776"]);
    refused(tensor(&[i64::MAX, i64::MAX]), ErrorKind::Limit, &["'big'"]);
    refused(tensor(&[0x7fff_ffff; 4]), ErrorKind::Limit, &["'big'", "too many elements"]);
    refused(tensor(&[0, 0x7fff_ffff, 0x7fff_ffff, 0x7fff_ffff]), ErrorKind::Limit, &["'big'"]);
    refused(tensor(&[0x7fff_ffff]), ErrorKind::Malformed, &["'big'", "4 bytes", "8589934588"]);
    refused(tensor(&[-1]), ErrorKind::Malformed, &["'big'", "-1"]);
    refused(tensor(&[i64::MIN]), ErrorKind::Malformed, &["'big'"]);
    refused(tensor(&[1; 9]), ErrorKind::Limit, &["'big'", "rank 9"]);
    let input = |dim: &[u8]| {
        let shape = pb::len(2, pb::len(1, pb::len(2, pb::len(1, dim))));
        pb::model(pb::len(11, [pb::len(1, "x"), shape].concat()))
    };
    refused(input(&pb::int(1, 1 << 40)), ErrorKind::Limit, &["input 'x'", "1099511627776"]);
    refused(input(&pb::int(1, -2)), ErrorKind::Malformed, &["input 'x'", "-2"]);
    let no_data = small().empty_initializer("none", DType::F32, &[1000, 1000]);
    refused(no_data.encode(), ErrorKind::Malformed, &["'none'", "no data", "4000000 bytes"]);
}

/// A few megabytes of empty messages would decode to a hundred times as much.
#[test]
fn floods() {
    const N: usize = 30_000_000;
    let flood = |unit: &[u8]| unit.repeat(N / unit.len());
    let attributes =
        |unit: &[u8]| pb::model(pb::len(1, [pb::len(4, "Conv"), pb::len(5, flood(unit))].concat()));
    let files = [
        ("nodes", pb::model(flood(&[0x0a, 0]))),
        ("initializers", pb::model(flood(&[0x2a, 0]))),
        ("inputs", pb::model(flood(&[0x5a, 0]))),
        ("outputs", pb::model(flood(&[0x62, 0]))),
        ("sparse initializers", pb::model(flood(&[0x7a, 0]))),
        ("metadata", flood(&[0x72, 0])),
        ("opsets", flood(&[0x42, 0])),
        ("functions", flood(&[0xca, 1, 0])),
        ("graphs with a node", flood(&pb::len(7, [0x0a, 0]))),
        ("input names", pb::model(pb::len(1, flood(&[0x0a, 0])))),
        ("output names", pb::model(pb::len(1, flood(&[0x12, 0])))),
        ("attributes", pb::model(pb::len(1, flood(&[0x2a, 0])))),
        ("ints", attributes(&[0x40, 1])),
        ("packed ints", pb::model(pb::len(1, pb::len(5, pb::len(8, flood(&[1])))))),
        ("packed floats", pb::model(pb::len(1, pb::len(5, pb::len(7, flood(&[0; 4])))))),
        ("floats", attributes(&[0x3d, 0, 0, 0, 0])),
        ("strings", attributes(&[0x4a, 0])),
        ("subgraphs", attributes(&[0x5a, 0])),
        ("dims", pb::model(pb::len(5, flood(&[0x08, 1])))),
        ("packed dims", pb::model(pb::len(5, pb::len(1, flood(&[1]))))),
        ("chunks", pb::model(pb::len(5, flood(&[0x22, 0])))),
        ("external entries", pb::model(pb::len(5, flood(&[0x6a, 0])))),
        ("declared dims", pb::model(pb::len(11, pb::len(2, pb::len(1, pb::len(2, flood(&[0x0a, 0]))))))),
        ("a name", pb::model(pb::len(2, vec![b'a'; 80_000_000]))),
    ];
    for (what, file) in files {
        let error = read(file).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Limit, "{what}: {error}");
        assert!(error.to_string().contains("byte "), "{what}: {error}");
    }
}

/// As many of everything as the limit admits.
#[test]
fn just_below_the_limit() {
    let names = |n: usize, of: fn(usize) -> Vec<u8>| (0..n).flat_map(of).collect::<Vec<u8>>();
    let io = [pb::value(11, "x"), pb::value(12, "n9")].concat();
    let w = pb::initializer("w", 1, &[1, 1, 1, 1], &pb::len(9, [0; 4]));
    // Every node its own, all of them good.
    let conv = |i: usize| pb::node("Conv", &["x", "w"], &[&format!("n{i}")], &[]);
    let chain = |i: usize| {
        let input = if i == 29_999 { "x".to_string() } else { format!("n{}", i + 1) };
        pb::node("Conv", &[&input, "w"], &[&format!("n{i}")], &[])
    };
    read(pb::model([&io[..], &w, &names(30_000, conv)].concat())).unwrap();
    // In reverse order.
    let graph = read(pb::model([&io[..], &w, &names(30_000, chain)].concat())).unwrap();
    assert!(graph.nodes.len() == 30_000 - 9, "{}", graph.nodes.len());
    // Every node of another unknown type.
    let unknown = |i: usize| pb::node(&format!("Op{i}"), &["x"], &[&format!("n{i}")], &[]);
    refused(
        pb::model([&io[..], &names(40_000, unknown)].concat()),
        ErrorKind::Unsupported,
        &["Op0", "and 39960 more"],
    );
    // Initializers and inputs.
    let scalar = |i: usize| pb::initializer(&format!("c{i}"), 1, &[], &pb::len(9, [0; 4]));
    read(pb::model([&io[..], &w, &names(10, conv), &names(40_000, scalar)].concat())).unwrap();
    let inputs = |i: usize| pb::value(11, &format!("i{i}"));
    read(pb::model([&io[..], &w, &names(15_000, conv), &names(25_000, inputs)].concat())).unwrap();
    let metadata = |i: usize| pb::len(14, pb::len(1, format!("k{i}")));
    let base = pb::model([&io[..], &w, &names(10, conv)].concat());
    let graph = read([base, names(150_000, metadata)].concat()).unwrap();
    assert_eq!(graph.metadata.len(), 150_000);
}

#[test]
fn long_texts_do_not_flood_the_message() {
    let too_long = pb::node(&"x".repeat(10_000_000), &[], &["y"], &[]);
    refused(pb::model(too_long), ErrorKind::Limit, &["graph.node.op_type", "10000000 bytes"]);
    let name = "x".repeat(60_000);
    let node = pb::node(&name, &[], &["y"], &pb::len(3, &name));
    refused(pb::model([node, pb::value(12, "y")].concat()), ErrorKind::Unsupported, &["xxx", "..."]);
    let conv =
        pb::node("Conv", &[&name], &[&name], &pb::len(5, [pb::len(1, &name), pb::int(20, 2)].concat()));
    assert!(read(pb::model([conv, pb::value(12, "y")].concat())).is_err());
    let group = pb::len(5, [pb::len(1, "group"), pb::len(8, vec![1u8; 1_000_000]), pb::int(20, 7)].concat());
    let conv = pb::node("Conv", &["x", "x"], &["y"], &group);
    refused(
        pb::model([conv, pb::value(11, "x"), pb::value(12, "y")].concat()),
        ErrorKind::Unsupported,
        &["group"],
    );
}

#[test]
fn deep_nesting() {
    // A graph in an attribute of a node of a graph ..., written from the inside out.
    let mut rest: Vec<Vec<u8>> = Vec::new();
    let mut inner = 0usize;
    for _ in 0..200_000 {
        for field in [1u64, 5, 6] {
            let head = [pb::varint(field << 3 | 2), pb::varint(inner as u64)].concat();
            inner += head.len();
            rest.push(head);
        }
    }
    rest.reverse();
    refused(pb::model(rest.concat()), ErrorKind::Malformed, &["no outputs"]);
    let subgraph = pb::len(5, [pb::len(1, "then_branch"), pb::len(6, []), pb::int(20, 5)].concat());
    let conditional = pb::node("If", &["x"], &["y"], &subgraph);
    let io = [pb::value(11, "x"), pb::value(12, "y")].concat();
    refused(pb::model([conditional, io].concat()), ErrorKind::Unsupported, &["If", "'y'", "subgraph"]);
    // Groups, the other way to nest.
    refused(vec![0x0b; 1_000_000], ErrorKind::Malformed, &["byte 0"]);
}

#[test]
fn text_that_is_not_utf8() {
    let bad = pb::model(pb::len(1, [pb::len(1, [b'x', 0xff]), pb::len(4, "Conv")].concat()));
    // 2 ir_version, 2 graph, 2 node, 2 input, then the second byte of the text.
    refused(bad, ErrorKind::Malformed, &["byte 9", "graph.node.input", "UTF-8"]);
    let attribute = pb::len(5, [pb::len(1, "auto_pad"), pb::len(4, [0xff]), pb::int(20, 3)].concat());
    let node = pb::node("Conv", &["x", "x"], &["y"], &attribute);
    refused(pb::model(node), ErrorKind::Malformed, &["auto_pad", "UTF-8", "'y'"]);
}

#[test]
fn faults_have_an_offset() {
    // Field 7 of 100 bytes, 3 of which are there.
    let short = [&pb::int(1, 8)[..], &[0x3a, 100, 0x12, 1, b'g']].concat();
    refused(short, ErrorKind::Malformed, &["byte 2 (graph)", "100 bytes, 3 are left"]);
    // A node whose op_type is a number.
    let wrong = pb::model(pb::len(1, pb::int(4, 5)));
    refused(wrong, ErrorKind::Malformed, &["byte 6 (graph.node.op_type)", "wire type 0"]);
    // An endless number.
    refused(
        [&pb::int(1, 8)[..], &[0x08], &[0xff; 20]].concat(),
        ErrorKind::Malformed,
        &["byte 2 (ir_version)"],
    );
}

/// How other files begin (their formats' documents), and what a message calls them.
#[test]
fn other_files() {
    let heads: &[(&[u8], &str)] = &[
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "JPEG"),
        (b"\x89PNG\r\n\x1a\n", "PNG"),
        (b"\x1c\x00\x00\x00TFL3\x14\x00", "TensorFlow Lite"),
        (b"ftrt\x00\x00\x00\x00\xe8", "TensorRT"),
        (b"\x2a\x00\x00\x00{\"description\": \"Ultralytics\"}ftrt", "TensorRT"),
        (b"PK\x03\x04\x00\x00\x08\x08", "PyTorch"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "pickle"),
        (b"\x1f\x8b\x08\x00\x00\x00", "gzip"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"\x50\x00\x00\x00\x00\x00\x00\x00{\"w\":{\"dtype\":\"F32\"}}", "safetensors"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:", "git lfs pull"),
        (b"\n\n<!DOCTYPE html><html>", "HTML"),
        (b"<?xml version=\"1.0\"?><net name=\"yolo\">", "OpenVINO"),
        (b"{\"error\": \"not found\"}", "JSON"),
        (b"7767517\n233 266\n", "ncnn"),
        (b"[net]\nbatch=1\n", "Darknet"),
        (b"GGUF\x03\x00", "GGUF"),
        (b"\x7fELF\x02\x01", "program"),
    ];
    for (head, name) in heads {
        refused(head.to_vec(), ErrorKind::Malformed, &["looks like", name]);
        refused([head, &[0u8; 4000][..]].concat(), ErrorKind::Malformed, &["looks like", name]);
    }
    refused(b"hello world, this is text".to_vec(), ErrorKind::Malformed, &["not an ONNX model"]);
    refused(b"   \n  ".to_vec(), ErrorKind::Malformed, &["blank"]);
    // Valid protobuf of something else.
    refused(pb::len(1, "saved_model"), ErrorKind::Malformed, &["not an ONNX model"]);
}

mod external {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Reads a model whose one constant, of two floats, is at `location`.
    fn read_at(dir: &Path, location: &str, offset: u64, length: u64) -> Result<Graph, Error> {
        let model = small().external_initializer("e", DType::F32, &[2], location, offset, length);
        onnx::parse(model.encode(), Some(dir))
    }

    fn refused(dir: &Path, location: &str, kind: ErrorKind, text: &str) {
        let error = read_at(dir, location, 0, 8).expect_err("must be refused");
        let message = error.to_string();
        assert_eq!(error.kind(), kind, "{message}");
        assert!(message.contains(text) && message.contains("'e'"), "'{text}' is not in: {message}");
    }

    #[test]
    fn data_beside_the_model_is_borrowed_from_the_map() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = [0.0f32, 1.0, 2.0, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/weights.bin"), bytes).unwrap();
        let graph = read_at(dir.path(), "./sub/weights.bin", 4, 8).unwrap();
        let e = graph.values.iter().find(|v| v.name == "e").unwrap().constant.as_ref().unwrap();
        assert_eq!(e.as_slice::<f32>().unwrap(), [1.0, 2.0]);
        // By path, the model's own folder is where the data is.
        let path = dir.path().join("model.onnx");
        let model = small().external_initializer("e", DType::F32, &[2], "sub/weights.bin", 8, 8);
        fs::write(&path, model.encode()).unwrap();
        let graph = onnx::load(&path).unwrap();
        let e = graph.values.iter().find(|v| v.name == "e").unwrap().constant.as_ref().unwrap();
        assert_eq!(e.as_slice::<f32>().unwrap(), [2.0, 3.0]);
    }

    #[test]
    fn a_large_file_is_not_copied() {
        let dir = tempfile::tempdir().unwrap();
        let file = fs::File::create(dir.path().join("w")).unwrap();
        file.set_len(400_000_000).unwrap();
        let model = small().external_initializer("e", DType::F32, &[100_000_000], "w", 0, 400_000_000);
        let model = model.encode();
        let (graph, usage) = measure(|| onnx::parse(model, Some(dir.path())));
        assert!(graph.is_ok());
        assert!(usage.peak_bytes < 1_000_000, "{usage:?}");
    }

    #[test]
    fn paths_that_leave_the_folder() {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("model");
        fs::create_dir(&dir).unwrap();
        fs::write(outer.path().join("secret"), [0u8; 64]).unwrap();
        fs::write(dir.join("fine"), [0u8; 64]).unwrap();
        let absolute = outer.path().join("secret");
        for path in ["../secret", "./../secret", "x/../../secret", "..", "/etc/passwd", "..\\secret"] {
            refused(&dir, path, ErrorKind::Malformed, "leaves the model's folder");
        }
        refused(&dir, absolute.to_str().unwrap(), ErrorKind::Malformed, "leaves the model's folder");
        // Harmless, but the rule is simple: no `..`.
        refused(&dir, "x/../fine", ErrorKind::Malformed, "leaves the model's folder");
        std::os::unix::fs::symlink("../secret", dir.join("link")).unwrap();
        refused(&dir, "link", ErrorKind::Malformed, "leads out of the model's folder");
        std::os::unix::fs::symlink("..", dir.join("up")).unwrap();
        refused(&dir, "up/secret", ErrorKind::Malformed, "leads out of the model's folder");
        // A link inside the folder is fine, and so is a folder that is itself reached by a link.
        std::os::unix::fs::symlink("fine", dir.join("inner")).unwrap();
        assert!(read_at(&dir, "inner", 0, 8).is_ok());
        std::os::unix::fs::symlink(&dir, outer.path().join("alias")).unwrap();
        assert!(read_at(&outer.path().join("alias"), "fine", 0, 8).is_ok());
    }

    #[test]
    fn files_that_are_not_there_or_too_short() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        refused(dir, "missing.bin", ErrorKind::Io, "missing.bin");
        refused(dir, "", ErrorKind::Malformed, "without a location");
        refused(dir, "a\0b", ErrorKind::Io, "a\\0b");
        refused(dir, ".", ErrorKind::Io, "not a regular file");
        fs::write(dir.join("short"), [0u8; 7]).unwrap();
        refused(dir, "short", ErrorKind::Malformed, "has 7 bytes");
        fs::write(dir.join("empty"), []).unwrap();
        refused(dir, "empty", ErrorKind::Malformed, "has 0 bytes");
        fs::write(dir.join("fine"), [0u8; 64]).unwrap();
        for (offset, length) in [(57, 8), (u64::MAX, 8), (0, 9), (0, u64::MAX)] {
            let error = read_at(dir, "fine", offset, length).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        }
        // A pipe would block for ever when opened.
        let fifo = dir.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        refused(dir, "pipe", ErrorKind::Io, "not a regular file");
        assert_eq!(onnx::load(&fifo).unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(onnx::load(dir).unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(onnx::load(&dir.join("missing.onnx")).unwrap_err().kind(), ErrorKind::Io);
    }

    #[test]
    fn bytes_have_no_folder() {
        let model = small().external_initializer("e", DType::F32, &[2], "w", 0, 8);
        let error = onnx::parse(model.encode(), None).unwrap_err().to_string();
        assert!(error.contains("load it from its path"), "{error}");
    }
}
