//! Pods that may answer on the address of a row which is another pod's.
//!
//! Looked for when rows are about to go. All live pods are compared only if one of them shows an address or an id of
//! these rows.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
};

use ipgc_core::{clearance::Other, evidence::Ended, id::IdTag, podref::PodRef, pool::RowContent};

use super::{PodIndex, showing};
use crate::watch::packed::Packed;

/// The other pods of some rows: those that report their addresses, and those that have their ids. Some
/// may be of a row's own name.
#[derive(Debug, Default)]
pub struct Others {
    by_address: HashMap<IpAddr, Vec<Other>>,
    by_id: HashMap<IdTag, Vec<Other>>,
}

impl Others {
    /// Those of this row.
    #[must_use]
    pub fn of(&self, row: &RowContent) -> Vec<Other> {
        let reporting = self.by_address.get(&row.address);
        let with_id = IdTag::of(&row.sandbox).and_then(|id| self.by_id.get(&id));
        let all = reporting.into_iter().chain(with_id).flatten();
        all.cloned().collect()
    }

    /// The nodes on which some of them ended in a way that proves nothing by itself.
    pub fn nodes(&self) -> impl Iterator<Item = Box<str>> {
        let all = self
            .by_address
            .values()
            .chain(self.by_id.values())
            .flatten();
        let ends = all.filter_map(|other| other.end.as_ref());
        let ends = ends.filter(|end| !end.settled || end.last.mirror);
        ends.filter_map(|end| end.last.node.clone())
    }
}

/// The rows whose other pods are looked for. The owner is none where rows of several have the key.
struct Wanted<'r> {
    addresses: HashMap<IpAddr, Option<&'r PodRef>>,
    ids: HashMap<IdTag, Option<&'r PodRef>>,
}

impl<'r> Wanted<'r> {
    fn of(rows: impl Iterator<Item = &'r RowContent>) -> Self {
        let mut wanted = Self {
            addresses: HashMap::default(),
            ids: HashMap::default(),
        };
        let share = |owner: &mut Option<&PodRef>, other: &PodRef| {
            *owner = owner.filter(|owner| *owner == other);
        };
        for row in rows {
            let owner = wanted.addresses.entry(row.address);
            share(owner.or_insert(Some(&row.podref)), &row.podref);
            if let Some(id) = IdTag::of(&row.sandbox) {
                let owner = wanted.ids.entry(id);
                share(owner.or_insert(Some(&row.podref)), &row.podref);
            }
        }
        wanted
    }

    /// Whether one of the keys, with its owner, `is_shown`.
    fn any(&self, is_shown: impl Fn(u64, Option<&PodRef>) -> bool) -> bool {
        let mut addresses = self.addresses.iter();
        let mut ids = self.ids.iter();
        addresses.any(|(address, owner)| is_shown(showing::of_address(*address), *owner))
            || ids.any(|(id, owner)| is_shown(showing::of_id(*id), *owner))
    }

    /// The addresses and the ids of this pod that are wanted of another one.
    fn of_pod(&self, podref: &PodRef, pod: &Packed) -> (Vec<IpAddr>, Vec<IdTag>) {
        let is_others = |owner: Option<Option<&PodRef>>| owner.is_some_and(|it| it != Some(podref));
        let addresses = pod.addresses();
        let addresses = addresses.filter(|address| is_others(self.addresses.get(address).copied()));
        let ids = pod.ids().filter(|id| is_others(self.ids.get(id).copied()));
        (addresses.collect(), ids.collect())
    }
}

impl PodIndex {
    /// The other pods of these rows, those that ended included.
    #[must_use]
    pub fn others<'r>(&self, rows: impl Iterator<Item = &'r RowContent>) -> Others {
        let wanted = Wanted::of(rows);
        let mut others = Others::default();
        let is_shown = wanted.any(|key, owner| self.showing.has_other(key, owner));
        let living = self.live.iter().map(|(podref, pod)| (podref, &**pod, None));
        let living = living.filter(|_| is_shown);
        let keys = wanted.addresses.keys().copied().map(showing::of_address);
        let keys = keys.chain(wanted.ids.keys().copied().map(showing::of_id));
        let names: HashSet<_> = keys.flat_map(|key| self.shown.by(key)).collect();
        let ended = names.into_iter().flat_map(|podref| {
            let ends = self.ended.get(podref).into_iter().flatten();
            ends.map(move |end| (podref, &end.pod, Some(end)))
        });
        for (podref, pod, end) in living.chain(ended) {
            let (addresses, ids) = wanted.of_pod(podref, pod);
            if addresses.is_empty() && ids.is_empty() {
                continue;
            }
            let live = pod.unpack(podref);
            let end: Option<Arc<Ended>> = match end {
                Some(end) => Some(Arc::new(end.unpack(podref))),
                None => live.living().completed.filter(|end| end.stopped),
            };
            let pod = Arc::new(live.state);
            let other = |has_id| Other {
                pod: Arc::clone(&pod),
                end: end.clone(),
                has_id,
            };
            for address in addresses {
                others
                    .by_address
                    .entry(address)
                    .or_default()
                    .push(other(false));
            }
            for id in ids {
                others.by_id.entry(id).or_default().push(other(true));
            }
        }
        others
    }

    /// Rows of others wait for the ends of these pods: they are kept until the next sweep has said so.
    pub fn set_awaited(&mut self, awaited: HashSet<PodRef>) {
        self.awaited = awaited;
    }

    /// Rows of others are held for this pod: see [`Self::was_in_use`].
    pub fn note_in_use(&mut self, podref: &PodRef) {
        self.in_use.insert(podref.clone());
    }

    /// Whether rows of others were held for this pod, which ended: they are to be looked at again.
    pub fn was_in_use(&mut self, podref: &PodRef) -> bool {
        self.in_use.remove(podref)
    }
}
