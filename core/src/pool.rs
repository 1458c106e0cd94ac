//! An IPPool as it was observed: the raw rows, what they mean, and when they were read.
//!
//! A row is kept exactly as stored, because the patch that removes it tests the whole of it. A row
//! that cannot be read is a row all the same: it gets a verdict (Unknown) and is never touched.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    marker::PhantomData,
    net::IpAddr,
};

use jiff::Timestamp;
use serde::{
    Deserialize,
    de::{MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use crate::{
    address::{Offset, Range, excerpt, network_of_pool},
    breaker::ACK_ANNOTATION,
    podref::PodRef,
    time::Moment,
};

/// Annotation on an IPPool: nothing in it is freed while it is there, whatever its value.
pub const HOLD_ANNOTATION: &str = "ipgc.dev/hold";
/// Annotation on an IPPool: keys or addresses, separated by commas or white space, that are
/// kept.
pub const KEEP_ANNOTATION: &str = "ipgc.dev/keep";

/// Namespace and name of an IPPool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolKey {
    /// The namespace of the pool and of its reservations.
    pub namespace: String,
    /// The name, made of network name, node and range (see [`crate::address::pool_name`]).
    pub name: String,
}

impl fmt::Display for PoolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One pool in one quorum read.
#[derive(Debug)]
pub struct ObservedPool {
    key: PoolKey,
    uid: String,
    range: Option<Range>,
    exempt: Exempt,
    acknowledged: Option<Timestamp>,
    rows: Vec<Row>,
    total_rows: usize,
    read_at: Moment,
}

#[derive(Debug, Default)]
struct Exempt {
    whole_pool: bool,
    keys: BTreeSet<String>,
    addresses: BTreeSet<IpAddr>,
}

impl Exempt {
    fn read(annotations: &BTreeMap<String, String>) -> Self {
        let keep = annotations.get(KEEP_ANNOTATION).map_or("", String::as_str);
        let mut exempt = Self {
            whole_pool: annotations.contains_key(HOLD_ANNOTATION),
            ..Self::default()
        };
        for word in keep.split(|c: char| c == ',' || c.is_whitespace()) {
            if let Ok(address) = word.parse::<IpAddr>() {
                exempt.addresses.insert(address.to_canonical());
            } else if !word.is_empty() {
                exempt.keys.insert(word.to_owned());
            }
        }
        exempt
    }
}

/// One entry of `spec.allocations`.
#[derive(Clone, Debug)]
pub struct Row {
    key: Box<str>,
    stored: Value,
    content: Result<RowContent, Unreadable>,
}

/// What a readable row says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowContent {
    /// The address it holds: base of the range plus key.
    pub address: IpAddr,
    /// The sandbox that it was last written for: 64 hex digits.
    pub sandbox: Box<str>,
    /// The pod it was written for.
    pub podref: PodRef,
    /// The interface; rows from before whereabouts 0.8 have none.
    pub interface: Option<Box<str>>,
}

/// Why a row says nothing that we may act on (rule 1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The key is no number of 64 bits.
    #[error("the key is not an offset")]
    Key,
    /// `spec.range` is no CIDR, so that the row's address is not known.
    #[error("the range of its pool is not a CIDR")]
    Range,
    /// Base plus offset is no address.
    #[error("base and offset give no address")]
    Address,
    /// The value is not an object of texts.
    #[error("the row is not an object of texts")]
    Shape,
    /// A field that we do not know may say who the row belongs to.
    #[error("the row has an unknown field {0:?}")]
    ExtraField(Box<str>),
    /// The podref is empty or not `namespace/name`.
    #[error("its podref is not exactly namespace/name")]
    PodRef,
    /// The id is none that a container runtime makes.
    #[error("its id is not 64 hex digits")]
    SandboxId,
}

/// A row before it is kept: borrowed from the text, and as much of it as can be read.
#[derive(Clone, Copy, Debug)]
pub struct Glance<'a> {
    /// The key.
    pub key: &'a str,
    /// The text of the podref, whatever it is worth.
    pub podref: Option<&'a str>,
    /// The text of the id.
    pub sandbox: Option<&'a str>,
    range: Option<Range>,
}

impl Glance<'_> {
    /// The address that the row holds.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.range?.address_at(Offset::parse(self.key)?)
    }
}

