//! Reservations of rows that are gone: find, claim, prove, delete (docs/safety.md).
//!
//! The order is kept by types: [`Marked`] is a reservation that no ADD accepts any more (claimed,
//! or of a pod whose name never returns), [`Orphan`] is a marked one whose pod was read as absent
//! after that, and only an orphan can be deleted.

use std::{
    collections::{BTreeSet, HashSet},
    net::IpAddr,
};

use futures::{StreamExt, stream};
use ipgc_core::{
    address::reservation_names,
    judge::Cause,
    patch::Answer,
    pod::Phase,
    podref::PodRef,
    pool::{PoolKey, RowContent},
    proof::Presence,
    reservation::Reservation,
};
use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions,
    },
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    pool_api::{ObserveError, PoolApi},
    prover::{Asked, Prover},
};
use crate::{
    api,
    calls::{CallError, call, next_page},
};

/// Up to this many are looked up by name, more by a LIST of the namespace.
const FEW: usize = 4;
/// Reservations to a page.
pub const PAGE: u32 = 500;
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

/// What must be true of the pod of a reservation when it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// It is absent.
    Absent,
    /// This incarnation of it is at its end.
    Completed(Box<str>),
    /// It runs, and reports all that it asked for, and not this address.
    LivesElsewhere,
    /// Nothing can be: a row of the same pod holds the address. A claim on it is given back.
    Taken,
}

/// What a proof says about a [`Fact`].
enum Finding {
    Holds,
    DoesNot,
    Unknown(Box<str>),
}

impl Fact {
    /// The fact behind a verdict on a row.
    #[must_use]
    pub fn of(cause: Cause, uid: Option<&str>) -> Self {
        match (cause, uid) {
            (Cause::Deleted, _) => Self::Absent,
            (Cause::Completed, Some(uid)) => Self::Completed(uid.into()),
            (Cause::Completed | Cause::Predecessor | Cause::Leftover, _) => Self::LivesElsewhere,
        }
    }

    fn check(&self, presence: Option<&Presence>, address: IpAddr) -> Finding {
        let holds = match (self, presence) {
            (Self::Taken, _) => false,
            (_, None) => return Finding::Unknown("its pod was not read".into()),
            (_, Some(Presence::Unknown(reason))) => return Finding::Unknown(reason.clone()),
            (Self::Absent | Self::Completed(_), Some(Presence::Absent)) => true,
            (Self::Completed(uid), Some(Presence::Present(Some(pod)))) => {
                pod.uid == *uid && pod.phase.is_terminal()
            }
            (Self::LivesElsewhere, Some(Presence::Present(Some(pod)))) => {
                let runs = pod.phase == Phase::Running && !pod.deleting;
                let complete = pod.status.is_complete_for(&pod.request);
                runs && complete && !pod.status.has_address(address)
            }
            (_, Some(Presence::Absent | Presence::Present(_))) => false,
        };
        if holds {
            Finding::Holds
        } else {
            Finding::DoesNot
        }
    }
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

/// Reads and writes reservations.
#[derive(Clone)]
pub struct Reservations {
    client: Client,
    prover: Prover,
}

/// A reservation that no ADD accepts any more.
struct Marked {
    reservation: Reservation,
    podref: PodRef,
    address: IpAddr,
    fact: Fact,
    claimed: bool,
}

/// A marked reservation whose pod was absent after it was marked.
struct Orphan(Marked);

impl Reservations {
    /// Talks through `client`; proves with `prover`.
    #[must_use]
    pub fn new(client: Client, prover: Prover) -> Self {
        Self { client, prover }
    }

    /// Removes the reservations of these rows, which were in `pool` or would be.
    ///
    /// After `stop` no round is begun; what is left then counts as refused.
    pub async fn release(
        &self,
        pools: &PoolApi,
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
            self.release_round((pools, pool), round, &mut outcome).await;
        }
        outcome
    }

