//! What pods that live report, against what is allocated: addresses that two of them have, and addresses
//! that no row holds for them.

use std::net::IpAddr;

use ipgc_core::{ipam::Ipam, pod::PodState, pool::PoolKey};

use super::{
    assess::Assessor,
    definitions::Definitions,
    report::{Finding, Problem, Shared},
};
use crate::snapshot::{Kind, Unreadable};

/// One address that a pod reports of a network of whereabouts.
struct Use<'s> {
    network: Option<&'s str>,
    address: IpAddr,
    pod: &'s PodState,
    interface: &'s str,
    section: &'s Ipam,
}

/// The findings about pods that live.
pub fn findings<'s>(assessor: &Assessor<'s>, definitions: &Definitions<'s>) -> Vec<Finding> {
    let mut uses = Vec::new();
    for pod in &assessor.snapshot.pods {
        if pod.phase.is_terminal() || !pod.has_network() {
            continue;
        }
        for entry in pod.status.entries() {
            for address in &entry.addresses {
                if let Some(section) = definitions.section(&entry.network, *address) {
                    uses.push(Use {
                        network: section.network_name.as_deref(),
                        address: *address,
                        pod,
                        interface: &entry.interface,
                        section,
                    });
                }
            }
        }
    }
    let mut findings: Vec<_> = uses
        .iter()
        .filter_map(|one| unallocated(assessor, one))
        .collect();
    // What DEL has freed is another's to have, though the pod object is still there.
    uses.retain(|one| !one.pod.deleting || is_allocated(assessor, one));
    uses.sort_by_key(|one| (one.network, one.address));
    let same = |a: &Use<'_>, b: &Use<'_>| (a.network, a.address) == (b.network, b.address);
    for together in uses.chunk_by(same) {
        findings.extend(duplicate(assessor, together));
    }
    findings
}

fn is_allocated(assessor: &Assessor<'_>, one: &Use<'_>) -> bool {
    let mut holders = assessor.index.holders(one.address, one.pod.podref.as_str());
    holders.any(|(_, own)| own)
}

fn unallocated(assessor: &Assessor<'_>, one: &Use<'_>) -> Option<Finding> {
    // The rows of one that is being deleted go before its object.
    if !one.pod.is_running() || is_allocated(assessor, one) || !all_is_seen(assessor, one) {
        return None;
    }
    let podref = one.pod.podref.as_str();
    let mut others = assessor.index.holders(one.address, podref);
    let names = one.section.pool_names().collect::<Vec<_>>();
    let other = others.find(|(place, _)| names.contains(&place.key.name));
    let detail = match other {
        Some((place, _)) => format!("its pod lives, and the row in {} is another's", place.key),
        None => "its pod lives, and no row holds it: it may be given to another pod".to_owned(),
    };
    let mut finding = Finding::new(Problem::InUseUnallocated, detail);
    finding.address = Some(one.address.to_string());
    finding.interface = Some(one.interface.into()).filter(|name: &Shared| !name.is_empty());
    if let Some((PoolKey { namespace, name }, _)) = other.map(|(place, own)| (&place.key, own)) {
        finding.namespace = Some(namespace.as_str().into());
        finding.pool = Some(name.as_str().into());
    }
    assessor.name_owner(&mut finding, Some(podref), None);
    Some(finding)
}

/// Whether the row would have been seen if there were one.
fn all_is_seen(assessor: &Assessor<'_>, one: &Use<'_>) -> bool {
    let snapshot = assessor.snapshot;
    let unreadable = |it: &Unreadable| it.kind == Kind::IpPool;
    let nameless = |place: &super::index::Place| place.range.is_none();
    if snapshot.unreadable.iter().any(unreadable) || assessor.index.pools.iter().any(nameless) {
        return false;
    }
    // The pool may be in a namespace that was not looked at.
    let mut names = one.section.pool_names();
    let is_there = |name: String| {
        assessor
            .index
            .pools
            .iter()
            .any(|place| place.key.name == name)
    };
    snapshot.pools_of.is_none() || names.any(is_there)
}

fn duplicate(assessor: &Assessor<'_>, together: &[Use<'_>]) -> Option<Finding> {
    let mut pods: Vec<_> = together.iter().map(|one| &one.pod.podref).collect();
    pods.sort_unstable();
    pods.dedup();
    if pods.len() < 2 {
        return None;
    }
    let first = &together[0];
    let network = match first.network {
        Some(name) => format!("network {name}"),
        None => "the network without a name".to_owned(),
    };
    let detail = format!("{} pods that live have it in {network}", pods.len());
    let mut finding = Finding::new(Problem::Duplicate, detail);
    finding.address = Some(first.address.to_string());
    let mut holders = assessor.index.holders(first.address, "");
    if let Some((place, _)) = holders.next() {
        finding.namespace = Some(place.key.namespace.as_str().into());
        finding.pool = Some(place.key.name.as_str().into());
    }
    let nodes = pods.iter().filter_map(|pod| assessor.node_of(pod.as_str()));
    finding.nodes = nodes.map(Into::into).collect();
    finding.nodes.dedup();
    finding.pods = pods.iter().map(ToString::to_string).collect();
    Some(finding)
}
