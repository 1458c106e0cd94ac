//! The findings of an audit, as they are printed and read again: plain data with a schema.
//!
//! Field names are stable: `schemas/audit.json` describes them, and other programs read them. A field that is
//! not known of a finding is left out.

use std::{fmt, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::snapshot::Source;

/// Version of the report's shape: it grows when a field changes its meaning or goes.
pub const REPORT_VERSION: u32 = 2;

/// The report of `ipgc audit`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Version of this shape.
    pub version: u32,
    /// When the report was made, RFC 3339. Each row in it was observed no later than that.
    pub made: String,
    /// Where it is from: `cluster` or `files`.
    pub source: Source,
    /// The number of objects, and the verdicts on all rows, whatever findings were chosen.
    pub totals: Totals,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// The pools, fullest first.
    pub pools: Vec<PoolUsage>,
    /// The findings, worst first.
    pub findings: Vec<Finding>,
}

/// How many there are.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Pools.
    pub pools: usize,
    /// Rows in them.
    pub rows: usize,
    /// Rows by their verdicts.
    #[serde(flatten)]
    pub split: Split,
    /// Reservations.
    pub reservations: usize,
    /// Pods.
    pub pods: usize,
    /// Nodes.
    pub nodes: usize,
}

/// Rows by their verdicts.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Split {
    /// Its pod reports it.
    pub live: usize,
    /// It is held for any other reason.
    pub unreported: usize,
    /// It goes by itself when its wait is over.
    pub stale: usize,
    /// It waits for something to happen on a node.
    pub unfenced: usize,
    /// Nothing can be said, or a person exempted it.
    pub unknown: usize,
}

/// How full a pool is.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolUsage {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// How many addresses definitions hand out of it; without a definition all but the first and the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// How many of them have no row. Rows of other addresses take none of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
    /// Its rows.
    #[serde(flatten)]
    pub split: Split,
    /// The rows of addresses that are handed out: only they take room.
    pub taken: Split,
    /// The network attachment definitions that lead to it, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<String>,
    /// Parts of the range that some definitions hand out, and not all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartUsage>,
    /// So many seconds from now the last of its stale rows would be freed by a collector that begins to look now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<u64>,
    /// So many seconds ago the oldest reservation of its stale and unfenced rows was created: since when the address is
    /// taken. A row itself bears no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_stale_seconds: Option<u64>,
    /// The nodes that hold its unfenced rows, sixteen of them at the most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// How full a part of a range is.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartUsage {
    /// The definitions that hand it out.
    pub definitions: Vec<String>,
    /// Its first address; none where it begins with the range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// Its last address; none where it ends with the range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// How many addresses it has to hand out.
    pub size: u64,
    /// The rows of them.
    #[serde(flatten)]
    pub split: Split,
}

/// The problem of a finding, worst first.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Problem {
    /// Two pods that live report one address of one network, or a row is held for a pod that is not its own.
    InUseTwice,
    /// A pod that lives reports an address that no row holds for it.
    InUseUnallocated,
    /// A reservation that is missing, or another's, for a row whose pod lives.
    ReservationMissing,
    /// An address that a definition gives to each of its pods, and that a pool gives away.
    StaticInPool,
    /// More than 90 % of a range, or of a part of it, are taken.
    NearlyFull,
    /// There are no pools at all.
    NoPools,
    /// A row whose pod is gone is held until something happens on a node.
    HeldUnfenced,
    /// A row that is held for its pod, which does not report it or is not at work.
    Unreported,
    /// A row that nobody needs any more.
    Stale,
    /// A row that a pod which lives has left behind.
    Leftover,
    /// A reservation without a row.
    ReservationOrphaned,
    /// A row or reservation of an IPAMClaim that is gone.
    IpamClaimGone,
    /// A row whose address is not in the range of its pool.
    OutOfRange,
    /// A row, or an object, that cannot be read.
    Unreadable,
    /// A row of which nobody can tell whether it is needed.
    #[default]
    Unknown,
    /// A pool that is one node's slice by its name, and in which a pod of another node has a row.
    SliceOfSeveralNodes,
    /// A pool with rows that no network attachment definition leads to any more, since one hands out its addresses from
    /// another pool by now.
    PoolSuperseded,
    /// A pool that no network attachment definition leads to.
    PoolWithoutDefinition,
    /// A slice of a node that is gone.
    SliceOfGoneNode,
}

/// The word in JSON.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// One finding.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The problem.
    pub problem: Problem,
    /// The same in a sentence.
    pub detail: String,
    /// The row that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<RowReport>,
    /// The namespace of the pool, or of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The network attachment definition as `namespace/name`, where it is about what one hands out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The pods as `namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
    /// The nodes: those of the pods, or those that hold the row, sixteen of them at the most.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub nodes: Arc<[Box<str>]>,
    /// How well it is known that no sandbox answers: settled, fenced, witnessed, unwitnessed or unfenced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grade: Option<String>,
    /// The cause that made it stale: deleted, completed, predecessor or leftover.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// So many seconds from now a collector would free it that begins to look now; none while it is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<u64>,
    /// The reservation, by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Box<ReservationReport>>,
    /// A command that mends it. Read it before you run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// A row with all that identifies it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RowReport {
    /// `metadata.uid` of the pool.
    pub pool_uid: String,
    /// Its key in `spec.allocations`.
    pub key: String,
    /// The whole of it as stored.
    pub stored: Stored,
}

/// A row as it is stored: of a pod's the three texts id, podref and ifname.
// Its text is kept, a sixth of what it takes as a value.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(from = "Value", into = "Value")]
#[schemars(rename = "Row", with = "Value")]
pub struct Stored(Box<str>);

impl From<Value> for Stored {
    fn from(row: Value) -> Self {
        Self(row.to_string().into())
    }
}

impl From<Stored> for Value {
    fn from(row: Stored) -> Self {
        // The text was made of a value.
        serde_json::from_str(&row.0).unwrap_or_default()
    }
}

/// A reservation with all that identifies it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReservationReport {
    /// Its name, which holds the address.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `spec.podref`; empty where there is none.
    pub podref: String,
    /// `spec.containerid`, where there is no podref.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// `spec.ifname`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
}

impl Finding {
    /// A finding of which nothing else is known yet.
    pub fn new(problem: Problem, detail: impl Into<String>) -> Self {
        Self {
            problem,
            detail: detail.into(),
            ..Self::default()
        }
    }
}
