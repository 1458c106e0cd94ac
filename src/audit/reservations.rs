//! Rows and their reservations, both ways: a row whose pod lives and that has none, and one without a row.

use std::collections::HashSet;

use ipgc_core::{
    address::reservation_names,
    judge::{Held, Verdict},
    pool::{ObservedPool, Row},
};

use super::{
    assess::{Assessor, names_no_pod, reported},
    definitions::Definitions,
    index::{Orphan, Place},
    pods::is_going,
    report::{Finding, Problem},
    words,
};
use crate::snapshot::Kind;

/// Whether rows of this pool should have reservations, as far as that is known.
pub fn are_wanted(assessor: &Assessor<'_>, definitions: &Definitions<'_>, place: &Place) -> bool {
    let known = assessor.snapshot.kinds.contains(&Kind::Reservation) && !place.networks.is_empty();
    known && definitions.reserves(place)
}

/// The finding about a row whose pod lives and reports it, and that has no reservation of its own though it
/// should have one.
pub fn missing(
    assessor: &Assessor<'_>,
    definitions: &Definitions<'_>,
    pool: &ObservedPool,
    place: &Place,
    row: &Row,
    verdict: &Verdict,
) -> Option<Finding> {
    let snapshot = assessor.snapshot;
    let content = row.content().ok()?;
    // The status of a pod is written last: a pod that reports the address has all that it will have.
    let is_reported = *verdict == Verdict::Held(Held::Reported);
    if !is_reported || !are_wanted(assessor, definitions, place) {
        return None;
    }
    // Of a pod that goes the reservation goes with the row, and was read before it.
    if snapshot.pod(content.podref.as_str()).is_none_or(is_going) {
        return None;
    }
    let mut others = None;
    for network in &place.networks {
        for name in reservation_names(content.address, network.as_deref()) {
            let Some(at) = snapshot.reservation(&place.key.namespace, &name) else {
                continue;
            };
            let found = &snapshot.reservations[at];
            if found.is_of(content) {
                return None;
            }
            others = Some(found);
        }
    }
    let detail = match others {
        Some(other) if other.podref.is_empty() => {
            "its pod lives, and its reservation names no pod and another sandbox: once you know that this one is gone, \
             delete the reservation, and ipgc repair makes a new one"
                .to_owned()
        }
        Some(other) => format!("its pod lives, and its reservation is of {}", other.owner()),
        None => {
            "its pod lives, and it has no reservation: another range may give it away".to_owned()
        }
    };
    let mut finding = Finding::new(Problem::ReservationMissing, detail);
    assessor.describe(&mut finding, pool, place, row);
    finding.reservation = others.map(reported).map(Box::new);
    Some(finding)
}

/// The findings about reservations without a row, but for those in namespaces where a row may be that cannot be
/// seen.
pub fn orphaned(assessor: &Assessor<'_>, blind: &HashSet<String>) -> Vec<Finding> {
    let all = assessor.index.orphans(assessor.snapshot);
    let seen = all
        .iter()
        .filter(|orphan| !blind.contains(&*orphan.reserved.namespace));
    seen.filter_map(|orphan| orphaned_one(assessor, orphan))
        .collect()
}

fn orphaned_one(assessor: &Assessor<'_>, orphan: &Orphan<'_>) -> Option<Finding> {
    let reserved = orphan.reserved;
    let mut finding = match orphan.named {
        None if orphan.is_ambiguous => {
            let verdict = assessor.verdict_on_ambiguous(reserved);
            let mut finding = assessor.found(&verdict, None)?;
            finding.detail = format!("a reservation without a row; {}", finding.detail);
            finding
        }
        None => Finding::new(
            Problem::Unreadable,
            "the name of the reservation tells no address",
        ),
        Some((_, address)) => {
            let verdict = assessor.verdict_on_orphan(orphan, address);
            let row = reserved.as_row(address).ok();
            let mut finding = assessor.found(&verdict, row.as_ref())?;
            if matches!(finding.problem, Problem::Stale | Problem::Leftover) {
                finding.problem = Problem::ReservationOrphaned;
            }
            let namespaces = &assessor.snapshot.claims_forbidden;
            let is_forbidden = namespaces.contains(&*reserved.namespace);
            let and = if is_forbidden {
                "; the API server refuses that ipgc claims it: see the event IPReservationClaimsForbidden"
            } else {
                ""
            };
            finding.detail = format!("a reservation without a row; {}{and}", finding.detail);
            finding.address = Some(address.to_string());
            if names_no_pod(&verdict) {
                finding.command = Some(words::force(address));
            }
            finding
        }
    };
    finding.namespace = Some(reserved.namespace.clone());
    finding.pool = orphan.place.map(|place| place.key.name.clone());
    finding.interface.clone_from(&reserved.interface);
    finding.reservation = Some(reported(reserved).into());
    let slice = orphan.place.and_then(|place| place.slice.as_deref());
    assessor.name_owner(&mut finding, Some(reserved.owner()), slice);
    if let Some((_, address)) = orphan.named {
        assessor.name_other(&mut finding, &assessor.verdict_on_orphan(orphan, address));
    }
    Some(finding)
}
