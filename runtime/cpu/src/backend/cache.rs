use crate::Result;
use saltica_tensor::Tensor;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Packed weights by the op and the constants they were made from, so that the plans of one model for several shapes
/// share them.
pub(super) struct Cache<O, P> {
    entries: Mutex<Vec<Entry<O, P>>>,
}

struct Entry<O, P> {
    op: O,
    /// The constants: held, so that their addresses are theirs alone.
    constants: Vec<Tensor>,
    packed: Weak<P>,
}

fn same(a: &Tensor, b: &Tensor) -> bool {
    std::ptr::eq(a.bytes(), b.bytes()) && a.shape() == b.shape()
}

impl<O, P> Default for Cache<O, P> {
    fn default() -> Self {
        Cache { entries: Mutex::default() }
    }
}

impl<O: Clone + PartialEq, P> Cache<O, P> {
    /// The packed form, made by `pack` if no living kernel has it.
    pub(super) fn get(
        &self,
        op: &O,
        constants: &[&Tensor],
        pack: impl FnOnce() -> Result<P>,
    ) -> Result<Arc<P>> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|e| e.packed.strong_count() > 0);
        let found = entries.iter().find(|e| {
            e.op == *op
                && e.constants.len() == constants.len()
                && e.constants.iter().zip(constants).all(|(a, b)| same(a, b))
        });
        if let Some(packed) = found.and_then(|e| e.packed.upgrade()) {
            return Ok(packed);
        }
        let packed = Arc::new(pack()?);
        entries.push(Entry {
            op: op.clone(),
            constants: constants.iter().map(|&t| t.clone()).collect(),
            packed: Arc::downgrade(&packed),
        });
        Ok(packed)
    }
}
