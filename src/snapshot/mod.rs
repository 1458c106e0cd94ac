//! The present state of a cluster as far as it concerns addresses, gathered once: from the API server or from
//! files. What `ipgc audit` and `ipgc explain` judge.
//!
//! | module | what lives there |
//! |---|---|
//! | `gather` | objects in, facts out |
//! | `stream` | the objects of a dump, one at a time |
//! | [`files`] | from files |
//! | [`live`] | from the API server, in quorum reads |
//! | `neighbours` | who else frees addresses there |
//! | `statics` | the addresses that a definition gives to each of its pods |
//! | [`labels`] | label selectors |
//!
//! It only reads. Pools are kept as text, since all their rows as objects would be ten times as large; whoever
//! goes through them parses one after the other.

pub mod files;
mod gather;
pub mod labels;
pub mod live;
pub(crate) mod neighbours;
mod statics;
mod stream;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt,
    hash::{BuildHasher, Hash},
    net::IpAddr,
    sync::Arc,
};

use foldhash::quality::FixedState;
use hashbrown::HashTable;

use ipgc_core::{
    address::{Range, pool_name},
    node::{NodeState, Nodes},
    pod::PodState,
    podref::PodRef,
    pool::{Glance, ObservedPool, PoolKey},
    proof::Presence,
    reservation::LeanReservation,
    time::Moment,
};

pub use self::{
    gather::Gather,
    stream::{Object, Place, ReadError, read_objects},
};
use ipgc_core::definitions::Definitions;

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
}

impl Kind {
    /// All of them, in the order in which they have to be read: rows before pods.
    pub const ALL: [Self; 6] = [
        Self::IpPool,
        Self::Reservation,
        Self::NodeSlicePool,
        Self::Pod,
        Self::Node,
        Self::Definition,
    ];

    /// `apiVersion` and `kind`.
    #[must_use]
    pub fn type_of(self) -> (&'static str, &'static str) {
        const WHEREABOUTS: &str = "whereabouts.cni.cncf.io/v1alpha1";
        match self {
            Self::IpPool => (WHEREABOUTS, "IPPool"),
            Self::Reservation => (WHEREABOUTS, "OverlappingRangeIPReservation"),
            Self::NodeSlicePool => (WHEREABOUTS, "NodeSlicePool"),
            Self::Pod => ("v1", "Pod"),
            Self::Node => ("v1", "Node"),
            Self::Definition => ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition"),
        }
    }
}

/// As kubectl takes it.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IpPool => "ippools",
            Self::Reservation => "overlappingrangeipreservations",
            Self::NodeSlicePool => "nodeslicepools",
            Self::Pod => "pods",
            Self::Node => "nodes",
            Self::Definition => "network-attachment-definitions",
        })
    }
}

/// The moment at which all of a snapshot is judged. A moment of its own: it has no history.
pub const NOW: Moment = Moment::new(std::time::Duration::from_hours(24));

/// What there is.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The pools, each as text of metadata and spec.
    pub pools: Vec<Box<str>>,
    /// The reservations, in the order of their namespaces and names.
    pub reservations: Vec<LeanReservation>,
    pod_places: Places,
    reservation_places: Places,
    /// The slices of nodes.
    pub slices: Vec<Slice>,
    /// The pods, in the order of their podrefs.
    pub pods: Vec<Arc<PodState>>,
    /// The nodes by name.
    pub nodes: BTreeMap<Box<str>, NodeState>,
    /// The definitions by `namespace/name`.
    pub definitions: Definitions,
    /// The addresses that definitions give to each of their pods, by `namespace/name`.
    pub statics: BTreeMap<Box<str>, Vec<IpAddr>>,
    /// Which kinds were read. What is missing of the others is not known to be absent.
    pub kinds: BTreeSet<Kind>,
    /// The pods that a selector of labels chose, if there is one.
    pub selected: Option<HashSet<PodRef>>,
    /// What could not be read of what is there.
    pub unreadable: Vec<Unreadable>,
    /// Why the absence of a pod proves nothing, if it does not.
    pub no_proof: Option<Box<str>>,
    /// The only namespace whose pools were looked for.
    pub pools_of: Option<String>,
    /// The namespaces of the pods, where those of others may have been left out.
    pub confined: Option<BTreeSet<Box<str>>>,
    /// Whether some nodes were left out: a silent one may be among them.
    pub nodes_are_partial: bool,
    /// What a person should know who reads the report.
    pub notes: Vec<String>,
    /// The namespaces of which a collector says that the API server refuses to claim their reservations.
    pub claims_forbidden: BTreeSet<String>,
}

/// One node's part of a NodeSlicePool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// `metadata.namespace` of the NodeSlicePool.
    pub namespace: String,
    /// `metadata.name` of it.
    pub name: String,
    /// Its place in `status.allocations`.
    pub index: usize,
    /// The node.
    pub node: Box<str>,
    /// The part.
    pub range: Range,
}

impl Slice {
    /// The pools that it may be, by the two names that whereabouts gives them.
    #[must_use]
    pub fn pool_names(&self) -> [String; 2] {
        let name = |network| pool_name(network, Some(&self.node), self.range);
        [name(Some(&self.name)), name(None)]
    }
}

/// An object that is there and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// What it is.
    pub kind: Kind,
    /// Which one, as far as that can be read.
    pub name: String,
    /// Why not.
    pub reason: String,
}

/// Where something of a name is in a list. Each row asks for its pod and its reservations, and a search in the order
/// of names would wait for memory at each of its steps.
#[derive(Debug, Default)]
struct Places(HashTable<u32>);

