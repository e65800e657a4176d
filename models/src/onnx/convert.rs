//! ModelProto to [`Graph`].

use super::external::Folder;
use super::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TypeProto, ValueInfoProto,
    attribute_type,
};
use super::{Fill, OPSETS, quote, tensor};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::graph::{Dim, Graph, Node, Op, Value, ValueId};
use crate::{Error, ErrorKind, Result};
use bytes::Bytes;
use saltica_tensor::{DType, MAX_RANK, Tensor};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

fn malformed(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Malformed, what)
}

/// Whether this is the domain of the standard ops.
fn is_default(domain: &str) -> bool {
    domain.is_empty() || domain == "ai.onnx"
}

/// Builds the graph. `fill` makes the numbers of initializers that carry none.
pub(super) fn graph(model: ModelProto, folder: &mut Folder, fill: Option<Fill<'_>>) -> Result<Graph> {
    let proto = model.graph.ok_or_else(|| malformed("the file has no graph"))?;
    let opset = opset(&model.opset_import)?;
    let functions: HashSet<(&str, &str)> =
        model.functions.iter().map(|f| (f.domain.as_str(), f.name.as_str())).collect();
    let mut metadata: Vec<_> = model.metadata_props.into_iter().map(|e| (e.key, e.value)).collect();
    if !model.producer_name.is_empty() {
        let producer = format!("{} {}", model.producer_name, model.producer_version);
        metadata.push(("producer".to_string(), producer.trim_end().to_string()));
    }
    let graph = Graph { name: proto.name.clone(), opset, metadata, ..Graph::default() };
    Converter {
        graph,
        ids: HashMap::new(),
        inputs: HashSet::new(),
        unusable: HashMap::new(),
        unsupported: Unsupported::default(),
        opsets: &model.opset_import,
        functions,
        folder,
        fill,
    }
    .convert(proto)
}

/// The opset of the default domain. Errors if it is none that this version reads.
fn opset(imports: &[OperatorSetIdProto]) -> Result<u32> {
    let mut versions = imports.iter().filter(|o| is_default(&o.domain)).map(|o| o.version);
    let version =
        versions.next().ok_or_else(|| malformed("the file does not say which opset of ai.onnx it uses"))?;
    if let Some(other) = versions.find(|v| *v != version) {
        return Err(malformed(format!("the file says that it uses opset {version}, and opset {other} too")));
    }
    let (oldest, newest) = (OPSETS.start(), OPSETS.end());
    u32::try_from(version).ok().filter(|v| OPSETS.contains(v)).ok_or_else(|| {
        let advice = if version < i64::from(*oldest) {
            "convert it with onnx.version_converter, or export it again"
        } else {
            "export it with an older opset (17, say)"
        };
        Error::unsupported(format!(
            "the model uses opset {version} of ai.onnx, {oldest} to {newest} are supported: {advice}"
        ))
    })
}

/// Ops that cannot be read, collected so that one error names them all.
#[derive(Default)]
struct Unsupported {
    /// (op, domain and opset, why) to (how often, the first node).
    ops: BTreeMap<(String, String, String), (usize, String)>,
}

impl Unsupported {
    /// More lines than this help nobody.
    const SHOWN: usize = 40;

    fn add(&mut self, node: &NodeProto, set: String, why: String) {
        let op = quote(&node.op_type).trim_matches('\'').to_string();
        let entry = self.ops.entry((op, set, why)).or_insert_with(|| (0, node_name(node)));
        entry.0 += 1;
    }

    fn into_result(self) -> Result<()> {
        if self.ops.is_empty() {
            return Ok(());
        }
        let mut text = String::from("the model uses what this version does not support:");
        let left = self.ops.len().saturating_sub(Self::SHOWN);
        for ((op, set, why), (count, first)) in self.ops.into_iter().take(Self::SHOWN) {
            let why = if why.is_empty() { why } else { format!(": {why}") };
            let nodes = if count == 1 { "node" } else { "nodes, the first is" };
            // Writing to a String cannot fail.
            let _ = write!(text, "\n  {op} ({set}), {count} {nodes} {}{why}", quote(&first));
        }
        if left > 0 {
            let _ = write!(text, "\n  and {left} more");
        }
        Err(Error::unsupported(text))
    }
}

