//! Addresses that live pods use, counted for the metrics: those that two use, and those without a row.
//!
//! Needed beside the index is a number for each address while they are counted, and a few bits for each
//! pod: of which of its addresses the sweep has seen a row. Nothing here decides; a pod that changed while
//! the sweep looked is left to the next one.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    net::IpAddr,
};

use ipgc_core::{ipam::Ipam, networks::Status};

use super::packed::Packed;

/// The whereabouts sections of each definition `namespace/name` that has some.
pub type Networks = HashMap<Box<str>, Vec<Ipam>>;

/// What live pods use, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Addresses that more than one of them uses in one network.
    pub duplicates: usize,
    /// Addresses that one of them uses and has no row of.
    pub unallocated: usize,
}

/// Of which addresses of a pod rows were seen, by their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowsSeen(u8);

impl RowsSeen {
    /// The pod was there when the sweep began, and has not changed since.
    const WAS_THERE: u8 = 1 << 7;

    /// A sweep begins.
    pub fn begin() -> Self {
        Self(Self::WAS_THERE)
    }

    /// A row of this address was seen.
    pub fn note(&mut self, place: usize) {
        self.0 |= Self::bit(place);
    }

    /// Whether the sweep should have seen a row of this address, and has not. Of a pod with more than
    /// seven addresses, only the first seven are looked at.
    fn lacks(self, place: usize) -> bool {
        let bit = Self::bit(place);
        bit != 0 && self.0 & (Self::WAS_THERE | bit) == Self::WAS_THERE
    }

    fn bit(place: usize) -> u8 {
        if place < 7 { 1 << place } else { 0 }
    }
}

impl Usage {
    /// Counts what these pods use of these networks.
    pub(super) fn of<'p>(
        pods: impl Iterator<Item = &'p Packed>,
        networks: &Networks,
        is_swept: impl Fn(Option<&str>, IpAddr) -> bool,
    ) -> Self {
        let hashes = RandomState::new();
        let mut plans = HashMap::new();
        // A number for each address: sorted, those in use twice stand side by side.
        let mut used = Vec::<u64>::new();
        let mut unallocated = 0;
        for pod in pods.filter(|pod| pod.is_to_stay()) {
            let (shape, status) = pod.blank_status();
            let plan = plans.entry(shape).or_insert_with(|| plan(status, networks));
            let own = used.len();
            for (place, address) in pod.addresses().enumerate() {
                let sections = plan.get(place).copied().unwrap_or_default();
                let mut of_address = sections.iter().filter(|section| {
                    let mut ranges = section.ranges.iter();
                    ranges.any(|range| range.contains(address))
                });
                let Some(section) = of_address.next() else {
                    continue;
                };
                let network = section.network_name.as_deref();
                let hash = hashes.hash_one((network, address));
                // A pod may report one of its addresses twice.
                if !used[own..].contains(&hash) {
                    used.push(hash);
                }
                unallocated +=
                    usize::from(pod.rows_seen.lacks(place) && is_swept(network, address));
            }
        }
        used.sort_unstable();
        let twice = used.chunk_by(|a, b| a == b).filter(|same| same.len() > 1);
        Self {
            duplicates: twice.count(),
            unallocated,
        }
    }
}

/// The sections that each address of a status may be from, by its place.
fn plan<'n>(status: &Status, networks: &'n Networks) -> Vec<&'n [Ipam]> {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for entry in status.entries() {
        let sections = networks.get(&entry.network).map_or(&[][..], Vec::as_slice);
        for address in &entry.addresses {
            let places = if address.is_ipv4() { &mut v4 } else { &mut v6 };
            places.push(sections);
        }
    }
    v4.append(&mut v6);
    v4
}
