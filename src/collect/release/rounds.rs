//! Rounds of reservations that share a proof: which are marked, proven and deleted when.
//!
//! What the server does not do in the time that a proof is good for is proven again in the next round. Nothing is
//! decided here: a step that comes too late, or that we may not do any more, is left out.

use std::{
    sync::{Mutex, atomic::Ordering},
    time::Duration,
    vec,
};

use futures::{StreamExt, stream::FuturesUnordered};
use ipgc_core::{fact::Fact, reservation::Reservation};
use tokio_util::sync::CancellationToken;

use super::{
    Releaser, Request, Work,
    outcome::{Left, Outcomes, Released},
    rows::without_row,
    steps::{Marked, Proven},
};
use crate::{collect::context::Context, lock::lock};

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

impl Releaser {
    /// Removes those of all these requests, in rounds.
    pub(super) async fn release_all(
        &self,
        context: &Context,
        namespace: &str,
        requests: &[Request],
        stop: &CancellationToken,
    ) -> Vec<Released> {
        let gate = &context.gate;
        let mut outcomes = Outcomes::new(requests.len());
        let works = requests.iter().enumerate().flat_map(|(number, request)| {
            request.wanted.iter().map(move |wanted| Work {
                wanted,
                pool: &request.pool,
                request: number,
            })
        });
        let works: Vec<_> = works.collect();
        let mut unread = works.chunks(READ_AT_ONCE);
        let mut found = Vec::new().into_iter();
        let mut late = Vec::new();
        let mut patient = false;
        let is_over = || stop.is_cancelled() || !gate.is_open();
        loop {
            while found.len() == 0
                && !is_over()
                && let Some(works) = unread.next()
            {
                match self.find(context, namespace, works).await {
                    Ok(read) => found = read.into_iter(),
                    // The next read would fail too, and all would wait for that.
                    Err(left) => {
                        for work in works.iter().chain(unread.by_ref().flatten()) {
                            outcomes.leave(*work, left.clone());
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
                let left = new.into_iter().chain(found).map(|(_, work)| work);
                let left = left.chain(unread.flatten().copied());
                for work in left.chain(late.into_iter().map(|marked: Marked<'_>| marked.work())) {
                    outcomes.leave(work, Left::Postponed(gate.wait()));
                }
                break;
            }
            let marked = self.mark_all(context, stop, namespace, new, &mut outcomes);
            let marked = marked.await;
            late.extend(only_due(context, marked, &mut outcomes));
            let count = late.len();
            late = self
                .release_round(context, namespace, late, patient, &mut outcomes)
                .await;
            patient |= count > 0 && late.len() == count;
        }
        outcomes.into_inner()
    }

    /// Marks them all, a few at a time, until we may not write any more: then the rest is postponed.
    async fn mark_all<'r>(
        &self,
        context: &Context,
        stop: &CancellationToken,
        namespace: &str,
        found: Vec<(Reservation, Work<'r>)>,
        outcomes: &mut Outcomes,
    ) -> Vec<Marked<'r>> {
        let found = Pile::new(found);
        let mark_next = || async {
            let (reservation, work) = found.next()?;
            Some(if stop.is_cancelled() || !context.gate.is_open() {
                Err((work, Left::Postponed(context.gate.wait())))
            } else {
                self.mark(context, namespace, reservation, work).await
            })
        };
        let mut results = Vec::new();
        // One claim is tried then, and what becomes of it says what becomes of the others.
        while self.claims_are_forbidden(namespace)
            && let Some(result) = mark_next().await
        {
            results.push(result);
        }
        let marking = || async {
            let mut results = Vec::new();
            while let Some(result) = mark_next().await {
                results.push(result);
            }
            results
        };
        results.extend(hands(marking).await);
        let mut all = Vec::new();
        for result in results {
            match result {
                Ok(marked) => all.extend(marked),
                Err((work, left)) => outcomes.leave(work, left),
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
        // A reservation that is ripe later was proven too early.
        let now = context.clock.now();
        let (begun, proven, mut kept) = self.prove(context, marked, outcomes).await;
        let (proven, used) = without_row(context, namespace, proven, outcomes).await;
        kept.extend(used);
        let is_ripe = |proven: &Proven<'_>| proven.marked().waits_until(now).is_none();
        let (proven, young): (Vec<_>, Vec<_>) = proven.into_iter().partition(is_ripe);
        for young in young.into_iter().map(Proven::into_marked) {
            outcomes.wait(young.work(), young.waits_until(now).unwrap_or(now));
        }
        let mut late = Vec::new();
        // Where proofs themselves take so long, so may what follows, or it would never end: the first
        // DELETEs begin at once.
        let latest = if patient {
            LATEST.max(begun.elapsed().mul_f64(PATIENCE))
        } else {
            LATEST
        };
        let proven = Pile::new(proven);
        let deleting = || async {
            let mut results = Vec::new();
            while let Some(one) = proven.next() {
                let age = begun.elapsed();
                if age > latest || !context.gate.is_open() {
                    results.push(Err(one));
                    continue;
                }
                let millis = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
                let longest = &context.counters.longest_proof_age_ms;
                longest.inner().fetch_max(millis, Ordering::Relaxed);
                results.push(Ok(self.delete(context, namespace, one).await));
            }
            results
        };
        for result in hands(deleting).await {
            match result {
                Ok(Ok(work)) => outcomes.deleted(work),
                Ok(Err((work, left))) => outcomes.leave(work, left),
                Err(proven) => late.push(proven.into_marked()),
            }
        }
        // Otherwise the copy that leads gives them back: its sweep finds claims without an end.
        kept.retain(|_| context.gate.leads());
        let kept = Pile::new(kept);
        let restoring = || async {
            let mut results = Vec::new();
            while let Some(marked) = kept.next() {
                results.push(self.restore(context, namespace, marked).await);
            }
            results
        };
        for result in hands(restoring).await {
            if let Err((work, left)) = result {
                outcomes.leave(work, left);
            }
        }
        late
    }
}

/// Those to be proven now. Others were claimed just now, and an ADD that accepted one before that may yet write its row:
/// they wait. But what may have to be given back does so at once.
fn only_due<'r>(
    context: &Context,
    marked: Vec<Marked<'r>>,
    outcomes: &mut Outcomes,
) -> Vec<Marked<'r>> {
    let now = context.clock.now();
    let evidence = context.evidence();
    let mut due = Vec::with_capacity(marked.len());
    for marked in marked {
        let Work { wanted, .. } = marked.work();
        let is_there = || evidence.pods.live(wanted.row.podref.as_str()).is_some();
        match marked.waits_until(now) {
            Some(until) if wanted.fact != Fact::Taken && !is_there() => {
                outcomes.wait(marked.work(), until);
            }
            _ => due.push(marked),
        }
    }
    due
}

/// Work that several tasks share: each takes the next item.
struct Pile<T>(Mutex<vec::IntoIter<T>>);

impl<T> Pile<T> {
    fn new(items: Vec<T>) -> Self {
        Self(Mutex::new(items.into_iter()))
    }

    fn next(&self) -> Option<T> {
        lock(&self.0).next()
    }
}

/// A few that work beside each other. Thousands of requests that wait for their turn would be some kilobytes each.
/// A hand takes its items itself: of a closure that is given them the compiler cannot tell that the whole is Send.
async fn hands<F: Future<Output = Vec<R>>, R>(hand: impl Fn() -> F) -> impl Iterator<Item = R> {
    let hands: FuturesUnordered<_> = (0..CONCURRENCY).map(|_| hand()).collect();
    let results: Vec<_> = hands.collect().await;
    results.into_iter().flatten()
}
