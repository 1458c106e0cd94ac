//! Text for people: colours on a terminal only, tables as kubectl aligns them.
//!
//! Writing never fails the demo: a closed pipe must not keep it from cleaning up.

use std::{
    fmt::Write as _,
    io::{IsTerminal, Write as _},
    time::Duration,
};

/// Between two columns, and the least width of one, as kubectl has them.
const PADDING: usize = 3;
const LEAST_WIDTH: usize = 6;

/// The meaning of a piece of text; the colour follows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// Titles.
    Strong,
    /// Beside the point.
    Faint,
    /// An address came free.
    Good,
    /// A row stays, and why.
    Kept,
    /// An address is lost, or the story is.
    Bad,
}

impl Tone {
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Strong => Some("1"),
            Self::Faint => Some("2"),
            Self::Good => Some("32"),
            Self::Kept => Some("33"),
            Self::Bad => Some("31"),
        }
    }
}

/// Where the text goes.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    colours: bool,
}

impl Paper {
    /// Standard output.
    pub fn stdout() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            colours: wanted && std::io::stdout().is_terminal(),
        }
    }

    /// A line as it is.
    pub fn line(self, tone: Tone, text: &str) {
        write(&format!("{}\n", self.paint(tone, text)));
    }

    /// An empty line.
    #[expect(clippy::unused_self, reason = "like all the others")]
    pub fn gap(self) {
        write("\n");
    }

    /// The title of a chapter.
    pub fn title(self, text: &str) {
        self.gap();
        self.line(Tone::Strong, text);
        self.gap();
    }

    /// A paragraph, indented.
    pub fn text(self, text: &str) {
        for line in text.lines() {
            self.line(Tone::Plain, format!("  {line}").trim_end());
        }
    }

    /// The command whose output comes next.
    pub fn command(self, command: &str) {
        self.line(Tone::Faint, &format!("$ {command}"));
    }

    /// Something that happened, so long after what the chapter began with.
    pub fn moment(self, since: Duration, tone: Tone, text: &str) {
        let time = self.paint(Tone::Faint, &format!("{:>7.1} s", since.as_secs_f64()));
        write(&format!("{time}  {}\n", self.paint(tone, text)));
    }

    /// A table.
    pub fn table(self, table: &Table) {
        let mut text = String::new();
        let widths = table.widths();
        for row in table.lines.iter().filter(|row| !row.is_empty()) {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&self.paint(cell.tone, &cell.text));
                // No padding at the end of a line, where it would be copied along.
                for _ in cell.text.chars().count()..*width {
                    line.push(' ');
                }
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        write(&text);
    }

    fn paint(self, tone: Tone, text: &str) -> String {
        match tone.code() {
            Some(code) if self.colours && !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
}

/// One field of a table.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A field in a tone.
    pub fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            tone,
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(Tone::Plain, text)
    }
}

/// Columns under a head.
#[derive(Clone, Debug)]
pub struct Table {
    lines: Vec<Vec<Cell>>,
}

impl Table {
    /// A table with these columns and no row; without a head if there are none.
    pub fn new(head: &[&str]) -> Self {
        Self {
            lines: vec![head.iter().copied().map(Cell::from).collect()],
        }
    }

    /// One more row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.lines.push(cells.into_iter().collect());
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.lines.iter().map(Vec::len).max().unwrap_or(0);
        (0..columns)
            .map(|column| {
                let cells = self.lines.iter().filter_map(|line| line.get(column));
                let longest = cells.map(|cell| cell.text.chars().count()).max();
                (longest.unwrap_or(0) + PADDING).max(LEAST_WIDTH)
            })
            .collect()
    }
}

fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}
