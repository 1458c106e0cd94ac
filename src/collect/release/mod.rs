//! Reservations of rows that are gone: find, claim, prove, delete (docs/safety.md).
//!
//! The reservations of one namespace are deleted together, whatever pools their rows were in. This file gathers the
//! requests of turns in groups. [`rounds`] reads the reservations, and deletes them in rounds: each has one proof, and
//! ends while the proof is fresh. [`steps`] are the steps of one reservation, and their types allow only the right order.

mod rounds;
mod rows;
mod steps;

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use ipgc_core::{pool::PoolKey, time::Moment, work::Wanted};
use tokio::time::sleep;

use super::{
    context::Context,
    groups::Inbox,
    released::{Left, Released},
};

/// A group of reservations of a namespace that takes longer holds up the next one no more, up to so many groups.
const LONG: Duration = Duration::from_secs(5);
const GROUPS: usize = 4;

/// The reservations of rows that were in one pool; or, where there was no row, would have been. News of the watch after
/// the moment were not regarded yet.
type Request = (PoolKey, Vec<Wanted>, Moment);

/// A reservation that is to be deleted, and the request that it belongs to.
#[derive(Clone, Copy)]
struct Deletion<'r> {
    wanted: &'r Wanted,
    pool: &'r PoolKey,
    since: Moment,
    request: usize,
}

impl Deletion<'_> {
    /// It is left. `released` are the results of all requests, in their order.
    fn leave(self, released: &mut [Released], left: Left) {
        let podref = self.wanted.row.podref.clone();
        released[self.request].left.push((podref, left));
    }

    /// It is claimed, and waits.
    fn wait(self, released: &mut [Released], until: Moment) {
        let own = &mut released[self.request];
        own.until = own.until.max(until);
        self.leave(released, Left::Claimed(self.wanted.row.address));
    }
}

impl Context {
    /// Removes the reservations of these rows, which were in `pool` or would be. News of the watch were regarded until
    /// `since`.
    ///
    /// After the stop no round is begun; the rest is postponed then.
    pub async fn release(
        self: &Arc<Self>,
        pool: &PoolKey,
        wanted: Vec<Wanted>,
        since: Moment,
    ) -> Released {
        let podrefs: Vec<_> = wanted.iter().map(|w| w.row.podref.clone()).collect();
        let serving = Arc::clone(self);
        let serve = |inbox| async move { serving.serve_releases(inbox).await };
        let request = (pool.clone(), wanted, since);
        let released = self
            .releases
            .ask(&self.tasks, &pool.namespace, request, serve);
        released.await.unwrap_or_else(|| {
            let reason = "whoever releases reservations ended early".to_owned();
            let left = Left::Failed(reason, Duration::ZERO);
            let podrefs = podrefs.into_iter();
            Released {
                left: podrefs.map(|podref| (podref, left.clone())).collect(),
                ..Released::default()
            }
        })
    }

    /// Releases the reservations of one namespace as long as there are some: one group after the other. A group that
    /// takes long, since an answer does not come, holds up the next one for a moment only.
    async fn serve_releases(&self, mut inbox: Inbox<Request, Released>) {
        let namespace = &inbox.namespace.clone();
        let mut groups = FuturesUnordered::new();
        loop {
            let jobs = if groups.is_empty() {
                let Some(jobs) = inbox.take() else { return };
                jobs
            } else {
                inbox.take_more()
            };
            if !jobs.is_empty() {
                groups.push(async move {
                    let (requests, answers): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
                    let all = self.release_all(namespace, &requests).await;
                    for (answer, released) in answers.into_iter().zip(all) {
                        // Nobody waits any more when we are shutting down.
                        let _ = answer.send(released);
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
