//! The addresses that live pods report, against those that are allocated: addresses that two of them have, and addresses
//! that no row holds for them. A pod that may have given them back already is nobody's evidence.

use std::{collections::BTreeSet, net::IpAddr};

use ipgc_core::{
    address::pool_name,
    definitions::may_be_of,
    pod::{ContainerState, PodState},
};

use super::{
    assess::Assessor,
    definitions::{Definitions, Section},
    index::{Holder, Place},
    report::{Finding, Problem, Source},
};
use crate::snapshot::{Kind, Unreadable};

/// One address that a pod reports of a network of whereabouts.
struct Use<'s> {
    network: Option<&'s str>,
    address: IpAddr,
    pod: &'s PodState,
    interface: &'s str,
    section: &'s Section<'s>,
}

impl Use<'_> {
    /// Whether a row of this use may be in this pool.
    fn is_of(&self, place: &Place) -> bool {
        if self.section.ipam.slices.is_none() {
            return self.section.pools.contains(&place.key.name);
        }
        let Some(range) = place.range.filter(|range| range.contains(self.address)) else {
            return false;
        };
        if let Some(node) = &place.slice {
            return place.key.name == self.section.ipam.slice_pool_name(node, range);
        }
        // The node of the slice is not known: any pool of its network will do.
        self.network.is_none_or(|network| {
            let rest = place.key.name.strip_prefix(network);
            rest.is_some_and(|rest| rest.starts_with('-'))
        })
    }

    /// The pools that hold the address in its network, and for whom.
    fn holders<'a>(
        &'a self,
        assessor: &'a Assessor<'_>,
    ) -> impl Iterator<Item = (&'a Place, Holder)> {
        let podref = self.pod.podref.as_str();
        let holders = assessor.index.holders(self.address, podref);
        holders.filter(|(place, _)| self.is_of(place))
    }

    /// Whether a row of its pod has it, or one that names no pod, so that no other is given it. Its row stays in the pool
    /// that it was given of when its definition leads to another one by now.
    fn is_allocated(&self, assessor: &Assessor<'_>, definitions: &Definitions<'_>) -> bool {
        let podref = self.pod.podref.as_str();
        let index = &assessor.index;
        let mut holders = index.holders(self.address, podref);
        holders.any(|(place, holder)| match holder {
            Holder::Own => {
                self.is_of(place)
                    || may_be_of(&place.networks, self.network, false)
                    || definitions.to_pool(&place.key.name).is_none()
            }
            Holder::Nobody => self.is_of(place),
            Holder::Another => false,
        })
    }

    /// Says in which pool it is, or would be.
    fn name_pool(&self, finding: &mut Finding, assessor: &Assessor<'_>) {
        let holds = |place: &&Place| {
            let range = place
                .range
                .is_some_and(|range| range.contains(self.address));
            range && self.is_of(place)
        };
        let mut holders = self.holders(assessor).map(|(place, _)| place);
        let place = holders
            .next()
            .or_else(|| assessor.index.pools.iter().find(holds));
        if let Some(place) = place {
            finding.namespace = Some(place.key.namespace.clone());
            finding.pool = Some(place.key.name.clone());
            return;
        }
        let mut ranges = self.section.ipam.ranges.iter();
        let range = ranges.find(|range| range.contains(self.address));
        if self.section.ipam.slices.is_none() {
            finding.pool = range.map(|range| pool_name(self.network, None, *range));
        }
    }
}

/// Whether the pod may have given its addresses back: its rows go before its object, and, where it is at its end, before
/// its phase says so.
pub fn is_going(pod: &PodState) -> bool {
    let mut containers = pod.containers.iter().map(|container| container.state);
    let ended = |state| matches!(state, ContainerState::Terminated { .. });
    let started = |state| matches!(state, ContainerState::Terminated { started: true });
    let has_ended = containers.clone().any(started) && containers.all(ended);
    pod.deleting || pod.phase.is_terminal() || has_ended
}

/// The findings about pods that live.
pub fn findings(
    assessor: &Assessor<'_>,
    definitions: &Definitions<'_>,
    source: Source,
) -> Vec<Finding> {
    let mut uses = Vec::new();
    for pod in &assessor.snapshot.pods {
        if is_going(pod) || !pod.has_network() {
            continue;
        }
        for entry in pod.status.entries() {
            let given = entry.addresses.iter();
            for address in given.filter(|it| !definitions.is_static(entry.network, **it)) {
                let sections = definitions.sections(entry.network, *address);
                let mut of = sections.map(|section| Use {
                    network: section.ipam.network_name.as_deref(),
                    address: *address,
                    pod,
                    interface: entry.interface,
                    section,
                });
                let Some(first) = of.next() else { continue };
                let is_own = |one: &Use<'_>| one.is_allocated(assessor, definitions);
                let own = of.find(|other| !is_own(&first) && is_own(other));
                uses.push(own.unwrap_or(first));
            }
        }
    }
    let mut findings: Vec<_> = uses
        .iter()
        .filter_map(|one| unallocated(assessor, definitions, one, source))
        .collect();
    uses.sort_by_key(|one| (one.network, one.address));
    let same = |a: &Use<'_>, b: &Use<'_>| (a.network, a.address) == (b.network, b.address);
    for together in uses.chunk_by(same) {
        findings.extend(duplicates(assessor, definitions, together));
    }
    findings
}

