//! An IPPool as it was observed: its rows, and when they were read.

mod count;
mod row;
mod wire;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

pub use self::count::RowCount;
pub use self::row::{Glance, Row, RowContent, Unreadable};
use self::wire::{List, Manager, PoolText, head, stored};
use crate::{
    address::{Offset, Range},
    breaker::ACK_ANNOTATION,
    time::Moment,
};

/// Annotation on an IPPool: nothing in it is freed while it is there, whatever its value.
pub const HOLD_ANNOTATION: &str = "ipgc.dev/hold";
/// Annotation on an IPPool: keys or addresses, separated by commas or white space, that are
/// kept. Where a word is neither, the whole pool is.
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
        f.pad(&format!("{}/{}", self.namespace, self.name))
    }
}

/// One pool in one quorum read.
#[derive(Debug)]
pub struct ObservedPool {
    key: PoolKey,
    uid: String,
    /// The range, if it can be read.
    pub range: Option<Range>,
    exempt: Exempt,
    /// When a person acknowledged what the breaker found: see [`crate::breaker`].
    pub acknowledged: Option<Timestamp>,
    /// Whether somebody owns fields of it by server-side apply, which its managed fields tell. A text that
    /// was stripped of them tells nothing.
    pub has_applied_fields: bool,
    rows: Vec<Row>,
    /// How many rows the pool has in all.
    pub total_rows: usize,
    /// When the read ended.
    pub read_at: Moment,
}

/// The `operation` of managed fields that somebody owns by server-side apply.
const APPLY: &str = "Apply";

#[derive(Debug, Default)]
struct Exempt {
    whole_pool: bool,
    keys: BTreeSet<Offset>,
    addresses: BTreeSet<IpAddr>,
    unclear: Option<Box<str>>,
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
            } else if let Some(key) = Offset::parse(word) {
                exempt.keys.insert(key);
            } else if !word.is_empty() {
                // The person who wrote it wants something kept: as long as it is not known what, all is.
                exempt.whole_pool = true;
                exempt.unclear.get_or_insert_with(|| word.into());
            }
        }
        exempt
    }
}

