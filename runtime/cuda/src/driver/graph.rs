use super::{Device, Stream, failed};
use crate::Result;
use cudarc::driver::{result, sys};
use std::sync::Arc;

/// Recorded work, ready to be replayed with one call.
pub(crate) struct Graph {
    device: Arc<Device>,
    graph: sys::CUgraph,
    exec: sys::CUgraphExec,
}

// SAFETY: a graph is launched through `&mut self` only, by a thread that binds the context.
unsafe impl Send for Graph {}

impl Graph {
    /// Takes a recorded graph over and makes it ready.
    ///
    /// # Safety
    /// `graph` comes from the driver and belongs to nobody else.
    pub(super) unsafe fn of(device: &Arc<Device>, graph: sys::CUgraph) -> Result<Graph> {
        // SAFETY: the caller's.
        let exec = unsafe { result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) };
        match exec {
            Ok(exec) => Ok(Graph { device: device.clone(), graph, exec }),
            Err(e) => {
                // SAFETY: the caller's; it belongs to nobody now.
                let _ = unsafe { result::graph::destroy(graph) };
                Err(failed("making a graph of the recorded work", e))
            }
        }
    }

    /// Puts what it needs on the device, so that the first launch is as fast as the others.
    pub(crate) fn upload(&mut self, stream: &Stream) -> Result<()> {
        self.device.bind()?;
        // SAFETY: both live.
        unsafe { result::graph::upload(self.exec, stream.raw()) }.map_err(|e| failed("uploading a graph", e))
    }

    /// Replays, when the stream gets there.
    pub(crate) fn launch(&mut self, stream: &Stream) -> Result<()> {
        self.device.bind()?;
        // SAFETY: both live.
        unsafe { result::graph::launch(self.exec, stream.raw()) }.map_err(|e| failed("launching a graph", e))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made in `of`, destroyed once each; the driver keeps running launches alive.
        let gone = self.device.bind().map(|()| unsafe {
            (result::graph::exec_destroy(self.exec), result::graph::destroy(self.graph))
        });
        if !matches!(gone, Ok((Ok(()), Ok(())))) {
            log::debug!("destroying a graph: {gone:?}");
        }
    }
}
