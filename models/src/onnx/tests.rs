//! What the reader makes of well-formed and slightly wrong models; hostile files are in the tests crate.

use super::build::ModelBuilder;
use super::proto::{
    AttributeProto, FunctionProto, ModelProto, NamedProto, OperatorSetIdProto, SparseTensorProto,
    TensorProto, attribute_type, data_type,
};
use super::*;
use crate::graph::attrs::{Attr, NodeInfo};
use crate::graph::{Dim, Op};
use half::f16;
use saltica_tensor::{Bool, Element};

fn conv(opset: u32) -> ModelBuilder {
    ModelBuilder::new(opset)
        .input("x", DType::F32, &["batch".into(), 1.into(), "?".into(), "width".into()])
        .initializer("w", &Tensor::from_slice(&[2, 1, 1, 1], &[1.0f32, 2.0]).unwrap())
        .node("Conv", &["x", "w"], &["y"], &[])
        .output("y", DType::F32)
}

/// Reads the convolution with one more initializer, named `t`; its constant.
fn with_tensor(t: TensorProto) -> Result<Tensor> {
    let mut model = conv(17).proto();
    model.graph.as_mut().unwrap().initializer.push(TensorProto { name: "t".into(), ..t });
    Ok(constant(&read(&model)?, "t"))
}

fn read(model: &ModelProto) -> Result<Graph> {
    parse(model.encode_to_vec(), None)
}

fn constant(graph: &Graph, name: &str) -> Tensor {
    let value = graph.values.iter().find(|v| v.name == name).unwrap();
    let tensor = value.constant.clone().unwrap();
    assert_eq!(value.dtype, Some(tensor.dtype()));
    tensor
}

/// The error of a model that must be refused.
fn refused(model: &ModelProto, kind: ErrorKind) -> String {
    let e = read(model).unwrap_err();
    assert_eq!(e.kind(), kind, "{e}");
    e.to_string()
}

fn packed(values: &[i64]) -> Vec<Bytes> {
    let mut out = Vec::new();
    for v in values {
        prost::encoding::encode_varint(*v as u64, &mut out);
    }
    // In two chunks, as a writer may.
    let cut = out.iter().position(|b| *b < 0x80).map_or(0, |i| i + 1);
    vec![Bytes::copy_from_slice(&out[..cut]), Bytes::copy_from_slice(&out[cut..])]
}

#[test]
fn a_model_built_is_the_model_read() {
    let graph = conv(13)
        .metadata("stride", "32")
        .node(
            "Conv",
            &["y", "w2", ""],
            &["z"],
            &[("group", Attr::Int(2)), ("strides", Attr::Ints(vec![2, 1]))],
        )
        .initializer("w2", &Tensor::from_slice(&[2, 1, 1, 1], &[1.0f32, 1.0]).unwrap())
        .output("z", DType::F32)
        .graph()
        .unwrap();
    assert_eq!(graph.opset, 13);
    assert_eq!(graph.name, "built");
    assert_eq!(graph.metadata, [("stride".to_string(), "32".to_string())]);
    let names =
        |ids: &[crate::graph::ValueId]| ids.iter().map(|i| graph.value(*i).name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&graph.inputs), ["x"]);
    assert_eq!(names(&graph.outputs), ["y", "z"]);
    let x = graph.value(graph.inputs[0]);
    let dims = [Dim::Symbol("batch".into()), Dim::Fixed(1), Dim::Unknown, Dim::Symbol("width".into())];
    assert_eq!((x.dtype, x.dims.as_deref()), (Some(DType::F32), Some(&dims[..])));
    let node = &graph.nodes[1];
    assert_eq!(node.name, "z");
    assert_eq!(node.inputs.len(), 3);
    assert!(node.inputs[2].is_none());
    let strided =
        NodeInfo::new("Conv", 13, 2, vec![("group", Attr::Int(2)), ("strides", Attr::Ints(vec![2, 1]))]);
    assert_eq!(node.op, Op::parse(&strided).unwrap());
    assert_eq!(constant(&graph, "w").as_slice::<f32>().unwrap(), [1.0, 2.0]);
}

