//! Holds records against `SCHEMA.md`: the tables people read are what is checked.

use serde_json::Value;
use std::collections::BTreeMap;

/// Field name -> type, by object name; records are under `Record NAME`.
pub(crate) struct Schema(BTreeMap<String, BTreeMap<String, String>>);

impl Schema {
    pub(crate) fn load() -> Schema {
        let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/SCHEMA.md")).unwrap();
        let mut all: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        let mut name = String::new();
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("## ").or(line.strip_prefix("### ")) {
                name = heading.replace('`', "");
            } else if let Some(row) = line.strip_prefix("| `") {
                let mut cells = row.split('|').map(|c| c.trim().trim_matches('`'));
                let (field, kind) = (cells.next().unwrap(), cells.next().unwrap());
                let fields = all.entry(name.clone()).or_default();
                assert!(
                    fields.insert(field.into(), kind.into()).is_none(),
                    "{name}.{field} is documented twice"
                );
            }
        }
        Schema(all)
    }

    /// Names of all records.
    pub(crate) fn records(&self) -> Vec<&str> {
        self.0.keys().filter_map(|k| k.strip_prefix("Record ")).collect()
    }

    /// Parses stdout as records and checks each; panics with the place where one differs.
    pub(crate) fn check(&self, stdout: &str) -> Vec<Value> {
        stdout
            .lines()
            .map(|line| {
                let mut record: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
                let whole = record.clone();
                let fields = record.as_object_mut().expect("an object");
                assert_eq!(fields.remove("schema"), Some(Value::from(1)), "{line}");
                let kind = fields.remove("type").expect("a type");
                let kind = kind.as_str().expect("a string");
                self.object(&format!("Record {kind}"), &record, kind);
                whole
            })
            .collect()
    }

    fn object(&self, name: &str, value: &Value, at: &str) {
        let expected = self.0.get(name).unwrap_or_else(|| panic!("{at}: `{name}` is not documented"));
        let found = value.as_object().unwrap_or_else(|| panic!("{at}: {value} found, {name} expected"));
        for key in found.keys() {
            assert!(expected.contains_key(key), "{at}.{key} is not documented");
        }
        for (key, kind) in expected {
            let v = found.get(key).unwrap_or_else(|| panic!("{at}.{key} is documented but missing"));
            self.value(kind, v, &format!("{at}.{key}"));
        }
    }

    fn value(&self, kind: &str, value: &Value, at: &str) {
        if let Some(kind) = kind.strip_suffix('?') {
            if !value.is_null() {
                self.value(kind, value, at);
            }
            return;
        }
        if let Some(item) = kind.strip_prefix('[').and_then(|k| k.strip_suffix(']')) {
            let items = value.as_array().unwrap_or_else(|| panic!("{at}: {value} found, a list expected"));
            items.iter().enumerate().for_each(|(i, v)| self.value(item, v, &format!("{at}[{i}]")));
            return;
        }
        let fits = match kind {
            "string" => value.is_string(),
            "bool" => value.is_boolean(),
            "int" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            _ => return self.object(kind, value, at),
        };
        assert!(fits, "{at}: {value} found, {kind} expected");
    }
}
