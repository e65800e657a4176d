//! Each pass on small graphs: the outputs before and after must agree, and the counts must be right.

use super::*;
use crate::graph::ops::window::{AutoPad, Window};
use crate::graph::ops::{
    BatchNorm, Binary, BinaryKind, Cast, Clip, Concat, ConstantOfShape, Conv, ConvTranspose, Gather,
    Identity, NonZero, Reshape, ShapeOf, Slice, Transpose, Unary, Unsqueeze,
};
use crate::graph::{Activation, Dim, Node, Op, Residual, Tolerance, Value, ValueId};
use saltica_tensor::{DType, Tensor};

/// Builds a graph node by node.
pub(in crate::passes) struct Build {
    pub(super) graph: Graph,
    count: usize,
}

impl Build {
    pub(super) fn new() -> Self {
        Build { graph: Graph { opset: 17, ..Graph::default() }, count: 0 }
    }

    pub(super) fn input(&mut self, name: &str, dims: &[&str]) -> ValueId {
        let dims =
            dims.iter().map(|d| d.parse().map_or_else(|_| Dim::Symbol(d.to_string()), Dim::Fixed)).collect();
        let value = Value { name: name.into(), dtype: Some(DType::F32), dims: Some(dims), constant: None };
        let id = self.graph.add(value).unwrap();
        self.graph.inputs.push(id);
        id
    }

    pub(super) fn constant<T: saltica_tensor::Element>(&mut self, dims: &[usize], data: &[T]) -> ValueId {
        self.count += 1;
        let tensor = Tensor::from_slice(dims, data).unwrap();
        self.graph.add_constant(format!("c{}", self.count), tensor).unwrap()
    }

    pub(super) fn op(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        self.ops(op, inputs, 1)[0]
    }

    pub(super) fn ops(&mut self, op: Op, inputs: &[ValueId], outputs: usize) -> Vec<ValueId> {
        let outputs: Vec<ValueId> = (0..outputs)
            .map(|_| {
                self.count += 1;
                let name = format!("v{}", self.count);
                self.graph.add(Value { name, ..Value::default() }).unwrap()
            })
            .collect();
        self.graph.nodes.push(Node {
            name: format!("n{}", self.count),
            op,
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: outputs.iter().copied().map(Some).collect(),
        });
        outputs
    }

    pub(super) fn output(mut self, ids: &[ValueId]) -> Graph {
        self.graph.outputs = ids.to_vec();
        self.graph
    }
}

