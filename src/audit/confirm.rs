//! A second look at findings that may come of reading one kind of objects after the other.

use std::collections::HashSet;

use ipgc_core::evidence::Policy;

use super::{
    assess::Assessor,
    audit_all,
    report::{Finding, Problem, Report},
};
use crate::snapshot::Snapshot;

/// Whether a finding may come of the order of the reads: what a pod reports was read after rows and reservations.
fn is_surprising(finding: &Finding) -> bool {
    match finding.problem {
        // The pod of such a row or reservation is gone.
        Problem::InUseTwice => finding.row.is_none() && finding.reservation.is_none(),
        Problem::InUseUnallocated | Problem::ReservationMissing => true,
        _ => false,
    }
}

/// Whether a report has findings that want [`confirm`].
pub fn wants_confirmation(report: &Report) -> bool {
    report.findings.iter().any(is_surprising)
}

/// Drops the surprising findings that an audit of what was read again does not have: those of the same problem, the same
/// address and one of its pods.
pub fn confirm(report: &mut Report, again: &Snapshot, policy: &Policy) {
    let assessor = Assessor::new(again, policy);
    // A pool that cannot be read any more proves no row.
    let is_blind = !assessor.blind.is_empty();
    let second = audit_all(&assessor);
    let found: HashSet<_> = second
        .findings
        .iter()
        .flat_map(|it| {
            it.pods
                .iter()
                .map(move |pod| (it.problem, &it.address, pod))
        })
        .collect();
    report.findings.retain(|it| {
        let is_found = |pod| found.contains(&(it.problem, &it.address, pod));
        !is_surprising(it)
            || it.pods.iter().any(is_found)
            || is_blind && it.problem == Problem::InUseUnallocated
    });
}
