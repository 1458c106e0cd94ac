//! The rows and reservations of one address, and whether a person may have them removed.
//!
//! A person can say that no sandbox answers, or that a row which cannot be read is of no use. That a pod needs
//! its address no more, a person can say only of a pod that runs without reporting the address.

use std::net::IpAddr;

use ipgc_core::{
    address::may_reserve,
    evidence::Policy,
    judge::{Unknown, Verdict},
    names::Reading,
    podref::PodRef,
    pool::{PoolKey, Unreadable},
    proof::ResourceClaims,
};

use super::NotDone;
pub use crate::audit::found::Subject;
use crate::{
    audit::{
        assess::{Assessor, Item, Judged},
        filter::is_named,
    },
    snapshot::{NOW, Snapshot},
};

/// Something at an address that a person may have removed, as it was seen.
#[derive(Clone, Debug)]
pub struct Forced {
    /// The pool that it is in, or would be.
    pub pool: PoolKey,
    /// The row or the reservation.
    pub subject: Subject,
    /// Its owner, if that can be read.
    pub podref: Option<PodRef>,
    /// Its address.
    pub address: IpAddr,
    /// Whether it is judged like anything else, but for its wait. The other kind says nothing that could be judged: a row
    /// that cannot be read, or a reservation without a row that names no pod.
    pub is_readable: bool,
}

/// What may be removed at an address in the wanted pools, and why the rest may not. A reservation counts where its pool has
/// no such row.
fn standing(
    assessor: &Assessor<'_>,
    address: IpAddr,
    is_wanted: impl Fn(&PoolKey) -> bool,
) -> (Vec<Forced>, Vec<String>) {
    let (mut rows, mut reservations, mut ambiguous) = (Vec::new(), Vec::new(), Vec::new());
    assessor.each(|it| {
        let name = || match &it.item {
            Item::Row(pool, _) => pool.key().to_string(),
            Item::Reservation(reserved, _) => {
                format!("reservation {}/{}", reserved.namespace, reserved.name)
            }
        };
        if let Item::Reservation(reserved, Reading::Ambiguous) = &it.item
            && may_reserve(&reserved.name, address)
        {
            ambiguous.push(format!("{}: {}", name(), Unreadable::Network));
        }
        if it.address != Some(address) {
            return;
        }
        let pool = pool_of(it);
        if !is_wanted(&pool) {
            return;
        }
        let (is_exempt, of_kind) = match &it.item {
            Item::Row(pool, row) => (pool.is_exempt(row), &mut rows),
            Item::Reservation(reserved, _) => {
                let is_exempt = assessor.index.exempts(&reserved.namespace, address);
                (is_exempt, &mut reservations)
            }
        };
        let may_go = if is_exempt {
            Err(Unknown::Exempt.to_string())
        } else {
            may_go(assessor, it)
        };
        let may_go = may_go.map_err(|reason| format!("{}: {reason}", name()));
        let forced = may_go.map(|is_readable| Forced {
            pool: pool.clone(),
            subject: it.subject(),
            podref: it.owner().parse().ok(),
            address,
            is_readable,
        });
        of_kind.push((pool, forced));
    });
    let is_taken = !rows.is_empty();
    reservations.retain(|(pool, _)| rows.iter().all(|(of_row, _)| of_row != pool));
    let (mut found, mut why_not) = (Vec::new(), Vec::new());
    for (_, forced) in rows.into_iter().chain(reservations) {
        match forced {
            Ok(forced) => found.push(forced),
            Err(reason) => why_not.push(reason),
        }
    }
    if !is_taken && found.is_empty() {
        why_not.extend(ambiguous);
    }
    (found, why_not)
}

fn pool_of(it: &Judged<'_>) -> PoolKey {
    match (it.place, &it.item) {
        (Some(place), _) => place.pool.key().clone(),
        (None, Item::Row(pool, _)) => pool.key().clone(),
        // There is no pool that it would be in.
        (None, Item::Reservation(reserved, _)) => PoolKey {
            namespace: reserved.namespace.clone(),
            name: reserved.name.clone(),
        },
    }
}

