//! The verdict on a reservation without a row, by the same rules as that on a row.

use std::{net::IpAddr, time::Duration};

use super::{
    Cause, Held, Stale, Unknown, Verdict, beside_others, by_own_pod, by_presence,
    held_while_at_work, is_changing,
};
use crate::{
    clearance::{Clearance, Facts, Subject},
    names::may_be_of_another,
    pod::PodState,
    pool::Unreadable,
    proof::{KnownResourceClaims, OF_RESOURCE_CLAIMS, Presence, of_lone_reservation},
    reservation::Reservation,
};

/// A reservation that has no row waits for so much longer: an upstream DEL in flight deletes it by
/// name.
const ORPHAN_MORE: Duration = Duration::from_secs(10);
/// A mark that is older than the longest ADD by this much belongs to no running work.
const CLAIM_OLD: Duration = Duration::from_secs(60);

/// Judges a reservation of `address` without a row, whose pod was read as `presence` after it was
/// seen that there is no row. `facts` are those of the row that it would belong to. `claims` were listed since then too.
pub fn judge_orphan(
    reservation: &Reservation,
    address: IpAddr,
    presence: &Presence,
    claims: &KnownResourceClaims,
    facts: &Facts<'_>,
) -> Verdict {
    let policy = facts.policy;
    let row = match reservation.as_row(address) {
        Ok(row) => row,
        Err(unreadable) => return Verdict::Unknown(Unknown::Unreadable(unreadable)),
    };
    // A reservation that was marked before `--keep-podref` was set is finished, since its row is gone.
    if policy.keeps(&row.podref) && !reservation.is_claimed() {
        return Verdict::Unknown(Unknown::KeptOwner);
    }
    let subject = Subject { row: &row, facts };
    let first = subject.first_seen();
    let stale = |cause, clearance| Verdict::Stale(Stale { cause, clearance });
    let is_of_claims = row.podref.as_str() == OF_RESOURCE_CLAIMS;
    let presence = of_lone_reservation(&row.podref, address, claims, presence.clone());
    let ripe = first + policy.add_budget + CLAIM_OLD;
    if reservation.is_claimed() && matches!(presence, Presence::Present(_)) {
        // The next steps give the reservation back, whoever else has the address.
        return stale(Cause::Deleted, Clearance::certain(ripe));
    }
    let of_pod = |pod: &PodState| {
        // The name can have several readings. If the pod reports one of them, the reservation stays.
        // No row says where the pod has the address: a file on the nodes may name the network.
        let is_reported = facts.scope.is_reported_by(pod, address)
            || facts.scope.is_reported_without_name_by(pod, address)
            || may_be_of_another(&reservation.name, Some(address), pod);
        if let Some(verdict) = by_own_pod(&subject, pod, is_reported) {
            verdict
        } else if is_changing(pod) {
            held_while_at_work(&subject, pod, Held::Changing)
        } else if !facts.scope.is_told_by(pod, address) {
            Verdict::Held(Held::Drift)
        } else {
            let from = first + policy.leftover_grace;
            stale(Cause::Leftover, subject.of_former_sandbox(pod, from))
        }
    };
    let verdict = match by_presence(&subject, &presence, is_of_claims, of_pod) {
        Verdict::Stale(Stale { cause, clearance }) => {
            // A mark is no proof: it may be from before the API server's data went back.
            let clearance = clearance.later(ORPHAN_MORE);
            let from = if reservation.is_claimed() {
                ripe
            } else {
                first
            };
            stale(cause, clearance.not_before(from))
        }
        verdict => verdict,
    };
    beside_others(&subject, verdict)
}

/// Whether a pod reports an address more often than it has rows of it. Then a lone reservation of it may be the pod's:
/// when the pod began, a definition may have named another network than now.
pub fn reports_more(pod: &PodState, address: IpAddr, rows: usize) -> bool {
    let entries = pod.status.entries();
    entries.filter(|it| it.addresses.contains(&address)).count() > rows
}

/// Judges a reservation without a row whose name is that of several networks with several addresses: it stays, and is
/// held if its pod reports one of them.
pub fn judge_ambiguous(reservation: &Reservation, presence: &Presence) -> Verdict {
    match (reservation.pod(), presence) {
        (Err(unreadable), _) => Verdict::Unknown(Unknown::Unreadable(unreadable)),
        (_, Presence::Present(Some(pod)))
            if !pod.phase.is_terminal() && may_be_of_another(&reservation.name, None, pod) =>
        {
            Verdict::Held(Held::Reported)
        }
        _ => Verdict::Unknown(Unknown::Unreadable(Unreadable::Network)),
    }
}
