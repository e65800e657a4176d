//! Quantized graphs before and after the import: with powers of two as scales all arithmetic is exact, so the outputs must
//! be equal.

use crate::graph::ops::{
    BinaryKind, Concat, DequantizeLinear, Pool, PoolKind, QuantConv, QuantOutput, QuantizeLinear, Reshape,
    Slice, Split, Transpose, Unary,
};
use crate::graph::{Activation, Graph, Op, Tolerance, ValueId};
use crate::passes::tests::{Build, binary, checked, conv, noise, window};
use proptest::prelude::*;
use saltica_tensor::{DType, Tensor};

/// Scale and zero point.
#[derive(Clone, Copy)]
struct Step {
    scale: f32,
    zero: i32,
    dtype: DType,
}

const fn step(log2: i32, zero: i32, dtype: DType) -> Step {
    Step { scale: f32::from_bits(((127 + log2) as u32) << 23), zero, dtype }
}

impl Build {
    fn step_of(&mut self, s: Step) -> [ValueId; 2] {
        let zero = match s.dtype {
            DType::I8 => self.constant(&[], &[s.zero as i8]),
            _ => self.constant(&[], &[s.zero as u8]),
        };
        [self.constant(&[], &[s.scale]), zero]
    }

    fn quantize(&mut self, x: ValueId, s: Step) -> ValueId {
        let [scale, zero] = self.step_of(s);
        self.op(Op::QuantizeLinear(QuantizeLinear { axis: 1, dtype: DType::U8 }), &[x, scale, zero])
    }

    fn dequantize(&mut self, q: ValueId, s: Step) -> ValueId {
        let [scale, zero] = self.step_of(s);
        self.op(Op::DequantizeLinear(DequantizeLinear { axis: 1 }), &[q, scale, zero])
    }

    fn through(&mut self, x: ValueId, s: Step) -> ValueId {
        let q = self.quantize(x, s);
        self.dequantize(q, s)
    }

    /// A convolution with int8 weights that have one scale an output channel, and the bias at the scale of the products, at
    /// another scale, in floats, or none.
    fn quantized_conv(&mut self, x: ValueId, s: Step, c: usize, o: usize, k: usize, bias: usize) -> ValueId {
        let per_channel = |this: &mut Self, source: ValueId, scales: &[f32]| {
            let scales = this.constant(&[o], scales);
            this.op(Op::DequantizeLinear(DequantizeLinear { axis: 0 }), &[source, scales])
        };
        let bytes: Vec<i8> = (0..o * c * k * k).map(|i| ((i * 89 + 31) % 255) as u8 as i8).collect();
        let scales: Vec<f32> = (0..o).map(|i| f32::exp2(-7.0 - (i % 3) as f32)).collect();
        let w = self.constant(&[o, c, k, k], &bytes);
        let w = per_channel(self, w, &scales);
        let mut inputs = vec![x, w];
        let numbers: Vec<i32> = (0..o as i32).map(|i| i * 57 - 60).collect();
        let factor = if bias == 1 { 2.0 } else { 1.0 };
        match bias {
            0 | 1 => {
                let stored = self.constant(&[o], &numbers);
                let scales: Vec<f32> = scales.iter().map(|w| w * s.scale * factor).collect();
                inputs.push(per_channel(self, stored, &scales));
            }
            2 => {
                let floats: Vec<f32> = numbers.iter().map(|&n| n as f32 / 64.0).collect();
                inputs.push(self.constant(&[o], &floats));
            }
            _ => {}
        }
        self.op(conv(k, 1, 1), &inputs)
    }

    fn quantized_silu(&mut self, x: ValueId, inner: Step, outer: Step) -> ValueId {
        let s = self.op(Op::Unary(Unary::Sigmoid), &[x]);
        let s = self.through(s, inner);
        let y = self.op(binary(BinaryKind::Mul), &[x, s]);
        self.through(y, outer)
    }
}

fn names(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|n| n.op.name()).collect()
}

fn max_pool() -> Op {
    Op::Pool(Pool { kind: PoolKind::Max, window: window(3, 1) })
}