/// The node's name, else its first output's.
fn node_name(node: &NodeProto) -> String {
    if !node.name.is_empty() {
        return node.name.clone();
    }
    node.output.iter().find(|o| !o.is_empty()).cloned().unwrap_or_default()
}

struct Converter<'a> {
    graph: Graph,
    ids: HashMap<String, ValueId>,
    /// The graph's inputs.
    inputs: HashSet<ValueId>,
    /// Constants that are an error only where they are read, and why.
    unusable: HashMap<ValueId, String>,
    unsupported: Unsupported,
    opsets: &'a [OperatorSetIdProto],
    functions: HashSet<(&'a str, &'a str)>,
    folder: &'a mut Folder,
    fill: Option<Fill<'a>>,
}

impl Converter<'_> {
    fn convert(mut self, proto: GraphProto) -> Result<Graph> {
        if !proto.sparse_initializer.is_empty() {
            let names = proto
                .sparse_initializer
                .iter()
                .take(8)
                .map(|s| quote(s.values.as_ref().map_or("", |v| v.name.as_str())));
            return Err(Error::unsupported(format!(
                "{} sparse initializers ({}), which are not supported: store them dense",
                proto.sparse_initializer.len(),
                names.collect::<Vec<_>>().join(", ")
            )));
        }
        for initializer in &proto.initializer {
            let name = &initializer.name;
            if name.is_empty() {
                return Err(malformed("an initializer has no name"));
            }
            if self.ids.contains_key(name) {
                return Err(malformed(format!("two initializers are named {}", quote(name))));
            }
            let id = self.id(name)?;
            let loaded = tensor::load(initializer, self.folder, self.fill);
            self.settle(id, loaded.map_err(|e| tensor::named(e, "initializer", name)))?;
        }
        for input in &proto.input {
            self.input(input)?;
        }
        for node in proto.node {
            self.node(node)?;
        }
        let mut seen = HashSet::new();
        for output in &proto.output {
            if output.name.is_empty() || !seen.insert(&output.name) {
                return Err(malformed(format!(
                    "the output {} is declared twice or unnamed",
                    quote(&output.name)
                )));
            }
            let id = self.id(&output.name)?;
            if let Some(why) = self.unusable.get(&id) {
                return Err(Error::unsupported(format!("output {}: {why}", quote(&output.name))));
            }
            let (dtype, dims) = declared(output, "output")?;
            let value = &mut self.graph.values[id.index()];
            value.dtype = value.dtype.or(dtype);
            if value.dims.is_none() && value.constant.is_none() {
                value.dims = dims;
            }
            self.graph.outputs.push(id);
        }
        if self.graph.outputs.is_empty() {
            return Err(malformed("the graph has no outputs"));
        }
        self.unsupported.into_result()?;
        self.graph.sort()?;
        Ok(self.graph)
    }

    /// The value of this name, added if it is new.
    fn id(&mut self, name: &str) -> Result<ValueId> {
        if let Some(id) = self.ids.get(name) {
            return Ok(*id);
        }
        let id = self.graph.add(Value { name: name.to_string(), ..Value::default() })?;
        self.ids.insert(name.to_string(), id);
        Ok(id)
    }

    fn optional_id(&mut self, name: &str) -> Result<Option<ValueId>> {
        if name.is_empty() { Ok(None) } else { self.id(name).map(Some) }
    }

    /// Makes a value a constant, or notes why it cannot be read.
    fn settle(&mut self, id: ValueId, loaded: Result<Tensor>) -> Result<()> {
        match loaded {
            Ok(tensor) => {
                let value = &mut self.graph.values[id.index()];
                value.dtype = Some(tensor.dtype());
                value.constant = Some(tensor);
            }
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                self.unusable.insert(id, e.to_string());
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }

    fn input(&mut self, input: &ValueInfoProto) -> Result<()> {
        if input.name.is_empty() {
            return Err(malformed("a graph input has no name"));
        }
        if let Some(id) = self.ids.get(&input.name) {
            let value = self.graph.value(*id);
            if value.constant.is_some() || self.unusable.contains_key(id) {
                return Ok(());
            }
            return Err(malformed(format!("two inputs are named {}", quote(&input.name))));
        }
        let (dtype, dims) = declared(input, "input")?;
        let id = self.id(&input.name)?;
        let value = &mut self.graph.values[id.index()];
        (value.dtype, value.dims) = (dtype, dims);
        self.graph.inputs.push(id);
        self.inputs.insert(id);
        Ok(())
    }

    fn node(&mut self, node: NodeProto) -> Result<()> {
        let name = node_name(&node);
        let named = |e: Error| e.in_node(&shorten(&name), &shorten(&node.op_type));
        let version = self
            .opsets
            .iter()
            .find(|o| o.domain == node.domain || (is_default(&o.domain) && is_default(&node.domain)))
            .map(|o| o.version);
        let domain = if node.domain.is_empty() { "ai.onnx".into() } else { shorten(&node.domain) };
        let set = match version {
            Some(version) => format!("opset {version} of {domain}"),
            None => format!("domain {domain}, whose opset the file does not say"),
        };
        if self.functions.contains(&(node.domain.as_str(), node.op_type.as_str())) {
            let why =
                "a function that the file defines itself, which is not supported; export without functions";
            self.unsupported.add(&node, set, why.into());
            return Ok(());
        }
        let default = is_default(&node.domain);
        if default && node.op_type == "Constant" {
            return self.constant(&node).map_err(named);
        }
        let subgraph = node.attribute.iter().any(|a| a.g.is_some() || !a.graphs.is_empty());
        if !default || subgraph || !Op::knows(&node.op_type) {
            let why = if subgraph { "it has a subgraph, which is not supported" } else { "" };
            self.unsupported.add(&node, set, why.into());
            return Ok(());
        }
        let mut inputs = Vec::with_capacity(node.input.len());
        for input in &node.input {
            let id = self.optional_id(input)?;
            if let Some(why) = id.and_then(|id| self.unusable.get(&id)) {
                self.unsupported.add(&node, set, why.clone());
                return Ok(());
            }
            inputs.push(id);
        }
        let mut outputs = Vec::with_capacity(node.output.len());
        for output in &node.output {
            outputs.push(self.optional_id(output)?);
        }
        let mut info = NodeInfo::new(&node.op_type, self.graph.opset, 0, Vec::new());
        info.inputs = inputs.iter().map(Option::is_some).collect();
        info.outputs = outputs.iter().map(Option::is_some).collect();
        let parsed = self.attributes(&node.attribute).and_then(|attrs| {
            info.attrs = attrs;
            Op::parse(&info)
        });
        match parsed {
            Ok(op) => self.graph.nodes.push(Node { name, op, inputs, outputs }),
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                self.unsupported.add(&node, set, shorten(&e.to_string()))
            }
            Err(e) => return Err(named(e)),
        }
        Ok(())
    }

    fn attributes(&mut self, protos: &[AttributeProto]) -> Result<BTreeMap<String, Attr>> {
        let mut attrs = BTreeMap::new();
        for proto in protos {
            let attr = self.attribute(proto)?;
            if attrs.insert(proto.name.clone(), attr).is_some() {
                return Err(malformed(format!("attribute {} is given twice", quote(&proto.name))));
            }
        }
        Ok(attrs)
    }

    fn attribute(&mut self, proto: &AttributeProto) -> Result<Attr> {
        let text = |bytes: &Bytes| {
            String::from_utf8(bytes.to_vec())
                .map_err(|_| malformed(format!("attribute {} is text that is not UTF-8", quote(&proto.name))))
        };
        if !proto.ref_attr_name.is_empty() {
            return Err(malformed(format!(
                "attribute {} refers to a function's attribute outside of a function",
                quote(&proto.name)
            )));
        }
        // Files of IR version 1 do not say the type.
        let kind = match proto.r#type {
            0 if proto.f.is_some() => attribute_type::FLOAT,
            0 if proto.i.is_some() => attribute_type::INT,
            0 if proto.s.is_some() => attribute_type::STRING,
            0 if proto.t.is_some() => attribute_type::TENSOR,
            0 if !proto.floats.is_empty() => attribute_type::FLOATS,
            0 if !proto.ints.is_empty() => attribute_type::INTS,
            0 if !proto.strings.is_empty() => attribute_type::STRINGS,
            known => known,
        };
        Ok(match kind {
            // Writers of protobuf 3 leave out what is zero or empty.
            attribute_type::FLOAT => Attr::Float(proto.f.unwrap_or_default()),
            attribute_type::INT => Attr::Int(proto.i.unwrap_or_default()),
            attribute_type::STRING => Attr::String(text(proto.s.as_ref().unwrap_or(&Bytes::new()))?),
            attribute_type::TENSOR => {
                let tensor = proto.t.as_ref().ok_or_else(|| {
                    malformed(format!("attribute {} should hold a tensor and holds none", quote(&proto.name)))
                })?;
                Attr::Tensor(
                    tensor::load(tensor, self.folder, None)
                        .map_err(|e| tensor::named(e, "attribute", &proto.name))?,
                )
            }
            attribute_type::FLOATS => Attr::Floats(proto.floats.clone()),
            attribute_type::INTS => Attr::Ints(proto.ints.clone()),
            attribute_type::STRINGS => {
                Attr::Strings(proto.strings.iter().map(text).collect::<Result<Vec<_>>>()?)
            }
            other => {
                return Err(Error::unsupported(format!(
                    "attribute {} is of type {other}, which is not supported",
                    quote(&proto.name)
                )));
            }
        })
    }

    /// A Constant node becomes a constant of the graph.
    fn constant(&mut self, node: &NodeProto) -> Result<()> {
        let [output] = &node.output[..] else {
            return Err(malformed(format!("{} outputs found, 1 expected", node.output.len())));
        };
        let [attribute] = &node.attribute[..] else {
            return Err(malformed(format!("{} attributes found, 1 expected", node.attribute.len())));
        };
        if output.is_empty() || !node.input.is_empty() {
            return Err(malformed("one named output and no inputs expected"));
        }
        let id = self.id(output)?;
        let taken = self.graph.value(id).constant.is_some() || self.unusable.contains_key(&id);
        if taken || self.inputs.contains(&id) {
            return Err(malformed(format!("value {} is made twice", quote(output))));
        }
        let loaded = self.attribute(attribute).and_then(|attr| match (attribute.name.as_str(), attr) {
            ("value", Attr::Tensor(tensor)) => Ok(tensor),
            ("value_float", Attr::Float(v)) => Ok(Tensor::scalar(v)?),
            ("value_int", Attr::Int(v)) => Ok(Tensor::scalar(v)?),
            ("value_floats", Attr::Floats(v)) => Ok(Tensor::from_slice(&[v.len()], &v)?),
            ("value_ints", Attr::Ints(v)) => Ok(Tensor::from_slice(&[v.len()], &v)?),
            (name, _) => Err(Error::unsupported(format!("a constant in the form of {}", quote(name)))),
        });
        self.settle(id, loaded)
    }
}

