//! The parts of an answer: each row, reservation, pod and node, as far as the snapshot tells of it.

use ipgc_core::{
    judge::{Cause, Held, Unknown, Verdict},
    networks::Status,
    pod::PodState,
    podref::PodRef,
    pool::Unreadable,
    proof::Presence,
};

use super::report::{NodeReport, PodReport, RowExplained};
use crate::audit::{
    assess::{Assessor, Item, Judged},
    found::reported,
    leave_out_command,
    report::Source,
    words::duration,
};

impl Assessor<'_> {
    /// Whether it is known that there is no such pod.
    pub(super) fn is_absent(&self, podref: &str) -> bool {
        // Another text names no pod that could be absent.
        let podref = podref.parse::<PodRef>();
        podref.is_ok_and(|it| matches!(self.snapshot.presence(&it), Presence::Absent))
    }

    /// What would change the verdict: what its finding advises; of a row that is held without one, the end of its pod.
    pub(in crate::audit) fn changes(&self, it: &Judged<'_>) -> Vec<String> {
        let pod = self.snapshot.pod(it.owner());
        let finding = self.finding(it).or_else(|| {
            let Verdict::Held(held) = &it.verdict else {
                return None;
            };
            // However young its pod is, no kubelet ends it.
            let is_left = *held == Held::Leaving || *held == Held::Ended && self.is_silent(pod?);
            self.of_held(held, it.content.as_deref()?)
                .filter(|_| is_left)
        });
        if let Some(mut finding) = finding {
            if self.snapshot.source == Source::Files {
                leave_out_command(&mut finding);
            }
            // The reason is told before.
            let (detail, reason) = (&*finding.detail, self.reason_of(&it.verdict));
            let detail = detail
                .strip_prefix("a reservation without a row; ")
                .unwrap_or(detail);
            let advice = detail.strip_prefix(&reason).unwrap_or(detail);
            let advice = advice.strip_prefix("; ").unwrap_or(advice);
            let advice = (!advice.is_empty()).then(|| advice.to_owned());
            let command = finding.command.map(|it| format!("by hand: {it}"));
            return advice.into_iter().chain(command).collect();
        }
        let policy = self.policy;
        let grace = pod.and_then(|pod| pod.termination_grace);
        let rows = self.index.rows_of(it.owner()).rows();
        let wait = duration(policy.wait(grace, self.longest_grace, rows));
        let begins = match pod {
            Some(pod) if pod.phase.is_terminal() => {
                "once all its containers are known to have ended, or its pod is gone,"
            }
            _ => "once its pod ends",
        };
        match &it.verdict {
            Verdict::Held(Held::Mirror) => vec![format!(
                "once the mirror pod is gone it is stale, and goes after at least {}",
                duration(policy.leftover_grace)
            )],
            Verdict::Held(_) => vec![format!(
                "{begins} it is stale: it goes after {} if the kubelet says that its sandbox is stopped, \
                 else after {wait}, and not while its node is silent",
                duration(policy.cooldown)
            )],
            Verdict::Unknown(_) | Verdict::Stale(_) => Vec::new(),
        }
    }

    /// A row, or a reservation without one.
    pub(super) fn explain_row(&self, it: &Judged<'_>) -> RowExplained {
        let told = RowExplained {
            namespace: it.namespace().to_owned(),
            address: it.address.map(|address| address.to_string()),
            verdict: it.verdict.word().as_str().to_owned(),
            reason: self.reason_of(&it.verdict),
            grade: it.grade(),
            wait_seconds: it.wait_seconds(),
            waits_for: it.holding().iter().map(ToString::to_string).collect(),
            pod: self.pod(it.owner()),
            pod_is_absent: self.is_absent(it.owner()),
            podref: it.owner().to_owned(),
            changes: self.changes(it),
            ..RowExplained::default()
        };
        let (pool, row) = match &it.item {
            Item::Row(pool, row) => (pool, row),
            Item::Reservation(reserved, reading) => {
                return RowExplained {
                    network: reading
                        .one()
                        .and_then(|(network, _)| network.map(str::to_owned)),
                    reservation: Some(reported(reserved)),
                    ..told
                };
            }
        };
        let node = told.pod.as_ref().and_then(|pod| pod.node.as_deref());
        let networks = it.place.map(|place| &place.networks);
        let reservation = it.address.zip(networks).and_then(|(address, networks)| {
            let all = self
                .snapshot
                .reservations_of(&told.namespace, networks, address);
            all.map(|(_, it)| reported(it)).next()
        });
        let content = it.content.as_ref();
        // The name tells: the kubelet appends that of its node.
        let is_mirror = content.is_some_and(|it| !self.nodes.ending(it.podref.name()).is_empty());
        let networks = networks.into_iter().flatten().flatten();
        RowExplained {
            pool: Some(pool.key().name.clone()),
            pool_uid: Some(pool.uid().to_owned()),
            range: pool.range.map(|range| range.to_string()),
            networks: Some(networks.map(ToString::to_string).collect()),
            key: Some(row.key().to_owned()),
            interface: content.and_then(|content| Some(content.interface.as_deref()?.to_owned())),
            stored: Some(row.stored().clone().into()),
            resource_claim: match row.content() {
                Err(Unreadable::ResourceClaim(uid)) => Some(uid.to_string()),
                _ => None,
            },
            rule: rule(&it.verdict, is_mirror),
            cause: it.stale().map(|stale| stale.cause.as_str().to_owned()),
            node: node.or(it.slice()).map(|node| self.node_report(node)),
            reservation,
            ..told
        }
    }

    pub(super) fn pod(&self, podref: &str) -> Option<PodReport> {
        self.snapshot.pod(podref).map(|pod| pod_report(pod))
    }

    pub(super) fn node_report(&self, name: &str) -> NodeReport {
        let snapshot = self.snapshot;
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

/// The rule of docs/safety.md. An absent pod may have been the mirror of a static pod.
fn rule(verdict: &Verdict, is_mirror: bool) -> Option<u8> {
    match verdict {
        Verdict::Unknown(Unknown::NoProof(_))
        | Verdict::Held(
            Held::Present | Held::Ended | Held::Leaving | Held::InUse(_) | Held::OthersSandbox(_),
        ) => None,
        Verdict::Unknown(_) => Some(1),
        Verdict::Held(Held::Mirror) => Some(2),
        Verdict::Held(Held::ResourceClaim) => Some(3),
        Verdict::Held(Held::Reported | Held::OwnContainer) => Some(5),
        Verdict::Held(Held::Changing) => Some(7),
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
