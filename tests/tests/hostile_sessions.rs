//! Damaged models all the way: what the reader lets through is planned and run, on the reference and on the CPU backend.
//! Each gives a typed error or a finished run, in bounded time and memory. No panic.

#![allow(clippy::unwrap_used)] // helpers of tests

use saltica_core::{Session, SessionOptions};
use saltica_models::graph::Dim;
use saltica_models::graph::attrs::Attr;
use saltica_models::onnx;
use saltica_models::onnx::build::ModelBuilder;
use saltica_tensor::{DType, Shape, Tensor};
use saltica_tests::backends::{self, Named};
use saltica_tests::memory::{Counting, measure};
use saltica_tests::recipe;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// For plans: weights, arena, scratch.
const LIMIT: usize = 4 << 20;
/// For everything, values with run-time shapes included.
const MAX_BYTES: usize = 200 << 20;
/// On a busy machine.
const MAX_TIME: Duration = Duration::from_secs(10);

fn weights(dims: &[usize], seed: u64) -> Tensor {
    recipe::noise(seed, dims).unwrap()
}

fn ints(numbers: &[i64]) -> Tensor {
    Tensor::from_slice(&[numbers.len()], numbers).unwrap()
}

fn window(kernel: i64, stride: i64, pad: i64) -> [(&'static str, Attr); 3] {
    [
        ("kernel_shape", Attr::Ints(vec![kernel; 2])),
        ("strides", Attr::Ints(vec![stride; 2])),
        ("pads", Attr::Ints(vec![pad; 4])),
    ]
}

/// Convolutions, SiLU, pooling, an upsampled branch, a head.
fn detector() -> Vec<u8> {
    ModelBuilder::new(17)
        .input("x", DType::F32, &["batch".into(), 3.into(), 8.into(), 8.into()])
        .initializer("w1", &weights(&[4, 3, 3, 3], 1))
        .initializer("b1", &weights(&[4], 2))
        .initializer("w2", &weights(&[6, 8, 1, 1], 3))
        .initializer("scales", &Tensor::from_slice(&[4], &[1f32, 1.0, 2.0, 2.0]).unwrap())
        .initializer("target", &ints(&[0, 6, -1]))
        .node("Conv", &["x", "w1", "b1"], &["c"], &window(3, 1, 1))
        .node("Sigmoid", &["c"], &["s"], &[])
        .node("Mul", &["c", "s"], &["m"], &[])
        .node("MaxPool", &["m"], &["p"], &window(2, 2, 0))
        .node("Resize", &["p", "", "scales"], &["u"], &[("mode", Attr::String("nearest".into()))])
        .node("Concat", &["u", "m"], &["cat"], &[("axis", Attr::Int(1))])
        .node("Conv", &["cat", "w2"], &["h"], &window(1, 1, 0))
        .node("Reshape", &["h", "target"], &["r"], &[])
        .node("Softmax", &["r"], &["y"], &[("axis", Attr::Int(1))])
        .output("y", DType::F32)
        .encode()
}

/// An 8-bit convolution between QuantizeLinear and DequantizeLinear.
fn quantized() -> Vec<u8> {
    let scale = |v: f32| Tensor::from_slice(&[], &[v]).unwrap();
    let zero = |v: i8| Tensor::from_slice(&[], &[v]).unwrap();
    let w: Vec<i8> = (0..4 * 3 * 9).map(|i| (i * 37 % 255 - 127) as i8).collect();
    ModelBuilder::new(13)
        .input("x", DType::F32, &[1.into(), 3.into(), 8.into(), 8.into()])
        .initializer("xs", &scale(0.02))
        .initializer("xz", &zero(-3))
        .initializer("w", &Tensor::from_slice(&[4, 3, 3, 3], &w).unwrap())
        .initializer("ws", &Tensor::from_slice(&[4], &[0.01f32, 0.02, 0.03, 0.04]).unwrap())
        .initializer("wz", &Tensor::from_slice(&[4], &[0i8; 4]).unwrap())
        .initializer("ys", &scale(0.05))
        .initializer("yz", &zero(5))
        .node("QuantizeLinear", &["x", "xs", "xz"], &["xq"], &[])
        .node("DequantizeLinear", &["xq", "xs", "xz"], &["xd"], &[])
        .node("DequantizeLinear", &["w", "ws", "wz"], &["wd"], &[("axis", Attr::Int(0))])
        .node("Conv", &["xd", "wd"], &["c"], &window(3, 1, 1))
        .node("Relu", &["c"], &["r"], &[])
        .node("QuantizeLinear", &["r", "ys", "yz"], &["yq"], &[])
        .node("DequantizeLinear", &["yq", "ys", "yz"], &["y"], &[])
        .output("y", DType::F32)
        .encode()
}

/// Shapes computed from shapes, matrix products, slices, selection, and results whose shape depends on values.
fn shapes() -> Vec<u8> {
    ModelBuilder::new(17)
        .input("x", DType::F32, &["n".into(), 4.into(), 6.into()])
        .initializer("w", &weights(&[6, 5], 4))
        .initializer("first", &ints(&[0]))
        .initializer("rest", &ints(&[-1, 5]))
        .initializer("one", &ints(&[1]))
        .initializer("two", &ints(&[2]))
        .initializer("k", &ints(&[3]))
        .initializer("half", &Tensor::from_slice(&[], &[0.5f32]).unwrap())
        .node("Shape", &["x"], &["dims"], &[])
        .node("Gather", &["dims", "first"], &["n"], &[])
        .node("Concat", &["n", "rest"], &["target"], &[("axis", Attr::Int(0))])
        .node("MatMul", &["x", "w"], &["m"], &[])
        .node("Reshape", &["m", "target"], &["r"], &[])
        .node("Transpose", &["r"], &["t"], &[("perm", Attr::Ints(vec![0, 2, 1]))])
        .node("Slice", &["t", "one", "two", "one"], &["s"], &[])
        .node("ReduceMax", &["t"], &["best"], &[("axes", Attr::Ints(vec![2])), ("keepdims", Attr::Int(0))])
        .node("TopK", &["best", "k"], &["top", "at"], &[("axis", Attr::Int(-1))])
        .node("Greater", &["best", "half"], &["is"], &[])
        .node("NonZero", &["is"], &["where"], &[])
        .output("s", DType::F32)
        .output("top", DType::F32)
        .output("at", DType::I64)
        .output("where", DType::I64)
        .encode()
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Refused,
    Ran,
    /// Asks for inputs that the test does not make.
    Large,
}

fn drive(file: &[u8], named: &Named) -> End {
    let Ok(graph) = onnx::parse(file.to_vec(), None) else { return End::Refused };
    let options = SessionOptions { memory_limit: Some(LIMIT), ..SessionOptions::default() };
    let Ok(mut session) = Session::from_graph(graph, named.backend.clone(), options) else {
        return End::Refused;
    };
    let mut inputs = Vec::new();
    for port in session.model().inputs() {
        let dims: Vec<usize> =
            port.dims.iter().flatten().map(|d| if let Dim::Fixed(d) = d { *d } else { 2 }).collect();
        let elements = dims.iter().fold(1usize, |n, d| n.saturating_mul(*d));
        let Ok(shape) = Shape::new(&dims) else { return End::Refused };
        if elements > 100_000 {
            return End::Large;
        }
        let dtype = port.dtype.unwrap_or(DType::F32);
        let tensor = match dtype {
            DType::F32 => recipe::noise(9, &dims).unwrap(),
            _ => Tensor::zeros(dtype, shape).unwrap(),
        };
        inputs.push((port.name, tensor));
    }
    let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|(n, t)| (n.as_str(), t)).collect();
    match session.run(&inputs) {
        Ok(_) => End::Ran,
        Err(e) => {
            assert!(!e.to_string().is_empty() && e.to_string().len() < 20_000);
            End::Refused
        }
    }
}