#[test]
fn nodes_in_any_order_are_sorted() {
    let graph = ModelBuilder::new(17)
        .node("Conv", &["b", "w"], &["c"], &[])
        .node("Conv", &["a", "w"], &["b"], &[])
        .node("Conv", &["x", "w"], &["a"], &[])
        .node(
            "Constant",
            &[],
            &["w"],
            &[("value", Attr::Tensor(Tensor::from_slice(&[1, 1, 1, 1], &[1f32]).unwrap()))],
        )
        .input("x", DType::F32, &[])
        .output("c", DType::F32)
        .graph()
        .unwrap();
    let order: Vec<_> = graph.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(order, ["a", "b", "c"]);
}

#[test]
fn raw_data_is_borrowed_from_the_file() {
    let weights: Vec<f32> = (0..4096).map(|i| i as f32).collect();
    let model = conv(17).initializer("big", &Tensor::from_slice(&[4096], &weights).unwrap()).encode();
    // The payload's place in the file depends on the names before it; one of four shifts aligns it.
    let borrowed = (0..4).any(|shift| {
        let mut file = vec![0u8; shift];
        file.extend(&model);
        let file = Bytes::from(file).slice(shift..);
        let range = file.as_ptr_range();
        let graph = parse(file, None).unwrap();
        let big = constant(&graph, "big");
        assert_eq!(big.as_slice::<f32>().unwrap(), weights);
        range.contains(&big.bytes().as_ptr())
    });
    assert!(borrowed);
}

#[test]
fn every_dtype_raw_and_typed() {
    fn check<T: Element>(values: [T; 2], typed: TensorProto) {
        let tensor = Tensor::from_slice(&[2], &values).unwrap();
        let raw = conv(17).initializer("t", &tensor).graph().unwrap();
        assert_eq!(constant(&raw, "t"), tensor);
        let typed = TensorProto { dims: vec![2], data_type: super::tensor::data_type(T::DTYPE), ..typed };
        assert_eq!(with_tensor(typed).unwrap(), tensor, "{}", T::DTYPE);
    }
    let ints = |values: [i64; 2]| TensorProto { int32_data: packed(&values), ..TensorProto::default() };
    check([i8::MIN, 127], ints([-128, 127]));
    check([0u8, 255], ints([0, 255]));
    check([i32::MIN, i32::MAX], ints([i32::MIN.into(), i32::MAX.into()]));
    check([Bool::from(true), Bool::from(false)], ints([1, 0]));
    // Half precision as bits: 1.5 and -2.
    check([f16::from_f32(1.5), f16::from_f32(-2.0)], ints([0x3e00, 0xc000]));
    check(
        [i64::MIN, i64::MAX],
        TensorProto { int64_data: packed(&[i64::MIN, i64::MAX]), ..Default::default() },
    );
    let bytes = |b: &[u8]| vec![Bytes::copy_from_slice(b)];
    let floats: Vec<u8> = [1.5f32, -0.1].iter().flat_map(|v| v.to_le_bytes()).collect();
    check([1.5f32, -0.1], TensorProto { float_data: bytes(&floats), ..Default::default() });
    let doubles: Vec<u8> = [1.5f64, -0.1].iter().flat_map(|v| v.to_le_bytes()).collect();
    check([1.5f64, -0.1], TensorProto { double_data: bytes(&doubles), ..Default::default() });
}

