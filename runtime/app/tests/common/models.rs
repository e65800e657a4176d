//! Small models built in code, and pictures for them.

use saltica::{Image, Tensor};
use saltica_models::graph::Dim;
use saltica_models::graph::attrs::Attr;
use saltica_models::onnx::build::ModelBuilder;
use saltica_tensor::DType;
use std::path::{Path, PathBuf};

/// A detector that takes any batch of 32x32 pictures (RGB, 0 to 1) and finds, in its own pixels:
/// * class 0, `red`, in the box 8,12 to 24,20, as sure as the picture is red;
/// * class 1, `blue`, in the box 4,4 to 12,12, as sure as it is blue.
///
/// Its output [batch, 4 + 2, 21] has YOLOv8's layout: 21 cells are those of strides 8, 16 and 32.
pub(crate) fn colour_detector() -> ModelBuilder {
    colour_detector_of("batch".into())
}

/// The same for one batch size.
pub(crate) fn colour_detector_of(batch: Dim) -> ModelBuilder {
    const CELLS: usize = 21;
    let at = |channel: usize, cell: usize| channel * CELLS + cell;
    let mut weights = vec![0f32; 6 * CELLS * 3];
    let mut bias = vec![0f32; 6 * CELLS];
    for (cell, centre_and_size) in [[16.0, 16.0, 16.0, 8.0], [8.0, 8.0, 8.0, 8.0]].iter().enumerate() {
        for (channel, v) in centre_and_size.iter().enumerate() {
            bias[at(channel, cell)] = *v;
        }
    }
    weights[at(4, 0) * 3] = 1.0;
    weights[at(5, 1) * 3 + 2] = 1.0;
    ModelBuilder::new(17)
        .metadata("task", "detect")
        .metadata("names", "{0: 'red', 1: 'blue'}")
        .input("images", DType::F32, &[batch, 3usize.into(), 32usize.into(), 32usize.into()])
        .initializer("w", &Tensor::from_slice(&[6 * CELLS, 3, 1, 1], &weights).unwrap())
        .initializer("b", &Tensor::from_slice(&[6 * CELLS], &bias).unwrap())
        .initializer("shape", &Tensor::from_slice(&[3], &[0i64, 6, CELLS as i64]).unwrap())
        .node("GlobalAveragePool", &["images"], &["mean"], &[])
        .node("Conv", &["mean", "w", "b"], &["/head/conv:0"], &[("kernel_shape", Attr::Ints(vec![1, 1]))])
        .node("Reshape", &["/head/conv:0", "shape"], &["output0"], &[])
        .output("output0", DType::F32)
}

/// y = x + z and s = x * x, for vectors of any length.
pub(crate) fn two_inputs() -> ModelBuilder {
    ModelBuilder::new(17)
        .input("x", DType::F32, &["n".into()])
        .input("z", DType::F32, &["n".into()])
        .node("Add", &["x", "z"], &["y"], &[])
        .node("Mul", &["x", "x"], &["s"], &[])
        .output("y", DType::F32)
        .output("s", DType::F32)
}

/// Writes a model.
pub(crate) fn write(model: &ModelBuilder, path: &Path) -> PathBuf {
    std::fs::write(path, model.encode()).unwrap();
    path.to_owned()
}

/// Writes a picture of one colour.
pub(crate) fn flat(path: &Path, side: usize, rgb: [u8; 3]) -> PathBuf {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).unwrap();
    }
    Image::from_rgb(side, side, rgb.repeat(side * side)).unwrap().save(path).unwrap();
    path.to_owned()
}
