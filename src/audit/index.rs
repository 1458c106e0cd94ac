//! One pass over all rows before any of them is judged: what is needed of all to judge one.
//!
//! Rows are kept here as numbers, some thirty bytes each. Nothing is decided.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
};

use ipgc_core::{
    address::{Range, excerpt, reservation_names},
    clearance::Other,
    definitions::{Networks, Scope, networks_of},
    id::IdTag,
    judge,
    names::{KnownNetworks, Reading, split},
    pod::PodState,
    podref::PodRef,
    pool::{InterfaceTag, KEEP_ANNOTATION, ObservedPool, PoolKey, RowContent, RowCount},
    reservation::LeanReservation,
};

use super::{assess::living, report::Shared};
use crate::{
    parallel,
    snapshot::{NOW, Snapshot},
};

/// What is known of all pools and rows.
pub struct Index {
    /// The pools, in the order of the snapshot.
    pub pools: Vec<Place>,
    owners: Owners,
    /// Each readable address, the pool and the owner of its row, in this order.
    held: Vec<(IpAddr, u32, u32)>,
    /// The reservations that a row has, in the order of the snapshot.
    has_row: Vec<bool>,
    /// All rows of pods that live and have one that they do not report.
    siblings: HashMap<PodRef, Vec<RowContent>>,
    /// Each address that a pod reports, and the place of the pod, in this order.
    reporters: Vec<(IpAddr, u32)>,
    /// The same of the ids of containers.
    containers: Vec<(IdTag, u32)>,
}

/// The owners of rows. Each has a number: a pod that is there its place in the snapshot, whoever else one that follows.
#[derive(Default)]
struct Owners {
    /// The rows of each number.
    counts: Vec<RowCount>,
    absent: HashMap<Box<str>, u32>,
}

impl Owners {
    fn number(&self, snapshot: &Snapshot, podref: &str) -> Option<u32> {
        match snapshot.pod_place(podref) {
            Some(at) => Some(small(at)),
            None => self.absent.get(podref).copied(),
        }
    }

    /// Counts a row; says whose it is.
    fn count(&mut self, owner: Owner, interface: Option<InterfaceTag>) -> u32 {
        let number = match owner {
            Owner::Present(at) => at,
            Owner::Absent(podref) => {
                let next = small(self.counts.len());
                let number = *self.absent.entry(podref).or_insert(next);
                if number == next {
                    self.counts.push(RowCount::default());
                }
                number
            }
            Owner::Nobody => return NOBODY,
        };
        self.counts[number as usize].add(interface);
        number
    }
}

/// What has more than four thousand million things is no cluster.
fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Whose a row is: the place of a pod that is there, or the podref of one that is not. A row without one is nobody's.
enum Owner {
    Present(u32),
    Absent(Box<str>),
    Nobody,
}

/// The number of what names no pod.
const NOBODY: u32 = u32::MAX;

/// For whom a row holds an address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// For the pod that is asked for.
    Own,
    /// For another one.
    Another,
    /// It names no pod.
    Nobody,
}

/// What one pool says.
struct Part {
    place: Place,
    /// Address, owner and interface of each.
    rows: Vec<(Option<IpAddr>, Owner, Option<InterfaceTag>)>,
    /// The reservations that its rows have.
    reserved: Vec<usize>,
    /// The pods that live and do not report a row of theirs.
    unreported: Vec<PodRef>,
}

/// Where rows are.
pub struct Place {
    /// The place of its pool in the snapshot.
    pub at: usize,
    /// Namespace and name.
    pub key: PoolKey,
    /// The range, if it can be read.
    pub range: Option<Range>,
    /// The networks that its reservations may be of.
    pub networks: Networks,
    /// The node whose slice it provably is.
    pub slice: Option<Box<str>>,
    /// The node whose slice it is by its name, and a pod of another node that has a row in it.
    pub disproved_slice: Option<(Box<str>, PodRef)>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// The same names as findings have them.
    pub names: Names,
    /// `metadata.resourceVersion` of one without rows, which may be removed.
    pub version: Option<Box<str>>,
    /// Its rows in the order of the text, none where a person exempted some.
    pub seen: Box<[Seen]>,
    /// A word by which a person exempted something of it, and nobody knows what.
    pub unclear_exemption: Option<Box<str>>,
}

