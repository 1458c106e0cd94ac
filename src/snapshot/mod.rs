//! The present state of a cluster as far as it concerns addresses, read once: from the API server or from files.
//! `ipgc audit` and `ipgc explain` judge it.
//!
//! These modules only read, with the parsers of `ipgc_core`, and never judge.

pub mod files;
mod gather;
pub mod labels;
pub mod live;
pub(crate) mod neighbours;
mod objects;
pub(crate) mod server;
mod yaml;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt,
    net::IpAddr,
    sync::Arc,
};

use ipgc_core::{
    address::reservation_names,
    definitions::{Definitions, Networks},
    node::{NodeState, Nodes},
    pod::PodState,
    podref::PodRef,
    pool::{ObservedPool, PoolKey},
    proof::Presence,
    reservation::Reservation,
    routes::Slice,
    time::Moment,
};

use kube::api::{ApiResource, GroupVersionKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::names;

pub use self::objects::{Object, read_objects};

/// The kinds that a snapshot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Pools.
    IpPool,
    /// Reservations.
    Reservation,
    /// Slices of nodes.
    NodeSlicePool,
    /// Pods.
    Pod,
    /// Nodes.
    Node,
    /// Network attachment definitions.
    Definition,
    /// IPAMClaims, which few clusters have.
    IpamClaim,
    /// ResourceClaims, for their names.
    ResourceClaim,
}

impl Kind {
    /// All kinds, in the order in which they have to be read. It is a guard: reservations before rows, and rows before
    /// pods. So what is made between two reads never looks orphaned.
    pub const ALL: [Self; 8] = [
        Self::Reservation,
        Self::IpPool,
        Self::NodeSlicePool,
        Self::Pod,
        Self::Node,
        Self::Definition,
        Self::IpamClaim,
        Self::ResourceClaim,
    ];

    /// The kind as the API server serves it.
    pub(crate) fn resource(self) -> ApiResource {
        let [version, kind, plural] = self.names();
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    }

    /// `apiVersion` and `kind`.
    pub fn type_of(self) -> (&'static str, &'static str) {
        let [version, kind, _] = self.names();
        (version, kind)
    }

    /// What follows for verdicts where no objects of this kind were read, as far as nothing else says so.
    pub(crate) fn without(self) -> Option<&'static str> {
        match self {
            Self::Reservation => Some("missing and orphaned ones are not looked for"),
            Self::NodeSlicePool => Some("a pool without a definition may be the slice of a node"),
            Self::Node => Some("what is stale is held, since any node may be silent"),
            Self::Definition => Some(
                "duplicates, addresses in use without a row, missing reservations and unused pools are not looked for",
            ),
            Self::IpPool | Self::Pod | Self::IpamClaim | Self::ResourceClaim => None,
        }
    }

    /// `apiVersion`, `kind`, and the name that kubectl takes.
    fn names(self) -> [&'static str; 3] {
        const WHEREABOUTS: &str = "whereabouts.cni.cncf.io/v1alpha1";
        match self {
            Self::IpPool => [WHEREABOUTS, "IPPool", "ippools"],
            Self::Reservation => [
                WHEREABOUTS,
                "OverlappingRangeIPReservation",
                "overlappingrangeipreservations",
            ],
            Self::NodeSlicePool => [WHEREABOUTS, "NodeSlicePool", "nodeslicepools"],
            Self::Pod => ["v1", "Pod", "pods"],
            Self::Node => ["v1", "Node", "nodes"],
            Self::Definition => [
                "k8s.cni.cncf.io/v1",
                "NetworkAttachmentDefinition",
                "network-attachment-definitions",
            ],
            Self::IpamClaim => ["k8s.cni.cncf.io/v1alpha1", "IPAMClaim", "ipamclaims"],
            Self::ResourceClaim => ["resource.k8s.io/v1", "ResourceClaim", "resourceclaims"],
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.names()[2])
    }
}

/// Where a report is from.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// From the API server.
    Cluster,
    /// From files.
    #[default]
    Files,
}

/// The moment at which all of a snapshot is judged. A moment of its own: it has no history.
pub const NOW: Moment = Moment::new(std::time::Duration::from_hours(24));

/// The objects of a cluster.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Where it is from.
    pub source: Source,
    /// The moment after its last read, RFC 3339.
    pub made: String,
    /// The pools as text: as objects, their rows take ten times the memory. See [`Snapshot::observed`].
    pub pools: Vec<Box<str>>,
    /// `metadata.resourceVersion` of the pools without rows, which may be removed.
    pub empty_pools: BTreeMap<PoolKey, Box<str>>,
    /// The reservations, in the order of their namespaces and names.
    pub reservations: Vec<Reservation>,
    /// The slices of nodes.
    pub slices: Vec<Slice>,
    /// The place of each in `status.allocations` of its NodeSlicePool.
    pub slice_places: Vec<usize>,
    /// The pods, in the order of their podrefs.
    pub pods: Vec<Arc<PodState>>,
    /// The nodes by name.
    pub nodes: BTreeMap<Box<str>, NodeState>,
    /// The definitions by `namespace/name`.
    pub definitions: Definitions,
    /// The IPAMClaims as `namespace/name`.
    pub ipam_claims: HashSet<String>,
    /// The ResourceClaims by uid, as `namespace/name`.
    pub resource_claims: HashMap<Box<str>, String>,
    /// The kinds of claims to which rows or reservations may belong. Nothing else makes them worth a read.
    pub claims: BTreeSet<Kind>,
    /// The kinds that were read. Nothing is known of the objects of the others.
    pub kinds: BTreeSet<Kind>,
    /// The pods that a selector of labels chose, if there is one.
    pub selected: Option<HashSet<PodRef>>,
    /// The objects that cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// Why the absence of a pod proves nothing, if it does not. What is known of a pod that is there may then be older or newer
    /// than its row.
    pub no_proof: Option<Box<str>>,
    /// Whether nobody knows whether rows were read before pods.
    pub is_unordered: bool,
    /// The only namespace whose pools were looked for.
    pub pools_of: Option<String>,
    /// The namespaces that have pods, if pods of others may be missing in the input.
    pub confined: Option<BTreeSet<Box<str>>>,
    /// Whether some nodes are missing in the input: a silent one may be among them.
    pub nodes_are_partial: bool,
    /// Sentences for the reader of the report.
    pub notes: Vec<String>,
    /// The namespaces of which a collector says that the API server refuses to claim their reservations.
    pub claims_forbidden: BTreeSet<String>,
}

