//! A report as a table for people. Foreign texts are shown with their control characters escaped.

use std::{borrow::Cow, io};

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::report::{Finding, Report};

/// A cell that is wider is cut, as its foreign text has no end: no name that the API server takes is longer.
const WIDEST: usize = 512;
/// So many pods are shown in a cell; `-o json` has all of them.
const PODS: usize = 8;

/// One column of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Column {
    /// What is wrong
    Finding,
    /// The address
    Address,
    /// Namespace and name of the pool
    Pool,
    /// Namespaces and names of pods
    Pod,
    /// Nodes of pods, or those that hold a row
    Node,
    /// How well it is known that nobody answers
    Grade,
    /// What made a row stale
    Cause,
    /// Seconds until a collector that begins now frees it
    Wait,
    /// The interface in the pod
    Interface,
    /// The key of the row in its pool
    Key,
    /// The first digits of the sandbox that the row was written for
    Sandbox,
    /// The reservation
    Reservation,
    /// What is wrong, in a sentence
    Detail,
    /// What a person may run
    Command,
}

impl Column {
    /// Those of `-o table`.
    pub const USUAL: [Self; 6] = [
        Self::Finding,
        Self::Address,
        Self::Pool,
        Self::Pod,
        Self::Node,
        Self::Detail,
    ];
    /// Those of `-o wide`.
    pub const WIDE: [Self; 14] = [
        Self::Finding,
        Self::Address,
        Self::Pool,
        Self::Pod,
        Self::Node,
        Self::Grade,
        Self::Cause,
        Self::Wait,
        Self::Interface,
        Self::Key,
        Self::Sandbox,
        Self::Reservation,
        Self::Detail,
        Self::Command,
    ];

    /// Above the column.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Finding => "FINDING",
            Self::Address => "ADDRESS",
            Self::Pool => "POOL",
            Self::Pod => "POD",
            Self::Node => "NODE",
            Self::Grade => "GRADE",
            Self::Cause => "CAUSE",
            Self::Wait => "WAIT",
            Self::Interface => "INTERFACE",
            Self::Key => "KEY",
            Self::Sandbox => "SANDBOX",
            Self::Reservation => "RESERVATION",
            Self::Detail => "DETAIL",
            Self::Command => "COMMAND",
        }
    }

    fn cell(self, finding: &Finding) -> Cow<'_, str> {
        self.cell_of(self.of(finding))
    }

    /// The cell that shows this.
    pub(super) fn cell_of(self, text: Option<Cow<'_, str>>) -> Cow<'_, str> {
        // Half of a command is another one.
        match self {
            Self::Command => shown(text),
            _ => short(shown(text)),
        }
    }

    /// What the column shows of a finding, if that is known.
    #[must_use]
    pub fn of(self, finding: &Finding) -> Option<Cow<'_, str>> {
        match self {
            Self::Finding => Some(finding.problem.as_str().into()),
            Self::Address => finding.address.as_deref().map(Into::into),
            Self::Pool => match (&finding.namespace, &finding.pool) {
                (Some(namespace), Some(pool)) => Some(format!("{namespace}/{pool}").into()),
                _ => None,
            },
            Self::Pod => names(&finding.pods),
            Self::Node => list(&finding.nodes),
            Self::Grade => finding.grade.as_deref().map(Into::into),
            Self::Cause => finding.cause.as_deref().map(Into::into),
            Self::Wait => finding
                .wait_seconds
                .map(|seconds| format!("{seconds}s").into()),
            Self::Interface => finding.interface.as_deref().map(Into::into),
            Self::Key => finding.row.as_ref().map(|row| row.key.as_str().into()),
            Self::Sandbox => {
                let row = finding.row.as_ref()?.stored.value();
                let id = row.get("id")?.as_str()?;
                Some(id.chars().take(12).collect::<String>().into())
            }
            Self::Reservation => finding
                .reservation
                .as_ref()
                .map(|it| it.name.as_str().into()),
            Self::Detail => Some((*finding.detail).into()),
            Self::Command => finding.command.as_deref().map(Into::into),
        }
    }
}