/// What was seen of a row that was not judged.
#[derive(Clone, Copy)]
pub struct Seen {
    /// It can be read, is in the range of its pool, and is held for what its pod reports.
    pub is_reported: bool,
    /// It has a reservation of its own.
    pub is_reserved: bool,
}

/// Texts that all findings about the rows of a pool have.
pub struct Names {
    /// Its namespace.
    pub namespace: Shared,
    /// Its name.
    pub pool: Shared,
    /// Its uid.
    pub uid: Shared,
}

impl Place {
    /// What is to be told of what a person exempted in nobody knows which words.
    #[must_use]
    pub fn note_of_exemption(&self) -> Option<String> {
        let word = self.unclear_exemption.as_deref()?;
        Some(format!(
            "pool {}: all of its rows are kept, since in its annotation {KEEP_ANNOTATION} {:?} is neither an address nor a key",
            self.key,
            excerpt(word)
        ))
    }
}

impl Index {
    /// Goes through all rows once, and once more where pods have rows that they do not report.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Self {
        let slices = snapshot.slice_pools();
        let mut index = Self {
            pools: Vec::with_capacity(snapshot.pools.len()),
            owners: Owners {
                counts: vec![RowCount::default(); snapshot.pods.len()],
                absent: HashMap::new(),
            },
            held: Vec::new(),
            has_row: vec![false; snapshot.reservations.len()],
            siblings: HashMap::new(),
            reporters: of_each_pod(snapshot, |pod| {
                let entries = pod.status.entries().iter();
                entries.flat_map(|entry| entry.addresses.iter().copied())
            }),
            containers: of_each_pod(snapshot, |pod| pod.container_ids.iter().copied()),
        };
        let places: Vec<_> = (0..snapshot.pools.len()).collect();
        let part = |at: &usize| Part::of(snapshot, &slices, *at);
        parallel::map(&places, part, |part| {
            if let Some(part) = part {
                index.take(part);
            }
        });
        index.held.sort_unstable();
        index.find_siblings(snapshot);
        index
    }

    fn take(&mut self, part: Part) {
        let number = small(self.pools.len());
        for (address, owner, interface) in part.rows {
            let owner = self.owners.count(owner, interface);
            self.held
                .extend(address.map(|address| (address, number, owner)));
        }
        for at in part.reserved {
            self.has_row[at] = true;
        }
        for podref in part.unreported {
            self.siblings.entry(podref).or_default();
        }
        self.pools.push(part.place);
    }

    fn find_siblings(&mut self, snapshot: &Snapshot) {
        if self.siblings.is_empty() {
            return;
        }
        let wanted = |podref: &str| self.siblings.contains_key(podref);
        let mut all = Vec::new();
        let places: Vec<_> = (0..snapshot.pools.len()).collect();
        let of_pool = |at: &usize| {
            let text = &snapshot.pools[*at];
            let pool = ObservedPool::parse(text, NOW, |row| row.podref.is_some_and(wanted));
            let rows = pool.iter().flat_map(ObservedPool::rows);
            let contents = rows.filter_map(|row| row.content().ok().cloned());
            contents.collect::<Vec<_>>()
        };
        parallel::map(&places, of_pool, |contents| all.extend(contents));
        for content in all {
            if let Some(rows) = self.siblings.get_mut(&content.podref) {
                rows.push(content);
            }
        }
    }

    /// The rows of this podref.
    #[must_use]
    pub fn rows_of(&self, snapshot: &Snapshot, podref: &str) -> RowCount {
        let number = self.owners.number(snapshot, podref);
        number.map_or_else(RowCount::default, |number| {
            self.owners.counts[number as usize]
        })
    }

    /// All rows of a pod that has some which it does not report.
    #[must_use]
    pub fn siblings_of(&self, podref: &PodRef) -> Option<&[RowContent]> {
        self.siblings.get(podref).map(Vec::as_slice)
    }

    /// Other pods than the row's own that report its address or have a container with its id.
    #[must_use]
    pub fn others_of(&self, snapshot: &Snapshot, row: &RowContent) -> Vec<Other> {
        let other = |at: u32, has_id| {
            let pod = &snapshot.pods[at as usize];
            Other {
                pod: Arc::clone(pod),
                end: living(pod).completed.filter(|end| end.stopped),
                has_id,
            }
        };
        let reporters = of_key(&self.reporters, row.address).map(|at| other(at, false));
        let id = IdTag::of(&row.sandbox);
        let containers = id.into_iter().flat_map(|id| of_key(&self.containers, id));
        let all = reporters.chain(containers.map(|at| other(at, true)));
        all.filter(|other| other.pod.podref != row.podref).collect()
    }

    /// The addresses that rows of a pool hold.
    pub fn held_in<'a>(&'a self, place: &'a Place) -> impl Iterator<Item = IpAddr> + 'a {
        let ends = place.range.map(Range::first_and_last);
        let from = ends.map_or(self.held.len(), |(first, _)| {
            self.held.partition_point(|(address, ..)| *address < first)
        });
        let held = self.held[from..].iter();
        held.take_while(move |(address, ..)| ends.is_some_and(|(_, last)| *address <= last.0))
            .filter(|(_, pool, _)| self.pools[*pool as usize].at == place.at)
            .map(|(address, ..)| *address)
    }

    /// The pools that hold this address, and for whom.
    pub fn holders(
        &self,
        snapshot: &Snapshot,
        address: IpAddr,
        podref: &str,
    ) -> impl Iterator<Item = (&Place, Holder)> {
        let owner = self.owners.number(snapshot, podref);
        let from = self.held.partition_point(|(other, ..)| *other < address);
        let same = self.held[from..].iter();
        same.take_while(move |(other, ..)| *other == address)
            .map(move |(_, pool, held_by)| {
                let holder = match *held_by {
                    NOBODY => Holder::Nobody,
                    held_by if Some(held_by) == owner => Holder::Own,
                    _ => Holder::Another,
                };
                (&self.pools[*pool as usize], holder)
            })
    }

    /// The reservations without a row, each with the pool that it would be in, the network and the address.
    pub fn orphans<'s>(&'s self, snapshot: &'s Snapshot) -> Vec<Orphan<'s>> {
        let mut known = KnownNetworks::default();
        known.add_definitions(&snapshot.definitions);
        let mut networks = BTreeMap::<(&str, Option<&str>), Vec<&Place>>::new();
        for place in &self.pools {
            known.add_pool(&place.networks, place.range);
            for network in &place.networks {
                let key = (place.key.namespace.as_str(), network.as_deref());
                networks.entry(key).or_default().push(place);
            }
        }
        let all = snapshot.reservations.iter().zip(&self.has_row);
        let lone = all.filter(|(_, has_row)| !**has_row);
        lone.map(|(reserved, _)| {
            let reading = split(&reserved.name, &known);
            let place = reading.one().and_then(|(network, address)| {
                let places = networks.get(&(&*reserved.namespace, network))?;
                let fits =
                    |place: &&&Place| place.range.is_some_and(|range| range.contains(address));
                places.iter().find(fits).copied()
            });
            Orphan {
                reserved,
                place,
                named: reading.one(),
                is_ambiguous: reading == Reading::Ambiguous,
            }
        })
        .collect()
    }
}