/// Why a text is not an IPPool.
#[derive(Debug, thiserror::Error)]
#[error("not an IPPool: {0}")]
pub struct NotAPool(#[from] serde_json::Error);

impl ObservedPool {
    /// Reads the JSON text of an IPPool, as the API server sent it in answer to a quorum read that
    /// ended at `read_at`.
    ///
    /// Of the rows only those are kept that `wanted` asks for. All rows are counted.
    ///
    /// # Errors
    /// When the text is not JSON, or has no name and uid. A row never makes the pool fail.
    pub fn parse(
        text: &str,
        read_at: Moment,
        mut wanted: impl FnMut(&Glance<'_>) -> bool,
    ) -> Result<Self, NotAPool> {
        let raw: RawPool = serde_json::from_str(text)?;
        let spec = raw.spec.unwrap_or_default();
        let range = spec.range.as_deref().and_then(|r| Range::parse(r).ok());
        let allocations = spec.allocations.unwrap_or_default().0;
        let total_rows = allocations.len();
        let rows = allocations
            .into_iter()
            .filter_map(|(key, value)| {
                let head: RowHead = serde_json::from_str(value.get()).unwrap_or_default();
                let glance = Glance {
                    key: &key.0,
                    podref: head.podref.as_ref().map(|text| &*text.0),
                    sandbox: head.id.as_ref().map(|text| &*text.0),
                    range,
                };
                wanted(&glance).then(|| Row::read(&key.0, value, range))
            })
            .collect();
        let annotations = raw.metadata.annotations.unwrap_or_default();
        Ok(Self {
            key: PoolKey {
                namespace: raw.metadata.namespace.unwrap_or_default(),
                name: raw.metadata.name,
            },
            uid: raw.metadata.uid,
            range,
            exempt: Exempt::read(&annotations),
            acknowledged: annotations
                .get(ACK_ANNOTATION)
                .and_then(|text| text.parse().ok()),
            rows,
            total_rows,
            read_at,
        })
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> &PoolKey {
        &self.key
    }

    /// The uid: a pool made again under the same name is another pool.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The range, if it can be read.
    #[must_use]
    pub fn range(&self) -> Option<Range> {
        self.range
    }

    /// The rows that were asked for, in the order of the text.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Whether this very row, not one like it, came with this observation.
    #[must_use]
    pub fn holds(&self, row: &Row) -> bool {
        self.rows.as_ptr_range().contains(&std::ptr::from_ref(row))
    }

    /// How many rows the pool has in all.
    #[must_use]
    pub fn total_rows(&self) -> usize {
        self.total_rows
    }

    /// When the read ended.
    #[must_use]
    pub fn read_at(&self) -> Moment {
        self.read_at
    }

    /// The network of its reservations: see [`network_of_pool`].
    #[must_use]
    pub fn network(&self) -> Option<Option<&str>> {
        network_of_pool(&self.key.name, self.range?)
    }

    /// The address that a row holds, whatever else it says.
    #[must_use]
    pub fn address_of(&self, row: &Row) -> Option<IpAddr> {
        self.range?.address_at(Offset::parse(row.key())?)
    }

    /// When a person acknowledged what the breaker found: see [`crate::breaker`].
    #[must_use]
    pub fn acknowledged(&self) -> Option<Timestamp> {
        self.acknowledged
    }

    /// Whether a person exempted this row by an annotation of the pool.
    #[must_use]
    pub fn is_exempt(&self, row: &Row) -> bool {
        self.exempt.whole_pool
            || self.exempt.keys.contains(row.key())
            || row
                .content()
                .is_ok_and(|content| self.exempt.addresses.contains(&content.address))
    }
}

impl Row {
    fn read(key: &str, value: &RawValue, range: Option<Range>) -> Self {
        // RawValue has checked the syntax; what fails still (a number out of bounds) is unreadable.
        let stored: Value = serde_json::from_str(value.get()).unwrap_or(Value::Null);
        let content = RowContent::read(key, &stored, range);
        Self {
            key: key.into(),
            stored,
            content,
        }
    }

    /// The key in `spec.allocations`, to the letter.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The whole row, as stored.
    #[must_use]
    pub fn stored(&self) -> &Value {
        &self.stored
    }

    /// What the row says.
    ///
    /// # Errors
    /// Where it says nothing that we may act on.
    pub fn content(&self) -> Result<&RowContent, &Unreadable> {
        self.content.as_ref()
    }

    /// The text of the podref, where there is one, whatever it is worth.
    #[must_use]
    pub fn podref_text(&self) -> Option<&str> {
        self.stored.get("podref").and_then(Value::as_str)
    }
}

impl RowContent {
    fn read(key: &str, stored: &Value, range: Option<Range>) -> Result<Self, Unreadable> {
        let fields = stored.as_object().ok_or(Unreadable::Shape)?;
        if let Some(extra) = fields
            .keys()
            .find(|field| !["id", "podref", "ifname"].contains(&field.as_str()))
        {
            return Err(Unreadable::ExtraField(excerpt(extra).into()));
        }
        let text = |field: &str| match fields.get(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(Unreadable::Shape),
        };
        let (sandbox, podref, interface) = (text("id")?, text("podref")?, text("ifname")?);
        let podref = podref
            .and_then(|podref| podref.parse().ok())
            .ok_or(Unreadable::PodRef)?;
        let sandbox = sandbox
            .filter(|id| id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit()))
            .ok_or(Unreadable::SandboxId)?;
        let offset = Offset::parse(key).ok_or(Unreadable::Key)?;
        let address = range
            .ok_or(Unreadable::Range)?
            .address_at(offset)
            .ok_or(Unreadable::Address)?;
        Ok(Self {
            address,
            sandbox: sandbox.into(),
            podref,
            interface: interface.filter(|name| !name.is_empty()).map(Into::into),
        })
    }
}

#[derive(Deserialize)]
struct RawPool<'a> {
    metadata: RawMetadata,
    #[serde(borrow)]
    spec: Option<RawSpec<'a>>,
}

#[derive(Deserialize)]
struct RawMetadata {
    name: String,
    namespace: Option<String>,
    uid: String,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
struct RawSpec<'a> {
    range: Option<String>,
    #[serde(borrow)]
    allocations: Option<Allocations<'a>>,
}

/// Only as much of a row as decides whether it is wanted.
#[derive(Default, Deserialize)]
struct RowHead<'a> {
    #[serde(borrow)]
    podref: Option<Text<'a>>,
    #[serde(borrow)]
    id: Option<Text<'a>>,
}

