//! An index of the addresses and ids that pods show: it tells whether a row may have other pods.
//!
//! It only narrows the search of [`super::others`], and decides nothing. An entry that is out of date costs a needless
//! comparison of pods. An entry never lacks for an address or an id that a pod shows.

use std::{collections::HashMap, net::IpAddr};

use ipgc_core::{id::IdTag, podref::PodRef};

use super::{End, Packed};
use crate::watch::census::hash_of;

/// The hash of an address or of an id.
type Key = u64;
/// The hash of a podref.
type Name = u64;

/// The hash of an address that pods report.
pub(super) fn of_address(address: IpAddr) -> Key {
    hash_of(&address)
}

/// The hash of an id of a container or a sandbox.
pub(super) fn of_id(id: IdTag) -> Key {
    hash_of(&id)
}

fn keys_of(pod: &Packed) -> impl Iterator<Item = Key> {
    let addresses = pod.addresses().map(of_address);
    addresses.chain(pod.ids().map(of_id))
}

/// In place of a name: several pods show it.
const SEVERAL: Name = 0;

fn name_of(podref: &str) -> Name {
    hash_of(podref).max(SEVERAL + 1)
}

/// The addresses and ids that live pods show, each with the pod.
#[derive(Debug, Default)]
pub(super) struct Showing(HashMap<Key, Name>);

impl Showing {
    /// The pod shows all that it has now.
    pub(super) fn add(&mut self, podref: &PodRef, pod: &Packed) {
        let name = name_of(podref.as_str());
        keys_of(pod).for_each(|key| self.note(key, name));
    }

    /// The pod shows this id besides.
    pub(super) fn add_id(&mut self, podref: &str, id: IdTag) {
        self.note(of_id(id), name_of(podref));
    }

    fn note(&mut self, key: Key, name: Name) {
        let by = self.0.entry(key).or_insert(name);
        if *by != name {
            *by = SEVERAL;
        }
    }

    /// The pod is gone, or is about to change. A key that several pods showed stays until the index is built anew.
    pub(super) fn remove(&mut self, podref: &PodRef, pod: &Packed) {
        let name = name_of(podref.as_str());
        for key in keys_of(pod) {
            if self.0.get(&key) == Some(&name) {
                self.0.remove(&key);
            }
        }
    }

    /// Whether a pod other than `owner` may show it; any pod where there is no owner.
    pub(super) fn has_other(&self, key: Key, owner: Option<&PodRef>) -> bool {
        let is_other = |by: &Name| {
            let is_owner = |owner: &PodRef| name_of(owner.as_str()) == *by;
            *by == SEVERAL || !owner.is_some_and(is_owner)
        };
        self.0.get(&key).is_some_and(is_other)
    }

    /// Takes up what all live pods show.
    pub(super) fn rebuild<'p>(&mut self, live: impl Iterator<Item = (&'p PodRef, &'p Packed)>) {
        self.0.clear();
        for (podref, pod) in live {
            self.add(podref, pod);
        }
    }
}

/// The addresses and ids that pods showed which ended.
#[derive(Debug, Default)]
pub(super) struct Shown(HashMap<Key, Vec<PodRef>>);

impl Shown {
    /// An incarnation of this podref ended.
    pub(super) fn add(&mut self, podref: &PodRef, pod: &Packed) {
        for key in keys_of(pod) {
            let by = self.0.entry(key).or_default();
            if !by.contains(podref) {
                by.push(podref.clone());
            }
        }
    }

    /// The pods that ended and showed it.
    pub(super) fn by(&self, key: Key) -> &[PodRef] {
        self.0.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Takes up what all these ends showed.
    pub(super) fn rebuild(&mut self, ended: &HashMap<PodRef, Vec<End>>) {
        self.0.clear();
        for (podref, ends) in ended {
            for end in ends {
                self.add(podref, &end.pod);
            }
        }
    }
}
