//! Short words for writing cases whose op is parsed from a node.

use super::{Case, Op, Tolerance};
use crate::graph::attrs::{Attr, NodeInfo};
use saltica_tensor::{Element, Error, ErrorKind, Tensor};

/// What building a literal gives.
pub(super) type Built<T> = std::result::Result<T, Error>;

/// A tensor literal.
pub(super) fn t<T: Element>(dims: &[usize], data: &[T]) -> Built<Tensor> {
    Tensor::from_slice(dims, data)
}

/// A list of numbers as an attribute.
pub(super) fn ints(values: &[i64]) -> Attr {
    Attr::Ints(values.to_vec())
}

/// A text as an attribute.
pub(super) fn text(value: &str) -> Attr {
    Attr::String(value.to_string())
}

/// A node's op type, opset and attributes; inputs and outputs come with the case.
pub(super) fn node(op_type: &str, opset: u32, attrs: Vec<(&str, Attr)>) -> NodeInfo {
    NodeInfo::new(op_type, opset, 0, attrs)
}

/// An exact case whose op is parsed from a node, all inputs present.
pub(super) fn case(
    name: &str,
    node: NodeInfo,
    inputs: Vec<Built<Tensor>>,
    expected: Vec<Built<Tensor>>,
) -> Built<Case> {
    case_with(name, node, inputs.into_iter().map(Some).collect(), expected, Tolerance::Exact)
}

/// A case whose op is parsed from a node.
pub(super) fn case_with(
    name: &str,
    mut node: NodeInfo,
    inputs: Vec<Option<Built<Tensor>>>,
    expected: Vec<Built<Tensor>>,
    tolerance: Tolerance,
) -> Built<Case> {
    node.inputs = inputs.iter().map(Option::is_some).collect();
    node.outputs = vec![true; expected.len()];
    let op = Op::parse(&node).map_err(|e| Error::new(ErrorKind::Shape, format!("{name}: {e}")))?;
    Ok(Case {
        name: name.to_string(),
        op,
        inputs: inputs.into_iter().map(Option::transpose).collect::<Built<_>>()?,
        expected: expected.into_iter().collect::<Built<_>>()?,
        tolerance,
    })
}
