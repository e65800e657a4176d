//! Plans for devices that are not here: what their launches would read and write.

use super::poison::faults;
use super::{Lowering, Target};
use crate::catalogue::variants;
use crate::launch::DeviceKernel;
use crate::tune::Tuned;
use crate::weights::Cache;
use crate::{CudaBackend, Precision};
use saltica_core::plan::Schedule;
use saltica_core::{Compiler, Model, Operand, StepDesc};
use saltica_models::graph::attrs::Attr;
use saltica_models::graph::ops::Identity;
use saltica_models::graph::{Graph, Op};
use saltica_models::onnx::build::ModelBuilder;
use saltica_models::passes::Bindings;
use saltica_tensor::{DType, Layout, Shape, Tensor};

#[allow(dead_code, unreachable_pub, reason = "another crate's module: it has more readers there")]
#[path = "../../../../tests/src/chains.rs"]
mod chains;

fn lowering(target: Target, precision: Precision) -> Lowering {
    Lowering { target, precision, weights: Cache::default(), tuned: Tuned::default() }
}

fn schedule(graph: Graph, target: Target, precision: Precision) -> Schedule<DeviceKernel> {
    let model = Model::new(graph, &CudaBackend::planning(target, precision), true).unwrap();
    let settled = model.settle(&Bindings::new()).unwrap_or_else(|e| panic!("{e}: {:?}", model.graph()));
    Schedule::new(settled, &lowering(target, precision)).unwrap()
}

#[test]
fn chains_read_what_was_written_and_write_what_is_theirs() {
    let mut bad = Vec::new();
    for chain in chains::all().unwrap() {
        for (arch, precision) in [(87, Precision::F32), (87, Precision::F16), (72, Precision::F16)] {
            let schedule = schedule(chain.graph.clone(), Target::of(arch, 8), precision);
            for fault in faults(&schedule) {
                bad.push(format!("{} {precision:?} sm_{arch}: {fault}", chain.name));
            }
        }
    }
    assert!(bad.is_empty(), "{} faults:\n{}", bad.len(), bad.join("\n"));
}

/// A convolution of a square picture: channels in and out, side, kernel, batch. Weights are zeros.
fn one_conv([c, o, side, k, batch]: [usize; 5]) -> Graph {
    let weights = Tensor::zeros(DType::F32, Shape::new(&[o, c, k, k]).unwrap()).unwrap();
    ModelBuilder::new(17)
        .input("x", DType::F32, &[batch.into(), c.into(), side.into(), side.into()])
        .initializer("w", &weights)
        .initializer("w2", &Tensor::zeros(DType::F32, Shape::new(&[8, o, 1, 1]).unwrap()).unwrap())
        .node("Conv", &["x", "w"], &["a"], &[("pads", Attr::Ints(vec![k as i64 / 2; 4]))])
        .node("Conv", &["a", "w2"], &["y"], &[])
        .output("y", DType::F32)
        .graph()
        .unwrap()
}

/// Layers of YOLOv8n, and wider ones.
const LAYERS: [[usize; 4]; 9] = [
    [16, 32, 160, 3],
    [32, 32, 160, 1],
    [64, 64, 80, 3],
    [96, 64, 80, 1],
    [128, 128, 40, 3],
    [192, 128, 40, 1],
    [256, 256, 20, 3],
    [384, 256, 20, 1],
    [512, 512, 20, 1],
];

#[test]
fn tiles_fit_the_shared_memory_of_each_device() {
    let largest = variants().iter().map(|v| v.shared).max().unwrap();
    assert!(largest > Target::of(86, 30).shared, "every tile fits: this test says nothing");
    for arch in [72, 80, 86, 87, 89, 90, 110, 120] {
        let target = Target::of(arch, 30);
        for [c, o, side, k] in LAYERS {
            let schedule = schedule(one_conv([c, o, side, k, 1]), target, Precision::F16);
            for kernel in
                schedule.steps.iter().flat_map(|s| std::iter::once(&s.kernel).chain(&s.kernel.variants))
            {
                for launch in &kernel.launches {
                    assert!(
                        launch.shared <= target.shared,
                        "sm_{arch}: {} takes {}",
                        launch.kernel,
                        launch.shared
                    );
                }
            }
        }
    }
}

#[test]
fn xavier_has_kernels_of_its_own() {
    for precision in [Precision::F16, Precision::F32] {
        let schedule = schedule(one_conv([16, 32, 20, 3, 1]), Target::of(72, 6), precision);
        let launches: Vec<&str> = schedule
            .steps
            .iter()
            .flat_map(|s| &s.kernel.launches)
            .map(|l| l.kernel.as_str())
            .filter(|k| k.starts_with("conv"))
            .collect();
        let family = if precision == Precision::F16 { "conv72_f16" } else { "conv_f32" };
        assert!(launches.len() == 2 && launches.iter().all(|k| k.starts_with(family)), "{launches:?}");
    }
}

