//! One turn of a pool's writer: observe → prove → judge → patch, then the reservations.
//!
//! The turn works for all its jobs at once. It writes only what [`Proof::release`] let go, and it
//! never loops on an answer: whatever is not settled within the turn goes back to the queue.
//!
//! [`Proof::release`]: ipgc_core::proof::Proof::release

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use ipgc_core::{
    address::excerpt,
    evidence::{Ended, free_time},
    judge::{Release, Unknown, Verdict},
    patch::{Answer, FreePatch, MAX_ROWS},
    podref::PodRef,
    pool::{ObservedPool, PoolKey, Row},
    proof::Presence,
    time::Moment,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{
    context::Context,
    item::{Item, Removed},
    job::{Job, Outcome},
    jobs::{Jobs, Known},
    pool_api::ObserveError,
    reservations::Wanted,
    resolve::Route,
};
use crate::{api::IpPool, calls::CallError};

/// Patches in one turn: enough to find one refused row among thousands by halving, bounded so that
/// no turn is endless.
const MAX_ROUNDS: usize = 64;

/// Wait for a watch that is not fresh.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// Why a turn ended early.
enum Failure {
    Retry { reason: String, at_least: Duration },
    Postponed(Duration),
}

/// Works off all jobs of one pool and tells each its outcome.
pub async fn work(context: &Context, stop: &CancellationToken, key: &PoolKey, jobs: Vec<Job>) {
    let mut turn = Turn::new(context, stop, key, jobs);
    let freed = turn.free_rows().await;
    turn.report_freed();
    turn.free_reservations().await;
    turn.finish(freed);
}

struct Turn<'t> {
    context: &'t Context,
    stop: &'t CancellationToken,
    key: &'t PoolKey,
    jobs: Jobs,
    podrefs: BTreeSet<PodRef>,
    /// What becomes of a podref, where it is not simply done.
    outcomes: BTreeMap<PodRef, Outcome>,
    /// Rows of the last patch, if it was rejected.
    rejected: Vec<Row>,
    /// Rows to a patch, fewer while we look for the one that makes it fail.
    limit: usize,
    /// Keys of rows that the server refuses to remove.
    refused: HashSet<Box<str>>,
    /// Rows found to be gone in this turn, and the incarnation that they were freed for.
    freed: Vec<(Arc<Item>, Removed)>,
    pool_uid: String,
}

impl<'t> Turn<'t> {
    fn new(
        context: &'t Context,
        stop: &'t CancellationToken,
        key: &'t PoolKey,
        jobs: Vec<Job>,
    ) -> Self {
        let jobs = Jobs::new(key, jobs);
        Self {
            context,
            stop,
            key,
            podrefs: jobs.podrefs(),
            jobs,
            outcomes: BTreeMap::new(),
            rejected: Vec::new(),
            limit: MAX_ROWS,
            refused: HashSet::new(),
            freed: Vec::new(),
            pool_uid: String::new(),
        }
    }

    /// Observes and removes until nothing is left that may go now.
    async fn free_rows(&mut self) -> Result<(), Failure> {
        for _ in 0..MAX_ROUNDS {
            if self.stop.is_cancelled() {
                return Err(Failure::Postponed(Duration::ZERO));
            }
            self.outcomes.clear();
            let Some(observed) = self.observe().await? else {
                self.freed.extend(self.jobs.confirm_all());
                return Ok(());
            };
            self.freed.extend(self.jobs.confirm_missing(&observed));
            self.learn_from_rejection(&observed);
            let due = self.due(&observed);
            if due.is_empty() {
                return Ok(());
            }
            let wait = self.context.gate.wait();
            if !wait.is_zero() {
                return Err(Failure::Postponed(wait));
            }
            let proof = self
                .context
                .prover
                .prove(observed.begin_proof(), &due)
                .await;
            let mut releases = self.judge(&proof, &due);
            let more = releases.len() > self.limit;
            releases.truncate(self.limit);
            if releases.is_empty() {
                return Ok(());
            }
            let patch = FreePatch::new(&proof, releases);
            self.jobs.note_attempt(patch.releases());
            self.context.counters.patches_sent.increment();
            match self.context.pools.free(self.key, &patch).await {
                Ok(()) => {
                    self.context.gate.passed();
                    self.limit = MAX_ROWS;
                    self.freed.extend(self.jobs.confirm(patch.releases()));
                    if !more {
                        return Ok(());
                    }
                }
                Err(error) => self.take_refusal(&error, &patch)?,
            }
        }
        Err(Failure::Retry {
            reason: "the pool changes all the time".to_owned(),
            at_least: Duration::ZERO,
        })
    }

