//! One turn for a pool: observe → prove → judge → patch, then the reservations.
//!
//! The turn works for all cases of its batch at once. When it is done with the rows it says so, and the next one
//! begins while the reservations of this one are released. It writes only what [`Proof::release`] let
//! go, and it never loops on an answer: a case that is not settled within the turn goes back to the planner.
//!
//! [`Proof::release`]: ipgc_core::proof::Proof::release

mod report;
mod reservations;
mod rows;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use ipgc_core::{
    batch::Batch,
    cases::Outcome,
    patch::{Answer, FreePatch, MAX_ROWS},
    plan::Input,
    podref::PodRef,
    pool::{ObservedPool, PoolKey, Row, RowContent},
    proof::Presence,
    time::Moment,
    work::{Removed, Works},
};
use jiff::Timestamp;
use tokio::{sync::mpsc, time::Instant};
use tracing::{debug, warn};

use super::{context::Context, gate::Access};
use crate::{access::Right, api::IpPool, calls::CallError};

/// Patches in one turn: enough to find one refused row among thousands by halving, bounded so that
/// no turn is endless.
const MAX_PATCHES: usize = 64;

/// How often a row that the breaker stops is looked at: a person may acknowledge the finding.
const LOOK_FOR_ACK: Duration = Duration::from_mins(1);
/// Leases stay of interest for so long after the wait of a row: its free is not instant.
const LINGER: Duration = Duration::from_secs(30);

/// Works for all cases of a batch. The `answers` tell the outcome of each.
pub async fn work(context: &Arc<Context>, batch: Batch, answers: &mpsc::UnboundedSender<Input>) {
    let pool = batch.pool.clone();
    let mut turn = Turn::new(context, &pool, batch);
    // The failure of the turn. It is added to the outcome of each case that has rows.
    let all = turn.free_rows().await.err().unwrap_or_default();
    turn.report_freed();
    let tell = |answer| {
        // Nobody listens any more when we are shutting down.
        let _ = answers.send(answer);
    };
    tell(Input::RowsDone {
        pool: pool.clone(),
        took: turn.took,
    });
    if turn.stands_by {
        // This copy does not lead. While it waits, the planner works on other pools, so that their rows are first seen
        // early.
        context.stood_by().await;
    }
    // A case that waits for a moment or a node does not miss it for the reservations of others.
    let without = turn.batch.take_without_reservations();
    tell(turn.finish(without, &all));
    turn.free_reservations().await;
    let left = std::mem::take(&mut turn.batch.works);
    tell(turn.finish(left, &all));
}

struct Turn<'t> {
    context: &'t Arc<Context>,
    key: &'t PoolKey,
    batch: Batch,
    /// The outcome for a podref, where it is not simply done.
    outcomes: BTreeMap<PodRef, Outcome>,
    /// Rows of the last patch, if it was rejected.
    rejected: Vec<Row>,
    /// Rows to a patch, fewer while we look for the one that makes it fail.
    limit: usize,
    /// Keys of rows that the server refuses to remove.
    refused: HashSet<Box<str>>,
    /// Rows found to be gone in this turn.
    freed: Vec<Removed>,
    /// The uid of the pool, if it was there.
    uid: String,
    /// When a person acknowledged the rows of the pool, as it was observed last.
    acknowledged: Option<Timestamp>,
    /// The sandboxes of the rows that were observed, by owner and address.
    sandboxes: HashMap<(PodRef, IpAddr), Box<str>>,
    /// Whether the pool was observed, or is gone: nothing is known of its rows otherwise.
    is_observed: bool,
    /// Whether rows may go, and another copy leads.
    stands_by: bool,
    /// When the turn began: no later news of the watch is in the work.
    since: Moment,
    /// How long the requests on the pool took.
    took: Duration,
    /// How often the API server's data had gone back in time when the turn began.
    epoch: u64,
}

impl<'t> Turn<'t> {
    fn new(context: &'t Arc<Context>, key: &'t PoolKey, mut batch: Batch) -> Self {
        let since = context.clock.now();
        let evidence = context.evidence();
        // The end of an incarnation may have led to other pools, or to none.
        for (podref, work) in &mut batch.works {
            work.look(&evidence.pods.ended(podref), evidence.pods.listed_at);
        }
        drop(evidence);
        Self {
            context,
            key,
            batch,
            outcomes: BTreeMap::new(),
            rejected: Vec::new(),
            limit: MAX_ROWS,
            refused: HashSet::new(),
            freed: Vec::new(),
            uid: String::new(),
            acknowledged: None,
            sandboxes: HashMap::new(),
            is_observed: false,
            stands_by: false,
            since,
            took: Duration::ZERO,
            epoch: context.history.epoch(),
        }
    }

