//! Pods that may answer on the address of a row which is another pod's.
//!
//! Looked for when rows are about to go. All live pods are compared only if one of them shows an address or an id of
//! these rows.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::{
    clearance::Other,
    evidence::{Ended, Sandboxes},
    id::IdTag,
    pod::PodState,
    podref::PodRef,
    pool::RowContent,
};

use super::{
    PodIndex,
    showing::{Key, shown},
};

/// The other pods of some rows: those that report their addresses, and those that have their ids. Some
/// may be of a row's own name.
#[derive(Debug, Default)]
pub struct Others(HashMap<Key, Vec<Other>>);

impl Others {
    /// These pods, for whichever row; each with its end, if that is known to have stopped it.
    pub fn of_all(pods: impl Iterator<Item = (Arc<PodState>, Option<Arc<Ended>>)>) -> Self {
        let mut others = Self::default();
        for (pod, end) in pods {
            let keys = shown(&pod, &Sandboxes::default()).collect();
            others.add(keys, &pod, end.as_ref());
        }
        others
    }

    /// Those of this row.
    pub fn of(&self, row: &RowContent) -> Vec<Other> {
        let others = keys_of(row).filter_map(|key| self.0.get(&key));
        others.flatten().cloned().collect()
    }

    /// The nodes on which some of them ended in a way that proves nothing by itself.
    pub fn nodes(&self) -> impl Iterator<Item = Box<str>> {
        let others = self.0.values().flatten();
        let ends = others.filter_map(|other| other.end.as_ref());
        let ends = ends.filter(|end| !end.settled || end.last.mirror);
        ends.filter_map(|end| end.last.node.clone())
    }

    /// This pod has these keys of rows.
    fn add(&mut self, keys: Vec<Key>, pod: &Arc<PodState>, end: Option<&Arc<Ended>>) {
        for key in keys {
            let of_key = self.0.entry(key).or_default();
            // Mostly there is one.
            of_key.reserve_exact(1);
            of_key.push(Other {
                pod: Arc::clone(pod),
                end: end.cloned(),
                has_id: matches!(key, Key::Id(_)),
            });
        }
    }
}

fn keys_of(row: &RowContent) -> impl Iterator<Item = Key> {
    let id = IdTag::of(&row.sandbox).map(Key::Id);
    [Key::Address(row.address)].into_iter().chain(id)
}

/// Those of the wanted keys that this pod has and another one owns.
fn wanted_of(
    wanted: &HashMap<Key, Option<&PodRef>>,
    pod: &PodState,
    sandboxes: &Sandboxes,
) -> Vec<Key> {
    let keys = shown(pod, sandboxes);
    let is_others = |key: &Key| {
        let owner = wanted.get(key);
        owner.is_some_and(|owner| *owner != Some(&pod.podref))
    };
    keys.filter(is_others).collect()
}

impl PodIndex {
    /// The other pods of these rows, those that ended included.
    pub fn others<'r>(&self, rows: impl Iterator<Item = &'r RowContent>) -> Others {
        // The keys of the rows, each with the owner of the rows; none where several have it.
        let mut wanted = HashMap::new();
        for row in rows {
            for key in keys_of(row) {
                let owner = wanted.entry(key).or_insert(Some(&row.podref));
                *owner = owner.filter(|owner| *owner == &row.podref);
            }
        }
        let mut others = Others::default();
        let is_shown = wanted.iter().any(|(key, owner)| {
            let owner = owner.and_then(|owner| self.live.get(owner));
            self.showing.has_other(*key, owner.map(AsRef::as_ref))
        });
        for live in self.live.values().filter(|_| is_shown) {
            let keys = wanted_of(&wanted, &live.state, &live.sandboxes);
            if !keys.is_empty() {
                let is_made_up = |key: &Key| match key {
                    Key::Address(address) => live.state.is_end_made_up(*address),
                    Key::Id(_) => false,
                };
                let end = live.living().completed;
                let end = end.filter(|end| end.stopped || keys.iter().all(is_made_up));
                others.add(keys, &Arc::new(live.state.clone()), end.as_ref());
            }
        }
        let names = wanted.keys().flat_map(|key| self.showing.ended_with(*key));
        let names: HashSet<_> = names.collect();
        let ends = names.into_iter().filter_map(|name| self.ended.get(name));
        for end in ends.flatten() {
            let keys = wanted_of(&wanted, &end.last, &end.sandboxes);
            if !keys.is_empty() {
                others.add(keys, &Arc::new(end.last.clone()), Some(end));
            }
        }
        others
    }
}

#[cfg(test)]
mod tests;