#[test]
fn data_that_does_not_fit() {
    let t = |dims: &[i64], data_type, rest| TensorProto { dims: dims.to_vec(), data_type, ..rest };
    let ints = |values: &[i64]| TensorProto { int32_data: packed(values), ..TensorProto::default() };
    let raw = |n| TensorProto { raw_data: Some(Bytes::from(vec![0; n])), ..TensorProto::default() };
    let fails = |proto, text: &str| {
        let e = with_tensor(proto).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Malformed, "{e}");
        assert!(e.to_string().contains(text) && e.to_string().contains("initializer 't'"), "{e}");
    };
    fails(t(&[2], data_type::INT8, ints(&[1, 128])), "128 is out of the range of i8");
    fails(t(&[2], data_type::UINT8, ints(&[-1, 1])), "-1 is out of the range of u8");
    fails(t(&[2], data_type::FLOAT16, ints(&[65536, 1])), "out of the range");
    fails(t(&[3], data_type::INT8, ints(&[1, 2])), "the data has 2 numbers, 3 takes 3");
    fails(t(&[2], data_type::FLOAT, ints(&[1, 2])), "f32 with data in int32_data");
    fails(t(&[2], data_type::FLOAT, raw(7)), "the data has 7 bytes, f32 2 takes 8");
    fails(
        t(&[2], data_type::INT8, TensorProto { int32_data: packed(&[1, 2]), ..raw(2) }),
        "raw_data and int32_data",
    );
    fails(t(&[2], data_type::FLOAT, TensorProto::default()), "no data, 8 bytes of f32 2 expected");
    fails(t(&[2], data_type::FLOAT, TensorProto { segment: Some(Bytes::new()), ..raw(8) }), "segments");
    let cut = TensorProto { float_data: vec![Bytes::from_static(&[0; 7])], ..TensorProto::default() };
    fails(t(&[2], data_type::FLOAT, cut), "cut off");
    let cut = TensorProto { int64_data: vec![Bytes::from_static(&[1, 0x80])], ..TensorProto::default() };
    fails(t(&[2], data_type::INT64, cut), "cut off");
    let long = TensorProto {
        int64_data: vec![Bytes::from_static(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f])],
        ..TensorProto::default()
    };
    fails(t(&[1], data_type::INT64, long), "longer than 64 bits");
    // No elements, no data: fine.
    let none = with_tensor(t(&[0, 3], data_type::FLOAT, TensorProto::default())).unwrap();
    assert_eq!(none.shape().dims(), [0, 3]);
}

#[test]
fn dtypes_without_a_name_here_matter_only_where_they_are_read() {
    let strange = |name: &str, data_type| TensorProto {
        name: name.into(),
        data_type,
        dims: vec![1],
        raw_data: Some(Bytes::from_static(&[0, 0])),
        ..TensorProto::default()
    };
    let mut model = conv(17).proto();
    model.graph.as_mut().unwrap().initializer.extend([strange("bf", 16), strange("text", 8)]);
    assert!(read(&model).is_ok());
    let used = conv(17).node("Conv", &["x", "bf"], &["z"], &[]).node("Conv", &["x", "bf"], &["z2"], &[]);
    let mut used = used.proto();
    used.graph.as_mut().unwrap().initializer.push(strange("bf", 16));
    let message = refused(&used, ErrorKind::Unsupported);
    assert!(message.contains("Conv (opset 17 of ai.onnx), 2 nodes, the first is 'z'"), "{message}");
    assert!(message.contains("initializer 'bf': element type bfloat16"), "{message}");
    let mut output = conv(17).output("bf", DType::F32).proto();
    output.graph.as_mut().unwrap().initializer.push(strange("bf", 16));
    assert!(refused(&output, ErrorKind::Unsupported).contains("output 'bf'"));
    let mut input = conv(17).proto();
    let tensor_type =
        input.graph.as_mut().unwrap().input[0].r#type.as_mut().unwrap().tensor_type.as_mut().unwrap();
    tensor_type.elem_type = 4;
    assert!(refused(&input, ErrorKind::Unsupported).contains("input 'x' has element type uint16"));
}

