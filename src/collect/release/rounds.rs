//! Rounds of reservations that share a proof: which are read, marked, proven and deleted when.
//!
//! What the server does not do in the time that a proof is good for is proven again in the next round. Nothing is
//! decided here: a step that comes too late, or that we may not do any more, is left out.

use std::{collections::HashMap, sync::atomic::Ordering, time::Duration};

use futures::{StreamExt, stream};
use ipgc_core::{address::reservation_names, fact::Fact, reservation::Reservation, time::Moment};

use super::{
    Deletion, Request,
    rows::without_row,
    steps::{Marked, Proven, prove},
};
use crate::collect::{
    context::Context,
    gate::Access,
    released::{Left, Released},
};

/// Writes in flight at a time.
const CONCURRENCY: usize = 16;
/// Reservations to a round: a quick server does them in a second, and on a slow one some come too late.
const ROUND: usize = 250;
/// Reservations that are read together, and kept until their rounds come: a kilobyte each.
const READ_AT_ONCE: usize = 20_000;
/// No DELETE begins so long after the proof began; it is proven anew.
const LATEST: Duration = Duration::from_millis(1_800);
/// Where a whole round came too late, this many times as long as the proof and the reads after it took.
const PATIENCE: f64 = 1.25;

impl Context {
    /// Removes those of all these requests, in rounds.
    pub(super) async fn release_all(&self, namespace: &str, requests: &[Request]) -> Vec<Released> {
        let mut released: Vec<_> = requests.iter().map(|_| Released::default()).collect();
        let deletions = requests.iter().enumerate().flat_map(|(number, request)| {
            let (pool, wanted, since) = request;
            wanted.iter().map(move |wanted| Deletion {
                wanted,
                pool,
                since: *since,
                request: number,
            })
        });
        let deletions: Vec<_> = deletions.collect();
        let mut unread = deletions.chunks(READ_AT_ONCE);
        let mut found = Vec::new().into_iter();
        let mut late = Vec::new();
        let mut patient = false;
        let is_over = || self.stop.is_cancelled() || !self.may_write();
        loop {
            while found.len() == 0
                && !is_over()
                && let Some(deletions) = unread.next()
            {
                match find(self, namespace, deletions).await {
                    Ok(read) => found = read.into_iter(),
                    // The next read would fail too, and all would wait for that.
                    Err(left) => {
                        for deletion in deletions.iter().chain(unread.by_ref().flatten()) {
                            deletion.leave(&mut released, left.clone());
                        }
                    }
                }
            }
            let new: Vec<_> = found.by_ref().take(ROUND - late.len()).collect();
            if new.is_empty() && late.is_empty() && unread.len() == 0 {
                break;
            }
            if is_over() {
                // No failure: whatever is left is postponed.
                let left = new.into_iter().chain(found).map(|(_, deletion)| deletion);
                let left = left.chain(unread.flatten().copied());
                for deletion in left.chain(late.into_iter().map(|it: Marked<'_>| it.deletion())) {
                    deletion.leave(&mut released, Left::Postponed(self.gate.wait()));
                }
                break;
            }
            let marked = self.mark_all(namespace, new, &mut released).await;
            late.extend(only_due(self, marked, &mut released));
            let count = late.len();
            late = self
                .release_round(namespace, late, patient, &mut released)
                .await;
            patient |= count > 0 && late.len() == count;
        }
        // All wait for the last one, so that they are proven and deleted together.
        let until = released.iter().map(|it| it.until).max();
        for own in &mut released {
            own.until = until.unwrap_or(Moment::EPOCH);
        }
        released
    }

    /// Marks them all, a few at a time, until we may not write any more: then the rest is postponed.
    async fn mark_all<'r>(
        &self,
        namespace: &str,
        found: Vec<(Reservation, Deletion<'r>)>,
        released: &mut [Released],
    ) -> Vec<Marked<'r>> {
        let mark = async |(reservation, deletion)| {
            if self.stop.is_cancelled() || !self.may_write() {
                return Err((deletion, Left::Postponed(self.gate.wait())));
            }
            self.mark(reservation, deletion).await
        };
        let mut found = found.into_iter();
        let mut results = Vec::new();
        // One claim is tried then, and what becomes of it says what becomes of the others.
        while self.claims_are_forbidden(namespace)
            && let Some(next) = found.next()
        {
            results.push(mark(next).await);
        }
        results.extend(a_few_at_a_time(found.map(mark).collect()).await);
        let mut all = Vec::new();
        for result in results {
            match result {
                Ok(marked) => all.extend(marked),
                Err((deletion, left)) => deletion.leave(released, left),
            }
        }
        all
    }