/// Whether it is judged, if a person may have it removed; or why not.
fn may_go(assessor: &Assessor<'_>, it: &Judged<'_>) -> Result<bool, String> {
    // Drivers that write podrefs of their own write such as cannot be read.
    let mut kept = assessor.policy.keep_podrefs.iter();
    let is_row = matches!(it.item, Item::Row(..));
    let is_readable = match it.verdict.clone().forced(NOW) {
        Verdict::Stale(_) => true,
        Verdict::Unknown(reason @ Unknown::Unreadable(Unreadable::IpamClaim(_))) => {
            return Err(reason.to_string());
        }
        Verdict::Unknown(Unknown::Unreadable(_)) if is_row || it.names_no_pod() => false,
        Verdict::Unknown(reason) => return Err(reason.to_string()),
        Verdict::Held(reason) => return Err(reason.to_string()),
    };
    if kept.any(|glob| glob.matches(it.owner())) {
        return Err(Unknown::KeptOwner.to_string());
    }
    if let Item::Reservation(reserved, _) = &it.item
        && assessor.blind.contains(&reserved.namespace)
    {
        let hidden = "a pool of its namespace cannot be read, and may have its row";
        return Err(hidden.to_owned());
    }
    Ok(is_readable)
}

/// The only thing at `address`, in the pool of this name if one is given.
///
/// # Errors
/// One line that says why nothing can be removed, or nothing certain.
pub fn at(
    snapshot: &Snapshot,
    policy: &Policy,
    address: IpAddr,
    pool: Option<&str>,
) -> Result<Forced, String> {
    let mut assessor = Assessor::new(snapshot, policy);
    // The API server is asked for them when it is freed.
    assessor.claims = Ok(ResourceClaims::default());
    let is_wanted =
        |key: &PoolKey| pool.is_none_or(|pool| is_named(pool, &key.namespace, &key.name));
    let mut places = assessor.index.pools.iter();
    if let Some(pool) = pool
        && !places.any(|place| is_wanted(place.pool.key()))
    {
        return Err(format!("no pool {pool} is known"));
    }
    let (mut found, why_not) = standing(&assessor, address, is_wanted);
    match (found.len(), why_not.is_empty()) {
        (1, true) => {
            let found = found.remove(0);
            check_pods(snapshot, &found)
                .map_err(|reason| format!("{address} is kept: {reason}"))?;
            Ok(found)
        }
        (0, true) => Err(format!("nothing holds {address}")),
        (0, false) => Err(format!("{address} is kept: {}", why_not.join("; "))),
        _ => Err(format!(
            "several networks hold {address}: name one pool by --pool"
        )),
    }
}

/// Whether what a person forced is there as it was, and may still go.
pub(super) fn check(assessor: &Assessor<'_>, it: &Forced) -> Result<(), NotDone> {
    let (found, why_not) = standing(assessor, it.address, |pool| *pool == it.pool);
    if !why_not.is_empty() {
        return Err(NotDone::Kept(why_not.join("; ")));
    }
    let mut found = found.iter();
    if !found.any(|there| there.subject == it.subject) {
        return Err(NotDone::Gone);
    }
    check_pods(assessor.snapshot, it)
}

/// Whether a pod of the snapshot speaks against removing what nothing can be judged of: its owner, or one that reports its
/// address in whatever network.
pub(super) fn check_pods(snapshot: &Snapshot, it: &Forced) -> Result<(), NotDone> {
    if it.is_readable {
        return Ok(());
    }
    if let Some(podref) = &it.podref
        && snapshot.pod(podref.as_str()).is_some()
    {
        return Err(NotDone::Kept(format!("its pod {podref} is there")));
    }
    let mut pods = snapshot.pods.iter();
    if let Some(pod) = pods.find(|pod| pod.status.has_address(it.address)) {
        let reason = format!("pod {} reports the address", pod.podref);
        return Err(NotDone::Kept(reason));
    }
    Ok(())
}
