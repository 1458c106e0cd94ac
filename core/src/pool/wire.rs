//! The text of an IPPool, or of a list of them.
//!
//! Each row is a text of its own at first, so that one which cannot be read spoils no other.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use crate::{
    fields::{Fields, Known},
    text::Text,
};

/// An IPPool.
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

/// Who wrote fields of it.
#[derive(Deserialize)]
pub(super) struct Manager {
    pub(super) operation: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Spec<'a> {
    pub(super) range: Option<String>,
    #[serde(borrow)]
    pub(super) allocations: Option<Allocations<'a>>,
}

/// A list, whose metadata is `M`.
#[derive(Deserialize)]
pub(super) struct List<'a, M> {
    pub(super) metadata: M,
    #[serde(borrow)]
    pub(super) items: Vec<&'a RawValue>,
}

/// The known fields of a row.
pub(super) struct OfRow;

impl Known<3> for OfRow {
    const NAMES: [&'static str; 3] = ["podref", "id", "ifname"];
}

/// Podref, id and interface of a row, whatever they are worth; and whether it has none but these fields, each a text.
pub(super) fn head(row: &RawValue) -> ([Option<Text<'_>>; 3], bool) {
    if let Ok(Fields { texts, extra, .. }) = serde_json::from_str::<Fields<_, OfRow, 3>>(row.get())
    {
        return (texts, extra.is_none());
    }
    let RowHead { podref, id, ifname } = serde_json::from_str(row.get()).unwrap_or_default();
    // A field that is no text makes no other field unreadable.
    (
        [podref, id, ifname].map(|field| serde_json::from_str(field?.get()).ok()),
        false,
    )
}

/// The whole row.
pub(super) fn stored(row: &RawValue) -> Value {
    // The syntax was checked. A value that fails nevertheless (a number out of bounds) is unreadable.
    serde_json::from_str(row.get()).unwrap_or(Value::Null)
}

/// Only as much of a row as decides whether it is wanted.
#[derive(Default, Deserialize)]
struct RowHead<'a> {
    #[serde(borrow)]
    podref: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    ifname: Option<&'a RawValue>,
}

/// The rows in the order of the text.
pub(super) struct Allocations<'a>(pub(super) Vec<(Text<'a>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Allocations<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rows;
        impl<'de> Visitor<'de> for Rows {
            type Value = Allocations<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of rows")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut rows = Vec::new();
                while let Some(row) = map.next_entry()? {
                    rows.push(row);
                }
                Ok(Allocations(rows))
            }
        }
        deserializer.deserialize_map(Rows)
    }
}
