//! Pictures for those who look, encoded only while they do.
//!
//! The preview page gets all its sources in one stream, since browsers open few connections to one server. The stream is a
//! sequence of messages: a line of JSON, and behind it `bytes` bytes if it has that key. `picture` messages hold the result
//! (record `result`) and the JPEG without boxes, which the page draws itself: sharp at any size. `status` messages come
//! once a second. Whoever is slow misses pictures.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Result;
use crate::frame::{SourceId, lock};
use crate::sink::annotate::{Annotated, jpeg, scaled};
use crate::sink::pace::{Due, Turns};
use crate::sink::{Demand, Flow, FrameResult, Sink};

/// What previews may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PreviewOptions {
    /// Pictures per second of one source at most.
    pub fps: f64,
    /// Pictures per second of all sources together at most; each source looked at gets the same share.
    pub total_fps: f64,
    /// Width of pictures where several sources are shown.
    pub small: usize,
    /// Width of pictures where one source is shown, and of annotated ones.
    pub large: usize,
    /// JPEG quality, 1 to 100.
    pub quality: u8,
}

impl Default for PreviewOptions {
    fn default() -> Self {
        PreviewOptions { fps: 15.0, total_fps: 40.0, small: 640, large: 1280, quality: 75 }
    }
}

/// What is shown of each source, and who looks at it.
#[derive(Debug)]
pub struct Preview {
    options: PreviewOptions,
    views: Vec<View>,
    /// Rises with every picture.
    version: Mutex<u64>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct View {
    small: AtomicUsize,
    large: AtomicUsize,
    annotated: AtomicUsize,
    turns: Turns,
    shown: Mutex<Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    version: u64,
    message: Option<Arc<Vec<u8>>>,
    annotated: Option<Arc<Vec<u8>>>,
}

impl View {
    fn watched(&self) -> bool {
        [&self.small, &self.large, &self.annotated].iter().any(|n| n.load(Ordering::Relaxed) > 0)
    }
}

impl Preview {
    /// Of this many sources.
    pub fn new(sources: usize, options: PreviewOptions) -> Arc<Preview> {
        Arc::new(Preview {
            options,
            views: (0..sources).map(|_| View::default()).collect(),
            version: Mutex::new(0),
            changed: Condvar::new(),
        })
    }

    /// The sink that feeds it.
    ///
    /// # Errors
    /// [`ErrorKind::Image`](crate::ErrorKind::Image) when the built-in font cannot be read.
    pub fn sink(self: &Arc<Preview>) -> Result<Box<dyn Sink>> {
        Ok(Box::new(PreviewSink {
            preview: Arc::clone(self),
            annotated: Annotated::new()?,
            seen: HashMap::new(),
        }))
    }

    /// How many sources it has.
    pub fn sources(&self) -> usize {
        self.views.len()
    }

    /// How many look at something; one who looks at two sources counts twice.
    pub fn viewers(&self) -> usize {
        let all = self.views.iter().flat_map(|v| [&v.small, &v.large, &v.annotated]);
        all.map(|n| n.load(Ordering::Relaxed)).sum()
    }

    /// Whether somebody looks at a picture of this frame, which the source's share of the rate allows.
    fn is_due(&self, turn: fn(&Turns) -> &Due, source: SourceId, captured: Duration) -> bool {
        let Some(view) = self.views.get(source.0 as usize).filter(|v| v.watched()) else { return false };
        let watched = self.views.iter().filter(|v| v.watched()).count().max(1);
        let fps = self.options.fps.min(self.options.total_fps / watched as f64).max(0.1);
        // A little less than the period, so that a camera's jitter does not halve its rate.
        turn(&view.turns).is(captured, Duration::from_secs_f64(0.9 / fps))
    }

    fn publish(&self, source: SourceId, message: Option<Vec<u8>>, annotated: Option<Vec<u8>>) {
        let Some(view) = self.views.get(source.0 as usize) else { return };
        let mut version = lock(&self.version);
        *version += 1;
        let mut shown = lock(&view.shown);
        shown.version = *version;
        shown.message = message.map(Arc::new);
        shown.annotated = annotated.map(Arc::new);
        drop((shown, version));
        self.changed.notify_all();
    }

    /// Looks at sources as the page does.
    pub(super) fn watch(self: &Arc<Preview>, sources: &[SourceId], large: bool) -> Watching {
        for s in sources {
            let v = &self.views[s.0 as usize];
            (if large { &v.large } else { &v.small }).fetch_add(1, Ordering::Relaxed);
        }
        let now = *lock(&self.version);
        Watching {
            preview: Arc::clone(self),
            sources: sources.iter().map(|s| (*s, now)).collect(),
            kind: if large { Kind::Large } else { Kind::Small },
        }
    }

