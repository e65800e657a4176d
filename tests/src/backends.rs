//! The backends that suites run on: the reference in both layouts, and the CPU backend once for each instruction set that
//! this processor has.

use crate::Result;
use saltica_core::{Backend, Reference};
use saltica_cpu::{CpuBackend, Isa};
use std::sync::Arc;

/// A backend under the name that tests and ignore lists use.
#[derive(Clone)]
pub struct Named {
    /// `reference`, `reference-nhwc`, `cpu-avx2` ...
    pub name: String,
    /// The backend.
    pub backend: Arc<dyn Backend>,
}

/// All of them. CPU backends have two threads, so that work is split.
pub fn all() -> Result<Vec<Named>> {
    let named = |name: &str, backend: Arc<dyn Backend>| Named { name: name.to_string(), backend };
    let mut all = vec![
        named("reference", Arc::new(Reference { channels_last: false })),
        named("reference-nhwc", Arc::new(Reference { channels_last: true })),
    ];
    for isa in Isa::available() {
        all.push(named(&format!("cpu-{}", isa.kind().name()), Arc::new(CpuBackend::with_isa(isa, 2)?)));
    }
    Ok(all)
}

/// The CPU backend with the best instruction set and this many threads.
pub fn cpu(threads: usize) -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(CpuBackend::new(Some(threads))?))
}
