//! Reservations of rows that are gone: find, claim, prove, delete (docs/safety.md).
//!
//! The order is kept by types: [`Marked`] is a reservation that no ADD accepts any more (claimed,
//! or of a pod whose name never returns), [`Proven`] is a marked one whose pod was read as absent
//! after that, and only a proven one can be deleted.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    net::IpAddr,
};

use futures::{StreamExt, stream};
use ipgc_core::{
    fact::{Fact, Finding},
    patch::Answer,
    podref::PodRef,
    pool::{PoolKey, RowContent},
    reservation::Reservation,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    context::Context,
    pool_api::ObserveError,
    prover::{Asked, Prover},
    reservation_api::ReservationApi,
    second_look::second_look,
};
use crate::calls::CallError;

/// Up to this many are looked up by name, more by a LIST of the namespace.
const FEW: usize = 4;
/// Writes in flight at a time.
const CONCURRENCY: usize = 16;
/// Reservations to one proof, so that each DELETE follows its proof within two seconds even on a
/// server that takes 0.1 s for one.
const TO_A_PROOF: usize = 200;

/// A reservation that is to go: of a row that is gone, or one that had none.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What the row said, or would say.
    pub row: RowContent,
    /// The networks in which the reservation may be.
    pub networks: BTreeSet<Option<Box<str>>>,
    /// Whether a pod of the same name may come back.
    pub name_may_return: bool,
    /// What must be true of its pod when it goes.
    pub fact: Fact,
}

/// What a round of releases did.
#[derive(Debug, Default)]
pub struct Released {
    /// Reservations deleted.
    pub deleted: usize,
    /// Podrefs to try again.
    pub failed: Vec<(PodRef, String)>,
    /// Podrefs that nothing was done for, since we may not write or are shutting down.
    pub refused: Vec<PodRef>,
    /// The words of the refusal.
    pub forbidden: Option<CallError>,
}

/// Releases reservations.
#[derive(Clone)]
pub struct Releaser {
    api: ReservationApi,
    prover: Prover,
}

/// A reservation that no ADD accepts any more.
struct Marked {
    reservation: Reservation,
    podref: PodRef,
    address: IpAddr,
    networks: BTreeSet<Option<Box<str>>>,
    fact: Fact,
    claimed: bool,
}

/// A marked reservation whose pod was absent after it was marked.
struct Proven(Marked);

impl Releaser {
    /// Writes through `api`; proves with `prover`.
    #[must_use]
    pub fn new(api: ReservationApi, prover: Prover) -> Self {
        Self { api, prover }
    }

    /// Removes the reservations of these rows, which were in `pool` or would be.
    ///
    /// After `stop` no round is begun; what is left then counts as refused.
    pub async fn release(
        &self,
        context: &Context,
        pool: &PoolKey,
        wanted: &[Wanted],
        stop: &CancellationToken,
    ) -> Released {
        let namespace = &pool.namespace;
        let mut outcome = Released::default();
        let found = self.find(namespace, wanted, &mut outcome).await;
        let mut found = found.into_iter().peekable();
        while found.peek().is_some() {
            let round: Vec<_> = found.by_ref().take(TO_A_PROOF).collect();
            if stop.is_cancelled() {
                // No failure: whatever is left is postponed.
                let left = round.iter().map(|(_, wanted)| wanted.row.podref.clone());
                outcome.refused.extend(left);
                continue;
            }
            self.release_round((context, pool), round, &mut outcome)
                .await;
        }
        outcome
    }

    async fn release_round(
        &self,
        (context, pool): (&Context, &PoolKey),
        round: Vec<(Reservation, &Wanted)>,
        outcome: &mut Released,
    ) {
        let namespace = &pool.namespace;
        let marking = round
            .into_iter()
            .map(|(reservation, wanted)| self.mark(namespace, reservation, wanted));
        let mut marked = Vec::new();
        for result in run(marking).await {
            match result {
                Ok(Some(reservation)) => marked.push(reservation),
                Ok(None) => {}
                Err((podref, error)) => outcome.fail(podref, error),
            }
        }
        let (proven, mut alive) = self.prove(marked, outcome).await;
        let (proven, used) = without_row(context, pool, proven, outcome).await;
        alive.extend(used);
        for result in run(proven.into_iter().map(|one| self.delete(namespace, one))).await {
            match result {
                Ok(deleted) => outcome.deleted += usize::from(deleted),
                Err((podref, error)) => outcome.fail(podref, error),
            }
        }
        for result in run(alive
            .into_iter()
            .map(|marked| self.restore(namespace, marked)))
        .await
        {
            if let Err((podref, error)) = result {
                outcome.fail(podref, error);
            }
        }
    }

