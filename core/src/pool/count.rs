//! How many rows a name has, and of how many interfaces: a DEL is one interface's, and gives back all its addresses.

use std::{collections::HashMap, hash::BuildHasher, num::NonZeroU32};

use foldhash::quality::FixedState;

use super::Row;

/// An interface of a pod, by its name in few bytes. Two of one pod are not taken for one: that would take two names of
/// it with one hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InterfaceTag(NonZeroU32);

impl InterfaceTag {
    /// The tag of a name; `None` of no name, which rows from before whereabouts 0.8 have.
    pub fn of(name: &str) -> Option<Self> {
        let half = FixedState::default().hash_one(name) >> u32::BITS;
        let tag = u32::try_from(half).ok().and_then(NonZeroU32::new);
        let tag = tag.unwrap_or(NonZeroU32::MIN);
        (!name.is_empty()).then_some(Self(tag))
    }
}

/// So many interfaces of a pod are told from each other. More than a kubelet gets through in any case that matters.
const TOLD_APART: usize = 5;

/// Rows of one podref.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RowCount {
    rows: u32,
    /// The first interfaces of these rows.
    interfaces: [Option<InterfaceTag>; TOLD_APART],
    /// Rows of no name, and of interfaces for which there was no place: each may be of one of its own.
    others: u32,
}

impl RowCount {
    /// There is another row, of this interface.
    pub fn add(&mut self, interface: Option<InterfaceTag>) {
        self.rows = self.rows.saturating_add(1);
        if !interface.is_some_and(|tag| self.has(tag)) {
            self.others = self.others.saturating_add(1);
        }
    }

    /// Whether this interface is one of those that are told from each other; it is from now on, if there is a place.
    fn has(&mut self, tag: InterfaceTag) -> bool {
        let mut places = self.interfaces.iter_mut();
        let place = places.find(|place| place.is_none_or(|known| known == tag));
        place.map(|place| *place = Some(tag)).is_some()
    }

    /// Takes another count in that was made at another time.
    pub fn raise(&mut self, other: Self) {
        self.rows = self.rows.max(other.rows);
        self.others = self.others.max(other.others);
        for tag in other.interfaces.into_iter().flatten() {
            if !self.has(tag) {
                self.others = self.others.saturating_add(1);
            }
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
            let is_of_claim = row
                .content()
                .is_ok_and(|row| row.resource_claim().is_some());
            if !is_of_claim && let Some(podref) = row.podref_text() {
                let interface = row.interface_text().and_then(InterfaceTag::of);
                all.entry(podref).or_default().add(interface);
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
        let tags = interfaces.iter().map(|name| InterfaceTag::of(name));
        tags.for_each(|tag| count.add(tag));
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
