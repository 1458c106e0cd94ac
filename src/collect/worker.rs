//! Workers: take an ended incarnation from the queue, find its pools, hand it to their writers,
//! and give it back to the queue with the outcome.
//!
//! A worker does not wait for the writers, or a mass delete would reach them in batches no larger
//! than the number of workers.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ipgc_core::{
    evidence::Ended,
    networks::{Request, Status},
    patch::Answer,
};
use tokio::sync::oneshot;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument, debug, info_span, warn};

use super::{
    gate::Gate,
    item::Item,
    job::{Job, Outcome},
    resolve::{Resolved, Resolver},
    writer::Writers,
};
use crate::{
    calls::CallError,
    clock::Clock,
    queue::{Queue, Retry},
    report::{Counters, Events},
    watch::PodIndex,
};

/// The queue of ended incarnations, keyed by uid.
pub type EndedQueue = Queue<Box<str>, Arc<Item>>;

/// What all workers share.
pub struct Shared {
    /// Where items come from and go back to.
    pub queue: Arc<EndedQueue>,
    /// Finds pools.
    pub resolver: Resolver,
    /// Frees rows.
    pub writers: Writers,
    /// Other incarnations.
    pub index: Arc<Mutex<PodIndex>>,
    /// Shut while we are refused.
    pub gate: Arc<Gate>,
    /// The present.
    pub clock: Clock,
    /// Tells others.
    pub events: Events,
    /// Counts.
    pub counters: Arc<Counters>,
    /// Where the waiting for writers runs.
    pub tasks: TaskTracker,
    /// Whether we are shutting down, which is no failure of any item.
    pub stop: CancellationToken,
}

/// Works until `stop`. `number` tells this worker from the others in the log.
pub async fn run(shared: Arc<Shared>, number: usize, stop: CancellationToken) {
    let span = info_span!("worker", number);
    async {
        loop {
            let (uid, item) = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                next = shared.queue.next() => next,
            };
            Arc::clone(&shared).process(uid, item).await;
        }
    }
    .instrument(span)
    .await;
}

impl Shared {
    async fn process(self: Arc<Self>, uid: Box<str>, item: Arc<Item>) {
        let mut resolved = match self.resolver.resolve(&self.incarnations(&item)).await {
            Ok(resolved) => resolved,
            Err(error) => {
                self.give_back(&uid, &item, self.failure(&error));
                return;
            }
        };
        // What was begun is ended, even if nothing leads there any more.
        for removed in &item.progress().removed {
            let routes = resolved.pools.entry(removed.pool.clone()).or_default();
            for route in removed
                .routes
                .iter()
                .filter(|r| !routes.contains(r))
                .cloned()
                .collect::<Vec<_>>()
            {
                routes.push(route);
            }
        }
        self.report_unresolved(&item, &resolved);
        let mut waiting = Vec::with_capacity(resolved.pools.len());
        for (pool, routes) in resolved.pools {
            let (done, outcome) = oneshot::channel();
            let job = Job {
                item: Arc::clone(&item),
                routes: routes.into(),
                done,
            };
            self.writers.submit(pool, job);
            waiting.push(outcome);
        }
        if waiting.is_empty() {
            self.give_back(&uid, &item, Outcome::Done);
            return;
        }
        let shared = Arc::clone(&self);
        let settle = async move {
            let mut all = Outcome::Done;
            for outcome in waiting {
                let lost = || {
                    if shared.stop.is_cancelled() {
                        return Outcome::Postponed(Duration::ZERO);
                    }
                    Outcome::retry("its writer ended early".to_owned())
                };
                all = all.and(outcome.await.unwrap_or_else(|_| lost()));
            }
            shared.give_back(&uid, &item, all);
        };
        self.tasks.spawn(settle.in_current_span());
    }

    /// The item's incarnation, and others of its name, whose rows it may have taken over.
    fn incarnations(&self, item: &Item) -> Vec<Arc<Ended>> {
        let own = item.ended();
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = index.ended(own.podref());
        if !all.iter().any(|end| end.last.uid == own.last.uid) {
            all.push(Arc::clone(own));
        }
        all
    }

    fn failure(&self, error: &CallError) -> Outcome {
        if error.answer() == Answer::Forbidden {
            self.gate.refused("look for pools", error);
            return Outcome::Postponed(self.gate.wait());
        }
        Outcome::Retry {
            reason: format!("could not look for pools: {error}"),
            at_least: error.retry_after().unwrap_or(Duration::ZERO),
            later: None,
        }
    }

    fn give_back(&self, uid: &str, item: &Arc<Item>, outcome: Outcome) {
        let pod = item.ended().podref();
        match outcome {
            Outcome::Done => self.queue.finish(uid),
            Outcome::NotBefore(moment) => {
                let wait = self.clock.until(moment);
                debug!(%pod, %uid, ?wait, "not free to go yet");
                self.queue.defer(uid, wait);
            }
            Outcome::Postponed(wait) => self.queue.defer(uid, wait),
            Outcome::Retry {
                reason,
                at_least,
                later,
            } => match self.queue.retry(uid, at_least) {
                Retry::After(wait) => warn!(%pod, %uid, reason, ?wait, "will try again"),
                Retry::Exhausted => {
                    warn!(%pod, %uid, reason, "retries are used up");
                    self.counters.retries_exhausted.increment();
                    self.events.collection_failed(pod, uid);
                    if let Some(moment) = later {
                        // Another of its rows is not due yet. Full means left to the sweep, which
                        // was said above.
                        let wait = self.clock.until(moment);
                        let _ = self.queue.push(uid.into(), Arc::clone(item), wait);
                    }
                }
            },
        }
    }

    /// Says once for each incarnation what could not be read or followed.
    fn report_unresolved(&self, item: &Item, resolved: &Resolved) {
        if std::mem::replace(&mut item.progress().unresolved_reported, true) {
            return;
        }
        let last = &item.ended().last;
        let pod = &last.podref;
        if let Status::Malformed(reason) = &last.status {
            self.counters.annotations_unreadable.increment();
            warn!(%pod, %reason, "network-status cannot be read");
        }
        if let Request::Malformed(reason) = &last.request {
            self.counters.annotations_unreadable.increment();
            warn!(%pod, %reason, "networks annotation cannot be read");
        }
        if !resolved.unresolved.is_empty() {
            self.counters.left_to_sweep.increment();
            let networks = resolved.unresolved.len();
            let first = resolved.unresolved.iter().take(3).cloned();
            let first = first.collect::<Vec<_>>().join("; ");
            warn!(%pod, networks, reason = first, "network leads to no pool, its rows are left to the sweep");
        }
    }
}
