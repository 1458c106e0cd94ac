//! The lines of `ipgc watch`: JSON with a schema, one object a line, or the rows of a table.
//!
//! Field names are stable: `ipgc watch --schema` describes them. Nothing is decided here.

use std::sync::Arc;

use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::Value;

use super::{
    report::{Finding, Totals},
    table::{self, Output},
};

/// One line of `ipgc watch -o json`.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
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

/// The findings of the first look.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Synced {
    /// When, RFC 3339.
    pub at: String,
    /// The number of objects, and the verdicts on all rows, whatever was asked for.
    pub totals: Totals,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// One subject.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = without_problem)]
pub struct Line {
    /// When the look at it began, RFC 3339. It changed after the look before.
    pub at: Arc<str>,
    /// `live`, `unreported`, `exempt`, or what is wrong; none of what is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// The line about it before the change, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<Box<Line>>,
    /// The node of its pod, or the last one that is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The subject, as in the report of `ipgc audit`; if nothing is wrong, or it is gone, without a problem.
    #[serde(flatten)]
    pub subject: Finding,
}

/// Unlike a finding, a line may be about what is not wrong.
fn without_problem(schema: &mut Schema) {
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| name != "problem");
    }
}

/// The schema of a [`Message`], as it is in the repository.
pub const SCHEMA: &str = include_str!("../../schemas/watch.json");

/// The titles of the table, and the least width of each column: later lines may be wider.
pub fn columns(output: Output) -> (Vec<String>, Vec<usize>) {
    let first = [("TIME", 20), ("EVENT", 8), ("WAS", 5)];
    let all = first.into_iter().chain(table::columns(output));
    all.map(|(title, least)| (title.to_owned(), least)).unzip()
}

impl Message {
    /// The cells of its row in the table; the end of the first look has none.
    pub fn cells(&self, output: Output) -> Option<Vec<String>> {
        let (event, line) = match self {
            Self::Present(line) => ("present", line),
            Self::Appeared(line) => ("appeared", line),
            Self::Changed(line) => ("changed", line),
            Self::Gone(line) => ("gone", line),
            Self::Synced(_) => return None,
        };
        let was = table::shown(line.was());
        let mut cells = vec![line.at.to_string(), event.to_owned(), was];
        cells.push(table::shown(line.verdict.clone()));
        cells.extend(table::cells(&line.subject, output).skip(1));
        Some(cells)
    }
}

impl Line {
    /// The verdict before, and the owner before where that is another now.
    fn was(&self) -> Option<String> {
        let was = self.was.as_ref()?;
        let pods = &was.subject.pods;
        let before = table::names(pods).filter(|_| *pods != self.subject.pods);
        let of = before.map_or_else(String::new, |before| format!(" of {before}"));
        Some(was.verdict.clone()? + &of)
    }
}
