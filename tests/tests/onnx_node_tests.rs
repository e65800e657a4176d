//! ONNX's own node tests: every one whose ops are in the table runs through the reader and the reference kernels.
//!
//! The tests (a model, inputs and expected outputs each) are data files of the Python package `onnx`. They are taken from
//! the folder in `SALTICA_ONNX_NODE_TESTS` (several may be given, joined by `:`), else from the package that `python3`
//! finds. Without them one test is reported as ignored. onnx 1.17 is the version for opset 22, the latest that is read;
//! older packages hold the forms of older opsets, the newest ones hold none of these files.

use libtest_mimic::{Arguments, Failed, Trial};
use saltica_models::graph::ops::compare;
use saltica_models::graph::{Op, Tolerance};
use saltica_models::onnx;
use saltica_tensor::{DType, Tensor};
use saltica_tests::Result;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Tests that are not expected to pass, with the reason; `*` stands for any end of a name. One that passes nevertheless is a
/// failure, so that this list only shrinks.
const IGNORED: &[(&str, &str)] = &[
    ("test_averagepool_1d_*", ONLY_2D),
    ("test_averagepool_3d_*", ONLY_2D),
    ("test_basic_conv_1d*", ONLY_2D),
    ("test_batchnorm_*_training_mode", TRAINING),
    ("test_convtranspose_1d", ONLY_2D),
    ("test_convtranspose_3d", ONLY_2D),
    ("test_dequantizelinear_blocked", BLOCKED),
    ("test_gridsample_volumetric_*", ONLY_2D),
    ("test_layer_normalization_*_epsilon", STATISTICS),
    ("test_layer_normalization_*axis0", STATISTICS),
    ("test_layer_normalization_*axis1", STATISTICS),
    ("test_layer_normalization_*axis2", STATISTICS),
    ("test_layer_normalization_*axis3", STATISTICS),
    ("test_layer_normalization_*negative_1", STATISTICS),
    ("test_layer_normalization_*negative_2", STATISTICS),
    ("test_layer_normalization_*negative_3", STATISTICS),
    ("test_layer_normalization_*negative_4", STATISTICS),
    ("test_layer_normalization_default_axis", STATISTICS),
    ("test_maxpool_1d_*", ONLY_2D),
    ("test_maxpool_3d_*", ONLY_2D),
    ("test_maxpool_with_argmax_*", "the output Indices is not supported"),
    ("test_qlinearmatmul_2D_int8_*", WRAPPED),
    ("test_qlinearmatmul_3D_int8_*", WRAPPED),
    ("test_quantizelinear_blocked_*", BLOCKED),
    ("test_resize_downsample_scales_cubic_align_corners", UNROUNDED),
    ("test_resize_downsample_scales_linear_align_corners", UNROUNDED),
    ("test_resize_*_antialias", "no exporter of detectors asks for antialias"),
    ("test_resize_tf_crop_and_resize*", "no exporter of detectors asks for tf_crop_and_resize"),
    ("test_training_dropout*", TRAINING),
];
const STATISTICS: &str = "the outputs Mean and InvStdDev are not supported";
const BLOCKED: &str = "blocked quantization is not supported";
const WRAPPED: &str = "the expected values wrap around where the text says saturate; onnxruntime saturates";
const ONLY_2D: &str = "windows and images are 2-D";
const TRAINING: &str = "this is inference";
const UNROUNDED: &str =
    "the test divides by the size before rounding; onnxruntime and PyTorch divide by the real one";

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let folders = folders();
    let mut trials = Vec::new();
    if folders.is_empty() {
        const MESSAGE: &str =
            "no ONNX node tests: set SALTICA_ONNX_NODE_TESTS, or install onnx 1.17 for python3";
        eprintln!("ignored: {MESSAGE}");
        trials.push(
            Trial::test("needs_onnx_node_tests", || Err(Failed::from(MESSAGE))).with_ignored_flag(true),
        );
    }
    let mut others: BTreeMap<String, usize> = BTreeMap::new();
    for dir in folders.iter().flat_map(|folder| cases(folder)) {
        match Model::read(&dir) {
            Ok(model) => match model.foreign() {
                Some(what) => *others.entry(what).or_default() += 1,
                None => trials.push(model.trial()),
            },
            Err(e) => trials.push(Trial::test(name(&dir), move || Err(Failed::from(e.to_string())))),
        }
    }
    if !others.is_empty() {
        let list: Vec<String> = others.iter().map(|(what, n)| format!("{what} ({n})")).collect();
        eprintln!("not run, for what the op table does not have: {}", list.join(", "));
    }
    libtest_mimic::run(&args, trials).exit_code()
}

