//! What the program tells: records for machines, tables for people.
//!
//! `SCHEMA.md` beside this crate's manifest documents every record; the tests hold the program's output against it.

mod frame;
mod name;
mod table;

pub use frame::{
    ErrorRecord, Followed, FrameId, FrameRecord, Object, Oriented, Point, Runs, SummaryRecord, Times, objects,
};
pub use name::{printable, printable_lines, shell_word};
pub use table::{Align, Style, Table, bytes, number};

use serde::Serialize;
use std::io::{self, Write};

/// Version of the records' schema: raised when a field changes its meaning or goes, not when one is added.
pub const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Line<'a, T> {
    schema: u32,
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(flatten)]
    body: &'a T,
}

/// Writes one record as one line of JSON: `schema` and `type` first, then the fields of `body`, which must be a struct.
pub fn write_record(to: &mut impl Write, kind: &str, body: &impl Serialize) -> io::Result<()> {
    // One write a line, so that an interrupt leaves whole lines.
    let mut line = serde_json::to_vec(&Line { schema: SCHEMA, kind, body })?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_that_starts_with_its_type() {
        #[derive(Serialize)]
        struct Body {
            score: f32,
            name: &'static str,
        }
        let mut out = Vec::new();
        write_record(&mut out, "x", &Body { score: 0.1, name: "a\nb" }).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"schema\":1,\"type\":\"x\",\"score\":0.1,\"name\":\"a\\nb\"}\n"
        );
    }
}
