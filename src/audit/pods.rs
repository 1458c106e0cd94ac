//! The addresses that live pods report, against those that are allocated: addresses that two of them have, and
//! addresses that no row holds for them. A pod that may have given its addresses back is left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipgc_core::{
    address::pool_name,
    definitions::{is_static, may_be_of},
    ipam::Ipam,
    pod::{ContainerState, PodState},
    podref::PodRef,
};

use super::{
    assess::Assessor,
    index::{OF_CLAIM, Place},
    report::{Finding, Problem, Source},
};

/// One address that a pod reports of a network of whereabouts.
struct Use<'a> {
    assessor: &'a Assessor<'a>,
    address: IpAddr,
    pod: &'a PodState,
    interface: &'a str,
    /// The section of a definition that gave it.
    ipam: &'a Ipam,
}

impl Use<'_> {
    fn network(&self) -> Option<&str> {
        self.ipam.network_name.as_deref()
    }

    /// Whether a row of this use may be in this pool. Where the node of a slice is not known, each pool of the network may
    /// have it.
    fn is_of(&self, place: &Place) -> bool {
        let (networks, network) = (&place.networks, self.network());
        let Some(range) = place.pool.range else {
            return false;
        };
        if self.ipam.slices.is_none() {
            return self.ipam.ranges.contains(&range) && may_be_of(networks, network, false);
        }
        range.contains(self.address) && may_be_of(networks, network, place.slice.is_none())
    }

    /// The first pool that holds the address in its network.
    fn holder(&self) -> Option<&Place> {
        let holders = self.assessor.index.holders(self.address);
        let mut places = holders.map(|(place, _)| place);
        places.find(|place| self.is_of(place))
    }

    /// Whether a row of its pod has it, or one that names no pod, so that no other is given it. Its row stays in the pool
    /// that it was given of when its definition leads to another one by now.
    fn is_allocated(&self) -> bool {
        let mut holders = self.assessor.index.holders(self.address);
        holders.any(|(place, owner)| {
            if owner == self.pod.podref.as_str() {
                return self.is_of(place)
                    || may_be_of(&place.networks, self.network(), false)
                    || self.assessor.leading(place).is_none();
            }
            !PodRef::is_valid(owner) && self.is_of(place)
        })
    }

    /// Says in which pool it is, or would be.
    fn name_pool(&self, finding: &mut Finding) {
        let mut places = self.assessor.index.pools.iter();
        let has_address =
            |place: &Place| place.pool.range.is_some_and(|it| it.contains(self.address));
        let would_hold = || places.find(|place| has_address(place) && self.is_of(place));
        if let Some(place) = self.holder().or_else(would_hold) {
            finding.namespace = Some(place.pool.key().namespace.clone());
            finding.pool = Some(place.pool.key().name.clone());
        } else if self.ipam.slices.is_none() {
            finding.pool = self.pool_names().next();
        }
    }

    /// The names of the pools of the ranges that have the address.
    fn pool_names(&self) -> impl Iterator<Item = String> {
        let ranges = self.ipam.ranges.iter();
        let ranges = ranges.filter(|range| range.contains(self.address));
        ranges.map(|range| pool_name(self.network(), None, *range))
    }

    /// Whether the row would have been seen if there were one.
    fn all_is_seen(&self) -> bool {
        let (snapshot, mut pools) = (self.assessor.snapshot, self.assessor.index.pools.iter());
        // The pool may be in a namespace that was not looked at, or that files lack.
        let are_all = snapshot.source == Source::Cluster && snapshot.pools_of.is_none();
        self.assessor.blind.is_empty() && (are_all || pools.any(|place| self.is_of(place)))
    }

    /// Whether there is a reservation of this address for this pod.
    fn is_reserved(&self) -> bool {
        let snapshot = self.assessor.snapshot;
        let networks = [self.network().map(Into::into)].into();
        self.assessor.index.pools.iter().any(|place| {
            let namespace = &place.pool.key().namespace;
            let mut found = snapshot.reservations_of(namespace, &networks, self.address);
            found.any(|(_, it)| it.owner() == self.pod.podref.as_str())
        })
    }

    /// The finding about an address that no row holds for its pod, if it is one.
    fn unallocated(&self) -> Option<Finding> {
        if !self.pod.is_running() || self.is_allocated() || !self.all_is_seen() {
            return None;
        }
        let mut finding = match self.holder() {
            Some(Place { pool, .. }) => Finding::new(
                Problem::InUseUnallocated,
                format!("its pod lives, and the row in {} is another's", pool.key()),
            ),
            // The dump has pools before reservations before pods.
            None if self.assessor.snapshot.source == Source::Files && self.is_reserved() => {
                Finding::new(
                    Problem::Unknown,
                    "its pod lives and has a reservation, and no row holds it: it may be younger than the IPPools of the input",
                )
            }
            None => Finding::new(
                Problem::InUseUnallocated,
                "its pod lives, and no row holds it: it may be given to another pod",
            ),
        };
        finding.address = Some(self.address.to_string());
        finding.interface = Some(self.interface.to_owned()).filter(|name| !name.is_empty());
        self.name_pool(&mut finding);
        self.assessor
            .name_owner(&mut finding, self.pod.podref.as_str(), None);
        Some(finding)
    }
}