    /// Reads the pods of marked reservations, which are marked by now: those proven absent, and
    /// those that are there. Nothing else makes a [`Proven`].
    async fn prove(
        &self,
        marked: Vec<Marked>,
        outcome: &mut Released,
    ) -> (Vec<Proven>, Vec<Marked>) {
        let mut asked = Asked::new();
        for marked in &marked {
            let state = asked.entry(marked.podref.clone()).or_default();
            *state |= marked.fact != Fact::Absent;
        }
        let presence = self.prover.presence(&asked).await;
        let (mut proven, mut alive) = (Vec::new(), Vec::new());
        for marked in marked {
            let found = presence.get(&marked.podref);
            match marked.fact.check(found, marked.address) {
                Finding::Holds => proven.push(Proven(marked)),
                Finding::DoesNot => alive.push(marked),
                Finding::Unknown(reason) => {
                    outcome.failed.push((marked.podref, reason.into_string()));
                }
            }
        }
        (proven, alive)
    }

    /// The reservations of the rows, found by parsing names.
    async fn find<'w>(
        &self,
        namespace: &str,
        wanted: &'w [Wanted],
        outcome: &mut Released,
    ) -> Vec<(Reservation, &'w Wanted)> {
        let found = if wanted.len() <= FEW {
            self.api.find_by_name(namespace, wanted).await
        } else {
            self.api.find_in_list(namespace, wanted).await
        };
        match found {
            Ok(found) => found,
            Err(error) => {
                let podrefs = wanted.iter().map(|w| w.row.podref.clone());
                if error.answer() == Answer::Forbidden {
                    outcome.refused.extend(podrefs);
                    outcome.forbidden = Some(error);
                } else {
                    let reason = error.to_string();
                    let failed = podrefs.map(|podref| (podref, reason.clone()));
                    outcome.failed.extend(failed);
                }
                Vec::new()
            }
        }
    }

    /// Makes sure that no ADD accepts the reservation any more; `None` when it is gone.
    async fn mark(
        &self,
        namespace: &str,
        reservation: Reservation,
        wanted: &Wanted,
    ) -> Result<Option<Marked>, (PodRef, CallError)> {
        if wanted.fact == Fact::Taken && !reservation.is_claimed() {
            return Ok(None);
        }
        let podref = wanted.row.podref.clone();
        let mark = |reservation: Reservation| Marked {
            claimed: reservation.is_claimed(),
            reservation,
            podref: podref.clone(),
            address: wanted.row.address,
            networks: wanted.networks.clone(),
            fact: wanted.fact.clone(),
        };
        // A pod that lives may accept it at any moment, whatever its name.
        let may_be_accepted = wanted.name_may_return || wanted.fact == Fact::LivesElsewhere;
        if !may_be_accepted || reservation.is_claimed() {
            return Ok(Some(mark(reservation)));
        }
        match self
            .api
            .patch(namespace, &reservation.name, reservation.claim())
            .await
        {
            // Its resourceVersion is the one that the DELETE must find again.
            Ok(claimed) => Ok(claimed.map(mark)),
            Err(error) if ReservationApi::is_absent(&error, &reservation.name) => Ok(None),
            Err(error) => Err((podref, error)),
        }
    }

    async fn delete(
        &self,
        namespace: &str,
        Proven(marked): Proven,
    ) -> Result<bool, (PodRef, CallError)> {
        let reservation = &marked.reservation;
        match self.api.delete(namespace, reservation).await {
            Ok(()) => {
                info!(namespace, reservation = reservation.name, podref = %marked.podref, "freed reservation");
                Ok(true)
            }
            Err(error) if ReservationApi::is_absent(&error, &reservation.name) => Ok(false),
            Err(error) => Err((marked.podref, error)),
        }
    }

    /// The pod is back: whoever accepted the reservation keeps it.
    async fn restore(&self, namespace: &str, marked: Marked) -> Result<(), (PodRef, CallError)> {
        let reservation = &marked.reservation;
        if !marked.claimed {
            return Ok(());
        }
        match self
            .api
            .patch(namespace, &reservation.name, reservation.restore())
            .await
        {
            Ok(_) => {
                debug!(namespace, reservation = reservation.name, podref = %marked.podref, "its pod is back, reservation kept");
                Ok(())
            }
            Err(error) if ReservationApi::is_absent(&error, &reservation.name) => Ok(()),
            Err(error) => {
                warn!(namespace, reservation = reservation.name, %error, "claimed reservation not given back");
                Err((marked.podref, error))
            }
        }
    }
}

