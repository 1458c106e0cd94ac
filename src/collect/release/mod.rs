//! Reservations of rows that are gone: find, claim, prove, delete (docs/safety.md).
//!
//! The order is kept by types: [`Marked`] is a reservation that no ADD accepts any more (claimed,
//! or of a pod whose name never returns), [`Proven`] is a marked one whose pod was read as absent
//! after that, and only a proven one can be deleted.
//!
//! Those of one namespace are released together, whatever pools their rows were in: they are found
//! in one list, and deleted in rounds that share a proof and end soon after it.

mod outcome;
mod rows;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use ipgc_core::{
    fact::{Fact, Finding},
    patch::Answer,
    pool::{PoolKey, RowContent},
    reservation::Reservation,
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

pub use self::outcome::Released;
use self::{outcome::Outcomes, rows::without_row};
use super::{
    batches::{Batches, Inbox},
    context::Context,
    prover::{Asked, Prover},
    reservation_api::{FEW, ReservationApi},
};
use crate::calls::CallError;

/// Many wait for so long whether more come: those of other pools come at the same beat.
const GATHER: Duration = Duration::from_millis(300);
/// And no longer than that, however many come.
const LONGEST_GATHERING: Duration = Duration::from_secs(2);
/// Writes in flight at a time.
const CONCURRENCY: usize = 16;
/// A proof and the DELETEs that follow it take about so long: none of them comes late.
const ROUND: Duration = Duration::from_millis(1_400);
/// No DELETE begins so long after the proof began; it is proven anew.
const LATEST: Duration = Duration::from_millis(1_800);
/// Where a whole round came too late, this many times as long as the proof and the reads after it took.
const PATIENCE: f64 = 1.25;
/// Fewest and most reservations to a round.
const SMALLEST_ROUND: usize = 50;
const LARGEST_ROUND: usize = 2_000;
/// Reservations to the first round, before it is known how long they take: a quick server does them in
/// a second, and on a slow one some come too late and are proven again.
const FIRST_ROUND: usize = 200;

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

/// Reservations of rows that were in one pool, or would be.
struct Request {
    pool: PoolKey,
    wanted: Vec<Wanted>,
    done: oneshot::Sender<Released>,
}

/// One of them, and the request that it belongs to.
#[derive(Clone, Copy)]
pub struct Work<'r> {
    /// What is to go.
    pub wanted: &'r Wanted,
    pool: &'r PoolKey,
    request: usize,
}

/// Releases reservations.
pub struct Releaser {
    api: ReservationApi,
    prover: Prover,
    requests: Batches<String, Request>,
}

/// A reservation that no ADD accepts any more.
struct Marked<'r> {
    reservation: Reservation,
    work: Work<'r>,
    claimed: bool,
}

/// A marked reservation whose pod was absent after it was marked.
struct Proven<'r>(Marked<'r>);

impl Releaser {
    /// Writes through `api`, in `tasks`; proves with `prover`.
    #[must_use]
    pub fn new(api: ReservationApi, prover: Prover, tasks: TaskTracker) -> Self {
        Self {
            api,
            prover,
            requests: Batches::new(tasks),
        }
    }

    /// Removes the reservations of these rows, which were in `pool` or would be.
    ///
    /// After `stop` no round is begun; what is left then counts as refused.
    pub async fn release(
        &self,
        context: &Arc<Context>,
        pool: &PoolKey,
        wanted: Vec<Wanted>,
        stop: &CancellationToken,
    ) -> Released {
        let podrefs: Vec<_> = wanted.iter().map(|w| w.row.podref.clone()).collect();
        let (done, released) = oneshot::channel();
        let request = Request {
            pool: pool.clone(),
            wanted,
            done,
        };
        let (context, stopping) = (Arc::clone(context), stop.clone());
        self.requests
            .submit(pool.namespace.clone(), request, |inbox| async move {
                serve(inbox, &context, &stopping).await;
            });
        released.await.unwrap_or_else(|_| {
            if stop.is_cancelled() {
                Released::refused(podrefs)
            } else {
                Released::failed(podrefs, "whoever releases reservations ended early")
            }
        })
    }