/// Where the tests are.
fn folders() -> Vec<PathBuf> {
    if let Some(given) = std::env::var_os("SALTICA_ONNX_NODE_TESTS") {
        return std::env::split_paths(&given).filter(|p| p.is_dir()).collect();
    }
    let asked = Command::new("python3").args(["-c", "import onnx; print(onnx.__path__[0])"]).output();
    let Ok(answer) = asked else { return Vec::new() };
    let package = PathBuf::from(String::from_utf8_lossy(&answer.stdout).trim());
    let dir = package.join("backend/test/data/node");
    if answer.status.success() && dir.is_dir() { vec![dir] } else { Vec::new() }
}

/// The folders of the tests, sorted.
fn cases(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("model.onnx").is_file())
        .collect();
    found.sort();
    found
}

fn name(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The fields of a protobuf message: number, and payload (empty for numbers, whose value comes third).
fn fields(bytes: &[u8]) -> Result<Vec<(u64, &[u8], u64)>> {
    fn varint(bytes: &mut &[u8]) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = bytes.split_first().ok_or("a number is cut off")?;
            *bytes = rest;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        Err("a number is too long".into())
    }
    let mut rest = bytes;
    let mut out = Vec::new();
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        let (length, number) = match key & 7 {
            0 => (0, varint(&mut rest)?),
            1 => (8, 0),
            2 => (varint(&mut rest)? as usize, 0),
            5 => (4, 0),
            other => return Err(format!("wire type {other}").into()),
        };
        let (payload, after) = rest.split_at_checked(length).ok_or("a field is cut off")?;
        rest = after;
        out.push((key >> 3, payload, number));
    }
    Ok(out)
}

