//! The verdict on one row or reservation of a snapshot: the facts are put together here, and core judges.
//!
//! There is no history. Whoever is gone was seen by nobody, every node that is ready has yet to show that its
//! kubelet is at work, and every wait begins now: what a collector would say that has just begun.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use ipgc_core::{
    address::Range,
    clearance::{Facts, Living, Wait},
    definitions::{Networks, Scope},
    evidence::{DEFAULT_POD_GRACE, Ended, Policy, Sandboxes, Trail},
    judge::{Held, Stale, Unknown, Verdict, judge, judge_ambiguous, judge_orphan},
    node::Nodes,
    pod::PodState,
    pool::{ObservedPool, Row, RowContent, Unreadable},
    proof::Presence,
    reservation::LeanReservation,
};
use jiff::Timestamp;

use super::{
    NODES,
    index::{Index, Orphan, Place},
    report::{Finding, Names, Problem, ReservationReport, RowReport, Shared, Stored},
    words,
};
use crate::{
    lock::lock,
    snapshot::{NOW, Snapshot},
};

/// A snapshot that is ready to be judged.
pub struct Assessor<'s> {
    /// What there is.
    pub snapshot: &'s Snapshot,
    /// What is known of all rows.
    pub index: Index,
    /// The waits.
    pub policy: &'s Policy,
    pub(super) nodes: Nodes,
    pub(super) longest_grace: Duration,
    /// What is said of stale rows.
    pub sayings: Sayings,
    /// The present by the clock that pods are stamped by: of files the latest stamp in them.
    pub present: Option<Timestamp>,
}

/// What is said of stale rows. In an outage a hundred thousand are stale alike, and the same nodes hold them all.
pub struct Sayings {
    /// So many nodes are named.
    pub named: usize,
    last: Mutex<Option<Said>>,
}

#[derive(Clone)]
struct Said {
    of: Stale,
    detail: Shared,
    grade: Shared,
    cause: Shared,
    nodes: Names,
    command: Option<Shared>,
}

impl Sayings {
    /// So many nodes are named at the most.
    #[must_use]
    pub fn new(named: usize) -> Self {
        Self {
            named,
            last: Mutex::new(None),
        }
    }

    fn of(&self, stale: &Stale) -> Said {
        let mut last = lock(&self.last);
        if let Some(said) = last.as_ref().filter(|said| is_alike(&said.of, stale)) {
            return said.clone();
        }
        let nodes = holding(&stale.clearance.wait);
        let first = nodes.iter().take(self.named);
        let said = Said {
            of: stale.clone(),
            detail: words::stale(stale).into(),
            grade: stale.grade().as_str().into(),
            cause: stale.cause.as_str().into(),
            nodes: first.map(|node| &**node).collect(),
            // Of a node that is at work it would not count.
            command: words::declare_empty(nodes)
                .filter(|_| stale.clearance.endless.is_none())
                .map(Into::into),
        };
        last.insert(said).clone()
    }
}

/// Whether two rows are stale for one reason, and wait for the same. Lists of nodes are the same if they are in one
/// place.
fn is_alike(one: &Stale, other: &Stale) -> bool {
    let wait = match (&one.clearance.wait, &other.clearance.wait) {
        (Wait::Until(one), Wait::Until(other)) => one == other,
        (Wait::For(one), Wait::For(other)) => Arc::ptr_eq(one, other),
        (Wait::AtMost(one, end), Wait::AtMost(other, also)) => {
            Arc::ptr_eq(one, other) && end == also
        }
        _ => false,
    };
    let of = |stale: &Stale| (stale.cause, stale.grade(), stale.clearance.endless);
    wait && of(one) == of(other)
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
            sayings: Sayings::new(NODES),
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
            stale.clearance.wait = Wait::For(std::sync::Arc::default());
        }
        verdict
    }

    /// The verdict on a reservation without a row, whose name tells this address.
    #[must_use]
    pub fn verdict_on_orphan(&self, orphan: &Orphan<'_>, address: IpAddr) -> Verdict {
        let reservation = orphan.reserved.whole();
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
            judge_orphan(&reservation, address, &presence, facts, self.policy, NOW)
        });
        self.held_by_unknown(verdict)
    }

    /// The verdict on one whose name is that of several networks with several addresses.
    #[must_use]
    pub fn verdict_on_ambiguous(&self, reserved: &LeanReservation) -> Verdict {
        let presence = reserved
            .owner()
            .parse()
            .map_or(Presence::Absent, |podref| self.snapshot.presence(&podref));
        judge_ambiguous(&reserved.whole(), &presence)
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
        let rows = podref.map(|podref| self.index.rows_of(self.snapshot, podref.as_str()));
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

    /// What is to be told of a row with this verdict; nothing of those that are held or exempted.
    #[must_use]
    pub fn finding(
        &self,
        pool: &ObservedPool,
        place: &Place,
        row: &Row,
        verdict: &Verdict,
    ) -> Option<Finding> {
        let content = row.content().ok();
        let mut finding = self.found(verdict, content)?;
        self.describe(&mut finding, pool, place, row);
        self.name_other(&mut finding, verdict);
        Some(finding)
    }

    /// What a verdict on this row is as a finding, if it is one.
    pub fn found(&self, verdict: &Verdict, row: Option<&RowContent>) -> Option<Finding> {
        match (verdict, row) {
            (Verdict::Held(held), Some(row)) => self.held(held, row),
            _ => finding_of(verdict, &self.sayings),
        }
    }

    /// Says which row a finding is about.
    pub fn describe(&self, finding: &mut Finding, pool: &ObservedPool, place: &Place, row: &Row) {
        finding.row = Some(RowReport {
            pool_uid: place.names.uid.clone(),
            key: row.key().to_owned(),
            stored: Stored::new(row.stored()),
        });
        finding.namespace = Some(place.names.namespace.clone());
        finding.pool = Some(place.names.pool.clone());
        finding.address = pool.address_of(row).map(|address| address.to_string());
        let content = row.content().ok();
        finding.interface = content.and_then(|c| Some(c.interface.as_deref()?.into()));
        self.name_owner(finding, row.podref_text(), place.slice.as_deref());
    }

    /// Names the pod for which a row of another one is held.
    pub fn name_other(&self, finding: &mut Finding, verdict: &Verdict) {
        if let Verdict::Held(Held::InUse(pod) | Held::OthersSandbox(pod)) = verdict {
            finding.pods.push(pod.to_string());
            finding.nodes = self.node_of(pod.as_str()).into_iter().collect();
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
            finding.nodes = node.into_iter().collect();
        }
    }
}

