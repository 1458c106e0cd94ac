//! The program that reads definitions by whereabouts' own code: asked by lines, it answers by lines.

use std::fs;

use e2e::{Result, process, tools::Tool};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A question to the reader, which uses whereabouts' own code.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Question {
    /// How whereabouts reads this definition.
    Definition { name: String, config: String },
    /// How the reservation of this address is named.
    Reservation { address: String, network: String },
}

/// A definition, as it is read.
#[derive(Debug, Deserialize)]
pub struct Definition {
    /// Why nothing of it is handed to any plugin.
    #[serde(default)]
    pub error: String,
    /// The sections, one for each plugin that reads one.
    pub sections: Option<Vec<Section>>,
}

/// The section that a plugin reads.
#[derive(Debug, Deserialize)]
pub struct Section {
    /// Why whereabouts refuses it.
    #[serde(default)]
    pub error: String,
    /// It is not of whereabouts.
    pub other: bool,
    pub network: String,
    pub reserves: bool,
    pub slices: String,
    /// The pool of `node-1`, whose slice is 10.0.3.0/24.
    pub slice_pool: String,
    pub ranges: Option<Vec<Entry>>,
}

/// One range.
#[derive(Debug, Deserialize)]
pub struct Entry {
    pub range: String,
    pub pool: String,
    /// Empty where it gives out nothing at all.
    pub first: String,
    pub last: String,
    /// How many addresses it gives out; negative where they were not counted.
    pub count: i64,
}

/// How a reservation is named.
#[derive(Debug, Deserialize)]
pub struct Reservation {
    pub name: String,
}

/// The answers to all of these.
pub fn ask<A: DeserializeOwned>(questions: &[Question]) -> Result<Vec<A>> {
    let mut lines = Vec::new();
    for question in questions {
        serde_json::to_writer(&mut lines, question)?;
        lines.push(b'\n');
    }
    // Configurations name files, and these are looked for where it runs.
    let folder = std::env::temp_dir().join(e2e::cluster::unique("definitions"));
    fs::create_dir_all(&folder)?;
    let asked = folder.join("questions");
    fs::write(&asked, lines)?;
    let mut reader = process::tied(Tool::Definitions.path_blocking()?);
    let reader = reader.current_dir(&folder).stdin(fs::File::open(asked)?);
    let answers = process::said(reader)?;
    fs::remove_dir_all(&folder)?;
    let answers = answers.lines().map(|line| Ok(serde_json::from_str(line)?));
    answers.collect()
}