#[test]
fn the_forms_of_a_constant() {
    let value = |attr: (&str, Attr)| {
        let graph = conv(17).node("Constant", &[], &["c"], &[attr]).output("c", DType::F32).graph()?;
        Ok::<_, Error>(constant(&graph, "c"))
    };
    let float = value(("value_float", Attr::Float(1.5))).unwrap();
    assert_eq!((float.shape().rank(), float.as_slice::<f32>().unwrap()), (0, &[1.5][..]));
    let int = value(("value_int", Attr::Int(-3))).unwrap();
    assert_eq!((int.shape().rank(), int.as_slice::<i64>().unwrap()), (0, &[-3][..]));
    let ints = value(("value_ints", Attr::Ints(vec![1, 2]))).unwrap();
    assert_eq!((ints.shape().dims(), ints.as_slice::<i64>().unwrap()), (&[2][..], &[1, 2][..]));
    let floats = value(("value_floats", Attr::Floats(vec![0.5]))).unwrap();
    assert_eq!((floats.shape().dims(), floats.as_slice::<f32>().unwrap()), (&[1][..], &[0.5][..]));
    let none = value(("value_ints", Attr::Ints(vec![]))).unwrap();
    assert_eq!(none.shape().dims(), [0]);
    let e = value(("value_string", Attr::String("x".into()))).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    // A text that nobody reads does no harm.
    let text = ("value_string", Attr::String("x".into()));
    assert!(conv(17).node("Constant", &[], &["c"], &[text]).graph().is_ok());
    let e = conv(17).node("Constant", &[], &["c"], &[]).graph().unwrap_err().to_string();
    assert!(e.contains("Constant node 'c': 0 attributes found, 1 expected"), "{e}");
}

#[test]
fn initializers_that_are_also_inputs_are_constants() {
    let graph = conv(9).input("w", DType::F32, &[]).graph().unwrap();
    assert_eq!(graph.inputs.len(), 1);
    assert!(graph.values.iter().find(|v| v.name == "w").unwrap().constant.is_some());
}

#[test]
fn dims_of_inputs() {
    let mut model = conv(17).proto();
    let input = &mut model.graph.as_mut().unwrap().input[0];
    let shape = input.r#type.as_mut().unwrap().tensor_type.as_mut().unwrap().shape.as_mut().unwrap();
    shape.dim[0].dim_value = Some(-1);
    shape.dim[3].dim_param = Some(String::new());
    let graph = read(&model).unwrap();
    let dims = graph.value(graph.inputs[0]).dims.clone().unwrap();
    assert_eq!(dims, [Dim::Unknown, Dim::Fixed(1), Dim::Unknown, Dim::Unknown]);
    model.graph.as_mut().unwrap().input[0].r#type = None;
    let graph = read(&model).unwrap();
    assert!(graph.value(graph.inputs[0]).dims.is_none());
}

#[test]
fn opsets() {
    for opset in [9, 22] {
        assert_eq!(conv(opset).graph().unwrap().opset, opset);
    }
    for opset in [0, 8, 23, u32::MAX] {
        let message = refused(&conv(opset).proto(), ErrorKind::Unsupported);
        assert!(message.contains(&format!("opset {opset} ")) && message.contains("9 to 22"), "{message}");
    }
    let mut none = conv(17).proto();
    none.opset_import.clear();
    assert!(refused(&none, ErrorKind::Malformed).contains("which opset"));
    let set = |domain: &str, version| OperatorSetIdProto { domain: domain.into(), version };
    let mut two = conv(17).proto();
    two.opset_import.push(set("ai.onnx", 13));
    assert!(refused(&two, ErrorKind::Malformed).contains("opset 17, and opset 13"));
    // The default domain has two names, and unused domains do no harm.
    let mut named = conv(17).proto();
    named.opset_import = vec![set("ai.onnx.ml", 5), set("ai.onnx", 11), set("com.microsoft", 1)];
    named.graph.as_mut().unwrap().node[0].domain = "ai.onnx".into();
    assert_eq!(read(&named).unwrap().opset, 11);
    named.ir_version = Some(99);
    assert!(read(&named).is_ok());
}

