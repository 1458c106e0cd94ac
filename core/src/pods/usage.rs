//! Addresses that live pods use, counted for the metrics: those that two use, and those without a row.
//!
//! Nothing here decides. A pod that changed while the sweep looked is left to the next one.

use std::{collections::HashMap, net::IpAddr};

use crate::{
    address::Range,
    definitions::{Definitions, is_static},
    id::hash_of,
    ipam::Ipam,
    pod::{Container, ContainerState, PodState},
};

use super::live::Live;

/// The addresses that live pods use, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Addresses that more than one of them uses in one network.
    pub duplicates: usize,
    /// Addresses that one of them uses and has no row of.
    pub unallocated: usize,
}

impl Usage {
    /// The addresses that these pods use of these definitions' networks. `is_swept` says whether a sweep would have seen the row of
    /// an address.
    pub(super) fn of<'p>(
        pods: impl Iterator<Item = &'p Live>,
        definitions: &Definitions,
        is_swept: impl Fn(Option<&str>, IpAddr) -> bool,
    ) -> Self {
        let domains = domains(definitions);
        let mut unallocated = 0;
        // A number stands for an address of a domain. A pod may report an address twice, which counts once.
        let mut used = Vec::new();
        for pod in pods.filter(|pod| is_to_stay(&pod.state)) {
            let first = used.len();
            let entries = pod.state.status.entries();
            let reports =
                entries.flat_map(|entry| entry.addresses.iter().map(move |it| (entry, *it)));
            for (place, (entry, address)) in reports.enumerate() {
                let mut domains = domains.get(entry.network).into_iter().flatten();
                let domain = domains.find(|domain| domain.range.contains(address));
                let is_given = |_: &&Domain<'_>| !is_static(definitions, entry.network, address);
                let Some(domain) = domain.filter(is_given) else {
                    continue;
                };
                let number = hash_of(&(domain.number, address.to_canonical()));
                if used[first..].contains(&number) {
                    continue;
                }
                used.push(number);
                let lacks = pod.lacks_row(place) && is_swept(domain.network, address);
                unallocated += usize::from(lacks);
            }
        }
        used.sort_unstable();
        Self {
            duplicates: used.chunk_by(u64::eq).filter(|pods| pods.len() > 1).count(),
            unallocated,
        }
    }
}

/// Whether it is to stay: neither in a terminal phase nor being deleted. The addresses of one whose containers
/// have all ended may be gone before its phase says so.
fn is_to_stay(pod: &PodState) -> bool {
    let ended =
        |container: &Container| matches!(container.state, ContainerState::Terminated { .. });
    let has_ended = !pod.containers.is_empty() && pod.containers.iter().all(ended);
    !pod.phase.is_terminal() && !pod.deleting && !has_ended
}

/// Within which an address is one address.
struct Domain<'n> {
    range: Range,
    network: Option<&'n str>,
    number: u64,
}