/// One pool of a list, or the text of what is none and why.
pub type ListedPool<'t> = Result<ObservedPool, (&'t str, serde_json::Error)>;

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
    ) -> serde_json::Result<Self> {
        let pool = serde_json::from_str::<PoolText>(text)?;
        Ok(Self::read(pool, read_at, &mut wanted))
    }

    /// Reads the JSON text of a list of IPPools in the same way. Its metadata is the caller's to know.
    ///
    /// A pool that is none fails alone, with its text.
    ///
    /// # Errors
    /// When the text is no list.
    pub fn parse_list<'t, M: Deserialize<'t>>(
        text: &'t str,
        read_at: Moment,
        mut wanted: impl FnMut(&Glance<'_>) -> bool,
    ) -> serde_json::Result<(M, Vec<ListedPool<'t>>)> {
        if let Ok(list) = serde_json::from_str::<List<M, PoolText<'t>>>(text) {
            let pools = list.items.into_iter();
            let pools = pools.map(|pool| Ok(Self::read(pool, read_at, &mut wanted)));
            return Ok((list.metadata, pools.collect()));
        }
        // One of them is none: each is read alone.
        let list = serde_json::from_str::<List<M, &'t RawValue>>(text)?;
        let pools = list.items.into_iter().map(|pool| {
            let pool = pool.get();
            Self::parse(pool, read_at, &mut wanted).map_err(|reason| (pool, reason))
        });
        Ok((list.metadata, pools.collect()))
    }

    fn read(
        pool: PoolText<'_>,
        read_at: Moment,
        wanted: &mut dyn FnMut(&Glance<'_>) -> bool,
    ) -> Self {
        let spec = pool.spec.unwrap_or_default();
        let range = spec.range.as_deref().and_then(Range::parse);
        let allocations = spec.allocations.unwrap_or_default();
        let total_rows = allocations.len();
        let key = PoolKey {
            namespace: pool.metadata.namespace.unwrap_or_default(),
            name: pool.metadata.name,
        };
        let mut rows = Vec::new();
        for (row_key, row) in allocations {
            let [podref, sandbox, interface] = head(row);
            let address = range.and_then(|range| range.address_at(Offset::parse(&row_key)?));
            let glance = Glance {
                pool: &key,
                range,
                address,
                podref: podref.as_deref(),
                sandbox: sandbox.as_deref(),
                interface: interface.as_deref(),
            };
            if wanted(&glance) {
                rows.push(Row::read(&row_key, stored(row), range));
            }
        }
        let annotations = pool.metadata.annotations.unwrap_or_default();
        let acknowledged = annotations.get(ACK_ANNOTATION);
        let is_applied = |it: &Manager| it.operation.as_deref() == Some(APPLY);
        let managers = pool.metadata.managers.unwrap_or_default();
        Self {
            key,
            uid: pool.metadata.uid,
            range,
            exempt: Exempt::read(&annotations),
            acknowledged: acknowledged.and_then(|text| text.parse().ok()),
            has_applied_fields: managers.iter().any(is_applied),
            rows,
            total_rows,
            read_at,
        }
    }

    /// From now on the rows of ResourceClaims can be read too: see [`RowContent::resource_claim`].
    pub fn read_resource_claims(&mut self) {
        for row in &mut self.rows {
            row.read_resource_claim(self.range);
        }
    }

    /// Namespace and name.
    pub fn key(&self) -> &PoolKey {
        &self.key
    }

    /// The uid: a pool made again under the same name is another pool.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The rows that were asked for, in the order of their keys.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Drops the rows, where only the pool itself is needed for longer: thousands of them take megabytes.
    pub fn forget_rows(&mut self) {
        self.rows = Vec::new();
    }

    /// Whether this very row, not one like it, came with this observation.
    pub fn holds(&self, row: &Row) -> bool {
        self.rows.as_ptr_range().contains(&std::ptr::from_ref(row))
    }

    /// The address that a row holds, whatever else it says.
    pub fn address_of(&self, row: &Row) -> Option<IpAddr> {
        self.range?.address_at(Offset::parse(row.key())?)
    }

    /// Whether a person exempted whatever holds this address: the whole pool, whose range may have it, the address, or
    /// its key.
    pub fn exempts(&self, address: IpAddr) -> bool {
        let of_key = |key: &Offset| self.range?.address_at(*key);
        let mut keys = self.exempt.keys.iter();
        let may_have = self.range.is_none_or(|range| range.contains(address));
        self.exempt.whole_pool && may_have
            || self.exempt.addresses.contains(&address)
            || keys.any(|key| of_key(key) == Some(address))
    }

    /// Whether a person exempted anything of it.
    pub fn has_exemptions(&self) -> bool {
        let exempt = &self.exempt;
        exempt.whole_pool || !exempt.keys.is_empty() || !exempt.addresses.is_empty()
    }

    /// The first word of its annotation [`KEEP_ANNOTATION`] that is neither an address nor a key, for which all of its
    /// rows are exempted.
    pub fn unclear_exemption(&self) -> Option<&str> {
        self.exempt.unclear.as_deref()
    }

    /// Whether a person exempted this row by an annotation of the pool.
    pub fn is_exempt(&self, row: &Row) -> bool {
        self.exempt.whole_pool
            || Offset::parse(row.key()).is_some_and(|key| self.exempt.keys.contains(&key))
            || self
                .address_of(row)
                .is_some_and(|address| self.exempts(address))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
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

    #[rstest]
    #[case::key("x", &format!(r#"{{"podref":"d/p","id":"{ID}"}}"#), Unreadable::Key)]
    #[case::escaped_key(r#"a\"b"#, &format!(r#"{{"podref":"d/p","id":"{ID}"}}"#), Unreadable::Key)]
    #[case::address("18446744073709551615", &format!(r#"{{"podref":"d/p","id":"{ID}"}}"#), Unreadable::Address)]
    #[case::podref("5", &format!(r#"{{"podref":"p","id":"{ID}"}}"#), Unreadable::PodRef)]
    #[case::no_podref("5", &format!(r#"{{"id":"{ID}"}}"#), Unreadable::PodRef)]
    #[case::short_id("5", r#"{"podref":"d/p","id":"abc"}"#, Unreadable::SandboxId)]
    #[case::no_id("5", r#"{"podref":"d/p"}"#, Unreadable::SandboxId)]
    #[case::resource_claim(
        "5",
        r#"{"podref":"default/pod-whereabouts","id":"0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"}"#,
        Unreadable::ResourceClaim("0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f".into())
    )]
    #[case::ipam_claim("5", &format!(r#"{{"podref":"d/p","id":"{ID}","ipamclaimref":"d/vm"}}"#), Unreadable::IpamClaim("d/vm".into()))]
    #[case::no_claim("5", &format!(r#"{{"podref":"d/p","id":"{ID}","ipamclaimref":""}}"#), Unreadable::ExtraField("ipamclaimref".into()))]
    #[case::claim_and_more("5", &format!(r#"{{"podref":"d/p","id":"{ID}","ipamclaimref":"d/vm","a":""}}"#), Unreadable::IpamClaim("d/vm".into()))]
    #[case::claim_of_another_form("5", &format!(r#"{{"podref":"d/p","id":"{ID}","ipamclaimref":{{"name":"vm"}}}}"#), Unreadable::IpamClaim(r#"{"name":"vm"}"#.into()))]
    #[case::claim_in_another_shape("5", r#"{"podref":7,"ipamclaimref":"d/vm"}"#, Unreadable::IpamClaim("d/vm".into()))]
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

    #[rstest]
    #[case(r#"{"id":"x","podref":"d/p","ifname":null}"#)]
    #[case(r#"{"id":"x","podref":"d/p","ifname":""}"#)]
    #[case(r#"{"id":"x","podref":"d/p"}"#)]
    #[case(r#"{"id":"x","podref":"d/\u0070","ifname":"net1"}"#)]
    #[case(r#"{"id":"x","podref":7,"ifname":["net1"],"more":{"a":1.5}}"#)]
    #[case("{}")]
    fn a_row_is_kept_as_stored_whatever_it_is(#[case] value: &str) {
        let stored: serde_json::Value = serde_json::from_str(value).unwrap();
        assert_eq!(row("5", value).stored(), &stored);
    }

    #[test]
    fn what_is_odd_in_a_list_spoils_nothing_else() {
        let plain = format!(r#"{{"podref":"d/p","id":"{ID}","ifname":"net1"}}"#);
        let pool = |name: &str, row: &str| {
            format!(
                r#"{{"metadata":{{"name":"{name}","uid":"u"}},"spec":{{"range":"10.0.0.0/24","allocations":{{"1":{plain},"2":{row}}}}}}}"#
            )
        };
        let list = |odd: &str| {
            let (a, b) = (pool("a", &plain), pool("b", odd));
            let text =
                format!(r#"{{"metadata":{{"continue":"c"}},"items":[{a},{b},{{"kind":"?"}}]}}"#);
            let (metadata, pools) =
                ObservedPool::parse_list::<serde_json::Value>(&text, Moment::EPOCH, |_| true)
                    .unwrap();
            assert_eq!(metadata["continue"], "c");
            let rows = |pool: &ObservedPool| {
                let rows = pool.rows().iter();
                rows.map(|row| row.content().is_ok()).collect::<Vec<_>>()
            };
            let pools = pools.iter().map(|pool| pool.as_ref().map_or(vec![], rows));
            pools.collect::<Vec<_>>()
        };
        assert_eq!(list(&plain), [vec![true, true], vec![true, true], vec![]]);
        assert_eq!(list("1e999"), [vec![true, true], vec![true, false], vec![]]);
    }

    #[test]
    fn only_wanted_rows_are_kept_and_all_are_counted() {
        let text = format!(
            r#"{{"metadata":{{"name":"p","uid":"u"}},"spec":{{"range":"10.0.0.0/24","allocations":{{
                "1":{{"podref":"d/a","id":"{ID}"}},"2":{{"podref":"d/b","id":"{ID}"}},"3":null}}}}}}"#
        );
        let pool =
            ObservedPool::parse(&text, Moment::EPOCH, |row| row.podref == Some("d/b")).unwrap();
        assert_eq!(pool.total_rows, 3);
        assert_eq!(pool.rows().len(), 1);
        assert_eq!(pool.rows()[0].key(), "2");
    }

    #[rstest]
    #[case::address("10.0.0.9", false)]
    #[case::key(" 9,, -3", false)]
    #[case::other_key("009", false)]
    #[case::nothing("", false)]
    #[case::prefix("10.0.0.0/28", true)]
    #[case::range("10.0.0.1-10.0.0.5", true)]
    #[case::semicolons("10.0.0.9; 10.0.0.12", true)]
    #[case::json(r#"[\"10.0.0.9\"]"#, true)]
    #[case::leading_zero("10.0.0.09", true)]
    fn a_word_that_exempts_nobody_knows_what_exempts_the_pool(
        #[case] keep: &str,
        #[case] all: bool,
    ) {
        let value = format!(r#"{{"podref":"d/p","id":"{ID}"}}"#);
        let text = format!(
            r#"{{"metadata":{{"name":"p","uid":"u","annotations":{{"ipgc.dev/keep":"{keep}"}}}},"spec":{{"range":"10.0.0.0/24"}}}}"#
        );
        let pool = ObservedPool::parse(&text, Moment::EPOCH, |_| true).unwrap();
        assert_eq!(pool.is_exempt(&row("8", &value)), all);
        assert_eq!(pool.exempts("10.0.0.200".parse().unwrap()), all);
        assert_eq!(pool.unclear_exemption().is_some(), all);
    }
}