    /// Proves and removes some of them. Returns those whose turn came too late after the proof, which
    /// may be all unless it is `patient`, and those that nobody may delete any more.
    async fn release_round<'r>(
        &self,
        namespace: &str,
        marked: Vec<Marked<'r>>,
        patient: bool,
        released: &mut [Released],
    ) -> Vec<Marked<'r>> {
        // A reservation that is ripe later was proven too early.
        let now = self.clock.now();
        let (begun, proven, mut kept) = prove(self, marked, released).await;
        let (proven, used) = without_row(self, namespace, proven, released).await;
        kept.extend(used);
        let is_ripe = |proven: &Proven<'_>| proven.marked().waits_until(now).is_none();
        let (proven, young): (Vec<_>, Vec<_>) = proven.into_iter().partition(is_ripe);
        for young in young.into_iter().map(Proven::into_marked) {
            let until = young.waits_until(now).unwrap_or(now);
            young.deletion().wait(released, until);
        }
        let mut late = Vec::new();
        // Where proofs themselves take so long, so may what follows, or it would never end: the first
        // DELETEs begin at once.
        let latest = if patient {
            LATEST.max(begun.elapsed().mul_f64(PATIENCE))
        } else {
            LATEST
        };
        let delete = async |one: Proven<'r>| {
            let age = begun.elapsed();
            if age > latest || !self.may_write() {
                return Err(one);
            }
            let millis = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
            let longest = &self.counters.longest_proof_age_ms;
            longest.inner().fetch_max(millis, Ordering::Relaxed);
            Ok(one.delete(self).await)
        };
        let deleting = proven.into_iter().map(delete).collect();
        for result in a_few_at_a_time(deleting).await {
            match result {
                Ok(Ok(Some(deletion))) => released[deletion.request].deleted += 1,
                Ok(Ok(None)) => {}
                Ok(Err((deletion, left))) => deletion.leave(released, left),
                Err(proven) => late.push(proven.into_marked()),
            }
        }
        // Otherwise the copy that leads gives them back: its sweep finds claims without an end.
        kept.retain(|_| self.is_leader());
        let given_back = kept.into_iter().map(|marked| marked.give_back(self));
        let given_back = a_few_at_a_time(given_back.collect()).await;
        for (deletion, left) in given_back.into_iter().flatten() {
            deletion.leave(released, left);
        }
        late
    }
}

/// The reservations of the rows, looked up by every name that they may have. What is found is as it was then. An
/// error, if they cannot be read, is what becomes of the deletions.
async fn find<'r>(
    context: &Context,
    namespace: &str,
    deletions: &[Deletion<'r>],
) -> Result<Vec<(Reservation, Deletion<'r>)>, Left> {
    let mut by_name = HashMap::<_, Vec<_>>::new();
    for deletion in deletions {
        for network in deletion.wanted.networks.iter() {
            for name in reservation_names(deletion.wanted.row.address, network.as_deref()) {
                let of_name = by_name.entry(name).or_default();
                of_name.push((*deletion, network.as_deref()));
            }
        }
    }
    let names = by_name.keys().cloned().collect();
    let found = context.reservations_named(namespace, &names).await;
    let found = found
        .map_err(|error| Left::after(&context.gate, Access::Read, "read reservations", &error))?;
    let mut own = Vec::new();
    for (name, reservation) in found {
        for (deletion, network) in by_name.remove(&name).unwrap_or_default() {
            if reservation.belongs_to(&deletion.wanted.row, network) {
                own.push((reservation.clone(), deletion));
            }
        }
    }
    Ok(own)
}

/// Those to be proven now. Others were claimed just now, and an ADD that accepted one before that may yet write its row:
/// they wait. But what may have to be given back does so at once.
fn only_due<'r>(
    context: &Context,
    marked: Vec<Marked<'r>>,
    released: &mut [Released],
) -> Vec<Marked<'r>> {
    let now = context.clock.now();
    let evidence = context.evidence();
    let mut due = Vec::with_capacity(marked.len());
    for marked in marked {
        let Deletion { wanted, .. } = marked.deletion();
        let is_there = || evidence.pods.live(wanted.row.podref.as_str()).is_some();
        match marked.waits_until(now) {
            Some(until) if wanted.fact != Fact::Taken && !is_there() => {
                marked.deletion().wait(released, until);
            }
            _ => due.push(marked),
        }
    }
    due
}

/// The results of the work for all reservations of a round, a few of which are at work at a time.
async fn a_few_at_a_time<F: Future>(work: Vec<F>) -> Vec<F::Output> {
    let results = stream::iter(work).buffer_unordered(CONCURRENCY);
    results.collect().await
}