/// Those of each definition.
fn domains(definitions: &Definitions) -> HashMap<&str, Vec<Domain<'_>>> {
    fn of_section(section: &Ipam) -> impl Iterator<Item = Domain<'_>> {
        let network = section.network_name.as_deref();
        section.ranges.iter().map(move |range| {
            // Without reservations, ranges that overlap are networks of their own.
            let alone = (!section.reserves).then_some(range);
            Domain {
                range: *range,
                network,
                number: hash_of(&(network, alone)),
            }
        })
    }
    let read = definitions.iter().filter_map(|(name, definition)| {
        let sections = definition.as_ref().ok()?.iter();
        Some((&**name, sections.flat_map(of_section).collect()))
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::time::Moment;
    use rstest::rstest;
    use serde_json::json;
    use testkit::fixtures::{PodBuilder, pod};

    use super::*;
    use crate::definitions::{Scope, read};
    use crate::pods::{
        PodIndex,
        tests::{ANY_SCOPE, row, state, state_of},
    };

    /// The definitions `d/a`, `d/wide` (both of the one network that has no name) and `d/named`.
    fn networks() -> Definitions {
        let mut definitions = Definitions::new();
        for (name, network, ranges) in [
            ("d/a", None, &["10.0.0.0/24", "fd00::/120"][..]),
            ("d/wide", None, &["10.0.0.0/16"]),
            ("d/named", Some("red"), &["10.0.0.0/24"]),
        ] {
            let ranges: Vec<_> = ranges
                .iter()
                .map(|range| json!({ "range": range }))
                .collect();
            let mut ipam = json!({ "type": "whereabouts", "ipRanges": ranges });
            if let Some(network) = network {
                ipam["network_name"] = network.into();
            }
            let config = json!({ "type": "macvlan", "ipam": ipam }).to_string();
            definitions.insert(name.into(), read(name, Ok(Some(&config))));
        }
        let other = r#"{"type": "bridge", "ipam": {"type": "host-local"}}"#;
        let other = read("d/local", Ok(Some(other)));
        definitions.insert("d/local".into(), other);
        definitions
    }

    fn web(number: usize) -> PodBuilder {
        let pod = pod("d", &format!("web-{number}")).uid(&format!("uid-{number}"));
        pod.node("n").networks("d/a").running()
    }

    /// The addresses that these pods use, after a sweep that saw rows of `web-0` with these addresses.
    fn usage(pods: impl IntoIterator<Item = PodBuilder>, rows: &[&str]) -> Usage {
        let mut index = PodIndex::default();
        for pod in pods {
            index.apply(state(pod), Moment::EPOCH);
        }
        index.begin_sweep();
        for address in rows {
            let row = row("d/web-0", address.parse().ok());
            index.glance(&row, ANY_SCOPE, true, Moment::EPOCH);
        }
        index.usage(&networks(), |_, _| true)
    }

    #[rstest]
    #[case::one_network(["d/a", "d/a"], 1)]
    #[case::two_definitions_of_one_network(["d/a", "d/wide"], 1)]
    #[case::another_network(["d/a", "d/named"], 0)]
    #[case::nothing_of_whereabouts(["d/local", "d/local"], 0)]
    #[case::nobody_knows(["d/none", "d/none"], 0)]
    fn an_address_is_in_use_twice_within_one_network(
        #[case] of: [&str; 2],
        #[case] duplicates: usize,
    ) {
        let pods = (0..)
            .zip(of)
            .map(|(number, of)| web(number).reports(of, "net1", &["10.0.0.5"]));
        assert_eq!(usage(pods, &[]).duplicates, duplicates);
    }

    #[test]
    fn a_pod_shares_no_address_with_itself() {
        let twice = web(0).reports("d/a", "net1", &["10.0.0.5"]);
        let twice = twice.reports("d/a", "net2", &["10.0.0.5"]);
        assert_eq!(usage([twice], &[]).duplicates, 0);
    }

    #[rstest]
    #[case::none(&[], 2)]
    #[case::of_ipv4(&["10.0.0.5"], 1)]
    #[case::of_ipv6(&["fd00::5"], 1)]
    #[case::both(&["fd00::5", "10.0.0.5"], 0)]
    #[case::of_another_address(&["10.0.0.6"], 2)]
    fn rows_are_told_by_their_address_whatever_the_order(
        #[case] rows: &[&str],
        #[case] left: usize,
    ) {
        let pod = web(0).reports_default(&["fd99::1", "10.244.0.1"]);
        // One of no range of the definition is from elsewhere.
        let pod = pod.reports("d/a", "net1", &["fd00::5", "192.168.0.1", "10.0.0.5"]);
        assert_eq!(usage([pod], rows).unallocated, left);
    }

    /// Lowest first, a pod mostly has the same address in each network that has one.
    #[test]
    fn an_address_in_two_networks_of_one_pod_is_no_fault() {
        let both = web(0).reports("d/a", "net1", &["10.0.0.1"]);
        let both = both.reports("d/named", "net2", &["10.0.0.1"]);
        let found = usage([both], &["10.0.0.1", "10.0.0.1"]);
        assert_eq!(found, Usage::default());
    }

    /// Each pod has it by design, and no row of it.
    #[test]
    fn an_address_that_a_definition_gives_to_all_of_its_pods_is_no_fault() {
        let config = json!({ "type": "macvlan", "ipam": {
            "type": "whereabouts", "range": "10.0.0.0/24", "exclude": ["10.0.0.100"],
            "addresses": [{ "address": "10.0.0.100/24" }],
        }});
        let fixed = read("d/a", Ok(Some(&config.to_string())));
        let definitions = Definitions::from([("d/a".into(), fixed)]);
        let mut index = PodIndex::default();
        for number in 0..2 {
            let pod = web(number).reports("d/a", "net1", &["10.0.0.100"]);
            index.apply(state(pod), Moment::EPOCH);
        }
        index.begin_sweep();
        assert_eq!(index.usage(&definitions, |_, _| true), Usage::default());
    }

    /// No other pod is given it.
    #[rstest]
    #[case::of_no_pod("", Some("red"), 0)]
    #[case::of_another_network("", None, 1)]
    #[case::of_another_pod("d/web-1", Some("red"), 1)]
    fn an_address_in_a_row_that_names_no_pod_is_allocated(
        #[case] podref: &str,
        #[case] network: Option<&str>,
        #[case] unallocated: usize,
    ) {
        let mut index = PodIndex::default();
        let pod = web(0).reports("d/named", "net1", &["10.0.0.5"]);
        index.apply(state(pod), Moment::EPOCH);
        let row = row(podref, "10.0.0.5".parse().ok());
        let scope = Scope {
            networks: &[network.map(Into::into)].into(),
            ..ANY_SCOPE
        };
        // That of an earlier sweep counts no more.
        for (is_there, left) in [(true, unallocated), (false, 1)] {
            index.begin_sweep();
            if is_there {
                index.glance(&row, scope, true, Moment::EPOCH);
            }
            assert_eq!(index.usage(&networks(), |_, _| true).unallocated, left);
        }
    }

    /// The plugin gives addresses back before the kubelet reports the end.
    #[test]
    fn a_pod_whose_containers_have_all_ended_uses_nothing() {
        let mut ended = web(0).reports("d/a", "net1", &["10.0.0.5"]).build();
        ended["status"]["containerStatuses"] = json!([
            {"name": "main", "state": {"terminated": {"startedAt": "2026-01-01T00:00:00Z"}}},
        ]);
        let mut index = PodIndex::default();
        index.apply(state_of(&ended), Moment::EPOCH);
        index.begin_sweep();
        assert_eq!(index.usage(&networks(), |_, _| true), Usage::default());
    }
}
