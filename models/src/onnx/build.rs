//! Writing small ONNX models: for tests, benchmarks and examples, which build their models in code.

use super::proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
    attribute_type,
};
use super::tensor::data_type;
use crate::Result;
use crate::graph::attrs::Attr;
use crate::graph::{Dim, Graph};
use bytes::Bytes;
use prost::Message;
use saltica_tensor::{DType, Tensor};

/// A dimension from text: a number, a symbol, or `?`.
impl From<&str> for Dim {
    fn from(text: &str) -> Self {
        match (text, text.parse()) {
            (_, Ok(n)) => Dim::Fixed(n),
            ("?", _) => Dim::Unknown,
            _ => Dim::Symbol(text.to_string()),
        }
    }
}

impl From<usize> for Dim {
    fn from(n: usize) -> Self {
        Dim::Fixed(n)
    }
}

/// Builds a model. It writes what it is told, valid or not; nothing is checked until the model is read.
#[derive(Clone, Debug)]
pub struct ModelBuilder {
    model: ModelProto,
    graph: GraphProto,
}

impl ModelBuilder {
    /// An empty model that uses this opset of the default domain.
    pub fn new(opset: u32) -> Self {
        let model = ModelProto { ir_version: Some(8), ..ModelProto::default() };
        let graph = GraphProto { name: "built".to_string(), ..GraphProto::default() };
        ModelBuilder { model, graph }.opset("", opset)
    }

    /// Says that the model uses this opset of another domain.
    pub fn opset(mut self, domain: &str, version: u32) -> Self {
        let set = OperatorSetIdProto { domain: domain.to_string(), version: version.into() };
        self.model.opset_import.push(set);
        self
    }

    /// Adds an entry to `metadata_props`.
    pub fn metadata(mut self, key: &str, value: &str) -> Self {
        self.model.metadata_props.push(entry(key, value));
        self
    }

    /// Adds a graph input.
    pub fn input(mut self, name: &str, dtype: DType, dims: &[Dim]) -> Self {
        self.graph.input.push(value_info(name, dtype, Some(dims)));
        self
    }

    /// Adds a graph output, without dims.
    pub fn output(mut self, name: &str, dtype: DType) -> Self {
        self.graph.output.push(value_info(name, dtype, None));
        self
    }

    /// Adds a constant, its numbers as raw data.
    pub fn initializer(mut self, name: &str, tensor: &Tensor) -> Self {
        self.graph.initializer.push(raw(name, tensor));
        self
    }

    /// Adds a constant whose numbers are made at reading ([`super::Reader::fill`]).
    pub fn empty_initializer(mut self, name: &str, dtype: DType, dims: &[i64]) -> Self {
        self.graph.initializer.push(without_data(name, dtype, dims));
        self
    }

    /// Adds a constant whose numbers are in another file, `length` bytes from `offset` on.
    pub fn external_initializer(
        mut self,
        name: &str,
        dtype: DType,
        dims: &[i64],
        location: &str,
        offset: u64,
        length: u64,
    ) -> Self {
        self.graph.initializer.push(TensorProto {
            data_location: 1,
            external_data: vec![
                entry("location", location),
                entry("offset", &offset.to_string()),
                entry("length", &length.to_string()),
            ],
            ..without_data(name, dtype, dims)
        });
        self
    }

    /// Adds a node of the default domain, named after its first output; `""` is an absent input or output.
    pub fn node(self, op_type: &str, inputs: &[&str], outputs: &[&str], attrs: &[(&str, Attr)]) -> Self {
        self.node_of("", op_type, inputs, outputs, attrs)
    }

    /// Adds a node of any domain.
    pub fn node_of(
        mut self,
        domain: &str,
        op_type: &str,
        inputs: &[&str],
        outputs: &[&str],
        attrs: &[(&str, Attr)],
    ) -> Self {
        let texts = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        self.graph.node.push(NodeProto {
            input: texts(inputs),
            output: texts(outputs),
            name: String::new(),
            op_type: op_type.to_string(),
            attribute: attrs.iter().map(|(name, attr)| attribute(name, attr)).collect(),
            domain: domain.to_string(),
        });
        self
    }

    /// The encoded model.
    pub fn encode(&self) -> Vec<u8> {
        self.proto().encode_to_vec()
    }

    /// The model, written and read again.
    pub fn graph(&self) -> Result<Graph> {
        super::parse(self.encode(), None)
    }

    pub(super) fn proto(&self) -> ModelProto {
        ModelProto { graph: Some(self.graph.clone()), ..self.model.clone() }
    }
}

fn entry(key: &str, value: &str) -> StringStringEntryProto {
    StringStringEntryProto { key: key.to_string(), value: value.to_string() }
}

fn without_data(name: &str, dtype: DType, dims: &[i64]) -> TensorProto {
    TensorProto {
        name: name.to_string(),
        dims: dims.to_vec(),
        data_type: data_type(dtype),
        ..TensorProto::default()
    }
}

fn raw(name: &str, tensor: &Tensor) -> TensorProto {
    let dims: Vec<_> = tensor.shape().iter().map(|d| *d as i64).collect();
    let raw_data = Some(Bytes::copy_from_slice(tensor.bytes()));
    TensorProto { raw_data, ..without_data(name, tensor.dtype(), &dims) }
}

fn value_info(name: &str, dtype: DType, dims: Option<&[Dim]>) -> ValueInfoProto {
    let dimension = |dim: &Dim| match dim {
        Dim::Fixed(n) => DimensionProto { dim_value: Some(*n as i64), dim_param: None },
        Dim::Symbol(s) => DimensionProto { dim_value: None, dim_param: Some(s.clone()) },
        Dim::Unknown => DimensionProto::default(),
    };
    let shape = dims.map(|dims| TensorShapeProto { dim: dims.iter().map(dimension).collect() });
    let tensor_type = Some(TensorTypeProto { elem_type: data_type(dtype), shape });
    ValueInfoProto { name: name.to_string(), r#type: Some(TypeProto { tensor_type, ..TypeProto::default() }) }
}

fn attribute(name: &str, attr: &Attr) -> AttributeProto {
    let base = AttributeProto { name: name.to_string(), ..AttributeProto::default() };
    let bytes = |s: &String| Bytes::copy_from_slice(s.as_bytes());
    match attr {
        Attr::Int(v) => AttributeProto { r#type: attribute_type::INT, i: Some(*v), ..base },
        Attr::Float(v) => AttributeProto { r#type: attribute_type::FLOAT, f: Some(*v), ..base },
        Attr::String(v) => AttributeProto { r#type: attribute_type::STRING, s: Some(bytes(v)), ..base },
        Attr::Tensor(v) => AttributeProto { r#type: attribute_type::TENSOR, t: Some(raw("", v)), ..base },
        Attr::Ints(v) => AttributeProto { r#type: attribute_type::INTS, ints: v.clone(), ..base },
        Attr::Floats(v) => AttributeProto { r#type: attribute_type::FLOATS, floats: v.clone(), ..base },
        Attr::Strings(v) => {
            AttributeProto { r#type: attribute_type::STRINGS, strings: v.iter().map(bytes).collect(), ..base }
        }
    }
}
