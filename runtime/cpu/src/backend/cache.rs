use crate::{PackedConv, Result};
use saltica_models::graph::ops::Conv;
use saltica_tensor::Tensor;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Packed weights by the constants they were made from, so that the plans of one model for several shapes share them.
#[derive(Default)]
pub(super) struct Cache {
    convs: Mutex<Vec<Entry>>,
}

struct Entry {
    op: Conv,
    /// The constants: held, so that their addresses are theirs alone.
    weights: Tensor,
    bias: Option<Tensor>,
    packed: Weak<PackedConv>,
}

fn same(a: &Tensor, b: &Tensor) -> bool {
    std::ptr::eq(a.bytes(), b.bytes()) && a.shape() == b.shape()
}

impl Cache {
    /// The packed form, made by `pack` if no living kernel has it.
    pub(super) fn conv(
        &self,
        op: &Conv,
        weights: &Tensor,
        bias: Option<&Tensor>,
        pack: impl FnOnce() -> Result<PackedConv>,
    ) -> Result<Arc<PackedConv>> {
        let mut convs = self.convs.lock().unwrap_or_else(PoisonError::into_inner);
        convs.retain(|e| e.packed.strong_count() > 0);
        let found = convs.iter().find(|e| {
            e.op == *op
                && same(&e.weights, weights)
                && match (&e.bias, bias) {
                    (None, None) => true,
                    (Some(a), Some(b)) => same(a, b),
                    _ => false,
                }
        });
        if let Some(packed) = found.and_then(|e| e.packed.upgrade()) {
            return Ok(packed);
        }
        let packed = Arc::new(pack()?);
        convs.push(Entry {
            op: op.clone(),
            weights: weights.clone(),
            bias: bias.cloned(),
            packed: Arc::downgrade(&packed),
        });
        Ok(packed)
    }
}
