//! Random graphs of what detectors are made of: convolutions, branches, residuals, and every kind of movement that a plan
//! may turn into views or strided writes.

use crate::{Result, recipe};
use saltica_models::graph::Graph;
use saltica_models::graph::attrs::Attr;
use saltica_models::onnx::build::ModelBuilder;
use saltica_tensor::{DType, Tensor};

/// A value of the generator.
#[derive(Clone)]
struct Item {
    name: String,
    dims: Vec<usize>,
}

struct Generator {
    model: ModelBuilder,
    items: Vec<Item>,
    count: usize,
}

/// Larger values are not made: the test is about places, not about time.
const MAX_ELEMENTS: usize = 4096;

impl Generator {
    fn name(&mut self) -> String {
        self.count += 1;
        format!("t{}", self.count)
    }

    fn constant(&mut self, tensor: &Tensor) -> String {
        let name = self.name();
        self.model = std::mem::replace(&mut self.model, ModelBuilder::new(17)).initializer(&name, tensor);
        name
    }

    fn ints(&mut self, numbers: &[i64]) -> Result<String> {
        let tensor = Tensor::from_slice(&[numbers.len()], numbers)?;
        Ok(self.constant(&tensor))
    }

    fn weights(&mut self, dims: &[usize], seed: u64, scale: f32) -> Result<String> {
        let noise = recipe::noise(seed, dims)?;
        let values: Vec<f32> = noise.as_slice::<f32>()?.iter().map(|v| (v - 0.5) * scale).collect();
        Ok(self.constant(&Tensor::from_slice(dims, &values)?))
    }

    fn node(&mut self, op: &str, inputs: &[&str], attrs: &[(&str, Attr)], dims: &[&[usize]]) {
        let outputs: Vec<String> = dims.iter().map(|_| self.name()).collect();
        let names: Vec<&str> = outputs.iter().map(String::as_str).collect();
        self.model =
            std::mem::replace(&mut self.model, ModelBuilder::new(17)).node(op, inputs, &names, attrs);
        for (name, dims) in outputs.into_iter().zip(dims) {
            self.items.push(Item { name, dims: dims.to_vec() });
        }
    }

    /// The newest value other than `item` with these dims, or `item` itself.
    fn twin(&self, item: &Item) -> Item {
        let twin = self.items.iter().rev().find(|i| i.dims == item.dims && i.name != item.name);
        twin.unwrap_or(item).clone()
    }