    /// Observes and removes until nothing is left that may go now.
    async fn free_rows(&mut self) -> Result<(), Outcome> {
        for _ in 0..MAX_PATCHES {
            if self.context.stop.is_cancelled() {
                return Err(Outcome::postponed(Duration::ZERO));
            }
            self.outcomes.clear();
            // While we are refused, all come back at one moment, and one of them tries.
            let wait = self.context.gate.wait();
            if !wait.is_zero() {
                return Err(Outcome::postponed(wait));
            }
            let Some(observed) = self.observe().await? else {
                self.freed.extend(self.batch.confirm_all());
                return Ok(());
            };
            self.freed.extend(self.batch.confirm_missing(&observed));
            self.learn_from_rejection(&observed);
            let (due, rest_on_nodes) = self.due(&observed);
            if self.context.closing.is_cancelled() {
                // Rows that are still there were not removed, so no reservation of theirs is marked.
                self.batch.give_up_attempts();
                for podref in due.keys() {
                    self.too_late(podref);
                }
                return Ok(());
            }
            if due.is_empty() {
                return Ok(());
            }
            let rows = observed.rows().iter().filter_map(|row| row.content().ok());
            let mut rows = rows.filter(|row| due.contains_key(&row.podref));
            let has_resource_claims = rows.any(|row| row.resource_claim().is_some());
            let ticket = observed.begin_proof();
            let proof = self.context.prove(ticket, &due, has_resource_claims).await;
            if self.context.stop.is_cancelled() {
                return Err(Outcome::postponed(Duration::ZERO));
            }
            let mut known = self.known(&observed);
            known.retain(|podref, known| {
                known.rests_on_nodes = rest_on_nodes.contains(podref);
                due.contains_key(podref)
            });
            let others = self.others(&observed, &due);
            let read = self.read_nodes(Some(self.key), &known, &others).await;
            read.map_err(|error| self.failure(Access::Read, "read a node", &error))?;
            // A proof from the time before is worth nothing.
            if self.context.history.epoch() != self.epoch {
                return Err(Outcome::postponed(Duration::ZERO));
            }
            let mut releases = self.judge(&proof, &due);
            // It may have been noticed while the rows were judged.
            if self.context.history.epoch() != self.epoch {
                return Err(Outcome::postponed(Duration::ZERO));
            }
            let more = releases.len() > self.limit;
            releases.truncate(self.limit);
            if releases.is_empty() {
                return Ok(());
            }
            if self.context.config.dry_run {
                self.would_free(&releases);
                return Ok(());
            }
            if !self.context.is_leader() {
                self.stands_by = true;
                // It waits first; what it found is old then.
                return Err(Outcome::postponed(Duration::ZERO));
            }
            if let Some(until) = self.context.gate.backs_off_until(&self.right()) {
                return Err(Outcome::not_before(until));
            }
            let patch = FreePatch::new(&proof, releases);
            let context = self.context;
            // As the pool itself tells.
            let networks = context.networks_of(&observed).into();
            let living = |podref: &PodRef| match proof.presence(podref) {
                Presence::Present(Some(pod)) => Some(pod.uid.clone()),
                _ => None,
            };
            let asked = patch.releases();
            self.batch
                .note_attempt(asked, &networks, &context.evidence(), living);
            self.context.counters.patch(patch.releases().len());
            let begun = Instant::now();
            let answer = self.context.free(self.key, &patch).await;
            self.took(begun.elapsed(), answer.as_ref().err());
            match answer {
                Ok(()) => {
                    self.context.gate.passed(&self.right());
                    self.freed.extend(self.batch.confirm(patch.releases()));
                    if !more {
                        return Ok(());
                    }
                }
                Err(error) => self.take_refusal(&error, &patch).await?,
            }
        }
        let reason = "the pool changes all the time".to_owned();
        Err(Outcome::retry(reason, Duration::ZERO))
    }

    /// Reads the pool; `None` when it is gone, and all rows with it.
    async fn observe(&mut self) -> Result<Option<ObservedPool>, Outcome> {
        self.is_observed = false;
        let podrefs = self.batch.podrefs();
        let observed = self.context.observe_with_permit(self.key, &podrefs);
        let Some((observed, took)) = self.context.stop.run_until_cancelled(observed).await else {
            return Err(Outcome::postponed(Duration::ZERO));
        };
        self.took(took, observed.as_ref().err());
        match observed {
            Ok(Some(observed)) => {
                self.is_observed = true;
                let rows = observed.rows().iter().filter_map(|row| row.content().ok());
                let of = |row: &RowContent| (row.podref.clone(), row.address);
                let sandboxes = rows.map(|row| (of(row), row.sandbox.clone()));
                self.sandboxes = sandboxes.collect();
                observed.uid().clone_into(&mut self.uid);
                self.acknowledged = observed.acknowledged;
                Ok(Some(observed))
            }
            Ok(None) => {
                self.is_observed = true;
                debug!(pool = %self.key, "pool is gone");
                Ok(None)
            }
            Err(error) => {
                // No API server sends what is no pool; what spoiled it may pass.
                if matches!(error, CallError::Unreadable(_)) {
                    self.context.counters.pools_unreadable.inc();
                }
                Err(self.failure(Access::Read, "observe the pool", &error))
            }
        }
    }