fn unallocated(
    assessor: &Assessor<'_>,
    definitions: &Definitions<'_>,
    one: &Use<'_>,
    source: Source,
) -> Option<Finding> {
    let is_allocated = one.is_allocated(assessor, definitions);
    if !one.pod.is_running() || is_allocated || !all_is_seen(assessor, one) {
        return None;
    }
    let podref = one.pod.podref.as_str();
    let mut finding = match one.holders(assessor).next() {
        Some((place, _)) => Finding::new(
            Problem::InUseUnallocated,
            format!("its pod lives, and the row in {} is another's", place.key),
        ),
        // The dump has pools before reservations before pods.
        None if source == Source::Files && is_reserved(assessor, one) => Finding::new(
            Problem::Unknown,
            "its pod lives and has a reservation, and no row holds it: it may be younger than the IPPools of the input",
        ),
        None => Finding::new(
            Problem::InUseUnallocated,
            "its pod lives, and no row holds it: it may be given to another pod",
        ),
    };
    finding.address = Some(one.address.to_string());
    finding.interface = Some(one.interface.to_owned()).filter(|name| !name.is_empty());
    one.name_pool(&mut finding, assessor);
    assessor.name_owner(&mut finding, Some(podref), None);
    Some(finding)
}

/// Whether there is a reservation of this address for this pod.
fn is_reserved(assessor: &Assessor<'_>, one: &Use<'_>) -> bool {
    let snapshot = assessor.snapshot;
    let names = ipgc_core::address::reservation_names(one.address, one.network);
    assessor.index.pools.iter().any(|place| {
        let found = names
            .iter()
            .filter_map(|name| snapshot.reservation(&place.key.namespace, name));
        found
            .map(|at| &snapshot.reservations[at])
            .any(|it| it.owner() == one.pod.podref.as_str())
    })
}

/// Whether the row would have been seen if there were one.
fn all_is_seen(assessor: &Assessor<'_>, one: &Use<'_>) -> bool {
    let snapshot = assessor.snapshot;
    let unreadable = |it: &Unreadable| it.kind == Kind::IpPool;
    let nameless = |place: &Place| place.range.is_none();
    if snapshot.unreadable.iter().any(unreadable) || assessor.index.pools.iter().any(nameless) {
        return false;
    }
    // The pool may be in a namespace that was not looked at.
    snapshot.pools_of.is_none() || assessor.index.pools.iter().any(|place| one.is_of(place))
}

/// The uses of one address of one network. A definition that does not reserve
/// shares it with all but its own pools.
fn duplicates(
    assessor: &Assessor<'_>,
    definitions: &Definitions<'_>,
    together: &[Use<'_>],
) -> Vec<Finding> {
    if together.len() < 2 {
        return Vec::new();
    }
    // All that reserve are one group; others share a group where they share a pool.
    let mut groups = vec![(BTreeSet::new(), Vec::new())];
    let (reserving, others): (Vec<_>, Vec<_>) =
        together.iter().partition(|one| one.section.ipam.reserves);
    for one in reserving.into_iter().chain(others) {
        let ranges = one.section.ipam.ranges.iter();
        let holding = ranges.filter(|range| range.contains(one.address));
        let pools = holding.map(|range| pool_name(one.network, None, *range));
        let pools: BTreeSet<_> = pools.collect();
        let of_pool = |(all, _): &&mut (BTreeSet<_>, Vec<_>)| !pools.is_disjoint(all);
        let at = if one.section.ipam.reserves {
            groups.first_mut()
        } else {
            groups.iter_mut().find(of_pool)
        };
        match at {
            Some((all, group)) => {
                all.extend(pools);
                group.push(one);
            }
            None => groups.push((pools, vec![one])),
        }
    }
    groups
        .iter()
        .filter_map(|(_, group)| duplicate(assessor, definitions, group))
        .collect()
}

fn duplicate(
    assessor: &Assessor<'_>,
    definitions: &Definitions<'_>,
    together: &[&Use<'_>],
) -> Option<Finding> {
    let mut pods: Vec<_> = together.iter().map(|one| &one.pod.podref).collect();
    pods.sort_unstable();
    pods.dedup();
    if pods.len() < 2 {
        return None;
    }
    let first = together[0];
    let network = match first.network {
        Some(name) => format!("network {name}"),
        None => "the network without a name".to_owned(),
    };
    let detail = format!("{} pods that live have it in {network}", pods.len());
    let mut finding = Finding::new(Problem::InUseTwice, detail);
    finding.address = Some(first.address.to_string());
    // That of the one which has a row, if there is one.
    let allocated = together
        .iter()
        .find(|one| one.is_allocated(assessor, definitions));
    allocated
        .unwrap_or(&first)
        .name_pool(&mut finding, assessor);
    let nodes = pods.iter().filter_map(|pod| assessor.node_of(pod.as_str()));
    let nodes: BTreeSet<_> = nodes.collect();
    finding.nodes = nodes.into_iter().map(Into::into).collect();
    finding.pods = pods.iter().map(ToString::to_string).collect();
    Some(finding)
}
