//! Values as Python prints them (and as JSON writes them): exporters store dicts and lists in metadata strings.

use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    List(Vec<Value>),
    /// Keys as text, `0` and `'0'` alike; the last of equal keys counts, as in Python.
    Dict(BTreeMap<String, Value>),
}

impl Value {
    pub(super) fn as_usize(&self) -> Option<usize> {
        match self {
            Value::Int(i) => usize::try_from(*i).ok(),
            Value::Float(f) if f.fract() == 0.0 && (0.0..1e9).contains(f) => Some(*f as usize),
            Value::Str(s) => s.trim().parse().ok(),
            _ => None,
        }
    }
}

/// Parses a whole text. The error says what is wrong and at which byte.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut p = Parser { text, at: 0 };
    let v = p.value(0)?;
    p.space();
    if p.at < text.len() { p.fail("something follows the value") } else { Ok(v) }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

/// Deeper nesting than any exporter writes; bounds the recursion.
const MAX_DEPTH: usize = 16;

impl Parser<'_> {
    fn fail<T>(&self, what: &str) -> Result<T, String> {
        Err(format!("{what} at byte {}", self.at))
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn eat(&mut self, c: char) -> bool {
        self.space();
        let found = self.peek() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.take();
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return self.fail("values are nested too deeply");
        }
        self.space();
        match self.peek() {
            Some('{') => {
                self.take();
                let mut dict = BTreeMap::new();
                while !self.eat('}') {
                    let key = match self.value(depth + 1)? {
                        Value::Str(s) => s,
                        Value::Int(i) => i.to_string(),
                        _ => return self.fail("a key that is neither text nor a whole number"),
                    };
                    if !self.eat(':') {
                        return self.fail("':' expected after a key");
                    }
                    let v = self.value(depth + 1)?;
                    dict.insert(key, v);
                    if !self.eat(',') {
                        if self.eat('}') {
                            break;
                        }
                        return self.fail("',' or '}' expected");
                    }
                }
                Ok(Value::Dict(dict))
            }
            Some(open @ ('[' | '(')) => {
                self.take();
                let close = if open == '[' { ']' } else { ')' };
                let mut list = Vec::new();
                while !self.eat(close) {
                    list.push(self.value(depth + 1)?);
                    if !self.eat(',') {
                        if self.eat(close) {
                            break;
                        }
                        return self.fail("',' or a closing bracket expected");
                    }
                }
                Ok(Value::List(list))
            }
            Some(quote @ ('\'' | '"')) => {
                self.take();
                self.string(quote).map(Value::Str)
            }
            Some(c) if c == '-' || c == '+' || c == '.' || c.is_ascii_digit() => self.number(),
            Some(c) if c.is_alphabetic() => {
                let word: String = self.text[self.at..].chars().take_while(|c| c.is_alphanumeric()).collect();
                let v = match word.as_str() {
                    "None" | "null" => Value::None,
                    "True" | "true" => Value::Bool(true),
                    "False" | "false" => Value::Bool(false),
                    _ => return self.fail("an unknown word"),
                };
                self.at += word.len();
                Ok(v)
            }
            Some(_) => self.fail("an unexpected character"),
            None => self.fail("the text ends where a value is expected"),
        }
    }

    fn number(&mut self) -> Result<Value, String> {
        let rest = &self.text[self.at..];
        let len =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-._".contains(c))).unwrap_or(rest.len());
        let word = &rest[..len];
        let v = match word.parse::<i64>() {
            Ok(i) => Value::Int(i),
            Err(_) => match word.parse::<f64>() {
                Ok(f) => Value::Float(f),
                Err(_) => return self.fail("a malformed number"),
            },
        };
        self.at += len;
        Ok(v)
    }

    fn string(&mut self, quote: char) -> Result<String, String> {
        let mut out = String::new();
        loop {
            match self.take() {
                None => return self.fail("a text without its closing quote"),
                Some(c) if c == quote => return Ok(out),
                Some('\\') => match self.take() {
                    Some('n') => out.push('\n'),
                    Some('t') => out.push('\t'),
                    Some('r') => out.push('\r'),
                    Some('x') => out.push(self.hex(2)?),
                    Some('u') => out.push(self.utf16()?),
                    Some('U') => out.push(self.hex(8)?),
                    Some(c @ ('\\' | '\'' | '"' | '/')) => out.push(c),
                    // Python keeps the backslash of an unknown escape.
                    Some(c) => out.extend(['\\', c]),
                    None => return self.fail("a text without its closing quote"),
                },
                Some(c) => out.push(c),
            }
        }
    }

    fn code(&mut self, digits: usize) -> Result<u32, String> {
        let word =
            self.text.get(self.at..self.at + digits).filter(|w| w.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = word.and_then(|w| u32::from_str_radix(w, 16).ok());
        match code {
            Some(c) => {
                self.at += digits;
                Ok(c)
            }
            None => self.fail("a malformed escape"),
        }
    }

    fn hex(&mut self, digits: usize) -> Result<char, String> {
        match char::from_u32(self.code(digits)?) {
            Some(c) => Ok(c),
            None => self.fail("an escape that is no character"),
        }
    }

    /// `\uXXXX`; JSON writes characters beyond 16 bits as two of them (a surrogate pair).
    fn utf16(&mut self) -> Result<char, String> {
        let first = self.code(4)?;
        let code = if (0xd800..0xdc00).contains(&first) {
            if !self.text[self.at..].starts_with("\\u") {
                return self.fail("half a surrogate pair");
            }
            self.at += 2;
            let second = self.code(4)?;
            if !(0xdc00..0xe000).contains(&second) {
                return self.fail("half a surrogate pair");
            }
            0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
        } else {
            first
        };
        match char::from_u32(code) {
            Some(c) => Ok(c),
            None => self.fail("an escape that is no character"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dict(pairs: &[(&str, Value)]) -> Value {
        Value::Dict(pairs.iter().map(|(k, v)| ((*k).to_string(), v.clone())).collect())
    }

    fn text(s: &str) -> Value {
        Value::Str(s.into())
    }

    #[test]
    fn python_and_json_are_read() {
        assert_eq!(
            parse(r#"{0: 'person', 1: "driver's seat", 2: 'it\'s \u00e9\x41 \\ \q',}"#).unwrap(),
            dict(&[("0", text("person")), ("1", text("driver's seat")), ("2", text("it's \u{e9}A \\ \\q"))])
        );
        assert_eq!(
            parse(r#"{"0": "\ud83d\ude00", "a": [1, -2.5e3, null, true]}"#).unwrap(),
            dict(&[
                ("0", text("\u{1f600}")),
                (
                    "a",
                    Value::List(vec![Value::Int(1), Value::Float(-2500.0), Value::None, Value::Bool(true)])
                )
            ])
        );
        assert_eq!(parse("(17, 3)").unwrap(), Value::List(vec![Value::Int(17), Value::Int(3)]));
        assert_eq!(parse(" [ ] ").unwrap(), Value::List(vec![]));
        assert_eq!(parse("{'猫': '犬'}").unwrap(), dict(&[("猫", text("犬"))]));
    }

    #[test]
    fn mistakes_say_where() {
        for (t, want) in [
            ("", "ends"),
            ("{0: 'a'", "expected"),
            ("[1 2]", "expected"),
            ("'abc", "closing quote"),
            ("{1.5: 2}", "key"),
            ("1 2", "follows"),
            ("{0 'a'}", "':'"),
            ("nan", "unknown word"),
            ("'\\ud800x'", "surrogate"),
            ("'\\xzz'", "escape"),
            ("1e", "malformed number"),
        ] {
            let e = parse(t).unwrap_err();
            assert!(e.contains(want) && e.contains("at byte"), "{t}: {e}");
        }
        assert!(parse(&"[".repeat(100_000)).unwrap_err().contains("deeply"));
    }

    proptest! {
        #[test]
        fn no_text_panics(t in "[\\[\\](){}:,'\"\\\\ux0-9a-fNT. é-]{0,60}") {
            let _ = parse(&t);
        }
    }
}
