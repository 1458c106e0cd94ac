//! How many rows a name has, and of how many interfaces. One DEL frees all addresses of one interface.

use std::{collections::HashMap, hash::BuildHasher, num::NonZeroU32};

use foldhash::quality::FixedState;

use super::Row;
use crate::id::is_uid;

/// So many interfaces of a pod are told from each other. More than a kubelet gets through in any case that matters.
const TOLD_APART: usize = 5;

/// Rows of one podref.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RowCount {
    rows: u32,
    /// The first interfaces of these rows, by hashes of their names: counts are kept by the thousand.
    interfaces: [Option<NonZeroU32>; TOLD_APART],
    /// Rows of no name, and of interfaces for which there was no place: each may be of one of its own.
    others: u32,
}

impl RowCount {
    /// There is another row, of this interface. Rows from before whereabouts 0.8 have none.
    pub fn add(&mut self, interface: Option<&str>) {
        self.rows = self.rows.saturating_add(1);
        let name = interface.filter(|name| !name.is_empty());
        self.add_interface(name.map(|name| {
            let half = FixedState::default().hash_one(name) >> u32::BITS;
            let hash = u32::try_from(half).ok().and_then(NonZeroU32::new);
            hash.unwrap_or(NonZeroU32::MIN)
        }));
    }

    fn add_interface(&mut self, hash: Option<NonZeroU32>) {
        let mut places = self.interfaces.iter_mut();
        let place = places.find(|place| hash.is_some() && (place.is_none() || **place == hash));
        match place {
            Some(place) => *place = hash,
            None => self.others = self.others.saturating_add(1),
        }
    }

    /// Takes another count in that was made at another time.
    pub fn raise(&mut self, other: Self) {
        self.rows = self.rows.max(other.rows);
        self.others = self.others.max(other.others);
        for hash in other.interfaces.into_iter().flatten() {
            self.add_interface(Some(hash));
        }
    }

    /// How many rows there are.
    pub fn rows(self) -> usize {
        self.rows as usize
    }

    /// Of how many interfaces they may be.
    pub fn interfaces(self) -> usize {
        self.interfaces.iter().flatten().count() + self.others as usize
    }

    /// Of each podref, its rows among these. A row of a ResourceClaim takes no DEL of its pod.
    pub fn by_podref(rows: &[Row]) -> HashMap<&str, Self> {
        let mut all = HashMap::<&str, Self>::with_capacity(rows.len());
        for row in rows {
            let is_of_claim = row.id_text().is_some_and(is_uid);
            if !is_of_claim && let Some(podref) = row.podref_text() {
                all.entry(podref).or_default().add(row.interface_text());
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn count(interfaces: &[&str]) -> RowCount {
        let mut count = RowCount::default();
        for name in interfaces {
            count.add(Some(name));
        }
        count
    }

    #[rstest]
    #[case::both_families(&["net1", "net1", "net2", "net2"], 2)]
    #[case::three(&["eth0", "net1", "net2"], 3)]
    #[case::of_kubevirt(&["pod6f2a80b1c3d", "pod6f2a80b1c3d", "podb21f07a9e44"], 2)]
    #[case::three_of_kubevirt(&["pod6f2a80b1c3d", "pod16477688c0e", "podb21f07a9e44"], 3)]
    #[case::of_no_name(&["", "", "net1"], 3)]
    #[case::more_than_are_told_apart(&["a", "b", "c", "d", "e", "a", "f", "f"], 7)]
    fn rows_of_one_interface_are_of_one(#[case] names: &[&str], #[case] interfaces: usize) {
        assert_eq!(count(names).interfaces(), interfaces);
        assert_eq!(count(names).rows(), names.len());
    }

    #[test]
    fn what_was_seen_at_different_times_counts_together() {
        let mut all = count(&["net1", "net2", "a", "a"]);
        all.raise(count(&["net3", "a", ""]));
        assert_eq!((all.rows(), all.interfaces()), (4, 5));
        all.raise(count(&["b", "c"]));
        assert_eq!(all.interfaces(), 7);
    }
}
