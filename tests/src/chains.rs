//! Graphs of a few nodes for what a graph of one does not show: channels that fill no whole vector of a device, written by
//! one node and read by the next, and parts of a concat that are computed side by side.

use saltica_models::graph::Graph;
use saltica_models::graph::attrs::Attr;
use saltica_models::onnx::build::ModelBuilder;
use saltica_tensor::{DType, Tensor};

/// A graph by name. Its input `x` is `[1, 8, 6, 6]` f32.
pub struct Chain {
    /// What is followed by what.
    pub name: String,
    /// The graph.
    pub graph: Graph,
}

/// Small numbers of both signs, all different enough that a wrong channel shows.
fn weights(dims: &[usize]) -> Result<Tensor> {
    let n: usize = dims.iter().product();
    let numbers: Vec<f32> = (0..n).map(|i| ((i * 37 + 11) % 64) as f32 / 64.0 - 0.45).collect();
    Ok(Tensor::from_slice(dims, &numbers)?)
}

fn ints(of: &[i64]) -> Attr {
    Attr::Ints(of.to_vec())
}

/// What input `x` is fed.
pub fn picture() -> Result<Tensor> {
    let numbers: Vec<f32> = (0..8 * 36).map(|i| ((i * 53 + 7) % 128) as f32 / 64.0 - 1.0).collect();
    Ok(Tensor::from_slice(&[1, 8, 6, 6], &numbers)?)
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
type Nodes = fn(ModelBuilder, usize) -> Result<ModelBuilder>;

/// Nodes that make `a` of `c` channels from `x`.
const MAKERS: &[(&str, Nodes)] = &[
    ("conv 1x1", |b, c| conv(b, "x", "a", [c, 8, 1], 1)),
    ("conv 3x3", |b, c| conv(b, "x", "a", [c, 8, 3], 1)),
    ("depthwise", |b, c| conv(conv(b, "x", "p", [c, 8, 1], 1)?, "p", "a", [c, 1, 3], c)),
    ("grouped", |b, c| conv(conv(b, "x", "p", [2 * c, 8, 1], 1)?, "p", "a", [c, c, 3], 2)),
    ("two from each channel", |b, c| {
        conv(conv(b, "x", "p", [c / 2, 8, 1], 1)?, "p", "a", [c / 2 * 2, 1, 1], c / 2)
    }),
    ("transposed by tiles", |b, c| {
        let b = b.initializer("wa", &weights(&[8, c, 2, 2])?);
        Ok(b.node("ConvTranspose", &["x", "wa"], &["a"], &[("strides", ints(&[2, 2]))]))
    }),
    ("transposed", |b, c| {
        let attrs = [("strides", ints(&[2, 2])), ("pads", ints(&[1; 4]))];
        let b = b.initializer("wa", &weights(&[8, c, 3, 3])?);
        Ok(b.node("ConvTranspose", &["x", "wa"], &["a"], &attrs))
    }),
    ("residual", |b, c| {
        let b = conv(conv(b, "x", "p", [c, 8, 1], 1)?, "x", "q", [c, 8, 3], 1)?;
        Ok(b.node("Add", &["p", "q"], &["a"], &[]))
    }),
    ("residual of a part", |b, c| {
        let b = conv(conv(b, "x", "p", [c, 8, 1], 1)?, "x", "q", [c, 8, 3], 1)?;
        let b = b.node("Concat", &["p", "p"], &["both"], &[("axis", Attr::Int(1))]);
        let b = b.node("Relu", &["both"], &["other"], &[]).output("other", DType::F32);
        Ok(b.node("Add", &["p", "q"], &["a"], &[]))
    }),
    ("pool", |b, c| {
        let attrs = [("kernel_shape", ints(&[3, 3])), ("pads", ints(&[1; 4]))];
        Ok(conv(b, "x", "p", [c, 8, 1], 1)?.node("MaxPool", &["p"], &["a"], &attrs))
    }),
    ("resize", |b, c| {
        let b = b.initializer("scales", &Tensor::from_slice(&[4], &[1.0f32, 1.0, 2.0, 2.0])?);
        let attrs = [("mode", Attr::String("nearest".into()))];
        Ok(conv(b, "x", "p", [c, 8, 1], 1)?.node("Resize", &["p", "", "scales"], &["a"], &attrs))
    }),
    ("product", |b, c| {
        let b = conv(b, "x", "p", [c, 8, 1], 1)?.node("Tanh", &["p"], &["q"], &[]);
        Ok(b.node("Mul", &["p", "q"], &["a"], &[]))
    }),
    ("softmax", |b, c| {
        Ok(conv(b, "x", "p", [c, 8, 1], 1)?.node("Softmax", &["p"], &["a"], &[("axis", Attr::Int(1))]))
    }),
];

/// A convolution of `[channels out, channels in a group, side]`, same size.
fn conv(
    b: ModelBuilder,
    from: &str,
    to: &str,
    [o, c, side]: [usize; 3],
    group: usize,
) -> Result<ModelBuilder> {
    let (w, pad) = (format!("w_{to}"), side as i64 / 2);
    let attrs = [("pads", ints(&[pad; 4])), ("group", Attr::Int(group as i64))];
    Ok(b.initializer(&w, &weights(&[o, c, side, side])?).node("Conv", &[from, &w], &[to], &attrs))
}

fn begun() -> ModelBuilder {
    ModelBuilder::new(17).input("x", DType::F32, &[1.into(), 8.into(), 6.into(), 6.into()])
}

/// Every maker at every number of channels, read by a 1x1 convolution; and side by side in a concat.
pub fn all() -> Result<Vec<Chain>> {
    let mut chains = Vec::new();
    for &(maker, make) in MAKERS {
        let pairs = maker.starts_with("two") || maker == "grouped";
        for c in [1, 2, 3, 4, 6, 12, 20, 24].into_iter().filter(|c| !pairs || c % 2 == 0) {
            let graph = conv(make(begun(), c)?, "a", "y", [8, c, 1], 1)?.output("y", DType::F32).graph()?;
            chains.push(Chain { name: format!("{maker} to {c}, conv"), graph });
        }
        if maker.starts_with("transposed") || maker == "resize" {
            continue;
        }
        // Parts whose pixel stride in the concat is what their channels rounded up would be.
        for (c, other) in [(12, 4), (20, 4), (24, 8), (4, 12), (2, 2), (10, 6)] {
            // The other part is made first, so that who writes too much destroys it.
            let b = make(conv(begun(), "x", "b", [other, 8, 1], 1)?, c)?;
            let b = b.node("Concat", &["a", "b"], &["ab"], &[("axis", Attr::Int(1))]);
            let b = conv(conv(b, "ab", "y", [8, c + other, 1], 1)?, "a", "z", [8, c, 1], 1)?;
            let graph = b.output("y", DType::F32).output("z", DType::F32).graph()?;
            chains.push(Chain { name: format!("{maker} to {c} beside {other}, conv"), graph });
        }
    }
    Ok(chains)
}
