//! Handing a result to the sinks allocates nothing, pictures and metrics included, however slow a sink is.

#[path = "common/counting.rs"]
mod counting;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use saltica_pipeline::frame::{Frame, FrameFormat, FrameInfo, Pool, SourceId};
use saltica_pipeline::sink::metrics::{PipelineMetrics, Registry};
use saltica_pipeline::sink::{All, Demand, Feed, Flow, FrameResult, Object, Sink, SinkPlan, Sinks};
use saltica_tensor::PixelFormat;
use saltica_vision::Labels;

/// Takes nothing until it is let go.
struct Held(Arc<AtomicBool>);

impl Sink for Held {
    fn name(&self) -> &str {
        "held"
    }
    fn demand(&self) -> Option<Arc<dyn Demand>> {
        Some(Arc::new(All))
    }
    fn accept(&mut self, result: &FrameResult) -> saltica_pipeline::Result<Flow> {
        assert!(result.picture.pixels().is_some() && result.objects.len() == 20);
        while !self.0.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Flow::More)
    }
    fn close(&mut self) -> saltica_pipeline::Result<()> {
        Ok(())
    }
}

#[test]
fn results_cost_no_allocation() {
    let go = Arc::new(AtomicBool::new(false));
    let plan = SinkPlan { queue: 4, ..SinkPlan::default() };
    // One sink: with several, how many results are held together depends on who is faster.
    let held: Box<dyn Sink> = Box::new(Held(Arc::clone(&go)));
    let sinks = Arc::new(Sinks::start(vec![(held, plan)]).unwrap());
    let registry = Registry::new();
    let names = ["a".to_owned(), "b".to_owned()];
    let numbers = PipelineMetrics::new(&registry, &names).unwrap();
    let labels = Labels::new(vec!["person".into()]).unwrap();
    let mut feed = Feed::new(Arc::clone(&sinks), Arc::clone(&numbers), Some(labels));
    let format = FrameFormat::packed(PixelFormat::Nv12, 64, 48).unwrap();
    let lease = Pool::new(1).take(format.needed(0), Duration::ZERO).unwrap();
    let frame = Frame::owned(format, lease, Duration::from_secs(1)).unwrap();
    let mut send = |i: u32| {
        let captured = Duration::from_millis(u64::from(i));
        let info = FrameInfo { source: SourceId(i % 2), captured, ..frame.info() };
        let wanted = sinks.wants_picture(info.source, captured);
        feed.send(&info, wanted.then_some(&frame), |r| {
            r.objects.extend((0..20).map(|_| Object::new(0, 0.5, [1.0, 2.0, 3.0, 4.0])));
        });
    };
    // Until the sink holds all it can.
    let full = |sinks: &Sinks| sinks.reports().iter().all(|r| r.waiting == 4 && !r.busy.is_zero());
    for i in 0.. {
        send(i);
        if full(&sinks) {
            break;
        }
    }
    (0..20).for_each(&mut send);
    let before = counting::of_thread();
    (0..300).for_each(&mut send);
    assert_eq!(counting::of_thread() - before, 0, "with a sink that hangs");
    go.store(true, Ordering::Relaxed);
    let before = counting::of_thread();
    (0..300).for_each(&mut send);
    assert_eq!(counting::of_thread() - before, 0, "with a sink that works");
    assert!(numbers.results() > 600);
}