    /// Removes those of all these requests.
    async fn release_all(
        &self,
        context: &Context,
        namespace: &str,
        requests: &[Request],
        stop: &CancellationToken,
    ) -> Outcomes {
        let mut outcomes = Outcomes::new(requests.len());
        let works = requests.iter().enumerate().flat_map(|(number, request)| {
            request.wanted.iter().map(move |wanted| Work {
                wanted,
                pool: &request.pool,
                request: number,
            })
        });
        let works: Vec<_> = works.collect();
        let mut found = self
            .find(namespace, &works, &mut outcomes)
            .await
            .into_iter();
        let mut late = Vec::new();
        let mut size = FIRST_ROUND;
        let mut patient = false;
        loop {
            let new: Vec<_> = found.by_ref().take(size - late.len()).collect();
            if new.is_empty() && late.is_empty() {
                return outcomes;
            }
            if !may_write(context, stop) {
                // No failure: whatever is left is postponed.
                let left = new.into_iter().chain(found).map(|(_, work)| work);
                for work in left.chain(late.into_iter().map(|marked: Marked<'_>| marked.work)) {
                    outcomes.refuse(work);
                }
                return outcomes;
            }
            let marked = self.mark_all(context, namespace, new, stop, &mut outcomes);
            late.extend(marked.await);
            let count = late.len();
            let begun = Instant::now();
            late = self
                .release_round(context, namespace, late, patient, &mut outcomes)
                .await;
            patient |= count > 0 && late.len() == count;
            if count == size || !late.is_empty() {
                size = round_that_takes(ROUND, count - late.len(), begun.elapsed());
                size = size.max(late.len());
            }
        }
    }

    /// Marks them all, a few at a time, until we may not write any more: then the rest is postponed.
    async fn mark_all<'r>(
        &self,
        context: &Context,
        namespace: &str,
        found: Vec<(Reservation, Work<'r>)>,
        stop: &CancellationToken,
        outcomes: &mut Outcomes,
    ) -> Vec<Marked<'r>> {
        let marking = found.into_iter().map(|(reservation, work)| async move {
            if !may_write(context, stop) {
                return Err((work, None));
            }
            let marked = self.mark(namespace, reservation, work).await;
            marked.map_err(|(work, error)| {
                shut_if_forbidden(context, &error);
                (work, Some(error))
            })
        });
        let mut all = Vec::new();
        for result in run(marking).await {
            match result {
                Ok(marked) => all.extend(marked),
                Err((work, Some(error))) => outcomes.fail(work, &error),
                Err((work, None)) => outcomes.refuse(work),
            }
        }
        all
    }

    /// Proves and removes some of them. Returns those whose turn came too late after the proof, which
    /// may be all unless it is `patient`, and those that nobody may delete any more.
    async fn release_round<'r>(
        &self,
        context: &Context,
        namespace: &str,
        marked: Vec<Marked<'r>>,
        patient: bool,
        outcomes: &mut Outcomes,
    ) -> Vec<Marked<'r>> {
        let (begun, proven, mut alive) = self.prove(marked, outcomes).await;
        let (proven, used) = without_row(context, namespace, proven, outcomes).await;
        alive.extend(used);
        let mut late = Vec::new();
        // Where proofs themselves take so long, so may what follows, or it would never end: the first
        // DELETEs begin at once.
        let latest = if patient {
            LATEST.max(begun.elapsed().mul_f64(PATIENCE))
        } else {
            LATEST
        };
        let deleting = proven.into_iter().map(|one| async move {
            let age = begun.elapsed();
            if age > latest || !context.gate.wait().is_zero() {
                return Err(one);
            }
            let counters = &context.counters;
            counters.longest_proof_age_ms.raise_to(age.as_millis());
            let deleted = self.delete(namespace, one).await;
            if let Err((_, error)) = &deleted {
                shut_if_forbidden(context, error);
            }
            Ok(deleted)
        });
        for result in run(deleting).await {
            match result {
                Ok(Ok(work)) => outcomes.deleted(work),
                Ok(Err((work, error))) => outcomes.fail(work, &error),
                Err(Proven(marked)) => late.push(marked),
            }
        }
        for result in run(alive
            .into_iter()
            .map(|marked| self.restore(namespace, marked)))
        .await
        {
            if let Err((work, error)) = result {
                outcomes.fail(work, &error);
            }
        }
        late
    }

    /// Reads the pods of marked reservations, which are marked by now: when that began, those proven
    /// absent, and those that are there. Nothing else makes a [`Proven`].
    async fn prove<'r>(
        &self,
        marked: Vec<Marked<'r>>,
        outcomes: &mut Outcomes,
    ) -> (Instant, Vec<Proven<'r>>, Vec<Marked<'r>>) {
        let mut asked = Asked::new();
        for marked in &marked {
            let wanted = marked.work.wanted;
            let state = asked.entry(wanted.row.podref.clone()).or_default();
            *state |= wanted.fact != Fact::Absent;
        }
        let (begun, presence) = self.prover.presence(&asked).await;
        let (mut proven, mut alive) = (Vec::new(), Vec::new());
        for marked in marked {
            let wanted = marked.work.wanted;
            let found = presence.get(&wanted.row.podref);
            match wanted.fact.check(found, wanted.row.address) {
                Finding::Holds => proven.push(Proven(marked)),
                Finding::DoesNot => alive.push(marked),
                Finding::Unknown(reason) => outcomes.fail_for(marked.work, reason.into_string()),
            }
        }
        (begun, proven, alive)
    }

    /// The reservations of the rows, found by parsing names.
    async fn find<'r>(
        &self,
        namespace: &str,
        works: &[Work<'r>],
        outcomes: &mut Outcomes,
    ) -> Vec<(Reservation, Work<'r>)> {
        let found = if works.len() <= FEW {
            self.api.find_by_name(namespace, works).await
        } else {
            self.api.find_in_list(namespace, works).await
        };
        found.unwrap_or_else(|error| {
            for work in works {
                outcomes.fail(*work, &error);
            }
            Vec::new()
        })
    }

    /// Makes sure that no ADD accepts the reservation any more; `None` when it is gone.
    async fn mark<'r>(
        &self,
        namespace: &str,
        reservation: Reservation,
        work: Work<'r>,
    ) -> Result<Option<Marked<'r>>, (Work<'r>, CallError)> {
        let wanted = work.wanted;
        if wanted.fact == Fact::Taken && !reservation.is_claimed() {
            return Ok(None);
        }
        let mark = |reservation: Reservation| Marked {
            claimed: reservation.is_claimed(),
            reservation,
            work,
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
            Err(error) => Err((work, error)),
        }
    }

    /// Deletes it; the work, if it was there.
    async fn delete<'r>(
        &self,
        namespace: &str,
        Proven(marked): Proven<'r>,
    ) -> Result<Option<Work<'r>>, (Work<'r>, CallError)> {
        let Marked {
            reservation, work, ..
        } = marked;
        match self.api.delete(namespace, &reservation).await {
            Ok(()) => {
                let podref = &work.wanted.row.podref;
                info!(namespace, reservation = reservation.name, %podref, "freed reservation");
                Ok(Some(work))
            }
            Err(error) if ReservationApi::is_absent(&error, &reservation.name) => Ok(None),
            Err(error) => Err((work, error)),
        }
    }

    /// The pod is back: whoever accepted the reservation keeps it.
    async fn restore<'r>(
        &self,
        namespace: &str,
        marked: Marked<'r>,
    ) -> Result<(), (Work<'r>, CallError)> {
        let Marked {
            reservation,
            work,
            claimed,
        } = marked;
        if !claimed {
            return Ok(());
        }
        match self
            .api
            .patch(namespace, &reservation.name, reservation.restore())
            .await
        {
            Ok(_) => {
                let podref = &work.wanted.row.podref;
                debug!(namespace, reservation = reservation.name, %podref, "its pod is back, reservation kept");
                Ok(())
            }
            Err(error) if ReservationApi::is_absent(&error, &reservation.name) => Ok(()),
            Err(error) => {
                warn!(namespace, reservation = reservation.name, %error, "claimed reservation not given back");
                Err((work, error))
            }
        }
    }
}

