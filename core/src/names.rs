//! Of which network and address the name of a reservation is.
//!
//! The name is `[network-]address` with a dash for each colon, so one name can be read in several ways:
//! `f1-fd00--1` is `fd00::1` of network `f1`, or `f1:fd00::1` without a network. Which reading is right is told by
//! the networks that definitions and pools name. Nothing here guesses: a name with two readings that are
//! equally good has none.

use std::{
    collections::{BTreeMap, HashSet},
    net::IpAddr,
};

use crate::{
    address::{Range, may_reserve, readings},
    definitions::{Definitions, Networks},
    pod::PodState,
};

/// The networks that definitions and pools name, each with its known ranges. A `None` range stands for ranges that ipgc
/// does not know: in a file on the nodes, or in a text that is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownNetworks(BTreeMap<Option<Box<str>>, HashSet<Option<Range>>>);

impl KnownNetworks {
    /// Takes in a pool of this range that may be of these networks.
    pub fn add_pool(&mut self, networks: &Networks, range: Option<Range>) {
        for network in networks {
            self.0.entry(network.clone()).or_default().insert(range);
        }
    }

    /// Takes in what can be read of these definitions.
    pub fn add_definitions(&mut self, definitions: &Definitions) {
        for section in definitions.values().flatten().flatten() {
            let ranges = self.0.entry(section.network_name.clone()).or_default();
            ranges.extend(section.ranges.iter().copied().map(Some));
            if section.ranges.is_empty() || !section.problems.is_empty() {
                ranges.insert(None);
            }
        }
    }
}

/// The meaning of the name of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading<'n> {
    /// The network, if there is one, and the address.
    One(Option<&'n str>, IpAddr),
    /// Several networks and addresses have this name, and nothing tells which is meant.
    Ambiguous,
    /// No address.
    None,
}

impl<'n> Reading<'n> {
    /// The network and the address, if they are known.
    pub fn one(self) -> Option<(Option<&'n str>, IpAddr)> {
        match self {
            Self::One(network, address) => Some((network, address)),
            Self::Ambiguous | Self::None => None,
        }
    }
}

/// Reads the name of a reservation. Best is a network with the address in a range, then any other network whose name is
/// known, then the rest. Two equally good readings make the name ambiguous.
pub fn split<'n>(name: &'n str, known: &KnownNetworks) -> Reading<'n> {
    let may_have = |range: &Option<Range>, address| range.is_none_or(|it| it.contains(address));
    let rank = |network: Option<&str>, address| match known.0.get(&network.map(Into::into)) {
        Some(ranges) if ranges.iter().any(|range| may_have(range, address)) => 2,
        // That nothing stands before the address is no sign of anything.
        Some(_) if network.is_some() => 1,
        _ => 0,
    };
    let ranked =
        readings(name).map(|(network, address)| (rank(network, address), network, address));
    let ranked: Vec<_> = ranked.collect();
    let best = ranked.iter().map(|(rank, ..)| *rank).max();
    let mut best = ranked.iter().filter(|(rank, ..)| Some(*rank) == best);
    match (best.next(), best.next()) {
        (Some((_, network, address)), None) => Reading::One(*network, *address),
        (Some(_), Some(_)) => Reading::Ambiguous,
        (None, _) => Reading::None,
    }
}

