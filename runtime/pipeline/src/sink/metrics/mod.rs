//! Numbers about the running program, as Prometheus reads them.
//!
//! A [`Registry`] holds [`Counter`]s, [`Gauge`]s and [`Histogram`]s: atomics, so that counting never waits and allocates
//! nothing. What others count already (sources, sinks, the process) is read when somebody looks
//! ([`Registry::on_scrape`]). [`Registry::text`] is the text format, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

mod pipeline;
mod process;
mod text;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub use pipeline::{PipelineMetrics, SourceNumbers, report, sinks, sources, stages};
pub use process::{build, process};
pub use text::{Kind, Scrape};

use crate::frame::lock;
use crate::{Error, ErrorKind, Result};

/// Counts up, from the program's start.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicU64>);

impl Gauge {
    /// Sets it.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// What it was set to last; 0 before.
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// Counts values by size.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<Buckets>);

#[derive(Debug)]
struct Buckets {
    /// Upper bounds, inclusive, rising.
    bounds: Box<[f64]>,
    /// One more than bounds: what is beyond the last.
    counts: Box<[AtomicU64]>,
    /// Bits of the sum of all values.
    sum: AtomicU64,
}

impl Histogram {
    fn new(bounds: &[f64]) -> Histogram {
        Histogram(Arc::new(Buckets {
            bounds: bounds.into(),
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0f64.to_bits()),
        }))
    }

    /// Counts a value; one that is not a number is left out.
    pub fn observe(&self, value: f64) {
        if value.is_nan() {
            return;
        }
        let at = self.0.bounds.partition_point(|b| *b < value);
        self.0.counts[at].fetch_add(1, Ordering::Relaxed);
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        // The closure always gives a value, so this always succeeds.
        let _ = self.0.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Values counted.
    pub fn count(&self) -> u64 {
        self.0.counts.iter().map(|c| c.load(Ordering::Relaxed)).sum()
    }

    /// Their sum.
    pub fn sum(&self) -> f64 {
        f64::from_bits(self.0.sum.load(Ordering::Relaxed))
    }
}

#[derive(Clone, Debug)]
enum Value {
    Counter(Counter),
    Gauge(Gauge),
    Histogram(Histogram),
}

#[derive(Debug)]
struct Family {
    name: String,
    help: String,
    kind: Kind,
    series: Vec<(Vec<(String, String)>, Value)>,
}

type OnScrape = Box<dyn Fn(&mut Scrape) + Send + Sync>;

/// All numbers that are shown.
#[derive(Default)]
pub struct Registry {
    families: Mutex<Vec<Family>>,
    on_scrape: Mutex<Vec<OnScrape>>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Registry({} families)", lock(&self.families).len())
    }
}

impl Registry {
    /// An empty one.
    pub fn new() -> Arc<Registry> {
        Arc::new(Registry::default())
    }

    /// A counter; asked for again with the same name and labels, the same one.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] when the name or a label's name is none, or the name is another kind of metric already.
    pub fn counter(&self, name: &str, help: &str, labels: &[(&str, &str)]) -> Result<Counter> {
        match self.get(name, help, Kind::Counter, labels, || Value::Counter(Counter::default()))? {
            Value::Counter(c) => Ok(c),
            _ => Err(other_kind(name)),
        }
    }

    /// A gauge; as [`Registry::counter`].
    ///
    /// # Errors
    /// As [`Registry::counter`].
    pub fn gauge(&self, name: &str, help: &str, labels: &[(&str, &str)]) -> Result<Gauge> {
        match self.get(name, help, Kind::Gauge, labels, || Value::Gauge(Gauge::default()))? {
            Value::Gauge(g) => Ok(g),
            _ => Err(other_kind(name)),
        }
    }

    /// A histogram with these upper bounds; as [`Registry::counter`].
    ///
    /// # Errors
    /// As [`Registry::counter`], and when the bounds do not rise or are not finite.
    pub fn histogram(
        &self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
        bounds: &[f64],
    ) -> Result<Histogram> {
        if bounds.iter().any(|b| !b.is_finite()) || bounds.windows(2).any(|w| w[0] >= w[1]) {
            return Err(Error::new(
                ErrorKind::Value,
                format!("the bounds of {name} do not rise: {bounds:?}"),
            ));
        }
        match self.get(name, help, Kind::Histogram, labels, || Value::Histogram(Histogram::new(bounds)))? {
            Value::Histogram(h) => Ok(h),
            _ => Err(other_kind(name)),
        }
    }

    fn get(
        &self,
        name: &str,
        help: &str,
        kind: Kind,
        labels: &[(&str, &str)],
        new: impl FnOnce() -> Value,
    ) -> Result<Value> {
        let bad = labels.iter().map(|(k, _)| *k).chain([name]).find(|n| !text::is_name(n));
        if let Some(bad) = bad {
            return Err(Error::new(ErrorKind::Value, format!("'{bad}' is no name of a metric or label")));
        }
        let labels: Vec<(String, String)> =
            labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut families = lock(&self.families);
        let at = match families.iter().position(|f| f.name == name) {
            Some(at) => at,
            None => {
                families.push(Family { name: name.into(), help: help.into(), kind, series: Vec::new() });
                families.len() - 1
            }
        };
        let family = &mut families[at];
        if let Some((_, value)) = family.series.iter().find(|(l, _)| *l == labels) {
            return Ok(value.clone());
        }
        if family.kind != kind {
            return Err(other_kind(name));
        }
        let value = new();
        family.series.push((labels, value.clone()));
        Ok(value)
    }

