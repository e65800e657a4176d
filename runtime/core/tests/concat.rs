//! Concats in place: the planner's results equal the interpreter's, also where a part is only a crop of its source.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use saltica_core::{Reference, Session, SessionOptions};
use saltica_models::graph::attrs::Attr;
use saltica_models::onnx::build::ModelBuilder;
use saltica_tensor::{DType, Tensor};
use std::sync::Arc;

fn ramp(dims: &[usize], step: f32) -> Tensor {
    let n: usize = dims.iter().product();
    Tensor::from_slice(dims, &(0..n).map(|i| (i % 23) as f32 * step - 1.0).collect::<Vec<_>>()).unwrap()
}

/// x -> Conv 1x1 -> part of it (by `cut`) -> Concat with another Conv's result along channels.
fn check(cut: impl FnOnce(ModelBuilder) -> ModelBuilder, other_rows: i64) {
    let ints = |v: &[i64]| Tensor::from_slice(&[v.len()], v).unwrap();
    let builder = ModelBuilder::new(13)
        .input("x", DType::F32, &[1.into(), 3.into(), 4.into(), 4.into()])
        .initializer("w", &ramp(&[8, 3, 1, 1], 0.1))
        .initializer("starts", &ints(&[0]))
        .initializer("ends", &ints(&[other_rows]))
        .initializer("axis", &ints(&[2]))
        .node("Conv", &["x", "w"], &["a"], &[])
        .node("Slice", &["x", "starts", "ends", "axis"], &["xs"], &[])
        .node("Conv", &["xs", "w"], &["b"], &[]);
    let graph = cut(builder)
        .node("Concat", &["part", "b"], &["y"], &[("axis", Attr::Int(1))])
        .node("Relu", &["a"], &["z"], &[])
        .output("y", DType::F32)
        .output("z", DType::F32)
        .graph()
        .unwrap();
    let x = ramp(&[1, 3, 4, 4], 0.25);
    let want = graph.evaluate(std::slice::from_ref(&x)).unwrap();
    for channels_last in [false, true] {
        let backend = Arc::new(Reference { channels_last });
        let mut session = Session::from_graph(graph.clone(), backend, SessionOptions::default()).unwrap();
        let got = session.run(&[("x", &x)]).unwrap();
        for ((name, got), want) in got.iter().zip(&want) {
            assert_eq!(got, want, "{name}, channels last: {channels_last}");
        }
    }
}

#[test]
fn a_crop_of_rows_is_not_the_whole_of_its_source() {
    let slice = |b: ModelBuilder| b.node("Slice", &["a", "starts", "ends", "axis"], &["part"], &[]);
    check(slice, 2);
}

#[test]
fn the_whole_source_is_computed_in_the_concat() {
    check(|b| b.node("Identity", &["a"], &["part"], &[]), 4);
}

#[test]
fn a_split_along_height_is_no_split_along_channels() {
    let split = |b: ModelBuilder| b.node("Split", &["a"], &["part", "rest"], &[("axis", Attr::Int(2))]);
    check(split, 2);
}
