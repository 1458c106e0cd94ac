//! Workers: take an item from the queue, find its pools, hand it to their writers, and give it back
//! to the queue with the outcome.
//!
//! A worker does not wait for the writers, or a mass delete would reach them in batches no larger
//! than the number of workers.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use ipgc_core::{
    evidence::Ended,
    networks::{Request, Status},
    patch::Answer,
    podref::PodRef,
};
use tokio::sync::oneshot;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument, debug, info_span, warn};

use super::{
    evidence::Evidence,
    gate::{Access, Gate},
    item::{Found, Item, ItemQueue},
    job::{Job, Outcome, Waiting},
    nodes::NodeWaits,
    picked::Picked,
    resolve::{Resolved, Resolver},
    sweep::SweepRequests,
    writer::Writers,
};
use crate::{
    calls::CallError,
    clock::Clock,
    lock::lock,
    queue::Retry,
    report::{Counters, Events},
};

/// An item that waits for a node looks again after so long even if nothing was heard of the node:
/// it may have changed between the look and the wait.
const LOOK_AT_NODES: Duration = Duration::from_mins(1);
/// Whoever goes anyway when its wait is over does not look so often: of a mass each would read its pool every minute.
const LOOK_FOR_FENCE: Duration = Duration::from_mins(10);
/// Most pods of which it is remembered that they were given up; of more it is told twice.
const REMEMBERED: usize = 10_000;

/// What all workers share.
pub struct Shared {
    /// Where items come from and go back to.
    pub queue: Arc<ItemQueue>,
    /// Finds pools.
    pub resolver: Resolver,
    /// Frees rows.
    pub writers: Arc<Writers>,
    /// Other incarnations.
    pub evidence: Arc<Mutex<Evidence>>,
    /// Where items wait for nodes.
    pub waits: Arc<NodeWaits>,
    /// Asked for a sweep when retries are used up.
    pub sweeps: Arc<SweepRequests>,
    /// Shut while we are refused.
    pub gate: Arc<Gate>,
    /// The present.
    pub clock: Clock,
    /// Tells others.
    pub events: Events,
    /// Pods of which it was told that their retries are used up.
    pub given_up: Mutex<HashSet<PodRef>>,
    /// Counts.
    pub counters: Arc<Counters>,
    /// What a person picked.
    pub picked: Option<Arc<Picked>>,
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
            let (key, item) = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                next = shared.queue.next() => next,
            };
            Arc::clone(&shared).process(key, item).await;
        }
    }
    .instrument(span)
    .await;
}

