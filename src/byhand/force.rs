//! The rows and reservations of one address, or of one node, and whether a person may have them removed.
//!
//! A person can say that no sandbox answers, or that a row which cannot be read is of no use. That a pod needs
//! its address no more, a person can say only of a pod that runs without reporting the address.

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
    net::IpAddr,
    time::Duration,
};

use ipgc_core::{
    address::may_reserve,
    judge::{Unknown, Verdict},
    names::Reading,
    patch::{Answer, UnreadablePatch},
    podref::PodRef,
    pool::{PoolKey, Unreadable as NoPod},
    proof::Presence,
    reservation::Reservation,
};
use tracing::info;

use super::{NotDone, Writer, report, row_of};
use crate::{
    audit::{
        assess::{Assessor, Item},
        filter::is_named,
        report::Finding,
    },
    collect::{
        picked::{Pick, Picked, Subject},
        reservation_api::ReservationApi,
    },
    core::evidence::Policy,
    snapshot::{NOW, Snapshot},
};

/// Something at an address that a person may have removed.
#[derive(Clone, Debug)]
pub enum Forced {
    /// Judged like anything else, but for its wait.
    Pick(Pick),
    /// A row or a reservation that says nothing that could be judged.
    Unreadable(Unreadable),
}

/// A row that cannot be read, or a reservation without a row that names no pod.
#[derive(Clone, Debug)]
pub struct Unreadable {
    /// The pool that it is in, or would be.
    pub pool: PoolKey,
    /// The row or the reservation.
    pub subject: Subject,
    /// Its owner, if that can be read.
    pub podref: Option<PodRef>,
    /// Its address.
    pub address: IpAddr,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Subject::Row { stored, .. } => stored.fmt(f),
            Subject::Reservation { name, .. } => write!(f, "reservation {name}"),
        }
    }
}

/// All that there is at an address: each may be removed, or why not.
#[derive(Default)]
struct There {
    rows: Vec<Result<Forced, String>>,
    /// Those without a row.
    reservations: Vec<Result<Forced, String>>,
    /// The reservations that may be of another address.
    ambiguous: Vec<String>,
}

