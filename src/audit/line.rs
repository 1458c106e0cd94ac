//! How changes are told: as lines of a table, or as JSON, one object a line.
//!
//! Field names are stable: `ipgc watch --schema` describes them. Foreign texts are shown with their control
//! characters escaped. Nothing is decided here.

use std::{borrow::Cow, mem, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use super::{
    changes::{Entry, Judged, Subject, Why},
    report::{Finding, Shared, Stored, Totals},
    table::{self, Column},
};

/// One line of `ipgc watch -o json`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Message {
    /// It is there at the first look.
    Present(Line),
    /// The first look has been told: what follows are changes.
    Synced(Synced),
    /// It was not there before.
    Appeared(Line),
    /// It was there, and is judged otherwise now, or has another owner, or what is asked for chooses it no more, or
    /// only now.
    Changed(Line),
    /// It is no longer there. What is told of it is the last that was known.
    Gone(Line),
}

/// What the first look saw.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Synced {
    /// When, RFC 3339.
    pub at: String,
    /// What was looked at, and the verdicts on all rows, whatever was asked for.
    pub totals: Totals,
    /// What a person should know who reads this.
    pub notes: Vec<String>,
}

/// One subject.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// When the look at it began, RFC 3339. It changed after the look before.
    pub at: String,
    /// `live`, `unreported`, `exempt`, or what is wrong; none of what is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// What it was before, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<Was>,
    /// The node of its pod, or the last one that is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What it is.
    #[serde(flatten)]
    pub subject: Told,
}

/// What a subject was.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Was {
    /// `live`, `unreported`, `exempt`, or what was wrong.
    pub verdict: String,
    /// How well it was known that no sandbox answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grade: Option<Shared>,
    /// What had made it stale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Shared>,
    /// The pods as `namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
    /// The node of its pod, or the last one that is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// So many seconds ago it went, if it had gone and is back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone_seconds: Option<u64>,
}

/// What a line is about.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Told {
    /// Something is wrong: as in the report of `ipgc audit`.
    Finding(Box<Finding>),
    /// Nothing is, or it is gone.
    Place(Box<Place>),
}

/// What a subject is, whatever its verdict.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// Why it is kept, or that it is gone.
    pub detail: String,
    /// The row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<PlaceRow>,
    /// The namespace of the pool, or of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The pods as `namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
    /// The nodes: those of the pods, or those that held the row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// What identifies a row.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaceRow {
    /// `metadata.uid` of the pool.
    pub pool_uid: String,
    /// Its key in `spec.allocations`.
    pub key: String,
    /// The whole of it as last stored, where something was wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<Stored>,
}

/// The text of [`schema`], as it is in the repository.
pub const SCHEMA: &str = include_str!("../../schemas/watch.json");

/// The schema of a line, made from the types. The program prints [`SCHEMA`] instead.
#[must_use]
pub fn schema() -> Value {
    schemars::schema_for!(Message).to_value()
}

impl Line {
    /// What there is.
    #[must_use]
    pub fn of(at: &str, subject: &Subject, entry: &Entry) -> Self {
        let told = match &entry.judged {
            Judged::Finding(finding) => Told::Finding(finding.clone()),
            Judged::Kept(kept) => {
                let why = match &kept.why {
                    Why::Held(held) => held.to_string(),
                    Why::Exempt => "a person exempted it".to_owned(),
                };
                Told::Place(Box::new(place(subject, entry, why)))
            }
        };
        Self {
            at: at.to_owned(),
            verdict: Some(entry.verdict().to_owned()),
            was: None,
            node: entry.node.as_deref().map(str::to_owned),
            subject: told,
        }
    }

    /// What was there, and is not.
    #[must_use]
    pub fn of_gone(at: &str, subject: &Subject, entry: &Entry) -> Self {
        let detail = match subject {
            Subject::Row(_) => "the row is gone",
            _ => "no longer found",
        };
        Self {
            at: at.to_owned(),
            verdict: None,
            was: None,
            node: entry.node.as_deref().map(str::to_owned),
            subject: Told::Place(Box::new(place(subject, entry, detail.to_owned()))),
        }
        .after(entry, None)
    }

    /// Says what it was before; it was gone for so long in between, if it was.
    #[must_use]
    pub fn after(mut self, entry: &Entry, gone: Option<Duration>) -> Self {
        let finding = entry.finding();
        self.was = Some(Was {
            verdict: entry.verdict().to_owned(),
            grade: finding.and_then(|finding| finding.grade.clone()),
            cause: finding.and_then(|finding| finding.cause.clone()),
            pods: entry.pods().into_iter().map(str::to_owned).collect(),
            node: entry.node.as_deref().map(str::to_owned),
            gone_seconds: gone.map(|gone| gone.as_secs()),
        });
        self
    }

    fn cell(&self, column: Column) -> Option<Cow<'_, str>> {
        match (&self.subject, column) {
            (_, Column::Finding) => self.verdict.as_deref().map(Cow::Borrowed),
            (Told::Finding(finding), _) => column.of(finding),
            (Told::Place(place), _) => place.cell(column),
        }
    }

    /// What it was, and whose, where that is no longer so.
    fn was(&self) -> Option<String> {
        let was = self.was.as_ref()?;
        let pods = match &self.subject {
            Told::Finding(finding) => &finding.pods,
            Told::Place(place) => &place.pods,
        };
        Some(if *pods == was.pods || was.pods.is_empty() {
            was.verdict.clone()
        } else {
            {
                let pods = table::names(&was.pods).unwrap_or_default();
                format!("{} of {pods}", was.verdict)
            }
        })
    }
}