    /// Reads the pool; `None` when it is gone, and all rows with it.
    async fn observe(&mut self) -> Result<Option<ObservedPool>, Failure> {
        match self.context.pools.observe(self.key, &self.podrefs).await {
            Ok(Some(observed)) => {
                observed.uid().clone_into(&mut self.pool_uid);
                Ok(Some(observed))
            }
            Ok(None) => {
                debug!(pool = %self.key, "pool is gone");
                Ok(None)
            }
            Err(ObserveError::Unreadable(reason)) => {
                // No API server sends such a pool; what spoiled it may pass.
                self.context.counters.pools_unreadable.increment();
                Err(Failure::Retry {
                    reason: format!("could not observe pool {}: {reason}", self.key),
                    at_least: Duration::ZERO,
                })
            }
            Err(ObserveError::Call(error)) => Err(self.failure("observe the pool", &error)),
        }
    }

    /// What the rejection of the last patch means, now that the pool was observed again. One failed
    /// test rejects the whole patch. Has one of its rows changed, that was it, and the rest goes
    /// again. Otherwise half of it goes again, until a single row is left that the server refuses.
    fn learn_from_rejection(&mut self, observed: &ObservedPool) {
        let rejected = std::mem::take(&mut self.rejected);
        let rows: BTreeMap<_, _> = observed
            .rows()
            .iter()
            .map(|r| (r.key(), r.stored()))
            .collect();
        let unchanged = |row: &Row| rows.get(row.key()) == Some(&row.stored());
        if rejected.is_empty() || !rejected.iter().all(unchanged) {
            return;
        }
        if let [row] = &rejected[..] {
            self.refuse(row, "rejected although the row is unchanged");
            self.limit = MAX_ROWS;
        } else {
            self.limit = rejected.len() / 2;
        }
    }

    fn refuse(&mut self, row: &Row, reason: &str) {
        self.context.counters.frees_refused.increment();
        warn!(pool = %self.key, key = row.key(), row = %row.stored(), reason, "the server refuses to free a row");
        self.refused.insert(row.key().into());
    }

    /// The podrefs of which a row may go now, as far as evidence alone tells. For the others no
    /// proof is needed yet.
    fn due(&mut self, observed: &ObservedPool) -> BTreeSet<PodRef> {
        let now = self.context.clock.now();
        let known = self.known(observed);
        let mut due = BTreeSet::new();
        for row in observed.rows() {
            if self.refused.contains(row.key()) {
                continue;
            }
            let content = match row.content() {
                Ok(content) => content,
                Err(reason) => {
                    self.unknown(row, &Unknown::Unreadable(reason.clone()));
                    continue;
                }
            };
            let Some(Known { ended, rows, .. }) = known.get(&content.podref) else {
                continue;
            };
            match free_time(content, ended, *rows, &self.context.policy) {
                Some((_, free_at)) if free_at > now => self.not_before(&content.podref, free_at),
                _ => {
                    due.insert(content.podref.clone());
                }
            }
        }
        due
    }