/// An object that is there and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its kind.
    pub kind: Kind,
    /// Its name, as far as that can be read.
    pub name: String,
    /// The fault.
    pub reason: String,
}

impl Unreadable {
    /// Its namespace; empty where that cannot be read.
    pub(crate) fn namespace(&self) -> &str {
        self.name
            .split_once('/')
            .map_or("", |(namespace, _)| namespace)
    }
}

impl Snapshot {
    /// The pools with all of their rows, one at a time.
    pub fn observed(&self) -> impl Iterator<Item = ObservedPool> {
        // Each was parsed when it was gathered, so none is left out.
        let all = self.pools.iter();
        all.filter_map(|text| ObservedPool::parse(text, NOW, |_| true).ok())
    }

    /// The pod of this name.
    pub fn pod(&self, podref: &str) -> Option<&Arc<PodState>> {
        let by_name = |pod: &Arc<PodState>| pod.podref.as_str().cmp(podref);
        let at = self.pods.binary_search_by(by_name).ok()?;
        self.pods.get(at)
    }

    /// The reservations of an address in these networks, each with its place.
    pub fn reservations_of<'a>(
        &'a self,
        namespace: &'a str,
        networks: &'a Networks,
        address: IpAddr,
    ) -> impl Iterator<Item = (usize, &'a Reservation)> {
        let names = networks.iter();
        let names = names.flat_map(move |it| reservation_names(address, it.as_deref()));
        names.filter_map(move |name| {
            let by_name = |it: &Reservation| (&*it.namespace, &*it.name).cmp(&(namespace, &*name));
            let at = self.reservations.binary_search_by(by_name).ok()?;
            Some((at, self.reservations.get(at)?))
        })
    }

    /// The presence of a pod, as far as the snapshot tells.
    pub fn presence(&self, podref: &PodRef) -> Presence {
        if let Some(pod) = self.pod(podref.as_str()) {
            return Presence::Present(Some(Arc::clone(pod)));
        }
        if let Some(reason) = &self.no_proof {
            return Presence::Unknown(reason.clone());
        }
        match &self.confined {
            Some(seen) if !seen.contains(podref.namespace()) => {
                Presence::Unknown("the input has no pods of its namespace".into())
            }
            _ => Presence::Absent,
        }
    }

    /// Whether an IPAMClaim, `namespace/name`, is known not to be there.
    pub fn is_gone(&self, claim: &str) -> bool {
        self.kinds.contains(&Kind::IpamClaim)
            && PodRef::is_valid(claim)
            && !self.ipam_claims.contains(claim)
    }

    /// Why rows without a pod may be unknown, if that is so.
    pub fn gap(&self) -> Option<String> {
        if let Some(reason) = &self.no_proof {
            let nodes = if self.kinds.contains(&Kind::Node) {
                ""
            } else {
                ", and nodes are missing"
            };
            return Some(format!(
                "{reason}{nodes}, so the absence of a pod proves nothing: rows without a pod are unknown"
            ));
        }
        let namespaces: Vec<_> = self.confined.as_ref()?.iter().collect();
        Some(format!(
            "all pods are of namespace {}: rows of others are unknown; dump pods with -A",
            names(&namespaces)
        ))
    }

    /// Whether a node that is not there is gone.
    pub fn knows_nodes(&self) -> bool {
        self.kinds.contains(&Kind::Node) && !self.nodes_are_partial
    }

    /// Whether anything tells of this node: itself, a pod on it or a slice of it.
    pub fn knows_node(&self, name: &str) -> bool {
        let mut pods = self.pods.iter();
        let mut slices = self.slices.iter();
        self.nodes.contains_key(name)
            || pods.any(|pod| pod.node.as_deref() == Some(name))
            || slices.any(|slice| *slice.node == *name)
    }

    /// The nodes, as a collector knows them that has just begun: each may run pods that it has not seen.
    pub fn present_nodes(&self) -> Nodes {
        let mut nodes = Nodes::default();
        if self.knows_nodes() {
            nodes.gap(NOW);
            for (name, state) in &self.nodes {
                nodes.apply(name, state.clone(), NOW);
            }
            nodes.retain(|_| true, NOW);
            nodes.suspect(self.nodes.keys().map(|name| &**name), NOW);
        }
        nodes
    }
}
