//! The configuration file of `saltica run`: TOML whose keys are the rows of [`KEYS`], `[[source]]` and `[[sink]]` tables (or
//! plain lists `sources` and `sinks` of addresses).
//!
//! Every error names the file, the line and the key. A line is never repeated in a message: it may hold a password.

use std::path::Path;

use saltica_pipeline::suggest::advice;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::settings::{Origin, Settings, SinkSettings, SourceSettings};
use super::table::{KEYS, SOURCE_KEYS};
use super::value::type_name;
use crate::{Error, ErrorKind, Result};

/// The text of a file and its name, for messages.
struct Text<'a> {
    text: &'a str,
    path: &'a Path,
}

impl Text<'_> {
    fn line(&self, at: usize) -> usize {
        self.text.as_bytes().iter().take(at).filter(|b| **b == b'\n').count() + 1
    }

    fn bad(&self, at: usize, what: &str) -> Error {
        Error::new(ErrorKind::Usage, format!("{}:{}: {what}", self.path.display(), self.line(at)))
    }

    fn origin(&self, at: usize) -> Origin {
        Origin::File(self.path.to_owned(), self.line(at))
    }
}

/// Reads a file's text into `settings`.
pub(super) fn read(text: &str, path: &Path, settings: &mut Settings) -> Result<()> {
    let file = Text { text, path };
    let table = DeTable::parse(text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start);
        file.bad(at, &format!("no TOML: {}", e.message()))
    })?;
    for (key, value) in table.get_ref() {
        let (name, at) = (key.get_ref().as_ref(), key.span().start);
        match name {
            "source" => {
                for (t, at) in tables(&file, "source", value)? {
                    settings.sources.push(source(&file, t, at)?);
                }
            }
            "sink" => {
                for (t, at) in tables(&file, "sink", value)? {
                    let (address, at) = address(&file, "sink", t, at, &["uri"])?;
                    settings.sinks.push(sink(&file, address, at)?);
                }
            }
            "sources" => {
                for (address, at) in addresses(&file, "sources", value)? {
                    let found = SourceSettings::new(address, file.origin(at));
                    settings.sources.push(found.map_err(|e| file.bad(at, &e.to_string()))?);
                }
            }
            "sinks" => {
                for (address, at) in addresses(&file, "sinks", value)? {
                    settings.sinks.push(sink(&file, address, at)?);
                }
            }
            _ => {
                let Some(row) = KEYS.iter().position(|k| k.name == name) else {
                    let known: Vec<&str> =
                        KEYS.iter().map(|k| k.name).chain(["source", "sources", "sink", "sinks"]).collect();
                    return Err(file.bad(at, &format!("unknown key '{name}'{}", advice(name, &known))));
                };
                let read = KEYS[row].kind.read_toml(value.get_ref());
                let read = read.map_err(|e| file.bad(at, &format!("key '{name}': {e}")))?;
                settings.put(row, read, file.origin(at));
            }
        }
    }
    Ok(())
}

type Table<'t> = &'t DeTable<'t>;

/// The tables of an array of tables, each with where it begins.
fn tables<'t>(
    file: &Text<'_>,
    name: &str,
    value: &'t Spanned<DeValue<'t>>,
) -> Result<Vec<(Table<'t>, usize)>> {
    let wrong = |at: usize, found: &DeValue<'_>| {
        file.bad(at, &format!("key '{name}': {} found, tables [[{name}]] expected", type_name(found)))
    };
    let DeValue::Array(all) = value.get_ref() else { return Err(wrong(value.span().start, value.get_ref())) };
    all.iter()
        .map(|v| match v.get_ref() {
            DeValue::Table(t) => Ok((t, v.span().start)),
            other => Err(wrong(v.span().start, other)),
        })
        .collect()
}

/// The texts of a list, each with where it stands.
fn addresses<'t>(
    file: &Text<'_>,
    name: &str,
    value: &'t Spanned<DeValue<'t>>,
) -> Result<Vec<(&'t str, usize)>> {
    let wrong = |at: usize, found: &DeValue<'_>| {
        file.bad(at, &format!("key '{name}': {} found, a list of addresses expected", type_name(found)))
    };
    let DeValue::Array(all) = value.get_ref() else { return Err(wrong(value.span().start, value.get_ref())) };
    all.iter()
        .map(|v| match v.get_ref() {
            DeValue::String(s) => Ok((s.as_ref(), v.span().start)),
            other => Err(wrong(v.span().start, other)),
        })
        .collect()
}

/// The `uri` of a table whose keys are known, and where it stands.
fn address<'t>(
    file: &Text<'_>,
    name: &str,
    table: Table<'t>,
    at: usize,
    known: &[&str],
) -> Result<(&'t str, usize)> {
    for key in table.keys() {
        let found = key.get_ref().as_ref();
        if !known.contains(&found) {
            let what = format!("unknown key '{found}' of [[{name}]]{}", advice(found, known));
            return Err(file.bad(key.span().start, &what));
        }
    }
    let Some(uri) = table.get("uri") else {
        return Err(file.bad(at, &format!("[[{name}]] has no uri: an address expected, as uri = \"...\"")));
    };
    let here = uri.span().start;
    match uri.get_ref() {
        DeValue::String(s) => Ok((s.as_ref(), here)),
        other => Err(file.bad(here, &format!("key 'uri': {} found, an address expected", type_name(other)))),
    }
}

fn sink(file: &Text<'_>, address: &str, at: usize) -> Result<SinkSettings> {
    SinkSettings::new(address, file.origin(at)).map_err(|e| file.bad(at, &e.to_string()))
}