    /// Looks at the annotated pictures of one source.
    pub(super) fn watch_annotated(self: &Arc<Preview>, source: SourceId) -> WatchingOne {
        self.views[source.0 as usize].annotated.fetch_add(1, Ordering::Relaxed);
        let now = *lock(&self.version);
        WatchingOne(Watching {
            preview: Arc::clone(self),
            sources: vec![(source, now)],
            kind: Kind::Annotated,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Small,
    Large,
    Annotated,
}

/// Somebody who looks.
#[derive(Debug)]
pub(super) struct Watching {
    preview: Arc<Preview>,
    /// Each with the version seen last.
    sources: Vec<(SourceId, u64)>,
    kind: Kind,
}

impl Watching {
    /// The newest message of each source that has a new one; waits at most `wait` for the first.
    pub(super) fn next(&mut self, wait: Duration) -> Vec<Arc<Vec<u8>>> {
        let deadline = Instant::now() + wait;
        let mut version = lock(&self.preview.version);
        loop {
            let mut new = Vec::new();
            for (source, seen) in &mut self.sources {
                let shown = lock(&self.preview.views[source.0 as usize].shown);
                if shown.version > *seen {
                    *seen = shown.version;
                    let what = if self.kind == Kind::Annotated { &shown.annotated } else { &shown.message };
                    new.extend(what.clone());
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if !new.is_empty() || left.is_zero() {
                return new;
            }
            version =
                self.preview.changed.wait_timeout(version, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        for (source, _) in &self.sources {
            let v = &self.preview.views[source.0 as usize];
            let count = match self.kind {
                Kind::Small => &v.small,
                Kind::Large => &v.large,
                Kind::Annotated => &v.annotated,
            };
            if count.fetch_sub(1, Ordering::Relaxed) == 1 && !v.watched() {
                // Nobody needs to remember what nobody looks at.
                let mut shown = lock(&v.shown);
                (shown.message, shown.annotated) = (None, None);
            }
        }
    }
}

/// Somebody who looks at one source's annotated pictures.
#[derive(Debug)]
pub(super) struct WatchingOne(Watching);

impl WatchingOne {
    /// The next annotated picture; waits at most `wait`.
    pub(super) fn next(&mut self, wait: Duration) -> Option<Arc<Vec<u8>>> {
        self.0.next(wait).pop()
    }
}

impl Demand for Preview {
    fn wants(&self, source: SourceId, captured: Duration) -> bool {
        self.is_due(|t| &t.asked, source, captured)
    }
}

#[derive(Debug)]
struct PreviewSink {
    preview: Arc<Preview>,
    annotated: Annotated,
    /// Pictures published, by source: the page tells lost ones by it.
    seen: HashMap<SourceId, u64>,
}

#[derive(Serialize)]
struct Message<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    picture: u64,
    bytes: usize,
    result: &'a FrameResult,
}

impl Sink for PreviewSink {
    fn name(&self) -> &str {
        "preview"
    }

    fn demand(&self) -> Option<Arc<dyn Demand>> {
        Some(Arc::clone(&self.preview) as Arc<dyn Demand>)
    }

    fn accept(&mut self, result: &FrameResult) -> Result<Flow> {
        let (p, go_on) = (&self.preview, Ok(Flow::More));
        let Some(pixels) = result.picture.pixels() else { return go_on };
        if !p.is_due(|t| &t.taken, result.source, result.captured) {
            return go_on;
        }
        let Some(view) = p.views.get(result.source.0 as usize) else { return go_on };
        let (o, looks) = (p.options, |n: &AtomicUsize| n.load(Ordering::Relaxed) > 0);
        let mut message = None;
        if looks(&view.small) || looks(&view.large) {
            let widest = if looks(&view.large) { o.large } else { o.small };
            let mut picture = Vec::new();
            if let Some(small) = scaled(&pixels, widest) {
                jpeg(&small, o.quality, &mut picture)?;
            }
            let number = self.seen.entry(result.source).or_default();
            *number += 1;
            let head = Message { kind: "picture", picture: *number, bytes: picture.len(), result };
            let mut all = serde_json::to_vec(&head).map_err(|e| {
                crate::Error::new(crate::ErrorKind::Bug, format!("a result that is no JSON: {e}"))
            })?;
            all.push(b'\n');
            all.append(&mut picture);
            message = Some(all);
        }
        let mut annotated = None;
        if looks(&view.annotated)
            && let Some(picture) = self.annotated.draw(result, o.large)
        {
            let mut bytes = Vec::new();
            jpeg(&picture, o.quality, &mut bytes)?;
            annotated = Some(bytes);
        }
        if message.is_some() || annotated.is_some() {
            p.publish(result.source, message, annotated);
        }
        go_on
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::Object;
    use crate::sink::annotate::tests::gray;

    fn result(source: u32, ms: u64) -> FrameResult {
        let mut r = gray(1600, 400);
        (r.source, r.frame, r.captured) = (SourceId(source), ms, Duration::from_millis(ms));
        r.objects.push(Object::new(2, 0.5, [100.0, 100.0, 400.0, 300.0]));
        r
    }

    fn split(message: &[u8]) -> (serde_json::Value, image::DynamicImage) {
        let end = message.iter().position(|b| *b == b'\n').unwrap();
        let head: serde_json::Value = serde_json::from_slice(&message[..end]).unwrap();
        assert_eq!(head["bytes"].as_u64().unwrap() as usize, message.len() - end - 1);
        (head, image::load_from_memory(&message[end + 1..]).unwrap())
    }

    #[test]
    fn pictures_are_made_only_while_somebody_looks() {
        let p = Preview::new(2, PreviewOptions::default());
        let mut sink = p.sink().unwrap();
        let ms = Duration::from_millis;
        assert!(!p.wants(SourceId(0), ms(0)));
        sink.accept(&result(0, 0)).unwrap();
        assert_eq!(*lock(&p.version), 0);
        let mut page = p.watch(&[SourceId(0)], false);
        assert!(p.wants(SourceId(0), ms(1000)) && !p.wants(SourceId(1), ms(1000)));
        assert!(!p.wants(SourceId(0), ms(1010)), "not due yet");
        assert!(!p.wants(SourceId(7), ms(1000)), "no such source");
        assert!(page.next(Duration::ZERO).is_empty());
        sink.accept(&result(0, 1000)).unwrap();
        let got = page.next(Duration::from_secs(60));
        let (head, picture) = split(&got[0]);
        assert_eq!((picture.width(), picture.height()), (640, 160));
        assert_eq!((&head["type"], &head["picture"]), (&"picture".into(), &1.into()));
        assert_eq!(head["result"]["frame_id"], 1000);
        assert_eq!(head["result"]["detections"][0]["box"][2], 400.0);
        // The page draws the boxes: they are not in the picture.
        assert_eq!(picture.to_rgb8().get_pixel(41, 60).0, [90; 3]);
        drop(page);
        assert_eq!(p.viewers(), 0);
        assert!(!p.wants(SourceId(0), ms(5000)) && lock(&p.views[0].shown).message.is_none());
    }

    #[test]
    fn one_source_alone_is_larger_and_annotated_pictures_have_boxes() {
        let p = Preview::new(2, PreviewOptions::default());
        let mut sink = p.sink().unwrap();
        let (mut large, mut one) = (p.watch(&[SourceId(1)], true), p.watch_annotated(SourceId(1)));
        sink.accept(&result(1, 1000)).unwrap();
        let (_, picture) = split(&large.next(Duration::from_secs(60))[0]);
        assert_eq!(picture.width(), 1280);
        let annotated = image::load_from_memory(&one.next(Duration::from_secs(60)).unwrap()).unwrap();
        let [r, g, b] = annotated.to_rgb8().get_pixel(81, 200).0;
        let [x, y, z] = saltica_vision::draw::color(2);
        let off = |a: u8, b: u8| (i32::from(a) - i32::from(b)).abs();
        assert!(off(r, x) + off(g, y) + off(b, z) < 90, "{:?}", [r, g, b]);
        assert!(one.next(Duration::ZERO).is_none());
    }

    #[test]
    fn many_sources_share_the_rate() {
        let rate = |watched: u32| {
            let p = Preview::new(8, PreviewOptions::default());
            let all: Vec<SourceId> = (0..watched).map(SourceId).collect();
            let _page = p.watch(&all, false);
            (0..1000).filter(|i| p.wants(SourceId(0), Duration::from_millis(100 + i * 10))).count()
        };
        // In 10 s: 15 a second of one alone, 5 a second of each of eight, and up to a ninth more for jitter.
        assert!((150..=167).contains(&rate(1)), "{}", rate(1));
        assert!((50..=56).contains(&rate(8)), "{}", rate(8));
    }
}
