#![no_main]
//! Graphs of known ops, with any attributes on any inputs.

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use saltica_models::graph::attrs::{Attr, NodeInfo};
use saltica_models::graph::{Dim, Graph, Node, Op, Value, ValueId};
use saltica_models_fuzz::{OPS, exercise};
use saltica_tensor::{DType, Shape, Tensor};

fuzz_target!(|data: &[u8]| {
    if let Ok(graph) = graph(&mut Unstructured::new(data)) {
        exercise(graph);
    }
});

fn dims(u: &mut Unstructured<'_>) -> Result<Vec<usize>> {
    (0..u.int_in_range(0..=5)?).map(|_| u.int_in_range(0..=6)).collect()
}

fn dtype(u: &mut Unstructured<'_>) -> Result<DType> {
    // Mostly what models are made of.
    let all = [DType::F32; 8].into_iter().chain([DType::I64; 4]).chain(DType::ALL);
    Ok(*u.choose(&all.collect::<Vec<_>>())?)
}

fn tensor(u: &mut Unstructured<'_>) -> Result<Tensor> {
    let (dtype, dims) = (dtype(u)?, dims(u)?);
    let shape = Shape::new(&dims).map_err(|_| arbitrary::Error::IncorrectFormat)?;
    let mut tensor = Tensor::zeros(dtype, shape).map_err(|_| arbitrary::Error::NotEnoughData)?;
    let mut view = tensor.view_mut().map_err(|_| arbitrary::Error::IncorrectFormat)?;
    for i in 0..shape.elements().min(32) {
        view.put_f64(i, number(u)? as f64);
    }
    drop(view);
    Ok(tensor)
}

/// Mostly small, now and then absurd.
fn number(u: &mut Unstructured<'_>) -> Result<i64> {
    Ok(match u.int_in_range(0..=15)? {
        0 => *u.choose(&[i64::MIN, i64::MAX, i64::from(i32::MAX), 1 << 40, -(1 << 31), 65536])?,
        1 => u.int_in_range(-1000..=1000)?,
        _ => u.int_in_range(-3..=6)?,
    })
}

fn attr(u: &mut Unstructured<'_>) -> Result<Attr> {
    const TEXTS: &[&str] = &[
        "NOTSET",
        "SAME_UPPER",
        "SAME_LOWER",
        "VALID",
        "nearest",
        "linear",
        "cubic",
        "half_pixel",
        "asymmetric",
        "align_corners",
        "pytorch_half_pixel",
        "tf_crop_and_resize",
        "floor",
        "ceil",
        "round_prefer_floor",
        "round_prefer_ceil",
        "constant",
        "reflect",
        "edge",
        "wrap",
        "DCR",
        "CRD",
        "none",
        "tanh",
        "bilinear",
        "zeros",
    ];
    Ok(match u.int_in_range(0..=9)? {
        0..=3 => Attr::Int(number(u)?),
        4..=6 => Attr::Ints((0..u.int_in_range(0..=6)?).map(|_| number(u)).collect::<Result<_>>()?),
        7 => Attr::Float(*u.choose(&[0.0, 1.0, -1.0, 0.5, 1e-5, f32::NAN, f32::INFINITY])?),
        8 => Attr::String((*u.choose(TEXTS)?).to_string()),
        _ => Attr::Tensor(tensor(u)?),
    })
}

fn graph(u: &mut Unstructured<'_>) -> Result<Graph> {
    let mut graph = Graph { opset: u.int_in_range(9..=22)?, ..Graph::default() };
    let full = |_| arbitrary::Error::NotEnoughData;
    let mut values: Vec<ValueId> = Vec::new();
    for i in 0..u.int_in_range(1..=2)? {
        let dims = Some(dims(u)?.into_iter().map(Dim::Fixed).collect());
        let value = Value { name: format!("input{i}"), dtype: Some(dtype(u)?), dims, constant: None };
        let id = graph.add(value).map_err(full)?;
        graph.inputs.push(id);
        values.push(id);
    }
    for i in 0..u.int_in_range(0..=4)? {
        values.push(graph.add_constant(format!("constant{i}"), tensor(u)?).map_err(full)?);
    }
    for i in 0..u.int_in_range(1..=5)? {
        let (op_type, names) = *u.choose(OPS)?;
        let mut inputs = Vec::new();
        for _ in 0..u.int_in_range(0..=5)? {
            inputs.push(if u.ratio(1, 12)? { None } else { Some(*u.choose(&values)?) });
        }
        let mut attrs = Vec::new();
        for name in names {
            if u.ratio(1, 3)? {
                attrs.push((*name, attr(u)?));
            }
        }
        let count = if u.ratio(1, 6)? { u.int_in_range(1..=4)? } else { 1 };
        let mut info = NodeInfo::new(op_type, graph.opset, 0, attrs);
        info.inputs = inputs.iter().map(Option::is_some).collect();
        info.outputs = vec![true; count];
        let Ok(op) = Op::parse(&info) else { continue };
        let mut outputs = Vec::new();
        for j in 0..count {
            let value = Value { name: format!("value{i}.{j}"), ..Value::default() };
            outputs.push(graph.add(value).map_err(full)?);
        }
        values.extend(&outputs);
        let outputs = outputs.into_iter().map(Some).collect();
        graph.nodes.push(Node { name: format!("node{i}"), op, inputs, outputs });
    }
    graph.outputs.extend(values.last());
    for id in &values {
        if !graph.outputs.contains(id) && u.ratio(1, 3)? {
            graph.outputs.push(*id);
        }
    }
    Ok(graph)
}