/// Whether this pod reports an address that the reservation of this name may be of, other than this one.
pub fn may_be_of_another(name: &str, address: Option<IpAddr>, pod: &PodState) -> bool {
    let mut reported = pod.status.addresses().iter().copied();
    reported.any(|other| Some(other) != address && may_reserve(name, other))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{definitions::networks_of, ipam::parse};
    use rstest::rstest;

    /// The networks of these pools, as `(name, range)`, and of these `ipam` sections.
    fn known(pools: &[(&str, &str)], sections: &[&str]) -> KnownNetworks {
        let mut known = KnownNetworks::default();
        for (name, range) in pools {
            let range = Range::parse(range);
            known.add_pool(&networks_of(name, range, None), range);
        }
        let definitions = sections.iter().enumerate().map(|(number, keys)| {
            let config = format!(r#"{{"type":"macvlan","ipam":{{"type":"whereabouts",{keys}}}}}"#);
            let name = format!("d/{number}");
            (name.into(), Ok(parse(&config, "net").unwrap()))
        });
        known.add_definitions(&definitions.collect());
        known
    }

    fn one(network: &'static str, address: &str) -> Reading<'static> {
        let network = Some(network).filter(|network| !network.is_empty());
        Reading::One(network, address.parse().unwrap())
    }

    const F1: &[(&str, &str)] = &[("f1-fd00---64", "fd00::/64")];
    const ODD: &[(&str, &str)] = &[("f1-fd00---64", "fd00::/64"), ("f1---16", "f1::/16")];

    #[rstest]
    #[case::of_its_pool("f1-fd00--1", F1, &[], one("f1", "fd00::1"))]
    #[case::of_its_definition("f1-fd00--1", &[], &[r#""network_name":"f1","range":"fd00::/64""#], one("f1", "fd00::1"))]
    #[case::of_another_range("f1-fd00--1", &[("f1-fd01---64", "fd01::/64")], &[], one("f1", "fd00::1"))]
    #[case::beside_one_without_a_name("f1-fd00--1", F1, &[r#""range":"10.0.0.0/24""#], one("f1", "fd00::1"))]
    #[case::beside_one_that_has_the_other("f1-fd00--1", ODD, &[], Reading::Ambiguous)]
    #[case::beside_one_of_any_range("f1-fd00--1", F1, &[r#""node_slice_size":"/24""#], Reading::Ambiguous)]
    #[case::beside_one_that_cannot_be_read("f1-fd00--1", F1, &[r#""range":"10.0.0.0""#], Reading::Ambiguous)]
    #[case::in_no_range_of_two("f1-fd00--1", &[("f1-fd01---64", "fd01::/64"), ("10.0.0.0-24", "10.0.0.0/24")], &[], one("f1", "fd00::1"))]
    #[case::of_nobody_knows_whom_beside_one_without_a_name("f1-fd00--1", &[("10.0.0.0-24", "10.0.0.0/24")], &[], Reading::Ambiguous)]
    #[case::of_two_that_do_not_have_it("f1-f1-a-fd00--1", &[("f1-fd01---64", "fd01::/64"), ("f1-f1-fd01---64", "fd01::/64")], &[], Reading::Ambiguous)]
    #[case::of_nobody_knows_whom("f1-fd00--1", &[], &[], Reading::Ambiguous)]
    #[case::of_another_network("f1-fd00--1", &[("f1-fd00-fd00---64", "fd00::/64")], &[], Reading::Ambiguous)]
    #[case::the_longer_has_it("f1-a-fd00--1", &[("f1-fd01---64", "fd01::/64"), ("f1-a-fd00---64", "fd00::/64")], &[], one("f1-a", "fd00::1"))]
    #[case::the_shorter_has_it("f1-a-fd00--1", &[("f1-a---16", "a::/16"), ("f1-a-fd01---64", "fd01::/64")], &[], one("f1", "a:fd00::1"))]
    #[case::without_a_name("fd00-0-0-10--5", &[("fd00-0-0-10---64", "fd00:0:0:10::/64")], &[], one("", "fd00:0:0:10::5"))]
    #[case::without_a_name_or_a_pool("fd00--5", &[], &[], one("", "fd00::5"))]
    #[case::four_numbers("blue-10.0.0.5", &[], &[], one("blue", "10.0.0.5"))]
    #[case::four_numbers_alone("10.0.0.5", &[("f1-fd00---64", "fd00::/64")], &[], one("", "10.0.0.5"))]
    #[case::four_numbers_after_some("f1-1-2-3-4-5-6-10.0.0.5", F1, &[], one("f1-1-2-3-4-5-6", "10.0.0.5"))]
    #[case::expanded("f1-fd00-0000-0000-0000-0000-0000-0000-0001", &[], &[], one("f1", "fd00::1"))]
    #[case::no_address("blue", F1, &[], Reading::None)]
    fn a_name_is_read_by_the_networks_that_are_known(
        #[case] name: &str,
        #[case] pools: &[(&str, &str)],
        #[case] sections: &[&str],
        #[case] reading: Reading<'_>,
    ) {
        assert_eq!(split(name, &known(pools, sections)), reading);
    }

    /// Definitions of any user may have many ranges in one network. The time grows with their number, not with its square:
    /// that of so many would be half a minute.
    #[test]
    fn a_network_of_many_ranges_is_taken_in_at_once() {
        let ranges = (0..300_000_u32).map(|n| {
            let address = std::net::Ipv4Addr::from(n << 8);
            Range::parse(&format!("{address}/24")).unwrap()
        });
        let networks = [None].into();
        let begun = std::time::Instant::now();
        let mut known = KnownNetworks::default();
        for range in ranges {
            known.add_pool(&networks, Some(range));
        }
        let took = begun.elapsed();
        assert!(took < std::time::Duration::from_secs(5), "{took:?}");
    }
}