    fn step(&mut self, (op, p, q): (u8, u8, u8), seed: u64) -> Result<()> {
        // Newer values are likelier, so that graphs get deep.
        let n = self.items.len();
        let item = self.items[n - 1 - (p as usize * p as usize / 256) % n].clone();
        let (x, dims, q) = (item.name.as_str(), item.dims.clone(), q as usize);
        let rank = dims.len();
        let axis = 1 + q % (rank - 1);
        match op % 16 {
            0..=3 if rank == 4 && dims[1] <= 16 => {
                let c = dims[1];
                let (out, group) = if q % 3 == 0 { (c, c) } else { (2 + q % 7, 1) };
                let (k, stride) =
                    (1 + 2 * (q % 2), 1 + usize::from(q % 5 == 0 && dims[2] > 1 && dims[3] > 1));
                let scale = 3.0 / ((c / group * k * k) as f32).sqrt();
                let w = self.weights(&[out, c / group, k, k], seed, scale)?;
                let b = self.weights(&[out], seed + 1, 1.0)?;
                let pad = (k / 2) as i64;
                let attrs = [
                    ("group", Attr::Int(group as i64)),
                    ("kernel_shape", Attr::Ints(vec![k as i64; 2])),
                    ("pads", Attr::Ints(vec![pad; 4])),
                    ("strides", Attr::Ints(vec![stride as i64; 2])),
                ];
                let side = |d: usize| (d + 2 * (k / 2) - k) / stride + 1;
                let out = [dims[0], out, side(dims[2]), side(dims[3])];
                let inputs = [x, w.as_str(), b.as_str()];
                self.node("Conv", &inputs[..2 + q / 2 % 2], &attrs, &[&out]);
            }
            4 => {
                let op = ["Relu", "Sigmoid", "Tanh", "HardSwish", "Neg", "LeakyRelu"][q % 6];
                self.node(op, &[x], &[], &[&dims]);
            }
            5 => {
                let twin = self.twin(&item);
                self.node(["Add", "Sub", "Max"][q % 3], &[x, &twin.name], &[], &[&dims]);
            }
            6 => {
                // SiLU as exporters write it.
                self.node("Sigmoid", &[x], &[], &[&dims]);
                let gate = self.items[self.items.len() - 1].name.clone();
                self.node("Mul", &[x, &gate], &[], &[&dims]);
            }
            7 | 8 if dims.iter().product::<usize>() <= MAX_ELEMENTS / 2 => {
                let twin = self.twin(&item);
                let mut out = dims.clone();
                out[axis] *= 2;
                self.node("Concat", &[x, &twin.name], &[("axis", Attr::Int(axis as i64))], &[&out]);
            }
            9 | 10 if dims[axis] >= 2 => {
                let first = 1 + q % (dims[axis] - 1);
                let (mut a, mut b) = (dims.clone(), dims.clone());
                (a[axis], b[axis]) = (first, dims[axis] - first);
                let sizes = self.ints(&[first as i64, b[axis] as i64])?;
                self.node("Split", &[x, &sizes], &[("axis", Attr::Int(axis as i64))], &[&a, &b]);
            }
            11 => {
                let step = 1 + q % 2;
                let from = q / 2 % dims[axis];
                let mut out = dims.clone();
                out[axis] = (dims[axis] - from).div_ceil(step);
                let [starts, ends] = [self.ints(&[from as i64])?, self.ints(&[i64::MAX])?];
                let [axes, steps] = [self.ints(&[axis as i64])?, self.ints(&[step as i64])?];
                self.node("Slice", &[x, &starts, &ends, &axes, &steps], &[], &[&out]);
            }
            12 => {
                let mut perm: Vec<usize> = (0..rank).collect();
                perm.swap(axis, 1 + (q / 3) % (rank - 1));
                let out: Vec<usize> = perm.iter().map(|&d| dims[d]).collect();
                let perm = perm.into_iter().map(|d| d as i64).collect();
                self.node("Transpose", &[x], &[("perm", Attr::Ints(perm))], &[&out]);
            }
            13 if rank == 4 => {
                let out = [dims[0], dims[1], dims[2] * dims[3]];
                let target = self.ints(&[0, dims[1] as i64, -1])?;
                self.node("Reshape", &[x, &target], &[], &[&out]);
            }
            13 => {
                let out = [dims[0], dims[1], 1, dims[2]];
                let target = self.ints(&out.map(|d| d as i64))?;
                self.node("Reshape", &[x, &target], &[], &[&out]);
            }
            14 if rank == 4 => {
                let attrs = [
                    ("kernel_shape", Attr::Ints(vec![3, 3])),
                    ("pads", Attr::Ints(vec![1; 4])),
                    ("strides", Attr::Ints(vec![1, 1])),
                ];
                self.node(["MaxPool", "AveragePool"][q % 2], &[x], &attrs, &[&dims]);
            }
            14 => self.node("Softmax", &[x], &[("axis", Attr::Int(axis as i64))], &[&dims]),
            15 if rank == 4 && dims.iter().product::<usize>() <= MAX_ELEMENTS / 4 => {
                let scales = self.constant(&Tensor::from_slice(&[4], &[1f32, 1.0, 2.0, 2.0])?);
                let mode = ("mode", Attr::String(["nearest", "linear"][q % 2].into()));
                let out = [dims[0], dims[1], 2 * dims[2], 2 * dims[3]];
                self.node("Resize", &[x, "", &scales], &[mode], &[&out]);
            }
            15 if rank == 3 && dims[1] * dims[1] <= MAX_ELEMENTS => {
                self.node(
                    "Transpose",
                    &[x],
                    &[("perm", Attr::Ints(vec![0, 2, 1]))],
                    &[&[dims[0], dims[2], dims[1]]],
                );
                let turned = self.items[self.items.len() - 1].name.clone();
                self.node("MatMul", &[x, &turned], &[], &[&[dims[0], dims[1], dims[1]]]);
                let product = self.items[self.items.len() - 1].clone();
                self.node("Softmax", &[&product.name], &[("axis", Attr::Int(-1))], &[&product.dims]);
            }
            _ => {}
        }
        Ok(())
    }
}

/// A graph with one input `x`, `[2, 4, 5, 6]` (its batch open), and up to three outputs; each step draws its op and operands
/// from three numbers.
pub fn graph(steps: &[(u8, u8, u8)]) -> Result<Graph> {
    let model = ModelBuilder::new(17).input("x", DType::F32, &["n".into(), 4.into(), 5.into(), 6.into()]);
    let items = vec![Item { name: "x".into(), dims: INPUT.to_vec() }];
    let mut g = Generator { model, items, count: 0 };
    for (n, step) in steps.iter().enumerate() {
        g.step(*step, 1000 + 2 * n as u64)?;
    }
    let last = g.items.len() - 1;
    let mut outputs = vec![last, last / 2, last / 3];
    outputs.dedup();
    let mut model = g.model;
    for i in outputs {
        model = model.output(&g.items[i].name, DType::F32);
    }
    Ok(model.graph()?)
}

/// Dims of the input.
pub const INPUT: [usize; 4] = [2, 4, 5, 6];