/// Whether another write may begin.
fn may_write(context: &Context, stop: &CancellationToken) -> bool {
    !stop.is_cancelled() && context.gate.wait().is_zero()
}

/// At once, so that thousands of others are not refused as well.
fn shut_if_forbidden(context: &Context, error: &CallError) {
    if error.answer() == Answer::Forbidden {
        context.gate.refused("release reservations", error);
    }
}

/// Releases the reservations of one namespace as long as there are some.
async fn serve(mut inbox: Inbox<String, Request>, context: &Context, stop: &CancellationToken) {
    let releaser = &context.releaser;
    while let Some(mut requests) = inbox.take() {
        let works: usize = requests.iter().map(|request| request.wanted.len()).sum();
        if works > FEW {
            let begun = Instant::now();
            loop {
                stop.run_until_cancelled(sleep(GATHER)).await;
                let more = inbox.take_more();
                let is_all = more.is_empty() || begun.elapsed() >= LONGEST_GATHERING;
                requests.extend(more);
                if is_all || stop.is_cancelled() {
                    break;
                }
            }
        }
        let namespace = inbox.key();
        let outcomes = releaser
            .release_all(context, namespace, &requests, stop)
            .await;
        for (request, released) in requests.into_iter().zip(outcomes.into_inner()) {
            // Nobody waits any more when we are shutting down.
            let _ = request.done.send(released);
        }
    }
}

/// How many take so long, if this many took that long.
fn round_that_takes(wanted: Duration, size: usize, took: Duration) -> usize {
    let (wanted, took) = (wanted.as_millis(), took.as_millis().max(1));
    let next = u128::try_from(size).unwrap_or(u128::MAX) * wanted / took;
    usize::try_from(next).map_or(LARGEST_ROUND, |next| {
        next.clamp(SMALLEST_ROUND, LARGEST_ROUND)
    })
}

/// A few at a time.
async fn run<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    // Collected first, or the compiler cannot tell that the whole is Send.
    stream::iter(futures.collect::<Vec<_>>())
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await
}
