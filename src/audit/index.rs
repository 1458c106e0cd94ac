//! One pass over all rows before any of them is judged: what a verdict on one row needs of all others.
//!
//! The pass reads the snapshot, and decides nothing.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use ipgc_core::{
    clearance::Living,
    definitions::{Networks, may_be_of, networks_of},
    evidence::Sandboxes,
    id::is_uid,
    pod::PodState,
    podref::PodRef,
    pods::{Live, Others},
    pool::{KEEP_ANNOTATION, ObservedPool, PoolKey, RowContent, RowCount, Unreadable},
    reservation::Reservation,
    routes::slice_pools,
    text::excerpt,
};

use crate::snapshot::{NOW, Snapshot};

/// The owner of a row of an IPAMClaim: each pod that reports its address may use it.
pub const OF_CLAIM: &str = "IPAMClaim";

/// All that is known of pools and rows together.
#[derive(Default)]
pub struct Index {
    /// The pools, in the order of the snapshot.
    pub pools: Vec<Place>,
    /// How many rows each podref has.
    counts: HashMap<Box<str>, RowCount>,
    /// The rows of each address: the number of the pool, and the podref as it stands in the row, or [`OF_CLAIM`].
    held: HashMap<IpAddr, Vec<(usize, Box<str>)>>,
    /// Which reservations have a row, in the order of the snapshot.
    pub has_row: Vec<bool>,
    /// All rows of each pod that is there.
    pub siblings: HashMap<PodRef, Vec<RowContent>>,
    /// The pods that report the address of a row or have a container with its id, its own among them.
    pub others: Others,
}

/// A pool.
pub struct Place {
    /// All of it but its rows, which [`Snapshot::observed`] has.
    pub pool: ObservedPool,
    /// The networks that its reservations may be of.
    pub networks: Networks,
    /// The node whose slice it provably is.
    pub slice: Option<Box<str>>,
    /// The node whose slice it is by its name, and a pod of another node that has a row in it.
    pub disproved_slice: Option<(Box<str>, PodRef)>,
}

impl Place {
    /// The note about an exemption that cannot be read.
    pub fn note_of_exemption(&self) -> Option<String> {
        let word = self.pool.unclear_exemption()?;
        Some(format!(
            "pool {}: all of its rows are kept, since in its annotation {KEEP_ANNOTATION} {:?} is neither an address nor a key",
            self.pool.key(),
            excerpt(word)
        ))
    }
}

impl Index {
    /// Goes through all rows once.
    pub fn of(snapshot: &Snapshot) -> Self {
        let pods = snapshot.pods.iter().map(|pod| {
            let end = living(pod).completed.filter(|end| end.stopped);
            (Arc::clone(pod), end)
        });
        let mut index = Self {
            has_row: vec![false; snapshot.reservations.len()],
            others: Others::of_all(pods),
            ..Self::default()
        };
        let slices = slice_pools(&snapshot.slices);
        for pool in snapshot.observed() {
            index.add_pool(snapshot, &slices, pool);
        }
        index
    }

    fn add_pool(
        &mut self,
        snapshot: &Snapshot,
        slices: &HashMap<PoolKey, Box<str>>,
        mut pool: ObservedPool,
    ) {
        let (key, range, number) = (pool.key(), pool.range, self.pools.len());
        let node = slices.get(key).cloned();
        let networks = networks_of(&key.name, range, node.as_deref());
        let mut other = None;
        for row in pool.rows() {
            let podref = row.podref_text().unwrap_or_default();
            // A row of a ResourceClaim is of no interface, as for a sweep.
            if PodRef::is_valid(podref) && !row.id_text().is_some_and(is_uid) {
                let interface = row.interface_text();
                let count = self.counts.entry(podref.into()).or_default();
                count.add(interface);
            }
            let Some(address) = pool.address_of(row) else {
                continue;
            };
            if let Some(pod) = snapshot.pod(podref) {
                if let Ok(content) = row.content() {
                    let rows = self.siblings.entry(pod.podref.clone()).or_default();
                    rows.push(content.clone());
                }
                let disproves = |node: &str| pod.disproves_slice(node, address);
                if other.is_none() && node.as_deref().is_some_and(disproves) {
                    other = Some(pod.podref.clone());
                }
            }
            for (at, _) in snapshot.reservations_of(&key.namespace, &networks, address) {
                self.has_row[at] = true;
            }
            let owner = match row.content() {
                Err(Unreadable::IpamClaim(_)) => OF_CLAIM,
                _ => podref,
            };
            let held = self.held.entry(address).or_default();
            held.push((number, owner.into()));
        }
        let (slice, disproved_slice) = match other {
            Some(podref) => (None, node.map(|node| (node, podref))),
            None => (node, None),
        };
        pool.forget_rows();
        self.pools.push(Place {
            pool,
            networks,
            slice,
            disproved_slice,
        });
    }

    /// Whether a person exempted this address by a pool of this namespace, and so in all networks of the namespace.
    pub fn exempts(&self, namespace: &str, address: IpAddr) -> bool {
        let mut pools = self.pools.iter().map(|place| &place.pool);
        pools.any(|it| it.exempts(address) && it.key().namespace == namespace)
    }

    /// Whether the pod of a reservation has a row of this address in a pool that may be of this network.
    pub fn has_own(&self, of: &Reservation, network: Option<&str>, address: IpAddr) -> bool {
        let rows = self.held.get(&address).into_iter().flatten();
        let mut own = rows.filter(|(_, podref)| **podref == *of.owner());
        own.any(|(place, _)| {
            let Place { pool, networks, .. } = &self.pools[*place];
            pool.key().namespace == of.namespace && may_be_of(networks, network, true)
        })
    }

    /// How many rows this podref has.
    pub fn rows_of(&self, podref: &str) -> RowCount {
        self.counts.get(podref).copied().unwrap_or_default()
    }

    /// The pools that hold this address, each with the podref as it stands in the row, or [`OF_CLAIM`].
    pub fn holders(&self, address: IpAddr) -> impl Iterator<Item = (&Place, &str)> {
        let rows = self.held.get(&address).into_iter().flatten();
        rows.map(|(number, owner)| (&self.pools[*number], &**owner))
    }
}

/// A pod that is there, and what would remain of it if it went now. How long it has run is not known.
pub fn living(pod: &PodState) -> Living {
    let is_at_its_end = pod.phase.is_terminal();
    let live = is_at_its_end.then(|| Live::new(pod.clone(), Some(NOW), false, NOW));
    Living {
        uid: pod.uid.clone(),
        running_since: None,
        completed: live.map(|live| live.into_ended(false, NOW).into()),
        sandboxes: Sandboxes::default(),
    }
}