    /// The rows that may go, judged one by one. What is not let go is noted.
    fn judge<'p>(
        &mut self,
        proof: &ipgc_core::proof::Proof<'p>,
        due: &BTreeSet<PodRef>,
    ) -> Vec<Release<'p>> {
        let observed = proof.observed();
        let now = self.context.clock.now();
        // Once more: an incarnation may have ended since the observation.
        let known = self.known(observed);
        let mut releases = Vec::new();
        for row in observed.rows() {
            let Ok(content) = row.content() else { continue };
            let podref = &content.podref;
            if !due.contains(podref) || self.refused.contains(row.key()) {
                continue;
            }
            let Some(Known { ended, rows, live }) = known.get(podref) else {
                continue;
            };
            if *live && matches!(proof.presence(podref), Presence::Absent) {
                self.not_before(podref, now + self.context.policy.cooldown);
                continue;
            }
            match proof.release(row, ended, *rows, &self.context.policy, now) {
                Ok(release) => releases.push(release),
                Err(Verdict::Stale(stale)) => self.not_before(podref, stale.free_at),
                Err(Verdict::Held(reason)) => {
                    debug!(pool = %self.key, address = %content.address, %podref, %reason, "held");
                }
                Err(Verdict::Unknown(Unknown::NoProof(reason))) => {
                    let reason = format!("pod {podref} could not be read: {reason}");
                    self.failed(podref, reason);
                }
                Err(Verdict::Unknown(reason)) => self.unknown(row, &reason),
            }
        }
        releases
    }

    /// What an answer other than 200 means for the rest of the turn.
    fn take_refusal(&mut self, error: &CallError, patch: &FreePatch<'_>) -> Result<(), Failure> {
        match error.answer() {
            // The pool is gone, and the next observation says so.
            Answer::Gone if error.is_absence_of::<IpPool>(&self.key.name) => Ok(()),
            Answer::Rejected if error.names_fields() => {
                self.jobs.forget_attempt(patch.releases());
                for release in patch.releases() {
                    self.refuse(release.row(), &error.to_string());
                }
                Ok(())
            }
            Answer::Rejected => {
                self.jobs.forget_attempt(patch.releases());
                let rows = patch.releases().iter().map(|release| release.row().clone());
                self.rejected = rows.collect();
                Ok(())
            }
            Answer::TooLarge => {
                self.jobs.forget_attempt(patch.releases());
                if let [release] = patch.releases() {
                    self.refuse(release.row(), &error.to_string());
                }
                self.limit = (patch.releases().len() / 2).max(1);
                Ok(())
            }
            Answer::Done | Answer::Gone | Answer::Forbidden | Answer::Unclear => {
                Err(self.failure("remove rows", error))
            }
        }
    }

    fn failure(&self, what: &str, error: &CallError) -> Failure {
        if error.answer() == Answer::Forbidden {
            self.context.gate.refused(what, error);
            return Failure::Postponed(self.context.gate.wait());
        }
        Failure::Retry {
            reason: format!("could not {what}: {error}"),
            at_least: error.retry_after().unwrap_or(Duration::ZERO),
        }
    }

    /// Log, count and events for what is really gone.
    fn report_freed(&self) {
        let Context {
            counters, events, ..
        } = self.context;
        let mut of_pool = Vec::new();
        for (item, removed) in &self.freed {
            let ended = item.ended();
            let row = &removed.content;
            counters.rows_freed.increment();
            info!(
                pool = %self.key,
                key = removed.row.key(),
                address = %row.address,
                podref = %row.podref,
                uid = %ended.last.uid,
                interface = row.interface.as_deref(),
                sandbox = %row.sandbox,
                grade = removed.stale.grade.as_str(),
                cause = removed.stale.cause.as_str(),
                "freed row"
            );
            let network = network_of(ended, removed);
            events.address_collected(&row.podref, &ended.last.uid, row.address, network);
            of_pool.push((row.address, row.podref.clone()));
        }
        if !of_pool.is_empty() {
            events.pool_collected(self.key, &self.pool_uid, &of_pool);
        }
    }

    /// The reservations follow their rows, those of earlier tries included.
    async fn free_reservations(&mut self) {
        let gone = self.jobs.gone().into_iter();
        let wanted: Vec<_> = gone
            .map(|(item, removed)| Wanted {
                networks: removed.routes.iter().map(|r| r.network.clone()).collect(),
                name_may_return: item.ended().last.name_may_return,
                row: removed.content,
            })
            .collect();
        if wanted.is_empty() {
            return;
        }
        let gate = &self.context.gate;
        let wait = gate.wait();
        if !wait.is_zero() {
            for wanted in wanted {
                self.outcome(&wanted.row.podref, Outcome::Postponed(wait));
            }
            return;
        }
        let namespace = &self.key.namespace;
        let outcome = self
            .context
            .reservations
            .release(namespace, &wanted, self.stop)
            .await;
        self.context
            .counters
            .reservations_freed
            .add(outcome.deleted);
        if let Some(error) = &outcome.forbidden {
            gate.refused("release reservations", error);
        } else if outcome.deleted > 0 {
            gate.passed();
        }
        let mut failed = BTreeSet::new();
        let wait = gate.wait();
        for podref in outcome.refused {
            self.outcome(&podref, Outcome::Postponed(wait));
            failed.insert(podref);
        }
        for (podref, reason) in outcome.failed {
            let reason = format!("could not release a reservation: {reason}");
            self.failed(&podref, reason);
            failed.insert(podref);
        }
        self.jobs.reservations_done(&failed);
    }

    /// Tells each job what became of it.
    fn finish(self, freed: Result<(), Failure>) {
        let common = match freed {
            Ok(()) => Outcome::Done,
            Err(Failure::Retry { reason, at_least }) => Outcome::Retry {
                reason,
                at_least,
                later: None,
            },
            Err(Failure::Postponed(wait)) => Outcome::Postponed(wait),
        };
        self.jobs.finish(|podref| {
            let own = self.outcomes.get(podref).cloned();
            own.unwrap_or(Outcome::Done).and(common.clone())
        });
    }

    fn unknown(&self, row: &Row, reason: &Unknown) {
        if self.context.is_news(&self.pool_uid, row.key()) {
            self.context.counters.rows_unknown.increment();
            let key = excerpt(row.key());
            let podref = row.podref_text().map(excerpt);
            warn!(pool = %self.key, key, podref, %reason, "row kept");
        }
    }

    fn known(&self, observed: &ObservedPool) -> HashMap<PodRef, Known> {
        let fresh = self.context.freshness.is_fresh();
        let now = self.context.clock.now();
        self.jobs.known(&self.context.index, fresh, now, observed)
    }

    fn not_before(&mut self, podref: &PodRef, free_at: Moment) {
        // A watch that is heard again may settle what now has to wait.
        let free_at = if self.context.freshness.is_fresh() {
            free_at
        } else {
            free_at.min(self.context.clock.now() + LISTEN_AGAIN)
        };
        self.outcome(podref, Outcome::NotBefore(free_at));
    }

    /// A failure, or no failure but a refusal, after which all has to wait.
    fn failed(&mut self, podref: &PodRef, reason: String) {
        let wait = self.context.gate.wait();
        let outcome = if wait.is_zero() {
            Outcome::retry(reason)
        } else {
            Outcome::Postponed(wait)
        };
        self.outcome(podref, outcome);
    }

    fn outcome(&mut self, podref: &PodRef, outcome: Outcome) {
        let all = self.outcomes.remove(podref).unwrap_or(Outcome::Done);
        self.outcomes.insert(podref.clone(), all.and(outcome));
    }
}

/// Name of the definition that a row belongs to, without its namespace, as upstream's event has it.
fn network_of<'r>(ended: &'r Ended, removed: &'r Removed) -> &'r str {
    let row = &removed.content;
    let reported = row
        .interface
        .as_deref()
        .and_then(|interface| ended.last.status.reported(interface, row.address))
        .map(|entry| &*entry.network);
    let routed = || {
        removed
            .routes
            .first()
            .map(|route: &Route| &*route.definition)
    };
    let full = reported.or_else(routed).unwrap_or_default();
    full.rsplit_once('/').map_or(full, |(_, name)| name)
}