#[test]
fn all_that_is_unsupported_is_in_one_error() {
    let model = conv(12)
        .opset("com.microsoft", 1)
        .node("Frobnicate", &["x"], &["f1"], &[])
        .node("Frobnicate", &["x"], &["f2"], &[])
        .node_of("com.microsoft", "QGemm", &["x"], &["q"], &[])
        .node_of("nowhere", "Conv", &["x"], &["n"], &[])
        .node("Conv", &["x", "w"], &["odd"], &[("group", Attr::Float(1.0))])
        .node("Conv", &["x", "w"], &["new"], &[("novelty", Attr::Int(1))]);
    let message = refused(&model.proto(), ErrorKind::Unsupported);
    for line in [
        "Frobnicate (opset 12 of ai.onnx), 2 nodes, the first is 'f1'",
        "QGemm (opset 1 of com.microsoft), 1 node 'q'",
        "Conv (domain nowhere, whose opset the file does not say), 1 node 'n'",
        "Conv (opset 12 of ai.onnx), 1 node 'odd': attribute group is Float 1, Int expected",
        "1 node 'new': Conv of opset 12 has attributes this version does not know: novelty",
    ] {
        assert!(message.contains(line), "'{line}' is not in: {message}");
    }
    assert_eq!(message.lines().count(), 6, "{message}");
}

#[test]
fn functions_and_sparse_initializers_are_named() {
    let mut model = conv(17).node_of("local", "Silu", &["y"], &["s"], &[]).proto();
    model.functions.push(FunctionProto { name: "Silu".into(), domain: "local".into() });
    let message = refused(&model, ErrorKind::Unsupported);
    assert!(
        message.contains("Silu (") && message.contains("'s': a function that the file defines"),
        "{message}"
    );
    // One that nobody calls does no harm.
    let mut model = conv(17).proto();
    model.functions.push(FunctionProto { name: "Silu".into(), domain: "local".into() });
    assert!(read(&model).is_ok());
    let values = Some(NamedProto { name: "holes".into() });
    model.graph.as_mut().unwrap().sparse_initializer.push(SparseTensorProto { values });
    assert!(refused(&model, ErrorKind::Unsupported).contains("'holes'"));
}

#[test]
fn attributes_without_a_type_and_given_twice() {
    let attribute =
        |r#type| AttributeProto { name: "group".into(), i: Some(1), r#type, ..AttributeProto::default() };
    let with = |attributes: Vec<AttributeProto>| {
        let mut model = conv(17).proto();
        model.graph.as_mut().unwrap().node[0].attribute = attributes;
        model
    };
    assert!(read(&with(vec![attribute(0)])).is_ok());
    assert!(read(&with(vec![attribute(attribute_type::INT)])).is_ok());
    let message = refused(&with(vec![attribute(0), attribute(0)]), ErrorKind::Malformed);
    assert!(message.contains("Conv node 'y': attribute 'group' is given twice"), "{message}");
    let reference = AttributeProto { ref_attr_name: "outer".into(), ..attribute(attribute_type::INT) };
    assert!(refused(&with(vec![reference]), ErrorKind::Malformed).contains("outside of a function"));
    let graphs = AttributeProto { graphs: vec![Bytes::new()], ..attribute(10) };
    assert!(refused(&with(vec![graphs]), ErrorKind::Unsupported).contains("subgraph"));
}

#[test]
fn initializers_without_data_are_filled() {
    let model = conv(17).empty_initializer("made", DType::I8, &[2, 2]).encode();
    let fill = |name: &str, dtype: DType, shape: &Shape| {
        assert_eq!((name, dtype, shape.dims()), ("made", DType::I8, &[2, 2][..]));
        Tensor::from_slice(&[2, 2], &[1i8, 2, 3, 4]).ok()
    };
    let graph = Reader::new().fill(&fill).parse(model.clone()).unwrap();
    assert_eq!(constant(&graph, "made").as_slice::<i8>().unwrap(), [1, 2, 3, 4]);
    let wrong = |_: &str, _: DType, _: &Shape| Tensor::from_slice(&[4], &[1i8; 4]).ok();
    let e = Reader::new().fill(&wrong).parse(model.clone()).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Shape, "{e}");
    let none = |_: &str, _: DType, _: &Shape| None;
    assert!(Reader::new().fill(&none).parse(model).unwrap_err().to_string().contains("no data"));
}
