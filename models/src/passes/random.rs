//! Passes on random graphs: outputs stay what they are, and nothing panics however little the parts fit.

use super::tests::{Build, binary, checked, conv, noise};
use super::*;
use crate::graph::ops::{BinaryKind, Clip, Concat, Reshape, Slice, Split, Transpose, Unary};
use crate::graph::{Op, Tolerance, ValueId};
use proptest::prelude::*;
use saltica_tensor::Tensor;

const UNARY: [Unary; 8] = [
    Unary::Relu,
    Unary::Sigmoid,
    Unary::Silu,
    Unary::LeakyRelu(0.1),
    Unary::HardSigmoid(1.0 / 6.0, 0.5),
    Unary::HardSwish,
    Unary::Tanh,
    Unary::Softplus,
];

/// A value of the generator with its shape.
#[derive(Clone, Copy)]
struct Item {
    id: ValueId,
    dims: [usize; 4],
}

/// A graph of NCHW values that fit each other; each step draws its op and operands from three numbers.
fn fitting(steps: &[(u8, u8, u8)]) -> (Graph, Vec<Tensor>) {
    let mut b = Build::new();
    let dims = [2, 4, 3, 3];
    let mut items = vec![Item { id: b.input("x", &["n", "4", "h", "3"]), dims }];
    for (n, &(op, p, q)) in steps.iter().enumerate() {
        let (p, q) = (p as usize, q as usize);
        let item = items[p % items.len()];
        let [_, c, h, w] = item.dims;
        let seed = (n * 31 + q) as u64;
        let mut push = |id, dims| items.push(Item { id, dims });
        match op % 14 {
            0..=3 => {
                let (o, group) = if q % 3 == 0 && c % 2 == 0 { (c, 2) } else { (4, 1) };
                let kernel = if q % 2 == 0 { 1 } else { 3 };
                let weights = noise(&[o, c / group, kernel, kernel], seed);
                let weights = b.constant(weights.shape(), weights.as_slice::<f32>().unwrap());
                let bias = noise(&[o], seed + 1);
                let bias = b.constant(&[o], bias.as_slice::<f32>().unwrap());
                let inputs = [item.id, weights, bias];
                let id = b.op(conv(kernel, 1, group), &inputs[..2 + q % 2]);
                push(id, [2, o, h, w]);
            }
            4 | 5 => push(b.op(Op::Unary(UNARY[q % UNARY.len()]), &[item.id]), item.dims),
            6 => {
                let other = items.iter().rev().find(|i| i.dims == item.dims).copied().unwrap_or(item);
                let kind = [BinaryKind::Add, BinaryKind::Mul, BinaryKind::Sub][q % 3];
                let id = b.op(binary(kind), &[item.id, other.id]);
                items.push(Item { id, dims: item.dims });
            }
            7 => {
                let kind = [BinaryKind::Add, BinaryKind::Mul, BinaryKind::Sub, BinaryKind::Div][q % 4];
                let shape = [vec![], vec![1], vec![c, 1, 1], vec![1, c, 1, 1]][q / 4 % 4].clone();
                let data: Vec<f32> = (0..shape.iter().product()).map(|i| 0.5 + i as f32).collect();
                let constant = b.constant(&shape, &data);
                let mut inputs = [item.id, constant];
                if q >= 128 && kind != BinaryKind::Div {
                    inputs.reverse();
                }
                push(b.op(binary(kind), &inputs), item.dims);
            }
            8 => {
                let bounds = [b.constant(&[], &[-0.5f32]), b.constant(&[], &[q as f32 / 200.0])];
                push(
                    b.op(Op::Clip(Clip { lo: None, hi: None }), &[item.id, bounds[0], bounds[1]]),
                    item.dims,
                );
            }
            9 => {
                let gate = b.op(Op::Unary([Unary::Sigmoid, UNARY[4]][q % 2]), &[item.id]);
                push(b.op(binary(BinaryKind::Mul), &[item.id, gate]), item.dims);
            }
            10 if c < 16 => {
                let other = items.iter().rev().find(|i| i.dims == item.dims).copied().unwrap_or(item);
                let id = b.op(Op::Concat(Concat { axis: 1 }), &[item.id, other.id]);
                items.push(Item { id, dims: [2, 2 * c, h, w] });
            }
            11 if c % 2 == 0 => {
                let split = Op::Split(Split { axis: 1, sizes: None, parts: 2, uneven: false });
                for id in b.ops(split, &[item.id], 2) {
                    items.push(Item { id, dims: [2, c / 2, h, w] });
                }
            }
            12 => {
                let perm = [vec![0, 1, 3, 2], vec![0, 1, 2, 3]][q % 2].clone();
                let dims = [2, c, item.dims[2 + (q + 1) % 2], item.dims[2 + q % 2]];
                let dims = if q % 2 == 1 { item.dims } else { dims };
                push(b.op(Op::Transpose(Transpose { perm: Some(perm) }), &[item.id]), dims);
            }
            13 => {
                let ends = b.constant(&[1], &[[1i64, i64::MAX][q % 2]]);
                let one = b.constant(&[1], &[1i64]);
                let zero = b.constant(&[1], &[0i64]);
                let id = b.op(Op::Slice(Slice { ranges: None }), &[item.id, zero, ends, one]);
                push(id, [2, if q % 2 == 0 { 1 } else { c }, h, w]);
            }
            _ => {
                let target = b.constant(&[4], &[2i64, -1, h as i64, w as i64]);
                push(b.op(Op::Reshape(Reshape { allow_zero: false }), &[item.id, target]), item.dims);
            }
        }
    }
    let mut outputs = vec![items[items.len() - 1].id];
    if let Some(mid) = items.get(items.len() / 2).filter(|i| i.id != outputs[0]) {
        outputs.push(mid.id);
    }
    (b.output(&outputs), vec![noise(&dims, 99)])
}