    /// Calls `scrape` whenever the numbers are asked for, to add what is counted elsewhere.
    pub fn on_scrape(&self, scrape: impl Fn(&mut Scrape) + Send + Sync + 'static) {
        lock(&self.on_scrape).push(Box::new(scrape));
    }

    /// Everything in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut all = Scrape::default();
        for f in lock(&self.families).iter() {
            for (labels, value) in &f.series {
                let labels: Vec<(&str, &str)> =
                    labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
                match value {
                    Value::Counter(c) => all.counter(&f.name, &f.help, &labels, c.get() as f64),
                    Value::Gauge(g) => all.gauge(&f.name, &f.help, &labels, g.get()),
                    Value::Histogram(h) => {
                        let counts: Vec<u64> = h.0.counts.iter().map(|c| c.load(Ordering::Relaxed)).collect();
                        all.histogram(&f.name, &f.help, &labels, (&h.0.bounds, &counts), h.sum());
                    }
                }
            }
        }
        for scrape in lock(&self.on_scrape).iter() {
            scrape(&mut all);
        }
        all.finish()
    }
}

fn other_kind(name: &str) -> Error {
    Error::new(ErrorKind::Value, format!("metric {name} exists already and is of another kind"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_what_the_format_asks_for() {
        let r = Registry::new();
        let c = r.counter("a_total", "Counts \\ things\nof a kind.", &[("source", "a\"b\\c\nd")]).unwrap();
        c.add(3);
        r.counter("a_total", "", &[("source", "other")]).unwrap().add(1);
        r.counter("a_total", "", &[("source", "a\"b\\c\nd")]).unwrap().add(1);
        r.gauge("b", "A number.", &[]).unwrap().set(-0.5);
        let h = r.histogram("c_seconds", "Times.", &[("stage", "x")], &[0.1, 1.0]).unwrap();
        for v in [0.05, 0.1, 0.5, 7.0, f64::NAN] {
            h.observe(v);
        }
        assert_eq!((h.count(), h.sum()), (4, 7.65));
        r.on_scrape(|s| {
            s.gauge("d", "Found elsewhere.", &[("state", "on")], f64::INFINITY);
            s.counter("a_total", "", &[("source", "third")], 2.0);
        });
        assert_eq!(
            r.text(),
            "# HELP a_total Counts \\\\ things\\nof a kind.\n\
             # TYPE a_total counter\n\
             a_total{source=\"a\\\"b\\\\c\\nd\"} 4\n\
             a_total{source=\"other\"} 1\n\
             a_total{source=\"third\"} 2\n\
             # HELP b A number.\n\
             # TYPE b gauge\n\
             b -0.5\n\
             # HELP c_seconds Times.\n\
             # TYPE c_seconds histogram\n\
             c_seconds_bucket{stage=\"x\",le=\"0.1\"} 2\n\
             c_seconds_bucket{stage=\"x\",le=\"1\"} 3\n\
             c_seconds_bucket{stage=\"x\",le=\"+Inf\"} 4\n\
             c_seconds_sum{stage=\"x\"} 7.65\n\
             c_seconds_count{stage=\"x\"} 4\n\
             # HELP d Found elsewhere.\n\
             # TYPE d gauge\n\
             d{state=\"on\"} +Inf\n"
        );
    }

    #[test]
    fn names_and_kinds_are_checked() {
        let r = Registry::new();
        r.counter("a_total", "", &[]).unwrap();
        for bad in [
            r.gauge("a_total", "", &[]).err(),
            r.gauge("a_total", "", &[("x", "y")]).err(),
            r.counter("0a", "", &[]).err(),
            r.counter("a b", "", &[]).err(),
            r.counter("", "", &[]).err(),
            r.counter("b", "", &[("a-b", "")]).err(),
            r.histogram("h", "", &[], &[1.0, 1.0]).err(),
            r.histogram("h", "", &[], &[f64::INFINITY]).err(),
        ] {
            assert_eq!(bad.map(|e| e.kind()), Some(ErrorKind::Value));
        }
    }

    #[test]
    fn counting_from_many_threads_loses_nothing() {
        let r = Registry::new();
        let (c, h) = (r.counter("a", "", &[]).unwrap(), r.histogram("b", "", &[], &[1.0]).unwrap());
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for i in 0..10_000 {
                        c.add(1);
                        h.observe(f64::from(i % 4));
                    }
                });
            }
        });
        assert_eq!((c.get(), h.count(), h.sum()), (40_000, 40_000, 60_000.0));
    }
}
