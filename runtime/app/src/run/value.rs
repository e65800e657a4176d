//! What a setting may be, read from text (a flag) or from TOML with the same limits and the same words.

use std::fmt;
use std::time::Duration;

use toml::de::{DeArray, DeValue};

/// The value of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Words.
    Text(String),
    /// A number without fraction; bytes, too.
    Whole(u64),
    /// A number.
    Number(f64),
    /// On or off.
    Switch(bool),
    /// A length of time.
    Span(Duration),
    /// Several words.
    Texts(Vec<String>),
}

/// What a setting may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Words; what they are is told by this name.
    Text(&'static str),
    /// Several of them; in TOML an array.
    Texts(&'static str),
    /// One of these.
    Choice(&'static [&'static str]),
    /// A whole number between these, both included.
    Whole(u64, u64),
    /// A number between these, both included.
    Number(f64, f64),
    /// On or off.
    Switch,
    /// A length of time between these many milliseconds, both included: `50ms`, `2s`, `10m`, `1h`.
    Span(u64, u64),
    /// A size: `512M`, `2G`, or bytes.
    Bytes,
    /// An address to listen at; the flag alone means [`Kind::PORT`].
    Address,
}

/// What is wanted, for messages: "a whole number from 1 to 64".
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Text(what) => write!(f, "{what}"),
            Kind::Texts(what) => write!(f, "a list, each {what}"),
            Kind::Choice(names) => write!(f, "one of {}", names.join(", ")),
            Kind::Whole(lo, u64::MAX) => write!(f, "a whole number from {lo}"),
            Kind::Whole(lo, hi) => write!(f, "a whole number from {lo} to {hi}"),
            Kind::Number(lo, hi) => write!(f, "a number from {lo} to {hi}"),
            Kind::Switch => write!(f, "true or false"),
            Kind::Span(lo, hi) => write!(f, "a time from {} to {}", Span(*lo), Span(*hi)),
            Kind::Bytes => write!(f, "a size such as 512M or 2G"),
            Kind::Address => {
                write!(
                    f,
                    "an address such as :8080 (this machine only) or 0.0.0.0:8080 (everybody who reaches it)"
                )
            }
        }
    }
}

/// Milliseconds as they are written.
struct Span(u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, name) in UNITS {
            if self.0 >= unit && self.0.is_multiple_of(unit) {
                return write!(f, "{}{name}", self.0 / unit);
            }
        }
        write!(f, "{}ms", self.0)
    }
}

/// Units of time in milliseconds, the largest first.
const UNITS: [(u64, &str); 3] = [(3_600_000, "h"), (60_000, "m"), (1000, "s")];
/// Units of memory, the largest first.
const SIZES: [(u64, &str); 3] = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];

impl fmt::Display for Value {
    /// As it would be written in TOML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(t) => write!(f, "{t:?}"),
            Value::Whole(n) => write!(f, "{n}"),
            Value::Number(n) => write!(f, "{n}"),
            Value::Switch(on) => write!(f, "{on}"),
            Value::Span(d) => write!(f, "\"{}\"", Span(d.as_millis() as u64)),
            Value::Texts(all) => write!(f, "{all:?}"),
        }
    }
}

impl Kind {
    /// Where pages are served when no address is given.
    pub const PORT: &'static str = ":8080";

