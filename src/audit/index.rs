//! One pass over all rows before any of them is judged: what is needed of all to judge one.
//!
//! Rows are kept here as numbers, some thirty bytes each. Nothing is decided.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
};

use ipgc_core::{
    address::{
        Range, network_of_pool, reservation_address, reservation_names, split_reservation_name,
    },
    podref::PodRef,
    pool::{ObservedPool, PoolKey, RowContent},
};

use crate::snapshot::{NOW, Reserved, Snapshot};

/// What is known of all pools and rows.
pub struct Index {
    /// The pools, in the order of the snapshot.
    pub pools: Vec<Place>,
    /// How many rows each podref has.
    counts: HashMap<Box<str>, (u32, u32)>,
    /// Each readable address, the pool and the owner of its row, in this order.
    held: Vec<(IpAddr, u32, u32)>,
    /// The reservations that a row has, in the order of the snapshot.
    has_row: Vec<bool>,
    /// All rows of pods that live and have one that they do not report.
    siblings: HashMap<PodRef, Vec<RowContent>>,
}

/// Where rows are.
pub struct Place {
    /// Namespace and name.
    pub key: PoolKey,
    /// The range, if it can be read.
    pub range: Option<Range>,
    /// The networks that its reservations may be of.
    pub networks: BTreeSet<Option<Box<str>>>,
    /// The node whose slice it provably is.
    pub slice: Option<Box<str>>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.resourceVersion` of one without rows, which may be removed.
    pub version: Option<Box<str>>,
}

impl Place {
    /// The networks that the name of a pool tells: what precedes the range in it, and, where that is one
    /// node's slice, what precedes the node.
    fn networks_of(
        name: &str,
        range: Option<Range>,
        slice: Option<&str>,
    ) -> BTreeSet<Option<Box<str>>> {
        let Some(network) = range.and_then(|range| network_of_pool(name, range)) else {
            return BTreeSet::new();
        };
        let within = match (network, slice) {
            (Some(network), Some(node)) if network == node => Some(None),
            (Some(network), Some(node)) => {
                let rest = network.strip_suffix(node);
                rest.and_then(|rest| rest.strip_suffix('-')).map(Some)
            }
            _ => None,
        };
        let all = [Some(network), within].into_iter().flatten();
        all.map(|network| network.map(Into::into)).collect()
    }
}

impl Index {
    /// Goes through all rows once, and once more where pods have rows that they do not report.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Self {
        let slices = snapshot.slice_pools();
        let mut index = Self {
            pools: Vec::with_capacity(snapshot.pools.len()),
            counts: HashMap::new(),
            held: Vec::new(),
            has_row: vec![false; snapshot.reservations.len()],
            siblings: HashMap::new(),
        };
        for text in &snapshot.pools {
            index.take(snapshot, &slices, text);
        }
        index.held.sort_unstable();
        index.find_siblings(snapshot);
        index
    }

    fn take(&mut self, snapshot: &Snapshot, slices: &BTreeMap<PoolKey, Box<str>>, text: &str) {
        let number = u32::try_from(self.pools.len()).unwrap_or(u32::MAX);
        let mut addresses = Vec::new();
        let pool = ObservedPool::parse(text, NOW, |row| {
            let podref = row.podref.unwrap_or_default();
            let next = u32::try_from(self.counts.len()).unwrap_or(u32::MAX);
            if let Some((count, _)) = self.counts.get_mut(podref) {
                *count += 1;
            } else {
                self.counts.insert(podref.into(), (1, next));
            }
            if let Some(address) = row.address() {
                let owner = self.counts[podref].1;
                self.held.push((address, number, owner));
                addresses.push(address);
                let pod = snapshot.pod(podref);
                if pod.is_some_and(|pod| !pod.status.has_address(address))
                    && let Ok(podref) = podref.parse()
                {
                    self.siblings.entry(podref).or_default();
                }
            }
            false
        });
        let Ok(pool) = pool else { return };
        let slice = slices.get(pool.key()).cloned();
        let networks = Place::networks_of(&pool.key().name, pool.range(), slice.as_deref());
        for network in &networks {
            for address in &addresses {
                for name in reservation_names(*address, network.as_deref()) {
                    if let Some(at) = snapshot.reservation(&pool.key().namespace, &name) {
                        self.has_row[at] = true;
                    }
                }
            }
        }
        self.pools.push(Place {
            key: pool.key().clone(),
            range: pool.range(),
            networks,
            slice,
            uid: pool.uid().into(),
            version: (pool.total_rows() == 0).then(|| version_of(text)).flatten(),
        });
    }

    fn find_siblings(&mut self, snapshot: &Snapshot) {
        if self.siblings.is_empty() {
            return;
        }
        for text in &snapshot.pools {
            let wanted = |podref: &str| self.siblings.contains_key(podref);
            let pool = ObservedPool::parse(text, NOW, |row| row.podref.is_some_and(wanted));
            for row in pool.iter().flat_map(ObservedPool::rows) {
                let Ok(content) = row.content() else { continue };
                if let Some(rows) = self.siblings.get_mut(&content.podref) {
                    rows.push(content.clone());
                }
            }
        }
    }

    /// How many rows this podref has.
    #[must_use]
    pub fn rows_of(&self, podref: &str) -> usize {
        self.counts
            .get(podref)
            .map_or(0, |(count, _)| *count as usize)
    }

    /// All rows of a pod that has some which it does not report.
    #[must_use]
    pub fn siblings_of(&self, podref: &PodRef) -> Option<&[RowContent]> {
        self.siblings.get(podref).map(Vec::as_slice)
    }

    /// The pools that hold this address, and whether they hold it for this pod.
    pub fn holders(&self, address: IpAddr, podref: &str) -> impl Iterator<Item = (&Place, bool)> {
        let owner = self.counts.get(podref).map(|(_, number)| *number);
        let from = self.held.partition_point(|(other, ..)| *other < address);
        let same = self.held[from..].iter();
        same.take_while(move |(other, ..)| *other == address)
            .map(move |(_, pool, held_by)| (&self.pools[*pool as usize], Some(*held_by) == owner))
    }

    /// The reservations without a row, each with the pool that it would be in, the network and the address.
    pub fn orphans<'s>(&'s self, snapshot: &'s Snapshot) -> Vec<Orphan<'s>> {
        let mut networks = BTreeMap::<(&str, Option<&str>), Vec<&Place>>::new();
        for place in &self.pools {
            for network in &place.networks {
                let key = (place.key.namespace.as_str(), network.as_deref());
                networks.entry(key).or_default().push(place);
            }
        }
        let all = snapshot.reservations.iter().zip(&self.has_row);
        let lone = all.filter(|(_, has_row)| !**has_row);
        lone.map(|(reserved, _)| {
            let name = &*reserved.name;
            // Before the address stands nothing, or a network and a dash.
            let dashes = name.match_indices('-').map(|(at, _)| Some(&name[..at]));
            let found = [None].into_iter().chain(dashes).find_map(|network| {
                let places = networks.get(&(&*reserved.namespace, network))?;
                let address = reservation_address(name, network)?;
                let fits =
                    |place: &&&Place| place.range.is_some_and(|range| range.contains(address));
                Some((places.iter().find(fits).copied()?, network, address))
            });
            let (place, named) = match found {
                Some((place, network, address)) => (Some(place), Some((network, address))),
                None => (None, split_reservation_name(name)),
            };
            Orphan {
                reserved,
                place,
                named,
            }
        })
        .collect()
    }
}

/// Core keeps none, since it never compares it.
fn version_of(text: &str) -> Option<Box<str>> {
    #[derive(serde::Deserialize)]
    struct Pool {
        metadata: Metadata,
    }
    #[derive(serde::Deserialize)]
    struct Metadata {
        #[serde(rename = "resourceVersion")]
        version: Option<Box<str>>,
    }
    serde_json::from_str::<Pool>(text).ok()?.metadata.version
}

/// A reservation without a row.
pub struct Orphan<'s> {
    /// The reservation.
    pub reserved: &'s Reserved,
    /// The pool that its row would be in.
    pub place: Option<&'s Place>,
    /// The network and the address that its name tells.
    pub named: Option<(Option<&'s str>, IpAddr)>,
}