impl There {
    fn of(assessor: &Assessor<'_>, address: IpAddr, is_wanted: impl Fn(&PoolKey) -> bool) -> Self {
        let pools = assessor.snapshot.observed();
        let pools = pools.filter(|pool| pool.exempts(address));
        // A pool exempts the address in all networks of its namespace.
        let exempt: HashSet<_> = pools.map(|pool| pool.key().namespace.clone()).collect();
        let mut there = Self::default();
        assessor.each(|it| {
            let named = |reason: String| match &it.item {
                Item::Row(pool, _) => format!("{}: {reason}", pool.key()),
                Item::Reservation(reserved, _) => {
                    format!(
                        "reservation {}/{}: {reason}",
                        reserved.namespace, reserved.name
                    )
                }
            };
            if let Item::Reservation(reserved, Reading::Ambiguous) = &it.item
                && may_reserve(&reserved.name, address)
            {
                there.ambiguous.push(named(NoPod::Network.to_string()));
            }
            if it.address != Some(address) {
                return;
            }
            let mut finding = Finding::default();
            assessor.describe(&mut finding, it);
            let (pool, subject) = match report::subject(&finding) {
                Ok(known) => known,
                Err(reason) => return there.ambiguous.push(named(reason)),
            };
            if !is_wanted(&pool) {
                return;
            }
            let is_exempt = match &it.item {
                Item::Row(pool, row) => pool.is_exempt(row),
                Item::Reservation(reserved, _) => exempt.contains(&*reserved.namespace),
            };
            // Drivers that write podrefs of their own write such as cannot be read.
            let mut kept = assessor.policy.keep_podrefs.iter();
            let is_kept = kept.any(|glob| glob.matches(it.owner()));
            let is_row = matches!(it.item, Item::Row(..));
            let forced = match it.verdict.clone().forced(NOW) {
                _ if is_exempt => Err(Unknown::Exempt.to_string()),
                Verdict::Stale(_) => report::pick(&finding, true)
                    .map(Forced::Pick)
                    .map_err(|_| "it names no pod".to_owned()),
                Verdict::Unknown(reason @ Unknown::Unreadable(NoPod::IpamClaim(_))) => {
                    Err(reason.to_string())
                }
                Verdict::Unknown(Unknown::Unreadable(_)) if is_row || it.names_no_pod() => {
                    let hidden = "a pool of its namespace cannot be read, and may have its row";
                    if is_kept {
                        Err(Unknown::KeptOwner.to_string())
                    } else if !is_row && assessor.blind.contains(&pool.namespace) {
                        Err(hidden.to_owned())
                    } else {
                        Ok(Forced::Unreadable(Unreadable {
                            pool,
                            subject,
                            podref: it.owner().parse().ok(),
                            address,
                        }))
                    }
                }
                Verdict::Unknown(reason) => Err(reason.to_string()),
                Verdict::Held(reason) => Err(reason.to_string()),
            };
            let of_kind = if is_row {
                &mut there.rows
            } else {
                &mut there.reservations
            };
            of_kind.push(forced.map_err(named));
        });
        there
    }
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
    let assessor = Assessor::new(snapshot, policy);
    let is_wanted =
        |key: &PoolKey| pool.is_none_or(|pool| is_named(pool, &key.namespace, &key.name));
    let mut places = assessor.index.pools.iter();
    if let Some(pool) = pool
        && !places.any(|place| is_wanted(&place.key))
    {
        return Err(format!("no pool {pool} is known"));
    }
    let there = There::of(&assessor, address, is_wanted);
    let is_taken = !there.rows.is_empty();
    let all = if is_taken {
        there.rows
    } else {
        there.reservations
    };
    let (mut found, mut why_not) = (Vec::new(), Vec::new());
    for forced in all {
        match forced {
            Ok(forced) => found.push(forced),
            Err(reason) => why_not.push(reason),
        }
    }
    if !is_taken && found.is_empty() {
        why_not.extend(there.ambiguous);
    }
    match (found.len(), why_not.is_empty()) {
        (1, true) => Ok(found.remove(0)),
        (0, true) => Err(format!("nothing holds {address}")),
        (0, false) => Err(format!("{address} is kept: {}", why_not.join("; "))),
        _ => Err(format!(
            "several networks hold {address}: name one pool by --pool"
        )),
    }
}

/// All that this node holds, forced, and the other nodes that hold some of it as well. A pod that is there keeps what it
/// has.
pub fn held_by(snapshot: &Snapshot, policy: &Policy, node: &str) -> (Picked, BTreeSet<Box<str>>) {
    let (mut picks, mut others) = (Vec::new(), BTreeSet::new());
    let assessor = Assessor::new(snapshot, policy);
    assessor.each(|it| {
        if !it.is_held_by(node) || it.place.is_none() {
            return;
        }
        let mut finding = Finding::default();
        assessor.describe(&mut finding, it);
        if let Ok(pick) = report::pick(&finding, true) {
            others.extend(it.holding().iter().cloned());
            picks.push(pick);
        }
    });
    others.remove(node);
    (Picked::new(picks, Duration::ZERO), others)
}

/// Whether a pod of the snapshot speaks against removing what cannot be read: its owner, or one that reports its address
/// in whatever network; or, against a reservation, a row that it has by now, or a person who exempted it.
///
/// # Errors
/// Which one.
pub fn check_unreadable(
    snapshot: &Snapshot,
    policy: &Policy,
    row: &Unreadable,
) -> Result<(), NotDone> {
    if let Subject::Reservation { .. } = &row.subject {
        let there = There::of(&Assessor::new(snapshot, policy), row.address, |_| true);
        let mut found = there.reservations.into_iter().flatten();
        let is_it = |forced| matches!(forced, Forced::Unreadable(it) if it.subject == row.subject);
        if !found.any(is_it) {
            return Err(NotDone::Gone);
        }
    }
    if let Some(podref) = &row.podref
        && snapshot.pod(podref.as_str()).is_some()
    {
        return Err(present(podref));
    }
    let mut pods = snapshot.pods.iter();
    match pods.find(|pod| pod.status.has_address(row.address)) {
        Some(pod) => Err(NotDone::Kept(format!(
            "pod {} reports the address",
            pod.podref
        ))),
        None => Ok(()),
    }
}