#[test]
fn a_quantized_block_runs_in_integers() {
    let (x_step, y_step) = (step(-7, 3, DType::I8), step(-4, -5, DType::I8));
    let (gate, z_step) = (step(-8, -128, DType::I8), step(-5, 7, DType::I8));
    let mut b = Build::new();
    let x = b.input("x", &["1", "3", "5", "4"]);
    let x = b.through(x, x_step);
    let y = b.quantized_conv(x, x_step, 3, 4, 3, 0);
    let y = b.through(y, y_step);
    let z = b.quantized_silu(y, gate, z_step);
    let p = b.op(max_pool(), &[z]);
    let p = b.through(p, z_step);
    let c = b.op(Op::Concat(Concat { axis: 1 }), &[z, p]);
    let c = b.through(c, step(-4, 0, DType::U8));
    let (settled, report) = checked(&b.output(&[c]), &[noise(&[1, 3, 5, 4], 1)], Tolerance::Exact);
    // The Concat joins two values of one scale before a table gives both another one.
    assert_eq!(
        names(&settled.graph),
        ["QuantizeLinear", "QuantConv", "MaxPool", "Concat", "Lookup", "DequantizeLinear"]
    );
    assert_eq!(report.count("quantized convolutions"), 1);
    assert_eq!(report.count("tables in convolutions"), 1);
    assert_eq!(report.count("tables"), 1);
    let Op::QuantConv(conv) = &settled.graph.nodes[1].op else { panic!() };
    assert!(matches!(
        conv.output(),
        QuantOutput::Quantized { table: Some(_), activation: Activation::None, .. }
    ));
    let weights = settled.graph.constant(settled.graph.nodes[1].inputs[1]).unwrap();
    assert_eq!(weights.dtype(), DType::I8, "weights are never widened");
    assert!(settled.graph.nodes[1].inputs[2].is_some() && conv.float_bias().is_empty());
}

#[test]
fn an_activation_in_floats_and_a_float_output_are_kept_in_the_convolution() {
    let s = step(-6, 10, DType::U8);
    for (bias, float_bias) in [(1, 4), (2, 4), (3, 0)] {
        let mut b = Build::new();
        let x = b.input("x", &["1", "2", "4", "4"]);
        let x = b.through(x, s);
        let y = b.quantized_conv(x, s, 2, 4, 1, bias);
        let gate = b.op(Op::Unary(Unary::Sigmoid), &[y]);
        let y = b.op(binary(BinaryKind::Mul), &[y, gate]);
        let y = b.through(y, s);
        let z = b.quantized_conv(y, s, 4, 4, 3, bias);
        let z = b.op(Op::Unary(Unary::Relu), &[z]);
        let (settled, _) = checked(&b.output(&[z]), &[noise(&[1, 2, 4, 4], 1)], Tolerance::Exact);
        assert_eq!(names(&settled.graph), ["QuantizeLinear", "QuantConv", "QuantConv"]);
        let convs: Vec<&QuantConv> = settled
            .graph
            .nodes
            .iter()
            .filter_map(|n| if let Op::QuantConv(c) = &n.op { Some(c) } else { None })
            .collect();
        assert_eq!(convs[0].float_bias().len(), float_bias, "bias of kind {bias}");
        assert!(matches!(
            convs[0].output(),
            QuantOutput::Quantized { activation: Activation::Silu, table: None, .. }
        ));
        assert_eq!(*convs[1].output(), QuantOutput::Float { activation: Activation::Relu });
    }
}

#[test]
fn splits_and_residuals_keep_what_must_stay_in_floats() {
    let (s, t) = (step(-6, 10, DType::I8), step(-5, 0, DType::I8));
    let mut b = Build::new();
    let x = b.input("x", &["1", "4", "4", "4"]);
    let x = b.through(x, s);
    let parts = b.ops(Op::Split(Split { axis: 1, sizes: None, parts: 2, uneven: false }), &[x], 2);
    let parts: Vec<_> = parts.into_iter().map(|p| b.through(p, s)).collect();
    let y = b.quantized_conv(parts[1], s, 2, 2, 3, 0);
    let y = b.through(y, t);
    let sum = b.op(binary(BinaryKind::Add), &[parts[1], y]);
    let sum = b.through(sum, t);
    let c = b.op(Op::Concat(Concat { axis: 1 }), &[parts[0], parts[1], sum]);
    let c = b.through(c, t);
    let (settled, report) = checked(&b.output(&[c]), &[noise(&[1, 4, 4, 4], 1)], Tolerance::Exact);
    assert_eq!(
        names(&settled.graph),
        [
            "QuantizeLinear",
            "Split",
            "DequantizeLinear",
            "QuantConv",
            "DequantizeLinear",
            "Add",
            "QuantizeLinear",
            "Lookup",
            "Lookup",
            "Concat",
            "DequantizeLinear"
        ]
    );
    assert_eq!(report.count("tables"), 2);
}