/// A text that is borrowed from the input unless it has escapes: serde's own `Option<Cow<str>>`
/// never borrows.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrowing<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Borrowing<'a> {
            type Value = Text<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Borrowing(PhantomData))
    }
}

/// The rows in the order of the text, unparsed.
#[derive(Default)]
struct Allocations<'a>(Vec<(Text<'a>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Allocations<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rows<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Rows<'a> {
            type Value = Allocations<'a>;

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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn pool(range: &str, allocations: &str) -> ObservedPool {
        let text = format!(
            r#"{{"metadata":{{"name":"p","namespace":"n","uid":"u","annotations":{{"ipgc.dev/keep":"7, 10.0.0.9"}},"managedFields":[{{"x":1}}]}},
                "spec":{{"range":"{range}","allocations":{allocations}}}}}"#
        );
        ObservedPool::parse(&text, Moment::EPOCH, |_| true).unwrap()
    }

    fn row(key: &str, value: &str) -> Row {
        pool("10.0.0.0/24", &format!(r#"{{"{key}":{value}}}"#)).rows()[0].clone()
    }

    #[test]
    fn a_row_is_read_and_kept_as_stored() {
        let row = row(
            "5",
            &format!(r#"{{"podref":"d/web-0","id":"{ID}","ifname":"net1"}}"#),
        );
        let content = row.content().unwrap();
        assert_eq!(content.address, "10.0.0.5".parse::<IpAddr>().unwrap());
        assert_eq!(content.podref.as_str(), "d/web-0");
        assert_eq!(content.interface.as_deref(), Some("net1"));
        assert_eq!(row.stored()["id"], ID);
    }

    #[rstest]
    #[case::key("x", &format!(r#"{{"podref":"d/p","id":"{ID}"}}"#), Unreadable::Key)]
    #[case::escaped_key(r#"a\"b"#, &format!(r#"{{"podref":"d/p","id":"{ID}"}}"#), Unreadable::Key)]
    #[case::address("18446744073709551615", &format!(r#"{{"podref":"d/p","id":"{ID}"}}"#), Unreadable::Address)]
    #[case::podref("5", &format!(r#"{{"podref":"p","id":"{ID}"}}"#), Unreadable::PodRef)]
    #[case::no_podref("5", &format!(r#"{{"id":"{ID}"}}"#), Unreadable::PodRef)]
    #[case::short_id("5", r#"{"podref":"d/p","id":"abc"}"#, Unreadable::SandboxId)]
    #[case::no_id("5", r#"{"podref":"d/p"}"#, Unreadable::SandboxId)]
    #[case::claim("5", &format!(r#"{{"podref":"d/p","id":"{ID}","claim":"c"}}"#), Unreadable::ExtraField("claim".into()))]
    #[case::number("5", r#"{"podref":"d/p","id":7}"#, Unreadable::Shape)]
    #[case::null("5", "null", Unreadable::Shape)]
    #[case::list("5", "[]", Unreadable::Shape)]
    fn what_cannot_be_read_is_a_row_all_the_same(
        #[case] key: &str,
        #[case] value: &str,
        #[case] reason: Unreadable,
    ) {
        assert_eq!(row(key, value).content(), Err(&reason));
    }

    #[test]
    fn a_bad_range_makes_its_rows_unreadable_not_its_pool() {
        let pool = pool(
            "10.0.0.0",
            &format!(r#"{{"5":{{"podref":"d/p","id":"{ID}"}}}}"#),
        );
        assert_eq!(pool.rows()[0].content(), Err(&Unreadable::Range));
        assert_eq!(pool.network(), None);
    }

    #[test]
    fn only_wanted_rows_are_kept_and_all_are_counted() {
        let text = format!(
            r#"{{"metadata":{{"name":"p","uid":"u"}},"spec":{{"range":"10.0.0.0/24","allocations":{{
                "1":{{"podref":"d/a","id":"{ID}"}},"2":{{"podref":"d/b","id":"{ID}"}},"3":null}}}}}}"#
        );
        let pool =
            ObservedPool::parse(&text, Moment::EPOCH, |row| row.podref == Some("d/b")).unwrap();
        assert_eq!(pool.total_rows(), 3);
        assert_eq!(pool.rows().len(), 1);
        assert_eq!(pool.rows()[0].key(), "2");
    }

    #[rstest]
    #[case(r#"{"metadata":{"name":"p","uid":"u"}}"#)]
    #[case(r#"{"metadata":{"name":"p","uid":"u"},"spec":null}"#)]
    #[case(r#"{"metadata":{"name":"p","uid":"u"},"spec":{"range":"10.0.0.0/24"}}"#)]
    #[case(r#"{"metadata":{"name":"p","uid":"u"},"spec":{"range":null,"allocations":null}}"#)]
    fn a_pool_may_have_no_rows(#[case] text: &str) {
        let pool = ObservedPool::parse(text, Moment::EPOCH, |_| true).unwrap();
        assert_eq!(pool.total_rows(), 0);
    }

    #[test]
    fn people_exempt_rows_by_key_and_by_address() {
        let value = format!(r#"{{"podref":"d/p","id":"{ID}"}}"#);
        assert!(
            pool("10.0.0.0/24", &format!(r#"{{"7":{value}}}"#))
                .rows()
                .iter()
                .all(|r| { pool("10.0.0.0/24", "{}").is_exempt(r) })
        );
        assert!(pool("10.0.0.0/24", "{}").is_exempt(&row("9", &value)));
        assert!(!pool("10.0.0.0/24", "{}").is_exempt(&row("8", &value)));
    }

    proptest! {
        #[test]
        fn no_row_makes_its_pool_fail(key in "[^\"\\\\\\p{C}]{0,12}", id in "[0-9a-f]{0,70}", podref in "[a-z/.]{0,20}") {
            let row = row(&key, &format!(r#"{{"podref":"{podref}","id":"{id}"}}"#));
            if let Ok(content) = row.content() {
                prop_assert_eq!(content.podref.as_str(), podref);
                prop_assert_eq!(id.len(), 64);
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,200}") {
            let _ = ObservedPool::parse(&text, Moment::EPOCH, |_| true);
        }
    }
}