/// Whether the pod may have given its addresses back: its rows go before its object, and, once its containers have ended,
/// before its phase says so.
pub fn is_going(pod: &PodState) -> bool {
    let mut containers = pod.containers.iter().map(|container| container.state);
    let ended = |state| matches!(state, ContainerState::Terminated { .. });
    let started = |state| matches!(state, ContainerState::Terminated { started: true });
    let has_ended = containers.clone().any(started) && containers.all(ended);
    pod.deleting || pod.phase.is_terminal() || has_ended
}

/// The findings about pods that live.
pub fn findings(assessor: &Assessor<'_>) -> Vec<Finding> {
    let Some(definitions) = &assessor.definitions else {
        return Vec::new();
    };
    let mut uses = Vec::new();
    let pods = assessor.snapshot.pods.iter();
    for pod in pods.filter(|pod| !is_going(pod) && pod.has_network()) {
        for entry in pod.status.entries() {
            let given = entry.addresses.iter();
            let all = &assessor.snapshot.definitions;
            for address in given.filter(|it| !is_static(all, entry.network, **it)) {
                let sections = definitions.giving(entry.network, *address);
                let of = sections.map(|ipam| Use {
                    assessor,
                    address: *address,
                    pod,
                    interface: entry.interface,
                    ipam,
                });
                // The one that has a row, if there is one.
                uses.extend(of.min_by_key(|one| !one.is_allocated()));
            }
        }
    }
    let mut findings: Vec<_> = uses.iter().filter_map(Use::unallocated).collect();
    // A section that does not reserve shares an address with all but its own pool.
    uses.sort_by_key(|one| !one.ipam.reserves);
    let mut together = BTreeMap::<_, Vec<&Use<'_>>>::new();
    for one in &uses {
        let mut own = one.pool_names().next().filter(|_| !one.ipam.reserves);
        let shares = |other: &&Use<'_>| other.pool_names().any(|pool| Some(pool) == own);
        let reserved = together.get(&(one.network(), one.address, None));
        if reserved.into_iter().flatten().any(shares) {
            own = None;
        }
        let domain = (one.network(), one.address, own);
        together.entry(domain).or_default().push(one);
    }
    findings.extend(together.values().filter_map(|uses| duplicate(uses)));
    findings
}

fn duplicate(together: &[&Use<'_>]) -> Option<Finding> {
    let mut pods: Vec<_> = together.iter().map(|one| &one.pod.podref).collect();
    pods.sort_unstable();
    pods.dedup();
    if pods.len() < 2 {
        return None;
    }
    let first = together[0];
    // A virtual machine that migrates has two pods with its address.
    let mut holders = first.assessor.index.holders(first.address);
    if holders.any(|(place, owner)| owner == OF_CLAIM && first.is_of(place)) {
        return None;
    }
    let network = match first.network() {
        Some(name) => format!("network {name}"),
        None => "the network without a name".to_owned(),
    };
    let detail = format!("{} pods that live have it in {network}", pods.len());
    let mut finding = Finding::new(Problem::InUseTwice, detail);
    finding.address = Some(first.address.to_string());
    // That of the one which has a row, if there is one.
    let allocated = together.iter().find(|one| one.is_allocated());
    allocated.unwrap_or(&first).name_pool(&mut finding);
    let node_of = |pod: &&PodRef| first.assessor.node_of(pod.as_str());
    let nodes = pods.iter().filter_map(node_of);
    let nodes: BTreeSet<_> = nodes.collect();
    finding.nodes = nodes.into_iter().map(Into::into).collect();
    finding.pods = pods.iter().map(ToString::to_string).collect();
    Some(finding)
}