#[test]
fn values_without_a_zero_point_join_only_where_their_dtypes_agree() {
    let (s, u) = (step(-6, 0, DType::I8), step(-6, 0, DType::U8));
    for (second, joined) in [(u, false), (s, true)] {
        let mut b = Build::new();
        let x = b.input("x", &["1", "2", "4", "4"]);
        let parts = [s, second].map(|s| {
            let q = b.quantize(x, s);
            let q = b.op(Op::Transpose(Transpose { perm: Some(vec![0, 1, 3, 2]) }), &[q]);
            let scale = b.constant(&[], &[s.scale]);
            b.op(Op::DequantizeLinear(DequantizeLinear { axis: 1 }), &[q, scale])
        });
        let y = b.op(Op::Concat(Concat { axis: 1 }), &parts);
        let (settled, _) = checked(&b.output(&[y]), &[noise(&[1, 2, 4, 4], 1)], Tolerance::Exact);
        assert_eq!(names(&settled.graph).last() == Some(&"DequantizeLinear"), joined);
    }
}

/// A random graph of NCHW values, quantized with powers of two here and there.
fn random(steps: &[(u8, u8, u8)]) -> (Graph, Tensor) {
    let step_by = |n: usize| {
        let dtype = if n.is_multiple_of(3) { DType::U8 } else { DType::I8 };
        step(-7 + (n / 3 % 4) as i32, [0, 5, 100][n / 12 % 3], dtype)
    };
    let mut b = Build::new();
    let x = b.input("x", &["1", "4", "4", "4"]);
    let mut items = vec![(b.through(x, step_by(1)), [1, 4, 4, 4], Some(step_by(1)))];
    for &(op, p, q) in steps {
        let (p, q) = (p as usize, q as usize);
        let (id, dims, made) = items[p % items.len()];
        let [_, c, h, w] = dims;
        let twin = items.iter().rev().find(|i| i.1 == dims).map_or(id, |i| i.0);
        let new = match op % 10 {
            0..=2 => {
                let (x, s) = made.map_or_else(|| (b.through(id, step_by(q)), step_by(q)), |s| (id, s));
                let y = b.quantized_conv(x, s, c, 4, if q % 2 == 0 { 1 } else { 3 }, q / 2 % 4);
                let acts = [Unary::Relu, Unary::Silu, Unary::LeakyRelu(0.1), Unary::Tanh];
                let y = if q % 5 < 2 { b.op(Op::Unary(acts[q / 8 % 4]), &[y]) } else { y };
                vec![(y, [1, 4, h, w])]
            }
            3 => vec![(b.quantized_silu(id, step_by(q), step_by(p)), dims)],
            4 => vec![(b.op(Op::Unary([Unary::Relu, Unary::Sigmoid][q % 2]), &[id]), dims)],
            5 => vec![(b.op(max_pool(), &[id]), dims)],
            6 if c < 12 => vec![(b.op(Op::Concat(Concat { axis: 1 }), &[id, twin]), [1, 2 * c, h, w])],
            7 if c % 2 == 0 => {
                let split = Op::Split(Split { axis: 1, sizes: None, parts: 2, uneven: false });
                b.ops(split, &[id], 2).into_iter().map(|id| (id, [1, c / 2, h, w])).collect()
            }
            8 => vec![(b.op(binary([BinaryKind::Add, BinaryKind::Mul][q % 2]), &[id, twin]), dims)],
            _ if q % 3 == 0 => {
                let perm = Some(vec![0, 1, 3, 2]);
                vec![(b.op(Op::Transpose(Transpose { perm }), &[id]), [1, c, w, h])]
            }
            _ if q % 3 == 1 => {
                let target = b.constant(&[4], &[1i64, c as i64, -1, h as i64]);
                vec![(b.op(Op::Reshape(Reshape { allow_zero: false }), &[id, target]), [1, c, w, h])]
            }
            _ => {
                let [zero, one] = [b.constant(&[1], &[0i64]), b.constant(&[1], &[1i64])];
                vec![(b.op(Op::Slice(Slice { ranges: None }), &[id, zero, one, one]), [1, 1, h, w])]
            }
        };
        for (k, (id, dims)) in new.into_iter().enumerate() {
            // Exporters quantize every value; some here stay in floats.
            let s = step_by(q / 2 + k * 5);
            items.push(if q % 7 == 0 { (id, dims, None) } else { (b.through(id, s), dims, Some(s)) });
        }
    }
    let mut outputs = vec![items[items.len() - 1].0, items[items.len() / 2].0];
    outputs.dedup();
    (b.output(&outputs), noise(&[1, 4, 4, 4], 99))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn quantized_graphs_give_the_same_numbers(steps in prop::collection::vec(any::<(u8, u8, u8)>(), 1..12)) {
        let (graph, input) = random(&steps);
        checked(&graph, &[input], Tolerance::Exact);
    }
}
