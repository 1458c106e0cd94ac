//! The parts of an answer: each row, reservation, pod and node, as far as the snapshot tells of it.

use std::net::IpAddr;

use ipgc_core::{
    address::reservation_names,
    judge::{Cause, Held, Unknown, Verdict},
    networks::Status,
    pod::PodState,
    podref::PodRef,
    pool::{ObservedPool, Row},
    proof::Presence,
    reservation::Reservation,
};

use super::{
    Asked, outlook,
    report::{NodeReport, OrphanExplained, PodReport, RowExplained},
};
use crate::{
    audit::{
        assess::{holding, reported},
        index::{Orphan, Place},
        report::Stored,
        words,
    },
    snapshot::NOW,
};

impl Asked<'_> {
    /// Whether it is known that there is no such pod.
    pub(super) fn is_absent(&self, podref: &str) -> bool {
        match podref.parse::<PodRef>() {
            Ok(podref) => matches!(self.assessor.snapshot.presence(&podref), Presence::Absent),
            // It names no pod that could be absent.
            Err(_) => false,
        }
    }

    /// The rows that are asked for, each explained.
    pub(super) fn rows(
        &self,
        mut wanted: impl FnMut(&ObservedPool, &Row, &Verdict) -> bool,
    ) -> Vec<RowExplained> {
        let mut rows = Vec::new();
        let pools = self.assessor.snapshot.observed();
        for (pool, place) in pools.zip(&self.assessor.index.pools) {
            for row in pool.rows() {
                let verdict = self.assessor.verdict(&pool, place, row);
                if wanted(&pool, row, &verdict) {
                    rows.push(self.row(&pool, place, row, &verdict));
                }
            }
        }
        rows
    }

    pub(super) fn orphans(
        &self,
        wanted: impl Fn(&Orphan<'_>, IpAddr) -> bool,
    ) -> Vec<OrphanExplained> {
        let mut orphans = Vec::new();
        for orphan in self.assessor.index.orphans(self.assessor.snapshot) {
            if let Some((network, address)) = orphan.named
                && wanted(&orphan, address)
            {
                orphans.push(self.orphan(&orphan, network, address));
            }
        }
        orphans
    }

    /// One sentence about each of these whose name is that of several networks with several addresses.
    pub(super) fn ambiguous(
        &self,
        wanted: impl Fn(&Reservation) -> bool,
    ) -> Vec<(&Reservation, String)> {
        let mut said = Vec::new();
        for orphan in self.assessor.index.orphans(self.assessor.snapshot) {
            let reserved = orphan.reserved;
            if orphan.is_ambiguous && wanted(reserved) {
                let reason = reason(&self.assessor.verdict_on_ambiguous(reserved));
                let (namespace, name) = (&reserved.namespace, &reserved.name);
                let sentence = format!("reservation {namespace}/{name} stays: {reason}");
                said.push((reserved, sentence));
            }
        }
        said
    }

    fn orphan(
        &self,
        orphan: &Orphan<'_>,
        network: Option<&str>,
        address: IpAddr,
    ) -> OrphanExplained {
        let verdict = self.assessor.verdict_on_orphan(orphan, address);
        let owner = orphan.reserved.owner();
        let of_stale = OfStale::new(&verdict);
        OrphanExplained {
            namespace: orphan.reserved.namespace.clone(),
            network: network.map(str::to_owned),
            address: address.to_string(),
            reservation: reported(orphan.reserved),
            verdict: verdict.word().as_str().to_owned(),
            reason: reason(&verdict),
            grade: of_stale.grade,
            wait_seconds: of_stale.wait_seconds,
            waits_for: of_stale.waits_for,
            pod: self.pod(owner),
            pod_is_absent: self.is_absent(owner),
            changes: match &verdict {
                Verdict::Unknown(Unknown::Unreadable(_)) => {
                    outlook::of_unreadable_reservation(&verdict, address)
                }
                _ => outlook::changes(self.assessor, owner, &verdict),
            },
        }
    }

    fn row(
        &self,
        pool: &ObservedPool,
        place: &Place,
        row: &Row,
        verdict: &Verdict,
    ) -> RowExplained {
        let snapshot = self.assessor.snapshot;
        let content = row.content().ok();
        let podref = row.podref_text().unwrap_or_default();
        let pod = self.pod(podref);
        let node = pod.as_ref().and_then(|pod| pod.node.clone());
        let node = node.or_else(|| place.slice.as_deref().map(str::to_owned));
        let address = pool.address_of(row);
        let reservation = address.and_then(|address| {
            let names = place
                .networks
                .iter()
                .flat_map(|network| reservation_names(address, network.as_deref()));
            let mut found =
                names.filter_map(|name| snapshot.reservation(&place.key.namespace, &name));
            found.next().map(|at| reported(&snapshot.reservations[at]))
        });
        let of_stale = OfStale::new(verdict);
        RowExplained {
            namespace: place.key.namespace.clone(),
            pool: place.key.name.clone(),
            pool_uid: pool.uid().to_owned(),
            range: place.range.map(|range| range.to_string()),
            networks: place
                .networks
                .iter()
                .flatten()
                .map(|network| network.as_ref().to_owned())
                .collect(),
            key: row.key().to_owned(),
            address: address.map(|address| address.to_string()),
            interface: content.and_then(|content| Some(content.interface.as_deref()?.to_owned())),
            stored: Stored::new(row.stored()),
            podref: podref.to_owned(),
            verdict: verdict.word().as_str().to_owned(),
            rule: rule(
                verdict,
                content.is_some_and(|content| self.is_mirror(&content.podref)),
            ),
            reason: reason(verdict),
            grade: of_stale.grade,
            cause: of_stale.cause,
            wait_seconds: of_stale.wait_seconds,
            waits_for: of_stale.waits_for,
            node: node.map(|node| self.node_report(&node)),
            pod,
            pod_is_absent: self.is_absent(podref),
            reservation,
            changes: outlook::changes(self.assessor, podref, verdict),
        }
    }

    /// Where the name alone tells a mirror: the kubelet appends its node's.
    fn is_mirror(&self, podref: &PodRef) -> bool {
        let nodes = self.assessor.snapshot.nodes.keys();
        let mut ends = nodes.filter_map(|node| podref.name().strip_suffix(&**node));
        self.assessor.snapshot.pod(podref.as_str()).is_none()
            && ends.any(|rest| rest.ends_with('-'))
    }

    pub(super) fn pod(&self, podref: &str) -> Option<PodReport> {
        self.assessor.snapshot.pod(podref).map(pod_report)
    }

    pub(super) fn node_report(&self, name: &str) -> NodeReport {
        let snapshot = self.assessor.snapshot;
        let state = snapshot.nodes.get(name);
        NodeReport {
            name: name.to_owned(),
            state: match state {
                None if !snapshot.knows_nodes() => "unknown",
                None => "gone",
                Some(state) if state.is_fenced() => "fenced",
                Some(state) if state.ready => "ready",
                Some(_) => "not-ready",
            }
            .to_owned(),
            out_of_service: state.is_some_and(|state| state.out_of_service),
            declared_empty: state.is_some_and(|state| state.declared_empty),
        }
    }
}