/// What each pod has of something, in its order.
fn of_each_pod<'s, T: Ord, I: Iterator<Item = T>>(
    snapshot: &'s Snapshot,
    of: impl Fn(&'s PodState) -> I,
) -> Vec<(T, u32)> {
    let pods = snapshot.pods.iter().zip(0..);
    let all = pods.flat_map(|(pod, at)| of(pod).map(move |it| (it, at)));
    let mut all: Vec<_> = all.collect();
    all.sort_unstable();
    all
}

/// The places of the pods that have this.
fn of_key<T: Ord + Copy>(all: &[(T, u32)], key: T) -> impl Iterator<Item = u32> {
    let from = all.partition_point(|(other, _)| *other < key);
    let same = all[from..]
        .iter()
        .take_while(move |(other, _)| *other == key);
    same.map(|(_, at)| *at)
}

impl Part {
    fn of(snapshot: &Snapshot, slices: &BTreeMap<PoolKey, Box<str>>, at: usize) -> Option<Self> {
        let text = &snapshot.pools[at];
        let (mut rows, mut unreported) = (Vec::new(), Vec::new());
        let mut seen = Vec::new();
        let mut networks = None;
        let pool = ObservedPool::parse(text, NOW, |row| {
            let podref = row.podref.unwrap_or_default();
            let (at, address) = (snapshot.pod_place(podref), row.address());
            let mut is_reported = false;
            if let (Some(at), Some(address)) = (at, address) {
                let pod = &snapshot.pods[at];
                let networks = networks.get_or_insert_with(|| {
                    let slice = slices.get(row.pool).map(AsRef::as_ref);
                    networks_of(&row.pool.name, row.range, slice)
                });
                let scope = Scope {
                    networks,
                    range: row.range,
                    definitions: &snapshot.definitions,
                };
                is_reported = row.is_readable() && judge::is_reported(pod, address, &scope);
                if !scope.is_reported_by(pod, address) {
                    unreported.push(pod.podref.clone());
                }
            }
            let owner = match at {
                Some(at) => Owner::Present(small(at)),
                None if PodRef::is_valid(podref) => Owner::Absent(podref.into()),
                None => Owner::Nobody,
            };
            rows.push((address, owner, row.interface.and_then(InterfaceTag::of)));
            seen.push(Seen {
                is_reported,
                is_reserved: false,
            });
            false
        });
        // They were parsed when they were gathered.
        let pool = pool.ok()?;
        let slice = slices.get(pool.key()).cloned();
        let networks = networks_of(&pool.key().name, pool.range(), slice.as_deref());
        let disproves = |node: &str| {
            rows.iter().find_map(|(address, owner, _)| match owner {
                Owner::Present(at) => {
                    let pod = &snapshot.pods[*at as usize];
                    let disproves = address.is_some_and(|it| pod.disproves_slice(node, it));
                    disproves.then(|| pod.podref.clone())
                }
                Owner::Absent(_) | Owner::Nobody => None,
            })
        };
        let other = slice.as_deref().and_then(disproves);
        let (slice, disproved_slice) = match other {
            Some(podref) => (None, slice.map(|node| (node, podref))),
            None => (slice, None),
        };
        let mut reserved = Vec::new();
        for ((address, owner, _), seen) in rows.iter().zip(&mut seen) {
            let Some(address) = *address else { continue };
            seen.is_reported &= pool.range().is_some_and(|range| range.contains(address));
            for network in &networks {
                for name in &reservation_names(address, network.as_deref()) {
                    let Some(at) = snapshot.reservation(&pool.key().namespace, name) else {
                        continue;
                    };
                    reserved.push(at);
                    if let Owner::Present(pod) = owner {
                        let owner = snapshot.pods[*pod as usize].podref.as_str();
                        seen.is_reserved |= snapshot.reservations[at].owner() == owner;
                    }
                }
            }
        }
        if pool.has_exemptions() {
            seen.clear();
        }
        let place = Place {
            at,
            key: pool.key().clone(),
            range: pool.range(),
            networks,
            slice,
            disproved_slice,
            uid: pool.uid().into(),
            names: Names {
                namespace: pool.key().namespace.as_str().into(),
                pool: pool.key().name.as_str().into(),
                uid: pool.uid().into(),
            },
            version: (pool.total_rows() == 0).then(|| version_of(text)).flatten(),
            seen: seen.into(),
            unclear_exemption: pool.unclear_exemption().map(Into::into),
        };
        Some(Self {
            place,
            rows,
            reserved,
            unreported,
        })
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
    pub reserved: &'s LeanReservation,
    /// The pool that its row would be in.
    pub place: Option<&'s Place>,
    /// The network and the address that its name tells.
    pub named: Option<(Option<&'s str>, IpAddr)>,
    /// Whether it tells none since it is the name of several networks with several addresses.
    pub is_ambiguous: bool,
}
