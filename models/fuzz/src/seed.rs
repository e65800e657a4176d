//! Fills `corpus/onnx` with models built in code and the small ones of the shared test data.

use saltica_models::graph::attrs::Attr;
use saltica_models::onnx::build::ModelBuilder;
use saltica_models_fuzz::OPS;
use saltica_tensor::{DType, Tensor};
use std::error::Error;
use std::path::{Path, PathBuf};

/// The fuzzer mutates small files best.
const MAX_FILE: u64 = 120_000;

fn main() -> Result<(), Box<dyn Error>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/onnx");
    std::fs::create_dir_all(&corpus)?;
    let mut count = 0;
    let mut write = |name: &str, file: &[u8]| {
        count += 1;
        std::fs::write(corpus.join(name), file)
    };
    write("conv", &conv().encode())?;
    write("external", &conv().external_initializer("e", DType::F32, &[2], "weights.bin", 4, 8).encode())?;
    write("empty", &conv().empty_initializer("n", DType::I8, &[2, 2]).encode())?;
    for (op, attributes) in OPS {
        let shape = Tensor::from_slice(&[2], &[1i64, -1])?;
        let scale = Tensor::from_slice(&[1], &[0.5f32])?;
        for inputs in [&["x"][..], &["x", "k"], &["x", "x"], &["x", "s", "s"], &["x", "k", "k", "k"]] {
            let model = ModelBuilder::new(17)
                .input("x", DType::F32, &[1.into(), 2.into(), "h".into(), 4.into()])
                .initializer("k", &shape)
                .initializer("s", &scale)
                .node(op, inputs, &["y"], &[])
                .output("y", DType::F32);
            write(&format!("{op}{}", inputs.join("")), &model.encode())?;
        }
        let attrs: Vec<_> = attributes.iter().map(|a| (*a, Attr::Int(1))).collect();
        let model = conv().node(op, &["y", "w"], &["z"], &attrs).output("z", DType::F32);
        write(&format!("{op}_attrs"), &model.encode())?;
    }
    let shared = std::env::var_os("SALTICA_SHARED").map(PathBuf::from);
    let shared = shared.unwrap_or(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    if shared.join("data").is_dir() {
        for folder in ["graphs", "models"] {
            for entry in std::fs::read_dir(shared.join("data").join(folder))? {
                let path = entry?.path();
                let is_model = path.extension().is_some_and(|e| e == "onnx");
                if is_model && path.metadata()?.len() <= MAX_FILE {
                    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    write(&name, &std::fs::read(&path)?)?;
                }
            }
        }
    } else {
        eprintln!("no shared test data: only models built in code");
    }
    println!("{count} files in {}", corpus.display());
    Ok(())
}

fn conv() -> ModelBuilder {
    let weights = |n: usize| Tensor::from_slice(&[n, 1, 1, 1], &vec![0.5f32; n]);
    let (Ok(w), Ok(v)) = (weights(2), weights(2)) else { return ModelBuilder::new(17) };
    ModelBuilder::new(17)
        .input("x", DType::F32, &["batch".into(), 1.into(), 8.into(), "?".into()])
        .initializer("w", &w)
        .node("Constant", &[], &["v"], &[("value", Attr::Tensor(v))])
        .node("Conv", &["x", "w"], &["a"], &[("kernel_shape", Attr::Ints(vec![1, 1]))])
        .node(
            "Conv",
            &["a", "v"],
            &["y"],
            &[("group", Attr::Int(2)), ("auto_pad", Attr::String("VALID".into()))],
        )
        .output("y", DType::F32)
        .metadata("names", "{0: 'person'}")
}