/// Drives every file on every backend; the counts say how many ran.
fn survive(what: &str, files: impl Iterator<Item = (String, Vec<u8>)>) -> usize {
    let backends: Vec<Named> = backends::all()
        .unwrap()
        .into_iter()
        .filter(|b| b.name != "reference-nhwc" && !b.name.ends_with("scalar"))
        .collect();
    let (mut ran, mut count, mut faults) = (0, 0, Vec::new());
    for (name, file) in files {
        for backend in &backends {
            let start = Instant::now();
            let (end, usage) = measure(|| catch_unwind(AssertUnwindSafe(|| drive(&file, backend))));
            let took = start.elapsed();
            count += 1;
            match end {
                Ok(End::Ran) => ran += 1,
                Ok(_) => {}
                Err(_) => faults.push(format!("{what}, {name} on {}: panic", backend.name)),
            }
            if took > MAX_TIME || usage.peak_bytes > MAX_BYTES {
                let bytes = usage.peak_bytes;
                faults.push(format!("{what}, {name} on {}: {took:?}, {bytes} bytes", backend.name));
            }
        }
    }
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), faults.join("\n"));
    ran
}

fn models() -> [(&'static str, Vec<u8>); 3] {
    [("detector", detector()), ("quantized", quantized()), ("shapes", shapes())]
}

#[test]
fn undamaged_they_run() {
    for (name, file) in models() {
        let backends = backends::all().unwrap();
        for backend in backends {
            assert_eq!(drive(&file, &backend), End::Ran, "{name} on {}", backend.name);
        }
    }
}

#[test]
fn flipped_bits() {
    for (name, file) in models() {
        let flips = (0..file.len()).map(|at| {
            let bit = recipe::hash(11, at as u64) % 8;
            let mut damaged = file.clone();
            damaged[at] ^= 1 << bit;
            (format!("bit {bit} of byte {at}"), damaged)
        });
        let ran = survive(name, flips);
        // Flips in weights and names leave a model; were it none, nothing but the reader would be tested.
        assert!(ran > file.len() / 4, "{name}: {ran} ran");
    }
}

#[test]
fn several_bytes_replaced() {
    for (name, file) in models() {
        let damage = (0..1500u64).map(|n| {
            let mut damaged = file.clone();
            for k in 0..1 + n % 3 {
                let at = recipe::hash(12 + k, n) as usize % file.len();
                damaged[at] = recipe::hash(99 + k, n) as u8;
            }
            (format!("damage {n}"), damaged)
        });
        assert!(survive(name, damage) > 50);
    }
}

#[test]
fn truncated() {
    for (name, file) in models() {
        survive(name, (0..file.len()).step_by(7).map(|n| (format!("{n} bytes"), file[..n].to_vec())));
    }
}