fn source(file: &Text<'_>, table: Table<'_>, at: usize) -> Result<SourceSettings> {
    let known: Vec<&str> = std::iter::once("uri").chain(SOURCE_KEYS.iter().map(|k| k.name)).collect();
    let (address, at) = address(file, "source", table, at, &known)?;
    let found = SourceSettings::new(address, file.origin(at));
    let mut source = found.map_err(|e| file.bad(at, &e.to_string()))?;
    for (key, value) in table {
        let Some(row) = SOURCE_KEYS.iter().find(|k| k.name == key.get_ref().as_ref()) else { continue };
        let read = row.kind.read_toml(value.get_ref());
        let read = read.map_err(|e| file.bad(key.span().start, &format!("key '{}': {e}", row.name)))?;
        (row.set)(&mut source, read);
    }
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::super::settings::Flags;
    use super::super::value::Value;
    use super::*;
    use std::time::Duration;

    fn load(text: &str) -> Result<Settings> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("saltica.toml");
        std::fs::write(&path, text).unwrap();
        Settings::load(&Flags { config: Some(path), ..Flags::default() })
    }

    fn error(text: &str) -> String {
        let e = load(text).unwrap_err().to_string();
        let (_, rest) = e.split_once("saltica.toml:").unwrap_or_else(|| panic!("{e}"));
        rest.to_owned()
    }

    #[test]
    fn a_whole_file_is_read() {
        let s = load(
            "score = 0.4\nlatency-p99 = \"80ms\"\ntrack = true\nmemory-limit = \"1G\"\nsinks = [\"json:out.jsonl\"]\n\
             [[source]]\nuri = \"sim:street?seed=1\"\nname = \"door\"\nrate = 5\n\
             [[source]]\nuri = \"rtsp://u:hunter2@host/s\"\n[[sink]]\nuri = \"mqtt://u:hunter2@host/t\"\n",
        )
        .unwrap();
        assert_eq!((s.score, s.latency, s.track), (Some(0.4), Some(Duration::from_millis(80)), true));
        assert_eq!((s.sources.len(), s.sinks.len(), s.memory_limit), (2, 2, Some(1 << 30)));
        assert_eq!((s.sources[0].name(), s.sources[0].rate), ("door", Some(5.0)));
        // What nobody said has its default.
        assert_eq!((s.batch, s.restarts, s.hang), (8, 3, Duration::from_secs(20)));
        let shown = s.show();
        assert!(!shown.contains("hunter2"), "{shown}");
        for part in
            ["score = 0.4", "saltica.toml:1", "# default", "uri = \"rtsp://u:***@host/s\"", "name = \"door\""]
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        // What is shown is itself such a file.
        let again = load(&shown).unwrap();
        assert_eq!(again.score, s.score);
        assert!(again.changed(&s).all(|k| !k.default.is_empty()), "only defaults are spelt out");
    }

    #[test]
    fn mistakes_are_told_with_line_and_key() {
        for (text, want) in [
            ("\nscroe = 1\n", "2: unknown key 'scroe': did you mean 'score'?"),
            ("score = \"high\"", "1: key 'score': a text found, a number from 0 to 1 expected"),
            ("score = 2.0", "1: key 'score': a number from 0 to 1 expected"),
            ("track = 1", "1: key 'track': a whole number found, true or false expected"),
            (
                "\n\nlatency-p99 = 50",
                "3: key 'latency-p99': a whole number found, a time from 1ms to 10m expected",
            ),
            ("batch = 0", "1: key 'batch': a whole number from 1 to 64 expected"),
            (
                "[[source]]\nuri = \"sim:street\"\nrat = 5",
                "3: unknown key 'rat' of [[source]]: did you mean 'rate'?",
            ),
            ("[[source]]\nname = \"a\"", "1: [[source]] has no uri"),
            ("[[source]]\nuri = 5", "2: key 'uri': a whole number found, an address expected"),
            ("[source]\nuri = \"sim:\"", "1: key 'source': a table found, tables [[source]] expected"),
            (
                "[[source]]\nuri = \"sim:street\"\nkeep = \"some\"",
                "3: key 'keep': one of latest, all expected",
            ),
            ("sinks = [\"jsno:-\"]", "1: unknown kind of sink 'jsno:' in 'jsno:-': did you mean 'json'?"),
            ("sources = [7]", "1: key 'sources': a whole number found, a list of addresses expected"),
            ("[[sink]]\nuri = \"json:-\"\nx = 1", "3: unknown key 'x' of [[sink]]"),
        ] {
            let e = error(text);
            assert!(e.starts_with(want), "{text}: {e}");
        }
        let e = error("sources = [\"rtsp://u:hunter2@host/s#latncy=1\"]\n");
        assert!(e.contains("did you mean 'latency'") && !e.contains("hunter2"), "{e}");
        let e = error("sources = [\"rtsp://u:hunter2@host/s\"\n");
        assert!(e.contains("no TOML") && !e.contains("hunter2"), "{e}");
        assert!(load("score = 0.5\n").unwrap_err().to_string().contains("no source is given, nor in"));
    }

    #[test]
    fn flags_go_before_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, "score = 0.4\nnms = 0.3\nsources = [\"sim:street\"]\nsinks = [\"json:a\"]")
            .unwrap();
        let flags = Flags {
            config: Some(path),
            sources: vec!["sim:crowded".into(), "sim:street".into()],
            values: vec![("score", Value::Number(0.6))],
            ..Flags::default()
        };
        let s = Settings::load(&flags).unwrap();
        assert_eq!((s.score, s.nms, s.sources.len(), s.sinks.len()), (Some(0.6), Some(0.3), 2, 1));
        assert!(s.show().contains("# command line"));
    }
}
