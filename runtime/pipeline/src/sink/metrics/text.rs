//! Prometheus' text format.

use std::fmt::Write;

/// What a metric's numbers mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only rises.
    Counter,
    /// It rises and falls.
    Gauge,
    /// Counts by size.
    Histogram,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// Collects the numbers of one answer. Series of one name may come in any order: they are brought together, as the format
/// asks.
#[derive(Debug, Default)]
pub struct Scrape {
    families: Vec<(String, Kind, String, String)>,
}

impl Scrape {
    /// Adds a counter's value.
    pub fn counter(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        let out = self.family(name, Kind::Counter, help);
        sample(out, name, "", labels, None, value);
    }

    /// Adds a gauge's value.
    pub fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) {
        let out = self.family(name, Kind::Gauge, help);
        sample(out, name, "", labels, None, value);
    }

    /// Adds a histogram: upper bounds and, one more, counts of what lies between them.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
        (bounds, counts): (&[f64], &[u64]),
        sum: f64,
    ) {
        let out = self.family(name, Kind::Histogram, help);
        let mut below = 0;
        for (bound, count) in bounds.iter().chain(&[f64::INFINITY]).zip(counts) {
            below += count;
            sample(out, name, "_bucket", labels, Some(*bound), below as f64);
        }
        sample(out, name, "_sum", labels, None, sum);
        sample(out, name, "_count", labels, None, below as f64);
    }

    fn family(&mut self, name: &str, kind: Kind, help: &str) -> &mut String {
        let at = self.families.iter().position(|(n, ..)| n == name).unwrap_or_else(|| {
            self.families.push((name.to_owned(), kind, help.to_owned(), String::new()));
            self.families.len() - 1
        });
        &mut self.families[at].3
    }

    pub(super) fn finish(self) -> String {
        let mut out = String::new();
        for (name, kind, help, samples) in self.families {
            out.push_str("# HELP ");
            out.push_str(&name);
            out.push(' ');
            escape(&mut out, &help, false);
            // Writing to a string cannot fail.
            let _ = writeln!(out, "\n# TYPE {name} {}", kind.name());
            out.push_str(&samples);
        }
        out
    }
}

fn sample(out: &mut String, name: &str, suffix: &str, labels: &[(&str, &str)], le: Option<f64>, value: f64) {
    out.push_str(name);
    out.push_str(suffix);
    let mut separator = '{';
    for (key, text) in labels {
        out.push(separator);
        separator = ',';
        out.push_str(key);
        out.push_str("=\"");
        escape(out, text, true);
        out.push('"');
    }
    if let Some(bound) = le {
        out.push(separator);
        separator = ',';
        out.push_str("le=\"");
        number(out, bound);
        out.push('"');
    }
    if separator == ',' {
        out.push('}');
    }
    out.push(' ');
    number(out, value);
    out.push('\n');
}

fn number(out: &mut String, value: f64) {
    let special = match value {
        v if v.is_nan() => "NaN",
        f64::INFINITY => "+Inf",
        f64::NEG_INFINITY => "-Inf",
        v => {
            let _ = write!(out, "{v}");
            return;
        }
    };
    out.push_str(special);
}

/// Help texts escape backslashes and line ends, label values quotes too.
fn escape(out: &mut String, text: &str, quotes: bool) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            c => out.push(c),
        }
    }
}

/// Whether a text may name a metric or a label.
pub(super) fn is_name(text: &str) -> bool {
    let ok = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    text.chars().all(ok) && text.starts_with(|c: char| !c.is_ascii_digit())
}
