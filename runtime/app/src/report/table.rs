use super::{printable, printable_lines};
use unicode_width::UnicodeWidthStr;

/// Which side of its column a cell keeps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// For numbers.
    Right,
}

/// Whether text may carry colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// None.
    Plain,
    /// ANSI escapes.
    Colour,
}

impl Style {
    /// The style for a stream: colours on a terminal, unless `NO_COLOR` is set and not empty (<https://no-color.org>) or
    /// `TERM` is `dumb`.
    pub fn of(stream: &impl std::io::IsTerminal) -> Style {
        let set = |name| std::env::var_os(name).filter(|v| !v.is_empty());
        let plain = set("NO_COLOR").is_some() || set("TERM").is_some_and(|t| t == "dumb");
        if stream.is_terminal() && !plain { Style::Colour } else { Style::Plain }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        let text = printable_lines(text);
        match self {
            Style::Plain => text.into_owned(),
            Style::Colour => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }

    /// For headings.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// For what is less important.
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// For what is well.
    pub fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// For what to look at.
    pub fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// For errors.
    pub fn red(self, text: &str) -> String {
        self.wrap("1;31", text)
    }
}

/// Rows of cells under headings, in aligned columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns. Without any heading text the heading line is left out.
    pub fn new(columns: &[(&str, Align)]) -> Self {
        Table { columns: columns.iter().map(|&(n, a)| (n.to_owned(), a)).collect(), rows: Vec::new() }
    }

    /// Adds a row; cells beyond the columns are dropped, missing ones are empty. Foreign names may stand in them as they
    /// are ([`printable`]).
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(|c| printable(&c.into()).into_owned()).collect());
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text: two spaces between columns, none at a line's end, a newline after each line.
    pub fn render(&self, style: Style) -> String {
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(c, (name, _))| {
                self.rows.iter().filter_map(|r| r.get(c)).map(|v| v.width()).fold(name.width(), usize::max)
            })
            .collect();
        let line = |cells: &[String]| {
            let mut out = String::new();
            for (c, (_, align)) in self.columns.iter().enumerate() {
                let cell = cells.get(c).map_or("", String::as_str);
                let space = " ".repeat(widths[c] - cell.width());
                out.push_str(if c > 0 { "  " } else { "" });
                match align {
                    Align::Left => out.extend([cell, &space]),
                    Align::Right => out.extend([&space, cell]),
                }
            }
            out.trim_end().to_owned()
        };
        let mut out = String::new();
        let names: Vec<String> = self.columns.iter().map(|c| c.0.clone()).collect();
        if names.iter().any(|n| !n.is_empty()) {
            out.push_str(&style.bold(&line(&names)));
            out.push('\n');
        }
        for row in &self.rows {
            out.push_str(&line(row));
            out.push('\n');
        }
        out
    }
}

/// A number with a fixed count of decimals, `-` where there is none.
pub fn number(value: impl Into<Option<f64>>, decimals: usize) -> String {
    value.into().map_or_else(|| "-".to_owned(), |v| format!("{v:.decimals$}"))
}

/// Bytes as people read them: `512 B`, `3.4 MB` (powers of ten).
pub fn bytes(n: u64) -> String {
    let (mut value, mut unit) = (n as f64, "B");
    for next in ["kB", "MB", "GB", "TB"] {
        // 999.95 would print as 1000.0.
        if value < if unit == "B" { 1000.0 } else { 999.95 } {
            break;
        }
        (value, unit) = (value / 1000.0, next);
    }
    if unit == "B" { format!("{n} B") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_in_any_script() {
        let mut t = Table::new(&[("class", Align::Left), ("score", Align::Right)]);
        t.row(["person", "0.9"]);
        t.row(["行人", "12.25"]);
        t.row(["evil\x1b[2J"]);
        assert_eq!(t.render(Style::Plain), "class     score\nperson      0.9\n行人      12.25\nevil?[2J\n");
        assert!(t.render(Style::Colour).starts_with("\x1b[1mclass     score\x1b[0m\n"));
    }

    #[test]
    fn no_headings_no_heading_line() {
        let mut t = Table::new(&[("", Align::Left), ("", Align::Left)]);
        assert!(t.is_empty());
        t.row(["a", "b"]);
        assert_eq!(t.render(Style::Colour), "a  b\n");
    }

    #[test]
    fn sizes_and_numbers() {
        let said: Vec<_> = [0, 999, 1000, 999_949, 999_950, 3_400_000, u64::MAX].map(bytes).into();
        assert_eq!(said, ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "3.4 MB", "18446744.1 TB"]);
        assert_eq!((number(0.12345, 4), number(None, 4)), ("0.1235".into(), "-".into()));
    }
}
