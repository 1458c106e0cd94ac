//! The text of an IPPool, or of a list of them.
//!
//! Each row is a text of its own at first, so that one which cannot be read spoils no other.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::text::{Text, not_null};

#[derive(Deserialize)]
pub(super) struct PoolText<'a> {
    pub(super) metadata: Metadata,
    #[serde(borrow)]
    pub(super) spec: Option<Spec<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) uid: String,
    pub(super) annotations: Option<BTreeMap<String, String>>,
    #[serde(rename = "managedFields")]
    pub(super) managers: Option<Vec<Manager>>,
}

/// A client that wrote fields of it.
#[derive(Deserialize)]
pub(super) struct Manager {
    pub(super) operation: Option<String>,
}

#[derive(Default, Deserialize)]
pub(super) struct Spec<'a> {
    pub(super) range: Option<String>,
    #[serde(borrow)]
    pub(super) allocations: Option<BTreeMap<Text<'a>, &'a RawValue>>,
}

#[derive(Deserialize)]
pub(super) struct List<M, T> {
    pub(super) metadata: M,
    pub(super) items: Vec<T>,
}

/// The fields of a row, each a text.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 't"))]
pub(super) struct RowText<'t> {
    #[serde(default, deserialize_with = "not_null")]
    pub(super) podref: Option<Text<'t>>,
    #[serde(default, deserialize_with = "not_null")]
    pub(super) id: Option<Text<'t>>,
    #[serde(default, deserialize_with = "not_null")]
    pub(super) ifname: Option<Text<'t>>,
    /// Fields that are not known may say whom the row belongs to. So whatever has one is never touched.
    #[serde(flatten)]
    pub(super) others: BTreeMap<String, Value>,
}

/// Podref, id and interface of a row, whatever they are worth.
pub(super) fn head(row: &RawValue) -> [Option<Text<'_>>; 3] {
    if let Ok(row) = serde_json::from_str::<RowText<'_>>(row.get()) {
        return [row.podref, row.id, row.ifname];
    }
    // A field that is no text makes no other field unreadable.
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(row.get()).unwrap_or_default();
    ["podref", "id", "ifname"].map(|name| {
        let field: &RawValue = fields.get(name).copied()?;
        serde_json::from_str(field.get()).ok()
    })
}

pub(super) fn stored(row: &RawValue) -> Value {
    // The syntax was checked. A value that fails nevertheless (a number out of bounds) is unreadable.
    serde_json::from_str(row.get()).unwrap_or(Value::Null)
}