/// What the file declares of an input or output.
fn declared(value: &ValueInfoProto, what: &str) -> Result<(Option<DType>, Option<Vec<Dim>>)> {
    let Some(proto) = &value.r#type else { return Ok((None, None)) };
    let Some(tensor_type) = &proto.tensor_type else {
        if matches!(
            proto,
            TypeProto {
                sequence_type: None,
                map_type: None,
                sparse_tensor_type: None,
                optional_type: None,
                ..
            }
        ) {
            return Ok((None, None));
        }
        return Err(Error::unsupported(format!("{what} {} is no tensor", quote(&value.name))));
    };
    let dtype = match tensor_type.elem_type {
        0 => None,
        elem => Some(tensor::dtype(elem).map_err(|name| {
            Error::unsupported(format!(
                "{what} {} has element type {name}, which is not supported",
                quote(&value.name)
            ))
        })?),
    };
    let Some(shape) = &tensor_type.shape else { return Ok((dtype, None)) };
    if shape.dim.len() > MAX_RANK {
        return Err(Error::new(
            ErrorKind::Limit,
            format!(
                "{what} {} has rank {}, at most {MAX_RANK} is supported",
                quote(&value.name),
                shape.dim.len()
            ),
        ));
    }
    let mut dims = Vec::with_capacity(shape.dim.len());
    for dim in &shape.dim {
        dims.push(match (dim.dim_value, &dim.dim_param) {
            // What old exporters wrote for "any".
            (Some(-1), _) => Dim::Unknown,
            (Some(n), _) => {
                Dim::Fixed(tensor::dimension(n).map_err(|e| tensor::named(e, what, &value.name))?)
            }
            (None, Some(symbol)) if !symbol.is_empty() => Dim::Symbol(symbol.clone()),
            (None, _) => Dim::Unknown,
        });
    }
    Ok((dtype, Some(dims)))
}

/// At most some hundred characters of a text, for messages.
fn shorten(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}