/// Of what is not known there is a dash.
pub(super) fn shown(text: Option<Cow<'_, str>>) -> Cow<'_, str> {
    match text {
        None => "-".into(),
        Some(Cow::Borrowed(text)) => escaped(text),
        Some(Cow::Owned(text)) => clean(&text).into(),
    }
}

/// A text of a cell that is not too wide.
pub(super) fn short(text: Cow<'_, str>) -> Cow<'_, str> {
    if width(&text) <= WIDEST {
        return text;
    }
    cut(&text).into()
}

/// A text of a cell, of the first pods.
pub(super) fn names(pods: &[String]) -> Option<Cow<'_, str>> {
    if pods.len() <= PODS {
        return list(pods);
    }
    let few = pods[..PODS].join(",");
    Some(format!("{few} and {} more", pods.len() - PODS).into())
}

/// A text of a cell, or of all in a list.
pub(super) fn list<T: AsRef<str>>(list: &[T]) -> Option<Cow<'_, str>> {
    match list {
        [] => None,
        [one] => Some(one.as_ref().into()),
        many => {
            let many: Vec<_> = many.iter().map(AsRef::as_ref).collect();
            Some(many.join(",").into())
        }
    }
}

/// The findings as lines of a table, what was looked at, and the notes.
#[must_use]
pub fn table(report: &Report, columns: &[Column]) -> String {
    let mut text = Vec::new();
    // Memory takes all that is written to it.
    let _ = write_table(report, columns, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// Writes them; many findings are never in memory as text at once.
///
/// # Errors
/// Those of `output`.
pub fn write_table(
    report: &Report,
    columns: &[Column],
    output: &mut impl io::Write,
) -> io::Result<()> {
    if !report.findings.is_empty() {
        rows(&report.findings, columns, output)?;
        writeln!(output)?;
    }
    summary(report, report.findings.len(), output)
}

/// How many findings there are in how much, and the notes; each in a line.
///
/// # Errors
/// Those of `output`.
pub fn summary(
    report: &Report,
    findings: usize,
    output: &mut (impl io::Write + ?Sized),
) -> io::Result<()> {
    let totals = &report.totals;
    let count = |count: usize, one: &str| match count {
        0 => format!("no {one}s"),
        1 => format!("1 {one}"),
        _ => format!("{count} {one}s"),
    };
    writeln!(
        output,
        "{}: {} in {} ({}), {}, {}, {}",
        count(findings, "finding"),
        count(totals.rows, "row"),
        count(totals.pools, "pool"),
        totals.split,
        count(totals.reservations, "reservation"),
        count(totals.pods, "pod"),
        count(totals.nodes, "node"),
    )?;
    for note in &report.notes {
        writeln!(output, "note: {}", clean(note))?;
    }
    Ok(())
}

/// Cells of a column begin one below the other; the last column is as long as it is. Cells are made twice, since all
/// of them at once would be as large as the findings.
fn rows(findings: &[Finding], columns: &[Column], output: &mut impl io::Write) -> io::Result<()> {
    let widths: Vec<_> = columns
        .iter()
        .map(|column| {
            let cells = findings.iter().map(|finding| column.cell(finding));
            let widest = cells.map(|cell| width(&cell)).max();
            widest.unwrap_or(0).max(column.title().len())
        })
        .collect();
    let last = columns.len().saturating_sub(1);
    let mut line = |finding: Option<&Finding>| {
        for (at, (column, widest)) in columns.iter().zip(&widths).enumerate() {
            let cell = finding.map_or(column.title().into(), |finding| column.cell(finding));
            output.write_all(cell.as_bytes())?;
            if at == last {
                output.write_all(b"\n")?;
            } else {
                // The standard library's padding counts characters, and panics beyond 65,535.
                let missing = widest.saturating_sub(width(&cell));
                output.write_all(" ".repeat(missing + 3).as_bytes())?;
            }
        }
        Ok(())
    };
    line(None)?;
    findings.iter().try_for_each(|finding| line(Some(finding)))
}

/// At most [`WIDEST`] columns of it.
fn cut(cell: &str) -> String {
    let mut left = WIDEST - 1;
    let fits = |c: &char| {
        let width = c.width().unwrap_or_default();
        left.checked_sub(width).is_some_and(|rest| {
            left = rest;
            true
        })
    };
    let mut text: String = cell.chars().take_while(fits).collect();
    text.push('…');
    text
}

/// Without what would move a terminal's cursor, turn the direction of writing, or not be seen.
#[must_use]
pub fn clean(text: &str) -> String {
    escaped(text).into_owned()
}

fn escaped(text: &str) -> Cow<'_, str> {
    if is_plain(text) || !text.chars().any(|c| c.is_control() || is_unseen(c)) {
        return text.into();
    }
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_unseen(c) {
            clean.extend(c.escape_default());
        } else {
            clean.push(c);
        }
    }
    clean.into()
}

/// Nothing but what is seen of ASCII, as most of it is: each byte of it is as wide as one column.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// So many columns of a terminal.
fn width(text: &str) -> usize {
    if is_plain(text) {
        text.len()
    } else {
        text.width()
    }
}

/// Joiners, marks and overrides of direction, separators of lines, tags and the like.
fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}