/// A graph whose parts need not fit.
fn unfitting(steps: &[(u8, u8, u8)]) -> Graph {
    let mut b = Build::new();
    let mut items = vec![
        b.input("x", &["n", "4", "h", "3"]),
        b.input("y", &["n", "h"]),
        b.constant(&[2], &[3i64, -1]),
        b.constant(&[1], &[0i64]),
        b.constant(&[4, 4, 1, 1], &[1f32; 16]),
        b.constant(&[], &[0.5f32]),
    ];
    for &(op, p, q) in steps {
        let (p, q) = (items[p as usize % items.len()], items[q as usize % items.len()]);
        let made = match op % 12 {
            0 | 1 => b.ops(conv(1, 1, 1), &[p, q], 1),
            2 => b.ops(Op::Unary(UNARY[op as usize / 12 % UNARY.len()]), &[p], 1),
            3 => b.ops(binary(BinaryKind::Add), &[p, q], 1),
            4 => b.ops(binary(BinaryKind::Mul), &[p, q], 1),
            5 => b.ops(binary(BinaryKind::Div), &[p, q], 1),
            6 => b.ops(Op::Concat(Concat { axis: 1 }), &[p, q], 1),
            7 => b.ops(Op::Split(Split { axis: 0, sizes: None, parts: 2, uneven: true }), &[p], 2),
            8 => b.ops(Op::Transpose(Transpose { perm: Some(vec![1, 0]) }), &[p], 1),
            9 => b.ops(Op::Slice(Slice { ranges: None }), &[p, q, q], 1),
            10 => b.ops(Op::Clip(Clip { lo: None, hi: None }), &[p, q], 1),
            _ => b.ops(Op::Reshape(Reshape { allow_zero: false }), &[p, q], 1),
        };
        items.extend(made);
    }
    let last = items.len() - 1;
    b.output(&[items[last], items[last / 2]])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn outputs_stay_what_they_are(steps in prop::collection::vec(any::<(u8, u8, u8)>(), 1..14)) {
        let (graph, inputs) = fitting(&steps);
        checked(&graph, &inputs, Tolerance::Close { absolute: 1e-3, relative: 1e-3 });
    }

    #[test]
    fn nothing_panics(steps in prop::collection::vec(any::<(u8, u8, u8)>(), 1..10), n in 0usize..5, h in 0usize..5) {
        let mut graph = unfitting(&steps);
        let mut report = Report::default();
        let bindings = Bindings::new().symbol("n", n).symbol("h", h);
        if optimize(&mut graph, &mut report).is_ok() {
            let _ = settle(&graph, &bindings, &mut report);
        }
    }
}
