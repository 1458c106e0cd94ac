//! An index of the addresses and ids that live pods show: it tells whether a row may have other pods.
//!
//! It only narrows the search of [`super::others`], and decides nothing. An entry too many costs a needless comparison of
//! pods. An entry never lacks for an address or an id that a pod shows.

use std::{collections::HashMap, net::IpAddr};

use crate::{evidence::Sandboxes, id::IdTag, pod::PodState};

use super::{census::hash_of, live::Live};

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

/// How often live pods show an address or an id, by half of its hash: there are many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Showing(HashMap<u32, u32>);

fn half_of_hash(key: Key) -> u32 {
    u32::try_from(hash_of(&key) >> 32).unwrap_or_default()
}

impl Showing {
    /// This pod shows what it has now.
    pub(super) fn add(&mut self, live: &Live) {
        for key in shown(&live.state, &live.sandboxes) {
            *self.0.entry(half_of_hash(key)).or_default() += 1;
        }
    }

    /// This pod is gone, or is about to change.
    pub(super) fn remove(&mut self, live: &Live) {
        for key in shown(&live.state, &live.sandboxes) {
            let key = half_of_hash(key);
            if let Some(count) = self.0.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.0.remove(&key);
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
        let all = self.0.get(&key).copied().unwrap_or_default();
        usize::try_from(all).is_ok_and(|all| all > own)
    }

    pub(super) fn rebuild<'p>(&mut self, live: impl Iterator<Item = &'p Live>) {
        self.0.clear();
        live.for_each(|live| self.add(live));
    }
}
