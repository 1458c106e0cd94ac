//! The explanation of one subject, as it is printed: plain data with a schema.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::audit::{
    grid::Grid,
    report::{ReservationReport, Source, Split, Stored},
};

/// Version of the shape: it grows when a field changes its meaning or goes.
pub const EXPLANATION_VERSION: u32 = 2;

/// The answer of `ipgc explain`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Version of this shape.
    pub version: u32,
    /// When it was made, RFC 3339.
    pub made: String,
    /// Where it is from.
    pub source: Source,
    /// The subject of the question.
    pub subject: String,
    /// The kind of the subject.
    pub kind: SubjectKind,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Of a pool, or of a node: its rows by their verdicts. Without pods nobody knows those of a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// Of a pool whose range can be read: its addresses as a picture; several where pools of several namespaces have the name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grids: Vec<Grid>,
    /// Of a pod that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodReport>,
    /// Of a pod: whether it is known that there is none of this name.
    pub pod_is_absent: bool,
    /// Whether a row without a reservation has none: they may not be in the input.
    pub knows_reservations: bool,
    /// Of a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeReport>,
    /// The rows, one for each network that holds an address; of pools and nodes those that do not live.
    pub rows: Vec<RowExplained>,
    /// Reservations without a row; of nodes those that it holds.
    pub reservations: Vec<RowExplained>,
    /// Of an address: the pods that report it.
    pub reported_by: Vec<PodReport>,
    /// Of a node that holds rows or reservations: how many of them no node would hold any more if it were fenced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fencing_frees: Option<usize>,
}

/// The kind of a subject.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubjectKind {
    /// An address.
    #[default]
    Address,
    /// A pod, whether or not it is there.
    Pod,
    /// A pool.
    Pool,
    /// A node, whether or not it is there.
    Node,
}

/// A row, or a reservation without one, the verdict on it, and all that led to it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RowExplained {
    /// Namespace of its pool, or of the reservation.
    pub namespace: String,
    /// Its pool; of a row always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// `metadata.uid` of its pool; of a row always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool_uid: Option<String>,
    /// The range of its pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// Of a row: the network names that its reservation may bear; none where networks have no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networks: Option<Vec<String>>,
    /// The network that the name of a reservation without a row tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Its key in `spec.allocations`; of a row always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The whole row as stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<Stored>,
    /// Its owner: as it stands in the row, or that of a reservation from before it was marked.
    pub podref: String,
    /// The uid of its ResourceClaim, where its id is that in place of a sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_claim: Option<String>,
    /// live, unreported, stale, unfenced or unknown.
    pub verdict: String,
    /// The rule of docs/safety.md that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<u8>,
    /// Why.
    pub reason: String,
    /// How well it is known that no sandbox answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grade: Option<String>,
    /// The cause that made it stale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// So many seconds from now a collector would free it that begins to look now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<u64>,
    /// The nodes that hold it.
    pub waits_for: Vec<String>,
    /// Its pod, if it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodReport>,
    /// Whether it is known that there is no such pod.
    pub pod_is_absent: bool,
    /// The node of its pod, or the one whose slice the pool is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeReport>,
    /// Its reservation, or that which has no row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<ReservationReport>,
    /// The ways in which the verdict would change, one sentence each.
    pub changes: Vec<String>,
}

/// A pod that is there.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    /// `namespace/name`.
    pub podref: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `status.phase`.
    pub phase: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// missing, complete, incomplete, or why it cannot be read.
    pub network_status: String,
    /// The addresses that it reports.
    pub reports: Vec<String>,
}

/// A node.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// ready, not-ready, fenced, gone, or unknown where no nodes were read.
    pub state: String,
    /// Whether it is tainted out of service.
    pub out_of_service: bool,
    /// Whether a person stated that it runs no sandboxes.
    pub declared_empty: bool,
}