    async fn release_round(
        &self,
        (pools, pool): (&PoolApi, &PoolKey),
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
        let (orphans, mut alive) = self.prove(marked, outcome).await;
        let (orphans, used) = without_row(pools, pool, orphans, outcome).await;
        alive.extend(used);
        for result in run(orphans
            .into_iter()
            .map(|orphan| self.delete(namespace, orphan)))
        .await
        {
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

    /// Reads the pods of marked reservations, which are marked by now: orphans, and those whose
    /// pods are there. Nothing else makes an [`Orphan`].
    async fn prove(
        &self,
        marked: Vec<Marked>,
        outcome: &mut Released,
    ) -> (Vec<Orphan>, Vec<Marked>) {
        let mut asked = Asked::new();
        for marked in &marked {
            let state = asked.entry(marked.podref.clone()).or_default();
            *state |= marked.fact != Fact::Absent;
        }
        let presence = self.prover.presence(&asked).await;
        let (mut orphans, mut alive) = (Vec::new(), Vec::new());
        for marked in marked {
            let found = presence.get(&marked.podref);
            match marked.fact.check(found, marked.address) {
                Finding::Holds => orphans.push(Orphan(marked)),
                Finding::DoesNot => alive.push(marked),
                Finding::Unknown(reason) => {
                    outcome.failed.push((marked.podref, reason.into_string()));
                }
            }
        }
        (orphans, alive)
    }

    /// The reservations of the rows, found by parsing names.
    async fn find<'w>(
        &self,
        namespace: &str,
        wanted: &'w [Wanted],
        outcome: &mut Released,
    ) -> Vec<(Reservation, &'w Wanted)> {
        let found = if wanted.len() <= FEW {
            self.find_by_name(namespace, wanted).await
        } else {
            self.find_in_list(namespace, wanted).await
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

    async fn find_by_name<'w>(
        &self,
        namespace: &str,
        wanted: &'w [Wanted],
    ) -> Result<Vec<(Reservation, &'w Wanted)>, CallError> {
        let api = self.api(namespace);
        let mut found = Vec::new();
        for wanted in wanted {
            for network in &wanted.networks {
                for name in reservation_names(wanted.row.address, network.as_deref()) {
                    let object = match call(api.get(&name)).await {
                        Ok(object) => object,
                        Err(error) if is_absent(&error, &name) => continue,
                        Err(error) => return Err(error),
                    };
                    if let Some(reservation) = read(&object)
                        && reservation.belongs_to(&wanted.row, network.as_deref())
                    {
                        found.push((reservation, wanted));
                    }
                }
            }
        }
        Ok(found)
    }

    async fn find_in_list<'w>(
        &self,
        namespace: &str,
        wanted: &'w [Wanted],
    ) -> Result<Vec<(Reservation, &'w Wanted)>, CallError> {
        let api = self.api(namespace);
        let mut by_owner = std::collections::HashMap::<&str, Vec<&Wanted>>::new();
        for wanted in wanted {
            let owner = wanted.row.podref.as_str();
            by_owner.entry(owner).or_default().push(wanted);
        }
        let mut found = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = call(api.list(&params)).await?;
            for reservation in page.items.iter().filter_map(read) {
                let owned = by_owner.get(reservation.owner()).into_iter().flatten();
                let matching = owned.copied().find(|wanted| {
                    let mut networks = wanted.networks.iter();
                    networks.any(|n| reservation.belongs_to(&wanted.row, n.as_deref()))
                });
                if let Some(wanted) = matching {
                    found.push((reservation, wanted));
                }
            }
            match next_page(&params, &page.metadata) {
                Some(next) => params = next,
                None => return Ok(found),
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
            fact: wanted.fact.clone(),
        };
        // A pod that lives may accept it at any moment, whatever its name.
        let may_be_accepted = wanted.name_may_return || wanted.fact == Fact::LivesElsewhere;
        if !may_be_accepted || reservation.is_claimed() {
            return Ok(Some(mark(reservation)));
        }
        match self
            .patch(namespace, &reservation.name, reservation.claim())
            .await
        {
            // Its resourceVersion is the one that the DELETE must find again.
            Ok(object) => Ok(read(&object).map(mark)),
            Err(error) if is_absent(&error, &reservation.name) => Ok(None),
            Err(error) => Err((podref, error)),
        }
    }

    async fn delete(
        &self,
        namespace: &str,
        Orphan(marked): Orphan,
    ) -> Result<bool, (PodRef, CallError)> {
        let reservation = &marked.reservation;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(reservation.uid.clone()),
                resource_version: Some(reservation.resource_version.clone()),
            }),
            ..DeleteParams::default()
        };
        match call(self.api(namespace).delete(&reservation.name, &params)).await {
            Ok(_) => {
                info!(namespace, reservation = reservation.name, podref = %marked.podref, "freed reservation");
                Ok(true)
            }
            Err(error) if is_absent(&error, &reservation.name) => Ok(false),
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
            .patch(namespace, &reservation.name, reservation.restore())
            .await
        {
            Ok(_) => {
                debug!(namespace, reservation = reservation.name, podref = %marked.podref, "its pod is back, reservation kept");
                Ok(())
            }
            Err(error) if is_absent(&error, &reservation.name) => Ok(()),
            Err(error) => {
                warn!(namespace, reservation = reservation.name, %error, "claimed reservation not given back");
                Err((marked.podref, error))
            }
        }
    }

    /// A reservation by its name; `None` where there is none that can be read.
    ///
    /// # Errors
    /// When the server does not say.
    pub async fn get(&self, namespace: &str, name: &str) -> Result<Option<Reservation>, CallError> {
        match call(self.api(namespace).get(name)).await {
            Ok(object) => Ok(read(&object)),
            Err(error) if is_absent(&error, name) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// One page of all reservations, or of those in `namespace`; and the next page.
    ///
    /// # Errors
    /// When the page cannot be read.
    pub async fn page(
        &self,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<(Vec<(String, Reservation)>, Option<ListParams>), CallError> {
        let resource = ApiResource::erase::<api::Reservation>(&());
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => self.api(namespace),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let page = call(api.list(params)).await?;
        let next = next_page(params, &page.metadata);
        let named = |object: DynamicObject| {
            let namespace = object.metadata.namespace.clone()?;
            Some((namespace, read(&object)?))
        };
        Ok((page.items.into_iter().filter_map(named).collect(), next))
    }

    async fn patch(
        &self,
        namespace: &str,
        name: &str,
        patch: json_patch::Patch,
    ) -> Result<DynamicObject, CallError> {
        let patch = Patch::<()>::Json(patch);
        let params = PatchParams::default();
        call(self.api(namespace).patch(name, &params, &patch)).await
    }

    fn api(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<api::Reservation>(&());
        Api::namespaced_with(self.client.clone(), namespace, &resource)
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
    pools: &PoolApi,
    pool: &PoolKey,
    orphans: Vec<Orphan>,
    outcome: &mut Released,
) -> (Vec<Orphan>, Vec<Marked>) {
    let claimed = orphans.iter().filter(|Orphan(marked)| marked.claimed);
    let podrefs: BTreeSet<_> = claimed
        .map(|Orphan(marked)| marked.podref.clone())
        .collect();
    if podrefs.is_empty() {
        return (orphans, Vec::new());
    }
    let observed = match pools.observe(pool, &podrefs).await {
        Ok(observed) => observed,
        Err(ObserveError::Call(error)) => {
            for Orphan(marked) in orphans {
                outcome.not_done(marked.podref, &error);
            }
            outcome.note_refusal(error);
            return (Vec::new(), Vec::new());
        }
        Err(error @ ObserveError::Unreadable(_)) => {
            let reason = error.to_string();
            let failed = orphans
                .into_iter()
                .map(|Orphan(m)| (m.podref, reason.clone()));
            outcome.failed.extend(failed);
            return (Vec::new(), Vec::new());
        }
    };
    let rows = observed
        .iter()
        .flat_map(|pool| pool.rows().iter().map(move |row| (pool, row)));
    let used: HashSet<_> = rows
        .filter_map(|(pool, row)| Some((pool.address_of(row)?, row.podref_text()?)))
        .collect();
    let (mut free, mut taken) = (Vec::new(), Vec::new());
    for orphan in orphans {
        if used.contains(&(orphan.0.address, orphan.0.podref.as_str())) {
            taken.push(orphan.0);
        } else {
            free.push(orphan);
        }
    }
    (free, taken)
}

/// A few at a time.
async fn run<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    // Collected first, or the compiler cannot tell that the whole is Send.
    stream::iter(futures.collect::<Vec<_>>())
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await
}

/// The server's word that there is no such reservation.
fn is_absent(error: &CallError, name: &str) -> bool {
    error.is_absence_of::<api::Reservation>(name)
}

fn read(object: &DynamicObject) -> Option<Reservation> {
    Reservation::read(&serde_json::to_value(object).ok()?)
}
