use super::moves::moves_only;
use crate::graph::{Node, Op, ValueId};
use crate::passes::edit::Editor;
use saltica_tensor::{DType, Tensor};

/// Scale and zero point of a QuantizeLinear or DequantizeLinear, one for the whole tensor and both constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Params {
    /// As it is stored, widened.
    pub(super) scale: f32,
    pub(super) zero_point: i32,
    /// The quantized dtype, where the zero point, or else the quantized value or its maker, shows it.
    pub(super) dtype: Option<DType>,
}

impl Params {
    pub(super) fn of(edit: &Editor<'_>, node: &Node) -> Option<Self> {
        let scale = edit.constant(node.inputs.get(1).copied().flatten())?;
        let (zero_point, dtype) = match node.inputs.get(2).copied().flatten() {
            None => match &node.op {
                Op::QuantizeLinear(op) => (0, Some(op.dtype)),
                _ => (0, node.inputs.first().copied().flatten().and_then(|q| quantized_dtype(edit, q))),
            },
            id => {
                let z = edit.constant(id)?;
                (z.shape().elements() == 1).then_some(())?;
                (z.view().at_f64(0) as i32, Some(z.dtype()))
            }
        };
        let eight_bits = dtype.is_none_or(|d| matches!(d, DType::I8 | DType::U8));
        let scale = (scale.shape().elements() == 1).then(|| scale.view().at_f64(0) as f32)?;
        (eight_bits && scale.is_finite() && scale > 0.0).then_some(Params { scale, zero_point, dtype })
    }
}

/// Type of a value that is about to be dequantized: what its maker gives (for moved numbers, what they were before), or else
/// what the file declares.
fn quantized_dtype(edit: &Editor<'_>, mut id: ValueId) -> Option<DType> {
    loop {
        if let Some(constant) = edit.constant(Some(id)) {
            return Some(constant.dtype());
        }
        let Some((_, node)) = edit.maker(id) else { return edit.value(id).dtype };
        match &node.op {
            Op::QuantizeLinear(op) => {
                return match node.inputs.get(2).copied().flatten() {
                    None => Some(op.dtype),
                    zero => edit.constant(zero).map(Tensor::dtype).or(edit.value(id).dtype),
                };
            }
            Op::Cast(op) => return Some(op.to),
            op if op.name() == "Concat" || moves_only(node) => id = node.inputs.first().copied().flatten()?,
            _ => return edit.value(id).dtype,
        }
    }
}
