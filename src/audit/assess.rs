//! The verdict on one row or reservation of a snapshot: the facts are put together here, and core judges.
//!
//! There is no history. Nobody saw the pods end that are gone, each ready node has yet to show that its kubelet is at
//! work, and each wait begins now. A collector that has just begun would say the same.

use std::{net::IpAddr, sync::Arc, time::Duration};

use ipgc_core::{
    address::Range,
    clearance::{Facts, Wait},
    definitions::{Networks, Scope},
    evidence::{DEFAULT_POD_GRACE, Policy},
    judge::{Cause, Held, Stale, Unknown, Verdict, judge, judge_ambiguous, judge_orphan},
    node::Nodes,
    pool::{ObservedPool, Row, RowContent, Unreadable},
    proof::Presence,
    reservation::Reservation,
};
use jiff::Timestamp;

use super::{
    index::{Index, Orphan, Place, living},
    report::{Finding, Problem, ReservationReport, RowReport, Stored},
    words,
};
use crate::snapshot::{NOW, Snapshot};

/// A snapshot that is ready to be judged.
pub struct Assessor<'s> {
    /// The snapshot.
    pub snapshot: &'s Snapshot,
    /// The facts about all rows.
    pub index: Index,
    /// The waits.
    pub policy: &'s Policy,
    pub(super) nodes: Nodes,
    pub(super) longest_grace: Duration,
    /// The present by the clock that pods are stamped by: of files the latest stamp in them.
    pub present: Option<Timestamp>,
}

impl<'s> Assessor<'s> {
    /// Makes a snapshot ready.
    #[must_use]
    pub fn new(snapshot: &'s Snapshot, policy: &'s Policy) -> Self {
        let graces = snapshot.pods.iter().filter_map(|pod| pod.termination_grace);
        Self {
            index: Index::of(snapshot),
            nodes: snapshot.present_nodes(),
            longest_grace: graces.max().unwrap_or_default().max(DEFAULT_POD_GRACE),
            present: snapshot.pods.iter().filter_map(|pod| pod.since).max(),
            snapshot,
            policy,
        }
    }

    /// The verdict on a row of `pool`, which is in this place.
    #[must_use]
    pub fn verdict(&self, pool: &ObservedPool, place: &Place, row: &Row) -> Verdict {
        let presence = match row.content() {
            Ok(content) => self.snapshot.presence(&content.podref),
            Err(_) => Presence::Unknown("not asked".into()),
        };
        let content = row.content().ok();
        let of_pool = (Some(place), place.range, &place.networks);
        let verdict = self.with_facts(content, of_pool, &presence, |facts| {
            judge(pool, row, &presence, facts, self.policy, NOW)
        });
        self.held_by_unknown(verdict)
    }

    /// Of nodes that are not known any may be silent, and run what is gone.
    fn held_by_unknown(&self, mut verdict: Verdict) -> Verdict {
        if let Verdict::Stale(stale) = &mut verdict
            && !self.snapshot.knows_nodes()
        {
            stale.clearance.wait = Wait::For(Arc::default());
        }
        verdict
    }

    /// The verdict on a reservation without a row, whose name tells this address.
    #[must_use]
    pub fn verdict_on_orphan(&self, orphan: &Orphan<'_>, address: IpAddr) -> Verdict {
        let reservation = orphan.reserved;
        let podref = match reservation.pod() {
            Ok(podref) => podref,
            Err(reason) => return Verdict::Unknown(Unknown::Unreadable(reason)),
        };
        let presence = self.snapshot.presence(&podref);
        let row = reservation.as_row(address);
        let network = orphan.named.map(|(network, _)| network.map(Into::into));
        let networks = network.into_iter().collect();
        let of_pool = (orphan.place, None, &networks);
        let verdict = self.with_facts(row.as_ref().ok(), of_pool, &presence, |facts| {
            judge_orphan(reservation, address, &presence, facts, self.policy, NOW)
        });
        self.held_by_unknown(verdict)
    }

    /// The verdict on one whose name is that of several networks with several addresses.
    #[must_use]
    pub fn verdict_on_ambiguous(&self, reserved: &Reservation) -> Verdict {
        let presence = reserved
            .owner()
            .parse()
            .map_or(Presence::Absent, |podref| self.snapshot.presence(&podref));
        judge_ambiguous(reserved, &presence)
    }

