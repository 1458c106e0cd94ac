//! The rows that may be freed: first by the watch, then by the proof.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use ipgc_core::{
    breaker::Open,
    cases::Outcome,
    clearance::{Clearance, LOOK_AGAIN, Wait},
    evidence::Grade,
    judge::{Cause, Held, Release, Stale, Unknown, Verdict},
    known::Known,
    node::{Node, Nodes},
    podref::PodRef,
    pods::Others,
    pool::{ObservedPool, PoolKey, Row, RowContent},
    proof::{Presence, Proof},
    time::Moment,
};
use tokio::time::timeout;
use tracing::debug;

use super::{LINGER, LOOK_FOR_ACK, Turn};
use crate::{
    calls::{CallError, SLOW},
    clock::wall,
    collect::prover::Asked,
};

impl Turn<'_> {
    /// The facts about the owners at this moment.
    pub(super) fn known(&self, observed: &ObservedPool) -> HashMap<PodRef, Known> {
        let evidence = self.context.evidence();
        let is_heard = self.context.freshness.is_fresh();
        self.batch.known(&evidence, observed, is_heard)
    }

    /// The podrefs of which a row may go now, as far as the watch tells, and those of rows that begin a long wait. For the
    /// others no proof is needed yet. Beside them those of rows that go for more than a settled end.
    pub(super) fn due(&mut self, observed: &ObservedPool) -> (Asked, HashSet<PodRef>) {
        let now = self.context.clock.now();
        let known = self.known(observed);
        let mut due = Asked::new();
        let mut rest_on_nodes = HashSet::new();
        for row in observed.rows() {
            if self.refused.contains(row.key()) {
                continue;
            }
            let content = match row.content() {
                Ok(content) => content,
                Err(reason) => {
                    let reason = Unknown::Unreadable(reason.clone());
                    self.context.report_unknown(observed, row, &reason);
                    continue;
                }
            };
            let podref = &content.podref;
            let Some(known) = known.get(podref) else {
                continue;
            };
            // Whether other pods have the address is asked when it is about to go.
            match self.context.presume(observed, row, known, now) {
                Verdict::Stale(stale) => {
                    let seen = self
                        .context
                        .evidence()
                        .first_seen
                        .see(observed.uid(), row, now);
                    let grade = stale.clearance.grade;
                    if grade != Grade::Settled {
                        rest_on_nodes.insert(podref.clone());
                    }
                    if stale.is_free(now) {
                        let with_state = due.entry(podref.clone()).or_default();
                        *with_state |= stale.cause != Cause::Deleted;
                        continue;
                    }
                    self.wait(podref, row.key(), &stale);
                    // Once during a long wait: that of a ResourceClaim, or of a pod that no watch showed, begins with the
                    // proof that it is absent; and should its pod come back, the row is known to be none of its own (rule 6).
                    let long = stale.cause == Cause::Deleted && grade != Grade::Settled;
                    let is_of_claim = content.resource_claim().is_some();
                    let is_unwitnessed = is_of_claim || grade == Grade::Unwitnessed;
                    let tells = is_unwitnessed || known.name_may_return();
                    if long && seen.while_absent.is_none() && tells {
                        due.entry(podref.clone()).or_default();
                    }
                }
                Verdict::Held(reason) => self.held(row, content, &reason),
                Verdict::Unknown(reason) => self.context.report_unknown(observed, row, &reason),
            }
        }
        (due, rest_on_nodes)
    }

    fn held(&self, row: &Row, content: &RowContent, reason: &Held) {
        let (address, podref) = (content.address, &content.podref);
        debug!(pool = %self.key, %address, %podref, %reason, "held");
        let now = self.context.clock.now();
        self.context.see_held(&self.uid, row, content, now);
        self.context
            .report_in_use(self.key, &self.uid, content, reason);
    }

    /// That a node is at work, gone or fenced counts only if it is so now, whatever its watch did not tell. The rows are in
    /// this pool, if a pool tells on which nodes their pods were.
    pub(super) async fn read_nodes(
        &self,
        pool: Option<&PoolKey>,
        known: &HashMap<PodRef, Known>,
        others: &Others,
    ) -> Result<(), CallError> {
        let context = self.context;
        let names = || {
            let now = context.clock.now();
            let evidence = context.evidence();
            evidence.nodes_to_read(pool, known.iter(), others, now)
        };
        // The pods of a ResourceClaim may be on any node, also on one that the watch has not told.
        let all = known.values().any(|known| known.has_resource_claims);
        if names().is_empty() && !all {
            return Ok(());
        }
        // Where a read hangs, others do not wait for its end: they need not be about the same node.
        let _turn = timeout(SLOW, context.reading_nodes.acquire()).await;
        let names = names();
        let state = |nodes: &Nodes, name: &str| nodes.get(name).and_then(Node::state).cloned();
        let before: BTreeMap<_, _> = {
            let evidence = context.evidence();
            let names = names.iter();
            names
                .map(|name| (name.clone(), state(&evidence.nodes, name)))
                .collect()
        };
        let asked = context.clock.now();
        let read = context.read_nodes(&names, all).await?;
        let now = context.clock.now();
        let evidence = &mut *context.evidence();
        for (name, read) in read {
            // The watch may have told something newer meanwhile.
            let known = state(&evidence.nodes, &name);
            let is_as_before = match (before.get(&*name), &known) {
                (Some(Some(before)), Some(known)) => before.says_the_same(known),
                (Some(before), known) => before == known,
                (None, known) => known.is_none(),
            };
            if is_as_before {
                evidence.note_node(&name, read, true, now);
                evidence.nodes.confirm_fence(&name, asked);
            }
        }
        Ok(())
    }

    pub(super) fn others(&self, observed: &ObservedPool, due: &Asked) -> Others {
        let rows = observed.rows().iter().filter_map(|row| row.content().ok());
        let rows = rows.filter(|row| due.contains_key(&row.podref));
        self.context.evidence().pods.others(rows)
    }

    /// The rows that may go, judged one by one. Why the others stay is noted.
    pub(super) fn judge<'p>(&mut self, proof: &Proof<'p>, due: &Asked) -> Vec<Release<'p>> {
        let observed = proof.observed();
        let now = self.context.clock.now();
        // Once more: an incarnation may have ended since the observation.
        let known = self.known(observed);
        let others = self.others(observed, due);
        let mut releases = Vec::new();
        for row in observed.rows() {
            let Ok(content) = row.content() else { continue };
            let podref = &content.podref;
            if !due.contains_key(podref) || self.refused.contains(row.key()) {
                continue;
            }
            let Some(known) = known.get(podref) else {
                continue;
            };
            if matches!(proof.owner(content), Presence::Absent) {
                let first_seen = &mut self.context.evidence().first_seen;
                first_seen.see_absent(observed.uid(), row, now);
            }
            let evidence = self.context.evidence();
            let sighting = evidence.first_seen.get(observed.uid(), row);
            let networks = evidence.networks_of(observed.key(), observed.range);
            let of_pool = (observed.key(), observed.range, &networks);
            let others = others.of(content);
            let facts = evidence.facts(of_pool, sighting, known, &others, now);
            let answer = proof.release(row, &facts);
            drop(evidence);
            match answer {
                Ok(release) => {
                    let clearance = &release.stale().clearance;
                    let since = sighting.map_or(now, |seen| seen.first);
                    let acknowledged = observed.acknowledged;
                    let at = (now, wall());
                    let evidence = self.context.evidence();
                    let checked = evidence.check_breaker(since, acknowledged, clearance, at);
                    drop(evidence);
                    match checked {
                        Ok(()) => releases.push(release),
                        Err(open) => self.stopped(podref, row.key(), open, now),
                    }
                }
                Err(Verdict::Stale(stale)) => self.wait(podref, row.key(), &stale),
                Err(Verdict::Held(reason)) => self.held(row, content, &reason),
                Err(Verdict::Unknown(Unknown::NoProof(reason))) => {
                    let reason = format!("pod {podref} could not be read: {reason}");
                    self.outcome(podref, self.retry(reason, Duration::ZERO));
                }
                Err(Verdict::Unknown(reason)) => {
                    self.context.report_unknown(observed, row, &reason);
                }
            }
        }
        releases
    }

    /// Something waits, and is looked at again when its wait is over. That it waits for a node is told once.
    pub(super) fn wait(&mut self, podref: &PodRef, key: &str, stale: &Stale) {
        let now = self.context.clock.now();
        let (cause, wait) = (stale.cause.as_str(), &stale.clearance.wait);
        let Clearance { grade, endless, .. } = &stale.clearance;
        debug!(pool = %self.key, key, %podref, cause, ?grade, ?wait, ?endless, "not free to go yet");
        let Wait { until, nodes } = match endless {
            // Until then its DEL may be on its way.
            Some(since) if *since > now => &Wait::until(*since),
            _ => wait,
        };
        let outcome = match until {
            _ if !nodes.is_empty() => {
                self.report_held(key, podref, &stale.clearance, nodes);
                Outcome::for_nodes(nodes, key, *until)
            }
            Some(moment) if *grade == Grade::Settled => Outcome::not_before(*moment),
            Some(moment) => {
                self.context.want_leases(*moment + LINGER);
                Outcome::not_before_or_fenced(*moment, self.nodes_of(podref))
            }
            // The nodes are not known.
            None => Outcome::not_before(now + LOOK_AGAIN),
        };
        self.outcome(podref, outcome);
    }

    /// The nodes that incarnations of this owner ended on, in the order of their names.
    fn nodes_of(&self, podref: &PodRef) -> Arc<[Box<str>]> {
        let known = self.context.evidence().pods.ended(podref);
        let ends = known.iter().chain(self.batch.ends(podref));
        let nodes: BTreeSet<Box<str>> = ends.filter_map(|end| end.last.node.clone()).collect();
        nodes.into_iter().collect()
    }

    /// The breaker stops a row.
    pub(super) fn stopped(&mut self, podref: &PodRef, key: &str, open: Open, now: Moment) {
        let again = match open {
            Open::NotAssessed => now + LOOK_AGAIN,
            Open::Until(moment) => {
                if self.context.is_news(&self.uid, &format!("breaker/{key}")) {
                    self.context.counters.frees_stopped.inc();
                }
                moment.min(now + LOOK_FOR_ACK)
            }
        };
        self.outcome(podref, Outcome::not_before(again));
    }
}
