//! What is wrong with a pool as a whole, and with the slices of nodes.

use std::{collections::HashSet, net::IpAddr};

use ipgc_core::{address::Range, pool::PoolKey};

use super::{
    assess::Assessor,
    definitions::{Definitions, Led},
    index::Place,
    report::{Finding, PoolUsage, Problem, Split},
    words,
};
use crate::snapshot::{Kind, Slice};

/// More than so many hundredths of a range are nearly all of it.
const NEARLY_FULL: u64 = 90;

/// How many addresses of a range are handed out at the most, by what leads to it: whereabouts gives neither its
/// first nor its last address.
#[must_use]
pub fn size(range: Range, led: Option<&Led>) -> u64 {
    let (first, std::cmp::Reverse(last)) = range.first_and_last();
    let (lowest, highest) = (
        number(first).saturating_add(1),
        number(last).saturating_sub(1),
    );
    let spans = led.map_or(&[][..], |led| &led.spans);
    let bound = |address: Option<IpAddr>, else_| address.map_or(else_, number);
    let begins = spans.iter().map(|span| bound(span.first, lowest)).min();
    let ends = spans.iter().map(|span| bound(span.last, highest)).max();
    let (begin, end) = (begins.unwrap_or(lowest), ends.unwrap_or(highest));
    let (begin, end) = (begin.max(lowest), end.min(highest));
    let count = (end + 1).saturating_sub(begin);
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// How full a pool is.
#[must_use]
pub fn usage(place: &Place, led: Option<&Led>, split: Split) -> PoolUsage {
    PoolUsage {
        namespace: place.key.namespace.clone(),
        name: place.key.name.clone(),
        range: place.range.map(|range| range.to_string()),
        size: place.range.map(|range| size(range, led)),
        split,
    }
}

impl Split {
    /// All rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.live + self.stale + self.held + self.unknown
    }

    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.live += other.live;
        self.stale += other.stale;
        self.held += other.held;
        self.unknown += other.unknown;
    }
}

fn about(problem: Problem, key: &PoolKey, detail: String) -> Finding {
    let mut finding = Finding::new(problem, detail);
    finding.namespace = Some(key.namespace.as_str().into());
    finding.pool = Some(key.name.as_str().into());
    finding
}

/// The finding about a range that is nearly full.
#[must_use]
pub fn nearly_full(place: &Place, usage: &PoolUsage) -> Option<Finding> {
    let size = usage.size?;
    let Split {
        live,
        stale,
        held,
        unknown,
    } = usage.split;
    let rows = usage.split.rows() as u64;
    (rows.saturating_mul(100) > size.saturating_mul(NEARLY_FULL)).then(|| {
        let detail = format!(
            "{rows} of {size} addresses are taken: {live} live, {stale} stale, {held} held, {unknown} unknown"
        );
        about(Problem::NearlyFull, &place.key, detail)
    })
}

/// The finding about a pool that no definition leads to.
#[must_use]
pub fn without_definition(place: &Place, split: Split, definitions: &Definitions<'_>) -> Finding {
    let mut detail = "no definition leads to it".to_owned();
    let mut command = None;
    match split.rows() {
        0 => command = Some(words::delete_pool(&place.key)),
        rows => {
            detail = format!("{detail}; it has {rows} rows, and may be removed when they are gone");
        }
    }
    if definitions.blind > 0 {
        let blind = definitions.blind;
        detail = format!("{detail}; {blind} definitions do not tell their range, and may");
        command = None;
    }
    let mut finding = about(Problem::PoolWithoutDefinition, &place.key, detail);
    finding.command = command.map(Into::into);
    finding
}

/// The findings about slices of nodes that are gone. `rows` says how many rows a pool has, if there is one.
pub fn gone_slices(
    assessor: &Assessor<'_>,
    rows: impl Fn(&PoolKey) -> Option<usize>,
) -> Vec<Finding> {
    let snapshot = assessor.snapshot;
    if !snapshot.kinds.contains(&Kind::Node) {
        return Vec::new();
    }
    let gone = |slice: &&Slice| !snapshot.nodes.contains_key(&slice.node);
    snapshot
        .slices
        .iter()
        .filter(gone)
        .map(|slice| gone_slice(slice, &rows))
        .collect()
}

fn gone_slice(slice: &Slice, rows: impl Fn(&PoolKey) -> Option<usize>) -> Finding {
    let key = |name| PoolKey {
        namespace: slice.namespace.clone(),
        name,
    };
    let pools = slice.pool_names().map(key);
    let pool = pools.iter().find_map(|key| Some((key, rows(key)?)));
    let Slice {
        namespace,
        name,
        index,
        node,
        range,
    } = slice;
    let path = format!("/status/allocations/{index}/nodeName");
    let unassign = format!(
        "kubectl -n {namespace} patch nodeslicepools.whereabouts.cni.cncf.io {name} --type=json -p \
         '[{{\"op\":\"test\",\"path\":\"{path}\",\"value\":\"{node}\"}},\
         {{\"op\":\"replace\",\"path\":\"{path}\",\"value\":\"\"}}]'"
    );
    let mut detail = format!("{range} of NodeSlicePool {name} is of node {node}, which is gone");
    let command = match pool {
        Some((_, count)) if count > 0 => {
            detail = format!(
                "{detail}; its pool has {count} rows, and may be removed when they are gone"
            );
            None
        }
        Some((pool, _)) => Some(format!("{} && {unassign}", words::delete_pool(pool))),
        None => Some(unassign),
    };
    let mut finding = Finding::new(Problem::SliceOfGoneNode, detail);
    finding.namespace = Some(namespace.as_str().into());
    finding.pool = pool.map(|(pool, _)| pool.name.as_str().into());
    finding.nodes = vec![node.as_ref().into()];
    finding.command = command.map(Into::into);
    finding
}

/// The namespaces in which a row may be that cannot be seen.
#[must_use]
pub fn blind_namespaces(assessor: &Assessor<'_>) -> HashSet<String> {
    let unreadable = assessor.snapshot.unreadable.iter();
    let unreadable = unreadable.filter(|it| it.kind == Kind::IpPool);
    let of_names = unreadable.filter_map(|it| Some(it.name.split_once('/')?.0.to_owned()));
    let places = assessor
        .index
        .pools
        .iter()
        .filter(|place| place.range.is_none());
    of_names
        .chain(places.map(|place| place.key.namespace.clone()))
        .collect()
}