fn present(podref: &PodRef) -> NotDone {
    NotDone::Kept(format!("its pod {podref} is there"))
}

impl Writer {
    /// Removes what cannot be read. With `dry_run` nothing is sent that changes anything.
    ///
    /// # Errors
    /// Why not.
    pub async fn remove(&self, it: &Unreadable, dry_run: bool) -> Result<(), NotDone> {
        match &it.subject {
            Subject::Row {
                pool_uid,
                key,
                stored,
            } => self.remove_row(it, (pool_uid, key, stored), dry_run).await,
            Subject::Reservation { name, uid } => {
                self.remove_reservation(it, (name, uid), dry_run).await
            }
        }
    }

    /// Deletes a reservation that names no pod, if it is still that one and still names none. No ADD accepts such a one, so
    /// it need not be claimed.
    async fn remove_reservation(
        &self,
        it: &Unreadable,
        (name, uid): (&str, &str),
        dry_run: bool,
    ) -> Result<(), NotDone> {
        let namespace = &it.pool.namespace;
        let there = self.reservations.get(namespace, name).await?;
        let is_it = |there: &Reservation| there.uid == uid && there.pod() == Err(NoPod::PodRef);
        let there = there.filter(is_it).ok_or(NotDone::Gone)?;
        if dry_run {
            return Ok(());
        }
        match self.reservations.delete(namespace, &there).await {
            Err(error) if !ReservationApi::is_absent(&error, name) => return Err(error.into()),
            _ => {}
        }
        info!(namespace, reservation = name, address = %it.address, "freed reservation that names no pod");
        Ok(())
    }

    /// Removes a row that cannot be read: observed anew, its owner proven absent if it has one, by a patch that tests
    /// the whole of it.
    async fn remove_row(
        &self,
        row: &Unreadable,
        (pool_uid, key, stored): (&str, &str, &serde_json::Value),
        dry_run: bool,
    ) -> Result<(), NotDone> {
        let podrefs = row.podref.iter().cloned().collect();
        let observe = || self.observe(&row.pool, pool_uid, &podrefs);
        let observed = observe().await?.ok_or(NotDone::Gone)?;
        let there = row_of(&observed, key, stored).ok_or(NotDone::Gone)?;
        if let Some(podref) = &row.podref {
            let asked = [(podref.clone(), false)].into();
            let proof = self
                .prover
                .prove(observed.begin_proof(), &asked, false)
                .await;
            match proof.presence(podref) {
                Presence::Absent => {}
                Presence::Present(_) => return Err(present(podref)),
                Presence::Unknown(reason) => {
                    return Err(NotDone::Kept(format!(
                        "its pod {podref} could not be read: {reason}"
                    )));
                }
            }
        }
        let patch = UnreadablePatch::new(&observed, there).ok_or_else(|| {
            NotDone::Kept("it is exempted by a person, or can be read".to_owned())
        })?;
        if dry_run {
            return Ok(());
        }
        match self.pools.free_unreadable(&row.pool, &patch).await {
            Err(error) if error.answer() == Answer::Unclear => {
                // The patch may have been done, or may be done yet.
                let now = observe().await?;
                if now.is_some_and(|now| row_of(&now, key, stored).is_some()) {
                    return Err(error.into());
                }
            }
            done => done?,
        }
        info!(pool = %row.pool, key, address = %row.address, %stored, "freed row that cannot be read");
        Ok(())
    }
}
