//! Reservations of rows that are gone: find, claim, prove, delete (docs/safety.md).
//!
//! The reservations of one namespace are deleted together, whatever pools their rows were in. This file gathers the
//! requests of turns in groups. [`find`] reads the reservations, in one LIST if they are many. [`rounds`] deletes them in rounds:
//! each has one proof, and ends while the proof is fresh. [`steps`] are the steps of one reservation, and their types
//! allow only the right order.

mod find;
mod outcome;
mod rounds;
mod rows;
mod steps;

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use ipgc_core::{pool::PoolKey, refusal::Claims, work::Wanted};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::outcome::{Left, Released};
use super::{
    batches::{Batches, Inbox},
    context::Context,
    prover::Prover,
    reservation_api::{FEW, ReservationApi},
};

/// If there are many, this time passes before the first round: the requests for other pools come at the same tick.
const GATHER: Duration = Duration::from_millis(300);
/// Longest time before the first round, however many come.
const LONGEST_GATHERING: Duration = Duration::from_secs(2);

/// A group of reservations of a namespace that takes longer holds up the next one no more, up to so many groups.
const LONG: Duration = Duration::from_secs(5);
const GROUPS: usize = 4;

/// Reservations of rows that were in one pool; or, where there was no row, would have been.
struct Request {
    pool: PoolKey,
    wanted: Vec<Wanted>,
    done: oneshot::Sender<Released>,
}

/// One of them, and the request that it belongs to.
#[derive(Clone, Copy)]
pub struct Work<'r> {
    /// The reservation that is to be deleted.
    pub wanted: &'r Wanted,
    pool: &'r PoolKey,
    request: usize,
}

/// Releases reservations.
pub struct Releaser {
    api: ReservationApi,
    prover: Prover,
    requests: Batches<String, Request>,
    /// Whether reservations may be claimed, by their namespace.
    claims: Mutex<HashMap<String, Claims>>,
    /// Where they may not, one is tried again in so long.
    sweep_interval: Duration,
}

impl Releaser {
    /// Writes through `api`, in `tasks`; proves with `prover`. Sweeps come in this interval.
    pub fn new(
        api: ReservationApi,
        prover: Prover,
        tasks: TaskTracker,
        sweep_interval: Duration,
    ) -> Self {
        Self {
            api,
            prover,
            requests: Batches::new(tasks),
            claims: Mutex::default(),
            sweep_interval,
        }
    }

    /// Removes the reservations of these rows, which were in `pool` or would be.
    ///
    /// After `stop` no round is begun; the rest is postponed then.
    pub async fn release(
        self: &Arc<Self>,
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
        let (this, context, stopping) = (Arc::clone(self), Arc::clone(context), stop.clone());
        self.requests
            .submit(pool.namespace.clone(), request, |inbox| async move {
                this.serve(inbox, &context, &stopping).await;
            });
        released.await.unwrap_or_else(|_| {
            let left = if stop.is_cancelled() {
                Left::Postponed(Duration::ZERO)
            } else {
                let reason = "whoever releases reservations ended early";
                Left::Failed(reason.to_owned(), Duration::ZERO)
            };
            let podrefs = podrefs.into_iter();
            Released {
                left: podrefs.map(|podref| (podref, left.clone())).collect(),
                ..Released::default()
            }
        })
    }

    /// Releases the reservations of one namespace as long as there are some: one group after the other. A group that
    /// takes long, since an answer does not come, holds up the next one for a moment only.
    async fn serve(
        &self,
        mut inbox: Inbox<String, Request>,
        context: &Context,
        stop: &CancellationToken,
    ) {
        let namespace = inbox.key().clone();
        let mut groups = FuturesUnordered::new();
        loop {
            let requests = if groups.is_empty() {
                let Some(requests) = inbox.take() else { return };
                requests
            } else {
                inbox.take_more()
            };
            if !requests.is_empty() {
                let mut gathering = pin!(gather(&mut inbox, requests, stop));
                let requests = loop {
                    tokio::select! {
                        requests = &mut gathering => break requests,
                        Some(()) = groups.next() => {}
                    }
                };
                let namespace = &namespace;
                groups.push(async move {
                    let all = self.release_all(context, namespace, &requests, stop);
                    let all = all.await;
                    for (request, released) in requests.into_iter().zip(all) {
                        // Nobody waits any more when we are shutting down.
                        let _ = request.done.send(released);
                    }
                });
            }
            let may_begin = groups.len() < GROUPS;
            tokio::select! {
                _ = groups.next() => {}
                () = sleep(LONG), if may_begin => {}
            }
        }
    }
}

/// The requests, and if they are many those that come a moment later.
async fn gather(
    inbox: &mut Inbox<String, Request>,
    mut requests: Vec<Request>,
    stop: &CancellationToken,
) -> Vec<Request> {
    let works: usize = requests.iter().map(|request| request.wanted.len()).sum();
    let begun = Instant::now();
    let mut is_all = works <= FEW;
    while !is_all {
        stop.run_until_cancelled(sleep(GATHER)).await;
        let more = inbox.take_more();
        is_all = more.is_empty() || begun.elapsed() >= LONGEST_GATHERING || stop.is_cancelled();
        requests.extend(more);
    }
    requests
}