/// An identity over so many elements, as a step.
fn identity(shape: &[usize]) -> Result<DeviceKernel, saltica_core::Error> {
    let layout = Layout::contiguous(Shape::new(shape).unwrap());
    lowering(Target::of(87, 8), Precision::F16).compile(&StepDesc {
        name: "step",
        op: &Op::Identity(Identity),
        inputs: vec![Some(Operand { dtype: DType::I8, layout, offset: 0, owned: true, constant: None })],
        outputs: vec![(DType::I8, layout)],
        offsets: vec![0],
        owned: vec![true],
    })
}

#[test]
fn what_kernels_cannot_count_is_refused_and_nothing_is_no_launch() {
    assert_eq!(identity(&[1 << 15, (1 << 16) - 1]).unwrap().launches.len(), 1);
    let refused = identity(&[1 << 15, 1 << 16]).err().unwrap().to_string();
    assert!(refused.contains("2147483648 elements") && refused.contains("smaller batch"), "{refused}");
    assert!(identity(&[4, 0]).unwrap().launches.is_empty());
}

#[test]
fn the_last_product_is_stored_in_f32_and_not_cast() {
    let schedule = schedule(one_conv([16, 32, 20, 3, 1]), Target::of(87, 8), Precision::F16);
    let ops: Vec<(&str, DType)> = schedule.steps.iter().map(|s| (s.op.as_str(), s.output.dtype)).collect();
    let expected = [("Cast", DType::F16), ("Conv", DType::F16), ("Conv", DType::F32)];
    assert_eq!(ops, expected);
    assert_eq!(faults(&schedule), Vec::<String>::new());
}

#[test]
fn sums_go_in_one_order_whatever_the_batch_and_none_is_bad_for_many() {
    for [c, o, side, k] in LAYERS {
        let kernel = |batch: usize| {
            let schedule = schedule(one_conv([c, o, side, k, batch]), Target::of(90, 132), Precision::F16);
            schedule.steps.into_iter().find(|s| s.op == "Conv").unwrap().kernel
        };
        let of = |kernel: &DeviceKernel| super::tiles::order_of(&kernel.label).unwrap();
        let one = kernel(1);
        for batch in [2, 8, 32] {
            assert_eq!(of(&kernel(batch)), of(&one), "{c} to {o} at {side}, {k}x{k}, batch {batch}");
        }
        // By the model, no more than half as much again as the order that is best for many.
        println!("{c} to {o} at {side}, {k}x{k}: {} {}", one.label, one.handicap);
        assert!(one.handicap < 1.5, "{c} to {o} at {side}, {k}x{k}: {} {}", one.label, one.handicap);
    }
}

#[test]
fn pixels_are_repeated_sixteen_bytes_at_a_time() {
    for (mode, factor, label) in [
        ("nearest", 2.0f32, "repeat f16"),
        ("nearest", 3.0, "repeat f16"),
        ("nearest", 1.5, "resize f16"),
        ("linear", 2.0, "resize f16"),
    ] {
        let scales = Tensor::from_slice(&[4], &[1.0, 1.0, factor, factor]).unwrap();
        let weights =
            |o: usize, c: usize| Tensor::zeros(DType::F32, Shape::new(&[o, c, 1, 1]).unwrap()).unwrap();
        let attrs = [
            ("mode", Attr::String(mode.into())),
            ("coordinate_transformation_mode", Attr::String("asymmetric".into())),
            ("nearest_mode", Attr::String("floor".into())),
        ];
        let graph = ModelBuilder::new(17)
            .input("x", DType::F32, &[2.into(), 8.into(), 6.into(), 6.into()])
            .initializer("w", &weights(16, 8))
            .initializer("w2", &weights(8, 16))
            .initializer("scales", &scales)
            .node("Conv", &["x", "w"], &["a"], &[])
            .node("Resize", &["a", "", "scales"], &["b"], &attrs)
            .node("Conv", &["b", "w2"], &["y"], &[])
            .output("y", DType::F32)
            .graph()
            .unwrap();
        let schedule = schedule(graph, Target::of(87, 8), Precision::F16);
        let step = schedule.steps.iter().find(|s| s.op == "Resize").unwrap();
        assert_eq!(step.kernel.label, label, "{mode} {factor}");
        // Every byte of the output is written, and all that is read was.
        assert_eq!(faults(&schedule), Vec::<String>::new(), "{mode} {factor}");
        if label.starts_with("repeat") {
            assert_eq!(step.kernel.launches[0].kernel, "copy_b16");
        }
    }
}
