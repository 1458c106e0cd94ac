//! The text of an IPPool, or of a list of them.
//!
//! A pool may have ten thousand rows and a cluster a million, so the text is read once: rows of the
//! three known texts, which all are that whereabouts writes, are borrowed as they are met. Only where a
//! text has anything else in it is it read again, row by row, so that nothing spoils more than itself.

use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};

use crate::{
    fields::{Fields, Known},
    text::Text,
};

/// An IPPool whose rows are `R`.
#[derive(Deserialize)]
#[serde(bound(deserialize = "R: Deserialize<'de>"))]
pub(super) struct PoolText<'a, R> {
    pub(super) metadata: Metadata,
    #[serde(borrow)]
    pub(super) spec: Option<Spec<'a, R>>,
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
#[serde(bound(deserialize = "R: Deserialize<'de>"))]
pub(super) struct Spec<'a, R> {
    pub(super) range: Option<String>,
    #[serde(borrow)]
    pub(super) allocations: Option<Allocations<'a, R>>,
}

/// A list whose items are `I`.
#[derive(Deserialize)]
#[serde(bound(deserialize = "I: Deserialize<'de>"))]
pub(super) struct List<'a, I> {
    #[serde(borrow)]
    pub(super) metadata: &'a RawValue,
    pub(super) items: Vec<I>,
}

/// What a row may be read as.
pub(super) trait RowText {
    /// Whether it has none but the known fields, each a text.
    const KNOWN: bool;

    /// Podref, id and interface, whatever they are worth.
    fn head(&self) -> [Option<Cow<'_, str>>; 3];

    /// The whole row.
    fn stored(&self) -> Value;
}

/// The known fields of a row.
pub(super) struct OfRow;

impl Known<3> for OfRow {
    const NAMES: [&'static str; 3] = ["podref", "id", "ifname"];
}

/// A row of nothing but the three known texts, without escapes.
pub(super) struct Plain<'a>([Option<&'a str>; 3]);

impl<'de: 'a, 'a> Deserialize<'de> for Plain<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Fields::<_, OfRow, 3>::deserialize(deserializer)?;
        match fields.extra {
            None => Ok(Self(fields.texts)),
            Some(extra) => Err(D::Error::unknown_field(&extra, &OfRow::NAMES)),
        }
    }
}

impl RowText for Plain<'_> {
    const KNOWN: bool = true;

    fn head(&self) -> [Option<Cow<'_, str>>; 3] {
        self.0.map(|text| text.map(Cow::Borrowed))
    }

    fn stored(&self) -> Value {
        let fields = OfRow::NAMES.into_iter().zip(self.0);
        let fields = fields.filter_map(|(name, text)| Some((name.to_owned(), text?.into())));
        Value::Object(fields.collect::<Map<_, _>>())
    }
}

/// Any row.
impl RowText for &RawValue {
    const KNOWN: bool = false;

    fn head(&self) -> [Option<Cow<'_, str>>; 3] {
        let head: RowHead = serde_json::from_str(self.get()).unwrap_or_default();
        // What one of them is spoils no other.
        [head.podref, head.id, head.ifname].map(|field| {
            let text = serde_json::from_str::<Text<'_>>(field?.get());
            text.ok().map(|text| text.0)
        })
    }

    fn stored(&self) -> Value {
        // The syntax was checked; what fails still (a number out of bounds) is unreadable.
        serde_json::from_str(self.get()).unwrap_or(Value::Null)
    }
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
pub(super) struct Allocations<'a, R>(pub(super) Vec<(Text<'a>, R)>);

impl<'de: 'a, 'a, R: Deserialize<'de>> Deserialize<'de> for Allocations<'a, R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rows<'a, R>(PhantomData<(&'a (), R)>);
        impl<'de: 'a, 'a, R: Deserialize<'de>> Visitor<'de> for Rows<'a, R> {
            type Value = Allocations<'a, R>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of rows")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut rows = Vec::new();
                while let Some((key, value)) = map.next_entry()? {
                    rows.push((key, value));
                }
                Ok(Allocations(rows))
            }
        }
        deserializer.deserialize_map(Rows(PhantomData))
    }
}
