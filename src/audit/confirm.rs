//! A second look at findings that may come of reading one kind of objects after the other.

use ipgc_core::evidence::Policy;

use super::{
    assess::Assessor,
    index::{Holder, Place},
    pods::is_going,
    report::{Problem, Report},
};
use crate::snapshot::Snapshot;

/// Drops the findings that a second look at pools, reservations and pods does not confirm: they came of reading one kind
/// after the other.
pub fn confirm(report: &mut Report, again: &Snapshot, policy: &Policy) {
    let assessor = Assessor::new(again, policy);
    report.findings.retain(|finding| {
        let address = finding
            .address
            .as_ref()
            .and_then(|address| address.parse().ok());
        let (Some(address), Some(podref)) = (address, finding.pods.first()) else {
            return true;
        };
        let mut rows = assessor.index.holders(address, podref);
        let namespace = finding.namespace.as_deref().unwrap_or_default();
        // A pod that ended, or another of its name, reports it no more.
        let reports = |podref: &&String| {
            let pod = again.pod(podref);
            pod.is_some_and(|pod| !is_going(pod) && pod.status.has_address(address))
        };
        match finding.problem {
            // The own pod of the row, or of the reservation, is gone.
            Problem::InUseTwice if finding.row.is_some() || finding.reservation.is_some() => true,
            Problem::InUseTwice => finding.pods.iter().filter(reports).count() > 1,
            Problem::InUseUnallocated => {
                let is_it = |place: &Place| {
                    let namespace = finding.namespace.as_ref();
                    finding.pool.as_deref() == Some(place.key.name.as_str())
                        && namespace.is_none_or(|namespace| **namespace == *place.key.namespace)
                };
                // Where the pool could not be named, any will do.
                let holds = |(place, holder): (&Place, Holder)| {
                    holder != Holder::Another && (finding.pool.is_none() || is_it(place))
                };
                reports(&podref) && !rows.any(holds)
            }
            // Its row went meanwhile, or it has its reservation now.
            Problem::ReservationMissing => rows.any(|(place, holder)| {
                let row = finding.row.as_ref().map(|row| row.stored.value());
                let sandbox = row.as_ref().and_then(|row| row["id"].as_str());
                let sandbox = sandbox.unwrap_or_default();
                let mut reserved = again.reservations_of(namespace, &place.networks, address);
                let is_its = |at: usize| {
                    let whose = again.reservations[at].whose();
                    whose == podref || whose == sandbox
                };
                reports(&podref)
                    && holder == Holder::Own
                    && place.key.namespace == namespace
                    && !reserved.any(is_its)
            }),
            _ => true,
        }
    });
}

/// Whether a report has findings that want [`confirm`].
#[must_use]
pub fn wants_confirmation(report: &Report) -> bool {
    let surprising = [
        Problem::InUseTwice,
        Problem::InUseUnallocated,
        Problem::ReservationMissing,
    ];
    let mut findings = report.findings.iter();
    findings.any(|finding| surprising.contains(&finding.problem))
}