/// Numbers in -1..1 without a pattern.
pub(super) fn noise(dims: &[usize], seed: u64) -> Tensor {
    let n: usize = dims.iter().product();
    let data: Vec<f32> = (0..n as u64)
        .map(|i| {
            let mut z = (seed + 1)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .wrapping_add(i.wrapping_mul(0xD129_0DDF_5A3B_16E5));
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((z ^ (z >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect();
    Tensor::from_slice(dims, &data).unwrap()
}

pub(super) const CLOSE: Tolerance = Tolerance::Close { absolute: 1e-5, relative: 1e-5 };

/// Runs all passes and compares the outputs before and after.
pub(super) fn checked(graph: &Graph, inputs: &[Tensor], tolerance: Tolerance) -> (Settled, Report) {
    let want = graph.evaluate(inputs).unwrap();
    let mut report = Report::default();
    let mut optimized = graph.clone();
    optimize(&mut optimized, &mut report).unwrap();
    let mut bindings = Bindings::new();
    for (&id, t) in graph.inputs.iter().zip(inputs) {
        bindings = bindings.input(graph.value(id).name.clone(), t.shape());
    }
    let settled = settle(&optimized, &bindings, &mut report).unwrap();
    for (g, stage) in [(&optimized, "optimize"), (&settled.graph, "settle")] {
        let got = g.evaluate(inputs).unwrap();
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(&want) {
            crate::graph::ops::compare(&got.view(), want, tolerance)
                .unwrap_or_else(|e| panic!("after {stage}: {e}"));
        }
        let names = |g: &Graph| g.outputs.iter().map(|id| g.value(*id).name.clone()).collect::<Vec<_>>();
        assert_eq!(names(g), names(graph), "outputs keep their names");
    }
    (settled, report)
}

pub(super) fn window(kernel: usize, stride: usize) -> Window {
    Window {
        kernel: [kernel; 2],
        stride: [stride; 2],
        dilation: [1; 2],
        pads: [kernel / 2; 4],
        auto_pad: AutoPad::Explicit,
        ceil_mode: false,
    }
}

pub(super) fn conv(kernel: usize, stride: usize, group: usize) -> Op {
    Op::Conv(Conv {
        window: window(kernel, stride),
        group,
        activation: Activation::None,
        residual: Residual::None,
    })
}

pub(super) fn binary(kind: BinaryKind) -> Op {
    Op::Binary(Binary { kind })
}

fn ops(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|n| n.op.name()).collect()
}

fn weights(b: &mut Build, o: usize, c: usize, k: usize) -> [ValueId; 2] {
    let w = noise(&[o, c, k, k], 7 + o as u64);
    let bias = noise(&[o], 9 + o as u64);
    [
        b.constant(&[o, c, k, k], w.as_slice::<f32>().unwrap()),
        b.constant(&[o], bias.as_slice::<f32>().unwrap()),
    ]
}

/// conv -> x * sigmoid(x).
fn silu_conv(b: &mut Build, x: ValueId, o: usize, c: usize, k: usize) -> ValueId {
    let [w, bias] = weights(b, o, c, k);
    let y = b.op(conv(k, 1, 1), &[x, w, bias]);
    let s = b.op(Op::Unary(Unary::Sigmoid), &[y]);
    b.op(binary(BinaryKind::Mul), &[s, y])
}

#[test]
fn silu_and_the_residual_after_it_fuse() {
    let mut b = Build::new();
    let x = b.input("x", &["1", "3", "5", "4"]);
    let a = silu_conv(&mut b, x, 4, 3, 3);
    let y = silu_conv(&mut b, a, 4, 4, 1);
    let sum = b.op(binary(BinaryKind::Add), &[a, y]);
    let (settled, report) = checked(&b.output(&[sum]), &[noise(&[1, 3, 5, 4], 1)], CLOSE);
    assert_eq!(ops(&settled.graph), ["Conv", "Conv"]);
    assert_eq!(report.to_string(), "silu fused: 2, convolution + activation: 2, residual: 1");
    let Op::Conv(last) = &settled.graph.nodes[1].op else { panic!() };
    assert_eq!((last.activation, last.residual), (Activation::Silu, Residual::AfterActivation));
}

#[test]
fn the_activation_of_a_sum_fuses_with_the_later_convolution() {
    let mut b = Build::new();
    let x = b.input("x", &["n", "2", "3", "3"]);
    let [w, bias] = weights(&mut b, 2, 2, 3);
    let first = b.op(conv(3, 1, 1), &[x, w, bias]);
    let [w, bias] = weights(&mut b, 2, 2, 1);
    let second = b.op(conv(1, 1, 1), &[x, w, bias]);
    let sum = b.op(binary(BinaryKind::Add), &[first, second]);
    let y = b.op(Op::Unary(Unary::LeakyRelu(0.1)), &[sum]);
    let (settled, report) = checked(&b.output(&[y]), &[noise(&[2, 2, 3, 3], 1)], CLOSE);
    assert_eq!(ops(&settled.graph), ["Conv", "Conv"]);
    assert_eq!((report.count("residual"), report.count("convolution + activation")), (1, 1));
    let Op::Conv(last) = &settled.graph.nodes[1].op else { panic!() };
    assert_eq!((last.activation, last.residual), (Activation::LeakyRelu(0.1), Residual::BeforeActivation));
    assert_eq!(last.window.kernel, [1, 1]);
}

#[test]
fn a_convolution_with_two_readers_or_an_output_stays() {
    let mut b = Build::new();
    let x = b.input("x", &["1", "2", "3", "3"]);
    let [w, bias] = weights(&mut b, 2, 2, 3);
    let y = b.op(conv(3, 1, 1), &[x, w, bias]);
    let r = b.op(Op::Unary(Unary::Relu), &[y]);
    let sum = b.op(binary(BinaryKind::Add), &[r, y]);
    let z = b.op(conv(3, 1, 1), &[x, w, bias]);
    let t = b.op(Op::Unary(Unary::Tanh), &[z]);
    let (settled, report) = checked(&b.output(&[sum, z, t]), &[noise(&[1, 2, 3, 3], 1)], CLOSE);
    assert_eq!(ops(&settled.graph), ["Conv", "Relu", "Add", "Tanh"]);
    assert_eq!(report.to_string(), "common subexpressions: 1");
}

#[test]
fn a_residual_that_broadcasts_stays() {
    let mut b = Build::new();
    let x = b.input("x", &["1", "2", "3", "3"]);
    let r = b.input("r", &["1", "2", "h", "1"]);
    let [w, bias] = weights(&mut b, 2, 2, 3);
    let y = b.op(conv(3, 1, 1), &[x, w, bias]);
    let sum = b.op(binary(BinaryKind::Add), &[y, r]);
    let graph = b.output(&[sum]);
    let (_, report) = checked(&graph, &[noise(&[1, 2, 3, 3], 1), noise(&[1, 2, 1, 1], 2)], CLOSE);
    assert_eq!(report.count("residual"), 0);
}

#[test]
fn channel_scales_fold_into_the_weights() {
    let mut b = Build::new();
    let x = b.input("x", &["1", "4", "3", "3"]);
    let w = noise(&[4, 2, 3, 3], 3);
    let w = b.constant(&[4, 2, 3, 3], w.as_slice::<f32>().unwrap());
    let y = b.op(conv(3, 1, 2), &[x, w]);
    let scale = b.constant(&[1, 4, 1, 1], &[2f32, -0.5, 3.0, 0.25]);
    let offset = b.constant(&[4, 1, 1], &[1f32, 2.0, 3.0, 4.0]);
    let two = b.constant(&[], &[2f32]);
    let y = b.op(binary(BinaryKind::Mul), &[scale, y]);
    let y = b.op(binary(BinaryKind::Add), &[y, offset]);
    let y = b.op(binary(BinaryKind::Div), &[y, two]);
    let y = b.op(binary(BinaryKind::Sub), &[two, y]);
    let lo = b.constant(&[], &[-1f32]);
    let y = b.op(Op::Clip(Clip { lo: None, hi: None }), &[y, lo]);
    let (settled, report) = checked(&b.output(&[y]), &[noise(&[1, 4, 3, 3], 1)], CLOSE);
    assert_eq!(ops(&settled.graph), ["Conv"]);
    assert_eq!(report.to_string(), "channel scales folded: 4, convolution + activation: 1");
    let Op::Conv(op) = &settled.graph.nodes[0].op else { panic!() };
    assert_eq!(op.activation, Activation::Clip(-1.0, f32::INFINITY));
}

#[test]
fn hardswish_mish_and_gelu_are_recognised() {
    let mut b = Build::new();
    let x = b.input("x", &["8"]);
    let c = |b: &mut Build, v: f32| b.constant(&[], &[v]);
    let mut outputs = Vec::new();
    // x * hardsigmoid(x); x * (clip(x + 3, 0, 6) / 6); (x * clip(x + 3, 0, 6)) / 6
    let h = b.op(Op::Unary(Unary::HardSigmoid(1.0 / 6.0, 0.5)), &[x]);
    outputs.push(b.op(binary(BinaryKind::Mul), &[h, x]));
    for inner in [true, false] {
        let (three, zero, six) = (c(&mut b, 3.0), c(&mut b, 0.0), c(&mut b, 6.0));
        let s = b.op(binary(BinaryKind::Add), &[x, three]);
        let k = b.op(Op::Clip(Clip { lo: None, hi: None }), &[s, zero, six]);
        let (k, outer) = if inner { (b.op(binary(BinaryKind::Div), &[k, six]), false) } else { (k, true) };
        let y = b.op(binary(BinaryKind::Mul), &[x, k]);
        outputs.push(if outer { b.op(binary(BinaryKind::Div), &[y, six]) } else { y });
    }
    let s = b.op(Op::Unary(Unary::Softplus), &[x]);
    let t = b.op(Op::Unary(Unary::Tanh), &[s]);
    outputs.push(b.op(binary(BinaryKind::Mul), &[x, t]));
    // (x * (erf(x / sqrt 2) + 1)) / 2, and (x / 2) * (1 + erf(x * 0.7071068))
    let (root, one, half) = (c(&mut b, std::f32::consts::SQRT_2), c(&mut b, 1.0), c(&mut b, 0.5));
    let e = b.op(binary(BinaryKind::Div), &[x, root]);
    let e = b.op(Op::Unary(Unary::Erf), &[e]);
    let e = b.op(binary(BinaryKind::Add), &[e, one]);
    let y = b.op(binary(BinaryKind::Mul), &[x, e]);
    outputs.push(b.op(binary(BinaryKind::Mul), &[y, half]));
    let inverse = c(&mut b, std::f32::consts::FRAC_1_SQRT_2);
    let e = b.op(binary(BinaryKind::Mul), &[x, inverse]);
    let e = b.op(Op::Unary(Unary::Erf), &[e]);
    let e = b.op(binary(BinaryKind::Add), &[one, e]);
    let y = b.op(binary(BinaryKind::Mul), &[x, half]);
    outputs.push(b.op(binary(BinaryKind::Mul), &[y, e]));
    // Not HardSwish: another slope.
    let h = b.op(Op::Unary(Unary::HardSigmoid(0.2, 0.5)), &[x]);
    outputs.push(b.op(binary(BinaryKind::Mul), &[h, x]));
    let input = Tensor::from_slice(&[8], &[-7f32, -3.0, -1.5, -0.1, 0.0, 0.7, 2.9, 8.0]).unwrap();
    let (settled, report) = checked(&b.output(&outputs), &[input], CLOSE);
    let counts = ["silu fused", "hardswish fused", "mish fused", "gelu fused"].map(|n| report.count(n));
    assert_eq!(counts, [0, 3, 1, 2]);
    assert_eq!(
        ops(&settled.graph).into_iter().filter(|n| !matches!(*n, "HardSwish" | "Mish" | "Gelu")).count(),
        2,
        "equal nodes are left for the two that were not merged: {:?}",
        ops(&settled.graph)
    );
}

#[test]
fn shapes_that_depend_on_symbols_become_constants() {
    let mut b = Build::new();
    let x = b.input("x", &["n", "3", "h"]);
    let r = b.constant(&[2], &[0i64, -1]);
    let flat = b.op(Op::Reshape(Reshape { allow_zero: false }), &[x, r]);
    let t = b.op(Op::Transpose(Transpose { perm: None }), &[flat]);
    let t = b.op(Op::Transpose(Transpose { perm: None }), &[t]);
    let (zero, all) = (b.constant(&[1], &[0i64]), b.constant(&[1], &[i64::MAX]));
    let s = b.op(Op::Slice(Slice { ranges: None }), &[t, zero, all]);
    let y = b.op(Op::Concat(Concat { axis: 0 }), &[s]);
    let y = b.op(Op::Unary(Unary::Relu), &[y]);
    let (settled, report) = checked(&b.output(&[y]), &[noise(&[2, 3, 4], 1)], Tolerance::Exact);
    assert_eq!(ops(&settled.graph), ["Reshape", "Relu"]);
    assert_eq!(report.to_string(), "transposes and reshapes merged: 1, nodes without effect: 2");
    let out = settled.facts[settled.graph.outputs[0].index()].unwrap();
    assert_eq!(out.shape.dims(), [2, 12]);
}

#[test]
fn bindings_that_do_not_fit_are_refused() {
    let mut b = Build::new();
    let x = b.input("images", &["batch", "3", "height", "4"]);
    let y = b.input("other", &["batch", "2"]);
    let graph = b.output(&[x, y]);
    let refused = |b: Bindings| b.shapes(&graph).unwrap_err().to_string();
    let batch = || Bindings::new().symbol("batch", 2);
    for (bindings, expected) in [
        (
            Bindings::new(),
            "dimension 'batch' of input 'images' ([batch, 3, height, 4]) is open: bind 'batch'",
        ),
        (
            batch().symbol("hieght", 1),
            "there is no dimension 'hieght'; the model's open dimensions: batch, height",
        ),
        (batch().input("image", &[1]), "there is no input 'image'; the model's inputs: images, other"),
        (batch().input("images", &[2, 1, 8, 4]), "the file fixes it to [batch, 3, height, 4]"),
        (batch().input("images", &[2, 3, 8]), "rank 4 expected"),
        (
            batch().input("images", &[1, 3, 8, 4]),
            "dimension 'batch' is 2 by its binding and 1 by input 'images'",
        ),
    ] {
        let e = refused(bindings);
        assert!(e.contains(expected), "{e}");
    }
    let shapes = batch().symbol("height", 8).shapes(&graph).unwrap();
    assert_eq!(format!("{shapes:?}"), "[[2, 3, 8, 4], [2, 2]]");
    let shapes = Bindings::new().input("images", &[5, 3, 8, 4]).shapes(&graph).unwrap();
    assert_eq!(format!("{shapes:?}"), "[[5, 3, 8, 4], [5, 2]]");
}

#[test]
fn errors_name_the_node_and_the_shapes() {
    let mut b = Build::new();
    let x = b.input("x", &["1", "3", "4", "4"]);
    let [w, bias] = weights(&mut b, 2, 2, 3);
    let y = b.op(conv(3, 1, 1), &[x, w, bias]);
    let e = settle(&b.output(&[y]), &Bindings::new(), &mut Report::default()).unwrap_err().to_string();
    assert!(e.starts_with("Conv node 'n3': 3 input channels"), "{e}");
    assert!(e.ends_with("(inputs: f32 1x3x4x4, f32 2x2x3x3, f32 2)"), "{e}");
}

#[test]
fn batch_normalization_folds_into_convolutions_of_both_kinds() {
    let mut b = Build::new();
    let x = b.input("x", &["1", "4", "3", "3"]);
    let stats = |b: &mut Build, n: usize| {
        let of = |lo: f32| (0..n).map(|i| lo + 0.25 * i as f32).collect::<Vec<f32>>();
        [0.5, -1.0, 0.125, 0.75].map(|lo| b.constant(&[n], &of(lo)))
    };
    let [w, _] = weights(&mut b, 4, 4, 3);
    let y = b.op(conv(3, 1, 1), &[x, w]);
    let [scale, bias, mean, var] = stats(&mut b, 4);
    let norm = Op::BatchNorm(BatchNorm { epsilon: 1e-3 });
    let y = b.op(norm.clone(), &[y, scale, bias, mean, var]);
    let y = b.op(Op::Unary(Unary::Relu), &[y]);
    // Two groups of two input channels, three output channels each.
    let w = noise(&[4, 3, 2, 2], 5);
    let w = b.constant(&[4, 3, 2, 2], w.as_slice::<f32>().unwrap());
    let transposed = Op::ConvTranspose(ConvTranspose {
        window: Window { pads: [0; 4], ..window(2, 2) },
        group: 2,
        output_padding: [0; 2],
        output_shape: None,
    });
    let y = b.op(transposed, &[y, w]);
    let [scale, bias, mean, var] = stats(&mut b, 6);
    let y = b.op(norm, &[y, scale, bias, mean, var]);
    let (settled, report) = checked(&b.output(&[y]), &[noise(&[1, 4, 3, 3], 1)], CLOSE);
    assert_eq!(ops(&settled.graph), ["Conv", "ConvTranspose"]);
    assert_eq!(report.to_string(), "batchnorm folded: 2, convolution + activation: 1");
}

#[test]
fn arithmetic_on_shapes_folds_and_a_shape_that_needs_values_stays_open() {
    let mut b = Build::new();
    let x = b.input("x", &["n", "3", "h"]);
    let s = b.op(Op::Shape(ShapeOf { start: 0, end: None }), &[x]);
    let two = b.constant(&[], &[2i64]);
    let h = b.op(Op::Gather(Gather { axis: 0 }), &[s, two]);
    let zero = b.constant(&[1], &[0i64]);
    let h = b.op(Op::Unsqueeze(Unsqueeze { axes: None }), &[h, zero]);
    let value = Tensor::scalar(1.5f32).unwrap();
    let filled = b.op(Op::ConstantOfShape(ConstantOfShape { value }), &[h]);
    let y = b.op(binary(BinaryKind::Add), &[x, filled]);
    let found = b.op(Op::NonZero(NonZero), &[x]);
    let floats = b.op(Op::Cast(Cast { to: DType::F32 }), &[found]);
    let graph = b.output(&[y, floats]);
    let (settled, report) = checked(&graph, &[noise(&[2, 3, 4], 1)], Tolerance::Exact);
    assert_eq!(ops(&settled.graph), ["Add", "NonZero", "Cast"]);
    assert_eq!(report.to_string(), "constants folded: 4");
    let fact = |k: usize| settled.facts[settled.graph.outputs[k].index()];
    assert_eq!(fact(0).unwrap().shape.dims(), [2, 3, 4]);
    assert_eq!(fact(1), None);
    let sum = &settled.graph.nodes[0];
    let constant = sum.inputs[1].unwrap();
    assert_eq!(settled.facts[constant.index()].unwrap().shape.dims(), [4]);
}

#[test]
fn what_is_too_large_is_not_folded() {
    let mut b = Build::new();
    let shape = b.constant(&[2], &[4096i64, 4096]);
    let value = Tensor::scalar(0f32).unwrap();
    let filled = b.op(Op::ConstantOfShape(ConstantOfShape { value }), &[shape]);
    let mut graph = b.output(&[filled]);
    let mut report = Report::default();
    optimize(&mut graph, &mut report).unwrap();
    let settled = settle(&graph, &Bindings::new(), &mut report).unwrap();
    assert_eq!((ops(&settled.graph), report.count("constants folded")), (vec!["ConstantOfShape"], 0));
    assert_eq!(settled.facts[filled.index()].unwrap().shape.dims(), [4096, 4096]);
}

#[test]
fn an_output_that_is_an_input_or_a_constant_keeps_its_node_and_name() {
    let mut b = Build::new();
    let x = b.input("x", &["2"]);
    let same = b.op(Op::Identity(Identity), &[x]);
    let y = b.op(Op::Unary(Unary::Relu), &[x]);
    let z = b.op(Op::Identity(Identity), &[y]);
    let (settled, report) = checked(&b.output(&[same, z]), &[noise(&[2], 1)], Tolerance::Exact);
    assert_eq!(ops(&settled.graph), ["Identity", "Relu"]);
    assert_eq!(report.to_string(), "identities removed: 1");
}

#[test]
fn f16_graphs_run_in_f32_with_casts_at_the_borders() {
    let mut b = Build::new();
    let x = b.input("x", &["1", "2", "3", "3"]);
    b.graph.values[x.index()].dtype = Some(DType::F16);
    let w = noise(&[2, 2, 1, 1], 3).cast(DType::F16).unwrap();
    let w = b.graph.add_constant("w", w).unwrap();
    let y = b.op(conv(1, 1, 1), &[x, w]);
    let y = b.op(Op::Cast(Cast { to: DType::F16 }), &[y]);
    let y = b.op(Op::Unary(Unary::Relu), &[y]);
    b.graph.values[y.index()].dtype = Some(DType::F16);
    let graph = b.output(&[y]);
    let mut wide = graph.clone();
    let mut report = Report::default();
    widen(&mut wide, &mut report).unwrap();
    optimize(&mut wide, &mut report).unwrap();
    let settled = settle(&wide, &Bindings::new(), &mut report).unwrap();
    assert_eq!(ops(&settled.graph), ["Cast", "Conv", "Relu", "Cast"]);
    let fact = |k: usize| settled.facts[settled.graph.nodes[k].outputs[0].unwrap().index()].unwrap().dtype;
    assert_eq!((fact(1), fact(3)), (DType::F32, DType::F16));
    assert_eq!(settled.graph.value(settled.graph.outputs[0]).name, graph.value(graph.outputs[0]).name);
    let input = noise(&[1, 2, 3, 3], 1).cast(DType::F16).unwrap();
    let (got, want) =
        (settled.graph.evaluate(std::slice::from_ref(&input)).unwrap(), graph.evaluate(&[input]).unwrap());
    // One f16 rounding more or less: 2^-11 of a number below 2.
    let tolerance = Tolerance::Close { absolute: 1e-3, relative: 0.0 };
    crate::graph::ops::compare(&got[0].view(), &want[0], tolerance).unwrap();
    assert_eq!(
        report.to_string(),
        "f16 constants widened to f32: 1, casts to f16 left out: 1, casts at f16 inputs and outputs: 2, \
         nodes without effect: 1"
    );
}

#[test]
fn large_graphs_take_time_in_proportion() {
    // Every node reads one constant, and one input: both have as many readers as there are nodes.
    let n = 30_000;
    let mut b = Build::new();
    let x = b.input("x", &["1"]);
    let c = b.constant(&[1], &[1f32]);
    let mut folded = c;
    for _ in 0..n {
        folded = b.op(binary(BinaryKind::Add), &[c, folded]);
        b.op(binary(BinaryKind::Mul), &[x, x]);
        b.op(Op::Identity(Identity), &[x]);
    }
    let kept: Vec<ValueId> = b.graph.nodes.iter().filter_map(|n| n.outputs[0]).collect();
    let joined = b.op(Op::Concat(Concat { axis: 0 }), &kept);
    let mut graph = b.output(&[joined]);
    let started = std::time::Instant::now();
    let mut report = Report::default();
    optimize(&mut graph, &mut report).unwrap();
    settle(&graph, &Bindings::new(), &mut report).unwrap();
    let took = started.elapsed();
    assert_eq!((report.count("constants folded"), report.count("identities removed")), (n, n));
    assert!(took.as_secs() < 30, "{took:?}: the passes are not linear in the nodes");
}

/// Dtype of each value by what its maker says, from the inputs on.
fn settled_dtypes(graph: &Graph, dims: &[usize]) -> Vec<(String, DType)> {
    let name = &graph.value(graph.inputs[0]).name;
    let settled = settle(graph, &Bindings::new().input(name, dims), &mut Report::default()).unwrap();
    let of = |n: &Node| {
        let id = n.outputs[0].unwrap();
        (n.op.name().to_string(), settled.facts[id.index()].unwrap().dtype)
    };
    settled.graph.nodes.iter().map(of).collect()
}

#[test]
fn f16_reaches_up_to_the_last_convolution_and_no_further() {
    let mut b = Build::new();
    let x = b.input("x", &["1", "3", "4", "4"]);
    let weights =
        |b: &mut Build, dims: &[usize], seed| b.constant(dims, noise(dims, seed).as_slice::<f32>().unwrap());
    let (w1, w2) = (weights(&mut b, &[8, 3, 3, 3], 1), weights(&mut b, &[4, 8, 1, 1], 2));
    let first = b.op(conv(3, 1, 1), &[x, w1]);
    let act = b.op(Op::Unary(Unary::Sigmoid), &[first]);
    let product = b.op(binary(BinaryKind::Mul), &[first, act]);
    let second = b.op(conv(1, 1, 1), &[product, w2]);
    // Decoding: f32. So is a weighted sum that reads it.
    let tail = b.op(Op::Unary(Unary::Sigmoid), &[second]);
    let w3 = b.constant(&[1, 4, 1, 1], &[0.0f32, 1.0, 2.0, 3.0]);
    let sum = b.op(conv(1, 1, 1), &[tail, w3]);
    let graph = b.output(&[sum, tail]);
    let mut half = graph.clone();
    let mut report = Report::default();
    narrow(&mut half, &mut report).unwrap();
    let dtypes = settled_dtypes(&half, &[1, 3, 4, 4]);
    let expected = [
        ("Cast", DType::F16),
        ("Conv", DType::F16),
        ("Sigmoid", DType::F16),
        ("Mul", DType::F16),
        ("Conv", DType::F16),
        ("Cast", DType::F32),
        ("Sigmoid", DType::F32),
        ("Conv", DType::F32),
    ];
    assert_eq!(dtypes, expected.map(|(n, d)| (n.to_string(), d)));
    let picture = noise(&[1, 3, 4, 4], 5);
    let run = |g: &Graph| g.evaluate(std::slice::from_ref(&picture)).unwrap();
    for (want, got) in run(&graph).iter().zip(&run(&half)) {
        assert_eq!(got.dtype(), DType::F32);
        // 27 and 8 products of numbers below 1, each rounded to 11 bits: a few thousandths.
        let (want, got) = (want.as_slice::<f32>().unwrap(), got.as_slice::<f32>().unwrap());
        let worst = want.iter().zip(got).map(|(w, g)| (w - g).abs()).fold(0.0, f32::max);
        assert!(worst < 1e-2, "{worst}");
        assert!(worst > 0.0, "f16 changed nothing");
    }
}

#[test]
fn an_input_may_be_read_in_both_widths() {
    let mut b = Build::new();
    let x = b.input("x", &["1", "2", "2", "2"]);
    let w = b.constant(&[2, 2, 1, 1], &[1.0f32, 0.5, -1.0, 2.0]);
    // To one channel from f32: stays f32, and comes after the one that is narrowed.
    let w1 = b.constant(&[1, 2, 1, 1], &[0.5f32, 0.25]);
    let (many, one) = (b.op(conv(1, 1, 1), &[x, w]), b.op(conv(1, 1, 1), &[x, w1]));
    let mut graph = b.output(&[many, one]);
    narrow(&mut graph, &mut Report::default()).unwrap();
    let dtypes = settled_dtypes(&graph, &[1, 2, 2, 2]);
    let expected = [("Cast", DType::F16), ("Conv", DType::F16), ("Conv", DType::F32), ("Cast", DType::F32)];
    assert_eq!(dtypes, expected.map(|(n, d)| (n.to_string(), d)));
}

#[test]
fn numbers_that_f16_cannot_hold_keep_their_reader_in_f32() {
    let mut b = Build::new();
    let x = b.input("x", &["1", "2", "2", "2"]);
    let w = b.constant(&[1, 2, 1, 1], &[1.0f32, 70_000.0]);
    let w2 = b.constant(&[2, 1, 1, 1], &[1e-6f32, 2e-6]);
    let first = b.op(conv(1, 1, 1), &[x, w]);
    let second = b.op(conv(1, 1, 1), &[first, w2]);
    let mut graph = b.output(&[second]);
    narrow(&mut graph, &mut Report::default()).unwrap();
    let dtypes: Vec<DType> = settled_dtypes(&graph, &[1, 2, 2, 2]).into_iter().map(|(_, d)| d).collect();
    assert_eq!(dtypes, [DType::F32, DType::F16, DType::F16, DType::F32]);
}