fn place(subject: &Subject, entry: &Entry, detail: String) -> Place {
    let finding = entry.finding();
    let (address, interface) = match &entry.judged {
        Judged::Finding(finding) => (
            finding.address.clone(),
            finding.interface.as_deref().map(str::to_owned),
        ),
        Judged::Kept(kept) => (
            kept.address.map(|address| address.to_string()),
            kept.interface.as_deref().map(str::to_owned),
        ),
    };
    let pool = entry.pool();
    let namespace = finding.and_then(|finding| Some(finding.namespace.as_deref()?.to_owned()));
    let node = entry.node.as_deref().map(|node| vec![node.to_owned()]);
    let stored = finding.and_then(|finding| Some(finding.row.as_ref()?.stored.clone()));
    Place {
        detail,
        row: match subject {
            Subject::Row(id) | Subject::OfRow(id, _) => Some(PlaceRow {
                pool_uid: id.pool_uid.as_ref().to_owned(),
                key: id.key.as_ref().to_owned(),
                stored,
            }),
            _ => None,
        },
        namespace: pool
            .map(|(namespace, _)| namespace.to_owned())
            .or(namespace),
        pool: pool.map(|(_, name)| name.to_owned()),
        address,
        interface,
        pods: entry.pods().into_iter().map(str::to_owned).collect(),
        nodes: node
            .or_else(|| Some(finding?.nodes.iter().map(ToString::to_string).collect()))
            .unwrap_or_default(),
    }
}

impl Place {
    fn cell(&self, column: Column) -> Option<Cow<'_, str>> {
        match column {
            Column::Address => self.address.as_deref().map(Into::into),
            Column::Pool => {
                let (namespace, pool) = (self.namespace.as_ref()?, self.pool.as_ref()?);
                Some(format!("{namespace}/{pool}").into())
            }
            Column::Pod => table::names(&self.pods),
            Column::Node => table::list(&self.nodes),
            Column::Interface => self.interface.as_deref().map(Into::into),
            Column::Key => self.row.as_ref().map(|row| row.key.as_str().into()),
            Column::Detail => Some(self.detail.as_str().into()),
            Column::Finding
            | Column::Grade
            | Column::Cause
            | Column::Wait
            | Column::Sandbox
            | Column::Reservation
            | Column::Command => None,
        }
    }
}

/// The lines of a table that has no end: cells of a column begin one below the other, and move to the right where a
/// wider one comes.
pub struct Lines {
    columns: Vec<Column>,
    widths: Vec<usize>,
    has_header: bool,
}

/// Before the columns of an audit stand these, so wide at the least: of what is yet to come nobody knows the width.
const FIRST: [(&str, usize); 3] = [("TIME", 20), ("EVENT", 8), ("WAS", 5)];

impl Lines {
    /// A table with these columns, and without lines.
    #[must_use]
    pub fn new(columns: &[Column]) -> Self {
        let of_columns = columns.iter().map(|column| match column {
            Column::Pool | Column::Pod => 20,
            Column::Address => 15,
            Column::Node => 10,
            _ => 0,
        });
        Self {
            columns: columns.to_vec(),
            widths: FIRST
                .iter()
                .map(|(_, least)| *least)
                .chain(of_columns)
                .collect(),
            has_header: false,
        }
    }

    /// Messages as text, below a header the first time.
    #[must_use]
    pub fn of(&mut self, messages: &[Message]) -> String {
        let titles = self.columns.iter().map(|column| column.title());
        let first = FIRST.into_iter().map(|(title, _)| title);
        let titles: Vec<_> = first.chain(titles).map(str::to_owned).collect();
        let rows = messages.iter().filter_map(|message| self.row(message));
        let mut rows: Vec<_> = rows.collect();
        if !mem::replace(&mut self.has_header, true) {
            rows.insert(0, titles);
        }
        for row in &rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        let mut text = String::new();
        for row in &rows {
            let last = row.len() - 1;
            for (at, (cell, width)) in row.iter().zip(&self.widths).enumerate() {
                text.push_str(cell);
                if at == last {
                    text.push('\n');
                } else {
                    let missing = width.saturating_sub(cell.width());
                    text.push_str(&" ".repeat(missing + 3));
                }
            }
        }
        text
    }

    fn row(&self, message: &Message) -> Option<Vec<String>> {
        let (event, line) = match message {
            Message::Present(line) => ("present", line),
            Message::Appeared(line) => ("appeared", line),
            Message::Changed(line) => ("changed", line),
            Message::Gone(line) => ("gone", line),
            Message::Synced(_) => return None,
        };
        let was = table::short(table::shown(line.was().map(Cow::Owned)));
        let first = [line.at.clone(), event.to_owned(), was.into_owned()];
        let columns = self.columns.iter();
        let others = columns.map(|column| column.cell_of(line.cell(*column)).into_owned());
        Some(first.into_iter().chain(others).collect())
    }
}