    /// The name of a flag's value in its help; none for a switch.
    pub fn placeholder(&self) -> Option<&'static str> {
        Some(match self {
            Kind::Text(_) => "TEXT",
            Kind::Texts(_) => "TEXT,...",
            Kind::Choice(_) => "NAME",
            Kind::Whole(..) | Kind::Number(..) => "N",
            Kind::Switch => return None,
            Kind::Span(..) => "TIME",
            Kind::Bytes => "SIZE",
            Kind::Address => "ADDRESS",
        })
    }

    /// Reads a flag's text.
    ///
    /// # Errors
    /// What was expected. The text itself is not repeated: it may hold a password.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        let found = match *self {
            Kind::Text(_) => (!text.is_empty()).then(|| Value::Text(text.to_owned())),
            Kind::Texts(_) => {
                let all: Vec<String> = text.split(',').map(|t| t.trim().to_owned()).collect();
                all.iter().all(|t| !t.is_empty()).then_some(Value::Texts(all))
            }
            Kind::Choice(names) => names.contains(&text).then(|| Value::Text(text.to_owned())),
            Kind::Whole(lo, hi) => text.parse().ok().filter(|n| (lo..=hi).contains(n)).map(Value::Whole),
            Kind::Number(lo, hi) => text.parse().ok().filter(|n| (lo..=hi).contains(n)).map(Value::Number),
            Kind::Switch => text.parse().ok().map(Value::Switch),
            Kind::Span(lo, hi) => span(text)
                .filter(|d| (Duration::from_millis(lo)..=Duration::from_millis(hi)).contains(d))
                .map(Value::Span),
            Kind::Bytes => bytes(text).map(Value::Whole),
            Kind::Address => {
                saltica_pipeline::sink::web::address(text).ok().map(|_| Value::Text(text.to_owned()))
            }
        };
        found.ok_or_else(|| format!("{self} expected"))
    }

    /// Reads a value of a TOML file, whose type must be the setting's: a number is not written as a text.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub fn read_toml(&self, value: &DeValue<'_>) -> Result<Value, String> {
        let wrong = || format!("{} found, {self} expected", type_name(value));
        match (self, value) {
            (Kind::Switch, DeValue::Boolean(on)) => Ok(Value::Switch(*on)),
            (Kind::Whole(..) | Kind::Bytes, DeValue::Integer(n)) if n.radix() == 10 => self.read(n.as_str()),
            (Kind::Number(..), DeValue::Integer(n)) if n.radix() == 10 => self.read(n.as_str()),
            (Kind::Number(..), DeValue::Float(n)) => self.read(n.as_str()),
            (Kind::Texts(_), DeValue::Array(all)) => texts(all).map(Value::Texts).ok_or_else(wrong),
            (
                Kind::Text(_) | Kind::Choice(_) | Kind::Span(..) | Kind::Bytes | Kind::Address,
                DeValue::String(s),
            ) => self.read(s),
            _ => Err(wrong()),
        }
    }
}

/// An array of texts.
pub(super) fn texts(all: &DeArray<'_>) -> Option<Vec<String>> {
    all.iter().map(|v| v.get_ref().as_str().map(str::to_owned)).collect()
}

/// What a TOML value is, for messages.
pub(super) fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn span(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1.0,
        unit => UNITS.iter().find(|(_, name)| *name == unit)?.0 as f64,
    };
    let n: f64 = digits.trim().parse().ok()?;
    Duration::try_from_secs_f64(n * unit / 1e3).ok()
}

fn bytes(text: &str) -> Option<u64> {
    let text = text.strip_suffix("iB").or(text.strip_suffix('B')).unwrap_or(text);
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        unit => SIZES.iter().find(|(_, name)| name.eq_ignore_ascii_case(unit))?.0,
    };
    let n: f64 = digits.trim().parse().ok().filter(|n: &f64| *n > 0.0 && n.is_finite())?;
    let all = n * unit as f64;
    (all >= 1.0 && all < 2f64.powi(63)).then_some(all as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_bounded() {
        let ms = |n| Ok(Value::Span(Duration::from_millis(n)));
        let span = Kind::Span(1, 3_600_000);
        for (text, want) in [("50ms", 50), ("2s", 2000), ("1.5 s", 1500), ("10m", 600_000), ("1h", 3_600_000)]
        {
            assert_eq!(span.read(text), ms(want), "{text}");
        }
        for bad in ["50", "", "ms", "-1s", "2h", "0ms", "1e400s", "infs", "nans", "5 days"] {
            assert_eq!(span.read(bad).unwrap_err(), "a time from 1ms to 1h expected", "{bad}");
        }
        for (text, want) in
            [("512M", 512 << 20), ("2G", 2 << 30), ("1.5k", 1536), ("100", 100), ("1MiB", 1 << 20)]
        {
            assert_eq!(Kind::Bytes.read(text), Ok(Value::Whole(want)), "{text}");
        }
        for bad in ["", "M", "-1M", "1X", "inf", "1e30G", "0"] {
            assert!(Kind::Bytes.read(bad).is_err(), "{bad}");
        }
        assert!(Kind::Number(0.0, 1.0).read("nan").is_err());
        assert!(Kind::Choice(&["a", "b"]).read("c").unwrap_err().contains("one of a, b"));
        assert_eq!(Kind::Texts("x").read("a, b"), Ok(Value::Texts(vec!["a".into(), "b".into()])));
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for (kind, text) in [
            (Kind::Span(1, u64::MAX), "90s"),
            (Kind::Span(1, u64::MAX), "50ms"),
            (Kind::Span(1, u64::MAX), "2h"),
            (Kind::Text("x"), "a \"b\" \\c"),
            (Kind::Whole(0, 9), "7"),
            (Kind::Number(0.0, 1.0), "0.25"),
            (Kind::Switch, "true"),
            (Kind::Texts("x"), "a,b"),
        ] {
            let value = kind.read(text).unwrap();
            let file = format!("x = {value}");
            let table = toml::de::DeTable::parse(&file).unwrap();
            assert_eq!(kind.read_toml(table.get_ref()["x"].get_ref()), Ok(value), "{file}");
        }
    }
}