impl Places {
    fn of<K: Hash>(keys: impl Iterator<Item = K>) -> Self {
        let hashes: Vec<u64> = keys.map(|key| Self::hash(&key)).collect();
        let mut table = HashTable::with_capacity(hashes.len());
        for (at, hash) in hashes.iter().enumerate() {
            // What has more than four thousand million things is no cluster.
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            table.insert_unique(*hash, at, |at| hashes[*at as usize]);
        }
        Self(table)
    }

    fn find(&self, key: &impl Hash, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let found = self.0.find(Self::hash(key), |at| is_it(*at as usize));
        found.map(|at| *at as usize)
    }

    fn hash(key: &impl Hash) -> u64 {
        FixedState::default().hash_one(key)
    }
}

impl Snapshot {
    /// Puts pods and reservations in order, so that they can be asked for by their names. An error names what is
    /// there twice.
    fn sort(&mut self) -> Result<(), (Kind, String)> {
        self.pods.shrink_to_fit();
        self.pods.sort_unstable_by(|a, b| a.podref.cmp(&b.podref));
        let mut pairs = self.pods.windows(2);
        if let Some(pair) = pairs.find(|pair| pair[0].podref == pair[1].podref) {
            return Err((Kind::Pod, pair[0].podref.to_string()));
        }
        self.reservations.shrink_to_fit();
        let order = |a: &LeanReservation, b: &LeanReservation| {
            (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name))
        };
        self.reservations.sort_unstable_by(order);
        let mut pairs = self.reservations.windows(2);
        if let Some([one, _]) = pairs.find(|pair| order(&pair[0], &pair[1]).is_eq()) {
            let name = format!("{}/{}", one.namespace, one.name);
            return Err((Kind::Reservation, name));
        }
        self.pod_places = Places::of(self.pods.iter().map(|pod| pod.podref.as_str()));
        let names = self.reservations.iter();
        self.reservation_places = Places::of(names.map(|it| (&*it.namespace, &*it.name)));
        Ok(())
    }

    /// The pod of this name.
    #[must_use]
    pub fn pod(&self, podref: &str) -> Option<&PodState> {
        self.pod_place(podref).map(|at| &*self.pods[at])
    }

    /// The place of the pod of this name.
    #[must_use]
    pub fn pod_place(&self, podref: &str) -> Option<usize> {
        self.pod_places.find(&podref, |at| {
            let pod = &self.pods[at];
            *pod.podref.as_str() == *podref
        })
    }

    /// The place of the reservation of this name.
    #[must_use]
    pub fn reservation(&self, namespace: &str, name: &str) -> Option<usize> {
        self.reservation_places.find(&(namespace, name), |at| {
            let reserved = &self.reservations[at];
            *reserved.namespace == *namespace && *reserved.name == *name
        })
    }

    /// What the snapshot says about the presence of a pod.
    #[must_use]
    pub fn presence(&self, podref: &PodRef) -> Presence {
        if let Some(at) = self.pod_place(podref.as_str()) {
            return Presence::Present(Some(Arc::clone(&self.pods[at])));
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

    /// Whether a node that is not there is gone.
    #[must_use]
    pub fn knows_nodes(&self) -> bool {
        self.kinds.contains(&Kind::Node) && !self.nodes_are_partial
    }

    /// The nodes, as a collector knows them that has just begun: each may run what nobody saw.
    #[must_use]
    pub fn present_nodes(&self) -> Nodes {
        let mut nodes = Nodes::default();
        if self.knows_nodes() {
            nodes.gap(NOW);
            for (name, state) in &self.nodes {
                nodes.apply(name, state.clone(), NOW);
            }
            nodes.retain(|_| true, NOW);
            nodes.suspect(self.nodes.keys().map(|name| &**name), NOW);
            nodes.take_stock(NOW);
        }
        nodes
    }

    /// The pools that are provably one node's slice, unless two nodes give the same name.
    #[must_use]
    pub fn slice_pools(&self) -> BTreeMap<PoolKey, Box<str>> {
        let mut nodes = BTreeMap::<PoolKey, Option<Box<str>>>::new();
        for slice in &self.slices {
            for name in slice.pool_names() {
                let key = PoolKey {
                    namespace: slice.namespace.clone(),
                    name,
                };
                let node = nodes.entry(key).or_insert_with(|| Some(slice.node.clone()));
                if node.as_deref() != Some(&*slice.node) {
                    *node = None;
                }
            }
        }
        let proven = nodes.into_iter();
        proven
            .filter_map(|(key, node)| Some((key, node?)))
            .collect()
    }

    /// Parses the pool in this place, with those rows only that are `wanted`.
    pub fn pool(&self, at: usize, wanted: impl FnMut(&Glance<'_>) -> bool) -> Option<ObservedPool> {
        // It was parsed when it was gathered.
        ObservedPool::parse(self.pools.get(at)?, NOW, wanted).ok()
    }

    /// Parses the pools, one after the other.
    pub fn observed(&self) -> impl Iterator<Item = ObservedPool> {
        self.observed_with(|_| true)
    }

    /// The same with those rows only that are `wanted`.
    pub fn observed_with(
        &self,
        wanted: impl Fn(&Glance<'_>) -> bool,
    ) -> impl Iterator<Item = ObservedPool> {
        let all = self.pools.iter();
        // They were parsed when they were gathered.
        all.filter_map(move |text| ObservedPool::parse(text, NOW, |row| wanted(row)).ok())
    }
}
