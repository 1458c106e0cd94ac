//! The addresses of which a sweep would have seen a row.
//!
//! The question comes for each used address without a row, and the index of pods is locked meanwhile. So the answer
//! must be fast, however many pools there are.

use std::{cmp::Reverse, collections::HashMap, net::IpAddr};

use ipgc_core::address::Range;

/// Ranges of pools by network: first and last addresses, in order, none of which overlap.
pub(super) struct Swept<'n>(HashMap<Option<&'n str>, Vec<(IpAddr, IpAddr)>>);

impl<'n> Swept<'n> {
    /// Of pools with these networks and ranges.
    pub(super) fn of(pools: impl Iterator<Item = (Option<&'n str>, Range)>) -> Self {
        let mut all = HashMap::<_, Vec<_>>::new();
        for (network, range) in pools {
            let (first, Reverse(last)) = range.first_and_last();
            all.entry(network).or_default().push((first, last));
        }
        for ranges in all.values_mut() {
            // Of two ranges that overlap, one contains the other: the wider one comes first, and stands for both.
            ranges.sort_unstable_by_key(|(first, last)| (*first, Reverse(*last)));
            ranges.dedup_by(|(_, last), (_, outer)| last <= outer);
        }
        Self(all)
    }

    /// Whether a pool of this network has the row of this address, if there is one.
    pub(super) fn contains(&self, network: Option<&str>, address: IpAddr) -> bool {
        let Some(ranges) = self.0.get(&network) else {
            return false;
        };
        let behind = ranges.partition_point(|(first, _)| *first <= address);
        let nearest = behind.checked_sub(1).and_then(|at| ranges.get(at));
        nearest.is_some_and(|(_, last)| address <= *last)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{net::Ipv4Addr, time::Instant};

    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::before("9.255.255.255", None, false)]
    #[case::first("10.0.0.0", None, true)]
    #[case::within_both("10.0.1.7", None, true)]
    #[case::behind_the_inner_one("10.0.2.0", None, true)]
    #[case::behind_both("10.1.0.0", None, false)]
    #[case::of_another("10.3.0.255", None, true)]
    #[case::in_another_network("10.3.0.7", Some("red"), false)]
    #[case::of_that_network("10.0.1.7", Some("red"), true)]
    #[case::of_no_network("10.0.1.7", Some("blue"), false)]
    #[case::of_ipv6("fd00::7", None, true)]
    fn an_address_is_in_a_range_of_its_network(
        #[case] address: &str,
        #[case] network: Option<&str>,
        #[case] expected: bool,
    ) {
        let pools = [
            (None, "10.3.0.0/24"),
            (None, "10.0.1.0/24"),
            (None, "fd00::/64"),
            (Some("red"), "10.0.1.0/24"),
            (None, "10.0.0.0/16"),
            (None, "10.0.0.0/16"),
        ];
        let pools = pools.map(|(network, range)| (network, Range::parse(range).unwrap()));
        let swept = Swept::of(pools.into_iter());
        assert_eq!(swept.contains(network, address.parse().unwrap()), expected);
    }

    /// As many as there may be in a large cluster of which one namespace is swept.
    #[test]
    fn more_pools_are_hardly_slower() {
        let network = |number: u32| Ipv4Addr::from_bits(0x0a00_0000 + (number << 8));
        let pools = (0..10_000).map(|number| format!("{}/24", network(number)));
        let pools: Vec<_> = pools.map(|range| Range::parse(&range).unwrap()).collect();
        let begun = Instant::now();
        let swept = Swept::of(pools.iter().map(|range| (None, *range)));
        let count = (0..100_000)
            .map(|number| Ipv4Addr::from_bits(0x0b00_0000 + number))
            .filter(|address| swept.contains(None, (*address).into()));
        let (count, took) = (count.count(), begun.elapsed());
        println!("100,000 addresses, 10,000 pools: {count} in {took:?}");
        assert!(took.as_secs() < 10, "{took:?}");
    }
}
