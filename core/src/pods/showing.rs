//! An index of the addresses and ids that pods show: it tells whether a row may have other pods.
//!
//! It only narrows the search of [`super::others`], and decides nothing. An entry too many costs a needless comparison of
//! pods. An entry never lacks for an address or an id that a pod shows.

use std::{collections::HashMap, net::IpAddr};

use crate::{
    evidence::{Ended, Sandboxes},
    id::{IdTag, hash_of},
    pod::PodState,
    podref::PodRef,
};

use super::live::Live;

/// A property that a pod and a row may have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// An address that the pod reports.
    Address(IpAddr),
    /// The id of one of its containers, or of a sandbox that its rows were seen with.
    Id(IdTag),
}

/// The addresses and ids that a pod shows. Its rows were seen with these sandboxes.
pub(super) fn shown<'p>(
    pod: &'p PodState,
    sandboxes: &'p Sandboxes,
) -> impl Iterator<Item = Key> + 'p {
    let addresses = pod.status.addresses().iter().copied();
    let ids = pod.container_ids.iter().copied().chain(sandboxes.tags());
    addresses.map(Key::Address).chain(ids.map(Key::Id))
}

/// The addresses and ids that pods show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Showing {
    /// How often live pods show a key, by half of its hash: there are many.
    living: HashMap<u32, u32>,
    /// The pods that ended and showed it.
    ended: HashMap<Key, Vec<PodRef>>,
}

fn half_of_hash(key: Key) -> u32 {
    u32::try_from(hash_of(&key) >> 32).unwrap_or_default()
}

impl Showing {
    /// This pod shows what it has now.
    pub(super) fn add(&mut self, live: &Live) {
        for key in shown(&live.state, &live.sandboxes) {
            *self.living.entry(half_of_hash(key)).or_default() += 1;
        }
    }

    /// This pod is gone, or is about to change.
    pub(super) fn remove(&mut self, live: &Live) {
        for key in shown(&live.state, &live.sandboxes) {
            let key = half_of_hash(key);
            if let Some(count) = self.living.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.living.remove(&key);
                }
            }
        }
    }

    /// Whether a live pod other than the `owner` may show this.
    pub(super) fn has_other(&self, key: Key, owner: Option<&Live>) -> bool {
        let key = half_of_hash(key);
        let own = owner.map_or(0, |owner| {
            let own = shown(&owner.state, &owner.sandboxes);
            own.filter(|own| half_of_hash(*own) == key).count()
        });
        let all = self.living.get(&key).copied().unwrap_or_default();
        usize::try_from(all).is_ok_and(|all| all > own)
    }

    pub(super) fn rebuild<'p>(&mut self, live: impl Iterator<Item = &'p Live>) {
        self.living.clear();
        live.for_each(|live| self.add(live));
    }

    pub(super) fn add_end(&mut self, end: &Ended) {
        for key in shown(&end.last, &end.sandboxes) {
            let by = self.ended.entry(key).or_default();
            if !by.contains(&end.last.podref) {
                by.push(end.last.podref.clone());
            }
        }
    }

    pub(super) fn ended_with(&self, key: Key) -> &[PodRef] {
        self.ended.get(&key).map_or(&[], Vec::as_slice)
    }

    pub(super) fn rebuild_ends<'e>(&mut self, ends: impl Iterator<Item = &'e Ended>) {
        self.ended.clear();
        ends.for_each(|end| self.add_end(end));
    }
}