    fn with_facts<T>(
        &self,
        row: Option<&RowContent>,
        (place, range, networks): (Option<&Place>, Option<Range>, &Networks),
        presence: &Presence,
        act: impl FnOnce(&Facts<'_>) -> T,
    ) -> T {
        let podref = row.map(|row| &row.podref);
        let others = row.map(|row| self.index.others_of(self.snapshot, row));
        let living = match presence {
            Presence::Present(Some(pod)) => Some(living(pod)),
            _ => None,
        };
        let rows = podref.map(|podref| self.index.rows_of(podref.as_str()));
        let rows = rows.unwrap_or_default();
        act(&Facts {
            ended: &[],
            living,
            rows: rows.rows().max(1),
            interfaces: rows.interfaces().max(1),
            sighting: None,
            siblings: podref.and_then(|podref| self.index.siblings_of(podref)),
            others: &others.unwrap_or_default(),
            scope: Scope {
                networks,
                range,
                definitions: &self.snapshot.definitions,
            },
            nodes: &self.nodes,
            slice: place.and_then(|place| place.slice.as_deref()),
            longest_grace: self.longest_grace,
            // It was read after the rows, whole.
            fresh: true,
        })
    }

    /// The node of a pod that is there.
    #[must_use]
    pub fn node_of(&self, podref: &str) -> Option<&str> {
        self.snapshot.pod(podref)?.node.as_deref()
    }

    /// The finding about a row with this verdict, if there is one.
    #[must_use]
    pub fn finding(
        &self,
        pool: &ObservedPool,
        place: &Place,
        row: &Row,
        verdict: &Verdict,
    ) -> Option<Finding> {
        let mut finding = self.found(verdict, row.content().ok())?;
        self.describe(&mut finding, pool, place, row);
        self.name_other(&mut finding, verdict);
        Some(finding)
    }

    /// The finding that a verdict is, without the row that it is about.
    #[must_use]
    pub fn found(&self, verdict: &Verdict, row: Option<&RowContent>) -> Option<Finding> {
        match verdict {
            Verdict::Held(held) => self.held(held, row?),
            // A person said so.
            Verdict::Unknown(Unknown::KeptOwner | Unknown::Exempt) => None,
            Verdict::Unknown(reason @ Unknown::Unreadable(_)) => {
                Some(Finding::new(Problem::Unreadable, reason.to_string()))
            }
            Verdict::Unknown(reason) => Some(Finding::new(Problem::Unknown, reason.to_string())),
            Verdict::Stale(stale) => Some(finding_of_stale(stale)),
        }
    }

    /// Says which row a finding is about.
    pub fn describe(&self, finding: &mut Finding, pool: &ObservedPool, place: &Place, row: &Row) {
        finding.row = Some(RowReport {
            pool_uid: place.uid.to_string(),
            key: row.key().to_owned(),
            stored: Stored::new(row.stored()),
        });
        finding.namespace = Some(place.key.namespace.clone());
        finding.pool = Some(place.key.name.clone());
        finding.address = pool.address_of(row).map(|address| address.to_string());
        let content = row.content().ok();
        finding.interface = content.and_then(|c| Some(c.interface.as_deref()?.into()));
        self.name_owner(finding, row.podref_text(), place.slice.as_deref());
    }

    /// Names the pod for which a row of another one is held.
    pub fn name_other(&self, finding: &mut Finding, verdict: &Verdict) {
        if let Verdict::Held(Held::InUse(pod) | Held::OthersSandbox(pod)) = verdict {
            finding.pods.push(pod.to_string());
            finding.nodes = self
                .node_of(pod.as_str())
                .map(Into::into)
                .into_iter()
                .collect();
        }
    }

    /// Says whose it is, and on which node.
    pub fn name_owner(&self, finding: &mut Finding, podref: Option<&str>, slice: Option<&str>) {
        let Some(podref) = podref.filter(|podref| !podref.is_empty()) else {
            return;
        };
        finding.pods = vec![podref.to_owned()];
        if finding.nodes.is_empty() {
            let node = self.node_of(podref).or(slice);
            finding.nodes = node.map(Into::into).into_iter().collect();
        }
    }
}

/// Whether nothing says whose the reservation is, and nothing that it may be somebody's: a person may have it deleted.
#[must_use]
pub fn names_no_pod(verdict: &Verdict) -> bool {
    *verdict == Verdict::Unknown(Unknown::Unreadable(Unreadable::PodRef))
}

/// A reservation as it is reported.
#[must_use]
pub fn reported(reserved: &Reservation) -> ReservationReport {
    ReservationReport {
        name: reserved.name.clone(),
        uid: reserved.uid.clone(),
        podref: reserved.podref.clone(),
        sandbox: reserved.sandbox.clone(),
        interface: reserved.interface.clone(),
    }
}

/// The finding that a stale row is.
fn finding_of_stale(stale: &Stale) -> Finding {
    let wait = &stale.clearance.wait;
    let problem = match stale.cause {
        _ if !matches!(wait, Wait::Until(_)) => Problem::HeldUnfenced,
        Cause::Leftover => Problem::Leftover,
        _ => Problem::Stale,
    };
    let nodes = holding(wait);
    let mut finding = Finding::new(problem, words::stale(stale));
    finding.grade = Some(stale.grade().as_str().to_owned());
    finding.cause = Some(stale.cause.as_str().to_owned());
    finding.wait_seconds = wait.moment().map(|moment| moment.since(NOW).as_secs());
    if let Wait::For(nodes) | Wait::AtMost(nodes, _) = wait {
        finding.nodes = Arc::clone(nodes);
    }
    // Of a node that is at work the statement would not count.
    if stale.clearance.endless.is_none() {
        finding.command = words::declare_empty(nodes);
    }
    finding
}

/// The nodes that a row waits for.
#[must_use]
pub fn holding(wait: &Wait) -> &[Box<str>] {
    match wait {
        Wait::Until(_) => &[],
        Wait::For(nodes) | Wait::AtMost(nodes, _) => nodes,
    }
}