pub(super) fn pod_report(pod: &PodState) -> PodReport {
    let entries = pod.status.entries();
    let reports = entries.flat_map(|entry| {
        let addresses = entry.addresses.iter();
        addresses
            .map(move |address| format!("{} on {} of {}", address, entry.interface, entry.network))
    });
    PodReport {
        podref: pod.podref.to_string(),
        uid: pod.uid.as_ref().to_owned(),
        phase: format!("{:?}", pod.phase),
        deleting: pod.deleting,
        node: pod.node.as_deref().map(str::to_owned),
        network_status: match &pod.status {
            Status::Missing => "missing".to_owned(),
            Status::Malformed(reason) => format!("cannot be read: {reason}"),
            Status::Valid(_) if pod.status.is_complete_for(&pod.request) => "complete".to_owned(),
            Status::Valid(_) => "incomplete".to_owned(),
        },
        reports: reports.collect(),
    }
}

/// The rule of docs/safety.md.
fn rule(verdict: &Verdict, is_mirror: bool) -> Option<u8> {
    match verdict {
        Verdict::Unknown(Unknown::NoProof(_))
        | Verdict::Held(
            Held::Present | Held::Ended | Held::Leaving | Held::InUse(_) | Held::OthersSandbox(_),
        ) => None,
        Verdict::Unknown(_) => Some(1),
        Verdict::Held(Held::Mirror) => Some(2),
        Verdict::Held(Held::Reported | Held::OwnContainer) => Some(5),
        Verdict::Held(Held::Young) => Some(7),
        Verdict::Held(Held::Unused | Held::Drift) => Some(9),
        Verdict::Stale(stale) => Some(match stale.cause {
            Cause::Deleted if is_mirror => 2,
            Cause::Deleted => 3,
            Cause::Completed => 4,
            Cause::Predecessor => 6,
            Cause::Leftover => 8,
        }),
    }
}

/// Why.
fn reason(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Held(held) => held.to_string(),
        Verdict::Unknown(unknown) => unknown.to_string(),
        Verdict::Stale(stale) => words::stale(stale),
    }
}

/// The part of a verdict that only stale rows have.
#[derive(Default)]
struct OfStale {
    grade: Option<String>,
    cause: Option<String>,
    wait_seconds: Option<u64>,
    waits_for: Vec<String>,
}

impl OfStale {
    fn new(verdict: &Verdict) -> Self {
        let Verdict::Stale(stale) = verdict else {
            return Self::default();
        };
        let wait = &stale.clearance.wait;
        Self {
            grade: Some(stale.grade().as_str().to_owned()),
            cause: Some(stale.cause.as_str().to_owned()),
            wait_seconds: wait.moment().map(|moment| moment.since(NOW).as_secs()),
            waits_for: holding(wait).iter().map(ToString::to_string).collect(),
        }
    }
}
