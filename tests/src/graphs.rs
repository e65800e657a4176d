//! The exporters' graphs (`data/graphs`): filled with their recipe weights, with golden outputs and layer statistics.

use crate::recipe::{self, Recipe};
use crate::{Result, files, shared};
use saltica_models::graph::Graph;
use saltica_models::onnx;
use saltica_tensor::{DType, Shape, Tensor};
use serde::Deserialize;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The folder of the graphs. Errors without test data.
pub fn dir() -> Result<PathBuf> {
    Ok(shared().ok_or("no shared test data: set SALTICA_SHARED, or put it in ../shared")?.join("data/graphs"))
}

/// Names of all graphs, sorted.
pub fn names() -> Result<Vec<String>> {
    files(&dir()?, ".graph.onnx")
}

fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()).into())
}

#[derive(Deserialize)]
struct FillFile {
    tensors: Vec<Recipe>,
}

/// Reads a graph and fills its weights; each filled tensor is checked against its CRC-32, and each recipe must be used.
pub fn load_filled(name: &str) -> Result<Graph> {
    let dir = dir()?;
    let recipes: FillFile = read_json(&dir.join(format!("{name}.fill.json")))?;
    let recipes: RefCell<HashMap<&str, &Recipe>> = RefCell::new(recipes_by_name(&recipes.tensors));
    let problems = RefCell::new(Vec::new());
    let fill = |tensor: &str, dtype: DType, shape: &Shape| {
        let recipe = recipes.borrow_mut().remove(tensor)?;
        let made = recipe.make().and_then(|t| {
            if t.dtype() == dtype && t.shape() == shape {
                Ok(t)
            } else {
                Err(format!(
                    "{tensor}: {dtype} {shape} in the graph, {} {} in the recipe",
                    t.dtype(),
                    t.shape()
                )
                .into())
            }
        });
        made.map_err(|e| problems.borrow_mut().push(e.to_string())).ok()
    };
    let graph = onnx::Reader::new().fill(&fill).load(&dir.join(format!("{name}.graph.onnx")));
    if !problems.borrow().is_empty() {
        return Err(problems.borrow().join("\n").into());
    }
    let graph = graph?;
    if let Some(unused) = recipes.borrow().keys().next() {
        return Err(format!("{name}: no initializer asked for the recipe of {unused}").into());
    }
    Ok(graph)
}

fn recipes_by_name(recipes: &[Recipe]) -> HashMap<&str, &Recipe> {
    recipes.iter().map(|r| (r.name.as_str(), r)).collect()
}

/// Golden outputs of a graph.
#[derive(Clone, Debug, Deserialize)]
pub struct Golden {
    /// Name of the graph.
    pub model: String,
    /// Multiply-adds at the input shape of case 0.
    pub macs: u64,
    /// One or more runs.
    pub cases: Vec<Case>,
    /// Smallest distance between the scores of neighbouring rows, where outputs are rows.
    #[serde(default)]
    pub smallest_score_gap: Option<f64>,
}

/// One run: an input, and what must come out.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// The input's recipe.
    pub input: Input,
    /// The outputs in the graph's order.
    pub outputs: Vec<Output>,
}

/// The recipe of an input: uniform noise.
#[derive(Clone, Debug, Deserialize)]
pub struct Input {
    /// Name in the graph.
    pub name: String,
    /// Dims.
    pub dims: Vec<usize>,
    seed: u64,
    crc32: u32,
}

impl Input {
    /// The numbers, checked against the recipe's CRC-32.
    pub fn tensor(&self) -> Result<Tensor> {
        let tensor = recipe::noise(self.seed, &self.dims)?;
        let crc = crc32fast::hash(tensor.bytes());
        if crc != self.crc32 {
            return Err(format!("input {}: CRC-32 {crc:08x}, {:08x} expected", self.name, self.crc32).into());
        }
        Ok(tensor)
    }
}

/// Minimum, maximum, mean and standard deviation of many numbers.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Stats {
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation (of the whole population).
    pub std: f64,
}

impl Stats {
    /// Of these numbers.
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let (mut min, mut max, mut sum, mut count) = (f64::INFINITY, f64::NEG_INFINITY, 0.0, 0usize);
        for v in values.clone() {
            (min, max, sum, count) = (min.min(v), max.max(v), sum + v, count + 1);
        }
        let mean = sum / count as f64;
        let variance = values.map(|v| (v - mean) * (v - mean)).sum::<f64>() / count as f64;
        Stats { min, max, mean, std: variance.sqrt() }
    }
}

/// A slice of an output that means one thing (boxes, scores ...).
#[derive(Clone, Debug, Deserialize)]
pub struct Part {
    /// The axis that is sliced.
    pub axis: usize,
    /// First index.
    pub lo: usize,
    /// One past the last index.
    pub hi: usize,
    /// Over the whole slice.
    #[serde(flatten)]
    pub stats: Stats,
}

/// A golden output: some or all of its values, and statistics of all.
#[derive(Clone, Debug, Deserialize)]
pub struct Output {
    /// Name in the graph.
    pub name: String,
    /// Dims.
    pub dims: Vec<usize>,
    /// Over the whole output.
    #[serde(flatten)]
    pub stats: Stats,
    /// Slices that mean different things; empty if the whole output means one thing.
    #[serde(default)]
    pub parts: Vec<Part>,
    offset: usize,
    count: usize,
    index: String,
    #[serde(default)]
    index_seed: u64,
    #[serde(skip)]
    values: Vec<f32>,
}

