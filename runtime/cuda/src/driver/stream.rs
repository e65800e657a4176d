use super::{Device, Graph, failed};
use crate::Result;
use cudarc::driver::{result, sys};
use std::sync::Arc;
use std::time::Duration;

/// A stream of its own (never the null stream, which all others wait for).
pub(crate) struct Stream {
    device: Arc<Device>,
    stream: sys::CUstream,
}

// SAFETY: streams may be used from any thread that binds the context.
unsafe impl Send for Stream {}
// SAFETY: as above; the driver's calls are thread-safe.
unsafe impl Sync for Stream {}

impl Stream {
    /// A non-blocking stream; `urgent` ones go first.
    pub(crate) fn new(device: &Arc<Device>, urgent: bool) -> Result<Stream> {
        device.bind()?;
        let (least, greatest) =
            result::stream::get_priority_range().map_err(|e| failed("asking for priorities", e))?;
        let priority = if urgent { greatest } else { least };
        let stream = result::stream::create_with_priority(result::stream::StreamKind::NonBlocking, priority)
            .map_err(|e| failed("making a stream", e))?;
        Ok(Stream { device: device.clone(), stream })
    }

    pub(super) fn raw(&self) -> sys::CUstream {
        self.stream
    }

    /// Waits until all its work is done. Errors of that work show here.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.device.bind()?;
        // SAFETY: the stream lives.
        unsafe { result::stream::synchronize(self.stream) }.map_err(|e| failed("waiting for the GPU", e))
    }

    /// Records what `record` gives the stream instead of doing it.
    pub(crate) fn capture(&self, record: impl FnOnce() -> Result<()>) -> Result<Graph> {
        self.device.bind()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives and is capturing nothing.
        unsafe { result::stream::begin_capture(self.stream, mode) }
            .map_err(|e| failed("beginning a capture", e))?;
        let recorded = record();
        // SAFETY: a capture has begun; it must end whatever became of the recording.
        let graph = unsafe { result::stream::end_capture(self.stream) };
        if let (Err(_), Ok(graph)) = (&recorded, &graph)
            && !graph.is_null()
        {
            // SAFETY: made just now, owned by nobody.
            let _ = unsafe { result::graph::destroy(*graph) };
        }
        recorded?;
        // SAFETY: the graph was made just now and is handed over.
        unsafe { Graph::of(&self.device, graph.map_err(|e| failed("ending a capture", e))?) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        let gone = self.device.bind().map(|()| unsafe { result::stream::destroy(self.stream) });
        if !matches!(gone, Ok(Ok(()))) {
            log::debug!("destroying a stream: {gone:?}");
        }
    }
}

/// A point in a stream whose time is taken.
pub(crate) struct Event {
    device: Arc<Device>,
    event: sys::CUevent,
}

// SAFETY: events may be used from any thread that binds the context.
unsafe impl Send for Event {}
// SAFETY: as above; the driver's calls are thread-safe.
unsafe impl Sync for Event {}

impl Event {
    /// An event that takes the time.
    pub(crate) fn new(device: &Arc<Device>) -> Result<Event> {
        device.bind()?;
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)
            .map_err(|e| failed("making an event", e))?;
        Ok(Event { device: device.clone(), event })
    }

    /// Marks the place in the stream.
    pub(crate) fn record(&self, stream: &Stream) -> Result<()> {
        self.device.bind()?;
        // SAFETY: both live.
        unsafe { result::event::record(self.event, stream.raw()) }
            .map_err(|e| failed("recording an event", e))
    }

    /// Waits until the stream has passed it.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.device.bind()?;
        // SAFETY: the event lives.
        unsafe { result::event::synchronize(self.event) }.map_err(|e| failed("waiting for an event", e))
    }

    /// Time from `earlier` to this, both passed.
    pub(crate) fn since(&self, earlier: &Event) -> Result<Duration> {
        self.device.bind()?;
        // SAFETY: both live.
        let ms = unsafe { result::event::elapsed(earlier.event, self.event) }
            .map_err(|e| failed("reading an event", e))?;
        Ok(Duration::from_secs_f64(f64::from(ms.max(0.0)) / 1e3))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once.
        let gone = self.device.bind().map(|()| unsafe { result::event::destroy(self.event) });
        if !matches!(gone, Ok(Ok(()))) {
            log::debug!("destroying an event: {gone:?}");
        }
    }
}