impl Shared {
    async fn process(self: Arc<Self>, key: Box<str>, item: Arc<Item>) {
        self.waits.unpark(&key);
        let mut resolved = match item.incarnation() {
            None => Resolved::default(),
            Some(ended) => match self.resolver.resolve(&self.incarnations(ended)).await {
                Ok(resolved) => resolved,
                Err(error) => {
                    self.give_back(&key, &item, self.failure(&error));
                    return;
                }
            },
        };
        // What was begun is ended, even if nothing leads there any more.
        for removed in &item.progress().removed {
            let routes = resolved.pools.entry(removed.pool.clone()).or_default();
            for route in removed.routes.iter() {
                if !routes.contains(route) {
                    routes.push(route.clone());
                }
            }
        }
        let claimed: Vec<_> = item
            .progress()
            .claimed
            .iter()
            .map(|(pool, _)| pool.clone())
            .collect();
        let Found { pools: found, .. } = item.finds();
        for pool in found.keys().chain(&claimed) {
            resolved.pools.entry(pool.clone()).or_default();
        }
        self.report_unresolved(&item, &resolved);
        let mut waiting = Vec::with_capacity(resolved.pools.len());
        for (pool, routes) in resolved.pools {
            let (done, outcome) = oneshot::channel();
            let job = Job {
                item: Arc::clone(&item),
                orphans: found.get(&pool).cloned().unwrap_or_default(),
                routes: routes.into(),
                done,
            };
            self.writers.submit(pool, job);
            waiting.push(outcome);
        }
        if waiting.is_empty() {
            self.give_back(&key, &item, Outcome::Done);
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
                    Outcome::retry("its writer ended early".to_owned(), Duration::ZERO)
                };
                all = all.and(outcome.await.unwrap_or_else(|_| lost()));
            }
            shared.give_back(&key, &item, all);
        };
        self.tasks.spawn(settle.in_current_span());
    }

    /// An incarnation, and others of its name, whose rows it may have taken over.
    fn incarnations(&self, own: &Arc<Ended>) -> Vec<Arc<Ended>> {
        let mut all = lock(&self.evidence).pods.ended(own.podref());
        if !all.iter().any(|end| end.last.uid == own.last.uid) {
            all.push(Arc::clone(own));
        }
        all
    }

    fn failure(&self, error: &CallError) -> Outcome {
        if error.answer() == Answer::Forbidden {
            self.gate.refused(Access::Read, "look for pools", error);
            return Outcome::Postponed(self.gate.wait());
        }
        let at_least = error.retry_after().unwrap_or_default();
        Outcome::retry(format!("could not look for pools: {error}"), at_least)
    }

    fn give_back(&self, key: &str, item: &Arc<Item>, outcome: Outcome) {
        let pod = item.podref();
        let is_begun = || {
            let progress = item.progress();
            !(progress.removed.is_empty() && progress.claimed.is_empty())
        };
        if let Some(picked) = &self.picked
            && matches!(outcome, Outcome::Done | Outcome::Waiting(_))
            && !is_begun()
        {
            picked.settled(pod);
        }
        match outcome {
            Outcome::Done => {
                self.queue.finish(key);
                lock(&self.given_up).remove(pod);
            }
            Outcome::Waiting(waiting) => {
                let wait = self.wait_for(key, waiting);
                debug!(%pod, key, ?wait, "not free to go yet");
                self.queue.defer(key, wait);
            }
            Outcome::Postponed(wait) => self.queue.defer(key, wait),
            Outcome::Retry {
                reason,
                at_least,
                later,
            } => match self.queue.retry(key, at_least) {
                Retry::After(wait) if self.picked.is_some() => {
                    self.tell_failed(pod, &reason, false);
                    debug!(%pod, key, reason, ?wait, "will try again");
                }
                Retry::After(wait) => warn!(%pod, key, reason, ?wait, "will try again"),
                Retry::Exhausted => {
                    warn!(%pod, key, reason, "retries are used up");
                    self.tell_failed(pod, &reason, true);
                    self.counters.retries_exhausted.increment();
                    self.report_given_up(item);
                    // What a sweep found, the next one finds again in its own time.
                    if item.incarnation().is_some() {
                        self.sweeps.request();
                    }
                    if !later.is_empty() {
                        // Another of its rows is not due yet. Full means left to the sweep, which
                        // was said above.
                        let wait = self.wait_for(key, later);
                        if self.queue.push(key.into(), Arc::clone(item), wait).is_err() {
                            self.waits.unpark(key);
                        }
                    }
                }
            },
        }
    }

    fn tell_failed(&self, pod: &PodRef, reason: &str, is_given_up: bool) {
        if let Some(picked) = &self.picked {
            picked.failed(pod, reason, is_given_up);
        }
    }

    /// Says it once: sweeps try again as long as the failure lasts, and fail again.
    fn report_given_up(&self, item: &Item) {
        // Another copy tells it. Should this one lead one day, it is news then.
        if !self.gate.leads() {
            return;
        }
        let mut given_up = lock(&self.given_up);
        if given_up.len() >= REMEMBERED {
            given_up.clear();
        }
        if given_up.insert(item.podref().clone()) {
            let uid = item.incarnation().map_or("", |ended| &ended.last.uid);
            self.events.collection_failed(item.podref(), uid);
        }
    }

    /// How long an item waits, at the most, for whatever it waits for.
    fn wait_for(&self, key: &str, waiting: Waiting) -> Duration {
        if let Some(read) = waiting.read
            && !self.waits.park_for_read(key, read)
        {
            return Duration::ZERO;
        }
        let until = waiting.until.map(|moment| self.clock.until(moment));
        if waiting.nodes.is_empty() {
            return until.unwrap_or_default();
        }
        self.waits.park(key, waiting.nodes);
        let look = if waiting.goes_anyway {
            LOOK_FOR_FENCE
        } else {
            LOOK_AT_NODES
        };
        until.map_or(look, |until| until.min(look))
    }

    /// Says once for each incarnation what could not be read or followed.
    fn report_unresolved(&self, item: &Item, resolved: &Resolved) {
        if std::mem::replace(&mut item.progress().unresolved_reported, true) {
            return;
        }
        let Some(last) = item.incarnation().map(|ended| &ended.last) else {
            return;
        };
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
