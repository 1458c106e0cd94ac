//! A report as a table for people. Foreign texts are shown with their control characters escaped.

use std::{borrow::Cow, fmt::Write as _};

use super::report::{Finding, Report};

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

    /// What the column shows of a finding, if that is known.
    #[must_use]
    pub fn of(self, finding: &Finding) -> Option<Cow<'_, str>> {
        let text = |text: &'_ Option<String>| text.clone().map(Cow::Owned);
        let list = |list: &[String]| (!list.is_empty()).then(|| Cow::Owned(list.join(",")));
        match self {
            Self::Finding => Some(finding.problem.as_str().into()),
            Self::Address => text(&finding.address),
            Self::Pool => match (&finding.namespace, &finding.pool) {
                (Some(namespace), Some(pool)) => Some(format!("{namespace}/{pool}").into()),
                _ => None,
            },
            Self::Pod => list(&finding.pods),
            Self::Node => list(&finding.nodes),
            Self::Grade => text(&finding.grade),
            Self::Cause => text(&finding.cause),
            Self::Wait => finding
                .wait_seconds
                .map(|seconds| format!("{seconds}s").into()),
            Self::Interface => text(&finding.interface),
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
            Self::Detail => Some(finding.detail.as_str().into()),
            Self::Command => text(&finding.command),
        }
    }
}

/// The findings as lines of a table, what was looked at, and the notes.
#[must_use]
pub fn table(report: &Report, columns: &[Column]) -> String {
    let mut text = String::new();
    if !report.findings.is_empty() {
        rows(&report.findings, columns, &mut text);
        text.push('\n');
    }
    text.push_str(&summary(report, report.findings.len()));
    text
}

/// How many findings there are in how much, and the notes; each in a line.
#[must_use]
pub fn summary(report: &Report, findings: usize) -> String {
    let mut text = String::new();
    let totals = &report.totals;
    let split = &totals.split;
    let count = |count: usize, one: &str| match count {
        0 => format!("no {one}s"),
        1 => format!("1 {one}"),
        _ => format!("{count} {one}s"),
    };
    // A text takes all that is written to it.
    let _ = writeln!(
        text,
        "{}: {} in {} ({} live, {} stale, {} held, {} unknown), {}, {}, {}",
        count(findings, "finding"),
        count(totals.rows, "row"),
        count(totals.pools, "pool"),
        split.live,
        split.stale,
        split.held,
        split.unknown,
        count(totals.reservations, "reservation"),
        count(totals.pods, "pod"),
        count(totals.nodes, "node"),
    );
    for note in &report.notes {
        let _ = writeln!(text, "note: {}", clean(note));
    }
    text
}

/// Cells of a column begin one below the other; the last column is as long as it is. Cells are made twice, since all
/// of them at once would be as large as the findings.
fn rows(findings: &[Finding], columns: &[Column], text: &mut String) {
    let cell = |column: &Column, finding: &Finding| {
        let cell = column.of(finding);
        cell.map_or_else(|| "-".to_owned(), |cell| clean(&cell))
    };
    let widths: Vec<_> = columns
        .iter()
        .map(|column| {
            let cells = findings.iter().map(|finding| cell(column, finding));
            let widest = cells.map(|cell| cell.chars().count()).max();
            widest.unwrap_or(0).max(column.title().len())
        })
        .collect();
    let mut line = |cell: &dyn Fn(&Column) -> String| {
        let last = columns.len().saturating_sub(1);
        for (at, (column, width)) in columns.iter().zip(&widths).enumerate() {
            let cell = cell(column);
            // A text takes all that is written to it.
            let _ = if at == last {
                writeln!(text, "{cell}")
            } else {
                write!(text, "{cell:width$}   ")
            };
        }
    };
    line(&|column| column.title().to_owned());
    for finding in findings {
        line(&|column| cell(column, finding));
    }
}

/// Without what would move a terminal's cursor.
#[must_use]
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            clean.extend(c.escape_default());
        } else {
            clean.push(c);
        }
    }
    clean
}