    /// A request on the pool ended. One that was never answered says nothing of what it costs.
    fn took(&mut self, took: Duration, failure: Option<&CallError>) {
        if !matches!(failure, Some(CallError::Deadline(_))) {
            self.took += took;
        }
    }

    /// Learns from the rejection of the last patch, now that the pool was observed again. One failed
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

    /// The server refuses to free this row alone.
    fn refuse(&mut self, row: &Row, reason: &str) {
        self.context.counters.frees_refused.inc();
        warn!(pool = %self.key, key = row.key(), row = %row.stored(), reason, "the server refuses to free a row");
        self.report_refused(reason);
        self.refused.insert(row.key().into());
    }

    /// The server refuses what the pool would be without these rows.
    fn refuse_all(&mut self, patch: &FreePatch<'_>, reason: &str) -> Outcome {
        self.batch.forget_attempt(patch.releases());
        if self.report_refused(reason) {
            let rows = patch.releases().len();
            self.context.counters.frees_refused.inc_by(rows as u64);
            warn!(pool = %self.key, rows, reason, "the server refuses to free rows");
        }
        Outcome::not_before(self.context.gate.back_off(self.right()))
    }

    fn right(&self) -> Right {
        Right::on_one::<IpPool>("patch", &self.key.namespace, &self.key.name)
    }

    /// Takes in an answer other than 200 to a patch.
    async fn take_refusal(
        &mut self,
        error: &CallError,
        patch: &FreePatch<'_>,
    ) -> Result<(), Outcome> {
        match error.answer() {
            // The pool is gone, and the next observation says so.
            Answer::Gone if error.is_absence_of::<IpPool>(&self.key.name) => Ok(()),
            Answer::Refused => Err(self.refuse_all(patch, &error.to_string())),
            Answer::Forbidden
                if self
                    .context
                    .gate
                    .is_about_object(&self.right(), error)
                    .await =>
            {
                Err(self.refuse_all(patch, &error.to_string()))
            }
            Answer::Rejected => {
                self.batch.forget_attempt(patch.releases());
                let rows = patch.releases().iter().map(|release| release.row().clone());
                self.rejected = rows.collect();
                Ok(())
            }
            Answer::TooLarge => {
                self.batch.forget_attempt(patch.releases());
                if let [release] = patch.releases() {
                    self.refuse(release.row(), &error.to_string());
                }
                self.limit = (patch.releases().len() / 2).max(1);
                Ok(())
            }
            answer => {
                // Rows that are gone after a clear no, others removed.
                if matches!(answer, Answer::Forbidden) {
                    self.batch.forget_attempt(patch.releases());
                }
                Err(self.failure(Access::Write, "remove rows", error))
            }
        }
    }

    /// A request failed.
    fn failure(&self, access: Access, what: &'static str, error: &CallError) -> Outcome {
        self.context.gate.failed(access, what, error);
        let reason = format!("could not {what}: {error}");
        self.retry(reason, error.retry_after().unwrap_or_default())
    }

    /// A failure, or no failure but a refusal, after which all has to wait.
    fn retry(&self, reason: String, at_least: Duration) -> Outcome {
        let wait = self.context.gate.wait();
        if wait.is_zero() {
            Outcome::retry(reason, at_least)
        } else {
            Outcome::postponed(wait)
        }
    }

    /// Each of these cases, with its outcome and what becomes of `all`.
    fn finish(&self, works: Works, all: &Outcome) -> Input {
        let owners: HashSet<_> = self.sandboxes.keys().map(|(owner, _)| owner).collect();
        let outcome = |podref: &PodRef| {
            let own = self.outcomes.get(podref).cloned();
            let own = own.unwrap_or_default();
            // The turn failed with the rows of others.
            if self.is_observed && !owners.contains(podref) {
                return own;
            }
            own.and(all.clone())
        };
        let cases = works.into_iter().map(|(podref, work)| {
            let outcome = outcome(&podref);
            (podref, work, outcome)
        });
        Input::CasesDone(self.key.clone(), cases.collect())
    }

    /// Something may go, and is left since the run is about to end.
    fn too_late(&mut self, podref: &PodRef) {
        let later = self.context.clock.now() + Duration::from_hours(1);
        self.outcome(podref, Outcome::not_before(later));
    }

    fn outcome(&mut self, podref: &PodRef, outcome: Outcome) {
        let all = self.outcomes.remove(podref).unwrap_or_default();
        self.outcomes.insert(podref.clone(), all.and(outcome));
    }
}