impl Released {
    fn not_done(&mut self, podref: PodRef, error: &CallError) {
        if error.answer() == Answer::Forbidden {
            self.refused.push(podref);
        } else {
            self.failed.push((podref, error.to_string()));
        }
    }

    fn note_refusal(&mut self, error: CallError) {
        if error.answer() == Answer::Forbidden {
            self.forbidden = Some(error);
        }
    }

    fn fail(&mut self, podref: PodRef, error: CallError) {
        self.not_done(podref, &error);
        self.note_refusal(error);
    }
}

/// Those of whose podref no row has the address; and the others. A successor may have been given the
/// address afresh, have accepted the reservation before it was claimed, and be gone again, while its
/// sandbox answers: then the reservation goes with that row.
async fn without_row(
    context: &Context,
    pool: &PoolKey,
    proven: Vec<Proven>,
    outcome: &mut Released,
) -> (Vec<Proven>, Vec<Marked>) {
    let claimed = proven.iter().filter(|Proven(marked)| marked.claimed);
    let claimed: HashMap<_, _> = claimed
        .map(|Proven(marked)| {
            let of = (marked.address, marked.podref.clone());
            (of, marked.networks.clone())
        })
        .collect();
    if claimed.is_empty() {
        return (proven, Vec::new());
    }
    match used(context, pool, claimed).await {
        Ok(used) => {
            let is_used = |Proven(marked): &Proven| {
                used.contains_key(&(marked.address, marked.podref.clone()))
            };
            let (taken, free): (Vec<_>, Vec<_>) = proven.into_iter().partition(is_used);
            (
                free,
                taken.into_iter().map(|Proven(marked)| marked).collect(),
            )
        }
        Err(ObserveError::Call(error)) => {
            for Proven(marked) in proven {
                outcome.not_done(marked.podref, &error);
            }
            outcome.note_refusal(error);
            (Vec::new(), Vec::new())
        }
        Err(error @ ObserveError::Unreadable(_)) => {
            let reason = error.to_string();
            let failed = proven
                .into_iter()
                .map(|Proven(marked)| (marked.podref, reason.clone()));
            outcome.failed.extend(failed);
            (Vec::new(), Vec::new())
        }
    }
}

/// Addresses of pods with claimed reservations, and the networks that these may be of.
type Claimed = HashMap<(IpAddr, PodRef), BTreeSet<Option<Box<str>>>>;

/// Those of these addresses of pods that a row may hold: one of this pool, or, where ranges overlap,
/// of any.
async fn used(
    context: &Context,
    pool: &PoolKey,
    mut claimed: Claimed,
) -> Result<Claimed, ObserveError> {
    if context.knowledge.may_overlap(pool) {
        let namespace = &pool.namespace;
        let addresses = claimed.keys().map(|(address, _)| *address).collect();
        let found = second_look(context, Some(namespace), &addresses, |_| false).await?;
        claimed.retain(|(address, _), networks| {
            let mut networks = networks.iter().map(Option::as_deref);
            networks.any(|network| found.has_row(namespace, network, *address))
        });
        return Ok(claimed);
    }
    let podrefs = claimed.keys().map(|(_, podref)| podref.clone()).collect();
    let observed = context.pools.observe(pool, &podrefs).await?;
    let rows = observed
        .iter()
        .flat_map(|pool| pool.rows().iter().map(move |row| (pool, row)));
    let rows: HashSet<_> = rows
        .filter_map(|(pool, row)| Some((pool.address_of(row)?, row.podref_text()?)))
        .collect();
    claimed.retain(|(address, podref), _| rows.contains(&(*address, podref.as_str())));
    Ok(claimed)
}

/// A few at a time.
async fn run<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    // Collected first, or the compiler cannot tell that the whole is Send.
    stream::iter(futures.collect::<Vec<_>>())
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await
}