impl Output {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether all values are there.
    pub fn is_whole(&self) -> bool {
        self.index == "all"
    }

    /// The golden values: flat (row-major) index and value. Indices can repeat.
    pub fn samples(&self) -> impl Iterator<Item = (usize, f32)> + Clone + '_ {
        let (whole, n) = (self.is_whole(), self.elements() as u64);
        let index =
            move |j: usize| if whole { j } else { (recipe::hash(self.index_seed, j as u64) % n) as usize };
        self.values.iter().enumerate().map(move |(j, v)| (index(j), *v))
    }

    /// Index along `axis` of the element at a flat index.
    pub fn coordinate(&self, flat: usize, axis: usize) -> usize {
        let inner: usize = self.dims[axis + 1..].iter().product();
        flat / inner % self.dims[axis]
    }
}

/// The golden outputs of a graph.
pub fn golden(name: &str) -> Result<Golden> {
    let dir = dir()?;
    let mut golden: Golden = read_json(&dir.join(format!("{name}.golden.json")))?;
    let path = dir.join(format!("{name}.golden.bin"));
    let bytes = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let values: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    for output in golden.cases.iter_mut().flat_map(|c| &mut c.outputs) {
        let range = output.offset..output.offset + output.count;
        output.values = values
            .get(range.clone())
            .ok_or_else(|| format!("{}: values {range:?} of {}", path.display(), values.len()))?
            .to_vec();
    }
    Ok(golden)
}

/// What a node's output looks like in the golden run of case 0: for finding the first tensor that goes wrong.
#[derive(Clone, Debug)]
pub struct Layer {
    /// ONNX op type.
    pub op: String,
    /// Name of the value.
    pub tensor: String,
    /// The dtype.
    pub dtype: DType,
    /// Dims.
    pub dims: Vec<usize>,
    /// Over all elements.
    pub stats: Stats,
    /// Values at four places; see [`Layer::indices`].
    pub values: [f64; 4],
}

impl Layer {
    /// Flat indices of `values`. Errors if the tensor has no elements.
    pub fn indices(&self) -> Option<[usize; 4]> {
        let n: u64 = self.dims.iter().product::<usize>() as u64;
        (n > 0).then(|| [0, 1, 2, 3].map(|j| (recipe::hash(1_288_819_138_222_928, j) % n) as usize))
    }

    /// Compares a computed value with this one: an error if dtype, dims, or one of the four values or statistics is off by
    /// more than `relative` of the largest absolute value.
    pub fn check(&self, got: &Tensor, relative: f64) -> Result<()> {
        if got.dtype() != self.dtype || got.shape().dims() != self.dims {
            return Err(format!(
                "{} '{}': {} {} found, {} {:?} expected",
                self.op,
                self.tensor,
                got.dtype(),
                got.shape(),
                self.dtype,
                self.dims
            )
            .into());
        }
        let Some(indices) = self.indices() else { return Ok(()) };
        let view = got.view();
        let stats = Stats::of((0..got.shape().elements()).map(|i| view.at_f64(i)));
        // Statistics are printed with six digits.
        let scale = self.stats.min.abs().max(self.stats.max.abs());
        let tolerance = relative * scale + 1e-5 * scale;
        let found = indices.map(|i| view.at_f64(i));
        let pairs = found.into_iter().zip(self.values).chain([
            (stats.min, self.stats.min),
            (stats.max, self.stats.max),
            (stats.mean, self.stats.mean),
            (stats.std, self.stats.std),
        ]);
        for ((got, want), what) in pairs.zip(["v0", "v1", "v2", "v3", "min", "max", "mean", "std"]) {
            let same = got == want || (got.is_nan() && want.is_nan()) || (got - want).abs() <= tolerance;
            if !same {
                return Err(format!(
                    "{} '{}' {} {:?}: {what} is {got}, {want} expected (tolerance {tolerance:.3e})",
                    self.op, self.tensor, self.dtype, self.dims
                )
                .into());
            }
        }
        Ok(())
    }
}

/// The layers of a graph in execution order.
pub fn layers(name: &str) -> Result<Vec<Layer>> {
    let path = dir()?.join(format!("{name}.layers.tsv"));
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    text.lines().filter(|l| !l.starts_with('#')).map(layer).collect()
}

fn layer(line: &str) -> Result<Layer> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [op, tensor, dtype, dims, numbers @ ..] = &fields[..] else {
        return Err(format!("'{line}' is no layer").into());
    };
    let dtype = match *dtype {
        "float32" => DType::F32,
        "float16" => DType::F16,
        "int8" => DType::I8,
        "int64" => DType::I64,
        "bool" => DType::Bool,
        other => return Err(format!("'{line}': dtype {other}").into()),
    };
    let dims = match *dims {
        "scalar" => Vec::new(),
        dims => dims.split('x').map(str::parse).collect::<std::result::Result<_, _>>()?,
    };
    let numbers = numbers.iter().map(|n| n.parse()).collect::<std::result::Result<Vec<f64>, _>>()?;
    let &[min, max, mean, std, v0, v1, v2, v3] = &numbers[..] else {
        return Err(format!("'{line}': {} numbers, 8 expected", numbers.len()).into());
    };
    Ok(Layer {
        op: op.to_string(),
        tensor: tensor.to_string(),
        dtype,
        dims,
        stats: Stats { min, max, mean, std },
        values: [v0, v1, v2, v3],
    })
}
