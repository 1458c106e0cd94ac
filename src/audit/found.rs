//! The finding that a verdict is: the problem, the row or reservation that it is about, and the owner of that.

use std::sync::Arc;

use ipgc_core::{
    judge::{Cause, Held, Stale, Unknown, Verdict},
    names::Reading,
    pool::Unreadable,
    reservation::Reservation,
};

use super::{
    assess::{Assessor, Item, Judged},
    pods::is_going,
    report::{Finding, Problem, ReservationReport, RowReport, Source},
    words,
};
use crate::snapshot::Kind;

/// A row or a reservation, as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A row.
    Row(RowReport),
    /// A reservation without a row.
    Reservation(ReservationReport),
}

impl Judged<'_> {
    pub fn subject(&self) -> Subject {
        match self.item {
            Item::Row(pool, row) => Subject::Row(RowReport {
                pool_uid: pool.uid().to_owned(),
                key: row.key().to_owned(),
                stored: row.stored().clone().into(),
            }),
            Item::Reservation(reserved, _) => Subject::Reservation(reported(reserved)),
        }
    }
}

impl Assessor<'_> {
    /// The finding about a row, or about a reservation without one, if there is one.
    pub fn finding(&self, it: &Judged<'_>) -> Option<Finding> {
        let mut finding = match (&it.verdict, &it.item) {
            (_, Item::Reservation(_, Reading::None)) => Finding::new(
                Problem::Unreadable,
                "the name of the reservation tells no address",
            ),
            (Verdict::Held(held), _) => self.held(held, it.content.as_deref()?)?,
            // A person said so.
            (Verdict::Unknown(Unknown::KeptOwner | Unknown::Exempt), _) => return None,
            (Verdict::Unknown(Unknown::Unreadable(Unreadable::IpamClaim(_))), _) => {
                Finding::new(Problem::IpamClaimGone, self.gone_claim(&it.verdict)?)
            }
            (Verdict::Unknown(Unknown::Unreadable(_)), _) => {
                Finding::new(Problem::Unreadable, self.reason_of(&it.verdict))
            }
            (Verdict::Unknown(reason), _) => Finding::new(Problem::Unknown, reason.to_string()),
            (Verdict::Stale(stale), _) => of_stale(it, stale),
        };
        if let Item::Reservation(reserved, reading) = &it.item
            && *reading != Reading::None
        {
            if matches!(finding.problem, Problem::Stale | Problem::Leftover) {
                finding.problem = Problem::ReservationOrphaned;
            }
            let forbidden = &self.snapshot.claims_forbidden;
            let is_forbidden = forbidden.contains(&*reserved.namespace);
            let and = if is_forbidden && it.address.is_some() {
                "; the API server refuses that ipgc claims it: see the event IPReservationClaimsForbidden"
            } else {
                ""
            };
            finding.detail = format!("a reservation without a row; {}{and}", finding.detail);
        }
        if let Some(address) = it.address.filter(|_| is_for_a_person(it)) {
            finding.detail += "; once nobody answers on it, free it by hand";
            finding.command = Some(words::force(address));
        }
        self.describe(&mut finding, it);
        if let Verdict::Held(Held::InUse(pod) | Held::OthersSandbox(pod)) = &it.verdict {
            finding.pods.push(pod.to_string());
            let node = self.node_of(pod.as_str());
            finding.nodes = node.map(Into::into).into_iter().collect();
        }
        Some(finding)
    }

    /// Why a row, or a reservation without one, has this verdict.
    pub fn reason_of(&self, verdict: &Verdict) -> String {
        let claims = &self.snapshot.resource_claims;
        match verdict {
            Verdict::Held(held) => held.to_string(),
            Verdict::Unknown(Unknown::Unreadable(Unreadable::ResourceClaim(uid)))
                if claims.contains_key(uid) =>
            {
                format!("it belongs to ResourceClaim {} (uid {uid})", claims[uid])
            }
            Verdict::Unknown(unknown) => {
                let gone = self.gone_claim(verdict);
                gone.unwrap_or_else(|| unknown.to_string())
            }
            Verdict::Stale(stale) => words::stale(stale),
        }
    }

    /// That what this verdict is about belongs to an IPAMClaim that is gone.
    fn gone_claim(&self, verdict: &Verdict) -> Option<String> {
        let Verdict::Unknown(Unknown::Unreadable(Unreadable::IpamClaim(claim))) = verdict else {
            return None;
        };
        // Of files nobody knows what was read first.
        let is_gone = self.snapshot.source == Source::Cluster && self.snapshot.is_gone(claim);
        is_gone.then(|| format!(
            "it belongs to IPAMClaim {claim}, which is gone: the ip-control-loop of whereabouts frees it, if it knows IPAMClaims"
        ))
    }

    /// Says which row or reservation a finding is about, and whose it is.
    pub fn describe(&self, finding: &mut Finding, it: &Judged<'_>) {
        finding.address = it.address.map(|address| address.to_string());
        finding.pool = it.place.map(|place| place.pool.key().name.clone());
        finding.namespace = Some(it.namespace().to_owned());
        match it.subject() {
            Subject::Row(row) => {
                finding.row = Some(row);
                let content = it.content.as_ref();
                finding.interface = content.and_then(|it| Some(it.interface.as_deref()?.into()));
            }
            Subject::Reservation(reservation) => {
                finding.interface.clone_from(&reservation.interface);
                finding.reservation = Some(reservation.into());
            }
        }
        self.name_owner(finding, it.owner(), it.slice());
    }

    /// Says whose it is, and on which node.
    pub fn name_owner(&self, finding: &mut Finding, podref: &str, slice: Option<&str>) {
        if podref.is_empty() {
            return;
        }
        finding.pods = vec![podref.to_owned()];
        if finding.nodes.is_empty() {
            let node = self.node_of(podref).or(slice);
            finding.nodes = node.map(Into::into).into_iter().collect();
        }
    }

    /// The finding about a row whose pod lives and reports it, and that has no reservation of its own though it should
    /// have one; or whose pod cannot start, since whereabouts keeps the row for it and the reservation is another's.
    pub fn unreserved(&self, it: &Judged<'_>) -> Option<Finding> {
        let (snapshot, place, content) = (self.snapshot, it.place?, it.content.as_ref()?);
        let definitions = self.definitions.as_ref()?;
        // The status of a pod is written last: a pod that reports the address has all that it will have.
        let is_reported = it.verdict == Verdict::Held(Held::Reported);
        let changing = it.verdict == Verdict::Held(Held::Changing);
        let are_known = snapshot.kinds.contains(&Kind::Reservation) && !place.networks.is_empty();
        // The reservation of a pod that goes is removed with its row, and was read before the row.
        let pod = snapshot.pod(content.podref.as_str());
        let is_going = || pod.is_none_or(|pod| is_going(pod));
        if !(is_reported || changing) || !are_known || !definitions.reserves(place) || is_going() {
            return None;
        }
        let mut others = None;
        let namespace = &place.pool.key().namespace;
        for (_, found) in snapshot.reservations_of(namespace, &place.networks, content.address) {
            if found.is_of(content) && !found.is_claimed() {
                return None;
            }
            others = Some(found);
        }
        let detail = match others {
            Some(marked) if marked.is_of(content) => {
                "its reservation is marked by ipgc, so its pod can set up no sandbox again: a running ipgc gives it back within \
                 minutes; if none runs, ipgc run --once does"
                    .to_owned()
            }
            Some(other) if changing => format!(
                "its pod cannot start: whereabouts keeps this row for it and refuses the address, whose reservation is of \
                 {}: delete the reservation, once that pod does not need it",
                other.owner()
            ),
            // Its ADD is at work.
            None if changing => return None,
            Some(other) if other.podref.is_empty() => {
                "its pod lives, and its reservation names no pod and another sandbox: once you know that this one is gone, \
                 delete the reservation, and audit again for the command that makes a new one"
                    .to_owned()
            }
            Some(other) => format!("its pod lives, and its reservation is of {}", other.owner()),
            None => {
                "its pod lives, and it has no reservation: another range may give it away".to_owned()
            }
        };
        let mut finding = Finding::new(Problem::ReservationMissing, detail);
        self.describe(&mut finding, it);
        finding.reservation = others.map(reported).map(Box::new);
        if others.is_none() {
            // Of a node's slice the name of the pool tells the node as well, and the reservation does not.
            let by_length = |network: &&Option<Box<str>>| network.as_ref().map_or(0, |it| it.len());
            let network = place.networks.iter().min_by_key(by_length);
            finding.command =
                network.and_then(|network| words::reserve(namespace, network.as_deref(), content));
        }
        Some(finding)
    }
}

