//! What there is at one address, and whether a person may have it removed.
//!
//! A person can say that no sandbox answers, or that a row which cannot be read is of no use. That a pod needs
//! its address no more, a person can say only of a pod that runs without reporting the address.

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
    net::IpAddr,
    sync::Arc,
};

use ipgc_core::{
    address::may_reserve,
    judge::{Unknown, Verdict},
    patch::{Answer, UnreadablePatch},
    podref::PodRef,
    pool::{PoolKey, Row, Unreadable as NoPod},
    proof::Presence,
    reservation::Reservation,
};
use kube::Client;
use tokio_util::task::TaskTracker;
use tracing::info;

use crate::{
    audit::{
        assess::{Assessor, names_no_pod},
        blind_namespaces,
        filter::is_named,
    },
    calls::CallError,
    clock::Clock,
    collect::{
        gate::Gate,
        picked::{Pick, Subject},
        pool_api::{ObserveError, PoolApi},
        prover::Prover,
        reservation_api::ReservationApi,
    },
    core::evidence::Policy,
    leader::Leadership,
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
    /// What it is.
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

/// What there is at `address`, in the pool of this name if one is given.
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
    if let Some(pool) = pool
        && !assessor
            .index
            .pools
            .iter()
            .any(|place| is_wanted(&place.key))
    {
        return Err(format!("no pool {pool} is known"));
    }
    // Drivers that write podrefs of their own write such as cannot be read.
    let is_kept = |row: &Row| {
        let podref = row.podref_text().unwrap_or_default();
        policy.keep_podrefs.iter().any(|glob| glob.matches(podref))
    };
    let mut found = Vec::new();
    let mut why_not = Vec::new();
    let mut is_taken = false;
    for (observed, place) in snapshot.observed().zip(&assessor.index.pools) {
        for row in observed.rows() {
            if observed.address_of(row) != Some(address) || !is_wanted(&place.key) {
                continue;
            }
            is_taken = true;
            let verdict = assessor.verdict(&observed, place, row).forced(NOW);
            let podref = row
                .podref_text()
                .and_then(|text| text.parse::<PodRef>().ok());
            let subject = || Subject::Row {
                pool_uid: observed.uid().to_owned(),
                key: row.key().to_owned(),
                stored: row.stored().clone(),
            };
            match (verdict, podref) {
                (Verdict::Stale(_), Some(podref)) => {
                    found.push(Forced::Pick(Pick {
                        pool: place.key.clone(),
                        subject: subject(),
                        podref,
                        address,
                        forced: true,
                    }));
                }
                (Verdict::Unknown(Unknown::Unreadable(_)), _) if is_kept(row) => {
                    why_not.push(format!("{}: {}", place.key, Unknown::KeptOwner));
                }
                (Verdict::Unknown(Unknown::Unreadable(_)), podref) if !observed.is_exempt(row) => {
                    found.push(Forced::Unreadable(Unreadable {
                        pool: place.key.clone(),
                        subject: subject(),
                        podref,
                        address,
                    }));
                }
                (Verdict::Unknown(Unknown::Unreadable(_)), _) => {
                    why_not.push(format!("{}: {}", place.key, Unknown::Exempt));
                }
                (Verdict::Unknown(reason), _) => why_not.push(format!("{}: {reason}", place.key)),
                (Verdict::Held(reason), _) => why_not.push(format!("{}: {reason}", place.key)),
                (Verdict::Stale(_), None) => {
                    why_not.push(format!("{}: it names no pod", place.key));
                }
            }
        }
    }
    if !is_taken {
        found.extend(reservations(&assessor, address, &is_wanted, &mut why_not));
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

/// The reservations of an address that no row has.
fn reservations(
    assessor: &Assessor<'_>,
    address: IpAddr,
    is_wanted: &dyn Fn(&PoolKey) -> bool,
    why_not: &mut Vec<String>,
) -> Vec<Forced> {
    let mut found = Vec::new();
    // Whichever of its networks the pool is of.
    let exempt: HashSet<_> = assessor
        .snapshot
        .observed()
        .filter(|pool| pool.exempts(address))
        .map(|pool| pool.key().namespace.clone())
        .collect();
    let blind = blind_namespaces(assessor);
    let mut ambiguous = Vec::new();
    for orphan in assessor.index.orphans(assessor.snapshot) {
        let reserved = orphan.reserved;
        if orphan.is_ambiguous && may_reserve(&reserved.name, address) {
            let reason = NoPod::Network;
            let (namespace, name) = (&reserved.namespace, &reserved.name);
            ambiguous.push(format!("reservation {namespace}/{name}: {reason}"));
        }
        if orphan.named.is_none_or(|(_, named)| named != address) {
            continue;
        }
        let pool = orphan.place.map(|place| place.key.clone());
        let pool = pool.unwrap_or_else(|| PoolKey {
            namespace: reserved.namespace.clone(),
            name: reserved.name.clone(),
        });
        if !is_wanted(&pool) {
            continue;
        }
        let name = format!("reservation {}/{}", reserved.namespace, reserved.name);
        if exempt.contains(&*reserved.namespace) {
            why_not.push(format!("{name}: {}", Unknown::Exempt));
            continue;
        }
        let subject = || Subject::Reservation {
            name: reserved.name.clone(),
            uid: reserved.uid.clone(),
        };
        match (
            assessor.verdict_on_orphan(&orphan, address),
            reserved.owner().parse(),
        ) {
            (Verdict::Stale(_), Ok(podref)) => {
                found.push(Forced::Pick(Pick {
                    pool,
                    subject: subject(),
                    podref,
                    address,
                    forced: true,
                }));
            }
            (verdict, _) if names_no_pod(&verdict) => {
                let mut kept = assessor.policy.keep_podrefs.iter();
                if kept.any(|glob| glob.matches(reserved.owner())) {
                    why_not.push(format!("{name}: {}", Unknown::KeptOwner));
                    continue;
                }
                if blind.contains(&*reserved.namespace) {
                    let why = "a pool of its namespace cannot be read, and may have its row";
                    why_not.push(format!("{name}: {why}"));
                    continue;
                }
                found.push(Forced::Unreadable(Unreadable {
                    pool,
                    subject: subject(),
                    podref: None,
                    address,
                }));
            }
            (Verdict::Held(reason), _) => why_not.push(format!("{name}: {reason}")),
            (Verdict::Unknown(reason), _) => why_not.push(format!("{name}: {reason}")),
            (Verdict::Stale(_), Err(_)) => why_not.push(format!("{name}: it names no pod")),
        }
    }
    if found.is_empty() {
        why_not.append(&mut ambiguous);
    }
    found
}

/// Why something that cannot be read was not removed.
#[derive(Debug, thiserror::Error)]
pub enum NotRemoved {
    /// It is gone, or another stands in its place.
    #[error("it is gone, or has changed")]
    Gone,
    /// A person exempted it, or it can be read now.
    #[error("it is exempted by a person, or can be read")]
    Kept,
    /// Its pod may be there.
    #[error("its pod {0} is there")]
    Present(PodRef),
    /// A pod reports its address.
    #[error("pod {0} reports the address")]
    Reported(PodRef),
    /// It could not be read whether its pod is there.
    #[error("its pod {0} could not be read: {1}")]
    NoProof(PodRef, Box<str>),
    /// The pool could not be read.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// The patch was not done, as far as is known.
    #[error(transparent)]
    Call(#[from] CallError),
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
) -> Result<(), NotRemoved> {
    if let Subject::Reservation { .. } = &row.subject {
        let assessor = Assessor::new(snapshot, policy);
        let is_it = |forced: &Forced| matches!(forced, Forced::Unreadable(found) if found.subject == row.subject);
        let found = reservations(&assessor, row.address, &|_| true, &mut Vec::new());
        if !found.iter().any(is_it) {
            return Err(NotRemoved::Gone);
        }
    }
    if let Some(podref) = &row.podref
        && snapshot.pod(podref.as_str()).is_some()
    {
        return Err(NotRemoved::Present(podref.clone()));
    }
    let mut pods = snapshot.pods.iter();
    match pods.find(|pod| pod.status.has_address(row.address)) {
        Some(pod) => Err(NotRemoved::Reported(pod.podref.clone())),
        None => Ok(()),
    }
}

/// Removes what cannot be read. With `dry_run` nothing is sent.
///
/// # Errors
/// Why not.
pub async fn remove_unreadable(
    client: &Client,
    it: &Unreadable,
    dry_run: bool,
) -> Result<(), NotRemoved> {
    match &it.subject {
        Subject::Row {
            pool_uid,
            key,
            stored,
        } => remove_row(client, it, (pool_uid, key, stored), dry_run).await,
        Subject::Reservation { name, uid } => {
            remove_reservation(client, it, (name, uid), dry_run).await
        }
    }
}

/// Deletes a reservation that names no pod, if it is still that one and still names none. No ADD accepts such a one, so
/// it need not be claimed.
async fn remove_reservation(
    client: &Client,
    it: &Unreadable,
    (name, uid): (&str, &str),
    dry_run: bool,
) -> Result<(), NotRemoved> {
    let api = ReservationApi::new(client.clone(), Arc::default());
    let namespace = &it.pool.namespace;
    let there = api.get(namespace, name).await?;
    let is_it = |there: &Reservation| there.uid == uid && there.pod() == Err(NoPod::PodRef);
    let there = there.filter(is_it).ok_or(NotRemoved::Gone)?;
    if dry_run {
        return Ok(());
    }
    match api.delete(namespace, &there).await {
        Err(error) if !ReservationApi::is_absent(&error, name) => return Err(error.into()),
        _ => {}
    }
    info!(namespace, reservation = name, address = %it.address, "freed reservation that names no pod");
    Ok(())
}

/// Removes a row that cannot be read: observed anew, its owner proven absent if it has one, by a patch that tests
/// the whole of it.
async fn remove_row(
    client: &Client,
    row: &Unreadable,
    (pool_uid, key, stored): (&str, &str, &serde_json::Value),
    dry_run: bool,
) -> Result<(), NotRemoved> {
    let clock = Clock::start();
    let gate = Arc::new(Gate::new(clock, Leadership::always(clock)));
    let pools = PoolApi::new(client.clone(), clock, Arc::default(), 1);
    let podrefs: BTreeSet<_> = row.podref.iter().cloned().collect();
    let observed = pools.observe(&row.pool, &podrefs).await?;
    let observed = observed.filter(|observed| observed.uid() == pool_uid);
    let observed = observed.ok_or(NotRemoved::Gone)?;
    let is_it = |there: &&Row| there.key() == key && there.stored() == stored;
    let there = observed.rows().iter().find(is_it);
    let there = there.ok_or(NotRemoved::Gone)?;
    if let Some(podref) = &row.podref {
        let prover = Prover::new(client.clone(), gate, TaskTracker::new(), Arc::default());
        let asked = [(podref.clone(), false)].into();
        let proof = prover.prove(observed.begin_proof(), &asked).await;
        match proof.presence(podref) {
            Presence::Absent => {}
            Presence::Present(_) => return Err(NotRemoved::Present(podref.clone())),
            Presence::Unknown(reason) => return Err(NotRemoved::NoProof(podref.clone(), reason)),
        }
    }
    let patch = UnreadablePatch::new(&observed, there).ok_or(NotRemoved::Kept)?;
    if dry_run {
        return Ok(());
    }
    match pools.free_unreadable(&row.pool, &patch).await {
        Err(error) if error.answer() == Answer::Unclear => {
            // It may have been done, or may be done yet.
            let now = pools.observe(&row.pool, &podrefs).await?;
            let now = now.filter(|observed| observed.uid() == pool_uid);
            let is_there = now.is_some_and(|observed| observed.rows().iter().any(|it| is_it(&it)));
            if is_there {
                return Err(error.into());
            }
        }
        done => done?,
    }
    info!(pool = %row.pool, key, address = %row.address, %stored, "freed row that cannot be read");
    Ok(())
}