/// A field with a payload (shorter than 2^28 bytes).
fn field(number: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = payload.len();
    while length > 127 {
        out.push(length as u8 | 128);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend(payload);
    out
}

/// A tensor file, read by the model reader: as the only initializer and output of a model around it.
fn tensor(path: &Path) -> Result<Tensor> {
    let mut initializer = std::fs::read(path)?;
    // TensorProto.name; the last one in a message counts.
    initializer.extend(field(8, b"t"));
    let mut graph = field(2, b"g");
    graph.extend(field(5, &initializer));
    graph.extend(field(12, &field(1, b"t")));
    // ir_version 8, opset_import { version 17 }
    let mut model = vec![1 << 3, 8];
    model.extend(field(8, &[2 << 3, 17]));
    model.extend(field(7, &graph));
    let graph = onnx::parse(model, None)?;
    graph.constant(graph.outputs.first().copied()).cloned().ok_or("no constant in it".into())
}

/// What is known of a test before it runs.
struct Model {
    dir: PathBuf,
    /// Ops outside the table, with their domain if it is another.
    ops: Vec<String>,
    /// Types of inputs and outputs that are no tensor of a known dtype.
    types: Vec<String>,
    /// The opset, if it is none that is read.
    opset: Option<String>,
}

impl Model {
    fn read(dir: &Path) -> Result<Self> {
        let bytes = std::fs::read(dir.join("model.onnx"))?;
        let mut model = Model { dir: dir.to_path_buf(), ops: Vec::new(), types: Vec::new(), opset: None };
        let all = |message: &[u8], number: u64| -> Result<Vec<Vec<u8>>> {
            Ok(fields(message)?.iter().filter(|f| f.0 == number).map(|f| f.1.to_vec()).collect())
        };
        for graph in all(&bytes, 7)? {
            for node in all(&graph, 1)? {
                let text = |number| all(&node, number).map(|list| list.concat());
                let (op, domain) = (String::from_utf8(text(4)?)?, String::from_utf8(text(7)?)?);
                if !domain.is_empty() && domain != "ai.onnx" {
                    model.ops.push(format!("{domain}.{op}"));
                } else if !Op::knows(&op) && op != "Constant" {
                    model.ops.push(op);
                }
            }
            for value in all(&graph, 11)?.into_iter().chain(all(&graph, 12)?) {
                let of_tensor = all(&all(&value, 2)?.concat(), 1)?.concat();
                let code = fields(&of_tensor)?.iter().find(|f| f.0 == 1).map_or(0, |f| f.2);
                if ![1, 2, 3, 6, 7, 9, 10, 11].contains(&code) {
                    model.types.push(format!("data type {code}"));
                }
            }
        }
        for set in all(&bytes, 8)? {
            let is_default = all(&set, 1)?.concat().is_empty();
            let version = fields(&set)?.iter().find(|f| f.0 == 2).map_or(0, |f| f.2);
            if is_default && !u32::try_from(version).is_ok_and(|v| onnx::OPSETS.contains(&v)) {
                model.opset = Some(format!("opset {version}"));
            }
        }
        Ok(model)
    }

    /// Why the test is out of scope, if it is.
    fn foreign(&self) -> Option<String> {
        self.ops.first().or(self.opset.as_ref()).or(self.types.first()).cloned()
    }

    fn trial(self) -> Trial {
        let name = name(&self.dir);
        let matches = |pattern: &str| match pattern.split_once('*') {
            Some((start, end)) => {
                name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
            }
            None => name == pattern,
        };
        match IGNORED.iter().find(|(pattern, _)| matches(pattern)) {
            None => Trial::test(name, move || self.run().map_err(|e| Failed::from(e.to_string()))),
            Some((_, reason)) => {
                // Run as well, to notice when the reason is gone.
                let gone = self.run().is_ok();
                let message = format!("passes: take it from the list ({reason})");
                Trial::test(name, move || Err(Failed::from(message))).with_ignored_flag(!gone)
            }
        }
    }

    fn run(&self) -> Result<()> {
        let graph = onnx::load(&self.dir.join("model.onnx"))?;
        for set in 0.. {
            let data = self.dir.join(format!("test_data_set_{set}"));
            if !data.is_dir() {
                break;
            }
            let mut values: Vec<Option<Tensor>> = graph.values.iter().map(|v| v.constant.clone()).collect();
            for (i, id) in graph.inputs.iter().enumerate() {
                values[id.index()] = Some(tensor(&data.join(format!("input_{i}.pb")))?);
            }
            for node in &graph.nodes {
                let inputs: Vec<_> =
                    node.inputs.iter().map(|id| id.and_then(|id| values[id.index()].as_ref())).collect();
                let outputs = node.op.evaluate(&inputs).map_err(|e| e.in_node(&node.name, node.op.name()))?;
                for (id, value) in node.outputs.iter().zip(outputs) {
                    if let Some(id) = id {
                        values[id.index()] = Some(value);
                    }
                }
            }
            for (i, id) in graph.outputs.iter().enumerate() {
                let want = tensor(&data.join(format!("output_{i}.pb")))?;
                let got = values[id.index()].as_ref().ok_or("an output is missing")?;
                compare(&got.view(), &want, self.tolerance(want.dtype()))
                    .map_err(|e| format!("output {i}: {e}"))?;
            }
        }
        Ok(())
    }

    /// The expectations are computed in numpy, partly in another order or precision.
    fn tolerance(&self, dtype: DType) -> Tolerance {
        match dtype {
            // onnx 1.12 writes pi with five digits into these models.
            DType::F32 if name(&self.dir).contains("window") => {
                Tolerance::Close { absolute: 1e-4, relative: 1e-5 }
            }
            // Written down with four digits.
            DType::F32 if name(&self.dir).starts_with("test_gridsample") => {
                Tolerance::Close { absolute: 5e-5, relative: 1e-4 }
            }
            DType::F32 | DType::F64 => Tolerance::Close { absolute: 1e-6, relative: 1e-5 },
            DType::F16 => Tolerance::Close { absolute: 1e-3, relative: 2e-3 },
            _ => Tolerance::Exact,
        }
    }
}