/// A reservation as it is reported.
pub fn reported(reserved: &Reservation) -> ReservationReport {
    ReservationReport {
        name: reserved.name.clone(),
        uid: reserved.uid.clone(),
        podref: reserved.podref.clone(),
        sandbox: reserved.sandbox.clone(),
        interface: reserved.interface.clone(),
    }
}

/// Whether nothing but a person frees it.
fn is_for_a_person(it: &Judged<'_>) -> bool {
    match (&it.item, &it.verdict) {
        (Item::Reservation(_, reading), _) => *reading != Reading::None && it.names_no_pod(),
        (Item::Row(..), Verdict::Unknown(Unknown::Unreadable(reason))) => !matches!(
            reason,
            Unreadable::ResourceClaim(_) | Unreadable::IpamClaim(_)
        ),
        (Item::Row(..), Verdict::Stale(stale)) => stale.clearance.endless.is_some(),
        _ => false,
    }
}

fn of_stale(it: &Judged<'_>, stale: &Stale) -> Finding {
    let wait = &stale.clearance.wait;
    let problem = match stale.cause {
        _ if !wait.is_timed() => Problem::HeldUnfenced,
        Cause::Leftover => Problem::Leftover,
        _ => Problem::Stale,
    };
    let mut finding = Finding::new(problem, words::stale(stale));
    finding.grade = it.grade();
    finding.cause = Some(stale.cause.as_str().to_owned());
    finding.wait_seconds = it.wait_seconds();
    finding.nodes = Arc::clone(&wait.nodes);
    // While a node is at work, the statement about it does not count.
    if stale.clearance.endless.is_none()
        && let Some(command) = words::declare_empty(it.holding())
    {
        finding.detail += "; sooner by the command, once you know that they run no sandboxes";
        finding.command = Some(command);
    }
    finding
}