/// What lives, and how it would look if it went now.
#[must_use]
pub fn living(pod: &PodState) -> Living {
    let completed = pod.phase.is_terminal().then(|| {
        let mut trail = Trail::default();
        trail.advance(pod);
        Arc::new(Ended {
            last: pod.clone(),
            at: NOW,
            watched: false,
            settled: false,
            stopped: trail.is_stopped(),
            listed_at: Some(NOW),
            born: None,
            gap_at: None,
            sandboxes: Sandboxes::default(),
        })
    });
    Living {
        uid: pod.uid.clone(),
        running_since: None,
        completed,
        sandboxes: Sandboxes::default(),
    }
}

/// Whether nothing says whose the reservation is, and nothing that it may be somebody's: a person may have it deleted.
#[must_use]
pub fn names_no_pod(verdict: &Verdict) -> bool {
    *verdict == Verdict::Unknown(Unknown::Unreadable(Unreadable::PodRef))
}

/// A reservation as it is reported.
#[must_use]
pub fn reported(reserved: &LeanReservation) -> ReservationReport {
    ReservationReport {
        name: reserved.name.as_ref().to_owned(),
        uid: reserved.uid.as_ref().to_owned(),
        podref: reserved.podref.as_ref().to_owned(),
        sandbox: reserved.sandbox.as_deref().map(str::to_owned),
        interface: reserved.interface.as_deref().map(str::to_owned),
    }
}

fn finding_of(verdict: &Verdict, sayings: &Sayings) -> Option<Finding> {
    match verdict {
        Verdict::Held(_) => None,
        Verdict::Unknown(_) if is_kept(verdict) => None,
        Verdict::Unknown(reason @ Unknown::Unreadable(_)) => {
            Some(Finding::new(Problem::Unreadable, reason.to_string()))
        }
        Verdict::Unknown(reason) => Some(Finding::new(Problem::Unknown, reason.to_string())),
        Verdict::Stale(stale) => Some(finding_of_stale(stale, sayings)),
    }
}

/// Whether a row is kept, and nothing is wrong with it unless there is a finding.
#[must_use]
pub fn is_kept(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Held(_) => true,
        // A person said so.
        Verdict::Unknown(reason) => matches!(reason, Unknown::KeptOwner | Unknown::Exempt),
        Verdict::Stale(_) => false,
    }
}

fn finding_of_stale(stale: &Stale, sayings: &Sayings) -> Finding {
    let problem = match stale.cause {
        _ if !matches!(stale.clearance.wait, Wait::Until(_)) => Problem::HeldUnfenced,
        ipgc_core::judge::Cause::Leftover => Problem::Leftover,
        _ => Problem::Stale,
    };
    let said = sayings.of(stale);
    let mut finding = Finding::new(problem, said.detail);
    finding.grade = Some(said.grade);
    finding.cause = Some(said.cause);
    let moment = stale.clearance.wait.moment();
    finding.wait_seconds = moment.map(|moment| moment.since(NOW).as_secs());
    finding.nodes = said.nodes;
    finding.command = said.command;
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
