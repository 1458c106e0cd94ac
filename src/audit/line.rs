//! The lines of `ipgc watch`: JSON with a schema, one object a line, or the rows of a table.
//!
//! Field names are stable: `ipgc watch --schema` describes them. Nothing is decided here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    NODES,
    report::{Finding, Problem, RowReport, Stored, Totals},
    table::{self, Output},
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
    pub grade: Option<String>,
    /// What had made it stale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The pods as `namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
    /// The node of its pod, or the last one that is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
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

/// The columns before those of an audit, and the least width of each: later lines may be wider.
const FIRST: [(&str, usize); 3] = [("TIME", 20), ("EVENT", 8), ("WAS", 5)];

/// The least widths of the columns of an endless table.
#[must_use]
pub fn widths(output: Output) -> Vec<usize> {
    let first = FIRST.iter().map(|(_, least)| *least);
    first
        .chain(table::columns(output).map(|column| column.least))
        .collect()
}

/// The titles of the table.
#[must_use]
pub fn titles(output: Output) -> Vec<String> {
    let first = FIRST.iter().map(|(title, _)| (*title).to_owned());
    first.chain(table::titles(output)).collect()
}

impl Message {
    /// The cells of its row in the table; the end of the first look has none.
    #[must_use]
    pub fn cells(&self, output: Output) -> Option<Vec<String>> {
        let (event, line) = match self {
            Self::Present(line) => ("present", line),
            Self::Appeared(line) => ("appeared", line),
            Self::Changed(line) => ("changed", line),
            Self::Gone(line) => ("gone", line),
            Self::Synced(_) => return None,
        };
        let finding = match &line.subject {
            Told::Finding(finding) => (**finding).clone(),
            Told::Place(place) => place.as_finding(),
        };
        let mut cells = vec![line.at.clone(), event.to_owned()];
        cells.push(table::shown(line.was(&finding.pods)));
        let first = cells.len();
        cells.extend(table::cells(&finding, output));
        cells[first] = table::shown(line.verdict.clone());
        Some(cells)
    }
}

impl Line {
    /// Whether something is wrong.
    #[must_use]
    pub fn is_finding(&self) -> bool {
        matches!(self.subject, Told::Finding(_))
    }

    /// The verdict before, and the owner before where that is another now.
    fn was(&self, pods: &[String]) -> Option<String> {
        let was = self.was.as_ref()?;
        if was.pods == pods {
            return Some(was.verdict.clone());
        }
        let before = table::names(&was.pods);
        Some(before.map_or_else(
            || was.verdict.clone(),
            |before| format!("{} of {before}", was.verdict),
        ))
    }
}

impl Place {
    /// The place of a finding.
    #[must_use]
    pub fn of(finding: &Finding) -> Self {
        Self {
            detail: finding.detail.clone(),
            row: finding.row.as_ref().map(|row| PlaceRow {
                pool_uid: row.pool_uid.clone(),
                key: row.key.clone(),
                stored: Some(row.stored.clone()),
            }),
            namespace: finding.namespace.clone(),
            pool: finding.pool.clone(),
            address: finding.address.clone(),
            interface: finding.interface.clone(),
            pods: finding.pods.clone(),
            nodes: finding
                .nodes
                .iter()
                .take(NODES)
                .map(ToString::to_string)
                .collect(),
        }
    }

    /// The same fields as a finding has them. Its problem says nothing.
    fn as_finding(&self) -> Finding {
        let row = self.row.as_ref().map(|row| RowReport {
            pool_uid: row.pool_uid.clone(),
            key: row.key.clone(),
            // The cell of the sandbox is of findings alone.
            stored: Stored::new(&Value::Null),
        });
        Finding {
            row,
            namespace: self.namespace.clone(),
            pool: self.pool.clone(),
            address: self.address.clone(),
            interface: self.interface.clone(),
            pods: self.pods.clone(),
            nodes: self.nodes.iter().map(|node| node.as_str().into()).collect(),
            ..Finding::new(Problem::Unknown, &*self.detail)
        }
    }
}
