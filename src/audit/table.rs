//! Findings as a table for people. Foreign texts are shown with their control characters escaped.

use std::io;

use ipgc_core::text::clean;
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use super::report::{Finding, Report};

/// A longer cell is cut, since foreign texts may have any length. The API server takes no longer name.
const WIDEST: usize = 512;
/// So many blanks stand between two columns.
pub(crate) const GAP: usize = 3;
/// So many pods are shown in a cell; `-o json` has all of them.
const PODS: usize = 8;

/// A column of findings: its title, its least width where later lines are not known yet, whether it is in tables that are
/// not wide too, and its cell.
type Column = (&'static str, usize, bool, fn(&Finding) -> Option<String>);

/// All columns, in the order of a wide table.
const COLUMNS: [Column; 14] = [
    ("FINDING", 0, true, |it| Some(it.problem.to_string())),
    ("ADDRESS", 15, true, |it| it.address.clone()),
    ("POOL", 20, true, |it| {
        Some(format!("{}/{}", it.namespace.as_ref()?, it.pool.as_ref()?))
    }),
    ("POD", 20, true, |it| names(&it.pods)),
    ("NODE", 10, true, |it| {
        (!it.nodes.is_empty()).then(|| it.nodes.join(","))
    }),
    ("GRADE", 0, false, |it| it.grade.clone()),
    ("CAUSE", 0, false, |it| it.cause.clone()),
    ("WAIT", 0, false, |it| {
        it.wait_seconds.map(|seconds| format!("{seconds}s"))
    }),
    ("INTERFACE", 0, false, |it| it.interface.clone()),
    ("KEY", 0, false, |it| Some(it.row.as_ref()?.key.clone())),
    ("SANDBOX", 0, false, |it| {
        let row = Value::from(it.row.as_ref()?.stored.clone());
        Some(row.get("id")?.as_str()?.chars().take(12).collect())
    }),
    ("RESERVATION", 0, false, |it| {
        Some(it.reservation.as_ref()?.name.clone())
    }),
    ("DETAIL", 0, true, |it| Some(it.detail.clone())),
    (COMMAND, 0, false, |it| it.command.clone()),
];

const COMMAND: &str = "COMMAND";

fn shown_in(is_wide: bool) -> impl Iterator<Item = &'static Column> {
    let columns = COLUMNS.iter();
    columns.filter(move |(_, _, is_usual, _)| is_wide || *is_usual)
}

/// The titles of the columns, and their least widths.
pub(crate) fn columns(is_wide: bool) -> impl Iterator<Item = (&'static str, usize)> {
    shown_in(is_wide).map(|(title, least, ..)| (*title, *least))
}

/// The cells of a finding in the order of the columns, in which foreign texts are escaped.
pub(crate) fn cells(finding: &Finding, is_wide: bool) -> impl Iterator<Item = String> {
    shown_in(is_wide).map(|(title, .., cell)| match cell(finding) {
        // A command that is cut would be another command.
        Some(text) if *title == COMMAND => clean(&text),
        text => shown(text),
    })
}

/// A cell with this text, or a dash.
pub(super) fn shown(text: Option<String>) -> String {
    let text = text.map_or_else(|| "-".to_owned(), |text| clean(&text));
    cut(&text, WIDEST)
}

/// A text of the first of these pods.
pub(super) fn names(pods: &[String]) -> Option<String> {
    match pods.len() {
        0 => None,
        1..=PODS => Some(pods.join(",")),
        all => {
            let first = pods[..PODS].join(",");
            Some(format!("{first} and {} more", all - PODS))
        }
    }
}

/// Writes the findings as lines of a table, the counts, and the notes.
///
/// # Errors
/// Those of `writer`.
pub fn write_table(report: &Report, is_wide: bool, writer: &mut impl io::Write) -> io::Result<()> {
    if !report.findings.is_empty() {
        let findings = report.findings.iter();
        let rows = findings.map(|finding| cells(finding, is_wide).collect());
        let titles = columns(is_wide).map(|(title, _)| title.to_owned());
        let titles: Vec<_> = titles.collect();
        let rows = std::iter::once(titles).chain(rows);
        write_rows(rows, &mut Vec::new(), GAP, writer)?;
        writeln!(writer)?;
    }
    summary(report, writer)
}

/// Writes rows, whose cells of a column begin one below the other, with `gap` blanks between two columns. Columns are at
/// least as wide as `widths`, which grow with the cells. Rows are made twice: all of them at once would be as large as the findings.
///
/// # Errors
/// Those of `writer`.
pub fn write_rows(
    rows: impl Iterator<Item = Vec<String>> + Clone,
    widths: &mut Vec<usize>,
    gap: usize,
    writer: &mut (impl io::Write + ?Sized),
) -> io::Result<()> {
    for row in rows.clone() {
        widths.resize(row.len(), 0);
        for (width, cell) in widths.iter_mut().zip(&row) {
            *width = cell.width().max(*width);
        }
    }
    for row in rows {
        if let Some((last, others)) = row.split_last() {
            for (cell, width) in others.iter().zip(&*widths) {
                // The padding of `format!` counts characters, not their width.
                let missing = width.saturating_sub(cell.width()) + gap;
                write!(writer, "{cell}{}", " ".repeat(missing))?;
            }
            writeln!(writer, "{last}")?;
        }
    }
    Ok(())
}

/// How many findings there are in how much, and the notes; each in a line.
///
/// # Errors
/// Those of `output`.
pub fn summary(report: &Report, output: &mut (impl io::Write + ?Sized)) -> io::Result<()> {
    let totals = &report.totals;
    let count = |count: usize, one: &str| match count {
        0 => format!("no {one}s"),
        1 => format!("1 {one}"),
        _ => format!("{count} {one}s"),
    };
    writeln!(
        output,
        "{}: {} in {} ({}), {}, {}, {}",
        count(report.findings.len(), "finding"),
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

/// At most so many characters of it.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
